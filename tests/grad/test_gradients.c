/* Gradients of every differentiable operator against finite differences in f64, at odd shapes and
 * strides; second order where the gradient is made of operators; f32 against f64; and the
 * same bits for any strides and for one thread and two. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "grad/gradient_cases.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static int n_entries(void)
{
    return n_gradient_plain + n_gradient_network;
}

static const entry *entry_at(int i)
{
    return i < n_gradient_plain ? &gradient_plain[i]
                                : &gradient_network[i - n_gradient_plain];
}

/* ---- values -------------------------------------------------------------------------------- */

static int n_dims_of(const int64_t *dims)
{
    int n = 0;
    while (n < 3 && dims[n])
        n++;
    return n;
}

static int64_t fill(double *x, const entry *e, int i, uint64_t seed)
{
    int64_t n = 1;
    for (int d = 0; d < n_dims_of(e->dims[i]); d++)
        n *= e->dims[i][d];
    for (int64_t k = 0; k < n; k++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        x[k] = e->low + (e->high - e->low) * (double)(seed >> 40) / (double)(1 << 24);
    }
    return n;
}

/* The operand; with `turned`, stored with its dimensions backwards. */
static ig_tensor *operand(ig_context *ctx, const entry *e, int i, const double *x,
                          ig_dtype dtype, bool turned)
{
    const int n = n_dims_of(e->dims[i]);
    ig_tensor *t = ig_tensor_from(ctx, IG_DTYPE_F64, n, e->dims[i], x);
    if (turned) {
        int order[3];
        for (int d = 0; d < n; d++)
            order[d] = n - 1 - d;
        t = ig_permute(ig_copy(ig_permute(t, n, order)), n, order);
    }
    return ig_cast(t, dtype);
}

/* A number that depends on all elements of y in different ways. */
static ig_tensor *weigh(ig_tensor *y)
{
    double w[CAP];
    const int64_t n = ig_tensor_count(y);
    assert_true(n <= CAP);
    for (int64_t i = 0; i < n; i++)
        w[i] = 0.3 + 0.1 * (double)(i * 7 % 11);
    int64_t dims[8];
    for (int d = 0; d < ig_tensor_n_dims(y); d++)
        dims[d] = ig_tensor_dim(y, d);
    ig_tensor *t =
        ig_tensor_from(ig_tensor_context(y), IG_DTYPE_F64, ig_tensor_n_dims(y), dims, w);
    return ig_sum(ig_mul(y, ig_cast(t, ig_tensor_dtype(y))), 0, NULL, false);
}

static double value_of(ig_context *ctx, const entry *e, double (*x)[CAP])
{
    ig_tensor *in[MOST];
    ig_scope *scope = ig_scope_begin(ctx);
    for (int i = 0; i < e->n_in; i++)
        in[i] = operand(ctx, e, i, x[i], IG_DTYPE_F64, false);
    const double v = ig_tensor_item(weigh(e->f(in)));
    ig_scope_end(scope);
    return v;
}

static void must(ig_context *ctx, const entry *e)
{
    if (ig_context_status(ctx) != IG_OK)
        fail_msg("%s: %s", e->name, ig_context_message(ctx));
}

static void must_read(ig_tensor *x, void *out)
{
    ig_error error;
    if (ig_tensor_read(x, out, ig_tensor_bytes(x), &error) != IG_OK)
        fail_msg("%s", error.message);
}

/* ---- the tests ------------------------------------------------------------------------------ */

static ig_context *context(int n_threads)
{
    ig_context *ctx;
    ig_error error;
    if (ig_context_create(&ctx, &(ig_context_opts){.n_threads = n_threads, .poison = true},
                          &error) != IG_OK)
        fail_msg("%s", error.message);
    return ctx;
}

static void check_entry(ig_context *ctx, const entry *e, bool turned)
{
    double x[MOST][CAP], grad[CAP];
    ig_tensor *in[MOST];
    const double step = 1e-5;
    ig_scope *scope = ig_scope_begin(ctx);
    for (int i = 0; i < e->n_in; i++) {
        fill(x[i], e, i, (uint64_t)(17 * i + 5));
        in[i] = ig_detach(operand(ctx, e, i, x[i], IG_DTYPE_F64, turned));
        ig_tensor_require_grad(in[i], true);
    }
    ig_tensor *y = weigh(e->f(in));
    assert_int_equal(ig_backward(y), IG_OK);
    must(ctx, e);
    for (int i = 0; i < e->n_in; i++) {
        must_read(ig_tensor_grad(in[i]), grad);
        for (int64_t k = 0; k < ig_tensor_count(in[i]); k++) {
            const double at = x[i][k];
            x[i][k] = at + step;
            const double above = value_of(ctx, e, x);
            x[i][k] = at - step;
            const double below = value_of(ctx, e, x);
            x[i][k] = at;
            const double slope = (above - below) / (2 * step);
            if (!(fabs(slope - grad[k]) <= 1e-7 * (1 + fabs(slope))))
                fail_msg("%s: operand %d, element %d: %.10g, by differences %.10g", e->name,
                         i, (int)k, grad[k], slope);
        }
    }
    ig_scope_end(scope);
}

static void test_finite_differences(void **state)
{
    (void)state;
    ig_context *ctx = context(1);
    for (int i = 0; i < n_entries(); i++) {
        check_entry(ctx, entry_at(i), false);
        check_entry(ctx, entry_at(i), true);
    }
    ig_context_destroy(ctx);
}

/* The gradient as a number of its own: the sum of each operand's gradient, weighed. */
static ig_tensor *slope_of(const entry *e, ig_tensor *const *in)
{
    ig_tensor *d[MOST], *y = weigh(e->f(in)), *sum = NULL;
    if (ig_gradients(d, in, e->n_in, &y, NULL, 1, &(ig_backward_opts){.record = true}) !=
        IG_OK)
        return NULL;
    for (int i = 0; i < e->n_in; i++)
        if (d[i])
            sum = sum ? ig_add(sum, weigh(d[i])) : weigh(d[i]);
    return sum;
}

static double slope_value(ig_context *ctx, const entry *e, double (*x)[CAP])
{
    ig_tensor *in[MOST];
    ig_scope *scope = ig_scope_begin(ctx);
    for (int i = 0; i < e->n_in; i++) {
        in[i] = operand(ctx, e, i, x[i], IG_DTYPE_F64, false);
        ig_tensor_require_grad(in[i], true);
    }
    const double v = ig_tensor_item(slope_of(e, in));
    ig_scope_end(scope);
    return v;
}

static void test_second_order(void **state)
{
    (void)state;
    const double step = 1e-5;
    ig_context *ctx = context(1);
    for (int at = 0; at < n_entries(); at++) {
        const entry *e = entry_at(at);
        double x[MOST][CAP], grad[CAP];
        ig_tensor *in[MOST], *d[MOST];
        if (e->first_order)
            continue;
        ig_scope *scope = ig_scope_begin(ctx);
        for (int i = 0; i < e->n_in; i++) {
            fill(x[i], e, i, (uint64_t)(17 * i + 5));
            in[i] = operand(ctx, e, i, x[i], IG_DTYPE_F64, false);
            ig_tensor_require_grad(in[i], true);
        }
        ig_tensor *y = slope_of(e, in);
        must(ctx, e);
        const bool flows = ig_tensor_wants_grad(y);
        if (flows)
            ig_gradients(d, in, e->n_in, &y, NULL, 1, NULL);
        must(ctx, e);
        for (int i = 0; i < e->n_in; i++) {
            memset(grad, 0, sizeof grad);
            if (flows && d[i])
                must_read(d[i], grad);
            for (int64_t k = 0; k < ig_tensor_count(in[i]); k++) {
                const double was = x[i][k];
                x[i][k] = was + step;
                const double above = slope_value(ctx, e, x);
                x[i][k] = was - step;
                const double below = slope_value(ctx, e, x);
                x[i][k] = was;
                const double slope = (above - below) / (2 * step);
                if (!(fabs(slope - grad[k]) <= 1e-6 * (1 + fabs(slope))))
                    fail_msg("%s: operand %d, element %d: %.10g, by differences %.10g",
                             e->name, i, (int)k, grad[k], slope);
            }
        }
        ig_scope_end(scope);
    }
    ig_context_destroy(ctx);
}

/* In f32: near f64, and the same bits whatever the strides and the number of threads. */
static void test_single_precision(void **state)
{
    (void)state;
    ig_context *ctx[2] = {context(1), context(2)};
    for (int at = 0; at < n_entries(); at++) {
        const entry *e = entry_at(at);
        double x[CAP], exact[MOST + 1][CAP];
        float first[MOST + 1][CAP], now[CAP];
        for (int run = 0; run < 5;
             run++) { /* f64; f32 on 1 and 2 threads, plain and turned */
            ig_context *c = ctx[run ? (run - 1) % 2 : 0];
            ig_tensor *in[MOST], *outs[MOST + 1];
            ig_scope *scope = ig_scope_begin(c);
            for (int i = 0; i < e->n_in; i++) {
                fill(x, e, i, (uint64_t)(17 * i + 5));
                in[i] = ig_detach(
                    operand(c, e, i, x, run ? IG_DTYPE_F32 : IG_DTYPE_F64, run > 2));
                ig_tensor_require_grad(in[i], true);
            }
            outs[0] = e->f(in);
            ig_backward(weigh(outs[0]));
            must(c, e);
            for (int i = 0; i < e->n_in; i++)
                outs[i + 1] = ig_tensor_grad(in[i]);
            for (int i = 0; i <= e->n_in; i++) {
                const int64_t n = ig_tensor_count(outs[i]);
                if (run == 0) {
                    must_read(outs[i], exact[i]);
                    continue;
                }
                must_read(ig_cast(outs[i], IG_DTYPE_F32), now);
                if (run == 1) {
                    memcpy(first[i], now, sizeof now);
                    for (int64_t k = 0; k < n; k++)
                        if (!(fabs((double)now[k] - exact[i][k]) <=
                              4e-6 * (1 + fabs(exact[i][k]))))
                            fail_msg("%s: result %d, element %d: %.8g, in f64 %.8g",
                                     e->name, i, (int)k, (double)now[k], exact[i][k]);
                } else if (memcmp(now, first[i], (size_t)n * 4)) {
                    fail_msg("%s: result %d: run %d has other bits", e->name, i, run);
                }
            }
            ig_scope_end(scope);
        }
    }
    ig_context_destroy(ctx[0]);
    ig_context_destroy(ctx[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_finite_differences),
        cmocka_unit_test(test_second_order),
        cmocka_unit_test(test_single_precision),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
