/* Q4_0: d [16] f16 and 256 bytes of nibbles a block; value d * (q -
 * 8).
 */
#include "kernel/avx512/read_bits.h"

#define GEMM_Q16    ig__avx512_gemm_q16_q4_0
#define GEMM_X2     ig__avx512_gemm_x2_q4_0
#define EXPAND      ig__avx512_expand_q4_0
#define GEMM_F32    ig__avx512_gemm_f32_q4_0
#define BLOCK       32
#define BLOCK_BYTES 288
#define SUMS        1
#define HAS_MIN     0
#define OFFSET      8

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

IG_INLINE void read_weights(__m512i w[8], const uint8_t *p, int i)
{
    (void)i;
    ig__read_nibbles(w, p + 32);
}

#include "kernel/avx512/gemm_q8.inc"
