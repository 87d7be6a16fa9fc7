/* ingot serve: a model over HTTP. Signals, options, and what is said at the start; the
 * server itself is the library's.
 */
#include "verbs.h"

#include "session.h"

#include "ingot/serve.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

typedef struct serve_opts {
    const char *host, *alias, *key_file, *tls_certificate, *tls_key, *template_file;
    int64_t port, max_running, max_queued, kv_mib, prefix_mib, timeout_s;
    int page_size; /* 16 tokens, doubled so often */
    args_texts cors;
    bool log_prompts, quiet, no_measure, json;
    session_opts session;
} serve_opts;

#define AT(field) offsetof(serve_opts, field)
static const args_option options[] = {
    {"--host", 0, ARGS_TEXT, AT(host), "NAME", "listen at", 0, 0, "127.0.0.1"},
    {"--port", 0, ARGS_INT, AT(port), "N", "0: any", 0, 65535, NULL},
    {"--alias", 0, ARGS_TEXT, AT(alias), "NAME", "", 0, 0, "the file's"},
    SESSION_ROWS(serve_opts, session),
    {"--max-running", 0, ARGS_INT, AT(max_running), "N", "at once", 1, 256, NULL},
    {"--max-queued", 0, ARGS_INT, AT(max_queued), "N", "", 1, 65536, NULL},
    {"--kv-memory", 0, ARGS_INT, AT(kv_mib), "MIB", "", 1, 1 << 24, "4 x ctx"},
    {"--prefix-cache-memory", 0, ARGS_INT, AT(prefix_mib), "MIB", "", 0, 1 << 24,
     "free KV"},
    {"--page-size", 0, ARGS_CHOICE, AT(page_size), "16|32|64|128|256", "", 0, 0, NULL},
    {"--template", 0, ARGS_TEXT, AT(template_file), "FILE", "", 0, 0, "the model's"},
    {"--api-key-file", 0, ARGS_TEXT, AT(key_file), "FILE", "a key a line", 0, 0, ""},
    {"--cors", 0, ARGS_TEXTS, AT(cors), "ORIGIN", "repeatable", 0, 0, ""},
    {"--tls-cert", 0, ARGS_TEXT, AT(tls_certificate), "FILE", "PEM", 0, 0, ""},
    {"--tls-key", 0, ARGS_TEXT, AT(tls_key), "FILE", "PEM", 0, 0, ""},
    {"--timeout", 0, ARGS_INT, AT(timeout_s), "S", "slow clients", 1, 86400, NULL},
    {"--log-prompts", 0, ARGS_FLAG, AT(log_prompts), NULL, "bodies too", 0, 0, ""},
    {"--quiet", 0, ARGS_FLAG, AT(quiet), NULL, "no log", 0, 0, ""},
    {"--no-measure", 0, ARGS_FLAG, AT(no_measure), NULL, "no limits", 0, 0, ""},
    {"--json", 0, ARGS_FLAG, AT(json), NULL, "one object", 0, 0, ""},
};

static void defaults(void *at)
{
    serve_opts *o = at;
    o->port = 8080;
    o->max_running = 16;
    o->max_queued = 128;
    o->prefix_mib = -1;
    o->timeout_s = 60;
}

/* ---- signals: one thread waits for them, so that no handler has to reach anything ---- */

typedef struct listener {
    ig_server *server;
    pthread_t thread;
    int ended; /* atomic: written before the thread is woken for the last time */
    bool started;
} listener;

static void set_of_signals(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGHUP);
}

static void *listen_to_signals(void *user)
{
    listener *l = user;
    sigset_t set;
    set_of_signals(&set);
    for (int number; sigwait(&set, &number) == 0;) {
        if (__atomic_load_n(&l->ended, __ATOMIC_ACQUIRE))
            break;
        if (number == SIGHUP)
            ig_server_reload(l->server);
        else
            ig_server_stop(l->server);
    }
    return NULL;
}

static void end_listener(listener *l)
{
    if (!l->started)
        return;
    __atomic_store_n(&l->ended, 1, __ATOMIC_RELEASE);
    pthread_kill(l->thread, SIGHUP);
    pthread_join(l->thread, NULL);
}

/* ---- what is said ---- */

static void on_log(void *user, const char *line)
{
    (void)user;
    fprintf(stderr, "%s\n", line);
}

/* "smollm2-135m" of "/models/smollm2-135m.gguf". */
static void stem(char *to, size_t cap, const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    size_t n = strlen(name);
    if (n > 5 && strcmp(name + n - 5, ".gguf") == 0)
        n -= 5;
    snprintf(to, cap, "%.*s", (int)n, name);
}

typedef struct started {
    const char *name, *url;
    const session *session;
    ig_engine_stats stats;
} started;

static int tell_json(report *out, const serve_opts *o, const started *st, int port)
{
    json_t *object = json_pack(
        "{s:s, s:i, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:s, s:s, s:f}", "url", st->url,
        "port", port, "model", st->name, "context", (json_int_t)st->stats.context,
        "max_running", (json_int_t)o->max_running, "kv_pages",
        (json_int_t)st->stats.n_pages, "page_bytes", (json_int_t)st->stats.page_bytes,
        "page_tokens", (json_int_t)st->stats.page_tokens, "step_rows",
        (json_int_t)st->stats.max_tokens, "threads",
        (json_int_t)ig_context_threads(st->session->ctx), "threads_reason",
        ig_context_threads_reason(st->session->ctx), "isa",
        ig_context_isa(st->session->ctx), "load_ms", (double)st->session->load_ns / 1e6);
    const int code = report_json(out, object);
    report_flush(out);
    return code;
}

static void tell_words(const serve_opts *o, const started *st)
{
    static const char *const kv[] = {"f16", "f32", "q8_0"};
    const ig_engine_stats *s = &st->stats;
    char prefixes[40] = "every page that is free";
    if (o->prefix_mib >= 0)
        snprintf(prefixes, sizeof prefixes, o->prefix_mib ? "up to %lld MiB" : "none",
                 (long long)o->prefix_mib);
    report_note("serving %s at %s (page at /, API under /v1)", st->name, st->url);
    report_note("%d thread%s (%s), %s; loaded in %.0f ms",
                ig_context_threads(st->session->ctx),
                ig_context_threads(st->session->ctx) == 1 ? "" : "s",
                ig_context_threads_reason(st->session->ctx),
                ig_context_isa(st->session->ctx), (double)st->session->load_ns / 1e6);
    report_note(
        "context %lld tokens, %lld answers at once, %lld requests may wait; KV cache "
        "%s, %.0f MiB in %lld pages of %lld tokens; prefix cache: %s",
        (long long)s->context, (long long)o->max_running, (long long)o->max_queued,
        kv[o->session.exact ? IG_KV_F32 : o->session.kv],
        (double)s->page_bytes * (double)s->n_pages / 1048576, (long long)s->n_pages,
        (long long)s->page_tokens, prefixes);
    if (!o->key_file && o->host && strcmp(o->host, "127.0.0.1") != 0 &&
        strcmp(o->host, "localhost") != 0 && strcmp(o->host, "::1") != 0)
        report_note("serve: whoever reaches %s may ask: there is no --api-key-file",
                    o->host);
}

/* ---- running ---- */

static int open_server(ig_server **server_out, const serve_opts *o, ig_context *ctx,
                       const char *name)
{
    ig_error err;
    const ig_server_opts opts = {.host = o->host,
                                 .port = (int)o->port,
                                 .name = name,
                                 .key_file = o->key_file,
                                 .cors = o->cors.at,
                                 .n_cors = o->cors.n,
                                 .tls_certificate = o->tls_certificate,
                                 .tls_key = o->tls_key,
                                 .timeout_ns = o->timeout_s * 1000000000,
                                 .log_prompts = o->log_prompts,
                                 .measure = !o->no_measure,
                                 .log = o->quiet ? NULL : on_log};
    return ig_server_create(server_out, ctx, &opts, &err) == IG_OK
               ? EXIT_OK
               : report_error("serve", &err);
}

static int open_engine(ig_engine **engine_out, session *s, const serve_opts *o,
                       const char *path)
{
    ig_error err;
    const int64_t start = report_now_ns();
    const ig_model_opts model_opts = {.exact = o->session.exact};
    if (ig_model_open(&s->model, s->ctx, path, &model_opts, &err) != IG_OK)
        return report_error("serve", &err);
    const int64_t trained = ig_model_get_info(s->model).context;
    if (trained > 0 && o->session.context > trained)
        report_note("serve: a context of %lld tokens; the model was trained for %lld",
                    (long long)o->session.context, (long long)trained);
    const ig_engine_opts opts = {
        .context = o->session.context,
        .max_running = o->max_running,
        .max_queued = o->max_queued,
        .kv_bytes = (size_t)o->kv_mib << 20,
        .prefix_bytes = o->prefix_mib > 0 ? (size_t)o->prefix_mib << 20 : 0,
        .no_prefix_cache = o->prefix_mib == 0,
        .kv = o->session.exact ? IG_KV_F32 : (ig_kv_type)o->session.kv,
        .page_tokens = (int64_t)16 << o->page_size};
    if (ig_engine_create(engine_out, s->model, &opts, &err) != IG_OK)
        return report_error("serve", &err);
    const int64_t context = ig_engine_context(*engine_out);
    int64_t wanted = o->session.context;
    if (!wanted)
        wanted = trained > 0 && trained < 4096 ? trained : 4096;
    if (context < wanted)
        report_note("serve: a context of %lld tokens, not %lld: --kv-memory holds no more",
                    (long long)context, (long long)wanted);
    s->load_ns = report_now_ns() - start;
    return session_template(s, o->template_file);
}

/* The address as a client writes it. */
static void write_url(char *to, size_t cap, const serve_opts *o, int port)
{
    const char *host = o->host ? o->host : "127.0.0.1";
    const bool six = strchr(host, ':') != NULL;
    snprintf(to, cap, "%s://%s%s%s:%d", o->tls_certificate ? "https" : "http",
             six ? "[" : "", host, six ? "]" : "", port);
}

static int serve(report *out, const serve_opts *o, session *s, ig_server *server,
                 ig_engine *engine, const char *name)
{
    ig_error err;
    const ig_server_model model = {.engine = engine, .chat_template = s->tmpl};
    if (ig_server_attach(server, &model, &err) != IG_OK)
        return report_error("serve", &err);
    char url[300];
    write_url(url, sizeof url, o, ig_server_port(server));
    const started st = {
        .name = name, .url = url, .session = s, .stats = ig_engine_get_stats(engine)};
    const int code = o->json ? tell_json(out, o, &st, ig_server_port(server)) : EXIT_OK;
    if (!o->json)
        tell_words(o, &st);
    if (code != EXIT_OK)
        ig_server_stop(server);
    ig_server_run(server);
    return code;
}

static int run(report *out, const void *opts, const char *const *operands, int n_operands)
{
    (void)n_operands;
    const serve_opts *o = opts;
    session s = {.verb = "serve"};
    ig_server *server = NULL;
    ig_engine *engine = NULL;
    char file_name[128];
    stem(file_name, sizeof file_name, operands[0]);
    const char *name = o->alias ? o->alias : file_name;
    if (!o->tls_certificate != !o->tls_key)
        return report_usage("serve: TLS takes both --tls-cert and --tls-key");
    sigset_t signals; /* blocked in every thread: the listener's waits for them */
    set_of_signals(&signals);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    listener l = {.started = false};
    int code = session_context(&s.ctx, "serve", o->session.threads, o->session.isa);
    if (code == EXIT_OK)
        code = open_server(&server, o, s.ctx, name);
    l.server = server;
    if (code == EXIT_OK) {
        l.started = pthread_create(&l.thread, NULL, listen_to_signals, &l) == 0;
        code = l.started ? EXIT_OK : report_fail("serve: no thread could be started");
    }
    if (code == EXIT_OK)
        code = open_engine(&engine, &s, o, operands[0]);
    if (code == EXIT_OK)
        code = serve(out, o, &s, server, engine, name);
    end_listener(&l);
    ig_server_destroy(server);
    ig_engine_destroy(engine);
    session_close(&s);
    return code;
}

const args_verb verb_serve = {
    "serve",
    "MODEL",

    "Serve the model over HTTP: OpenAI's API, metrics, a page to chat.\n"
    "SIGTERM ends it after what was begun, SIGHUP reads the keys again.",
    1,
    1,
    options,
    sizeof options / sizeof *options,
    sizeof(serve_opts),
    defaults,
    run};
