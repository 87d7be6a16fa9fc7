/* Reductions: sum, mean, product, largest, smallest, variance.
 *
 * ORDER. The elements of an output are taken in logical order, in spans of IG_REDUCE_SPAN; element i of a
 * span goes to accumulator i mod 16; these are joined by halves, and the spans' results from the first to
 * the last. All in double (integers in i64). So the bits depend on the values alone, not on
 * strides, and not on threads: a unit is some whole spans.
 *
 *   phase 0   partial[o][part]     or, with one part, the output
 *   phase 1   output[o] = join of the parts
 * Variance takes four: the mean in double first, then squares of deviations from it.
 */
#include "op/reduce.h"

#include "ingot/op.h"
#include "op/apply.h"
#include "op/op_int.h"

#include <math.h>
#include <string.h>

/* ---- splitting ------------------------------------------------------------------------------------ */

static void push_dim(ig__walk_over *w, int64_t size, int64_t stride)
{
    if (size == 1)
        return;
    int n = w->n_dims;
    if (n && w->strides[n - 1] == stride * size) {
        w->dims[n - 1] *= size;
        w->strides[n - 1] = stride;
        return;
    }
    w->dims[n] = size;
    w->strides[n] = stride;
    w->n_dims++;
}

static void finish_walk(ig__walk_over *w)
{
    if (w->n_dims)
        return;
    w->n_dims = 1;
    w->dims[0] = w->strides[0] = 1;
}

void ig__reduction_make(ig__reduction *r, const ig__array *x, uint32_t mask)
{
    r->kept.n_dims = r->reduced.n_dims = 0;
    r->kept.data = r->reduced.data = x->data;
    r->kept.t = r->reduced.t = NULL;
    r->kept.dtype = r->reduced.dtype = x->type->dtype;
    r->n = r->n_out = 1;
    for (int d = 0; d < x->type->n_dims; d++) {
        const int64_t size = x->type->dims[d].plus;
        const bool is_reduced = mask >> d & 1;
        push_dim(is_reduced ? &r->reduced : &r->kept, size, x->strides[d]);
        *(is_reduced ? &r->n : &r->n_out) *= size;
    }
    finish_walk(&r->kept);
    finish_walk(&r->reduced);
    r->n_parts = r->n > IG_REDUCE_SPAN ? (r->n + IG_REDUCE_SPAN - 1) / IG_REDUCE_SPAN : 1;
}

ig__walk_over ig__reduction_elements(const ig__reduction *r, int64_t o)
{
    ig__walk_over w = r->reduced;
    int64_t offset = 0;
    for (int d = r->kept.n_dims; d-- > 0;) {
        offset += o % r->kept.dims[d] * r->kept.strides[d];
        o /= r->kept.dims[d];
    }
    w.data += offset * (int64_t)ig_dtype_block_bytes(w.dtype);
    return w;
}

/* ---- one span --------------------------------------------------------------------------------------- */

typedef enum fold { RULE_SUM, RULE_PROD, RULE_MAX, RULE_MIN, RULE_CENTERED } fold;

void ig__lanes_add(double lanes[IG_LANES], const double *x, int64_t n)
{
    int64_t i = 0;
    for (; i + IG_LANES <= n; i += IG_LANES)
        for (int k = 0; k < IG_LANES; k++)
            lanes[k] += x[i + k];
    for (int k = 0; i + k < n; k++)
        lanes[k] += x[i + k];
}

double ig__lanes_join(const double lanes[IG_LANES])
{
    double sum[IG_LANES];
    memcpy(sum, lanes, sizeof sum);
    for (int half = IG_LANES / 2; half; half /= 2)
        for (int k = 0; k < half; k++)
            sum[k] += sum[k + half];
    return sum[0];
}

static double larger(double a, double b)
{
    return a > b || a != a ? a : b;
}
static double smaller(double a, double b)
{
    return a < b || a != a ? a : b;
}

static double start_of(fold rule)
{
    switch (rule) {
    case RULE_PROD:
        return 1;
    case RULE_MAX:
        return -(double)INFINITY;
    case RULE_MIN:
        return (double)INFINITY;
    default:
        return 0;
    }
}

static double join(fold rule, double a, double b)
{
    switch (rule) {
    case RULE_PROD:
        return a * b;
    case RULE_MAX:
        return larger(a, b);
    case RULE_MIN:
        return smaller(a, b);
    default:
        return a + b;
    }
}

/* The kernel's name of a rule that is a sum; false: it is none. */
static bool kernel_of(ig__reduce *out, fold rule)
{
    *out = rule == RULE_CENTERED ? IG__REDUCE_SUM_CENTERED : IG__REDUCE_SUM;
    return rule == RULE_SUM || rule == RULE_CENTERED;
}

static double reduce_span(const ig__eval *e, const ig__walk_over *w, int64_t first,
                          int64_t n, fold rule, double center)
{
    double *chunk = e->scratch;
    ig__reduce op;
    if (kernel_of(&op, rule) && w->dtype == IG_DTYPE_F32 && w->n_dims == 1)
        return e->t->reduce(op,
                            (const float *)(const void *)w->data + first * w->strides[0], n,
                            w->strides[0], center);
    if ((rule == RULE_MAX || rule == RULE_MIN) && n && w->dtype == IG_DTYPE_F32 &&
        w->n_dims == 1) {
        const float *x = (const float *)(const void *)w->data + first * w->strides[0];
        return (double)(rule == RULE_MAX ? e->t->largest : e->t->smallest)(x, n,
                                                                           w->strides[0]);
    }
    double lanes[IG_LANES] = {0}, value = start_of(rule);
    for (int64_t at = 0; at < n; at += IG_CHUNK) {
        const int64_t m = n - at < IG_CHUNK ? n - at : IG_CHUNK;
        ig__walk_load(w, first + at, m, chunk, IG_COMPUTE_F64);
        if (rule == RULE_CENTERED)
            for (int64_t i = 0; i < m; i++)
                chunk[i] = (chunk[i] - center) * (chunk[i] - center);
        if (rule == RULE_SUM || rule == RULE_CENTERED)
            ig__lanes_add(lanes, chunk, m);
        else
            for (int64_t i = 0; i < m; i++)
                value = join(rule, value, chunk[i]);
    }
    return rule == RULE_SUM || rule == RULE_CENTERED ? ig__lanes_join(lanes) : value;
}

static int64_t reduce_span_i64(const ig__walk_over *w, int64_t first, int64_t n, fold rule,
                               int64_t *chunk)
{
    uint64_t sum = rule == RULE_PROD ? 1 : 0;
    int64_t best = rule == RULE_MAX ? INT64_MIN : INT64_MAX;
    for (int64_t at = 0; at < n; at += IG_CHUNK) {
        const int64_t m = n - at < IG_CHUNK ? n - at : IG_CHUNK;
        ig__walk_load(w, first + at, m, chunk, IG_COMPUTE_I64);
        for (int64_t i = 0; i < m; i++) {
            if (rule == RULE_SUM)
                sum += (uint64_t)chunk[i];
            else if (rule == RULE_PROD)
                sum *= (uint64_t)chunk[i];
            else if (rule == RULE_MAX ? chunk[i] > best : chunk[i] < best)
                best = chunk[i];
        }
    }
    return rule == RULE_SUM || rule == RULE_PROD ? (int64_t)sum : best;
}

/* ---- walking ---------------------------------------------------------------------------------------- */

/* Are sums over f32 columns: each output's elements lie apart, and outputs side by side? */
static bool are_columns(const ig__reduction *r, fold rule)
{
    return rule == RULE_SUM && r->kept.dtype == IG_DTYPE_F32 && r->reduced.n_dims == 1 &&
           r->reduced.strides[0] != 1 && r->n > 1 && r->n_parts == 1 &&
           r->kept.strides[r->kept.n_dims - 1] == 1;
}

enum { COLUMNS = 64 };

/* Units of phase 0: whole (output, part) pairs, about IG_REDUCE_SPAN elements. */
static int64_t pairs_a_unit(const ig__reduction *r)
{
    const int64_t pairs = r->n ? IG_REDUCE_SPAN / r->n : IG_REDUCE_SPAN;
    const int64_t least = are_columns(r, RULE_SUM) ? COLUMNS : 1;
    return pairs > least ? pairs : least;
}

static int64_t reduce_units(const ig__eval *e)
{
    const ig__reduce_attrs *a = e->attrs;
    ig__reduction r;
    ig__reduction_make(&r, &e->in[0], a->mask);
    if (e->phase & 1)
        return r.n_parts > 1 ? 1 : 0;
    const int64_t g = pairs_a_unit(&r);
    return (r.n_out * r.n_parts + g - 1) / g;
}

static double reduce_work(const ig__eval *e)
{
    return (double)e->in[0].n / 2;
}

/* Shared: partial [n_out][n_parts] when there is more than one part, and means [n_out] for var. */
static ig__room reduce_room(const ig__eval *e)
{
    const ig__reduce_attrs *a = e->attrs;
    ig__reduction r;
    ig__reduction_make(&r, &e->in[0], a->mask);
    return (ig__room){.each = COLUMNS * 8 + IG__COLUMN_SCRATCH + IG_CHUNK * 8,
                      .shared = (size_t)r.n_out * (size_t)(r.n_parts + 1) * 8};
}

static void store(const ig__eval *e, int64_t o, const void *value, ig__compute compute)
{
    const ig_dtype dtype = e->out[0].type->dtype;
    ig__walk_over out; /* in place the output may have strides */
    ig__walk_make(&out, &e->out[0], e->out[0].type);
    (void)dtype;
    ig__walk_store(&out, o, 1, value, compute);
}

typedef double finish_fn(double value, int64_t n);

static double finish_as_is(double value, int64_t n)
{
    (void)n;
    return value;
}
static double finish_mean(double value, int64_t n)
{
    return value / (double)n;
}

static void sum_columns(const ig__eval *e, const ig__reduction *r, int64_t begin,
                        int64_t end, finish_fn *finish)
{
    const int64_t g = pairs_a_unit(r), width = r->kept.dims[r->kept.n_dims - 1];
    const int64_t last = end * g < r->n_out ? end * g : r->n_out;
    double *sums = e->scratch, *scratch = sums + COLUMNS;
    for (int64_t o = begin * g; o < last;) {
        int64_t n = width - o % width;
        n = n < last - o ? n : last - o;
        n = n < COLUMNS ? n : COLUMNS;
        const ig__walk_over w = ig__reduction_elements(r, o);
        e->t->reduce_columns(IG__REDUCE_SUM, sums, (const float *)(const void *)w.data,
                             r->n, w.strides[0], n, NULL, scratch);
        for (int64_t i = 0; i < n; i++)
            sums[i] = finish(sums[i], r->n);
        ig__walk_over out;
        ig__walk_make(&out, &e->out[0], e->out[0].type);
        ig__walk_store(&out, o, n, sums, IG_COMPUTE_F64);
        o += n;
    }
}

static void reduce_eval(const ig__eval *e, int64_t begin, int64_t end, fold rule,
                        finish_fn *finish)
{
    const ig__reduce_attrs *a = e->attrs;
    const bool whole = !ig__is_float(e->in[0].type->dtype);
    const ig__compute compute = whole ? IG_COMPUTE_I64 : IG_COMPUTE_F64;
    ig__reduction r;
    ig__reduction_make(&r, &e->in[0], a->mask);
    union {
        double real;
        int64_t whole;
    } *partial = e->shared, value;
    if (e->phase == 0 && are_columns(&r, rule)) {
        sum_columns(e, &r, begin, end, finish);
        return;
    }
    if (e->phase == 0) {
        const int64_t g = pairs_a_unit(&r), pairs = r.n_out * r.n_parts;
        for (int64_t i = begin * g; i < end * g && i < pairs; i++) {
            const int64_t part = i % r.n_parts, first = part * IG_REDUCE_SPAN;
            const int64_t n = r.n - first < IG_REDUCE_SPAN ? r.n - first : IG_REDUCE_SPAN;
            const ig__walk_over w = ig__reduction_elements(&r, i / r.n_parts);
            if (whole)
                value.whole = reduce_span_i64(&w, first, n, rule, e->scratch);
            else
                value.real = reduce_span(e, &w, first, n, rule, 0);
            if (r.n_parts > 1) {
                partial[i] = value;
                continue;
            }
            if (!whole)
                value.real = finish(value.real, r.n);
            store(e, i, &value, compute);
        }
        return;
    }
    for (int64_t o = 0; o < r.n_out; o++) {
        value = partial[o * r.n_parts];
        for (int64_t part = 1; part < r.n_parts; part++) {
            const int64_t i = o * r.n_parts + part;
            if (!whole)
                value.real = join(rule, value.real, partial[i].real);
            else if (rule == RULE_SUM)
                value.whole = (int64_t)((uint64_t)value.whole + (uint64_t)partial[i].whole);
            else if (rule == RULE_PROD)
                value.whole = (int64_t)((uint64_t)value.whole * (uint64_t)partial[i].whole);
            else if (rule == RULE_MAX ? partial[i].whole > value.whole
                                      : partial[i].whole < value.whole)
                value.whole = partial[i].whole;
        }
        if (!whole)
            value.real = finish(value.real, r.n);
        store(e, o, &value, compute);
    }
}

static void sum_eval(const ig__eval *e, int64_t begin, int64_t end)
{
    reduce_eval(e, begin, end, RULE_SUM, finish_as_is);
}
static void mean_eval(const ig__eval *e, int64_t begin, int64_t end)
{
    reduce_eval(e, begin, end, RULE_SUM, finish_mean);
}
static void prod_eval(const ig__eval *e, int64_t begin, int64_t end)
{
    reduce_eval(e, begin, end, RULE_PROD, finish_as_is);
}
static void max_eval(const ig__eval *e, int64_t begin, int64_t end)
{
    reduce_eval(e, begin, end, RULE_MAX, finish_as_is);
}
static void min_eval(const ig__eval *e, int64_t begin, int64_t end)
{
    reduce_eval(e, begin, end, RULE_MIN, finish_as_is);
}

/* Phases 0 and 1: means; 2 and 3: squares of deviations. With one part phases 1 and 3 are empty. */
static void var_eval(const ig__eval *e, int64_t begin, int64_t end)
{
    const ig__reduce_attrs *a = e->attrs;
    ig__reduction r;
    ig__reduction_make(&r, &e->in[0], a->mask);
    double *partial = e->shared, *means = partial + r.n_out * r.n_parts;
    const double left = (double)(r.n - a->correction);
    const bool last = e->phase >= 2;
    if (e->phase & 1) {
        for (int64_t o = 0; o < r.n_out; o++) {
            double sum = 0;
            for (int64_t part = 0; part < r.n_parts; part++)
                sum += partial[o * r.n_parts + part];
            const double value = left > 0 ? sum / left : (double)NAN;
            if (last)
                store(e, o, &value, IG_COMPUTE_F64);
            else
                means[o] = sum / (double)r.n;
        }
        return;
    }
    const int64_t g = pairs_a_unit(&r), pairs = r.n_out * r.n_parts;
    for (int64_t i = begin * g; i < end * g && i < pairs; i++) {
        const int64_t o = i / r.n_parts, first = i % r.n_parts * IG_REDUCE_SPAN;
        const int64_t n = r.n - first < IG_REDUCE_SPAN ? r.n - first : IG_REDUCE_SPAN;
        const ig__walk_over w = ig__reduction_elements(&r, o);
        const double sum = reduce_span(e, &w, first, n, last ? RULE_CENTERED : RULE_SUM,
                                       last ? means[o] : 0);
        if (r.n_parts > 1) {
            partial[i] = sum;
        } else if (last) {
            const double value = left > 0 ? sum / left : (double)NAN;
            store(e, o, &value, IG_COMPUTE_F64);
        } else {
            means[o] = sum / (double)r.n;
        }
    }
}

/* ---- shape rules -------------------------------------------------------------------------------------- */

static void reduced_dims(ig__type *out, const ig__type *in, const ig__reduce_attrs *a)
{
    out->layout = IG_LAYOUT_ROWS;
    out->acts = (ig__acts)0; /* of packed activations only */
    out->dtype = in->dtype;
    out->n_dims = 0;
    for (int d = 0; d < in->n_dims; d++)
        if (!(a->mask >> d & 1))
            out->dims[out->n_dims++] = in->dims[d];
        else if (a->keep)
            out->dims[out->n_dims++] = ig__dim_of(1);
}

static ig_status sum_shape(ig__type *out, const ig__type *const *in, int n_in,
                           const void *attrs, ig_error *err)
{
    (void)n_in, (void)err;
    reduced_dims(out, in[0], attrs);
    if (!ig__is_float(out->dtype))
        out->dtype = IG_DTYPE_I64;
    return IG_OK;
}

static ig_status mean_shape(ig__type *out, const ig__type *const *in, int n_in,
                            const void *attrs, ig_error *err)
{
    (void)n_in;
    if (!ig__is_float(in[0]->dtype))
        return ig__fail_shapes(err, "mean, var", "wants floats: ig_cast first", in[0],
                               NULL);
    reduced_dims(out, in[0], attrs);
    return IG_OK;
}

static ig_status max_shape(ig__type *out, const ig__type *const *in, int n_in,
                           const void *attrs, ig_error *err)
{
    (void)n_in;
    const ig__reduce_attrs *a = attrs;
    for (int d = 0; d < in[0]->n_dims; d++)
        if ((a->mask >> d & 1) && in[0]->dims[d].plus == 0)
            return ig__fail_shapes(err, "max, min", "nothing has no largest value", in[0],
                                   NULL);
    reduced_dims(out, in[0], attrs);
    return IG_OK;
}

/* ---- rows ----------------------------------------------------------------------------------------------- */

#define REDUCE_ROW(op, rule_shape, phases, ...)                                            \
    const ig__op ig__op_##op = {.name = #op,                                               \
                                .n_in_least = 1,                                           \
                                .n_in_most = 1,                                            \
                                .attrs_bytes = sizeof(ig__reduce_attrs),                   \
                                .shape = rule_shape,                                       \
                                .n_phases = phases,                                        \
                                .n_units = reduce_units,                                   \
                                .eval = op##_eval,                                         \
                                .work = reduce_work,                                       \
                                .room = reduce_room,                                       \
                                .precision = IG_PRECISION_HIGH,                            \
                                __VA_ARGS__};
REDUCE_ROW(sum, sum_shape, 2, .gradient = ig__sum_gradient)
REDUCE_ROW(mean, mean_shape, 2, .gradient = ig__mean_gradient)
REDUCE_ROW(prod, sum_shape, 2, .gradient = ig__prod_gradient, .needs = {IG_IN(0)})
REDUCE_ROW(max, max_shape, 2, .gradient = ig__max_gradient, .needs = {IG_IN(0) | IG_OUT(0)})
REDUCE_ROW(min, max_shape, 2, .gradient = ig__max_gradient, .needs = {IG_IN(0) | IG_OUT(0)})
REDUCE_ROW(var, mean_shape, 4, .gradient = ig__var_gradient, .needs = {IG_IN(0)})

/* ---- public ------------------------------------------------------------------------------------------------ */

bool ig__dims_mask(uint32_t *mask, ig_tensor *x, const char *op, int n, const int *dims)
{
    *mask = 0;
    if (!x)
        return false;
    if (n == 0) {
        *mask = (1u << x->type.n_dims) - 1;
        return true;
    }
    for (int i = 0; i < n; i++) {
        const int d = dims[i] < 0 ? dims[i] + x->type.n_dims : dims[i];
        if (d < 0 || d >= x->type.n_dims || (*mask >> d & 1)) {
            char text[IG_TYPE_TEXT];
            ig__fail_on(x->ctx, IG_ERR_SHAPE, "%s: dimension %d of %s", op, dims[i],
                        ig__type_text(&x->type, text, sizeof text));
            return false;
        }
        *mask |= 1u << d;
    }
    return true;
}

static ig_tensor *reduce(const ig__op *op, ig_tensor *x, int n, const int *dims, bool keep,
                         int correction)
{
    ig__reduce_attrs attrs;
    memset(&attrs, 0, sizeof attrs);
    if (!ig__dims_mask(&attrs.mask, x, op->name, n, dims))
        return NULL;
    attrs.keep = keep;
    attrs.correction = correction;
    return ig__apply1(op, &attrs, x);
}

ig_tensor *ig_sum(ig_tensor *x, int n, const int *dims, bool keep)
{
    return reduce(&ig__op_sum, x, n, dims, keep, 0);
}
ig_tensor *ig_mean(ig_tensor *x, int n, const int *dims, bool keep)
{
    return reduce(&ig__op_mean, x, n, dims, keep, 0);
}
ig_tensor *ig_prod(ig_tensor *x, int n, const int *dims, bool keep)
{
    return reduce(&ig__op_prod, x, n, dims, keep, 0);
}
ig_tensor *ig_max(ig_tensor *x, int n, const int *dims, bool keep)
{
    return reduce(&ig__op_max, x, n, dims, keep, 0);
}
ig_tensor *ig_min(ig_tensor *x, int n, const int *dims, bool keep)
{
    return reduce(&ig__op_min, x, n, dims, keep, 0);
}
ig_tensor *ig_var(ig_tensor *x, int n, const int *dims, bool keep, int correction)
{
    uint32_t mask;
    int64_t count = 1;
    if (!ig__dims_mask(&mask, x, "var", n, dims))
        return NULL;
    for (int d = 0; d < x->type.n_dims; d++)
        count *= mask >> d & 1 ? x->type.dims[d].plus : 1;
    if (count - correction <= 0 && !ig__context_failed(x->ctx))
        ig__log(x->ctx, IG_LOG_WARN, "var: of %lld elements, %d taken off, is NaN",
                (long long)count, correction);
    return reduce(&ig__op_var, x, n, dims, keep, correction);
}

ig_tensor *ig_sum_to(ig_tensor *x, int n_dims, const int64_t *dims)
{
    int over[IG_MAX_DIMS], n = 0;
    if (!x)
        return NULL;
    for (int d = 0; d < x->type.n_dims; d++) {
        const int at = d - x->type.n_dims + n_dims;
        if (at < 0 || (dims[at] == 1 && x->type.dims[d].plus != 1))
            over[n++] = d;
        else if (dims[at] != x->type.dims[d].plus)
            return ig__fail_on(x->ctx, IG_ERR_SHAPE,
                               "sum_to: dimension %d is %lld, not %lld or 1", at,
                               (long long)dims[at], (long long)x->type.dims[d].plus);
    }
    if (n)
        x = ig_sum(x, n, over, true);
    return x && x->type.n_dims != n_dims ? ig_reshape(x, n_dims, dims) : x;
}
