/* The passes that a cached, packed plan needs: attention over the cache, packed activations, and one copy of
 * what is computed twice.
 */
#include "compile/pass_int.h"

#include <string.h>

/* attention(q, k, v) -> attend_join(attend(q, cache_write(k, v))) */
ig__value ig__pass_cache(ig__rewrite *r, const ig__node *node)
{
    if (node->op != &ig__op_attention)
        return IG_NO_VALUE;
    const ig__value kv[] = {r->map[node->in[1]], r->map[node->in[2]]};
    ig__value q[2] = {r->map[node->in[0]], IG_NO_VALUE};
    q[1] = ig__graph_apply(r->to, &ig__op_cache_write, node->attrs, kv, 2);
    const ig__value partials = ig__graph_apply(r->to, &ig__op_attend, node->attrs, q, 2);
    return ig__graph_apply(r->to, &ig__op_attend_join, NULL, &partials, 1);
}

/* linear(x, w) -> linear_packed(pack(x), w), in the format that products with w want */
ig__value ig__pass_pack(ig__rewrite *r, const ig__node *node)
{
    if (node->op != &ig__op_linear)
        return IG_NO_VALUE;
    const ig__type *w = ig__graph_type(r->from, node->in[1]);
    ig__pack_attrs attrs = {.format = r->opts->kernels->acts[w->dtype]};
    if (r->opts->exact)
        attrs.format = IG_ACTS_F32;
    const ig__value x = r->map[node->in[0]];
    const ig__value in[] = {ig__graph_apply(r->to, &ig__op_pack, &attrs, &x, 1),
                            r->map[node->in[1]]};
    return ig__graph_apply(r->to, &ig__op_linear_packed, NULL, in, 2);
}

/* A node that computes what an earlier one did becomes that one. */
ig__value ig__pass_same(ig__rewrite *r, const ig__node *node)
{
    if (node->op->effect)
        return IG_NO_VALUE;
    for (int32_t i = r->to->n_nodes - 1; i >= 0; i--) {
        const ig__node *old = &r->to->nodes[i];
        if (old->op != node->op || old->n_in != node->n_in)
            continue;
        bool same = !node->op->attrs_bytes ||
                    !memcmp(old->attrs, node->attrs, node->op->attrs_bytes);
        for (int j = 0; same && j < node->n_in; j++)
            same = old->in[j] == r->map[node->in[j]];
        if (same)
            return old->out;
    }
    return IG_NO_VALUE;
}
