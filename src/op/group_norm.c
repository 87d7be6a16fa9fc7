/* Group norm, x [B,C,S]: the C/G channels of a group together, for each of the batch; gain and bias by
 * channel.
 *
 *   y = (x - mean) / sqrt(var + eps) gain + bias
 *
 * A unit is a row: one group of one of the batch, W = C/G S elements, which passes through the kernels of layer
 * norm while it is near the core. Gradients of gain and bias are parts [B,C], which phase 1 adds up in order. x
 * and dy are dense, f32 or f64. Wu and He, 2018.
 */
#include "op/network.h"

#include "ingot/op.h"
#include "op/apply.h"
#include "op/op_int.h"

#include <math.h>
#include <string.h>

typedef struct group_attrs {
    double eps;
    int64_t groups;
} group_attrs;

static int64_t dim(const ig__type *t, int d)
{
    return t->dims[d].plus;
}

static bool is_f64(const ig__eval *e)
{
    return e->in[0].type->dtype == IG_DTYPE_F64;
}

/* Row r is group r mod G of r / G; W elements; its channels are [first, first + n). */
typedef struct row {
    int64_t batch, first, n, places, width;
} row;

static row row_of(const ig__eval *e, int64_t r)
{
    const group_attrs *a = e->attrs;
    const ig__type *x = e->in[0].type;
    const int64_t n = dim(x, 1) / a->groups;
    return (row){r / a->groups, r % a->groups * n, n, dim(x, 2), n * dim(x, 2)};
}

static void *row_at(const ig__array *x, const row *w)
{
    const int64_t at = (w->batch * dim(x->type, 1) + w->first) * w->places;
    return x->data + at * (int64_t)ig_dtype_block_bytes(x->type->dtype);
}

static int64_t n_rows(const ig__eval *e)
{
    return e->in[0].n ? dim(e->in[0].type, 0) * ((const group_attrs *)e->attrs)->groups : 0;
}

/* ---- loops over doubles ------------------------------------------------------------------------------ */

/* v = (x - mean) / sqrt(var + eps); returns 1 / sqrt(var + eps) */
static double normalise(double *v, const double *x, int64_t n, double eps)
{
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < n; i++)
        sum += x[i];
    const double mean = sum / (double)n;
    for (int64_t i = 0; i < n; i++)
        squares += (x[i] - mean) * (x[i] - mean);
    const double scale = 1 / sqrt(squares / (double)n + eps);
    for (int64_t i = 0; i < n; i++)
        v[i] = (x[i] - mean) * scale;
    return scale;
}

static void forward_f64(const ig__eval *e, const row *w)
{
    const group_attrs *a = e->attrs;
    const double *gain = (const double *)(const void *)e->in[1].data + w->first;
    const double *bias = (const double *)(const void *)e->in[2].data + w->first;
    double *y = row_at(&e->out[0], w);
    normalise(y, row_at(&e->in[0], w), w->width, a->eps);
    for (int64_t i = 0; i < w->width; i++)
        y[i] = y[i] * gain[i / w->places] + bias[i / w->places];
}

/* dg, db: sums of the row's channels */
static void backward_f64(const ig__eval *e, const row *w, double *dg, double *db)
{
    const group_attrs *a = e->attrs;
    const double *gain = (const double *)(const void *)e->in[2].data + w->first;
    const double *dy = row_at(&e->in[1], w);
    double *dx = row_at(&e->out[0], w), *v = e->scratch, sum = 0, along = 0;
    const double scale = normalise(v, row_at(&e->in[0], w), w->width, a->eps);
    memset(dg, 0, (size_t)w->n * sizeof *dg);
    memset(db, 0, (size_t)w->n * sizeof *db);
    for (int64_t i = 0; i < w->width; i++) {
        const int64_t c = i / w->places;
        dg[c] += dy[i] * v[i];
        db[c] += dy[i];
        sum += dy[i] * gain[c];
        along += dy[i] * gain[c] * v[i];
    }
    sum /= (double)w->width;
    along /= (double)w->width;
    for (int64_t i = 0; i < w->width; i++)
        dx[i] = scale * (dy[i] * gain[i / w->places] - sum - v[i] * along);
}

/* ---- the same by the kernels -------------------------------------------------------------------------- */

static void forward_f32(const ig__eval *e, const row *w)
{
    const group_attrs *a = e->attrs;
    const float *gain = (const float *)(const void *)e->in[1].data + w->first;
    const float *bias = (const float *)(const void *)e->in[2].data + w->first;
    float *y = row_at(&e->out[0], w);
    const float *x = row_at(&e->in[0], w);
    if (w->places == 1) {
        e->t->layer_norm(y, x, gain, bias, w->width, (float)a->eps);
        return;
    }
    e->t->layer_norm(y, x, NULL, NULL, w->width, (float)a->eps);
    for (int64_t c = 0; c < w->n; c++)
        e->t->affine(y + c * w->places, y + c * w->places, gain[c], bias[c], w->places);
}

static void backward_f32(const ig__eval *e, const row *w, double *dg, double *db)
{
    const group_attrs *a = e->attrs;
    const float *gain = (const float *)(const void *)e->in[2].data + w->first;
    const float *dy = row_at(&e->in[1], w), *x = row_at(&e->in[0], w);
    float *v = e->scratch;
    e->t->layer_norm(v, x, NULL, NULL, w->width, (float)a->eps);
    for (int64_t c = 0; c < w->n; c++) {
        const int64_t at = c * w->places;
        db[c] = e->t->reduce(IG__REDUCE_SUM, dy + at, w->places, 1, 0);
        dg[c] = e->t->dot(dy + at, v + at, w->places);
        e->t->affine(v + at, dy + at, gain[c], 0, w->places); /* v is read no more */
    }
    e->t->layer_norm_grad(row_at(&e->out[0], w), NULL, NULL, v, x, NULL, w->width,
                          (float)a->eps);
}

/* ---- forward: x, gain, bias -> y -------------------------------------------------------------------------- */

static ig_status group_shape(ig__type *out, const ig__type *const *in, int n_in,
                             const void *attrs, ig_error *err)
{
    (void)attrs;
    if (in[0]->n_dims != 3)
        return ig__fail_shapes(err, "group_norm", "wants x [B,C,S]", in[0], NULL);
    for (int i = 1; i < n_in; i++)
        if (in[i]->n_dims != 1 || dim(in[i], 0) != dim(in[0], 1) ||
            in[i]->dtype != in[0]->dtype)
            return ig__fail_shapes(err, "group_norm", "wants [C] beside [B,C,S]", in[0],
                                   in[i]);
    out[0] = *in[0];
    return IG_OK;
}

static void group_eval(const ig__eval *e, int64_t begin, int64_t end)
{
    for (int64_t r = begin; r < end; r++) {
        const row w = row_of(e, r);
        if (is_f64(e))
            forward_f64(e, &w);
        else
            forward_f32(e, &w);
    }
}

static double group_work(const ig__eval *e)
{
    return (double)e->in[0].n * 2;
}

static int64_t group_done(const ig__eval *e, int64_t unit)
{
    const row w = row_of(e, unit);
    return unit * w.width;
}

/* ---- backward: x, dy, gain -> dx, d_gain, d_bias ----------------------------------------------------------- */

static ig_status group_grad_shape(ig__type *out, const ig__type *const *in, int n_in,
                                  const void *attrs, ig_error *err)
{
    const ig__type *const first[2] = {in[0], in[2]};
    (void)n_in;
    if (!ig__type_same(in[0], in[1]))
        return ig__fail_shapes(err, "group_norm", "the gradient does not fit", in[0],
                               in[1]);
    IG_TRY(group_shape(out, first, 2, attrs, err));
    out[1] = out[2] = *in[2];
    return IG_OK;
}

/* Phase 0: rows; phase 1: the parts of all channels, added up. */
static int64_t group_grad_units(const ig__eval *e)
{
    return e->phase ? 1 : n_rows(e);
}

static ig__room group_grad_room(const ig__eval *e)
{
    const ig__type *x = e->in[0].type;
    const row w = row_of(e, 0);
    return (ig__room){.each = (size_t)w.width * ig_dtype_block_bytes(x->dtype),
                      .shared = (size_t)(dim(x, 0) * dim(x, 1)) * 16};
}

static double group_grad_work(const ig__eval *e)
{
    return (double)e->in[0].n * 5;
}

static void add_parts(const ig__eval *e, const double *parts, int which)
{
    const int64_t batch = dim(e->in[0].type, 0), channels = dim(e->in[0].type, 1);
    const ig_dtype dtype = e->out[which].type->dtype;
    for (int64_t c = 0; c < channels; c++) {
        double sum = 0;
        for (int64_t b = 0; b < batch; b++)
            sum += parts[b * channels + c];
        ig__store(e->out[which].data + c * (int64_t)ig_dtype_block_bytes(dtype), dtype, 1,
                  &sum, IG_COMPUTE_F64, 1);
    }
}

static void group_grad_eval(const ig__eval *e, int64_t begin, int64_t end)
{
    const int64_t n = dim(e->in[0].type, 0) * dim(e->in[0].type, 1);
    double *dg = e->shared, *db = dg + n;
    if (e->phase) {
        if (!e->in[0].n)
            memset(dg, 0, (size_t)n * 16);
        add_parts(e, dg, 1);
        add_parts(e, db, 2);
        return;
    }
    for (int64_t r = begin; r < end; r++) {
        const row w = row_of(e, r);
        const int64_t at = w.batch * dim(e->in[0].type, 1) + w.first;
        if (is_f64(e))
            backward_f64(e, &w, dg + at, db + at);
        else
            backward_f32(e, &w, dg + at, db + at);
    }
}

/* ---- gradients ------------------------------------------------------------------------------------------ */

/* Out of plain operators, for gradients of gradients. */
static void gradient_by_parts(ig__gradient *g, ig_tensor *dy)
{
    static const int outer[2] = {0, 2}, last = -1;
    const group_attrs *a = g->attrs;
    ig_tensor *x = g->in[0], *gain = g->in[1];
    const int64_t batch = ig_tensor_dim(x, 0), channels = ig_tensor_dim(x, 1);
    const int64_t places = ig_tensor_dim(x, 2);
    const int64_t rows[3] = {batch, a->groups, channels / a->groups * places};
    const int64_t planes[3] = {batch, channels, places};
    ig_tensor *r = ig_reshape(x, 3, rows);
    ig_tensor *centered = ig_sub(r, ig_mean(r, 1, &last, true));
    ig_tensor *power = ig_mean(ig_square(centered), 1, &last, true);
    ig_tensor *scale = ig_rsqrt(ig_add_scalar(power, a->eps));
    ig_tensor *v = ig_mul(centered, scale);
    g->d_in[1] = ig_sum(ig_mul(dy, ig_reshape(v, 3, planes)), 2, outer, false);
    g->d_in[2] = ig_sum(dy, 2, outer, false);
    ig_tensor *u = ig_reshape(ig_mul(dy, ig_unsqueeze(gain, 1)), 3, rows);
    ig_tensor *rest = ig_add(ig_mean(u, 1, &last, true),
                             ig_mul(v, ig_mean(ig_mul(u, v), 1, &last, true)));
    g->d_in[0] = ig_reshape(ig_mul(scale, ig_sub(u, rest)), 3, planes);
}

static void group_gradient(ig__gradient *g)
{
    ig_tensor *const in[3] = {g->in[0], ig__contiguous(g->d_out[0]), g->in[1]};
    if (g->ctx->no_grad)
        ig__apply_all(g->ctx, &ig__op_group_norm_grad, g->attrs, in, 3, g->d_in);
    else
        gradient_by_parts(g, g->d_out[0]);
}

#define BOTH (IG_IN(0) | IG_IN(1))
const ig__op ig__op_group_norm = {.name = "group_norm",
                                  .n_in_least = 3,
                                  .n_in_most = 3,
                                  .attrs_bytes = sizeof(group_attrs),
                                  .shape = group_shape,
                                  .n_units = n_rows,
                                  .eval = group_eval,
                                  .work = group_work,
                                  .done = group_done,
                                  .gradient = group_gradient,
                                  .needs = {BOTH, BOTH, BOTH},
                                  .precision = IG_PRECISION_HIGH};
const ig__op ig__op_group_norm_grad = {.name = "group_norm_grad",
                                       .n_in_least = 3,
                                       .n_in_most = 3,
                                       .attrs_bytes = sizeof(group_attrs),
                                       .shape = group_grad_shape,
                                       .n_out = 3,
                                       .n_phases = 2,
                                       .n_units = group_grad_units,
                                       .eval = group_grad_eval,
                                       .room = group_grad_room,
                                       .work = group_grad_work,
                                       .gradient = ig__gradient_missing,
                                       .precision = IG_PRECISION_HIGH};

ig_tensor *ig__group_norm(ig_tensor *x, int64_t groups, ig_tensor *gain, ig_tensor *bias,
                          double eps)
{
    group_attrs attrs;
    memset(&attrs, 0, sizeof attrs);
    attrs.eps = eps;
    attrs.groups = groups;
    ig_tensor *in[3] = {x, gain, bias};
    int64_t dims[IG_MAX_DIMS], channels = x->type.dims[1].plus;
    ig_dtype result;
    if (!ig__dense("group_norm", in, 3, &result))
        return NULL;
    for (int i = 1; i < 3; i++)
        if (!in[i])
            in[i] = ig_full(x->ctx, in[0]->type.dtype, 1, &channels, i == 1 ? 1 : 0);
    for (int d = 0; d < x->type.n_dims; d++)
        dims[d] = x->type.dims[d].plus;
    const int64_t places = dims[0] && channels ? x->n / (dims[0] * channels) : 0;
    in[0] = ig_reshape(in[0], 3, (const int64_t[]){dims[0], channels, places});
    ig_tensor *y = ig__apply(NULL, &ig__op_group_norm, &attrs, in, 3);
    return ig__cast(ig_reshape(y, x->type.n_dims, dims), result);
}
