/* Running a head and its chain: a unit of the head, then the chain over the elements that it has
 * finished. A thread's scratch holds that of the head, then that of the chain.
 */
#include "op/tail.h"

static void set_common(ig__eval *to, const ig__eval *e)
{
    to->k = e->k;
    to->t = e->t;
    to->n_threads = e->n_threads;
    to->phase = 0;
    to->first = e->first;
    to->scratch = e->scratch;
    to->shared = e->shared;
    to->pool = e->pool;
    to->fault = e->fault;
    to->remarked = e->remarked;
}

static void head_of(ig__eval *h, const ig__eval *e)
{
    const ig__tail *t = e->attrs;
    set_common(h, e);
    h->attrs = t->head_attrs;
    h->n_in = t->n_head;
    h->n_out = 1;
    for (int i = 0; i < t->n_head; i++)
        h->in[i] = e->in[i];
    h->out[0] = e->out[e->n_out - 1];
}

static void chain_of(ig__eval *c, const ig__eval *e)
{
    const ig__tail *t = e->attrs;
    set_common(c, e);
    c->attrs = t->chain;
    c->n_in = t->chain->n_operands;
    c->n_out = e->n_out - 1;
    for (int i = 0; i < c->n_in; i++)
        c->in[i] = t->from[i] < 0 ? e->out[e->n_out - 1] : e->in[t->from[i]];
    for (int i = 0; i < c->n_out; i++)
        c->out[i] = e->out[i];
}

static size_t round_up(size_t n)
{
    return (n + 63) / 64 * 64;
}

static size_t head_room(const ig__tail *t, const ig__eval *h)
{
    return t->head->room ? round_up(t->head->room(h).each) : 0;
}

static ig__room tail_room(const ig__eval *e)
{
    const ig__tail *t = e->attrs;
    ig__eval part;
    head_of(&part, e);
    ig__room room = t->head->room ? t->head->room(&part) : (ig__room){0};
    room.each = round_up(room.each);
    chain_of(&part, e);
    room.each += ig__op_chain.room(&part).each;
    return room;
}

static double tail_work(const ig__eval *e)
{
    const ig__tail *t = e->attrs;
    ig__eval part;
    head_of(&part, e);
    const double work = t->head->work ? t->head->work(&part) : (double)part.out[0].n;
    chain_of(&part, e);
    return work + ig__op_chain.work(&part);
}

static int64_t tail_units(const ig__eval *e)
{
    const ig__tail *t = e->attrs;
    ig__eval head;
    head_of(&head, e);
    return t->head->n_units(&head);
}

static void tail_eval(const ig__eval *e, int64_t begin, int64_t end)
{
    const ig__tail *t = e->attrs;
    ig__eval head, chain;
    head_of(&head, e);
    chain_of(&chain, e);
    chain.scratch = (char *)e->scratch + head_room(t, &head);
    for (int64_t unit = begin; unit < end; unit++) {
        t->head->eval(&head, unit, unit + 1);
        head.first = false;
        ig__chain_run(&chain, t->head->done(&head, unit), t->head->done(&head, unit + 1));
    }
}

const ig__op ig__op_tail = {.name = "tail",
                            .n_in_most = IG_MAX_INPUTS,
                            .attrs_bytes = sizeof(ig__tail),
                            .fused = true,
                            .n_units = tail_units,
                            .eval = tail_eval,
                            .room = tail_room,
                            .work = tail_work};
