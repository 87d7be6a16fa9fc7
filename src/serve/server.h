/* The server's state, and what its files call of each other.
 *
 * Three threads: HTTP's, on which nearly all of this folder runs; the engine's stepping thread,
 * which only puts events into jobs (job_events.c) and wakes HTTP's; and the reader, which reads
 * long bodies (ask.c). What the first two touch is guarded by `lock`, or atomic.
 */
#ifndef INGOT_SERVE_SERVER_H
#define INGOT_SERVE_SERVER_H

#include "base/arena.h"
#include "ingot/machine.h"
#include "ingot/serve.h"
#include "serve/http.h"
#include "serve/keys.h"
#include "serve/metrics.h"

#include <pthread.h>

typedef struct ig__ask ig__ask;
typedef struct ig__job ig__job;

/* The thread that reads long bodies, and what lies before and behind it (ask.c). */
typedef struct ig__reader {
    pthread_t thread;
    bool threaded;
    ig__ask *asks; /* HTTP's thread: all that it was given and has not taken back */

    pthread_mutex_t lock; /* guards the rest, and each ask's guarded part */
    pthread_cond_t changed;
    ig__ask *waiting, **last_waiting, *read;
    size_t n_bytes; /* of those that wait */
    bool stop;
} ig__reader;

struct ig_server {
    ig_context *ctx;
    const ig_allocator *a;
    ig__arena texts;
    ig_server_opts opts; /* with defaults; its texts lie in `texts` */
    ig__http *http;
    pthread_t thread;
    bool threaded;

    /* filled before `ready`, constant afterwards */
    ig_server_model model;
    ig_model_info info;
    const ig_tokenizer *tokenizer;
    int64_t vocab, context; /* tokens */
    size_t longest_token;   /* bytes */

    /* atomic; stored with release after what they announce, loaded with acquire */
    int ready, n_stops, reload, http_done;
    int hurry; /* atomic, in one order with n_stops: a measurement is to be given up */

    pthread_mutex_t lock; /* guards ready_jobs, each job's shared part, and machine */
    ig_machine machine;   /* the best that was measured; zero: nothing was yet */
    ig__job *ready_jobs;
    /* the stepping thread's */
    bool dirty; /* events since it last woke the other */
    int n_measures;

    ig__reader reader;

    /* HTTP's thread */
    ig__keys keys;
    ig__metrics metrics;
    ig__job *jobs;
    int64_t n_jobs;
    uint64_t id_base, n_ids;
    int64_t created_s;
    ig__buffer openapi;
};

static inline bool ig__server_ready(const ig_server *s)
{
    return __atomic_load_n(&s->ready, __ATOMIC_ACQUIRE) != 0;
}

/* Somebody waits: a measurement that runs is given up. After what they wait for was submitted.
 * Any thread. */
void ig__server_hurry(ig_server *s);

/* ---- answers that are no completion ---- */

/* An error in OpenAI's shape; `field` and `code` may be NULL. */
IG_PRINTF(6, 7)
void ig__reply_error(ig__exchange *x, int status, const char *type, const char *code,
                     const char *field, const char *fmt, ...);
/* JSON from a buffer, which is emptied; one that failed is an error of the server's. */
void ig__reply_json(ig__exchange *x, int status, ig__buffer *b);
/* The error as JSON alone. */
void ig__write_error(ig__buffer *b, const char *type, const char *code, const char *field,
                     const char *message);

/* ---- routes ---- */

void ig__route(ig_server *s, ig__exchange *x);
/* In the metrics, if the answer is a refusal. */
void ig__count_refused(ig_server *s, const ig__exchange *x);

void ig__serve_tokenize(ig_server *s, ig__exchange *x);
void ig__serve_detokenize(ig_server *s, ig__exchange *x);
void ig__serve_apply_template(ig_server *s, ig__exchange *x);
void ig__serve_metrics(ig_server *s, ig__exchange *x);
void ig__serve_openapi(ig_server *s, ig__exchange *x);

/* ---- long bodies ---- */

void ig__reader_init(ig_server *s);
bool ig__reader_start(ig_server *s); /* false: no thread could be started */
/* HTTP's thread: what the reader has read, after a wake-up. */
void ig__reader_take(ig_server *s);
/* HTTP's thread: the exchange's client may have left; it is gone. */
void ig__reader_doubt(ig_server *s, const ig__exchange *x);
void ig__reader_forget(ig_server *s, const ig__exchange *x);
void ig__reader_stop(ig_server *s); /* what waits is left unread */
void ig__reader_fini(ig_server *s);

/* ---- jobs ---- */

void ig__serve_chat(ig_server *s, ig__exchange *x);
void ig__serve_completion(ig_server *s, ig__exchange *x);
void ig__jobs_take_events(ig_server *s); /* after a wake-up */
void ig__job_probe(ig_server *s, ig__exchange *x);
void ig__job_gone(ig_server *s, ig__exchange *x, bool whole);
void ig__jobs_cancel_all(ig_server *s);
/* Only when neither the engine nor HTTP knows them any more. */
void ig__jobs_fini(ig_server *s);

/* ---- the log ---- */

/* One line for an exchange that was answered, or whose client left; `job` may be NULL. */
void ig__log_request(ig_server *s, const ig__exchange *x, const ig__job *job, bool whole);
/* One line about the server itself. */
IG_PRINTF(2, 3) void ig__log_note(ig_server *s, const char *fmt, ...);

#endif
