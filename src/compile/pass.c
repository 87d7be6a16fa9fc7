/* Running passes: copy, rewrite, drop what is dead, check. */
#include "compile/pass_int.h"

#include "base/error.h"

#include <string.h>

const ig__pass ig__passes[] = {
    {"cache", ig__pass_cache},
    {"pack", ig__pass_pack},
    {"same", ig__pass_same},
    {"norm_pack", ig__pass_norm_pack},
    {"join_pack", ig__pass_join_pack},
    {"gate", ig__pass_gate},
    {"residual", ig__pass_residual},
    {"norm_add", ig__pass_norm_add},
    {"qkv", ig__pass_qkv},
    {NULL, NULL},
};

const ig__node *ig__match(const ig__rewrite *r, ig__value v, const ig__op *op, bool only)
{
    const ig__node *node = ig__graph_producer(r->from, v);
    return node && node->op == op && (!only || r->n_uses[v] == 1) ? node : NULL;
}

/* live[v] = something that counts needs v. */
static void mark_live(const ig__graph *g, int32_t *live)
{
    memset(live, 0, (size_t)g->n_values * sizeof *live);
    if (g->output != IG_NO_VALUE)
        live[g->output] = 1;
    for (int32_t i = g->n_nodes - 1; i >= 0; i--) {
        const ig__node *node = &g->nodes[i];
        if (!live[node->out])
            continue;
        for (int j = 0; j < node->n_in; j++)
            live[node->in[j]] = 1;
    }
}

static ig__value copy_node(ig__rewrite *r, const ig__node *node)
{
    ig__value in[IG_MAX_INPUTS];
    for (int j = 0; j < node->n_in; j++)
        in[j] = r->map[node->in[j]];
    return ig__graph_apply(r->to, node->op, node->attrs, in, node->n_in);
}

/* Inputs and parameters first, in their order: their numbers stay. */
static void copy_sources(ig__rewrite *r)
{
    for (int32_t v = 0; v < r->from->n_values; v++) {
        const ig__value_info *info = &r->from->values[v];
        r->map[v] = IG_NO_VALUE;
        if (info->kind == IG_VALUE_INPUT) {
            r->map[v] = ig__graph_input(r->to, info->index, info->type);
        } else if (info->kind == IG_VALUE_PARAM) {
            const ig__param *param = &r->from->params[info->index];
            r->map[v] = ig__graph_new_param(r->to, param->name, info->type, param->data);
        }
    }
}

/* One copy of `from` into `to` with `at` applied (NULL: only dead nodes are dropped). */
static ig_status run_pass(ig__graph *to, const ig__graph *from,
                          const ig__compile_opts *opts, const ig__pass *pass, ig_error *err)
{
    const ig_allocator *a = from->arena.a;
    const size_t bytes = (size_t)from->n_values * sizeof(int32_t);
    ig__rewrite r = {.from = from, .to = to, .opts = opts};
    r.map = ig__alloc(a, bytes);
    r.n_uses = ig__alloc(a, bytes);
    int32_t *live = ig__alloc(a, bytes);
    ig__graph_init(to, a);
    if (!r.map || !r.n_uses || !live) {
        to->status = ig__fail_memory(&to->error, "compile", bytes);
        goto done;
    }
    ig__graph_count_uses(from, r.n_uses);
    mark_live(from, live);
    copy_sources(&r);
    for (int32_t i = 0; i < from->n_nodes && to->status == IG_OK; i++) {
        const ig__node *node = &from->nodes[i];
        if (!live[node->out])
            continue;
        ig__graph_enter(to, "%s", node->scope);
        ig__value v = pass ? pass->at(&r, node) : IG_NO_VALUE;
        if (v == IG_NO_VALUE)
            v = copy_node(&r, node);
        r.map[node->out] = v;
    }
    if (from->output != IG_NO_VALUE && to->status == IG_OK)
        to->output = r.map[from->output];
done:
    ig__free(a, r.map);
    ig__free(a, r.n_uses);
    ig__free(a, live);
    return ig__graph_status(to, err);
}

/* Replace *g by its copy through the pass. */
static ig_status replace(ig__graph *g, const ig__compile_opts *opts, const ig__pass *pass,
                         ig_error *err)
{
    ig__graph next;
    const ig_status status = run_pass(&next, g, opts, pass, err);
    if (status != IG_OK) {
        ig__graph_fini(&next);
        return status;
    }
    ig__graph_fini(g);
    *g = next;
    return IG_OK;
}

ig_status ig__compile(ig__graph *to, const ig__graph *from, const ig__compile_opts *opts,
                      ig__dump *dump, void *user, ig_error *err)
{
    ig_status status = run_pass(to, from, opts, NULL, err);
    for (int i = 0; ig__passes[i].name && status == IG_OK; i++) {
        if (opts->without >> i & 1)
            continue;
        status = replace(to, opts, &ig__passes[i], err);
        if (status == IG_OK)
            status = replace(to, opts, NULL, err);
        if (status == IG_OK && dump)
            dump(user, ig__passes[i].name, to);
    }
    if (status == IG_OK)
        status = ig__graph_check(to, err);
    if (status != IG_OK)
        ig__graph_fini(to);
    return status;
}
