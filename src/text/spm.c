/* SentencePiece BPE: the tokens of Llama 2 and Gemma.
 *
 * A file writes a blank as U+2581; here tokens are their bytes, and so a U+2581 in a text
 * is the same as a blank, as in the reference. Any two neighbours that together are a token
 * may merge, that with the highest score first. A character that is no token becomes the
 * tokens of its bytes.
 *
 * SentencePiece merges over the whole text. The same comes out when it is cut between two
 * bytes that follow each other in no token, which is nearly every place before a blank; so
 * the heap stays as small as a word.
 *
 * Source: Kudo, Richardson, "SentencePiece", EMNLP 2018 (demo), and its bpe_model.
 */
#include "text/text_int.h"

#include "base/error.h"

#include <string.h>

/* Replace U+2581 (E2 96 81) by a blank; returns the bytes written to out, at most n. */
static size_t unescape_blanks(char *out, const char *text, size_t n)
{
    size_t n_out = 0, i = 0;
    while (i < n) {
        const bool blank = n - i >= 3 && memcmp(text + i, "\xe2\x96\x81", 3) == 0;
        out[n_out++] = blank ? ' ' : text[i];
        i += blank ? 3 : 1;
    }
    return n_out;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The byte that "<0xAB>" names, or -1. */
static int named_byte(const char *name, size_t n)
{
    if (n != 6 || memcmp(name, "<0x", 3) != 0 || name[5] != '>')
        return -1;
    const int high = hex_digit(name[3]), low = hex_digit(name[4]);
    return high < 0 || low < 0 ? -1 : high << 4 | low;
}

size_t ig__spm_unescape(char *out, const char *name, size_t n, ig__token_type type,
                        bool *merges_out)
{
    *merges_out = type == IG__TOKEN_NORMAL || type == IG__TOKEN_UNUSED;
    if (*merges_out)
        return unescape_blanks(out, name, n);
    const int byte = type == IG__TOKEN_BYTE ? named_byte(name, n) : -1;
    if (byte >= 0) {
        out[0] = (char)byte;
        return 1;
    }
    if (n)
        memcpy(out, name, n);
    return n;
}

static void note_joins(ig_tokenizer *tk, int32_t id)
{
    size_t n;
    const uint8_t *bytes = (const uint8_t *)ig__token_at(tk, id, &n);
    for (size_t i = 1; i < n; i++) {
        const unsigned pair = (unsigned)bytes[i - 1] << 8 | bytes[i];
        tk->joins[pair / 64] |= (uint64_t)1 << pair % 64;
    }
}

ig_status ig__spm_prepare(ig_tokenizer *tk, const ig__vocab *vocab, ig_error *err)
{
    tk->space_prefix = vocab->add_space_prefix;
    tk->joins = ig__alloc_zero(&tk->a, 1024 * sizeof *tk->joins);
    if (!tk->joins)
        return ig__fail_memory(err, "tokenizer", 1024 * sizeof *tk->joins);
    for (unsigned b = 0; b < 256; b++) { /* a file without types names them all the same */
        const char *digits = "0123456789ABCDEF";
        const char name[6] = {'<', '0', 'x', digits[b >> 4], digits[b & 15], '>'};
        tk->byte_ids[b] = ig__token_map_get(&tk->by_bytes, tk, name, sizeof name);
    }
    for (int64_t i = 0; i < tk->n_tokens; i++) {
        const int32_t id = (int32_t)i;
        const ig__token_type type = tk->types[i];
        if (type == IG__TOKEN_NORMAL || type == IG__TOKEN_UNUSED)
            note_joins(tk, id);
        else if (type == IG__TOKEN_BYTE && tk->starts[i + 1] - tk->starts[i] == 1)
            tk->byte_ids[(uint8_t)tk->arena[tk->starts[i]]] = id;
    }
    return IG_OK;
}

/* Scores as numbers that sort the other way round: the highest score has the lowest rank; a
 * NaN comes last. */
static uint32_t rank_of_score(float score)
{
    uint32_t bits;
    memcpy(&bits, &score, sizeof bits);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return UINT32_MAX;
    if (bits == 0x80000000u) /* -0 is 0 */
        bits = 0;
    return bits & 0x80000000u ? bits : ~bits & 0x7fffffffu;
}

static bool scored_pair(uint32_t *rank_out, int32_t *merged_out, const ig__text_work *work,
                        const char *word, uint32_t i, uint32_t j)
{
    const size_t n = (size_t)work->symbols[i].n + work->symbols[j].n;
    if (n > IG__TOKEN_BYTES_MAX)
        return false;
    const ig_tokenizer *tk = work->tk;
    *merged_out = ig__token_map_get(&tk->by_bytes, tk, word + i, n);
    if (*merged_out < 0)
        return false;
    *rank_out = tk->scores ? rank_of_score(tk->scores[*merged_out]) : 0;
    return true;
}

static bool joined(const ig_tokenizer *tk, char a, char b)
{
    const unsigned pair = (unsigned)(uint8_t)a << 8 | (uint8_t)b;
    return tk->joins[pair / 64] >> pair % 64 & 1;
}

/* Lay out the characters of text[0..n) as symbols, up to the first place where no token can
 * reach across; returns the bytes taken. n >= 1. */
static size_t lay_word(ig__text_work *work, const char *text, size_t n, ig_error *err,
                       ig_status *status)
{
    const ig_tokenizer *tk = work->tk;
    int32_t prev = -1;
    size_t i = 0;
    do {
        ig__utf8_kind kind;
        const size_t unit = ig__utf8_unit(&kind, text + i, n - i);
        *status = ig__work_reserve(work, i, i + unit, err);
        if (*status != IG_OK)
            return 0;
        work->symbols[i] =
            (ig__text_symbol){.n = (uint32_t)unit,
                              .prev = prev,
                              .id = ig__token_map_get(&tk->by_bytes, tk, text + i, unit)};
        prev = (int32_t)i;
        i += unit;
    } while (i < n && joined(tk, text[i - 1], text[i]));
    return i;
}

ig_status ig__spm_encode(ig__text_work *work, const char *text, size_t n,
                         bool after_special, ig_error *err)
{
    if (n == 0)
        return IG_OK;
    ig__buffer *copy = &work->copy;
    copy->n = 0;
    if (!ig__buffer_reserve(copy, n + 1))
        return ig__fail_memory(err, "tokenize", n + 1);
    if (work->tk->space_prefix && after_special)
        copy->data[copy->n++] = ' ';
    copy->n += unescape_blanks(copy->data + copy->n, text, n);
    for (size_t at = 0; at < copy->n;) {
        const char *word = copy->data + at;
        ig_status status;
        const size_t n_word = lay_word(work, word, copy->n - at, err, &status);
        if (status != IG_OK)
            return status;
        IG_TRY(ig__merge(work, word, (uint32_t)n_word, scored_pair, err));
        IG_TRY(ig__merge_emit(work, word, (uint32_t)n_word, err));
        at += n_word;
    }
    return IG_OK;
}
