/* Data for the tests of kernels: a small generator of numbers, rows of every weight type
 * in the file's own format, and rows packed into a group.
 */
#ifndef INGOT_TESTS_KERNEL_KERNEL_DATA_H
#define INGOT_TESTS_KERNEL_KERNEL_DATA_H

#include "kernel/kernel_int.h"

#include <stdlib.h>
#include <string.h>

/* The weight types that have a packed form. */
static const ig_dtype weight_types[] = {
    IG_DTYPE_Q4_0, IG_DTYPE_Q4_1, IG_DTYPE_Q5_0, IG_DTYPE_Q8_0, IG_DTYPE_Q4_K,
    IG_DTYPE_Q6_K, IG_DTYPE_F16,  IG_DTYPE_BF16, IG_DTYPE_F32,
};
enum { N_WEIGHT_TYPES = sizeof weight_types / sizeof weight_types[0] };

/* A 64-bit linear congruential generator, its upper bits. */
static inline uint32_t random_u32(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 32);
}

/* Uniform in [-1, 1). */
static inline float random_f32(uint64_t *seed)
{
    return (float)(int32_t)random_u32(seed) * 0x1p-31f;
}

/* 64-byte aligned, filled with 0xa5: a read of what was not written shows. */
static inline void *new_bytes(size_t bytes)
{
    void *p = aligned_alloc(64, (bytes + 127) / 64 * 64);
    if (!p)
        abort();
    memset(p, 0xa5, (bytes + 127) / 64 * 64);
    return p;
}

/* Where the f16 fields of a block lie; returns how many. */
static inline int half_fields(int at[2], ig_dtype dtype)
{
    at[0] = dtype == IG_DTYPE_Q6_K ? 208 : 0;
    at[1] = 2;
    switch (dtype) {
    case IG_DTYPE_Q4_1:
    case IG_DTYPE_Q4_K:
        return 2;
    case IG_DTYPE_F16:
    case IG_DTYPE_BF16:
    case IG_DTYPE_F32:
        return 0;
    default:
        return 1;
    }
}

static inline size_t file_row_bytes(ig_dtype dtype, int64_t k)
{
    return (size_t)(k / ig_dtype_block(dtype)) * ig_dtype_block_bytes(dtype);
}

/* n rows of k random values in the file's format; scales uniform in [0, d) or, with d 0, of
 * every finite f16, subnormals and both signs included. */
static inline uint8_t *new_rows(ig_dtype dtype, int64_t n, int64_t k, float d,
                                uint64_t *seed)
{
    const size_t bytes = (size_t)n * file_row_bytes(dtype, k);
    const size_t step = ig_dtype_block_bytes(dtype);
    uint8_t *rows = new_bytes(bytes);
    for (size_t i = 0; i < bytes; i++)
        rows[i] = (uint8_t)(random_u32(seed) >> 24);
    int at[2];
    const int n_fields = half_fields(at, dtype);
    for (size_t i = 0; i < bytes; i += step) {
        for (int f = 0; f < n_fields; f++) {
            uint16_t h = ig__f32_to_f16((random_f32(seed) + 1.0f) * 0.5f * d);
            while (d <= 0.0f && (((h = (uint16_t)random_u32(seed)) & 0x7c00) == 0x7c00))
                ;
            memcpy(rows + i + at[f], &h, 2);
        }
        if (n_fields)
            continue;
        const float value = random_f32(seed);
        const uint16_t half =
            dtype == IG_DTYPE_F16 ? ig__f32_to_f16(value) : ig__f32_to_bf16(value);
        if (step == 2)
            memcpy(rows + i, &half, 2);
        else
            memcpy(rows + i, &value, 4);
    }
    return rows;
}

/* A group of 16 random rows. */
static inline void *new_group(ig_dtype dtype, int64_t k, float d, uint64_t *seed)
{
    uint8_t *rows = new_rows(dtype, IG_GROUP, k, d, seed);
    void *group = new_bytes(ig__packed_group_bytes(dtype, k));
    ig__pack_group(group, dtype, rows, file_row_bytes(dtype, k), IG_GROUP, k);
    free(rows);
    return group;
}

#endif
