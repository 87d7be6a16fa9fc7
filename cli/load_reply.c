/* Reading one answer: a machine of parts that takes what there is.
 *
 *   status line -> headers -> [ chunk size -> chunk data -> chunk end ]* -> trailer -> whole
 *                          -> body of a length -> whole
 *                          -> body to the end of the connection
 *
 * Chunks may end anywhere in an event's line, so lines of the frame and lines of events are
 * gathered apart. An interim answer (100 Continue) is passed over.
 */
#include "load_reply.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

void load_reply_begin(load_reply *r, bool (*on_event)(void *, const char *, size_t),
                      void *user)
{
    *r = (load_reply){.on_event = on_event, .user = user, .length = -1};
}

void load_reply_fini(load_reply *r)
{
    free(r->line);
    r->line = NULL;
    r->n_line = r->cap_line = 0;
}

static bool broken(load_reply *r)
{
    r->part = LOAD_BROKEN;
    return false;
}

/* Add to the line that has begun; it stays ended by a 0. */
static bool keep_line(load_reply *r, const char *bytes, size_t n)
{
    if (n > LOAD_LONGEST_LINE - r->n_line)
        return broken(r);
    if (r->n_line + n + 1 > r->cap_line) {
        const size_t cap = 2 * (r->n_line + n) + 256;
        char *line = realloc(r->line, cap);
        if (!line)
            return broken(r);
        r->line = line;
        r->cap_line = cap;
    }
    memcpy(r->line + r->n_line, bytes, n);
    r->n_line += n;
    r->line[r->n_line] = 0;
    return true;
}

/* The decimal or hexadecimal digits at the start of a text; -1: none, or too many. */
static int64_t digits(const char *text, int64_t base)
{
    int64_t value = 0;
    int n = 0;
    for (;; n++) {
        const char c = text[n];
        int64_t digit = base;
        if (c >= '0' && c <= '9')
            digit = c - '0';
        else if (c >= 'a' && c <= 'f')
            digit = c - 'a' + 10;
        else if (c >= 'A' && c <= 'F')
            digit = c - 'A' + 10;
        if (digit >= base)
            return n ? value : -1;
        if (n == 15)
            return -1;
        value = value * base + digit;
    }
}

/* The value of a header line of this name, or NULL. */
static const char *header(const char *line, const char *name)
{
    const size_t n = strlen(name);
    if (strncasecmp(line, name, n) || line[n] != ':')
        return NULL;
    return line + n + 1 + strspn(line + n + 1, " \t");
}

static bool begin_body(load_reply *r)
{
    if (r->status < 200) {
        r->status = 0;
        r->part = LOAD_STATUS_LINE;
        return true;
    }
    if (r->status == 204 || r->status == 304) {
        r->part = LOAD_WHOLE;
    } else if (r->chunked) {
        r->part = LOAD_CHUNK_SIZE;
    } else if (r->length >= 0) {
        r->left = (uint64_t)r->length;
        r->part = r->length ? LOAD_BODY : LOAD_WHOLE;
    } else {
        r->part = LOAD_BODY_TO_END;
    }
    return true;
}

/* A line of the head, without its end. */
static bool take_head(load_reply *r, const char *line)
{
    if (r->part == LOAD_STATUS_LINE) {
        const int64_t status = strncmp(line, "HTTP/1.", 7) || !line[7] || line[8] != ' '
                                   ? -1
                                   : digits(line + 9, 10);
        if (status < 100 || status > 599)
            return broken(r);
        r->status = (int)status;
        r->part = LOAD_HEADERS;
        return true;
    }
    if (!*line)
        return begin_body(r);
    const char *value = header(line, "Transfer-Encoding");
    if (value) {
        r->chunked = !strcasecmp(value, "chunked");
        return r->chunked || broken(r);
    }
    if ((value = header(line, "Content-Length"))) {
        r->length = digits(value, 10);
        return r->length >= 0 || broken(r);
    }
    if ((value = header(line, "Content-Type")))
        r->events = !strncasecmp(value, "text/event-stream", 17);
    return true;
}

/* A line of a stream, without its end. The servers of this API write an event's data on one
 * line; each such line counts as an event. */
static bool take_event_line(load_reply *r, const char *line, size_t n)
{
    if (n < 5 || memcmp(line, "data:", 5))
        return true; /* a comment, an id, the empty line between events */
    line += 5;
    n -= 5;
    if (n && *line == ' ') {
        line++;
        n--;
    }
    return r->on_event(r->user, line, n) || broken(r);
}

static bool take_body(load_reply *r, const char *bytes, size_t n)
{
    if (!r->events || r->status != 200) {
        const size_t room = sizeof r->kept - r->n_kept;
        const size_t taken = n < room ? n : room;
        memcpy(r->kept + r->n_kept, bytes, taken);
        r->n_kept += taken;
        return true;
    }
    while (n) {
        const char *end = memchr(bytes, '\n', n);
        const size_t taken = end ? (size_t)(end - bytes) : n;
        if (!keep_line(r, bytes, taken))
            return false;
        if (!end)
            return true;
        bytes += taken + 1;
        n -= taken + 1;
        size_t n_line = r->n_line;
        if (n_line && r->line[n_line - 1] == '\r')
            r->line[--n_line] = 0;
        r->n_line = 0;
        if (!take_event_line(r, r->line, n_line))
            return false;
    }
    return true;
}

/* A chunk's size, the end of a chunk, a line of the trailer. */
static bool take_frame(load_reply *r, const char *line)
{
    if (r->part == LOAD_CHUNK_END) {
        r->part = LOAD_CHUNK_SIZE;
        return !*line || broken(r);
    }
    if (r->part == LOAD_TRAILER) {
        if (!*line)
            r->part = LOAD_WHOLE;
        return true;
    }
    const int64_t size = digits(line, 16);
    if (size < 0)
        return broken(r);
    r->left = (uint64_t)size;
    r->part = size ? LOAD_CHUNK_DATA : LOAD_TRAILER;
    return true;
}

/* A line of the head or of a chunk's frame. Returns the bytes used; 0: broken. */
static size_t push_line(load_reply *r, const char *bytes, size_t n)
{
    const char *end = memchr(bytes, '\n', n);
    const size_t taken = end ? (size_t)(end - bytes) : n;
    if (r->n_frame + taken >= sizeof r->frame) {
        broken(r);
        return 0;
    }
    memcpy(r->frame + r->n_frame, bytes, taken);
    r->n_frame += taken;
    if (!end)
        return taken;
    if (r->n_frame && r->frame[r->n_frame - 1] == '\r')
        r->n_frame--;
    r->frame[r->n_frame] = 0;
    r->n_frame = 0;
    const bool head = r->part == LOAD_STATUS_LINE || r->part == LOAD_HEADERS;
    if (!(head ? take_head(r, r->frame) : take_frame(r, r->frame)))
        return 0;
    return taken + 1;
}

bool load_reply_push(load_reply *r, const char *bytes, size_t n)
{
    while (n && r->part != LOAD_WHOLE) {
        size_t taken = n;
        switch (r->part) {
        case LOAD_BROKEN:
        case LOAD_WHOLE:
            return false;
        case LOAD_STATUS_LINE:
        case LOAD_HEADERS:
        case LOAD_CHUNK_SIZE:
        case LOAD_CHUNK_END:
        case LOAD_TRAILER:
            taken = push_line(r, bytes, n);
            if (!taken)
                return false;
            break;
        case LOAD_CHUNK_DATA:
        case LOAD_BODY:
            taken = r->left < n ? (size_t)r->left : n;
            if (!take_body(r, bytes, taken))
                return false;
            r->left -= taken;
            if (!r->left)
                r->part = r->part == LOAD_BODY ? LOAD_WHOLE : LOAD_CHUNK_END;
            break;
        case LOAD_BODY_TO_END:
            if (!take_body(r, bytes, n))
                return false;
            break;
        }
        bytes += taken;
        n -= taken;
    }
    return true;
}

bool load_reply_end(load_reply *r)
{
    if (r->part == LOAD_BODY_TO_END)
        r->part = LOAD_WHOLE;
    return r->part == LOAD_WHOLE;
}
