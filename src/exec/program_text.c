/* Programs as text, a line a step:
 *
 *     3 chain(less, where)   s9 [32,64] f32 <- s4 [] f32, s2 [32,64] f32, s8 [32,64] f32
 *
 * s9 is storage 9; "+256" behind it: from that byte on; "kept": others see it; "team": shared out to the threads.
 */
#include "exec/program.h"

#include "op/tail.h"

#include <stdarg.h>
#include <stdio.h>

typedef struct text {
    char *at;
    size_t cap, n; /* n: of the whole text, cut or not */
} text;

IG_PRINTF(2, 3)
static void put(text *t, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const bool fits = t->n < t->cap;
    const int n =
        vsnprintf(fits ? t->at + t->n : NULL, fits ? t->cap - t->n : 0, format, args);
    va_end(args);
    t->n += n > 0 ? (size_t)n : 0;
}

static void put_use(text *t, const ig_program *p, const ig__program_step *step, int k)
{
    char type[IG_TYPE_TEXT];
    const ig__use *u = &step->uses[k];
    put(t, "s%d", (int)u->storage);
    if (u->at)
        put(t, "+%zu", u->at);
    if (step->op)
        put(t, " %s", ig__type_text(ig__program_array(step, k)->type, type, sizeof type));
    if (p->storages[u->storage].s)
        put(t, " kept");
}

static void put_name(text *t, const ig__program_step *step)
{
    const ig__chain *c = NULL;
    put(t, "%s", step->op ? step->op->name : "constant");
    if (step->op == &ig__op_chain)
        c = step->e.attrs;
    if (step->op == &ig__op_tail) {
        const ig__tail *tail = step->e.attrs;
        put(t, "(%s", tail->head->name);
        c = tail->chain;
    }
    for (int i = 0; c && i < c->n_links; i++)
        put(t, "%s%s", i || step->op == &ig__op_tail ? ", " : "(", c->links[i].op->name);
    put(t, "%s", c ? ")" : "");
}

static void put_step(text *t, const ig_program *p, int32_t i)
{
    const ig__program_step *step = p->steps[i];
    const int n = ig__program_n_uses(step), n_in = step->op ? step->e.n_in : 0;
    put(t, "%4d ", (int)i);
    put_name(t, step);
    put(t, "  ");
    for (int k = n_in; k < n; k++) {
        put(t, k > n_in ? ", " : " ");
        put_use(t, p, step, k);
    }
    for (int k = 0; k < n_in; k++) {
        put(t, k ? ", " : " <- ");
        put_use(t, p, step, k);
    }
    put(t, "%s%s\n", step->once ? "  once" : "", step->team ? "  team" : "");
}

size_t ig_program_text(const ig_program *p, char *at, size_t cap)
{
    text t = {at, cap, 0};
    if (cap)
        at[0] = 0;
    for (int32_t i = 0; p && i < p->n_steps; i++)
        put_step(&t, p, i);
    return t.n;
}
