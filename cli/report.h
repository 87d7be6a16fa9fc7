/* What the command says: standard output, one-line failures, JSON.
 *
 * Standard output goes through a `report`, which remembers the first failed write: later
 * writes do nothing, and report_end turns it into the exit code. A reader that went away
 * (a closed pipe) is no failure and ends the command quietly.
 */
#ifndef INGOT_CLI_REPORT_H
#define INGOT_CLI_REPORT_H

#include "ingot/ingot.h"

#include <jansson.h>

enum { EXIT_OK = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

typedef struct report {
    char held[4096]; /* [n_held] not yet written */
    size_t n_held;
    int write_errno; /* of the first failed write; 0: none */
} report;

/* False once a write has failed: stop working. */
bool report_write(report *out, const char *bytes, size_t n);
IG_PRINTF(2, 3) bool report_print(report *out, const char *fmt, ...);
bool report_flush(report *out);
/* Flush. The exit code: `code`, or what a failed write asks for. */
int report_end(report *out, int code);

/* One line on standard error, "ingot: ..."; they return the exit code to end with. */
IG_PRINTF(1, 2) int report_fail(const char *fmt, ...);  /* EXIT_FAILED */
IG_PRINTF(1, 2) int report_usage(const char *fmt, ...); /* EXIT_USAGE */
int report_error(const char *verb, const ig_error *err);
/* One line on standard error that is no failure. */
IG_PRINTF(1, 2) void report_note(const char *fmt, ...);

/* Words of a file for a terminal: what is not printable ASCII becomes '?'. Returns `line`. */
const char *report_clean(char *line, size_t cap, const char *text);

/* JSON values; NULL when there is no memory (jansson's setters pass it on as a failure). */
json_t *report_json_text(const char *bytes, size_t n);  /* bad UTF-8 becomes U+FFFD */
json_t *report_json_bytes(const char *bytes, size_t n); /* a list of numbers */
json_t *report_json_ids(const int32_t *ids, int64_t n);
json_t *report_json_real(double x); /* null for what JSON cannot say */
/* Write the object as one line and let go of it; NULL: there was no memory to make it. */
int report_json(report *out, json_t *object);

/* Monotonic nanoseconds. */
int64_t report_now_ns(void);

#endif
