/* Recurrent cells, optimisers, conversions and random fills of training: every table against
 * the reference, the reference against formulas and differences.
 */
#include "base/rng.h"
#include "kernel/train_data.h"

#include <float.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

enum { D = 37 };

static void close_enough(const float *got, const float *want, int64_t n, double most)
{
    for (int64_t i = 0; i < n; i++)
        if (!(fabs((double)got[i] - (double)want[i]) <= most))
            fail_msg("[%d] = %.9g, wanted %.9g", (int)i, (double)got[i], (double)want[i]);
}

/* ---- cells ---- */

typedef struct cell_data {
    float x[4 * D], y[3 * D], c0[D], h0[D], dh[D], dc[D];
    float gates[4 * D], c[D], h[D], dx[4 * D], dy[3 * D], d0[D];
} cell_data;

static void run_lstm(const ig__train_kernels *t, cell_data *s, bool with_dc)
{
    const ig__lstm_cell cell = {.d = D,
                                .x = s->x,
                                .c0 = s->c0,
                                .gates = s->gates,
                                .c = s->c,
                                .h = s->h,
                                .dh = s->dh,
                                .dc = with_dc ? s->dc : NULL,
                                .dx = s->dx,
                                .dc0 = s->d0};
    t->lstm(&cell);
    t->lstm_grad(&cell);
}

static void run_gru(const ig__train_kernels *t, cell_data *s)
{
    const ig__gru_cell cell = {.d = D,
                               .x = s->x,
                               .y = s->y,
                               .h0 = s->h0,
                               .gates = s->gates,
                               .h = s->h,
                               .dh = s->dh,
                               .dx = s->dx,
                               .dy = s->dy,
                               .dh0 = s->d0};
    t->gru(&cell);
    t->gru_grad(&cell);
}

static void test_cells(void **state)
{
    (void)state;
    const train_tables all = find_train_tables();
    static cell_data want, got;
    for (int kind = 0; kind < 3; kind++)
        for (int t = 1; t < all.n; t++) {
            fill_f32((float *)&want, sizeof want / 4, 2.0f, (uint64_t)kind);
            got = want;
            if (kind < 2) {
                run_lstm(all.t[0], &want, kind == 1);
                run_lstm(all.t[t], &got, kind == 1);
            } else {
                run_gru(all.t[0], &want);
                run_gru(all.t[t], &got);
            }
            close_enough((float *)&got, (float *)&want, sizeof want / 4, 2e-6);
        }
}

/* Slopes of sum(h dh) + sum(c dc). */
static double cell_loss(int kind, cell_data *s)
{
    const ig__train_kernels *ref = ig__train_kernels_pick("ref");
    if (kind == 0)
        run_lstm(ref, s, true);
    else
        run_gru(ref, s);
    double sum = 0;
    for (int i = 0; i < D; i++)
        sum += (double)s->h[i] * (double)s->dh[i] +
               (kind == 0 ? (double)s->c[i] * (double)s->dc[i] : 0);
    return sum;
}

static void check_slope(int kind, cell_data *s, float *x, double got)
{
    const float kept = *x;
    *x = kept + 0x1p-7f;
    const double up = cell_loss(kind, s);
    *x = kept - 0x1p-7f;
    const double down = cell_loss(kind, s);
    *x = kept;
    if (fabs((up - down) * 64 - got) > 1e-4)
        fail_msg("cell %d: %g, differences say %g", kind, got, (up - down) * 64);
}

static void test_cell_slopes(void **state)
{
    (void)state;
    static cell_data s, g;
    for (int kind = 0; kind < 2; kind++) {
        fill_f32((float *)&s, sizeof s / 4, 1.0f, 3);
        cell_loss(kind, &s);
        g = s;
        for (int i = 0; i < (kind ? 3 : 4) * D; i += 5) {
            check_slope(kind, &s, &s.x[i], (double)g.dx[i]);
            if (kind)
                check_slope(kind, &s, &s.y[i], (double)g.dy[i]);
        }
        for (int i = 0; i < D; i += 5)
            check_slope(kind, &s, kind ? &s.h0[i] : &s.c0[i], (double)g.d0[i]);
    }
}

/* ---- optimisers ---- */

typedef struct weights {
    float p[D + 16], g[D + 16], m[D + 16], v[D + 16], ema[D + 16];
    uint16_t half[D + 16];
} weights;

static void run_update(int kind, const ig__train_kernels *t, weights *w, int64_t n)
{
    const ig__update u = {.p = w->p,
                          .g = w->g,
                          .m = w->m,
                          .v = w->v,
                          .n = n,
                          .lr = 0.01f,
                          .grad_scale = 0.5f,
                          .weight_decay = 0.1f,
                          .beta1 = 0.9f,
                          .beta2 = 0.99f,
                          .eps = 1e-8f,
                          .correction1 = 0.1f,
                          .correction2 = 0.01f,
                          .decoupled = kind & 1,
                          .nesterov = kind & 1,
                          .first = kind & 2,
                          .momentum = kind & 4 ? 0.0f : 0.9f,
                          .dampening = 0.1f,
                          .ema = kind & 1 ? w->ema : NULL,
                          .ema_decay = 0.99f,
                          .p_bf16 = kind & 2 ? w->half : NULL};
    if (kind < 8)
        t->sgd(&u);
    else if (kind < 16)
        t->adam(&u);
    else if (kind < 24)
        t->lion(&u);
    else
        t->factored(w->p, w->g, 0.7f, w->v, n);
}

/* The reference's bits from every table; what is behind the end stays. */
static void test_updates(void **state)
{
    (void)state;
    const train_tables all = find_train_tables();
    static weights want, got;
    for (int t = 1; t < all.n; t++)
        for (int kind = 0; kind <= 24; kind++)
            for (int64_t n = 0; n <= D; n += n < 17 ? 1 : 10) {
                memset(&want, 0x3c, sizeof want);
                fill_f32(want.p, 3 * (D + 16), 1.0f, (uint64_t)kind);
                for (int i = 0; i < D + 16; i++)
                    want.v[i] = want.p[i] * want.p[i];
                got = want;
                run_update(kind, all.t[0], &want, n);
                run_update(kind, all.t[t], &got, n);
                if (memcmp(&got, &want, sizeof got) != 0)
                    fail_msg("%s: update %d of %d", all.t[t]->isa, kind, (int)n);
            }
}

/* By hand: one step of each rule from known values. */
static void test_update_values(void **state)
{
    (void)state;
    const train_tables all = find_train_tables();
    for (int t = 0; t < all.n; t++) {
        float p = 1, m = 0, v = 0;
        const float g = 0.5f;
        ig__update u = {.p = &p,
                        .g = &g,
                        .m = &m,
                        .v = &v,
                        .n = 1,
                        .lr = 0.1f,
                        .grad_scale = 2,
                        .beta1 = 0.9f,
                        .beta2 = 0.99f,
                        .eps = 1e-8f,
                        .correction1 = 0.1f,
                        .correction2 = 0.01f,
                        .decoupled = true,
                        .weight_decay = 0.01f};
        all.t[t]->adam(&u); /* the first step is lr sign(g) */
        assert_true(fabsf(p - (1 * (1 - 0.001f) - 0.1f)) < 1e-6f);
        assert_true(fabsf(m - 0.1f) < 1e-7f && fabsf(v - 0.01f) < 1e-8f);
        p = 1;
        m = 0;
        u.momentum = 0.9f;
        u.weight_decay = 0;
        u.first = true;
        all.t[t]->sgd(&u);
        assert_true(fabsf(p - 0.9f) < 1e-7f && m == 1);
        u.first = false;
        u.nesterov = true;
        all.t[t]->sgd(&u); /* m = 1.9; p -= 0.1 (1 + 0.9 * 1.9) */
        assert_true(fabsf(p - (0.9f - 0.271f)) < 1e-6f);
        p = 1;
        m = -2;
        all.t[t]->lion(&u); /* 0.9 * -2 + 0.1 < 0 */
        assert_true(fabsf(p - 1.1f) < 1e-7f && fabsf(m + 1.97f) < 1e-6f);
    }
}

/* ---- conversions ---- */

static void test_convert_everything(void **state)
{
    (void)state;
    const train_tables all = find_train_tables();
    enum { N = 77 };
    char x[N * 8 + 64], want[N * 8 + 64], got[N * 8 + 64];
    const double values[] = {0,
                             -0.0,
                             1,
                             -1,
                             0.5,
                             -2.7,
                             127.9,
                             128,
                             -129,
                             255,
                             256.4,
                             65504,
                             65519,
                             65520,
                             1e6,
                             3e9,
                             -3e9,
                             1e19,
                             -1e19,
                             3.5e38,
                             1e-8,
                             5.9e-8,
                             1e-45,
                             (double)INFINITY,
                             -(double)INFINITY,
                             (double)NAN};
    enum { N_VALUES = sizeof values / sizeof values[0] };
    for (int from = 0; from < IG__NUMBER_COUNT; from++) {
        double wide[N];
        for (int i = 0; i < N; i++)
            wide[i] = values[i % N_VALUES] * (1 + (i / N_VALUES) * 0.37);
        all.t[0]->convert((ig__number)from, IG__NUMBER_F64, x, wide, N);
        for (int to = 0; to < IG__NUMBER_COUNT; to++)
            for (int t = 1; t < all.n; t++)
                for (int64_t n = 0; n <= N; n += n < 18 ? 1 : 59) {
                    memset(want, 0x11, sizeof want);
                    memset(got, 0x11, sizeof got);
                    all.t[0]->convert((ig__number)to, (ig__number)from, want, x, n);
                    all.t[t]->convert((ig__number)to, (ig__number)from, got, x, n);
                    if (memcmp(got, want, sizeof got) != 0)
                        fail_msg("%s: %d to %d, %d elements", all.t[t]->isa, from, to,
                                 (int)n);
                }
    }
}

static void test_convert_values(void **state)
{
    (void)state;
    const ig__train_kernels *k = ig__train_kernels_pick(NULL);
    const float x[8] = {-2.7f, 300, -300, NAN, 1e30f, -1e30f, 2.5f, 0};
    int8_t i8[8];
    int64_t i64[8];
    uint8_t b[8];
    k->convert(IG__NUMBER_I8, IG__NUMBER_F32, i8, x, 8);
    const int8_t want[8] = {-2, 127, -128, 0, 127, -128, 2, 0};
    assert_memory_equal(i8, want, 8);
    k->convert(IG__NUMBER_I64, IG__NUMBER_F32, i64, x, 8);
    assert_true(i64[4] == INT64_MAX && i64[5] == INT64_MIN && i64[3] == 0 && i64[1] == 300);
    k->convert(IG__NUMBER_BOOL, IG__NUMBER_F32, b, x, 8);
    for (int i = 0; i < 8; i++)
        assert_int_equal(b[i], i != 7);
    const int32_t wide[2] = {257, -1};
    k->convert(IG__NUMBER_U8, IG__NUMBER_I32, b, wide, 2);
    assert_true(b[0] == 1 && b[1] == 255);
    /* not rounded twice: 1 + 2^-11 + 2^-40 is above the tie in f16 */
    const double near = 1 + 0x1p-11 + 0x1p-40;
    uint16_t h;
    k->convert(IG__NUMBER_F16, IG__NUMBER_F64, &h, &near, 1);
    assert_int_equal(h, 0x3c01);
}

/* All codes there and back. */
static void test_convert_codes(void **state)
{
    (void)state;
    const train_tables all = find_train_tables();
    static uint16_t codes[65536], back[65536];
    static float wide[65536];
    for (int i = 0; i < 65536; i++)
        codes[i] = (uint16_t)i;
    for (int t = 0; t < all.n; t++)
        for (int to = IG__NUMBER_F16; to <= IG__NUMBER_BF16; to++) {
            all.t[t]->convert(IG__NUMBER_F32, (ig__number)to, wide, codes, 65536);
            all.t[t]->convert((ig__number)to, IG__NUMBER_F32, back, wide, 65536);
            for (int i = 0; i < 65536; i++)
                assert_true(back[i] == codes[i] || isnan(wide[i]));
        }
}

/* ---- random fills ---- */

static void test_random_bits(void **state)
{
    (void)state;
    const train_tables all = find_train_tables();
    uint32_t y[300], words[4];
    for (int t = 0; t < all.n; t++)
        for (uint64_t first = 0; first < 140; first += 23) {
            const uint64_t from = first + ((uint64_t)1 << 34) - 40;
            all.t[t]->random_bits(y, 7, 9, from, 300);
            for (uint64_t i = 0; i < 300; i++) {
                ig__philox(words, 7, 9, (from + i) / 4);
                assert_true(y[i] == words[(from + i) % 4]);
            }
        }
}

static void test_random_values(void **state)
{
    (void)state;
    const train_tables all = find_train_tables();
    enum { N = 100000 };
    static float want[N], got[N], x[N];
    for (int t = 0; t < all.n; t++) {
        all.t[0]->random_uniform(want, 1, 2, 5, 1000, -2, 3);
        all.t[t]->random_uniform(got, 1, 2, 5, 1000, -2, 3);
        assert_memory_equal(got, want, 4000);
        all.t[0]->random_normal(want, 1, 2, 5, 1000, 1, 2);
        all.t[t]->random_normal(got, 1, 2, 5, 1000, 1, 2);
        close_enough(got, want, 1000, 3e-6);
        all.t[t]->random_normal(got, 1, 3, 0, N, 0, 1);
        const double mean = all.t[t]->reduce(IG__REDUCE_SUM, got, N, 1, 0) / N;
        const double var = all.t[t]->reduce(IG__REDUCE_SUM_CENTERED, got, N, 1, mean) / N;
        assert_true(fabs(mean) < 0.01 && fabs(var - 1) < 0.02);
        for (int i = 0; i < N; i++)
            x[i] = 1.0f;
        all.t[0]->dropout(want, x, 3, 4, 11, N, 0.25);
        all.t[t]->dropout(got, x, 3, 4, 11, N, 0.25);
        assert_memory_equal(got, want, sizeof got);
        assert_true(fabs(all.t[t]->reduce(IG__REDUCE_SUM, got, N, 1, 0) / N - 1) < 0.01);
        all.t[t]->dropout(got, x, 3, 4, 11, 50, 1.0);
        assert_true(all.t[t]->reduce(IG__REDUCE_SUM_SQUARES, got, 50, 1, 0) == 0);
        all.t[t]->dropout(got, x, 3, 4, 11, 50, 0.0);
        assert_memory_equal(got, x, 200);
        /* in parts, from anywhere */
        all.t[t]->random_normal(want, 1, 3, 0, 500, 0, 1);
        for (int64_t at = 0; at < 500; at += 37)
            all.t[t]->random_normal(got + at, 1, 3, (uint64_t)at,
                                    500 - at < 37 ? 500 - at : 37, 0, 1);
        assert_memory_equal(got, want, 2000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cells),
        cmocka_unit_test(test_cell_slopes),
        cmocka_unit_test(test_updates),
        cmocka_unit_test(test_update_values),
        cmocka_unit_test(test_convert_everything),
        cmocka_unit_test(test_convert_values),
        cmocka_unit_test(test_convert_codes),
        cmocka_unit_test(test_random_bits),
        cmocka_unit_test(test_random_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
