/* One step of an engine: who gets how many rows, that there are pages for them, the rows
 * computed, and what follows from their logits.
 *
 *     every answer that is being written     1 row
 *     every prompt (or what of an answer     an even share of what the budget leaves, in
 *     has to be computed again)              tiles of 16 rows; who is served first goes round
 *
 * Of prompts that go on with the same page, one computes it and the others take it from the
 * cache in the next step. A short prompt takes as many steps beside a long one as its own
 * share says, whatever came before it. A step that fails is run again part by part, and only
 * those that fail alone end; one that was abandoned for a cancelled request changes nothing,
 * and the next computes the others' rows again.
 */
#include "infer/engine_int.h"

#include "base/clock.h"
#include "base/error.h"

/* ---- rows ---- */

/* Rows that the sample could use: a part's tokens lie in one array. */
static int64_t rows_wanted(const ig__sample *s)
{
    const int64_t n_prompt = s->request->opts.n_prompt;
    return s->seq->length < n_prompt ? n_prompt - s->seq->length : ig__sample_n_left(s);
}

static bool is_decoding(const ig__sample *s)
{
    return s->seq->length >= s->request->opts.n_prompt && ig__sample_n_left(s) == 1;
}

/* What a prompt takes from the cache now, another has computed since it started. */
static void look_up(ig_engine *e, ig__sample *s)
{
    if (s->seq->length >= s->request->opts.n_prompt)
        return;
    const int64_t n = ig__engine_take_known(e, s);
    if (s->index == 0 && !s->preempted) {
        s->request->n_cached += n;
        e->stats.prefix_hits += n;
    }
}

/* Share n_rows out among the prompts, beginning with the one whose turn it is. */
static void share_out(ig_engine *e, ig__sample **prompts, int64_t n_prompts, int64_t n_rows)
{
    int64_t n_hungry = n_prompts;
    while (n_rows > 0 && n_hungry > 0) {
        int64_t share = n_rows / n_hungry / IG_TILE * IG_TILE;
        if (share < IG_TILE)
            share = IG_TILE;
        n_hungry = 0;
        for (int64_t i = 0; i < n_prompts && n_rows > 0; i++) {
            ig__sample *s = prompts[(e->turn + i) % n_prompts];
            int64_t n = rows_wanted(s) - s->n_rows;
            n = n < share ? n : share;
            n = n < n_rows ? n : n_rows;
            s->n_rows += n;
            n_rows -= n;
            n_hungry += s->n_rows < rows_wanted(s);
        }
    }
    e->turn++;
}

/* Does a sample that computes fill the page that this one would begin? */
static bool is_computed(const ig_engine *e, const ig__sample *s)
{
    for (int64_t i = 0; i < e->n_running; i++)
        if (e->running[i]->computes && ig__engine_computes_next(e, e->running[i], s))
            return true;
    return false;
}

/* The prompts that compute something, by rank; the others wait for pages of these. Who has
 * begun a page ends it, whoever is before it. */
static int64_t choose_prompts(ig_engine *e, ig__sample **prompts)
{
    int64_t n = 0;
    for (int64_t i = 0; i < e->n_running; i++)
        e->running[i]->computes =
            !e->running[i]->decodes && ig__engine_is_in_page(e->running[i]);
    for (int64_t i = 0; i < e->n_running; i++) {
        ig__sample *s = e->running[i];
        if (!s->decodes && !s->computes)
            s->computes = !is_computed(e, s);
        if (s->computes)
            prompts[n++] = s;
    }
    return n;
}

static double row_cost(const ig_engine *e, int64_t n_logits, int64_t position)
{
    return ig__speed_cost(&e->speed, ig__speed_work(&e->speed, 1, n_logits, position));
}

/* Rows of prompts that the answers leave room for in the step's time: at least so many that
 * the prompts go on, at most what a step can hold. */
static int64_t rows_for(const ig_engine *e, ig__sample *const *prompts, int64_t n_prompts,
                        int64_t n_decoding)
{
    const int64_t most = e->opts.max_tokens - n_decoding;
    double left = ig__speed_budget(&e->speed);
    for (int64_t i = 0; i < e->n_running; i++)
        if (e->running[i]->decodes)
            left -= row_cost(e, 1, e->running[i]->seq->length);
    int64_t n_rows = 0;
    for (int round = 0; round < 3; round++) { /* the keys that they add themselves count */
        double cost = 0;
        for (int64_t i = 0; i < n_prompts; i++)
            cost += row_cost(e, 0, prompts[i]->seq->length + n_rows / 2 / n_prompts);
        n_rows = ig__speed_rows(&e->speed, left * (double)n_prompts / cost);
    }
    return n_rows < most ? n_rows : most;
}

static void choose_rows(ig_engine *e)
{
    ig__sample *prompts[IG_MAX_RUNNING];
    int64_t n_decoding = 0;
    for (int64_t i = 0; i < e->n_running; i++) {
        ig__sample *s = e->running[i];
        look_up(e, s);
        s->decodes = is_decoding(s);
        s->n_rows = s->decodes;
        n_decoding += s->decodes;
    }
    const int64_t n_prompts = choose_prompts(e, prompts);
    if (n_prompts)
        share_out(e, prompts, n_prompts, rows_for(e, prompts, n_prompts, n_decoding));
}

/* ---- pages ---- */

static int64_t pages_wanted(const ig_engine *e)
{
    int64_t n = 0;
    for (int64_t i = 0; i < e->n_running; i++)
        if (e->running[i]->n_rows)
            n += ig__sequence_pages_for(e->running[i]->seq, e->running[i]->n_rows);
    return n;
}

static void find_pages(ig_engine *e)
{
    while (pages_wanted(e) > ig__pages_available(e->pages)) {
        if (e->n_running > 1) {
            ig__engine_preempt(e, e->running[e->n_running - 1]);
        } else {
            ig__engine_compute_last_page(e->running[0]);
            e->running[0]->n_rows = 0; /* chosen anew by the next step */
        }
    }
}

/* ---- the step ---- */

static void make_parts(ig_engine *e)
{
    e->n_parts = 0;
    for (int64_t i = 0; i < e->n_running; i++) {
        ig__sample *s = e->running[i];
        const int64_t at = s->seq->length, n_prompt = s->request->opts.n_prompt;
        if (!s->n_rows)
            continue;
        const bool all = s->n_rows == ig__sample_n_left(s);
        e->stepped[e->n_parts] = s;
        e->parts[e->n_parts++] =
            (ig_step_part){.seq = s->seq,
                           .tokens = at < n_prompt ? s->request->prompt + at
                                                   : s->generated + at - n_prompt,
                           .n_tokens = s->n_rows,
                           .n_logits = all && s->cap > 0};
    }
}

static void count_step(ig_engine *e, int64_t first, int64_t n, int64_t ns)
{
    const ig_model_info *info = &e->model->info;
    int64_t n_rows = 0, n_logits = 0, n_decode = 0;
    ig__work work = {0};
    for (int64_t i = first; i < first + n; i++) {
        const ig_step_part *part = &e->parts[i];
        const ig__work w = ig__speed_work(&e->speed, part->n_tokens, part->n_logits,
                                          part->seq->length - part->n_tokens);
        work.rows += w.rows;
        work.keys += w.keys;
        n_rows += part->n_tokens;
        n_logits += part->n_logits;
        n_decode += e->stepped[i]->decodes;
    }
    const bool prompt = n_decode < n_rows;
    const double ops = (double)n_rows * info->token_ops + (double)n_logits * info->head_ops;
    ig_engine_stats *s = &e->stats;
    s->n_steps++;
    s->last_step_ns = ns;
    s->last_step_rows = n_rows;
    s->decode_tokens += n_decode;
    s->prompt_tokens += n_rows - n_decode;
    *(prompt ? &s->prompt_ns : &s->decode_ns) += ns;
    *(prompt ? &s->prompt_bytes : &s->decode_bytes) += (double)info->step_bytes;
    *(prompt ? &s->prompt_ops : &s->decode_ops) += ops;
    if (prompt)
        ig__speed_learn(&e->speed, work, ns);
}

typedef struct choices {
    ig_engine *engine;
    ig__sample *sample[IG_MAX_RUNNING]; /* [n] by row of logits */
    int64_t n, next; /* next: atomic, relaxed: it hands out indices, it publishes nothing */
} choices;

static void choose_job(void *arg, int i_thread, int n_threads)
{
    (void)i_thread;
    (void)n_threads;
    choices *c = arg;
    int64_t i;
    while ((i = __atomic_fetch_add(&c->next, 1, __ATOMIC_RELAXED)) < c->n)
        ig__sample_choose(c->sample[i], ig_runner_logits(c->engine->runner, i));
}

/* Draws of all parts that have logits: on all threads, since each touches its sample alone. */
static void choose(ig_engine *e, int64_t first, int64_t n)
{
    choices c = {.engine = e};
    for (int64_t i = first; i < first + n; i++)
        if (e->parts[i].n_logits)
            c.sample[c.n++] = e->stepped[i];
    if (c.n > 1)
        ig__team_share(e->model->ctx->team, choose_job, &c);
    else
        choose_job(&c, 0, 1);
}

/* The samples' sequences have their rows: pages that are full, tokens to draw. */
static void after_rows(ig_engine *e, int64_t first, int64_t n)
{
    int64_t i_logits = 0;
    for (int64_t i = first; i < first + n; i++)
        ig__engine_learn(e, e->stepped[i]);
    choose(e, first, n);
    for (int64_t i = first; i < first + n; i++) {
        ig__sample *s = e->stepped[i];
        s->n_rows = 0;
        if (e->parts[i].n_logits)
            ig__sample_go_on(e, s, ig_runner_logits(e->runner, i_logits++));
        else if (ig__sample_n_left(s) == 0) /* no token was asked for */
            ig__sample_finish(e, s, IG_FINISH_LENGTH, NULL);
    }
}

/* Compute parts [first, first + n). */
static ig_status run_parts(ig_engine *e, int64_t first, int64_t n, ig_error *err)
{
    const int64_t begin_ns = ig__now_ns();
    IG_TRY(ig_runner_step(e->runner, e->parts + first, n, &e->abandon, err));
    count_step(e, first, n, ig__now_ns() - begin_ns);
    after_rows(e, first, n);
    return IG_OK;
}

/* Who is worth a step that is abandoned; nobody has less than half of the rows. */
static const ig_request *longest_of(const ig_engine *e)
{
    int64_t n_rows = 0;
    const ig_step_part *most = &e->parts[0];
    const ig_request *longest = e->stepped[0]->request;
    for (int64_t i = 0; i < e->n_parts; i++) {
        n_rows += e->parts[i].n_tokens;
        if (e->parts[i].n_tokens > most->n_tokens) {
            most = &e->parts[i];
            longest = e->stepped[i]->request;
        }
    }
    return 2 * most->n_tokens >= n_rows ? longest : NULL;
}

static void run_all(ig_engine *e)
{
    ig_error error;
    pthread_mutex_lock(&e->lock);
    e->longest = longest_of(e);
    /* relaxed: the flag publishes nothing but itself */
    const bool late = e->longest && ig__request_is_cancelled(e->longest);
    __atomic_store_n(&e->abandon, late, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&e->lock);
    ig_status status = run_parts(e, 0, e->n_parts, &error);
    pthread_mutex_lock(&e->lock);
    e->longest = NULL;
    __atomic_store_n(&e->abandon, 0, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&e->lock);
    if (status == IG_ERR_CANCELLED) {
        e->stats.n_abandoned++;
        return;
    }
    for (int64_t i = 0; status != IG_OK && i < e->n_parts; i++)
        if (run_parts(e, i, 1, &error) != IG_OK)
            ig__sample_finish(e, e->stepped[i], IG_FINISH_ERROR, &error);
}

void ig__engine_run(ig_engine *e)
{
    choose_rows(e);
    find_pages(e);
    make_parts(e);
    if (e->n_parts)
        run_all(e);
}
