/* A serving family's graph, call by call, on tensors: one family file for running and for training.
 *
 * The graph (graph.h) is of plain operators over rows, [T,..]. Here the rows are B*T, flat, and what depends on
 * whose rows they are is said by hand:
 *
 *   reshape to heads     [B*T,H*W] -> [B,H,T,W], the form that rope and attention on tensors take
 *   reshape to rows      back
 *   rope, attention      the operators over arrays: positions 0 .. T-1, causal within a sequence
 *   gather_rows          all rows are wanted
 *
 * Every other call is the same row of the table, applied to tensors. Parameters have the serving format's
 * names in the graph; a family's `rename` gives those of its training files.
 */
#include "nn/module_int.h"

#include "base/error.h"
#include "op/apply.h"
#include "tensor/tensor.h"

#include <string.h>

typedef struct replay {
    ig_module *m;
    int64_t n_batch, n_tokens; /* B, T */
    ig_tensor *tokens, *positions;
    ig_tensor **values; /* [n_values] of the graph */
} replay;

static ig__type integers(ig__symbol symbol)
{
    ig__type type = {.dtype = IG_DTYPE_I32, .n_dims = 1};
    type.dims[0] = ig__dim_symbol(symbol);
    return type;
}

static ig_status build_graph(ig_module *m, ig_error *err)
{
    ig__graph *g = &m->graph;
    ig__graph_init(g, &m->ctx->allocator);
    ig__builder b = {.g = g, .config = &m->config, .untied = !m->tied};
    b.tokens = ig__graph_input(g, IG_INPUT_TOKENS, integers(IG_SYMBOL_TOKENS));
    b.positions = ig__graph_input(g, IG_INPUT_POSITIONS, integers(IG_SYMBOL_TOKENS));
    b.logit_rows = ig__graph_input(g, IG_INPUT_LOGIT_ROWS, integers(IG_SYMBOL_LOGITS));
    if (ig__graph_status(g, NULL) == IG_OK)
        m->family->serving->build(&b);
    const ig_status status = ig__graph_status(g, err);
    m->has_graph = status == IG_OK;
    if (!m->has_graph)
        ig__graph_fini(g);
    return status;
}

static ig_tensor *parameter(ig_module *m, const ig__param *param)
{
    char full[160];
    int64_t dims[IG_MAX_DIMS];
    const ig__type *type = ig__graph_type(&m->graph, param->value);
    for (int i = 0; i < type->n_dims; i++)
        dims[i] = type->dims[i].plus;
    const ig_init init = {.kind = type->n_dims > 1 ? IG_INIT_NORMAL : IG_INIT_ONES,
                          .value = m->deviation};
    return ig_param(m->params, m->family->rename(full, sizeof full, param->name), init,
                    type->n_dims, dims);
}

static ig_tensor *reshape(const replay *r, const ig__reshape_attrs *a, ig_tensor *x)
{
    if (a->n_dims == 3) {
        x = ig_reshape(x,
                       IG_SHAPE(r->n_batch, r->n_tokens, a->dims[1].plus, a->dims[2].plus));
        return ig_transpose(x, 1, 2);
    }
    return ig_reshape(ig_transpose(x, 1, 2),
                      IG_SHAPE(r->n_batch * r->n_tokens, a->dims[1].plus));
}

static ig_tensor *call(const replay *r, const ig__node *node)
{
    ig_tensor *in[IG_MAX_INPUTS];
    for (int i = 0; i < node->n_in; i++)
        if (!(in[i] = r->values[node->in[i]]) && node->op != &ig__op_gather_rows)
            return NULL;
    if (node->op == &ig__op_gather_rows)
        return in[0];
    if (node->op == &ig__op_reshape)
        return reshape(r, node->attrs, in[0]);
    if (node->op == &ig__op_rope)
        return ig_rope(in[0], in[1], true);
    if (node->op == &ig__op_attention) {
        const ig__attention_attrs *a = node->attrs;
        const ig_attention_opts opts = {
            .scale = (double)a->scale, .causal = true, .window = a->window};
        return ig_attention(in[0], in[1], in[2], &opts);
    }
    if (node->op == &ig__op_add ||
        node->op == &ig__op_mul) /* types differ in mixed precision */
        return ig__apply_met(node->op, node->attrs, in[0], in[1]);
    return ig__apply(r->m->ctx, node->op, node->attrs, in, node->n_in);
}

static ig_tensor *run(replay *r)
{
    const ig__graph *g = &r->m->graph;
    for (int32_t i = 0; i < g->n_values; i++)
        if (g->values[i].kind == IG_VALUE_INPUT)
            r->values[i] = g->values[i].index == IG_INPUT_TOKENS      ? r->tokens
                           : g->values[i].index == IG_INPUT_POSITIONS ? r->positions
                                                                      : NULL;
    for (int32_t i = 0; i < g->n_params; i++)
        r->values[g->params[i].value] = parameter(r->m, &g->params[i]);
    for (int32_t i = 0; i < g->n_nodes; i++)
        r->values[g->nodes[i].out] = call(r, &g->nodes[i]);
    return r->values[g->output];
}

ig_tensor *ig__module_replay(ig_module *m, ig_tensor *tokens)
{
    if (!tokens || (!m->has_graph && build_graph(m, &m->ctx->error) != IG_OK))
        return NULL;
    const size_t bytes = (size_t)m->graph.n_values * sizeof(ig_tensor *);
    replay r = {
        .m = m, .n_batch = ig_tensor_dim(tokens, 0), .n_tokens = ig_tensor_dim(tokens, 1)};
    r.tokens = ig_reshape(tokens, IG_SHAPE(r.n_batch * r.n_tokens));
    r.positions = ig_arange(m->ctx, IG_DTYPE_I32, 0, 1, r.n_tokens);
    r.values = ig__alloc_zero(&m->ctx->allocator, bytes);
    if (!r.values)
        return ig__fail_on(m->ctx, IG_ERR_MEMORY, "%s: no memory", m->family->type);
    ig_tensor *y = run(&r);
    ig__free(&m->ctx->allocator, r.values);
    return ig_reshape(y, IG_SHAPE(r.n_batch, r.n_tokens, m->config.vocab));
}
