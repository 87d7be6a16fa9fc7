/* Running sums and products along a dimension; largest and smallest places; sorting.
 *
 * Running values are taken in double (integers in i64), in order. The gradient of a running product never
 * divides by an element: with P the product before i and R the weighed products behind it,
 *   dx[i] = P[i-1] R[i],   R[i] = dy[i] + x[i+1] R[i+1]
 */
#include "op/index.h"

#include "ingot/op.h"
#include "op/apply.h"
#include "op/op_int.h"
#include "op/rows.h"

#include <math.h>
#include <string.h>

typedef struct running_attrs {
    uint32_t mask; /* one bit: the dimension */
    bool backwards, descending;
    int64_t k; /* of topk; the whole row otherwise */
} running_attrs;

static int64_t rows_of(const ig__eval *e)
{
    ig__reduction r;
    ig__reduction_make(&r, &e->in[0], ((const running_attrs *)e->attrs)->mask);
    return r.n_out;
}

static ig__room rows_room(const ig__eval *e)
{
    ig__reduction r;
    ig__reduction_make(&r, &e->in[0], ((const running_attrs *)e->attrs)->mask);
    return (ig__room){.each = (size_t)(r.n + 1) * 8 * 4};
}

static double running_work(const ig__eval *e)
{
    return (double)e->in[0].n * 4;
}

/* f64, or i64 for integers: what rows are worked on in */
static ig__compute wide(const ig__eval *e)
{
    return ig__is_float(e->in[0].type->dtype) ? IG_COMPUTE_F64 : IG_COMPUTE_I64;
}

static ig_status same_shape(ig__type *out, const ig__type *const *in, int n_in,
                            const void *attrs, ig_error *err)
{
    (void)n_in, (void)attrs, (void)err;
    *out = *in[0];
    if (!ig__is_float(out->dtype))
        out->dtype = IG_DTYPE_I64;
    return IG_OK;
}

/* ---- cumsum, cumprod --------------------------------------------------------------------------------------- */

static void run_along(const ig__eval *e, int64_t begin, int64_t end, bool product)
{
    const running_attrs *a = e->attrs;
    const ig__compute compute = wide(e);
    ig__reduction in, out;
    ig__reduction_make(&in, &e->in[0], a->mask);
    ig__reduction_make(&out, &e->out[0], a->mask);
    for (int64_t o = begin; o < end; o++) {
        double *y = e->scratch, sum = product;
        int64_t *whole = e->scratch;
        uint64_t count = product;
        const void *x = ig__row_load(&in, o, compute, y);
        for (int64_t k = 0; k < in.n; k++) {
            const int64_t i = a->backwards ? in.n - 1 - k : k;
            if (compute == IG_COMPUTE_F64) {
                const double v = ((const double *)x)[i];
                y[i] = sum = product ? sum * v : sum + v;
            } else {
                const uint64_t v = (uint64_t)((const int64_t *)x)[i];
                count = product ? count * v : count + v;
                whole[i] = (int64_t)count;
            }
        }
        ig__row_store(&out, o, y, compute);
    }
}

static void cumsum_eval(const ig__eval *e, int64_t begin, int64_t end)
{
    run_along(e, begin, end, false);
}
static void cumprod_eval(const ig__eval *e, int64_t begin, int64_t end)
{
    run_along(e, begin, end, true);
}

static void cumsum_gradient(ig__gradient *g)
{
    running_attrs back = *(const running_attrs *)g->attrs;
    back.backwards = !back.backwards;
    g->d_in[0] = ig__apply1(&ig__op_cumsum, &back, g->d_out[0]);
}
static void cumprod_gradient(ig__gradient *g)
{
    g->d_in[0] = ig__apply2(&ig__op_cumprod_grad, g->attrs, g->in[0], g->d_out[0]);
}

static void cumprod_grad_eval(const ig__eval *e, int64_t begin, int64_t end)
{
    const running_attrs *a = e->attrs;
    ig__reduction rx, rdy, rdx;
    ig__reduction_make(&rx, &e->in[0], a->mask);
    ig__reduction_make(&rdy, &e->in[1], a->mask);
    ig__reduction_make(&rdx, &e->out[0], a->mask);
    const int64_t n = rx.n;
    double *room = e->scratch;
    for (int64_t o = begin; o < end; o++) {
        const double *x = ig__row_load(&rx, o, IG_COMPUTE_F64, room);
        const double *dy = ig__row_load(&rdy, o, IG_COMPUTE_F64, room + n);
        double *dx = room + 2 * n, before = 1, behind = 0;
        for (int64_t i = 0; i < n; i++) {
            dx[i] = before;
            before *= x[i];
        }
        for (int64_t i = n; i-- > 0;) {
            behind = dy[i] + (i + 1 < n ? x[i + 1] * behind : 0);
            dx[i] *= behind;
        }
        ig__row_store(&rdx, o, dx, IG_COMPUTE_F64);
    }
}

#define RUNNING(op, arity, ...)                                                            \
    const ig__op ig__op_##op = {.name = #op,                                               \
                                .n_in_least = arity,                                       \
                                .n_in_most = arity,                                        \
                                .attrs_bytes = sizeof(running_attrs),                      \
                                .shape = same_shape,                                       \
                                .n_units = rows_of,                                        \
                                .eval = op##_eval,                                         \
                                .room = rows_room,                                         \
                                .work = running_work,                                      \
                                .precision = IG_PRECISION_HIGH,                            \
                                __VA_ARGS__};
RUNNING(cumsum, 1, .gradient = cumsum_gradient)
RUNNING(cumprod, 1, .gradient = cumprod_gradient, .needs = {IG_IN(0)})
RUNNING(cumprod_grad, 2, .gradient = ig__gradient_missing)

/* ---- argmax, argmin ---------------------------------------------------------------------------------------- */

static ig_status place_shape(ig__type *out, const ig__type *const *in, int n_in,
                             const void *attrs, ig_error *err)
{
    (void)n_in;
    const ig__reduce_attrs *a = attrs;
    out->layout = IG_LAYOUT_ROWS;
    out->acts = (ig__acts)0; /* of packed activations only */
    out->dtype = IG_DTYPE_I64;
    out->n_dims = 0;
    for (int d = 0; d < in[0]->n_dims; d++)
        if (!(a->mask >> d & 1))
            out->dims[out->n_dims++] = in[0]->dims[d];
        else if (in[0]->dims[d].plus == 0)
            return ig__fail_shapes(err, "argmax", "nothing has no largest value", in[0],
                                   NULL);
        else if (a->keep)
            out->dims[out->n_dims++] = ig__dim_of(1);
    return IG_OK;
}

/* The first of the largest (smallest); a NaN is larger and smaller than all. */
static void place_eval(const ig__eval *e, int64_t begin, int64_t end, bool largest)
{
    const ig__reduce_attrs *a = e->attrs;
    const ig__compute compute = wide(e);
    ig__reduction in;
    ig__reduction_make(&in, &e->in[0], a->mask);
    for (int64_t o = begin; o < end; o++) {
        const void *x = ig__row_load(&in, o, compute, e->scratch);
        int64_t best = 0;
        for (int64_t i = 1; i < in.n; i++) {
            bool better;
            if (compute == IG_COMPUTE_F64) {
                const double v = ((const double *)x)[i], b = ((const double *)x)[best];
                better = b == b && (v != v || (largest ? v > b : v < b));
            } else {
                const int64_t v = ((const int64_t *)x)[i], b = ((const int64_t *)x)[best];
                better = largest ? v > b : v < b;
            }
            best = better ? i : best;
        }
        ig__store(e->out[0].data + o * 8, IG_DTYPE_I64, 1, &best, IG_COMPUTE_I64, 1);
    }
}
static void argmax_eval(const ig__eval *e, int64_t begin, int64_t end)
{
    place_eval(e, begin, end, true);
}
static void argmin_eval(const ig__eval *e, int64_t begin, int64_t end)
{
    place_eval(e, begin, end, false);
}
static int64_t place_units(const ig__eval *e)
{
    return e->out[0].n;
}
static ig__room place_room(const ig__eval *e)
{
    ig__reduction r;
    ig__reduction_make(&r, &e->in[0], ((const ig__reduce_attrs *)e->attrs)->mask);
    return (ig__room){.each = (size_t)(r.n + 1) * 8};
}

#define PLACE(op)                                                                          \
    const ig__op ig__op_##op = {.name = #op,                                               \
                                .n_in_least = 1,                                           \
                                .n_in_most = 1,                                            \
                                .attrs_bytes = sizeof(ig__reduce_attrs),                   \
                                .shape = place_shape,                                      \
                                .n_units = place_units,                                    \
                                .eval = op##_eval,                                         \
                                .room = place_room};
PLACE(argmax)
PLACE(argmin)

/* ---- sort, topk: values and places --------------------------------------------------------------------------- */

static ig_status sort_shape(ig__type *out, const ig__type *const *in, int n_in,
                            const void *attrs, ig_error *err)
{
    (void)n_in;
    const running_attrs *a = attrs;
    const int dim = __builtin_ctz(a->mask);
    if (a->k < 0 || a->k > in[0]->dims[dim].plus)
        return ig__fail_shapes(err, "sort, topk", "there are not that many", in[0], NULL);
    out[0] = *in[0];
    out[0].dims[dim] = ig__dim_of(a->k);
    out[1] = out[0];
    out[1].dtype = IG_DTYPE_I64;
    return IG_OK;
}

/* Does x[i] stand before x[j]? NaN counts as the largest; equal ones keep their order. */
static bool stands_before(const void *x, ig__compute compute, bool descending, int64_t i,
                          int64_t j)
{
    int order;
    if (compute == IG_COMPUTE_F64) {
        const double a = ((const double *)x)[i], b = ((const double *)x)[j];
        order = a != a ? b == b : b != b ? -1 : (a > b) - (a < b);
    } else {
        const int64_t a = ((const int64_t *)x)[i], b = ((const int64_t *)x)[j];
        order = (a > b) - (a < b);
    }
    if (descending)
        order = -order;
    return order < 0 || (order == 0 && i < j);
}

/* Merge sort of places: stable, and no worse on any input. */
static int64_t *sort_places(int64_t *at, int64_t *other, int64_t n, const void *x,
                            ig__compute compute, bool descending)
{
    for (int64_t i = 0; i < n; i++)
        at[i] = i;
    for (int64_t width = 1; width < n; width *= 2) {
        for (int64_t low = 0; low < n; low += 2 * width) {
            const int64_t middle = low + width < n ? low + width : n;
            const int64_t high = low + 2 * width < n ? low + 2 * width : n;
            for (int64_t i = low, j = middle, k = low; k < high; k++) {
                const bool left =
                    j == high ||
                    (i < middle && stands_before(x, compute, descending, at[i], at[j]));
                other[k] = left ? at[i++] : at[j++];
            }
        }
        int64_t *swap = at;
        at = other;
        other = swap;
    }
    return at;
}

static void sort_eval(const ig__eval *e, int64_t begin, int64_t end)
{
    const running_attrs *a = e->attrs;
    const ig__compute compute = wide(e);
    ig__reduction in, values, places;
    ig__reduction_make(&in, &e->in[0], a->mask);
    ig__reduction_make(&values, &e->out[0], a->mask);
    ig__reduction_make(&places, &e->out[1], a->mask);
    int64_t *room = e->scratch;
    for (int64_t o = begin; o < end; o++) {
        const void *x = ig__row_load(&in, o, compute, room);
        int64_t *at =
            sort_places(room + in.n, room + 2 * in.n, in.n, x, compute, a->descending);
        int64_t *sorted = room + 3 * in.n;
        for (int64_t i = 0; i < a->k; i++)
            memcpy(&sorted[i], (const char *)x + at[i] * 8, 8);
        ig__row_store(&values, o, sorted, compute);
        ig__row_store(&places, o, at, IG_COMPUTE_I64);
    }
}

static double sort_work(const ig__eval *e)
{
    return (double)e->in[0].n * 40;
}

static void sort_gradient(ig__gradient *g)
{
    const running_attrs *a = g->attrs;
    const ig__type *type = g->type[0];
    int64_t dims[IG_MAX_DIMS];
    if (!g->d_out[0])
        return;
    for (int d = 0; d < type->n_dims; d++)
        dims[d] = type->dims[d].plus;
    ig_tensor *zero = ig_zeros(g->ctx, g->d_out[0]->type.dtype, type->n_dims, dims);
    g->d_in[0] = ig_scatter_add(zero, __builtin_ctz(a->mask), g->out[1], g->d_out[0]);
}

const ig__op ig__op_sort = {.name = "sort",
                            .n_in_least = 1,
                            .n_in_most = 1,
                            .attrs_bytes = sizeof(running_attrs),
                            .shape = sort_shape,
                            .n_out = 2,
                            .n_units = rows_of,
                            .eval = sort_eval,
                            .room = rows_room,
                            .work = sort_work,
                            .gradient = sort_gradient,
                            .needs = {IG_OUT(1)}};

/* ---- public ------------------------------------------------------------------------------------------------ */

static bool set_attrs(running_attrs *a, const char *op, ig_tensor *x, int dim)
{
    memset(a, 0, sizeof *a);
    return ig__dims_mask(&a->mask, x, op, 1, &dim);
}

ig_tensor *ig_cumsum(ig_tensor *x, int dim)
{
    running_attrs a;
    return set_attrs(&a, "cumsum", x, dim) ? ig__apply1(&ig__op_cumsum, &a, x) : NULL;
}
ig_tensor *ig_cumprod(ig_tensor *x, int dim)
{
    running_attrs a;
    return set_attrs(&a, "cumprod", x, dim) ? ig__apply1(&ig__op_cumprod, &a, x) : NULL;
}

static ig_tensor *place(const ig__op *op, ig_tensor *x, int dim, bool keep)
{
    ig__reduce_attrs a;
    memset(&a, 0, sizeof a);
    if (!ig__dims_mask(&a.mask, x, op->name, 1, &dim))
        return NULL;
    a.keep = keep;
    return ig__apply1(op, &a, x);
}
ig_tensor *ig_argmax(ig_tensor *x, int dim, bool keep)
{
    return place(&ig__op_argmax, x, dim, keep);
}
ig_tensor *ig_argmin(ig_tensor *x, int dim, bool keep)
{
    return place(&ig__op_argmin, x, dim, keep);
}

static ig_tensor *sort(ig_tensor *x, int dim, int64_t k, bool descending,
                       ig_tensor **places_out)
{
    running_attrs a;
    ig_tensor *out[2];
    if (places_out)
        *places_out = NULL;
    if (!set_attrs(&a, "sort", x, dim))
        return NULL;
    a.k = k < 0 ? ig_tensor_dim(x, dim) : k;
    a.descending = descending;
    ig__apply_all(NULL, &ig__op_sort, &a, &x, 1, out);
    if (places_out)
        *places_out = out[1];
    return out[0];
}
ig_tensor *ig_sort(ig_tensor *x, int dim, bool descending, ig_tensor **places_out)
{
    return sort(x, dim, -1, descending, places_out);
}
ig_tensor *ig_topk(ig_tensor *x, int dim, int64_t k, ig_tensor **places_out)
{
    return sort(x, dim, k, true, places_out);
}
