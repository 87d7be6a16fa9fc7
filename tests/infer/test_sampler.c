/* The sampler against a slow definition of itself: sort everything, sum in double.
 *
 * Each draw is compared with the token that the definition gives for the same uniform
 * number, over many options, vocabularies and ties; and frequencies are compared with
 * probabilities, which does not trust the uniform numbers either.
 */
#include "infer/fault_allocator.h"

#include "base/alloc.h"
#include "base/rng.h"
#include "infer/logits.h"
#include "tensor/context.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- the definition */

typedef struct item {
    int32_t id;
    double x;   /* logit */
    double p;   /* of those left, sums to 1 */
    double key; /* sorted by it, the largest first, then by id */
} item;

static int compare_items(const void *a, const void *b)
{
    const item *x = a, *y = b;
    if (x->key != y->key)
        return x->key > y->key ? -1 : 1;
    return x->id < y->id ? -1 : 1;
}

static void by_logit(item *items, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        items[i].key = items[i].x;
    qsort(items, (size_t)n, sizeof *items, compare_items);
}

static void softmax(item *items, int64_t n, double temperature)
{
    double max = -(double)INFINITY, sum = 0;
    for (int64_t i = 0; i < n; i++)
        max = fmax(max, items[i].x);
    for (int64_t i = 0; i < n; i++)
        sum += items[i].p = exp((items[i].x - max) / temperature);
    for (int64_t i = 0; i < n; i++)
        items[i].p /= sum;
}

/* The shortest prefix whose sum reaches share. */
static int64_t prefix_of(const item *items, int64_t n, double share)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        if ((sum += items[i].p) >= share * (1 - 1e-6))
            return i + 1;
    return n;
}

/* What may be drawn, best first, with probabilities; returns the count. */
static int64_t define(item *items, int64_t vocab, const float *logits,
                      const ig_sampler_opts *o, const int32_t *history, int64_t n_history)
{
    int64_t n = 0;
    for (int64_t i = 0; i < vocab; i++) {
        double x = (double)logits[i];
        for (int64_t b = 0; b < o->n_bias; b++)
            if (o->bias[b].id == i)
                x += (double)o->bias[b].bias;
        int64_t from = o->repeat_last_n < 0 ? 0 : n_history - o->repeat_last_n, count = 0;
        for (int64_t h = from < 0 ? 0 : from; h < n_history; h++)
            count += history[h] == i;
        if (count > 0) {
            x = x > 0 ? x / (double)o->repeat_penalty : x * (double)o->repeat_penalty;
            x -= (double)o->presence_penalty + (double)count * (double)o->frequency_penalty;
        }
        if (x > -(double)INFINITY)
            items[n++] = (item){.id = (int32_t)i, .x = x};
    }
    by_logit(items, n);
    if (o->top_k > 0 && n > o->top_k)
        n = o->top_k;
    softmax(items, n, 1);
    if (o->typical_p < 1.0f) {
        double entropy = 0;
        for (int64_t i = 0; i < n; i++)
            entropy -= items[i].p > 0 ? items[i].p * log(items[i].p) : 0;
        for (int64_t i = 0; i < n; i++)
            items[i].key = -fabs(-log(items[i].p) - entropy);
        qsort(items, (size_t)n, sizeof *items, compare_items);
        n = prefix_of(items, n, (double)o->typical_p);
        by_logit(items, n);
        softmax(items, n, 1);
    }
    if (o->top_p < 1.0f)
        n = prefix_of(items, n, (double)o->top_p);
    while (n > 1 && items[n - 1].p < (double)o->min_p * (1 - 1e-6) * items[0].p)
        n--;
    softmax(items, n, o->temperature > 0.0f ? (double)o->temperature : 1e-30);
    return n;
}

/* ---- shared */

static ig_context context_of(const ig_allocator *a)
{
    return (ig_context){.allocator = *a};
}

static ig_sampler *make(int64_t vocab, const ig_sampler_opts *opts)
{
    const ig_allocator a = ig__allocator_default();
    ig_context ctx = context_of(&a);
    ig_sampler *s;
    ig_error err = {0};
    if (ig_sampler_create(&s, &ctx, vocab, opts, &err) != IG_OK)
        fail_msg("%s", err.message);
    return s;
}

static int32_t draw(ig_sampler *s, const float *logits)
{
    int32_t id;
    ig_error err = {0};
    if (ig_sampler_draw(&id, s, logits, &err) != IG_OK)
        fail_msg("%s", err.message);
    return id;
}

static void accept(ig_sampler *s, const int32_t *ids, int64_t n)
{
    assert_int_equal(ig_sampler_accept(s, ids, n, NULL), IG_OK);
}

/* Everything off, temperature 1. */
static ig_sampler_opts plain(void)
{
    ig_sampler_opts o = ig_sampler_defaults();
    o.temperature = 1;
    o.top_k = 0;
    o.top_p = 1;
    o.min_p = 0;
    return o;
}

static uint64_t random_state;

static double random_unit(void)
{
    return ig__uniform(99, 1, random_state++);
}

/* Roughly normal. `step` > 0: multiples of it, so that there are ties. */
static void random_logits(float *x, int64_t n, double width, double step)
{
    for (int64_t i = 0; i < n; i++) {
        double v = 0;
        for (int j = 0; j < 6; j++)
            v += random_unit() - 0.5;
        v *= width;
        x[i] = (float)(step > 0 ? floor(v / step) * step : v);
    }
}

/* ---- draws equal the definition's */

/* Compare n_draws with the definition at the same uniform numbers. */
static void check_draws(int64_t vocab, const float *logits, const ig_sampler_opts *o,
                        const int32_t *history, int64_t n_history, int n_draws)
{
    item *items = malloc((size_t)vocab * sizeof *items);
    const int64_t n = define(items, vocab, logits, o, history, n_history);
    ig_sampler *s = make(vocab, o);
    accept(s, history, n_history);
    for (int i = 0; i < n_draws; i++) {
        const double u = o->temperature > 0.0f ? ig__uniform(o->seed, 0, (uint64_t)i) : 0;
        int64_t at = 0;
        double sum = items[0].p;
        while (at + 1 < n && sum <= u)
            sum += items[++at].p;
        const int32_t id = draw(s, logits);
        const bool near = fabs(sum - u) < 3e-6 || fabs(sum - items[at].p - u) < 3e-6;
        if (id != items[at].id && !near)
            fail_msg("V %d, T %g, k %d, p %g, min %g, typical %g: draw %d is %d, not %d",
                     (int)vocab, (double)o->temperature, o->top_k, (double)o->top_p,
                     (double)o->min_p, (double)o->typical_p, i, id, items[at].id);
    }
    ig_sampler_destroy(s);
    free(items);
}

static double pick(const double *of, int n)
{
    return of[(int)(random_unit() * n)];
}

static void draws_equal_definition(void **state)
{
    (void)state;
    static const int64_t vocabs[] = {1, 2, 3, 15, 16, 17, 40, 41, 255, 256, 257, 997, 5000};
    static const double temperatures[] = {0, 1e-30, 0.3, 0.8, 1, 3, 1e6};
    static const double ks[] = {0, 0, 1, 2, 40, 41, 100000};
    static const double ps[] = {1, 1, 0.95, 0.5, 0.1, 1e-6};
    static const double mins[] = {0, 0, 0.05, 0.3, 1};
    static const double typicals[] = {1, 1, 1, 0.9, 0.2};
    static const double widths[] = {0, 0.1, 2, 12, 60};
    for (int trial = 0; trial < 2000; trial++) {
        const int64_t vocab = vocabs[trial % 13];
        float *logits = malloc((size_t)vocab * sizeof *logits);
        random_logits(logits, vocab, pick(widths, 5), trial % 3 == 0 ? 0.5 : 0);
        for (int64_t i = 1; trial % 5 == 0 && i < vocab; i += 3)
            logits[i] = -INFINITY;
        ig_sampler_opts o = plain();
        o.seed = (uint64_t)trial;
        o.temperature = (float)pick(temperatures, 7);
        o.top_k = (int32_t)pick(ks, 7);
        o.top_p = (float)pick(ps, 6);
        o.min_p = (float)pick(mins, 5);
        o.typical_p = (float)pick(typicals, 5);
        int32_t history[50];
        ig_logit_bias bias[3];
        if (trial % 2) {
            o.repeat_last_n = trial % 7 == 0 ? -1 : trial % 31;
            o.repeat_penalty = 1.3f;
            o.presence_penalty = (float)(random_unit() * 4 - 2);
            o.frequency_penalty = (float)(random_unit() * 4 - 2);
        }
        for (int i = 0; i < 50; i++)
            history[i] = (int32_t)(random_unit() * (double)vocab) / 4;
        for (int i = 0; i < 3; i++)
            bias[i] = (ig_logit_bias){.id = (int32_t)(random_unit() * (double)vocab),
                                      .bias = (float)(random_unit() * 6)};
        if (trial % 4 == 1) {
            o.bias = bias;
            o.n_bias = 3;
        }
        check_draws(vocab, logits, &o, history, trial % 51, 8);
        free(logits);
    }
}

/* ---- frequencies equal probabilities */

/* Chi-square of n_draws against the definition, as a normal deviate (Wilson and Hilferty,
 * 1931); bins that expect less than 5 are joined. */
static double chi_square_deviate(const ig_sampler_opts *o, const float *logits,
                                 int64_t vocab, const int32_t *history, int64_t n_history,
                                 int n_draws)
{
    item items[64];
    int64_t n = define(items, vocab, logits, o, history, n_history);
    int seen[64] = {0};
    ig_sampler *s = make(vocab, o);
    accept(s, history, n_history);
    for (int i = 0; i < n_draws; i++)
        seen[draw(s, logits)]++;
    ig_sampler_destroy(s);
    double chi = 0, rest_expected = 0, rest_seen = n_draws;
    int freedom = -1;
    for (int64_t i = 0; i < n; i++) {
        const double expected = items[i].p * n_draws;
        if (expected < 5) {
            rest_expected += expected;
            continue;
        }
        const double d = seen[items[i].id] - expected;
        chi += d * d / expected;
        rest_seen -= seen[items[i].id];
        freedom++;
    }
    if (rest_expected >= 5) {
        chi += (rest_seen - rest_expected) * (rest_seen - rest_expected) / rest_expected;
        freedom++;
    } else {
        assert_true(rest_seen <= 25); /* tokens that the filters removed never come */
    }
    if (freedom < 1)
        return 0;
    const double f = 2.0 / (9.0 * freedom);
    return (cbrt(chi / freedom) - (1 - f)) / sqrt(f);
}

static void frequencies(void **state)
{
    (void)state;
    ig_sampler_opts cases[12];
    for (int i = 0; i < 12; i++)
        cases[i] = plain();
    cases[1].temperature = 0.6f;
    cases[2].temperature = 2.5f;
    cases[3].top_k = 7;
    cases[4].top_p = 0.8f;
    cases[5].min_p = 0.1f;
    cases[6].typical_p = 0.6f;
    cases[7].repeat_penalty = 1.5f;
    cases[8].presence_penalty = 1.5f;
    cases[9].frequency_penalty = -0.7f;
    static const ig_logit_bias bias[] = {{3, 2.5f}, {0, -INFINITY}, {61, -1}};
    cases[10].bias = bias;
    cases[10].n_bias = 3;
    cases[11] = (ig_sampler_opts){.temperature = 0.9f,
                                  .top_k = 30,
                                  .top_p = 0.97f,
                                  .min_p = 0.01f,
                                  .typical_p = 0.95f,
                                  .repeat_penalty = 1.2f,
                                  .repeat_last_n = 4,
                                  .presence_penalty = 0.3f,
                                  .frequency_penalty = 0.2f,
                                  .bias = bias,
                                  .n_bias = 3};
    float logits[62];
    random_state = 5000;
    random_logits(logits, 62, 4, 0);
    const int32_t history[] = {9, 1, 2, 2, 5, 2};
    for (int i = 0; i < 12; i++) {
        cases[i].seed = 1234 + (uint64_t)i;
        const double z = chi_square_deviate(&cases[i], logits, 62, history, 6, 200000);
        if (fabs(z) > 4)
            fail_msg("case %d: chi-square is %g standard deviations off", i, z);
    }
}

/* ---- single facts */

static void greedy_is_lowest_of_equals(void **state)
{
    (void)state;
    enum { V = 700 };
    float logits[V];
    ig_sampler_opts o = ig_sampler_defaults();
    o.temperature = 0;
    ig_sampler *s = make(V, &o);
    for (int64_t first = 0; first < V; first += 13) {
        for (int64_t i = 0; i < V; i++)
            logits[i] = i % 2 ? -INFINITY : -5.0f;
        for (int64_t i = first; i < V; i += 100)
            logits[i] = 7.0f;
        assert_int_equal(draw(s, logits), first);
    }
    for (int64_t i = 0; i < V; i++)
        logits[i] = -INFINITY;
    logits[V - 1] = -3e38f;
    assert_int_equal(draw(s, logits), V - 1);
    ig_sampler_destroy(s);
}

static void seeds_reproduce(void **state)
{
    (void)state;
    float logits[300];
    random_logits(logits, 300, 2, 0);
    ig_sampler_opts o = plain();
    o.seed = 7;
    ig_sampler *a = make(300, &o), *b = make(300, &o);
    o.seed = 8;
    ig_sampler *c = make(300, &o);
    int32_t first[50];
    int n_other = 0;
    for (int i = 0; i < 50; i++) {
        first[i] = draw(a, logits);
        assert_int_equal(draw(b, logits), first[i]);
        n_other += draw(c, logits) != first[i];
    }
    assert_true(n_other > 25);
    ig_sampler_reset(a);
    for (int i = 0; i < 50; i++)
        assert_int_equal(draw(a, logits), first[i]);
    ig_sampler_destroy(a);
    ig_sampler_destroy(b);
    ig_sampler_destroy(c);
}

static void window_forgets(void **state)
{
    (void)state;
    const float logits[4] = {1.0f, 0.9f, 0.8f, 0.7f};
    ig_sampler_opts o = plain();
    o.temperature = 0;
    o.presence_penalty = 1;
    o.repeat_last_n = 3;
    ig_sampler *s = make(4, &o);
    static const int32_t drawn[] = {0, 1, 2, 3, 0, 1, 2, 3};
    for (int i = 0; i < 8; i++) {
        const int32_t id = draw(s, logits);
        assert_int_equal(id, drawn[i]);
        accept(s, &id, 1);
    }
    ig_sampler_reset(s);
    assert_int_equal(draw(s, logits), 0);
    const int32_t wrong[] = {0, 4};
    ig_error err;
    assert_int_equal(ig_sampler_accept(s, wrong, 2, &err), IG_ERR_ARGUMENT);
    assert_string_equal(err.message, "sampler: token 4 (number 1), allowed is [0, 4)");
    assert_int_equal(draw(s, logits), 0); /* the 0 was not taken either */
    ig_sampler_destroy(s);
}

static void bias_forces_and_forbids(void **state)
{
    (void)state;
    float logits[100];
    random_logits(logits, 100, 12, 0);
    ig_logit_bias bias[100] = {{77, 100}};
    ig_sampler_opts o = ig_sampler_defaults();
    o.bias = bias;
    o.n_bias = 1;
    ig_sampler *s = make(100, &o);
    for (int i = 0; i < 100; i++)
        assert_int_equal(draw(s, logits), 77);
    ig_sampler_destroy(s);
    for (int i = 0; i < 100; i++)
        bias[i] = (ig_logit_bias){.id = i, .bias = -INFINITY};
    o.n_bias = 100;
    for (int greedy = 0; greedy < 2; greedy++) {
        o.temperature = greedy ? 0 : 1;
        s = make(100, &o);
        int32_t id;
        ig_error err;
        assert_int_equal(ig_sampler_draw(&id, s, logits, &err), IG_ERR_NUMERIC);
        assert_string_equal(err.message, "sampler: all 100 tokens are forbidden");
        ig_sampler_destroy(s);
    }
    o.n_bias = 99; /* one is left */
    s = make(100, &o);
    assert_int_equal(draw(s, logits), 99);
    ig_sampler_destroy(s);
}

static void bad_logits(void **state)
{
    (void)state;
    ig_sampler_opts o = ig_sampler_defaults();
    ig_sampler *s = make(1000, &o);
    for (int i = 0; i < 1000; i += 37) {
        float logits[1000] = {0};
        logits[i] = i % 2 ? NAN : INFINITY;
        char message[80];
        snprintf(message, sizeof message, "sampler: the logit of token %d is %s", i,
                 i % 2 ? "NaN" : "+infinity");
        int32_t id;
        ig_error err;
        assert_int_equal(ig_sampler_draw(&id, s, logits, &err), IG_ERR_NUMERIC);
        assert_string_equal(err.message, message);
        assert_int_equal(id, -1);
    }
    ig_sampler_destroy(s);
}

static void assert_refused(const ig_sampler_opts *o, int64_t vocab, const char *message)
{
    const ig_allocator a = ig__allocator_default();
    ig_context ctx = context_of(&a);
    ig_sampler *s = (ig_sampler *)&ctx;
    ig_error err;
    assert_int_equal(ig_sampler_create(&s, &ctx, vocab, o, &err), IG_ERR_ARGUMENT);
    assert_string_equal(err.message, message);
    assert_null(s);
}

static void options_outside(void **state)
{
    (void)state;
#define REFUSE(field, value, message)                                                      \
    do {                                                                                   \
        ig_sampler_opts o = ig_sampler_defaults();                                         \
        o.field = value;                                                                   \
        assert_refused(&o, 10, "sampler: " message);                                       \
    } while (0)
    REFUSE(top_p, 1.5f, "top_p is 1.5, allowed is (0, 1]");
    REFUSE(top_p, 0, "top_p is 0, allowed is (0, 1]");
    REFUSE(top_p, NAN, "top_p is nan, allowed is (0, 1]");
    REFUSE(temperature, -1, "temperature is -1, allowed is [0, inf)");
    REFUSE(temperature, INFINITY, "temperature is inf, allowed is [0, inf)");
    REFUSE(top_k, -1, "top_k is -1, allowed is 0 (off) or more");
    REFUSE(min_p, 1.25f, "min_p is 1.25, allowed is [0, 1]");
    REFUSE(typical_p, 0, "typical_p is 0, allowed is (0, 1]");
    REFUSE(repeat_penalty, 0, "repeat_penalty is 0, allowed is (0, inf)");
    REFUSE(repeat_last_n, -2, "repeat_last_n is -2, allowed is -1 (all) or more");
    REFUSE(presence_penalty, 2.5f, "presence_penalty is 2.5, allowed is [-2, 2]");
    REFUSE(frequency_penalty, -3, "frequency_penalty is -3, allowed is [-2, 2]");
    REFUSE(n_bias, 2, "n_bias is 2, with no list");
#undef REFUSE
    ig_logit_bias bias = {.id = 10, .bias = 1};
    ig_sampler_opts o = ig_sampler_defaults();
    o.bias = &bias;
    o.n_bias = 1;
    assert_refused(&o, 10, "sampler: bias of token 10, allowed is [0, 10)");
    bias = (ig_logit_bias){.id = 3, .bias = INFINITY};
    assert_refused(&o, 10, "sampler: bias of token 3 is inf, allowed is finite or -inf");
    bias.bias = NAN;
    assert_refused(&o, 10, "sampler: bias of token 3 is nan, allowed is finite or -inf");
    o = ig_sampler_defaults();
    assert_refused(&o, 0, "sampler: vocab is 0, allowed is [1, 2147483647]");
}

static void logits_are_not_changed(void **state)
{
    (void)state;
    float logits[50], before[50];
    random_logits(logits, 50, 3, 0);
    memcpy(before, logits, sizeof logits);
    const ig_logit_bias bias = {5, 3};
    ig_sampler_opts o = ig_sampler_defaults();
    o.bias = &bias;
    o.n_bias = 1;
    o.repeat_penalty = 2;
    ig_sampler *s = make(50, &o);
    const int32_t id = draw(s, logits);
    accept(s, &id, 1);
    draw(s, logits);
    assert_memory_equal(logits, before, sizeof logits);
    ig_sampler_destroy(s);
}

static void log_probabilities(void **state)
{
    (void)state;
    enum { V = 1025 };
    float logits[V];
    random_state = 777;
    random_logits(logits, V, 8, 0.25);
    logits[4] = -INFINITY;
    double sum = 0;
    for (int i = 0; i < V; i++)
        sum += exp((double)logits[i]);
    for (int i = 0; i < V; i++) {
        const float p = ig_logprob_of(logits, V, i);
        if (i == 4)
            assert_true(p == -INFINITY);
        else
            assert_true(fabs((double)p - ((double)logits[i] - log(sum))) < 2e-6);
    }
    assert_true(ig_logprob_of(logits, V, -1) == -INFINITY);
    assert_true(ig_logprob_of(logits, V, V) == -INFINITY);
    static const int64_t ns[] = {1, 2, 5, 100, V - 1, V, V + 10};
    static ig_logprob top[V + 10];
    for (int k = 0; k < 7; k++) {
        const int64_t n = ig_logprobs_top(top, ns[k], logits, V);
        assert_int_equal(n, ns[k] < V ? ns[k] : V);
        for (int64_t i = 0; i < n; i++) {
            assert_true(top[i].logprob == ig_logprob_of(logits, V, top[i].id));
            assert_true(i == 0 || ig__logit_better(top[i - 1], top[i]));
        }
        for (int64_t i = 0; i < V && n < V; i++) { /* none that is left out is better */
            const ig_logprob other = {(int32_t)i, ig_logprob_of(logits, V, (int32_t)i)};
            bool is_in = false;
            for (int64_t j = 0; j < n; j++)
                is_in |= top[j].id == i;
            assert_true(is_in || ig__logit_better(top[n - 1], other));
        }
    }
    assert_int_equal(ig_logprobs_top(top, 0, logits, V), 0);
}

static void exponential_is_close(void **state)
{
    (void)state;
    for (float x = -86.9f; x <= 0.0f; x += 0.0007f)
        assert_true(fabs((double)ig__exp_neg(x) / exp((double)x) - 1) < 3e-7);
    assert_true(ig__exp_neg(0.0f) == 1.0f);
    assert_true(ig__exp_neg(-INFINITY) == 0.0f);
    assert_true(ig__exp_neg(-3e38f) == 0.0f);
}

/* ---- memory */

static void draws_allocate_nothing(void **state)
{
    (void)state;
    fault_allocator f = {0};
    const ig_allocator a = fault_allocator_of(&f);
    ig_context ctx = context_of(&a);
    const ig_logit_bias bias = {5, 3};
    ig_sampler_opts o = ig_sampler_defaults();
    o.bias = &bias;
    o.n_bias = 1;
    o.repeat_penalty = 1.1f;
    o.typical_p = 0.9f;
    ig_sampler *s;
    assert_int_equal(ig_sampler_create(&s, &ctx, 100, &o, NULL), IG_OK);
    float logits[100];
    random_logits(logits, 100, 3, 0);
    const int64_t n_calls = f.n_calls;
    for (int i = 0; i < 200; i++) {
        const int32_t id = draw(s, logits);
        accept(s, &id, 1);
    }
    assert_int_equal(f.n_calls, n_calls);
    ig_sampler_destroy(s);
    assert_int_equal(f.n_alive, 0);
}

static void allocation_faults(void **state)
{
    (void)state;
    const ig_logit_bias bias = {5, 3};
    ig_sampler_opts o = ig_sampler_defaults();
    o.bias = &bias;
    o.n_bias = 1;
    o.repeat_penalty = 1.1f;
    for (int64_t nth = 1;; nth++) {
        fault_allocator f = {.fail_nth = nth};
        const ig_allocator a = fault_allocator_of(&f);
        ig_context ctx = context_of(&a);
        ig_sampler *s;
        ig_error err;
        const ig_status status = ig_sampler_create(&s, &ctx, 100, &o, &err);
        const bool through = f.n_calls < nth;
        assert_int_equal(status, through ? IG_OK : IG_ERR_MEMORY);
        assert_true(through || !s);
        ig_sampler_destroy(s);
        assert_int_equal(f.n_alive, 0);
        if (through) {
            assert_int_equal(nth, 9); /* itself, 4 of the window, bias, logits, set */
            break;
        }
    }
    ig_sampler_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(draws_equal_definition),
        cmocka_unit_test(frequencies),
        cmocka_unit_test(greedy_is_lowest_of_equals),
        cmocka_unit_test(seeds_reproduce),
        cmocka_unit_test(window_forgets),
        cmocka_unit_test(bias_forces_and_forbids),
        cmocka_unit_test(bad_logits),
        cmocka_unit_test(options_outside),
        cmocka_unit_test(logits_are_not_changed),
        cmocka_unit_test(log_probabilities),
        cmocka_unit_test(exponential_is_close),
        cmocka_unit_test(draws_allocate_nothing),
        cmocka_unit_test(allocation_faults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
