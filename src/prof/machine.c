/* Measuring the limits: read bandwidth, the dot-product units, the barrier.
 *
 * Each figure is the best of many short rounds within its part of the time. A round is one
 * job of the team:
 *
 *     barrier | every member works | barrier
 *             ^ member 0's clock   ^ and again
 *
 * so that the slowest member counts. A round that is cancelled is cut after a piece of a few
 * hundred microseconds, and does not count. The buffer that is streamed is far larger than the
 * caches together; each member touches its own part first, which places it in its memory.
 */
#include "ingot/machine.h"

#include "base/clock.h"
#include "base/error.h"
#include "tensor/context.h"

#include <string.h>

enum { READ_PIECE = 4096, BARRIERS = 256, ROUND_NS = 3000000 };
static const size_t cut_bytes = (size_t)2 << 20; /* between two looks at `cancelled` */

static const size_t stream_bytes = (size_t)1 << 30, stream_least = (size_t)1 << 26;

typedef struct measure {
    ig_context *ctx;
    const volatile int *cancelled; /* may be NULL */
    char *bytes;                   /* [n_bytes] */
    size_t n_bytes;
    ig__peak_fn *peak;
    int64_t n_rounds;         /* of the peak loop */
    int64_t begin_ns, end_ns; /* member 0 writes them */
    struct {
        _Alignas(64) double ops; /* of one member in one round */
        uint64_t sum;            /* keeps the reads from being dropped */
    } member[IG_SHARE_MAX_THREADS];
} measure;

static bool is_cancelled(const measure *m)
{
    return m->cancelled && __atomic_load_n(m->cancelled, __ATOMIC_RELAXED);
}

static void clock_in(measure *m, int i_thread)
{
    ig__team_barrier(m->ctx->team);
    if (i_thread == 0)
        m->begin_ns = ig__now_ns();
}

static void clock_out(measure *m, int i_thread)
{
    ig__team_barrier(m->ctx->team);
    if (i_thread == 0)
        m->end_ns = ig__now_ns();
}

/* The pieces of member i: [*begin, *begin + size). */
static size_t part_of(const measure *m, size_t *begin, int i, int n)
{
    const size_t pieces = m->n_bytes / READ_PIECE;
    *begin = pieces * (size_t)i / (size_t)n * READ_PIECE;
    return pieces * (size_t)(i + 1) / (size_t)n * READ_PIECE - *begin;
}

static size_t cut(size_t bytes)
{
    return bytes < cut_bytes ? bytes : cut_bytes;
}

static void touch_job(void *arg, int i_thread, int n_threads)
{
    measure *m = arg;
    size_t begin;
    const size_t size = part_of(m, &begin, i_thread, n_threads);
    for (size_t at = 0; at < size && !is_cancelled(m); at += cut_bytes)
        memset(m->bytes + begin + at, i_thread + 1, cut(size - at));
}

static void read_job(void *arg, int i_thread, int n_threads)
{
    measure *m = arg;
    size_t begin;
    const size_t size = part_of(m, &begin, i_thread, n_threads);
    clock_in(m, i_thread);
    for (size_t at = 0; at < size && !is_cancelled(m); at += cut_bytes)
        m->member[i_thread].sum +=
            m->ctx->kernels->stream_read(m->bytes + begin + at, cut(size - at));
    clock_out(m, i_thread);
}

static void peak_job(void *arg, int i_thread, int n_threads)
{
    (void)n_threads;
    measure *m = arg;
    clock_in(m, i_thread);
    m->member[i_thread].ops = m->peak(m->n_rounds);
    clock_out(m, i_thread);
}

static void barrier_job(void *arg, int i_thread, int n_threads)
{
    (void)n_threads;
    measure *m = arg;
    clock_in(m, i_thread);
    for (int i = 1; i < BARRIERS; i++)
        ig__team_barrier(m->ctx->team);
    clock_out(m, i_thread);
}

static double round_s(measure *m, ig__job *job)
{
    ig__team_run(m->ctx->team, job, m);
    const int64_t ns = m->end_ns - m->begin_ns;
    return (double)(ns > 0 ? ns : 1) / 1e9;
}

static double best_s(measure *m, ig__job *job, double seconds)
{
    const int64_t until = ig__now_ns() + (int64_t)(seconds * 1e9);
    double best = round_s(m, job);
    while (ig__now_ns() < until && !is_cancelled(m)) {
        const double s = round_s(m, job);
        best = s < best ? s : best;
    }
    return best;
}

static ig_status measure_read(measure *m, ig_machine *machine, double seconds,
                              ig_error *err)
{
    const ig_allocator *a = &m->ctx->allocator;
    for (m->n_bytes = stream_bytes; !m->bytes && m->n_bytes >= stream_least;)
        if (!(m->bytes = ig__alloc_huge(a, m->n_bytes)))
            m->n_bytes /= 2;
    if (!m->bytes)
        return ig__fail_memory(err, "machine", stream_least);
    ig__team_run(m->ctx->team, touch_job, m);
    machine->read_bytes_s = (double)m->n_bytes / best_s(m, read_job, seconds);
    ig__free(a, m->bytes);
    m->bytes = NULL;
    return IG_OK;
}

/* Operations a second of all members together; 0: the table has no such unit. */
static double measure_peak(measure *m, ig__peak_fn *peak, double seconds)
{
    if (!peak)
        return 0;
    m->peak = peak;
    m->n_rounds = 256;
    while (!is_cancelled(m) && round_s(m, peak_job) * 1e9 < ROUND_NS &&
           m->n_rounds < INT64_C(1) << 40)
        m->n_rounds *= 2;
    const double s = best_s(m, peak_job, seconds);
    double ops = 0;
    for (int i = 0; i < ig__team_size(m->ctx->team); i++)
        ops += m->member[i].ops;
    return ops / s;
}

ig_status ig_machine_measure(ig_machine *machine_out, ig_context *ctx, double seconds,
                             const volatile int *cancelled, ig_error *err)
{
    *machine_out = (ig_machine){0};
    if (!(seconds > 0 && seconds <= 3600))
        return ig__fail(err, IG_ERR_ARGUMENT,
                        "machine: seconds is %g, wanted is more than 0, at most 3600",
                        seconds);
    const ig__kernels *k = ctx->kernels;
    if (!k->stream_read)
        return ig__fail(err, IG_ERR_UNSUPPORTED, "machine: '%s' has no streaming read",
                        k->isa);
    measure *m = ig__alloc_zero(&ctx->allocator, sizeof *m);
    if (!m)
        return ig__fail_memory(err, "machine", sizeof *m);
    m->ctx = ctx;
    m->cancelled = cancelled;
    ig_machine machine = {0};
    ig_status status = measure_read(m, &machine, seconds * 0.5, err);
    if (status == IG_OK) {
        machine.int8_ops_s = measure_peak(m, k->peak_int8, seconds * 0.14);
        machine.bf16_ops_s = measure_peak(m, k->peak_bf16, seconds * 0.14);
        machine.f32_ops_s = measure_peak(m, k->peak_f32, seconds * 0.14);
        machine.barrier_ns = best_s(m, barrier_job, seconds * 0.08) * 1e9 / BARRIERS;
        if (is_cancelled(m))
            status = ig__fail(err, IG_ERR_CANCELLED, "machine: cancelled");
        else
            *machine_out = machine;
    }
    ig__free(&ctx->allocator, m);
    return status;
}
