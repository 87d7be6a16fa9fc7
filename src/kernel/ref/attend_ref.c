/* The reference of attention over a span of keys: the online softmax (Milakov and
 * Gimelshein, "Online normalizer calculation for softmax", 2018, section 3), one row and
 * one block of IG_KEY_BLOCK positions at a time.
 *
 * For each block: scores s, their largest joined into m, then everything summed so far is
 * scaled by exp(m_old - m) and the block's exp(s - m) and exp(s - m) * V are added. A row
 * that has seen no key has m = -inf, l = 0, acc = 0. Plain loops in float32 over libm.
 * The layouts of pages stand in kernel.h.
 */
#include "kernel/kernel_int.h"

#include <math.h>

static float read_f32(const char *p, int64_t i)
{
    float f;
    __builtin_memcpy(&f, p + i * 4, 4);
    return f;
}

static float read_f16(const char *p, int64_t i)
{
    uint16_t h;
    __builtin_memcpy(&h, p + i * 2, 2);
    return ig__f16_to_f32(h);
}

/* Value d of the key at `slot` of a page of width w. */
static float key_at(ig__kv kv, const char *page, int64_t slot, int64_t d, int64_t w)
{
    const int64_t i = d * IG_PAGE + slot;
    switch (kv) {
    case IG__KV_F32:
        return read_f32(page, i);
    case IG__KV_F16:
        return read_f16(page, i);
    default:
        return (float)((uint8_t)page[i] - 128) *
               read_f16(page + w * IG_PAGE, d / IG_QBLOCK * IG_PAGE + slot);
    }
}

/* Value d of the value at `slot`; V and its scales stand in the page's second half. */
static float value_at(ig__kv kv, const char *page, int64_t slot, int64_t d, int64_t w)
{
    const char *half = page + ig__page_bytes(kv, w) / 2;
    const int64_t i = slot * w + d;
    switch (kv) {
    case IG__KV_F32:
        return read_f32(half, i);
    case IG__KV_F16:
        return read_f16(half, i);
    default:
        return (float)((uint8_t)half[i] - 128) *
               read_f16(half + w * IG_PAGE, slot * (w / IG_QBLOCK) + d / IG_QBLOCK);
    }
}

/* Positions [from, to) of one block, all visible, into row r's m, l lanes and acc. */
static void attend_block(ig__kv kv, const ig__attend_args *a, int64_t r, int64_t from,
                         int64_t to, float lane[16])
{
    const int64_t w = a->width;
    const float *q = a->q + r * a->q_stride;
    float *acc = a->acc + r * a->acc_stride;
    float s[IG_KEY_BLOCK];
    float m = a->m[r];
    for (int64_t t = from; t < to; t++) {
        const char *page = a->pages + (size_t)a->table[t / IG_PAGE] * a->page_stride;
        float sum = 0.0f;
        for (int64_t d = 0; d < w; d++)
            sum += q[d] * key_at(kv, page, t % IG_PAGE, d, w);
        s[t - from] = sum;
        m = fmaxf(m, sum);
    }
    const float safe = m == -INFINITY ? 0.0f : m;
    const float corr = expf(a->m[r] - safe);
    a->m[r] = m;
    for (int i = 0; i < 16; i++)
        lane[i] *= corr;
    for (int64_t d = 0; d < w; d++)
        acc[d] *= corr;
    for (int64_t t = from; t < to; t++) {
        const char *page = a->pages + (size_t)a->table[t / IG_PAGE] * a->page_stride;
        const float p = expf(s[t - from] - safe);
        lane[t % 16] += p;
        for (int64_t d = 0; d < w; d++)
            acc[d] += p * value_at(kv, page, t % IG_PAGE, d, w);
    }
}

static int64_t at_most(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t at_least(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static void attend(ig__kv kv, const ig__attend_args *a)
{
    for (int64_t r = 0; r < a->n_rows; r++) {
        const int64_t first = at_least(a->begin, a->lo[r]);
        const int64_t past = at_most(a->end, a->hi[r] + 1);
        float lane[16] = {0};
        a->m[r] = -INFINITY;
        for (int64_t d = 0; d < a->width; d++)
            a->acc[r * a->acc_stride + d] = 0.0f;
        for (int64_t t = a->begin; t < past; t += IG_KEY_BLOCK) {
            const int64_t from = at_least(t, first), to = at_most(t + IG_KEY_BLOCK, past);
            if (from < to)
                attend_block(kv, a, r, from, to, lane);
        }
        for (int half = 8; half >= 1; half /= 2)
            for (int i = 0; i < half; i++)
                lane[i] += lane[i + half];
        a->l[r] = lane[0];
    }
}

/* One span of keys against R rows.
 *   q [R][W] f32    pages of one KV head    m, l [R] f32    acc [R][W] f32
 *   scores and sums in f32; 4*R*W flops a position; positions in order */
static void attend_f32(const ig__attend_args *args, void *scratch)
{
    (void)scratch;
    attend(IG__KV_F32, args);
}

static void attend_f16(const ig__attend_args *args, void *scratch)
{
    (void)scratch;
    attend(IG__KV_F16, args);
}

static void attend_q8_0(const ig__attend_args *args, void *scratch)
{
    (void)scratch;
    attend(IG__KV_Q8_0, args);
}

/* (m, l, acc) += (m2, l2, acc2).
 *   m, l, m2, l2 [R] f32    acc [R][W], acc2 [R][W] f32, rows acc_stride, acc2_stride apart
 */
static void attend_join(float *m, float *l, float *acc, const float *m2, const float *l2,
                        const float *acc2, int64_t n_rows, int64_t acc_stride,
                        int64_t acc2_stride, int64_t w)
{
    for (int64_t r = 0; r < n_rows; r++) {
        const float top = fmaxf(m[r], m2[r]);
        const float safe = top == -INFINITY ? 0.0f : top;
        const float c = expf(m[r] - safe), c2 = expf(m2[r] - safe);
        m[r] = top;
        l[r] = l[r] * c + l2[r] * c2;
        for (int64_t d = 0; d < w; d++)
            acc[r * acc_stride + d] =
                acc[r * acc_stride + d] * c + acc2[r * acc2_stride + d] * c2;
    }
}

/* y = acc / l; zeros when l is 0. y, acc [W] f32, y may alias acc */
static void attend_finish(float *y, const float *acc, float l, int64_t w)
{
    const float inv = l == 0.0f ? 0.0f : 1.0f / l;
    for (int64_t d = 0; d < w; d++)
        y[d] = acc[d] * inv;
}

void ig__attend_kernels_ref(ig__kernels *table)
{
    table->attend[IG__KV_F32] = attend_f32;
    table->attend[IG__KV_F16] = attend_f16;
    table->attend[IG__KV_Q8_0] = attend_q8_0;
    table->attend_join = attend_join;
    table->attend_finish = attend_finish;
}
