/* The rows that an optimiser is made of.
 *
 * Numbers that change from step to step lie in a tensor, `numbers` [IG_STEP_NUMBERS] f64, which
 * step_control brings up to date once a step and every update row reads: nothing of a step is an
 * attribute that would have to change, so a captured step replays as it is.
 */
#ifndef INGOT_OP_UPDATE_H
#define INGOT_OP_UPDATE_H

#include "ingot/optim.h"
#include "op/op.h"

enum {
    IG_STEP_DONE,    /* steps done, the one in progress included unless it is skipped */
    IG_STEP_BASE_LR, /* what the schedule scales; written by the caller */
    IG_STEP_LR,      /* of this step */
    IG_STEP_NORM,    /* of all gradients, unscaled */
    IG_STEP_SCALE,   /* what gradients are multiplied with: 1 / loss scale, and clipping */
    IG_STEP_SKIP,    /* 1: this step changes nothing */
    IG_STEP_SKIPPED, /* steps that were */
    IG_STEP_LOSS_SCALE, /* of the next loss */
    IG_STEP_WAS_SCALED, /* the loss scale that this step's gradients carry */
    IG_STEP_GOOD,       /* finite steps since the loss scale last changed */
    IG_STEP_BAD,   /* first gradient that was not finite, of the last such step; -1: none */
    IG_STEP_N_BAD, /* how many were */
    IG_STEP_NUMBERS
};

typedef struct ig__control_attrs {
    double (*factor)(const ig_schedule *schedule, int64_t step); /* ig_schedule_factor */
    ig_schedule schedule;
    double clip_norm;
    int64_t growth_interval; /* 0: the loss scale stays */
} ig__control_attrs;

typedef struct ig__update_attrs {
    double lr_scale, weight_decay, beta1, beta2, eps, momentum, dampening, ema_decay;
    bool decoupled, nesterov;
    uint8_t has; /* bits: which operands there are */
} ig__update_attrs;
enum { IG_UPDATE_M = 1, IG_UPDATE_V = 2, IG_UPDATE_EMA = 4, IG_UPDATE_BF16 = 8 };

/* sum of squares of x in f64 -> [] f64: not finite exactly if an element is not */
extern const ig__op ig__op_square_sum;
/* numbers [IG_STEP_NUMBERS] f64 [, square sums of the gradients [P] f64] -> numbers, in place */
extern const ig__op ig__op_step_control;
/* p, g, numbers [, m] [, v] [, ema] [, bf16 copy], by attrs.has -> p; all but g and numbers are
 * written in place */
extern const ig__op ig__op_sgd_update, ig__op_adam_update, ig__op_lion_update;

#endif
