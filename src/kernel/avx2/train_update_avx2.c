/* The optimisers' updates, for AVX2. */
#include "kernel/train_int.h"

#include "kernel/avx2/train_vec_avx2.inc"
#include "kernel/train_update_body.inc"

void ig__train_update_avx2(ig__train_kernels *table)
{
    set_update_kernels(table);
}
