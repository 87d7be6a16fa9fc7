/* Rows that move elements by place: gathering, scattering, joining. */
#ifndef INGOT_OP_INDEX_H
#define INGOT_OP_INDEX_H

#include "op/reduce.h"

extern const ig__op ig__op_gather; /* x, ids of x's shape but along dim -> ids' shape */
extern const ig__op ig__op_scatter_add;  /* x, ids, y of ids' shape -> x with y added */
extern const ig__op ig__op_index_select; /* x, ids [K] -> x with K along dim */
extern const ig__op ig__op_index_add;    /* x, ids [K], y -> x with slices of y added */
extern const ig__op ig__op_cat;          /* 1 to 16 operands */
extern const ig__op ig__op_cumsum, ig__op_cumprod, ig__op_cumprod_grad;
extern const ig__op ig__op_argmax, ig__op_argmin;
extern const ig__op ig__op_sort; /* x -> the first k in order, and their places */

#endif
