/* The memory plan: where each value's bytes are.
 *
 * A value lives from the step that makes it to the last step that reads it, and beyond that until
 * the next step whose items are shared out has begun, since a slow thread may still be reading
 * when a fast one goes on without a barrier. Values that live at the same time get different bytes: first fit
 * over offsets, in order of birth.
 *
 *   offset ^  | x0 |           reuse is by interval:
 *          |  | x0 | q  |      x0 dies at step 3, q is put on top of it at step 4
 *          +--1----4----> step
 */
#include "exec/plan_int.h"

#include "base/error.h"

#include <string.h>

enum { LINE = 64 };

typedef struct life {
    ig__value v;
    int32_t born, dies;
    size_t at, bytes;
} life;

/* One past the first shared-out step after `step`: what is read at `step` must stay until then. */
static int32_t settled_after(const ig__plan *plan, int32_t step)
{
    for (int32_t i = step + 1; i < plan->n_steps; i++)
        if (plan->steps[i].shared_out[IG_MODE_SMALL])
            return i;
    return plan->n_steps;
}

/* born and dies of every root value, in order of birth; returns the count. */
static int32_t find_lives(const ig__plan *plan, life *lives, int32_t *of)
{
    const ig__graph *g = plan->g;
    int32_t n = 0;
    for (int32_t v = 0; v < g->n_values; v++)
        of[v] = -1;
    for (int32_t i = 0; i < plan->n_steps; i++) {
        const ig__node *node = plan->steps[i].node;
        for (int j = 0; j < node->n_in; j++) {
            const int32_t k = of[plan->places[node->in[j]].root];
            if (k >= 0)
                lives[k].dies = settled_after(plan, i);
        }
        of[node->out] = n;
        lives[n++] = (life){.v = node->out, .born = i, .dies = settled_after(plan, i)};
    }
    const int32_t out = of[plan->places[g->output].root];
    if (out >= 0)
        lives[out].dies = plan->n_steps;
    return n;
}

/* The lowest offset at which life k overlaps none of the earlier ones that live beside it. */
static size_t first_fit(const life *lives, int32_t k)
{
    size_t at = 0;
    for (bool moved = true; moved;) {
        moved = false;
        for (int32_t i = 0; i < k; i++) {
            const life *l = &lives[i];
            if (!l->bytes || l->dies < lives[k].born || at >= l->at + l->bytes ||
                at + lives[k].bytes <= l->at)
                continue;
            at = l->at + l->bytes;
            moved = true;
        }
    }
    return at;
}

static size_t round_up(size_t n)
{
    return (n + LINE - 1) / LINE * LINE;
}

static void place_shared(ig__plan *plan, life *lives, int32_t n)
{
    const ig__bind most = {{0, plan->opts.max_tokens, plan->opts.max_logits}};
    const int64_t n_spans = (plan->opts.max_keys + IG_KEY_SPAN - 1) / IG_KEY_SPAN;
    for (int32_t k = 0; k < n; k++) {
        ig__place *place = &plan->places[lives[k].v];
        lives[k].bytes = round_up(
            ig__type_bytes(ig__graph_type(plan->g, lives[k].v), &most, n_spans) + 1);
        place->shared = lives[k].at = first_fit(lives, k);
        place->bytes = lives[k].bytes;
        if (lives[k].at + lives[k].bytes > plan->stats.shared_bytes)
            plan->stats.shared_bytes = lives[k].at + lives[k].bytes;
    }
}

static void place_private(ig__plan *plan, life *lives, int32_t n)
{
    const ig__bind small = {{0, IG_SMALL_ROWS, IG_SMALL_ROWS}};
    for (int32_t k = 0; k < n; k++) {
        ig__place *place = &plan->places[lives[k].v];
        lives[k].bytes = 0;
        lives[k].at = 0;
        if (!place->rows)
            continue;
        lives[k].bytes =
            round_up(ig__type_bytes(ig__graph_type(plan->g, lives[k].v), &small, 1));
        place->private_at = lives[k].at = first_fit(lives, k);
        place->private_bytes = lives[k].bytes;
        if (lives[k].at + lives[k].bytes > plan->stats.private_bytes)
            plan->stats.private_bytes = lives[k].at + lives[k].bytes;
    }
}

ig_status ig__plan_place(ig__plan *plan, ig_error *err)
{
    const ig_allocator *a = &plan->ctx->allocator;
    const ig__graph *g = plan->g;
    for (int32_t v = 0; v < g->n_values; v++) {
        const ig__value_info *info = &g->values[v];
        ig__place *place = &plan->places[v];
        const ig__node *node = ig__graph_producer(g, v);
        place->root =
            node && node->op->walk == IG_WALK_VIEW ? plan->places[node->in[0]].root : v;
        place->kind = plan->places[place->root].kind;
        if (place->root != v)
            continue;
        place->kind = node ? IG_PLACE_ARENA : IG_PLACE_OUTSIDE;
        place->rows = node && node->op->walk == IG_WALK_ROWS;
        if (info->kind == IG_VALUE_PARAM)
            place->outside = g->params[info->index].data;
    }
    life *lives = ig__alloc(a, (size_t)(plan->n_steps + 1) * sizeof *lives);
    int32_t *of = ig__alloc(a, (size_t)(g->n_values + 1) * sizeof *of);
    ig_status status = IG_OK;
    if (lives && of) {
        const int32_t n = find_lives(plan, lives, of);
        place_shared(plan, lives, n);
        place_private(plan, lives, n);
    } else {
        status = ig__fail_memory(err, "plan", 0);
    }
    ig__free(a, lives);
    ig__free(a, of);
    return status;
}
