/* Convolution of training, for AVX-512. */
#include "kernel/train_int.h"

enum { TILE_ROWS = 8, TILE_VECS = 2 };

#include "kernel/avx512/train_vec_avx512.inc"
#include "kernel/train_tile.inc"
#include "kernel/train_conv_body.inc"

void ig__train_conv_avx512(ig__train_kernels *table)
{
    set_conv_kernels(table);
}
