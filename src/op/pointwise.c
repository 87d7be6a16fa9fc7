/* Elementwise rows over arrays with strides.
 *
 * The output's elements, in order, are cut in units of IG_SPAN and walked in chunks of IG_CHUNK. An
 * operand whose elements lie in the same order (contiguous, no broadcasting, the compute type's
 * own dtype) is read where it is; any other is gathered into the thread's scratch first. So the loops of
 * a row see contiguous arrays of one type only, and one element's result cannot depend on how
 * it was stored.
 */
#include "op/pointwise.h"

#include "op/op_int.h"

#include <string.h>

ig_status ig__broadcast(ig__type *out, const ig__type *const *in, int n_in, const char *op,
                        ig_error *err)
{
    int n_dims = 0;
    for (int i = 0; i < n_in; i++)
        n_dims = in[i]->n_dims > n_dims ? in[i]->n_dims : n_dims;
    out->n_dims = n_dims;
    out->layout = IG_LAYOUT_ROWS;
    out->acts = IG_ACTS_Q16;
    for (int d = 0; d < n_dims; d++) {
        ig__dim dim = ig__dim_of(1);
        for (int i = 0; i < n_in; i++) {
            const int at = d - n_dims + in[i]->n_dims;
            if (at < 0)
                continue;
            const ig__dim own = in[i]->dims[at];
            const bool is_one = ig__is_constant(own) && own.plus == 1;
            if (ig__is_constant(dim) && dim.plus == 1)
                dim = own;
            else if (!is_one && !ig__dim_same(dim, own))
                return ig__fail_shapes(err, op, "shapes do not broadcast", in[0],
                                       in[n_in > 1 ? i : 0]);
        }
        out->dims[d] = dim;
    }
    return IG_OK;
}

void ig__walk_make(ig__walk_over *w, const ig__array *x, const ig__type *type)
{
    int n = 0;
    w->data = x->data;
    w->dtype = x->type->dtype;
    for (int d = 0; d < type->n_dims; d++) {
        const int at = d - type->n_dims + x->type->n_dims;
        const int64_t size = type->dims[d].plus;
        if (size == 1)
            continue;
        const int64_t stride = at < 0 || x->type->dims[at].plus == 1 ? 0 : x->strides[at];
        if (n && w->strides[n - 1] == stride * size) {
            w->dims[n - 1] *= size;
            w->strides[n - 1] = stride;
        } else {
            w->dims[n] = size;
            w->strides[n++] = stride;
        }
    }
    if (!n) {
        w->dims[0] = 1;
        w->strides[n++] = 1;
    }
    w->n_dims = n;
}

/* Call for each run along the last dimension: elements [first, first + n) of the index space. */
typedef struct runs {
    int64_t at[IG_MAX_DIMS], offset, left;
} runs;

static void runs_begin(runs *r, const ig__walk_over *w, int64_t first, int64_t n)
{
    r->left = n;
    r->offset = 0;
    for (int d = w->n_dims; d-- > 0;) {
        r->at[d] = first % w->dims[d];
        first /= w->dims[d];
        r->offset += r->at[d] * w->strides[d];
    }
}

/* Elements of the next run, its offset in *offset; 0: done. */
static int64_t runs_next(runs *r, const ig__walk_over *w, int64_t *offset)
{
    if (!r->left)
        return 0;
    int d = w->n_dims - 1;
    int64_t n = w->dims[d] - r->at[d];
    n = n < r->left ? n : r->left;
    *offset = r->offset;
    r->left -= n;
    r->at[d] += n;
    r->offset += n * w->strides[d];
    while (d > 0 && r->at[d] == w->dims[d]) {
        r->offset -= r->at[d] * w->strides[d];
        r->at[d--] = 0;
        r->at[d]++;
        r->offset += w->strides[d];
    }
    return n;
}

void ig__walk_load(const ig__walk_over *w, int64_t first, int64_t n, void *dst,
                   ig__compute to)
{
    const int64_t size = (int64_t)ig_dtype_block_bytes(w->dtype);
    const size_t step = ig_dtype_block_bytes(ig__dtype_of(to));
    const int64_t stride = w->strides[w->n_dims - 1];
    runs r;
    runs_begin(&r, w, first, n);
    for (int64_t run, offset; (run = runs_next(&r, w, &offset));) {
        ig__load(dst, to, w->data + offset * size, w->dtype, stride, run);
        dst = (char *)dst + (size_t)run * step;
    }
}

void ig__walk_store(const ig__walk_over *w, int64_t first, int64_t n, const void *src,
                    ig__compute from)
{
    const int64_t size = (int64_t)ig_dtype_block_bytes(w->dtype);
    const size_t step = ig_dtype_block_bytes(ig__dtype_of(from));
    const int64_t stride = w->strides[w->n_dims - 1];
    runs r;
    runs_begin(&r, w, first, n);
    for (int64_t run, offset; (run = runs_next(&r, w, &offset));) {
        ig__store(w->data + offset * size, w->dtype, stride, src, from, run);
        src = (const char *)src + (size_t)run * step;
    }
}

/* May chunks of x be read and written where they lie? */
static bool lies_ready(const ig__walk_over *w, ig__compute compute)
{
    return w->n_dims == 1 && w->strides[0] == 1 && w->dtype == ig__dtype_of(compute);
}

void ig__pointwise(const ig__eval *e, ig__span_fn *const *span, int64_t begin, int64_t end)
{
    const ig__type *type = e->out[0].type;
    const ig__compute compute =
        ig__compute_of(e->n_in ? e->in[e->n_in - 1].type->dtype : type->dtype);
    const size_t size = ig_dtype_block_bytes(ig__dtype_of(compute));
    ig__walk_over in[IG_MAX_INPUTS], out;
    bool ready[IG_MAX_INPUTS];
    for (int i = 0; i < e->n_in; i++) {
        ig__walk_make(&in[i], &e->in[i], type);
        ready[i] = lies_ready(&in[i], compute);
    }
    ig__walk_make(&out, &e->out[0], type);
    const bool out_ready = lies_ready(&out, compute);
    const int64_t last = end * IG_SPAN < e->out[0].n ? end * IG_SPAN : e->out[0].n;
    for (int64_t at = begin * IG_SPAN; at < last; at += IG_CHUNK) {
        const int64_t n = last - at < IG_CHUNK ? last - at : IG_CHUNK;
        char *buffer = e->scratch;
        const void *x[IG_MAX_INPUTS];
        for (int i = 0; i < e->n_in; i++) {
            x[i] = in[i].data + (size_t)at * size;
            if (ready[i])
                continue;
            ig__walk_load(&in[i], at, n, buffer, compute);
            x[i] = buffer;
            buffer += IG_CHUNK * size;
        }
        void *y = out_ready ? out.data + (size_t)at * size : buffer;
        span[compute](e, y, x, n);
        if (!out_ready)
            ig__walk_store(&out, at, n, y, compute);
    }
}

ig__room ig__pointwise_room(const ig__eval *e)
{
    return (ig__room){.each = (size_t)(e->n_in + 1) * IG_CHUNK * 8};
}
