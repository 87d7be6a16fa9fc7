/* What the AMX files share. They use the AVX-512 files' expansions and products: the "amx"
 * table gives the bits of "avx512".
 */
#ifndef INGOT_KERNEL_AMX_AMX_INT_H
#define INGOT_KERNEL_AMX_AMX_INT_H

#include "kernel/avx512/avx512_int.h"

/* The quantised products. */
void ig__gemm_kernels_amx(ig__kernels *table);
/* Loads this thread's tile shapes. */
void ig__amx_thread_init(void);

#endif
