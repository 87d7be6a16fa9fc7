/* The recurrent cells of training, for AVX-512. */
#include "kernel/train_int.h"

#include "kernel/avx512/train_vec_avx512.inc"
#include "kernel/train_func.inc"
#include "kernel/train_cell_body.inc"

void ig__train_cell_avx512(ig__train_kernels *table)
{
    set_cell_kernels(table);
}
