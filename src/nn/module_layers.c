/* Layers over named parameters. */
#include "nn/module_int.h"

#include <math.h>

static ig_init weights(const ig_params *p, double fan_in)
{
    const double deviation = ig__params_deviation(p);
    if (deviation > 0)
        return (ig_init){.kind = IG_INIT_NORMAL, .value = deviation};
    return (ig_init){.kind = IG_INIT_UNIFORM, .value = fan_in > 0 ? 1 / sqrt(fan_in) : 0};
}

static ig_init biases(const ig_params *p, double fan_in)
{
    if (ig__params_deviation(p) > 0)
        return (ig_init){.kind = IG_INIT_ZEROS};
    return weights(p, fan_in);
}

ig_tensor *ig_nn_linear(ig_params *p, const char *name, ig_tensor *x, int64_t n_out,
                        bool bias)
{
    if (!x)
        return NULL;
    const int64_t k = ig_tensor_dim(x, -1);
    ig_params_begin(p, "%s", name);
    ig_tensor *w = ig_param(p, "weight", weights(p, (double)k), IG_SHAPE(n_out, k));
    ig_tensor *b = NULL;
    if (w && bias)
        b = ig_param(p, "bias", biases(p, (double)k), IG_SHAPE(n_out));
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

ig_tensor *ig_nn_batch_norm(ig_params *p, const char *name, ig_tensor *x, bool train)
{
    if (!x)
        return NULL;
    const int64_t c = ig_tensor_dim(x, 1);
    const ig_init zeros = {.kind = IG_INIT_ZEROS, .fixed = true};
    const ig_init ones = {.kind = IG_INIT_ONES, .fixed = true};
    ig_params_begin(p, "%s", name);
    ig_tensor *gain = vector(p, "weight", c, IG_INIT_ONES);
    ig_tensor *bias = vector(p, "bias", c, IG_INIT_ZEROS);
    ig_batch_norm_opts opts = {.train = train};
    opts.mean = ig_param(p, "running_mean", zeros, IG_SHAPE(c));
    opts.var = ig_param(p, "running_var", ones, IG_SHAPE(c));
    ig_params_end(p);
    return gain && bias && opts.mean && opts.var ? ig_batch_norm(x, gain, bias, &opts)
                                                 : NULL;
}

/* n: dimensions of a window. */
static ig_tensor *conv(ig_params *p, const char *name, ig_tensor *x,
                       const ig_nn_conv_opts *o, int n)
{
    if (!x)
        return NULL;
    const int64_t groups = o->conv.groups > 0 ? o->conv.groups : 1;
    const int64_t dims[4] = {o->n_out, ig_tensor_dim(x, 1) / groups, o->kernel[0],
                             o->kernel[1]};
    const double fan_in =
        (double)dims[1] * (double)dims[2] * (n == 2 ? (double)dims[3] : 1);
    ig_params_begin(p, "%s", name);
    ig_tensor *w = ig_param(p, "weight", weights(p, fan_in), 2 + n, dims), *b = NULL;
    if (w && !o->no_bias)
        b = ig_param(p, "bias", biases(p, fan_in), IG_SHAPE(o->n_out));
    ig_params_end(p);
    if (!w || (!b && !o->no_bias))
        return NULL;
    return n == 2 ? ig_conv2d(x, w, b, &o->conv) : ig_conv1d(x, w, b, &o->conv);
}

ig_tensor *ig_nn_conv1d(ig_params *p, const char *name, ig_tensor *x,
                        const ig_nn_conv_opts *opts)
{
    return conv(p, name, x, opts, 1);
}

ig_tensor *ig_nn_conv2d(ig_params *p, const char *name, ig_tensor *x,
                        const ig_nn_conv_opts *opts)
{
    return conv(p, name, x, opts, 2);
}
