/* What the AVX-512 files share: the functions that the table lists, and the vector idioms
 * of all product kernels.
 *
 * Only files compiled for AVX-512 include this header; nothing here may be called before
 * ig__kernels_pick has found the instructions on this CPU.
 */
#ifndef INGOT_KERNEL_AVX512_AVX512_INT_H
#define INGOT_KERNEL_AVX512_AVX512_INT_H

#include "kernel/kernel.h"

#include <immintrin.h>

/* A kernel body that is specialised by the constants it is called with. */
#define IG_INLINE static inline __attribute__((always_inline))

/* Before a loop over registers: it must vanish, or its arrays live in memory. */
#ifdef __clang__
#    define IG_UNROLL _Pragma("clang loop unroll(full)")
#else
#    define IG_UNROLL _Pragma("GCC unroll 16")
#endif

#define IG_AVX512_GEMM(name)                                                               \
    void name(float *out, const void *group, const void *acts, int64_t n, int64_t k,       \
              void *scratch)

/* int8 activations, VNNI. */
IG_AVX512_GEMM(ig__avx512_gemm_q4_0);
IG_AVX512_GEMM(ig__avx512_gemm_q4_1);
IG_AVX512_GEMM(ig__avx512_gemm_q5_0);
IG_AVX512_GEMM(ig__avx512_gemm_q8_0);
IG_AVX512_GEMM(ig__avx512_gemm_q4_k);
IG_AVX512_GEMM(ig__avx512_gemm_q6_k);

/* The same of two terms. */
IG_AVX512_GEMM(ig__avx512_gemm_x2_q4_0);
IG_AVX512_GEMM(ig__avx512_gemm_x2_q4_1);
IG_AVX512_GEMM(ig__avx512_gemm_x2_q5_0);
IG_AVX512_GEMM(ig__avx512_gemm_x2_q8_0);
IG_AVX512_GEMM(ig__avx512_gemm_x2_q4_k);
IG_AVX512_GEMM(ig__avx512_gemm_x2_q6_k);

/* A group for the AMX tiles, in blocks of 32 columns: 8 lines of 64 signed bytes, then the
 * scales (see gemm_q8.inc). With two sums 4 lines of zeros lie between the halves: lines 0
 * .. 7 and 4 .. 11 are each a block with the other half struck out. */
#define IG_AMX_WEIGHT_BYTES(sums) ((sums) == 2 ? 768 : 512)
void ig__avx512_expand_q4_0(void *y, const void *group, int64_t k);
void ig__avx512_expand_q4_1(void *y, const void *group, int64_t k);
void ig__avx512_expand_q5_0(void *y, const void *group, int64_t k);
void ig__avx512_expand_q8_0(void *y, const void *group, int64_t k);
void ig__avx512_expand_q4_k(void *y, const void *group, int64_t k);
void ig__avx512_expand_q6_k(void *y, const void *group, int64_t k);

/* bf16 activations, VDPBF16PS. */
IG_AVX512_GEMM(ig__avx512_gemm_bf16_f16);
IG_AVX512_GEMM(ig__avx512_gemm_bf16_bf16);

/* f32 activations, FMA. */
IG_AVX512_GEMM(ig__avx512_gemm_f32_f32);
IG_AVX512_GEMM(ig__avx512_gemm_f32_f16);
IG_AVX512_GEMM(ig__avx512_gemm_f32_bf16);
IG_AVX512_GEMM(ig__avx512_gemm_f32_q4_0);
IG_AVX512_GEMM(ig__avx512_gemm_f32_q4_1);
IG_AVX512_GEMM(ig__avx512_gemm_f32_q5_0);
IG_AVX512_GEMM(ig__avx512_gemm_f32_q8_0);
IG_AVX512_GEMM(ig__avx512_gemm_f32_q4_k);
IG_AVX512_GEMM(ig__avx512_gemm_f32_q6_k);

/* Columns k0 .. k0+n_k-1 of a group as f32 [n_k][16]: where they lie, or in `room` (a span
 * of IG_SPAN columns). k0 is a multiple of IG_SPAN, n_k <= IG_SPAN. */
enum { IG_SPAN = 256 };
typedef const float *ig__floats_fn(float *room, const void *group, int64_t k0, int64_t n_k);

/* The product with f32 activations of any type that has such a function. */
void ig__avx512_gemm_floats(float *out, const void *group, const void *acts, int64_t n,
                            int64_t k, void *scratch, ig__floats_fn *floats);

void ig__avx512_pack_q8(void *tile, const float *x, int64_t c, int64_t n, int64_t k);
void ig__avx512_pack_q8x2(void *tile, const float *x, int64_t c, int64_t n, int64_t k);
void ig__avx512_pack_bf16(void *tile, const float *x, int64_t c, int64_t n, int64_t k);

/* The parts of an activation tile of n columns in Q8 (1 term) or Q8X2 (2), nb = K/32. */
typedef struct ig__q8_tile {
    const int8_t *q;     /* [nb][n][terms][32] */
    const float *scale;  /* [nb][n] */
    const float *sum;    /* [nb][n] */
    const int32_t *isum; /* [nb][n][terms][2] */
} ig__q8_tile;

IG_INLINE ig__q8_tile ig__q8_tile_at(const void *tile, int64_t n, int64_t nb, int terms)
{
    const char *p = tile;
    return (ig__q8_tile){
        .q = (const int8_t *)p,
        .scale = (const float *)(const void *)(p + nb * n * 32 * terms),
        .sum = (const float *)(const void *)(p + nb * n * (32 * terms + 4)),
        .isum = (const int32_t *)(const void *)(p + nb * n * (32 * terms + 8)),
    };
}

/* Integer sums |isum| < 2^22 that begin at these bits are, read as a float, isum + 1.5 *
 * 2^23: no conversion. Of the two terms of Q8X2, 16 * hi - 1.5 * 2^23 is one exact FMA and
 * the sum with the other's float is 16 * hi + lo, rounded once: the bits of a conversion
 * of the integer. */
#define IG_MAGIC_BITS 0x4b400000
IG_INLINE __m512 ig__join_terms(__m512i hi, __m512i lo)
{
    const __m512 h = _mm512_fmadd_ps(_mm512_castsi512_ps(hi), _mm512_set1_ps(16.0f),
                                     _mm512_set1_ps(-17.0f * 0x1.8p23f));
    return _mm512_add_ps(h, _mm512_castsi512_ps(lo));
}

/* Sixteen f16 as f32; p need not be aligned. */
IG_INLINE __m512 ig__load_f16(const void *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256(p));
}

/* Four bytes in every lane. */
IG_INLINE __m512i ig__broadcast32(const void *p)
{
    int32_t x;
    __builtin_memcpy(&x, p, 4);
    return _mm512_set1_epi32(x);
}

#endif
