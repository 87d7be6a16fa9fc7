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

/* Q16 activations, VNNI. */
IG_AVX512_GEMM(ig__avx512_gemm_q16_q4_0);
IG_AVX512_GEMM(ig__avx512_gemm_q16_q4_1);
IG_AVX512_GEMM(ig__avx512_gemm_q16_q5_0);
IG_AVX512_GEMM(ig__avx512_gemm_q16_q8_0);
IG_AVX512_GEMM(ig__avx512_gemm_q16_q4_k);
IG_AVX512_GEMM(ig__avx512_gemm_q16_q6_k);

/* Q8X2 activations: for what the AMX tiles do not serve. */
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

void ig__avx512_pack_q16(void *tile, const float *x, int64_t c, int64_t n, int64_t k);
void ig__avx512_pack_q8x2(void *tile, const float *x, int64_t c, int64_t n, int64_t k);
void ig__avx512_pack_bf16(void *tile, const float *x, int64_t c, int64_t n, int64_t k);

/* The parts of a Q8X2 tile of n columns, nb = K/32. */
typedef struct ig__q8x2_tile {
    const int8_t *q;     /* [nb][n][2][32] */
    const float *scale;  /* [nb][n] */
    const float *sum;    /* [nb][n] */
    const int32_t *isum; /* [nb][n][2][2] */
} ig__q8x2_tile;

IG_INLINE ig__q8x2_tile ig__q8x2_tile_at(const void *tile, int64_t n, int64_t nb)
{
    const char *p = tile;
    return (ig__q8x2_tile){
        .q = (const int8_t *)p,
        .scale = (const float *)(const void *)(p + nb * n * 64),
        .sum = (const float *)(const void *)(p + nb * n * 68),
        .isum = (const int32_t *)(const void *)(p + nb * n * 72),
    };
}

/* The same of a Q16 tile. */
typedef struct ig__q16_tile {
    const int8_t *q;     /* [nb][n][2][32] */
    const float *sum;    /* [nb][n] */
    const float *halves; /* [nb][n][2] */
    const float *scale;  /* [n] */
} ig__q16_tile;

IG_INLINE ig__q16_tile ig__q16_tile_at(const void *tile, int64_t n, int64_t nb)
{
    const char *p = tile;
    return (ig__q16_tile){
        .q = (const int8_t *)p,
        .sum = (const float *)(const void *)(p + nb * n * 64),
        .halves = (const float *)(const void *)(p + nb * n * 68),
        .scale = (const float *)(const void *)(p + nb * n * 76),
    };
}

/* sum + the products of four bytes of each lane of w, unsigned, and the four at p, signed.
 * In words of assembler since gcc would load p apart: a second instruction each time. */
typedef struct __attribute__((may_alias)) ig__four {
    int8_t x[4];
} ig__four;
IG_INLINE __m512i ig__dot4(__m512i sum, __m512i w, const int8_t *p)
{
    __asm__("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(sum) : "v"(w), "m"(*(const ig__four *)p));
    return sum;
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
