/* A language model from a GGUF file: weights packed for this CPU, tokeniser, chat template.
 *
 * Immutable once opened and shared by all its runners. Close the runners first.
 */
#ifndef INGOT_MODEL_H
#define INGOT_MODEL_H

#include "ingot/dtype.h"
#include "ingot/tokenizer.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ig_model ig_model;

typedef struct ig_model_opts {
    bool exact; /* activations stay float32 in every product (slower, and the reference) */
} ig_model_opts;

/* Read the model. The file is read in pieces and closed again; it is never mapped. */
IG_API IG_WARN_UNUSED ig_status ig_model_open(ig_model **model_out, ig_context *ctx,
                                              const char *path, const ig_model_opts *opts,
                                              ig_error *err);
IG_API void ig_model_close(ig_model *model); /* may be NULL */

typedef struct ig_model_info {
    const char *architecture, *name; /* live as long as the model; name may be "" */
    int64_t n_layers, width, n_heads, n_kv_heads, head_width, feed_forward, vocab;
    int64_t context; /* tokens that it was trained for */
    int64_t window;  /* sliding window, 0: none */
    int64_t n_parameters;
    size_t file_bytes;
    size_t packed_bytes; /* weights in memory */
    size_t step_bytes;   /* bytes of weights that one decode step reads */
    double
        token_ops; /* multiply and add operations of weight products a token, layers only */
    double head_ops;       /* the same for the output head, a row of logits */
    ig_dtype weight_dtype; /* of most of the weights */
    bool exact;
} ig_model_info;

IG_API ig_model_info ig_model_get_info(const ig_model *model);
IG_API const ig_tokenizer *ig_model_tokenizer(const ig_model *model);
/* The chat template's source; NULL: the file has none. Lives as long as the model. */
IG_API const char *ig_model_chat_template(const ig_model *model);

/* What stands in a GGUF file, without reading its weights: for `ingot info`. */
typedef struct ig_file ig_file;
IG_API IG_WARN_UNUSED ig_status ig_file_open(ig_file **file_out, ig_context *ctx,
                                             const char *path, ig_error *err);
IG_API void ig_file_close(ig_file *file);
IG_API int64_t ig_file_n_keys(const ig_file *file);
/* Key i and its value as one line of text (arrays: type, count and the first elements). */
IG_API const char *ig_file_key(const ig_file *file, int64_t i);
/* Writes the value's text, at most cap bytes with the final 0; returns the length it
 * wanted. */
IG_API size_t ig_file_value_text(const ig_file *file, int64_t i, char *text, size_t cap);
IG_API int64_t ig_file_n_tensors(const ig_file *file);
typedef struct ig_file_tensor {
    const char *name;  /* lives as long as the file */
    const char *dtype; /* "q4_1"; the number for a type that is not known */
    int n_dims;
    int64_t dims[4]; /* dims[0] runs fastest, as in the file */
    uint64_t offset; /* from the start of the file */
    uint64_t bytes;
} ig_file_tensor;
IG_API ig_file_tensor ig_file_get_tensor(const ig_file *file, int64_t i);

#ifdef __cplusplus
}
#endif
#endif
