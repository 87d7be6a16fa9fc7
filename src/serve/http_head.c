/* The head of a request: what is wrong with it before anybody looks at what it asks. */
#include "serve/http_int.h"

#include <string.h>
#include <strings.h>

enum {
    TARGET_MAX = 8000,
    HEADERS_MAX = 24000
}; /* bytes of a path with its query; of headers */

typedef struct sizes {
    size_t n[2]; /* bytes of the query's fields, of headers */
    int64_t n_hosts, n_lengths, n_blank;
} sizes;

static enum MHD_Result add_size(void *user, enum MHD_ValueKind kind, const char *name,
                                const char *value)
{
    sizes *s = user;
    s->n[kind == MHD_HEADER_KIND] += strlen(name) + (value ? strlen(value) : 0) + 2;
    if (kind != MHD_HEADER_KIND)
        return MHD_YES;
    /* a blank before the colon: others may take it for the field without */
    s->n_blank += name[strcspn(name, " \t")] != 0;
    s->n_hosts += strcasecmp(name, "Host") == 0;
    s->n_lengths += strcasecmp(name, "Content-Length") == 0 ||
                    strcasecmp(name, "Transfer-Encoding") == 0;
    return MHD_YES;
}

/* The body's length as announced; 0: none is. libmicrohttpd has refused what is no number. */
static uint64_t announced(const ig__exchange *x)
{
    const char *text = ig__http_get_header(x, "Content-Length");
    uint64_t n = 0;
    for (; text && *text >= '0' && *text <= '9'; text++)
        n = n * 10 + (uint64_t)(*text - '0');
    return n;
}

uint64_t ig__http_check_head(ig__exchange *x, const char *path, const char *version)
{
    sizes s = {{0}, 0, 0, 0};
    (void)MHD_get_connection_values(x->connection, MHD_HEADER_KIND, add_size, &s);
    (void)MHD_get_connection_values(x->connection, MHD_GET_ARGUMENT_KIND, add_size, &s);
    const char *coding = ig__http_get_header(x, "Transfer-Encoding");
    const char *packing = ig__http_get_header(x, "Content-Encoding");
    if (strlen(path) + s.n[0] > TARGET_MAX)
        x->fault = IG_FAULT_TARGET;
    else if (s.n[1] > HEADERS_MAX)
        x->fault = IG_FAULT_HEADERS;
    else if (s.n_hosts > 1 || (s.n_hosts == 0 && strcmp(version, "HTTP/1.1") == 0))
        x->fault = IG_FAULT_HOST;
    else if (s.n_blank > 0)
        x->fault = IG_FAULT_NAME;
    else if (s.n_lengths > 1) /* whoever passed it on may have taken another one */
        x->fault = IG_FAULT_LENGTH;
    else if (coding && strcasecmp(coding, "chunked") != 0)
        x->fault = IG_FAULT_CODING;
    else if (packing && strcasecmp(packing, "identity") != 0)
        x->fault = IG_FAULT_PACKED;
    const uint64_t n = announced(x);
    /* libmicrohttpd loses a length that stands in a folded line: what it then takes for the next
     * request may be the body. No client of ours sends a body of no length. */
    x->closes = n == 0 && !coding && strcmp(x->method, "POST") == 0;
    return n;
}
