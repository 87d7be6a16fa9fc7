/* What the files of src/exec share. */
#ifndef INGOT_EXEC_PLAN_INT_H
#define INGOT_EXEC_PLAN_INT_H

#include "exec/plan.h"

enum { IG_MODE_SMALL, IG_MODE_LARGE, IG_MODE_COUNT };

/* Where a value's bytes are. */
typedef struct ig__place {
    enum { IG_PLACE_OUTSIDE, IG_PLACE_ARENA } kind;
    ig__value root;       /* the value whose bytes these are (a view's source) */
    bool rows;            /* made by a step that walks by rows: private in the small mode */
    size_t shared, bytes; /* in the shared arena, at the bound */
    size_t private_at;    /* in each thread's own, when rows */
    size_t private_bytes;
    void *outside; /* a parameter's data; inputs are bound by the batch */
} ig__place;

typedef struct ig__step {
    const ig__node *node;
    bool barrier[IG_MODE_COUNT]; /* before it */
    bool shared_out
        [IG_MODE_COUNT]; /* its items are shared out (else: every thread does all) */
} ig__step;

struct ig__plan {
    ig_context *ctx;
    const ig__graph *g;
    ig__plan_opts opts;
    ig__place *places; /* [g->n_values] */
    ig__step *steps;   /* [n_steps]; views have none */
    int32_t n_steps;
    char *shared;   /* the arena */
    bool is_huge;   /* it was asked into huge pages */
    char *privates; /* [n_threads][private_bytes + scratch_bytes] */
    ig__plan_stats stats;
    int n_threads;

    /* of the run in progress */
    const ig__batch *batch;
    const volatile int *cancelled;
    int mode;
    bool checking;
    int32_t
        failed;   /* checking: the first step with a bad value, or -1; thread 0 writes it */
    bool stop[2]; /* by the parity of barriers: thread 0 writes before, all read after */
    ig__share share[2]; /* by the parity of shared-out steps */
};

/* Places for all values: sets places, stats.shared_bytes, stats.private_bytes. */
ig_status ig__plan_place(ig__plan *plan, ig_error *err);

#endif
