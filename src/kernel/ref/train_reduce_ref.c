/* The reference of the reductions: sums in double by the tree of train.h, extremes, and a
 * dot product. The other tables give the same bits.
 */
#include "kernel/train_int.h"

#include <math.h>

/* acc + what x adds. */
static double term(ig__reduce op, double acc, double x, double center)
{
    switch (op) {
    case IG__REDUCE_SUM:
        return acc + x;
    case IG__REDUCE_SUM_SQUARES:
        return fma(x, x, acc);
    default:
        return fma(x - center, x - center, acc);
    }
}

static double reduce(ig__reduce op, const float *x, int64_t n, int64_t stride,
                     double center)
{
    double sum = 0;
    for (int64_t first = 0; first < n; first += IG__SPAN) {
        double lane[16] = {0};
        for (int64_t i = first; i < n && i < first + IG__SPAN; i++)
            lane[i % 16] = term(op, lane[i % 16], (double)x[i * stride], center);
        sum += ig__join_lanes(lane);
    }
    return sum;
}

static double reduce_f64(ig__reduce op, const double *x, int64_t n, int64_t stride,
                         double center)
{
    double sum = 0;
    for (int64_t first = 0; first < n; first += IG__SPAN) {
        double lane[16] = {0};
        for (int64_t i = first; i < n && i < first + IG__SPAN; i++)
            lane[i % 16] = term(op, lane[i % 16], x[i * stride], center);
        sum += ig__join_lanes(lane);
    }
    return sum;
}

static void reduce_columns(ig__reduce op, double *out, const float *x, int64_t rows,
                           int64_t row_stride, int64_t cols, const double *center,
                           void *scratch)
{
    (void)scratch;
    for (int64_t c = 0; c < cols; c++)
        out[c] = reduce(op, x + c, rows, row_stride,
                        op == IG__REDUCE_SUM_CENTERED ? center[c] : 0.0);
}

static int64_t arg_largest(const float *x, int64_t n, int64_t stride)
{
    int64_t best = 0;
    for (int64_t i = 1; i < n && !isnan(x[best * stride]); i++)
        if (x[i * stride] > x[best * stride] || isnan(x[i * stride]))
            best = i;
    return best;
}

static int64_t arg_smallest(const float *x, int64_t n, int64_t stride)
{
    int64_t best = 0;
    for (int64_t i = 1; i < n && !isnan(x[best * stride]); i++)
        if (x[i * stride] < x[best * stride] || isnan(x[i * stride]))
            best = i;
    return best;
}

static float largest(const float *x, int64_t n, int64_t stride)
{
    return x[arg_largest(x, n, stride) * stride];
}

static float smallest(const float *x, int64_t n, int64_t stride)
{
    return x[arg_smallest(x, n, stride) * stride];
}

static double dot(const float *x, const float *y, int64_t n)
{
    double sum = 0;
    for (int64_t first = 0; first < n; first += IG__SPAN) {
        double lane[16] = {0};
        for (int64_t i = first; i < n && i < first + IG__SPAN; i++)
            lane[i % 16] += (double)x[i] * (double)y[i]; /* an exact product */
        sum += ig__join_lanes(lane);
    }
    return sum;
}

void ig__train_reduce_ref(ig__train_kernels *table)
{
    table->reduce = reduce;
    table->reduce_f64 = reduce_f64;
    table->reduce_columns = reduce_columns;
    table->largest = largest;
    table->smallest = smallest;
    table->arg_largest = arg_largest;
    table->arg_smallest = arg_smallest;
    table->dot = dot;
}
