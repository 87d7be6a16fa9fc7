/* Dense products in f32 by AVX2: slices of 6 rows, panels of 16 columns.
 *
 * 12 sums, two vectors of B and a value of A fill the 16 registers. 16-bit values are
 * widened while packing, in plain C.
 */
#include "kernel/avx2/matmul_avx2.h"

#include <immintrin.h>

/* All ones in the lower n of 8 lanes; n may be negative or past 8. */
IG_MM_INLINE __m256i mask_of(int64_t n)
{
    const int32_t count = n >= 8 ? 8 : n <= 0 ? 0 : (int32_t)n;
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(count), lane);
}

#define VALUE                 float
#define SUM                   float
#define VECTOR                __m256
#define MASK                  __m256i
#define LANES                 8
#define MR                    6
#define SOURCE_AHEAD          16
#define STEPS(k)              (k)
#define READS_SOURCE          1
#define FETCHES_INSIDE        0
#define V_ZERO()              _mm256_setzero_ps()
#define V_SET1(x)             _mm256_set1_ps(x)
#define V_LOAD(p)             _mm256_loadu_ps(p)
#define V_LOAD_MASK(p, m)     _mm256_maskload_ps(p, m)
#define V_STORE(p, x)         _mm256_storeu_ps(p, x)
#define V_STORE_MASK(p, m, x) _mm256_maskstore_ps(p, m, x)
#define V_FMA(x, y, z)        _mm256_fmadd_ps(x, y, z)
#define V_PRODUCT(x, y, z)    V_FMA(x, y, z)
#define V_MUL(x, y)           _mm256_mul_ps(x, y)
#define V_ADD(x, y)           _mm256_add_ps(x, y)
#define V_MASK(n)             mask_of(n)
#define V_PREFETCH(p)         _mm_prefetch(p, _MM_HINT_T0)
#define V_PREFETCH_FAR(p)     _mm_prefetch(p, _MM_HINT_T1)
#define V_PREFETCH_WRITE(p)   __builtin_prefetch(p, 1)
#include "kernel/matmul_body.inc"

static void pack_a_f32(void *to, const void *from, int64_t row, int64_t step, int64_t m,
                       int64_t k)
{
    ig__mm_pack_a_f32(to, from, row, step, m, k, MR, IG__MM_F32);
}

static void pack_a_bf16(void *to, const void *from, int64_t row, int64_t step, int64_t m,
                        int64_t k)
{
    ig__mm_pack_a_f32(to, from, row, step, m, k, MR, IG__MM_BF16);
}

static void pack_a_f16(void *to, const void *from, int64_t row, int64_t step, int64_t m,
                       int64_t k)
{
    ig__mm_pack_a_f32(to, from, row, step, m, k, MR, IG__MM_F16);
}

static void pack_b_f32(void *to, const void *from, int64_t row, int64_t step, int64_t n,
                       int64_t k)
{
    ig__mm_pack_b_f32(to, from, row, step, n, k, NR, IG__MM_F32);
}

static void pack_b_bf16(void *to, const void *from, int64_t row, int64_t step, int64_t n,
                        int64_t k)
{
    ig__mm_pack_b_f32(to, from, row, step, n, k, NR, IG__MM_BF16);
}

static void pack_b_f16(void *to, const void *from, int64_t row, int64_t step, int64_t n,
                       int64_t k)
{
    ig__mm_pack_b_f32(to, from, row, step, n, k, NR, IG__MM_F16);
}

static const ig__mm_kernel f32 = {
    .mr = MR,
    .nr = NR,
    .span = 256,
    .k_step = 1,
    .row_step = 1,
    .value_bytes = sizeof(float),
    .reads_source = true,
    .pack_a = {pack_a_f32, NULL, pack_a_bf16, pack_a_f16},
    .pack_b = {pack_b_f32, NULL, pack_b_bf16, pack_b_f16},
    .panel = panel,
};

void ig__matmul_kernels_avx2(ig__kernels *table)
{
    table->matmul[IG__MM_F32] = &f32;
    table->matmul[IG__MM_F64] = &ig__dgemm_avx2;
}
