/* Rung 2: the same three loops in another order: row i of C gathers rows of B.
 *
 * All of the inner loop lies side by side, and its sums do not wait for one another: the compiler
 * makes vectors of it. But C is read and written for every multiply-add.
 */
#include "ladder.h"

void rung_order(const product *p)
{
    for (int64_t i = 0; i < p->m; i++) {
        float *restrict c = p->c + i * p->n;
        for (int64_t j = 0; j < p->n; j++)
            c[j] = 0.0f;
        for (int64_t k = 0; k < p->k; k++) {
            const float x = p->a[i * p->k + k];
            const float *b = p->b + k * p->n;
            for (int64_t j = 0; j < p->n; j++)
                c[j] += x * b[j];
        }
    }
}
