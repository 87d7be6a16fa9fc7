/* Small cases that went wrong elsewhere: products with zeros, writes in place of what backward needs,
 * masked rows, ignored targets, long sums. Each on one thread and on two. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "ingot/ingot.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static ig_context *ctx; /* of the test that runs */

static int n_warned; /* lines of its log that say NaN */

static void count_warnings(void *user, ig_log_level level, const char *line)
{
    (void)user;
    n_warned += level == IG_LOG_WARN && strstr(line, "NaN") != NULL;
}

static ig_tensor *vector(int64_t n, const float *x)
{
    return ig_tensor_require_grad(ig_tensor_from(ctx, IG_DTYPE_F32, IG_SHAPE(n), x), true);
}

static void well(void)
{
    if (ig_context_status(ctx) != IG_OK)
        fail_msg("%s", ig_context_message(ctx));
}

/* Values of x against what they should be; bound 0: exactly. */
static void check(const char *what, ig_tensor *x, const double *wanted, int64_t n,
                  double bound)
{
    float have[64];
    ig_error error;
    well();
    if (!x || ig_tensor_count(x) != n)
        fail_msg("%s: %d elements, not %d", what, (int)ig_tensor_count(x), (int)n);
    if (ig_tensor_read(ig_cast(x, IG_DTYPE_F32), have, (size_t)n * 4, &error) != IG_OK)
        fail_msg("%s: %s", what, error.message);
    for (int64_t i = 0; i < n; i++)
        if (!(fabs((double)have[i] - wanted[i]) <= bound * (1 + fabs(wanted[i]))))
            fail_msg("%s: element %d is %.9g, not %.9g", what, (int)i, (double)have[i],
                     wanted[i]);
}

#define CHECK(what, x, bound, ...)                                                         \
    check(what, x, (const double[]){__VA_ARGS__},                                          \
          (int64_t)(sizeof((double[]){__VA_ARGS__}) / sizeof(double)), bound)

/* The failure on the context says all these words; it is cleared. */
static void fails_with(const char *first, const char *second, const char *third)
{
    const char *message = ig_context_message(ctx);
    if (!strstr(message, first) || !strstr(message, second) || !strstr(message, third))
        fail_msg("the message is: '%s'", message);
    ig_context_clear(ctx);
}

static ig_tensor *total(ig_tensor *x)
{
    return ig_sum(x, 0, NULL, false);
}

/* ---- products with zeros ---------------------------------------------------------------------- */

static void test_products_with_zeros(void **state)
{
    (void)state;
    ig_tensor *x = vector(4, (const float[]){2, 0, 3, 4});
    ig_tensor *y = ig_cumprod(x, 0);
    CHECK("cumprod", y, 0, 2, 0, 0, 0);
    ig_backward(total(y));
    CHECK("its gradient", ig_tensor_grad(x), 0, 1, 32, 0, 0);
    x = vector(4, (const float[]){2, 0, 3, 4});
    ig_backward(ig_prod(x, 0, NULL, false));
    CHECK("prod, one zero", ig_tensor_grad(x), 0, 0, 24, 0, 0);
    x = vector(4, (const float[]){2, 0, 0, 4});
    ig_backward(ig_prod(x, 0, NULL, false));
    CHECK("prod, two zeros", ig_tensor_grad(x), 0, 0, 0, 0, 0);
    x = vector(3, (const float[]){0, 2, 3});
    ig_backward(total(ig_cumprod(x, 0)));
    CHECK("cumprod, zero first", ig_tensor_grad(x), 0, 9, 0, 0);
    x = vector(3, (const float[]){2, 3, 0});
    ig_backward(total(ig_cumprod(x, 0)));
    CHECK("cumprod, zero last", ig_tensor_grad(x), 0, 4, 2, 6);
    /* along an axis, per row */
    x = ig_tensor_from(ctx, IG_DTYPE_F32, IG_SHAPE(2, 2), (const float[]){0, 5, 3, 7});
    ig_tensor_require_grad(x, true);
    const int dim = 0;
    ig_backward(total(ig_prod(x, 1, &dim, false)));
    CHECK("prod of columns", ig_tensor_grad(x), 0, 3, 7, 0, 5);
}

/* ---- writes in place --------------------------------------------------------------------------- */

static void test_result_overwritten(void **state)
{
    (void)state;
    ig_tensor *x = vector(3, (const float[]){1, 2, 3});
    ig_tensor *b = ig_sigmoid(x);
    ig_fill(ig_select(b, 0, 1), 2);
    assert_int_not_equal(ig_backward(total(b)), IG_OK);
    fails_with("sigmoid", "version 0", "version 1");
    assert_null(ig_tensor_grad(x));
}

static void test_result_not_needed(void **state)
{
    (void)state;
    ig_tensor *x = vector(3, (const float[]){1, 2, 3});
    ig_tensor *one = ig_tensor_scalar(ctx, IG_DTYPE_F32, 1);
    ig_tensor *b = ig_div(one, ig_add(ig_exp(ig_neg(x)), one));
    ig_fill(ig_select(b, 0, 1), 2);
    ig_backward(total(b));
    CHECK("1 / (exp(-x) + 1), one overwritten", ig_tensor_grad(x), 1e-6, 0.1966119, 0,
          0.0451767);
}

static void test_slice_overwritten(void **state)
{
    (void)state;
    float w[12];
    for (int i = 0; i < 12; i++)
        w[i] = (float)i;
    ig_tensor *x = ig_ones(ctx, IG_DTYPE_F32, IG_SHAPE(2, 3));
    ig_tensor *wt = ig_tensor_from(ctx, IG_DTYPE_F32, IG_SHAPE(3, 4), w);
    ig_tensor_require_grad(wt, true);
    ig_tensor *y = ig_matmul(x, wt);
    ig_fill(ig_slice(y, 1, 0, 3, 1), 0);
    ig_tensor *loss = total(y);
    CHECK("loss", loss, 0, 42);
    ig_backward(loss);
    CHECK("dW", ig_tensor_grad(wt), 0, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 2);
}

static void test_view_of_view_scaled(void **state)
{
    (void)state;
    float v[9];
    for (int i = 0; i < 9; i++)
        v[i] = (float)i;
    ig_tensor *r = ig_tensor_from(ctx, IG_DTYPE_F32, IG_SHAPE(3, 3), v);
    ig_tensor_require_grad(r, true);
    ig_tensor *c = ig_copy(r);
    ig_tensor *view = ig_slice(ig_select(c, 0, 0), 0, 0, 2, 1);
    ig_scale_into(view, 2);
    ig_backward(total(c));
    CHECK("gradient", ig_tensor_grad(r), 0, 2, 2, 1, 1, 1, 1, 1, 1, 1);
    /* a view that was made before the write sees it */
    ig_tensor_clear_grad(r);
    c = ig_copy(r);
    ig_tensor *before = ig_transpose(c, 0, 1);
    ig_scale_into(ig_select(c, 0, 1), 3);
    ig_backward(total(before));
    CHECK("through another view", ig_tensor_grad(r), 0, 1, 1, 1, 3, 3, 3, 1, 1, 1);
    CHECK("its values", ig_select(before, 1, 1), 0, 9, 12, 15);
    /* and writing through the view made before still reaches the base */
    ig_scale_into(before, 2);
    CHECK("the base", ig_select(c, 0, 1), 0, 18, 24, 30);
}

static void test_operand_changed(void **state)
{
    (void)state;
    ig_tensor *x = vector(3, (const float[]){1, 2, 3}),
              *w = vector(3, (const float[]){4, 5, 6});
    ig_tensor *y = ig_mul(x, w);
    const bool was = ig_grad_enable(ctx, false);
    assert_non_null(ig_add_into(x, ig_tensor_scalar(ctx, IG_DTYPE_F32, 1)));
    ig_grad_enable(ctx, was);
    assert_int_not_equal(ig_backward(total(y)), IG_OK);
    fails_with("mul", "version 0", "version 1");
    /* and a leaf is not written where calls are recorded */
    assert_null(ig_scale_into(x, 2));
    fails_with("leaf", "gradient", "scale");
    assert_null(ig_fill(ig_select(x, 0, 0), 2));
    fails_with("leaf", "gradient", "fill");
    assert_null(ig_fill(ig_expand(ig_tensor_scalar(ctx, IG_DTYPE_F32, 1), IG_SHAPE(3)), 2));
    fails_with("fill", "expanded", "");
}

static void test_overlapping_copy(void **state)
{
    (void)state;
    ig_tensor *x =
        ig_tensor_from(ctx, IG_DTYPE_F32, IG_SHAPE(5), (const float[]){1, 2, 3, 4, 5});
    ig_assign(ig_slice(x, 0, 1, IG_END, 1), ig_slice(x, 0, 0, 4, 1));
    CHECK("moved up", x, 0, 1, 1, 2, 3, 4);
    ig_assign(x, ig_flip(x, 0));
    CHECK("turned round", x, 0, 4, 3, 2, 1, 1);
}

/* ---- masked and extreme rows --------------------------------------------------------------------- */

static void test_extreme_rows(void **state)
{
    (void)state;
    const float inf = INFINITY;
    CHECK("softmax", ig_softmax(vector(3, (const float[]){1e30f, 0, -1e30f}), 0), 0, 1, 0,
          0);
    CHECK("log_softmax", ig_log_softmax(vector(2, (const float[]){1e4f, 0}), 0), 0, 0,
          -1e4);
    ig_tensor *x = vector(2, (const float[]){-inf, -inf});
    ig_tensor *y = ig_softmax(x, 0);
    CHECK("nothing seen", y, 0, 0, 0);
    ig_backward(total(y));
    CHECK("its gradient", ig_tensor_grad(x), 0, 0, 0);
}

static void test_branch_not_taken(void **state)
{
    (void)state;
    ig_tensor *x = vector(3, (const float[]){-1, 0, 4});
    ig_tensor *zero = ig_tensor_scalar(ctx, IG_DTYPE_F32, 0);
    ig_tensor *one = ig_tensor_scalar(ctx, IG_DTYPE_F32, 1);
    /* where takes the gradient of the branch that was taken alone */
    ig_tensor *good = ig_less(zero, x);
    ig_backward(total(ig_where(good, ig_log(ig_where(good, x, one)), zero)));
    CHECK("where", ig_tensor_grad(x), 1e-6, 0, 0, 0.25);
    ig_tensor *z =
        ig_tensor_require_grad(ig_zeros(ctx, IG_DTYPE_F32, IG_SHAPE(2, 3)), true);
    ig_backward(ig_norm(z, 0, NULL, false));
    CHECK("norm at zero", ig_tensor_grad(z), 0, 0, 0, 0, 0, 0, 0);
    ig_tensor *a = vector(2, (const float[]){0, 2}), *b = vector(2, (const float[]){0, 3});
    ig_backward(total(ig_pow(a, b)));
    CHECK("0^0, 2^3", ig_tensor_grad(a), 1e-6, 0, 12);
    CHECK("by the exponent", ig_tensor_grad(b), 1e-6, 0, 8 * 0.69314718);
    ig_tensor *m = vector(3, (const float[]){1, 1, 0});
    ig_backward(ig_max(m, 0, NULL, false));
    CHECK("ties share", ig_tensor_grad(m), 0, 0.5, 0.5, 0);
}

/* Places are integers: no gradient comes to them, and what is picked by them does not ask for one. */
static void test_places(void **state)
{
    (void)state;
    ig_tensor *x = vector(3, (const float[]){2, 7, 5}), *places;
    ig_tensor *constant =
        ig_tensor_from(ctx, IG_DTYPE_F32, IG_SHAPE(3), (const float[]){10, 20, 30});
    ig_tensor *top = ig_topk(x, 0, 2, &places);
    assert_false(ig_tensor_wants_grad(places));
    assert_false(ig_tensor_wants_grad(ig_cast(x, IG_DTYPE_I64)));
    ig_tensor *picked = ig_index_select(constant, 0, places);
    assert_false(ig_tensor_wants_grad(picked));
    ig_backward(total(ig_mul(top, picked)));
    CHECK("by the values alone", ig_tensor_grad(x), 0, 0, 20, 30);
    assert_false(ig_tensor_wants_grad(
        ig_assign(ig_slice(ig_zeros(ctx, IG_DTYPE_I64, IG_SHAPE(4)), 0, 1, 4, 1), x)));
    well();
}

/* ---- cross entropy -------------------------------------------------------------------------------- */

static void test_cross_entropy(void **state)
{
    (void)state;
    const ig_cross_entropy_opts ignore = {.ignore = -100, .use_ignore = true};
    ig_tensor *x = ig_tensor_require_grad(ig_tensor_from(ctx, IG_DTYPE_F32, IG_SHAPE(2, 3),
                                                         (const float[]){1, 2, 3, 1, 1, 1}),
                                          true);
    ig_tensor *t =
        ig_tensor_from(ctx, IG_DTYPE_I64, IG_SHAPE(2), (const int64_t[]){2, -100});
    ig_tensor *loss = ig_cross_entropy(x, t, &ignore);
    CHECK("one ignored", loss, 1e-6, 0.40760595);
    ig_backward(loss);
    CHECK("gradient", ig_tensor_grad(x), 1e-6, 0.0900306, 0.2447285, -0.3347590, 0, 0, 0);
    ig_tensor *y = ig_tensor_require_grad(
        ig_tensor_from(ctx, IG_DTYPE_F32, IG_SHAPE(1, 3), (const float[]){1, 2, 3}), true);
    ig_tensor *none =
        ig_tensor_from(ctx, IG_DTYPE_I64, IG_SHAPE(1), (const int64_t[]){-100});
    loss = ig_cross_entropy(y, none, &ignore);
    CHECK("none counted", loss, 0, 0);
    ig_backward(loss);
    CHECK("gradient of none", ig_tensor_grad(y), 0, 0, 0, 0);
    for (int i = 0; i < 2; i++) {
        const int64_t bad[2] = {0, i ? -4 : 3};
        t = ig_tensor_from(ctx, IG_DTYPE_I64, IG_SHAPE(2), bad);
        assert_null(ig_cross_entropy(x, t, &ignore));
        fails_with("cross_entropy", "position 1", i ? "-4" : "target 3");
    }
    ig_tensor *far =
        ig_tensor_from(ctx, IG_DTYPE_F32, IG_SHAPE(1, 3), (const float[]){1000, 0, -1000});
    t = ig_tensor_from(ctx, IG_DTYPE_I64, IG_SHAPE(1), (const int64_t[]){1});
    CHECK("far apart", ig_cross_entropy(far, t, NULL), 0, 1000);
}

/* ---- a batch in parts ------------------------------------------------------------------------------ */

/* Sums of losses over one count: whatever the parts, the gradient is the whole batch's. */
static void test_batch_in_parts(void **state)
{
    (void)state;
    ig_tensor *w = vector(1, (const float[]){1});
    ig_tensor *a = ig_tensor_from(ctx, IG_DTYPE_F32, IG_SHAPE(1), (const float[]){3});
    ig_tensor *b = ig_ones(ctx, IG_DTYPE_F32, IG_SHAPE(3));
    ig_tensor *one = ig_scale(total(ig_mul(w, a)), 0.25);
    ig_tensor *three = ig_scale(total(ig_mul(w, b)), 0.25);
    CHECK("loss", ig_add(one, three), 0, 1.5);
    ig_backward(one);
    ig_backward(three);
    CHECK("gradient", ig_tensor_grad(w), 0, 1.5);
    ig_tensor_clear_grad(w);
    ig_tensor *const both[2] = {ig_scale(total(ig_mul(w, a)), 0.25),
                                ig_scale(total(ig_mul(w, b)), 0.25)};
    ig_backward_all(both, NULL, 2, NULL);
    CHECK("of two losses at once", ig_tensor_grad(w), 0, 1.5);
    /* rows of logits, of which some do not count: in parts of 1, 2 and 4 */
    const ig_cross_entropy_opts mean = {.ignore = -1, .use_ignore = true};
    ig_cross_entropy_opts sum = mean;
    sum.sum = true;
    ig_tensor *x = ig_normal(ctx, IG_DTYPE_F32, IG_SHAPE(4, 5), 0, 1);
    ig_tensor *t =
        ig_tensor_from(ctx, IG_DTYPE_I64, IG_SHAPE(4), (const int64_t[]){2, -1, 0, 4});
    ig_tensor_require_grad(x, true);
    ig_tensor *loss = ig_cross_entropy(x, t, &mean);
    ig_backward(loss);
    ig_tensor *whole = ig_copy(ig_tensor_grad(x));
    for (int64_t n = 1; n <= 4; n *= 2) {
        double parts = 0;
        ig_tensor_clear_grad(x);
        for (int64_t at = 0; at < 4; at += n) {
            ig_tensor *part = ig_cross_entropy(ig_slice(x, 0, at, at + n, 1),
                                               ig_slice(t, 0, at, at + n, 1), &sum);
            part = ig_scale(part, 1.0 / 3);
            ig_backward(part);
            parts += ig_tensor_item(part);
        }
        well();
        assert_true(fabs(parts - ig_tensor_item(loss)) < 1e-6);
        ig_tensor *off = ig_max(ig_abs(ig_sub(ig_tensor_grad(x), whole)), 0, NULL, false);
        assert_true(ig_tensor_item(off) < 1e-6);
    }
}

/* ---- long sums ------------------------------------------------------------------------------------- */

static void test_long_sums(void **state)
{
    (void)state;
    const int dim = 0;
    ig_tensor *ones = ig_ones(ctx, IG_DTYPE_F32, IG_SHAPE(20000000));
    CHECK("20 million ones", total(ones), 0, 20000000);
    ig_tensor *two = ig_reshape(ig_expand(ig_unsqueeze(ones, 1), IG_SHAPE(20000000, 2)),
                                IG_SHAPE(20000000, 2));
    CHECK("means of two columns", ig_mean(two, 1, &dim, false), 0, 1, 1);
    ig_tensor *half = ig_ones(ctx, IG_DTYPE_F16, IG_SHAPE(70000));
    CHECK("mean in f16", ig_mean(half, 0, NULL, false), 0, 1);
    CHECK("sum in f32", total(ig_cast(half, IG_DTYPE_F32)), 0, 70000);
    assert_true(isinf(ig_tensor_item(total(half))));
    CHECK("sum in bf16", total(ig_ones(ctx, IG_DTYPE_BF16, IG_SHAPE(32768))), 0, 32768);
    ig_tensor *x = vector(4, (const float[]){1e7f, 1e7f + 1, 1e7f + 2, 1e7f + 3});
    CHECK("variance far from zero", ig_var(x, 0, NULL, false, 0), 0, 1.25);
    assert_int_equal(n_warned, 0);
    assert_true(
        isnan(ig_tensor_item(ig_var(vector(1, (const float[]){3}), 0, NULL, false, 1))));
    assert_int_equal(n_warned, 1);
    well();
}

/* ---- pieces ------------------------------------------------------------------------------------------ */

static int count_of(const char *text, const char *word)
{
    int n = 0;
    for (; (text = strstr(text, word)); text += strlen(word))
        n++;
    return n;
}

/* A tensor taken apart: one gradient of its size is made, and each piece's is added in its place. From a
 * leaf and from a result; pieces that overlap, steps, some unused. */
static void test_pieces(void **state)
{
    (void)state;
    enum { ROWS = 9, WIDTH = 5 };
    for (int leaf = 0; leaf < 2; leaf++) {
        float values[ROWS * WIDTH];
        double wanted[ROWS * WIDTH];
        for (int i = 0; i < ROWS * WIDTH; i++) {
            values[i] = (float)(i % 7) - 3;
            wanted[i] = 0;
        }
        ig_tensor *x = ig_tensor_require_grad(
            ig_tensor_from(ctx, IG_DTYPE_F32, IG_SHAPE(ROWS, WIDTH), values), true);
        assert_int_equal(ig_capture_begin(ctx, NULL), IG_OK);
        ig_tensor *h = leaf ? x : ig_scale(x, 2), *loss = NULL;
        for (int i = 0; i < ROWS - 1; i++) {
            ig_tensor *y = total(ig_scale(ig_select(h, 0, i), i + 1));
            loss = loss ? ig_add(loss, y) : y;
            for (int j = 0; j < WIDTH; j++)
                wanted[i * WIDTH + j] += (i + 1) * (leaf ? 1 : 2);
        }
        loss = ig_add(loss, total(ig_slice(h, 1, -1, IG_END, -2)));
        for (int i = 0; i < ROWS; i++)
            for (int j = WIDTH - 1; j >= 0; j -= 2)
                wanted[i * WIDTH + j] += leaf ? 1 : 2;
        assert_int_equal(ig_backward(loss), IG_OK);
        ig_program *program;
        static char text[1 << 16];
        assert_int_equal(
            ig_capture_end_with(&program, ctx, &(ig_capture_opts){.without = ~0u}, NULL),
            IG_OK);
        ig_program_text(program, text, sizeof text);
        assert_int_equal(count_of(text, "view_put"), 1);
        check("pieces", ig_tensor_grad(x), wanted, ROWS * WIDTH, 0);
        ig_program_destroy(program);
    }
}

/* A step as large as can be, and the least one, take one element. */
static void test_extreme_slices(void **state)
{
    (void)state;
    const int64_t steps[] = {INT64_MAX, INT64_MIN};
    for (int i = 0; i < 2; i++) {
        ig_tensor *x = vector(3, (const float[]){1, 2, 3});
        ig_tensor *wide = ig_expand(ig_unsqueeze(x, 1), IG_SHAPE(3, 2));
        ig_tensor *y = ig_slice(wide, 0, i ? -1 : 0, IG_END, steps[i]);
        CHECK("slice", y, 0, i ? 3 : 1, i ? 3 : 1);
        assert_int_equal(ig_backward(total(y)), IG_OK);
        CHECK("gradient", ig_tensor_grad(x), 0, i ? 0 : 2, 0, i ? 2 : 0);
    }
}

/* What comes out of gradients that fail is NULL, whatever was there. */
static void test_gradients_fail(void **state)
{
    (void)state;
    ig_tensor *x = vector(2, (const float[]){1, 2}), *y = ig_mul(x, x);
    ig_tensor *out[2], *const in[2] = {x, NULL}, *no_root = NULL, *loss = total(y);
    for (int i = 0; i < 5; i++) {
        out[0] = out[1] = x;
        ig_status status;
        if (i == 0) /* no root */
            status = ig_gradients(out, in, 2, &no_root, NULL, 1, NULL);
        else if (i == 1) /* no such tensor */
            status = ig_gradients(out, in, 2, &loss, NULL, 1, NULL);
        else if (i == 2) { /* a root of two numbers */
            out[1] = NULL;
            status = ig_gradients(out, in, 1, &y, NULL, 1, NULL);
        } else if (i == 3) { /* the context has failed before */
            ig_add(x, vector(3, (const float[]){1, 2, 3}));
            status = ig_gradients(out, in, 2, &loss, NULL, 1, NULL);
        } else { /* half way: what backward needs has changed */
            out[1] = NULL;
            const bool was = ig_grad_enable(ctx, false);
            ig_scale_into(x, 2);
            ig_grad_enable(ctx, was);
            status = ig_gradients(out, in, 1, &loss, NULL, 1, NULL);
        }
        assert_int_not_equal(status, IG_OK);
        assert_null(out[0]);
        assert_null(out[1]);
        ig_context_clear(ctx);
    }
}

/* ---- running --------------------------------------------------------------------------------------- */

static int begin(void **state)
{
    const ig_context_opts opts = {
        .n_threads = *state ? 2 : 1, .poison = true, .log = count_warnings};
    n_warned = 0;
    return ig_context_create(&ctx, &opts, NULL) != IG_OK;
}

static int end(void **state)
{
    (void)state;
    ig_context_destroy(ctx);
    return 0;
}

int main(void)
{
    static int two;
#define ON(test, threads)                                                                  \
    {                                                                                      \
#        test, test, begin, end, threads                                                   \
    }
#define BOTH(test) ON(test, NULL), ON(test, &two)
    const struct CMUnitTest tests[] = {
        BOTH(test_products_with_zeros), BOTH(test_result_overwritten),
        BOTH(test_result_not_needed),   BOTH(test_slice_overwritten),
        BOTH(test_view_of_view_scaled), BOTH(test_operand_changed),
        BOTH(test_overlapping_copy),    BOTH(test_extreme_rows),
        BOTH(test_branch_not_taken),    BOTH(test_places),
        BOTH(test_cross_entropy),       BOTH(test_batch_in_parts),
        BOTH(test_long_sums),           BOTH(test_pieces),
        BOTH(test_extreme_slices),      BOTH(test_gradients_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
