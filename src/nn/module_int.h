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

typedef enum ig__curve { IG_CURVE_GELU, IG_CURVE_GELU_ERF, IG_CURVE_RELU } ig__curve;

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
    ig__curve curve;
    double deviation; /* initializer_range */
    bool tied;        /* the head is the embedding */
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

double ig__params_deviation(const ig_params *p);

#endif
