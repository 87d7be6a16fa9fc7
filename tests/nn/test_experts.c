/* Mixtures of experts against plain loops in double, gradients by differences of those loops; capacity,
 * dropped tokens, balance, random second choices, threads, capture, failing memory. */
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

enum { N = 12, D = 5, X = 4, F = 3 };
enum { N_X = N * D, N_GATE = X * D, N_UP = X * 2 * F * D, N_DOWN = X * D * F };

static ig_error error;

typedef struct fixture {
    ig_context *ctx;
    ig_params *p;
} fixture;

static fixture begin(int n_threads)
{
    fixture f;
    const ig_context_opts opts = {.n_threads = n_threads, .poison = true};
    assert_int_equal(ig_context_create(&f.ctx, &opts, &error), IG_OK);
    assert_int_equal(ig_params_create(&f.p, f.ctx, &error), IG_OK);
    return f;
}

static void end(fixture *f)
{
    ig_params_destroy(f->p);
    ig_context_destroy(f->ctx);
}

static void must(ig_context *ctx)
{
    if (ig_context_status(ctx) != IG_OK)
        fail_msg("%s", ig_context_message(ctx));
}

/* ---- the plain form --------------------------------------------------------------------------------- */

/* x, gate, gate_up, down: all that a result depends on. */
typedef struct values {
    double x[N_X], gate[N_GATE], up[N_UP], down[N_DOWN];
} values;

static void run_expert(double *y, const values *v, int e, const double *x, double weight)
{
    double h[F];
    for (int f = 0; f < F; f++) {
        double a = 0, b = 0;
        for (int d = 0; d < D; d++) {
            a += v->up[(e * 2 * F + f) * D + d] * x[d];
            b += v->up[(e * 2 * F + F + f) * D + d] * x[d];
        }
        h[f] = a / (1 + exp(-a)) * b;
    }
    for (int d = 0; d < D; d++)
        for (int f = 0; f < F; f++)
            y[d] += weight * v->down[(e * D + d) * F + f] * h[f];
}

/* y [N,D], counts [X]; returns the balance. One token after another, first choices before second ones. */
static double plain(double *y, int64_t *counts, const values *v, int k, int group,
                    int64_t capacity)
{
    double gates[N][X], balance = 0;
    int chosen[N][X];
    memset(y, 0, N_X * sizeof *y);
    memset(counts, 0, X * sizeof *counts);
    for (int n = 0; n < N; n++) {
        double sum = 0;
        for (int e = 0; e < X; e++) {
            gates[n][e] = 0;
            for (int d = 0; d < D; d++)
                gates[n][e] += v->gate[e * D + d] * v->x[n * D + d];
            sum += exp(gates[n][e]);
        }
        for (int e = 0; e < X; e++)
            gates[n][e] = exp(gates[n][e]) / sum;
        for (int j = 0; j < k; j++) { /* the largest that was not chosen */
            chosen[n][j] = -1;
            for (int e = 0; e < X; e++) {
                bool before = false;
                for (int i = 0; i < j; i++)
                    before |= chosen[n][i] == e;
                if (!before && (chosen[n][j] < 0 || gates[n][e] > gates[n][chosen[n][j]]))
                    chosen[n][j] = e;
            }
        }
    }
    for (int g = 0; g < N / group; g++) {
        int64_t queue[X] = {0}, first[X] = {0};
        for (int j = 0; j < k; j++)
            for (int n = g * group; n < (g + 1) * group; n++) {
                const int e = chosen[n][j];
                double sum = 0;
                for (int i = 0; i < k; i++)
                    sum += gates[n][chosen[n][i]];
                first[e] += j == 0;
                if (queue[e]++ >= capacity)
                    continue;
                counts[e]++;
                run_expert(y + n * D, v, e, v->x + n * D,
                           k > 1 ? gates[n][e] / sum : gates[n][e]);
            }
        for (int e = 0; e < X; e++) {
            double mean = 0;
            for (int n = g * group; n < (g + 1) * group; n++)
                mean += gates[n][e] / group;
            balance += (double)first[e] / group * mean / X / (N / group);
        }
    }
    return balance;
}

/* A number that depends on all of them. */
static double plain_loss(const values *v, int k, int group, int64_t capacity)
{
    double y[N_X], loss;
    int64_t counts[X];
    loss = 3 * plain(y, counts, v, k, group, capacity);
    for (int i = 0; i < N_X; i++)
        loss += sin(0.7 * i) * y[i];
    return loss;
}

/* ---- against it --------------------------------------------------------------------------------------- */

static void to_doubles(double *out, ig_tensor *x, int64_t n)
{
    assert_int_equal(ig_tensor_count(x), n);
    ig_tensor *wide = ig_cast(x, IG_DTYPE_F64);
    assert_int_equal(ig_tensor_read(wide, out, (size_t)n * sizeof *out, &error), IG_OK);
}

static void check_gradient(const char *what, values *v, double *at, int64_t n,
                           ig_tensor *gradient, int k, int group, int64_t capacity)
{
    const double step = 1e-6;
    double have[N_UP];
    assert_true(n <= N_UP);
    to_doubles(have, gradient, n);
    for (int64_t i = 0; i < n; i++) {
        const double kept = at[i];
        at[i] = kept + step;
        const double above = plain_loss(v, k, group, capacity);
        at[i] = kept - step;
        const double slope = (above - plain_loss(v, k, group, capacity)) / (2 * step);
        at[i] = kept;
        if (!(fabs(slope - have[i]) <= 1e-5 * (1 + fabs(slope))))
            fail_msg("%s, element %d of %d chosen, capacity %d: %g, by differences %g",
                     what, (int)i, k, (int)capacity, have[i], slope);
    }
}

static void check_mixture(int k, int group, double factor)
{
    fixture f = begin(2);
    ig_tensor *balance, *counts;
    const double even = (double)group * k / X;
    const int64_t capacity = factor > 0 ? (int64_t)fmin(ceil(factor * even), group) : group;
    const ig_nn_experts_opts o = {.n_experts = X,
                                  .n_chosen = k,
                                  .n_inner = F,
                                  .group = group,
                                  .capacity = factor,
                                  .balance_out = &balance,
                                  .counts_out = &counts};
    values v;
    double want[N_X], have[N_X];
    int64_t want_counts[X], have_counts[X];
    ig_params_set_deviation(f.p, 0.8);
    ig_tensor *x = ig_tensor_require_grad(
        ig_detach(ig_normal(f.ctx, IG_DTYPE_F32, IG_SHAPE(2, N / 2, D), 0, 1)), true);
    ig_tensor *y = ig_nn_experts(f.p, "moe", x, &o);
    must(f.ctx);
    assert_int_equal(ig_params_count(f.p), 3);
    to_doubles(v.x, x, N_X);
    to_doubles(v.gate, ig_params_find(f.p, "moe.gate.weight"), N_GATE);
    to_doubles(v.up, ig_params_find(f.p, "moe.experts.gate_up_proj"), N_UP);
    to_doubles(v.down, ig_params_find(f.p, "moe.experts.down_proj"), N_DOWN);
    const double want_balance = plain(want, want_counts, &v, k, group, capacity);
    to_doubles(have, y, N_X);
    for (int i = 0; i < N_X; i++)
        if (!(fabs(have[i] - want[i]) <= 1e-5 * (1 + fabs(want[i]))))
            fail_msg("%d of %d chosen: y[%d] is %g, not %g", k, X, i, have[i], want[i]);
    assert_true(fabs(ig_tensor_item(balance) - want_balance) < 1e-6);
    assert_int_equal(ig_tensor_read(counts, have_counts, sizeof have_counts, &error),
                     IG_OK);
    assert_memory_equal(have_counts, want_counts, sizeof want_counts);
    /* the loss of plain_loss */
    ig_tensor *cotangent = ig_sin(ig_scale(ig_arange(f.ctx, IG_DTYPE_F32, 0, 1, N_X), 0.7));
    ig_tensor *loss =
        ig_sum(ig_mul(ig_reshape(y, IG_SHAPE(N_X)), cotangent), 0, NULL, false);
    assert_int_equal(ig_backward(ig_add(loss, ig_scale(balance, 3))), IG_OK);
    check_gradient("x", &v, v.x, N_X, ig_tensor_grad(x), k, group, capacity);
    check_gradient("gate", &v, v.gate, N_GATE,
                   ig_tensor_grad(ig_params_find(f.p, "moe.gate.weight")), k, group,
                   capacity);
    check_gradient("gate_up_proj", &v, v.up, N_UP,
                   ig_tensor_grad(ig_params_find(f.p, "moe.experts.gate_up_proj")), k,
                   group, capacity);
    check_gradient("down_proj", &v, v.down, N_DOWN,
                   ig_tensor_grad(ig_params_find(f.p, "moe.experts.down_proj")), k, group,
                   capacity);
    end(&f);
}

static void test_against_loops(void **state)
{
    (void)state;
    check_mixture(2, N, 0);    /* nothing is dropped */
    check_mixture(2, N, 0.75); /* some second choices are */
    check_mixture(2, 6, 0.5);  /* two groups, many dropped */
    check_mixture(1, 4, 1);    /* one expert a token: its gate is the weight */
    check_mixture(3, N, 0.4);
    check_mixture(4, 6, 0); /* all experts */
}

/* A token whose choices were all dropped passes through, bit for bit. */
static void test_dropped_tokens(void **state)
{
    (void)state;
    fixture f = begin(2);
    ig_tensor *counts;
    const ig_nn_experts_opts o = {
        .n_experts = X, .n_inner = F, .capacity = 0.01, .counts_out = &counts};
    ig_tensor *x = ig_normal(f.ctx, IG_DTYPE_F32, IG_SHAPE(100, D), 0, 1);
    ig_tensor *y = ig_nn_experts(f.p, "moe", x, &o);
    must(f.ctx);
    assert_true(ig_tensor_item(ig_max(counts, 0, NULL, false)) == 1);
    const int along[1] = {1};
    ig_tensor *same =
        ig_min(ig_cast(ig_equal(ig_add(x, y), x), IG_DTYPE_I64), 1, along, false);
    /* one room an expert: at most four of a hundred were taken */
    assert_true(ig_tensor_item(ig_sum(same, 0, NULL, false)) >= 96);
    assert_true(ig_tensor_item(ig_sum(same, 0, NULL, false)) < 100);
    end(&f);
}

static void test_balance_when_even(void **state)
{
    (void)state;
    fixture f = begin(1);
    ig_tensor *balance;
    const ig_nn_experts_opts o = {.n_experts = X, .n_inner = F, .balance_out = &balance};
    ig_tensor *x = ig_normal(f.ctx, IG_DTYPE_F32, IG_SHAPE(64, D), 0, 1);
    assert_non_null(ig_nn_experts(f.p, "moe", x, &o));
    const bool was = ig_grad_enable(f.ctx, false);
    assert_non_null(ig_fill(ig_params_find(f.p, "moe.gate.weight"), 0));
    ig_grad_enable(f.ctx, was);
    assert_non_null(ig_nn_experts(f.p, "moe", x, &o));
    assert_true(fabs(ig_tensor_item(balance) - 1.0 / (X * X)) < 1e-7);
    end(&f);
}

/* A second choice of weight w is sent with probability 2 w, in training. */
static void test_second_at_random(void **state)
{
    (void)state;
    enum { TOKENS = 20000 };
    fixture f = begin(2);
    ig_tensor *counts;
    const ig_nn_experts_opts o = {
        .n_experts = 2, .n_inner = 1, .second_at_random = true, .counts_out = &counts};
    ig_tensor *x = ig_ones(f.ctx, IG_DTYPE_F32, IG_SHAPE(TOKENS, 1));
    assert_non_null(ig_nn_experts(f.p, "moe", x, &o));
    const float gate[2] = {1, 0};
    const bool was = ig_grad_enable(f.ctx, false);
    ig_assign(ig_params_find(f.p, "moe.gate.weight"),
              ig_tensor_from(f.ctx, IG_DTYPE_F32, IG_SHAPE(2, 1), gate));
    ig_grad_enable(f.ctx, was);
    ig_nn_experts(f.p, "moe", x, &o);
    must(f.ctx);
    const double p = 2 / (1 + exp(1.0)), deviation = sqrt(p * (1 - p) / TOKENS);
    const double share = ig_tensor_item(ig_select(counts, 0, 1)) / TOKENS;
    assert_true(ig_tensor_item(ig_select(counts, 0, 0)) == TOKENS);
    assert_true(fabs(share - p) < 3 * deviation);
    ig_params_set_training(f.p, false);
    ig_nn_experts(f.p, "moe", x, &o);
    assert_true(ig_tensor_item(ig_select(counts, 0, 1)) == TOKENS);
    end(&f);
}

/* ---- steps -------------------------------------------------------------------------------------------- */

/* Steps on tokens of a few kinds, eager or captured; the parameters behind them. */
static void train(float *out, size_t bytes, int n_threads, bool captured,
                  double balance_factor, double *busiest)
{
    enum { STEPS = 60, TOKENS = 96 };
    fixture f = begin(n_threads);
    ig_tensor *balance = NULL, *counts;
    ig_program *program = NULL;
    const ig_nn_experts_opts o = {.n_experts = X,
                                  .n_inner = F,
                                  .capacity = 2,
                                  .second_at_random = true,
                                  .balance_out = &balance,
                                  .counts_out = &counts};
    ig_seed(f.ctx, 5);
    ig_tensor *x =
        ig_add_scalar(ig_normal(f.ctx, IG_DTYPE_F32, IG_SHAPE(TOKENS, D), 0, 1), 1);
    assert_non_null(ig_nn_experts(f.p, "moe", x, &o));
    ig_optimizer_opts rule = ig_optimizer_defaults(IG_RULE_ADAMW);
    rule.lr = 3e-2;
    ig_optimizer *opt;
    ig_tensor *all[3];
    for (int i = 0; i < 3; i++)
        all[i] = ig_params_tensor(f.p, i);
    assert_int_equal(ig_optimizer_create(&opt, f.ctx, &rule, &error), IG_OK);
    assert_int_equal(ig_optimizer_add(opt, all, NULL, 3, NULL, &error), IG_OK);
    for (int step = 0; step < STEPS; step++) {
        if (program) {
            assert_int_equal(ig_program_run(program, &error), IG_OK);
            continue;
        }
        ig_scope *scope = captured ? NULL : ig_scope_begin(f.ctx);
        if (captured)
            assert_int_equal(ig_capture_begin(f.ctx, &error), IG_OK);
        ig_optimizer_clear_grads(opt);
        ig_tensor *y = ig_nn_experts(f.p, "moe", x, &o);
        ig_backward(ig_add(ig_mse(y, ig_sin(x)), ig_scale(balance, balance_factor)));
        assert_int_equal(ig_optimizer_step(opt), IG_OK);
        must(f.ctx);
        if (captured && ig_capture_end(&program, f.ctx, &error) != IG_OK)
            fail_msg("%s", error.message);
        ig_scope_end(scope);
    }
    size_t at = 0;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(
            ig_tensor_read(all[i], (char *)out + at, ig_tensor_bytes(all[i]), NULL), IG_OK);
        at += ig_tensor_bytes(all[i]);
    }
    assert_int_equal(at, bytes);
    ig_params_set_training(f.p, false);
    ig_nn_experts(f.p, "moe", x,
                  &(ig_nn_experts_opts){
                      .n_experts = X, .n_chosen = 1, .n_inner = F, .counts_out = &counts});
    *busiest = ig_tensor_item(ig_max(counts, 0, NULL, false)) / ((double)TOKENS / X);
    ig_program_destroy(program);
    ig_optimizer_destroy(opt);
    end(&f);
}

/* Eager and captured, one thread and two: the same bits. The balance loss evens the load. */
static void test_steps(void **state)
{
    (void)state;
    static float first[N_GATE + N_UP + N_DOWN], other[N_GATE + N_UP + N_DOWN];
    double even, uneven;
    train(first, sizeof first, 1, false, 1, &even);
    train(other, sizeof other, 2, false, 1, &even);
    assert_memory_equal(first, other, sizeof first);
    train(other, sizeof other, 1, true, 1, &even);
    assert_memory_equal(first, other, sizeof first);
    train(other, sizeof other, 2, true, 1, &even);
    assert_memory_equal(first, other, sizeof first);
    train(other, sizeof other, 2, false, 0, &uneven);
    if (!(even < 1.5 && uneven > even))
        fail_msg("the busiest expert has %g times the mean, without the loss %g", even,
                 uneven);
}

/* ---- refusals, failing memory ----------------------------------------------------------------------------- */

static void fails(ig_context *ctx, ig_tensor *x, const char *words)
{
    assert_null(x);
    if (!strstr(ig_context_message(ctx), words))
        fail_msg("'%s' does not say '%s'", ig_context_message(ctx), words);
    ig_context_clear(ctx);
}

static void test_refused(void **state)
{
    (void)state;
    fixture f = begin(1);
    ig_tensor *x = ig_ones(f.ctx, IG_DTYPE_F32, IG_SHAPE(6, D));
    ig_nn_experts_opts o = {.n_experts = X, .n_inner = F, .n_chosen = 5};
    fails(f.ctx, ig_nn_experts(f.p, "m", x, &o), "5 of 4 chosen");
    o.n_chosen = 9;
    o.n_experts = 16;
    fails(f.ctx, ig_nn_experts(f.p, "m", x, &o), "at most 8");
    o = (ig_nn_experts_opts){.n_experts = X, .n_inner = F, .group = 4};
    fails(f.ctx, ig_nn_experts(f.p, "m", x, &o), "6 tokens are no whole groups of 4");
    fails(f.ctx, ig_nn_experts(f.p, "m", ig_select(x, 0, 0), &o),
          "experts: wants x [..,D]");
    assert_null(ig_nn_experts(f.p, "m", NULL, &o));
    must(f.ctx);
    assert_int_equal(ig_params_count(f.p), 0);
    end(&f);
}

static void test_faults(void **state)
{
    (void)state;
    for (int64_t nth = 1;; nth++) {
        fault_allocator fault = {.fail_nth = nth};
        const ig_allocator a = fault_allocator_of(&fault);
        const ig_context_opts opts = {.n_threads = 1, .allocator = &a};
        fixture f = {0};
        ig_status status = ig_context_create(&f.ctx, &opts, &error);
        if (status == IG_OK)
            status = ig_params_create(&f.p, f.ctx, &error);
        if (status == IG_OK) {
            ig_tensor *balance;
            const ig_nn_experts_opts o = {.n_experts = X,
                                          .n_inner = F,
                                          .capacity = 1,
                                          .second_at_random = true,
                                          .balance_out = &balance};
            ig_tensor *x = ig_normal(f.ctx, IG_DTYPE_F32, IG_SHAPE(N, D), 0, 1);
            x = ig_nn_experts(f.p, "moe", x, &o);
            ig_backward(ig_add(ig_sum(x, 0, NULL, false), balance));
            status = ig_context_status(f.ctx);
        }
        ig_params_destroy(f.p);
        ig_context_destroy(f.ctx);
        assert_int_equal(fault.n_alive, 0);
        if (fault.n_calls < nth) {
            assert_int_equal(status, IG_OK);
            assert_true(nth > 10);
            break;
        }
        assert_true(status == IG_ERR_MEMORY || status == IG_OK); /* OK: smaller did */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_loops),
        cmocka_unit_test(test_dropped_tokens),
        cmocka_unit_test(test_balance_when_even),
        cmocka_unit_test(test_second_at_random),
        cmocka_unit_test(test_steps),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_faults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
