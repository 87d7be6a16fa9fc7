/* Byte-level BPE: the tokens of GPT-2, Llama 3, Qwen 2 and SmolLM.
 *
 * A file writes the 256 bytes as printable characters (a blank is "Ġ"); here tokens are
 * their bytes, so that text is never translated. A merge "left right" becomes the pair of
 * their ids; its line is its rank. Encoding cuts the text into words (pretokenize.c),
 * begins with the token of each byte and merges.
 *
 * Source: Sennrich, Haddow, Birch, "Neural machine translation of rare words with subword
 * units", ACL 2016; the alphabet of bytes is GPT-2's.
 */
#include "text/text_int.h"

#include "base/error.h"

#include <string.h>

/* The byte that a character of the alphabet stands for, or -1. Printable bytes of Latin-1
 * stand for themselves; the other 68 follow from U+0100 on, in order. */
static int byte_of_character(unsigned c)
{
    if ((c >= 0x21 && c <= 0x7e) || (c >= 0xa1 && c <= 0xac) || (c >= 0xae && c <= 0xff))
        return (int)c;
    if (c >= 0x100 && c <= 0x120) /* 00..20 */
        return (int)(c - 0x100);
    if (c >= 0x121 && c <= 0x142) /* 7f..a0 */
        return (int)(c - 0x121 + 0x7f);
    return c == 0x143 ? 0xad : -1;
}

/* Translate name[0..n) to bytes; false if it has a character outside the alphabet. */
static bool translate(char *out, size_t *n_out, const char *name, size_t n)
{
    size_t n_bytes = 0;
    for (size_t i = 0; i < n;) {
        const uint8_t lead = (uint8_t)name[i];
        if (lead >= 0x21 && lead <= 0x7e) { /* most by far */
            out[n_bytes++] = name[i++];
            continue;
        }
        unsigned c = lead;
        if (lead >= 0x80) { /* the alphabet ends at U+0143: two bytes are enough */
            if (lead < 0xc2 || lead > 0xc5 || i + 1 == n ||
                ((uint8_t)name[i + 1] & 0xc0) != 0x80)
                return false;
            c = (lead & 0x1fu) << 6 | ((uint8_t)name[i + 1] & 0x3fu);
        }
        const int byte = byte_of_character(c);
        if (byte < 0)
            return false;
        out[n_bytes++] = (char)byte;
        i += lead >= 0x80 ? 2 : 1;
    }
    *n_out = n_bytes;
    return true;
}

size_t ig__bpe_unescape(char *out, const char *name, size_t n, ig__token_type type,
                        bool *merges_out)
{
    const bool plain =
        type != IG__TOKEN_CONTROL && type != IG__TOKEN_UNKNOWN && type != IG__TOKEN_USER;
    size_t n_bytes;
    *merges_out = plain && translate(out, &n_bytes, name, n);
    if (*merges_out)
        return n_bytes;
    if (n)
        memcpy(out, name, n);
    return n;
}

#define BATCH_MERGES (IG__MAP_BATCH / 3)

/* Some merges on their way into the table. */
typedef struct merge_batch {
    char bytes[2 * IG__TOKEN_BYTES_MAX]; /* [n_bytes] of the tokens that they make */
    size_t n_bytes;
    ig__token_text keys[IG__MAP_BATCH]; /* [3 n] left, right, both; they point into bytes */
    uint32_t ranks[BATCH_MERGES];       /* [n] */
    int n;
} merge_batch;

static ig_status flush_merges(ig_tokenizer *tk, merge_batch *batch, ig_error *err)
{
    int32_t ids[IG__MAP_BATCH];
    ig__pair_slot pairs[BATCH_MERGES];
    int n = 0;
    ig__token_map_get_all(ids, &tk->by_bytes, tk, batch->keys, 3 * batch->n);
    for (int i = 0; i < batch->n; i++) {
        const int32_t *id = ids + (ptrdiff_t)3 * i;
        if (id[0] >= 0 && id[1] >= 0 && id[2] >= 0)
            pairs[n++] = (ig__pair_slot){
                .left = id[0], .right = id[1], .merged = id[2], .rank = batch->ranks[i]};
    }
    batch->n = 0;
    batch->n_bytes = 0;
    return ig__pair_map_add_all(&tk->pairs, pairs, n, err);
}

/* One line "left right". One that is not so, or names no token, is no rule. */
static ig_status add_merge(ig_tokenizer *tk, merge_batch *batch, ig__token_text line,
                           uint32_t rank, ig_error *err)
{
    if (line.n < 3 || line.n > 2 * IG__TOKEN_BYTES_MAX)
        return IG_OK;
    if (batch->n == BATCH_MERGES || line.n > sizeof batch->bytes - batch->n_bytes)
        IG_TRY(flush_merges(tk, batch, err));
    const char *gap = memchr(line.bytes + 1, ' ', line.n - 1);
    if (!gap)
        return IG_OK;
    char *bytes = batch->bytes + batch->n_bytes;
    const size_t n_left_name = (size_t)(gap - line.bytes);
    size_t n_left, n_right;
    if (!translate(bytes, &n_left, line.bytes, n_left_name) ||
        !translate(bytes + n_left, &n_right, gap + 1, line.n - n_left_name - 1))
        return IG_OK;
    ig__token_text *keys = batch->keys + (ptrdiff_t)3 * batch->n;
    keys[0] = (ig__token_text){bytes, n_left};
    keys[1] = (ig__token_text){bytes + n_left, n_right};
    keys[2] = (ig__token_text){bytes, n_left + n_right};
    batch->ranks[batch->n++] = rank;
    batch->n_bytes += n_left + n_right;
    return IG_OK;
}

static ig_status add_merges(ig_tokenizer *tk, const ig__vocab *vocab, ig_error *err)
{
    merge_batch batch;
    batch.n = 0;
    batch.n_bytes = 0;
    IG_TRY(ig__pair_map_init(&tk->pairs, &tk->a, vocab->n_merges, tk->by_bytes.seed, err));
    for (int64_t i = 0; i < vocab->n_merges; i++)
        IG_TRY(add_merge(tk, &batch, vocab->merges[i], (uint32_t)i, err));
    return flush_merges(tk, &batch, err);
}

ig_status ig__bpe_prepare(ig_tokenizer *tk, const ig__vocab *vocab, ig_error *err)
{
    IG_TRY(ig__splitter_create(&tk->splitter, &tk->a, vocab->pre, err));
    tk->whole_words = ig__splitter_whole_words(tk->splitter);
    for (int b = 0; b < 256; b++) {
        const char byte = (char)b;
        tk->byte_ids[b] = ig__token_map_get(&tk->by_bytes, tk, &byte, 1);
    }
    IG_TRY(add_merges(tk, vocab, err));
    if (!tk->whole_words) { /* only merging by ids is left */
        ig__free(&tk->a, tk->by_bytes.slots);
        tk->by_bytes.slots = NULL;
    }
    return IG_OK;
}

static bool ranked_pair(uint32_t *rank_out, int32_t *merged_out, const ig__text_work *work,
                        const char *word, uint32_t i, uint32_t j)
{
    (void)word;
    const ig__pair_slot *pair =
        ig__pair_map_get(&work->tk->pairs, work->symbols[i].id, work->symbols[j].id);
    if (!pair)
        return false;
    *rank_out = pair->rank;
    *merged_out = pair->merged;
    return true;
}

typedef struct bpe_run {
    ig__text_work *work;
    const char *text;
} bpe_run;

static ig_status encode_word(void *arg, size_t at, size_t n, ig_error *err)
{
    ig__text_work *work = ((bpe_run *)arg)->work;
    const char *word = ((bpe_run *)arg)->text + at;
    const ig_tokenizer *tk = work->tk;
    if (tk->whole_words) {
        const int32_t id = ig__token_map_get(&tk->by_bytes, tk, word, n);
        if (id >= 0)
            return ig__ids_push(work->ids, &tk->a, id, err);
    }
    IG_TRY(ig__work_reserve(work, 0, n, err));
    for (size_t i = 0; i < n; i++)
        work->symbols[i] = (ig__text_symbol){
            .n = 1, .prev = (int32_t)i - 1, .id = tk->byte_ids[(uint8_t)word[i]]};
    IG_TRY(ig__merge(work, word, (uint32_t)n, ranked_pair, err));
    return ig__merge_emit(work, word, (uint32_t)n, err);
}

ig_status ig__bpe_encode(ig__text_work *work, const char *text, size_t n,
                         bool after_special, ig_error *err)
{
    (void)after_special;
    bpe_run run = {.work = work, .text = text};
    return ig__split(work->tk->splitter, text, n, encode_word, &run, err);
}
