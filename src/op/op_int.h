/* For the files of src/op only: shape-rule checks and walking helpers. */
#ifndef INGOT_OP_OP_INT_H
#define INGOT_OP_OP_INT_H

#include "base/error.h"
#include "op/op.h"

/* "add: shapes differ: [T,576] f32, [T,64] f32" */
ig_status ig__fail_shapes(ig_error *err, const char *op, const char *what,
                          const ig__type *a, const ig__type *b);

static inline bool ig__is_rows_f32(const ig__type *t)
{
    return t->layout == IG_LAYOUT_ROWS && t->dtype == IG_DTYPE_F32;
}
/* [N] f32, for gains and factors. */
bool ig__is_vector(const ig__type *t, int64_t n);

static inline float *ig__row_f32(const ig__operand *x, int64_t row)
{
    return (float *)x->data + row * x->width;
}

/* How products cut their items: groups of a matrix by blocks of at most IG_TOKEN_BLOCK columns, blocks
 * outermost, so that a thread's own part of the items keeps to few activations. */
typedef struct ig__cut {
    int64_t n_groups, groups_an_item, chunks, n_blocks;
} ig__cut;
ig__cut ig__cut_of(int64_t n_rows_w, int64_t n_columns, int n_threads);

typedef struct ig__piece {
    int64_t group, group_end;
    int64_t column, n_columns;
} ig__piece;
ig__piece ig__piece_of(const ig__cut *cut, int64_t item, int64_t n_columns);

/* block [n][16] = group `group` of w times columns [column, column + n) of the activations
 * in[0]; column is a multiple of IG_TILE, n <= IG_TOKEN_BLOCK. `scratch` holds
 * IG_GEMM_SCRATCH(K). */
void ig__product(const ig__step_args *s, float *block, const ig__operand *w, int64_t group,
                 int64_t column, int64_t n, void *scratch);
static inline const char *ig__group_at(const ig__operand *w, int64_t group)
{
    return (const char *)w->data +
           (size_t)group * ig__packed_group_bytes(w->type->dtype, w->width);
}
/* The shape rule's part that every product shares: acts [.., K], w [N, K] with a kernel for them. */
ig_status ig__check_product(const char *op, const ig__type *acts, const ig__type *w,
                            ig_error *err);

/* Row t of the output's tiles from x [K]. */
void ig__pack_row(const ig__step_args *s, int64_t t, const float *x);

/* Write key and value [W] of a row of the batch to its place in the cache. */
void ig__cache_put(const ig__step_args *s, int64_t layer, int64_t head, int64_t row,
                   const float *key, const float *value);

#endif
