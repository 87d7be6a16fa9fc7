/* Rows of optimisers: the sum of squares of a gradient, the numbers of a step, the updates.
 *
 * An update reads gradient and state once and writes weight, state, average and 16-bit copy once, a span at
 * a time. A step that is to be skipped writes nothing.
 *
 * Clipping by the global norm: Pascanu et al., 2013, with the squares summed in double, so that finite
 * gradients always have a finite norm. Dynamic loss scaling: Micikevicius et al., 2018, section 3.2.
 */
#include "op/update.h"

#include "op/op_int.h"
#include "op/pointwise.h"

#include <math.h>

static ig_status fail_operand(ig_error *err, const char *op, const char *what,
                              const ig__type *type)
{
    char text[IG_TYPE_TEXT];
    return ig__fail(err, IG_ERR_SHAPE, "%s: %s, not %s", op, what,
                    ig__type_text(type, text, sizeof text));
}

/* ---- square_sum ------------------------------------------------------------------------------ */

static ig_status square_sum_shape(ig__type *out, const ig__type *const *in, int n_in,
                                  const void *attrs, ig_error *err)
{
    (void)n_in, (void)attrs;
    if (!ig__is_float(in[0]->dtype))
        return fail_operand(err, "square_sum", "wants floats", in[0]);
    *out = (ig__type){.dtype = IG_DTYPE_F64};
    return IG_OK;
}

static int64_t n_spans(int64_t n)
{
    return (n + IG_SPAN - 1) / IG_SPAN;
}

static int64_t square_sum_units(const ig__eval *e)
{
    return e->phase ? 1 : n_spans(e->in[0].n);
}

static ig__room square_sum_room(const ig__eval *e)
{
    return (ig__room){.each = IG_SPAN * 8, .shared = (size_t)n_spans(e->in[0].n) * 8};
}

/* Phase 0: a sum a span. Phase 1: their sum, from the first on. */
static void square_sum_eval(const ig__eval *e, int64_t begin, int64_t end)
{
    double *sums = e->shared;
    if (e->phase) {
        double total = 0;
        for (int64_t i = 0; i < n_spans(e->in[0].n); i++)
            total += sums[i];
        *(double *)(void *)e->out[0].data = total;
        return;
    }
    const bool f64 = e->in[0].type->dtype == IG_DTYPE_F64;
    ig__walk_over x;
    ig__walk_make(&x, &e->in[0], e->in[0].type);
    for (int64_t i = begin; i < end; i++) {
        const int64_t left = e->in[0].n - i * IG_SPAN, n = left < IG_SPAN ? left : IG_SPAN;
        ig__walk_load(&x, i * IG_SPAN, n, e->scratch,
                      f64 ? IG_COMPUTE_F64 : IG_COMPUTE_F32);
        sums[i] = f64 ? e->t->reduce_f64(IG__REDUCE_SUM_SQUARES, e->scratch, n, 1, 0)
                      : e->t->reduce(IG__REDUCE_SUM_SQUARES, e->scratch, n, 1, 0);
    }
}

const ig__op ig__op_square_sum = {.name = "square_sum",
                                  .n_in_least = 1,
                                  .n_in_most = 1,
                                  .shape = square_sum_shape,
                                  .n_phases = 2,
                                  .n_units = square_sum_units,
                                  .eval = square_sum_eval,
                                  .room = square_sum_room,
                                  .precision = IG_PRECISION_HIGH};

/* ---- step_control ----------------------------------------------------------------------------- */

static const double MOST_SCALE = 0x1p126; /* f32 holds twice as much */

static bool is_numbers(const ig__type *t)
{
    return t->dtype == IG_DTYPE_F64 && t->n_dims == 1 && t->dims[0].plus == IG_STEP_NUMBERS;
}

static ig_status control_shape(ig__type *out, const ig__type *const *in, int n_in,
                               const void *attrs, ig_error *err)
{
    (void)attrs;
    if (!is_numbers(in[0]))
        return fail_operand(err, "step_control", "wants the numbers of a step", in[0]);
    if (n_in > 1 && (in[1]->dtype != IG_DTYPE_F64 || in[1]->n_dims != 1))
        return fail_operand(err, "step_control", "wants sums [P] f64", in[1]);
    *out = *in[0];
    return IG_OK;
}

static int64_t one_unit(const ig__eval *e)
{
    (void)e;
    return 1;
}

/* Norm and scale of this step; false: a gradient is not finite. */
static bool measure(const ig__eval *e, const ig__control_attrs *a, double *numbers)
{
    const double *sums = (const double *)(const void *)e->in[1].data;
    double total = 0;
    int64_t n_bad = 0, first_bad = -1;
    for (int64_t i = 0; i < e->in[1].n; i++) {
        total += sums[i];
        if (!isfinite(sums[i]) && !n_bad++)
            first_bad = i;
    }
    if (n_bad) {
        numbers[IG_STEP_BAD] = (double)first_bad;
        numbers[IG_STEP_N_BAD] = (double)n_bad;
        return false;
    }
    const double norm = sqrt(total) * numbers[IG_STEP_SCALE];
    numbers[IG_STEP_NORM] = norm;
    if (a->clip_norm > 0 && norm > a->clip_norm)
        numbers[IG_STEP_SCALE] *= a->clip_norm / norm;
    return true;
}

static void control_eval(const ig__eval *e, int64_t begin, int64_t end)
{
    (void)begin, (void)end;
    const ig__control_attrs *a = e->attrs;
    double *numbers = (double *)(void *)e->out[0].data;
    numbers[IG_STEP_WAS_SCALED] = numbers[IG_STEP_LOSS_SCALE];
    numbers[IG_STEP_SCALE] = 1 / numbers[IG_STEP_LOSS_SCALE];
    numbers[IG_STEP_NORM] = 0;
    const bool good = e->n_in < 2 || measure(e, a, numbers);
    numbers[IG_STEP_SKIP] = !good;
    if (good) {
        numbers[IG_STEP_LR] = numbers[IG_STEP_BASE_LR] *
                              a->factor(&a->schedule, (int64_t)numbers[IG_STEP_DONE]);
        numbers[IG_STEP_DONE]++;
        if (a->growth_interval && ++numbers[IG_STEP_GOOD] >= (double)a->growth_interval) {
            if (numbers[IG_STEP_LOSS_SCALE] < MOST_SCALE)
                numbers[IG_STEP_LOSS_SCALE] *= 2;
            numbers[IG_STEP_GOOD] = 0;
        }
        return;
    }
    numbers[IG_STEP_SKIPPED]++;
    numbers[IG_STEP_GOOD] = 0;
    if (a->growth_interval && numbers[IG_STEP_LOSS_SCALE] > 1)
        numbers[IG_STEP_LOSS_SCALE] /= 2;
}

const ig__op ig__op_step_control = {.name = "step_control",
                                    .n_in_least = 1,
                                    .n_in_most = 2,
                                    .attrs_bytes = sizeof(ig__control_attrs),
                                    .effect = true,
                                    .shape = control_shape,
                                    .n_units = one_unit,
                                    .eval = control_eval,
                                    .writes = 1};

/* ---- updates ------------------------------------------------------------------------------------ */

static ig_status update_shape(ig__type *out, const ig__type *const *in, int n_in,
                              const void *attrs, ig_error *err)
{
    const ig__update_attrs *a = attrs;
    if (in[0]->dtype != IG_DTYPE_F32)
        return fail_operand(err, "update", "wants float32 weights", in[0]);
    if (!is_numbers(in[2]))
        return fail_operand(err, "update", "wants the numbers of a step", in[2]);
    if (n_in != 3 + __builtin_popcount(a->has))
        return ig__fail(err, IG_ERR_ARGUMENT, "update: %d operands", n_in);
    for (int i = 1; i < n_in; i++) {
        const bool bf16 = (a->has & IG_UPDATE_BF16) && i == n_in - 1;
        if (i != 2 && (!ig__dims_same(in[i], in[0]) ||
                       in[i]->dtype != (bf16 ? IG_DTYPE_BF16 : IG_DTYPE_F32)))
            return ig__fail_shapes(err, "update", "operands differ", in[0], in[i]);
    }
    *out = *in[0];
    return IG_OK;
}

/* The kernel's view of a span; false: the step is skipped. */
static bool update_of(ig__update *u, const ig__eval *e, int64_t unit)
{
    const ig__update_attrs *a = e->attrs;
    const double *numbers = (const double *)(const void *)e->in[2].data;
    if (numbers[IG_STEP_SKIP] != 0)
        return false;
    const int64_t at = unit * IG_SPAN, left = e->out[0].n - at;
    const double t = numbers[IG_STEP_DONE];
    *u = (ig__update){
        .p = (float *)(void *)e->out[0].data + at,
        .g = (const float *)(const void *)e->in[1].data + at,
        .n = left < IG_SPAN ? left : IG_SPAN,
        .lr = (float)(numbers[IG_STEP_LR] * a->lr_scale),
        .grad_scale = (float)numbers[IG_STEP_SCALE],
        .weight_decay = (float)a->weight_decay,
        .ema_decay = (float)a->ema_decay,
        .beta1 = (float)a->beta1,
        .beta2 = (float)a->beta2,
        .eps = (float)a->eps,
        .correction1 = (float)(1 - pow(a->beta1, t)),
        .correction2 = (float)(1 - pow(a->beta2, t)),
        .decoupled = a->decoupled,
        .nesterov = a->nesterov,
        .first = t == 1,
        .momentum = (float)a->momentum,
        .dampening = (float)a->dampening,
    };
    int i = 3;
    if (a->has & IG_UPDATE_M)
        u->m = (float *)(void *)e->in[i++].data + at;
    if (a->has & IG_UPDATE_V)
        u->v = (float *)(void *)e->in[i++].data + at;
    if (a->has & IG_UPDATE_EMA)
        u->ema = (float *)(void *)e->in[i++].data + at;
    if (a->has & IG_UPDATE_BF16)
        u->p_bf16 = (uint16_t *)(void *)e->in[i++].data + at;
    return true;
}

static void sgd_eval(const ig__eval *e, int64_t begin, int64_t end)
{
    ig__update u;
    for (int64_t i = begin; i < end; i++)
        if (update_of(&u, e, i))
            e->t->sgd(&u);
}

static void adam_eval(const ig__eval *e, int64_t begin, int64_t end)
{
    ig__update u;
    for (int64_t i = begin; i < end; i++)
        if (update_of(&u, e, i))
            e->t->adam(&u);
}

static void lion_eval(const ig__eval *e, int64_t begin, int64_t end)
{
    ig__update u;
    for (int64_t i = begin; i < end; i++)
        if (update_of(&u, e, i))
            e->t->lion(&u);
}

enum { WRITES = 1 | 0x78 }; /* p and what follows the numbers */

const ig__op ig__op_sgd_update = {.name = "sgd_update",
                                  .n_in_least = 3,
                                  .n_in_most = 6,
                                  .attrs_bytes = sizeof(ig__update_attrs),
                                  .effect = true,
                                  .shape = update_shape,
                                  .eval = sgd_eval,
                                  .writes = WRITES};
const ig__op ig__op_adam_update = {.name = "adam_update",
                                   .n_in_least = 5,
                                   .n_in_most = 7,
                                   .attrs_bytes = sizeof(ig__update_attrs),
                                   .effect = true,
                                   .shape = update_shape,
                                   .eval = adam_eval,
                                   .writes = WRITES};
const ig__op ig__op_lion_update = {.name = "lion_update",
                                   .n_in_least = 4,
                                   .n_in_most = 6,
                                   .attrs_bytes = sizeof(ig__update_attrs),
                                   .effect = true,
                                   .shape = update_shape,
                                   .eval = lion_eval,
                                   .writes = WRITES};
