/* The transport of a build without libmicrohttpd: it says so. */
#include "serve/http.h"

#include "base/error.h"

ig_status ig__http_open(ig__http **http_out, const ig_allocator *a,
                        const ig__http_opts *opts, ig_error *err)
{
    (void)a;
    (void)opts;
    *http_out = NULL;
    return ig__fail(err, IG_ERR_UNSUPPORTED,
                    "serve: built without libmicrohttpd (Debian's package is "
                    "libmicrohttpd-dev), so there is no server");
}

/* None of the rest is reached: nothing was opened. */
int ig__http_port(const ig__http *http)
{
    (void)http;
    return 0;
}

void ig__http_run(ig__http *http, int64_t grace_ns)
{
    (void)http;
    (void)grace_ns;
}

void ig__http_wake(ig__http *http)
{
    (void)http;
}

void ig__http_stop(ig__http *http)
{
    (void)http;
}

void ig__http_close(ig__http *http)
{
    (void)http;
}

int64_t ig__http_n_connections(const ig__http *http)
{
    (void)http;
    return 0;
}

const char *ig__http_get_header(const ig__exchange *x, const char *name)
{
    (void)x;
    (void)name;
    return NULL;
}

void ig__http_set_header(ig__exchange *x, const char *name, const char *value)
{
    (void)x;
    (void)name;
    (void)value;
}

void ig__http_reply(ig__exchange *x, int status, const char *content_type, const char *body,
                    size_t n)
{
    (void)x;
    (void)status;
    (void)content_type;
    (void)body;
    (void)n;
}

void ig__http_begin(ig__exchange *x, int status, const char *content_type)
{
    (void)x;
    (void)status;
    (void)content_type;
}

void ig__http_write(ig__exchange *x, const char *bytes, size_t n)
{
    (void)x;
    (void)bytes;
    (void)n;
}

void ig__http_end(ig__exchange *x)
{
    (void)x;
}
