/* The reference of the optimisers' updates: float32 operations in the order written here,
 * which the other tables follow to the bit.
 */
#include "kernel/train_int.h"

#include <math.h>

/* The new weight, to all places that want it. */
static void store(const ig__update *u, int64_t i, float p)
{
    u->p[i] = p;
    if (u->p_bf16)
        u->p_bf16[i] = ig__f32_to_bf16(p);
    if (u->ema)
        u->ema[i] = fmaf(1.0f - u->ema_decay, p - u->ema[i], u->ema[i]);
}

/* g' += decay p; m = momentum m + (1 - dampening) g' (g' at first);
 * p -= lr (nesterov ? g' + momentum m : m) */
static void sgd(const ig__update *u)
{
    for (int64_t i = 0; i < u->n; i++) {
        const float p = u->p[i];
        float g = fmaf(u->weight_decay, p, u->grad_scale * u->g[i]);
        if (u->momentum != 0.0f) {
            const float m =
                u->first ? g : fmaf(1.0f - u->dampening, g, u->momentum * u->m[i]);
            u->m[i] = m;
            g = u->nesterov ? fmaf(u->momentum, m, g) : m;
        }
        store(u, i, fmaf(-u->lr, g, p));
    }
}

/* m += (1 - beta1) (g' - m); v = beta2 v + (1 - beta2) g'^2;
 * p -= lr / c1 * m / (sqrt(v) / sqrt(c2) + eps) (Kingma and Ba, 2015, algorithm 1;
 * decoupled decay: Loshchilov and Hutter, 2019, algorithm 2) */
static void adam(const ig__update *u)
{
    const float step = u->lr / u->correction1, root = 1.0f / sqrtf(u->correction2);
    const float kept = 1.0f - u->lr * u->weight_decay;
    for (int64_t i = 0; i < u->n; i++) {
        float p = u->p[i], g = u->grad_scale * u->g[i];
        if (u->decoupled)
            p *= kept;
        else
            g = fmaf(u->weight_decay, p, g);
        const float m = fmaf(1.0f - u->beta1, g - u->m[i], u->m[i]);
        const float v = fmaf((1.0f - u->beta2) * g, g, u->beta2 * u->v[i]);
        u->m[i] = m;
        u->v[i] = v;
        store(u, i, fmaf(-step, m / fmaf(sqrtf(v), root, u->eps), p));
    }
}

/* p = (1 - lr decay) p - lr sign(beta1 m + (1 - beta1) g'); m = beta2 m + (1 - beta2) g'
 * (Chen et al., "Symbolic discovery of optimization algorithms", 2023) */
static void lion(const ig__update *u)
{
    const float kept = 1.0f - u->lr * u->weight_decay;
    for (int64_t i = 0; i < u->n; i++) {
        const float g = u->grad_scale * u->g[i], m = u->m[i];
        const float c = fmaf(1.0f - u->beta1, g, u->beta1 * m);
        const float sign = c > 0.0f ? 1.0f : c < 0.0f ? -1.0f : c;
        u->m[i] = fmaf(1.0f - u->beta2, g, u->beta2 * m);
        store(u, i, fmaf(-u->lr, sign, u->p[i] * kept));
    }
}

static void factored(float *u, const float *g, float row, const float *col, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        u[i] = g[i] / sqrtf(row * col[i]);
}

void ig__train_update_ref(ig__train_kernels *table)
{
    table->sgd = sgd;
    table->adam = adam;
    table->lion = lion;
    table->factored = factored;
}
