/* Sequences: the tokens that a conversation has in the cache, as a table of pages. */
#include "infer/sequence.h"

#include "base/error.h"

#include <string.h>

ig_status ig_sequence_create(ig_sequence **seq_out, ig_runner *runner, ig_error *err)
{
    *seq_out = NULL;
    const ig_allocator *a = &runner->model->ctx->allocator;
    ig_sequence *seq = ig__alloc_zero(a, sizeof *seq);
    if (!seq)
        return ig__fail_memory(err, "sequence", sizeof *seq);
    seq->runner = runner;
    seq->capacity = (runner->opts.context + IG_PAGE - 1) / IG_PAGE;
    const size_t table_bytes = (size_t)seq->capacity * sizeof *seq->table;
    seq->table = ig__alloc_zero(a, table_bytes);
    if (!seq->table) {
        ig__free(a, seq);
        return ig__fail_memory(err, "sequence", table_bytes);
    }
    *seq_out = seq;
    return IG_OK;
}

ig_status ig_sequence_fork(ig_sequence **seq_out, const ig_sequence *seq, ig_error *err)
{
    IG_TRY(ig_sequence_create(seq_out, seq->runner, err));
    ig_sequence *fork = *seq_out;
    memcpy(fork->table, seq->table, (size_t)seq->n_pages * sizeof *seq->table);
    fork->n_pages = seq->n_pages;
    fork->length = seq->length;
    for (int64_t i = 0; i < seq->n_pages; i++)
        seq->runner->pages.n_refs[seq->table[i]]++;
    return IG_OK;
}

int64_t ig_sequence_length(const ig_sequence *seq)
{
    return seq->length;
}

void ig_sequence_cut(ig_sequence *seq, int64_t n)
{
    if (n < 0 || n >= seq->length)
        return;
    const int64_t keep = (n + IG_PAGE - 1) / IG_PAGE;
    while (seq->n_pages > keep)
        ig__pages_drop(&seq->runner->pages, seq->table[--seq->n_pages]);
    seq->length = n;
}

void ig_sequence_destroy(ig_sequence *seq)
{
    if (!seq)
        return;
    const ig_allocator *a = &seq->runner->model->ctx->allocator;
    while (seq->n_pages)
        ig__pages_drop(&seq->runner->pages, seq->table[--seq->n_pages]);
    ig__free(a, seq->table);
    ig__free(a, seq);
}

ig_status ig__sequence_grow(ig_sequence *seq, int64_t n_tokens, ig_error *err)
{
    ig__pages *pages = &seq->runner->pages;
    const int64_t context = seq->runner->opts.context;
    if (n_tokens > context - seq->length)
        return ig__fail(err, IG_ERR_LIMIT,
                        "step: %lld tokens after %lld do not fit the context of %lld",
                        (long long)n_tokens, (long long)seq->length, (long long)context);
    const int64_t last = seq->length / IG_PAGE;
    if (seq->length % IG_PAGE && pages->n_refs[seq->table[last]] > 1) {
        const int32_t copy = ig__pages_copy(pages, seq->table[last]);
        if (copy < 0)
            return ig__fail(err, IG_ERR_LIMIT,
                            "step: no KV page is free to copy a shared one");
        seq->table[last] = copy;
    }
    const int64_t wanted = (seq->length + n_tokens + IG_PAGE - 1) / IG_PAGE;
    while (seq->n_pages < wanted) {
        const int32_t page = ig__pages_take(pages);
        if (page < 0) {
            ig__sequence_shrink(seq);
            return ig__fail(err, IG_ERR_LIMIT,
                            "step: no KV page is free, all %d are taken (%lld tokens)",
                            pages->n_pages, (long long)pages->n_pages * IG_PAGE);
        }
        seq->table[seq->n_pages++] = page;
    }
    return IG_OK;
}

void ig__sequence_shrink(ig_sequence *seq)
{
    const int64_t keep = (seq->length + IG_PAGE - 1) / IG_PAGE;
    while (seq->n_pages > keep)
        ig__pages_drop(&seq->runner->pages, seq->table[--seq->n_pages]);
}
