/* Batch norm in training, x [B,C,S]: each channel over batch and places.
 *
 *   y = (x - mean) / sqrt(var + eps) gain + bias
 *   dx = a (dy - sum(dy) / n - (x - mean) sum(dy (x - mean)) / n / (var + eps)),  a = gain / sqrt(..)
 *
 * Phase 0 takes the sums of a channel, plane by plane in order, each plane in the tree of a sum, in
 * double; phase 1 makes a plane. What is subtracted is the mean, before anything is scaled: so
 * numbers far from zero keep their digits. x and dy are dense, f32 or f64.
 */
#include "op/network.h"

#include "ingot/op.h"
#include "op/apply.h"
#include "op/op_int.h"

#include <math.h>
#include <string.h>

typedef struct batch_attrs {
    double eps;
} batch_attrs;

/* Sums of a channel, kept from phase 0 to 1. */
typedef struct channel {
    double mean, var; /* forward; backward: sums of dy and of dy (x - mean) */
} channel;

static int64_t dim(const ig__type *t, int d)
{
    return t->dims[d].plus;
}

static bool is_f64(const ig__eval *e)
{
    return e->in[0].type->dtype == IG_DTYPE_F64;
}

/* Plane (b, c) of an operand or a result. */
static void *plane_of(const ig__array *x, int64_t b, int64_t c)
{
    const ig__type *t = x->type;
    return x->data +
           (size_t)((b * dim(t, 1) + c) * dim(t, 2)) * ig_dtype_block_bytes(t->dtype);
}

static double value_of(const ig__array *x, int64_t i)
{
    double v;
    const size_t size = ig_dtype_block_bytes(x->type->dtype);
    ig__load(&v, IG_COMPUTE_F64, x->data + (size_t)i * size, x->type->dtype, 1, 1);
    return v;
}

static void set_value(const ig__array *x, int64_t i, double v)
{
    const size_t size = ig_dtype_block_bytes(x->type->dtype);
    ig__store(x->data + (size_t)i * size, x->type->dtype, 1, &v, IG_COMPUTE_F64, 1);
}

/* ---- the loops over a plane ---------------------------------------------------------------------------- */

static double sum_of(const ig__eval *e, ig__reduce rule, const void *x, int64_t n,
                     double center)
{
    return is_f64(e) ? e->t->reduce_f64(rule, x, n, 1, center)
                     : e->t->reduce(rule, x, n, 1, center);
}

static double dot_of(const ig__eval *e, const void *x, const void *y, int64_t n,
                     double center)
{
    if (!is_f64(e))
        return e->t->dot(x, y, n);
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += ((const double *)x)[i] * (((const double *)y)[i] - center);
    return sum;
}

/* y = (x - mean) scale + shift */
static void shift(const ig__eval *e, void *y, const void *x, int64_t n, double mean,
                  double scale, double by)
{
    if (!is_f64(e)) {
        e->t->affine(y, x, 1, (float)-mean, n);
        e->t->affine(y, y, (float)scale, (float)by, n);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        ((double *)y)[i] = (((const double *)x)[i] - mean) * scale + by;
}

static void add_scaled(const ig__eval *e, void *y, const void *x, double a, int64_t n)
{
    if (!is_f64(e)) {
        e->t->axpy(y, x, (float)a, n);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        ((double *)y)[i] += a * ((const double *)x)[i];
}

/* ---- forward: x, gain, bias -> y, mean, var --------------------------------------------------------------- */

static ig_status batch_shape(ig__type *out, const ig__type *const *in, int n_in,
                             const void *attrs, ig_error *err)
{
    (void)attrs;
    if (in[0]->n_dims != 3)
        return ig__fail_shapes(err, "batch_norm", "wants x [B,C,S]", in[0], NULL);
    for (int i = 1; i < n_in; i++)
        if (in[i]->n_dims != 1 || dim(in[i], 0) != dim(in[0], 1) ||
            in[i]->dtype != in[0]->dtype)
            return ig__fail_shapes(err, "batch_norm", "wants [C] beside [B,C,S]", in[0],
                                   in[i]);
    out[0] = *in[0];
    out[1] = out[2] = (ig__type){.dtype = in[0]->dtype, .n_dims = 1};
    out[1].dims[0] = out[2].dims[0] = in[0]->dims[1];
    return IG_OK;
}

/* Phase 0: channels; phase 1: planes. */
static int64_t batch_units(const ig__eval *e)
{
    const ig__type *x = e->in[0].type;
    return e->phase ? (e->in[0].n ? dim(x, 0) * dim(x, 1) : 0) : dim(x, 1);
}

static ig__room batch_room(const ig__eval *e)
{
    return (ig__room){.shared = (size_t)dim(e->in[0].type, 1) * sizeof(channel)};
}

static double batch_work(const ig__eval *e)
{
    return (double)e->in[0].n;
}

static channel moments_of(const ig__eval *e, int64_t c)
{
    const ig__type *x = e->in[0].type;
    const int64_t batch = dim(x, 0), n = dim(x, 2);
    channel m = {0};
    for (int64_t b = 0; b < batch; b++)
        m.mean += sum_of(e, IG__REDUCE_SUM, plane_of(&e->in[0], b, c), n, 0);
    m.mean /= (double)(batch * n);
    for (int64_t b = 0; b < batch; b++)
        m.var += sum_of(e, IG__REDUCE_SUM_CENTERED, plane_of(&e->in[0], b, c), n, m.mean);
    m.var /= (double)(batch * n);
    return m;
}

static void batch_eval(const ig__eval *e, int64_t begin, int64_t end)
{
    const batch_attrs *a = e->attrs;
    const int64_t channels = dim(e->in[0].type, 1), n = dim(e->in[0].type, 2);
    channel *sums = e->shared;
    for (int64_t c = begin; c < end && e->phase == 0; c++) {
        sums[c] = moments_of(e, c);
        set_value(&e->out[1], c, sums[c].mean);
        set_value(&e->out[2], c, sums[c].var);
    }
    for (int64_t unit = begin; unit < end && e->phase; unit++) {
        const int64_t b = unit / channels, c = unit % channels;
        shift(e, plane_of(&e->out[0], b, c), plane_of(&e->in[0], b, c), n, sums[c].mean,
              value_of(&e->in[1], c) / sqrt(sums[c].var + a->eps), value_of(&e->in[2], c));
    }
}

/* ---- backward: x, dy, gain -> dx, d_gain, d_bias ----------------------------------------------------------- */

static ig_status batch_grad_shape(ig__type *out, const ig__type *const *in, int n_in,
                                  const void *attrs, ig_error *err)
{
    const ig__type *const first[2] = {in[0], in[2]};
    (void)n_in;
    if (!ig__type_same(in[0], in[1]))
        return ig__fail_shapes(err, "batch_norm", "the gradient does not fit", in[0],
                               in[1]);
    return batch_shape(out, first, 2, attrs, err);
}

static ig__room batch_grad_room(const ig__eval *e)
{
    return (ig__room){.shared = (size_t)dim(e->in[0].type, 1) * sizeof(channel) * 2};
}

/* moments[c], then sums[c] */
static void sum_channel(const ig__eval *e, int64_t c)
{
    const batch_attrs *a = e->attrs;
    const ig__type *x = e->in[0].type;
    const int64_t batch = dim(x, 0), channels = dim(x, 1), n = dim(x, 2);
    channel *moments = e->shared, *sums = moments + channels;
    moments[c] = moments_of(e, c);
    sums[c] = (channel){0};
    for (int64_t b = 0; b < batch; b++) {
        const void *dy = plane_of(&e->in[1], b, c), *at = plane_of(&e->in[0], b, c);
        const double sum = sum_of(e, IG__REDUCE_SUM, dy, n, 0);
        sums[c].mean += sum;
        sums[c].var += dot_of(e, dy, at, n, moments[c].mean);
        if (!is_f64(e))
            sums[c].var -= moments[c].mean * sum;
    }
    set_value(&e->out[1], c, sums[c].var / sqrt(moments[c].var + a->eps));
    set_value(&e->out[2], c, sums[c].mean);
}

static void batch_grad_eval(const ig__eval *e, int64_t begin, int64_t end)
{
    const batch_attrs *a = e->attrs;
    const ig__type *x = e->in[0].type;
    const int64_t channels = dim(x, 1), n = dim(x, 2);
    const double count = (double)(dim(x, 0) * n);
    const channel *moments = e->shared, *sums = moments + channels;
    for (int64_t c = begin; c < end && e->phase == 0; c++)
        sum_channel(e, c);
    for (int64_t unit = begin; unit < end && e->phase; unit++) {
        const int64_t b = unit / channels, c = unit % channels;
        const double power = moments[c].var + a->eps;
        const double scale = value_of(&e->in[2], c) / sqrt(power);
        void *dx = plane_of(&e->out[0], b, c);
        shift(e, dx, plane_of(&e->in[0], b, c), n, moments[c].mean,
              -scale * sums[c].var / count / power, -scale * sums[c].mean / count);
        add_scaled(e, dx, plane_of(&e->in[1], b, c), scale, n);
    }
}

/* ---- gradients ------------------------------------------------------------------------------------------ */

/* Out of plain operators, for gradients of gradients. */
static void gradient_by_parts(ig__gradient *g, ig_tensor *dy)
{
    static const int dims[2] = {0, 2};
    const batch_attrs *a = g->attrs;
    ig_tensor *x = g->in[0], *gain = g->in[1];
    ig_tensor *centered = ig_sub(x, ig_mean(x, 2, dims, true));
    ig_tensor *power = ig_mean(ig_square(centered), 2, dims, true);
    ig_tensor *scale = ig_rsqrt(ig_add_scalar(power, a->eps));
    ig_tensor *v = ig_mul(centered, scale);
    g->d_in[1] = ig_sum(ig_mul(dy, v), 2, dims, false);
    g->d_in[2] = ig_sum(dy, 2, dims, false);
    ig_tensor *u = ig_mul(dy, ig_unsqueeze(gain, 1));
    ig_tensor *rest =
        ig_add(ig_mean(u, 2, dims, true), ig_mul(v, ig_mean(ig_mul(u, v), 2, dims, true)));
    g->d_in[0] = ig_mul(scale, ig_sub(u, rest));
}

static void batch_gradient(ig__gradient *g)
{
    if (!g->d_out[0])
        return;
    ig_tensor *const in[3] = {g->in[0], ig__contiguous(g->d_out[0]), g->in[1]};
    if (g->ctx->no_grad)
        ig__apply_all(g->ctx, &ig__op_batch_norm_grad, g->attrs, in, 3, g->d_in);
    else
        gradient_by_parts(g, g->d_out[0]);
}

#define BATCH_ROW(op, prefix, flow, ...)                                                   \
    const ig__op ig__op_##op = {.name = #op,                                               \
                                .n_in_least = 3,                                           \
                                .n_in_most = 3,                                            \
                                .attrs_bytes = sizeof(batch_attrs),                        \
                                .shape = prefix##_shape,                                   \
                                .n_out = 3,                                                \
                                .n_phases = 2,                                             \
                                .n_units = batch_units,                                    \
                                .eval = prefix##_eval,                                     \
                                .room = prefix##_room,                                     \
                                .work = batch_work,                                        \
                                .gradient = flow,                                          \
                                .needs = {__VA_ARGS__},                                    \
                                .precision = IG_PRECISION_HIGH};
#define BOTH (IG_IN(0) | IG_IN(1))
BATCH_ROW(batch_norm, batch, batch_gradient, BOTH, BOTH, BOTH)
BATCH_ROW(batch_norm_grad, batch_grad, ig__gradient_missing, 0)

bool ig__batch_norm(ig_tensor *out[3], ig_tensor *x, ig_tensor *gain, ig_tensor *bias,
                    double eps)
{
    const batch_attrs attrs = {.eps = eps};
    ig_tensor *in[3] = {x, gain, bias};
    int64_t dims[IG_MAX_DIMS], channels = x->type.dims[1].plus;
    ig_dtype result;
    if (!ig__dense("batch_norm", in, 3, &result))
        return false;
    const ig_dtype dtype = in[0]->type.dtype;
    for (int i = 1; i < 3; i++)
        if (!in[i])
            in[i] = ig_full(x->ctx, dtype, 1, &channels, i == 1 ? 1 : 0);
    for (int d = 0; d < x->type.n_dims; d++)
        dims[d] = x->type.dims[d].plus;
    const int64_t places = dims[0] && channels ? x->n / (dims[0] * channels) : 0;
    in[0] = ig_reshape(in[0], 3, (const int64_t[]){dims[0], channels, places});
    if (!ig__apply_all(NULL, &ig__op_batch_norm, &attrs, in, 3, out))
        return false;
    out[0] = ig__cast(ig_reshape(out[0], x->type.n_dims, dims), result);
    return out[0] != NULL;
}
