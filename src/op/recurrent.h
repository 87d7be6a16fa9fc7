/* A recurrent layer in one direction, and its cells: one row of D units, in f32 or f64. */
#ifndef INGOT_OP_RECURRENT_H
#define INGOT_OP_RECURRENT_H

#include "op/network.h"

typedef struct ig__recurrent_attrs {
    ig_cell cell;
    bool backwards, lengths; /* lengths: the last operand */
} ig__recurrent_attrs;
/* Operands (c0: LSTM) and results of the row. */
enum { IN_X, IN_W, IN_BIAS, IN_H0, IN_C0 };
enum { OUT_Y, OUT_LAST, OUT_GATES, OUT_EXTRA };

typedef struct ig__cell_row {
    int64_t d;
    const void *x; /* [G*D] sums before the gates' functions; GRU: those from the input */
    const void *y; /* [G*D] GRU: those from the state */
    const void *h0, *c0; /* [D] before; c0: LSTM */
    void *gates, *c, *h; /* [G*D] (may be x; RNN: none), [D] LSTM, [D] */
    const void *dh, *dc; /* [D] */
    void *dx, *dy;       /* [G*D]; dy: GRU */
    void *dh0, *dc0;     /* [D] what goes past the products (RNN, LSTM: zeros); LSTM */
} ig__cell_row;

/* 1, 4 or 3 blocks of D. */
int64_t ig__cell_gates(ig_cell cell);
void ig__cell_forward(const ig__eval *e, ig_cell cell, const ig__cell_row *row);
/* Reads gates (RNN: h), c, c0 (LSTM), y, h0 (GRU). */
void ig__cell_backward(const ig__eval *e, ig_cell cell, const ig__cell_row *row);

#endif
