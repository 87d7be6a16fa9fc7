/* Packing of activations: the definition of the three tile formats.
 *
 * Quantising to Q8 uses only operations that IEEE 754 rounds in one way (max, one division,
 * one product, round to nearest even), so every instruction set gives these very bits, and
 * a column's bytes do not depend on its neighbours.
 */
#include "kernel/kernel_int.h"

#include <math.h>
#include <string.h>

/* The parts of a Q8 tile of n columns. */
typedef struct q8_tile {
    int8_t *q;      /* [nb][n][32] */
    float *scale;   /* [nb][n] */
    float *sum;     /* [nb][n] */
    int32_t *isums; /* [nb][n][2] */
} q8_tile;

static q8_tile q8_tile_at(void *tile, int64_t n, int64_t k)
{
    const int64_t n_blocks = k / IG_QBLOCK * n;
    q8_tile t = {.q = tile};
    t.scale = (float *)(void *)(t.q + n_blocks * IG_QBLOCK);
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

static void pack_q8(void *tile, const float *x, int64_t c, int64_t n, int64_t k)
{
    const q8_tile t = q8_tile_at(tile, n, k);
    for (int64_t b = 0; b < k / IG_QBLOCK; b++, x += IG_QBLOCK) {
        const int64_t at = b * n + c;
        const float largest = largest_magnitude(x);
        const bool is_plain = largest >= IG_ACTS_TINY; /* false for NaN too */
        const float inverse = is_plain ? 127.0f / largest : 0.0f;
        int32_t isum[2] = {0, 0};
        for (int i = 0; i < IG_QBLOCK; i++) {
            const int32_t q = is_plain ? (int32_t)nearbyintf(x[i] * inverse) : 0;
            t.q[at * IG_QBLOCK + i] = (int8_t)q;
            isum[i / 16] += q;
        }
        const float scale = largest < IG_ACTS_TINY ? 0.0f : largest / 127.0f;
        t.scale[at] = scale;
        t.sum[at] = scale * (float)(isum[0] + isum[1]);
        memcpy(t.isums + 2 * at, isum, sizeof isum);
    }
}

static void pack_q8x2(void *hi, void *lo, const float *x, int64_t c, int64_t n, int64_t k,
                      float *rest)
{
    pack_q8(hi, x, c, n, k);
    const q8_tile t = q8_tile_at(hi, n, k);
    for (int64_t i = 0; i < k; i++) {
        const int64_t at = i / IG_QBLOCK * n + c;
        rest[i] = x[i] - t.scale[at] * (float)t.q[at * IG_QBLOCK + i % IG_QBLOCK];
    }
    pack_q8(lo, rest, c, n, k);
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
    table->pack_q8x2 = pack_q8x2;
    table->pack_acts[IG_ACTS_BF16] = pack_bf16;
    table->pack_acts[IG_ACTS_F32] = pack_f32;
}
