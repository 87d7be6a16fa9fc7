/* The kernels of rows of training, for AVX2. */
#include "kernel/train_int.h"

#include "kernel/avx2/train_vec_avx2.inc"
#include "kernel/train_func.inc"
#include "kernel/train_rows_body.inc"

void ig__train_rows_avx2(ig__train_kernels *table)
{
    set_rows_kernels(table);
}
