/* The operator table: one row an operator, and what a row is made of.
 *
 * A row says what an operator takes and gives (shape rule), how it is walked by a team of threads
 * (walk, n_items, run), what it costs, and what it does beside its result (effects). To add an operator is
 * to add a row in a file of its own and to name it in table.c; nothing else lists operators.
 *
 * Plain rows are what model files are written in. Rows marked `fused` are made by passes
 * (src/compile) out of plain ones, and compute the same, but for the rounding of activations
 * to the format that products want.
 *
 * Rows serve in two ways. A plan that serves a language model walks `run` over rows of tokens. Calls on
 * tensors (ig__apply), and programs captured from them, walk `eval` over arrays with strides. A row
 * that both worlds use has both; the shape rule is one. `gradient` says how gradients of the inputs
 * are built, out of operators. docs/tensors.md shows how a row is added.
 */
#ifndef INGOT_OP_OP_H
#define INGOT_OP_OP_H

#include "base/team.h"
#include "kernel/kernel.h"
#include "kernel/train.h"
#include "op/batch.h"
#include "tensor/tensor.h"

enum { IG_MAX_INPUTS = 16, IG_MAX_OUTPUTS = 4, IG_SMALL_ROWS = 4, IG_TOKEN_BLOCK = 128 };

/* Bytes of a value of this type under a binding; IG_LAYOUT_PARTIALS as ig__partials_bytes says. */
size_t ig__type_bytes(const ig__type *type, const ig__bind *bind, int64_t n_spans);

/* ---- a row ---------------------------------------------------------------------------------- */

typedef struct ig__operand {
    void *data;
    const ig__type *type;
    int64_t rows, width; /* of this run: dims[0], elements of a row */
} ig__operand;

/* What a kernel of the table sees when it runs. */
typedef struct ig__step_args {
    const ig__kernels *k;
    const ig__batch *batch;
    const void *attrs; /* the row's own struct */
    ig__operand in[IG_MAX_INPUTS];
    ig__operand out;
    int n_in;
    int n_threads;
    void *
        scratch; /* this thread's, as many bytes as the row's `scratch` asked for, 64-byte aligned */
} ig__step_args;

/* ---- a row over arrays with strides --------------------------------------------------------- */

typedef struct ig__array {
    char *data; /* element [0,0,..] */
    const ig__type *type;
    const int64_t *strides; /* [n_dims], in elements */
    int64_t n;              /* elements */
    bool contiguous;
} ig__array;

/* What `eval` of a row sees. Outputs are contiguous, but where the call is in place. */
typedef struct ig__eval {
    const ig__kernels *k;
    const ig__train_kernels *t;
    const void *attrs;
    int n_in, n_out;
    int phase, n_threads;
    bool first;     /* this thread's first call of this phase: scratch holds nothing yet */
    void *scratch;  /* this thread's; as the row's `room` asked for; 64-byte aligned */
    void *shared;   /* of all threads, kept from phase to phase */
    void *pool;     /* of all threads, of any content; 64-byte aligned */
    int64_t *fault; /* see ig__fault */
    bool *remarked; /* see ig__remark */
    uint64_t seed, draw; /* of a random row: key and stream number */
    ig__array in[IG_MAX_INPUTS];
    ig__array out[IG_MAX_OUTPUTS];
} ig__eval;

/* An operand holds what the row cannot take (an index out of range) at element `at`: the lowest is
 * reported by the row's `explain`, whatever thread met it. The row goes on without it. */
static inline void ig__fault(const ig__eval *e, int64_t at)
{
    /* relaxed: read after the walk's last barrier */
    int64_t seen = __atomic_load_n(e->fault, __ATOMIC_RELAXED);
    while (at < seen && !__atomic_compare_exchange_n(e->fault, &seen, at, true,
                                                     __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
}

/* What was computed is right, but may not be what its user thinks: the row's `remark` goes to the
 * log, once a call. */
static inline void ig__remark(const ig__eval *e)
{
    __atomic_store_n(e->remarked, true,
                     __ATOMIC_RELAXED); /* read after the walk's last barrier */
}

/* Bytes of scratch: a thread's, and two kinds that all share. */
typedef struct ig__room {
    size_t each, shared, pool;
} ig__room;

/* y[i] = f(x0[i], x1[i], ..) for n elements of one compute type, all contiguous; y may be any x. (An operand
 * of bool whose last fellow is not bool comes as bytes; a result of bool from floats is written as bytes.) */
typedef void ig__span_fn(const ig__eval *e, void *y, const void *const *x, int64_t n);

/* What the gradient of a row is given, and gives. Bits of `needs`: what was saved for it. */
#define IG_IN(i)  (1u << (i))
#define IG_OUT(i) (1u << (16 + (i)))
typedef struct ig__gradient {
    ig_context *ctx;
    const void *attrs;
    int n_in, n_out;
    uint32_t wanted;                     /* bit i: input i wants its gradient */
    const ig__type *type[IG_MAX_INPUTS]; /* of the wanted inputs */
    ig_tensor *in[IG_MAX_INPUTS];        /* the saved ones, by `needs` of what is wanted */
    ig_tensor *out[IG_MAX_OUTPUTS];
    ig_tensor *d_out[IG_MAX_OUTPUTS]; /* NULL: zero */
    /* What has arrived of input i's gradient already, where it may be added to in place instead of setting
     * d_in[i]; else NULL. */
    ig_tensor *onto[IG_MAX_INPUTS];
    /* To be set, in the current scope; NULL: zero. May still have a shape that the input was
     * broadcast to, and another dtype: the walk sums and casts. */
    ig_tensor *d_in[IG_MAX_INPUTS];
} ig__gradient;
static inline bool ig__wants(const ig__gradient *g, int i)
{
    return g->wanted >> i & 1;
}

/* How a row behaves when 16-bit types are used where they do no harm (mixed precision). */
typedef enum ig__precision {
    IG_PRECISION_FOLLOWS, /* its inputs */
    IG_PRECISION_LOW,     /* products: computes in 16 bits, sums in f32 */
    IG_PRECISION_HIGH     /* must be f32: exponentials, sums, norms, losses */
} ig__precision;

typedef struct ig__cost {
    double ops; /* multiply and add counted apart */
    double weight_bytes, other_bytes;
} ig__cost;

typedef enum ig__walk {
    /* Rows are independent and cheap. With few rows every thread computes all of them for itself, and no
     * barrier is needed before the next step; with many, tiles of 16 rows are shared out. */
    IG_WALK_ROWS,
    /* Items are shared out; a reader on another thread waits at a barrier. */
    IG_WALK_ITEMS,
    /* No bytes move: the output is the first input under another shape. */
    IG_WALK_VIEW
} ig__walk;

typedef struct ig__op {
    const char *name;
    int n_in_least, n_in_most;
    size_t attrs_bytes;
    bool fused;
    bool
        effect; /* writes state beside its output: never merged with its like; who reads the
                  * state takes the output, which orders them and keeps the node */
    ig__walk walk;

    /* Set out[0..n_out) from in[0..n_in), or fail naming the shapes. */
    ig_status (*shape)(ig__type *out, const ig__type *const *in, int n_in,
                       const void *attrs, ig_error *err);
    /* IG_WALK_ITEMS: how many items there are now. (IG_WALK_ROWS: tiles of the output's rows.) */
    int64_t (*n_items)(const ig__step_args *args);
    /* Do items [begin, end): tiles of 16 rows, or what n_items counted. */
    void (*run)(const ig__step_args *args, int64_t begin, int64_t end);
    /* Bytes of scratch a thread; NULL: none. Types are those of inputs and output. */
    size_t (*scratch)(const ig__type *const *in, int n_in, const ig__type *out,
                      const void *attrs);
    void (*cost)(ig__cost *cost, const ig__type *const *in, int n_in, const ig__type *out,
                 const void *attrs, const ig__bind *bind);

    /* Over arrays (all NULL: only plans that serve run this row). */
    int n_out;    /* 0: one */
    int n_phases; /* 0: one; a barrier stands between phases */
    /* IG_WALK_VIEW: strides of the output, and its first element as an offset from the
     * input's; false: these strides have no such view, and eval copies. */
    bool (*view)(int64_t *strides, int64_t *offset, const ig__array *in,
                 const ig__type *out, const void *attrs);
    /* Units of this phase; they are shared out. How they are cut must not change a bit. Called once
     * before the walk, and may prepare what all threads share in `shared`. NULL: spans of
     * IG_SPAN elements of out[0]. */
    int64_t (*n_units)(const ig__eval *e);
    void (*eval)(const ig__eval *e, int64_t begin, int64_t end);
    ig__room (*room)(const ig__eval *e); /* NULL: none */
    /* Elementwise operations, about 1 ns each: few run on the caller's thread alone. NULL: as many
     * as there are elements. */
    double (*work)(const ig__eval *e);
    /* Elementwise rows have these instead of eval; NULL: a type that the row does not take. */
    ig__span_fn *span[IG_COMPUTE_COUNT];
    void (*gradient)(ig__gradient *g); /* NULL: none flows */
    uint32_t needs[IG_MAX_INPUTS]; /* of the gradient of input i: IG_IN and IG_OUT bits */
    void (*explain)(const ig__eval *e, int64_t at, ig_error *err); /* of a fault */
    const char *remark;                                            /* see ig__remark */
    bool
        keeps_units; /* `n_units`, and what it prepares in `shared`, depend on types and strides
                       * alone: a program asks once */
    uint16_t writes; /* bit i: input i is written in place; output 0 is the first of them */
    /* Of a row of one phase whose units finish out[0] in order: how many elements of it units
     * [0, unit) have made. An elementwise step may follow unit by unit. NULL, or less than 0: they do not. */
    int64_t (*done)(const ig__eval *e, int64_t unit);
    bool random; /* draws from the context's stream */
    ig__precision precision;
    uint16_t keeps; /* bit i: input i is taken as it is under mixed precision */
} ig__op;

enum { IG_SPAN = 16384 };

/* All rows; the last is NULL. */
extern const ig__op *const ig__op_table[];
const ig__op *ig__op_find(const char *name);

/* Rows of tiles [begin, end): first and one past the last. */
static inline int64_t ig__tile_row(int64_t tile, int64_t n_rows)
{
    return tile * IG_TILE < n_rows ? tile * IG_TILE : n_rows;
}

/* ---- attributes, one struct an operator that has any --------------------------------------- */

typedef struct ig__norm_attrs {
    float eps;
} ig__norm_attrs;
typedef struct ig__scale_attrs {
    double factor; /* rounded to f32 where the values are */
} ig__scale_attrs;
typedef struct ig__clamp_attrs {
    double low, high;
} ig__clamp_attrs;
typedef struct ig__fill_attrs { /* a tensor of one value: no operands */
    double value;
    ig_dtype dtype;
    int n_dims;
    int64_t dims[IG_MAX_DIMS];
} ig__fill_attrs;
typedef struct ig__cast_attrs {
    ig_dtype dtype;
} ig__cast_attrs;
typedef struct ig__reshape_attrs {
    int n_dims;
    ig__dim dims[IG_MAX_DIMS];
} ig__reshape_attrs;
typedef struct ig__rope_table_attrs {
    int64_t n_rotated; /* even; the table holds n_rotated / 2 pairs */
    double
        base; /* angle of pair i at position p: p * scale / base^(2i / n_rotated) / factor[i] */
    double scale;
} ig__rope_table_attrs;
typedef struct ig__rope_attrs {
    bool halves;      /* pairs (i, W/2 + i) instead of (2i, 2i + 1) */
    bool over_arrays; /* x [..,T,W] */
    bool back;        /* turn by the negative angles */
} ig__rope_attrs;
typedef struct ig__pack_attrs {
    ig__acts format;
    float eps; /* of a fused norm */
} ig__pack_attrs;
typedef enum ig__gate { IG_GATE_SILU, IG_GATE_GELU } ig__gate;
typedef struct ig__gated_attrs {
    ig__gate gate;
} ig__gated_attrs;
typedef struct ig__attention_attrs {
    int64_t layer;  /* of the cache */
    int64_t window; /* keys seen, the own included; 0: all */
    float scale;
} ig__attention_attrs;
typedef struct ig__qkv_attrs {
    int64_t layer, width; /* W */
    bool halves, norms;   /* norms: inputs 5 and 6 are the gains of q and k */
    float eps;
} ig__qkv_attrs;

/* ---- the rows, by file -------------------------------------------------------------------------- */

extern const ig__op ig__op_embedding;   /* tokens [T] i32, table [V,D] groups -> [T,D] */
extern const ig__op ig__op_gather_rows; /* x [T,..], rows [R] i32 -> [R,..] */
extern const ig__op
    ig__op_rms_norm;              /* x [..,D], g [D] -> [..,D]: over the last dimension */
extern const ig__op ig__op_scale; /* x */
extern const ig__op ig__op_add;   /* x, y of one shape */
extern const ig__op ig__op_mul;
extern const ig__op ig__op_silu;
extern const ig__op ig__op_gelu; /* the tanh form */
extern const ig__op ig__op_gelu_erf;
extern const ig__op ig__op_reshape;
extern const ig__op ig__op_linear; /* x [T,K], w [N,K] groups -> [T,N] */
extern const ig__op
    ig__op_rope_table; /* positions [T] i32 [, factors [W/2]] -> [T,W/2,2] (cos, sin) */
extern const ig__op ig__op_rope; /* x [T,H,W], table */
extern const ig__op
    ig__op_attention; /* q [T,H,W], k [T,G,W], v [T,G,W]: causal, the rows one sequence */

extern const ig__op ig__op_cache_write; /* k, v [T,G,W] -> state; effect */
extern const ig__op ig__op_attend;      /* q [T,H,W], state -> partials [T,H,W] */
extern const ig__op ig__op_attend_join; /* partials -> [T,H,W] */

extern const ig__op ig__op_pack;      /* x [T,..] -> acts [T,K] */
extern const ig__op ig__op_norm_pack; /* x [T,K], g [K] -> acts */
extern const ig__op ig__op_join_pack; /* partials [T,H,W] -> acts [T,H*W] */
extern const ig__op ig__op_norm_add;  /* y [T,D], g [D], x [T,D] -> x + rms_norm(y, g) */
extern const ig__op ig__op_linear_packed; /* acts [T,K], w [, x [T,N]] -> [T,N] (+ x) */
extern const ig__op ig__op_gated_packed;  /* acts, w_gate [F,K], w_up [F,K] -> [T,F] */
extern const ig__op
    ig__op_qkv_packed; /* acts, wq, wk, wv, table [, gq [W], gk [W]] -> q [T,H,W];
                                           * writes k and v to the cache: effect */

/* elementwise over arrays: unary.c, arithmetic.c (with add, mul, scale, silu, gelu above) */
extern const ig__op ig__op_neg, ig__op_abs, ig__op_sign, ig__op_square, ig__op_relu,
    ig__op_sqrt, ig__op_rsqrt, ig__op_reciprocal, ig__op_exp, ig__op_expm1, ig__op_log,
    ig__op_log1p, ig__op_sin, ig__op_cos, ig__op_tanh, ig__op_sigmoid, ig__op_softplus,
    ig__op_erf, ig__op_floor, ig__op_ceil, ig__op_round, ig__op_trunc, ig__op_unary_grad;
extern const ig__op ig__op_add_scalar, ig__op_clamp, ig__op_sub, ig__op_div, ig__op_maximum,
    ig__op_minimum, ig__op_pow, ig__op_where, ig__op_equal, ig__op_not_equal, ig__op_less,
    ig__op_less_equal, ig__op_logical_and, ig__op_logical_or, ig__op_logical_xor,
    ig__op_logical_not, ig__op_fill, ig__op_cast, ig__op_copy;

#endif
