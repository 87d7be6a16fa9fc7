/* Running models in tests: one struct of what is open, and the logits of a list of ids under
 * whatever cutting into steps.
 */
#ifndef INGOT_TESTS_INFER_TINY_RUN_H
#define INGOT_TESTS_INFER_TINY_RUN_H

#include "ingot/ingot.h"
#include "tiny_model.h"

#include <stdlib.h>
#include <string.h>

typedef struct running {
    tiny_model tiny;
    ig_context *ctx;
    ig_model *model;
    ig_runner *runner;
    int64_t vocab;
} running;

typedef struct running_opts {
    const char *path; /* NULL: the tiny model */
    tiny_model tiny;  /* dtype, gemma, head, nan_in, nan_row */
    int n_threads;
    const char *isa;
    bool exact;
    ig_kv_type kv;
    int64_t max_tokens, pool_tokens; /* 0: 640, 4 * 1024 */
    const ig_allocator *allocator;
} running_opts;

static ig_error running_error;

#define must(call)                                                                         \
    do {                                                                                   \
        if ((call) != IG_OK)                                                               \
            fail_msg("%s", running_error.message);                                         \
    } while (0)

/* Opens what it can; what failed is in running_error, and the rest stays NULL. */
static inline ig_status try_open(running *r, const running_opts *opts, const char *path)
{
    const ig_context_opts context = {
        .n_threads = opts->n_threads, .isa = opts->isa, .allocator = opts->allocator};
    const ig_model_opts model = {.exact = opts->exact};
    const int64_t rows = opts->max_tokens ? opts->max_tokens : 640;
    const ig_runner_opts runner = {.context = 1024,
                                   .pool_tokens =
                                       opts->pool_tokens ? opts->pool_tokens : 4096,
                                   .max_tokens = rows,
                                   .max_logits = rows,
                                   .kv = opts->kv};
    ig_error *err = &running_error;
    ig_status status = ig_context_create(&r->ctx, &context, err);
    if (status == IG_OK)
        status = ig_model_open(&r->model, r->ctx, path, &model, err);
    if (status == IG_OK)
        status = ig_runner_create(&r->runner, r->model, &runner, err);
    if (status == IG_OK)
        r->vocab = ig_model_get_info(r->model).vocab;
    return status;
}

static inline void run_close(running *r)
{
    ig_runner_destroy(r->runner);
    ig_model_close(r->model);
    ig_context_destroy(r->ctx);
    tiny_model_fini(&r->tiny);
    *r = (running){0};
}

static inline void run_open(running *r, const running_opts *opts)
{
    *r = (running){.tiny = opts->tiny};
    must(try_open(r, opts, opts->path ? opts->path : tiny_model_save(&r->tiny)));
}

static inline ig_sequence *new_sequence(const running *r)
{
    ig_sequence *seq;
    must(ig_sequence_create(&seq, r->runner, &running_error));
    return seq;
}

/* Append ids in steps of at most `piece` and write the logits of every row, [n][V]. */
static inline void feed(float *out, const running *r, ig_sequence *seq, const int32_t *ids,
                        int64_t n, int64_t piece)
{
    for (int64_t i = 0; i < n; i += piece) {
        const int64_t left = n - i < piece ? n - i : piece;
        const ig_step_part part = {seq, ids + i, left, left};
        must(ig_runner_step(r->runner, &part, 1, NULL, &running_error));
        for (int64_t k = 0; k < left; k++)
            memcpy(out + (i + k) * r->vocab, ig_runner_logits(r->runner, k),
                   (size_t)r->vocab * sizeof(float));
    }
}

/* The same of a new sequence; the result is the caller's (free). */
static inline float *logits_of(const running *r, const int32_t *ids, int64_t n,
                               int64_t piece)
{
    float *out = malloc((size_t)(n * r->vocab) * sizeof *out);
    assert_non_null(out);
    ig_sequence *seq = new_sequence(r);
    feed(out, r, seq, ids, n, piece);
    ig_sequence_destroy(seq);
    return out;
}

/* Every bit of n rows; names the first row that differs. */
static inline void assert_same_rows(const float *got, const float *wanted, int64_t n,
                                    int64_t vocab, const char *what)
{
    for (int64_t i = 0; i < n; i++)
        if (memcmp(got + i * vocab, wanted + i * vocab, (size_t)vocab * sizeof *got) != 0)
            fail_msg("%s: row %lld of %lld differs", what, (long long)i, (long long)n);
}

#endif
