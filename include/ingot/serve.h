/* A server of one model over HTTP: the interface of OpenAI's API, metrics, a page.
 *
 *     ig_server_create    listens at once, and answers "loading" (503) ...
 *     ig_server_attach    ... until it has a model
 *     ig_server_run       serves, on the caller's thread, until ig_server_stop
 *     ig_server_destroy
 *
 * HTTP has one thread of its own, the engine runs on the caller's. Both take memory from the
 * context's allocator, which must serve two threads at a time, as the C library's does. A
 * process with servers ignores SIGPIPE.
 *
 * What is asked is nobody else's: no answer, status or log line holds text of another
 * request, and none holds a prompt unless `log_prompts` asks for it.
 */
#ifndef INGOT_SERVE_H
#define INGOT_SERVE_H

#include "ingot/engine.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ig_server ig_server;

typedef struct ig_server_opts {
    const char
        *host; /* name or address to listen at; NULL: 127.0.0.1, this machine alone */
    int port;  /* 0: any that is free */
    const char *name;        /* of the model in answers, 1 to 127 bytes; NULL: "ingot" */
    const char *key_file;    /* API keys, one a line; NULL: none is asked for */
    const char *const *cors; /* [n_cors] origins that browsers may call from, as they
                                write them ("https://a.example"); "*": all */
    int64_t n_cors;
    const char *tls_certificate; /* PEM files, both or none: TLS */
    const char *tls_key;
    size_t max_body;         /* bytes of a request; 0: 8 MiB */
    int64_t max_connections; /* 0: 1024 */
    int64_t timeout_ns;      /* to send a whole request, to stay idle, to take a byte of an
                                answer; 0: 60 s */
    int64_t ping_ns;  /* a stream that is silent for so long gets a comment; 0: 10 s */
    int64_t drain_ns; /* after a stop, for what was begun; 0: 30 s */
    bool log_prompts;
    bool measure; /* three times, in the first quiet moments: this machine's limits, for
                     the metrics (about half a second each, up to 1 GiB for as long) */
    /* One JSON object a request, a line without its newline. On the server's thread. */
    void (*log)(void *user, const char *line);
    void *log_user;
} ig_server_opts;

/* Listen, and answer from a thread of the server's own. `opts` may be NULL; texts are
 * copied. An address in use, a key file that cannot be read: IG_ERR_IO; a build without the
 * HTTP library: IG_ERR_UNSUPPORTED. */
IG_API IG_WARN_UNUSED ig_status ig_server_create(ig_server **server_out, ig_context *ctx,
                                                 const ig_server_opts *opts, ig_error *err);
IG_API int ig_server_port(const ig_server *server);

typedef struct ig_server_model {
    ig_engine *engine;
    const ig_template *chat_template; /* NULL: the model has none, and chat is refused */
} ig_server_model;

/* Be ready: requests are taken from here on, and wait for ig_server_run. Once a server. */
IG_API IG_WARN_UNUSED ig_status ig_server_attach(ig_server *server,
                                                 const ig_server_model *model,
                                                 ig_error *err);
/* Serve: the caller's thread is the engine's stepping thread until this returns. It returns
 * after ig_server_stop, when all that was begun is answered or drain_ns has passed; nothing
 * of the engine is in use then. Without a model it waits for the stop alone. */
IG_API void ig_server_run(ig_server *server);
/* Take no more connections, finish, return from ig_server_run. A second call ends what is
 * still running. Any thread. */
IG_API void ig_server_stop(ig_server *server);
/* Read the key file again; if it cannot be read the old keys stay (and the log says so).
 * Any thread. */
IG_API void ig_server_reload(ig_server *server);
/* May be NULL. Not while ig_server_run runs; one that never ran is stopped by it. */
IG_API void ig_server_destroy(ig_server *server);

#ifdef __cplusplus
}
#endif
#endif
