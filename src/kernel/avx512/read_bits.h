/* Packed bits to lines of unsigned bytes, as VPDPBUSD takes them: w[j], byte 4r+b is row r,
 * column 4j+b of 32 columns. The packed forms are in kernel.h.
 */
#ifndef INGOT_KERNEL_AVX512_READ_BITS_H
#define INGOT_KERNEL_AVX512_READ_BITS_H

#include "kernel/avx512/avx512_int.h"

/* p: 4 x 64 nibbles. Shifts are of 16 bits: the mask drops what crosses a byte. */
IG_INLINE void ig__read_nibbles(__m512i w[8], const uint8_t *p)
{
    const __m512i low = _mm512_set1_epi8(15);
    IG_UNROLL
    for (int j = 0; j < 4; j++) {
        const __m512i x = _mm512_loadu_si512(p + 64 * j);
        w[j] = _mm512_and_si512(x, low);
        w[4 + j] = _mm512_and_si512(_mm512_srli_epi16(x, 4), low);
    }
}

/* (a & b) | c */
IG_INLINE __m512i ig__and_or(__m512i a, __m512i b, __m512i c)
{
    return _mm512_ternarylogic_epi32(a, b, c, 0xea);
}

/* x << n for n >= 0, x >> -n below, in lanes of 16 bits. */
IG_INLINE __m512i ig__shift(__m512i x, const int n)
{
    return n >= 0 ? _mm512_slli_epi16(x, (unsigned)n) : _mm512_srli_epi16(x, (unsigned)-n);
}

#endif
