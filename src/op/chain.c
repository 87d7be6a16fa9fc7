/* Running chains, and what may be a link: chain.h has the picture.
 *
 * Scratch is cut in slots of one chunk. Slots are handed out by need: a link's slot is free again behind the
 * last link that reads it, so that a long chain still stays in the first-level cache. The
 * output of a link that can be written where it belongs serves as its own slot.
 */
#include "op/chain.h"

#include <string.h>

static ig__form form_of(ig__compute compute)
{
    return compute == IG_COMPUTE_F32   ? IG_FORM_F32
           : compute == IG_COMPUTE_F64 ? IG_FORM_F64
                                       : IG_FORM_I64;
}

static ig_dtype dtype_of(ig__form form)
{
    static const ig_dtype of[] = {[IG_FORM_F32] = IG_DTYPE_F32,
                                  [IG_FORM_F64] = IG_DTYPE_F64,
                                  [IG_FORM_I64] = IG_DTYPE_I64,
                                  [IG_FORM_BYTES] = IG_DTYPE_BOOL};
    return of[form];
}

static size_t size_of(ig__form form)
{
    return ig_dtype_block_bytes(dtype_of(form));
}

/* ---- links --------------------------------------------------------------------------------------- */

static bool is_move(const ig__op *op)
{
    return op == &ig__op_cast || op == &ig__op_copy;
}

static ig__compute compute_of(const ig__eval *e)
{
    return ig__compute_of(e->n_in ? e->in[e->n_in - 1].type->dtype : e->out[0].type->dtype);
}

/* A copy that turns a matrix has a way of its own, by tiles. */
static bool turns(const ig__eval *e)
{
    ig__walk_over w;
    ig__walk_make(&w, &e->in[0], e->in[0].type);
    const int64_t stride = w.strides[w.n_dims - 1];
    return stride != 0 && stride != 1;
}

bool ig__is_link(const ig__op *op, const ig__eval *e)
{
    if (e->n_out != 1 || e->n_in > IG_LINK_INPUTS || op->random || op->effect ||
        op->writes || !e->out[0].n)
        return false;
    if (is_move(op))
        return !turns(e);
    return !op->eval && op->span[compute_of(e)];
}

ig__form ig__link_wants(const ig__op *op, const ig__eval *e, int i)
{
    const ig_dtype dtype = e->in[i].type->dtype;
    if (is_move(op))
        return form_of(ig__compute_of(dtype));
    /* a condition beside operands of another type comes as bytes */
    if (dtype == IG_DTYPE_BOOL && e->in[e->n_in - 1].type->dtype != IG_DTYPE_BOOL)
        return IG_FORM_BYTES;
    return form_of(compute_of(e));
}

ig__form ig__link_gives(const ig__op *op, const ig__eval *e)
{
    const ig_dtype dtype = e->out[0].type->dtype;
    if (is_move(op))
        return form_of(ig__compute_of(dtype));
    const ig__compute compute = compute_of(e);
    return dtype == IG_DTYPE_BOOL && compute != IG_COMPUTE_I64 ? IG_FORM_BYTES
                                                               : form_of(compute);
}

bool ig__link_carries(const ig__op *op, ig_dtype dtype)
{
    switch (dtype) {
    case IG_DTYPE_F32:
    case IG_DTYPE_F64:
    case IG_DTYPE_F16:
    case IG_DTYPE_BF16:
    case IG_DTYPE_I64:
        return true;
    case IG_DTYPE_BOOL: /* comparisons and logic give 0 and 1 */
        return op == &ig__op_equal || op == &ig__op_not_equal || op == &ig__op_less ||
               op == &ig__op_less_equal || op == &ig__op_logical_and ||
               op == &ig__op_logical_or || op == &ig__op_logical_xor ||
               op == &ig__op_logical_not;
    default: /* sums of small integers wrap when they are stored */
        return false;
    }
}

void ig__chain_operand_make(ig__chain_operand *o, const ig__array *x, const ig__type *type,
                            ig__form form)
{
    ig__walk_make(&o->walk, x, type);
    const ig__walk_over *w = &o->walk;
    const int64_t *dims = w->dims, *strides = w->strides;
    const bool same = w->dtype == dtype_of(form);
    o->form = form;
    o->slot = -1;
    o->fetch = IG_FETCH_GATHER;
    if (w->n_dims == 1 && strides[0] == 1 && same)
        o->fetch = IG_FETCH_READY;
    else if (w->n_dims == 1 && strides[0] == 0)
        o->fetch = IG_FETCH_ONE;
    else if (w->n_dims == 2 && strides[0] == 0 && dims[1] <= IG_CHUNK)
        o->fetch = IG_FETCH_PERIOD;
    else if (w->n_dims == 2 && strides[0] == 0 && strides[1] == 1 && same)
        o->fetch = IG_FETCH_ROW;
}

/* ---- slots ---------------------------------------------------------------------------------------- */

/* The last link that reads link i; itself: none. */
static int last_reader(const ig__chain *c, int i)
{
    int last = i;
    for (int k = i + 1; k < c->n_links; k++)
        for (int j = 0; j < c->links[k].n_in; j++)
            if (c->links[k].in[j] == ~i)
                last = k;
    return last;
}

void ig__chain_place(ig__chain *c)
{
    int until[IG_CHAIN_LINKS]; /* the link that reads a slot last */
    int first = 0, n = 0;
    size_t size = 4;
    for (int i = 0; i < c->n_operands; i++) {
        ig__chain_operand *o = &c->operands[i];
        size = size_of(o->form) > size ? size_of(o->form) : size;
        if (o->fetch == IG_FETCH_READY || o->fetch == IG_FETCH_ROW)
            continue;
        o->slot = first;
        first += o->fetch == IG_FETCH_PERIOD ? 2 : 1;
    }
    for (int i = 0; i < c->n_links; i++) {
        ig__link *l = &c->links[i];
        const int last = last_reader(c, i);
        size = size_of(l->form) > size ? size_of(l->form) : size;
        l->inside = last > i;
        int at = 0;
        while (at < n && until[at] >= i) /* not that of an operand of this link */
            at++;
        n = at == n ? n + 1 : n;
        until[at] = last;
        l->slot = first + at;
    }
    c->n_slots = first + n + 1; /* the last is for conversions */
    c->slot_bytes = IG_CHUNK * size;
}

/* ---- running ---------------------------------------------------------------------------------------- */

typedef struct running {
    const ig__eval *e;
    const ig__chain *c;
    ig__eval
        own; /* what a link's loop sees: kernels, its attributes, its operands' types */
    const char *operand[IG_MAX_INPUTS];
    const char *link[IG_CHAIN_LINKS];
    int64_t at, n; /* the chunk */
} running;

static char *slot(const running *r, int i)
{
    return (char *)r->e->scratch + (size_t)i * r->c->slot_bytes;
}

static void load_form(const ig__eval *e, const ig__walk_over *w, int64_t first, int64_t n,
                      char *dst, ig__form form)
{
    ig__walk_over over = *w;
    over.t = e->t;
    if (form == IG_FORM_BYTES)
        ig__walk_load_bytes(&over, first, n, (uint8_t *)dst);
    else
        ig__walk_load(&over, first, n, dst,
                      form == IG_FORM_F32   ? IG_COMPUTE_F32
                      : form == IG_FORM_F64 ? IG_COMPUTE_F64
                                            : IG_COMPUTE_I64);
}

/* What is there for all chunks. */
static void fetch_once(running *r, int i)
{
    const ig__chain_operand *o = &r->c->operands[i];
    ig__walk_over w = o->walk;
    w.data = r->e->in[i].data;
    char *dst = o->slot >= 0 ? slot(r, o->slot) : NULL;
    const size_t size = size_of(o->form);
    if (o->fetch != IG_FETCH_ONE && o->fetch != IG_FETCH_PERIOD)
        return;
    const int64_t period = o->fetch == IG_FETCH_ONE ? 1 : w.dims[1];
    const int64_t wanted = o->fetch == IG_FETCH_ONE ? r->n : r->n + period;
    load_form(r->e, &w, 0, period, dst, o->form);
    for (int64_t have = period; have < wanted;) { /* doubled until it is enough */
        const int64_t more = have < wanted - have ? have : wanted - have;
        memcpy(dst + (size_t)have * size, dst, (size_t)more * size);
        have += more;
    }
}

static void fetch_chunk(running *r, int i)
{
    const ig__chain_operand *o = &r->c->operands[i];
    const size_t size = size_of(o->form);
    char *data = r->e->in[i].data;
    switch (o->fetch) {
    case IG_FETCH_READY:
        r->operand[i] = data + (size_t)r->at * size;
        break;
    case IG_FETCH_ROW:
        r->operand[i] = data + (size_t)(r->at % o->walk.dims[1]) * size;
        break;
    case IG_FETCH_ONE:
        r->operand[i] = slot(r, o->slot);
        break;
    case IG_FETCH_PERIOD:
        r->operand[i] = slot(r, o->slot) + (size_t)(r->at % o->walk.dims[1]) * size;
        break;
    case IG_FETCH_GATHER: {
        ig__walk_over w = o->walk;
        w.data = data;
        load_form(r->e, &w, r->at, r->n, slot(r, o->slot), o->form);
        r->operand[i] = slot(r, o->slot);
        break;
    }
    }
}

/* May chunks of link l be written where output i lies? */
static bool is_ready(const ig__walk_over *w, const ig__link *l)
{
    return w->n_dims == 1 && w->strides[0] == 1 && w->dtype == dtype_of(l->form);
}

/* A copy or cast: to the numbers of its dtype, and on in the form in which links read them. */
static const char *move(running *r, const ig__link *l, const char *x, char *y)
{
    const ig_dtype from =
        dtype_of(ig__compute_of(l->types[0]->dtype) == IG_COMPUTE_F32   ? IG_FORM_F32
                 : ig__compute_of(l->types[0]->dtype) == IG_COMPUTE_F64 ? IG_FORM_F64
                                                                        : IG_FORM_I64);
    const ig_dtype to = dtype_of(l->form);
    const bool narrows = l->dtype != to && l->dtype != l->types[0]->dtype;
    if (!narrows && from == to) {
        /* a later link may write where x lies */
        return l->inside ? memcpy(y, x, (size_t)r->n * size_of(l->form)) : x;
    }
    const ig__train_kernels *t = r->e->t;
    char *between = slot(r, r->c->n_slots - 1);
    if (!narrows) {
        t->convert(ig__number_of(to), ig__number_of(from), y, x, r->n);
        return y;
    }
    t->convert(ig__number_of(l->dtype), ig__number_of(from), between, x, r->n);
    t->convert(ig__number_of(to), ig__number_of(l->dtype), y, between, r->n);
    return y;
}

/* A result of 16 bits that later links read, as it would come back from memory. */
static void round_to_half(running *r, const ig__link *l, char *y)
{
    const ig__train_kernels *t = r->e->t;
    char *between = slot(r, r->c->n_slots - 1);
    t->convert(ig__number_of(l->dtype), IG__NUMBER_F32, between, y, r->n);
    t->convert(IG__NUMBER_F32, ig__number_of(l->dtype), y, between, r->n);
}

static void run_link(running *r, int i)
{
    const ig__link *l = &r->c->links[i];
    const void *x[IG_LINK_INPUTS];
    for (int j = 0; j < l->n_in; j++) {
        x[j] = l->in[j] >= 0 ? r->operand[l->in[j]] : r->link[~l->in[j]];
        r->own.in[j].type = l->types[j];
    }
    ig__walk_over out;
    char *y = slot(r, l->slot);
    bool ready = false;
    if (l->out >= 0) {
        out = r->c->out[l->out];
        out.data = r->e->out[l->out].data;
        out.t = r->e->t;
        ready = is_ready(&out, l);
        if (ready)
            y = out.data + (size_t)r->at * size_of(l->form);
    }
    r->link[i] = y;
    if (l->span) {
        r->own.attrs = l->attrs;
        l->span(&r->own, y, x, r->n);
        if (l->inside && !r->c->wide && l->form == IG_FORM_F32 && l->dtype != IG_DTYPE_F32)
            round_to_half(r, l, y);
    } else {
        r->link[i] = move(r, l, x[0], y);
    }
    if (l->out < 0)
        return;
    if (ready) {
        if (r->link[i] != y)
            memcpy(y, r->link[i], (size_t)r->n * size_of(l->form));
    } else if (l->form == IG_FORM_BYTES) {
        ig__walk_store_bytes(&out, r->at, r->n, (const uint8_t *)r->link[i]);
    } else {
        ig__walk_store(&out, r->at, r->n, r->link[i],
                       l->form == IG_FORM_F32   ? IG_COMPUTE_F32
                       : l->form == IG_FORM_F64 ? IG_COMPUTE_F64
                                                : IG_COMPUTE_I64);
    }
}

void ig__chain_run(const ig__eval *e, int64_t first, int64_t last)
{
    running r;
    r.e = e;
    r.c = e->attrs;
    r.own.k = e->k;
    r.own.t = e->t;
    r.n = last - first < IG_CHUNK ? last - first : IG_CHUNK;
    for (int i = 0; i < r.c->n_operands; i++)
        fetch_once(&r, i);
    for (r.at = first; r.at < last; r.at += r.n) {
        r.n = last - r.at < IG_CHUNK ? last - r.at : IG_CHUNK;
        for (int i = 0; i < r.c->n_operands; i++) {
            const ig__chain_operand *o = &r.c->operands[i];
            if (o->fetch != IG_FETCH_ROW)
                continue;
            const int64_t width = o->walk.dims[1], left = width - r.at % width;
            r.n = left < r.n ? left : r.n;
        }
        for (int i = 0; i < r.c->n_operands; i++)
            fetch_chunk(&r, i);
        for (int i = 0; i < r.c->n_links; i++)
            run_link(&r, i);
    }
}

/* ---- the row ---------------------------------------------------------------------------------------- */

static void chain_eval(const ig__eval *e, int64_t begin, int64_t end)
{
    const int64_t n = e->out[0].n;
    ig__chain_run(e, begin * IG_SPAN, end * IG_SPAN < n ? end * IG_SPAN : n);
}

static ig__room chain_room(const ig__eval *e)
{
    const ig__chain *c = e->attrs;
    return (ig__room){.each = (size_t)c->n_slots * c->slot_bytes};
}

static double chain_work(const ig__eval *e)
{
    return (double)e->out[0].n * ((const ig__chain *)e->attrs)->n_links;
}

const ig__op ig__op_chain = {.name = "chain",
                             .n_in_most = IG_MAX_INPUTS,
                             .attrs_bytes = sizeof(ig__chain),
                             .fused = true,
                             .eval = chain_eval,
                             .room = chain_room,
                             .work = chain_work};
