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

int64_t ig__conv_items(const ig__conv *c)
{
    return c->batch * c->groups * tiles_of(c->out_h * c->out_w, IG__CONV_TILE);
}

int64_t ig__conv_data_items(const ig__conv *c)
{
    return c->batch * c->groups * tiles_of(c->in_channels / c->groups, IG__CONV_CHANNELS);
}

int64_t ig__conv_weight_spans(const ig__conv *c)
{
    return c->batch < 1 ? 1 : ig__min_i64(c->batch, IG__CONV_SPANS);
}

int64_t ig__conv_weight_items(const ig__conv *c)
{
    const int64_t depth = c->in_channels / c->groups * c->kernel_h * c->kernel_w;
    return ig__conv_weight_spans(c) * c->groups * tiles_of(depth, IG__CONV_TILE);
}

size_t ig__conv_scratch(const ig__conv *c)
{
    /* a panel of columns or of gradients, and behind it a strip of outputs, the columns
     * of 8 channels, or a line and the sums of all outputs */
    const size_t tile = IG__CONV_TILE;
    const size_t columns = (size_t)(IG__CONV_CHANNELS * c->kernel_h * c->kernel_w);
    const size_t outs = (size_t)(c->out_channels / c->groups) + 1;
    const size_t behind = columns > outs ? columns : outs;
    return (IG__CONV_DEPTH + behind + 16) * tile * sizeof(float);
}

size_t ig__number_bytes(ig__number number)
{
    static const size_t bytes[IG__NUMBER_COUNT] = {4, 8, 2, 2, 1, 1, 4, 8, 1};
    return bytes[number];
}
