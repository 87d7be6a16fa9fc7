/* Products of 4- and 5-bit types with two-term activations (Q8X2), by AMX tiles; the bits of avx512's.
 *
 * A Q8X2 tile holds of each column and block 32 bytes hi and 32 bytes lo side by side, and
 * stands for 16 * hi + lo. Sixteen times a 4-bit weight is still a byte, so one instruction
 * gives both terms:
 *
 *   A [16 c][hi 32 | lo 32]  x  B [16 * w: 8 lines | w: 8 lines]  ->  C [16 c][16 r] i32, exact
 *
 * Five-bit weights go in as 8 * w, and the hi half a second time. (Wider ones need two sums: they
 * are in gemm_amx.c.) From there on the sequence is that of gemm_q8.inc: one conversion, a
 * product of the scales, an FMA, and one more for the types with a minimum.
 *
 *     block        b+2      b+1     b
 *     begin        tiles                     two sets of tile registers, in turn
 *     store                 C -> ring
 *     scale                         ring -> vectors
 *
 * Tiles pay from 16 columns on; fewer go to the avx512 product. Behind whole tiles a partial
 * one of LEAST_REST or more columns is read as if it had 16: the rows past its own are the next
 * block's, and their sums are dropped.
 */
#include "kernel/amx/amx_int.h"

/* SPAN: blocks whose planes are made at a time, for all tiles, so that they stay in L1. */
enum { LEAST_REST = 9, RING = 4, SPAN = 8 };

/* How a type's weights become B. */
typedef enum planes {
    SIGNED_4,   /* -8 .. 7 */
    UNSIGNED_4, /* 0 .. 15 */
    SIGNED_5    /* -16 .. 15 */
} planes;

/* Tile registers: constants of the instructions. Blocks take turns with two sets, so that a
 * product is under way while the one before it is stored. */
#define TILE_C0 0 /* 16 x 64 bytes: [16 c][16 r] i32 */
#define TILE_C1 1
#define TILE_A0 2 /* 16 x 64 bytes: [16 c][hi 32 | lo 32] i8 */
#define TILE_A1 3
#define TILE_B0 4 /* 16 x 64 bytes: two planes of [8 k/4][16 r][4] */
#define TILE_B1 5
#define TILE_A  6 /* 16 x 32 bytes: one term */
#define TILE_B  7 /* 8 x 64 bytes: one plane */

static const ig__tile_shapes shapes = {
    .palette = 1,
    .row_bytes = {64, 64, 64, 64, 64, 64, [TILE_A] = 32, [TILE_B] = 64},
    .rows = {16, 16, 16, 16, 16, 16, [TILE_A] = 16, [TILE_B] = 8},
};

/* Bytes of a block of planes and its scales. */
IG_INLINE int64_t stride_of(const int has_min)
{
    return 1024 + 64 * (1 + has_min);
}

/* Blocks of an expanded group (w [8][64] i8, scales) to blocks of two planes and the scales. */
IG_INLINE void make_planes(uint8_t *y, const uint8_t *x, int64_t nb, const planes kind,
                           const int has_min)
{
    const int shift = kind == SIGNED_5 ? 3 : 4;
    const __m512i mask = _mm512_set1_epi8((char)(0xff << shift));
    for (int64_t b = 0; b < nb; b++) {
        IG_UNROLL
        for (int j = 0; j < 8; j++) {
            const __m512i w = _mm512_load_si512(x + 64 * j);
            _mm512_store_si512(
                y + 64 * j, _mm512_and_si512(_mm512_slli_epi16(w, (unsigned)shift), mask));
            _mm512_store_si512(y + 512 + 64 * j, w);
        }
        IG_UNROLL
        for (int j = 0; j < 1 + has_min; j++)
            _mm512_store_si512(y + 1024 + 64 * j, _mm512_load_si512(x + 512 + 64 * j));
        y += 1024 + 64 * (1 + has_min);
        x += 512 + 64 * (1 + has_min);
    }
}

/* Begin the sums of a block in the even or the odd set: w its planes, q [16][64] i8. */
#define BEGIN(c, a, b)                                                                     \
    _tile_loadd(a, q, 64);                                                                 \
    _tile_loadd(b, w, 64);                                                                 \
    _tile_zero(c);                                                                         \
    if (kind == UNSIGNED_4)                                                                \
        _tile_dpbsud(c, a, b);                                                             \
    else                                                                                   \
        _tile_dpbssd(c, a, b);                                                             \
    if (kind == SIGNED_5) {                                                                \
        _tile_loadd(TILE_A, q, 64);                                                        \
        _tile_loadd(TILE_B, w, 64);                                                        \
        _tile_dpbssd(c, TILE_A, TILE_B);                                                   \
    }

IG_INLINE void begin_sums(const uint8_t *w, const int8_t *q, const planes kind,
                          const int odd)
{
    if (odd) {
        BEGIN(TILE_C1, TILE_A1, TILE_B1)
    } else {
        BEGIN(TILE_C0, TILE_A0, TILE_B0)
    }
}

/* isum [16 c][16 r] of the block that was begun in this set. */
IG_INLINE void store_sums(int32_t *isum, const int odd)
{
    if (odd)
        _tile_stored(TILE_C1, isum, 64);
    else
        _tile_stored(TILE_C0, isum, 64);
}

/* acc [16] += the block's sums, scaled: s [1 + has_min][16] f32, scale and sum [16] */
IG_INLINE void scale_sums(__m512 *acc, const int32_t *isum, const uint8_t *s,
                          const float *scale, const float *sum, const int has_min)
{
    const __m512 s0 = _mm512_load_ps(s);
    const __m512 s1 = has_min ? _mm512_load_ps(s + 64) : s0;
    IG_UNROLL
    for (int c = 0; c < 16; c++) {
        const __m512i both = _mm512_load_si512(isum + 16 * c);
        acc[c] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(both),
                                 _mm512_mul_ps(s0, _mm512_set1_ps(scale[c])), acc[c]);
        if (has_min)
            acc[c] = _mm512_fmadd_ps(s1, _mm512_set1_ps(sum[c]), acc[c]);
    }
}

/* What a walk over the blocks of a tile has at hand. */
typedef struct walk {
    ig__q8x2_tile t;
    const uint8_t *w;
    int64_t n, nb, stride;
    int32_t *ring;
} walk;

/* One block of one sum: begin block b + 2, store block b + 1, scale block b. `odd` is b's. */
IG_INLINE void one_block(__m512 *acc, const walk *k, int64_t b, const planes kind,
                         const int has_min, const int odd)
{
    if (b + 2 < k->nb)
        begin_sums(k->w + k->stride * (b + 2), k->t.q + 64 * k->n * (b + 2), kind, odd);
    if (b + 1 < k->nb)
        store_sums(k->ring + 256 * ((b + 1) % RING), !odd);
    scale_sums(acc, k->ring + 256 * (b % RING), k->w + k->stride * b + 1024,
               k->t.scale + k->n * b, k->t.sum + k->n * b, has_min);
}

IG_INLINE void all_blocks(__m512 *acc, const walk *k, const planes kind, const int has_min)
{
    int64_t b = 0;
    begin_sums(k->w, k->t.q, kind, 0);
    if (k->nb > 1)
        begin_sums(k->w + k->stride, k->t.q + 64 * k->n, kind, 1);
    store_sums(k->ring, 0);
    for (; b + 2 <= k->nb; b += 2) {
        one_block(acc, k, b, kind, has_min, 0);
        one_block(acc, k, b + 1, kind, has_min, 1);
    }
    if (b < k->nb)
        one_block(acc, k, b, kind, has_min, 0);
}

/* out [n][16] += blocks b0 .. b0+n_b-1, in planes w, times a tile of n columns; b0 = 0: out =.
 * ring: RING sums */
IG_INLINE void one_tile(float *out, const uint8_t *w, const void *acts, int64_t n,
                        int64_t nb, int64_t b0, int64_t n_b, int32_t *ring,
                        const planes kind, const int has_min)
{
    walk k = {.t = ig__q8x2_tile_at(acts, n, nb), .w = w, .n = n, .nb = n_b, .ring = ring};
    k.stride = stride_of(has_min);
    k.t.q += 64 * n * b0;
    k.t.scale += n * b0;
    k.t.sum += n * b0;
    __m512 acc[16];
    IG_UNROLL
    for (int c = 0; c < 16; c++)
        acc[c] = b0 > 0 && c < n ? _mm512_loadu_ps(out + 16 * c) : _mm512_setzero_ps();
    all_blocks(acc, &k, kind, has_min);
    IG_UNROLL
    for (int c = 0; c < 16; c++)
        if (c < n)
            _mm512_storeu_ps(out + 16 * c, acc[c]);
}

/* A type: how to expand a group, and the avx512 product for what tiles do not serve. */
typedef struct type {
    ig_dtype dtype;
    void (*expand)(void *y, const void *group, int64_t k);
    void (*few)(float *out, const void *group, const void *acts, int64_t n, int64_t k,
                void *scratch);
} type;

/* May a partial tile be read as 16 columns: do the last block's end inside its bytes? */
static bool is_readable(int64_t n, int64_t nb)
{
    return n >= LEAST_REST && (nb - 1) * n * 64 + 1024 <= nb * n * 88;
}

/* out = w * x^T for one group of 16 rows.
 *   out [n][16] f32   group: packed   acts: Q8X2 tiles of K values, n columns
 *   scratch: RING sums, the planes of a span (at most 18 KiB), the span expanded (10 KiB) */
IG_INLINE void gemm(float *out, const void *group, const void *acts, int64_t n, int64_t k,
                    void *scratch, type how, const planes kind, const int has_min)
{
    const int64_t nb = k / IG_QBLOCK, n_whole = n / IG_TILE * IG_TILE, rest = n - n_whole;
    const size_t tile_bytes = ig__tile_bytes(IG_ACTS_Q8X2, k, IG_TILE);
    const size_t span_bytes = ig__packed_group_bytes(how.dtype, SPAN * IG_QBLOCK);
    const char *last = (const char *)acts + (size_t)(n / IG_TILE) * tile_bytes;
    int32_t *ring = scratch;
    uint8_t *w = (uint8_t *)scratch + RING * 1024;
    if (n < IG_TILE) {
        how.few(out, group, acts, n, k, scratch);
        return;
    }
    const bool by_tiles = is_readable(rest, nb);
    ig__ensure_shapes(&shapes);
    const char *p = group;
    for (int64_t b = 0; b < nb; b += SPAN, p += span_bytes) {
        const int64_t n_b = nb - b < SPAN ? nb - b : SPAN;
        uint8_t *expanded = w + stride_of(has_min) * n_b;
        const char *tile = acts;
        how.expand(expanded, p, n_b * IG_QBLOCK);
        make_planes(w, expanded, n_b, kind, has_min);
        for (int64_t c = 0; c < n_whole; c += IG_TILE, tile += tile_bytes)
            one_tile(out + 16 * c, w, tile, IG_TILE, nb, b, n_b, ring, kind, has_min);
        if (by_tiles)
            one_tile(out + 16 * n_whole, w, last, rest, nb, b, n_b, ring, kind, has_min);
    }
    if (rest > 0 && !by_tiles)
        how.few(out + 16 * n_whole, group, last, rest, k, scratch);
}

static void q4_0(float *out, const void *group, const void *acts, int64_t n, int64_t k,
                 void *scratch)
{
    gemm(out, group, acts, n, k, scratch,
         (type){IG_DTYPE_Q4_0, ig__avx512_expand_q4_0, ig__avx512_gemm_x2_q4_0}, SIGNED_4,
         0);
}

static void with_min(float *out, const void *group, const void *acts, int64_t n, int64_t k,
                     void *scratch, type how)
{
    gemm(out, group, acts, n, k, scratch, how, UNSIGNED_4, 1);
}

static void q4_1(float *out, const void *group, const void *acts, int64_t n, int64_t k,
                 void *scratch)
{
    with_min(out, group, acts, n, k, scratch,
             (type){IG_DTYPE_Q4_1, ig__avx512_expand_q4_1, ig__avx512_gemm_x2_q4_1});
}

static void q4_k(float *out, const void *group, const void *acts, int64_t n, int64_t k,
                 void *scratch)
{
    with_min(out, group, acts, n, k, scratch,
             (type){IG_DTYPE_Q4_K, ig__avx512_expand_q4_k, ig__avx512_gemm_x2_q4_k});
}

static void q5_0(float *out, const void *group, const void *acts, int64_t n, int64_t k,
                 void *scratch)
{
    gemm(out, group, acts, n, k, scratch,
         (type){IG_DTYPE_Q5_0, ig__avx512_expand_q5_0, ig__avx512_gemm_x2_q5_0}, SIGNED_5,
         0);
}

void ig__gemm_x2_kernels_amx(ig__kernels *table)
{
    table->gemm[IG_ACTS_Q8X2][IG_DTYPE_Q4_0] = q4_0;
    table->gemm[IG_ACTS_Q8X2][IG_DTYPE_Q4_1] = q4_1;
    table->gemm[IG_ACTS_Q8X2][IG_DTYPE_Q5_0] = q5_0;
    table->gemm[IG_ACTS_Q8X2][IG_DTYPE_Q4_K] = q4_k;
}
