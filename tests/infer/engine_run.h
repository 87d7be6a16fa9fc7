/* Engines in tests: what each sample of a request got, and the same of ig_generate alone.
 */
#ifndef INGOT_TESTS_INFER_ENGINE_RUN_H
#define INGOT_TESTS_INFER_ENGINE_RUN_H

#include "tiny_run.h"

#include <pthread.h>

enum { MAX_TOKENS = 1024, MAX_TEXT = 8192, MAX_TOP = 3 };

/* All that one sample showed. */
typedef struct answer {
    int32_t ids[MAX_TOKENS];
    float logprobs[MAX_TOKENS];
    ig_logprob top[MAX_TOKENS][MAX_TOP];
    int64_t n;
    char text[MAX_TEXT];
    size_t n_text;
    int n_finished, n_last;
    ig_finish finish;
    ig_error error;
    int64_t n_cached, n_prompt, queue_ns;
    int64_t cancel_at;             /* tokens after which the callback cancels; 0: never */
    int64_t step_first, step_last; /* of *clock at the first token and at the end */
    const int64_t *clock;          /* may be NULL */
} answer;

/* `user` is an array of answers, by sample. */
static inline void take_event(const ig_request_event *event)
{
    answer *a = (answer *)event->user + event->i_sample;
    assert_int_equal(a->n_finished, 0);
    assert_true(a->n_text + event->n_text < MAX_TEXT);
    memcpy(a->text + a->n_text, event->text, event->n_text);
    a->n_text += event->n_text;
    if (event->id >= 0) {
        assert_false(event->finished);
        assert_true(a->n < MAX_TOKENS);
        a->ids[a->n] = event->id;
        a->logprobs[a->n] = event->logprob;
        for (int64_t i = 0; i < event->n_top && i < MAX_TOP; i++)
            a->top[a->n][i] = event->top[i];
        if (a->n++ == 0 && a->clock)
            a->step_first = *a->clock;
    }
    assert_int_equal(event->n_generated, a->n);
    if (event->finished) {
        a->n_finished++;
        a->n_last += event->last;
        a->finish = event->finish;
        a->n_cached = event->n_cached;
        a->n_prompt = event->n_prompt;
        a->queue_ns = event->queue_ns;
        a->step_last = a->clock ? *a->clock : 0;
        assert_int_equal(event->finish == IG_FINISH_ERROR, event->error != NULL);
        if (event->error)
            a->error = *event->error;
    } else {
        assert_false(event->last);
    }
    if (a->cancel_at && a->n >= a->cancel_at)
        ig_request_cancel(event->request);
}

static inline bool take_generated(void *user, const ig_generated *token)
{
    answer *a = user;
    assert_true(a->n_text + token->n_text < MAX_TEXT);
    memcpy(a->text + a->n_text, token->text, token->n_text);
    a->n_text += token->n_text;
    if (token->id >= 0) {
        a->ids[a->n] = token->id;
        a->logprobs[a->n] = token->logprob;
        for (int64_t i = 0; i < token->n_top && i < MAX_TOP; i++)
            a->top[a->n][i] = token->top[i];
        a->n++;
    }
    return true;
}

/* The answer of ig_generate over the running's own runner, which has the engine's context. */
static inline void generate_alone(answer *a, const running *r, const ig_request_opts *opts)
{
    *a = (answer){0};
    ig_sequence *seq = new_sequence(r);
    ig_sampler *sampler;
    must(ig_sampler_create(&sampler, r->ctx, r->vocab, &opts->sampler, &running_error));
    const ig_generate_opts generate = {.max_tokens = opts->max_tokens,
                                       .ignore_end = opts->ignore_end,
                                       .stop = opts->stop,
                                       .n_stop = opts->n_stop,
                                       .n_logprobs = opts->n_logprobs,
                                       .on_token = take_generated,
                                       .user = a};
    ig_generate_result result;
    must(ig_generate(&result, r->runner, seq, sampler, opts->prompt, opts->n_prompt,
                     &generate, &running_error));
    a->finish = result.finish;
    ig_sampler_destroy(sampler);
    ig_sequence_destroy(seq);
}

static inline void assert_same_answer(const answer *got, const answer *wanted,
                                      const char *what)
{
    if (got->n != wanted->n || memcmp(got->ids, wanted->ids, (size_t)got->n * 4) != 0)
        fail_msg("%s: other tokens (%lld, wanted %lld)", what, (long long)got->n,
                 (long long)wanted->n);
    if (memcmp(got->logprobs, wanted->logprobs, (size_t)got->n * 4) != 0 ||
        memcmp(got->top, wanted->top, (size_t)got->n * sizeof *got->top) != 0)
        fail_msg("%s: other log-probabilities", what);
    if (got->n_text != wanted->n_text || memcmp(got->text, wanted->text, got->n_text) != 0)
        fail_msg("%s: other text", what);
    if (got->finish != wanted->finish)
        fail_msg("%s: finish is %s, wanted %s", what, ig_finish_name(got->finish),
                 ig_finish_name(wanted->finish));
}

static inline ig_engine *new_engine(const running *r, const ig_engine_opts *opts)
{
    ig_engine *e;
    must(ig_engine_create(&e, r->model, opts, &running_error));
    return e;
}

/* Bytes of so many pages of the model's. */
static inline size_t pages_bytes(const running *r, int64_t n)
{
    return ig_runner_kv_bytes_a_token(r->runner) * 16 * (size_t)n;
}

static inline void submit(ig_engine *e, const ig_request_opts *opts)
{
    must(ig_engine_submit(NULL, e, opts, &running_error));
}

static inline void run_to_end(ig_engine *e)
{
    int64_t n = 0;
    while (ig_engine_step(e))
        if (++n > 200000)
            fail_msg("the engine does not come to an end");
}

/* Nothing runs, waits or holds a page. */
static inline void assert_at_rest(ig_engine *e)
{
    ig_engine_stats s = ig_engine_get_stats(e);
    assert_int_equal(s.n_running, 0);
    assert_int_equal(s.n_waiting, 0);
    assert_int_equal(s.n_queued, 0);
    assert_int_equal(s.n_pages_used, 0);
    assert_int_equal(s.n_tokens_kept, 0);
    assert_int_equal(s.n_finished, s.n_submitted);
    ig_engine_drop_prefixes(e);
    assert_int_equal(ig_engine_get_stats(e).n_pages_cached, 0);
}

#endif
