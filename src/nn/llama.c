/* The llama family (Touvron et al., "LLaMA", 2023, section 2.2): pre-norm blocks of grouped-query attention with
 * rotary positions and a gated feed-forward of SiLU. SmolLM2, Llama 2 and 3, TinyLlama, ...
 *
 *   x = x + Wo attention(norm(x));  x = x + W_down(silu(W_gate norm(x)) * W_up norm(x))
 */
#include "nn/layers.h"

#include "base/error.h"

#include <math.h>

static ig_status llama_read(ig__config *config, const ig__gguf *file, ig_error *err)
{
    (void)config;
    int64_t n_experts = 0;
    IG_TRY(ig__gguf_get_i64(&n_experts, file, "llama.expert_count", false, 0, 1024, err));
    if (n_experts)
        return ig__fail(
            err, IG_ERR_UNSUPPORTED,
            "%s: byte %llu: key 'llama.expert_count': value is %lld, mixtures of experts "
            "are not supported",
            ig__gguf_path(file),
            (unsigned long long)ig__gguf_value_offset(file, "llama.expert_count"),
            (long long)n_experts);
    return IG_OK;
}

static void llama_build(ig__builder *b)
{
    const ig__config *c = b->config;
    const ig__value embedding = ig__nn_matrix(b, c->vocab, c->width, "token_embd.weight");
    const ig__value in[] = {b->tokens, embedding};
    ig__value x = ig__graph_apply(b->g, &ig__op_embedding, NULL, in, 2);
    const ig__value factors = ig__nn_has(b, "rope_freqs.weight")
                                  ? ig__nn_vector(b, c->n_rotated / 2, "rope_freqs.weight")
                                  : IG_NO_VALUE;
    ig__nn_attention_opts attention = {
        .table = ig__nn_rope_table(b, c->rope_base, c->rope_scale, factors),
        .scale = (float)(1.0 / sqrt((double)c->head_width)),
    };
    for (int64_t i = 0; i < c->n_layers; i++) {
        const long long k = (long long)i;
        ig__graph_enter(b->g, "blk.%lld", k);
        attention.layer = i;
        const ig__value gain = ig__nn_vector(b, c->width, "blk.%lld.attn_norm.weight", k);
        ig__value a = ig__nn_attention(b, ig__nn_rms_norm(b, x, gain), &attention);
        if (i == c->n_layers - 1) { /* past the last attention, only wanted rows matter */
            a = ig__nn_wanted(b, a);
            x = ig__nn_wanted(b, x);
        }
        const ig__value wo = ig__nn_matrix(b, c->width, c->n_heads * c->head_width,
                                           "blk.%lld.attn_output.weight", k);
        x = ig__nn_add(b, x, ig__nn_linear(b, a, wo));
        const ig__value h = ig__nn_rms_norm(
            b, x, ig__nn_vector(b, c->width, "blk.%lld.ffn_norm.weight", k));
        x = ig__nn_add(b, x, ig__nn_gated(b, h, i, &ig__op_silu));
    }
    ig__graph_enter(b->g, "head");
    x = ig__nn_rms_norm(b, x, ig__nn_vector(b, c->width, "output_norm.weight"));
    const ig__value head = ig__nn_has(b, "output.weight")
                               ? ig__nn_matrix(b, c->vocab, c->width, "output.weight")
                               : embedding;
    b->g->output = ig__nn_linear(b, x, head);
}

const ig__family ig__family_llama = {"llama", llama_read, llama_build};
