/* Counters and histograms of what was served, in Prometheus's text format, under vLLM's names
 * with the prefix `ingot:`. HTTP's thread alone.
 */
#ifndef INGOT_SERVE_METRICS_H
#define INGOT_SERVE_METRICS_H

#include "base/buffer.h"
#include "ingot/engine.h"
#include "ingot/machine.h"

enum { IG_HISTOGRAM_BUCKETS = 24 };

typedef struct ig__histogram {
    int64_t counts[IG_HISTOGRAM_BUCKETS]; /* of its scale, the last for what is beyond */
    double sum;
    int64_t n;
} ig__histogram;

/* X(field, name, scale, help) */
#define IG_HISTOGRAM_MAP(X)                                                                \
    X(first_token, "time_to_first_token_seconds", SECONDS,                                 \
      "From the request to its first token.")                                              \
    X(inter_token, "inter_token_latency_seconds", TOKEN_SECONDS,                           \
      "Between two tokens of an answer.")                                                  \
    X(per_token, "request_time_per_output_token_seconds", TOKEN_SECONDS,                   \
      "Mean time a token after the first, of each request.")                               \
    X(whole, "e2e_request_latency_seconds", SECONDS, "From the request to its end.")       \
    X(queue, "request_queue_time_seconds", SECONDS, "From the request to its start.")      \
    X(prefill, "request_prefill_time_seconds", SECONDS,                                    \
      "From the start to the first token.")                                                \
    X(decode, "request_decode_time_seconds", SECONDS, "From the first token to the last.") \
    X(n_prompt, "request_prompt_tokens", TOKENS, "Tokens of the prompt.")                  \
    X(n_generated, "request_generation_tokens", TOKENS, "Tokens of all answers.")          \
    X(max_tokens, "request_params_max_tokens", TOKENS, "What max_tokens asked for.")       \
    X(n_samples, "request_params_n", SAMPLES, "What n asked for.")

typedef enum ig__histogram_name {
#define IG_HISTOGRAM_ENUM(field, name, scale, help) IG_HISTOGRAM_##field,
    IG_HISTOGRAM_MAP(IG_HISTOGRAM_ENUM)
#undef IG_HISTOGRAM_ENUM
        IG_HISTOGRAM_COUNT
} ig__histogram_name;

/* How requests ended: vLLM's words, and "cancelled" for a client that left. */
typedef enum ig__outcome {
    IG_OUTCOME_STOP,
    IG_OUTCOME_LENGTH,
    IG_OUTCOME_ABORT,
    IG_OUTCOME_ERROR,
    IG_OUTCOME_COUNT
} ig__outcome;

typedef struct ig__metrics {
    ig__histogram histograms[IG_HISTOGRAM_COUNT];
    int64_t n_outcomes[IG_OUTCOME_COUNT]; /* of samples */
    int64_t n_prompt_tokens, n_cached_tokens, n_generated_tokens;
    int64_t n_cancelled; /* requests whose client left */
    int64_t n_rejected;  /* requests that the full queue refused */
    int64_t n_refused;   /* requests with something wrong (4xx) */
    int64_t n_requests;  /* HTTP requests of all kinds */
} ig__metrics;

void ig__metrics_observe(ig__metrics *m, ig__histogram_name name, double x);

typedef struct ig__metrics_view {
    const char *model;        /* its name, a label */
    ig_engine_stats stats;    /* zero before the engine is there */
    ig_model_info info;       /* likewise */
    const ig_machine *limits; /* NULL: not measured */
    int64_t n_connections;
} ig__metrics_view;

void ig__metrics_write(ig__buffer *b, const ig__metrics *m, const ig__metrics_view *view);

#endif
