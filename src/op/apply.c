/* Dispatch: shape rule, outputs, evaluation, recording.
 *
 * The path of a small elementwise call is kept short: no lock, no search, memory from lists. Work that is
 * worth it (TEAM_WORK) is shared out to the context's team by the row's units, which do not depend
 * on the number of threads: so neither does any bit of a result.
 */
#include "op/apply.h"

#include "base/error.h"
#include "ingot/op.h"
#include "op/autocast.h"
#include "op/op_int.h"
#include "op/pointwise.h"
#include "op/tape.h"
#include "tensor/capture.h"

#include <math.h>
#include <string.h>

/* Elementary operations, about 1 ns each, from which on waking the team pays. */
static const double TEAM_WORK = 65536;

static void fill_array(ig__array *a, const ig_tensor *x)
{
    a->data = x->data;
    a->type = &x->type;
    a->strides = x->strides;
    a->n = x->n;
    a->contiguous = x->contiguous;
}

/* ---- evaluation -------------------------------------------------------------------------------- */

/* Scratch of the context, grown as needed: each thread's part, then what all share. */
static size_t larger(size_t wanted, size_t there)
{
    wanted = (wanted + 63) / 64 * 64;
    return wanted > there ? wanted : there;
}

static bool make_room(ig_context *ctx, ig__room room)
{
    room.each = larger(room.each, ctx->scratch_bytes);
    room.shared = larger(room.shared, ctx->shared_bytes);
    room.pool = larger(room.pool, ctx->pool_bytes);
    if (room.each == ctx->scratch_bytes && room.shared == ctx->shared_bytes &&
        room.pool == ctx->pool_bytes)
        return true;
    const size_t bytes =
        room.each * (size_t)ig__team_size(ctx->team) + room.shared + room.pool;
    ig__free(&ctx->allocator, ctx->scratch);
    ctx->scratch = ig__alloc_huge(&ctx->allocator, bytes);
    if (!ctx->scratch)
        room = (ig__room){0};
    ctx->scratch_bytes = room.each;
    ctx->shared_bytes = room.shared;
    ctx->pool_bytes = room.pool;
    return ctx->scratch != NULL;
}

void ig__eval_units(const ig__op *op, const ig__eval *e, int64_t begin, int64_t end)
{
    if (op->eval)
        op->eval(e, begin, end);
    else
        ig__pointwise(e, op->span, begin, end);
}

typedef struct team_eval {
    ig_context *ctx;
    const ig__op *op;
    const ig__eval *e;
} team_eval;

static void eval_on_team(void *arg, int i_thread, int n_threads)
{
    const team_eval *t = arg;
    ig__eval e = *t->e;
    e.scratch = t->ctx->scratch + (size_t)i_thread * t->ctx->scratch_bytes;
    e.first = true;
    int cursor = i_thread;
    for (int64_t i;
         (i = ig__share_next(&t->ctx->share, &cursor, i_thread, n_threads)) >= 0;)
        ig__eval_units(t->op, &e, i, i + 1), e.first = false;
}

int64_t ig__eval_count(const ig__op *op, const ig__eval *e)
{
    return op->n_units ? op->n_units(e) : (e->out[0].n + IG_SPAN - 1) / IG_SPAN;
}

ig__room ig__eval_room(const ig__op *op, const ig__eval *e)
{
    if (op->room)
        return op->room(e);
    return op->eval ? (ig__room){0} : ig__pointwise_room(e);
}

bool ig__eval_wants_team(const ig__op *op, const ig__eval *e)
{
    return (op->work ? op->work(e) : (double)e->out[0].n) >= TEAM_WORK;
}

static bool evaluate(ig_context *ctx, const ig__op *op, ig__eval *e)
{
    int64_t fault = INT64_MAX;
    bool remarked = false;
    e->fault = &fault;
    e->remarked = &remarked;
    const ig__room room = ig__eval_room(op, e);
    if (!make_room(ctx, room))
        return ig__fail_tensor_memory(ctx, op->name, room.each), false;
    const int n_threads = ig__team_size(ctx->team);
    e->scratch = ctx->scratch;
    e->shared = ctx->scratch ? ctx->scratch + (size_t)n_threads * ctx->scratch_bytes : NULL;
    e->pool = ctx->pool_bytes > 0 ? (char *)e->shared + ctx->shared_bytes : NULL;
    const bool team = n_threads > 1 && ig__eval_wants_team(op, e);
    for (e->phase = 0; e->phase < (op->n_phases ? op->n_phases : 1); e->phase++) {
        const int64_t n = ig__eval_count(op, e);
        if (team && n > 1) {
            team_eval t = {ctx, op, e};
            ig__share_reset(&ctx->share, n, n_threads);
            ig__team_run(ctx->team, eval_on_team, &t);
        } else if (n) {
            ig__eval_units(op, e, 0, n);
        }
    }
    if (fault != INT64_MAX) {
        op->explain(e, fault, &ctx->error);
        return false;
    }
    if (remarked)
        ig__log(ctx, IG_LOG_WARN, "%s: %s", op->name, op->remark);
    return true;
}

ig__span_fn *ig__eval_plain(const ig__op *op, const ig__eval *e)
{
    const ig_dtype dtype = e->out[0].type->dtype;
    const ig__compute compute = ig__compute_of(dtype);
    if (!op->span[compute] || e->out[0].n > IG_SPAN || !e->out[0].contiguous ||
        dtype != ig__dtype_of(compute))
        return NULL;
    for (int i = 0; i < e->n_in; i++)
        if (!e->in[i].contiguous || e->in[i].n != e->out[0].n ||
            e->in[i].type->dtype != dtype)
            return NULL;
    return op->span[compute];
}

static bool evaluate_plain(const ig__op *op, const ig__eval *e)
{
    ig__span_fn *span = ig__eval_plain(op, e);
    if (!span)
        return false;
    const void *x[IG_MAX_INPUTS];
    for (int i = 0; i < e->n_in; i++)
        x[i] = e->in[i].data;
    span(e, e->out[0].data, x, e->out[0].n);
    return true;
}

/* Anomaly mode: the first NaN names the operator that made it. */
static bool check_nan(ig_context *ctx, const ig__op *op, ig_tensor *const *out, int n_out)
{
    double chunk[128];
    for (int i = 0; i < n_out; i++) {
        if (!ig__is_float(out[i]->type.dtype) || !out[i]->contiguous)
            continue;
        const size_t size = ig_dtype_block_bytes(out[i]->type.dtype);
        for (int64_t at = 0; at < out[i]->n; at += 128) {
            const int64_t n = out[i]->n - at < 128 ? out[i]->n - at : 128;
            ig__load(chunk, IG_COMPUTE_F64, out[i]->data + (size_t)at * size,
                     out[i]->type.dtype, 1, n);
            for (int64_t k = 0; k < n; k++) {
                if (chunk[k] == chunk[k])
                    continue;
                char text[IG_TYPE_TEXT];
                ig__fail_on(ctx, IG_ERR_NUMERIC, "%s: made a NaN at element %lld of %s",
                            op->name, (long long)(at + k),
                            ig__type_text(&out[i]->type, text, sizeof text));
                return false;
            }
        }
    }
    return true;
}

/* ---- a call ------------------------------------------------------------------------------------ */

typedef struct call {
    ig_context *ctx;
    const ig__op *op;
    const void *attrs;
    ig_tensor *const *in;
    int n_in, n_out;
    bool records;
    ig_tensor *cast[IG_MAX_INPUTS]; /* the operands, where mixed precision changed one */
} call;

/* Operands there, of one context, nothing failed before; views know their base's history. */
static bool begin(call *c, ig_context *ctx, const ig__op *op, const void *attrs,
                  ig_tensor *const *in, int n_in)
{
    c->op = op;
    c->attrs = attrs;
    c->in = in;
    c->n_in = n_in;
    c->n_out = op->n_out ? op->n_out : 1;
    c->records = false;
    for (int i = 0; i < n_in; i++) {
        if (!in[i])
            return false;
        if (!ctx)
            ctx = in[i]->ctx;
    }
    if (!ctx || ig__context_failed(ctx))
        return false;
    c->ctx = ctx;
    for (int i = 0; i < n_in; i++) {
        if (in[i]->ctx != ctx) {
            ig__fail_on(ctx, IG_ERR_ARGUMENT, "%s: operands of two contexts", op->name);
            return false;
        }
        if (in[i]->base && !ig__refresh(in[i]))
            return false;
        c->records |= in[i]->wants_grad;
    }
    ctx->missed_grad |= c->records;
    c->records = c->records && !ctx->no_grad && op->gradient;
    return true;
}

/* The operands in the types that the row's precision asks for. */
static bool autocast(call *c)
{
    for (int i = 0; i < c->n_in; i++) {
        c->cast[i] =
            c->op->keeps >> i & 1 ? c->in[i] : ig__autocast(c->in[i], c->op->precision);
        if (!c->cast[i])
            return false;
    }
    c->in = c->cast;
    return true;
}

static bool infer(const call *c, ig__type *types)
{
    const ig__type *in[IG_MAX_INPUTS];
    for (int i = 0; i < c->n_in; i++)
        in[i] = &c->in[i]->type;
    return c->op->shape(types, in, c->n_in, c->attrs, &c->ctx->error) == IG_OK;
}

static void set_eval(ig__eval *e, const call *c, ig_tensor *const *out)
{
    e->k = c->ctx->kernels;
    e->t = c->ctx->train;
    e->attrs = c->attrs;
    e->n_in = c->n_in;
    e->n_out = c->n_out;
    e->phase = 0;
    e->first = true;
    e->n_threads = ig__team_size(c->ctx->team);
    for (int i = 0; i < c->n_in; i++)
        fill_array(&e->in[i], c->in[i]);
    for (int i = 0; i < c->n_out; i++)
        fill_array(&e->out[i], out[i]);
    if (c->op->random) {
        e->seed = c->ctx->seed;
        e->draw = c->ctx->n_draws++;
    }
}

static bool compute(const call *c, ig_tensor *const *out, bool into)
{
    ig__eval e;
    set_eval(&e, c, out);
    if (!evaluate_plain(c->op, &e) && !evaluate(c->ctx, c->op, &e))
        return false;
    if (c->ctx->check_nan && !check_nan(c->ctx, c->op, out, c->n_out))
        return false;
    return !c->ctx->capture ||
           c->ctx->capture->call(c->ctx->capture, c->op, &e, c->in, out, into);
}

/* A view of the first operand, where its strides allow one; NULL without a failure: they do not. */
static ig_tensor *view_of_first(const call *c, const ig__type *type)
{
    ig__array a;
    int64_t strides[IG_MAX_DIMS], offset = 0;
    fill_array(&a, c->in[0]);
    if (!c->op->view(strides, &offset, &a, type, c->attrs))
        return NULL;
    const int64_t size = (int64_t)ig_dtype_block_bytes(type->dtype);
    return ig__tensor_view(c->in[0], type, strides, c->in[0]->data + offset * size);
}

static void give_up(ig_tensor **out, int n)
{
    for (int i = 0; i < n; i++) {
        ig__release(out[i]);
        out[i] = NULL;
    }
}

static bool finish(const call *c, ig_tensor **out)
{
    ig_context *ctx = c->ctx;
    if (!c->records)
        return true;
    ig__tape *node = ig__tape_record(ctx, c->op, c->attrs, c->in, c->n_in, out, c->n_out);
    if (!node)
        return false;
    ig__tape_attach(node, out, c->n_out);
    return true;
}

bool ig__apply_all(ig_context *ctx, const ig__op *op, const void *attrs,
                   ig_tensor *const *in, int n_in, ig_tensor **out)
{
    call c;
    ig__type types[IG_MAX_OUTPUTS];
    for (int i = 0; i < (op->n_out ? op->n_out : 1); i++)
        out[i] = NULL;
    if (!begin(&c, ctx, op, attrs, in, n_in) ||
        (c.ctx->autocast != IG_DTYPE_F32 && op->precision && !autocast(&c)) ||
        !infer(&c, types))
        return false;
    if (op->view)
        out[0] = view_of_first(&c, &types[0]);
    if (!out[0]) {
        for (int i = 0; i < c.n_out; i++) {
            out[i] = ig__tensor_make(c.ctx, &types[i], op->name);
            if (!out[i])
                return give_up(out, i), false;
        }
        if (!compute(&c, out, false))
            return give_up(out, c.n_out), false;
    }
    if (!finish(&c, out))
        return give_up(out, c.n_out), false;
    return true;
}

ig_tensor *ig__apply(ig_context *ctx, const ig__op *op, const void *attrs,
                     ig_tensor *const *in, int n_in)
{
    ig_tensor *out[IG_MAX_OUTPUTS];
    ig__apply_all(ctx, op, attrs, in, n_in, out);
    return out[0];
}

/* ---- in place ------------------------------------------------------------------------------------ */

/* May x be written? Its elements must lie apart, and a leaf that wants its gradient is only written
 * where nothing is recorded. */
static bool may_write(const call *c, const ig_tensor *x, const ig__type *type)
{
    char want[IG_TYPE_TEXT], have[IG_TYPE_TEXT];
    const char *name = c->op->name;
    ig_context *ctx = c->ctx;
    if (!ig__type_same(type, &x->type)) {
        ig__fail_on(ctx, IG_ERR_SHAPE, "%s: writes %s in place of %s", name,
                    ig__type_text(type, want, sizeof want),
                    ig__type_text(&x->type, have, sizeof have));
        return false;
    }
    for (int i = 0; i < x->type.n_dims; i++)
        if (x->strides[i] == 0 && x->type.dims[i].plus > 1) {
            ig__fail_on(
                ctx, IG_ERR_ARGUMENT,
                "%s: writes in place of an expanded view, whose elements share bytes",
                name);
            return false;
        }
    const ig_tensor *base = x->base ? x->base : x;
    if (!ctx->no_grad && base->wants_grad && !base->node) {
        ig__fail_on(
            ctx, IG_ERR_ARGUMENT,
            "%s: writes in place of a leaf that wants its gradient; do it in a region "
            "without gradients",
            name);
        return false;
    }
    return true;
}

/* The operand's history before the write, for the tape: x itself gets a new one. */
static ig_tensor *old_self(ig_tensor *x)
{
    ig_tensor *old = ig__tensor_alias(x);
    if (!old)
        return NULL;
    old->wants_grad = x->wants_grad;
    old->node = x->node;
    old->i_out = x->i_out;
    if (old->node)
        old->node->refs++;
    return old;
}

/* Operands that share bytes with `into`, but do not lie as it does, are copied first. */
static bool take_apart(ig_tensor **apart, ig_tensor *const **in, int n_in,
                       const ig_tensor *into)
{
    bool copied = false;
    for (int i = 0; i < n_in; i++) {
        ig_tensor *x = apart[i] = (*in)[i];
        if (!x)
            return false;
        if (x == into || x->storage != into->storage ||
            (x->data == into->data && ig__dims_same(&x->type, &into->type) &&
             !memcmp(x->strides, into->strides,
                     (size_t)x->type.n_dims * sizeof *x->strides)))
            continue;
        apart[i] = ig_copy(x);
        copied = true;
        if (!apart[i])
            return false;
    }
    if (copied)
        *in = apart;
    return true;
}

ig_tensor *ig__apply_into(const ig__op *op, const void *attrs, ig_tensor *const *in,
                          int n_in, ig_tensor *into)
{
    call c;
    ig__type types[IG_MAX_OUTPUTS];
    ig_tensor *apart[IG_MAX_INPUTS];
    if (!into || !take_apart(apart, &in, n_in, into) ||
        !begin(&c, into->ctx, op, attrs, in, n_in) || !infer(&c, types) ||
        !may_write(&c, into, &types[0]) || (into->base && !ig__refresh(into)))
        return NULL;
    ig_tensor *operands[IG_MAX_INPUTS], *old = NULL, *result = NULL;
    ig__tape *node = NULL;
    /* what is overwritten keeps its history where something that flows on depends on it */
    const bool records = !c.ctx->no_grad && (c.records || into->wants_grad ||
                                             (into->base && into->base->wants_grad));
    if (records) {
        for (int i = 0; i < n_in; i++) {
            operands[i] = in[i];
            if (in[i] == into && !old) {
                old = old_self(into);
                if (!old)
                    return NULL;
            }
            if (in[i] == into)
                operands[i] = old;
        }
        c.in = operands;
        if (c.records) {
            node = ig__tape_record(c.ctx, op, attrs, operands, n_in, &into, 1);
            if (!node)
                goto done;
            node->head.refs = 1;
        }
    }
    if (!compute(&c, &into, true))
        goto done;
    into->storage->version++;
    for (int i = 0; i < n_in; i++)
        if (op->writes >> i & 1 && in[i]->storage != into->storage)
            in[i]->storage->version++;
    if (node && node->n_saved && node->saved[node->n_saved - 1].bit >= IG_OUT(0))
        node->saved[node->n_saved - 1].version = into->storage->version;
    if (records) {
        if (node) {
            ig__tape_attach(node, &into, 1);
        } else if (into->node) { /* a constant was written: nothing flows past it */
            ig__history_release(c.ctx, into->node);
            into->node = NULL;
            into->wants_grad = false;
        }
        if (!ig__rebase(into))
            goto done;
    }
    result = into;
done:
    if (node)
        ig__history_release(c.ctx, &node->head);
    ig__release(old);
    return result;
}

void ig__gradient_missing(ig__gradient *g)
{
    ig__fail_on(g->ctx, IG_ERR_UNSUPPORTED,
                "backward: an operator of a backward pass has no gradient of its own here");
}

/* ---- promotion ------------------------------------------------------------------------------------ */

bool ig__meet(const char *op, ig_tensor **x, ig_tensor **y)
{
    if (!*x || !*y)
        return false;
    const ig_dtype a = (*x)->type.dtype, b = (*y)->type.dtype;
    if (a == b)
        return true;
    const ig_dtype met = ig__promote(a, b);
    if (met == IG_DTYPE_COUNT) {
        ig__fail_on((*x)->ctx, IG_ERR_SHAPE,
                    "%s: %s beside %s would lose digits: ig_cast one of them first", op,
                    ig_dtype_name(a), ig_dtype_name(b));
        return false;
    }
    *x = ig__cast(*x, met);
    *y = ig__cast(*y, met);
    return *x && *y;
}

ig_tensor *ig__apply_met(const ig__op *op, const void *attrs, ig_tensor *x, ig_tensor *y)
{
    if (x && y && x->type.dtype != y->type.dtype && !ig__meet(op->name, &x, &y))
        return NULL;
    return ig__apply2(op, attrs, x, y);
}
