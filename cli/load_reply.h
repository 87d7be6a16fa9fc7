/* One HTTP/1.1 answer read as it arrives: status, headers, body, server-sent events.
 *
 * Bytes go in, in pieces of any size; events come out by a callback. Of the
 * answer only the lines that have begun are kept, and the first bytes of a body that is no
 * stream (a refusal's words).
 */
#ifndef INGOT_CLI_LOAD_REPLY_H
#define INGOT_CLI_LOAD_REPLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LOAD_LONGEST_HEADER = 2048, LOAD_LONGEST_LINE = 1 << 20, LOAD_KEPT_BODY = 512 };

typedef enum load_part {
    LOAD_STATUS_LINE,
    LOAD_HEADERS,
    LOAD_CHUNK_SIZE, /* of a chunked body */
    LOAD_CHUNK_DATA,
    LOAD_CHUNK_END, /* the empty line behind a chunk */
    LOAD_TRAILER,
    LOAD_BODY,        /* of Content-Length bytes */
    LOAD_BODY_TO_END, /* until the connection ends */
    LOAD_WHOLE,       /* all has come */
    LOAD_BROKEN       /* this is no HTTP that we know */
} load_part;

typedef struct load_reply {
    load_part part;
    int status;   /* 0: not yet */
    bool chunked; /* what the headers say */
    bool events;  /* Content-Type: text/event-stream */
    int64_t length;
    uint64_t left; /* bytes of this chunk or of the body that are to come */
    char frame[LOAD_LONGEST_HEADER]; /* [n_frame] begun, of the head or of chunks */
    size_t n_frame;
    char *line; /* [n_line] begun, of an event, of cap_line bytes; NULL while cap is 0 */
    size_t n_line, cap_line;
    char kept[LOAD_KEPT_BODY]; /* [n_kept] of a body that is no stream */
    size_t n_kept;
    /* Called for the data of each event; false: it cannot be read. */
    bool (*on_event)(void *user, const char *data, size_t n);
    void *user;
} load_reply;

/* From zeros; the callback and user are kept. */
void load_reply_begin(load_reply *r, bool (*on_event)(void *, const char *, size_t),
                      void *user);
/* Take n bytes. False: broken, or no memory. */
bool load_reply_push(load_reply *r, const char *bytes, size_t n);
/* The connection has ended. True: the answer was whole. */
bool load_reply_end(load_reply *r);
void load_reply_fini(load_reply *r);

#endif
