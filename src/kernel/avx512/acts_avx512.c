/* Packing activations, 32 at a time. The bits are those of acts_ref.c.
 */
#include "kernel/avx512/avx512_int.h"
#include "kernel/kernel_int.h"

/* The bits of the largest |x| of k, a multiple of 32; as integers magnitudes are ordered like
 * the floats, with infinity and then the NaNs above all. */
IG_INLINE uint32_t largest_bits(const float *x, int64_t k)
{
    const __m512i magnitude = _mm512_set1_epi32(0x7fffffff);
    __m512i most[2] = {_mm512_setzero_si512(), _mm512_setzero_si512()};
    for (int64_t i = 0; i < k; i += IG_QBLOCK)
        for (int j = 0; j < 2; j++)
            most[j] = _mm512_max_epu32(
                most[j], _mm512_and_si512(_mm512_loadu_si512(x + i + 16 * j), magnitude));
    return _mm512_reduce_max_epu32(_mm512_max_epu32(most[0], most[1]));
}

/* What one scale for all of a column does to its values. */
typedef struct units {
    __m512 factor;
    __mmask16 kept; /* infinity times 0 is no number */
    float scale;
} units;

IG_INLINE units units_of(const float *x, int64_t k, float top)
{
    const uint32_t bits = largest_bits(x, k);
    float largest;
    __builtin_memcpy(&largest, &bits, 4);
    const bool is_bad = bits >= 0x7f800000, is_plain = !is_bad && largest >= IG_ACTS_TINY;
    return (units){
        .factor = _mm512_set1_ps(is_plain ? top / largest : 0.0f),
        .kept = is_plain ? 0xffff : 0,
        .scale = is_bad     ? __builtin_nanf("")
                 : is_plain ? largest / top
                            : 0.0f,
    };
}

/* 32 values as 16-bit integers in order, within -top .. top. */
IG_INLINE __m512i integers_of(const float *x, const units *u, const int top)
{
    const __m512i order = _mm512_set_epi64(7, 5, 3, 1, 6, 4, 2, 0);
    const __m512i a =
        _mm512_maskz_cvtps_epi32(u->kept, _mm512_mul_ps(_mm512_loadu_ps(x), u->factor));
    const __m512i b = _mm512_maskz_cvtps_epi32(
        u->kept, _mm512_mul_ps(_mm512_loadu_ps(x + 16), u->factor));
    const __m512i v = _mm512_permutexvar_epi64(order, _mm512_packs_epi32(a, b));
    return _mm512_min_epi16(_mm512_max_epi16(v, _mm512_set1_epi16((short)-top)),
                            _mm512_set1_epi16((short)top));
}

/* The sums of the first and the last 16 of 32 integers. */
IG_INLINE void sums_of(int32_t sum[2], __m512i v)
{
    __m512i s = _mm512_madd_epi16(v, _mm512_set1_epi16(1));
    s = _mm512_add_epi32(s, _mm512_shuffle_epi32(s, 0x4e));
    s = _mm512_add_epi32(s, _mm512_shuffle_epi32(s, 0xb1));
    s = _mm512_add_epi32(s, _mm512_shuffle_i32x4(s, s, 0xb1));
    sum[0] = _mm_cvtsi128_si32(_mm512_castsi512_si128(s));
    sum[1] = _mm_cvtsi128_si32(_mm512_extracti32x4_epi32(s, 2));
}

/* Column c of a tile of n <= IG_FEW. */
static void pack_q14_few(void *tile, const float *x, int64_t c, int64_t n, int64_t k)
{
    const int64_t n_blocks = k / IG_QBLOCK * n;
    int16_t *q = tile;
    int32_t *sum = (int32_t *)(void *)(q + n_blocks * IG_QBLOCK);
    const units u = units_of(x, k, 8191.0f);
    ((float *)(void *)(sum + 2 * n_blocks))[c] = u.scale;
    for (int64_t at = c; at < n_blocks; at += n, x += IG_QBLOCK) {
        const __m512i v = integers_of(x, &u, 8191);
        /* columns 4j .. 4j+3 in the order 0 2 1 3 */
        _mm512_storeu_si512(q + IG_QBLOCK * at,
                            _mm512_shufflehi_epi16(_mm512_shufflelo_epi16(v, 0xd8), 0xd8));
        sums_of(sum + 2 * at, v);
    }
}

/* The same of a tile of more: planes. */
static void pack_q14_planes(void *tile, const float *x, int64_t c, int64_t n, int64_t k)
{
    const int64_t plane = (k + 63) / 64 * 1024;
    const units u = units_of(x, k, 8191.0f);
    float *scale = (float *)(void *)((char *)tile + 3 * plane);
    char *at = (char *)tile + 64 * c;
    scale[c] = u.scale;
    for (int64_t b = 0; b < k / IG_QBLOCK; b++) {
        char *y = at + b / 2 * 1024 + b % 2 * 32;
        const __m512i v = _mm512_add_epi16(integers_of(x + IG_QBLOCK * b, &u, 8191),
                                           _mm512_set1_epi16(64));
        const __m256i hi = _mm512_cvtepi16_epi8(_mm512_srai_epi16(v, 7));
        const __m256i lo = _mm256_sub_epi8(
            _mm512_cvtepi16_epi8(_mm512_and_si512(v, _mm512_set1_epi16(127))),
            _mm256_set1_epi8(64));
        _mm256_storeu_si256((__m256i *)(void *)y, hi);
        _mm256_storeu_si256((__m256i *)(void *)(y + plane), lo);
        _mm256_storeu_si256((__m256i *)(void *)(y + 2 * plane), _mm256_add_epi8(hi, lo));
    }
    for (int64_t i = n; i < IG_TILE && c == n - 1; i++) { /* columns that are missing */
        scale[i] = 0.0f;
        for (int64_t j = 0; j < 3 * plane; j += 1024)
            _mm512_storeu_si512((char *)tile + 64 * i + j, _mm512_setzero_si512());
    }
}

/* Column c of a tile of n.   x [K] f32; K multiple of 32 */
void ig__avx512_pack_q14(void *tile, const float *x, int64_t c, int64_t n, int64_t k)
{
    if (n <= IG_FEW)
        pack_q14_few(tile, x, c, n, k);
    else
        pack_q14_planes(tile, x, c, n, k);
}

/* Column c of a tile of n: q [nb][n][2][32], sum [nb][n], halves [nb][n][2], scale [n].
 *   x [K] f32; K multiple of 32 */
void ig__avx512_pack_q16(void *tile, const float *x, int64_t c, int64_t n, int64_t k)
{
    const int64_t n_blocks = k / IG_QBLOCK * n;
    int8_t *q = tile;
    float *sum = (float *)(void *)(q + n_blocks * 64);
    float *halves = sum + n_blocks, *scale = halves + 2 * n_blocks;
    const units u = units_of(x, k, 32512.0f);
    scale[c] = u.scale;
    for (int64_t at = c; at < n_blocks; at += n, x += IG_QBLOCK) {
        const __m512i v = integers_of(x, &u, 32512);
        const __m512i hi =
            _mm512_srai_epi16(_mm512_add_epi16(v, _mm512_set1_epi16(128)), 8);
        int32_t s[2];
        _mm256_storeu_si256((__m256i *)(void *)(q + 64 * at), _mm512_cvtepi16_epi8(hi));
        _mm256_storeu_si256((__m256i *)(void *)(q + 64 * at + 32), _mm512_cvtepi16_epi8(v));
        sums_of(s, v);
        sum[at] = (float)(s[0] + s[1]);
        halves[2 * at] = (float)s[0];
        halves[2 * at + 1] = (float)s[1];
    }
}

/* bf16 bits in the upper halves of the lanes: round to nearest even, NaN stays NaN. */
IG_INLINE __m512i round_to_bf16(__m512 x)
{
    const __m512i bits = _mm512_castps_si512(x);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i rounded =
        _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    const __mmask16 is_nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    return _mm512_mask_or_epi32(rounded, is_nan, bits, _mm512_set1_epi32(0x400000));
}

/* Column c of a BF16 tile of n: [K/2][n][2].   x [K] f32; K multiple of 32 */
void ig__avx512_pack_bf16(void *tile, const float *x, int64_t c, int64_t n, int64_t k)
{
    char *y = (char *)tile + 4 * c;
    uint16_t pairs[16];
    for (int64_t i = 0; i < k; i += 16) {
        const __m512i bits = round_to_bf16(_mm512_loadu_ps(x + i));
        _mm256_storeu_si256((__m256i *)(void *)pairs,
                            _mm512_cvtepi32_epi16(_mm512_srli_epi32(bits, 16)));
        for (int j = 0; j < 8; j++, y += 4 * n)
            __builtin_memcpy(y, pairs + 2 * j, 4);
    }
}
