/* Walking elementwise rows: broadcasting, strides and dtypes, so that a row is only its loops.
 */
#ifndef INGOT_OP_POINTWISE_H
#define INGOT_OP_POINTWISE_H

#include "op/op.h"

enum { IG_CHUNK = 1024 }; /* elements that pass through a thread's scratch at a time */

/* y[i] = span(x0[i], ..) over units [begin, end) of the output's elements. The compute type is that
 * of the last operand. (`eval` of a row names its own spans: ig__pointwise is called from dispatch
 * with them.) */
void ig__pointwise(const ig__eval *e, ig__span_fn *const *span, int64_t begin, int64_t end);
/* The elements of in[0], in order, to out[0], which has as many, or a shape that in[0] stretches to. `eval` of
 * rows that copy or cast; room as ig__pointwise_room. */
void ig__copy_eval(const ig__eval *e, int64_t begin, int64_t end);
ig__room ig__pointwise_room(const ig__eval *e);

/* The common shape of operands: dimensions are lined up from the last; 1 stretches. */
ig_status ig__broadcast(ig__type *out, const ig__type *const *in, int n_in, const char *op,
                        ig_error *err);

/* An operand under the index space of `type` (dimension 1 has stride 0), dimensions merged where
 * they can be. */
typedef struct ig__walk_over {
    int n_dims; /* at least 1 */
    int64_t dims[IG_MAX_DIMS], strides[IG_MAX_DIMS];
    char *data;
    ig_dtype dtype;
    const ig__train_kernels *t; /* converts runs of other dtypes faster; NULL: none */
} ig__walk_over;
void ig__walk_make(ig__walk_over *w, const ig__array *x, const ig__type *type);
static inline ig__walk_over ig__walk_of(const ig__eval *e, const ig__array *x,
                                        const ig__type *type)
{
    ig__walk_over w;
    ig__walk_make(&w, x, type);
    w.t = e->t;
    return w;
}
/* n elements from `first` on, in order of the index space, to and from a compute type. */
void ig__walk_load(const ig__walk_over *w, int64_t first, int64_t n, void *dst,
                   ig__compute to);
void ig__walk_store(const ig__walk_over *w, int64_t first, int64_t n, const void *src,
                    ig__compute from);
/* The bytes of bools as they are, not converted. */
void ig__walk_load_bytes(const ig__walk_over *w, int64_t first, int64_t n, uint8_t *dst);
void ig__walk_store_bytes(const ig__walk_over *w, int64_t first, int64_t n,
                          const uint8_t *src);
/* The kernels' name of a plain dtype. */
ig__number ig__number_of(ig_dtype dtype);

#endif
