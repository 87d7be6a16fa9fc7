/* Convolution: forward, gradient of the input, gradient of the weight; each is a row, and each one's
 * gradients are the other two, so that gradients of any order flow.
 *
 *   conv         x [B,C,IH,IW], w [O,C/groups,KH,KW] [, bias [O]] -> y [B,O,OH,OW]
 *   conv_data    y, w -> x       the transposed convolution is this one
 *   conv_weight  y, x -> w       parts by spans of the batch, added up in order
 *
 * One dimension is two with a height of 1. Operands are dense (network.h); f32 goes to the
 * kernels (kernel/train.h), f64 to plain loops here, for checks of gradients.
 */
#include "op/network.h"

#include "ingot/op.h"
#include "op/autocast.h"
#include "op/op_int.h"

#include <string.h>

typedef struct conv_attrs {
    int64_t groups, stride[2], pad[2], dilation[2];
    int64_t size[2]; /* conv_data: of x; conv_weight: of the kernel */
} conv_attrs;

static int64_t dim(const ig__type *t, int d)
{
    return t->dims[d].plus;
}

/* ---- shapes ---------------------------------------------------------------------------------------- */

static int64_t out_size(const conv_attrs *a, int d, int64_t in, int64_t kernel)
{
    const int64_t reach = in + 2 * a->pad[d] - a->dilation[d] * (kernel - 1) - 1;
    return reach < 0 ? 0 : reach / a->stride[d] + 1;
}

static bool are_images(const ig__type *a, const ig__type *b)
{
    return a->n_dims == 4 && b->n_dims == 4 && a->dtype == b->dtype &&
           (a->dtype == IG_DTYPE_F32 || a->dtype == IG_DTYPE_F64);
}

static ig__type image(ig_dtype dtype, int64_t b, int64_t c, int64_t h, int64_t w)
{
    ig__type t = {.dtype = dtype, .n_dims = 4};
    t.dims[0] = ig__dim_of(b);
    t.dims[1] = ig__dim_of(c);
    t.dims[2] = ig__dim_of(h);
    t.dims[3] = ig__dim_of(w);
    return t;
}

static ig_status conv_shape(ig__type *out, const ig__type *const *in, int n_in,
                            const void *attrs, ig_error *err)
{
    const conv_attrs *a = attrs;
    const ig__type *x = in[0], *w = in[1];
    if (!are_images(x, w) || dim(x, 1) != dim(w, 1) * a->groups || dim(w, 0) % a->groups ||
        dim(w, 2) < 1 || dim(w, 3) < 1)
        return ig__fail_shapes(err, "conv", "wants x [B,C,..] and w [O,C/groups,..]", x, w);
    if (n_in > 2 && (in[2]->n_dims != 1 || dim(in[2], 0) != dim(w, 0)))
        return ig__fail_shapes(err, "conv", "the bias does not fit", w, in[2]);
    const int64_t h = out_size(a, 0, dim(x, 2), dim(w, 2));
    const int64_t s = out_size(a, 1, dim(x, 3), dim(w, 3));
    if (h < 1 || s < 1)
        return ig__fail_shapes(err, "conv", "the kernel is larger than the padded input", x,
                               w);
    *out = image(x->dtype, dim(x, 0), dim(w, 0), h, s);
    return IG_OK;
}

static ig_status conv_data_shape(ig__type *out, const ig__type *const *in, int n_in,
                                 const void *attrs, ig_error *err)
{
    (void)n_in;
    const conv_attrs *a = attrs;
    const ig__type *y = in[0], *w = in[1];
    if (!are_images(y, w) || dim(y, 1) != dim(w, 0) || dim(w, 0) % a->groups)
        return ig__fail_shapes(err, "conv_transpose",
                               "wants x [B,O,..] and w [O,C/groups,..]", y, w);
    for (int d = 0; d < 2; d++)
        if (out_size(a, d, a->size[d], dim(w, 2 + d)) != dim(y, 2 + d))
            return ig__fail_shapes(err, "conv_transpose", "sizes do not fit", y, w);
    *out = image(y->dtype, dim(y, 0), dim(w, 1) * a->groups, a->size[0], a->size[1]);
    return IG_OK;
}

static ig_status conv_weight_shape(ig__type *out, const ig__type *const *in, int n_in,
                                   const void *attrs, ig_error *err)
{
    (void)n_in;
    const conv_attrs *a = attrs;
    const ig__type *y = in[0], *x = in[1];
    if (!are_images(y, x) || dim(y, 0) != dim(x, 0) || dim(x, 1) % a->groups)
        return ig__fail_shapes(err, "conv_weight", "sizes do not fit", y, x);
    *out = image(y->dtype, dim(y, 1), dim(x, 1) / a->groups, a->size[0], a->size[1]);
    return IG_OK;
}

/* The convolution from the types of its three arrays. */
static ig__conv conv_of(const conv_attrs *a, const ig__type *x, const ig__type *w,
                        const ig__type *y)
{
    return (ig__conv){.batch = dim(x, 0),
                      .in_channels = dim(x, 1),
                      .out_channels = dim(y, 1),
                      .groups = a->groups,
                      .in_h = dim(x, 2),
                      .in_w = dim(x, 3),
                      .out_h = dim(y, 2),
                      .out_w = dim(y, 3),
                      .kernel_h = dim(w, 2),
                      .kernel_w = dim(w, 3),
                      .stride_h = a->stride[0],
                      .stride_w = a->stride[1],
                      .pad_h = a->pad[0],
                      .pad_w = a->pad[1],
                      .dilation_h = a->dilation[0],
                      .dilation_w = a->dilation[1]};
}

/* ---- plain loops in double ---------------------------------------------------------------------------- */

typedef enum conv_role { ROLE_OUT, ROLE_DATA, ROLE_WEIGHT } conv_role;

/* One (batch, output channel) of the convolution: y from x and w, or what it adds to x or to w. */
static void plane_f64(const ig__conv *c, conv_role role, double *y, double *x, double *w)
{
    for (int64_t i = 0; i < c->out_h; i++)
        for (int64_t u = 0; u < c->kernel_h; u++) {
            const int64_t r = i * c->stride_h - c->pad_h + u * c->dilation_h;
            if (r < 0 || r >= c->in_h)
                continue;
            for (int64_t j = 0; j < c->out_w; j++)
                for (int64_t v = 0; v < c->kernel_w; v++) {
                    const int64_t s = j * c->stride_w - c->pad_w + v * c->dilation_w;
                    if (s < 0 || s >= c->in_w)
                        continue;
                    double *y_at = y + i * c->out_w + j, *x_at = x + r * c->in_w + s;
                    double *w_at = w + u * c->kernel_w + v;
                    if (role == ROLE_OUT)
                        *y_at += *x_at * *w_at;
                    else if (role == ROLE_DATA)
                        *x_at += *y_at * *w_at;
                    else
                        *w_at += *y_at * *x_at;
                }
        }
}

/* Units are planes of what is written: (batch, group) of y or x, output channels of w. */
static void planes_f64(const ig__conv *c, conv_role role, double *y, double *x, double *w,
                       int64_t begin, int64_t end)
{
    const int64_t outs = c->out_channels / c->groups, ins = c->in_channels / c->groups;
    const int64_t y_size = c->out_h * c->out_w, x_size = c->in_h * c->in_w;
    const int64_t w_size = c->kernel_h * c->kernel_w;
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t b0 = role == ROLE_WEIGHT ? 0 : unit / c->groups;
        const int64_t b1 = role == ROLE_WEIGHT ? c->batch : b0 + 1;
        const int64_t o0 = role == ROLE_WEIGHT ? unit : unit % c->groups * outs;
        const int64_t o1 = role == ROLE_WEIGHT ? unit + 1 : o0 + outs;
        for (int64_t b = b0; b < b1; b++)
            for (int64_t o = o0; o < o1; o++)
                for (int64_t k = 0; k < ins; k++)
                    plane_f64(c, role, y + (b * c->out_channels + o) * y_size,
                              x + (b * c->in_channels + o / outs * ins + k) * x_size,
                              w + (o * ins + k) * w_size);
    }
}

static int64_t units_f64(const ig__conv *c, conv_role role)
{
    return role == ROLE_WEIGHT ? c->out_channels : c->batch * c->groups;
}

static double work_of(const ig__conv *c)
{
    /* about 16 multiply-adds a nanosecond */
    return (double)(c->batch * c->out_channels * c->out_h * c->out_w) *
           (double)(c->in_channels / c->groups * c->kernel_h * c->kernel_w) / 16;
}

static bool is_f64(const ig__eval *e)
{
    return e->out[0].type->dtype == IG_DTYPE_F64;
}

static void zero(const ig__array *x)
{
    if (x->n)
        memset(x->data, 0, (size_t)x->n * ig_dtype_block_bytes(x->type->dtype));
}

/* ---- forward ------------------------------------------------------------------------------------------ */

static ig__conv forward_of(const ig__eval *e)
{
    return conv_of(e->attrs, e->in[0].type, e->in[1].type, e->out[0].type);
}

static int64_t conv_units(const ig__eval *e)
{
    const ig__conv c = forward_of(e);
    return is_f64(e) ? units_f64(&c, ROLE_OUT) : ig__conv_items(&c);
}

static ig__room conv_room(const ig__eval *e)
{
    const ig__conv c = forward_of(e);
    return (ig__room){.each = is_f64(e) ? 0 : ig__conv_scratch(&c)};
}

static double conv_work(const ig__eval *e)
{
    const ig__conv c = forward_of(e);
    return work_of(&c);
}

static void conv_f64(const ig__eval *e, const ig__conv *c, int64_t begin, int64_t end)
{
    const int64_t outs = c->out_channels / c->groups, size = c->out_h * c->out_w;
    const double *bias = e->n_in > 2 ? (const double *)(void *)e->in[2].data : NULL;
    double *y = (double *)(void *)e->out[0].data;
    for (int64_t plane = begin * outs; plane < end * outs; plane++)
        for (int64_t i = 0; i < size; i++)
            y[plane * size + i] = bias ? bias[plane % c->out_channels] : 0;
    planes_f64(c, ROLE_OUT, y, (double *)(void *)e->in[0].data,
               (double *)(void *)e->in[1].data, begin, end);
}

static void conv_eval(const ig__eval *e, int64_t begin, int64_t end)
{
    const ig__conv c = forward_of(e);
    if (is_f64(e))
        conv_f64(e, &c, begin, end);
    else
        e->t->conv(&c, (void *)e->out[0].data, (const void *)e->in[0].data,
                   (const void *)e->in[1].data,
                   e->n_in > 2 ? (const void *)e->in[2].data : NULL, begin, end,
                   e->scratch);
}

/* ---- the gradient of the input -------------------------------------------------------------------------- */

static ig__conv data_of(const ig__eval *e)
{
    return conv_of(e->attrs, e->out[0].type, e->in[1].type, e->in[0].type);
}

static int64_t data_units(const ig__eval *e)
{
    const ig__conv c = data_of(e);
    if (!is_f64(e))
        return ig__conv_data_items(&c);
    zero(&e->out[0]);
    return units_f64(&c, ROLE_DATA);
}

static ig__room data_room(const ig__eval *e)
{
    const ig__conv c = data_of(e);
    return (ig__room){.each = is_f64(e) ? 0 : ig__conv_scratch(&c)};
}

static double data_work(const ig__eval *e)
{
    const ig__conv c = data_of(e);
    return work_of(&c);
}

static void data_eval(const ig__eval *e, int64_t begin, int64_t end)
{
    const ig__conv c = data_of(e);
    if (is_f64(e))
        planes_f64(&c, ROLE_DATA, (double *)(void *)e->in[0].data,
                   (double *)(void *)e->out[0].data, (double *)(void *)e->in[1].data, begin,
                   end);
    else
        e->t->conv_data(&c, (void *)e->out[0].data, (const void *)e->in[0].data,
                        (const void *)e->in[1].data, begin, end, e->scratch);
}

/* ---- the gradient of the weight ------------------------------------------------------------------------- */

enum { COLUMNS = 256 }; /* of a unit that adds up parts */

static ig__conv weight_of(const ig__eval *e)
{
    return conv_of(e->attrs, e->in[1].type, e->out[0].type, e->in[0].type);
}

static int64_t weight_units(const ig__eval *e)
{
    const ig__conv c = weight_of(e);
    if (is_f64(e)) {
        if (e->phase == 0)
            zero(&e->out[0]);
        return e->phase == 0 ? units_f64(&c, ROLE_WEIGHT) : 0;
    }
    if (e->phase == 0)
        return ig__conv_weight_items(&c);
    return ig__conv_weight_spans(&c) > 1 ? (e->out[0].n + COLUMNS - 1) / COLUMNS : 0;
}

static ig__room weight_room(const ig__eval *e)
{
    const ig__conv c = weight_of(e);
    if (is_f64(e))
        return (ig__room){0};
    const int64_t spans = ig__conv_weight_spans(&c);
    const size_t columns = IG__COLUMN_SCRATCH + COLUMNS * 8, own = ig__conv_scratch(&c);
    return (ig__room){.each = own > columns ? own : columns,
                      .shared = spans > 1 ? (size_t)(spans * e->out[0].n) * 4 : 0};
}

static double weight_work(const ig__eval *e)
{
    const ig__conv c = weight_of(e);
    return work_of(&c);
}

static void weight_eval(const ig__eval *e, int64_t begin, int64_t end)
{
    const ig__conv c = weight_of(e);
    const int64_t spans = ig__conv_weight_spans(&c), n = e->out[0].n;
    if (is_f64(e)) {
        planes_f64(&c, ROLE_WEIGHT, (double *)(void *)e->in[0].data,
                   (double *)(void *)e->in[1].data, (double *)(void *)e->out[0].data, begin,
                   end);
        return;
    }
    float *dw = (float *)(void *)e->out[0].data, *parts = spans > 1 ? e->shared : dw;
    if (e->phase == 0) {
        e->t->conv_weight(&c, parts, (const void *)e->in[0].data,
                          (const void *)e->in[1].data, begin, end, e->scratch);
        return;
    }
    double *sums = (double *)(void *)((char *)e->scratch + IG__COLUMN_SCRATCH);
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t first = unit * COLUMNS;
        const int64_t m = n - first < COLUMNS ? n - first : COLUMNS;
        e->t->reduce_columns(IG__REDUCE_SUM, sums, parts + first, spans, n, m, NULL,
                             e->scratch);
        for (int64_t i = 0; i < m; i++)
            dw[first + i] = (float)sums[i];
    }
}

/* ---- gradients ------------------------------------------------------------------------------------------ */

static ig_tensor *data(const conv_attrs *a, ig_tensor *y, ig_tensor *w, const ig__type *x)
{
    conv_attrs attrs = *a;
    attrs.size[0] = dim(x, 2);
    attrs.size[1] = dim(x, 3);
    return ig__apply2(&ig__op_conv_data, &attrs, ig__contiguous(y), ig__contiguous(w));
}

static ig_tensor *weight(const conv_attrs *a, ig_tensor *y, ig_tensor *x, const ig__type *w)
{
    conv_attrs attrs = *a;
    attrs.size[0] = dim(w, 2);
    attrs.size[1] = dim(w, 3);
    return ig__apply2(&ig__op_conv_weight, &attrs, ig__contiguous(y), ig__contiguous(x));
}

static ig_tensor *forward(const conv_attrs *a, ig_tensor *x, ig_tensor *w)
{
    conv_attrs attrs = *a;
    attrs.size[0] = attrs.size[1] = 0;
    return ig__apply2(&ig__op_conv, &attrs, ig__contiguous(x), ig__contiguous(w));
}

static void conv_gradient(ig__gradient *g)
{
    static const int all_but_channels[3] = {0, 2, 3};
    if (ig__wants(g, 0))
        g->d_in[0] = data(g->attrs, g->d_out[0], g->in[1], g->type[0]);
    if (ig__wants(g, 1))
        g->d_in[1] = weight(g->attrs, g->d_out[0], g->in[0], g->type[1]);
    if (g->n_in > 2 && ig__wants(g, 2))
        g->d_in[2] = ig_sum(g->d_out[0], 3, all_but_channels, false);
}

static void conv_data_gradient(ig__gradient *g) /* y, w -> x */
{
    if (ig__wants(g, 0))
        g->d_in[0] = forward(g->attrs, g->d_out[0], g->in[1]);
    if (ig__wants(g, 1))
        g->d_in[1] = weight(g->attrs, g->in[0], g->d_out[0], g->type[1]);
}

static void conv_weight_gradient(ig__gradient *g) /* y, x -> w */
{
    if (ig__wants(g, 0))
        g->d_in[0] = forward(g->attrs, g->in[1], g->d_out[0]);
    if (ig__wants(g, 1))
        g->d_in[1] = data(g->attrs, g->in[0], g->d_out[0], g->type[1]);
}

#define ROW(op, most, prefix, phases, ...)                                                 \
    const ig__op ig__op_##op = {.name = #op,                                               \
                                .n_in_least = 2,                                           \
                                .n_in_most = most,                                         \
                                .attrs_bytes = sizeof(conv_attrs),                         \
                                .shape = op##_shape,                                       \
                                .n_phases = phases,                                        \
                                .n_units = prefix##_units,                                 \
                                .eval = prefix##_eval,                                     \
                                .room = prefix##_room,                                     \
                                .work = prefix##_work,                                     \
                                .gradient = op##_gradient,                                 \
                                .needs = {__VA_ARGS__},                                    \
                                .precision = IG_PRECISION_LOW,                             \
                                .keeps = 0xffff};
ROW(conv, 3, conv, 1, IG_IN(1), IG_IN(0))
ROW(conv_data, 2, data, 1, IG_IN(1), IG_IN(0))
ROW(conv_weight, 2, weight, 2, IG_IN(1), IG_IN(0))

/* ---- public ------------------------------------------------------------------------------------------- */

static bool set_attrs(conv_attrs *a, const char *op, ig_context *ctx,
                      const ig_conv_opts *opts, int n)
{
    static const ig_conv_opts defaults = {0};
    const ig_conv_opts *o = opts ? opts : &defaults;
    memset(a, 0, sizeof *a);
    a->groups = o->groups ? o->groups : 1;
    for (int d = 0; d < 2; d++) {
        const int at = d - (2 - n); /* of one dimension: the last */
        a->stride[d] = at >= 0 && o->stride[at] ? o->stride[at] : 1;
        a->pad[d] = at >= 0 ? o->pad[at] : 0;
        a->dilation[d] = at >= 0 && o->dilation[at] ? o->dilation[at] : 1;
        if (a->stride[d] < 1 || a->pad[d] < 0 || a->dilation[d] < 1 || a->groups < 1 ||
            a->stride[d] > INT32_MAX || a->pad[d] > INT32_MAX || a->dilation[d] > INT32_MAX)
            return ig__fail_on(ctx, IG_ERR_ARGUMENT,
                               "%s: stride %lld, padding %lld, dilation %lld, %lld groups",
                               op, (long long)a->stride[d], (long long)a->pad[d],
                               (long long)a->dilation[d], (long long)a->groups),
                   false;
    }
    return true;
}

/* [A,B,W] as [A,B,1,W], and back */
static ig_tensor *raised(ig_tensor *x, int n)
{
    return n == 1 ? ig_unsqueeze(x, 2) : x;
}
static ig_tensor *lowered(ig_tensor *y, int n)
{
    return n == 1 ? ig_squeeze(y, 2) : y;
}

/* Operands of n + 2 dimensions. */
static bool begin(const char *op, ig_tensor **x, int n, ig_dtype *result)
{
    if (!ig__autocast_low(x, 2) || !ig__dense(op, x, 3, result) || !x[1])
        return false;
    if (x[0]->type.n_dims != n + 2 || x[1]->type.n_dims != n + 2)
        return ig__fail_shapes(&x[0]->ctx->error, op,
                               n == 1 ? "wants [.,.,W]" : "wants [.,.,H,W]", &x[0]->type,
                               &x[1]->type),
               false;
    return true;
}

static ig_tensor *conv(const char *op, ig_tensor *x, ig_tensor *w, ig_tensor *bias,
                       const ig_conv_opts *opts, int n)
{
    ig_tensor *in[3] = {x, w, bias};
    conv_attrs attrs;
    ig_dtype result;
    if (!begin(op, in, n, &result) || !set_attrs(&attrs, op, in[0]->ctx, opts, n))
        return NULL;
    in[0] = raised(in[0], n);
    in[1] = raised(in[1], n);
    ig_tensor *y = ig__apply(NULL, &ig__op_conv, &attrs, in, bias ? 3 : 2);
    return y ? ig__cast(lowered(y, n), result) : NULL;
}

static ig_tensor *conv_transpose(const char *op, ig_tensor *x, ig_tensor *w,
                                 ig_tensor *bias, const ig_conv_opts *opts, int n)
{
    ig_tensor *in[3] = {x, w, bias};
    conv_attrs attrs;
    ig_dtype result;
    if (!begin(op, in, n, &result) || !set_attrs(&attrs, op, in[0]->ctx, opts, n))
        return NULL;
    in[0] = raised(in[0], n);
    in[1] = raised(in[1], n);
    if (!in[0] || !in[1])
        return NULL;
    for (int d = 0; d < 2; d++) {
        const int at = d - (2 - n);
        const int64_t more = opts && at >= 0 ? opts->out_pad[at] : 0;
        if (more < 0 || more >= attrs.stride[d])
            return ig__fail_on(in[0]->ctx, IG_ERR_ARGUMENT,
                               "%s: %lld more outputs than fit a stride of %lld", op,
                               (long long)more, (long long)attrs.stride[d]);
        attrs.size[d] = (dim(&in[0]->type, 2 + d) - 1) * attrs.stride[d] -
                        2 * attrs.pad[d] +
                        attrs.dilation[d] * (dim(&in[1]->type, 2 + d) - 1) + 1 + more;
        if (attrs.size[d] < 1)
            return ig__fail_shapes(&in[0]->ctx->error, op, "nothing is left of the output",
                                   &in[0]->type, &in[1]->type),
                   NULL;
    }
    ig_tensor *y = lowered(ig__apply2(&ig__op_conv_data, &attrs, in[0], in[1]), n);
    if (y && bias)
        y = ig_add(y, ig_reshape(in[2], n + 1, (const int64_t[]){-1, 1, 1}));
    return y ? ig__cast(y, result) : NULL;
}

ig_tensor *ig_conv1d(ig_tensor *x, ig_tensor *w, ig_tensor *bias, const ig_conv_opts *opts)
{
    return conv("conv1d", x, w, bias, opts, 1);
}
ig_tensor *ig_conv2d(ig_tensor *x, ig_tensor *w, ig_tensor *bias, const ig_conv_opts *opts)
{
    return conv("conv2d", x, w, bias, opts, 2);
}
ig_tensor *ig_conv_transpose1d(ig_tensor *x, ig_tensor *w, ig_tensor *bias,
                               const ig_conv_opts *opts)
{
    return conv_transpose("conv_transpose1d", x, w, bias, opts, 1);
}
ig_tensor *ig_conv_transpose2d(ig_tensor *x, ig_tensor *w, ig_tensor *bias,
                               const ig_conv_opts *opts)
{
    return conv_transpose("conv_transpose2d", x, w, bias, opts, 2);
}
