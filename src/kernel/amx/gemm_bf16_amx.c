/* Products of F16 and BF16 weights with BF16 activations, by AMX tiles.
 *
 * TDPBF16PS adds to a tile of 16 x 16 sums the products of 32 consecutive columns of K. Its
 * order is its own: for each sum, the 16 even columns are added in one chain of FMA from
 * zero, the 16 odd ones in another, then sum += even + odd (denormals count as zero). So
 *
 *   acc = acc + (even + odd)        for each 32 columns, ascending
 *
 * is the one sequence of this file, whatever n is. It is not that of VDPBF16PS.
 *
 * Both operands lie as pairs, [K/2][16][2], which is the instruction's second operand; the
 * first has the pairs of a row side by side. One column is a row of pairs by itself:
 *
 *   A [1][32 k] = the column    B [16 k/2][16 r][2] = the weights    C [1][16 r]
 *
 * and so are a FEW, once their pairs are put in rows. For more, the weights are transposed once per call, 16 x 16 pairs at a time, which
 * all tiles of columns share, and the sums come out transposed:
 *
 *   A [16 r][32 k] = weights    B [16 k/2][16 c][2] = a tile         C [16 r][16 c]
 *
 * The products are the same numbers in the same order either way. Up to four tiles of
 * columns advance together, since a chain of TDPBF16PS waits three times as long as one
 * takes. F16 weights are rounded to bf16 first. A partial tile is copied and filled up with
 * zeros.
 */
#include "kernel/amx/amx_int.h"

/* Tile registers: constants of the instructions. C: 0..3. */
#define TILE_A     4 /* 16 x 64 bytes */
#define TILE_B     5 /* 16 x 64 bytes */
#define TILE_A_ONE 6 /* 1 x 64 bytes */
#define TILE_C_ONE 7 /* 1 x 64 bytes */

enum {
    CHUNK = 1024, /* bytes of 32 columns of 16 rows */
    FEW = 6       /* columns up to which their rows cost less than the weights' */
};

static const ig__tile_shapes shapes = {
    .palette = 1,
    .row_bytes = {64, 64, 64, 64, 64, 64, 64, 64},
    .rows = {16, 16, 16, 16, 16, 16, [TILE_A_ONE] = 1, [TILE_C_ONE] = 1},
};

/* y = x transposed, both 16 lines of 16 words of 32 bits. */
IG_INLINE void transpose(__m512i y[16], const __m512i x[16])
{
    __m512i a[16], b[16];
    IG_UNROLL
    for (int i = 0; i < 16; i += 2) { /* words of line pairs */
        a[i] = _mm512_unpacklo_epi32(x[i], x[i + 1]);
        a[i + 1] = _mm512_unpackhi_epi32(x[i], x[i + 1]);
    }
    IG_UNROLL
    for (int i = 0; i < 16; i += 4) { /* four lines: b[i + j] has word j of each 128 bits */
        b[i] = _mm512_unpacklo_epi64(a[i], a[i + 2]);
        b[i + 1] = _mm512_unpackhi_epi64(a[i], a[i + 2]);
        b[i + 2] = _mm512_unpacklo_epi64(a[i + 1], a[i + 3]);
        b[i + 3] = _mm512_unpackhi_epi64(a[i + 1], a[i + 3]);
    }
    IG_UNROLL
    for (int j = 0; j < 4; j++) { /* the 4 x 4 blocks of 128 bits */
        const __m512i lo01 = _mm512_shuffle_i32x4(b[j], b[4 + j], 0x44);
        const __m512i hi01 = _mm512_shuffle_i32x4(b[j], b[4 + j], 0xee);
        const __m512i lo23 = _mm512_shuffle_i32x4(b[8 + j], b[12 + j], 0x44);
        const __m512i hi23 = _mm512_shuffle_i32x4(b[8 + j], b[12 + j], 0xee);
        y[j] = _mm512_shuffle_i32x4(lo01, lo23, 0x88);
        y[4 + j] = _mm512_shuffle_i32x4(lo01, lo23, 0xdd);
        y[8 + j] = _mm512_shuffle_i32x4(hi01, hi23, 0x88);
        y[12 + j] = _mm512_shuffle_i32x4(hi01, hi23, 0xdd);
    }
}

/* 16 pairs of bf16 from bf16 or f16. */
IG_INLINE __m512i read_line(const char *p, const bool is_f16)
{
    if (!is_f16)
        return _mm512_loadu_si512(p);
    return (__m512i)_mm512_cvtne2ps_pbh(ig__load_f16(p + 32), ig__load_f16(p));
}

/* y [K/32][16 r][16 pairs] from a group [K/2][16 r]. */
IG_INLINE void transpose_group(char *y, const char *group, int64_t k, const bool is_f16)
{
    for (int64_t i = 0; i < 32 * k; i += CHUNK) {
        __m512i x[16], t[16];
        IG_UNROLL
        for (int j = 0; j < 16; j++)
            x[j] = read_line(group + i + 64 * j, is_f16);
        transpose(t, x);
        IG_UNROLL
        for (int j = 0; j < 16; j++)
            _mm512_store_si512(y + i + 64 * j, t[j]);
    }
}

/* y [K/2][16] pairs from a tile of n columns, zeros behind. */
static void fill_tile(char *y, const char *tile, int64_t n, int64_t k)
{
    const __mmask16 there = (__mmask16)((1 << n) - 1);
    for (int64_t p = 0; p < k / 2; p++)
        _mm512_store_si512(y + 64 * p, _mm512_maskz_loadu_epi32(there, tile + 4 * n * p));
}

/* The sums of tile register i, [16 r][16 c], as out [n][16 r]. */
#define STORE_SUMS(i, out, n)                                                              \
    do {                                                                                   \
        _tile_stored(i, room, 64);                                                         \
        store_transposed(out, room, n);                                                    \
    } while (0)

static void store_transposed(float *out, const char *room, int64_t n)
{
    __m512i x[16], y[16];
    IG_UNROLL
    for (int i = 0; i < 16; i++)
        x[i] = _mm512_load_si512(room + 64 * i);
    transpose(y, x);
    IG_UNROLL
    for (int c = 0; c < 16; c++)
        if (c < n)
            _mm512_storeu_si512(out + 16 * c, y[c]);
}

/* One tile of columns x [K/2][16] pairs, n of them wanted. w: the transposed group */
static void one_tile(float *out, const char *w, const char *x, int64_t n, int64_t k,
                     char *room)
{
    _tile_zero(0);
    for (int64_t i = 0; i < 32 * k; i += CHUNK) {
        _tile_loadd(TILE_A, w + i, 64);
        _tile_loadd(TILE_B, x + i, 64);
        _tile_dpbf16ps(0, TILE_A, TILE_B);
    }
    STORE_SUMS(0, out, n);
}

/* Four whole tiles. */
static void four_tiles(float *out, const char *w, const char *x, int64_t k, char *room)
{
    const int64_t tile = 32 * k; /* bytes */
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (int64_t i = 0; i < 32 * k; i += CHUNK) {
        _tile_loadd(TILE_A, w + i, 64);
        _tile_loadd(TILE_B, x + i, 64);
        _tile_dpbf16ps(0, TILE_A, TILE_B);
        _tile_loadd(TILE_B, x + i + tile, 64);
        _tile_dpbf16ps(1, TILE_A, TILE_B);
        _tile_loadd(TILE_B, x + i + 2 * tile, 64);
        _tile_dpbf16ps(2, TILE_A, TILE_B);
        _tile_loadd(TILE_B, x + i + 3 * tile, 64);
        _tile_dpbf16ps(3, TILE_A, TILE_B);
    }
    STORE_SUMS(0, out, 16);
    STORE_SUMS(1, out + 256, 16);
    STORE_SUMS(2, out + 512, 16);
    STORE_SUMS(3, out + 768, 16);
}

/* 32 columns of weights as bf16 pairs: where they lie, or converted to `room`. */
IG_INLINE const char *read_chunk(char *room, const char *group, int64_t i,
                                 const bool is_f16)
{
    if (!is_f16)
        return group + i;
    char *y = room + i % (4 * CHUNK); /* the one before may still be read */
    IG_UNROLL
    for (int j = 0; j < 16; j++)
        _mm512_store_si512(y + 64 * j, read_line(group + i + 64 * j, true));
    return y;
}

/* One column x [K]. */
IG_INLINE void one_column(float *out, const char *group, const char *x, int64_t k,
                          char *room, const bool is_f16)
{
    _tile_zero(TILE_C_ONE);
    for (int64_t i = 0; i < 32 * k; i += CHUNK) {
        const char *w = read_chunk(room, group, i, is_f16);
        _tile_loadd(TILE_A_ONE, x + i / 16, 64);
        _tile_loadd(TILE_B, w, 64);
        _tile_dpbf16ps(TILE_C_ONE, TILE_A_ONE, TILE_B);
    }
    _tile_stored(TILE_C_ONE, out, 64);
}

/* n <= FEW columns. rows: [16][K] bf16, the first n are filled; the sums of the others are
 * dropped. */
IG_INLINE void few_columns(float *out, const char *group, const char *tile, int64_t n,
                           int64_t k, char *room, char *rows, const bool is_f16)
{
    for (int64_t c = 0; c < n; c++)
        for (int64_t p = 0; p < k / 2; p++)
            memcpy(rows + 2 * k * c + 4 * p, tile + 4 * (n * p + c), 4);
    _tile_zero(0);
    for (int64_t i = 0; i < 32 * k; i += CHUNK) {
        const char *w = read_chunk(room, group, i, is_f16);
        _tile_loadd(TILE_A, rows + i / 16, 2 * k);
        _tile_loadd(TILE_B, w, 64);
        _tile_dpbf16ps(0, TILE_A, TILE_B);
    }
    _tile_stored(0, room, 64);
    memcpy(out, room, (size_t)n * 64);
}

/* out = w * x^T for one group of 16 rows.
 *   out [n][16] f32   group [K/2][16][2]   acts: BF16 tiles of K values, n columns
 *   scratch: 4 KiB of room, the transposed group and a filled-up tile, 32 * K bytes each;
 *   32*n*K flops */
IG_INLINE void gemm(float *out, const void *group, const void *acts, int64_t n, int64_t k,
                    void *scratch, const bool is_f16)
{
    const int64_t tile_bytes = 32 * k;
    char *room = scratch, *w = room + 4 * CHUNK, *filled = w + tile_bytes;
    const char *tile = acts;
    ig__ensure_shapes(&shapes);
    if (n == 1) {
        one_column(out, group, tile, k, room, is_f16);
        return;
    }
    if (n <= FEW) {
        few_columns(out, group, tile, n, k, room, filled, is_f16);
        return;
    }
    transpose_group(w, group, k, is_f16);
    int64_t c = 0;
    for (; c + 64 <= n; c += 64, tile += 4 * tile_bytes)
        four_tiles(out + 16 * c, w, tile, k, room);
    for (; c + 16 <= n; c += 16, tile += tile_bytes)
        one_tile(out + 16 * c, w, tile, 16, k, room);
    if (c < n) {
        fill_tile(filled, tile, n - c, k);
        one_tile(out + 16 * c, w, filled, n - c, k, room);
    }
}

static void f16(float *out, const void *group, const void *acts, int64_t n, int64_t k,
                void *scratch)
{
    gemm(out, group, acts, n, k, scratch, true);
}

static void bf16(float *out, const void *group, const void *acts, int64_t n, int64_t k,
                 void *scratch)
{
    gemm(out, group, acts, n, k, scratch, false);
}

void ig__gemm_bf16_kernels_amx(ig__kernels *table)
{
    table->gemm[IG_ACTS_BF16][IG_DTYPE_F16] = f16;
    table->gemm[IG_ACTS_BF16][IG_DTYPE_BF16] = bf16;
    table->acts[IG_DTYPE_F16] = IG_ACTS_BF16;
    table->acts[IG_DTYPE_BF16] = IG_ACTS_BF16;
}
