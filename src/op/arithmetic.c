/* Elementwise rows of one, two and three operands with plain arithmetic: add to where, comparison and
 * logic, scale, shift, clamp; fill and cast.
 *
 * Gradients never multiply by a mask: where a branch was not taken, the gradient is chosen to be 0
 * (0 times infinity would be NaN). Operands that tie share.
 */
#include "op/apply.h"
#include "op/op_int.h"
#include "op/pointwise.h"
#include "op/span.h"

#include "ingot/op.h"

#include <math.h>
#include <string.h>

/* ---- shape rules --------------------------------------------------------------------------------- */

/* Operands of one dtype that broadcast; the result has that dtype. */
static ig_status met_shape(ig__type *out, const ig__type *const *in, int n_in,
                           const char *op, ig_error *err)
{
    for (int i = 0; i < n_in; i++)
        if (in[i]->layout != IG_LAYOUT_ROWS || in[i]->dtype != in[0]->dtype)
            return ig__fail_shapes(err, op, "wants operands of one type", in[0], in[i]);
    IG_TRY(ig__broadcast(out, in, n_in, op, err));
    out->dtype = in[0]->dtype;
    return IG_OK;
}

#define MET_SHAPE(name)                                                                    \
    static ig_status name##_shape(ig__type *out, const ig__type *const *in, int n_in,      \
                                  const void *attrs, ig_error *err)                        \
    {                                                                                      \
        (void)attrs;                                                                       \
        return met_shape(out, in, n_in, #name, err);                                       \
    }
MET_SHAPE(scale)
MET_SHAPE(add_scalar)
MET_SHAPE(clamp)
MET_SHAPE(add)
MET_SHAPE(sub)
MET_SHAPE(mul)
MET_SHAPE(maximum)
MET_SHAPE(minimum)

/* The same for floats alone. */
static ig_status float_shape(ig__type *out, const ig__type *const *in, int n_in,
                             const char *op, ig_error *err)
{
    if (!ig__is_float(in[0]->dtype))
        return ig__fail_shapes(err, op, "wants floats: ig_cast first", in[0],
                               n_in > 1 ? in[1] : NULL);
    return met_shape(out, in, n_in, op, err);
}
static ig_status div_shape(ig__type *out, const ig__type *const *in, int n_in,
                           const void *attrs, ig_error *err)
{
    (void)attrs;
    return float_shape(out, in, n_in, "div", err);
}
static ig_status pow_shape(ig__type *out, const ig__type *const *in, int n_in,
                           const void *attrs, ig_error *err)
{
    (void)attrs;
    return float_shape(out, in, n_in, "pow", err);
}

#define TRUTH_SHAPE(name)                                                                  \
    static ig_status name##_shape(ig__type *out, const ig__type *const *in, int n_in,      \
                                  const void *attrs, ig_error *err)                        \
    {                                                                                      \
        (void)attrs;                                                                       \
        IG_TRY(met_shape(out, in, n_in, #name, err));                                      \
        out->dtype = IG_DTYPE_BOOL;                                                        \
        return IG_OK;                                                                      \
    }
TRUTH_SHAPE(equal)
TRUTH_SHAPE(not_equal)
TRUTH_SHAPE(less)
TRUTH_SHAPE(less_equal)
TRUTH_SHAPE(logical_and)
TRUTH_SHAPE(logical_or)
TRUTH_SHAPE(logical_xor)
TRUTH_SHAPE(logical_not)

static ig_status where_shape(ig__type *out, const ig__type *const *in, int n_in,
                             const void *attrs, ig_error *err)
{
    (void)attrs;
    if (in[0]->dtype != IG_DTYPE_BOOL)
        return ig__fail_shapes(err, "where", "wants a bool condition", in[0], NULL);
    IG_TRY(ig__broadcast(out, in, n_in, "where", err));
    if (in[1]->dtype != in[2]->dtype)
        return ig__fail_shapes(err, "where", "wants operands of one type", in[1], in[2]);
    out->dtype = in[1]->dtype;
    return IG_OK;
}

/* ---- gradients ------------------------------------------------------------------------------------ */

static void scale_gradient(ig__gradient *g)
{
    g->d_in[0] = ig_scale(g->d_out[0], ((const ig__scale_attrs *)g->attrs)->factor);
}
static void same_gradient(ig__gradient *g)
{
    for (int i = 0; i < g->n_in; i++)
        g->d_in[i] = g->d_out[0];
}
static void sub_gradient(ig__gradient *g)
{
    g->d_in[0] = g->d_out[0];
    if (ig__wants(g, 1))
        g->d_in[1] = ig_neg(g->d_out[0]);
}
static void mul_gradient(ig__gradient *g)
{
    for (int i = 0; i < 2; i++)
        if (ig__wants(g, i))
            g->d_in[i] = ig_mul(g->d_out[0], g->in[1 - i]);
}
static void div_gradient(ig__gradient *g)
{
    ig_tensor *d = ig_div(g->d_out[0], g->in[1]);
    if (ig__wants(g, 0))
        g->d_in[0] = d;
    if (ig__wants(g, 1))
        g->d_in[1] = ig_neg(ig_mul(d, ig_div(g->in[0], g->in[1])));
}

static ig_tensor *like(ig_tensor *x, double value)
{
    return x ? ig_tensor_scalar(x->ctx, x->type.dtype, value) : NULL;
}

/* Where `taken`, the gradient; half of it where the operands tie; else 0. */
static void choose_gradient(ig__gradient *g, bool largest)
{
    ig_tensor *a = g->in[0], *b = g->in[1];
    ig_tensor *zero = like(a, 0), *half = ig_scale(g->d_out[0], 0.5);
    ig_tensor *first = largest ? ig_less(b, a) : ig_less(a, b);
    ig_tensor *tie = ig_equal(a, b);
    if (ig__wants(g, 0))
        g->d_in[0] = ig_where(tie, half, ig_where(first, g->d_out[0], zero));
    if (ig__wants(g, 1))
        g->d_in[1] = ig_where(tie, half, ig_where(first, zero, g->d_out[0]));
}
static void maximum_gradient(ig__gradient *g)
{
    choose_gradient(g, true);
}
static void minimum_gradient(ig__gradient *g)
{
    choose_gradient(g, false);
}

/* d a^b / da = b a^(b-1), 0 where b is 0; d/db = a^b log a, 0 where a is 0 (the limit for b > 0). */
static void pow_gradient(ig__gradient *g)
{
    ig_tensor *a = g->in[0], *b = g->in[1], *zero = like(b, 0), *one = like(b, 1);
    if (ig__wants(g, 0)) {
        ig_tensor *flat = ig_equal(b, zero);
        ig_tensor *slope = ig_mul(b, ig_pow(a, ig_sub(ig_where(flat, one, b), one)));
        g->d_in[0] = ig_where(flat, zero, ig_mul(g->d_out[0], slope));
    }
    if (ig__wants(g, 1)) {
        ig_tensor *none = ig_equal(a, zero);
        ig_tensor *safe = ig_where(none, one, a);
        g->d_in[1] = ig_where(none, zero,
                              ig_mul(g->d_out[0], ig_mul(ig_pow(safe, b), ig_log(safe))));
    }
}

static void where_gradient(ig__gradient *g)
{
    ig_tensor *zero = like(g->d_out[0], 0);
    if (ig__wants(g, 1))
        g->d_in[1] = ig_where(g->in[0], g->d_out[0], zero);
    if (ig__wants(g, 2))
        g->d_in[2] = ig_where(g->in[0], zero, g->d_out[0]);
}

static void clamp_gradient(ig__gradient *g)
{
    const ig__clamp_attrs *a = g->attrs;
    ig_tensor *x = g->in[0];
    ig_tensor *inside = ig_logical_and(ig_less_equal(like(x, a->low), x),
                                       ig_less_equal(x, like(x, a->high)));
    g->d_in[0] = ig_where(inside, g->d_out[0], like(x, 0));
}

/* ---- rows of tokens -------------------------------------------------------------------------------- */

/* Elements of tiles [begin, end): rows are contiguous. */
static void span_of(const ig__step_args *s, int64_t begin, int64_t end, int64_t *at,
                    int64_t *n)
{
    *at = ig__tile_row(begin, s->out.rows) * s->out.width;
    *n = ig__tile_row(end, s->out.rows) * s->out.width - *at;
}

static void scale_run(const ig__step_args *s, int64_t begin, int64_t end)
{
    const ig__scale_attrs *attrs = s->attrs;
    int64_t at, n;
    span_of(s, begin, end, &at, &n);
    s->k->scale((float *)s->out.data + at, (const float *)s->in[0].data + at,
                (float)attrs->factor, n);
}

static void add_run(const ig__step_args *s, int64_t begin, int64_t end)
{
    int64_t at, n;
    span_of(s, begin, end, &at, &n);
    s->k->add((float *)s->out.data + at, (const float *)s->in[0].data + at,
              (const float *)s->in[1].data + at, n);
}

static void mul_run(const ig__step_args *s, int64_t begin, int64_t end)
{
    int64_t at, n;
    span_of(s, begin, end, &at, &n);
    s->k->mul((float *)s->out.data + at, (const float *)s->in[0].data + at,
              (const float *)s->in[1].data + at, n);
}

/* ---- rows ------------------------------------------------------------------------------------------ */

const ig__op ig__op_scale = {.name = "scale",
                             .n_in_least = 1,
                             .n_in_most = 1,
                             .attrs_bytes = sizeof(ig__scale_attrs),
                             .walk = IG_WALK_ROWS,
                             .shape = scale_shape,
                             .run = scale_run,
                             .span = IG_SPAN_OF_ALL(scale),
                             .gradient = scale_gradient};
const ig__op ig__op_add_scalar = {.name = "add_scalar",
                                  .n_in_least = 1,
                                  .n_in_most = 1,
                                  .attrs_bytes = sizeof(ig__scale_attrs),
                                  .shape = add_scalar_shape,
                                  .span = IG_SPAN_OF_ALL(shift),
                                  .gradient = same_gradient};
const ig__op ig__op_clamp = {.name = "clamp",
                             .n_in_least = 1,
                             .n_in_most = 1,
                             .attrs_bytes = sizeof(ig__clamp_attrs),
                             .shape = clamp_shape,
                             .span = IG_SPAN_OF_ALL(clamp),
                             .gradient = clamp_gradient,
                             .needs = {IG_IN(0)}};
const ig__op ig__op_add = {.name = "add",
                           .n_in_least = 2,
                           .n_in_most = 2,
                           .walk = IG_WALK_ROWS,
                           .shape = add_shape,
                           .run = add_run,
                           .span = IG_SPAN_OF_ALL(add),
                           .gradient = same_gradient};
const ig__op ig__op_sub = {.name = "sub",
                           .n_in_least = 2,
                           .n_in_most = 2,
                           .shape = sub_shape,
                           .span = IG_SPAN_OF_ALL(sub),
                           .gradient = sub_gradient};
const ig__op ig__op_mul = {.name = "mul",
                           .n_in_least = 2,
                           .n_in_most = 2,
                           .walk = IG_WALK_ROWS,
                           .shape = mul_shape,
                           .run = mul_run,
                           .span = IG_SPAN_OF_ALL(mul),
                           .gradient = mul_gradient,
                           .needs = {IG_IN(1), IG_IN(0)}};
const ig__op ig__op_div = {.name = "div",
                           .n_in_least = 2,
                           .n_in_most = 2,
                           .shape = div_shape,
                           .span = IG_SPAN_OF(div),
                           .gradient = div_gradient,
                           .needs = {IG_IN(1), IG_IN(0) | IG_IN(1)}};
const ig__op ig__op_maximum = {.name = "maximum",
                               .n_in_least = 2,
                               .n_in_most = 2,
                               .shape = maximum_shape,
                               .span = IG_SPAN_OF_ALL(maximum),
                               .gradient = maximum_gradient,
                               .needs = {IG_IN(0) | IG_IN(1), IG_IN(0) | IG_IN(1)}};
const ig__op ig__op_minimum = {.name = "minimum",
                               .n_in_least = 2,
                               .n_in_most = 2,
                               .shape = minimum_shape,
                               .span = IG_SPAN_OF_ALL(minimum),
                               .gradient = minimum_gradient,
                               .needs = {IG_IN(0) | IG_IN(1), IG_IN(0) | IG_IN(1)}};
const ig__op ig__op_pow = {.name = "pow",
                           .n_in_least = 2,
                           .n_in_most = 2,
                           .shape = pow_shape,
                           .span = IG_SPAN_OF(pow),
                           .gradient = pow_gradient,
                           .needs = {IG_IN(0) | IG_IN(1), IG_IN(0) | IG_IN(1)},
                           .precision = IG_PRECISION_HIGH};
const ig__op ig__op_where = {.name = "where",
                             .n_in_least = 3,
                             .n_in_most = 3,
                             .shape = where_shape,
                             .span = IG_SPAN_OF_ALL(where),
                             .gradient = where_gradient,
                             .needs = {0, IG_IN(0), IG_IN(0)}};

#define TRUTH_ROW(op, loop, n)                                                             \
    const ig__op ig__op_##op = {.name = #op,                                               \
                                .n_in_least = n,                                           \
                                .n_in_most = n,                                            \
                                .shape = op##_shape,                                       \
                                .span = IG_SPAN_OF_ALL(loop)};
TRUTH_ROW(equal, equal, 2)
TRUTH_ROW(not_equal, not_equal, 2)
TRUTH_ROW(less, less, 2)
TRUTH_ROW(less_equal, less_equal, 2)
TRUTH_ROW(logical_and, and, 2)
TRUTH_ROW(logical_or, or, 2)
TRUTH_ROW(logical_xor, xor, 2)
TRUTH_ROW(logical_not, not, 1)

/* ---- fill, cast ------------------------------------------------------------------------------------ */

static ig_status fill_shape(ig__type *out, const ig__type *const *in, int n_in,
                            const void *attrs, ig_error *err)
{
    (void)in, (void)n_in, (void)err;
    const ig__fill_attrs *a = attrs;
    *out = (ig__type){.dtype = a->dtype, .n_dims = a->n_dims};
    for (int i = 0; i < a->n_dims; i++)
        out->dims[i] = ig__dim_of(a->dims[i]);
    return IG_OK;
}

const ig__op ig__op_fill = {.name = "fill",
                            .attrs_bytes = sizeof(ig__fill_attrs),
                            .shape = fill_shape,
                            .span = IG_SPAN_OF_ALL(fill)};

static ig_status cast_shape(ig__type *out, const ig__type *const *in, int n_in,
                            const void *attrs, ig_error *err)
{
    (void)n_in;
    if (in[0]->layout != IG_LAYOUT_ROWS || !ig__is_plain(in[0]->dtype))
        return ig__fail_shapes(err, "cast", "wants a plain tensor", in[0], NULL);
    *out = *in[0];
    out->dtype = ((const ig__cast_attrs *)attrs)->dtype;
    return IG_OK;
}

static void cast_gradient(ig__gradient *g)
{
    g->d_in[0] = g->d_out[0]; /* the walk casts */
}

const ig__op ig__op_cast = {.name = "cast",
                            .n_in_least = 1,
                            .n_in_most = 1,
                            .attrs_bytes = sizeof(ig__cast_attrs),
                            .shape = cast_shape,
                            .eval = ig__copy_eval,
                            .room = ig__pointwise_room,
                            .gradient = cast_gradient};

/* A contiguous copy, and a write in place: to the shape of the attributes, which the operand must have or
 * stretch to. */
static ig_status copy_shape(ig__type *out, const ig__type *const *in, int n_in,
                            const void *attrs, ig_error *err)
{
    ig__type met;
    fill_shape(out, in, n_in, attrs, err);
    const ig__type *const both[2] = {in[0], out};
    if (in[0]->layout != IG_LAYOUT_ROWS ||
        ig__broadcast(&met, both, 2, "copy", NULL) != IG_OK || !ig__dims_same(&met, out))
        return ig__fail_shapes(err, "copy", "does not stretch to the shape", in[0], out);
    return IG_OK;
}

const ig__op ig__op_copy = {.name = "copy",
                            .n_in_least = 1,
                            .n_in_most = 1,
                            .attrs_bytes = sizeof(ig__fill_attrs),
                            .shape = copy_shape,
                            .eval = ig__copy_eval,
                            .room = ig__pointwise_room,
                            .gradient = cast_gradient};

/* ---- public ---------------------------------------------------------------------------------------- */

ig_tensor *ig__cast(ig_tensor *x, ig_dtype dtype)
{
    if (!x || x->type.dtype == dtype)
        return x;
    if (!ig__is_plain(dtype))
        return ig__fail_on(x->ctx, IG_ERR_ARGUMENT, "cast: no tensors of type %s",
                           ig_dtype_name(dtype));
    const ig__cast_attrs attrs = {.dtype = dtype};
    return ig__apply1(&ig__op_cast, &attrs, x);
}
ig_tensor *ig_cast(ig_tensor *x, ig_dtype dtype)
{
    return ig__cast(x, dtype);
}

#define PUBLIC_MET(name)                                                                   \
    ig_tensor *ig_##name(ig_tensor *x, ig_tensor *y)                                       \
    {                                                                                      \
        return ig__apply_met(&ig__op_##name, NULL, x, y);                                  \
    }
PUBLIC_MET(add)
PUBLIC_MET(sub)
PUBLIC_MET(mul)
PUBLIC_MET(div)
PUBLIC_MET(maximum)
PUBLIC_MET(minimum)
PUBLIC_MET(pow)
PUBLIC_MET(equal)
PUBLIC_MET(not_equal)
PUBLIC_MET(less)
PUBLIC_MET(less_equal)
PUBLIC_MET(logical_and)
PUBLIC_MET(logical_or)
PUBLIC_MET(logical_xor)

ig_tensor *ig_greater(ig_tensor *x, ig_tensor *y)
{
    return ig_less(y, x);
}
ig_tensor *ig_greater_equal(ig_tensor *x, ig_tensor *y)
{
    return ig_less_equal(y, x);
}
ig_tensor *ig_logical_not(ig_tensor *x)
{
    return ig__apply1(&ig__op_logical_not, NULL, x);
}

ig_tensor *ig_where(ig_tensor *condition, ig_tensor *x, ig_tensor *y)
{
    if (!condition || !ig__meet("where", &x, &y))
        return NULL;
    ig_tensor *const in[3] = {condition, x, y};
    return ig__apply(NULL, &ig__op_where, NULL, in, 3);
}

ig_tensor *ig_scale(ig_tensor *x, double factor)
{
    const ig__scale_attrs attrs = {.factor = factor};
    return ig__apply1(&ig__op_scale, &attrs, x);
}
ig_tensor *ig_add_scalar(ig_tensor *x, double value)
{
    const ig__scale_attrs attrs = {.factor = value};
    return ig__apply1(&ig__op_add_scalar, &attrs, x);
}
ig_tensor *ig_clamp(ig_tensor *x, double low, double high)
{
    const ig__clamp_attrs attrs = {.low = low, .high = high};
    return ig__apply1(&ig__op_clamp, &attrs, x);
}

static bool fill_attrs(ig__fill_attrs *a, ig_context *ctx, const char *op, ig_dtype dtype,
                       int n_dims, const int64_t *dims, double value)
{
    ig__type type;
    if (!ig__type_of(&type, ctx, op, dtype, n_dims, dims))
        return false;
    memset(a, 0, sizeof *a);
    a->value = value;
    a->dtype = dtype;
    a->n_dims = n_dims;
    for (int i = 0; i < n_dims; i++)
        a->dims[i] = dims[i];
    return true;
}

ig_tensor *ig_full(ig_context *ctx, ig_dtype dtype, int n_dims, const int64_t *dims,
                   double value)
{
    ig__fill_attrs a;
    if (!fill_attrs(&a, ctx, "full", dtype, n_dims, dims, value))
        return NULL;
    return ig__apply(ctx, &ig__op_fill, &a, NULL, 0);
}
ig_tensor *ig_zeros(ig_context *ctx, ig_dtype dtype, int n_dims, const int64_t *dims)
{
    return ig_full(ctx, dtype, n_dims, dims, 0);
}
ig_tensor *ig_ones(ig_context *ctx, ig_dtype dtype, int n_dims, const int64_t *dims)
{
    return ig_full(ctx, dtype, n_dims, dims, 1);
}

static ig__fill_attrs attrs_of(const ig_tensor *x, double value)
{
    ig__fill_attrs a;
    memset(&a, 0, sizeof a);
    a.value = value;
    a.dtype = x->type.dtype;
    a.n_dims = x->type.n_dims;
    for (int i = 0; i < a.n_dims; i++)
        a.dims[i] = x->type.dims[i].plus;
    return a;
}

ig_tensor *ig_full_like(ig_tensor *x, double value)
{
    if (!x)
        return NULL;
    const ig__fill_attrs a = attrs_of(x, value);
    return ig__apply(x->ctx, &ig__op_fill, &a, NULL, 0);
}

ig_tensor *ig_copy(ig_tensor *x)
{
    if (!x)
        return NULL;
    const ig__fill_attrs a = attrs_of(x, 0);
    return ig__apply1(&ig__op_copy, &a, x);
}
ig_tensor *ig_contiguous(ig_tensor *x)
{
    return x && !x->contiguous ? ig_copy(x) : x;
}

ig_tensor *ig_fill(ig_tensor *x, double value)
{
    if (!x)
        return NULL;
    const ig__fill_attrs a = attrs_of(x, value);
    return ig__apply_into(&ig__op_fill, &a, NULL, 0, x);
}
ig_tensor *ig_assign(ig_tensor *x, ig_tensor *value)
{
    if (!x || !value)
        return NULL;
    const ig__fill_attrs a = attrs_of(x, 0);
    return ig__apply_into(&ig__op_copy, &a, &value, 1, x);
}

#define PUBLIC_INTO(call, name)                                                            \
    ig_tensor *ig_##call(ig_tensor *x, ig_tensor *y)                                       \
    {                                                                                      \
        ig_tensor *const in[2] = {x, x ? ig__cast(y, x->type.dtype) : NULL};               \
        return ig__apply_into(&ig__op_##name, NULL, in, 2, x);                             \
    }
PUBLIC_INTO(add_into, add)
PUBLIC_INTO(sub_into, sub)
PUBLIC_INTO(mul_into, mul)
PUBLIC_INTO(div_into, div)

ig_tensor *ig_scale_into(ig_tensor *x, double factor)
{
    const ig__scale_attrs attrs = {.factor = factor};
    return ig__apply_into(&ig__op_scale, &attrs, &x, 1, x);
}
