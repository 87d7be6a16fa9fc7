/* Packing of activations: the definition of the tile formats.
 *
 * Quantising to Q8 uses only operations that IEEE 754 rounds in one way (max, division,
 * product, fused multiply-add, round to nearest even), so every instruction set gives these very bits, and
 * a column's bytes do not depend on its neighbours.
 */
#include "kernel/kernel_int.h"

#include <math.h>
#include <string.h>

/* The parts of a tile of n columns in Q8 (1 term) or Q8X2 (2). */
typedef struct q8_tile {
    int8_t *q;      /* [nb][n][terms][32] */
    float *scale;   /* [nb][n] */
    float *sum;     /* [nb][n] */
    int32_t *isums; /* [nb][n][terms][2] */
} q8_tile;

static q8_tile q8_tile_at(void *tile, int64_t n, int64_t k, int terms)
{
    const int64_t n_blocks = k / IG_QBLOCK * n;
    q8_tile t = {.q = tile};
    t.scale = (float *)(void *)(t.q + n_blocks * IG_QBLOCK * terms);
    t.sum = t.scale + n_blocks;
    t.isums = (int32_t *)(void *)(t.sum + n_blocks);
    return t;
}

/* The largest |x| of 32, or NaN if one is a NaN or an infinity. */
static float largest_magnitude(const float *x)
{
    float largest = 0.0f;
    for (int i = 0; i < IG_QBLOCK; i++) {
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

static int32_t clamp(int32_t q)
{
    return q < -8 ? -8 : q > 8 ? 8 : q;
}

/* One block of 32, at `at` = block * n + column of the tile. */
static void pack_block(const q8_tile *t, const float *x, int64_t at, int terms)
{
    const float largest = largest_magnitude(x);
    const bool is_plain = largest >= IG_ACTS_TINY; /* false for NaN too */
    const float inverse = is_plain ? 127.0f / largest : 0.0f;
    const float unit = largest < IG_ACTS_TINY ? 0.0f : largest / 127.0f;
    const float scale = terms == 2 ? unit / 16.0f : unit;
    int8_t *q = t->q + at * IG_QBLOCK * terms;
    int32_t isum[2][2] = {{0}};
    for (int i = 0; i < IG_QBLOCK; i++) {
        const int32_t hi = is_plain ? round_even(x[i] * inverse) : 0;
        q[i] = (int8_t)hi;
        isum[0][i / 16] += hi;
        if (terms == 2) {
            const float rest = is_plain ? fmaf(-unit, (float)hi, x[i]) : 0.0f;
            const int32_t lo = clamp(round_even(rest * (16.0f * inverse)));
            q[IG_QBLOCK + i] = (int8_t)lo;
            isum[1][i / 16] += lo;
        }
    }
    int32_t whole = isum[0][0] + isum[0][1];
    if (terms == 2)
        whole = 16 * whole + isum[1][0] + isum[1][1];
    t->scale[at] = scale;
    t->sum[at] = scale * (float)whole;
    memcpy(t->isums + 2 * terms * at, isum, sizeof isum[0] * terms);
}

static void pack_q8(void *tile, const float *x, int64_t c, int64_t n, int64_t k)
{
    const q8_tile t = q8_tile_at(tile, n, k, 1);
    for (int64_t b = 0; b < k / IG_QBLOCK; b++, x += IG_QBLOCK)
        pack_block(&t, x, b * n + c, 1);
}

static void pack_q8x2(void *tile, const float *x, int64_t c, int64_t n, int64_t k)
{
    const q8_tile t = q8_tile_at(tile, n, k, 2);
    for (int64_t b = 0; b < k / IG_QBLOCK; b++, x += IG_QBLOCK)
        pack_block(&t, x, b * n + c, 2);
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
    table->pack_acts[IG_ACTS_Q8] = pack_q8;
    table->pack_acts[IG_ACTS_Q8X2] = pack_q8x2;
    table->pack_acts[IG_ACTS_BF16] = pack_bf16;
    table->pack_acts[IG_ACTS_F32] = pack_f32;
}
