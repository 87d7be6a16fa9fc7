/* Gathering and scattering along a dimension, embedding's table look-up among them.
 *
 * An index may be negative: it counts from the end. One out of range is a fault: the call fails
 * with its place and value. What is scattered to one place is added in the order of the ids, by the one
 * thread that owns the place: the same bits for any number of threads.
 */
#include "op/index.h"

#include "ingot/op.h"
#include "op/apply.h"
#include "op/op_int.h"
#include "op/view.h"

#include <string.h>

typedef struct dim_attrs {
    int dim;
    bool backwards; /* of running sums: from the last element down */
} dim_attrs;

/* An operand as [outer, n, inner] around a dimension. */
typedef struct around {
    int64_t outer, n, inner;
} around;

static around around_of(const ig__type *type, int dim)
{
    around a = {1, type->dims[dim].plus, 1};
    for (int d = 0; d < dim; d++)
        a.outer *= type->dims[d].plus;
    for (int d = dim + 1; d < type->n_dims; d++)
        a.inner *= type->dims[d].plus;
    return a;
}

/* The index at place `at` of the ids, in 0 .. n-1; -1 is a fault. */
static int64_t index_at(const ig__eval *e, const ig__walk_over *ids, int64_t at, int64_t n)
{
    int64_t i;
    ig__walk_load(ids, at, 1, &i, IG_COMPUTE_I64);
    if (i < 0)
        i += n;
    if (i >= 0 && i < n)
        return i;
    ig__fault(e, at);
    return -1;
}

static void explain_index(const ig__eval *e, int64_t at, const char *op, int64_t n,
                          ig_error *err)
{
    ig__walk_over ids;
    int64_t i;
    ig__walk_make(&ids, &e->in[1], e->in[1].type);
    ig__walk_load(&ids, at, 1, &i, IG_COMPUTE_I64);
    ig__fail(err, IG_ERR_ARGUMENT, "%s: index %lld at place %lld is outside %lld..%lld", op,
             (long long)i, (long long)at, (long long)-n, (long long)n - 1);
}

static ig_status check_ids(const char *op, const ig__type *x, const ig__type *ids,
                           const dim_attrs *a, ig_error *err)
{
    if (!ig__is_int(ids->dtype) || a->dim < 0 || a->dim >= x->n_dims)
        return ig__fail_shapes(err, op, "wants indices of an integer type", x, ids);
    return IG_OK;
}

static double index_work(const ig__eval *e)
{
    return (double)e->out[0].n * 4;
}

/* ---- gather --------------------------------------------------------------------------------------------- */

static ig_status fits_around(const char *op, const ig__type *x, const ig__type *ids,
                             int dim, ig_error *err)
{
    if (x->n_dims != ids->n_dims)
        return ig__fail_shapes(err, op, "wants as many dimensions", x, ids);
    for (int d = 0; d < x->n_dims; d++)
        if (d != dim && ids->dims[d].plus > x->dims[d].plus)
            return ig__fail_shapes(err, op, "the indices reach outside", x, ids);
    return IG_OK;
}

static ig_status gather_shape(ig__type *out, const ig__type *const *in, int n_in,
                              const void *attrs, ig_error *err)
{
    (void)n_in;
    const dim_attrs *a = attrs;
    IG_TRY(check_ids("gather", in[0], in[1], a, err));
    IG_TRY(fits_around("gather", in[0], in[1], a->dim, err));
    *out = *in[1];
    out->dtype = in[0]->dtype;
    return IG_OK;
}

/* Offset in x of the element that place `at` of ids names; false: a fault. */
static bool named_offset(int64_t *out, const ig__eval *e, const ig__array *x,
                         const ig__walk_over *ids, int64_t at, int dim)
{
    const ig__type *t = e->in[1].type;
    int64_t offset = 0, rest = at;
    for (int d = t->n_dims; d-- > 0;) {
        const int64_t i = rest % t->dims[d].plus;
        rest /= t->dims[d].plus;
        if (d != dim)
            offset += i * x->strides[d];
    }
    const int64_t i = index_at(e, ids, at, x->type->dims[dim].plus);
    *out = offset + i * x->strides[dim];
    return i >= 0;
}

static void gather_eval(const ig__eval *e, int64_t begin, int64_t end)
{
    const dim_attrs *a = e->attrs;
    const size_t size = ig_dtype_block_bytes(e->out[0].type->dtype);
    const int64_t last = end * IG_SPAN < e->out[0].n ? end * IG_SPAN : e->out[0].n;
    ig__walk_over ids;
    ig__walk_make(&ids, &e->in[1], e->in[1].type);
    for (int64_t i = begin * IG_SPAN; i < last; i++) {
        int64_t from;
        if (named_offset(&from, e, &e->in[0], &ids, i, a->dim))
            memcpy(e->out[0].data + (size_t)i * size, e->in[0].data + from * (int64_t)size,
                   size);
    }
}

static void gather_explain(const ig__eval *e, int64_t at, ig_error *err)
{
    const dim_attrs *a = e->attrs;
    explain_index(e, at, "gather", e->in[0].type->dims[a->dim].plus, err);
}

static ig_tensor *zeros_as(ig_context *ctx, const ig__type *type, ig_dtype dtype)
{
    int64_t dims[IG_MAX_DIMS];
    for (int d = 0; d < type->n_dims; d++)
        dims[d] = type->dims[d].plus;
    return ig_zeros(ctx, dtype, type->n_dims, dims);
}

static void gather_gradient(ig__gradient *g)
{
    const dim_attrs *a = g->attrs;
    ig_tensor *zero = zeros_as(g->ctx, g->type[0], g->d_out[0]->type.dtype);
    g->d_in[0] = ig_scatter_add(zero, a->dim, g->in[1], g->d_out[0]);
}

const ig__op ig__op_gather = {.name = "gather",
                              .n_in_least = 2,
                              .n_in_most = 2,
                              .attrs_bytes = sizeof(dim_attrs),
                              .shape = gather_shape,
                              .eval = gather_eval,
                              .work = index_work,
                              .explain = gather_explain,
                              .gradient = gather_gradient,
                              .needs = {IG_IN(1)}};

/* ---- scatter_add ---------------------------------------------------------------------------------------- */

static ig_status scatter_shape(ig__type *out, const ig__type *const *in, int n_in,
                               const void *attrs, ig_error *err)
{
    (void)n_in;
    const dim_attrs *a = attrs;
    IG_TRY(check_ids("scatter_add", in[0], in[1], a, err));
    IG_TRY(fits_around("scatter_add", in[0], in[1], a->dim, err));
    if (in[0]->dtype != in[2]->dtype || !ig__dims_same(in[1], in[2]))
        return ig__fail_shapes(err, "scatter_add", "wants a value for each index", in[1],
                               in[2]);
    *out = *in[0];
    return IG_OK;
}

/* x [n] += y in any plain type */
static void add_element(char *x, ig_dtype dtype, const ig__walk_over *y, int64_t at)
{
    const ig__compute compute = ig__compute_of(dtype);
    union {
        float f;
        double d;
        int64_t i;
    } a, b;
    ig__load(&a, compute, x, dtype, 1, 1);
    ig__walk_load(y, at, 1, &b, compute);
    if (compute == IG_COMPUTE_F32)
        a.f += b.f;
    else if (compute == IG_COMPUTE_F64)
        a.d += b.d;
    else
        a.i += b.i;
    ig__store(x, dtype, 1, &a, compute, 1);
}

/* Phase 0 copies x; phase 1 adds, in the order of the ids, on one thread. */
static int64_t scatter_units(const ig__eval *e)
{
    return e->phase ? 1 : (e->out[0].n + IG_SPAN - 1) / IG_SPAN;
}

static void scatter_eval(const ig__eval *e, int64_t begin, int64_t end)
{
    const dim_attrs *a = e->attrs;
    if (e->phase == 0) {
        ig__copy_eval(e, begin, end);
        return;
    }
    const ig_dtype dtype = e->out[0].type->dtype;
    const int64_t size = (int64_t)ig_dtype_block_bytes(dtype);
    ig__walk_over ids, y;
    ig__walk_make(&ids, &e->in[1], e->in[1].type);
    ig__walk_make(&y, &e->in[2], e->in[2].type);
    for (int64_t i = 0; i < e->in[1].n; i++) {
        int64_t to;
        if (named_offset(&to, e, &e->out[0], &ids, i, a->dim))
            add_element(e->out[0].data + to * size, dtype, &y, i);
    }
}

static void scatter_explain(const ig__eval *e, int64_t at, ig_error *err)
{
    const dim_attrs *a = e->attrs;
    explain_index(e, at, "scatter_add", e->in[0].type->dims[a->dim].plus, err);
}

static void scatter_gradient(ig__gradient *g)
{
    const dim_attrs *a = g->attrs;
    g->d_in[0] = g->d_out[0];
    if (ig__wants(g, 2))
        g->d_in[2] = ig_gather(g->d_out[0], a->dim, g->in[1]);
}

const ig__op ig__op_scatter_add = {.name = "scatter_add",
                                   .n_in_least = 3,
                                   .n_in_most = 3,
                                   .attrs_bytes = sizeof(dim_attrs),
                                   .shape = scatter_shape,
                                   .n_phases = 2,
                                   .n_units = scatter_units,
                                   .eval = scatter_eval,
                                   .room = ig__pointwise_room,
                                   .work = index_work,
                                   .explain = scatter_explain,
                                   .gradient = scatter_gradient,
                                   .needs = {0, 0, IG_IN(1)}};

/* ---- index_select ------------------------------------------------------------------------------ */

static ig_status select_shape(ig__type *out, const ig__type *const *in, int n_in,
                              const void *attrs, ig_error *err)
{
    (void)n_in;
    const dim_attrs *a = attrs;
    IG_TRY(check_ids("index_select", in[0], in[1], a, err));
    if (in[0]->n_dims - 1 + in[1]->n_dims > IG_MAX_DIMS)
        return ig__fail_shapes(err, "index_select", "too many dimensions", in[0], in[1]);
    *out = (ig__type){.dtype = in[0]->dtype};
    for (int d = 0; d < in[0]->n_dims; d++)
        if (d != a->dim)
            out->dims[out->n_dims++] = in[0]->dims[d];
        else
            for (int k = 0; k < in[1]->n_dims; k++)
                out->dims[out->n_dims++] = in[1]->dims[k];
    return IG_OK;
}

/* A unit is some slices [inner]: of outer block o and index k. */
static int64_t slices_a_unit(int64_t inner)
{
    return inner >= 4096 ? 1 : 4096 / (inner > 0 ? inner : 1);
}

static int64_t pick_units(const ig__array *x, const ig__array *ids, int dim)
{
    const around a = around_of(x->type, dim);
    const int64_t g = slices_a_unit(a.inner);
    return (a.outer * ids->n + g - 1) / g;
}

/* Slices of x, which is contiguous, to the output. */
static void pick(const ig__eval *e, const ig__array *x_, const ig__array *ids_, int dim,
                 int64_t begin, int64_t end)
{
    const around x = around_of(x_->type, dim);
    const int64_t k = ids_->n, g = slices_a_unit(x.inner);
    const size_t bytes = (size_t)x.inner * ig_dtype_block_bytes(e->out[0].type->dtype);
    ig__walk_over ids;
    ig__walk_make(&ids, ids_, ids_->type);
    for (int64_t s = begin * g; s < end * g && s < x.outer * k; s++) {
        const int64_t i = index_at(e, &ids, s % k, x.n);
        char *y = e->out[0].data + (size_t)s * bytes;
        if (i < 0)
            memset(y, 0, bytes);
        else
            memcpy(y, x_->data + (size_t)(s / k * x.n + i) * bytes, bytes);
    }
}

static int64_t select_units(const ig__eval *e)
{
    return pick_units(&e->in[0], &e->in[1], ((const dim_attrs *)e->attrs)->dim);
}

static void select_eval(const ig__eval *e, int64_t begin, int64_t end)
{
    pick(e, &e->in[0], &e->in[1], ((const dim_attrs *)e->attrs)->dim, begin, end);
}

static void select_explain(const ig__eval *e, int64_t at, ig_error *err)
{
    const dim_attrs *a = e->attrs;
    explain_index(e, at, "index_select", e->in[0].type->dims[a->dim].plus, err);
}

/* The gradient of input i, whose slices at the ids were taken: d_out added there, to zeros or to what
 * is there already. */
static void unpick(ig__gradient *g, int i, ig_tensor *ids, const dim_attrs *attrs)
{
    ig_tensor *d = g->d_out[0], *onto = g->onto[i];
    if (!d)
        return;
    if (onto && onto->type.dtype != d->type.dtype)
        onto = NULL;
    ig_tensor *x = onto ? onto : zeros_as(g->ctx, g->type[i], d->type.dtype);
    ig_tensor *const in[3] = {x, ids, ig_contiguous(d)};
    if (!g->ctx->no_grad)
        g->d_in[i] = ig__apply(g->ctx, &ig__op_index_add, attrs, in, 3);
    else if (ig__apply_into(&ig__op_index_add, attrs, in, 3, x) && !onto)
        g->d_in[i] = x;
}

static void select_gradient(ig__gradient *g)
{
    unpick(g, 0, g->in[1], g->attrs);
}

const ig__op ig__op_index_select = {.name = "index_select",
                                    .n_in_least = 2,
                                    .n_in_most = 2,
                                    .attrs_bytes = sizeof(dim_attrs),
                                    .shape = select_shape,
                                    .n_units = select_units,
                                    .eval = select_eval,
                                    .explain = select_explain,
                                    .gradient = select_gradient,
                                    .needs = {IG_IN(1)}};

/* ---- gather_rows and embedding: the rows that serving has too (elementwise.c) ------------------------------ */

static const dim_attrs first_dim; /* dimension 0 */

ig_status ig__pick_shape(ig__type *out, const ig__type *x, const ig__type *ids,
                         const char *op, ig_error *err)
{
    if (x->n_dims < 1 || !ig__is_int(ids->dtype) ||
        x->n_dims - 1 + ids->n_dims > IG_MAX_DIMS)
        return ig__fail_shapes(err, op, "wants rows and their numbers", x, ids);
    *out = (ig__type){.dtype = x->dtype};
    for (int d = 0; d < ids->n_dims; d++)
        out->dims[out->n_dims++] = ids->dims[d];
    for (int d = 1; d < x->n_dims; d++)
        out->dims[out->n_dims++] = x->dims[d];
    return IG_OK;
}

int64_t ig__gather_rows_units(const ig__eval *e)
{
    return pick_units(&e->in[0], &e->in[1], 0);
}
void ig__gather_rows_eval(const ig__eval *e, int64_t begin, int64_t end)
{
    pick(e, &e->in[0], &e->in[1], 0, begin, end);
}
void ig__gather_rows_explain(const ig__eval *e, int64_t at, ig_error *err)
{
    explain_index(e, at, "gather_rows", e->in[0].type->dims[0].plus, err);
}
void ig__gather_rows_gradient(ig__gradient *g)
{
    unpick(g, 0, g->in[1], &first_dim);
}

int64_t ig__embedding_units(const ig__eval *e)
{
    return pick_units(&e->in[1], &e->in[0], 0);
}
void ig__embedding_eval(const ig__eval *e, int64_t begin, int64_t end)
{
    pick(e, &e->in[1], &e->in[0], 0, begin, end);
}
void ig__embedding_explain(const ig__eval *e, int64_t at, ig_error *err)
{
    const int64_t n = e->in[1].type->dims[0].plus;
    ig__walk_over ids;
    int64_t i;
    ig__walk_make(&ids, &e->in[0], e->in[0].type);
    ig__walk_load(&ids, at, 1, &i, IG_COMPUTE_I64);
    ig__fail(err, IG_ERR_ARGUMENT,
             "embedding: index %lld at place %lld is outside %lld..%lld", (long long)i,
             (long long)at, (long long)-n, (long long)n - 1);
}
void ig__embedding_gradient(ig__gradient *g)
{
    unpick(g, 1, g->in[0], &first_dim);
}

/* ---- index_add --------------------------------------------------------------------------------------------- */

static ig_status index_add_shape(ig__type *out, const ig__type *const *in, int n_in,
                                 const void *attrs, ig_error *err)
{
    ig__type slices;
    (void)n_in;
    IG_TRY(select_shape(&slices, in, 2, attrs, err));
    if (!ig__type_same(&slices, in[2]))
        return ig__fail_shapes(err, "index_add", "wants a slice for each index", &slices,
                               in[2]);
    *out = *in[0];
    return IG_OK;
}

/* Phase 1: a unit owns a range of places along the dimension, and looks for it among the ids. */
enum { OWNERS = 16 };
static int64_t index_add_units(const ig__eval *e)
{
    if (!e->phase && e->in[0].data == e->out[0].data)
        return 0; /* in place: what is added to is there */
    return e->phase ? OWNERS : (e->out[0].n + IG_SPAN - 1) / IG_SPAN;
}

static void add_slice(const ig__eval *e, char *x, const char *y, int64_t n)
{
    const ig_dtype dtype = e->out[0].type->dtype;
    if (dtype == IG_DTYPE_F32) {
        float *to = (float *)(void *)x;
        e->t->binary(IG__BINARY_ADD, to, to, 1, (const float *)(const void *)y, 1, n);
        return;
    }
    const ig__walk_over w = {.n_dims = 1,
                             .dims = {n},
                             .strides = {1},
                             .data = (char *)(uintptr_t)y,
                             .dtype = dtype};
    const size_t size = ig_dtype_block_bytes(dtype);
    for (int64_t i = 0; i < n; i++)
        add_element(x + (size_t)i * size, dtype, &w, i);
}

static void index_add_eval(const ig__eval *e, int64_t begin, int64_t end)
{
    const dim_attrs *a = e->attrs;
    if (e->phase == 0) {
        ig__copy_eval(e, begin, end);
        return;
    }
    const around x = around_of(e->in[0].type, a->dim);
    const size_t bytes = (size_t)x.inner * ig_dtype_block_bytes(e->out[0].type->dtype);
    const int64_t k = e->in[1].n, low = x.n * begin / OWNERS, high = x.n * end / OWNERS;
    ig__walk_over ids;
    ig__walk_make(&ids, &e->in[1], e->in[1].type);
    for (int64_t at = 0; at < k; at++) {
        const int64_t i = index_at(e, &ids, at, x.n);
        if (i < low || i >= high)
            continue;
        for (int64_t o = 0; o < x.outer; o++)
            add_slice(e, e->out[0].data + (size_t)(o * x.n + i) * bytes,
                      e->in[2].data + (size_t)(o * k + at) * bytes, x.inner);
    }
}

static double index_add_work(const ig__eval *e)
{
    if (e->in[0].data == e->out[0].data)
        return (double)e->in[2].n;
    return (double)(e->out[0].n + e->in[2].n);
}

static void index_add_gradient(ig__gradient *g)
{
    g->d_in[0] = g->d_out[0];
    if (ig__wants(g, 2))
        g->d_in[2] = ig__apply2(&ig__op_index_select, g->attrs, ig_contiguous(g->d_out[0]),
                                g->in[1]);
}

const ig__op ig__op_index_add = {.name = "index_add",
                                 .n_in_least = 3,
                                 .n_in_most = 3,
                                 .attrs_bytes = sizeof(dim_attrs),
                                 .shape = index_add_shape,
                                 .n_phases = 2,
                                 .n_units = index_add_units,
                                 .eval = index_add_eval,
                                 .room = ig__pointwise_room,
                                 .work = index_add_work,
                                 .explain = select_explain,
                                 .gradient = index_add_gradient,
                                 .needs = {0, 0, IG_IN(1)}};

/* ---- public ------------------------------------------------------------------------------------------------ */

static bool set_dim(dim_attrs *attrs, const char *op, ig_tensor *x, int dim)
{
    memset(attrs, 0, sizeof *attrs);
    if (!x)
        return false;
    attrs->dim = dim < 0 ? dim + x->type.n_dims : dim;
    if (attrs->dim >= 0 && attrs->dim < x->type.n_dims)
        return true;
    ig__fail_on(x->ctx, IG_ERR_SHAPE, "%s: dimension %d of a tensor of %d", op, dim,
                x->type.n_dims);
    return false;
}

ig_tensor *ig_gather(ig_tensor *x, int dim, ig_tensor *ids)
{
    dim_attrs attrs;
    return set_dim(&attrs, "gather", x, dim) ? ig__apply2(&ig__op_gather, &attrs, x, ids)
                                             : NULL;
}

ig_tensor *ig_scatter_add(ig_tensor *x, int dim, ig_tensor *ids, ig_tensor *y)
{
    dim_attrs attrs;
    ig_tensor *const in[3] = {x, ids, x ? ig__cast(y, x->type.dtype) : NULL};
    if (!set_dim(&attrs, "scatter_add", x, dim))
        return NULL;
    return ig__apply(NULL, &ig__op_scatter_add, &attrs, in, 3);
}

ig_tensor *ig_index_select(ig_tensor *x, int dim, ig_tensor *ids)
{
    dim_attrs attrs;
    if (!set_dim(&attrs, "index_select", x, dim))
        return NULL;
    return ig__apply2(&ig__op_index_select, &attrs, ig_contiguous(x), ids);
}

ig_tensor *ig_index_add(ig_tensor *x, int dim, ig_tensor *ids, ig_tensor *y)
{
    dim_attrs attrs;
    ig_tensor *const in[3] = {x, ids, x ? ig_contiguous(ig__cast(y, x->type.dtype)) : NULL};
    if (!set_dim(&attrs, "index_add", x, dim))
        return NULL;
    return ig__apply(NULL, &ig__op_index_add, &attrs, in, 3);
}

ig_tensor *ig_embedding(ig_tensor *ids, ig_tensor *table)
{
    if (table && table->type.n_dims != 2)
        return ig__fail_on(table->ctx, IG_ERR_SHAPE, "embedding: wants a table [V,D]");
    return ig__apply2(&ig__op_embedding, NULL, ids, ig_contiguous(table));
}
