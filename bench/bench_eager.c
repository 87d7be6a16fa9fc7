/* What a call costs, and what capture saves: one JSON line a case.
 *
 *   bench_eager [filter [threads]]     filter: part of a case's name, "" for all; threads: 1
 *
 *   add            one call of ig_add on one-element tensors, its gradient recorded
 *   four           four operators on a scalar, forward and backward
 *   mlp_eager      a step of an MLP 64-64-10 on 32 rows: forward, backward, AdamW
 *   mlp_captured   the same step, replayed
 *
 * Cases alternate, round by round; `ns` is the median of a case's rounds, `least_ns` the least, `spread`
 * (largest - least) / median.
 */
#include "base/clock.h"
#include "ingot/ingot.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 15, N_CASES = 4 };

typedef struct bench {
    ig_context *ctx;
    ig_tensor *a, *b, *s; /* one element; a and s are leaves */
    ig_tensor *x, *y;     /* [32,64], [32] */
    ig_tensor *params[4];
    ig_optimizer *opt;
    ig_program *program;
} bench;

static void adds(bench *b, int n)
{
    ig_scope *scope = ig_scope_begin(b->ctx);
    for (int i = 0; i < n; i++)
        ig_tensor_release(ig_add(b->a, b->b));
    ig_scope_end(scope);
}

static void fours(bench *b, int n)
{
    for (int i = 0; i < n; i++) {
        ig_scope *scope = ig_scope_begin(b->ctx);
        ig_tensor_clear_grad(b->s);
        ig_backward(ig_tanh(ig_add(ig_mul(b->s, b->b), ig_square(b->s))));
        ig_scope_end(scope);
    }
}

static void steps(bench *b, int n)
{
    for (int i = 0; i < n; i++) {
        ig_scope *scope = ig_scope_begin(b->ctx);
        ig_optimizer_clear_grads(b->opt);
        ig_tensor *h = ig_relu(ig_linear(b->x, b->params[0], b->params[1]));
        ig_backward(ig_cross_entropy(ig_linear(h, b->params[2], b->params[3]), b->y, NULL));
        ig_optimizer_step(b->opt);
        ig_scope_end(scope);
    }
}

static void replays(bench *b, int n)
{
    for (int i = 0; i < n; i++)
        if (ig_program_run(b->program, NULL) != IG_OK)
            return;
}

static const struct {
    const char *name;
    void (*run)(bench *b, int n);
    int n;
} cases[N_CASES] = {{"add", adds, 20000},
                    {"four", fours, 4000},
                    {"mlp_eager", steps, 200},
                    {"mlp_captured", replays, 400}};

static ig_status set_up(bench *b, ig_error *err)
{
    ig_context *ctx = b->ctx;
    b->a = ig_tensor_require_grad(ig_full(ctx, IG_DTYPE_F32, IG_SHAPE(1), 1), true);
    b->b = ig_full(ctx, IG_DTYPE_F32, IG_SHAPE(1), 2);
    b->s = ig_tensor_require_grad(ig_full(ctx, IG_DTYPE_F32, IG_SHAPE(1), 0.5), true);
    b->x = ig_normal(ctx, IG_DTYPE_F32, IG_SHAPE(32, 64), 0, 1);
    b->y = ig_cast(ig_uniform(ctx, IG_DTYPE_F32, IG_SHAPE(32), 0, 9.9), IG_DTYPE_I64);
    b->params[0] = ig_normal(ctx, IG_DTYPE_F32, IG_SHAPE(64, 64), 0, 0.1);
    b->params[1] = ig_zeros(ctx, IG_DTYPE_F32, IG_SHAPE(64));
    b->params[2] = ig_normal(ctx, IG_DTYPE_F32, IG_SHAPE(10, 64), 0, 0.1);
    b->params[3] = ig_zeros(ctx, IG_DTYPE_F32, IG_SHAPE(10));
    for (int i = 0; i < 4; i++)
        ig_tensor_require_grad(b->params[i], true);
    const ig_optimizer_opts o = ig_optimizer_defaults(IG_RULE_ADAMW);
    ig_status status = ig_optimizer_create(&b->opt, ctx, &o, err);
    if (status == IG_OK)
        status = ig_optimizer_add(b->opt, b->params, NULL, 4, NULL, err);
    if (status == IG_OK)
        status = ig_capture_begin(ctx, err);
    if (status != IG_OK)
        return status;
    steps(b, 1);
    return ig_capture_end(&b->program, ctx, err);
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void measure(bench *b, const char *filter)
{
    double ns[N_CASES][ROUNDS];
    for (int r = -1; r < ROUNDS; r++) /* the first is not counted */
        for (int i = 0; i < N_CASES; i++) {
            if (!strstr(cases[i].name, filter))
                continue;
            const int64_t begun = ig__now_ns();
            cases[i].run(b, cases[i].n);
            if (r >= 0)
                ns[i][r] = (double)(ig__now_ns() - begun) / cases[i].n;
        }
    for (int i = 0; i < N_CASES; i++) {
        if (!strstr(cases[i].name, filter))
            continue;
        qsort(ns[i], ROUNDS, sizeof(double), by_value);
        printf(
            "{\"case\":\"%s\",\"threads\":%d,\"isa\":\"%s\",\"ns\":%.1f,\"least_ns\":%.1f,"
            "\"spread\":%.3f}\n",
            cases[i].name, ig_context_threads(b->ctx), ig_context_isa(b->ctx),
            ns[i][ROUNDS / 2], ns[i][0],
            (ns[i][ROUNDS - 1] - ns[i][0]) / ns[i][ROUNDS / 2]);
    }
    const ig_program_stats s = ig_program_get_stats(b->program);
    printf("{\"case\":\"mlp_program\",\"steps\":%" PRId64 ",\"team_steps\":%" PRId64
           ",\"storage_bytes\":%zu,\"planned_bytes\":%zu}\n",
           s.n_steps, s.n_team_steps, s.storage_bytes, s.planned_bytes);
}

int main(int argc, char **argv)
{
    bench b = {0};
    ig_error error = {.message = ""};
    const ig_context_opts opts = {.n_threads =
                                      argc > 2 ? (int)strtol(argv[2], NULL, 10) : 1};
    ig_status status = ig_context_create(&b.ctx, &opts, &error);
    if (status == IG_OK)
        status = set_up(&b, &error);
    if (status == IG_OK)
        measure(&b, argc > 1 ? argv[1] : "");
    else
        fprintf(stderr, "bench_eager: %s\n", error.message);
    ig_program_destroy(b.program);
    ig_optimizer_destroy(b.opt);
    ig_context_destroy(b.ctx);
    return status != IG_OK;
}
