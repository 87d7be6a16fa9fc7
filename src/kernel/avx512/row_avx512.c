/* The kernels that work on one row, for AVX-512: row_body.inc over this set's sixteen
 * lanes. */
#include "kernel/kernel_int.h"

#include "kernel/avx512/vec_avx512.inc"
#include "kernel/row_body.inc"

void ig__row_kernels_avx512(ig__kernels *table)
{
    set_row_kernels(table);
}
