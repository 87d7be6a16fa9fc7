/* A job's events: across the threads, into its samples, onto the exchange; and its end.
 *
 *     stepping thread:  ig__job_on_event -> job->events (lock) -> server->ready_jobs
 *     HTTP's thread:    woken -> take the events of ready jobs (lock) -> samples -> exchange
 *
 * A token costs HTTP's thread one chunk of text; the stepping thread one copy under a lock
 * that is held for as long as a copy takes.
 */
#include "serve/job.h"

#include "base/clock.h"
#include "base/error.h"
#include "serve/json_write.h"

#include <string.h>

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

void ig__job_on_event(const ig_request_event *e)
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

/* ---- HTTP's thread: a sample's text ---- */

void ig__job_write_piece(ig__job *job, const ig__piece *piece)
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

/* Count a token's bytes, and the characters that begin in it. */
static void count_drawn(ig__sample *sample, const ig_tokenizer *tokenizer, int32_t id)
{
    char bytes[256];
    const size_t n = ig_token_bytes(tokenizer, id, false, bytes, sizeof bytes);
    sample->n_drawn += (int64_t)n;
    for (size_t i = 0; i < n && i < sizeof bytes; i++)
        sample->n_characters += (bytes[i] & 0xc0) != 0x80;
}

static void note_token(ig__job *job, ig__sample *sample, const event *e, const char *tops)
{
    if (e->id < 0)
        return;
    if (job->return_ids)
        ig__buffer_append(&sample->ids, (const char *)&e->id, sizeof e->id);
    /* the end token is no part of the text, and has no place among its log-probabilities */
    if (job->n_logprobs < 0 || ig_token_is_end(job->server->tokenizer, e->id))
        return;
    const int64_t offset = sample->n_characters;
    count_drawn(sample, job->server->tokenizer, e->id);
    const int64_t n_top = e->n_top < job->n_logprobs ? e->n_top : job->n_logprobs;
    const ig__note note = {.id = e->id,
                           .logprob = e->logprob,
                           .end = sample->n_drawn,
                           .offset = offset,
                           .n_top = n_top};
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
        ig__job_write_piece(job, &piece);
    s->n_told += piece.n_notes;
    s->content.n = s->reasoning.n = 0;
    if (s->finished)
        ig__job_write_piece(job, &(ig__piece){.i_sample = i_sample,
                                              .content = "",
                                              .first_note = s->n_told,
                                              .finish = ig_finish_name(s->finish)});
}

static void take_event(ig__job *job, const event *e)
{
    ig__sample *sample = &job->samples[e->i_sample];
    const char *text = (const char *)(e + 1), *tops = text + (e->n_text + 7) / 8 * 8;
    job->n_cached = e->n_cached;
    job->queue_ns = job->read_ns + e->queue_ns;
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
    if (job->ttft_ns == 0 && job->cancelled)
        return; /* its times would tell of clients, not of this server */
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
        ig__job_destroy(job);
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
