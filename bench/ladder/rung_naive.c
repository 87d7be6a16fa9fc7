/* Rung 1: the definition. Three loops, one sum at a time.
 *
 * The inner loop reads a row of A, and a column of B: each value of it lies in another cache line, and
 * each sum waits for the one before.
 */
#include "ladder.h"

void rung_naive(const product *p)
{
    for (int64_t i = 0; i < p->m; i++)
        for (int64_t j = 0; j < p->n; j++) {
            float sum = 0.0f;
            for (int64_t k = 0; k < p->k; k++)
                sum += p->a[i * p->k + k] * p->b[k * p->n + j];
            p->c[i * p->n + j] = sum;
        }
}
