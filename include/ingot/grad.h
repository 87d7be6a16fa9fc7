/* Gradients, in reverse mode.
 *
 * A leaf asks for its gradient (ig_tensor_require_grad); what is computed from it is recorded. ig_backward
 * walks the record from a loss back and adds to the gradient of each leaf (ig_tensor_grad); as it
 * goes, it frees what was saved, unless `keep` is set. Gradients belong to their leaf.
 *
 * What an operator saved must be as it was when backward comes to it: a write in place in between,
 * through whatever view, is an error that names the operator and both versions.
 */
#ifndef INGOT_GRAD_H
#define INGOT_GRAD_H

#include "ingot/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- leaves ----------------------------------------------------------------------------------- */

/* A leaf of floats (not the result of a recorded call) starts or stops to ask; returns x. */
IG_API ig_tensor *ig_tensor_require_grad(ig_tensor *x, bool wanted);
IG_API bool ig_tensor_wants_grad(const ig_tensor *x); /* of results: is it recorded? */
/* Borrowed; NULL: none yet. */
IG_API ig_tensor *ig_tensor_grad(ig_tensor *x);
/* Forget it: the next backward makes it anew. */
IG_API void ig_tensor_clear_grad(ig_tensor *x);
/* The same values without history: shares x's bytes. */
IG_API ig_tensor *ig_detach(ig_tensor *x);

/* ---- regions ----------------------------------------------------------------------------------- */

/* Calls are recorded or not, from here on; returns how it was, for the way back:
 *   bool was = ig_grad_enable(ctx, false); ... ig_grad_enable(ctx, was); */
IG_API bool ig_grad_enable(ig_context *ctx, bool enabled);
IG_API bool ig_grad_is_enabled(const ig_context *ctx);
/* Anomaly mode: every result is looked through, and the operator that makes the first NaN
 * fails with IG_ERR_NUMERIC, forward or backward. Returns how it was. */
IG_API bool ig_check_nan(ig_context *ctx, bool enabled);

/* ---- backward ---------------------------------------------------------------------------------- */

typedef struct ig_backward_opts {
    bool keep;   /* keep what was saved: the same record can be walked again */
    bool record; /* record the walk itself, for gradients of gradients; implies keep */
} ig_backward_opts;

/* From one number. The failure is also on the context, and returned. */
IG_API ig_status ig_backward(ig_tensor *loss);
/* From n tensors at once: each with a gradient of its shape to start with, or `gradients` (or one of
 * them) NULL for 1. */
IG_API ig_status ig_backward_all(ig_tensor *const *roots, ig_tensor *const *gradients,
                                 int n, const ig_backward_opts *opts);
/* Gradients with respect to some tensors (leaves or results), which belong to the current scope; no
 * leaf's own gradient changes. out[i] is NULL, without a failure, where nothing flows to x[i]; after a
 * failure all are NULL. */
IG_API ig_status ig_gradients(ig_tensor **out, ig_tensor *const *x, int n_x,
                              ig_tensor *const *roots, ig_tensor *const *gradients, int n,
                              const ig_backward_opts *opts);

/* ---- hooks, recompute -------------------------------------------------------------------------- */

/* Called with the whole gradient of x whenever a backward comes to it, before it goes on; returns
 * the gradient to go on with: the same, or another of its shape. Lives as long as x's record. */
IG_API ig_status ig_tensor_hook(ig_tensor *x,
                                ig_tensor *(*call)(void *user, ig_tensor *gradient),
                                void *user);
/* y = f(x[0..n)), keeping only the x: backward runs f again. f must compute the same again, from x
 * and from leaves alone. */
typedef ig_tensor *ig_recompute_fn(void *user, ig_tensor *const *x, int n);
IG_API ig_tensor *ig_recompute(ig_recompute_fn *f, void *user, ig_tensor *const *x, int n);

#ifdef __cplusplus
}
#endif
#endif
