/* The models whose training steps bench_step times: made with random weights and one batch of random
 * data from a fixed seed, each with what its step has to compute and to move.
 */
#ifndef INGOT_BENCH_STEP_MODELS_H
#define INGOT_BENCH_STEP_MODELS_H

#include "ingot/ingot.h"

typedef struct step_model step_model;

typedef struct step_row {
    const char *name, *what;
    const char *unit; /* of what a batch holds */
    int64_t n_units;
    ig_status (*make)(step_model *m, ig_error *err); /* x, y, and module if there is one */
    ig_tensor *(*loss)(
        step_model *m); /* or what backward starts from with the gradient dy */
    double (*flops)(
        void); /* products of forward and backward, multiply and add counted apart */
} step_row;

struct step_model {
    const step_row *row;
    ig_context *ctx;
    ig_params *params; /* the module's, or its own */
    ig_module *module; /* NULL: layers over params */
    ig_tensor *x, *y;  /* the batch and its targets; retained */
    ig_tensor *dy;     /* NULL: a whole step from a loss; else forward and backward only */
};

extern const step_row step_rows[]; /* the last has no name */

/* NULL: no such model. */
const step_row *step_find(const char *name);
ig_status step_model_init(step_model *m, const step_row *row, ig_context *ctx,
                          ig_error *err);
void step_model_fini(step_model *m);

#endif
