/* Softmax, its logarithm, log-sum-exp, along one dimension.
 *
 * A row is loaded (any strides, any float type), worked on in f32 or f64, and stored. Sums are taken in
 * double in the tree of reduce.h. A row of -inf alone gives zeros (softmax) or -inf.
 */
#include "op/rows.h"

#include "ingot/op.h"
#include "op/apply.h"
#include "op/op_int.h"

#include <math.h>
#include <string.h>

/* ---- rows ------------------------------------------------------------------------------------------ */

static char *row_data(const ig__reduction *r, int64_t o)
{
    int64_t offset = 0;
    for (int d = r->kept.n_dims; --d > 0;) {
        offset += o % r->kept.dims[d] * r->kept.strides[d];
        o /= r->kept.dims[d];
    }
    offset += o * r->kept.strides[0]; /* o is within the first dimension now */
    return r->kept.data + offset * (int64_t)ig_dtype_block_bytes(r->kept.dtype);
}

static bool lies_ready(const ig__reduction *r, ig__compute compute)
{
    return r->reduced.n_dims == 1 && (r->reduced.strides[0] == 1 || r->n == 1) &&
           r->reduced.dtype == ig__dtype_of(compute);
}

const void *ig__row_load(const ig__reduction *r, int64_t o, ig__compute compute,
                         void *buffer)
{
    if (lies_ready(r, compute))
        return row_data(r, o);
    ig__walk_over w = r->reduced;
    w.data = row_data(r, o);
    if (r->n)
        ig__walk_load(&w, 0, r->n, buffer, compute);
    return buffer;
}

void *ig__row_place(const ig__reduction *r, int64_t o, ig__compute compute, void *buffer)
{
    return lies_ready(r, compute) ? row_data(r, o) : buffer;
}

void ig__row_store(const ig__reduction *r, int64_t o, const void *row, ig__compute compute)
{
    char *data = row_data(r, o);
    if ((const void *)data == row || !r->n)
        return;
    ig__walk_over w = r->reduced;
    w.data = data;
    ig__walk_store(&w, 0, r->n, row, compute);
}

/* ---- one row ----------------------------------------------------------------------------------------- */

static bool is_f32(const ig__eval *e)
{
    return ig__compute_of(e->in[0].type->dtype) == IG_COMPUTE_F32;
}

static double lse_f64(const double *x, int64_t n)
{
    double largest = -(double)INFINITY, lanes[IG_LANES] = {0};
    for (int64_t i = 0; i < n; i++)
        largest = x[i] > largest || x[i] != x[i] ? x[i] : largest;
    if (largest == -(double)INFINITY)
        return largest;
    for (int64_t i = 0; i < n; i++)
        lanes[i % IG_LANES] += exp(x[i] - largest);
    return largest + log(ig__lanes_join(lanes));
}

static void softmax_row(const ig__eval *e, void *y_, const void *x_, int64_t n)
{
    if (is_f32(e)) {
        e->t->softmax(y_, x_, n);
        return;
    }
    const double *x = x_, lse = lse_f64(x, n);
    double *y = y_;
    for (int64_t i = 0; i < n; i++)
        y[i] = lse == -(double)INFINITY ? 0 : exp(x[i] - lse);
}

static void log_softmax_row(const ig__eval *e, void *y_, const void *x_, int64_t n)
{
    if (is_f32(e)) {
        e->t->log_softmax(y_, x_, n);
        return;
    }
    const double *x = x_, lse = lse_f64(x, n);
    double *y = y_;
    for (int64_t i = 0; i < n; i++)
        y[i] = lse == -(double)INFINITY ? lse : x[i] - lse;
}

/* dx = y (dy - sum(dy y)) */
static void softmax_grad_row(const ig__eval *e, void *dx_, const void *dy_, const void *y_,
                             int64_t n)
{
    if (is_f32(e)) {
        e->t->softmax_grad(dx_, dy_, y_, n);
        return;
    }
    const double *dy = dy_, *y = y_;
    double lanes[IG_LANES] = {0}, *dx = dx_;
    for (int64_t i = 0; i < n; i++)
        lanes[i % IG_LANES] += dy[i] * y[i];
    const double dot = ig__lanes_join(lanes);
    for (int64_t i = 0; i < n; i++)
        dx[i] = y[i] * (dy[i] - dot);
}

/* dx = dy - exp(y) sum(dy) */
static void log_softmax_grad_row(const ig__eval *e, void *dx_, const void *dy_,
                                 const void *y_, int64_t n)
{
    if (is_f32(e)) {
        e->t->log_softmax_grad(dx_, dy_, y_, n);
        return;
    }
    const double *dy = dy_, *y = y_;
    double lanes[IG_LANES] = {0}, *dx = dx_;
    for (int64_t i = 0; i < n; i++)
        lanes[i % IG_LANES] += dy[i];
    const double sum = ig__lanes_join(lanes);
    for (int64_t i = 0; i < n; i++)
        dx[i] = dy[i] - exp(y[i]) * sum;
}

/* ---- walking ------------------------------------------------------------------------------------------- */

static uint32_t mask_of(const ig__eval *e)
{
    return ((const ig__reduce_attrs *)e->attrs)->mask;
}

/* A row is a unit, or several short ones are. */
static int64_t rows_a_unit(int64_t n)
{
    return n >= 4096 ? 1 : 4096 / (n > 0 ? n : 1);
}
static int64_t row_units(const ig__eval *e)
{
    ig__reduction r;
    ig__reduction_make(&r, &e->in[0], mask_of(e));
    const int64_t g = rows_a_unit(r.n);
    return (r.n_out + g - 1) / g;
}
static ig__room row_room(const ig__eval *e)
{
    ig__reduction r;
    ig__reduction_make(&r, &e->in[0], mask_of(e));
    return (ig__room){.each = (size_t)r.n * 8 * 3};
}
static double row_work(const ig__eval *e)
{
    return (double)e->in[0].n * 6;
}

typedef void row_fn(const ig__eval *e, void *y, const void *x, int64_t n);
typedef void row_grad_fn(const ig__eval *e, void *dx, const void *dy, const void *y,
                         int64_t n);

static void each_row(const ig__eval *e, int64_t begin, int64_t end, row_fn *f)
{
    const ig__compute compute = ig__compute_of(e->in[0].type->dtype);
    ig__reduction in, out;
    ig__reduction_make(&in, &e->in[0], mask_of(e));
    ig__reduction_make(&out, &e->out[0], mask_of(e));
    const int64_t g = rows_a_unit(in.n);
    char *buffer = e->scratch;
    for (int64_t o = begin * g; o < end * g && o < in.n_out; o++) {
        void *y = ig__row_place(&out, o, compute, buffer + in.n * 8);
        f(e, y, ig__row_load(&in, o, compute, buffer), in.n);
        ig__row_store(&out, o, y, compute);
    }
}

static void each_row_grad(const ig__eval *e, int64_t begin, int64_t end, row_grad_fn *f)
{
    const ig__compute compute = ig__compute_of(e->in[0].type->dtype);
    ig__reduction dy, y, dx;
    ig__reduction_make(&dy, &e->in[0], mask_of(e));
    ig__reduction_make(&y, &e->in[1], mask_of(e));
    ig__reduction_make(&dx, &e->out[0], mask_of(e));
    const int64_t g = rows_a_unit(dy.n);
    char *buffer = e->scratch;
    for (int64_t o = begin * g; o < end * g && o < dy.n_out; o++) {
        void *d = ig__row_place(&dx, o, compute, buffer + dy.n * 16);
        f(e, d, ig__row_load(&dy, o, compute, buffer),
          ig__row_load(&y, o, compute, buffer + dy.n * 8), dy.n);
        ig__row_store(&dx, o, d, compute);
    }
}

static void softmax_eval(const ig__eval *e, int64_t begin, int64_t end)
{
    each_row(e, begin, end, softmax_row);
}
static void log_softmax_eval(const ig__eval *e, int64_t begin, int64_t end)
{
    each_row(e, begin, end, log_softmax_row);
}
static void softmax_grad_eval(const ig__eval *e, int64_t begin, int64_t end)
{
    each_row_grad(e, begin, end, softmax_grad_row);
}
static void log_softmax_grad_eval(const ig__eval *e, int64_t begin, int64_t end)
{
    each_row_grad(e, begin, end, log_softmax_grad_row);
}

static void logsumexp_eval(const ig__eval *e, int64_t begin, int64_t end)
{
    const ig__compute compute = ig__compute_of(e->in[0].type->dtype);
    ig__reduction in;
    ig__walk_over out;
    ig__reduction_make(&in, &e->in[0], mask_of(e));
    ig__walk_make(&out, &e->out[0], e->out[0].type);
    const int64_t g = rows_a_unit(in.n);
    for (int64_t o = begin * g; o < end * g && o < in.n_out; o++) {
        const void *x = ig__row_load(&in, o, compute, e->scratch);
        const double lse =
            compute == IG_COMPUTE_F32 ? (double)e->t->logsumexp(x, in.n) : lse_f64(x, in.n);
        ig__walk_store(&out, o, 1, &lse, IG_COMPUTE_F64);
    }
}

/* Rows along the last dimension lie one behind the other. */
static int64_t row_done(const ig__eval *e, int64_t unit)
{
    const ig__type *x = e->in[0].type;
    if (!x->n_dims || mask_of(e) != 1u << (x->n_dims - 1))
        return -1;
    const int64_t d = x->dims[x->n_dims - 1].plus, n = unit * rows_a_unit(d) * d;
    return n < e->in[0].n ? n : e->in[0].n;
}

/* ---- shapes, gradients, rows ------------------------------------------------------------------------------ */

static ig_status same_shape(ig__type *out, const ig__type *const *in, int n_in,
                            const void *attrs, ig_error *err)
{
    (void)attrs;
    if (!ig__is_float(in[0]->dtype) || (n_in > 1 && !ig__type_same(in[0], in[1])))
        return ig__fail_shapes(err, "softmax", "wants floats", in[0],
                               n_in > 1 ? in[1] : NULL);
    *out = *in[0];
    return IG_OK;
}

static ig_status logsumexp_shape(ig__type *out, const ig__type *const *in, int n_in,
                                 const void *attrs, ig_error *err)
{
    (void)n_in;
    const ig__reduce_attrs *a = attrs;
    if (!ig__is_float(in[0]->dtype))
        return ig__fail_shapes(err, "logsumexp", "wants floats", in[0], NULL);
    *out = *in[0];
    out->n_dims = 0;
    for (int d = 0; d < in[0]->n_dims; d++)
        if (!(a->mask >> d & 1))
            out->dims[out->n_dims++] = in[0]->dims[d];
        else if (a->keep)
            out->dims[out->n_dims++] = ig__dim_of(1);
    return IG_OK;
}

static int dim_of(const ig__reduce_attrs *a)
{
    return a->mask ? __builtin_ctz(a->mask) : 0;
}

/* Where second order is asked for, out of plain operators; else in one pass. */
static void softmax_gradient(ig__gradient *g)
{
    ig_tensor *dy = g->d_out[0], *y = g->out[0];
    if (g->ctx->no_grad) {
        g->d_in[0] = ig__apply2(&ig__op_softmax_grad, g->attrs, dy, y);
        return;
    }
    const int dim = dim_of(g->attrs);
    g->d_in[0] = ig_mul(y, ig_sub(dy, ig_sum(ig_mul(dy, y), 1, &dim, true)));
}
static void log_softmax_gradient(ig__gradient *g)
{
    ig_tensor *dy = g->d_out[0], *y = g->out[0];
    if (g->ctx->no_grad) {
        g->d_in[0] = ig__apply2(&ig__op_log_softmax_grad, g->attrs, dy, y);
        return;
    }
    const int dim = dim_of(g->attrs);
    g->d_in[0] = ig_sub(dy, ig_mul(ig_exp(y), ig_sum(dy, 1, &dim, true)));
}
static void logsumexp_gradient(ig__gradient *g)
{
    const ig__reduce_attrs *a = g->attrs;
    ig_tensor *d = g->d_out[0];
    if (!a->keep)
        d = ig_unsqueeze(d, dim_of(a));
    g->d_in[0] = ig_mul(ig_softmax(g->in[0], dim_of(a)), d);
}

#define ROWS(op, arity, rule, ...)                                                         \
    const ig__op ig__op_##op = {.name = #op,                                               \
                                .n_in_least = arity,                                       \
                                .n_in_most = arity,                                        \
                                .attrs_bytes = sizeof(ig__reduce_attrs),                   \
                                .shape = rule,                                             \
                                .n_units = row_units,                                      \
                                .eval = op##_eval,                                         \
                                .work = row_work,                                          \
                                .room = row_room,                                          \
                                .precision = IG_PRECISION_HIGH,                            \
                                __VA_ARGS__};
ROWS(softmax, 1, same_shape, .gradient = softmax_gradient, .needs = {IG_OUT(0)},
     .done = row_done)
ROWS(log_softmax, 1, same_shape, .gradient = log_softmax_gradient, .needs = {IG_OUT(0)},
     .done = row_done)
ROWS(logsumexp, 1, logsumexp_shape, .gradient = logsumexp_gradient, .needs = {IG_IN(0)})
ROWS(softmax_grad, 2, same_shape, .gradient = ig__gradient_missing)
ROWS(log_softmax_grad, 2, same_shape, .gradient = ig__gradient_missing)

/* ---- public ----------------------------------------------------------------------------------------------- */

static ig_tensor *along(const ig__op *op, ig_tensor *x, int dim, bool keep)
{
    ig__reduce_attrs attrs;
    memset(&attrs, 0, sizeof attrs);
    if (!ig__dims_mask(&attrs.mask, x, op->name, 1, &dim))
        return NULL;
    attrs.keep = keep;
    return ig__apply1(op, &attrs, x);
}

/* Rows whose elements lie far apart are laid side by side first, and back: many times faster than reading
 * a line of memory for each element. */
static ig_tensor *along_turned(const ig__op *op, ig_tensor *x, int dim)
{
    enum { FAR = 512 };
    const int at = x && dim < 0 ? dim + x->type.n_dims : dim;
    if (!x || at < 0 || at >= x->type.n_dims || x->strides[at] < FAR ||
        x->type.dims[at].plus < FAR)
        return along(op, x, dim, true);
    ig_tensor *y = along(op, ig_contiguous(ig_transpose(x, at, -1)), -1, true);
    return ig_transpose(y, at, -1);
}

ig_tensor *ig_softmax(ig_tensor *x, int dim)
{
    return along_turned(&ig__op_softmax, x, dim);
}
ig_tensor *ig_log_softmax(ig_tensor *x, int dim)
{
    return along_turned(&ig__op_log_softmax, x, dim);
}
ig_tensor *ig_logsumexp(ig_tensor *x, int dim, bool keep)
{
    return along(&ig__op_logsumexp, x, dim, keep);
}
