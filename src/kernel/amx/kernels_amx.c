/* The "amx" table: avx512's with products by AMX tiles.
 */
#include "kernel/amx/amx_int.h"
#include "kernel/kernel_int.h"

void ig__kernels_amx(ig__kernels *table, const ig__cpu *cpu)
{
    table->isa = "amx";
    table->thread_init = ig__amx_thread_init;
    for (ig_dtype dtype = 0; dtype < IG_DTYPE_COUNT; dtype++)
        if (table->acts[dtype] == IG_ACTS_Q16)
            table->acts[dtype] = IG_ACTS_Q8X2;
    ig__gemm_kernels_amx(table);
    ig__gemm_x2_kernels_amx(table);
    table->peak_int8 = ig__peak_int8_amx;
    if (cpu->amx_bf16 && cpu->avx512_bf16) { /* rounding F16 weights needs the latter */
        ig__gemm_bf16_kernels_amx(table);
        ig__matmul_kernels_amx(table);
        table->peak_bf16 = ig__peak_bf16_amx;
    }
}
