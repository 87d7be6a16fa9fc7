/* How well a model predicts a text: the sum of -log p over its tokens.
 *
 *     ids    |-- window --|-- window --|-- ..|     `context` tokens each (BOS included)
 *     rows    x x x x x x .                        row i predicts token i + 1; the last
 *                                                  token of a window is not fed
 *
 * A window is fed in pieces of as many rows as the runner gives logits for. Sums in double.
 */
#include "ingot/generate.h"

#include "base/error.h"
#include "infer/logits.h"
#include "infer/model_int.h"
#include "tensor/context.h"

#include <string.h>

/* One call of ig_score. */
typedef struct scoring {
    ig_runner *runner;
    ig_sequence *seq;
    const int32_t *ids;
    int32_t bos; /* -1: none */
    int64_t vocab;
    int64_t most;    /* rows a step */
    int32_t *tokens; /* [most] */
    double nll_sum;
    int64_t n_scored;
} scoring;

/* Token i of the window whose ids begin at `begin`. */
static int32_t window_token(const scoring *s, int64_t begin, int64_t i)
{
    if (s->bos < 0)
        return s->ids[begin + i];
    return i == 0 ? s->bos : s->ids[begin + i - 1];
}

/* Score a window of n tokens, BOS included. */
static ig_status score_window(scoring *s, int64_t begin, int64_t n, ig_error *err)
{
    ig_sequence_cut(s->seq, 0);
    for (int64_t done = 0; done < n - 1;) {
        const int64_t left = n - 1 - done;
        const int64_t piece = left < s->most ? left : s->most;
        for (int64_t i = 0; i < piece; i++)
            s->tokens[i] = window_token(s, begin, done + i);
        const ig_step_part part = {
            .seq = s->seq, .tokens = s->tokens, .n_tokens = piece, .n_logits = piece};
        IG_TRY(ig_runner_step(s->runner, &part, 1, NULL, err));
        for (int64_t i = 0; i < piece; i++) {
            const float *logits = ig_runner_logits(s->runner, i);
            const int32_t target = window_token(s, begin, done + i + 1);
            const double nll =
                ig__logits_log_sum(logits, s->vocab) - (double)logits[target];
            if (!isfinite(nll))
                return ig__fail(err, IG_ERR_NUMERIC,
                                "score: -log p of token %d at %lld is %g", (int)target,
                                (long long)(begin + done + i + 1 - (s->bos >= 0)), nll);
            s->nll_sum += nll;
        }
        s->n_scored += piece;
        done += piece;
    }
    return IG_OK;
}

static ig_status check(const ig_runner *runner, const int32_t *ids, int64_t n,
                       int64_t context, int64_t vocab, ig_error *err)
{
    if (context < 2)
        return ig__fail(err, IG_ERR_ARGUMENT,
                        "score: context is %lld, allowed is 2 or more", (long long)context);
    if (context > ig_runner_context(runner))
        return ig__fail(err, IG_ERR_LIMIT,
                        "score: context is %lld tokens, the runner's holds %lld",
                        (long long)context, (long long)ig_runner_context(runner));
    for (int64_t i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= vocab)
            return ig__fail(err, IG_ERR_ARGUMENT,
                            "score: token %d at %lld, allowed is [0, %lld)", (int)ids[i],
                            (long long)i, (long long)vocab);
    return IG_OK;
}

static ig_status score_windows(scoring *s, int64_t n, int64_t context, ig_error *err)
{
    const int64_t ids_a_window = context - (s->bos >= 0);
    IG_TRY(ig_sequence_create(&s->seq, s->runner, err));
    for (int64_t begin = 0; begin < n; begin += ids_a_window) {
        const int64_t left = n - begin;
        const int64_t n_ids = left < ids_a_window ? left : ids_a_window;
        IG_TRY(score_window(s, begin, n_ids + (s->bos >= 0), err));
    }
    return IG_OK;
}

ig_status ig_score(double *nll_sum_out, int64_t *n_scored_out, ig_runner *runner,
                   const int32_t *ids, int64_t n, int64_t context, bool bos, ig_error *err)
{
    *nll_sum_out = 0;
    *n_scored_out = 0;
    const ig_model *model = runner->model;
    const ig_allocator *a = &model->ctx->allocator;
    const int64_t max_tokens = ig_runner_max_tokens(runner);
    const int64_t max_logits = ig_runner_max_logits(runner);
    scoring s = {.runner = runner,
                 .ids = ids,
                 .bos = bos ? ig_tokenizer_bos(model->tokenizer) : -1,
                 .vocab = model->info.vocab,
                 .most = max_tokens < max_logits ? max_tokens : max_logits};
    IG_TRY(check(runner, ids, n, context, s.vocab, err));
    if (bos && s.bos < 0)
        return ig__fail(err, IG_ERR_UNSUPPORTED, "score: the vocabulary has no BOS");
    s.tokens = ig__alloc(a, (size_t)s.most * sizeof *s.tokens);
    if (!s.tokens)
        return ig__fail_memory(err, "score", (size_t)s.most * sizeof *s.tokens);
    const ig_status status = score_windows(&s, n, context, err);
    if (status == IG_OK) {
        *nll_sum_out = s.nll_sum;
        *n_scored_out = s.n_scored;
    }
    ig_sequence_destroy(s.seq);
    ig__free(a, s.tokens);
    return status;
}
