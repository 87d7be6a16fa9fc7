/* The runner: from parts of sequences to the batch of a plan, and back to logits. */
#include "infer/sequence.h"

#include "base/error.h"

#include <string.h>

enum { MAX_TOKENS = 4096, MAX_SEQUENCES = 256 };

/* ---- making --------------------------------------------------------------------------------- */

static ig_status fill_opts(ig_runner_opts *o, const ig_model *m, ig_error *err)
{
    if (!o->context)
        o->context = m->config.context < 4096 ? m->config.context : 4096;
    if (!o->pool_tokens)
        o->pool_tokens = o->context;
    if (!o->max_tokens)
        o->max_tokens = 512;
    if (!o->max_sequences)
        o->max_sequences = 16;
    if (!o->max_logits)
        o->max_logits = 16;
    const struct {
        const char *name;
        int64_t value, least, most;
    } checks[] = {
        {"context", o->context, 1, (int64_t)1 << 24},
        {"pool_tokens", o->pool_tokens, 1, (int64_t)1 << 30},
        {"max_tokens", o->max_tokens, 1, MAX_TOKENS},
        {"max_sequences", o->max_sequences, 1, MAX_SEQUENCES},
        {"max_logits", o->max_logits, 1, MAX_TOKENS},
        {"kv", (int64_t)o->kv, 0, IG__KV_COUNT - 1},
    };
    for (size_t i = 0; i < sizeof checks / sizeof *checks; i++)
        if (checks[i].value < checks[i].least || checks[i].value > checks[i].most)
            return ig__fail(err, IG_ERR_ARGUMENT,
                            "runner: %s is %lld, allowed is %lld to %lld", checks[i].name,
                            (long long)checks[i].value, (long long)checks[i].least,
                            (long long)checks[i].most);
    IG_TRY(ig__pages_tokens(&o->page_tokens, o->page_tokens, "runner", err));
    if (o->max_tokens > o->pool_tokens)
        o->max_tokens = o->pool_tokens;
    if (o->max_logits > o->max_tokens)
        o->max_logits = o->max_tokens;
    return IG_OK;
}

static ig_status make_parts(ig_runner *r, ig_error *err)
{
    ig_model *m = r->model;
    const ig_allocator *a = &m->ctx->allocator;
    IG_TRY(fill_opts(&r->opts, m, err));
    const ig__plan_opts plan = {.max_tokens = r->opts.max_tokens,
                                .max_logits = r->opts.max_logits,
                                .max_keys = r->opts.context};
    IG_TRY(ig__pages_init(&r->pages, a, &m->config, (ig__kv)r->opts.kv, r->opts.page_tokens,
                          r->opts.pool_tokens, err));
    IG_TRY(ig__plan_create(&r->plan, m->ctx, &m->graph, &plan, err));
    const size_t n = (size_t)r->opts.max_tokens;
    r->tokens = ig__alloc(a, n * sizeof *r->tokens);
    r->positions = ig__alloc(a, n * sizeof *r->positions);
    r->logit_rows = ig__alloc(a, n * sizeof *r->logit_rows);
    r->tables = ig__alloc(a, n * sizeof *r->tables);
    r->units = ig__alloc(a, n * sizeof *r->units);
    if (!r->tokens || !r->positions || !r->logit_rows || !r->tables || !r->units)
        return ig__fail_memory(err, "runner", n * sizeof *r->units);
    return IG_OK;
}

ig_status ig_runner_create(ig_runner **runner_out, ig_model *model,
                           const ig_runner_opts *opts, ig_error *err)
{
    *runner_out = NULL;
    ig_runner *r = ig__alloc_zero(&model->ctx->allocator, sizeof *r);
    if (!r)
        return ig__fail_memory(err, "runner", sizeof *r);
    r->model = model;
    if (opts)
        r->opts = *opts;
    const ig_status status = make_parts(r, err);
    if (status != IG_OK) {
        ig_runner_destroy(r);
        return status;
    }
    *runner_out = r;
    return IG_OK;
}

void ig_runner_destroy(ig_runner *r)
{
    if (!r)
        return;
    const ig_allocator *a = &r->model->ctx->allocator;
    ig__plan_destroy(r->plan);
    ig__pages_fini(&r->pages);
    ig__free(a, r->tokens);
    ig__free(a, r->positions);
    ig__free(a, r->logit_rows);
    ig__free(a, r->tables);
    ig__free(a, r->units);
    ig__free(a, r);
}

ig_model *ig_runner_model(const ig_runner *r)
{
    return r->model;
}

int64_t ig_runner_context(const ig_runner *r)
{
    return r->opts.context;
}

int64_t ig_runner_max_tokens(const ig_runner *r)
{
    return r->opts.max_tokens;
}

int64_t ig_runner_max_logits(const ig_runner *r)
{
    return r->opts.max_logits;
}

size_t ig_runner_kv_bytes(const ig_runner *r)
{
    return r->pages.bytes;
}

size_t ig_runner_kv_bytes_a_token(const ig_runner *r)
{
    return r->pages.page_bytes / (size_t)r->pages.page_tokens;
}

int64_t ig_runner_free_tokens(const ig_runner *r)
{
    return ig__pages_available(&r->pages) * r->pages.page_tokens;
}

/* ---- a step ----------------------------------------------------------------------------------- */

static ig_status check_parts(const ig_runner *r, const ig_step_part *parts, int64_t n_parts,
                             ig_error *err)
{
    int64_t n_tokens = 0, n_logits = 0;
    if (n_parts < 1 || n_parts > r->opts.max_sequences)
        return ig__fail(err, IG_ERR_ARGUMENT, "step: %lld sequences, allowed is 1 to %lld",
                        (long long)n_parts, (long long)r->opts.max_sequences);
    for (int64_t i = 0; i < n_parts; i++) {
        const ig_step_part *p = &parts[i];
        if (p->n_tokens < 1 || p->n_logits < 0 || p->n_logits > p->n_tokens)
            return ig__fail(err, IG_ERR_ARGUMENT,
                            "step: part %lld has %lld tokens, %lld logits", (long long)i,
                            (long long)p->n_tokens, (long long)p->n_logits);
        if (p->n_tokens > r->opts.max_tokens - n_tokens ||
            p->n_logits > r->opts.max_logits - n_logits)
            return ig__fail(err, IG_ERR_LIMIT,
                            "step: more than %lld tokens or %lld rows of logits",
                            (long long)r->opts.max_tokens, (long long)r->opts.max_logits);
        n_tokens += p->n_tokens;
        n_logits += p->n_logits;
        for (int64_t j = 0; j < i; j++)
            if (parts[j].seq == p->seq)
                return ig__fail(err, IG_ERR_ARGUMENT,
                                "step: parts %lld and %lld are one sequence", (long long)j,
                                (long long)i);
        for (int64_t t = 0; t < p->n_tokens; t++)
            if (p->tokens[t] < 0 || p->tokens[t] >= r->model->config.vocab)
                return ig__fail(err, IG_ERR_ARGUMENT,
                                "step: token %d, the vocabulary has %lld", p->tokens[t],
                                (long long)r->model->config.vocab);
    }
    return IG_OK;
}

/* Rows of one part into the batch. */
static void add_part(ig_runner *r, ig__batch *b, const ig_step_part *p)
{
    const int64_t position = p->seq->length;
    for (int64_t t = 0; t < p->n_tokens; t++) {
        r->tokens[b->n_tokens + t] = p->tokens[t];
        r->positions[b->n_tokens + t] = (int32_t)(position + t);
        r->tables[b->n_tokens + t] = p->seq->table;
    }
    for (int64_t t = 0; t < p->n_tokens; t += IG_TILE) {
        const int64_t left = p->n_tokens - t;
        r->units[b->n_units++] =
            (ig__attend_unit){.row = b->n_tokens + t,
                              .n_rows = left < IG_TILE ? left : IG_TILE,
                              .position = position + t,
                              .table = p->seq->table};
    }
    for (int64_t t = p->n_tokens - p->n_logits; t < p->n_tokens; t++)
        r->logit_rows[b->n_logits++] = (int32_t)(b->n_tokens + t);
    b->n_tokens += p->n_tokens;
    const int64_t spans = (position + p->n_tokens + IG_KEY_SPAN - 1) / IG_KEY_SPAN;
    if (spans > b->n_spans)
        b->n_spans = spans;
}

static void make_batch(ig_runner *r, ig__batch *b, const ig_step_part *parts,
                       int64_t n_parts)
{
    *b = (ig__batch){.inputs = {r->tokens, r->positions, r->logit_rows},
                     .tables = r->tables,
                     .cache = &r->pages.cache,
                     .units = r->units};
    for (int64_t i = 0; i < n_parts; i++)
        add_part(r, b, &parts[i]);
    const int n_threads = ig__team_size(r->model->ctx->team);
    /* few rows over many keys: cut them, so that the threads' parts are even */
    b->split = b->n_spans > 1 && b->n_tokens <= IG_SPLIT_ROWS &&
               b->n_units * b->cache->n_heads < 8 * n_threads;
    if (!b->split)
        b->n_spans = 1;
}

ig_status ig_runner_step(ig_runner *r, const ig_step_part *parts, int64_t n_parts,
                         const volatile int *cancelled, ig_error *err)
{
    IG_TRY(check_parts(r, parts, n_parts, err));
    ig_status status = IG_OK;
    int64_t n_grown = 0;
    while (n_grown < n_parts && status == IG_OK) {
        status = ig__sequence_grow(parts[n_grown].seq, parts[n_grown].n_tokens, err);
        n_grown += status == IG_OK;
    }
    if (status == IG_OK) {
        ig__batch batch;
        make_batch(r, &batch, parts, n_parts);
        r->n_logits = batch.n_logits;
        status = ig__plan_run(r->plan, &batch, cancelled, err);
    }
    if (status == IG_OK) {
        for (int64_t i = 0; i < n_parts; i++)
            parts[i].seq->length += parts[i].n_tokens;
        r->logits = ig__plan_output(r->plan);
        return IG_OK;
    }
    r->n_logits = 0;
    for (int64_t i = 0; i < n_grown; i++)
        ig__sequence_shrink(parts[i].seq);
    return status;
}

float *ig_runner_logits(ig_runner *r, int64_t i)
{
    return i >= 0 && i < r->n_logits ? r->logits + i * r->model->config.vocab : NULL;
}

ig_runner_stats ig_runner_get_stats(const ig_runner *r)
{
    const ig__plan_stats s = ig__plan_get_stats(r->plan);
    const size_t n_threads = (size_t)ig__team_size(r->model->ctx->team);
    return (ig_runner_stats){
        .n_steps = s.n_steps,
        .n_barriers_small = s.n_barriers_small,
        .n_barriers_large = s.n_barriers_large,
        .activation_bytes =
            s.shared_bytes + n_threads * (s.private_bytes + s.scratch_bytes),
    };
}
