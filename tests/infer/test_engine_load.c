/* The engine under load: hundreds of random requests in a pool that is too small, cancels at
 * every moment, deadlines, priorities, and every allocation failing once. Whoever was not
 * cut short has the answer of ig_generate alone; who was has the beginning of it; and at rest
 * all pages are free.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "base/clock.h"
#include "base/rng.h"
#include "engine_run.h"
#include "fault_allocator.h"

#include <time.h>

enum { N_IDS = 600, N_LOAD = 300, MOST = 4 };

static int32_t ids[N_IDS];

static int64_t random_below(uint64_t *state, int64_t n)
{
    uint32_t w[4];
    ig__philox(w, 17, 0, (*state)++);
    return (int64_t)(w[0] % (uint32_t)n);
}

static running tiny(const ig_allocator *a, int n_threads)
{
    const running_opts o = {.tiny = {.dtype = IG_DTYPE_Q8_0},
                            .n_threads = n_threads,
                            .max_tokens = 300,
                            .allocator = a};
    running r;
    run_open(&r, &o);
    return r;
}

static ig_request_opts simple(const int32_t *prompt, int64_t n_prompt, int64_t max_tokens,
                              answer *a)
{
    ig_request_opts o = ig_request_defaults();
    o.prompt = prompt;
    o.n_prompt = n_prompt;
    o.max_tokens = max_tokens;
    o.ignore_end = true;
    o.n_logprobs = 1;
    o.sampler.temperature = 1;
    o.sampler.seed = 5;
    o.on_event = take_event;
    o.user = a;
    return o;
}

/* The beginning of the wanted answer, as far as it came. */
static void assert_begins(const answer *got, const answer *wanted, const char *what)
{
    if (got->n > wanted->n || memcmp(got->ids, wanted->ids, (size_t)got->n * 4) != 0 ||
        memcmp(got->logprobs, wanted->logprobs, (size_t)got->n * 4) != 0)
        fail_msg("%s: not the beginning of its answer", what);
}

/* ---- random load ---- */

static ig_request_opts random_request(uint64_t *state, answer *a)
{
    static const char *const stop[] = {"t3"};
    const int64_t n_prompt = 1 + random_below(state, random_below(state, 4) ? 40 : 200);
    const int64_t begin = 16 * random_below(state, 6);
    ig_request_opts o = simple(ids + begin, n_prompt, random_below(state, 50), a);
    o.n = random_below(state, 5) ? 1 : 1 + random_below(state, MOST);
    o.ignore_end = random_below(state, 2);
    o.sampler.temperature = random_below(state, 3) ? 1.0f : 0.0f;
    o.sampler.top_k = 5;
    o.sampler.seed = (uint64_t)random_below(state, 5);
    o.sampler.presence_penalty = random_below(state, 3) ? 0.0f : 1.0f;
    o.stop = stop;
    o.n_stop = random_below(state, 4) == 0;
    o.priority = (int32_t)random_below(state, 3);
    if (random_below(state, 20) == 0)
        o.deadline_ns = 1 + random_below(state, 3000000);
    return o;
}

static void check_load(const running *r, const ig_engine_opts *opts, uint64_t seed)
{
    answer *got = calloc(N_LOAD * MOST, sizeof *got), *wanted = malloc(sizeof *wanted);
    ig_request_opts *requests = calloc(N_LOAD, sizeof *requests);
    ig_request *handles[N_LOAD] = {0};
    uint64_t state = seed;
    ig_engine *e = new_engine(r, opts);
    for (int i = 0; i < N_LOAD; i++) {
        requests[i] = random_request(&state, &got[i * MOST]);
        if (random_below(&state, 8) == 0)
            got[i * MOST].cancel_at = 1 + random_below(&state, 20);
        while (ig_engine_submit(&handles[i], e, &requests[i], &running_error) != IG_OK) {
            assert_int_equal(running_error.status, IG_ERR_BUSY);
            ig_engine_step(e);
        }
        for (int64_t k = random_below(&state, 4); k > 0; k--)
            ig_engine_step(e);
        if (random_below(&state, 6) == 0)
            ig_request_cancel(handles[random_below(&state, i + 1)]);
        const ig_engine_stats s = ig_engine_get_stats(e);
        assert_true(s.n_pages_used + s.n_pages_cached <= s.n_pages);
    }
    run_to_end(e);
    int64_t n_whole = 0;
    for (int i = 0; i < N_LOAD; i++) {
        int n_last = 0;
        for (int64_t k = 0; k < requests[i].n; k++) {
            const answer *a = &got[i * MOST + k];
            char what[64];
            snprintf(what, sizeof what, "request %d, sample %d", i, (int)k);
            assert_int_equal(a->n_finished, 1);
            n_last += a->n_last;
            if (k > 0) /* its reference is in test_engine.c */
                continue;
            generate_alone(wanted, r, &requests[i]);
            if (a->finish == IG_FINISH_CANCELLED || a->finish == IG_FINISH_DEADLINE) {
                assert_begins(a, wanted, what);
            } else {
                assert_same_answer(a, wanted, what);
                n_whole++;
            }
        }
        assert_int_equal(n_last, 1);
        ig_request_release(handles[i]);
    }
    assert_in_range(n_whole, N_LOAD / 2, N_LOAD - 10);
    const ig_engine_stats s = ig_engine_get_stats(e);
    assert_true(s.n_preempted > 10);
    assert_int_equal(s.n_failed, 0);
    assert_true(s.n_cancelled > 10);
    assert_at_rest(e);
    ig_engine_destroy(e);
    free(got);
    free(wanted);
    free(requests);
}

static void random_load(void **state)
{
    (void)state;
    running r = tiny(NULL, 1);
    const ig_engine_opts cached = {.context = 256,
                                   .kv_bytes = pages_bytes(&r, 17),
                                   .max_running = 8,
                                   .max_queued = 20,
                                   .max_tokens = 48};
    ig_engine_opts bare = cached;
    bare.no_prefix_cache = true;
    bare.max_running = 5;
    check_load(&r, &cached, 1);
    check_load(&r, &bare, 100000);
    ig_engine_opts large = cached; /* four pages */
    large.page_tokens = 64;
    check_load(&r, &large, 200000);
    run_close(&r);
}

/* ---- cancels ---- */

/* Two others run; the third is cancelled after each possible number of steps. */
static void cancelled_after_any_step(void **state)
{
    (void)state;
    running r = tiny(NULL, 1);
    static answer got[3], wanted[2];
    ig_request_opts others[] = {simple(ids, 40, 20, &got[0]),
                                simple(ids + 7, 3, 30, &got[1])};
    for (int i = 0; i < 2; i++)
        generate_alone(&wanted[i], &r, &others[i]);
    const ig_engine_opts opts = {
        .context = 256, .kv_bytes = pages_bytes(&r, 17), .max_tokens = 40};
    bool over = false;
    for (int n = 0; !over; n++) {
        memset(got, 0, sizeof got);
        ig_engine *e = new_engine(&r, &opts);
        ig_request *request;
        ig_request_opts o = simple(ids + 100, 90, 12, &got[2]);
        submit(e, &others[0]);
        must(ig_engine_submit(&request, e, &o, &running_error));
        submit(e, &others[1]);
        for (int i = 0; i < n; i++)
            ig_engine_step(e);
        over = got[2].n_finished;
        ig_request_cancel(request);
        ig_engine_step(e);
        assert_int_equal(got[2].n_finished, 1);
        assert_int_equal(got[2].finish, over ? IG_FINISH_LENGTH : IG_FINISH_CANCELLED);
        run_to_end(e);
        for (int i = 0; i < 2; i++)
            assert_same_answer(&got[i], &wanted[i], "beside a cancelled one");
        assert_int_equal(ig_engine_get_stats(e).n_cancelled, !over);
        ig_request_release(request);
        assert_at_rest(e);
        ig_engine_destroy(e);
    }
    run_close(&r);
}

typedef struct late_cancel {
    ig_request *request;
    int64_t after_ns;
    int32_t go; /* atomic */
} late_cancel;

static void *cancel_late(void *arg)
{
    late_cancel *c = arg;
    /* acquire: sees the request that was set before */
    while (!__atomic_load_n(&c->go, __ATOMIC_ACQUIRE))
        ;
    const int64_t until = ig__now_ns() + c->after_ns;
    while (ig__now_ns() < until)
        ;
    ig_request_cancel(c->request);
    return NULL;
}

/* In the midst of steps: the long prompt's step is abandoned, and nobody loses a token. */
static void cancelled_within_a_step(void **state)
{
    (void)state;
    enum { PROMPT = 290, TRIES = 200 };
    running r = tiny(NULL, 1);
    static answer got[2], wanted;
    ig_request_opts other = simple(ids, 20, 6, &got[0]);
    generate_alone(&wanted, &r, &other);
    const ig_engine_opts opts = {.context = 512,
                                 .kv_bytes = pages_bytes(&r, 64),
                                 .max_tokens = 400,
                                 .no_prefix_cache = true};
    int64_t n_abandoned = 0;
    for (int i = 0; i < TRIES && (i < 40 || !n_abandoned); i++) {
        memset(got, 0, sizeof got);
        ig_engine *e = new_engine(&r, &opts);
        late_cancel late = {.after_ns = 20000 * (i % 40)};
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, cancel_late, &late), 0);
        submit(e, &other);
        for (int k = 0; k < 4; k++) /* the budget grows, and the other decodes */
            ig_engine_step(e);
        const ig_request_opts o = simple(ids + 30, PROMPT, 5, &got[1]);
        must(ig_engine_submit(&late.request, e, &o, &running_error));
        __atomic_store_n(&late.go, 1, __ATOMIC_RELEASE);
        run_to_end(e);
        pthread_join(thread, NULL);
        run_to_end(e);
        ig_request_release(late.request);
        assert_same_answer(&got[0], &wanted, "beside an abandoned step");
        assert_int_equal(got[1].n_finished, 1);
        n_abandoned += ig_engine_get_stats(e).n_abandoned;
        assert_at_rest(e);
        ig_engine_destroy(e);
    }
    assert_true(n_abandoned > 0);
    run_close(&r);
}

static void destroying_ends_all(void **state)
{
    (void)state;
    running r = tiny(NULL, 1);
    static answer got[6];
    memset(got, 0, sizeof got);
    ig_request *handles[6];
    const ig_engine_opts opts = {
        .context = 256, .kv_bytes = pages_bytes(&r, 17), .max_running = 2};
    ig_engine *e = new_engine(&r, &opts);
    for (int i = 0; i < 6; i++) {
        ig_request_opts o = simple(ids, 40, 20, &got[i]);
        must(ig_engine_submit(&handles[i], e, &o, &running_error));
        ig_engine_step(e);
    }
    ig_engine_destroy(e);
    for (int i = 0; i < 6; i++) {
        assert_int_equal(got[i].n_finished, 1);
        assert_int_equal(got[i].finish, IG_FINISH_CANCELLED);
        ig_request_release(handles[i]);
    }
    run_close(&r);
}

static void deadlines_end_requests(void **state)
{
    (void)state;
    running r = tiny(NULL, 1);
    static answer got[3], wanted;
    memset(got, 0, sizeof got);
    const ig_engine_opts opts = {
        .context = 256, .kv_bytes = pages_bytes(&r, 17), .max_running = 1};
    ig_engine *e = new_engine(&r, &opts);
    ig_request_opts o[3];
    for (int i = 0; i < 3; i++) {
        o[i] = simple(ids, 10, 200, &got[i]);
        o[i].deadline_ns = i < 2 ? 3000000 : 0; /* one runs, one waits */
    }
    o[2].max_tokens = 8;
    generate_alone(&wanted, &r, &o[2]);
    submit(e, &o[0]);
    ig_engine_step(e);
    submit(e, &o[1]);
    submit(e, &o[2]);
    const struct timespec nap = {.tv_nsec = 4000000};
    nanosleep(&nap, NULL);
    run_to_end(e);
    assert_int_equal(got[0].finish, IG_FINISH_DEADLINE);
    assert_true(got[0].n > 0);
    assert_int_equal(got[1].finish, IG_FINISH_DEADLINE);
    assert_int_equal(got[1].n, 0);
    assert_true(got[1].queue_ns >= 3000000);
    assert_same_answer(&got[2], &wanted, "after deadlines");
    assert_int_equal(ig_engine_get_stats(e).n_expired, 2);
    assert_at_rest(e);
    ig_engine_destroy(e);
    run_close(&r);
}

/* ---- memory ---- */

/* The Nth allocation fails, for every N: who does not fail has the right answer. */
static void every_allocation_may_fail(void **state)
{
    (void)state;
    fault_allocator f = {0};
    const ig_allocator a = fault_allocator_of(&f);
    running r = tiny(&a, 1);
    static answer got[3], wanted;
    static const char *const stop[] = {"never"};
    ig_request_opts o = simple(ids, 20, 12, NULL);
    o.stop = stop;
    o.n_stop = 1;
    o.sampler.presence_penalty = 0.5f;
    generate_alone(&wanted, &r, &o);
    const int64_t at_rest = f.n_alive;
    const ig_engine_opts opts = {
        .context = 64, .kv_bytes = pages_bytes(&r, 8), .max_running = 3};
    bool through = false;
    int64_t n_ended = 0;
    for (int64_t nth = 1; !through; nth++) {
        f.n_calls = 0;
        f.fail_nth = nth;
        memset(got, 0, sizeof got);
        ig_engine *e;
        const ig_status made = ig_engine_create(&e, r.model, &opts, &running_error);
        assert_int_equal(made, e ? IG_OK : IG_ERR_MEMORY);
        for (int i = 0; e && i < 2; i++) {
            o.n = 1 + i;
            o.on_event = take_event;
            o.user = &got[i];
            const ig_status status = ig_engine_submit(NULL, e, &o, &running_error);
            assert_true(status == IG_OK || status == IG_ERR_MEMORY);
            for (int k = 0; status != IG_OK && k <= i; k++)
                got[i + k].n_finished = -1;
        }
        if (e)
            run_to_end(e);
        through = f.n_calls < nth;
        for (int i = 0; e && i < 3; i++) {
            if (got[i].n_finished < 0)
                continue;
            assert_int_equal(got[i].n_finished, 1);
            if (got[i].finish == IG_FINISH_ERROR) {
                assert_int_equal(got[i].error.status, IG_ERR_MEMORY);
                n_ended++;
            } else if (i < 2) {
                assert_same_answer(&got[i], &wanted, "where memory failed");
            }
        }
        if (e)
            assert_at_rest(e);
        ig_engine_destroy(e);
        assert_int_equal(f.n_alive, at_rest);
    }
    assert_true(n_ended > 10);
    f.fail_nth = 0;
    run_close(&r);
    assert_int_equal(f.n_alive, 0);
}

/* Once a request runs, its steps allocate nothing. */
static void decoding_allocates_nothing(void **state)
{
    (void)state;
    fault_allocator f = {0};
    const ig_allocator a = fault_allocator_of(&f);
    running r = tiny(&a, 1);
    static answer got[3];
    memset(got, 0, sizeof got);
    const ig_engine_opts opts = {.context = 256, .kv_bytes = pages_bytes(&r, 30)};
    ig_engine *e = new_engine(&r, &opts);
    for (int i = 0; i < 3; i++) {
        const ig_request_opts o = simple(ids + i, 20, 60, &got[i]);
        submit(e, &o);
    }
    ig_engine_step(e);
    const int64_t before = f.n_calls;
    while (!got[0].n_finished)
        ig_engine_step(e);
    assert_int_equal(f.n_calls, before);
    run_to_end(e);
    ig_engine_destroy(e);
    run_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_load),
        cmocka_unit_test(cancelled_after_any_step),
        cmocka_unit_test(cancelled_within_a_step),
        cmocka_unit_test(destroying_ends_all),
        cmocka_unit_test(deadlines_end_requests),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(decoding_allocates_nothing),
    };
    tiny_ids(ids, N_IDS, 3);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
