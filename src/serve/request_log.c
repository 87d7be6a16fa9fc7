/* The log: one JSON object a request. No text of a prompt or an answer, unless asked for. */
#include "serve/job.h"

#include "base/clock.h"
#include "serve/json_write.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static void write_time(ig__buffer *b)
{
    struct timespec now;
    struct tm utc;
    char text[40] = "";
    (void)clock_gettime(CLOCK_REALTIME, &now);
    if (gmtime_r(&now.tv_sec, &utc))
        (void)strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &utc);
    ig__buffer_printf(b, "{\"time\":\"%s.%03dZ\"", text, (int)(now.tv_nsec / 1000000));
}

static void tell(ig_server *s, ig__buffer *b)
{
    if (!b->failed)
        s->opts.log(s->opts.log_user, b->data);
    ig__buffer_fini(b);
}

static void write_job(ig__buffer *b, const ig__job *job)
{
    static const char *const words[] = {"stop", "length", "cancelled", "deadline", "error"};
    const ig_finish finish = job->samples[0].finish;
    ig__buffer_printf(b,
                      ",\"id\":\"%s\",\"stream\":%s,\"n\":%lld,\"prompt_tokens\":%lld,"
                      "\"cached_tokens\":%lld,\"completion_tokens\":%lld,\"finish\":\"%s\","
                      "\"queue_ms\":%.1f,\"ttft_ms\":%.1f",
                      job->id, job->stream ? "true" : "false", (long long)job->n,
                      (long long)job->n_prompt, (long long)job->n_cached,
                      (long long)job->n_generated,
                      job->failed                                     ? "error"
                      : job->cancelled                                ? "cancelled"
                      : (size_t)finish < sizeof words / sizeof *words ? words[finish]
                                                                      : "?",
                      (double)job->queue_ns / 1e6, (double)job->ttft_ns / 1e6);
    if (job->failed) {
        ig__buffer_append_text(b, ",\"error\":");
        ig__json_write_text(b, job->error.message);
    }
}

void ig__log_request(ig_server *s, const ig__exchange *x, const ig__job *job, bool whole)
{
    if (!s->opts.log)
        return;
    ig__buffer b = ig__buffer_init(s->a);
    write_time(&b);
    ig__buffer_append_text(&b, ",\"event\":\"request\",\"client\":");
    ig__json_write_text(&b, x ? x->peer : job->peer);
    ig__buffer_append_text(&b, ",\"method\":");
    ig__json_write_text(&b, x ? x->method : job->method);
    ig__buffer_append_text(&b, ",\"path\":");
    ig__json_write_text(&b, x ? x->path : job->path);
    const int64_t start = x ? x->start_ns : job->start_ns;
    ig__buffer_printf(&b, ",\"status\":%d,\"whole\":%s,\"ms\":%.1f",
                      x ? x->status : job->status, whole ? "true" : "false",
                      (double)(ig__now_ns() - start) / 1e6);
    if (job)
        write_job(&b, job);
    const ig__buffer *body = x ? &x->body : &job->body;
    if (s->opts.log_prompts && body->n > 0) {
        ig__buffer_append_text(&b, ",\"body\":");
        ig__json_write_string(&b, body->data, body->n);
    }
    ig__buffer_append_char(&b, '}');
    tell(s, &b);
}

void ig__log_note(ig_server *s, const char *fmt, ...)
{
    if (!s->opts.log)
        return;
    char message[600];
    va_list arguments;
    va_start(arguments, fmt);
    (void)vsnprintf(message, sizeof message, fmt, arguments);
    va_end(arguments);
    ig__buffer b = ig__buffer_init(s->a);
    write_time(&b);
    ig__buffer_append_text(&b, ",\"event\":\"note\",\"message\":");
    ig__json_write_text(&b, message);
    ig__buffer_append_char(&b, '}');
    tell(s, &b);
}
