/* Q8_0: d [16] f16 and 512 bytes a block, each the value + 128.
 */
#include "kernel/avx512/read_bits.h"

#define GEMM_Q16    ig__avx512_gemm_q16_q8_0
#define GEMM_X2     ig__avx512_gemm_x2_q8_0
#define EXPAND      ig__avx512_expand_q8_0
#define GEMM_F32    ig__avx512_gemm_f32_q8_0
#define BLOCK       32
#define BLOCK_BYTES 544
#define SUMS        1
#define HAS_MIN     0
#define OFFSET      128

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
    IG_UNROLL
    for (int j = 0; j < 8; j++)
        w[j] = _mm512_loadu_si512(p + 32 + 64 * j);
}

#include "kernel/avx512/gemm_q8.inc"
