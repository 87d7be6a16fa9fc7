/* Dense products in f64 by AVX-512: slices of 14 rows, panels of 16 columns. Packing is in
 * plain C.
 */
#include "kernel/avx512/matmul_avx512.h"

/* The lower n of 8 lanes; n may be negative or past 8. */
IG_MM_INLINE __mmask8 mask_of(int64_t n)
{
    return (__mmask8)ig__mm_mask16(n < 8 ? n : 8);
}

#define VALUE                 double
#define SUM                   double
#define VECTOR                __m512d
#define MASK                  __mmask8
#define LANES                 8
#define MR                    IG_MM_ROWS_AVX512
#define SOURCE_AHEAD          16
#define STEPS(k)              (k)
#define READS_SOURCE          1
#define FETCHES_INSIDE        1
#define V_ZERO()              _mm512_setzero_pd()
#define V_SET1(x)             _mm512_set1_pd(x)
#define V_LOAD(p)             _mm512_loadu_pd(p)
#define V_LOAD_MASK(p, m)     _mm512_maskz_loadu_pd(m, p)
#define V_STORE(p, x)         _mm512_storeu_pd(p, x)
#define V_STORE_MASK(p, m, x) _mm512_mask_storeu_pd(p, m, x)
#define V_FMA(x, y, z)        _mm512_fmadd_pd(x, y, z)
#define V_PRODUCT(x, y, z)    V_FMA(x, y, z)
#define V_MUL(x, y)           _mm512_mul_pd(x, y)
#define V_ADD(x, y)           _mm512_add_pd(x, y)
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

const ig__mm_kernel ig__dgemm_avx512 = {
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
