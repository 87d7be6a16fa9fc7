/* Reading packed weights back, one row at a time: the definition of the packed layouts,
 * written for reading. Every other reader of weights is compared with this one.
 */
#include "kernel/kernel_int.h"

#include <string.h>

static float half_at(const uint8_t *p, int64_t r)
{
    uint16_t h;
    memcpy(&h, p + 2 * r, 2);
    return ig__f16_to_f32(h);
}

/* The 4-bit value of column k (0..31) of row r in the four lines at p. */
static int32_t nibble(const uint8_t *p, int64_t r, int k)
{
    const uint8_t byte = p[64 * (k % 16 / 4) + 4 * r + k % 4];
    return k < 16 ? byte & 15 : byte >> 4;
}

static int32_t fifth_bit(const uint8_t *line, int64_t r, int k)
{
    return line[4 * r + k % 4] >> k / 4 & 1;
}

static int32_t upper_bits(const uint8_t *lines, int64_t r, int k)
{
    return lines[64 * (k / 16) + 4 * r + k % 4] >> 2 * (k % 16 / 4) & 3;
}

static void codes_q4(ig__codes *codes, const uint8_t *block, int64_t r, bool has_min)
{
    codes->d[0] = codes->d[1] = half_at(block, r);
    codes->m = has_min ? half_at(block + 32, r) : 0.0f;
    for (int k = 0; k < IG_QBLOCK; k++)
        codes->q[k] = nibble(block + (has_min ? 64 : 32), r, k) - (has_min ? 0 : 8);
}

static void codes_q5_0(ig__codes *codes, const uint8_t *block, int64_t r)
{
    codes->d[0] = codes->d[1] = half_at(block, r);
    codes->m = 0.0f;
    for (int k = 0; k < IG_QBLOCK; k++)
        codes->q[k] = nibble(block + 32, r, k) + 16 * fifth_bit(block + 288, r, k) - 16;
}

static void codes_q8_0(ig__codes *codes, const uint8_t *block, int64_t r)
{
    codes->d[0] = codes->d[1] = half_at(block, r);
    codes->m = 0.0f;
    for (int k = 0; k < IG_QBLOCK; k++)
        codes->q[k] = block[32 + 64 * (k / 4) + 4 * r + k % 4] - 128;
}

/* s: which 32 of the block's 256 columns. */
static void codes_q4_k(ig__codes *codes, const uint8_t *block, int64_t r, int64_t s)
{
    const uint8_t *scales = block + 64;
    const uint8_t *mins = scales + 128;
    const uint8_t *nibbles = mins + 128 + 256 * s;
    codes->d[0] = codes->d[1] = half_at(block, r) * (float)scales[16 * s + r];
    codes->m = -(half_at(block + 32, r) * (float)mins[16 * s + r]);
    for (int k = 0; k < IG_QBLOCK; k++)
        codes->q[k] = nibble(nibbles, r, k);
}

static void codes_q6_k(ig__codes *codes, const uint8_t *block, int64_t r, int64_t s)
{
    const uint8_t *scales = block + 32;
    const uint8_t *nibbles = scales + 256 + (256 + 128) * s;
    for (int h = 0; h < 2; h++)
        codes->d[h] = half_at(block, r) * (float)(int8_t)scales[16 * (2 * s + h) + r];
    codes->m = 0.0f;
    for (int k = 0; k < IG_QBLOCK; k++)
        codes->q[k] = nibble(nibbles, r, k) + 16 * upper_bits(nibbles + 256, r, k) - 32;
}

void ig__unpack_codes(ig__codes *codes, ig_dtype dtype, const void *group, int64_t r,
                      int64_t b)
{
    const ig__packing p = ig__packing_of(dtype);
    const int64_t per_block = p.block / IG_QBLOCK;
    const uint8_t *block = (const uint8_t *)group + (size_t)(b / per_block) * p.block_bytes;
    const int64_t s = b % per_block;
    switch (dtype) {
    case IG_DTYPE_Q4_0:
        codes_q4(codes, block, r, false);
        break;
    case IG_DTYPE_Q4_1:
        codes_q4(codes, block, r, true);
        break;
    case IG_DTYPE_Q5_0:
        codes_q5_0(codes, block, r);
        break;
    case IG_DTYPE_Q8_0:
        codes_q8_0(codes, block, r);
        break;
    case IG_DTYPE_Q4_K:
        codes_q4_k(codes, block, r, s);
        break;
    default:
        codes_q6_k(codes, block, r, s);
        break;
    }
}

/* d * q + m: the product is rounded once (it is exact for all but Q6_K), the sum once. */
static void unpack_quantised(float *y, ig_dtype dtype, const void *group, int64_t r,
                             int64_t k)
{
    for (int64_t b = 0; b < k / IG_QBLOCK; b++) {
        ig__codes codes;
        ig__unpack_codes(&codes, dtype, group, r, b);
        for (int i = 0; i < IG_QBLOCK; i++)
            y[b * IG_QBLOCK + i] = codes.d[i / 16] * (float)codes.q[i] + codes.m;
    }
}

static void unpack_q4_0(float *y, const void *group, int64_t r, int64_t k)
{
    unpack_quantised(y, IG_DTYPE_Q4_0, group, r, k);
}

static void unpack_q4_1(float *y, const void *group, int64_t r, int64_t k)
{
    unpack_quantised(y, IG_DTYPE_Q4_1, group, r, k);
}

static void unpack_q5_0(float *y, const void *group, int64_t r, int64_t k)
{
    unpack_quantised(y, IG_DTYPE_Q5_0, group, r, k);
}

static void unpack_q8_0(float *y, const void *group, int64_t r, int64_t k)
{
    unpack_quantised(y, IG_DTYPE_Q8_0, group, r, k);
}

static void unpack_q4_k(float *y, const void *group, int64_t r, int64_t k)
{
    unpack_quantised(y, IG_DTYPE_Q4_K, group, r, k);
}

static void unpack_q6_k(float *y, const void *group, int64_t r, int64_t k)
{
    unpack_quantised(y, IG_DTYPE_Q6_K, group, r, k);
}

static void unpack_f16(float *y, const void *group, int64_t r, int64_t k)
{
    const uint16_t *w = group; /* [K/2][16][2] */
    for (int64_t i = 0; i < k; i++)
        y[i] = ig__f16_to_f32(w[i / 2 * 32 + 2 * r + i % 2]);
}

static void unpack_bf16(float *y, const void *group, int64_t r, int64_t k)
{
    const uint16_t *w = group; /* [K/2][16][2] */
    for (int64_t i = 0; i < k; i++)
        y[i] = ig__bf16_to_f32(w[i / 2 * 32 + 2 * r + i % 2]);
}

static void unpack_f32(float *y, const void *group, int64_t r, int64_t k)
{
    const float *w = group; /* [K][16] */
    for (int64_t i = 0; i < k; i++)
        y[i] = w[16 * i + r];
}

typedef void unpack_fn(float *y, const void *group, int64_t r, int64_t k);

static unpack_fn *const by_type[IG_DTYPE_COUNT] = {
    [IG_DTYPE_Q4_0] = unpack_q4_0, [IG_DTYPE_Q4_1] = unpack_q4_1,
    [IG_DTYPE_Q5_0] = unpack_q5_0, [IG_DTYPE_Q8_0] = unpack_q8_0,
    [IG_DTYPE_Q4_K] = unpack_q4_k, [IG_DTYPE_Q6_K] = unpack_q6_k,
    [IG_DTYPE_F16] = unpack_f16,   [IG_DTYPE_BF16] = unpack_bf16,
    [IG_DTYPE_F32] = unpack_f32,
};

void ig__unpack_row_ref(float *y, ig_dtype dtype, const void *group, int64_t r, int64_t k)
{
    by_type[dtype](y, group, r, k);
}

void ig__unpack_kernels_ref(ig__kernels *table)
{
    for (int i = 0; i < IG_DTYPE_COUNT; i++)
        table->unpack_row[i] = by_type[i];
}
