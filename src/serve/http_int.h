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
/* Go on with a connection that waits for its answer; others are left alone. */
void ig__http_resume(ig__exchange *x);

#endif
