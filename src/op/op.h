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
 * A dimension may be a symbol (the tokens of a step, the rows whose logits are wanted), known only
 * when a plan runs: times * symbol + plus.
 */
#ifndef INGOT_OP_OP_H
#define INGOT_OP_OP_H

#include "base/team.h"
#include "kernel/kernel.h"
#include "op/batch.h"

enum { IG_MAX_DIMS = 4, IG_MAX_INPUTS = 10, IG_SMALL_ROWS = 4, IG_TOKEN_BLOCK = 128 };

typedef enum ig__symbol {
    IG_SYMBOL_NONE,
    IG_SYMBOL_TOKENS,
    IG_SYMBOL_LOGITS,
    IG_SYMBOL_COUNT
} ig__symbol;

typedef struct ig__dim {
    int64_t times, plus;
    ig__symbol symbol; /* NONE: the dimension is `plus` */
} ig__dim;

/* What the symbols stand for. */
typedef struct ig__bind {
    int64_t of[IG_SYMBOL_COUNT];
} ig__bind;

static inline ig__dim ig__dim_of(int64_t n)
{
    return (ig__dim){.plus = n};
}
static inline ig__dim ig__dim_symbol(ig__symbol s)
{
    return (ig__dim){.times = 1, .symbol = s};
}
static inline int64_t ig__dim_value(ig__dim d, const ig__bind *bind)
{
    return d.times * bind->of[d.symbol] + d.plus;
}
static inline bool ig__dim_same(ig__dim a, ig__dim b)
{
    return a.times == b.times && a.plus == b.plus && a.symbol == b.symbol;
}

typedef enum ig__layout {
    IG_LAYOUT_ROWS,     /* dims[0] rows, the rest contiguous: elements of dtype */
    IG_LAYOUT_ACTS,     /* dims [rows, K]: activation tiles of format `acts` (kernel.h) */
    IG_LAYOUT_GROUPS,   /* dims [N, K]: a matrix packed in groups of 16 rows (kernel.h) */
    IG_LAYOUT_PARTIALS, /* dims [rows, H, W]: what `attend` leaves for `attend_join` */
    IG_LAYOUT_STATE     /* no bytes: an order of effects */
} ig__layout;

typedef struct ig__type {
    ig_dtype dtype;
    ig__layout layout;
    ig__acts acts; /* of IG_LAYOUT_ACTS */
    int n_dims;
    ig__dim dims[IG_MAX_DIMS];
} ig__type;

/* Elements of one row: the product of all dimensions but the first. */
int64_t ig__type_width(const ig__type *type);
/* Bytes of a value of this type under a binding; IG_LAYOUT_PARTIALS as ig__partials_bytes says. */
size_t ig__type_bytes(const ig__type *type, const ig__bind *bind, int64_t n_spans);
/* "[T,576] f32", for messages; returns text. */
const char *ig__type_text(const ig__type *type, char *text, size_t cap);

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

    /* Set *out from in[0..n_in), or fail naming the shapes. */
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
} ig__op;

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
    float factor;
} ig__scale_attrs;
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
    bool halves; /* pairs (i, W/2 + i) instead of (2i, 2i + 1) */
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

#endif
