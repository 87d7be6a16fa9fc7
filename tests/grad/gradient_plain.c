/* Cases of test_gradients: operators on arrays. */
#include "grad/gradient_cases.h"

#define UNARY(op)                                                                          \
    static ig_tensor *f_##op(ig_tensor *const *x)                                          \
    {                                                                                      \
        return ig_##op(x[0]);                                                              \
    }
#define BINARY(op)                                                                         \
    static ig_tensor *f_##op(ig_tensor *const *x)                                          \
    {                                                                                      \
        return ig_##op(x[0], x[1]);                                                        \
    }
UNARY(neg)
UNARY(abs)
UNARY(square)
UNARY(sqrt)
UNARY(rsqrt)
UNARY(reciprocal)
UNARY(exp)
UNARY(expm1)
UNARY(log)
UNARY(log1p)
UNARY(sin)
UNARY(cos)
UNARY(tanh)
UNARY(sigmoid)
UNARY(relu)
UNARY(silu)
UNARY(softplus)
UNARY(erf)
UNARY(gelu)
UNARY(gelu_erf)
UNARY(copy)
BINARY(add)
BINARY(sub)
BINARY(mul)
BINARY(div)
BINARY(pow)
BINARY(maximum)
BINARY(minimum)
BINARY(matmul)
BINARY(bce_with_logits)
BINARY(mse)
BINARY(l1)
BINARY(swiglu)

static ig_tensor *f_where(ig_tensor *const *x)
{
    return ig_where(ig_less(x[0], x[1]), ig_mul(x[0], x[1]), x[1]);
}
static ig_tensor *f_scale(ig_tensor *const *x)
{
    return ig_add_scalar(ig_scale(x[0], -1.75), 3);
}
static ig_tensor *f_clamp(ig_tensor *const *x)
{
    return ig_clamp(x[0], -0.5, 0.75);
}
static ig_tensor *f_views(ig_tensor *const *x)
{
    ig_tensor *t = ig_transpose(ig_slice(x[0], 1, 4, IG_END, -2), 0, 1);
    return ig_mul(ig_reshape(t, IG_SHAPE(-1)), ig_reshape(t, IG_SHAPE(-1)));
}
static ig_tensor *f_select(ig_tensor *const *x)
{
    return ig_mul(ig_select(x[0], 1, -1), ig_unsqueeze(ig_select(x[0], 0, 1), 1));
}
static ig_tensor *f_expand(ig_tensor *const *x)
{
    ig_tensor *y = ig_expand(x[0], IG_SHAPE(2, 3, 5));
    return ig_mul(y, y);
}
static ig_tensor *f_flip(ig_tensor *const *x)
{
    return ig_mul(ig_flip(x[0], 0), x[0]);
}
static ig_tensor *f_sum(ig_tensor *const *x)
{
    const int dims[2] = {0, -1};
    return ig_square(ig_sum(ig_square(x[0]), 2, dims, false));
}
static ig_tensor *f_mean(ig_tensor *const *x)
{
    const int dim = 1;
    return ig_square(ig_mean(x[0], 1, &dim, true));
}
static ig_tensor *f_prod(ig_tensor *const *x)
{
    const int dim = 1;
    return ig_prod(x[0], 1, &dim, false);
}
static ig_tensor *f_max(ig_tensor *const *x)
{
    const int dim = 0;
    return ig_square(ig_max(x[0], 1, &dim, false));
}
static ig_tensor *f_min(ig_tensor *const *x)
{
    return ig_square(ig_min(x[0], 0, NULL, false));
}
static ig_tensor *f_var(ig_tensor *const *x)
{
    const int dim = 1;
    return ig_square(ig_var(x[0], 1, &dim, false, 1));
}
static ig_tensor *f_logsumexp(ig_tensor *const *x)
{
    return ig_logsumexp(x[0], 1, false);
}
static ig_tensor *f_softmax(ig_tensor *const *x)
{
    return ig_square(ig_softmax(x[0], -1));
}
static ig_tensor *f_log_softmax(ig_tensor *const *x)
{
    return ig_square(ig_log_softmax(x[0], 0));
}
static ig_tensor *f_linear(ig_tensor *const *x)
{
    return ig_linear(x[0], x[1], x[2]);
}
static ig_tensor *f_cross_entropy(ig_tensor *const *x)
{
    static const int64_t targets[3] = {4, -1, 0};
    ig_tensor *t =
        ig_tensor_from(ig_tensor_context(x[0]), IG_DTYPE_I64, IG_SHAPE(3), targets);
    return ig_cross_entropy(
        x[0], t,
        &(ig_cross_entropy_opts){.label_smoothing = 0.1, .ignore = -1, .use_ignore = true});
}
static ig_tensor *f_assign(ig_tensor *const *x)
{
    ig_tensor *y = ig_mul(x[0], x[0]);
    ig_assign(ig_slice(y, 1, 1, 3, 1), x[1]);
    ig_scale_into(ig_select(y, 0, 0), 1.5);
    ig_add_into(ig_select(y, 1, 2), ig_select(x[0], 1, 0));
    return ig_mul(y, ig_sin(x[0]));
}
static ig_tensor *f_cumprod(ig_tensor *const *x)
{
    return ig_cumprod(x[0], 1);
}
static ig_tensor *f_cumsum(ig_tensor *const *x)
{
    return ig_square(ig_cumsum(x[0], 0));
}
static ig_tensor *f_sort(ig_tensor *const *x)
{
    return ig_square(ig_slice(ig_sort(x[0], 1, true, NULL), 1, 1, 4, 1));
}
static ig_tensor *f_norm(ig_tensor *const *x)
{
    const int dim = 1;
    return ig_norm(x[0], 1, &dim, true);
}
static ig_tensor *f_tril(ig_tensor *const *x)
{
    return ig_square(ig_add(ig_tril(x[0], 1), ig_triu(x[0], 0)));
}
static ig_tensor *f_roll(ig_tensor *const *x)
{
    return ig_mul(ig_pad(ig_roll(x[0], 1, 2), 0, 1, 0, 0.5), ig_pad(x[0], 0, 0, 1, 2));
}
static ig_tensor *ids_of(ig_tensor *x, int64_t rows, int64_t columns, const int64_t *ids)
{
    return ig_tensor_from(ig_tensor_context(x), IG_DTYPE_I64, IG_SHAPE(rows, columns), ids);
}
static ig_tensor *f_embedding(ig_tensor *const *x)
{
    static const int64_t ids[4] = {2, 0, 2, -1};
    return ig_square(ig_embedding(ids_of(x[0], 2, 2, ids), x[0]));
}
/* rows of groups of 2, 0 and 2; the last row is of none */
static ig_tensor *f_group_linear(ig_tensor *const *x)
{
    static const int64_t counts[3] = {2, 0, 2};
    ig_tensor *n =
        ig_tensor_from(ig_tensor_context(x[0]), IG_DTYPE_I64, IG_SHAPE(3), counts);
    return ig_square(ig_group_linear(x[0], x[1], n));
}
static ig_tensor *f_nll(ig_tensor *const *x)
{
    static const int64_t ids[3] = {4, 0, 1};
    ig_tensor *t = ig_reshape(ids_of(x[0], 3, 1, ids), IG_SHAPE(3));
    return ig_nll(ig_log_softmax(x[0], -1), t);
}
static ig_tensor *f_huber(ig_tensor *const *x)
{
    return ig_huber(x[0], ig_flip(x[0], 1), 0.7);
}
static ig_tensor *f_interpolate(ig_tensor *const *x)
{
    static const int64_t sizes[2] = {4, 3};
    return ig_square(ig_interpolate(x[0], 2, sizes, true));
}
static ig_tensor *f_cat(ig_tensor *const *x)
{
    ig_tensor *const parts[3] = {x[1], x[0], x[1]};
    return ig_square(ig_cat(parts, 3, 1));
}
static ig_tensor *f_stack(ig_tensor *const *x)
{
    return ig_square(ig_stack(x, 2, 1));
}
static ig_tensor *f_gather(ig_tensor *const *x)
{
    static const int64_t ids[6] = {1, 1, 4, 0, -1, 2};
    return ig_mul(
        ig_gather(x[0], 1, ids_of(x[0], 3, 2, ids)),
        ig_index_select(x[1], 1, ig_reshape(ids_of(x[0], 1, 2, ids), IG_SHAPE(2))));
}
static ig_tensor *f_scatter(ig_tensor *const *x)
{
    static const int64_t ids[6] = {1, 1, 4, 0, -1, 2};
    return ig_square(ig_scatter_add(x[0], 1, ids_of(x[0], 3, 2, ids), x[1]));
}
static ig_tensor *f_einsum(ig_tensor *const *x)
{
    return ig_einsum("ijk,jkl->il", x, 2);
}
static ig_tensor *f_cast(ig_tensor *const *x)
{
    return ig_cast(ig_mul(x[0], x[0]), IG_DTYPE_F64);
}

const entry gradient_plain[] = {
    ONE(neg, -2, 2),
    ONE(abs, -2, 2),
    ONE(square, -2, 2),
    ONE(sqrt, 0.2, 3),
    ONE(rsqrt, 0.3, 3),
    ONE(reciprocal, 0.4, 2),
    ONE(exp, -2, 2),
    ONE(expm1, -2, 2),
    ONE(log, 0.2, 3),
    ONE(log1p, -0.6, 3),
    ONE(sin, -3, 3),
    ONE(cos, -3, 3),
    ONE(tanh, -2, 2),
    ONE(sigmoid, -4, 4),
    ONE(relu, -2, 2),
    ONE(silu, -4, 4),
    ONE(softplus, -4, 4),
    ONE(erf, -2, 2),
    ONE(gelu, -3, 3),
    ONE(gelu_erf, -3, 3),
    ONE(copy, -2, 2),
    ONE(scale, -2, 2),
    ONE(clamp, -2, 2),
    ONE(views, -2, 2),
    ONE(select, -2, 2),
    ONE(expand, -2, 2),
    ONE(flip, -2, 2),
    ONE(mean, -2, 2),
    ONE(max, -2, 2),
    ONE(min, -2, 2),
    ONE(var, -2, 2),
    ONE(logsumexp, -3, 3),
    ONE(softmax, -2, 2),
    ONE(log_softmax, -2, 2),
    ONE(cast, -2, 2),
    {.name = "sum", .f = f_sum, .n_in = 1, .dims = {{2, 3, 4}}, .low = -1, .high = 1},
    {.name = "prod", .f = f_prod, .n_in = 1, .dims = {{3, 4}}, .low = -2, .high = 2},
    {.name = "cross_entropy",
     .f = f_cross_entropy,
     .n_in = 1,
     .dims = {{3, 5}},
     .low = -3,
     .high = 3},
    {.name = "cumprod",
     .f = f_cumprod,
     .n_in = 1,
     .dims = {{3, 4}},
     .low = -2,
     .high = 2,
     .first_order = true},
    ONE(cumsum, -2, 2),
    ONE(sort, -2, 2),
    ONE(norm, -2, 2),
    ONE(tril, -2, 2),
    ONE(roll, -2, 2),
    ONE(embedding, -2, 2),
    ONE(nll, -2, 2),
    ONE(huber, -2, 2),
    ONE(interpolate, -2, 2),
    TWO(cat, -2, 2, {3, 5}, {3, 2}),
    TWO(stack, -2, 2, {3, 2}, {3, 2}),
    TWO(gather, -2, 2, {3, 5}, {3, 5}),
    TWO(scatter, -2, 2, {3, 5}, {3, 2}),
    TWO(einsum, -1, 1, {2, 3, 2}, {3, 2, 2}),
    TWO(bce_with_logits, 0.1, 0.9, {3, 5}, {3, 5}),
    TWO(mse, -2, 2, {3, 5}, {3, 5}),
    TWO(l1, -2, 2, {3, 5}, {3, 5}),
    TWO(add, -2, 2, {3, 5}, {5}),
    TWO(sub, -2, 2, {3, 1}, {1, 5}),
    TWO(mul, -2, 2, {2, 1, 3}, {4, 1}),
    TWO(div, 0.5, 2, {3, 5}, {3, 1}),
    TWO(pow, 0.4, 2, {3, 4}, {4}),
    TWO(maximum, -2, 2, {3, 5}, {3, 5}),
    TWO(minimum, -2, 2, {3, 5}, {5}),
    TWO(where, -2, 2, {3, 5}, {5}),
    TWO(matmul, -2, 2, {3, 5}, {5, 2}),
    TWO(assign, -2, 2, {3, 5}, {3, 2}),
    {.name = "matmul, batches",
     .f = f_matmul,
     .n_in = 2,
     .dims = {{2, 3, 4}, {4, 2}},
     .low = -1,
     .high = 1},
    {.name = "matmul, a vector",
     .f = f_matmul,
     .n_in = 2,
     .dims = {{4}, {4, 3}},
     .low = -1,
     .high = 1},
    TWO(swiglu, -3, 3, {3, 5}, {5}),
    {.name = "group_linear",
     .f = f_group_linear,
     .n_in = 2,
     .dims = {{5, 3}, {3, 2, 3}},
     .low = -1.5,
     .high = 1.5},
    {.name = "linear",
     .f = f_linear,
     .n_in = 3,
     .dims = {{3, 4}, {2, 4}, {2}},
     .low = -1,
     .high = 1},
};
const int n_gradient_plain = (int)(sizeof gradient_plain / sizeof *gradient_plain);
