/* Packed weights in ymm registers: 16 rows are two registers of 8, a line of four columns
 * holds in lane r the bytes of row r.
 *
 *   line j, rows 0..7   | k=4j 4j+1 4j+2 4j+3 of row 0 | ... of row 1 | ... | of row 7 |
 *
 * A block of 32 columns is 8 such lines of unsigned bytes, decoded either two pairs at a
 * time into registers (one column of activations) or as a whole into a panel (many).
 * Every function is inlined with a constant dtype, so each instance is straight code.
 */
#ifndef INGOT_KERNEL_AVX2_WEIGHTS_AVX2_H
#define INGOT_KERNEL_AVX2_WEIGHTS_AVX2_H

#include "kernel/kernel_int.h"

#include <immintrin.h>
#include <string.h>

#define IG_INLINE static inline __attribute__((always_inline))

/* 32 columns of 16 rows, expanded. Aligned to 64. */
typedef struct ig__panel {
    uint8_t w[8][64]; /* line l, byte 4r+i: column 4l+i of row r, as an unsigned code */
    float d[16];      /* of rows; Q4_K: d * sc */
    float m[2][16];   /* [0]: what is added, Q4_1: m, Q4_K: -(dmin * mn); Q6_K: the scales
                         of the two halves; not set for the others */
} ig__panel;

/* Lines j and j + 4. */
typedef struct ig__line_pair {
    __m256i low[2], high[2]; /* [h]: rows 8h .. 8h+7 */
} ig__line_pair;

IG_INLINE __m256i ig__load(const void *p)
{
    return _mm256_loadu_si256(p);
}

/* Four bytes to all lanes. */
IG_INLINE __m256i ig__broadcast_word(const void *p)
{
    int32_t w;
    memcpy(&w, p, 4);
    return _mm256_set1_epi32(w);
}

/* What a code is above its value. */
IG_INLINE int32_t ig__code_offset(ig_dtype dtype)
{
    switch (dtype) {
    case IG_DTYPE_Q4_0:
        return 8;
    case IG_DTYPE_Q5_0:
        return 16;
    case IG_DTYPE_Q8_0:
        return 128;
    case IG_DTYPE_Q6_K:
        return 32;
    default:
        return 0;
    }
}

IG_INLINE bool ig__has_min(ig_dtype dtype)
{
    return dtype == IG_DTYPE_Q4_1 || dtype == IG_DTYPE_Q4_K;
}

/* Where the lines of 32 columns begin: block b of the group, of 32 columns. */
IG_INLINE const uint8_t *ig__lines_at(ig_dtype dtype, const uint8_t *group, int64_t b)
{
    switch (dtype) {
    case IG_DTYPE_Q4_0:
        return group + b * 288 + 32;
    case IG_DTYPE_Q4_1:
        return group + b * 320 + 64;
    case IG_DTYPE_Q5_0:
        return group + b * 352 + 32;
    case IG_DTYPE_Q8_0:
        return group + b * 544 + 32;
    case IG_DTYPE_Q4_K:
        return group + b / 8 * 2368 + 320 + b % 8 * 256;
    default: /* Q6_K */
        return group + b / 8 * 3360 + 288 + b % 8 * 384;
    }
}

IG_INLINE ig__line_pair ig__decode_pair(ig_dtype dtype, const uint8_t *lines, int j)
{
    const __m256i nibble = _mm256_set1_epi8(15);
    ig__line_pair pair;
    for (int h = 0; h < 2; h++) {
        const uint8_t *p = lines + 64 * j + 32 * h;
        if (dtype == IG_DTYPE_Q8_0) {
            pair.low[h] = ig__load(p);
            pair.high[h] = ig__load(p + 256);
            continue;
        }
        const __m256i both = ig__load(p);
        pair.low[h] = _mm256_and_si256(both, nibble);
        pair.high[h] = _mm256_and_si256(_mm256_srli_epi16(both, 4), nibble);
        if (dtype == IG_DTYPE_Q5_0) { /* bits j and 4+j of the bytes, to bit 4 */
            const __m256i bit = _mm256_set1_epi8(16);
            const __m256i fifth = ig__load(lines + 256 + 32 * h);
            const __m256i low = _mm256_slli_epi16(fifth, 4 - j);
            const __m256i high = _mm256_srli_epi16(fifth, j);
            pair.low[h] = _mm256_or_si256(pair.low[h], _mm256_and_si256(low, bit));
            pair.high[h] = _mm256_or_si256(pair.high[h], _mm256_and_si256(high, bit));
        }
        if (dtype == IG_DTYPE_Q6_K) { /* bits 2j, 2j+1 of two lines, to bits 4, 5 */
            const __m256i bits = _mm256_set1_epi8(48);
            __m256i low = ig__load(lines + 256 + 32 * h);
            __m256i high = ig__load(lines + 320 + 32 * h);
            low = j < 2 ? _mm256_slli_epi16(low, 4 - 2 * j)
                        : _mm256_srli_epi16(low, 2 * j - 4);
            high = j < 2 ? _mm256_slli_epi16(high, 4 - 2 * j)
                         : _mm256_srli_epi16(high, 2 * j - 4);
            pair.low[h] = _mm256_or_si256(pair.low[h], _mm256_and_si256(low, bits));
            pair.high[h] = _mm256_or_si256(pair.high[h], _mm256_and_si256(high, bits));
        }
    }
    return pair;
}

/* 8 halves, as f32. */
IG_INLINE __m256 ig__load_half(const void *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128(p));
}

/* 8 bytes, as f32. */
IG_INLINE __m256 ig__load_u8(const void *p)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64(p)));
}

IG_INLINE __m256 ig__load_i8(const void *p)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(p)));
}

/* The scales of rows 8h .. 8h+7 for block b, as in a panel. */
typedef struct ig__scales {
    __m256 d, m[2];
} ig__scales;

IG_INLINE ig__scales ig__decode_scales(ig_dtype dtype, const uint8_t *group, int64_t b,
                                       int h)
{
    ig__scales s = {.d = _mm256_setzero_ps()};
    const uint8_t *block = ig__lines_at(dtype, group, b);
    const int64_t i = b % 8;
    switch (dtype) {
    case IG_DTYPE_Q4_1:
        s.d = ig__load_half(block - 64 + 16 * h);
        s.m[0] = ig__load_half(block - 32 + 16 * h);
        break;
    case IG_DTYPE_Q4_K: { /* d 16 f16 | dmin 16 f16 | scales 8 x 16 | mins 8 x 16 */
        const uint8_t *p = block - 320 - i * 256;
        s.d =
            _mm256_mul_ps(ig__load_half(p + 16 * h), ig__load_u8(p + 64 + 16 * i + 8 * h));
        s.m[0] = _mm256_mul_ps(ig__load_half(p + 32 + 16 * h),
                               ig__load_u8(p + 192 + 16 * i + 8 * h));
        s.m[0] = _mm256_xor_ps(s.m[0], _mm256_set1_ps(-0.0f));
        break;
    }
    case IG_DTYPE_Q6_K: { /* d 16 f16 | scales 16 x 16 */
        const uint8_t *p = block - 288 - i * 384;
        s.d = ig__load_half(p + 16 * h);
        s.m[0] = ig__load_i8(p + 32 + 32 * i + 8 * h);
        s.m[1] = ig__load_i8(p + 48 + 32 * i + 8 * h);
        break;
    }
    default:
        s.d = ig__load_half(block - 32 + 16 * h);
        break;
    }
    return s;
}

/* Block b of a group as a panel; each byte is xored with `flip`. */
IG_INLINE void ig__expand_block(ig__panel *panel, ig_dtype dtype, const uint8_t *group,
                                int64_t b, uint8_t flip)
{
    const uint8_t *lines = ig__lines_at(dtype, group, b);
    const __m256i mask = _mm256_set1_epi8((char)flip);
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) {
        const ig__line_pair pair = ig__decode_pair(dtype, lines, j);
        for (int h = 0; h < 2; h++) {
            _mm256_store_si256((__m256i *)(void *)(panel->w[j] + 32 * h),
                               _mm256_xor_si256(pair.low[h], mask));
            _mm256_store_si256((__m256i *)(void *)(panel->w[j + 4] + 32 * h),
                               _mm256_xor_si256(pair.high[h], mask));
        }
    }
    for (int h = 0; h < 2; h++) {
        const ig__scales s = ig__decode_scales(dtype, group, b, h);
        _mm256_store_ps(panel->d + 8 * h, s.d);
        if (ig__has_min(dtype) || dtype == IG_DTYPE_Q6_K)
            _mm256_store_ps(panel->m[0] + 8 * h, s.m[0]);
        if (dtype == IG_DTYPE_Q6_K)
            _mm256_store_ps(panel->m[1] + 8 * h, s.m[1]);
    }
}

#endif
