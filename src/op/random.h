/* Rows that draw random numbers. */
#ifndef INGOT_OP_RANDOM_H
#define INGOT_OP_RANDOM_H

#include "op/pointwise.h"

extern const ig__op
    ig__op_random; /* no operands: uniform, normal, bernoulli, permutation */
extern const ig__op ig__op_dropout, ig__op_dropout_grad;
extern const ig__op ig__op_random_key; /* no operands -> [2] i64: seed, stream */

/* A key of the next stream, for a row that drops by itself; and x dropped by a key. */
ig_tensor *ig__random_key(ig_context *ctx);
ig_tensor *ig__dropout_again(ig_tensor *x, ig_tensor *key, double p);

#endif
