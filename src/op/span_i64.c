/* Loops of elementwise rows over integers (and bool), in 64 bits; sums and products wrap. */
#include "op/span.h"

static int64_t wrapped(uint64_t v)
{
    return (int64_t)v;
}

#define UNARY(name, expression)                                                            \
    void ig__i64_##name(const ig__eval *e, void *y_, const void *const *x_, int64_t n)     \
    {                                                                                      \
        (void)e;                                                                           \
        int64_t *y = y_;                                                                   \
        const int64_t *x_0 = x_[0];                                                        \
        for (int64_t i = 0; i < n; i++) {                                                  \
            const int64_t x = x_0[i];                                                      \
            y[i] = (expression);                                                           \
        }                                                                                  \
    }
#define BINARY(name, expression)                                                           \
    void ig__i64_##name(const ig__eval *e, void *y_, const void *const *x_, int64_t n)     \
    {                                                                                      \
        (void)e;                                                                           \
        int64_t *y = y_;                                                                   \
        const int64_t *x_0 = x_[0], *x_1 = x_[1];                                          \
        for (int64_t i = 0; i < n; i++) {                                                  \
            const int64_t a = x_0[i], b = x_1[i];                                          \
            y[i] = (expression);                                                           \
        }                                                                                  \
    }

UNARY(neg, wrapped(0 - (uint64_t)x))
UNARY(abs, x < 0 ? wrapped(0 - (uint64_t)x) : x)
UNARY(sign, (x > 0) - (x < 0))
UNARY(square, wrapped((uint64_t)x *(uint64_t)x))
UNARY(relu, x > 0 ? x : 0)
UNARY(not, x == 0)

BINARY(add, wrapped((uint64_t)a + (uint64_t)b))
BINARY(sub, wrapped((uint64_t)a - (uint64_t)b))
BINARY(mul, wrapped((uint64_t)a *(uint64_t)b))
BINARY(maximum, a > b ? a : b)
BINARY(minimum, a < b ? a : b)
BINARY(equal, a == b)
BINARY(not_equal, a != b)
BINARY(less, a < b)
BINARY(less_equal, a <= b)
BINARY(and, a &&b)
BINARY(or, a || b)
BINARY(xor, !a != !b)

void ig__i64_where(const ig__eval *e, void *y_, const void *const *x_, int64_t n)
{
    int64_t *y = y_;
    const bool wide =
        e->in[2].type->dtype == IG_DTYPE_BOOL; /* then the condition is i64 too */
    const int64_t *a = x_[1], *b = x_[2];
    for (int64_t i = 0; i < n; i++)
        y[i] = (wide ? ((const int64_t *)x_[0])[i] != 0 : ((const uint8_t *)x_[0])[i] != 0)
                   ? a[i]
                   : b[i];
}

void ig__i64_scale(const ig__eval *e, void *y_, const void *const *x_, int64_t n)
{
    const int64_t factor = (int64_t)((const ig__scale_attrs *)e->attrs)->factor;
    const int64_t *x = x_[0];
    int64_t *y = y_;
    for (int64_t i = 0; i < n; i++)
        y[i] = wrapped((uint64_t)x[i] * (uint64_t)factor);
}

void ig__i64_shift(const ig__eval *e, void *y_, const void *const *x_, int64_t n)
{
    const int64_t by = (int64_t)((const ig__scale_attrs *)e->attrs)->factor;
    const int64_t *x = x_[0];
    int64_t *y = y_;
    for (int64_t i = 0; i < n; i++)
        y[i] = wrapped((uint64_t)x[i] + (uint64_t)by);
}

void ig__i64_clamp(const ig__eval *e, void *y_, const void *const *x_, int64_t n)
{
    const ig__clamp_attrs *attrs = e->attrs;
    const int64_t *x = x_[0];
    int64_t *y = y_;
    for (int64_t i = 0; i < n; i++)
        y[i] = (double)x[i] > attrs->high  ? (int64_t)attrs->high
               : (double)x[i] < attrs->low ? (int64_t)attrs->low
                                           : x[i];
}

void ig__i64_fill(const ig__eval *e, void *y_, const void *const *x_, int64_t n)
{
    (void)x_;
    const int64_t value = (int64_t)((const ig__fill_attrs *)e->attrs)->value;
    int64_t *y = y_;
    for (int64_t i = 0; i < n; i++)
        y[i] = value;
}
