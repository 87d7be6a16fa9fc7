/* Tensors: numbers in up to 8 dimensions, counted and owned by scopes.
 *
 * A tensor has an element type, dimensions and strides; views (slices, transposes, reshapes)
 * share the bytes of their base. Operators are in op.h, gradients in grad.h.
 *
 * OWNERSHIP. A new tensor belongs to the scope that is open on its context; when the scope ends, it
 * is freed, unless somebody retained or kept it. With no scope open it belongs to the
 * context. Chained expressions need no freeing.
 *
 * ERRORS. Calls that return a tensor return NULL on failure, and leave the failure on the
 * context (ig_context_status). NULL as an operand gives NULL, so that one check after an expression is
 * enough. A tensor serves the thread that its context serves.
 */
#ifndef INGOT_TENSOR_H
#define INGOT_TENSOR_H

#include "ingot/context.h"
#include "ingot/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ig_tensor ig_tensor;
typedef struct ig_scope ig_scope;

/* Two arguments, number of dimensions and dimensions: ig_zeros(ctx, IG_DTYPE_F32, IG_SHAPE(3, 4)).
 * A scalar has none: 0, NULL. */
#define IG_SHAPE(...)                                                                      \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[])           \
    {                                                                                      \
        __VA_ARGS__                                                                        \
    }

/* ---- scopes ------------------------------------------------------------------------------ */

/* Tensors made from here on belong to it. NULL only when there is no memory. */
IG_API ig_scope *ig_scope_begin(ig_context *ctx);
/* Free what belongs to it, and end every scope that was opened inside it. May be NULL. */
IG_API void ig_scope_end(ig_scope *scope);
/* Move a tensor from its scope to the one around it; returns it. */
IG_API ig_tensor *ig_tensor_keep(ig_tensor *x);
/* Count one more owner, beyond scopes; returns it. */
IG_API ig_tensor *ig_tensor_retain(ig_tensor *x);
/* Give a count back. Of a tensor that was not retained this frees it now instead of at the
 * end of its scope. May be NULL. */
IG_API void ig_tensor_release(ig_tensor *x);

/* ---- make -------------------------------------------------------------------------------- */

/* A copy of `data`, contiguous elements of the last dimension first. */
IG_API ig_tensor *ig_tensor_from(ig_context *ctx, ig_dtype dtype, int n_dims,
                                 const int64_t *dims, const void *data);
/* No dimensions, one element. */
IG_API ig_tensor *ig_tensor_scalar(ig_context *ctx, ig_dtype dtype, double value);

/* ---- inspect ----------------------------------------------------------------------------- *
 * Of NULL: IG_DTYPE_COUNT, 0, NULL, false. */

IG_API ig_context *ig_tensor_context(const ig_tensor *x);
IG_API ig_dtype ig_tensor_dtype(const ig_tensor *x);
IG_API int ig_tensor_n_dims(const ig_tensor *x);
/* Size of dimension i; -1 is the last. 0 outside. */
IG_API int64_t ig_tensor_dim(const ig_tensor *x, int i);
IG_API int64_t ig_tensor_stride(const ig_tensor *x, int i); /* in elements */
IG_API int64_t ig_tensor_count(const ig_tensor *x);         /* elements */
IG_API size_t ig_tensor_bytes(const ig_tensor *x);          /* of the elements, packed */
IG_API bool ig_tensor_is_contiguous(const ig_tensor *x);
/* How often the bytes were written in place, by whatever view. */
IG_API uint32_t ig_tensor_version(const ig_tensor *x);

/* ---- bytes in and out -------------------------------------------------------------------- */

/* The elements in order to `data` (n_bytes must be ig_tensor_bytes). Fails with the context's
 * failure if there is one and x is NULL. */
IG_API IG_WARN_UNUSED ig_status ig_tensor_read(const ig_tensor *x, void *data,
                                               size_t n_bytes, ig_error *err);
/* The elements from `data`: a write in place, without gradient. */
IG_API IG_WARN_UNUSED ig_status ig_tensor_write(ig_tensor *x, const void *data,
                                                size_t n_bytes, ig_error *err);
/* The one element of a tensor as a double; NaN when there is not exactly one. */
IG_API double ig_tensor_item(const ig_tensor *x);
/* The elements themselves, contiguous; NULL when x is not. Who writes through it does so
 * unseen by versions. */
IG_API void *ig_tensor_data(ig_tensor *x);
/* As text, with dtype and shape, long dimensions cut: at most cap - 1 bytes and a 0. Returns the
 * length that the whole text has. */
IG_API size_t ig_tensor_text(const ig_tensor *x, char *text, size_t cap);

#ifdef __cplusplus
}
#endif
#endif
