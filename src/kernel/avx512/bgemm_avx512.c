/* Dense products of bf16 by AVX512-BF16: the f32 kernel with pairs for values.
 *
 * A lane holds (k, k + 1) of a row or column, and VDPBF16PS adds both products to an f32 sum.
 */
#include "kernel/avx512/matmul_avx512.h"

#define VALUE                 float
#define SUM                   float
#define VECTOR                __m512
#define MASK                  __mmask16
#define LANES                 16
#define MR                    IG_MM_ROWS_AVX512
#define SOURCE_AHEAD          16
#define STEPS(k)              (((k) + 1) / 2)
#define READS_SOURCE          0
#define FETCHES_INSIDE        1
#define V_ZERO()              _mm512_setzero_ps()
#define V_SET1(x)             _mm512_set1_ps(x)
#define V_LOAD(p)             _mm512_loadu_ps(p)
#define V_LOAD_MASK(p, m)     _mm512_maskz_loadu_ps(m, p)
#define V_STORE(p, x)         _mm512_storeu_ps(p, x)
#define V_STORE_MASK(p, m, x) _mm512_mask_storeu_ps(p, m, x)
#define V_FMA(x, y, z)        _mm512_fmadd_ps(x, y, z)
#define V_PRODUCT(x, y, z)    _mm512_dpbf16_ps(z, (__m512bh)(x), (__m512bh)(y))
#define V_MUL(x, y)           _mm512_mul_ps(x, y)
#define V_ADD(x, y)           _mm512_add_ps(x, y)
#define V_MASK(n)             ig__mm_mask16(n)
#define V_PREFETCH(p)         _mm_prefetch(p, _MM_HINT_T0)
#define V_PREFETCH_FAR(p)     _mm_prefetch(p, _MM_HINT_T1)
#define V_PREFETCH_WRITE(p)   __builtin_prefetch(p, 1)
#include "kernel/matmul_body.inc"

const ig__mm_kernel ig__bgemm_avx512 = {
    .mr = MR,
    .nr = NR,
    .span = 768,
    .k_step = 32, /* as panels are filled up */
    .row_step = 1,
    .value_bytes = sizeof(uint16_t),
    .pack_a = {[IG__MM_BF16] = ig__mm_pack_a_pairs_avx512},
    .pack_b = {[IG__MM_BF16] = ig__mm_pack_b_pairs_avx512},
    .panel = panel,
    .narrow = {[IG__MM_BF16] = ig__mm_narrow_bf16_avx512,
               [IG__MM_F16] = ig__mm_narrow_f16_avx512},
};
