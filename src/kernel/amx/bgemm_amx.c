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
    /* the panel that comes next, packed item by item between the chunks of all blocks */
    const ig__mm_panel *panel;
    int64_t n_items, i_item, n_steps, i_step;
    int64_t i_row, last_row; /* rows of sums that are done, to be put to `out` meanwhile */
} block;

/* ---- packing the next panel meanwhile --------------------------------------------------------- */

enum { ITEM = 16 }; /* an item: 16 lines of 64 bytes */

static const uint16_t join_first[32] = {0,  32, 1,  33, 2,  34, 3,  35, 4,  36, 5,
                                        37, 6,  38, 7,  39, 8,  40, 9,  41, 10, 42,
                                        11, 43, 12, 44, 13, 45, 14, 46, 15, 47};
static const uint16_t join_second[32] = {16, 48, 17, 49, 18, 50, 19, 51, 20, 52, 21,
                                         53, 22, 54, 23, 55, 24, 56, 25, 57, 26, 58,
                                         27, 59, 28, 60, 29, 61, 30, 62, 31, 63};

/* Item i of a panel whose columns lie side by side: 16 k, in pairs. */
IG_MM_INLINE void pack_lines(const ig__mm_panel *p, int64_t i)
{
    const uint16_t *x = (const uint16_t *)p->b_next + i * ITEM * p->b_row;
    char *y = (char *)p->packed_next + i * ITEM / 2 * LINE;
    const __m512i first = _mm512_loadu_si512(join_first),
                  second = _mm512_loadu_si512(join_second);
    for (int j = 0; j < ITEM / 2; j++, x += 2 * p->b_row, y += LINE) {
        const __m512i lo = _mm512_loadu_si512(x), hi = _mm512_loadu_si512(x + p->b_row);
        _mm512_storeu_si512(y, _mm512_permutex2var_epi16(lo, first, hi));
        _mm512_storeu_si512(y + 64, _mm512_permutex2var_epi16(lo, second, hi));
    }
    if (!p->b_after)
        return;
    const uint16_t *after = (const uint16_t *)p->b_after + i * ITEM * p->b_row;
    for (int j = 0; j < ITEM; j++, after += p->b_row)
        _mm_prefetch(after, _MM_HINT_T1);
}

/* Item i of a panel whose k lie side by side: 16 columns of 32 k. */
static void pack_columns(const ig__mm_panel *p, int64_t i)
{
    const int64_t at = i % 2 * 16 * p->b_col + i / 2 * CHUNK;
    const uint16_t *x = (const uint16_t *)p->b_next + at;
    char *y = (char *)p->packed_next + i / 2 * 16 * LINE + i % 2 * 64;
    __m512 in[16], out[16];
    IG_MM_UNROLL
    for (int j = 0; j < 16; j++)
        in[j] = _mm512_castsi512_ps(_mm512_loadu_si512(x + j * p->b_col));
    ig__mm_transpose_avx512(out, in);
    IG_MM_UNROLL
    for (int j = 0; j < 16; j++)
        _mm512_storeu_ps(y + j * LINE, out[j]);
    if (!p->b_after)
        return;
    const uint16_t *after = (const uint16_t *)p->b_after + at;
    for (int j = 0; j < 16; j++, after += p->b_col)
        _mm_prefetch(after, _MM_HINT_T1);
}

/* Item i of a panel that is packed already. */
IG_MM_INLINE void fetch_packed(const ig__mm_panel *p, int64_t i)
{
    const char *x = (const char *)p->packed_ahead + i * ITEM * LINE / 2;
    for (int j = 0; j < ITEM; j++)
        _mm_prefetch(x + 64 * j, _MM_HINT_T1);
}

/* ---- sums to where they belong ------------------------------------------------------------------ */

/* Row i of the sums, with the bias, to p->out. */
IG_MM_INLINE void put_row(const ig__mm_panel *p, int64_t i)
{
    const __mmask16 lo = ig__mm_mask16(p->n), hi = ig__mm_mask16(p->n - 16);
    float *c = (float *)p->c + i * BLOCK;
    __m512 x = _mm512_loadu_ps(c), y = _mm512_loadu_ps(c + 16);
    if (p->bias_n) {
        const float *bias = p->bias_n;
        x = _mm512_add_ps(x, _mm512_maskz_loadu_ps(lo, bias));
        y = _mm512_add_ps(y, _mm512_maskz_loadu_ps(hi, bias + 16));
    }
    if (p->bias_m) {
        const __m512 bias = _mm512_set1_ps(((const float *)p->bias_m)[i]);
        x = _mm512_add_ps(x, bias);
        y = _mm512_add_ps(y, bias);
    }
    if (p->out_type != IG__MM_F32) {
        _mm512_storeu_ps(c, x);
        _mm512_storeu_ps(c + 16, y);
        uint16_t *out = (uint16_t *)p->out + i * p->out_row;
        if (p->out_type == IG__MM_BF16)
            ig__mm_narrow_bf16_avx512(out, c, p->n);
        else
            ig__mm_narrow_f16_avx512(out, c, p->n);
        return;
    }
    float *out = (float *)p->out + i * p->out_row;
    if (p->streams && p->n == BLOCK && (uintptr_t)out % 64 == 0) {
        _mm512_stream_ps(out, x);
        _mm512_stream_ps(out + 16, y);
        return;
    }
    _mm512_mask_storeu_ps(out, lo, x);
    _mm512_mask_storeu_ps(out + 16, hi, y);
}

static void put_rows(block *t)
{
    for (; t->i_row < t->last_row; t->i_row++)
        put_row(t->panel, t->i_row);
}

enum { ROWS_A_STEP = 4 };

/* A step more is done: as great a part of the items, and some rows of the block before. */
IG_MM_INLINE void work_meanwhile(block *t)
{
    for (int j = 0; j < ROWS_A_STEP && t->i_row < t->last_row; j++)
        put_row(t->panel, t->i_row++);
    t->i_step++;
    for (; t->i_item * t->n_steps < t->i_step * t->n_items; t->i_item++)
        if (t->panel->packed_ahead)
            fetch_packed(t->panel, t->i_item);
        else if (t->panel->b_col == 1)
            pack_lines(t->panel, t->i_item);
        else
            pack_columns(t->panel, t->i_item);
}

/* ---- sums -------------------------------------------------------------------------------------- */

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

static void multiply_two(block *t)
{
    const char *a0 = t->a0, *a1 = t->a1, *b = t->b;
    for (int64_t i = 0; i < t->n_chunks; i++) {
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
        work_meanwhile(t);
    }
}

static void multiply_one(block *t)
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
        work_meanwhile(t);
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
                const float *c0 = (const float *)p->c0 + (first + i) * p->c0_row + j;
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
    const float *c0 = (const float *)p->c0 + first * p->c0_row;
    t->sums = (char *)copy;
    t->line = LINE;
    if (is_chain && p->beta != 0.0) {
        if (is_whole) {
            t->sums = (char *)(uintptr_t)c0;
            t->line = p->c0_row * (int64_t)sizeof(float);
        } else {
            memset(copy, 0, sizeof copy);
            copy_rows(copy, BLOCK, c0, p->c0_row, h, p->n);
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
    if (p->out) {
        put_rows(t); /* what the steps left of the block before */
        t->last_row = first + h;
    } else if (p->bias_n || p->bias_m) {
        add_bias(p, first, h);
    }
}

static void panel(const ig__mm_panel *p)
{
    const int64_t n_chunks = (p->k + CHUNK - 1) / CHUNK,
                  slice_bytes = n_chunks * TILE_BYTES;
    const int64_t n_blocks = (p->m + BLOCK - 1) / BLOCK;
    block t = {.b = p->packed, .n_chunks = n_chunks, .panel = p};
    if (p->packed_next || p->packed_ahead) {
        t.n_items = p->k_next / ITEM;
        t.n_steps = n_blocks * n_chunks;
    }
    ig__ensure_shapes(&shapes);
    for (int64_t i = 0; i < n_blocks; i++) {
        const int64_t first = i * BLOCK;
        t.a0 = (const char *)p->a + 2 * i * slice_bytes;
        t.a1 = t.a0 + slice_bytes;
        run_block(p, &t, first, p->m - first < BLOCK ? p->m - first : BLOCK);
    }
    put_rows(&t);
    if (p->out && p->streams)
        _mm_sfence();
}

static const ig__mm_kernel bf16 = {
    .mr = BLOCK,
    .nr = BLOCK,
    .span = 256, /* a panel is 16 KiB, and so is a slice of A */
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
