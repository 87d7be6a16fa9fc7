/* Packing of bf16 to pairs: two neighbours of K are one 32-bit value, which is packed as an
 * f32 is. Values side by side along K are pairs where they lie and are transposed; of
 * values side by side along the rows two lines are joined.
 */
#include "kernel/avx512/matmul_avx512.h"

enum { MR = IG_MM_ROWS_AVX512, NR = IG_MM_COLUMNS_AVX512, CHUNK = 32 };

/* n <= 32 values from x on, zeros behind. */
IG_MM_INLINE __m512 read_values(const uint16_t *x, int64_t n)
{
    const __mmask32 mask = n >= 32 ? 0xffffffffu : n <= 0 ? 0 : (__mmask32)((1u << n) - 1);
    return _mm512_castsi512_ps(_mm512_maskz_loadu_epi16(mask, x));
}

/* h <= 16 rows side by side along K: y [k/2] lines of pairs, `stride` pairs apart, stored whole. */
static void pack_transposed(float *y, const uint16_t *x, int64_t row, int64_t h, int64_t k,
                            int64_t stride)
{
    for (int64_t j = 0; j < k; j += CHUNK) {
        const int64_t n = (k - j + 1) / 2;
        __m512 in[16], out[16];
        IG_MM_UNROLL
        for (int i = 0; i < 16; i++)
            in[i] = i < h ? read_values(x + i * row + j, k - j) : _mm512_setzero_ps();
        ig__mm_transpose_avx512(out, in);
        IG_MM_UNROLL
        for (int i = 0; i < 16; i++)
            if (i < n)
                _mm512_storeu_ps(y + (j / 2 + i) * stride, out[i]);
    }
}

/* h <= 16 rows that lie side by side, value k at k * step. */
static void pack_joined(float *y, const uint16_t *x, int64_t step, int64_t h, int64_t k,
                        int64_t stride)
{
    const __mmask16 mask = ig__mm_mask16(h);
    for (int64_t j = 0; j < k; j += 2) {
        const __mmask16 second = j + 1 < k ? mask : 0;
        const uint16_t *from = x + j * step;
        const __m256i lo = _mm256_maskz_loadu_epi16(mask, from);
        const __m256i hi = _mm256_maskz_loadu_epi16(second, from + (j + 1 < k ? step : 0));
        _mm512_storeu_ps(y + j / 2 * stride, ig__mm_join_pairs_avx512(lo, hi));
    }
}

static void pack_plain(float *y, const uint16_t *x, int64_t row, int64_t step, int64_t h,
                       int64_t k, int64_t stride)
{
    for (int64_t j = 0; j < k; j += 2)
        for (int64_t i = 0; i < h; i++) {
            const uint32_t lo = x[i * row + j * step];
            const uint32_t hi = j + 1 < k ? x[i * row + (j + 1) * step] : 0;
            const uint32_t pair = lo | hi << 16;
            __builtin_memcpy(y + j / 2 * stride + i, &pair, sizeof pair);
        }
}

/* h <= 16 rows or columns, `stride` pairs from one k to the next. */
static void pack_lines(float *y, const uint16_t *x, int64_t row, int64_t step, int64_t h,
                       int64_t k, int64_t stride)
{
    if (step == 1)
        pack_transposed(y, x, row, h, k, stride);
    else if (row == 1)
        pack_joined(y, x, step, h, k, stride);
    else
        pack_plain(y, x, row, step, h, k, stride);
}

void ig__mm_pack_a_pairs_avx512(void *to, const void *from, int64_t row, int64_t step,
                                int64_t m, int64_t k)
{
    float *y = to;
    const uint16_t *x = from;
    const int64_t n_slices = ig__mm_slices(m, MR);
    for (int64_t s = 0; s < n_slices; s++) {
        const int64_t begin = ig__mm_slice_begin(m, n_slices, s);
        const int64_t h = ig__mm_slice_begin(m, n_slices, s + 1) - begin;
        pack_lines(y, x + begin * row, row, step, h, k, h);
        y += h * ((k + 1) / 2);
    }
}

/* A panel of n <= 32 columns that lie side by side: two lines of 32 are joined at once. */
static void pack_panel(float *y, const uint16_t *x, int64_t step, int64_t n, int64_t k)
{
    uint16_t order[2][32];
    for (int i = 0; i < 32; i++) {
        order[0][i] = (uint16_t)(i / 2 + i % 2 * 32);
        order[1][i] = (uint16_t)(16 + i / 2 + i % 2 * 32);
    }
    const __m512i first = _mm512_loadu_si512(order[0]),
                  second = _mm512_loadu_si512(order[1]);
    const __mmask32 mask = n >= 32 ? 0xffffffffu : (__mmask32)((1u << n) - 1);
    for (int64_t j = 0; j < k; j += 2) {
        const uint16_t *from = x + j * step;
        const __m512i lo = _mm512_maskz_loadu_epi16(mask, from);
        const __m512i hi = j + 1 < k ? _mm512_maskz_loadu_epi16(mask, from + step)
                                     : _mm512_setzero_si512();
        _mm512_storeu_si512(y + j / 2 * NR, _mm512_permutex2var_epi16(lo, first, hi));
        _mm512_storeu_si512(y + j / 2 * NR + 16, _mm512_permutex2var_epi16(lo, second, hi));
    }
}

void ig__mm_pack_b_pairs_avx512(void *to, const void *from, int64_t row, int64_t step,
                                int64_t n, int64_t k)
{
    float *y = to;
    const uint16_t *x = from;
    const int64_t end = (k + CHUNK - 1) / CHUNK * CHUNK / 2;
    const bool are_lines = row == 1 && step != 1;
    if (!are_lines && (n < NR || step != 1))
        for (int64_t j = 0; j < end; j++)
            for (int64_t i = 0; i < NR; i += 16)
                _mm512_storeu_ps(y + j * NR + i, _mm512_setzero_ps());
    if (are_lines)
        pack_panel(y, x, step, n, k);
    else
        pack_lines(y, x, row, step, n < 16 ? n : 16, k, NR);
    if (!are_lines && n > 16)
        pack_lines(y + 16, x + 16 * row, row, step, n - 16, k, NR);
    for (int64_t j = (k + 1) / 2; j < end; j++)
        for (int64_t i = 0; i < NR; i += 16)
            _mm512_storeu_ps(y + j * NR + i, _mm512_setzero_ps());
}
