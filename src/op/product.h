/* The row of products with plain matrices. */
#ifndef INGOT_OP_PRODUCT_H
#define INGOT_OP_PRODUCT_H

#include "op/pointwise.h"

extern const ig__op ig__op_matmul; /* x [..,M,K], y [..,K,N] -> [..,M,N] */

#endif
