/* The rungs of docs/learn/gemm.md: one product, written seven times.
 *
 *     c [M,N] = a [M,K] b [K,N], f32, rows one after another
 *
 * A rung is one file; `room` is scratch of LADDER_ROOM(m, n, k) floats, aligned to 64 bytes.
 */
#ifndef INGOT_BENCH_LADDER_LADDER_H
#define INGOT_BENCH_LADDER_LADDER_H

#include <stdint.h>

typedef struct product {
    int64_t m, n, k;
    const float *a, *b;
    float *c, *room;
} product;

/* Both operands, their edges filled up. */
#define LADDER_ROOM(m, n, k) (((m) + 64) * ((k) + 64) + ((k) + 64) * ((n) + 64))

void rung_naive(const product *p);
void rung_order(const product *p);
void rung_tile(const product *p);
void rung_blocked(const product *p);
void rung_packed(const product *p);
void rung_vector(const product *p); /* needs AVX2 and FMA */

#endif
