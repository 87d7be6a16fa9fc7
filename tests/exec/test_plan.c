/* The invariants of plans, on the graphs of both families with any pass left out: where
 * barriers stand, and that values which live at one time do not share bytes. They are derived
 * here anew, from the steps alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "compile/pass.h"
#include "exec/plan_int.h"
#include "nn/nn.h"
#include "tiny_model.h"

static ig_error error;

static void must(ig_status status)
{
    if (status != IG_OK)
        fail_msg("%s", error.message);
}

static bool barrier_between(const ig__plan *plan, int32_t from, int32_t to, int mode)
{
    for (int32_t i = from + 1; i <= to; i++)
        if (plan->steps[i].barrier[mode])
            return true;
    return false;
}

static bool reads(const ig__plan *plan, int32_t step, ig__value root)
{
    const ig__node *node = plan->steps[step].node;
    for (int j = 0; j < node->n_in; j++)
        if (plan->places[node->in[j]].root == root)
            return true;
    return false;
}

/* Two shares take turns, so two shared-out steps need a barrier between them; so do a
 * shared-out step and whoever reads what it wrote. */
static void check_barriers(const ig__plan *plan, int mode)
{
    int64_t n = 0;
    for (int32_t i = 0; i < plan->n_steps; i++) {
        const ig__node *node = plan->steps[i].node;
        n += plan->steps[i].barrier[mode];
        if (!plan->steps[i].shared_out[mode])
            continue;
        for (int32_t k = i + 1; k < plan->n_steps; k++)
            if ((plan->steps[k].shared_out[mode] || reads(plan, k, node->out)) &&
                !barrier_between(plan, i, k, mode))
                fail_msg("mode %d: no barrier between step %d (%s %s) and step %d (%s)",
                         mode, i, node->scope, node->op->name, k,
                         plan->steps[k].node->op->name);
    }
    assert_int_equal(n, mode == IG_MODE_SMALL ? plan->stats.n_barriers_small
                                              : plan->stats.n_barriers_large);
}

static int32_t step_of(const ig__plan *plan, ig__value v)
{
    for (int32_t i = 0; i < plan->n_steps; i++)
        if (plan->steps[i].node->out == v)
            return i;
    return -1;
}

static bool overlap(size_t a, size_t a_bytes, size_t b, size_t b_bytes)
{
    return a < b + b_bytes && b < a + a_bytes;
}

/* What step `born` writes may not lie on an older value that is read later, or that a slow
 * thread may still be reading: no barrier stands between that step and this one. */
static void check_bytes(const ig__plan *plan, int32_t born, ig__value old)
{
    const ig__place *a = &plan->places[plan->steps[born].node->out];
    const ig__place *b = &plan->places[old];
    const int32_t old_born = step_of(plan, old);
    if (old_born < 0 || old_born >= born)
        return;
    const bool on_shared = overlap(a->shared, a->bytes, b->shared, b->bytes);
    const bool on_private =
        a->rows && b->rows &&
        overlap(a->private_at, a->private_bytes, b->private_at, b->private_bytes);
    /* in the small mode what walks by rows is private; the rest lies in shared memory */
    const bool both_shared_in_small = !a->rows && !b->rows;
    for (int32_t k = old_born; k < plan->n_steps; k++) {
        if (k != old_born && !reads(plan, k, old))
            continue;
        const bool later = k >= born;
        const bool meet =
            !later &&
            ((both_shared_in_small && !barrier_between(plan, k, born, IG_MODE_SMALL)) ||
             !barrier_between(plan, k, born, IG_MODE_LARGE));
        if ((on_private && later) || (on_shared && (later || meet)))
            fail_msg("%s %s lies on %s %s, which step %d reads",
                     plan->steps[born].node->scope, plan->steps[born].node->op->name,
                     plan->steps[old_born].node->scope,
                     plan->steps[old_born].node->op->name, k);
    }
    if (on_shared && old == plan->places[plan->g->output].root)
        fail_msg("%s lies on the output", plan->steps[born].node->op->name);
}

static void check_plan(ig_context *ctx, const ig__graph *g)
{
    const ig__plan_opts opts = {.max_tokens = 33, .max_logits = 7, .max_keys = 1000};
    const ig__bind most = {{0, opts.max_tokens, opts.max_logits}};
    ig__plan *plan;
    must(ig__plan_create(&plan, ctx, g, &opts, &error));
    for (int mode = 0; mode < IG_MODE_COUNT; mode++)
        check_barriers(plan, mode);
    for (int32_t i = 0; i < plan->n_steps; i++) {
        const ig__place *place = &plan->places[plan->steps[i].node->out];
        const ig__type *type = ig__graph_type(g, plan->steps[i].node->out);
        assert_true(place->bytes >= ig__type_bytes(type, &most, 4));
        assert_true(place->shared + place->bytes <= plan->stats.shared_bytes);
        assert_true(place->private_at + place->private_bytes <= plan->stats.private_bytes);
        assert_int_equal(place->shared % 64, 0);
        for (int32_t v = 0; v < g->n_values; v++)
            check_bytes(plan, i, v);
    }
    ig__plan_destroy(plan);
}

static void check_family(tiny_model tiny, bool exact)
{
    ig_context *ctx;
    ig__gguf *file;
    const ig__family *family;
    ig__config config;
    ig__graph plain, g;
    int n_passes = 0;
    while (ig__passes[n_passes].name)
        n_passes++;
    const ig_context_opts context = {.n_threads = 2};
    must(ig_context_create(&ctx, &context, &error));
    const ig_allocator *a = &ctx->allocator;
    must(ig__gguf_open(&file, a, tiny_model_save(&tiny), &error));
    must(ig__family_of(&family, file, &error));
    must(ig__config_read(&config, family, file, &error));
    must(ig__model_capture(&plain, family, &config, file, a, &error));
    for (uint32_t without = 0; without < 1u << n_passes; without++) {
        const ig__compile_opts opts = {
            .kernels = ctx->kernels, .exact = exact, .without = without};
        must(ig__compile(&g, &plain, &opts, NULL, NULL, &error));
        check_plan(ctx, &g);
        ig__graph_fini(&g);
    }
    ig__graph_fini(&plain);
    ig__gguf_close(file);
    ig_context_destroy(ctx);
    tiny_model_fini(&tiny);
}

static void plans_of_llama(void **state)
{
    (void)state;
    check_family((tiny_model){.dtype = IG_DTYPE_Q8_0}, false);
    check_family((tiny_model){.dtype = IG_DTYPE_F32, .head = true}, true);
}

static void plans_of_gemma(void **state)
{
    (void)state;
    check_family((tiny_model){.dtype = IG_DTYPE_Q4_0, .gemma = true}, false);
}

static ig__value apply(ig__graph *g, const ig__op *op, ig__value x, ig__value y)
{
    const ig__value in[] = {x, y};
    return ig__graph_apply(g, op, NULL, in, 2);
}

/* Two products of one value, added: no model's order of calls, but a legal one. */
static void products_side_by_side(void **state)
{
    (void)state;
    ig_context *ctx;
    ig__graph g;
    must(ig_context_create(&ctx, NULL, &error));
    ig__graph_init(&g, &ctx->allocator);
    ig__type tokens = {.dtype = IG_DTYPE_I32, .n_dims = 1};
    tokens.dims[0] = ig__dim_symbol(IG_SYMBOL_TOKENS);
    ig__type matrix = {.dtype = IG_DTYPE_F32, .layout = IG_LAYOUT_GROUPS, .n_dims = 2};
    matrix.dims[0] = matrix.dims[1] = ig__dim_of(32);
    const ig__value input = ig__graph_input(&g, IG_INPUT_TOKENS, tokens);
    const ig__value x =
        apply(&g, &ig__op_embedding, input, ig__graph_param(&g, "e", matrix));
    const ig__value y = apply(&g, &ig__op_linear, x, ig__graph_param(&g, "y", matrix));
    const ig__value z = apply(&g, &ig__op_linear, x, ig__graph_param(&g, "z", matrix));
    g.output = apply(&g, &ig__op_add, y, z);
    must(ig__graph_status(&g, &error));
    check_plan(ctx, &g);
    ig__graph_fini(&g);
    ig_context_destroy(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plans_of_llama),
        cmocka_unit_test(plans_of_gemma),
        cmocka_unit_test(products_side_by_side),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
