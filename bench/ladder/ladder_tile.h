/* A tile of 4 x 8 sums in registers, as rungs 3 to 5 use it. */
#ifndef INGOT_BENCH_LADDER_LADDER_TILE_H
#define INGOT_BENCH_LADDER_LADDER_TILE_H

#include <stdint.h>

#include <string.h>

enum { TILE_ROWS = 4, TILE_COLUMNS = 8 };

/* Half a row of the tile: four floats, which are a vector on most machines. */
typedef float tile_floats __attribute__((vector_size(16)));

/* c (or the sums that are there, with `adds`) = h rows of a times w columns of b.
 * a: (i, k) at i * a_row + k * a_k; b: row k at k * b_row */
static inline void tile(float *c, int64_t c_row, const float *a, int64_t a_row, int64_t a_k,
                        const float *b, int64_t b_row, int64_t n_k, int64_t h, int64_t w,
                        int adds)
{
    float s[TILE_ROWS][TILE_COLUMNS] = {{0}};
    if (h == TILE_ROWS && w == TILE_COLUMNS) {
        tile_floats sum[TILE_ROWS][2] = {{{0}}}; /* stays in registers */
        for (int64_t k = 0; k < n_k; k++) {
            tile_floats x[2];
            memcpy(x, b + k * b_row, sizeof x);
#pragma GCC unroll 4
            for (int i = 0; i < TILE_ROWS; i++) {
                const float y = a[i * a_row + k * a_k];
                sum[i][0] += x[0] * y;
                sum[i][1] += x[1] * y;
            }
        }
        memcpy(s, sum, sizeof s);
    } else {
        for (int64_t k = 0; k < n_k; k++)
            for (int64_t i = 0; i < h; i++)
                for (int64_t j = 0; j < w; j++)
                    s[i][j] += a[i * a_row + k * a_k] * b[k * b_row + j];
    }
    for (int64_t i = 0; i < h; i++)
        for (int64_t j = 0; j < w; j++)
            c[i * c_row + j] = s[i][j] + (adds ? c[i * c_row + j] : 0.0f);
}

static inline int64_t ladder_min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

#endif
