/* Types of values: element type, layout, and dimensions that may be symbols.
 *
 * A dimension may be a symbol (the tokens of a step, the rows whose logits are wanted), known only
 * when a plan runs: times * symbol + plus. The type of a tensor has constant dimensions only, so a
 * shape rule is written once, for tensors and for graphs.
 */
#ifndef INGOT_TENSOR_TYPE_H
#define INGOT_TENSOR_TYPE_H

#include "kernel/kernel.h"

enum { IG_MAX_DIMS = 8, IG_TYPE_TEXT = 160 };

typedef enum ig__symbol {
    IG_SYMBOL_NONE,
    IG_SYMBOL_TOKENS,
    IG_SYMBOL_LOGITS,
    IG_SYMBOL_COUNT
} ig__symbol;

typedef struct ig__dim {
    int64_t plus;
    int32_t times;
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
static inline bool ig__is_constant(ig__dim d)
{
    return d.symbol == IG_SYMBOL_NONE;
}

typedef enum ig__layout {
    IG_LAYOUT_ROWS, /* elements of dtype: dims[0] rows, the rest contiguous in a graph that
                         * serves; with strides in a tensor */
    IG_LAYOUT_ACTS, /* dims [rows, K]: activation tiles of format `acts` (kernel.h) */
    IG_LAYOUT_GROUPS,   /* dims [N, K]: a matrix packed in groups of 16 rows (kernel.h) */
    IG_LAYOUT_PARTIALS, /* dims [rows, H, W]: what `attend` leaves for `attend_join` */
    IG_LAYOUT_STATE     /* no bytes: an order of effects */
} ig__layout;

typedef struct ig__type {
    ig_dtype dtype;
    ig__layout layout;
    ig__acts acts; /* of IG_LAYOUT_ACTS */
    int n_dims;
    ig__dim dims[IG_MAX_DIMS]; /* those from n_dims on hold anything */
} ig__type;

/* Elements of one row: the product of all dimensions but the first. */
int64_t ig__type_width(const ig__type *type);
/* Elements of a type whose dimensions are constants. */
int64_t ig__type_count(const ig__type *type);
/* "[T,576] f32", for messages; returns text. */
const char *ig__type_text(const ig__type *type, char *text, size_t cap);
/* Same dtype, layout and dimensions. */
bool ig__type_same(const ig__type *a, const ig__type *b);
/* Same number of dimensions, all the same. */
bool ig__dims_same(const ig__type *a, const ig__type *b);

/* ---- what an element type is ----------------------------------------------------------------- */

static inline bool ig__is_float(ig_dtype t)
{
    return t == IG_DTYPE_F32 || t == IG_DTYPE_F64 || t == IG_DTYPE_F16 ||
           t == IG_DTYPE_BF16;
}
static inline bool ig__is_int(ig_dtype t)
{
    return t == IG_DTYPE_I32 || t == IG_DTYPE_I64 || t == IG_DTYPE_I8 || t == IG_DTYPE_U8;
}
/* May a tensor be made of it? Quantised types are read-only and come from files. */
static inline bool ig__is_plain(ig_dtype t)
{
    return ig__is_float(t) || ig__is_int(t) || t == IG_DTYPE_BOOL;
}

/* What loops compute in: f32 for f32, f16 and bf16; f64; i64 for integers and bool. */
typedef enum ig__compute {
    IG_COMPUTE_F32,
    IG_COMPUTE_F64,
    IG_COMPUTE_I64,
    IG_COMPUTE_COUNT
} ig__compute;
static inline ig__compute ig__compute_of(ig_dtype t)
{
    if (t == IG_DTYPE_F64)
        return IG_COMPUTE_F64;
    return ig__is_float(t) ? IG_COMPUTE_F32 : IG_COMPUTE_I64;
}
/* The dtype that has the compute type's elements. */
static inline ig_dtype ig__dtype_of(ig__compute c)
{
    static const ig_dtype of[IG_COMPUTE_COUNT] = {IG_DTYPE_F32, IG_DTYPE_F64, IG_DTYPE_I64};
    return of[c];
}

/* The dtype that two operands meet in, or IG_DTYPE_COUNT where meeting would lose: see
 * docs/tensors.md for the table. */
ig_dtype ig__promote(ig_dtype a, ig_dtype b);

/* n elements from src (every `stride` elements of dtype `from`) to the compute type, and back
 * (saturating from floats to integers, NaN to 0). */
void ig__load(void *dst, ig__compute to, const void *src, ig_dtype from, int64_t stride,
              int64_t n);
void ig__store(void *dst, ig_dtype to, int64_t stride, const void *src, ig__compute from,
               int64_t n);

#endif
