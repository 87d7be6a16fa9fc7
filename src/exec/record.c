/* Recording: evaluated calls become steps over numbered storages.
 *
 * A step is the row, its attributes, and each operand as storage, offset, type and strides. A
 * storage is met in one of three ways, and that decides whose it is at the end:
 *
 *   as the result of a recorded call     planned, if it dies before the end; else an output
 *   from bytes of the host               a constant: kept as it is. If it is written afterwards, each
 *                                        run begins with the bytes that it had
 *   otherwise                            from before: an input or state; kept even if the caller
 *                                        lets go of it during the recording
 */
#include "exec/program.h"

#include "base/error.h"

#include <stddef.h>
#include <string.h>

typedef struct recording {
    ig__capture head; /* first: it is the context's capture */
    ig_program *p;
    uint64_t first_draw;
} recording;

static ig_program *program_of(ig__capture *c)
{
    return ((recording *)c)->p;
}

/* Room for one more item of `size`; false: no memory. */
static bool grow(const ig_allocator *a, void **items, int32_t n, int32_t *cap, size_t size)
{
    if (n < *cap)
        return true;
    if (*cap > INT32_MAX / 2)
        return false;
    const int32_t wanted = *cap ? *cap * 2 : 64;
    void *grown = ig__resize(a, *items, (size_t)*cap * size, (size_t)wanted * size);
    if (!grown)
        return false;
    *items = grown;
    *cap = wanted;
    return true;
}

/* The number of a storage, from 0; -1: no memory. */
static int32_t number(ig_program *p, ig__storage *s, bool made)
{
    if (s->captured)
        return s->captured - 1;
    void *items = p->storages;
    if (!grow(&p->ctx->allocator, &items, p->n_storages, &p->cap_storages,
              sizeof *p->storages))
        return -1;
    p->storages = items;
    p->storages[p->n_storages] =
        (ig__program_storage){.s = s, .bytes = s->bytes, .first = p->n_steps, .made = made};
    s->captured = ++p->n_storages;
    return p->n_storages - 1;
}

static ig__program_step *add_step(ig_program *p, int n_uses)
{
    void *items = p->steps;
    if (!grow(&p->ctx->allocator, &items, p->n_steps, &p->cap_steps, sizeof *p->steps))
        return NULL;
    p->steps = items;
    ig__program_step *step = ig__arena_alloc(&p->arena, sizeof *step);
    if (!step)
        return NULL;
    step->uses = ig__arena_alloc(&p->arena, (size_t)n_uses * sizeof *step->uses);
    return step->uses ? step : NULL;
}

static bool copy_array(ig__array *to, ig__arena *arena, const ig__array *from)
{
    const size_t n = (size_t)from->type->n_dims;
    const size_t type_bytes = offsetof(ig__type, dims) + n * sizeof(ig__dim);
    ig__type *type = ig__arena_alloc(arena, sizeof *type);
    int64_t *strides = ig__arena_alloc(arena, (n + 1) * sizeof *strides);
    if (!type || !strides)
        return false;
    memcpy(type, from->type, type_bytes);
    memcpy(strides, from->strides, n * sizeof *strides);
    *to = *from;
    to->data = NULL;
    to->type = type;
    to->strides = strides;
    return true;
}

/* Note that the step to come touches x. */
static bool use(ig_program *p, ig__use *u, const ig_tensor *x, bool written, bool made)
{
    const int32_t i = number(p, x->storage, made);
    if (i < 0)
        return false;
    ig__program_storage *s = &p->storages[i];
    *u = (ig__use){i, written, (size_t)(x->data - x->storage->data)};
    s->last = p->n_steps;
    s->n_bumps += written;
    s->mended |= written && s->constant;
    return true;
}

static bool record(ig_program *p, const ig__op *op, const ig__eval *e, ig_tensor *const *in,
                   ig_tensor *const *out, bool into)
{
    ig__program_step *step = add_step(p, e->n_in + e->n_out);
    if (!step)
        return false;
    step->op = op;
    ig__eval *copy = &step->e;
    copy->k = e->k;
    copy->t = e->t;
    copy->n_in = e->n_in;
    copy->n_out = e->n_out;
    copy->n_threads = e->n_threads;
    copy->first = true;
    if (op->attrs_bytes) {
        copy->attrs = ig__arena_copy(&p->arena, e->attrs, op->attrs_bytes);
        if (!copy->attrs)
            return false;
    }
    for (int i = 0; i < e->n_in; i++)
        if (!copy_array(&copy->in[i], &p->arena, &e->in[i]) ||
            !use(p, &step->uses[i], in[i], op->writes >> i & 1, false))
            return false;
    for (int i = 0; i < e->n_out; i++)
        if (!copy_array(&copy->out[i], &p->arena, &e->out[i]) ||
            !use(p, &step->uses[e->n_in + i], out[i], true, !into))
            return false;
    ig__program_step_choose(p, step);
    p->steps[p->n_steps++] = step;
    return true;
}

static bool call(ig__capture *c, const ig__op *op, const ig__eval *e, ig_tensor *const *in,
                 ig_tensor *const *out, bool into)
{
    ig_program *p = program_of(c);
    if (!record(p, op, e, in, out, into)) {
        ig__fail_on(p->ctx, IG_ERR_MEMORY, "capture: out of memory after %d steps",
                    (int)p->n_steps);
        return false;
    }
    if (op->random) {
        p->steps[p->n_steps - 1]->draw = e->draw - ((recording *)c)->first_draw;
        p->n_draws = p->steps[p->n_steps - 1]->draw + 1;
    }
    return true;
}

static bool record_constant(ig_program *p, const ig_tensor *x)
{
    ig__program_step *step = add_step(p, 1);
    if (!step)
        return false;
    step->blob_bytes = ig_tensor_bytes(x);
    step->blob = ig__arena_copy(&p->arena, x->data, step->blob_bytes);
    if (!step->blob || !use(p, &step->uses[0], x, false, false))
        return false;
    p->storages[step->uses[0].storage].constant = true;
    p->steps[p->n_steps++] = step;
    return true;
}

static bool constant(ig__capture *c, const ig_tensor *x)
{
    ig_program *p = program_of(c);
    if (!ig_tensor_bytes(x) || record_constant(p, x))
        return true;
    ig__fail_on(p->ctx, IG_ERR_MEMORY, "capture: out of memory after %d steps",
                (int)p->n_steps);
    return false;
}

static bool drop(ig__capture *c, ig__storage *s)
{
    ig__program_storage *known = &program_of(c)->storages[s->captured - 1];
    if (known->made) {
        known->s = NULL;
        return false;
    }
    known->kept = true;
    return true;
}

static bool is_state(ig__capture *c, const ig_tensor *x)
{
    const int32_t i = x->storage->captured;
    if (!i)
        return true;
    const ig__program_storage *s = &program_of(c)->storages[i - 1];
    return !s->made && !s->constant && !s->n_bumps;
}

static bool use_copy(ig__capture *c, ig_tensor *x)
{
    ig_program *p = program_of(c);
    for (int32_t i = 0; i < p->n_copies; i++)
        if (p->copies[i].low == x->low)
            return true;
    void *items = p->copies;
    if (!grow(&p->ctx->allocator, &items, p->n_copies, &p->cap_copies, sizeof *p->copies)) {
        ig__fail_on(p->ctx, IG_ERR_MEMORY, "capture: out of memory after %d steps",
                    (int)p->n_steps);
        return false;
    }
    p->copies = items;
    p->copies[p->n_copies++] = (ig__program_copy){ig__retain(x), ig__retain(x->low)};
    return true;
}

/* No storage has a number any more; the program counts those that live. */
static void settle(ig_program *p)
{
    for (int32_t i = 0; i < p->n_storages; i++) {
        ig__program_storage *known = &p->storages[i];
        if (!known->s)
            continue;
        known->s->captured = 0;
        if (!known->kept)
            known->s->refs++;
        known->kept = true;
    }
}

/* Constants that are never written need no step. */
static void drop_constants(ig_program *p)
{
    int32_t n = 0;
    for (int32_t i = 0; i < p->n_steps; i++) {
        ig__program_step *step = p->steps[i];
        ig__program_storage *s = &p->storages[step->uses[0].storage];
        if (!step->op && !s->mended)
            continue;
        if (!step->op)
            s->n_bumps++;
        p->steps[n++] = step;
    }
    p->n_steps = n;
}

void ig__program_step_choose(const ig_program *p, ig__program_step *step)
{
    step->span = ig__eval_plain(step->op, &step->e);
    step->team = !step->span && ig__team_size(p->ctx->team) > 1 &&
                 ig__eval_wants_team(step->op, &step->e);
}

static recording *take(ig_context *ctx)
{
    recording *r = (recording *)ctx->capture;
    settle(r->p);
    ctx->capture = NULL;
    return r;
}

static void cancel(ig__capture *c)
{
    ig_program *p = program_of(c);
    ig_context *ctx = p->ctx;
    recording *r = take(ctx);
    ig_program_destroy(p);
    ig__free(&ctx->allocator, r);
}

/* ---- public ------------------------------------------------------------------------------------ */

ig_status ig_capture_begin(ig_context *ctx, ig_error *err)
{
    if (!ctx)
        return ig__fail(err, IG_ERR_ARGUMENT, "capture: the context is NULL");
    if (ctx->capture)
        return ig__fail(err, IG_ERR_ARGUMENT, "capture: one is in progress");
    if (ig__context_failed(ctx))
        return ig__fail(err, ctx->error.status, "%s", ctx->error.message);
    recording *r = ig__alloc_zero(&ctx->allocator, sizeof *r);
    ig_program *p = ig__alloc_zero(&ctx->allocator, sizeof *p);
    if (!r || !p) {
        ig__free(&ctx->allocator, r);
        ig__free(&ctx->allocator, p);
        return ig__fail_memory(err, "capture", sizeof *r + sizeof *p);
    }
    p->ctx = ctx;
    p->arena = ig__arena_init(&ctx->allocator);
    *r = (recording){{call, constant, drop, is_state, use_copy, cancel}, p, ctx->n_draws};
    ctx->capture = &r->head;
    return IG_OK;
}

ig_status ig__record_end(ig_program **p_out, ig_context *ctx, ig_error *err)
{
    *p_out = NULL;
    if (!ctx || !ctx->capture)
        return ig__fail(err, IG_ERR_ARGUMENT, "capture: none is in progress");
    if (ig__context_failed(ctx)) {
        cancel(ctx->capture);
        return ig__fail(err, ctx->error.status, "%s", ctx->error.message);
    }
    recording *r = take(ctx);
    *p_out = r->p;
    ig__free(&ctx->allocator, r);
    drop_constants(*p_out);
    return IG_OK;
}

bool ig_capture_is_recording(const ig_context *ctx)
{
    return ctx && ctx->capture;
}
