/* What the AVX2 files of dense products share. */
#ifndef INGOT_KERNEL_AVX2_MATMUL_AVX2_H
#define INGOT_KERNEL_AVX2_MATMUL_AVX2_H

#include "kernel/matmul_int.h"

extern const ig__mm_kernel ig__dgemm_avx2;

#endif
