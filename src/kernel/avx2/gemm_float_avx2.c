/* Products with F32 activations, for every weight type: the exact path, and that of F16,
 * BF16 and F32 weights.
 *
 * K is cut into spans of 256 columns. A span of weights is expanded to f32 [256][16] (16
 * KB, it stays in L1; F32 weights lie so already), then every column of activations walks
 * it. Within a span the even and the odd k have sums of their own, which keeps the FMA
 * units busy with one column as with three:
 *
 *   even = fma(w[k], x[k], even), k = 0, 2, ..    odd = fma(w[k+1], x[k+1], odd)
 *   out = out + (even + odd)                      at the end of each span
 */
#include "kernel/avx2/weights_avx2.h"

enum { SPAN = 256, COLUMNS = 3 };

/* w [32][16] = a panel. One FMA for each value, code * d + (m or -offset * d): code * d and
 * offset * d are exact but for Q6_K's code * (d * scale), whose fused sum is rounded once,
 * as the product (code - 32) * (d * scale) would be. */
IG_INLINE void floats_of_panel(ig_dtype dtype, float *w, const ig__panel *panel)
{
    const __m256i byte = _mm256_set1_epi32(255);
    const __m256 offset = _mm256_set1_ps((float)-ig__code_offset(dtype));
    for (int l = 0; l < 8; l++)
        for (int h = 0; h < 2; h++) {
            const __m256i line = ig__load(panel->w[l] + 32 * h);
            __m256 d = _mm256_load_ps(panel->d + 8 * h);
            if (dtype == IG_DTYPE_Q6_K)
                d = _mm256_mul_ps(d, _mm256_load_ps(panel->m[l / 4] + 8 * h));
            const __m256 m = ig__has_min(dtype) ? _mm256_load_ps(panel->m[0] + 8 * h)
                                                : _mm256_mul_ps(offset, d);
#pragma GCC unroll 4
            for (int i = 0; i < 4; i++) {
                const __m256i code = _mm256_and_si256(_mm256_srli_epi32(line, 8 * i), byte);
                _mm256_store_ps(w + (4 * l + i) * IG_GROUP + 8 * h,
                                _mm256_fmadd_ps(_mm256_cvtepi32_ps(code), d, m));
            }
        }
}

/* w [32][16] = 16 lines of pairs (k, k+1), 2 bytes each. */
IG_INLINE void floats_of_pairs(ig_dtype dtype, float *w, const uint8_t *lines)
{
    const __m256i upper = _mm256_set1_epi32((int32_t)0xffff0000);
    for (int p = 0; p < IG_QBLOCK / 2; p++)
        for (int h = 0; h < 2; h++) {
            const uint8_t *at = lines + 64 * p + 32 * h;
            __m256 even, odd;
            if (dtype == IG_DTYPE_BF16) {
                const __m256i pair = ig__load(at);
                even = _mm256_castsi256_ps(_mm256_slli_epi32(pair, 16));
                odd = _mm256_castsi256_ps(_mm256_and_si256(pair, upper));
            } else { /* rows 0 0 1 1 | 2 2 3 3 and 4 4 5 5 | 6 6 7 7 */
                const __m256 a = ig__load_half(at);
                const __m256 b = ig__load_half(at + 16);
                even = _mm256_shuffle_ps(a, b, 0x88); /* rows 0 1 4 5 | 2 3 6 7 */
                odd = _mm256_shuffle_ps(a, b, 0xdd);
                even =
                    _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(even), 0xd8));
                odd = _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(odd), 0xd8));
            }
            _mm256_store_ps(w + 2 * p * IG_GROUP + 8 * h, even);
            _mm256_store_ps(w + (2 * p + 1) * IG_GROUP + 8 * h, odd);
        }
}

/* Columns k0 .. k0+n_k-1 of a group as f32 [n_k][16], in `room` unless they lie so. */
IG_INLINE const float *expand_span(ig_dtype dtype, float *room, const uint8_t *group,
                                   int64_t k0, int64_t n_k)
{
    if (dtype == IG_DTYPE_F32)
        return (const float *)(const void *)group + k0 * IG_GROUP;
    for (int64_t i = 0; i < n_k; i += IG_QBLOCK) {
        float *w = room + i * IG_GROUP;
        const int64_t b = (k0 + i) / IG_QBLOCK;
        if (dtype == IG_DTYPE_F16 || dtype == IG_DTYPE_BF16) {
            floats_of_pairs(dtype, w, group + b * 1024);
        } else {
            ig__panel panel;
            ig__expand_block(&panel, dtype, group, b, 0);
            floats_of_panel(dtype, w, &panel);
        }
    }
    return room;
}

/* out [cols][16] += w [n_k][16] times x [n_k][n], columns 0 .. cols-1 */
IG_INLINE void span_columns(int cols, float *out, const float *w, const float *x, int64_t n,
                            int64_t n_k)
{
    __m256 acc[COLUMNS][2][2]; /* column, rows 8h .. 8h+7, even and odd k */
    for (int c = 0; c < cols; c++)
        for (int h = 0; h < 2; h++)
            acc[c][h][0] = acc[c][h][1] = _mm256_setzero_ps();
    for (int64_t k = 0; k < n_k; k += 2, w += 2 * IG_GROUP, x += 2 * n)
#pragma GCC unroll 2
        for (int odd = 0; odd < 2; odd++) {
            const __m256 w0 = _mm256_loadu_ps(w + odd * IG_GROUP);
            const __m256 w1 = _mm256_loadu_ps(w + odd * IG_GROUP + 8);
#pragma GCC unroll 3
            for (int c = 0; c < cols; c++) {
                const __m256 v = _mm256_set1_ps(x[odd * n + c]);
                acc[c][0][odd] = _mm256_fmadd_ps(w0, v, acc[c][0][odd]);
                acc[c][1][odd] = _mm256_fmadd_ps(w1, v, acc[c][1][odd]);
            }
        }
    for (int c = 0; c < cols; c++)
        for (int h = 0; h < 2; h++) {
            float *o = out + c * IG_GROUP + 8 * h;
            const __m256 sum = _mm256_add_ps(acc[c][h][0], acc[c][h][1]);
            _mm256_storeu_ps(o, _mm256_add_ps(_mm256_loadu_ps(o), sum));
        }
}

/* The columns of one tile of n, x [n_k][n]. */
IG_INLINE void span_tile(float *out, const float *w, const float *x, int64_t n, int64_t n_k)
{
    int64_t c = 0;
    for (; c + COLUMNS <= n; c += COLUMNS)
        span_columns(COLUMNS, out + c * IG_GROUP, w, x + c, n, n_k);
    if (n - c == 2)
        span_columns(2, out + c * IG_GROUP, w, x + c, n, n_k);
    else if (n - c == 1)
        span_columns(1, out + c * IG_GROUP, w, x + c, n, n_k);
}

/* out [n][16] = group [16][K] times n columns in F32 tiles */
IG_INLINE void gemm_f32(ig_dtype dtype, float *out, const void *group, const void *acts,
                        int64_t n, int64_t k, void *scratch)
{
    memset(out, 0, (size_t)n * IG_GROUP * sizeof *out);
    for (int64_t k0 = 0; k0 < k; k0 += SPAN) {
        const int64_t n_k = k - k0 < SPAN ? k - k0 : SPAN;
        const float *w = expand_span(dtype, scratch, group, k0, n_k);
        const float *tile = acts;
        for (int64_t c = 0; c < n; c += IG_TILE, tile += k * IG_TILE) {
            const int64_t width = n - c < IG_TILE ? n - c : IG_TILE;
            span_tile(out + c * IG_GROUP, w, tile + k0 * width, width, n_k);
        }
    }
}

static void f32_q4_0(float *out, const void *group, const void *acts, int64_t n, int64_t k,
                     void *scratch)
{
    gemm_f32(IG_DTYPE_Q4_0, out, group, acts, n, k, scratch);
}

static void f32_q4_1(float *out, const void *group, const void *acts, int64_t n, int64_t k,
                     void *scratch)
{
    gemm_f32(IG_DTYPE_Q4_1, out, group, acts, n, k, scratch);
}

static void f32_q5_0(float *out, const void *group, const void *acts, int64_t n, int64_t k,
                     void *scratch)
{
    gemm_f32(IG_DTYPE_Q5_0, out, group, acts, n, k, scratch);
}

static void f32_q8_0(float *out, const void *group, const void *acts, int64_t n, int64_t k,
                     void *scratch)
{
    gemm_f32(IG_DTYPE_Q8_0, out, group, acts, n, k, scratch);
}

static void f32_q4_k(float *out, const void *group, const void *acts, int64_t n, int64_t k,
                     void *scratch)
{
    gemm_f32(IG_DTYPE_Q4_K, out, group, acts, n, k, scratch);
}

static void f32_q6_k(float *out, const void *group, const void *acts, int64_t n, int64_t k,
                     void *scratch)
{
    gemm_f32(IG_DTYPE_Q6_K, out, group, acts, n, k, scratch);
}

static void f32_f16(float *out, const void *group, const void *acts, int64_t n, int64_t k,
                    void *scratch)
{
    gemm_f32(IG_DTYPE_F16, out, group, acts, n, k, scratch);
}

static void f32_bf16(float *out, const void *group, const void *acts, int64_t n, int64_t k,
                     void *scratch)
{
    gemm_f32(IG_DTYPE_BF16, out, group, acts, n, k, scratch);
}

static void f32_f32(float *out, const void *group, const void *acts, int64_t n, int64_t k,
                    void *scratch)
{
    gemm_f32(IG_DTYPE_F32, out, group, acts, n, k, scratch);
}

void ig__gemm_float_kernels_avx2(ig__kernels *table)
{
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
