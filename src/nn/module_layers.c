/* Layers over named parameters: products, tables, norms, convolutions, recurrent ones. Attention, blocks and
 * mixtures of experts have files of their own. */
#include "nn/module_int.h"

#include "base/error.h"
#include "tensor/tensor.h"

#include <math.h>
#include <stdio.h>

ig_init ig__init_weights(const ig_params *p, double fan_in)
{
    const double deviation = ig__params_deviation(p);
    if (deviation > 0)
        return (ig_init){.kind = IG_INIT_NORMAL, .value = deviation};
    return (ig_init){.kind = IG_INIT_UNIFORM, .value = fan_in > 0 ? 1 / sqrt(fan_in) : 0};
}

ig_init ig__init_biases(const ig_params *p, double fan_in)
{
    if (ig__params_deviation(p) > 0)
        return (ig_init){.kind = IG_INIT_ZEROS};
    return ig__init_weights(p, fan_in);
}

ig_tensor *ig__layer_refuses(const ig_tensor *x, const char *layer, const char *what)
{
    char found[IG_TYPE_TEXT];
    return ig__fail_on(x->ctx, IG_ERR_SHAPE, "%s: wants %s, got %s", layer, what,
                       ig__type_text(&x->type, found, sizeof found));
}

bool ig__layer_takes(const ig_params *p, const ig_tensor *x, const void *opts,
                     const char *layer)
{
    if (!x)
        return false;
    if (p && opts)
        return true;
    ig__fail_on(x->ctx, IG_ERR_ARGUMENT, "%s: its %s are NULL", layer,
                p ? "options" : "parameters");
    return false;
}

/* How many a layer makes; false: none, and said. */
static bool has_width(const ig_tensor *x, const char *layer, const char *name,
                      int64_t n_out)
{
    if (n_out > 0)
        return true;
    ig__fail_on(x->ctx, IG_ERR_ARGUMENT, "%s %s: n_out is %lld, allowed is 1 or more",
                layer, name, (long long)n_out);
    return false;
}

ig_tensor *ig_nn_linear(ig_params *p, const char *name, ig_tensor *x, int64_t n_out,
                        bool bias)
{
    if (!ig__layer_takes(p, x, p, "linear") || !has_width(x, "linear", name, n_out))
        return NULL;
    const int64_t k = ig_tensor_dim(x, -1);
    ig_params_begin(p, "%s", name);
    ig_tensor *w =
        ig_param(p, "weight", ig__init_weights(p, (double)k), IG_SHAPE(n_out, k));
    ig_tensor *b = NULL;
    if (w && bias)
        b = ig_param(p, "bias", ig__init_biases(p, (double)k), IG_SHAPE(n_out));
    ig_params_end(p);
    return w && (b || !bias) ? ig_linear(x, w, b) : NULL;
}

ig_tensor *ig_nn_embedding(ig_params *p, const char *name, ig_tensor *ids,
                           const int64_t *table)
{
    const double deviation = ig__params_deviation(p);
    const ig_init init = {.kind = IG_INIT_NORMAL, .value = deviation > 0 ? deviation : 1};
    ig_params_begin(p, "%s", name);
    ig_tensor *w = ids ? ig_param(p, "weight", init, 2, table) : NULL;
    ig_params_end(p);
    return ig_embedding(ids, w);
}

static ig_tensor *vector(ig_params *p, const char *name, int64_t n, ig_init_kind kind)
{
    return ig_param(p, name, (ig_init){.kind = kind}, IG_SHAPE(n));
}

ig_tensor *ig_nn_layer_norm(ig_params *p, const char *name, ig_tensor *x, double eps)
{
    if (!x)
        return NULL;
    ig_params_begin(p, "%s", name);
    ig_tensor *gain = vector(p, "weight", ig_tensor_dim(x, -1), IG_INIT_ONES);
    ig_tensor *bias = vector(p, "bias", ig_tensor_dim(x, -1), IG_INIT_ZEROS);
    ig_params_end(p);
    return gain && bias ? ig_layer_norm(x, gain, bias, eps) : NULL;
}

ig_tensor *ig_nn_rms_norm(ig_params *p, const char *name, ig_tensor *x, double eps)
{
    if (!x)
        return NULL;
    ig_params_begin(p, "%s", name);
    ig_tensor *gain = vector(p, "weight", ig_tensor_dim(x, -1), IG_INIT_ONES);
    ig_params_end(p);
    return gain ? ig_rms_norm(x, gain, eps) : NULL;
}

ig_tensor *ig_nn_group_norm(ig_params *p, const char *name, ig_tensor *x, int64_t groups,
                            double eps)
{
    if (!x)
        return NULL;
    ig_params_begin(p, "%s", name);
    ig_tensor *gain = vector(p, "weight", ig_tensor_dim(x, 1), IG_INIT_ONES);
    ig_tensor *bias = vector(p, "bias", ig_tensor_dim(x, 1), IG_INIT_ZEROS);
    ig_params_end(p);
    return gain && bias ? ig_group_norm(x, groups, gain, bias, eps) : NULL;
}

ig_tensor *ig_nn_dropout(const ig_params *p, ig_tensor *x, double rate)
{
    return ig_params_is_training(p) ? ig_dropout(x, rate) : x;
}

ig_tensor *ig_nn_batch_norm(ig_params *p, const char *name, ig_tensor *x)
{
    if (!x)
        return NULL;
    const int64_t c = ig_tensor_dim(x, 1);
    const ig_init zeros = {.kind = IG_INIT_ZEROS, .fixed = true};
    const ig_init ones = {.kind = IG_INIT_ONES, .fixed = true};
    ig_params_begin(p, "%s", name);
    ig_tensor *gain = vector(p, "weight", c, IG_INIT_ONES);
    ig_tensor *bias = vector(p, "bias", c, IG_INIT_ZEROS);
    ig_batch_norm_opts opts = {.train = ig_params_is_training(p)};
    opts.mean = ig_param(p, "running_mean", zeros, IG_SHAPE(c));
    opts.var = ig_param(p, "running_var", ones, IG_SHAPE(c));
    ig_params_end(p);
    return gain && bias && opts.mean && opts.var ? ig_batch_norm(x, gain, bias, &opts)
                                                 : NULL;
}

typedef ig_tensor *conv_fn(ig_tensor *x, ig_tensor *w, ig_tensor *bias,
                           const ig_conv_opts *opts);

/* w [dims[0], dims[1], window of n dimensions] */
static ig_tensor *conv(ig_params *p, const char *name, ig_tensor *x,
                       const ig_nn_conv_opts *o, const int64_t dims[4], int n, conv_fn *f)
{
    const double fan_in =
        (double)dims[1] * (double)dims[2] * (n == 2 ? (double)dims[3] : 1);
    ig_params_begin(p, "%s", name);
    ig_tensor *w = ig_param(p, "weight", ig__init_weights(p, fan_in), 2 + n, dims);
    ig_tensor *b = NULL;
    if (w && !o->no_bias)
        b = ig_param(p, "bias", ig__init_biases(p, fan_in), IG_SHAPE(o->n_out));
    ig_params_end(p);
    return w && (b || o->no_bias) ? f(x, w, b, &o->conv) : NULL;
}

/* A kernel of one size is square. */
static int64_t second_size(const ig_nn_conv_opts *o)
{
    return o->kernel[1] ? o->kernel[1] : o->kernel[0];
}

static ig_tensor *conv_of(ig_params *p, const char *name, ig_tensor *x,
                          const ig_nn_conv_opts *o, int n, conv_fn *f)
{
    if (!ig__layer_takes(p, x, o, "conv") || !has_width(x, "conv", name, o->n_out))
        return NULL;
    const int64_t groups = o->conv.groups > 0 ? o->conv.groups : 1;
    const int64_t dims[4] = {o->n_out, ig_tensor_dim(x, 1) / groups, o->kernel[0],
                             second_size(o)};
    return conv(p, name, x, o, dims, n, f);
}

static ig_tensor *transpose_of(ig_params *p, const char *name, ig_tensor *x,
                               const ig_nn_conv_opts *o, int n, conv_fn *f)
{
    if (!ig__layer_takes(p, x, o, "conv_transpose") ||
        !has_width(x, "conv_transpose", name, o->n_out))
        return NULL;
    const int64_t groups = o->conv.groups > 0 ? o->conv.groups : 1;
    const int64_t dims[4] = {ig_tensor_dim(x, 1), o->n_out / groups, o->kernel[0],
                             second_size(o)};
    return conv(p, name, x, o, dims, n, f);
}

ig_tensor *ig_nn_conv1d(ig_params *p, const char *name, ig_tensor *x,
                        const ig_nn_conv_opts *opts)
{
    return conv_of(p, name, x, opts, 1, ig_conv1d);
}

ig_tensor *ig_nn_conv2d(ig_params *p, const char *name, ig_tensor *x,
                        const ig_nn_conv_opts *opts)
{
    return conv_of(p, name, x, opts, 2, ig_conv2d);
}

ig_tensor *ig_nn_conv_transpose1d(ig_params *p, const char *name, ig_tensor *x,
                                  const ig_nn_conv_opts *opts)
{
    return transpose_of(p, name, x, opts, 1, ig_conv_transpose1d);
}

ig_tensor *ig_nn_conv_transpose2d(ig_params *p, const char *name, ig_tensor *x,
                                  const ig_nn_conv_opts *opts)
{
    return transpose_of(p, name, x, opts, 2, ig_conv_transpose2d);
}

/* ---- recurrent --------------------------------------------------------------------------------------- */

enum { MOST_LAYERS = 32 };

/* The four weights of a layer in one direction; false: a failure. */
static bool recurrent_weights(ig_tensor *w[4], ig_params *p, int64_t gates, int64_t k,
                              const ig_nn_recurrent_opts *o, int layer, bool back)
{
    static const char *const names[4] = {"weight_ih", "weight_hh", "bias_ih", "bias_hh"};
    const int64_t d = o->n_out;
    for (int i = 0; i < 4; i++) {
        char name[48];
        const ig_init init =
            i < 2 ? ig__init_weights(p, (double)d) : ig__init_biases(p, (double)d);
        const int64_t dims[2] = {gates * d, i == 0 ? k : d};
        w[i] = NULL;
        if (i >= 2 && o->no_bias)
            continue;
        snprintf(name, sizeof name, "%s_l%d%s", names[i], layer, back ? "_reverse" : "");
        if (!(w[i] = ig_param(p, name, init, i < 2 ? 2 : 1, dims)))
            return false;
    }
    return true;
}

ig_tensor *ig_nn_recurrent(ig_params *p, const char *name, ig_cell cell, ig_tensor *x,
                           const ig_nn_recurrent_opts *opts)
{
    ig_tensor *w[MOST_LAYERS * 2 * 4];
    if (!ig__layer_takes(p, x, opts, "recurrent") ||
        !has_width(x, "recurrent", name, opts->n_out))
        return NULL;
    const int layers = opts->run.layers ? opts->run.layers : 1;
    const int ways = opts->run.both ? 2 : 1;
    const int64_t gates = cell == IG_CELL_LSTM ? 4 : cell == IG_CELL_GRU ? 3 : 1;
    ig_recurrent_opts run = opts->run;
    bool whole = true;
    if (!ig_params_is_training(p))
        run.dropout = 0;
    ig_params_begin(p, "%s", name);
    for (int at = 0; whole && at < layers * ways && layers <= MOST_LAYERS; at++) {
        const int64_t k = at < ways ? ig_tensor_dim(x, -1) : ways * opts->n_out;
        whole = recurrent_weights(w + 4 * at, p, gates, k, opts, at / ways, at % ways);
    }
    ig_params_end(p);
    return whole ? ig_recurrent(cell, x, w, 4 * layers * ways, &run) : NULL;
}
