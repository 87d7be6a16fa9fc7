/* Operators: expressions on tensors.
 *
 * Every operator returns a new tensor of the current scope, or NULL: an operand was NULL, the context
 * has failed before, or this call failed (the failure is then on the context, with the operator's
 * name and the shapes). Operands are not changed, but by the calls whose name ends in _into, and
 * ig_fill and ig_assign. Dimensions count from 0, or from the end as -1, -2, ..
 *
 * BROADCASTING. Operands of different shapes are lined up at the last dimension; a dimension of 1 or
 * one that is not there stretches to the other operand's.
 *
 * DTYPES. Operands of different dtypes meet in one that holds both: f64 beside any; f32 beside f16,
 * bf16 or an integer; f16 beside bf16 in f32; the wider of two integers (i8 beside u8 in i32); bool
 * beside any. A 16-bit float beside an integer that it cannot hold is an error that asks for
 * ig_cast. f16 and bf16 are computed in f32 and rounded once.
 *
 * GRADIENTS flow through all operators of floats, but where it says so.
 */
#ifndef INGOT_OP_H
#define INGOT_OP_H

#include "ingot/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- make ----------------------------------------------------------------------------------- */

IG_API ig_tensor *ig_zeros(ig_context *ctx, ig_dtype dtype, int n_dims,
                           const int64_t *dims);
IG_API ig_tensor *ig_ones(ig_context *ctx, ig_dtype dtype, int n_dims, const int64_t *dims);
IG_API ig_tensor *ig_full(ig_context *ctx, ig_dtype dtype, int n_dims, const int64_t *dims,
                          double value);
IG_API ig_tensor *ig_full_like(ig_tensor *x, double value);

/* start, start + step, .. */
IG_API ig_tensor *ig_arange(ig_context *ctx, ig_dtype dtype, double start, double step,
                            int64_t n);
/* 1 at the index, 0 elsewhere: ids [..] -> [..,n] */
IG_API ig_tensor *ig_one_hot(ig_tensor *ids, int64_t n, ig_dtype dtype);

/* ---- random ----------------------------------------------------------------------------------- *
 * Values depend on the seed, on how many random calls came before, and on the element's place: not on
 * threads. A context starts with seed 0. */

IG_API void ig_seed(ig_context *ctx, uint64_t seed);
IG_API ig_tensor *ig_uniform(ig_context *ctx, ig_dtype dtype, int n_dims,
                             const int64_t *dims, double low,
                             double high); /* [low, high) */
IG_API ig_tensor *ig_normal(ig_context *ctx, ig_dtype dtype, int n_dims,
                            const int64_t *dims, double mean, double deviation);
/* 1 with probability p, else 0 */
IG_API ig_tensor *ig_bernoulli(ig_context *ctx, ig_dtype dtype, int n_dims,
                               const int64_t *dims, double p);
IG_API ig_tensor *ig_permutation(ig_context *ctx, int64_t n); /* of 0 .. n-1, i64 */
/* Each element 0 with probability p, else divided by 1 - p. */
IG_API ig_tensor *ig_dropout(ig_tensor *x, double p);

/* ---- elementwise: two operands -------------------------------------------------------------- */

IG_API ig_tensor *ig_add(ig_tensor *x, ig_tensor *y);
IG_API ig_tensor *ig_sub(ig_tensor *x, ig_tensor *y);
IG_API ig_tensor *ig_mul(ig_tensor *x, ig_tensor *y);
IG_API ig_tensor *ig_div(ig_tensor *x, ig_tensor *y);     /* floats */
IG_API ig_tensor *ig_pow(ig_tensor *x, ig_tensor *y);     /* floats */
IG_API ig_tensor *ig_maximum(ig_tensor *x, ig_tensor *y); /* NaN if one is; ties share */
IG_API ig_tensor *ig_minimum(ig_tensor *x, ig_tensor *y);

/* bool; no gradient */
IG_API ig_tensor *ig_equal(ig_tensor *x, ig_tensor *y);
IG_API ig_tensor *ig_not_equal(ig_tensor *x, ig_tensor *y);
IG_API ig_tensor *ig_less(ig_tensor *x, ig_tensor *y);
IG_API ig_tensor *ig_less_equal(ig_tensor *x, ig_tensor *y);
IG_API ig_tensor *ig_greater(ig_tensor *x, ig_tensor *y);
IG_API ig_tensor *ig_greater_equal(ig_tensor *x, ig_tensor *y);
/* of "not zero": bool; no gradient */
IG_API ig_tensor *ig_logical_and(ig_tensor *x, ig_tensor *y);
IG_API ig_tensor *ig_logical_or(ig_tensor *x, ig_tensor *y);
IG_API ig_tensor *ig_logical_xor(ig_tensor *x, ig_tensor *y);
IG_API ig_tensor *ig_logical_not(ig_tensor *x);

/* x where the condition (bool) holds, else y; what is not chosen has no effect, be it NaN. */
IG_API ig_tensor *ig_where(ig_tensor *condition, ig_tensor *x, ig_tensor *y);

IG_API ig_tensor *ig_scale(ig_tensor *x, double factor);
IG_API ig_tensor *ig_add_scalar(ig_tensor *x, double value);
/* low <= x <= high; may be infinite. The gradient passes inside and at the bounds. */
IG_API ig_tensor *ig_clamp(ig_tensor *x, double low, double high);

/* ---- elementwise: one operand (floats; neg, abs, sign, square and relu also integers) -------- */

IG_API ig_tensor *ig_neg(ig_tensor *x);
IG_API ig_tensor *ig_abs(ig_tensor *x);  /* gradient 0 at 0 */
IG_API ig_tensor *ig_sign(ig_tensor *x); /* gradient 0, as of the next four */
IG_API ig_tensor *ig_floor(ig_tensor *x);
IG_API ig_tensor *ig_ceil(ig_tensor *x);
IG_API ig_tensor *ig_round(ig_tensor *x); /* ties to even */
IG_API ig_tensor *ig_trunc(ig_tensor *x);
IG_API ig_tensor *ig_square(ig_tensor *x);
IG_API ig_tensor *ig_sqrt(ig_tensor *x);
IG_API ig_tensor *ig_rsqrt(ig_tensor *x);
IG_API ig_tensor *ig_reciprocal(ig_tensor *x);
IG_API ig_tensor *ig_exp(ig_tensor *x);
IG_API ig_tensor *ig_expm1(ig_tensor *x);
IG_API ig_tensor *ig_log(ig_tensor *x);
IG_API ig_tensor *ig_log1p(ig_tensor *x);
IG_API ig_tensor *ig_sin(ig_tensor *x);
IG_API ig_tensor *ig_cos(ig_tensor *x);
IG_API ig_tensor *ig_tanh(ig_tensor *x);
IG_API ig_tensor *ig_sigmoid(ig_tensor *x);
IG_API ig_tensor *ig_relu(ig_tensor *x); /* NaN stays NaN */
IG_API ig_tensor *ig_silu(ig_tensor *x);
IG_API ig_tensor *ig_softplus(ig_tensor *x);
IG_API ig_tensor *ig_erf(ig_tensor *x);
IG_API ig_tensor *ig_gelu(ig_tensor *x);     /* the tanh form */
IG_API ig_tensor *ig_gelu_erf(ig_tensor *x); /* the exact form */

/* To another dtype: x itself if it has it. Floats become integers towards zero, saturating. */
IG_API ig_tensor *ig_cast(ig_tensor *x, ig_dtype dtype);
IG_API ig_tensor *ig_copy(ig_tensor *x);       /* contiguous */
IG_API ig_tensor *ig_contiguous(ig_tensor *x); /* x itself if it is */

/* ---- in place: they return x ------------------------------------------------------------------ *
 * Through a view they change its base and all other views. A leaf that wants its gradient is
 * written in regions without gradients only; what backward still needs must not change
 * (backward says so, with both versions). y is cast to x's dtype and broadcasts to its shape. */

IG_API ig_tensor *ig_fill(ig_tensor *x, double value);
IG_API ig_tensor *ig_assign(ig_tensor *x, ig_tensor *value);
IG_API ig_tensor *ig_add_into(ig_tensor *x, ig_tensor *y);
IG_API ig_tensor *ig_sub_into(ig_tensor *x, ig_tensor *y);
IG_API ig_tensor *ig_mul_into(ig_tensor *x, ig_tensor *y);
IG_API ig_tensor *ig_div_into(ig_tensor *x, ig_tensor *y);
IG_API ig_tensor *ig_scale_into(ig_tensor *x, double factor);

/* ---- views: no bytes move where strides allow it ------------------------------------------------ */

/* One dimension may be -1: what is left. Copies if x's strides do not allow a view. */
IG_API ig_tensor *ig_reshape(ig_tensor *x, int n_dims, const int64_t *dims);
/* Dimension i of the result is dimension order[i] of x. */
IG_API ig_tensor *ig_permute(ig_tensor *x, int n_dims, const int *order);
IG_API ig_tensor *ig_transpose(ig_tensor *x, int a, int b);
IG_API ig_tensor *ig_expand(ig_tensor *x, int n_dims, const int64_t *dims);
/* Elements start, start + step, .. before end, with Python's rules for negative ones. */
#define IG_END INT64_MIN /* up to the last, whatever the step's sign */
IG_API ig_tensor *ig_slice(ig_tensor *x, int dim, int64_t start, int64_t end, int64_t step);
/* One element of a dimension, without the dimension. */
IG_API ig_tensor *ig_select(ig_tensor *x, int dim, int64_t index);
IG_API ig_tensor *ig_flip(ig_tensor *x, int dim);
IG_API ig_tensor *ig_squeeze(ig_tensor *x, int dim);
IG_API ig_tensor *ig_unsqueeze(ig_tensor *x, int dim);

/* ---- reductions ----------------------------------------------------------------------------------- *
 * Over `n` dimensions, or all with n = 0 and dims NULL; `keep` leaves them as 1. Sums are taken in
 * double in a fixed tree; integers and bool are summed in i64. */

IG_API ig_tensor *ig_sum(ig_tensor *x, int n, const int *dims, bool keep);
IG_API ig_tensor *ig_mean(ig_tensor *x, int n, const int *dims, bool keep);
IG_API ig_tensor *ig_prod(ig_tensor *x, int n, const int *dims, bool keep);
/* NaN if one is; gradients of ties share. */
IG_API ig_tensor *ig_max(ig_tensor *x, int n, const int *dims, bool keep);
IG_API ig_tensor *ig_min(ig_tensor *x, int n, const int *dims, bool keep);
/* Squared deviations from the mean over (count - correction); NaN, and a warning in the context's log,
 * where that is not positive. */
IG_API ig_tensor *ig_var(ig_tensor *x, int n, const int *dims, bool keep, int correction);
IG_API ig_tensor *ig_logsumexp(ig_tensor *x, int dim, bool keep);
/* The root of the sum of squares; gradient 0 at 0. */
IG_API ig_tensor *ig_norm(ig_tensor *x, int n, const int *dims, bool keep);
/* The sum to a shape that broadcasts to x's. */
IG_API ig_tensor *ig_sum_to(ig_tensor *x, int n_dims, const int64_t *dims);

/* ---- along a dimension ------------------------------------------------------------------------------ */

IG_API ig_tensor *ig_cumsum(ig_tensor *x, int dim);
IG_API ig_tensor *ig_cumprod(ig_tensor *x, int dim);
/* i64; the first of those that tie; a NaN is the largest and the smallest. No gradient. */
IG_API ig_tensor *ig_argmax(ig_tensor *x, int dim, bool keep);
IG_API ig_tensor *ig_argmin(ig_tensor *x, int dim, bool keep);
/* Stable; NaN counts as the largest. places_out (i64) may be NULL. */
IG_API ig_tensor *ig_sort(ig_tensor *x, int dim, bool descending, ig_tensor **places_out);
/* The k largest, in order. */
IG_API ig_tensor *ig_topk(ig_tensor *x, int dim, int64_t k, ig_tensor **places_out);

/* ---- by index ------------------------------------------------------------------------------------------ *
 * Indices are i64 or i32; negative ones count from the end; one out of range is an error with its place and
 * value. What is added to one place is added in the order of the indices. */

/* y[i][j] = x[ids[i][j]][j] for dim 0, and so on. */
IG_API ig_tensor *ig_gather(ig_tensor *x, int dim, ig_tensor *ids);
/* x with y added: x[ids[i][j]][j] += y[i][j] for dim 0, and so on. */
IG_API ig_tensor *ig_scatter_add(ig_tensor *x, int dim, ig_tensor *ids, ig_tensor *y);
/* Slices of x; the dimensions of ids stand in place of dim. */
IG_API ig_tensor *ig_index_select(ig_tensor *x, int dim, ig_tensor *ids);
IG_API ig_tensor *ig_index_add(ig_tensor *x, int dim, ig_tensor *ids, ig_tensor *y);
/* table [V,D]: ids [..] -> [..,D] */
IG_API ig_tensor *ig_embedding(ig_tensor *ids, ig_tensor *table);

/* ---- joining --------------------------------------------------------------------------------------------- */

IG_API ig_tensor *ig_cat(ig_tensor *const *x, int n, int dim);
IG_API ig_tensor *ig_stack(ig_tensor *const *x, int n,
                           int dim); /* a new dimension; n <= 64 */
IG_API ig_tensor *ig_pad(ig_tensor *x, int dim, int64_t before, int64_t after,
                         double value);
/* Elements move up by shift, those that fall off come in again. */
IG_API ig_tensor *ig_roll(ig_tensor *x, int dim, int64_t shift);

/* ---- products ------------------------------------------------------------------------------------- */

/* [..,M,K] and [..,K,N] -> [..,M,N]; leading dimensions broadcast. A vector is a row on the left, a
 * column on the right, and its dimension is not in the result. Floats. */
IG_API ig_tensor *ig_matmul(ig_tensor *x, ig_tensor *y);
/* x [..,K], w [N,K], bias [N] or NULL -> [..,N] */
IG_API ig_tensor *ig_linear(ig_tensor *x, ig_tensor *w, ig_tensor *bias);

/* Rows in groups: x [M,K], w [X,N,K], counts [X] of an integer type -> [M,N]. The first counts[0] rows are
 * taken with w[0], the next counts[1] with w[1], ..; rows behind the last group give zeros. */
IG_API ig_tensor *ig_group_linear(ig_tensor *x, ig_tensor *w, ig_tensor *counts);

/* "ab,bc->ac": letters a to z, at most 8 operands; what the result lacks is summed. */
IG_API ig_tensor *ig_einsum(const char *equation, ig_tensor *const *x, int n);
/* Matrices with 0 above (below) a diagonal: 0 the main one, 1 the one above. */
IG_API ig_tensor *ig_tril(ig_tensor *x, int64_t diagonal);
IG_API ig_tensor *ig_triu(ig_tensor *x, int64_t diagonal);
/* The last n dimensions to sizes[n]: the nearest element, or linearly between centres. */
IG_API ig_tensor *ig_interpolate(ig_tensor *x, int n, const int64_t *sizes, bool linear);
IG_API ig_tensor *ig_swiglu(ig_tensor *gate, ig_tensor *x); /* silu(gate) x */

/* ---- rows ----------------------------------------------------------------------------------------- */

/* Along a dimension; a row of -inf alone gives zeros. */
IG_API ig_tensor *ig_softmax(ig_tensor *x, int dim);
IG_API ig_tensor *ig_log_softmax(ig_tensor *x, int dim);

/* ---- networks -------------------------------------------------------------------------------------- */

/* Over the last dimension; gain and bias [D] or NULL. eps may be 0. */
IG_API ig_tensor *ig_layer_norm(ig_tensor *x, ig_tensor *gain, ig_tensor *bias, double eps);
IG_API ig_tensor *ig_rms_norm(ig_tensor *x, ig_tensor *gain, double eps);
/* x [B,C,..]: over the channels of a group and all that is behind; gain and bias [C] or NULL. */
IG_API ig_tensor *ig_group_norm(ig_tensor *x, int64_t groups, ig_tensor *gain,
                                ig_tensor *bias, double eps);

typedef struct ig_batch_norm_opts {
    double eps;            /* 0: 1e-5 */
    double momentum;       /* of the running statistics; 0: 0.1 */
    bool train;            /* statistics of this batch; else the running ones */
    ig_tensor *mean, *var; /* running, [C]; in training moved in place, NULL: not kept */
} ig_batch_norm_opts;
/* x [B,C,..]: each channel over all else; gain and bias [C] or NULL. opts NULL: training, nothing
 * kept. */
IG_API ig_tensor *ig_batch_norm(ig_tensor *x, ig_tensor *gain, ig_tensor *bias,
                                const ig_batch_norm_opts *opts);

typedef struct ig_conv_opts { /* of height and width; of one dimension: the first of each */
    int64_t stride[2];        /* 0: 1 */
    int64_t pad[2];           /* zeros on both sides */
    int64_t dilation[2];      /* 0: 1 */
    int64_t groups;           /* 0: 1 */
    int64_t out_pad[2]; /* transposed: more outputs at the end, less than the stride */
} ig_conv_opts;
/* x [B,C,W] or [B,C,H,W], w [O,C/groups,..], bias [O] or NULL -> [B,O,..]. opts may be NULL. */
IG_API ig_tensor *ig_conv1d(ig_tensor *x, ig_tensor *w, ig_tensor *bias,
                            const ig_conv_opts *opts);
IG_API ig_tensor *ig_conv2d(ig_tensor *x, ig_tensor *w, ig_tensor *bias,
                            const ig_conv_opts *opts);
/* x [B,C,..], w [C,O/groups,..] -> [B,O,..]: what undoes the shape of a convolution. */
IG_API ig_tensor *ig_conv_transpose1d(ig_tensor *x, ig_tensor *w, ig_tensor *bias,
                                      const ig_conv_opts *opts);
IG_API ig_tensor *ig_conv_transpose2d(ig_tensor *x, ig_tensor *w, ig_tensor *bias,
                                      const ig_conv_opts *opts);

typedef struct ig_pool_opts {
    int64_t kernel[2],
        stride[2];   /* a second size of 0: as the first; a stride of 0: the kernel's */
    int64_t pad[2];  /* at most half the kernel */
    bool count_pads; /* average: divide by the whole window */
} ig_pool_opts;
/* x [B,C,H,W]. The largest: the first of ties gets the gradient; NaN wins, pads never do. */
IG_API ig_tensor *ig_max_pool2d(ig_tensor *x, const ig_pool_opts *opts);
IG_API ig_tensor *ig_avg_pool2d(ig_tensor *x, const ig_pool_opts *opts);

typedef struct ig_attention_opts {
    double scale;   /* of the products; 0: 1 / sqrt(W) */
    bool causal;    /* query i sees keys up to i + S - T: the last sees the last */
    int64_t window; /* and only the last `window` of them; 0: all */
    double
        dropout; /* each weight 0 with this probability, else divided by its complement */
    ig_tensor
        *mask; /* broadcasts to [B,H,T,S]: bool, may see; or a float, added. No gradient */
} ig_attention_opts;
/* q [B,H,T,W], k and v [B,G,S,W] -> [B,H,T,W], W up to 256; H / G heads share keys. Memory is linear in
 * T: the scores are never stored. A query that sees no key gives zeros; what is hidden has no
 * effect, be it NaN. opts may be NULL. */
IG_API ig_tensor *ig_attention(ig_tensor *q, ig_tensor *k, ig_tensor *v,
                               const ig_attention_opts *opts);

typedef struct ig_rope_opts {
    double base;        /* 0: 10000 */
    double scale;       /* of positions; 0: 1 */
    ig_tensor *factors; /* [n_rotated / 2] f32: divide the angles; NULL: none */
} ig_rope_opts;
/* cos and sin of the angles of positions [T]: [T,n_rotated/2,2] f32. opts may be NULL. */
IG_API ig_tensor *ig_rope_table(ig_tensor *positions, int64_t n_rotated,
                                const ig_rope_opts *opts);
/* Pairs of x [..,T,W] turned by the table's angles: pair i is (2i, 2i + 1), or with `halves`
 * (i, n_rotated/2 + i). Elements from n_rotated on stay. */
IG_API ig_tensor *ig_rope(ig_tensor *x, ig_tensor *table, bool halves);

/* How a recurrent layer goes from step to step; the order of gates in weights is that of the name:
 * RNN tanh; LSTM i, f, g, o; GRU r, z, n. */
typedef enum ig_cell { IG_CELL_RNN, IG_CELL_LSTM, IG_CELL_GRU } ig_cell;
typedef struct ig_recurrent_opts {
    int layers;     /* 0: 1; at most 32 */
    bool both;      /* directions: outputs of both stand side by side */
    double dropout; /* between layers */
    ig_tensor *
        lengths; /* [B] integers: steps of each sequence; NULL: all. Outputs behind are 0 */
    ig_tensor *h0, *c0;         /* [layers * directions, B, D]; NULL: zeros */
    ig_tensor **h_out, **c_out; /* last states, shaped as h0; NULL: not wanted */
} ig_recurrent_opts;
/* x [B,T,K] -> [B,T,D], or [B,T,2D]. weights: for each layer, forward then backward, w_in [G*D,K],
 * w [G*D,D], b_in [G*D], b [G*D] (NULL: no bias), with 1, 4 or 3 gates. opts may be NULL. */
IG_API ig_tensor *ig_recurrent(ig_cell cell, ig_tensor *x, ig_tensor *const *weights,
                               int n_weights, const ig_recurrent_opts *opts);

/* ---- losses --------------------------------------------------------------------------------------- */

typedef struct ig_cross_entropy_opts {
    double label_smoothing;
    int64_t ignore;  /* targets of this value do not count ... */
    bool use_ignore; /* ... if set */
    bool sum;        /* the sum instead of the mean over the counted targets */
} ig_cross_entropy_opts;
/* logits [N,V], targets [N] i64 or i32 -> scalar. No counted target: 0, with zero gradients, and a line
 * in the log. A target outside 0 .. V-1 that is not ignored is an error with its place and value. opts may
 * be NULL. */
IG_API ig_tensor *ig_cross_entropy(ig_tensor *logits, ig_tensor *targets,
                                   const ig_cross_entropy_opts *opts);
/* The same of ig_linear(x, w, bias), x [..,D], w [V,D], bias [V] or NULL, without its logits ever
 * being whole: for large vocabularies. First order only. */
IG_API ig_tensor *ig_linear_cross_entropy(ig_tensor *x, ig_tensor *w, ig_tensor *bias,
                                          ig_tensor *targets,
                                          const ig_cross_entropy_opts *opts);
/* means over all elements */
IG_API ig_tensor *ig_mse(ig_tensor *x, ig_tensor *y);
IG_API ig_tensor *ig_l1(ig_tensor *x, ig_tensor *y);
IG_API ig_tensor *ig_huber(ig_tensor *x, ig_tensor *y, double delta);
IG_API ig_tensor *ig_bce_with_logits(ig_tensor *x, ig_tensor *y); /* y in 0 .. 1 */
IG_API ig_tensor *ig_nll(ig_tensor *log_p, ig_tensor *targets);   /* [..,V], [..] */

#ifdef __cplusplus
}
#endif
#endif
