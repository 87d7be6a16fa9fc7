/* Attention with its projections.
 *
 *   q = x Wq, k = m Wk, v = m Wv       m: x, or a memory (cross attention)
 *   y = heads(turn(q), turn(k), v) Wo
 *
 * With one width all round the three weights are one matrix, "in_proj_weight", and one product where m is x.
 * Names are those of PyTorch's MultiheadAttention; fewer key heads, which it has not, take the names
 * that it has for weights apart. Scores are never stored: ig_attention.
 */
#include "nn/module_int.h"

#include "base/error.h"
#include "tensor/tensor.h"

#include <math.h>

enum {
    MOST = 1 << 20
}; /* heads, and elements of one: their products stay far from overflow */

/* [B,T,H*W] as [B,H,T,W]. */
static ig_tensor *split(ig_tensor *x, int64_t n_heads)
{
    if (!x)
        return NULL;
    const int64_t w = ig_tensor_dim(x, 2) / n_heads;
    ig_tensor *y =
        ig_reshape(x, IG_SHAPE(ig_tensor_dim(x, 0), ig_tensor_dim(x, 1), n_heads, w));
    return ig_transpose(y, 1, 2);
}

/* What may be seen of [B,H,T,S]: lengths and mask together; NULL: all, or a failure. */
static ig_tensor *visible(ig_tensor *k, const ig_nn_attention_opts *o)
{
    if (!o->lengths)
        return o->mask;
    const int64_t b = ig_tensor_dim(k, 0), s = ig_tensor_dim(k, 1);
    ig_tensor *places = ig_arange(k->ctx, IG_DTYPE_I64, 0, 1, s);
    ig_tensor *real = ig_less(places, ig_reshape(o->lengths, IG_SHAPE(b, 1, 1, 1)));
    if (!o->mask)
        return real;
    if (ig_tensor_dtype(o->mask) == IG_DTYPE_BOOL)
        return ig_logical_and(real, o->mask);
    ig_tensor *hidden =
        ig_tensor_scalar(k->ctx, ig_tensor_dtype(o->mask), -(double)INFINITY);
    return ig_where(real, o->mask, hidden);
}

ig_tensor *ig__nn_heads(const ig_params *p, ig_tensor *q, ig_tensor *k, ig_tensor *v,
                        const ig_nn_attention_opts *o)
{
    if (!q || !k || !v)
        return NULL;
    const int64_t b = ig_tensor_dim(q, 0), t = ig_tensor_dim(q, 1),
                  hw = ig_tensor_dim(q, 2);
    const ig_attention_opts opts = {.causal = o->causal,
                                    .window = o->window,
                                    .dropout = ig_params_is_training(p) ? o->dropout : 0,
                                    .mask = visible(k, o)};
    if ((o->lengths || o->mask) && !opts.mask)
        return NULL;
    q = split(q, o->n_heads);
    k = split(k, o->n_kv_heads);
    if (o->rope) {
        q = ig_rope(q, o->rope, o->rope_halves);
        k = ig_rope(k, o->rope, o->rope_halves);
    }
    ig_tensor *y = ig_attention(q, k, split(v, o->n_kv_heads), &opts);
    return ig_reshape(ig_transpose(y, 1, 2), IG_SHAPE(b, t, hw));
}

/* ---- the layer ---------------------------------------------------------------------------------------- */

/* Settled sizes: n[0..3) rows of the weights of q, k and v; memory's width. */
typedef struct sizes {
    int64_t width, memory, n[3];
    bool apart;
} sizes;

static ig_init spread_between(const ig_params *p, int64_t fan_in, int64_t fan_out)
{
    ig_init init = ig__init_weights(p, 1);
    if (init.kind == IG_INIT_UNIFORM)
        init.value = sqrt(6.0 / (double)(fan_in + fan_out)); /* Glorot and Bengio, 2010 */
    return init;
}

/* w[3], bias[3] or NULLs; *whole_out: the matrix of all three, and whole_bias. */
typedef struct projections {
    ig_tensor *w[3], *bias[3], *whole, *whole_bias;
} projections;

static bool find_projections(projections *out, ig_params *p, const sizes *s, bool bias)
{
    static const char *const names[3] = {"q_proj_weight", "k_proj_weight", "v_proj_weight"};
    const int64_t rows = s->n[0] + s->n[1] + s->n[2];
    *out = (projections){0};
    if (!s->apart)
        out->whole = ig_param(p, "in_proj_weight", spread_between(p, s->width, rows),
                              IG_SHAPE(rows, s->width));
    if (bias)
        out->whole_bias =
            ig_param(p, "in_proj_bias", (ig_init){.kind = IG_INIT_ZEROS}, IG_SHAPE(rows));
    if ((!s->apart && !out->whole) || (bias && !out->whole_bias))
        return false;
    for (int64_t i = 0, at = 0; i < 3; at += s->n[i++]) {
        const int64_t k = i ? s->memory : s->width;
        out->w[i] = s->apart ? ig_param(p, names[i], spread_between(p, k, s->n[i]),
                                        IG_SHAPE(s->n[i], k))
                             : ig_slice(out->whole, 0, at, at + s->n[i], 1);
        out->bias[i] = bias ? ig_slice(out->whole_bias, 0, at, at + s->n[i], 1) : NULL;
        if (!out->w[i] || (bias && !out->bias[i]))
            return false;
    }
    return true;
}

/* Rows of q, k and v. */
static void project(ig_tensor *out[3], const projections *by, const sizes *s, ig_tensor *x,
                    ig_tensor *memory)
{
    if (by->whole && memory == x) {
        ig_tensor *all = ig_linear(x, by->whole, by->whole_bias);
        for (int64_t i = 0, at = 0; i < 3; at += s->n[i++])
            out[i] = ig_slice(all, -1, at, at + s->n[i], 1);
        return;
    }
    for (int i = 0; i < 3; i++)
        out[i] = ig_linear(i ? memory : x, by->w[i], by->bias[i]);
}

static bool settle(sizes *s, ig_nn_attention_opts *o, ig_tensor *x)
{
    if (!x || ig__context_failed(x->ctx))
        return false;
    if (!o->memory)
        o->memory = x;
    for (int i = 0; i < 2; i++) {
        ig_tensor *in = i ? o->memory : x;
        if (ig_tensor_n_dims(in) != 3)
            return ig__layer_refuses(in, "attention layer",
                                     i ? "memory [B,S,K]" : "x [B,T,D]"),
                   false;
    }
    s->width = ig_tensor_dim(x, 2);
    s->memory = ig_tensor_dim(o->memory, 2);
    if (!o->n_kv_heads)
        o->n_kv_heads = o->n_heads;
    if (!o->head_width && o->n_heads > 0)
        o->head_width = s->width / o->n_heads;
    if (o->n_heads < 1 || o->n_kv_heads < 1 || o->n_heads % o->n_kv_heads ||
        o->head_width < 1 || o->head_width > MOST || o->n_heads > MOST)
        return ig__fail_on(x->ctx, IG_ERR_ARGUMENT,
                           "attention layer: %lld heads, %lld of keys, of %lld elements do "
                           "not fit a width of %lld",
                           (long long)o->n_heads, (long long)o->n_kv_heads,
                           (long long)o->head_width, (long long)s->width),
               false;
    s->n[0] = o->n_heads * o->head_width;
    s->n[1] = s->n[2] = o->n_kv_heads * o->head_width;
    s->apart = s->n[0] != s->width || s->n[1] != s->width || s->memory != s->width;
    return true;
}

ig_tensor *ig_nn_attention(ig_params *p, const char *name, ig_tensor *x,
                           const ig_nn_attention_opts *opts)
{
    if (!ig__layer_takes(p, x, opts, "attention"))
        return NULL;
    ig_nn_attention_opts o = *opts;
    projections by;
    ig_tensor *rows[3], *y = NULL;
    sizes s;
    if (!settle(&s, &o, x))
        return NULL;
    ig_params_begin(p, "%s", name);
    if (find_projections(&by, p, &s, !o.no_bias)) {
        project(rows, &by, &s, x, o.memory);
        y = ig__nn_heads(p, rows[0], rows[1], rows[2], &o);
        y = ig_nn_linear(p, "out_proj", y, s.width, !o.no_bias);
    }
    ig_params_end(p);
    return y;
}
