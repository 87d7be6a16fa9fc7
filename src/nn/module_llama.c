/* The llama family for training: sizes of its config.json, names of its files; the model is llama.c.
 *
 * Its files keep rows of q and k so that pair i is (i, W/2 + i); serving's files have them interleaved. Replaying
 * turns by halves.
 */
#include "nn/module_int.h"

#include "base/error.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *llama_rename(char *full, size_t cap, const char *name)
{
    static const char *const names[][2] = {
        {"attn_norm", "input_layernorm"},    {"attn_q", "self_attn.q_proj"},
        {"attn_k", "self_attn.k_proj"},      {"attn_v", "self_attn.v_proj"},
        {"attn_output", "self_attn.o_proj"}, {"ffn_norm", "post_attention_layernorm"},
        {"ffn_gate", "mlp.gate_proj"},       {"ffn_up", "mlp.up_proj"},
        {"ffn_down", "mlp.down_proj"},       {"token_embd", "model.embed_tokens"},
        {"output_norm", "model.norm"},       {"output", "lm_head"},
    };
    long long layer = -1;
    int at = 0;
    char part[48];
    if (sscanf(name, "blk.%lld.%n", &layer, &at) < 1)
        layer = -1;
    const char *rest = layer >= 0 ? name + at : name;
    snprintf(part, sizeof part, "%.*s", (int)strcspn(rest, "."), rest);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(part, names[i][0]))
            continue;
        if (layer >= 0)
            snprintf(full, cap, "model.layers.%lld.%s.weight", layer, names[i][1]);
        else
            snprintf(full, cap, "%s.weight", names[i][1]);
        return full;
    }
    return name;
}

static ig_status read_rope(ig__config *c, const ig__json *config, ig_error *err)
{
    const ig__json *rope = ig__json_get(config, "rope_parameters");
    if (!rope || ig__json_kind_of(rope) != IG_JSON_OBJECT) {
        const ig__json *scaling = ig__json_get(config, "rope_scaling");
        if (scaling && ig__json_kind_of(scaling) != IG_JSON_NULL)
            return ig__fail(err, IG_ERR_UNSUPPORTED,
                            "config: rope_scaling is not supported");
        return ig__module_get_real(&c->rope_base, config, "rope_theta", true, err);
    }
    const char *type = ig__module_text(rope, "rope_type");
    if (type && strcmp(type, "default"))
        return ig__fail(err, IG_ERR_UNSUPPORTED,
                        "config: rope_type is '%.64s', supported: default", type);
    return ig__module_get_real(&c->rope_base, rope, "rope_theta", true, err);
}

static ig_status llama_read(ig_module *m, const ig__json *config, ig_error *err)
{
    ig__config *c = &m->config;
    IG_TRY(ig__module_get(&c->vocab, config, "vocab_size", false, err));
    IG_TRY(ig__module_get(&c->context, config, "max_position_embeddings", false, err));
    IG_TRY(ig__module_get(&c->width, config, "hidden_size", false, err));
    IG_TRY(ig__module_get(&c->feed_forward, config, "intermediate_size", false, err));
    IG_TRY(ig__module_get(&c->n_layers, config, "num_hidden_layers", false, err));
    IG_TRY(ig__module_get(&c->n_heads, config, "num_attention_heads", false, err));
    c->n_kv_heads = c->n_heads;
    IG_TRY(ig__module_get(&c->n_kv_heads, config, "num_key_value_heads", true, err));
    c->head_width = c->width / c->n_heads;
    IG_TRY(ig__module_get(&c->head_width, config, "head_dim", true, err));
    c->norm_eps = 1e-6;
    IG_TRY(ig__module_get_real(&c->norm_eps, config, "rms_norm_eps", true, err));
    c->rope_base = 10000;
    c->rope_scale = 1;
    IG_TRY(read_rope(c, config, err));
    c->n_rotated = c->head_width;
    m->tied = ig__module_flag(config, "tie_word_embeddings", false);
    const char *act = ig__module_text(config, "hidden_act");
    if (act && strcmp(act, "silu"))
        return ig__fail(err, IG_ERR_UNSUPPORTED,
                        "config: hidden_act is '%.64s', supported: silu", act);
    if (c->n_heads % c->n_kv_heads || c->head_width < 2 || c->head_width % 2)
        return ig__fail(err, IG_ERR_FORMAT,
                        "config: %" PRId64 " heads, %" PRId64 " of keys, %" PRId64
                        " wide: do not fit",
                        c->n_heads, c->n_kv_heads, c->head_width);
    if (ig__module_flag(config, "attention_bias", false) ||
        ig__module_flag(config, "mlp_bias", false))
        return ig__fail(err, IG_ERR_UNSUPPORTED, "config: biases are not supported");
    return IG_OK;
}

const ig__module_family ig__module_llama = {.type = "llama",
                                            .read = llama_read,
                                            .logits = ig__module_replay,
                                            .serving = &ig__family_llama,
                                            .rename = llama_rename};
