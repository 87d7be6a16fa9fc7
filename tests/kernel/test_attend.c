/* Attention over a span, of every table that this CPU has: against a softmax in double
 * precision, and what must hold exactly: a row alone and among others gives the same bits,
 * and nothing outside the rows' view is read or matters.
 *
 * A case is a cache of 512 positions under one KV head. Its pages lie in a scrambled order;
 * unwritten slots hold NaN, and pages that no row sees have a table entry far outside, so
 * that a read of them faults.
 */
#include "kernel/kernel.h"
#include "kernel/kernel_data.h"
#include "tolerance.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

enum { MOST_ROWS = 49, MOST_KEYS = 512, N_PAGES = MOST_KEYS / IG_PAGE, PAD = 16 };

static const ig__kernels *tables[4];
static int n_tables;

static int find_tables(void **state)
{
    (void)state;
    n_tables = ig__kernels_available(tables);
    return n_tables > 0 ? 0 : -1;
}

typedef struct attend_case {
    ig__kv kv;
    int64_t w, n_rows, begin, end;
    float q_size;
    int masks; /* 0: all see all; 1: causal; 2: windows, some rows see nothing */
} attend_case;

/* A case built: inputs, and the outputs of one call. */
typedef struct attend_data {
    attend_case c;
    ig__attend_args args;
    float *q;           /* [R][W + PAD] */
    float *key, *value; /* [MOST_KEYS][W] as the pages hold them, exactly */
    char *pages;        /* [N_PAGES] of ig__page_bytes + 64 */
    int32_t table[N_PAGES];
    int64_t lo[MOST_ROWS], hi[MOST_ROWS];
    float m[MOST_ROWS], l[MOST_ROWS];
    float *acc; /* [R][W + PAD] */
    void *scratch;
} attend_data;

/* Read back value d of the key (or value) at `slot`. */
static float stored(const attend_data *a, const char *page, bool is_key, int64_t slot,
                    int64_t d)
{
    const int64_t w = a->c.w;
    const char *half = page + (is_key ? 0 : ig__page_bytes(a->c.kv, w) / 2);
    const int64_t i = is_key ? d * IG_PAGE + slot : slot * w + d;
    const int64_t i_scale = is_key ? d / 32 * IG_PAGE + slot : slot * (w / 32) + d / 32;
    float f;
    uint16_t h;
    switch (a->c.kv) {
    case IG__KV_F32:
        memcpy(&f, half + i * 4, 4);
        return f;
    case IG__KV_F16:
        memcpy(&h, half + i * 2, 2);
        return ig__f16_to_f32(h);
    default:
        memcpy(&h, half + w * IG_PAGE + i_scale * 2, 2);
        return (float)((unsigned char)half[i] - 128) * ig__f16_to_f32(h);
    }
}

static void set_masks(attend_data *a, uint64_t *seed)
{
    const int64_t begin = a->c.begin, end = a->c.end, n = a->c.n_rows;
    for (int64_t r = 0; r < n; r++) {
        a->lo[r] = 0;
        a->hi[r] = end - 1;
        if (a->c.masks == 1)
            a->hi[r] = begin + (end - begin) * (r + 1) / n - 1;
        if (a->c.masks == 2) {
            a->hi[r] = begin - 20 + random_u32(seed) % (end - begin + 20);
            a->lo[r] = a->hi[r] - random_u32(seed) % 90;
            if (r % 7 == 5)
                a->lo[r] = a->hi[r] + 1;
        }
    }
    if (a->c.masks)
        a->hi[n - 1] = end - 1; /* `end` is at most one past the last row's position */
}

static attend_data *make(const attend_case *c, uint64_t seed)
{
    attend_data *a = new_bytes(sizeof *a);
    a->c = *c;
    const int64_t w = c->w, stride = w + PAD;
    const size_t page_bytes = ig__page_bytes(c->kv, w), page_stride = page_bytes + 64;
    a->q = new_bytes((size_t)(c->n_rows * stride) * 4);
    a->acc = new_bytes((size_t)(c->n_rows * stride) * 4);
    a->key = new_bytes((size_t)(MOST_KEYS * w) * 4);
    a->value = new_bytes((size_t)(MOST_KEYS * w) * 4);
    a->pages = new_bytes(N_PAGES * page_stride);
    a->scratch = new_bytes(IG_ATTEND_SCRATCH(c->n_rows, w));
    memset(a->pages, 0x7f, N_PAGES * page_stride);
    set_masks(a, &seed);
    for (int64_t r = 0; r < c->n_rows; r++)
        for (int64_t d = 0; d < w; d++)
            a->q[r * stride + d] = random_f32(&seed) * c->q_size / sqrtf((float)w);
    int64_t first = MOST_KEYS, last = -1;
    for (int64_t r = 0; r < c->n_rows; r++) {
        if (a->lo[r] > a->hi[r])
            continue;
        first = a->lo[r] < first ? a->lo[r] : first;
        last = a->hi[r] > last ? a->hi[r] : last;
    }
    for (int64_t i = 0; i < N_PAGES; i++)
        a->table[i] = (int32_t)(i * 13 % N_PAGES);
    for (int64_t t = 0; t < MOST_KEYS; t++) {
        char *page = a->pages + a->table[t / IG_PAGE] * page_stride;
        float *k = a->key + t * w, *v = a->value + t * w;
        for (int64_t d = 0; d < w; d++) {
            k[d] = random_f32(&seed);
            v[d] = random_f32(&seed);
        }
        if (t < c->end)
            tables[0]->kv_write[c->kv](page, t % IG_PAGE, k, v, w);
        for (int64_t d = 0; d < w; d++) {
            k[d] = stored(a, page, true, t % IG_PAGE, d);
            v[d] = stored(a, page, false, t % IG_PAGE, d);
        }
    }
    for (int64_t i = 0; i < N_PAGES; i++)
        if (i < first / IG_PAGE || i > last / IG_PAGE)
            a->table[i] = INT32_MAX / 2;
    a->args = (ig__attend_args){.q = a->q,
                                .q_stride = stride,
                                .lo = a->lo,
                                .hi = a->hi,
                                .n_rows = c->n_rows,
                                .width = w,
                                .pages = a->pages,
                                .table = a->table,
                                .page_stride = page_stride,
                                .begin = c->begin,
                                .end = c->end,
                                .m = a->m,
                                .l = a->l,
                                .acc = a->acc,
                                .acc_stride = stride};
    return a;
}

static void destroy(attend_data *a)
{
    free(a->q);
    free(a->acc);
    free(a->key);
    free(a->value);
    free(a->pages);
    free(a->scratch);
    free(a);
}

static void run(const ig__kernels *t, attend_data *a)
{
    memset(a->acc, 0xff, (size_t)(a->c.n_rows * a->args.acc_stride) * 4);
    t->attend[a->c.kv](&a->args, a->scratch);
}

/* Row r over positions [begin, end) in double precision: y [W]; returns how many keys it
 * sees and the tolerance for y. */
static int64_t exact_row(double *y, double *tolerance, const attend_data *a, int64_t r,
                         int64_t begin, int64_t end)
{
    static double s[MOST_KEYS];
    const int64_t w = a->c.w;
    const float *q = a->q + r * a->args.q_stride;
    double m = -(double)INFINITY, l = 0, top_qk = 0, top_v = 0;
    int64_t n = 0;
    for (int64_t t = begin; t < end; t++) {
        double sum = 0, size = 0;
        for (int64_t d = 0; d < w; d++) {
            const double product = (double)q[d] * (double)a->key[t * w + d];
            sum += product;
            size += fabs(product);
        }
        if (t < a->lo[r] || t > a->hi[r])
            continue;
        n++;
        s[t] = sum;
        m = fmax(m, sum);
        top_qk = fmax(top_qk, size);
    }
    memset(y, 0, (size_t)w * sizeof *y);
    for (int64_t t = begin; t < end; t++) {
        if (t < a->lo[r] || t > a->hi[r])
            continue;
        const double p = exp(s[t] - m);
        l += p;
        for (int64_t d = 0; d < w; d++) {
            y[d] += p * (double)a->value[t * w + d];
            top_v = fmax(top_v, fabs((double)a->value[t * w + d]));
        }
    }
    for (int64_t d = 0; d < w; d++)
        y[d] = n ? y[d] / l : 0;
    *tolerance = tol_attend(w, n, top_qk, top_v);
    return n;
}

static void assert_row(const ig__kernels *t, const attend_data *a, int64_t r, int64_t begin,
                       int64_t end)
{
    static double want[IG_MAX_HEAD];
    static float y[IG_MAX_HEAD];
    double tolerance;
    const int64_t w = a->c.w;
    const float *acc = a->acc + r * a->args.acc_stride;
    const int64_t n = exact_row(want, &tolerance, a, r, begin, end);
    t->attend_finish(y, acc, a->l[r], w);
    if (n == 0) {
        assert_true(a->m[r] == -INFINITY);
        assert_true(a->l[r] == 0.0f);
        for (int64_t d = 0; d < w; d++)
            assert_true(acc[d] == 0.0f);
    }
    for (int64_t d = 0; d < w; d++)
        if (!(fabs((double)y[d] - want[d]) <= tolerance))
            fail_msg("%s kv %d W %d R %d [%d,%d) masks %d: row %d [%d] %.9g, wanted %.9g",
                     t->isa, (int)a->c.kv, (int)w, (int)a->c.n_rows, (int)begin, (int)end,
                     a->c.masks, (int)r, (int)d, (double)y[d], want[d]);
}

/* Rows alone, each by itself, give the bits that they gave together. */
static void assert_alone(const ig__kernels *t, const attend_data *a)
{
    static float acc[IG_MAX_HEAD];
    float m, l;
    for (int64_t r = 0; r < a->c.n_rows; r++) {
        ig__attend_args one = a->args;
        one.q += r * one.q_stride;
        one.lo += r;
        one.hi += r;
        one.n_rows = 1;
        one.m = &m;
        one.l = &l;
        one.acc = acc;
        t->attend[a->c.kv](&one, a->scratch);
        assert_memory_equal(&m, &a->m[r], 4);
        assert_memory_equal(&l, &a->l[r], 4);
        assert_memory_equal(acc, a->acc + r * a->args.acc_stride, (size_t)a->c.w * 4);
    }
}

static void check(const attend_case *c, uint64_t seed)
{
    attend_data *a = make(c, seed);
    const int64_t stride = a->args.acc_stride;
    float *first = new_bytes((size_t)(c->n_rows * stride) * 4);
    for (int t = 0; t < n_tables; t++) {
        run(tables[t], a);
        for (int64_t r = 0; r < c->n_rows; r++) {
            assert_row(tables[t], a, r, c->begin, c->end);
            for (int64_t d = c->w; d < stride; d++) { /* nothing behind a row is written */
                uint32_t bits;
                memcpy(&bits, a->acc + r * stride + d, 4);
                assert_true(bits == UINT32_MAX);
            }
        }
        assert_alone(tables[t], a);
        if (t == 1)
            memcpy(first, a->acc, (size_t)(c->n_rows * stride) * 4);
        if (t > 1) /* the vector tables say the same operations in the same order */
            assert_memory_equal(first, a->acc, (size_t)(c->n_rows * stride) * 4);
    }
    free(first);
    destroy(a);
}

static void test_shapes(void **state)
{
    (void)state;
    const int64_t widths[] = {16, 32, 64, 80, 96, 128, 256, 512};
    const int64_t rows[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 48, 49};
    const int64_t spans[] = {1, 15, 16, 17, 63, 64, 65, 128, 255, 256};
    uint64_t seed = 1;
    int i = 0;
    for (int kv = 0; kv < IG__KV_COUNT; kv++)
        for (int n = 0; n < (int)(sizeof widths / sizeof widths[0]); n++) {
            if (kv == IG__KV_Q8_0 && widths[n] % 32)
                continue;
            for (int r = 0; r < (int)(sizeof rows / sizeof rows[0]); r++, i++) {
                const int64_t begin = i % 3 == 0 ? IG_KEY_SPAN : 0;
                const int64_t span = widths[n] * rows[r] > 4096 ? 65 : spans[i % 10];
                const attend_case c = {.kv = (ig__kv)kv,
                                       .w = widths[n],
                                       .n_rows = rows[r],
                                       .begin = begin,
                                       .end = begin + span,
                                       .q_size = 4.0f,
                                       .masks = i % 4 % 3};
                check(&c, random_u32(&seed));
            }
        }
}

/* Every span with every kind of mask, for rows that go the two ways. */
static void test_spans(void **state)
{
    (void)state;
    const int64_t spans[] = {1, 15, 16, 17, 31, 33, 63, 64, 65, 127, 255, 256};
    uint64_t seed = 2;
    for (int kv = 0; kv < IG__KV_COUNT; kv++)
        for (int n = 0; n < (int)(sizeof spans / sizeof spans[0]); n++)
            for (int masks = 0; masks < 3; masks++)
                for (int64_t rows = 3; rows <= 17; rows += 14) {
                    const attend_case c = {.kv = (ig__kv)kv,
                                           .w = 32,
                                           .n_rows = rows,
                                           .begin = IG_KEY_SPAN,
                                           .end = IG_KEY_SPAN + spans[n],
                                           .q_size = 3.0f,
                                           .masks = masks};
                    check(&c, random_u32(&seed));
                }
}

/* Scores far apart: exp is 0 for all but the largest, and nothing overflows. */
static void test_huge_scores(void **state)
{
    (void)state;
    const float sizes[] = {1e3f, 1e6f, 1e30f, 0.0f, -0.0f};
    for (int i = 0; i < 5; i++) {
        const attend_case c = {.kv = IG__KV_F16,
                               .w = 64,
                               .n_rows = 13,
                               .end = 200,
                               .q_size = sizes[i],
                               .masks = 2};
        check(&c, (uint64_t)i);
    }
}

/* Spans joined in order give the softmax over all of them; joining nothing changes nothing.
 */
static void test_join(void **state)
{
    (void)state;
    for (int kv = 0; kv < IG__KV_COUNT; kv++)
        for (int masks = 0; masks < 3; masks++) {
            const attend_case c = {.kv = (ig__kv)kv,
                                   .w = 64,
                                   .n_rows = 6,
                                   .end = MOST_KEYS - 3,
                                   .q_size = 4.0f,
                                   .masks = masks};
            attend_data *a = make(&c, (uint64_t)(kv * 3 + masks));
            float m[6], l[6];
            float *acc = new_bytes((size_t)(6 * a->args.acc_stride) * 4);
            for (int t = 0; t < n_tables; t++) {
                a->args.end = IG_KEY_SPAN;
                run(tables[t], a);
                ig__attend_args second = a->args;
                second.begin = IG_KEY_SPAN;
                second.end = c.end;
                second.m = m;
                second.l = l;
                second.acc = acc;
                tables[t]->attend[kv](&second, a->scratch);
                tables[t]->attend_join(a->m, a->l, a->acc, m, l, acc, 6, a->args.acc_stride,
                                       a->args.acc_stride, c.w);
                for (int64_t r = 0; r < 6; r++)
                    assert_row(tables[t], a, r, 0, c.end);
            }
            free(acc);
            destroy(a);
        }
}

static void test_join_nothing(void **state)
{
    (void)state;
    for (int t = 0; t < n_tables; t++) {
        float m = 1.5f, l = 3.0f, acc[16], none[16] = {0}, y[16];
        float m2 = -INFINITY, l2 = 0.0f;
        for (int i = 0; i < 16; i++)
            acc[i] = (float)i;
        tables[t]->attend_join(&m, &l, acc, &m2, &l2, none, 1, 16, 16, 16);
        assert_true(m == 1.5f && l == 3.0f && acc[15] == 15.0f);
        tables[t]->attend_join(&m2, &l2, none, &m, &l, acc, 1, 16, 16, 16);
        assert_true(m2 == 1.5f && l2 == 3.0f && none[15] == 15.0f);
        m = m2 = -INFINITY;
        l = l2 = 0.0f;
        memset(acc, 0, sizeof acc);
        memset(none, 0, sizeof none);
        tables[t]->attend_join(&m, &l, acc, &m2, &l2, none, 1, 16, 16, 16);
        assert_true(m == -INFINITY && l == 0.0f && acc[3] == 0.0f);
        tables[t]->attend_finish(y, acc, l, 16);
        for (int i = 0; i < 16; i++)
            assert_true(y[i] == 0.0f);
    }
}

/* A sum that has underflowed to -0 keeps its bits when another row sees more positions,
 * whose V the first row adds 0 times. */
static void test_minus_zero(void **state)
{
    (void)state;
    enum { W = 16, KEYS = 40 };
    const attend_case c = {.kv = IG__KV_F32, .w = W, .n_rows = 2, .end = KEYS};
    for (int t = 0; t < n_tables; t++) {
        attend_data *a = make(&c, 5);
        for (int64_t i = 0; i < KEYS; i++) {
            float k[W] = {i == 1 ? 80.0f : 0.0f}, v[W];
            for (int d = 0; d < W; d++)
                v[d] = i == 0 ? -1e-20f : i == 1 ? -0.0f : 1.0f;
            char *page = a->pages + (size_t)a->table[i / IG_PAGE] * a->args.page_stride;
            tables[t]->kv_write[IG__KV_F32](page, i % IG_PAGE, k, v, W);
        }
        for (int64_t r = 0; r < 2; r++)
            a->q[r * a->args.q_stride] = 1.0f;
        a->hi[0] = 1;
        run(tables[t], a);
        assert_alone(tables[t], a);
        destroy(a);
    }
}

/* A NaN in one query reaches its own row, and no other. */
static void test_nan_stays_in_its_row(void **state)
{
    (void)state;
    for (int64_t rows = 3; rows <= 17; rows += 14)
        for (int t = 0; t < n_tables; t++) {
            const attend_case c = {
                .kv = IG__KV_F16, .w = 64, .n_rows = rows, .end = 100, .q_size = 4.0f};
            attend_data *a = make(&c, 4);
            a->q[a->args.q_stride + 7] = NAN;
            run(tables[t], a);
            assert_false(isfinite(a->acc[a->args.acc_stride]));
            assert_false(isfinite(a->l[1]));
            assert_row(tables[t], a, 0, 0, 100);
            assert_row(tables[t], a, 2, 0, 100);
            destroy(a);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_spans),
        cmocka_unit_test(test_huge_scores),
        cmocka_unit_test(test_join),
        cmocka_unit_test(test_join_nothing),
        cmocka_unit_test(test_minus_zero),
        cmocka_unit_test(test_nan_stays_in_its_row),
    };
    return cmocka_run_group_tests(tests, find_tables, NULL);
}
