/* The answer of an exchange: what its owner writes, and how libmicrohttpd takes it, whole or piece
 * by piece. */
#include "serve/http_int.h"

#include "base/clock.h"

#include <string.h>

enum { BLOCK = 16 << 10 };
static const size_t backlog_limit = (size_t)8 << 20; /* unread bytes of an answer */

void ig__http_resume(ig__exchange *x)
{
    if (!x->suspended)
        return;
    x->suspended = false;
    MHD_resume_connection(x->connection);
}

const char *ig__http_get_header(const ig__exchange *x, const char *name)
{
    return MHD_lookup_connection_value(x->connection, MHD_HEADER_KIND, name);
}

void ig__http_set_header(ig__exchange *x, const char *name, const char *value)
{
    ig__buffer_append(&x->headers, name, strlen(name) + 1);
    ig__buffer_append(&x->headers, value, strlen(value) + 1);
}

/* libmicrohttpd takes more of the answer; called for answers written piece by piece. */
static ssize_t read_answer(void *user, uint64_t position, char *to, size_t max)
{
    (void)position;
    ig__exchange *x = user;
    const size_t n = x->out.n - x->sent < max ? x->out.n - x->sent : max;
    if (x->out.failed || x->headers.failed)
        return MHD_CONTENT_READER_END_WITH_ERROR;
    if (n > 0) {
        memcpy(to, x->out.data + x->sent, n);
        x->sent += n;
        x->n_sent += (int64_t)n;
        if (x->sent == x->out.n)
            x->sent = x->out.n = 0;
        return (ssize_t)n;
    }
    if (x->ended)
        return MHD_CONTENT_READER_END_OF_STREAM;
    x->suspended = true;
    MHD_suspend_connection(x->connection);
    return 0;
}

enum MHD_Result ig__http_queue(ig__exchange *x)
{
    const bool whole = x->ended && !x->begun;
    struct MHD_Response *response =
        whole
            ? MHD_create_response_from_buffer(x->out.n, x->out.data, MHD_RESPMEM_MUST_COPY)
            : MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK, read_answer, x,
                                                NULL);
    if (!response)
        return MHD_NO;
    enum MHD_Result ok = MHD_YES;
    if (x->content_type)
        ok = MHD_add_response_header(response, "Content-Type", x->content_type);
    for (size_t i = 0; i < x->headers.n && ok == MHD_YES;) {
        const char *name = x->headers.data + i, *value = name + strlen(name) + 1;
        ok = MHD_add_response_header(response, name, value);
        i += strlen(name) + strlen(value) + 2;
    }
    x->queued = true;
    if (ok == MHD_YES && !x->headers.failed && !(whole && x->out.failed))
        ok = MHD_queue_response(x->connection, (unsigned)x->status, response);
    else
        ok = MHD_NO;
    MHD_destroy_response(response);
    if (whole) { /* libmicrohttpd has a copy */
        x->n_sent = (int64_t)x->out.n;
        ig__http_hold(x, x->out.n);
        ig__http_limit(x, x->out.n);
        ig__buffer_fini(&x->out);
        x->out = ig__buffer_init(x->body.a);
    }
    return ok;
}

void ig__http_reply(ig__exchange *x, int status, const char *content_type, const char *body,
                    size_t n)
{
    if (x->ended)
        return;
    if (!x->begun) {
        x->status = status;
        x->content_type = content_type;
    }
    ig__buffer_append(&x->out, body, n);
    x->ended = true;
    if (x->begun) { /* by a probe: it goes on its way piece by piece */
        ig__http_hold(x, n);
        ig__http_limit(x, n);
    }
    ig__http_resume(x);
}

void ig__http_begin(ig__exchange *x, int status, const char *content_type)
{
    if (x->begun || x->ended)
        return;
    x->begun = true;
    x->status = status;
    x->content_type = content_type;
    x->write_ns = ig__now_ns();
    ig__http_resume(x);
}

void ig__http_write(ig__exchange *x, const char *bytes, size_t n)
{
    if (x->ended)
        return;
    ig__buffer_append(&x->out, bytes, n);
    if (x->out.n - x->sent > backlog_limit) /* a client that does not read */
        x->out.failed = true;
    x->write_ns = ig__now_ns();
    ig__http_resume(x);
}

void ig__http_end(ig__exchange *x)
{
    x->ended = true;
    ig__http_limit(x, x->out.n - x->sent);
    ig__http_resume(x);
}
