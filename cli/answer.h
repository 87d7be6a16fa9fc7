/* One answer as it is generated: shown, collected, and told as JSON. */
#ifndef INGOT_CLI_ANSWER_H
#define INGOT_CLI_ANSWER_H

#include "session.h"

typedef struct answer {
    report *out;
    const ig_tokenizer *tokenizer;
    bool shown;         /* text goes to standard output as it comes */
    int64_t n_logprobs; /* -1: none */
    const draw_opts *draw;
    const char *const *stop; /* [n_stop] */
    int64_t n_stop, max_tokens;
    bool ignore_end;

    ig_ids prompt; /* all of it; the caller's, freed with the answer */
    int32_t *ids;  /* [n_ids] drawn, the end token included */
    int64_t n_ids, cap_ids;
    char *text; /* [n_text] */
    size_t n_text, cap_text;
    json_t *logprobs; /* a list, when asked for */
    bool no_memory;
    ig_generate_result result;
} answer;

/* Generate with `sampler`, feeding prompt[n_kept..) behind what the session's sequence
 * holds. Ctrl-C, where it is caught, cancels. */
int answer_generate(answer *a, session *s, ig_sampler *sampler, int64_t n_kept);
double answer_prompt_tps(const answer *a);
double answer_decode_tps(const answer *a);
void answer_free(answer *a);

#endif
