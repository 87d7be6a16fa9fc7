/* The memory plan of a program: places of the storages that died while it was recorded.
 *
 * A storage lives from the first step that touches it to the last. The largest are placed first, each
 * at the lowest offset where nothing lies that lives at the same time.
 */
#include "exec/program.h"

#include <stdlib.h>

enum { LINE = 64 };

typedef struct life {
    size_t at, bytes;
    int32_t storage, first, last;
} life;

/* Larger before smaller, then older before younger: the plan does not depend on the sort. */
static int by_size(const void *a, const void *b)
{
    const life *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    return x->storage < y->storage ? -1 : 1;
}

/* Put `l` among the n that are placed, which are sorted by offset. */
static void place(life *placed, int32_t n, life l)
{
    size_t at = 0;
    for (int32_t i = 0; i < n; i++) {
        const life *o = &placed[i];
        if (o->last < l.first || l.last < o->first || o->at + o->bytes <= at)
            continue;
        if (o->at >= at + l.bytes)
            break;
        at = o->at + o->bytes;
    }
    l.at = at;
    int32_t i = n;
    for (; i > 0 && placed[i - 1].at > at; i--)
        placed[i] = placed[i - 1];
    placed[i] = l;
}

/* First and last steps anew: the numbers changed when constants were dropped. */
static void find_lives(ig_program *p)
{
    for (int32_t i = 0; i < p->n_storages; i++)
        p->storages[i].first = -1;
    for (int32_t i = 0; i < p->n_steps; i++) {
        const ig__program_step *step = p->steps[i];
        const int n_uses = ig__program_n_uses(step);
        for (int k = 0; k < n_uses; k++) {
            ig__program_storage *s = &p->storages[step->uses[k].storage];
            if (s->first < 0)
                s->first = i;
            s->last = i;
        }
    }
    for (int32_t i = 0; i < p->n_storages; i++)
        if (p->storages[i].stays && p->storages[i].first >= 0) {
            p->storages[i].first = 0;
            p->storages[i].last = p->n_steps;
        }
}

bool ig__program_place(ig_program *p)
{
    const ig_allocator *a = &p->ctx->allocator;
    life *lives = ig__alloc(a, (size_t)(p->n_storages + 1) * 2 * sizeof *lives);
    if (!lives)
        return false;
    find_lives(p);
    life *placed = lives + p->n_storages + 1;
    int32_t n = 0;
    for (int32_t i = 0; i < p->n_storages; i++) {
        const ig__program_storage *s = &p->storages[i];
        if (s->s || s->first < 0)
            continue;
        const size_t bytes = (s->bytes + LINE) / LINE * LINE;
        lives[n++] =
            (life){.bytes = bytes, .storage = i, .first = s->first, .last = s->last};
        p->stats.storage_bytes += bytes;
    }
    p->stats.n_storages = n;
    qsort(lives, (size_t)n, sizeof *lives, by_size);
    for (int32_t i = 0; i < n; i++)
        place(placed, i, lives[i]);
    for (int32_t i = 0; i < n; i++) {
        p->storages[placed[i].storage].at = placed[i].at;
        if (placed[i].at + placed[i].bytes > p->stats.planned_bytes)
            p->stats.planned_bytes = placed[i].at + placed[i].bytes;
    }
    ig__free(a, lives);
    return true;
}
