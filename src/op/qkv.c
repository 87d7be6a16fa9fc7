/* The products that make queries, keys and values, with all that follows them up to attention.
 *
 * An item is one head by a block of tokens: a KV head's item computes its key and its value,
 * normalises (where the model does) and rotates the key, and writes both to the cache; a query
 * head's item leaves its rotated query in the output. So no barrier stands between the product and
 * the cache. KV items, which cost double, come first.
 */
#include "op/op_int.h"

#include <string.h>

static ig_status qkv_shape(ig__type *out, const ig__type *const *in, int n_in,
                           const void *attrs, ig_error *err)
{
    const ig__qkv_attrs *a = attrs;
    for (int i = 1; i < 4; i++)
        IG_TRY(ig__check_product("qkv", in[0], in[i], err));
    const int64_t w = a->width;
    if (w < 1 || w % IG_GROUP || in[1]->dims[0].plus % w || in[2]->dims[0].plus % w ||
        in[2]->dims[0].plus != in[3]->dims[0].plus)
        return ig__fail_shapes(err, "qkv", "heads do not fit", in[1], in[2]);
    if (in[4]->n_dims != 3 || 2 * in[4]->dims[1].plus > w)
        return ig__fail_shapes(err, "qkv", "the table does not fit", in[4], NULL);
    if (n_in != (a->norms ? 7 : 5) ||
        (a->norms && (!ig__is_vector(in[5], w) || !ig__is_vector(in[6], w))))
        return ig__fail_shapes(err, "qkv", "gains do not fit", in[0], NULL);
    *out = (ig__type){.dtype = IG_DTYPE_F32, .n_dims = 3};
    out->dims[0] = in[0]->dims[0];
    out->dims[1] = ig__dim_of(in[1]->dims[0].plus / w);
    out->dims[2] = ig__dim_of(w);
    return IG_OK;
}

static int64_t n_blocks_of(const ig__step_args *s)
{
    return (s->out.rows + IG_TOKEN_BLOCK - 1) / IG_TOKEN_BLOCK;
}

static int64_t qkv_items(const ig__step_args *s)
{
    const ig__qkv_attrs *a = s->attrs;
    return n_blocks_of(s) * ((s->in[1].rows + s->in[2].rows) / a->width);
}

/* y [n][W] = the head's rows of w times columns [column, column + n). */
static void head_product(const ig__step_args *s, float *y, const ig__operand *w,
                         int64_t head, int64_t column, int64_t n, float *block)
{
    const ig__qkv_attrs *a = s->attrs;
    const int64_t groups = a->width / IG_GROUP;
    for (int64_t g = 0; g < groups; g++) {
        ig__product(s, block, w, head * groups + g, column, n,
                    block + IG_TOKEN_BLOCK * IG_GROUP);
        for (int64_t c = 0; c < n; c++)
            memcpy(y + c * a->width + g * IG_GROUP, block + c * IG_GROUP, IG_GROUP * 4);
    }
}

/* Normalise (with gains at input `gain`) and rotate the head's rows in place. */
static void norm_and_rotate(const ig__step_args *s, float *y, int64_t column, int64_t n,
                            int gain)
{
    const ig__qkv_attrs *a = s->attrs;
    for (int64_t c = 0; c < n; c++) {
        float *row = y + c * a->width;
        if (a->norms)
            s->k->rms_norm(row, row, s->in[gain].data, a->width, a->eps);
        s->k->rope(row, ig__row_f32(&s->in[4], column + c), s->in[4].width, a->halves);
    }
}

static void kv_head(const ig__step_args *s, int64_t head, int64_t column, int64_t n,
                    float *key, float *value, float *block)
{
    const ig__qkv_attrs *a = s->attrs;
    head_product(s, key, &s->in[2], head, column, n, block);
    head_product(s, value, &s->in[3], head, column, n, block);
    norm_and_rotate(s, key, column, n, 6);
    for (int64_t c = 0; c < n; c++)
        ig__cache_put(s, a->layer, head, column + c, key + c * a->width,
                      value + c * a->width);
}

static void q_head(const ig__step_args *s, int64_t head, int64_t column, int64_t n,
                   float *y, float *block)
{
    const ig__qkv_attrs *a = s->attrs;
    head_product(s, y, &s->in[1], head, column, n, block);
    norm_and_rotate(s, y, column, n, 5);
    for (int64_t c = 0; c < n; c++)
        memcpy(ig__row_f32(&s->out, column + c) + head * a->width, y + c * a->width,
               (size_t)a->width * 4);
}

static void qkv_run(const ig__step_args *s, int64_t begin, int64_t end)
{
    const ig__qkv_attrs *a = s->attrs;
    const int64_t n_kv = s->in[2].rows / a->width, heads = s->in[1].rows / a->width + n_kv;
    float *key = s->scratch, *value = key + IG_TOKEN_BLOCK * a->width;
    float *block = value + IG_TOKEN_BLOCK * a->width;
    for (int64_t i = begin; i < end; i++) {
        const int64_t head = i % heads, column = i / heads * IG_TOKEN_BLOCK;
        const int64_t left = s->out.rows - column;
        const int64_t n = left < IG_TOKEN_BLOCK ? left : IG_TOKEN_BLOCK;
        if (head < n_kv)
            kv_head(s, head, column, n, key, value, block);
        else
            q_head(s, head - n_kv, column, n, key, block);
    }
}

static size_t qkv_scratch(const ig__type *const *in, int n_in, const ig__type *out,
                          const void *attrs)
{
    (void)n_in, (void)out;
    const ig__qkv_attrs *a = attrs;
    return (size_t)(2 * IG_TOKEN_BLOCK * a->width + IG_TOKEN_BLOCK * IG_GROUP) * 4 +
           IG_GEMM_SCRATCH(in[1]->dims[1].plus);
}

static void qkv_cost(ig__cost *cost, const ig__type *const *in, int n_in,
                     const ig__type *out, const void *attrs, const ig__bind *bind)
{
    (void)n_in, (void)out, (void)attrs;
    for (int i = 1; i < 4; i++) {
        cost->ops += 2.0 * (double)ig__dim_value(in[0]->dims[0], bind) *
                     (double)in[i]->dims[0].plus * (double)in[i]->dims[1].plus;
        cost->weight_bytes += (double)ig__type_bytes(in[i], bind, 1);
    }
}

const ig__op ig__op_qkv_packed = {.name = "qkv_packed",
                                  .n_in_least = 5,
                                  .n_in_most = 7,
                                  .attrs_bytes = sizeof(ig__qkv_attrs),
                                  .fused = true,
                                  .effect = true,
                                  .walk = IG_WALK_ITEMS,
                                  .shape = qkv_shape,
                                  .n_items = qkv_items,
                                  .run = qkv_run,
                                  .scratch = qkv_scratch,
                                  .cost = qkv_cost};
