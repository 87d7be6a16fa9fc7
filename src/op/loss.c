/* Cross entropy, fused with softmax: logits [..,V] and targets [..] to one number.
 *
 *   row loss = (1 - s) (lse - x[t]) + s (lse - mean(x))        s: label smoothing
 *
 * The mean is over counted rows; none counted is 0. Row losses are summed in the tree of reduce.h.
 * The second output, the rows' log-sum-exp, is kept for the gradient, which is a row too:
 *   dx = scale (exp(x - lse) - (1 - s) [j = t] - s / V)
 */
#include "op/rows.h"

#include "ingot/op.h"
#include "op/apply.h"
#include "op/network.h"
#include "op/op_int.h"

#include <math.h>
#include <string.h>

typedef struct entropy_attrs {
    double smoothing;
    int64_t ignore, first; /* first: the place of row 0, for messages */
    bool use_ignore, sum;
} entropy_attrs;

static ig_status check(const char *op, const ig__type *x, const ig__type *t, ig_error *err)
{
    if (!ig__is_float(x->dtype) || !ig__is_int(t->dtype) || x->n_dims < 1 ||
        t->n_dims != x->n_dims - 1 || x->dims[x->n_dims - 1].plus < 1)
        return ig__fail_shapes(
            err, op, "wants logits [..,V] of floats and targets [..] of integers", x, t);
    for (int i = 0; i < t->n_dims; i++)
        if (!ig__dim_same(x->dims[i], t->dims[i]))
            return ig__fail_shapes(err, op, "wants a target for each row", x, t);
    return IG_OK;
}

static ig_status cross_entropy_shape(ig__type *out, const ig__type *const *in, int n_in,
                                     const void *attrs, ig_error *err)
{
    (void)n_in, (void)attrs;
    IG_TRY(check("cross_entropy", in[0], in[1], err));
    out[0] = (ig__type){.dtype = in[0]->dtype};
    out[1] = *in[1];
    out[1].dtype = in[0]->dtype == IG_DTYPE_F64 ? IG_DTYPE_F64 : IG_DTYPE_F32;
    return IG_OK;
}

enum { ROWS = 64 }; /* that are taken at a time */

typedef struct entropy_walk {
    ig__reduction x, y; /* rows of logits; y: of the gradient */
    ig__walk_over t, lse;
    ig__compute compute;
    int64_t rows_a_unit;
} entropy_walk;

static entropy_walk walk_of(const ig__eval *e, const ig__array *lse)
{
    entropy_walk w;
    const uint32_t last = 1u << (e->in[0].type->n_dims - 1);
    w.compute = ig__compute_of(e->in[0].type->dtype);
    ig__reduction_make(&w.x, &e->in[0], last);
    ig__walk_make(&w.t, &e->in[1], e->in[1].type);
    ig__walk_make(&w.lse, lse, e->in[1].type);
    w.rows_a_unit = w.x.n >= 4096 ? 1 : 4096 / w.x.n;
    return w;
}

/* Targets of rows [first, first + n); -1: the row does not count. A target out of range is a fault and
 * does not count. */
static void load_targets(const ig__eval *e, const entropy_walk *w, int64_t first, int64_t n,
                         int64_t *targets)
{
    const entropy_attrs *a = e->attrs;
    ig__walk_load(&w->t, first, n, targets, IG_COMPUTE_I64);
    for (int64_t i = 0; i < n; i++) {
        const int64_t t = targets[i];
        if (a->use_ignore && t == a->ignore) {
            targets[i] = -1;
        } else if (t < 0 || t >= w->x.n) {
            targets[i] = -1;
            ig__fault(e, first + i);
        }
    }
}

/* *lse_out and the row's loss. */
static double row_loss(const ig__eval *e, const void *x_, int64_t n, int64_t target,
                       ig__compute compute, double *lse_out)
{
    const double s = ((const entropy_attrs *)e->attrs)->smoothing;
    if (compute == IG_COMPUTE_F32) {
        float lse;
        const float loss = e->t->cross_entropy(&lse, x_, n, target, (float)s);
        *lse_out = (double)lse;
        return (double)loss;
    }
    const double *x = x_;
    double lanes[IG_LANES] = {0}, plain[IG_LANES] = {0}, largest = -(double)INFINITY;
    for (int64_t i = 0; i < n; i++)
        largest = x[i] > largest || x[i] != x[i] ? x[i] : largest;
    for (int64_t i = 0; i < n; i++) {
        lanes[i % IG_LANES] += exp(x[i] - largest);
        plain[i % IG_LANES] += x[i];
    }
    const double lse = largest + log(ig__lanes_join(lanes));
    *lse_out = lse;
    double loss = (1 - s) * (lse - x[target]);
    if (s != 0)
        loss += s * (lse - ig__lanes_join(plain) / (double)n);
    return loss;
}

static int64_t entropy_units(const ig__eval *e)
{
    const entropy_walk w = walk_of(e, &e->in[1]);
    return e->phase == 0 ? (w.x.n_out + w.rows_a_unit - 1) / w.rows_a_unit : 1;
}

/* Shared: losses of the rows, then 1 for each that counts. */
static ig__room entropy_room(const ig__eval *e)
{
    return (ig__room){.each =
                          (size_t)e->in[0].type->dims[e->in[0].type->n_dims - 1].plus * 16,
                      .shared = (size_t)e->in[1].n * 16 + 64};
}

static double entropy_work(const ig__eval *e)
{
    return (double)e->in[0].n * 4;
}

static double tree_sum(const double *x, int64_t n)
{
    double total = 0;
    for (int64_t first = 0; first < n; first += IG_REDUCE_SPAN) {
        double lanes[IG_LANES] = {0};
        ig__lanes_add(lanes, x + first,
                      n - first < IG_REDUCE_SPAN ? n - first : IG_REDUCE_SPAN);
        total += ig__lanes_join(lanes);
    }
    return total;
}

/* Losses and log-sum-exps of rows [first, first + n), n <= ROWS. */
static void entropy_rows(const ig__eval *e, const entropy_walk *w, int64_t first, int64_t n)
{
    double *losses = e->shared, *counts = losses + e->in[1].n, lse[ROWS];
    int64_t targets[ROWS];
    load_targets(e, w, first, n, targets);
    for (int64_t i = 0; i < n; i++) {
        const int64_t o = first + i, t = targets[i];
        lse[i] = losses[o] = 0;
        counts[o] = t >= 0;
        if (t >= 0)
            losses[o] = row_loss(e, ig__row_load(&w->x, o, w->compute, e->scratch), w->x.n,
                                 t, w->compute, &lse[i]);
    }
    ig__walk_store(&w->lse, first, n, lse, IG_COMPUTE_F64);
}

static void cross_entropy_eval(const ig__eval *e, int64_t begin, int64_t end)
{
    const entropy_attrs *a = e->attrs;
    const double *losses = e->shared, *counts = losses + e->in[1].n;
    if (e->phase == 0) {
        const entropy_walk w = walk_of(e, &e->out[1]);
        const int64_t most = end * w.rows_a_unit,
                      last = most < w.x.n_out ? most : w.x.n_out;
        for (int64_t o = begin * w.rows_a_unit; o < last; o += ROWS)
            entropy_rows(e, &w, o, last - o < ROWS ? last - o : ROWS);
        return;
    }
    const double count = tree_sum(counts, e->in[1].n);
    double loss = tree_sum(losses, e->in[1].n);
    if (!a->sum)
        loss = count > 0 ? loss / count : 0;
    if (!a->sum && count == 0)
        ig__remark(e);
    ig__store(e->out[0].data, e->out[0].type->dtype, 1, &loss, IG_COMPUTE_F64, 1);
}

static void cross_entropy_explain(const ig__eval *e, int64_t place, ig_error *err)
{
    ig__walk_over w;
    int64_t t;
    ig__walk_make(&w, &e->in[1], e->in[1].type);
    ig__walk_load(&w, place, 1, &t, IG_COMPUTE_I64);
    ig__fail(err, IG_ERR_ARGUMENT,
             "cross_entropy: target %lld at position %lld is outside 0..%lld", (long long)t,
             (long long)(((const entropy_attrs *)e->attrs)->first + place),
             (long long)e->in[0].type->dims[e->in[0].type->n_dims - 1].plus - 1);
}

/* The same of plain operators, where the gradient is recorded itself. */
static ig_tensor *slope_of(ig__gradient *g)
{
    const entropy_attrs *a = g->attrs;
    ig_tensor *x = g->in[0], *t = g->in[1], *d = g->d_out[0];
    const ig_dtype dtype = x->type.dtype;
    const int64_t v = ig_tensor_dim(x, -1);
    ig_tensor *zero = ig_tensor_scalar(g->ctx, dtype, 0);
    ig_tensor *target = ig_add_scalar(ig_scale(ig_one_hot(t, v, dtype), 1 - a->smoothing),
                                      a->smoothing / (double)v);
    ig_tensor *slope = ig_sub(ig_softmax(x, -1), target);
    ig_tensor *counts = ig_full_like(t, 1);
    if (a->use_ignore)
        counts =
            ig_not_equal(t, ig_tensor_scalar(g->ctx, t->type.dtype, (double)a->ignore));
    ig_tensor *counted = ig_not_equal(
        counts, ig_tensor_scalar(g->ctx, counts ? counts->type.dtype : IG_DTYPE_BOOL, 0));
    if (!a->sum)
        d = ig_div(d, ig_cast(ig_maximum(ig_sum(counts, 0, NULL, false),
                                         ig_tensor_scalar(g->ctx, IG_DTYPE_I64, 1)),
                              dtype));
    return ig_where(ig_unsqueeze(counted, -1), ig_mul(slope, d), zero);
}

static void cross_entropy_gradient(ig__gradient *g)
{
    if (!g->d_out[0])
        return;
    if (!g->ctx->no_grad) {
        g->d_in[0] = slope_of(g);
        return;
    }
    ig_tensor *const in[4] = {g->in[0], g->in[1], g->out[1], g->d_out[0]};
    g->d_in[0] = ig__apply(g->ctx, &ig__op_cross_entropy_grad, g->attrs, in, 4);
}

const ig__op ig__op_cross_entropy = {.name = "cross_entropy",
                                     .n_in_least = 2,
                                     .n_in_most = 2,
                                     .attrs_bytes = sizeof(entropy_attrs),
                                     .shape = cross_entropy_shape,
                                     .n_out = 2,
                                     .n_phases = 2,
                                     .n_units = entropy_units,
                                     .eval = cross_entropy_eval,
                                     .room = entropy_room,
                                     .work = entropy_work,
                                     .explain = cross_entropy_explain,
                                     .remark = IG__NO_TARGETS,
                                     .gradient = cross_entropy_gradient,
                                     .needs = {IG_IN(0) | IG_IN(1) | IG_OUT(1)},
                                     .precision = IG_PRECISION_HIGH};

/* ---- the gradient: logits, targets, lse, d_loss -> d_logits ------------------------------------------- */

static ig_status cross_entropy_grad_shape(ig__type *out, const ig__type *const *in,
                                          int n_in, const void *attrs, ig_error *err)
{
    (void)n_in, (void)attrs;
    IG_TRY(check("cross_entropy_grad", in[0], in[1], err));
    *out = *in[0];
    return IG_OK;
}

/* Phase 0 counts, by one thread; phase 1 is rows. */
static int64_t grad_units(const ig__eval *e)
{
    const entropy_walk w = walk_of(e, &e->in[2]);
    return e->phase ? (w.x.n_out + w.rows_a_unit - 1) / w.rows_a_unit : 1;
}

static void count_rows(const ig__eval *e, const entropy_walk *w)
{
    const entropy_attrs *a = e->attrs;
    int64_t targets[ROWS], count = 0;
    double d;
    for (int64_t o = 0; o < w->x.n_out; o += ROWS) {
        const int64_t n = w->x.n_out - o < ROWS ? w->x.n_out - o : ROWS;
        load_targets(e, w, o, n, targets);
        for (int64_t i = 0; i < n; i++)
            count += targets[i] >= 0;
    }
    ig__load(&d, IG_COMPUTE_F64, e->in[3].data, e->in[3].type->dtype, 1, 1);
    *(double *)e->shared = a->sum ? d : count > 0 ? d / (double)count : 0;
}

static void grad_row(const ig__eval *e, void *y_, const void *x_, int64_t n, int64_t target,
                     ig__compute compute, double lse, double scale)
{
    const double s = ((const entropy_attrs *)e->attrs)->smoothing;
    if (target < 0) {
        memset(y_, 0, (size_t)n * ig_dtype_block_bytes(ig__dtype_of(compute)));
        return;
    }
    if (compute == IG_COMPUTE_F32) {
        e->t->cross_entropy_grad(y_, x_, n, target, (float)s, (float)lse, (float)scale);
        return;
    }
    const double *x = x_;
    double *y = y_;
    for (int64_t i = 0; i < n; i++)
        y[i] = scale * (exp(x[i] - lse) - (i == target ? 1 - s : 0) - s / (double)n);
}

static void grad_rows(const ig__eval *e, const entropy_walk *w, int64_t first, int64_t n)
{
    const double scale = *(const double *)e->shared;
    char *buffer = e->scratch;
    int64_t targets[ROWS];
    double lse[ROWS];
    load_targets(e, w, first, n, targets);
    ig__walk_load(&w->lse, first, n, lse, IG_COMPUTE_F64);
    for (int64_t i = 0; i < n; i++) {
        const void *x = ig__row_load(&w->x, first + i, w->compute, buffer);
        void *y = ig__row_place(&w->y, first + i, w->compute, buffer + w->x.n * 8);
        grad_row(e, y, x, w->x.n, targets[i], w->compute, lse[i], scale);
        ig__row_store(&w->y, first + i, y, w->compute);
    }
}

static void cross_entropy_grad_eval(const ig__eval *e, int64_t begin, int64_t end)
{
    entropy_walk w = walk_of(e, &e->in[2]);
    if (e->phase == 0) {
        count_rows(e, &w);
        return;
    }
    ig__reduction_make(&w.y, &e->out[0], 1u << (e->in[0].type->n_dims - 1));
    const int64_t most = end * w.rows_a_unit, last = most < w.x.n_out ? most : w.x.n_out;
    for (int64_t o = begin * w.rows_a_unit; o < last; o += ROWS)
        grad_rows(e, &w, o, last - o < ROWS ? last - o : ROWS);
}

const ig__op ig__op_cross_entropy_grad = {.name = "cross_entropy_grad",
                                          .n_in_least = 4,
                                          .n_in_most = 4,
                                          .attrs_bytes = sizeof(entropy_attrs),
                                          .shape = cross_entropy_grad_shape,
                                          .n_phases = 2,
                                          .n_units = grad_units,
                                          .eval = cross_entropy_grad_eval,
                                          .room = entropy_room,
                                          .work = entropy_work,
                                          .explain = cross_entropy_explain,
                                          .remark = IG__NO_TARGETS,
                                          .gradient = ig__gradient_missing,
                                          .precision = IG_PRECISION_HIGH};

/* ---- public ------------------------------------------------------------------------------------------- */

ig_tensor *ig__cross_entropy_from(ig_tensor *logits, ig_tensor *targets,
                                  const ig_cross_entropy_opts *opts, int64_t first)
{
    entropy_attrs attrs;
    ig_tensor *const in[2] = {logits, targets};
    ig_tensor *out[2];
    memset(&attrs, 0, sizeof attrs);
    attrs.first = first;
    if (opts) {
        attrs.smoothing = opts->label_smoothing;
        attrs.ignore = opts->ignore;
        attrs.use_ignore = opts->use_ignore;
        attrs.sum = opts->sum;
    }
    if (logits && !(attrs.smoothing >= 0 && attrs.smoothing <= 1))
        return ig__fail_on(logits->ctx, IG_ERR_ARGUMENT,
                           "cross_entropy: label smoothing is %g, allowed is 0 to 1",
                           attrs.smoothing);
    ig__apply_all(NULL, &ig__op_cross_entropy, &attrs, in, 2, out);
    return out[0];
}

ig_tensor *ig_cross_entropy(ig_tensor *logits, ig_tensor *targets,
                            const ig_cross_entropy_opts *opts)
{
    return ig__cross_entropy_from(logits, targets, opts, 0);
}
