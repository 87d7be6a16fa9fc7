/* Recording calls; histories of views after writes in place.
 *
 * A write in place through a view v of a base b: v's new value has the history of the operator
 * that computed it; b's is then "b as it was, with v put over its elements" (row view_put); every
 * other view of b is behind b's epoch and becomes "elements of b" (row view_of) when it is next used.
 */
#include "op/tape.h"

#include "base/error.h"
#include "op/apply.h"
#include "op/view.h"

#include <string.h>

static void destroy(ig_context *ctx, ig__history *head)
{
    ig__tape *node = (ig__tape *)head;
    ig__tape_spend(ctx, node);
    for (int i = 0; i < node->n_in; i++) {
        if (node->edges[i].node)
            ig__history_release(ctx, &node->edges[i].node->head);
        ig__release(node->edges[i].leaf);
    }
    for (int i = 0; i < node->n_out; i++) {
        ig__release(node->d_out[i]);
        for (ig__hook *h = node->hooks[i], *next; h; h = next) {
            next = h->next;
            ig__small_give(&ctx->memory, h, sizeof *h);
        }
    }
    if (node->destroy_own)
        node->destroy_own(ctx, node->own);
    ig__memory_give(&ctx->memory, node, node->bytes);
}

void ig__tape_spend(ig_context *ctx, ig__tape *node)
{
    (void)ctx;
    for (int i = 0; i < node->n_saved; i++) {
        ig__release(node->saved[i].x);
        node->saved[i].x = NULL;
    }
    node->spent = true;
}

static size_t round_up(size_t n)
{
    return (n + 15) / 16 * 16;
}

/* A node with room for its parts behind it; edges and the rest are zero. */
static ig__tape *make_node(ig_context *ctx, const ig__op *op, const void *attrs, int n_in,
                           int n_out, int n_saved)
{
    const size_t edges = round_up(sizeof(ig__tape));
    const size_t saved = edges + (size_t)n_in * sizeof(ig__edge);
    const size_t d_out = saved + (size_t)n_saved * sizeof(ig__saved);
    const size_t hooks = d_out + (size_t)n_out * sizeof(ig_tensor *);
    const size_t types = round_up(hooks + (size_t)n_out * sizeof(ig__hook *));
    const size_t copy = round_up(types + (size_t)n_out * sizeof(ig__type));
    const size_t bytes = copy + op->attrs_bytes;
    ig__tape *node = ig__memory_take(&ctx->memory, bytes);
    if (!node)
        return ig__fail_tensor_memory(ctx, op->name, bytes);
    char *p = (char *)node;
    node->head = (ig__history){.refs = 0, .destroy = destroy};
    node->op = op;
    node->attrs = p + copy;
    node->sequence = ctx->sequence++;
    node->bytes = bytes;
    node->n_in = (int16_t)n_in;
    node->n_out = (int16_t)n_out;
    node->n_saved = 0;
    node->wanted = 0;
    node->spent = node->queued = node->passes = false;
    node->edges = (ig__edge *)(void *)(p + edges);
    node->saved = (ig__saved *)(void *)(p + saved);
    node->d_out = (ig_tensor **)(void *)(p + d_out);
    node->hooks = (ig__hook **)(void *)(p + hooks);
    node->types = (ig__type *)(void *)(p + types);
    node->own = NULL;
    node->destroy_own = NULL;
    memset(node->d_out, 0, (size_t)n_out * (sizeof(ig_tensor *) + sizeof(ig__hook *)));
    if (op->attrs_bytes)
        memcpy(p + copy, attrs, op->attrs_bytes);
    return node;
}

static void set_edge(ig__tape *node, int i, ig_tensor *x)
{
    ig__edge *edge = &node->edges[i];
    *edge = (ig__edge){0};
    if (!x->wants_grad)
        return;
    node->wanted |= 1u << i;
    if (x->node && ig__tape_of(x)->passes) {
        *edge = ig__tape_of(x)->edges[0];
        if (edge->node)
            edge->node->head.refs++;
        else
            ig__retain(edge->leaf);
    } else if (x->node) {
        edge->node = ig__tape_of(x);
        edge->node->head.refs++;
        edge->i_out = x->i_out;
    } else {
        edge->leaf = ig__retain(x);
    }
}

ig__tape *ig__tape_record(ig_context *ctx, const ig__op *op, const void *attrs,
                          ig_tensor *const *in, int n_in, ig_tensor *const *out, int n_out)
{
    uint32_t needs = 0;
    for (int i = 0; i < n_in; i++)
        if (in[i]->wants_grad)
            needs |= op->needs[i];
    ig__tape *node =
        make_node(ctx, op, attrs, n_in, n_out, needs ? __builtin_popcount(needs) : 0);
    if (!node)
        return NULL;
    for (int i = 0; i < n_in; i++)
        set_edge(node, i, in[i]);
    for (int i = 0; i < n_in; i++)
        if (needs & IG_IN(i))
            node->saved[node->n_saved++] =
                (ig__saved){ig__retain(in[i]), in[i]->storage->version, IG_IN(i)};
    for (int i = 0; i < n_out; i++) {
        const ig__type *type = &out[i]->type;
        memcpy(&node->types[i], type,
               offsetof(ig__type, dims) + (size_t)type->n_dims * sizeof(ig__dim));
        if (!(needs & IG_OUT(i)))
            continue;
        ig_tensor *alias = ig__tensor_alias(out[i]);
        if (!alias) {
            ig__tape_spend(ctx, node);
            node->head.refs = 1;
            ig__history_release(ctx, &node->head);
            return NULL;
        }
        node->saved[node->n_saved++] =
            (ig__saved){alias, alias->storage->version, IG_OUT(i)};
    }
    return node;
}

void ig__tape_attach(ig__tape *node, ig_tensor *const *out, int n_out)
{
    ig_context *ctx = out[0]->ctx;
    node->head.refs++;
    for (int i = 0; i < n_out; i++) {
        if (!ig__is_float(out[i]->type.dtype)) /* no gradient comes to it */
            continue;
        if (out[i]->node)
            ig__history_release(ctx, out[i]->node);
        out[i]->node = &node->head;
        out[i]->i_out = (int8_t)i;
        out[i]->wants_grad = true;
        node->head.refs++;
    }
    ig__history_release(ctx, &node->head);
}

bool ig__refresh(ig_tensor *x)
{
    ig_tensor *base = x->base;
    if (!base || x->epoch == base->epoch)
        return true;
    ig_tensor *const in[1] = {base};
    const ig__region_attrs region = ig__region_of(x);
    ig__tape *node = ig__tape_record(x->ctx, &ig__op_view_of, &region, in, 1, &x, 1);
    if (!node)
        return false;
    ig__tape_attach(node, &x, 1);
    x->epoch = base->epoch;
    return true;
}

bool ig__rebase(ig_tensor *x)
{
    ig_tensor *base = x->base;
    if (!base) {
        x->epoch++;
        return true;
    }
    ig_tensor *const in[2] = {base, x};
    const ig__region_attrs region = ig__region_of(x);
    ig__tape *node = ig__tape_record(x->ctx, &ig__op_view_put, &region, in, 2, &base, 1);
    if (!node)
        return false;
    ig__tape_attach(node, &base, 1);
    base->epoch++;
    x->epoch = base->epoch;
    return true;
}
