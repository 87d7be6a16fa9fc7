/* One pass over a row of logits: largest, sum of exponentials, the best n, those above a
 * threshold.
 *
 * The passes go block by block. A block's largest value is found in 16 lanes, and tells
 * whether the block needs a second look: most do not, so the best 40 of 262,144 cost
 * little more than reading them.
 */
#include "infer/logits.h"

#include <float.h>

enum { BLOCK = 256, LANES = 16 };

/* Largest of a block, -infinity if it holds nothing larger; NaN never wins. *bad_out: there
 * is a NaN or +infinity. */
static float block_max(const float *x, int64_t n, bool *bad_out)
{
    float m[LANES];
    int32_t bad[LANES] = {0};
    for (int l = 0; l < LANES; l++)
        m[l] = -INFINITY;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        for (int l = 0; l < LANES; l++) {
            m[l] = x[i + l] > m[l] ? x[i + l] : m[l];
            bad[l] |= !(x[i + l] <= FLT_MAX);
        }
    }
    for (int l = 0; i + l < n; l++) {
        m[l] = x[i + l] > m[l] ? x[i + l] : m[l];
        bad[l] |= !(x[i + l] <= FLT_MAX);
    }
    float best = m[0];
    int32_t any = bad[0];
    for (int l = 1; l < LANES; l++) {
        best = m[l] > best ? m[l] : best;
        any |= bad[l];
    }
    *bad_out = any != 0;
    return best;
}

static int64_t block_size(int64_t vocab, int64_t begin)
{
    return vocab - begin < BLOCK ? vocab - begin : BLOCK;
}

bool ig__logits_max(float *max_out, int32_t *id_out, const float *logits, int64_t vocab)
{
    float best = -INFINITY;
    int64_t where = 0; /* the block that holds it */
    for (int64_t b = 0; b < vocab; b += BLOCK) {
        bool bad;
        const float m = block_max(logits + b, block_size(vocab, b), &bad);
        if (bad) {
            while (logits[b] <= FLT_MAX)
                b++;
            *max_out = logits[b];
            *id_out = (int32_t)b;
            return false;
        }
        if (m > best) {
            best = m;
            where = b;
        }
    }
    while (logits[where] != best)
        where++;
    *max_out = best;
    *id_out = (int32_t)where;
    return true;
}

double ig__logits_exp_sum(const float *logits, int64_t vocab, float max, float scale,
                          float least)
{
    double sum = 0;
    for (int64_t b = 0; b < vocab; b += BLOCK) {
        const int64_t n = block_size(vocab, b);
        float e[BLOCK];
        for (int64_t i = 0; i < n; i++) {
            const float x = logits[b + i];
            e[i] = ig__keep(ig__exp_neg((x - max) * scale), x >= least);
        }
        for (int64_t i = n; i < BLOCK; i++)
            e[i] = 0.0f;
        float lane[LANES] = {0};
        for (int64_t i = 0; i < BLOCK; i += LANES)
            for (int l = 0; l < LANES; l++)
                lane[l] += e[i + l];
        for (int l = 0; l < LANES; l++)
            sum += (double)lane[l];
    }
    return sum;
}

double ig__logits_log_sum(const float *logits, int64_t vocab)
{
    float max;
    int32_t id;
    if (!ig__logits_max(&max, &id, logits, vocab))
        return (double)max;
    if (max == -INFINITY)
        return (double)-INFINITY;
    return (double)max + log(ig__logits_exp_sum(logits, vocab, max, 1.0f, -INFINITY));
}

/* Let heap[i] sink to its place among heap[0..n): the worst is on top, the children of i
 * are 2i+1 and 2i+2. */
static void sink(ig_logprob *heap, int64_t n, int64_t i)
{
    const ig_logprob item = heap[i];
    for (;;) {
        int64_t child = 2 * i + 1;
        if (child >= n)
            break;
        if (child + 1 < n && ig__logit_better(heap[child], heap[child + 1]))
            child++;
        if (ig__logit_better(heap[child], item))
            break;
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = item;
}

int64_t ig__logits_top(ig_logprob *top, int64_t n, const float *logits, int64_t vocab)
{
    n = n < vocab ? n : vocab;
    if (n <= 0)
        return 0;
    for (int64_t i = 0; i < n; i++)
        top[i] = (ig_logprob){.id = (int32_t)i, .logprob = logits[i]};
    for (int64_t i = n / 2 - 1; i >= 0; i--)
        sink(top, n, i);
    for (int64_t b = n; b < vocab;) {
        const int64_t m = block_size(vocab, b);
        bool bad;
        if (block_max(logits + b, m, &bad) > top[0].logprob) {
            for (int64_t i = b; i < b + m; i++) {
                if (!(logits[i] > top[0].logprob)) /* of equals the lower id stays */
                    continue;
                top[0] = (ig_logprob){.id = (int32_t)i, .logprob = logits[i]};
                sink(top, n, 0);
            }
        }
        b += m;
    }
    for (int64_t i = n - 1; i > 0; i--) { /* the worst goes to the end */
        const ig_logprob worst = top[0];
        top[0] = top[i];
        top[i] = worst;
        sink(top, i, 0);
    }
    return n;
}

int64_t ig__logits_at_least(ig_logprob *set, const float *logits, int64_t vocab,
                            float least)
{
    int64_t n = 0;
    for (int64_t b = 0; b < vocab; b += BLOCK) {
        const int64_t m = block_size(vocab, b);
        bool bad;
        if (block_max(logits + b, m, &bad) < least)
            continue;
        for (int64_t i = b; i < b + m; i++) {
            set[n] = (ig_logprob){.id = (int32_t)i, .logprob = logits[i]};
            n += logits[i] >= least;
        }
    }
    return n;
}
