/* The gemma 3 family (Gemma Team, "Gemma 3 Technical Report", 2025, section 2): norms before and after each
 * part, q and k normalised a head, five layers with a sliding window to one without, each kind with
 * its own base of rotary positions, GELU gates, embeddings scaled by sqrt(width), a tied head.
 */
#include "nn/layers.h"

#include "base/error.h"

#include <math.h>

static ig_status gemma3_read(ig__config *config, const ig__gguf *file, ig_error *err)
{
    config->window_period = 6;
    IG_TRY(ig__gguf_get_i64(&config->window, file, "gemma3.attention.sliding_window", true,
                            1, 1 << 30, err));
    config->local_rope_base = 10000;
    return ig__gguf_get_f64(&config->local_rope_base, file, "gemma3.rope.freq_base_swa",
                            false, 1, 1e12, err);
}

/* x + norm(y) */
static ig__value add_normed(ig__builder *b, ig__value x, ig__value y, const char *which,
                            int64_t layer)
{
    const ig__value gain =
        ig__nn_vector(b, b->config->width, "blk.%lld.%s.weight", (long long)layer, which);
    return ig__nn_add(b, x, ig__nn_rms_norm(b, y, gain));
}

static void gemma3_build(ig__builder *b)
{
    const ig__config *c = b->config;
    const ig__value embedding = ig__nn_matrix(b, c->vocab, c->width, "token_embd.weight");
    const ig__value in[] = {b->tokens, embedding};
    const ig__scale_attrs scale = {.factor = (double)sqrtf((float)c->width)};
    ig__value x = ig__graph_apply(b->g, &ig__op_embedding, NULL, in, 2);
    x = ig__graph_apply(b->g, &ig__op_scale, &scale, &x, 1);
    const ig__value global = ig__nn_rope_table(b, c->rope_base, c->rope_scale, IG_NO_VALUE);
    const ig__value local = ig__nn_rope_table(b, c->local_rope_base, 1.0, IG_NO_VALUE);
    for (int64_t i = 0; i < c->n_layers; i++) {
        const long long k = (long long)i;
        const bool windowed = (i + 1) % c->window_period != 0;
        ig__graph_enter(b->g, "blk.%lld", k);
        const ig__nn_attention_opts attention = {
            .layer = i,
            .window = windowed ? c->window : 0,
            .table = windowed ? local : global,
            .halves = true,
            .norms = true,
            .scale = (float)(1.0 / sqrt((double)c->head_width)),
        };
        const ig__value gain = ig__nn_vector(b, c->width, "blk.%lld.attn_norm.weight", k);
        ig__value a = ig__nn_attention(b, ig__nn_rms_norm(b, x, gain), &attention);
        if (i == c->n_layers - 1) { /* past the last attention, only wanted rows matter */
            a = ig__nn_wanted(b, a);
            x = ig__nn_wanted(b, x);
        }
        const ig__value wo = ig__nn_matrix(b, c->width, c->n_heads * c->head_width,
                                           "blk.%lld.attn_output.weight", k);
        x = add_normed(b, x, ig__nn_linear(b, a, wo), "post_attention_norm", i);
        const ig__value h = ig__nn_rms_norm(
            b, x, ig__nn_vector(b, c->width, "blk.%lld.ffn_norm.weight", k));
        x = add_normed(b, x, ig__nn_gated(b, h, i, &ig__op_gelu), "post_ffw_norm", i);
    }
    ig__graph_enter(b->g, "head");
    x = ig__nn_rms_norm(b, x, ig__nn_vector(b, c->width, "output_norm.weight"));
    const ig__value head = ig__nn_has(b, "output.weight")
                               ? ig__nn_matrix(b, c->vocab, c->width, "output.weight")
                               : embedding;
    b->g->output = ig__nn_linear(b, x, head);
}

const ig__family ig__family_gemma3 = {"gemma3", gemma3_read, gemma3_build};
