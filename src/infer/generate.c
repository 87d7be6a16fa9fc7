/* The loop from prompt to answer: step, draw, show, stop.
 *
 *     prompt --pieces of max_tokens rows--> logits of the last row
 *     logits --sampler--> id --answer--> text that is final --> on_token
 *         end token, stop string, limit, context full, cancelled: finish
 *         else step [id] --> logits, and again
 *
 * Which text is final, and what a stop string is, is answer.c's business. Nothing here
 * allocates after the loop has begun, but for tokens of unusual length.
 */
#include "ingot/generate.h"

#include "base/clock.h"
#include "base/error.h"
#include "infer/answer.h"
#include "infer/logits.h"
#include "infer/model_int.h"
#include "tensor/context.h"

#include <string.h>

/* One call of ig_generate. */
typedef struct loop {
    ig_runner *runner;
    ig_sequence *seq;
    ig_sampler *sampler;
    const ig_tokenizer *tokenizer;
    const ig_allocator *a;
    const ig_generate_opts *opts;
    int64_t vocab;
    ig__answer answer;
    ig__buffer bytes; /* of one token */
    ig_logprob *top;  /* [n_top] NULL: n_top is 0 */
    int64_t n_top;
    bool no_calls; /* on_token has cancelled */
    ig_generate_result result;
} loop;

static ig_status check(const ig_runner *runner, const ig_sequence *seq, int64_t n_prompt,
                       const ig_generate_opts *opts, ig_error *err)
{
    const int64_t context = ig_runner_context(runner);
    const int64_t length = ig_sequence_length(seq);
    if (n_prompt < 1)
        return ig__fail(err, IG_ERR_ARGUMENT, "generate: the prompt is empty");
    if (opts->max_tokens < -1)
        return ig__fail(err, IG_ERR_ARGUMENT,
                        "generate: max_tokens is %lld, allowed is -1 (no limit) or more",
                        (long long)opts->max_tokens);
    if (n_prompt > context - length && length > 0)
        return ig__fail(err, IG_ERR_LIMIT,
                        "generate: the prompt has %lld tokens after %lld, the context "
                        "holds %lld",
                        (long long)n_prompt, (long long)length, (long long)context);
    if (n_prompt > context)
        return ig__fail(err, IG_ERR_LIMIT,
                        "generate: the prompt has %lld tokens, the context holds %lld",
                        (long long)n_prompt, (long long)context);
    if (n_prompt + length == context && opts->max_tokens != 0)
        return ig__fail(err, IG_ERR_LIMIT,
                        "generate: the prompt fills the context of %lld tokens, nothing is "
                        "left for an answer",
                        (long long)context);
    return IG_OK;
}

static bool is_cancelled(const loop *l)
{
    return l->opts->cancelled && *l->opts->cancelled;
}

/* Feed tokens; the last row's logits if wanted. */
static ig_status step(loop *l, const int32_t *tokens, int64_t n, bool logits, ig_error *err)
{
    const ig_step_part part = {
        .seq = l->seq, .tokens = tokens, .n_tokens = n, .n_logits = logits ? 1 : 0};
    return ig_runner_step(l->runner, &part, 1, l->opts->cancelled, err);
}

static ig_status step_prompt(loop *l, const int32_t *prompt, int64_t n, ig_error *err)
{
    const int64_t most = ig_runner_max_tokens(l->runner);
    while (l->result.n_prompt < n) {
        if (is_cancelled(l))
            return IG_ERR_CANCELLED;
        const int64_t left = n - l->result.n_prompt;
        const int64_t piece = left < most ? left : most;
        const bool last = piece == left;
        IG_TRY(step(l, prompt + l->result.n_prompt, piece, last && l->opts->max_tokens != 0,
                    err));
        l->result.n_prompt += piece;
    }
    return IG_OK;
}

/* The token's bytes, into l->bytes. */
static ig_status read_token(loop *l, int32_t id, ig_error *err)
{
    ig__buffer *b = &l->bytes;
    b->n = 0;
    size_t n = ig_token_bytes(l->tokenizer, id, false, b->data, b->cap);
    if (n > b->cap) {
        if (!ig__buffer_reserve(b, n))
            return ig__fail_memory(err, "generate", n);
        n = ig_token_bytes(l->tokenizer, id, false, b->data, b->cap);
    }
    b->n = n;
    return IG_OK;
}

/* Hand the answer's final text to the callback; false: it wants no more. */
static bool show(loop *l, ig_generated *token)
{
    if (!l->opts->on_token || l->no_calls)
        return true;
    token->text = l->answer.n_final > 0 ? l->answer.text.data : "";
    token->n_text = l->answer.n_final;
    l->no_calls = !l->opts->on_token(l->opts->user, token);
    return !l->no_calls;
}

static void fill_logprobs(loop *l, ig_generated *token, const float *logits)
{
    if (l->opts->n_logprobs < 0 || !l->opts->on_token)
        return;
    const double log_sum = ig__logits_log_sum(logits, l->vocab);
    token->logprob = ig__logit_logprob(logits[token->id], log_sum);
    token->n_top = ig__logits_top(l->top, l->n_top, logits, l->vocab);
    token->top = l->top;
    for (int64_t i = 0; i < token->n_top; i++)
        l->top[i].logprob = ig__logit_logprob(l->top[i].logprob, log_sum);
}

/* Is there room for `n_generated` tokens and one more after the prompt? The last is never
 * fed, but counts. */
static bool has_room(const loop *l)
{
    if (l->opts->max_tokens >= 0 && l->result.n_generated >= l->opts->max_tokens)
        return false;
    return ig_sequence_length(l->seq) + 1 < ig_runner_context(l->runner);
}

/* Draw one token from the last step's logits and show it. *more_out: no reason to stop. */
static ig_status draw(bool *more_out, int32_t *id_out, loop *l, ig_error *err)
{
    *more_out = false;
    const float *logits = ig_runner_logits(l->runner, 0);
    IG_TRY(ig_sampler_draw(id_out, l->sampler, logits, err));
    IG_TRY(ig_sampler_accept(l->sampler, id_out, 1, err));
    l->result.n_generated++;
    ig_generated token = {.id = *id_out};
    fill_logprobs(l, &token, logits);
    const bool end = !l->opts->ignore_end && ig_token_is_end(l->tokenizer, *id_out);
    l->bytes.n = 0;
    if (!end)
        IG_TRY(read_token(l, *id_out, err));
    IG_TRY(ig__answer_push(&l->answer, l->bytes.data, l->bytes.n, err));
    const bool go_on = show(l, &token);
    if (end || l->answer.stopped)
        l->result.finish = IG_FINISH_STOP;
    else if (!go_on || is_cancelled(l))
        l->result.finish = IG_FINISH_CANCELLED;
    else if (!has_room(l))
        l->result.finish = IG_FINISH_LENGTH;
    else
        *more_out = true;
    return IG_OK;
}

static ig_status run(loop *l, const int32_t *prompt, int64_t n_prompt, ig_error *err)
{
    const int64_t begin_ns = ig__now_ns();
    IG_TRY(ig_sampler_accept(l->sampler, prompt, n_prompt, err));
    IG_TRY(step_prompt(l, prompt, n_prompt, err));
    const int64_t prompt_end_ns = ig__now_ns();
    l->result.prompt_ns = prompt_end_ns - begin_ns;
    if (l->opts->max_tokens == 0) {
        l->result.finish = IG_FINISH_LENGTH;
        return IG_OK;
    }
    int64_t first_ns = 0;
    for (;;) {
        bool more;
        int32_t id;
        IG_TRY(draw(&more, &id, l, err));
        const int64_t now_ns = ig__now_ns();
        if (l->result.n_generated == 1) {
            first_ns = now_ns;
            l->result.prompt_ns = now_ns - begin_ns;
        }
        l->result.decode_ns = now_ns - first_ns;
        if (!more)
            return IG_OK;
        IG_TRY(step(l, &id, 1, true, err));
    }
}

/* Text that waited for a token that will not come. */
static ig_status show_rest(loop *l, ig_error *err)
{
    IG_TRY(ig__answer_flush(&l->answer, err));
    ig_generated rest = {.id = -1};
    if (l->answer.n_final > 0)
        show(l, &rest);
    return IG_OK;
}

static ig_status make_scratch(loop *l, ig_error *err)
{
    IG_TRY(ig__answer_init(&l->answer, l->a, l->opts->stop, l->opts->n_stop, err));
    if (!ig__buffer_reserve(&l->bytes, 64) || !ig__buffer_reserve(&l->answer.text, 256))
        return ig__fail_memory(err, "generate", 256);
    if (l->opts->n_logprobs > 0 && l->opts->on_token) {
        l->n_top = l->opts->n_logprobs < l->vocab ? l->opts->n_logprobs : l->vocab;
        l->top = ig__alloc(l->a, (size_t)l->n_top * sizeof *l->top);
        if (!l->top)
            return ig__fail_memory(err, "generate", (size_t)l->n_top * sizeof *l->top);
    }
    return IG_OK;
}

const char *ig_finish_name(ig_finish finish)
{
    switch (finish) {
    case IG_FINISH_STOP:
        return "stop";
    case IG_FINISH_LENGTH:
        return "length";
    case IG_FINISH_CANCELLED:
        return "cancelled";
    case IG_FINISH_DEADLINE:
        return "deadline";
    case IG_FINISH_ERROR:
        return "error";
    }
    return "?";
}

ig_status ig_generate(ig_generate_result *result_out, ig_runner *runner, ig_sequence *seq,
                      ig_sampler *sampler, const int32_t *prompt, int64_t n_prompt,
                      const ig_generate_opts *opts, ig_error *err)
{
    if (result_out)
        *result_out = (ig_generate_result){0};
    const ig_generate_opts defaults = {.max_tokens = -1, .n_logprobs = -1};
    if (!opts)
        opts = &defaults;
    IG_TRY(check(runner, seq, n_prompt, opts, err));
    const ig_model *model = runner->model;
    const ig_allocator *a = &model->ctx->allocator;
    const int64_t length = ig_sequence_length(seq);
    loop l = {.runner = runner,
              .seq = seq,
              .sampler = sampler,
              .tokenizer = model->tokenizer,
              .a = a,
              .opts = opts,
              .vocab = model->info.vocab,
              .answer = {.a = a},
              .bytes = ig__buffer_init(a)};
    ig_status status = make_scratch(&l, err);
    if (status == IG_OK)
        status = run(&l, prompt, n_prompt, err);
    if (status == IG_ERR_CANCELLED) { /* a step that saw the flag, or we did before it */
        l.result.finish = IG_FINISH_CANCELLED;
        status = IG_OK;
    }
    if (status == IG_OK)
        status = show_rest(&l, err);
    if (status != IG_OK)
        ig_sequence_cut(seq, length);
    else if (result_out)
        *result_out = l.result;
    ig__answer_fini(&l.answer);
    ig__buffer_fini(&l.bytes);
    ig__free(a, l.top);
    return status;
}
