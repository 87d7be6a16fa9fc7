/* Dense matrix products: C = alpha * A B + beta * C0 + bias, over batches of matrices.
 *
 *     A [M,K]   B [K,N]   C, C0 [M,N]   any strides: a transpose or a view needs no copy
 *
 * A plan is made once for a shape; it holds no pointer and takes no memory. Its work is a
 * number of pieces, parts of C that depend on nothing of one another: any thread may run any
 * of them, in any order, without a barrier; each once. Nothing here allocates, fails or starts
 * threads: scratch comes from the caller, one block a thread.
 *
 *     ig__mm_plan plan = ig__mm_plan_make(kernels, &problem, n_threads);
 *     each thread:  ig__mm_walk walk;
 *                   ig__mm_walk_begin(&walk, &plan, &data, scratch);   // plan.scratch_bytes
 *                   ig__mm_walk_run(&walk, begin, end);                // of plan.n_pieces
 *
 * SAME BITS. K is cut into spans by a rule that knows K alone; within a span an element of C
 * is one chain of multiply-adds in the order of K, and the spans' sums are added in order:
 *
 *     c = beta * c0 + alpha * s[0];   c = c + alpha * s[i];   at last c = c + bias
 *
 * So a row or column has the same bits whatever stands around it, and for any number of
 * threads and pieces. (C in 16 bits or without a stride of 1 adds beta * c0 last: it has
 * an order of its own.) Instruction sets differ in the last bits.
 */
#ifndef INGOT_KERNEL_MATMUL_H
#define INGOT_KERNEL_MATMUL_H

#include "kernel/kernel.h"

/* Where the elements of a matrix lie: (i, j) of matrix (p, q) of the batch is at
 * i * row + j * col + p * batch[0] + q * batch[1], in elements. Strides may be 0 (A, B, C0
 * repeated) or negative. */
typedef struct ig__mm_layout {
    ig__mm_type type;
    int64_t row, col, batch[2];
} ig__mm_layout;

/* Sums are f64 if A and B are both F64, else f32; BF16 times BF16 may use the units for it,
 * other mixes are widened to f32 (F64 mixes with F64 only). C is F64 with f64 sums, else
 * F32, BF16 or F16. */
typedef struct ig__mm_problem {
    int64_t m, n, k;    /* any may be 0; with k = 0 the product counts as 0 */
    int64_t n_batch[2]; /* matrices: n_batch[0] * n_batch[1] */
    ig__mm_layout a, b, c;
    double alpha, beta; /* with alpha = 0 A and B are not read, with beta = 0 C0 is not */
} ig__mm_problem;

typedef struct ig__mm_data {
    const void *a, *b;
    void *c;          /* overlaps neither a nor b */
    const void *c0;   /* laid out as c; NULL: c itself */
    const void *bias; /* [N] of the type of the sums; NULL: none. Shared by the batch */
    /* Panels of B that all threads pack once between them, where there is more than one block of
     * rows: the plan's shared_bytes, aligned to 64, of any content; NULL: each piece packs its own.
     * With them states [n_states], 0 before the first product, which leaves them so. */
    void *shared;
    unsigned char *states;
} ig__mm_data;

typedef struct ig__mm_plan {
    ig__mm_problem problem; /* perhaps transposed, or with its batch as rows */
    bool is_swapped;        /* bias goes along M */
    bool is_direct;         /* A is read where it lies */
    bool is_source;         /* B is read where it lies, packed on the way */
    bool is_fetched;        /* rows of B are lines, worth asking for ahead */
    bool is_deep;   /* all spans of a panel of B before the next panel; never is_direct */
    bool is_held;   /* the whole of A's rows is packed, to serve many pieces */
    bool is_staged; /* sums pass through scratch, since C's type or strides ask for it */
    const ig__mm_kernel *kernel;
    int64_t n_spans, span;             /* of K */
    int64_t n_blocks, n_columns;       /* pieces along M and N of a matrix */
    int64_t block_rows, piece_columns; /* largest piece */
    int64_t row_unit;                  /* blocks begin at multiples of this */
    size_t panel_bytes, stage_bytes;   /* scratch: the panel of B, the sums, then A */
    size_t scratch_bytes;              /* of each thread, aligned to 64 */
    size_t shared_bytes;               /* 0: nothing is worth sharing */
    int64_t n_states;                  /* 0: likewise */
    int64_t n_pieces;
} ig__mm_plan;

/* n_threads only guides the size of pieces. The sizes' products must fit an int64_t. */
ig__mm_plan ig__mm_plan_make(const ig__kernels *kernels, const ig__mm_problem *problem,
                             int n_threads);

/* One thread's way through the pieces of a product. */
typedef struct ig__mm_walk {
    const ig__mm_plan *plan;
    const ig__mm_data *data;
    char *scratch;
    int64_t held; /* the block of A's rows that scratch holds; -1: none */
} ig__mm_walk;

/* plan, data and scratch live as long as the walk; the matrices do not change during it. */
void ig__mm_walk_begin(ig__mm_walk *walk, const ig__mm_plan *plan, const ig__mm_data *data,
                       void *scratch);
void ig__mm_walk_run(ig__mm_walk *walk, int64_t begin, int64_t end);

#endif
