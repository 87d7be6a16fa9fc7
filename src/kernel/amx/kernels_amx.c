/* The "amx" table: avx512's with the products by AMX tiles.
 */
#include "kernel/amx/amx_int.h"
#include "kernel/kernel_int.h"

void ig__kernels_amx(ig__kernels *table, const ig__cpu *cpu)
{
    (void)cpu;
    table->isa = "amx";
    table->thread_init = ig__amx_thread_init;
    ig__gemm_kernels_amx(table);
}
