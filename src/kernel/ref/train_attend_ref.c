/* The reference of attention for training, forward and backward: one row at a time, every
 * score anew, in double.
 */
#include "kernel/train_int.h"

#include <math.h>

static const float *row_of(const float *x, const int64_t stride[3], int64_t b, int64_t h,
                           int64_t i)
{
    return x + b * stride[0] + h * stride[1] + i * stride[2];
}

static float *out_row(float *x, const int64_t stride[3], int64_t b, int64_t h, int64_t i)
{
    return x + b * stride[0] + h * stride[1] + i * stride[2];
}

static double product(const float *x, const float *y, int64_t w)
{
    double sum = 0;
    for (int64_t d = 0; d < w; d++)
        sum += (double)x[d] * (double)y[d];
    return sum;
}

/* The score of query i and key j of head h; -inf where it is hidden. */
static double score(const ig__attention *a, int64_t b, int64_t h, int64_t i, int64_t j)
{
    const double hidden = -(double)INFINITY;
    if (j < ig__attend_lo(a, i) || j >= ig__attend_hi(a, i))
        return hidden;
    if (a->allowed) {
        const int64_t *s = a->allowed_stride;
        if (!a->allowed[b * s[0] + h * s[1] + i * s[2] + j * s[3]])
            return hidden;
    }
    double extra = 0;
    if (a->mask) {
        const int64_t *s = a->mask_stride;
        extra = (double)a->mask[b * s[0] + h * s[1] + i * s[2] + j * s[3]];
        if (extra == hidden)
            return hidden;
    }
    const int64_t g = h / (a->heads / a->kv_heads);
    return (double)a->scale * product(row_of(a->q, a->q_stride, b, h, i),
                                      row_of(a->k, a->k_stride, b, g, j), a->width) +
           extra;
}

static void forward_row(const ig__attention *a, int64_t b, int64_t h, int64_t i)
{
    const int64_t g = h / (a->heads / a->kv_heads);
    float *out = out_row(a->out, a->out_stride, b, h, i);
    double top = -(double)INFINITY, sum = 0, acc[IG__MAX_ATTEND] = {0};
    for (int64_t j = 0; j < a->n_keys; j++) {
        const double s = score(a, b, h, i, j);
        top = s > top || isnan(s) ? s : top;
    }
    for (int64_t j = 0; j < a->n_keys; j++) {
        const double s = score(a, b, h, i, j);
        if (s == -(double)INFINITY)
            continue;
        const double p = exp(s - top);
        const float *v = row_of(a->v, a->v_stride, b, g, j);
        float factor;
        ig__attend_factors(a, &factor, b, h, i, j, 1);
        sum += p;
        for (int64_t d = 0; d < a->width; d++)
            acc[d] += p * (double)factor * (double)v[d];
    }
    for (int64_t d = 0; d < a->width; d++)
        out[d] = sum == 0 ? 0.0f : (float)(acc[d] / sum);
    a->lse[(b * a->heads + h) * a->n_queries + i] =
        (float)(top + (sum == 0 ? 0 : log(sum)));
}

void ig__attention_ref(const ig__attention *a, int64_t begin, int64_t end)
{
    for (int64_t item = begin; item < end; item++) {
        const ig__attend_item at = ig__attend_item_at(a, item);
        for (int64_t i = at.first; i < at.first + at.n; i++)
            forward_row(a, at.b, at.h, i);
    }
}

/* Weight p (behind dropout) and dL/dscore of one pair. False: hidden. */
static bool pair_gradient(const ig__attention *a, int64_t b, int64_t h, int64_t i,
                          int64_t j, double *p, double *ds)
{
    const double s = score(a, b, h, i, j);
    if (s == -(double)INFINITY)
        return false;
    const int64_t g = h / (a->heads / a->kv_heads);
    const float *dout = row_of(a->dout, a->dout_stride, b, h, i);
    const float *out = row_of(a->out, a->out_stride, b, h, i);
    const float *v = row_of(a->v, a->v_stride, b, g, j);
    *p = exp(s - (double)a->lse[(b * a->heads + h) * a->n_queries + i]);
    float factor;
    ig__attend_factors(a, &factor, b, h, i, j, 1);
    *ds = *p * ((double)factor * product(dout, v, a->width) - product(dout, out, a->width));
    *p *= (double)factor;
    return true;
}

static void query_gradient(const ig__attention *a, int64_t b, int64_t h, int64_t i)
{
    const int64_t g = h / (a->heads / a->kv_heads);
    float *dq = out_row(a->dq, a->dq_stride, b, h, i);
    double acc[IG__MAX_ATTEND] = {0}, p, ds;
    for (int64_t j = 0; j < a->n_keys; j++) {
        const float *k = row_of(a->k, a->k_stride, b, g, j);
        if (pair_gradient(a, b, h, i, j, &p, &ds))
            for (int64_t d = 0; d < a->width; d++)
                acc[d] += ds * (double)k[d];
    }
    for (int64_t d = 0; d < a->width; d++)
        dq[d] = (float)(acc[d] * (double)a->scale);
}

/* of_keys: dk, else dv. */
static void key_gradient(const ig__attention *a, int64_t b, int64_t g, int64_t j,
                         bool of_keys)
{
    const int64_t group = a->heads / a->kv_heads;
    float *y = of_keys ? out_row(a->dk, a->dk_stride, b, g, j)
                       : out_row(a->dv, a->dv_stride, b, g, j);
    double acc[IG__MAX_ATTEND] = {0}, p, ds;
    for (int64_t h = g * group; h < (g + 1) * group; h++)
        for (int64_t i = 0; i < a->n_queries; i++) {
            const float *x = of_keys ? row_of(a->q, a->q_stride, b, h, i)
                                     : row_of(a->dout, a->dout_stride, b, h, i);
            if (pair_gradient(a, b, h, i, j, &p, &ds))
                for (int64_t d = 0; d < a->width; d++)
                    acc[d] += (of_keys ? ds * (double)a->scale : p) * (double)x[d];
        }
    for (int64_t d = 0; d < a->width; d++)
        y[d] = (float)acc[d];
}

void ig__attention_grad_ref(const ig__attention *a, int64_t begin, int64_t end)
{
    const int64_t group = a->heads / a->kv_heads;
    for (int64_t item = begin; item < end; item++) {
        const int64_t b = item / a->kv_heads, g = item % a->kv_heads;
        for (int64_t j = 0; j < a->n_keys; j++) {
            key_gradient(a, b, g, j, true);
            key_gradient(a, b, g, j, false);
        }
        for (int64_t h = g * group; h < (g + 1) * group; h++)
            for (int64_t i = 0; i < a->n_queries; i++)
                query_gradient(a, b, h, i);
    }
}

static void attention(const ig__attention *a, int64_t begin, int64_t end, void *scratch)
{
    (void)scratch;
    ig__attention_ref(a, begin, end);
}

static void attention_grad(const ig__attention *a, int64_t begin, int64_t end,
                           void *scratch)
{
    (void)scratch;
    ig__attention_grad_ref(a, begin, end);
}

void ig__train_attend_ref(ig__train_kernels *table)
{
    table->attention = attention;
    table->attention_grad = attention_grad;
}
