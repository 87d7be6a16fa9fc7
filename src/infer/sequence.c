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
    seq->capacity = ig__pages_for(&runner->pages, runner->opts.context);
    const size_t table_bytes =
        (size_t)(seq->capacity * runner->pages.n_parts) * sizeof *seq->table;
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
    ig__sequence_share(*seq_out, seq, seq->length);
    return IG_OK;
}

void ig__sequence_set_page(ig_sequence *seq, int64_t i, int32_t page)
{
    const int32_t n_parts = seq->runner->pages.n_parts;
    for (int32_t part = 0; part < n_parts; part++)
        seq->table[i * n_parts + part] = page * n_parts + part;
}

void ig__sequence_share(ig_sequence *to, const ig_sequence *from, int64_t n)
{
    const int64_t n_pages = ig__pages_for(&to->runner->pages, n);
    for (int64_t i = 0; i < n_pages; i++) {
        const int32_t page = ig__sequence_page(from, i);
        ig__pages_retain(&to->runner->pages, page);
        ig__sequence_set_page(to, i, page);
    }
    to->n_pages = n_pages;
    to->length = n;
}

void ig__sequence_adopt(ig_sequence *seq, int32_t page)
{
    ig__pages_retain(&seq->runner->pages, page);
    ig__sequence_set_page(seq, seq->n_pages++, page);
    seq->length += seq->runner->pages.page_tokens;
}

/* Does the sequence end inside a page that others see, too? It is copied when written. */
static bool ends_in_shared(const ig_sequence *seq)
{
    const ig__pages *pages = &seq->runner->pages;
    const int64_t last = seq->length / pages->page_tokens;
    return seq->length % pages->page_tokens &&
           !ig__pages_is_own(pages, ig__sequence_page(seq, last));
}

static void drop_last(ig_sequence *seq)
{
    ig__pages_drop(&seq->runner->pages, ig__sequence_page(seq, --seq->n_pages));
}

int64_t ig__sequence_pages_for(const ig_sequence *seq, int64_t n_tokens)
{
    return ig__pages_for(&seq->runner->pages, seq->length + n_tokens) - seq->n_pages +
           ends_in_shared(seq);
}

int64_t ig_sequence_length(const ig_sequence *seq)
{
    return seq->length;
}

void ig_sequence_cut(ig_sequence *seq, int64_t n)
{
    if (n < 0 || n >= seq->length)
        return;
    seq->length = n;
    ig__sequence_shrink(seq);
}

void ig_sequence_destroy(ig_sequence *seq)
{
    if (!seq)
        return;
    const ig_allocator *a = &seq->runner->model->ctx->allocator;
    while (seq->n_pages)
        drop_last(seq);
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
    if (ends_in_shared(seq)) {
        const int64_t last = seq->length / pages->page_tokens;
        const int32_t copy = ig__pages_copy(pages, ig__sequence_page(seq, last));
        if (copy < 0)
            return ig__fail(err, IG_ERR_LIMIT,
                            "step: no KV page is free to copy a shared one");
        ig__sequence_set_page(seq, last, copy);
    }
    const int64_t wanted = ig__pages_for(pages, seq->length + n_tokens);
    while (seq->n_pages < wanted) {
        const int32_t page = ig__pages_take(pages);
        if (page < 0) {
            ig__sequence_shrink(seq);
            return ig__fail(err, IG_ERR_LIMIT,
                            "step: no KV page is free, all %d are taken (%lld tokens)",
                            pages->n_pages, (long long)pages->n_pages * pages->page_tokens);
        }
        ig__sequence_set_page(seq, seq->n_pages++, page);
    }
    return IG_OK;
}

void ig__sequence_shrink(ig_sequence *seq)
{
    while (seq->n_pages > ig__pages_for(&seq->runner->pages, seq->length))
        drop_last(seq);
}
