/* Q5_0: d [16] f16, 256 bytes of nibbles and 64 of fifth bits a
 * block; value d * (q - 16).
 */
#include "kernel/avx512/read_bits.h"

#define GEMM_Q16    ig__avx512_gemm_q16_q5_0
#define GEMM_X2     ig__avx512_gemm_x2_q5_0
#define EXPAND      ig__avx512_expand_q5_0
#define GEMM_F32    ig__avx512_gemm_f32_q5_0
#define BLOCK       32
#define BLOCK_BYTES 352
#define SUMS        1
#define HAS_MIN     0
#define OFFSET      16

typedef struct head {
    __m512 d;
} head;

IG_INLINE head read_head(const uint8_t *p)
{
    return (head){ig__load_f16(p)};
}

IG_INLINE void read_scales(__m512 *s, head h, const uint8_t *p, int i)
{
    (void)p, (void)i;
    s[0] = h.d;
}

/* Bit j of a fifth-bits byte belongs to w[j]: move it to bit 4. */
IG_INLINE void read_weights(__m512i w[8], const uint8_t *p, int i)
{
    (void)i;
    const __m512i fifth = _mm512_loadu_si512(p + 288);
    const __m512i bit4 = _mm512_set1_epi8(16);
    ig__read_nibbles(w, p + 32);
    IG_UNROLL
    for (int j = 0; j < 8; j++)
        w[j] = ig__and_or(ig__shift(fifth, 4 - j), bit4, w[j]);
}

#include "kernel/avx512/gemm_q8.inc"
