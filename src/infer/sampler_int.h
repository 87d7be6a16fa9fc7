/* What a sampler holds.
 */
#ifndef INGOT_INFER_SAMPLER_INT_H
#define INGOT_INFER_SAMPLER_INT_H

#include "ingot/sampler.h"

/* The tokens that penalties see, counted. All pointers are NULL when nobody looks.
 * Invariant: distinct[0..n_distinct) are the ids with count > 0, each once, and
 * distinct[where[id]] == id for them. */
typedef struct ig__window {
    int32_t *count;    /* [V] */
    int32_t *where;    /* [V]; meaningful where count > 0 */
    int32_t *distinct; /* [V] */
    int64_t n_distinct;
    int32_t *ring; /* [cap] the window's tokens in order; NULL: no token ever leaves */
    int64_t cap, n_ring, next;
} ig__window;

struct ig_sampler {
    ig_allocator allocator;
    ig_sampler_opts opts; /* .bias is NULL: the copy is below */
    int64_t vocab;
    int64_t top_k; /* 0: off, or all */
    bool greedy;
    uint64_t stream; /* of the seed; 0 unless set */
    uint64_t n_draws;
    ig__window window;
    ig_logit_bias *bias; /* [opts.n_bias] */
    float *changed;      /* [V]; NULL: nothing ever changes a logit */
    ig_logprob *set;     /* [top_k or V]; NULL: greedy */
};

/* Draw from another stream of random numbers of the same seed: for several samples. */
void ig__sampler_set_stream(ig_sampler *sampler, uint64_t stream);

#endif
