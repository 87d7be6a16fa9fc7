/* A mixture of experts: each token's row goes to the few feed-forwards that a gate chooses for it.
 *
 *   g = softmax(x gate^T)                      [G,S,X], in groups of S tokens
 *   the k largest of a token, over their sum   its choices and their weights (k = 1: the gate itself)
 *   place of a choice in its expert's queue    first choices of all tokens, then second ones, ..
 *   a place beyond the capacity                the choice is dropped: its weight is gone
 *   rows sorted by expert -> two products in groups of rows -> weighed, added to their tokens
 *   balance = 1/X sum of (c_e / S) m_e         c_e: first choices, m_e: mean gate; mean of the groups
 *
 * A token all of whose choices were dropped gets zeros: what stands around the layer adds them to x. With nothing
 * dropped there is no padding: the products take as many rows as there are choices. The gradient
 * reaches the gate through the weights and the balance; which expert is chosen has none.
 *
 * Lepikhin et al., "GShard", 2020, section 2.2 and algorithm 1 (capacity over a group, the second choice at
 * random in proportion to its weight); the experts are gated as in Jiang et al., "Mixtral of Experts",
 * 2024, section 2.1. Choices beyond the second are ours.
 */
#include "nn/module_int.h"

#include "base/error.h"
#include "tensor/tensor.h"

#include <math.h>

/* Sizes of a call: N = G S tokens. */
typedef struct mixture {
    ig_context *ctx;
    const ig_nn_experts_opts *o;
    int64_t n_experts, n_chosen, n_groups, group, width;
    bool training;
} mixture;

/* What the gate says. */
typedef struct choices {
    ig_tensor *weights; /* [G,S,k], of what is kept */
    ig_tensor *experts; /* [G,S,k] i64 */
    ig_tensor *kept;    /* [G,S,k] bool; NULL: all */
} choices;

/* Places of a group's choices in their experts' queues, [G,S,k] i64: taken[..] is how many of those before,
 * by choice and then by token, went the same way. */
static ig_tensor *places_of(const mixture *m, const choices *c)
{
    ig_tensor *parts[8], *before = NULL;
    const int along[1] = {1}, last[1] = {-1};
    for (int64_t j = 0; j < m->n_chosen; j++) {
        ig_tensor *way =
            ig_one_hot(ig_select(c->experts, 2, j), m->n_experts, IG_DTYPE_I64);
        if (c->kept) /* what was not sent takes no place */
            way = ig_mul(way,
                         ig_cast(ig_unsqueeze(ig_select(c->kept, 2, j), -1), IG_DTYPE_I64));
        ig_tensor *queue = ig_sub(ig_cumsum(way, 1), way);
        ig_tensor *taken = ig_sum(way, 1, along, true);
        if (before)
            queue = ig_add(queue, before);
        before = before ? ig_add(before, taken) : taken;
        parts[j] = ig_sum(ig_mul(queue, way), 1, last, false);
    }
    return ig_stack(parts, (int)m->n_chosen, -1);
}

/* The second choice is sent when twice its weight is above a random number (its weight is at most a half). */
static ig_tensor *sent(const mixture *m, ig_tensor *weights)
{
    ig_tensor *first = ig_full(m->ctx, IG_DTYPE_BOOL, IG_SHAPE(m->n_groups, m->group), 1);
    ig_tensor *draw =
        ig_uniform(m->ctx, IG_DTYPE_F32, IG_SHAPE(m->n_groups, m->group), 0, 1);
    ig_tensor *second = ig_less(draw, ig_scale(ig_select(weights, 2, 1), 2));
    ig_tensor *both[2] = {first, second};
    return ig_stack(both, 2, -1);
}

static int64_t capacity_of(const mixture *m)
{
    const double even = (double)m->group * (double)m->n_chosen / (double)m->n_experts;
    const double room = ceil(m->o->capacity * even);
    return room < (double)m->group ? (int64_t)room : m->group;
}

/* gates [G,S,X] */
static choices choose(const mixture *m, ig_tensor *gates)
{
    choices c = {0};
    const int last[1] = {-1};
    c.weights = ig_topk(gates, -1, m->n_chosen, &c.experts);
    if (m->n_chosen > 1)
        c.weights = ig_div(c.weights, ig_sum(c.weights, 1, last, true));
    if (m->o->second_at_random && m->n_chosen == 2 && m->training)
        c.kept = sent(m, c.weights);
    if (m->o->capacity > 0 && c.weights) {
        ig_tensor *limit = ig_tensor_scalar(m->ctx, IG_DTYPE_I64, (double)capacity_of(m));
        ig_tensor *fits = ig_less(places_of(m, &c), limit);
        c.kept = c.kept ? ig_logical_and(c.kept, fits) : fits;
    }
    if (c.kept)
        c.weights = ig_where(c.kept, c.weights, ig_tensor_scalar(m->ctx, IG_DTYPE_F32, 0));
    return c;
}

/* 1/X sum over experts of (share of first choices) (mean gate), the mean over groups. */
static ig_tensor *balance_of(const mixture *m, ig_tensor *gates, const choices *c)
{
    const int tokens[1] = {1};
    ig_tensor *first = ig_one_hot(ig_select(c->experts, 2, 0), m->n_experts, IG_DTYPE_F32);
    ig_tensor *share = ig_mean(first, 1, tokens, false);
    ig_tensor *gate = ig_mean(gates, 1, tokens, false);
    ig_tensor *sum = ig_sum(ig_mul(share, gate), 0, NULL, false);
    return ig_scale(sum, 1.0 / (double)(m->n_experts * m->n_groups));
}

/* All choices [N*k] by expert: their order, and how many each expert has. Dropped ones stand last. */
static ig_tensor *sort_by_expert(const mixture *m, const choices *c, ig_tensor **counts)
{
    const int first[1] = {0};
    const int64_t n = m->n_groups * m->group * m->n_chosen;
    ig_tensor *way = ig_reshape(c->experts, IG_SHAPE(n)), *order = NULL;
    if (c->kept) {
        ig_tensor *nowhere = ig_tensor_scalar(m->ctx, IG_DTYPE_I64, (double)m->n_experts);
        way = ig_where(ig_reshape(c->kept, IG_SHAPE(n)), way, nowhere);
    }
    *counts = ig_sum(ig_one_hot(way, m->n_experts, IG_DTYPE_I64), 1, first, false);
    return ig_sort(way, 0, false, &order) ? order : NULL;
}

/* x [N,D] -> [N,D] */
static ig_tensor *run_experts(const mixture *m, ig_params *p, ig_tensor *x,
                              const choices *c)
{
    const ig_nn_experts_opts *o = m->o;
    const int64_t n = m->n_groups * m->group, k = m->n_chosen, f = o->n_inner;
    ig_params_begin(p, "experts");
    ig_tensor *up = ig_param(p, "gate_up_proj", ig__init_weights(p, (double)m->width),
                             IG_SHAPE(m->n_experts, 2 * f, m->width));
    ig_tensor *down = up ? ig_param(p, "down_proj", ig__init_weights(p, (double)f),
                                    IG_SHAPE(m->n_experts, m->width, f))
                         : NULL;
    ig_params_end(p);
    ig_tensor *counts, *order = sort_by_expert(m, c, &counts);
    if (!down || !order)
        return NULL;
    if (o->counts_out)
        *o->counts_out = counts;
    ig_tensor *tokens = ig_expand(ig_unsqueeze(ig_arange(m->ctx, IG_DTYPE_I64, 0, 1, n), 1),
                                  IG_SHAPE(n, k));
    tokens = ig_index_select(ig_reshape(tokens, IG_SHAPE(n * k)), 0, order);
    ig_tensor *weights = ig_index_select(ig_reshape(c->weights, IG_SHAPE(n * k)), 0, order);
    ig_tensor *h = ig_group_linear(ig_index_select(x, 0, tokens), up, counts);
    h = ig_swiglu(ig_slice(h, 1, 0, f, 1), ig_slice(h, 1, f, 2 * f, 1));
    ig_tensor *y = ig_mul(ig_group_linear(h, down, counts), ig_unsqueeze(weights, 1));
    return ig_index_add(ig_zeros(m->ctx, IG_DTYPE_F32, IG_SHAPE(n, m->width)), 0, tokens,
                        y);
}

static bool settle(mixture *m, const ig_params *p, ig_tensor *x,
                   const ig_nn_experts_opts *o)
{
    enum { MOST_CHOSEN = 8 };
    if (o->balance_out)
        *o->balance_out = NULL;
    if (o->counts_out)
        *o->counts_out = NULL;
    if (!x || ig__context_failed(x->ctx))
        return false;
    if (ig_tensor_n_dims(x) < 2 || ig_tensor_dtype(x) != IG_DTYPE_F32)
        return ig__layer_refuses(x, "experts", "x [..,D] of f32"), false;
    const int64_t width = ig_tensor_dim(x, -1), n = width ? ig_tensor_count(x) / width : 0;
    *m = (mixture){.ctx = x->ctx,
                   .o = o,
                   .n_experts = o->n_experts,
                   .n_chosen = o->n_chosen ? o->n_chosen : 2,
                   .group = o->group ? o->group : n,
                   .width = width,
                   .training = ig_params_is_training(p)};
    if (o->n_inner < 1 || m->n_chosen < 1 || m->n_chosen > MOST_CHOSEN ||
        m->n_experts < m->n_chosen)
        return ig__fail_on(x->ctx, IG_ERR_ARGUMENT,
                           "experts: %lld of %lld chosen, %lld elements inside; at most %d "
                           "can be chosen",
                           (long long)m->n_chosen, (long long)m->n_experts,
                           (long long)o->n_inner, MOST_CHOSEN),
               false;
    if (m->group < 1 || n % m->group)
        return ig__fail_on(x->ctx, IG_ERR_ARGUMENT,
                           "experts: %lld tokens are no whole groups of %lld", (long long)n,
                           (long long)m->group),
               false;
    m->n_groups = n / m->group;
    return true;
}

ig_tensor *ig_nn_experts(ig_params *p, const char *name, ig_tensor *x,
                         const ig_nn_experts_opts *opts)
{
    mixture m;
    int64_t dims[IG_MAX_DIMS];
    if (!ig__layer_takes(p, x, opts, "experts") || !settle(&m, p, x, opts))
        return NULL;
    for (int d = 0; d < ig_tensor_n_dims(x); d++)
        dims[d] = ig_tensor_dim(x, d);
    ig_tensor *rows = ig_reshape(x, IG_SHAPE(m.n_groups * m.group, m.width));
    ig_params_begin(p, "%s", name);
    ig_tensor *gates = ig_nn_linear(p, "gate", rows, m.n_experts, false);
    gates = ig_reshape(ig_softmax(gates, -1), IG_SHAPE(m.n_groups, m.group, m.n_experts));
    ig_tensor *y = NULL;
    if (gates) {
        const choices c = choose(&m, gates);
        if (c.weights && opts->balance_out)
            *opts->balance_out = balance_of(&m, gates, &c);
        if (c.weights)
            y = run_experts(&m, p, rows, &c);
    }
    ig_params_end(p);
    return ig_reshape(y, ig_tensor_n_dims(x), dims);
}
