/* Binding a program to memory, and the walk.
 *
 * A program without large steps runs on the caller's thread: a loop over bound calls. With large ones
 * the team walks it once a run. Thread 0 does the small steps, while the others wait at the next
 * barrier; a large step is shared out by its row's units, phase by phase:
 *
 *   thread 0   small, small, prepare | units | small, prepare | units | ..      ("|": barrier)
 *   others                           | units |                | units | ..
 *
 * Every unit is what it was in the recorded call, so no bit depends on who does it.
 */
#include "exec/program.h"

#include "base/error.h"
#include "op/autocast.h"

#include <string.h>

static char *bytes_of(const ig_program *p, const ig__use *u)
{
    const ig__program_storage *s = &p->storages[u->storage];
    return (s->s ? s->s->data : p->block + s->at) + u->at;
}

/* ---- a step on one thread ---------------------------------------------------------------------- */

static void run_constant(ig__program_step *step)
{
    memcpy(step->to, step->blob, step->blob_bytes);
}

static void run_span(ig__program_step *step)
{
    step->span(&step->e, step->e.out[0].data, step->x, step->e.out[0].n);
}

static int64_t count_units(const ig__program_step *step, const ig__eval *e)
{
    return step->n_units >= 0 ? step->n_units : ig__eval_count(step->op, e);
}

static void run_units(ig__program_step *step)
{
    ig__eval *e = &step->e;
    const int n_phases = step->op->n_phases ? step->op->n_phases : 1;
    for (e->phase = 0; e->phase < n_phases; e->phase++) {
        const int64_t n = count_units(step, e);
        if (n)
            ig__eval_units(step->op, e, 0, n);
    }
}

/* ---- binding ----------------------------------------------------------------------------------- */

/* A row of one phase that keeps its units has a shared part of its own. */
static bool keep_units(ig_program *p, ig__program_step *step)
{
    ig__eval *e = &step->e;
    e->shared = ig__arena_alloc(&p->arena, ig__eval_room(step->op, e).shared + 1);
    if (!e->shared)
        return false;
    step->n_units = ig__eval_count(step->op, e);
    return true;
}

static bool bind_step(ig_program *p, ig__program_step *step)
{
    ig__eval *e = &step->e;
    step->n_units = -1;
    step->run = step->span ? run_span : run_units;
    if (!step->op) {
        step->to = bytes_of(p, &step->uses[0]);
        step->run = run_constant;
        return true;
    }
    e->fault = &p->fault;
    e->remarked = &step->remarked;
    e->scratch = p->block + p->stats.planned_bytes;
    e->shared = (char *)e->scratch + p->room.each * (size_t)ig__team_size(p->ctx->team);
    e->pool = p->room.pool > 0 ? (char *)e->shared + p->room.shared : NULL;
    for (int i = 0; i < e->n_in; i++)
        e->in[i].data = bytes_of(p, &step->uses[i]);
    for (int i = 0; i < e->n_out; i++)
        e->out[i].data = bytes_of(p, &step->uses[e->n_in + i]);
    if (step->op->random) {
        step->next_random = p->first_random;
        p->first_random = step;
    }
    step->x = ig__arena_alloc(&p->arena, (size_t)(e->n_in + 1) * sizeof *step->x);
    for (int i = 0; step->x && i < e->n_in; i++)
        step->x[i] = e->in[i].data;
    return step->x && (!step->op->keeps_units || keep_units(p, step));
}

static size_t round_up(size_t n)
{
    return (n + 63) / 64 * 64;
}

static void find_room(ig_program *p)
{
    for (int32_t i = 0; i < p->n_steps; i++) {
        const ig__program_step *step = p->steps[i];
        if (!step->op || step->span)
            continue;
        const ig__room room = ig__eval_room(step->op, &step->e);
        if (room.each > p->room.each)
            p->room.each = room.each;
        if (room.shared > p->room.shared)
            p->room.shared = room.shared;
        if (room.pool > p->room.pool)
            p->room.pool = room.pool;
    }
    p->room.each = round_up(p->room.each);
    p->room.shared = round_up(p->room.shared);
    p->room.pool = round_up(p->room.pool);
}

ig_status ig__program_bind(ig_program *p, ig_error *err)
{
    const ig_allocator *a = &p->ctx->allocator;
    if (!ig__program_place(p))
        return ig__fail_memory(err, "capture", 0);
    find_room(p);
    for (int32_t i = 0; i < p->n_steps; i++)
        p->stats.n_team_steps += p->steps[i]->team;
    p->stats.n_steps = p->n_steps - p->n_once;
    p->stats.scratch_bytes =
        p->room.each * (size_t)ig__team_size(p->ctx->team) + p->room.shared + p->room.pool;
    const size_t bytes = p->stats.planned_bytes + p->stats.scratch_bytes;
    p->block = bytes >= IG_HUGE_PAGE ? ig__alloc_huge(a, bytes) : ig__alloc(a, bytes);
    if (!p->block)
        return ig__fail_memory(err, "capture", bytes);
    for (int32_t i = 0; i < p->n_steps; i++)
        if (!bind_step(p, p->steps[i]))
            return ig__fail_memory(err, "capture", 0);
    for (int32_t i = 0; i < p->n_once; i++)
        p->steps[i]->run(p->steps[i]);
    return IG_OK;
}

/* ---- the walk ----------------------------------------------------------------------------------- */

static void look_for_fault(ig_program *p, int32_t i)
{
    if (p->fault != INT64_MAX && p->failed < 0)
        p->failed = i;
}

static void walk_alone(ig_program *p)
{
    for (int32_t i = p->n_once; i < p->n_steps && p->failed < 0; i++) {
        p->steps[i]->run(p->steps[i]);
        look_for_fault(p, i);
    }
}

/* One phase of a large step; false: a step before it has failed. */
static bool run_phase(ig_program *p, const ig__program_step *step, int phase, int i_thread,
                      int n_threads)
{
    ig__eval e = step->e;
    e.phase = phase;
    e.scratch = p->block + p->stats.planned_bytes + (size_t)i_thread * p->room.each;
    if (i_thread == 0) {
        p->stop = p->failed >= 0;
        ig__share_reset(&p->share, p->stop ? 0 : count_units(step, &e), n_threads);
    }
    ig__team_barrier(p->ctx->team);
    if (p->stop)
        return false;
    int cursor = i_thread;
    e.first = true;
    for (int64_t i; (i = ig__share_next(&p->share, &cursor, i_thread, n_threads)) >= 0;) {
        ig__eval_units(step->op, &e, i, i + 1);
        e.first = false;
    }
    ig__team_barrier(p->ctx->team);
    return true;
}

static void walk_together(void *arg, int i_thread, int n_threads)
{
    ig_program *p = arg;
    for (int32_t i = p->n_once; i < p->n_steps; i++) {
        ig__program_step *step = p->steps[i];
        if (!step->team) {
            if (i_thread == 0 && p->failed < 0) {
                step->run(step);
                look_for_fault(p, i);
            }
            continue;
        }
        const int n_phases = step->op->n_phases ? step->op->n_phases : 1;
        for (int phase = 0; phase < n_phases; phase++)
            if (!run_phase(p, step, phase, i_thread, n_threads))
                return;
        if (i_thread == 0)
            look_for_fault(p, i);
    }
}

/* What rows had to remark. */
static void tell_remarks(ig_program *p)
{
    for (int32_t i = 0; i < p->n_steps; i++) {
        ig__program_step *step = p->steps[i];
        if (!step->remarked)
            continue;
        step->remarked = false;
        ig__log(p->ctx, IG_LOG_WARN, "program: step %d: %s: %s", (int)i, step->op->name,
                step->op->remark);
    }
}

/* What changes from run to run: the random stream goes on. */
static void prepare(ig_program *p)
{
    const ig_context *ctx = p->ctx;
    p->fault = INT64_MAX;
    p->failed = -1;
    p->stop = false;
    for (ig__program_step *step = p->first_random; step; step = step->next_random) {
        step->e.seed = ctx->seed;
        step->e.draw = ctx->n_draws + step->draw;
    }
}

/* ---- public ------------------------------------------------------------------------------------ */

ig_status ig_program_run(ig_program *p, ig_error *err)
{
    if (!p)
        return ig__fail(err, IG_ERR_ARGUMENT, "program: it is NULL");
    ig_context *ctx = p->ctx;
    if (ctx->capture)
        return ig__fail(err, IG_ERR_ARGUMENT, "program: cannot run during a capture");
    if (ig__context_failed(ctx))
        return ig__fail(err, ctx->error.status, "%s", ctx->error.message);
    for (int32_t i = 0; i < p->n_copies; i++)
        if (!ig__low_refresh(p->copies[i].x, p->copies[i].low))
            return ig__fail(err, ctx->error.status, "%s", ctx->error.message);
    prepare(p);
    if (p->stats.n_team_steps)
        ig__team_share(ctx->team, walk_together, p);
    else
        walk_alone(p);
    tell_remarks(p);
    ctx->n_draws += p->n_draws;
    for (int32_t i = 0; i < p->n_storages; i++)
        if (p->storages[i].s)
            p->storages[i].s->version += p->storages[i].n_bumps;
    if (p->failed < 0)
        return IG_OK;
    const ig__program_step *step = p->steps[p->failed];
    ig_error found = {.status = IG_OK};
    step->op->explain(&step->e, p->fault, &found);
    return ig__fail(err, found.status, "program: step %d: %s", (int)p->failed,
                    found.message);
}

ig_program_stats ig_program_get_stats(const ig_program *p)
{
    return p->stats;
}

void ig_program_destroy(ig_program *p)
{
    if (!p)
        return;
    ig_context *ctx = p->ctx;
    const ig_allocator *a = &ctx->allocator;
    for (int32_t i = 0; i < p->n_storages; i++)
        if (p->storages[i].s)
            ig__storage_release(ctx, p->storages[i].s);
    for (int32_t i = 0; i < p->n_copies; i++) {
        ig__release(p->copies[i].low);
        ig__release(p->copies[i].x);
    }
    ig__free(a, p->copies);
    ig__free(a, p->storages);
    ig__free(a, p->steps);
    ig__free(a, p->block);
    ig__arena_fini(&p->arena);
    ig__free(a, p);
}
