/* Mixed precision (Micikevicius et al., "Mixed precision training", 2018): operands are cast by the
 * precision that a row states.
 *
 * A cast made here is a node of the tape that gradients pass by (ig__tape.passes): a consumer's edge leads to
 * what was cast. So the gradient of an f32 weight or activation is not rounded to 16 bits on its
 * way, and arrives in f32 where a product can give it so.
 *
 * COPIES OF LEAVES. x->low is x in 16 bits, kept as long as x. It is fresh while
 *
 *     version of x's bytes - version of the copy's bytes == low_skew
 *
 * since a write of both at once (an optimiser's update, also inside a captured program) moves both
 * versions alike, and a write of x alone moves one. Each use is an alias with a history of its own, so
 * the copy holds no history and there is no cycle.
 */
#include "op/autocast.h"

#include "base/error.h"
#include "ingot/autocast.h"
#include "ingot/op.h"
#include "op/tape.h"
#include "tensor/capture.h"

static ig_tensor *passed(ig_tensor *y, const ig_tensor *x)
{
    if (y && y != x && y->node)
        ig__tape_of(y)->passes = true;
    return y;
}

ig_tensor *ig__cast_past(ig_tensor *x, ig_dtype dtype)
{
    return passed(ig__cast(x, dtype), x);
}

/* ---- copies of leaves -------------------------------------------------------------------------- */

static bool write_copy(ig_tensor *x, ig_dtype dtype)
{
    const bool was = x->ctx->no_grad;
    x->ctx->no_grad = true;
    const bool done = x->low ? ig_assign(x->low, x) != NULL
                             : (x->low = ig__unscope(ig__cast(x, dtype))) != NULL;
    x->ctx->no_grad = was;
    if (done)
        x->low_skew = x->storage->version - x->low->storage->version;
    return done;
}

bool ig__low_refresh(ig_tensor *x, ig_tensor *low)
{
    if (x->low == low && ig__low_is_fresh(x))
        return true;
    if (x->low != low) {
        ig__release(x->low);
        x->low = ig__retain(low);
    }
    return write_copy(x, low->type.dtype);
}

/* The copy as it is now. In a recording it is state: casting is no part of the program, unless the program
 * itself changed x, and each run begins with copies that are fresh. */
static bool update_copy(ig_tensor *x, ig_dtype dtype)
{
    ig_context *ctx = x->ctx;
    ig__capture *capture = ctx->capture;
    if (x->low && x->low->type.dtype != dtype) {
        ig__release(x->low);
        x->low = NULL;
    }
    const bool outside = capture && capture->is_state(capture, x);
    if (outside)
        ctx->capture = NULL;
    const bool done = ig__low_is_fresh(x) || write_copy(x, dtype);
    ctx->capture = capture;
    return done && (!outside || capture->use_copy(capture, x));
}

/* The leaf whose copy holds x's elements: x, or what x is a view of; NULL: none is kept. */
static ig_tensor *kept_leaf(ig_tensor *x)
{
    ig_tensor *leaf = x->base ? x->base : x;
    const bool is_kept = !leaf->node && (leaf->wants_grad || !leaf->scope) &&
                         leaf->contiguous && leaf->type.dtype == IG_DTYPE_F32 &&
                         leaf->data == leaf->storage->data;
    return is_kept ? leaf : NULL;
}

/* x by the copy of its leaf: an alias or a view of that, whose gradient goes where x's goes. */
static ig_tensor *by_copy(ig_tensor *x, ig_tensor *leaf, ig_dtype dtype)
{
    if (!update_copy(leaf, dtype))
        return NULL;
    const bool records = ig__records(x->ctx, x);
    if (x == leaf && !records)
        return leaf->low;
    ig__type type = x->type;
    type.dtype = dtype;
    ig_tensor *y = ig__tensor_view(leaf->low, &type, x->strides,
                                   leaf->low->data + (x->data - leaf->data) / 2);
    if (!y || !records)
        return y;
    const ig__cast_attrs attrs = {.dtype = dtype};
    ig__tape *node = ig__tape_record(x->ctx, &ig__op_cast, &attrs, &x, 1, &y, 1);
    if (!node)
        return NULL;
    ig__tape_attach(node, &y, 1);
    return passed(y, x);
}

/* ---- the rule ---------------------------------------------------------------------------------- */

ig_tensor *ig__autocast(ig_tensor *x, ig__precision precision)
{
    if (!x || precision == IG_PRECISION_FOLLOWS || !ig__is_float(x->type.dtype) ||
        x->type.dtype == IG_DTYPE_F64)
        return x;
    const ig_dtype dtype = precision == IG_PRECISION_LOW ? x->ctx->autocast : IG_DTYPE_F32;
    if (x->type.dtype == dtype)
        return x;
    if (x->base && !ig__refresh(x))
        return NULL;
    ig_tensor *leaf = precision == IG_PRECISION_LOW ? kept_leaf(x) : NULL;
    return leaf ? by_copy(x, leaf, dtype) : ig__cast_past(x, dtype);
}

bool ig__autocast_low(ig_tensor **x, int n)
{
    for (int i = 0; i < n; i++) {
        if (!x[i] || x[i]->ctx->autocast == IG_DTYPE_F32 || ig__context_failed(x[i]->ctx))
            continue;
        if (!(x[i] = ig__autocast(x[i], IG_PRECISION_LOW)))
            return false;
    }
    return true;
}

ig_dtype ig_autocast(ig_context *ctx, ig_dtype dtype)
{
    const ig_dtype was = ctx->autocast;
    if (dtype == IG_DTYPE_F32 || dtype == IG_DTYPE_BF16 || dtype == IG_DTYPE_F16)
        ctx->autocast = dtype;
    else
        ig__fail_on(ctx, IG_ERR_ARGUMENT, "autocast: takes bf16, f16 or f32, not %s",
                    ig_dtype_name(dtype));
    return was;
}
