/* Muon (Jordan et al., 2024): the momentum of a matrix, made orthogonal by a few steps of a Newton-Schulz
 * iteration, is the step.
 *
 *   m = beta m + g;  u = g + beta m (Nesterov);  X = u / |u|
 *   five times: A = X X^T;  X = 3.4445 X + (-4.7750 A + 2.0315 A A) X
 *   w = w - lr sqrt(max(1, rows / columns)) X
 *
 * The iteration needs no more than the singular values near 1. A tensor of more dimensions is taken as
 * [first, all others].
 */
#include "train/optimizer.h"

#include <math.h>
#include <string.h>

/* x [N,K] -> the nearest matrix with equal singular values, nearly. */
static ig_tensor *orthogonal(ig_tensor *x)
{
    enum { ROUNDS = 5 };
    const bool tall = ig_tensor_dim(x, 0) > ig_tensor_dim(x, 1);
    if (tall)
        x = ig_transpose(x, 0, 1);
    x = ig_div(x, ig_add_scalar(ig_norm(x, 0, NULL, false), 1e-7));
    for (int i = 0; i < ROUNDS; i++) {
        ig_tensor *a = ig_matmul(x, ig_transpose(x, 0, 1));
        ig_tensor *b = ig_add(ig_scale(a, -4.7750), ig_scale(ig_matmul(a, a), 2.0315));
        x = ig_add(ig_scale(x, 3.4445), ig_matmul(b, x));
    }
    return tall ? ig_transpose(x, 0, 1) : x;
}

bool ig__muon_step(const ig_optimizer *opt, const ig__optim_param *param,
                   ig_tensor *gradient)
{
    const double beta = opt->opts.beta1;
    ig_tensor *m = param->state[IG_STATE_M];
    ig_tensor *g = ig_mul(gradient, ig__step_number(opt, IG_STEP_SCALE));
    if (!ig__assign_unless_skipped(opt, m, ig_add(ig_scale(m, beta), g)))
        return false;
    int64_t dims[IG_MAX_DIMS];
    const int n_dims = ig_tensor_n_dims(param->p);
    for (int i = 0; i < n_dims; i++)
        dims[i] = ig_tensor_dim(param->p, i);
    const int64_t rows = dims[0], flat[2] = {rows, -1};
    ig_tensor *u = ig_reshape(ig_add(g, ig_scale(m, beta)), 2, flat);
    if (!u)
        return false;
    const double ratio = (double)rows / (double)ig_tensor_dim(u, 1);
    u = ig_scale(orthogonal(u), sqrt(ratio > 1 ? ratio : 1));
    /* the update multiplies with the step's scale: it is in u already */
    u = ig_contiguous(
        ig_reshape(ig_div(u, ig__step_number(opt, IG_STEP_SCALE)), n_dims, dims));
    ig__update_attrs a;
    memset(&a, 0, sizeof a);
    a.decoupled = true;
    return ig__update_param(opt, param, &ig__op_sgd_update, u, &a);
}
