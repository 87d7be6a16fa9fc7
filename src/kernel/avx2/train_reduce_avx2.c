/* The reductions of training, for AVX2. */
#include "kernel/train_int.h"

#include "kernel/avx2/train_vec_avx2.inc"
#include "kernel/train_reduce_body.inc"

void ig__train_reduce_avx2(ig__train_kernels *table)
{
    set_reduce_kernels(table);
}
