/* Jobs: submitting, carrying events between the threads, ending.
 *
 *     stepping thread:  on_event -> job->events (lock) -> server->ready_jobs
 *     HTTP's thread:    woken -> take the events of ready jobs (lock) -> samples -> exchange
 *
 * A token costs HTTP's thread one chunk of text; the stepping thread one copy under a lock
 * that is held for as long as a copy takes.
 */
#include "serve/job.h"

#include "base/clock.h"
#include "base/error.h"
#include "serve/json_write.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

/* An event as it crosses: this, then the text, then the tops. */
typedef struct event {
    size_t n_bytes; /* of all of it, a multiple of 8 */
    int64_t now_ns, i_sample, n_generated, n_prompt, n_cached, queue_ns;
    size_t n_text;
    int64_t n_top;
    int32_t id;
    float logprob;
    ig_finish finish;
    bool finished, last;
} event;

/* ---- the stepping thread ---- */

static bool append_event(ig__buffer *to, const ig_request_event *e)
{
    static const char zeros[8];
    const size_t n_tops = (size_t)e->n_top * sizeof *e->top;
    const size_t n_text = (e->n_text + 7) / 8 * 8;
    const event head = {.n_bytes = sizeof head + n_text + n_tops,
                        .now_ns = ig__now_ns(),
                        .i_sample = e->i_sample,
                        .n_generated = e->n_generated,
                        .n_prompt = e->n_prompt,
                        .n_cached = e->n_cached,
                        .queue_ns = e->queue_ns,
                        .n_text = e->n_text,
                        .n_top = e->n_top,
                        .id = e->id,
                        .logprob = e->logprob,
                        .finish = e->finish,
                        .finished = e->finished,
                        .last = e->last};
    if (!ig__buffer_reserve(to, head.n_bytes))
        return false;
    ig__buffer_append(to, (const char *)&head, sizeof head);
    ig__buffer_append(to, e->text, e->n_text);
    ig__buffer_append(to, zeros, n_text - e->n_text);
    ig__buffer_append(to, (const char *)e->top, n_tops);
    return !to->failed;
}

static void on_event(const ig_request_event *e)
{
    ig__job *job = e->user;
    ig_server *s = job->server;
    pthread_mutex_lock(&s->lock);
    if (!job->lost && !append_event(&job->events, e))
        job->lost = true;
    if (e->error)
        job->engine_error = *e->error;
    job->last = e->last;
    if (!job->is_ready) {
        job->is_ready = true;
        job->next_ready = s->ready_jobs;
        s->ready_jobs = job;
    }
    pthread_mutex_unlock(&s->lock);
    s->dirty = true;
}

/* ---- making ---- */

static void unlink_job(ig__job *job)
{
    ig_server *s = job->server;
    *(job->previous ? &job->previous->next : &s->jobs) = job->next;
    if (job->next)
        job->next->previous = job->previous;
    s->n_jobs--;
}

static void destroy_job(ig__job *job)
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
                     .head = ig__buffer_init(s->a),
                     .events = ig__buffer_init(s->a)};
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
        destroy_job(job);
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
    o.on_event = on_event;
    o.user = job;
    return ig_engine_submit(&job->request, job->server->model.engine, &o, err);
}

/* ---- encoding what is asked ---- */

/* A text that cannot fit, whatever its tokens are, is not even tokenized. */
static bool check_length(const ig_server *s, ig__exchange *x, size_t n, const char *field)
{
    const size_t most = (size_t)s->context * s->longest_token;
    if (n <= most)
        return true;
    ig__reply_error(x, 400, "invalid_request_error", "context_length_exceeded", field,
                    "%s has %zu bytes; the context of %lld tokens holds at most %zu", field,
                    n, (long long)s->context, most);
    return false;
}

static bool encode_chat(ig_ids *ids, ig_server *s, ig__exchange *x, const ig__params *p)
{
    size_t n = 0;
    for (int64_t i = 0; i < p->n_messages; i++)
        n += strlen(p->messages[i].content);
    if (!s->model.chat_template) {
        ig__reply_error(x, 400, "invalid_request_error", NULL, "messages",
                        "the model has no chat template: /v1/completions takes raw text");
        return false;
    }
    if (!check_length(s, x, n, "messages"))
        return false;
    ig_error err;
    const ig_status status = ig_chat_encode(ids, s->tokenizer, s->model.chat_template,
                                            p->messages, p->n_messages, &err);
    if (status != IG_OK)
        ig__reply_status(x, status, &err, "messages");
    return status == IG_OK;
}

static bool encode_prompt(ig_ids *ids, ig_server *s, ig__exchange *x, const ig__params *p)
{
    ig_error err;
    ig_status status = IG_OK;
    if (p->ids) {
        const size_t bytes = (size_t)p->n_ids * sizeof *ids->ids;
        ids->ids = ig__alloc(s->a, bytes);
        if (ids->ids) {
            memcpy(ids->ids, p->ids, bytes);
            ids->n = ids->cap = p->n_ids;
        } else {
            status = ig__fail_memory(&err, "prompt", bytes);
        }
    } else if (check_length(s, x, p->n_prompt, "prompt")) {
        const ig_tokenize_opts how = {.add_special = true};
        status = ig_tokenize(ids, s->tokenizer, p->prompt, p->n_prompt, &how, &err);
    } else {
        return false;
    }
    if (status != IG_OK)
        ig__reply_status(x, status, &err, "prompt");
    return status == IG_OK;
}

static void reply_too_long(const ig_server *s, ig__exchange *x, int64_t n,
                           const char *field)
{
    ig__buffer b = ig__buffer_init(s->a);
    ig__buffer_printf(
        &b,
        "{\"error\":{\"message\":\"the prompt has %lld tokens, the context holds %lld\","
        "\"type\":\"invalid_request_error\",\"param\":\"%s\","
        "\"code\":\"context_length_exceeded\",\"n_prompt_tokens\":%lld,\"n_ctx\":%lld}}\n",
        (long long)n, (long long)s->context, field, (long long)n, (long long)s->context);
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
        ig__reply_status(x, status, err, NULL);
    }
}

/* ---- the start of a stream ---- */

static void write_event(ig__job *job, const ig__piece *piece)
{
    if (!job->x)
        return;
    ig__buffer b = ig__buffer_init(job->server->a);
    ig__buffer_append_text(&b, "data: ");
    job->form->write_piece(&b, job, piece);
    ig__buffer_append_text(&b, "\n\n");
    if (b.failed)
        job->x->out.failed = true; /* the transport ends the connection */
    else
        ig__http_write(job->x, b.data, b.n);
    ig__buffer_fini(&b);
}

static void begin_stream(ig__job *job)
{
    ig__http_begin(job->x, 200, "text/event-stream");
    for (int64_t i = 0; i < job->n && job->form == &ig__chat_form; i++)
        write_event(job, &(ig__piece){.i_sample = i, .content = "", .role = true});
}

static void start_job(ig_server *s, ig__exchange *x, ig__endpoint endpoint,
                      const ig__params *p, ig_ids *ids)
{
    const char *field = endpoint == IG_CHAT ? "messages" : "prompt";
    if (ids->n == 0) {
        ig__reply_error(x, 400, "invalid_request_error", NULL, field, "%s is empty", field);
        return;
    }
    ig__job *job =
        make_job(s, x, endpoint == IG_CHAT ? &ig__chat_form : &ig__completion_form, p);
    if (!job) {
        ig__reply_error(x, 500, "server_error", NULL, NULL, "out of memory");
        return;
    }
    job->max_tokens = ig__params_max_tokens(p, endpoint);
    job->n_prompt = ids->n;
    ig_error err;
    const ig_status status = submit(job, p, ids, &err);
    if (status != IG_OK) {
        destroy_job(job);
        reply_refused(s, x, status, &err, ids, field);
        return;
    }
    x->user = job;
    if (p->return_ids) {
        job->prompt = *ids;
        *ids = (ig_ids){0};
    }
    ig__http_set_header(x, "X-Request-Id", job->id);
    if (job->stream)
        begin_stream(job);
}

static void serve(ig_server *s, ig__exchange *x, ig__endpoint endpoint)
{
    ig__json *root;
    ig__bad bad;
    if (!ig__request_parse(&root, x->body.data ? x->body.data : "", x->body.n, &bad)) {
        ig__reply_bad(x, &bad);
        return;
    }
    ig__params p;
    ig_ids ids = {0};
    if (!ig__params_read(&p, s->a, root, endpoint, s->vocab, &bad))
        ig__reply_bad(x, &bad);
    else if (endpoint == IG_CHAT ? encode_chat(&ids, s, x, &p)
                                 : encode_prompt(&ids, s, x, &p))
        start_job(s, x, endpoint, &p, &ids);
    ig_ids_free(s->tokenizer, &ids);
    ig__params_fini(&p);
    ig__json_destroy(root);
    if (!s->opts.log_prompts) { /* the log line is written at the end, and shows it then */
        ig__buffer_fini(&x->body);
        x->body = ig__buffer_init(s->a);
    }
}

void ig__serve_chat(ig_server *s, ig__exchange *x)
{
    serve(s, x, IG_CHAT);
}

void ig__serve_completion(ig_server *s, ig__exchange *x)
{
    serve(s, x, IG_COMPLETION);
}

/* ---- events, on HTTP's thread ---- */

static void note_token(ig__job *job, ig__sample *sample, const event *e, const char *tops)
{
    if (e->id < 0)
        return;
    if (job->return_ids)
        ig__buffer_append(&sample->ids, (const char *)&e->id, sizeof e->id);
    /* the end token is no part of the text, and has no place among its log-probabilities */
    if (job->n_logprobs < 0 || ig_token_is_end(job->server->tokenizer, e->id))
        return;
    sample->n_drawn +=
        (int64_t)ig_token_bytes(job->server->tokenizer, e->id, false, NULL, 0);
    const int64_t n_top = e->n_top < job->n_logprobs ? e->n_top : job->n_logprobs;
    const ig__note note = {
        .id = e->id, .logprob = e->logprob, .end = sample->n_drawn, .n_top = n_top};
    static const ig_logprob none[IG_LOGPROBS_MAX];
    ig__buffer_append(&sample->notes, (const char *)&note, sizeof note);
    ig__buffer_append(&sample->notes, tops, (size_t)n_top * sizeof(ig_logprob));
    ig__buffer_append(&sample->notes, (const char *)none,
                      (size_t)(job->n_logprobs - n_top) * sizeof(ig_logprob));
}

/* How many notes are to be told: those of tokens that are shown, and at the end of an answer
 * that no stop string cut all of them. */
static size_t notes_due(const ig__job *job, const ig__sample *s)
{
    const size_t n = ig__n_notes(job, s);
    size_t i = s->n_told;
    while (i < n && (ig__note_at(job, s, i)->end <= s->n_shown ||
                     (s->finished && s->finish != IG_FINISH_STOP)))
        i++;
    return i - s->n_told;
}

static void time_token(ig__job *job, ig__sample *sample, const event *e)
{
    ig__metrics *m = &job->server->metrics;
    if (e->id < 0)
        return;
    if (job->ttft_ns == 0) {
        job->ttft_ns = e->now_ns - job->start_ns;
        ig__metrics_observe(m, IG_HISTOGRAM_first_token, (double)job->ttft_ns / 1e9);
    }
    if (sample->first_ns == 0)
        sample->first_ns = e->now_ns;
    else
        ig__metrics_observe(m, IG_HISTOGRAM_inter_token,
                            (double)(e->now_ns - sample->last_ns) / 1e9);
    sample->last_ns = e->now_ns;
}

typedef struct split_text {
    ig__buffer *content, *reasoning;
} split_text;

static void take_split(void *user, bool reasoning, const char *bytes, size_t n)
{
    const split_text *to = user;
    ig__buffer_append(reasoning ? to->reasoning : to->content, bytes, n);
}

/* Add the event's text to the sample's. */
static void add_text(ig__sample *sample, const char *text, size_t n)
{
    split_text to = {&sample->content, &sample->reasoning};
    sample->n_shown += (int64_t)n;
    ig__reasoning_push(&sample->split, text, n, take_split, &to);
    if (sample->finished)
        ig__reasoning_flush(&sample->split, take_split, &to);
}

/* What was added is one chunk, unless there is nothing to say. */
static void stream_piece(ig__job *job, int64_t i_sample)
{
    ig__sample *s = &job->samples[i_sample];
    const bool told = s->content.n > 0 || s->reasoning.n > 0;
    ig__piece piece = {.i_sample = i_sample,
                       .content = s->content.data ? s->content.data : "",
                       .n_content = s->content.n,
                       .reasoning = s->reasoning.data ? s->reasoning.data : "",
                       .n_reasoning = s->reasoning.n,
                       .first_note = s->n_told,
                       .n_notes = notes_due(job, s)};
    if (told || piece.n_notes > 0)
        write_event(job, &piece);
    s->n_told += piece.n_notes;
    s->content.n = s->reasoning.n = 0;
    if (s->finished)
        write_event(job, &(ig__piece){.i_sample = i_sample,
                                      .content = "",
                                      .first_note = s->n_told,
                                      .finish = ig_finish_name(s->finish)});
}

static void take_event(ig__job *job, const event *e)
{
    ig__sample *sample = &job->samples[e->i_sample];
    const char *text = (const char *)(e + 1), *tops = text + (e->n_text + 7) / 8 * 8;
    job->n_cached = e->n_cached;
    job->queue_ns = e->queue_ns;
    job->n_generated += e->n_generated - sample->n_generated;
    sample->n_generated = e->n_generated;
    sample->finished = e->finished;
    sample->finish = e->finish;
    time_token(job, sample, e);
    note_token(job, sample, e, tops);
    if (!job->x)
        return;
    add_text(sample, text, e->n_text);
    const bool ends = e->finish == IG_FINISH_STOP || e->finish == IG_FINISH_LENGTH;
    if (job->stream && (!e->finished || ends))
        stream_piece(job, e->i_sample);
    else
        sample->n_told += notes_due(job, sample);
    if (sample->content.failed || sample->reasoning.failed || sample->notes.failed ||
        sample->ids.failed) {
        job->failed = true;
        (void)ig__fail_memory(&job->error, "serve", sample->content.n);
        ig_request_cancel(job->request);
    }
}

/* ---- the end ---- */

static ig__outcome outcome_of(const ig__job *job, const ig__sample *s)
{
    if (job->failed)
        return IG_OUTCOME_ERROR;
    switch (s->finish) {
    case IG_FINISH_STOP:
        return IG_OUTCOME_STOP;
    case IG_FINISH_LENGTH:
        return IG_OUTCOME_LENGTH;
    case IG_FINISH_CANCELLED:
        return IG_OUTCOME_ABORT;
    default:
        return IG_OUTCOME_ERROR;
    }
}

static void count_job(ig__job *job)
{
    ig__metrics *m = &job->server->metrics;
    const double now = (double)ig__now_ns(), start = (double)job->start_ns;
    m->n_prompt_tokens += job->n_prompt;
    m->n_cached_tokens += job->n_cached;
    m->n_generated_tokens += job->n_generated;
    m->n_cancelled += job->cancelled;
    for (int64_t i = 0; i < job->n; i++) {
        const ig__sample *s = &job->samples[i];
        m->n_outcomes[outcome_of(job, s)]++;
        const double decode = (double)(s->last_ns - s->first_ns) / 1e9;
        if (s->first_ns > 0)
            ig__metrics_observe(m, IG_HISTOGRAM_decode, decode);
        if (s->n_generated > 1)
            ig__metrics_observe(m, IG_HISTOGRAM_per_token,
                                decode / (double)(s->n_generated - 1));
    }
    ig__metrics_observe(m, IG_HISTOGRAM_whole, (now - start) / 1e9);
    ig__metrics_observe(m, IG_HISTOGRAM_queue, (double)job->queue_ns / 1e9);
    if (job->ttft_ns > 0)
        ig__metrics_observe(m, IG_HISTOGRAM_prefill,
                            (double)(job->ttft_ns - job->queue_ns) / 1e9);
    ig__metrics_observe(m, IG_HISTOGRAM_n_prompt, (double)job->n_prompt);
    ig__metrics_observe(m, IG_HISTOGRAM_n_generated, (double)job->n_generated);
    ig__metrics_observe(m, IG_HISTOGRAM_n_samples, (double)job->n);
    if (job->max_tokens >= 0)
        ig__metrics_observe(m, IG_HISTOGRAM_max_tokens, (double)job->max_tokens);
}

static void write_failure(ig__buffer *b, const ig__job *job)
{
    const char *message = job->failed ? job->error.message : "the server is stopping";
    ig__buffer_append_text(b, "{\"error\":{\"message\":");
    ig__json_write_text(b, message);
    ig__buffer_append_text(b, ",\"type\":\"server_error\",\"param\":null,\"code\":null}}");
}

static void end_stream(ig__job *job, bool failed)
{
    ig__buffer b = ig__buffer_init(job->server->a);
    if (failed) {
        ig__buffer_append_text(&b, "data: ");
        write_failure(&b, job);
        ig__buffer_append_text(&b, "\n\n");
    } else if (job->include_usage) {
        ig__buffer_append_text(&b, "data: ");
        ig__buffer_append(&b, job->head.data, job->head.n);
        ig__buffer_append_text(&b, "\"choices\":[],");
        ig__write_usage(&b, job);
        ig__buffer_append_text(&b, "}\n\n");
    }
    ig__buffer_append_text(&b, "data: [DONE]\n\n");
    if (b.failed)
        job->x->out.failed = true;
    else
        ig__http_write(job->x, b.data, b.n);
    ig__buffer_fini(&b);
    ig__http_end(job->x);
}

static void end_whole(ig__job *job, bool failed)
{
    ig__buffer b = ig__buffer_init(job->server->a);
    if (failed) {
        write_failure(&b, job);
    } else {
        ig__buffer_append(&b, job->head.data, job->head.n);
        ig__buffer_append_text(&b, "\"choices\":[");
        for (int64_t i = 0; i < job->n; i++) {
            if (i > 0)
                ig__buffer_append_char(&b, ',');
            job->form->write_choice(&b, job, i);
        }
        ig__buffer_append_text(&b, "],");
        ig__write_usage(&b, job);
        if (job->return_ids) {
            ig__buffer_append_text(&b, ",\"prompt_token_ids\":");
            ig__json_write_ids(&b, job->prompt.ids, job->prompt.n);
        }
        ig__buffer_append_char(&b, '}');
    }
    ig__buffer_append_char(&b, '\n');
    ig__reply_json(job->x, !failed ? 200 : job->failed ? 500 : 503, &b);
}

static void end_job(ig__job *job)
{
    job->done = true;
    bool failed = job->failed;
    for (int64_t i = 0; i < job->n; i++)
        failed |= !job->samples[i].finished ||
                  job->samples[i].finish == IG_FINISH_CANCELLED ||
                  job->samples[i].finish == IG_FINISH_ERROR;
    count_job(job);
    if (!job->x) {
        ig__log_request(job->server, NULL, job, job->whole);
        destroy_job(job);
        return;
    }
    if (job->stream)
        end_stream(job, failed);
    else
        end_whole(job, failed);
}

static void take_events(ig__job *job, ig__buffer *events, bool last, bool lost)
{
    for (size_t i = 0; i < events->n;) {
        const event *e = (const event *)(const void *)(events->data + i);
        take_event(job, e);
        i += e->n_bytes;
    }
    if (lost && !job->failed) {
        job->failed = true;
        (void)ig__fail_memory(&job->error, "serve", events->n);
        ig_request_cancel(job->request);
    }
    if (last)
        end_job(job);
}

void ig__jobs_take_events(ig_server *s)
{
    pthread_mutex_lock(&s->lock);
    ig__job *job = s->ready_jobs;
    s->ready_jobs = NULL;
    pthread_mutex_unlock(&s->lock);
    while (job) {
        pthread_mutex_lock(&s->lock);
        ig__job *next = job->next_ready;
        ig__buffer events = job->events;
        const bool last = job->last, lost = job->lost;
        if (job->engine_error.status != IG_OK && !job->failed) {
            job->failed = true;
            job->error = job->engine_error;
        }
        job->events = ig__buffer_init(s->a);
        job->is_ready = false;
        pthread_mutex_unlock(&s->lock);
        take_events(job, &events, last, lost);
        ig__buffer_fini(&events);
        job = next;
    }
}

/* ---- the exchange ---- */

void ig__job_probe(ig_server *s, ig__exchange *x)
{
    (void)s;
    const ig__job *job = x->user;
    if (!job)
        return;
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
    if (!job) {
        ig__log_request(s, x, NULL, whole);
        return;
    }
    if (job->done) {
        ig__log_request(s, x, job, whole);
        destroy_job(job);
        return;
    }
    copy(job->method, sizeof job->method, x->method);
    copy(job->path, sizeof job->path, x->path);
    copy(job->peer, sizeof job->peer, x->peer);
    job->status = x->status;
    job->whole = whole;
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
        destroy_job(s->jobs);
}
