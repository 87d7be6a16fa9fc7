/* The kernels that work on one row, of every table that this CPU has, against double
 * precision; and what must hold exactly: aliasing, untouched neighbours, values that do not
 * depend on the row's length, pages of the same bytes from every table.
 */
#include "kernel/kernel.h"
#include "kernel/kernel_data.h"
#include "tolerance.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

enum { MOST = 640, ROOM = MOST + 32 };

static const int64_t lengths[] = {1, 2, 3, 15, 16, 17, 31, 32, 33, 63, 65, 576, 640};
enum { N_LENGTHS = sizeof lengths / sizeof lengths[0] };

static const ig__kernels *tables[4];
static int n_tables;

static int find_tables(void **state)
{
    (void)state;
    n_tables = ig__kernels_available(tables);
    return n_tables > 0 ? 0 : -1;
}

typedef struct rows {
    float x[ROOM], z[ROOM], y[ROOM];
} rows;

/* Values around `size`, zeros of both signs and a few large ones among them. */
static void fill_rows(rows *r, float size, uint64_t seed)
{
    for (int i = 0; i < ROOM; i++) {
        r->x[i] = random_f32(&seed) * size;
        r->z[i] = random_f32(&seed);
        r->y[i] = 7.0f;
    }
    r->x[0] = -0.0f;
    r->x[3] = 0.0f;
    r->x[5] = -50.0f;
    r->x[9] = 40.0f;
    r->x[14] = 1e30f;
}

/* A kernel y = f(x, z) of one element, in one shape for all of them. */
typedef struct elementwise {
    const char *name;
    void (*run)(const ig__kernels *t, float *y, const float *x, const float *z, int64_t d);
    double (*value)(double x, double z);
    double (*tolerance)(double x);
} elementwise;

static void run_add(const ig__kernels *t, float *y, const float *x, const float *z,
                    int64_t d)
{
    t->add(y, x, z, d);
}

static void run_mul(const ig__kernels *t, float *y, const float *x, const float *z,
                    int64_t d)
{
    t->mul(y, x, z, d);
}

static void run_scale(const ig__kernels *t, float *y, const float *x, const float *z,
                      int64_t d)
{
    (void)z;
    t->scale(y, x, 0.3f, d);
}

static void run_silu(const ig__kernels *t, float *y, const float *x, const float *z,
                     int64_t d)
{
    t->silu_mul(y, x, z, d);
}

static void run_gelu(const ig__kernels *t, float *y, const float *x, const float *z,
                     int64_t d)
{
    t->gelu_mul(y, x, z, d);
}

static double value_add(double x, double z)
{
    return x + z;
}

static double value_mul(double x, double z)
{
    return x * z;
}

static double value_scale(double x, double z)
{
    (void)z;
    return x * (double)0.3f;
}

static double value_silu(double x, double z)
{
    return x / (1 + exp(-x)) * z;
}

static double twice_u(double x)
{
    return 2 * sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x);
}

static double value_gelu(double x, double z)
{
    return x / (1 + exp(-twice_u(x))) * z;
}

static double tolerance_element(double x)
{
    (void)x;
    return TOL_ELEMENT;
}

static double tolerance_silu(double x)
{
    (void)x;
    return TOL_SILU;
}

static double tolerance_gelu(double x)
{
    return tol_gelu(fabs(twice_u(x)) < 100 ? twice_u(x) : 0);
}

static const elementwise kernels[] = {
    {"add", run_add, value_add, tolerance_element},
    {"mul", run_mul, value_mul, tolerance_element},
    {"scale", run_scale, value_scale, tolerance_element},
    {"silu_mul", run_silu, value_silu, tolerance_silu},
    {"gelu_mul", run_gelu, value_gelu, tolerance_gelu},
};
enum { N_KERNELS = sizeof kernels / sizeof kernels[0] };

/* |got - want| within `relative`; results below the least normal float may vanish. */
static void assert_near(float got, double want, double relative, const char *isa,
                        const char *name, int64_t i)
{
    if (fabs((double)got - want) <= relative * fabs(want) + (double)FLT_MIN)
        return;
    fail_msg("%s %s [%d]: %.9g, wanted %.9g", isa, name, (int)i, (double)got, want);
}

static void test_elementwise(void **state)
{
    (void)state;
    static rows r;
    for (int t = 0; t < n_tables; t++)
        for (int k = 0; k < N_KERNELS; k++)
            for (int n = 0; n < N_LENGTHS; n++) {
                const int64_t d = lengths[n];
                fill_rows(&r, 8.0f, (uint64_t)(n + 1));
                kernels[k].run(tables[t], r.y, r.x, r.z, d);
                for (int64_t i = 0; i < d; i++)
                    assert_near(r.y[i], kernels[k].value((double)r.x[i], (double)r.z[i]),
                                kernels[k].tolerance((double)r.x[i]), tables[t]->isa,
                                kernels[k].name, i);
                for (int64_t i = d; i < ROOM; i++)
                    assert_true(r.y[i] == 7.0f);
            }
}

/* One element has the same bits at any place of a row of any length, and when the result is
 * written over either operand. */
static void test_elementwise_same_bits(void **state)
{
    (void)state;
    static rows whole, part;
    static float one[ROOM];
    for (int t = 0; t < n_tables; t++)
        for (int k = 0; k < N_KERNELS; k++) {
            fill_rows(&whole, 30.0f, 3);
            kernels[k].run(tables[t], whole.y, whole.x, whole.z, MOST);
            for (int n = 0; n < N_LENGTHS; n++) {
                const int64_t d = lengths[n], at = MOST - d;
                kernels[k].run(tables[t], one, whole.x + at, whole.z + at, d);
                assert_memory_equal(one, whole.y + at, (size_t)d * 4);
                fill_rows(&part, 30.0f, 3);
                kernels[k].run(tables[t], part.x, part.x, part.z, d);
                assert_memory_equal(part.x, whole.y, (size_t)d * 4);
                fill_rows(&part, 30.0f, 3);
                kernels[k].run(tables[t], part.z, part.x, part.z, d);
                assert_memory_equal(part.z, whole.y, (size_t)d * 4);
            }
        }
}

/* exp over its whole range: silu(x) follows its relative error where x is negative. */
static void test_silu_everywhere(void **state)
{
    (void)state;
    static rows r;
    for (int t = 0; t < n_tables; t++)
        for (int part = 0; part < 40; part++) {
            for (int i = 0; i < MOST; i++) {
                r.x[i] = -86.9f + (float)(part * MOST + i) * (173.8f / (40 * MOST));
                r.z[i] = 1.0f;
            }
            tables[t]->silu_mul(r.y, r.x, r.z, MOST);
            for (int i = 0; i < MOST; i++)
                assert_near(r.y[i], value_silu((double)r.x[i], 1), TOL_SILU, tables[t]->isa,
                            "silu_mul", i);
        }
}

/* The ends of exp: silu and gelu go to x above and to 0 below, infinities and NaN show. */
static void test_activation_ends(void **state)
{
    (void)state;
    const float x[8] = {-1e30f, -100.0f, -89.0f, -87.5f, 87.5f, 89.0f, 1e30f, 0.0f};
    const float one[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    for (int t = 0; t < n_tables; t++)
        for (int k = 3; k < N_KERNELS; k++) {
            float y[8];
            kernels[k].run(tables[t], y, x, one, 8);
            for (int i = 0; i < 4; i++)
                assert_true(fabsf(y[i]) < 1e-35f);
            for (int i = 4; i < 8; i++)
                assert_true(y[i] == x[i]);
            const float bad[3] = {NAN, INFINITY, -NAN};
            kernels[k].run(tables[t], y, bad, one, 3);
            for (int i = 0; i < 3; i++)
                assert_false(isfinite(y[i]));
        }
}

static void test_rms_norm(void **state)
{
    (void)state;
    static rows r;
    for (int t = 0; t < n_tables; t++)
        for (int n = 0; n < N_LENGTHS; n++) {
            const int64_t d = lengths[n];
            fill_rows(&r, 2.0f, 11);
            r.x[0] = 1.5f;
            r.x[14] = 3.0f;
            double sum = 0;
            for (int64_t i = 0; i < d; i++)
                sum += (double)r.x[i] * (double)r.x[i];
            const double inv = 1 / sqrt(sum / (double)d + (double)1e-5f);
            tables[t]->rms_norm(r.y, r.x, r.z, d, 1e-5f);
            for (int64_t i = 0; i < d; i++)
                assert_near(r.y[i], (double)r.x[i] * inv * (double)r.z[i], tol_rms_norm(d),
                            tables[t]->isa, "rms_norm", i);
            for (int64_t i = d; i < ROOM; i++)
                assert_true(r.y[i] == 7.0f);
            tables[t]->rms_norm(r.x, r.x, r.z, d, 1e-5f);
            assert_memory_equal(r.x, r.y, (size_t)d * 4);
        }
}

static void rotate_exactly(double *a, double *b, const float *cos_sin)
{
    const double c = (double)cos_sin[0], s = (double)cos_sin[1], x0 = *a, x1 = *b;
    *a = x0 * c - x1 * s;
    *b = x0 * s + x1 * c;
}

static void test_rope(void **state)
{
    (void)state;
    const int64_t widths[] = {2, 4, 16, 30, 32, 34, 64, 80, 128, 256};
    static rows r;
    static float angles[ROOM];
    static double want[ROOM];
    for (int i = 0; i < ROOM / 2; i++) {
        angles[2 * i] = cosf((float)i);
        angles[2 * i + 1] = sinf((float)i);
    }
    for (int t = 0; t < n_tables; t++)
        for (int n = 0; n < (int)(sizeof widths / sizeof widths[0]); n++)
            for (int halves = 0; halves < 2; halves++) {
                const int64_t w = widths[n];
                fill_rows(&r, 1.0f, 5);
                r.x[5] = r.x[9] = r.x[14] = 0.3f;
                for (int64_t i = 0; i < w; i++)
                    want[i] = (double)r.x[i];
                for (int64_t i = 0; i < w / 2; i++)
                    rotate_exactly(halves ? &want[i] : &want[2 * i],
                                   halves ? &want[w / 2 + i] : &want[2 * i + 1],
                                   angles + 2 * i);
                const float behind = r.x[w];
                tables[t]->rope(r.x, angles, w, halves != 0);
                assert_true(r.x[w] == behind);
                for (int64_t i = 0; i < w; i++)
                    assert_true(fabs((double)r.x[i] - want[i]) <= TOL_ROPE * 2);
            }
}

static void test_all_finite(void **state)
{
    (void)state;
    const float bad[3] = {NAN, INFINITY, -INFINITY};
    float x[200];
    for (int t = 0; t < n_tables; t++)
        for (int n = 0; n <= 180; n++) {
            for (int i = 0; i < 200; i++)
                x[i] = i % 2 ? FLT_MAX : -FLT_TRUE_MIN;
            x[n] = NAN;
            assert_true(tables[t]->all_finite(x, n));
            for (int i = 0; i < n; i++) {
                const float kept = x[i];
                x[i] = bad[i % 3];
                assert_false(tables[t]->all_finite(x, n));
                x[i] = kept;
            }
        }
}

/* ---- pages ---- */

enum { HEAD = 256 };

/* A key or a value with rows that are hard to quantise: by blocks of 32 ordinary, zeros,
 * below f16's least, among its subnormals, one large, beyond f16's largest. */
static void fill_head(float *x, uint64_t seed, bool tame)
{
    const float sizes[6] = {1.0f, 0.0f, 1e-9f, 3e-6f, 1e3f, 1e5f};
    for (int i = 0; i < HEAD; i++)
        x[i] = random_f32(&seed) * (tame ? 1.0f : sizes[i / 32 % 6]);
}

static void test_kv_write_same_pages(void **state)
{
    (void)state;
    const int64_t widths[] = {32, 64, 96, 128, 256, 16, 80};
    float k[HEAD], v[HEAD];
    for (int kv = 0; kv < IG__KV_COUNT; kv++)
        for (int n = 0; n < (kv == IG__KV_Q8_0 ? 5 : 7); n++) {
            const int64_t w = widths[n];
            const size_t bytes = ig__page_bytes((ig__kv)kv, w);
            char *want = new_bytes(bytes + 64);
            char *got = new_bytes(bytes + 64);
            for (int t = 1; t < n_tables; t++)
                for (int64_t slot = 0; slot < IG_PAGE; slot++) {
                    memset(want, 0xa5, bytes + 64);
                    memset(got, 0xa5, bytes + 64);
                    fill_head(k, (uint64_t)(slot + 1), false);
                    fill_head(v, (uint64_t)(slot + 77), false);
                    k[slot] = slot % 3 == 2 ? INFINITY : k[slot];
                    v[w - 1] = slot % 5 == 4 ? NAN : v[w - 1];
                    tables[0]->kv_write[kv](want, slot, k, v, w);
                    tables[t]->kv_write[kv](got, slot, k, v, w);
                    if (kv == IG__KV_Q8_0 || slot % 5 != 4)
                        assert_memory_equal(want, got, bytes + 64);
                }
            free(want);
            free(got);
        }
}

/* What was written comes back: F32 exactly, F16 within half an ulp, Q8_0 within half a
 * step; slots of others stay. */
static void test_kv_write_round_trip(void **state)
{
    (void)state;
    const int64_t w = 64;
    float k[HEAD], v[HEAD];
    for (int t = 0; t < n_tables; t++)
        for (int kv = 0; kv < IG__KV_COUNT; kv++) {
            const size_t bytes = ig__page_bytes((ig__kv)kv, w);
            unsigned char *page = new_bytes(bytes);
            memset(page, 0, bytes);
            for (int64_t slot = 0; slot < IG_PAGE; slot++) {
                fill_head(k, (uint64_t)slot + 1, true);
                fill_head(v, (uint64_t)slot + 50, true);
                tables[t]->kv_write[kv](page, slot, k, v, w);
            }
            const unsigned char *half = page + bytes / 2;
            for (int64_t slot = 0; slot < IG_PAGE; slot++) {
                fill_head(k, (uint64_t)slot + 1, true);
                fill_head(v, (uint64_t)slot + 50, true);
                for (int64_t d = 0; d < w; d++) {
                    const int64_t ik = d * 16 + slot, iv = slot * w + d;
                    float a, b, most;
                    uint16_t h;
                    if (kv == IG__KV_F32) {
                        memcpy(&a, page + ik * 4, 4);
                        memcpy(&b, half + iv * 4, 4);
                        most = 0.0f;
                    } else if (kv == IG__KV_F16) {
                        memcpy(&h, page + ik * 2, 2);
                        a = ig__f16_to_f32(h);
                        memcpy(&h, half + iv * 2, 2);
                        b = ig__f16_to_f32(h);
                        most = 0x1p-12f;
                    } else {
                        memcpy(&h, page + w * 16 + (d / 32 * 16 + slot) * 2, 2);
                        a = (float)(page[ik] - 128) * ig__f16_to_f32(h);
                        memcpy(&h, half + w * 16 + (slot * (w / 32) + d / 32) * 2, 2);
                        b = (float)(half[iv] - 128) * ig__f16_to_f32(h);
                        most = 0.51f / 127.0f;
                    }
                    assert_true(fabsf(a - k[d]) <= most);
                    assert_true(fabsf(b - v[d]) <= most);
                }
            }
            free(page);
        }
}

static void test_stream_read(void **state)
{
    (void)state;
    enum { BYTES = 5 * 4096 };
    uint64_t *p = new_bytes(BYTES), seed = 9;
    for (int i = 0; i < BYTES / 8; i++)
        p[i] = (uint64_t)random_u32(&seed) << 32 | random_u32(&seed);
    for (int t = 0; t < n_tables; t++)
        for (size_t n = 0; n <= BYTES; n += 4096) {
            uint64_t sum = 0;
            for (size_t i = 0; i < n / 8; i++)
                sum += p[i];
            assert_true(tables[t]->stream_read(p, n) == sum);
        }
    free(p);
}

static void test_peaks_count(void **state)
{
    (void)state;
    for (int t = 0; t < n_tables; t++) {
        assert_true(tables[t]->peak_f32(10) == 10 * tables[t]->peak_f32(1));
        assert_true(tables[t]->peak_int8(10) > tables[t]->peak_f32(1));
        if (tables[t]->peak_bf16)
            assert_true(tables[t]->peak_bf16(3) > 0);
    }
}

/* The vector tables say the same operations in the same order. */
static void test_vector_tables_agree(void **state)
{
    (void)state;
    static rows a, b;
    for (int t = 2; t < n_tables; t++)
        for (int k = 0; k < N_KERNELS + 1; k++) {
            fill_rows(&a, 90.0f, 21);
            fill_rows(&b, 90.0f, 21);
            if (k == N_KERNELS) {
                a.x[14] = b.x[14] = 2.0f;
                tables[1]->rms_norm(a.y, a.x, a.z, 633, 1e-6f);
                tables[t]->rms_norm(b.y, b.x, b.z, 633, 1e-6f);
            } else {
                kernels[k].run(tables[1], a.y, a.x, a.z, 633);
                kernels[k].run(tables[t], b.y, b.x, b.z, 633);
            }
            assert_memory_equal(a.y, b.y, sizeof a.y);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_elementwise),
        cmocka_unit_test(test_elementwise_same_bits),
        cmocka_unit_test(test_silu_everywhere),
        cmocka_unit_test(test_activation_ends),
        cmocka_unit_test(test_rms_norm),
        cmocka_unit_test(test_rope),
        cmocka_unit_test(test_all_finite),
        cmocka_unit_test(test_kv_write_same_pages),
        cmocka_unit_test(test_kv_write_round_trip),
        cmocka_unit_test(test_stream_read),
        cmocka_unit_test(test_peaks_count),
        cmocka_unit_test(test_vector_tables_agree),
    };
    return cmocka_run_group_tests(tests, find_tables, NULL);
}
