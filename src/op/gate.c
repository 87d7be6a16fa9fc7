/* SwiGLU: silu(gate) x, in one pass; and its gradient of the gate in one. That of x is SwiGLU again:
 * silu(gate) dy.
 */
#include "op/network.h"

#include "ingot/op.h"
#include "op/apply.h"
#include "op/op_int.h"
#include "op/pointwise.h"

#include <math.h>

enum { PIECE = 256 }; /* elements on the stack */

static void swiglu_f32(const ig__eval *e, void *y_, const void *const *x, int64_t n)
{
    const float *gate = x[0], *up = x[1];
    float *y = y_, silu[PIECE];
    for (int64_t at = 0; at < n; at += PIECE) {
        const int64_t m = n - at < PIECE ? n - at : PIECE;
        e->t->unary(IG__UNARY_SILU, silu, gate + at, m);
        e->t->binary(IG__BINARY_MUL, y + at, silu, 1, up + at, 1, m);
    }
}

static void swiglu_f64(const ig__eval *e, void *y_, const void *const *x, int64_t n)
{
    (void)e;
    const double *gate = x[0], *up = x[1];
    double *y = y_;
    for (int64_t i = 0; i < n; i++)
        y[i] = gate[i] / (1 + exp(-gate[i])) * up[i];
}

/* dy, gate, x -> dy x silu'(gate) */
static void swiglu_grad_f32(const ig__eval *e, void *y_, const void *const *x, int64_t n)
{
    const float *dy = x[0], *gate = x[1], *up = x[2];
    float *y = y_, silu[PIECE], down[PIECE];
    for (int64_t at = 0; at < n; at += PIECE) {
        const int64_t m = n - at < PIECE ? n - at : PIECE;
        e->t->unary(IG__UNARY_SILU, silu, gate + at, m);
        e->t->binary(IG__BINARY_MUL, down, dy + at, 1, up + at, 1, m);
        e->t->unary_grad(IG__UNARY_SILU, y + at, down, gate + at, silu, m);
    }
}

static void swiglu_grad_f64(const ig__eval *e, void *y_, const void *const *x, int64_t n)
{
    (void)e;
    const double *dy = x[0], *gate = x[1], *up = x[2];
    double *y = y_;
    for (int64_t i = 0; i < n; i++) {
        const double s = 1 / (1 + exp(-gate[i]));
        y[i] = dy[i] * up[i] * (s + gate[i] * s * (1 - s));
    }
}

static ig_status meet(ig__type *out, const ig__type *const *in, int n_in, const char *op,
                      ig_error *err)
{
    for (int i = 0; i < n_in; i++)
        if (!ig__is_float(in[i]->dtype) || in[i]->dtype != in[0]->dtype)
            return ig__fail_shapes(err, op, "wants floats of one type", in[0], in[i]);
    out->dtype = in[0]->dtype;
    return ig__broadcast(out, in, n_in, op, err);
}

static ig_status swiglu_shape(ig__type *out, const ig__type *const *in, int n_in,
                              const void *attrs, ig_error *err)
{
    (void)attrs;
    return meet(out, in, n_in, "swiglu", err);
}

static ig_status swiglu_grad_shape(ig__type *out, const ig__type *const *in, int n_in,
                                   const void *attrs, ig_error *err)
{
    (void)attrs;
    return meet(out, in, n_in, "swiglu_grad", err);
}

static double gate_work(const ig__eval *e)
{
    return (double)e->out[0].n * 2;
}

static void swiglu_gradient(ig__gradient *g)
{
    ig_tensor *dy = g->d_out[0], *gate = g->in[0], *up = g->in[1];
    if (ig__wants(g, 1))
        g->d_in[1] = ig_swiglu(gate, dy);
    if (!ig__wants(g, 0))
        return;
    if (g->ctx->no_grad) {
        ig_tensor *const in[3] = {dy, gate, up};
        g->d_in[0] = ig__apply(g->ctx, &ig__op_swiglu_grad, NULL, in, 3);
        return;
    }
    ig_tensor *s = ig_sigmoid(gate);
    ig_tensor *slope = ig_add(s, ig_mul(ig_silu(gate), ig_add_scalar(ig_neg(s), 1)));
    g->d_in[0] = ig_mul(ig_mul(dy, up), slope);
}

const ig__op ig__op_swiglu = {
    .name = "swiglu",
    .n_in_least = 2,
    .n_in_most = 2,
    .shape = swiglu_shape,
    .span = {[IG_COMPUTE_F32] = swiglu_f32, [IG_COMPUTE_F64] = swiglu_f64},
    .work = gate_work,
    .gradient = swiglu_gradient,
    .needs = {IG_IN(0) | IG_IN(1), IG_IN(0)}};

const ig__op ig__op_swiglu_grad = {
    .name = "swiglu_grad",
    .n_in_least = 3,
    .n_in_most = 3,
    .shape = swiglu_grad_shape,
    .span = {[IG_COMPUTE_F32] = swiglu_grad_f32, [IG_COMPUTE_F64] = swiglu_grad_f64},
    .work = gate_work,
    .gradient = ig__gradient_missing};

ig_tensor *ig_swiglu(ig_tensor *gate, ig_tensor *x)
{
    return ig__apply_met(&ig__op_swiglu, NULL, gate, x);
}
