/* Products of rows in groups. */
#ifndef INGOT_OP_GROUP_PRODUCT_H
#define INGOT_OP_GROUP_PRODUCT_H

#include "ingot/op.h"
#include "op/op.h"

/* x [M,K], w [X,..,..], counts [X] -> [M,N]; a [M,P], b [M,Q], counts [X] -> [X,P,Q] */
extern const ig__op ig__op_group_linear, ig__op_group_weight;

#endif
