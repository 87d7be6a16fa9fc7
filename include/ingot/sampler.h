/* Choosing a token from logits.
 *
 * Order, as users of llama.cpp know it: logit bias, repetition / presence / frequency
 * penalties, top-k, typical, top-p, min-p, temperature, draw. Temperature 0 is greedy: the
 * largest logit after bias and penalties, the lowest id of equals. The same seed gives the
 * same draws: draw i of a sampler is a pure function of (seed, i).
 */
#ifndef INGOT_SAMPLER_H
#define INGOT_SAMPLER_H

#include "ingot/context.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ig_sampler ig_sampler;

typedef struct ig_logit_bias {
    int32_t id;
    float bias; /* -INFINITY forbids the token */
} ig_logit_bias;

/* Fill with ig_sampler_defaults() first, then change. */
typedef struct ig_sampler_opts {
    float temperature;         /* >= 0; default 0.8 */
    int32_t top_k;             /* 0: off; default 40 */
    float top_p;               /* (0, 1]; 1: off; default 0.95 */
    float min_p;               /* [0, 1]; 0: off; default 0.05 */
    float typical_p;           /* (0, 1]; 1: off; default 1 */
    float repeat_penalty;      /* > 0; 1: off; default 1 */
    int32_t repeat_last_n;     /* tokens looked back at; 0: none, -1: all; default 64 */
    float presence_penalty;    /* [-2, 2]; default 0 */
    float frequency_penalty;   /* [-2, 2]; default 0 */
    uint64_t seed;             /* default 0 */
    const ig_logit_bias *bias; /* [n_bias], copied */
    int64_t n_bias;
} ig_sampler_opts;

IG_API ig_sampler_opts ig_sampler_defaults(void);

/* An option outside its domain is IG_ERR_ARGUMENT with a message that names option, value
 * and range. `opts` may be NULL: the defaults. A token that is biased twice gets both. */
IG_API IG_WARN_UNUSED ig_status ig_sampler_create(ig_sampler **sampler_out, ig_context *ctx,
                                                  int64_t vocab,
                                                  const ig_sampler_opts *opts,
                                                  ig_error *err);
IG_API void ig_sampler_destroy(ig_sampler *sampler); /* may be NULL */

/* Tell the sampler of tokens that stand before the next draw (prompt and accepted draws).
 * An id outside the vocabulary is IG_ERR_ARGUMENT, and none is taken. */
IG_API IG_WARN_UNUSED ig_status ig_sampler_accept(ig_sampler *sampler, const int32_t *ids,
                                                  int64_t n, ig_error *err);
/* Forget the tokens; the draw counter starts again. */
IG_API void ig_sampler_reset(ig_sampler *sampler);

/* Draw a token; logits [vocab], not changed. A NaN, or +infinity, or no allowed token at
 * all, is IG_ERR_NUMERIC. Does not accept the token. */
IG_API IG_WARN_UNUSED ig_status ig_sampler_draw(int32_t *id_out, ig_sampler *sampler,
                                                const float *logits, ig_error *err);

/* Log-probabilities of the model's own distribution (before any of the above). */
typedef struct ig_logprob {
    int32_t id;
    float logprob;
} ig_logprob;

/* The n most probable, most probable first, equals by lower id; returns min(n, vocab). A
 * forbidden token, and an id outside the vocabulary, has -infinity. */
IG_API int64_t ig_logprobs_top(ig_logprob *top, int64_t n, const float *logits,
                               int64_t vocab);
IG_API float ig_logprob_of(const float *logits, int64_t vocab, int32_t id);

#ifdef __cplusplus
}
#endif
#endif
