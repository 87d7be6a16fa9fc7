/* Rows that move elements by place: gathering, scattering, joining. */
#ifndef INGOT_OP_INDEX_H
#define INGOT_OP_INDEX_H

#include "op/reduce.h"

/* Of the rows gather_rows (x, ids) and embedding (ids, table) over arrays: slices along dimension 0. */
ig_status ig__pick_shape(ig__type *out, const ig__type *x, const ig__type *ids,
                         const char *op, ig_error *err);
int64_t ig__gather_rows_units(const ig__eval *e);
void ig__gather_rows_eval(const ig__eval *e, int64_t begin, int64_t end);
void ig__gather_rows_explain(const ig__eval *e, int64_t at, ig_error *err);
void ig__gather_rows_gradient(ig__gradient *g);
int64_t ig__embedding_units(const ig__eval *e);
void ig__embedding_eval(const ig__eval *e, int64_t begin, int64_t end);
void ig__embedding_explain(const ig__eval *e, int64_t at, ig_error *err);
void ig__embedding_gradient(ig__gradient *g);

extern const ig__op ig__op_gather; /* x, ids of x's shape but along dim -> ids' shape */
extern const ig__op ig__op_scatter_add;  /* x, ids, y of ids' shape -> x with y added */
extern const ig__op ig__op_index_select; /* x, ids [K] -> x with K along dim */
extern const ig__op ig__op_index_add;    /* x, ids [K], y -> x with slices of y added */
extern const ig__op ig__op_cat;          /* 1 to 16 operands */
extern const ig__op ig__op_cumsum, ig__op_cumprod, ig__op_cumprod_grad;
extern const ig__op ig__op_argmax, ig__op_argmin;
extern const ig__op ig__op_sort; /* x -> the first k in order, and their places */

#endif
