/* The budget: how many rows a step may have, so that it takes the target time.
 *
 * A controller, not a model: what a row costs depends on the weights, the keys before it, the
 * threads and whoever else uses the machine. From a step that used its budget, the number of
 * rows that would have met the target follows by proportion; a step that took too long lowers
 * the budget at once, a fast one raises it half the way, at most to twice. Steps have a fixed
 * cost besides, so the proportion is too careful in both directions, and converges.
 */
#include "infer/engine_int.h"

enum { LEAST_ROWS = 16 }; /* a tile: fewer rows take the same time */

static int64_t clamp(int64_t x, int64_t least, int64_t most)
{
    return x < least ? least : x > most ? most : x;
}

void ig__speed_init(ig__speed *s, const ig_engine_opts *opts, const ig_model_info *info,
                    int n_threads)
{
    /* a careful guess for the first step: 20 Gop/s a thread */
    const double rows = (double)opts->step_ns * 20.0 * n_threads / (info->token_ops + 1);
    const int64_t least = LEAST_ROWS < opts->max_tokens ? LEAST_ROWS : opts->max_tokens;
    *s = (ig__speed){.step_ns = opts->step_ns, .least = least, .most = opts->max_tokens};
    s->budget = rows < (double)s->most ? clamp((int64_t)rows, s->least, s->most) : s->most;
}

void ig__speed_learn(ig__speed *s, int64_t n_rows, int64_t ns)
{
    const double aim =
        0.9 * (double)s->step_ns; /* so that noise does not pass the target */
    const double fit = (double)n_rows * aim / (double)(ns + 1);
    double budget = (double)s->budget;
    if (ns > s->step_ns)
        budget = fit;
    else if (2 * n_rows >= s->budget && fit > budget)
        budget = fit < 3 * budget ? (budget + fit) / 2 : 2 * budget;
    else if (n_rows >= s->budget)
        budget = (budget + fit) / 2;
    s->budget = clamp((int64_t)budget, s->least, s->most);
}
