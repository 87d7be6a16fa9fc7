/* What sampling, log-probabilities and scoring ask of a row of logits.
 *
 * Everything here is one pass over [V] float32, allocates nothing and never fails; results
 * depend on the row alone. A logit of -infinity is a forbidden token, of probability 0.
 */
#ifndef INGOT_INFER_LOGITS_H
#define INGOT_INFER_LOGITS_H

#include "ingot/sampler.h"

#include <math.h>

/* x or 0, without a branch: a loop around it stays in vector registers. */
static inline float ig__keep(float x, bool wanted)
{
    uint32_t bits;
    __builtin_memcpy(&bits, &x, 4);
    bits &= 0u - (uint32_t)wanted;
    __builtin_memcpy(&x, &bits, 4);
    return x;
}

/* e^x for x <= 0, relative error below 3e-7; 0 below -87. e^(n ln 2 + r) = 2^n e^r with
 * |r| <= ln(2)/2, e^r by its Taylor series to r^7 (the rest is below 6e-9). Inline and
 * without a branch, so that loops over it run in vector registers. */
static inline float ig__exp_neg(float x)
{
    const float magic = 12582912.0f; /* 1.5 * 2^23: adding it rounds to an integer */
    const float t = x * 1.44269504f + magic;
    const float n = t - magic;
    const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f; /* ln 2 in two parts */
    float p = 1.0f / 5040.0f;
    p = p * r + 1.0f / 720.0f;
    p = p * r + 1.0f / 120.0f;
    p = p * r + 1.0f / 24.0f;
    p = p * r + 1.0f / 6.0f;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    uint32_t bits;
    __builtin_memcpy(&bits, &t, 4);
    bits = (bits - 0x4B400000u + 127u) << 23; /* 0x4B400000: the bits of magic */
    float two_n;
    __builtin_memcpy(&two_n, &bits, 4);
    return ig__keep(p * two_n, !(x < -87.0f)); /* below, two_n is no power of two */
}

/* The largest logit; its lowest id in *id_out. False if there is a NaN or +infinity: then
 * *id_out is the lowest id of those, and *max_out is that value. V >= 1. */
bool ig__logits_max(float *max_out, int32_t *id_out, const float *logits, int64_t vocab);

/* Sum of e^((x - max) * scale) over the logits x >= least; max is not below any of them. */
double ig__logits_exp_sum(const float *logits, int64_t vocab, float max, float scale,
                          float least);

/* log of the sum of e^x; -infinity if all are. */
double ig__logits_log_sum(const float *logits, int64_t vocab);

/* log of a probability; -infinity for a forbidden token, whatever the sum. */
static inline float ig__logit_logprob(float logit, double log_sum)
{
    return logit == -INFINITY ? -INFINITY : (float)((double)logit - log_sum);
}

/* Token and logit, the better first: larger logit, then lower id. */
static inline bool ig__logit_better(ig_logprob a, ig_logprob b)
{
    return a.logprob > b.logprob || (a.logprob == b.logprob && a.id < b.id);
}

/* The min(n, vocab) best tokens with their logits, best first; returns the count. */
int64_t ig__logits_top(ig_logprob *top, int64_t n, const float *logits, int64_t vocab);

/* All tokens with a logit >= least, by id; returns the count. `set` has room for vocab. */
int64_t ig__logits_at_least(ig_logprob *set, const float *logits, int64_t vocab,
                            float least);

#endif
