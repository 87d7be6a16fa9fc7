/* What the tests of the training kernels share: the tables, arrays with guards, and errors
 * in units of the last place. */
#ifndef INGOT_TESTS_TRAIN_DATA_H
#define INGOT_TESTS_TRAIN_DATA_H

#include "kernel/kernel_data.h"
#include "kernel/train.h"

#include <math.h>
#include <stdlib.h>

/* Every table of this CPU, and how many. */
typedef struct train_tables {
    const ig__train_kernels *t[3];
    int n;
} train_tables;

static inline train_tables find_train_tables(void)
{
    train_tables all;
    all.n = ig__train_kernels_available(all.t);
    return all;
}

/* |got - want| in units of the last place of float32 at `want` (of its least subnormal
 * at the bottom); 0 where both are NaN or the same infinity. */
static inline double ulps(float got, double want)
{
    if (isnan(want))
        return isnan(got) ? 0 : 1e30;
    const float nearest = (float)want;
    if (isinf(nearest) || isinf(got) || isnan(got)) {
        if (got == nearest)
            return 0;
        /* the largest number beside infinity is one unit away */
        return isnan(got)                                        ? 1e30
               : fabsf(got) > 3.402e38f && fabs(want) > 3.402e38 ? 1
                                                                 : 1e30;
    }
    int e;
    frexp(want, &e);
    const double unit = ldexp(1.0, (e < -125 ? -125 : e) - 24);
    return fabs((double)got - want) / unit;
}

static inline void fill_f32(float *x, int64_t n, float size, uint64_t seed)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = random_f32(&seed) * size;
}

static inline float *new_f32(int64_t n, float size, uint64_t seed)
{
    float *x = malloc((size_t)(n > 0 ? n : 1) * sizeof *x);
    if (!x)
        abort();
    fill_f32(x, n, size, seed);
    return x;
}

#endif
