/* Packing of f32, bf16 and f16 to f32 slices and panels.
 *
 * Values that lie side by side along the rows (columns) of a slice are copied line by line;
 * those that lie side by side along K are transposed, 16 x 16 at a time: these are stored
 * whole and in order: what one line writes too much the next overwrites, and a packed block has
 * 64 bytes of room behind it.
 */
#include "kernel/avx512/matmul_avx512.h"

#define MR IG_MM_ROWS_AVX512
#define NR IG_MM_COLUMNS_AVX512

enum { LINES = 16 };

/* 16 values from i on; those without a bit in `mask` are 0 and not read. */
IG_MM_INLINE __m512 read_line(const void *x, int64_t i, __mmask16 mask,
                              const ig__mm_type type)
{
    if (type == IG__MM_F32)
        return _mm512_maskz_loadu_ps(mask, (const float *)x + i);
    const __m256i h = _mm256_maskz_loadu_epi16(mask, (const uint16_t *)x + i);
    if (type == IG__MM_F16)
        return _mm512_cvtph_ps(h);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
}

/* h <= 16 rows side by side along K, row i at i * row: y [k] lines of h, `stride` apart.
 * Lines are stored whole. */
IG_MM_INLINE void pack_transposed(float *y, const void *x, int64_t at, int64_t row,
                                  int64_t h, int64_t k, int64_t stride,
                                  const ig__mm_type type)
{
    for (int64_t j = 0; j < k; j += 16) {
        const int64_t n = k - j < 16 ? k - j : 16;
        const __mmask16 mask = ig__mm_mask16(n);
        __m512 in[16], out[16];
        IG_MM_UNROLL
        for (int i = 0; i < 16; i++)
            in[i] =
                i < h ? read_line(x, at + i * row + j, mask, type) : _mm512_setzero_ps();
        ig__mm_transpose_avx512(out, in);
        if (n == 16) {
            IG_MM_UNROLL
            for (int i = 0; i < 16; i++)
                _mm512_storeu_ps(y + (j + i) * stride, out[i]);
        } else {
            IG_MM_UNROLL
            for (int i = 0; i < 16; i++)
                if (i < n)
                    _mm512_storeu_ps(y + (j + i) * stride, out[i]);
        }
    }
}

/* m values side by side, k lines of them `step` apart. A few lines for all slices, then the next few:
 * read from end to end a line is fetched ahead, which a slice's part of many lines is not. */
IG_MM_INLINE void pack_lines(float *y, const void *x, int64_t step, int64_t m, int64_t k,
                             const ig__mm_type type)
{
    const int64_t n_slices = ig__mm_slices(m, MR);
    for (int64_t j = 0; j < k; j += LINES) {
        const int64_t end = k - j < LINES ? k : j + LINES;
        for (int64_t s = 0; s < n_slices; s++) {
            const int64_t begin = ig__mm_slice_begin(m, n_slices, s);
            const int64_t h = ig__mm_slice_begin(m, n_slices, s + 1) - begin;
            const __mmask16 mask = ig__mm_mask16(h);
            float *to = y + begin * k;
            for (int64_t i = j; i < end; i++)
                _mm512_mask_storeu_ps(to + i * h, mask,
                                      read_line(x, begin + i * step, mask, type));
        }
    }
}

IG_MM_INLINE void pack_a(void *to, const void *from, int64_t row, int64_t step, int64_t m,
                         int64_t k, const ig__mm_type type)
{
    float *y = to;
    if (row != 1 && step != 1) {
        ig__mm_pack_a_f32(y, from, row, step, m, k, MR, type);
        return;
    }
    if (step != 1) {
        pack_lines(y, from, step, m, k, type);
        return;
    }
    const int64_t n_slices = ig__mm_slices(m, MR);
    for (int64_t s = 0; s < n_slices; s++) {
        const int64_t begin = ig__mm_slice_begin(m, n_slices, s);
        const int64_t h = ig__mm_slice_begin(m, n_slices, s + 1) - begin;
        pack_transposed(y, from, begin * row, row, h, k, h, type);
        y += h * k;
    }
}

IG_MM_INLINE void pack_b(void *to, const void *from, int64_t row, int64_t step, int64_t n,
                         int64_t k, const ig__mm_type type)
{
    float *y = to;
    if (step == 1) {
        pack_transposed(y, from, 0, row, n < 16 ? n : 16, k, NR, type);
        pack_transposed(y + 16, from, 16 * row, row, n - 16, k, NR, type);
    } else if (row == 1) {
        const __mmask16 lo = ig__mm_mask16(n), hi = ig__mm_mask16(n - 16);
        for (int64_t j = 0; j < k; j++) {
            _mm512_storeu_ps(y + j * NR, read_line(from, j * step, lo, type));
            _mm512_storeu_ps(y + j * NR + 16, read_line(from, j * step + 16, hi, type));
        }
    } else {
        ig__mm_pack_b_f32(y, from, row, step, n, k, NR, type);
    }
}

void ig__mm_pack_a_f32_avx512(void *to, const void *from, int64_t row, int64_t step,
                              int64_t m, int64_t k)
{
    pack_a(to, from, row, step, m, k, IG__MM_F32);
}

void ig__mm_pack_a_bf16_avx512(void *to, const void *from, int64_t row, int64_t step,
                               int64_t m, int64_t k)
{
    pack_a(to, from, row, step, m, k, IG__MM_BF16);
}

void ig__mm_pack_a_f16_avx512(void *to, const void *from, int64_t row, int64_t step,
                              int64_t m, int64_t k)
{
    pack_a(to, from, row, step, m, k, IG__MM_F16);
}

void ig__mm_pack_b_f32_avx512(void *to, const void *from, int64_t row, int64_t step,
                              int64_t n, int64_t k)
{
    pack_b(to, from, row, step, n, k, IG__MM_F32);
}

void ig__mm_pack_b_bf16_avx512(void *to, const void *from, int64_t row, int64_t step,
                               int64_t n, int64_t k)
{
    pack_b(to, from, row, step, n, k, IG__MM_BF16);
}

void ig__mm_pack_b_f16_avx512(void *to, const void *from, int64_t row, int64_t step,
                              int64_t n, int64_t k)
{
    pack_b(to, from, row, step, n, k, IG__MM_F16);
}

/* Rounding in integers: a carry runs into the exponent, a NaN is made quiet. */
void ig__mm_narrow_bf16_avx512(void *to, const float *x, int64_t n)
{
    uint16_t *y = to;
    const __m512i half = _mm512_set1_epi32(0x7fff), one = _mm512_set1_epi32(1);
    for (int64_t i = 0; i < n; i += 16) {
        const __mmask16 mask = ig__mm_mask16(n - i);
        const __m512 value = _mm512_maskz_loadu_ps(mask, x + i);
        const __m512i bits = _mm512_castps_si512(value);
        const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), one);
        __m512i sum = _mm512_add_epi32(bits, _mm512_add_epi32(half, odd));
        const __mmask16 is_nan = _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q);
        sum = _mm512_mask_or_epi32(sum, is_nan, bits, _mm512_set1_epi32(0x400000));
        _mm256_mask_storeu_epi16(y + i, mask,
                                 _mm512_cvtepi32_epi16(_mm512_srli_epi32(sum, 16)));
    }
}

void ig__mm_narrow_f16_avx512(void *to, const float *x, int64_t n)
{
    uint16_t *y = to;
    for (int64_t i = 0; i < n; i += 16) {
        const __mmask16 mask = ig__mm_mask16(n - i);
        const __m512 value = _mm512_maskz_loadu_ps(mask, x + i);
        _mm256_mask_storeu_epi16(
            y + i, mask,
            _mm512_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
    }
}
