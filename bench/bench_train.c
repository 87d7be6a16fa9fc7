/* The kernels of training, walked by a team: one JSON line a case.
 *
 *   bench_train [filter [threads [isa]]]    filter: part of a case's name, "" for all; threads: 2
 *
 * Elementwise and row cases pass over arrays of 4096 x 4096 float32 that no level of cache
 * near the cores holds. Their GB/s count each array once, and `share` is against a copy of the
 * same size in the same run (memcpy by the same team). Attention and convolution count the
 * products that are needed (causal: half), and their share is of peak_f32 on all threads,
 * measured in the same run. `ns` is the median over rounds, `spread` (largest - least) / median.
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/team.h"
#include "kernel/train.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 9, SIDE = 4096, PIECE = 65536 };
static const int64_t N = (int64_t)SIDE * SIDE;

typedef struct bench {
    const ig__train_kernels *k;
    const ig__kernels *base;
    ig__team *team;
    ig__share share;
    float *x, *y, *z, *w; /* [N] each */
    ig__attention attention;
    ig__conv conv;
    void *scratch[IG_SHARE_MAX_THREADS];
    int64_t n_items;
    void (*item)(struct bench *b, int64_t i, int i_thread);
    double copy_gb_s, peak_gflop_s;
    const char *filter;
    int n_threads;
} bench;

static void walk(void *arg, int i_thread, int n_threads)
{
    bench *b = arg;
    int cursor = i_thread;
    for (int64_t i; (i = ig__share_next(&b->share, &cursor, i_thread, n_threads)) >= 0;)
        b->item(b, i, i_thread);
}

static void run_items(bench *b, int64_t n, void (*item)(bench *, int64_t, int))
{
    b->item = item;
    ig__share_reset(&b->share, n, ig__team_size(b->team));
    ig__team_run(b->team, walk, b);
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

typedef struct timing {
    double median, least, spread;
} timing;

static timing summary(double ns[ROUNDS])
{
    qsort(ns, ROUNDS, sizeof *ns, by_value);
    return (timing){ns[ROUNDS / 2], ns[0], (ns[ROUNDS - 1] - ns[0]) / ns[ROUNDS / 2]};
}

static timing measure(bench *b, void (*work)(bench *))
{
    double ns[ROUNDS];
    work(b);
    for (int i = 0; i < ROUNDS; i++) {
        const int64_t begin = ig__now_ns();
        work(b);
        ns[i] = (double)(ig__now_ns() - begin);
    }
    return summary(ns);
}

/* ---- by pieces of the arrays ---- */

#define PIECE_OF(b, a) ((b)->a + i * PIECE)

static void item_copy(bench *b, int64_t i, int t)
{
    (void)t;
    memcpy(PIECE_OF(b, y), PIECE_OF(b, x), PIECE * 4);
}

static ig__unary unary_op;

static void item_unary(bench *b, int64_t i, int t)
{
    (void)t;
    b->k->unary(unary_op, PIECE_OF(b, y), PIECE_OF(b, x), PIECE);
}

static void item_unary_grad(bench *b, int64_t i, int t)
{
    (void)t;
    b->k->unary_grad(unary_op, PIECE_OF(b, y), PIECE_OF(b, x), PIECE_OF(b, z),
                     PIECE_OF(b, w), PIECE);
}

static void item_add(bench *b, int64_t i, int t)
{
    (void)t;
    b->k->binary(IG__BINARY_ADD, PIECE_OF(b, y), PIECE_OF(b, x), 1, PIECE_OF(b, z), 1,
                 PIECE);
}

static void item_pow(bench *b, int64_t i, int t)
{
    (void)t;
    b->k->binary(IG__BINARY_POW, PIECE_OF(b, y), PIECE_OF(b, w), 1, PIECE_OF(b, z), 1,
                 PIECE);
}

static void item_sum(bench *b, int64_t i, int t)
{
    (void)t;
    PIECE_OF(b, y)[0] = (float)b->k->reduce(IG__REDUCE_SUM, PIECE_OF(b, x), PIECE, 1, 0);
}

static void item_columns(bench *b, int64_t i, int t)
{
    double out[64];
    b->k->reduce_columns(IG__REDUCE_SUM, out, b->x + 64 * i, SIDE, SIDE, 64, NULL,
                         b->scratch[t]);
    b->y[64 * i] = (float)out[0];
}

static void item_adam(bench *b, int64_t i, int t)
{
    (void)t;
    const ig__update u = {.p = PIECE_OF(b, y),
                          .g = PIECE_OF(b, x),
                          .m = PIECE_OF(b, z),
                          .v = PIECE_OF(b, w),
                          .n = PIECE,
                          .lr = 1e-6f,
                          .grad_scale = 1,
                          .beta1 = 0.9f,
                          .beta2 = 0.99f,
                          .eps = 1e-8f,
                          .correction1 = 0.1f,
                          .correction2 = 0.01f,
                          .decoupled = true,
                          .weight_decay = 0.01f};
    b->k->adam(&u);
}

static void item_normal(bench *b, int64_t i, int t)
{
    (void)t;
    b->k->random_normal(PIECE_OF(b, y), 1, 2, (uint64_t)(i * PIECE), PIECE, 0, 1);
}

static void item_dropout(bench *b, int64_t i, int t)
{
    (void)t;
    b->k->dropout(PIECE_OF(b, y), PIECE_OF(b, x), 1, 2, (uint64_t)(i * PIECE), PIECE, 0.1);
}

static void item_bf16(bench *b, int64_t i, int t)
{
    (void)t;
    b->k->convert(IG__NUMBER_BF16, IG__NUMBER_F32, (uint16_t *)(void *)b->y + i * PIECE,
                  PIECE_OF(b, x), PIECE);
}

/* ---- by spans of rows ---- */

enum { ROWS = 16 };

#define EACH_ROW     for (int64_t r = i * ROWS; r < (i + 1) * ROWS; r++)
#define ROW_OF(b, a) ((b)->a + r * SIDE)

static void item_softmax(bench *b, int64_t i, int t)
{
    (void)t;
    EACH_ROW b->k->softmax(ROW_OF(b, y), ROW_OF(b, x), SIDE);
}

static void item_softmax_grad(bench *b, int64_t i, int t)
{
    (void)t;
    EACH_ROW b->k->softmax_grad(ROW_OF(b, y), ROW_OF(b, x), ROW_OF(b, z), SIDE);
}

static void item_layer_norm(bench *b, int64_t i, int t)
{
    (void)t;
    EACH_ROW b->k->layer_norm(ROW_OF(b, y), ROW_OF(b, x), b->z, b->z, SIDE, 1e-5f);
}

static void item_layer_norm_grad(bench *b, int64_t i, int t)
{
    float *parts = b->scratch[t];
    EACH_ROW b->k->layer_norm_grad(ROW_OF(b, y), parts, parts + SIDE, ROW_OF(b, z),
                                   ROW_OF(b, x), b->w, SIDE, 1e-5f);
}

static void item_rms_norm(bench *b, int64_t i, int t)
{
    (void)t;
    EACH_ROW b->k->rms_norm(ROW_OF(b, y), ROW_OF(b, x), b->z, SIDE, 1e-5f);
}

static void item_cross_entropy(bench *b, int64_t i, int t)
{
    (void)t;
    float lse;
    EACH_ROW
    {
        b->k->cross_entropy(&lse, ROW_OF(b, x), SIDE, 5, 0);
        b->k->cross_entropy_grad(ROW_OF(b, y), ROW_OF(b, x), SIDE, 5, 0, lse, 1);
    }
}

/* One array case: `arrays` of N floats read or written. */
static void array_case(bench *b, const char *name, double arrays, int64_t items,
                       void (*item)(bench *, int64_t, int))
{
    if (!strstr(name, b->filter))
        return;
    double ns[ROUNDS], copy[ROUNDS];
    run_items(b, items, item);
    for (int i = 0; i < ROUNDS; i++) { /* turn by turn with the copy */
        int64_t begin = ig__now_ns();
        run_items(b, items, item);
        ns[i] = (double)(ig__now_ns() - begin);
        begin = ig__now_ns();
        run_items(b, N / PIECE, item_copy);
        copy[i] = (double)(ig__now_ns() - begin);
    }
    const timing t = summary(ns), c = summary(copy);
    const double rate = arrays * 4 * (double)N / t.median, limit = 8 * (double)N / c.median;
    printf("{\"bench\":\"train\",\"isa\":\"%s\",\"threads\":%d,\"kernel\":\"%s\",\"shape\":"
           "\"%dx%d\",\"ns\":%.0f,\"spread\":%.3f,\"gb_s\":%.2f,\"copy_gb_s\":%.2f,"
           "\"share\":%.3f}\n",
           b->k->isa, b->n_threads, name, SIDE, SIDE, t.median, t.spread, rate, limit,
           rate / limit);
    fflush(stdout);
}

/* ---- attention and convolution ---- */

static void item_attention(bench *b, int64_t i, int t)
{
    b->k->attention(&b->attention, i, i + 1, b->scratch[t]);
}

static void item_attention_grad(bench *b, int64_t i, int t)
{
    b->k->attention_grad(&b->attention, i, i + 1, b->scratch[t]);
}

static void attention_forward(bench *b)
{
    run_items(b, ig__attention_items(&b->attention), item_attention);
}

static void attention_both(bench *b)
{
    attention_forward(b);
    run_items(b, ig__attention_grad_items(&b->attention), item_attention_grad);
}

static void item_conv(bench *b, int64_t i, int t)
{
    b->k->conv(&b->conv, b->y, b->x, b->w, NULL, i, i + 1, b->scratch[t]);
}

static void item_conv_data(bench *b, int64_t i, int t)
{
    b->k->conv_data(&b->conv, b->x, b->y, b->w, i, i + 1, b->scratch[t]);
}

static void item_conv_weight(bench *b, int64_t i, int t)
{
    b->k->conv_weight(&b->conv, b->z, b->y, b->x, i, i + 1, b->scratch[t]);
}

static void conv_forward(bench *b)
{
    run_items(b, ig__conv_items(&b->conv), item_conv);
}

static void conv_data(bench *b)
{
    run_items(b, ig__conv_data_items(&b->conv), item_conv_data);
}

static void conv_weight(bench *b)
{
    run_items(b, ig__conv_weight_items(&b->conv), item_conv_weight);
}

static void job_peak(void *arg, int i_thread, int n_threads)
{
    (void)i_thread, (void)n_threads;
    bench *b = arg;
    b->base->peak_f32(200000);
}

static double measure_peak(bench *b)
{
    double best = 0;
    for (int i = 0; i < 5; i++) {
        const double ops = b->base->peak_f32(1) * 200000 * b->n_threads;
        const int64_t begin = ig__now_ns();
        ig__team_run(b->team, job_peak, b);
        best = fmax(best, ops / (double)(ig__now_ns() - begin));
    }
    return best;
}

static void product_case(bench *b, const char *name, const char *shape, double flops,
                         void (*work)(bench *))
{
    if (!strstr(name, b->filter))
        return;
    const double peak = measure_peak(b);
    const timing t = measure(b, work);
    printf("{\"bench\":\"train\",\"isa\":\"%s\",\"threads\":%d,\"kernel\":\"%s\",\"shape\":"
           "\"%s\",\"ns\":%.0f,\"least_ns\":%.0f,\"spread\":%.3f,\"gflop_s\":%.1f,"
           "\"share_of_peak\":%.3f}\n",
           b->k->isa, b->n_threads, name, shape, t.median, t.least, t.spread,
           flops / t.median, flops / t.median / peak);
    fflush(stdout);
}

static void run_attention(bench *b)
{
    enum { H = 12, T = 1024, W = 64 };
    ig__attention *a = &b->attention;
    *a = (ig__attention){.batch = 1,
                         .heads = H,
                         .kv_heads = H,
                         .n_queries = T,
                         .n_keys = T,
                         .width = W,
                         .scale = 0.125f,
                         .causal = true};
    const int64_t size = (int64_t)H * T * W;
    int64_t *strides[] = {a->q_stride,    a->k_stride,  a->v_stride,  a->out_stride,
                          a->dout_stride, a->dq_stride, a->dk_stride, a->dv_stride};
    for (int i = 0; i < 8; i++) {
        strides[i][1] = T * W;
        strides[i][2] = W;
    }
    a->q = b->x;
    a->k = b->x + size;
    a->v = b->x + 2 * size;
    a->dout = b->x + 3 * size;
    a->out = b->y;
    a->dq = b->y + size;
    a->dk = b->y + 2 * size;
    a->dv = b->y + 3 * size;
    a->lse = b->y + 4 * size;
    const double one = 2.0 * H * W * T * (T + 1) / 2;
    product_case(b, "attention", "1x12x1024x64 causal", 2 * one, attention_forward);
    product_case(b, "attention_both", "1x12x1024x64 causal", 7 * one, attention_both);
}

static void run_conv(bench *b, const char *shape, ig__conv c)
{
    b->conv = c;
    const double flops = 2.0 * (double)(c.batch * c.out_channels * c.out_h * c.out_w) *
                         (double)(c.in_channels / c.groups * c.kernel_h * c.kernel_w);
    product_case(b, "conv", shape, flops, conv_forward);
    product_case(b, "conv_data", shape, flops, conv_data);
    product_case(b, "conv_weight", shape, flops, conv_weight);
}

static void run_all(bench *b)
{
    static const struct {
        const char *name;
        ig__unary op;
    } unary[] = {{"exp", IG__UNARY_EXP},
                 {"log", IG__UNARY_LOG},
                 {"cos", IG__UNARY_COS},
                 {"tanh", IG__UNARY_TANH},
                 {"silu", IG__UNARY_SILU},
                 {"softplus", IG__UNARY_SOFTPLUS},
                 {"erf", IG__UNARY_ERF},
                 {"gelu", IG__UNARY_GELU},
                 {"gelu_tanh", IG__UNARY_GELU_TANH}};
    for (size_t i = 0; i < sizeof unary / sizeof *unary; i++) {
        unary_op = unary[i].op;
        array_case(b, unary[i].name, 2, N / PIECE, item_unary);
    }
    unary_op = IG__UNARY_GELU;
    array_case(b, "gelu_grad", 4, N / PIECE, item_unary_grad);
    array_case(b, "add", 3, N / PIECE, item_add);
    array_case(b, "pow", 3, N / PIECE, item_pow);
    array_case(b, "sum", 1, N / PIECE, item_sum);
    array_case(b, "sum_columns", 1, SIDE / 64, item_columns);
    array_case(b, "bf16", 1.5, N / PIECE, item_bf16);
    array_case(b, "normal", 1, N / PIECE, item_normal);
    array_case(b, "dropout", 2, N / PIECE, item_dropout);
    array_case(b, "softmax", 2, SIDE / ROWS, item_softmax);
    array_case(b, "softmax_grad", 3, SIDE / ROWS, item_softmax_grad);
    array_case(b, "layer_norm", 2, SIDE / ROWS, item_layer_norm);
    array_case(b, "layer_norm_grad", 3, SIDE / ROWS, item_layer_norm_grad);
    array_case(b, "rms_norm", 2, SIDE / ROWS, item_rms_norm);
    array_case(b, "cross_entropy", 2, SIDE / ROWS, item_cross_entropy);
    array_case(b, "adam", 7, N / PIECE, item_adam);
    run_attention(b);
    run_conv(b, "64x1x28x28 32 3x3",
             (ig__conv){64, 1, 32, 1, 28, 28, 28, 28, 3, 3, 1, 1, 1, 1, 1, 1});
    run_conv(b, "64x32x14x14 64 3x3",
             (ig__conv){64, 32, 64, 1, 14, 14, 14, 14, 3, 3, 1, 1, 1, 1, 1, 1});
}

int main(int argc, char **argv)
{
    bench b = {.filter = argc > 1 ? argv[1] : ""};
    const int n = argc > 2 ? atoi(argv[2]) : 2;
    const ig_allocator alloc = ig__allocator_default();
    b.k = ig__train_kernels_pick(argc > 3 ? argv[3] : NULL);
    b.base = ig__kernels_pick(b.k ? b.k->isa : NULL);
    b.n_threads = n;
    if (n < 1 || n > IG_SHARE_MAX_THREADS || !b.k ||
        !(b.team = ig__team_create(&alloc, n))) {
        fprintf(stderr, "bench_train [filter [threads [isa]]]\n");
        return 1;
    }
    float **arrays[] = {&b.x, &b.y, &b.z, &b.w};
    for (int i = 0; i < 4; i++) {
        *arrays[i] = ig__alloc_huge(&alloc, (size_t)N * 4);
        if (!*arrays[i])
            return 1;
        b.k->random_normal(*arrays[i], 1, (uint64_t)i, 0, N, 0, 1);
    }
    for (int64_t i = 0; i < N; i++)
        b.w[i] = fabsf(b.w[i]);
    for (int i = 0; i < n; i++) {
        b.scratch[i] = ig__alloc_huge(&alloc, (size_t)4 << 20);
        if (!b.scratch[i])
            return 1;
        memset(b.scratch[i], 0, (size_t)4 << 20);
    }
    run_all(&b);
    for (int i = 0; i < 4; i++)
        ig__free(&alloc, *arrays[i]);
    for (int i = 0; i < n; i++)
        ig__free(&alloc, b.scratch[i]);
    ig__team_destroy(b.team);
    return 0;
}
