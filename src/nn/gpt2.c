/* GPT-2 (Radford et al., "Language models are unsupervised multitask learners", 2019, section 2.3): pre-norm
 * blocks, learned positions, a head that is the embedding.
 *
 *   x = wte[token] + wpe[position]
 *   x = x + c_proj(attention(c_attn(ln_1(x))));  x = x + c_proj(gelu(c_fc(ln_2(x))))
 *
 * Rows are flat, [B*T,D], outside of attention. Weights of products lie [in,out] in its files.
 */
#include "nn/module_int.h"

#include "base/error.h"
#include "op/network.h"
#include "op/product.h"

#include <math.h>
#include <string.h>

/* x [N,K] -> [N,n_out]. */
static ig_tensor *product(ig_module *m, const char *name, ig_tensor *x, int64_t n_out,
                          double deviation)
{
    if (!x)
        return NULL;
    const ig_init normal = {.kind = IG_INIT_NORMAL, .value = deviation};
    ig_params *p = m->params;
    ig_params_begin(p, "%s", name);
    ig_tensor *w = ig_param(p, "weight", normal, IG_SHAPE(ig_tensor_dim(x, 1), n_out));
    ig_tensor *b = ig_param(p, "bias", (ig_init){.kind = IG_INIT_ZEROS}, IG_SHAPE(n_out));
    ig_params_end(p);
    return ig__matmul_bias(x, w, b);
}

/* Products that write to the residual stream start smaller: there are 2 L of them. */
static double residual_deviation(const ig_module *m)
{
    return m->deviation / sqrt(2.0 * (double)m->config.n_layers);
}

static ig_tensor *attention(ig_module *m, ig_tensor *x, int64_t n_batch)
{
    const ig__config *c = &m->config;
    const int64_t t = ig_tensor_dim(x, 0) / n_batch;
    ig_params_begin(m->params, "attn");
    ig_tensor *qkv = product(m, "c_attn", x, 3 * c->width, m->deviation);
    ig_tensor *y = ig__attention_joined(
        ig_reshape(qkv, IG_SHAPE(n_batch, t, 3, c->n_heads, c->head_width)), true);
    y = ig_reshape(y, IG_SHAPE(n_batch * t, c->width));
    y = product(m, "c_proj", y, c->width, residual_deviation(m));
    ig_params_end(m->params);
    return y;
}

static ig_tensor *curve(const ig_module *m, ig_tensor *x)
{
    switch (m->curve) {
    case IG_CURVE_GELU_ERF:
        return ig_gelu_erf(x);
    case IG_CURVE_RELU:
        return ig_relu(x);
    case IG_CURVE_GELU:
        break;
    }
    return ig_gelu(x);
}

static ig_tensor *block(ig_module *m, ig_tensor *x, int64_t n_batch)
{
    const ig__config *c = &m->config;
    ig_tensor *h = ig_nn_layer_norm(m->params, "ln_1", x, c->norm_eps);
    if (!h)
        return NULL;
    x = ig_add(x, attention(m, h, n_batch));
    h = ig_nn_layer_norm(m->params, "ln_2", x, c->norm_eps);
    ig_params_begin(m->params, "mlp");
    h = curve(m, product(m, "c_fc", h, c->feed_forward, m->deviation));
    h = product(m, "c_proj", h, c->width, residual_deviation(m));
    ig_params_end(m->params);
    return ig_add(x, h);
}

static ig_tensor *gpt2_logits(ig_module *m, ig_tensor *tokens)
{
    const ig__config *c = &m->config;
    ig_params *p = m->params;
    if (!tokens)
        return NULL;
    const int64_t n_batch = ig_tensor_dim(tokens, 0), t = ig_tensor_dim(tokens, 1);
    ig_params_begin(p, "transformer");
    ig_tensor *x = ig_nn_embedding(p, "wte", tokens, (const int64_t[]){c->vocab, c->width});
    ig_tensor *place = ig_nn_embedding(p, "wpe", ig_arange(m->ctx, IG_DTYPE_I64, 0, 1, t),
                                       (const int64_t[]){c->context, c->width});
    x = ig_reshape(ig_add(x, place), IG_SHAPE(n_batch * t, c->width));
    for (int64_t i = 0; x && i < c->n_layers; i++) {
        ig_params_begin(p, "h.%lld", (long long)i);
        x = block(m, x, n_batch);
        ig_params_end(p);
    }
    x = ig_nn_layer_norm(p, "ln_f", x, c->norm_eps);
    ig_params_end(p);
    ig_tensor *head = ig_params_find(p, "transformer.wte.weight");
    return ig_reshape(ig_linear(x, head, NULL), IG_SHAPE(n_batch, t, c->vocab));
}

static ig_status read_curve(ig__curve *out, const ig__json *config, ig_error *err)
{
    static const struct {
        const char *name;
        ig__curve curve;
    } curves[] = {{"gelu_new", IG_CURVE_GELU},
                  {"gelu_pytorch_tanh", IG_CURVE_GELU},
                  {"gelu", IG_CURVE_GELU_ERF},
                  {"relu", IG_CURVE_RELU}};
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
