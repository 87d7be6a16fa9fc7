/* Passes over a captured graph: patterns of plain operators, and the fused rows that they become.
 *
 * A pass copies a graph node by node; at each node it may put something else in its place. Dead
 * nodes are dropped after each pass and the result is checked. Each pass but the needed ones
 * ("cache", "pack") can be left out, and the graph computes the same.
 */
#ifndef INGOT_COMPILE_PASS_H
#define INGOT_COMPILE_PASS_H

#include "graph/graph.h"

typedef struct ig__compile_opts {
    const ig__kernels *kernels; /* whose activation formats products want */
    bool exact;                 /* float32 activations in every product */
    uint32_t without;           /* bit i: leave pass i out */
} ig__compile_opts;

typedef struct ig__rewrite ig__rewrite;

typedef struct ig__pass {
    const char *name;
    /* The value in the new graph that stands for node's result, or IG_NO_VALUE to copy the node. */
    ig__value (*at)(ig__rewrite *r, const ig__node *node);
} ig__pass;

/* In the order in which they run; the last has no name. */
extern const ig__pass ig__passes[];

/* Run the passes over `from`; *to is initialised here and shares from's parameters' data. `dump`
 * (may be NULL) is called with the graph after each pass. */
typedef void ig__dump(void *user, const char *pass, const ig__graph *g);
ig_status ig__compile(ig__graph *to, const ig__graph *from, const ig__compile_opts *opts,
                      ig__dump *dump, void *user, ig_error *err);

#endif
