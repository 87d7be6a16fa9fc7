/* The tables of the training kernels, and how their work is cut into items.
 *
 * As in kernels.c, the tables are filled once, on the first call, and constant from then
 * on.
 */
#include "kernel/kernel_int.h"
#include "kernel/train_int.h"

#include <pthread.h>
#include <string.h>

enum { MAX_TABLES = 3 };

static struct {
    ig__train_kernels table[MAX_TABLES]; /* slowest first */
    int n;
} known; /* written by fill_tables alone */

static pthread_once_t filled = PTHREAD_ONCE_INIT;

#if defined(__x86_64__)

/* A copy of the table before it, to be overridden. */
static ig__train_kernels *next_table(const char *isa)
{
    known.table[known.n] = known.table[known.n - 1];
    known.table[known.n].isa = isa;
    return &known.table[known.n++];
}

static void fill_tables_x86(void)
{
    const ig__cpu cpu = ig__cpu_detect();
    if (cpu.avx2) {
        ig__train_kernels *table = next_table("avx2");
        ig__train_math_avx2(table);
        ig__train_reduce_avx2(table);
        ig__train_rows_avx2(table);
        ig__train_attend_avx2(table);
        ig__train_conv_avx2(table);
        ig__train_cell_avx2(table);
        ig__train_update_avx2(table);
        ig__train_number_avx2(table);
    }
    if (cpu.avx512) {
        ig__train_kernels *table = next_table("avx512");
        ig__train_math_avx512(table);
        ig__train_reduce_avx512(table);
        ig__train_rows_avx512(table);
        ig__train_attend_avx512(table);
        ig__train_conv_avx512(table);
        ig__train_cell_avx512(table);
        ig__train_update_avx512(table);
        ig__train_number_avx512(table);
    }
}
#else
static void fill_tables_x86(void)
{
}
#endif

static void fill_tables(void)
{
    ig__train_kernels *ref = &known.table[0];
    memset(ref, 0, sizeof *ref);
    ref->isa = "ref";
    ig__train_math_ref(ref);
    ig__train_reduce_ref(ref);
    ig__train_rows_ref(ref);
    ig__train_attend_ref(ref);
    ig__train_conv_ref(ref);
    ig__train_cell_ref(ref);
    ig__train_update_ref(ref);
    ig__train_number_ref(ref);
    known.n = 1;
    fill_tables_x86();
}

const ig__train_kernels *ig__train_kernels_pick(const char *isa)
{
    pthread_once(&filled, fill_tables);
    if (!isa)
        return &known.table[known.n - 1];
    const char *name = strcmp(isa, "amx") == 0 ? "avx512" : isa;
    for (int i = 0; i < known.n; i++)
        if (strcmp(name, known.table[i].isa) == 0)
            return &known.table[i];
    return NULL;
}

int ig__train_kernels_available(const ig__train_kernels *tables[3])
{
    pthread_once(&filled, fill_tables);
    for (int i = 0; i < known.n; i++)
        tables[i] = &known.table[i];
    return known.n;
}

/* ---- items and scratch ---- */

int64_t ig__attention_items(const ig__attention *a)
{
    return a->batch * a->heads * ((a->n_queries + IG__ATTEND_TILE - 1) / IG__ATTEND_TILE);
}

int64_t ig__attention_grad_items(const ig__attention *a)
{
    return a->batch * a->kv_heads;
}

/* Width rounded up to whole vectors. */
static size_t padded(int64_t w)
{
    return (size_t)(w + 15) / 16 * 16;
}

size_t ig__attention_scratch(const ig__attention *a)
{
    /* queries [W][64], sums and a copy of values [64][W], weights [64][64], and four
     * rows of 64 */
    const size_t tile = IG__ATTEND_TILE;
    return (3 * tile * padded(a->width) + tile * tile + 4 * tile) * sizeof(float);
}

size_t ig__attention_grad_scratch(const ig__attention *a)
{
    /* keys and values [W][64]; their gradients, three copies and a part of dq [64][W];
     * weights and dS [64][64]; a number a row */
    const size_t tile = IG__ATTEND_TILE;
    const size_t rows = (size_t)(a->heads / a->kv_heads) * padded(a->n_queries);
    return (8 * tile * padded(a->width) + 2 * tile * tile + rows) * sizeof(float);
}

static int64_t tiles_of(int64_t n, int64_t tile)
{
    return (n + tile - 1) / tile;
}

static ig__band band_from(ig__band s)
{
    const int64_t few = s.out_w > 0 ? 1024 / s.out_w : 1;
    s.rows = ig__max_i64(1, ig__min_i64(s.out_h, few));
    s.n_bands = tiles_of(s.out_h, s.rows);
    s.line = s.out_w + (s.kernel_w - 1) * s.dilation_w / s.stride_w;
    s.row = s.line * s.stride_w;
    s.rows_in = (s.rows - 1) * s.stride_h + (s.kernel_h - 1) * s.dilation_h + 1;
    s.plane = s.rows_in * s.row;
    s.taps = s.channels * s.kernel_h * s.kernel_w;
    s.floats = (s.channels * s.plane + 31) / 16 * 16;
    return s;
}

ig__band ig__band_of(const ig__conv *c)
{
    return band_from((ig__band){c->in_channels / c->groups,
                                c->in_h,
                                c->in_w,
                                c->out_h,
                                c->out_w,
                                c->kernel_h,
                                c->kernel_w,
                                c->stride_h,
                                c->stride_w,
                                c->pad_h,
                                c->pad_w,
                                c->dilation_h,
                                c->dilation_w,
                                0,
                                0,
                                0,
                                0,
                                0,
                                0,
                                0,
                                0});
}

ig__band ig__band_back(const ig__conv *c)
{
    return band_from((ig__band){c->out_channels / c->groups,
                                c->out_h,
                                c->out_w,
                                c->in_h,
                                c->in_w,
                                c->kernel_h,
                                c->kernel_w,
                                1,
                                1,
                                (c->kernel_h - 1) * c->dilation_h - c->pad_h,
                                (c->kernel_w - 1) * c->dilation_w - c->pad_w,
                                c->dilation_h,
                                c->dilation_w,
                                0,
                                0,
                                0,
                                0,
                                0,
                                0,
                                0,
                                0});
}

int64_t ig__band_stack(const ig__band *s)
{
    const int64_t near = 131072; /* floats that lie near a core */
    const int64_t grads = IG__CONV_OUTS * s->rows * (int64_t)padded(s->out_w);
    return ig__max_i64(1, ig__min_i64(IG__CONV_STACK, near / (s->floats + grads)));
}

int64_t ig__conv_out_blocks(const ig__conv *c)
{
    return tiles_of(c->out_channels / c->groups, IG__CONV_OUTS);
}

static bool has_stride(const ig__conv *c)
{
    return c->stride_h != 1 || c->stride_w != 1;
}

int64_t ig__conv_items(const ig__conv *c)
{
    return c->batch * c->groups * ig__band_of(c).n_bands;
}

int64_t ig__conv_data_items(const ig__conv *c)
{
    const int64_t parts = has_stride(c)
                              ? tiles_of(c->in_channels / c->groups, IG__CONV_CHANNELS)
                              : ig__band_back(c).n_bands;
    return c->batch * c->groups * parts;
}

int64_t ig__conv_weight_spans(const ig__conv *c)
{
    return c->batch < 1 ? 1 : ig__min_i64(c->batch, IG__CONV_SPANS);
}

int64_t ig__conv_weight_items(const ig__conv *c)
{
    return ig__conv_weight_spans(c) * c->groups * ig__conv_out_blocks(c);
}

/* Two tables of taps, and bands. */
static size_t band_bytes(const ig__band *s, int64_t n)
{
    return (2 * padded(s->taps) + (size_t)(n * s->floats)) * sizeof(float);
}

size_t ig__conv_scratch(const ig__conv *c)
{
    const ig__band s = ig__band_of(c);
    const size_t grads = IG__CONV_OUTS * (size_t)s.rows * padded(s.out_w) * sizeof(float);
    const size_t stack =
        band_bytes(&s, ig__band_stack(&s)) + (size_t)ig__band_stack(&s) * grads;
    if (!has_stride(c)) {
        const ig__band back = ig__band_back(c);
        const size_t direct = band_bytes(&back, 1);
        return stack > direct ? stack : direct;
    }
    /* a panel of gradients, and the columns of 8 channels */
    const size_t columns = (size_t)(IG__CONV_CHANNELS * c->kernel_h * c->kernel_w);
    const size_t scattered = (IG__CONV_DEPTH + columns) * IG__CONV_TILE * sizeof(float);
    return stack > scattered ? stack : scattered;
}

size_t ig__number_bytes(ig__number number)
{
    static const size_t bytes[IG__NUMBER_COUNT] = {4, 8, 2, 2, 1, 1, 4, 8, 1};
    return bytes[number];
}
