/* Each rule against its definition in double; clipping, skipped steps, loss scale, schedules. */
#include "ingot/ingot.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SMALL = 17, LARGE = 40000, STEPS = 6 };

static ig_context *context(int n_threads)
{
    ig_context *ctx;
    const ig_context_opts opts = {.n_threads = n_threads};
    assert_int_equal(ig_context_create(&ctx, &opts, NULL), IG_OK);
    return ctx;
}

static double draw(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(*state >> 11) / 9007199254740992.0 * 2 - 1;
}

static ig_tensor *leaf(ig_context *ctx, int n_dims, const int64_t *dims, const float *data)
{
    ig_tensor *x = ig_tensor_from(ctx, IG_DTYPE_F32, n_dims, dims, data);
    assert_non_null(x);
    return ig_tensor_require_grad(x, true);
}

/* Make g the gradient of p: of sum(p g). */
static void set_gradient(ig_tensor *p, const float *g)
{
    ig_context *ctx = ig_tensor_context(p);
    int64_t dims[8];
    for (int i = 0; i < ig_tensor_n_dims(p); i++)
        dims[i] = ig_tensor_dim(p, i);
    ig_scope *scope = ig_scope_begin(ctx);
    ig_tensor *c = ig_tensor_from(ctx, IG_DTYPE_F32, ig_tensor_n_dims(p), dims, g);
    assert_int_equal(ig_backward(ig_sum(ig_mul(p, c), 0, NULL, false)), IG_OK);
    ig_scope_end(scope);
}

typedef struct reference {
    double *p, *m, *v, *ema;
} reference;

/* One step of n elements with gradient scale * g, by the rules as their papers write them. */
static void reference_step(const ig_optimizer_opts *o, reference *r, const float *g,
                           int64_t n, int64_t t, double lr, double scale)
{
    for (int64_t i = 0; i < n; i++) {
        double *p = &r->p[i], *m = &r->m[i], *v = &r->v[i], d = scale * (double)g[i];
        if (o->clip_value > 0)
            d = fmin(fmax(d, -o->clip_value), o->clip_value);
        switch (o->rule) {
        case IG_RULE_SGD:
            d += o->weight_decay * *p;
            if (o->momentum > 0) {
                *m = t == 1 ? d : o->momentum * *m + (1 - o->dampening) * d;
                d = o->nesterov ? d + o->momentum * *m : *m;
            }
            *p -= lr * d;
            break;
        case IG_RULE_LION: {
            const double c = o->beta1 * *m + (1 - o->beta1) * d;
            *p = *p * (1 - lr * o->weight_decay) - lr * (c > 0 ? 1 : c < 0 ? -1 : 0);
            *m = o->beta2 * *m + (1 - o->beta2) * d;
            break;
        }
        default:
            if (o->rule == IG_RULE_ADAM)
                d += o->weight_decay * *p;
            else
                *p *= 1 - lr * o->weight_decay;
            *m = o->beta1 * *m + (1 - o->beta1) * d;
            *v = o->beta2 * *v + (1 - o->beta2) * d * d;
            *p -= lr * (*m / (1 - pow(o->beta1, (double)t))) /
                  (sqrt(*v / (1 - pow(o->beta2, (double)t))) + o->eps);
        }
        r->ema[i] += (1 - o->ema_decay) * (*p - r->ema[i]);
    }
}

static void follow(const ig_optimizer_opts *o, int64_t n, int n_threads)
{
    ig_context *ctx = context(n_threads);
    float *p = malloc((size_t)n * 4), *g = malloc((size_t)n * 4);
    double *all = calloc((size_t)n * 4, sizeof *all);
    reference r = {all, all + n, all + 2 * n, all + 3 * n};
    uint64_t state = 7;
    for (int64_t i = 0; i < n; i++) {
        p[i] = (float)draw(&state);
        r.p[i] = r.ema[i] = (double)p[i];
    }
    ig_tensor *w = leaf(ctx, 1, &n, p);
    ig_optimizer *opt;
    assert_int_equal(ig_optimizer_create(&opt, ctx, o, NULL), IG_OK);
    assert_int_equal(ig_optimizer_add(opt, &w, NULL, 1, NULL, NULL), IG_OK);
    for (int64_t t = 1; t <= STEPS; t++) {
        double squares = 0;
        for (int64_t i = 0; i < n; i++) {
            g[i] = (float)draw(&state);
            squares += (double)g[i] * (double)g[i];
        }
        const double norm = sqrt(squares);
        const double scale =
            o->clip_norm > 0 && norm > o->clip_norm ? o->clip_norm / norm : 1;
        const double lr = o->lr * ig_schedule_factor(&o->schedule, t - 1);
        ig_optimizer_clear_grads(opt);
        set_gradient(w, g);
        assert_int_equal(ig_optimizer_step(opt), IG_OK);
        reference_step(o, &r, g, n, t, lr, scale);
        const ig_optimizer_stats stats = ig_optimizer_get_stats(opt);
        assert_int_equal(stats.steps, t);
        assert_true(fabs(stats.lr - lr) <= 1e-12 * lr);
        if (o->clip_norm > 0)
            assert_true(fabs(stats.grad_norm - norm) < 1e-9 * norm);
        const float *got = ig_tensor_data(w);
        const float *ema =
            o->ema_decay > 0 ? ig_tensor_data(ig_optimizer_ema(opt, 0)) : NULL;
        for (int64_t i = 0; i < n; i++) {
            if (fabs((double)got[i] - r.p[i]) > 2e-6)
                fail_msg("step %d, element %d: %.9g, not %.9g", (int)t, (int)i,
                         (double)got[i], r.p[i]);
            if (ema && fabs((double)ema[i] - r.ema[i]) > 2e-6)
                fail_msg("step %d, average %d: %.9g, not %.9g", (int)t, (int)i,
                         (double)ema[i], r.ema[i]);
        }
    }
    ig_optimizer_destroy(opt);
    ig_context_destroy(ctx);
    free(p), free(g), free(all);
}

static void test_rules(void **state)
{
    (void)state;
    for (int threads = 1; threads <= 2; threads++)
        for (int k = 0; k < 9; k++) {
            static const ig_rule rules[] = {IG_RULE_SGD,   IG_RULE_ADAM, IG_RULE_ADAMW,
                                            IG_RULE_LION,  IG_RULE_SGD,  IG_RULE_SGD,
                                            IG_RULE_ADAMW, IG_RULE_ADAM, IG_RULE_LION};
            ig_optimizer_opts o = ig_optimizer_defaults(rules[k]);
            o.lr = 0.01;
            o.weight_decay = k % 2 ? 0.1 : 0;
            o.momentum = k >= 4 && rules[k] == IG_RULE_SGD ? 0.9 : 0;
            o.nesterov = k == 5;
            o.dampening = k == 4 ? 0.5 : 0;
            o.clip_norm = k >= 6 ? 0.5 : 0;
            o.clip_value = k == 3 ? 0.25 : 0;
            o.ema_decay = k == 2 || k == 5 ? 0.9 : 0;
            if (k == 6)
                o.schedule = (ig_schedule){IG_SCHEDULE_COSINE, .warmup = 2, .total = 5,
                                           .floor = 0.1};
            follow(&o, SMALL, threads);
            if (k == 2 || k == 6)
                follow(&o, LARGE, threads);
        }
}

static void test_schedules(void **state)
{
    (void)state;
    const struct {
        ig_schedule s;
        int64_t step;
        double want;
    } cases[] = {
        {{.kind = IG_SCHEDULE_CONSTANT}, 12, 1},
        {{IG_SCHEDULE_CONSTANT, .warmup = 4}, 0, 0.25},
        {{IG_SCHEDULE_CONSTANT, .warmup = 4}, 3, 1},
        {{IG_SCHEDULE_LINEAR, .total = 10}, 5, 0.5},
        {{IG_SCHEDULE_LINEAR, .total = 10, .floor = 0.2}, 10, 0.2},
        {{IG_SCHEDULE_LINEAR, .total = 10, .floor = 0.2}, 99, 0.2},
        {{IG_SCHEDULE_COSINE, .warmup = 100, .total = 2100, .floor = 0.1}, 100, 1},
        {{IG_SCHEDULE_COSINE, .warmup = 100, .total = 2100, .floor = 0.1}, 1100, 0.55},
        {{IG_SCHEDULE_COSINE, .warmup = 100, .total = 2100, .floor = 0.1}, 2100, 0.1},
        {{IG_SCHEDULE_STABLE, .total = 100, .decay = 20}, 79, 1},
        {{IG_SCHEDULE_STABLE, .total = 100, .decay = 20}, 90, 0.5},
        {{IG_SCHEDULE_STABLE, .total = 100, .decay = 20, .floor = 0.5}, 100, 0.5},
        {{IG_SCHEDULE_INVERSE_SQRT, .warmup = 25}, 99, 0.5},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_true(fabs(ig_schedule_factor(&cases[i].s, cases[i].step) - cases[i].want) <
                    1e-12);
}

/* 100 gradients of 1e20, limit 1: the norm is 1e21 and each becomes 0.1. */
static void test_huge_norm(void **state)
{
    (void)state;
    ig_context *ctx = context(1);
    ig_optimizer_opts o = ig_optimizer_defaults(IG_RULE_SGD);
    o.lr = 1;
    o.clip_norm = 1;
    float p[100] = {0}, g[100];
    const int64_t n = 100;
    for (int i = 0; i < 100; i++)
        g[i] = 1e20f;
    ig_tensor *w = leaf(ctx, 1, &n, p);
    ig_optimizer *opt;
    assert_int_equal(ig_optimizer_create(&opt, ctx, &o, NULL), IG_OK);
    assert_int_equal(ig_optimizer_add(opt, &w, NULL, 1, NULL, NULL), IG_OK);
    set_gradient(w, g);
    assert_int_equal(ig_optimizer_step(opt), IG_OK);
    assert_true(fabs(ig_optimizer_get_stats(opt).grad_norm / 1e21 - 1) < 1e-6);
    for (int i = 0; i < 100; i++)
        assert_true(fabsf(((float *)ig_tensor_data(w))[i] + 0.1f) < 1e-7f);
    /* zeros stay zeros */
    memset(g, 0, sizeof g);
    ig_optimizer_clear_grads(opt);
    set_gradient(w, g);
    memset(ig_tensor_data(w), 0, sizeof p);
    assert_int_equal(ig_optimizer_step(opt), IG_OK);
    assert_memory_equal(ig_tensor_data(w), p, sizeof p);
    ig_optimizer_destroy(opt);
    ig_context_destroy(ctx);
}

static void test_not_finite(void **state)
{
    (void)state;
    const ig_rule rules[] = {IG_RULE_SGD, IG_RULE_ADAMW, IG_RULE_LION, IG_RULE_MUON,
                             IG_RULE_ADAFACTOR};
    const float bad[] = {NAN, INFINITY, -INFINITY};
    for (size_t k = 0; k < 3 * (sizeof rules / sizeof *rules); k++) {
        ig_context *ctx = context(1);
        ig_optimizer_opts o = ig_optimizer_defaults(rules[k / 3]);
        o.clip_norm = 1;
        o.loss_scale = 1024;
        o.dynamic_scale = true;
        o.growth_interval = 2;
        o.ema_decay = 0.5;
        const int64_t dims[2] = {4, 3};
        float p[12], g[12];
        for (int i = 0; i < 12; i++)
            p[i] = g[i] = (float)(i + 1) / 12;
        ig_tensor *w[2] = {leaf(ctx, 2, dims, p), leaf(ctx, 2, dims, p)};
        const char *const names[2] = {"h.2.mlp.w", "h.3.mlp.w"};
        ig_optimizer *opt;
        assert_int_equal(ig_optimizer_create(&opt, ctx, &o, NULL), IG_OK);
        assert_int_equal(ig_optimizer_add(opt, w, names, 2, NULL, NULL), IG_OK);
        set_gradient(w[0], g);
        g[5] = bad[k % 3];
        set_gradient(w[1], g);
        assert_int_equal(ig_optimizer_step(opt), IG_OK);
        ig_optimizer_stats s = ig_optimizer_get_stats(opt);
        assert_int_equal(s.steps, 0);
        assert_int_equal(s.skipped, 1);
        assert_true(s.last_skipped);
        assert_string_equal(s.bad_name, "h.3.mlp.w");
        assert_int_equal(s.n_bad, 1);
        assert_true(s.loss_scale == 512);
        const char *name;
        for (int64_t i = 1; ig_optimizer_state(opt, i, &name); i++) {
            ig_tensor *x = ig_optimizer_state(opt, i, &name);
            const float *v = ig_tensor_data(x);
            for (int64_t e = 0; e < ig_tensor_count(x); e++)
                assert_true(strstr(name, ".ema") ? v[e] == p[e] : v[e] == 0);
        }
        for (int i = 0; i < 2; i++)
            assert_memory_equal(ig_tensor_data(w[i]), p, sizeof p);
        g[5] = 0.5f;
        for (int step = 0; step < 2; step++) {
            ig_optimizer_clear_grads(opt);
            set_gradient(w[0], g);
            set_gradient(w[1], g);
            assert_int_equal(ig_optimizer_step(opt), IG_OK);
        }
        s = ig_optimizer_get_stats(opt);
        assert_int_equal(s.steps, 2);
        assert_false(s.last_skipped);
        assert_true(s.loss_scale == 1024);
        assert_true(memcmp(ig_tensor_data(w[1]), p, sizeof p) != 0);
        ig_optimizer_destroy(opt);
        ig_context_destroy(ctx);
    }
}

/* A scaled loss gives the steps of the plain one. */
static void test_loss_scale(void **state)
{
    (void)state;
    float got[2][SMALL];
    for (int scaled = 0; scaled < 2; scaled++) {
        ig_context *ctx = context(1);
        ig_optimizer_opts o = ig_optimizer_defaults(IG_RULE_ADAMW);
        o.clip_norm = 0.5;
        o.clip_value = 0.3;
        o.loss_scale = scaled ? 4096 : 0;
        const int64_t n = SMALL;
        float p[SMALL];
        uint64_t rng = 3;
        for (int i = 0; i < SMALL; i++)
            p[i] = (float)draw(&rng);
        ig_tensor *w = leaf(ctx, 1, &n, p);
        ig_optimizer *opt;
        assert_int_equal(ig_optimizer_create(&opt, ctx, &o, NULL), IG_OK);
        assert_int_equal(ig_optimizer_add(opt, &w, NULL, 1, NULL, NULL), IG_OK);
        for (int t = 0; t < 3; t++) {
            ig_optimizer_clear_grads(opt);
            ig_tensor *loss = ig_sum(ig_square(w), 0, NULL, false);
            assert_int_equal(ig_backward(ig_optimizer_scale_loss(opt, loss)), IG_OK);
            assert_int_equal(ig_optimizer_step(opt), IG_OK);
        }
        memcpy(got[scaled], ig_tensor_data(w), sizeof got[0]);
        ig_optimizer_destroy(opt);
        ig_context_destroy(ctx);
    }
    for (int i = 0; i < SMALL; i++)
        assert_true(fabsf(got[0][i] - got[1][i]) < 1e-6f);
}

/* Muon's step is nearly orthogonal: of a matrix with singular values 3 and 0.5, both near 1. */
static void test_muon(void **state)
{
    (void)state;
    ig_context *ctx = context(1);
    ig_optimizer_opts o = ig_optimizer_defaults(IG_RULE_MUON);
    o.lr = 1;
    const int64_t dims[2] = {3, 2};
    const float zero[6] = {0}, g[6] = {0, 3, 0, 0, 0.5f, 0};
    ig_tensor *w = leaf(ctx, 2, dims, zero);
    ig_optimizer *opt;
    assert_int_equal(ig_optimizer_create(&opt, ctx, &o, NULL), IG_OK);
    assert_int_equal(ig_optimizer_add(opt, &w, NULL, 1, NULL, NULL), IG_OK);
    set_gradient(w, g);
    assert_int_equal(ig_optimizer_step(opt), IG_OK);
    const float *x = ig_tensor_data(w);
    const float up = sqrtf(1.5f); /* sqrt(rows / columns) */
    assert_true(-x[1] / up > 0.65f && -x[1] / up < 1.25f);
    assert_true(-x[4] / up > 0.65f && -x[4] / up < 1.25f);
    assert_true(fabsf(x[0]) + fabsf(x[2]) + fabsf(x[3]) + fabsf(x[5]) < 1e-6f);
    ig_optimizer_destroy(opt);
    ig_context_destroy(ctx);
}

static void test_adafactor(void **state)
{
    (void)state;
    enum { N = 3, K = 5 };
    ig_context *ctx = context(1);
    ig_optimizer_opts o = ig_optimizer_defaults(IG_RULE_ADAFACTOR);
    const int64_t dims[2] = {N, K};
    float p[N * K], g[N * K];
    double w[N * K], rows[N] = {0}, columns[K] = {0};
    uint64_t rng = 5;
    for (int i = 0; i < N * K; i++)
        w[i] = (double)(p[i] = (float)draw(&rng));
    ig_tensor *x = leaf(ctx, 2, dims, p);
    ig_optimizer *opt;
    assert_int_equal(ig_optimizer_create(&opt, ctx, &o, NULL), IG_OK);
    assert_int_equal(ig_optimizer_add(opt, &x, NULL, 1, NULL, NULL), IG_OK);
    for (int t = 1; t <= STEPS; t++) {
        const double rest = pow(t, -0.8);
        double mean = 0, u[N * K], squares = 0;
        for (int i = 0; i < N * K; i++)
            g[i] = (float)draw(&rng);
        for (int i = 0; i < N; i++) {
            double m = 0;
            for (int j = 0; j < K; j++)
                m += (double)g[i * K + j] * (double)g[i * K + j] / K;
            rows[i] += rest * (m - rows[i]);
            mean += rows[i] / N;
        }
        for (int j = 0; j < K; j++) {
            double m = 0;
            for (int i = 0; i < N; i++)
                m += (double)g[i * K + j] * (double)g[i * K + j] / N;
            columns[j] += rest * (m - columns[j]);
        }
        for (int i = 0; i < N * K; i++) {
            u[i] = (double)g[i] / sqrt(rows[i / K] / mean * columns[i % K]);
            squares += u[i] * u[i];
        }
        const double rms = sqrt(squares / (N * K));
        for (int i = 0; i < N * K; i++)
            w[i] -= o.lr * u[i] / fmax(1, rms);
        ig_optimizer_clear_grads(opt);
        set_gradient(x, g);
        assert_int_equal(ig_optimizer_step(opt), IG_OK);
        for (int i = 0; i < N * K; i++)
            assert_true(fabs((double)((float *)ig_tensor_data(x))[i] - w[i]) < 5e-6);
    }
    ig_optimizer_destroy(opt);
    ig_context_destroy(ctx);
}

static void test_groups(void **state)
{
    (void)state;
    ig_context *ctx = context(1);
    ig_optimizer_opts o = ig_optimizer_defaults(IG_RULE_SGD);
    o.lr = 0.5;
    o.weight_decay = 0.1;
    const int64_t n = 1;
    const float one = 1, zero = 0;
    ig_tensor *w[2] = {leaf(ctx, 1, &n, &one), leaf(ctx, 1, &n, &one)};
    ig_tensor *bf16 = ig_zeros(ctx, IG_DTYPE_BF16, 1, &n);
    ig_optimizer *opt;
    assert_int_equal(ig_optimizer_create(&opt, ctx, &o, NULL), IG_OK);
    assert_int_equal(ig_optimizer_add(opt, &w[0], NULL, 1, NULL, NULL), IG_OK);
    const ig_param_group group = {
        .lr_scale = 0.5, .no_weight_decay = true, .bf16_copies = &bf16};
    assert_int_equal(ig_optimizer_add(opt, &w[1], NULL, 1, &group, NULL), IG_OK);
    set_gradient(w[0], &zero);
    set_gradient(w[1], &one);
    assert_int_equal(ig_optimizer_step(opt), IG_OK);
    assert_true(fabs(ig_tensor_item(w[0]) - 0.95) < 1e-7);
    assert_true(ig_tensor_item(w[1]) == 0.75 && ig_tensor_item(bf16) == 0.75);
    ig_optimizer_destroy(opt);
    ig_context_destroy(ctx);
}

static void test_options(void **state)
{
    (void)state;
    ig_context *ctx = context(1);
    ig_optimizer *opt;
    ig_error err;
    ig_optimizer_opts o = ig_optimizer_defaults(IG_RULE_ADAMW);
    o.clip_norm = -1;
    assert_int_equal(ig_optimizer_create(&opt, ctx, &o, &err), IG_ERR_ARGUMENT);
    assert_string_equal(err.message,
                        "optimizer: clip_norm is -1, allowed is 0 to below inf");
    o = ig_optimizer_defaults(IG_RULE_ADAMW);
    o.beta1 = 1;
    assert_int_equal(ig_optimizer_create(&opt, ctx, &o, &err), IG_ERR_ARGUMENT);
    o = ig_optimizer_defaults(IG_RULE_ADAMW);
    o.schedule = (ig_schedule){IG_SCHEDULE_COSINE, .warmup = 10, .total = 10};
    assert_int_equal(ig_optimizer_create(&opt, ctx, &o, &err), IG_ERR_ARGUMENT);
    assert_non_null(strstr(err.message, "schedule.total is 10"));
    o = ig_optimizer_defaults(IG_RULE_ADAMW);
    assert_int_equal(ig_optimizer_create(&opt, ctx, &o, &err), IG_OK);
    const int64_t n = 3;
    ig_tensor *x = ig_zeros(ctx, IG_DTYPE_F32, 1, &n);
    assert_int_equal(ig_optimizer_add(opt, &x, NULL, 1, NULL, &err), IG_ERR_ARGUMENT);
    /* a parameter twice would move twice a step; a step of none would learn nothing */
    assert_int_equal(ig_optimizer_step(opt), IG_ERR_ARGUMENT);
    assert_string_equal(ig_context_message(ctx), "optimizer: it has no parameters");
    ig_context_clear(ctx);
    const char *name = "x";
    ig_tensor_require_grad(x, true);
    assert_int_equal(ig_optimizer_add(opt, &x, &name, 1, NULL, &err), IG_OK);
    assert_int_equal(ig_optimizer_add(opt, &x, &name, 1, NULL, &err), IG_ERR_ARGUMENT);
    assert_non_null(strstr(err.message, "x is added a second time"));
    ig_optimizer_destroy(opt);
    o.eps = 0;
    assert_int_equal(ig_optimizer_create(&opt, ctx, &o, &err), IG_ERR_ARGUMENT);
    assert_non_null(strstr(err.message, "eps is 0"));
    assert_int_equal(ig_optimizer_create(&opt, ctx, NULL, &err), IG_ERR_ARGUMENT);
    ig_context_destroy(ctx);
}

/* A set's parameters: the matrix shrinks, the bias does not, what is frozen is left out; names come along. */
static void test_add_params(void **state)
{
    (void)state;
    ig_context *ctx;
    ig_params *p;
    ig_optimizer *opt;
    const ig_context_opts one = {.n_threads = 1};
    assert_int_equal(ig_context_create(&ctx, &one, NULL), IG_OK);
    assert_int_equal(ig_params_create(&p, ctx, NULL), IG_OK);
    const ig_init ones = {.kind = IG_INIT_ONES};
    ig_tensor *frozen = ig_param(p, "frozen.weight", ones, IG_SHAPE(2, 3));
    ig_tensor *w = ig_param(p, "a.weight", ones, IG_SHAPE(2, 3));
    ig_tensor *b = ig_param(p, "a.bias", ones, IG_SHAPE(3));
    assert_int_equal(ig_params_freeze(p, "frozen", true), 1);
    ig_optimizer_opts opts = ig_optimizer_defaults(IG_RULE_ADAMW);
    opts.lr = 0.1;
    opts.weight_decay = 0.5;
    assert_int_equal(ig_optimizer_create(&opt, ctx, &opts, NULL), IG_OK);
    ig_params *empty; /* its network was not called yet */
    ig_error err;
    assert_int_equal(ig_params_create(&empty, ctx, NULL), IG_OK);
    assert_int_equal(ig_optimizer_add_params(opt, empty, &err), IG_ERR_ARGUMENT);
    assert_non_null(strstr(err.message, "no parameter to be trained"));
    ig_params_destroy(empty);
    assert_int_equal(ig_optimizer_add_params(opt, p, NULL), IG_OK);
    ig_tensor *nothing = ig_scale(ig_mul(ig_mul(w, b), frozen), 0);
    assert_int_equal(ig_backward(ig_sum(nothing, 0, NULL, false)), IG_OK);
    assert_int_equal(ig_optimizer_step(opt), IG_OK);
    assert_true(fabs(ig_tensor_item(ig_mean(w, 0, NULL, false)) - 0.95) < 1e-6);
    assert_true(ig_tensor_item(ig_mean(b, 0, NULL, false)) == 1);
    assert_true(ig_tensor_item(ig_mean(frozen, 0, NULL, false)) == 1);
    bool weight = false, other = false;
    const char *name;
    for (int64_t i = 0; ig_optimizer_state(opt, i, &name); i++) {
        weight |= !strcmp(name, "a.weight.m");
        other |= !strncmp(name, "frozen", 6);
    }
    assert_true(weight && !other);
    ig_optimizer_destroy(opt);
    ig_params_destroy(p);
    ig_context_destroy(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_add_params), cmocka_unit_test(test_rules),
        cmocka_unit_test(test_schedules),  cmocka_unit_test(test_huge_norm),
        cmocka_unit_test(test_not_finite), cmocka_unit_test(test_loss_scale),
        cmocka_unit_test(test_muon),       cmocka_unit_test(test_adafactor),
        cmocka_unit_test(test_groups),     cmocka_unit_test(test_options),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
