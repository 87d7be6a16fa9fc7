/* The limits of the machine: plausible, repeatable, and failing cleanly. */
#include "ingot/machine.h"

#include <math.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>
#include <time.h>

/* Counts what is out, and fails one allocation. */
typedef struct faulty {
    int64_t n_calls, fail_at, n_out;
} faulty;

static void *faulty_alloc(void *user, size_t bytes, size_t align)
{
    faulty *f = user;
    if (++f->n_calls == f->fail_at)
        return NULL;
    void *p = aligned_alloc(align, (bytes + align - 1) / align * align);
    f->n_out += p != NULL;
    return p;
}

static void faulty_free(void *user, void *p)
{
    faulty *f = user;
    f->n_out -= p != NULL;
    free(p);
}

static void figures_are_plausible(void **state)
{
    (void)state;
    for (int n = 1; n <= 2; n++) {
        const ig_context_opts opts = {.n_threads = n};
        ig_context *ctx;
        assert_int_equal(ig_context_create(&ctx, &opts, NULL), IG_OK);
        ig_machine m;
        assert_int_equal(ig_machine_measure(&m, ctx, 0.2, NULL, NULL), IG_OK);
        assert_true(m.read_bytes_s > 1e8 && m.read_bytes_s < 1e13);
        assert_true(m.f32_ops_s > 1e7 && m.f32_ops_s < 1e15);
        assert_true(m.int8_ops_s > 1e7 && m.int8_ops_s < 1e16);
        assert_true(m.bf16_ops_s >= 0);
        /* alone, a barrier is a call; else it is an exchange between cores */
        assert_true(m.barrier_ns > 0 && m.barrier_ns < 1e8);
        ig_context_destroy(ctx);
    }
}

static void seconds_are_checked(void **state)
{
    (void)state;
    ig_context *ctx;
    assert_int_equal(ig_context_create(&ctx, NULL, NULL), IG_OK);
    const double wrong[] = {0, -1, 1e9, nan("")};
    for (int i = 0; i < 4; i++) {
        ig_error err;
        ig_machine m = {.barrier_ns = 7};
        assert_int_equal(ig_machine_measure(&m, ctx, wrong[i], NULL, &err),
                         IG_ERR_ARGUMENT);
        assert_non_null(strstr(err.message, "seconds"));
        assert_true(m.barrier_ns == 0);
    }
    ig_context_destroy(ctx);
}

static void no_memory_is_said(void **state)
{
    (void)state;
    faulty f = {0};
    const ig_allocator a = {faulty_alloc, faulty_free, &f};
    const ig_context_opts opts = {.n_threads = 1, .allocator = &a};
    ig_context *ctx;
    assert_int_equal(ig_context_create(&ctx, &opts, NULL), IG_OK);
    const int64_t n_out = f.n_out;
    f.fail_at = f.n_calls + 1; /* the measurement's own state */
    ig_machine m;
    assert_int_equal(ig_machine_measure(&m, ctx, 0.01, NULL, NULL), IG_ERR_MEMORY);
    assert_int_equal(f.n_out, n_out);
    f.fail_at = f.n_calls + 2; /* the large buffer: a smaller one does */
    assert_int_equal(ig_machine_measure(&m, ctx, 0.01, NULL, NULL), IG_OK);
    assert_true(m.read_bytes_s > 0);
    assert_int_equal(f.n_out, n_out);
    ig_context_destroy(ctx);
    assert_int_equal(f.n_out, 0);
}

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

typedef struct canceller {
    int flag; /* atomic */
    int64_t after_ns, set_ns;
} canceller;

static void *cancel_later(void *arg)
{
    canceller *c = arg;
    const struct timespec nap = {.tv_nsec = c->after_ns};
    nanosleep(&nap, NULL);
    c->set_ns = now_ns();
    __atomic_store_n(&c->flag, 1, __ATOMIC_RELAXED);
    return NULL;
}

/* Whether it prepares or measures, it ends soon after it was told to. */
static void it_can_be_cancelled(void **state)
{
    (void)state;
    ig_context *ctx;
    assert_int_equal(ig_context_create(&ctx, NULL, NULL), IG_OK);
    static const int64_t afters[] = {0, 30000000, 700000000};
    for (int i = 0; i < 3; i++) {
        canceller c = {.after_ns = afters[i]};
        ig_machine m = {.barrier_ns = 7};
        ig_error err;
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, cancel_later, &c), 0);
        assert_int_equal(ig_machine_measure(&m, ctx, 20, &c.flag, &err), IG_ERR_CANCELLED);
        const int64_t end_ns = now_ns();
        pthread_join(thread, NULL);
        assert_true(end_ns - c.set_ns < 2000000000); /* of 20 s */
        assert_true(m.barrier_ns == 0);
    }
    ig_context_destroy(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(figures_are_plausible),
        cmocka_unit_test(seconds_are_checked),
        cmocka_unit_test(no_memory_is_said),
        cmocka_unit_test(it_can_be_cancelled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
