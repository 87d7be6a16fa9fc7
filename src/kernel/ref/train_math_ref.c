/* The reference of the elementwise kernels of training: each function in double precision
 * over libm, rounded once to float32.
 */
#include "kernel/train_int.h"

#include <float.h>
#include <math.h>

static const double root_2_over_pi = 0.79788456080286535588;
static const double root_half = 0.70710678118654752440;
static const double inv_root_2pi = 0.39894228040143267794;

/* NaN stays; an infinity becomes the largest number: f(-inf) is then a limit, not NaN. */
static double bounded(double x)
{
    return x > DBL_MAX ? DBL_MAX : x < -DBL_MAX ? -DBL_MAX : x;
}

static double sigmoid(double x)
{
    const double e = exp(-fabs(x));
    return x >= 0 ? 1 / (1 + e) : x < 0 ? e / (1 + e) : x;
}

static double softplus(double x)
{
    return (x > 0 ? x : x <= 0 ? 0.0 : x) + log1p(exp(-fabs(x)));
}

/* u of the tanh form, twice. */
static double twice_u(double x)
{
    return 2 * root_2_over_pi * (x + 0.044715 * x * x * x);
}

static double unary_value(ig__unary op, double x)
{
    switch (op) {
    case IG__UNARY_NEG:
        return -x;
    case IG__UNARY_ABS:
        return fabs(x);
    case IG__UNARY_SIGN:
        return x > 0 ? 1 : x < 0 ? -1 : x == 0 ? 0 : x;
    case IG__UNARY_SQUARE:
        return x * x;
    case IG__UNARY_SQRT:
        return sqrt(x);
    case IG__UNARY_RSQRT:
        return 1 / sqrt(x);
    case IG__UNARY_RECIPROCAL:
        return 1 / x;
    case IG__UNARY_FLOOR:
        return floor(x);
    case IG__UNARY_CEIL:
        return ceil(x);
    case IG__UNARY_ROUND:
        return nearbyint(x);
    case IG__UNARY_TRUNC:
        return trunc(x);
    case IG__UNARY_EXP:
        return exp(x);
    case IG__UNARY_EXPM1:
        return expm1(x);
    case IG__UNARY_LOG:
        return log(x);
    case IG__UNARY_LOG1P:
        return log1p(x);
    case IG__UNARY_SIN:
        return sin(x);
    case IG__UNARY_COS:
        return cos(x);
    case IG__UNARY_TANH:
        return tanh(x);
    case IG__UNARY_SIGMOID:
        return sigmoid(x);
    case IG__UNARY_LOG_SIGMOID:
        return -softplus(-x);
    case IG__UNARY_RELU:
        return x <= 0 ? 0 : x;
    case IG__UNARY_SILU:
        return bounded(x) * sigmoid(x);
    case IG__UNARY_SOFTPLUS:
        return softplus(x);
    case IG__UNARY_ERF:
        return erf(x);
    case IG__UNARY_GELU:
        return bounded(x) * (0.5 * erfc(-root_half * x));
    case IG__UNARY_GELU_TANH:
        return bounded(x) * sigmoid(twice_u(x));
    default:
        return x;
    }
}

static double unary_slope(ig__unary op, double x, double y)
{
    switch (op) {
    case IG__UNARY_NEG:
        return -1;
    case IG__UNARY_ABS:
        return x > 0 ? 1 : x < 0 ? -1 : x == 0 ? 0 : x;
    case IG__UNARY_SQUARE:
        return 2 * x;
    case IG__UNARY_SQRT:
        return 0.5 / y;
    case IG__UNARY_RSQRT:
        return -0.5 * y / x;
    case IG__UNARY_RECIPROCAL:
        return -y * y;
    case IG__UNARY_EXP:
        return y;
    case IG__UNARY_EXPM1:
        return y + 1;
    case IG__UNARY_LOG:
        return 1 / x;
    case IG__UNARY_LOG1P:
        return 1 / (1 + x);
    case IG__UNARY_SIN:
        return cos(x);
    case IG__UNARY_COS:
        return -sin(x);
    case IG__UNARY_TANH:
        return 1 - y * y;
    case IG__UNARY_SIGMOID:
        return y * (1 - y);
    case IG__UNARY_LOG_SIGMOID:
        return sigmoid(-x);
    case IG__UNARY_SILU: {
        const double s = sigmoid(x);
        return s * (1 + bounded(x) * (1 - s));
    }
    case IG__UNARY_SOFTPLUS:
        return sigmoid(x);
    case IG__UNARY_ERF:
        return 2 * root_2_over_pi * root_half * exp(-x * x);
    case IG__UNARY_GELU:
        return 0.5 * erfc(-root_half * x) + bounded(x) * inv_root_2pi * exp(-0.5 * x * x);
    case IG__UNARY_GELU_TANH: {
        const double t = x < -1e6 ? -1e6 : x > 1e6 ? 1e6 : x;
        const double s = sigmoid(twice_u(t)), rest = sigmoid(-twice_u(t));
        const double du = 2 * root_2_over_pi * (1 + 3 * 0.044715 * t * t);
        return s * (1 + t * rest * du);
    }
    default:
        return 0;
    }
}

/* Rows that choose: what is not taken has no effect. */
static double unary_gradient(ig__unary op, double dy, double x, double y)
{
    switch (op) {
    case IG__UNARY_RELU:
        return x <= 0 ? 0 : dy;
    case IG__UNARY_SIGN:
    case IG__UNARY_FLOOR:
    case IG__UNARY_CEIL:
    case IG__UNARY_ROUND:
    case IG__UNARY_TRUNC:
        return 0;
    default:
        return dy * unary_slope(op, x, y);
    }
}

static double binary_value(ig__binary op, double x, double y)
{
    switch (op) {
    case IG__BINARY_ADD:
        return x + y;
    case IG__BINARY_SUB:
        return x - y;
    case IG__BINARY_MUL:
        return x * y;
    case IG__BINARY_DIV:
        return x / y;
    case IG__BINARY_MAX:
        return isnan(x) || isnan(y) ? x + y : x > y ? x : y;
    case IG__BINARY_MIN:
        return isnan(x) || isnan(y) ? x + y : x < y ? x : y;
    default:
        return pow(x, y);
    }
}

static void unary(ig__unary op, float *y, const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = (float)unary_value(op, (double)x[i]);
}

static void unary_grad(ig__unary op, float *dx, const float *dy, const float *x,
                       const float *y, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        dx[i] = (float)unary_gradient(op, (double)dy[i], (double)x[i], (double)y[i]);
}

static void binary(ig__binary op, float *z, const float *x, int64_t x_stride,
                   const float *y, int64_t y_stride, int64_t n)
{
    const float x0 = n > 0 ? x[0] : 0.0f, y0 = n > 0 ? y[0] : 0.0f; /* z may alias */
    for (int64_t i = 0; i < n; i++)
        z[i] = (float)binary_value(op, (double)(x_stride ? x[i] : x0),
                                   (double)(y_stride ? y[i] : y0));
}

static void unary_f64(ig__unary op, double *y, const double *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = unary_value(op, x[i]);
}

static void unary_grad_f64(ig__unary op, double *dx, const double *dy, const double *x,
                           const double *y, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        dx[i] = unary_gradient(op, dy[i], x[i], y[i]);
}

static void binary_f64(ig__binary op, double *z, const double *x, int64_t x_stride,
                       const double *y, int64_t y_stride, int64_t n)
{
    const double x0 = n > 0 ? x[0] : 0.0, y0 = n > 0 ? y[0] : 0.0;
    for (int64_t i = 0; i < n; i++)
        z[i] = binary_value(op, x_stride ? x[i] : x0, y_stride ? y[i] : y0);
}

static bool compare_value(ig__compare op, float x, float y)
{
    switch (op) {
    case IG__COMPARE_EQ:
        return x == y;
    case IG__COMPARE_NE:
        return x != y;
    case IG__COMPARE_LT:
        return x < y;
    case IG__COMPARE_LE:
        return x <= y;
    case IG__COMPARE_GT:
        return x > y;
    default:
        return x >= y;
    }
}

static void compare(ig__compare op, uint8_t *z, const float *x, int64_t x_stride,
                    const float *y, int64_t y_stride, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        z[i] = compare_value(op, x[i * x_stride], y[i * y_stride]);
}

static void where(float *z, const uint8_t *c, int64_t c_stride, const float *x,
                  int64_t x_stride, const float *y, int64_t y_stride, int64_t n)
{
    const float x0 = n > 0 ? x[0] : 0.0f, y0 = n > 0 ? y[0] : 0.0f;
    for (int64_t i = 0; i < n; i++)
        z[i] = c[i * c_stride] ? (x_stride ? x[i] : x0) : (y_stride ? y[i] : y0);
}

static void clamp(float *y, const float *x, float lo, float hi, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        const float raised = x[i] < lo ? lo : x[i];
        y[i] = raised > hi ? hi : raised;
    }
}

static void clamp_grad(float *dx, const float *dy, const float *x, float lo, float hi,
                       int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        dx[i] = x[i] < lo || x[i] > hi ? 0.0f : dy[i];
}

static void affine(float *y, const float *x, float a, float b, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = fmaf(a, x[i], b);
}

static void axpy(float *y, const float *x, float a, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = fmaf(a, x[i], y[i]);
}

static void lerp(float *y, const float *x, float t, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = fmaf(t, x[i] - y[i], y[i]);
}

void ig__train_math_ref(ig__train_kernels *table)
{
    table->unary = unary;
    table->unary_grad = unary_grad;
    table->binary = binary;
    table->compare = compare;
    table->where = where;
    table->clamp = clamp;
    table->clamp_grad = clamp_grad;
    table->affine = affine;
    table->axpy = axpy;
    table->lerp = lerp;
    table->unary_f64 = unary_f64;
    table->unary_grad_f64 = unary_grad_f64;
    table->binary_f64 = binary_f64;
}
