/* Packing of activations: the definition of the tile formats.
 *
 * Quantising uses only operations that IEEE 754 rounds in one way (max, division,
 * product, fused multiply-add, round to nearest even), so every instruction set gives these very bits, and
 * a column's bytes do not depend on its neighbours.
 */
#include "kernel/kernel_int.h"

#include <math.h>
#include <string.h>

/* The largest |x| of n, or NaN if one is a NaN or an infinity. */
static float largest_magnitude(const float *x, int64_t n)
{
    float largest = 0.0f;
    for (int64_t i = 0; i < n; i++) {
        if (!isfinite(x[i]))
            return NAN;
        largest = fmaxf(largest, fabsf(x[i]));
    }
    return largest;
}

static int32_t round_even(float x)
{
    return (int32_t)nearbyintf(x);
}

static int32_t clamp(int32_t v, int32_t limit)
{
    return v < -limit ? -limit : v > limit ? limit : v;
}

/* Column c of a tile of n: q [nb][n][2][32], sum [nb][n], halves [nb][n][2], scale [n]. */
static void pack_q16(void *tile, const float *x, int64_t c, int64_t n, int64_t k)
{
    const int64_t n_blocks = k / IG_QBLOCK * n;
    int8_t *q = tile;
    float *sum = (float *)(void *)(q + n_blocks * 64);
    float *halves = sum + n_blocks, *scale = halves + 2 * n_blocks;
    const float largest = largest_magnitude(x, k);
    const bool is_plain = largest >= IG_ACTS_TINY; /* false for NaN too */
    const float inverse = is_plain ? 32512.0f / largest : 0.0f;
    scale[c] = largest < IG_ACTS_TINY ? 0.0f : largest / 32512.0f;
    for (int64_t at = c; at < n_blocks; at += n, x += IG_QBLOCK) {
        int32_t isum[2] = {0};
        for (int i = 0; i < IG_QBLOCK; i++) {
            const int32_t v = is_plain ? clamp(round_even(x[i] * inverse), 32512) : 0;
            const int32_t lo = (v + 128 + 32768) % 256 - 128;
            q[64 * at + i] = (int8_t)((v - lo) / 256);
            q[64 * at + IG_QBLOCK + i] = (int8_t)lo;
            isum[i / 16] += v;
        }
        sum[at] = (float)(isum[0] + isum[1]); /* below 2^24: exact */
        halves[2 * at] = (float)isum[0];
        halves[2 * at + 1] = (float)isum[1];
    }
}

/* Column c of a tile of n: q [nb][n][2][32], scale and sum [nb][n], isum [nb][n][2][2]. */
static void pack_q8x2(void *tile, const float *x, int64_t c, int64_t n, int64_t k)
{
    const int64_t n_blocks = k / IG_QBLOCK * n;
    int8_t *q = tile;
    float *scale = (float *)(void *)(q + n_blocks * 64), *sum = scale + n_blocks;
    int32_t *isums = (int32_t *)(void *)(sum + n_blocks);
    for (int64_t at = c; at < n_blocks; at += n, x += IG_QBLOCK) {
        const float largest = largest_magnitude(x, IG_QBLOCK);
        const bool is_plain = largest >= IG_ACTS_TINY; /* false for NaN too */
        const float inverse = is_plain ? 127.0f / largest : 0.0f;
        const float unit = largest < IG_ACTS_TINY ? 0.0f : largest / 127.0f;
        int32_t isum[2][2] = {{0}};
        for (int i = 0; i < IG_QBLOCK; i++) {
            const int32_t hi = is_plain ? round_even(x[i] * inverse) : 0;
            const float rest = is_plain ? fmaf(-unit, (float)hi, x[i]) : 0.0f;
            const int32_t lo = clamp(round_even(rest * (16.0f * inverse)), 8);
            q[64 * at + i] = (int8_t)hi;
            q[64 * at + IG_QBLOCK + i] = (int8_t)lo;
            isum[0][i / 16] += hi;
            isum[1][i / 16] += lo;
        }
        const int32_t whole = 16 * (isum[0][0] + isum[0][1]) + isum[1][0] + isum[1][1];
        scale[at] = unit / 16.0f;
        sum[at] = scale[at] * (float)whole;
        memcpy(isums + 4 * at, isum, sizeof isum);
    }
}

static void pack_bf16(void *tile, const float *x, int64_t c, int64_t n, int64_t k)
{
    uint16_t *t = tile; /* [K/2][n][2] */
    for (int64_t i = 0; i < k; i++)
        t[(i / 2 * n + c) * 2 + i % 2] = ig__f32_to_bf16(x[i]);
}

static void pack_f32(void *tile, const float *x, int64_t c, int64_t n, int64_t k)
{
    float *t = tile; /* [K][n] */
    for (int64_t i = 0; i < k; i++)
        t[i * n + c] = x[i];
}

void ig__acts_kernels_ref(ig__kernels *table)
{
    table->pack_acts[IG_ACTS_Q16] = pack_q16;
    table->pack_acts[IG_ACTS_Q8X2] = pack_q8x2;
    table->pack_acts[IG_ACTS_BF16] = pack_bf16;
    table->pack_acts[IG_ACTS_F32] = pack_f32;
}
