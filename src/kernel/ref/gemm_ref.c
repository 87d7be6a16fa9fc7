/* The products: the definition of every gemm entry.
 *
 * One loop for each activation format. Weights come through the decoders of unpack_ref.c,
 * activations are read where acts_ref.c put them, and the sums over k are taken in f64 in
 * ascending order: an instruction set's table is measured against the nearest thing to the
 * exact sum, not against another order of rounding.
 */
#include "kernel/kernel_int.h"

#include <math.h>
#include <string.h>

/* Where column c of n lives: its tile, the tile's columns, its place among them. */
typedef struct column {
    const uint8_t *tile;
    int64_t n, c;
} column;

static column column_at(const void *acts, ig__acts format, int64_t c, int64_t n, int64_t k)
{
    const int64_t i_tile = c / IG_TILE;
    const int64_t left = n - i_tile * IG_TILE;
    return (column){
        .tile = (const uint8_t *)acts + (size_t)i_tile * ig__tile_bytes(format, k, IG_TILE),
        .n = left < IG_TILE ? left : IG_TILE,
        .c = c % IG_TILE,
    };
}

/* d0 * (sum of w * x over 16 columns) + d1 * (the same over the other 16), of row r and block
 * b; x = unit * hi + lo.   x [2][32] i8 */
static double block_dot(ig__codes *w, ig_dtype dtype, const void *group, int64_t r,
                        int64_t b, const int8_t *x, int32_t unit)
{
    int32_t dot[2] = {0, 0}; /* below 2^29 */
    ig__unpack_codes(w, dtype, group, r, b);
    for (int i = 0; i < IG_QBLOCK; i++)
        dot[i / 16] += w->q[i] * (unit * x[i] + x[IG_QBLOCK + i]);
    return (double)w->d[0] * (double)dot[0] + (double)w->d[1] * (double)dot[1];
}

/* Block b (32 columns) of a row in units: w[i] (kernel.h). inverse: 1 / unit, or 0 */
static void whole_weights(int32_t w[IG_QBLOCK], ig_dtype dtype, const void *group,
                          int64_t r, int64_t b, float inverse)
{
    const int bits = dtype == IG_DTYPE_Q5_0   ? 5
                     : dtype == IG_DTYPE_Q6_K ? 6
                     : dtype == IG_DTYPE_Q8_0 ? 8
                                              : 4;
    const bool has_min = dtype == IG_DTYPE_Q4_1 || dtype == IG_DTYPE_Q4_K;
    const int32_t half = 1 << (bits - 1);
    ig__codes codes;
    ig__unpack_codes(&codes, dtype, group, r, b);
    for (int i = 0; i < IG_QBLOCK; i++) {
        const float d = codes.d[i / 16];
        const float middle = has_min ? codes.m + d * (float)half : 0.0f;
        const int32_t step = (int32_t)nearbyintf(d * (inverse * (float)half));
        const int32_t code = codes.q[i] - (has_min ? half : 0);
        w[i] = ((code * (1 << (16 - bits)) * step + (1 << 14)) >> 15) +
               (int32_t)nearbyintf(middle * inverse);
    }
}

/* Value i of block b of a column in a Q14 tile. */
static int32_t q14_at(const column *col, int64_t b, int i, int64_t k)
{
    static const int order[4] = {0, 2, 1, 3};
    const int16_t *q = (const int16_t *)(const void *)col->tile;
    if (col->n <= IG_FEW)
        return q[(b * col->n + col->c) * IG_QBLOCK + i - i % 4 + order[i % 4]];
    const int8_t *a =
        (const int8_t *)col->tile + b / 2 * 1024 + 64 * col->c + b % 2 * 32 + i;
    return 128 * a[0] + a[(k + 63) / 64 * 1024];
}

static float q14_scale(const column *col, int64_t k)
{
    const uint8_t *end = col->tile + ig__tile_bytes(IG_ACTS_Q14, k, col->n);
    const float *scale = (const float *)(const void *)end;
    return scale[col->c - (col->n <= IG_FEW ? col->n : IG_TILE)];
}

/* out[c*16 + r] = the sum of whole weights times whole activations, in units
 *   group [16][K] packed    acts [n] columns in Q14 tiles    out [n][16] f32 */
static void gemm_q14(float *out, ig_dtype dtype, const void *group, const void *acts,
                     int64_t n, int64_t k)
{
    float units[IG_GROUP];
    memcpy(units, (const char *)group + ig__packed_group_bytes(dtype, k) - sizeof units,
           sizeof units);
    for (int64_t r = 0; r < IG_GROUP; r++) {
        const float inverse =
            units[r] > 0.0f && isfinite(units[r]) ? 1.0f / units[r] : 0.0f;
        for (int64_t c = 0; c < n; c++) {
            const column col = column_at(acts, IG_ACTS_Q14, c, n, k);
            int64_t total = 0;
            for (int64_t b = 0; b < k / IG_QBLOCK && inverse > 0.0f; b++) {
                int32_t w[IG_QBLOCK];
                whole_weights(w, dtype, group, r, b, inverse);
                for (int i = 0; i < IG_QBLOCK; i++)
                    total += w[i] * q14_at(&col, b, i, k);
            }
            const float f = fmaf((float)(total >> 14), 16384.0f, (float)(total & 16383));
            out[c * IG_GROUP + r] = f * units[r] * q14_scale(&col, k);
        }
    }
}

/* out[c*16 + r] = scale[c] * sum over blocks b of (block_dot + m * sum[b][c])
 *   group [16][K] packed    acts [n] columns in Q16 tiles    out [n][16] f32 */
static void gemm_q16(float *out, ig_dtype dtype, const void *group, const void *acts,
                     int64_t n, int64_t k)
{
    const int64_t nb = k / IG_QBLOCK;
    for (int64_t c = 0; c < n; c++) {
        const column col = column_at(acts, IG_ACTS_Q16, c, n, k);
        const int8_t *q = (const int8_t *)col.tile;
        const float *sum = (const float *)(const void *)(q + nb * col.n * 64);
        const float *scale = sum + 3 * nb * col.n;
        for (int64_t r = 0; r < IG_GROUP; r++) {
            double total = 0.0;
            for (int64_t b = 0; b < nb; b++) {
                const int64_t at = b * col.n + col.c;
                ig__codes w;
                total += block_dot(&w, dtype, group, r, b, q + 64 * at, 256);
                total += (double)w.m * (double)sum[at];
            }
            out[c * IG_GROUP + r] = (float)(total * (double)scale[col.c]);
        }
    }
}

/* out[c*16 + r] = sum over blocks b of scale[b][c] * block_dot + m * sum[b][c]
 *   group [16][K] packed    acts [n] columns in Q8X2 tiles    out [n][16] f32 */
static void gemm_q8x2(float *out, ig_dtype dtype, const void *group, const void *acts,
                      int64_t n, int64_t k)
{
    const int64_t nb = k / IG_QBLOCK;
    for (int64_t c = 0; c < n; c++) {
        const column col = column_at(acts, IG_ACTS_Q8X2, c, n, k);
        const int8_t *q = (const int8_t *)col.tile;
        const float *scale = (const float *)(const void *)(q + nb * col.n * 64);
        const float *sum = scale + nb * col.n;
        for (int64_t r = 0; r < IG_GROUP; r++) {
            double total = 0.0;
            for (int64_t b = 0; b < nb; b++) {
                const int64_t at = b * col.n + col.c;
                ig__codes w;
                total +=
                    (double)scale[at] * block_dot(&w, dtype, group, r, b, q + 64 * at, 16);
                total += (double)w.m * (double)sum[at];
            }
            out[c * IG_GROUP + r] = (float)total;
        }
    }
}

/* out[c*16 + r] = sum over k of w[r][k] * x[c][k]
 *   acts [n] columns in BF16 or F32 tiles    scratch [16][K] f32: the weights */
static void gemm_float(float *out, ig_dtype dtype, const void *group, ig__acts format,
                       const void *acts, int64_t n, int64_t k, void *scratch)
{
    float *w = scratch;
    for (int64_t r = 0; r < IG_GROUP; r++)
        ig__unpack_row_ref(w + r * k, dtype, group, r, k);
    for (int64_t c = 0; c < n; c++) {
        const column col = column_at(acts, format, c, n, k);
        const float *f32 = (const float *)(const void *)col.tile;
        const uint16_t *bf16 = (const uint16_t *)(const void *)col.tile;
        for (int64_t r = 0; r < IG_GROUP; r++) {
            double total = 0.0;
            for (int64_t i = 0; i < k; i++) {
                const float x =
                    format == IG_ACTS_F32
                        ? f32[i * col.n + col.c]
                        : ig__bf16_to_f32(bf16[(i / 2 * col.n + col.c) * 2 + i % 2]);
                total += (double)w[r * k + i] * (double)x;
            }
            out[c * IG_GROUP + r] = (float)total;
        }
    }
}

static void q14_q4_0(float *out, const void *group, const void *acts, int64_t n, int64_t k,
                     void *scratch)
{
    (void)scratch;
    gemm_q14(out, IG_DTYPE_Q4_0, group, acts, n, k);
}

static void q14_q4_1(float *out, const void *group, const void *acts, int64_t n, int64_t k,
                     void *scratch)
{
    (void)scratch;
    gemm_q14(out, IG_DTYPE_Q4_1, group, acts, n, k);
}

static void q14_q5_0(float *out, const void *group, const void *acts, int64_t n, int64_t k,
                     void *scratch)
{
    (void)scratch;
    gemm_q14(out, IG_DTYPE_Q5_0, group, acts, n, k);
}

static void q14_q8_0(float *out, const void *group, const void *acts, int64_t n, int64_t k,
                     void *scratch)
{
    (void)scratch;
    gemm_q14(out, IG_DTYPE_Q8_0, group, acts, n, k);
}

static void q14_q4_k(float *out, const void *group, const void *acts, int64_t n, int64_t k,
                     void *scratch)
{
    (void)scratch;
    gemm_q14(out, IG_DTYPE_Q4_K, group, acts, n, k);
}

static void q14_q6_k(float *out, const void *group, const void *acts, int64_t n, int64_t k,
                     void *scratch)
{
    (void)scratch;
    gemm_q14(out, IG_DTYPE_Q6_K, group, acts, n, k);
}

static void q16_q4_0(float *out, const void *group, const void *acts, int64_t n, int64_t k,
                     void *scratch)
{
    (void)scratch;
    gemm_q16(out, IG_DTYPE_Q4_0, group, acts, n, k);
}

static void q16_q4_1(float *out, const void *group, const void *acts, int64_t n, int64_t k,
                     void *scratch)
{
    (void)scratch;
    gemm_q16(out, IG_DTYPE_Q4_1, group, acts, n, k);
}

static void q16_q5_0(float *out, const void *group, const void *acts, int64_t n, int64_t k,
                     void *scratch)
{
    (void)scratch;
    gemm_q16(out, IG_DTYPE_Q5_0, group, acts, n, k);
}

static void q16_q8_0(float *out, const void *group, const void *acts, int64_t n, int64_t k,
                     void *scratch)
{
    (void)scratch;
    gemm_q16(out, IG_DTYPE_Q8_0, group, acts, n, k);
}

static void q16_q4_k(float *out, const void *group, const void *acts, int64_t n, int64_t k,
                     void *scratch)
{
    (void)scratch;
    gemm_q16(out, IG_DTYPE_Q4_K, group, acts, n, k);
}

static void q16_q6_k(float *out, const void *group, const void *acts, int64_t n, int64_t k,
                     void *scratch)
{
    (void)scratch;
    gemm_q16(out, IG_DTYPE_Q6_K, group, acts, n, k);
}

static void q8x2_q4_0(float *out, const void *group, const void *acts, int64_t n, int64_t k,
                      void *scratch)
{
    (void)scratch;
    gemm_q8x2(out, IG_DTYPE_Q4_0, group, acts, n, k);
}

static void q8x2_q4_1(float *out, const void *group, const void *acts, int64_t n, int64_t k,
                      void *scratch)
{
    (void)scratch;
    gemm_q8x2(out, IG_DTYPE_Q4_1, group, acts, n, k);
}

static void q8x2_q5_0(float *out, const void *group, const void *acts, int64_t n, int64_t k,
                      void *scratch)
{
    (void)scratch;
    gemm_q8x2(out, IG_DTYPE_Q5_0, group, acts, n, k);
}

static void q8x2_q8_0(float *out, const void *group, const void *acts, int64_t n, int64_t k,
                      void *scratch)
{
    (void)scratch;
    gemm_q8x2(out, IG_DTYPE_Q8_0, group, acts, n, k);
}

static void q8x2_q4_k(float *out, const void *group, const void *acts, int64_t n, int64_t k,
                      void *scratch)
{
    (void)scratch;
    gemm_q8x2(out, IG_DTYPE_Q4_K, group, acts, n, k);
}

static void q8x2_q6_k(float *out, const void *group, const void *acts, int64_t n, int64_t k,
                      void *scratch)
{
    (void)scratch;
    gemm_q8x2(out, IG_DTYPE_Q6_K, group, acts, n, k);
}

static void bf16_f16(float *out, const void *group, const void *acts, int64_t n, int64_t k,
                     void *scratch)
{
    gemm_float(out, IG_DTYPE_F16, group, IG_ACTS_BF16, acts, n, k, scratch);
}

static void bf16_bf16(float *out, const void *group, const void *acts, int64_t n, int64_t k,
                      void *scratch)
{
    gemm_float(out, IG_DTYPE_BF16, group, IG_ACTS_BF16, acts, n, k, scratch);
}

static void f32_q4_0(float *out, const void *group, const void *acts, int64_t n, int64_t k,
                     void *scratch)
{
    gemm_float(out, IG_DTYPE_Q4_0, group, IG_ACTS_F32, acts, n, k, scratch);
}

static void f32_q4_1(float *out, const void *group, const void *acts, int64_t n, int64_t k,
                     void *scratch)
{
    gemm_float(out, IG_DTYPE_Q4_1, group, IG_ACTS_F32, acts, n, k, scratch);
}

static void f32_q5_0(float *out, const void *group, const void *acts, int64_t n, int64_t k,
                     void *scratch)
{
    gemm_float(out, IG_DTYPE_Q5_0, group, IG_ACTS_F32, acts, n, k, scratch);
}

static void f32_q8_0(float *out, const void *group, const void *acts, int64_t n, int64_t k,
                     void *scratch)
{
    gemm_float(out, IG_DTYPE_Q8_0, group, IG_ACTS_F32, acts, n, k, scratch);
}

static void f32_q4_k(float *out, const void *group, const void *acts, int64_t n, int64_t k,
                     void *scratch)
{
    gemm_float(out, IG_DTYPE_Q4_K, group, IG_ACTS_F32, acts, n, k, scratch);
}

static void f32_q6_k(float *out, const void *group, const void *acts, int64_t n, int64_t k,
                     void *scratch)
{
    gemm_float(out, IG_DTYPE_Q6_K, group, IG_ACTS_F32, acts, n, k, scratch);
}

static void f32_f16(float *out, const void *group, const void *acts, int64_t n, int64_t k,
                    void *scratch)
{
    gemm_float(out, IG_DTYPE_F16, group, IG_ACTS_F32, acts, n, k, scratch);
}

static void f32_bf16(float *out, const void *group, const void *acts, int64_t n, int64_t k,
                     void *scratch)
{
    gemm_float(out, IG_DTYPE_BF16, group, IG_ACTS_F32, acts, n, k, scratch);
}

static void f32_f32(float *out, const void *group, const void *acts, int64_t n, int64_t k,
                    void *scratch)
{
    gemm_float(out, IG_DTYPE_F32, group, IG_ACTS_F32, acts, n, k, scratch);
}

void ig__gemm_kernels_ref(ig__kernels *table)
{
    table->acts[IG_DTYPE_Q4_0] = IG_ACTS_Q8X2;
    table->acts[IG_DTYPE_Q4_1] = IG_ACTS_Q8X2;
    table->acts[IG_DTYPE_Q5_0] = IG_ACTS_Q8X2;
    table->acts[IG_DTYPE_Q8_0] = IG_ACTS_Q8X2;
    table->acts[IG_DTYPE_Q4_K] = IG_ACTS_Q8X2;
    table->acts[IG_DTYPE_Q6_K] = IG_ACTS_Q8X2;
    table->acts[IG_DTYPE_F16] = IG_ACTS_F32;
    table->acts[IG_DTYPE_BF16] = IG_ACTS_F32;
    table->acts[IG_DTYPE_F32] = IG_ACTS_F32;
    table->gemm[IG_ACTS_Q14][IG_DTYPE_Q4_0] = q14_q4_0;
    table->gemm[IG_ACTS_Q14][IG_DTYPE_Q4_1] = q14_q4_1;
    table->gemm[IG_ACTS_Q14][IG_DTYPE_Q5_0] = q14_q5_0;
    table->gemm[IG_ACTS_Q14][IG_DTYPE_Q8_0] = q14_q8_0;
    table->gemm[IG_ACTS_Q14][IG_DTYPE_Q4_K] = q14_q4_k;
    table->gemm[IG_ACTS_Q14][IG_DTYPE_Q6_K] = q14_q6_k;
    table->gemm[IG_ACTS_Q16][IG_DTYPE_Q4_0] = q16_q4_0;
    table->gemm[IG_ACTS_Q16][IG_DTYPE_Q4_1] = q16_q4_1;
    table->gemm[IG_ACTS_Q16][IG_DTYPE_Q5_0] = q16_q5_0;
    table->gemm[IG_ACTS_Q16][IG_DTYPE_Q8_0] = q16_q8_0;
    table->gemm[IG_ACTS_Q16][IG_DTYPE_Q4_K] = q16_q4_k;
    table->gemm[IG_ACTS_Q16][IG_DTYPE_Q6_K] = q16_q6_k;
    table->gemm[IG_ACTS_Q8X2][IG_DTYPE_Q4_0] = q8x2_q4_0;
    table->gemm[IG_ACTS_Q8X2][IG_DTYPE_Q4_1] = q8x2_q4_1;
    table->gemm[IG_ACTS_Q8X2][IG_DTYPE_Q5_0] = q8x2_q5_0;
    table->gemm[IG_ACTS_Q8X2][IG_DTYPE_Q8_0] = q8x2_q8_0;
    table->gemm[IG_ACTS_Q8X2][IG_DTYPE_Q4_K] = q8x2_q4_k;
    table->gemm[IG_ACTS_Q8X2][IG_DTYPE_Q6_K] = q8x2_q6_k;
    table->gemm[IG_ACTS_BF16][IG_DTYPE_F16] = bf16_f16;
    table->gemm[IG_ACTS_BF16][IG_DTYPE_BF16] = bf16_bf16;
    table->gemm[IG_ACTS_F32][IG_DTYPE_Q4_0] = f32_q4_0;
    table->gemm[IG_ACTS_F32][IG_DTYPE_Q4_1] = f32_q4_1;
    table->gemm[IG_ACTS_F32][IG_DTYPE_Q5_0] = f32_q5_0;
    table->gemm[IG_ACTS_F32][IG_DTYPE_Q8_0] = f32_q8_0;
    table->gemm[IG_ACTS_F32][IG_DTYPE_Q4_K] = f32_q4_k;
    table->gemm[IG_ACTS_F32][IG_DTYPE_Q6_K] = f32_q6_k;
    table->gemm[IG_ACTS_F32][IG_DTYPE_F16] = f32_f16;
    table->gemm[IG_ACTS_F32][IG_DTYPE_BF16] = f32_bf16;
    table->gemm[IG_ACTS_F32][IG_DTYPE_F32] = f32_f32;
}
