/* The caching allocator: alignment, no overlap, joining, the bound on what is reserved, budget, poison,
 * statistics; and that a warm training step reserves nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "ingot/ingot.h"
#include "tensor/memory.h"

#include <stdlib.h>
#include <string.h>

static uint64_t seed = 1;
static uint64_t next_random(void)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return seed >> 33;
}

static ig__memory memory;
static ig_allocator allocator;

static void start(size_t budget, bool poison)
{
    allocator = ig__allocator_default();
    ig__memory_init(&memory, &allocator, budget, poison);
}

/* Many blocks of all sizes at once, each filled with its own byte. */
static void test_blocks_lie_apart(void **state)
{
    (void)state;
    enum { N = 300 };
    struct {
        unsigned char *p;
        size_t bytes;
    } blocks[N] = {{0}};
    start(0, false);
    for (int round = 0; round < 20000; round++) {
        const int i = (int)(next_random() % N);
        if (blocks[i].p) {
            for (size_t k = 0; k < blocks[i].bytes; k += 1 + blocks[i].bytes / 16)
                assert_int_equal(blocks[i].p[k], i % 251);
            if (blocks[i].bytes)
                assert_int_equal(blocks[i].p[blocks[i].bytes - 1], i % 251);
            ig__memory_give(&memory, blocks[i].p, blocks[i].bytes);
            blocks[i].p = NULL;
            continue;
        }
        const int shift = (int)(next_random() % 18);
        blocks[i].bytes = next_random() % ((size_t)1 << shift);
        blocks[i].p = ig__memory_take(&memory, blocks[i].bytes);
        assert_non_null(blocks[i].p);
        assert_int_equal((uintptr_t)blocks[i].p % 64, 0);
        memset(blocks[i].p, i % 251, blocks[i].bytes);
    }
    for (int i = 0; i < N; i++)
        if (blocks[i].p)
            ig__memory_give(&memory, blocks[i].p, blocks[i].bytes);
    const ig_memory_stats stats = ig__memory_stats(&memory);
    assert_int_equal(stats.live_bytes, 0);
    /* all free neighbours have joined: what is left free is whole segments */
    void *all = ig__memory_take(&memory, stats.largest_free_bytes);
    assert_non_null(all);
    assert_int_equal(ig__memory_stats(&memory).n_reserves, stats.n_reserves);
    ig__memory_give(&memory, all, stats.largest_free_bytes);
    ig__memory_fini(&memory);
}

/* A training step on sequences of a length that changes each time: activations of many sizes live at once,
 * beside parameters that stay. What is reserved is at most 1.25 times the most that was needed. */
static void steps_of_random_lengths(int n_layers, size_t most, int n_steps)
{
    enum { PARTS = 6, LAYERS = 24 };
    void *kept[LAYERS], *live[LAYERS][PARTS];
    size_t kept_bytes[LAYERS], bytes[LAYERS][PARTS];
    start(0, false);
    for (int l = 0; l < n_layers; l++) {
        kept_bytes[l] = 4096 + next_random() % (most / 4);
        kept[l] = ig__memory_take(&memory, kept_bytes[l]);
        assert_non_null(kept[l]);
    }
    for (int step = 0; step < n_steps; step++) {
        const size_t length = 1 + next_random() % 1024;
        for (int l = 0; l < n_layers; l++)
            for (int k = 0; k < PARTS; k++) {
                bytes[l][k] = length * (most / 1024) * (size_t)(1 + k % 4) / 4 + 16;
                live[l][k] = ig__memory_take(&memory, bytes[l][k]);
                assert_non_null(live[l][k]);
                if (k == 3) { /* a temporary dies at once */
                    ig__memory_give(&memory, live[l][1], bytes[l][1]);
                    live[l][1] = NULL;
                }
            }
        for (int l = n_layers; l-- > 0;)
            for (int k = 0; k < PARTS; k++)
                ig__memory_give(&memory, live[l][k], bytes[l][k]);
        const ig_memory_stats stats = ig__memory_stats(&memory);
        if ((double)stats.peak_reserved_bytes >
            1.25 * (double)stats.peak_live_bytes + (2 << 20))
            fail_msg("step %d of %d layers: reserved %zu, the most needed %zu", step,
                     n_layers, stats.peak_reserved_bytes, stats.peak_live_bytes);
    }
    const ig_memory_stats stats = ig__memory_stats(&memory);
    if ((double)stats.peak_reserved_bytes > 1.25 * (double)stats.peak_live_bytes)
        fail_msg("%d layers: reserved %zu, the most needed %zu", n_layers,
                 stats.peak_reserved_bytes, stats.peak_live_bytes);
    /* most steps are served from what is there */
    assert_true(stats.n_reserves < n_steps * 4);
    for (int l = 0; l < n_layers; l++)
        ig__memory_give(&memory, kept[l], kept_bytes[l]);
    ig__memory_fini(&memory);
}

static void test_random_lengths(void **state)
{
    (void)state;
    steps_of_random_lengths(12, (size_t)1 << 21, 2000);
    steps_of_random_lengths(4, (size_t)1 << 24, 2000);
    steps_of_random_lengths(24, (size_t)1 << 18, 2000);
}

/* The same of real steps: a network over 1 to 1,024 rows, another number each time. */
static void test_random_steps(void **state)
{
    (void)state;
#ifdef IG_DEBUG
    enum { D = 64, LAYERS = 8, STEPS = 200 }; /* sanitizers are slow, and see as much */
#else
    enum { D = 64, LAYERS = 8, STEPS = 2000 };
#endif
    ig_context *ctx;
    assert_int_equal(ig_context_create(&ctx, &(ig_context_opts){.n_threads = 1}, NULL),
                     IG_OK);
    ig_tensor *gain = ig_tensor_require_grad(ig_ones(ctx, IG_DTYPE_F32, IG_SHAPE(D)), true);
    for (int step = 0; step < STEPS; step++) {
        ig_scope *scope = ig_scope_begin(ctx);
        const int64_t rows = 1 + (int64_t)(next_random() % 1024);
        ig_tensor *x = ig_full(ctx, IG_DTYPE_F32, IG_SHAPE(rows, D), 1.0 / (step + 1));
        for (int i = 0; i < LAYERS; i++)
            x = ig_relu(ig_mul(x, gain));
        ig_tensor_clear_grad(gain);
        assert_int_equal(ig_backward(ig_mean(ig_square(x), 0, NULL, false)), IG_OK);
        ig_scope_end(scope);
    }
    const ig_memory_stats stats = ig_context_memory(ctx);
    assert_true(stats.peak_live_bytes > LAYERS * 1000 * D * sizeof(float));
    if ((double)stats.peak_reserved_bytes > 1.25 * (double)stats.peak_live_bytes)
        fail_msg("reserved %zu, the most needed %zu", stats.peak_reserved_bytes,
                 stats.peak_live_bytes);
    assert_true(stats.n_reserves < 200);
    ig_context_destroy(ctx);
}

static void test_budget(void **state)
{
    (void)state;
    start((size_t)8 << 20, false);
    void *p = ig__memory_take(&memory, (size_t)5 << 20);
    assert_non_null(p);
    assert_null(ig__memory_take(&memory, (size_t)5 << 20));
    ig__memory_give(&memory, p, (size_t)5 << 20);
    /* what was free makes way for something larger */
    p = ig__memory_take(&memory, (size_t)7 << 20);
    assert_non_null(p);
    assert_true(memory.reserved <= (size_t)8 << 20);
    assert_null(ig__memory_take(&memory, SIZE_MAX / 2));
    ig__memory_fini(&memory);
}

static void test_poison(void **state)
{
    (void)state;
    start(0, true);
    unsigned char *p = ig__memory_take(&memory, 5000);
    for (int i = 0; i < 5000; i++)
        assert_int_equal(p[i], 0xff);
    memset(p, 7, 5000);
    ig__memory_give(&memory, p, 5000);
    for (int i = 100; i < 5000; i++)
        assert_int_equal(p[i], 0xff);
    ig__memory_fini(&memory);
}

/* The failure says who holds the memory. */
static void test_message(void **state)
{
    (void)state;
    ig_context *ctx;
    assert_int_equal(
        ig_context_create(
            &ctx, &(ig_context_opts){.n_threads = 1, .tensor_budget = 8 << 20}, NULL),
        IG_OK);
    ig_tensor *x = ig_zeros(ctx, IG_DTYPE_F32, IG_SHAPE(1000, 1000));
    ig_tensor *part = ig_slice(x, 0, 0, 100, 1);
    assert_non_null(ig_exp(part));
    ig_tensor_release(part);
    assert_null(ig_exp(ig_add(x, x)));
    assert_int_equal(ig_context_status(ctx), IG_ERR_MEMORY);
    const char *message = ig_context_message(ctx);
    if (!strstr(message, "add") || !strstr(message, "4.000 MB") ||
        !strstr(message, "budget of 8 MB") ||
        !strstr(message, "most by fill 4.0 MB in 1") || !strstr(message, "exp 0.4 MB in 1"))
        fail_msg("%s", message);
    ig_context_clear(ctx);
    ig_tensor_release(x);
    assert_non_null(ig_zeros(ctx, IG_DTYPE_F32, IG_SHAPE(1000, 1000)));
    assert_int_equal(ig_context_status(ctx), IG_OK);
    ig_context_destroy(ctx);
}

/* Once warm, a step of a network takes nothing from the system. */
static void test_warm_step(void **state)
{
    (void)state;
    ig_context *ctx;
    assert_int_equal(ig_context_create(&ctx, NULL, NULL), IG_OK);
    ig_tensor *x = ig_normal(ctx, IG_DTYPE_F32, IG_SHAPE(32, 64), 0, 1);
    ig_tensor *t =
        ig_cast(ig_uniform(ctx, IG_DTYPE_F32, IG_SHAPE(32), 0, 10), IG_DTYPE_I64);
    ig_tensor *w = ig_normal(ctx, IG_DTYPE_F32, IG_SHAPE(10, 64), 0, 0.1);
    ig_tensor_require_grad(w, true);
    int64_t warm = 0;
    size_t live = 0;
    for (int step = 0; step < 200; step++) {
        ig_scope *scope = ig_scope_begin(ctx);
        ig_tensor *loss = ig_cross_entropy(ig_linear(ig_relu(x), w, NULL), t, NULL);
        assert_int_equal(ig_backward(loss), IG_OK);
        const bool was = ig_grad_enable(ctx, false);
        ig_sub_into(w, ig_scale(ig_tensor_grad(w), 0.1));
        ig_grad_enable(ctx, was);
        if (step % 2)
            ig_tensor_clear_grad(w);
        ig_scope_end(scope);
        const ig_memory_stats stats = ig_context_memory(ctx);
        if (step == 3) {
            warm = stats.n_reserves;
            live = stats.live_bytes;
        }
        if (step > 3) {
            assert_int_equal(stats.n_reserves, warm);
            assert_true(stats.live_bytes <= live + 4096);
        }
    }
    ig_context_destroy(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocks_lie_apart), cmocka_unit_test(test_random_lengths),
        cmocka_unit_test(test_random_steps),     cmocka_unit_test(test_budget),
        cmocka_unit_test(test_poison),           cmocka_unit_test(test_message),
        cmocka_unit_test(test_warm_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
