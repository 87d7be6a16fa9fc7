/* The server: making it, its threads, ending it.
 *
 *     HTTP's thread      ig__http_run: requests, events, answers
 *     the reader         long bodies, for HTTP's thread
 *     the caller's       ig_server_run: engine_wait, engine_step, wake the other
 *
 * Ending: stop -> HTTP takes no connection more and runs until nothing is left to answer (or
 * its time is up, or a second stop) -> http_done -> the engine's last requests are cancelled
 * -> ig_server_run returns. No event can come after that.
 */
#include "serve/server.h"

#include "base/clock.h"
#include "base/error.h"

#include <math.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

static const int64_t second_ns = 1000000000;
enum { TLS_FILE_MAX = 1 << 20, MEASURES = 3, NAME_BYTES = 127 };

/* ---- HTTP's thread ---- */

static void on_request(void *user, ig__exchange *x)
{
    ig__route(user, x);
}

static void on_probe(void *user, ig__exchange *x)
{
    ig__job_probe(user, x);
}

static void on_gone(void *user, ig__exchange *x, bool whole)
{
    ig__job_gone(user, x, whole);
}

static void reload_keys(ig_server *s)
{
    ig__keys keys;
    ig_error err;
    if (ig__keys_read(&keys, s->a, s->opts.key_file, false, &err) != IG_OK) {
        ig__log_note(s, "the old keys stay: %s", err.message);
        return;
    }
    ig__keys_fini(&s->keys);
    s->keys = keys;
    ig__log_note(s, "%lld keys read", (long long)keys.n);
}

static void on_woken(void *user)
{
    ig_server *s = user;
    ig__reader_take(s);
    ig__jobs_take_events(s);
    if (__atomic_exchange_n(&s->reload, 0, __ATOMIC_ACQ_REL) && s->opts.key_file)
        reload_keys(s);
    if (__atomic_load_n(&s->n_stops, __ATOMIC_ACQUIRE) > 1)
        ig__jobs_cancel_all(s);
}

static void *run_http(void *user)
{
    ig_server *s = user;
    (void)pthread_setname_np(pthread_self(), "ingot-http"); /* for who measures it */
    ig__http_run(s->http, s->opts.drain_ns);
    ig__reader_stop(s);
    __atomic_store_n(&s->http_done, 1, __ATOMIC_RELEASE);
    ig__server_hurry(s);
    if (ig__server_ready(s))
        ig_engine_wake(s->model.engine);
    return NULL;
}

/* ---- making ---- */

static const char *keep_text(ig_server *s, const char *text)
{
    return text ? ig__arena_copy(&s->texts, text, strlen(text) + 1) : NULL;
}

/* "https://a.example:8443", as a browser writes it; "null": pages out of files; "*": all. */
static bool is_origin(const char *text)
{
    const char *host = strstr(text, "://");
    if (strcmp(text, "*") == 0 || strcmp(text, "null") == 0)
        return true;
    return host && host > text && host[3] && !strpbrk(host + 3, "/?#@ ") &&
           !strpbrk(text, " ,\r\n");
}

static ig_status check_texts(const ig_server_opts *o, ig_error *err)
{
    const size_t n = o->name ? strlen(o->name) : 1;
    if (n < 1 || n > NAME_BYTES)
        return ig__fail(err, IG_ERR_ARGUMENT,
                        "serve: the model's name has %zu bytes, wanted are 1 to %d", n,
                        NAME_BYTES);
    for (int64_t i = 0; i < o->n_cors; i++)
        if (!is_origin(o->cors[i]))
            return ig__fail(err, IG_ERR_ARGUMENT,
                            "serve: '%.100s' is no origin, wanted is SCHEME://HOST or "
                            "SCHEME://HOST:PORT, nothing behind it, or *",
                            o->cors[i]);
    return IG_OK;
}

static ig_status keep_opts(ig_server *s, const ig_server_opts *opts, ig_error *err)
{
    ig_server_opts *o = &s->opts;
    *o = *opts;
    if (!o->tls_certificate != !o->tls_key)
        return ig__fail(err, IG_ERR_ARGUMENT,
                        "serve: TLS wants a certificate and its key, only the %s is given",
                        o->tls_key ? "key" : "certificate");
    if (o->port < 0 || o->port > 65535)
        return ig__fail(err, IG_ERR_ARGUMENT, "serve: port %d, allowed is 0 to 65535",
                        o->port);
    IG_TRY(check_texts(opts, err));
    o->host = keep_text(s, opts->host ? opts->host : "127.0.0.1");
    o->name = keep_text(s, opts->name ? opts->name : "ingot");
    o->key_file = keep_text(s, opts->key_file);
    o->tls_certificate = keep_text(s, opts->tls_certificate);
    o->tls_key = keep_text(s, opts->tls_key);
    const char **cors =
        ig__arena_alloc(&s->texts, ((size_t)opts->n_cors + 1) * sizeof *cors);
    for (int64_t i = 0; cors && i < opts->n_cors; i++)
        if (!(cors[i] = keep_text(s, opts->cors[i])))
            cors = NULL;
    o->cors = cors;
    o->max_body = o->max_body ? o->max_body : (size_t)8 << 20;
    o->max_connections = o->max_connections ? o->max_connections : 1024;
    o->timeout_ns = o->timeout_ns ? o->timeout_ns : 60 * second_ns;
    o->ping_ns = o->ping_ns ? o->ping_ns : 10 * second_ns;
    o->drain_ns = o->drain_ns ? o->drain_ns : 30 * second_ns;
    if (!o->host || !o->name || !cors || (opts->key_file && !o->key_file) ||
        (opts->tls_key && (!o->tls_key || !o->tls_certificate)))
        return ig__fail_memory(err, "serve", 0);
    return IG_OK;
}

static ig_status open_http(ig_server *s, ig_error *err)
{
    char *certificate = NULL, *key = NULL;
    size_t n;
    ig_status status = IG_OK;
    if (s->opts.tls_certificate) {
        status = ig__read_small_file(&certificate, &n, s->a, s->opts.tls_certificate,
                                     TLS_FILE_MAX, true, err);
        if (status == IG_OK)
            status = ig__read_small_file(&key, &n, s->a, s->opts.tls_key, TLS_FILE_MAX,
                                         true, err);
    }
    const ig__http_opts http = {.host = s->opts.host,
                                .port = s->opts.port,
                                .certificate = certificate,
                                .key = key,
                                .max_body = s->opts.max_body,
                                .max_connections = s->opts.max_connections,
                                .timeout_ns = s->opts.timeout_ns,
                                .ping_ns = s->opts.ping_ns,
                                .events = {.request = on_request,
                                           .probe = on_probe,
                                           .gone = on_gone,
                                           .woken = on_woken,
                                           .user = s}};
    if (status == IG_OK)
        status = ig__http_open(&s->http, s->a, &http, err);
    if (key)
        memset(key, 0, n);
    ig__free(s->a, key);
    ig__free(s->a, certificate);
    return status;
}

static ig_status start(ig_server *s, const ig_server_opts *opts, ig_error *err)
{
    IG_TRY(keep_opts(s, opts, err));
    if (s->opts.key_file)
        IG_TRY(ig__keys_read(&s->keys, s->a, s->opts.key_file, true, err));
    if (getrandom(&s->id_base, sizeof s->id_base, 0) != (ssize_t)sizeof s->id_base)
        s->id_base = (uint64_t)ig__now_ns();
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    s->created_s = now.tv_sec;
    IG_TRY(open_http(s, err));
    if (!ig__reader_start(s) || pthread_create(&s->thread, NULL, run_http, s))
        return ig__fail(err, IG_ERR_MEMORY, "serve: no thread could be started");
    s->threaded = true;
    return IG_OK;
}

ig_status ig_server_create(ig_server **server_out, ig_context *ctx,
                           const ig_server_opts *opts, ig_error *err)
{
    static const ig_server_opts defaults;
    *server_out = NULL;
    const ig_allocator *a = ig__context_allocator(ctx);
    ig_server *s = ig__alloc_zero(a, sizeof *s);
    if (!s)
        return ig__fail_memory(err, "serve", sizeof *s);
    s->ctx = ctx;
    s->a = a;
    s->texts = ig__arena_init(a);
    s->openapi = ig__buffer_init(a);
    pthread_mutex_init(&s->lock, NULL);
    ig__reader_init(s);
    const ig_status status = start(s, opts ? opts : &defaults, err);
    if (status != IG_OK) {
        ig_server_destroy(s);
        return status;
    }
    *server_out = s;
    return IG_OK;
}

int ig_server_port(const ig_server *s)
{
    return ig__http_port(s->http);
}

/* ---- running ---- */

ig_status ig_server_attach(ig_server *s, const ig_server_model *model, ig_error *err)
{
    if (ig__server_ready(s))
        return ig__fail(err, IG_ERR_ARGUMENT, "serve: the server has a model already");
    s->model = *model;
    const ig_model *m = ig_engine_model(model->engine);
    s->info = ig_model_get_info(m);
    s->tokenizer = ig_model_tokenizer(m);
    s->vocab = ig_tokenizer_vocab(s->tokenizer);
    s->context = ig_engine_context(model->engine);
    for (int32_t id = 0; id < s->vocab; id++) {
        const size_t n = ig_token_bytes(s->tokenizer, id, true, NULL, 0);
        s->longest_token = n > s->longest_token ? n : s->longest_token;
    }
    __atomic_store_n(&s->ready, 1, __ATOMIC_RELEASE);
    return IG_OK;
}

/* Tell HTTP's thread of the events since the last time. */
static void pass_on(ig_server *s)
{
    if (!s->dirty)
        return;
    s->dirty = false;
    ig__http_wake(s->http);
}

static bool http_is_done(const ig_server *s)
{
    return __atomic_load_n(&s->http_done, __ATOMIC_ACQUIRE) != 0;
}

void ig__server_hurry(ig_server *s)
{
    __atomic_store_n(&s->hurry, 1, __ATOMIC_SEQ_CST);
}

/* This machine's limits, when nobody waits: a neighbour makes them too low, so the best of a
 * few times counts. Whoever comes meanwhile ends it: then it begins anew in the next quiet
 * moment. Work is announced after it was submitted, so what is not seen here is told. */
static void measure(ig_server *s)
{
    ig_machine m;
    ig_error err;
    __atomic_store_n(&s->hurry, 0, __ATOMIC_SEQ_CST);
    if (ig_engine_wait(s->model.engine, 0) || http_is_done(s) ||
        __atomic_load_n(&s->n_stops, __ATOMIC_SEQ_CST))
        return;
    const ig_status status = ig_machine_measure(&m, s->ctx, 0.2, &s->hurry, &err);
    if (status == IG_ERR_CANCELLED)
        return;
    s->n_measures++;
    if (status != IG_OK)
        return;
    ig_machine *best = &s->machine;
    pthread_mutex_lock(&s->lock);
    best->read_bytes_s = fmax(best->read_bytes_s, m.read_bytes_s);
    best->int8_ops_s = fmax(best->int8_ops_s, m.int8_ops_s);
    best->bf16_ops_s = fmax(best->bf16_ops_s, m.bf16_ops_s);
    best->f32_ops_s = fmax(best->f32_ops_s, m.f32_ops_s);
    pthread_mutex_unlock(&s->lock);
}

void ig_server_run(ig_server *s)
{
    ig_engine *engine = s->model.engine;
    while (engine && !http_is_done(s)) {
        const bool measures = s->opts.measure && s->n_measures < MEASURES;
        const bool busy = ig_engine_wait(engine, measures ? 2 * second_ns : -1);
        if (!busy && measures)
            measure(s);
        while (ig_engine_step(engine) && !http_is_done(s))
            pass_on(s);
        pass_on(s);
    }
    (void)pthread_join(s->thread, NULL);
    s->threaded = false;
    ig__jobs_cancel_all(s); /* HTTP's thread is gone: its side is this thread's now */
    while (engine && ig_engine_step(engine))
        ;
}

void ig_server_stop(ig_server *s)
{
    __atomic_fetch_add(&s->n_stops, 1, __ATOMIC_SEQ_CST);
    ig__server_hurry(s);
    ig__http_stop(s->http);
    ig__http_wake(s->http);
}

void ig_server_reload(ig_server *s)
{
    __atomic_store_n(&s->reload, 1, __ATOMIC_RELEASE);
    ig__http_wake(s->http);
}

void ig_server_destroy(ig_server *s)
{
    if (!s)
        return;
    if (s->threaded) {
        ig_server_stop(s);
        (void)pthread_join(s->thread, NULL);
    }
    ig__reader_stop(s);
    ig__http_close(s->http);
    ig__reader_fini(s);
    ig__jobs_fini(s);
    ig__keys_fini(&s->keys);
    ig__buffer_fini(&s->openapi);
    ig__arena_fini(&s->texts);
    pthread_mutex_destroy(&s->lock);
    ig__free(s->a, s);
}
