/* Conversions and random fills, for AVX-512. */
#include "kernel/train_int.h"

#include "kernel/avx512/train_vec_avx512.inc"
#include "kernel/train_func.inc"
#include "kernel/train_number_body.inc"

void ig__train_number_avx512(ig__train_kernels *table)
{
    set_number_kernels(table);
}
