/* Load for one server: streamed requests, many at once, each on a connection of its own.
 *
 * One thread and one epoll. Either a fixed number of users, each with the next request as
 * soon as the last has ended, or arrivals at given times however long the answers take.
 * Times are monotonic nanoseconds, taken when bytes arrive; a request starts when it is
 * due, before its connection is made.
 */
#ifndef INGOT_CLI_LOAD_CLIENT_H
#define INGOT_CLI_LOAD_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

enum { LOAD_MOST_OPEN = 1024 };

typedef enum load_outcome {
    LOAD_OK,
    LOAD_CONNECT,   /* no connection */
    LOAD_BUSY,      /* 429 or 503 */
    LOAD_REFUSED,   /* another status than 200 */
    LOAD_FAILED,    /* an event with an error */
    LOAD_CLOSED,    /* the connection ended within the answer */
    LOAD_TIMEOUT,   /* not whole in time */
    LOAD_MALFORMED, /* not what this API answers */
    LOAD_CANCELLED, /* by Ctrl-C */
    LOAD_N_OUTCOMES
} load_outcome;

extern const char *const load_outcome_names[LOAD_N_OUTCOMES];

typedef struct load_server {
    struct sockaddr_storage address;
    socklen_t address_bytes;
    int family;
    char host[300]; /* as the Host header has it */
    char path[600];
} load_server;

/* Read "http://host[:port][/base]", find the address that accepts; `path` ("/v1/...") comes
 * behind base, which may end in /v1 itself. An exit code; why, in message [cap]. */
int load_server_find(load_server *s, const char *url, const char *path, char *message,
                     size_t cap);

typedef struct load_times {
    int64_t *at; /* [n] ns, of cap; NULL while cap is 0 */
    int64_t n, cap;
} load_times;

typedef struct load_opts {
    const load_server *server;
    const char *key;    /* of the API; NULL: none */
    int64_t users;      /* requests at once, at most; 1 to LOAD_MOST_OPEN */
    int64_t n_requests; /* 0: until the time is over */
    double seconds;     /* no request starts later; 0: whenever */
    double timeout_s;   /* of one request */
    bool arrivals;      /* start by gap_s; else as soon as a user is free */
    const void *plan;   /* what the two callbacks get */
    double (*gap_s)(const void *plan, int64_t i); /* between request i - 1 and i */
    /* The JSON of request i and its bytes, to be freed; NULL: no memory. */
    char *(*body)(const void *plan, int64_t i, size_t *n_out);
} load_opts;

typedef struct load_totals {
    int64_t n[LOAD_N_OUTCOMES];
    char first[LOAD_N_OUTCOMES][200]; /* what the first of each kind said */
    /* of requests that ended well */
    int64_t prompt_tokens, cached_tokens, tokens;
    load_times ttft, gaps, whole;
    int64_t wall_ns;      /* from the first start to the last end */
    int64_t most_open;    /* requests at once */
    bool counts_by_event; /* a server gave no usage: a token an event */
} load_totals;

/* Run it. False: no memory or no epoll; totals are to be finished all the same. */
bool load_run(load_totals *t, const load_opts *opts);
void load_totals_fini(load_totals *t);

#endif
