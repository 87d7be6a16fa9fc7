/* Merging the neighbours of one word, lowest rank first: a heap of candidate pairs over
 * symbols that lie at the offset of their first byte.
 *
 *     offset   0   1   2   3   4              merge the symbols at 0 and 1:
 *     n        1   1   2   0   1              2   0   2   0   1
 *     prev    -1   0   1       2             -1       0       2
 *
 * A candidate is out of date when its left symbol was swallowed or when the two together no
 * longer have the bytes that they had: symbols only grow. Each merge takes one candidate
 * and adds at most two, so a word of n bytes costs O(n log n) and the heap holds at most
 * 2n. How pairs are ranked is the caller's rule (bpe.c, spm.c).
 */
#include "text/text_int.h"

#include "base/error.h"

/* Grow an array of `size`-byte elements to hold n; p and cap change together. */
static ig_status grow(void **p, size_t *cap, size_t used, size_t n, size_t size,
                      const ig_allocator *a, ig_error *err)
{
    if (n <= *cap)
        return IG_OK;
    size_t wanted = *cap > n / 2 ? *cap * 2 : n < 64 ? 64 : n;
    size_t bytes;
    if (!ig__mul(&bytes, wanted, size))
        return ig__fail_memory(err, "tokenize", SIZE_MAX);
    void *larger = ig__resize(a, *p, used * size, bytes);
    if (!larger)
        return ig__fail_memory(err, "tokenize", bytes);
    *p = larger;
    *cap = wanted;
    return IG_OK;
}

ig_status ig__work_reserve(ig__text_work *work, size_t used, size_t n, ig_error *err)
{
    void *p = work->symbols;
    const ig_status status =
        grow(&p, &work->symbol_cap, used, n, sizeof *work->symbols, &work->tk->a, err);
    work->symbols = p;
    return status;
}

void ig__work_fini(ig__text_work *work)
{
    ig__free(&work->tk->a, work->symbols);
    ig__free(&work->tk->a, work->heap);
    ig__buffer_fini(&work->copy);
}

static ig_status heap_push(ig__text_work *work, ig__candidate c, ig_error *err)
{
    void *p = work->heap;
    const ig_status status = grow(&p, &work->heap_cap, work->n_heap, work->n_heap + 1,
                                  sizeof *work->heap, &work->tk->a, err);
    work->heap = p;
    if (status != IG_OK)
        return status;
    size_t i = work->n_heap++;
    for (; i > 0 && c.order < work->heap[(i - 1) / 2].order; i = (i - 1) / 2)
        work->heap[i] = work->heap[(i - 1) / 2];
    work->heap[i] = c;
    return IG_OK;
}

/* n_heap >= 1 */
static ig__candidate heap_pop(ig__text_work *work)
{
    const ig__candidate top = work->heap[0];
    const ig__candidate last = work->heap[--work->n_heap];
    size_t i = 0;
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= work->n_heap)
            break;
        if (child + 1 < work->n_heap &&
            work->heap[child + 1].order < work->heap[child].order)
            child++;
        if (last.order <= work->heap[child].order)
            break;
        work->heap[i] = work->heap[child];
        i = child;
    }
    if (work->n_heap)
        work->heap[i] = last;
    return top;
}

static ig_status consider(ig__text_work *work, const char *word, uint32_t i, uint32_t j,
                          ig__pair_rule *rule, ig_error *err)
{
    uint32_t rank;
    int32_t merged;
    if (!rule(&rank, &merged, work, word, i, j))
        return IG_OK;
    return heap_push(work,
                     (ig__candidate){
                         .order = (uint64_t)rank << 32 | i,
                         .n = work->symbols[i].n + work->symbols[j].n,
                         .merged = merged,
                     },
                     err);
}

ig_status ig__merge(ig__text_work *work, const char *word, uint32_t n, ig__pair_rule *rule,
                    ig_error *err)
{
    ig__text_symbol *s = work->symbols;
    work->n_heap = 0;
    for (uint32_t i = 0; i + s[i].n < n; i += s[i].n)
        IG_TRY(consider(work, word, i, i + s[i].n, rule, err));
    while (work->n_heap) {
        const ig__candidate c = heap_pop(work);
        const uint32_t i = (uint32_t)c.order;
        const uint32_t j = i + s[i].n;
        if (s[i].n == 0 || j >= n || s[i].n + s[j].n != c.n)
            continue;
        s[i].n = c.n;
        s[i].id = c.merged;
        s[j].n = 0;
        const uint32_t next = i + c.n;
        if (next < n) {
            s[next].prev = (int32_t)i;
            IG_TRY(consider(work, word, i, next, rule, err));
        }
        if (s[i].prev >= 0)
            IG_TRY(consider(work, word, (uint32_t)s[i].prev, i, rule, err));
    }
    return IG_OK;
}

ig_status ig__ids_push(ig_ids *ids, const ig_allocator *a, int32_t id, ig_error *err)
{
    void *p = ids->ids;
    size_t cap = (size_t)ids->cap;
    const ig_status status =
        grow(&p, &cap, (size_t)ids->n, (size_t)ids->n + 1, sizeof *ids->ids, a, err);
    ids->ids = p;
    ids->cap = (int64_t)cap;
    if (status == IG_OK)
        ids->ids[ids->n++] = id;
    return status;
}

/* The tokens of the bytes of a symbol that is no token itself. Bytes for which there is no
 * token become the unknown token, once; nothing if the file has none, or if it is a control
 * token: text must not make those. */
static ig_status emit_bytes(ig__text_work *work, const char *bytes, uint32_t n,
                            ig_error *err)
{
    const ig_tokenizer *tk = work->tk;
    bool all = true;
    for (uint32_t i = 0; i < n; i++)
        all = all && tk->byte_ids[(uint8_t)bytes[i]] >= 0;
    if (!all && (tk->unk < 0 || tk->types[tk->unk] == IG__TOKEN_CONTROL))
        return IG_OK;
    if (!all)
        return ig__ids_push(work->ids, &tk->a, tk->unk, err);
    for (uint32_t i = 0; i < n; i++)
        IG_TRY(ig__ids_push(work->ids, &tk->a, tk->byte_ids[(uint8_t)bytes[i]], err));
    return IG_OK;
}

ig_status ig__merge_emit(ig__text_work *work, const char *word, uint32_t n, ig_error *err)
{
    for (uint32_t i = 0; i < n; i += work->symbols[i].n) {
        const ig__text_symbol *s = &work->symbols[i];
        if (s->id >= 0)
            IG_TRY(ig__ids_push(work->ids, &work->tk->a, s->id, err));
        else
            IG_TRY(emit_bytes(work, word + i, s->n, err));
    }
    return IG_OK;
}
