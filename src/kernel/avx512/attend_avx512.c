/* Attention for AVX-512: attend_body.inc over zmm registers.
 *
 * A tile of 6 rows x 4 vectors holds 24 of the 32 registers as sums, 4 as keys or values
 * and one as the broadcast operand: 24 FMA for 10 loads.
 */
#include "kernel/kernel_int.h"

#include "kernel/avx512/vec_avx512.inc"

enum { TILE_ROWS = 6 };

static inline int tile_cols(int rows)
{
    (void)rows;
    return 4;
}

#include "kernel/attend_body.inc"

void ig__attend_kernels_avx512(ig__kernels *table)
{
    set_attend_kernels(table);
}
