/* GPT-2 (Radford et al., "Language models are unsupervised multitask learners", 2019, section 2.3): pre-norm
 * blocks, learned positions, a head that is the embedding.
 *
 *   x = wte[token] + wpe[position]
 *   x = x + c_proj(attention(c_attn(ln_1(x))));  x = x + c_proj(gelu(c_fc(ln_2(x))))
 *
 * In training, dropout stands behind the embeddings, on the weights of attention, and on what is added to x.
 * Rows are flat, [B*T,D], outside of attention. Weights of products lie [in,out] in its files.
 */
#include "nn/module_int.h"

#include "base/error.h"
#include "op/network.h"
#include "op/product.h"
#include "tensor/tensor.h"

#include <math.h>
#include <string.h>

/* A block on its way. */
typedef struct gpt2_block {
    ig_params *p;
    const ig_nn_gpt2_opts *o;
    int64_t n_batch, width;
    double eps, deviation; /* of weights */
} gpt2_block;

/* x [N,K] -> [N,n_out]. */
static ig_tensor *product(const gpt2_block *k, const char *name, ig_tensor *x,
                          int64_t n_out, double deviation)
{
    if (!x)
        return NULL;
    const ig_init normal = {.kind = IG_INIT_NORMAL, .value = deviation};
    ig_params *p = k->p;
    ig_params_begin(p, "%s", name);
    ig_tensor *w = ig_param(p, "weight", normal, IG_SHAPE(ig_tensor_dim(x, 1), n_out));
    ig_tensor *b = ig_param(p, "bias", (ig_init){.kind = IG_INIT_ZEROS}, IG_SHAPE(n_out));
    ig_params_end(p);
    return ig__matmul_bias(x, w, b);
}

/* Products that write to the residual stream start smaller: there are 2 L of them. */
static double residual_deviation(const gpt2_block *k)
{
    const int64_t n_layers = k->o->n_layers > 0 ? k->o->n_layers : 1;
    return k->deviation / sqrt(2.0 * (double)n_layers);
}

static ig_tensor *attention(const gpt2_block *k, ig_tensor *x)
{
    const ig_nn_gpt2_opts *o = k->o;
    const int64_t t = ig_tensor_dim(x, 0) / k->n_batch, d = k->width;
    const double dropout = ig_params_is_training(k->p) ? o->attention_dropout : 0;
    ig_params_begin(k->p, "attn");
    ig_tensor *y, *qkv = product(k, "c_attn", x, 3 * d, k->deviation);
    qkv = ig_reshape(qkv, IG_SHAPE(k->n_batch, t, 3, o->n_heads, d / o->n_heads));
    if (o->mask || dropout > 0) {
        const ig_attention_opts opts = {
            .causal = true, .mask = o->mask, .dropout = dropout};
        qkv = ig_permute(qkv, 5, (const int[]){2, 0, 3, 1, 4}); /* [3,B,H,T,W] */
        y = ig_attention(ig_select(qkv, 0, 0), ig_select(qkv, 0, 1), ig_select(qkv, 0, 2),
                         &opts);
        y = ig_transpose(y, 1, 2);
    } else {
        y = ig__attention_joined(qkv, true);
    }
    y = product(k, "c_proj", ig_reshape(y, IG_SHAPE(k->n_batch * t, d)), d,
                residual_deviation(k));
    ig_params_end(k->p);
    return ig_nn_dropout(k->p, y, o->dropout);
}

static ig_tensor *curve_of(ig_nn_curve curve, ig_tensor *x)
{
    switch (curve) {
    case IG_NN_GELU_ERF:
        return ig_gelu_erf(x);
    case IG_NN_RELU:
        return ig_relu(x);
    case IG_NN_GELU:
        break;
    }
    return ig_gelu(x);
}

static ig_tensor *feed_forward(const gpt2_block *k, ig_tensor *x)
{
    const int64_t n_inner = k->o->n_inner ? k->o->n_inner : 4 * k->width;
    ig_params_begin(k->p, "mlp");
    ig_tensor *h = curve_of(k->o->curve, product(k, "c_fc", x, n_inner, k->deviation));
    h = product(k, "c_proj", h, k->width, residual_deviation(k));
    ig_params_end(k->p);
    return ig_nn_dropout(k->p, h, k->o->dropout);
}

/* x [B*T,D] */
static ig_tensor *block(const gpt2_block *k, ig_tensor *x)
{
    ig_tensor *h = ig_nn_layer_norm(k->p, "ln_1", x, k->eps);
    if (!h)
        return NULL;
    x = ig_add(x, attention(k, h));
    h = ig_nn_layer_norm(k->p, "ln_2", x, k->eps);
    return h ? ig_add(x, feed_forward(k, h)) : NULL;
}

static gpt2_block block_of(ig_params *p, const ig_nn_gpt2_opts *o, int64_t n_batch,
                           int64_t width)
{
    const double deviation = ig__params_deviation(p);
    return (gpt2_block){.p = p,
                        .o = o,
                        .n_batch = n_batch,
                        .width = width,
                        .eps = o->eps > 0 ? o->eps : 1e-5,
                        .deviation = deviation > 0 ? deviation : 0.02};
}

ig_tensor *ig_nn_gpt2_block(ig_params *p, ig_tensor *x, const ig_nn_gpt2_opts *opts)
{
    if (!ig__layer_takes(p, x, opts, "gpt2 block") || ig__context_failed(x->ctx))
        return NULL;
    if (ig_tensor_n_dims(x) != 3 || ig_tensor_dim(x, 0) < 1)
        return ig__layer_refuses(x, "gpt2 block", "x [B,T,D]");
    const int64_t b = ig_tensor_dim(x, 0), t = ig_tensor_dim(x, 1), d = ig_tensor_dim(x, 2);
    if (opts->n_heads < 1 || d % opts->n_heads)
        return ig__fail_on(x->ctx, IG_ERR_ARGUMENT,
                           "gpt2 block: %lld heads do not share a width of %lld",
                           (long long)opts->n_heads, (long long)d);
    const gpt2_block k = block_of(p, opts, b, d);
    ig_scope *scope = ig_scope_begin(x->ctx);
    ig_tensor *y =
        ig_reshape(block(&k, ig_reshape(x, IG_SHAPE(b * t, d))), IG_SHAPE(b, t, d));
    if (y)
        ig_tensor_keep(y);
    ig_scope_end(scope);
    return y;
}

/* ---- the model ---------------------------------------------------------------------------------------- */

static ig_tensor *gpt2_logits(ig_module *m, ig_tensor *tokens)
{
    const ig__config *c = &m->config;
    ig_params *p = m->params;
    if (!tokens)
        return NULL;
    const int64_t n_batch = ig_tensor_dim(tokens, 0), t = ig_tensor_dim(tokens, 1);
    const ig_nn_gpt2_opts o = {.n_heads = c->n_heads,
                               .n_inner = c->feed_forward,
                               .eps = c->norm_eps,
                               .curve = m->curve,
                               .dropout = m->dropout,
                               .attention_dropout = m->attention_dropout,
                               .n_layers = c->n_layers};
    gpt2_block k = block_of(p, &o, n_batch, c->width);
    k.eps = c->norm_eps; /* may be 0 */
    ig_params_begin(p, "transformer");
    ig_tensor *x = ig_nn_embedding(p, "wte", tokens, (const int64_t[]){c->vocab, c->width});
    ig_tensor *place = ig_nn_embedding(p, "wpe", ig_arange(m->ctx, IG_DTYPE_I64, 0, 1, t),
                                       (const int64_t[]){c->context, c->width});
    x = ig_reshape(ig_add(x, place), IG_SHAPE(n_batch * t, c->width));
    x = ig_nn_dropout(p, x, m->embedding_dropout);
    for (int64_t i = 0; x && i < c->n_layers; i++) {
        ig_params_begin(p, "h.%lld", (long long)i);
        x = block(&k, x);
        ig_params_end(p);
    }
    x = ig_nn_layer_norm(p, "ln_f", x, c->norm_eps);
    ig_params_end(p);
    ig_tensor *head = ig_params_find(p, "transformer.wte.weight");
    return ig_reshape(ig_linear(x, head, NULL), IG_SHAPE(n_batch, t, c->vocab));
}

static ig_status read_curve(ig_nn_curve *out, const ig__json *config, ig_error *err)
{
    static const struct {
        const char *name;
        ig_nn_curve curve;
    } curves[] = {{"gelu_new", IG_NN_GELU},
                  {"gelu_pytorch_tanh", IG_NN_GELU},
                  {"gelu", IG_NN_GELU_ERF},
                  {"relu", IG_NN_RELU}};
    const char *name = ig__module_text(config, "activation_function");
    for (size_t i = 0; i < sizeof curves / sizeof *curves; i++)
        if (!name || !strcmp(name, curves[i].name)) {
            *out = curves[i].curve;
            return IG_OK;
        }
    return ig__fail(err, IG_ERR_UNSUPPORTED,
                    "config: activation_function is '%.64s', supported: gelu_new, "
                    "gelu_pytorch_tanh, gelu, relu",
                    name);
}

/* A rate of dropout; one that is not there is 0. */
static ig_status read_rate(double *out, const ig__json *config, const char *key,
                           ig_error *err)
{
    IG_TRY(ig__module_get_real(out, config, key, true, err));
    return *out <= 1 ? IG_OK
                     : ig__fail(err, IG_ERR_FORMAT, "config: %s is %g, allowed is 0 to 1",
                                key, *out);
}

static ig_status gpt2_read(ig_module *m, const ig__json *config, ig_error *err)
{
    ig__config *c = &m->config;
    IG_TRY(ig__module_get(&c->vocab, config, "vocab_size", false, err));
    IG_TRY(ig__module_get(&c->context, config, "n_positions", false, err));
    IG_TRY(ig__module_get(&c->width, config, "n_embd", false, err));
    IG_TRY(ig__module_get(&c->n_heads, config, "n_head", false, err));
    IG_TRY(ig__module_get(&c->n_layers, config, "n_layer", false, err));
    c->feed_forward = 4 * c->width;
    IG_TRY(ig__module_get(&c->feed_forward, config, "n_inner", true, err));
    c->norm_eps = 1e-5;
    IG_TRY(ig__module_get_real(&c->norm_eps, config, "layer_norm_epsilon", true, err));
    IG_TRY(read_curve(&m->curve, config, err));
    IG_TRY(read_rate(&m->embedding_dropout, config, "embd_pdrop", err));
    IG_TRY(read_rate(&m->attention_dropout, config, "attn_pdrop", err));
    IG_TRY(read_rate(&m->dropout, config, "resid_pdrop", err));
    if (c->width % c->n_heads)
        return ig__fail(err, IG_ERR_FORMAT,
                        "config: n_embd %lld is no multiple of n_head %lld",
                        (long long)c->width, (long long)c->n_heads);
    c->head_width = c->width / c->n_heads;
    if (!ig__module_flag(config, "scale_attn_weights", true) ||
        ig__module_flag(config, "scale_attn_by_inverse_layer_idx", false) ||
        ig__module_flag(config, "add_cross_attention", false) ||
        !ig__module_flag(config, "tie_word_embeddings", true))
        return ig__fail(err, IG_ERR_UNSUPPORTED,
                        "config: unscaled or layer-scaled attention, cross attention and "
                        "an untied head are not supported");
    return IG_OK;
}

const ig__module_family ig__module_gpt2 = {
    .type = "gpt2", .read = gpt2_read, .logits = gpt2_logits};
