/* Rows of networks: norms, convolution, pooling, attention, rotation, recurrent layers, the loss
 * behind an output layer; and what their files share.
 */
#ifndef INGOT_OP_NETWORK_H
#define INGOT_OP_NETWORK_H

#include "ingot/op.h"
#include "op/op.h"

/* Make every operand that is there of one dtype that the kernels compute in: f64 if one is f64, else
 * f32. *result is the dtype of the first, before. False: one is not a float, or the context has
 * failed. NULL stays NULL. */
bool ig__alike(const char *op, ig_tensor **x, int n, ig_dtype *result);
/* And contiguous. */
bool ig__dense(const char *op, ig_tensor **x, int n, ig_dtype *result);
/* NULL for NULL, else the operand, contiguous. */
ig_tensor *ig__contiguous(ig_tensor *x);

/* norm.c; rms_norm also serves (elementwise.c) */
extern const ig__op ig__op_layer_norm, ig__op_norm_grad;
int64_t ig__norm_units(const ig__eval *e);
void ig__rms_norm_eval(const ig__eval *e, int64_t begin, int64_t end);
ig__room ig__norm_room(const ig__eval *e);
double ig__norm_work(const ig__eval *e);
int64_t ig__norm_done(const ig__eval *e, int64_t unit);
void ig__rms_norm_gradient(ig__gradient *g);

/* conv.c, pool.c; operands dense */
extern const ig__op ig__op_conv, ig__op_conv_data, ig__op_conv_weight;
extern const ig__op ig__op_max_pool, ig__op_max_pool_grad, ig__op_max_pool_take,
    ig__op_avg_pool, ig__op_avg_pool_grad;

/* attend.c; rows contiguous */
extern const ig__op ig__op_attention_tiled, ig__op_attention_tiled_grad;
/* attend_joined.c: ig_attention with x [B,T,3,H,W], queries, keys and values -> [B,T,H,W] */
extern const ig__op ig__op_attention_joined, ig__op_attention_joined_grad;
ig_tensor *ig__attention_joined(ig_tensor *x, bool causal);

/* recurrent.c; operands dense but lengths */
extern const ig__op ig__op_recurrent, ig__op_recurrent_grad;

/* loss.c; said by both losses where no target counts */
#define IG__NO_TARGETS "0 target tokens: the loss counts as 0"
/* ig_cross_entropy of a part that begins at row `first`, for messages. */
ig_tensor *ig__cross_entropy_from(ig_tensor *logits, ig_tensor *targets,
                                  const ig_cross_entropy_opts *opts, int64_t first);
/* linear_entropy.c */
extern const ig__op ig__op_linear_entropy, ig__op_add_product;

/* gate.c, batch_norm.c, group_norm.c */
extern const ig__op ig__op_swiglu, ig__op_swiglu_grad;
extern const ig__op ig__op_batch_norm, ig__op_batch_norm_grad;
extern const ig__op ig__op_group_norm, ig__op_group_norm_grad;
/* y of x's shape, x [B,C,..]; gain and bias may be NULL. */
ig_tensor *ig__group_norm(ig_tensor *x, int64_t groups, ig_tensor *gain, ig_tensor *bias,
                          double eps);
/* y of x's shape, mean [C] and variance [C] of the batch; gain and bias may be NULL. False: on the
 * context. */
bool ig__batch_norm(ig_tensor *out[3], ig_tensor *x, ig_tensor *gain, ig_tensor *bias,
                    double eps);

#endif
