/* Elementwise steps become chains (src/op/chain.h): one loop over memory for many calls.
 *
 *   before                      after
 *   t = less zero, y            dx = chain(zero, y, dy: less, where)
 *   w = matmul ..               w  = matmul ..
 *   dx = where t, dy, zero
 *
 * Groups grow step by step. A step joins an earlier group if it has as many elements and shares one operand or
 * result of full size with it; and if one of the two can be moved next to the other: nothing in
 * between touches what the moved one writes, or writes what it touches. Then groups that the step ties
 * together join in the same way.
 *
 * What two members touch and one of them writes must be the same elements in the same order: then a chunk
 * of one needs nothing but that chunk of the other.
 */
#include "compile/program_pass.h"

#include <string.h>

enum { WINDOW = 24 }; /* steps that a step or group is moved past, at most */

/* A step, or steps that will be one. */
typedef struct group {
    int n;
    ig__program_step **members; /* [n], in order; room for IG_CHAIN_LINKS */
    bool links;                 /* elementwise: may grow */
} group;

typedef struct fuser {
    ig_program *p;
    ig__arena arena; /* of groups */
    ig__touch *touch;
    group *groups; /* [n], in order; n 0: merged away */
    int32_t n;
} fuser;

/* ---- what may move, what may join ------------------------------------------------------------------ */

static bool writes(const ig__program_step *s, int k)
{
    return s->uses[k].written || !s->op;
}

static bool steps_conflict(const ig__program_step *a, const ig__program_step *b)
{
    for (int i = 0; i < ig__program_n_uses(a); i++)
        for (int j = 0; j < ig__program_n_uses(b); j++)
            if (a->uses[i].storage == b->uses[j].storage && (writes(a, i) || writes(b, j)))
                return true;
    return false;
}

static bool conflict(const group *a, const group *b)
{
    for (int i = 0; i < a->n; i++)
        for (int j = 0; j < b->n; j++)
            if (steps_conflict(a->members[i], b->members[j]))
                return true;
    return false;
}

static int64_t count_of(const group *g)
{
    return g->members[0]->e.out[0].n;
}

/* All n elements, in order, from its place on? */
static bool is_full(const ig__program_step *s, int k, int64_t n)
{
    const ig__array *x = ig__program_array(s, k);
    return x->contiguous && x->n == n;
}

static bool same_elements(const ig__program_step *a, int i, const ig__program_step *b,
                          int j, int64_t n)
{
    return a->uses[i].at == b->uses[j].at && is_full(a, i, n) && is_full(b, j, n) &&
           ig__program_array(a, i)->type->dtype == ig__program_array(b, j)->type->dtype;
}

/* Step a before b in one chain. *tied: they share a full operand or result. */
static bool may_follow(const ig__program_step *a, const ig__program_step *b, int64_t n,
                       bool *tied)
{
    for (int i = 0; i < ig__program_n_uses(a); i++)
        for (int j = 0; j < ig__program_n_uses(b); j++) {
            if (a->uses[i].storage != b->uses[j].storage)
                continue;
            const bool same = same_elements(a, i, b, j, n);
            *tied |= same;
            if (!writes(a, i) && !writes(b, j))
                continue;
            if (!same)
                return false;
            if (writes(a, i) && !writes(b, j) &&
                (ig__link_gives(a->op, &a->e) != ig__link_wants(b->op, &b->e, j) ||
                 !ig__link_carries(a->op, ig__program_array(a, i)->type->dtype)))
                return false;
        }
    return true;
}

static const ig__program_step *member(const group *a, const group *b, int i)
{
    return i < a->n ? a->members[i] : b->members[i - a->n];
}

/* Results of both together that are wanted in memory. */
static int n_results(const fuser *f, const group *a, const group *b)
{
    int n = 0;
    for (int i = 0; i < a->n + b->n; i++) {
        const ig__program_step *s = member(a, b, i);
        const int32_t out = s->uses[s->e.n_in].storage;
        int own = 0;
        for (int j = 0; j < a->n + b->n; j++) {
            const ig__program_step *t = member(a, b, j);
            for (int k = 0; k < ig__program_n_uses(t); k++)
                own += t->uses[k].storage == out;
        }
        n += f->p->storages[out].s || own < f->touch[out].n_uses;
    }
    return n;
}

/* Operands of both that no member makes; one that several read counts as often. */
static int n_operands(const group *a, const group *b)
{
    int n = 0;
    for (int i = 0; i < a->n + b->n; i++) {
        const ig__program_step *s = member(a, b, i);
        for (int k = 0; k < s->e.n_in; k++) {
            bool made = false;
            for (int j = 0; j < i && !made; j++) {
                const ig__program_step *t = member(a, b, j);
                made = t->uses[t->e.n_in].storage == s->uses[k].storage;
            }
            n += !made;
        }
    }
    return n;
}

static bool has_room(const fuser *f, const group *a, const group *b)
{
    return a->n + b->n <= IG_CHAIN_LINKS && n_operands(a, b) <= IG_MAX_INPUTS &&
           n_results(f, a, b) <= IG_MAX_OUTPUTS;
}

static bool may_join(const fuser *f, const group *a, const group *b)
{
    bool tied = false;
    if (!a->links || !b->links || count_of(a) != count_of(b))
        return false;
    for (int i = 0; i < a->n; i++)
        for (int j = 0; j < b->n; j++)
            if (!may_follow(a->members[i], b->members[j], count_of(a), &tied))
                return false;
    return tied && has_room(f, a, b);
}

/* Can group `from` be moved past all groups between it and `to`? One that is moved up must not leave a
 * result lying there for those that come between. */
static bool may_move(const fuser *f, int32_t from, int32_t to)
{
    const int32_t least = from < to ? from + 1 : to + 1, most = from < to ? to : from;
    const group none = {0};
    bool passes = false;
    for (int32_t i = least; i < most; i++) {
        if (f->groups[i].n && conflict(&f->groups[i], &f->groups[from]))
            return false;
        passes |= f->groups[i].n > 0;
    }
    return from < to || !passes ||
           n_results(f, &f->groups[to], &f->groups[from]) <=
               n_results(f, &f->groups[to], &none);
}

static bool join(fuser *f, group *to, const group *a, const group *b)
{
    ig__program_step **members =
        ig__arena_alloc(&f->arena, (size_t)(a->n + b->n) * sizeof(ig__program_step *));
    if (!members)
        return false;
    memcpy(members, a->members, (size_t)a->n * sizeof(ig__program_step *));
    memcpy(members + a->n, b->members, (size_t)b->n * sizeof(ig__program_step *));
    *to = (group){a->n + b->n, members, true};
    return true;
}

/* Join the group at `at` to earlier ones, as far as it goes. false: no memory. */
static bool grow(fuser *f, int32_t at)
{
    int32_t seen = 0;
    for (int32_t i = at - 1; i >= 0 && seen < WINDOW; i--) {
        group *a = &f->groups[i], *b = &f->groups[at];
        seen += a->n > 0;
        if (!a->n || !may_join(f, a, b))
            continue;
        const bool down = may_move(f, i, at);
        if (!down && !may_move(f, at, i))
            continue;
        group both;
        if (!join(f, &both, a, b))
            return false;
        a->n = b->n = 0;
        f->groups[down ? at : i] = both;
        at = down ? at : i;
    }
    return true;
}

/* ---- a group as a step ------------------------------------------------------------------------------- */

typedef struct weld {
    ig_program *p;
    const ig__touch *touch;
    const group *g;
    ig__program_step *step;
    ig__chain *chain;
} weld;

/* The last member before `at` that wrote what operand k of it reads; -1: none. */
static int maker_of(const group *g, int at, int k)
{
    const int32_t storage = g->members[at]->uses[k].storage;
    for (int i = at; i-- > 0;) {
        const ig__program_step *s = g->members[i];
        if (s->uses[s->e.n_in].storage == storage)
            return i;
    }
    return -1;
}

static bool same_view(const ig__array *a, const ig__array *b)
{
    return ig__type_same(a->type, b->type) &&
           !memcmp(a->strides, b->strides, (size_t)a->type->n_dims * sizeof *a->strides);
}

/* The number of an operand from outside, made if it is not there yet. */
static int operand_of(weld *w, const ig__program_step *s, int k)
{
    ig__chain *c = w->chain;
    ig__chain_operand o;
    ig__chain_operand_make(&o, &s->e.in[k],
                           s->op == &ig__op_copy && s->e.in[k].n == s->e.out[0].n
                               ? s->e.in[k].type
                               : s->e.out[0].type,
                           ig__link_wants(s->op, &s->e, k));
    for (int i = 0; i < c->n_operands; i++) {
        const ig__chain_operand *have = &c->operands[i];
        const ig__use *u = &w->step->uses[i];
        if (u->storage == s->uses[k].storage && u->at == s->uses[k].at &&
            have->form == o.form && have->fetch == o.fetch &&
            same_view(&w->step->e.in[i], &s->e.in[k]) &&
            have->walk.n_dims == o.walk.n_dims &&
            !memcmp(have->walk.dims, o.walk.dims, (size_t)o.walk.n_dims * 8) &&
            !memcmp(have->walk.strides, o.walk.strides, (size_t)o.walk.n_dims * 8))
            return i;
    }
    w->step->uses[c->n_operands] = s->uses[k];
    w->step->e.in[c->n_operands] = s->e.in[k];
    c->operands[c->n_operands] = o;
    return c->n_operands++;
}

/* Is the result of member `at` wanted in memory? */
static bool is_wanted(const weld *w, int at)
{
    const group *g = w->g;
    const ig__program_step *s = g->members[at];
    const int32_t out = s->uses[s->e.n_in].storage;
    int own = 0;
    for (int i = 0; i < g->n; i++) {
        const ig__program_step *t = g->members[i];
        if (i > at && t->uses[t->e.n_in].storage == out)
            return false; /* written again */
        for (int k = 0; k < ig__program_n_uses(t); k++)
            own += t->uses[k].storage == out;
    }
    return w->p->storages[out].s || own < w->touch[out].n_uses;
}

static void add_link(weld *w, int at)
{
    const ig__program_step *s = w->g->members[at];
    ig__link *l = &w->chain->links[w->chain->n_links++];
    const ig__compute compute = ig__compute_of(
        s->e.n_in ? s->e.in[s->e.n_in - 1].type->dtype : s->e.out[0].type->dtype);
    l->op = s->op;
    l->attrs = s->e.attrs;
    l->span = s->op->eval ? NULL : s->op->span[compute];
    l->n_in = s->e.n_in;
    l->out = -1;
    l->dtype = s->e.out[0].type->dtype;
    l->form = ig__link_gives(s->op, &s->e);
    for (int k = 0; k < s->e.n_in; k++) {
        const int maker = maker_of(w->g, at, k);
        l->types[k] = s->e.in[k].type;
        l->in[k] = maker >= 0 ? ~maker : operand_of(w, s, k);
    }
}

/* Results, behind all operands. */
static void add_outputs(weld *w)
{
    ig__program_step *step = w->step;
    const int n_in = w->chain->n_operands;
    for (int i = 0; i < w->g->n; i++) {
        const ig__program_step *s = w->g->members[i];
        if (!is_wanted(w, i))
            continue;
        const int k = w->chain->n_out++;
        w->chain->links[i].out = k;
        step->uses[n_in + k] = s->uses[s->e.n_in];
        step->e.out[k] = s->e.out[0];
        ig__walk_make(&w->chain->out[k], &s->e.out[0], s->e.out[0].type);
    }
    step->e.n_in = n_in;
    step->e.n_out = w->chain->n_out;
}

static ig__program_step *weld_group(ig_program *p, const ig__touch *touch, const group *g)
{
    weld w = {.p = p, .touch = touch, .g = g};
    w.step = ig__arena_alloc(&p->arena, sizeof *w.step);
    w.chain = ig__arena_alloc(&p->arena, sizeof *w.chain);
    ig__use *uses =
        ig__arena_alloc(&p->arena, (IG_MAX_INPUTS + IG_MAX_OUTPUTS) * sizeof *uses);
    if (!w.step || !w.chain || !uses)
        return NULL;
    w.step->uses = uses;
    w.step->op = &ig__op_chain;
    w.step->e = (ig__eval){.k = g->members[0]->e.k,
                           .t = g->members[0]->e.t,
                           .attrs = w.chain,
                           .n_threads = g->members[0]->e.n_threads,
                           .first = true};
    for (int i = 0; i < g->n; i++)
        add_link(&w, i);
    add_outputs(&w);
    if (!w.step->e.n_out) /* nobody wants anything of it */
        return w.step;
    w.chain->wide = p->wide;
    ig__chain_place(w.chain);
    ig__program_step_choose(p, w.step);
    return w.step;
}

/* ---- the pass ------------------------------------------------------------------------------------------ */

static bool begin(fuser *f)
{
    ig_program *p = f->p;
    f->touch = ig__program_touch(p);
    f->groups = ig__arena_alloc(&f->arena, (size_t)(p->n_steps + 1) * sizeof(group));
    ig__program_step **members =
        ig__arena_alloc(&f->arena, (size_t)(p->n_steps + 1) * sizeof(ig__program_step *));
    if (!f->touch || !f->groups || !members)
        return false;
    f->n = p->n_steps;
    for (int32_t i = 0; i < f->n; i++) {
        ig__program_step *s = members[i] = p->steps[i];
        f->groups[i] =
            (group){1, &members[i], s->op && !s->once && ig__is_link(s->op, &s->e)};
    }
    return true;
}

/* All or nothing: the list is only changed when every group has become a step. */
static bool finish(fuser *f)
{
    ig_program *p = f->p;
    ig__program_step **steps =
        ig__arena_alloc(&f->arena, (size_t)(f->n + 1) * sizeof(ig__program_step *));
    int32_t n = 0;
    if (!steps)
        return false;
    for (int32_t i = 0; i < f->n; i++) {
        const group *g = &f->groups[i];
        if (!g->n)
            continue;
        steps[n] = g->n == 1 ? g->members[0] : weld_group(p, f->touch, g);
        if (!steps[n])
            return false;
        n += steps[n]->op != &ig__op_chain || steps[n]->e.n_out > 0;
    }
    memcpy(p->steps, steps, (size_t)n * sizeof(ig__program_step *));
    p->n_steps = n;
    return true;
}

ig__program_step *ig__program_weld(ig_program *p, const ig__touch *touch,
                                   ig__program_step **members, int n)
{
    const group g = {n, members, true};
    return weld_group(p, touch, &g);
}

bool ig__program_fuse(ig_program *p)
{
    fuser f = {.p = p, .arena = ig__arena_init(&p->ctx->allocator)};
    bool done = begin(&f);
    for (int32_t i = 0; done && i < f.n; i++)
        if (f.groups[i].links)
            done = grow(&f, i);
    done = done && finish(&f);
    ig__free(&p->ctx->allocator, f.touch);
    ig__arena_fini(&f.arena);
    return done;
}
