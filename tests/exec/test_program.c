/* Captured programs: the bits of eager steps, no allocation, the context's random stream, versions, what a
 * recording refuses, and every failed allocation. */
#include "ingot/ingot.h"
#include "infer/fault_allocator.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static ig_error error;

static void must(ig_status status)
{
    if (status != IG_OK)
        fail_msg("%s", error.message);
}

static ig_context *context(int n_threads, const ig_allocator *a)
{
    ig_context *ctx;
    const ig_context_opts opts = {.n_threads = n_threads, .allocator = a};
    return ig_context_create(&ctx, &opts, &error) == IG_OK ? ctx : NULL;
}

static double draw(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(*state >> 11) / 9007199254740992.0 * 2 - 1;
}

/* ---- a network and its step -------------------------------------------------------------------- */

typedef struct net {
    ig_context *ctx;
    ig_optimizer *opt;
    ig_tensor *w1, *b1, *w2, *b2, *x, *y, *loss;
    int64_t n_rows, n_in, n_hidden;
    double dropout;
} net;

static ig_tensor *filled(ig_context *ctx, uint64_t *state, int64_t rows, int64_t columns,
                         bool leaf)
{
    static float data[256 * 512];
    for (int64_t i = 0; i < rows * columns; i++)
        data[i] = (float)(draw(state) / 4);
    ig_tensor *x = ig_tensor_from(ctx, IG_DTYPE_F32, IG_SHAPE(rows, columns), data);
    return leaf ? ig_tensor_require_grad(x, true) : x;
}

static bool make_net(net *n, ig_context *ctx, int64_t rows, int64_t in, int64_t hidden,
                     double dropout)
{
    uint64_t state = 3;
    *n = (net){
        .ctx = ctx, .n_rows = rows, .n_in = in, .n_hidden = hidden, .dropout = dropout};
    n->w1 = filled(ctx, &state, hidden, in, true);
    n->b1 = ig_tensor_require_grad(ig_zeros(ctx, IG_DTYPE_F32, IG_SHAPE(hidden)), true);
    n->w2 = filled(ctx, &state, 10, hidden, true);
    n->b2 = ig_tensor_require_grad(ig_zeros(ctx, IG_DTYPE_F32, IG_SHAPE(10)), true);
    n->x = filled(ctx, &state, rows, in, false);
    n->y = ig_zeros(ctx, IG_DTYPE_I64, IG_SHAPE(rows));
    if (ig_context_status(ctx) != IG_OK)
        return false;
    ig_optimizer_opts o = ig_optimizer_defaults(IG_RULE_ADAMW);
    o.clip_norm = 0.5;
    o.schedule = (ig_schedule){.kind = IG_SCHEDULE_COSINE, .warmup = 2, .total = 9};
    ig_tensor *params[4] = {n->w1, n->b1, n->w2, n->b2};
    return ig_optimizer_create(&n->opt, ctx, &o, &error) == IG_OK &&
           ig_optimizer_add(n->opt, params, NULL, 4, NULL, &error) == IG_OK;
}

/* The batch of step k, into the tensors that are there. */
static bool feed(net *n, uint64_t k)
{
    static float x[256 * 512];
    static int64_t y[256];
    uint64_t state = 1000 + k;
    for (int64_t i = 0; i < n->n_rows * n->n_in; i++)
        x[i] = (float)draw(&state);
    for (int64_t i = 0; i < n->n_rows; i++)
        y[i] = (int64_t)((draw(&state) + 1) * 4.99);
    return ig_tensor_write(n->x, x, (size_t)(n->n_rows * n->n_in) * 4, &error) == IG_OK &&
           ig_tensor_write(n->y, y, (size_t)n->n_rows * 8, &error) == IG_OK;
}

/* Its loss is counted. */
static void step(net *n)
{
    ig_scope *scope = ig_scope_begin(n->ctx);
    ig_optimizer_clear_grads(n->opt);
    ig_tensor *h = ig_relu(ig_linear(n->x, n->w1, n->b1));
    if (n->dropout > 0)
        h = ig_dropout(h, n->dropout);
    ig_tensor *loss = ig_cross_entropy(ig_linear(h, n->w2, n->b2), n->y, NULL);
    if (loss)
        ig_backward(ig_optimizer_scale_loss(n->opt, loss));
    ig_optimizer_step(n->opt);
    ig_tensor_release(n->loss);
    n->loss = ig_tensor_retain(ig_detach(loss));
    ig_scope_end(scope);
}

static void fini_net(net *n)
{
    ig_tensor_release(n->loss);
    ig_optimizer_destroy(n->opt);
}

static void same_bytes(ig_tensor *a, ig_tensor *b, const char *what)
{
    assert_non_null(a);
    assert_non_null(b);
    assert_int_equal(ig_tensor_bytes(a), ig_tensor_bytes(b));
    if (memcmp(ig_tensor_data(a), ig_tensor_data(b), ig_tensor_bytes(a)))
        fail_msg("%s: bits differ", what);
}

static void compare_nets(net *a, net *b)
{
    same_bytes(a->loss, b->loss, "loss");
    same_bytes(a->w1, b->w1, "w1");
    same_bytes(a->b1, b->b1, "b1");
    same_bytes(a->w2, b->w2, "w2");
    same_bytes(ig_tensor_grad(a->w1), ig_tensor_grad(b->w1), "gradient of w1");
    const ig_optimizer_stats x = ig_optimizer_get_stats(a->opt),
                             y = ig_optimizer_get_stats(b->opt);
    assert_int_equal(x.steps, y.steps);
    assert_true(x.lr == y.lr && x.grad_norm == y.grad_norm);
    const char *name;
    for (int i = 0; i < 9; i++)
        same_bytes(ig_optimizer_state(a->opt, i, &name),
                   ig_optimizer_state(b->opt, i, &name), "state");
}

/* Eager on one thread against captured on n: all bits, through warm-up, clipping, dropout. */
static void follow(int n_threads, int64_t rows, int64_t in, int64_t hidden, double dropout)
{
    enum { STEPS = 6 };
    net eager, captured;
    ig_program *program;
    ig_context *one = context(1, NULL), *many = context(n_threads, NULL);
    assert_true(make_net(&eager, one, rows, in, hidden, dropout));
    assert_true(make_net(&captured, many, rows, in, hidden, dropout));
    for (uint64_t k = 0; k < STEPS; k++) {
        assert_true(feed(&eager, k) && feed(&captured, k));
        step(&eager);
        if (k == 1) { /* the first step ran as calls */
            must(ig_capture_begin(many, &error));
            step(&captured);
            must(ig_capture_end(&program, many, &error));
        } else if (k == 0) {
            step(&captured);
        } else {
            must(ig_program_run(program, &error));
        }
        compare_nets(&eager, &captured);
    }
    const ig_program_stats stats = ig_program_get_stats(program);
    assert_true(stats.n_steps > 10);
    assert_true(stats.planned_bytes < stats.storage_bytes);
    assert_int_equal(stats.n_team_steps > 0, n_threads > 1 && rows * in > 20000);
    /* calls and runs mix */
    assert_true(feed(&eager, 70) && feed(&captured, 70));
    step(&eager), step(&captured);
    same_bytes(eager.w1, captured.w1, "w1 after a call");
    ig_program_destroy(program);
    fini_net(&eager), fini_net(&captured);
    ig_context_destroy(one), ig_context_destroy(many);
}

static void test_training_step(void **state)
{
    (void)state;
    for (int n_threads = 1; n_threads <= 3; n_threads++) {
        follow(n_threads, 7, 13, 11, 0);
        follow(n_threads, 32, 64, 64, 0.25);
        follow(n_threads, 64, 512, 256, 0.5);
    }
}

static void test_no_allocation(void **state)
{
    (void)state;
    for (int n_threads = 1; n_threads <= 2; n_threads++) {
        fault_allocator f = {0};
        const ig_allocator a = fault_allocator_of(&f);
        ig_context *ctx = context(n_threads, &a);
        net n;
        ig_program *program;
        assert_true(make_net(&n, ctx, 64, 512, 256, 0.1));
        must(ig_capture_begin(ctx, &error));
        assert_true(ig_capture_is_recording(ctx));
        step(&n);
        must(ig_capture_end(&program, ctx, &error));
        assert_false(ig_capture_is_recording(ctx));
        const int64_t calls = f.n_calls;
        const size_t live = ig_context_memory(ctx).live_bytes;
        for (uint64_t k = 0; k < 5; k++) {
            assert_true(feed(&n, k));
            must(ig_program_run(program, &error));
        }
        assert_int_equal(f.n_calls, calls);
        assert_int_equal(ig_context_memory(ctx).live_bytes, live);
        ig_program_destroy(program);
        fini_net(&n);
        ig_context_destroy(ctx);
        assert_int_equal(f.n_alive, 0);
    }
}

static void test_every_failed_allocation(void **state)
{
    (void)state;
    for (int64_t nth = 1;; nth++) {
        fault_allocator f = {.fail_nth = nth};
        const ig_allocator a = fault_allocator_of(&f);
        ig_context *ctx = context(1, &a);
        net n = {0};
        ig_program *program = NULL;
        if (ctx && make_net(&n, ctx, 3, 5, 4, 0) &&
            ig_capture_begin(ctx, &error) == IG_OK) {
            step(&n);
            const ig_status status = ig_capture_end(&program, ctx, &error);
            if (status == IG_OK)
                must(ig_program_run(program, &error));
            else
                assert_int_equal(status, IG_ERR_MEMORY);
            assert_int_equal(program != NULL, status == IG_OK);
        }
        ig_program_destroy(program);
        fini_net(&n);
        ig_context_destroy(ctx);
        assert_int_equal(f.n_alive, 0);
        if (f.n_calls < nth)
            break;
    }
}

/* ---- what a recording holds ---------------------------------------------------------------------- */

static void test_storages(void **state)
{
    (void)state;
    const float ones[4] = {1, 1, 1, 1}, twos[4] = {2, 2, 2, 2};
    ig_context *ctx = context(1, NULL);
    ig_program *program;
    ig_tensor *x = ig_tensor_from(ctx, IG_DTYPE_F32, IG_SHAPE(4), ones);
    ig_tensor *sum = ig_zeros(ctx, IG_DTYPE_F32, IG_SHAPE(4));
    ig_tensor *outside = ig_tensor_retain(ig_full(ctx, IG_DTYPE_F32, IG_SHAPE(4), 3));
    must(ig_capture_begin(ctx, &error));
    ig_scope *scope = ig_scope_begin(ctx);
    /* a constant that is written: each run begins with its bytes */
    ig_tensor *c = ig_tensor_from(ctx, IG_DTYPE_F32, IG_SHAPE(4), ones);
    ig_add_into(c, x);
    ig_add_into(sum, c);
    /* a view of what is planned, written in place; a constant that is not written */
    ig_tensor *z = ig_mul(outside, ig_tensor_scalar(ctx, IG_DTYPE_F32, 10));
    ig_fill(ig_slice(z, 0, 1, 4, 2), -1);
    ig_tensor *y = ig_tensor_keep(ig_add(z, x));
    ig_scope_end(scope);
    /* the recording keeps what the caller lets go */
    ig_tensor_release(outside);
    ig_tensor_release(outside);
    must(ig_capture_end(&program, ctx, &error));
    const uint32_t version = ig_tensor_version(sum), made = ig_tensor_version(y);
    assert_true(((float *)ig_tensor_data(sum))[0] == 2);
    must(ig_program_run(program, &error));
    must(ig_tensor_write(x, twos, sizeof twos, &error));
    must(ig_program_run(program, &error));
    assert_true(((float *)ig_tensor_data(sum))[3] == 2 + 2 + 3);
    const float *got = ig_tensor_data(y);
    assert_true(got[0] == 32 && got[1] == 1 && got[2] == 32 && got[3] == 1);
    assert_int_equal(ig_tensor_version(sum), version + 2);
    assert_true(ig_tensor_version(y) > made);
    assert_int_equal(ig_tensor_version(x), 1);
    ig_program_destroy(program);
    ig_context_destroy(ctx);
}

static void test_random_stream_goes_on(void **state)
{
    (void)state;
    ig_context *a = context(1, NULL), *b = context(2, NULL);
    ig_program *program;
    ig_seed(a, 5), ig_seed(b, 5);
    ig_uniform(b, IG_DTYPE_F32, IG_SHAPE(3), 0, 1);
    ig_uniform(a, IG_DTYPE_F32, IG_SHAPE(3), 0, 1);
    must(ig_capture_begin(b, &error));
    ig_tensor *u = ig_uniform(b, IG_DTYPE_F32, IG_SHAPE(50), 0, 1);
    ig_tensor *n = ig_normal(b, IG_DTYPE_F64, IG_SHAPE(33), 0, 1);
    must(ig_capture_end(&program, b, &error));
    for (int k = 0; k < 4; k++) {
        if (k == 2) {
            ig_seed(a, 9), ig_seed(b, 9);
        }
        if (k)
            must(ig_program_run(program, &error));
        same_bytes(ig_uniform(a, IG_DTYPE_F32, IG_SHAPE(50), 0, 1), u, "uniform");
        same_bytes(ig_normal(a, IG_DTYPE_F64, IG_SHAPE(33), 0, 1), n, "normal");
    }
    same_bytes(ig_uniform(a, IG_DTYPE_F32, IG_SHAPE(5), 0, 1),
               ig_uniform(b, IG_DTYPE_F32, IG_SHAPE(5), 0, 1), "after the runs");
    ig_program_destroy(program);
    ig_context_destroy(a), ig_context_destroy(b);
}

/* ---- what is refused -------------------------------------------------------------------------------- */

static void refused(ig_context *ctx, const char *words)
{
    ig_program *program;
    assert_int_equal(ig_capture_end(&program, ctx, &error), IG_ERR_ARGUMENT);
    assert_null(program);
    if (!strstr(error.message, words))
        fail_msg("%s", error.message);
    ig_context_clear(ctx);
    assert_false(ig_capture_is_recording(ctx));
}

static void test_refusals(void **state)
{
    (void)state;
    ig_context *ctx = context(1, NULL);
    ig_program *program;
    ig_optimizer *opt;
    float value;
    const ig_optimizer_opts o = ig_optimizer_defaults(IG_RULE_ADAMW);
    must(ig_optimizer_create(&opt, ctx, &o, &error));
    ig_tensor *x = ig_full(ctx, IG_DTYPE_F32, IG_SHAPE(1), 3);
    ig_tensor *leaf =
        ig_tensor_require_grad(ig_full(ctx, IG_DTYPE_F32, IG_SHAPE(1), 3), true);
    assert_int_equal(ig_capture_end(&program, ctx, &error), IG_ERR_ARGUMENT);
    must(ig_capture_begin(ctx, &error));
    assert_int_equal(ig_capture_begin(ctx, &error), IG_ERR_ARGUMENT);
    assert_int_equal(ig_tensor_write(x, &value, 4, &error), IG_ERR_ARGUMENT);
    assert_int_equal(ig_optimizer_add(opt, &leaf, NULL, 1, NULL, &error), IG_ERR_ARGUMENT);
    assert_true(isnan(ig_tensor_item(ig_square(x))));
    assert_null(ig_square(x));
    refused(ctx, "tensor_item: a capture records operators");
    must(ig_capture_begin(ctx, &error));
    assert_int_equal(ig_tensor_read(x, &value, 4, &error), IG_ERR_ARGUMENT);
    refused(ctx, "tensor_read: a capture");
    must(ig_capture_begin(ctx, &error));
    assert_null(ig_tensor_data(x));
    refused(ctx, "tensor_data: a capture");
    must(ig_capture_begin(ctx, &error));
    ig_seed(ctx, 3);
    refused(ctx, "seed: a capture");
    /* dropped, or left open when the context ends */
    must(ig_capture_begin(ctx, &error));
    ig_square(x);
    must(ig_capture_end(NULL, ctx, &error));
    assert_true(ig_tensor_item(x) == 3);
    must(ig_capture_begin(ctx, &error));
    ig_square(x);
    ig_optimizer_destroy(opt);
    ig_context_destroy(ctx);
}

static void test_index_out_of_range(void **state)
{
    (void)state;
    for (int n_threads = 1; n_threads <= 2; n_threads++) {
        ig_context *ctx = context(n_threads, NULL);
        ig_program *program;
        int64_t ids[3] = {0, 4, 2};
        ig_tensor *i = ig_tensor_from(ctx, IG_DTYPE_I64, IG_SHAPE(3), ids);
        ig_tensor *table = ig_full(ctx, IG_DTYPE_F32, IG_SHAPE(5, 70000), 1);
        ig_tensor *sum = ig_zeros(ctx, IG_DTYPE_F32, IG_SHAPE(3, 70000));
        must(ig_capture_begin(ctx, &error));
        ig_add_into(sum, ig_embedding(i, table));
        must(ig_capture_end(&program, ctx, &error));
        ids[1] = 5;
        must(ig_tensor_write(i, ids, sizeof ids, &error));
        assert_int_not_equal(ig_program_run(program, &error), IG_OK);
        assert_non_null(strstr(error.message, "5"));
        assert_true(((float *)ig_tensor_data(sum))[0] == 1);
        ids[1] = 1;
        must(ig_tensor_write(i, ids, sizeof ids, &error));
        must(ig_program_run(program, &error));
        assert_true(((float *)ig_tensor_data(sum))[209999] == 2);
        ig_program_destroy(program);
        ig_context_destroy(ctx);
    }
}

/* A record from before that needs what a run overwrites says so. */
static void test_versions(void **state)
{
    (void)state;
    ig_context *ctx = context(1, NULL);
    ig_program *program;
    ig_tensor *w = ig_tensor_require_grad(ig_full(ctx, IG_DTYPE_F32, IG_SHAPE(3), 2), true);
    ig_tensor *x = ig_full(ctx, IG_DTYPE_F32, IG_SHAPE(3), 3);
    must(ig_capture_begin(ctx, &error));
    ig_scale_into(x, 2);
    must(ig_capture_end(&program, ctx, &error));
    ig_tensor *loss = ig_sum(ig_mul(w, x), 0, NULL, false);
    must(ig_program_run(program, &error));
    assert_int_equal(ig_backward(loss), IG_ERR_ARGUMENT);
    assert_non_null(strstr(ig_context_message(ctx), "version 2"));
    assert_int_equal(ig_program_run(program, &error), IG_ERR_ARGUMENT);
    ig_context_clear(ctx);
    must(ig_program_run(program, &error));
    assert_true(ig_tensor_item(ig_select(x, 0, 1)) == 24);
    ig_program_destroy(program);
    ig_context_destroy(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_training_step),
        cmocka_unit_test(test_no_allocation),
        cmocka_unit_test(test_every_failed_allocation),
        cmocka_unit_test(test_storages),
        cmocka_unit_test(test_random_stream_goes_on),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_index_out_of_range),
        cmocka_unit_test(test_versions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
