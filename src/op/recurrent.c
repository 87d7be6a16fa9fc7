/* Recurrent layers: one row runs a layer in one direction over all its steps, one its gradient.
 *
 *   x [B,T,G*D] (the input's product, with its bias), w [G*D,D], bias [G*D], h0 [B,D] [, c0 [B,D]]
 *   [, lengths [B]] -> y [B,T,D], last state [B,D], gates [B,T,G*D], extra [B,T,..]
 *       gates: after their functions (RNN: none); extra: the cells c (LSTM), h w^T + bias (GRU)
 *
 * Sequences do not depend on one another, so a unit is ROWS of them, through all steps without a
 * barrier: a product of the unit's states with the weight, read where it lies from a transposed copy
 * that phase 0 makes, then the cells. A sequence that is shorter than T keeps its state, and gives
 * zeros, where it has no steps; backwards it starts at its own last step.
 *
 * The gradient walks the steps in the other order, and leaves the sums' gradients (dx, and dh for
 * GRU) and the states before each step, so that the weight's gradient is one large product.
 */
#include "op/recurrent.h"

#include "ingot/op.h"
#include "kernel/matmul.h"
#include "op/apply.h"
#include "op/op_int.h"

#include <string.h>

enum { ROWS = 16, BLOCK = 32 }; /* sequences of a unit; columns of one that transposes */

/* Operands of the gradient, and its results. */
enum {
    DOWN_Y,
    DOWN_LAST,
    DOWN_EXTRA,
    BACK_W,
    BACK_Y,
    BACK_GATES,
    BACK_EXTRA,
    BACK_H0,
    BACK_C0
};
enum { OUT_DX, OUT_DH, OUT_STATES, OUT_BEFORE };

static int64_t dim(const ig__type *t, int d)
{
    return t->dims[d].plus;
}

static ig__type plain(ig_dtype dtype, int n_dims, int64_t a, int64_t b, int64_t c)
{
    ig__type t = {.dtype = dtype, .n_dims = n_dims};
    t.dims[0] = ig__dim_of(a);
    t.dims[1] = ig__dim_of(b);
    t.dims[2] = ig__dim_of(c);
    return t;
}

/* Elements of a row of `extra`. */
static int64_t extra_width(ig_cell cell, int64_t d)
{
    return cell == IG_CELL_LSTM ? d : cell == IG_CELL_GRU ? 3 * d : 0;
}

static ig_status layer_shape(ig__type *out, const ig__type *const *in, int n_in,
                             const void *attrs, ig_error *err)
{
    const ig__recurrent_attrs *a = attrs;
    const ig__type *x = in[IN_X], *w = in[IN_W];
    const int64_t gates = ig__cell_gates(a->cell);
    const ig_dtype dtype = x->dtype;
    if (x->n_dims != 3 || w->n_dims != 2 || dim(w, 1) < 1 ||
        dim(w, 0) != gates * dim(w, 1) || dim(x, 2) != dim(w, 0))
        return ig__fail_shapes(err, "recurrent", "wants x [B,T,G*D] and w [G*D,D]", x, w);
    const int64_t b = dim(x, 0), t = dim(x, 1), d = dim(w, 1);
    if (in[IN_BIAS]->n_dims != 1 || dim(in[IN_BIAS], 0) != gates * d)
        return ig__fail_shapes(err, "recurrent", "the bias does not fit", w, in[IN_BIAS]);
    for (int i = IN_H0; i <= (a->cell == IG_CELL_LSTM ? IN_C0 : IN_H0); i++)
        if (in[i]->n_dims != 2 || dim(in[i], 0) != b || dim(in[i], 1) != d)
            return ig__fail_shapes(err, "recurrent", "the state does not fit", x, in[i]);
    const ig__type *lengths = a->lengths ? in[n_in - 1] : NULL;
    if (lengths &&
        (!ig__is_int(lengths->dtype) || lengths->n_dims != 1 || dim(lengths, 0) != b))
        return ig__fail_shapes(err, "recurrent", "wants lengths [B] of an integer type", x,
                               lengths);
    out[OUT_Y] = plain(dtype, 3, b, t, d);
    out[OUT_LAST] = plain(dtype, 2, b, d, 0);
    out[OUT_GATES] = plain(dtype, 3, b, t, a->cell == IG_CELL_RNN ? 0 : gates * d);
    out[OUT_EXTRA] = plain(dtype, 3, b, t, extra_width(a->cell, d));
    return IG_OK;
}

static ig_status layer_grad_shape(ig__type *out, const ig__type *const *in, int n_in,
                                  const void *attrs, ig_error *err)
{
    (void)n_in, (void)err;
    const ig__recurrent_attrs *a = attrs;
    const ig__type *y = in[BACK_Y], *w = in[BACK_W];
    const int64_t b = dim(y, 0), t = dim(y, 1), d = dim(y, 2);
    out[OUT_DX] = plain(y->dtype, 3, b, t, dim(w, 0));
    out[OUT_DH] = plain(y->dtype, 3, b, t, a->cell == IG_CELL_GRU ? 3 * d : 0);
    out[OUT_STATES] = plain(y->dtype, 3, a->cell == IG_CELL_LSTM ? 2 : 1, b, d);
    out[OUT_BEFORE] = plain(y->dtype, 3, b, t, d);
    return IG_OK;
}

/* ---- a run ------------------------------------------------------------------------------------------- */

/* What all units share; made by n_units of each phase. */
typedef struct shared_state {
    ig__mm_plan plan[2]; /* of ROWS sequences, and of the last unit's */
} shared_state;

typedef struct layer_walk {
    ig_cell cell;
    int64_t batch, steps, d, gates; /* gates: G*D */
    size_t size;                    /* of an element */
    bool is_f64, backwards;
    const ig__array *lengths;
    shared_state *state;
    char *turned;        /* [D,G*D]: the weight's transpose, behind the state */
    int64_t first, n;    /* sequences of the unit */
    char *product, *own; /* scratch: of products, and behind it */
} layer_walk;

static size_t aligned(size_t n)
{
    return (n + 63) / 64 * 64;
}

static layer_walk walk_of(const ig__eval *e, const ig__array *y, const ig__array *w)
{
    const ig__recurrent_attrs *a = e->attrs;
    layer_walk k = {.cell = a->cell, .backwards = a->backwards};
    k.batch = dim(y->type, 0);
    k.steps = dim(y->type, 1);
    k.d = dim(y->type, 2);
    k.gates = dim(w->type, 0);
    k.is_f64 = y->type->dtype == IG_DTYPE_F64;
    k.size = k.is_f64 ? 8 : 4;
    k.lengths = a->lengths ? &e->in[e->n_in - 1] : NULL;
    k.state = e->shared;
    k.turned = (char *)e->shared + aligned(sizeof(shared_state));
    return k;
}

/* The product of n states: [n,K] by [K,N] onto what is there. */
static ig__mm_plan plan_of(const ig__eval *e, const layer_walk *k, int64_t n, bool grad)
{
    const int64_t from = grad ? k->gates : k->d, to = grad ? k->d : k->gates;
    const ig__mm_type type = k->is_f64 ? IG__MM_F64 : IG__MM_F32;
    const int64_t spread = k->steps * k->gates; /* of rows [B,T,G*D] at one step */
    const ig__mm_problem p = {.m = n,
                              .n = to,
                              .k = from,
                              .n_batch = {1, 1},
                              .a = {type, grad ? spread : k->d, 1, {0, 0}},
                              .b = {type, to, 1, {0, 0}},
                              .c = {type, grad ? k->d : spread, 1, {0, 0}},
                              .alpha = 1,
                              .beta = 1};
    return ig__mm_plan_make(e->k, &p, 1);
}

static int64_t units_of(const layer_walk *k)
{
    return k->steps ? (k->batch + ROWS - 1) / ROWS : 0;
}

static void make_plans(const ig__eval *e, layer_walk *k, bool grad)
{
    k->state->plan[0] = plan_of(e, k, ROWS, grad);
    k->state->plan[1] = plan_of(e, k, k->batch % ROWS, grad);
}

static ig__room room_of(const ig__eval *e, const layer_walk *k, bool grad)
{
    const ig__mm_plan full = plan_of(e, k, ROWS, grad);
    const ig__mm_plan rest = plan_of(e, k, k->batch % ROWS, grad);
    const size_t product =
        full.scratch_bytes > rest.scratch_bytes ? full.scratch_bytes : rest.scratch_bytes;
    const size_t states = aligned((size_t)(ROWS * k->d) * k->size);
    const size_t turned = grad ? 0 : (size_t)(k->d * k->gates) * k->size;
    return (ig__room){.each = aligned(product) + 4 * states,
                      .shared = aligned(sizeof(shared_state)) + turned};
}

static void begin_unit(layer_walk *k, const ig__eval *e, int64_t unit)
{
    const size_t a = k->state->plan[0].scratch_bytes, b = k->state->plan[1].scratch_bytes;
    k->first = unit * ROWS;
    k->n = k->batch - k->first < ROWS ? k->batch - k->first : ROWS;
    k->product = e->scratch;
    k->own = k->product + aligned(a > b ? a : b);
}

/* c += a times the weight, for the unit's sequences */
static void multiply(const layer_walk *k, void *c, const void *a, const void *b,
                     const void *c0, const void *bias)
{
    const ig__mm_plan *plan = &k->state->plan[k->n < ROWS];
    const ig__mm_data data = {.a = a, .b = b, .c = c, .c0 = c0, .bias = bias};
    ig__mm_walk walk;
    ig__mm_walk_begin(&walk, plan, &data, k->product);
    ig__mm_walk_run(&walk, 0, plan->n_pieces);
}

/* Row (sequence, step) of [B,T,width]; row of [.,D] in scratch. */
static char *row_at(const layer_walk *k, const ig__array *x, int64_t b, int64_t t)
{
    return x->data + (size_t)((b * k->steps + t) * dim(x->type, 2)) * k->size;
}
static char *state_at(const layer_walk *k, char *states, int64_t i)
{
    return states + (size_t)(i * k->d) * k->size;
}
static char *own_states(const layer_walk *k, int i)
{
    return k->own + (size_t)i * aligned((size_t)(ROWS * k->d) * k->size);
}

/* Steps of a sequence; out of 0 .. T is a fault. */
static int64_t length_of(const ig__eval *e, const layer_walk *k, int64_t b)
{
    int64_t n;
    if (!k->lengths)
        return k->steps;
    ig__load(&n, IG_COMPUTE_I64,
             k->lengths->data + b * k->lengths->strides[0] *
                                    (int64_t)ig_dtype_block_bytes(k->lengths->type->dtype),
             k->lengths->type->dtype, 1, 1);
    if (n >= 0 && n <= k->steps)
        return n;
    ig__fault(e, b);
    return n < 0 ? 0 : k->steps;
}

static void layer_explain(const ig__eval *e, int64_t at, ig_error *err)
{
    int64_t n;
    const ig__array *lengths = &e->in[e->n_in - 1];
    ig__load(&n, IG_COMPUTE_I64,
             lengths->data + at * lengths->strides[0] *
                                 (int64_t)ig_dtype_block_bytes(lengths->type->dtype),
             lengths->type->dtype, 1, 1);
    ig__fail(err, IG_ERR_ARGUMENT,
             "recurrent: length %lld of sequence %lld is outside 0..%lld", (long long)n,
             (long long)at, (long long)dim(e->out[0].type, 1));
}

/* ---- forward ------------------------------------------------------------------------------------------ */

/* Columns [first, ..) of w [G*D,D] as rows of the transpose. */
static void turn(const layer_walk *k, const ig__array *w, int64_t first)
{
    const int64_t last = first + BLOCK < k->d ? first + BLOCK : k->d;
    for (int64_t r = 0; r < k->gates; r++)
        for (int64_t c = first; c < last; c++)
            memcpy(k->turned + (size_t)(c * k->gates + r) * k->size,
                   w->data + (size_t)(r * k->d + c) * k->size, k->size);
}

/* Sequence i of the unit at step t, whose sums are ready. */
static void forward_row(const ig__eval *e, const layer_walk *k, char *states, int64_t i,
                        int64_t t)
{
    const int64_t b = k->first + i, before = k->backwards ? t + 1 : t - 1;
    const bool is_first = before < 0 || before >= k->steps;
    const bool is_lstm = k->cell == IG_CELL_LSTM;
    char *h = state_at(k, states, i), *y = row_at(k, &e->out[OUT_Y], b, t);
    const void *c0 = !is_lstm   ? NULL
                     : is_first ? state_at(k, e->in[IN_C0].data, b)
                                : row_at(k, &e->out[OUT_EXTRA], b, before);
    void *extra = row_at(k, &e->out[OUT_EXTRA], b, t);
    char *gates = row_at(k, &e->out[OUT_GATES], b, t);
    if (t >= length_of(e, k, b)) {
        memset(y, 0, (size_t)k->d * k->size);
        memset(gates, 0, (size_t)dim(e->out[OUT_GATES].type, 2) * k->size);
        if (is_lstm)
            memcpy(extra, c0, (size_t)k->d * k->size);
        return;
    }
    const ig__cell_row row = {.d = k->d,
                              .x = k->cell == IG_CELL_RNN   ? y
                                   : k->cell == IG_CELL_GRU ? row_at(k, &e->in[IN_X], b, t)
                                                            : gates,
                              .y = extra,
                              .h0 = h,
                              .c0 = c0,
                              .gates = gates,
                              .c = extra,
                              .h = y};
    ig__cell_forward(e, k->cell, &row);
    memcpy(h, y, (size_t)k->d * k->size);
}

static void forward_unit(const ig__eval *e, layer_walk *k)
{
    char *states = own_states(k, 0);
    const size_t bytes = (size_t)(k->n * k->d) * k->size;
    const ig__array *sums = k->cell == IG_CELL_RNN   ? &e->out[OUT_Y]
                            : k->cell == IG_CELL_GRU ? &e->out[OUT_EXTRA]
                                                     : &e->out[OUT_GATES];
    memcpy(states, state_at(k, e->in[IN_H0].data, k->first), bytes);
    for (int64_t s = 0; s < k->steps; s++) {
        const int64_t t = k->backwards ? k->steps - 1 - s : s;
        char *c = row_at(k, sums, k->first, t);
        if (k->cell == IG_CELL_GRU) /* its sums start from nothing: x stays apart */
            for (int64_t i = 0; i < k->n; i++)
                memset(row_at(k, sums, k->first + i, t), 0, (size_t)k->gates * k->size);
        multiply(k, c, states, k->turned,
                 k->cell == IG_CELL_GRU ? NULL : row_at(k, &e->in[IN_X], k->first, t),
                 e->in[IN_BIAS].data);
        for (int64_t i = 0; i < k->n; i++)
            forward_row(e, k, states, i, t);
    }
    memcpy(state_at(k, e->out[OUT_LAST].data, k->first), states, bytes);
}

static layer_walk forward_of(const ig__eval *e)
{
    return walk_of(e, &e->out[OUT_Y], &e->in[IN_W]);
}

static int64_t layer_units(const ig__eval *e)
{
    layer_walk k = forward_of(e);
    if (e->phase == 0)
        return (k.d + BLOCK - 1) / BLOCK;
    make_plans(e, &k, false);
    if (!k.steps && e->out[OUT_LAST].n)
        memcpy(e->out[OUT_LAST].data, e->in[IN_H0].data,
               (size_t)e->out[OUT_LAST].n * k.size);
    return units_of(&k);
}

static ig__room layer_room(const ig__eval *e)
{
    const layer_walk k = forward_of(e);
    return room_of(e, &k, false);
}

static double layer_work(const ig__eval *e)
{
    /* about 16 multiply-adds a nanosecond, and the cells */
    return (double)e->in[IN_X].n * ((double)dim(e->in[IN_W].type, 1) / 16 + 2);
}

static void layer_eval(const ig__eval *e, int64_t begin, int64_t end)
{
    layer_walk k = forward_of(e);
    for (int64_t unit = begin; unit < end; unit++) {
        if (e->phase == 0) {
            turn(&k, &e->in[IN_W], unit * BLOCK);
            continue;
        }
        begin_unit(&k, e, unit);
        forward_unit(e, &k);
    }
}

/* ---- backward -------------------------------------------------------------------------------------------- */

static void add(const ig__eval *e, const layer_walk *k, void *y, const void *x)
{
    if (!k->is_f64) {
        e->t->axpy(y, x, 1, k->d);
        return;
    }
    for (int64_t i = 0; i < k->d; i++)
        ((double *)y)[i] += ((const double *)x)[i];
}

/* States of the unit while it walks back; dc is swapped with dc0 after a step. */
typedef struct back_states {
    char *dh, *past, *dc, *dc0;
} back_states;

/* Sequence i at step t: the sums' gradients; past: what goes on to the state before. */
static void backward_row(const ig__eval *e, const layer_walk *k, const back_states *s,
                         int64_t i, int64_t t)
{
    const int64_t b = k->first + i, before = k->backwards ? t + 1 : t - 1;
    const int64_t n = length_of(e, k, b);
    const bool is_lstm = k->cell == IG_CELL_LSTM;
    const bool is_first = k->backwards ? t == n - 1 : t == 0;
    const size_t bytes = (size_t)k->d * k->size;
    char *dh = state_at(k, s->dh, i), *past = state_at(k, s->past, i);
    char *dc = state_at(k, s->dc, i), *dc0 = state_at(k, s->dc0, i);
    char *dx = row_at(k, &e->out[OUT_DX], b, t), *h0 = row_at(k, &e->out[OUT_BEFORE], b, t);
    char *sums = k->cell == IG_CELL_GRU ? row_at(k, &e->out[OUT_DH], b, t) : NULL;
    if (e->in[DOWN_EXTRA].n)
        add(e, k, dc, row_at(k, &e->in[DOWN_EXTRA], b, t));
    if (t >= n) {
        memset(dx, 0, (size_t)k->gates * k->size);
        if (sums)
            memset(sums, 0, (size_t)k->gates * k->size);
        memset(h0, 0, bytes);
        memcpy(past, dh, bytes);
        memcpy(dc0, dc, bytes);
        return;
    }
    if (e->in[DOWN_Y].n)
        add(e, k, dh, row_at(k, &e->in[DOWN_Y], b, t));
    memcpy(h0,
           is_first ? state_at(k, e->in[BACK_H0].data, b)
                    : row_at(k, &e->in[BACK_Y], b, before),
           bytes);
    const bool is_edge = before < 0 || before >= k->steps;
    const ig__cell_row row = {.d = k->d,
                              .y = row_at(k, &e->in[BACK_EXTRA], b, t),
                              .h0 = h0,
                              .c0 = !is_lstm  ? NULL
                                    : is_edge ? state_at(k, e->in[BACK_C0].data, b)
                                              : row_at(k, &e->in[BACK_EXTRA], b, before),
                              .gates = row_at(k, &e->in[BACK_GATES], b, t),
                              .c = row_at(k, &e->in[BACK_EXTRA], b, t),
                              .h = row_at(k, &e->in[BACK_Y], b, t),
                              .dh = dh,
                              .dc = dc,
                              .dx = dx,
                              .dy = sums,
                              .dh0 = past,
                              .dc0 = dc0};
    ig__cell_backward(e, k->cell, &row);
}

static void backward_unit(const ig__eval *e, layer_walk *k)
{
    back_states s = {own_states(k, 0), own_states(k, 1), own_states(k, 2),
                     own_states(k, 3)};
    const size_t bytes = (size_t)(k->n * k->d) * k->size;
    const ig__array *sums = &e->out[k->cell == IG_CELL_GRU ? OUT_DH : OUT_DX];
    memset(s.dh, 0, bytes);
    memset(s.dc, 0, bytes);
    if (e->in[DOWN_LAST].n)
        memcpy(s.dh, state_at(k, e->in[DOWN_LAST].data, k->first), bytes);
    for (int64_t step = k->steps; step-- > 0;) {
        const int64_t t = k->backwards ? k->steps - 1 - step : step;
        for (int64_t i = 0; i < k->n; i++)
            backward_row(e, k, &s, i, t);
        multiply(k, s.dh, row_at(k, sums, k->first, t), e->in[BACK_W].data, s.past, NULL);
        char *const dc = s.dc;
        s.dc = s.dc0;
        s.dc0 = dc;
    }
    char *states = e->out[OUT_STATES].data;
    memcpy(state_at(k, states, k->first), s.dh, bytes);
    if (k->cell == IG_CELL_LSTM)
        memcpy(state_at(k, states, k->batch + k->first), s.dc, bytes);
}

static layer_walk backward_of(const ig__eval *e)
{
    return walk_of(e, &e->in[BACK_Y], &e->in[BACK_W]);
}

static int64_t layer_grad_units(const ig__eval *e)
{
    layer_walk k = backward_of(e);
    make_plans(e, &k, true);
    return (k.batch + ROWS - 1) / ROWS;
}

static ig__room layer_grad_room(const ig__eval *e)
{
    const layer_walk k = backward_of(e);
    return room_of(e, &k, true);
}

static double layer_grad_work(const ig__eval *e)
{
    return (double)e->out[OUT_DX].n * ((double)dim(e->in[BACK_W].type, 1) / 16 + 2);
}

static void layer_grad_eval(const ig__eval *e, int64_t begin, int64_t end)
{
    layer_walk k = backward_of(e);
    for (int64_t unit = begin; unit < end; unit++) {
        begin_unit(&k, e, unit);
        backward_unit(e, &k);
    }
}

/* ---- gradients ------------------------------------------------------------------------------------------ */

/* A gradient, dense; an empty tensor where nothing came. */
static ig_tensor *down(ig__gradient *g, int i)
{
    const ig_dtype dtype = g->in[IN_W]->type.dtype;
    return g->d_out[i] ? ig__contiguous(g->d_out[i])
                       : ig_zeros(g->ctx, dtype, 1, (const int64_t[]){0});
}

static void layer_gradient(ig__gradient *g)
{
    const ig__recurrent_attrs *a = g->attrs;
    static const int all_but_last[2] = {0, 1};
    ig_tensor *in[10] = {down(g, OUT_Y),    down(g, OUT_LAST), down(g, OUT_EXTRA),
                         g->in[IN_W],       g->out[OUT_Y],     g->out[OUT_GATES],
                         g->out[OUT_EXTRA], g->in[IN_H0]};
    ig_tensor *out[4];
    int n = BACK_H0 + 1;
    if (a->cell == IG_CELL_LSTM)
        in[n++] = g->in[IN_C0];
    if (a->lengths)
        in[n++] = g->in[g->n_in - 1];
    if (!ig__apply_all(g->ctx, &ig__op_recurrent_grad, a, in, n, out))
        return;
    ig_tensor *sums = out[a->cell == IG_CELL_GRU ? OUT_DH : OUT_DX];
    const int64_t d = dim(&g->in[IN_W]->type, 1), gates = dim(&g->in[IN_W]->type, 0);
    const int64_t rows = dim(&sums->type, 0) * dim(&sums->type, 1);
    g->d_in[IN_X] = out[OUT_DX];
    if (ig__wants(g, IN_W))
        g->d_in[IN_W] = ig_matmul(
            ig_transpose(ig_reshape(sums, 2, (const int64_t[]){rows, gates}), 0, 1),
            ig_reshape(out[OUT_BEFORE], 2, (const int64_t[]){rows, d}));
    if (ig__wants(g, IN_BIAS))
        g->d_in[IN_BIAS] = ig_sum(sums, 2, all_but_last, false);
    if (ig__wants(g, IN_H0))
        g->d_in[IN_H0] = ig_select(out[OUT_STATES], 0, 0);
    if (a->cell == IG_CELL_LSTM && ig__wants(g, IN_C0))
        g->d_in[IN_C0] = ig_select(out[OUT_STATES], 0, 1);
}

#define ALL (IG_IN(1) | IG_IN(3) | IG_IN(4) | IG_IN(5) | IG_OUT(0) | IG_OUT(2) | IG_OUT(3))
const ig__op ig__op_recurrent = {.name = "recurrent",
                                 .n_in_least = 4,
                                 .n_in_most = 6,
                                 .attrs_bytes = sizeof(ig__recurrent_attrs),
                                 .shape = layer_shape,
                                 .n_out = 4,
                                 .n_phases = 2,
                                 .n_units = layer_units,
                                 .eval = layer_eval,
                                 .room = layer_room,
                                 .work = layer_work,
                                 .explain = layer_explain,
                                 .gradient = layer_gradient,
                                 .needs = {ALL, ALL, ALL, ALL, ALL},
                                 .precision = IG_PRECISION_HIGH};

const ig__op ig__op_recurrent_grad = {.name = "recurrent_grad",
                                      .n_in_least = 8,
                                      .n_in_most = 10,
                                      .attrs_bytes = sizeof(ig__recurrent_attrs),
                                      .shape = layer_grad_shape,
                                      .n_out = 4,
                                      .n_units = layer_grad_units,
                                      .eval = layer_grad_eval,
                                      .room = layer_grad_room,
                                      .work = layer_grad_work,
                                      .explain = layer_explain,
                                      .gradient = ig__gradient_missing,
                                      .precision = IG_PRECISION_HIGH};
