/* Who runs: the waiting list, starting by free pages, preempting, and the pages that samples
 * share.
 *
 * A sample starts when there are pages for all its tokens beyond what the running ones still
 * need for theirs, and some more, since these grow. First come, first served within a
 * priority: nobody passes a sample that waits for pages. The samples of a request that follow
 * its first wait until that one has computed the prompt, and then share its pages. When pages
 * run out the last in rank is preempted: its pages go (the prefix cache may still have them
 * when it starts again) and its tokens so far are fed again. Only the order of work changes,
 * so its answer does not. The first in rank is never preempted, and a context never needs
 * more pages than there are: so there is always progress.
 */
#include "infer/engine_int.h"

#include "base/clock.h"

#include <string.h>

/* ---- rank and lists ---- */

static bool goes_before(const ig__sample *a, const ig__sample *b)
{
    const ig_request *r = a->request, *s = b->request;
    if (r->opts.priority != s->opts.priority)
        return r->opts.priority > s->opts.priority;
    if (r->number != s->number)
        return r->number < s->number;
    return a->index < b->index;
}

void ig__engine_enqueue(ig_engine *e, ig__sample *sample)
{
    ig__sample *before = e->last; /* most come last */
    while (before && goes_before(sample, before))
        before = before->before;
    sample->before = before;
    sample->after = before ? before->after : e->first;
    *(before ? &before->after : &e->first) = sample;
    *(sample->after ? &sample->after->before : &e->last) = sample;
    e->n_waiting++;
}

static void unqueue(ig_engine *e, ig__sample *sample)
{
    *(sample->before ? &sample->before->after : &e->first) = sample->after;
    *(sample->after ? &sample->after->before : &e->last) = sample->before;
    sample->before = sample->after = NULL;
    e->n_waiting--;
}

static void give_sequence_back(ig_engine *e, ig__sample *sample)
{
    ig_sequence_cut(sample->seq, 0);
    ig__sequence_shrink(sample->seq);
    e->idle[e->n_idle++] = sample->seq;
    sample->seq = NULL;
    sample->n_known = sample->n_rows = 0;
}

void ig__engine_remove(ig_engine *e, ig__sample *sample)
{
    if (!sample->seq) {
        unqueue(e, sample);
        return;
    }
    int64_t i = 0;
    while (e->running[i] != sample)
        i++;
    e->n_running--;
    memmove(&e->running[i], &e->running[i + 1],
            (size_t)(e->n_running - i) * sizeof *e->running);
    give_sequence_back(e, sample);
}

void ig__engine_preempt(ig_engine *e, ig__sample *sample)
{
    ig__engine_remove(e, sample);
    ig__engine_enqueue(e, sample);
    sample->preempted = true;
    e->stats.n_preempted++;
}

static void run(ig_engine *e, ig__sample *sample)
{
    unqueue(e, sample);
    int64_t i = e->n_running++;
    for (; i > 0 && goes_before(sample, e->running[i - 1]); i--)
        e->running[i] = e->running[i - 1];
    e->running[i] = sample;
}

/* ---- shared pages ---- */

static int64_t page_tokens(const ig__sample *s)
{
    return s->seq->runner->pages.page_tokens;
}

static void read_tokens(int32_t *tokens, const ig__sample *s, int64_t i_page)
{
    const int64_t n_prompt = s->request->opts.n_prompt, n = page_tokens(s);
    for (int64_t i = 0; i < n; i++) {
        const int64_t at = i_page * n + i;
        tokens[i] = at < n_prompt ? s->request->prompt[at] : s->generated[at - n_prompt];
    }
}

static int32_t parent_of(const ig_sequence *seq, int64_t i_page)
{
    return i_page ? ig__sequence_page(seq, i_page - 1) : IG_NO_PAGE;
}

void ig__engine_learn(ig_engine *e, ig__sample *s)
{
    ig_sequence *seq = s->seq;
    for (; e->prefix && s->n_known < seq->length / page_tokens(s); s->n_known++) {
        int32_t tokens[IG_MAX_PAGE];
        read_tokens(tokens, s, s->n_known);
        const int32_t own = ig__sequence_page(seq, s->n_known);
        const int32_t known =
            ig__prefix_add(e->prefix, parent_of(seq, s->n_known), tokens, own);
        if (known != own) {
            ig__pages_retain(e->pages, known);
            ig__sequence_set_page(seq, s->n_known, known);
            ig__pages_drop(e->pages, own);
        }
    }
}

/* At the start of a page that the cache would find? */
static bool at_page(const ig__sample *s)
{
    const int64_t n = page_tokens(s), length = s->seq->length;
    return length % n == 0 && s->n_known == length / n && ig__sample_n_left(s) > n;
}

int64_t ig__engine_take_known(ig_engine *e, ig__sample *s)
{
    ig_sequence *seq = s->seq;
    const int64_t begin = seq->length;
    while (e->prefix && at_page(s)) { /* one token at least is computed */
        int32_t tokens[IG_MAX_PAGE];
        read_tokens(tokens, s, s->n_known);
        const int32_t page = ig__prefix_find(e->prefix, parent_of(seq, s->n_known), tokens);
        if (page == IG_NO_PAGE)
            break;
        ig__sequence_adopt(seq, page);
        s->n_known++;
    }
    return seq->length - begin;
}

bool ig__engine_is_in_page(const ig__sample *s)
{
    const int64_t n = page_tokens(s), i_page = s->seq->length / n;
    return s->seq->length % n != 0 && s->n_known == i_page &&
           ig__sample_n_tokens(s) >= (i_page + 1) * n;
}

bool ig__engine_computes_next(const ig_engine *e, const ig__sample *by, const ig__sample *s)
{
    const int64_t i_page = s->n_known;
    if (!e->prefix || !at_page(s) || by->seq->length / page_tokens(s) != i_page ||
        !(at_page(by) || ig__engine_is_in_page(by)) ||
        parent_of(by->seq, i_page) != parent_of(s->seq, i_page))
        return false;
    int32_t tokens[2][IG_MAX_PAGE];
    read_tokens(tokens[0], by, i_page);
    read_tokens(tokens[1], s, i_page);
    return memcmp(tokens[0], tokens[1], (size_t)page_tokens(s) * sizeof **tokens) == 0;
}

/* Another sample of the request that runs: with the prompt but its last token, if `ready`. */
static const ig__sample *sibling(const ig__sample *s, bool ready)
{
    const ig_request *r = s->request;
    for (int64_t i = 0; i < r->opts.n; i++) {
        const ig__sample *other = &r->samples[i];
        if (other->seq && other != s &&
            (other->seq->length >= r->opts.n_prompt - 1) == ready)
            return other;
    }
    return NULL;
}

static void share_prompt(ig_engine *e, ig__sample *s)
{
    ig__engine_take_known(e, s);
    const int64_t wanted = s->request->opts.n_prompt - 1;
    const ig__sample *from = sibling(s, true);
    if (!from || s->seq->length >= wanted)
        return;
    ig_sequence_cut(s->seq, 0);
    ig__sequence_share(s->seq, from->seq, wanted);
    const int64_t whole = wanted / page_tokens(s);
    s->n_known = from->n_known < whole ? from->n_known : whole;
}

/* ---- starting ---- */

/* Pages that the running samples still need for the tokens that they have. */
static int64_t promised(const ig_engine *e)
{
    int64_t n = 0;
    for (int64_t i = 0; i < e->n_running; i++)
        n += ig__sequence_pages_for(e->running[i]->seq, ig__sample_n_left(e->running[i]));
    return n;
}

static void count_start(ig_engine *e, ig__sample *s)
{
    ig_request *r = s->request;
    if (r->start_ns)
        return;
    r->start_ns = ig__now_ns();
    r->n_cached = s->seq->length;
    e->stats.prefix_queries += e->prefix ? r->opts.n_prompt : 0;
    e->stats.prefix_hits += r->n_cached;
    pthread_mutex_lock(&e->lock);
    e->n_queued--;
    pthread_mutex_unlock(&e->lock);
}

void ig__engine_compute_last_page(ig__sample *s)
{
    const int64_t n = page_tokens(s);
    ig_sequence_cut(s->seq, s->seq->length / n * n);
}

/* False: there are not enough pages. */
static bool start(ig_engine *e, ig__sample *s)
{
    s->seq = e->idle[--e->n_idle];
    share_prompt(e, s);
    const int64_t need = ig__sequence_pages_for(s->seq, ig__sample_n_left(s));
    const int64_t available = ig__pages_available(e->pages);
    if (e->n_running == 0 && need > available) {
        ig__engine_compute_last_page(s);
    } else if (e->n_running > 0 && need + promised(e) + e->n_running / 4 > available) {
        give_sequence_back(e, s);
        return false;
    }
    count_start(e, s);
    run(e, s);
    return true;
}

/* Get the sample going: false if it has to wait. */
static bool start_or_fail(ig_engine *e, ig__sample *s)
{
    if (e->n_running == e->opts.max_running)
        return false;
    ig_error error;
    if (!s->begun && ig__sample_begin(s, &error) != IG_OK) {
        ig__sample_finish(e, s, IG_FINISH_ERROR, &error);
        return true;
    }
    return start(e, s);
}

void ig__engine_admit(ig_engine *e)
{
    ig__sample *s = e->first;
    while (s) {
        ig__sample *after = s->after;
        const bool prompt_is_computed = sibling(s, false) && !sibling(s, true);
        if (prompt_is_computed || start_or_fail(e, s)) {
            s = after;
            continue;
        }
        ig__sample *lowest = e->n_running ? e->running[e->n_running - 1] : NULL;
        if (!lowest || lowest->request->opts.priority >= s->request->opts.priority)
            break;
        ig__engine_preempt(e, lowest);
    }
}
