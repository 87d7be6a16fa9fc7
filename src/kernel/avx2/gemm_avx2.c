/* Quantised products by vpmaddubsw, for CPUs of AVX2 alone.
 *
 * vpmaddubsw adds two products of an unsigned and a signed byte in 16 bits, saturating. Two
 * lines together stay in range for codes up to 63: 4 * 63 * 127 = 32004. Q8_0's codes do
 * not: there |w| takes the unsigned side and w's sign goes to x, 2 * 128 * 127 = 32512 for
 * one line at a time.
 */
#include "kernel/avx2/weights_avx2.h"

#define SIGNED_Q8_0 1

IG_INLINE __m256i dot2(ig_dtype dtype, __m256i acc, __m256i w0, __m256i x0, __m256i w1,
                       __m256i x1)
{
    const __m256i ones = _mm256_set1_epi16(1);
    if (dtype == IG_DTYPE_Q8_0) {
        const __m256i t0 =
            _mm256_maddubs_epi16(_mm256_abs_epi8(w0), _mm256_sign_epi8(x0, w0));
        const __m256i t1 =
            _mm256_maddubs_epi16(_mm256_abs_epi8(w1), _mm256_sign_epi8(x1, w1));
        acc = _mm256_add_epi32(acc, _mm256_madd_epi16(t0, ones));
        return _mm256_add_epi32(acc, _mm256_madd_epi16(t1, ones));
    }
    const __m256i t =
        _mm256_add_epi16(_mm256_maddubs_epi16(w0, x0), _mm256_maddubs_epi16(w1, x1));
    return _mm256_add_epi32(acc, _mm256_madd_epi16(t, ones));
}

#include "kernel/avx2/gemm_q8_avx2.inc"

void ig__gemm_kernels_avx2(ig__kernels *table)
{
    set_q8_entries(table);
}
