/* The elementwise kernels of training, of every table, against double precision over all of
 * float32: functions within their bound, gradients, operands with strides 0 and 1, aliasing,
 * untouched neighbours, and the same bits at any place and from both vector sets.
 */
#include "kernel/train_data.h"

#include <float.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

enum { MOST = 4096, ROOM = MOST + 32 };

static const int64_t lengths[] = {0, 1, 2, 3, 15, 16, 17, 31, 32, 33, 63, 65, 577};
enum { N_LENGTHS = sizeof lengths / sizeof lengths[0] };

static const char *const names[] = {
#define NAME(name) #name,
    IG__UNARY_MAP(NAME)
#undef NAME
};

/* Units of the last place that a function may be off at x. */
static double bound(ig__unary op, double x)
{
    if (op == IG__UNARY_GELU)
        return 5;
    if (op == IG__UNARY_SIGMOID || op == IG__UNARY_SILU)
        return 2.5;
    if (op != IG__UNARY_GELU_TANH)
        return 2;
    const double u = fabs(0.79788456 * (x + 0.044715 * x * x * x));
    return 4 + 4 * (u < 200 ? u : 200);
}

/* The part `which` of a walk over all of float32 in n parts: bit patterns of both signs,
 * the last bits shuffled, the special ones among them. */
static void fill_bits(float *x, int64_t n, uint32_t which, uint32_t parts)
{
    const float special[] = {0.0f,         -0.0f,         1.0f,        -1.0f,    INFINITY,
                             -INFINITY,    NAN,           FLT_MAX,     -FLT_MAX, FLT_MIN,
                             FLT_TRUE_MIN, -FLT_TRUE_MIN, 88.7228394f, -103.97f, -87.3f,
                             1e9f,         3e17f};
    for (int64_t i = 0; i < n; i++) {
        const uint64_t at = (uint64_t)i * parts + which;
        const uint32_t bits = (uint32_t)(at * (0x100000000u / ((uint64_t)n * parts)));
        const uint32_t mixed = bits ^ ((uint32_t)at * 2654435761u & 0x3ff);
        memcpy(&x[i], &mixed, 4);
    }
    memcpy(x, special, sizeof special);
}

static void check_functions(const ig__train_kernels *t, float *x, float *y, double *dx,
                            double *dy, int64_t n, double worst[])
{
    const ig__train_kernels *ref = ig__train_kernels_pick("ref");
    for (int64_t i = 0; i < n; i++)
        dx[i] = (double)x[i];
    for (int op = 0; op < IG__UNARY_COUNT; op++) {
        t->unary((ig__unary)op, y, x, n);
        ref->unary_f64((ig__unary)op, dy, dx, n);
        for (int64_t i = 0; i < n; i++) {
            const double off = ulps(y[i], dy[i]), most = bound((ig__unary)op, dx[i]);
            worst[op] = fmax(worst[op], off / most);
            if (off > most)
                fail_msg("%s %s(%.9g) = %.9g, wanted %.9g: %.2f units", t->isa, names[op],
                         dx[i], (double)y[i], dy[i], off);
        }
    }
}

static void test_functions_everywhere(void **state)
{
    (void)state;
    static float x[MOST], y[MOST];
    static double dx[MOST], dy[MOST];
    const train_tables all = find_train_tables();
    for (int t = 0; t < all.n; t++) {
        double worst[IG__UNARY_COUNT] = {0};
        for (uint32_t part = 0; part < 32; part++) {
            fill_bits(x, MOST, part, 32);
            check_functions(all.t[t], x, y, dx, dy, MOST, worst);
        }
        for (int part = 0; part < 40; part++) { /* densely where they bend */
            const float from = part < 20 ? -1.2f : -110.0f,
                        width = part < 20 ? 2.4f : 220.0f;
            for (int i = 0; i < MOST; i++)
                x[i] =
                    from + ((float)(part % 20 * MOST + i) + 0.3f) * (width / (20 * MOST));
            check_functions(all.t[t], x, y, dx, dy, MOST, worst);
        }
        if (t > 0)
            for (int op = 0; op < IG__UNARY_COUNT; op++)
                if (worst[op] > 0.5)
                    print_message("%s %s: %.2f of its bound\n", all.t[t]->isa, names[op],
                                  worst[op]);
    }
}

/* Gradients against the reference's, where float32 can tell: relative to the value's parts. */
static void test_gradients(void **state)
{
    (void)state;
    static float x[MOST], y[MOST], dy[MOST], got[MOST], want[MOST];
    const train_tables all = find_train_tables();
    for (int t = 1; t < all.n; t++)
        for (int op = 0; op < IG__UNARY_COUNT; op++)
            for (int part = 0; part < 4; part++) {
                fill_f32(x, MOST, part < 2 ? 3.0f : 12.0f, (uint64_t)part + 1);
                fill_f32(dy, MOST, 1.0f, (uint64_t)part + 9);
                x[7] = 0.0f;
                all.t[0]->unary((ig__unary)op, y, x, MOST);
                all.t[0]->unary_grad((ig__unary)op, want, dy, x, y, MOST);
                all.t[t]->unary_grad((ig__unary)op, got, dy, x, y, MOST);
                for (int i = 0; i < MOST; i++) {
                    const double part_size =
                        op == IG__UNARY_TANH || op == IG__UNARY_SIGMOID ||
                                op == IG__UNARY_SILU || op == IG__UNARY_GELU ||
                                op == IG__UNARY_GELU_TANH || op == IG__UNARY_COS ||
                                op == IG__UNARY_SIN
                            ? fabs((double)dy[i])
                            : fabs((double)want[i]);
                    const double off = fabs((double)got[i] - (double)want[i]);
                    if (isnan(want[i]) ? isnan(got[i])
                        : isinf(want[i])
                            ? got[i] == want[i]
                            : off <= 8 * 0x1p-24 * part_size * fmax(1, fabs((double)x[i])) +
                                         0x1p-140)
                        continue;
                    fail_msg("%s %s'(%.9g) = %.9g, wanted %.9g", all.t[t]->isa, names[op],
                             (double)x[i], (double)got[i], (double)want[i]);
                }
            }
}

/* The slopes themselves, by differences in double. */
static void test_slopes(void **state)
{
    (void)state;
    const ig__train_kernels *ref = ig__train_kernels_pick("ref");
    for (int op = 0; op < IG__UNARY_COUNT; op++)
        for (int i = 0; i < 60; i++) {
            const double x[3] = {-2.9 + 0.1013 * i, x[0] - 1e-5, x[0] + 1e-5}, one = 1;
            double y[3], slope;
            ref->unary_f64((ig__unary)op, y, x, 3);
            ref->unary_grad_f64((ig__unary)op, &slope, &one, x, y, 1);
            const double want = (y[2] - y[1]) / 2e-5;
            if (!isnan(want) && fabs(slope - want) > 1e-6 * fmax(1, fabs(want)))
                fail_msg("%s'(%g) = %.9g, differences say %.9g", names[op], x[0], slope,
                         want);
        }
}

/* Infinite and dead branches give no NaN. */
static void test_gradient_ends(void **state)
{
    (void)state;
    const train_tables all = find_train_tables();
    const ig__unary op[] = {IG__UNARY_RELU,     IG__UNARY_SILU,     IG__UNARY_GELU,
                            IG__UNARY_SOFTPLUS, IG__UNARY_SIGMOID,  IG__UNARY_TANH,
                            IG__UNARY_ERF,      IG__UNARY_GELU_TANH};
    const float x[4] = {-1e30f, 1e30f, -INFINITY, INFINITY}, dy[4] = {1, 1, 1, 1};
    for (int t = 0; t < all.n; t++)
        for (size_t k = 0; k < sizeof op / sizeof *op; k++) {
            float y[4], dx[4];
            all.t[t]->unary(op[k], y, x, 4);
            all.t[t]->unary_grad(op[k], dx, dy, x, y, 4);
            for (int i = 0; i < 4; i++)
                if (dx[i] != 0.0f && dx[i] != 1.0f)
                    fail_msg("%s %s'(%g) = %g", all.t[t]->isa, names[op[k]], (double)x[i],
                             (double)dx[i]);
        }
}

/* A value has the same bits at any place of an array of any length, over an operand, and from
 * both vector sets; nothing behind the end is written. */
static void test_same_bits(void **state)
{
    (void)state;
    static float x[ROOM], whole[ROOM], first[ROOM], part[ROOM];
    const train_tables all = find_train_tables();
    for (int op = 0; op < IG__UNARY_COUNT; op++)
        for (int t = 1; t < all.n; t++) {
            fill_bits(x, MOST, 5, 32);
            all.t[t]->unary((ig__unary)op, whole, x, MOST);
            if (t == 1)
                memcpy(first, whole, sizeof first);
            for (int i = 0; i < MOST; i++)
                if (memcmp(&whole[i], &first[i], 4) &&
                    !(isnan(whole[i]) && isnan(first[i])))
                    fail_msg("%s(%.9g): %s %.9g, %s %.9g", names[op], (double)x[i],
                             all.t[1]->isa, (double)first[i], all.t[t]->isa,
                             (double)whole[i]);
            for (int n = 0; n < N_LENGTHS; n++) {
                const int64_t d = lengths[n], at = 1000 - d;
                memcpy(part, x + at, (size_t)(d + 16) * 4);
                all.t[t]->unary((ig__unary)op, part, part, d);
                assert_memory_equal(part, whole + at, (size_t)d * 4);
                assert_memory_equal(part + d, x + at + d, 64);
            }
        }
}

/* ---- two operands ---- */

static void test_binary(void **state)
{
    (void)state;
    static float x[ROOM], y[ROOM], got[ROOM], want[ROOM];
    const train_tables all = find_train_tables();
    for (int t = 1; t < all.n; t++)
        for (int op = 0; op < IG__BINARY_COUNT; op++)
            for (int strides = 0; strides < 4; strides++)
                for (int n = 0; n < N_LENGTHS; n++) {
                    const int64_t d = lengths[n], sx = strides & 1, sy = strides >> 1;
                    fill_f32(x, ROOM, 3.0f, 1);
                    fill_f32(y, ROOM, 3.0f, 2);
                    x[0] = n % 2 ? 2.5f : x[0];
                    x[5] = y[6] = NAN;
                    x[8] = INFINITY;
                    x[9] = y[9] = 0.0f;
                    x[10] = -0.0f;
                    y[10] = -3.0f;
                    x[11] = FLT_TRUE_MIN;
                    memset(got, 0x55, sizeof got);
                    memset(want, 0x55, sizeof want);
                    all.t[0]->binary((ig__binary)op, want, x, sx, y, sy, d);
                    all.t[t]->binary((ig__binary)op, got, x, sx, y, sy, d);
                    for (int64_t i = 0; i < d; i++)
                        if (ulps(got[i], (double)want[i]) > (op == IG__BINARY_POW ? 1 : 0))
                            fail_msg("%s binary %d: %.9g %.9g gives %.9g, wanted %.9g",
                                     all.t[t]->isa, op, (double)x[i * sx],
                                     (double)y[i * sy], (double)got[i], (double)want[i]);
                    assert_memory_equal(got + d, want + d, 64);
                    all.t[t]->binary((ig__binary)op, y, x, sx, y, sy, d);
                    assert_memory_equal(y, got, (size_t)d * 4);
                }
}

/* pow over the whole range. */
static void test_pow(void **state)
{
    (void)state;
    static float x[MOST], y[MOST], got[MOST];
    const train_tables all = find_train_tables();
    for (int t = 1; t < all.n; t++)
        for (uint32_t part = 0; part < 16; part++) {
            fill_bits(x, MOST, part, 16);
            uint64_t seed = part;
            for (int i = 0; i < MOST; i++) {
                const float small = random_f32(&seed) * 4.0f;
                const double l = log2(fabs((double)x[i]));
                y[i] = i % 3 == 0   ? rintf(small)
                       : i % 3 == 1 ? small
                                    : (float)(150.0 * (double)small / 4 / (l != 0 ? l : 1));
            }
            all.t[t]->binary(IG__BINARY_POW, got, x, 1, y, 1, MOST);
            for (int i = 0; i < MOST; i++) {
                const double want = pow((double)x[i], (double)y[i]);
                if (ulps(got[i], want) > 2)
                    fail_msg("%s pow(%.9g, %.9g) = %.9g, wanted %.9g", all.t[t]->isa,
                             (double)x[i], (double)y[i], (double)got[i], want);
            }
        }
}

static void test_compare_and_where(void **state)
{
    (void)state;
    static float x[ROOM], y[ROOM], got[ROOM], want[ROOM];
    static uint8_t c[ROOM], d[ROOM];
    const train_tables all = find_train_tables();
    for (int t = 1; t < all.n; t++)
        for (int op = 0; op < IG__COMPARE_COUNT; op++)
            for (int strides = 0; strides < 8; strides++)
                for (int n = 0; n < N_LENGTHS; n++) {
                    const int64_t len = lengths[n], sx = strides & 1, sy = strides >> 1 & 1;
                    const int64_t sc = strides >> 2;
                    fill_f32(x, ROOM, 3.0f, 4);
                    for (int i = 0; i < ROOM; i++)
                        y[i] = i % 3 ? x[i] : -x[i] * 2;
                    x[5] = NAN;
                    y[3] = NAN;
                    memset(c, 0x77, sizeof c);
                    memset(d, 0x77, sizeof d);
                    all.t[0]->compare((ig__compare)op, c, x, sx, y, sy, len);
                    all.t[t]->compare((ig__compare)op, d, x, sx, y, sy, len);
                    assert_memory_equal(c, d, sizeof c);
                    memset(got, 0x55, sizeof got);
                    memset(want, 0x55, sizeof want);
                    c[1] = 3;
                    all.t[0]->where(want, c, sc, x, sx, y, sy, len);
                    all.t[t]->where(got, c, sc, x, sx, y, sy, len);
                    assert_memory_equal(got, want, sizeof got);
                }
}

static void test_with_constants(void **state)
{
    (void)state;
    static float x[ROOM], y[ROOM], got[ROOM], want[ROOM];
    const train_tables all = find_train_tables();
    for (int t = 1; t < all.n; t++)
        for (int n = 0; n < N_LENGTHS; n++) {
            const int64_t d = lengths[n];
            fill_f32(x, ROOM, 3.0f, 4);
            fill_f32(y, ROOM, 3.0f, 5);
            x[2] = NAN;
            x[3] = -1.5f;
            memcpy(got, y, sizeof got);
            memcpy(want, y, sizeof got);
            all.t[0]->clamp(want, x, -1.5f, 2.0f, d);
            all.t[t]->clamp(got, x, -1.5f, 2.0f, d);
            assert_memory_equal(got, want, sizeof got);
            all.t[0]->clamp_grad(want, y, x, -1.5f, 2.0f, d);
            all.t[t]->clamp_grad(got, y, x, -1.5f, 2.0f, d);
            assert_memory_equal(got, want, sizeof got);
            x[2] = 1.0f;
            all.t[0]->affine(want, x, 1.7f, 0.3f, d);
            all.t[t]->affine(got, x, 1.7f, 0.3f, d);
            assert_memory_equal(got, want, sizeof got);
            all.t[0]->axpy(want, x, 1.7f, d);
            all.t[t]->axpy(got, x, 1.7f, d);
            assert_memory_equal(got, want, sizeof got);
            all.t[0]->lerp(want, x, 0.1f, d);
            all.t[t]->lerp(got, x, 0.1f, d);
            assert_memory_equal(got, want, sizeof got);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_functions_everywhere),
        cmocka_unit_test(test_gradients),
        cmocka_unit_test(test_slopes),
        cmocka_unit_test(test_gradient_ends),
        cmocka_unit_test(test_same_bits),
        cmocka_unit_test(test_binary),
        cmocka_unit_test(test_pow),
        cmocka_unit_test(test_compare_and_where),
        cmocka_unit_test(test_with_constants),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
