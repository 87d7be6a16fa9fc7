/* What the parts of the transport have of each other; for http*.c only. */
#ifndef INGOT_SERVE_HTTP_INT_H
#define INGOT_SERVE_HTTP_INT_H

#include "serve/http.h"

#include <microhttpd.h>

/* Bind and listen: the socket, and the port that it has. Nothing is left open on failure. */
ig_status ig__http_listen(int *listener_out, int *port_out, const ig_allocator *a,
                          const ig__http_opts *opts, ig_error *err);

/* Give libmicrohttpd the answer, of which the status is known: all of it, or a reader that is
 * asked for pieces and suspends the connection when there is none. */
enum MHD_Result ig__http_queue(ig__exchange *x);
/* Sets x->fault; the length of the body as announced, 0: none is. */
uint64_t ig__http_check_head(ig__exchange *x, const char *path, const char *version);

/* The answer is n bytes: they count as held until the exchange is gone. */
void ig__http_hold(ig__exchange *x, size_t n);
/* The answer is whole, and n bytes of it are not taken: the client has so much time for them. */
void ig__http_limit(ig__exchange *x, size_t n);
/* Go on with a connection that waits for its answer; others are left alone. */
void ig__http_resume(ig__exchange *x);

#endif
