/* Serving: many requests at once over one model, by continuous batching.
 *
 * An engine owns a runner, its pool of KV pages, a queue, and a cache of prompts' prefixes.
 * Each step mixes one row of every answer that is being written with chunks of the prompts
 * that wait, as many rows as the measured speed allows within the target time. What a
 * request gets depends on nothing else that runs: the same tokens, the same bits of
 * log-probabilities, alone or in company, preempted or not, with the prefix cache or without.
 *
 * The engine has no thread of its own. One thread of the caller, the stepping thread, makes
 * it, steps it and destroys it; the model's context is busy meanwhile:
 *
 *     while (!quit) {
 *         ig_engine_wait(engine, -1);
 *         while (ig_engine_step(engine) && !quit)
 *             ;
 *     }
 *
 * Functions marked [any thread] may be called from any, at any time between creation and
 * destruction; for ig_engine_submit and ig_request_release the context's allocator must then
 * serve several threads, as the C library's does. The callback comes on the stepping thread,
 * inside ig_engine_step or ig_engine_destroy, without a lock held: it may call all that is
 * marked [any thread].
 */
#ifndef INGOT_ENGINE_H
#define INGOT_ENGINE_H

#include "ingot/generate.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ig_engine ig_engine;
typedef struct ig_request ig_request;

/* ---- making ------------------------------------------------------------------------- */

typedef struct ig_engine_opts {
    int64_t context; /* tokens that a prompt and its answer may fill; 0: 4096, or what the
                            model was trained for if less; never more than the pool holds */
    int64_t max_running; /* answers (samples) in a step, 1 to 256; 0: 16 */
    int64_t max_queued;  /* requests that wait for their start, 1 to 65536; 0: 128 */
    int64_t max_tokens;  /* rows a step, 1 to 4096; 0: 512; at least max_running */
    size_t kv_bytes;     /* the pool of KV pages; 0: four contexts, but at most half of the
                            memory that is available */
    size_t
        prefix_bytes; /* pages that the prefix cache keeps beyond those in use; 0: no limit
                            but the pool (they give way to requests) */
    bool no_prefix_cache;
    ig_kv_type kv;
    int64_t step_ns;     /* time that a step aims at, at most; 0: 100 ms */
    int64_t page_tokens; /* tokens a KV page: 16, 32, 64, 128 or 256; 0: 16. Answers are the
                            same for all; whole pages are what requests share */
} ig_engine_opts;

/* `opts` may be NULL. A pool that is larger than the memory that is available is refused
 * (IG_ERR_LIMIT, with both sizes) before anything is taken. */
IG_API IG_WARN_UNUSED ig_status ig_engine_create(ig_engine **engine_out, ig_model *model,
                                                 const ig_engine_opts *opts, ig_error *err);
/* May be NULL. Requests that have not ended get their last events (IG_FINISH_CANCELLED).
 * Handles stay valid until they are released. */
IG_API void ig_engine_destroy(ig_engine *engine);

/* ---- requests ------------------------------------------------------------------------ */

/* What happens to one sample of a request. Pointers live for the call.
 *
 * Each token drawn (the end token too: its text is "") is one event; then comes exactly one
 * event with `finished` set, id -1, and in `text` what was held back until then. Events of
 * the samples of one request come interleaved, those of one sample in order. */
typedef struct ig_request_event {
    ig_request *request; /* the call's, even if no handle was asked for */
    void *user;          /* the request's */
    int64_t i_sample;    /* 0 .. n - 1 */

    int32_t id;            /* the token; -1: none */
    const char *text;      /* [n_text] whole characters that became final; may be "" */
    size_t n_text;         /* no byte of a stop string is ever among them */
    float logprob;         /* of `id`, if n_logprobs >= 0 */
    const ig_logprob *top; /* [n_top] */
    int64_t n_top;

    bool finished;         /* the sample's last event */
    bool last;             /* the request's last event: `user` is not used any more */
    ig_finish finish;      /* if finished */
    const ig_error *error; /* if finish is IG_FINISH_ERROR; else NULL */

    int64_t n_prompt;    /* tokens of the prompt */
    int64_t n_cached;    /* of these, not computed for this request; final from the first
                            token of the first sample on */
    int64_t n_generated; /* tokens drawn for this sample so far, the end token included */
    int64_t queue_ns;    /* from submission to start; until the end, if it never started */
} ig_request_event;

/* Fill with ig_request_defaults() first, then change. Everything is copied. */
typedef struct ig_request_opts {
    const int32_t *prompt; /* [n_prompt] */
    int64_t n_prompt;      /* 1 .. context */
    ig_sampler_opts sampler;
    int64_t n;          /* samples, 1 to 128; default 1. Sample i draws from stream i of
                                the seed: sample 0 is what ig_generate gives */
    int64_t max_tokens; /* draws a sample; -1 (default): until the context is full; 0:
                                only the prompt */
    const char *const *stop; /* [n_stop] strings that end an answer; never shown; UTF-8 */
    int64_t n_stop;
    bool ignore_end;    /* do not stop at the end token */
    int64_t n_logprobs; /* of the model's own distribution; -1 (default): none; 0: the
                            token's own; n: and the n most probable */
    int32_t priority;   /* larger goes first: it starts earlier and is preempted later;
                            default 0 */
    int64_t
        deadline_ns; /* from submission; then it ends with IG_FINISH_DEADLINE; 0: none */
    void (*on_event)(const ig_request_event *event); /* may be NULL */
    void *user;
} ig_request_opts;

IG_API ig_request_opts ig_request_defaults(void);

/* [any thread] Queue a request. Refused are, and nothing is called back then: a prompt that
 * is longer than the context (IG_ERR_LIMIT, and for nothing else; the message has both
 * counts), a full queue (IG_ERR_BUSY: see ig_engine_retry_ns), other options outside their
 * domain (IG_ERR_ARGUMENT), no memory (IG_ERR_MEMORY).
 *
 * `request_out` may be NULL: then no handle is made. Events may come before this returns. */
IG_API IG_WARN_UNUSED ig_status ig_engine_submit(ig_request **request_out,
                                                 ig_engine *engine,
                                                 const ig_request_opts *opts,
                                                 ig_error *err);
/* [any thread] End a request: its samples' last events (IG_FINISH_CANCELLED) come at the
 * start of the next step, and its pages are free then. If it has at least half of the rows of
 * the step that runs, that step is abandoned within a layer, and the other requests' rows are
 * computed again by the next one; else the step is done and its share of it dropped. After
 * the last event this does nothing. */
IG_API void ig_request_cancel(ig_request *request);
/* [any thread] Give the handle back. The request goes on. May be NULL. */
IG_API void ig_request_release(ig_request *request);

/* ---- running ------------------------------------------------------------------------- */

/* Run one step: start, preempt, compute, draw, call back. Returns whether there is more to
 * do. A request that fails (a NaN, no memory) ends with IG_FINISH_ERROR, and no other does. */
IG_API bool ig_engine_step(ig_engine *engine);
/* Sleep until there is work, or for timeout_ns (< 0: without end), or until
 * ig_engine_wake; returns whether there is work. Uses no CPU. */
IG_API bool ig_engine_wait(ig_engine *engine, int64_t timeout_ns);
/* [any thread] End the wait that sleeps, or else the next one. */
IG_API void ig_engine_wake(ig_engine *engine);

/* ---- inspecting ---------------------------------------------------------------------- */

IG_API int64_t ig_engine_context(const ig_engine *engine); /* [any thread] tokens */
IG_API ig_model *ig_engine_model(const ig_engine *engine); /* [any thread] */
/* [any thread] In what time a place in the queue may be free: for Retry-After. From the time
 * that requests took lately; 1 s to 5 min. */
IG_API int64_t ig_engine_retry_ns(ig_engine *engine);

/* Counters only grow; all others are as of the last step or submission. A step with a row
 * of a prompt (or of an answer that is computed again) counts as a prompt step, with all of
 * its rows; the others are decode steps. */
typedef struct ig_engine_stats {
    int64_t n_running, n_waiting; /* samples in steps; samples that wait */
    int64_t n_queued;             /* requests that have not started */

    int64_t n_pages;          /* of the pool */
    int64_t page_tokens;      /* tokens a page */
    int64_t n_pages_used;     /* of running samples, shared ones once; 0 at rest */
    int64_t n_pages_cached;   /* kept for later requests, used by none; the rest is free */
    size_t page_bytes;        /* of all layers */
    int64_t n_tokens_kept;    /* that the used pages hold for running samples, shared ones
                                    once: over page_tokens * n_pages_used, the share that is no waste */
    int64_t prefix_queries;   /* counter: prompt tokens looked up, once a request */
    int64_t prefix_hits;      /* counter: of these, found */
    int64_t n_prefix_evicted; /* counter: pages */
    int64_t max_tokens, context; /* rows a step at most; tokens a request at most */

    int64_t n_submitted; /* counters: requests taken, refused because the queue was full, */
    int64_t n_rejected;
    int64_t n_finished;  /* ended in whatever way, and of these */
    int64_t n_cancelled; /* by ig_request_cancel */
    int64_t n_expired;   /* by their deadline */
    int64_t n_failed;    /* by an error */
    int64_t n_preempted; /* counter: samples whose pages were taken away */

    int64_t n_steps, n_abandoned; /* counters */
    int64_t prompt_tokens;        /* counters: rows computed of prompts (again included) */
    int64_t decode_tokens;        /* and of answers as they are written */
    int64_t prompt_ns, decode_ns; /* counters: time in prompt steps, in decode steps */
    double prompt_bytes, decode_bytes; /* counters: of weights that these steps read */
    double prompt_ops, decode_ops;     /* counters: of weight products */
    int64_t last_step_ns, last_step_rows;
    int64_t budget; /* rows that the next step may have */
} ig_engine_stats;

/* [any thread] */
IG_API ig_engine_stats ig_engine_get_stats(ig_engine *engine);

/* Forget the prefix cache: all its pages are free afterwards. Stepping thread. */
IG_API void ig_engine_drop_prefixes(ig_engine *engine);

#ifdef __cplusplus
}
#endif
#endif
