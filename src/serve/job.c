/* Jobs: reading what is asked, encoding, submitting; and what becomes of one whose client
 * left. Events and ends are job_events.c's.
 */
#include "serve/job.h"

#include "base/clock.h"
#include "base/error.h"
#include "serve/json_write.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

/* ---- making ---- */

static void unlink_job(ig__job *job)
{
    ig_server *s = job->server;
    *(job->previous ? &job->previous->next : &s->jobs) = job->next;
    if (job->next)
        job->next->previous = job->previous;
    s->n_jobs--;
}

void ig__job_destroy(ig__job *job)
{
    const ig_allocator *a = job->server->a;
    unlink_job(job);
    ig_request_release(job->request);
    for (int64_t i = 0; i < job->n && job->samples; i++) {
        ig__buffer_fini(&job->samples[i].content);
        ig__buffer_fini(&job->samples[i].reasoning);
        ig__buffer_fini(&job->samples[i].notes);
        ig__buffer_fini(&job->samples[i].ids);
    }
    ig__free(a, job->samples);
    ig_ids_free(job->server->tokenizer, &job->prompt);
    ig__buffer_fini(&job->head);
    ig__buffer_fini(&job->events);
    ig__buffer_fini(&job->body);
    ig__free(a, job);
}

static void write_head(ig__job *job)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    ig__buffer_append_text(&job->head, "{\"id\":");
    ig__json_write_text(&job->head, job->id);
    ig__buffer_printf(&job->head, ",\"object\":\"%s\",\"created\":%lld,\"model\":",
                      job->stream ? job->form->chunk_object : job->form->object,
                      (long long)now.tv_sec);
    ig__json_write_text(&job->head, job->server->opts.name);
    ig__buffer_printf(&job->head, ",\"system_fingerprint\":\"ingot-%s\",", ig_version());
}

static ig__job *make_job(ig_server *s, ig__exchange *x, const ig__form *form,
                         const ig__params *p)
{
    ig__job *job = ig__alloc_zero(s->a, sizeof *job);
    if (!job)
        return NULL;
    *job = (ig__job){.server = s,
                     .next = s->jobs,
                     .x = x,
                     .form = form,
                     .stream = p->stream,
                     .include_usage = p->include_usage,
                     .return_ids = p->return_ids,
                     .n_logprobs = p->n_logprobs,
                     .n = p->n,
                     .start_ns = x->start_ns,
                     .read_ns = ig__now_ns() - x->start_ns,
                     .head = ig__buffer_init(s->a),
                     .events = ig__buffer_init(s->a),
                     .body = ig__buffer_init(s->a)};
    if (s->jobs)
        s->jobs->previous = job;
    s->jobs = job;
    s->n_jobs++;
    if (p->n_logprobs >= 0)
        job->note_bytes = sizeof(ig__note) + (size_t)p->n_logprobs * sizeof(ig_logprob);
    job->samples = ig__alloc_zero(s->a, (size_t)p->n * sizeof *job->samples);
    for (int64_t i = 0; i < p->n && job->samples; i++) {
        ig__sample *sample = &job->samples[i];
        sample->content = sample->reasoning = ig__buffer_init(s->a);
        sample->notes = sample->ids = ig__buffer_init(s->a);
        if (form != &ig__chat_form)
            sample->split.state = IG_REASONING_OFF;
    }
    (void)snprintf(job->id, sizeof job->id, "%s%016llx%08llx", form->id_prefix,
                   (unsigned long long)s->id_base, (unsigned long long)++s->n_ids);
    write_head(job);
    if (!job->samples || job->head.failed) {
        ig__job_destroy(job);
        return NULL;
    }
    return job;
}

static ig_sampler_opts sampler_opts(const ig__params *p)
{
    ig_sampler_opts o = ig_sampler_defaults();
    o.temperature = (float)p->temperature;
    o.top_k = (int32_t)p->top_k;
    o.top_p = p->top_p > 1e-6 ? (float)p->top_p : 1e-6f; /* 0: the best alone, as it is */
    o.min_p = (float)p->min_p;
    o.typical_p = (float)p->typical_p;
    o.repeat_penalty = (float)p->repeat_penalty;
    o.repeat_last_n = (int32_t)p->repeat_last_n;
    o.presence_penalty = (float)p->presence_penalty;
    o.frequency_penalty = (float)p->frequency_penalty;
    o.seed = (uint64_t)p->seed;
    if (!p->has_seed && getrandom(&o.seed, sizeof o.seed, 0) != (ssize_t)sizeof o.seed)
        o.seed = (uint64_t)ig__now_ns();
    o.bias = p->bias;
    o.n_bias = p->n_bias;
    return o;
}

static ig_status submit(ig__job *job, const ig__params *p, const ig_ids *ids, ig_error *err)
{
    ig_request_opts o = ig_request_defaults();
    o.prompt = ids->ids;
    o.n_prompt = ids->n;
    o.sampler = sampler_opts(p);
    o.n = p->n;
    o.max_tokens = job->max_tokens;
    o.stop = p->stop;
    o.n_stop = p->n_stop;
    o.ignore_end = p->ignore_eos;
    o.n_logprobs = p->n_logprobs;
    o.on_event = ig__job_on_event;
    o.user = job;
    const ig_status status =
        ig_engine_submit(&job->request, job->server->model.engine, &o, err);
    ig__server_hurry(job->server);
    return status;
}

/* ---- reading what is asked: any thread ---- */

/* A text that cannot fit, whatever its tokens are, is not even tokenized. */
static bool check_length(ig__ask *ask, size_t n, const char *field)
{
    const ig_server *s = ask->server;
    const size_t most = (size_t)s->context * s->longest_token;
    if (n <= most)
        return true;
    ig__ask_refuse(ask, 400, "context_length_exceeded", field,
                   "%s has %zu bytes; the context of %lld tokens holds at most %zu", field,
                   n, (long long)s->context, most);
    return false;
}

bool ig__ask_encode_chat(ig__ask *ask)
{
    const ig_server *s = ask->server;
    const ig__params *p = &ask->params;
    size_t n = 0;
    for (int64_t i = 0; i < p->n_messages; i++)
        n += strlen(p->messages[i].content);
    if (!s->model.chat_template) {
        ig__ask_refuse(ask, 400, NULL, "messages",
                       "the model has no chat template: /v1/completions takes raw text");
        return false;
    }
    if (!check_length(ask, n, "messages"))
        return false;
    ig_error err;
    const ig_status status = ig_chat_encode(&ask->ids, s->tokenizer, s->model.chat_template,
                                            p->messages, p->n_messages, &err);
    if (status != IG_OK)
        ig__ask_refuse_status(ask, status, &err, "messages");
    return status == IG_OK;
}

static void encode_prompt(ig__ask *ask)
{
    const ig__params *p = &ask->params;
    ig_error err;
    ig_status status = IG_OK;
    if (p->ids) {
        const size_t bytes = (size_t)p->n_ids * sizeof *p->ids;
        ask->ids.ids = ig__alloc(ask->server->a, bytes);
        if (ask->ids.ids) {
            memcpy(ask->ids.ids, p->ids, bytes);
            ask->ids.n = ask->ids.cap = p->n_ids;
        } else {
            status = ig__fail_memory(&err, "prompt", bytes);
        }
    } else if (check_length(ask, p->n_prompt, "prompt")) {
        const ig_tokenize_opts how = {.add_special = true};
        status = ig_tokenize(&ask->ids, ask->server->tokenizer, p->prompt, p->n_prompt,
                             &how, &err);
    }
    if (status != IG_OK)
        ig__ask_refuse_status(ask, status, &err, "prompt");
}

static void read_completion(ig__ask *ask)
{
    const ig_server *s = ask->server;
    ig__bad bad;
    if (!ig__ask_parse(ask))
        return;
    if (!ig__params_read(&ask->params, s->a, ask->root, ask->endpoint, s->vocab, &bad))
        ig__ask_refuse_bad(ask, &bad);
    else if (ask->endpoint == IG_CHAT)
        (void)ig__ask_encode_chat(ask);
    else
        encode_prompt(ask);
}

void ig__serve_chat(ig_server *s, ig__exchange *x)
{
    ig__ask_begin(s, x, IG_CHAT, read_completion);
}

void ig__serve_completion(ig_server *s, ig__exchange *x)
{
    ig__ask_begin(s, x, IG_COMPLETION, read_completion);
}

/* ---- starting it ---- */

static void reply_too_long(const ig_server *s, ig__exchange *x, int64_t n,
                           const char *field)
{
    ig__buffer b = ig__buffer_init(s->a);
    ig__buffer_printf(
        &b,
        "{\"error\":{\"message\":\"the prompt has %lld tokens, the context holds %lld%s\","
        "\"type\":\"invalid_request_error\",\"param\":\"%s\","
        "\"code\":\"context_length_exceeded\",\"n_prompt_tokens\":%lld,\"n_ctx\":%lld}}\n",
        (long long)n, (long long)s->context, n > s->context ? "" : " with its answer",
        field, (long long)n, (long long)s->context);
    ig__reply_json(x, 400, &b);
}

static void reply_refused(ig_server *s, ig__exchange *x, ig_status status,
                          const ig_error *err, const ig_ids *ids, const char *field)
{
    if (status == IG_ERR_LIMIT) {
        reply_too_long(s, x, ids->n, field);
    } else if (status == IG_ERR_BUSY) {
        char seconds[24];
        (void)snprintf(
            seconds, sizeof seconds, "%lld",
            (long long)((ig_engine_retry_ns(s->model.engine) + 999999999) / 1000000000));
        ig__http_set_header(x, "Retry-After", seconds);
        s->metrics.n_rejected++;
        ig__reply_error(x, 429, "rate_limit_error", "queue_full", NULL,
                        "the queue is full; try again in %s s", seconds);
    } else {
        const int code = ig__error_status(status);
        ig__reply_error(x, code, ig__error_type(code), NULL, NULL, "%s", err->message);
    }
}

static void begin_stream(ig__job *job)
{
    ig__http_begin(job->x, 200, "text/event-stream");
    for (int64_t i = 0; i < job->n && job->form == &ig__chat_form; i++)
        ig__job_write_piece(job, &(ig__piece){.i_sample = i, .content = "", .role = true});
}

void ig__ask_start(ig__ask *ask)
{
    ig_server *s = ask->server;
    ig__exchange *x = ask->x;
    const ig__params *p = &ask->params;
    const bool is_chat = ask->endpoint == IG_CHAT;
    const char *field = is_chat ? "messages" : "prompt";
    if (ask->ids.n == 0) {
        ig__reply_error(x, 400, "invalid_request_error", NULL, field, "%s is empty", field);
        return;
    }
    ig__job *job = make_job(s, x, is_chat ? &ig__chat_form : &ig__completion_form, p);
    if (!job) {
        ig__reply_error(x, 500, "server_error", NULL, NULL, "out of memory");
        return;
    }
    job->max_tokens = ig__params_max_tokens(p, ask->endpoint);
    job->n_prompt = ask->ids.n;
    ig_error err;
    const ig_status status = submit(job, p, &ask->ids, &err);
    if (status != IG_OK) {
        ig__job_destroy(job);
        reply_refused(s, x, status, &err, &ask->ids, field);
        return;
    }
    x->user = job;
    if (p->return_ids) {
        job->prompt = ask->ids;
        ask->ids = (ig_ids){0};
    }
    ig__http_set_header(x, "X-Request-Id", job->id);
    if (job->stream)
        begin_stream(job);
}

/* ---- the exchange ---- */

void ig__job_probe(ig_server *s, ig__exchange *x)
{
    const ig__job *job = x->user;
    if (!job) { /* nothing can be written yet that changes no answer */
        ig__reader_doubt(s, x);
        return;
    }
    if (job->stream) {
        ig__http_write(x, ": waiting\n\n", 11);
        return;
    }
    ig__http_begin(x, 200, "application/json"); /* white space may stand before JSON */
    ig__http_write(x, " ", 1);
}

static void copy(char *to, size_t cap, const char *from)
{
    const size_t n = strlen(from) < cap ? strlen(from) : cap - 1;
    memcpy(to, from, n);
    to[n] = 0;
}

void ig__job_gone(ig_server *s, ig__exchange *x, bool whole)
{
    ig__job *job = x->user;
    ig__reader_forget(s, x);
    if (!job) {
        ig__log_request(s, x, NULL, whole);
        return;
    }
    if (job->done) {
        ig__log_request(s, x, job, whole);
        ig__job_destroy(job);
        return;
    }
    copy(job->method, sizeof job->method, x->method);
    copy(job->path, sizeof job->path, x->path);
    copy(job->peer, sizeof job->peer, x->peer);
    job->status = x->status;
    job->whole = whole;
    job->body = x->body; /* there only if it is to be logged */
    x->body = ig__buffer_init(s->a);
    job->x = NULL;
    job->cancelled = true;
    ig_request_cancel(job->request);
}

void ig__jobs_cancel_all(ig_server *s)
{
    for (ig__job *job = s->jobs; job; job = job->next)
        if (!job->done)
            ig_request_cancel(job->request);
}

void ig__jobs_fini(ig_server *s)
{
    while (s->jobs)
        ig__job_destroy(s->jobs);
}
