/* Asks: made from a body, read at once or by the reader, ended on HTTP's thread. */
#include "serve/ask.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* A body of SHORT bytes takes some milliseconds, at worst. What waits to be read is bounded: a
 * body more is refused, unless one of a client that may have left makes room. */
enum { SHORT = 16 << 10, WAITING_MOST = 64 << 20 };

/* ---- while reading ---- */

int ig__error_status(ig_status status)
{
    return status == IG_ERR_ARGUMENT || status == IG_ERR_LIMIT || status == IG_ERR_FORMAT ||
                   status == IG_ERR_UNSUPPORTED
               ? 400
               : 500;
}

const char *ig__error_type(int status)
{
    return status < 500 ? "invalid_request_error" : "server_error";
}

void ig__ask_refuse(ig__ask *ask, int status, const char *code, const char *field,
                    const char *fmt, ...)
{
    char message[400];
    va_list arguments;
    va_start(arguments, fmt);
    (void)vsnprintf(message, sizeof message, fmt, arguments);
    va_end(arguments);
    ask->status = status;
    ig__write_error(&ask->answer, ig__error_type(status), code, field, message);
}

void ig__ask_refuse_status(ig__ask *ask, ig_status status, const ig_error *err,
                           const char *field)
{
    ig__ask_refuse(ask, ig__error_status(status), NULL, field, "%s", err->message);
}

void ig__ask_refuse_bad(ig__ask *ask, const ig__bad *bad)
{
    ig__ask_refuse(ask, bad->no_memory ? 500 : 400, NULL, bad->field, "%s", bad->message);
}

bool ig__ask_parse(ig__ask *ask)
{
    ig__bad bad;
    const char *text = ask->body.data ? ask->body.data : "";
    if (ig__request_parse(&ask->root, ask->server->a, text, ask->body.n, &bad))
        return true;
    ig__ask_refuse_bad(ask, &bad);
    return false;
}

/* ---- HTTP's thread ---- */

static void destroy(ig__ask *ask)
{
    const ig_server *s = ask->server;
    ig_ids_free(s->tokenizer, &ask->ids);
    ig__params_fini(&ask->params);
    ig__json_destroy(ask->root);
    ig__buffer_fini(&ask->answer);
    ig__buffer_fini(&ask->body);
    ig__free(s->a, ask);
}

/* It was read: answer it, or start what it asks. */
static void finish(ig__ask *ask)
{
    ig__exchange *x = ask->x;
    if (x && ask->server->opts.log_prompts) { /* the log's line shows it at the end */
        x->body = ask->body;
        ask->body = ig__buffer_init(ask->server->a);
    }
    if (x && ask->status && !ig__http_has_room(ask->server->http, 0, ask->answer.n)) {
        ig__http_set_header(x, "Retry-After", "1");
        ig__reply_error(x, 503, ig__error_type(503), "no_room", NULL,
                        "too many long answers are on their way");
    } else if (x && ask->status) {
        ig__reply_json(x, ask->status, &ask->answer);
    } else if (x) {
        ig__ask_start(ask);
    }
    destroy(ask);
}

static void unlink_ask(ig__ask *ask)
{
    if (ask->next)
        ask->next->previous = ask->previous;
    *(ask->previous ? &ask->previous->next : &ask->server->reader.asks) = ask->next;
}

/* Take it out of those that wait; false: it does not any more. Under the lock. */
static bool leave_queue(ig__reader *r, ig__ask *ask)
{
    ig__ask **at = &r->waiting;
    while (*at && *at != ask)
        at = &(*at)->next_waiting;
    if (!*at)
        return false;
    *at = ask->next_waiting;
    if (!*at)
        r->last_waiting = at;
    r->n_bytes -= ask->body.n;
    return true;
}

static void refuse_busy(ig__exchange *x)
{
    ig__http_set_header(x, "Retry-After", "5");
    ig__reply_error(x, 429, "rate_limit_error", "queue_full", NULL,
                    "too many long requests wait to be read; try again in 5 s");
}

/* Refuse who may have left, until n bytes fit. */
static void make_room(ig_server *s, size_t n)
{
    ig__reader *r = &s->reader;
    for (ig__ask *ask = r->asks, *next; ask; ask = next) {
        next = ask->next;
        pthread_mutex_lock(&r->lock);
        const bool full = r->n_bytes + n > WAITING_MOST;
        const bool taken = full && ask->doubtful && leave_queue(r, ask);
        pthread_mutex_unlock(&r->lock);
        if (!full)
            return;
        if (!taken)
            continue;
        unlink_ask(ask);
        s->metrics.n_rejected++;
        refuse_busy(ask->x);
        destroy(ask);
    }
}

/* Give it to the reader; false: too much waits. */
static bool pass(ig__ask *ask)
{
    ig__reader *r = &ask->server->reader;
    make_room(ask->server, ask->body.n);
    pthread_mutex_lock(&r->lock);
    const bool fits = r->n_bytes + ask->body.n <= WAITING_MOST;
    if (fits) {
        r->n_bytes += ask->body.n;
        *r->last_waiting = ask;
        r->last_waiting = &ask->next_waiting;
        pthread_cond_signal(&r->changed);
    }
    pthread_mutex_unlock(&r->lock);
    if (!fits)
        return false;
    ask->next = r->asks;
    if (r->asks)
        r->asks->previous = ask;
    r->asks = ask;
    return true;
}

void ig__ask_begin(ig_server *s, ig__exchange *x, ig__endpoint endpoint,
                   void (*read)(ig__ask *ask))
{
    ig__ask *ask = ig__alloc_zero(s->a, sizeof *ask);
    if (!ask) {
        ig__reply_error(x, 500, ig__error_type(500), NULL, NULL, "out of memory");
        return;
    }
    *ask = (ig__ask){.server = s,
                     .read = read,
                     .endpoint = endpoint,
                     .body = x->body,
                     .answer = ig__buffer_init(s->a),
                     .x = x};
    x->body = ig__buffer_init(s->a);
    if (ask->body.n <= SHORT) {
        read(ask);
        finish(ask);
    } else if (!pass(ask)) {
        s->metrics.n_rejected++;
        refuse_busy(x);
        destroy(ask);
    }
}

void ig__reader_take(ig_server *s)
{
    ig__reader *r = &s->reader;
    pthread_mutex_lock(&r->lock);
    ig__ask *ask = r->read;
    r->read = NULL;
    pthread_mutex_unlock(&r->lock);
    while (ask) {
        ig__ask *next = ask->next_read;
        ig__exchange *x = ask->x;
        unlink_ask(ask);
        if (x)
            ig__http_probe_soon(x);
        finish(ask);
        if (x)
            ig__count_refused(s, x);
        ask = next;
    }
}

static ig__ask *find(const ig_server *s, const ig__exchange *x)
{
    ig__ask *ask = s->reader.asks;
    while (ask && ask->x != x)
        ask = ask->next;
    return ask;
}

void ig__reader_doubt(ig_server *s, const ig__exchange *x)
{
    ig__ask *ask = find(s, x);
    if (!ask)
        return;
    pthread_mutex_lock(&s->reader.lock);
    ask->doubtful = true;
    pthread_mutex_unlock(&s->reader.lock);
}

void ig__reader_forget(ig_server *s, const ig__exchange *x)
{
    ig__ask *ask = find(s, x);
    if (!ask)
        return;
    ask->x = NULL;
    pthread_mutex_lock(&s->reader.lock);
    const bool waited = leave_queue(&s->reader, ask);
    pthread_mutex_unlock(&s->reader.lock);
    if (!waited)
        return; /* it is being read, and comes back */
    unlink_ask(ask);
    destroy(ask);
}

/* ---- the reader ---- */

/* The next to be read, once there is one, first of those whose clients are surely there; NULL: the
 * server ends. Under the lock. */
static ig__ask *next_ask(ig__reader *r)
{
    while (!r->waiting && !r->stop)
        pthread_cond_wait(&r->changed, &r->lock);
    ig__ask *ask = r->stop ? NULL : r->waiting;
    while (ask && ask->doubtful)
        ask = ask->next_waiting;
    if (!ask && !r->stop)
        ask = r->waiting;
    if (ask)
        (void)leave_queue(r, ask);
    return ask;
}

static void *run(void *user)
{
    ig_server *s = user;
    ig__reader *r = &s->reader;
    (void)pthread_setname_np(pthread_self(), "ingot-reader");
    pthread_mutex_lock(&r->lock);
    for (ig__ask *ask; (ask = next_ask(r));) {
        pthread_mutex_unlock(&r->lock);
        ask->read(ask);
        pthread_mutex_lock(&r->lock);
        ask->next_read = r->read;
        r->read = ask;
        ig__http_wake(s->http);
    }
    pthread_mutex_unlock(&r->lock);
    return NULL;
}

void ig__reader_init(ig_server *s)
{
    ig__reader *r = &s->reader;
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->changed, NULL);
    r->last_waiting = &r->waiting;
}

bool ig__reader_start(ig_server *s)
{
    s->reader.threaded = pthread_create(&s->reader.thread, NULL, run, s) == 0;
    return s->reader.threaded;
}

void ig__reader_stop(ig_server *s)
{
    ig__reader *r = &s->reader;
    if (!r->threaded)
        return;
    pthread_mutex_lock(&r->lock);
    r->stop = true;
    pthread_cond_signal(&r->changed);
    pthread_mutex_unlock(&r->lock);
    (void)pthread_join(r->thread, NULL);
    r->threaded = false;
}

void ig__reader_fini(ig_server *s)
{
    ig__reader *r = &s->reader;
    while (r->asks) {
        ig__ask *ask = r->asks;
        r->asks = ask->next;
        destroy(ask);
    }
    pthread_cond_destroy(&r->changed);
    pthread_mutex_destroy(&r->lock);
}
