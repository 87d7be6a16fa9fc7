/* Making a tokenizer from the arrays of a vocabulary, whatever file they came from.
 *
 * Two models: byte-level BPE ("gpt2": merges over a pre-split text) and SentencePiece BPE
 * ("llama": scores, byte fallback). The tokenizer copies what it keeps.
 */
#ifndef INGOT_TEXT_TOKENIZER_H
#define INGOT_TEXT_TOKENIZER_H

#include "base/alloc.h"
#include "ingot/tokenizer.h"

typedef struct ig__token_text {
    const char *bytes; /* [n] */
    size_t n;
} ig__token_text; /* the same shape as the file reader's strings: an array of those can be
                     passed */

typedef struct ig__vocab {
    const char *model; /* "gpt2" or "llama" */
    const char *pre;   /* pre-tokeniser: "gpt-2", "smollm", "llama-bpe", "qwen2", "default";
                          may be NULL */
    const ig__token_text *tokens; /* [n_tokens] */
    int64_t n_tokens;
    const float *scores;          /* [n_tokens] or NULL */
    const int32_t *types;         /* [n_tokens] or NULL: 1 normal, 2 unknown, 3 control, 4
                                     user-defined, 5 unused, 6 byte */
    const ig__token_text *merges; /* [n_merges] "left right" */
    int64_t n_merges;
    int64_t bos, eos, unk, pad, eot; /* -1: none; others checked against n_tokens */
    bool add_bos, add_eos;
    bool add_space_prefix;
} ig__vocab;

ig_status ig__tokenizer_create(ig_tokenizer **tokenizer_out, const ig_allocator *a,
                               const ig__vocab *vocab, ig_error *err);
/* Destroying is ig_tokenizer_close. */

/* Where the tokenizer's memory, and that of the ids and texts it makes, comes from. */
const ig_allocator *ig__tokenizer_allocator(const ig_tokenizer *tokenizer);

/* Append the ids of a text of which only the bytes with markup[i] != 0 may be read as
 * control tokens. */
ig_status ig__tokenize_marked(ig_ids *ids, const ig_tokenizer *tokenizer, const char *text,
                              const uint8_t *markup, size_t n_bytes, ig_error *err);

#endif
