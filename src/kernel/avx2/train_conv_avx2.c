/* Convolution and pooling of training, for AVX2. */
#include "kernel/train_int.h"

#include <math.h>

enum { TILE_ROWS = 4, TILE_VECS = 1 };

#include "kernel/avx2/train_vec_avx2.inc"
#include "kernel/train_tile.inc"
#include "kernel/train_conv_body.inc"
#include "kernel/train_pool_body.inc"

void ig__train_conv_avx2(ig__train_kernels *table)
{
    set_conv_kernels(table);
    table->max_pool = max_pool;
}
