/* Products of rows in groups, each with a matrix of its own: what a mixture of experts is made of.
 *
 *   group_linear  x [M,K], w [X,N,K] (turned) or [X,K,N], counts [X] -> y [M,N]
 *   group_weight  a [M,P], b [M,Q], counts [X] -> [X,P,Q]: a^T b of each group's rows
 *
 * The first counts[0] rows are group 0's, the next counts[1] are group 1's, and so on; rows behind the last group
 * give zeros, and have no effect on weights. Each of the two is the other's gradient. Shapes do not
 * depend on counts, so a step with them is captured as any other.
 *
 * A unit of the first is up to ROWS rows, whatever groups they are of; a unit of the second is up to ROWS
 * rows of one group's result, summed over that group's rows in chunks of ROWS in order. f32 and f64,
 * dense (Gale et al., "MegaBlocks", 2023, section 4, has the idea of no padding between groups).
 */
#include "op/group_product.h"

#include "kernel/matmul.h"
#include "op/autocast.h"
#include "op/network.h"
#include "op/op_int.h"

#include <string.h>

enum { ROWS = 128 };

typedef struct group_attrs {
    bool turned; /* w [X,N,K] */
} group_attrs;

static int64_t dim(const ig__type *t, int d)
{
    return t->dims[d].plus;
}

static int64_t blocks_of(int64_t n)
{
    return (n + ROWS - 1) / ROWS;
}

static ig_status check_types(const char *op, const ig__type *x, const ig__type *w,
                             const ig__type *counts, ig_error *err)
{
    if ((x->dtype != IG_DTYPE_F32 && x->dtype != IG_DTYPE_F64) || x->dtype != w->dtype)
        return ig__fail_shapes(err, op, "wants f32 or f64 twice", x, w);
    if (!ig__is_int(counts->dtype) || counts->n_dims != 1)
        return ig__fail_shapes(err, op, "wants counts [X] of an integer type", x, counts);
    return IG_OK;
}

/* ---- counts ---------------------------------------------------------------------------------------- */

static int64_t count_at(const ig__array *counts, int64_t i)
{
    int64_t n;
    ig__load(&n, IG_COMPUTE_I64,
             counts->data + i * counts->strides[0] *
                                (int64_t)ig_dtype_block_bytes(counts->type->dtype),
             counts->type->dtype, 1, 1);
    return n;
}

/* Rows of group i, which begin at `first` of `rows`; a count that does not fit is a fault, and what fits of
 * it is taken. */
static int64_t rows_of(const ig__eval *e, int64_t i, int64_t first, int64_t rows)
{
    const int64_t n = count_at(&e->in[2], i);
    if (n >= 0 && n <= rows - first)
        return n;
    ig__fault(e, i);
    return n < 0 ? 0 : rows - first;
}

static void group_explain(const ig__eval *e, int64_t at, ig_error *err)
{
    const int64_t rows = dim(e->in[0].type, 0);
    int64_t before = 0;
    for (int64_t i = 0; i < at; i++)
        before += count_at(&e->in[2], i);
    ig__fail(
        err, IG_ERR_ARGUMENT,
        "group_linear: count %lld of group %lld is outside 0..%lld, the rows that are left",
        (long long)count_at(&e->in[2], at), (long long)at, (long long)(rows - before));
}

/* ---- products --------------------------------------------------------------------------------------- */

static ig__mm_plan plan_of(const ig__eval *e, int64_t m, int64_t n, int64_t k,
                           ig__mm_layout a, ig__mm_layout b, bool onto)
{
    const ig__mm_type type = e->in[0].type->dtype == IG_DTYPE_F64 ? IG__MM_F64 : IG__MM_F32;
    ig__mm_problem p = {.m = m,
                        .n = n,
                        .k = k,
                        .n_batch = {1, 1},
                        .a = a,
                        .b = b,
                        .c = {type, n, 1, {0, 0}},
                        .alpha = 1,
                        .beta = onto ? 1 : 0};
    p.a.type = p.b.type = type;
    return ig__mm_plan_make(e->k, &p, 1);
}

/* m rows of x times a group's matrix. */
static ig__mm_plan linear_plan(const ig__eval *e, int64_t m)
{
    const bool turned = ((const group_attrs *)e->attrs)->turned;
    const ig__type *w = e->in[1].type;
    const int64_t k = dim(w, turned ? 2 : 1), n = dim(w, turned ? 1 : 2);
    const ig__mm_layout a = {.row = k, .col = 1};
    const ig__mm_layout b = {.row = turned ? 1 : n, .col = turned ? k : 1};
    return plan_of(e, m, n, k, a, b, false);
}

/* m columns of a, over k rows of both, onto what is there. */
static ig__mm_plan weight_plan(const ig__eval *e, int64_t m, int64_t k)
{
    const int64_t p = dim(e->in[0].type, 1), q = dim(e->in[1].type, 1);
    const ig__mm_layout a = {.row = 1, .col = p}, b = {.row = q, .col = 1};
    return plan_of(e, m, q, k, a, b, true);
}

static void run_plan(const ig__eval *e, const ig__mm_plan *plan, const void *a,
                     const void *b, void *c)
{
    const ig__mm_data data = {.a = a, .b = b, .c = c};
    ig__mm_walk walk;
    ig__mm_walk_begin(&walk, plan, &data, e->scratch);
    ig__mm_walk_run(&walk, 0, plan->n_pieces);
}

/* Scratch grows with either size of a block, but for how it is rounded: the largest of all powers of 2. */
static size_t most_scratch(const ig__eval *e, bool weight)
{
    size_t most = 0;
    for (int64_t m = 1; m <= ROWS; m *= 2)
        for (int64_t k = weight ? 1 : ROWS; k <= ROWS; k *= 2) {
            const ig__mm_plan plan = weight ? weight_plan(e, m, k) : linear_plan(e, m);
            most = plan.scratch_bytes > most ? plan.scratch_bytes : most;
        }
    return most;
}

static char *element(const ig__array *x, int64_t i)
{
    return x->data + (size_t)i * ig_dtype_block_bytes(x->type->dtype);
}

/* ---- group_linear ----------------------------------------------------------------------------------- */

static ig_status linear_shape(ig__type *out, const ig__type *const *in, int n_in,
                              const void *attrs, ig_error *err)
{
    (void)n_in;
    const bool turned = ((const group_attrs *)attrs)->turned;
    const ig__type *x = in[0], *w = in[1];
    IG_TRY(check_types("group_linear", x, w, in[2], err));
    if (x->n_dims != 2 || w->n_dims != 3 || dim(x, 1) != dim(w, turned ? 2 : 1))
        return ig__fail_shapes(err, "group_linear", "wants x [M,K] and w [X,N,K]", x, w);
    if (dim(in[2], 0) != dim(w, 0))
        return ig__fail_shapes(err, "group_linear", "wants a count for each matrix", w,
                               in[2]);
    *out = *x;
    out->dims[1] = w->dims[turned ? 1 : 2];
    return IG_OK;
}

static int64_t linear_units(const ig__eval *e)
{
    return blocks_of(dim(e->in[0].type, 0));
}

static ig__room linear_room(const ig__eval *e)
{
    return (ig__room){.each = most_scratch(e, false)};
}

static double linear_work(const ig__eval *e)
{
    /* about 32 multiply-adds a nanosecond */
    return (double)e->out[0].n * (double)dim(e->in[0].type, 1) / 32;
}

/* Rows [low, high) of the result, which are of one group or, with i < 0, of none. */
static void linear_rows(const ig__eval *e, int64_t i, int64_t low, int64_t high)
{
    const int64_t k = dim(e->in[0].type, 1), n = dim(e->out[0].type, 1);
    char *y = element(&e->out[0], low * n);
    if (i < 0 || k == 0) {
        memset(y, 0,
               (size_t)(high - low) * (size_t)n *
                   ig_dtype_block_bytes(e->out[0].type->dtype));
        return;
    }
    const ig__mm_plan plan = linear_plan(e, high - low);
    run_plan(e, &plan, element(&e->in[0], low * k), element(&e->in[1], i * n * k), y);
}

static void linear_eval(const ig__eval *e, int64_t begin, int64_t end)
{
    const int64_t rows = dim(e->in[0].type, 0), n_groups = dim(e->in[1].type, 0);
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t low = unit * ROWS, high = low + ROWS < rows ? low + ROWS : rows;
        int64_t first = 0;
        for (int64_t i = 0; i < n_groups; i++) {
            const int64_t last = first + rows_of(e, i, first, rows);
            const int64_t from = first > low ? first : low, to = last < high ? last : high;
            if (from < to)
                linear_rows(e, i, from, to);
            first = last;
        }
        if (first < high)
            linear_rows(e, -1, first > low ? first : low, high);
    }
}

static void linear_gradient(ig__gradient *g)
{
    const group_attrs *a = g->attrs;
    const group_attrs other = {.turned = !a->turned};
    ig_tensor *dy = ig__contiguous(g->d_out[0]), *counts = g->in[2];
    if (ig__wants(g, 0)) {
        ig_tensor *const in[3] = {dy, g->in[1], counts};
        g->d_in[0] = ig__apply(g->ctx, &ig__op_group_linear, &other, in, 3);
    }
    if (ig__wants(g, 1)) {
        ig_tensor *const in[3] = {a->turned ? dy : g->in[0], a->turned ? g->in[0] : dy,
                                  counts};
        g->d_in[1] = ig__apply(g->ctx, &ig__op_group_weight, NULL, in, 3);
    }
}

const ig__op ig__op_group_linear = {.name = "group_linear",
                                    .n_in_least = 3,
                                    .n_in_most = 3,
                                    .attrs_bytes = sizeof(group_attrs),
                                    .shape = linear_shape,
                                    .n_units = linear_units,
                                    .eval = linear_eval,
                                    .room = linear_room,
                                    .work = linear_work,
                                    .explain = group_explain,
                                    .gradient = linear_gradient,
                                    .needs = {IG_IN(1) | IG_IN(2), IG_IN(0) | IG_IN(2)},
                                    .precision = IG_PRECISION_LOW,
                                    .keeps = 0xffff};

/* ---- group_weight ----------------------------------------------------------------------------------- */

static ig_status weight_shape(ig__type *out, const ig__type *const *in, int n_in,
                              const void *attrs, ig_error *err)
{
    (void)n_in, (void)attrs;
    const ig__type *a = in[0], *b = in[1];
    IG_TRY(check_types("group_weight", a, b, in[2], err));
    if (a->n_dims != 2 || b->n_dims != 2 || dim(a, 0) != dim(b, 0))
        return ig__fail_shapes(err, "group_weight", "wants a [M,P] and b [M,Q]", a, b);
    *out = *a;
    out->n_dims = 3;
    out->dims[0] = in[2]->dims[0];
    out->dims[1] = a->dims[1];
    out->dims[2] = b->dims[1];
    return IG_OK;
}

static int64_t weight_units(const ig__eval *e)
{
    return dim(e->out[0].type, 0) * blocks_of(dim(e->out[0].type, 1));
}

static ig__room weight_room(const ig__eval *e)
{
    return (ig__room){.each = most_scratch(e, true)};
}

static double weight_work(const ig__eval *e)
{
    return (double)e->in[0].n * (double)dim(e->in[1].type, 1) / 32;
}

static void weight_eval(const ig__eval *e, int64_t begin, int64_t end)
{
    const int64_t rows = dim(e->in[0].type, 0);
    const int64_t p = dim(e->in[0].type, 1), q = dim(e->in[1].type, 1);
    const int64_t n_blocks = blocks_of(p);
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t group = unit / n_blocks, low = unit % n_blocks * ROWS;
        const int64_t m = p - low < ROWS ? p - low : ROWS;
        char *y = element(&e->out[0], (group * p + low) * q);
        int64_t first = 0;
        for (int64_t i = 0; i < group; i++)
            first += rows_of(e, i, first, rows);
        const int64_t last = first + rows_of(e, group, first, rows);
        memset(y, 0, (size_t)(m * q) * ig_dtype_block_bytes(e->out[0].type->dtype));
        for (int64_t at = first; at < last; at += ROWS) {
            const ig__mm_plan plan = weight_plan(e, m, last - at < ROWS ? last - at : ROWS);
            run_plan(e, &plan, element(&e->in[0], at * p + low), element(&e->in[1], at * q),
                     y);
        }
    }
}

static void weight_gradient(ig__gradient *g)
{
    ig_tensor *d = ig__contiguous(g->d_out[0]);
    for (int i = 0; i < 2; i++) {
        const group_attrs attrs = {.turned = i == 0};
        ig_tensor *const in[3] = {g->in[1 - i], d, g->in[2]};
        if (ig__wants(g, i))
            g->d_in[i] = ig__apply(g->ctx, &ig__op_group_linear, &attrs, in, 3);
    }
}

const ig__op ig__op_group_weight = {.name = "group_weight",
                                    .n_in_least = 3,
                                    .n_in_most = 3,
                                    .shape = weight_shape,
                                    .n_units = weight_units,
                                    .eval = weight_eval,
                                    .room = weight_room,
                                    .work = weight_work,
                                    .explain = group_explain,
                                    .gradient = weight_gradient,
                                    .needs = {IG_IN(1) | IG_IN(2), IG_IN(0) | IG_IN(2)},
                                    .precision = IG_PRECISION_LOW,
                                    .keeps = 0xffff};

/* ---- public ------------------------------------------------------------------------------------------ */

ig_tensor *ig_group_linear(ig_tensor *x, ig_tensor *w, ig_tensor *counts)
{
    const group_attrs attrs = {.turned = true};
    ig_tensor *in[3] = {x, w, counts};
    ig_dtype result;
    if (!w || !counts || !ig__autocast_low(in, 2) ||
        !ig__dense("group_linear", in, 2, &result))
        return NULL;
    return ig__cast(ig__apply(NULL, &ig__op_group_linear, &attrs, in, 3), result);
}
