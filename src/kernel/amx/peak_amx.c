/* The limits of products by AMX tiles: loops that do nothing else.
 *
 * For int8 this limit is far above what quantised products reach, since the sums of each block
 * of 32 columns must pass through the vector units to be scaled. It is the machine's limit all the same.
 */
#include "kernel/amx/amx_int.h"

static const ig__tile_shapes shapes = {
    .palette = 1,
    .row_bytes = {64, 64, 64, 64, 64, 64},
    .rows = {16, 16, 16, 16, 16, 16},
};

static void begin(void)
{
    static const char zeros[64];
    ig__ensure_shapes(&shapes);
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    _tile_loadd(4, zeros, 0); /* stride 0: every row the same line */
    _tile_loadd(5, zeros, 0);
}

/* Four sums; 16 x 16 x 64 multiply-adds an instruction. */
double ig__peak_int8_amx(int64_t n_rounds)
{
    begin();
    for (int64_t i = 0; i < n_rounds; i++) {
        _tile_dpbssd(0, 4, 5);
        _tile_dpbssd(1, 4, 5);
        _tile_dpbssd(2, 4, 5);
        _tile_dpbssd(3, 4, 5);
    }
    return 4.0 * 2 * 16 * 16 * 64 * (double)n_rounds;
}

/* Four sums; 16 x 16 x 32 multiply-adds an instruction. */
double ig__peak_bf16_amx(int64_t n_rounds)
{
    begin();
    for (int64_t i = 0; i < n_rounds; i++) {
        _tile_dpbf16ps(0, 4, 5);
        _tile_dpbf16ps(1, 4, 5);
        _tile_dpbf16ps(2, 4, 5);
        _tile_dpbf16ps(3, 4, 5);
    }
    return 4.0 * 2 * 16 * 16 * 32 * (double)n_rounds;
}
