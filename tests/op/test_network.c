/* Rows of networks at sizes around their blocks: f32 against f64, one thread against two, strided
 * operands against dense ones; and what each promises: hidden keys, packed lengths, running
 * statistics, ignored targets, messages, and failing memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "infer/fault_allocator.h"
#include "ingot/ingot.h"
#include "op/network.h"
#include "op/product.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 6 };

typedef ig_tensor *function(ig_tensor *const *x);

typedef struct entry {
    const char *name;
    function *f;
    int n_in;
    int64_t dims[MOST][4]; /* 0 ends */
} entry;

static char last_line[200]; /* of the log */

static void on_log(void *user, ig_log_level level, const char *line)
{
    (void)user, (void)level;
    snprintf(last_line, sizeof last_line, "%s", line);
}

static ig_context *context(int n_threads, const ig_allocator *allocator)
{
    ig_context *ctx;
    const ig_context_opts opts = {
        .n_threads = n_threads, .poison = true, .allocator = allocator, .log = on_log};
    return ig_context_create(&ctx, &opts, NULL) == IG_OK ? ctx : NULL;
}

static void must(ig_context *ctx, const char *name)
{
    if (ig_context_status(ctx) != IG_OK)
        fail_msg("%s: %s", name, ig_context_message(ctx));
}

static void read_f32(ig_tensor *x, float *out)
{
    ig_error error;
    ig_tensor *y = ig_cast(x, IG_DTYPE_F32);
    if (!y || ig_tensor_read(y, out, ig_tensor_bytes(y), &error) != IG_OK)
        fail_msg("cannot read: %s", y ? error.message : "no tensor");
}

static ig_tensor *from_f32(ig_context *ctx, int n_dims, const int64_t *dims, const float *x)
{
    return ig_tensor_from(ctx, IG_DTYPE_F32, n_dims, dims, x);
}

/* ---- f32 against f64, threads, strides --------------------------------------------------------- */

static ig_tensor *layer_norm(ig_tensor *const *x)
{
    return ig_layer_norm(x[0], x[1], x[2], 1e-5);
}
static ig_tensor *rms_norm(ig_tensor *const *x)
{
    return ig_rms_norm(x[0], x[1], 1e-5);
}
static ig_tensor *group_norm(ig_tensor *const *x)
{
    return ig_group_norm(x[0], 3, x[1], x[2], 1e-5);
}
static ig_tensor *batch_norm(ig_tensor *const *x)
{
    return ig_batch_norm(x[0], x[1], x[2], NULL);
}
static ig_tensor *swiglu(ig_tensor *const *x)
{
    return ig_swiglu(x[0], x[1]);
}
static ig_tensor *conv(ig_tensor *const *x)
{
    return ig_conv2d(x[0], x[1], x[2], &(ig_conv_opts){.pad = {1, 1}});
}
static ig_tensor *conv_grouped(ig_tensor *const *x)
{
    const ig_conv_opts o = {
        .stride = {2, 3}, .pad = {2, 0}, .dilation = {1, 2}, .groups = 3};
    return ig_conv2d(x[0], x[1], x[2], &o);
}
static ig_tensor *conv_transpose(ig_tensor *const *x)
{
    return ig_conv_transpose2d(x[0], x[1], NULL,
                               &(ig_conv_opts){.stride = {2, 2}, .out_pad = {1, 1}});
}
static ig_tensor *pool_max(ig_tensor *const *x)
{
    return ig_max_pool2d(x[0], &(ig_pool_opts){.kernel = {3, 2}, .pad = {1, 1}});
}
static ig_tensor *pool_avg(ig_tensor *const *x)
{
    return ig_avg_pool2d(x[0], &(ig_pool_opts){.kernel = {3, 2}, .stride = {1, 2}});
}
static ig_tensor *attention(ig_tensor *const *x)
{
    return ig_attention(x[0], x[1], x[2], NULL);
}
static ig_tensor *attention_causal(ig_tensor *const *x)
{
    return ig_attention(x[0], x[1], x[2], &(ig_attention_opts){.causal = true});
}
static ig_tensor *attention_window(ig_tensor *const *x)
{
    return ig_attention(x[0], x[1], x[2],
                        &(ig_attention_opts){.causal = true, .window = 37});
}
/* q [B,T,H,W] as projections give it: heads are turned outside without a copy */
static ig_tensor *attention_turned(ig_tensor *const *x)
{
    return ig_attention(ig_transpose(x[0], 1, 2), ig_transpose(x[1], 1, 2),
                        ig_transpose(x[2], 1, 2), &(ig_attention_opts){.causal = true});
}
/* x [B,T,3 H,W], of three heads */
static ig_tensor *joined(ig_tensor *x)
{
    return ig_reshape(
        x, IG_SHAPE(ig_tensor_dim(x, 0), ig_tensor_dim(x, 1), 3, 3, ig_tensor_dim(x, 3)));
}
static ig_tensor *attention_joined(ig_tensor *const *x)
{
    return ig__attention_joined(joined(x[0]), true);
}
static ig_tensor *product_bias(ig_tensor *const *x)
{
    return ig__matmul_bias(x[0], x[1], x[2]);
}
/* A table that is looked into twice and multiplied by: its gradients meet. */
static ig_tensor *tied(ig_tensor *const *x)
{
    static const int64_t ids[6] = {3, 0, -1, 3, 3, 1};
    ig_tensor *at = ig_tensor_from(ig_tensor_context(x[0]), IG_DTYPE_I64, IG_SHAPE(6), ids);
    ig_tensor *h = ig_mul(ig_embedding(at, x[0]), ig_index_select(x[0], 0, at));
    return ig_linear(h, x[0], NULL);
}
static ig_tensor *rope(ig_tensor *const *x)
{
    ig_tensor *at =
        ig_arange(ig_tensor_context(x[0]), IG_DTYPE_I64, 5, 1, ig_tensor_dim(x[0], -2));
    ig_tensor *table = ig_rope_table(at, 16, NULL);
    return ig_add(ig_rope(x[0], table, true), ig_rope(x[0], table, false));
}
static ig_tensor *rnn(ig_tensor *const *x)
{
    return ig_recurrent(IG_CELL_RNN, x[0], x + 1, 4, NULL);
}
static ig_tensor *lstm(ig_tensor *const *x)
{
    return ig_recurrent(IG_CELL_LSTM, x[0], x + 1, 4, NULL);
}
static ig_tensor *gru(ig_tensor *const *x)
{
    return ig_recurrent(IG_CELL_GRU, x[0], x + 1, 4, NULL);
}
static ig_tensor *targets_of(ig_context *ctx, int64_t n, int64_t v)
{
    int64_t t[4096];
    assert_true(n <= 4096);
    for (int64_t i = 0; i < n; i++)
        t[i] = i % 7 == 3 ? -100 : i * 7919 % v;
    return ig_tensor_from(ctx, IG_DTYPE_I64, 1, &n, t);
}
static const ig_cross_entropy_opts entropy_opts = {
    .label_smoothing = 0.05, .ignore = -100, .use_ignore = true};
/* Two chunks: rows of 66,000 logits, of which 64 are taken at a time */
static ig_tensor *linear_entropy(ig_tensor *const *x)
{
    ig_tensor *t =
        targets_of(ig_tensor_context(x[0]), ig_tensor_dim(x[0], 0), ig_tensor_dim(x[1], 0));
    return ig_linear_cross_entropy(x[0], x[1], x[2], t, &entropy_opts);
}

#define CELL(name, gates)                                                                  \
    {                                                                                      \
#        name, name, 5,                                                                    \
        {                                                                                  \
            {35, 5, 6}, {gates * 17, 6}, {gates * 17, 17}, {gates * 17},                   \
            {                                                                              \
                gates * 17                                                                 \
            }                                                                              \
        }                                                                                  \
    }

static const entry entries[] = {
    {"layer_norm", layer_norm, 3, {{67, 37}, {37}, {37}}},
    {"layer_norm, wide", layer_norm, 3, {{33, 600}, {600}, {600}}},
    {"rms_norm", rms_norm, 2, {{5, 7, 257}, {257}}},
    {"group_norm", group_norm, 3, {{3, 6, 5, 7}, {6}, {6}}},
    {"batch_norm", batch_norm, 3, {{3, 6, 5, 7}, {6}, {6}}},
    {"swiglu", swiglu, 2, {{3, 1, 701}, {5, 701}}},
    {"conv", conv, 3, {{9, 3, 11, 13}, {17, 3, 3, 3}, {17}}},
    {"conv, a point", conv, 3, {{1, 1, 1, 1}, {1, 1, 1, 1}, {1}}},
    {"conv, grouped", conv_grouped, 3, {{2, 6, 9, 14}, {9, 2, 4, 3}, {9}}},
    {"conv_transpose", conv_transpose, 2, {{2, 5, 6, 7}, {5, 4, 3, 2}}},
    {"max_pool", pool_max, 1, {{3, 4, 10, 9}}},
    {"avg_pool", pool_avg, 1, {{3, 4, 10, 9}}},
    {"attention", attention, 3, {{2, 4, 65, 16}, {2, 2, 63, 16}, {2, 2, 63, 16}}},
    {"attention, causal",
     attention_causal,
     3,
     {{1, 2, 70, 40}, {1, 1, 130, 40}, {1, 1, 130, 40}}},
    {"attention, window",
     attention_window,
     3,
     {{1, 3, 129, 8}, {1, 3, 129, 8}, {1, 3, 129, 8}}},
    {"attention, turned",
     attention_turned,
     3,
     {{2, 66, 3, 17}, {2, 66, 3, 17}, {2, 66, 3, 17}}},
    {"attention, joined", attention_joined, 1, {{2, 66, 9, 17}}},
    {"attention, joined, whole rows", attention_joined, 1, {{3, 130, 9, 16}}},
    {"product and bias", product_bias, 3, {{3, 7, 33}, {33, 18}, {18}}},
    {"rope", rope, 1, {{2, 3, 37, 20}}},
    CELL(rnn, 1),
    CELL(lstm, 4),
    CELL(gru, 3),
    {"linear_entropy", linear_entropy, 3, {{65, 3}, {66000, 3}, {66000}}},
};
enum { N_ENTRIES = (int)(sizeof entries / sizeof *entries) };

static int n_dims_of(const int64_t *dims)
{
    int n = 0;
    while (n < 4 && dims[n])
        n++;
    return n;
}

static int64_t count_of(const int64_t *dims)
{
    int64_t n = 1;
    for (int d = 0; d < n_dims_of(dims); d++)
        n *= dims[d];
    return n;
}

/* Operand i; with `turned`, stored with its dimensions backwards. */
static ig_tensor *operand(ig_context *ctx, const entry *e, int i, ig_dtype dtype,
                          bool turned)
{
    const int n_dims = n_dims_of(e->dims[i]);
    const int64_t n = count_of(e->dims[i]);
    float *x = calloc((size_t)n, sizeof *x);
    uint64_t seed = (uint64_t)(17 * i + 5);
    for (int64_t k = 0; k < n; k++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        x[k] = (float)(seed >> 40) / (float)(1 << 23) - 1;
    }
    ig_tensor *t = from_f32(ctx, n_dims, e->dims[i], x);
    free(x);
    if (turned) {
        int order[4];
        for (int d = 0; d < n_dims; d++)
            order[d] = n_dims - 1 - d;
        t = ig_permute(ig_copy(ig_permute(t, n_dims, order)), n_dims, order);
    }
    return ig_tensor_require_grad(ig_detach(ig_cast(t, dtype)), true);
}

/* The result and all gradients, one behind the other; to be freed. */
static float *run(ig_context *ctx, const entry *e, ig_dtype dtype, bool turned,
                  int64_t *n_out)
{
    ig_scope *scope = ig_scope_begin(ctx);
    ig_tensor *in[MOST], *all[MOST + 1];
    for (int i = 0; i < e->n_in; i++)
        in[i] = operand(ctx, e, i, dtype, turned);
    all[0] = e->f(in);
    must(ctx, e->name);
    /* a cotangent that differs from place to place */
    const int64_t n_y = ig_tensor_count(all[0]);
    ig_tensor *weight = ig_sin(ig_scale(ig_arange(ctx, IG_DTYPE_F64, 0, 1, n_y), 0.7));
    ig_tensor *y = ig_mul(ig_reshape(all[0], 1, &n_y), ig_cast(weight, dtype));
    y = ig_sum(n_y == 1 ? all[0] : y, 0, NULL, false);
    ig_backward(y);
    must(ctx, e->name);
    int64_t n = n_y;
    for (int i = 0; i < e->n_in; i++) {
        all[i + 1] = ig_tensor_grad(in[i]);
        if (!all[i + 1])
            fail_msg("%s: operand %d has no gradient", e->name, i);
        n += ig_tensor_count(all[i + 1]);
    }
    float *out = malloc((size_t)n * sizeof *out);
    for (int64_t i = 0, at = 0; i <= e->n_in; at += ig_tensor_count(all[i]), i++)
        read_f32(all[i], out + at);
    ig_scope_end(scope);
    *n_out = n;
    return out;
}

static void test_precision_threads_strides(void **state)
{
    (void)state;
    ig_context *ctx[2] = {context(1, NULL), context(2, NULL)};
    for (int at = 0; at < N_ENTRIES; at++) {
        const entry *e = &entries[at];
        int64_t n, m;
        float *exact = run(ctx[1], e, IG_DTYPE_F64, false, &n);
        float *first = run(ctx[0], e, IG_DTYPE_F32, false, &m);
        double largest = 1;
        assert_int_equal(n, m);
        for (int64_t i = 0; i < n; i++)
            largest = fmax(largest, fabs((double)exact[i]));
        for (int64_t i = 0; i < n; i++)
            if (!(fabs((double)first[i] - (double)exact[i]) <= 2e-5 * largest))
                fail_msg("%s: number %d: %.8g, in f64 %.8g", e->name, (int)i,
                         (double)first[i], (double)exact[i]);
        for (int other = 0; other < 3; other++) {
            float *now = run(ctx[other != 1], e, IG_DTYPE_F32, other > 0, &m);
            if (memcmp(first, now, (size_t)n * sizeof *now))
                fail_msg("%s: other bits with %s", e->name,
                         other == 0   ? "two threads"
                         : other == 1 ? "strides"
                                      : "strides and two threads");
            free(now);
        }
        free(exact);
        free(first);
    }
    ig_context_destroy(ctx[0]);
    ig_context_destroy(ctx[1]);
}

/* 16-bit operands: computed in f32, rounded once. */
static void test_sixteen_bits(void **state)
{
    (void)state;
    ig_context *ctx = context(1, NULL);
    for (int at = 0; at < N_ENTRIES; at++) {
        const entry *e = &entries[at];
        ig_tensor *half[MOST], *full[MOST];
        if (e->f == linear_entropy || e->f == product_bias || e->f == rope || e->f == rnn ||
            e->f == lstm || e->f == gru)
            continue; /* made of operators that round between */
        ig_scope *scope = ig_scope_begin(ctx);
        for (int i = 0; i < e->n_in; i++) {
            half[i] = operand(ctx, e, i, IG_DTYPE_BF16, false);
            full[i] = ig_detach(ig_cast(half[i], IG_DTYPE_F32));
        }
        ig_tensor *a = e->f(half), *b = ig_cast(e->f(full), IG_DTYPE_BF16);
        must(ctx, e->name);
        assert_int_equal(ig_tensor_dtype(a), IG_DTYPE_BF16);
        assert_int_equal(ig_tensor_item(ig_sum(ig_not_equal(a, b), 0, NULL, false)), 0);
        ig_backward(ig_sum(a, 0, NULL, false));
        must(ctx, e->name);
        ig_scope_end(scope);
    }
    ig_context_destroy(ctx);
}

/* A product's gradient of the table comes first, those of the look-ups are added to it. */
static void test_tied_table(void **state)
{
    (void)state;
    static const entry e = {"tied table", tied, 1, {{11, 37}}};
    ig_context *ctx[2] = {context(1, NULL), context(2, NULL)};
    int64_t n;
    float *exact = run(ctx[0], &e, IG_DTYPE_F64, false, &n);
    float *first = run(ctx[0], &e, IG_DTYPE_F32, false, &n);
    float *second = run(ctx[1], &e, IG_DTYPE_F32, false, &n);
    for (int64_t i = 0; i < n; i++)
        assert_true(fabs((double)first[i] - (double)exact[i]) <= 2e-5);
    assert_memory_equal(first, second, (size_t)n * sizeof *first);
    free(exact);
    free(first);
    free(second);
    ig_context_destroy(ctx[0]);
    ig_context_destroy(ctx[1]);
}

/* Side by side or apart: the same bits. */
static void test_attention_joined(void **state)
{
    (void)state;
    ig_context *ctx = context(2, NULL);
    const int64_t dims[4] = {2, 70, 9, 12};
    ig_tensor *x[2], *y[2];
    ig_seed(ctx, 3);
    ig_tensor *values = ig_normal(ctx, IG_DTYPE_F32, 4, dims, 0, 1);
    ig_tensor *dy = ig_normal(ctx, IG_DTYPE_F32, IG_SHAPE(2, 70, 3, 12), 0, 1);
    for (int i = 0; i < 2; i++)
        x[i] = ig_tensor_require_grad(ig_detach(ig_copy(values)), true);
    y[0] = ig__attention_joined(joined(x[0]), true);
    ig_tensor *parts = ig_permute(joined(x[1]), 5, (const int[]){2, 0, 3, 1, 4});
    y[1] = ig_attention(ig_select(parts, 0, 0), ig_select(parts, 0, 1),
                        ig_select(parts, 0, 2), &(ig_attention_opts){.causal = true});
    y[1] = ig_transpose(y[1], 1, 2);
    for (int i = 0; i < 2; i++)
        assert_int_equal(ig_backward_all(&y[i], &dy, 1, NULL), IG_OK);
    must(ctx, "joined");
    ig_tensor *differ = ig_not_equal(y[0], y[1]);
    assert_int_equal(ig_tensor_item(ig_sum(differ, 0, NULL, false)), 0);
    differ = ig_not_equal(ig_tensor_grad(x[0]), ig_tensor_grad(x[1]));
    assert_int_equal(ig_tensor_item(ig_sum(differ, 0, NULL, false)), 0);
    ig_context_destroy(ctx);
}

/* ---- attention: what is hidden ------------------------------------------------------------------- */

static void check_values(ig_tensor *x, const float *want, int n, double tolerance)
{
    float have[64];
    assert_int_equal(ig_tensor_count(x), n);
    read_f32(x, have);
    for (int i = 0; i < n; i++)
        if (!(fabs((double)have[i] - (double)want[i]) <= tolerance))
            fail_msg("number %d is %.8g, not %.8g", i, (double)have[i], (double)want[i]);
}

static void masked_rows(ig_dtype dtype)
{
    static const float square[4] = {1, 0, 0, 1}, values[4] = {1, 2, 3, 4};
    static const float broken[4] = {1, 0, NAN, NAN};
    static const uint8_t row[4] = {1, 1, 0, 0}, column[4] = {1, 0, 1, 0};
    ig_context *ctx = context(2, NULL);
    ig_tensor *q = ig_cast(from_f32(ctx, IG_SHAPE(1, 1, 2, 2), square), dtype);
    ig_tensor *v = ig_cast(from_f32(ctx, IG_SHAPE(1, 1, 2, 2), values), dtype);
    ig_tensor *k = ig_copy(q);
    q = ig_tensor_require_grad(ig_detach(q), true);
    k = ig_tensor_require_grad(ig_detach(k), true);
    ig_tensor *mask = ig_tensor_from(ctx, IG_DTYPE_BOOL, IG_SHAPE(2, 2), row);
    ig_tensor *y = ig_attention(q, k, v, &(ig_attention_opts){.scale = 1, .mask = mask});
    ig_backward(ig_sum(y, 0, NULL, false));
    must(ctx, "a row that sees nothing");
    check_values(y, (const float[]){1.537883f, 2.537883f, 0, 0}, 4, 1e-6);
    check_values(ig_tensor_grad(q), (const float[]){-0.786448f, 0.786448f, 0, 0}, 4, 1e-6);
    check_values(ig_tensor_grad(k), (const float[]){-0.786448f, 0, 0.786448f, 0}, 4, 1e-6);

    k = ig_cast(from_f32(ctx, IG_SHAPE(1, 1, 2, 2), broken), dtype);
    k = ig_tensor_require_grad(ig_detach(k), true);
    ig_tensor_clear_grad(q);
    mask = ig_tensor_from(ctx, IG_DTYPE_BOOL, IG_SHAPE(2, 2), column);
    y = ig_attention(q, k, v, &(ig_attention_opts){.scale = 1, .mask = mask});
    ig_backward(ig_sum(y, 0, NULL, false));
    must(ctx, "NaN that is hidden");
    check_values(y, (const float[]){1, 2, 1, 2}, 4, 0);
    check_values(ig_tensor_grad(q), (const float[]){0, 0, 0, 0}, 4, 0);
    ig_context_destroy(ctx);
}

static void test_masked_rows(void **state)
{
    (void)state;
    masked_rows(IG_DTYPE_F32);
    masked_rows(IG_DTYPE_F64);
}

/* Documents packed in one row: a mask keeps them apart. */
static void test_packed_documents(void **state)
{
    (void)state;
    static const float zeros[4] = {0}, values[4] = {1, 2, 10, 20};
    static const uint8_t same[16] = {1, 1, 0, 0, 1, 1, 0, 0, 0, 0, 1, 1, 0, 0, 1, 1};
    ig_context *ctx = context(1, NULL);
    ig_tensor *q = from_f32(ctx, IG_SHAPE(1, 1, 4, 1), zeros);
    ig_tensor *v = from_f32(ctx, IG_SHAPE(1, 1, 4, 1), values);
    ig_tensor *mask = ig_tensor_from(ctx, IG_DTYPE_BOOL, IG_SHAPE(4, 4), same);
    check_values(ig_attention(q, q, v, &(ig_attention_opts){.causal = true, .mask = mask}),
                 (const float[]){1, 1.5f, 10, 15}, 4, 1e-5);
    check_values(ig_attention(q, q, v, &(ig_attention_opts){.causal = true}),
                 (const float[]){1, 1.5f, 13 / 3.0f, 8.25f}, 4, 1e-5);
    ig_context_destroy(ctx);
}

/* ---- norms --------------------------------------------------------------------------------------- */

static void test_norm_far_from_zero(void **state)
{
    (void)state;
    static const float x[4] = {1e7f, 1e7f + 1, 1e7f + 2, 1e7f + 3};
    ig_context *ctx = context(1, NULL);
    check_values(ig_layer_norm(from_f32(ctx, IG_SHAPE(4), x), NULL, NULL, 0),
                 (const float[]){-1.341641f, -0.447214f, 0.447214f, 1.341641f}, 4, 1e-6);
    ig_context_destroy(ctx);
}

static void test_running_statistics(void **state)
{
    (void)state;
    static const float x[8] = {1, 2, 3, 6,
                               0, 4, 0, 4}; /* [2,2,2]: channels 1 2 0 4, 3 6 0 4 */
    static const float mean[2] = {1, 0}, var[2] = {1, 2};
    ig_context *ctx = context(1, NULL);
    ig_tensor *in = from_f32(ctx, IG_SHAPE(2, 2, 2), x);
    ig_batch_norm_opts o = {.train = true,
                            .momentum = 0.5,
                            .mean = from_f32(ctx, IG_SHAPE(2), mean),
                            .var = from_f32(ctx, IG_SHAPE(2), var)};
    ig_batch_norm(in, NULL, NULL, &o);
    must(ctx, "batch_norm");
    /* means 7/4 and 13/4, sums of squared deviations 35/4 and 75/4, over 3 */
    check_values(o.mean, (const float[]){1.375f, 1.625f}, 2, 1e-6);
    check_values(o.var, (const float[]){0.5f + 35 / 24.0f, 1 + 75 / 24.0f}, 2, 1e-6);
    o.train = false;
    o.mean = from_f32(ctx, IG_SHAPE(2), mean);
    o.var = from_f32(ctx, IG_SHAPE(2), var);
    o.eps = 2;
    const float a = 1 / sqrtf(3), b = 0.5f;
    check_values(ig_batch_norm(in, NULL, NULL, &o),
                 (const float[]){0, a, 3 * b, 6 * b, -a, 3 * a, 0, 4 * b}, 8, 1e-6);
    check_values(o.mean, mean, 2, 0);
    ig_context_destroy(ctx);
}

/* ---- recurrent: packed lengths --------------------------------------------------------------------- */

/* A batch of sequences of many lengths is each of them alone, in both directions. */
static void packed(ig_cell cell, int64_t gates)
{
    enum { B = 18, T = 6, K = 3, D = 5 };
    ig_context *ctx = context(2, NULL);
    const entry e = {"packed", NULL, 1, {{B, T, K}}};
    ig_tensor *w[8], *h, *hs;
    for (int i = 0; i < 8; i++) {
        const entry one = {"weight",
                           NULL,
                           1,
                           {{gates * D, i % 4 == 0   ? K
                                        : i % 4 == 1 ? D
                                                     : 0}}};
        w[i] = ig_scale(operand(ctx, &one, 0, IG_DTYPE_F32, false), 0.5 + 0.1 * i);
    }
    ig_tensor *x = operand(ctx, &e, 0, IG_DTYPE_F32, false);
    int64_t lengths[B];
    for (int64_t b = 0; b < B; b++)
        lengths[b] = b * 5 % (T + 1);
    ig_tensor *n = ig_tensor_from(ctx, IG_DTYPE_I64, IG_SHAPE(B), lengths);
    ig_tensor *y = ig_recurrent(
        cell, x, w, 8, &(ig_recurrent_opts){.both = true, .lengths = n, .h_out = &h});
    must(ctx, "packed");
    for (int64_t b = 0; b < B; b++) {
        float one[2 * T * D], all[2 * T * D], last[2 * D], last_all[2 * D];
        ig_tensor *alone = ig_slice(ig_slice(x, 0, b, b + 1, 1), 1, 0, lengths[b], 1);
        alone = ig_recurrent(cell, alone, w, 8,
                             &(ig_recurrent_opts){.both = true, .h_out = &hs});
        must(ctx, "alone");
        read_f32(alone, one);
        read_f32(hs, last);
        read_f32(ig_select(y, 0, b), all);
        read_f32(ig_select(h, 1, b), last_all);
        assert_memory_equal(one, all, (size_t)lengths[b] * 2 * D * sizeof(float));
        for (int64_t i = lengths[b] * 2 * D; i < 2 * T * D; i++)
            assert_true(all[i] == 0);
        assert_memory_equal(last, last_all, sizeof last);
    }
    ig_context_destroy(ctx);
}

static void test_packed_lengths(void **state)
{
    (void)state;
    packed(IG_CELL_RNN, 1);
    packed(IG_CELL_LSTM, 4);
    packed(IG_CELL_GRU, 3);
}

/* ---- the loss of an output layer ---------------------------------------------------------------------- */

static void test_ignored_targets(void **state)
{
    (void)state;
    static const float x[6] = {1, 2, 3, 1, 1, 1}, unit[9] = {1, 0, 0, 0, 1, 0, 0, 0, 1};
    static const int64_t some[2] = {2, -100}, none[2] = {-100, -100}, wrong[2] = {0, 3};
    ig_context *ctx = context(1, NULL);
    const ig_cross_entropy_opts o = {.ignore = -100, .use_ignore = true};
    ig_tensor *in = ig_tensor_require_grad(from_f32(ctx, IG_SHAPE(2, 3), x), true);
    ig_tensor *w = from_f32(ctx, IG_SHAPE(3, 3), unit);
    ig_tensor *t = ig_tensor_from(ctx, IG_DTYPE_I64, IG_SHAPE(2), some);
    ig_tensor *loss = ig_linear_cross_entropy(in, w, NULL, t, &o);
    ig_backward(loss);
    must(ctx, "one ignored");
    check_values(loss, (const float[]){0.40760595f}, 1, 1e-6);
    check_values(ig_tensor_grad(in),
                 (const float[]){0.0900306f, 0.2447285f, -0.3347590f, 0, 0, 0}, 6, 1e-6);
    ig_tensor_clear_grad(in);
    assert_string_equal(last_line, "");
    t = ig_tensor_from(ctx, IG_DTYPE_I64, IG_SHAPE(2), none);
    loss = ig_linear_cross_entropy(in, w, NULL, t, &o);
    ig_backward(loss);
    must(ctx, "all ignored");
    assert_non_null(strstr(last_line, "linear_cross_entropy: 0 target tokens"));
    last_line[0] = 0;
    check_values(ig_cross_entropy(in, t, &o), (const float[]){0}, 1, 0);
    assert_string_equal(last_line, "cross_entropy: 0 target tokens: the loss counts as 0");
    last_line[0] = 0;
    ig_program *program;
    assert_int_equal(ig_capture_begin(ctx, NULL), IG_OK);
    assert_non_null(ig_cross_entropy(in, t, &o));
    assert_int_equal(ig_capture_end(&program, ctx, NULL), IG_OK);
    last_line[0] = 0;
    assert_int_equal(ig_program_run(program, NULL), IG_OK);
    assert_non_null(strstr(last_line, "cross_entropy: 0 target tokens"));
    ig_program_destroy(program);
    check_values(loss, (const float[]){0}, 1, 0);
    check_values(ig_tensor_grad(in), (const float[6]){0}, 6, 0);
    t = ig_tensor_from(ctx, IG_DTYPE_I64, IG_SHAPE(2), wrong);
    assert_null(ig_linear_cross_entropy(in, w, NULL, t, &o));
    assert_non_null(strstr(ig_context_message(ctx), "target 3 at position 1"));
    ig_context_clear(ctx);
    assert_true(ig_grad_is_enabled(ctx));
    /* in the second chunk: the place in all rows */
    ig_tensor *rows = ig_zeros(ctx, IG_DTYPE_F32, IG_SHAPE(70, 1));
    int64_t late[70] = {0};
    late[66] = -4;
    t = ig_tensor_from(ctx, IG_DTYPE_I64, IG_SHAPE(70), late);
    w = ig_zeros(ctx, IG_DTYPE_F32, IG_SHAPE(66000, 1));
    assert_null(ig_linear_cross_entropy(rows, w, NULL, t, NULL));
    assert_non_null(strstr(ig_context_message(ctx), "target -4 at position 66"));
    ig_context_destroy(ctx);
}

/* ---- messages, nothing, failing memory ---------------------------------------------------------------- */

static void fails(ig_context *ctx, ig_tensor *x, const char *words)
{
    assert_null(x);
    if (!strstr(ig_context_message(ctx), words))
        fail_msg("\"%s\" does not say \"%s\"", ig_context_message(ctx), words);
    ig_context_clear(ctx);
}

static void test_messages(void **state)
{
    (void)state;
    ig_context *ctx = context(1, NULL);
#define ZEROS(...) ig_zeros(ctx, IG_DTYPE_F32, IG_SHAPE(__VA_ARGS__))
    ig_tensor *image = ZEROS(1, 4, 5, 5), *w = ZEROS(2, 4, 3, 3), *q = ZEROS(1, 4, 3, 2);
    fails(ctx, ig_layer_norm(ZEROS(2, 3), ZEROS(2), NULL, 0), "[2,3] f32, [2] f32");
    fails(ctx, ig_rms_norm(ZEROS(2, 3), ZEROS(2), 0), "rms_norm: the gain does not fit");
    fails(ctx, ig_group_norm(image, 3, NULL, NULL, 0), "whole groups");
    fails(ctx, ig_batch_norm(image, NULL, NULL, &(ig_batch_norm_opts){0}), "running mean");
    fails(ctx, ig_conv2d(image, w, NULL, &(ig_conv_opts){.groups = 2}), "conv: wants x");
    fails(ctx, ig_conv2d(image, w, NULL, &(ig_conv_opts){.stride = {-1}}), "stride -1");
    fails(ctx, ig_conv2d(image, ZEROS(2, 4, 6, 3), NULL, NULL), "larger than the padded");
    fails(ctx, ig_conv1d(image, w, NULL, NULL), "conv1d: wants [.,.,W]");
    fails(ctx, ig_conv_transpose2d(image, w, NULL, NULL), "conv_transpose");
    fails(ctx, ig_max_pool2d(image, &(ig_pool_opts){.kernel = {6, 1}}), "larger than");
    fails(ctx, ig_max_pool2d(image, &(ig_pool_opts){.kernel = {0, 1}}), "a window of 0");
    fails(ctx, ig_attention(q, ZEROS(1, 3, 3, 2), ZEROS(1, 3, 3, 2), NULL), "evenly");
    fails(ctx, ig__attention_joined(q, true), "[B,T,3,H,W]");
    fails(ctx, ig_attention(q, ZEROS(1, 2, 3, 2), ZEROS(1, 2, 4, 2), NULL), "differ");
    fails(ctx, ig_rope(q, ZEROS(4, 1, 2), false), "wants x [..,T,W]");
    ig_tensor *weights[4] = {ZEROS(3, 2), ZEROS(3, 1), NULL, NULL};
    const int64_t nine = 9;
    ig_tensor *length = ig_tensor_from(ctx, IG_DTYPE_I64, 1, (const int64_t[]){1}, &nine);
    fails(ctx, ig_recurrent(IG_CELL_GRU, ZEROS(1, 2, 2), weights, 3, NULL), "four weights");
    fails(ctx, ig_recurrent(IG_CELL_LSTM, ZEROS(1, 2, 2), weights, 4, NULL), "recurrent");
    fails(ctx,
          ig_recurrent(IG_CELL_GRU, ZEROS(1, 2, 2), weights, 4,
                       &(ig_recurrent_opts){.lengths = length}),
          "length 9 of sequence 0 is outside 0..2");
    fails(ctx, ig_linear_cross_entropy(ZEROS(2, 3), ZEROS(4, 2), NULL, length, NULL),
          "wants x [..,D]");
    ig_context_destroy(ctx);
}

static void test_nothing(void **state)
{
    (void)state;
    ig_context *ctx = context(2, NULL);
    ig_tensor *none = ig_tensor_require_grad(ZEROS(0, 3), true), *gain = ZEROS(3);
    ig_tensor_require_grad(gain, true);
    ig_backward(ig_sum(ig_layer_norm(none, gain, NULL, 0), 0, NULL, false));
    must(ctx, "layer_norm of nothing");
    check_values(ig_tensor_grad(gain), (const float[3]){0}, 3, 0);
    ig_tensor *w = ig_tensor_require_grad(ZEROS(2, 3, 2, 2), true);
    ig_backward(ig_sum(ig_conv2d(ZEROS(0, 3, 4, 4), w, NULL, NULL), 0, NULL, false));
    must(ctx, "conv of nothing");
    check_values(ig_tensor_grad(w), (const float[24]){0}, 24, 0);
    ig_max_pool2d(ZEROS(0, 3, 4, 4), &(ig_pool_opts){.kernel = {2, 2}});
    ig_tensor *keys = ig_tensor_require_grad(ZEROS(1, 1, 0, 2), true);
    ig_tensor *q = ig_tensor_require_grad(ZEROS(1, 2, 3, 2), true);
    ig_tensor *y = ig_attention(q, keys, keys, NULL);
    ig_backward(ig_sum(y, 0, NULL, false));
    must(ctx, "attention to nothing");
    check_values(y, (const float[12]){0}, 12, 0);
    check_values(ig_tensor_grad(q), (const float[12]){0}, 12, 0);
    ig_tensor *weights[4] = {ZEROS(3, 2), ZEROS(3, 1), NULL, NULL};
    ig_recurrent(IG_CELL_GRU, ZEROS(0, 2, 2), weights, 4, NULL);
    ig_recurrent(IG_CELL_GRU, ZEROS(2, 0, 2), weights, 4, NULL);
    must(ctx, "recurrent over nothing");
    ig_context_destroy(ctx);
}

static void test_failing_memory(void **state)
{
    (void)state;
    int64_t nth = 1;
    for (bool through = false; !through; nth++) {
        fault_allocator f = {.fail_nth = nth};
        const ig_allocator a = fault_allocator_of(&f);
        ig_context *ctx = context(1, &a);
        through = ctx != NULL;
        for (int at = 0; at < N_ENTRIES && ctx; at++) {
            const entry *e = &entries[at];
            ig_tensor *in[MOST];
            if (e->f == linear_entropy) /* of the largest */
                continue;
            ig_scope *scope = ig_scope_begin(ctx);
            for (int i = 0; i < e->n_in; i++)
                in[i] = operand(ctx, e, i, IG_DTYPE_F32, false);
            ig_backward(ig_sum(e->f(in), 0, NULL, false));
            if (ig_context_status(ctx) != IG_OK) {
                assert_int_equal(ig_context_status(ctx), IG_ERR_MEMORY);
                ig_context_clear(ctx);
                through = false;
            }
            ig_scope_end(scope);
        }
        ig_context_destroy(ctx);
        assert_int_equal(f.n_alive, 0);
        through = through && f.n_calls < nth;
        assert_true(nth < 2000);
    }
    assert_true(nth > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_precision_threads_strides),
        cmocka_unit_test(test_sixteen_bits),
        cmocka_unit_test(test_attention_joined),
        cmocka_unit_test(test_tied_table),
        cmocka_unit_test(test_masked_rows),
        cmocka_unit_test(test_packed_documents),
        cmocka_unit_test(test_norm_far_from_zero),
        cmocka_unit_test(test_running_statistics),
        cmocka_unit_test(test_packed_lengths),
        cmocka_unit_test(test_ignored_targets),
        cmocka_unit_test(test_messages),
        cmocka_unit_test(test_nothing),
        cmocka_unit_test(test_failing_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
