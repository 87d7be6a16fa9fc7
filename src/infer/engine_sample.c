/* One answer of a request, from its first start to its last event: what ig_generate does in
 * its loop, a token at a time.
 */
#include "infer/engine_int.h"

#include "base/clock.h"
#include "base/error.h"
#include "infer/logits.h"
#include "infer/sampler_int.h"

/* Draws at most: what max_tokens and the context leave. */
static int64_t most_tokens(const ig_request *r)
{
    const int64_t room = r->engine->opts.context - r->opts.n_prompt;
    return r->opts.max_tokens >= 0 && r->opts.max_tokens < room ? r->opts.max_tokens : room;
}

ig_status ig__sample_begin(ig__sample *s, ig_error *err)
{
    const ig_request *r = s->request;
    const ig_model *model = r->engine->model;
    IG_TRY(ig__answer_init(&s->answer, &r->a, r->opts.stop, r->opts.n_stop, err));
    s->begun = true; /* from here on ig__sample_finish frees */
    s->cap = most_tokens(r);
    s->generated = ig__alloc(&r->a, (size_t)s->cap * sizeof *s->generated);
    if (!s->generated || !ig__buffer_reserve(&s->answer.text, 256))
        return ig__fail_memory(err, "request", (size_t)s->cap * sizeof *s->generated);
    IG_TRY(ig_sampler_create(&s->sampler, model->ctx, model->info.vocab, &r->opts.sampler,
                             err));
    ig__sampler_set_stream(s->sampler, (uint64_t)s->index);
    return ig_sampler_accept(s->sampler, r->opts.prompt, r->opts.n_prompt, err);
}

static void end(ig__sample *s)
{
    if (!s->begun)
        return;
    ig__answer_fini(&s->answer);
    ig__free(&s->request->a, s->generated);
    ig_sampler_destroy(s->sampler);
    s->generated = NULL;
    s->sampler = NULL;
}

/* ---- events ---- */

static void tell(const ig__sample *s, ig_request_event *event)
{
    ig_request *r = s->request;
    if (!r->opts.on_event)
        return;
    event->request = r;
    event->user = r->opts.user;
    event->i_sample = s->index;
    const bool text = s->begun && s->answer.n_final > 0;
    event->text = text ? s->answer.text.data : "";
    event->n_text = text ? s->answer.n_final : 0;
    event->n_prompt = r->opts.n_prompt;
    event->n_cached = r->n_cached;
    event->n_generated = s->n_generated;
    event->queue_ns = (r->start_ns ? r->start_ns : ig__now_ns()) - r->submit_ns;
    r->opts.on_event(event);
}

static bool shows_logprobs(const ig__sample *s)
{
    return s->request->opts.n_logprobs >= 0 && s->request->opts.on_event;
}

static void fill_logprobs(const ig__sample *s, ig_request_event *event, const float *logits)
{
    ig_request *r = s->request;
    const int64_t vocab = r->engine->model->info.vocab;
    if (!shows_logprobs(s))
        return;
    const double log_sum = s->log_sum;
    event->logprob = ig__logit_logprob(logits[event->id], log_sum);
    event->n_top =
        r->opts.n_logprobs ? ig__logits_top(r->top, r->opts.n_logprobs, logits, vocab) : 0;
    event->top = r->top;
    for (int64_t i = 0; i < event->n_top; i++)
        r->top[i].logprob = ig__logit_logprob(r->top[i].logprob, log_sum);
}

/* ---- a token ---- */

void ig__sample_choose(ig__sample *s, const float *logits)
{
    s->choice = ig_sampler_draw(&s->chosen, s->sampler, logits, NULL);
    if (s->choice == IG_OK && shows_logprobs(s))
        s->log_sum = ig__logits_log_sum(logits, s->request->engine->model->info.vocab);
}

/* Its bytes, into e->bytes. */
static ig_status read_token(ig_engine *e, int32_t id, ig_error *err)
{
    ig__buffer *b = &e->bytes;
    b->n = 0;
    size_t n = ig_token_bytes(e->model->tokenizer, id, false, b->data, b->cap);
    if (n > b->cap) {
        if (!ig__buffer_reserve(b, n)) {
            b->failed = false;
            return ig__fail_memory(err, "request", n);
        }
        n = ig_token_bytes(e->model->tokenizer, id, false, b->data, b->cap);
    }
    b->n = n;
    return IG_OK;
}

/* *end_out: nothing follows, for the reason in *finish_out. */
static ig_status go_on(bool *end_out, ig_finish *finish_out, ig_engine *e, ig__sample *s,
                       const float *logits, ig_error *err)
{
    const ig_request *r = s->request;
    ig_request_event event = {.id = s->chosen};
    if (s->choice != IG_OK) /* once more, for what there is to say */
        IG_TRY(ig_sampler_draw(&event.id, s->sampler, logits, err));
    IG_TRY(ig_sampler_accept(s->sampler, &event.id, 1, err));
    const bool is_end =
        !r->opts.ignore_end && ig_token_is_end(e->model->tokenizer, event.id);
    e->bytes.n = 0;
    if (!is_end)
        IG_TRY(read_token(e, event.id, err));
    IG_TRY(ig__answer_push(&s->answer, e->bytes.data, e->bytes.n, err));
    s->generated[s->n_generated++] = event.id;
    fill_logprobs(s, &event, logits);
    tell(s, &event);
    const bool stopped = is_end || s->answer.stopped;
    *end_out = stopped || s->n_generated == s->cap;
    *finish_out = stopped ? IG_FINISH_STOP : IG_FINISH_LENGTH;
    return IG_OK;
}

void ig__sample_go_on(ig_engine *e, ig__sample *s, const float *logits)
{
    bool end_now = false;
    ig_finish finish = IG_FINISH_STOP;
    ig_error error;
    if (go_on(&end_now, &finish, e, s, logits, &error) != IG_OK)
        ig__sample_finish(e, s, IG_FINISH_ERROR, &error);
    else if (end_now)
        ig__sample_finish(e, s, finish, NULL);
}

static void count_end(ig_engine *e, const ig_request *r, ig_finish finish)
{
    e->stats.n_finished++;
    e->stats.n_cancelled += finish == IG_FINISH_CANCELLED;
    e->stats.n_expired += finish == IG_FINISH_DEADLINE;
    e->stats.n_failed += finish == IG_FINISH_ERROR;
    pthread_mutex_lock(&e->lock);
    if (r->start_ns) {
        const int64_t took = ig__now_ns() - r->start_ns;
        e->residence_ns += e->residence_ns ? (took - e->residence_ns) / 8 : took;
    } else {
        e->n_queued--;
    }
    pthread_mutex_unlock(&e->lock);
}

void ig__sample_finish(ig_engine *e, ig__sample *s, ig_finish finish, const ig_error *error)
{
    ig_request *r = s->request;
    ig_error flush_error;
    ig__engine_remove(e, s);
    s->answer.n_final = s->begun ? s->answer.n_final : 0;
    if (s->begun && ig__answer_flush(&s->answer, &flush_error) != IG_OK) {
        s->answer.n_final = 0;
        finish = IG_FINISH_ERROR;
        error = &flush_error;
    }
    ig_request_event event = {
        .id = -1, .finished = true, .last = --r->n_unfinished == 0, .finish = finish};
    if (finish == IG_FINISH_ERROR)
        event.error = error;
    if (event.last)
        count_end(e, r, finish);
    tell(s, &event);
    end(s);
    if (event.last)
        ig__request_drop(r);
}
