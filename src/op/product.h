/* The row of products with plain matrices. */
#ifndef INGOT_OP_PRODUCT_H
#define INGOT_OP_PRODUCT_H

#include "op/pointwise.h"

/* Of the row `linear` (linear.c), where its weights are plain: x [..,K], w [N,K] [, bias [N]] ->
 * [..,N]; leading dimensions of x merge. */
ig_status ig__linear_plain_shape(ig__type *out, const ig__type *const *in, int n_in,
                                 ig_error *err);
int64_t ig__linear_units(const ig__eval *e);
void ig__linear_eval(const ig__eval *e, int64_t begin, int64_t end);
ig__room ig__linear_room(const ig__eval *e);
double ig__linear_work(const ig__eval *e);
void ig__linear_gradient(ig__gradient *g);

extern const ig__op ig__op_matmul; /* x [..,M,K], y [..,K,N] [, bias [N]] -> [..,M,N] */
extern const ig__op ig__op_matmul_wide; /* the same of 16-bit operands, no bias -> f32 */

/* x y in 16 bits, or in f32 where `wanted` is f32 and x and y are not. */
ig_tensor *ig__matmul_for(const ig__type *wanted, ig_tensor *x, ig_tensor *y);
/* x w + bias in one pass: x [..,M,K], w [K,N], bias [N]. */
ig_tensor *ig__matmul_bias(ig_tensor *x, ig_tensor *w, ig_tensor *bias);

#endif
