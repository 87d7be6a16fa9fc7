/* Backward: from roots to leaves, a node at a time.
 *
 * Ready nodes wait in a heap by their number, the youngest on top. Every consumer of a node is younger
 * than the node, so when it is on top its gradient is whole: one walk, no counting beforehand. Each node
 * is given a scope of its own; what its gradient function made and nobody took dies with it. A
 * gradient that arrives second is added into the first where nobody else holds that.
 */
#include "ingot/grad.h"

#include "base/error.h"
#include "ingot/op.h"
#include "op/apply.h"
#include "op/tape.h"

#include <string.h>

typedef struct target {
    ig_tensor *x;
    ig_tensor *gradient; /* counted */
} target;

typedef struct backward {
    ig_context *ctx;
    ig__tape **heap; /* [n]; counted */
    int64_t n, cap;
    ig_backward_opts opts;
    ig__tape *node;  /* that is walked now; NULL: none */
    target *targets; /* [n_targets]; NULL: leaves get their own gradients */
    int n_targets;
} backward;

/* ---- the heap ---------------------------------------------------------------------------------------- */

static bool push(backward *b, ig__tape *node)
{
    if (node->queued)
        return true;
    if (b->n == b->cap) {
        const int64_t cap = b->cap ? b->cap * 2 : 32;
        ig__tape **grown = ig__memory_take(&b->ctx->memory, (size_t)cap * sizeof *grown);
        if (!grown) {
            ig__fail_tensor_memory(b->ctx, "backward", (size_t)cap * sizeof *grown);
            return false;
        }
        if (b->n)
            memcpy(grown, b->heap, (size_t)b->n * sizeof *grown);
        ig__memory_give(&b->ctx->memory, b->heap, (size_t)b->cap * sizeof *grown);
        b->heap = grown;
        b->cap = cap;
    }
    node->queued = true;
    node->head.refs++;
    int64_t i = b->n++;
    for (; i > 0 && b->heap[(i - 1) / 2]->sequence < node->sequence; i = (i - 1) / 2)
        b->heap[i] = b->heap[(i - 1) / 2];
    b->heap[i] = node;
    return true;
}

static ig__tape *pop(backward *b)
{
    ig__tape *top = b->heap[0], *last = b->heap[--b->n];
    int64_t i = 0;
    for (;;) {
        int64_t child = 2 * i + 1;
        if (child >= b->n)
            break;
        if (child + 1 < b->n && b->heap[child + 1]->sequence > b->heap[child]->sequence)
            child++;
        if (b->heap[child]->sequence < last->sequence)
            break;
        b->heap[i] = b->heap[child];
        i = child;
    }
    if (b->n)
        b->heap[i] = last;
    top->queued = false;
    return top;
}

/* ---- gradients that arrive --------------------------------------------------------------------------- */

/* The gradient in the shape and dtype of what it belongs to. */
static ig_tensor *fit(ig_tensor *d, const ig__type *type)
{
    if (d && !ig__dims_same(&d->type, type)) {
        if (type->dtype == IG_DTYPE_F32)
            d = ig_cast(d,
                        IG_DTYPE_F32); /* a sum of 16-bit values is not rounded to them */
        int64_t dims[IG_MAX_DIMS];
        for (int i = 0; i < type->n_dims; i++)
            dims[i] = type->dims[i].plus;
        d = ig_sum_to(d, type->n_dims, dims);
    }
    return ig_cast(d, type->dtype);
}

/* Nobody but the place that holds it can see it. */
static bool is_ours(const ig_tensor *x)
{
    return x->refs == 1 && !x->scope && !x->base && x->storage->refs == 1 &&
           x->contiguous && !x->node;
}

/* A count of d: that of the walk's own scope, or one more. */
static ig_tensor *hold(backward *b, ig_tensor *d)
{
    return d && d->scope == b->ctx->scope ? ig__unscope(d) : ig_tensor_retain(d);
}

/* *place += d; a count of *place is kept. */
static bool gather(backward *b, ig_tensor **place, ig_tensor *d)
{
    if (!*place) {
        *place = hold(b, d);
        return true;
    }
    if (b->ctx->no_grad && is_ours(*place))
        return ig_add_into(*place, d) != NULL;
    ig_tensor *sum = hold(b, ig_add(*place, d));
    if (!sum)
        return false;
    ig__release(*place);
    *place = sum;
    return true;
}

static ig_tensor *call_hooks(ig__hook *hooks, ig_tensor *d, const ig__type *type)
{
    for (ig__hook *h = hooks; d && h; h = h->next)
        d = fit(h->call(h->user, d), type);
    return d;
}

/* Is d a view of all of a tensor that dies with the node that is walked now: its gradient, or what was made
 * of that? Then a leaf may have the bytes. */
static bool is_last_view(const backward *b, const ig_tensor *d)
{
    const ig_tensor *base = d->base;
    if (!base || !d->contiguous || !b->ctx->no_grad || d->data != d->storage->data ||
        ig_tensor_bytes(d) != d->storage->bytes || d->refs > 1 ||
        d->scope != b->ctx->scope || base->refs != 2 || d->storage->refs != 2)
        return false;
    if (base->scope)
        return base->scope == b->ctx->scope;
    for (int i = 0; b->node && i < b->node->n_out; i++)
        if (b->node->d_out[i] == base)
            return true;
    return false;
}

/* A leaf's gradient: written to the same bytes as long as there are any. */
static bool gather_leaf(backward *b, ig_tensor *leaf, ig_tensor *d)
{
    if (leaf->hooks)
        d = call_hooks(leaf->hooks, d, &leaf->type);
    if (!d)
        return false;
    if (b->targets) {
        for (int i = 0; i < b->n_targets; i++)
            if (b->targets[i].x == leaf && !gather(b, &b->targets[i].gradient, d))
                return false;
        return true;
    }
    if (leaf->grad)
        return gather(b, &leaf->grad, d);
    /* what others see too is copied: the leaf's gradient is its own */
    const bool shared = d->refs > 1 || d->scope != b->ctx->scope || d->base ||
                        d->storage->refs > 1 || !d->contiguous;
    if (shared && is_last_view(b, d))
        leaf->grad = ig__tensor_alias(d);
    else
        leaf->grad = hold(b, shared ? ig_copy(d) : d);
    return leaf->grad != NULL;
}

static bool arrive(backward *b, const ig__edge *edge, ig_tensor *d)
{
    if (edge->leaf)
        return gather_leaf(b, edge->leaf, d);
    return gather(b, &edge->node->d_out[edge->i_out], d) && push(b, edge->node);
}

/* ---- a node ------------------------------------------------------------------------------------------- */

static bool unpack(backward *b, ig__tape *node, ig__gradient *g)
{
    for (int i = 0; i < node->n_saved; i++) {
        const ig__saved *s = &node->saved[i];
        const int place = __builtin_ctz(s->bit);
        const bool is_out = place >= 16;
        if (s->x->storage->version != s->version) {
            ig__fail_on(b->ctx, IG_ERR_ARGUMENT,
                        "backward: %s needs its %s %d as it was at version %u, but it was "
                        "changed in place: it is at version %u",
                        node->op->name, is_out ? "result" : "operand",
                        is_out ? place - 16 : place, s->version, s->x->storage->version);
            return false;
        }
        if (!is_out) {
            g->in[place] = s->x;
            continue;
        }
        g->out[place - 16] = s->x;
        if (b->ctx->no_grad)
            continue;
        /* with its history, for gradients of gradients */
        ig_tensor *y = ig__tensor_view(s->x, &s->x->type, s->x->strides, s->x->data);
        if (!y)
            return false;
        y->epoch = y->base->epoch;
        y->node = &node->head;
        y->node->refs++;
        y->i_out = (int8_t)(place - 16);
        y->wants_grad = true;
        g->out[place - 16] = y;
    }
    return true;
}

/* What has arrived so far where an edge leads, if an operator may add to it. */
static ig_tensor *open_gradient(const backward *b, const ig__edge *edge)
{
    ig_tensor *sum = NULL;
    if (edge->node)
        sum = edge->node->d_out[edge->i_out];
    else if (edge->leaf && !edge->leaf->hooks && !b->targets)
        sum = edge->leaf->grad;
    return sum && b->ctx->no_grad && is_ours(sum) ? sum : NULL;
}

static void take_targets(backward *b, ig__tape *node, bool *failed)
{
    for (int i = 0; i < b->n_targets; i++) {
        ig_tensor *x = b->targets[i].x;
        if (x->node == &node->head && node->d_out[x->i_out])
            *failed |= !gather(b, &b->targets[i].gradient, node->d_out[x->i_out]);
    }
}

static bool walk_node(backward *b, ig__tape *node)
{
    ig_context *ctx = b->ctx;
    bool failed = false;
    for (int i = 0; i < node->n_out; i++)
        if (node->hooks[i] && node->d_out[i]) {
            ig_tensor *d = call_hooks(node->hooks[i], node->d_out[i], &node->types[i]);
            if (!d)
                return false;
            if (d != node->d_out[i]) {
                ig__retain(d);
                ig__release(node->d_out[i]);
                node->d_out[i] = d;
            }
        }
    take_targets(b, node, &failed);
    if (failed)
        return false;
    if (node->spent) {
        ig__fail_on(
            ctx, IG_ERR_ARGUMENT,
            "backward: %s was walked before, and what it saved is freed: ask the first "
            "backward to keep it",
            node->op->name);
        return false;
    }
    ig__gradient g;
    g.ctx = ctx;
    g.attrs = node->attrs;
    g.n_in = node->n_in;
    g.n_out = node->n_out;
    g.wanted = node->wanted;
    for (int i = 0; i < node->n_in; i++) {
        const ig__edge *edge = &node->edges[i];
        g.in[i] = g.d_in[i] = NULL;
        g.onto[i] = open_gradient(b, edge);
        g.type[i] = edge->leaf   ? &edge->leaf->type
                    : edge->node ? &edge->node->types[edge->i_out]
                                 : NULL;
    }
    for (int i = 0; i < node->n_out; i++) {
        g.out[i] = NULL;
        g.d_out[i] = node->d_out[i];
    }
    if (!unpack(b, node, &g))
        return false;
    node->op->gradient(&g);
    if (ig__context_failed(ctx))
        return false;
    for (int i = 0; i < node->n_in; i++) {
        if (!ig__wants(&g, i) || !g.d_in[i])
            continue;
        ig_tensor *d = fit(g.d_in[i], g.type[i]);
        if (!d || !arrive(b, &node->edges[i], d))
            return false;
    }
    return true;
}

static void clear_node(ig_context *ctx, ig__tape *node)
{
    for (int i = 0; i < node->n_out; i++) {
        ig__release(node->d_out[i]);
        node->d_out[i] = NULL;
    }
    ig__history_release(ctx, &node->head);
}

static void walk_all(backward *b)
{
    ig_context *ctx = b->ctx;
    while (b->n) {
        ig__tape *node = pop(b);
        ig_scope *scope = ig_scope_begin(ctx);
        b->node = node;
        const bool done = scope && walk_node(b, node);
        b->node = NULL;
        if (done && !b->opts.keep && !b->opts.record)
            ig__tape_spend(ctx, node);
        clear_node(ctx, node);
        ig_scope_end(scope);
        if (!done)
            break;
    }
    while (b->n)
        clear_node(ctx, pop(b));
}

/* ---- roots -------------------------------------------------------------------------------------------- */

static bool start(backward *b, ig_tensor *root, ig_tensor *gradient)
{
    char text[IG_TYPE_TEXT];
    if (!root)
        return false;
    if (root->base && !ig__refresh(root))
        return false;
    if (!root->wants_grad) {
        ig__fail_on(b->ctx, IG_ERR_ARGUMENT,
                    "backward: %s was not computed from a leaf that wants its gradient",
                    ig__type_text(&root->type, text, sizeof text));
        return false;
    }
    if (!gradient && root->n != 1) {
        ig__fail_on(b->ctx, IG_ERR_SHAPE,
                    "backward: starts from one number, or with a gradient; the root is %s",
                    ig__type_text(&root->type, text, sizeof text));
        return false;
    }
    if (gradient && !ig__dims_same(&gradient->type, &root->type)) {
        char other[IG_TYPE_TEXT];
        ig__fail_on(b->ctx, IG_ERR_SHAPE, "backward: the root is %s, its gradient %s",
                    ig__type_text(&root->type, text, sizeof text),
                    ig__type_text(&gradient->type, other, sizeof other));
        return false;
    }
    ig_tensor *d = gradient ? fit(gradient, &root->type) : ig_full_like(root, 1);
    if (!d)
        return false;
    const ig__edge edge = {
        .node = ig__tape_of(root), .leaf = root->node ? NULL : root, .i_out = root->i_out};
    return arrive(b, &edge, d);
}

static ig_status run(backward *b, ig_tensor *const *roots, ig_tensor *const *gradients,
                     int n)
{
    ig_context *ctx = b->ctx;
    if (ig__context_failed(ctx))
        return ctx->error.status;
    const bool was = ctx->no_grad;
    const ig_dtype autocast = ctx->autocast; /* types are those of forward */
    ctx->no_grad = !b->opts.record;
    ctx->autocast = IG_DTYPE_F32;
    ig_scope *scope = ig_scope_begin(ctx);
    bool started = scope != NULL;
    for (int i = 0; i < n && started; i++)
        started = start(b, roots[i], gradients ? gradients[i] : NULL);
    if (started)
        walk_all(b);
    while (b->n)
        clear_node(ctx, pop(b));
    ig_scope_end(scope);
    ctx->no_grad = was;
    ctx->autocast = autocast;
    ig__memory_give(&ctx->memory, b->heap, (size_t)b->cap * sizeof *b->heap);
    if (!started && !ig__context_failed(ctx))
        ig__fail_on(ctx, IG_ERR_ARGUMENT, "backward: a root is NULL");
    return ctx->error.status;
}

static ig_context *context_of(ig_tensor *const *roots, int n)
{
    for (int i = 0; i < n; i++)
        if (roots[i])
            return roots[i]->ctx;
    return NULL;
}

ig_status ig_backward_all(ig_tensor *const *roots, ig_tensor *const *gradients, int n,
                          const ig_backward_opts *opts)
{
    backward b = {.ctx = context_of(roots, n)};
    if (!b.ctx)
        return IG_ERR_ARGUMENT;
    if (opts)
        b.opts = *opts;
    return run(&b, roots, gradients, n);
}

ig_status ig_backward(ig_tensor *loss)
{
    return ig_backward_all(&loss, NULL, 1, NULL);
}

ig_status ig_gradients(ig_tensor **out, ig_tensor *const *x, int n_x,
                       ig_tensor *const *roots, ig_tensor *const *gradients, int n,
                       const ig_backward_opts *opts)
{
    backward b = {.ctx = context_of(roots, n), .n_targets = n_x};
    for (int i = 0; i < n_x; i++)
        out[i] = NULL;
    if (!b.ctx)
        return IG_ERR_ARGUMENT;
    if (ig__context_failed(b.ctx))
        return b.ctx->error.status;
    if (opts)
        b.opts = *opts;
    const size_t bytes = (size_t)n_x * sizeof *b.targets;
    b.targets = ig__memory_take(&b.ctx->memory, bytes);
    if (!b.targets) {
        ig__fail_tensor_memory(b.ctx, "gradients", bytes);
        return IG_ERR_MEMORY;
    }
    ig_status status = IG_OK;
    for (int i = 0; i < n_x; i++) {
        b.targets[i] = (target){.x = x[i]};
        if (!x[i])
            status = IG_ERR_ARGUMENT;
        else if (x[i]->base && !ig__refresh(x[i]))
            status = b.ctx->error.status;
    }
    if (status == IG_OK)
        status = run(&b, roots, gradients, n);
    else
        ig__fail_on(b.ctx, status, "gradients: a tensor is NULL");
    for (int i = 0; i < n_x; i++) {
        if (b.targets[i].gradient)
            ig__scope_take(b.targets[i].gradient);
        out[i] = status == IG_OK ? b.targets[i].gradient : NULL;
    }
    ig__memory_give(&b.ctx->memory, b.targets, bytes);
    return status;
}
