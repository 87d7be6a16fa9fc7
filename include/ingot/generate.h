/* From a prompt to an answer: the loop of step, draw and stop, and the encoding of
 * conversations.
 */
#ifndef INGOT_GENERATE_H
#define INGOT_GENERATE_H

#include "ingot/runner.h"
#include "ingot/sampler.h"
#include "ingot/template.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ig_message {
    const char *role;    /* "system", "user", "assistant", ... */
    const char *content; /* UTF-8; NULL: "" */
} ig_message;

/* Render the messages and append their ids: markup is read for control tokens, content
 * never is. A BOS that the file asks for is added unless the rendered text begins with it.
 * The generation prompt is added; if the last message is the assistant's, its content
 * follows as it is and without a closing marker: the answer continues it. The role
 * "developer" is rendered as "system". No messages, a missing role, or a text that is not
 * UTF-8 is IG_ERR_ARGUMENT; what the template refuses is IG_ERR_FORMAT. On failure `ids`
 * keeps what it had. */
IG_API IG_WARN_UNUSED ig_status ig_chat_encode(ig_ids *ids, const ig_tokenizer *tokenizer,
                                               const ig_template *tmpl,
                                               const ig_message *messages,
                                               int64_t n_messages, ig_error *err);

typedef enum ig_finish {
    IG_FINISH_STOP,
    IG_FINISH_LENGTH,
    IG_FINISH_CANCELLED,
    IG_FINISH_DEADLINE, /* of an engine's requests only, as the next */
    IG_FINISH_ERROR
} ig_finish;
/* "stop", "length", "cancelled", "deadline", "error"; static storage. */
IG_API const char *ig_finish_name(ig_finish finish);

/* One generated token, as the callback sees it. Pointers live for the call. */
typedef struct ig_generated {
    int32_t id;
    const char *text; /* whole characters that became final with this token; may be "" */
    size_t n_text;
    float logprob;         /* of `id`, when n_logprobs >= 0 was asked for */
    const ig_logprob *top; /* [n_top] */
    int64_t n_top;
} ig_generated;

typedef struct ig_generate_opts {
    int64_t max_tokens;      /* draws; -1: until the context is full; 0: only the prompt */
    bool ignore_end;         /* do not stop at the end token */
    const char *const *stop; /* [n_stop] strings that end the answer; never shown; UTF-8 */
    int64_t n_stop;
    int64_t n_logprobs; /* -1: none; 0: the token's own; n: and the n most probable */
    /* Called for each token drawn (the end token too: its text is ""), and once more with
     * id -1 if text that was held back became final at the end. Return false to cancel: no
     * call follows. May be NULL. */
    bool (*on_token)(void *user, const ig_generated *token);
    void *user;
    const volatile int *cancelled; /* may be NULL */
} ig_generate_opts;

typedef struct ig_generate_result {
    ig_finish finish;
    int64_t n_prompt;    /* tokens evaluated for the prompt */
    int64_t n_generated; /* draws, the end token included */
    int64_t prompt_ns;   /* from the call to the first token drawn */
    int64_t decode_ns;   /* from there to the last token drawn */
} ig_generate_result;

/* Append prompt[0..n_prompt) to the sequence and generate. The sequence must have room for
 * the prompt (IG_ERR_LIMIT names both counts); it ends with all that was fed: the prompt
 * and each generated token but the last. n_prompt >= 1; `opts` may be NULL: no limit, no
 * callback; so may result_out.
 *
 * The sampler is told of the prompt's tokens and of each token drawn; tokens that the
 * sequence held before are the caller's to tell. The answer ends with IG_FINISH_LENGTH when
 * prompt and answer together fill the context; a prompt that alone fills it is IG_ERR_LIMIT
 * too, unless max_tokens is 0. Cancelling is no error: the sequence holds the steps that were
 * done. After an error it is cut to what it held before the call, and the sampler has to be
 * reset. */
IG_API IG_WARN_UNUSED ig_status ig_generate(ig_generate_result *result_out,
                                            ig_runner *runner, ig_sequence *seq,
                                            ig_sampler *sampler, const int32_t *prompt,
                                            int64_t n_prompt, const ig_generate_opts *opts,
                                            ig_error *err);

/* Sum of negative log-likelihoods of the ids given what stands before each, in windows of
 * `context` >= 2 tokens without overlap. The first token of a window is not scored; with
 * `bos` that is a BOS in front of each window, and every id is scored. The rows of logits a
 * step bound the step: make the runner with max_logits as large as max_tokens. */
IG_API IG_WARN_UNUSED ig_status ig_score(double *nll_sum_out, int64_t *n_scored_out,
                                         ig_runner *runner, const int32_t *ids, int64_t n,
                                         int64_t context, bool bos, ig_error *err);

#ifdef __cplusplus
}
#endif
#endif
