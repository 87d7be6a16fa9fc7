/* Networks: parameters with names, layers that take them, and whole models.
 *
 * A network is a function that calls layers. A layer asks an ig_params for its parameters by name: the
 * first call makes them, in the shape that its operand needs, and later calls find them.
 *
 *   static ig_tensor *mlp(ig_params *p, ig_tensor *x)
 *   {
 *       return ig_nn_linear(p, "out", ig_relu(ig_nn_linear(p, "hidden", x, 64, true)), 10, true);
 *   }
 *
 * Run it once, on any input, before its parameters are loaded or given to an optimiser. Names and layouts are
 * PyTorch's ("hidden.weight" [64,K], "hidden.bias" [64]), so files go both ways.
 *
 * Calls that return a tensor fail as operators do (tensor.h). Parameters belong to their ig_params, which
 * belongs to one context and must be destroyed before it.
 */
#ifndef INGOT_MODULE_H
#define INGOT_MODULE_H

#include "ingot/op.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ig_params ig_params;

/* ---- make --------------------------------------------------------------------------------------- */

IG_API IG_WARN_UNUSED ig_status ig_params_create(ig_params **params_out, ig_context *ctx,
                                                 ig_error *err);
IG_API void ig_params_destroy(ig_params *p); /* may be NULL */

/* Names from here on start with this and a dot, inside what was begun before: "h.3", then "attn":
 * "h.3.attn.". At most 16 deep, 255 bytes in all. */
IG_API IG_PRINTF(2, 3) void ig_params_begin(ig_params *p, const char *fmt, ...);
IG_API void ig_params_end(ig_params *p);

/* What a parameter starts with, from the context's random stream (ig_seed). */
typedef enum ig_init_kind {
    IG_INIT_ZEROS,
    IG_INIT_ONES,
    IG_INIT_UNIFORM, /* -value .. value */
    IG_INIT_NORMAL   /* deviation `value` */
} ig_init_kind;
typedef struct ig_init {
    ig_init_kind kind;
    double value;
    bool fixed; /* never wants a gradient: running statistics */
} ig_init;

/* Parameter `name`, f32: found, and then of that shape, or made. For layers of your own. */
IG_API ig_tensor *ig_param(ig_params *p, const char *name, ig_init init, int n_dims,
                           const int64_t *dims);
/* Weights that layers make from here on are normal with this deviation, and biases 0; 0: each layer's
 * own, which are PyTorch's: uniform within 1 / sqrt(fan-in), embeddings normal with 1. */
IG_API void ig_params_set_deviation(ig_params *p, double deviation);
/* No more are made: a name that is not there is a failure from now on. */
IG_API void ig_params_seal(ig_params *p);

/* ---- use ------------------------------------------------------------------------------------------ */

/* Those whose name starts with `prefix` stop to ask for gradients, or start again. Returns how many. */
IG_API int64_t ig_params_freeze(ig_params *p, const char *prefix, bool frozen);
/* From and to a safetensors file. Loading wants each parameter in the file, with its shape, and
 * nothing else in the file; it is checked whole before the first is written. */
IG_API IG_WARN_UNUSED ig_status ig_params_load(ig_params *p, const char *path,
                                               ig_error *err);
IG_API IG_WARN_UNUSED ig_status ig_params_save(const ig_params *p, const char *path,
                                               ig_error *err);

/* ---- inspect -------------------------------------------------------------------------------------- */

IG_API int64_t ig_params_count(const ig_params *p);
/* In the order that they were made; NULL outside. Names live as long as p. */
IG_API const char *ig_params_name(const ig_params *p, int64_t i);
IG_API ig_tensor *ig_params_tensor(const ig_params *p, int64_t i);
/* By its whole name; NULL: there is none. */
IG_API ig_tensor *ig_params_find(const ig_params *p, const char *name);
IG_API int64_t ig_params_elements(const ig_params *p); /* of all that are not fixed */

/* ---- layers ---------------------------------------------------------------------------------------- */

/* x [..,K] -> [..,n_out]. "weight" [n_out,K], "bias" [n_out]. */
IG_API ig_tensor *ig_nn_linear(ig_params *p, const char *name, ig_tensor *x, int64_t n_out,
                               bool bias);
/* ids [..] -> [..,D]. "weight" table[2] = [V,D]. */
IG_API ig_tensor *ig_nn_embedding(ig_params *p, const char *name, ig_tensor *ids,
                                  const int64_t *table);
/* "weight" [D] of ones, "bias" [D] of zeros. */
IG_API ig_tensor *ig_nn_layer_norm(ig_params *p, const char *name, ig_tensor *x,
                                   double eps);
/* "weight" [D] of ones. */
IG_API ig_tensor *ig_nn_rms_norm(ig_params *p, const char *name, ig_tensor *x, double eps);
/* x [B,C,..]. "weight", "bias", and fixed "running_mean", "running_var" [C]. */
IG_API ig_tensor *ig_nn_batch_norm(ig_params *p, const char *name, ig_tensor *x,
                                   bool train);

typedef struct ig_nn_conv_opts {
    int64_t n_out;
    int64_t kernel[2]; /* of one dimension: the first */
    ig_conv_opts conv; /* stride, pads .. */
    bool no_bias;
} ig_nn_conv_opts;
/* x [B,C,H,W] -> [B,n_out,..]. "weight" [n_out,C/groups,..], "bias" [n_out]. */
IG_API ig_tensor *ig_nn_conv1d(ig_params *p, const char *name, ig_tensor *x,
                               const ig_nn_conv_opts *opts);
IG_API ig_tensor *ig_nn_conv2d(ig_params *p, const char *name, ig_tensor *x,
                               const ig_nn_conv_opts *opts);

/* ---- models ---------------------------------------------------------------------------------------- *
 * A family of models with its parameters, as Hugging Face's folders have them: config.json says family and
 * sizes, model.safetensors holds the parameters under their names. Families: gpt2, llama. Rates of dropout
 * are not applied. */

typedef struct ig_module ig_module;

/* From the text of a config.json; parameters start as its initializer_range says. */
IG_API IG_WARN_UNUSED ig_status ig_module_create(ig_module **module_out, ig_context *ctx,
                                                 const char *config, ig_error *err);
/* From a folder, with its weights; or from a GGUF file: weights of any type that serving reads, as float32
 * under the names of folders (llama). */
IG_API IG_WARN_UNUSED ig_status ig_module_open(ig_module **module_out, ig_context *ctx,
                                               const char *folder, ig_error *err);
/* tokens [B,T] of an integer type -> logits [B,T,V]; each sees those before it and itself. */
IG_API ig_tensor *ig_module_logits(ig_module *module, ig_tensor *tokens);
/* Borrowed; sealed. */
IG_API ig_params *ig_module_params(ig_module *module);
IG_API void ig_module_destroy(ig_module *module); /* may be NULL */

#ifdef __cplusplus
}
#endif
#endif
