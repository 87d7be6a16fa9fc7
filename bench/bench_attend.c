/* Attention kernels on one thread: how near decoding comes to the memory's speed and a
 * prompt to the peak of FMA. One JSON line a case.
 *
 *   bench_attend [isa]
 *
 * Decoding: R rows (the heads of one token over one KV head) walk a cache that no level of
 * cache holds (`stream`) or one that stays (`cached`). GB/s counts K and V once; `share` is
 * against stream_read over as many bytes, measured in the same run, turn by turn. A prompt:
 * R rows against 512 keys that all of them see; `share` is against peak_f32. Times are
 * medians, `spread` the distance of the quartiles over the median.
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "kernel/kernel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REPEATS = 15 };

typedef struct bench_case {
    ig__kv kv;
    int64_t w, n_rows, n_keys, n_heads; /* of the cache: heads x keys */
    bool decode;
} bench_case;

/* Everything that one case needs; pages lie head by head inside each layer's page, as in a
 * cache of n_heads. */
typedef struct bench_data {
    bench_case c;
    char *pages;
    int32_t *table;
    size_t page_bytes, n_bytes;
    float *q, *acc, *m, *l;
    int64_t *lo, *hi;
    void *scratch;
} bench_data;

static const ig_allocator *memory(void)
{
    static ig_allocator a;
    a = ig__allocator_default();
    return &a;
}

static void *take(size_t bytes)
{
    void *p = ig__alloc_huge(memory(), bytes);
    if (!p) {
        fprintf(stderr, "bench_attend: out of memory (%zu bytes)\n", bytes);
        exit(1);
    }
    memset(p, 0, bytes);
    return p;
}

static void make(bench_data *b, const ig__kernels *t, const bench_case *c)
{
    b->c = *c;
    const int64_t n_pages = (c->n_keys + IG_PAGE - 1) / IG_PAGE;
    b->page_bytes = ig__page_bytes(c->kv, c->w);
    b->n_bytes = b->page_bytes * (size_t)(n_pages * c->n_heads);
    b->pages = take((b->n_bytes + 4095) / 4096 * 4096);
    b->table = take((size_t)n_pages * sizeof *b->table);
    b->q = take((size_t)(c->n_rows * c->w) * 4);
    b->acc = take((size_t)(c->n_rows * c->w) * 4);
    b->m = take((size_t)c->n_rows * 4);
    b->l = take((size_t)c->n_rows * 4);
    b->lo = take((size_t)c->n_rows * 8);
    b->hi = take((size_t)c->n_rows * 8);
    b->scratch = take(IG_ATTEND_SCRATCH(c->n_rows, c->w));
    for (int64_t i = 0; i < c->n_rows; i++)
        b->hi[i] = c->n_keys - 1;
    for (int64_t i = 0; i < c->n_rows * c->w; i++)
        b->q[i] = (float)(i * 7919 % 1000) * 1e-3f - 0.5f;
    for (int64_t i = 0; i < n_pages; i++)
        b->table[i] = (int32_t)i;
    float *k = take((size_t)c->w * 4);
    for (int64_t p = 0; p < n_pages * c->n_heads; p++)
        for (int64_t s = 0; s < IG_PAGE; s++) {
            for (int64_t i = 0; i < c->w; i++)
                k[i] = (float)((i + s * 31 + p * 17) % 64) * 0.01f - 0.3f;
            t->kv_write[c->kv](b->pages + (size_t)p * b->page_bytes, s, k, k, c->w);
        }
    ig__free(memory(), k);
}

static void destroy(bench_data *b)
{
    void *all[] = {b->pages, b->table, b->q, b->acc, b->m, b->l, b->lo, b->hi, b->scratch};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        ig__free(memory(), all[i]);
}

/* All heads, all spans. Page p of head h is at (p * n_heads + h) * page_bytes. */
static void attend_all(const bench_data *b, const ig__kernels *t)
{
    for (int64_t h = 0; h < b->c.n_heads; h++)
        for (int64_t at = 0; at < b->c.n_keys; at += IG_KEY_SPAN) {
            const int64_t end =
                at + IG_KEY_SPAN < b->c.n_keys ? at + IG_KEY_SPAN : b->c.n_keys;
            const ig__attend_args args = {.q = b->q,
                                          .q_stride = b->c.w,
                                          .lo = b->lo,
                                          .hi = b->hi,
                                          .n_rows = b->c.n_rows,
                                          .width = b->c.w,
                                          .pages = b->pages + (size_t)h * b->page_bytes,
                                          .table = b->table,
                                          .page_stride =
                                              b->page_bytes * (size_t)b->c.n_heads,
                                          .begin = at,
                                          .end = end,
                                          .m = b->m,
                                          .l = b->l,
                                          .acc = b->acc,
                                          .acc_stride = b->c.w};
            t->attend[b->c.kv](&args, b->scratch);
        }
}

static int by_time(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median of `ns`, which is sorted; *spread_out is the quartiles' distance over it. */
static double median(double *ns, double *spread_out)
{
    qsort(ns, REPEATS, sizeof *ns, by_time);
    const double mid = ns[REPEATS / 2];
    *spread_out = (ns[REPEATS * 3 / 4] - ns[REPEATS / 4]) / mid;
    return mid;
}

static void measure(const ig__kernels *t, const bench_case *c, const char *name)
{
    bench_data b;
    make(&b, t, c);
    const double flops =
        4.0 * (double)(c->n_rows * c->w) * (double)(c->n_keys * c->n_heads);
    const int64_t rounds = 20000;
    const size_t read = b.n_bytes / 4096 * 4096;
    const int n_times = (int)(3e6 / ((double)b.n_bytes / 10 + flops / 50)) + 1;
    double ns[REPEATS], limit_ns[REPEATS], spread, limit_spread, ops = 0;
    uint64_t sum = 0;
    attend_all(&b, t);
    for (int i = 0; i < REPEATS; i++) {
        int64_t start = ig__now_ns();
        for (int j = 0; j < n_times; j++)
            attend_all(&b, t);
        ns[i] = (double)(ig__now_ns() - start) / n_times;
        start = ig__now_ns();
        if (c->decode)
            for (int j = 0; j < n_times; j++)
                sum += t->stream_read(b.pages, read);
        else
            ops = t->peak_f32(rounds);
        limit_ns[i] = (double)(ig__now_ns() - start) / (c->decode ? n_times : 1);
    }
    const double time = median(ns, &spread), limit = median(limit_ns, &limit_spread);
    const char *const kvs[] = {"f16", "f32", "q8_0"};
    const double gb_s = (double)b.n_bytes / time, limit_gb_s = (double)read / limit;
    const double gflops = flops / time, peak = ops / limit;
    printf("{\"bench\": \"attend\", \"case\": \"%s\", \"isa\": \"%s\", \"kv\": \"%s\", "
           "\"width\": %d, \"rows\": %d, \"keys\": %d, \"heads\": %d, \"ns\": %.0f, "
           "\"spread\": %.3f, \"gb_s\": %.2f, \"gflop_s\": %.1f, \"limit\": %.2f, "
           "\"share\": %.3f, \"check\": %d}\n",
           name, t->isa, kvs[c->kv], (int)c->w, (int)c->n_rows, (int)c->n_keys,
           (int)c->n_heads, time, spread, gb_s, gflops, c->decode ? limit_gb_s : peak,
           c->decode ? gb_s / limit_gb_s : gflops / peak, (int)(sum & 1));
    fflush(stdout);
    destroy(&b);
}

int main(int argc, char **argv)
{
    const ig__kernels *t = ig__kernels_pick(argc > 1 ? argv[1] : NULL);
    if (!t) {
        fprintf(stderr, "bench_attend: no such instruction set here: %s\n", argv[1]);
        return 2;
    }
    const struct {
        int64_t w, n_rows;
    } decode[] = {{64, 1}, {64, 3}, {64, 4}, {64, 8}, {256, 4}, {128, 4}},
      prompt[] = {{64, 12}, {64, 48}, {256, 64}, {128, 64}, {80, 48}};
    const ig__kv kvs[] = {IG__KV_F16, IG__KV_Q8_0, IG__KV_F32};
    for (int k = 0; k < 3; k++)
        for (size_t i = 0; i < sizeof decode / sizeof decode[0]; i++) {
            bench_case c = {.kv = kvs[k],
                            .w = decode[i].w,
                            .n_rows = decode[i].n_rows,
                            .n_keys = 4096,
                            .n_heads = 90 * 64 / decode[i].w,
                            .decode = true};
            measure(t, &c, "stream");
            c.n_heads = 1;
            c.n_keys = 1024;
            measure(t, &c, "cached");
        }
    for (int k = 0; k < 3; k++)
        for (size_t i = 0; i < sizeof prompt / sizeof prompt[0]; i++) {
            if (kvs[k] == IG__KV_Q8_0 && prompt[i].w % 32)
                continue;
            const bench_case c = {.kv = kvs[k],
                                  .w = prompt[i].w,
                                  .n_rows = prompt[i].n_rows,
                                  .n_keys = 512,
                                  .n_heads = 1};
            measure(t, &c, "prompt");
        }
    return 0;
}
