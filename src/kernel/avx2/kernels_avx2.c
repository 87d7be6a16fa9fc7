/* The "avx2" table: which of the reference's entries AVX2, FMA and F16C override.
 */
#include "kernel/kernel_int.h"

void ig__kernels_avx2(ig__kernels *table, const ig__cpu *cpu)
{
    table->isa = "avx2";
    ig__acts_kernels_avx2(table);
    ig__gemm_float_kernels_avx2(table);
    ig__gemm_kernels_avx2(table);
    if (cpu->avx_vnni)
        ig__gemm_kernels_avxvnni(table);
    ig__row_kernels_avx2(table);
    ig__attend_kernels_avx2(table);
    ig__matmul_kernels_avx2(table);
    ig__peak_kernels_avx2(table, cpu);
}
