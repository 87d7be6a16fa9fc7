/* What a POST asks, between its body and what is done about it: JSON, fields, tokens.
 *
 * A body is read by a function that sees the body and what is constant in the server, so it
 * may run on any thread. Short bodies are read at once, on HTTP's thread. A long one takes up
 * to a second a megabyte to tokenize, and all streams would stand still: those are read in
 * turn on a thread of their own, and come back to HTTP's when they are understood.
 */
#ifndef INGOT_SERVE_ASK_H
#define INGOT_SERVE_ASK_H

#include "serve/fields.h"
#include "serve/server.h"

struct ig__ask {
    ig_server *server;
    void (*read)(ig__ask *ask);
    ig__endpoint endpoint; /* of the fields; 0: none of the two */
    ig__buffer body;

    /* what reading makes: an answer, or a completion to be started */
    int status; /* of `answer`; 0: there is none */
    ig__buffer answer;
    ig__json *root;
    ig__params params;
    ig_ids ids;

    /* HTTP's thread */
    ig__exchange *x; /* NULL: its client left */
    ig__ask *previous, *next;

    /* guarded by the reader's lock */
    ig__ask *next_waiting, *next_read;
    bool doubtful; /* its client may have left */
};

/* Read the body that came with x by `read`, and answer it or start what it asks; now or later. */
void ig__ask_begin(ig_server *s, ig__exchange *x, ig__endpoint endpoint,
                   void (*read)(ig__ask *ask));

/* The status of HTTP's for a failed step of the library, 400 or 500; and OpenAI's word for one. */
int ig__error_status(ig_status status);
const char *ig__error_type(int status);

/* Refuse while reading, in OpenAI's shape; `code` and `field` may be NULL. */
IG_PRINTF(5, 6)
void ig__ask_refuse(ig__ask *ask, int status, const char *code, const char *field,
                    const char *fmt, ...);
void ig__ask_refuse_status(ig__ask *ask, ig_status status, const ig_error *err,
                           const char *field);
void ig__ask_refuse_bad(ig__ask *ask, const ig__bad *bad);
/* Parse the body; false: refused. */
bool ig__ask_parse(ig__ask *ask);
/* The tokens of params.messages; false: refused. */
bool ig__ask_encode_chat(ig__ask *ask);

/* Start the completion that was read, or refuse it. HTTP's thread; x is there. */
void ig__ask_start(ig__ask *ask);

#endif
