/* The products of every table, alone on one thread: one JSON line a case.
 *
 *   bench_gemm [K [isa [type]]]      K: 1536; isa, type: all
 *
 * Activations are in the format that the table wants. Operations are those of the product,
 * however many terms the activations have: q16 and q8x2 can reach half of the int8 peak.
 *
 * "cache": one group again and again, so its bytes lie near the core. "stream": groups of
 * 256 MiB in sequence, so every byte comes from memory; its share is of stream_read in the
 * same run. The share of the peak is of the table's own peak loop (int8, bf16 or f32) in
 * the same run. `ns` is the median over rounds, `spread` is (largest - least) / median; the rates and
 * shares are of the least, since a round is short enough to pass undisturbed and what
 * disturbs it only ever adds.
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "kernel/kernel.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 41, MAX_N = 512 };
static const size_t STREAM_BYTES = (size_t)256 << 20;
static const int64_t ROUND_NS = 500000;

typedef struct bench {
    const ig__kernels *table;
    ig_allocator alloc;
    ig_dtype dtype;
    ig__acts format;
    int64_t k;
    char *groups; /* STREAM_BYTES */
    void *acts, *scratch;
    float *x, *out; /* [MAX_N][K], [MAX_N][16] */
    double peak_ops_s, stream_bytes_s;
} bench;

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

typedef struct timing {
    double median_ns, least_ns, spread;
} timing;

static timing summary(double ns[ROUNDS])
{
    qsort(ns, ROUNDS, sizeof *ns, by_value);
    const double median = ns[ROUNDS / 2];
    return (timing){median, ns[0], (ns[ROUNDS - 1] - ns[0]) / median};
}

/* Nanoseconds a product, walking over n_groups groups in a circle. */
static timing time_products(const bench *b, int64_t n, int64_t n_groups)
{
    const size_t group_bytes = ig__packed_group_bytes(b->dtype, b->k);
    double ns[ROUNDS];
    int64_t g = 0;
    for (int i = 0; i < ROUNDS; i++) {
        int64_t calls = 0;
        const int64_t begin = ig__now_ns();
        int64_t end = begin;
        while (end - begin < ROUND_NS) {
            for (int j = 0; j < 8; j++, calls++, g = g + 1 == n_groups ? 0 : g + 1)
                b->table->gemm[b->format][b->dtype](b->out, b->groups + g * group_bytes,
                                                    b->acts, n, b->k, b->scratch);
            end = ig__now_ns();
        }
        ns[i] = (double)(end - begin) / (double)calls;
    }
    return summary(ns);
}

static double measure_peak(const bench *b)
{
    const bool is_int8 = b->format == IG_ACTS_Q16 || b->format == IG_ACTS_Q8X2;
    ig__peak_fn *peak = is_int8                     ? b->table->peak_int8
                        : b->format == IG_ACTS_BF16 ? b->table->peak_bf16
                                                    : b->table->peak_f32;
    double best = 0.0;
    for (int i = 0; peak && i < ROUNDS; i++) {
        const int64_t begin = ig__now_ns();
        const double ops = peak(100000);
        const double rate = ops * 1e9 / (double)(ig__now_ns() - begin);
        best = rate > best ? rate : best;
    }
    return best;
}

/* By pieces, as long as a round. */
static double measure_stream(const bench *b)
{
    const size_t piece = STREAM_BYTES / 64;
    double best = 0.0;
    for (size_t i = 0; i < 64; i++) {
        const int64_t begin = ig__now_ns();
        volatile uint64_t sum = b->table->stream_read(b->groups + i * piece, piece);
        (void)sum;
        const double rate = (double)piece * 1e9 / (double)(ig__now_ns() - begin);
        best = rate > best ? rate : best;
    }
    return best;
}

static void print_case(const bench *b, const char *variant, int64_t n, timing t)
{
    const double ops = 2.0 * 16 * (double)n * (double)b->k;
    const double bytes = (double)ig__packed_group_bytes(b->dtype, b->k);
    static const char *const formats[] = {"q16", "q8x2", "bf16", "f32"};
    printf("{\"bench\":\"gemm\",\"isa\":\"%s\",\"type\":\"%s\",\"acts\":\"%s\","
           "\"variant\":\"%s\",\"n\":%" PRId64 ",\"k\":%" PRId64
           ",\"ns\":%.0f,\"least_ns\":%.0f,\"spread\":%.3f,\"gop_s\":%.1f,\"gb_s\":%.2f",
           b->table->isa, ig_dtype_name(b->dtype), formats[b->format], variant, n, b->k,
           t.median_ns, t.least_ns, t.spread, ops / t.least_ns, bytes / t.least_ns);
    if (b->peak_ops_s > 0.0)
        printf(",\"share_of_peak\":%.3f", ops * 1e9 / t.least_ns / b->peak_ops_s);
    if (strcmp(variant, "stream") == 0)
        printf(",\"share_of_stream\":%.3f", bytes * 1e9 / t.least_ns / b->stream_bytes_s);
    printf("}\n");
    fflush(stdout);
}

static void pack_columns(const bench *b, int64_t n)
{
    for (int64_t c = 0; c < n; c++) {
        const int64_t first = c / IG_TILE * IG_TILE;
        char *tile = (char *)b->acts +
                     (size_t)(c / IG_TILE) * ig__tile_bytes(b->format, b->k, IG_TILE);
        b->table->pack_acts[b->format](tile, b->x + c * b->k, c - first,
                                       n - first < IG_TILE ? n - first : IG_TILE, b->k);
    }
}

/* Random bits for the codes; every f16 scale the same small number. */
static bool fill_groups(const bench *b)
{
    const size_t block = ig_dtype_block_bytes(b->dtype);
    const size_t row_bytes = (size_t)(b->k / ig_dtype_block(b->dtype)) * block;
    const size_t group_bytes = ig__packed_group_bytes(b->dtype, b->k);
    uint8_t *rows = ig__alloc(&b->alloc, 16 * row_bytes);
    if (!rows)
        return false;
    for (size_t i = 0; i < 16 * row_bytes; i++)
        rows[i] = (uint8_t)(i * 2654435761u >> 13);
    const uint16_t scale = 0x1c00; /* 2^-8 */
    for (size_t i = 0; i < 16 * row_bytes; i += block) {
        const size_t at = b->dtype == IG_DTYPE_Q6_K ? block - 2 : 0;
        memcpy(rows + i + at, &scale, block >= 2 ? 2 : block);
        if (b->dtype == IG_DTYPE_Q4_1 || b->dtype == IG_DTYPE_Q4_K)
            memcpy(rows + i + 2, &scale, 2);
        if (b->dtype == IG_DTYPE_F32)
            memcpy(rows + i, &(float){0.01f}, 4);
    }
    ig__pack_group(b->groups, b->dtype, rows, row_bytes, IG_GROUP, b->k);
    for (size_t at = group_bytes; at + group_bytes <= STREAM_BYTES; at += group_bytes)
        memcpy(b->groups + at, b->groups, group_bytes);
    ig__free(&b->alloc, rows);
    return true;
}

static void run_type(bench *b)
{
    static const int64_t cached[] = {1, 2, 3, 4, 8, 12, 16, 32, 64, 128, 512};
    static const int64_t streamed[] = {1, 2, 4, 8, 16};
    b->peak_ops_s = measure_peak(b);
    b->stream_bytes_s = measure_stream(b);
    for (size_t i = 0; i < sizeof cached / sizeof *cached; i++) {
        pack_columns(b, cached[i]);
        print_case(b, "cache", cached[i], time_products(b, cached[i], 1));
    }
    const int64_t n_groups =
        (int64_t)(STREAM_BYTES / ig__packed_group_bytes(b->dtype, b->k));
    for (size_t i = 0; i < sizeof streamed / sizeof *streamed; i++) {
        pack_columns(b, streamed[i]);
        print_case(b, "stream", streamed[i], time_products(b, streamed[i], n_groups));
    }
}

static bool bench_init(bench *b, int64_t k)
{
    b->k = k;
    b->alloc = ig__allocator_default();
    b->groups = ig__alloc_huge(&b->alloc, STREAM_BYTES);
    b->acts = ig__alloc_huge(&b->alloc, ig__acts_bytes(IG_ACTS_F32, k, MAX_N));
    b->scratch = ig__alloc_huge(&b->alloc, IG_GEMM_SCRATCH(k));
    b->x = ig__alloc(&b->alloc, (size_t)(MAX_N * k) * sizeof(float));
    b->out = ig__alloc(&b->alloc, MAX_N * 16 * sizeof(float));
    if (!b->groups || !b->acts || !b->scratch || !b->x || !b->out)
        return false;
    for (int64_t i = 0; i < MAX_N * k; i++)
        b->x[i] = (float)(i * 7919 % 2003 - 1001) * 1e-3f;
    return true;
}

static void bench_fini(bench *b)
{
    ig__free(&b->alloc, b->groups);
    ig__free(&b->alloc, b->acts);
    ig__free(&b->alloc, b->scratch);
    ig__free(&b->alloc, b->x);
    ig__free(&b->alloc, b->out);
}

int main(int argc, char **argv)
{
    const int64_t k = argc > 1 ? atoll(argv[1]) : 1536;
    bench b = {0};
    if (k <= 0 || k % 256 || k > 65536 || !bench_init(&b, k)) {
        fprintf(stderr, "bench_gemm: K must be a multiple of 256, at most 65536\n");
        return 1;
    }
    const ig__kernels *tables[4];
    const int n_tables = ig__kernels_available(tables);
    for (int i = 1; i < n_tables; i++) {
        b.table = tables[i];
        if (argc > 2 && strcmp(argv[2], b.table->isa) != 0)
            continue;
        if (b.table->thread_init)
            b.table->thread_init();
        for (ig_dtype dtype = 0; dtype < IG_DTYPE_COUNT; dtype++) {
            b.dtype = dtype;
            if (!ig__packing_of(dtype).block ||
                (argc > 3 && strcmp(argv[3], ig_dtype_name(dtype)) != 0))
                continue;
            if (!fill_groups(&b))
                break;
            for (b.format = 0; b.format < IG_ACTS_COUNT; b.format++)
                if (b.table->gemm[b.format][dtype] && b.format == b.table->acts[dtype])
                    run_type(&b);
        }
    }
    bench_fini(&b);
    return 0;
}
