/* Dense products of every table against sums in long double, over odd shapes, every layout and type; and the promise of the same bits: whatever stands around a row, however
 * the pieces are shared out.
 */
#include "kernel/kernel_data.h"
#include "kernel/matmul.h"
#include "tolerance.h"

#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <cmocka.h>

enum { MAX_TABLES = 4, CANARY = 64, GUARD = 0x5a };

static const ig__kernels *tables[MAX_TABLES];
static int n_tables;

static int make_tables(void **state)
{
    (void)state;
    n_tables = ig__kernels_available(tables);
    return 0;
}

static size_t type_bytes(ig__mm_type type)
{
    return type == IG__MM_F64 ? 8 : type == IG__MM_F32 ? 4 : 2;
}

static double read_number(const void *p, int64_t i, ig__mm_type type)
{
    switch (type) {
    case IG__MM_F64:
        return ((const double *)p)[i];
    case IG__MM_F32:
        return (double)((const float *)p)[i];
    case IG__MM_BF16:
        return (double)ig__bf16_to_f32(((const uint16_t *)p)[i]);
    default:
        return (double)ig__f16_to_f32(((const uint16_t *)p)[i]);
    }
}

static void write_number(void *p, int64_t i, ig__mm_type type, double x)
{
    switch (type) {
    case IG__MM_F64:
        ((double *)p)[i] = x;
        return;
    case IG__MM_F32:
        ((float *)p)[i] = (float)x;
        return;
    case IG__MM_BF16:
        ((uint16_t *)p)[i] = ig__f32_to_bf16((float)x);
        return;
    default:
        ((uint16_t *)p)[i] = ig__f32_to_f16((float)x);
        return;
    }
}

/* How a matrix lies. */
typedef enum order {
    ROWS,     /* columns side by side */
    COLUMNS,  /* rows side by side */
    PADDED,   /* rows, with a gap after each */
    SCATTERED /* neither stride is 1 */
} order;

typedef struct memory {
    char *bytes; /* exactly what the layout reaches: a sanitizer sees what lies past it */
    int64_t n;   /* elements */
    ig__mm_layout layout;
} memory;

static memory new_matrix(ig__mm_type type, order o, int64_t m, int64_t n,
                         const int64_t batch[2], uint64_t *seed)
{
    memory x = {.layout = {.type = type}};
    ig__mm_layout *l = &x.layout;
    l->row = o == COLUMNS ? 1 : o == ROWS ? n : o == PADDED ? n + 3 : 2 * n + 1;
    l->col = o == COLUMNS ? m + 1 : o == SCATTERED ? 2 : 1;
    const int64_t size = (m > 0 && n > 0) ? (m - 1) * l->row + (n - 1) * l->col + 1 : 0;
    l->batch[1] = o == ROWS ? m * n : size + 2;
    l->batch[0] = batch[1] * l->batch[1] + 1;
    x.n = size ? (batch[0] - 1) * l->batch[0] + (batch[1] - 1) * l->batch[1] + size : 0;
    const size_t bytes = (size_t)x.n * type_bytes(type);
    x.bytes = malloc(bytes ? bytes : 1);
    assert_non_null(x.bytes);
    for (int64_t i = 0; i < x.n; i++)
        write_number(x.bytes, i, type, (double)random_f32(seed));
    return x;
}

static memory copy_of(const memory *x)
{
    memory y = *x;
    const size_t bytes = (size_t)x->n * type_bytes(x->layout.type);
    y.bytes = malloc(bytes ? bytes : 1);
    assert_non_null(y.bytes);
    memcpy(y.bytes, x->bytes, bytes);
    return y;
}

static int64_t index_of(const ig__mm_layout *l, int64_t p, int64_t q, int64_t i, int64_t j)
{
    return p * l->batch[0] + q * l->batch[1] + i * l->row + j * l->col;
}

/* One case: operands and what is asked. */
typedef struct problem {
    ig__mm_problem p;
    memory a, b, c;
    void *bias; /* NULL: none */
} problem;

static problem new_problem(int64_t m, int64_t n, int64_t k, ig__mm_type in, ig__mm_type out,
                           const order o[3], uint64_t *seed)
{
    problem x = {.p = {.m = m, .n = n, .k = k, .n_batch = {1, 1}, .alpha = 1.0}};
    const int64_t one[2] = {1, 1};
    x.a = new_matrix(in, o[0], m, k, one, seed);
    x.b = new_matrix(in, o[1], k, n, one, seed);
    x.c = new_matrix(out, o[2], m, n, one, seed);
    x.p.a = x.a.layout;
    x.p.b = x.b.layout;
    x.p.c = x.c.layout;
    return x;
}

static void problem_fini(problem *x)
{
    free(x->a.bytes);
    free(x->b.bytes);
    free(x->c.bytes);
    free(x->bias);
}

/* c = the product, by a team of n_threads whose pieces come `stride` at a time. */
static void multiply(const ig__kernels *t, const problem *x, memory *c, int n_threads,
                     int64_t stride)
{
    const ig__mm_plan plan = ig__mm_plan_make(t, &x->p, n_threads);
    ig__mm_data data = {.a = x->a.bytes, .b = x->b.bytes, .c = c->bytes, .bias = x->bias};
    if (plan.n_states > 0 && stride != 2) { /* with 2 each piece packs for itself */
        data.shared = aligned_alloc(64, plan.shared_bytes);
        data.states = calloc((size_t)plan.n_states, 1);
        assert_non_null(data.shared);
        assert_non_null(data.states);
        memset(data.shared, 0xff, plan.shared_bytes);
        /* another thread is packing some of them, and never gets done */
        for (int64_t i = (int64_t)sizeof(int64_t); i < plan.n_states; i += 4)
            data.states[i] = 1;
    }
    const size_t bytes = (plan.scratch_bytes + 63) / 64 * 64;
    char *scratch = aligned_alloc(64, bytes + CANARY);
    assert_non_null(scratch);
    memset(scratch, 0xff, bytes); /* NaN: a read of what was not packed shows */
    memset(scratch + bytes, GUARD, CANARY);
    if (t->thread_init)
        t->thread_init();
    ig__mm_walk walk;
    ig__mm_walk_begin(&walk, &plan, &data, scratch);
    for (int64_t first = 0; first < stride; first++)
        for (int64_t i = first; i < plan.n_pieces; i += stride)
            ig__mm_walk_run(&walk, i, i + 1);
    for (int i = 0; i < CANARY; i++)
        assert_int_equal(scratch[bytes + i], GUARD);
    for (int64_t i = 0; data.states && i < plan.n_states; i++)
        assert_int_equal(data.states[i], 0);
    free(data.states);
    free(data.shared);
    free(scratch);
}

/* What every element of C should be, and the sum of the magnitudes that it is made of. */
typedef struct expected {
    long double *sum, *size; /* [batch][M][N] */
} expected;

static void expect(expected *e, const problem *x, int64_t at, int64_t bp, int64_t bq,
                   int64_t i, int64_t j)
{
    const ig__mm_problem *p = &x->p;
    long double sum = 0, size = 0;
    for (int64_t k = 0; k < p->k; k++) {
        const double a = read_number(x->a.bytes, index_of(&p->a, bp, bq, i, k), p->a.type);
        const double b = read_number(x->b.bytes, index_of(&p->b, bp, bq, k, j), p->b.type);
        const long double term = (long double)a * (long double)b;
        sum += term;
        size += fabsl(term);
    }
    sum *= (long double)p->alpha;
    size *= fabsl((long double)p->alpha);
    if (p->beta != 0.0) {
        const long double c =
            (long double)p->beta *
            (long double)read_number(x->c.bytes, index_of(&p->c, bp, bq, i, j), p->c.type);
        sum += c;
        size += fabsl(c);
    }
    if (x->bias) {
        const ig__mm_type type = p->a.type == IG__MM_F64 ? IG__MM_F64 : IG__MM_F32;
        const long double bias = (long double)read_number(x->bias, j, type);
        sum += bias;
        size += fabsl(bias);
    }
    e->sum[at] = sum;
    e->size[at] = size;
}

static expected expectation(const problem *x)
{
    const ig__mm_problem *p = &x->p;
    const int64_t n = p->n_batch[0] * p->n_batch[1] * p->m * p->n;
    expected e = {malloc((size_t)(n + 1) * sizeof *e.sum),
                  malloc((size_t)(n + 1) * sizeof *e.size)};
    assert_true(e.sum && e.size);
    int64_t at = 0;
    for (int64_t bp = 0; bp < p->n_batch[0]; bp++)
        for (int64_t bq = 0; bq < p->n_batch[1]; bq++)
            for (int64_t i = 0; i < p->m; i++)
                for (int64_t j = 0; j < p->n; j++)
                    expect(&e, x, at++, bp, bq, i, j);
    return e;
}

/* The whole of c; what C's layout does not reach stays as it was. */
static void check(const char *isa, const problem *x, const expected *e, const memory *c)
{
    const ig__mm_problem *p = &x->p;
    const double u = p->a.type == IG__MM_F64 ? 0x1p-53 : IG_TOL_U;
    const double rounding = p->c.type == IG__MM_BF16  ? 0x1p-8
                            : p->c.type == IG__MM_F16 ? 0x1p-11
                                                      : 0.0;
    const size_t bytes = type_bytes(p->c.type);
    memory left = copy_of(c); /* elements of C are struck out of it */
    int64_t at = 0;
    for (int64_t bp = 0; bp < p->n_batch[0]; bp++)
        for (int64_t bq = 0; bq < p->n_batch[1]; bq++)
            for (int64_t i = 0; i < p->m; i++)
                for (int64_t j = 0; j < p->n; j++, at++) {
                    const int64_t place = index_of(&p->c, bp, bq, i, j);
                    const double sum = (double)e->sum[at];
                    const double got = read_number(c->bytes, place, p->c.type);
                    const double bound = ((double)p->k + 4) * u * (double)e->size[at] +
                                         rounding * (fabs(sum) + 1e-7);
                    if (!(fabs(got - sum) <= bound))
                        fail_msg("%s: [%d,%d,%d] c[%d][%d] is %.9g, wanted %.9g +- %.2g",
                                 isa, (int)p->m, (int)p->n, (int)p->k, (int)i, (int)j, got,
                                 sum, bound);
                    memcpy(left.bytes + (size_t)place * bytes,
                           x->c.bytes + (size_t)place * bytes, bytes);
                }
    assert_memory_equal(left.bytes, x->c.bytes, (size_t)c->n * bytes);
    free(left.bytes);
}

static void run_and_check(const problem *x)
{
    const expected e = expectation(x);
    for (int i = 0; i < n_tables; i++) {
        memory c = copy_of(&x->c);
        multiply(tables[i], x, &c, 2, 1);
        check(tables[i]->isa, x, &e, &c);
        free(c.bytes);
    }
    free(e.sum);
    free(e.size);
}

static const order rows[3] = {ROWS, ROWS, ROWS};

static void test_shapes(void **state)
{
    (void)state;
    static const int64_t sizes[] = {0, 1, 2, 5, 13, 14, 15, 16, 17, 29, 31, 33, 64, 65};
    enum { N = sizeof sizes / sizeof *sizes };
    uint64_t seed = 1;
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            problem x = new_problem(sizes[i], sizes[j], sizes[(i + 3 * j) % N], IG__MM_F32,
                                    IG__MM_F32, rows, &seed);
            run_and_check(&x);
            problem_fini(&x);
        }
}

/* Sizes around blocks: several spans, blocks and pieces. */
static void test_large(void **state)
{
    (void)state;
    static const int64_t sizes[][3] = {{37, 45, 1030}, {530, 70, 20}, {20, 1100, 257},
                                       {1, 700, 300},  {700, 1, 300}, {129, 131, 256}};
    uint64_t seed = 2;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        problem x = new_problem(sizes[i][0], sizes[i][1], sizes[i][2], IG__MM_F32,
                                IG__MM_F32, rows, &seed);
        run_and_check(&x);
        problem_fini(&x);
    }
}

/* Every layout of A, B and C, with alpha, beta and a bias. */
static void test_layouts(void **state)
{
    (void)state;
    static const int64_t sizes[][3] = {{15, 33, 18}, {70, 90, 40}, {3, 5, 300}};
    uint64_t seed = 3;
    for (int i = 0; i < 3 * 4 * 4 * 4; i++) {
        const order o[3] = {i % 4, i / 4 % 4, i / 16 % 4};
        const int64_t *s = sizes[i / 64];
        problem x = new_problem(s[0], s[1], s[2], IG__MM_F32, IG__MM_F32, o, &seed);
        x.p.alpha = -0.75;
        x.p.beta = i % 3 ? 0.5 : 1.0;
        if (i % 2) {
            x.bias = malloc((size_t)s[1] * sizeof(float));
            assert_non_null(x.bias);
            for (int64_t j = 0; j < s[1]; j++)
                ((float *)x.bias)[j] = random_f32(&seed);
        }
        run_and_check(&x);
        problem_fini(&x);
    }
}

/* Every type of the operands and of C. */
static void test_types(void **state)
{
    (void)state;
    static const ig__mm_type types[][2] = {
        {IG__MM_F32, IG__MM_BF16},  {IG__MM_F32, IG__MM_F16}, {IG__MM_BF16, IG__MM_F32},
        {IG__MM_BF16, IG__MM_BF16}, {IG__MM_F16, IG__MM_F32}, {IG__MM_F16, IG__MM_F16},
        {IG__MM_F64, IG__MM_F64}};
    static const int64_t sizes[][3] = {{15, 33, 19}, {40, 70, 300}, {1, 17, 64},
                                       {33, 1, 7},   {2, 2, 0},     {64, 96, 128}};
    uint64_t seed = 4;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        for (size_t j = 0; j < sizeof sizes / sizeof *sizes; j++)
            for (int l = 0; l < 8; l++) {
                const order o[3] = {l & 1 ? COLUMNS : ROWS, l & 2 ? COLUMNS : PADDED,
                                    l & 4 ? COLUMNS : ROWS};
                problem x = new_problem(sizes[j][0], sizes[j][1], sizes[j][2], types[i][0],
                                        types[i][1], o, &seed);
                x.p.beta = l == 3 ? 0.25 : 0.0;
                run_and_check(&x);
                problem_fini(&x);
            }
}

/* Batches of two dimensions, with operands that repeat and with rows that join. */
static void test_batches(void **state)
{
    (void)state;
    uint64_t seed = 5;
    for (int i = 0; i < 8; i++) {
        const int64_t batch[2] = {2, 3};
        problem x = {.p = {.m = 9, .n = 35, .k = 21, .n_batch = {2, 3}, .alpha = 1.0}};
        x.a = new_matrix(IG__MM_F32, i & 1 ? COLUMNS : ROWS, 9, 21, batch, &seed);
        x.b = new_matrix(IG__MM_F32, i & 2 ? COLUMNS : ROWS, 21, 35, batch, &seed);
        x.c = new_matrix(IG__MM_F32, i & 2 ? PADDED : ROWS, 9, 35, batch, &seed);
        x.p.a = x.a.layout;
        x.p.b = x.b.layout;
        x.p.c = x.c.layout;
        if (i & 4)
            x.p.b.batch[0] = x.p.b.batch[1] = 0;
        x.p.beta = i & 1 ? 1.0 : 0.0;
        run_and_check(&x);
        problem_fini(&x);
    }
}

/* Strides of 0 and below: operands that repeat or run backwards. */
static void test_strides(void **state)
{
    (void)state;
    static const int64_t sizes[][3] = {{9, 20, 17}, {33, 70, 40}, {1, 40, 9}, {40, 1, 9}};
    uint64_t seed = 9;
    for (int i = 0; i < 4 * 8; i++) {
        const int64_t *s = sizes[i / 8];
        problem x = new_problem(s[0], s[1], s[2], IG__MM_F32, IG__MM_F32, rows, &seed);
        memory a = x.a, b = x.b;
        x.p.a.row *= i & 1 ? 1 : 0;
        x.p.a.col *= i & 2 ? 1 : 0;
        x.p.b.row *= i & 4 ? 1 : 0;
        if (i % 3 == 0) { /* from the last element on */
            x.a.bytes += (size_t)((s[0] - 1) * x.p.a.row + (s[2] - 1) * x.p.a.col) * 4;
            x.p.a.row = -x.p.a.row;
            x.p.a.col = -x.p.a.col;
            x.b.bytes += (size_t)((s[2] - 1) * x.p.b.row + (s[1] - 1) * x.p.b.col) * 4;
            x.p.b.row = -x.p.b.row;
            x.p.b.col = -x.p.b.col;
        }
        run_and_check(&x);
        x.a = a;
        x.b = b;
        problem_fini(&x);
    }
}

/* The same bits by any number of threads, in any order of pieces. */
static void test_same_bits_threads(void **state)
{
    (void)state;
    static const ig__mm_type types[] = {IG__MM_F32, IG__MM_BF16, IG__MM_F64};
    static const int64_t sizes[][3] = {
        {150, 300, 300}, {600, 200, 70}, {30, 900, 600}, {700, 150, 600}};
    uint64_t seed = 6;
    for (int i = 0; i < n_tables; i++)
        for (int j = 0; j < 12; j++) {
            const int64_t *s = sizes[j % 4];
            const ig__mm_type type = types[j / 4];
            problem x = new_problem(s[0], s[1], s[2], type, type, rows, &seed);
            memory one = copy_of(&x.c), many = copy_of(&x.c);
            multiply(tables[i], &x, &one, 1, 1);
            for (int n_threads = 2; n_threads <= 32; n_threads *= 4) {
                multiply(tables[i], &x, &many, n_threads, 3);
                assert_memory_equal(one.bytes, many.bytes,
                                    (size_t)one.n * type_bytes(type));
            }
            free(one.bytes);
            free(many.bytes);
            problem_fini(&x);
        }
}

typedef struct walker {
    const ig__kernels *table;
    const ig__mm_plan *plan;
    const ig__mm_data *data;
    int64_t *next; /* piece to be taken */
    pthread_t thread;
} walker;

static void *walk(void *arg)
{
    const walker *w = arg;
    char *scratch = aligned_alloc(64, (w->plan->scratch_bytes + 63) / 64 * 64);
    if (w->table->thread_init)
        w->table->thread_init();
    ig__mm_walk walk;
    ig__mm_walk_begin(&walk, w->plan, w->data, scratch);
    for (int64_t i; scratch && (i = __atomic_fetch_add(w->next, 1, __ATOMIC_RELAXED)) <
                                   w->plan->n_pieces;)
        ig__mm_walk_run(&walk, i, i + 1);
    free(scratch);
    return NULL;
}

/* Threads that share panels of B, one product behind the other in the same memory. */
static void test_shared_panels(void **state)
{
    (void)state;
    uint64_t seed = 9;
    for (int i = 0; i < n_tables; i++) {
        problem x = new_problem(800, 200, 520, IG__MM_BF16, IG__MM_F32, rows, &seed);
        memory one = copy_of(&x.c), many = copy_of(&x.c);
        multiply(tables[i], &x, &one, 1, 1);
        const ig__mm_plan plan = ig__mm_plan_make(tables[i], &x.p, 3);
        const ig__mm_data data = {.a = x.a.bytes,
                                  .b = x.b.bytes,
                                  .c = many.bytes,
                                  .shared = aligned_alloc(64, plan.shared_bytes + 64),
                                  .states = calloc((size_t)plan.n_states + 1, 1)};
        assert_non_null(data.shared);
        assert_non_null(data.states);
        for (int round = 0; round < 5; round++) {
            int64_t next = 0;
            walker w[3];
            memset(many.bytes, 0xff, (size_t)many.n * sizeof(float));
            for (int t = 0; t < 3; t++) {
                w[t] = (walker){tables[i], &plan, &data, &next, 0};
                assert_int_equal(pthread_create(&w[t].thread, NULL, walk, &w[t]), 0);
            }
            for (int t = 0; t < 3; t++)
                pthread_join(w[t].thread, NULL);
            assert_memory_equal(one.bytes, many.bytes, (size_t)one.n * sizeof(float));
        }
        free(data.states);
        free(data.shared);
        free(one.bytes);
        free(many.bytes);
        problem_fini(&x);
    }
}

/* A row has the same bits alone and among others, and so has a column. */
static void test_same_bits_alone(void **state)
{
    (void)state;
    static const ig__mm_type types[] = {IG__MM_F32, IG__MM_BF16, IG__MM_F64};
    const int64_t m = 37, n = 83, k = 530;
    uint64_t seed = 7;
    for (int i = 0; i < n_tables; i++)
        for (int j = 0; j < 3; j++) {
            const ig__mm_type out = types[j] == IG__MM_F64 ? IG__MM_F64 : IG__MM_F32;
            const size_t bytes = type_bytes(out);
            problem x = new_problem(m, n, k, types[j], out, rows, &seed);
            memory all = copy_of(&x.c), some = copy_of(&x.c);
            multiply(tables[i], &x, &all, 1, 1);
            problem part = x;
            for (int64_t count = 1; count < m; count += 5) {
                part.p.m = count;
                multiply(tables[i], &part, &some, 1, 1);
                assert_memory_equal(all.bytes, some.bytes, (size_t)(count * n) * bytes);
            }
            part = x;
            for (int64_t count = 1; count < n; count += 11) {
                part.p.n = count;
                multiply(tables[i], &part, &some, 1, 1);
                for (int64_t r = 0; r < m; r++)
                    assert_memory_equal(all.bytes + (size_t)(r * n) * bytes,
                                        some.bytes + (size_t)(r * n) * bytes,
                                        (size_t)count * bytes);
            }
            free(all.bytes);
            free(some.bytes);
            problem_fini(&x);
        }
}

/* With beta 0 what C holds does not matter, NaN included; a NaN of A reaches its row. */
static void test_nan(void **state)
{
    (void)state;
    uint64_t seed = 8;
    problem x = new_problem(20, 40, 30, IG__MM_F32, IG__MM_F32, rows, &seed);
    for (int64_t i = 0; i < x.c.n; i++)
        ((float *)x.c.bytes)[i] = NAN;
    for (int i = 0; i < n_tables; i++) {
        memory c = copy_of(&x.c);
        multiply(tables[i], &x, &c, 1, 1);
        for (int64_t j = 0; j < c.n; j++)
            assert_true(isfinite(((float *)c.bytes)[j]));
        ((float *)x.a.bytes)[3 * 30 + 29] = NAN;
        multiply(tables[i], &x, &c, 1, 1);
        for (int64_t j = 0; j < c.n; j++)
            assert_int_equal(isnan(((float *)c.bytes)[j]) != 0, j / 40 == 3);
        ((float *)x.a.bytes)[3 * 30 + 29] = 1.0f;
        free(c.bytes);
    }
    problem_fini(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_large),
        cmocka_unit_test(test_layouts),
        cmocka_unit_test(test_types),
        cmocka_unit_test(test_batches),
        cmocka_unit_test(test_strides),
        cmocka_unit_test(test_same_bits_threads),
        cmocka_unit_test(test_shared_panels),
        cmocka_unit_test(test_same_bits_alone),
        cmocka_unit_test(test_nan),
    };
    return cmocka_run_group_tests(tests, make_tables, NULL);
}
