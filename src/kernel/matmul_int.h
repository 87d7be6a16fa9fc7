/* What the files of dense products share.
 */
#ifndef INGOT_KERNEL_MATMUL_INT_H
#define INGOT_KERNEL_MATMUL_INT_H

#include "kernel/kernel_int.h"

/* A body that is specialised by the constants it is called with. */
#define IG_MM_INLINE static inline __attribute__((always_inline))

/* Before a loop over registers: it must vanish, or its arrays live in memory. */
#ifdef __clang__
#    define IG_MM_UNROLL _Pragma("clang loop unroll(full)")
#else
#    define IG_MM_UNROLL _Pragma("GCC unroll 32")
#endif

/* Value i of x, of a type whose sums are f32. */
IG_MM_INLINE float ig__mm_read(const void *x, int64_t i, const ig__mm_type type)
{
    switch (type) {
    case IG__MM_BF16:
        return ig__bf16_to_f32(((const uint16_t *)x)[i]);
    case IG__MM_F16:
        return ig__f16_to_f32(((const uint16_t *)x)[i]);
    default:
        return ((const float *)x)[i];
    }
}

/* The slices of m rows, at most mr each: how many, and rows before slice i. */
static inline int64_t ig__mm_slices(int64_t m, int64_t mr)
{
    return (m + mr - 1) / mr;
}

static inline int64_t ig__mm_slice_begin(int64_t m, int64_t n_slices, int64_t i)
{
    const int64_t extra = m % n_slices;
    return i * (m / n_slices) + (i < extra ? i : extra);
}

/* The packed forms in plain C: what they are, and what serves where nothing faster does. */
IG_MM_INLINE void ig__mm_pack_a_f32(float *y, const void *x, int64_t row, int64_t step,
                                    int64_t m, int64_t k, const int64_t mr,
                                    const ig__mm_type type)
{
    const int64_t n_slices = ig__mm_slices(m, mr);
    for (int64_t s = 0; s < n_slices; s++) {
        const int64_t begin = ig__mm_slice_begin(m, n_slices, s);
        const int64_t end = ig__mm_slice_begin(m, n_slices, s + 1);
        for (int64_t j = 0; j < k; j++)
            for (int64_t i = begin; i < end; i++)
                *y++ = ig__mm_read(x, i * row + j * step, type);
    }
}

IG_MM_INLINE void ig__mm_pack_b_f32(float *y, const void *x, int64_t row, int64_t step,
                                    int64_t n, int64_t k, const int64_t nr,
                                    const ig__mm_type type)
{
    for (int64_t j = 0; j < k; j++)
        for (int64_t i = 0; i < nr; i++)
            *y++ = i < n ? ig__mm_read(x, i * row + j * step, type) : 0.0f;
}

/* The same of f64. */
IG_MM_INLINE void ig__mm_pack_a_f64(double *y, const double *x, int64_t row, int64_t step,
                                    int64_t m, int64_t k, const int64_t mr)
{
    const int64_t n_slices = ig__mm_slices(m, mr);
    for (int64_t s = 0; s < n_slices; s++) {
        const int64_t begin = ig__mm_slice_begin(m, n_slices, s);
        const int64_t end = ig__mm_slice_begin(m, n_slices, s + 1);
        for (int64_t j = 0; j < k; j++)
            for (int64_t i = begin; i < end; i++)
                *y++ = x[i * row + j * step];
    }
}

IG_MM_INLINE void ig__mm_pack_b_f64(double *y, const double *x, int64_t row, int64_t step,
                                    int64_t n, int64_t k, const int64_t nr)
{
    for (int64_t j = 0; j < k; j++)
        for (int64_t i = 0; i < nr; i++)
            *y++ = i < n ? x[i * row + j * step] : 0.0;
}

#endif
