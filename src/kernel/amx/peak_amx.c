/* The limit of bf16 products by AMX tiles: a loop that does nothing else.
 *
 * int8 keeps the limit of the vector units: the sums of each block of 32 must pass through
 * them to be scaled, so tiles alone would name a limit that no quantised product can reach.
 */
#include "kernel/amx/amx_int.h"

static const ig__tile_shapes shapes = {
    .palette = 1,
    .row_bytes = {64, 64, 64, 64, 64, 64},
    .rows = {16, 16, 16, 16, 16, 16},
};

/* Four sums; 16 x 16 x 32 multiply-adds an instruction. */
double ig__peak_bf16_amx(int64_t n_rounds)
{
    static const char zeros[64];
    ig__ensure_shapes(&shapes);
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    _tile_loadd(4, zeros, 0); /* stride 0: every row the same line */
    _tile_loadd(5, zeros, 0);
    for (int64_t i = 0; i < n_rounds; i++) {
        _tile_dpbf16ps(0, 4, 5);
        _tile_dpbf16ps(1, 4, 5);
        _tile_dpbf16ps(2, 4, 5);
        _tile_dpbf16ps(3, 4, 5);
    }
    return 4.0 * 2 * 16 * 16 * 32 * (double)n_rounds;
}
