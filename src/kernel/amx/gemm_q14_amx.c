/* Products of quantised weights with Q14 activations, by AMX tiles: the exact sums of gemm_q14.inc.
 *
 * Weights are whole multiples of their row's unit, activations of their column's, both of 14 bits:
 * w = 128 a + b, x = 128 c + d, all four bytes. Nothing is left to scale inside a sum, so it runs
 * through all of K in the tile registers. Three products give it, not four (Karatsuba), since
 * a + b and c + d are still bytes:
 *
 *   P = sum a c,  Q = sum b d,  S = sum (a + b)(c + d)      exact in 32 bits up to K = 2^17
 *   sum w x = 2^14 P + 2^7 (S - P - Q) + Q
 *
 * A product's operands are the planes of a tile of activations [3][K/64][16 c][64] and of a group of weights
 * [3][K/64][16 k/4][16 r][4]; two groups by two tiles of columns advance together, so that each operand that is
 * loaded meets two others:
 *
 *              w of group 0   group 1
 *   columns 0       C0           C1            for each plane: all of K, then C to `sums`
 *   columns 1       C2           C3
 *
 * The sums of such a quad become floats while the next quad is multiplied: a few columns after each step,
 * since the vector units have nothing else to do.
 *
 * A last tile of at most IG_FEW columns goes to the avx512 product.
 */
#include "kernel/amx/amx_int.h"

enum {
    CHUNK = 1024, /* bytes of a tile register: 64 of K of 16 columns, or of 16 rows */
    SUMS = 256,   /* integers of a tile of sums, [16 c][16 r] */
    A_STEP = 8    /* columns that become floats after a step */
};

/* Tile registers: constants of the instructions. */
#define TILE_C0 0 /* [16 c][16 r] i32 */
#define TILE_C1 1
#define TILE_C2 2
#define TILE_C3 3
#define TILE_X0 4 /* [16 c][64 k] i8 */
#define TILE_X1 5
#define TILE_W0 6 /* [16 k/4][16 r][4] i8 */
#define TILE_W1 7

static const ig__tile_shapes shapes = {
    .palette = 1,
    .row_bytes = {64, 64, 64, 64, 64, 64, 64, 64},
    .rows = {16, 16, 16, 16, 16, 16, 16, 16},
};

void ig__amx_thread_init(void)
{
    _tile_loadconfig(&shapes);
}

/* Sums that wait to become floats: of tile t (C0 .. C3) [3 planes][16 c][16 r]. */
typedef struct waiting {
    const int32_t *sums[4];
    float *out[4]; /* [n][16] */
    const float *scale[4];
    __m512 unit[4];
    int n[4];        /* columns that exist */
    int column, end; /* the next one, 16 a tile */
} waiting;

/* Column c of a tile: P, Q and S to floats. p [3][16][16] */
IG_INLINE void one_column(float *out, const int32_t *p, float scale, __m512 unit)
{
    const __m512i hi = _mm512_load_si512(p), lo = _mm512_load_si512(p + SUMS);
    const __m512i both = _mm512_load_si512(p + 2 * SUMS);
    const __m512i middle = _mm512_add_epi32(
        _mm512_sub_epi32(both, _mm512_add_epi32(hi, lo)), _mm512_srai_epi32(lo, 7));
    const __m512i h = _mm512_add_epi32(hi, _mm512_srai_epi32(middle, 7));
    const __m512i l = _mm512_or_si512(
        _mm512_slli_epi32(_mm512_and_si512(middle, _mm512_set1_epi32(127)), 7),
        _mm512_and_si512(lo, _mm512_set1_epi32(127)));
    _mm512_storeu_ps(out, _mm512_mul_ps(ig__q14_value(h, l, unit), _mm512_set1_ps(scale)));
}

/* The next A_STEP columns. */
IG_INLINE void some_columns(waiting *w)
{
    if (w->column >= w->end)
        return;
    const int t = w->column / 16, first = w->column % 16;
    const int32_t *p = w->sums[t] + 16 * first;
    const float *scale = w->scale[t] + first;
    float *out = w->out[t] + 16 * first;
    const __m512 unit = w->unit[t];
    w->column += A_STEP;
    if (first + A_STEP <= w->n[t]) {
        IG_UNROLL
        for (int c = 0; c < A_STEP; c++)
            one_column(out + 16 * c, p + 16 * c, scale[c], unit);
        return;
    }
    for (int c = 0; first + c < w->n[t]; c++)
        one_column(out + 16 * c, p + 16 * c, scale[c], unit);
}

/* Up to two groups and two tiles of columns. */
typedef struct quad {
    const char *w[2], *x[2]; /* planes */
    int64_t steps;           /* K/64 */
    int32_t *sums;           /* [4 tiles][3 planes][16][16] */
} quad;

/* One plane of a quad: all steps of K. */
IG_INLINE void one_plane(const quad *q, int plane, waiting *w, const int n_w, const int n_x)
{
    const int64_t bytes = q->steps * CHUNK;
    const char *w0 = q->w[0] + plane * bytes, *w1 = q->w[1] + plane * bytes;
    const char *x0 = q->x[0] + plane * bytes, *x1 = q->x[1] + plane * bytes;
    int32_t *sums = q->sums + plane * SUMS;
    _tile_zero(TILE_C0);
    _tile_zero(TILE_C1);
    _tile_zero(TILE_C2);
    _tile_zero(TILE_C3);
    for (int64_t i = 0; i < bytes; i += CHUNK) {
        _tile_loadd(TILE_W0, w0 + i, 64);
        _tile_loadd(TILE_X0, x0 + i, 64);
        _tile_dpbssd(TILE_C0, TILE_X0, TILE_W0);
        if (n_w == 2) {
            _tile_loadd(TILE_W1, w1 + i, 64);
            _tile_dpbssd(TILE_C1, TILE_X0, TILE_W1);
        }
        if (n_x == 2) {
            _tile_loadd(TILE_X1, x1 + i, 64);
            _tile_dpbssd(TILE_C2, TILE_X1, TILE_W0);
        }
        if (n_w == 2 && n_x == 2)
            _tile_dpbssd(TILE_C3, TILE_X1, TILE_W1);
        some_columns(w);
    }
    while (plane == 0 && w->column < w->end) /* their room is needed now */
        some_columns(w);
    _tile_stored(TILE_C0, sums, 64);
    if (n_w == 2)
        _tile_stored(TILE_C1, sums + 3 * SUMS, 64);
    if (n_x == 2)
        _tile_stored(TILE_C2, sums + 6 * SUMS, 64);
    if (n_w == 2 && n_x == 2)
        _tile_stored(TILE_C3, sums + 9 * SUMS, 64);
}

IG_INLINE void planes_of(const quad *q, waiting *w, const int n_w, const int n_x)
{
    one_plane(q, 0, w, n_w, n_x);
    one_plane(q, 1, w, n_w, n_x);
    one_plane(q, 2, w, n_w, n_x);
}

static void multiply(const quad *q, waiting *w, int n_w, int n_x)
{
    if (n_w == 2 && n_x == 2)
        planes_of(q, w, 2, 2);
    else if (n_w == 2)
        planes_of(q, w, 2, 1);
    else if (n_x == 2)
        planes_of(q, w, 1, 2);
    else
        planes_of(q, w, 1, 1);
}

/* A type: how to make planes of a group, and the product for few columns. */
typedef struct type {
    ig_dtype dtype;
    void (*expand)(void *y, const void *group, int64_t k);
    void (*few)(float *out, const void *group, const void *acts, int64_t n, int64_t k,
                void *scratch);
} type;

/* What all quads of a call share. */
typedef struct call {
    float *const *out;
    const char *w;    /* planes of the groups */
    const char *acts; /* tiles */
    __m512 unit[2];
    int64_t n, k; /* columns in tiles with planes */
    int n_w;
    int32_t *sums;
} call;

/* Tiles [i, i + n_x) of columns. */
static void one_quad(const call *p, waiting *w, int64_t i, int n_x)
{
    const size_t tile_bytes = ig__tile_bytes(IG_ACTS_Q14, p->k, IG_TILE);
    const int64_t steps = (p->k + 63) / 64;
    quad q = {.steps = steps, .sums = p->sums};
    q.w[0] = p->w;
    q.w[1] = p->w + (p->n_w - 1) * 3 * steps * CHUNK;
    q.x[0] = p->acts + (size_t)i * tile_bytes;
    q.x[1] = q.x[0] + (size_t)(n_x - 1) * tile_bytes;
    multiply(&q, w, p->n_w, n_x);
    w->column = w->end = 0;
    for (int x = 0; x < n_x; x++)
        for (int g = 0; g < p->n_w; g++) {
            const int t = w->end / 16;
            const int64_t c = (i + x) * IG_TILE;
            w->sums[t] = p->sums + (2 * x + g) * 3 * SUMS;
            w->out[t] = p->out[g] + 16 * c;
            w->scale[t] = (const float *)(const void *)(q.x[x] + 3 * steps * CHUNK);
            w->unit[t] = p->unit[g];
            w->n[t] = p->n - c < IG_TILE ? (int)(p->n - c) : IG_TILE;
            w->end += 16;
        }
}

/* out[g] = w[g] * x^T for n_w groups of 16 rows.
 *   out[g] [n][16] f32   group[g]: packed   acts: Q14 tiles of K values, n columns
 *   scratch: 12 KiB of sums, the planes of the groups; 96*n*K operations a group */
static void gemm(float *const *out, const void *const *group, const void *acts, int64_t n,
                 int64_t k, void *scratch, type how, int n_w)
{
    const int64_t rest = n % IG_TILE <= IG_FEW ? n % IG_TILE : 0;
    const int64_t n_tiles = (n - rest + IG_TILE - 1) / IG_TILE;
    const size_t plane_bytes = (size_t)((k + 63) / 64) * 3 * CHUNK;
    char *w = (char *)scratch + 12 * SUMS * 4;
    call p = {.out = out, .w = w, .acts = acts, .n = n - rest, .k = k, .n_w = n_w};
    p.sums = scratch;
    for (int g = 0; g < n_w; g++) {
        const char *end = (const char *)group[g] + ig__packed_group_bytes(how.dtype, k);
        p.unit[g] = _mm512_loadu_ps(end - 64);
        if (n_tiles > 0)
            how.expand(w + (size_t)g * plane_bytes, group[g], k);
        if (rest > 0)
            how.few(out[g] + 16 * p.n, group[g],
                    (const char *)acts +
                        (size_t)n_tiles * ig__tile_bytes(IG_ACTS_Q14, k, IG_TILE),
                    rest, k, NULL);
    }
    if (n_tiles == 0)
        return;
    ig__ensure_shapes(&shapes);
    waiting wait = {.column = 0, .end = 0};
    for (int64_t i = 0; i < n_tiles; i += 2)
        one_quad(&p, &wait, i, n_tiles - i < 2 ? 1 : 2);
    while (wait.column < wait.end)
        some_columns(&wait);
}

IG_INLINE void one_group(float *out, const void *group, const void *acts, int64_t n,
                         int64_t k, void *scratch, type how)
{
    if (n <= IG_FEW)
        how.few(out, group, acts, n, k, scratch);
    else
        gemm(&out, &group, acts, n, k, scratch, how, 1);
}

IG_INLINE void two_groups(float *const out[2], const void *const group[2], const void *acts,
                          int64_t n, int64_t k, void *scratch, type how)
{
    gemm(out, group, acts, n, k, scratch, how, 2);
}

static const type type_q4_0 = {IG_DTYPE_Q4_0, ig__avx512_expand_q4_0, ig__avx512_few_q4_0};

static void q4_0(float *out, const void *group, const void *acts, int64_t n, int64_t k,
                 void *scratch)
{
    one_group(out, group, acts, n, k, scratch, type_q4_0);
}

static void pair_q4_0(float *const out[2], const void *const group[2], const void *acts,
                      int64_t n, int64_t k, void *scratch)
{
    two_groups(out, group, acts, n, k, scratch, type_q4_0);
}

static const type type_q4_1 = {IG_DTYPE_Q4_1, ig__avx512_expand_q4_1, ig__avx512_few_q4_1};

static void q4_1(float *out, const void *group, const void *acts, int64_t n, int64_t k,
                 void *scratch)
{
    one_group(out, group, acts, n, k, scratch, type_q4_1);
}

static void pair_q4_1(float *const out[2], const void *const group[2], const void *acts,
                      int64_t n, int64_t k, void *scratch)
{
    two_groups(out, group, acts, n, k, scratch, type_q4_1);
}

static const type type_q5_0 = {IG_DTYPE_Q5_0, ig__avx512_expand_q5_0, ig__avx512_few_q5_0};

static void q5_0(float *out, const void *group, const void *acts, int64_t n, int64_t k,
                 void *scratch)
{
    one_group(out, group, acts, n, k, scratch, type_q5_0);
}

static void pair_q5_0(float *const out[2], const void *const group[2], const void *acts,
                      int64_t n, int64_t k, void *scratch)
{
    two_groups(out, group, acts, n, k, scratch, type_q5_0);
}

static const type type_q8_0 = {IG_DTYPE_Q8_0, ig__avx512_expand_q8_0, ig__avx512_few_q8_0};

static void q8_0(float *out, const void *group, const void *acts, int64_t n, int64_t k,
                 void *scratch)
{
    one_group(out, group, acts, n, k, scratch, type_q8_0);
}

static void pair_q8_0(float *const out[2], const void *const group[2], const void *acts,
                      int64_t n, int64_t k, void *scratch)
{
    two_groups(out, group, acts, n, k, scratch, type_q8_0);
}

static const type type_q4_k = {IG_DTYPE_Q4_K, ig__avx512_expand_q4_k, ig__avx512_few_q4_k};

static void q4_k(float *out, const void *group, const void *acts, int64_t n, int64_t k,
                 void *scratch)
{
    one_group(out, group, acts, n, k, scratch, type_q4_k);
}

static void pair_q4_k(float *const out[2], const void *const group[2], const void *acts,
                      int64_t n, int64_t k, void *scratch)
{
    two_groups(out, group, acts, n, k, scratch, type_q4_k);
}

static const type type_q6_k = {IG_DTYPE_Q6_K, ig__avx512_expand_q6_k, ig__avx512_few_q6_k};

static void q6_k(float *out, const void *group, const void *acts, int64_t n, int64_t k,
                 void *scratch)
{
    one_group(out, group, acts, n, k, scratch, type_q6_k);
}

static void pair_q6_k(float *const out[2], const void *const group[2], const void *acts,
                      int64_t n, int64_t k, void *scratch)
{
    two_groups(out, group, acts, n, k, scratch, type_q6_k);
}

void ig__gemm_kernels_amx(ig__kernels *table)
{
    table->gemm[IG_ACTS_Q14][IG_DTYPE_Q4_0] = q4_0;
    table->gemm[IG_ACTS_Q14][IG_DTYPE_Q4_1] = q4_1;
    table->gemm[IG_ACTS_Q14][IG_DTYPE_Q5_0] = q5_0;
    table->gemm[IG_ACTS_Q14][IG_DTYPE_Q8_0] = q8_0;
    table->gemm[IG_ACTS_Q14][IG_DTYPE_Q4_K] = q4_k;
    table->gemm[IG_ACTS_Q14][IG_DTYPE_Q6_K] = q6_k;
    table->gemm_pair[IG_ACTS_Q14][IG_DTYPE_Q4_0] = pair_q4_0;
    table->gemm_pair[IG_ACTS_Q14][IG_DTYPE_Q4_1] = pair_q4_1;
    table->gemm_pair[IG_ACTS_Q14][IG_DTYPE_Q5_0] = pair_q5_0;
    table->gemm_pair[IG_ACTS_Q14][IG_DTYPE_Q8_0] = pair_q8_0;
    table->gemm_pair[IG_ACTS_Q14][IG_DTYPE_Q4_K] = pair_q4_k;
    table->gemm_pair[IG_ACTS_Q14][IG_DTYPE_Q6_K] = pair_q6_k;
}
