/* Packing rows of a model file into groups of 16 rows.
 *
 * Packing moves 32-bit words. In every type, four values of one row that follow each other
 * in K share a word of the packed line, so a row of a block becomes a handful of words, and
 * word i of row r goes to word 16i + r of the block's lines:
 *
 *        file: row r, one block                     packed: lines of 64 bytes
 *   d | word 0 | word 1 | word 2 | word 3     ->    line 0: word 0 of rows 0, 1, .. 15
 *                                                   line 1: word 1 of rows 0, 1, .. 15
 *
 * For Q4_0, Q4_1 and Q5_0 the file pairs nibbles k and k+16 in a byte just as we do; the K
 * types pair k and k+32, and their halves are exchanged in whole words by masks. Q5_0's and
 * Q6_K's upper bits are gathered in a word likewise.
 *
 * A packed block is written whole, its 16 rows read side by side: 16 sequential streams.
 * Little endian, as GGUF is. The packer's speed is what loading a model costs after the
 * disk, so the row loops are plain and inlined by the type.
 */
#include "kernel/kernel.h"

#include <string.h>

#define ROW_INLINE static inline __attribute__((always_inline))

enum {
    NIBBLES_BYTES = 256, /* 32 columns of 16 rows at 4 bits */
    K_BLOCK = 256
};

ROW_INLINE uint32_t load_word(const uint8_t *p)
{
    uint32_t w;
    memcpy(&w, p, 4);
    return w;
}

/* Word i of row r of lines that start at p. */
ROW_INLINE void put_word(uint8_t *p, int i, int64_t r, uint32_t w)
{
    memcpy(p + 64 * i + 4 * r, &w, 4);
}

/* The f16 of row r in a line of 16. */
ROW_INLINE void put_half(uint8_t *p, int64_t r, const uint8_t *h)
{
    memcpy(p + 2 * r, h, 2);
}

/* Every `row_fn` below packs row r of one block: dst is the packed block of 16 rows, src
 * the row's block in the file. */
typedef void row_fn(uint8_t *dst, const uint8_t *src, int64_t r);

ROW_INLINE void row_q4_0(uint8_t *dst, const uint8_t *src, int64_t r)
{
    put_half(dst, r, src);
    for (int j = 0; j < 4; j++)
        put_word(dst + 32, j, r, load_word(src + 2 + 4 * j));
}

ROW_INLINE void row_q4_1(uint8_t *dst, const uint8_t *src, int64_t r)
{
    put_half(dst, r, src);
    put_half(dst + 32, r, src + 2);
    for (int j = 0; j < 4; j++)
        put_word(dst + 64, j, r, load_word(src + 4 + 4 * j));
}

/* Bit k = 4n + i of the file's 32 fifth bits (n 0..7, i 0..3) to bit n of byte i: the
 * transpose of 8 x 4 bits. For each i the eight bits, 4 apart, are folded together. */
ROW_INLINE uint32_t spread_fifth_bits(uint32_t qh)
{
    uint32_t w = 0;
    for (int i = 0; i < 4; i++) {
        uint32_t x = qh >> i & 0x11111111; /* bits 0, 4, 8 .. 28 */
        x = (x | x >> 3) & 0x03030303;     /* pairs at bits 0, 8, 16, 24 */
        x = (x | x >> 6) & 0x000f000f;     /* fours at 0, 16 */
        x = (x | x >> 12) & 0xff;          /* all eight */
        w |= x << 8 * i;
    }
    return w;
}

ROW_INLINE void row_q5_0(uint8_t *dst, const uint8_t *src, int64_t r)
{
    put_half(dst, r, src);
    for (int j = 0; j < 4; j++)
        put_word(dst + 32, j, r, load_word(src + 6 + 4 * j));
    put_word(dst + 32 + NIBBLES_BYTES, 0, r, spread_fifth_bits(load_word(src + 2)));
}

ROW_INLINE void row_q8_0(uint8_t *dst, const uint8_t *src, int64_t r)
{
    put_half(dst, r, src);
    for (int j = 0; j < 8; j++) /* + 128 is a flip of the sign bit */
        put_word(dst + 32, j, r, load_word(src + 2 + 4 * j) ^ 0x80808080);
}

/* 32 bytes whose low nibbles are one block of 32 columns and whose high nibbles are
 * another, to two blocks of nibbles. */
ROW_INLINE void split_nibbles(uint8_t *low, uint8_t *high, const uint8_t *src, int64_t r)
{
    for (int j = 0; j < 4; j++) {
        const uint32_t a = load_word(src + 4 * j);
        const uint32_t b = load_word(src + 16 + 4 * j);
        put_word(low, j, r, (a & 0x0f0f0f0f) | (b & 0x0f0f0f0f) << 4);
        put_word(high, j, r, (a >> 4 & 0x0f0f0f0f) | (b & 0xf0f0f0f0));
    }
}

ROW_INLINE void row_q4_k(uint8_t *dst, const uint8_t *src, int64_t r)
{
    const uint8_t *packed = src + 4; /* 8 scales and 8 mins of 6 bits in 12 bytes */
    uint8_t *scales = dst + 64 + r;
    uint8_t *mins = scales + 8 * IG_GROUP;
    uint8_t *nibbles = dst + 64 + 16 * IG_GROUP;
    put_half(dst, r, src);
    put_half(dst + 32, r, src + 2);
    for (int s = 0; s < 4; s++) {
        scales[s * IG_GROUP] = packed[s] & 63;
        mins[s * IG_GROUP] = packed[s + 4] & 63;
        scales[(s + 4) * IG_GROUP] =
            (uint8_t)((packed[s + 8] & 15) | (packed[s] >> 6) << 4);
        mins[(s + 4) * IG_GROUP] =
            (uint8_t)(packed[s + 8] >> 4 | (packed[s + 4] >> 6) << 4);
    }
    for (int g = 0; g < 4; g++)
        split_nibbles(nibbles + 2 * g * NIBBLES_BYTES,
                      nibbles + (2 * g + 1) * NIBBLES_BYTES, src + 16 + 32 * g, r);
}

/* Two bits of each byte of 8 words: block b of a half takes bits 2b, 2b+1; the upper bits
 * of columns 16h + 4j + i land in bits 2j, 2j+1 of byte i of word h. */
ROW_INLINE uint32_t gather_upper_bits(const uint8_t *qh, int b)
{
    uint32_t w = 0;
    for (int j = 0; j < 4; j++)
        w |= (load_word(qh + 4 * j) >> 2 * b & 0x03030303) << 2 * j;
    return w;
}

ROW_INLINE void row_q6_k(uint8_t *dst, const uint8_t *src, int64_t r)
{
    enum { STEP = NIBBLES_BYTES + 128 }; /* nibbles and upper bits of 32 columns */
    const uint8_t *scales = src + 192;
    uint8_t *blocks = dst + 32 + 16 * IG_GROUP;
    put_half(dst, r, src + 208);
    for (int s = 0; s < 16; s++)
        dst[32 + s * IG_GROUP + r] = scales[s];
    for (int half = 0; half < 2; half++) {
        const uint8_t *ql = src + 64 * half;
        const uint8_t *qh = src + 128 + 32 * half;
        uint8_t *to = blocks + 4 * half * STEP;
        split_nibbles(to, to + 2 * STEP, ql, r);
        split_nibbles(to + STEP, to + 3 * STEP, ql + 32, r);
        for (int b = 0; b < 4; b++)
            for (int h = 0; h < 2; h++)
                put_word(to + b * STEP + NIBBLES_BYTES, h, r,
                         gather_upper_bits(qh + 16 * h, b));
    }
}

ROW_INLINE void row_half(uint8_t *dst, const uint8_t *src, int64_t r) /* f16, bf16 */
{
    for (int p = 0; p < IG_QBLOCK / 2; p++)
        put_word(dst, p, r, load_word(src + 4 * p));
}

ROW_INLINE void row_f32(uint8_t *dst, const uint8_t *src, int64_t r)
{
    for (int k = 0; k < IG_QBLOCK; k++)
        put_word(dst, k, r, load_word(src + 4 * k));
}

/* All blocks of a group: block by block, the rows of each in turn. */
ROW_INLINE void pack_blocks(uint8_t *dst, size_t dst_step, const uint8_t *src,
                            size_t src_step, size_t row_bytes, int64_t n_rows,
                            int64_t n_blocks, row_fn *row)
{
    for (int64_t b = 0; b < n_blocks; b++, dst += dst_step, src += src_step) {
        if (n_rows < IG_GROUP)
            memset(dst, 0, dst_step);
        for (int64_t r = 0; r < n_rows; r++)
            row(dst, src + (size_t)r * row_bytes, r);
    }
}

ig__packing ig__packing_of(ig_dtype dtype)
{
    switch (dtype) {
    case IG_DTYPE_Q4_0:
        return (ig__packing){IG_QBLOCK, 32 + NIBBLES_BYTES};
    case IG_DTYPE_Q4_1:
        return (ig__packing){IG_QBLOCK, 64 + NIBBLES_BYTES};
    case IG_DTYPE_Q5_0:
        return (ig__packing){IG_QBLOCK, 32 + NIBBLES_BYTES + 64};
    case IG_DTYPE_Q8_0:
        return (ig__packing){IG_QBLOCK, 32 + 2 * NIBBLES_BYTES};
    case IG_DTYPE_Q4_K:
        return (ig__packing){K_BLOCK, 64 + 16 * IG_GROUP + 8 * NIBBLES_BYTES};
    case IG_DTYPE_Q6_K:
        return (ig__packing){K_BLOCK, 32 + 16 * IG_GROUP + 8 * (NIBBLES_BYTES + 128)};
    case IG_DTYPE_F16:
    case IG_DTYPE_BF16:
        return (ig__packing){IG_QBLOCK, IG_QBLOCK * IG_GROUP * 2};
    case IG_DTYPE_F32:
        return (ig__packing){IG_QBLOCK, IG_QBLOCK * IG_GROUP * 4};
    default:
        return (ig__packing){0, 0};
    }
}

size_t ig__packed_group_bytes(ig_dtype dtype, int64_t k)
{
    const ig__packing p = ig__packing_of(dtype);
    return p.block ? (size_t)(k / p.block) * p.block_bytes : 0;
}

void ig__pack_group(void *group, ig_dtype dtype, const void *rows, size_t row_bytes,
                    int64_t n_rows, int64_t k)
{
    const ig__packing p = ig__packing_of(dtype);
    const int64_t n_blocks = p.block ? k / p.block : 0;
    switch (dtype) {
    case IG_DTYPE_Q4_0:
        pack_blocks(group, p.block_bytes, rows, 18, row_bytes, n_rows, n_blocks, row_q4_0);
        break;
    case IG_DTYPE_Q4_1:
        pack_blocks(group, p.block_bytes, rows, 20, row_bytes, n_rows, n_blocks, row_q4_1);
        break;
    case IG_DTYPE_Q5_0:
        pack_blocks(group, p.block_bytes, rows, 22, row_bytes, n_rows, n_blocks, row_q5_0);
        break;
    case IG_DTYPE_Q8_0:
        pack_blocks(group, p.block_bytes, rows, 34, row_bytes, n_rows, n_blocks, row_q8_0);
        break;
    case IG_DTYPE_Q4_K:
        pack_blocks(group, p.block_bytes, rows, 144, row_bytes, n_rows, n_blocks, row_q4_k);
        break;
    case IG_DTYPE_Q6_K:
        pack_blocks(group, p.block_bytes, rows, 210, row_bytes, n_rows, n_blocks, row_q6_k);
        break;
    case IG_DTYPE_F16:
    case IG_DTYPE_BF16:
        pack_blocks(group, p.block_bytes, rows, 2 * IG_QBLOCK, row_bytes, n_rows, n_blocks,
                    row_half);
        break;
    case IG_DTYPE_F32:
        pack_blocks(group, p.block_bytes, rows, 4 * IG_QBLOCK, row_bytes, n_rows, n_blocks,
                    row_f32);
        break;
    default:
        break;
    }
}
