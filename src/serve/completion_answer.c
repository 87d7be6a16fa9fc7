/* text_completion, whole and in pieces.
 *
 * Log-probabilities come in the four lists that OpenAI has for this endpoint, and under
 * `content` as a chat has them, with each token's bytes.
 */
#include "serve/job.h"

#include "serve/json_write.h"

static void write_token_text(ig__buffer *b, const ig__job *job, int32_t id)
{
    char bytes[256];
    const size_t n = ig_token_bytes(job->server->tokenizer, id, true, bytes, sizeof bytes);
    ig__json_write_string(b, bytes, n < sizeof bytes ? n : sizeof bytes);
}

static void write_tops(ig__buffer *b, const ig__job *job, const ig__note *note)
{
    const ig_logprob *top = ig__note_top(note);
    ig__buffer_append_char(b, '{');
    for (int64_t i = 0; i < note->n_top; i++) {
        if (i > 0)
            ig__buffer_append_char(b, ',');
        write_token_text(b, job, top[i].id);
        ig__buffer_append_char(b, ':');
        ig__write_logprob(b, top[i].logprob);
    }
    ig__buffer_append_char(b, '}');
}

/* One list over the notes: what `which` says of each. */
enum { TEXTS, LOGPROBS, TOPS, OFFSETS };
static void write_list(ig__buffer *b, const ig__job *job, int64_t i_sample, size_t first,
                       size_t n, int which)
{
    const ig__sample *s = &job->samples[i_sample];
    ig__buffer_append_char(b, '[');
    for (size_t i = first; i < first + n; i++) {
        const ig__note *note = ig__note_at(job, s, i);
        if (i > first)
            ig__buffer_append_char(b, ',');
        if (which == TEXTS)
            write_token_text(b, job, note->id);
        else if (which == LOGPROBS)
            ig__write_logprob(b, note->logprob);
        else if (which == TOPS)
            write_tops(b, job, note);
        else
            ig__json_write_int(b, note->offset);
    }
    ig__buffer_append_char(b, ']');
}

static void write_logprobs(ig__buffer *b, const ig__job *job, int64_t i_sample,
                           size_t first, size_t n)
{
    static const char *const names[] = {
        "\"tokens\":", ",\"token_logprobs\":", ",\"top_logprobs\":", ",\"text_offset\":"};
    if (job->n_logprobs < 0) {
        ig__buffer_append_text(b, ",\"logprobs\":null");
        return;
    }
    ig__buffer_append_text(b, ",\"logprobs\":{");
    for (int which = TEXTS; which <= OFFSETS; which++) {
        ig__buffer_append_text(b, names[which]);
        write_list(b, job, i_sample, first, n, which);
    }
    ig__buffer_append_text(b, ",\"content\":[");
    ig__write_logprobs(b, job, i_sample, first, n);
    ig__buffer_append_text(b, "]}");
}

static void write_piece(ig__buffer *b, const ig__job *job, const ig__piece *piece)
{
    ig__buffer_append(b, job->head.data, job->head.n);
    ig__buffer_append_text(b, "\"choices\":[{\"index\":");
    ig__json_write_int(b, piece->i_sample);
    ig__buffer_append_text(b, ",\"text\":");
    ig__json_write_string(b, piece->content, piece->n_content);
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
    ig__buffer_append_text(b, ",\"text\":");
    ig__json_write_string(b, s->content.data ? s->content.data : "", s->content.n);
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

const ig__form ig__completion_form = {.id_prefix = "cmpl-",
                                      .object = "text_completion",
                                      .chunk_object = "text_completion",
                                      .write_piece = write_piece,
                                      .write_choice = write_choice};
