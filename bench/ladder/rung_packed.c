/* Rung 5: both operands are copied into the order in which the tile reads them.
 *
 * In place, rows of B lie a whole row of memory apart: another page each, and with sizes that are powers of two
 * the same few sets of the cache. Packed, a tile reads two streams.
 */
#include "ladder.h"
#include "ladder_tile.h"

enum { K_BLOCK = 256 };

/* Panels [k][8] of B's rows kk .. kk + n_k, zeros past the last column. */
static void pack_b(float *y, const product *p, int64_t kk, int64_t n_k)
{
    for (int64_t j = 0; j < p->n; j += TILE_COLUMNS)
        for (int64_t k = kk; k < kk + n_k; k++)
            for (int64_t i = j; i < j + TILE_COLUMNS; i++)
                *y++ = i < p->n ? p->b[k * p->n + i] : 0.0f;
}

/* Slices [k][4] of A's columns kk .. kk + n_k. */
static void pack_a(float *y, const product *p, int64_t kk, int64_t n_k)
{
    for (int64_t i = 0; i < p->m; i += TILE_ROWS)
        for (int64_t k = kk; k < kk + n_k; k++)
            for (int64_t r = i; r < i + TILE_ROWS; r++)
                *y++ = r < p->m ? p->a[r * p->k + k] : 0.0f;
}

void rung_packed(const product *p)
{
    float *b = p->room, *a = b + (p->n + TILE_COLUMNS) * K_BLOCK;
    for (int64_t kk = 0; kk < p->k; kk += K_BLOCK) {
        const int64_t n_k = ladder_min(K_BLOCK, p->k - kk);
        pack_b(b, p, kk, n_k);
        pack_a(a, p, kk, n_k);
        for (int64_t j = 0; j < p->n; j += TILE_COLUMNS) /* a panel stays in L1 */
            for (int64_t i = 0; i < p->m; i += TILE_ROWS)
                tile(p->c + i * p->n + j, p->n, a + i * n_k, 1, TILE_ROWS, b + j * n_k,
                     TILE_COLUMNS, n_k, ladder_min(TILE_ROWS, p->m - i),
                     ladder_min(TILE_COLUMNS, p->n - j), kk > 0);
    }
}
