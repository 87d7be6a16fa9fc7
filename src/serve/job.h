/* A completion on its way: between the HTTP exchange that asked for it and the engine.
 *
 * It lives until both are done with it: until the engine's last event was taken, and the
 * exchange is gone. HTTP's thread makes, reads and frees jobs; the stepping thread only
 * appends to `events` under the server's lock.
 */
#ifndef INGOT_SERVE_JOB_H
#define INGOT_SERVE_JOB_H

#include "serve/ask.h"
#include "serve/reasoning.h"

/* A token drawn, kept for log-probabilities. `top` follows in memory: [job->n_logprobs]. */
typedef struct ig__note {
    int32_t id;
    float logprob;
    int64_t
        end; /* bytes drawn up to and with this token: it is told when so many are shown */
    int64_t offset; /* characters drawn before it */
    int64_t n_top;  /* <= job->n_logprobs */
} ig__note;

typedef struct ig__sample {
    ig__buffer content, reasoning; /* of an answer that is not streamed: all of it */
    ig__reasoning split;
    ig__buffer notes;         /* ig__note and tops, of job->note_bytes each */
    ig__buffer ids;           /* int32_t each; if asked for */
    size_t n_told;            /* notes that were told */
    int64_t n_drawn, n_shown; /* bytes */
    int64_t n_characters;     /* drawn */
    int64_t n_generated;
    int64_t first_ns, last_ns; /* of tokens; 0: none yet */
    bool finished;
    ig_finish finish;
} ig__sample;

/* A part of a sample's answer, ready to be written. */
typedef struct ig__piece {
    int64_t i_sample;
    const char *content, *reasoning; /* [n_content], [n_reasoning]; may be "" */
    size_t n_content, n_reasoning;
    size_t first_note, n_notes; /* to be told with it */
    const char *finish;         /* NULL: not finished */
    bool role;                  /* the first of a chat's sample */
} ig__piece;

/* How an endpoint writes its answers. */
typedef struct ig__form {
    const char *id_prefix, *object, *chunk_object;
    void (*write_piece)(ig__buffer *b, const ig__job *job, const ig__piece *piece);
    void (*write_choice)(ig__buffer *b, const ig__job *job, int64_t i_sample);
} ig__form;

extern const ig__form ig__chat_form, ig__completion_form;

struct ig__job {
    ig_server *server;
    ig__job *previous, *next; /* of all of the server's */
    ig__exchange *x;          /* NULL: gone */
    ig_request *request;
    const ig__form *form;
    bool stream, include_usage, return_ids;
    int64_t n_logprobs; /* -1: none */
    size_t note_bytes;
    char id[64];
    ig__buffer head;     /* {"id":..,"object":..,"created":..,"model":.., of every chunk */
    ig_ids prompt;       /* if return_ids */
    ig__sample *samples; /* [n] */
    int64_t n, n_finished;
    int64_t start_ns; /* the request was there */
    int64_t read_ns;  /* from then on until it was understood */
    int64_t n_prompt, n_cached, n_generated, queue_ns, ttft_ns;
    int64_t max_tokens;
    bool done;      /* the last event was taken */
    bool cancelled; /* the client left, or the server stops */
    bool failed;    /* an error of the engine, or no memory: `error` says which */
    ig_error error;

    /* for the log, when the exchange is gone before the engine is done */
    char method[8], path[32], peer[48];
    ig__buffer body; /* if prompts are logged */
    int status;
    bool whole;

    /* guarded by the server's lock */
    ig__buffer events;
    ig__job *next_ready;
    bool is_ready, lost, last;
    ig_error engine_error;
};

/* A note and its tops. */
static inline const ig__note *ig__note_at(const ig__job *job, const ig__sample *s, size_t i)
{
    return (const ig__note *)(const void *)(s->notes.data + i * job->note_bytes);
}
static inline const ig_logprob *ig__note_top(const ig__note *note)
{
    return (const ig_logprob *)(const void *)(note + 1);
}
static inline size_t ig__n_notes(const ig__job *job, const ig__sample *s)
{
    return job->note_bytes ? s->notes.n / job->note_bytes : 0;
}

void ig__job_destroy(ig__job *job);
/* The engine's callback; on the stepping thread. */
void ig__job_on_event(const ig_request_event *e);
/* One event of a stream. */
void ig__job_write_piece(ig__job *job, const ig__piece *piece);

/* "usage":{...} */
void ig__write_usage(ig__buffer *b, const ig__job *job);
/* {"token":..,"logprob":..,"bytes":[..],"top_logprobs":[..]} of notes [first, first + n),
 * with commas; OpenAI's shape. */
void ig__write_logprobs(ig__buffer *b, const ig__job *job, int64_t i_sample, size_t first,
                        size_t n);
/* JSON cannot say -infinity: -9999 stands for it, as OpenAI has it. */
void ig__write_logprob(ig__buffer *b, float logprob);

#endif
