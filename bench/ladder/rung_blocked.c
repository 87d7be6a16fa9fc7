/* Rung 4: blocks that stay in the caches.
 *
 * Of B a block [K_BLOCK][N_BLOCK] is used for all rows of A before the next one comes, so that it is read
 * from the second-level cache and not from memory for every four rows.
 */
#include "ladder.h"
#include "ladder_tile.h"

enum { K_BLOCK = 256, N_BLOCK = 256 };

void rung_blocked(const product *p)
{
    for (int64_t jj = 0; jj < p->n; jj += N_BLOCK)
        for (int64_t kk = 0; kk < p->k; kk += K_BLOCK)
            for (int64_t i = 0; i < p->m; i += TILE_ROWS)
                for (int64_t j = jj; j < ladder_min(jj + N_BLOCK, p->n); j += TILE_COLUMNS)
                    tile(p->c + i * p->n + j, p->n, p->a + i * p->k + kk, p->k, 1,
                         p->b + kk * p->n + j, p->n, ladder_min(K_BLOCK, p->k - kk),
                         ladder_min(TILE_ROWS, p->m - i),
                         ladder_min(TILE_COLUMNS, p->n - j), kk > 0);
}
