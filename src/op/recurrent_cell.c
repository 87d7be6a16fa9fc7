/* The cells of recurrent layers: f32 by the kernels, f64 by plain loops, for checks of gradients.
 *
 *   RNN   h = tanh(x)
 *   LSTM  i f g o: c = f c0 + i g, h = o tanh(c)
 *   GRU   r z n: n = tanh(xn + r yn), h = n + z (h0 - n)
 */
#include "op/recurrent.h"

#include <math.h>
#include <string.h>

int64_t ig__cell_gates(ig_cell cell)
{
    static const int64_t gates[] = {
        [IG_CELL_RNN] = 1, [IG_CELL_LSTM] = 4, [IG_CELL_GRU] = 3};
    return gates[cell];
}

static double sigmoid(double x)
{
    return x >= 0 ? 1 / (1 + exp(-x)) : exp(x) / (1 + exp(x));
}

static void lstm_f64(const ig__cell_row *r)
{
    const int64_t d = r->d;
    const double *x = r->x, *c0 = r->c0;
    double *gates = r->gates, *c = r->c, *h = r->h;
    for (int64_t j = 0; j < d; j++) {
        const double i = sigmoid(x[j]), f = sigmoid(x[d + j]);
        const double g = tanh(x[2 * d + j]), o = sigmoid(x[3 * d + j]);
        gates[j] = i;
        gates[d + j] = f;
        gates[2 * d + j] = g;
        gates[3 * d + j] = o;
        c[j] = f * c0[j] + i * g;
        h[j] = o * tanh(c[j]);
    }
}

static void lstm_grad_f64(const ig__cell_row *r)
{
    const int64_t d = r->d;
    const double *gates = r->gates, *c = r->c, *c0 = r->c0, *dh = r->dh, *dc_in = r->dc;
    double *dx = r->dx, *dc0 = r->dc0;
    for (int64_t j = 0; j < d; j++) {
        const double i = gates[j], f = gates[d + j], g = gates[2 * d + j];
        const double o = gates[3 * d + j], t = tanh(c[j]);
        const double dc = dc_in[j] + dh[j] * o * (1 - t * t);
        dx[j] = dc * g * i * (1 - i);
        dx[d + j] = dc * c0[j] * f * (1 - f);
        dx[2 * d + j] = dc * i * (1 - g * g);
        dx[3 * d + j] = dh[j] * t * o * (1 - o);
        dc0[j] = dc * f;
    }
}

static void gru_f64(const ig__cell_row *row)
{
    const int64_t d = row->d;
    const double *x = row->x, *y = row->y, *h0 = row->h0;
    double *gates = row->gates, *h = row->h;
    for (int64_t j = 0; j < d; j++) {
        const double r = sigmoid(x[j] + y[j]), z = sigmoid(x[d + j] + y[d + j]);
        const double n = tanh(x[2 * d + j] + r * y[2 * d + j]);
        gates[j] = r;
        gates[d + j] = z;
        gates[2 * d + j] = n;
        h[j] = n + z * (h0[j] - n);
    }
}

static void gru_grad_f64(const ig__cell_row *row)
{
    const int64_t d = row->d;
    const double *gates = row->gates, *y = row->y, *h0 = row->h0, *dh = row->dh;
    double *dx = row->dx, *dy = row->dy, *dh0 = row->dh0;
    for (int64_t j = 0; j < d; j++) {
        const double r = gates[j], z = gates[d + j], n = gates[2 * d + j];
        const double dn = dh[j] * (1 - z) * (1 - n * n);
        dx[j] = dy[j] = dn * y[2 * d + j] * r * (1 - r);
        dx[d + j] = dy[d + j] = dh[j] * (h0[j] - n) * z * (1 - z);
        dx[2 * d + j] = dn;
        dy[2 * d + j] = dn * r;
        dh0[j] = dh[j] * z;
    }
}

static bool is_f64(const ig__eval *e)
{
    return e->in[0].type->dtype == IG_DTYPE_F64;
}

static ig__lstm_cell lstm_of(const ig__cell_row *r)
{
    return (ig__lstm_cell){.d = r->d,
                           .x = r->x,
                           .c0 = r->c0,
                           .gates = r->gates,
                           .c = r->c,
                           .h = r->h,
                           .dh = r->dh,
                           .dc = r->dc,
                           .dx = r->dx,
                           .dc0 = r->dc0};
}

static ig__gru_cell gru_of(const ig__cell_row *r)
{
    return (ig__gru_cell){.d = r->d,
                          .x = r->x,
                          .y = r->y,
                          .h0 = r->h0,
                          .gates = r->gates,
                          .h = r->h,
                          .dh = r->dh,
                          .dx = r->dx,
                          .dy = r->dy,
                          .dh0 = r->dh0};
}

void ig__cell_forward(const ig__eval *e, ig_cell cell, const ig__cell_row *row)
{
    if (cell == IG_CELL_RNN) {
        if (is_f64(e))
            e->t->unary_f64(IG__UNARY_TANH, row->h, row->x, row->d);
        else
            e->t->unary(IG__UNARY_TANH, row->h, row->x, row->d);
    } else if (is_f64(e)) {
        if (cell == IG_CELL_LSTM)
            lstm_f64(row);
        else
            gru_f64(row);
    } else if (cell == IG_CELL_LSTM) {
        const ig__lstm_cell lstm = lstm_of(row);
        e->t->lstm(&lstm);
    } else {
        const ig__gru_cell gru = gru_of(row);
        e->t->gru(&gru);
    }
}

void ig__cell_backward(const ig__eval *e, ig_cell cell, const ig__cell_row *row)
{
    if (cell != IG_CELL_GRU)
        memset(row->dh0, 0, (size_t)row->d * (is_f64(e) ? 8 : 4));
    if (cell == IG_CELL_RNN) {
        if (is_f64(e))
            e->t->unary_grad_f64(IG__UNARY_TANH, row->dx, row->dh, row->h, row->h, row->d);
        else
            e->t->unary_grad(IG__UNARY_TANH, row->dx, row->dh, row->h, row->h, row->d);
    } else if (is_f64(e)) {
        if (cell == IG_CELL_LSTM)
            lstm_grad_f64(row);
        else
            gru_grad_f64(row);
    } else if (cell == IG_CELL_LSTM) {
        const ig__lstm_cell lstm = lstm_of(row);
        e->t->lstm_grad(&lstm);
    } else {
        const ig__gru_cell gru = gru_of(row);
        e->t->gru_grad(&gru);
    }
}
