/* Q6_K: d [16] f16, 16 x 16 scales i8, then 8 x (256 bytes of
 * nibbles, 128 of upper bits) a block of 256; value d * sc * (q - 32), a scale each 16
 * columns. The product d * sc is exact in f32 (11 + 7 bits).
 */
#include "kernel/avx512/read_bits.h"

#define GEMM_Q16    ig__avx512_gemm_q16_q6_k
#define GEMM_X2     ig__avx512_gemm_x2_q6_k
#define EXPAND      ig__avx512_expand_q6_k
#define GEMM_F32    ig__avx512_gemm_f32_q6_k
#define BLOCK       256
#define BLOCK_BYTES 3360
#define SUMS        2
#define HAS_MIN     0
#define OFFSET      32

typedef struct head {
    __m512 d;
} head;

IG_INLINE head read_head(const uint8_t *p)
{
    return (head){ig__load_f16(p)};
}

IG_INLINE __m512 read_i8(const uint8_t *p)
{
    return _mm512_cvtepi32_ps(
        _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p)));
}

IG_INLINE void read_scales(__m512 *s, head h, const uint8_t *p, int i)
{
    s[0] = _mm512_mul_ps(h.d, read_i8(p + 32 + 32 * i));
    s[1] = _mm512_mul_ps(h.d, read_i8(p + 48 + 32 * i));
}

/* Bits 2j, 2j+1 of upper line h belong to w[4h + j]: move them to bits 4 and 5. */
IG_INLINE void read_weights(__m512i w[8], const uint8_t *p, int i)
{
    const uint8_t *bits = p + 288 + 384 * i;
    const __m512i mask = _mm512_set1_epi8(48);
    ig__read_nibbles(w, bits);
    IG_UNROLL
    for (int h = 0; h < 2; h++) {
        const __m512i upper = _mm512_loadu_si512(bits + 256 + 64 * h);
        IG_UNROLL
        for (int j = 0; j < 4; j++)
            w[4 * h + j] = ig__and_or(ig__shift(upper, 4 - 2 * j), mask, w[4 * h + j]);
    }
}

#include "kernel/avx512/gemm_q8.inc"
