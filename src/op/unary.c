/* Elementwise functions of one operand, and their gradients: of those that would take several passes a
 * row of its own, unary_grad, where the gradient is not itself recorded.
 */
#include "op/apply.h"
#include "op/op_int.h"
#include "op/pointwise.h"
#include "op/span.h"

#include "ingot/op.h"

#include <math.h>

static const double ROOT_2_OVER_PI = 0.79788456080286535588;

static ig_status floats(ig__type *out, const ig__type *const *in, const char *op,
                        ig_error *err)
{
    if (in[0]->layout != IG_LAYOUT_ROWS || !ig__is_float(in[0]->dtype))
        return ig__fail_shapes(err, op, "wants floats: ig_cast first", in[0], NULL);
    *out = *in[0];
    return IG_OK;
}

/* ---- gradients: d_in = d_out times the slope -------------------------------------------------------- */

static ig_tensor *like(ig_tensor *x, double value)
{
    return x ? ig_tensor_scalar(x->ctx, x->type.dtype, value) : NULL;
}
static ig_tensor *one_minus(ig_tensor *x)
{
    return ig_sub(like(x, 1), x);
}

/* dy and what the row saved, x or y: each kernel reads one of them. */
typedef struct slope_attrs {
    int64_t of; /* ig__unary */
} slope_attrs;

/* The gradient in one pass, where nobody asks for gradients of it; false: by plain operators. */
static bool in_one_pass(ig__gradient *g, ig__unary of, ig_tensor *saved)
{
    if (!g->ctx->no_grad)
        return false;
    const slope_attrs attrs = {.of = of};
    ig_tensor *const in[2] = {g->d_out[0], saved};
    g->d_in[0] = ig__apply(g->ctx, &ig__op_unary_grad, &attrs, in, 2);
    return true;
}

static void neg_gradient(ig__gradient *g)
{
    g->d_in[0] = ig_neg(g->d_out[0]);
}
static void abs_gradient(ig__gradient *g) /* 0 at 0 */
{
    g->d_in[0] = ig_mul(g->d_out[0], ig_sign(g->in[0]));
}
static void square_gradient(ig__gradient *g)
{
    if (in_one_pass(g, IG__UNARY_SQUARE, g->in[0]))
        return;
    g->d_in[0] = ig_mul(g->d_out[0], ig_scale(g->in[0], 2));
}
static void sqrt_gradient(ig__gradient *g)
{
    if (in_one_pass(g, IG__UNARY_SQRT, g->out[0]))
        return;
    g->d_in[0] = ig_div(ig_scale(g->d_out[0], 0.5), g->out[0]);
}
static void rsqrt_gradient(ig__gradient *g)
{
    g->d_in[0] = ig_mul(ig_scale(g->d_out[0], -0.5), ig_div(g->out[0], g->in[0]));
}
static void reciprocal_gradient(ig__gradient *g)
{
    if (in_one_pass(g, IG__UNARY_RECIPROCAL, g->out[0]))
        return;
    g->d_in[0] = ig_neg(ig_mul(g->d_out[0], ig_square(g->out[0])));
}
static void exp_gradient(ig__gradient *g)
{
    g->d_in[0] = ig_mul(g->d_out[0], g->out[0]);
}
static void expm1_gradient(ig__gradient *g)
{
    g->d_in[0] = ig_mul(g->d_out[0], ig_add_scalar(g->out[0], 1));
}
static void log_gradient(ig__gradient *g)
{
    g->d_in[0] = ig_div(g->d_out[0], g->in[0]);
}
static void log1p_gradient(ig__gradient *g)
{
    g->d_in[0] = ig_div(g->d_out[0], ig_add_scalar(g->in[0], 1));
}
static void sin_gradient(ig__gradient *g)
{
    if (in_one_pass(g, IG__UNARY_SIN, g->in[0]))
        return;
    g->d_in[0] = ig_mul(g->d_out[0], ig_cos(g->in[0]));
}
static void cos_gradient(ig__gradient *g)
{
    if (in_one_pass(g, IG__UNARY_COS, g->in[0]))
        return;
    g->d_in[0] = ig_neg(ig_mul(g->d_out[0], ig_sin(g->in[0])));
}
static void tanh_gradient(ig__gradient *g)
{
    if (in_one_pass(g, IG__UNARY_TANH, g->out[0]))
        return;
    g->d_in[0] = ig_mul(g->d_out[0], one_minus(ig_square(g->out[0])));
}
static void sigmoid_gradient(ig__gradient *g)
{
    if (in_one_pass(g, IG__UNARY_SIGMOID, g->out[0]))
        return;
    g->d_in[0] = ig_mul(g->d_out[0], ig_mul(g->out[0], one_minus(g->out[0])));
}
static void relu_gradient(ig__gradient *g)
{
    if (in_one_pass(g, IG__UNARY_RELU, g->out[0]))
        return;
    ig_tensor *zero = like(g->out[0], 0);
    g->d_in[0] = ig_where(ig_less(zero, g->out[0]), g->d_out[0], zero);
}
/* s + x s (1 - s) */
static void silu_gradient(ig__gradient *g)
{
    if (in_one_pass(g, IG__UNARY_SILU, g->in[0]))
        return;
    ig_tensor *s = ig_sigmoid(g->in[0]);
    ig_tensor *slope = ig_add(s, ig_mul(ig_mul(g->in[0], s), one_minus(s)));
    g->d_in[0] = ig_mul(g->d_out[0], slope);
}
static void softplus_gradient(ig__gradient *g)
{
    if (in_one_pass(g, IG__UNARY_SOFTPLUS, g->in[0]))
        return;
    g->d_in[0] = ig_mul(g->d_out[0], ig_sigmoid(g->in[0]));
}
static void erf_gradient(ig__gradient *g)
{
    if (in_one_pass(g, IG__UNARY_ERF, g->in[0]))
        return;
    ig_tensor *bell = ig_exp(ig_neg(ig_square(g->in[0])));
    g->d_in[0] = ig_mul(g->d_out[0], ig_scale(bell, 1.12837916709551257390));
}
/* Phi(x) + x phi(x), Phi by erf */
static void gelu_erf_gradient(ig__gradient *g)
{
    if (in_one_pass(g, IG__UNARY_GELU, g->in[0]))
        return;
    ig_tensor *x = g->in[0];
    ig_tensor *below =
        ig_scale(ig_add_scalar(ig_erf(ig_scale(x, 0.70710678118654752440)), 1), 0.5);
    ig_tensor *bell =
        ig_scale(ig_exp(ig_scale(ig_square(x), -0.5)), 0.39894228040143267794);
    g->d_in[0] = ig_mul(g->d_out[0], ig_add(below, ig_mul(x, bell)));
}
/* t = tanh(u): (1 + t) / 2 + x (1 - t^2) u' / 2 */
static void gelu_gradient(ig__gradient *g)
{
    if (in_one_pass(g, IG__UNARY_GELU_TANH, g->in[0]))
        return;
    ig_tensor *x = g->in[0], *squared = ig_square(x);
    ig_tensor *u =
        ig_scale(ig_mul(x, ig_add_scalar(ig_scale(squared, 0.044715), 1)), ROOT_2_OVER_PI);
    ig_tensor *slope_u =
        ig_scale(ig_add_scalar(ig_scale(squared, 3 * 0.044715), 1), ROOT_2_OVER_PI);
    ig_tensor *t = ig_tanh(u);
    ig_tensor *bend = ig_mul(ig_mul(x, one_minus(ig_square(t))), slope_u);
    g->d_in[0] = ig_mul(g->d_out[0], ig_scale(ig_add(ig_add_scalar(t, 1), bend), 0.5));
}
static void flat_gradient(ig__gradient *g)
{
    (void)g; /* zero */
}

/* ---- rows of tokens --------------------------------------------------------------------------------- */

static void span_of(const ig__step_args *s, int64_t begin, int64_t end, int64_t *at,
                    int64_t *n)
{
    *at = ig__tile_row(begin, s->out.rows) * s->out.width;
    *n = ig__tile_row(end, s->out.rows) * s->out.width - *at;
}

static void silu_run(const ig__step_args *s, int64_t begin, int64_t end)
{
    int64_t at, n;
    span_of(s, begin, end, &at, &n);
    const float *x = (const float *)s->in[0].data + at;
    float *y = (float *)s->out.data + at;
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i] / (1.0f + expf(-x[i]));
}

static void gelu_run(const ig__step_args *s, int64_t begin, int64_t end)
{
    const float root_2_over_pi = 0.797884560802865f;
    int64_t at, n;
    span_of(s, begin, end, &at, &n);
    const float *x = (const float *)s->in[0].data + at;
    float *y = (float *)s->out.data + at;
    for (int64_t i = 0; i < n; i++)
        y[i] = 0.5f * x[i] *
               (1.0f + tanhf(root_2_over_pi * (x[i] + 0.044715f * x[i] * x[i] * x[i])));
}

/* ---- rows ------------------------------------------------------------------------------------------- */

/* X(name, loop, needs, and more columns) */
#define UNARY(X)                                                                           \
    X(sqrt, IG_SPAN_OF(sqrt), IG_OUT(0), )                                                 \
    X(rsqrt, IG_SPAN_OF(rsqrt), IG_OUT(0) | IG_IN(0), .precision = IG_PRECISION_HIGH)      \
    X(reciprocal, IG_SPAN_OF(reciprocal), IG_OUT(0), .precision = IG_PRECISION_HIGH)       \
    X(exp, IG_SPAN_OF(exp), IG_OUT(0), .precision = IG_PRECISION_HIGH)                     \
    X(expm1, IG_SPAN_OF(expm1), IG_OUT(0), .precision = IG_PRECISION_HIGH)                 \
    X(log, IG_SPAN_OF(log), IG_IN(0), .precision = IG_PRECISION_HIGH)                      \
    X(log1p, IG_SPAN_OF(log1p), IG_IN(0), .precision = IG_PRECISION_HIGH)                  \
    X(sin, IG_SPAN_OF(sin), IG_IN(0), )                                                    \
    X(cos, IG_SPAN_OF(cos), IG_IN(0), )                                                    \
    X(tanh, IG_SPAN_OF(tanh), IG_OUT(0), )                                                 \
    X(sigmoid, IG_SPAN_OF(sigmoid), IG_OUT(0), )                                           \
    X(silu, IG_SPAN_OF(silu), IG_IN(0), .walk = IG_WALK_ROWS, .run = silu_run)             \
    X(softplus, IG_SPAN_OF(softplus), IG_IN(0), .precision = IG_PRECISION_HIGH)            \
    X(erf, IG_SPAN_OF(erf), IG_IN(0), )                                                    \
    X(gelu, IG_SPAN_OF(gelu_tanh), IG_IN(0), .walk = IG_WALK_ROWS, .run = gelu_run)        \
    X(gelu_erf, IG_SPAN_OF(gelu_erf), IG_IN(0), )                                          \
    X(floor, IG_SPAN_OF(floor), 0, )                                                       \
    X(ceil, IG_SPAN_OF(ceil), 0, )                                                         \
    X(round, IG_SPAN_OF(round), 0, )                                                       \
    X(trunc, IG_SPAN_OF(trunc), 0, )
#define UNARY_ALL(X)                                                                       \
    X(neg, IG_SPAN_OF_ALL(neg), 0, )                                                       \
    X(abs, IG_SPAN_OF_ALL(abs), IG_IN(0), )                                                \
    X(sign, IG_SPAN_OF_ALL(sign), 0, )                                                     \
    X(square, IG_SPAN_OF_ALL(square), IG_IN(0), )                                          \
    X(relu, IG_SPAN_OF_ALL(relu), IG_OUT(0), )

#define floor_gradient flat_gradient
#define ceil_gradient  flat_gradient
#define round_gradient flat_gradient
#define trunc_gradient flat_gradient
#define sign_gradient  flat_gradient

#define SHAPE(op, loops, what, ...)                                                        \
    static ig_status op##_shape(ig__type *out, const ig__type *const *in, int n_in,        \
                                const void *attrs, ig_error *err)                          \
    {                                                                                      \
        (void)n_in, (void)attrs;                                                           \
        return floats(out, in, #op, err);                                                  \
    }
UNARY(SHAPE)
#define SHAPE_ALL(op, loops, what, ...)                                                    \
    static ig_status op##_shape(ig__type *out, const ig__type *const *in, int n_in,        \
                                const void *attrs, ig_error *err)                          \
    {                                                                                      \
        (void)n_in, (void)attrs, (void)err;                                                \
        *out = *in[0];                                                                     \
        return IG_OK;                                                                      \
    }
UNARY_ALL(SHAPE_ALL)

#define ROW(op, loops, what, ...)                                                          \
    const ig__op ig__op_##op = {.name = #op,                                               \
                                .n_in_least = 1,                                           \
                                .n_in_most = 1,                                            \
                                .shape = op##_shape,                                       \
                                .span = loops,                                             \
                                .gradient = op##_gradient,                                 \
                                .needs = {what},                                           \
                                __VA_ARGS__};
UNARY(ROW)
UNARY_ALL(ROW)

/* dy, x or y -> dx */
static ig_status slope_shape(ig__type *out, const ig__type *const *in, int n_in,
                             const void *attrs, ig_error *err)
{
    (void)attrs;
    if (in[0]->dtype != in[1]->dtype)
        return ig__fail_shapes(err, "unary_grad", "wants one type", in[0], in[1]);
    IG_TRY(floats(out, in, "unary_grad", err));
    return ig__broadcast(out, in, n_in, "unary_grad", err);
}

static void slope_f32(const ig__eval *e, void *dx, const void *const *x, int64_t n)
{
    const slope_attrs *a = e->attrs;
    e->t->unary_grad((ig__unary)a->of, dx, x[0], x[1], x[1], n);
}

static void slope_f64(const ig__eval *e, void *dx, const void *const *x, int64_t n)
{
    const slope_attrs *a = e->attrs;
    e->t->unary_grad_f64((ig__unary)a->of, dx, x[0], x[1], x[1], n);
}

const ig__op ig__op_unary_grad = {
    .name = "unary_grad",
    .n_in_least = 2,
    .n_in_most = 2,
    .attrs_bytes = sizeof(slope_attrs),
    .shape = slope_shape,
    .span = {[IG_COMPUTE_F32] = slope_f32, [IG_COMPUTE_F64] = slope_f64},
    .gradient = ig__gradient_missing};

#define PUBLIC(op, loops, what, ...)                                                       \
    ig_tensor *ig_##op(ig_tensor *x)                                                       \
    {                                                                                      \
        return ig__apply1(&ig__op_##op, NULL, x);                                          \
    }
UNARY(PUBLIC)
UNARY_ALL(PUBLIC)
