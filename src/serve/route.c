/* Who may ask what: routes, methods, keys, origins; and errors in OpenAI's shape. */
#include "serve/ask.h"

#include "base/clock.h"
#include "serve/json_write.h"
#include "serve/page.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* ---- errors ---- */

void ig__write_error(ig__buffer *b, const char *type, const char *code, const char *field,
                     const char *message)
{
    ig__buffer_append_text(b, "{\"error\":{\"message\":");
    ig__json_write_text(b, message);
    ig__buffer_append_text(b, ",\"type\":");
    ig__json_write_text(b, type);
    ig__buffer_append_text(b, ",\"param\":");
    ig__json_write_text(b, field && *field ? field : NULL);
    ig__buffer_append_text(b, ",\"code\":");
    ig__json_write_text(b, code);
    ig__buffer_append_text(b, "}}\n");
}

void ig__reply_error(ig__exchange *x, int status, const char *type, const char *code,
                     const char *field, const char *fmt, ...)
{
    char message[400];
    va_list arguments;
    va_start(arguments, fmt);
    (void)vsnprintf(message, sizeof message, fmt, arguments);
    va_end(arguments);
    ig__buffer b = ig__buffer_init(x->out.a);
    ig__write_error(&b, type, code, field, message);
    ig__reply_json(x, status, &b);
}

void ig__reply_json(ig__exchange *x, int status, ig__buffer *b)
{
    static const char none[] =
        "{\"error\":{\"message\":\"out of memory\",\"type\":\"server_error\","
        "\"param\":null,\"code\":null}}\n";
    if (b->failed)
        ig__http_reply(x, 500, "application/json", none, sizeof none - 1);
    else
        ig__http_reply(x, status, "application/json", b->data ? b->data : "", b->n);
    ig__buffer_fini(b);
    *b = ig__buffer_init(x->out.a);
}

/* ---- small answers ---- */

static void serve_health(ig_server *s, ig__exchange *x)
{
    static const char ok[] = "{\"status\":\"ok\"}\n",
                      loading[] = "{\"status\":\"loading\"}\n",
                      stopping[] = "{\"status\":\"stopping\"}\n";
    if (__atomic_load_n(&s->n_stops, __ATOMIC_ACQUIRE))
        ig__http_reply(x, 503, "application/json", stopping, sizeof stopping - 1);
    else if (!ig__server_ready(s))
        ig__http_reply(x, 503, "application/json", loading, sizeof loading - 1);
    else
        ig__http_reply(x, 200, "application/json", ok, sizeof ok - 1);
}

static void write_model(const ig_server *s, ig__buffer *b)
{
    ig__buffer_append_text(b, "{\"id\":");
    ig__json_write_text(b, s->opts.name);
    ig__buffer_printf(b,
                      ",\"object\":\"model\",\"created\":%lld,\"owned_by\":\"ingot\","
                      "\"max_model_len\":%lld,\"meta\":{\"architecture\":",
                      (long long)s->created_s, (long long)s->context);
    ig__json_write_text(b, s->info.architecture);
    ig__buffer_append_text(b, ",\"name\":");
    ig__json_write_text(b, s->info.name);
    ig__buffer_printf(b,
                      ",\"n_parameters\":%lld,\"trained_context\":%lld,\"vocab\":%lld,"
                      "\"weight_type\":\"%s\",\"bytes\":%zu}}",
                      (long long)s->info.n_parameters, (long long)s->info.context,
                      (long long)s->info.vocab, ig_dtype_name(s->info.weight_dtype),
                      s->info.packed_bytes);
}

static void serve_models(ig_server *s, ig__exchange *x)
{
    ig__buffer b = ig__buffer_init(s->a);
    ig__buffer_append_text(&b, "{\"object\":\"list\",\"data\":[");
    write_model(s, &b);
    ig__buffer_append_text(&b, "]}\n");
    ig__reply_json(x, 200, &b);
}

static void serve_model(ig_server *s, ig__exchange *x)
{
    const char *name = x->path + strlen("/v1/models/");
    if (strcmp(name, s->opts.name) != 0) {
        ig__reply_error(x, 404, "invalid_request_error", "model_not_found", "model",
                        "there is no model '%.80s', only '%.80s'", name, s->opts.name);
        return;
    }
    ig__buffer b = ig__buffer_init(s->a);
    write_model(s, &b);
    ig__buffer_append_char(&b, '\n');
    ig__reply_json(x, 200, &b);
}

void ig__serve_metrics(ig_server *s, ig__exchange *x)
{
    const bool ready = ig__server_ready(s);
    ig__metrics_view view = {.model = s->opts.name,
                             .n_connections = ig__http_n_connections(s->http)};
    if (ready) {
        view.stats = ig_engine_get_stats(s->model.engine);
        view.info = s->info;
    }
    pthread_mutex_lock(&s->lock);
    const ig_machine limits = s->machine;
    pthread_mutex_unlock(&s->lock);
    if (limits.read_bytes_s > 0)
        view.limits = &limits;
    ig__buffer b = ig__buffer_init(s->a);
    ig__metrics_write(&b, &s->metrics, &view);
    if (b.failed)
        ig__reply_error(x, 500, "server_error", NULL, NULL, "out of memory");
    else
        ig__http_reply(x, 200, "text/plain; version=0.0.4; charset=utf-8", b.data, b.n);
    ig__buffer_fini(&b);
}

/* The page and what it loads: bytes of the build. */
static const ig__page *find_page(const char *path)
{
    for (int i = 0; i < ig__n_pages; i++)
        if (strcmp(ig__pages_of_server[i].path, path) == 0)
            return &ig__pages_of_server[i];
    return NULL;
}

static void serve_page(ig_server *s, ig__exchange *x)
{
    (void)s;
    const ig__page *page = find_page(x->path);
    ig__http_set_header(x, "Content-Security-Policy",
                        "default-src 'none'; script-src 'self'; style-src 'self'; "
                        "img-src data:; connect-src 'self'; base-uri 'none'; "
                        "form-action 'none'; frame-ancestors 'none'");
    ig__http_set_header(x, "Referrer-Policy", "no-referrer");
    ig__http_reply(x, 200, page->type, (const char *)page->bytes, page->n);
}

/* ---- routes ---- */

enum { GET = 1, POST = 2, OPEN = 1, EARLY = 2, PREFIX = 4 };

typedef struct route {
    const char *path;
    int methods;
    int flags; /* OPEN: no key is asked for; EARLY: answered before the model is there;
                  PREFIX: all paths that begin so */
    void (*serve)(ig_server *s, ig__exchange *x);
} route;

static const route routes[] = {
    {"/health", GET, OPEN | EARLY, serve_health},
    {"/v1/chat/completions", POST, 0, ig__serve_chat},
    {"/v1/completions", POST, 0, ig__serve_completion},
    {"/v1/models", GET, 0, serve_models},
    {"/v1/models/", GET, PREFIX, serve_model},
    {"/tokenize", POST, 0, ig__serve_tokenize},
    {"/detokenize", POST, 0, ig__serve_detokenize},
    {"/apply-template", POST, 0, ig__serve_apply_template},
    {"/metrics", GET, EARLY, ig__serve_metrics},
    {"/openapi.json", GET, OPEN | EARLY, ig__serve_openapi},
};
static const route page_route = {NULL, GET, OPEN | EARLY, serve_page};
enum { N_ROUTES = sizeof routes / sizeof *routes };

static const route *find(const char *path)
{
    for (int i = 0; i < N_ROUTES; i++)
        if (routes[i].flags & PREFIX
                ? strncmp(path, routes[i].path, strlen(routes[i].path)) == 0
                : strcmp(path, routes[i].path) == 0)
            return &routes[i];
    return find_page(path) ? &page_route : NULL;
}

static int method_of(const ig__exchange *x)
{
    if (strcmp(x->method, "GET") == 0 || x->no_body)
        return GET;
    return strcmp(x->method, "POST") == 0 ? POST : 0;
}

/* A name or address of this machine alone, with or without a port. */
static bool is_local(const char *host)
{
    const size_t n = strcspn(host, ":");
    if (strncmp(host, "[::1]", 5) == 0)
        return host[5] == 0 || host[5] == ':';
    if (strncmp(host, "127.", 4) == 0)
        return strspn(host, "0123456789.") == n;
    return strcmp(host, "::1") == 0 || (n == 9 && strncasecmp(host, "localhost", n) == 0);
}

/* Origins: a browser says where a page that calls comes from. Pages of other places may call
 * only if --cors lets them, whatever they send. A page is our own if it came from the host that
 * it calls; where only this machine is served that host is this machine by name, too: any
 * other name is one that a stranger made point here. */
static bool origin_is_own(const ig_server *s, const ig__exchange *x, const char *origin)
{
    const char *host = ig__http_get_header(x, "Host");
    const char *after = strstr(origin, "://");
    return host && after && strcmp(after + 3, host) == 0 &&
           (is_local(host) || !is_local(s->opts.host));
}

static bool origin_is_allowed(const ig_server *s, const char *origin)
{
    for (int64_t i = 0; i < s->opts.n_cors; i++)
        if (strcmp(s->opts.cors[i], "*") == 0 || strcmp(s->opts.cors[i], origin) == 0)
            return true;
    return false;
}

static bool has_key(const ig_server *s, const ig__exchange *x)
{
    static const char bearer[] = "Bearer ";
    const char *given = ig__http_get_header(x, "Authorization");
    if (s->keys.n == 0)
        return true;
    if (!given || strncasecmp(given, bearer, sizeof bearer - 1) != 0)
        return false;
    given += sizeof bearer - 1;
    given += strspn(given, " ");
    size_t n = strlen(given);
    while (n > 0 && (given[n - 1] == ' ' || given[n - 1] == '\t'))
        n--;
    return ig__keys_hold(&s->keys, given, n);
}

/* Headers that every answer has; false: refused, and answered. */
static bool check_origin(const ig_server *s, ig__exchange *x)
{
    ig__http_set_header(x, "X-Content-Type-Options", "nosniff");
    ig__http_set_header(x, "Cache-Control", "no-store");
    const char *origin = ig__http_get_header(x, "Origin");
    if (!origin)
        return true;
    if (origin_is_allowed(s, origin)) {
        ig__http_set_header(x, "Access-Control-Allow-Origin", origin);
        ig__http_set_header(x, "Access-Control-Expose-Headers",
                            "Retry-After, X-Request-Id");
        ig__http_set_header(x, "Vary", "Origin");
        return true;
    }
    if (origin_is_own(s, x, origin))
        return true;
    ig__reply_error(x, 403, "invalid_request_error", "origin_not_allowed", NULL,
                    "pages of this origin may not call this server (--cors lets them)");
    return false;
}

/* Clients send headers of their own (OpenAI's for browsers do): who may call at all may. */
static void preflight(ig__exchange *x)
{
    const char *wanted = ig__http_get_header(x, "Access-Control-Request-Headers");
    ig__http_set_header(x, "Access-Control-Allow-Methods", "GET, POST, OPTIONS");
    ig__http_set_header(x, "Access-Control-Allow-Headers",
                        wanted ? wanted : "Authorization, Content-Type");
    ig__http_set_header(x, "Access-Control-Max-Age", "600");
    ig__http_reply(x, 204, NULL, "", 0);
}

static void refuse_path(ig__exchange *x)
{
    char under[sizeof x->path + 4];
    (void)snprintf(under, sizeof under, "/v1%s", x->path);
    ig__reply_error(x, 404, "invalid_request_error", "not_found", NULL,
                    find(under) ? "no such path: %.100s, but /v1%.100s"
                                : "no such path: %.100s",
                    x->path, x->path);
}

static void refuse_method(ig__exchange *x, const route *r)
{
    ig__http_set_header(x, "Allow",
                        r->methods == POST ? "POST, OPTIONS" : "GET, HEAD, OPTIONS");
    if (strcmp(x->method, "OPTIONS") == 0)
        ig__http_reply(x, 204, NULL, "", 0);
    else
        ig__reply_error(x, 405, "invalid_request_error", "method_not_allowed", NULL,
                        "%s takes %s, not %.20s", x->path,
                        r->methods == POST ? "POST" : "GET", x->method);
}

/* The connection ends with it: what follows might be read as others do not read it. */
static void refuse_fault(ig__exchange *x)
{
    static const struct {
        ig__http_fault fault;
        int status;
        const char *code, *message;
    } faults[] = {
        {IG_FAULT_HOST, 400, "bad_host", "one Host header is wanted"},
        {IG_FAULT_NAME, 400, "bad_header", "the name of a header holds a blank"},
        {IG_FAULT_LENGTH, 400, "bad_length",
         "one Content-Length or Transfer-Encoding is wanted"},
        {IG_FAULT_TARGET, 414, "path_too_long", "path and query are too long"},
        {IG_FAULT_PACKED, 415, "packed_body",
         "a packed body (Content-Encoding) is not supported"},
        {IG_FAULT_HEADERS, 431, "headers_too_large", "the headers are too long"},
        {IG_FAULT_CODING, 501, "unknown_encoding",
         "the only Transfer-Encoding that is known is chunked"},
        {IG_FAULT_ROOM, 503, "no_room", "too many long requests come at once"},
    };
    if (!x->closes)
        ig__http_set_header(x, "Connection", "close");
    if (x->fault == IG_FAULT_ROOM)
        ig__http_set_header(x, "Retry-After", "1");
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        if (faults[i].fault == x->fault)
            ig__reply_error(x, faults[i].status,
                            faults[i].status == 503 ? "server_error"
                                                    : "invalid_request_error",
                            faults[i].code, NULL, "%s", faults[i].message);
}

static void answer(ig_server *s, ig__exchange *x)
{
    const route *r = find(x->path);
    if (!check_origin(s, x))
        return;
    if (x->fault) {
        refuse_fault(x);
        return;
    }
    if (strcmp(x->method, "OPTIONS") == 0 && ig__http_get_header(x, "Origin")) {
        preflight(x);
    } else if (strcmp(x->method, "OPTIONS") == 0 && strcmp(x->path, "*") == 0) {
        ig__http_set_header(x, "Allow", "GET, HEAD, POST, OPTIONS");
        ig__http_reply(x, 204, NULL, "", 0);
    } else if (!r) {
        refuse_path(x);
    } else if (!(r->flags & OPEN) && !has_key(s, x)) {
        ig__http_set_header(x, "WWW-Authenticate", "Bearer");
        ig__reply_error(x, 401, "invalid_request_error", "invalid_api_key", NULL,
                        ig__http_get_header(x, "Authorization")
                            ? "the key is none of this server's: Authorization: Bearer KEY"
                            : "a key is needed: Authorization: Bearer KEY");
    } else if (!(method_of(x) & r->methods)) {
        refuse_method(x, r);
    } else if (x->too_large) {
        ig__reply_error(x, 413, "invalid_request_error", "too_large", NULL,
                        "the body has more than %zu bytes", s->opts.max_body);
    } else if (!(r->flags & EARLY) && !ig__server_ready(s)) {
        ig__http_set_header(x, "Retry-After", "1");
        ig__reply_error(x, 503, "server_error", "loading", NULL,
                        "the model is being loaded");
    } else {
        r->serve(s, x);
    }
}

void ig__count_refused(ig_server *s, const ig__exchange *x)
{
    if (x->status >= 400 && x->status < 500 && x->status != 429)
        s->metrics.n_refused++;
}

void ig__route(ig_server *s, ig__exchange *x)
{
    s->metrics.n_requests++;
    answer(s, x);
    ig__count_refused(s, x);
}
