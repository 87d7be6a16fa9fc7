/* Special tokens in running text: control and unknown tokens where the text is markup,
 * user-defined ones everywhere.
 *
 * They are kept sorted by their bytes. A match starts with those that share the first byte
 * and narrows the range by one byte at a time:
 *
 *     text  <|im_end|>      <|end|>  <|im_end|>  <|im_start|>
 *                    '<'    [---------------------------------)
 *                    '<|i'           [------------------------)
 *                    '<|im_e'        [----------)               its end is reached: a match
 *
 * so a byte that begins none costs one look at a table, and any other at most
 * IG__TOKEN_BYTES_MAX binary searches. The leftmost match wins, and of those at one place
 * the longest.
 */
#include "text/text_int.h"

#include "base/error.h"

#include <string.h>

/* By bytes, a prefix first; then markup before user-defined; then by id. */
static bool goes_before(const ig_tokenizer *tk, int32_t a, int32_t b)
{
    size_t n_a, n_b;
    const char *bytes_a = ig__token_at(tk, a, &n_a);
    const char *bytes_b = ig__token_at(tk, b, &n_b);
    const int order = memcmp(bytes_a, bytes_b, n_a < n_b ? n_a : n_b);
    if (order != 0 || n_a != n_b)
        return order < 0 || (order == 0 && n_a < n_b);
    const bool markup_a = ig__token_is_markup(tk, a), markup_b = ig__token_is_markup(tk, b);
    return markup_a != markup_b ? markup_a : a < b;
}

/* Merge the sorted runs from[lo..mid) and from[mid..hi) into to[lo..hi). */
static void merge_runs(const ig_tokenizer *tk, int32_t *to, const int32_t *from, int64_t lo,
                       int64_t mid, int64_t hi)
{
    int64_t i = lo, j = mid;
    for (int64_t k = lo; k < hi; k++) {
        const bool right = i == mid || (j < hi && goes_before(tk, from[j], from[i]));
        to[k] = right ? from[j++] : from[i++];
    }
}

/* Sort ids[0..n) bottom-up, with room for as many; no order of input is slow. */
static void sort_ids(const ig_tokenizer *tk, int32_t *ids, int32_t *room, int64_t n)
{
    int32_t *from = ids, *to = room;
    for (int64_t run = 1; run < n; run *= 2) {
        for (int64_t lo = 0; lo < n; lo += 2 * run) {
            const int64_t mid = lo + run < n ? lo + run : n;
            const int64_t hi = mid + run < n ? mid + run : n;
            merge_runs(tk, to, from, lo, mid, hi);
        }
        int32_t *swap = from;
        from = to;
        to = swap;
    }
    if (from != ids)
        memcpy(ids, from, (size_t)n * sizeof *ids);
}

static bool is_special(const ig_tokenizer *tk, int32_t id)
{
    const size_t n = tk->starts[id + 1] - tk->starts[id];
    return (ig__token_is_markup(tk, id) || tk->types[id] == IG__TOKEN_USER) && n > 0 &&
           n <= IG__TOKEN_BYTES_MAX;
}

/* Of tokens alike in bytes and kind keep the last, as the maps of merges do. */
static int64_t drop_doubles(const ig_tokenizer *tk, int32_t *ids, int64_t n)
{
    int64_t kept = 0;
    for (int64_t i = 0; i < n; i++) {
        size_t n_a, n_b = 0;
        const char *a = ig__token_at(tk, ids[i], &n_a);
        const char *b = i + 1 < n ? ig__token_at(tk, ids[i + 1], &n_b) : NULL;
        const bool doubled =
            b && n_a == n_b && memcmp(a, b, n_a) == 0 &&
            ig__token_is_markup(tk, ids[i]) == ig__token_is_markup(tk, ids[i + 1]);
        if (!doubled)
            ids[kept++] = ids[i];
    }
    return kept;
}

ig_status ig__specials_init(ig_tokenizer *tk, ig_error *err)
{
    int64_t n = 0;
    for (int64_t id = 0; id < tk->n_tokens; id++)
        n += is_special(tk, (int32_t)id);
    /* the second half is room for sorting */
    const size_t bytes = 2 * (size_t)n * sizeof *tk->specials;
    tk->specials = ig__alloc(&tk->a, bytes);
    if (!tk->specials)
        return ig__fail_memory(err, "tokenizer: special tokens", bytes);
    n = 0;
    for (int64_t id = 0; id < tk->n_tokens; id++)
        if (is_special(tk, (int32_t)id))
            tk->specials[n++] = (int32_t)id;
    sort_ids(tk, tk->specials, tk->specials + n, n);
    tk->n_specials = drop_doubles(tk, tk->specials, n);
    for (int64_t i = 0; i < tk->n_specials; i++)
        tk->special_first[(uint8_t)tk->arena[tk->starts[tk->specials[i]]] + 1]++;
    for (int b = 0; b < 256; b++)
        tk->special_first[b + 1] += tk->special_first[b];
    return IG_OK;
}

/* The first special in [lo, hi) whose byte at `depth` is at least `byte`; all in the range
 * are longer than `depth` and share the bytes before it. */
static uint32_t first_from(const ig_tokenizer *tk, uint32_t lo, uint32_t hi, size_t depth,
                           int byte)
{
    while (lo < hi) {
        const uint32_t mid = lo + (hi - lo) / 2;
        if ((uint8_t)tk->arena[tk->starts[tk->specials[mid]] + depth] < byte)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

int32_t ig__special_match(size_t *n_out, const ig_tokenizer *tk, const char *text,
                          size_t at, size_t n, ig__markup markup)
{
    uint32_t lo = tk->special_first[(uint8_t)text[at]];
    uint32_t hi = tk->special_first[(uint8_t)text[at] + 1];
    int32_t best = -1;
    bool marked = true; /* all bytes so far are markup */
    for (size_t depth = 0; lo < hi && at + depth < n; depth++) {
        const int byte = (uint8_t)text[at + depth];
        marked = marked && (markup.all || (markup.at && markup.at[at + depth]));
        lo = first_from(tk, lo, hi, depth, byte);
        hi = first_from(tk, lo, hi, depth, byte + 1);
        for (; lo < hi; lo++) { /* at most two: those that end here sort first */
            const int32_t id = tk->specials[lo];
            if (tk->starts[id + 1] - tk->starts[id] != depth + 1)
                break;
            if (marked || !ig__token_is_markup(tk, id)) {
                best = id;
                *n_out = depth + 1;
            }
        }
    }
    return best;
}

int32_t ig__special_named(const ig_tokenizer *tk, const char *name)
{
    const size_t want = strlen(name);
    size_t n = 0;
    const ig__markup all = {.all = true};
    const int32_t id = ig__special_match(&n, tk, name, 0, want, all);
    return id >= 0 && n == want && tk->types[id] == IG__TOKEN_CONTROL ? id : -1;
}
