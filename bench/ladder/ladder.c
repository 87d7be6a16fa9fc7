/* The ladder of docs/learn/gemm.md: every rung at one shape, a line of JSON each.
 *
 *   ladder [M N K [rounds]]      1024 1024 1024 5
 *
 * Rungs 7 and up are the library's: an instruction set each on one thread, then the best on two. Every
 * rung's result is compared with the first's on a small shape before it is timed. `ns` is the
 * median; the share is of the f32 peak loop of the best instruction set on as many threads.
 */
#include "ladder.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/team.h"
#include "kernel/matmul.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX_ROUNDS = 101 };

typedef struct rung {
    const char *name;
    void (*run)(const product *p); /* NULL: the library */
    const ig__kernels *kernels;
    int n_threads;
} rung;

typedef struct job {
    const ig__mm_plan *plan;
    const ig__mm_data *data;
    char *scratch;
    ig__share share;
    ig__peak_fn *peak;
    double ops[2];
} job;

static ig_allocator alloc;

static void product_job(void *arg, int i_thread, int n_threads)
{
    job *j = arg;
    ig__mm_walk walk;
    ig__mm_walk_begin(&walk, j->plan, j->data,
                      j->scratch + (size_t)i_thread * (j->plan->scratch_bytes + 4096));
    int cursor = i_thread;
    for (int64_t i; (i = ig__share_next(&j->share, &cursor, i_thread, n_threads)) >= 0;)
        ig__mm_walk_run(&walk, i, i + 1);
}

static void run_library(const rung *r, ig__team *team, const product *p)
{
    static job j;
    const ig__mm_problem problem = {.m = p->m,
                                    .n = p->n,
                                    .k = p->k,
                                    .n_batch = {1, 1},
                                    .a = {.row = p->k, .col = 1},
                                    .b = {.row = p->n, .col = 1},
                                    .c = {.row = p->n, .col = 1},
                                    .alpha = 1.0};
    const ig__mm_data data = {.a = p->a, .b = p->b, .c = p->c};
    const ig__mm_plan plan = ig__mm_plan_make(r->kernels, &problem, r->n_threads);
    static char *scratch;
    static size_t room;
    const size_t wanted = (plan.scratch_bytes + 4096) * 2;
    if (room < wanted) {
        ig__free(&alloc, scratch);
        scratch = ig__alloc_huge(&alloc, wanted);
        room = wanted;
    }
    if (!scratch)
        exit(1);
    j = (job){.plan = &plan, .data = &data, .scratch = scratch};
    ig__share_reset(&j.share, plan.n_pieces, r->n_threads);
    ig__team_run(team, product_job, &j);
}

static void peak_job(void *arg, int i_thread, int n_threads)
{
    (void)n_threads;
    job *j = arg;
    j->ops[i_thread] = j->peak(200000);
}

static double peak_once(ig__team *team, int n_threads)
{
    static job j;
    j.peak = ig__kernels_pick(NULL)->peak_f32;
    const int64_t begin = ig__now_ns();
    ig__team_run(team, peak_job, &j);
    const double ns = (double)(ig__now_ns() - begin);
    return (j.ops[0] + (n_threads > 1 ? j.ops[1] : 0.0)) / ns;
}

static void run_rung(const rung *r, ig__team *team, const product *p)
{
    if (r->run)
        r->run(p);
    else
        run_library(r, team, p);
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Against rung 1 on a shape that fits no block. */
static bool is_right(const rung *r, ig__team *team, product p)
{
    p.m = p.m < 37 ? p.m : 37;
    p.n = p.n < 51 ? p.n : 51;
    p.k = p.k < 300 ? p.k : 300;
    float *wanted = ig__alloc(&alloc, (size_t)(p.m * p.n) * sizeof(float));
    if (!wanted)
        return false;
    rung_naive(&p);
    for (int64_t i = 0; i < p.m * p.n; i++)
        wanted[i] = p.c[i];
    run_rung(r, team, &p);
    bool is_close = true;
    for (int64_t i = 0; i < p.m * p.n; i++)
        is_close = is_close && fabsf(wanted[i] - p.c[i]) <= 1e-4f;
    ig__free(&alloc, wanted);
    return is_close;
}

static void time_rung(const rung *r, const product *p, int n_rounds)
{
    ig__team *team = ig__team_create(&alloc, r->n_threads);
    if (!team || !is_right(r, team, *p)) {
        fprintf(stderr, "ladder: %s: no threads, or a wrong result\n", r->name);
        exit(1);
    }
    static double ns[MAX_ROUNDS], share[MAX_ROUNDS];
    const double ops = 2.0 * (double)p->m * (double)p->n * (double)p->k;
    for (int i = 0; i < n_rounds; i++) {
        const int64_t begin = ig__now_ns();
        run_rung(r, team, p);
        ns[i] = (double)(ig__now_ns() - begin);
        share[i] = ops / ns[i] / peak_once(team, r->n_threads);
    }
    qsort(ns, (size_t)n_rounds, sizeof *ns, by_value);
    qsort(share, (size_t)n_rounds, sizeof *share, by_value);
    printf(
        "{\"bench\":\"ladder\",\"rung\":\"%s\",\"isa\":\"%s\",\"threads\":%d,\"m\":%" PRId64
        ",\"n\":%" PRId64 ",\"k\":%" PRId64 ",\"ns\":%.0f,\"gflop_s\":%.2f,"
        "\"share_of_peak\":%.4f}\n",
        r->name, r->kernels ? r->kernels->isa : "-", r->n_threads, p->m, p->n, p->k,
        ns[n_rounds / 2], ops / ns[n_rounds / 2], share[n_rounds / 2]);
    fflush(stdout);
    ig__team_destroy(team);
}

static float *new_values(int64_t n)
{
    float *x = ig__alloc_huge(&alloc, (size_t)n * sizeof(float));
    if (!x)
        exit(1);
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)(i * 7919 % 2003 - 1001) * 1e-3f;
    return x;
}

int main(int argc, char **argv)
{
    int64_t size[3] = {1024, 1024, 1024};
    for (int i = 0; i < 3 && i + 1 < argc; i++)
        size[i] = atoll(argv[i + 1]);
    const int n_rounds = argc > 4 ? atoi(argv[4]) : 5;
    alloc = ig__allocator_default();
    const int64_t m = size[0], n = size[1], k = size[2];
    if (m < 1 || n < 1 || k < 1 || m > 8192 || n > 8192 || k > 8192 || n_rounds < 1 ||
        n_rounds > MAX_ROUNDS) {
        fprintf(stderr, "ladder: sizes are 1 to 8192, rounds 1 to %d\n", MAX_ROUNDS);
        return 1;
    }
    float *a = new_values(m * k), *b = new_values(k * n), *c = new_values(m * n);
    const product p = {
        m, n, k, a, b, c, new_values(LADDER_ROOM(m, n, k) + (n + m + 64) * 256)};
    const ig__kernels *tables[4];
    const int n_tables = ig__kernels_available(tables);
    const rung plain[] = {{"naive", rung_naive, NULL, 1},
                          {"order", rung_order, NULL, 1},
                          {"tile", rung_tile, NULL, 1},
                          {"blocked", rung_blocked, NULL, 1},
                          {"packed", rung_packed, NULL, 1}};
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        time_rung(&plain[i], &p, n_rounds);
#ifdef LADDER_VECTOR
    if (ig__kernels_pick("avx2"))
        time_rung(&(rung){"vector", rung_vector, NULL, 1}, &p, n_rounds);
#endif
    for (int i = 1; i < n_tables && i < 3; i++) /* amx has the f32 products of avx512 */
        time_rung(&(rung){"library", NULL, tables[i], 1}, &p, n_rounds);
    time_rung(&(rung){"threads", NULL, tables[n_tables - 1], 2}, &p, n_rounds);
    ig__free(&alloc, p.room);
    ig__free(&alloc, c);
    ig__free(&alloc, b);
    ig__free(&alloc, a);
    return 0;
}
