/* Choosing a token: bias, penalties, top-k, typical, top-p, min-p, temperature, draw.
 *
 * HOW. Bias and penalties change a few logits of a copy. A greedy draw is then one pass.
 * Any other draw works on a set of candidates (token, logit) that is ranked lazily: a heap
 * gives the best, the next best, ... only as far as top-p or the draw itself has to look.
 * With top-k the set is the k best; without, it is what min-p leaves, or just enough of the
 * most probable tokens that top-p (or the draw) cannot look further:
 *
 *     logits [V] --bias, penalties--> x [V] --top-k or a threshold--> set [n]
 *     set --typical--> set --top-p: ranked prefix, min-p--> set --temperature--> one
 * uniform number u in [0, 1): the first token, from the best down, at which the sum of
 *     probabilities passes u
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

static double weight_of(float logit, float max, float scale)
{
    return (double)ig__exp_neg((logit - max) * scale);
}

static float set_max(const ig_logprob *set, int64_t n)
{
    float max = -INFINITY;
    for (int64_t i = 0; i < n; i++)
        max = set[i].logprob > max ? set[i].logprob : max;
    return max;
}

static double set_sum(const ig_logprob *set, int64_t n, float max, float scale)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += weight_of(set[i].logprob, max, scale);
    return sum;
}

static int64_t set_keep(ig_logprob *set, int64_t n, float least)
{
    int64_t kept = 0;
    for (int64_t i = 0; i < n; i++)
        if (set[i].logprob >= least)
            set[kept++] = set[i];
    return kept;
}

/* Keep the tokens whose information -log p is nearest to the entropy. The set's values are
 * distances (negated: the best is the nearest) while it is ranked, then logits again. */
static int64_t keep_typical(ig_logprob *set, int64_t n, const float *x, double typical_p)
{
    const float max = set_max(set, n);
    const double sum = set_sum(set, n, max, 1.0f);
    const double log_sum = log(sum);
    double entropy = log_sum;
    for (int64_t i = 0; i < n; i++) {
        const double below = (double)set[i].logprob - (double)max;
        entropy -= weight_of(set[i].logprob, max, 1.0f) * below / sum;
    }
    for (int64_t i = 0; i < n; i++) {
        const double information = log_sum - ((double)set[i].logprob - (double)max);
        set[i].logprob = (float)-fabs(information - entropy);
    }
    ig__rank_begin(set, n);
    double reached = 0;
    int64_t n_left = n;
    while (n_left > 0 && reached < typical_p * sum * ALMOST) {
        ig__rank_pop(set, n_left--);
        reached += weight_of(x[set[n_left].id], max, 1.0f);
    }
    const int64_t kept = n - n_left;
    memmove(set, set + n_left, (size_t)kept * sizeof *set);
    for (int64_t i = 0; i < kept; i++)
        set[i].logprob = x[set[i].id];
    return kept;
}

/* The logit down to which the best tokens surely hold `share` of `sum`, the sum of all
 * weights: as far as ranking may have to look. */
static float reach_of(const float *x, int64_t vocab, float max, float scale, double share,
                      double sum)
{
    for (float nats = 4.0f; nats <= 32.0f; nats *= 2.0f) {
        const float least = max - nats / scale;
        if (!(least > -FLT_MAX))
            break;
        const double held = ig__logits_exp_sum(x, vocab, max, scale, least);
        if (held * ALMOST * ALMOST > share * sum)
            return least;
    }
    return -FLT_MAX;
}

static float min_p_least(const ig_sampler *s, float max)
{
    if (s->opts.min_p <= 0.0f)
        return -FLT_MAX;
    const double least = (double)max + log((double)s->opts.min_p * ALMOST);
    return least > -(double)FLT_MAX ? (float)least : -FLT_MAX;
}

/* What is left to be ranked, and what its shares are shares of. */
typedef struct candidates {
    ig_logprob *set; /* [n]; after i pops the i best stand at the end */
    int64_t n;
    float max;      /* the best logit */
    float scale;    /* 1 / temperature */
    double sum;     /* of e^(x - max): top-p's whole; filled if top_p < 1 */
    double hot_sum; /* of e^((x - max) * scale) over all that may be drawn; 0: not known */
} candidates;

/* With top-k or typical the set is small, or has to be whole. */
static void gather_filtered(candidates *c, ig_sampler *s, const float *x)
{
    if (s->top_k > 0) {
        c->n = ig__logits_top(c->set, s->top_k, x, s->vocab);
        c->n = set_keep(c->set, c->n, -FLT_MAX);
    } else {
        c->n = ig__logits_at_least(c->set, x, s->vocab, -FLT_MAX);
    }
    if (s->opts.typical_p < 1.0f) {
        c->n = keep_typical(c->set, c->n, x, (double)s->opts.typical_p);
        c->max = set_max(c->set, c->n);
    }
    c->sum = set_sum(c->set, c->n, c->max, 1.0f);
    c->n = set_keep(c->set, c->n, min_p_least(s, c->max));
}

/* Without them, all tokens are candidates: take those that ranking may come to. */
static void gather_wide(candidates *c, ig_sampler *s, const float *x, double u)
{
    float least = min_p_least(s, c->max);
    if (s->opts.top_p < 1.0f) {
        c->sum = ig__logits_exp_sum(x, s->vocab, c->max, 1.0f, -FLT_MAX);
        const float reach =
            reach_of(x, s->vocab, c->max, 1.0f, (double)s->opts.top_p, c->sum);
        least = reach > least ? reach : least;
    } else if (least == -FLT_MAX) {
        c->hot_sum = ig__logits_exp_sum(x, s->vocab, c->max, c->scale, -FLT_MAX);
        least = reach_of(x, s->vocab, c->max, c->scale, u, c->hot_sum);
    }
    c->n = ig__logits_at_least(c->set, x, s->vocab, least);
}

/* Draw by u: top-p cuts while ranking, then the first token at which the sum passes u. */
static int32_t draw(candidates *c, double top_p, double u)
{
    ig__rank_begin(c->set, c->n);
    int64_t n_ranked = 0;
    if (top_p < 1.0) {
        double reached = 0;
        c->hot_sum = 0;
        while (n_ranked < c->n && reached < top_p * c->sum * ALMOST) {
            ig__rank_pop(c->set, c->n - n_ranked++);
            const float logit = c->set[c->n - n_ranked].logprob;
            reached += weight_of(logit, c->max, 1.0f);
            c->hot_sum += weight_of(logit, c->max, c->scale);
        }
    } else if (c->hot_sum <= 0) {
        c->hot_sum = set_sum(c->set, c->n, c->max, c->scale);
    }
    const int64_t n_allowed = top_p < 1.0 ? n_ranked : c->n;
    double passed = 0;
    for (int64_t i = 0; i < n_allowed; i++) {
        if (i == n_ranked)
            ig__rank_pop(c->set, c->n - n_ranked++);
        const ig_logprob token = c->set[c->n - 1 - i];
        passed += weight_of(token.logprob, c->max, c->scale);
        if (passed > u * c->hot_sum)
            return token.id;
    }
    return c->set[c->n - n_allowed].id; /* rounding left u at the very end */
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
    candidates c = {.set = sampler->set};
    int32_t id;
    if (!ig__logits_max(&c.max, &id, x, sampler->vocab))
        return ig__fail(err, IG_ERR_NUMERIC, "sampler: the logit of token %d is %s",
                        (int)id, isnan(c.max) ? "NaN" : "+infinity");
    if (c.max == -INFINITY)
        return ig__fail(err, IG_ERR_NUMERIC, "sampler: all %lld tokens are forbidden",
                        (long long)sampler->vocab);
    const uint64_t i_draw = sampler->n_draws++;
    if (!sampler->greedy) {
        const double u = ig__uniform(sampler->opts.seed, 0, i_draw);
        c.scale = 1.0f / sampler->opts.temperature;
        if (sampler->top_k > 0 || sampler->opts.typical_p < 1.0f)
            gather_filtered(&c, sampler, x);
        else
            gather_wide(&c, sampler, x, u);
        id = draw(&c, (double)sampler->opts.top_p, u);
    }
    *id_out = id;
    return IG_OK;
}
