/* What the AMX files share. They use the AVX-512 files' expansions and products.
 *
 * The tile registers' shapes are state of the thread. thread_init loads a set, and each call
 * makes sure of its own (a store and a comparison of 64 bytes), so that a thread whose
 * shapes are not there, or another's, computes the same.
 */
#ifndef INGOT_KERNEL_AMX_AMX_INT_H
#define INGOT_KERNEL_AMX_AMX_INT_H

#include "kernel/avx512/avx512_int.h"

#include <string.h>

/* The 64 bytes that LDTILECFG takes. */
typedef struct ig__tile_shapes {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} ig__tile_shapes;

IG_INLINE void ig__ensure_shapes(const ig__tile_shapes *wanted)
{
    ig__tile_shapes now;
    _tile_storeconfig(&now);
    if (memcmp(&now, wanted, sizeof now) != 0)
        _tile_loadconfig(wanted);
}

/* The products with int8 activations: the bits of avx512's. */
void ig__gemm_kernels_amx(ig__kernels *table);
void ig__gemm_x2_kernels_amx(ig__kernels *table);
/* The products with bf16 activations: not the bits of avx512's. */
void ig__gemm_bf16_kernels_amx(ig__kernels *table);
/* Dense products of bf16. */
void ig__matmul_kernels_amx(ig__kernels *table);
double ig__peak_int8_amx(int64_t n_rounds);
double ig__peak_bf16_amx(int64_t n_rounds);
/* Loads the shapes for int8. */
void ig__amx_thread_init(void);

#endif
