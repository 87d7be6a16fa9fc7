/* Pooling over [B,C,H,W]: the largest or the average of windows. Pads never win.
 *
 * The largest also says where it was, in its plane: the gradient goes there (max_pool_grad), and the
 * gradient of that reads from there (max_pool_take). The average's are one another's.
 * Units are planes. f32 goes to the kernels, f64 to plain loops here.
 */
#include "op/network.h"

#include "ingot/op.h"
#include "op/apply.h"
#include "op/op_int.h"

#include <string.h>

typedef struct pool_attrs {
    int64_t kernel[2], stride[2], pad[2];
    int64_t size[2]; /* of the input, for the gradients */
    bool count_pads;
} pool_attrs;

static int64_t dim(const ig__type *t, int d)
{
    return t->dims[d].plus;
}

static bool is_f64(const ig__array *x)
{
    return x->type->dtype == IG_DTYPE_F64;
}

/* ---- shapes ---------------------------------------------------------------------------------------- */

static bool is_image(const ig__type *x)
{
    return x->n_dims == 4 && (x->dtype == IG_DTYPE_F32 || x->dtype == IG_DTYPE_F64);
}

static ig_status pooled(ig__type *out, const ig__type *x, const pool_attrs *a,
                        const char *op, ig_error *err)
{
    if (!is_image(x))
        return ig__fail_shapes(err, op, "wants floats [B,C,H,W]", x, NULL);
    *out = *x;
    for (int d = 0; d < 2; d++) {
        const int64_t reach = dim(x, 2 + d) + 2 * a->pad[d] - a->kernel[d];
        if (reach < 0)
            return ig__fail_shapes(err, op, "the window is larger than the padded input", x,
                                   NULL);
        out->dims[2 + d] = ig__dim_of(reach / a->stride[d] + 1);
    }
    return IG_OK;
}

static ig_status max_pool_shape(ig__type *out, const ig__type *const *in, int n_in,
                                const void *attrs, ig_error *err)
{
    (void)n_in;
    IG_TRY(pooled(out, in[0], attrs, "max_pool", err));
    if (dim(in[0], 2) > INT32_MAX / (dim(in[0], 3) + 1))
        return ig__fail_shapes(err, "max_pool", "planes beyond 2^31 elements", in[0], NULL);
    out[1] = out[0];
    out[1].dtype = IG_DTYPE_I32;
    return IG_OK;
}

static ig_status avg_pool_shape(ig__type *out, const ig__type *const *in, int n_in,
                                const void *attrs, ig_error *err)
{
    (void)n_in;
    return pooled(out, in[0], attrs, "avg_pool", err);
}

/* dy [B,C,OH,OW] -> dx [B,C,H,W] */
static ig_status spread_shape(ig__type *out, const ig__type *const *in, int n_in,
                              const void *attrs, ig_error *err)
{
    const pool_attrs *a = attrs;
    if (!is_image(in[0]) || (n_in > 1 && !ig__dims_same(in[0], in[1])))
        return ig__fail_shapes(err, "pool_grad", "wants floats [B,C,H,W]", in[0],
                               n_in > 1 ? in[1] : NULL);
    *out = *in[0];
    out->dims[2] = ig__dim_of(a->size[0]);
    out->dims[3] = ig__dim_of(a->size[1]);
    return IG_OK;
}

/* x [B,C,H,W], at [B,C,OH,OW] -> [B,C,OH,OW] */
static ig_status take_shape(ig__type *out, const ig__type *const *in, int n_in,
                            const void *attrs, ig_error *err)
{
    (void)n_in, (void)attrs;
    if (!is_image(in[0]) || in[1]->n_dims != 4 || in[1]->dtype != IG_DTYPE_I32)
        return ig__fail_shapes(err, "max_pool_take", "wants x and places", in[0], in[1]);
    *out = *in[1];
    out->dtype = in[0]->dtype;
    return IG_OK;
}

/* ---- planes of doubles -------------------------------------------------------------------------------- */

static ig__pool pool_of(const pool_attrs *a, const ig__type *x, const ig__type *y)
{
    return (ig__pool){.planes = dim(x, 0) * dim(x, 1),
                      .in_h = dim(x, 2),
                      .in_w = dim(x, 3),
                      .out_h = dim(y, 2),
                      .out_w = dim(y, 3),
                      .kernel_h = a->kernel[0],
                      .kernel_w = a->kernel[1],
                      .stride_h = a->stride[0],
                      .stride_w = a->stride[1],
                      .pad_h = a->pad[0],
                      .pad_w = a->pad[1],
                      .count_pads = a->count_pads};
}

/* The window of output o, cut to the input: rows [r0, r1), columns [s0, s1). */
typedef struct window {
    int64_t r0, r1, s0, s1;
} window;

static window window_of(const ig__pool *p, int64_t o)
{
    const int64_t r = o / p->out_w * p->stride_h - p->pad_h;
    const int64_t s = o % p->out_w * p->stride_w - p->pad_w;
    return (window){r > 0 ? r : 0, r + p->kernel_h < p->in_h ? r + p->kernel_h : p->in_h,
                    s > 0 ? s : 0, s + p->kernel_w < p->in_w ? s + p->kernel_w : p->in_w};
}

static void max_f64(const ig__pool *p, double *y, int32_t *at, const double *x)
{
    for (int64_t o = 0; o < p->out_h * p->out_w; o++) {
        const window w = window_of(p, o);
        int64_t best = w.r0 * p->in_w + w.s0;
        for (int64_t r = w.r0; r < w.r1; r++)
            for (int64_t s = w.s0; s < w.s1; s++) {
                const double v = x[r * p->in_w + s];
                if (v > x[best] || (v != v && x[best] == x[best]))
                    best = r * p->in_w + s;
            }
        y[o] = x[best];
        at[o] = (int32_t)best;
    }
}

/* y = the averages of x, or with `spread` dx += what each of dy spreads. */
static void average_f64(const ig__pool *p, double *y, double *x, bool spread)
{
    for (int64_t o = 0; o < p->out_h * p->out_w; o++) {
        const window w = window_of(p, o);
        const int64_t inside =
            (w.r1 > w.r0 ? w.r1 - w.r0 : 0) * (w.s1 > w.s0 ? w.s1 - w.s0 : 0);
        const int64_t n = p->count_pads ? p->kernel_h * p->kernel_w : inside;
        double sum = 0;
        for (int64_t r = w.r0; r < w.r1; r++)
            for (int64_t s = w.s0; s < w.s1; s++) {
                if (spread)
                    x[r * p->in_w + s] += y[o] / (double)(n > 0 ? n : 1);
                else
                    sum += x[r * p->in_w + s];
            }
        if (!spread)
            y[o] = sum / (double)(n > 0 ? n : 1);
    }
}

/* ---- walking ------------------------------------------------------------------------------------------- */

static int64_t pool_units(const ig__eval *e)
{
    return e->out[0].n ? dim(e->out[0].type, 0) * dim(e->out[0].type, 1) : 0;
}

static double pool_work(const ig__eval *e)
{
    const pool_attrs *a = e->attrs;
    const int64_t n = e->out[0].n < e->in[0].n ? e->out[0].n : e->in[0].n;
    return (double)n * (double)(a->kernel[0] * a->kernel[1]) / 2;
}

static void max_pool_eval(const ig__eval *e, int64_t begin, int64_t end)
{
    const ig__pool p = pool_of(e->attrs, e->in[0].type, e->out[0].type);
    const int64_t outs = p.out_h * p.out_w, ins = p.in_h * p.in_w;
    int32_t *at = (int32_t *)(void *)e->out[1].data;
    if (!is_f64(&e->in[0]))
        e->t->max_pool(&p, (void *)e->out[0].data, at, (const void *)e->in[0].data, begin,
                       end);
    for (int64_t i = begin; i < end && is_f64(&e->in[0]); i++)
        max_f64(&p, (double *)(void *)e->out[0].data + i * outs, at + i * outs,
                (const double *)(void *)e->in[0].data + i * ins);
}

static void max_pool_grad_eval(const ig__eval *e, int64_t begin, int64_t end)
{
    const ig__pool p = pool_of(e->attrs, e->out[0].type, e->in[0].type);
    const int64_t outs = p.out_h * p.out_w, ins = p.in_h * p.in_w;
    const int32_t *at = (const int32_t *)(void *)e->in[1].data;
    if (!is_f64(&e->in[0])) {
        e->t->max_pool_grad(&p, (void *)e->out[0].data, (const void *)e->in[0].data, at,
                            begin, end);
        return;
    }
    const double *dy = (const double *)(void *)e->in[0].data;
    double *dx = (double *)(void *)e->out[0].data;
    memset(dx + begin * ins, 0, (size_t)((end - begin) * ins) * 8);
    for (int64_t i = begin; i < end; i++)
        for (int64_t o = i * outs; o < (i + 1) * outs; o++)
            dx[i * ins + at[o]] += dy[o];
}

static void max_pool_take_eval(const ig__eval *e, int64_t begin, int64_t end)
{
    const int64_t outs = dim(e->out[0].type, 2) * dim(e->out[0].type, 3);
    const int64_t ins = dim(e->in[0].type, 2) * dim(e->in[0].type, 3);
    const int32_t *at = (const int32_t *)(void *)e->in[1].data;
    const size_t size = ig_dtype_block_bytes(e->out[0].type->dtype);
    for (int64_t o = begin * outs; o < end * outs; o++)
        memcpy(e->out[0].data + (size_t)o * size,
               e->in[0].data + (size_t)(o / outs * ins + at[o]) * size, size);
}

static void avg_pool_eval(const ig__eval *e, int64_t begin, int64_t end)
{
    const ig__pool p = pool_of(e->attrs, e->in[0].type, e->out[0].type);
    if (!is_f64(&e->in[0]))
        e->t->avg_pool(&p, (void *)e->out[0].data, (const void *)e->in[0].data, begin, end);
    for (int64_t i = begin; i < end && is_f64(&e->in[0]); i++)
        average_f64(&p, (double *)(void *)e->out[0].data + i * p.out_h * p.out_w,
                    (double *)(void *)e->in[0].data + i * p.in_h * p.in_w, false);
}

static void avg_pool_grad_eval(const ig__eval *e, int64_t begin, int64_t end)
{
    const ig__pool p = pool_of(e->attrs, e->out[0].type, e->in[0].type);
    const int64_t ins = p.in_h * p.in_w;
    if (!is_f64(&e->in[0])) {
        e->t->avg_pool_grad(&p, (void *)e->out[0].data, (const void *)e->in[0].data, begin,
                            end);
        return;
    }
    for (int64_t i = begin; i < end; i++) {
        double *dx = (double *)(void *)e->out[0].data + i * ins;
        memset(dx, 0, (size_t)ins * 8);
        average_f64(&p, (double *)(void *)e->in[0].data + i * p.out_h * p.out_w, dx, true);
    }
}

/* ---- gradients ------------------------------------------------------------------------------------------ */

static void max_pool_gradient(ig__gradient *g)
{
    pool_attrs attrs = *(const pool_attrs *)g->attrs;
    attrs.size[0] = dim(g->type[0], 2);
    attrs.size[1] = dim(g->type[0], 3);
    if (g->d_out[0])
        g->d_in[0] = ig__apply2(&ig__op_max_pool_grad, &attrs, ig__contiguous(g->d_out[0]),
                                g->out[1]);
}
static void max_pool_grad_gradient(ig__gradient *g)
{
    g->d_in[0] =
        ig__apply2(&ig__op_max_pool_take, g->attrs, ig__contiguous(g->d_out[0]), g->in[1]);
}
static void max_pool_take_gradient(ig__gradient *g)
{
    g->d_in[0] =
        ig__apply2(&ig__op_max_pool_grad, g->attrs, ig__contiguous(g->d_out[0]), g->in[1]);
}
static void avg_pool_gradient(ig__gradient *g)
{
    pool_attrs attrs = *(const pool_attrs *)g->attrs;
    attrs.size[0] = dim(g->type[0], 2);
    attrs.size[1] = dim(g->type[0], 3);
    g->d_in[0] = ig__apply1(&ig__op_avg_pool_grad, &attrs, ig__contiguous(g->d_out[0]));
}
static void avg_pool_grad_gradient(ig__gradient *g)
{
    g->d_in[0] = ig__apply1(&ig__op_avg_pool, g->attrs, ig__contiguous(g->d_out[0]));
}

#define ROW(op, arity, rule, ...)                                                          \
    const ig__op ig__op_##op = {.name = #op,                                               \
                                .n_in_least = arity,                                       \
                                .n_in_most = arity,                                        \
                                .attrs_bytes = sizeof(pool_attrs),                         \
                                .shape = rule,                                             \
                                .n_units = pool_units,                                     \
                                .eval = op##_eval,                                         \
                                .work = pool_work,                                         \
                                .gradient = op##_gradient,                                 \
                                __VA_ARGS__};
ROW(max_pool, 1, max_pool_shape, .n_out = 2, .needs = {IG_OUT(1)})
ROW(max_pool_grad, 2, spread_shape, .needs = {IG_IN(1)})
ROW(max_pool_take, 2, take_shape, .needs = {IG_IN(1)})
ROW(avg_pool, 1, avg_pool_shape, )
ROW(avg_pool_grad, 1, spread_shape, )

/* ---- public ------------------------------------------------------------------------------------------- */

static ig_tensor *pool(const char *op, const ig__op *row, ig_tensor *x,
                       const ig_pool_opts *opts)
{
    pool_attrs a;
    ig_dtype result;
    if (x && !opts)
        return ig__fail_on(x->ctx, IG_ERR_ARGUMENT, "%s: its options are NULL", op);
    if (!ig__dense(op, &x, 1, &result))
        return NULL;
    memset(&a, 0, sizeof a);
    a.count_pads = opts->count_pads;
    for (int d = 0; d < 2; d++) {
        a.kernel[d] = opts->kernel[d] ? opts->kernel[d] : opts->kernel[0];
        a.stride[d] = opts->stride[d] ? opts->stride[d] : a.kernel[d];
        a.pad[d] = opts->pad[d];
        if (a.kernel[d] < 1 || a.kernel[d] > INT32_MAX || a.stride[d] < 1 || a.pad[d] < 0 ||
            a.pad[d] > a.kernel[d] / 2)
            return ig__fail_on(x->ctx, IG_ERR_ARGUMENT,
                               "%s: a window of %lld by steps of %lld, padding %lld: at "
                               "most half the window",
                               op, (long long)a.kernel[d], (long long)a.stride[d],
                               (long long)a.pad[d]);
    }
    ig_tensor *out[IG_MAX_OUTPUTS];
    ig__apply_all(NULL, row, &a, &x, 1, out);
    return out[0] ? ig__cast(out[0], result) : NULL;
}

ig_tensor *ig_max_pool2d(ig_tensor *x, const ig_pool_opts *opts)
{
    return pool("max_pool2d", &ig__op_max_pool, x, opts);
}
ig_tensor *ig_avg_pool2d(ig_tensor *x, const ig_pool_opts *opts)
{
    return pool("avg_pool2d", &ig__op_avg_pool, x, opts);
}
