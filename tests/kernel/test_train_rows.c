/* Reductions and rows of training: the same bits from every table, strided, as a column and
 * by spans; long sums and variances; softmax and its kin, norms, cross entropy and the
 * embedding's gradient against the reference, and the cases that go wrong elsewhere.
 */
#include "kernel/train_data.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

static const int64_t lengths[] = {1, 2, 3, 15, 16, 17, 31, 33, 64, 127, 1000};
enum { N_LENGTHS = sizeof lengths / sizeof lengths[0], ROW = 1024 };

static void assert_same(double a, double b)
{
    assert_memory_equal(&a, &b, sizeof a);
}

/* ---- reductions ---- */

static void test_sums_same_bits(void **state)
{
    (void)state;
    const train_tables all = find_train_tables();
    const int64_t most = 2 * IG__SPAN + 77;
    float *x = new_f32(3 * most, 5.0f, 3);
    double *scratch = new_bytes(IG__COLUMN_SCRATCH);
    const int64_t sizes[] = {0, 1, 15, 16, 17, 100, IG__SPAN, IG__SPAN + 1, most};
    for (int op = 0; op < IG__REDUCE_COUNT; op++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            const int64_t n = sizes[i];
            const ig__reduce how = (ig__reduce)op;
            const double want = all.t[0]->reduce(how, x, n, 3, 0.3);
            for (int t = 0; t < all.n; t++) {
                assert_same(all.t[t]->reduce(how, x, n, 3, 0.3), want);
                const double center[3] = {0.3, 0.3, 0.3};
                double out[3] = {7, 7, 7};
                all.t[t]->reduce_columns(how, out, x, n, 3, 2, center, scratch);
                assert_same(out[0], want);
                assert_true(out[2] == 7);
                float *row = new_f32(n, 0.0f, 1);
                for (int64_t j = 0; j < n; j++)
                    row[j] = x[3 * j];
                assert_same(all.t[t]->reduce(how, row, n, 1, 0.3), want);
                double parts = 0;
                for (int64_t j = 0; j < n; j += IG__SPAN)
                    parts += all.t[t]->reduce(how, row + j,
                                              n - j < IG__SPAN ? n - j : IG__SPAN, 1, 0.3);
                assert_same(parts, want);
                free(row);
            }
        }
    free(x);
    free(scratch);
}

/* Wide matrices: every column as if it were alone. */
static void test_columns(void **state)
{
    (void)state;
    const train_tables all = find_train_tables();
    double *scratch = new_bytes(IG__COLUMN_SCRATCH), out[200], center[200];
    float *x = new_f32(50 * 200, 3.0f, 8);
    for (int i = 0; i < 200; i++)
        center[i] = i * 0.01;
    for (int t = 0; t < all.n; t++)
        for (int op = 0; op < IG__REDUCE_COUNT; op++)
            for (int64_t cols = 1; cols < 200; cols += 33) {
                all.t[t]->reduce_columns((ig__reduce)op, out, x, 50, 200, cols, center,
                                         scratch);
                for (int64_t c = 0; c < cols; c++)
                    assert_same(out[c], all.t[0]->reduce((ig__reduce)op, x + c, 50, 200,
                                                         center[c]));
            }
    free(x);
    free(scratch);
}

static void test_long_sums(void **state)
{
    (void)state;
    const train_tables all = find_train_tables();
    const int64_t n = 20000000;
    float *ones = malloc((size_t)n * sizeof *ones);
    for (int64_t i = 0; i < n; i++)
        ones[i] = 1.0f;
    const float x[4] = {1e7f, 1e7f + 1, 1e7f + 2, 1e7f + 3};
    for (int t = 0; t < all.n; t++) {
        if (t > 0)
            assert_true(all.t[t]->reduce(IG__REDUCE_SUM, ones, n, 1, 0) == 20000000.0);
        const double mean = all.t[t]->reduce(IG__REDUCE_SUM, x, 4, 1, 0) / 4;
        assert_true(all.t[t]->reduce(IG__REDUCE_SUM_CENTERED, x, 4, 1, mean) / 4 == 1.25);
        float y[4];
        const float want[4] = {-1.341641f, -0.447214f, 0.447214f, 1.341641f};
        all.t[t]->layer_norm(y, x, NULL, NULL, 4, 0.0f);
        for (int i = 0; i < 4; i++)
            assert_true(fabsf(y[i] - want[i]) < 1e-6f);
        const float large[3] = {1e20f, -1e20f, 3.4e38f}, bad[3] = {1, INFINITY, 2};
        assert_true(isfinite(all.t[t]->reduce(IG__REDUCE_SUM_SQUARES, large, 3, 1, 0)));
        assert_false(isfinite(all.t[t]->reduce(IG__REDUCE_SUM_SQUARES, bad, 3, 1, 0)));
    }
    free(ones);
}

static void test_extremes(void **state)
{
    (void)state;
    const train_tables all = find_train_tables();
    float x[ROW];
    for (int t = 0; t < all.n; t++)
        for (int n = 0; n < N_LENGTHS; n++)
            for (int64_t stride = 1; stride <= 2 && lengths[n] * stride <= ROW; stride++)
                for (int kind = 0; kind < 4; kind++) {
                    const int64_t d = lengths[n];
                    fill_f32(x, ROW, 3.0f, (uint64_t)(n + kind));
                    for (int i = 0; i < ROW; i++)
                        x[i] = kind == 1 ? rintf(x[i]) : kind == 2 ? -INFINITY : x[i];
                    if (kind == 3)
                        x[d / 2 * stride] = NAN;
                    const int64_t top = all.t[0]->arg_largest(x, d, stride);
                    const int64_t low = all.t[0]->arg_smallest(x, d, stride);
                    assert_int_equal(all.t[t]->arg_largest(x, d, stride), top);
                    assert_int_equal(all.t[t]->arg_smallest(x, d, stride), low);
                    if (kind == 3) {
                        assert_true(isnan(all.t[t]->largest(x, d, stride)));
                        assert_true(isnan(all.t[t]->smallest(x, d, stride)));
                        assert_int_equal(top, d / 2);
                        continue;
                    }
                    assert_true(all.t[t]->largest(x, d, stride) == x[top * stride]);
                    assert_true(all.t[t]->smallest(x, d, stride) == x[low * stride]);
                }
}

static void test_dot(void **state)
{
    (void)state;
    const train_tables all = find_train_tables();
    const int64_t n = IG__SPAN + 100;
    float *x = new_f32(n, 1.0f, 1), *y = new_f32(n, 1.0f, 2);
    for (int t = 1; t < all.n; t++)
        for (int64_t d = 0; d < n; d = d * 2 + 1)
            assert_same(all.t[t]->dot(x, y, d), all.t[0]->dot(x, y, d));
    free(x);
    free(y);
}

/* ---- rows ---- */

/* Within `most` of the largest value around; nothing behind the end. */
static void close_row(const char *what, const float *got, const float *want, int64_t d,
                      double most)
{
    double top = 0.3; /* gradients of short rows are small differences */
    for (int64_t i = 0; i < d; i++)
        if (isfinite(want[i]))
            top = fmax(top, fabs((double)want[i]));
    for (int64_t i = 0; i < d; i++) {
        if (got[i] == want[i] || (isnan(got[i]) && isnan(want[i])))
            continue;
        const double off = fabs((double)got[i] - (double)want[i]);
        if (!(off <= most * top))
            fail_msg("%s[%d of %d]: %.9g, wanted %.9g", what, (int)i, (int)d,
                     (double)got[i], (double)want[i]);
    }
    for (int64_t i = d; i < d + 16; i++)
        assert_true(got[i] == want[i]);
}

typedef struct rows {
    float x[ROW + 16], y[ROW + 16], z[ROW + 16], g[ROW + 16], b[ROW + 16];
} rows;

/* Runs kernel k into z (and g, b where it adds to them); the reference's and another's. */
static void run_row(int k, const ig__train_kernels *t, rows *r, int64_t d)
{
    switch (k) {
    case 0:
        t->softmax(r->z, r->x, d);
        break;
    case 1:
        t->log_softmax(r->z, r->x, d);
        break;
    case 2:
        r->z[0] = t->logsumexp(r->x, d);
        break;
    case 3:
        t->softmax_grad(r->z, r->y, r->g, d);
        break;
    case 4:
        t->log_softmax_grad(r->z, r->y, r->x, d);
        break;
    case 5:
        t->layer_norm(r->z, r->x, r->g, r->b, d, 1e-5f);
        break;
    case 6:
        t->layer_norm_grad(r->z, r->g, r->b, r->y, r->x, r->x, d, 1e-5f);
        break;
    case 7:
        t->rms_norm(r->z, r->x, r->g, d, 1e-5f);
        break;
    case 8:
        t->rms_norm_grad(r->z, r->g, r->y, r->x, r->x, d, 1e-5f);
        break;
    case 9:
        t->rms_norm(r->x, r->x, NULL, d, 1e-5f);
        break;
    case 10:
        t->layer_norm_grad(r->y, NULL, NULL, r->y, r->x, NULL, d, 1e-5f);
        break;
    case 11:
        r->z[0] = t->cross_entropy(&r->g[0], r->x, d, d / 2, 0.1f);
        break;
    case 12:
        t->cross_entropy_grad(r->x, r->x, d, d / 2, 0.1f, r->y[0] + 3.0f, 0.25f);
        break;
    default:
        t->softmax(r->x, r->x, d);
        break;
    }
}

static void test_rows(void **state)
{
    (void)state;
    const train_tables all = find_train_tables();
    static rows got, want;
    for (int t = 1; t < all.n; t++)
        for (int k = 0; k <= 13; k++)
            for (int n = 0; n < N_LENGTHS; n++) {
                const int64_t d = lengths[n];
                fill_f32((float *)&want, sizeof want / 4, 2.0f, (uint64_t)(n + k));
                got = want;
                run_row(k, all.t[0], &want, d);
                run_row(k, all.t[t], &got, d);
                /* a norm of few values has a scale far above its parts */
                const double most = k == 6 || k == 10 || k == 8 ? 2e-5 : 1e-6;
                close_row("z", got.z, want.z, d, most);
                close_row("x", got.x, want.x, d, most);
                close_row("y", got.y, want.y, d, most);
                close_row("g", got.g, want.g, d, most);
                close_row("b", got.b, want.b, d, most);
            }
}

/* A row's values do not depend on what was there before, and both vector sets agree. */
static void test_rows_same_bits(void **state)
{
    (void)state;
    const train_tables all = find_train_tables();
    static rows a, b;
    for (int k = 0; k <= 13 && all.n == 3; k++)
        for (int n = 0; n < N_LENGTHS; n++) {
            fill_f32((float *)&a, sizeof a / 4, 2.0f, (uint64_t)(n + k));
            b = a;
            run_row(k, all.t[1], &a, lengths[n]);
            run_row(k, all.t[2], &b, lengths[n]);
            assert_memory_equal(&a, &b, sizeof a);
        }
}

/* Slopes of a loss sum(w f(x)) by differences. */
static void test_slopes(void **state)
{
    (void)state;
    const ig__train_kernels *t = ig__train_kernels_pick("ref");
    enum { D = 9 };
    float x[D], w[D], y[D], dx[D], g[D];
    for (int kind = 0; kind < 5; kind++) {
        fill_f32(x, D, 1.5f, 1);
        fill_f32(w, D, 1.0f, 2);
        fill_f32(g, D, 1.0f, 3);
        float lse;
        if (kind == 0) {
            t->softmax(y, x, D);
            t->softmax_grad(dx, w, y, D);
        } else if (kind == 1) {
            t->log_softmax(y, x, D);
            t->log_softmax_grad(dx, w, y, D);
        } else if (kind == 2)
            t->layer_norm_grad(dx, NULL, NULL, w, x, g, D, 1e-3f);
        else if (kind == 3)
            t->rms_norm_grad(dx, NULL, w, x, g, D, 1e-3f);
        else {
            t->cross_entropy(&lse, x, D, 4, 0.2f);
            t->cross_entropy_grad(dx, x, D, 4, 0.2f, lse, 1.0f);
        }
        for (int i = 0; i < D; i++) {
            double side[2];
            const float kept = x[i];
            for (int s = 0; s < 2; s++) {
                x[i] = kept + (s ? 0x1p-7f : -0x1p-7f);
                side[s] = 0;
                if (kind == 4)
                    side[s] = (double)t->cross_entropy(&lse, x, D, 4, 0.2f);
                else if (kind == 0)
                    t->softmax(y, x, D);
                else if (kind == 1)
                    t->log_softmax(y, x, D);
                else if (kind == 2)
                    t->layer_norm(y, x, g, NULL, D, 1e-3f);
                else
                    t->rms_norm(y, x, g, D, 1e-3f);
                for (int j = 0; j < D && kind != 4; j++)
                    side[s] += (double)w[j] * (double)y[j];
            }
            x[i] = kept;
            const double want = (side[1] - side[0]) * 64;
            if (fabs(want - (double)dx[i]) > 3e-4)
                fail_msg("kind %d: %g, differences say %g", kind, (double)dx[i], want);
        }
    }
}

static void test_ends(void **state)
{
    (void)state;
    const train_tables all = find_train_tables();
    const float inf = INFINITY;
    for (int t = 0; t < all.n; t++) {
        const ig__train_kernels *k = all.t[t];
        float y[20], lse;
        k->softmax(y, (const float[3]){1e30f, 0, -1e30f}, 3);
        assert_true(y[0] == 1 && y[1] == 0 && y[2] == 0);
        k->log_softmax(y, (const float[2]){1e4f, 0}, 2);
        assert_true(y[0] == 0 && y[1] == -10000);
        k->softmax(y, (const float[2]){-inf, -inf}, 2);
        assert_true(y[0] == 0 && y[1] == 0);
        k->softmax(y, (const float[3]){-inf, 3, -inf}, 3);
        assert_true(y[0] == 0 && y[1] == 1 && y[2] == 0);
        assert_true(k->logsumexp((const float[2]){-inf, -inf}, 2) == -inf);
        float bad[20] = {0};
        bad[17] = NAN;
        k->softmax(y, bad, 20);
        assert_true(isnan(y[0]) && isnan(y[19]));
        assert_true(k->cross_entropy(&lse, (const float[3]){1000, 0, -1000}, 3, 1, 0) ==
                    1000);
        const float loss = k->cross_entropy(&lse, (const float[3]){1, 2, 3}, 3, 2, 0);
        assert_true(fabsf(loss - 0.40760595f) < 1e-6f);
        k->cross_entropy_grad(y, (const float[3]){1, 2, 3}, 3, 2, 0, lse, 1);
        assert_true(fabsf(y[0] - 0.0900306f) < 1e-6f && fabsf(y[2] + 0.3347590f) < 1e-6f);
    }
}

/* Ranges of the vocabulary together are the whole, to the bit. */
static void test_embedding(void **state)
{
    (void)state;
    const train_tables all = find_train_tables();
    enum { V = 11, D = 37, T = 64 };
    int64_t ids[T];
    float *dy = new_f32(T * D, 1.0f, 1), *want = new_f32(V * D, 1.0f, 2);
    float *start = new_f32(V * D, 1.0f, 2), *got = new_f32(V * D, 1.0f, 2);
    for (int i = 0; i < T; i++)
        ids[i] = i * i % V;
    all.t[0]->embedding_grad(want, dy, ids, T, D, 0, V);
    for (int t = 0; t < all.n; t++) {
        memcpy(got, start, V * D * 4);
        for (int64_t lo = V; lo-- > 0;)
            all.t[t]->embedding_grad(got, dy, ids, T, D, lo, lo + 1);
        assert_memory_equal(got, want, V * D * 4);
    }
    free(dy);
    free(want);
    free(start);
    free(got);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sums_same_bits),
        cmocka_unit_test(test_columns),
        cmocka_unit_test(test_long_sums),
        cmocka_unit_test(test_extremes),
        cmocka_unit_test(test_dot),
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_rows_same_bits),
        cmocka_unit_test(test_slopes),
        cmocka_unit_test(test_ends),
        cmocka_unit_test(test_embedding),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
