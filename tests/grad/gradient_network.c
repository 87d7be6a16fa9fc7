/* Cases of test_gradients: rows of networks. */
#include "grad/gradient_cases.h"

#include "op/network.h"
#include "op/product.h"

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

const entry gradient_network[] = {
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
};
const int n_gradient_network = (int)(sizeof gradient_network / sizeof *gradient_network);
