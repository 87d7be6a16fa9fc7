/* The run-time values of a step: which tokens of which sequences, and where their cache lies.
 *
 * A plan is made once for a bound and run with any batch inside it. The batch is a ragged list of
 * rows (tokens) of several sequences; rows of one sequence stand together, in order of position.
 */
#ifndef INGOT_OP_BATCH_H
#define INGOT_OP_BATCH_H

#include "kernel/kernel.h"

enum { IG_INPUT_TOKENS, IG_INPUT_POSITIONS, IG_INPUT_LOGIT_ROWS, IG_INPUT_COUNT };

/* Where the KV pages of a model's layers lie: page p of head g of layer i is at
 * layers[i] + g * page_bytes + p * page_stride. */
typedef struct ig__cache {
    ig__kv kv;
    int64_t n_layers, n_heads, width; /* G, W */
    size_t page_bytes, page_stride;
    char *const *layers; /* [n_layers] */
} ig__cache;

/* A piece of attention work: up to IG_TILE consecutive rows of one sequence. */
typedef struct ig__attend_unit {
    int64_t row, n_rows;
    int64_t position;     /* of the first row */
    const int32_t *table; /* pages of the sequence */
} ig__attend_unit;

typedef struct ig__batch {
    int64_t n_tokens, n_logits;
    const int32_t *inputs[IG_INPUT_COUNT]; /* tokens [T], positions [T], logit rows [R] */
    const int32_t *const *tables;          /* [T] the page table of each row's sequence */
    const ig__cache *cache;

    /* Attention: units, walked whole (an item is a unit and a head), or, when there are too few of them to keep
     * the threads busy, cut into spans of IG_KEY_SPAN keys (an item is a unit, a head and a span),
     * whose partial results `attend_join` joins in order. Either way gives the same bits. */
    const ig__attend_unit *units; /* [n_units] */
    int64_t n_units;
    bool split;
    int64_t n_spans; /* of the longest sequence; 1 unless split */
} ig__batch;

/* Floats of the partials of one row of H heads: whole rows [H][W]; cut ones
 * [H][n_spans][W + 2]: m, l, acc. */
static inline int64_t ig__partials_row(int64_t h, int64_t w, int64_t n_spans, bool split)
{
    return split ? h * n_spans * (w + 2) : h * w;
}

/* Rows for which a batch may be cut into spans. */
enum { IG_SPLIT_ROWS = 8 };

#endif
