/* Running a model: sequences of tokens over a paged cache, and the step that computes them.
 *
 * A runner owns a plan (memory for at most `max_tokens` rows a step) and a pool of KV pages
 * of `page_tokens` tokens. A sequence knows append (by a step), fork, cut and destroy; drafts,
 * constrained output, regeneration and beam search are built of these. The same sequence
 * gives the same bits whatever else is in the step, however it is cut into steps, and for
 * any number of threads. After the first step nothing allocates.
 */
#ifndef INGOT_RUNNER_H
#define INGOT_RUNNER_H

#include "ingot/model.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ig_runner ig_runner;
typedef struct ig_sequence ig_sequence;

typedef enum ig_kv_type { IG_KV_F16, IG_KV_F32, IG_KV_Q8_0 } ig_kv_type;

typedef struct ig_runner_opts {
    int64_t context; /* tokens a sequence may hold; 0: 4096, or what the model was trained
                        for if less */
    int64_t pool_tokens;   /* tokens that all sequences together may hold; 0: context */
    int64_t max_tokens;    /* rows a step, 1 to 4096; 0: 512 */
    int64_t max_sequences; /* sequences a step, 1 to 256; 0: 16 */
    int64_t max_logits;    /* rows of logits a step; 0: 16 */
    ig_kv_type kv;
    int64_t page_tokens; /* tokens a page: 16, 32, 64, 128 or 256; 0: 16 */
} ig_runner_opts;

IG_API IG_WARN_UNUSED ig_status ig_runner_create(ig_runner **runner_out, ig_model *model,
                                                 const ig_runner_opts *opts, ig_error *err);
IG_API void ig_runner_destroy(ig_runner *runner); /* may be NULL; sequences first */
IG_API int64_t ig_runner_context(const ig_runner *runner);
IG_API int64_t ig_runner_max_tokens(const ig_runner *runner);
IG_API int64_t ig_runner_max_logits(const ig_runner *runner);
IG_API ig_model *ig_runner_model(const ig_runner *runner);
IG_API size_t ig_runner_kv_bytes(const ig_runner *runner); /* the pool */
IG_API size_t ig_runner_kv_bytes_a_token(const ig_runner *runner);
IG_API int64_t ig_runner_free_tokens(const ig_runner *runner); /* in free pages */

IG_API IG_WARN_UNUSED ig_status ig_sequence_create(ig_sequence **seq_out, ig_runner *runner,
                                                   ig_error *err);
/* A second sequence with the same tokens; whole pages are shared, the last is copied when
 * written. */
IG_API IG_WARN_UNUSED ig_status ig_sequence_fork(ig_sequence **seq_out,
                                                 const ig_sequence *seq, ig_error *err);
IG_API int64_t ig_sequence_length(const ig_sequence *seq);
/* Forget all tokens from position n on; 0 <= n <= length. */
IG_API void ig_sequence_cut(ig_sequence *seq, int64_t n);
IG_API void ig_sequence_destroy(ig_sequence *seq); /* may be NULL */

/* One sequence's part of a step: n_tokens new tokens, of whose last n_logits rows the
 * logits are wanted. */
typedef struct ig_step_part {
    ig_sequence *seq;
    const int32_t *tokens; /* [n_tokens] */
    int64_t n_tokens;      /* 1 .. max_tokens over all parts */
    int64_t n_logits;      /* 0 .. n_tokens */
} ig_step_part;

/* Run one step. `cancelled` (may be NULL) is read some times in each layer: a step that
 * sees it set stops and fails with IG_ERR_CANCELLED. After any failure the sequences are as before
 * the step. */
IG_API IG_WARN_UNUSED ig_status ig_runner_step(ig_runner *runner, const ig_step_part *parts,
                                               int64_t n_parts,
                                               const volatile int *cancelled,
                                               ig_error *err);
/* Row i of the last step's logits, in the order of the parts: [vocab] float32, the caller
 * may overwrite it; valid until the next step. */
IG_API float *ig_runner_logits(ig_runner *runner, int64_t i);

/* Counters for tests and reports. */
typedef struct ig_runner_stats {
    int64_t n_steps;          /* operators that the plan walks */
    int64_t n_barriers_small; /* of a whole step of at most 4 rows (decode) */
    int64_t n_barriers_large; /* of a larger one */
    size_t activation_bytes;
} ig_runner_stats;
IG_API ig_runner_stats ig_runner_get_stats(const ig_runner *runner);

#ifdef __cplusplus
}
#endif
#endif
