/* Calling operators on tensors: the one way from a public function to a row of the table.
 *
 * ig__apply runs the shape rule, makes the outputs, runs `eval` (alone or by the team) and, if an
 * operand wants its gradient, records the call on the tape. NULL among the operands, or a
 * failure on the context, gives NULL and does nothing.
 */
#ifndef INGOT_OP_APPLY_H
#define INGOT_OP_APPLY_H

#include "op/op.h"

/* The result of a row with one output. `ctx` may be NULL where there are operands. */
ig_tensor *ig__apply(ig_context *ctx, const ig__op *op, const void *attrs,
                     ig_tensor *const *in, int n_in);
/* All results; false: a failure, and out is all NULL. */
bool ig__apply_all(ig_context *ctx, const ig__op *op, const void *attrs,
                   ig_tensor *const *in, int n_in, ig_tensor **out);
/* The result written over `into`, which must have its shape and dtype; returns it. Gradients flow
 * through the write. */
ig_tensor *ig__apply_into(const ig__op *op, const void *attrs, ig_tensor *const *in,
                          int n_in, ig_tensor *into);

static inline ig_tensor *ig__apply1(const ig__op *op, const void *attrs, ig_tensor *x)
{
    return ig__apply(NULL, op, attrs, &x, 1);
}
static inline ig_tensor *ig__apply2(const ig__op *op, const void *attrs, ig_tensor *x,
                                    ig_tensor *y)
{
    ig_tensor *const in[2] = {x, y};
    return ig__apply(NULL, op, attrs, in, 2);
}
/* Two operands that meet in one dtype first (docs/tensors.md, promotion). */
ig_tensor *ig__apply_met(const ig__op *op, const void *attrs, ig_tensor *x, ig_tensor *y);
/* Cast both to the dtype that they meet in; false: they do not, the failure is on the context. */
bool ig__meet(const char *op, ig_tensor **x, ig_tensor **y);

/* x itself when it has that dtype. */
ig_tensor *ig__cast(ig_tensor *x, ig_dtype dtype);

/* ---- how a call is evaluated: shared with captured programs --------------------------------- */

/* Scratch that the row asks for. */
ig__room ig__eval_room(const ig__op *op, const ig__eval *e);
/* Is waking the team worth it? */
bool ig__eval_wants_team(const ig__op *op, const ig__eval *e);
/* Units of phase e->phase, and doing [begin, end) of them. */
int64_t ig__eval_count(const ig__op *op, const ig__eval *e);
void ig__eval_units(const ig__op *op, const ig__eval *e, int64_t begin, int64_t end);
/* The shortest way: the loop of an elementwise row over at most a span of contiguous operands of one
 * shape and type, for one thread; NULL: not such a call. */
ig__span_fn *ig__eval_plain(const ig__op *op, const ig__eval *e);

/* `gradient` of a row that has none of its own (it is made by a backward pass): says so. */
void ig__gradient_missing(ig__gradient *g);

#endif
