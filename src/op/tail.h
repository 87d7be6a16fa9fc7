/* A tail: an elementwise chain behind a row that finishes its result piece by piece.
 *
 *     unit of the head: rows [a, b) of y = layer_norm(x)     y is near the core
 *     chain over the same elements: z = gelu(y)
 *
 * So the chain reads what has just been written, and where nobody else wants the head's result the
 * program lets head and chain write to the same place: memory is passed once. Bits are those of the two
 * steps.
 *
 * Made by a pass over programs (src/compile/program_tail.c). Heads are rows with `done`.
 */
#ifndef INGOT_OP_TAIL_H
#define INGOT_OP_TAIL_H

#include "op/chain.h"

typedef struct ig__tail {
    const ig__op *head;
    const void *head_attrs;
    const ig__chain *chain;
    int n_head; /* operands of the head: the first of the step */
    int from
        [IG_MAX_INPUTS]; /* operand i of the chain: of the step; -1: the head's result */
} ig__tail;

extern const ig__op
    ig__op_tail; /* out[0..n) are the chain's, the head's result is the last */

#endif
