/* Plans: a graph made ready to run any number of times, without allocation.
 *
 * A plan is made for a bound (rows of each symbol, keys a sequence may have) and run with batches inside it. It
 * owns all memory of the values: one shared arena, and a small private one a thread for values that each
 * thread computes for itself. It is run by the context's team.
 *
 * Two modes, chosen by each batch: SMALL (at most IG_SMALL_ROWS rows: decoding), where steps that walk by
 * rows are computed by every thread for itself and need no barrier; LARGE, where they are shared out.
 */
#ifndef INGOT_EXEC_PLAN_H
#define INGOT_EXEC_PLAN_H

#include "graph/graph.h"
#include "tensor/context.h"

typedef struct ig__plan ig__plan;

typedef struct ig__plan_opts {
    int64_t max_tokens, max_logits; /* >= 1 */
    int64_t max_keys;               /* of one sequence, for the partials of cut attention */
} ig__plan_opts;

/* The graph is borrowed until the plan is destroyed; its parameters must have their data. */
ig_status ig__plan_create(ig__plan **plan_out, ig_context *ctx, const ig__graph *g,
                          const ig__plan_opts *opts, ig_error *err);
void ig__plan_destroy(ig__plan *plan); /* may be NULL */

/* Run. The output's rows are then at ig__plan_output. `cancelled` (may be NULL) is read at the barriers:
 * IG_ERR_CANCELLED. An output with a NaN or infinity is IG_ERR_NUMERIC, naming the first operator
 * that made one (found by a second, slow run, that writes the same to the cache). */
ig_status ig__plan_run(ig__plan *plan, const ig__batch *batch,
                       const volatile int *cancelled, ig_error *err);
float *ig__plan_output(ig__plan *plan); /* [n_logits][V], until the next run */

typedef struct ig__plan_stats {
    int64_t n_steps, n_barriers_small, n_barriers_large;
    size_t shared_bytes, private_bytes, scratch_bytes; /* private and scratch: a thread */
} ig__plan_stats;
ig__plan_stats ig__plan_get_stats(const ig__plan *plan);

#endif
