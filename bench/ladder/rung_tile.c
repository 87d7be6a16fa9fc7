/* Rung 3: a tile of sums stays in registers while K passes.
 *
 * A value of A now serves 8 sums and one of B 4: 12 loads for 32 multiply-adds instead of 2 for
 * 1, and C is written once.
 */
#include "ladder.h"
#include "ladder_tile.h"

void rung_tile(const product *p)
{
    for (int64_t i = 0; i < p->m; i += TILE_ROWS)
        for (int64_t j = 0; j < p->n; j += TILE_COLUMNS)
            tile(p->c + i * p->n + j, p->n, p->a + i * p->k, p->k, 1, p->b + j, p->n, p->k,
                 ladder_min(TILE_ROWS, p->m - i), ladder_min(TILE_COLUMNS, p->n - j), 0);
}
