/* What the rows of attention share: attention_tiled (attend.c), whose operands are three tensors, and
 * attention_joined (attend_joined.c), whose operand holds queries, keys and values side by side.
 */
#ifndef INGOT_OP_ATTEND_H
#define INGOT_OP_ATTEND_H

#include "op/network.h"

typedef struct ig__attend_attrs {
    double scale;
    int64_t window; /* 0: none */
    double
        dropout; /* of weights; over 0: the last operand is the key that they are drawn by */
    bool causal, masked;
} ig__attend_attrs;

/* The rows of attend.c: q [B,H,T,W], k, v [B,G,S,W] [, mask] [, key] -> y, lse [B,H,T], and q, k, v, y, lse, dy
 * [, mask] [, key] -> dq, dk, dv, rows by any strides. */
int64_t ig__attend_units(const ig__eval *e);
ig__room ig__attend_room(const ig__eval *e);
void ig__attend_eval(const ig__eval *e, int64_t begin, int64_t end);
int64_t ig__attend_grad_units(const ig__eval *e);
ig__room ig__attend_grad_room(const ig__eval *e);
void ig__attend_grad_eval(const ig__eval *e, int64_t begin, int64_t end);
double ig__attend_work(const ig__eval *e);
/* The gradients of q, k and v by plain operators, which are recorded. */
void ig__attend_by_parts(ig__gradient *g);

#endif
