/* The kernels: loops over raw pointers, one table of them for each instruction set.
 *
 * Nothing here allocates, fails or knows of graphs. ig__kernels_ref is the definition of
 * every kernel; ig__kernels_pick starts from it and lets each instruction set that the CPU
 * has override entries. Nothing outside this folder knows of instruction sets.
 *
 * SAME BITS. Within one table, the result for a row (token) never depends on which rows
 * stand around it, on how many there are, or on which thread runs it. So every kernel
 * computes each output element by one fixed sequence of operations: wide and narrow
 * variants of a kernel differ in what runs side by side, never in the order of one
 * element's sums. Tables of different instruction sets may differ in the last bits, and want
 * other activations ("amx" gives the bits of "avx512" for each format but BF16).
 *
 * Weights are packed in groups of 16 rows (the lanes of a zmm register); docs/packing.md
 * has the pictures. Activations are packed in tiles of at most 16 columns (tokens).
 */
#ifndef INGOT_KERNEL_KERNEL_H
#define INGOT_KERNEL_KERNEL_H

#include "ingot/dtype.h"

enum {
    IG_GROUP = 16,     /* rows of a weight group */
    IG_TILE = 16,      /* columns of a whole activation tile */
    IG_QBLOCK = 32,    /* activations that share a scale */
    IG_PAGE = 16,      /* positions of a KV page; a pool may hand out several as one */
    IG_KEY_BLOCK = 64, /* positions of one round of the online softmax */
    IG_KEY_SPAN =
        256, /* positions whose partial softmax is computed from scratch, then joined */
    IG_MAX_HEAD = 512 /* widest attention head */
};

/* ---- weights: K values a row, packed by groups of 16 rows ----------------------------- *
 *
 * K is a multiple of 32 (F32, F16, BF16 too). The bytes of a group are in sequence of K;
 * groups follow one another. Rows past the matrix's end are packed as zeros. Blocks of 32
 * columns:
 *
 *   Q4_0   32 d[16] f16 | 4 x 64 nibbles                                    288 bytes
 *   Q4_1   32 d[16] f16 | 32 m[16] f16 | 4 x 64 nibbles                     320
 *   Q5_0   32 d[16] f16 | 4 x 64 nibbles | 64 fifth bits                    352
 *   Q8_0   32 d[16] f16 | 8 x 64 bytes (value + 128)                        544
 *   F16    16 x 64: pairs (k, k+1) of rows 0..15, f16                      1024
 *   BF16   the same, bf16                                                  1024
 *   F32    32 x 64: column k of rows 0..15                                 2048
 *   blocks of 256 columns:
 *   Q4_K   32 d[16] f16 | 32 dmin[16] f16 | 8 x 16 scales u8 | 8 x 16 mins u8
 *          | 8 x (4 x 64 nibbles)                                          2368
 *   Q6_K   32 d[16] f16 | 16 x 16 scales i8
 *          | 8 x (4 x 64 nibbles | 2 x 64 upper bits)                      3360
 *
 * Nibbles, in block order of 32: line j (0..3), byte 4r+i holds of row r the value k = 4j+i
 * in the low and k = 16+4j+i in the high half. Whole bytes: line j (0..7), byte 4r+i is k =
 * 4j+i. Q5_0's fifth bits: byte 4r+i, bit j (0..3) is that of k = 4j+i, bit 4+j that of k =
 * 16+4j+i. Q6_K's upper two bits: line h (0: k < 16, 1: k >= 16), byte 4r+i, bits 2j..2j+1
 * are those of k = 16h+4j+i. Q6_K's scale s (0..15) belongs to columns 16s..16s+15 of the
 * 256; Q4_K's scale and min s (0..7) to columns 32s..32s+31. Values: Q4_0 d(q-8); Q4_1
 * dq+m; Q5_0 d(q-16); Q8_0 d(q-128); Q4_K d*sc*q - dmin*mn; Q6_K d*sc*(q-32).
 */
typedef struct ig__packing {
    int64_t block;      /* columns of a packed block: 32 or 256; K must be a multiple */
    size_t block_bytes; /* of a packed block of 16 rows */
} ig__packing;
/* block 0: this type has no packed form. */
ig__packing ig__packing_of(ig_dtype dtype);
/* Bytes of one packed group of rows of k values. */
size_t ig__packed_group_bytes(ig_dtype dtype, int64_t k);

/* ---- activations: k values a column, packed by tiles of up to 16 columns -------------- *
 *
 * A tile of n columns (n = 16, or what is left in the last tile), nb = K/32:
 *   Q16   q [nb][n][2][32] i8: hi and lo | sum [nb][n] f32 | halves [nb][n][2] f32: sums of
 *         256 * hi + lo over the block's columns 0..15 and 16..31, sum of both | scale [n] f32
 *   Q8X2  q [nb][n][2][32] i8: hi and lo | scale [nb][n] f32 | sum [nb][n] f32
 *         = scale * (16 * sum of hi + sum of lo) | isum [nb][n][2][2] i32: sums of hi, then
 *         of lo, each over columns 0..15 and 16..31
 *   BF16  [K/2][n][2] bf16
 *   F32   [K][n] f32
 *
 * With quantised weights 8 bits alone lose 1 % of a product, up to 0.3 in a log-probability of
 * a small model (docs/decisions/0002). So both integer formats have two terms. Q16 is 16 bits
 * with one scale for all of a column: nothing is left to scale block by block but the
 * weights. Q8X2 is 12 bits with a scale each 32: 16 * w of a 4-bit weight is still a byte,
 * so that one tile instruction of AMX gives both terms.
 *
 * Q16: scale = max|x| / 32512 over the K, v = round to nearest even of x * (32512 / max|x|),
 * within -32512 .. 32512; lo = v modulo 256, within -128 .. 127, hi = (v - lo) / 256.
 * Q8X2: hi = round to nearest even of x * (127 / max|x|), max over the 32; lo = what is left
 * in units of 1/16 of that: round to nearest even of fma(-max|x| / 127, hi, x) * 16 *
 * (127 / max|x|), within -8 .. 8; scale = max|x| / 127 / 16, so that x is about scale *
 * (16 * hi + lo).
 * All is 0 where max|x| < 2^-111. (From there on scale is a normal float and the factors are
 * finite.) A NaN or infinity in x gives a NaN scale (and Q8X2 a NaN sum), with integers
 * all 0: it reaches the outputs and is reported, not lost. Every table packs the same bytes.
 * Whole tiles have the same size: tile i starts at i * ig__tile_bytes(format, k, 16).
 */
typedef enum ig__acts {
    IG_ACTS_Q16,
    IG_ACTS_Q8X2,
    IG_ACTS_BF16,
    IG_ACTS_F32,
    IG_ACTS_COUNT
} ig__acts;

static inline size_t ig__tile_bytes(ig__acts format, int64_t k, int64_t n)
{
    switch (format) {
    case IG_ACTS_Q16:
        return (size_t)(k / IG_QBLOCK * n) * (64 + 4 + 8) + (size_t)n * 4;
    case IG_ACTS_Q8X2:
        return (size_t)(k / IG_QBLOCK * n) * (64 + 4 + 4 + 16);
    case IG_ACTS_BF16:
        return (size_t)(k * n) * 2;
    default:
        return (size_t)(k * n) * 4;
    }
}
/* All tiles of n columns. */
static inline size_t ig__acts_bytes(ig__acts format, int64_t k, int64_t n)
{
    return (size_t)(n / IG_TILE) * ig__tile_bytes(format, k, IG_TILE) +
           ig__tile_bytes(format, k, n % IG_TILE);
}

/* ---- attention ------------------------------------------------------------------------ *
 *
 * A page holds IG_PAGE positions of one KV head of width W, K then V:
 *   F32    K [W][16] f32                    | V [16][W] f32
 *   F16    K [W][16] f16                    | V [16][W] f16
 *   Q8_0   K [W][16] u8 | scale [W/32][16] f16 | V [16][W] u8 | scale [16][W/32] f16
 * A byte is the quantised value + 128; byte times scale is exact in f32.
 * W is a multiple of 16 (of 32 for Q8_0), at most IG_MAX_HEAD. Unwritten positions hold
 * zeros or older values, always finite; they are masked.
 */
typedef enum ig__kv {
    IG__KV_F16,
    IG__KV_F32,
    IG__KV_Q8_0,
    IG__KV_COUNT
} ig__kv; /* = ig_kv_type */

static inline size_t ig__page_bytes(ig__kv kv, int64_t w)
{
    switch (kv) {
    case IG__KV_F16:
        return (size_t)(2 * IG_PAGE * w) * 2;
    case IG__KV_F32:
        return (size_t)(2 * IG_PAGE * w) * 4;
    default:
        return (size_t)(2 * IG_PAGE * w) + (size_t)(2 * IG_PAGE * (w / 32)) * 2;
    }
}

/* One span of keys against R query rows that share a KV head. */
typedef struct ig__attend_args {
    const float *q;        /* [R][W], already scaled by the softmax scale */
    int64_t q_stride;      /* floats between rows */
    const int64_t *lo;     /* [R] first visible position of each row (sliding window) */
    const int64_t *hi;     /* [R] last visible position (the row's own) */
    int64_t n_rows, width; /* R >= 1, W */
    const char *pages;     /* page p of this head is at pages + table[p] * page_stride */
    const int32_t *table;  /* [pages of the sequence] */
    size_t page_stride;
    int64_t begin, end; /* positions [begin, end) of the span: begin a multiple of
                         * IG_KEY_SPAN, end - begin <= IG_KEY_SPAN, end <= max(hi) + 1 */
    float *m, *l; /* out [R]: largest score, sum of exp(score - m); m = -inf, l = 0: no key
                     seen */
    float *acc;   /* out [R][acc_stride]: sum of exp(score - m) * V */
    int64_t acc_stride;
} ig__attend_args;

/* Limits of the loops that ig__machine measures: operations done, so that ops / time is the
 * peak. */
typedef double ig__peak_fn(int64_t n_rounds);

/* ---- dense products (matmul.h walks them) --------------------------------------------- *
 *
 *     panel of B [k][NR]          NR columns, as wide as a few vectors
 *          |
 *   A -> C [h][NR]                h rows, at most MR: sums that stay in registers
 *
 * Packed A: the rows of a block are cut into ceil(m / MR) slices whose heights differ by at
 * most 1, the higher ones first; a slice of h rows is [k][h]. Packed B: panels [k][NR], zeros past column
 * n. A kernel may count in steps of several k (pairs of bf16: [k/2][h][2]); what is missing
 * in the last step is zero. A kernel that packs otherwise says so beside its table.
 */
typedef enum ig__mm_type {
    IG__MM_F32,
    IG__MM_F64,
    IG__MM_BF16,
    IG__MM_F16,
    IG__MM_TYPES
} ig__mm_type;

/* c = alpha * (a b) + beta * c0 + bias for one panel of B and all slices of a block of A. */
typedef struct ig__mm_panel {
    const void *a; /* packed; with a_k != 0 where it lies: (i, k) at i * a_row + k * a_k */
    int64_t a_row, a_k;
    const void *b; /* row k at k * b_row, packed on the way; NULL: `packed` is packed */
    int64_t b_row;
    const void *b_next; /* what b is next, to be fetched ahead; NULL: nothing */
    int64_t n_next;     /* its columns */
    void *packed_next;  /* where to pack it meanwhile; NULL: nowhere */
    /* of kernels that are deep, where packed_next is given: b_next is whole, [k_next][NR] */
    int64_t b_col, k_next;
    const void *b_after; /* as much behind b_next, to be fetched; NULL: nothing */
    const void
        *packed_ahead; /* instead of the three above: what `packed` is next, [k_next][NR],
                                 to be fetched; NULL: nothing */
    void *packed;      /* [k][NR] */
    void *c;           /* [m][n] f32 (f64), row i at i * c_row */
    const void *
        c0; /* not read when beta is 0; row i at i * c0_row if the kernel is deep, else c_row */
    int64_t c_row, c0_row;
    /* of kernels that are deep: c is scratch [m][NR], and its rows with the bias go here, row i at i * out_row
     * elements of a type that `narrow` serves or f32; NULL: c keeps them, with the bias */
    void *out;
    int64_t out_row;
    ig__mm_type out_type;
    bool streams;                /* out is too large to stay near */
    const void *bias_n, *bias_m; /* [n], [m]; NULL: none */
    double alpha, beta;
    int64_t m, n, k; /* n <= NR; k may be 0 */
} ig__mm_panel;

/* Pack m rows (n columns) of k values, (i, k) at i * row + k * step elements. */
typedef void ig__mm_pack(void *to, const void *from, int64_t row, int64_t step, int64_t m,
                         int64_t k);

/* y [n] = x, rounded to nearest even. */
typedef void ig__mm_narrow(void *y, const float *x, int64_t n);

typedef struct ig__mm_kernel {
    int64_t mr, nr;           /* most rows of a slice, columns of a panel */
    int64_t span;             /* most k of a span, a multiple of k_step */
    int64_t k_step, row_step; /* packed A is padded to multiples of these */
    size_t value_bytes;       /* of a packed value */
    bool reads_source; /* takes A and B where they lie, of the type that it computes in */
    ig__mm_pack *pack_a[IG__MM_TYPES]; /* by the type of the source; NULL: not served */
    ig__mm_pack *pack_b[IG__MM_TYPES];
    void (*panel)(const ig__mm_panel *p);
    ig__mm_narrow *narrow[IG__MM_TYPES]; /* sums to 16 bits; NULL: one by one */
    bool is_deep; /* so fast that sums and both operands should stay near: see matmul.c */
} ig__mm_kernel;

typedef struct ig__kernels {
    const char *isa; /* "ref", "avx2", "avx512", "amx" */

    /* The activation format that products with this weight type want. */
    ig__acts acts[IG_DTYPE_COUNT];

    /* out[c*16 + r] = sum over k of w[r][k] * x[c][k], for one group and n >= 1 columns
     * (any number of tiles). `scratch` holds IG_GEMM_SCRATCH(k) bytes, aligned to 64. One
     * column and many give the same bits. gemm[f][type] may be NULL where format f does not
     * serve the type; gemm[IG_ACTS_F32][type] never is. */
    void (*gemm[IG_ACTS_COUNT][IG_DTYPE_COUNT])(float *out, const void *group,
                                                const void *acts, int64_t n, int64_t k,
                                                void *scratch);

    /* Column c of a tile of n from x [K] f32. k multiple of 32. */
    void (*pack_acts[IG_ACTS_COUNT])(void *tile, const float *x, int64_t c, int64_t n,
                                     int64_t k);

    /* y = row r (0..15) of a packed group as float32. y [K] */
    void (*unpack_row[IG_DTYPE_COUNT])(float *y, const void *group, int64_t r, int64_t k);

    /* y = x * g / sqrt(mean(x^2) + eps). x, y, g [D]; y may alias x; sums in f32 in 16
     * lanes, joined by halves. */
    void (*rms_norm)(float *y, const float *x, const float *g, int64_t d, float eps);

    /* y = x + z; y = x * s; y = silu(x) * z; y = gelu(x) * z (the tanh form). [D], any may
     * alias. */
    void (*add)(float *y, const float *x, const float *z, int64_t d);
    void (*mul)(float *y, const float *x, const float *z, int64_t d);
    void (*scale)(float *y, const float *x, float s, int64_t d);
    void (*silu_mul)(float *y, const float *x, const float *z, int64_t d);
    void (*gelu_mul)(float *y, const float *x, const float *z, int64_t d);

    /* Rotate pairs of x [W] in place by angle i of cos_sin [W/2][2] (cos, sin): pair i is
     * (2i, 2i+1), or with `halves` (i, W/2 + i). */
    void (*rope)(float *x, const float *cos_sin, int64_t w, bool halves);

    /* Write k [W] and v [W] to position `slot` (0..15) of a page. */
    void (*kv_write[IG__KV_COUNT])(void *page, int64_t slot, const float *k, const float *v,
                                   int64_t w);

    /* One span, from scratch. Within a span, blocks of IG_KEY_BLOCK positions aligned to
     * multiples of it are taken in order: scores (sum over d in order), m, exp, l (16
     * lanes, joined at the span's end), acc (over positions in order). A block without a
     * visible key changes nothing. `scratch` holds IG_ATTEND_SCRATCH(R, W) bytes. A row's
     * result is the same alone and among others. */
    void (*attend[IG__KV_COUNT])(const ig__attend_args *args, void *scratch);
    /* (m, l, acc) += (m2, l2, acc2): the online softmax's join, R rows. */
    void (*attend_join)(float *m, float *l, float *acc, const float *m2, const float *l2,
                        const float *acc2, int64_t n_rows, int64_t acc_stride,
                        int64_t acc2_stride, int64_t w);
    /* y [W] = acc / l; zeros when l is 0. */
    void (*attend_finish)(float *y, const float *acc, float l, int64_t w);

    /* Dense products that compute in f32, f64, or pairs of bf16; [IG__MM_BF16] may be NULL:
     * widen to f32. [IG__MM_F16] is. */
    const ig__mm_kernel *matmul[IG__MM_TYPES];

    /* Is every value finite? */
    bool (*all_finite)(const float *x, int64_t n);

    /* Sum of n_bytes (a multiple of 4096) as 64-bit words, to measure streaming reads. */
    uint64_t (*stream_read)(const void *p, size_t n_bytes);
    ig__peak_fn *peak_int8, *peak_bf16, *peak_f32; /* NULL: this table has no such unit */

    /* Once on each thread that runs kernels of this table, before the first; NULL: nothing
     * to do. */
    void (*thread_init)(void);
} ig__kernels;

/* Room for one group expanded to f32 (the widest form), and a ring of result tiles. */
#define IG_GEMM_SCRATCH(k) ((size_t)(k)*64 + 16384)
/* Room for the scores and the queries of R rows. */
#define IG_ATTEND_SCRATCH(r, w)                                                            \
    ((size_t)(r) * (IG_KEY_BLOCK * 4 + (size_t)(w)*4 + 256) + 65536)

/* The table for `isa` (NULL: the best here). NULL: no such name, or this CPU lacks it. The
 * tables are constant. */
const ig__kernels *ig__kernels_pick(const char *isa);
/* The tables that this CPU can run, slowest first; returns the count. */
int ig__kernels_available(const ig__kernels *tables[4]);

/* Pack n_rows (1..16) rows of k values, row i at rows + i * row_bytes in the file's own
 * format, into a group. `group` holds ig__packed_group_bytes(dtype, k). Every instruction
 * set shares this layout. */
void ig__pack_group(void *group, ig_dtype dtype, const void *rows, size_t row_bytes,
                    int64_t n_rows, int64_t k);

/* f16 and bf16 as bits; round to nearest even; NaN stays NaN. */
float ig__f16_to_f32(uint16_t h);
uint16_t ig__f32_to_f16(float f);
static inline float ig__bf16_to_f32(uint16_t h)
{
    const uint32_t bits = (uint32_t)h << 16;
    float f;
    __builtin_memcpy(&f, &bits, 4);
    return f;
}
uint16_t ig__f32_to_bf16(float f);

#endif
