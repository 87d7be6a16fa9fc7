/* Joining: cat, and what is made of it: stack, pad, roll. */
#include "op/index.h"

#include "ingot/op.h"
#include "op/apply.h"
#include "op/op_int.h"

#include <string.h>

typedef struct cat_attrs {
    int64_t dim;
    int64_t sizes[IG_MAX_INPUTS]; /* of the operands along it: for the gradient */
} cat_attrs;

static ig_status cat_shape(ig__type *out, const ig__type *const *in, int n_in,
                           const void *attrs, ig_error *err)
{
    const cat_attrs *a = attrs;
    if (a->dim < 0 || a->dim >= in[0]->n_dims)
        return ig__fail_shapes(err, "cat", "no such dimension", in[0], NULL);
    *out = *in[0];
    for (int i = 1; i < n_in; i++) {
        ig__type fitted = *in[i];
        if (fitted.n_dims == out->n_dims)
            fitted.dims[a->dim] = out->dims[a->dim];
        if (!ig__type_same(&fitted, out))
            return ig__fail_shapes(err, "cat", "operands differ beside the dimension",
                                   in[0], in[i]);
        out->dims[a->dim].plus += in[i]->dims[a->dim].plus;
    }
    return IG_OK;
}

static int64_t cat_units(const ig__eval *e)
{
    return e->n_in;
}

/* An operand is a unit: its elements to their region of the output. */
static void cat_eval(const ig__eval *e, int64_t begin, int64_t end)
{
    const cat_attrs *a = e->attrs;
    const ig_dtype dtype = e->out[0].type->dtype;
    const ig__compute compute = ig__compute_of(dtype);
    const int64_t size = (int64_t)ig_dtype_block_bytes(dtype);
    for (int64_t i = begin; i < end; i++) {
        int64_t before = 0;
        for (int64_t k = 0; k < i; k++)
            before += e->in[k].type->dims[a->dim].plus;
        ig__array place = e->out[0];
        place.type = e->in[i].type;
        place.data += before * place.strides[a->dim] * size;
        ig__walk_over in, out;
        ig__walk_make(&in, &e->in[i], e->in[i].type);
        ig__walk_make(&out, &place, e->in[i].type);
        for (int64_t at = 0; at < e->in[i].n; at += IG_CHUNK) {
            const int64_t left = e->in[i].n - at, n = left < IG_CHUNK ? left : IG_CHUNK;
            ig__walk_load(&in, at, n, e->scratch, compute);
            ig__walk_store(&out, at, n, e->scratch, compute);
        }
    }
}

static void cat_gradient(ig__gradient *g)
{
    const cat_attrs *a = g->attrs;
    int64_t at = 0;
    for (int i = 0; i < g->n_in; at += a->sizes[i++])
        if (ig__wants(g, i))
            g->d_in[i] = ig_slice(g->d_out[0], (int)a->dim, at, at + a->sizes[i], 1);
}

const ig__op ig__op_cat = {.name = "cat",
                           .n_in_least = 1,
                           .n_in_most = IG_MAX_INPUTS,
                           .attrs_bytes = sizeof(cat_attrs),
                           .shape = cat_shape,
                           .n_units = cat_units,
                           .eval = cat_eval,
                           .room = ig__pointwise_room,
                           .gradient = cat_gradient};

/* ---- public ------------------------------------------------------------------------------------------------ */

/* A negative *dim from the end; false: there is no such dimension, or no x. */
static bool find_dim(int *dim, const char *op, ig_tensor *x)
{
    if (!x)
        return false;
    const int at = *dim < 0 ? *dim + x->type.n_dims : *dim;
    if (at < 0 || at >= x->type.n_dims)
        return ig__fail_on(x->ctx, IG_ERR_SHAPE, "%s: dimension %d of a tensor of %d", op,
                           *dim, x->type.n_dims),
               false;
    *dim = at;
    return true;
}

ig_tensor *ig_cat(ig_tensor *const *x, int n, int dim)
{
    cat_attrs attrs;
    ig_tensor *parts[IG_MAX_INPUTS];
    for (int i = 0; i < n; i++)
        if (!x[i])
            return NULL;
    if (n < 1 || !find_dim(&dim, "cat", x[0]))
        return NULL;
    memset(&attrs, 0, sizeof attrs);
    attrs.dim = dim;
    if (n <= IG_MAX_INPUTS) {
        for (int i = 0; i < n; i++)
            attrs.sizes[i] = ig_tensor_dim(x[i], dim);
        return ig__apply(NULL, &ig__op_cat, &attrs, x, n);
    }
    /* many operands: sixteen parts, each a cat of its own */
    const int share = (n + IG_MAX_INPUTS - 1) / IG_MAX_INPUTS;
    int n_parts = 0;
    for (int i = 0; i < n; i += share)
        parts[n_parts++] = ig_cat(x + i, n - i < share ? n - i : share, dim);
    return ig_cat(parts, n_parts, dim);
}

ig_tensor *ig_stack(ig_tensor *const *x, int n, int dim)
{
    enum { FEW = 64 };
    ig_tensor *parts[FEW];
    if (n < 1 || !x[0])
        return NULL;
    if (n > FEW)
        return ig__fail_on(x[0]->ctx, IG_ERR_LIMIT,
                           "stack: takes at most %d tensors, not %d", FEW, n);
    for (int i = 0; i < n; i++)
        parts[i] = ig_unsqueeze(x[i], dim);
    return ig_cat(parts, n, dim);
}

ig_tensor *ig_pad(ig_tensor *x, int dim, int64_t before, int64_t after, double value)
{
    int64_t dims[IG_MAX_DIMS];
    if (!find_dim(&dim, "pad", x))
        return NULL;
    if (before < 0 || after < 0)
        return ig__fail_on(x->ctx, IG_ERR_ARGUMENT, "pad: %lld before and %lld after",
                           (long long)before, (long long)after);
    for (int d = 0; d < x->type.n_dims; d++)
        dims[d] = x->type.dims[d].plus;
    ig_tensor *parts[3];
    int n = 0;
    dims[dim] = before;
    if (before)
        parts[n++] = ig_full(x->ctx, x->type.dtype, x->type.n_dims, dims, value);
    parts[n++] = x;
    dims[dim] = after;
    if (after)
        parts[n++] = ig_full(x->ctx, x->type.dtype, x->type.n_dims, dims, value);
    return n == 1 ? x : ig_cat(parts, n, dim);
}

ig_tensor *ig_roll(ig_tensor *x, int dim, int64_t shift)
{
    const int64_t n = ig_tensor_dim(x, dim);
    if (!x || n == 0)
        return x;
    shift = ((shift % n) + n) % n;
    if (shift == 0)
        return x;
    ig_tensor *const parts[2] = {ig_slice(x, dim, n - shift, IG_END, 1),
                                 ig_slice(x, dim, 0, n - shift, 1)};
    return ig_cat(parts, 2, dim);
}
