/* The loops of elementwise rows (ig__span_fn), by name and compute type. */
#ifndef INGOT_OP_SPAN_H
#define INGOT_OP_SPAN_H

#include "op/op.h"

/* X(name): loops over floats; those of the second list over integers too. */
/* clang-format off */
#define IG_SPAN_MAP(X)                                                                     \
    X(sqrt) X(rsqrt) X(reciprocal) X(floor) X(ceil) X(round) X(trunc) X(exp) X(expm1)      \
    X(log) X(log1p) X(sin) X(cos) X(tanh) X(sigmoid) X(silu) X(softplus) X(erf)            \
    X(gelu_erf) X(gelu_tanh) X(div) X(pow)
#define IG_SPAN_WHOLE_MAP(X)                                                               \
    X(neg) X(abs) X(sign) X(square) X(relu) X(not) X(add) X(sub) X(mul) X(maximum)         \
    X(minimum) X(equal) X(not_equal) X(less) X(less_equal) X(and) X(or) X(xor) X(where)    \
    X(scale) X(shift) X(clamp) X(fill)
/* clang-format on */

#define IG_SPAN_FLOATS(name) ig__span_fn ig__f32_##name, ig__f64_##name;
#define IG_SPAN_WHOLE(name)  ig__span_fn ig__f32_##name, ig__f64_##name, ig__i64_##name;
IG_SPAN_MAP(IG_SPAN_FLOATS)
IG_SPAN_WHOLE_MAP(IG_SPAN_WHOLE)
#undef IG_SPAN_FLOATS
#undef IG_SPAN_WHOLE

/* For a row's `span`. */
#define IG_SPAN_OF(name)                                                                   \
    {                                                                                      \
        [IG_COMPUTE_F32] = ig__f32_##name, [IG_COMPUTE_F64] = ig__f64_##name,              \
    }
#define IG_SPAN_OF_ALL(name)                                                               \
    {                                                                                      \
        [IG_COMPUTE_F32] = ig__f32_##name, [IG_COMPUTE_F64] = ig__f64_##name,              \
        [IG_COMPUTE_I64] = ig__i64_##name,                                                 \
    }

#endif
