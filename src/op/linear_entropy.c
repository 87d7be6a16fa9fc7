/* Cross entropy of an output layer, x [N,D] and w [V,D], without its logits [N,V] ever being whole.
 *
 *   for each chunk of rows   logits = x w^T + bias; loss += ..; dlogits
 *                            dx[chunk] = dlogits w;  dw += dlogits^T x[chunk];  dbias += ..
 *
 * The gradients are made on the way, while a chunk's logits are at hand, so that no product is done twice;
 * the row linear_entropy ties them to the loss, and backward only scales them. The size of a chunk
 * depends on V alone.
 *
 * Under mixed precision x and w come in 16 bits, logits, loss and gradients are f32, and dlogits are rounded
 * for their products. To f16 they are rounded F16_SCALE times as large, since 1/N of a small probability
 * would vanish.
 */
#include "op/network.h"

#include "ingot/grad.h"
#include "ingot/op.h"
#include "kernel/matmul.h"
#include "op/autocast.h"
#include "op/op_int.h"
#include "op/pointwise.h"
#include "op/product.h"

#include <string.h>

/* Bytes of a chunk's logits, in f32: a few times what caches hold. */
static const int64_t CHUNK_BYTES = 32 << 20;
/* softmax minus one-hot is at most 1, so this stays far below the 65504 of f16 */
static const double F16_SCALE = 4096;

/* ---- the row: loss, then n operands, then their gradients -> loss ---------------------------------- */

static ig_status tie_shape(ig__type *out, const ig__type *const *in, int n_in,
                           const void *attrs, ig_error *err)
{
    (void)attrs;
    if (in[0]->n_dims != 0 || n_in % 2 == 0)
        return ig__fail_shapes(err, "linear_entropy", "wants a loss", in[0], NULL);
    *out = *in[0];
    return IG_OK;
}

static void tie_eval(const ig__eval *e, int64_t begin, int64_t end)
{
    if (begin < end)
        memcpy(e->out[0].data, e->in[0].data, ig_dtype_block_bytes(e->out[0].type->dtype));
}

static void tie_gradient(ig__gradient *g)
{
    const int n = (g->n_in - 1) / 2;
    if (!g->ctx->no_grad) {
        ig__gradient_missing(g);
        return;
    }
    for (int i = 1; i <= n; i++)
        if (ig__wants(g, i))
            g->d_in[i] =
                ig_mul(ig__cast(g->d_out[0], g->in[n + i]->type.dtype), g->in[n + i]);
}

#define ALL (IG_IN(2) | IG_IN(3) | IG_IN(4) | IG_IN(5) | IG_IN(6))
const ig__op ig__op_linear_entropy = {.name = "linear_entropy",
                                      .n_in_least = 1,
                                      .n_in_most = 7,
                                      .shape = tie_shape,
                                      .eval = tie_eval,
                                      .gradient = tie_gradient,
                                      .needs = {0, ALL, ALL, ALL},
                                      .precision = IG_PRECISION_HIGH,
                                      .keeps = 0xffff};

/* ---- a product added to what is there: a [R,M], b [R,N] -> onto [M,N] += a^T b -------------------------- */

typedef struct adding {
    ig__mm_plan plan;
    ig__mm_data data;
} adding;

static bool number_of(ig__mm_type *out, ig_dtype dtype)
{
    *out = dtype == IG_DTYPE_F64    ? IG__MM_F64
           : dtype == IG_DTYPE_F16  ? IG__MM_F16
           : dtype == IG_DTYPE_BF16 ? IG__MM_BF16
                                    : IG__MM_F32;
    return ig__is_float(dtype);
}

static ig_status add_product_shape(ig__type *out, const ig__type *const *in, int n_in,
                                   const void *attrs, ig_error *err)
{
    (void)n_in, (void)attrs;
    const ig__type *onto = in[0], *a = in[1], *b = in[2];
    const ig_dtype sums = a->dtype == IG_DTYPE_F64 ? IG_DTYPE_F64 : IG_DTYPE_F32;
    if (onto->n_dims != 2 || a->n_dims != 2 || b->n_dims != 2 || !ig__is_float(a->dtype) ||
        a->dtype != b->dtype || onto->dtype != sums ||
        !ig__dim_same(a->dims[0], b->dims[0]) || !ig__dim_same(onto->dims[0], a->dims[1]) ||
        !ig__dim_same(onto->dims[1], b->dims[1]))
        return ig__fail_shapes(err, "add_product", "wants [R,M] and [R,N] onto [M,N]", a,
                               b);
    *out = *onto;
    return IG_OK;
}

/* Over arrays that are apart, it starts from in[0]; in place in[0] and the output are one. */
static void make_adding(adding *p, const ig__eval *e)
{
    const ig__array *onto = &e->in[0], *a = &e->in[1], *b = &e->in[2];
    ig__mm_problem q = {.m = onto->type->dims[0].plus,
                        .n = onto->type->dims[1].plus,
                        .k = a->type->dims[0].plus,
                        .n_batch = {1, 1},
                        .a = {.row = a->strides[1], .col = a->strides[0]},
                        .b = {.row = b->strides[0], .col = b->strides[1]},
                        .c = {.row = e->out[0].strides[0], .col = e->out[0].strides[1]},
                        .alpha = 1,
                        .beta = 1};
    number_of(&q.a.type, a->type->dtype);
    number_of(&q.b.type, b->type->dtype);
    number_of(&q.c.type, onto->type->dtype);
    p->plan = ig__mm_plan_make(e->k, &q, e->n_threads);
    p->data = (ig__mm_data){.a = a->data, .b = b->data, .c = e->out[0].data};
}

static ig__room add_product_room(const ig__eval *e)
{
    adding p;
    make_adding(&p, e);
    return (ig__room){.each = p.plan.scratch_bytes + 64, .shared = sizeof p};
}

static int64_t add_product_units(const ig__eval *e)
{
    adding *p = e->shared;
    make_adding(p, e);
    if (e->out[0].data != e->in[0].data && e->out[0].n) {
        ig__walk_over from, to;
        ig__walk_make(&from, &e->in[0], e->in[0].type);
        ig__walk_make(&to, &e->out[0], e->out[0].type);
        for (int64_t i = 0; i < e->out[0].n; i++) {
            double v;
            ig__walk_load(&from, i, 1, &v, IG_COMPUTE_F64);
            ig__walk_store(&to, i, 1, &v, IG_COMPUTE_F64);
        }
    }
    return p->plan.n_pieces;
}

static void add_product_eval(const ig__eval *e, int64_t begin, int64_t end)
{
    const adding *p = e->shared;
    ig__mm_walk w;
    ig__mm_walk_begin(&w, &p->plan, &p->data, e->scratch);
    ig__mm_walk_run(&w, begin, end);
}

static double add_product_work(const ig__eval *e)
{
    return (double)e->out[0].n * (double)e->in[1].type->dims[0].plus / 32;
}

const ig__op ig__op_add_product = {.name = "add_product",
                                   .n_in_least = 3,
                                   .n_in_most = 3,
                                   .shape = add_product_shape,
                                   .n_units = add_product_units,
                                   .eval = add_product_eval,
                                   .room = add_product_room,
                                   .work = add_product_work,
                                   .gradient = ig__gradient_missing,
                                   .precision = IG_PRECISION_LOW,
                                   .keeps = 0xffff};

/* ---- the walk over chunks ------------------------------------------------------------------------------ */

typedef struct head {
    ig_context *ctx;
    ig_tensor *x, *w, *bias, *targets; /* without history; bias may be NULL */
    ig_cross_entropy_opts opts;        /* sum */
    ig_tensor *share;                  /* of a row's loss in the result: 1, or 1 / count */
    ig_tensor *weight; /* of a row in the gradients: `share`, or F16_SCALE */
    ig__type wide;     /* f32, or x's own where precision is not mixed */
    ig_tensor *loss;   /* the sum so far */
    ig_tensor *d[3];   /* of x, w, bias; NULL: not wanted */
    bool want[3];
} head;

/* The sum so far, of which the first part was moved here. */
static ig_tensor *joined(ig_tensor *sum, ig_tensor *part)
{
    if (sum)
        return ig_add_into(sum, part) ? sum : NULL;
    const ig_dtype dtype = part ? part->type.dtype : IG_DTYPE_F32;
    part = ig__cast(part, dtype == IG_DTYPE_F64 ? dtype : IG_DTYPE_F32);
    return part ? ig_tensor_keep(part) : NULL;
}

static bool add_gradients(head *h, ig_tensor *x, ig_tensor *d, int64_t first, int64_t end)
{
    static const int rows = 0;
    ig_tensor *const whole = d;
    d = ig__cast(d, x ? x->type.dtype : IG_DTYPE_F32);
    if (h->want[0] &&
        !ig_assign(ig_slice(h->d[0], 0, first, end, 1), ig__matmul_for(&h->wide, d, h->w)))
        return false;
    if (h->want[1] && h->d[1]) {
        ig_tensor *const in[3] = {h->d[1], d, x};
        if (!ig__apply_into(&ig__op_add_product, NULL, in, 3, h->d[1]))
            return false;
    } else if (h->want[1] &&
               !(h->d[1] =
                     joined(NULL, ig__matmul_for(&h->wide, ig_transpose(d, 0, 1), x)))) {
        return false;
    }
    return !h->want[2] || (h->d[2] = joined(h->d[2], ig_sum(whole, 1, &rows, false)));
}

/* Rows [first, end). */
static bool add_chunk(head *h, int64_t first, int64_t end)
{
    const bool grads = h->want[0] || h->want[1] || h->want[2];
    ig_tensor *x = ig_slice(h->x, 0, first, end, 1), *d = NULL;
    ig_grad_enable(h->ctx, false);
    ig_tensor *logits = NULL;
    if (x && h->wide.dtype == x->type.dtype) {
        logits = ig_linear(x, h->w, h->bias);
    } else {
        logits = ig__matmul_for(&h->wide, x, ig_transpose(h->w, 0, 1));
        logits = h->bias ? ig_add(logits, h->bias) : logits;
    }
    ig_grad_enable(h->ctx, grads);
    if (grads && !ig_tensor_require_grad(logits, true))
        return false;
    ig_tensor *targets = ig_slice(h->targets, 0, first, end, 1);
    ig_tensor *loss = ig__cross_entropy_from(logits, targets, &h->opts, first);
    if (grads && ig_gradients(&d, &logits, 1, &loss, &h->weight, 1, NULL) != IG_OK)
        return false;
    ig_grad_enable(h->ctx, false);
    if (grads && !add_gradients(h, x, d, first, end))
        return false;
    h->loss = joined(h->loss, ig_detach(loss));
    return h->loss != NULL;
}

static bool walk(head *h)
{
    const int64_t n = h->x->type.dims[0].plus, v = h->w->type.dims[0].plus;
    int64_t rows = CHUNK_BYTES / 4 / (v > 0 ? v : 1) / 64 * 64;
    rows = rows < 64 ? 64 : rows;
    for (int64_t first = 0; first < n || first == 0; first += rows) {
        ig_scope *scope = ig_scope_begin(h->ctx);
        const bool done = add_chunk(h, first, first + rows < n ? first + rows : n);
        ig_scope_end(scope);
        if (!done)
            return false;
    }
    return true;
}

/* 1 over the number of targets that count, or 1 for the sum; none: 1, of a loss of 0. */
static ig_tensor *share_of(ig_tensor *targets, ig_dtype dtype,
                           const ig_cross_entropy_opts *opts)
{
    ig_context *ctx = targets->ctx;
    if (opts->sum)
        return ig_tensor_scalar(ctx, dtype, 1);
    if (!opts->use_ignore)
        return ig_tensor_scalar(ctx, dtype, 1 / (double)(targets->n ? targets->n : 1));
    ig_tensor *ignore = ig_tensor_scalar(ctx, targets->type.dtype, (double)opts->ignore);
    ig_tensor *count = ig_sum(ig_not_equal(targets, ignore), 0, NULL, false);
    if (count && !ctx->capture && ig_tensor_item(count) == 0)
        ig__log(ctx, IG_LOG_WARN, "linear_cross_entropy: %s", IG__NO_TARGETS);
    ig_tensor *least = ig_tensor_scalar(ctx, IG_DTYPE_F64, 1);
    return ig__cast(ig_reciprocal(ig_maximum(ig__cast(count, IG_DTYPE_F64), least)), dtype);
}

static bool wants(const ig_tensor *x)
{
    return x && x->wants_grad && !x->ctx->no_grad;
}

static ig_tensor *loss_of(head *h, ig_tensor *const operands[3],
                          const ig_cross_entropy_opts *opts)
{
    ig_context *ctx = h->ctx;
    for (int i = 0; i < 3; i++)
        h->want[i] = wants(operands[i]);
    h->x = ig_detach(operands[0]);
    h->w = ig_detach(operands[1]);
    h->bias = operands[2] ? ig_detach(operands[2]) : NULL;
    const bool was = ig_grad_enable(ctx, false);
    const ig_dtype autocast = ctx->autocast, wide = h->wide.dtype;
    ctx->autocast = IG_DTYPE_F32; /* types are chosen here */
    h->weight = h->share = share_of(h->targets, wide, opts);
    const bool scales = autocast == IG_DTYPE_F16 && h->x && h->x->type.dtype == autocast;
    if (scales)
        h->weight = ig_tensor_scalar(ctx, wide, F16_SCALE);
    if (h->want[0])
        h->d[0] =
            ig_zeros(ctx, wide, 2,
                     (const int64_t[]){h->x->type.dims[0].plus, h->x->type.dims[1].plus});
    bool done = walk(h);
    ig_grad_enable(ctx, false);
    for (int i = 0; i < 3 && done && scales; i++)
        done = !h->d[i] || ig_mul_into(h->d[i], ig_scale(h->share, 1 / F16_SCALE));
    ig_tensor *loss =
        done ? ig_mul(h->loss, ig__cast(h->share, h->loss->type.dtype)) : NULL;
    loss = loss ? ig__cast(loss, wide) : NULL;
    ctx->autocast = autocast;
    ig_grad_enable(ctx, was);
    return loss;
}

/* ---- public ------------------------------------------------------------------------------------------- */

ig_tensor *ig_linear_cross_entropy(ig_tensor *x, ig_tensor *w, ig_tensor *bias,
                                   ig_tensor *targets, const ig_cross_entropy_opts *opts)
{
    static const ig_cross_entropy_opts defaults = {0};
    if (!x || !w || !targets || ig__context_failed(x->ctx))
        return NULL;
    if (x->type.n_dims < 1 || w->type.n_dims != 2 ||
        x->type.dims[x->type.n_dims - 1].plus != w->type.dims[1].plus)
        return ig__fail_shapes(&x->ctx->error, "linear_cross_entropy",
                               "wants x [..,D] and w [V,D]", &x->type, &w->type),
               NULL;
    ig_tensor *low[2] = {x, w};
    if (!ig__autocast_low(low, 2))
        return NULL;
    x = low[0];
    w = low[1];
    const int64_t width = w->type.dims[1].plus, n = targets->n;
    if (x->type.dtype != w->type.dtype || x->n != n * width)
        return ig__fail_shapes(&x->ctx->error, "linear_cross_entropy",
                               "wants one dtype, and a target for each row", &x->type,
                               &targets->type),
               NULL;
    head h = {.ctx = x->ctx, .opts = opts ? *opts : defaults};
    ig_tensor *operands[3] = {ig_reshape(x, 2, (const int64_t[]){n, width}), w, bias};
    h.targets = ig_reshape(targets, 1, &n);
    h.opts.sum = true;
    h.wide = (ig__type){.dtype = x->ctx->autocast != IG_DTYPE_F32 &&
                                         x->type.dtype == x->ctx->autocast
                                     ? IG_DTYPE_F32
                                     : x->type.dtype};
    if (!operands[0] || !h.targets)
        return NULL;
    ig_tensor *in[7] = {loss_of(&h, operands, opts ? opts : &defaults)};
    if (!in[0] || (!h.want[0] && !h.want[1] && !h.want[2]))
        return in[0];
    int n_in = 1;
    for (int i = 0; i < 3; i++)
        if (h.want[i])
            in[n_in++] = operands[i];
    for (int i = 0; i < 3; i++)
        if (h.want[i])
            in[n_in++] = h.d[i];
    return ig__apply(NULL, &ig__op_linear_entropy, NULL, in, n_in);
}
