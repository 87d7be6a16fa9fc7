/* How far a kernel may lie from its definition: one table, with the reasons. A test takes its bounds from
 * here and never widens its own.
 *
 * U = 2^-24 is half an ulp of a number just above 1: the rounding unit of float32.
 *
 * Products. A bound is relative to the sum of the magnitudes that the result is made of (sum over k of
 * |w| * |x|), which is what rounding errors grow with: a result that cancels is as good as its parts.
 *   Q8X2 activations  the integer sums are exact; each block of 32 adds at most two terms (value and minimum),
 *                     each rounded once, and every term carries the rounding of d * scale and of the sum; a
 *                     block's integer, up to 25 bits, is rounded to f32: once, or with Q6_K's two scales up to
 *                     four times
 *   Q16 activations   the same without d * scale, but the integer is of unsigned weights: what the minimum (or the
 *                     type's offset) takes away again is rounded too, up to four times a block
 *   F32 activations   one rounding for each of K additions, in the worst order
 *   BF16 activations  products of two bf16 are exact in f32; F16 weights may be rounded to bf16 before
 *
 * Rows, relative to the double-precision result.
 *   add, mul, scale   one rounding: U
 *   rms_norm          D squares in 16 lanes of D/16: at most (D/16 + 4) U on the sum, half of that on its root,
 *                     4 roundings more
 *   silu_mul          exp within 2 ulp = 4 U, then 1 + e, the quotient, the product
 *   gelu_mul          the same, and the argument 2u of exp carries 4 roundings and the two constants' own:
 *                     6 U, which exp turns into 6 |2u| U
 *   rope              two products and a sum, relative to |x0| + |x1|
 *   attention         absolute, for an output row over n keys: a score is a chain of W FMA: at most
 *                     2 W U sum|q k|; m and exp add 4 U and |s - m| U; weights carry twice that, the sums over
 *                     n keys n U each, all of it times max|V|. Bytes and halves are exact in float32.
 *
 * Graphs with and without a pass: logits, relative to the largest.
 *   exact             the same float32 products, in another order, over at most 6 layers
 *   by default        activations of 15 bits: 2^-16 a product, relative to its parts, which norms and
 *                     gates carry on; a wrong pass is off by 0.1 to 1
 */
#ifndef INGOT_TESTS_TOLERANCE_H
#define INGOT_TESTS_TOLERANCE_H

#include <stdint.h>

#define IG_TOL_U 0x1p-24
#define TOL_EPS  IG_TOL_U

#define IG_TOL_GEMM_Q16(k)      ((4.0 * (double)(k) / 32.0 + 8.0) * IG_TOL_U)
#define IG_TOL_GEMM_Q8X2(k)     ((2.0 * (double)(k) / 32.0 + 8.0) * IG_TOL_U)
#define IG_TOL_GEMM_F32(k)      (((double)(k) + 4.0) * IG_TOL_U)
#define IG_TOL_GEMM_BF16(k)     (((double)(k) + 4.0) * IG_TOL_U)
#define IG_TOL_GEMM_BF16_F16(k) (((double)(k) + 4.0) * IG_TOL_U + 0x1p-8)

#define IG_TOL_PASS_EXACT 2e-5
#define IG_TOL_PASS       2e-3

#define TOL_ELEMENT TOL_EPS
#define TOL_SILU    (10 * TOL_EPS)
#define TOL_ROPE    (3 * TOL_EPS)

static inline double tol_rms_norm(int64_t d)
{
    return (0.5 * ((double)d / 16 + 4) + 4) * TOL_EPS;
}

static inline double tol_gelu(double twice_u)
{
    return TOL_SILU + 6 * TOL_EPS * (twice_u < 0 ? -twice_u : twice_u);
}

/* top_qk: largest sum over d of |q k|; depth: largest m - s that matters (exp(-88) is 0). */
static inline double tol_attend(int64_t w, int64_t n, double top_qk, double top_v)
{
    const double score = 2 * (double)w * TOL_EPS * top_qk;
    const double weight = 2 * score + (4 + 88) * TOL_EPS;
    return (weight + 2 * (double)n * TOL_EPS) * top_v;
}

#endif
