/* Packing activations, four blocks of 32 at a time: their horizontal maxima and sums come
 * out of one transposing reduction instead of four. The bits are those of acts_ref.c.
 */
#include "kernel/avx512/avx512_int.h"
#include "kernel/kernel_int.h"

enum { SIDE = 4 }; /* blocks side by side */

/* Lane i of every four: the largest lane of m[i], as unsigned integers. */
IG_INLINE __m512i largest_lanes(const __m512i m[SIDE])
{
    const __m512i a = _mm512_max_epu32(_mm512_unpacklo_epi32(m[0], m[1]),
                                       _mm512_unpackhi_epi32(m[0], m[1]));
    const __m512i b = _mm512_max_epu32(_mm512_unpacklo_epi32(m[2], m[3]),
                                       _mm512_unpackhi_epi32(m[2], m[3]));
    __m512i r = _mm512_max_epu32(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
    r = _mm512_max_epu32(r, _mm512_shuffle_i32x4(r, r, 0x4e));
    return _mm512_max_epu32(r, _mm512_shuffle_i32x4(r, r, 0xb1));
}

/* Two blocks of 32 integers, saturated to -127 .. 127, as 64 bytes in order. */
IG_INLINE __m512i bytes_of(const __m512i v[4])
{
    /* Packing works within lanes of 128 bits: the fours come out as 0 4 8 c | 1 5 9 d | .. */
    const __m512i order =
        _mm512_set_epi32(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0);
    const __m512i a = _mm512_packs_epi32(v[0], v[1]);
    const __m512i b = _mm512_packs_epi32(v[2], v[3]);
    return _mm512_max_epi8(_mm512_permutexvar_epi32(order, _mm512_packs_epi16(a, b)),
                           _mm512_set1_epi8(-127));
}

/* Lane i of every four to all lanes. */
IG_INLINE __m512 spread(__m128 v, const int i)
{
    const __m512 fours = _mm512_broadcast_f32x4(v);
    switch (i) {
    case 0:
        return _mm512_permute_ps(fours, 0x00);
    case 1:
        return _mm512_permute_ps(fours, 0x55);
    case 2:
        return _mm512_permute_ps(fours, 0xaa);
    default:
        return _mm512_permute_ps(fours, 0xff);
    }
}

/* The sums of bytes 16i .. 16i+15, in every lane of four i. */
IG_INLINE __m512i sums_of_16(__m512i bytes)
{
    const __m512i pairs = _mm512_maddubs_epi16(_mm512_set1_epi8(1), bytes);
    __m512i s = _mm512_madd_epi16(pairs, _mm512_set1_epi16(1));
    s = _mm512_add_epi32(s, _mm512_shuffle_epi32(s, 0x4e));
    return _mm512_add_epi32(s, _mm512_shuffle_epi32(s, 0xb1));
}

/* The parts of a Q8X2 tile, to be written. */
typedef struct places {
    int8_t *q;     /* [nb][n][2][32] */
    float *scale;  /* [nb][n] */
    float *sum;    /* [nb][n] */
    int32_t *isum; /* [nb][n][2][2] */
} places;

/* Four blocks' lanes, of which `count` exist, to places n apart. */
IG_INLINE void scatter(float *y, __m128 v, int64_t n, int count)
{
    float lanes[SIDE];
    _mm_storeu_ps(lanes, v);
    for (int i = 0; i < count; i++)
        y[n * i] = lanes[i];
}

/* One term of four blocks: bytes to q + step * i, sums by halves to isum + sum_step * i.
 * Returns the blocks' sums. */
IG_INLINE __m128i put_term(int8_t *q, int64_t step, int32_t *isum, int64_t sum_step,
                           const __m512i v[2 * SIDE], int count)
{
    const __m512i y0 = bytes_of(v), y1 = bytes_of(v + 4);
    const __m256i y[SIDE] = {_mm512_castsi512_si256(y0), _mm512_extracti64x4_epi64(y0, 1),
                             _mm512_castsi512_si256(y1), _mm512_extracti64x4_epi64(y1, 1)};
    const __m256i halves = _mm512_castsi512_si256(_mm512_permutex2var_epi32(
        sums_of_16(y0),
        _mm512_castsi256_si512(_mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28)),
        sums_of_16(y1)));
    int32_t of_halves[2 * SIDE];
    _mm256_storeu_si256((__m256i *)(void *)of_halves, halves);
    IG_UNROLL
    for (int i = 0; i < SIDE; i++)
        if (i < count) {
            _mm256_storeu_si256((__m256i *)(void *)(q + step * i), y[i]);
            __builtin_memcpy(isum + sum_step * i, of_halves + 2 * i, 8);
        }
    return _mm_hadd_epi32(_mm256_castsi256_si128(halves),
                          _mm256_extracti128_si256(halves, 1));
}

/* Blocks at, at + n, .. of a tile: count of them (1..SIDE) from x. */
IG_INLINE void pack_blocks(const places *t, const float *x, int64_t at, int64_t n,
                           int count)
{
    const __m512i magnitude = _mm512_set1_epi32(0x7fffffff);
    int8_t *q = t->q + 64 * at;
    int32_t *isum = t->isum + 4 * at;
    __m512 v[2 * SIDE];
    __m512i most[SIDE];
    IG_UNROLL
    for (int i = 0; i < SIDE; i++) {
        v[2 * i] = i < count ? _mm512_loadu_ps(x + 32 * i) : _mm512_setzero_ps();
        v[2 * i + 1] = i < count ? _mm512_loadu_ps(x + 32 * i + 16) : _mm512_setzero_ps();
        most[i] = _mm512_max_epu32(
            _mm512_and_si512(_mm512_castps_si512(v[2 * i]), magnitude),
            _mm512_and_si512(_mm512_castps_si512(v[2 * i + 1]), magnitude));
    }
    /* As integers magnitudes are ordered like the floats, with infinity and then the NaNs
     * above all. */
    const __m512i most4 = largest_lanes(most);
    const __m128i bits = _mm512_castsi512_si128(most4);
    const __m128 largest = _mm_castsi128_ps(bits);
    const __mmask8 is_bad =
        _mm_cmp_epu32_mask(bits, _mm_set1_epi32(0x7f800000), _MM_CMPINT_NLT);
    const __mmask8 is_there = _mm_mask_cmp_ps_mask((__mmask8)(15 & ~is_bad), largest,
                                                   _mm_set1_ps(IG_ACTS_TINY), _CMP_GE_OQ);
    if (is_bad) {
        IG_UNROLL
        for (int i = 0; i < SIDE; i++)
            if (is_bad >> i & 1)
                v[2 * i] = v[2 * i + 1] = _mm512_setzero_ps();
    }
    const __m128 c127 = _mm_set1_ps(127.0f);
    const __m128 factor = _mm_maskz_div_ps(is_there, c127, largest);
    const __m128 unit = _mm_maskz_div_ps(is_there, largest, c127);
    __m512i hi[2 * SIDE];
    IG_UNROLL
    for (int i = 0; i < 2 * SIDE; i++)
        hi[i] = _mm512_cvtps_epi32(_mm512_mul_ps(v[i], spread(factor, i / 2)));
    const __m128i whole = put_term(q, 64 * n, isum, 4 * n, hi, count);
    const __m128 factor16 = _mm_mul_ps(factor, _mm_set1_ps(16.0f));
    __m512i lo[2 * SIDE];
    IG_UNROLL
    for (int i = 0; i < 2 * SIDE; i++) {
        const __m512 rest =
            _mm512_fnmadd_ps(spread(unit, i / 2), _mm512_cvtepi32_ps(hi[i]), v[i]);
        lo[i] = _mm512_cvtps_epi32(_mm512_mul_ps(rest, spread(factor16, i / 2)));
    }
    const __m128i both = _mm_add_epi32(
        _mm_slli_epi32(whole, 4), put_term(q + 32, 64 * n, isum + 2, 4 * n, lo, count));
    const __m128 fine = _mm_mul_ps(unit, _mm_set1_ps(0x1p-4f));
    const __m128 scale = _mm_mask_blend_ps(is_bad, fine, _mm_set1_ps(__builtin_nanf("")));
    scatter(t->scale + at, scale, n, count);
    scatter(t->sum + at, _mm_mul_ps(scale, _mm_cvtepi32_ps(both)), n, count);
}

/* Column c of a tile of n: q [nb][n][2][32], scale and sum [nb][n], isum [nb][n][2][2].
 *   x [K] f32; K multiple of 32 */
void ig__avx512_pack_q8x2(void *tile, const float *x, int64_t c, int64_t n, int64_t k)
{
    const int64_t nb = k / IG_QBLOCK;
    char *p = tile;
    const places t = {
        .q = tile,
        .scale = (float *)(void *)(p + nb * n * 64),
        .sum = (float *)(void *)(p + nb * n * 68),
        .isum = (int32_t *)(void *)(p + nb * n * 72),
    };
    int64_t b = 0;
    for (; b + SIDE <= nb; b += SIDE)
        pack_blocks(&t, x + IG_QBLOCK * b, b * n + c, n, SIDE);
    if (b < nb)
        pack_blocks(&t, x + IG_QBLOCK * b, b * n + c, n, (int)(nb - b));
}

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

/* Column c of a tile of n: q [nb][n][2][32], sum [nb][n], halves [nb][n][2], scale [n].
 *   x [K] f32; K multiple of 32 */
void ig__avx512_pack_q16(void *tile, const float *x, int64_t c, int64_t n, int64_t k)
{
    const int64_t n_blocks = k / IG_QBLOCK * n;
    int8_t *q = tile;
    float *sum = (float *)(void *)(q + n_blocks * 64);
    float *halves = sum + n_blocks, *scale = halves + 2 * n_blocks;
    const uint32_t bits = largest_bits(x, k);
    float largest;
    __builtin_memcpy(&largest, &bits, 4);
    const bool is_bad = bits >= 0x7f800000, is_plain = !is_bad && largest >= IG_ACTS_TINY;
    scale[c] = is_bad ? __builtin_nanf("") : is_plain ? largest / 32512.0f : 0.0f;
    const __m512 factor = _mm512_set1_ps(is_plain ? 32512.0f / largest : 0.0f);
    const __mmask16 kept = is_plain ? 0xffff : 0; /* infinity times 0 is no number */
    const __m512i order = _mm512_set_epi64(7, 5, 3, 1, 6, 4, 2, 0);
    for (int64_t at = c; at < n_blocks; at += n, x += IG_QBLOCK) {
        const __m512i a =
            _mm512_maskz_cvtps_epi32(kept, _mm512_mul_ps(_mm512_loadu_ps(x), factor));
        const __m512i b =
            _mm512_maskz_cvtps_epi32(kept, _mm512_mul_ps(_mm512_loadu_ps(x + 16), factor));
        /* 32 words in order, then their sums in lanes: 8 of each half */
        __m512i v = _mm512_permutexvar_epi64(order, _mm512_packs_epi32(a, b));
        v = _mm512_min_epi16(_mm512_max_epi16(v, _mm512_set1_epi16(-32512)),
                             _mm512_set1_epi16(32512));
        const __m512i hi =
            _mm512_srai_epi16(_mm512_add_epi16(v, _mm512_set1_epi16(128)), 8);
        _mm256_storeu_si256((__m256i *)(void *)(q + 64 * at), _mm512_cvtepi16_epi8(hi));
        _mm256_storeu_si256((__m256i *)(void *)(q + 64 * at + 32), _mm512_cvtepi16_epi8(v));
        __m512i s = _mm512_madd_epi16(v, _mm512_set1_epi16(1));
        s = _mm512_add_epi32(s, _mm512_shuffle_epi32(s, 0x4e));
        s = _mm512_add_epi32(s, _mm512_shuffle_epi32(s, 0xb1));
        s = _mm512_add_epi32(s, _mm512_shuffle_i32x4(s, s, 0xb1));
        const int32_t s0 = _mm_cvtsi128_si32(_mm512_castsi512_si128(s));
        const int32_t s1 = _mm_cvtsi128_si32(_mm512_extracti32x4_epi32(s, 2));
        sum[at] = (float)(s0 + s1);
        halves[2 * at] = (float)s0;
        halves[2 * at + 1] = (float)s1;
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
