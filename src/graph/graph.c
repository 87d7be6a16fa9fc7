/* Building, checking and printing a captured graph. */
#include "graph/graph.h"

#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void ig__graph_init(ig__graph *g, const ig_allocator *a)
{
    *g = (ig__graph){.arena = ig__arena_init(a), .output = IG_NO_VALUE, .scope = ""};
}

void ig__graph_fini(ig__graph *g)
{
    const ig_allocator *a = g->arena.a;
    if (!a)
        return;
    ig__free(a, g->values);
    ig__free(a, g->nodes);
    ig__free(a, g->params);
    ig__arena_fini(&g->arena);
    *g = (ig__graph){0};
}

ig_status ig__graph_status(const ig__graph *g, ig_error *err)
{
    if (g->status != IG_OK && err)
        *err = g->error;
    return g->status;
}

static ig__value fail_memory(ig__graph *g)
{
    g->status = ig__fail_memory(&g->error, "graph", 0);
    return IG_NO_VALUE;
}

/* Room for one more element of `size` bytes. */
static bool reserve(ig__graph *g, void *array, int32_t n, int32_t *cap, size_t size)
{
    if (n < *cap)
        return true;
    const int32_t wanted = *cap ? *cap * 2 : 64;
    void *old, *grown;
    memcpy(&old, array, sizeof old);
    grown = ig__resize(g->arena.a, old, (size_t)n * size, (size_t)wanted * size);
    if (!grown)
        return fail_memory(g), false;
    memcpy(array, &grown, sizeof grown);
    *cap = wanted;
    return true;
}

void ig__graph_enter(ig__graph *g, const char *fmt, ...)
{
    char text[64];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    const char *copy = ig__arena_copy(&g->arena, text, strlen(text) + 1);
    if (copy)
        g->scope = copy;
    else
        fail_memory(g);
}

static ig__value add_value(ig__graph *g, ig__type type, ig__value_kind kind, int32_t index)
{
    if (g->status != IG_OK ||
        !reserve(g, &g->values, g->n_values, &g->cap_values, sizeof *g->values))
        return IG_NO_VALUE;
    g->values[g->n_values] = (ig__value_info){.type = type, .kind = kind, .index = index};
    return g->n_values++;
}

ig__value ig__graph_input(ig__graph *g, int32_t index, ig__type type)
{
    return add_value(g, type, IG_VALUE_INPUT, index);
}

ig__value ig__graph_new_param(ig__graph *g, const char *name, ig__type type, void *data)
{
    if (g->status != IG_OK ||
        !reserve(g, &g->params, g->n_params, &g->cap_params, sizeof *g->params))
        return IG_NO_VALUE;
    const char *copy = ig__arena_copy(&g->arena, name, strlen(name) + 1);
    if (!copy)
        return fail_memory(g);
    const ig__value v = add_value(g, type, IG_VALUE_PARAM, g->n_params);
    if (v != IG_NO_VALUE)
        g->params[g->n_params++] = (ig__param){.name = copy, .value = v, .data = data};
    return v;
}

ig__value ig__graph_param(ig__graph *g, const char *name, ig__type type)
{
    for (int32_t i = 0; i < g->n_params; i++)
        if (!strcmp(g->params[i].name, name))
            return g->params[i].value;
    return ig__graph_new_param(g, name, type, NULL);
}

ig__value ig__graph_apply(ig__graph *g, const ig__op *op, const void *attrs,
                          const ig__value *in, int n_in)
{
    const ig__type *types[IG_MAX_INPUTS];
    if (g->status != IG_OK)
        return IG_NO_VALUE;
    if (n_in < op->n_in_least || n_in > op->n_in_most) {
        g->status =
            ig__fail(&g->error, IG_ERR_ARGUMENT, "%s: takes %d to %d inputs, not %d",
                     op->name, op->n_in_least, op->n_in_most, n_in);
        return IG_NO_VALUE;
    }
    for (int i = 0; i < n_in; i++)
        types[i] = &g->values[in[i]].type;
    ig__type type;
    g->status = op->shape(&type, types, n_in, attrs, &g->error);
    if (g->status != IG_OK ||
        !reserve(g, &g->nodes, g->n_nodes, &g->cap_nodes, sizeof *g->nodes))
        return IG_NO_VALUE;
    ig__node node = {.op = op, .n_in = n_in, .scope = g->scope};
    memcpy(node.in, in, (size_t)n_in * sizeof *in);
    if (op->attrs_bytes) {
        node.attrs = ig__arena_copy(&g->arena, attrs, op->attrs_bytes);
        if (!node.attrs)
            return fail_memory(g);
    }
    node.out = add_value(g, type, IG_VALUE_NODE, g->n_nodes);
    if (node.out != IG_NO_VALUE)
        g->nodes[g->n_nodes++] = node;
    return node.out;
}

void ig__graph_count_uses(const ig__graph *g, int32_t *n_uses)
{
    memset(n_uses, 0, (size_t)g->n_values * sizeof *n_uses);
    for (int32_t i = 0; i < g->n_nodes; i++)
        for (int j = 0; j < g->nodes[i].n_in; j++)
            n_uses[g->nodes[i].in[j]]++;
    if (g->output != IG_NO_VALUE)
        n_uses[g->output]++;
}

static ig_status check_node(const ig__graph *g, int32_t i, ig_error *err)
{
    const ig__node *node = &g->nodes[i];
    const ig__type *types[IG_MAX_INPUTS];
    for (int j = 0; j < node->n_in; j++) {
        const ig__value v = node->in[j];
        if (v < 0 || v >= g->n_values ||
            (g->values[v].kind == IG_VALUE_NODE && g->values[v].index >= i))
            return ig__fail(err, IG_ERR_INTERNAL, "graph: %s %s takes a later value",
                            node->scope, node->op->name);
        types[j] = &g->values[v].type;
    }
    ig__type type;
    IG_TRY(node->op->shape(&type, types, node->n_in, node->attrs, err));
    const ig__value_info *out = &g->values[node->out];
    if (out->kind != IG_VALUE_NODE || out->index != i || type.layout != out->type.layout ||
        type.n_dims != out->type.n_dims || !ig__dim_same(type.dims[0], out->type.dims[0]) ||
        ig__type_width(&type) != ig__type_width(&out->type))
        return ig__fail(err, IG_ERR_INTERNAL, "graph: %s %s does not make what it says",
                        node->scope, node->op->name);
    return IG_OK;
}

ig_status ig__graph_check(const ig__graph *g, ig_error *err)
{
    IG_TRY(ig__graph_status(g, err));
    for (int32_t i = 0; i < g->n_nodes; i++)
        IG_TRY(check_node(g, i, err));
    return IG_OK;
}

static void print_value(ig__buffer *b, const ig__graph *g, ig__value v)
{
    static const char *const inputs[IG_INPUT_COUNT] = {"tokens", "positions", "rows"};
    const ig__value_info *info = &g->values[v];
    if (info->kind == IG_VALUE_PARAM)
        ig__buffer_append_text(b, g->params[info->index].name);
    else if (info->kind == IG_VALUE_INPUT)
        ig__buffer_append_text(b, inputs[info->index]);
    else
        ig__buffer_printf(b, "%%%d", v);
}

void ig__graph_print(ig__buffer *b, const ig__graph *g)
{
    char text[96];
    for (int32_t i = 0; i < g->n_nodes; i++) {
        const ig__node *node = &g->nodes[i];
        ig__buffer_printf(b, "%-8s ", node->scope);
        print_value(b, g, node->out);
        ig__buffer_printf(b, " = %s(", node->op->name);
        for (int j = 0; j < node->n_in; j++) {
            ig__buffer_append_text(b, j ? ", " : "");
            print_value(b, g, node->in[j]);
        }
        ig__buffer_printf(b, ") %s\n",
                          ig__type_text(&g->values[node->out].type, text, sizeof text));
    }
}

ig__cost ig__graph_cost(const ig__graph *g, const ig__bind *bind)
{
    ig__cost cost = {0};
    for (int32_t i = 0; i < g->n_nodes; i++) {
        const ig__node *node = &g->nodes[i];
        const ig__type *types[IG_MAX_INPUTS];
        for (int j = 0; j < node->n_in; j++)
            types[j] = &g->values[node->in[j]].type;
        if (node->op->cost)
            node->op->cost(&cost, types, node->n_in, &g->values[node->out].type,
                           node->attrs, bind);
    }
    return cost;
}
