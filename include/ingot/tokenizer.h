/* Text to token ids and back. Made by a model or a vocabulary file (ig_tokenizer_open).
 * Immutable once made: any number of threads may use one at a time.
 */
#ifndef INGOT_TOKENIZER_H
#define INGOT_TOKENIZER_H

#include "ingot/context.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ig_tokenizer ig_tokenizer;

/* A growing list of ids; zero-initialise, or start from an earlier result to append.
 * `ids` is the allocator's; free with ig_ids_free. */
typedef struct ig_ids {
    int32_t *ids; /* [n]; NULL only if cap is 0 */
    int64_t n, cap;
} ig_ids;

typedef struct ig_tokenize_opts {
    bool plain;       /* do not recognise control tokens written in the text */
    bool add_special; /* put the special tokens (BOS, EOS) that the file asks for around it;
                         no BOS before a text that begins with its control token */
} ig_tokenize_opts;

/* Open only the vocabulary of a GGUF file (a vocabulary-only file will do). */
IG_API IG_WARN_UNUSED ig_status ig_tokenizer_open(ig_tokenizer **tokenizer_out,
                                                  ig_context *ctx, const char *path,
                                                  ig_error *err);
IG_API void
ig_tokenizer_close(ig_tokenizer *tokenizer); /* may be NULL; not for a model's own */

/* Append the ids of text[0..n_bytes) to `ids`; any bytes are accepted, valid UTF-8 or not.
 * On failure `ids` keeps what it had. `opts` may be NULL. */
IG_API IG_WARN_UNUSED ig_status ig_tokenize(ig_ids *ids, const ig_tokenizer *tokenizer,
                                            const char *text, size_t n_bytes,
                                            const ig_tokenize_opts *opts, ig_error *err);
IG_API void ig_ids_free(const ig_tokenizer *tokenizer, ig_ids *ids);

/* The bytes of one token, as they stand in running text (may be part of a character; a
 * control token gives its name when `special`, else nothing). Returns the byte count, 0 for
 * an id outside the vocabulary; writes at most `cap` bytes, no terminating 0. Text before
 * which nothing stands may lose its first space: that is ig_detokenize's business, not this
 * function's. */
IG_API size_t ig_token_bytes(const ig_tokenizer *tokenizer, int32_t id, bool special,
                             char *bytes, size_t cap);

/* The bytes of a sequence, exact: the result is allocated with malloc's rules of the
 * context's allocator and freed with ig_text_free; a 0 stands behind the last byte. */
IG_API IG_WARN_UNUSED ig_status ig_detokenize(char **text_out, size_t *n_bytes_out,
                                              const ig_tokenizer *tokenizer,
                                              const int32_t *ids, int64_t n, bool special,
                                              ig_error *err);
IG_API void ig_text_free(const ig_tokenizer *tokenizer, char *text);

IG_API int64_t ig_tokenizer_vocab(const ig_tokenizer *tokenizer); /* V */
IG_API int32_t ig_tokenizer_bos(const ig_tokenizer *tokenizer);   /* -1: none */
IG_API int32_t ig_tokenizer_eos(const ig_tokenizer *tokenizer);   /* -1: none */
IG_API bool
ig_tokenizer_adds_bos(const ig_tokenizer *tokenizer); /* what the file asks for */
/* Does this id end an answer (EOS, and the end-of-turn tokens that the vocabulary names)?
 */
IG_API bool ig_token_is_end(const ig_tokenizer *tokenizer, int32_t id);
IG_API bool ig_token_is_control(const ig_tokenizer *tokenizer, int32_t id);

/* Whole characters out of a stream of tokens: the bytes that wait are at most 3 of an
 * unfinished character. Zero-initialise. */
typedef struct ig_utf8_stream {
    char held[4];
    int n_held;
} ig_utf8_stream;

/* Push `n` bytes; writes what is now whole to `out` (room for n + 3 + 3 * (n + 3) bytes: a
 * byte that can never be valid becomes U+FFFD) and returns its length. With bytes NULL,
 * flushes: an unfinished character becomes one U+FFFD. */
IG_API size_t ig_utf8_stream_push(ig_utf8_stream *stream, const char *bytes, size_t n,
                                  char *out);

#ifdef __cplusplus
}
#endif
#endif
