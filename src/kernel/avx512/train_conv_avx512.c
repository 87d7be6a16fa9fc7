/* Convolution and pooling of training, for AVX-512. */
#include "kernel/train_int.h"

#include <math.h>

enum { TILE_ROWS = 8, TILE_VECS = 2 };

#include "kernel/avx512/train_vec_avx512.inc"
#include "kernel/train_tile.inc"
#include "kernel/train_conv_body.inc"
#include "kernel/train_pool_body.inc"

void ig__train_conv_avx512(ig__train_kernels *table)
{
    set_conv_kernels(table);
    table->max_pool = max_pool;
}
