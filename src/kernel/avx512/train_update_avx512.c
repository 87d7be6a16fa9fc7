/* The optimisers' updates, for AVX-512. */
#include "kernel/train_int.h"

#include "kernel/avx512/train_vec_avx512.inc"
#include "kernel/train_update_body.inc"

void ig__train_update_avx512(ig__train_kernels *table)
{
    set_update_kernels(table);
}
