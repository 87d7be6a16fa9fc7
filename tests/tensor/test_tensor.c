/* Tensors: scopes and counts, views, dtypes and promotion, bytes in and out, text, errors; and every
 * allocation failing in turn. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "infer/fault_allocator.h"
#include "ingot/ingot.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static ig_context *ctx;

static int begin(void **state)
{
    (void)state;
    return ig_context_create(&ctx, &(ig_context_opts){.n_threads = 2, .poison = true},
                             NULL) != IG_OK;
}
static int end(void **state)
{
    (void)state;
    ig_context_destroy(ctx);
    return 0;
}

static ig_tensor *iota(int n_dims, const int64_t *dims)
{
    int64_t n = 1;
    for (int i = 0; i < n_dims; i++)
        n *= dims[i];
    return ig_reshape(ig_arange(ctx, IG_DTYPE_F32, 0, 1, n), n_dims, dims);
}

static void has(ig_tensor *x, const float *wanted, int64_t n)
{
    float have[64];
    if (ig_context_status(ctx) != IG_OK)
        fail_msg("%s", ig_context_message(ctx));
    assert_int_equal(ig_tensor_count(x), n);
    assert_int_equal(ig_tensor_read(ig_cast(x, IG_DTYPE_F32), have, (size_t)n * 4, NULL),
                     IG_OK);
    for (int64_t i = 0; i < n; i++)
        if (have[i] != wanted[i])
            fail_msg("element %d is %g, not %g", (int)i, (double)have[i],
                     (double)wanted[i]);
}
#define HAS(x, ...)                                                                        \
    has(x, (const float[]){__VA_ARGS__},                                                   \
        (int64_t)(sizeof((float[]){__VA_ARGS__}) / sizeof(float)))

static void fails(ig_tensor *x, const char *first, const char *second)
{
    assert_null(x);
    assert_int_not_equal(ig_context_status(ctx), IG_OK);
    const char *message = ig_context_message(ctx);
    if (!strstr(message, first) || !strstr(message, second))
        fail_msg("the message is '%s'", message);
    ig_context_clear(ctx);
}

static size_t live(void)
{
    return ig_context_memory(ctx).live_bytes;
}

/* ---- ownership ------------------------------------------------------------------------------- */

static void test_scopes(void **state)
{
    (void)state;
    const size_t before = live();
    ig_scope *outer = ig_scope_begin(ctx);
    ig_tensor *x = iota(IG_SHAPE(1000));
    ig_scope *inner = ig_scope_begin(ctx);
    ig_tensor *kept = ig_tensor_keep(ig_exp(x)), *retained = ig_tensor_retain(ig_neg(x));
    ig_exp(kept);
    ig_scope_end(inner);
    assert_true(isfinite(ig_tensor_item(ig_select(kept, 0, 3))));
    ig_scope_begin(ctx); /* ended by the one around it */
    ig_neg(x);
    ig_scope_end(outer);
    assert_true(ig_tensor_item(ig_select(retained, 0, 7)) == -7);
    ig_tensor *view = ig_tensor_retain(ig_slice(retained, 0, 4, 8, 2));
    ig_tensor_release(retained);
    HAS(view, -4, -6); /* the bytes live on with the view */
    ig_tensor_release(view);
    ig_scope_end(NULL);
    ig_tensor_release(NULL);
    assert_null(ig_tensor_keep(NULL));
    /* all that is left are the results of this test's own calls, which belong to the context */
    assert_true(live() < before + 16384);
}

/* A long chain is freed without recursion. */
static void test_long_chain(void **state)
{
    (void)state;
    const size_t before = live();
    ig_scope *scope = ig_scope_begin(ctx);
    ig_tensor *x = ig_tensor_require_grad(ig_tensor_scalar(ctx, IG_DTYPE_F32, 1), true),
              *y = x;
    for (int i = 0; i < 100000; i++) {
        ig_tensor *z = ig_add(y, x);
        if (y != x)
            ig_tensor_release(y);
        y = z;
    }
    assert_int_equal(ig_backward_all(&y, NULL, 1, &(ig_backward_opts){.keep = true}),
                     IG_OK);
    HAS(ig_tensor_grad(x), 100001);
    ig_tensor_clear_grad(x);
    ig_tensor_release(y);
    ig_scope_end(scope);
    assert_int_equal(live(), before);
}

/* ---- views ----------------------------------------------------------------------------------- */

static void test_views(void **state)
{
    (void)state;
    ig_tensor *x = iota(IG_SHAPE(2, 3, 4));
    HAS(ig_slice(ig_select(x, 0, 1), 1, 0, IG_END, 2), 12, 14, 16, 18, 20, 22);
    HAS(ig_select(ig_transpose(x, 0, 2), 0, -1), 3, 15, 7, 19, 11, 23);
    HAS(ig_select(ig_select(ig_flip(x, 2), 0, 0), 0, 0), 3, 2, 1, 0);
    HAS(ig_slice(ig_arange(ctx, IG_DTYPE_I32, 0, 1, 7), 0, -2, 0, -2), 5, 3, 1);
    HAS(ig_slice(ig_arange(ctx, IG_DTYPE_I32, 0, 1, 7), 0, 5, -1, 1), 5);
    assert_int_equal(ig_tensor_count(ig_slice(x, 2, 3, 1, 1)), 0);
    /* merged and cut where strides allow it: no copy */
    ig_tensor *t = ig_permute(x, 3, (const int[]){2, 0, 1});
    ig_tensor *r = ig_reshape(t, IG_SHAPE(4, 6));
    assert_int_equal(ig_tensor_stride(r, 0), 1);
    assert_int_equal(ig_tensor_stride(r, 1), 4);
    r = ig_reshape(t, IG_SHAPE(2, 2, 3, -1));
    assert_int_equal(ig_tensor_stride(r, 2), 8);
    /* and copied where they do not */
    r = ig_reshape(ig_transpose(ig_select(x, 0, 0), 0, 1), IG_SHAPE(-1));
    HAS(r, 0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11);
    ig_tensor *e = ig_expand(ig_arange(ctx, IG_DTYPE_F32, 0, 1, 2), IG_SHAPE(2, 2));
    HAS(e, 0, 1, 0, 1);
    HAS(ig_add(e, ig_transpose(e, 0, 1)), 0, 1, 1, 2);
    fails(ig_reshape(x, IG_SHAPE(5, 5)), "reshape", "[2,3,4]");
    fails(ig_expand(x, IG_SHAPE(2, 3, 5)), "expand", "[2,3,5]");
    fails(ig_permute(x, 3, (const int[]){0, 0, 1}), "permute", "once");
    fails(ig_select(x, 1, 3), "select", "index 3");
    fails(ig_transpose(x, 0, 3), "transpose", "3");
    ig_tensor *filled = ig_assign(ig_zeros(ctx, IG_DTYPE_F16, IG_SHAPE(2, 2)), e);
    HAS(filled, 0, 1, 0, 1);
    HAS(ig_assign(filled, ig_tensor_scalar(ctx, IG_DTYPE_I64, 3)), 3, 3, 3, 3);
    fails(ig_assign(filled, ig_zeros(ctx, IG_DTYPE_F32, IG_SHAPE(5))), "copy",
          "[5] f32, [2,2]");
    fails(ig_assign(ig_select(filled, 0, 0), filled), "copy", "[2,2] f16, [2]");
    fails(ig_add_into(ig_select(filled, 0, 0), filled), "add", "[2] f16");
    ig_tensor *wide = iota(IG_SHAPE(50, 700)), *turned = ig_copy(ig_transpose(wide, 0, 1));
    assert_true(ig_tensor_item(ig_sum(ig_not_equal(ig_transpose(wide, 0, 1), turned), 0,
                                      NULL, false)) == 0);
    fails(ig_reshape(x, 9, (const int64_t[9]){1}), "reshape", "9");
}

/* Nothing has elements, and everything goes on. */
static void test_empty(void **state)
{
    (void)state;
    ig_tensor *x =
        ig_tensor_require_grad(ig_zeros(ctx, IG_DTYPE_F32, IG_SHAPE(0, 3)), true);
    ig_tensor *w = ig_tensor_require_grad(ig_ones(ctx, IG_DTYPE_F32, IG_SHAPE(2, 3)), true);
    ig_tensor *y = ig_softmax(ig_linear(ig_exp(x), w, NULL), 1);
    const int dim = 0;
    assert_int_equal(ig_tensor_dim(y, 0), 0);
    ig_tensor *s = ig_sum(y, 1, &dim, false);
    HAS(s, 0, 0);
    assert_int_equal(ig_backward(ig_sum(s, 0, NULL, false)), IG_OK);
    HAS(ig_tensor_grad(w), 0, 0, 0, 0, 0, 0);
    assert_int_equal(ig_tensor_count(ig_tensor_grad(x)), 0);
    HAS(ig_prod(ig_zeros(ctx, IG_DTYPE_F32, IG_SHAPE(0)), 0, NULL, false), 1);
    HAS(ig_matmul(ig_ones(ctx, IG_DTYPE_F32, IG_SHAPE(2, 0)),
                  ig_ones(ctx, IG_DTYPE_F32, IG_SHAPE(0, 2))),
        0, 0, 0, 0);
    fails(ig_max(x, 1, &dim, false), "max", "[0,3]");
    fails(ig_argmax(x, 0, false), "argmax", "[0,3]");
}

/* ---- dtypes ---------------------------------------------------------------------------------- */

static void test_promotion(void **state)
{
    (void)state;
    static const struct {
        ig_dtype a, b, met;
    } pairs[] = {
        {IG_DTYPE_I64, IG_DTYPE_F32, IG_DTYPE_F32},
        {IG_DTYPE_F32, IG_DTYPE_F64, IG_DTYPE_F64},
        {IG_DTYPE_F16, IG_DTYPE_BF16, IG_DTYPE_F32},
        {IG_DTYPE_F16, IG_DTYPE_F32, IG_DTYPE_F32},
        {IG_DTYPE_U8, IG_DTYPE_I8, IG_DTYPE_I32},
        {IG_DTYPE_I32, IG_DTYPE_I64, IG_DTYPE_I64},
        {IG_DTYPE_BOOL, IG_DTYPE_U8, IG_DTYPE_U8},
        {IG_DTYPE_U8, IG_DTYPE_BF16, IG_DTYPE_BF16},
        {IG_DTYPE_I64, IG_DTYPE_F64, IG_DTYPE_F64},
        {IG_DTYPE_I8, IG_DTYPE_F16, IG_DTYPE_F16},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        for (int turn = 0; turn < 2; turn++) {
            ig_tensor *x = ig_ones(ctx, turn ? pairs[i].b : pairs[i].a, IG_SHAPE(3));
            ig_tensor *y = ig_ones(ctx, turn ? pairs[i].a : pairs[i].b, IG_SHAPE(3));
            assert_int_equal(ig_tensor_dtype(ig_mul(x, y)), pairs[i].met);
            HAS(ig_mul(x, y), 1, 1, 1);
        }
    ig_tensor *whole = ig_ones(ctx, IG_DTYPE_I64, IG_SHAPE(2));
    ig_tensor *half = ig_ones(ctx, IG_DTYPE_BF16, IG_SHAPE(2));
    fails(ig_add(whole, half), "add: i64 beside bf16", "ig_cast");
    fails(ig_div(whole, whole), "div", "floats");
    fails(ig_exp(whole), "exp", "i64");
    HAS(ig_add(ig_full(ctx, IG_DTYPE_I8, IG_SHAPE(1), 100),
               ig_full(ctx, IG_DTYPE_I8, IG_SHAPE(1), 100)),
        -56); /* wraps, as C's conversion does */
}

static void test_casts(void **state)
{
    (void)state;
    const float x[6] = {-1.75f, 300.0f, NAN, 1e30f, -1e30f, 0.0f};
    ig_tensor *t = ig_tensor_from(ctx, IG_DTYPE_F32, IG_SHAPE(6), x);
    HAS(ig_cast(t, IG_DTYPE_I8), -1, 127, 0, 127, -128, 0);
    HAS(ig_cast(t, IG_DTYPE_U8), 0, 255, 0, 255, 0, 0);
    HAS(ig_cast(t, IG_DTYPE_BOOL), 1, 1, 1, 1, 1, 0);
    HAS(ig_cast(t, IG_DTYPE_I64), -1, 300, 0, 9223372036854775807.0f,
        -9223372036854775808.0f, 0);
    /* every dtype holds small whole numbers, there and back, with strides */
    for (int a = 0; a < IG_DTYPE_COUNT; a++)
        for (int b = 0; b < IG_DTYPE_COUNT; b++) {
            ig_tensor *y = ig_arange(ctx, IG_DTYPE_F32, 0, 1, 6);
            if (ig_dtype_block(a) != 1 || ig_dtype_block(b) != 1 || a == IG_DTYPE_BOOL ||
                b == IG_DTYPE_BOOL)
                continue;
            y = ig_transpose(ig_reshape(ig_cast(y, (ig_dtype)a), IG_SHAPE(2, 3)), 0, 1);
            HAS(ig_cast(y, (ig_dtype)b), 0, 3, 1, 4, 2, 5);
        }
    fails(ig_cast(t, IG_DTYPE_Q4_0), "cast", "q4_0");
    fails(ig_zeros(ctx, IG_DTYPE_Q8_0, IG_SHAPE(32)), "full", "q8_0");
}

/* ---- comparison, logic, order ------------------------------------------------------------------ */

static void test_comparison(void **state)
{
    (void)state;
    const float a[4] = {1, 2, NAN, 4}, b[4] = {2, 2, 2, 3};
    ig_tensor *x = ig_tensor_from(ctx, IG_DTYPE_F32, IG_SHAPE(4), a);
    ig_tensor *y = ig_tensor_from(ctx, IG_DTYPE_F32, IG_SHAPE(4), b);
    assert_int_equal(ig_tensor_dtype(ig_less(x, y)), IG_DTYPE_BOOL);
    HAS(ig_less(x, y), 1, 0, 0, 0);
    HAS(ig_less_equal(x, y), 1, 1, 0, 0);
    HAS(ig_greater(x, y), 0, 0, 0, 1);
    HAS(ig_greater_equal(x, y), 0, 1, 0, 1);
    HAS(ig_equal(x, y), 0, 1, 0, 0);
    HAS(ig_not_equal(x, y), 1, 0, 1, 1);
    ig_tensor *p = ig_less(x, y), *q = ig_less_equal(x, y);
    HAS(ig_logical_and(p, q), 1, 0, 0, 0);
    HAS(ig_logical_or(p, q), 1, 1, 0, 0);
    HAS(ig_logical_xor(p, q), 0, 1, 0, 0);
    HAS(ig_logical_not(p), 0, 1, 1, 1);
    HAS(ig_where(p, x, y), 1, 2, 2, 3);
    HAS(ig_where(p, q, p), 1, 0, 0, 0); /* all bool */
    HAS(ig_where(p, ig_cast(y, IG_DTYPE_I32), ig_cast(x, IG_DTYPE_I64)), 2, 2, 0, 4);
    HAS(ig_where(ig_unsqueeze(ig_slice(p, 0, 0, 2, 1), 1), ig_cast(y, IG_DTYPE_BF16),
                 ig_tensor_scalar(ctx, IG_DTYPE_BF16, 7)),
        2, 2, 2, 3, 7, 7, 7, 7);
}

static void test_order(void **state)
{
    (void)state;
    const float a[6] = {3, 1, 2, 5, 5, -INFINITY};
    ig_tensor *x = ig_tensor_from(ctx, IG_DTYPE_F32, IG_SHAPE(2, 3), a), *places;
    HAS(ig_sort(x, 1, false, &places), 1, 2, 3, -INFINITY, 5, 5);
    HAS(places, 1, 2, 0, 2, 0, 1); /* stable */
    HAS(ig_sort(x, 1, true, &places), 3, 2, 1, 5, 5, -INFINITY);
    HAS(places, 0, 2, 1, 0, 1, 2);
    HAS(ig_topk(x, 0, 1, &places), 5, 5, 2);
    HAS(places, 1, 1, 0);
    HAS(ig_argmax(x, 1, false), 0, 0);
    HAS(ig_argmin(x, 0, true), 0, 0, 1);
    const float n[3] = {1, NAN, 7};
    HAS(ig_argmax(ig_tensor_from(ctx, IG_DTYPE_F32, IG_SHAPE(3), n), 0, false), 1);
    fails(ig_topk(x, 1, 4, NULL), "topk", "[2,3]");
    /* many, against the order of qsort's result: counted */
    ig_tensor *many = ig_uniform(ctx, IG_DTYPE_F32, IG_SHAPE(1001), 0, 1);
    ig_tensor *sorted = ig_sort(many, 0, false, &places);
    ig_tensor *steps =
        ig_less_equal(ig_slice(sorted, 0, 0, 1000, 1), ig_slice(sorted, 0, 1, 1001, 1));
    assert_true(ig_tensor_item(ig_sum(steps, 0, NULL, false)) == 1000);
    ig_tensor *same = ig_equal(ig_gather(many, 0, places), sorted);
    assert_true(ig_tensor_item(ig_sum(same, 0, NULL, false)) == 1001);
}

static void test_masks_and_sums(void **state)
{
    (void)state;
    ig_tensor *x = ig_add_scalar(iota(IG_SHAPE(3, 3)), 1);
    HAS(ig_tril(x, 0), 1, 0, 0, 4, 5, 0, 7, 8, 9);
    HAS(ig_tril(x, -1), 0, 0, 0, 4, 0, 0, 7, 8, 0);
    HAS(ig_triu(x, 0), 1, 2, 3, 0, 5, 6, 0, 0, 9);
    HAS(ig_triu(x, 1), 0, 2, 3, 0, 0, 6, 0, 0, 0);
    HAS(ig_one_hot(ig_arange(ctx, IG_DTYPE_I64, 2, -1, 3), 3, IG_DTYPE_F32), 0, 0, 1, 0, 1,
        0, 1, 0, 0);
    HAS(ig_cumsum(x, 0), 1, 2, 3, 5, 7, 9, 12, 15, 18);
    HAS(ig_interpolate(ig_arange(ctx, IG_DTYPE_F32, 0, 1, 2), 1, (const int64_t[]){4},
                       true),
        0, 0.25f, 0.75f, 1);
    HAS(ig_interpolate(ig_arange(ctx, IG_DTYPE_F32, 0, 1, 4), 1, (const int64_t[]){2},
                       false),
        0, 2);
}

static void test_losses(void **state)
{
    (void)state;
    ig_tensor *x =
        ig_tensor_from(ctx, IG_DTYPE_F32, IG_SHAPE(4), (const float[]){1, -2, 0.5f, 4});
    ig_tensor *y =
        ig_tensor_from(ctx, IG_DTYPE_F32, IG_SHAPE(4), (const float[]){1, 1, 1, 1});
    HAS(ig_l1(x, y), 6.5f / 4);         /* 0, 3, 1/2, 3 */
    HAS(ig_mse(x, y), 18.25f / 4);      /* 0, 9, 1/4, 9 */
    HAS(ig_huber(x, y, 1), 5.125f / 4); /* 0, 5/2, 1/8, 5/2 */
    HAS(ig_huber(x, y, 2), 8.125f / 4); /* 0, 4, 1/8, 4 */
    /* far from zero nothing overflows: log(1 + exp(100)) is 100 */
    ig_tensor *far =
        ig_tensor_from(ctx, IG_DTYPE_F32, IG_SHAPE(2), (const float[]){100, -100});
    HAS(ig_bce_with_logits(far, ig_full_like(far, 0)), 50);
    ig_tensor *t = ig_tensor_from(ctx, IG_DTYPE_I64, IG_SHAPE(2), (const int64_t[]){1, 0});
    HAS(ig_nll(ig_reshape(x, IG_SHAPE(2, 2)), t), 0.75f);
}

static void test_einsum(void **state)
{
    (void)state;
    ig_tensor *a = iota(IG_SHAPE(2, 3)), *b = iota(IG_SHAPE(3, 2)), *c = iota(IG_SHAPE(2));
    ig_tensor *const ab[2] = {a, b}, *const aa[2] = {a, a}, *const abc[3] = {a, b, c};
    HAS(ig_einsum("ij,jk->ik", ab, 2), 10, 13, 28, 40);
    HAS(ig_einsum("ij,jk->ki", ab, 2), 10, 28, 13, 40);
    HAS(ig_einsum("ij,ij->i", aa, 2), 5, 50);
    HAS(ig_einsum("ij,ij->", aa, 2), 55);
    HAS(ig_einsum("ij->ji", ab, 1), 0, 3, 1, 4, 2, 5);
    HAS(ig_einsum("ij->j", ab, 1), 3, 5, 7);
    HAS(ig_einsum("ij,kj->ik", aa, 2), 5, 14, 14, 50);
    HAS(ig_einsum("ij,jk,k->i", abc, 3), 13, 40);
    HAS(ig_einsum("ij,k->ijk", (ig_tensor *const[]){ig_slice(a, 0, 1, 2, 1), c}, 2), 0, 3,
        0, 4, 0, 5);
    ig_tensor *x = iota(IG_SHAPE(2, 2, 3)), *y = iota(IG_SHAPE(2, 3, 2));
    ig_tensor *batched = ig_einsum("bij,bjk->bik", (ig_tensor *const[]){x, y}, 2);
    ig_tensor *plain = ig_matmul(x, y);
    assert_true(ig_tensor_item(ig_sum(ig_not_equal(batched, plain), 0, NULL, false)) == 0);
    fails(ig_einsum("ij,jk", ab, 2), "einsum", "ij,jk");
    fails(ig_einsum("ij,jk->iz", ab, 2), "einsum", "no");
    fails(ig_einsum("ijk,jk->i", ab, 2), "einsum", "ijk");
    /* as many elements, but not the same sizes */
    fails(ig_einsum("ij,ji->", aa, 2), "einsum", "j is 3 in one operand and 2 in another");
    fails(ig_einsum("ij,ki->ik", aa, 2), "einsum", "i is 2 in one operand and 3");
}

/* ---- random ---------------------------------------------------------------------------------- */

static void test_random(void **state)
{
    (void)state;
    enum { N = 40000 };
    static float first[N], again[N];
    ig_context *one;
    assert_int_equal(ig_context_create(&one, &(ig_context_opts){.n_threads = 1}, NULL),
                     IG_OK);
    for (int law = 0; law < 4; law++) {
        for (int run = 0; run < 2; run++) { /* the same on one thread and on two */
            ig_context *c = run ? one : ctx;
            ig_seed(c, 42);
            ig_normal(c, IG_DTYPE_F32, IG_SHAPE(7), 0, 1); /* a draw before */
            ig_tensor *x = law == 0   ? ig_uniform(c, IG_DTYPE_F32, IG_SHAPE(N), -1, 3)
                           : law == 1 ? ig_normal(c, IG_DTYPE_F32, IG_SHAPE(200, 200), 1, 2)
                           : law == 2
                               ? ig_bernoulli(c, IG_DTYPE_F32, IG_SHAPE(N), 0.3)
                               : ig_dropout(ig_ones(c, IG_DTYPE_F32, IG_SHAPE(N)), 0.25);
            assert_int_equal(ig_tensor_read(x, run ? again : first, sizeof first, NULL),
                             IG_OK);
        }
        assert_memory_equal(first, again, sizeof first);
        double sum = 0, squares = 0;
        for (int i = 0; i < N; i++) {
            sum += (double)first[i];
            squares += (double)first[i] * (double)first[i];
        }
        const double mean = sum / N, var = squares / N - mean * mean;
        static const double means[] = {1, 1, 0.3, 1},
                            vars[] = {16.0 / 12, 4, 0.21, 1.0 / 3};
        assert_true(fabs(mean - means[law]) < 0.05);
        assert_true(fabs(var - vars[law]) < 0.08);
    }
    ig_tensor *p = ig_permutation(ctx, 1000);
    ig_tensor *sorted = ig_sort(p, 0, false, NULL);
    ig_tensor *moved = ig_not_equal(p, ig_arange(ctx, IG_DTYPE_I64, 0, 1, 1000));
    ig_tensor *wrong = ig_not_equal(sorted, ig_arange(ctx, IG_DTYPE_I64, 0, 1, 1000));
    assert_true(ig_tensor_item(ig_sum(wrong, 0, NULL, false)) == 0);
    assert_true(ig_tensor_item(ig_sum(moved, 0, NULL, false)) > 950);
    /* the gradient drops what the call dropped */
    ig_tensor *x = ig_tensor_require_grad(ig_ones(ctx, IG_DTYPE_F32, IG_SHAPE(300)), true);
    ig_tensor *y = ig_dropout(x, 0.5);
    assert_int_equal(ig_backward(ig_sum(y, 0, NULL, false)), IG_OK);
    ig_tensor *differ = ig_not_equal(ig_tensor_grad(x), y);
    assert_true(ig_tensor_item(ig_sum(differ, 0, NULL, false)) == 0);
    fails(ig_dropout(x, 1.5), "dropout", "1.5");
    ig_context_destroy(one);
}

/* ---- indices ----------------------------------------------------------------------------------- */

static void test_indices(void **state)
{
    (void)state;
    ig_tensor *x = iota(IG_SHAPE(3, 2));
    ig_tensor *ids =
        ig_tensor_from(ctx, IG_DTYPE_I64, IG_SHAPE(4), (const int64_t[]){2, 0, -1, 2});
    HAS(ig_embedding(ids, x), 4, 5, 0, 1, 4, 5, 4, 5);
    HAS(ig_index_add(ig_zeros(ctx, IG_DTYPE_F32, IG_SHAPE(3, 2)), 0, ids,
                     ig_ones(ctx, IG_DTYPE_F32, IG_SHAPE(4, 2))),
        1, 1, 0, 0, 3, 3);
    ig_tensor *bad =
        ig_tensor_from(ctx, IG_DTYPE_I64, IG_SHAPE(3), (const int64_t[]){0, 3, -4});
    fails(ig_embedding(bad, x), "index 3 at place 1", "-3..2");
    fails(ig_gather(x, 0, ig_unsqueeze(bad, 1)), "gather: index 3 at place 1", "-3..2");
    ig_tensor *many[40];
    for (int i = 0; i < 40; i++)
        many[i] = ig_full(ctx, IG_DTYPE_F32, IG_SHAPE(1), i);
    assert_true(ig_tensor_item(ig_select(ig_cat(many, 40, 0), 0, 37)) == 37);
    HAS(ig_pad(ig_arange(ctx, IG_DTYPE_F32, 1, 1, 2), 0, 1, 2, 9), 9, 1, 2, 9, 9);
    HAS(ig_roll(ig_arange(ctx, IG_DTYPE_F32, 0, 1, 4), 0, -1), 1, 2, 3, 0);
    fails(ig_cat((ig_tensor *const[]){x, many[0]}, 2, 0), "cat", "[3,2]");
}

/* ---- errors, text -------------------------------------------------------------------------------- */

static void test_errors_stick(void **state)
{
    (void)state;
    ig_tensor *a = ig_zeros(ctx, IG_DTYPE_F32, IG_SHAPE(4, 8));
    ig_tensor *b = ig_zeros(ctx, IG_DTYPE_F32, IG_SHAPE(9, 2));
    assert_null(ig_relu(ig_add(ig_matmul(a, b), a)));
    assert_int_equal(ig_context_status(ctx), IG_ERR_SHAPE);
    assert_string_equal(ig_context_message(ctx),
                        "matmul: inner sizes differ: [4,8] f32, [9,2] f32");
    assert_null(ig_exp(a)); /* nothing runs until it is cleared */
    assert_int_equal(ig_backward(a), IG_ERR_SHAPE);
    ig_context_clear(ctx);
    assert_string_equal(ig_context_message(ctx), "");
    assert_non_null(ig_exp(a));
    assert_int_not_equal(ig_backward(a), IG_OK);
    fails(NULL, "backward", "leaf");
    ig_context *other;
    assert_int_equal(ig_context_create(&other, &(ig_context_opts){.n_threads = 1}, NULL),
                     IG_OK);
    fails(ig_add(a, ig_zeros(other, IG_DTYPE_F32, 0, NULL)), "add", "two contexts");
    ig_context_clear(other);
    ig_context_destroy(other);
    fails(ig_zeros(ctx, IG_DTYPE_F32, IG_SHAPE(-1)), "full", "-1");
    fails(ig_zeros(ctx, IG_DTYPE_F32, IG_SHAPE(INT64_MAX, 2)), "full", "");
    ig_error error;
    float x[3];
    assert_int_equal(ig_tensor_read(a, x, sizeof x, &error), IG_ERR_ARGUMENT);
    assert_non_null(strstr(error.message, "[4,8] f32 has 128 bytes, not 12"));
}

static void test_anomaly(void **state)
{
    (void)state;
    const bool was = ig_check_nan(ctx, true);
    ig_tensor *x =
        ig_tensor_from(ctx, IG_DTYPE_F32, IG_SHAPE(3), (const float[]){1, -1, 0});
    fails(ig_exp(ig_sqrt(x)), "sqrt: made a NaN at element 1", "[3] f32");
    /* in the way back: 0 times the infinite slope of sqrt at 0 */
    ig_tensor *y = ig_tensor_require_grad(ig_zeros(ctx, IG_DTYPE_F32, IG_SHAPE(2)), true);
    ig_tensor *z = ig_mul(ig_sqrt(y), y);
    assert_int_not_equal(ig_backward(ig_sum(z, 0, NULL, false)), IG_OK);
    fails(NULL, "unary_grad: made a NaN", "[2] f32");
    ig_check_nan(ctx, was);
}

static ig_tensor *halve(void *user, ig_tensor *gradient)
{
    ++*(int *)user;
    return ig_scale(gradient, 0.5);
}

static ig_tensor *segment(void *user, ig_tensor *const *x, int n)
{
    (void)n;
    return ig_tanh(ig_mul(x[0], user)); /* user: a weight that is no operand */
}

static void test_hooks_and_recompute(void **state)
{
    (void)state;
    int calls = 0;
    ig_tensor *x = ig_tensor_require_grad(ig_arange(ctx, IG_DTYPE_F32, 1, 1, 2), true);
    ig_tensor *y = ig_scale(x, 3);
    assert_int_equal(ig_tensor_hook(y, halve, &calls), IG_OK);
    assert_int_equal(ig_tensor_hook(x, halve, &calls), IG_OK);
    ig_backward(ig_sum(ig_square(y), 0, NULL, false));
    HAS(ig_tensor_grad(x), 4.5f, 9);
    assert_int_equal(calls, 2);
    /* a recomputed segment gives the same gradients, also of the leaf that it uses inside */
    float wanted[2][2], have[2][2];
    for (int run = 0; run < 2; run++) {
        ig_tensor *a = ig_tensor_require_grad(ig_arange(ctx, IG_DTYPE_F32, 1, 1, 2), true);
        ig_tensor *w =
            ig_tensor_require_grad(ig_full(ctx, IG_DTYPE_F32, IG_SHAPE(2), 0.3), true);
        ig_tensor *b = ig_exp(a);
        ig_tensor *c = run ? ig_recompute(segment, w, &b, 1) : segment(w, &b, 1);
        assert_int_equal(ig_backward(ig_sum(c, 0, NULL, false)), IG_OK);
        assert_int_equal(
            ig_tensor_read(ig_tensor_grad(a), run ? have[0] : wanted[0], 8, NULL), IG_OK);
        assert_int_equal(
            ig_tensor_read(ig_tensor_grad(w), run ? have[1] : wanted[1], 8, NULL), IG_OK);
    }
    assert_memory_equal(have, wanted, sizeof have);
    /* a record is walked once, unless it is kept */
    ig_tensor *z = ig_sum(ig_exp(x), 0, NULL, false);
    assert_int_equal(ig_backward(z), IG_OK);
    assert_int_not_equal(ig_backward(z), IG_OK);
    fails(NULL, "walked before", "keep");
}

static void test_text(void **state)
{
    (void)state;
    char text[400];
    ig_tensor *x = ig_scale(iota(IG_SHAPE(2, 3)), 0.5);
    const size_t whole = ig_tensor_text(x, text, sizeof text);
    assert_int_equal(whole, strlen(text));
    assert_string_equal(text, "[2,3] f32\n[[0 0.5 1]\n [1.5 2 2.5]]");
    ig_tensor_text(ig_less(ig_slice(x, 0, 0, 1, 1), x), text, sizeof text);
    assert_string_equal(text, "[2,3] bool\n[[false false false]\n [true true true]]");
    ig_tensor_text(ig_arange(ctx, IG_DTYPE_I64, 0, 1, 100), text, sizeof text);
    assert_string_equal(text, "[100] i64\n[0 1 2 ... 97 98 99]");
    const size_t n = ig_tensor_text(x, text, 12);
    assert_string_equal(text, "[2,3] f32\n[");
    assert_true(n > 12);
    ig_tensor_text(ig_tensor_scalar(ctx, IG_DTYPE_F64, -2.5), text, sizeof text);
    assert_string_equal(text, "[] f64\n-2.5");
}

/* ---- every allocation fails in turn ------------------------------------------------------------------ */

static void step(ig_context *c)
{
    ig_scope *scope = ig_scope_begin(c);
    ig_tensor *w =
        ig_tensor_require_grad(ig_full(c, IG_DTYPE_F32, IG_SHAPE(40, 30), 0.1), true);
    ig_tensor *x = ig_uniform(c, IG_DTYPE_F32, IG_SHAPE(50, 30), 0, 1);
    ig_tensor *y = ig_sin(ig_linear(x, w, NULL));
    ig_fill(ig_select(y, 0, 1), 0);
    ig_tensor *places, *sorted = ig_sort(y, 1, false, &places);
    ig_tensor *t = ig_argmax(sorted, 1, false);
    ig_backward(ig_add(ig_cross_entropy(sorted, t, NULL),
                       ig_prod(ig_softmax(w, 0), 0, NULL, false)));
    if (ig_context_status(c) == IG_OK)
        assert_non_null(ig_tensor_grad(w));
    else if (ig_context_status(c) != IG_ERR_MEMORY)
        fail_msg("%s", ig_context_message(c));
    ig_scope_end(scope);
}

static void test_allocations_fail(void **state)
{
    (void)state;
    for (int64_t nth = 1;; nth++) {
        fault_allocator f = {.fail_nth = nth};
        const ig_allocator a = fault_allocator_of(&f);
        ig_context *c;
        ig_error error;
        const ig_status status = ig_context_create(
            &c, &(ig_context_opts){.n_threads = 1, .allocator = &a}, &error);
        if (status == IG_OK) {
            step(c);
            ig_context_clear(c);
            step(c); /* goes on after the failure */
            assert_int_equal(ig_context_status(c), IG_OK);
            ig_context_destroy(c);
        } else {
            assert_int_equal(status, IG_ERR_MEMORY);
        }
        assert_int_equal(f.n_alive, 0);
        if (f.n_calls < nth)
            break;
    }
}

/* Structs come from slabs, so single takes fail as well: by a budget that grows bit by bit. */
static void test_budget_everywhere(void **state)
{
    (void)state;
    for (size_t budget = 65536; budget < (size_t)3 << 20; budget += 20000) {
        ig_context *c;
        assert_int_equal(
            ig_context_create(
                &c, &(ig_context_opts){.n_threads = 1, .tensor_budget = budget}, NULL),
            IG_OK);
        step(c);
        ig_context_clear(c);
        ig_context_destroy(c);
    }
}

#define TEST(name)                                                                         \
    {                                                                                      \
#        name, name, begin, end, NULL                                                      \
    }
int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_scopes),
        TEST(test_long_chain),
        TEST(test_views),
        TEST(test_empty),
        TEST(test_promotion),
        TEST(test_casts),
        TEST(test_comparison),
        TEST(test_order),
        TEST(test_masks_and_sums),
        TEST(test_losses),
        TEST(test_einsum),
        TEST(test_random),
        TEST(test_indices),
        TEST(test_errors_stick),
        TEST(test_anomaly),
        TEST(test_hooks_and_recompute),
        TEST(test_text),
        cmocka_unit_test(test_allocations_fail),
        cmocka_unit_test(test_budget_everywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
