/* Attention: the plain row; and over the paged cache (Kwon et al., "PagedAttention", 2023, section
 * 4.1): writing, attending span by span, joining.
 *
 * Softmax is computed online (Milakov and Gimelshein, 2018) within spans of IG_KEY_SPAN keys, each from
 * scratch, and the spans are joined from the first to the last (FlashAttention-2, section 3.1, with
 * fixed spans): so a row's bits do not depend on how many threads share its keys.
 */
#include "op/op_int.h"

#include <math.h>
#include <string.h>

/* ---- attention: plain, without a cache ----------------------------------------------------------- */

static ig_status attention_shape(ig__type *out, const ig__type *const *in, int n_in,
                                 const void *attrs, ig_error *err)
{
    (void)n_in, (void)attrs;
    for (int i = 0; i < 3; i++)
        if (!ig__is_rows_f32(in[i]) || in[i]->n_dims != 3)
            return ig__fail_shapes(err, "attention", "wants [T,H,W]", in[i], NULL);
    if (in[0]->dims[2].plus != in[1]->dims[2].plus || !ig__type_same(in[1], in[2]) ||
        in[0]->dims[1].plus % in[1]->dims[1].plus)
        return ig__fail_shapes(err, "attention", "heads do not fit", in[0], in[1]);
    *out = *in[0];
    return IG_OK;
}

static int64_t attention_items(const ig__step_args *s)
{
    return s->out.type->dims[1].plus;
}

/* One row of one head: keys of the same sequence from `first` to the row itself. */
static void attend_row(const ig__step_args *s, int64_t head, int64_t t, int64_t first)
{
    const ig__attention_attrs *a = s->attrs;
    const int64_t w = s->out.type->dims[2].plus;
    const int64_t kv = head / (s->out.type->dims[1].plus / s->in[1].type->dims[1].plus);
    const float *q = ig__row_f32(&s->in[0], t) + head * w;
    float *y = ig__row_f32(&s->out, t) + head * w;
    double sum = 0, acc[IG_MAX_HEAD] = {0};
    float largest = -INFINITY;
    for (int pass = 0; pass < 2; pass++) {
        for (int64_t i = first; i <= t; i++) {
            const float *key = ig__row_f32(&s->in[1], i) + kv * w;
            const float *value = ig__row_f32(&s->in[2], i) + kv * w;
            double score = 0;
            for (int64_t d = 0; d < w; d++)
                score += (double)(q[d] * a->scale) * (double)key[d];
            if (pass == 0) {
                largest = fmaxf(largest, (float)score);
                continue;
            }
            const double p = exp(score - (double)largest);
            sum += p;
            for (int64_t d = 0; d < w; d++)
                acc[d] += p * (double)value[d];
        }
    }
    for (int64_t d = 0; d < w; d++)
        y[d] = (float)(acc[d] / sum);
}

static void attention_run(const ig__step_args *s, int64_t begin, int64_t end)
{
    const ig__attention_attrs *a = s->attrs;
    const int32_t *const *tables = s->batch->tables;
    for (int64_t head = begin; head < end; head++) {
        for (int64_t t = 0, start = 0; t < s->out.rows; t++) {
            if (tables[t] != tables[start])
                start = t;
            const int64_t first =
                a->window && t - a->window + 1 > start ? t - a->window + 1 : start;
            attend_row(s, head, t, first);
        }
    }
}

const ig__op ig__op_attention = {.name = "attention",
                                 .n_in_least = 3,
                                 .n_in_most = 3,
                                 .attrs_bytes = sizeof(ig__attention_attrs),
                                 .walk = IG_WALK_ITEMS,
                                 .shape = attention_shape,
                                 .n_items = attention_items,
                                 .run = attention_run};

/* ---- cache_write ------------------------------------------------------------------------------ */

static char *page_of(const ig__cache *cache, int64_t layer, int64_t head, int32_t page)
{
    return cache->layers[layer] + (size_t)head * cache->page_bytes +
           (size_t)page * cache->page_stride;
}

void ig__cache_put(const ig__step_args *s, int64_t layer, int64_t head, int64_t row,
                   const float *key, const float *value)
{
    const ig__cache *cache = s->batch->cache;
    const int64_t position = s->batch->inputs[IG_INPUT_POSITIONS][row];
    void *page = page_of(cache, layer, head, s->batch->tables[row][position / IG_PAGE]);
    s->k->kv_write[cache->kv](page, position % IG_PAGE, key, value, cache->width);
}

static ig_status cache_write_shape(ig__type *out, const ig__type *const *in, int n_in,
                                   const void *attrs, ig_error *err)
{
    (void)n_in, (void)attrs;
    if (!ig__is_rows_f32(in[0]) || in[0]->n_dims != 3 || !ig__type_same(in[0], in[1]))
        return ig__fail_shapes(err, "cache_write", "wants k and v [T,G,W]", in[0], in[1]);
    *out = (ig__type){.dtype = IG_DTYPE_F32, .layout = IG_LAYOUT_STATE, .n_dims = 1};
    out->dims[0] = in[0]->dims[0];
    return IG_OK;
}

static int64_t cache_write_items(const ig__step_args *s)
{
    return s->in[0].type->dims[1].plus;
}

static void cache_write_run(const ig__step_args *s, int64_t begin, int64_t end)
{
    const ig__attention_attrs *a = s->attrs;
    const int64_t w = s->in[0].type->dims[2].plus;
    for (int64_t head = begin; head < end; head++)
        for (int64_t t = 0; t < s->in[0].rows; t++)
            ig__cache_put(s, a->layer, head, t, ig__row_f32(&s->in[0], t) + head * w,
                          ig__row_f32(&s->in[1], t) + head * w);
}

const ig__op ig__op_cache_write = {.name = "cache_write",
                                   .n_in_least = 2,
                                   .n_in_most = 2,
                                   .attrs_bytes = sizeof(ig__attention_attrs),
                                   .fused = true,
                                   .effect = true,
                                   .walk = IG_WALK_ITEMS,
                                   .shape = cache_write_shape,
                                   .n_items = cache_write_items,
                                   .run = cache_write_run};

/* ---- attend ------------------------------------------------------------------------------------ *
 *
 * Scratch of a thread, for R = IG_TILE * (H / G) query rows of width W:
 *   q [R][W] | acc [R][W] | acc2 [R][W] | m, l, m2, l2 [R] | lo, hi [R] | the kernel's own
 */

typedef struct attend_work {
    float *q, *acc, *acc2, *m, *l, *m2, *l2;
    int64_t *lo, *hi;
    void *scratch;
} attend_work;

static attend_work carve(void *scratch, int64_t r, int64_t w)
{
    attend_work k;
    float *f = scratch;
    k.q = f;
    k.acc = k.q + r * w;
    k.acc2 = k.acc + r * w;
    k.m = k.acc2 + r * w;
    k.l = k.m + r;
    k.m2 = k.l + r;
    k.l2 = k.m2 + r;
    k.lo = (int64_t *)(void *)(k.l2 + r);
    k.hi = k.lo + r;
    /* r * w and 8 * r floats: round up to the next line */
    const uintptr_t end = (uintptr_t)(k.hi + r);
    k.scratch = (void *)((end + 63) & ~(uintptr_t)63);
    return k;
}

static ig_status attend_shape(ig__type *out, const ig__type *const *in, int n_in,
                              const void *attrs, ig_error *err)
{
    (void)n_in, (void)attrs;
    if (!ig__is_rows_f32(in[0]) || in[0]->n_dims != 3 || in[0]->dims[2].plus > IG_MAX_HEAD)
        return ig__fail_shapes(err, "attend", "wants q [T,H,W]", in[0], NULL);
    *out = *in[0];
    out->layout = IG_LAYOUT_PARTIALS;
    return IG_OK;
}

static int64_t attend_items(const ig__step_args *s)
{
    const ig__batch *b = s->batch;
    return b->n_units * b->cache->n_heads * (b->split ? b->n_spans : 1);
}

/* The queries of a unit that share KV head `head`, scaled, and the keys that each of them sees. */
static void gather_queries(const ig__step_args *s, const ig__attend_unit *u, int64_t head,
                           attend_work *k)
{
    const ig__attention_attrs *a = s->attrs;
    const int64_t w = s->in[0].type->dims[2].plus;
    const int64_t shared = s->in[0].type->dims[1].plus / s->batch->cache->n_heads;
    for (int64_t t = 0; t < u->n_rows; t++) {
        const float *q = ig__row_f32(&s->in[0], u->row + t) + head * shared * w;
        s->k->scale(k->q + t * shared * w, q, a->scale, shared * w);
        const int64_t position = u->position + t;
        const int64_t lo = a->window ? position - a->window + 1 : 0;
        for (int64_t j = 0; j < shared; j++) {
            k->lo[t * shared + j] = lo > 0 ? lo : 0;
            k->hi[t * shared + j] = position;
        }
    }
}

/* One span of a unit's keys into m, l, acc; false when none of its keys is seen. */
static bool run_span(const ig__step_args *s, const ig__attend_unit *u, int64_t head,
                     int64_t span, attend_work *k, float *m, float *l, float *acc,
                     int64_t acc_stride)
{
    const ig__attention_attrs *a = s->attrs;
    const ig__cache *cache = s->batch->cache;
    const int64_t shared = s->in[0].type->dims[1].plus / cache->n_heads;
    const int64_t last = u->position + u->n_rows - 1;
    const int64_t begin = span * IG_KEY_SPAN;
    const int64_t end = last + 1 < begin + IG_KEY_SPAN ? last + 1 : begin + IG_KEY_SPAN;
    if (begin > last || end <= k->lo[0])
        return false;
    const ig__attend_args args = {
        .q = k->q,
        .q_stride = cache->width,
        .lo = k->lo,
        .hi = k->hi,
        .n_rows = u->n_rows * shared,
        .width = cache->width,
        .pages = page_of(cache, a->layer, head, 0),
        .table = u->table,
        .page_stride = cache->page_stride,
        .begin = begin,
        .end = end,
        .m = m,
        .l = l,
        .acc = acc,
        .acc_stride = acc_stride,
    };
    s->k->attend[cache->kv](&args, k->scratch);
    return true;
}

/* All spans of a unit, joined, to whole rows of the output. */
static void run_whole(const ig__step_args *s, const ig__attend_unit *u, int64_t head,
                      attend_work *k)
{
    const int64_t w = s->batch->cache->width;
    const int64_t shared = s->in[0].type->dims[1].plus / s->batch->cache->n_heads;
    const int64_t n = u->n_rows * shared;
    const int64_t last = (u->position + u->n_rows - 1) / IG_KEY_SPAN;
    for (int64_t i = 0; i < n; i++) {
        k->m[i] = -INFINITY;
        k->l[i] = 0;
    }
    memset(k->acc, 0, (size_t)(n * w) * 4);
    for (int64_t span = k->lo[0] / IG_KEY_SPAN; span <= last; span++)
        if (run_span(s, u, head, span, k, k->m2, k->l2, k->acc2, w))
            s->k->attend_join(k->m, k->l, k->acc, k->m2, k->l2, k->acc2, n, w, w, w);
    for (int64_t t = 0; t < u->n_rows; t++)
        for (int64_t j = 0; j < shared; j++)
            s->k->attend_finish(ig__row_f32(&s->out, u->row + t) + (head * shared + j) * w,
                                k->acc + (t * shared + j) * w, k->l[t * shared + j], w);
}

/* One span of a unit to the cut form of its rows' partials. */
static void run_cut(const ig__step_args *s, const ig__attend_unit *u, int64_t head,
                    int64_t span, attend_work *k)
{
    const int64_t w = s->batch->cache->width, h = s->in[0].type->dims[1].plus;
    const int64_t shared = h / s->batch->cache->n_heads, n_spans = s->batch->n_spans;
    const bool seen = run_span(s, u, head, span, k, k->m, k->l, k->acc, w);
    for (int64_t t = 0; t < u->n_rows; t++) {
        float *row =
            (float *)s->out.data + (u->row + t) * ig__partials_row(h, w, n_spans, true);
        for (int64_t j = 0; j < shared; j++) {
            float *part = row + ((head * shared + j) * n_spans + span) * (w + 2);
            const int64_t i = t * shared + j;
            part[0] = seen ? k->m[i] : -INFINITY;
            part[1] = seen ? k->l[i] : 0;
            if (seen)
                memcpy(part + 2, k->acc + i * w, (size_t)w * 4);
            else
                memset(part + 2, 0, (size_t)w * 4);
        }
    }
}

static void attend_run(const ig__step_args *s, int64_t begin, int64_t end)
{
    const ig__batch *b = s->batch;
    const int64_t heads = b->cache->n_heads, spans = b->split ? b->n_spans : 1;
    const int64_t shared = s->in[0].type->dims[1].plus / heads;
    attend_work k = carve(s->scratch, IG_TILE * shared, b->cache->width);
    for (int64_t i = begin; i < end; i++) {
        const int64_t span = i % spans, head = i / spans % heads;
        const ig__attend_unit *u = &b->units[i / spans / heads];
        gather_queries(s, u, head, &k);
        if (b->split)
            run_cut(s, u, head, span, &k);
        else
            run_whole(s, u, head, &k);
    }
}

static size_t attend_scratch(const ig__type *const *in, int n_in, const ig__type *out,
                             const void *attrs)
{
    (void)n_in, (void)out, (void)attrs;
    /* rows that share a KV head: at most all heads of a tile */
    const size_t r = (size_t)(IG_TILE * in[0]->dims[1].plus),
                 w = (size_t)in[0]->dims[2].plus;
    return r * (3 * w + 4) * 4 + r * 16 + 64 + IG_ATTEND_SCRATCH(r, w);
}

const ig__op ig__op_attend = {.name = "attend",
                              .n_in_least = 2,
                              .n_in_most = 2,
                              .attrs_bytes = sizeof(ig__attention_attrs),
                              .fused = true,
                              .walk = IG_WALK_ITEMS,
                              .shape = attend_shape,
                              .n_items = attend_items,
                              .run = attend_run,
                              .scratch = attend_scratch};

/* ---- attend_join, join_pack ---------------------------------------------------------------------- */

/* Row t of the partials as y [H][W]; returns y, or the partials themselves where they are whole. */
static const float *joined(const ig__step_args *s, int64_t t, float *y)
{
    const ig__type *type = s->in[0].type;
    const int64_t h = type->dims[1].plus, w = type->dims[2].plus;
    const int64_t n_spans = s->batch->n_spans;
    const float *row =
        (const float *)s->in[0].data + t * ig__partials_row(h, w, n_spans, s->batch->split);
    if (!s->batch->split)
        return row;
    for (int64_t i = 0; i < h; i++) {
        float m = -INFINITY, l = 0, *acc = y + i * w;
        memset(acc, 0, (size_t)w * 4);
        for (int64_t span = 0; span < n_spans; span++) {
            const float *part = row + (i * n_spans + span) * (w + 2);
            if (part[1] > 0 || part[1] != part[1])
                s->k->attend_join(&m, &l, acc, part, part + 1, part + 2, 1, w, w, w);
        }
        s->k->attend_finish(acc, acc, l, w);
    }
    return y;
}

static ig_status join_shape(ig__type *out, const ig__type *const *in, int n_in,
                            const void *attrs, ig_error *err)
{
    (void)n_in, (void)attrs;
    if (in[0]->layout != IG_LAYOUT_PARTIALS)
        return ig__fail_shapes(err, "attend_join", "wants partials", in[0], NULL);
    *out = *in[0];
    out->layout = IG_LAYOUT_ROWS;
    return IG_OK;
}

static void join_run(const ig__step_args *s, int64_t begin, int64_t end)
{
    const int64_t last = ig__tile_row(end, s->out.rows);
    for (int64_t t = ig__tile_row(begin, s->out.rows); t < last; t++) {
        float *y = ig__row_f32(&s->out, t);
        const float *row = joined(s, t, y);
        if (row != y)
            memcpy(y, row, (size_t)s->out.width * 4);
    }
}

const ig__op ig__op_attend_join = {.name = "attend_join",
                                   .n_in_least = 1,
                                   .n_in_most = 1,
                                   .fused = true,
                                   .walk = IG_WALK_ROWS,
                                   .shape = join_shape,
                                   .run = join_run};

static ig_status join_pack_shape(ig__type *out, const ig__type *const *in, int n_in,
                                 const void *attrs, ig_error *err)
{
    (void)n_in;
    const ig__pack_attrs *a = attrs;
    if (in[0]->layout != IG_LAYOUT_PARTIALS || ig__type_width(in[0]) % IG_QBLOCK)
        return ig__fail_shapes(err, "join_pack", "wants partials", in[0], NULL);
    *out = (ig__type){
        .dtype = IG_DTYPE_F32, .layout = IG_LAYOUT_ACTS, .acts = a->format, .n_dims = 2};
    out->dims[0] = in[0]->dims[0];
    out->dims[1] = ig__dim_of(ig__type_width(in[0]));
    return IG_OK;
}

static void join_pack_run(const ig__step_args *s, int64_t begin, int64_t end)
{
    float *row = s->scratch;
    const int64_t last = ig__tile_row(end, s->out.rows);
    for (int64_t t = ig__tile_row(begin, s->out.rows); t < last; t++)
        ig__pack_row(s, t, joined(s, t, row));
}

static size_t join_pack_scratch(const ig__type *const *in, int n_in, const ig__type *out,
                                const void *attrs)
{
    (void)n_in, (void)out, (void)attrs;
    return (size_t)ig__type_width(in[0]) * 4;
}

const ig__op ig__op_join_pack = {.name = "join_pack",
                                 .n_in_least = 1,
                                 .n_in_most = 1,
                                 .attrs_bytes = sizeof(ig__pack_attrs),
                                 .fused = true,
                                 .walk = IG_WALK_ROWS,
                                 .shape = join_pack_shape,
                                 .run = join_pack_run,
                                 .scratch = join_pack_scratch};
