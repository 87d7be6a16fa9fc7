/* How far a kernel may lie from its definition: one table, by operation and type.
 *
 * A bound is relative to the sum of the magnitudes that the result is made of (for a
 * product, sum over k of |w| * |x|), which is what rounding errors grow with; a result that
 * cancels is as good as its parts. U is the rounding unit of f32. No test widens its own.
 */
#ifndef INGOT_TESTS_TOLERANCE_H
#define INGOT_TESTS_TOLERANCE_H

#define IG_TOL_U 0x1p-24

/* Quantised weights, Q8 activations: the integer sums are exact; each block of 32 adds at
 * most two terms (value and minimum), each rounded once, and every term carries the
 * rounding of d * scale and of the block's sum. */
#define IG_TOL_GEMM_Q8(k) ((2.0 * (double)(k) / 32.0 + 4.0) * IG_TOL_U)

/* Any weights, F32 activations: one rounding for each of K additions, in the worst order.
 */
#define IG_TOL_GEMM_F32(k) (((double)(k) + 4.0) * IG_TOL_U)

/* 16-bit weights, BF16 activations: products of two bf16 are exact in f32. F16 weights may
 * be rounded to bf16 (8 bits) before. */
#define IG_TOL_GEMM_BF16(k)     (((double)(k) + 4.0) * IG_TOL_U)
#define IG_TOL_GEMM_BF16_F16(k) (((double)(k) + 4.0) * IG_TOL_U + 0x1p-8)

#endif
