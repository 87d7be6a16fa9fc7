/* Views: reshape, permute, expand, slice.
 *
 * A view row gives strides for its output where the operand's strides allow it; where they do not
 * (a reshape across a transpose), its eval copies. Negative steps give negative strides.
 */
#include "op/view.h"

#include "ingot/op.h"
#include "op/apply.h"
#include "op/op_int.h"
#include "op/pointwise.h"

#include <string.h>

static int at_of(int n_dims, int dim)
{
    return dim < 0 ? dim + n_dims : dim;
}

/* ---- reshape -------------------------------------------------------------------------------------- */

static bool is_constant(const ig__type *type)
{
    for (int i = 0; i < type->n_dims; i++)
        if (!ig__is_constant(type->dims[i]))
            return false;
    return true;
}

static ig_status reshape_shape(ig__type *out, const ig__type *const *in, int n_in,
                               const void *attrs, ig_error *err)
{
    (void)n_in;
    const ig__reshape_attrs *a = attrs;
    *out = (ig__type){.dtype = in[0]->dtype, .n_dims = a->n_dims};
    memcpy(out->dims, a->dims, sizeof a->dims);
    if (in[0]->layout == IG_LAYOUT_ROWS && is_constant(in[0]) && is_constant(out)) {
        if (ig__type_count(in[0]) != ig__type_count(out))
            return ig__fail_shapes(err, "reshape", "keeps the number of elements", in[0],
                                   out);
        return IG_OK;
    }
    if (in[0]->layout != IG_LAYOUT_ROWS || !ig__dim_same(out->dims[0], in[0]->dims[0]) ||
        ig__type_width(out) != ig__type_width(in[0]))
        return ig__fail_shapes(err, "reshape", "keeps the rows and their elements", in[0],
                               out);
    return IG_OK;
}

/* Dimensions of the operand are merged where they lie in order; each merged one is then cut into the
 * output's. */
static bool reshape_view(int64_t *strides, int64_t *offset, const ig__array *in,
                         const ig__type *out, const void *attrs)
{
    (void)offset, (void)attrs;
    if (in->contiguous || !in->n) {
        ig__contiguous_strides(out, strides);
        return true;
    }
    int d = in->type->n_dims - 1;
    int64_t have = 1,
            stride = 1; /* of the merged run of operand dimensions, not yet used */
    int64_t used = 1;
    for (int i = out->n_dims; i-- > 0;) {
        const int64_t want = out->dims[i].plus;
        if (want == 1) {
            strides[i] = 1;
            continue;
        }
        if (used == have) { /* start the next run */
            while (d >= 0 && in->type->dims[d].plus == 1)
                d--;
            stride = in->strides[d];
            have = in->type->dims[d--].plus;
            used = 1;
            for (; d >= 0; d--) {
                if (in->type->dims[d].plus == 1)
                    continue;
                if (in->strides[d] != stride * have)
                    break;
                have *= in->type->dims[d].plus;
            }
        }
        if (have % (used * want))
            return false;
        strides[i] = stride * used;
        used *= want;
    }
    return true;
}

static ig_tensor *reshape_like(ig_tensor *x, const ig__type *type)
{
    int64_t dims[IG_MAX_DIMS];
    for (int i = 0; i < type->n_dims; i++)
        dims[i] = type->dims[i].plus;
    return ig_reshape(x, type->n_dims, dims);
}

static void reshape_gradient(ig__gradient *g)
{
    g->d_in[0] = reshape_like(g->d_out[0], g->type[0]);
}

const ig__op ig__op_reshape = {.name = "reshape",
                               .n_in_least = 1,
                               .n_in_most = 1,
                               .attrs_bytes = sizeof(ig__reshape_attrs),
                               .walk = IG_WALK_VIEW,
                               .shape = reshape_shape,
                               .view = reshape_view,
                               .eval = ig__copy_eval,
                               .room = ig__pointwise_room,
                               .gradient = reshape_gradient};

/* ---- permute -------------------------------------------------------------------------------------- */

typedef struct permute_attrs {
    int n_dims;
    int order[IG_MAX_DIMS]; /* output dimension i is the operand's order[i] */
} permute_attrs;

static ig_status permute_shape(ig__type *out, const ig__type *const *in, int n_in,
                               const void *attrs, ig_error *err)
{
    (void)n_in;
    const permute_attrs *a = attrs;
    unsigned seen = 0;
    *out = *in[0];
    for (int i = 0; i < a->n_dims; i++) {
        if (a->order[i] < 0 || a->order[i] >= in[0]->n_dims)
            return ig__fail_shapes(err, "permute", "no such dimension", in[0], NULL);
        seen |= 1u << a->order[i];
        out->dims[i] = in[0]->dims[a->order[i]];
    }
    if (a->n_dims != in[0]->n_dims || seen + 1 != 1u << a->n_dims)
        return ig__fail_shapes(err, "permute", "wants each dimension once", in[0], NULL);
    return IG_OK;
}

static bool permute_view(int64_t *strides, int64_t *offset, const ig__array *in,
                         const ig__type *out, const void *attrs)
{
    (void)offset;
    const permute_attrs *a = attrs;
    for (int i = 0; i < out->n_dims; i++)
        strides[i] = in->strides[a->order[i]];
    return true;
}

static void permute_gradient(ig__gradient *g)
{
    const permute_attrs *a = g->attrs;
    int back[IG_MAX_DIMS];
    for (int i = 0; i < a->n_dims; i++)
        back[a->order[i]] = i;
    g->d_in[0] = ig_permute(g->d_out[0], a->n_dims, back);
}

const ig__op ig__op_permute = {.name = "permute",
                               .n_in_least = 1,
                               .n_in_most = 1,
                               .attrs_bytes = sizeof(permute_attrs),
                               .walk = IG_WALK_VIEW,
                               .shape = permute_shape,
                               .view = permute_view,
                               .gradient = permute_gradient};

/* ---- expand --------------------------------------------------------------------------------------- */

typedef struct dims_attrs {
    int n_dims;
    int64_t dims[IG_MAX_DIMS];
} dims_attrs;

static ig_status expand_shape(ig__type *out, const ig__type *const *in, int n_in,
                              const void *attrs, ig_error *err)
{
    (void)n_in;
    const dims_attrs *a = attrs;
    *out = (ig__type){.dtype = in[0]->dtype, .n_dims = a->n_dims};
    for (int i = 0; i < a->n_dims; i++)
        out->dims[i] = ig__dim_of(a->dims[i]);
    for (int i = 0; i < in[0]->n_dims; i++) {
        const int at = i + a->n_dims - in[0]->n_dims;
        if (at < 0 || (in[0]->dims[i].plus != 1 && in[0]->dims[i].plus != a->dims[at]))
            return ig__fail_shapes(err, "expand", "only dimensions of 1 stretch", in[0],
                                   out);
    }
    return IG_OK;
}

static bool expand_view(int64_t *strides, int64_t *offset, const ig__array *in,
                        const ig__type *out, const void *attrs)
{
    (void)offset, (void)attrs;
    for (int i = 0; i < out->n_dims; i++) {
        const int at = i - out->n_dims + in->type->n_dims;
        strides[i] = at < 0 || (in->type->dims[at].plus == 1 && out->dims[i].plus != 1)
                         ? 0
                         : in->strides[at];
    }
    return true;
}

static void expand_gradient(ig__gradient *g)
{
    g->d_in[0] = g->d_out[0]; /* the walk sums */
}

const ig__op ig__op_expand = {.name = "expand",
                              .n_in_least = 1,
                              .n_in_most = 1,
                              .attrs_bytes = sizeof(dims_attrs),
                              .walk = IG_WALK_VIEW,
                              .shape = expand_shape,
                              .view = expand_view,
                              .gradient = expand_gradient};

/* ---- slice ---------------------------------------------------------------------------------------- */

typedef struct slice_attrs {
    int64_t start, step, count; /* of dimension dim */
    int dim;
} slice_attrs;

static ig_status slice_shape(ig__type *out, const ig__type *const *in, int n_in,
                             const void *attrs, ig_error *err)
{
    (void)n_in;
    const slice_attrs *a = attrs;
    if (a->dim < 0 || a->dim >= in[0]->n_dims)
        return ig__fail_shapes(err, "slice", "no such dimension", in[0], NULL);
    const int64_t last = a->start + (a->count - 1) * a->step, d = in[0]->dims[a->dim].plus;
    if (a->count && (a->start < 0 || a->start >= d || last < 0 || last >= d))
        return ig__fail_shapes(err, "slice", "reaches outside", in[0], NULL);
    *out = *in[0];
    out->dims[a->dim] = ig__dim_of(a->count);
    return IG_OK;
}

static bool slice_view(int64_t *strides, int64_t *offset, const ig__array *in,
                       const ig__type *out, const void *attrs)
{
    const slice_attrs *a = attrs;
    for (int i = 0; i < out->n_dims; i++)
        strides[i] = in->strides[i] * (i == a->dim ? a->step : 1);
    *offset = a->count ? a->start * in->strides[a->dim] : 0;
    return true;
}

/* The first piece makes the gradient of the whole, the others are added where they lie in it: n pieces cost
 * what the whole costs, not n times that. */
static void slice_gradient(ig__gradient *g)
{
    const slice_attrs *a = g->attrs;
    const ig__type *type = g->type[0];
    if (g->onto[0]) {
        ig_add_into(ig__apply1(&ig__op_slice, a, g->onto[0]), g->d_out[0]);
        return;
    }
    ig__region_attrs region;
    memset(&region, 0, sizeof region);
    ig__contiguous_strides(type, region.strides);
    region.n_dims = type->n_dims;
    for (int i = 0; i < type->n_dims; i++)
        region.dims[i] = i == a->dim ? a->count : type->dims[i].plus;
    region.offset = a->count ? a->start * region.strides[a->dim] : 0;
    region.strides[a->dim] *= a->step;
    g->d_in[0] = ig__region_alone(g->d_out[0], type, &region);
}

const ig__op ig__op_slice = {.name = "slice",
                             .n_in_least = 1,
                             .n_in_most = 1,
                             .attrs_bytes = sizeof(slice_attrs),
                             .walk = IG_WALK_VIEW,
                             .shape = slice_shape,
                             .view = slice_view,
                             .gradient = slice_gradient};

/* ---- public --------------------------------------------------------------------------------------- */

ig_tensor *ig_reshape(ig_tensor *x, int n_dims, const int64_t *dims)
{
    if (!x)
        return NULL;
    ig__reshape_attrs attrs;
    memset(&attrs, 0, sizeof attrs);
    if (n_dims < 0 || n_dims > IG_MAX_DIMS)
        return ig__fail_on(x->ctx, IG_ERR_SHAPE, "reshape: %d dimensions", n_dims);
    attrs.n_dims = n_dims;
    int64_t known = 1, open = -1;
    for (int i = 0; i < n_dims; i++) {
        if (dims[i] == -1 && open < 0)
            open = i;
        else if (dims[i] < 0 || !ig__mul_i64(&known, known, dims[i]))
            return ig__fail_on(x->ctx, IG_ERR_SHAPE, "reshape: dimension %d is %lld", i,
                               (long long)dims[i]);
        attrs.dims[i] = ig__dim_of(dims[i]);
    }
    if (open >= 0)
        attrs.dims[open] = ig__dim_of(known ? x->n / known : 0);
    return ig__apply1(&ig__op_reshape, &attrs, x);
}

ig_tensor *ig_permute(ig_tensor *x, int n_dims, const int *order)
{
    permute_attrs attrs;
    if (!x)
        return NULL;
    memset(&attrs, 0, sizeof attrs);
    if (n_dims != x->type.n_dims)
        return ig__fail_on(x->ctx, IG_ERR_SHAPE,
                           "permute: names %d dimensions, the tensor has %d", n_dims,
                           x->type.n_dims);
    attrs.n_dims = n_dims;
    for (int i = 0; i < n_dims; i++)
        attrs.order[i] = at_of(n_dims, order[i]);
    return ig__apply1(&ig__op_permute, &attrs, x);
}

ig_tensor *ig_transpose(ig_tensor *x, int a, int b)
{
    int order[IG_MAX_DIMS];
    if (!x)
        return NULL;
    const int n = x->type.n_dims;
    a = at_of(n, a);
    b = at_of(n, b);
    if (a < 0 || b < 0 || a >= n || b >= n)
        return ig__fail_on(x->ctx, IG_ERR_SHAPE,
                           "transpose: dimensions %d and %d of a tensor of %d", a, b, n);
    for (int i = 0; i < n; i++)
        order[i] = i == a ? b : i == b ? a : i;
    return ig_permute(x, n, order);
}

ig_tensor *ig_expand(ig_tensor *x, int n_dims, const int64_t *dims)
{
    ig__type type;
    dims_attrs attrs;
    if (!x || !ig__type_of(&type, x->ctx, "expand", x->type.dtype, n_dims, dims))
        return NULL;
    memset(&attrs, 0, sizeof attrs);
    attrs.n_dims = n_dims;
    for (int i = 0; i < n_dims; i++)
        attrs.dims[i] = dims[i];
    return ig__apply1(&ig__op_expand, &attrs, x);
}

ig_tensor *ig_slice(ig_tensor *x, int dim, int64_t start, int64_t end, int64_t step)
{
    slice_attrs attrs;
    if (!x)
        return NULL;
    const int at = at_of(x->type.n_dims, dim);
    if (step == 0 || at < 0 || at >= x->type.n_dims)
        return ig__fail_on(x->ctx, IG_ERR_ARGUMENT,
                           "slice: dimension %d of a tensor of %d, step %lld", dim,
                           x->type.n_dims, (long long)step);
    const int64_t d = x->type.dims[at].plus;
    memset(&attrs, 0, sizeof attrs);
    /* as Python: negative places count from the end, all is cut to what is there */
    const int64_t low = step > 0 ? 0 : -1, high = step > 0 ? d : d - 1;
    if (end == IG_END)
        end = step > 0 ? d : -1;
    else if (end < 0)
        end += d;
    start = start < 0 ? start + d : start;
    start = start < low ? low : start > high ? high : start;
    end = end < low ? low : end > high ? high : end;
    const int64_t way = step > 0 ? end - start : start - end;
    const int64_t stride = step > 0 ? step : step == INT64_MIN ? INT64_MAX : -step;
    attrs.dim = at;
    attrs.start = start;
    attrs.count = way > 0 ? (way - 1) / stride + 1 : 0;
    attrs.step = attrs.count > 1 ? step : 1;
    return ig__apply1(&ig__op_slice, &attrs, x);
}

ig_tensor *ig_select(ig_tensor *x, int dim, int64_t index)
{
    if (!x)
        return NULL;
    const int at = at_of(x->type.n_dims, dim);
    const int64_t d = ig_tensor_dim(x, dim);
    index = index < 0 ? index + d : index;
    if (index < 0 || index >= d)
        return ig__fail_on(x->ctx, IG_ERR_SHAPE,
                           "select: index %lld of dimension %d of size %lld",
                           (long long)index, dim, (long long)d);
    return ig_squeeze(ig_slice(x, at, index, index + 1, 1), at);
}

ig_tensor *ig_flip(ig_tensor *x, int dim)
{
    return ig_slice(x, dim, -1, IG_END, -1);
}

ig_tensor *ig_squeeze(ig_tensor *x, int dim)
{
    int64_t dims[IG_MAX_DIMS];
    if (!x)
        return NULL;
    const int n = x->type.n_dims, at = at_of(n, dim);
    if (at < 0 || at >= n || x->type.dims[at].plus != 1)
        return ig__fail_on(x->ctx, IG_ERR_SHAPE, "squeeze: dimension %d is not 1", dim);
    for (int i = 0, k = 0; i < n; i++)
        if (i != at)
            dims[k++] = x->type.dims[i].plus;
    return ig_reshape(x, n - 1, dims);
}

ig_tensor *ig_unsqueeze(ig_tensor *x, int dim)
{
    int64_t dims[IG_MAX_DIMS + 1];
    if (!x)
        return NULL;
    const int n = x->type.n_dims, at = at_of(n + 1, dim);
    if (at < 0 || at > n || n == IG_MAX_DIMS)
        return ig__fail_on(x->ctx, IG_ERR_SHAPE,
                           "unsqueeze: dimension %d of a tensor of %d", dim, n);
    for (int i = 0, k = 0; i <= n; i++)
        dims[i] = i == at ? 1 : x->type.dims[k++].plus;
    return ig_reshape(x, n + 1, dims);
}
