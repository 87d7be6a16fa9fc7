/* Adafactor (Shazeer and Stern, 2018, algorithm 5, with a given learning rate and without momentum): of a
 * matrix's second moments only the means of rows and columns are kept.
 *
 *   b = 1 - t^-0.8;  R = b R + (1 - b) mean_columns(g^2 + eps);  C likewise over rows
 *   u = g / sqrt(R C / mean(R));  u = u / max(1, rms(u));  w = w - lr u
 */
#include "train/optimizer.h"

#include <string.h>

/* state = b state + (1 - b) value, unless the step is skipped; the new value of it. */
static ig_tensor *average(const ig_optimizer *opt, ig_tensor *state, ig_tensor *value,
                          ig_tensor *rest)
{
    ig_tensor *next = ig_add(state, ig_mul(rest, ig_sub(value, state)));
    return ig__assign_unless_skipped(opt, state, next) ? next : NULL;
}

bool ig__adafactor_step(const ig_optimizer *opt, const ig__optim_param *param,
                        ig_tensor *gradient)
{
    ig_context *ctx = opt->ctx;
    ig_tensor *t = ig__step_number(opt, IG_STEP_DONE);
    ig_tensor *scale = ig__step_number(opt, IG_STEP_SCALE);
    ig_tensor *rest = ig_pow(t, ig_tensor_scalar(ctx, IG_DTYPE_F32, -0.8)); /* 1 - b */
    ig_tensor *g = ig_mul(gradient, scale);
    ig_tensor *square = ig_add_scalar(ig_square(g), opt->opts.eps);
    ig_tensor *u;
    if (ig__is_matrix(param->p)) {
        const int last = -1, before = -2;
        ig_tensor *rows = average(opt, param->state[IG_STATE_ROWS],
                                  ig_mean(square, 1, &last, false), rest);
        ig_tensor *columns = average(opt, param->state[IG_STATE_COLUMNS],
                                     ig_mean(square, 1, &before, false), rest);
        ig_tensor *share = ig_div(rows, ig_mean(rows, 1, &last, true));
        u = ig_mul(ig_mul(g, ig_unsqueeze(ig_rsqrt(share), -1)),
                   ig_unsqueeze(ig_rsqrt(columns), -2));
    } else {
        u = ig_mul(g, ig_rsqrt(average(opt, param->state[IG_STATE_V], square, rest)));
    }
    ig_tensor *rms = ig_sqrt(ig_mean(ig_square(u), 0, NULL, false));
    ig_tensor *one = ig_tensor_scalar(ctx, IG_DTYPE_F32, 1);
    u = ig_div(u, ig_mul(ig_maximum(rms, one), scale));
    ig__update_attrs a;
    memset(&a, 0, sizeof a);
    a.decoupled = true;
    return ig__update_param(opt, param, &ig__op_sgd_update, ig_contiguous(u), &a);
}
