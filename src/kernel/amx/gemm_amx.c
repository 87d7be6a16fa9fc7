/* Products of quantised types with int8 activations, by AMX tiles; the bits of avx512's.
 *
 * TDPBSSD multiplies a tile of 16 activation columns x 32 bytes (32 consecutive columns of
 * K, as a Q8 tile holds them) by 8 lines of 64 weight bytes (as the expanded group of
 * gemm_q8.inc holds them, signed) into 16 x 16 integer sums:
 *
 *   A [16 c][32 k]  x  B [8 k/4][16 r][4]  ->  C [16 c][16 r] i32, exact
 *
 * The sums go through memory to vector registers, where they are scaled and added by the
 * very sequence of gemm_q8.inc, so that every bit is the same. Tiles and vectors overlap:
 * the sums of block b + AHEAD are under way while those of block b are scaled.
 *
 *     block      0   1   2   3  ..
 *     tiles     [0] [1] [2] [3]           C into ring[b % RING]
 *     vectors           [0] [1] [2]       from ring[b % RING]
 *
 * Tiles pay from 16 columns on (32 where a block has two sums): fewer go to the avx512
 * product. Behind whole tiles a partial one of 9 or more columns is read as if it had 16:
 * the rows past its own belong to the next block, and their sums are dropped.
 */
#include "kernel/amx/amx_int.h"

enum { LEAST_REST = 9, AHEAD = 3, RING = 4 };

/* Tile registers: constants of the instructions. */
#define TILE_C  0 /* 16 x 64 bytes: [16 c][16 r] i32 */
#define TILE_C2 1 /* the second half's */
#define TILE_A  2 /* 16 x 32 bytes: [16 c][32 k] i8 */
#define TILE_B  3 /* 8 x 64 bytes: [8 k/4][16 r][4] i8 */
#define TILE_A2 4 /* 16 x 16 bytes: half a block of 32 */
#define TILE_B2 5 /* 4 x 64 bytes */

static const ig__tile_shapes shapes = {
    .palette = 1,
    .row_bytes = {[TILE_C] = 64,
                  [TILE_C2] = 64,
                  [TILE_A] = 32,
                  [TILE_B] = 64,
                  [TILE_A2] = 16,
                  [TILE_B2] = 64},
    .rows = {[TILE_C] = 16,
             [TILE_C2] = 16,
             [TILE_A] = 16,
             [TILE_B] = 8,
             [TILE_A2] = 16,
             [TILE_B2] = 4},
};

void ig__amx_thread_init(void)
{
    _tile_loadconfig(&shapes);
}

/* isum [sums][16 c][16 r] of a block: w [8][64] i8, q [16][32] i8 */
IG_INLINE void block_sums(int32_t *isum, const uint8_t *w, const int8_t *q, const int sums)
{
    if (sums == 1) {
        _tile_loadd(TILE_A, q, 32);
        _tile_loadd(TILE_B, w, 64);
        _tile_zero(TILE_C);
        _tile_dpbssd(TILE_C, TILE_A, TILE_B);
        _tile_stored(TILE_C, isum, 64);
    } else {
        _tile_loadd(TILE_A2, q, 32);
        _tile_loadd(TILE_B2, w, 64);
        _tile_zero(TILE_C);
        _tile_dpbssd(TILE_C, TILE_A2, TILE_B2);
        _tile_stored(TILE_C, isum, 64);
        _tile_loadd(TILE_A2, q + 16, 32);
        _tile_loadd(TILE_B2, w + 256, 64);
        _tile_zero(TILE_C2);
        _tile_dpbssd(TILE_C2, TILE_A2, TILE_B2);
        _tile_stored(TILE_C2, isum + 256, 64);
    }
}

/* acc [16] += the block's sums, scaled: s [sums + has_min][16] f32, scale and sum [16] */
IG_INLINE void scale_sums(__m512 *acc, const int32_t *isum, const uint8_t *s,
                          const float *scale, const float *sum, const int sums,
                          const int has_min)
{
    const __m512 s0 = _mm512_load_ps(s);
    const __m512 s1 = sums == 2 || has_min ? _mm512_load_ps(s + 64) : s0;
    IG_UNROLL
    for (int c = 0; c < 16; c++) {
        const __m512 x = _mm512_set1_ps(scale[c]);
        acc[c] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(_mm512_load_si512(isum + 16 * c)),
                                 _mm512_mul_ps(s0, x), acc[c]);
        if (sums == 2)
            acc[c] =
                _mm512_fmadd_ps(_mm512_cvtepi32_ps(_mm512_load_si512(isum + 256 + 16 * c)),
                                _mm512_mul_ps(s1, x), acc[c]);
        if (has_min)
            acc[c] = _mm512_fmadd_ps(s1, _mm512_set1_ps(sum[c]), acc[c]);
    }
}

/* out [n][16] of a tile of n columns. w: the expanded group; ring: RING sums */
IG_INLINE void one_tile(float *out, const uint8_t *w, const void *acts, int64_t n,
                        int64_t nb, int32_t *ring, const int sums, const int has_min)
{
    const ig__q8_tile t = ig__q8_tile_at(acts, n, nb, 1);
    const int64_t stride = 512 + 64 * (sums + has_min);
    const int64_t one = 256 * sums;
    __m512 acc[16];
    IG_UNROLL
    for (int c = 0; c < 16; c++)
        acc[c] = _mm512_setzero_ps();
    for (int64_t b = 0; b < AHEAD && b < nb; b++)
        block_sums(ring + one * b, w + stride * b, t.q + 32 * n * b, sums);
    for (int64_t b = 0; b < nb; b++) {
        const int64_t next = b + AHEAD;
        if (next < nb)
            block_sums(ring + one * (next % RING), w + stride * next, t.q + 32 * n * next,
                       sums);
        scale_sums(acc, ring + one * (b % RING), w + stride * b + 512, t.scale + n * b,
                   t.sum + n * b, sums, has_min);
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
    return n >= LEAST_REST && (nb - 1) * n * 32 + 512 <= nb * n * 48;
}

/* out = w * x^T for one group of 16 rows.
 *   out [n][16] f32   group: packed   acts: Q8 tiles of K values, n columns
 *   scratch: RING sums, at most 8 KiB of them, then the expanded group, at most 20*K bytes */
IG_INLINE void gemm(float *out, const void *group, const void *acts, int64_t n, int64_t k,
                    void *scratch, kind type, const int sums, const int has_min)
{
    const int64_t nb = k / IG_QBLOCK;
    const size_t tile_bytes = ig__tile_bytes(IG_ACTS_Q8, k, IG_TILE);
    const char *tile = acts;
    int32_t *ring = scratch;
    uint8_t *w = (uint8_t *)scratch + RING * 1024 * sums;
    if (n < IG_TILE * sums) {
        type.few(out, group, acts, n, k, scratch);
        return;
    }
    ig__ensure_shapes(&shapes);
    type.expand(w, group, k);
    int64_t c = 0;
    for (; c + IG_TILE <= n; c += IG_TILE, tile += tile_bytes)
        one_tile(out + 16 * c, w, tile, IG_TILE, nb, ring, sums, has_min);
    if (is_readable(n - c, nb))
        one_tile(out + 16 * c, w, tile, n - c, nb, ring, sums, has_min);
    else if (c < n)
        type.few(out + 16 * c, group, tile, n - c, k, scratch);
}

/* One body for the types of one kind. */
static void one_sum(float *out, const void *group, const void *acts, int64_t n, int64_t k,
                    void *scratch, kind type)
{
    gemm(out, group, acts, n, k, scratch, type, 1, 0);
}

static void one_sum_and_min(float *out, const void *group, const void *acts, int64_t n,
                            int64_t k, void *scratch, kind type)
{
    gemm(out, group, acts, n, k, scratch, type, 1, 1);
}

static void q4_0(float *out, const void *group, const void *acts, int64_t n, int64_t k,
                 void *scratch)
{
    one_sum(out, group, acts, n, k, scratch,
            (kind){ig__avx512_expand_q4_0, ig__avx512_gemm_q4_0});
}

static void q5_0(float *out, const void *group, const void *acts, int64_t n, int64_t k,
                 void *scratch)
{
    one_sum(out, group, acts, n, k, scratch,
            (kind){ig__avx512_expand_q5_0, ig__avx512_gemm_q5_0});
}

static void q8_0(float *out, const void *group, const void *acts, int64_t n, int64_t k,
                 void *scratch)
{
    one_sum(out, group, acts, n, k, scratch,
            (kind){ig__avx512_expand_q8_0, ig__avx512_gemm_q8_0});
}

static void q4_1(float *out, const void *group, const void *acts, int64_t n, int64_t k,
                 void *scratch)
{
    one_sum_and_min(out, group, acts, n, k, scratch,
                    (kind){ig__avx512_expand_q4_1, ig__avx512_gemm_q4_1});
}

static void q4_k(float *out, const void *group, const void *acts, int64_t n, int64_t k,
                 void *scratch)
{
    one_sum_and_min(out, group, acts, n, k, scratch,
                    (kind){ig__avx512_expand_q4_k, ig__avx512_gemm_q4_k});
}

static void q6_k(float *out, const void *group, const void *acts, int64_t n, int64_t k,
                 void *scratch)
{
    gemm(out, group, acts, n, k, scratch,
         (kind){ig__avx512_expand_q6_k, ig__avx512_gemm_q6_k}, 2, 0);
}

void ig__gemm_kernels_amx(ig__kernels *table)
{
    table->gemm[IG_ACTS_Q8][IG_DTYPE_Q4_0] = q4_0;
    table->gemm[IG_ACTS_Q8][IG_DTYPE_Q4_1] = q4_1;
    table->gemm[IG_ACTS_Q8][IG_DTYPE_Q5_0] = q5_0;
    table->gemm[IG_ACTS_Q8][IG_DTYPE_Q8_0] = q8_0;
    table->gemm[IG_ACTS_Q8][IG_DTYPE_Q4_K] = q4_k;
    table->gemm[IG_ACTS_Q8][IG_DTYPE_Q6_K] = q6_k;
}
