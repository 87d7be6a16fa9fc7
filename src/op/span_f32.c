/* Loops of elementwise rows over float: the kernels' where there are any, plain ones otherwise. */
#include "op/span.h"

#include <math.h>

/* clang-format off */
#define UNARY_KERNELS(X)                                                                   \
    X(neg, NEG) X(abs, ABS) X(sign, SIGN) X(square, SQUARE) X(sqrt, SQRT) X(rsqrt, RSQRT)  \
    X(reciprocal, RECIPROCAL) X(floor, FLOOR) X(ceil, CEIL) X(round, ROUND)                \
    X(trunc, TRUNC) X(exp, EXP) X(expm1, EXPM1) X(log, LOG) X(log1p, LOG1P) X(sin, SIN)    \
    X(cos, COS) X(tanh, TANH) X(sigmoid, SIGMOID) X(relu, RELU) X(silu, SILU)              \
    X(softplus, SOFTPLUS) X(erf, ERF) X(gelu_erf, GELU) X(gelu_tanh, GELU_TANH)
#define BINARY_KERNELS(X)                                                                  \
    X(add, ADD, a + b) X(sub, SUB, a - b) X(mul, MUL, a *b) X(div, DIV, a / b)
/* clang-format on */

#define UNARY_SPAN(name, kernel)                                                           \
    void ig__f32_##name(const ig__eval *e, void *y, const void *const *x, int64_t n)       \
    {                                                                                      \
        e->t->unary(IG__UNARY_##kernel, y, x[0], n);                                       \
    }
UNARY_KERNELS(UNARY_SPAN)

/* Few elements are done before a kernel is entered; one operation has the same bits either way. */
enum { FEW = 4 };
#define BINARY_SPAN(name, kernel, expression)                                              \
    void ig__f32_##name(const ig__eval *e, void *y_, const void *const *x, int64_t n)      \
    {                                                                                      \
        if (n > FEW) {                                                                     \
            e->t->binary(IG__BINARY_##kernel, y_, x[0], 1, x[1], 1, n);                    \
            return;                                                                        \
        }                                                                                  \
        float *y = y_;                                                                     \
        for (int64_t i = 0; i < n; i++) {                                                  \
            const float a = ((const float *)x[0])[i], b = ((const float *)x[1])[i];        \
            y[i] = (expression);                                                           \
        }                                                                                  \
    }
BINARY_KERNELS(BINARY_SPAN)

void ig__f32_maximum(const ig__eval *e, void *y, const void *const *x, int64_t n)
{
    e->t->binary(IG__BINARY_MAX, y, x[0], 1, x[1], 1, n);
}
void ig__f32_minimum(const ig__eval *e, void *y, const void *const *x, int64_t n)
{
    e->t->binary(IG__BINARY_MIN, y, x[0], 1, x[1], 1, n);
}
void ig__f32_pow(const ig__eval *e, void *y, const void *const *x, int64_t n)
{
    e->t->binary(IG__BINARY_POW, y, x[0], 1, x[1], 1, n);
}
void ig__f32_scale(const ig__eval *e, void *y, const void *const *x, int64_t n)
{
    const float factor = (float)((const ig__scale_attrs *)e->attrs)->factor;
    e->t->binary(IG__BINARY_MUL, y, x[0], 1, &factor, 0, n);
}
void ig__f32_shift(const ig__eval *e, void *y, const void *const *x, int64_t n)
{
    const float by = (float)((const ig__scale_attrs *)e->attrs)->factor;
    e->t->binary(IG__BINARY_ADD, y, x[0], 1, &by, 0, n);
}
#define COMPARE_SPAN(name, kernel)                                                         \
    void ig__f32_##name(const ig__eval *e, void *y, const void *const *x, int64_t n)       \
    {                                                                                      \
        e->t->compare(IG__COMPARE_##kernel, y, x[0], 1, x[1], 1, n);                       \
    }
COMPARE_SPAN(equal, EQ)
COMPARE_SPAN(not_equal, NE)
COMPARE_SPAN(less, LT)
COMPARE_SPAN(less_equal, LE)

void ig__f32_where(const ig__eval *e, void *y, const void *const *x, int64_t n)
{
    e->t->where(y, x[0], 1, x[1], 1, x[2], 1, n);
}
void ig__f32_clamp(const ig__eval *e, void *y, const void *const *x, int64_t n)
{
    const ig__clamp_attrs *a = e->attrs;
    e->t->clamp(y, x[0], (float)a->low, (float)a->high, n);
}

#define REAL    float
#define F(name) ig__f32_##name
#define M(name) name##f
#define TRUTHS_ONLY
#include "op/span_body.inc"
