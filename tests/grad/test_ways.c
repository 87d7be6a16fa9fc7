/* Gradients of the small cases that went wrong elsewhere, in four ways that must agree to the bit: eager and
 * captured (then run twice more), on one thread and on two. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "ingot/ingot.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 16 };

static ig_error error;

static ig_tensor *total(ig_tensor *x)
{
    return ig_sum(x, 0, NULL, false);
}

static ig_tensor *cumprod(ig_tensor *x)
{
    return total(ig_cumprod(x, 0));
}
static ig_tensor *prod(ig_tensor *x)
{
    return ig_prod(x, 0, NULL, false);
}
static ig_tensor *overwritten(ig_tensor *x)
{
    ig_tensor *one = ig_full_like(x, 1), *b = ig_div(one, ig_add(ig_exp(ig_neg(x)), one));
    ig_fill(ig_select(b, 0, 1), 2);
    return total(b);
}
/* X W of X ones [2,3]: three columns of Y are overwritten */
static ig_tensor *slice_overwritten(ig_tensor *w)
{
    ig_tensor *x = ig_ones(ig_tensor_context(w), IG_DTYPE_F32, IG_SHAPE(2, 3));
    ig_tensor *y = ig_matmul(x, ig_reshape(w, IG_SHAPE(3, 4)));
    ig_fill(ig_slice(y, 1, 0, 3, 1), 0);
    return total(y);
}
static ig_tensor *view_scaled(ig_tensor *x)
{
    ig_tensor *c = ig_copy(ig_reshape(x, IG_SHAPE(3, 3)));
    ig_scale_into(ig_slice(ig_select(c, 0, 0), 0, 0, 2, 1), 2);
    return total(c);
}
/* q is x [2,2]; the second query sees nothing */
static ig_tensor *masked_row(ig_tensor *x)
{
    ig_context *ctx = ig_tensor_context(x);
    static const uint8_t row[4] = {1, 1, 0, 0};
    static const float unit[4] = {1, 0, 0, 1}, values[4] = {1, 2, 3, 4};
    ig_tensor *k = ig_tensor_from(ctx, IG_DTYPE_F32, IG_SHAPE(1, 1, 2, 2), unit);
    ig_tensor *v = ig_tensor_from(ctx, IG_DTYPE_F32, IG_SHAPE(1, 1, 2, 2), values);
    ig_tensor *mask = ig_tensor_from(ctx, IG_DTYPE_BOOL, IG_SHAPE(2, 2), row);
    return total(ig_attention(ig_reshape(x, IG_SHAPE(1, 1, 2, 2)), k, v,
                              &(ig_attention_opts){.scale = 1, .mask = mask}));
}
static ig_tensor *entropy(ig_tensor *x, int64_t n, const int64_t *targets)
{
    return ig_cross_entropy(
        ig_reshape(x, IG_SHAPE(n, 3)),
        ig_tensor_from(ig_tensor_context(x), IG_DTYPE_I64, IG_SHAPE(n), targets),
        &(ig_cross_entropy_opts){.ignore = -100, .use_ignore = true});
}
static ig_tensor *ignored(ig_tensor *x)
{
    return entropy(x, 2, (const int64_t[]){2, -100});
}
static ig_tensor *all_ignored(ig_tensor *x)
{
    return entropy(x, 1, (const int64_t[]){-100});
}
static ig_tensor *not_taken(ig_tensor *x)
{
    ig_tensor *zero = ig_full_like(x, 0), *good = ig_less(zero, x);
    return total(ig_where(good, ig_log(ig_where(good, x, ig_full_like(x, 1))), zero));
}
static ig_tensor *norm(ig_tensor *x)
{
    return ig_norm(x, 0, NULL, false);
}
static ig_tensor *ties(ig_tensor *x)
{
    return ig_max(x, 0, NULL, false);
}

static const struct small_case {
    const char *name;
    ig_tensor *(*loss)(ig_tensor *x);
    int64_t n;
    float x[MOST];
    double d[MOST], bound;
} cases[] = {
    {"cumprod", cumprod, 4, {2, 0, 3, 4}, {1, 32, 0, 0}, 0},
    {"cumprod, zero first", cumprod, 3, {0, 2, 3}, {9, 0, 0}, 0},
    {"cumprod, zero last", cumprod, 3, {2, 3, 0}, {4, 2, 6}, 0},
    {"prod, one zero", prod, 4, {2, 0, 3, 4}, {0, 24, 0, 0}, 0},
    {"prod, two zeros", prod, 4, {2, 0, 0, 4}, {0}, 0},
    {"a result overwritten", overwritten, 3, {1, 2, 3}, {0.1966119, 0, 0.0451767}, 1e-6},
    {"a slice overwritten",
     slice_overwritten,
     12,
     {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11},
     {0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 2},
     0},
    {"a view scaled",
     view_scaled,
     9,
     {0, 1, 2, 3, 4, 5, 6, 7, 8},
     {2, 2, 1, 1, 1, 1, 1, 1, 1},
     0},
    {"a masked row", masked_row, 4, {1, 0, 0, 1}, {-0.786448, 0.786448}, 1e-6},
    {"an ignored target",
     ignored,
     6,
     {1, 2, 3, 1, 1, 1},
     {0.0900306, 0.2447285, -0.3347590},
     1e-6},
    {"none counted", all_ignored, 3, {1, 2, 3}, {0}, 0},
    {"the branch not taken", not_taken, 3, {-1, 0, 4}, {0, 0, 0.25}, 1e-6},
    {"the norm at zero", norm, 6, {0}, {0}, 0},
    {"ties", ties, 3, {1, 1, 0}, {0.5, 0.5, 0}, 0},
};
enum { N_CASES = (int)(sizeof cases / sizeof *cases) };

/* The gradient of a leaf of these values. */
static void run(float *out, const struct small_case *c, int n_threads, bool captured)
{
    ig_context *ctx;
    ig_program *program = NULL;
    const ig_context_opts opts = {.n_threads = n_threads, .poison = true};
    assert_int_equal(ig_context_create(&ctx, &opts, &error), IG_OK);
    ig_tensor *x = ig_tensor_require_grad(
        ig_tensor_from(ctx, IG_DTYPE_F32, IG_SHAPE(c->n), c->x), true);
    if (captured)
        assert_int_equal(ig_capture_begin(ctx, &error), IG_OK);
    ig_backward(c->loss(x));
    if (captured && ig_capture_end(&program, ctx, &error) != IG_OK)
        fail_msg("%s: %s", c->name, error.message);
    for (int i = 0; i < 2 && captured; i++)
        if (ig_program_run(program, &error) != IG_OK)
            fail_msg("%s: %s", c->name, error.message);
    if (ig_context_status(ctx) != IG_OK)
        fail_msg("%s: %s", c->name, ig_context_message(ctx));
    const size_t bytes = (size_t)c->n * sizeof *out;
    assert_int_equal(ig_tensor_read(ig_tensor_grad(x), out, bytes, &error), IG_OK);
    ig_program_destroy(program);
    ig_context_destroy(ctx);
}

static void test_four_ways(void **state)
{
    (void)state;
    for (int i = 0; i < N_CASES; i++) {
        const struct small_case *c = &cases[i];
        float d[4][MOST];
        for (int way = 0; way < 4; way++)
            run(d[way], c, 1 + way % 2, way >= 2);
        for (int64_t k = 0; k < c->n; k++)
            if (!(fabs((double)d[0][k] - c->d[k]) <= c->bound * (1 + fabs(c->d[k]))))
                fail_msg("%s: element %d is %g, not %g", c->name, (int)k, (double)d[0][k],
                         c->d[k]);
        for (int way = 1; way < 4; way++)
            if (memcmp(d[0], d[way], (size_t)c->n * sizeof(float)))
                fail_msg("%s: other bits %s on %d threads", c->name,
                         way >= 2 ? "captured" : "eager", 1 + way % 2);
    }
}

/* A write between the forward and the backward of one capture is eager's error. */
static void test_changed_between(void **state)
{
    (void)state;
    ig_context *ctx;
    assert_int_equal(ig_context_create(&ctx, &(ig_context_opts){.n_threads = 1}, &error),
                     IG_OK);
    ig_tensor *x = ig_full(ctx, IG_DTYPE_F32, IG_SHAPE(3), 2);
    ig_tensor *w = ig_tensor_require_grad(ig_full(ctx, IG_DTYPE_F32, IG_SHAPE(3), 3), true);
    for (int captured = 0; captured < 2; captured++) {
        ig_program *program;
        if (captured)
            assert_int_equal(ig_capture_begin(ctx, &error), IG_OK);
        ig_tensor *y = ig_mul(w, x);
        ig_add_into(x, ig_full(ctx, IG_DTYPE_F32, IG_SHAPE(3), 1));
        assert_int_not_equal(ig_backward(total(y)), IG_OK);
        const char *message = ig_context_message(ctx);
        assert_non_null(strstr(message, "mul"));
        assert_non_null(strstr(message, captured ? "version 1," : "version 0,"));
        assert_non_null(strstr(message, captured ? "version 2" : "version 1"));
        if (captured)
            assert_int_not_equal(ig_capture_end(&program, ctx, &error), IG_OK);
        ig_context_clear(ctx);
    }
    ig_context_destroy(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_four_ways),
        cmocka_unit_test(test_changed_between),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
