/* The reductions of training, for AVX-512. */
#include "kernel/train_int.h"

#include "kernel/avx512/train_vec_avx512.inc"
#include "kernel/train_reduce_body.inc"

void ig__train_reduce_avx512(ig__train_kernels *table)
{
    set_reduce_kernels(table);
}
