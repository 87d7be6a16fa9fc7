/* The kernels that work on one row, for AVX2: row_body.inc over this set's sixteen lanes.
 */
#include "kernel/kernel_int.h"

#include "kernel/avx2/vec_avx2.inc"
#include "kernel/row_body.inc"

void ig__row_kernels_avx2(ig__kernels *table)
{
    set_row_kernels(table);
}
