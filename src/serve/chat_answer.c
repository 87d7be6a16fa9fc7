/* chat.completion and chat.completion.chunk, and what both endpoints write alike. */
#include "serve/job.h"

#include "serve/json_write.h"

#include <math.h>

/* ---- for both endpoints ---- */

void ig__write_usage(ig__buffer *b, const ig__job *job)
{
    ig__buffer_printf(
        b,
        "\"usage\":{\"prompt_tokens\":%lld,\"completion_tokens\":%lld,"
        "\"total_tokens\":%lld,\"prompt_tokens_details\":{\"cached_tokens\":%lld}}",
        (long long)job->n_prompt, (long long)job->n_generated,
        (long long)(job->n_prompt + job->n_generated), (long long)job->n_cached);
}

void ig__write_logprob(ig__buffer *b, float logprob)
{
    ig__json_write_real(b, isfinite(logprob) ? (double)logprob : -9999.0);
}

/* "token":"..","logprob":..,"bytes":[..] */
static void write_token(ig__buffer *b, const ig_tokenizer *tokenizer, int32_t id,
                        float logprob)
{
    char small[256];
    char *bytes = small;
    size_t n = ig_token_bytes(tokenizer, id, true, small, sizeof small);
    if (n > sizeof small) {
        bytes = ig__alloc(b->a, n);
        if (!bytes) {
            b->failed = true;
            return;
        }
        n = ig_token_bytes(tokenizer, id, true, bytes, n);
    }
    ig__buffer_append_text(b, "\"token\":");
    ig__json_write_string(b, bytes, n);
    ig__buffer_append_text(b, ",\"logprob\":");
    ig__write_logprob(b, logprob);
    ig__buffer_append_text(b, ",\"bytes\":");
    ig__json_write_bytes(b, bytes, n);
    if (bytes != small)
        ig__free(b->a, bytes);
}

void ig__write_logprobs(ig__buffer *b, const ig__job *job, int64_t i_sample, size_t first,
                        size_t n)
{
    const ig_tokenizer *tokenizer = job->server->tokenizer;
    for (size_t i = first; i < first + n; i++) {
        const ig__note *note = ig__note_at(job, &job->samples[i_sample], i);
        const ig_logprob *top = ig__note_top(note);
        ig__buffer_append_text(b, i > first ? ",{" : "{");
        write_token(b, tokenizer, note->id, note->logprob);
        ig__buffer_append_text(b, ",\"top_logprobs\":[");
        for (int64_t j = 0; j < note->n_top; j++) {
            ig__buffer_append_text(b, j > 0 ? ",{" : "{");
            write_token(b, tokenizer, top[j].id, top[j].logprob);
            ig__buffer_append_char(b, '}');
        }
        ig__buffer_append_text(b, "]}");
    }
}

/* ---- chat ---- */

static void write_logprobs(ig__buffer *b, const ig__job *job, int64_t i_sample,
                           size_t first, size_t n)
{
    if (job->n_logprobs < 0) {
        ig__buffer_append_text(b, ",\"logprobs\":null");
        return;
    }
    ig__buffer_append_text(b, ",\"logprobs\":{\"content\":[");
    ig__write_logprobs(b, job, i_sample, first, n);
    ig__buffer_append_text(b, "],\"refusal\":null}");
}

static void write_delta(ig__buffer *b, const ig__piece *piece)
{
    const char *comma = "";
    if (piece->role) {
        ig__buffer_append_text(b, "\"role\":\"assistant\",\"content\":\"\"");
        return;
    }
    if (piece->n_reasoning > 0) {
        ig__buffer_append_text(b, "\"reasoning_content\":");
        ig__json_write_string(b, piece->reasoning, piece->n_reasoning);
        comma = ",";
    }
    if (piece->n_content > 0 || (!piece->finish && piece->n_reasoning == 0)) {
        ig__buffer_append_text(b, comma);
        ig__buffer_append_text(b, "\"content\":");
        ig__json_write_string(b, piece->content, piece->n_content);
    }
}

static void write_piece(ig__buffer *b, const ig__job *job, const ig__piece *piece)
{
    ig__buffer_append(b, job->head.data, job->head.n);
    ig__buffer_append_text(b, "\"choices\":[{\"index\":");
    ig__json_write_int(b, piece->i_sample);
    ig__buffer_append_text(b, ",\"delta\":{");
    write_delta(b, piece);
    ig__buffer_append_char(b, '}');
    if (piece->n_notes > 0)
        write_logprobs(b, job, piece->i_sample, piece->first_note, piece->n_notes);
    else
        ig__buffer_append_text(b, ",\"logprobs\":null");
    ig__buffer_append_text(b, ",\"finish_reason\":");
    ig__json_write_text(b, piece->finish);
    ig__buffer_append_text(b, job->include_usage ? "}],\"usage\":null}" : "}]}");
}

static void write_choice(ig__buffer *b, const ig__job *job, int64_t i_sample)
{
    const ig__sample *s = &job->samples[i_sample];
    ig__buffer_append_text(b, "{\"index\":");
    ig__json_write_int(b, i_sample);
    ig__buffer_append_text(b, ",\"message\":{\"role\":\"assistant\",\"content\":");
    ig__json_write_string(b, s->content.data ? s->content.data : "", s->content.n);
    if (s->reasoning.n > 0) {
        ig__buffer_append_text(b, ",\"reasoning_content\":");
        ig__json_write_string(b, s->reasoning.data, s->reasoning.n);
    }
    ig__buffer_append_text(b, ",\"refusal\":null}");
    write_logprobs(b, job, i_sample, 0, s->n_told);
    if (job->return_ids) {
        ig__buffer_append_text(b, ",\"token_ids\":");
        ig__json_write_ids(b, (const int32_t *)(const void *)s->ids.data,
                           (int64_t)(s->ids.n / sizeof(int32_t)));
    }
    ig__buffer_append_text(b, ",\"finish_reason\":");
    ig__json_write_text(b, ig_finish_name(s->finish));
    ig__buffer_append_char(b, '}');
}

const ig__form ig__chat_form = {.id_prefix = "chatcmpl-",
                                .object = "chat.completion",
                                .chunk_object = "chat.completion.chunk",
                                .write_piece = write_piece,
                                .write_choice = write_choice};
