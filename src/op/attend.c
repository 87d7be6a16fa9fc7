/* Attention over arrays, for training: softmax(scale q k^T + mask) v, tiled, the scores never stored
 * (Dao, "FlashAttention-2", 2023, sections 3.1 and 3.2). Of the softmax only each row's
 * log-sum-exp is kept; the gradient, a row too, makes the weights again tile by tile.
 *
 *   q [B,H,T,W], k [B,G,S,W], v [B,G,S,W] [, mask [B,H,T,S]] [, key [2]] -> y [B,H,T,W], lse [B,H,T]
 *
 * Query i sees key j if j <= i + S - T (causal: the last query sees the last key), j > i + S - T -
 * window, and where the mask allows. What is hidden has no effect, be it NaN; a row that sees
 * nothing gives zeros. f32 goes to the kernels (kernel/train.h); f64, for checks of gradients,
 * to plain loops here. Gradients of gradients are made of plain operators.
 */
#include "op/attend.h"
#include "op/random.h"

#include "ingot/op.h"
#include "op/autocast.h"
#include "op/op_int.h"

#include <math.h>
#include <string.h>

/* The mask and the key behind the first n operands; NULL: none. */
static const ig__array *mask_behind(const ig__eval *e, int n)
{
    return ((const ig__attend_attrs *)e->attrs)->masked ? &e->in[n] : NULL;
}
static const ig__array *key_behind(const ig__eval *e)
{
    return ((const ig__attend_attrs *)e->attrs)->dropout > 0 ? &e->in[e->n_in - 1] : NULL;
}

static int64_t dim(const ig__type *t, int d)
{
    return t->dims[d].plus;
}

/* ---- shapes ---------------------------------------------------------------------------------------- */

static ig_status attend_check(const ig__type *const *in, const ig__type *mask,
                              ig_error *err)
{
    const ig__type *q = in[0], *k = in[1], *v = in[2];
    if (q->n_dims != 4 || (q->dtype != IG_DTYPE_F32 && q->dtype != IG_DTYPE_F64) ||
        k->n_dims != 4 || q->dtype != k->dtype || dim(q, 0) != dim(k, 0) ||
        dim(q, 3) != dim(k, 3))
        return ig__fail_shapes(err, "attention", "wants q [B,H,T,W] and k [B,G,S,W]", q, k);
    if (!ig__type_same(k, v))
        return ig__fail_shapes(err, "attention", "keys and values differ", k, v);
    if (dim(k, 1) < 1 || dim(q, 1) % dim(k, 1))
        return ig__fail_shapes(err, "attention", "heads do not share keys evenly", q, k);
    if (dim(q, 3) < 1 || dim(q, 3) > IG__MAX_ATTEND)
        return ig__fail_shapes(err, "attention", "takes heads of 1 to 256", q, k);
    if (mask &&
        (mask->n_dims != 4 || dim(mask, 0) != dim(q, 0) || dim(mask, 1) != dim(q, 1) ||
         dim(mask, 2) != dim(q, 2) || dim(mask, 3) != dim(k, 2) ||
         (mask->dtype != IG_DTYPE_BOOL && mask->dtype != q->dtype)))
        return ig__fail_shapes(err, "attention", "the mask does not fit", q, mask);
    return IG_OK;
}

static ig_status attend_shape(ig__type *out, const ig__type *const *in, int n_in,
                              const void *attrs, ig_error *err)
{
    (void)n_in;
    IG_TRY(attend_check(in, ((const ig__attend_attrs *)attrs)->masked ? in[3] : NULL, err));
    out[0] = out[1] = *in[0];
    out[1].n_dims = 3;
    return IG_OK;
}

/* q, k, v, y, lse, dy [, mask] [, key] -> dq, dk, dv */
static ig_status attend_grad_shape(ig__type *out, const ig__type *const *in, int n_in,
                                   const void *attrs, ig_error *err)
{
    (void)n_in;
    IG_TRY(attend_check(in, ((const ig__attend_attrs *)attrs)->masked ? in[6] : NULL, err));
    if (!ig__type_same(in[0], in[3]) || !ig__type_same(in[0], in[5]))
        return ig__fail_shapes(err, "attention", "the gradient does not fit", in[0], in[5]);
    for (int i = 0; i < 3; i++)
        out[i] = *in[i];
    return IG_OK;
}

/* ---- plain loops in double ------------------------------------------------------------------------------ */

/* What a run works on: strides of batch, head and row. */
typedef struct rows_f64 {
    double *data;
    int64_t strides[3];
} rows_f64;

static rows_f64 rows_of(const ig__array *x)
{
    return (rows_f64){(double *)(void *)x->data,
                      {x->strides[0], x->strides[1], x->strides[2]}};
}
static double *row(const rows_f64 *r, int64_t b, int64_t h, int64_t t)
{
    return r->data + b * r->strides[0] + h * r->strides[1] + t * r->strides[2];
}

/* What is added to the score of query t and key s; -inf: hidden. */
static double bias_f64(const ig__eval *e, const ig__array *mask, int64_t b, int64_t h,
                       int64_t t, int64_t s)
{
    const ig__attend_attrs *a = e->attrs;
    const int64_t last = t + dim(e->in[1].type, 2) - dim(e->in[0].type, 2);
    if ((a->causal && s > last) || (a->window > 0 && s <= last - a->window))
        return -(double)INFINITY;
    if (!mask)
        return 0;
    const int64_t *by = mask->strides;
    const int64_t at = b * by[0] + h * by[1] + t * by[2] + s * by[3];
    if (mask->type->dtype == IG_DTYPE_BOOL)
        return mask->data[at] ? 0 : -(double)INFINITY;
    return ((const double *)(void *)mask->data)[at];
}

static double dot_f64(const double *x, const double *y, int64_t w)
{
    double sum = 0;
    for (int64_t i = 0; i < w; i++)
        sum += x[i] * y[i];
    return sum;
}

static void axpy_f64(double *y, const double *x, double a, int64_t w)
{
    for (int64_t i = 0; i < w; i++)
        y[i] += a * x[i];
}

/* scores [S]; returns the log-sum-exp, -inf where nothing is seen */
static double scores_f64(const ig__eval *e, double *scores, const ig__array *mask,
                         int64_t b, int64_t h, int64_t t)
{
    const ig__attend_attrs *a = e->attrs;
    const rows_f64 q = rows_of(&e->in[0]), k = rows_of(&e->in[1]);
    const int64_t n_keys = dim(e->in[1].type, 2), w = dim(e->in[0].type, 3);
    const int64_t kv = h / (dim(e->in[0].type, 1) / dim(e->in[1].type, 1));
    double largest = -(double)INFINITY, sum = 0;
    for (int64_t s = 0; s < n_keys; s++) {
        scores[s] = bias_f64(e, mask, b, h, t, s);
        if (scores[s] != -(double)INFINITY)
            scores[s] += a->scale * dot_f64(row(&q, b, h, t), row(&k, b, kv, s), w);
        largest = scores[s] > largest || scores[s] != scores[s] ? scores[s] : largest;
    }
    if (largest == -(double)INFINITY)
        return largest;
    for (int64_t s = 0; s < n_keys; s++)
        sum += exp(scores[s] - largest);
    return largest + log(sum);
}

/* What dropout multiplies the weights of a query with, [S] behind the scores; NULL: nothing. */
static const float *factors_f64(const ig__eval *e, int64_t row)
{
    const ig__attend_attrs *a = e->attrs;
    const ig__array *key = key_behind(e);
    const int64_t n = dim(e->in[1].type, 2);
    float *y = (float *)((double *)e->scratch + n);
    if (!key)
        return NULL;
    const int64_t *drawn = (const int64_t *)(const void *)key->data;
    for (int64_t s = 0; s < n; s++)
        y[s] = 1;
    e->t->dropout(y, y, (uint64_t)drawn[0], (uint64_t)drawn[1], (uint64_t)(row * n), n,
                  a->dropout);
    return y;
}

/* One of them, in double. */
static double factor_at(const ig__eval *e, const float *factors, int64_t s)
{
    const ig__attend_attrs *a = e->attrs;
    return !factors ? 1 : factors[s] != 0 ? 1 / (1 - a->dropout) : 0;
}

/* Unit: a query head. */
static void attend_f64(const ig__eval *e, int64_t unit)
{
    const ig__array *mask = mask_behind(e, 3);
    const rows_f64 v = rows_of(&e->in[2]), y = rows_of(&e->out[0]);
    const int64_t heads = dim(e->in[0].type, 1), b = unit / heads, h = unit % heads;
    const int64_t kv = h / (heads / dim(e->in[1].type, 1)), w = dim(e->in[0].type, 3);
    const int64_t n_queries = dim(e->in[0].type, 2);
    double *scores = e->scratch, *lse = (double *)(void *)e->out[1].data;
    for (int64_t t = 0; t < n_queries; t++) {
        const double l = scores_f64(e, scores, mask, b, h, t);
        lse[unit * n_queries + t] = l;
        const float *factors = factors_f64(e, unit * n_queries + t);
        memset(row(&y, b, h, t), 0, (size_t)w * 8);
        for (int64_t s = 0; s < dim(e->in[1].type, 2); s++)
            if (scores[s] != -(double)INFINITY)
                axpy_f64(row(&y, b, h, t), row(&v, b, kv, s),
                         exp(scores[s] - l) * factor_at(e, factors, s), w);
    }
}

/* Query t of head h: its row of dq, and what it adds to dk and dv. */
static void attend_grad_row_f64(const ig__eval *e, int64_t b, int64_t h, int64_t t)
{
    const ig__attend_attrs *a = e->attrs;
    const rows_f64 q = rows_of(&e->in[0]), k = rows_of(&e->in[1]), v = rows_of(&e->in[2]);
    const rows_f64 y = rows_of(&e->in[3]), dy = rows_of(&e->in[5]);
    const rows_f64 dq = rows_of(&e->out[0]), dk = rows_of(&e->out[1]),
                   dv = rows_of(&e->out[2]);
    const int64_t kv = h / (dim(e->in[0].type, 1) / dim(e->in[1].type, 1));
    const int64_t w = dim(e->in[0].type, 3);
    double *scores = e->scratch;
    const double lse = scores_f64(e, scores, mask_behind(e, 6), b, h, t);
    const float *factors =
        factors_f64(e, (b * dim(e->in[0].type, 1) + h) * dim(e->in[0].type, 2) + t);
    const double along = dot_f64(row(&dy, b, h, t), row(&y, b, h, t), w);
    memset(row(&dq, b, h, t), 0, (size_t)w * 8);
    for (int64_t s = 0; s < dim(e->in[1].type, 2); s++) {
        if (scores[s] == -(double)INFINITY)
            continue;
        const double p = exp(scores[s] - lse);
        const double d = dot_f64(row(&dy, b, h, t), row(&v, b, kv, s), w);
        const double f = factor_at(e, factors, s), ds = a->scale * p * (f * d - along);
        axpy_f64(row(&dv, b, kv, s), row(&dy, b, h, t), p * f, w);
        axpy_f64(row(&dq, b, h, t), row(&k, b, kv, s), ds, w);
        axpy_f64(row(&dk, b, kv, s), row(&q, b, h, t), ds, w);
    }
}

/* Unit: a key head with all the queries that read it. */
static void attend_grad_f64(const ig__eval *e, int64_t unit)
{
    const int64_t heads = dim(e->in[0].type, 1), kv_heads = dim(e->in[1].type, 1);
    const int64_t b = unit / kv_heads, kv = unit % kv_heads, share = heads / kv_heads;
    const rows_f64 dk = rows_of(&e->out[1]), dv = rows_of(&e->out[2]);
    for (int64_t t = 0; t < dim(e->in[1].type, 2); t++) {
        memset(row(&dk, b, kv, t), 0, (size_t)dim(e->in[1].type, 3) * 8);
        memset(row(&dv, b, kv, t), 0, (size_t)dim(e->in[1].type, 3) * 8);
    }
    for (int64_t h = kv * share; h < (kv + 1) * share; h++)
        for (int64_t t = 0; t < dim(e->in[0].type, 2); t++)
            attend_grad_row_f64(e, b, h, t);
}

/* ---- evaluation -------------------------------------------------------------------------------------------- */

static bool is_f64(const ig__eval *e)
{
    return e->in[0].type->dtype == IG_DTYPE_F64;
}

static void set_strides(int64_t strides[3], const ig__array *x)
{
    for (int d = 0; d < 3; d++)
        strides[d] = x->strides[d];
}

/* The kernel's view of q, k, v and the mask. */
static ig__attention attention_of(const ig__eval *e, const ig__array *mask)
{
    const ig__attend_attrs *attrs = e->attrs;
    const ig__type *q = e->in[0].type, *k = e->in[1].type;
    ig__attention a = {.batch = dim(q, 0),
                       .heads = dim(q, 1),
                       .kv_heads = dim(k, 1),
                       .n_queries = dim(q, 2),
                       .n_keys = dim(k, 2),
                       .width = dim(q, 3),
                       .scale = (float)attrs->scale,
                       .causal = attrs->causal,
                       .window = attrs->window,
                       .q = (const void *)e->in[0].data,
                       .k = (const void *)e->in[1].data,
                       .v = (const void *)e->in[2].data};
    set_strides(a.q_stride, &e->in[0]);
    set_strides(a.k_stride, &e->in[1]);
    set_strides(a.v_stride, &e->in[2]);
    if (key_behind(e)) {
        const int64_t *drawn = (const int64_t *)(const void *)key_behind(e)->data;
        a.dropout = attrs->dropout;
        a.seed = (uint64_t)drawn[0];
        a.stream = (uint64_t)drawn[1];
        a.drop = e->t->dropout;
    }
    if (!mask)
        return a;
    const bool allows = mask->type->dtype == IG_DTYPE_BOOL;
    if (allows)
        a.allowed = (const uint8_t *)mask->data;
    else
        a.mask = (const void *)mask->data;
    memcpy(allows ? a.allowed_stride : a.mask_stride, mask->strides, sizeof a.mask_stride);
    return a;
}

static ig__attention forward_of(const ig__eval *e)
{
    ig__attention a = attention_of(e, mask_behind(e, 3));
    a.out = (void *)e->out[0].data;
    a.lse = (void *)e->out[1].data;
    set_strides(a.out_stride, &e->out[0]);
    return a;
}

static ig__attention backward_of(const ig__eval *e)
{
    ig__attention a = attention_of(e, mask_behind(e, 6));
    a.out = (void *)e->in[3].data;
    a.lse = (void *)e->in[4].data;
    a.dout = (const void *)e->in[5].data;
    a.dq = (void *)e->out[0].data;
    a.dk = (void *)e->out[1].data;
    a.dv = (void *)e->out[2].data;
    set_strides(a.out_stride, &e->in[3]);
    set_strides(a.dout_stride, &e->in[5]);
    set_strides(a.dq_stride, &e->out[0]);
    set_strides(a.dk_stride, &e->out[1]);
    set_strides(a.dv_stride, &e->out[2]);
    return a;
}

int64_t ig__attend_units(const ig__eval *e)
{
    const ig__attention a = forward_of(e);
    return is_f64(e) ? a.batch * a.heads : ig__attention_items(&a);
}

int64_t ig__attend_grad_units(const ig__eval *e)
{
    const ig__attention a = backward_of(e);
    return is_f64(e) ? a.batch * a.kv_heads : ig__attention_grad_items(&a);
}

ig__room ig__attend_room(const ig__eval *e)
{
    const ig__attention a = forward_of(e);
    return (ig__room){.each =
                          is_f64(e) ? (size_t)a.n_keys * 12 : ig__attention_scratch(&a)};
}

ig__room ig__attend_grad_room(const ig__eval *e)
{
    const ig__attention a = backward_of(e);
    return (ig__room){.each = is_f64(e) ? (size_t)a.n_keys * 12
                                        : ig__attention_grad_scratch(&a)};
}

double ig__attend_work(const ig__eval *e)
{
    /* two products, about 16 multiply-adds a nanosecond */
    return (double)e->in[0].n * (double)dim(e->in[1].type, 2) / 8;
}

void ig__attend_eval(const ig__eval *e, int64_t begin, int64_t end)
{
    const ig__attention a = forward_of(e);
    if (!is_f64(e))
        e->t->attention(&a, begin, end, e->scratch);
    for (int64_t unit = begin; unit < end && is_f64(e); unit++)
        attend_f64(e, unit);
}

void ig__attend_grad_eval(const ig__eval *e, int64_t begin, int64_t end)
{
    const ig__attention a = backward_of(e);
    if (!is_f64(e))
        e->t->attention_grad(&a, begin, end, e->scratch);
    for (int64_t unit = begin; unit < end && is_f64(e); unit++)
        attend_grad_f64(e, unit);
}

/* ---- gradients ------------------------------------------------------------------------------------------ */

/* Which keys a query sees by position: [T,S] bool, or NULL for all. */
static ig_tensor *seen(ig_context *ctx, const ig__attend_attrs *a, int64_t n_queries,
                       int64_t n_keys)
{
    ig_tensor *last = ig_unsqueeze(
        ig_arange(ctx, IG_DTYPE_I64, (double)(n_keys - n_queries), 1, n_queries), 1);
    ig_tensor *key = ig_arange(ctx, IG_DTYPE_I64, 0, 1, n_keys), *y = NULL;
    if (a->causal)
        y = ig_less_equal(key, last);
    if (a->window > 0) {
        ig_tensor *first = ig_add_scalar(last, (double)-a->window);
        y = y ? ig_logical_and(y, ig_less(first, key)) : ig_less(first, key);
    }
    return y;
}

/* [B,H,..,..] as [B,G,H/G*..,..]: queries of heads that share keys stand below one another. */
static ig_tensor *stacked(ig_tensor *x, int64_t kv_heads)
{
    const ig__type *t = &x->type;
    const int64_t dims[4] = {dim(t, 0), kv_heads, dim(t, 1) / kv_heads * dim(t, 2),
                             dim(t, 3)};
    return ig_reshape(x, 4, dims);
}

static ig_tensor *where_seen(ig_tensor *x, ig_tensor *by, double otherwise)
{
    return by ? ig_where(by, x, ig_tensor_scalar(x->ctx, x->type.dtype, otherwise)) : x;
}

/* Out of plain operators, for gradients of gradients. */
void ig__attend_by_parts(ig__gradient *g)
{
    const ig__attend_attrs *a = g->attrs;
    ig_tensor *q = g->in[0], *k = g->in[1], *v = g->in[2], *dy = g->d_out[0];
    ig_tensor *mask = a->masked ? g->in[3] : NULL;
    const int64_t groups = dim(&k->type, 1), n_keys = dim(&k->type, 2);
    int64_t q_dims[4], wide[4];
    for (int d = 0; d < 4; d++)
        q_dims[d] = wide[d] = dim(&q->type, d);
    wide[3] = n_keys;
    const int last = -1;
    ig_tensor *scores =
        ig_scale(ig_matmul(stacked(q, groups), ig_transpose(k, -1, -2)), a->scale);
    scores = ig_reshape(scores, 4, wide);
    if (mask && mask->type.dtype != IG_DTYPE_BOOL)
        scores = ig_add(scores, mask);
    if (mask && mask->type.dtype == IG_DTYPE_BOOL)
        scores = where_seen(scores, mask, -(double)INFINITY);
    scores = where_seen(scores, seen(g->ctx, a, q_dims[2], n_keys), -(double)INFINITY);
    ig_tensor *p = ig_softmax(scores, -1);
    if (!p || !dy)
        return;
    ig_tensor *kept = p;
    if (a->dropout > 0)
        kept = ig__dropout_again(p, g->in[g->n_in - 1], a->dropout);
    p = stacked(p, groups);
    dy = stacked(dy, groups);
    if (ig__wants(g, 2))
        g->d_in[2] = ig_matmul(ig_transpose(stacked(kept, groups), -1, -2), dy);
    ig_tensor *dp = ig_matmul(dy, ig_transpose(v, -1, -2));
    if (a->dropout > 0) {
        dp = ig__dropout_again(ig_reshape(dp, 4, wide), g->in[g->n_in - 1], a->dropout);
        dp = stacked(dp, groups);
    }
    ig_tensor *ds = ig_mul(p, ig_sub(dp, ig_sum(ig_mul(dp, p), 1, &last, true)));
    ds = ig_scale(ds, a->scale);
    if (ig__wants(g, 0))
        g->d_in[0] = ig_reshape(ig_matmul(ds, k), 4, q_dims);
    if (ig__wants(g, 1))
        g->d_in[1] = ig_matmul(ig_transpose(ds, -1, -2), stacked(q, groups));
}

/* Rows contiguous, as the kernels want them. */
static ig_tensor *with_rows(ig_tensor *x)
{
    return x && x->strides[3] != 1 && x->type.dims[3].plus > 1 ? ig_contiguous(x) : x;
}

static void attend_gradient(ig__gradient *g)
{
    if (!g->d_out[0])
        return;
    if (!g->ctx->no_grad) {
        ig__attend_by_parts(g);
        return;
    }
    ig_tensor *in[8] = {g->in[0],  g->in[1],  g->in[2],
                        g->out[0], g->out[1], with_rows(g->d_out[0])};
    ig_tensor *out[3];
    for (int i = 3; i < g->n_in; i++)
        in[3 + i] = g->in[i];
    ig__apply_all(g->ctx, &ig__op_attention_tiled_grad, g->attrs, in, 3 + g->n_in, out);
    for (int i = 0; i < 3; i++)
        g->d_in[i] = out[i];
}

#define ALL (IG_IN(0) | IG_IN(1) | IG_IN(2) | IG_IN(3) | IG_IN(4) | IG_OUT(0) | IG_OUT(1))
const ig__op ig__op_attention_tiled = {.name = "attention_tiled",
                                       .n_in_least = 3,
                                       .n_in_most = 5,
                                       .attrs_bytes = sizeof(ig__attend_attrs),
                                       .shape = attend_shape,
                                       .n_out = 2,
                                       .n_units = ig__attend_units,
                                       .eval = ig__attend_eval,
                                       .room = ig__attend_room,
                                       .work = ig__attend_work,
                                       .gradient = attend_gradient,
                                       .needs = {ALL, ALL, ALL},
                                       .precision = IG_PRECISION_LOW,
                                       .keeps = 0xffff};

const ig__op ig__op_attention_tiled_grad = {.name = "attention_tiled_grad",
                                            .n_in_least = 6,
                                            .n_in_most = 8,
                                            .attrs_bytes = sizeof(ig__attend_attrs),
                                            .shape = attend_grad_shape,
                                            .n_out = 3,
                                            .n_units = ig__attend_grad_units,
                                            .eval = ig__attend_grad_eval,
                                            .room = ig__attend_grad_room,
                                            .work = ig__attend_work,
                                            .gradient = ig__gradient_missing,
                                            .precision = IG_PRECISION_LOW,
                                            .keeps = 0xffff};

/* ---- public ------------------------------------------------------------------------------------------- */

/* The mask over [B,H,T,S] in a type that the kernels take; NULL: a failure. */
static ig_tensor *ready_mask(ig_tensor *mask, ig_tensor *q, ig_tensor *k)
{
    if (mask->wants_grad && !q->ctx->no_grad)
        return ig__fail_on(q->ctx, IG_ERR_UNSUPPORTED,
                           "attention: no gradient flows to the mask; detach it");
    if (mask->type.dtype != IG_DTYPE_BOOL)
        mask = ig__cast(mask, q->type.dtype);
    const int64_t dims[4] = {dim(&q->type, 0), dim(&q->type, 1), dim(&q->type, 2),
                             dim(&k->type, 2)};
    return ig_expand(mask, 4, dims);
}

ig_tensor *ig_attention(ig_tensor *q, ig_tensor *k, ig_tensor *v,
                        const ig_attention_opts *opts)
{
    static const ig_attention_opts defaults = {0};
    const ig_attention_opts *o = opts ? opts : &defaults;
    ig_tensor *in[5] = {q, k, v}, *out[2];
    ig__attend_attrs attrs;
    ig_dtype result;
    int n = 3;
    if (!k || !v || !ig__autocast_low(in, 3) || !ig__alike("attention", in, 3, &result))
        return NULL;
    for (int i = 0; i < 3; i++) {
        if (in[i]->type.n_dims != 4)
            return ig__fail_shapes(&q->ctx->error, "attention",
                                   "wants q [B,H,T,W] and k, v [B,G,S,W]", &q->type,
                                   &in[i]->type),
                   NULL;
        if (!(in[i] = with_rows(in[i])))
            return NULL;
    }
    if (o->window < 0)
        return ig__fail_on(q->ctx, IG_ERR_ARGUMENT, "attention: a window of %lld",
                           (long long)o->window);
    if (!(o->dropout >= 0 && o->dropout <= 1))
        return ig__fail_on(q->ctx, IG_ERR_ARGUMENT,
                           "attention: dropout is %g, allowed is 0 to 1", o->dropout);
    memset(&attrs, 0, sizeof attrs);
    attrs.causal = o->causal;
    attrs.masked = o->mask != NULL;
    attrs.dropout = o->dropout;
    attrs.window = o->window;
    attrs.scale = o->scale != 0 ? o->scale : 1 / sqrt((double)dim(&q->type, 3));
    if (o->mask && !(in[n++] = ready_mask(o->mask, in[0], in[1])))
        return NULL;
    if (o->dropout > 0 && !(in[n++] = ig__random_key(q->ctx)))
        return NULL;
    ig__apply_all(NULL, &ig__op_attention_tiled, &attrs, in, n, out);
    return out[0] ? ig__cast(out[0], result) : NULL;
}
