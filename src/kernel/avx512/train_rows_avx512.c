/* The kernels of rows of training, for AVX-512. */
#include "kernel/train_int.h"

#include "kernel/avx512/train_vec_avx512.inc"
#include "kernel/train_func.inc"
#include "kernel/train_rows_body.inc"

void ig__train_rows_avx512(ig__train_kernels *table)
{
    set_rows_kernels(table);
}
