/* Quantised products by vpdpbusd in its VEX form (AVX-VNNI): four products of an unsigned
 * and a signed byte added to 32 bits, nothing saturates. The bits are those of gemm_avx2.c.
 */
#include "kernel/avx2/weights_avx2.h"

#define SIGNED_Q8_0 0

IG_INLINE __m256i dot2(ig_dtype dtype, __m256i acc, __m256i w0, __m256i x0, __m256i w1,
                       __m256i x1)
{
    (void)dtype;
    return _mm256_dpbusd_avx_epi32(_mm256_dpbusd_avx_epi32(acc, w0, x0), w1, x1);
}

#include "kernel/avx2/gemm_q8_avx2.inc"

void ig__gemm_kernels_avxvnni(ig__kernels *table)
{
    set_q8_entries(table);
}
