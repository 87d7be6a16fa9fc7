/* Random programs over the public API: the same calls as calls, captured on one thread and on two
 * with passes left out by chance (the bits must agree), and on the reference kernels (close).
 *
 *   test_random_programs [count [first seed]]
 *
 * A program is a list of choices drawn from its seed: operators on a pool of tensors, views, writes in
 * place, random numbers, then often a backward and a step of its leaf. Each run begins with new
 * inputs; state (the leaf, a running sum) goes on.
 */
#include "ingot/ingot.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { POOL = 6, RUNS = 4, MOST = 4096 };

static int n_programs = 300, first_seed = 1;
static ig_error error;

static uint64_t next(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

typedef struct machine {
    ig_context *ctx;
    ig_program *program;
    uint32_t without; /* passes */
    ig_dtype dtype;
    int64_t rows, columns;
    ig_tensor *x, *leaf, *state; /* [rows,columns]: input, parameter, running sum */
    ig_tensor *y;                /* the result, counted */
} machine;

static ig_tensor *choose(uint64_t *s, ig_tensor *const *pool)
{
    return pool[next(s) % POOL];
}

/* One more value of [rows,columns], bounded, from the pool. */
static ig_tensor *operate(const machine *m, uint64_t *s, ig_tensor *const *pool)
{
    ig_tensor *a = choose(s, pool), *b = choose(s, pool), *t;
    const int dim = (int)(next(s) % 2);
    const int64_t half = m->columns / 2;
    switch (next(s) % 26) {
    case 0:
        return ig_tanh(ig_add(a, b));
    case 1:
        return ig_mul(a, ig_sigmoid(b));
    case 2:
        return ig_sub(a, ig_mean(b, 1, &dim, true));
    case 3:
        return ig_softmax(a, dim);
    case 4:
        return ig_relu(ig_sub(a, b));
    case 5: /* through [rows,rows] */
        return ig_tanh(ig_matmul(ig_matmul(a, ig_transpose(b, 0, 1)), b));
    case 6:
        t = ig_reshape(ig_transpose(a, 0, 1), 2, (const int64_t[]){m->rows, m->columns});
        return ig_mul(t, b);
    case 7: /* the halves change places; odd widths copy one column anew */
        return ig_cat((ig_tensor *const[]){ig_slice(a, 1, half, IG_END, 1),
                                           ig_slice(b, 1, 0, half, 1)},
                      2, 1);
    case 8: /* a copy written through a view */
        t = ig_copy(a);
        ig_assign(ig_slice(t, 0, 0, IG_END, 2), ig_slice(b, 0, 0, IG_END, 2));
        return t;
    case 9:
        t = ig_scale(a, 0.5);
        return ig_add_into(t, ig_square(ig_clamp(b, -1, 1)));
    case 10:
        return ig_where(ig_less(ig_uniform(m->ctx, m->dtype, IG_SHAPE(m->rows, 1), 0, 1),
                                ig_tensor_scalar(m->ctx, m->dtype, 0.5)),
                        a, b);
    case 11:
        return ig_dropout(a, 0.25);
    case 12:
        t = ig_tensor_from(m->ctx, IG_DTYPE_F32, IG_SHAPE(1), (const float[]){0.75f});
        ig_add_into(t, ig_mean(ig_detach(a), 0, NULL, false));
        return ig_cast(ig_mul(b, t), m->dtype);
    case 13:
        return ig_flip(a, dim);
    case 14:
        return ig_cast(ig_cast(ig_tanh(a), IG_DTYPE_F64), m->dtype);
    case 15: /* a row and a column, broadcast */
        return ig_tanh(ig_add(ig_mul(a, ig_slice(b, 0, 0, 1, 1)),
                              ig_slice(ig_flip(b, 1), 1, 0, 1, 1)));
    case 16:
        return ig_where(ig_logical_and(ig_less(a, b), ig_logical_not(ig_equal(b, m->x))),
                        ig_neg(a), ig_minimum(b, ig_square(a)));
    case 17: /* whole numbers between */
        return ig_scale(
            ig_cast(ig_cast(ig_scale(ig_clamp(a, -2, 2), 40), IG_DTYPE_I8), m->dtype),
            0.01);
    case 18:
        return ig_gelu(ig_clamp(ig_add(a, b), -3, 3));
    case 19:
        return ig_swiglu(ig_clamp(a, -2, 2), ig_tanh(b));
    case 20: /* written again and again */
        t = ig_copy(a);
        ig_add_into(t, ig_sigmoid(b));
        ig_scale_into(t, 0.75);
        return ig_sub_into(t, ig_tanh(a));
    case 21: /* one half from the other */
        t = ig_scale(a, 0.5);
        ig_add_into(ig_slice(t, 1, 0, half, 1), ig_slice(t, 1, half, 2 * half, 1));
        return t;
    case 22: /* the same twice */
        return ig_mul(ig_sin(ig_mul(a, b)), ig_cos(ig_mul(a, b)));
    case 23:
        return ig_tanh(ig_exp(ig_clamp(ig_maximum(ig_abs(a), b), -1, 1)));
    case 24:
        return ig_rms_norm(a, ig_reshape(ig_slice(b, 0, 0, 1, 1), 1, &m->columns), 0.1);
    default:
        return ig_expand(ig_mean(a, 1, &dim, true), 2,
                         (const int64_t[]){m->rows, m->columns});
    }
}

static void perform(machine *m, uint64_t seed)
{
    uint64_t s = seed * 77 + 5;
    ig_scope *scope = ig_scope_begin(m->ctx);
    ig_tensor *pool[POOL] = {m->x, m->leaf, ig_tanh(m->x), m->leaf, m->x, ig_tanh(m->leaf)};
    const int n = 3 + (int)(next(&s) % 15);
    for (int i = 0; i < n; i++) {
        ig_tensor *y = operate(m, &s, pool);
        pool[next(&s) % POOL] = y;
        pool[POOL - 1] = y;
    }
    const bool trains = next(&s) % 4 > 0;
    const bool was = ig_grad_enable(m->ctx, true);
    if (trains) {
        if (next(&s) % 4)
            ig_tensor_clear_grad(m->leaf);
        ig_tensor *loss =
            ig_mean(ig_square(ig_add(pool[POOL - 1], m->leaf)), 0, NULL, false);
        if (loss)
            ig_backward(loss);
    }
    ig_grad_enable(m->ctx, false);
    if (trains)
        ig_sub_into(m->leaf, ig_clamp(ig_tensor_grad(m->leaf), -0.1, 0.1));
    ig_scale_into(m->state, 0.5);
    ig_add_into(m->state, ig_tanh(pool[POOL - 1]));
    ig_grad_enable(m->ctx, was);
    ig_tensor_release(m->y);
    m->y = ig_tensor_retain(ig_detach(pool[POOL - 1]));
    ig_scope_end(scope);
}

/* Of a number that bf16 holds. */
static uint16_t bf16_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (uint16_t)(bits >> 16);
}

static bool feed(machine *m, uint64_t seed, uint64_t run)
{
    static double data[MOST];
    uint64_t s = seed * 31 + run;
    const int64_t n = m->rows * m->columns;
    for (int64_t i = 0; i < n; i++) {
        const double v = (double)next(&s) / 1073741824.0 - 1;
        if (m->dtype == IG_DTYPE_F64)
            data[i] = v;
        else if (m->dtype == IG_DTYPE_BF16) /* steps of 1/64 */
            ((uint16_t *)data)[i] = bf16_of((float)((int)(v * 64)) / 64);
        else
            ((float *)data)[i] = (float)v;
    }
    return ig_tensor_write(m->x, data, ig_tensor_bytes(m->x), &error) == IG_OK;
}

static void begin(machine *m, int n_threads, const char *isa, uint64_t seed)
{
    uint64_t s = seed;
    const ig_context_opts opts = {.n_threads = n_threads, .isa = isa};
    static const ig_dtype dtypes[] = {IG_DTYPE_F32, IG_DTYPE_F32, IG_DTYPE_F64,
                                      IG_DTYPE_BF16};
    *m = (machine){.dtype = dtypes[next(&s) % 4]};
    assert_int_equal(ig_context_create(&m->ctx, &opts, &error), IG_OK);
    m->rows = 1 + (int64_t)(next(&s) % 40);
    m->columns = 1 + (int64_t)(next(&s) % 40);
    ig_seed(m->ctx, seed);
    m->x = ig_zeros(m->ctx, m->dtype, IG_SHAPE(m->rows, m->columns));
    m->state = ig_zeros(m->ctx, m->dtype, IG_SHAPE(m->rows, m->columns));
    m->leaf = ig_tensor_require_grad(
        ig_full(m->ctx, m->dtype, IG_SHAPE(m->rows, m->columns), 0.25), true);
    assert_true(feed(m, seed, 0));
}

/* The second run of a captured machine is the recording: gradients are there then. */
static void run(machine *m, uint64_t seed, uint64_t run, bool captured)
{
    captured = captured && run > 0;
    assert_true(feed(m, seed, run));
    if (captured && m->program) {
        if (ig_program_run(m->program, &error) != IG_OK)
            fail_msg("seed %d: %s", (int)seed, error.message);
        return;
    }
    if (captured)
        assert_int_equal(ig_capture_begin(m->ctx, &error), IG_OK);
    perform(m, seed);
    if (ig_context_status(m->ctx) != IG_OK)
        fail_msg("seed %d: %s", (int)seed, ig_context_message(m->ctx));
    const ig_capture_opts opts = {.without = m->without};
    if (captured && ig_capture_end_with(&m->program, m->ctx, &opts, &error) != IG_OK)
        fail_msg("seed %d: %s", (int)seed, error.message);
}

static void end(machine *m)
{
    ig_program_destroy(m->program);
    ig_tensor_release(m->y);
    ig_context_destroy(m->ctx);
}

static double value_of(const char *p, ig_dtype dtype, size_t i)
{
    return dtype == IG_DTYPE_F64 ? ((const double *)(const void *)p)[i]
                                 : (double)((const float *)(const void *)p)[i];
}

/* tolerance 0: the same bits */
static void compare(ig_tensor *a, ig_tensor *b, double tolerance, uint64_t seed,
                    const char *what)
{
    static char x[MOST * 8], y[MOST * 8];
    assert_int_equal(!a, !b);
    if (!a)
        return;
    const size_t bytes = ig_tensor_bytes(a);
    assert_int_equal(ig_tensor_read(a, x, bytes, &error), IG_OK);
    assert_int_equal(ig_tensor_read(b, y, bytes, &error), IG_OK);
    if (!memcmp(x, y, bytes))
        return;
    if (tolerance == 0)
        fail_msg("seed %d, %s: bits differ", (int)seed, what);
    for (int64_t i = 0; i < ig_tensor_count(a); i++) {
        const double u = value_of(x, ig_tensor_dtype(a), (size_t)i),
                     v = value_of(y, ig_tensor_dtype(a), (size_t)i);
        if (!(fabs(u - v) <= tolerance * (1 + fabs(v))))
            fail_msg("seed %d, %s, element %d: %.9g, not %.9g", (int)seed, what, (int)i, u,
                     v);
    }
}

static void compare_all(machine *a, machine *b, double tolerance, uint64_t seed)
{
    compare(a->y, b->y, tolerance, seed, "result");
    compare(a->state, b->state, tolerance, seed, "state");
    compare(a->leaf, b->leaf, tolerance, seed, "leaf");
    compare(ig_tensor_grad(a->leaf), ig_tensor_grad(b->leaf), tolerance, seed, "gradient");
}

static void test_random(void **unused)
{
    (void)unused;
    for (int k = 0; k < n_programs; k++) {
        const uint64_t seed = (uint64_t)(first_seed + k);
        machine eager, one, two, plain;
        begin(&eager, 1, NULL, seed), begin(&one, 1, NULL, seed),
            begin(&two, 2, NULL, seed);
        begin(&plain, 1, "ref", seed);
        two.without = (uint32_t)(seed * 2654435761u >> 20) & (uint32_t)(seed >> 1);
        const double tolerance = eager.dtype == IG_DTYPE_F64 ? 1e-6 : 2e-3;
        for (uint64_t r = 0; r < RUNS; r++) {
            run(&eager, seed, r, false), run(&plain, seed, r, false);
            run(&one, seed, r, true), run(&two, seed, r, true);
            compare_all(&one, &eager, 0, seed);
            compare_all(&two, &eager, 0, seed);
            if (r == 0 && eager.dtype != IG_DTYPE_BF16)
                compare_all(&plain, &eager, tolerance, seed);
        }
        end(&eager), end(&one), end(&two), end(&plain);
    }
}

int main(int argc, char **argv)
{
    if (argc > 1)
        n_programs = (int)strtol(argv[1], NULL, 10);
    if (argc > 2)
        first_seed = (int)strtol(argv[2], NULL, 10);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
