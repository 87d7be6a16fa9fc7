/* Models on tensors: what a family of them says, and what its function works with.
 *
 * A family is a row: how to read its sizes from a config.json, and tokens to logits. The first call makes the
 * parameters. Families that serving has too (nn.h) share one function, which replays the graph that
 * they build (replay.c).
 */
#ifndef INGOT_NN_MODULE_INT_H
#define INGOT_NN_MODULE_INT_H

#include "base/json.h"
#include "ingot/module.h"
#include "nn/nn.h"

typedef struct ig__module_family {
    const char *type; /* model_type of config.json */
    ig_status (*read)(ig_module *m, const ig__json *config, ig_error *err);
    /* tokens [B,T] -> [B,T,V] */
    ig_tensor *(*logits)(ig_module *m, ig_tensor *tokens);
    /* of a family that is replayed */
    const ig__family *serving;
    const char *(*rename)(char *full, size_t cap, const char *name);
} ig__module_family;

extern const ig__module_family ig__module_gpt2, ig__module_llama;

struct ig_module {
    ig_context *ctx;
    const ig__module_family *family;
    ig_params *params;
    ig__config config;
    double deviation; /* initializer_range */
    bool tied;        /* the head is the embedding */
    ig_nn_curve curve;
    double embedding_dropout, attention_dropout, dropout;
    bool has_graph;
    ig__graph graph; /* of a replayed family */
};

/* A number of a config.json between bounds; `key` absent or null: *out stays if `optional`. */
ig_status ig__module_get(int64_t *out, const ig__json *config, const char *key,
                         bool optional, ig_error *err);
ig_status ig__module_get_real(double *out, const ig__json *config, const char *key,
                              bool optional, ig_error *err);
/* Text, or NULL. */
const char *ig__module_text(const ig__json *config, const char *key);
/* Is it true? Absent: `otherwise`. */
bool ig__module_flag(const ig__json *config, const char *key, bool otherwise);

/* tokens [B,T] through a serving family's graph. */
ig_tensor *ig__module_replay(ig_module *m, ig_tensor *tokens);

/* One token through the model makes its parameters; then no more are made. */
ig_status ig__module_make(ig_module *m, ig_error *err);
/* The row of a family of serving; NULL: it has none here. */
const ig__module_family *ig__module_family_serving(const ig__family *serving);
ig_status ig__module_open_gguf(ig_module **module_out, ig_context *ctx, const char *path,
                               ig_error *err);

/* ---- what layers share ---------------------------------------------------------------------------- */

double ig__params_deviation(const ig_params *p);
/* What weights and biases start with: normal and 0 if the set says so, else uniform within 1 / sqrt(fan_in). */
ig_init ig__init_weights(const ig_params *p, double fan_in);
ig_init ig__init_biases(const ig_params *p, double fan_in);

/* False: there is no x, or it has no parameters or options to go with; the latter is a failure. */
bool ig__layer_takes(const ig_params *p, const ig_tensor *x, const void *opts,
                     const char *layer);

/* "layer: wants what, got [..] f32" on x's context; NULL. */
ig_tensor *ig__layer_refuses(const ig_tensor *x, const char *layer, const char *what);

/* q [B,T,H*W], k and v [B,S,G*W], rows of heads side by side, to [B,T,H*W]; memory and n_kv_heads 0 are
 * settled: only n_heads, n_kv_heads, and what hides, turns or drops are read. */
ig_tensor *ig__nn_heads(const ig_params *p, ig_tensor *q, ig_tensor *k, ig_tensor *v,
                        const ig_nn_attention_opts *o);

#endif
