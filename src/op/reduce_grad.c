/* Gradients of reductions: spread over the elements; of a product, never by dividing through an element. */
#include "op/reduce.h"

#include "ingot/op.h"
#include "op/apply.h"

/* y with the reduced dimensions as 1 again, so that it broadcasts to the operand. */
static ig_tensor *kept(ig_tensor *y, const ig__type *type, const ig__reduce_attrs *a)
{
    int64_t dims[IG_MAX_DIMS];
    for (int d = 0; d < type->n_dims; d++)
        dims[d] = a->mask >> d & 1 ? 1 : type->dims[d].plus;
    return ig_reshape(y, type->n_dims, dims);
}
static ig_tensor *spread(ig_tensor *y, const ig__type *type, const ig__reduce_attrs *a)
{
    int64_t dims[IG_MAX_DIMS];
    for (int d = 0; d < type->n_dims; d++)
        dims[d] = type->dims[d].plus;
    return ig_expand(kept(y, type, a), type->n_dims, dims);
}
static int64_t count_of(const ig__type *type, const ig__reduce_attrs *a)
{
    int64_t n = 1;
    for (int d = 0; d < type->n_dims; d++)
        if (a->mask >> d & 1)
            n *= type->dims[d].plus;
    return n;
}

void ig__sum_gradient(ig__gradient *g)
{
    g->d_in[0] = spread(g->d_out[0], g->type[0], g->attrs);
}
void ig__mean_gradient(ig__gradient *g)
{
    const double n = (double)count_of(g->type[0], g->attrs);
    g->d_in[0] = spread(ig_scale(g->d_out[0], 1 / n), g->type[0], g->attrs);
}
static int mask_list(uint32_t mask, int *dims)
{
    int n = 0;
    for (int d = 0; d < IG_MAX_DIMS; d++)
        if (mask >> d & 1)
            dims[n++] = d;
    return n;
}

void ig__max_gradient(ig__gradient *g)
{
    const ig__reduce_attrs *a = g->attrs;
    int dims[IG_MAX_DIMS];
    const int n = mask_list(a->mask, dims);
    ig_tensor *x = g->in[0], *top = kept(g->out[0], g->type[0], a);
    ig_tensor *d = kept(g->d_out[0], g->type[0], a), *zero = ig_full_like(d, 0);
    ig_tensor *here = ig_equal(x, top);
    ig_tensor *share =
        ig_div(d, n ? ig_sum(ig_cast(here, d ? d->type.dtype : IG_DTYPE_F32), n, dims, true)
                    : ig_full_like(d, 1));
    g->d_in[0] = ig_where(here, share, zero);
}

void ig__var_gradient(ig__gradient *g)
{
    const ig__reduce_attrs *a = g->attrs;
    int dims[IG_MAX_DIMS];
    const int n = mask_list(a->mask, dims);
    const double left = (double)(count_of(g->type[0], a) - a->correction);
    ig_tensor *x = g->in[0];
    ig_tensor *deviation = n ? ig_sub(x, ig_mean(x, n, dims, true)) : ig_sub(x, x);
    ig_tensor *d = ig_scale(kept(g->d_out[0], g->type[0], a), 2 / left);
    g->d_in[0] = ig_mul(deviation, d);
}

/* Along a dimension: the product of the elements before each. */
static ig_tensor *product_before(ig_tensor *x)
{
    return ig_cumprod(ig_pad(ig_slice(x, -1, 0, ig_tensor_dim(x, -1) - 1, 1), -1, 1, 0, 1),
                      -1);
}

/* Each element's product of all others, of plain operators: reduced dimensions go last, as one. */
static ig_tensor *others_of(ig_tensor *x, const ig__reduce_attrs *a)
{
    int order[IG_MAX_DIMS], back[IG_MAX_DIMS], n = 0;
    int64_t dims[IG_MAX_DIMS], flat[IG_MAX_DIMS + 1];
    const int n_dims = x->type.n_dims;
    if (!x->n)
        return x;
    for (int pass = 0; pass < 2; pass++)
        for (int d = 0; d < n_dims; d++)
            if ((int)(a->mask >> d & 1) == pass)
                order[n++] = d;
    for (int i = 0; i < n_dims; i++) {
        dims[i] = x->type.dims[order[i]].plus;
        back[order[i]] = i;
    }
    flat[0] = -1;
    flat[1] = count_of(&x->type, a);
    ig_tensor *rows = ig_reshape(ig_permute(x, n_dims, order), 2, flat);
    ig_tensor *behind = ig_flip(product_before(ig_flip(rows, -1)), -1);
    ig_tensor *others = ig_mul(product_before(rows), behind);
    return ig_permute(ig_reshape(others, n_dims, dims), n_dims, back);
}

/* The product of all others: from both sides, never divided by the element (0 would be lost). */
void ig__prod_gradient(ig__gradient *g)
{
    ig_tensor *const in[2] = {g->in[0], g->d_out[0]};
    if (!g->ctx->no_grad) {
        g->d_in[0] =
            ig_mul(others_of(g->in[0], g->attrs), kept(g->d_out[0], g->type[0], g->attrs));
        return;
    }
    g->d_in[0] = ig__apply(g->ctx, &ig__op_prod_grad, g->attrs, in, 2);
}

/* ---- prod_grad: x, dy -> dy times the product of the other elements -------------------------------------- */

static ig_status prod_grad_shape(ig__type *out, const ig__type *const *in, int n_in,
                                 const void *attrs, ig_error *err)
{
    (void)n_in, (void)attrs, (void)err;
    *out = *in[0];
    return IG_OK;
}

/* Products before an element go to the output on the way up, those behind join them on the way down. */
static void prod_grad_eval(const ig__eval *e, int64_t begin, int64_t end)
{
    const ig__reduce_attrs *a = e->attrs;
    ig__reduction in, out, dy;
    ig__reduction_make(&in, &e->in[0], a->mask);
    ig__reduction_make(&out, &e->out[0], a->mask);
    ig__reduction_make(&dy, &e->in[1], 0);
    for (int64_t o = begin; o < end; o++) {
        const ig__walk_over x = ig__reduction_elements(&in, o),
                            y = ig__reduction_elements(&out, o);
        double d, product = 1, value, before;
        ig__walk_load(&dy.kept, o, 1, &d, IG_COMPUTE_F64);
        for (int64_t i = 0; i < in.n; i++) {
            ig__walk_store(&y, i, 1, &product, IG_COMPUTE_F64);
            ig__walk_load(&x, i, 1, &value, IG_COMPUTE_F64);
            product *= value;
        }
        product = d;
        for (int64_t i = in.n; i-- > 0;) {
            ig__walk_load(&y, i, 1, &before, IG_COMPUTE_F64);
            before *= product;
            ig__walk_store(&y, i, 1, &before, IG_COMPUTE_F64);
            ig__walk_load(&x, i, 1, &value, IG_COMPUTE_F64);
            product *= value;
        }
    }
}

static int64_t prod_grad_units(const ig__eval *e)
{
    return e->in[1].n;
}

const ig__op ig__op_prod_grad = {.name = "prod_grad",
                                 .n_in_least = 2,
                                 .n_in_most = 2,
                                 .attrs_bytes = sizeof(ig__reduce_attrs),
                                 .shape = prod_grad_shape,
                                 .n_units = prod_grad_units,
                                 .eval = prod_grad_eval,
                                 .gradient = ig__gradient_missing};
