/* Regions of a base that views show: what gradients through views are made of. Taking a region's elements
 * out (view_of) and putting others over or onto them (view_put) are each other's gradient.
 */
#include "op/view.h"

#include "ingot/op.h"
#include "op/apply.h"
#include "op/op_int.h"
#include "op/pointwise.h"

#include <string.h>

ig__region_attrs ig__region_of(const ig_tensor *view)
{
    ig__region_attrs r;
    memset(&r, 0, sizeof r);
    r.n_dims = view->type.n_dims;
    r.offset =
        (view->data - view->base->data) / (int64_t)ig_dtype_block_bytes(view->type.dtype);
    for (int i = 0; i < r.n_dims; i++) {
        r.dims[i] = view->type.dims[i].plus;
        r.strides[i] = view->strides[i];
    }
    return r;
}

static ig__type region_type(const ig__region_attrs *r, ig_dtype dtype)
{
    ig__type type = {.dtype = dtype, .n_dims = r->n_dims};
    for (int i = 0; i < r->n_dims; i++)
        type.dims[i] = ig__dim_of(r->dims[i]);
    return type;
}

static ig_tensor *put(ig_tensor *base, ig_tensor *x, const ig__region_attrs *region)
{
    return ig__apply2(&ig__op_view_put, region, base, x);
}

static ig_tensor *zeros_of(ig_context *ctx, const ig__type *type, ig_dtype dtype)
{
    int64_t dims[IG_MAX_DIMS];
    for (int i = 0; i < type->n_dims; i++)
        dims[i] = type->dims[i].plus;
    return ig_zeros(ctx, dtype, type->n_dims, dims);
}

ig_tensor *ig__region_alone(ig_tensor *x, const ig__type *base,
                            const ig__region_attrs *region)
{
    return x ? put(zeros_of(x->ctx, base, x->type.dtype), x, region) : NULL;
}

static ig_status view_of_shape(ig__type *out, const ig__type *const *in, int n_in,
                               const void *attrs, ig_error *err)
{
    (void)n_in, (void)err;
    *out = region_type(attrs, in[0]->dtype);
    return IG_OK;
}

static bool view_of_view(int64_t *strides, int64_t *offset, const ig__array *in,
                         const ig__type *out, const void *attrs)
{
    const ig__region_attrs *r = attrs;
    if (!in->contiguous)
        return false;
    memcpy(strides, r->strides, (size_t)out->n_dims * sizeof *strides);
    *offset = r->offset;
    return true;
}

/* From a base that is not contiguous: through its elements in order. */
static void view_of_eval(const ig__eval *e, int64_t begin, int64_t end)
{
    (void)begin, (void)end;
    const ig__region_attrs *r = e->attrs;
    const ig__compute compute = ig__compute_of(e->in[0].type->dtype);
    const size_t size = ig_dtype_block_bytes(e->in[0].type->dtype);
    ig__walk_over in;
    ig__walk_make(&in, &e->in[0], e->in[0].type);
    int64_t at[IG_MAX_DIMS] = {0}, value[1];
    for (int64_t i = 0; i < e->out[0].n; i++) {
        int64_t place = r->offset;
        for (int d = 0; d < r->n_dims; d++)
            place += at[d] * r->strides[d];
        ig__walk_load(&in, place, 1, value, compute);
        ig__store(e->out[0].data + (size_t)i * size, e->out[0].type->dtype, 1, value,
                  compute, 1);
        for (int d = r->n_dims; d-- > 0 && ++at[d] == r->dims[d];)
            at[d] = 0;
    }
}

static int64_t one_unit(const ig__eval *e)
{
    (void)e;
    return 1;
}

static void view_of_gradient(ig__gradient *g)
{
    ig__region_attrs region = *(const ig__region_attrs *)g->attrs;
    region.adds = true;
    g->d_in[0] = ig__region_alone(g->d_out[0], g->type[0], &region);
}

const ig__op ig__op_view_of = {.name = "view_of",
                               .n_in_least = 1,
                               .n_in_most = 1,
                               .attrs_bytes = sizeof(ig__region_attrs),
                               .walk = IG_WALK_VIEW,
                               .shape = view_of_shape,
                               .view = view_of_view,
                               .n_units = one_unit,
                               .eval = view_of_eval,
                               .gradient = view_of_gradient};

static ig_status view_put_shape(ig__type *out, const ig__type *const *in, int n_in,
                                const void *attrs, ig_error *err)
{
    (void)n_in;
    const ig__type region = region_type(attrs, in[0]->dtype);
    if (in[0]->dtype != in[1]->dtype || !ig__dims_same(in[1], &region))
        return ig__fail_shapes(err, "view_put", "does not fit the region", in[0], in[1]);
    *out = *in[0];
    return IG_OK;
}

static void put_region(const ig__eval *e)
{
    const ig__region_attrs *r = e->attrs;
    const ig_dtype dtype = e->out[0].type->dtype;
    const ig__compute compute = ig__compute_of(dtype);
    const ig__type type = region_type(r, dtype);
    const ig__array place = {.data = e->out[0].data +
                                     r->offset * (int64_t)ig_dtype_block_bytes(dtype),
                             .type = &type,
                             .strides = r->strides,
                             .n = e->in[1].n};
    ig__walk_over in, out;
    ig__walk_make(&in, &e->in[1], &type);
    ig__walk_make(&out, &place, &type);
    char *old = (char *)e->scratch + IG_CHUNK * 8;
    /* where elements may share a place, one at a time */
    const int64_t step = r->adds ? 1 : IG_CHUNK;
    for (int64_t at = 0; at < place.n; at += step) {
        const int64_t n = place.n - at < step ? place.n - at : step;
        ig__walk_load(&in, at, n, e->scratch, compute);
        if (r->adds) {
            ig__walk_load(&out, at, 1, old, compute);
            if (compute == IG_COMPUTE_F32)
                *(float *)e->scratch += *(float *)(void *)old;
            else if (compute == IG_COMPUTE_F64)
                *(double *)e->scratch += *(double *)(void *)old;
            else
                *(int64_t *)e->scratch += *(int64_t *)(void *)old;
        }
        ig__walk_store(&out, at, n, e->scratch, compute);
    }
}

static int64_t put_units(const ig__eval *e)
{
    return e->phase ? 1 : (e->out[0].n + IG_SPAN - 1) / IG_SPAN;
}

static void view_put_eval(const ig__eval *e, int64_t begin, int64_t end)
{
    if (e->phase == 0)
        ig__copy_eval(e, begin, end);
    else
        put_region(e);
}

static void view_put_gradient(ig__gradient *g)
{
    const ig__region_attrs *r = g->attrs;
    ig_tensor *d = g->d_out[0];
    if (ig__wants(g, 1))
        g->d_in[1] = ig__apply1(&ig__op_view_of, r, d);
    if (!ig__wants(g, 0))
        return;
    g->d_in[0] = d;
    if (!r->adds) {
        const ig__type type = region_type(r, d->type.dtype);
        g->d_in[0] = put(d, zeros_of(g->ctx, &type, d->type.dtype), r);
    }
}

const ig__op ig__op_view_put = {.name = "view_put",
                                .n_in_least = 2,
                                .n_in_most = 2,
                                .attrs_bytes = sizeof(ig__region_attrs),
                                .shape = view_put_shape,
                                .n_phases = 2,
                                .n_units = put_units,
                                .eval = view_put_eval,
                                .room = ig__pointwise_room,
                                .gradient = view_put_gradient};
