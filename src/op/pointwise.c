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
    out->acts = (ig__acts)0; /* of packed activations only */
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
    w->t = NULL;
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

/* ---- runs ------------------------------------------------------------------------------------ */

ig__number ig__number_of(ig_dtype dtype)
{
    static const ig__number of[IG_DTYPE_COUNT] = {
        [IG_DTYPE_F32] = IG__NUMBER_F32,  [IG_DTYPE_F64] = IG__NUMBER_F64,
        [IG_DTYPE_F16] = IG__NUMBER_F16,  [IG_DTYPE_BF16] = IG__NUMBER_BF16,
        [IG_DTYPE_I8] = IG__NUMBER_I8,    [IG_DTYPE_U8] = IG__NUMBER_U8,
        [IG_DTYPE_I32] = IG__NUMBER_I32,  [IG_DTYPE_I64] = IG__NUMBER_I64,
        [IG_DTYPE_BOOL] = IG__NUMBER_BOOL};
    return of[dtype];
}

/* One element n times. */
static void spread(void *dst, ig__compute to, const void *src, ig_dtype from, int64_t n)
{
    ig__load(dst, to, src, from, 1, n < 1 ? n : 1);
    if (to == IG_COMPUTE_F32)
        for (int64_t i = 1; i < n; i++)
            ((float *)dst)[i] = ((const float *)dst)[0];
    else
        for (int64_t i = 1; i < n; i++)
            memcpy((char *)dst + i * 8, dst, 8);
}

static void load(const ig__walk_over *w, void *dst, ig__compute to, const void *src,
                 int64_t n)
{
    const int64_t stride = w->strides[w->n_dims - 1];
    if (stride == 0)
        spread(dst, to, src, w->dtype, n);
    else if (w->t && stride == 1)
        w->t->convert(ig__number_of(ig__dtype_of(to)), ig__number_of(w->dtype), dst, src,
                      n);
    else
        ig__load(dst, to, src, w->dtype, stride, n);
}

static void store(const ig__walk_over *w, void *dst, const void *src, ig__compute from,
                  int64_t n)
{
    const int64_t stride = w->strides[w->n_dims - 1];
    if (w->t && stride == 1)
        w->t->convert(ig__number_of(w->dtype), ig__number_of(ig__dtype_of(from)), dst, src,
                      n);
    else
        ig__store(dst, w->dtype, stride, src, from, n);
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
    runs r;
    runs_begin(&r, w, first, n);
    for (int64_t run, offset; (run = runs_next(&r, w, &offset));) {
        load(w, dst, to, w->data + offset * size, run);
        dst = (char *)dst + (size_t)run * step;
    }
}

void ig__walk_store(const ig__walk_over *w, int64_t first, int64_t n, const void *src,
                    ig__compute from)
{
    const int64_t size = (int64_t)ig_dtype_block_bytes(w->dtype);
    const size_t step = ig_dtype_block_bytes(ig__dtype_of(from));
    runs r;
    runs_begin(&r, w, first, n);
    for (int64_t run, offset; (run = runs_next(&r, w, &offset));) {
        store(w, w->data + offset * size, src, from, run);
        src = (const char *)src + (size_t)run * step;
    }
}

void ig__walk_load_bytes(const ig__walk_over *w, int64_t first, int64_t n, uint8_t *dst)
{
    const int64_t stride = w->strides[w->n_dims - 1];
    runs r;
    runs_begin(&r, w, first, n);
    for (int64_t run, offset; (run = runs_next(&r, w, &offset)); dst += run)
        for (int64_t i = 0; i < run; i++)
            dst[i] = (uint8_t)w->data[offset + i * stride];
}

void ig__walk_store_bytes(const ig__walk_over *w, int64_t first, int64_t n,
                          const uint8_t *src)
{
    const int64_t stride = w->strides[w->n_dims - 1];
    runs r;
    runs_begin(&r, w, first, n);
    for (int64_t run, offset; (run = runs_next(&r, w, &offset)); src += run)
        for (int64_t i = 0; i < run; i++)
            w->data[offset + i * stride] = (char)src[i];
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
        in[i] = ig__walk_of(e, &e->in[i], type);
        ready[i] = lies_ready(&in[i], compute);
    }
    out = ig__walk_of(e, &e->out[0], type);
    /* a condition beside operands of another type stays as it is */
    const bool bytes = e->n_in && in[e->n_in - 1].dtype != IG_DTYPE_BOOL;
    const bool truths = out.dtype == IG_DTYPE_BOOL && compute != IG_COMPUTE_I64;
    const size_t out_size = truths ? 1 : size;
    const bool out_ready =
        truths ? out.n_dims == 1 && out.strides[0] == 1 : lies_ready(&out, compute);
    const int64_t last = end * IG_SPAN < e->out[0].n ? end * IG_SPAN : e->out[0].n;
    for (int64_t at = begin * IG_SPAN; at < last; at += IG_CHUNK) {
        const int64_t n = last - at < IG_CHUNK ? last - at : IG_CHUNK;
        char *buffer = e->scratch;
        const void *x[IG_MAX_INPUTS];
        for (int i = 0; i < e->n_in; i++) {
            if (in[i].dtype == IG_DTYPE_BOOL && bytes) {
                x[i] = in[i].data + at;
                if (in[i].n_dims == 1 && in[i].strides[0] == 1)
                    continue;
                ig__walk_load_bytes(&in[i], at, n, (uint8_t *)buffer);
                x[i] = buffer;
                buffer += IG_CHUNK * size;
                continue;
            }
            x[i] = in[i].data + (size_t)at * size;
            if (ready[i])
                continue;
            ig__walk_load(&in[i], at, n, buffer, compute);
            x[i] = buffer;
            buffer += IG_CHUNK * size;
        }
        void *y = out_ready ? out.data + (size_t)at * out_size : buffer;
        span[compute](e, y, x, n);
        if (!out_ready && truths)
            ig__walk_store_bytes(&out, at, n, y);
        else if (!out_ready)
            ig__walk_store(&out, at, n, y, compute);
    }
}

ig__room ig__pointwise_room(const ig__eval *e)
{
    return (ig__room){.each = (size_t)(e->n_in + 1) * IG_CHUNK * 8};
}

/* ---- copies ----------------------------------------------------------------------------------- */

/* A matrix whose columns lie together, to one whose rows do (4-byte elements): in tiles, so that each line of
 * memory is touched once. Rows [begin, end) of the output. */
enum { TILE = 16 };
static void turn(float *y, const float *x, int64_t columns, int64_t x_stride, int64_t begin,
                 int64_t end)
{
    float tile[TILE][TILE];
    for (int64_t r = begin; r < end; r += TILE)
        for (int64_t c = 0; c < columns; c += TILE) {
            const int64_t rows = end - r < TILE ? end - r : TILE;
            const int64_t n = columns - c < TILE ? columns - c : TILE;
            for (int64_t j = 0; j < n; j++)
                for (int64_t i = 0; i < rows; i++)
                    tile[i][j] = x[(c + j) * x_stride + r + i];
            for (int64_t i = 0; i < rows; i++)
                memcpy(y + (r + i) * columns + c, tile[i], (size_t)n * 4);
        }
}

void ig__copy_eval(const ig__eval *e, int64_t begin, int64_t end)
{
    const ig__compute compute = ig__compute_of(e->in[0].type->dtype);
    const ig_dtype dtype = e->in[0].type->dtype;
    const bool stretches = e->in[0].n != e->out[0].n;
    const ig__walk_over in =
        ig__walk_of(e, &e->in[0], stretches ? e->out[0].type : e->in[0].type);
    const ig__walk_over out = ig__walk_of(e, &e->out[0], e->out[0].type);
    const int64_t n = e->out[0].n, last = end * IG_SPAN < n ? end * IG_SPAN : n;
    const bool plain = out.n_dims == 1 && out.strides[0] == 1;
    if (in.n_dims == 2 && in.strides[0] == 1 && plain && dtype == e->out[0].type->dtype &&
        ig_dtype_block_bytes(dtype) == 4) {
        /* rows of the output whose first element lies in these units */
        const int64_t columns = in.dims[1];
        const int64_t from = (begin * IG_SPAN + columns - 1) / columns;
        const int64_t to = (last + columns - 1) / columns;
        turn((float *)(void *)out.data, (const float *)(const void *)in.data, columns,
             in.strides[1], from, to < in.dims[0] ? to : in.dims[0]);
        return;
    }
    if (plain && in.n_dims == 1 && in.strides[0] == 1) {
        const int64_t at = begin * IG_SPAN;
        if (at < last)
            e->t->convert(ig__number_of(out.dtype), ig__number_of(dtype),
                          out.data + (size_t)at * ig_dtype_block_bytes(out.dtype),
                          in.data + (size_t)at * ig_dtype_block_bytes(dtype), last - at);
        return;
    }
    for (int64_t at = begin * IG_SPAN; at < last; at += IG_CHUNK) {
        const int64_t m = last - at < IG_CHUNK ? last - at : IG_CHUNK;
        ig__walk_load(&in, at, m, e->scratch, compute);
        ig__walk_store(&out, at, m, e->scratch, compute);
    }
}
