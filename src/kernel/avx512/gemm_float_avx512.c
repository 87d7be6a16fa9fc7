/* Products with F32 activations, for every weight type: the exact path, and that of F32.
 *
 * K is cut into spans of 256 columns. A span of weights is expanded to f32 [256][16] (16
 * KiB, it stays in L1; F32 weights lie so already), then all activation columns walk it, up
 * to COLUMNS side by side. Within a span k mod 4 picks one of four sums, which keeps the FMA
 * units busy with one column too:
 *
 *   s[k mod 4] = fma(w[k], x[k], s[k mod 4])      k ascending
 *   out = out + ((s[0] + s[1]) + (s[2] + s[3]))   at the end of each span
 *
 * This is the one sequence for every n.
 */
#include "kernel/avx512/avx512_int.h"

#include <string.h>

enum { SUMS = 4, COLUMNS = 6 };

/* out [n_c][16] += w [n_k][16] times x [n_k][n], its first n_c columns */
IG_INLINE void some_columns(float *out, const float *w, const float *x, int64_t n,
                            int64_t n_k, const int n_c)
{
    __m512 s[SUMS][COLUMNS];
    IG_UNROLL
    for (int i = 0; i < SUMS; i++) {
        IG_UNROLL
        for (int c = 0; c < n_c; c++)
            s[i][c] = _mm512_setzero_ps();
    }
    for (int64_t k = 0; k < n_k; k += SUMS) {
        IG_UNROLL
        for (int i = 0; i < SUMS; i++, w += 16, x += n) {
            const __m512 line = _mm512_loadu_ps(w);
            IG_UNROLL
            for (int c = 0; c < n_c; c++)
                s[i][c] = _mm512_fmadd_ps(line, _mm512_set1_ps(x[c]), s[i][c]);
        }
    }
    IG_UNROLL
    for (int c = 0; c < n_c; c++) {
        const __m512 sum =
            _mm512_add_ps(_mm512_add_ps(s[0][c], s[1][c]), _mm512_add_ps(s[2][c], s[3][c]));
        _mm512_storeu_ps(out + 16 * c, _mm512_add_ps(_mm512_loadu_ps(out + 16 * c), sum));
    }
}

/* The n columns of a tile, x [n_k][n]. */
static void span_tile(float *out, const float *w, const float *x, int64_t n, int64_t n_k)
{
    int64_t c = 0;
    for (; c + COLUMNS <= n; c += COLUMNS)
        some_columns(out + 16 * c, w, x + c, n, n_k, COLUMNS);
    out += 16 * c;
    x += c;
    switch (n - c) {
    case 5:
        some_columns(out, w, x, n, n_k, 5);
        return;
    case 4:
        some_columns(out, w, x, n, n_k, 4);
        return;
    case 3:
        some_columns(out, w, x, n, n_k, 3);
        return;
    case 2:
        some_columns(out, w, x, n, n_k, 2);
        return;
    case 1:
        some_columns(out, w, x, n, n_k, 1);
        return;
    default:
        return;
    }
}

/* out = w * x^T for one group of 16 rows.
 *   out [n][16] f32   acts: F32 tiles of K values, n columns   scratch: a span, 16 KiB or
 *   64 * K bytes if that is less; 32*n*K flops */
void ig__avx512_gemm_floats(float *out, const void *group, const void *acts, int64_t n,
                            int64_t k, void *scratch, ig__floats_fn *floats)
{
    memset(out, 0, (size_t)n * 16 * sizeof *out);
    for (int64_t k0 = 0; k0 < k; k0 += IG_SPAN) {
        const int64_t n_k = k - k0 < IG_SPAN ? k - k0 : IG_SPAN;
        const float *w = floats(scratch, group, k0, n_k);
        const float *tile = acts;
        for (int64_t c = 0; c < n; c += IG_TILE, tile += k * IG_TILE) {
            const int64_t width = n - c < IG_TILE ? n - c : IG_TILE;
            span_tile(out + 16 * c, w, tile + k0 * width, width, n_k);
        }
    }
}

static const float *floats_f32(float *room, const void *group, int64_t k0, int64_t n_k)
{
    (void)room, (void)n_k;
    return (const float *)group + 16 * k0;
}

/* A line of pairs (k, k+1) of 16 rows becomes two lines. */
static const float *floats_f16(float *room, const void *group, int64_t k0, int64_t n_k)
{
    const char *p = (const char *)group + 32 * k0;
    const __m512i even =
        _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
    const __m512i odd = _mm512_or_si512(even, _mm512_set1_epi32(1));
    for (int64_t k = 0; k < n_k; k += 2, p += 64) {
        const __m512 a = ig__load_f16(p);      /* rows 0 0 1 1 .. 7 7 */
        const __m512 b = ig__load_f16(p + 32); /* rows 8 8 .. 15 15 */
        _mm512_storeu_ps(room + 16 * k, _mm512_permutex2var_ps(a, even, b));
        _mm512_storeu_ps(room + 16 * k + 16, _mm512_permutex2var_ps(a, odd, b));
    }
    return room;
}

static const float *floats_bf16(float *room, const void *group, int64_t k0, int64_t n_k)
{
    const char *p = (const char *)group + 32 * k0;
    const __m512i upper = _mm512_set1_epi32((int32_t)0xffff0000);
    for (int64_t k = 0; k < n_k; k += 2, p += 64) {
        const __m512i pair = _mm512_loadu_si512(p);
        _mm512_storeu_si512(room + 16 * k, _mm512_slli_epi32(pair, 16));
        _mm512_storeu_si512(room + 16 * k + 16, _mm512_and_si512(pair, upper));
    }
    return room;
}

void ig__avx512_gemm_f32_f32(float *out, const void *group, const void *acts, int64_t n,
                             int64_t k, void *scratch)
{
    ig__avx512_gemm_floats(out, group, acts, n, k, scratch, floats_f32);
}

void ig__avx512_gemm_f32_f16(float *out, const void *group, const void *acts, int64_t n,
                             int64_t k, void *scratch)
{
    ig__avx512_gemm_floats(out, group, acts, n, k, scratch, floats_f16);
}

void ig__avx512_gemm_f32_bf16(float *out, const void *group, const void *acts, int64_t n,
                              int64_t k, void *scratch)
{
    ig__avx512_gemm_floats(out, group, acts, n, k, scratch, floats_bf16);
}
