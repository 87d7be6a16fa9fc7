/* Products of 8- and 6-bit types with Q8X2 activations, by AMX tiles; the bits of avx512's.
 *
 * TDPBSSD multiplies a tile of 16 activation columns x 32 bytes (32 consecutive columns of
 * K, one term, as a Q8X2 tile holds them) by 8 lines of 64 weight bytes (as the expanded group of
 * gemm_q8.inc holds them, signed) into 16 x 16 integer sums:
 *
 *   A [16 c][32 k]  x  B [8 k/4][16 r][4]  ->  C [16 c][16 r] i32, exact
 *
 * and so for each term. The sums go through memory to vector registers, where
 * they are scaled and added by the very sequence of gemm_q8.inc, so that every bit is the
 * same. Products, stores and vectors overlap: a step loads the operands of block b + 2,
 * stores the sums of b + 1, multiplies b + 2 and scales b. In another order it is slower:
 * stores that wait for their product fill the scheduler, and vectors behind them wait too.
 *
 *     block      0   1   2   3  ..
 *     multiply  [0] [1] [2] [3]
 *     store         [0] [1] [2]           into ring[b % RING]
 *     vectors           [0] [1]           from ring[b % RING]
 *
 * Tiles pay from 16 columns on (32 where a block has two sums): fewer go to the avx512
 * product. Behind whole tiles a partial one of 9 or more columns is read as if it had 16:
 * the rows past its own belong to the next block, and their sums are dropped.
 */
#include "kernel/amx/amx_int.h"

enum { LEAST_REST = 9, RING = 2 };

/* Tile registers: constants of the instructions. */
#define TILE_C0 0 /* 16 x 64 bytes: [16 c][16 r] i32 */
#define TILE_C1 1
#define TILE_C2 2
#define TILE_C3 3
#define TILE_A0 4 /* 16 x 32 bytes: [16 c][32 k] i8, of hi */
#define TILE_A1 5 /* of lo */
#define TILE_B0 6 /* 8 x 64 bytes: [8 k/4][16 r][4] i8 */
#define TILE_B1 7 /* the second half's */

static const ig__tile_shapes shapes = {
    .palette = 1,
    .row_bytes = {[TILE_C0] = 64,
                  [TILE_C1] = 64,
                  [TILE_C2] = 64,
                  [TILE_C3] = 64,
                  [TILE_A0] = 32,
                  [TILE_A1] = 32,
                  [TILE_B0] = 64,
                  [TILE_B1] = 64},
    .rows = {[TILE_C0] = 16,
             [TILE_C1] = 16,
             [TILE_C2] = 16,
             [TILE_C3] = 16,
             [TILE_A0] = 16,
             [TILE_A1] = 16,
             [TILE_B0] = 8,
             [TILE_B1] = 8},
};

void ig__amx_thread_init(void)
{
    _tile_loadconfig(&shapes);
}

/* A block's operands to tiles: w [8 or 12][64] i8, q [16][2][32] i8 */
IG_INLINE void load_block(const uint8_t *w, const int8_t *q, const int sums)
{
    _tile_loadd(TILE_A0, q, 64);
    _tile_loadd(TILE_A1, q + 32, 64);
    _tile_loadd(TILE_B0, w, 64);
    if (sums == 2)
        _tile_loadd(TILE_B1, w + 256, 64);
}

IG_INLINE void multiply_block(const int sums)
{
    _tile_zero(TILE_C0);
    _tile_dpbssd(TILE_C0, TILE_A0, TILE_B0);
    _tile_zero(TILE_C1);
    _tile_dpbssd(TILE_C1, TILE_A1, TILE_B0);
    if (sums == 2) {
        _tile_zero(TILE_C2);
        _tile_dpbssd(TILE_C2, TILE_A0, TILE_B1);
        _tile_zero(TILE_C3);
        _tile_dpbssd(TILE_C3, TILE_A1, TILE_B1);
    }
}

/* isum [sums][2][16 c][16 r] */
IG_INLINE void store_block(int32_t *isum, const int sums)
{
    _tile_stored(TILE_C0, isum, 64);
    _tile_stored(TILE_C1, isum + 256, 64);
    if (sums == 2) {
        _tile_stored(TILE_C2, isum + 512, 64);
        _tile_stored(TILE_C3, isum + 768, 64);
    }
}

/* 16 sums 16 * hi + lo as floats. isum [2][16 c][16 r] */
IG_INLINE __m512 floats_of(const int32_t *isum)
{
    const __m512i hi = _mm512_slli_epi32(_mm512_load_si512(isum), 4);
    return _mm512_cvtepi32_ps(_mm512_add_epi32(hi, _mm512_load_si512(isum + 256)));
}

/* acc [16] += the block's sums, scaled: s [sums][16] f32, scale [16] */
IG_INLINE void scale_sums(__m512 *acc, const int32_t *isum, const uint8_t *s,
                          const float *scale, const int sums)
{
    const __m512 s0 = _mm512_load_ps(s);
    const __m512 s1 = sums == 2 ? _mm512_load_ps(s + 64) : s0;
    IG_UNROLL
    for (int c = 0; c < 16; c++) {
        const __m512 x = _mm512_set1_ps(scale[c]);
        acc[c] = _mm512_fmadd_ps(floats_of(isum + 16 * c), _mm512_mul_ps(s0, x), acc[c]);
        if (sums == 2)
            acc[c] = _mm512_fmadd_ps(floats_of(isum + 512 + 16 * c), _mm512_mul_ps(s1, x),
                                     acc[c]);
    }
}

/* out [n][16] of a tile of n columns. w: the expanded group; ring: RING sums */
IG_INLINE void one_tile(float *out, const uint8_t *w, const void *acts, int64_t n,
                        int64_t nb, int32_t *ring, const int sums)
{
    const ig__q8x2_tile t = ig__q8x2_tile_at(acts, n, nb);
    const int64_t bytes = IG_AMX_WEIGHT_BYTES(sums), stride = bytes + 64 * sums;
    const int64_t one = 512 * sums, row = 64 * n;
    __m512 acc[16];
    IG_UNROLL
    for (int c = 0; c < 16; c++)
        acc[c] = _mm512_setzero_ps();
    load_block(w, t.q, sums);
    multiply_block(sums);
    for (int64_t b = -1; b < nb; b++) {
        const bool has_next = b + 2 < nb;
        if (has_next)
            load_block(w + stride * (b + 2), t.q + row * (b + 2), sums);
        if (b + 1 < nb)
            store_block(ring + one * ((b + 1) % RING), sums);
        if (has_next)
            multiply_block(sums);
        if (b >= 0)
            scale_sums(acc, ring + one * (b % RING), w + stride * b + bytes,
                       t.scale + n * b, sums);
    }
    IG_UNROLL
    for (int c = 0; c < 16; c++)
        if (c < n)
            _mm512_storeu_ps(out + 16 * c, acc[c]);
}

/* A type: how to expand a group, and the avx512 product for what tiles do not serve. */
typedef struct kind {
    void (*expand)(void *y, const void *group, int64_t k);
    void (*few)(float *out, const void *group, const void *acts, int64_t n, int64_t k,
                void *scratch);
} kind;

/* May a partial tile be read as 16 columns: do the last block's end inside its bytes? */
static bool is_readable(int64_t n, int64_t nb)
{
    return n >= LEAST_REST && ((nb - 1) * n + 16) * 64 <= nb * n * 88;
}

/* out = w * x^T for one group of 16 rows.
 *   out [n][16] f32   group: packed   acts: Q8X2 tiles of K values, n columns
 *   scratch: RING sums, at most 8 KiB of them, then the expanded group, at most 28*K bytes */
IG_INLINE void gemm(float *out, const void *group, const void *acts, int64_t n, int64_t k,
                    void *scratch, kind type, const int sums)
{
    const int64_t nb = k / IG_QBLOCK;
    const size_t tile_bytes = ig__tile_bytes(IG_ACTS_Q8X2, k, IG_TILE);
    const char *tile = acts;
    int32_t *ring = scratch;
    uint8_t *w = (uint8_t *)scratch + RING * 2048 * sums;
    if (n < IG_TILE * sums) {
        type.few(out, group, acts, n, k, scratch);
        return;
    }
    ig__ensure_shapes(&shapes);
    type.expand(w, group, k);
    int64_t c = 0;
    for (; c + IG_TILE <= n; c += IG_TILE, tile += tile_bytes)
        one_tile(out + 16 * c, w, tile, IG_TILE, nb, ring, sums);
    if (is_readable(n - c, nb))
        one_tile(out + 16 * c, w, tile, n - c, nb, ring, sums);
    else if (c < n)
        type.few(out + 16 * c, group, tile, n - c, k, scratch);
}

static void q8_0(float *out, const void *group, const void *acts, int64_t n, int64_t k,
                 void *scratch)
{
    gemm(out, group, acts, n, k, scratch,
         (kind){ig__avx512_expand_q8_0, ig__avx512_gemm_x2_q8_0}, 1);
}

static void q6_k(float *out, const void *group, const void *acts, int64_t n, int64_t k,
                 void *scratch)
{
    gemm(out, group, acts, n, k, scratch,
         (kind){ig__avx512_expand_q6_k, ig__avx512_gemm_x2_q6_k}, 2);
}

void ig__gemm_kernels_amx(ig__kernels *table)
{
    table->gemm[IG_ACTS_Q8X2][IG_DTYPE_Q8_0] = q8_0;
    table->gemm[IG_ACTS_Q8X2][IG_DTYPE_Q6_K] = q6_k;
}
