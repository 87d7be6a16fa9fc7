/* Norms: layer norm and RMS norm over the last dimension, as rows; and batch norm's running statistics (rows of
 * batch and group norm are in files of their own).
 *
 *   layer   y = (x - mean) / sqrt(var + eps) g + b        rms   y = x / sqrt(mean(x^2) + eps) g
 *
 * A row of x is loaded (any strides, any float type), worked on in f32 or f64, and stored. The gradient of both
 * is one row, norm_grad: dx by rows; gradients of gain and bias as parts, one for each
 * IG__ROW_SPAN rows, which a second phase adds up by columns in order. So threads change no bit.
 */
#include "op/network.h"

#include "ingot/grad.h"
#include "ingot/op.h"
#include "op/apply.h"
#include "op/op_int.h"
#include "op/rows.h"

#include <math.h>
#include <string.h>

enum { COLUMNS = 256 }; /* of a unit that adds up parts */

typedef struct layer_attrs {
    double eps;
    bool gain, bias; /* operands behind x, in this order */
} layer_attrs;

typedef struct grad_attrs {
    double eps;
    bool centered; /* layer, else rms */
    bool gain;     /* operand 2 */
    bool want_x, want_gain, want_bias;
} grad_attrs;

static int64_t width_of(const ig__type *x)
{
    return x->dims[x->n_dims - 1].plus;
}

/* ---- one row of doubles ---------------------------------------------------------------------------- */

typedef struct moments {
    double mean, scale;
} moments;

static moments moments_of(const double *x, int64_t d, double eps, bool centered)
{
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < d && centered; i++)
        sum += x[i];
    const double mean = sum / (double)d;
    for (int64_t i = 0; i < d; i++)
        squares += (x[i] - mean) * (x[i] - mean);
    return (moments){mean, 1 / sqrt(squares / (double)d + eps)};
}

/* y [D] f64   x [D] f64   g, b [D] f64 or NULL */
static void norm_f64(double *y, const double *x, const double *g, const double *b,
                     int64_t d, double eps, bool centered)
{
    const moments m = moments_of(x, d, eps, centered);
    for (int64_t i = 0; i < d; i++) {
        const double v = (x[i] - m.mean) * m.scale * (g ? g[i] : 1);
        y[i] = b ? v + b[i] : v;
    }
}

/* dx [D] f64 or NULL; dg, db [D] f64 are added to */
static void norm_grad_f64(double *dx, double *dg, double *db, const double *dy,
                          const double *x, const double *g, int64_t d, double eps,
                          bool centered)
{
    const moments m = moments_of(x, d, eps, centered);
    double sum = 0, along = 0;
    for (int64_t i = 0; i < d; i++) {
        const double v = (x[i] - m.mean) * m.scale, u = dy[i] * (g ? g[i] : 1);
        sum += u;
        along += u * v;
        dg[i] += dy[i] * v;
        db[i] += dy[i];
    }
    sum = centered ? sum / (double)d : 0;
    along /= (double)d;
    for (int64_t i = 0; i < d && dx; i++) {
        const double v = (x[i] - m.mean) * m.scale, u = dy[i] * (g ? g[i] : 1);
        dx[i] = m.scale * (u - sum - v * along);
    }
}

/* ---- forward ------------------------------------------------------------------------------------------ */

static int64_t rows_a_unit(int64_t d)
{
    return d >= 4096 ? 1 : 4096 / (d > 0 ? d : 1);
}

int64_t ig__norm_units(const ig__eval *e)
{
    const int64_t d = width_of(e->in[0].type);
    if (!e->in[0].n)
        return 0;
    return (e->in[0].n / d + rows_a_unit(d) - 1) / rows_a_unit(d);
}

ig__room ig__norm_room(const ig__eval *e)
{
    return (ig__room){.each = (size_t)width_of(e->in[0].type) * 8 * 4};
}

int64_t ig__norm_done(const ig__eval *e, int64_t unit)
{
    const int64_t d = width_of(e->in[0].type), n = unit * rows_a_unit(d) * d;
    return n < e->in[0].n ? n : e->in[0].n;
}

double ig__norm_work(const ig__eval *e)
{
    return (double)e->in[0].n * 2;
}

/* Operand i, [D], in the compute type. */
static const void *load_vector(const ig__eval *e, int i, ig__compute compute, void *buffer)
{
    ig__walk_over w;
    ig__walk_make(&w, &e->in[i], e->in[i].type);
    ig__walk_load(&w, 0, e->in[i].n, buffer, compute);
    return buffer;
}

static void norm_eval(const ig__eval *e, int64_t begin, int64_t end, bool centered,
                      int gain, int bias, double eps)
{
    const ig__compute compute = ig__compute_of(e->in[0].type->dtype);
    const uint32_t last = 1u << (e->in[0].type->n_dims - 1);
    ig__reduction in, out;
    ig__reduction_make(&in, &e->in[0], last);
    ig__reduction_make(&out, &e->out[0], last);
    const int64_t d = in.n, group = rows_a_unit(d);
    char *buffer = e->scratch;
    const void *g = gain ? load_vector(e, gain, compute, buffer + 16 * d) : NULL;
    const void *b = bias ? load_vector(e, bias, compute, buffer + 24 * d) : NULL;
    for (int64_t o = begin * group; o < end * group && o < in.n_out; o++) {
        const void *x = ig__row_load(&in, o, compute, buffer);
        void *y = ig__row_place(&out, o, compute, buffer + 8 * d);
        if (compute == IG_COMPUTE_F64)
            norm_f64(y, x, g, b, d, eps, centered);
        else if (centered)
            e->t->layer_norm(y, x, g, b, d, (float)eps);
        else
            e->t->rms_norm(y, x, g, d, (float)eps);
        ig__row_store(&out, o, y, compute);
    }
}

static void layer_norm_eval(const ig__eval *e, int64_t begin, int64_t end)
{
    const layer_attrs *a = e->attrs;
    norm_eval(e, begin, end, true, a->gain ? 1 : 0, a->bias ? 1 + a->gain : 0, a->eps);
}

void ig__rms_norm_eval(const ig__eval *e, int64_t begin, int64_t end)
{
    const ig__norm_attrs *a = e->attrs;
    norm_eval(e, begin, end, false, e->n_in > 1 ? 1 : 0, 0, (double)a->eps);
}

static ig_status layer_norm_shape(ig__type *out, const ig__type *const *in, int n_in,
                                  const void *attrs, ig_error *err)
{
    (void)attrs;
    if (!ig__is_float(in[0]->dtype) || in[0]->n_dims < 1)
        return ig__fail_shapes(err, "layer_norm", "wants floats [..,D]", in[0], NULL);
    for (int i = 1; i < n_in; i++)
        if (!ig__is_float(in[i]->dtype) || in[i]->n_dims != 1 ||
            in[i]->dims[0].plus != width_of(in[0]))
            return ig__fail_shapes(err, "layer_norm",
                                   "gain and bias do not fit the last dimension", in[0],
                                   in[i]);
    *out = *in[0];
    return IG_OK;
}

/* ---- the gradient: dy, x [, gain] -> dx, d_gain, d_bias; what is not wanted is empty -------------------- */

static ig_status norm_grad_shape(ig__type *out, const ig__type *const *in, int n_in,
                                 const void *attrs, ig_error *err)
{
    const grad_attrs *a = attrs;
    if (!ig__type_same(in[0], in[1]) || (n_in > 2 && in[2]->n_dims != 1))
        return ig__fail_shapes(err, "norm_grad", "shapes differ", in[0], in[1]);
    const int64_t d = width_of(in[1]);
    out[0] = *in[1];
    out[1] = out[2] = (ig__type){.dtype = in[1]->dtype, .n_dims = 1};
    if (!a->want_x)
        out[0] = out[1];
    out[1].dims[0] = ig__dim_of(a->want_gain ? d : 0);
    out[2].dims[0] = ig__dim_of(a->want_bias ? d : 0);
    return IG_OK;
}

static int64_t spans_of(const ig__eval *e)
{
    const int64_t d = width_of(e->in[1].type);
    return e->in[1].n ? (e->in[1].n / d + IG__ROW_SPAN - 1) / IG__ROW_SPAN : 0;
}

static int64_t norm_grad_units(const ig__eval *e)
{
    const int64_t d = width_of(e->in[1].type);
    return e->phase ? (d + COLUMNS - 1) / COLUMNS : spans_of(e);
}

static ig__room norm_grad_room(const ig__eval *e)
{
    const size_t d = (size_t)width_of(e->in[1].type), spans = (size_t)spans_of(e);
    const size_t rows = d * 8 * 4, columns = IG__COLUMN_SCRATCH + COLUMNS * 8;
    return (ig__room){.each = rows > columns ? rows : columns, .shared = 2 * spans * d * 8};
}

static double norm_grad_work(const ig__eval *e)
{
    return (double)e->in[1].n * 4;
}

/* Rows of one span: dx, and the span's part of d_gain and d_bias. */
static void grad_span(const ig__eval *e, int64_t span, ig__compute compute, const void *g)
{
    const grad_attrs *a = e->attrs;
    const uint32_t last = 1u << (e->in[1].type->n_dims - 1);
    ig__reduction in, out, dy;
    ig__reduction_make(&dy, &e->in[0], last);
    ig__reduction_make(&in, &e->in[1], last);
    if (a->want_x)
        ig__reduction_make(&out, &e->out[0], last);
    const int64_t d = in.n, size = compute == IG_COMPUTE_F64 ? 8 : 4;
    char *buffer = e->scratch;
    char *dg = (char *)e->shared + span * d * size;
    char *db = (char *)e->shared + (spans_of(e) + span) * d * size;
    memset(dg, 0, (size_t)(d * size));
    memset(db, 0, (size_t)(d * size));
    const int64_t end = (span + 1) * IG__ROW_SPAN;
    for (int64_t o = span * IG__ROW_SPAN; o < end && o < in.n_out; o++) {
        const void *down = ig__row_load(&dy, o, compute, buffer);
        const void *x = ig__row_load(&in, o, compute, buffer + 8 * d);
        void *dx = a->want_x ? ig__row_place(&out, o, compute, buffer + 16 * d) : NULL;
        if (compute == IG_COMPUTE_F64)
            norm_grad_f64(dx, (double *)dg, (double *)db, down, x, g, d, a->eps,
                          a->centered);
        else if (a->centered)
            e->t->layer_norm_grad(dx, (float *)dg, a->want_bias ? (float *)db : NULL, down,
                                  x, g, d, (float)a->eps);
        else
            e->t->rms_norm_grad(dx, (float *)dg, down, x, g, d, (float)a->eps);
        if (a->want_x)
            ig__row_store(&out, o, dx, compute);
    }
}

/* out[which] at columns [first, first + n): the parts added up, first to last. */
static void add_parts(const ig__eval *e, int which, int64_t first, int64_t n)
{
    const int64_t d = width_of(e->in[1].type), spans = spans_of(e);
    const bool is_f64 = ig__compute_of(e->in[1].type->dtype) == IG_COMPUTE_F64;
    const int64_t at = (which - 1) * spans * d + first;
    double *sums = (double *)((char *)e->scratch + IG__COLUMN_SCRATCH);
    if (is_f64) {
        const double *parts = (const double *)e->shared + at;
        memset(sums, 0, (size_t)n * 8);
        for (int64_t s = 0; s < spans; s++)
            for (int64_t i = 0; i < n; i++)
                sums[i] += parts[s * d + i];
    } else {
        e->t->reduce_columns(IG__REDUCE_SUM, sums, (const float *)e->shared + at, spans, d,
                             n, NULL, e->scratch);
    }
    const ig_dtype dtype = e->out[which].type->dtype;
    ig__store(e->out[which].data + first * (int64_t)ig_dtype_block_bytes(dtype), dtype, 1,
              sums, IG_COMPUTE_F64, n);
}

static void norm_grad_eval(const ig__eval *e, int64_t begin, int64_t end)
{
    const grad_attrs *a = e->attrs;
    const ig__compute compute = ig__compute_of(e->in[1].type->dtype);
    const int64_t d = width_of(e->in[1].type);
    if (e->phase == 0) {
        char *buffer = e->scratch;
        const void *g = a->gain ? load_vector(e, 2, compute, buffer + 24 * d) : NULL;
        for (int64_t span = begin; span < end; span++)
            grad_span(e, span, compute, g);
        return;
    }
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t first = unit * COLUMNS;
        const int64_t n = d - first < COLUMNS ? d - first : COLUMNS;
        if (a->want_gain)
            add_parts(e, 1, first, n);
        if (a->want_bias)
            add_parts(e, 2, first, n);
    }
}

const ig__op ig__op_norm_grad = {.name = "norm_grad",
                                 .n_in_least = 2,
                                 .n_in_most = 3,
                                 .attrs_bytes = sizeof(grad_attrs),
                                 .shape = norm_grad_shape,
                                 .n_out = 3,
                                 .n_phases = 2,
                                 .n_units = norm_grad_units,
                                 .eval = norm_grad_eval,
                                 .room = norm_grad_room,
                                 .work = norm_grad_work,
                                 .gradient = ig__gradient_missing,
                                 .precision = IG_PRECISION_HIGH};

/* ---- gradients ------------------------------------------------------------------------------------------ */

static void gradient_by_row(ig__gradient *g, const grad_attrs *attrs, int gain, int bias)
{
    ig_tensor *in[3] = {g->d_out[0], g->in[0], attrs->gain ? g->in[gain] : NULL}, *out[3];
    ig__apply_all(g->ctx, &ig__op_norm_grad, attrs, in, attrs->gain ? 3 : 2, out);
    if (attrs->want_x)
        g->d_in[0] = out[0];
    if (attrs->want_gain)
        g->d_in[gain] = out[1];
    if (attrs->want_bias)
        g->d_in[bias] = out[2];
}

/* The same out of plain operators, for gradients of gradients. */
static void gradient_by_parts(ig__gradient *g, const grad_attrs *a, int gain, int bias)
{
    const int last = -1;
    ig_tensor *dy = g->d_out[0], *x = g->in[0];
    if (a->want_bias)
        g->d_in[bias] = dy;
    if (!a->want_x && !a->want_gain)
        return;
    ig_tensor *centered = a->centered ? ig_sub(x, ig_mean(x, 1, &last, true)) : x;
    ig_tensor *power = ig_mean(ig_square(centered), 1, &last, true);
    ig_tensor *scale = ig_rsqrt(ig_add_scalar(power, a->eps));
    ig_tensor *v = ig_mul(centered, scale);
    if (a->want_gain)
        g->d_in[gain] = ig_mul(dy, v);
    if (!a->want_x)
        return;
    ig_tensor *u = a->gain ? ig_mul(dy, g->in[gain]) : dy;
    ig_tensor *rest = ig_mul(v, ig_mean(ig_mul(u, v), 1, &last, true));
    if (a->centered)
        rest = ig_add(rest, ig_mean(u, 1, &last, true));
    g->d_in[0] = ig_mul(scale, ig_sub(u, rest));
}

static void norm_gradient(ig__gradient *g, double eps, bool centered, int gain, int bias)
{
    grad_attrs a;
    memset(&a, 0, sizeof a);
    a.eps = eps;
    a.centered = centered;
    a.want_x = ig__wants(g, 0);
    a.want_gain = gain && ig__wants(g, gain);
    a.want_bias = bias && ig__wants(g, bias);
    a.gain = gain && a.want_x;
    if (g->ctx->no_grad && (a.want_x || a.want_gain))
        gradient_by_row(g, &a, gain, bias);
    else
        gradient_by_parts(g, &a, gain, bias);
}

static void layer_norm_gradient(ig__gradient *g)
{
    const layer_attrs *a = g->attrs;
    norm_gradient(g, a->eps, true, a->gain ? 1 : 0, a->bias ? 1 + a->gain : 0);
}

void ig__rms_norm_gradient(ig__gradient *g)
{
    const ig__norm_attrs *a = g->attrs;
    norm_gradient(g, (double)a->eps, false, g->n_in > 1 ? 1 : 0, 0);
}

const ig__op ig__op_layer_norm = {.name = "layer_norm",
                                  .n_in_least = 1,
                                  .n_in_most = 3,
                                  .attrs_bytes = sizeof(layer_attrs),
                                  .shape = layer_norm_shape,
                                  .n_units = ig__norm_units,
                                  .eval = layer_norm_eval,
                                  .room = ig__norm_room,
                                  .work = ig__norm_work,
                                  .done = ig__norm_done,
                                  .gradient = layer_norm_gradient,
                                  .needs = {IG_IN(0) | IG_IN(1), IG_IN(0), 0},
                                  .precision = IG_PRECISION_HIGH};

/* ---- public ------------------------------------------------------------------------------------------ */

ig_tensor *ig_layer_norm(ig_tensor *x, ig_tensor *gain, ig_tensor *bias, double eps)
{
    layer_attrs attrs;
    ig_tensor *in[3] = {x};
    int n = 1;
    memset(&attrs, 0, sizeof attrs);
    attrs.eps = eps;
    attrs.gain = gain != NULL;
    attrs.bias = bias != NULL;
    if (gain)
        in[n++] = gain;
    if (bias)
        in[n++] = bias;
    return ig__apply(NULL, &ig__op_layer_norm, &attrs, in, n);
}

ig_tensor *ig_rms_norm(ig_tensor *x, ig_tensor *gain, double eps)
{
    const ig__norm_attrs attrs = {.eps = (float)eps};
    ig_tensor *const in[2] = {x, gain};
    return ig__apply(NULL, &ig__op_rms_norm, &attrs, in, gain ? 2 : 1);
}

/* [C] as a tensor that broadcasts over [B,C,..] with n_dims dimensions. */
static ig_tensor *by_channel(ig_tensor *v, int n_dims)
{
    int64_t dims[IG_MAX_DIMS];
    if (!v)
        return NULL;
    for (int d = 0; d < n_dims - 1; d++)
        dims[d] = 1;
    dims[0] = -1;
    return ig_reshape(v, n_dims - 1, dims);
}

static bool check_channels(const char *op, ig_tensor *x, ig_tensor *v)
{
    if (!x || ig__context_failed(x->ctx))
        return false;
    const ig__type *t = &x->type;
    if (!ig__is_float(t->dtype) || t->n_dims < 2)
        return ig__fail_shapes(&x->ctx->error, op, "wants floats [B,C,..]", t, NULL), false;
    if (v && (v->type.n_dims != 1 || v->type.dims[0].plus != t->dims[1].plus))
        return ig__fail_shapes(&x->ctx->error, op, "wants [C] beside [B,C,..]", t,
                               &v->type),
               false;
    return true;
}

ig_tensor *ig_group_norm(ig_tensor *x, int64_t groups, ig_tensor *gain, ig_tensor *bias,
                         double eps)
{
    if (!check_channels("group_norm", x, gain) || !check_channels("group_norm", x, bias))
        return NULL;
    const int64_t channels = x->type.dims[1].plus;
    if (groups < 1 || channels % groups)
        return ig__fail_on(x->ctx, IG_ERR_SHAPE,
                           "group_norm: %lld channels are not whole groups of %lld",
                           (long long)channels, (long long)groups);
    return ig__group_norm(x, groups, gain, bias, eps);
}

/* running = running + momentum (now - running), without gradient */
static void move_running(ig_tensor *running, ig_tensor *now, double momentum)
{
    ig_context *ctx = running->ctx;
    const bool was = ig_grad_enable(ctx, false);
    ig_add_into(running,
                ig_scale(ig_sub(ig__cast(now, running->type.dtype), running), momentum));
    ig_grad_enable(ctx, was);
}

ig_tensor *ig_batch_norm(ig_tensor *x, ig_tensor *gain, ig_tensor *bias,
                         const ig_batch_norm_opts *opts)
{
    static const ig_batch_norm_opts defaults = {.train = true};
    const ig_batch_norm_opts o = opts ? *opts : defaults;
    const double eps = o.eps != 0 ? o.eps : 1e-5;
    const double momentum = o.momentum != 0 ? o.momentum : 0.1;
    if (!check_channels("batch_norm", x, gain) || !check_channels("batch_norm", x, bias) ||
        !check_channels("batch_norm", x, o.mean) || !check_channels("batch_norm", x, o.var))
        return NULL;
    if (o.train) {
        const int64_t channels = x->type.dims[1].plus;
        const double count = channels ? (double)(x->n / channels) : 0;
        ig_tensor *out[3];
        if (!ig__batch_norm(out, x, gain, bias, eps))
            return NULL;
        if (o.mean)
            move_running(o.mean, ig_detach(out[1]), momentum);
        if (o.var) /* of the population, from that of the sample */
            move_running(o.var,
                         ig_scale(ig_detach(out[2]), count > 1 ? count / (count - 1) : 1),
                         momentum);
        return out[0];
    }
    if (!o.mean || !o.var)
        return ig__fail_on(x->ctx, IG_ERR_ARGUMENT,
                           "batch_norm: without training it wants running mean and "
                           "variance");
    const int n_dims = x->type.n_dims;
    ig_tensor *scale = ig_rsqrt(ig_add_scalar(by_channel(o.var, n_dims), eps));
    if (gain)
        scale = ig_mul(scale, by_channel(gain, n_dims));
    ig_tensor *y = ig_mul(ig_sub(x, by_channel(o.mean, n_dims)), scale);
    return bias ? ig_add(y, by_channel(bias, n_dims)) : y;
}
