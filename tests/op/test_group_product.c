/* Products of rows in groups: against a product for each group, with empty groups, groups beyond a block, rows
 * behind the last; threads, 16 bits, gradients, counts that do not fit, failing memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "infer/fault_allocator.h"
#include "ingot/ingot.h"

#include <math.h>
#include <string.h>

enum { X = 5, MOST_ROWS = 300 };

static ig_context *context(int n_threads)
{
    ig_context *ctx;
    const ig_context_opts opts = {.n_threads = n_threads, .poison = true};
    assert_int_equal(ig_context_create(&ctx, &opts, NULL), IG_OK);
    return ctx;
}

static void must(ig_context *ctx)
{
    if (ig_context_status(ctx) != IG_OK)
        fail_msg("%s", ig_context_message(ctx));
}

static double largest(ig_tensor *x)
{
    return ig_tensor_item(ig_max(ig_abs(x), 0, NULL, false));
}

static void close_to(const char *what, ig_tensor *x, ig_tensor *want, double bound)
{
    const double off = largest(ig_sub(x, want)), top = fmax(largest(want), 1e-3);
    if (!(off <= bound * top))
        fail_msg("%s is off by %g of %g", what, off, top);
}

static const struct sizes {
    int64_t m, k, n, counts[X];
} sizes[] = {
    {300, 70, 33, {0, 128, 1, 150, 0}},   {300, 17, 1, {300, 0, 0, 0, 0}},
    {129, 1, 130, {0, 0, 0, 0, 129}},     {7, 16, 8, {1, 2, 0, 1, 1}},
    {6, 3, 2, {0, 0, 0, 0, 0}},           {0, 4, 4, {0, 0, 0, 0, 0}},
    {260, 200, 150, {130, 0, 127, 2, 1}},
};
enum { N_SIZES = (int)(sizeof sizes / sizeof *sizes) };

/* The same, a product a group. */
static ig_tensor *by_groups(ig_tensor *x, ig_tensor *w, const struct sizes *s)
{
    ig_context *ctx = ig_tensor_context(x);
    ig_tensor *parts[X + 1];
    int64_t at = 0;
    for (int i = 0; i < X; at += s->counts[i++])
        parts[i] =
            ig_linear(ig_slice(x, 0, at, at + s->counts[i], 1), ig_select(w, 0, i), NULL);
    parts[X] = ig_zeros(ctx, ig_tensor_dtype(x), IG_SHAPE(s->m - at, s->n));
    return ig_cat(parts, X + 1, 0);
}

static ig_tensor *leaf(ig_tensor *x)
{
    return ig_tensor_require_grad(ig_detach(ig_copy(x)), true);
}

static void check_sizes(ig_context *ctx, const struct sizes *s, ig_dtype dtype,
                        ig_dtype counts)
{
    const double bound = dtype == IG_DTYPE_F64 ? 1e-13 : 2e-6;
    ig_scope *scope = ig_scope_begin(ctx);
    ig_seed(ctx, 2);
    ig_tensor *x = leaf(ig_normal(ctx, dtype, IG_SHAPE(s->m, s->k), 0, 1));
    ig_tensor *w = leaf(ig_normal(ctx, dtype, IG_SHAPE(X, s->n, s->k), 0, 1));
    ig_tensor *d = ig_normal(ctx, dtype, IG_SHAPE(s->m, s->n), 0, 1);
    ig_tensor *n =
        ig_cast(ig_tensor_from(ctx, IG_DTYPE_I64, IG_SHAPE(X), s->counts), counts);
    ig_tensor *dx[2], *dw[2], *y[2];
    for (int way = 0; way < 2; way++) {
        y[way] = way ? by_groups(x, w, s) : ig_group_linear(x, w, n);
        must(ctx);
        assert_int_equal(ig_backward_all(&y[way], &d, 1, NULL), IG_OK);
        dx[way] = ig_copy(ig_tensor_grad(x));
        dw[way] = ig_copy(ig_tensor_grad(w));
        ig_tensor_clear_grad(x);
        ig_tensor_clear_grad(w);
    }
    if (s->m) {
        close_to("y", y[0], y[1], bound);
        close_to("dx", dx[0], dx[1], bound);
    }
    close_to("dw", dw[0], dw[1], bound);
    must(ctx);
    ig_scope_end(scope);
}

static void test_against_products(void **state)
{
    (void)state;
    ig_context *ctx = context(2);
    for (int i = 0; i < N_SIZES; i++) {
        check_sizes(ctx, &sizes[i], IG_DTYPE_F32, IG_DTYPE_I64);
        check_sizes(ctx, &sizes[i], IG_DTYPE_F64, IG_DTYPE_I32);
    }
    ig_context_destroy(ctx);
}

/* One thread and two, dense operands and turned ones; a row whatever group stands before it. */
static void test_same_bits(void **state)
{
    (void)state;
    ig_context *ctx[2] = {context(1), context(2)};
    const struct sizes *s = &sizes[6];
    static float y[3][260 * 150];
    for (int i = 0; i < 3; i++) {
        ig_context *c = ctx[i > 0];
        ig_seed(c, 2);
        ig_tensor *x = ig_normal(c, IG_DTYPE_F32, IG_SHAPE(s->m, s->k), 0, 1);
        ig_tensor *w = ig_normal(c, IG_DTYPE_F32, IG_SHAPE(X, s->n, s->k), 0, 1);
        if (i == 2) {
            x = ig_transpose(ig_copy(ig_transpose(x, 0, 1)), 0, 1);
            w = ig_transpose(ig_copy(ig_transpose(w, 0, 2)), 0, 2);
        }
        ig_tensor *n = ig_tensor_from(c, IG_DTYPE_I64, IG_SHAPE(X), s->counts);
        assert_int_equal(ig_tensor_read(ig_group_linear(x, w, n), y[i], sizeof y[i], NULL),
                         IG_OK);
        if (i)
            assert_memory_equal(y[0], y[i], sizeof y[i]);
        ig_tensor *alone = ig_linear(ig_slice(x, 0, 257, 259, 1), ig_select(w, 0, 3), NULL);
        float rows[2 * 150];
        assert_int_equal(ig_tensor_read(alone, rows, sizeof rows, NULL), IG_OK);
        assert_memory_equal(rows, y[i] + 257 * 150, sizeof rows);
    }
    ig_context_destroy(ctx[0]);
    ig_context_destroy(ctx[1]);
}

static void fails(ig_context *ctx, ig_tensor *x, const char *words)
{
    assert_null(x);
    if (!strstr(ig_context_message(ctx), words))
        fail_msg("\"%s\" does not say \"%s\"", ig_context_message(ctx), words);
    ig_context_clear(ctx);
}

static void test_refused(void **state)
{
    (void)state;
    ig_context *ctx = context(2);
    ig_tensor *x = ig_zeros(ctx, IG_DTYPE_F32, IG_SHAPE(6, 3));
    ig_tensor *w = ig_zeros(ctx, IG_DTYPE_F32, IG_SHAPE(2, 4, 3));
    for (int i = 0; i < 3; i++) {
        static const int64_t counts[3][2] = {{2, -1}, {7, 0}, {4, 3}};
        static const char *const words[3] = {"count -1 of group 1 is outside 0..4",
                                             "count 7 of group 0 is outside 0..6",
                                             "count 3 of group 1 is outside 0..2"};
        ig_tensor *n = ig_tensor_from(ctx, IG_DTYPE_I64, IG_SHAPE(2), counts[i]);
        fails(ctx, ig_group_linear(x, w, n), words[i]);
    }
    ig_tensor *n = ig_zeros(ctx, IG_DTYPE_I64, IG_SHAPE(2));
    assert_null(ig_group_linear(NULL, w, n));
    assert_null(ig_group_linear(x, NULL, n));
    assert_null(ig_group_linear(x, w, NULL));
    must(ctx);
    fails(ctx, ig_group_linear(x, ig_zeros(ctx, IG_DTYPE_F32, IG_SHAPE(2, 3, 4)), n),
          "wants x [M,K] and w [X,N,K]: [6,3] f32, [2,3,4] f32");
    fails(ctx, ig_group_linear(x, w, ig_zeros(ctx, IG_DTYPE_I64, IG_SHAPE(3))),
          "a count for each matrix");
    fails(ctx, ig_group_linear(x, w, ig_zeros(ctx, IG_DTYPE_F32, IG_SHAPE(2))),
          "integer type");
    /* 16 bits: computed in f32, rounded once */
    ig_tensor *ones = ig_full(ctx, IG_DTYPE_BF16, IG_SHAPE(6, 3), 1.5);
    n = ig_full(ctx, IG_DTYPE_I64, IG_SHAPE(2), 3);
    ig_tensor *y =
        ig_group_linear(ones, ig_full(ctx, IG_DTYPE_BF16, IG_SHAPE(2, 4, 3), 1), n);
    assert_int_equal(ig_tensor_dtype(y), IG_DTYPE_BF16);
    assert_true(ig_tensor_item(ig_min(y, 0, NULL, false)) == 4.5);
    ig_context_destroy(ctx);
}

static void test_failing_memory(void **state)
{
    (void)state;
    for (int64_t nth = 1;; nth++) {
        fault_allocator f = {.fail_nth = nth};
        const ig_allocator a = fault_allocator_of(&f);
        const ig_context_opts opts = {.n_threads = 1, .allocator = &a};
        ig_context *c;
        ig_status status = ig_context_create(&c, &opts, NULL);
        if (status == IG_OK) {
            ig_tensor *x = leaf(ig_ones(c, IG_DTYPE_F32, IG_SHAPE(200, 3)));
            ig_tensor *w = leaf(ig_ones(c, IG_DTYPE_F32, IG_SHAPE(2, 4, 3)));
            ig_tensor *n = ig_full(c, IG_DTYPE_I64, IG_SHAPE(2), 90);
            ig_backward(ig_sum(ig_group_linear(x, w, n), 0, NULL, false));
            status = ig_context_status(c);
        }
        ig_context_destroy(c);
        assert_int_equal(f.n_alive, 0);
        if (f.n_calls < nth) {
            assert_int_equal(status, IG_OK);
            assert_true(nth > 8);
            break;
        }
        /* a larger segment that is refused is asked for again, smaller */
        assert_true(status == IG_ERR_MEMORY || status == IG_OK);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_products),
        cmocka_unit_test(test_same_bits),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_failing_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
