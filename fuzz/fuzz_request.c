/* Requests from strangers: the body of a completion, for both endpoints.
 *
 * Checked beside memory: nothing stays allocated, a refusal is one line of UTF-8 that names a
 * field which stands in the table or in the text, and what was read lies in its range.
 */
#include "serve/fields.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

enum { VOCAB = 1000 };

static void *counted_alloc(void *user, size_t bytes, size_t align)
{
    size_t *n_live = user;
    void *p = aligned_alloc(align, (bytes + align - 1) / align * align);
    *n_live += p != NULL;
    return p;
}

static void counted_free(void *user, void *p)
{
    size_t *n_live = user;
    *n_live -= p != NULL;
    free(p);
}

static void check(bool holds)
{
    if (!holds)
        abort();
}

static void check_params(const ig__params *p, ig__endpoint endpoint)
{
    check(p->temperature >= 0 && p->top_p <= 1 && p->min_p >= 0 && p->typical_p > 0);
    check(p->n >= 1 && p->n <= IG_SAMPLES_MAX);
    check(p->n_stop >= 0 && p->n_stop <= IG_STOP_MAX);
    check(p->n_logprobs >= -1 && p->n_logprobs <= IG_LOGPROBS_MAX);
    check(ig__params_max_tokens(p, endpoint) >= -1);
    for (int64_t i = 0; i < p->n_stop; i++)
        check(p->stop[i][0] && strlen(p->stop[i]) <= IG_STOP_BYTES);
    for (int64_t i = 0; i < p->n_bias; i++)
        check(p->bias[i].id >= 0 && p->bias[i].id < VOCAB);
    for (int64_t i = 0; i < p->n_ids; i++)
        check(p->ids[i] >= 0 && p->ids[i] < VOCAB);
    if (endpoint == IG_COMPLETION) {
        check(p->ids || p->prompt);
        return;
    }
    check(p->n_messages > 0);
    for (int64_t i = 0; i < p->n_messages; i++)
        check(p->messages[i].role && p->messages[i].content);
}

static void check_refusal(const ig__bad *bad)
{
    const size_t n = strlen(bad->message);
    check(n > 0 && n < sizeof bad->message && strlen(bad->field) < sizeof bad->field);
    check(!strchr(bad->message, '\n') || bad->field[0]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    size_t n_live = 0;
    const ig_allocator a = {counted_alloc, counted_free, &n_live};
    for (int endpoint = IG_CHAT; endpoint <= IG_COMPLETION; endpoint++) {
        ig__json *root;
        ig__bad bad;
        if (!ig__request_parse(&root, &a, (const char *)data, n, &bad)) {
            check_refusal(&bad);
            continue;
        }
        ig__params p;
        if (ig__params_read(&p, &a, root, (ig__endpoint)endpoint, VOCAB, &bad))
            check_params(&p, (ig__endpoint)endpoint);
        else
            check_refusal(&bad);
        ig__params_fini(&p);
        ig__json_destroy(root);
    }
    check(n_live == 0);
    return 0;
}
