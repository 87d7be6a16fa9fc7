/* Choosing a token: bias, penalties, top-k, typical, top-p, min-p, temperature, draw.
 *
 * HOW. Bias and penalties change a few logits of a copy. A greedy draw is then one pass.
 * Any other draw works on a set of candidates, which is never sorted. Top-p, typical and
 * the draw itself all ask the same thing: going from the best down, with which token does
 * the sum of probabilities pass a target? That is found by halving the range of logits,
 * again and again, and going on in the half that holds the answer: O(n), however flat the
 * distribution.
 *
 *     logits [V] --bias, penalties--> x [V] --top-k: heap; else all, or what min-p
 *     leaves--> set [n] --typical, top-p, min-p--> set [n] --temperature--> one uniform u
 *     in [0, 1): the token at which the sum passes u, equals ordered by id
 *
 * DEFINITIONS. Each filter sees the probabilities that the ones before it left, made to sum
 * to 1. A token that repeats in the window: a positive logit is divided by repeat_penalty,
 * a negative one multiplied, then presence + count * frequency is subtracted. Typical:
 * Meister et al., "Locally typical sampling", 2023, algorithm of section 4: smallest set of
 * tokens, by |-log p - entropy|, whose sum reaches typical_p. Top-p: Holtzman et al., "The
 * curious case of neural text degeneration", 2020, section 3.1. Min-p: a token stays if its
 * probability is at least min_p of the best one's. A wanted sum or share counts as reached
 * from (1 - 1e-6) of it on: options and logits are float32, and 0.3 is not 3 * 0.1 there.
 *
 * MEMORY. All of it is made at create; a draw allocates nothing. Tokens in the window are
 * counted as they come and go, in O(1) each.
 */
#include "infer/sampler_int.h"

#include "base/error.h"
#include "base/rng.h"
#include "infer/logits.h"
#include "tensor/context.h"

#include <float.h>
#include <string.h>

/* A sum that should reach s counts as doing so from s * ALMOST on. */
static const double ALMOST = 1.0 - 1e-6;

/* ---- options */

/* One number of the options and where it may lie. */
typedef struct domain {
    const char *name, *allowed;
    double value, least, most;
    bool above_least; /* least itself is outside */
} domain;

static ig_status check_domain(const domain *d, ig_error *err)
{
    if (d->value >= d->least && d->value <= d->most &&
        !(d->above_least && d->value == d->least))
        return IG_OK;
    return ig__fail(err, IG_ERR_ARGUMENT, "sampler: %s is %g, allowed is %s", d->name,
                    d->value, d->allowed);
}

static ig_status check_bias(const ig_sampler_opts *o, int64_t vocab, ig_error *err)
{
    if (o->n_bias < 0 || (o->n_bias > 0 && !o->bias))
        return ig__fail(err, IG_ERR_ARGUMENT, "sampler: n_bias is %lld, with %s",
                        (long long)o->n_bias, o->bias ? "a list" : "no list");
    for (int64_t i = 0; i < o->n_bias; i++) {
        if (o->bias[i].id < 0 || o->bias[i].id >= vocab)
            return ig__fail(err, IG_ERR_ARGUMENT,
                            "sampler: bias of token %d, allowed is [0, %lld)",
                            (int)o->bias[i].id, (long long)vocab);
        if (!(o->bias[i].bias <= FLT_MAX))
            return ig__fail(err, IG_ERR_ARGUMENT,
                            "sampler: bias of token %d is %g, allowed is finite or -inf",
                            (int)o->bias[i].id, (double)o->bias[i].bias);
    }
    return IG_OK;
}

static ig_status check_opts(const ig_sampler_opts *o, int64_t vocab, ig_error *err)
{
    const double inf = (double)FLT_MAX;
    const domain domains[] = {
        {"vocab", "[1, 2147483647]", (double)vocab, 1, (double)INT32_MAX, false},
        {"temperature", "[0, inf)", (double)o->temperature, 0, inf, false},
        {"top_k", "0 (off) or more", (double)o->top_k, 0, inf, false},
        {"top_p", "(0, 1]", (double)o->top_p, 0, 1, true},
        {"min_p", "[0, 1]", (double)o->min_p, 0, 1, false},
        {"typical_p", "(0, 1]", (double)o->typical_p, 0, 1, true},
        {"repeat_penalty", "(0, inf)", (double)o->repeat_penalty, 0, inf, true},
        {"repeat_last_n", "-1 (all) or more", (double)o->repeat_last_n, -1, inf, false},
        {"presence_penalty", "[-2, 2]", (double)o->presence_penalty, -2, 2, false},
        {"frequency_penalty", "[-2, 2]", (double)o->frequency_penalty, -2, 2, false},
    };
    for (size_t i = 0; i < sizeof domains / sizeof domains[0]; i++)
        IG_TRY(check_domain(&domains[i], err));
    return check_bias(o, vocab, err);
}

/* ---- the window of tokens that penalties see */

static void window_add(ig__window *w, int32_t id)
{
    if (w->count[id]++ == 0) {
        w->where[id] = (int32_t)w->n_distinct;
        w->distinct[w->n_distinct++] = id;
    }
}

static void window_remove(ig__window *w, int32_t id)
{
    if (--w->count[id] == 0) {
        const int32_t last = w->distinct[--w->n_distinct];
        w->distinct[w->where[id]] = last;
        w->where[last] = w->where[id];
    }
}

static void window_push(ig__window *w, int32_t id)
{
    if (w->ring) {
        if (w->n_ring == w->cap) {
            window_remove(w, w->ring[w->next]);
            w->n_ring--;
        }
        w->ring[w->next] = id;
        w->next = w->next + 1 == w->cap ? 0 : w->next + 1;
        w->n_ring++;
    }
    window_add(w, id);
}

static void window_clear(ig__window *w)
{
    for (int64_t i = 0; i < w->n_distinct; i++)
        w->count[w->distinct[i]] = 0;
    w->n_distinct = w->n_ring = w->next = 0;
}

/* ---- candidates */

/* What a token weighs: e^((x - max) * scale). */
typedef struct weighing {
    const float *x; /* [V] */
    float max, scale;
} weighing;

static double weight_of(const weighing *w, int32_t id)
{
    return (double)ig__exp_neg((w->x[id] - w->max) * w->scale);
}

static double set_sum(const ig_logprob *set, int64_t n, const weighing *w)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += weight_of(w, set[i].id);
    return sum;
}

static float set_max(const ig_logprob *set, int64_t n)
{
    float max = -INFINITY;
    for (int64_t i = 0; i < n; i++)
        max = set[i].logprob > max ? set[i].logprob : max;
    return max;
}

static int64_t set_keep(ig_logprob *set, int64_t n, float least)
{
    int64_t kept = 0;
    for (int64_t i = 0; i < n; i++)
        if (set[i].logprob >= least)
            set[kept++] = set[i];
    return kept;
}

static void swap(ig_logprob *a, ig_logprob *b)
{
    const ig_logprob t = *a;
    *a = *b;
    *b = t;
}

/* The part of a set in which a prefix ends: set[begin..end), `passed` is the weight of what
 * stands before it. */
typedef struct span {
    ig_logprob *set;
    int64_t begin, end;
    double passed;
} span;

/* The first m - begin of the span weigh `weight`: go on in them, or behind them. */
static void narrow(span *s, int64_t m, double weight, double target)
{
    if (s->passed + weight > target) {
        s->end = m;
    } else {
        s->begin = m;
        s->passed += weight;
    }
}

/* Halve the range of values; false if all are equal. Both halves hold one token or more. */
static bool halve_values(span *s, const weighing *w, double target)
{
    ig_logprob *set = s->set;
    float low = set[s->begin].logprob, high = low;
    for (int64_t i = s->begin + 1; i < s->end; i++) {
        low = set[i].logprob < low ? set[i].logprob : low;
        high = set[i].logprob > high ? set[i].logprob : high;
    }
    if (low == high)
        return false;
    float pivot = 0.5f * low + 0.5f * high;
    if (!(pivot > low && pivot <= high))
        pivot = high;
    int64_t m = s->begin;
    double weight = 0;
    for (int64_t i = s->begin; i < s->end; i++) {
        if (set[i].logprob >= pivot) {
            weight += weight_of(w, set[i].id);
            swap(&set[m++], &set[i]);
        }
    }
    narrow(s, m, weight, target);
    return true;
}

/* The same for the ids, lower first; false if one is left. */
static bool halve_ids(span *s, const weighing *w, double target)
{
    ig_logprob *set = s->set;
    int32_t low = set[s->begin].id, high = low;
    for (int64_t i = s->begin + 1; i < s->end; i++) {
        low = set[i].id < low ? set[i].id : low;
        high = set[i].id > high ? set[i].id : high;
    }
    if (low == high)
        return false;
    const int32_t pivot = low + (high - low) / 2;
    int64_t m = s->begin;
    double weight = 0;
    for (int64_t i = s->begin; i < s->end; i++) {
        if (set[i].id <= pivot) {
            weight += weight_of(w, set[i].id);
            swap(&set[m++], &set[i]);
        }
    }
    narrow(s, m, weight, target);
    return true;
}

/* The set ranked by its values, the largest first, then by id: the shortest prefix whose
 * weights sum to more than `target`. Puts it in front, its last token at its end, and
 * returns its length; 0 if even the whole set does not pass. n >= 1. */
static int64_t select_prefix(ig_logprob *set, int64_t n, const weighing *w, double target)
{
    span s = {.set = set, .end = n};
    while (halve_values(&s, w, target))
        continue;
    while (halve_ids(&s, w, target))
        continue;
    return s.passed + weight_of(w, set[s.begin].id) > target ? s.begin + 1 : 0;
}

/* The same for a share of the whole: never empty. */
static int64_t keep_share(ig_logprob *set, int64_t n, const weighing *w, double share,
                          double sum)
{
    const int64_t kept = select_prefix(set, n, w, share * ALMOST * sum);
    return kept > 0 ? kept : n;
}

/* Keep the tokens whose information -log p is nearest to the entropy. While they are
 * selected, the set's values are distances, negated: the largest is the nearest. */
static int64_t keep_typical(ig_logprob *set, int64_t n, const weighing *w, float typical_p)
{
    const double sum = set_sum(set, n, w);
    const double log_sum = log(sum);
    double entropy = log_sum;
    for (int64_t i = 0; i < n; i++) {
        const double below = (double)w->x[set[i].id] - (double)w->max;
        entropy -= weight_of(w, set[i].id) * below / sum;
    }
    for (int64_t i = 0; i < n; i++) {
        const double below = (double)w->x[set[i].id] - (double)w->max;
        set[i].logprob = (float)-fabs(log_sum - below - entropy);
    }
    n = keep_share(set, n, w, (double)typical_p, sum);
    for (int64_t i = 0; i < n; i++)
        set[i].logprob = w->x[set[i].id];
    return n;
}

static float min_p_least(const ig_sampler *s, float max)
{
    if (s->opts.min_p <= 0.0f)
        return -FLT_MAX;
    const double least = (double)max + log((double)s->opts.min_p * ALMOST);
    return least > -(double)FLT_MAX ? (float)least : -FLT_MAX;
}

/* The candidates for a draw: after top-k, typical, top-p and min-p. At least one. */
static int64_t gather(ig_sampler *s, const float *x, float max)
{
    const ig_sampler_opts *o = &s->opts;
    weighing w = {.x = x, .max = max, .scale = 1.0f};
    const bool is_whole = s->top_k == 0 && o->typical_p >= 1.0f; /* until top-p */
    int64_t n;
    if (s->top_k > 0) {
        n = ig__logits_top(s->set, s->top_k, x, s->vocab);
        n = set_keep(s->set, n, -FLT_MAX);
    } else {
        const bool only_min_p = is_whole && o->top_p >= 1.0f;
        n = ig__logits_at_least(s->set, x, s->vocab,
                                only_min_p ? min_p_least(s, max) : -FLT_MAX);
    }
    if (o->typical_p < 1.0f) {
        n = keep_typical(s->set, n, &w, o->typical_p);
        w.max = set_max(s->set, n);
    }
    if (o->top_p < 1.0f) {
        const double sum = is_whole ? ig__logits_exp_sum(x, s->vocab, max, 1.0f, -FLT_MAX)
                                    : set_sum(s->set, n, &w);
        n = keep_share(s->set, n, &w, (double)o->top_p, sum);
    }
    return o->min_p > 0.0f ? set_keep(s->set, n, min_p_least(s, w.max)) : n;
}

/* The token at which the sum of probabilities, from the best down, passes u. */
static int32_t draw(const ig_sampler *s, int64_t n, const float *x, double u)
{
    const weighing w = {
        .x = x, .max = set_max(s->set, n), .scale = 1.0f / s->opts.temperature};
    const double sum = n == s->vocab ? ig__logits_exp_sum(x, n, w.max, w.scale, -FLT_MAX)
                                     : set_sum(s->set, n, &w);
    const int64_t prefix = select_prefix(s->set, n, &w, u * sum);
    return s->set[prefix > 0 ? prefix - 1 : 0].id; /* 0: u is 1 but for rounding */
}

/* The logits after bias and penalties: the caller's own when there are none. */
static const float *changed_logits(ig_sampler *s, const float *logits)
{
    const ig__window *w = &s->window;
    if (s->opts.n_bias == 0 && w->n_distinct == 0)
        return logits;
    memcpy(s->changed, logits, (size_t)s->vocab * sizeof *logits);
    for (int64_t i = 0; i < s->opts.n_bias; i++)
        s->changed[s->bias[i].id] += s->bias[i].bias;
    for (int64_t i = 0; i < w->n_distinct; i++) {
        float *x = &s->changed[w->distinct[i]];
        *x = *x > 0.0f ? *x / s->opts.repeat_penalty : *x * s->opts.repeat_penalty;
        *x -= s->opts.presence_penalty +
              s->opts.frequency_penalty * (float)w->count[w->distinct[i]];
    }
    return s->changed;
}

/* ---- public */

ig_sampler_opts ig_sampler_defaults(void)
{
    return (ig_sampler_opts){.temperature = 0.8f,
                             .top_k = 40,
                             .top_p = 0.95f,
                             .min_p = 0.05f,
                             .typical_p = 1.0f,
                             .repeat_penalty = 1.0f,
                             .repeat_last_n = 64};
}

static void *alloc_array(const ig_allocator *a, int64_t n, size_t item)
{
    size_t bytes;
    return ig__mul(&bytes, (size_t)n, item) ? ig__alloc(a, bytes) : NULL;
}

/* Room for the window, if there are penalties that look at one. */
static bool make_window(ig__window *w, const ig_sampler_opts *o, int64_t vocab,
                        const ig_allocator *a)
{
    const bool penalties = o->repeat_penalty != 1.0f || o->presence_penalty != 0.0f ||
                           o->frequency_penalty != 0.0f;
    if (!penalties || o->repeat_last_n == 0)
        return true;
    w->cap = o->repeat_last_n;
    w->count = ig__alloc_zero(a, (size_t)vocab * sizeof *w->count);
    w->where = alloc_array(a, vocab, sizeof *w->where);
    w->distinct = alloc_array(a, vocab, sizeof *w->distinct);
    if (w->cap > 0)
        w->ring = alloc_array(a, w->cap, sizeof *w->ring);
    return w->count && w->where && w->distinct && (w->ring || w->cap < 0);
}

static bool make_arrays(ig_sampler *s, const ig_sampler_opts *o)
{
    const ig_allocator *a = &s->allocator;
    if (!make_window(&s->window, o, s->vocab, a))
        return false;
    if (o->n_bias > 0) {
        s->bias = alloc_array(a, o->n_bias, sizeof *s->bias);
        if (!s->bias)
            return false;
        memcpy(s->bias, o->bias, (size_t)o->n_bias * sizeof *s->bias);
    }
    if (o->n_bias > 0 || s->window.count) {
        s->changed = alloc_array(a, s->vocab, sizeof *s->changed);
        if (!s->changed)
            return false;
    }
    if (s->greedy)
        return true;
    s->set = alloc_array(a, s->top_k > 0 ? s->top_k : s->vocab, sizeof *s->set);
    return s->set != NULL;
}

ig_status ig_sampler_create(ig_sampler **sampler_out, ig_context *ctx, int64_t vocab,
                            const ig_sampler_opts *opts, ig_error *err)
{
    *sampler_out = NULL;
    const ig_sampler_opts defaults = ig_sampler_defaults();
    if (!opts)
        opts = &defaults;
    IG_TRY(check_opts(opts, vocab, err));
    ig_sampler *s = ig__alloc_zero(&ctx->allocator, sizeof *s);
    if (!s)
        return ig__fail_memory(err, "sampler", sizeof *s);
    s->allocator = ctx->allocator;
    s->opts = *opts;
    s->opts.bias = NULL;
    s->vocab = vocab;
    s->top_k = opts->top_k < vocab ? opts->top_k : 0;
    /* 1 / temperature must be finite; so near to 0 only the best has a weight */
    s->greedy = opts->temperature < FLT_MIN;
    if (!make_arrays(s, opts)) {
        ig_sampler_destroy(s);
        return ig__fail_memory(err, "sampler", (size_t)vocab * sizeof(float));
    }
    *sampler_out = s;
    return IG_OK;
}

void ig_sampler_destroy(ig_sampler *sampler)
{
    if (!sampler)
        return;
    const ig_allocator a = sampler->allocator;
    ig__free(&a, sampler->window.count);
    ig__free(&a, sampler->window.where);
    ig__free(&a, sampler->window.distinct);
    ig__free(&a, sampler->window.ring);
    ig__free(&a, sampler->bias);
    ig__free(&a, sampler->changed);
    ig__free(&a, sampler->set);
    ig__free(&a, sampler);
}

ig_status ig_sampler_accept(ig_sampler *sampler, const int32_t *ids, int64_t n,
                            ig_error *err)
{
    for (int64_t i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= sampler->vocab)
            return ig__fail(err, IG_ERR_ARGUMENT,
                            "sampler: token %d (number %lld), allowed is [0, %lld)",
                            (int)ids[i], (long long)i, (long long)sampler->vocab);
    if (sampler->window.count)
        for (int64_t i = 0; i < n; i++)
            window_push(&sampler->window, ids[i]);
    return IG_OK;
}

void ig__sampler_set_stream(ig_sampler *sampler, uint64_t stream)
{
    sampler->stream = stream;
}

void ig_sampler_reset(ig_sampler *sampler)
{
    window_clear(&sampler->window);
    sampler->n_draws = 0;
}

ig_status ig_sampler_draw(int32_t *id_out, ig_sampler *sampler, const float *logits,
                          ig_error *err)
{
    *id_out = -1;
    const float *x = changed_logits(sampler, logits);
    float max;
    int32_t id;
    if (!ig__logits_max(&max, &id, x, sampler->vocab))
        return ig__fail(err, IG_ERR_NUMERIC, "sampler: the logit of token %d is %s",
                        (int)id, isnan(max) ? "NaN" : "+infinity");
    if (max == -INFINITY)
        return ig__fail(err, IG_ERR_NUMERIC, "sampler: all %lld tokens are forbidden",
                        (long long)sampler->vocab);
    const double u = ig__uniform(sampler->opts.seed, sampler->stream, sampler->n_draws++);
    if (!sampler->greedy) {
        const int64_t n = gather(sampler, x, max);
        id = draw(sampler, n, x, u);
    }
    *id_out = id;
    return IG_OK;
}
