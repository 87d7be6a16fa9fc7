/* The reference of convolution and pooling: each output a sum in double over its window.
 */
#include "kernel/train_int.h"

#include <math.h>

/* Input row (column) under tap u of output i; -1: a pad. */
static int64_t source(int64_t i, int64_t stride, int64_t pad, int64_t u, int64_t dilation,
                      int64_t size)
{
    const int64_t at = i * stride - pad + u * dilation;
    return at >= 0 && at < size ? at : -1;
}

static double conv_at(const ig__conv *c, const float *x, const float *w, int64_t b,
                      int64_t o, int64_t i, int64_t j)
{
    const int64_t per = c->in_channels / c->groups;
    const int64_t first = o / (c->out_channels / c->groups) * per;
    double sum = 0;
    for (int64_t ch = 0; ch < per; ch++)
        for (int64_t u = 0; u < c->kernel_h; u++)
            for (int64_t v = 0; v < c->kernel_w; v++) {
                const int64_t r =
                    source(i, c->stride_h, c->pad_h, u, c->dilation_h, c->in_h);
                const int64_t s =
                    source(j, c->stride_w, c->pad_w, v, c->dilation_w, c->in_w);
                if (r < 0 || s < 0)
                    continue;
                const int64_t plane = b * c->in_channels + first + ch;
                sum += (double)w[((o * per + ch) * c->kernel_h + u) * c->kernel_w + v] *
                       (double)x[(plane * c->in_h + r) * c->in_w + s];
            }
    return sum;
}

static void conv(const ig__conv *c, float *y, const float *x, const float *w,
                 const float *bias, int64_t begin, int64_t end, void *scratch)
{
    (void)scratch;
    const ig__band s = ig__band_of(c);
    const int64_t pixels = c->out_h * c->out_w, outs = c->out_channels / c->groups;
    for (int64_t item = begin; item < end; item++) {
        const int64_t b = item / s.n_bands / c->groups, g = item / s.n_bands % c->groups;
        const int64_t first = item % s.n_bands * s.rows;
        const int64_t last = ig__min_i64(c->out_h, first + s.rows);
        for (int64_t o = g * outs; o < (g + 1) * outs; o++)
            for (int64_t at = first * c->out_w; at < last * c->out_w; at++)
                y[(b * c->out_channels + o) * pixels + at] =
                    (float)(conv_at(c, x, w, b, o, at / c->out_w, at % c->out_w) +
                            (bias ? (double)bias[o] : 0.0));
    }
}

/* dL/dx of pixel (r, s) of a channel: over the outputs whose window holds it. */
static double data_at(const ig__conv *c, const float *dy, const float *w, int64_t b,
                      int64_t channel, int64_t r, int64_t s)
{
    const int64_t per = c->in_channels / c->groups, outs = c->out_channels / c->groups;
    const int64_t g = channel / per, ch = channel % per;
    double sum = 0;
    for (int64_t o = g * outs; o < (g + 1) * outs; o++)
        for (int64_t u = 0; u < c->kernel_h; u++)
            for (int64_t v = 0; v < c->kernel_w; v++) {
                const int64_t i = r + c->pad_h - u * c->dilation_h;
                const int64_t j = s + c->pad_w - v * c->dilation_w;
                if (i < 0 || j < 0 || i % c->stride_h || j % c->stride_w ||
                    i / c->stride_h >= c->out_h || j / c->stride_w >= c->out_w)
                    continue;
                const int64_t plane = b * c->out_channels + o;
                sum += (double)w[((o * per + ch) * c->kernel_h + u) * c->kernel_w + v] *
                       (double)dy[(plane * c->out_h + i / c->stride_h) * c->out_w +
                                  j / c->stride_w];
            }
    return sum;
}

/* Rows [r0, r1) of the channels [first, last) of dx. */
static void data_rows(const ig__conv *c, float *dx, const float *dy, const float *w,
                      int64_t b, int64_t first, int64_t last, int64_t r0, int64_t r1)
{
    for (int64_t ch = first; ch < last; ch++)
        for (int64_t at = r0 * c->in_w; at < r1 * c->in_w; at++)
            dx[(b * c->in_channels + ch) * c->in_h * c->in_w + at] =
                (float)data_at(c, dy, w, b, ch, at / c->in_w, at % c->in_w);
}

static void conv_data(const ig__conv *c, float *dx, const float *dy, const float *w,
                      int64_t begin, int64_t end, void *scratch)
{
    (void)scratch;
    const int64_t per = c->in_channels / c->groups;
    const bool by_bands = c->stride_h == 1 && c->stride_w == 1;
    const ig__band s = ig__band_back(c);
    const int64_t parts =
        by_bands ? s.n_bands : (per + IG__CONV_CHANNELS - 1) / IG__CONV_CHANNELS;
    for (int64_t item = begin; item < end; item++) {
        const int64_t b = item / parts / c->groups, first = item / parts % c->groups * per;
        const int64_t part = item % parts, ch = first + part * IG__CONV_CHANNELS;
        if (by_bands)
            data_rows(c, dx, dy, w, b, first, first + per, part * s.rows,
                      ig__min_i64(c->in_h, (part + 1) * s.rows));
        else
            data_rows(c, dx, dy, w, b, ch, ig__min_i64(first + per, ch + IG__CONV_CHANNELS),
                      0, c->in_h);
    }
}

/* dL/dw[o][ch][u][v] from the images [b0, b1). */
static double weight_at(const ig__conv *c, const float *dy, const float *x, int64_t b0,
                        int64_t b1, int64_t o, int64_t column)
{
    const int64_t per = c->in_channels / c->groups;
    const int64_t v = column % c->kernel_w, u = column / c->kernel_w % c->kernel_h;
    const int64_t channel =
        o / (c->out_channels / c->groups) * per + column / c->kernel_w / c->kernel_h;
    double sum = 0;
    for (int64_t b = b0; b < b1; b++)
        for (int64_t i = 0; i < c->out_h; i++)
            for (int64_t j = 0; j < c->out_w; j++) {
                const int64_t r =
                    source(i, c->stride_h, c->pad_h, u, c->dilation_h, c->in_h);
                const int64_t s =
                    source(j, c->stride_w, c->pad_w, v, c->dilation_w, c->in_w);
                if (r < 0 || s < 0)
                    continue;
                sum +=
                    (double)dy[((b * c->out_channels + o) * c->out_h + i) * c->out_w + j] *
                    (double)x[((b * c->in_channels + channel) * c->in_h + r) * c->in_w + s];
            }
    return sum;
}

static void conv_weight(const ig__conv *c, float *parts, const float *dy, const float *x,
                        int64_t begin, int64_t end, void *scratch)
{
    (void)scratch;
    const int64_t depth = c->in_channels / c->groups * c->kernel_h * c->kernel_w;
    const int64_t blocks = ig__conv_out_blocks(c), spans = ig__conv_weight_spans(c);
    const int64_t outs = c->out_channels / c->groups;
    for (int64_t item = begin; item < end; item++) {
        const int64_t span = item / blocks / c->groups, g = item / blocks % c->groups;
        const int64_t b0 = c->batch * span / spans, b1 = c->batch * (span + 1) / spans;
        const int64_t first = item % blocks * IG__CONV_OUTS;
        const int64_t last = ig__min_i64(outs, first + IG__CONV_OUTS);
        for (int64_t o = g * outs + first; o < g * outs + last; o++)
            for (int64_t k = 0; k < depth; k++)
                parts[(span * c->out_channels + o) * depth + k] =
                    (float)weight_at(c, dy, x, b0, b1, o, k);
    }
}

/* ---- pooling ---- */

/* The window of output (i, j), cut to the input. */
typedef struct window {
    int64_t r0, r1, s0, s1;
} window;

static window window_at(const ig__pool *p, int64_t i, int64_t j)
{
    const int64_t r = i * p->stride_h - p->pad_h, s = j * p->stride_w - p->pad_w;
    return (window){ig__max_i64(0, r), ig__min_i64(p->in_h, r + p->kernel_h),
                    ig__max_i64(0, s), ig__min_i64(p->in_w, s + p->kernel_w)};
}

static void max_pool(const ig__pool *p, float *y, int32_t *at, const float *x,
                     int64_t begin, int64_t end)
{
    const int64_t outs = p->out_h * p->out_w;
    for (int64_t plane = begin; plane < end; plane++) {
        const float *in = x + plane * p->in_h * p->in_w;
        for (int64_t o = 0; o < outs; o++) {
            const window w = window_at(p, o / p->out_w, o % p->out_w);
            int64_t best = w.r0 * p->in_w + w.s0;
            for (int64_t r = w.r0; r < w.r1; r++)
                for (int64_t s = w.s0; s < w.s1; s++) {
                    const float v = in[r * p->in_w + s];
                    if (v > in[best] || (isnan(v) && !isnan(in[best])))
                        best = r * p->in_w + s;
                }
            y[plane * outs + o] = in[best];
            at[plane * outs + o] = (int32_t)best;
        }
    }
}

static void max_pool_grad(const ig__pool *p, float *dx, const float *dy, const int32_t *at,
                          int64_t begin, int64_t end)
{
    const int64_t outs = p->out_h * p->out_w, ins = p->in_h * p->in_w;
    for (int64_t plane = begin; plane < end; plane++) {
        for (int64_t i = 0; i < ins; i++)
            dx[plane * ins + i] = 0.0f;
        for (int64_t o = 0; o < outs; o++)
            dx[plane * ins + at[plane * outs + o]] += dy[plane * outs + o];
    }
}

/* The divisor of an average. Pads count as far as the padded input reaches; without a
 * single element it is 1. */
static float divisor(const ig__pool *p, window w)
{
    const int64_t n = p->count_pads
                          ? p->kernel_h * p->kernel_w
                          : ig__max_i64(0, w.r1 - w.r0) * ig__max_i64(0, w.s1 - w.s0);
    return (float)ig__max_i64(1, n);
}

static void avg_pool(const ig__pool *p, float *y, const float *x, int64_t begin,
                     int64_t end)
{
    const int64_t outs = p->out_h * p->out_w;
    for (int64_t plane = begin; plane < end; plane++) {
        const float *in = x + plane * p->in_h * p->in_w;
        for (int64_t o = 0; o < outs; o++) {
            const window w = window_at(p, o / p->out_w, o % p->out_w);
            float sum = 0.0f;
            for (int64_t r = w.r0; r < w.r1; r++)
                for (int64_t s = w.s0; s < w.s1; s++)
                    sum += in[r * p->in_w + s];
            y[plane * outs + o] = sum / divisor(p, w);
        }
    }
}

static void avg_pool_grad(const ig__pool *p, float *dx, const float *dy, int64_t begin,
                          int64_t end)
{
    const int64_t outs = p->out_h * p->out_w, ins = p->in_h * p->in_w;
    for (int64_t plane = begin; plane < end; plane++) {
        float *in = dx + plane * ins;
        for (int64_t i = 0; i < ins; i++)
            in[i] = 0.0f;
        for (int64_t o = 0; o < outs; o++) {
            const window w = window_at(p, o / p->out_w, o % p->out_w);
            const float share = dy[plane * outs + o] / divisor(p, w);
            for (int64_t r = w.r0; r < w.r1; r++)
                for (int64_t s = w.s0; s < w.s1; s++)
                    in[r * p->in_w + s] += share;
        }
    }
}

void ig__train_conv_ref(ig__train_kernels *table)
{
    table->conv = conv;
    table->conv_data = conv_data;
    table->conv_weight = conv_weight;
    table->max_pool = max_pool;
    table->max_pool_grad = max_pool_grad;
    table->avg_pool = avg_pool;
    table->avg_pool_grad = avg_pool_grad;
}
