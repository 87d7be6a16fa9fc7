/* Collecting an answer token by token; a write that fails cancels it. */
#include "answer.h"

#include "interrupt.h"

#include <stdlib.h>
#include <string.h>

static bool keep_id(answer *a, int32_t id)
{
    if (a->n_ids == a->cap_ids) {
        const int64_t cap = a->cap_ids * 2 + 256;
        int32_t *ids = realloc(a->ids, (size_t)cap * sizeof *ids);
        if (!ids)
            return false;
        a->ids = ids;
        a->cap_ids = cap;
    }
    a->ids[a->n_ids++] = id;
    return true;
}

static bool keep_text(answer *a, const char *text, size_t n)
{
    if (n > a->cap_text - a->n_text) {
        const size_t cap = a->cap_text * 2 + n + 1024;
        char *grown = realloc(a->text, cap);
        if (!grown)
            return false;
        a->text = grown;
        a->cap_text = cap;
    }
    if (n)
        memcpy(a->text + a->n_text, text, n);
    a->n_text += n;
    return true;
}

static json_t *token_json(const answer *a, int32_t id, float logprob)
{
    char bytes[1024];
    size_t n = ig_token_bytes(a->tokenizer, id, true, bytes, sizeof bytes);
    n = n < sizeof bytes ? n : sizeof bytes;
    return json_pack("{s:i, s:o, s:o}", "id", (int)id, "bytes", report_json_bytes(bytes, n),
                     "logprob", report_json_real((double)logprob));
}

static bool keep_logprob(answer *a, const ig_generated *token)
{
    if (!a->logprobs)
        a->logprobs = json_array();
    json_t *object = token_json(a, token->id, token->logprob);
    json_t *top = json_array();
    bool good = object && top;
    for (int64_t i = 0; good && i < token->n_top; i++)
        good = !json_array_append_new(
            top, token_json(a, token->top[i].id, token->top[i].logprob));
    good = good && !json_object_set(object, "top", top);
    json_decref(top);
    if (!good) {
        json_decref(object);
        return false;
    }
    return !json_array_append_new(a->logprobs, object);
}

static bool on_token(void *user, const ig_generated *token)
{
    answer *a = user;
    bool good = keep_text(a, token->text, token->n_text);
    if (token->id >= 0) {
        good = good && keep_id(a, token->id);
        if (a->n_logprobs >= 0)
            good = good && keep_logprob(a, token);
    }
    if (!good) {
        a->no_memory = true;
        return false;
    }
    if (!a->shown || !token->n_text)
        return true;
    report_write(a->out, token->text, token->n_text);
    return report_flush(a->out);
}

int answer_generate(answer *a, session *s, ig_sampler *sampler, int64_t n_kept)
{
    a->tokenizer = ig_model_tokenizer(s->model);
    const ig_generate_opts opts = {.max_tokens = a->max_tokens,
                                   .ignore_end = a->ignore_end,
                                   .stop = a->stop,
                                   .n_stop = a->n_stop,
                                   .n_logprobs = a->n_logprobs,
                                   .on_token = on_token,
                                   .user = a,
                                   .cancelled = interrupt_flag()};
    ig_error err;
    const ig_status status =
        ig_generate(&a->result, s->runner, s->seq, sampler, a->prompt.ids + n_kept,
                    a->prompt.n - n_kept, &opts, &err);
    if (a->no_memory)
        return report_fail("%s: out of memory", s->verb);
    return status == IG_OK ? EXIT_OK : report_error(s->verb, &err);
}

static double rate(int64_t n, int64_t ns)
{
    return n > 0 && ns > 0 ? (double)n * 1e9 / (double)ns : 0;
}

double answer_prompt_tps(const answer *a)
{
    return rate(a->result.n_prompt, a->result.prompt_ns);
}

double answer_decode_tps(const answer *a)
{
    return rate(a->result.n_generated - 1, a->result.decode_ns);
}

void answer_free(answer *a)
{
    if (a->tokenizer)
        ig_ids_free(a->tokenizer, &a->prompt);
    free(a->ids);
    free(a->text);
    json_decref(a->logprobs);
    *a = (answer){0};
}
