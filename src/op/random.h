/* Rows that draw random numbers. */
#ifndef INGOT_OP_RANDOM_H
#define INGOT_OP_RANDOM_H

#include "op/pointwise.h"

extern const ig__op
    ig__op_random; /* no operands: uniform, normal, bernoulli, permutation */
extern const ig__op ig__op_dropout, ig__op_dropout_grad;

#endif
