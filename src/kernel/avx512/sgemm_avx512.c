/* Dense products in f32 by AVX-512: slices of 14 rows, panels of 32 columns.
 *
 * A step of k is 28 FMA, two loads and 14 broadcasts: two FMA a cycle are fed by 16 loads in 14
 * cycles. A span of B's panel is 64 KiB and comes from the second-level cache in part; shorter spans
 * would fit the first, and lose more by passing C more often (measured).
 */
#include "kernel/avx512/matmul_avx512.h"

#define VALUE                 float
#define SUM                   float
#define VECTOR                __m512
#define MASK                  __mmask16
#define LANES                 16
#define MR                    IG_MM_ROWS_AVX512
#define SOURCE_AHEAD          16
#define STEPS(k)              (k)
#define READS_SOURCE          1
#define FETCHES_INSIDE        1
#define V_ZERO()              _mm512_setzero_ps()
#define V_SET1(x)             _mm512_set1_ps(x)
#define V_LOAD(p)             _mm512_loadu_ps(p)
#define V_LOAD_MASK(p, m)     _mm512_maskz_loadu_ps(m, p)
#define V_STORE(p, x)         _mm512_storeu_ps(p, x)
#define V_STORE_MASK(p, m, x) _mm512_mask_storeu_ps(p, m, x)
#define V_FMA(x, y, z)        _mm512_fmadd_ps(x, y, z)
#define V_PRODUCT(x, y, z)    V_FMA(x, y, z)
#define V_MUL(x, y)           _mm512_mul_ps(x, y)
#define V_ADD(x, y)           _mm512_add_ps(x, y)
#define V_MASK(n)             ig__mm_mask16(n)
#define V_PREFETCH(p)         _mm_prefetch(p, _MM_HINT_T0)
#define V_PREFETCH_FAR(p)     _mm_prefetch(p, _MM_HINT_T1)
#define V_PREFETCH_WRITE(p)   __builtin_prefetch(p, 1)
#include "kernel/matmul_body.inc"

const ig__mm_kernel ig__sgemm_avx512 = {
    .mr = MR,
    .nr = NR,
    .span = 512,
    .k_step = 1,
    .row_step = 1,
    .value_bytes = sizeof(float),
    .reads_source = true,
    .pack_a = {[IG__MM_F32] = ig__mm_pack_a_f32_avx512,
               [IG__MM_BF16] = ig__mm_pack_a_bf16_avx512,
               [IG__MM_F16] = ig__mm_pack_a_f16_avx512},
    .pack_b = {[IG__MM_F32] = ig__mm_pack_b_f32_avx512,
               [IG__MM_BF16] = ig__mm_pack_b_bf16_avx512,
               [IG__MM_F16] = ig__mm_pack_b_f16_avx512},
    .panel = panel,
    .narrow = {[IG__MM_BF16] = ig__mm_narrow_bf16_avx512,
               [IG__MM_F16] = ig__mm_narrow_f16_avx512},
};

void ig__matmul_kernels_avx512(ig__kernels *table, const ig__cpu *cpu)
{
    table->matmul[IG__MM_F32] = &ig__sgemm_avx512;
    table->matmul[IG__MM_F64] = &ig__dgemm_avx512;
    if (cpu->avx512_bf16)
        table->matmul[IG__MM_BF16] = &ig__bgemm_avx512;
}
