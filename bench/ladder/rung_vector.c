/* Rung 6: the tile by vector instructions: 6 rows of two vectors of 8, fused multiply-add.
 *
 * 12 sums are enough to keep two units busy whose results take 4 cycles; two vectors of B and
 * a value of A fill the 16 registers.
 */
#include "ladder.h"

#include <immintrin.h>

enum { ROWS = 6, COLUMNS = 16, K_BLOCK = 256 };

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void pack_b(float *y, const product *p, int64_t kk, int64_t n_k)
{
    for (int64_t j = 0; j < p->n; j += COLUMNS)
        for (int64_t k = kk; k < kk + n_k; k++)
            for (int64_t i = j; i < j + COLUMNS; i++)
                *y++ = i < p->n ? p->b[k * p->n + i] : 0.0f;
}

static void pack_a(float *y, const product *p, int64_t kk, int64_t n_k)
{
    for (int64_t i = 0; i < p->m; i += ROWS)
        for (int64_t k = kk; k < kk + n_k; k++)
            for (int64_t r = i; r < i + ROWS; r++)
                *y++ = r < p->m ? p->a[r * p->k + k] : 0.0f;
}

/* room [ROWS][COLUMNS] = a [k][ROWS] times b [k][COLUMNS] */
static void tile(float *room, const float *a, const float *b, int64_t n_k)
{
    __m256 s[ROWS][2];
#pragma GCC unroll 6
    for (int i = 0; i < ROWS; i++)
        s[i][0] = s[i][1] = _mm256_setzero_ps();
    for (int64_t k = 0; k < n_k; k++, a += ROWS, b += COLUMNS) {
        const __m256 b0 = _mm256_loadu_ps(b), b1 = _mm256_loadu_ps(b + 8);
#pragma GCC unroll 6
        for (int i = 0; i < ROWS; i++) {
            const __m256 x = _mm256_set1_ps(a[i]);
            s[i][0] = _mm256_fmadd_ps(x, b0, s[i][0]);
            s[i][1] = _mm256_fmadd_ps(x, b1, s[i][1]);
        }
    }
#pragma GCC unroll 6
    for (int i = 0; i < ROWS; i++) {
        _mm256_storeu_ps(room + i * COLUMNS, s[i][0]);
        _mm256_storeu_ps(room + i * COLUMNS + 8, s[i][1]);
    }
}

void rung_vector(const product *p)
{
    float *b = p->room, *a = b + (p->n + COLUMNS) * K_BLOCK;
    for (int64_t kk = 0; kk < p->k; kk += K_BLOCK) {
        const int64_t n_k = least(K_BLOCK, p->k - kk);
        pack_b(b, p, kk, n_k);
        pack_a(a, p, kk, n_k);
        for (int64_t j = 0; j < p->n; j += COLUMNS)
            for (int64_t i = 0; i < p->m; i += ROWS) {
                float sums[ROWS * COLUMNS];
                tile(sums, a + i * n_k, b + j * n_k, n_k);
                const int64_t h = least(ROWS, p->m - i), w = least(COLUMNS, p->n - j);
                for (int64_t r = 0; r < h; r++) {
                    float *restrict c = p->c + (i + r) * p->n + j;
                    for (int64_t x = 0; x < w; x++)
                        c[x] = sums[r * COLUMNS + x] + (kk ? c[x] : 0.0f);
                }
            }
    }
}
