/* The reference of what works on rows: softmax and its kin, norms, cross entropy, and the
 * gradient of an embedding. In double, rounded where it is stored.
 */
#include "kernel/train_int.h"

#include <math.h>

static double top_of(const float *x, int64_t d)
{
    double top = (double)x[0];
    for (int64_t i = 1; i < d; i++)
        top = (double)x[i] > top || isnan(x[i]) ? (double)x[i] : top;
    return top;
}

/* log sum exp; -inf for a row of -inf. */
static double lse_of(const float *x, int64_t d)
{
    const double top = top_of(x, d);
    if (top == -(double)INFINITY)
        return top;
    double sum = 0;
    for (int64_t i = 0; i < d; i++)
        sum += exp((double)x[i] - top);
    return top + log(sum);
}

static void softmax(float *y, const float *x, int64_t d)
{
    const double top = top_of(x, d);
    double sum = 0;
    for (int64_t i = 0; i < d; i++)
        sum += exp((double)x[i] - top);
    for (int64_t i = 0; i < d; i++)
        y[i] = top == -(double)INFINITY ? 0.0f : (float)(exp((double)x[i] - top) / sum);
}

static void log_softmax(float *y, const float *x, int64_t d)
{
    const double lse = lse_of(x, d);
    for (int64_t i = 0; i < d; i++)
        y[i] = lse == -(double)INFINITY ? -INFINITY : (float)((double)x[i] - lse);
}

static float logsumexp(const float *x, int64_t d)
{
    return (float)lse_of(x, d);
}

/* dx = (dy - sum(dy y)) y */
static void softmax_grad(float *dx, const float *dy, const float *y, int64_t d)
{
    double sum = 0;
    for (int64_t i = 0; i < d; i++)
        sum += (double)dy[i] * (double)y[i];
    for (int64_t i = 0; i < d; i++)
        dx[i] = (float)(((double)dy[i] - sum) * (double)y[i]);
}

/* dx = dy - exp(y) sum(dy) */
static void log_softmax_grad(float *dx, const float *dy, const float *y, int64_t d)
{
    double sum = 0;
    for (int64_t i = 0; i < d; i++)
        sum += (double)dy[i];
    for (int64_t i = 0; i < d; i++)
        dx[i] = (float)((double)dy[i] - exp((double)y[i]) * sum);
}

static double factor(const float *g, int64_t i)
{
    return g ? (double)g[i] : 1.0;
}

/* mean of a row, and 1 / sqrt(var + eps) */
static double statistics(double *inv_out, const float *x, int64_t d, float eps)
{
    double mean = 0, var = 0;
    for (int64_t i = 0; i < d; i++)
        mean += (double)x[i];
    mean /= (double)d;
    for (int64_t i = 0; i < d; i++)
        var += ((double)x[i] - mean) * ((double)x[i] - mean);
    *inv_out = 1 / sqrt(var / (double)d + (double)eps);
    return mean;
}

static void layer_norm(float *y, const float *x, const float *g, const float *b, int64_t d,
                       float eps)
{
    double inv;
    const double mean = statistics(&inv, x, d, eps);
    for (int64_t i = 0; i < d; i++)
        y[i] =
            (float)(((double)x[i] - mean) * inv * factor(g, i) + (b ? (double)b[i] : 0.0));
}

/* With xh = (x - mean) inv and t = dy g: dx = inv (t - mean(t) - xh mean(t xh)). */
static void layer_norm_grad(float *dx, float *dg, float *db, const float *dy,
                            const float *x, const float *g, int64_t d, float eps)
{
    double inv, sum_t = 0, sum_tx = 0;
    const double mean = statistics(&inv, x, d, eps);
    for (int64_t i = 0; i < d; i++) {
        const double t = (double)dy[i] * factor(g, i);
        sum_t += t;
        sum_tx += t * ((double)x[i] - mean) * inv;
    }
    for (int64_t i = 0; i < d; i++) {
        const double xh = ((double)x[i] - mean) * inv, s = (double)dy[i];
        if (dg)
            dg[i] = (float)((double)dg[i] + s * xh);
        if (db)
            db[i] = (float)((double)db[i] + s);
        if (dx)
            dx[i] = (float)(inv * (s * factor(g, i) - sum_t / (double)d -
                                   xh * sum_tx / (double)d));
    }
}

static double inverse_rms(const float *x, int64_t d, float eps)
{
    double sum = 0;
    for (int64_t i = 0; i < d; i++)
        sum += (double)x[i] * (double)x[i];
    return 1 / sqrt(sum / (double)d + (double)eps);
}

static void rms_norm(float *y, const float *x, const float *g, int64_t d, float eps)
{
    const double inv = inverse_rms(x, d, eps);
    for (int64_t i = 0; i < d; i++)
        y[i] = (float)((double)x[i] * inv * factor(g, i));
}

static void rms_norm_grad(float *dx, float *dg, const float *dy, const float *x,
                          const float *g, int64_t d, float eps)
{
    const double inv = inverse_rms(x, d, eps);
    double sum_tx = 0;
    for (int64_t i = 0; i < d; i++)
        sum_tx += (double)dy[i] * factor(g, i) * (double)x[i] * inv;
    for (int64_t i = 0; i < d; i++) {
        const double xh = (double)x[i] * inv, s = (double)dy[i];
        if (dg)
            dg[i] = (float)((double)dg[i] + s * xh);
        if (dx)
            dx[i] = (float)(inv * (s * factor(g, i) - xh * sum_tx / (double)d));
    }
}

static float cross_entropy(float *lse_out, const float *x, int64_t v, int64_t target,
                           float smoothing)
{
    const double lse = lse_of(x, v), s = (double)smoothing;
    double sum = 0;
    *lse_out = (float)lse;
    if (smoothing == 0.0f)
        return (float)(lse - (double)x[target]);
    for (int64_t i = 0; i < v; i++)
        sum += lse - (double)x[i];
    return (float)((1 - s) * (lse - (double)x[target]) + s * sum / (double)v);
}

static void cross_entropy_grad(float *dx, const float *x, int64_t v, int64_t target,
                               float smoothing, float lse, float scale)
{
    const double s = (double)smoothing;
    for (int64_t i = 0; i < v; i++) {
        const double one = i == target ? 1 - s : 0;
        dx[i] = (float)((double)scale *
                        (exp((double)x[i] - (double)lse) - one - s / (double)v));
    }
}

static void embedding_grad(float *dw, const float *dy, const int64_t *ids, int64_t t,
                           int64_t d, int64_t lo, int64_t hi)
{
    for (int64_t i = 0; i < t; i++)
        if (ids[i] >= lo && ids[i] < hi)
            for (int64_t j = 0; j < d; j++)
                dw[ids[i] * d + j] += dy[i * d + j];
}

void ig__train_rows_ref(ig__train_kernels *table)
{
    table->softmax = softmax;
    table->log_softmax = log_softmax;
    table->logsumexp = logsumexp;
    table->softmax_grad = softmax_grad;
    table->log_softmax_grad = log_softmax_grad;
    table->layer_norm = layer_norm;
    table->layer_norm_grad = layer_norm_grad;
    table->rms_norm = rms_norm;
    table->rms_norm_grad = rms_norm_grad;
    table->cross_entropy = cross_entropy;
    table->cross_entropy_grad = cross_entropy_grad;
    table->embedding_grad = embedding_grad;
}
