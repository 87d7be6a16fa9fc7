/* Who goes when: shares of a step, priorities, the budget that follows the speed; and requests
 * that come, go and are counted from several threads.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/clock.h"
#include "engine_run.h"
#include "infer/engine_int.h"

#include <time.h>

enum { N_IDS = 1000 };

static int32_t ids[N_IDS];
static int64_t steps; /* what answers read as their clock */

static running tiny(void)
{
    const running_opts o = {
        .tiny = {.dtype = IG_DTYPE_Q8_0}, .n_threads = 1, .max_tokens = 300};
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
    o.sampler.temperature = 0;
    o.on_event = a ? take_event : NULL;
    o.user = a;
    if (a)
        *a = (answer){.clock = &steps};
    return o;
}

static void count_steps_to_end(ig_engine *e)
{
    for (steps = 1; ig_engine_step(e); steps++)
        ;
}

/* ---- turns ---- */

/* A short prompt behind long ones is done in the first steps, and answers do not stand still
 * for a prompt. */
static void a_short_prompt_does_not_wait(void **state)
{
    (void)state;
    running r = tiny();
    static answer got[4];
    const ig_engine_opts opts = {
        .context = 1024, .kv_bytes = pages_bytes(&r, 256), .max_tokens = 64};
    ig_engine *e = new_engine(&r, &opts);
    ig_request_opts o = simple(ids, 10, 40, &got[0]);
    submit(e, &o);
    ig_engine_step(e); /* it decodes from here on */
    for (int i = 1; i < 3; i++) {
        o = simple(ids + 100 * i, 700, 4, &got[i]);
        submit(e, &o);
    }
    o = simple(ids + 50, 40, 4, &got[3]);
    submit(e, &o);
    count_steps_to_end(e);
    assert_in_range(got[3].step_first, 1, 4); /* 3 prompts, a third of 63 rows each */
    assert_true(got[1].step_first > 20);
    assert_int_equal(got[0].step_last, 39); /* a token each step */
    assert_at_rest(e);
    ig_engine_destroy(e);
    run_close(&r);
}

/* Alike prompts end alike, whoever came first. */
static void turns_are_even(void **state)
{
    (void)state;
    enum { N = 5, PROMPT = 320, ROWS = 48 };
    running r = tiny();
    static answer got[N];
    const ig_engine_opts opts = {.context = 1024,
                                 .kv_bytes = pages_bytes(&r, 256),
                                 .max_tokens = ROWS,
                                 .step_ns = 10000000000};
    ig_engine *e = new_engine(&r, &opts);
    for (int i = 0; i < N; i++) {
        const ig_request_opts o = simple(ids + 50 * i, PROMPT, 1, &got[i]);
        submit(e, &o);
    }
    count_steps_to_end(e);
    const int64_t all = N * PROMPT / ROWS;
    for (int i = 0; i < N; i++)
        assert_in_range(got[i].step_first, all - 4, all + 8);
    assert_at_rest(e);
    ig_engine_destroy(e);
    run_close(&r);
}

/* Prompts with the same beginning that come while one of them is being read: it is computed
 * once, though an answer beside them makes the pieces end within pages, and the last to come
 * has the highest rank. */
static void a_shared_beginning_is_computed_once(void **state)
{
    (void)state;
    enum { N = 6, SHARED = 400, OWN = 30 };
    running r = tiny();
    static answer got[N + 1], wanted;
    int32_t prompts[N][SHARED + OWN];
    const ig_engine_opts opts = {.context = 1024,
                                 .kv_bytes = pages_bytes(&r, 400),
                                 .max_tokens = 64,
                                 .step_ns = 60000000000};
    ig_engine *e = new_engine(&r, &opts);
    ig_request_opts o = simple(ids + 900, 10, 60, &got[N]);
    submit(e, &o);
    ig_engine_step(e); /* it decodes from here on: 63 rows are left for prompts */
    for (int i = 0; i < N; i++) {
        memcpy(prompts[i], ids, SHARED * sizeof *ids);
        memcpy(prompts[i] + SHARED, ids + 500 + 10 * i, OWN * sizeof *ids);
        o = simple(prompts[i], SHARED + OWN, 3, &got[i]);
        o.priority = i == N - 1;
        submit(e, &o);
        if (i % 2)
            ig_engine_step(e);
    }
    run_to_end(e);
    const ig_engine_stats s = ig_engine_get_stats(e);
    assert_int_equal(s.prompt_tokens, 10 + SHARED + N * OWN);
    assert_int_equal(s.prefix_hits, (N - 1) * SHARED);
    int64_t n_cached = 0;
    for (int i = 0; i < N; i++) {
        o = simple(prompts[i], SHARED + OWN, 3, NULL);
        generate_alone(&wanted, &r, &o);
        assert_int_equal(got[i].n, wanted.n);
        assert_memory_equal(got[i].ids, wanted.ids, (size_t)wanted.n * 4);
        n_cached += got[i].n_cached;
    }
    assert_int_equal(n_cached, (N - 1) * SHARED);
    assert_at_rest(e);
    ig_engine_destroy(e);
    run_close(&r);
}

static void a_higher_priority_goes_first(void **state)
{
    (void)state;
    running r = tiny();
    static answer got[4], wanted;
    const ig_engine_opts opts = {
        .context = 256, .kv_bytes = pages_bytes(&r, 16), .max_running = 1};
    ig_engine *e = new_engine(&r, &opts);
    for (int i = 0; i < 4; i++) {
        ig_request_opts o = simple(ids + i, 20, 20, &got[i]);
        o.priority = i == 3 ? 2 : i == 2 ? 1 : 0;
        submit(e, &o);
        if (i == 0)
            ig_engine_step(e);
    }
    count_steps_to_end(e); /* 3 takes the place of 0, then 2, 0 and 1 */
    assert_true(got[3].step_last < got[2].step_first);
    assert_true(got[2].step_last < got[0].step_last);
    assert_true(got[0].step_last < got[1].step_first);
    assert_int_equal(ig_engine_get_stats(e).n_preempted, 1);
    const ig_request_opts o = simple(ids, 20, 20, NULL);
    generate_alone(&wanted, &r, &o);
    assert_int_equal(got[0].n, wanted.n);
    assert_memory_equal(got[0].ids, wanted.ids, (size_t)wanted.n * 4);
    assert_at_rest(e);
    ig_engine_destroy(e);
    run_close(&r);
}

/* When pages run out the newest gives way. */
static void the_newest_is_preempted(void **state)
{
    (void)state;
    running r = tiny();
    static answer got[3];
    const ig_engine_opts opts = {
        .context = 128, .kv_bytes = pages_bytes(&r, 12), .no_prefix_cache = true};
    ig_engine *e = new_engine(&r, &opts);
    for (int i = 0; i < 3; i++) {
        const ig_request_opts o = simple(ids + i, 40, 60, &got[i]);
        submit(e, &o);
    }
    count_steps_to_end(e);
    assert_true(ig_engine_get_stats(e).n_preempted > 0);
    assert_int_equal(got[0].step_last, 60); /* never interrupted */
    assert_true(got[1].step_last < got[2].step_last);
    assert_at_rest(e);
    ig_engine_destroy(e);
    run_close(&r);
}

/* ---- the budget ---- */

/* A machine: a step's fixed time, a row's, a row's for each key before it; all times
 * 1 to 1 + noise. */
typedef struct imagined {
    double fixed_ns, row_ns, key_ns, noise;
    uint32_t seed;
} imagined;

static int64_t took(imagined *m, int64_t n_rows, int64_t position)
{
    m->seed = m->seed * 1664525 + 1013904223; /* Numerical Recipes' generator */
    const double keys = (double)position + 0.5 * (double)n_rows;
    const double ns =
        m->fixed_ns + (double)n_rows * m->row_ns + (double)n_rows * keys * m->key_ns;
    return (int64_t)(ns * (1 + m->noise * (m->seed >> 8) / 16777216.0));
}

static ig__speed imagined_speed(double cost_ns)
{
    return (ig__speed){.step_ns = 100000000,
                       .least = 16,
                       .most = 4096,
                       .key_cost = 1 / 1200.0,
                       .guess = 1 / 1200.0,
                       .cost_ns = cost_ns,
                       .margin = 1.15};
}

/* One step of a prompt; its time. */
static int64_t imagined_step(int64_t *n_rows_out, imagined *m, ig__speed *s,
                             int64_t position)
{
    int64_t n_rows = 0; /* as many as cost what is allowed */
    for (int i = 0; i < 3; i++) {
        const ig__work row = ig__speed_work(s, 1, 0, position + n_rows / 2);
        n_rows = ig__speed_rows(s, ig__speed_budget(s) / ig__speed_cost(s, row));
    }
    *n_rows_out = n_rows;
    const int64_t ns = took(m, n_rows, position);
    ig__speed_learn(s, ig__speed_work(s, n_rows, 0, position), ns);
    return ns;
}

/* Without noise steps come close to the target from either side, and stay below. */
static void check_speed(double fixed_ns, double row_ns, double begin_ns)
{
    imagined m = {.fixed_ns = fixed_ns, .row_ns = row_ns};
    ig__speed s = imagined_speed(begin_ns);
    s.key_cost = s.guess = 0;
    int64_t ns = 0, n_rows;
    for (int i = 0; i < 40; i++)
        ns = imagined_step(&n_rows, &m, &s, 0);
    const int64_t found = ig__speed_rows(&s, ig__speed_budget(&s));
    if (found > s.least)
        assert_in_range(ns, found < s.most ? 85000000 : 0, 100000000);
    for (int i = 0; i < 20; i++) /* small steps tell nothing */
        ig__speed_learn(&s, (ig__work){.rows = 1}, (int64_t)(fixed_ns + row_ns));
    assert_in_range(ig__speed_rows(&s, ig__speed_budget(&s)), found - found / 8, found);
    m.fixed_ns = 4 * fixed_ns; /* somebody else wants the machine */
    m.row_ns = 4 * row_ns;
    for (int i = 0; i < 6; i++)
        ns = imagined_step(&n_rows, &m, &s, 0);
    if (ig__speed_rows(&s, ig__speed_budget(&s)) > s.least)
        assert_in_range(ns, 0, 100000000);
}

static void the_budget_follows_the_speed(void **state)
{
    (void)state;
    static const double begins[] = {6250000, 200000, 24000}; /* 14 rows, 435, 3623 */
    for (int i = 0; i < 3; i++) {
        check_speed(0, 100000, begins[i]);
        check_speed(10000000, 300000, begins[i]);
        check_speed(5000000, 1000000, begins[i]);
        check_speed(90000000, 5000000, begins[i]); /* too slow: 16 rows go on */
        check_speed(1000, 1000, begins[i]);        /* so fast that all fit */
    }
}

/* Prompts of 6,000 tokens on machines that are quiet or not, whose keys cost what was assumed
 * or not: of a hundred steps at most so many are longer than the target, none is much longer
 * than noise explains, and the prompt is not read in crumbs. */
static void few_steps_pass_the_target(void **state)
{
    (void)state;
    for (int noisy = 0; noisy < 3; noisy++)
        for (int keys = 0; keys < 3; keys++) {
            imagined m = {.fixed_ns = 3e6,
                          .row_ns = 375e3,
                          .key_ns = 375e3 / (keys == 0   ? 600
                                             : keys == 1 ? 1200
                                                         : 1e6),
                          .noise = noisy * 0.2};
            ig__speed s = imagined_speed(6250000);
            int64_t n = 0, n_long = 0, longest = 0, sum = 0;
            for (int prompt = 0; prompt < 5; prompt++)
                for (int64_t position = 0, n_rows; position < 6000; n++) {
                    const int64_t ns = imagined_step(&n_rows, &m, &s, position);
                    position += n_rows;
                    n_long += ns > 100000000;
                    longest = ns > longest ? ns : longest;
                    sum += ns;
                }
            assert_true(n > 100);
            assert_in_range(100 * n_long / n, 0, 11);
            assert_in_range(longest, 0,
                            keys == 2 ? 140000000 : 100000000 + noisy * 12000000);
            assert_in_range(sum / n, 80000000, 100000000);
        }
}

/* The engine's own: a target of a millisecond keeps steps of a long prompt short. */
static void steps_keep_the_target(void **state)
{
    (void)state;
    running r = tiny();
    static answer got[2];
    int64_t n_steps[2];
    for (int i = 0; i < 2; i++) {
        const ig_engine_opts opts = {.context = 1024,
                                     .kv_bytes = pages_bytes(&r, 128),
                                     .max_tokens = 512,
                                     .no_prefix_cache = true,
                                     .step_ns = i ? 1000 : 60000000000};
        ig_engine *e = new_engine(&r, &opts);
        const ig_request_opts o = simple(ids, 900, 1, &got[i]);
        submit(e, &o);
        count_steps_to_end(e);
        const ig_engine_stats s = ig_engine_get_stats(e);
        n_steps[i] = s.n_steps;
        assert_int_equal(s.prompt_tokens, 900);
        assert_true(s.prompt_ns > 0 && s.prompt_ops > 0 && s.prompt_bytes > 0);
        assert_int_equal(s.budget, i ? 16 : 512);
        ig_engine_destroy(e);
    }
    assert_int_equal(n_steps[0], 2);
    assert_int_equal(n_steps[1], 57); /* 16 rows each: nothing meets a microsecond */
    assert_int_equal(got[0].ids[0], got[1].ids[0]);
    run_close(&r);
}

/* ---- threads ---- */

enum { N_CLIENTS = 4, N_EACH = 25 };

typedef struct client {
    pthread_t thread;
    ig_engine *engine;
    int index;
    answer *answers; /* [N_EACH] */
    int32_t *n_done; /* atomic: clients that are through */
} client;

static void *client_main(void *arg)
{
    client *c = arg;
    for (int i = 0; i < N_EACH; i++) {
        ig_request *request;
        ig_request_opts o = ig_request_defaults();
        o.prompt = ids + 5 * i;
        o.n_prompt = 10 + i;
        o.max_tokens = 10;
        o.ignore_end = true;
        o.on_event = take_event;
        o.user = &c->answers[i];
        const ig_status status = ig_engine_submit(&request, c->engine, &o, NULL);
        if (status == IG_ERR_BUSY) {
            c->answers[i].n_finished = -1;
            ig_engine_retry_ns(c->engine);
            continue;
        }
        if ((i + c->index) % 3 == 0)
            ig_request_cancel(request);
        ig_request_release(request);
        ig_engine_get_stats(c->engine);
    }
    __atomic_add_fetch(c->n_done, 1, __ATOMIC_RELEASE);
    ig_engine_wake(c->engine);
    return NULL;
}

static void clients_of_several_threads(void **state)
{
    (void)state;
    running r = tiny();
    client clients[N_CLIENTS];
    int32_t n_done = 0;
    const ig_engine_opts opts = {.context = 256,
                                 .kv_bytes = pages_bytes(&r, 30),
                                 .max_running = 6,
                                 .max_queued = 30};
    ig_engine *e = new_engine(&r, &opts);
    for (int i = 0; i < N_CLIENTS; i++) {
        clients[i] = (client){.engine = e, .index = i, .n_done = &n_done};
        clients[i].answers = calloc(N_EACH, sizeof(answer));
        assert_int_equal(pthread_create(&clients[i].thread, NULL, client_main, &clients[i]),
                         0);
    }
    while (__atomic_load_n(&n_done, __ATOMIC_ACQUIRE) < N_CLIENTS) {
        ig_engine_wait(e, -1);
        while (ig_engine_step(e))
            ;
    }
    run_to_end(e);
    int64_t n_refused = 0;
    for (int i = 0; i < N_CLIENTS; i++) {
        pthread_join(clients[i].thread, NULL);
        for (int k = 0; k < N_EACH; k++) {
            const answer *a = &clients[i].answers[k];
            n_refused += a->n_finished < 0;
            if (a->n_finished < 0)
                continue;
            assert_int_equal(a->n_finished, 1);
            assert_true(a->finish == IG_FINISH_LENGTH || (i + k) % 3 == 0);
        }
        free(clients[i].answers);
    }
    const ig_engine_stats s = ig_engine_get_stats(e);
    assert_int_equal(s.n_rejected, n_refused);
    assert_int_equal(s.n_submitted, N_CLIENTS * N_EACH - n_refused);
    assert_at_rest(e);
    ig_engine_destroy(e);
    run_close(&r);
}

static void *submit_late(void *arg)
{
    const struct timespec nap = {.tv_nsec = 20000000};
    nanosleep(&nap, NULL);
    const ig_request_opts o = simple(ids, 4, 2, NULL);
    return ig_engine_submit(NULL, arg, &o, NULL) == IG_OK ? arg : NULL;
}

static int64_t cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Waiting ends by time, by a wake that came before or comes, and by a request; and it sleeps. */
static void waiting_sleeps(void **state)
{
    (void)state;
    running r = tiny();
    const ig_engine_opts opts = {.context = 64, .kv_bytes = pages_bytes(&r, 8)};
    ig_engine *e = new_engine(&r, &opts);
    const int64_t begin_ns = ig__now_ns(), begin_cpu = cpu_ns();
    assert_false(ig_engine_wait(e, 60000000));
    assert_true(ig__now_ns() - begin_ns >= 60000000);
    assert_true(cpu_ns() - begin_cpu < 10000000);
    assert_false(ig_engine_wait(e, 0));
    ig_engine_wake(e);
    assert_false(ig_engine_wait(e, -1));
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, submit_late, e), 0);
    assert_true(ig_engine_wait(e, -1));
    void *submitted;
    pthread_join(thread, &submitted);
    assert_ptr_equal(submitted, e);
    assert_true(ig_engine_wait(e, -1)); /* not done yet */
    run_to_end(e);
    assert_false(ig_engine_wait(e, 0));
    ig_engine_destroy(e);
    run_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_short_prompt_does_not_wait),
        cmocka_unit_test(turns_are_even),
        cmocka_unit_test(a_shared_beginning_is_computed_once),
        cmocka_unit_test(a_higher_priority_goes_first),
        cmocka_unit_test(the_newest_is_preempted),
        cmocka_unit_test(the_budget_follows_the_speed),
        cmocka_unit_test(few_steps_pass_the_target),
        cmocka_unit_test(steps_keep_the_target),
        cmocka_unit_test(clients_of_several_threads),
        cmocka_unit_test(waiting_sleeps),
    };
    tiny_ids(ids, N_IDS, 3);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
