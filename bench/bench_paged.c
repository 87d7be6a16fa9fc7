/* How many requests fit one pool of KV memory, and how much of it holds tokens: pages against
 * contiguous reservation, the comparison of figure 2 of Kwon et al. (SOSP 2023).
 *
 *   bench_paged MODEL [n_requests] [pool_tokens [page_tokens]]      defaults: 300, 16384, 16
 *
 * Lengths are drawn from exponential distributions with the means of ShareGPT (prompts 161,
 * answers 338 tokens), cut at 1024 each: a context of 2048. All requests wait from the start,
 * first come, first served. `paged` is the engine itself, over any small model; the others are
 * a simulation with a buddy allocator: `max` reserves the context, `pow2` the prompt and the
 * next power of two of the answer, `oracle` exactly what will be needed. Means are over the
 * steps in which somebody waits. One JSON line a policy:
 *
 *   running   requests at once
 *   used      share of the pool that holds tokens
 *   waste     share of what was taken from the pool that does not hold tokens
 */
#include "base/rng.h"
#include "ingot/ingot.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CONTEXT = 2048, MOST = 1024, MAX_ORDER = 40 };

typedef struct load {
    int64_t n, pool;
    int64_t *prompt, *answer; /* [n] tokens */
} load;

typedef struct result {
    double n_steps, running, used, taken; /* sums over steps */
} result;

static void fail(const char *what)
{
    fprintf(stderr, "bench_paged: %s\n", what);
    exit(1);
}

static void *take(size_t n, size_t item)
{
    void *p = calloc(n ? n : 1, item);
    if (!p)
        fail("out of memory");
    return p;
}

static int64_t draw_length(double mean, uint64_t stream, int64_t i)
{
    const double u = ig__uniform(1, stream, (uint64_t)i);
    const double n = 1 - mean * log(1 - u);
    return n < MOST ? (int64_t)n : MOST;
}

static load draw_load(int64_t n, int64_t pool)
{
    load l = {.n = n, .pool = pool};
    l.prompt = take((size_t)n, sizeof *l.prompt);
    l.answer = take((size_t)n, sizeof *l.answer);
    for (int64_t i = 0; i < n; i++) {
        l.prompt[i] = draw_length(161.31, 0, i);
        l.answer[i] = draw_length(337.99, 1, i);
    }
    return l;
}

/* ---- contiguous: a buddy allocator over tokens ---- */

typedef struct buddy {
    bool *free[MAX_ORDER]; /* [pool >> order] blocks of 2^order tokens */
    int orders;
    int64_t pool;
} buddy;

static buddy make_buddy(int64_t pool)
{
    buddy b = {.pool = pool};
    while ((int64_t)1 << (b.orders + 1) <= pool)
        b.orders++;
    for (int k = 0; k <= b.orders; k++)
        b.free[k] = take((size_t)(pool >> k), sizeof(bool));
    for (int64_t i = 0; i < pool >> b.orders; i++)
        b.free[b.orders][i] = true;
    return b;
}

static int order_of(int64_t n)
{
    int k = 0;
    while ((int64_t)1 << k < n)
        k++;
    return k;
}

/* A block of 2^k tokens: its number; -1: there is none. */
static int64_t buddy_take(buddy *b, int k)
{
    for (int j = k; j <= b->orders; j++)
        for (int64_t i = 0; i < b->pool >> j; i++) {
            if (!b->free[j][i])
                continue;
            b->free[j][i] = false;
            for (; j > k; j--, i *= 2) /* split: the right halves stay free */
                b->free[j - 1][2 * i + 1] = true;
            return i;
        }
    return -1;
}

static void buddy_give(buddy *b, int k, int64_t i)
{
    while (k < b->orders && b->free[k][i ^ 1]) {
        b->free[k][i ^ 1] = false;
        i /= 2;
        k++;
    }
    b->free[k][i] = true;
}

static int64_t reserve_max(int64_t prompt, int64_t answer)
{
    (void)prompt, (void)answer;
    return CONTEXT;
}

static int64_t reserve_pow2(int64_t prompt, int64_t answer)
{
    return prompt + ((int64_t)1 << order_of(answer));
}

static int64_t reserve_oracle(int64_t prompt, int64_t answer)
{
    return prompt + answer;
}

static result run_contiguous(const load *l, int64_t (*reserve)(int64_t, int64_t))
{
    buddy b = make_buddy(l->pool);
    int64_t *block = take((size_t)l->n, sizeof *block);
    int64_t *length = take((size_t)l->n, sizeof *length); /* 0: does not run */
    int *order = take((size_t)l->n, sizeof *order);
    result r = {0};
    for (int64_t next = 0; next < l->n;) {
        for (; next < l->n; next++) {
            order[next] = order_of(reserve(l->prompt[next], l->answer[next]));
            block[next] = buddy_take(&b, order[next]);
            if (block[next] < 0)
                break;
            length[next] = l->prompt[next];
        }
        for (int64_t i = 0; i < next; i++) {
            if (!length[i])
                continue;
            r.running++;
            r.used += (double)length[i];
            r.taken += (double)((int64_t)1 << order[i]);
            if (++length[i] >= l->prompt[i] + l->answer[i]) {
                buddy_give(&b, order[i], block[i]);
                length[i] = 0;
            }
        }
        r.n_steps++;
    }
    for (int k = 0; k <= b.orders; k++)
        free(b.free[k]);
    free(block);
    free(length);
    free(order);
    return r;
}

/* ---- paged: the engine ---- */

static void must(ig_status status, const ig_error *err)
{
    if (status != IG_OK)
        fail(err->message);
}

static void submit_all(ig_engine *e, const load *l, int64_t vocab)
{
    ig_error err;
    int32_t tokens[MOST];
    for (int64_t i = 0; i < l->n; i++) {
        for (int64_t k = 0; k < l->prompt[i]; k++)
            tokens[k] = (int32_t)(ig__uniform(2, (uint64_t)i, (uint64_t)k) * (double)vocab);
        ig_request_opts o = ig_request_defaults();
        o.prompt = tokens;
        o.n_prompt = l->prompt[i];
        o.max_tokens = l->answer[i];
        o.ignore_end = true;
        o.sampler.temperature = 0;
        must(ig_engine_submit(NULL, e, &o, &err), &err);
    }
}

static result run_paged(const load *l, const char *path, int64_t page_tokens)
{
    ig_error err;
    ig_context *ctx;
    ig_model *model;
    ig_runner *probe;
    ig_engine *e;
    must(ig_context_create(&ctx, NULL, &err), &err);
    must(ig_model_open(&model, ctx, path, NULL, &err), &err);
    const ig_runner_opts small = {.context = 16, .max_tokens = 1};
    must(ig_runner_create(&probe, model, &small, &err), &err);
    const size_t token_bytes = ig_runner_kv_bytes_a_token(probe);
    ig_runner_destroy(probe);
    const ig_engine_opts opts = {.context = CONTEXT,
                                 .max_running = 256,
                                 .max_queued = 65536,
                                 .max_tokens = 4096,
                                 .kv_bytes = token_bytes * (size_t)l->pool,
                                 .step_ns = INT64_MAX,
                                 .page_tokens = page_tokens};
    must(ig_engine_create(&e, model, &opts, &err), &err);
    submit_all(e, l, ig_model_get_info(model).vocab);
    result r = {0};
    ig_engine_step(e);
    for (ig_engine_stats s; s = ig_engine_get_stats(e), s.n_queued > 0; ig_engine_step(e)) {
        r.n_steps++;
        r.running += (double)s.n_running;
        r.used += (double)s.n_tokens_kept;
        r.taken += (double)(s.n_pages_used * s.page_tokens);
    }
    ig_engine_destroy(e);
    ig_model_close(model);
    ig_context_destroy(ctx);
    return r;
}

static double print(const char *policy, const load *l, const result *r)
{
    printf("{\"policy\": \"%s\", \"running\": %.1f, \"used\": %.3f, \"waste\": %.3f}\n",
           policy, r->running / r->n_steps, r->used / (r->n_steps * (double)l->pool),
           1 - r->used / r->taken);
    return r->running / r->n_steps;
}

int main(int argc, char **argv)
{
    if (argc < 2)
        fail("usage: bench_paged MODEL [n_requests] [pool_tokens [page_tokens]]");
    const int64_t n = argc > 2 ? strtoll(argv[2], NULL, 10) : 300;
    const int64_t pool = argc > 3 ? strtoll(argv[3], NULL, 10) : 16384;
    const int64_t page = argc > 4 ? strtoll(argv[4], NULL, 10) : 16;
    if (n < 1 || n > 65536 || pool < CONTEXT || pool > (int64_t)1 << 30)
        fail("n_requests is 1 to 65536, pool_tokens 2048 to 2^30");
    load l = draw_load(n, pool);
    const result max = run_contiguous(&l, reserve_max);
    const result pow2 = run_contiguous(&l, reserve_pow2);
    const result oracle = run_contiguous(&l, reserve_oracle);
    print("max", &l, &max);
    print("pow2", &l, &pow2);
    const double best = print("oracle", &l, &oracle);
    const result paged = run_paged(&l, argv[1], page);
    const double ours = print("paged", &l, &paged);
    printf("{\"paged_over_oracle\": %.2f, \"paged_over_max\": %.2f}\n", ours / best,
           ours / (max.running / max.n_steps));
    free(l.prompt);
    free(l.answer);
    return 0;
}
