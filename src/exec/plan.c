/* Making and running plans. See plan.h for the two modes, place.c for memory.
 *
 * Each thread walks all steps. Before a step there is a barrier where it reads what another thread wrote (or
 * where two shared-out steps would follow one another without any, since the shares alternate
 * between two):
 *
 *   norm_pack   qkv | attend | join_pack  o | norm_pack  gated | pack  down |      ("|": barrier)
 *   all do all  shared ...     all do all                        five a layer in the small mode
 */
#include "exec/plan_int.h"

#include "base/error.h"

#include <string.h>

/* Steps of a few rows touch the beginning of each value alone: in huge pages that would make
 * most of the arena resident. It goes into such pages with the first step of so many rows. */
enum { HUGE_ROWS = 64 };

/* ---- making -------------------------------------------------------------------------------- */

static void choose_steps(ig__plan *plan)
{
    for (int32_t i = 0; i < plan->g->n_nodes; i++) {
        const ig__node *node = &plan->g->nodes[i];
        if (node->op->walk == IG_WALK_VIEW)
            continue;
        ig__step *step = &plan->steps[plan->n_steps++];
        step->node = node;
        step->shared_out[IG_MODE_SMALL] = node->op->walk == IG_WALK_ITEMS;
        step->shared_out[IG_MODE_LARGE] = true;
    }
}

/* Was any input of the step written by a shared-out step since the last barrier? */
static bool reads_fresh(const ig__plan *plan, int32_t i, int32_t first, int mode)
{
    const ig__node *node = plan->steps[i].node;
    for (int32_t k = first; k < i; k++)
        for (int j = 0; j < node->n_in; j++)
            if (plan->steps[k].shared_out[mode] &&
                plan->places[node->in[j]].root == plan->steps[k].node->out)
                return true;
    return false;
}

static int64_t place_barriers(ig__plan *plan, int mode)
{
    int64_t n = 0;
    int32_t since = 0; /* the first step after the last barrier */
    for (int32_t i = 0; i < plan->n_steps; i++) {
        bool need = reads_fresh(plan, i, since, mode);
        for (int32_t k = since; k < i && plan->steps[i].shared_out[mode]; k++)
            need |= plan->steps[k].shared_out[mode];
        plan->steps[i].barrier[mode] = need;
        if (need) {
            since = i;
            n++;
        }
    }
    return n;
}

static void find_scratch(ig__plan *plan)
{
    for (int32_t i = 0; i < plan->n_steps; i++) {
        const ig__node *node = plan->steps[i].node;
        const ig__type *types[IG_MAX_INPUTS];
        if (!node->op->scratch)
            continue;
        for (int j = 0; j < node->n_in; j++)
            types[j] = ig__graph_type(plan->g, node->in[j]);
        const size_t bytes = node->op->scratch(
            types, node->n_in, ig__graph_type(plan->g, node->out), node->attrs);
        if (bytes > plan->stats.scratch_bytes)
            plan->stats.scratch_bytes = bytes;
    }
    plan->stats.scratch_bytes = (plan->stats.scratch_bytes + 4095) / 4096 * 4096;
    plan->stats.private_bytes = (plan->stats.private_bytes + 4095) / 4096 * 4096;
}

ig_status ig__plan_create(ig__plan **plan_out, ig_context *ctx, const ig__graph *g,
                          const ig__plan_opts *opts, ig_error *err)
{
    *plan_out = NULL;
    const ig_allocator *a = &ctx->allocator;
    IG_TRY(ig__graph_check(g, err));
    ig__plan *plan = ig__alloc_zero(a, sizeof *plan);
    if (!plan)
        return ig__fail_memory(err, "plan", sizeof *plan);
    plan->ctx = ctx;
    plan->g = g;
    plan->opts = *opts;
    plan->n_threads = ig__team_size(ctx->team);
    ig_status status = IG_ERR_MEMORY;
    plan->places = ig__alloc_zero(a, (size_t)(g->n_values + 1) * sizeof *plan->places);
    plan->steps = ig__alloc_zero(a, (size_t)(g->n_nodes + 1) * sizeof *plan->steps);
    if (!plan->places || !plan->steps) {
        ig__fail_memory(err, "plan", 0);
        goto done;
    }
    choose_steps(plan);
    status = ig__plan_place(plan, err);
    if (status != IG_OK)
        goto done;
    find_scratch(plan);
    plan->stats.n_steps = plan->n_steps;
    plan->stats.n_barriers_small = place_barriers(plan, IG_MODE_SMALL);
    plan->stats.n_barriers_large = place_barriers(plan, IG_MODE_LARGE);
    const size_t a_thread = plan->stats.private_bytes + plan->stats.scratch_bytes;
    plan->shared = ig__alloc(a, plan->stats.shared_bytes);
    plan->privates = ig__alloc_huge(a, a_thread * (size_t)plan->n_threads);
    if (!plan->shared || !plan->privates)
        status = ig__fail_memory(
            err, "plan", plan->stats.shared_bytes + a_thread * (size_t)plan->n_threads);
done:
    if (status != IG_OK)
        ig__plan_destroy(plan);
    else
        *plan_out = plan;
    return status;
}

void ig__plan_destroy(ig__plan *plan)
{
    if (!plan)
        return;
    const ig_allocator *a = &plan->ctx->allocator;
    ig__free(a, plan->places);
    ig__free(a, plan->steps);
    ig__free(a, plan->shared);
    ig__free(a, plan->privates);
    ig__free(a, plan);
}

/* ---- running ------------------------------------------------------------------------------- */

static char *private_of(const ig__plan *plan, int i_thread)
{
    return plan->privates +
           (size_t)i_thread * (plan->stats.private_bytes + plan->stats.scratch_bytes);
}

static void *data_of(const ig__plan *plan, ig__value v, int i_thread)
{
    const ig__place *place = &plan->places[plan->places[v].root];
    if (place->kind == IG_PLACE_ARENA) {
        if (place->rows && plan->mode == IG_MODE_SMALL)
            return private_of(plan, i_thread) + place->private_at;
        return plan->shared + place->shared;
    }
    const ig__value_info *info = &plan->g->values[v];
    if (info->kind == IG_VALUE_INPUT)
        return (void *)(uintptr_t)plan->batch->inputs[info->index];
    return place->outside;
}

static ig__operand operand_of(const ig__plan *plan, ig__value v, int i_thread)
{
    const ig__bind bind = {{0, plan->batch->n_tokens, plan->batch->n_logits}};
    const ig__type *type = ig__graph_type(plan->g, v);
    return (ig__operand){.data = data_of(plan, v, i_thread),
                         .type = type,
                         .rows = ig__dim_value(type->dims[0], &bind),
                         .width = ig__type_width(type)};
}

static void fill_args(ig__step_args *args, const ig__plan *plan, const ig__node *node,
                      int i_thread)
{
    args->k = plan->ctx->kernels;
    args->batch = plan->batch;
    args->attrs = node->attrs;
    args->n_in = node->n_in;
    for (int j = 0; j < node->n_in; j++)
        args->in[j] = operand_of(plan, node->in[j], i_thread);
    args->out = operand_of(plan, node->out, i_thread);
    args->n_threads = plan->n_threads;
    args->scratch = private_of(plan, i_thread) + plan->stats.private_bytes;
}

static int64_t items_of(const ig__node *node, const ig__step_args *args)
{
    return node->op->walk == IG_WALK_ITEMS ? node->op->n_items(args)
                                           : (args->out.rows + IG_TILE - 1) / IG_TILE;
}

/* Prepare the share of the next shared-out step from step i on; by one thread, before a barrier. */
static void prepare_share(ig__plan *plan, int32_t i, int parity)
{
    while (i < plan->n_steps && !plan->steps[i].shared_out[plan->mode])
        i++;
    if (i == plan->n_steps)
        return;
    ig__step_args args;
    fill_args(&args, plan, plan->steps[i].node, 0);
    ig__share_reset(&plan->share[parity], items_of(plan->steps[i].node, &args),
                    plan->n_threads);
}

/* Are the values of this step's output finite? Packed activations carry it in their consumers. */
static bool output_finite(const ig__plan *plan, const ig__step_args *args)
{
    if (args->out.type->layout != IG_LAYOUT_ROWS || args->out.type->dtype != IG_DTYPE_F32)
        return true;
    return plan->ctx->kernels->all_finite(args->out.data, args->out.rows * args->out.width);
}

static void run_step(ig__plan *plan, int32_t i, int i_thread, ig__share *share)
{
    const ig__node *node = plan->steps[i].node;
    ig__step_args args;
    fill_args(&args, plan, node, i_thread);
    if (!share) {
        if (args.out.rows)
            node->op->run(&args, 0, (args.out.rows + IG_TILE - 1) / IG_TILE);
    } else {
        int cursor = i_thread;
        for (int64_t k;
             (k = ig__share_next(share, &cursor, i_thread, plan->n_threads)) >= 0;)
            node->op->run(&args, k, k + 1);
    }
    if (!plan->checking)
        return;
    ig__team_barrier(plan->ctx->team);
    if (i_thread == 0 && plan->failed < 0 && !output_finite(plan, &args))
        plan->failed = i;
    ig__team_barrier(plan->ctx->team);
}

static void walk(void *arg, int i_thread, int n_threads)
{
    ig__plan *plan = arg;
    (void)n_threads;
    int barrier = 0, parity = 0;
    for (int32_t i = 0; i < plan->n_steps; i++) {
        const ig__step *step = &plan->steps[i];
        if (step->barrier[plan->mode]) {
            if (i_thread == 0) /* relaxed: the flag publishes nothing but itself */
                plan->stop[barrier] =
                    plan->cancelled && __atomic_load_n(plan->cancelled, __ATOMIC_RELAXED);
            ig__team_barrier(plan->ctx->team);
            if (plan->stop[barrier])
                return;
            barrier ^= 1;
        }
        ig__share *share = NULL;
        if (step->shared_out[plan->mode]) {
            share = &plan->share[parity];
            parity ^= 1;
            if (i_thread == 0)
                prepare_share(plan, i + 1, parity);
        }
        run_step(plan, i, i_thread, share);
        if (plan->checking && plan->failed >= 0)
            return;
    }
}

static void run_once(ig__plan *plan)
{
    plan->stop[0] = plan->stop[1] = false;
    plan->failed = -1;
    prepare_share(plan, 0, 0);
    ig__team_share(plan->ctx->team, walk, plan);
}

static ig_status find_bad_step(ig__plan *plan, ig_error *err)
{
    plan->checking = true;
    run_once(plan);
    plan->checking = false;
    if (plan->failed < 0)
        return ig__fail(err, IG_ERR_NUMERIC, "step: the output holds a NaN or an infinity");
    const ig__node *node = plan->steps[plan->failed].node;
    return ig__fail(err, IG_ERR_NUMERIC, "step: %s %s made a NaN or an infinity",
                    node->scope, node->op->name);
}

ig_status ig__plan_run(ig__plan *plan, const ig__batch *batch,
                       const volatile int *cancelled, ig_error *err)
{
    if (batch->n_tokens < 1 || batch->n_tokens > plan->opts.max_tokens ||
        batch->n_logits < 0 || batch->n_logits > plan->opts.max_logits)
        return ig__fail(err, IG_ERR_LIMIT,
                        "step: %lld rows and %lld logits, the plan allows %lld and %lld",
                        (long long)batch->n_tokens, (long long)batch->n_logits,
                        (long long)plan->opts.max_tokens, (long long)plan->opts.max_logits);
    plan->batch = batch;
    plan->cancelled = cancelled;
    plan->mode = batch->n_tokens <= IG_SMALL_ROWS ? IG_MODE_SMALL : IG_MODE_LARGE;
    if (batch->n_tokens >= HUGE_ROWS && !plan->is_huge) {
        ig__make_huge(plan->shared, plan->stats.shared_bytes);
        plan->is_huge = true;
    }
    run_once(plan);
    if (plan->stop[0] || plan->stop[1])
        return ig__fail(err, IG_ERR_CANCELLED, "step: cancelled");
    const int64_t width = ig__type_width(ig__graph_type(plan->g, plan->g->output));
    if (!plan->ctx->kernels->all_finite(ig__plan_output(plan), batch->n_logits * width))
        return find_bad_step(plan, err);
    return IG_OK;
}

float *ig__plan_output(ig__plan *plan)
{
    return data_of(plan, plan->g->output, 0);
}

ig__plan_stats ig__plan_get_stats(const ig__plan *plan)
{
    return plan->stats;
}
