/* The transport over libmicrohttpd, in its external mode: our loop, its state machines.
 *
 *     our epoll set:  [libmicrohttpd's own epoll set] [the wake eventfd] [sockets that wait]
 *
 * A request whose answer is not there yet is suspended: libmicrohttpd then looks at its
 * socket no more, so the socket is in our set too, for the end of input and for errors. An
 * answer that is written piece by piece is suspended whenever all of it was taken. Every
 * resumption is followed by MHD_run in the same turn of the loop.
 *
 * Time limits: libmicrohttpd's own covers a socket that takes or gives no byte; a request
 * that trickles in is covered by the sweep, which ends a connection that did not bring a
 * whole request in time. The sweep runs once a second while a connection is open and never
 * else.
 */
#include "serve/http_int.h"

#include "base/clock.h"
#include "base/error.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MAX_EVENTS = 64, TAG_WAKE = 1, TAG_MHD = 2 }; /* tags of our epoll events */
enum { HEADER_MEMORY = 64 << 10 };
static const uint64_t drain_limit = (uint64_t)64 << 20; /* of a body that is too large */
static const size_t held_limit = (size_t)256 << 20, small = 16 << 10;
static const int64_t slowest =
    8 << 10; /* bytes a second that a client must take of an answer */
static const int64_t second_ns = 1000000000;
/* once it stops: for requests that are on their way; after a second stop, for errors */
static const int64_t arrive_limit_ns = 5000000000, last_words_ns = 1000000000;
static const int64_t probe_first_ns = 20000000, probe_last_ns = 1000000000;

/* One open socket, and when it began to bring a request. */
typedef struct connection {
    struct connection *previous, *next;
    int fd;
    int64_t since_ns; /* 0: a request is being answered */
    int64_t
        limit_ns; /* by when its last answer must have been taken; 0: none is on its way */
    bool over;    /* at the last sweep: nothing more can come */
} connection;

struct ig__http {
    const ig_allocator *a;
    ig__http_opts opts; /* texts are not kept */
    struct MHD_Daemon *daemon;
    int listener, epoll, wake, port;
    int woken, stopping; /* atomic: written by other threads, with release, before the wake
                            descriptor; read after it, with acquire. stopping: how often */
    connection *connections;
    ig__exchange *waiting;
    int64_t n_connections; /* atomic, relaxed: a gauge that other threads read */
    int64_t sweep_ns, n_half_closed;
    int64_t n_arriving; /* requests that began and are not there yet */
    size_t n_held;      /* bytes of their bodies, and of whole answers on their way */
    bool closed_one;    /* a connection, since the last run of libmicrohttpd began */
};

/* ---- the list of exchanges that wait or write ---- */

static void watch(ig__exchange *x)
{
    ig__http *h = x->http;
    if (x->listed)
        return;
    x->listed = true;
    x->previous = NULL;
    x->next = h->waiting;
    if (h->waiting)
        h->waiting->previous = x;
    h->waiting = x;
    struct epoll_event event = {.events = EPOLLRDHUP | EPOLLET, .data.ptr = x};
    (void)epoll_ctl(h->epoll, EPOLL_CTL_ADD, x->fd, &event);
}

static void unwatch(ig__exchange *x)
{
    ig__http *h = x->http;
    if (!x->listed)
        return;
    x->listed = false;
    *(x->previous ? &x->previous->next : &h->waiting) = x->next;
    if (x->next)
        x->next->previous = x->previous;
    h->n_half_closed -= x->half_closed;
    (void)epoll_ctl(h->epoll, EPOLL_CTL_DEL, x->fd, NULL);
}

/* The socket's other side is closed, or the socket is broken: what it means shows when
 * something is written. */
static void half_closed(ig__exchange *x, bool broken)
{
    if (broken && !x->begun && !x->ended) { /* nothing was written, and nothing can be */
        x->out.failed = true;
        ig__http_resume(x);
    }
    if (x->half_closed)
        return;
    x->half_closed = true;
    x->http->n_half_closed++;
    ig__http_probe_soon(x);
}

void ig__http_probe_soon(ig__exchange *x)
{
    x->probe_gap_ns = probe_first_ns;
    x->probe_ns = ig__now_ns();
}

/* ---- what libmicrohttpd calls ---- */

static void name_peer(ig__exchange *x)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(x->connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    const struct sockaddr *at = info ? info->client_addr : NULL;
    if (at && at->sa_family == AF_INET)
        (void)inet_ntop(AF_INET, &((const struct sockaddr_in *)(const void *)at)->sin_addr,
                        x->peer, sizeof x->peer);
    else if (at && at->sa_family == AF_INET6)
        (void)inet_ntop(AF_INET6,
                        &((const struct sockaddr_in6 *)(const void *)at)->sin6_addr,
                        x->peer, sizeof x->peer);
}

static connection *connection_of(struct MHD_Connection *c)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info ? info->socket_context : NULL;
}

static ig__exchange *begin_exchange(ig__http *h, struct MHD_Connection *c, const char *path,
                                    const char *method)
{
    ig__exchange *x = ig__alloc_zero(h->a, sizeof *x);
    if (!x)
        return NULL;
    x->http = h;
    x->connection = c;
    x->method = method;
    x->no_body = strcmp(method, "HEAD") == 0;
    if (strncasecmp(path, "http://", 7) == 0 || strncasecmp(path, "https://", 8) == 0) {
        const char *rest = strchr(strchr(path, ':') + 3, '/'); /* as to a proxy */
        path = rest ? rest : "/";
    }
    const size_t n = strlen(path);
    memcpy(x->path, path, n < sizeof x->path ? n : sizeof x->path - 1);
    x->start_ns = ig__now_ns();
    x->body = ig__buffer_init(h->a);
    x->headers = ig__buffer_init(h->a);
    x->out = ig__buffer_init(h->a);
    x->fd = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
    name_peer(x);
    return x;
}

/* Is something wrong with the head, so that nobody reads on? A body that is a little too large is
 * read first, since a client that only sends would not see an answer. */
static bool check_head(ig__exchange *x, const char *path, const char *version)
{
    const uint64_t n = ig__http_check_head(x, path, version);
    x->too_large =
        n > x->http->opts.max_body && (n > drain_limit || ig__http_get_header(x, "Expect"));
    return x->fault || x->too_large;
}

bool ig__http_has_room(const ig__http *h, size_t n_held, size_t n)
{
    return n_held + n <= small || h->n_held + n <= held_limit;
}

void ig__http_limit(ig__exchange *x, size_t n)
{
    connection *socket = connection_of(x->connection);
    if (socket && !socket->limit_ns)
        socket->limit_ns =
            ig__now_ns() + x->http->opts.timeout_ns + (int64_t)n * second_ns / slowest;
}

void ig__http_hold(ig__exchange *x, size_t n)
{
    x->n_held += n;
    x->http->n_held += n;
}

static void hand_over(ig__exchange *x)
{
    ig__http *h = x->http;
    connection *socket = connection_of(x->connection);
    x->requested = true;
    x->start_ns = ig__now_ns();
    h->n_arriving--;
    h->n_held -= x->body.n;
    if (socket)
        socket->since_ns = 0;
    if (x->closes)
        ig__http_set_header(x, "Connection", "close");
    h->opts.events.request(h->opts.events.user, x);
}

static void take_body(ig__exchange *x, const char *bytes, size_t n)
{
    ig__http *h = x->http;
    x->n_received += n;
    if (x->n_received > h->opts.max_body)
        x->too_large = true;
    else if (!x->fault && !ig__http_has_room(h, x->body.n, n))
        x->fault = IG_FAULT_ROOM;
    if (x->too_large || x->fault) {
        h->n_held -= x->body.n;
        ig__buffer_fini(&x->body);
        x->body = ig__buffer_init(h->a);
    } else {
        const size_t before = x->body.n;
        ig__buffer_append(&x->body, bytes, n);
        h->n_held += x->body.n - before;
    }
}

static enum MHD_Result on_request(void *user, struct MHD_Connection *c, const char *path,
                                  const char *method, const char *version,
                                  const char *upload, size_t *n_upload, void **slot)
{
    ig__http *h = user;
    ig__exchange *x = *slot;
    if (!x) { /* the head alone */
        *slot = x = begin_exchange(h, c, path, method);
        h->n_arriving += x != NULL;
        if (!x || !check_head(x, path, version))
            return x ? MHD_YES : MHD_NO;
        hand_over(x);
        return x->ended ? ig__http_queue(x) : MHD_NO;
    }
    if (*n_upload > 0) {
        take_body(x, upload, *n_upload);
        *n_upload = 0;
        return x->n_received > drain_limit ? MHD_NO : MHD_YES;
    }
    if (!x->requested) {
        if (x->body.failed)
            return MHD_NO;
        hand_over(x);
        if (!x->ended)
            watch(x);
        /* Without an answer it calls again at once, and then is suspended. Suspended now it
         * would, when resumed, go on to read: it would meet the end of input of a half-closed
         * client, and close. */
        return x->ended || x->begun ? ig__http_queue(x) : MHD_YES;
    }
    if (x->ended || x->begun)
        return ig__http_queue(x);
    if (x->out.failed) /* the client is gone */
        return MHD_NO;
    x->suspended = true;
    MHD_suspend_connection(c);
    return MHD_YES;
}

static void on_completed(void *user, struct MHD_Connection *c, void **slot,
                         enum MHD_RequestTerminationCode why)
{
    ig__http *h = user;
    ig__exchange *x = *slot;
    *slot = NULL;
    connection *socket = connection_of(c);
    if (socket) {
        socket->since_ns = ig__now_ns();
        socket->limit_ns = 0;
    }
    if (!x)
        return;
    unwatch(x);
    h->n_held -= x->n_held;
    if (!x->requested) {
        h->n_arriving--;
        h->n_held -= x->body.n;
    }
    if (x->requested)
        h->opts.events.gone(h->opts.events.user, x,
                            why == MHD_REQUEST_TERMINATED_COMPLETED_OK && x->ended);
    ig__buffer_fini(&x->body);
    ig__buffer_fini(&x->headers);
    ig__buffer_fini(&x->out);
    ig__free(h->a, x);
}

static void on_connection(void *user, struct MHD_Connection *c, void **context,
                          enum MHD_ConnectionNotificationCode what)
{
    ig__http *h = user;
    connection *socket = *context;
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        socket = ig__alloc_zero(h->a, sizeof *socket);
        if (!socket)
            return; /* it is then without a limit on its request's time */
        socket->fd =
            MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
        socket->since_ns = ig__now_ns();
        socket->next = h->connections;
        if (h->connections)
            h->connections->previous = socket;
        h->connections = socket;
        *context = socket;
        __atomic_fetch_add(&h->n_connections, 1, __ATOMIC_RELAXED);
    } else if (socket) {
        *(socket->previous ? &socket->previous->next : &h->connections) = socket->next;
        if (socket->next)
            socket->next->previous = socket->previous;
        ig__free(h->a, socket);
        *context = NULL;
        h->closed_one = true;
        __atomic_fetch_sub(&h->n_connections, 1, __ATOMIC_RELAXED);
    }
}

/* ---- the loop ---- */

/* libmicrohttpd can miss an end of input that comes together with the last bytes: it then
 * waits for a next request that no one can send. True: the other side is shut, and all that it
 * sent was read. */
static bool is_over(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLRDHUP};
    int n_unread = 0;
    return poll(&p, 1, 0) > 0 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0 &&
           (ioctl(fd, FIONREAD, &n_unread) || n_unread == 0);
}

/* Did the connection not bring a whole request in time, or not take its answer, or can it not
 * bring one any more? The last only when two sweeps found it so: what was read last has its turn between them. */
static bool is_late(const ig__http *h, connection *s, int64_t now)
{
    const bool was_over = s->over;
    s->over = s->since_ns > 0 && is_over(s->fd);
    if (s->limit_ns > 0 && now > s->limit_ns)
        return true;
    return s->since_ns > 0 &&
           (now - s->since_ns > h->opts.timeout_ns || (was_over && s->over));
}

/* Ask the owner for bytes where it is time; end what took too long. */
static void sweep(ig__http *h, int64_t now)
{
    for (ig__exchange *x = h->waiting, *next; x; x = next) {
        next = x->next;
        if (x->ended)
            continue;
        if (x->half_closed && now >= x->probe_ns) {
            x->probe_ns = now + x->probe_gap_ns;
            x->probe_gap_ns =
                x->probe_gap_ns * 2 < probe_last_ns ? x->probe_gap_ns * 2 : probe_last_ns;
            h->opts.events.probe(h->opts.events.user, x);
        } else if (x->begun && now - x->write_ns >= h->opts.ping_ns) {
            h->opts.events.probe(h->opts.events.user, x);
        }
    }
    if (now < h->sweep_ns)
        return;
    h->sweep_ns = now + second_ns;
    for (connection *s = h->connections; s; s = s->next)
        if (is_late(h, s, now))
            (void)shutdown(s->fd, SHUT_RDWR); /* libmicrohttpd sees the end and closes it */
}

/* Milliseconds that the loop may sleep; -1: until something happens. */
static int sleep_ms(const ig__http *h, int64_t now, int64_t end_ns)
{
    int64_t until = INT64_MAX;
    if (h->connections)
        until = h->sweep_ns;
    if (end_ns < until)
        until = end_ns;
    if (h->n_half_closed > 0)
        for (const ig__exchange *x = h->waiting; x; x = x->next)
            if (x->half_closed && !x->ended && x->probe_ns < until)
                until = x->probe_ns;
    MHD_UNSIGNED_LONG_LONG mhd_ms;
    int64_t ms = until == INT64_MAX ? -1 : until <= now ? 0 : (until - now) / 1000000 + 1;
    if (MHD_get_timeout(h->daemon, &mhd_ms) == MHD_YES && (ms < 0 || mhd_ms < (uint64_t)ms))
        ms = (int64_t)(mhd_ms < INT_MAX ? mhd_ms : INT_MAX);
    return (int)(ms < INT_MAX ? ms : INT_MAX);
}

static void take_events(ig__http *h, int timeout)
{
    struct epoll_event events[MAX_EVENTS];
    const int n = epoll_wait(h->epoll, events, MAX_EVENTS, timeout);
    for (int i = 0; i < n; i++) {
        if (events[i].data.u64 == TAG_MHD)
            continue;
        if (events[i].data.u64 != TAG_WAKE) {
            half_closed(events[i].data.ptr,
                        (events[i].events & (EPOLLERR | EPOLLHUP)) != 0);
            continue;
        }
        uint64_t count;
        (void)!read(h->wake, &count, sizeof count);
    }
    if (__atomic_exchange_n(&h->woken, 0, __ATOMIC_ACQ_REL))
        h->opts.events.woken(h->opts.events.user);
}

/* libmicrohttpd gives the listener back, for us to close; who connects is refused. */
static void stop_listening(ig__http *h)
{
    if (h->daemon)
        (void)MHD_quiesce_daemon(h->daemon);
    if (h->listener >= 0)
        close(h->listener);
    h->listener = -1;
}

void ig__http_run(ig__http *h, int64_t grace_ns)
{
    int64_t end_ns = INT64_MAX, arrive_ns = INT64_MAX;
    for (int n_stops = 0;;) {
        const int64_t now = ig__now_ns();
        const int n = __atomic_load_n(&h->stopping, __ATOMIC_ACQUIRE);
        if (n > 0 && n_stops == 0) {
            end_ns = now + grace_ns;
            arrive_ns = now + arrive_limit_ns;
            stop_listening(h);
        }
        if (n > 1 && n_stops <= 1 && end_ns > now + last_words_ns)
            end_ns = now + last_words_ns;
        n_stops = n;
        const bool arrives = h->n_arriving > 0 && now < arrive_ns;
        if (n > 0 && ((!h->waiting && !arrives) || now >= end_ns))
            return;
        take_events(h,
                    sleep_ms(h, now, arrives && arrive_ns < end_ns ? arrive_ns : end_ns));
        if (h->connections)
            sweep(h, ig__now_ns());
        do { /* out of descriptors it takes no connection until it runs behind a closed one */
            h->closed_one = false;
            MHD_run(h->daemon);
        } while (h->closed_one);
    }
}

void ig__http_wake(ig__http *h)
{
    const uint64_t one = 1;
    if (!__atomic_exchange_n(&h->woken, 1, __ATOMIC_ACQ_REL))
        (void)!write(h->wake, &one, sizeof one);
}

void ig__http_stop(ig__http *h)
{
    const uint64_t one = 1;
    __atomic_fetch_add(&h->stopping, 1, __ATOMIC_RELEASE);
    (void)!write(h->wake, &one, sizeof one);
}

/* ---- open and close ---- */

static void drop_line(void *user, const char *fmt, va_list arguments)
{
    (void)user; /* what libmicrohttpd says is about single clients' faults */
    (void)fmt;
    (void)arguments;
}

/* Decode a path or a query's field in place; one with a zero byte stays as it is. */
static size_t decode(void *user, struct MHD_Connection *c, char *text)
{
    (void)user, (void)c;
    return strstr(text, "%00") ? strlen(text) : MHD_http_unescape(text);
}

static ig_status start(ig__http *h, const ig__http_opts *opts, ig_error *err)
{
    unsigned flags = MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG;
    struct MHD_OptionItem tls[] = {
        {MHD_OPTION_END, 0, NULL}, {MHD_OPTION_END, 0, NULL}, {MHD_OPTION_END, 0, NULL}};
    if (opts->certificate) {
        if (MHD_is_feature_supported(MHD_FEATURE_TLS) != MHD_YES)
            return ig__fail(err, IG_ERR_UNSUPPORTED,
                            "serve: this libmicrohttpd was built without TLS");
        flags |= MHD_USE_TLS;
        /* its table of options holds pointers to non-const; it only reads the texts */
        tls[0] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_MEM_CERT, 0,
                                         (void *)(uintptr_t)opts->certificate};
        tls[1] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_MEM_KEY, 0,
                                         (void *)(uintptr_t)opts->key};
    }
    const unsigned timeout_s = (unsigned)((opts->timeout_ns + second_ns - 1) / second_ns);
    h->daemon = MHD_start_daemon(
        flags, 0, NULL, NULL, on_request, h, MHD_OPTION_EXTERNAL_LOGGER, drop_line, NULL,
        MHD_OPTION_LISTEN_SOCKET, h->listener, MHD_OPTION_NOTIFY_COMPLETED, on_completed, h,
        MHD_OPTION_NOTIFY_CONNECTION, on_connection, h, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)opts->max_connections, MHD_OPTION_CONNECTION_TIMEOUT, timeout_s,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HEADER_MEMORY,
        MHD_OPTION_STRICT_FOR_CLIENT, 0, MHD_OPTION_UNESCAPE_CALLBACK, decode, NULL,
        MHD_OPTION_ARRAY, tls, MHD_OPTION_END);
    if (!h->daemon)
        return ig__fail(err, IG_ERR_IO, "serve: libmicrohttpd does not start%s",
                        opts->certificate ? "; are certificate and key a pair in PEM?"
                                          : "");
    struct epoll_event mhd = {.events = EPOLLIN, .data.u64 = TAG_MHD};
    struct epoll_event wake = {.events = EPOLLIN, .data.u64 = TAG_WAKE};
    const int mhd_fd = MHD_get_daemon_info(h->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
    if (epoll_ctl(h->epoll, EPOLL_CTL_ADD, mhd_fd, &mhd) ||
        epoll_ctl(h->epoll, EPOLL_CTL_ADD, h->wake, &wake))
        return ig__fail(err, IG_ERR_IO, "serve: epoll: %s", strerror(errno));
    return IG_OK;
}

ig_status ig__http_open(ig__http **http_out, const ig_allocator *a,
                        const ig__http_opts *opts, ig_error *err)
{
    *http_out = NULL;
    ig__http *h = ig__alloc_zero(a, sizeof *h);
    if (!h)
        return ig__fail_memory(err, "serve", sizeof *h);
    h->a = a;
    h->opts = *opts;
    h->listener = -1;
    h->epoll = epoll_create1(EPOLL_CLOEXEC);
    h->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    ig_status status = h->epoll < 0 || h->wake < 0
                           ? ig__fail(err, IG_ERR_IO, "serve: epoll: %s", strerror(errno))
                           : ig__http_listen(&h->listener, &h->port, a, opts, err);
    if (status == IG_OK)
        status = start(h, opts, err);
    if (status != IG_OK) {
        ig__http_close(h);
        return status;
    }
    *http_out = h;
    return IG_OK;
}

void ig__http_close(ig__http *h)
{
    if (!h)
        return;
    /* a suspended connection must be resumed before the daemon stops */
    for (ig__exchange *x = h->waiting; x; x = x->next)
        x->out.failed = true, ig__http_resume(x);
    stop_listening(h);
    if (h->daemon)
        MHD_stop_daemon(h->daemon);
    if (h->epoll >= 0)
        close(h->epoll);
    if (h->wake >= 0)
        close(h->wake);
    ig__free(h->a, h);
}

int ig__http_port(const ig__http *h)
{
    return h->port;
}

int64_t ig__http_n_connections(const ig__http *h)
{
    return __atomic_load_n(&h->n_connections, __ATOMIC_RELAXED);
}
