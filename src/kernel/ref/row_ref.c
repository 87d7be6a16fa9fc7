/* The reference of the kernels that work on one row: norm, elementwise, rotation, and the
 * writing of a key and a value to a page of the cache.
 *
 * Plain loops in float32 over libm: the definition that every other table is held against.
 * The layouts of pages stand in kernel.h.
 */
#include "kernel/kernel_int.h"

#include <math.h>

/* y = x / rms(x) * g.
 *   x, y, g [D] f32, y may alias x
 *   the sum of squares in 16 lanes (element i in lane i mod 16), joined by halves; D >= 1
 */
static void rms_norm(float *y, const float *x, const float *g, int64_t d, float eps)
{
    float lane[16] = {0};
    for (int64_t i = 0; i < d; i++)
        lane[i % 16] += x[i] * x[i];
    for (int half = 8; half >= 1; half /= 2)
        for (int i = 0; i < half; i++)
            lane[i] += lane[i + half];
    const float inv = 1.0f / sqrtf(lane[0] / (float)d + eps);
    for (int64_t i = 0; i < d; i++)
        y[i] = x[i] * inv * g[i];
}

/* y = x + z. [D] f32, any may alias */
static void add(float *y, const float *x, const float *z, int64_t d)
{
    for (int64_t i = 0; i < d; i++)
        y[i] = x[i] + z[i];
}

/* y = x * z. [D] f32, any may alias */
static void mul(float *y, const float *x, const float *z, int64_t d)
{
    for (int64_t i = 0; i < d; i++)
        y[i] = x[i] * z[i];
}

/* y = x * s. [D] f32, y may alias x */
static void scale(float *y, const float *x, float s, int64_t d)
{
    for (int64_t i = 0; i < d; i++)
        y[i] = x[i] * s;
}

/* y = silu(x) * z, silu(x) = x / (1 + exp(-x)). [D] f32, any may alias */
static void silu_mul(float *y, const float *x, const float *z, int64_t d)
{
    for (int64_t i = 0; i < d; i++)
        y[i] = x[i] / (1.0f + expf(-x[i])) * z[i];
}

/* y = gelu(x) * z, gelu(x) = x/2 (1 + tanh u), u = sqrt(2/pi) (x + 0.044715 x^3)
 * (Hendrycks and Gimpel, "Gaussian error linear units", 2016, section 2). Written as
 * x / (1 + exp(-2u)), which is the same and does not cancel where tanh nears -1.
 *   [D] f32, any may alias */
static void gelu_mul(float *y, const float *x, const float *z, int64_t d)
{
    for (int64_t i = 0; i < d; i++) {
        const float u = 0.7978845608f * (x[i] + 0.044715f * x[i] * x[i] * x[i]);
        y[i] = x[i] / (1.0f + expf(-2.0f * u)) * z[i];
    }
}

/* Rotate the pairs of a head in place.
 *   x [W] f32    cos_sin [W/2][2] f32; pair i is (2i, 2i+1), with `halves` (i, W/2+i) */
static void rope(float *x, const float *cos_sin, int64_t w, bool halves)
{
    for (int64_t i = 0; i < w / 2; i++) {
        float *a = halves ? &x[i] : &x[2 * i];
        float *b = halves ? &x[w / 2 + i] : &x[2 * i + 1];
        const float c = cos_sin[2 * i], s = cos_sin[2 * i + 1];
        const float x0 = *a, x1 = *b;
        *a = x0 * c - x1 * s;
        *b = x0 * s + x1 * c;
    }
}

static bool all_finite(const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(x[i]))
            return false;
    return true;
}

/* Key and value of one position.
 *   k, v [W] f32    page: K [W][16] | V [16][W], f32 */
static void kv_write_f32(void *page, int64_t slot, const float *k, const float *v,
                         int64_t w)
{
    float *pk = page, *pv = pk + w * IG_PAGE;
    for (int64_t i = 0; i < w; i++) {
        pk[i * IG_PAGE + slot] = k[i];
        pv[slot * w + i] = v[i];
    }
}

/* The same, f16 rounded to nearest even. */
static void kv_write_f16(void *page, int64_t slot, const float *k, const float *v,
                         int64_t w)
{
    uint16_t *pk = page, *pv = pk + w * IG_PAGE;
    for (int64_t i = 0; i < w; i++) {
        pk[i * IG_PAGE + slot] = ig__f32_to_f16(k[i]);
        pv[slot * w + i] = ig__f32_to_f16(v[i]);
    }
}

/* 32 values as bytes (value + 128) with one scale, which it returns as f16. The quotient is
 * taken by the scale as it will be read, so that its rounding costs nothing; a scale among
 * f16's subnormals may be rounded down far enough to need the clamp. Anything that is not
 * finite gives a NaN scale. */
static uint16_t quantise(uint8_t q[IG_QBLOCK], const float *x)
{
    float top = 0.0f;
    for (int i = 0; i < IG_QBLOCK; i++)
        top = fmaxf(top, fabsf(x[i]));
    const uint16_t bits =
        ig__f32_to_f16(all_finite(x, IG_QBLOCK) ? top / 127.0f : (float)NAN);
    const float d = ig__f16_to_f32(bits);
    const float inv = d > 0.0f ? 1.0f / d : 0.0f;
    for (int i = 0; i < IG_QBLOCK; i++)
        q[i] = d > 0.0f
                   ? (uint8_t)(fminf(fmaxf(rintf(x[i] * inv), -127.0f), 127.0f) + 128.0f)
                   : 128;
    return bits;
}

/* The same, bytes with a scale for each 32 values of a position.
 *   page: K [W][16] u8 | scale [W/32][16] f16 | V [16][W] u8 | scale [16][W/32] f16 */
static void kv_write_q8_0(void *page, int64_t slot, const float *k, const float *v,
                          int64_t w)
{
    const int64_t n_blocks = w / IG_QBLOCK;
    uint8_t *pk = page;
    uint16_t *sk = (uint16_t *)(void *)(pk + w * IG_PAGE);
    uint8_t *pv = (uint8_t *)(void *)(sk + n_blocks * IG_PAGE);
    uint16_t *sv = (uint16_t *)(void *)(pv + w * IG_PAGE);
    for (int64_t b = 0; b < n_blocks; b++) {
        uint8_t q[IG_QBLOCK];
        sk[b * IG_PAGE + slot] = quantise(q, k + b * IG_QBLOCK);
        for (int64_t i = 0; i < IG_QBLOCK; i++)
            pk[(b * IG_QBLOCK + i) * IG_PAGE + slot] = q[i];
        sv[slot * n_blocks + b] =
            quantise(pv + slot * w + b * IG_QBLOCK, v + b * IG_QBLOCK);
    }
}

void ig__row_kernels_ref(ig__kernels *table)
{
    table->rms_norm = rms_norm;
    table->add = add;
    table->mul = mul;
    table->scale = scale;
    table->silu_mul = silu_mul;
    table->gelu_mul = gelu_mul;
    table->rope = rope;
    table->all_finite = all_finite;
    table->kv_write[IG__KV_F32] = kv_write_f32;
    table->kv_write[IG__KV_F16] = kv_write_f16;
    table->kv_write[IG__KV_Q8_0] = kv_write_q8_0;
}
