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

enum { N_IDS = 700, N_MIXED = 12 };

static int32_t ids[N_IDS];

/* Requests of all kinds: greedy and not, penalties, stop strings, lengths around pages. */
static void mixed(ig_request_opts *opts)
{
    static const int64_t prompts[N_MIXED] = {1,  15,  16,  17, 31, 33,
                                             64, 100, 257, 3,  48, 130};
    static const int64_t lengths[N_MIXED] = {140, 1, 97, 133, 9, 160, 0, 120, 30, 150, 16, 5};
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

static void check_mixed(const running *r, const ig_engine_opts *engine, const char *what,
                        int64_t least_preempted)
{
    ig_request_opts opts[N_MIXED];
    mixed(opts);
    answer *wanted = wanted_of(r, opts, N_MIXED);
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
    free(wanted);
}

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
            };
            for (size_t i = 0; i < sizeof engines / sizeof *engines; i++) {
                ig_engine_opts engine = engines[i];
                engine.kv = (ig_kv_type)kv;
                char what[64];
                snprintf(what, sizeof what, "gemma %d, kv %d, engine %d", gemma, kv,
                         (int)i);
                check_mixed(&r, &engine, what, i == 6);
            }
            run_close(&r);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_answers_in_company),
    };
    tiny_ids(ids, N_IDS, 3);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
