/* Dense products by a team of threads: one JSON line a case.
 *
 *   bench_matmul [options]
 *     --threads N      2
 *     --isa NAME       the best here
 *     --types LIST     f32,bf16 (of A and B; also f16, f64); sums and C are f32 or f64
 *     --shapes LIST    MxNxK[:tt], t: t or n for A and B each (transposed, as it lies), comma between
 *     --seconds S      for each case, 0.3
 *     --layout nn      of shapes that name none
 *     --serve 1        cases come from standard input, a line of JSON each (compare_gemm.py)
 *
 * `ns` is the median over rounds, `spread` (largest - least) / median. The share is of the
 * peak loop of the unit that the type computes in, run by the same team between the rounds
 * (the median of the ratios).
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/team.h"
#include "kernel/matmul.h"

#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ROUNDS = 1000, WARM_UP = 3, PEAK_ROUNDS = 100000 };
static const int64_t WARM_UP_NS = 20000000;

typedef struct bench {
    ig_allocator alloc;
    const ig__kernels *kernels;
    ig__team *team;
    int n_threads;
    double seconds;
} bench;

typedef struct run {
    const bench *b;
    const ig__mm_plan *plan;
    const ig__mm_data *data;
    char *scratch; /* [threads][stride] */
    size_t stride;
    ig__share share;
    ig__peak_fn *peak;
    int64_t n_rounds;
    double ops[IG_SHARE_MAX_THREADS];
} run;

/* Each member on a core of its own: a team that wakes on one core stays there for a while. */
static void pin_job(void *arg, int i_thread, int n_threads)
{
    (void)n_threads;
    const cpu_set_t *allowed = arg;
    int left = i_thread;
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, allowed) && left-- == 0) {
            cpu_set_t one;
            CPU_ZERO(&one);
            CPU_SET(i, &one);
            sched_setaffinity(0, sizeof one, &one);
        }
}

static void product_job(void *arg, int i_thread, int n_threads)
{
    run *r = arg;
    if (r->b->kernels->thread_init)
        r->b->kernels->thread_init();
    ig__mm_walk walk;
    ig__mm_walk_begin(&walk, r->plan, r->data, r->scratch + (size_t)i_thread * r->stride);
    int cursor = i_thread;
    for (int64_t i; (i = ig__share_next(&r->share, &cursor, i_thread, n_threads)) >= 0;)
        ig__mm_walk_run(&walk, i, i + 1);
}

static void peak_job(void *arg, int i_thread, int n_threads)
{
    (void)n_threads;
    run *r = arg;
    r->ops[i_thread] = r->peak(r->n_rounds);
}

/* Operations a second of the team, a round of a millisecond or less. */
static double peak_once(const bench *b, run *r)
{
    const int64_t begin = ig__now_ns();
    ig__team_run(b->team, peak_job, r);
    const double ns = (double)(ig__now_ns() - begin);
    double ops = 0.0;
    for (int j = 0; j < b->n_threads; j++)
        ops += r->ops[j];
    return ops * 1e9 / ns;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static const char *const type_names[IG__MM_TYPES] = {"f32", "f64", "bf16", "f16"};
static const size_t type_bytes[IG__MM_TYPES] = {4, 8, 2, 2};

static void *new_values(const bench *b, int64_t n, ig__mm_type type)
{
    char *x = ig__alloc_huge(&b->alloc, (size_t)n * type_bytes[type]);
    for (int64_t i = 0; x && i < n; i++) {
        const float value = (float)(i * 7919 % 2003 - 1001) * 1e-3f;
        const uint16_t half =
            type == IG__MM_F16 ? ig__f32_to_f16(value) : ig__f32_to_bf16(value);
        if (type == IG__MM_F64)
            ((double *)(void *)x)[i] = (double)value;
        else if (type == IG__MM_F32)
            ((float *)(void *)x)[i] = value;
        else
            ((uint16_t *)(void *)x)[i] = half;
    }
    return x;
}

static ig__mm_layout layout_of(ig__mm_type type, bool is_transposed, int64_t rows,
                               int64_t columns)
{
    return (ig__mm_layout){
        .type = type, .row = is_transposed ? 1 : columns, .col = is_transposed ? rows : 1};
}

/* The loop that measures the unit that the type computes in (f64: half of f32's). */
static ig__peak_fn *peak_of(const bench *b, ig__mm_type type)
{
    const bool is_pairs = type == IG__MM_BF16 && b->kernels->matmul[IG__MM_BF16];
    return is_pairs ? b->kernels->peak_bf16 : b->kernels->peak_f32;
}

/* Rounds of one product, each beside a round of the peak loop, since the clock moves. Returns how many;
 * their times and shares of the peak, sorted. */
static int time_rounds(const bench *b, run *r, double ns[MAX_ROUNDS],
                       double share[MAX_ROUNDS])
{
    int n = 0;
    const double ops = 2.0 * (double)r->plan->problem.m * (double)r->plan->problem.n *
                       (double)r->plan->problem.k;
    const int64_t start = ig__now_ns() + WARM_UP_NS;
    const int64_t until = start + (int64_t)(b->seconds * 1e9);
    for (int i = 0; n < MAX_ROUNDS && (n < 5 || ig__now_ns() < until); i++) {
        const int64_t begin = ig__now_ns();
        ig__share_reset(&r->share, r->plan->n_pieces, b->n_threads);
        ig__team_run(b->team, product_job, r);
        const double took = (double)(ig__now_ns() - begin);
        if (i < WARM_UP || begin < start)
            continue;
        ns[n] = took;
        share[n++] = r->peak ? ops * 1e9 / took / peak_once(b, r) : 0.0;
    }
    qsort(ns, (size_t)n, sizeof *ns, by_value);
    qsort(share, (size_t)n, sizeof *share, by_value);
    return n;
}

static bool run_case(const bench *b, ig__mm_type type, const int64_t mnk[3],
                     const char *order)
{
    const int64_t m = mnk[0], n = mnk[1], k = mnk[2];
    const ig__mm_type out = type == IG__MM_F64 ? IG__MM_F64 : IG__MM_F32;
    const ig__mm_problem p = {
        .m = m,
        .n = n,
        .k = k,
        .n_batch = {1, 1},
        .a = layout_of(type, order[0] == 't', m, k),
        .b = layout_of(type, order[1] == 't', k, n),
        .c = layout_of(out, false, m, n),
        .alpha = 1.0,
    };
    const ig__mm_plan plan = ig__mm_plan_make(b->kernels, &p, b->n_threads);
    static run r;
    r = (run){.b = b,
              .plan = &plan,
              .stride = plan.scratch_bytes + 4096,
              .peak = peak_of(b, type),
              .n_rounds = PEAK_ROUNDS};
    const ig__mm_data data = {.a = new_values(b, m * k, type),
                              .b = new_values(b, k * n, type),
                              .c = new_values(b, m * n, out),
                              .shared = ig__alloc_huge(&b->alloc, plan.shared_bytes + 64),
                              .states =
                                  ig__alloc_zero(&b->alloc, (size_t)plan.n_states + 1)};
    r.data = &data;
    r.scratch = ig__alloc_huge(&b->alloc, r.stride * (size_t)b->n_threads);
    static double ns[MAX_ROUNDS], shares[MAX_ROUNDS];
    const bool is_ok =
        data.a && data.b && data.c && data.shared && data.states && r.scratch;
    if (is_ok) {
        const int n_rounds = time_rounds(b, &r, ns, shares);
        const double median = ns[n_rounds / 2];
        const double ops = 2.0 * (double)m * (double)n * (double)k;
        printf("{\"bench\":\"matmul\",\"isa\":\"%s\",\"type\":\"%s\",\"m\":%" PRId64
               ",\"n\":%" PRId64 ",\"k\":%" PRId64 ",\"order\":\"%.2s\",\"threads\":%d,"
               "\"ns\":%.0f,\"least_ns\":%.0f,\"spread\":%.3f,\"gflop_s\":%.1f",
               b->kernels->isa, type_names[type], m, n, k, order, b->n_threads, median,
               ns[0], (ns[n_rounds - 1] - ns[0]) / median, ops / median);
        if (r.peak)
            printf(",\"share_of_peak\":%.3f",
                   shares[n_rounds / 2] * (type == IG__MM_F64 ? 2.0 : 1.0));
        printf("}\n");
        fflush(stdout);
    }
    ig__free(&b->alloc, r.scratch);
    ig__free(&b->alloc, data.states);
    ig__free(&b->alloc, data.shared);
    ig__free(&b->alloc, data.c);
    ig__free(&b->alloc, (void *)(uintptr_t)data.b);
    ig__free(&b->alloc, (void *)(uintptr_t)data.a);
    return is_ok;
}

/* "MxNxK" or "MxNxK:tn", comma between. */
static bool run_shapes(const bench *b, ig__mm_type type, const char *shapes,
                       const char *layout)
{
    for (const char *s = shapes; *s;) {
        int64_t mnk[3];
        char *end = NULL;
        for (int i = 0; i < 3; i++, s = end) {
            mnk[i] = strtoll(s, &end, 10);
            if (end == s || mnk[i] < 1 || mnk[i] > 1 << 20)
                return false;
            end += *end == 'x';
        }
        const char *order = *s == ':' ? s + 1 : layout;
        if (!run_case(b, type, mnk, order))
            return false;
        s += *s == ':' ? 3 : 0;
        s += *s == ',';
    }
    return true;
}

/* The number that follows "name": in a line of JSON. */
static double field_of(const char *line, const char *name)
{
    char key[16];
    snprintf(key, sizeof key, "\"%s\": ", name);
    const char *at = strstr(line, key);
    return at ? strtod(at + strlen(key), NULL) : 0.0;
}

/* {"type": "f32", "m": 1, "n": 1, "k": 1, "order": "nn", "seconds": 0.05}, a line each. */
static void serve(bench *b)
{
    char line[256];
    printf("{\"ready\":\"ingot\"}\n");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        const int64_t mnk[3] = {(int64_t)field_of(line, "m"), (int64_t)field_of(line, "n"),
                                (int64_t)field_of(line, "k")};
        const char *order = strstr(line, "\"order\": \"");
        b->seconds = field_of(line, "seconds");
        for (ig__mm_type type = 0; type < IG__MM_TYPES && order; type++) {
            char name[8];
            snprintf(name, sizeof name, "\"%s\"", type_names[type]);
            if (!strstr(line, name))
                continue;
            if (!run_case(b, type, mnk, order + strlen("\"order\": \"")))
                printf("{\"ns\":null}\n");
            fflush(stdout);
        }
    }
}

int main(int argc, char **argv)
{
    bench b = {.alloc = ig__allocator_default(), .n_threads = 2, .seconds = 0.3};
    bool is_serving = false;
    const char *isa = NULL, *types = "f32,bf16", *layout = "nn";
    const char *shapes =
        "256x256x256,1024x1024x1024,2048x2048x2048,256x3072x768,64x768x768,"
        "64x64x10,64x10x64,32x64x64,1x768x768,768x1x768";
    for (int i = 1; i + 1 < argc; i += 2) {
        const char *value = argv[i + 1];
        if (strcmp(argv[i], "--threads") == 0)
            b.n_threads = atoi(value);
        else if (strcmp(argv[i], "--isa") == 0)
            isa = value;
        else if (strcmp(argv[i], "--types") == 0)
            types = value;
        else if (strcmp(argv[i], "--shapes") == 0)
            shapes = value;
        else if (strcmp(argv[i], "--layout") == 0)
            layout = value;
        else if (strcmp(argv[i], "--serve") == 0)
            is_serving = true;
        else if (strcmp(argv[i], "--seconds") == 0)
            b.seconds = atof(value);
    }
    b.kernels = ig__kernels_pick(isa);
    if (!b.kernels || b.n_threads < 1 || b.n_threads > IG_SHARE_MAX_THREADS ||
        !(b.team = ig__team_create(&b.alloc, b.n_threads))) {
        fprintf(stderr, "bench_matmul: no such instruction set or number of threads\n");
        return 1;
    }
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) == 0)
        ig__team_run(b.team, pin_job, &allowed);
    int status = 0;
    if (is_serving) {
        serve(&b);
        types = "";
    }
    for (ig__mm_type type = 0; type < IG__MM_TYPES && status == 0; type++) {
        const char *found = strstr(types, type_names[type]);
        const bool is_whole =
            found && (type != IG__MM_F16 || found == types || found[-1] == ',');
        if (is_whole && !run_shapes(&b, type, shapes, layout)) {
            fprintf(stderr, "bench_matmul: bad shapes, or no memory\n");
            status = 1;
        }
    }
    ig__team_destroy(b.team);
    return status;
}
