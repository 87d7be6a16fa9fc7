/* The plain passes over programs: what is dead, what is the same in every run, what is computed
 * twice, and results written over operands that nobody needs any more.
 */
#include "compile/program_pass.h"

#include <string.h>

/* "once" and "same" keep values for longer, so they leave large ones alone. A scope that recomputes would be
 * undone by a "same" without bounds. */
enum { ONCE_BYTES = 4096, SAME_BYTES = 65536, SAME_STEPS = 256 };

ig__touch *ig__program_touch(const ig_program *p)
{
    ig__touch *t =
        ig__alloc_zero(&p->ctx->allocator, (size_t)(p->n_storages + 1) * sizeof *t);
    for (int32_t i = 0; t && i < p->n_steps; i++) {
        const ig__program_step *step = p->steps[i];
        for (int k = 0; k < ig__program_n_uses(step); k++) {
            ig__touch *own = &t[step->uses[k].storage];
            if (!own->n_uses++)
                own->first = i;
            own->last = i;
            own->n_writes += step->uses[k].written || !step->op;
        }
    }
    return t;
}

bool ig__program_whole(const ig_program *p, const ig__program_step *step, int i)
{
    const ig__array *x = ig__program_array(step, i);
    return step->uses[i].at == 0 && x->contiguous &&
           (size_t)x->n * ig_dtype_block_bytes(x->type->dtype) ==
               p->storages[step->uses[i].storage].bytes;
}

/* Does the step compute what its operands and attributes say, and nothing else? */
static bool is_pure(const ig__program_step *step)
{
    const ig__op *op = step->op;
    return op && !op->random && !op->effect && !op->writes && !op->explain;
}

/* Does the step read the storage of its use k, a result? */
static bool reads_result(const ig__program_step *step, int k)
{
    for (int i = 0; i < step->e.n_in; i++)
        if (step->uses[i].storage == step->uses[k].storage)
            return true;
    return false;
}

/* ---- dead ------------------------------------------------------------------------------------------ */

/* Backwards: a storage is live where somebody reads it later. */
static bool is_needed(const ig__program_step *step, const bool *live)
{
    if (!step->op)
        return live[step->uses[0].storage];
    if (step->op->explain)
        return true;
    for (int k = 0; k < ig__program_n_uses(step); k++)
        if (step->uses[k].written && live[step->uses[k].storage])
            return true;
    return false;
}

static void mark(const ig_program *p, const ig__program_step *step, bool *live)
{
    if (!step->op) {
        live[step->uses[0].storage] = false;
        return;
    }
    for (int k = step->e.n_in; k < ig__program_n_uses(step); k++)
        if (ig__program_whole(p, step, k))
            live[step->uses[k].storage] = false;
    for (int k = 0; k < step->e.n_in; k++)
        live[step->uses[k].storage] = true;
}

bool ig__program_dead(ig_program *p)
{
    const ig_allocator *a = &p->ctx->allocator;
    bool *live = ig__alloc_zero(a, (size_t)p->n_storages + 1);
    if (!live)
        return false;
    for (int32_t i = 0; i < p->n_storages; i++)
        live[i] = p->storages[i].s != NULL;
    int32_t first = p->n_steps;
    for (int32_t i = p->n_steps - 1; i >= 0; i--) {
        ig__program_step *step = p->steps[i];
        if (!is_needed(step, live))
            continue;
        mark(p, step, live);
        p->steps[--first] = step;
    }
    p->n_steps -= first;
    memmove(p->steps, p->steps + first, (size_t)p->n_steps * sizeof *p->steps);
    ig__free(a, live);
    return true;
}

/* ---- once ------------------------------------------------------------------------------------------ */

/* Are the bytes of this operand those of the recording in every run? */
static bool is_fixed(const ig_program *p, const ig__touch *t, int32_t i)
{
    const ig__program_storage *s = &p->storages[i];
    if (s->stays)
        return true;
    /* a constant that only the recording holds */
    return s->constant && !s->mended && !t[i].n_writes && s->s && s->s->refs == 1;
}

static bool runs_once(const ig_program *p, const ig__touch *t, const ig__program_step *step)
{
    if (!is_pure(step) || step->e.n_out != 1)
        return false;
    const int out = step->e.n_in;
    const ig__program_storage *s = &p->storages[step->uses[out].storage];
    if (s->s || s->bytes > ONCE_BYTES || t[step->uses[out].storage].n_writes != 1 ||
        reads_result(step, out))
        return false;
    for (int k = 0; k < step->e.n_in; k++)
        if (!is_fixed(p, t, step->uses[k].storage))
            return false;
    return true;
}

bool ig__program_once(ig_program *p)
{
    const ig_allocator *a = &p->ctx->allocator;
    ig__touch *t = ig__program_touch(p);
    ig__program_step **rest =
        ig__alloc(a, (size_t)(p->n_steps + 1) * sizeof(ig__program_step *));
    if (!t || !rest) {
        ig__free(a, t);
        ig__free(a, rest);
        return false;
    }
    int32_t n = 0, n_rest = 0;
    for (int32_t i = 0; i < p->n_steps; i++) {
        ig__program_step *step = p->steps[i];
        if (runs_once(p, t, step)) {
            step->once = true;
            p->storages[step->uses[step->e.n_in].storage].stays = true;
            p->steps[n++] = step;
        } else {
            rest[n_rest++] = step;
        }
    }
    memcpy(p->steps + n, rest, (size_t)n_rest * sizeof(ig__program_step *));
    p->n_once = n;
    ig__free(a, t);
    ig__free(a, rest);
    return true;
}

/* ---- same ------------------------------------------------------------------------------------------ */

static bool same_array(const ig__array *a, const ig__array *b)
{
    return ig__type_same(a->type, b->type) &&
           !memcmp(a->strides, b->strides, (size_t)a->type->n_dims * sizeof *a->strides);
}

static bool same_call(const ig__program_step *a, const ig__program_step *b)
{
    if (a->op != b->op || a->e.n_in != b->e.n_in || a->e.n_out != b->e.n_out)
        return false;
    if (a->op->attrs_bytes && memcmp(a->e.attrs, b->e.attrs, a->op->attrs_bytes))
        return false;
    for (int i = 0; i < a->e.n_in; i++)
        if (a->uses[i].storage != b->uses[i].storage || a->uses[i].at != b->uses[i].at ||
            !same_array(&a->e.in[i], &b->e.in[i]))
            return false;
    return true;
}

/* May the step's results stand for those of its like, or be dropped for them? */
static bool may_stand(const ig_program *p, const ig__touch *t, const ig__program_step *step)
{
    if (!is_pure(step) || !step->e.n_in)
        return false;
    for (int k = step->e.n_in; k < ig__program_n_uses(step); k++) {
        const ig__program_storage *s = &p->storages[step->uses[k].storage];
        if (s->s || s->bytes > SAME_BYTES || t[step->uses[k].storage].n_writes != 1 ||
            reads_result(step, k))
            return false;
    }
    return true;
}

/* Is an operand of step `at` written between it and step `to`? */
static bool is_disturbed(const ig_program *p, int32_t at, int32_t to)
{
    const ig__program_step *step = p->steps[at];
    for (int32_t i = at + 1; i < to; i++)
        for (int k = 0; p->steps[i] && k < ig__program_n_uses(p->steps[i]); k++)
            for (int j = 0; j < step->e.n_in; j++)
                if ((p->steps[i]->uses[k].written || !p->steps[i]->op) &&
                    p->steps[i]->uses[k].storage == step->uses[j].storage)
                    return true;
    return false;
}

/* An earlier step that has computed the same; -1: none. */
static int32_t find_same(const ig_program *p, const ig__touch *t, int32_t at)
{
    const int32_t least = at > SAME_STEPS ? at - SAME_STEPS : 0;
    for (int32_t i = at - 1; i >= least; i--) {
        const ig__program_step *step = p->steps[i];
        if (step && same_call(step, p->steps[at]) && may_stand(p, t, step))
            return is_disturbed(p, i, at) ? -1 : i;
    }
    return -1;
}

static void rename_uses(ig__program_step *step, const int32_t *name)
{
    for (int k = 0; k < ig__program_n_uses(step); k++)
        step->uses[k].storage = name[step->uses[k].storage];
}

static int32_t *names_of(const ig_program *p)
{
    int32_t *name =
        ig__alloc(&p->ctx->allocator, (size_t)(p->n_storages + 1) * sizeof *name);
    for (int32_t i = 0; name && i < p->n_storages; i++)
        name[i] = i;
    return name;
}

void ig__program_close_gaps(ig_program *p)
{
    int32_t n = 0;
    for (int32_t i = 0; i < p->n_steps; i++)
        if (p->steps[i])
            p->steps[n++] = p->steps[i];
    p->n_steps = n;
}

bool ig__program_same(ig_program *p)
{
    const ig_allocator *a = &p->ctx->allocator;
    ig__touch *t = ig__program_touch(p);
    int32_t *name = names_of(p);
    for (int32_t i = 0; t && name && i < p->n_steps; i++) {
        ig__program_step *step = p->steps[i];
        rename_uses(step, name);
        if (i < p->n_once || !may_stand(p, t, step))
            continue;
        const int32_t first = find_same(p, t, i);
        if (first < 0)
            continue;
        for (int k = step->e.n_in; k < ig__program_n_uses(step); k++)
            name[step->uses[k].storage] = p->steps[first]->uses[k].storage;
        p->steps[i] = NULL;
    }
    const bool done = t && name;
    ig__program_close_gaps(p);
    ig__free(a, t);
    ig__free(a, name);
    return done;
}

/* ---- reuse ----------------------------------------------------------------------------------------- */

static bool is_elementwise(const ig__program_step *step)
{
    return step->op && !step->once &&
           (step->op == &ig__op_chain || ig__is_link(step->op, &step->e));
}

/* The link that reads operand i last, and the one that writes output k; 0 outside chains. */
static int link_reading(const ig__program_step *step, int i)
{
    int last = 0;
    if (step->op != &ig__op_chain)
        return 0;
    const ig__chain *c = step->e.attrs;
    for (int l = 0; l < c->n_links; l++)
        for (int j = 0; j < c->links[l].n_in; j++)
            if (c->links[l].in[j] == i)
                last = l;
    return last;
}

static int link_writing(const ig__program_step *step, int k)
{
    if (step->op != &ig__op_chain)
        return 0;
    const ig__chain *c = step->e.attrs;
    for (int l = 0; l < c->n_links; l++)
        if (c->links[l].out == k)
            return l;
    return 0;
}

/* May result k be written over operand i, chunk by chunk? */
static bool may_cover(const ig_program *p, const ig__program_step *step, int i, int k)
{
    const ig__use *in = &step->uses[i];
    const int out = step->e.n_in + k;
    if (in->written || p->storages[in->storage].s || p->storages[in->storage].stays ||
        p->storages[in->storage].bytes != p->storages[step->uses[out].storage].bytes)
        return false;
    for (int j = 0; j < ig__program_n_uses(step); j++) {
        if (step->uses[j].storage != in->storage)
            continue;
        if (j >= step->e.n_in || !ig__program_whole(p, step, j) ||
            step->e.in[j].n != step->e.out[k].n ||
            link_reading(step, j) > link_writing(step, k))
            return false;
    }
    return true;
}

static void cover(const ig_program *p, ig__program_step *step, ig__touch *t, int32_t at,
                  int32_t *name)
{
    for (int k = 0; k < step->e.n_out; k++) {
        const int32_t out = step->uses[step->e.n_in + k].storage;
        if (p->storages[out].s || p->storages[out].stays || t[out].first != at ||
            !ig__program_whole(p, step, step->e.n_in + k))
            continue;
        for (int i = 0; i < step->e.n_in; i++) {
            const int32_t in = step->uses[i].storage;
            if (t[in].last != at || !may_cover(p, step, i, k))
                continue;
            t[in].last = t[out].last;
            name[out] = in;
            step->uses[step->e.n_in + k].storage = in;
            break;
        }
    }
}

bool ig__program_reuse(ig_program *p)
{
    const ig_allocator *a = &p->ctx->allocator;
    ig__touch *t = ig__program_touch(p);
    int32_t *name = names_of(p);
    for (int32_t i = 0; t && name && i < p->n_steps; i++) {
        rename_uses(p->steps[i], name);
        if (is_elementwise(p->steps[i]))
            cover(p, p->steps[i], t, i, name);
    }
    const bool done = t && name;
    ig__free(a, t);
    ig__free(a, name);
    return done;
}
