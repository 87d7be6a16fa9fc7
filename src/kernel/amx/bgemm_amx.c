/* Dense products of bf16 by AMX tiles: blocks of 32 x 32 sums in four tile registers.
 *
 *                 b: panel [K/2][32][2]
 *                +--------+--------+
 *   a: tiles     | tile 0 | tile 1 |     TDPBF16PS: a tile of sums += 16 rows of 32 k
 *   [16][32]     +--------+--------+                times 16 pairs of 16 columns
 *   of 16 rows   | tile 2 | tile 3 |
 *                +--------+--------+
 *
 * Packed A is [slice of 16 rows][K/32][16][32], zeros where rows or k are missing. A step of 32 k
 * loads four tiles for four products, which is what 8 registers allow.
 *
 * The order of a sum is the instruction's: of 32 k the even ones in one chain, the odd ones in
 * another, then sum += even + odd. With alpha = 1 and beta 0 or 1 the sums begin with C
 * itself; whole blocks and partial ones do the same arithmetic, the latter in a copy.
 */
#include "kernel/amx/amx_int.h"
#include "kernel/avx512/matmul_avx512.h"

/* Tile registers: constants of the instructions. Sums: 0..3. */
#define TILE_A0 4
#define TILE_A1 5
#define TILE_B0 6
#define TILE_B1 7

enum {
    ROWS = 16,
    BLOCK = 32, /* rows and columns */
    CHUNK = 32, /* k of a tile */
    TILE_BYTES = 1024,
    LINE = 4 * BLOCK /* bytes of a row of a panel, or of sums */
};

static const ig__tile_shapes shapes = {
    .palette = 1,
    .row_bytes = {64, 64, 64, 64, 64, 64, 64, 64},
    .rows = {16, 16, 16, 16, 16, 16, 16, 16},
};

/* ---- packing --------------------------------------------------------------------------- */

/* One tile [16][32] from h rows and n k; both may be less. */
IG_MM_INLINE void pack_tile(char *to, const uint16_t *x, int64_t row, int64_t step,
                            int64_t h, int64_t n)
{
    if (step == 1) {
        const __mmask32 mask = n >= 32 ? 0xffffffffu : (__mmask32)((1u << n) - 1);
        IG_MM_UNROLL
        for (int i = 0; i < ROWS; i++)
            _mm512_storeu_si512(to + 64 * i,
                                i < h ? _mm512_maskz_loadu_epi16(mask, x + i * row)
                                      : _mm512_setzero_si512());
        return;
    }
    const __mmask16 mask = ig__mm_mask16(h);
    __m512 in[16], out[16]; /* pairs of k, joined from two lines of rows */
    IG_MM_UNROLL
    for (int j = 0; j < 16; j++) {
        const __m256i lo = _mm256_maskz_loadu_epi16(2 * j < n ? mask : 0,
                                                    x + (2 * j < n ? 2 * j * step : 0));
        const __m256i hi = _mm256_maskz_loadu_epi16(
            2 * j + 1 < n ? mask : 0, x + (2 * j + 1 < n ? (2 * j + 1) * step : 0));
        in[j] = ig__mm_join_pairs_avx512(lo, hi);
    }
    ig__mm_transpose_avx512(out, in);
    IG_MM_UNROLL
    for (int i = 0; i < ROWS; i++)
        _mm512_storeu_ps(to + 64 * i, out[i]);
}

static void pack_tile_plain(char *to, const uint16_t *x, int64_t row, int64_t step,
                            int64_t h, int64_t n)
{
    uint16_t tile[ROWS][CHUNK] = {{0}};
    for (int64_t i = 0; i < h; i++)
        for (int64_t j = 0; j < n; j++)
            tile[i][j] = x[i * row + j * step];
    memcpy(to, tile, sizeof tile);
}

static void pack_a(void *to, const void *from, int64_t row, int64_t step, int64_t m,
                   int64_t k)
{
    char *y = to;
    for (int64_t i = 0; i < m; i += ROWS)
        for (int64_t j = 0; j < k; j += CHUNK, y += TILE_BYTES) {
            const uint16_t *x = (const uint16_t *)from + i * row + j * step;
            const int64_t h = m - i < ROWS ? m - i : ROWS,
                          n = k - j < CHUNK ? k - j : CHUNK;
            if (row == 1 || step == 1)
                pack_tile(y, x, row, step, h, n);
            else
                pack_tile_plain(y, x, row, step, h, n);
        }
}

/* ---- products -------------------------------------------------------------------------- */

/* What a block is made of: a [2 slices], b the panel, sums [32] rows of `line` bytes. */
typedef struct block {
    const char *a0, *a1, *b;
    char *sums;
    int64_t line, n_chunks;
    const char
        *next_c; /* the sums that come next, 32 rows c_bytes apart, to be asked for */
    int64_t c_bytes, rows_a_chunk;
    const uint16_t *next_b; /* rows of the panel that comes next, likewise */
    int64_t b_row, b_rows_a_chunk;
} block;

static void load_sums(const block *t, bool is_two)
{
    _tile_loadd(0, t->sums, t->line);
    _tile_loadd(1, t->sums + 64, t->line);
    if (is_two) {
        _tile_loadd(2, t->sums + ROWS * t->line, t->line);
        _tile_loadd(3, t->sums + ROWS * t->line + 64, t->line);
    }
}

static void store_sums(const block *t, bool is_two)
{
    _tile_stored(0, t->sums, t->line);
    _tile_stored(1, t->sums + 64, t->line);
    if (is_two) {
        _tile_stored(2, t->sums + ROWS * t->line, t->line);
        _tile_stored(3, t->sums + ROWS * t->line + 64, t->line);
    }
}

static void clear_sums(void)
{
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
}

static void multiply_two(const block *t)
{
    const char *a0 = t->a0, *a1 = t->a1, *b = t->b, *c = t->next_c;
    const uint16_t *next_b = t->next_b;
    for (int64_t i = 0; i < t->n_chunks; i++) {
        for (int64_t j = 0; j < t->rows_a_chunk; j++, c += t->c_bytes) {
            __builtin_prefetch(c, 1);
            __builtin_prefetch(c + 64, 1);
        }
        for (int64_t j = 0; j < t->b_rows_a_chunk; j++, next_b += t->b_row)
            _mm_prefetch(next_b, _MM_HINT_T1);
        _tile_loadd(TILE_B0, b, LINE);
        _tile_loadd(TILE_A0, a0, 64);
        _tile_dpbf16ps(0, TILE_A0, TILE_B0);
        _tile_loadd(TILE_B1, b + 64, LINE);
        _tile_dpbf16ps(1, TILE_A0, TILE_B1);
        _tile_loadd(TILE_A1, a1, 64);
        _tile_dpbf16ps(2, TILE_A1, TILE_B0);
        _tile_dpbf16ps(3, TILE_A1, TILE_B1);
        a0 += TILE_BYTES;
        a1 += TILE_BYTES;
        b += 2 * TILE_BYTES;
    }
}

static void multiply_one(const block *t)
{
    const char *a0 = t->a0, *b = t->b;
    for (int64_t i = 0; i < t->n_chunks; i++) {
        _tile_loadd(TILE_A0, a0, 64);
        _tile_loadd(TILE_B0, b, LINE);
        _tile_dpbf16ps(0, TILE_A0, TILE_B0);
        _tile_loadd(TILE_B1, b + 64, LINE);
        _tile_dpbf16ps(1, TILE_A0, TILE_B1);
        a0 += TILE_BYTES;
        b += 2 * TILE_BYTES;
    }
}

/* Rows of C to or from a copy [32][32]: h rows of n columns. */
static void copy_rows(float *to, int64_t to_row, const float *from, int64_t from_row,
                      int64_t h, int64_t n)
{
    const __mmask16 lo = ig__mm_mask16(n), hi = ig__mm_mask16(n - 16);
    for (int64_t i = 0; i < h; i++) {
        const float *x = from + i * from_row;
        float *y = to + i * to_row;
        _mm512_mask_storeu_ps(y, lo, _mm512_maskz_loadu_ps(lo, x));
        _mm512_mask_storeu_ps(y + 16, hi, _mm512_maskz_loadu_ps(hi, x + 16));
    }
}

/* c = alpha * s + beta * c0, of a copy s. */
static void scale_rows(const ig__mm_panel *p, float *s, int64_t first, int64_t h)
{
    const __m512 alpha = _mm512_set1_ps((float)p->alpha),
                 beta = _mm512_set1_ps((float)p->beta);
    for (int64_t i = 0; i < h; i++)
        for (int64_t j = 0; j < p->n; j += 16) {
            const __mmask16 mask = ig__mm_mask16(p->n - j);
            __m512 x = _mm512_mul_ps(_mm512_loadu_ps(s + i * BLOCK + j), alpha);
            if (p->beta != 0.0) {
                const float *c0 = (const float *)p->c0 + (first + i) * p->c_row + j;
                x = _mm512_fmadd_ps(beta, _mm512_maskz_loadu_ps(mask, c0), x);
            }
            _mm512_storeu_ps(s + i * BLOCK + j, x);
        }
}

static void add_bias(const ig__mm_panel *p, int64_t first, int64_t h)
{
    for (int64_t i = first; i < first + h; i++)
        for (int64_t j = 0; j < p->n; j += 16) {
            const __mmask16 mask = ig__mm_mask16(p->n - j);
            float *c = (float *)p->c + i * p->c_row + j;
            __m512 x = _mm512_maskz_loadu_ps(mask, c);
            if (p->bias_n)
                x = _mm512_add_ps(
                    x, _mm512_maskz_loadu_ps(mask, (const float *)p->bias_n + j));
            if (p->bias_m)
                x = _mm512_add_ps(x, _mm512_set1_ps(((const float *)p->bias_m)[i]));
            _mm512_mask_storeu_ps(c, mask, x);
        }
}

/* Rows [first, first + h) of the panel, h <= 32. t: a, b and the number of chunks */
static void run_block(const ig__mm_panel *p, block *t, int64_t first, int64_t h)
{
    _Alignas(64) float copy[BLOCK * BLOCK];
    const bool is_chain = p->alpha == 1.0 && (p->beta == 0.0 || p->beta == 1.0);
    const bool is_two = h > ROWS, is_whole = is_chain && p->n == BLOCK && h % ROWS == 0;
    float *c = (float *)p->c + first * p->c_row;
    const float *c0 = (const float *)p->c0 + first * p->c_row;
    t->sums = (char *)copy;
    t->line = LINE;
    if (is_chain && p->beta != 0.0) {
        if (is_whole) {
            t->sums = (char *)(uintptr_t)c0;
            t->line = p->c_row * (int64_t)sizeof(float);
        } else {
            memset(copy, 0, sizeof copy);
            copy_rows(copy, BLOCK, c0, p->c_row, h, p->n);
        }
        load_sums(t, is_two);
    } else {
        clear_sums();
    }
    if (is_two)
        multiply_two(t);
    else
        multiply_one(t);
    if (is_whole) {
        t->sums = (char *)c;
        t->line = p->c_row * (int64_t)sizeof(float);
    }
    store_sums(t, is_two);
    if (!is_chain)
        scale_rows(p, copy, first, h);
    if (!is_whole)
        copy_rows(c, p->c_row, copy, BLOCK, h, p->n);
    if (p->bias_n || p->bias_m)
        add_bias(p, first, h);
}

static void panel(const ig__mm_panel *p)
{
    const int64_t n_chunks = (p->k + CHUNK - 1) / CHUNK,
                  slice_bytes = n_chunks * TILE_BYTES;
    const int64_t n_blocks = (p->m + BLOCK - 1) / BLOCK;
    block t = {.b = p->packed, .n_chunks = n_chunks};
    t.c_bytes = p->c_row * (int64_t)sizeof(float);
    if (n_chunks && p->beta == 0.0) /* sums that are added to are near */
        t.rows_a_chunk = (BLOCK + n_chunks - 1) / n_chunks;
    if (n_chunks && p->b_next) {
        t.b_row = p->b_row;
        t.b_rows_a_chunk = (p->k + n_blocks * n_chunks - 1) / (n_blocks * n_chunks);
    }
    ig__ensure_shapes(&shapes);
    for (int64_t i = 0; i < n_blocks; i++) {
        const int64_t first = i * BLOCK;
        t.a0 = (const char *)p->a + 2 * i * slice_bytes;
        t.a1 = t.a0 + slice_bytes;
        t.next_c = (const char *)p->c + (first + BLOCK) * t.c_bytes;
        if (p->b_next)
            t.next_b =
                (const uint16_t *)p->b_next + i * n_chunks * t.b_rows_a_chunk * t.b_row;
        run_block(p, &t, first, p->m - first < BLOCK ? p->m - first : BLOCK);
    }
}

static const ig__mm_kernel bf16 = {
    .mr = BLOCK,
    .nr = BLOCK,
    .span = 512,
    .k_step = CHUNK,
    .row_step = ROWS,
    .value_bytes = sizeof(uint16_t),
    .pack_a = {[IG__MM_BF16] = pack_a},
    .pack_b = {[IG__MM_BF16] = ig__mm_pack_b_pairs_avx512},
    .panel = panel,
    .narrow = {[IG__MM_BF16] = ig__mm_narrow_bf16_avx512,
               [IG__MM_F16] = ig__mm_narrow_f16_avx512},
    .is_deep = true,
};

void ig__matmul_kernels_amx(ig__kernels *table)
{
    table->matmul[IG__MM_BF16] = &bf16;
}
