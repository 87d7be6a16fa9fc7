/* Optimisers: parameters, their state, and the step. */
#include "train/optimizer.h"

#include "base/error.h"
#include "ingot/autocast.h"
#include "op/autocast.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const part_names[IG_STATE_PARTS] = {"m", "v", "rows", "columns", "ema"};

/* ---- options ----------------------------------------------------------------------------------- */

ig_optimizer_opts ig_optimizer_defaults(ig_rule rule)
{
    ig_optimizer_opts o = {.rule = rule,
                           .lr = 1e-3,
                           .beta1 = 0.9,
                           .beta2 = 0.999,
                           .eps = 1e-8,
                           .growth_interval = 2000};
    switch (rule) {
    case IG_RULE_SGD:
        o.lr = 1e-2;
        break;
    case IG_RULE_ADAM:
        break;
    case IG_RULE_ADAMW:
        o.weight_decay = 0.01;
        break;
    case IG_RULE_LION:
        o.lr = 1e-4;
        o.beta2 = 0.99;
        break;
    case IG_RULE_MUON:
        o.lr = 0.02;
        o.beta1 = 0.95;
        break;
    case IG_RULE_ADAFACTOR:
        o.lr = 1e-2;
        o.eps = 1e-30;
        break;
    }
    return o;
}

static ig_status check_range(const char *name, double value, double least, double most,
                             bool open, ig_error *err)
{
    if (value >= least && (open ? value < most : value <= most))
        return IG_OK;
    return ig__fail(err, IG_ERR_ARGUMENT, "optimizer: %s is %g, allowed is %g to %s%g",
                    name, value, least, open ? "below " : "", most);
}

static ig_status check_schedule(const ig_schedule *s, ig_error *err)
{
    IG_TRY(check_range("schedule.floor", s->floor, 0, 1, false, err));
    if (s->warmup < 0)
        return ig__fail(err, IG_ERR_ARGUMENT, "optimizer: schedule.warmup is %lld",
                        (long long)s->warmup);
    if ((s->kind == IG_SCHEDULE_LINEAR || s->kind == IG_SCHEDULE_COSINE) &&
        s->total <= s->warmup)
        return ig__fail(err, IG_ERR_ARGUMENT,
                        "optimizer: schedule.total is %lld, must be above warmup, %lld",
                        (long long)s->total, (long long)s->warmup);
    if (s->kind == IG_SCHEDULE_STABLE && (s->decay < 1 || s->decay > s->total - s->warmup))
        return ig__fail(
            err, IG_ERR_ARGUMENT,
            "optimizer: schedule.decay is %lld, allowed is 1 to total - warmup, "
            "%lld",
            (long long)s->decay, (long long)(s->total - s->warmup));
    return IG_OK;
}

static ig_status check_opts(const ig_optimizer_opts *o, ig_error *err)
{
    IG_TRY(check_range("lr", o->lr, 0, (double)INFINITY, true, err));
    IG_TRY(check_range("beta1", o->beta1, 0, 1, true, err));
    IG_TRY(check_range("beta2", o->beta2, 0, 1, true, err));
    IG_TRY(check_range("eps", o->eps, 0, (double)INFINITY, true, err));
    if (o->eps == 0 && (o->rule == IG_RULE_ADAM || o->rule == IG_RULE_ADAMW))
        return ig__fail(err, IG_ERR_ARGUMENT,
                        "optimizer: eps is 0, which makes NaN of a gradient of 0; "
                        "ig_optimizer_defaults has the usual numbers");
    IG_TRY(check_range("weight_decay", o->weight_decay, 0, (double)INFINITY, true, err));
    IG_TRY(check_range("momentum", o->momentum, 0, 1, true, err));
    IG_TRY(check_range("dampening", o->dampening, 0, 1, false, err));
    IG_TRY(check_range("clip_norm", o->clip_norm, 0, (double)INFINITY, true, err));
    IG_TRY(check_range("clip_value", o->clip_value, 0, (double)INFINITY, true, err));
    IG_TRY(check_range("loss_scale", o->loss_scale, 0, (double)INFINITY, true, err));
    IG_TRY(check_range("ema_decay", o->ema_decay, 0, 1, true, err));
    if (o->nesterov && (o->momentum <= 0 || o->dampening != 0))
        return ig__fail(err, IG_ERR_ARGUMENT,
                        "optimizer: nesterov wants momentum above 0 and dampening 0");
    if (o->dynamic_scale && (o->loss_scale <= 0 || o->growth_interval < 1))
        return ig__fail(err, IG_ERR_ARGUMENT,
                        "optimizer: dynamic_scale wants loss_scale above 0 and "
                        "growth_interval of 1 or more");
    return check_schedule(&o->schedule, err);
}

/* ---- make ---------------------------------------------------------------------------------------- */

/* A zero tensor that belongs to the optimiser. */
static ig_tensor *make_zeros(ig_context *ctx, ig_dtype dtype, int n_dims,
                             const int64_t *dims)
{
    ig_tensor *x = ig_zeros(ctx, dtype, n_dims, dims);
    return x ? ig__unscope(x) : NULL;
}

static ig_status failure(const ig_context *ctx, ig_error *err)
{
    if (err)
        *err = ctx->error;
    return ctx->error.status;
}

ig_status ig_optimizer_create(ig_optimizer **opt_out, ig_context *ctx,
                              const ig_optimizer_opts *opts, ig_error *err)
{
    *opt_out = NULL;
    if (!opts)
        return ig__fail(err, IG_ERR_ARGUMENT, "optimizer: its options are NULL");
    IG_TRY(check_opts(opts, err));
    if (ig__context_failed(ctx))
        return failure(ctx, err);
    ig_optimizer *opt = ig__alloc_zero(&ctx->allocator, sizeof *opt);
    if (!opt)
        return ig__fail_memory(err, "optimizer", sizeof *opt);
    opt->ctx = ctx;
    opt->opts = *opts;
    const int64_t n = IG_STEP_NUMBERS;
    opt->numbers = make_zeros(ctx, IG_DTYPE_F64, 1, &n);
    if (!opt->numbers) {
        ig_optimizer_destroy(opt);
        return failure(ctx, err);
    }
    double *numbers = (double *)(void *)opt->numbers->data;
    numbers[IG_STEP_BASE_LR] = opts->lr;
    numbers[IG_STEP_LOSS_SCALE] = opts->loss_scale > 0 ? opts->loss_scale : 1;
    numbers[IG_STEP_BAD] = -1;
    *opt_out = opt;
    return IG_OK;
}

static void fini_param(ig_context *ctx, ig__optim_param *param)
{
    ig__release(param->p);
    ig__release(param->bf16);
    ig__free(&ctx->allocator, param->name);
    for (int i = 0; i < IG_STATE_PARTS; i++) {
        ig__release(param->state[i]);
        ig__free(&ctx->allocator, param->state_names[i]);
    }
}

void ig_optimizer_destroy(ig_optimizer *opt)
{
    if (!opt)
        return;
    ig_context *ctx = opt->ctx;
    for (int64_t i = 0; i < opt->n_params; i++)
        fini_param(ctx, &opt->params[i]);
    ig__free(&ctx->allocator, opt->params);
    ig__release(opt->numbers);
    ig__release(opt->sums);
    ig__free(&ctx->allocator, opt);
}

/* ---- parameters ------------------------------------------------------------------------------------ */

/* Shape of a part of the state; false: this parameter has none. */
static bool part_dims(int64_t *dims, int *n_dims, const ig_optimizer_opts *o,
                      const ig_tensor *p, ig__state_part part)
{
    *n_dims = ig_tensor_n_dims(p);
    for (int i = 0; i < *n_dims; i++)
        dims[i] = ig_tensor_dim(p, i);
    const bool factored = o->rule == IG_RULE_ADAFACTOR && ig__is_matrix(p);
    const bool by_adam = o->rule == IG_RULE_ADAM || o->rule == IG_RULE_ADAMW ||
                         (o->rule == IG_RULE_MUON && !ig__is_matrix(p));
    switch (part) {
    case IG_STATE_M:
        return by_adam || o->rule == IG_RULE_LION || o->rule == IG_RULE_MUON ||
               (o->rule == IG_RULE_SGD && o->momentum > 0);
    case IG_STATE_V:
        return by_adam || (o->rule == IG_RULE_ADAFACTOR && !factored);
    case IG_STATE_ROWS:
        *n_dims -= 1;
        return factored;
    case IG_STATE_COLUMNS:
        if (factored)
            dims[*n_dims - 2] = dims[*n_dims - 1];
        *n_dims -= 1;
        return factored;
    case IG_STATE_EMA:
        return o->ema_decay > 0;
    case IG_STATE_PARTS:
        break;
    }
    return false;
}

static ig_status check_param(const ig_optimizer *opt, const ig_tensor *p, ig_error *err)
{
    char text[IG_TYPE_TEXT];
    if (!p)
        return ig__fail(err, IG_ERR_ARGUMENT, "optimizer: a parameter is NULL");
    if (p->type.dtype != IG_DTYPE_F32 || !p->contiguous || p->node || !p->wants_grad ||
        p->ctx != opt->ctx)
        return ig__fail(
            err, IG_ERR_ARGUMENT,
            "optimizer: wants contiguous float32 leaves of its context that want "
            "their gradient, not %s",
            ig__type_text(&p->type, text, sizeof text));
    for (int64_t i = 0; i < opt->n_params; i++)
        if (opt->params[i].p == p)
            return ig__fail(err, IG_ERR_ARGUMENT,
                            "optimizer: %s is added a second time, and would be "
                            "updated twice a step",
                            opt->params[i].name);
    return IG_OK;
}

static ig_status init_state(ig_optimizer *opt, ig__optim_param *param, ig_error *err)
{
    const ig_allocator *a = &opt->ctx->allocator;
    if (opt->ctx->capture)
        return ig__fail(
            err, IG_ERR_ARGUMENT,
            "optimizer: a parameter is added during a capture, which would make "
            "its state anew at each run");
    for (int part = 0; part < IG_STATE_PARTS; part++) {
        int64_t dims[IG_MAX_DIMS];
        int n_dims;
        if (!part_dims(dims, &n_dims, &opt->opts, param->p, (ig__state_part)part))
            continue;
        param->state[part] = make_zeros(opt->ctx, IG_DTYPE_F32, n_dims, dims);
        if (!param->state[part])
            return failure(opt->ctx, err);
        const size_t cap = strlen(param->name) + 16;
        param->state_names[part] = ig__alloc(a, cap);
        if (!param->state_names[part])
            return ig__fail_memory(err, "optimizer", cap);
        snprintf(param->state_names[part], cap, "%s.%s", param->name, part_names[part]);
    }
    if (param->state[IG_STATE_EMA])
        memcpy(ig_tensor_data(param->state[IG_STATE_EMA]), ig_tensor_data(param->p),
               ig_tensor_bytes(param->p));
    return IG_OK;
}

static ig_status init_param(ig_optimizer *opt, ig__optim_param *param, ig_tensor *p,
                            const char *name, const ig_param_group *group, ig_tensor *bf16,
                            ig_error *err)
{
    IG_TRY(check_param(opt, p, err));
    char number[24];
    snprintf(number, sizeof number, "%lld", (long long)opt->n_params);
    if (!name)
        name = number;
    *param = (ig__optim_param){
        .p = ig__retain(p), .lr_scale = 1, .weight_decay = opt->opts.weight_decay};
    if (group && group->lr_scale != 0)
        param->lr_scale = group->lr_scale;
    if (group && group->no_weight_decay)
        param->weight_decay = 0;
    if (bf16) {
        if (!ig__dims_same(&bf16->type, &p->type) || bf16->type.dtype != IG_DTYPE_BF16 ||
            !bf16->contiguous)
            return ig__fail(err, IG_ERR_SHAPE,
                            "optimizer: the 16-bit copy of %s has another shape or type",
                            name);
        param->bf16 = ig__retain(bf16);
    }
    param->name = ig__strdup(&opt->ctx->allocator, name, strlen(name));
    if (!param->name)
        return ig__fail_memory(err, "optimizer", strlen(name));
    return init_state(opt, param, err);
}

static bool wants_norm(const ig_optimizer_opts *o)
{
    return o->clip_norm > 0 || o->check_finite || o->loss_scale > 0;
}

static ig_status make_sums(ig_optimizer *opt, int64_t n, ig_error *err)
{
    if (!wants_norm(&opt->opts))
        return IG_OK;
    ig_tensor *sums = make_zeros(opt->ctx, IG_DTYPE_F64, 1, &n);
    if (!sums)
        return failure(opt->ctx, err);
    ig__release(opt->sums);
    opt->sums = sums;
    return IG_OK;
}

ig_status ig_optimizer_add(ig_optimizer *opt, ig_tensor *const *params,
                           const char *const *names, int64_t n, const ig_param_group *group,
                           ig_error *err)
{
    const ig_allocator *a = &opt->ctx->allocator;
    const int64_t cap = opt->n_params + n;
    if (ig__context_failed(opt->ctx))
        return failure(opt->ctx, err);
    if (group && !(group->lr_scale >= 0 && group->lr_scale < (double)INFINITY))
        return ig__fail(err, IG_ERR_ARGUMENT, "optimizer: lr_scale is %g", group->lr_scale);
    if (cap > opt->cap_params) {
        ig__optim_param *grown =
            ig__resize(a, opt->params, (size_t)opt->cap_params * sizeof *grown,
                       (size_t)cap * sizeof *grown);
        if (!grown)
            return ig__fail_memory(err, "optimizer", (size_t)cap * sizeof *grown);
        opt->params = grown;
        opt->cap_params = cap;
    }
    const int64_t before = opt->n_params;
    ig_status status = make_sums(opt, cap, err);
    for (int64_t i = 0; i < n && status == IG_OK; i++) {
        ig__optim_param *param = &opt->params[opt->n_params];
        *param = (ig__optim_param){0};
        status =
            init_param(opt, param, params[i], names ? names[i] : NULL, group,
                       group && group->bf16_copies ? group->bf16_copies[i] : NULL, err);
        opt->n_params++;
    }
    if (status == IG_OK)
        return IG_OK;
    while (opt->n_params > before)
        fini_param(opt->ctx, &opt->params[--opt->n_params]);
    return status;
}

/* One by one: on failure those before it are taken out again. */
ig_status ig_optimizer_add_params(ig_optimizer *opt, ig_params *p, ig_error *err)
{
    const ig_param_group plain = {.no_weight_decay = true};
    const int64_t before = opt->n_params;
    for (int64_t i = 0; i < ig_params_count(p); i++) {
        ig_tensor *param = ig_params_tensor(p, i);
        const char *name = ig_params_name(p, i);
        if (!ig_tensor_wants_grad(param))
            continue;
        const ig_status status = ig_optimizer_add(
            opt, &param, &name, 1, ig_tensor_n_dims(param) < 2 ? &plain : NULL, err);
        if (status == IG_OK)
            continue;
        while (opt->n_params > before)
            fini_param(opt->ctx, &opt->params[--opt->n_params]);
        return status;
    }
    if (opt->n_params == before)
        return ig__fail(err, IG_ERR_ARGUMENT,
                        "optimizer: there is no parameter to be trained: the network makes "
                        "them when it is called first");
    return IG_OK;
}

/* ---- parts of a step -------------------------------------------------------------------------------- */

ig_tensor *ig__step_number(const ig_optimizer *opt, int field)
{
    return ig_cast(ig_select(opt->numbers, 0, field), IG_DTYPE_F32);
}

bool ig__assign_unless_skipped(const ig_optimizer *opt, ig_tensor *x, ig_tensor *value)
{
    ig_tensor *skip = ig_cast(ig_select(opt->numbers, 0, IG_STEP_SKIP), IG_DTYPE_BOOL);
    return ig_assign(x, ig_where(skip, x, value)) != NULL;
}

bool ig__update_param(const ig_optimizer *opt, const ig__optim_param *param,
                      const ig__op *op, ig_tensor *gradient, const ig__update_attrs *attrs)
{
    ig__update_attrs a;
    memset(&a, 0, sizeof a);
    memcpy(&a, attrs, sizeof a);
    a.lr_scale = param->lr_scale;
    a.weight_decay = param->weight_decay;
    ig_tensor *in[IG_MAX_INPUTS] = {param->p, gradient, opt->numbers};
    int n = 3;
    if (a.has & IG_UPDATE_M)
        in[n++] = param->state[IG_STATE_M];
    if (a.has & IG_UPDATE_V)
        in[n++] = param->state[IG_STATE_V];
    if (param->state[IG_STATE_EMA]) {
        a.has |= IG_UPDATE_EMA;
        a.ema_decay = opt->opts.ema_decay;
        in[n++] = param->state[IG_STATE_EMA];
    }
    ig_tensor *bf16 = param->bf16;
    if (!bf16 && ig__low_is_fresh(param->p) && param->p->low->type.dtype == IG_DTYPE_BF16)
        bf16 = param->p->low; /* of mixed precision: stays fresh */
    if (bf16) {
        a.has |= IG_UPDATE_BF16;
        in[n++] = bf16;
    }
    return ig__apply_into(op, &a, in, n, param->p) != NULL;
}

static bool step_param(const ig_optimizer *opt, const ig__optim_param *param,
                       ig_tensor *gradient)
{
    const ig_optimizer_opts *o = &opt->opts;
    ig__update_attrs a;
    memset(&a, 0, sizeof a);
    a.beta1 = o->beta1;
    a.beta2 = o->beta2;
    a.eps = o->eps;
    a.decoupled = o->rule != IG_RULE_ADAM && o->rule != IG_RULE_SGD;
    switch (o->rule) {
    case IG_RULE_SGD:
        a.momentum = o->momentum;
        a.dampening = o->dampening;
        a.nesterov = o->nesterov;
        a.has = o->momentum > 0 ? IG_UPDATE_M : 0;
        return ig__update_param(opt, param, &ig__op_sgd_update, gradient, &a);
    case IG_RULE_LION:
        a.has = IG_UPDATE_M;
        return ig__update_param(opt, param, &ig__op_lion_update, gradient, &a);
    case IG_RULE_ADAFACTOR:
        return ig__adafactor_step(opt, param, gradient);
    case IG_RULE_MUON:
        if (ig__is_matrix(param->p))
            return ig__muon_step(opt, param, gradient);
        break;
    case IG_RULE_ADAM:
    case IG_RULE_ADAMW:
        break;
    }
    a.has = IG_UPDATE_M | IG_UPDATE_V;
    return ig__update_param(opt, param, &ig__op_adam_update, gradient, &a);
}

/* The squares of all gradients, then the numbers of this step. */
static bool control(const ig_optimizer *opt)
{
    const ig_optimizer_opts *o = &opt->opts;
    for (int64_t i = 0; i < opt->n_params && opt->sums; i++) {
        ig_tensor *g = ig_tensor_grad(opt->params[i].p);
        ig_tensor *sum = ig_select(opt->sums, 0, i);
        if (!(g ? ig__apply_into(&ig__op_square_sum, NULL, &g, 1, sum) : ig_fill(sum, 0)))
            return false;
    }
    ig__control_attrs a;
    memset(&a, 0, sizeof a);
    a.factor = ig_schedule_factor;
    a.schedule = o->schedule;
    a.clip_norm = o->clip_norm;
    a.growth_interval = o->dynamic_scale ? o->growth_interval : 0;
    ig_tensor *const in[2] = {opt->numbers, opt->sums};
    return ig__apply_into(&ig__op_step_control, &a, in, opt->sums ? 2 : 1, opt->numbers) !=
           NULL;
}

/* Elements of the true gradient between -bound and bound: of one that carries a loss scale, that
 * much more. */
static ig_tensor *clip_values(const ig_optimizer *opt, ig_tensor *g, double bound)
{
    if (opt->opts.loss_scale <= 0)
        return ig_clamp(g, -bound, bound);
    ig_tensor *most = ig_scale(ig__step_number(opt, IG_STEP_WAS_SCALED), bound);
    return ig_minimum(ig_maximum(g, ig_neg(most)), most);
}

static bool step_all(const ig_optimizer *opt)
{
    const double bound = opt->opts.clip_value;
    if (!control(opt))
        return false;
    for (int64_t i = 0; i < opt->n_params; i++) {
        ig_tensor *g = ig_tensor_grad(opt->params[i].p);
        if (!g)
            continue;
        ig_scope *scope = ig_scope_begin(opt->ctx);
        if (bound > 0)
            g = clip_values(opt, g, bound);
        const bool done = scope && step_param(opt, &opt->params[i], g);
        ig_scope_end(scope);
        if (!done)
            return false;
    }
    return true;
}

ig_status ig_optimizer_step(ig_optimizer *opt)
{
    if (!opt)
        return IG_ERR_ARGUMENT;
    if (ig__context_failed(opt->ctx))
        return opt->ctx->error.status;
    if (opt->n_params == 0) {
        (void)ig__fail_on(opt->ctx, IG_ERR_ARGUMENT, "optimizer: it has no parameters");
        return opt->ctx->error.status;
    }
    const bool was = ig_grad_enable(opt->ctx, false);
    const ig_dtype autocast = ig_autocast(opt->ctx, IG_DTYPE_F32);
    ig_scope *scope = ig_scope_begin(opt->ctx);
    if (scope)
        step_all(opt);
    ig_scope_end(scope);
    ig_autocast(opt->ctx, autocast);
    ig_grad_enable(opt->ctx, was);
    return opt->ctx->error.status;
}

void ig_optimizer_clear_grads(ig_optimizer *opt)
{
    for (int64_t i = 0; opt && i < opt->n_params; i++)
        ig_tensor_clear_grad(opt->params[i].p);
}

ig_tensor *ig_optimizer_scale_loss(ig_optimizer *opt, ig_tensor *loss)
{
    return opt->opts.loss_scale > 0 ? ig_mul(loss, ig__step_number(opt, IG_STEP_LOSS_SCALE))
                                    : loss;
}

ig_status ig_optimizer_set_lr(ig_optimizer *opt, double lr)
{
    if (!(lr >= 0 && lr < (double)INFINITY))
        return IG_ERR_ARGUMENT;
    opt->opts.lr = lr;
    ((double *)(void *)opt->numbers->data)[IG_STEP_BASE_LR] = lr;
    return IG_OK;
}

/* ---- inspect ------------------------------------------------------------------------------------------ */

ig_optimizer_stats ig_optimizer_get_stats(const ig_optimizer *opt)
{
    const double *n = (const double *)(const void *)opt->numbers->data;
    const int64_t bad = (int64_t)n[IG_STEP_BAD];
    return (ig_optimizer_stats){
        .steps = (int64_t)n[IG_STEP_DONE],
        .skipped = (int64_t)n[IG_STEP_SKIPPED],
        .lr = n[IG_STEP_LR],
        .grad_norm = n[IG_STEP_NORM],
        .loss_scale = n[IG_STEP_LOSS_SCALE],
        .last_skipped = n[IG_STEP_SKIP] != 0,
        .bad_name = bad >= 0 && bad < opt->n_params ? opt->params[bad].name : "",
        .n_bad = (int64_t)n[IG_STEP_N_BAD],
    };
}

ig_tensor *ig_optimizer_ema(const ig_optimizer *opt, int64_t i)
{
    return i >= 0 && i < opt->n_params ? opt->params[i].state[IG_STATE_EMA] : NULL;
}

ig_tensor *ig_optimizer_state(const ig_optimizer *opt, int64_t i, const char **name_out)
{
    *name_out = "step";
    if (i == 0)
        return opt->numbers;
    for (int64_t k = 0; k < opt->n_params; k++)
        for (int part = 0; part < IG_STATE_PARTS; part++)
            if (opt->params[k].state[part] && --i == 0) {
                *name_out = opt->params[k].state_names[part];
                return opt->params[k].state[part];
            }
    *name_out = NULL;
    return NULL;
}
