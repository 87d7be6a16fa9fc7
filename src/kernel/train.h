/* The kernels of training: loops over raw pointers, one table for each instruction set,
 * beside the table of kernel.h and picked by the same names.
 *
 * Nothing here allocates, fails, starts threads or knows of tensors. The reference table is
 * the definition: plain loops in double, rounded once where they store. Sizes may be 0; a
 * pointer of an empty array is not followed. Arrays are float32 unless they say otherwise,
 * contiguous unless they have strides (in elements). "may alias" means the same first
 * address, never an overlap by parts.
 *
 * WORK. What a team shares is cut in items: a function says how many there are, and the
 * kernel runs items [begin, end). No item writes what another item of the call reads or
 * writes, and an item's result never depends on who runs it: any number of threads gives
 * the same bits. Elementwise kernels are cut anywhere.
 *
 * SUMS are taken in double in a fixed tree: an array in spans of IG__SPAN, element i of a
 * span in lane i mod 16, the lanes joined by halves (8 and 8, 4 and 4, ..), the spans first
 * to last. So the sum of the same values has the same bits contiguous, strided or as a
 * column, and when each span is summed by itself and the parts are added in order.
 *
 * ACCURACY (against the exact value, in units of its last place, over all of float32 with
 * subnormals): vector functions 2, but sigmoid and silu 2.5, gelu 5, the tanh form of gelu
 * 4 + 4 |u| (u is tanh's argument). NaN in, NaN out. The sets avx2 and avx512 give the same bits.
 */
#ifndef INGOT_KERNEL_TRAIN_H
#define INGOT_KERNEL_TRAIN_H

#include "kernel/kernel.h"

enum {
    IG__SPAN = 16384,     /* elements of a sum that one accumulator set takes */
    IG__ROW_SPAN = 32,    /* rows whose gain and bias gradients are summed in float32 */
    IG__ATTEND_TILE = 64, /* queries and keys of an attention tile */
    IG__CONV_TILE = 64,   /* output pixels of a convolution's tile */
    IG__MAX_ATTEND = 256  /* widest attention head of training */
};

/* ---- elementwise ---------------------------------------------------------------------- */

/* X(NAME, y, dx / dy): the gradient is written in x and y, whichever costs less. */
#define IG__UNARY_MAP(X)                                                                   \
    X(NEG)         /* -x                   -1 */                                           \
    X(ABS)         /* |x|                  sign(x), 0 at 0 */                              \
    X(SIGN)        /* -1, 0, 1             0 */                                            \
    X(SQUARE)      /* x^2                  2x */                                           \
    X(SQRT)        /* sqrt(x)              1 / (2y) */                                     \
    X(RSQRT)       /* 1 / sqrt(x)          -y / (2x) */                                    \
    X(RECIPROCAL)  /* 1 / x                -y^2 */                                         \
    X(FLOOR)       /*                      0 */                                            \
    X(CEIL)        /*                      0 */                                            \
    X(ROUND)       /* ties to even         0 */                                            \
    X(TRUNC)       /*                      0 */                                            \
    X(EXP)         /*                      y */                                            \
    X(EXPM1)       /* exp(x) - 1           y + 1 */                                        \
    X(LOG)         /*                      1 / x */                                        \
    X(LOG1P)       /* log(1 + x)           1 / (1 + x) */                                  \
    X(SIN)         /*                      cos(x) */                                       \
    X(COS)         /*                      -sin(x) */                                      \
    X(TANH)        /*                      1 - y^2 */                                      \
    X(SIGMOID)     /* 1 / (1 + exp(-x))    y (1 - y) */                                    \
    X(LOG_SIGMOID) /* -softplus(-x)        sigmoid(-x) */                                  \
    X(RELU)        /* x > 0 ? x : 0        x > 0; NaN stays NaN */                         \
    X(SILU)        /* x sigmoid(x)         s + y (1 - s), s = sigmoid(x) */                \
    X(SOFTPLUS)    /* log(1 + exp(x))      sigmoid(x) */                                   \
    X(ERF)         /*                      2 / sqrt(pi) exp(-x^2) */                       \
    X(GELU)        /* x Phi(x)             Phi(x) + x phi(x) */                            \
    X(GELU_TANH)   /* x sigmoid(2u), u = sqrt(2/pi) (x + 0.044715 x^3) */

typedef enum ig__unary {
#define IG__UNARY_ENUM(name) IG__UNARY_##name,
    IG__UNARY_MAP(IG__UNARY_ENUM)
#undef IG__UNARY_ENUM
        IG__UNARY_COUNT
} ig__unary;

/* MAX and MIN give NaN where one of them is NaN. POW as C's pow. */
typedef enum ig__binary {
    IG__BINARY_ADD,
    IG__BINARY_SUB,
    IG__BINARY_MUL,
    IG__BINARY_DIV,
    IG__BINARY_MAX,
    IG__BINARY_MIN,
    IG__BINARY_POW,
    IG__BINARY_COUNT
} ig__binary;

typedef enum ig__compare {
    IG__COMPARE_EQ,
    IG__COMPARE_NE,
    IG__COMPARE_LT,
    IG__COMPARE_LE,
    IG__COMPARE_GT,
    IG__COMPARE_GE,
    IG__COMPARE_COUNT
} ig__compare;

/* ---- reductions ----------------------------------------------------------------------- */

typedef enum ig__reduce {
    IG__REDUCE_SUM,
    IG__REDUCE_SUM_SQUARES,  /* finite exactly if every x is finite */
    IG__REDUCE_SUM_CENTERED, /* sum of (x - center)^2; variance is that over n (or n - 1),
                              * with the mean as the center */
    IG__REDUCE_COUNT
} ig__reduce;

/* ---- attention ------------------------------------------------------------------------ *
 *
 * out = softmax(scale q k^T + mask) v for each head, in tiles, keeping of the softmax only
 * the log-sum-exp of each row (FlashAttention-2). Query i sees key j if
 *   causal: j <= i + S - T        window > 0: j > i + S - T - window
 *   mask, allowed: added to the score; 0 hides. A score of -inf hides too.
 * K and V that no query of an item sees have no effect, NaN or not. A row that
 * sees nothing gives zeros, lse -inf, and zero gradients. Head h reads key head h / (H / G).
 */
typedef struct ig__attention {
    int64_t batch, heads, kv_heads; /* B, H, G; H a multiple of G */
    int64_t n_queries, n_keys;      /* T, S */
    int64_t width;                  /* W, 1 .. IG__MAX_ATTEND; contiguous everywhere */
    float scale;
    bool causal;
    int64_t window; /* 0: none */

    const float *q, *k, *v;                        /* [B,H,T,W], [B,G,S,W] twice */
    int64_t q_stride[3], k_stride[3], v_stride[3]; /* of batch, head, row */
    const float *mask;      /* [B,H,T,S] by strides (0: broadcast), or NULL */
    const uint8_t *allowed; /* the same with 1 and 0, or NULL */
    int64_t mask_stride[4], allowed_stride[4];

    /* weight ((b H + h) T + i) S + j, behind the softmax, is 0 with this probability, else divided by
     * its complement: as the table's dropout has it, which `drop` is. 0: none */
    double dropout;
    uint64_t seed, stream;
    void (*drop)(float *y, const float *x, uint64_t seed, uint64_t stream, uint64_t first,
                 int64_t n, double p);

    float *out; /* [B,H,T,W] */
    int64_t out_stride[3];
    float *lse; /* [B,H,T] contiguous */

    /* backward only */
    const float *dout;
    int64_t dout_stride[3];
    float *dq, *dk, *dv; /* written, not added to */
    int64_t dq_stride[3], dk_stride[3], dv_stride[3];
} ig__attention;

/* Forward: an item is IG__ATTEND_TILE queries of a head. Backward: an item is a key head with
 * all the queries that read it: tiles of keys outside, of queries inside, in order. */
int64_t ig__attention_items(const ig__attention *a);
int64_t ig__attention_grad_items(const ig__attention *a);
/* Bytes of scratch for a thread, aligned to 64. */
size_t ig__attention_scratch(const ig__attention *a);
size_t ig__attention_grad_scratch(const ig__attention *a);

/* ---- convolution and pooling ---------------------------------------------------------- *
 *
 *   y[b,o,i,j] = bias[o] + sum over c, u, v of
 *                w[o,c,u,v] x[b, g C/groups + c, i stride - pad + u dilation, ...]
 *   x [B,C,IH,IW]    w [O,C/groups,KH,KW]    y [B,O,OH,OW], all contiguous; outside x is 0.
 * A convolution of one dimension has height 1 and pads it by 0. A transposed one is
 * conv_data with the roles of x and y exchanged.
 */
typedef struct ig__conv {
    int64_t batch, in_channels, out_channels, groups;
    int64_t in_h, in_w, out_h, out_w, kernel_h, kernel_w;
    int64_t stride_h, stride_w, pad_h, pad_w; /* padding above and at the left */
    int64_t dilation_h, dilation_w;
} ig__conv;

int64_t ig__conv_items(const ig__conv *c);        /* (batch, group, band of output rows) */
int64_t ig__conv_data_items(const ig__conv *c);   /* (batch, group, band or channels) */
int64_t ig__conv_weight_items(const ig__conv *c); /* (span of batch, group, outputs) */
size_t ig__conv_scratch(const ig__conv *c);       /* bytes a thread, for all three */
/* Floats of conv_weight's parts: ig__conv_weight_spans of [O, C/groups, KH, KW]. */
int64_t ig__conv_weight_spans(const ig__conv *c);

typedef struct ig__pool {
    int64_t planes; /* batch * channels */
    int64_t in_h, in_w, out_h, out_w, kernel_h, kernel_w;
    int64_t stride_h, stride_w, pad_h, pad_w;
    bool count_pads; /* average: divide by the whole window */
} ig__pool;

/* ---- optimisers ----------------------------------------------------------------------- *
 *
 * One pass over n elements of a parameter. g' = grad_scale * g (unscaling and clipping).
 * p_bf16, if not NULL, gets the new p rounded to bf16; ema, if not NULL,
 * ema += (1 - ema_decay) (p - ema).
 */
typedef struct ig__update {
    float *p, *m, *v; /* weights, first and second moment (where the rule has them) */
    const float *g;
    uint16_t *p_bf16;
    float *ema;
    int64_t n;
    float lr, grad_scale, weight_decay, ema_decay;
    float beta1, beta2, eps;
    float correction1, correction2; /* Adam: 1 - beta1^t, 1 - beta2^t */
    bool decoupled;                 /* Adam: decay p itself (AdamW), else g' += decay p */
    bool nesterov, first;           /* SGD: first: m = g' */
    float momentum, dampening;      /* SGD: momentum 0: m is not read, may be NULL */
} ig__update;

/* ---- numbers in memory ---------------------------------------------------------------- */

typedef enum ig__number {
    IG__NUMBER_F32,
    IG__NUMBER_F64,
    IG__NUMBER_F16,
    IG__NUMBER_BF16,
    IG__NUMBER_I8,
    IG__NUMBER_U8,
    IG__NUMBER_I32,
    IG__NUMBER_I64,
    IG__NUMBER_BOOL, /* a byte, 0 or 1 */
    IG__NUMBER_COUNT
} ig__number;

size_t ig__number_bytes(ig__number number);

/* ---- recurrent cells ------------------------------------------------------------------ *
 *
 * What stands behind the products, for one row of D units. Gates are PyTorch's, in order:
 *   LSTM  i f g o: c = f c0 + i g, h = o tanh(c)        (sigmoid, g tanh)
 *   GRU   r z n: n = tanh(xn + r hn), h = n + z (h0 - n) (sigmoid)
 */
typedef struct ig__lstm_cell {
    int64_t d;
    const float *x;       /* [4D] sums before the gates' functions */
    const float *c0;      /* [D] */
    float *gates, *c, *h; /* [4D] after them (may alias x), [D], [D] */
    const float *dh, *dc; /* [D] each; NULL: zeros */
    float *dx, *dc0;      /* [4D], [D] */
} ig__lstm_cell;

typedef struct ig__gru_cell {
    int64_t d;
    const float *x, *y;   /* [3D] from the input, [3D] from the state, biases in both */
    const float *h0;      /* [D] */
    float *gates, *h;     /* [3D] r z n, [D] */
    const float *dh;      /* [D] */
    float *dx, *dy, *dh0; /* [3D], [3D], [D]: dh0 is what goes past the products */
} ig__gru_cell;

/* ---- the table ------------------------------------------------------------------------ */

typedef struct ig__train_kernels {
    const char *isa;

    /* y = f(x). y may alias x. */
    void (*unary)(ig__unary op, float *y, const float *x, int64_t n);
    /* dx = dy f'(x); y = f(x) as computed. dx may alias any. A factor of 0 times an
     * infinite or NaN dy is NaN, but for RELU and the rows of 0, which choose. */
    void (*unary_grad)(ig__unary op, float *dx, const float *dy, const float *x,
                       const float *y, int64_t n);
    /* z = x op y; a stride is 0 (one element for all) or 1. z may alias either. */
    void (*binary)(ig__binary op, float *z, const float *x, int64_t x_stride,
                   const float *y, int64_t y_stride, int64_t n);
    void (*compare)(ig__compare op, uint8_t *z, const float *x, int64_t x_stride,
                    const float *y, int64_t y_stride, int64_t n);
    /* z = c ? x : y. What is not chosen has no effect. */
    void (*where)(float *z, const uint8_t *c, int64_t c_stride, const float *x,
                  int64_t x_stride, const float *y, int64_t y_stride, int64_t n);
    /* y = lo <= x <= hi ? x : the nearer bound (hi wins over lo); dx = dy inside and at the
     * bounds, else 0. */
    void (*clamp)(float *y, const float *x, float lo, float hi, int64_t n);
    void (*clamp_grad)(float *dx, const float *dy, const float *x, float lo, float hi,
                       int64_t n);
    /* y = a x + b; y = y + a x; y = y + t (x - y) */
    void (*affine)(float *y, const float *x, float a, float b, int64_t n);
    void (*axpy)(float *y, const float *x, float a, int64_t n);
    void (*lerp)(float *y, const float *x, float t, int64_t n);
    /* The same over doubles, by the C library: for checks of gradients. */
    void (*unary_f64)(ig__unary op, double *y, const double *x, int64_t n);
    void (*unary_grad_f64)(ig__unary op, double *dx, const double *dy, const double *x,
                           const double *y, int64_t n);
    void (*binary_f64)(ig__binary op, double *z, const double *x, int64_t x_stride,
                       const double *y, int64_t y_stride, int64_t n);

    /* Of n elements, `stride` apart. `center` for SUM_CENTERED only. */
    double (*reduce)(ig__reduce op, const float *x, int64_t n, int64_t stride,
                     double center);
    double (*reduce_f64)(ig__reduce op, const double *x, int64_t n, int64_t stride,
                         double center);
    /* out[c] = that of column c. x [R][row_stride], out [C] f64, center [C] f64. `scratch`
     * holds IG__COLUMN_SCRATCH bytes, aligned to 64. */
    void (*reduce_columns)(ig__reduce op, double *out, const float *x, int64_t rows,
                           int64_t row_stride, int64_t cols, const double *center,
                           void *scratch);
    /* The largest (smallest) of n >= 1, NaN if one is; its first index, a NaN's if one is. */
    float (*largest)(const float *x, int64_t n, int64_t stride);
    float (*smallest)(const float *x, int64_t n, int64_t stride);
    int64_t (*arg_largest)(const float *x, int64_t n, int64_t stride);
    int64_t (*arg_smallest)(const float *x, int64_t n, int64_t stride);
    /* Sum of x[i] y[i], in the tree of a sum. */
    double (*dot)(const float *x, const float *y, int64_t n);

    /* One row of D >= 1. y may alias x, dx may alias dy (and y of softmax_grad). A row of
     * -inf alone gives zeros (softmax), -inf (log_softmax, logsumexp). */
    void (*softmax)(float *y, const float *x, int64_t d);
    void (*log_softmax)(float *y, const float *x, int64_t d);
    float (*logsumexp)(const float *x, int64_t d);
    void (*softmax_grad)(float *dx, const float *dy, const float *y, int64_t d);
    void (*log_softmax_grad)(float *dx, const float *dy, const float *y, int64_t d);

    /* y = (x - mean) / sqrt(var + eps) * g + b; y = x / sqrt(mean(x^2) + eps) * g. g and b
     * may be NULL. Gradients recompute the statistics; dg and db (NULL: not wanted) are
     * added to: at most IG__ROW_SPAN rows to one pair, the pairs joined by
     * reduce_columns. dx may alias dy, and may be NULL. */
    void (*layer_norm)(float *y, const float *x, const float *g, const float *b, int64_t d,
                       float eps);
    void (*layer_norm_grad)(float *dx, float *dg, float *db, const float *dy,
                            const float *x, const float *g, int64_t d, float eps);
    void (*rms_norm)(float *y, const float *x, const float *g, int64_t d, float eps);
    void (*rms_norm_grad)(float *dx, float *dg, const float *dy, const float *x,
                          const float *g, int64_t d, float eps);

    /* Of one row of V logits: (1 - s) (lse - x[t]) + s (lse - mean(x)); *lse_out the row's
     * log-sum-exp. 0 <= t < V. dx = scale (softmax(x) - (1 - s) [j = t] - s / V), may alias
     * x. Ignored rows are the caller's: zeros. */
    float (*cross_entropy)(float *lse_out, const float *x, int64_t v, int64_t target,
                           float smoothing);
    void (*cross_entropy_grad)(float *dx, const float *x, int64_t v, int64_t target,
                               float smoothing, float lse, float scale);

    /* dw[ids[t]] += dy[t], t in order, for the ids in [lo, hi): vocabularies are cut among
     * the team. dw [V,D], dy [T,D]; ids in 0 .. V-1 */
    void (*embedding_grad)(float *dw, const float *dy, const int64_t *ids, int64_t t,
                           int64_t d, int64_t lo, int64_t hi);

    void (*attention)(const ig__attention *a, int64_t begin, int64_t end, void *scratch);
    void (*attention_grad)(const ig__attention *a, int64_t begin, int64_t end,
                           void *scratch);

    /* bias may be NULL. conv_data: dx = the gradient of x from dy. conv_weight: span s of
     * the batch to parts + s * (O C/groups KH KW), whole; then sum the parts in order
     * (reduce_columns). One span: parts is dw. */
    void (*conv)(const ig__conv *c, float *y, const float *x, const float *w,
                 const float *bias, int64_t begin, int64_t end, void *scratch);
    void (*conv_data)(const ig__conv *c, float *dx, const float *dy, const float *w,
                      int64_t begin, int64_t end, void *scratch);
    void (*conv_weight)(const ig__conv *c, float *parts, const float *dy, const float *x,
                        int64_t begin, int64_t end, void *scratch);
    /* Planes [begin, end). `at` [planes][OH*OW] gets the index of the largest in its input
     * plane (the first; a NaN wins). Pads never win, count as 0 in the average. */
    void (*max_pool)(const ig__pool *p, float *y, int32_t *at, const float *x,
                     int64_t begin, int64_t end);
    void (*max_pool_grad)(const ig__pool *p, float *dx, const float *dy, const int32_t *at,
                          int64_t begin, int64_t end);
    void (*avg_pool)(const ig__pool *p, float *y, const float *x, int64_t begin,
                     int64_t end);
    void (*avg_pool_grad)(const ig__pool *p, float *dx, const float *dy, int64_t begin,
                          int64_t end);

    void (*lstm)(const ig__lstm_cell *cell);
    void (*lstm_grad)(const ig__lstm_cell *cell); /* reads gates, c, c0 */
    void (*gru)(const ig__gru_cell *cell);
    void (*gru_grad)(const ig__gru_cell *cell); /* reads gates, y, h0 */

    void (*sgd)(const ig__update *u);
    void (*adam)(const ig__update *u);
    void (*lion)(const ig__update *u);
    /* u = g / sqrt(row * col[i]): a row of Adafactor's update. u may alias g. */
    void (*factored)(float *u, const float *g, float row, const float *col, int64_t n);

    /* y = x as another number. To f16 and bf16: nearest even. To an integer: toward zero,
     * NaN as 0, beyond the range its end; from integer to integer: the low bits. To bool:
     * x != 0. y may alias x only where both have one size. */
    void (*convert)(ig__number to, ig__number from, void *y, const void *x, int64_t n);

    /* Elements [first, first + n) of the random stream (seed, stream): element i has word i
     * mod 4 of ig__philox(seed, stream, i / 4). Uniform: the upper 24 bits, in [0, 1), as
     * lo + (hi - lo) u. Normal: Box-Muller of words (0, 1) and (2, 3), cosine in the even
     * element, u1 in (0, 1]. Dropout: y = x / (1 - p) where word >= p 2^32, else 0; its
     * gradient is the same call on dy; p in [0, 1]. */
    void (*random_bits)(uint32_t *y, uint64_t seed, uint64_t stream, uint64_t first,
                        int64_t n);
    void (*random_uniform)(float *y, uint64_t seed, uint64_t stream, uint64_t first,
                           int64_t n, float lo, float hi);
    void (*random_normal)(float *y, uint64_t seed, uint64_t stream, uint64_t first,
                          int64_t n, float mean, float deviation);
    void (*dropout)(float *y, const float *x, uint64_t seed, uint64_t stream,
                    uint64_t first, int64_t n, double p);
} ig__train_kernels;

enum { IG__COLUMN_SCRATCH = 16 * 64 * 8 };

/* The table for `isa` (NULL: the best here); "amx" gives that of "avx512". NULL: no such
 * name, or this CPU lacks it. The tables are constant. */
const ig__train_kernels *ig__train_kernels_pick(const char *isa);
/* The tables that this CPU can run, slowest first; returns the count. */
int ig__train_kernels_available(const ig__train_kernels *tables[3]);

#endif
