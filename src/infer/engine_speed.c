/* The budget: how many rows a step may have, so that it takes the target time at most.
 *
 *     cost of a row    1 + keys before it * key_cost       in rows at the begin of a prompt
 *     time of a step   costs of its rows * cost_ns
 *     budget           target / (cost_ns * margin)
 *
 * All three are learned from the steps with rows of prompts. What a cost takes depends on
 * weights, threads and whoever else uses the machine: cost_ns follows within a few steps. What
 * a key costs against a row's weights is the machine's: guessed from the model's shape, and
 * fitted over the last hundred steps. Steps scatter about what is expected of them; the margin
 * is the ratio that nine of ten stay below, found by moving it up where one is above and down,
 * by a ninth of that, where one is below. A quiet machine so gets steps close to the target, a
 * busy one shorter ones, and either one in ten that is longer.
 */
#include "infer/engine_int.h"

enum { LEAST_ROWS = 16 }; /* a tile: fewer rows take the same time */

/* An operation of attention, f16 keys against f32 sums, takes so many times an operation of
 * the weights' products (measured on 64 to 512 rows, AVX-512 with tiles). */
static const double attend_factor = 2.5;
static const double fit_memory = 0.98, fit_prior = 0.02, fit_range = 16;
static const double margin_least = 1.03, margin_first = 1.15, margin_most = 2;

static double clamp(double x, double least, double most)
{
    return x < least ? least : x > most ? most : x;
}

void ig__speed_init(ig__speed *s, const ig_engine_opts *opts, const ig_model_info *info,
                    int n_threads)
{
    const double row_ops = info->token_ops + 1;
    const double key_ops =
        4.0 * (double)(info->n_layers * info->n_heads * info->head_width);
    const double key_cost = attend_factor * key_ops / row_ops;
    *s = (ig__speed){.step_ns = opts->step_ns,
                     .least = LEAST_ROWS < opts->max_tokens ? LEAST_ROWS : opts->max_tokens,
                     .most = opts->max_tokens,
                     .window = info->window,
                     .guess = key_cost,
                     .key_cost = key_cost,
                     .logits_cost = info->head_ops / row_ops,
                     /* a careful guess for the first step: 20 Gop/s a thread */
                     .cost_ns = row_ops / (20.0 * n_threads),
                     .margin = margin_first};
}

ig__work ig__speed_work(const ig__speed *s, int64_t n_rows, int64_t n_logits,
                        int64_t position)
{
    double keys = (double)position + 0.5 * (double)n_rows; /* of the mean row */
    if (s->window > 0 && keys > (double)s->window)
        keys = (double)s->window;
    return (ig__work){.rows = (double)n_rows + (double)n_logits * s->logits_cost,
                      .keys = (double)n_rows * keys};
}

double ig__speed_cost(const ig__speed *s, ig__work work)
{
    return work.rows + work.keys * s->key_cost;
}

double ig__speed_budget(const ig__speed *s)
{
    return (double)s->step_ns / (s->cost_ns * s->margin);
}

int64_t ig__speed_rows(const ig__speed *s, double rows)
{
    return (int64_t)clamp(rows, (double)s->least, (double)s->most);
}

/* Least squares, of relative errors, of ns = a * rows + b * keys * guess; drawn to a = b, which
 * decides where all steps were alike. */
static void fit_keys(ig__speed *s, ig__work work, int64_t ns)
{
    ig__fit *f = &s->fit;
    const double u = work.rows / (double)ns, v = work.keys * s->guess / (double)ns;
    f->uu = f->uu * fit_memory + u * u;
    f->uv = f->uv * fit_memory + u * v;
    f->vv = f->vv * fit_memory + v * v;
    f->u = f->u * fit_memory + u;
    f->v = f->v * fit_memory + v;
    const double prior = fit_prior * f->uu;
    const double uu = f->uu + prior, uv = f->uv - prior, vv = f->vv + prior;
    const double a = f->u * vv - f->v * uv, b = f->v * uu - f->u * uv; /* times det > 0 */
    const double ratio = b <= 0 ? 0 : a * fit_range <= b ? fit_range : b / a;
    s->key_cost = s->guess * clamp(ratio, 1 / fit_range, fit_range);
}

void ig__speed_learn(ig__speed *s, ig__work work, int64_t ns)
{
    const double total = ig__speed_cost(s, work);
    if (2 * total < ig__speed_budget(s) && ns <= s->step_ns)
        return; /* small steps have a fixed part that tells nothing */
    const double took = (double)(ns + 1) / total;
    if (s->learned)
        s->margin = clamp(s->margin * (took > s->cost_ns * s->margin ? 1.09 : 0.99),
                          margin_least, margin_most);
    s->cost_ns += (took - s->cost_ns) * (s->learned ? 0.5 : 1);
    s->learned = true;
    const double before = s->key_cost;
    fit_keys(s, work, ns + 1);
    /* what was learned of this step's time stands */
    s->cost_ns *= (work.rows + work.keys * before) / ig__speed_cost(s, work);
}
