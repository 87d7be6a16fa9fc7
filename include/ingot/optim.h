/* Optimisers: from gradients to new weights, in one pass over memory.
 *
 * An optimiser owns the state of its rule (moments, averages) and a small tensor of run-time
 * numbers: step, learning rate, norm, scale. A step is calls of operators only, with every number that
 * changes from step to step in that tensor: so a captured step goes on by itself when it is replayed,
 * schedule, bias corrections and loss scale included.
 *
 *   for (;;) {
 *       ig_optimizer_clear_grads(opt);
 *       ig_backward(ig_optimizer_scale_loss(opt, loss_of(batch)));
 *       ig_optimizer_step(opt);
 *   }
 */
#ifndef INGOT_OPTIM_H
#define INGOT_OPTIM_H

#include "ingot/grad.h"
#include "ingot/module.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ig_optimizer ig_optimizer;

typedef enum ig_rule {
    IG_RULE_SGD,   /* momentum, Nesterov; weight decay is added to the gradient */
    IG_RULE_ADAM,  /* Kingma and Ba, 2015; weight decay is added to the gradient */
    IG_RULE_ADAMW, /* Loshchilov and Hutter, 2019; weight decay shrinks the weights */
    IG_RULE_LION,  /* Chen et al., 2023; weight decay shrinks the weights */
    IG_RULE_MUON, /* Jordan et al., 2024: matrices by an orthogonal step, the rest by AdamW */
    IG_RULE_ADAFACTOR /* Shazeer and Stern, 2018: second moments of rows and columns */
} ig_rule;

typedef enum ig_schedule_kind {
    IG_SCHEDULE_CONSTANT,
    IG_SCHEDULE_LINEAR, /* falls to `floor` at `total` */
    IG_SCHEDULE_COSINE, /* half a cosine to `floor` at `total` */
    IG_SCHEDULE_STABLE, /* constant, then linear to `floor` over the last `decay` steps */
    IG_SCHEDULE_INVERSE_SQRT /* sqrt(warmup / step) */
} ig_schedule_kind;

/* The share of the learning rate that step k (0, 1, ..) uses. The first `warmup` steps rise by
 * (k + 1) / warmup. */
typedef struct ig_schedule {
    ig_schedule_kind kind;
    int64_t warmup, total, decay; /* steps */
    double floor;                 /* share at the end and after it */
} ig_schedule;
IG_API double ig_schedule_factor(const ig_schedule *schedule, int64_t step);

typedef struct ig_optimizer_opts {
    ig_rule rule;
    double lr;
    double beta1, beta2, eps; /* beta1: momentum of Lion and Muon too */
    double weight_decay;
    double momentum, dampening; /* SGD */
    bool nesterov;              /* SGD */
    ig_schedule schedule;
    double clip_norm;  /* global norm of all gradients at most this; 0: no bound */
    double clip_value; /* each element between -this and this; 0: no bound */
    bool
        check_finite; /* skip a step with a gradient that is not finite (clipping by norm and
                          loss scaling do so too) */
    double loss_scale;       /* 0: none; the gradients are divided by it again */
    bool dynamic_scale;      /* halved by a step that is not finite, doubled after */
    int64_t growth_interval; /* that many steps in a row that were */
    double ema_decay; /* average of the weights: ema += (1 - decay) (w - ema); 0: none */
} ig_optimizer_opts;

/* The rule's usual numbers; no clipping, no scale, constant rate. Begin with these: options that are all zero
 * learn nothing, and Adam's are refused for an eps of 0. */
IG_API ig_optimizer_opts ig_optimizer_defaults(ig_rule rule);

/* Fails naming the option and its range. `opts` is copied. */
IG_API IG_WARN_UNUSED ig_status ig_optimizer_create(ig_optimizer **opt_out, ig_context *ctx,
                                                    const ig_optimizer_opts *opts,
                                                    ig_error *err);
IG_API void ig_optimizer_destroy(ig_optimizer *opt); /* may be NULL */

/* What differs for some parameters. */
typedef struct ig_param_group {
    double lr_scale;         /* of the learning rate; 0: 1 */
    bool no_weight_decay;    /* biases, gains, embeddings */
    ig_tensor **bf16_copies; /* [n] bf16 tensors that get the new weights; NULL: none */
} ig_param_group;

/* More parameters: contiguous float32 leaves; counted. Their gradients are read, and state is
 * made, zero. `names` (copied) and `group` may be NULL. */
IG_API IG_WARN_UNUSED ig_status ig_optimizer_add(ig_optimizer *opt,
                                                 ig_tensor *const *params,
                                                 const char *const *names, int64_t n,
                                                 const ig_param_group *group,
                                                 ig_error *err);
/* Those of p that want a gradient now, with their names; those of one dimension (biases, gains) without
 * weight decay. */
IG_API IG_WARN_UNUSED ig_status ig_optimizer_add_params(ig_optimizer *opt, ig_params *p,
                                                        ig_error *err);

/* One step from the gradients that are there; a parameter without one stays. The failure is also on
 * the context. A step that is skipped is no failure: see ig_optimizer_get_stats. */
IG_API ig_status ig_optimizer_step(ig_optimizer *opt);
IG_API void ig_optimizer_clear_grads(ig_optimizer *opt);
/* loss times the loss scale; `loss` itself without one. */
IG_API ig_tensor *ig_optimizer_scale_loss(ig_optimizer *opt, ig_tensor *loss);
/* The rate that the schedule scales, from the next step on. */
IG_API ig_status ig_optimizer_set_lr(ig_optimizer *opt, double lr);

typedef struct ig_optimizer_stats {
    int64_t steps; /* done, without those skipped */
    int64_t skipped;
    double lr;         /* of the last step */
    double grad_norm;  /* of the last step, unscaled, before clipping; 0: not asked for */
    double loss_scale; /* of the next step */
    bool last_skipped;
    const char
        *bad_name; /* the first parameter whose gradient was not finite, of the last step
                             that was skipped; "" before */
    int64_t n_bad; /* and how many parameters had such */
} ig_optimizer_stats;
IG_API ig_optimizer_stats ig_optimizer_get_stats(const ig_optimizer *opt);

/* The average of parameter i's weights, in the order that they were added; borrowed; NULL: none. */
IG_API ig_tensor *ig_optimizer_ema(const ig_optimizer *opt, int64_t i);
/* All state by name, for checkpoints: "step", "w.m", "w.v", ..; borrowed. i from 0; NULL past the
 * last. *name_out lives as long as the optimiser. */
IG_API ig_tensor *ig_optimizer_state(const ig_optimizer *opt, int64_t i,
                                     const char **name_out);

#ifdef __cplusplus
}
#endif
#endif
