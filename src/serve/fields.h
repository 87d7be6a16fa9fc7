/* The fields of a completion request: one table of name, type, range and default.
 *
 * Reading a request, the words of its refusal, and the schema in /openapi.json come from the
 * same row. A field that nobody documents is ignored; one that OpenAI or a relative
 * documents and that is not done here is refused unless it stands at its default.
 */
#ifndef INGOT_SERVE_FIELDS_H
#define INGOT_SERVE_FIELDS_H

#include "base/arena.h"
#include "base/buffer.h"
#include "base/json.h"
#include "ingot/generate.h"

enum {
    IG_STOP_MAX = 16,       /* stop strings a request, */
    IG_STOP_BYTES = 1024,   /* of at most so many bytes */
    IG_BIAS_MAX = 1024,     /* biased tokens */
    IG_MESSAGES_MAX = 4096, /* messages of a conversation */
    IG_LOGPROBS_MAX = 20,
    IG_SAMPLES_MAX = 16,
    IG_DEPTH_MAX = 64,         /* nesting of a request's JSON, */
    IG_OBJECTS_MAX = 64 << 10, /* its objects, */
    IG_VALUES_MAX = 2 << 20    /* and all of its values */
};

typedef enum ig__endpoint { IG_CHAT = 1, IG_COMPLETION = 2 } ig__endpoint;

/* Why a request is refused. */
typedef struct ig__bad {
    char field[96];    /* "messages[2].content"; "": none in particular */
    char message[320]; /* one line of UTF-8 */
    bool no_memory;
} ig__bad;

/* Returns false, so that a reader can say `return ig__refuse(...)`. */
IG_PRINTF(3, 4) bool ig__refuse(ig__bad *bad, const char *field, const char *fmt, ...);

/* A request as read. Pointers live in its arena or in the JSON tree. */
typedef struct ig__params {
    ig__arena arena;
    double temperature, top_p, min_p, typical_p;
    double repeat_penalty, presence_penalty, frequency_penalty;
    int64_t top_k, repeat_last_n;
    int64_t seed;
    bool has_seed;
    int64_t max_tokens, max_completion_tokens; /* -2: not given */
    int64_t n;
    bool stream, include_usage, has_stream_options, ignore_eos, return_ids;
    bool want_logprobs; /* chat's `logprobs` */
    int64_t n_logprobs; /* -1: none */
    int64_t n_top;      /* chat's `top_logprobs`; -1: not given */
    const char **stop;  /* [n_stop] */
    int64_t n_stop;
    ig_logit_bias *bias; /* [n_bias] */
    int64_t n_bias;
    ig_message *messages; /* [n_messages]; chat */
    int64_t n_messages;
    const char *prompt; /* [n_prompt]; completion, unless it came as ids */
    size_t n_prompt;
    int32_t *ids; /* [n_ids]; the prompt as ids; NULL: it came as text */
    int64_t n_ids;
    const char *model; /* NULL: not given */
} ig__params;

/* Read a request for an endpoint; `vocab` bounds token ids. On failure *bad says why, and
 * the params still need ig__params_fini. */
bool ig__params_read(ig__params *p, const ig_allocator *a, const ig__json *root,
                     ig__endpoint endpoint, int64_t vocab, ig__bad *bad);
void ig__params_fini(ig__params *p);

/* The draws that a request may make; -1: until the context is full. */
int64_t ig__params_max_tokens(const ig__params *p, ig__endpoint endpoint);

/* Parse JSON that anyone sent: nesting is bounded before it is read. */
bool ig__request_parse(ig__json **root_out, const ig_allocator *a, const char *text,
                       size_t n, ig__bad *bad);

/* The schema of an endpoint's request, as a JSON object. */
void ig__fields_write_schema(ig__buffer *b, ig__endpoint endpoint);

#endif
