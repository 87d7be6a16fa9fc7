/* Attention for AVX2: attend_body.inc over pairs of ymm registers.
 *
 * A tile of 6 rows x 1 vector holds 12 of the 16 registers as sums, 2 as keys or values and
 * one as the broadcast operand. Fewer rows take more vectors side by side, so that enough
 * chains of FMA run at once.
 */
#include "kernel/kernel_int.h"

#include "kernel/avx2/vec_avx2.inc"

enum { TILE_ROWS = 6 };

static inline int tile_cols(int rows)
{
    return rows == 1 ? 4 : rows == 2 ? 2 : 1;
}

#include "kernel/attend_body.inc"

void ig__attend_kernels_avx2(ig__kernels *table)
{
    set_attend_kernels(table);
}
