/* Fusions: what stands around a product becomes part of it.
 *
 * Each function matches at the last node of its pattern. The nodes that it absorbs were copied before;
 * nobody uses the copies, so they are dropped as dead.
 */
#include "compile/pass_int.h"

/* v, or what it is a reshape of. */
static ig__value behind_reshape(const ig__rewrite *r, ig__value v)
{
    const ig__node *node = ig__match(r, v, &ig__op_reshape, true);
    return node ? node->in[0] : v;
}

/* pack(rms_norm(x, g)) -> norm_pack(x, g) */
ig__value ig__pass_norm_pack(ig__rewrite *r, const ig__node *node)
{
    if (node->op != &ig__op_pack)
        return IG_NO_VALUE;
    const ig__node *norm = ig__match(r, node->in[0], &ig__op_rms_norm, true);
    if (!norm || ig__graph_type(r->from, norm->in[0])->n_dims != 2)
        return IG_NO_VALUE;
    ig__pack_attrs attrs = *(const ig__pack_attrs *)node->attrs;
    attrs.eps = ((const ig__norm_attrs *)norm->attrs)->eps;
    const ig__value in[] = {r->map[norm->in[0]], r->map[norm->in[1]]};
    return ig__graph_apply(r->to, &ig__op_norm_pack, &attrs, in, 2);
}

/* pack(reshape(attend_join(p))) -> join_pack(p) */
ig__value ig__pass_join_pack(ig__rewrite *r, const ig__node *node)
{
    if (node->op != &ig__op_pack)
        return IG_NO_VALUE;
    const ig__node *join =
        ig__match(r, behind_reshape(r, node->in[0]), &ig__op_attend_join, true);
    if (!join)
        return IG_NO_VALUE;
    const ig__value partials = r->map[join->in[0]];
    return ig__graph_apply(r->to, &ig__op_join_pack, node->attrs, &partials, 1);
}

/* mul(silu(linear_packed(a, wg)), linear_packed(a, wu)) -> gated_packed(a, wg, wu) */
ig__value ig__pass_gate(ig__rewrite *r, const ig__node *node)
{
    if (node->op != &ig__op_mul)
        return IG_NO_VALUE;
    ig__gated_attrs attrs = {.gate = IG_GATE_SILU};
    const ig__node *curve = ig__match(r, node->in[0], &ig__op_silu, true);
    if (!curve) {
        attrs.gate = IG_GATE_GELU;
        curve = ig__match(r, node->in[0], &ig__op_gelu, true);
    }
    if (!curve)
        return IG_NO_VALUE;
    const ig__node *gate = ig__match(r, curve->in[0], &ig__op_linear_packed, true);
    const ig__node *up = ig__match(r, node->in[1], &ig__op_linear_packed, true);
    if (!gate || !up || gate->n_in != 2 || up->n_in != 2 || gate->in[0] != up->in[0])
        return IG_NO_VALUE;
    const ig__value in[] = {r->map[gate->in[0]], r->map[gate->in[1]], r->map[up->in[1]]};
    return ig__graph_apply(r->to, &ig__op_gated_packed, &attrs, in, 3);
}

/* add(x, linear_packed(a, w)) -> linear_packed(a, w, x), either way round */
ig__value ig__pass_residual(ig__rewrite *r, const ig__node *node)
{
    if (node->op != &ig__op_add)
        return IG_NO_VALUE;
    for (int i = 0; i < 2; i++) {
        const ig__node *product = ig__match(r, node->in[i], &ig__op_linear_packed, true);
        if (!product || product->n_in != 2)
            continue;
        const ig__value in[] = {r->map[product->in[0]], r->map[product->in[1]],
                                r->map[node->in[1 - i]]};
        return ig__graph_apply(r->to, &ig__op_linear_packed, NULL, in, 3);
    }
    return IG_NO_VALUE;
}

/* add(x, rms_norm(y, g)) -> norm_add(y, g, x) */
ig__value ig__pass_norm_add(ig__rewrite *r, const ig__node *node)
{
    if (node->op != &ig__op_add)
        return IG_NO_VALUE;
    for (int i = 0; i < 2; i++) {
        const ig__node *norm = ig__match(r, node->in[i], &ig__op_rms_norm, true);
        if (!norm || ig__graph_type(r->from, norm->out)->n_dims != 2)
            continue;
        const ig__value in[] = {r->map[norm->in[0]], r->map[norm->in[1]],
                                r->map[node->in[1 - i]]};
        return ig__graph_apply(r->to, &ig__op_norm_add, norm->attrs, in, 3);
    }
    return IG_NO_VALUE;
}

/* A head's way from its product to attention: rope(norm(reshape(linear_packed(a, w)))). */
typedef struct head_path {
    const ig__node *rope, *norm, *product; /* norm may be NULL */
} head_path;

static bool match_path(const ig__rewrite *r, ig__value v, bool rotated, head_path *path)
{
    *path = (head_path){0};
    if (rotated) {
        path->rope = ig__match(r, v, &ig__op_rope, true);
        if (!path->rope)
            return false;
        v = path->rope->in[0];
        path->norm = ig__match(r, v, &ig__op_rms_norm, true);
        if (path->norm)
            v = path->norm->in[0];
    }
    path->product = ig__match(r, behind_reshape(r, v), &ig__op_linear_packed, true);
    return path->product && path->product->n_in == 2;
}

/* attend(q, cache_write(k, v)) and all that makes q, k, v -> attend(qkv_packed(...)) */
ig__value ig__pass_qkv(ig__rewrite *r, const ig__node *node)
{
    if (node->op != &ig__op_attend)
        return IG_NO_VALUE;
    const ig__node *write = ig__match(r, node->in[1], &ig__op_cache_write, true);
    head_path q, k, v;
    if (!write || !match_path(r, node->in[0], true, &q) ||
        !match_path(r, write->in[0], true, &k) || !match_path(r, write->in[1], false, &v))
        return IG_NO_VALUE;
    const ig__value acts = q.product->in[0];
    if (k.product->in[0] != acts || v.product->in[0] != acts || !q.norm != !k.norm ||
        q.rope->in[1] != k.rope->in[1])
        return IG_NO_VALUE;
    const ig__qkv_attrs attrs = {
        .layer = ((const ig__attention_attrs *)node->attrs)->layer,
        .width = ig__graph_type(r->from, node->in[0])->dims[2].plus,
        .halves = ((const ig__rope_attrs *)q.rope->attrs)->halves,
        .norms = q.norm != NULL,
        .eps = q.norm ? ((const ig__norm_attrs *)q.norm->attrs)->eps : 0,
    };
    ig__value in[7] = {r->map[acts], r->map[q.product->in[1]], r->map[k.product->in[1]],
                       r->map[v.product->in[1]], r->map[q.rope->in[1]]};
    if (q.norm) {
        in[5] = r->map[q.norm->in[1]];
        in[6] = r->map[k.norm->in[1]];
    }
    const ig__value query =
        ig__graph_apply(r->to, &ig__op_qkv_packed, &attrs, in, q.norm ? 7 : 5);
    const ig__value both[] = {query, query};
    return ig__graph_apply(r->to, &ig__op_attend, node->attrs, both, 2);
}
