/* What the files of src/train share about optimisers.
 */
#ifndef INGOT_TRAIN_OPTIMIZER_H
#define INGOT_TRAIN_OPTIMIZER_H

#include "ingot/op.h"
#include "ingot/optim.h"
#include "op/update.h"

/* Parts of a parameter's state; which there are depends on rule and shape. */
typedef enum ig__state_part {
    IG_STATE_M,    /* first moment, momentum */
    IG_STATE_V,    /* second moment */
    IG_STATE_ROWS, /* Adafactor: means of squares of rows [..,N], of columns [..,K] */
    IG_STATE_COLUMNS,
    IG_STATE_EMA,
    IG_STATE_PARTS
} ig__state_part;

typedef struct ig__optim_param {
    ig_tensor *p;    /* counted, as all below; NULL: not there */
    ig_tensor *bf16; /* a copy in 16 bits */
    ig_tensor *state[IG_STATE_PARTS];
    char *name;
    char *state_names[IG_STATE_PARTS];
    double lr_scale, weight_decay;
} ig__optim_param;

struct ig_optimizer {
    ig_context *ctx;
    ig_optimizer_opts opts;
    ig__optim_param *params; /* [n_params] */
    int64_t n_params, cap_params;
    ig_tensor *numbers; /* [IG_STEP_NUMBERS] f64 (op/update.h) */
    ig_tensor *sums;    /* [n_params] f64; NULL: nobody asks for the norm */
};

/* Element `field` of the numbers, as a float32 scalar that broadcasts. */
ig_tensor *ig__step_number(const ig_optimizer *opt, int field);
/* The last operator of every rule. `has` says which parts of the state the row takes. */
bool ig__update_param(const ig_optimizer *opt, const ig__optim_param *param,
                      const ig__op *op, ig_tensor *gradient, const ig__update_attrs *attrs);
/* value where the step is not skipped, written over x. */
bool ig__assign_unless_skipped(const ig_optimizer *opt, ig_tensor *x, ig_tensor *value);

/* Rules made of other operators: gradient -> step, then an update without moments. */
bool ig__muon_step(const ig_optimizer *opt, const ig__optim_param *param,
                   ig_tensor *gradient);
bool ig__adafactor_step(const ig_optimizer *opt, const ig__optim_param *param,
                        ig_tensor *gradient);

/* Adafactor keeps means of rows and columns for these. */
static inline bool ig__is_matrix(const ig_tensor *p)
{
    return ig_tensor_n_dims(p) >= 2;
}

#endif
