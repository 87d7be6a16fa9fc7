/* Leaves, regions and hooks. */
#include "ingot/grad.h"

#include "base/error.h"
#include "ingot/op.h"
#include "op/apply.h"
#include "op/tape.h"

#include <string.h>

/* ---- leaves --------------------------------------------------------------------------------------------- */

ig_tensor *ig_tensor_require_grad(ig_tensor *x, bool wanted)
{
    char text[IG_TYPE_TEXT];
    if (!x)
        return NULL;
    if (x->node)
        return ig__fail_on(
            x->ctx, IG_ERR_ARGUMENT,
            "require_grad: the tensor is a result, not a leaf: ig_detach it");
    if (wanted && !ig__is_float(x->type.dtype))
        return ig__fail_on(x->ctx, IG_ERR_ARGUMENT, "require_grad: wants floats, not %s",
                           ig__type_text(&x->type, text, sizeof text));
    x->wants_grad = wanted;
    return x;
}

bool ig_tensor_wants_grad(const ig_tensor *x)
{
    return x && x->wants_grad;
}

ig_tensor *ig_tensor_grad(ig_tensor *x)
{
    return x ? x->grad : NULL;
}

void ig_tensor_clear_grad(ig_tensor *x)
{
    if (!x)
        return;
    ig__release(x->grad);
    x->grad = NULL;
}

ig_tensor *ig_detach(ig_tensor *x)
{
    if (!x || ig__context_failed(x->ctx))
        return NULL;
    ig_tensor *y = ig__tensor_alias(x);
    return y ? ig__scope_take(y) : NULL;
}

/* ---- regions -------------------------------------------------------------------------------------------- */

bool ig_grad_enable(ig_context *ctx, bool enabled)
{
    const bool was = !ctx->no_grad;
    ctx->no_grad = !enabled;
    return was;
}

bool ig_grad_is_enabled(const ig_context *ctx)
{
    return !ctx->no_grad;
}

bool ig_check_nan(ig_context *ctx, bool enabled)
{
    const bool was = ctx->check_nan;
    ctx->check_nan = enabled;
    return was;
}

/* ---- hooks ------------------------------------------------------------------------------------------------ */

ig_status ig_tensor_hook(ig_tensor *x, ig_tensor *(*call)(void *user, ig_tensor *gradient),
                         void *user)
{
    if (!x)
        return IG_ERR_ARGUMENT;
    if (x->base && !ig__refresh(x))
        return x->ctx->error.status;
    if (!x->wants_grad) {
        ig__fail_on(x->ctx, IG_ERR_ARGUMENT, "hook: no gradient comes to this tensor");
        return IG_ERR_ARGUMENT;
    }
    ig__hook *hook = ig__small_take(&x->ctx->memory, sizeof *hook);
    if (!hook) {
        ig__fail_tensor_memory(x->ctx, "hook", sizeof *hook);
        return IG_ERR_MEMORY;
    }
    ig__hook **last = x->node ? &ig__tape_of(x)->hooks[x->i_out] : &x->hooks;
    while (*last)
        last = &(*last)->next;
    *hook = (ig__hook){.call = call, .user = user};
    *last = hook;
    return IG_OK;
}

/* ---- recompute -------------------------------------------------------------------------------------------- */

/* The node saves the operands; its gradient runs f on detached leaves, and walks that record at
 * once. Leaves that f uses beside its operands get their gradients from that inner walk. */
typedef struct recompute_attrs {
    ig_recompute_fn *f;
    void *user;
    ig_dtype autocast; /* as it was in forward */
} recompute_attrs;

static void recompute_gradient(ig__gradient *g)
{
    const recompute_attrs *a = g->attrs;
    ig_context *ctx = g->ctx;
    ig_tensor *leaves[IG_MAX_INPUTS];
    if (!ctx->no_grad) {
        ig__gradient_missing(g);
        return;
    }
    for (int i = 0; i < g->n_in; i++) {
        leaves[i] = ig_detach(g->in[i]);
        if (leaves[i] && ig__wants(g, i))
            leaves[i]->wants_grad = true;
    }
    const bool was = ig_grad_enable(ctx, true);
    ctx->autocast = a->autocast;
    ig_tensor *y = a->f(a->user, leaves, g->n_in);
    ctx->autocast = IG_DTYPE_F32; /* of a backward */
    ig_grad_enable(ctx, was);
    ig_tensor *const d = g->d_out[0];
    if (ig_backward_all(&y, &d, 1, NULL) != IG_OK)
        return;
    for (int i = 0; i < g->n_in; i++)
        g->d_in[i] = leaves[i]->grad;
}

#define ALL_IN                                                                             \
    (IG_IN(0) | IG_IN(1) | IG_IN(2) | IG_IN(3) | IG_IN(4) | IG_IN(5) | IG_IN(6) |          \
     IG_IN(7) | IG_IN(8) | IG_IN(9) | IG_IN(10) | IG_IN(11) | IG_IN(12) | IG_IN(13) |      \
     IG_IN(14) | IG_IN(15))

static ig_status recompute_shape(ig__type *out, const ig__type *const *in, int n_in,
                                 const void *attrs, ig_error *err)
{
    (void)n_in, (void)attrs, (void)err;
    *out = *in[0]; /* never asked: the node is made by hand */
    return IG_OK;
}

static const ig__op op_recompute = {
    .name = "recompute",
    .n_in_least = 1,
    .n_in_most = IG_MAX_INPUTS,
    .attrs_bytes = sizeof(recompute_attrs),
    .shape = recompute_shape,
    .gradient = recompute_gradient,
    .needs = {ALL_IN, ALL_IN, ALL_IN, ALL_IN, ALL_IN, ALL_IN, ALL_IN, ALL_IN, ALL_IN,
              ALL_IN, ALL_IN, ALL_IN, ALL_IN, ALL_IN, ALL_IN, ALL_IN},
};

ig_tensor *ig_recompute(ig_recompute_fn *f, void *user, ig_tensor *const *x, int n)
{
    recompute_attrs attrs;
    memset(&attrs, 0, sizeof attrs);
    attrs.f = f;
    attrs.user = user;
    for (int i = 0; i < n; i++)
        if (!x[i])
            return NULL;
    if (n < 1)
        return NULL;
    ig_context *ctx = x[0]->ctx;
    attrs.autocast = ctx->autocast;
    if (n > IG_MAX_INPUTS)
        return ig__fail_on(ctx, IG_ERR_ARGUMENT,
                           "recompute: takes 1 to %d operands, not %d", IG_MAX_INPUTS, n);
    if (ctx->no_grad)
        return f(user, x, n);
    ig_scope *scope = ig_scope_begin(ctx);
    if (!scope)
        return NULL;
    ctx->no_grad = true;
    ctx->missed_grad = false;
    ig_tensor *y = f(user, x, n);
    ctx->no_grad = false;
    y = ig_tensor_keep(y);
    ig_scope_end(scope);
    if (!y)
        return NULL;
    if (!ctx->missed_grad || y->node)
        return y;
    ig__tape *node = ig__tape_record(ctx, &op_recompute, &attrs, x, n, &y, 1);
    if (!node)
        return NULL;
    ig__tape_attach(node, &y, 1);
    return y;
}
