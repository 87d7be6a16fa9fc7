/* Convolution and pooling of training: every table against the reference over groups, strides,
 * dilations, pads and odd sizes; the reference's gradients by differences; the same bits
 * however the items are cut.
 */
#include "kernel/train_data.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

static const ig__conv shapes[] = {
    /* batch, in, out, groups; in h w, out h w, kernel h w; stride, pad, dilation */
    {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 1, 1},
    {2, 3, 5, 1, 7, 9, 7, 9, 3, 3, 1, 1, 1, 1, 1, 1},
    {3, 4, 6, 2, 11, 8, 5, 4, 3, 3, 2, 2, 2, 2, 2, 2},
    {1, 6, 6, 6, 5, 6, 5, 6, 3, 3, 1, 1, 1, 1, 1, 1},
    {9, 1, 33, 1, 14, 14, 12, 12, 3, 3, 1, 1, 0, 0, 1, 1},
    {2, 20, 17, 1, 10, 13, 10, 13, 3, 3, 1, 1, 1, 1, 1, 1},
    {2, 9, 3, 1, 1, 70, 1, 68, 1, 5, 1, 1, 0, 1, 1, 1},
    {1, 2, 3, 1, 9, 9, 3, 3, 5, 4, 3, 3, 2, 1, 1, 2},
};
enum { N_SHAPES = sizeof shapes / sizeof shapes[0] };

static int64_t x_size(const ig__conv *c)
{
    return c->batch * c->in_channels * c->in_h * c->in_w;
}

static int64_t y_size(const ig__conv *c)
{
    return c->batch * c->out_channels * c->out_h * c->out_w;
}

static int64_t w_size(const ig__conv *c)
{
    return c->out_channels * (c->in_channels / c->groups) * c->kernel_h * c->kernel_w;
}

static void close_enough(const char *what, const float *got, const float *want, int64_t n,
                         int shape)
{
    double top = 1e-3;
    for (int64_t i = 0; i < n; i++)
        top = fmax(top, fabs((double)want[i]));
    for (int64_t i = 0; i < n; i++)
        if (!(fabs((double)got[i] - (double)want[i]) <= 2e-6 * top))
            fail_msg("%s, shape %d: [%d] = %g, wanted %g", what, shape, (int)i,
                     (double)got[i], (double)want[i]);
}

/* All results of one table, items last to first. */
typedef struct results {
    float *y, *dx, *dw;
} results;

static results run(const ig__train_kernels *t, const ig__conv *c, const float *x,
                   const float *w, const float *bias, const float *dy)
{
    const int64_t spans = ig__conv_weight_spans(c);
    const results r = {new_f32(y_size(c), 1, 5), new_f32(x_size(c), 1, 6),
                       new_f32(spans * w_size(c), 1, 7)};
    void *scratch = new_bytes(ig__conv_scratch(c));
    for (int64_t i = ig__conv_items(c); i-- > 0;)
        t->conv(c, r.y, x, w, bias, i, i + 1, scratch);
    for (int64_t i = ig__conv_data_items(c); i-- > 0;)
        t->conv_data(c, r.dx, dy, w, i, i + 1, scratch);
    for (int64_t i = ig__conv_weight_items(c); i-- > 0;)
        t->conv_weight(c, r.dw, dy, x, i, i + 1, scratch);
    free(scratch);
    return r;
}

static void release(results *r)
{
    free(r->y);
    free(r->dx);
    free(r->dw);
}

static void test_conv(void **state)
{
    (void)state;
    const train_tables all = find_train_tables();
    for (int i = 0; i < N_SHAPES; i++) {
        const ig__conv *c = &shapes[i];
        float *x = new_f32(x_size(c), 1, 1), *w = new_f32(w_size(c), 1, 2);
        float *dy = new_f32(y_size(c), 1, 3), *bias = new_f32(c->out_channels, 1, 4);
        results want = run(all.t[0], c, x, w, i % 2 ? bias : NULL, dy);
        for (int t = 1; t < all.n; t++) {
            results got = run(all.t[t], c, x, w, i % 2 ? bias : NULL, dy);
            close_enough("y", got.y, want.y, y_size(c), i);
            close_enough("dx", got.dx, want.dx, x_size(c), i);
            close_enough("dw", got.dw, want.dw, ig__conv_weight_spans(c) * w_size(c), i);
            release(&got);
        }
        release(&want);
        free(x);
        free(w);
        free(dy);
        free(bias);
    }
}

/* One call over all items gives the same bits. */
static void test_same_bits(void **state)
{
    (void)state;
    const train_tables all = find_train_tables();
    const ig__conv *c = &shapes[2];
    float *x = new_f32(x_size(c), 1, 1), *w = new_f32(w_size(c), 1, 2);
    float *dy = new_f32(y_size(c), 1, 3);
    void *scratch = new_bytes(ig__conv_scratch(c));
    for (int t = 0; t < all.n; t++) {
        results a = run(all.t[t], c, x, w, NULL, dy), b = run(all.t[t], c, x, w, NULL, dy);
        all.t[t]->conv(c, b.y, x, w, NULL, 0, ig__conv_items(c), scratch);
        all.t[t]->conv_data(c, b.dx, dy, w, 0, ig__conv_data_items(c), scratch);
        all.t[t]->conv_weight(c, b.dw, dy, x, 0, ig__conv_weight_items(c), scratch);
        assert_memory_equal(a.y, b.y, (size_t)y_size(c) * 4);
        assert_memory_equal(a.dx, b.dx, (size_t)x_size(c) * 4);
        assert_memory_equal(a.dw, b.dw, (size_t)w_size(c) * 4);
        release(&a);
        release(&b);
    }
    free(x);
    free(w);
    free(dy);
    free(scratch);
}

static double product(const float *x, const float *y, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += (double)x[i] * (double)y[i];
    return sum;
}

/* A convolution is linear in x and in w, so <dy, conv(x, w)> = <dx, x> = <dw, w>. */
static void test_adjoint(void **state)
{
    (void)state;
    const ig__train_kernels *ref = ig__train_kernels_pick("ref");
    for (int i = 0; i < N_SHAPES; i++) {
        const ig__conv *c = &shapes[i];
        float *x = new_f32(x_size(c), 1, 1), *w = new_f32(w_size(c), 1, 2);
        float *dy = new_f32(y_size(c), 1, 3);
        results r = run(ref, c, x, w, NULL, dy);
        const double want = product(dy, r.y, y_size(c));
        const double by_x = product(r.dx, x, x_size(c));
        double by_w = 0, size = 1;
        for (int64_t s = 0; s < ig__conv_weight_spans(c); s++)
            by_w += product(r.dw + s * w_size(c), w, w_size(c));
        for (int64_t j = 0; j < y_size(c); j++)
            size += fabs((double)dy[j] * (double)r.y[j]);
        assert_true(fabs(by_x - want) < 1e-6 * size);
        assert_true(fabs(by_w - want) < 1e-6 * size);
        release(&r);
        free(x);
        free(w);
        free(dy);
    }
}

/* ---- pooling ---- */

/* Ties, -inf and NaN, in windows of all kinds: the same values and places as the reference. */
static void test_pool_places(void **state)
{
    (void)state;
    static const ig__pool shapes_of[] = {
        {3, 28, 28, 14, 14, 2, 2, 2, 2, 0, 0, false},
        {2, 9, 70, 8, 69, 2, 2, 1, 1, 0, 0, false},
        {2, 10, 71, 5, 36, 3, 3, 2, 2, 1, 1, false},
        {2, 11, 67, 4, 23, 5, 4, 3, 3, 2, 2, false},
        {1, 40, 41, 5, 5, 9, 9, 8, 8, 0, 0, false},
        {1, 5, 1, 3, 1, 1, 1, 2, 2, 0, 0, false},
    };
    const float values[] = {-1, 0, 1, 1, -INFINITY, -INFINITY, 2, NAN};
    const train_tables all = find_train_tables();
    for (size_t i = 0; i < sizeof shapes_of / sizeof *shapes_of; i++) {
        const ig__pool *p = &shapes_of[i];
        const int64_t ins = p->planes * p->in_h * p->in_w;
        const int64_t outs = p->planes * p->out_h * p->out_w;
        float *x = new_f32(ins, 1, 1), *y[2];
        int32_t *at[2];
        uint32_t seed = 7;
        for (int64_t k = 0; k < ins; k++) {
            seed = seed * 1664525 + 1013904223;
            x[k] = values[seed >> 20 & (k % 3 ? 6 : 7)];
        }
        for (int k = 0; k < 2; k++) {
            y[k] = new_f32(outs, 1, 2);
            at[k] = malloc((size_t)outs * sizeof *at[k]);
        }
        ig__train_kernels_pick("ref")->max_pool(p, y[0], at[0], x, 0, p->planes);
        for (int t = 0; t < all.n; t++) {
            all.t[t]->max_pool(p, y[1], at[1], x, 0, p->planes);
            assert_memory_equal(at[0], at[1], (size_t)outs * sizeof *at[0]);
            assert_memory_equal(y[0], y[1], (size_t)outs * sizeof *y[0]);
        }
        for (int k = 0; k < 2; k++) {
            free(y[k]);
            free(at[k]);
        }
        free(x);
    }
}

static const ig__pool pools[] = {
    {3, 6, 8, 3, 4, 2, 2, 2, 2, 0, 0, false},
    {2, 7, 7, 4, 4, 3, 3, 2, 2, 1, 1, false},
    {2, 7, 7, 4, 4, 3, 3, 2, 2, 1, 1, true},
    {1, 1, 9, 1, 7, 1, 3, 1, 1, 0, 0, true},
};

static void test_pool(void **state)
{
    (void)state;
    const train_tables all = find_train_tables();
    for (size_t i = 0; i < sizeof pools / sizeof *pools; i++)
        for (int t = 0; t < all.n; t++) {
            const ig__pool *p = &pools[i];
            const int64_t ins = p->planes * p->in_h * p->in_w;
            const int64_t outs = p->planes * p->out_h * p->out_w;
            float *x = new_f32(ins, 1, 1), *dy = new_f32(outs, 1, 2);
            float *y = new_f32(outs, 1, 3), *dx = new_f32(ins, 1, 4);
            int32_t *at = malloc((size_t)outs * sizeof *at);
            all.t[t]->max_pool(p, y, at, x, 0, p->planes);
            all.t[t]->max_pool_grad(p, dx, dy, at, 0, p->planes);
            for (int64_t o = 0; o < outs; o++) {
                const int64_t plane = o / (p->out_h * p->out_w);
                const int64_t r0 = o / p->out_w % p->out_h * p->stride_h - p->pad_h;
                const int64_t s0 = o % p->out_w * p->stride_w - p->pad_w;
                float top = -INFINITY;
                double sum = 0;
                int64_t n = 0;
                for (int64_t r = r0; r < r0 + p->kernel_h; r++)
                    for (int64_t s = s0; s < s0 + p->kernel_w; s++)
                        if (r >= 0 && r < p->in_h && s >= 0 && s < p->in_w) {
                            const float v = x[(plane * p->in_h + r) * p->in_w + s];
                            top = fmaxf(top, v);
                            sum += (double)v;
                            n++;
                        }
                assert_true(y[o] == top && x[plane * p->in_h * p->in_w + at[o]] == top);
                float mean;
                all.t[t]->avg_pool(p, dy, x, 0, p->planes);
                mean =
                    (float)(sum / (double)(p->count_pads ? p->kernel_h * p->kernel_w : n));
                assert_true(fabsf(dy[o] - mean) < 1e-6f);
            }
            double before = 0, after = 0; /* every gradient went to one input */
            fill_f32(dy, outs, 1, 2);
            for (int64_t o = 0; o < outs; o++)
                before += (double)dy[o] * (double)y[o];
            for (int64_t o = 0; o < ins; o++)
                after += (double)dx[o] * (double)x[o];
            assert_true(fabs(before - after) < 1e-5);
            all.t[t]->avg_pool(p, y, x, 0, p->planes);
            all.t[t]->avg_pool_grad(p, dx, dy, 0, p->planes);
            assert_true(fabs(product(y, dy, outs) - product(x, dx, ins)) < 1e-5);
            free(x);
            free(y);
            free(dx);
            free(dy);
            free(at);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_conv),        cmocka_unit_test(test_same_bits),
        cmocka_unit_test(test_adjoint),     cmocka_unit_test(test_pool),
        cmocka_unit_test(test_pool_places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
