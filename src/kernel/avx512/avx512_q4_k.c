/* Q4_K: d [16] f16, dmin [16] f16, 8 x 16 scales and 8 x 16 mins of a
 * byte, then 8 x 256 bytes of nibbles a block of 256; value d * sc * q - dmin * mn. The
 * products d * sc and -(dmin * mn) are exact in f32 (11 + 6 bits).
 */
#include "kernel/avx512/read_bits.h"

#define GEMM_Q16    ig__avx512_gemm_q16_q4_k
#define GEMM_X2     ig__avx512_gemm_x2_q4_k
#define EXPAND      ig__avx512_expand_q4_k
#define GEMM_F32    ig__avx512_gemm_f32_q4_k
#define BLOCK       256
#define BLOCK_BYTES 2368
#define SUMS        1
#define HAS_MIN     1
#define OFFSET      0

typedef struct head {
    __m512 d, minus_dmin;
} head;

IG_INLINE head read_head(const uint8_t *p)
{
    const __m512 dmin = ig__load_f16(p + 32);
    return (head){ig__load_f16(p), _mm512_sub_ps(_mm512_set1_ps(-0.0f), dmin)};
}

IG_INLINE __m512 read_u8(const uint8_t *p)
{
    return _mm512_cvtepi32_ps(
        _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p)));
}

IG_INLINE void read_scales(__m512 *s, head h, const uint8_t *p, int i)
{
    s[0] = _mm512_mul_ps(h.d, read_u8(p + 64 + 16 * i));
    s[1] = _mm512_mul_ps(h.minus_dmin, read_u8(p + 192 + 16 * i));
}

IG_INLINE void read_weights(__m512i w[8], const uint8_t *p, int i)
{
    ig__read_nibbles(w, p + 320 + 256 * i);
}

#include "kernel/avx512/gemm_q8.inc"
