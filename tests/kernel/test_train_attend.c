/* Attention of training, forward and backward, of every table against the reference's: odd
 * lengths and widths, causal, windows, masks, grouped heads, strides; hidden NaN, rows that
 * see nothing, and the same bits however the items are cut.
 */
#include "kernel/train_data.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

typedef struct shape {
    int64_t b, h, g, t, s, w;
    bool causal;
    int64_t window;
    int mask; /* 1: added [T,S], 2: allowed [B,1,T,S] with rows of nothing */
    double dropout;
} shape;

static const shape shapes[] = {
    {1, 1, 1, 1, 1, 1, false, 0, 0, 0},       {1, 2, 1, 3, 5, 7, false, 0, 0, 0},
    {2, 2, 2, 64, 64, 16, true, 0, 0, 0},     {1, 4, 2, 65, 65, 32, true, 0, 0, 0},
    {1, 2, 2, 70, 130, 64, true, 0, 0, 0},    {1, 2, 1, 130, 70, 24, true, 0, 0, 0},
    {1, 3, 1, 129, 129, 40, true, 17, 0, 0},  {2, 2, 2, 33, 100, 48, false, 20, 0, 0},
    {1, 2, 2, 67, 90, 64, false, 0, 1, 0},    {2, 4, 2, 67, 67, 32, true, 0, 2, 0},
    {1, 2, 1, 100, 100, 128, true, 64, 2, 0}, {1, 1, 1, 5, 200, 80, true, 0, 0, 0},
    {1, 1, 1, 0, 3, 16, true, 0, 0, 0},       {1, 1, 1, 3, 0, 16, false, 0, 0, 0},
    {2, 2, 1, 67, 90, 24, true, 0, 0, 0.3},   {1, 2, 2, 70, 65, 33, false, 20, 2, 0.6},
    {1, 1, 1, 3, 5, 16, false, 0, 0, 1},
};
enum { N_SHAPES = sizeof shapes / sizeof shapes[0] };

/* All arrays of one problem. */
typedef struct problem {
    ig__attention a;
    float *q, *k, *v, *dout, *mask;
    uint8_t *allowed;
    float *out, *lse, *dq, *dk, *dv;
    int64_t n_q, n_kv, n_lse;
    void *scratch;
} problem;

/* Rows [B,H,T,W] with gaps: of batch, head (or with `token` rows of all heads side by side). */
static void strides(int64_t stride[3], int64_t h, int64_t t, int64_t w, bool by_token)
{
    stride[0] = h * t * w;
    stride[1] = by_token ? w : t * w;
    stride[2] = by_token ? h * w : w;
}

static problem make(const shape *s, uint64_t seed)
{
    problem p = {0};
    ig__attention *a = &p.a;
    *a = (ig__attention){.batch = s->b,
                         .heads = s->h,
                         .kv_heads = s->g,
                         .n_queries = s->t,
                         .n_keys = s->s,
                         .width = s->w,
                         .scale = 1.0f / sqrtf((float)s->w),
                         .causal = s->causal,
                         .window = s->window,
                         .dropout = s->dropout,
                         .seed = 7,
                         .stream = seed};
    const bool by_token = seed % 2;
    p.n_q = s->b * s->h * s->t * s->w;
    p.n_kv = s->b * s->g * s->s * s->w;
    p.n_lse = s->b * s->h * s->t;
    a->q = p.q = new_f32(p.n_q, 1.5f, seed + 1);
    a->k = p.k = new_f32(p.n_kv, 1.5f, seed + 2);
    a->v = p.v = new_f32(p.n_kv, 1.0f, seed + 3);
    a->dout = p.dout = new_f32(p.n_q, 1.0f, seed + 4);
    a->out = p.out = new_f32(p.n_q, 1.0f, seed + 5);
    a->lse = p.lse = new_f32(p.n_lse, 1.0f, seed + 6);
    a->dq = p.dq = new_f32(p.n_q, 1.0f, seed + 7);
    a->dk = p.dk = new_f32(p.n_kv, 1.0f, seed + 8);
    a->dv = p.dv = new_f32(p.n_kv, 1.0f, seed + 9);
    strides(a->q_stride, s->h, s->t, s->w, by_token);
    strides(a->k_stride, s->g, s->s, s->w, by_token);
    strides(a->v_stride, s->g, s->s, s->w, false);
    strides(a->out_stride, s->h, s->t, s->w, by_token);
    strides(a->dout_stride, s->h, s->t, s->w, false);
    strides(a->dq_stride, s->h, s->t, s->w, by_token);
    strides(a->dk_stride, s->g, s->s, s->w, false);
    strides(a->dv_stride, s->g, s->s, s->w, by_token);
    if (s->mask == 1) {
        a->mask = p.mask = new_f32(s->t * s->s, 2.0f, seed);
        a->mask_stride[2] = s->s;
        a->mask_stride[3] = 1;
        for (int64_t i = 0; i < s->t * s->s; i += 5)
            p.mask[i] = -INFINITY;
    }
    if (s->mask == 2) {
        const int64_t n = s->b * s->t * s->s;
        a->allowed = p.allowed = malloc((size_t)n + 1);
        for (int64_t i = 0; i < n; i++)
            p.allowed[i] = (uint8_t)(i / s->s % 7 != 3 && i % 3 != 1);
        a->allowed_stride[0] = s->t * s->s;
        a->allowed_stride[2] = s->s;
        a->allowed_stride[3] = 1;
    }
    const size_t forward = ig__attention_scratch(a),
                 backward = ig__attention_grad_scratch(a);
    p.scratch = new_bytes(forward > backward ? forward : backward);
    return p;
}

static void release(problem *p)
{
    float *all[] = {p->q,   p->k,   p->v,  p->dout, p->mask,
                    p->out, p->lse, p->dq, p->dk,   p->dv};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    free(p->allowed);
    free(p->scratch);
}

static void run(const ig__train_kernels *t, problem *p)
{
    p->a.drop = t->dropout;
    t->attention(&p->a, 0, ig__attention_items(&p->a), p->scratch);
    t->attention_grad(&p->a, 0, ig__attention_grad_items(&p->a), p->scratch);
}

/* Largest error over the largest value. */
static void close_enough(const char *what, const float *got, const float *want, int64_t n,
                         const ig__train_kernels *t, int i_shape)
{
    double top = 1e-3, off = 0;
    for (int64_t i = 0; i < n; i++) {
        if (isinf(want[i]) && got[i] == want[i])
            continue;
        if (!isfinite(got[i]) || !isfinite(want[i]))
            fail_msg("%s shape %d: %s[%d] = %g, wanted %g", t->isa, i_shape, what, (int)i,
                     (double)got[i], (double)want[i]);
        top = fmax(top, fabs((double)want[i]));
        off = fmax(off, fabs((double)got[i] - (double)want[i]));
    }
    if (off / top > 3e-6)
        fail_msg("%s shape %d: %s is off by %g", t->isa, i_shape, what, off / top);
}

static void compare(const ig__train_kernels *t, const problem *got, const problem *want,
                    int i)
{
    close_enough("out", got->out, want->out, got->n_q, t, i);
    close_enough("lse", got->lse, want->lse, got->n_lse, t, i);
    close_enough("dq", got->dq, want->dq, got->n_q, t, i);
    close_enough("dk", got->dk, want->dk, got->n_kv, t, i);
    close_enough("dv", got->dv, want->dv, got->n_kv, t, i);
}

static void test_against_reference(void **state)
{
    (void)state;
    const train_tables all = find_train_tables();
    for (int i = 0; i < N_SHAPES; i++) {
        problem want = make(&shapes[i], (uint64_t)i);
        run(all.t[0], &want);
        for (int t = 1; t < all.n; t++) {
            problem got = make(&shapes[i], (uint64_t)i);
            run(all.t[t], &got);
            compare(all.t[t], &got, &want, i);
            release(&got);
        }
        release(&want);
    }
}

/* The reference's gradient is that of its output, by differences of sum(out * dout). */
static double loss(problem *p)
{
    ig__train_kernels_pick("ref")->attention(&p->a, 0, ig__attention_items(&p->a),
                                             p->scratch);
    double sum = 0;
    for (int64_t b = 0; b < p->a.batch; b++)
        for (int64_t h = 0; h < p->a.heads; h++)
            for (int64_t i = 0; i < p->a.n_queries; i++)
                for (int64_t d = 0; d < p->a.width; d++)
                    sum +=
                        (double)p->out[b * p->a.out_stride[0] + h * p->a.out_stride[1] +
                                       i * p->a.out_stride[2] + d] *
                        (double)p->dout[b * p->a.dout_stride[0] + h * p->a.dout_stride[1] +
                                        i * p->a.dout_stride[2] + d];
    return sum;
}

static void check_slopes(problem *p, float *x, const int64_t x_stride[3], const float *dx,
                         const int64_t dx_stride[3], int64_t heads, int64_t rows)
{
    for (int64_t h = 0; h < heads; h++)
        for (int64_t i = 0; i < rows; i += 2) {
            const int64_t d = (i + h) % p->a.width;
            float *at = x + h * x_stride[1] + i * x_stride[2] + d;
            const float kept = *at, step = 0x1p-6f;
            *at = kept + step;
            const double up = loss(p);
            *at = kept - step;
            const double down = loss(p);
            *at = kept;
            const double want = (up - down) / (2 * (double)step);
            const double got = (double)dx[h * dx_stride[1] + i * dx_stride[2] + d];
            if (fabs(got - want) > 2e-3)
                fail_msg("gradient %g, differences say %g", got, want);
        }
}

static void test_slopes(void **state)
{
    (void)state;
    const shape some[] = {{1, 4, 2, 7, 11, 8, true, 0, 0, 0},
                          {1, 2, 1, 9, 9, 6, true, 4, 2, 0},
                          {1, 2, 2, 6, 8, 4, false, 0, 1, 0},
                          {1, 2, 1, 5, 7, 4, true, 0, 0, 0.3}};
    for (int i = 0; i < 3; i++) {
        problem p = make(&some[i], (uint64_t)i);
        run(ig__train_kernels_pick("ref"), &p);
        check_slopes(&p, p.q, p.a.q_stride, p.dq, p.a.dq_stride, some[i].h, some[i].t);
        check_slopes(&p, p.k, p.a.k_stride, p.dk, p.a.dk_stride, some[i].g, some[i].s);
        check_slopes(&p, p.v, p.a.v_stride, p.dv, p.a.dv_stride, some[i].g, some[i].s);
        release(&p);
    }
}

/* A masked row gives zeros; K and V that nobody sees may be NaN. */
static void test_hidden(void **state)
{
    (void)state;
    const train_tables all = find_train_tables();
    const float qk[4] = {1, 0, 0, 1}, v[4] = {1, 2, 3, 4}, ones[4] = {1, 1, 1, 1};
    const uint8_t first[4] = {1, 1, 0, 0}, column[4] = {1, 0, 1, 0};
    for (int t = 0; t < all.n; t++) {
        const shape s = {1, 1, 1, 2, 2, 2, false, 0, 2, 0};
        problem p = make(&s, 2);
        p.a.scale = 1.0f;
        memcpy(p.q, qk, sizeof qk);
        memcpy(p.k, qk, sizeof qk);
        memcpy(p.v, v, sizeof v);
        memcpy(p.dout, ones, sizeof ones);
        memcpy(p.allowed, first, sizeof first);
        run(all.t[t], &p);
        const float out[4] = {1.537883f, 2.537883f, 0, 0};
        const float dq[4] = {-0.786448f, 0.786448f, 0, 0};
        for (int i = 0; i < 4; i++) {
            assert_true(fabsf(p.out[i] - out[i]) < 2e-6f);
            assert_true(fabsf(p.dq[i] - dq[i]) < 2e-6f);
            assert_true(isfinite(p.dk[i]) && isfinite(p.dv[i]));
        }
        assert_true(p.lse[1] == -INFINITY);
        memcpy(p.allowed, column, sizeof column);
        p.k[2] = p.k[3] = p.v[2] = NAN;
        run(all.t[t], &p);
        for (int i = 0; i < 4; i++) {
            assert_true(p.out[i] == v[i % 2]);
            assert_true(isfinite(p.dq[i]) && isfinite(p.dk[i]) && isfinite(p.dv[i]));
        }
        release(&p);
    }
}

/* A NaN that is seen shows in its row alone, and costs no second run by another way: the other
 * rows keep their bits. */
static void test_seen_nan(void **state)
{
    (void)state;
    const train_tables all = find_train_tables();
    const shape s = {1, 1, 1, 70, 70, 32, true, 0, 0, 0};
    for (int t = 0; t < all.n; t++) {
        problem clean = make(&s, 2), p = make(&s, 2);
        p.q[5 * 32 + 3] = NAN;
        run(all.t[t], &clean);
        run(all.t[t], &p);
        for (int i = 0; i < 70; i++) {
            assert_true(isnan(p.out[i * 32]) == (i == 5));
            if (i != 5)
                assert_memory_equal(p.out + i * 32, clean.out + i * 32, 32 * 4);
        }
        assert_true(isnan(p.lse[5]) && p.lse[69] == clean.lse[69]);
        release(&clean);
        release(&p);
    }
}

/* Items one by one and in any order, over a dirty scratch. */
static void test_same_bits(void **state)
{
    (void)state;
    const train_tables all = find_train_tables();
    for (int t = 1; t < all.n; t++) {
        problem whole = make(&shapes[6], 1), parts = make(&shapes[6], 1);
        run(all.t[t], &whole);
        for (int64_t i = ig__attention_items(&parts.a); i-- > 0;)
            all.t[t]->attention(&parts.a, i, i + 1, parts.scratch);
        for (int64_t i = ig__attention_grad_items(&parts.a); i-- > 0;)
            all.t[t]->attention_grad(&parts.a, i, i + 1, parts.scratch);
        assert_memory_equal(whole.out, parts.out, (size_t)whole.n_q * 4);
        assert_memory_equal(whole.dq, parts.dq, (size_t)whole.n_q * 4);
        assert_memory_equal(whole.dk, parts.dk, (size_t)whole.n_kv * 4);
        assert_memory_equal(whole.dv, parts.dv, (size_t)whole.n_kv * 4);
        release(&whole);
        release(&parts);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_reference),
        cmocka_unit_test(test_slopes),
        cmocka_unit_test(test_hidden),
        cmocka_unit_test(test_seen_nan),
        cmocka_unit_test(test_same_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
