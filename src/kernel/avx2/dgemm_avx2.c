/* Dense products in f64 by AVX2: slices of 6 rows, panels of 8 columns. Packing is in plain
 * C.
 */
#include "kernel/avx2/matmul_avx2.h"

#include <immintrin.h>

/* All ones in the lower n of 4 lanes; n may be negative or past 4. */
IG_MM_INLINE __m256i mask_of(int64_t n)
{
    const int64_t count = n >= 4 ? 4 : n <= 0 ? 0 : n;
    const __m256i lane = _mm256_setr_epi64x(0, 1, 2, 3);
    return _mm256_cmpgt_epi64(_mm256_set1_epi64x(count), lane);
}

#define VALUE                 double
#define SUM                   double
#define VECTOR                __m256d
#define MASK                  __m256i
#define LANES                 4
#define MR                    6
#define SOURCE_AHEAD          16
#define STEPS(k)              (k)
#define READS_SOURCE          1
#define FETCHES_INSIDE        0
#define V_ZERO()              _mm256_setzero_pd()
#define V_SET1(x)             _mm256_set1_pd(x)
#define V_LOAD(p)             _mm256_loadu_pd(p)
#define V_LOAD_MASK(p, m)     _mm256_maskload_pd(p, m)
#define V_STORE(p, x)         _mm256_storeu_pd(p, x)
#define V_STORE_MASK(p, m, x) _mm256_maskstore_pd(p, m, x)
#define V_FMA(x, y, z)        _mm256_fmadd_pd(x, y, z)
#define V_PRODUCT(x, y, z)    V_FMA(x, y, z)
#define V_MUL(x, y)           _mm256_mul_pd(x, y)
#define V_ADD(x, y)           _mm256_add_pd(x, y)
#define V_MASK(n)             mask_of(n)
#define V_PREFETCH(p)         _mm_prefetch(p, _MM_HINT_T0)
#define V_PREFETCH_FAR(p)     _mm_prefetch(p, _MM_HINT_T1)
#define V_PREFETCH_WRITE(p)   __builtin_prefetch(p, 1)
#include "kernel/matmul_body.inc"

static void pack_a(void *to, const void *from, int64_t row, int64_t step, int64_t m,
                   int64_t k)
{
    ig__mm_pack_a_f64(to, from, row, step, m, k, MR);
}

static void pack_b(void *to, const void *from, int64_t row, int64_t step, int64_t n,
                   int64_t k)
{
    ig__mm_pack_b_f64(to, from, row, step, n, k, NR);
}

const ig__mm_kernel ig__dgemm_avx2 = {
    .mr = MR,
    .nr = NR,
    .span = 256,
    .k_step = 1,
    .row_step = 1,
    .value_bytes = sizeof(double),
    .reads_source = true,
    .pack_a = {[IG__MM_F64] = pack_a},
    .pack_b = {[IG__MM_F64] = pack_b},
    .panel = panel,
};
