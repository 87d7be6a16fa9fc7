/* The HTTP transport: connections, whole requests, answers. It knows nothing of what is
 * asked.
 *
 * One thread runs it (ig__http_run) and all callbacks come on that thread; only
 * ig__http_wake and ig__http_stop may be called from others. An exchange is one request and its answer.
 * It lives from `request` to `gone`. Between the two its owner answers it, at once or later:
 *
 *     ig__http_reply(x, 200, "application/json", text, n)              all of it
 *     ig__http_begin(x, 200, "text/event-stream"), ig__http_write ..., ig__http_end
 *
 * A client that left is found by writing. While nothing has been written a closed client and
 * one that shut only its sending side look the same, so then (and when an answer is quiet for
 * long) `probe` asks the owner for bytes that change nothing: a comment, white space. If the
 * client is gone the write fails, and `gone` follows.
 */
#ifndef INGOT_SERVE_HTTP_H
#define INGOT_SERVE_HTTP_H

#include "base/buffer.h"

typedef struct ig__http ig__http;
struct MHD_Connection;

/* What is wrong with a request before anybody looks at what it asks. */
typedef enum ig__http_fault {
    IG_FAULT_NONE,
    IG_FAULT_HOST,    /* none, or more than one */
    IG_FAULT_NAME,    /* a header's name with a blank */
    IG_FAULT_LENGTH,  /* of the body: said more than once */
    IG_FAULT_TARGET,  /* too long */
    IG_FAULT_HEADERS, /* too long */
    IG_FAULT_PACKED,  /* Content-Encoding */
    IG_FAULT_CODING,  /* an unknown Transfer-Encoding */
    IG_FAULT_ROOM     /* too much of others' is held already */
} ig__http_fault;

typedef struct ig__exchange {
    /* the request */
    const char *method; /* "GET"; lives as long as the exchange, as does all below */
    char path[160]; /* decoded, without the query; longer ones are cut, and match nothing */
    char peer[48];  /* the client's address, without the port */
    ig__buffer body;
    bool too_large; /* the body passes the limit: what was read of it is not here */
    ig__http_fault fault;
    int64_t start_ns; /* of the head; from `request` on: when all of it was there */
    void *user;       /* the owner's */

    /* the answer, for the owner to read */
    int status;     /* 0: none yet */
    bool begun;     /* its head is on the way: the status cannot change */
    bool ended;     /* nothing more will be written */
    bool no_body;   /* a HEAD request */
    bool closes;    /* nothing more is read from the connection */
    int64_t n_sent; /* bytes of body given to the client */

    /* the transport's */
    ig__http *http;
    struct MHD_Connection *connection;
    int fd;
    ig__buffer headers; /* name 0 value 0 ... */
    ig__buffer out;     /* not yet sent: data[sent..n) */
    size_t sent;
    uint64_t n_received;
    size_t n_held; /* bytes of its answer that count against what is held for all */
    const char *content_type;             /* static storage */
    struct ig__exchange *previous, *next; /* among those that wait or write */
    bool requested, listed, suspended, half_closed, queued;
    int64_t probe_ns, probe_gap_ns; /* when the next probe is due, and how long then */
    int64_t write_ns;               /* when the owner last wrote */
} ig__exchange;

typedef struct ig__http_events {
    void (*request)(void *user, ig__exchange *x);
    void (*probe)(void *user, ig__exchange *x);
    /* The last call; `whole`: the answer reached the system's buffers to its end. */
    void (*gone)(void *user, ig__exchange *x, bool whole);
    void (*woken)(void *user); /* after ig__http_wake; several may be one */
    void *user;
} ig__http_events;

typedef struct ig__http_opts {
    const char *host;        /* name or address to listen at */
    int port;                /* 0: any that is free */
    const char *certificate; /* PEM text, with `key`: TLS; NULL: plain */
    const char *key;
    size_t max_body; /* bytes */
    int64_t max_connections;
    int64_t timeout_ns; /* to send a whole request, to stay idle, to take a byte */
    int64_t ping_ns;    /* an answer that was quiet for so long is probed */
    ig__http_events events;
} ig__http_opts;

/* Bind and listen. The allocator must live as long. */
ig_status ig__http_open(ig__http **http_out, const ig_allocator *a,
                        const ig__http_opts *opts, ig_error *err);
int ig__http_port(const ig__http *http);
/* Serve until ig__http_stop, and then until no exchange is left or `grace_ns` has passed. */
void ig__http_run(ig__http *http, int64_t grace_ns);
/* Any thread, signal handlers too. */
void ig__http_wake(ig__http *http);
void ig__http_stop(ig__http *http);
void ig__http_close(ig__http *http); /* after run; may be NULL */

int64_t ig__http_n_connections(const ig__http *http);
/* Bodies that arrive and whole answers on their way share a bound: is there room for n bytes more of
 * what holds n_held already? Small ones always find it. */
bool ig__http_has_room(const ig__http *http, size_t n_held, size_t n);
/* Probe anew from now on, if the other side is shut: its request begins to cost something. */
void ig__http_probe_soon(ig__exchange *x);

/* A header of the request; NULL: absent. */
const char *ig__http_get_header(const ig__exchange *x, const char *name);
/* A header of the answer, before its first byte. */
void ig__http_set_header(ig__exchange *x, const char *name, const char *value);
void ig__http_reply(ig__exchange *x, int status, const char *content_type, const char *body,
                    size_t n);
void ig__http_begin(ig__exchange *x, int status, const char *content_type);
void ig__http_write(ig__exchange *x, const char *bytes, size_t n);
void ig__http_end(ig__exchange *x);

#endif
