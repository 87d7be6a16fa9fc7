/* Products of F16 and BF16 weights with BF16 activations, by VDPBF16PS: two products a lane
 * and instruction, summed in f32 (denormals count as zero, as the instruction has it).
 *
 * K is cut into spans of 256 columns, 128 pairs. BF16 weights are used as they lie; a span
 * of F16 weights is rounded to bf16 first (8 KiB, it stays in L1). Then all activation
 * columns walk it, up to COLUMNS side by side. Within a span the pair's number mod 4 picks
 * one of four sums, since the instruction's latency is several times its throughput:
 *
 *   s[p mod 4] += w[2p] * x[2p] + w[2p+1] * x[2p+1]     p ascending
 *   out = out + ((s[0] + s[1]) + (s[2] + s[3]))         at the end of each span
 *
 * This is the one sequence for every n.
 */
#include "kernel/avx512/avx512_int.h"

#include <string.h>

enum { SUMS = 4, COLUMNS = 6 };

/* Two bf16 in every lane. */
IG_INLINE __m512bh pair_at(const void *p)
{
    return (__m512bh)ig__broadcast32(p);
}

/* out [n_c][16] += w [n_p][16][2] times x [n_p][n][2], its first n_c columns */
IG_INLINE void some_columns(float *out, const char *w, const char *x, int64_t n,
                            int64_t n_p, const int n_c)
{
    __m512 s[SUMS][COLUMNS];
    IG_UNROLL
    for (int i = 0; i < SUMS; i++) {
        IG_UNROLL
        for (int c = 0; c < n_c; c++)
            s[i][c] = _mm512_setzero_ps();
    }
    for (int64_t p = 0; p < n_p; p += SUMS) {
        IG_UNROLL
        for (int i = 0; i < SUMS; i++, w += 64, x += 4 * n) {
            const __m512bh line = (__m512bh)_mm512_loadu_si512(w);
            IG_UNROLL
            for (int c = 0; c < n_c; c++)
                s[i][c] = _mm512_dpbf16_ps(s[i][c], line, pair_at(x + 4 * c));
        }
    }
    IG_UNROLL
    for (int c = 0; c < n_c; c++) {
        const __m512 sum =
            _mm512_add_ps(_mm512_add_ps(s[0][c], s[1][c]), _mm512_add_ps(s[2][c], s[3][c]));
        _mm512_storeu_ps(out + 16 * c, _mm512_add_ps(_mm512_loadu_ps(out + 16 * c), sum));
    }
}

/* The n columns of a tile, x [n_p][n][2]. */
static void span_tile(float *out, const char *w, const char *x, int64_t n, int64_t n_p)
{
    int64_t c = 0;
    for (; c + COLUMNS <= n; c += COLUMNS)
        some_columns(out + 16 * c, w, x + 4 * c, n, n_p, COLUMNS);
    out += 16 * c;
    x += 4 * c;
    switch (n - c) {
    case 5:
        some_columns(out, w, x, n, n_p, 5);
        return;
    case 4:
        some_columns(out, w, x, n, n_p, 4);
        return;
    case 3:
        some_columns(out, w, x, n, n_p, 3);
        return;
    case 2:
        some_columns(out, w, x, n, n_p, 2);
        return;
    case 1:
        some_columns(out, w, x, n, n_p, 1);
        return;
    default:
        return;
    }
}

/* y [n_p][16][2] bf16 from f16, round to nearest even. */
static const char *round_span(char *y, const char *p, int64_t n_p)
{
    for (int64_t i = 0; i < 64 * n_p; i += 64) {
        const __m512 low = ig__load_f16(p + i);
        const __m512 high = ig__load_f16(p + i + 32);
        _mm512_storeu_si512(y + i, (__m512i)_mm512_cvtne2ps_pbh(high, low));
    }
    return y;
}

/* out = w * x^T for one group of 16 rows.
 *   out [n][16] f32   group [K/2][16][2]   acts: BF16 tiles of K values, n columns
 *   scratch: a span of F16 weights, 8 KiB or 32 * K bytes if that is less; 32*n*K flops */
IG_INLINE void gemm(float *out, const void *group, const void *acts, int64_t n, int64_t k,
                    void *scratch, const bool is_f16)
{
    memset(out, 0, (size_t)n * 16 * sizeof *out);
    for (int64_t k0 = 0; k0 < k; k0 += IG_SPAN) {
        const int64_t n_p = (k - k0 < IG_SPAN ? k - k0 : IG_SPAN) / 2;
        const char *w = (const char *)group + 32 * k0;
        if (is_f16)
            w = round_span(scratch, w, n_p);
        const char *tile = acts;
        for (int64_t c = 0; c < n; c += IG_TILE, tile += 2 * k * IG_TILE) {
            const int64_t width = n - c < IG_TILE ? n - c : IG_TILE;
            span_tile(out + 16 * c, w, tile + 2 * k0 * width, width, n_p);
        }
    }
}

void ig__avx512_gemm_bf16_f16(float *out, const void *group, const void *acts, int64_t n,
                              int64_t k, void *scratch)
{
    gemm(out, group, acts, n, k, scratch, true);
}

void ig__avx512_gemm_bf16_bf16(float *out, const void *group, const void *acts, int64_t n,
                               int64_t k, void *scratch)
{
    gemm(out, group, acts, n, k, scratch, false);
}
