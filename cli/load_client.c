/* The load's one thread: connections that write a request and read a stream.
 *
 *   start -> connecting -> sending -> reading -> end
 *
 * A connection's slot is used again by the next request. A timer wakes the loop for the next
 * arrival and the nearest time limit.
 */
#include "load_client.h"

#include "interrupt.h"
#include "load_reply.h"
#include "report.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

const char *const load_outcome_names[LOAD_N_OUTCOMES] = {
    "ok",     "connect", "busy",      "refused",  "failed",
    "closed", "timeout", "malformed", "cancelled"};

/* ---- the server ----------------------------------------------------------------------
 */

/* Split "host:port" or "[v6]:port"; false: no such thing. */
static bool split_host(const char *text, size_t n, char *host, size_t cap, char *port,
                       size_t port_cap)
{
    const char *end = text + n, *colon = NULL, *name = text, *name_end = end;
    if (n && *text == '[') {
        name = text + 1;
        name_end = memchr(text, ']', n);
        if (!name_end)
            return false;
        if (name_end + 1 != end) {
            colon = name_end + 1;
            if (*colon != ':')
                return false;
        }
    } else if ((colon = memchr(text, ':', n))) {
        name_end = colon;
    }
    const size_t n_port = colon ? (size_t)(end - colon - 1) : 0;
    const size_t n_name = (size_t)(name_end - name);
    if (!n_name || n_name >= cap || n_port >= port_cap || (colon && !n_port))
        return false;
    snprintf(host, cap, "%.*s", (int)n_name, name);
    snprintf(port, port_cap, "%.*s", colon ? (int)n_port : 2, colon ? colon + 1 : "80");
    return strspn(port, "0123456789") == strlen(port) && atoi(port) <= 65535;
}

static bool accepts(const struct addrinfo *a)
{
    const int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const bool connected = fd >= 0 && !connect(fd, a->ai_addr, a->ai_addrlen);
    const int kept = errno;
    if (fd >= 0)
        close(fd);
    errno = kept;
    return connected;
}

int load_server_find(load_server *s, const char *url, const char *path, char *message,
                     size_t cap)
{
    *s = (load_server){0};
    if (strncmp(url, "http://", 7)) {
        snprintf(message, cap, "'%s' is no http:// address", url);
        return EXIT_USAGE;
    }
    const char *at = url + 7;
    const size_t n = strcspn(at, "/?#");
    char host[256], port[8];
    size_t n_base = strlen(at + n);
    while (n_base && at[n + n_base - 1] == '/')
        n_base--;
    if (n_base >= 3 && !memcmp(at + n + n_base - 3, "/v1", 3))
        n_base -= 3;
    bool plain = strcspn(at, "?# \r\n\t") == strlen(at) && n_base < 400 && n < 290;
    if (!plain || !split_host(at, n, host, sizeof host, port, sizeof port)) {
        snprintf(message, cap, "'%s' is no address like http://host:port", url);
        return EXIT_USAGE;
    }
    snprintf(s->host, sizeof s->host, "%.*s", (int)n, at);
    snprintf(s->path, sizeof s->path, "%.*s%s", (int)n_base, at + n, path);
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;
    const int code = getaddrinfo(host, port, &hints, &found);
    if (code) {
        snprintf(message, cap, "%s: %s", s->host, gai_strerror(code));
        return EXIT_FAILED;
    }
    const struct addrinfo *a = found;
    while (a && !accepts(a))
        a = a->ai_next;
    if (a) {
        memcpy(&s->address, a->ai_addr, a->ai_addrlen);
        s->address_bytes = a->ai_addrlen;
        s->family = a->ai_family;
    } else {
        snprintf(message, cap, "cannot connect to %s: %s", s->host, strerror(errno));
    }
    freeaddrinfo(found);
    return s->address_bytes ? EXIT_OK : EXIT_FAILED;
}

/* ---- one request -----------------------------------------------------------------------
 */

typedef struct load load;

typedef struct slot {
    load *l;
    int fd;        /* -1: the slot is free */
    char *request; /* [n_request], n_sent of it sent */
    size_t n_request, n_sent;
    load_reply reply;
    int64_t start_ns, first_ns, last_ns; /* due; first and last token, 0: none */
    int64_t now_ns;                      /* when the bytes that are read now came */
    int64_t prompt_tokens, cached_tokens, tokens, n_events;
    load_times gaps; /* its own, so that those of a failed request are not counted */
    bool connected;
    bool done; /* [DONE] */
    bool has_usage, has_choice, failed;
    char message[200]; /* of a failure */
} slot;

struct load {
    const load_opts *o;
    load_totals *t;
    int epoll, timer;
    slot *slots; /* [o->users] */
    int64_t n_open, n_started;
    int64_t begin_ns, next_ns; /* the first start; when the next request is due */
    bool no_memory;
};

static bool keep_time(load_times *list, int64_t ns)
{
    if (list->n == list->cap) {
        const int64_t cap = list->cap * 2 + 64;
        int64_t *at = realloc(list->at, (size_t)cap * sizeof *at);
        if (!at)
            return false;
        list->at = at;
        list->cap = cap;
    }
    list->at[list->n++] = ns;
    return true;
}

/* The words of {"error": {"message": ...}}, or the text itself. */
static void keep_message(slot *s, const json_t *object, const char *text, size_t n)
{
    const json_t *error = json_object_get(object, "error");
    const char *words = json_string_value(json_object_get(error, "message"));
    if (!words)
        words = json_string_value(error);
    char copy[sizeof s->message];
    snprintf(copy, sizeof copy, "%.*s", words ? (int)strlen(words) : (int)n,
             words ? words : text);
    report_clean(s->message, sizeof s->message, copy);
}

static bool has_text(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));
    return text && *text;
}

static bool take_token(slot *s)
{
    s->n_events++;
    if (!s->first_ns)
        s->first_ns = s->now_ns;
    else if (!keep_time(&s->gaps, s->now_ns - s->last_ns))
        return !(s->l->no_memory = true);
    s->last_ns = s->now_ns;
    return true;
}

/* A count of tokens; absent: 0. False: it is no count. */
static bool take_count(int64_t *count, const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);
    *count = json_integer_value(value);
    return !value || json_is_null(value) || (json_is_integer(value) && *count >= 0);
}

static bool take_usage(slot *s, const json_t *usage)
{
    const json_t *details = json_object_get(usage, "prompt_tokens_details");
    s->has_usage = true;
    return take_count(&s->prompt_tokens, usage, "prompt_tokens") &&
           take_count(&s->tokens, usage, "completion_tokens") &&
           take_count(&s->cached_tokens, details, "cached_tokens");
}

static bool on_event(void *user, const char *data, size_t n)
{
    slot *s = user;
    if (n == 6 && !memcmp(data, "[DONE]", 6)) {
        s->done = true;
        return true;
    }
    json_t *object = json_loadb(data, n, JSON_ALLOW_NUL, NULL);
    bool ok = json_is_object(object);
    if (!ok)
        keep_message(s, NULL, data, n);
    if (ok && json_object_get(object, "error")) {
        keep_message(s, object, data, n);
        s->failed = true;
    }
    const json_t *usage = json_object_get(object, "usage");
    if (json_is_object(usage) && !take_usage(s, usage)) {
        keep_message(s, NULL, data, n);
        ok = false;
    }
    const json_t *choice = json_array_get(json_object_get(object, "choices"), 0);
    const json_t *delta = json_object_get(choice, "delta");
    if (has_text(delta, "content") || has_text(delta, "reasoning_content") ||
        has_text(choice, "text"))
        ok = take_token(s) && ok;
    s->has_choice = s->has_choice || choice;
    json_decref(object);
    return ok;
}

/* ---- begin and end ---------------------------------------------------------------------
 */

static void count(slot *s, load_outcome outcome)
{
    load_totals *t = s->l->t;
    if (!t->n[outcome]++ && outcome != LOAD_OK)
        snprintf(t->first[outcome], sizeof t->first[outcome], "%s", s->message);
    if (outcome != LOAD_OK)
        return;
    t->counts_by_event |= !s->has_usage;
    t->prompt_tokens += s->prompt_tokens;
    t->cached_tokens += s->cached_tokens;
    t->tokens += s->has_usage ? s->tokens : s->n_events;
    bool kept = keep_time(&t->whole, s->now_ns - s->start_ns);
    if (s->first_ns)
        kept = keep_time(&t->ttft, s->first_ns - s->start_ns) && kept;
    for (int64_t i = 0; i < s->gaps.n && kept; i++)
        kept = keep_time(&t->gaps, s->gaps.at[i]);
    s->l->no_memory |= !kept;
}

static void end(slot *s, load_outcome outcome)
{
    count(s, outcome);
    if (s->fd >= 0) {
        close(s->fd); /* epoll lets go of it */
        s->l->n_open--;
    }
    s->fd = -1;
    free(s->request);
    s->request = NULL;
    load_reply_fini(&s->reply);
}

static void end_with(slot *s, load_outcome outcome, const char *message)
{
    if (!*s->message)
        snprintf(s->message, sizeof s->message, "%s", message);
    end(s, outcome);
}

/* The answer is whole, or its connection is over. */
static void conclude(slot *s, bool whole)
{
    const load_reply *r = &s->reply;
    if (s->failed) {
        end(s, LOAD_FAILED);
    } else if (r->part == LOAD_BROKEN) {
        end_with(s, LOAD_MALFORMED, "no HTTP, or no events of JSON");
    } else if (r->status && r->status != 200) {
        json_t *object = json_loadb(r->kept, r->n_kept, 0, NULL);
        char words[sizeof s->message];
        keep_message(s, object, r->kept, r->n_kept);
        json_decref(object);
        snprintf(words, sizeof words, "%d: %.180s", r->status, s->message);
        memcpy(s->message, words, sizeof words);
        end(s, r->status == 429 || r->status == 503 ? LOAD_BUSY : LOAD_REFUSED);
    } else if (whole && !r->events) {
        end_with(s, LOAD_MALFORMED, "the answer is no stream of events");
    } else if (!s->done) {
        end_with(s, LOAD_CLOSED, "the connection ended within the answer");
    } else if (!s->has_choice) {
        end_with(s, LOAD_MALFORMED, "the answer ended before it began");
    } else {
        end(s, LOAD_OK);
    }
}

/* Head and body in one piece. */
static bool make_request(slot *s, int64_t i)
{
    const load_opts *o = s->l->o;
    size_t n_body = 0;
    char *body = o->body(o->plan, i, &n_body);
    const size_t cap = n_body + sizeof o->server->host + sizeof o->server->path + 256 +
                       (o->key ? strlen(o->key) : 0);
    s->request = body ? malloc(cap) : NULL;
    if (!s->request) {
        free(body);
        return false;
    }
    const int n = snprintf(
        s->request, cap,
        "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\n"
        "Accept: text/event-stream\r\nConnection: close\r\nContent-Length: "
        "%zu\r\n%s%s%s\r\n",
        o->server->path, o->server->host, n_body, o->key ? "Authorization: Bearer " : "",
        o->key ? o->key : "", o->key ? "\r\n" : "");
    memcpy(s->request + n, body, n_body);
    s->n_request = (size_t)n + n_body;
    free(body);
    return true;
}

static void start(load *l, slot *s, int64_t due_ns)
{
    load_times gaps = s->gaps;
    gaps.n = 0;
    *s = (slot){.l = l, .fd = -1, .start_ns = due_ns, .now_ns = due_ns, .gaps = gaps};
    load_reply_begin(&s->reply, on_event, s);
    if (!make_request(s, l->n_started++)) {
        l->no_memory = true;
        return;
    }
    const load_server *server = l->o->server;
    const int one = 1;
    s->fd = socket(server->family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (s->fd < 0) {
        end_with(s, LOAD_CONNECT, strerror(errno));
        return;
    }
    l->n_open++;
    if (l->n_open > l->t->most_open)
        l->t->most_open = l->n_open;
    (void)setsockopt(s->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    struct epoll_event e = {.events = EPOLLIN | EPOLLOUT, .data.ptr = s};
    const struct sockaddr *address = (const struct sockaddr *)&server->address;
    if ((connect(s->fd, address, server->address_bytes) && errno != EINPROGRESS) ||
        epoll_ctl(l->epoll, EPOLL_CTL_ADD, s->fd, &e))
        end_with(s, LOAD_CONNECT, strerror(errno));
}

/* ---- progress --------------------------------------------------------------------------
 */

static void send_more(slot *s)
{
    int why = 0;
    socklen_t why_bytes = sizeof why;
    if (!s->connected &&
        (getsockopt(s->fd, SOL_SOCKET, SO_ERROR, &why, &why_bytes) || why)) {
        end_with(s, LOAD_CONNECT, strerror(why));
        return;
    }
    s->connected = true;
    while (s->n_sent < s->n_request) {
        const ssize_t n =
            send(s->fd, s->request + s->n_sent, s->n_request - s->n_sent, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        if (n < 0) { /* an answer may stand there all the same: reading tells */
            s->n_sent = s->n_request;
            break;
        }
        s->n_sent += (size_t)n;
    }
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = s};
    epoll_ctl(s->l->epoll, EPOLL_CTL_MOD, s->fd, &e);
}

static void read_more(slot *s)
{
    char bytes[3072];
    for (;;) {
        const ssize_t n = recv(s->fd, bytes, sizeof bytes, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        s->now_ns = report_now_ns();
        if (n < 0) {
            end_with(s, LOAD_CLOSED, strerror(errno));
            return;
        }
        if (n == 0) {
            conclude(s, load_reply_end(&s->reply));
            return;
        }
        if (!load_reply_push(&s->reply, bytes, (size_t)n) || s->failed ||
            s->reply.part == LOAD_WHOLE) {
            conclude(s, s->reply.part == LOAD_WHOLE);
            return;
        }
    }
}

static bool more_to_start(const load *l)
{
    const load_opts *o = l->o;
    return !l->no_memory && !*interrupt_flag() &&
           (!o->n_requests || l->n_started < o->n_requests) &&
           (o->seconds <= 0 ||
            (double)((o->arrivals ? l->next_ns : report_now_ns()) - l->begin_ns) / 1e9 <
                o->seconds);
}

static slot *free_slot(load *l)
{
    for (int64_t i = 0; i < l->o->users; i++)
        if (l->slots[i].fd < 0)
            return &l->slots[i];
    return NULL;
}

static void start_what_is_due(load *l)
{
    slot *s;
    while (more_to_start(l) && (s = free_slot(l))) {
        const int64_t now = report_now_ns();
        if (l->o->arrivals && l->next_ns > now)
            return;
        start(l, s, l->o->arrivals ? l->next_ns : now);
        if (l->o->arrivals)
            l->next_ns += (int64_t)(l->o->gap_s(l->o->plan, l->n_started) * 1e9);
        if (s->fd < 0 && !l->o->arrivals)
            return; /* nobody is there: the loop looks at Ctrl-C before it goes on */
    }
}

/* End what is too late, and set the timer for what comes next. */
static void look_at_time(load *l)
{
    const int64_t now = report_now_ns(), limit = (int64_t)(l->o->timeout_s * 1e9);
    int64_t next = now + 1000000000;
    for (int64_t i = 0; i < l->o->users; i++) {
        slot *s = &l->slots[i];
        if (s->fd >= 0 && now - s->start_ns >= limit) {
            end_with(s, LOAD_TIMEOUT, "not whole in time");
            next = now + 1; /* the slot is free: look again */
        } else if (s->fd >= 0 && s->start_ns + limit < next) {
            next = s->start_ns + limit;
        }
    }
    const bool starts = more_to_start(l) && l->n_open < l->o->users;
    const int64_t due = l->o->arrivals && l->next_ns > now ? l->next_ns : now + 1;
    if (starts && due < next)
        next = due;
    const struct itimerspec at = {.it_value = {next / 1000000000, next % 1000000000}};
    timerfd_settime(l->timer, TFD_TIMER_ABSTIME, &at, NULL);
}

static void wait_and_take(load *l)
{
    struct epoll_event events[64];
    const int n = epoll_wait(l->epoll, events, 64, -1);
    for (int i = 0; i < n; i++) {
        slot *s = events[i].data.ptr;
        if (!s || s->fd < 0)
            continue;
        if (events[i].events & EPOLLOUT)
            send_more(s);
        if (s->fd >= 0 && events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR))
            read_more(s);
    }
    uint64_t ticks;
    if (read(l->timer, &ticks, sizeof ticks) < 0)
        return; /* it has not rung */
}

static bool open_load(load *l)
{
    l->slots = calloc((size_t)l->o->users, sizeof *l->slots);
    l->epoll = epoll_create1(EPOLL_CLOEXEC);
    l->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (!l->slots || l->epoll < 0 || l->timer < 0)
        return false;
    for (int64_t i = 0; i < l->o->users; i++)
        l->slots[i].fd = -1;
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = NULL};
    return !epoll_ctl(l->epoll, EPOLL_CTL_ADD, l->timer, &e);
}

bool load_run(load_totals *t, const load_opts *opts)
{
    *t = (load_totals){0};
    load l = {.o = opts, .t = t, .epoll = -1, .timer = -1};
    bool ok = open_load(&l);
    interrupt_catch(true);
    l.begin_ns = l.next_ns = report_now_ns();
    while (ok && !l.no_memory && !*interrupt_flag()) {
        start_what_is_due(&l);
        if (!l.n_open && !more_to_start(&l))
            break;
        look_at_time(&l);
        wait_and_take(&l);
    }
    t->wall_ns = report_now_ns() - l.begin_ns;
    for (int64_t i = 0; l.slots && i < opts->users; i++) {
        if (l.slots[i].fd >= 0)
            end_with(&l.slots[i], LOAD_CANCELLED, "by Ctrl-C");
        free(l.slots[i].gaps.at);
        free(l.slots[i].request);
        load_reply_fini(&l.slots[i].reply);
    }
    free(l.slots);
    if (l.epoll >= 0)
        close(l.epoll);
    if (l.timer >= 0)
        close(l.timer);
    interrupt_release();
    return ok && !l.no_memory;
}

void load_totals_fini(load_totals *t)
{
    free(t->ttft.at);
    free(t->gaps.at);
    free(t->whole.at);
    *t = (load_totals){0};
}
