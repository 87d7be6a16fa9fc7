/* Packing activations, 32 values in four registers. The bits are those of acts_ref.c.
 */
#include "kernel/kernel_int.h"

#include <immintrin.h>
#include <string.h>

#define ACTS_INLINE static inline __attribute__((always_inline))

/* The largest of 8 unsigned lanes. */
ACTS_INLINE uint32_t largest_lane(__m256i v)
{
    __m128i m = _mm_max_epu32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    m = _mm_max_epu32(m, _mm_shuffle_epi32(m, 0x4e));
    m = _mm_max_epu32(m, _mm_shuffle_epi32(m, 0xb1));
    return (uint32_t)_mm_cvtsi128_si32(m);
}

/* q [32] i8 = the integers v, saturated to -127 .. 127; isum [2] their sums by halves. */
ACTS_INLINE void put_bytes(int8_t *q, int32_t isum[2], const __m256i v[4])
{
    /* Packing works within 128-bit lanes: fours 0 2 4 6 | 1 3 5 7 are to be put in order.
     */
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    __m256i bytes =
        _mm256_packs_epi16(_mm256_packs_epi32(v[0], v[1]), _mm256_packs_epi32(v[2], v[3]));
    bytes =
        _mm256_max_epi8(_mm256_permutevar8x32_epi32(bytes, order), _mm256_set1_epi8(-127));
    _mm256_storeu_si256((__m256i *)(void *)q, bytes);

    const __m256i pairs = _mm256_maddubs_epi16(_mm256_set1_epi8(1), bytes);
    __m256i sums = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)); /* 4 of each half */
    sums = _mm256_add_epi32(sums, _mm256_shuffle_epi32(sums, 0x4e));
    sums = _mm256_add_epi32(sums, _mm256_shuffle_epi32(sums, 0xb1));
    isum[0] = _mm256_extract_epi32(sums, 0);
    isum[1] = _mm256_extract_epi32(sums, 4);
}

/* One block: q [2][32], isum [2][2] of x [32] in four registers, in units of `unit`
 * = 1 / inverse and, the second term, of 1/16 of it. */
ACTS_INLINE void quantise(int8_t *q, int32_t *isum, const __m256 x[4], float unit,
                          float inverse)
{
    const __m256 s = _mm256_set1_ps(inverse);
    __m256i v[4];
    for (int i = 0; i < 4; i++)
        v[i] = _mm256_cvtps_epi32(_mm256_mul_ps(x[i], s));
    put_bytes(q, isum, v);
    const __m256 s16 = _mm256_set1_ps(16.0f * inverse);
    for (int i = 0; i < 4; i++) {
        const __m256 rest =
            _mm256_fnmadd_ps(_mm256_set1_ps(unit), _mm256_cvtepi32_ps(v[i]), x[i]);
        v[i] = _mm256_cvtps_epi32(_mm256_mul_ps(rest, s16));
    }
    put_bytes(q + IG_QBLOCK, isum + 2, v);
}

/* Column c of a tile of n: q [nb][n][2][32], scale and sum [nb][n], isum
 * [nb][n][2][2]. */
static void pack_q8x2(void *tile, const float *x, int64_t c, int64_t n, int64_t k)
{
    const int64_t n_blocks = k / IG_QBLOCK * n;
    int8_t *q = tile;
    float *scale = (float *)(void *)(q + n_blocks * IG_QBLOCK * 2);
    float *sum = scale + n_blocks;
    int32_t *isum = (int32_t *)(void *)(sum + n_blocks);
    const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
    for (int64_t at = c; at < n_blocks; at += n, x += IG_QBLOCK) {
        int8_t *bytes = q + at * IG_QBLOCK * 2;
        int32_t *sums = isum + at * 4;
        __m256 v[4];
        __m256i most = _mm256_setzero_si256();
        for (int i = 0; i < 4; i++) {
            v[i] = _mm256_loadu_ps(x + 8 * i);
            most = _mm256_max_epu32(most,
                                    _mm256_and_si256(_mm256_castps_si256(v[i]), magnitude));
        }
        /* As integers magnitudes are ordered like the floats, with infinity and then the
         * NaNs above all. */
        const uint32_t bits = largest_lane(most);
        const float largest = _mm_cvtss_f32(_mm_castsi128_ps(_mm_cvtsi32_si128((int)bits)));
        if (bits >= 0x7f800000 || largest < IG_ACTS_TINY) {
            memset(bytes, 0, 2 * IG_QBLOCK);
            memset(sums, 0, 4 * sizeof *sums);
            scale[at] = bits >= 0x7f800000 ? __builtin_nanf("") : 0.0f;
            sum[at] = scale[at];
            continue;
        }
        const float unit = largest / 127.0f;
        quantise(bytes, sums, v, unit, 127.0f / largest);
        const int32_t whole = 16 * (sums[0] + sums[1]) + sums[2] + sums[3];
        scale[at] = unit / 16.0f;
        sum[at] = scale[at] * (float)whole;
    }
}

void ig__acts_kernels_avx2(ig__kernels *table)
{
    table->pack_acts[IG_ACTS_Q8X2] = pack_q8x2;
}
