/* Writing: a small buffer before standard output, and JSON that is always UTF-8. */
#include "report.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void write_out(report *out, const char *bytes, size_t n)
{
    while (n && !out->write_errno) {
        const ssize_t written = write(STDOUT_FILENO, bytes, n);
        if (written < 0 && errno != EINTR)
            out->write_errno = errno;
        if (written > 0) {
            bytes += written;
            n -= (size_t)written;
        }
    }
}

bool report_flush(report *out)
{
    write_out(out, out->held, out->n_held);
    out->n_held = 0;
    return !out->write_errno;
}

bool report_write(report *out, const char *bytes, size_t n)
{
    if (n > sizeof out->held - out->n_held)
        report_flush(out);
    if (n > sizeof out->held) {
        write_out(out, bytes, n);
    } else if (n) {
        memcpy(out->held + out->n_held, bytes, n);
        out->n_held += n;
    }
    return !out->write_errno;
}

bool report_print(report *out, const char *fmt, ...)
{
    char line[1024];
    va_list args;
    va_start(args, fmt);
    const int n = vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    if (n < 0)
        return !out->write_errno;
    return report_write(out, line, (size_t)n < sizeof line ? (size_t)n : sizeof line - 1);
}

int report_end(report *out, int code)
{
    if (report_flush(out))
        return code;
    if (out->write_errno == EPIPE)
        return code;
    return report_fail("standard output: %s", strerror(out->write_errno));
}

/* The line may hold what the user typed or a file holds: it stays one line. */
static void say(const char *fmt, va_list args)
{
    char line[1024];
    vsnprintf(line, sizeof line, fmt, args);
    for (char *p = line; *p; p++)
        if ((unsigned char)*p < 32 || *p == 127)
            *p = '?';
    fprintf(stderr, "ingot: %s\n", line);
}

int report_fail(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    say(fmt, args);
    va_end(args);
    return EXIT_FAILED;
}

int report_usage(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    say(fmt, args);
    va_end(args);
    return EXIT_USAGE;
}

void report_note(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    say(fmt, args);
    va_end(args);
}

int report_error(const char *verb, const ig_error *err)
{
    const size_t n = strlen(verb); /* a message may begin with the verb's name already */
    if (strncmp(err->message, verb, n) == 0 && err->message[n] == ':')
        return report_fail("%s", err->message);
    return report_fail("%s: %s", verb, err->message);
}

const char *report_clean(char *line, size_t cap, const char *text)
{
    size_t n = 0;
    for (; n + 1 < cap && text[n]; n++)
        line[n] = text[n] >= 32 && text[n] < 127 ? text[n] : '?';
    line[n] = 0;
    return line;
}

json_t *report_json_text(const char *bytes, size_t n)
{
    /* room for what one push of n bytes may write, and for the flush */
    char *clean = malloc(4 * (n + 3) + 16);
    if (!clean)
        return NULL;
    ig_utf8_stream stream = {0};
    size_t n_clean = n ? ig_utf8_stream_push(&stream, bytes, n, clean) : 0;
    n_clean += ig_utf8_stream_push(&stream, NULL, 0, clean + n_clean);
    json_t *text = json_stringn(clean, n_clean);
    free(clean);
    return text;
}

json_t *report_json_bytes(const char *bytes, size_t n)
{
    json_t *list = json_array();
    for (size_t i = 0; list && i < n; i++) {
        if (json_array_append_new(list, json_integer((unsigned char)bytes[i]))) {
            json_decref(list);
            list = NULL;
        }
    }
    return list;
}

json_t *report_json_ids(const int32_t *ids, int64_t n)
{
    json_t *list = json_array();
    for (int64_t i = 0; list && i < n; i++) {
        if (json_array_append_new(list, json_integer(ids[i]))) {
            json_decref(list);
            list = NULL;
        }
    }
    return list;
}

json_t *report_json_real(double x)
{
    return isfinite(x) ? json_real(x) : json_null();
}

int report_json(report *out, json_t *object)
{
    /* 9 digits give a float32 back; wider figures here are measurements */
    char *text = object ? json_dumps(object, JSON_REAL_PRECISION(9)) : NULL;
    json_decref(object);
    if (!text)
        return report_fail("out of memory for the JSON output");
    report_write(out, text, strlen(text));
    report_write(out, "\n", 1);
    free(text);
    return EXIT_OK;
}

int64_t report_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}
