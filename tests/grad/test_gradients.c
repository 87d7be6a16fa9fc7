/* Gradients of every differentiable operator against finite differences in f64, at odd shapes and
 * strides; second order where the gradient is made of operators; f32 against f64; and the
 * same bits for any strides and for one thread and two. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "ingot/ingot.h"
#include "op/network.h"
#include "op/product.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST = 6, CAP = 128 };

typedef ig_tensor *function(ig_tensor *const *x);

typedef struct entry {
    const char *name;
    function *f;
    int n_in;
    int64_t dims[MOST][3]; /* of each operand; 0 ends */
    double low, high;      /* operands are spread over it */
    bool first_order;      /* its gradient is a row without gradient */
} entry;

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

static ig_tensor *f_layer_norm(ig_tensor *const *x)
{
    return ig_square(ig_layer_norm(x[0], x[1], x[2], 0.1));
}
static ig_tensor *f_layer_norm_plain(ig_tensor *const *x)
{
    return ig_mul(ig_layer_norm(x[0], NULL, x[1], 0.1), ig_layer_norm(x[0], NULL, NULL, 0));
}
static ig_tensor *f_rms_norm(ig_tensor *const *x)
{
    return ig_mul(ig_rms_norm(x[0], x[1], 0.1), ig_rms_norm(x[0], NULL, 0.2));
}
static ig_tensor *f_group_norm(ig_tensor *const *x)
{
    return ig_square(ig_group_norm(x[0], 2, x[1], x[2], 0.1));
}
static ig_tensor *f_batch_norm(ig_tensor *const *x)
{
    return ig_square(
        ig_batch_norm(x[0], x[1], x[2], &(ig_batch_norm_opts){.train = true, .eps = 0.1}));
}
/* x [B,C,H*W] as [B,C,H,W] with rows of `width` */
static ig_tensor *as_image(ig_tensor *x, int64_t width)
{
    return ig_reshape(x, IG_SHAPE(ig_tensor_dim(x, 0), ig_tensor_dim(x, 1), -1, width));
}
static ig_tensor *f_conv2d(ig_tensor *const *x)
{
    const ig_conv_opts o = {
        .stride = {2, 1}, .pad = {1, 2}, .dilation = {1, 2}, .groups = 2};
    ig_tensor *y = ig_conv2d(as_image(x[0], 4), as_image(x[1], 2), x[2], &o);
    return ig_mul(y, y);
}
static ig_tensor *f_conv1d(ig_tensor *const *x)
{
    return ig_square(
        ig_conv1d(x[0], x[1], NULL, &(ig_conv_opts){.pad = {1}, .stride = {2}}));
}
static ig_tensor *f_conv_transpose2d(ig_tensor *const *x)
{
    const ig_conv_opts o = {.stride = {2, 1},
                            .pad = {0, 1},
                            .dilation = {1, 2},
                            .groups = 2,
                            .out_pad = {1, 0}};
    ig_tensor *y = ig_conv_transpose2d(as_image(x[0], 3), as_image(x[1], 2), x[2], &o);
    return ig_reshape(ig_mul(y, y), IG_SHAPE(-1));
}
static ig_tensor *f_conv_transpose1d(ig_tensor *const *x)
{
    return ig_square(
        ig_conv_transpose1d(x[0], x[1], NULL, &(ig_conv_opts){.stride = {3}, .pad = {1}}));
}
static ig_tensor *f_max_pool2d(ig_tensor *const *x)
{
    const ig_pool_opts o = {.kernel = {2, 3}, .stride = {1, 2}, .pad = {1, 0}};
    return ig_square(ig_max_pool2d(as_image(x[0], 5), &o));
}
static ig_tensor *f_avg_pool2d(ig_tensor *const *x)
{
    const ig_pool_opts o = {.kernel = {2, 3}, .stride = {1, 2}, .pad = {1, 1}};
    ig_pool_opts counting = o;
    counting.count_pads = true;
    return ig_mul(ig_avg_pool2d(as_image(x[0], 5), &o),
                  ig_avg_pool2d(as_image(x[0], 5), &counting));
}
/* q of 4 heads over 2 of keys, [1,4,3,2] and [1,2,5,2] */
static ig_tensor *attend(ig_tensor *const *x, const ig_attention_opts *o)
{
    return ig_square(ig_attention(ig_reshape(x[0], IG_SHAPE(1, 4, -1, 2)),
                                  ig_reshape(x[1], IG_SHAPE(1, 2, -1, 2)),
                                  ig_reshape(x[2], IG_SHAPE(1, 2, -1, 2)), o));
}
static ig_tensor *f_attention(ig_tensor *const *x)
{
    return attend(x, NULL);
}
static ig_tensor *f_attention_causal(ig_tensor *const *x)
{
    return attend(x, &(ig_attention_opts){.causal = true, .window = 3, .scale = 0.9});
}
/* The second query sees nothing. */
static ig_tensor *f_attention_masked(ig_tensor *const *x)
{
    static const uint8_t allowed[15] = {1, 0, 1, 1, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1};
    ig_tensor *mask =
        ig_tensor_from(ig_tensor_context(x[0]), IG_DTYPE_BOOL, IG_SHAPE(3, 5), allowed);
    return attend(x, &(ig_attention_opts){.mask = mask});
}
/* the same weights are dropped at every call */
static ig_tensor *f_attention_dropped(ig_tensor *const *x)
{
    ig_seed(ig_tensor_context(x[0]), 11);
    return attend(x, &(ig_attention_opts){.causal = true, .dropout = 0.4});
}
static ig_tensor *f_attention_biased(ig_tensor *const *x)
{
    static const double bias[5] = {0.5, -1, 0, 2, -0.25};
    ig_tensor *mask =
        ig_tensor_from(ig_tensor_context(x[0]), IG_DTYPE_F64, IG_SHAPE(5), bias);
    return attend(x, &(ig_attention_opts){.mask = mask, .causal = true});
}
static ig_tensor *f_attention_joined(ig_tensor *const *x)
{
    ig_tensor *y = ig__attention_joined(ig_reshape(x[0], IG_SHAPE(1, -1, 3, 2, 3)), true);
    return ig_square(y);
}
static ig_tensor *f_product_bias(ig_tensor *const *x)
{
    return ig_square(ig__matmul_bias(x[0], x[1], x[2]));
}
static ig_tensor *rotated(ig_tensor *x, bool halves)
{
    static const int32_t positions[5] = {3, 0, 1, 7, 2};
    ig_tensor *at =
        ig_tensor_from(ig_tensor_context(x), IG_DTYPE_I32, IG_SHAPE(5), positions);
    return ig_square(ig_rope(x, ig_rope_table(at, 4, NULL), halves));
}
static ig_tensor *f_rope(ig_tensor *const *x)
{
    return rotated(x[0], false);
}
static ig_tensor *f_rope_halves(ig_tensor *const *x)
{
    return rotated(x[0], true);
}
/* Two layers in both directions over sequences of 3 and 2 steps of 3, from a state: x [2,3,2], and all
 * weights in one operand. */
static ig_tensor *recurrent(ig_tensor *const *x, ig_cell cell, int gates)
{
    static const int32_t lengths[2] = {3, 2};
    ig_context *ctx = ig_tensor_context(x[0]);
    ig_tensor *w[16], *h, *c;
    int64_t at = 0;
    for (int i = 0; i < 16; i++) { /* D is 1: layer 0 reads 2 numbers, as layer 1 does */
        const int64_t n = gates * (i % 4 == 0 ? 2 : 1);
        w[i] = ig_slice(x[1], 0, at, at + n, 1);
        if (i % 4 < 2)
            w[i] = ig_reshape(w[i], IG_SHAPE(gates, -1));
        at += n;
    }
    w[7] = NULL;
    const ig_recurrent_opts o = {
        .layers = 2,
        .both = true,
        .lengths = ig_tensor_from(ctx, IG_DTYPE_I32, IG_SHAPE(2), lengths),
        .h0 = x[2],
        .c0 = x[3],
        .h_out = &h,
        .c_out = &c};
    ig_tensor *y = ig_recurrent(cell, x[0], w, 16, &o);
    ig_tensor *all[3] = {ig_reshape(y, IG_SHAPE(-1)), ig_reshape(h, IG_SHAPE(-1)),
                         cell == IG_CELL_LSTM ? ig_reshape(c, IG_SHAPE(-1)) : NULL};
    return ig_square(ig_cat(all, cell == IG_CELL_LSTM ? 3 : 2, 0));
}
static ig_tensor *f_rnn(ig_tensor *const *x)
{
    return recurrent(x, IG_CELL_RNN, 1);
}
static ig_tensor *f_lstm(ig_tensor *const *x)
{
    return recurrent(x, IG_CELL_LSTM, 4);
}
static ig_tensor *f_gru(ig_tensor *const *x)
{
    return recurrent(x, IG_CELL_GRU, 3);
}
static ig_tensor *f_linear_cross_entropy(ig_tensor *const *x)
{
    static const int64_t targets[3] = {4, -1, 0};
    ig_tensor *t =
        ig_tensor_from(ig_tensor_context(x[0]), IG_DTYPE_I64, IG_SHAPE(3), targets);
    return ig_linear_cross_entropy(
        x[0], x[1], x[2], t,
        &(ig_cross_entropy_opts){.label_smoothing = 0.1, .ignore = -1, .use_ignore = true});
}

#define ONE(name_, low_, high_)                                                            \
    {                                                                                      \
        .name = #name_, .f = f_##name_, .n_in = 1, .dims = {{3, 5}}, .low = low_,          \
        .high = high_                                                                      \
    }
#define TWO(name_, low_, high_, ...)                                                       \
    {                                                                                      \
        .name = #name_, .f = f_##name_, .n_in = 2, .dims = {__VA_ARGS__}, .low = low_,     \
        .high = high_                                                                      \
    }

static const entry entries[] = {
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
    TWO(rms_norm, -2, 2, {3, 2, 5}, {5}),
    {.name = "layer_norm",
     .f = f_layer_norm,
     .n_in = 3,
     .dims = {{3, 5}, {5}, {5}},
     .low = -2,
     .high = 2},
    {.name = "layer_norm, no gain",
     .f = f_layer_norm_plain,
     .n_in = 2,
     .dims = {{35, 3}, {3}},
     .low = -2,
     .high = 2},
    {.name = "group_norm",
     .f = f_group_norm,
     .n_in = 3,
     .dims = {{2, 4, 3}, {4}, {4}},
     .low = -2,
     .high = 2},
    {.name = "batch_norm",
     .f = f_batch_norm,
     .n_in = 3,
     .dims = {{2, 3, 4}, {3}, {3}},
     .low = -2,
     .high = 2},
    {.name = "conv2d",
     .f = f_conv2d,
     .n_in = 3,
     .dims = {{2, 4, 12}, {2, 2, 6}, {2}},
     .low = -1,
     .high = 1},
    TWO(conv1d, -1, 1, {2, 2, 7}, {3, 2, 3}),
    {.name = "conv_transpose2d",
     .f = f_conv_transpose2d,
     .n_in = 3,
     .dims = {{1, 4, 6}, {4, 1, 4}, {2}},
     .low = -1,
     .high = 1},
    TWO(conv_transpose1d, -1, 1, {2, 2, 4}, {2, 1, 3}),
    {.name = "max_pool2d",
     .f = f_max_pool2d,
     .n_in = 1,
     .dims = {{2, 2, 20}},
     .low = -2,
     .high = 2},
    {.name = "avg_pool2d",
     .f = f_avg_pool2d,
     .n_in = 1,
     .dims = {{2, 2, 20}},
     .low = -2,
     .high = 2},
    {.name = "group_linear",
     .f = f_group_linear,
     .n_in = 2,
     .dims = {{5, 3}, {3, 2, 3}},
     .low = -1.5,
     .high = 1.5},
    {.name = "attention",
     .f = f_attention,
     .n_in = 3,
     .dims = {{4, 6}, {2, 10}, {2, 10}},
     .low = -1.5,
     .high = 1.5},
    {.name = "attention_causal",
     .f = f_attention_causal,
     .n_in = 3,
     .dims = {{4, 6}, {2, 10}, {2, 10}},
     .low = -1.5,
     .high = 1.5},
    {.name = "attention_dropped",
     .f = f_attention_dropped,
     .n_in = 3,
     .dims = {{4, 6}, {2, 10}, {2, 10}},
     .low = -1.5,
     .high = 1.5},
    {.name = "attention_masked",
     .f = f_attention_masked,
     .n_in = 3,
     .dims = {{4, 6}, {2, 10}, {2, 10}},
     .low = -1.5,
     .high = 1.5},
    {.name = "attention_biased",
     .f = f_attention_biased,
     .n_in = 3,
     .dims = {{4, 6}, {2, 10}, {2, 10}},
     .low = -1.5,
     .high = 1.5},
    {.name = "attention_joined",
     .f = f_attention_joined,
     .n_in = 1,
     .dims = {{4, 18}},
     .low = -1.5,
     .high = 1.5},
    {.name = "product_bias",
     .f = f_product_bias,
     .n_in = 3,
     .dims = {{3, 4}, {4, 5}, {5}},
     .low = -1.5,
     .high = 1.5},
    {.name = "rope", .f = f_rope, .n_in = 1, .dims = {{2, 5, 6}}, .low = -2, .high = 2},
    {.name = "rope_halves",
     .f = f_rope_halves,
     .n_in = 1,
     .dims = {{2, 5, 6}},
     .low = -2,
     .high = 2},
    {.name = "rnn",
     .f = f_rnn,
     .n_in = 3,
     .dims = {{2, 3, 2}, {20}, {4, 2, 1}, {4, 2, 1}},
     .low = -1,
     .high = 1,
     .first_order = true},
    {.name = "lstm",
     .f = f_lstm,
     .n_in = 4,
     .dims = {{2, 3, 2}, {80}, {4, 2, 1}, {4, 2, 1}},
     .low = -1,
     .high = 1,
     .first_order = true},
    {.name = "gru",
     .f = f_gru,
     .n_in = 3,
     .dims = {{2, 3, 2}, {60}, {4, 2, 1}, {4, 2, 1}},
     .low = -1,
     .high = 1,
     .first_order = true},
    {.name = "linear_cross_entropy",
     .f = f_linear_cross_entropy,
     .n_in = 3,
     .dims = {{3, 4}, {5, 4}, {5}},
     .low = -1,
     .high = 1,
     .first_order = true},
    {.name = "linear",
     .f = f_linear,
     .n_in = 3,
     .dims = {{3, 4}, {2, 4}, {2}},
     .low = -1,
     .high = 1},
};
enum { N_ENTRIES = (int)(sizeof entries / sizeof *entries) };

/* ---- values -------------------------------------------------------------------------------- */

static int n_dims_of(const int64_t *dims)
{
    int n = 0;
    while (n < 3 && dims[n])
        n++;
    return n;
}

static int64_t fill(double *x, const entry *e, int i, uint64_t seed)
{
    int64_t n = 1;
    for (int d = 0; d < n_dims_of(e->dims[i]); d++)
        n *= e->dims[i][d];
    for (int64_t k = 0; k < n; k++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        x[k] = e->low + (e->high - e->low) * (double)(seed >> 40) / (double)(1 << 24);
    }
    return n;
}

/* The operand; with `turned`, stored with its dimensions backwards. */
static ig_tensor *operand(ig_context *ctx, const entry *e, int i, const double *x,
                          ig_dtype dtype, bool turned)
{
    const int n = n_dims_of(e->dims[i]);
    ig_tensor *t = ig_tensor_from(ctx, IG_DTYPE_F64, n, e->dims[i], x);
    if (turned) {
        int order[3];
        for (int d = 0; d < n; d++)
            order[d] = n - 1 - d;
        t = ig_permute(ig_copy(ig_permute(t, n, order)), n, order);
    }
    return ig_cast(t, dtype);
}

/* A number that depends on all elements of y in different ways. */
static ig_tensor *weigh(ig_tensor *y)
{
    double w[CAP];
    const int64_t n = ig_tensor_count(y);
    assert_true(n <= CAP);
    for (int64_t i = 0; i < n; i++)
        w[i] = 0.3 + 0.1 * (double)(i * 7 % 11);
    int64_t dims[8];
    for (int d = 0; d < ig_tensor_n_dims(y); d++)
        dims[d] = ig_tensor_dim(y, d);
    ig_tensor *t =
        ig_tensor_from(ig_tensor_context(y), IG_DTYPE_F64, ig_tensor_n_dims(y), dims, w);
    return ig_sum(ig_mul(y, ig_cast(t, ig_tensor_dtype(y))), 0, NULL, false);
}

static double value_of(ig_context *ctx, const entry *e, double (*x)[CAP])
{
    ig_tensor *in[MOST];
    ig_scope *scope = ig_scope_begin(ctx);
    for (int i = 0; i < e->n_in; i++)
        in[i] = operand(ctx, e, i, x[i], IG_DTYPE_F64, false);
    const double v = ig_tensor_item(weigh(e->f(in)));
    ig_scope_end(scope);
    return v;
}

static void must(ig_context *ctx, const entry *e)
{
    if (ig_context_status(ctx) != IG_OK)
        fail_msg("%s: %s", e->name, ig_context_message(ctx));
}

static void must_read(ig_tensor *x, void *out)
{
    ig_error error;
    if (ig_tensor_read(x, out, ig_tensor_bytes(x), &error) != IG_OK)
        fail_msg("%s", error.message);
}

/* ---- the tests ------------------------------------------------------------------------------ */

static ig_context *context(int n_threads)
{
    ig_context *ctx;
    ig_error error;
    if (ig_context_create(&ctx, &(ig_context_opts){.n_threads = n_threads, .poison = true},
                          &error) != IG_OK)
        fail_msg("%s", error.message);
    return ctx;
}

static void check_entry(ig_context *ctx, const entry *e, bool turned)
{
    double x[MOST][CAP], grad[CAP];
    ig_tensor *in[MOST];
    const double step = 1e-5;
    ig_scope *scope = ig_scope_begin(ctx);
    for (int i = 0; i < e->n_in; i++) {
        fill(x[i], e, i, (uint64_t)(17 * i + 5));
        in[i] = ig_detach(operand(ctx, e, i, x[i], IG_DTYPE_F64, turned));
        ig_tensor_require_grad(in[i], true);
    }
    ig_tensor *y = weigh(e->f(in));
    assert_int_equal(ig_backward(y), IG_OK);
    must(ctx, e);
    for (int i = 0; i < e->n_in; i++) {
        must_read(ig_tensor_grad(in[i]), grad);
        for (int64_t k = 0; k < ig_tensor_count(in[i]); k++) {
            const double at = x[i][k];
            x[i][k] = at + step;
            const double above = value_of(ctx, e, x);
            x[i][k] = at - step;
            const double below = value_of(ctx, e, x);
            x[i][k] = at;
            const double slope = (above - below) / (2 * step);
            if (!(fabs(slope - grad[k]) <= 1e-7 * (1 + fabs(slope))))
                fail_msg("%s: operand %d, element %d: %.10g, by differences %.10g", e->name,
                         i, (int)k, grad[k], slope);
        }
    }
    ig_scope_end(scope);
}

static void test_finite_differences(void **state)
{
    (void)state;
    ig_context *ctx = context(1);
    for (int i = 0; i < N_ENTRIES; i++) {
        check_entry(ctx, &entries[i], false);
        check_entry(ctx, &entries[i], true);
    }
    ig_context_destroy(ctx);
}

/* The gradient as a number of its own: the sum of each operand's gradient, weighed. */
static ig_tensor *slope_of(const entry *e, ig_tensor *const *in)
{
    ig_tensor *d[MOST], *y = weigh(e->f(in)), *sum = NULL;
    if (ig_gradients(d, in, e->n_in, &y, NULL, 1, &(ig_backward_opts){.record = true}) !=
        IG_OK)
        return NULL;
    for (int i = 0; i < e->n_in; i++)
        if (d[i])
            sum = sum ? ig_add(sum, weigh(d[i])) : weigh(d[i]);
    return sum;
}

static double slope_value(ig_context *ctx, const entry *e, double (*x)[CAP])
{
    ig_tensor *in[MOST];
    ig_scope *scope = ig_scope_begin(ctx);
    for (int i = 0; i < e->n_in; i++) {
        in[i] = operand(ctx, e, i, x[i], IG_DTYPE_F64, false);
        ig_tensor_require_grad(in[i], true);
    }
    const double v = ig_tensor_item(slope_of(e, in));
    ig_scope_end(scope);
    return v;
}

static void test_second_order(void **state)
{
    (void)state;
    const double step = 1e-5;
    ig_context *ctx = context(1);
    for (int at = 0; at < N_ENTRIES; at++) {
        const entry *e = &entries[at];
        double x[MOST][CAP], grad[CAP];
        ig_tensor *in[MOST], *d[MOST];
        if (e->first_order)
            continue;
        ig_scope *scope = ig_scope_begin(ctx);
        for (int i = 0; i < e->n_in; i++) {
            fill(x[i], e, i, (uint64_t)(17 * i + 5));
            in[i] = operand(ctx, e, i, x[i], IG_DTYPE_F64, false);
            ig_tensor_require_grad(in[i], true);
        }
        ig_tensor *y = slope_of(e, in);
        must(ctx, e);
        const bool flows = ig_tensor_wants_grad(y);
        if (flows)
            ig_gradients(d, in, e->n_in, &y, NULL, 1, NULL);
        must(ctx, e);
        for (int i = 0; i < e->n_in; i++) {
            memset(grad, 0, sizeof grad);
            if (flows && d[i])
                must_read(d[i], grad);
            for (int64_t k = 0; k < ig_tensor_count(in[i]); k++) {
                const double was = x[i][k];
                x[i][k] = was + step;
                const double above = slope_value(ctx, e, x);
                x[i][k] = was - step;
                const double below = slope_value(ctx, e, x);
                x[i][k] = was;
                const double slope = (above - below) / (2 * step);
                if (!(fabs(slope - grad[k]) <= 1e-6 * (1 + fabs(slope))))
                    fail_msg("%s: operand %d, element %d: %.10g, by differences %.10g",
                             e->name, i, (int)k, grad[k], slope);
            }
        }
        ig_scope_end(scope);
    }
    ig_context_destroy(ctx);
}

/* In f32: near f64, and the same bits whatever the strides and the number of threads. */
static void test_single_precision(void **state)
{
    (void)state;
    ig_context *ctx[2] = {context(1), context(2)};
    for (int at = 0; at < N_ENTRIES; at++) {
        const entry *e = &entries[at];
        double x[CAP], exact[MOST + 1][CAP];
        float first[MOST + 1][CAP], now[CAP];
        for (int run = 0; run < 5;
             run++) { /* f64; f32 on 1 and 2 threads, plain and turned */
            ig_context *c = ctx[run ? (run - 1) % 2 : 0];
            ig_tensor *in[MOST], *outs[MOST + 1];
            ig_scope *scope = ig_scope_begin(c);
            for (int i = 0; i < e->n_in; i++) {
                fill(x, e, i, (uint64_t)(17 * i + 5));
                in[i] = ig_detach(
                    operand(c, e, i, x, run ? IG_DTYPE_F32 : IG_DTYPE_F64, run > 2));
                ig_tensor_require_grad(in[i], true);
            }
            outs[0] = e->f(in);
            ig_backward(weigh(outs[0]));
            must(c, e);
            for (int i = 0; i < e->n_in; i++)
                outs[i + 1] = ig_tensor_grad(in[i]);
            for (int i = 0; i <= e->n_in; i++) {
                const int64_t n = ig_tensor_count(outs[i]);
                if (run == 0) {
                    must_read(outs[i], exact[i]);
                    continue;
                }
                must_read(ig_cast(outs[i], IG_DTYPE_F32), now);
                if (run == 1) {
                    memcpy(first[i], now, sizeof now);
                    for (int64_t k = 0; k < n; k++)
                        if (!(fabs((double)now[k] - exact[i][k]) <=
                              4e-6 * (1 + fabs(exact[i][k]))))
                            fail_msg("%s: result %d, element %d: %.8g, in f64 %.8g",
                                     e->name, i, (int)k, (double)now[k], exact[i][k]);
                } else if (memcmp(now, first[i], (size_t)n * 4)) {
                    fail_msg("%s: result %d: run %d has other bits", e->name, i, run);
                }
            }
            ig_scope_end(scope);
        }
    }
    ig_context_destroy(ctx[0]);
    ig_context_destroy(ctx[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_finite_differences),
        cmocka_unit_test(test_second_order),
        cmocka_unit_test(test_single_precision),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
