/* What stands behind an engine and its requests; for src/infer/engine*.c only.
 *
 *     submit --> inbox --(step)--> waiting, by rank --admit--> running, by rank --> finished
 *       any thread, locked           ^------------- preempt --------------'
 *
 * Everything is the stepping thread's but what stands under `lock`. Rank: larger priority,
 * then earlier request, then lower sample. A sample that runs has a sequence, and in it the
 * first of its tokens: prompt and answer so far. What is missing is fed by steps; when all is
 * fed, a token is drawn.
 *
 *     tokens     | prompt ....................... | generated ...... |
 *     sequence   | ............ length |- chunk ->|
 */
#ifndef INGOT_INFER_ENGINE_INT_H
#define INGOT_INFER_ENGINE_INT_H

#include "infer/answer.h"
#include "infer/prefix.h"
#include "infer/sequence.h"
#include "ingot/engine.h"

#include <pthread.h>

enum { IG_MAX_RUNNING = 256, IG_MAX_SAMPLES = 128 };

typedef struct ig__sample {
    ig_request *request;
    int64_t index;
    struct ig__sample *before, *after; /* in the waiting list */
    ig_sequence *seq;                  /* one of the engine's; NULL: does not run */
    int64_t n_known;                   /* of its pages, the prefix cache knows the first */
    int64_t n_rows;                    /* that the step computes */
    bool decodes;                      /* one row, of an answer as it is written */
    bool computes; /* of the step: a prompt that does not wait for another's pages */

    /* from its first start to its end, preempted or not */
    bool begun, preempted; /* preempted: at least once */
    ig_sampler *sampler;
    ig__answer answer;
    int32_t *generated; /* [cap] as many as it can ever draw */
    int64_t n_generated, cap;

    /* of the step: the token drawn, or why there is none */
    ig_status choice;
    int32_t chosen;
    double log_sum; /* of its logits, if log-probabilities are shown */
} ig__sample;

struct ig_request {
    ig_allocator a; /* the handle may outlive the engine */
    ig_engine *engine;
    int32_t n_refs;       /* atomic: the engine's, and the handle's */
    int32_t cancelled;    /* atomic, relaxed: publishes nothing but itself */
    ig_request *next;     /* in the inbox */
    ig_request_opts opts; /* pointers are those of the copies below */
    int32_t *prompt;      /* [opts.n_prompt] */
    ig_logit_bias *bias;  /* [opts.sampler.n_bias] */
    char **stop;          /* [opts.n_stop], the texts behind the pointers */
    ig_logprob *top;      /* [opts.n_logprobs], of the event */
    int64_t number;       /* in order of submission */
    int64_t submit_ns, start_ns, deadline_ns; /* start_ns: 0 until it starts */
    int64_t n_cached;
    int64_t n_unfinished; /* samples */
    ig__sample samples[]; /* [opts.n] */
};

/* What a step computes. */
typedef struct ig__work {
    double rows, keys; /* keys: of all rows together */
} ig__work;

/* Sums of a fit; of u = rows / ns, v = keys / ns, the latest counting most. */
typedef struct ig__fit {
    double uu, uv, vv, u, v;
} ig__fit;

/* How many rows fit the time of a step (engine_speed.c). Costs are in rows at the begin of a
 * prompt. */
typedef struct ig__speed {
    int64_t step_ns;     /* the target */
    int64_t least, most; /* rows */
    int64_t window;      /* keys that a row sees at most; 0: all before it */
    double key_cost, guess, logits_cost; /* guess: of key_cost, before the first step */
    double cost_ns;                      /* what one takes: the smoothed mean */
    double margin; /* nine of ten steps take less than this times the mean */
    ig__fit fit;
    bool learned; /* from at least one step */
} ig__speed;

struct ig_engine {
    ig_model *model;
    const ig_allocator *a;
    ig_engine_opts opts; /* with defaults filled in */
    ig_runner *runner;
    ig__prefix *prefix; /* NULL: no cache */
    ig__pages *pages;   /* the runner's */
    ig__speed speed;
    ig__buffer bytes; /* of one token */

    ig_sequence *sequences[IG_MAX_RUNNING]; /* [max_running] */
    ig_sequence *idle[IG_MAX_RUNNING];      /* [n_idle] of them */
    ig__sample *running[IG_MAX_RUNNING];    /* [n_running] by rank */
    int64_t n_idle, n_running, n_waiting;
    ig__sample *first, *last; /* waiting, by rank */
    int64_t turn;             /* steps with prompts so far: who is served first */

    ig_step_part parts[IG_MAX_RUNNING]; /* of the step */
    ig__sample *stepped[IG_MAX_RUNNING];
    int64_t n_parts;
    int abandon; /* atomic, relaxed: the step that runs is to be given up */

    ig_engine_stats stats; /* the stepping thread's; a copy is below */

    pthread_mutex_t lock; /* guards what follows; held for moments only */
    pthread_cond_t changed;
    ig_request *inbox, **inbox_end;
    int64_t n_submitted, n_rejected, n_queued,
        n_places; /* places: samples that could start */
    bool woken;
    const ig_request *longest; /* has half of the rows of the step that runs; else NULL */
    ig_engine_stats shown;
    int64_t residence_ns; /* of requests, smoothed; 0: none has ended */
};

/* ---- requests and samples (engine_request.c, engine_sample.c) ---- */

ig_status ig__request_check(const ig_engine *engine, const ig_request_opts *opts,
                            ig_error *err);
ig_status ig__request_create(ig_request **request_out, ig_engine *engine,
                             const ig_request_opts *opts, ig_error *err);
void ig__request_drop(ig_request *request); /* one reference */
static inline bool ig__request_is_cancelled(const ig_request *r)
{
    return __atomic_load_n(&r->cancelled, __ATOMIC_RELAXED) != 0;
}

/* Sampler, answer and room for its tokens. */
ig_status ig__sample_begin(ig__sample *sample, ig_error *err);
/* Draw its next token from the logits; any thread, since it touches the sample alone. */
void ig__sample_choose(ig__sample *sample, const float *logits);
/* Take the token that was drawn, and tell. */
void ig__sample_go_on(ig_engine *engine, ig__sample *sample, const float *logits);
/* Take it from where it is, give its pages back, and tell. */
void ig__sample_finish(ig_engine *engine, ig__sample *sample, ig_finish finish,
                       const ig_error *error);

static inline int64_t ig__sample_n_tokens(const ig__sample *s)
{
    return s->request->opts.n_prompt + s->n_generated;
}
/* Tokens that are to be fed before the next draw; >= 1 while it runs, but inside a step. */
static inline int64_t ig__sample_n_left(const ig__sample *s)
{
    return ig__sample_n_tokens(s) - s->seq->length;
}

/* ---- who runs (engine_queue.c) ---- */

void ig__engine_enqueue(ig_engine *engine, ig__sample *sample); /* into waiting, by rank */
void ig__engine_remove(ig_engine *engine, ig__sample *sample);  /* from where it is */
void ig__engine_preempt(ig_engine *engine, ig__sample *sample);
void ig__engine_admit(ig_engine *engine); /* start what the free pages allow */
/* Pages that the sample has filled become known; ones that are known are taken instead. */
void ig__engine_learn(ig_engine *engine, ig__sample *sample);
/* Take pages of the tokens that come next from the cache; how many tokens that are. */
int64_t ig__engine_take_known(ig_engine *engine, ig__sample *sample);
/* Is the sample within a page that it will fill with tokens it has, behind known ones? */
bool ig__engine_is_in_page(const ig__sample *sample);
/* Will `by`, as it goes on, fill the page that the sample would compute next? Then the sample
 * may wait, and take that page from the cache. */
bool ig__engine_computes_next(const ig_engine *engine, const ig__sample *by,
                              const ig__sample *sample);
/* For a sample that runs alone in a pool without a page for the copy of its last, which is
 * known: it gives that page back and computes it again. */
void ig__engine_compute_last_page(ig__sample *sample);

/* ---- the step (engine_step.c) ---- */

void ig__engine_run(ig_engine *engine); /* some samples run */

/* ---- speed (engine_speed.c) ---- */

void ig__speed_init(ig__speed *speed, const ig_engine_opts *opts, const ig_model_info *info,
                    int n_threads);
/* n_rows behind `position` keys. */
ig__work ig__speed_work(const ig__speed *speed, int64_t n_rows, int64_t n_logits,
                        int64_t position);
double ig__speed_cost(const ig__speed *speed, ig__work work);
/* What the next step may cost. */
double ig__speed_budget(const ig__speed *speed);
/* Rows as they may be: from least to most. */
int64_t ig__speed_rows(const ig__speed *speed, double rows);
/* A step of that work, with rows of prompts, took so long. */
void ig__speed_learn(ig__speed *speed, ig__work work, int64_t ns);

#endif
