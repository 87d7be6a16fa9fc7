/* Products of matrices: matmul, with a bias where it stands for a layer, and linear with plain weights.
 * matmul_wide is matmul of 16-bit operands whose sums are not rounded: f32. It is what gradients of f32
 * weights and activations are made of under mixed precision.
 *
 * A product is described to the kernels by strides, so transposes and views need no copy. Up to two leading
 * dimensions are the kernels' batch; more are walked here. The gradient is two more products:
 * dX = dY W^T, dW = X^T dY.
 */
#include "op/product.h"

#include "ingot/op.h"
#include "kernel/matmul.h"
#include "op/autocast.h"
#include "op/op_int.h"

#include <string.h>

static bool number_of(ig__mm_type *out, ig_dtype dtype)
{
    switch (dtype) {
    case IG_DTYPE_F32:
        return *out = IG__MM_F32, true;
    case IG_DTYPE_F64:
        return *out = IG__MM_F64, true;
    case IG_DTYPE_F16:
        return *out = IG__MM_F16, true;
    case IG_DTYPE_BF16:
        return *out = IG__MM_BF16, true;
    default:
        return false;
    }
}

/* ---- matmul ----------------------------------------------------------------------------------------- */

/* The type that products of this one are summed in; a bias that joins the sums has it too. */
static ig_dtype sums_of(ig_dtype dtype)
{
    return dtype == IG_DTYPE_F64 ? IG_DTYPE_F64 : IG_DTYPE_F32;
}

static ig_status matmul_shape(ig__type *out, const ig__type *const *in, int n_in,
                              const void *attrs, ig_error *err)
{
    (void)attrs;
    const ig__type *x = in[0], *y = in[1];
    ig__mm_type number;
    if (x->dtype != y->dtype || !number_of(&number, x->dtype) || x->n_dims < 2 ||
        y->n_dims < 2)
        return ig__fail_shapes(err, "matmul", "wants matrices of floats of one type", x, y);
    if (!ig__dim_same(x->dims[x->n_dims - 1], y->dims[y->n_dims - 2]))
        return ig__fail_shapes(err, "matmul", "inner sizes differ", x, y);
    ig__type a = *x, b = *y;
    a.n_dims -= 2;
    b.n_dims -= 2;
    const ig__type *const leading[2] = {&a, &b};
    if (ig__broadcast(out, leading, 2, "matmul", NULL) != IG_OK)
        return ig__fail_shapes(err, "matmul", "leading dimensions do not broadcast", x, y);
    if (n_in > 2 && (in[2]->n_dims != 1 || in[2]->dtype != sums_of(x->dtype) ||
                     !ig__dim_same(in[2]->dims[0], y->dims[y->n_dims - 1])))
        return ig__fail_shapes(err, "matmul", "the bias does not fit", y, in[2]);
    out->dtype = x->dtype;
    out->dims[out->n_dims++] = x->dims[x->n_dims - 2];
    out->dims[out->n_dims++] = y->dims[y->n_dims - 1];
    return IG_OK;
}

/* What all threads share of a product: made once, before the walk. */
typedef struct product {
    ig__mm_plan plan;
    int64_t n_outer; /* products of the plan: leading dimensions beyond two */
    int n_outer_dims;
    int64_t outer[IG_MAX_DIMS], step[3][IG_MAX_DIMS]; /* of x, y, out, in elements */
    size_t size[3];                                   /* of an element of x, y, out */
} product;

/* Behind it, in what all threads share: the states of the plan's shared panels. */
static unsigned char *states_of(const ig__eval *e)
{
    return (unsigned char *)e->shared + (sizeof(product) + 63) / 64 * 64;
}

static bool shares_panels(const product *p)
{
    return p->plan.n_states > 0 && p->n_outer == 1;
}

typedef struct walk_state {
    ig__mm_walk walk;
    ig__mm_data data;
    int64_t outer;
} walk_state;

/* Strides of leading dimension d of the output's space in an operand. */
static int64_t leading_stride(const ig__array *x, int d, int n_dims)
{
    const int at = d - n_dims + x->type->n_dims;
    return at < 0 || x->type->dims[at].plus == 1 ? 0 : x->strides[at];
}

static void set_layout(ig__mm_layout *l, const ig__array *x)
{
    const int n = x->type->n_dims;
    number_of(&l->type, x->type->dtype);
    l->row = x->strides[n - 2];
    l->col = x->strides[n - 1];
    l->batch[0] = l->batch[1] = 0;
}

static void make_product(product *p, const ig__eval *e)
{
    const ig__type *out = e->out[0].type;
    const int n = out->n_dims;
    ig__mm_problem q = {.m = out->dims[n - 2].plus,
                        .n = out->dims[n - 1].plus,
                        .k = e->in[0].type->dims[e->in[0].type->n_dims - 1].plus,
                        .n_batch = {1, 1},
                        .alpha = 1};
    const ig__array *arrays[3] = {&e->in[0], &e->in[1], &e->out[0]};
    ig__mm_layout *layouts[3] = {&q.a, &q.b, &q.c};
    for (int i = 0; i < 3; i++)
        set_layout(layouts[i], arrays[i]);
    p->n_outer = 1;
    p->n_outer_dims = n > 4 ? n - 4 : 0;
    for (int i = 0; i < 3; i++)
        p->size[i] = ig_dtype_block_bytes(arrays[i]->type->dtype);
    for (int d = 0; d < n - 2; d++) {
        const int batch = d - p->n_outer_dims; /* 0 or 1: the kernels' */
        const int at = n - 2 - p->n_outer_dims == 1 ? 1 : batch;
        for (int i = 0; i < 3; i++) {
            const int64_t stride = leading_stride(arrays[i], d, n);
            if (batch >= 0)
                layouts[i]->batch[at] = stride;
            else
                p->step[i][d] = stride;
        }
        if (batch >= 0)
            q.n_batch[at] = out->dims[d].plus;
        else
            p->n_outer *= p->outer[d] = out->dims[d].plus;
    }
    p->plan = ig__mm_plan_make(e->k, &q, e->n_threads);
}

static ig__room room_of(const product *p)
{
    const bool shares = shares_panels(p);
    return (ig__room){
        .each = p->plan.scratch_bytes + 64 + (sizeof(walk_state) + 63) / 64 * 64,
        .shared = (sizeof *p + 63) / 64 * 64 + (shares ? (size_t)p->plan.n_states : 0),
        .pool = shares ? p->plan.shared_bytes : 0};
}

static ig__room matmul_room(const ig__eval *e)
{
    product p;
    make_product(&p, e);
    return room_of(&p);
}

/* Ready for the first walk; every later one finds the states as the one before left them. */
static int64_t begin_product(const ig__eval *e)
{
    const product *p = e->shared;
    if (shares_panels(p))
        memset(states_of(e), 0, (size_t)p->plan.n_states);
    return p->plan.n_pieces * p->n_outer;
}

static int64_t matmul_units(const ig__eval *e)
{
    make_product(e->shared, e);
    return begin_product(e);
}

static void begin_outer(walk_state *w, const product *p, const ig__eval *e, int64_t outer)
{
    int64_t offset[3] = {0}, rest = outer;
    for (int d = p->n_outer_dims; d-- > 0;) {
        for (int i = 0; i < 3; i++)
            offset[i] += rest % p->outer[d] * p->step[i][d];
        rest /= p->outer[d];
    }
    w->data = (ig__mm_data){.a = e->in[0].data + offset[0] * (int64_t)p->size[0],
                            .b = e->in[1].data + offset[1] * (int64_t)p->size[1],
                            .c = e->out[0].data + offset[2] * (int64_t)p->size[2],
                            .bias = e->n_in > 2 ? e->in[2].data : NULL};
    if (shares_panels(p)) {
        w->data.shared = e->pool;
        w->data.states = states_of(e);
    }
    w->outer = outer;
    ig__mm_walk_begin(&w->walk, &p->plan, &w->data,
                      (char *)e->scratch + (sizeof(walk_state) + 63) / 64 * 64);
}

static void matmul_eval(const ig__eval *e, int64_t begin, int64_t end)
{
    const product *p = e->shared;
    walk_state *w = e->scratch;
    if (e->first)
        w->outer = -1;
    while (begin < end) {
        const int64_t outer = begin / p->plan.n_pieces, piece = begin % p->plan.n_pieces;
        int64_t n = p->plan.n_pieces - piece;
        n = n < end - begin ? n : end - begin;
        if (w->outer != outer)
            begin_outer(w, p, e, outer);
        ig__mm_walk_run(&w->walk, piece, piece + n);
        begin += n;
    }
}

static double matmul_work(const ig__eval *e)
{
    const ig__type *x = e->in[0].type;
    /* about 32 multiply-adds a nanosecond */
    return (double)e->out[0].n * (double)x->dims[x->n_dims - 1].plus / 32;
}

static void matmul_cost(ig__cost *cost, const ig__type *const *in, int n_in,
                        const ig__type *out, const void *attrs, const ig__bind *bind)
{
    (void)n_in, (void)attrs, (void)bind;
    cost->ops +=
        2.0 * (double)ig__type_count(out) * (double)in[0]->dims[in[0]->n_dims - 1].plus;
}

static bool is_16_bits(ig_dtype dtype)
{
    return dtype == IG_DTYPE_F16 || dtype == IG_DTYPE_BF16;
}

ig_tensor *ig__matmul_for(const ig__type *wanted, ig_tensor *x, ig_tensor *y)
{
    if (!x || !y || wanted->dtype != IG_DTYPE_F32 || x->type.dtype != y->type.dtype ||
        !is_16_bits(x->type.dtype))
        return ig_matmul(x, y);
    return ig__apply2(&ig__op_matmul_wide, NULL, x, y);
}

static void matmul_gradient(ig__gradient *g)
{
    ig_tensor *d = g->d_out[0], *x = g->in[0], *y = g->in[1];
    d = ig__cast(d, x ? x->type.dtype : y->type.dtype); /* of matmul_wide it is f32 */
    if (ig__wants(g, 0))
        g->d_in[0] = ig__matmul_for(g->type[0], d, ig_transpose(y, -1, -2));
    if (ig__wants(g, 1))
        g->d_in[1] = ig__matmul_for(g->type[1], ig_transpose(x, -1, -2), d);
    if (g->n_in > 2 && ig__wants(g, 2))
        g->d_in[2] = g->d_out[0]; /* the walk sums */
}

const ig__op ig__op_matmul = {.name = "matmul",
                              .n_in_least = 2,
                              .n_in_most = 3,
                              .shape = matmul_shape,
                              .cost = matmul_cost,
                              .n_units = matmul_units,
                              .eval = matmul_eval,
                              .room = matmul_room,
                              .work = matmul_work,
                              .keeps_units = true,
                              .gradient = matmul_gradient,
                              .needs = {IG_IN(1), IG_IN(0)},
                              .precision = IG_PRECISION_LOW,
                              .keeps = 1u << 2}; /* a bias is of the sums' type */

static ig_status wide_shape(ig__type *out, const ig__type *const *in, int n_in,
                            const void *attrs, ig_error *err)
{
    IG_TRY(matmul_shape(out, in, n_in, attrs, err));
    if (is_16_bits(out->dtype))
        out->dtype = IG_DTYPE_F32;
    return IG_OK;
}

const ig__op ig__op_matmul_wide = {.name = "matmul_wide",
                                   .n_in_least = 2,
                                   .n_in_most = 2,
                                   .shape = wide_shape,
                                   .cost = matmul_cost,
                                   .n_units = matmul_units,
                                   .eval = matmul_eval,
                                   .room = matmul_room,
                                   .work = matmul_work,
                                   .gradient = matmul_gradient,
                                   .needs = {IG_IN(1), IG_IN(0)},
                                   .precision = IG_PRECISION_LOW};

/* ---- linear, with plain weights ----------------------------------------------------------------------- */

ig_status ig__linear_plain_shape(ig__type *out, const ig__type *const *in, int n_in,
                                 ig_error *err)
{
    const ig__type *x = in[0], *w = in[1];
    ig__mm_type number;
    if (x->dtype != w->dtype || !number_of(&number, x->dtype) || x->n_dims < 1 ||
        w->n_dims != 2)
        return ig__fail_shapes(err, "linear",
                               "wants x [..,K] and w [N,K] of one float type", x, w);
    if (!ig__dim_same(x->dims[x->n_dims - 1], w->dims[1]))
        return ig__fail_shapes(err, "linear", "inner sizes differ", x, w);
    if (n_in > 2 && (in[2]->n_dims != 1 || !ig__dim_same(in[2]->dims[0], w->dims[0]) ||
                     in[2]->dtype != sums_of(x->dtype)))
        return ig__fail_shapes(err, "linear", "the bias does not fit", w, in[2]);
    *out = *x;
    out->dims[x->n_dims - 1] = w->dims[0];
    return IG_OK;
}

static void make_linear(product *p, const ig__eval *e)
{
    const ig__array *x = &e->in[0], *w = &e->in[1], *y = &e->out[0];
    const int last = x->type->n_dims - 1;
    ig__mm_problem q = {.n = w->type->dims[0].plus,
                        .k = w->type->dims[1].plus,
                        .n_batch = {1, 1},
                        .alpha = 1};
    q.m = 1;
    for (int d = 0; d < last; d++)
        q.m *= x->type->dims[d].plus;
    number_of(&q.a.type, x->type->dtype);
    number_of(&q.b.type, w->type->dtype);
    number_of(&q.c.type, y->type->dtype);
    /* the innermost leading dimension that is not 1 says how far apart rows are */
    q.a.row = q.k;
    for (int d = last; d-- > 0;)
        if (x->type->dims[d].plus != 1) {
            q.a.row = x->strides[d];
            break;
        }
    q.a.col = x->strides[last];
    q.b.row = w->strides[1];
    q.b.col = w->strides[0];
    q.c.row = q.n;
    q.c.col = 1;
    p->n_outer = 1;
    p->n_outer_dims = 0; /* so sizes are not asked for */
    p->plan = ig__mm_plan_make(e->k, &q, e->n_threads);
}

ig__room ig__linear_room(const ig__eval *e)
{
    product p;
    make_linear(&p, e);
    return room_of(&p);
}

int64_t ig__linear_units(const ig__eval *e)
{
    make_linear(e->shared, e);
    return begin_product(e);
}

void ig__linear_eval(const ig__eval *e, int64_t begin, int64_t end)
{
    matmul_eval(e, begin, end);
}

double ig__linear_work(const ig__eval *e)
{
    return (double)e->out[0].n * (double)e->in[1].type->dims[1].plus / 32;
}

/* dW = dY^T X over all rows: contiguous [N,K], as the weights are. */
void ig__linear_gradient(ig__gradient *g)
{
    ig_tensor *d = g->d_out[0];
    if (ig__wants(g, 0))
        g->d_in[0] = ig__matmul_for(g->type[0], d, g->in[1]);
    if (ig__wants(g, 1)) {
        ig_tensor *x = g->in[0];
        const int64_t k = ig_tensor_dim(x, -1), n = ig_tensor_dim(d, -1);
        if (x->type.n_dims != 2) {
            x = ig_reshape(x, IG_SHAPE(k ? x->n / k : 0, k));
            d = ig_reshape(d, IG_SHAPE(n && d ? d->n / n : 0, n));
        }
        g->d_in[1] = ig__matmul_for(g->type[1], ig_transpose(d, 0, 1), x);
    }
    if (g->n_in > 2 && ig__wants(g, 2))
        g->d_in[2] = g->d_out[0]; /* the walk sums */
}

/* ---- public ------------------------------------------------------------------------------------------ */

ig_tensor *ig_matmul(ig_tensor *x, ig_tensor *y)
{
    ig_tensor *operands[2] = {x, y};
    if (!ig__autocast_low(operands, 2))
        return NULL;
    x = operands[0];
    y = operands[1];
    if (!ig__meet("matmul", &x, &y))
        return NULL;
    const bool row = x->type.n_dims == 1, column = y->type.n_dims == 1;
    if (!row && !column)
        return ig__apply2(&ig__op_matmul, NULL, x, y);
    ig_tensor *z = ig__apply2(&ig__op_matmul, NULL, row ? ig_unsqueeze(x, 0) : x,
                              column ? ig_unsqueeze(y, 1) : y);
    if (column)
        z = ig_squeeze(z, -1);
    return row ? ig_squeeze(z, column ? -1 : -2) : z;
}

/* x w [+ bias], by a row that adds a bias itself where that does not change the type of the result. */
static ig_tensor *with_bias(const ig__op *op, ig_tensor *x, ig_tensor *w, ig_tensor *bias)
{
    const ig_dtype dtype = x->type.dtype;
    const bool fits = bias && bias->contiguous &&
                      (bias->type.dtype == dtype || x->ctx->autocast != IG_DTYPE_F32);
    if (fits && !(bias = ig__cast_past(bias, sums_of(dtype))))
        return NULL;
    ig_tensor *const in[3] = {x, w, bias};
    ig_tensor *y = ig__apply(NULL, op, NULL, in, fits ? 3 : 2);
    return bias && !fits ? ig_add(y, bias) : y;
}

ig_tensor *ig__matmul_bias(ig_tensor *x, ig_tensor *w, ig_tensor *bias)
{
    ig_tensor *operands[2] = {x, w};
    if (!bias || !ig__autocast_low(operands, 2))
        return NULL;
    x = operands[0];
    w = operands[1];
    return ig__meet("matmul", &x, &w) ? with_bias(&ig__op_matmul, x, w, bias) : NULL;
}

/* Do the leading dimensions merge to rows of one stride? */
static bool has_rows(const ig_tensor *x)
{
    int64_t next = -1;
    if (x->contiguous || x->type.n_dims <= 2)
        return true;
    for (int d = x->type.n_dims - 1; d-- > 0;) {
        if (x->type.dims[d].plus == 1)
            continue;
        if (next >= 0 && x->strides[d] != next)
            return false;
        next = x->strides[d] * x->type.dims[d].plus;
    }
    return true;
}

ig_tensor *ig_linear(ig_tensor *x, ig_tensor *w, ig_tensor *bias)
{
    ig_tensor *operands[2] = {x, w};
    if (!ig__autocast_low(operands, 2))
        return NULL;
    x = operands[0];
    w = operands[1];
    if (!ig__meet("linear", &x, &w))
        return NULL;
    if (!has_rows(x))
        x = ig_contiguous(x);
    return x ? with_bias(&ig__op_linear, x, w, bias) : NULL;
}
