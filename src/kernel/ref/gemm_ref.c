/* The products: the definition of every gemm entry.
 *
 * One loop for each activation format. Weights come through the decoders of unpack_ref.c,
 * activations are read where acts_ref.c put them, and the sums over k are taken in f64 in
 * ascending order: an instruction set's table is measured against the nearest thing to the
 * exact sum, not against another order of rounding.
 */
#include "kernel/kernel_int.h"

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
