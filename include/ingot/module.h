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
/* Training or evaluation: dropout drops and batch norm takes the statistics of its batch in training only. A
 * set starts in training; that of a model (below) in evaluation. */
IG_API void ig_params_set_training(ig_params *p, bool training);
IG_API bool ig_params_is_training(const ig_params *p);

/* ---- use ------------------------------------------------------------------------------------------ */

/* Those whose name starts with `prefix` stop to ask for gradients, or start again. Returns how many. */
IG_API int64_t ig_params_freeze(ig_params *p, const char *prefix, bool frozen);
/* From and to a safetensors file. Loading wants each parameter in the file, with its shape, and
 * nothing else in the file (but PyTorch's "num_batches_tracked", which nothing needs); it is checked
 * whole before the first is written. */
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

/* ---- layers ---------------------------------------------------------------------------------------- *
 * Of options the zero value is the default, but what a layer is made of (n_out, kernel, n_heads ..) has none:
 * opts may not be NULL. */

/* x [..,K] -> [..,n_out]. "weight" [n_out,K], "bias" [n_out]. */
IG_API ig_tensor *ig_nn_linear(ig_params *p, const char *name, ig_tensor *x, int64_t n_out,
                               bool bias);
/* ids [..] -> [..,D]. "weight" table[2] = [V,D]. */
IG_API ig_tensor *ig_nn_embedding(ig_params *p, const char *name, ig_tensor *ids,
                                  const int64_t *table);
/* In training each element is 0 with probability `rate`, else divided by 1 - rate. */
IG_API ig_tensor *ig_nn_dropout(const ig_params *p, ig_tensor *x, double rate);

/* "weight" [D] of ones, "bias" [D] of zeros. */
IG_API ig_tensor *ig_nn_layer_norm(ig_params *p, const char *name, ig_tensor *x,
                                   double eps);
/* "weight" [D] of ones. */
IG_API ig_tensor *ig_nn_rms_norm(ig_params *p, const char *name, ig_tensor *x, double eps);
/* x [B,C,..]: the channels of a group, with all that is behind. "weight", "bias" [C]. */
IG_API ig_tensor *ig_nn_group_norm(ig_params *p, const char *name, ig_tensor *x,
                                   int64_t groups, double eps);
/* x [B,C,..]. "weight", "bias", and fixed "running_mean", "running_var" [C], which follow the batches of
 * training by a tenth each time and serve evaluation. */
IG_API ig_tensor *ig_nn_batch_norm(ig_params *p, const char *name, ig_tensor *x);

typedef struct ig_nn_conv_opts {
    int64_t n_out;
    int64_t kernel[2]; /* of one dimension: the first; a second of 0: as the first */
    ig_conv_opts conv; /* stride, pads .. */
    bool no_bias;
} ig_nn_conv_opts;
/* x [B,C,H,W] -> [B,n_out,..]. "weight" [n_out,C/groups,..], "bias" [n_out]. */
IG_API ig_tensor *ig_nn_conv1d(ig_params *p, const char *name, ig_tensor *x,
                               const ig_nn_conv_opts *opts);
IG_API ig_tensor *ig_nn_conv2d(ig_params *p, const char *name, ig_tensor *x,
                               const ig_nn_conv_opts *opts);
/* "weight" [C,n_out/groups,..]. */
IG_API ig_tensor *ig_nn_conv_transpose1d(ig_params *p, const char *name, ig_tensor *x,
                                         const ig_nn_conv_opts *opts);
IG_API ig_tensor *ig_nn_conv_transpose2d(ig_params *p, const char *name, ig_tensor *x,
                                         const ig_nn_conv_opts *opts);

typedef struct ig_nn_recurrent_opts {
    int64_t n_out; /* D, of one direction */
    bool no_bias;
    ig_recurrent_opts run; /* layers, directions, lengths, states; dropout in training */
} ig_nn_recurrent_opts;
/* x [B,T,K] -> [B,T,D], or [B,T,2D] of both directions. For layer l "weight_ih_l<l>" [G*D,K or width below],
 * "weight_hh_l<l>" [G*D,D], "bias_ih_l<l>", "bias_hh_l<l>" [G*D]; backwards with "_reverse" behind. */
IG_API ig_tensor *ig_nn_recurrent(ig_params *p, const char *name, ig_cell cell,
                                  ig_tensor *x, const ig_nn_recurrent_opts *opts);

typedef struct ig_nn_attention_opts {
    int64_t n_heads;    /* H */
    int64_t n_kv_heads; /* G, heads of keys and values, each for H / G of queries; 0: H */
    int64_t head_width; /* W; 0: D / H */
    bool no_bias;
    bool causal;
    int64_t window;     /* keys that a query sees, its own the last; 0: all */
    double dropout;     /* of the weights of attention, in training */
    ig_tensor *memory;  /* [B,S,K]: keys and values are made of it; NULL: of x */
    ig_tensor *lengths; /* [B] integers: keys behind are padding; NULL: none are */
    ig_tensor *mask;    /* as ig_attention_opts has it */
    ig_tensor *rope;    /* table of ig_rope_table for x's places: turns queries and keys */
    bool rope_halves;
} ig_nn_attention_opts;
/* x [B,T,D] -> [B,T,D]. "in_proj_weight" [3D,D]; with fewer key heads, or a width other than D of heads
 * or memory, "q_proj_weight" [H*W,D], "k_proj_weight", "v_proj_weight" [G*W,K]. "in_proj_bias" of
 * all three, "out_proj.weight" [D,H*W], "out_proj.bias" [D]. */
IG_API ig_tensor *ig_nn_attention(ig_params *p, const char *name, ig_tensor *x,
                                  const ig_nn_attention_opts *opts);

typedef struct ig_nn_experts_opts {
    int64_t n_experts; /* X */
    int64_t n_chosen;  /* experts of a token; 0: 2; at most 8 */
    int64_t n_inner;   /* F */
    int64_t group;     /* tokens that share capacities; 0: all of x */
    double
        capacity; /* an expert takes ceil(capacity * group * n_chosen / X) tokens of a group; more
                              are dropped, second choices first; 0: all are taken */
    bool
        second_at_random; /* of two, in training: the second is sent with probability min(1, 2 weight) */
    ig_tensor **
        balance_out; /* the loss that evens the load, to be added times a small factor; NULL: not
                                wanted */
    ig_tensor **counts_out; /* [X] i64: choices that each expert took */
} ig_nn_experts_opts;
/* A mixture of experts in place of a feed-forward: x [..,D] -> [..,D], the sum of what the chosen experts make
 * of it, weighed by the gate; zeros for a token that was dropped, so that x + y passes it through.
 * "gate.weight" [X,D], "experts.gate_up_proj" [X,2F,D], "experts.down_proj" [X,D,F]: an expert is
 * down(silu(gate) up). balance is 1/X sum of (share of first choices) (mean gate): 1 / X^2 when even. */
IG_API ig_tensor *ig_nn_experts(ig_params *p, const char *name, ig_tensor *x,
                                const ig_nn_experts_opts *opts);

/* ---- blocks ---------------------------------------------------------------------------------------- *
 * x [B,T,D] -> [B,T,D], causal; names follow what was begun, as the families' files have them. */

typedef enum ig_nn_curve { IG_NN_GELU, IG_NN_GELU_ERF, IG_NN_RELU } ig_nn_curve;
typedef struct ig_nn_gpt2_opts {
    int64_t n_heads;
    int64_t n_inner; /* 0: 4 D */
    double eps;      /* of norms; 0: 1e-5 */
    ig_nn_curve curve;
    double dropout, attention_dropout; /* of what is added to x; of weights of attention */
    int64_t
        n_layers; /* of the model: what is added to x starts 1 / sqrt(2 L) as wide; 0: 1 */
    ig_tensor *mask; /* beside the causal one, as ig_attention_opts has it */
} ig_nn_gpt2_opts;
/* x += c_proj(attention(c_attn(ln_1(x)))); x += c_proj(curve(c_fc(ln_2(x)))). Weights of products lie [in,out]
 * in its files. */
IG_API ig_tensor *ig_nn_gpt2_block(ig_params *p, ig_tensor *x, const ig_nn_gpt2_opts *opts);

typedef struct ig_nn_llama_opts {
    int64_t n_heads, n_kv_heads, head_width; /* as of ig_nn_attention */
    int64_t n_inner;
    int64_t window;
    ig_tensor *mask; /* as of ig_nn_gpt2_opts: documents in one row, .. */
    double eps;      /* of norms; 0: 1e-5 */
    ig_tensor *rope; /* table for x's places, turned in halves; NULL: none */
} ig_nn_llama_opts;
/* x += o_proj(attention(q, k, v of input_layernorm(x)));
 * x += down_proj(silu(gate_proj(h)) up_proj(h)), h = post_attention_layernorm(x). */
IG_API ig_tensor *ig_nn_llama_block(ig_params *p, ig_tensor *x,
                                    const ig_nn_llama_opts *opts);

/* ---- models ---------------------------------------------------------------------------------------- *
 * A family of models with its parameters, as Hugging Face's folders have them: config.json says family and
 * sizes, model.safetensors holds the parameters under their names. Families: gpt2, llama. Rates of dropout
 * that a config.json names (gpt2) are applied in training: ig_params_set_training of its parameters. */

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
