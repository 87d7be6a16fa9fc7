/* The reference of the recurrent cells: what stands behind the products, forward and
 * backward, in double.
 */
#include "kernel/train_int.h"

#include <math.h>

static double sigmoid(double x)
{
    return x >= 0 ? 1 / (1 + exp(-x)) : exp(x) / (1 + exp(x));
}

static void lstm(const ig__lstm_cell *cell)
{
    const int64_t d = cell->d;
    for (int64_t j = 0; j < d; j++) {
        const double i = sigmoid((double)cell->x[j]);
        const double f = sigmoid((double)cell->x[d + j]);
        const double g = tanh((double)cell->x[2 * d + j]);
        const double o = sigmoid((double)cell->x[3 * d + j]);
        const double c = f * (double)cell->c0[j] + i * g;
        cell->gates[j] = (float)i;
        cell->gates[d + j] = (float)f;
        cell->gates[2 * d + j] = (float)g;
        cell->gates[3 * d + j] = (float)o;
        cell->c[j] = (float)c;
        cell->h[j] = (float)(o * tanh(c));
    }
}

static void lstm_grad(const ig__lstm_cell *cell)
{
    const int64_t d = cell->d;
    for (int64_t j = 0; j < d; j++) {
        const double i = (double)cell->gates[j], f = (double)cell->gates[d + j];
        const double g = (double)cell->gates[2 * d + j];
        const double o = (double)cell->gates[3 * d + j];
        const double t = tanh((double)cell->c[j]);
        const double dh = cell->dh ? (double)cell->dh[j] : 0;
        const double dc = (cell->dc ? (double)cell->dc[j] : 0) + dh * o * (1 - t * t);
        cell->dx[j] = (float)(dc * g * i * (1 - i));
        cell->dx[d + j] = (float)(dc * (double)cell->c0[j] * f * (1 - f));
        cell->dx[2 * d + j] = (float)(dc * i * (1 - g * g));
        cell->dx[3 * d + j] = (float)(dh * t * o * (1 - o));
        cell->dc0[j] = (float)(dc * f);
    }
}

static void gru(const ig__gru_cell *cell)
{
    const int64_t d = cell->d;
    for (int64_t j = 0; j < d; j++) {
        const double r = sigmoid((double)cell->x[j] + (double)cell->y[j]);
        const double z = sigmoid((double)cell->x[d + j] + (double)cell->y[d + j]);
        const double n = tanh((double)cell->x[2 * d + j] + r * (double)cell->y[2 * d + j]);
        cell->gates[j] = (float)r;
        cell->gates[d + j] = (float)z;
        cell->gates[2 * d + j] = (float)n;
        cell->h[j] = (float)(n + z * ((double)cell->h0[j] - n));
    }
}

static void gru_grad(const ig__gru_cell *cell)
{
    const int64_t d = cell->d;
    for (int64_t j = 0; j < d; j++) {
        const double r = (double)cell->gates[j], z = (double)cell->gates[d + j];
        const double n = (double)cell->gates[2 * d + j], dh = (double)cell->dh[j];
        const double hn = (double)cell->y[2 * d + j];
        const double dn = dh * (1 - z) * (1 - n * n);
        const double dr = dn * hn * r * (1 - r);
        const double dz = dh * ((double)cell->h0[j] - n) * z * (1 - z);
        cell->dx[j] = cell->dy[j] = (float)dr;
        cell->dx[d + j] = cell->dy[d + j] = (float)dz;
        cell->dx[2 * d + j] = (float)dn;
        cell->dy[2 * d + j] = (float)(dn * r);
        cell->dh0[j] = (float)(dh * z);
    }
}

void ig__train_cell_ref(ig__train_kernels *table)
{
    table->lstm = lstm;
    table->lstm_grad = lstm_grad;
    table->gru = gru;
    table->gru_grad = gru_grad;
}
