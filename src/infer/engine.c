/* The engine: making it, taking requests from any thread, stepping, waiting, counting.
 *
 * One lock guards what several threads see: the inbox, the counters of submission, the copy of
 * the statistics, and which request a running step may be abandoned for. It is never held
 * while something is computed or called back.
 */
#include "infer/engine_int.h"

#include "base/available.h"
#include "base/clock.h"
#include "base/error.h"

#include <time.h>

enum { MAX_ROWS = 4096 };

/* ---- making ---- */

/* kv_bytes, and a context that fits the pool. */
static ig_status fill_pool(ig_engine_opts *o, const ig_model *m, ig_error *err)
{
    if ((int)o->kv < 0 || (int)o->kv >= IG__KV_COUNT)
        return ig__fail(err, IG_ERR_ARGUMENT, "engine: kv is %d, allowed is 0 to %d",
                        (int)o->kv, IG__KV_COUNT - 1);
    IG_TRY(ig__pages_tokens(&o->page_tokens, o->page_tokens, "engine", err));
    const size_t page = ig__pages_bytes(&m->config, (ig__kv)o->kv, o->page_tokens);
    const size_t available = ig__memory_available();
    if (!o->kv_bytes) {
        const size_t n_pages = (size_t)((o->context + o->page_tokens - 1) / o->page_tokens);
        if (!ig__mul(&o->kv_bytes, 4 * n_pages, page) || o->kv_bytes > available / 2)
            o->kv_bytes = available / 2;
    }
    if (o->kv_bytes > available)
        return ig__fail(err, IG_ERR_LIMIT,
                        "engine: %zu MiB are wanted for KV pages, %zu MiB of memory are "
                        "available",
                        o->kv_bytes >> 20, available >> 20);
    if (o->kv_bytes < page)
        return ig__fail(err, IG_ERR_ARGUMENT,
                        "engine: kv_bytes is %zu, a page of %lld tokens has %zu bytes",
                        o->kv_bytes, (long long)o->page_tokens, page);
    const int64_t n_tokens = (int64_t)(o->kv_bytes / page) * o->page_tokens;
    if (o->context > n_tokens)
        o->context = n_tokens;
    return IG_OK;
}

static ig_status fill_opts(ig_engine_opts *o, const ig_model *m, ig_error *err)
{
    if (!o->context)
        o->context = m->config.context < 4096 ? m->config.context : 4096;
    if (!o->max_running)
        o->max_running = 16;
    if (!o->max_queued)
        o->max_queued = 128;
    if (!o->max_tokens)
        o->max_tokens = 512;
    if (!o->step_ns)
        o->step_ns = 100000000;
    const struct {
        const char *name;
        int64_t value, least, most;
    } checks[] = {
        {"context", o->context, 1, (int64_t)1 << 24},
        {"max_running", o->max_running, 1, IG_MAX_RUNNING},
        {"max_queued", o->max_queued, 1, 65536},
        {"max_tokens", o->max_tokens, 1, MAX_ROWS},
        {"step_ns", o->step_ns, 1, INT64_MAX},
    };
    for (size_t i = 0; i < sizeof checks / sizeof *checks; i++)
        if (checks[i].value < checks[i].least || checks[i].value > checks[i].most)
            return ig__fail(err, IG_ERR_ARGUMENT,
                            "engine: %s is %lld, allowed is %lld to %lld", checks[i].name,
                            (long long)checks[i].value, (long long)checks[i].least,
                            (long long)checks[i].most);
    if (o->max_tokens < o->max_running)
        o->max_tokens = o->max_running;
    return fill_pool(o, m, err);
}

static ig_status make_prefix(ig_engine *e, ig_error *err)
{
    if (e->opts.no_prefix_cache)
        return IG_OK;
    const size_t limit = e->opts.prefix_bytes / e->pages->page_bytes;
    const bool all = !e->opts.prefix_bytes || limit > (size_t)e->pages->n_pages;
    return ig__prefix_create(&e->prefix, e->pages, 0,
                             all ? e->pages->n_pages : (int32_t)limit, err);
}

static ig_status make_parts(ig_engine *e, ig_error *err)
{
    IG_TRY(fill_opts(&e->opts, e->model, err));
    const size_t page =
        ig__pages_bytes(&e->model->config, (ig__kv)e->opts.kv, e->opts.page_tokens);
    const ig_runner_opts runner = {.context = e->opts.context,
                                   .pool_tokens = (int64_t)(e->opts.kv_bytes / page) *
                                                  e->opts.page_tokens,
                                   .max_tokens = e->opts.max_tokens,
                                   .max_sequences = e->opts.max_running,
                                   .max_logits = e->opts.max_running,
                                   .kv = e->opts.kv,
                                   .page_tokens = e->opts.page_tokens};
    IG_TRY(ig_runner_create(&e->runner, e->model, &runner, err));
    e->pages = &e->runner->pages;
    e->opts.max_tokens = ig_runner_max_tokens(e->runner);
    if (e->opts.max_running > ig_runner_max_logits(e->runner))
        e->opts.max_running = ig_runner_max_logits(e->runner);
    IG_TRY(make_prefix(e, err));
    for (int64_t i = 0; i < e->opts.max_running; i++) {
        IG_TRY(ig_sequence_create(&e->sequences[i], e->runner, err));
        e->idle[e->n_idle++] = e->sequences[i];
    }
    if (!ig__buffer_reserve(&e->bytes, 256))
        return ig__fail_memory(err, "engine", 256);
    ig__speed_init(&e->speed, &e->opts, &e->model->info, ig_context_threads(e->model->ctx));
    return IG_OK;
}

static void destroy_parts(ig_engine *e)
{
    for (int64_t i = 0; i < e->opts.max_running && i < IG_MAX_RUNNING; i++)
        ig_sequence_destroy(e->sequences[i]);
    ig__prefix_destroy(e->prefix);
    ig_runner_destroy(e->runner);
    ig__buffer_fini(&e->bytes);
    ig__free(e->a, e);
}

static bool init_lock(ig_engine *e)
{
    pthread_condattr_t attributes;
    if (pthread_mutex_init(&e->lock, NULL))
        return false;
    bool made = pthread_condattr_init(&attributes) == 0;
    if (made) {
        made = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) == 0 &&
               pthread_cond_init(&e->changed, &attributes) == 0;
        pthread_condattr_destroy(&attributes);
    }
    if (!made)
        pthread_mutex_destroy(&e->lock);
    return made;
}

static void show_stats(ig_engine *e);

ig_status ig_engine_create(ig_engine **engine_out, ig_model *model,
                           const ig_engine_opts *opts, ig_error *err)
{
    *engine_out = NULL;
    const ig_allocator *a = &model->ctx->allocator;
    ig_engine *e = ig__alloc_zero(a, sizeof *e);
    if (!e)
        return ig__fail_memory(err, "engine", sizeof *e);
    e->model = model;
    e->a = a;
    e->bytes = ig__buffer_init(a);
    e->inbox_end = &e->inbox;
    if (opts)
        e->opts = *opts;
    ig_status status = make_parts(e, err);
    if (status == IG_OK && !init_lock(e))
        status = ig__fail_memory(err, "engine: a lock", sizeof e->lock);
    if (status != IG_OK) {
        destroy_parts(e);
        return status;
    }
    show_stats(e);
    *engine_out = e;
    return IG_OK;
}

static void take_inbox(ig_engine *e);

/* The next sample that has not ended; NULL: there is none. */
static ig__sample *any_sample(const ig_engine *e)
{
    return e->n_running ? e->running[e->n_running - 1] : e->first;
}

void ig_engine_destroy(ig_engine *e)
{
    if (!e)
        return;
    take_inbox(e);
    for (ig__sample *s; (s = any_sample(e));) {
        ig__sample_finish(e, s, IG_FINISH_CANCELLED, NULL);
        take_inbox(e); /* a callback may submit */
    }
    pthread_cond_destroy(&e->changed);
    pthread_mutex_destroy(&e->lock);
    destroy_parts(e);
}

/* ---- requests come in ---- */

/* A place in the queue, if there is one. */
static bool take_place(ig_engine *e)
{
    pthread_mutex_lock(&e->lock);
    const bool there_is = e->n_queued < e->opts.max_queued + e->n_places;
    *(there_is ? &e->n_queued : &e->n_rejected) += 1;
    pthread_mutex_unlock(&e->lock);
    return there_is;
}

static void give_place_back(ig_engine *e)
{
    pthread_mutex_lock(&e->lock);
    e->n_queued--;
    pthread_mutex_unlock(&e->lock);
}

ig_status ig_engine_submit(ig_request **request_out, ig_engine *e,
                           const ig_request_opts *opts, ig_error *err)
{
    if (request_out)
        *request_out = NULL;
    IG_TRY(ig__request_check(e, opts, err));
    if (!take_place(e))
        return ig__fail(err, IG_ERR_BUSY, "request: the queue is full, %lld wait",
                        (long long)e->opts.max_queued);
    ig_request *r;
    const ig_status status = ig__request_create(&r, e, opts, err);
    if (status != IG_OK) {
        give_place_back(e);
        return status;
    }
    if (request_out) {
        r->n_refs++; /* nobody else knows it yet */
        *request_out = r;
    }
    pthread_mutex_lock(&e->lock);
    r->number = e->n_submitted++;
    *e->inbox_end = r;
    e->inbox_end = &r->next;
    pthread_cond_signal(&e->changed);
    pthread_mutex_unlock(&e->lock);
    return IG_OK;
}

static void take_inbox(ig_engine *e)
{
    pthread_mutex_lock(&e->lock);
    ig_request *r = e->inbox;
    e->inbox = NULL;
    e->inbox_end = &e->inbox;
    pthread_mutex_unlock(&e->lock);
    while (r) {
        ig_request *next = r->next;
        for (int64_t i = 0; i < r->opts.n; i++)
            ig__engine_enqueue(e, &r->samples[i]);
        r = next;
    }
}

/* ---- stepping ---- */

/* End the samples of a request that was cancelled or has reached its deadline. */
static bool end_if_over(ig_engine *e, ig__sample *s, int64_t now_ns)
{
    const ig_request *r = s->request;
    const bool cancelled = ig__request_is_cancelled(r);
    if (!cancelled && !(r->deadline_ns && now_ns >= r->deadline_ns))
        return false;
    ig__sample_finish(e, s, cancelled ? IG_FINISH_CANCELLED : IG_FINISH_DEADLINE, NULL);
    return true;
}

static void end_over(ig_engine *e)
{
    const int64_t now_ns = ig__now_ns();
    for (int64_t i = e->n_running - 1; i >= 0; i--)
        end_if_over(e, e->running[i], now_ns);
    for (ig__sample *s = e->first, *after; s; s = after) {
        after = s->after;
        end_if_over(e, s, now_ns);
    }
}

bool ig_engine_step(ig_engine *e)
{
    take_inbox(e);
    end_over(e);
    ig__engine_admit(e);
    if (e->n_running)
        ig__engine_run(e);
    show_stats(e);
    pthread_mutex_lock(&e->lock);
    const bool more = e->n_running || e->n_waiting || e->inbox;
    pthread_mutex_unlock(&e->lock);
    return more;
}

/* Sleep on `changed` until then at most; false: it is past. */
static bool sleep_until(ig_engine *e, int64_t until_ns)
{
    if (until_ns < 0)
        return pthread_cond_wait(&e->changed, &e->lock) == 0;
    const struct timespec until = {.tv_sec = until_ns / 1000000000,
                                   .tv_nsec = until_ns % 1000000000};
    return pthread_cond_timedwait(&e->changed, &e->lock, &until) == 0;
}

bool ig_engine_wait(ig_engine *e, int64_t timeout_ns)
{
    const int64_t now_ns = ig__now_ns();
    const bool endless = timeout_ns < 0 || timeout_ns > INT64_MAX - now_ns;
    const int64_t until_ns = endless ? -1 : now_ns + timeout_ns;
    pthread_mutex_lock(&e->lock);
    while (!e->n_running && !e->n_waiting && !e->inbox && !e->woken)
        if (!sleep_until(e, until_ns))
            break;
    e->woken = false;
    const bool more = e->n_running || e->n_waiting || e->inbox;
    pthread_mutex_unlock(&e->lock);
    return more;
}

void ig_engine_wake(ig_engine *e)
{
    pthread_mutex_lock(&e->lock);
    e->woken = true;
    pthread_cond_signal(&e->changed);
    pthread_mutex_unlock(&e->lock);
}

/* ---- inspecting ---- */

int64_t ig_engine_context(const ig_engine *e)
{
    return e->opts.context;
}

ig_model *ig_engine_model(const ig_engine *e)
{
    return e->model;
}

int64_t ig_engine_retry_ns(ig_engine *e)
{
    const int64_t least = 1000000000, most = 300 * least;
    pthread_mutex_lock(&e->lock);
    /* so many run at once: one of them ends, on average, in this time */
    const int64_t running = e->shown.n_running > 0 ? e->shown.n_running : 1;
    const int64_t ns = e->residence_ns / running;
    pthread_mutex_unlock(&e->lock);
    return ns < least ? least : ns > most ? most : ns;
}

/* Tokens that the pages in use have room for and do not hold. */
static int64_t unfilled(const ig_engine *e)
{
    int64_t n = 0;
    for (int64_t i = 0; i < e->n_running; i++) {
        const ig_sequence *seq = e->running[i]->seq;
        const int64_t left = seq->n_pages * e->pages->page_tokens - seq->length;
        if (left > 0)
            n += left / e->pages->n_refs[ig__sequence_page(seq, seq->n_pages - 1)];
    }
    return n;
}

static void show_stats(ig_engine *e)
{
    ig_engine_stats *s = &e->stats;
    s->n_running = e->n_running;
    s->n_waiting = e->n_waiting;
    s->n_pages = e->pages->n_pages;
    s->n_pages_cached = e->prefix ? e->prefix->n_idle : 0;
    s->n_pages_used = s->n_pages - e->pages->n_free - s->n_pages_cached;
    s->page_bytes = e->pages->page_bytes;
    s->page_tokens = e->pages->page_tokens;
    s->n_tokens_kept = s->n_pages_used * s->page_tokens - unfilled(e);
    s->n_prefix_evicted = e->prefix ? e->prefix->n_evicted : 0;
    s->max_tokens = e->opts.max_tokens;
    s->context = e->opts.context;
    s->budget = ig__speed_rows(&e->speed, ig__speed_budget(&e->speed));
    pthread_mutex_lock(&e->lock);
    e->shown = *s;
    const int64_t places = e->opts.max_running - e->n_running;
    e->n_places = places > 0 ? places : 0;
    pthread_mutex_unlock(&e->lock);
}

ig_engine_stats ig_engine_get_stats(ig_engine *e)
{
    pthread_mutex_lock(&e->lock);
    ig_engine_stats stats = e->shown;
    stats.n_queued = e->n_queued;
    stats.n_submitted = e->n_submitted;
    stats.n_rejected = e->n_rejected;
    pthread_mutex_unlock(&e->lock);
    return stats;
}

void ig_engine_drop_prefixes(ig_engine *e)
{
    if (e->prefix)
        ig__prefix_clear(e->prefix);
    show_stats(e);
}
