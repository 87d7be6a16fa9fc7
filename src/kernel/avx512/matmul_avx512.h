/* What the AVX-512 files of dense products share: the sizes of their slices and panels, and
 * the packing of 32-bit values. Only files compiled for AVX-512 include it.
 */
#ifndef INGOT_KERNEL_AVX512_MATMUL_AVX512_H
#define INGOT_KERNEL_AVX512_MATMUL_AVX512_H

#include "kernel/matmul_int.h"

#include <immintrin.h>

/* 14 x 2 sums, 2 vectors of B and a value of A are 31 of the 32 registers. */
enum { IG_MM_ROWS_AVX512 = 14, IG_MM_COLUMNS_AVX512 = 32 };

/* y = x transposed, both 16 lines of 16 words of 32 bits. */
IG_MM_INLINE void ig__mm_transpose_avx512(__m512 y[16], const __m512 x[16])
{
    __m512d b[16];
    IG_MM_UNROLL
    for (int i = 0; i < 16; i += 4) { /* b[i + j]: word j of each 128 bits of four lines */
        const __m512d a0 = _mm512_castps_pd(_mm512_unpacklo_ps(x[i], x[i + 1]));
        const __m512d a1 = _mm512_castps_pd(_mm512_unpackhi_ps(x[i], x[i + 1]));
        const __m512d a2 = _mm512_castps_pd(_mm512_unpacklo_ps(x[i + 2], x[i + 3]));
        const __m512d a3 = _mm512_castps_pd(_mm512_unpackhi_ps(x[i + 2], x[i + 3]));
        b[i] = _mm512_unpacklo_pd(a0, a2);
        b[i + 1] = _mm512_unpackhi_pd(a0, a2);
        b[i + 2] = _mm512_unpacklo_pd(a1, a3);
        b[i + 3] = _mm512_unpackhi_pd(a1, a3);
    }
    IG_MM_UNROLL
    for (int j = 0; j < 4; j++) { /* the 4 x 4 blocks of 128 bits */
        const __m512d lo01 = _mm512_shuffle_f64x2(b[j], b[4 + j], 0x44);
        const __m512d hi01 = _mm512_shuffle_f64x2(b[j], b[4 + j], 0xee);
        const __m512d lo23 = _mm512_shuffle_f64x2(b[8 + j], b[12 + j], 0x44);
        const __m512d hi23 = _mm512_shuffle_f64x2(b[8 + j], b[12 + j], 0xee);
        y[j] = _mm512_castpd_ps(_mm512_shuffle_f64x2(lo01, lo23, 0x88));
        y[4 + j] = _mm512_castpd_ps(_mm512_shuffle_f64x2(lo01, lo23, 0xdd));
        y[8 + j] = _mm512_castpd_ps(_mm512_shuffle_f64x2(hi01, hi23, 0x88));
        y[12 + j] = _mm512_castpd_ps(_mm512_shuffle_f64x2(hi01, hi23, 0xdd));
    }
}

/* The lower n of 16 lanes; n may be negative or past 16. */
IG_MM_INLINE __mmask16 ig__mm_mask16(int64_t n)
{
    return (__mmask16)(n >= 16 ? 0xffff : n <= 0 ? 0 : (1 << n) - 1);
}

/* f32, bf16 or f16 to slices and panels of f32. */
ig__mm_pack ig__mm_pack_a_f32_avx512, ig__mm_pack_a_bf16_avx512, ig__mm_pack_a_f16_avx512,
    ig__mm_pack_b_f32_avx512, ig__mm_pack_b_bf16_avx512, ig__mm_pack_b_f16_avx512;

/* f32 to 16 bits. */
ig__mm_narrow ig__mm_narrow_bf16_avx512, ig__mm_narrow_f16_avx512;

/* bf16 to slices and panels of pairs, [k/2][h][2] and [k/2][NR][2]; the second of a pair that is
 * not there is 0. Panels are filled up with zeros to a multiple of 32 k. */
ig__mm_pack ig__mm_pack_a_pairs_avx512, ig__mm_pack_b_pairs_avx512;

/* 16 pairs: (i, k) and (i, k + 1) of 16 i. */
IG_MM_INLINE __m512 ig__mm_join_pairs_avx512(__m256i k0, __m256i k1)
{
    const __m512i lo = _mm512_cvtepu16_epi32(k0), hi = _mm512_cvtepu16_epi32(k1);
    return _mm512_castsi512_ps(_mm512_or_si512(lo, _mm512_slli_epi32(hi, 16)));
}

extern const ig__mm_kernel ig__sgemm_avx512, ig__dgemm_avx512, ig__bgemm_avx512;

#endif
