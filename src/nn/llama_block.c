/* A block of the llama family on tensors (Touvron et al., "LLaMA", 2023, section 2.2): RMS norms, rotated
 * heads that may share keys, a gated feed-forward; no biases. llama.c says the same as a graph of
 * serving, under the names of its files.
 */
#include "nn/module_int.h"

#include "base/error.h"
#include "tensor/tensor.h"

/* x [N,D] of rows, of which T belong to each of B sequences. */
static ig_tensor *attention(ig_params *p, ig_tensor *x, int64_t n_batch,
                            const ig_nn_attention_opts *o)
{
    static const char *const names[3] = {"q_proj", "k_proj", "v_proj"};
    const int64_t width = ig_tensor_dim(x, 1), t = ig_tensor_dim(x, 0) / n_batch;
    ig_tensor *rows[3];
    ig_params_begin(p, "self_attn");
    for (int i = 0; i < 3; i++) {
        const int64_t n = (i ? o->n_kv_heads : o->n_heads) * o->head_width;
        rows[i] = ig_nn_linear(p, names[i], x, n, false);
        rows[i] = ig_reshape(rows[i], IG_SHAPE(n_batch, t, n));
    }
    ig_tensor *y = ig__nn_heads(p, rows[0], rows[1], rows[2], o);
    y = ig_reshape(y, IG_SHAPE(n_batch * t, o->n_heads * o->head_width));
    y = ig_nn_linear(p, "o_proj", y, width, false);
    ig_params_end(p);
    return y;
}

static ig_tensor *feed_forward(ig_params *p, ig_tensor *x, int64_t n_inner)
{
    ig_params_begin(p, "mlp");
    ig_tensor *gate = ig_nn_linear(p, "gate_proj", x, n_inner, false);
    ig_tensor *up = ig_nn_linear(p, "up_proj", x, n_inner, false);
    ig_tensor *y =
        ig_nn_linear(p, "down_proj", ig_swiglu(gate, up), ig_tensor_dim(x, 1), false);
    ig_params_end(p);
    return y;
}

static bool check(ig_tensor *x, const ig_nn_llama_opts *o)
{
    if (!x || ig__context_failed(x->ctx))
        return false;
    if (ig_tensor_n_dims(x) != 3 || ig_tensor_dim(x, 0) < 1)
        return ig__layer_refuses(x, "llama block", "x [B,T,D]"), false;
    if (o->n_heads < 1 || o->n_inner < 1)
        return ig__fail_on(x->ctx, IG_ERR_ARGUMENT,
                           "llama block: %lld heads, %lld elements inside",
                           (long long)o->n_heads, (long long)o->n_inner),
               false;
    return true;
}

ig_tensor *ig_nn_llama_block(ig_params *p, ig_tensor *x, const ig_nn_llama_opts *opts)
{
    if (!ig__layer_takes(p, x, opts, "llama block") || !check(x, opts))
        return NULL;
    const int64_t b = ig_tensor_dim(x, 0), t = ig_tensor_dim(x, 1), d = ig_tensor_dim(x, 2);
    const double eps = opts->eps > 0 ? opts->eps : 1e-5;
    const ig_nn_attention_opts o = {
        .n_heads = opts->n_heads,
        .n_kv_heads = opts->n_kv_heads ? opts->n_kv_heads : opts->n_heads,
        .head_width = opts->head_width ? opts->head_width : d / opts->n_heads,
        .causal = true,
        .window = opts->window,
        .mask = opts->mask,
        .rope = opts->rope,
        .rope_halves = true};
    ig_scope *scope = ig_scope_begin(x->ctx);
    ig_tensor *rows = ig_reshape(x, IG_SHAPE(b * t, d));
    ig_tensor *h = ig_nn_rms_norm(p, "input_layernorm", rows, eps);
    if (h)
        rows = ig_add(rows, attention(p, h, b, &o));
    h = h ? ig_nn_rms_norm(p, "post_attention_layernorm", rows, eps) : NULL;
    rows = h ? ig_add(rows, feed_forward(p, h, opts->n_inner)) : NULL;
    ig_tensor *y = ig_reshape(rows, IG_SHAPE(b, t, d));
    if (y)
        ig_tensor_keep(y);
    ig_scope_end(scope);
    return y;
}
