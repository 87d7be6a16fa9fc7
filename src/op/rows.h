/* Rows along one dimension: each row of the operands is loaded, worked on as one contiguous piece, and
 * stored, so that a kernel sees plain arrays whatever the strides.
 */
#ifndef INGOT_OP_ROWS_H
#define INGOT_OP_ROWS_H

#include "op/reduce.h"

/* Row o of a reduction over one dimension as n numbers of a compute type: where they lie, if they
 * lie so, else in `buffer`. */
const void *ig__row_load(const ig__reduction *r, int64_t o, ig__compute compute,
                         void *buffer);
/* Where row o may be written at once; else `buffer`, and ig__row_store afterwards. */
void *ig__row_place(const ig__reduction *r, int64_t o, ig__compute compute, void *buffer);
void ig__row_store(const ig__reduction *r, int64_t o, const void *row, ig__compute compute);

extern const ig__op ig__op_softmax, ig__op_log_softmax, ig__op_softmax_grad,
    ig__op_log_softmax_grad, ig__op_logsumexp, ig__op_cross_entropy,
    ig__op_cross_entropy_grad;

#endif
