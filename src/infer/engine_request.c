/* Requests: checked, copied, counted. */
#include "infer/engine_int.h"

#include "base/clock.h"
#include "base/error.h"

#include <string.h>

ig_request_opts ig_request_defaults(void)
{
    return (ig_request_opts){
        .sampler = ig_sampler_defaults(), .n = 1, .max_tokens = -1, .n_logprobs = -1};
}

/* ---- checks ---- */

static ig_status check_prompt(const ig_engine *e, const ig_request_opts *o, ig_error *err)
{
    const int64_t vocab = e->model->info.vocab;
    if (o->n_prompt < 1 || !o->prompt)
        return ig__fail(err, IG_ERR_ARGUMENT, "request: the prompt is empty");
    if (o->n_prompt > e->opts.context)
        return ig__fail(err, IG_ERR_LIMIT,
                        "request: the prompt has %lld tokens, the context holds %lld",
                        (long long)o->n_prompt, (long long)e->opts.context);
    if (o->n_prompt == e->opts.context && o->max_tokens != 0)
        return ig__fail(err, IG_ERR_LIMIT,
                        "request: the prompt has %lld tokens and fills the context, "
                        "nothing is left for an answer",
                        (long long)o->n_prompt);
    for (int64_t i = 0; i < o->n_prompt; i++)
        if (o->prompt[i] < 0 || o->prompt[i] >= vocab)
            return ig__fail(err, IG_ERR_ARGUMENT,
                            "request: token %d (number %lld), allowed is [0, %lld)",
                            (int)o->prompt[i], (long long)i, (long long)vocab);
    return IG_OK;
}

static ig_status check_numbers(const ig_request_opts *o, ig_error *err)
{
    const struct {
        const char *name;
        int64_t value, least, most;
    } checks[] = {
        {"n", o->n, 1, IG_MAX_SAMPLES},
        {"max_tokens", o->max_tokens, -1, INT64_MAX},
        {"n_logprobs", o->n_logprobs, -1, INT32_MAX},
        {"deadline_ns", o->deadline_ns, 0, INT64_MAX},
    };
    for (size_t i = 0; i < sizeof checks / sizeof *checks; i++)
        if (checks[i].value < checks[i].least || checks[i].value > checks[i].most)
            return ig__fail(err, IG_ERR_ARGUMENT,
                            "request: %s is %lld, allowed is %lld to %lld", checks[i].name,
                            (long long)checks[i].value, (long long)checks[i].least,
                            (long long)checks[i].most);
    return IG_OK;
}

/* What the sampler and the stop strings say is known when they are made: make them once. */
static ig_status try_parts(const ig_engine *e, const ig_request_opts *o, ig_error *err)
{
    ig__answer answer;
    IG_TRY(ig__answer_init(&answer, e->a, o->stop, o->n_stop, err));
    ig__answer_fini(&answer);
    ig_sampler *sampler;
    IG_TRY(
        ig_sampler_create(&sampler, e->model->ctx, e->model->info.vocab, &o->sampler, err));
    ig_sampler_destroy(sampler);
    return IG_OK;
}

/* ---- copies ---- */

/* [n] items of the caller; NULL: no memory. */
static void *copy_array(const ig_allocator *a, const void *from, int64_t n, size_t item)
{
    size_t bytes;
    void *copy = ig__mul(&bytes, (size_t)n, item) ? ig__alloc(a, bytes) : NULL;
    if (copy && n > 0)
        memcpy(copy, from, bytes);
    return copy;
}

/* Pointers and texts in one block. */
static char **copy_texts(const ig_allocator *a, const char *const *texts, int64_t n)
{
    size_t bytes = (size_t)n * sizeof *texts;
    for (int64_t i = 0; i < n; i++)
        bytes += strlen(texts[i]) + 1;
    char **copies = ig__alloc(a, bytes);
    if (!copies)
        return NULL;
    char *at = (char *)(copies + n);
    for (int64_t i = 0; i < n; i++) {
        const size_t n_text = strlen(texts[i]) + 1;
        copies[i] = memcpy(at, texts[i], n_text);
        at += n_text;
    }
    return copies;
}

static bool copy_parts(ig_request *r)
{
    ig_request_opts *o = &r->opts;
    r->prompt = copy_array(&r->a, o->prompt, o->n_prompt, sizeof *r->prompt);
    r->bias = copy_array(&r->a, o->sampler.bias, o->sampler.n_bias, sizeof *r->bias);
    r->stop = copy_texts(&r->a, o->stop, o->n_stop);
    if (o->n_logprobs > 0)
        r->top = ig__alloc(&r->a, (size_t)o->n_logprobs * sizeof *r->top);
    o->prompt = r->prompt;
    o->sampler.bias = r->bias;
    o->stop = (const char *const *)r->stop;
    return r->prompt && r->bias && r->stop && (r->top || o->n_logprobs <= 0);
}

static void destroy(ig_request *r)
{
    const ig_allocator a = r->a;
    ig__free(&a, r->prompt);
    ig__free(&a, r->bias);
    ig__free(&a, r->stop);
    ig__free(&a, r->top);
    ig__free(&a, r);
}

ig_status ig__request_check(const ig_engine *e, const ig_request_opts *opts, ig_error *err)
{
    IG_TRY(check_prompt(e, opts, err));
    IG_TRY(check_numbers(opts, err));
    return try_parts(e, opts, err);
}

ig_status ig__request_create(ig_request **request_out, ig_engine *e,
                             const ig_request_opts *opts, ig_error *err)
{
    *request_out = NULL;
    const size_t bytes = sizeof(ig_request) + (size_t)opts->n * sizeof(ig__sample);
    ig_request *r = ig__alloc_zero(e->a, bytes);
    if (!r)
        return ig__fail_memory(err, "request", bytes);
    r->a = *e->a;
    r->engine = e;
    r->n_refs = 1;
    r->opts = *opts;
    if (r->opts.n_logprobs > e->model->info.vocab)
        r->opts.n_logprobs = e->model->info.vocab;
    if (!copy_parts(r)) {
        destroy(r);
        return ig__fail_memory(err, "request", (size_t)opts->n_prompt * sizeof *r->prompt);
    }
    r->submit_ns = ig__now_ns();
    if (opts->deadline_ns > 0 && opts->deadline_ns < INT64_MAX - r->submit_ns)
        r->deadline_ns = r->submit_ns + opts->deadline_ns;
    r->n_unfinished = opts->n;
    for (int64_t i = 0; i < opts->n; i++)
        r->samples[i] = (ig__sample){.request = r, .index = i};
    *request_out = r;
    return IG_OK;
}

void ig__request_drop(ig_request *r)
{
    /* acq_rel: the last one sees what the other did before it frees */
    if (__atomic_sub_fetch(&r->n_refs, 1, __ATOMIC_ACQ_REL) == 0)
        destroy(r);
}

void ig_request_release(ig_request *request)
{
    if (request)
        ig__request_drop(request);
}

void ig_request_cancel(ig_request *r)
{
    ig_engine *e = r->engine;
    __atomic_store_n(&r->cancelled, 1, __ATOMIC_RELAXED);
    pthread_mutex_lock(&e->lock);
    if (e->longest == r)
        __atomic_store_n(&e->abandon, 1, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&e->lock);
}
