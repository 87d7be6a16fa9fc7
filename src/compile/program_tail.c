/* An elementwise step that reads the result of a row of units (a norm, softmax) becomes the row's tail: it runs
 * unit by unit, on what is still near the core (src/op/tail.h).
 *
 *   before                       after
 *   y = layer_norm(x, g, b)      z = tail(layer_norm, gelu)(x, g, b)    y lies where z does,
 *   z = gelu(y)                                                         or stays, if wanted
 *
 * Either may be moved to the other past steps that neither touches. The chain may not write what
 * the head reads, nor read what others of its units write.
 */
#include "compile/program_pass.h"
#include "op/tail.h"

#include <string.h>

enum {
    WINDOW = 24,
    LEAST = 4096
}; /* steps to look ahead; elements from which on it pays */

typedef struct pair {
    int32_t head, chain; /* steps */
    int use;             /* of the chain: the head's result */
} pair;

/* May the step be a head? Its result is whole and its own. */
static bool is_head(const ig_program *p, const ig__program_step *s)
{
    if (!s->op || s->once || !s->op->done || s->e.n_out != 1 || s->e.out[0].n < LEAST ||
        !ig__program_whole(p, s, s->e.n_in) || s->op->done(&s->e, 1) < 0)
        return false;
    for (int i = 0; i < s->e.n_in; i++)
        if (s->uses[i].storage == s->uses[s->e.n_in].storage)
            return false;
    return true;
}

/* May elements of the step be done as soon as those of the head's result are there? Its use of
 * the result in *use. */
static bool is_tail(const ig_program *p, const ig__program_step *h,
                    const ig__program_step *s, int *use)
{
    const int32_t result = h->uses[h->e.n_in].storage;
    if (!s->op || s->once || !(s->op == &ig__op_chain || ig__is_link(s->op, &s->e)) ||
        s->e.out[0].n != h->e.out[0].n || s->e.n_out >= IG_MAX_OUTPUTS ||
        s->e.n_in + h->e.n_in > IG_MAX_INPUTS)
        return false;
    *use = -1;
    for (int k = 0; k < ig__program_n_uses(s); k++) {
        if (k >= s->e.n_in) {
            for (int i = 0; i <= h->e.n_in; i++)
                if (h->uses[i].storage == s->uses[k].storage)
                    return false;
        } else if (s->uses[k].storage == result) {
            if (*use >= 0 || !ig__program_whole(p, s, k))
                return false;
            *use = k;
        }
    }
    return *use >= 0;
}

static ig__program_step *as_chain(ig_program *p, const ig__touch *t, ig__program_step *s)
{
    return s->op == &ig__op_chain ? s : ig__program_weld(p, t, &s, 1);
}

/* The two as one step. The head's result is its last; NULL: no memory. */
static ig__program_step *weld_pair(ig_program *p, const ig__touch *t, const pair *at)
{
    const ig__program_step *h = p->steps[at->head];
    const int32_t result = h->uses[h->e.n_in].storage;
    const ig__program_step *c = as_chain(p, t, p->steps[at->chain]);
    ig__program_step *step = ig__arena_alloc(&p->arena, sizeof *step);
    ig__tail *tail = ig__arena_alloc(&p->arena, sizeof *tail);
    if (!c || !step || !tail)
        return NULL;
    step->uses =
        ig__arena_alloc(&p->arena, (IG_MAX_INPUTS + IG_MAX_OUTPUTS) * sizeof *step->uses);
    if (!step->uses)
        return NULL;
    *tail = (ig__tail){h->op, h->e.attrs, c->e.attrs, h->e.n_in, {0}};
    ig__eval *e = &step->e;
    *e = (ig__eval){.k = h->e.k,
                    .t = h->e.t,
                    .attrs = tail,
                    .n_threads = h->e.n_threads,
                    .first = true};
    step->op = &ig__op_tail;
    for (int i = 0; i < h->e.n_in; i++) {
        step->uses[e->n_in] = h->uses[i];
        e->in[e->n_in++] = h->e.in[i];
    }
    for (int i = 0; i < c->e.n_in; i++) {
        tail->from[i] = c->uses[i].storage == result ? -1 : e->n_in;
        if (tail->from[i] < 0)
            continue;
        step->uses[e->n_in] = c->uses[i];
        e->in[e->n_in++] = c->e.in[i];
    }
    for (int i = 0; i < c->e.n_out; i++) {
        step->uses[e->n_in + e->n_out] = c->uses[c->e.n_in + i];
        e->out[e->n_out++] = c->e.out[i];
    }
    step->uses[e->n_in + e->n_out] = h->uses[h->e.n_in];
    e->out[e->n_out++] = h->e.out[0];
    return step;
}

/* Where nobody else wants the head's result, it is written where a result of the chain goes: the last link
 * that reads it comes no later than the one that writes there. */
static void share_place(const ig_program *p, const ig__touch *t, ig__program_step *step)
{
    const ig__tail *tail = step->e.attrs;
    const int last = ig__program_n_uses(step) - 1;
    const int32_t own = step->uses[last].storage;
    if (p->storages[own].s || t[own].n_uses != 2)
        return;
    int reading = 0;
    for (int i = 0; i < tail->chain->n_operands; i++)
        for (int l = 0; tail->from[i] < 0 && l < tail->chain->n_links; l++)
            for (int j = 0; j < tail->chain->links[l].n_in; j++)
                if (tail->chain->links[l].in[j] == i)
                    reading = l;
    for (int l = reading; l < tail->chain->n_links; l++) {
        const int out = tail->chain->links[l].out;
        if (out < 0)
            continue;
        const int k = step->e.n_in + out;
        const int32_t to = step->uses[k].storage;
        bool is_read = false;
        for (int i = 0; i < step->e.n_in; i++)
            is_read |= step->uses[i].storage == to;
        if (is_read || !ig__program_whole(p, step, k) ||
            p->storages[to].bytes != p->storages[own].bytes ||
            step->e.out[out].type->dtype != step->e.out[step->e.n_out - 1].type->dtype)
            continue;
        step->uses[last].storage = to;
        return;
    }
}

static bool conflict(const ig__program_step *a, const ig__program_step *b)
{
    for (int i = 0; i < ig__program_n_uses(a); i++)
        for (int j = 0; j < ig__program_n_uses(b); j++)
            if (a->uses[i].storage == b->uses[j].storage &&
                (a->uses[i].written || b->uses[j].written || !a->op || !b->op))
                return true;
    return false;
}

/* Is there nothing between the two that step `moved` cannot pass? */
static bool may_move(const ig_program *p, const pair *at, int32_t moved)
{
    for (int32_t i = at->head + 1; i < at->chain; i++)
        if (p->steps[i] && conflict(p->steps[i], p->steps[moved]))
            return false;
    return true;
}

/* Give the head its tail, if it has one. false: no memory. */
static bool try_head(ig_program *p, const ig__touch *t, int32_t head)
{
    const ig__program_step *h = p->steps[head];
    for (int32_t i = head + 1; i < p->n_steps && i <= head + WINDOW; i++) {
        pair at = {head, i, -1};
        if (!p->steps[i] || !is_tail(p, h, p->steps[i], &at.use))
            continue;
        const bool up = may_move(p, &at, i);
        if (!up && !may_move(p, &at, head))
            continue;
        ig__program_step *step = weld_pair(p, t, &at);
        if (!step)
            return false;
        share_place(p, t, step);
        ig__program_step_choose(p, step);
        p->steps[up ? head : i] = step;
        p->steps[up ? i : head] = NULL;
        return true;
    }
    return true;
}

bool ig__program_tail(ig_program *p)
{
    ig__touch *t = ig__program_touch(p);
    bool done = t != NULL;
    for (int32_t i = 0; done && i < p->n_steps; i++)
        if (p->steps[i] && is_head(p, p->steps[i]))
            done = try_head(p, t, i);
    ig__program_close_gaps(p);
    ig__free(&p->ctx->allocator, t);
    return done;
}
