/* Training steps of whole models against their own limit: one JSON line a model.
 *
 *   bench_step [MODEL] [--dtype f32|bf16|f16] [--captured 0|1] [-t THREADS] [--steps N] [--profile]
 *              [--isa NAME] [--serve]
 *
 *   MODEL     gpt2, gpt, lstm, cnn, mlp or attention (step_models.c); all without it
 *   --steps   timed; 10, or as many as two seconds hold, without it
 *   --profile a second line: where the time of an eager step goes, by operator
 *   --serve   answers each number on standard input with the times of that many steps
 *
 * A step is forward, backward and AdamW over all parameters, on the same batch. THE LIMIT of a step is
 * its products at the peak of FMA plus its bytes at the bandwidth of a streaming read, both measured in
 * the same run, after the steps. Bytes that must move are those of the parameters: weights are read
 * forward and backward, gradients written and read, weight and both moments read and written:
 * 40 a parameter. What lies between layers is not counted, nor that a small model stays in
 * the caches: `share` can pass 1 there.
 *
 * In a profile, overhead is the number of calls times what a call on one element takes.
 */
#include "base/clock.h"
#include "op/op.h"
#include "step_models.h"
#include "tensor/capture.h"
#include "tensor/context.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_STEPS = 1000, WARM_STEPS = 3, BYTES_A_PARAM = 40 };

typedef struct options {
    const char *model, *isa;
    int threads, steps;
    ig_dtype dtype; /* f32, or what ig_autocast takes */
    bool captured, profile, serve;
} options;

typedef struct bench {
    step_model m;
    ig_optimizer *opt;
    ig_program *program;
    ig_dtype dtype;
    int64_t n_params; /* elements */
} bench;

/* ---- a step ----------------------------------------------------------------------------------------- */

static void step_eager(bench *b)
{
    ig_scope *scope = ig_scope_begin(b->m.ctx);
    ig_optimizer_clear_grads(b->opt);
    const ig_dtype was = ig_autocast(b->m.ctx, b->dtype);
    ig_tensor *y = b->m.row->loss(&b->m);
    ig_autocast(b->m.ctx, was);
    if (b->m.dy) {
        ig_backward_all(&y, &b->m.dy, 1, NULL);
    } else {
        ig_backward(y);
        ig_optimizer_step(b->opt);
    }
    ig_scope_end(scope);
}

static ig_status step(bench *b, ig_error *err)
{
    if (b->program)
        return ig_program_run(b->program, err);
    step_eager(b);
    if (ig_context_status(b->m.ctx) != IG_OK)
        snprintf(err->message, sizeof err->message, "%s", ig_context_message(b->m.ctx));
    return ig_context_status(b->m.ctx);
}

static ig_status set_up(bench *b, const options *o, const step_row *row, ig_context *ctx,
                        ig_error *err)
{
    ig_status status = step_model_init(&b->m, row, ctx, err);
    const ig_optimizer_opts adamw = ig_optimizer_defaults(IG_RULE_ADAMW);
    if (status == IG_OK)
        status = ig_optimizer_create(&b->opt, ctx, &adamw, err);
    for (int64_t i = 0; status == IG_OK && i < ig_params_count(b->m.params); i++) {
        ig_tensor *p = ig_params_tensor(b->m.params, i);
        status = ig_optimizer_add(b->opt, &p, NULL, 1, NULL, err);
    }
    b->dtype = o->dtype;
    b->n_params = ig_params_elements(b->m.params);
    if (status != IG_OK || !o->captured)
        return status;
    status = ig_capture_begin(ctx, err);
    if (status != IG_OK)
        return status;
    step_eager(b);
    return ig_capture_end(&b->program, ctx, err);
}

static void tear_down(bench *b)
{
    ig_program_destroy(b->program);
    ig_optimizer_destroy(b->opt);
    step_model_fini(&b->m);
}

/* ---- the profile: a recording that only looks at the clock --------------------------------------------- */

typedef enum part { PART_PRODUCTS, PART_ROWS, PART_OPTIMISER, N_PARTS } part;
static const char *const part_names[N_PARTS] = {"products", "rows", "optimiser"};

enum { MAX_OPS = 128, SHOWN_OPS = 12 };
typedef struct op_time {
    const ig__op *op;
    double ns;
    int64_t n;
} op_time;

typedef struct profile {
    ig__capture capture; /* first: the calls get a pointer to it */
    op_time ops[MAX_OPS];
    int n_ops;
    int64_t last_ns, n_calls;
} profile;

static bool on_call(ig__capture *c, const ig__op *op, const ig__eval *e,
                    ig_tensor *const *in, ig_tensor *const *out, bool into)
{
    (void)e, (void)in, (void)out, (void)into;
    profile *p = (profile *)(void *)c;
    int i = 0;
    while (i < p->n_ops && p->ops[i].op != op)
        i++;
    if (i == p->n_ops && p->n_ops < MAX_OPS)
        p->ops[p->n_ops++] = (op_time){.op = op};
    const int64_t now = ig__now_ns();
    if (i < p->n_ops) {
        p->ops[i].ns += (double)(now - p->last_ns);
        p->ops[i].n++;
    }
    p->n_calls++;
    p->last_ns = ig__now_ns();
    return true;
}

static bool on_constant(ig__capture *c, const ig_tensor *x)
{
    (void)c, (void)x;
    return true;
}

static bool on_drop(ig__capture *c, ig__storage *s)
{
    (void)c, (void)s;
    return false;
}

/* Copies in 16 bits are made as calls, and looked at. */
static bool on_state(ig__capture *c, const ig_tensor *x)
{
    (void)c, (void)x;
    return false;
}

static bool on_copy(ig__capture *c, ig_tensor *x)
{
    (void)c, (void)x;
    return true;
}

static void on_cancel(ig__capture *c)
{
    (void)c;
}

static part part_of(const char *name)
{
    static const char *const products[] = {"matmul", "linear", "conv", "attention",
                                           "recurrent"};
    static const char *const optimiser[] = {"update", "step_control", "square_sum"};
    for (size_t i = 0; i < sizeof products / sizeof *products; i++)
        if (strstr(name, products[i]))
            return PART_PRODUCTS;
    for (size_t i = 0; i < sizeof optimiser / sizeof *optimiser; i++)
        if (strstr(name, optimiser[i]))
            return PART_OPTIMISER;
    return PART_ROWS;
}

static int by_time(const void *a, const void *b)
{
    const double x = ((const op_time *)a)->ns, y = ((const op_time *)b)->ns;
    return (x < y) - (x > y);
}

/* ns of a call of an operator on one element, its gradient recorded. */
static double call_ns(ig_context *ctx)
{
    enum { CALLS = 20000 };
    ig_scope *scope = ig_scope_begin(ctx);
    ig_tensor *one =
        ig_tensor_require_grad(ig_full(ctx, IG_DTYPE_F32, IG_SHAPE(1), 1), true);
    const int64_t begun = ig__now_ns();
    for (int i = 0; i < CALLS; i++)
        ig_tensor_release(ig_add(one, one));
    const double ns = (double)(ig__now_ns() - begun) / CALLS;
    ig_scope_end(scope);
    return ns;
}

static void show_profile(bench *b, int n_steps)
{
    static profile p; /* large */
    p = (profile){.capture = {on_call, on_constant, on_drop, on_state, on_copy, on_cancel}};
    const double each = call_ns(b->m.ctx);
    double whole = 0;
    for (int i = 0; i < n_steps; i++) {
        b->m.ctx->capture = &p.capture;
        const int64_t begun = p.last_ns = ig__now_ns();
        step_eager(b);
        whole += (double)(ig__now_ns() - begun);
        b->m.ctx->capture = NULL;
    }
    double parts[N_PARTS] = {0};
    for (int i = 0; i < p.n_ops; i++)
        parts[part_of(p.ops[i].op->name)] += p.ops[i].ns - each * (double)p.ops[i].n;
    printf("{\"bench\":\"step_profile\",\"model\":\"%s\",\"ms\":%.3f,\"calls\":%" PRId64,
           b->m.row->name, whole / n_steps / 1e6, p.n_calls / n_steps);
    for (int i = 0; i < N_PARTS; i++)
        printf(",\"%s_ms\":%.3f", part_names[i], parts[i] / n_steps / 1e6);
    printf(",\"overhead_ms\":%.3f,\"ops\":{", each * (double)p.n_calls / n_steps / 1e6);
    qsort(p.ops, (size_t)p.n_ops, sizeof *p.ops, by_time);
    for (int i = 0; i < p.n_ops && i < SHOWN_OPS; i++)
        printf("%s\"%s\":[%.3f,%" PRId64 "]", i ? "," : "", p.ops[i].op->name,
               p.ops[i].ns / n_steps / 1e6, p.ops[i].n / n_steps);
    printf("}}\n");
}

/* ---- timing -------------------------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* What this process held at most; not ru_maxrss, which counts what its parent held too. */
static double process_peak_bytes(void)
{
    char line[128];
    double kib = 0;
    FILE *f = fopen("/proc/self/status", "r");
    if (!f)
        return 0;
    while (fgets(line, sizeof line, f))
        if (!strncmp(line, "VmHWM:", 6))
            kib = strtod(line + 6, NULL);
    fclose(f);
    return kib * 1024;
}

/* Times of n steps, in ms. */
static ig_status time_steps(double *ms, bench *b, int n, ig_error *err)
{
    for (int i = 0; i < n; i++) {
        const int64_t begun = ig__now_ns();
        const ig_status status = step(b, err);
        if (status != IG_OK)
            return status;
        ms[i] = (double)(ig__now_ns() - begun) / 1e6;
    }
    return IG_OK;
}

static void show(const bench *b, const options *o, const double *ms, int n)
{
    const double mib = 1 << 20, peak_bytes = process_peak_bytes();
    const ig_memory_stats memory = ig_context_memory(b->m.ctx);
    ig_machine machine = {0};
    ig_error error;
    if (ig_machine_measure(&machine, b->m.ctx, 1, NULL, &error) != IG_OK)
        fprintf(stderr, "bench_step: %s\n", error.message);
    const double flops = b->m.row->flops();
    const double bytes = (double)(b->m.dy ? 28 : BYTES_A_PARAM) * (double)b->n_params;
    const double ops_s = o->dtype == IG_DTYPE_BF16 ? machine.bf16_ops_s : machine.f32_ops_s;
    const double product_ms = ops_s > 0 ? flops / ops_s * 1e3 : 0;
    const double bytes_ms =
        machine.read_bytes_s > 0 ? bytes / machine.read_bytes_s * 1e3 : 0;
    const double median = ms[n / 2], limit = product_ms + bytes_ms;
    printf("{\"bench\":\"step\",\"model\":\"%s\",\"what\":\"%s\",\"dtype\":\"%s\","
           "\"captured\":%d,\"threads\":%d,\"isa\":\"%s\",\"params\":%" PRId64
           ",\"steps\":%d,\"ms\":%.4f,\"least_ms\":%.4f,\"spread\":%.3f,\"%s_s\":%.1f",
           b->m.row->name, b->m.row->what, ig_dtype_name(o->dtype), o->captured,
           ig_context_threads(b->m.ctx), ig_context_isa(b->m.ctx), b->n_params, n, median,
           ms[0], (ms[n - 1] - ms[0]) / median, b->m.row->unit,
           (double)b->m.row->n_units / median * 1e3);
    printf(",\"gflop\":%.4f,\"peak_gflop_s\":%.1f,\"mb\":%.2f,\"read_gb_s\":%.2f,"
           "\"product_limit_ms\":%.4f,\"bytes_limit_ms\":%.4f,\"limit_ms\":%.4f,"
           "\"share\":%.3f,\"tensors_peak_mib\":%.1f,\"reserved_peak_mib\":%.1f,"
           "\"process_peak_mib\":%.1f}\n",
           flops / 1e9, ops_s / 1e9, bytes / 1e6, machine.read_bytes_s / 1e9, product_ms,
           bytes_ms, limit, limit / median, (double)memory.peak_live_bytes / mib,
           (double)memory.peak_reserved_bytes / mib, peak_bytes / mib);
    fflush(stdout);
}

static ig_status run_once(bench *b, const options *o, ig_error *err)
{
    static double ms[MAX_STEPS];
    ig_status status = time_steps(ms, b, WARM_STEPS, err);
    if (status != IG_OK)
        return status;
    int n = o->steps;
    if (!n) {
        n = (int)(2000 / ms[WARM_STEPS - 1]);
        n = n < 10 ? 10 : n > MAX_STEPS ? MAX_STEPS : n;
    }
    status = time_steps(ms, b, n, err);
    if (status != IG_OK)
        return status;
    qsort(ms, (size_t)n, sizeof *ms, by_value);
    show(b, o, ms, n);
    if (o->profile)
        show_profile(b, n < 20 ? n : 20);
    return ig_context_status(b->m.ctx);
}

/* A line with a number n: n steps are timed. {"ms":[..],"process_peak_mib":..} is the answer. */
static ig_status serve(bench *b, ig_error *err)
{
    static double ms[MAX_STEPS];
    char line[32];
    printf("{\"ready\":\"%s\"}\n", b->m.row->name);
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        long n = strtol(line, NULL, 10);
        n = n < 1 ? 1 : n > MAX_STEPS ? MAX_STEPS : n;
        const ig_status status = time_steps(ms, b, (int)n, err);
        if (status != IG_OK)
            return status;
        printf("{\"ms\":[");
        for (long i = 0; i < n; i++)
            printf("%s%.4f", i ? "," : "", ms[i]);
        printf("],\"process_peak_mib\":%.1f}\n", process_peak_bytes() / (1 << 20));
        fflush(stdout);
    }
    return IG_OK;
}

static ig_status run_model(const options *o, const step_row *row, ig_error *err)
{
    ig_context *ctx;
    bench b = {0};
    const ig_context_opts opts = {.n_threads = o->threads, .isa = o->isa};
    ig_status status = ig_context_create(&ctx, &opts, err);
    if (status != IG_OK)
        return status;
    status = set_up(&b, o, row, ctx, err);
    if (status == IG_OK)
        status = o->serve ? serve(&b, err) : run_once(&b, o, err);
    if (status != IG_OK && ig_context_status(ctx) != IG_OK)
        snprintf(err->message, sizeof err->message, "%s", ig_context_message(ctx));
    tear_down(&b);
    ig_context_destroy(ctx);
    return status;
}

/* ---- options --------------------------------------------------------------------------------------------- */

static bool read_options(options *o, int argc, char **argv)
{
    *o = (options){.threads = 2};
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (argv[i][0] != '-' && !o->model)
            o->model = argv[i];
        else if (!strcmp(argv[i], "--profile"))
            o->profile = true;
        else if (!strcmp(argv[i], "--serve"))
            o->serve = true;
        else if (!value)
            return false;
        else if (!strcmp(argv[i], "--captured"))
            o->captured = strtol(value, NULL, 10) != 0, i++;
        else if (!strcmp(argv[i], "--dtype"))
            o->dtype = !strcmp(value, "bf16")  ? IG_DTYPE_BF16
                       : !strcmp(value, "f16") ? IG_DTYPE_F16
                                               : IG_DTYPE_F32,
            i++;
        else if (!strcmp(argv[i], "--isa"))
            o->isa = value, i++;
        else if (!strcmp(argv[i], "-t"))
            o->threads = (int)strtol(value, NULL, 10), i++;
        else if (!strcmp(argv[i], "--steps"))
            o->steps = (int)strtol(value, NULL, 10), i++;
        else
            return false;
    }
    return o->steps >= 0 && o->steps <= MAX_STEPS && (!o->model || step_find(o->model)) &&
           (o->model || !o->serve);
}

int main(int argc, char **argv)
{
    options o;
    if (!read_options(&o, argc, argv)) {
        fprintf(stderr, "bench_step [gpt2|gpt|lstm|cnn|mlp|attention] [--dtype "
                        "f32|bf16|f16] [--captured 0|1] "
                        "[-t THREADS] [--steps N] [--profile] [--isa NAME] [--serve]\n");
        return 2;
    }
    for (const step_row *row = step_rows; row->name; row++) {
        ig_error error = {.message = ""};
        if (o.model && strcmp(o.model, row->name))
            continue;
        if (run_model(&o, row, &error) != IG_OK) {
            fprintf(stderr, "bench_step: %s: %s\n", row->name, error.message);
            return 1;
        }
    }
    return 0;
}
