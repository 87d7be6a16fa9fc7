/* The engine's first promise: what a request gets depends on nothing else that runs.
 *
 * The reference is ig_generate, alone; compared are tokens, the bits of log-probabilities, text
 * and reason of the end.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "engine_run.h"

#include <math.h>

enum { N_IDS = 700, N_MIXED = 12 };

static int32_t ids[N_IDS];

/* Requests of all kinds: greedy and not, penalties, stop strings, lengths around pages. */
static void mixed(ig_request_opts *opts)
{
    static const int64_t prompts[N_MIXED] = {1,  15,  16,  17, 31, 33,
                                             64, 100, 257, 3,  48, 130};
    static const int64_t lengths[N_MIXED] = {140, 1,   97, 133, 9,  160,
                                             0,   120, 30, 150, 16, 5};
    static const char *const stop[] = {"t7t", "t1"};
    for (int i = 0; i < N_MIXED; i++) {
        ig_request_opts o = ig_request_defaults();
        o.prompt = ids + 20 * (i % 4); /* some begin alike */
        o.n_prompt = prompts[i];
        o.max_tokens = lengths[i];
        o.ignore_end = i % 3 == 0;
        o.n_logprobs = i % 4 == 3 ? -1 : i % 4;
        o.sampler.temperature = i % 3 ? 1.0f : 0.0f;
        o.sampler.top_k = i % 2 ? 0 : 40;
        o.sampler.seed = 7 + (uint64_t)i;
        o.sampler.frequency_penalty = i % 5 == 1 ? 0.5f : 0.0f;
        o.sampler.repeat_penalty = i % 5 == 2 ? 1.2f : 1.0f;
        o.stop = stop;
        o.n_stop = i % 6 == 5 ? 2 : 0;
        opts[i] = o;
    }
}

static answer *wanted_of(const running *r, const ig_request_opts *opts, int n)
{
    answer *wanted = calloc((size_t)n, sizeof *wanted);
    assert_non_null(wanted);
    for (int i = 0; i < n; i++)
        generate_alone(&wanted[i], r, &opts[i]);
    return wanted;
}

static void check_mixed(const running *r, const answer *wanted,
                        const ig_engine_opts *engine, const char *what,
                        int64_t least_preempted)
{
    ig_request_opts opts[N_MIXED];
    mixed(opts);
    answer *got = calloc(N_MIXED, sizeof *got);
    ig_engine *e = new_engine(r, engine);
    for (int round = 0; round < 2; round++) { /* the second finds its prompts cached */
        memset(got, 0, N_MIXED * sizeof *got);
        for (int i = 0; i < N_MIXED; i++) {
            opts[i].on_event = take_event;
            opts[i].user = &got[i];
            submit(e, &opts[i]);
            if (i % 5 == 4)
                ig_engine_step(e);
        }
        run_to_end(e);
        for (int i = 0; i < N_MIXED; i++) {
            char text[128];
            snprintf(text, sizeof text, "%s, round %d, request %d", what, round, i);
            assert_int_equal(got[i].n_finished, 1);
            assert_int_equal(got[i].n_last, 1);
            assert_same_answer(&got[i], &wanted[i], text);
        }
    }
    assert_true(ig_engine_get_stats(e).n_preempted >= least_preempted);
    assert_at_rest(e);
    ig_engine_destroy(e);
    free(got);
}

/* All engines for one model and cache type; for the others one with room, and one without. */
static void same_answers_in_company(void **state)
{
    (void)state;
    for (int gemma = 0; gemma < 2; gemma++)
        for (int kv = 0; kv < 3; kv++) {
            const running_opts o = {.tiny = {.dtype = IG_DTYPE_Q8_0, .gemma = gemma},
                                    .n_threads = 1,
                                    .kv = (ig_kv_type)kv,
                                    .max_tokens = 300};
            if (kv == IG_KV_Q8_0 && !gemma) /* heads of 16 */
                continue;
            running r;
            run_open(&r, &o);
            const ig_engine_opts engines[] = {
                {.context = 1024, .kv_bytes = pages_bytes(&r, 256)},
                {.context = 1024,
                 .kv_bytes = pages_bytes(&r, 256),
                 .no_prefix_cache = true},
                {.context = 1024, .kv_bytes = pages_bytes(&r, 256), .max_running = 2},
                {.context = 1024, .kv_bytes = pages_bytes(&r, 256), .max_tokens = 20},
                {.context = 1024,
                 .kv_bytes = pages_bytes(&r, 256),
                 .prefix_bytes = pages_bytes(&r, 5)},
                {.context = 1024, .kv_bytes = pages_bytes(&r, 20), .max_tokens = 48},
                {.context = 1024,
                 .kv_bytes = pages_bytes(&r, 20),
                 .max_tokens = 48,
                 .no_prefix_cache = true},
                {.context = 1024, .kv_bytes = pages_bytes(&r, 256), .page_tokens = 64},
                {.context = 1024,
                 .kv_bytes = pages_bytes(&r, 24),
                 .max_tokens = 48,
                 .page_tokens = 32},
                {.context = 1024,
                 .kv_bytes = pages_bytes(&r, 100),
                 .no_prefix_cache = true,
                 .page_tokens = 256},
            };
            ig_request_opts opts[N_MIXED];
            mixed(opts);
            answer *wanted = wanted_of(&r, opts, N_MIXED);
            for (size_t i = 0; i < sizeof engines / sizeof *engines; i++) {
                if ((gemma || kv) && i != 0 && i != 5 && i != 8)
                    continue;
                ig_engine_opts engine = engines[i];
                engine.kv = (ig_kv_type)kv;
                char what[64];
                snprintf(what, sizeof what, "gemma %d, kv %d, engine %d", gemma, kv,
                         (int)i);
                check_mixed(&r, wanted, &engine, what, i == 6);
            }
            free(wanted);
            run_close(&r);
        }
}

/* ---- samples ---- */

static ig_request_opts simple(const int32_t *prompt, int64_t n_prompt, int64_t max_tokens,
                              answer *a)
{
    ig_request_opts o = ig_request_defaults();
    o.prompt = prompt;
    o.n_prompt = n_prompt;
    o.max_tokens = max_tokens;
    o.ignore_end = true;
    o.n_logprobs = 2;
    o.sampler.temperature = 1;
    o.sampler.seed = 5;
    o.on_event = take_event;
    o.user = a;
    return o;
}

static running tiny(void)
{
    const running_opts o = {
        .tiny = {.dtype = IG_DTYPE_Q8_0}, .n_threads = 1, .max_tokens = 300};
    running r;
    run_open(&r, &o);
    return r;
}

/* Each sample has a stream of its own, the same whoever it runs beside; all of them hold the
 * prompt's pages once. */
static void samples_share_the_prompt(void **state)
{
    (void)state;
    enum { N = 5, PROMPT = 70, LENGTH = 20 };
    running r = tiny();
    static answer got[3][N], alone;
    const ig_engine_opts engines[] = {
        {.context = 1024, .kv_bytes = pages_bytes(&r, 64)},
        {.context = 1024, .kv_bytes = pages_bytes(&r, 64), .no_prefix_cache = true},
        {.context = 1024,
         .kv_bytes = pages_bytes(&r, 9), /* room for one and a half */
         .no_prefix_cache = true},
    };
    for (int i = 0; i < 3; i++) {
        memset(got[i], 0, sizeof got[i]);
        ig_engine *e = new_engine(&r, &engines[i]);
        ig_request_opts o = simple(ids, PROMPT, LENGTH, got[i]);
        o.n = N;
        submit(e, &o);
        int64_t most_used = 0;
        while (ig_engine_step(e)) {
            const int64_t used = ig_engine_get_stats(e).n_pages_used;
            most_used = used > most_used ? used : most_used;
        }
        /* 4 full pages shared, 2 a sample: 6 tokens of the prompt and 20 drawn */
        if (i < 2)
            assert_int_equal(most_used, 4 + 2 * N);
        assert_int_equal(ig_engine_get_stats(e).n_preempted > 0, i == 2);
        assert_int_equal(ig_engine_get_stats(e).n_finished, 1);
        assert_at_rest(e);
        ig_engine_destroy(e);
        int n_last = 0;
        for (int k = 0; k < N; k++) {
            assert_int_equal(got[i][k].n, LENGTH);
            n_last += got[i][k].n_last;
            assert_same_answer(&got[i][k], &got[0][k], "a sample, in another engine");
            for (int j = 0; j < k; j++)
                assert_memory_not_equal(got[i][k].ids, got[i][j].ids, LENGTH * 4);
        }
        assert_int_equal(n_last, 1);
    }
    const ig_request_opts o = simple(ids, PROMPT, LENGTH, NULL);
    generate_alone(&alone, &r, &o);
    assert_same_answer(&got[0][0], &alone, "sample 0");
    run_close(&r);
}

/* The shared last page is copied by whoever writes it, and the cache's pages stay as they are,
 * also when the samples part in the middle of a page that is known by then. */
static void parting_in_a_page(void **state)
{
    (void)state;
    running r = tiny();
    for (int64_t n_prompt = 15; n_prompt <= 18; n_prompt++)
        for (int64_t max_running = 1; max_running <= 3; max_running++) {
            static answer got[4], again, alone;
            memset(got, 0, sizeof got);
            memset(&again, 0, sizeof again);
            const ig_engine_opts engine = {
                .context = 64, .kv_bytes = pages_bytes(&r, 4), .max_running = max_running};
            ig_engine *e = new_engine(&r, &engine);
            ig_request_opts o = simple(ids, n_prompt, 40, got);
            o.n = 4;
            submit(e, &o);
            run_to_end(e);
            o = simple(ids, n_prompt, 40, &again);
            submit(e, &o);
            run_to_end(e);
            assert_at_rest(e);
            ig_engine_destroy(e);
            generate_alone(&alone, &r, &o);
            assert_same_answer(&got[0], &alone, "parted");
            assert_same_answer(&again, &alone, "after");
        }
    run_close(&r);
}

/* ---- the cache ---- */

static void check_cached(const running *r, int64_t page_tokens, int64_t again, int64_t next)
{
    enum { PROMPT = 37 };
    static answer got, first;
    memset(&got, 0, sizeof got);
    const ig_engine_opts engine = {
        .context = 1024, .kv_bytes = pages_bytes(r, 64), .page_tokens = page_tokens};
    ig_engine *e = new_engine(r, &engine);
    assert_int_equal(ig_engine_get_stats(e).page_tokens, page_tokens);
    assert_int_equal(ig_engine_get_stats(e).page_bytes, pages_bytes(r, page_tokens / 16));
    ig_request_opts o = simple(ids, PROMPT, 20, &got);
    int64_t hits = 0, queries = 0, rows = 0;
    const int64_t cached[] = {0, again, again};
    for (int i = 0; i < 3; i++) {
        memset(&got, 0, sizeof got);
        submit(e, &o);
        run_to_end(e);
        if (i == 0)
            first = got;
        assert_same_answer(&got, &first, "cached");
        assert_int_equal(got.n_cached, cached[i]);
        assert_int_equal(got.n_prompt, PROMPT);
        const ig_engine_stats s = ig_engine_get_stats(e);
        assert_int_equal(s.prefix_hits - hits, cached[i]);
        assert_int_equal(s.prefix_queries - queries, PROMPT);
        assert_int_equal(s.prompt_tokens - rows, PROMPT - cached[i]);
        hits = s.prefix_hits;
        queries = s.prefix_queries;
        rows = s.prompt_tokens;
    }
    /* the next turn of a conversation: what was answered is cached too */
    int32_t turn[PROMPT + 20 + 9];
    memcpy(turn, ids, PROMPT * 4);
    memcpy(turn + PROMPT, first.ids, 20 * 4);
    memcpy(turn + PROMPT + 20, ids + 300, 9 * 4);
    memset(&got, 0, sizeof got);
    o.prompt = turn;
    o.n_prompt = PROMPT + 20 + 9;
    submit(e, &o);
    run_to_end(e);
    assert_int_equal(got.n_cached, next); /* 56 tokens were fed */
    assert_at_rest(e);
    memset(&got, 0, sizeof got);
    submit(e, &o);
    run_to_end(e);
    assert_int_equal(got.n_cached, 0); /* all was dropped */
    ig_engine_destroy(e);
}

/* Whole pages of any size. */
static void what_is_cached_is_told(void **state)
{
    (void)state;
    running r = tiny();
    check_cached(&r, 16, 32, 48);
    check_cached(&r, 32, 32, 32);
    check_cached(&r, 64, 0, 0);
    run_close(&r);
}

/* Eight of the same at once: beyond the first chunk, what one has computed the others take. */
static void the_same_prompt_at_once(void **state)
{
    (void)state;
    enum { N = 8, PROMPT = 200 };
    running r = tiny();
    static answer got[N];
    memset(got, 0, sizeof got);
    const ig_engine_opts engine = {
        .context = 1024, .kv_bytes = pages_bytes(&r, 256), .max_tokens = 64};
    ig_engine *e = new_engine(&r, &engine);
    for (int i = 0; i < N; i++) {
        const ig_request_opts o = simple(ids, PROMPT, 4, &got[i]);
        submit(e, &o);
    }
    run_to_end(e);
    int64_t n_cached = 0;
    for (int i = 0; i < N; i++) {
        assert_same_answer(&got[i], &got[0], "at once");
        n_cached += got[i].n_cached;
    }
    const ig_engine_stats s = ig_engine_get_stats(e);
    assert_int_equal(s.prefix_hits, n_cached);
    assert_int_equal(s.prompt_tokens, N * PROMPT - n_cached);
    assert_true(s.prompt_tokens < 3 * PROMPT);
    assert_at_rest(e);
    ig_engine_destroy(e);
    run_close(&r);
}

/* Many distinct prompts: the cache stays within its limit, the newest stay. */
static void the_cache_keeps_its_limit(void **state)
{
    (void)state;
    enum { N = 40, PROMPT = 100, LIMIT = 30 };
    running r = tiny();
    static answer got;
    const ig_engine_opts engine = {.context = 1024,
                                   .kv_bytes = pages_bytes(&r, 256),
                                   .prefix_bytes = pages_bytes(&r, LIMIT)};
    ig_engine *e = new_engine(&r, &engine);
    for (int i = 0; i < N; i++) {
        memset(&got, 0, sizeof got);
        const ig_request_opts o = simple(ids + 10 * i, PROMPT, 3, &got);
        submit(e, &o);
        run_to_end(e);
        assert_int_equal(got.n_cached, 0);
        assert_in_range(ig_engine_get_stats(e).n_pages_cached, 1, LIMIT);
    }
    for (int i = N - 1; i >= 0; i -= N - 1) {
        memset(&got, 0, sizeof got);
        const ig_request_opts o = simple(ids + 10 * i, PROMPT, 3, &got);
        submit(e, &o);
        run_to_end(e);
        assert_int_equal(got.n_cached, i ? 96 : 0);
    }
    assert_int_equal(ig_engine_get_stats(e).n_prefix_evicted, 6 * (N + 1) - LIMIT);
    assert_at_rest(e);
    ig_engine_destroy(e);
    run_close(&r);
}

/* ---- ends and refusals ---- */

static void the_context_is_never_passed(void **state)
{
    (void)state;
    running r = tiny();
    const ig_engine_opts engine = {.context = 64, .kv_bytes = pages_bytes(&r, 64)};
    ig_engine *e = new_engine(&r, &engine);
    assert_int_equal(ig_engine_context(e), 64);
    static const int64_t prompts[] = {1, 59, 62, 63};
    static const int64_t wanted[] = {63, 5, 2, 1};
    static answer got;
    for (int i = 0; i < 4; i++) {
        memset(&got, 0, sizeof got);
        const ig_request_opts o = simple(ids, prompts[i], i % 2 ? 100 : -1, &got);
        submit(e, &o);
        run_to_end(e);
        assert_int_equal(got.n, wanted[i]);
        assert_int_equal(got.finish, IG_FINISH_LENGTH);
    }
    ig_request_opts o = simple(ids, 64, 0, &got); /* the prompt alone */
    memset(&got, 0, sizeof got);
    submit(e, &o);
    run_to_end(e);
    assert_int_equal(got.n, 0);
    o = simple(ids, 64, 1, &got);
    assert_int_equal(ig_engine_submit(NULL, e, &o, &running_error), IG_ERR_LIMIT);
    assert_non_null(strstr(running_error.message, "64 tokens and fills the context"));
    o = simple(ids, 101, -1, &got);
    assert_int_equal(ig_engine_submit(NULL, e, &o, &running_error), IG_ERR_LIMIT);
    assert_non_null(strstr(running_error.message, "101 tokens, the context holds 64"));
    assert_at_rest(e);
    ig_engine_destroy(e);
    /* a small pool bounds the context */
    const ig_engine_opts small = {.context = 64, .kv_bytes = pages_bytes(&r, 2) + 1};
    e = new_engine(&r, &small);
    assert_int_equal(ig_engine_context(e), 32);
    ig_engine_destroy(e);
    run_close(&r);
}

static void assert_refused(ig_engine *e, const ig_request_opts *o, const char *words)
{
    ig_request *request = (ig_request *)e;
    assert_int_equal(ig_engine_submit(&request, e, o, &running_error), IG_ERR_ARGUMENT);
    assert_null(request);
    if (!strstr(running_error.message, words))
        fail_msg("wanted \"%s\" in: %s", words, running_error.message);
}

static void wrong_options_are_named(void **state)
{
    (void)state;
    running r = tiny();
    const ig_engine_opts opts = {.context = 64, .kv_bytes = pages_bytes(&r, 8)};
    ig_engine *e = new_engine(&r, &opts);
    static const char *const empty[] = {""};
    const int32_t outside[] = {3, 100};
    const ig_request_opts good = simple(ids, 4, 4, NULL);
    ig_request_opts o = good;
    o.n_prompt = 0;
    assert_refused(e, &o, "the prompt is empty");
    o = good;
    o.prompt = outside;
    o.n_prompt = 2;
    assert_refused(e, &o, "token 100 (number 1), allowed is [0, 100)");
    o = good;
    o.n = 0;
    assert_refused(e, &o, "n is 0, allowed is 1 to 128");
    o = good;
    o.max_tokens = -2;
    assert_refused(e, &o, "max_tokens is -2");
    o = good;
    o.n_logprobs = -2;
    assert_refused(e, &o, "n_logprobs is -2");
    o = good;
    o.deadline_ns = -1;
    assert_refused(e, &o, "deadline_ns is -1");
    o = good;
    o.sampler.top_p = 2;
    assert_refused(e, &o, "top_p is 2");
    o = good;
    o.stop = empty;
    o.n_stop = 1;
    assert_refused(e, &o, "stop string 0 is empty");
    assert_false(ig_engine_step(e));
    assert_at_rest(e);
    ig_engine_destroy(e);

    const struct {
        ig_engine_opts opts;
        ig_status status;
        const char *words;
    } engines[] = {
        {{.context = -1}, IG_ERR_ARGUMENT, "context is -1"},
        {{.max_running = 257}, IG_ERR_ARGUMENT, "max_running is 257, allowed is 1 to 256"},
        {{.max_queued = -1}, IG_ERR_ARGUMENT, "max_queued is -1"},
        {{.max_tokens = 5000}, IG_ERR_ARGUMENT, "max_tokens is 5000"},
        {{.step_ns = -1}, IG_ERR_ARGUMENT, "step_ns is -1"},
        {{.kv_bytes = 100}, IG_ERR_ARGUMENT, "kv_bytes is 100, a page of 16 tokens has"},
        {{.kv_bytes = 3000, .page_tokens = 64},
         IG_ERR_ARGUMENT,
         "kv_bytes is 3000, a page of 64 tokens has"},
        {{.page_tokens = 8}, IG_ERR_ARGUMENT, "page_tokens is 8, allowed is 16, 32, 64, 1"},
        {{.page_tokens = 48}, IG_ERR_ARGUMENT, "page_tokens is 48"},
        {{.page_tokens = 512}, IG_ERR_ARGUMENT, "page_tokens is 512"},
        {{.page_tokens = INT64_MIN},
         IG_ERR_ARGUMENT,
         "page_tokens is -9223372036854775808"},
        {{.kv = (ig_kv_type)7}, IG_ERR_ARGUMENT, "kv is 7"},
        {{.kv_bytes = SIZE_MAX / 2}, IG_ERR_LIMIT, "MiB of memory are available"},
    };
    for (size_t i = 0; i < sizeof engines / sizeof *engines; i++) {
        assert_int_equal(ig_engine_create(&e, r.model, &engines[i].opts, &running_error),
                         engines[i].status);
        assert_null(e);
        if (!strstr(running_error.message, engines[i].words))
            fail_msg("wanted \"%s\" in: %s", engines[i].words, running_error.message);
    }
    run_close(&r);
}

static void a_full_queue_is_busy(void **state)
{
    (void)state;
    running r = tiny();
    static answer got[8];
    memset(got, 0, sizeof got);
    const ig_engine_opts opts = {
        .context = 64, .kv_bytes = pages_bytes(&r, 32), .max_running = 2, .max_queued = 3};
    ig_engine *e = new_engine(&r, &opts);
    for (int i = 0; i < 5; i++) { /* two that can start, three that wait */
        const ig_request_opts o = simple(ids, 20, 10, &got[i]);
        submit(e, &o);
    }
    const ig_request_opts o = simple(ids, 20, 10, &got[5]);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ig_engine_submit(NULL, e, &o, &running_error), IG_ERR_BUSY);
        assert_true(ig_engine_step(e));
    }
    assert_in_range(ig_engine_retry_ns(e), 1000000000, 300000000000);
    assert_int_equal(ig_engine_get_stats(e).n_rejected, 2);
    assert_int_equal(ig_engine_get_stats(e).n_queued, 3);
    run_to_end(e);
    submit(e, &o);
    run_to_end(e);
    for (int i = 0; i < 6; i++)
        assert_same_answer(&got[i], &got[0], "in the queue");
    assert_true(got[4].queue_ns > got[0].queue_ns);
    assert_at_rest(e);
    ig_engine_destroy(e);
    run_close(&r);
}

/* A model that has a NaN behind one token: who meets it ends with the error, and no other. */
static void a_nan_is_one_requests_own(void **state)
{
    (void)state;
    const running_opts tiny_opts = {.tiny = {.dtype = IG_DTYPE_F32,
                                             .head = true,
                                             .nan_in = "token_embd.weight",
                                             .nan_row = 42},
                                    .n_threads = 1};
    running r;
    run_open(&r, &tiny_opts);
    static answer got[3], alone;
    int32_t bad[20], good[20];
    for (int i = 0; i < 20; i++)
        good[i] = bad[i] = i;
    bad[19] = 42;
    memset(got, 0, sizeof got);
    const ig_engine_opts opts = {.context = 64, .kv_bytes = pages_bytes(&r, 32)};
    const ig_logit_bias never = {42, -INFINITY};
    ig_engine *e = new_engine(&r, &opts);
    for (int i = 0; i < 3; i++) {
        ig_request_opts o = simple(i == 1 ? bad : good, 20, 10, &got[i]);
        o.sampler.bias = &never;
        o.sampler.n_bias = 1;
        submit(e, &o);
        if (i == 0)
            generate_alone(&alone, &r, &o);
    }
    run_to_end(e);
    assert_same_answer(&got[0], &alone, "beside a NaN");
    assert_same_answer(&got[2], &alone, "beside a NaN");
    assert_int_equal(got[1].finish, IG_FINISH_ERROR);
    assert_int_equal(got[1].error.status, IG_ERR_NUMERIC);
    assert_int_equal(got[1].n, 0);
    assert_int_equal(ig_engine_get_stats(e).n_failed, 1);
    assert_at_rest(e);
    ig_engine_destroy(e);
    run_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_answers_in_company),
        cmocka_unit_test(samples_share_the_prompt),
        cmocka_unit_test(parting_in_a_page),
        cmocka_unit_test(what_is_cached_is_told),
        cmocka_unit_test(the_same_prompt_at_once),
        cmocka_unit_test(the_cache_keeps_its_limit),
        cmocka_unit_test(the_context_is_never_passed),
        cmocka_unit_test(wrong_options_are_named),
        cmocka_unit_test(a_full_queue_is_busy),
        cmocka_unit_test(a_nan_is_one_requests_own),
    };
    tiny_ids(ids, N_IDS, 3);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
