/* Log-probabilities of the model's own distribution: log softmax of a row of logits, at one
 * token or at the best n.
 */
#include "infer/logits.h"

int64_t ig_logprobs_top(ig_logprob *top, int64_t n, const float *logits, int64_t vocab)
{
    n = ig__logits_top(top, n, logits, vocab);
    const double log_sum = n ? ig__logits_log_sum(logits, vocab) : 0;
    for (int64_t i = 0; i < n; i++)
        top[i].logprob = ig__logit_logprob(top[i].logprob, log_sum);
    return n;
}

float ig_logprob_of(const float *logits, int64_t vocab, int32_t id)
{
    if (id < 0 || id >= vocab)
        return -INFINITY;
    return ig__logit_logprob(logits[id], ig__logits_log_sum(logits, vocab));
}
