/* The text of an answer as its tokens arrive: which part of it is final, and whether a stop
 * string ended it.
 *
 * Final text is whole UTF-8 characters, never shrinks, and holds no part of a stop string:
 * what could still become one is held back until it is decided. The stop string that is
 * complete first ends the answer (of several at one byte, the longest); text from its first
 * byte on is dropped.
 *
 *     an answer:  ...already given...|final: data[0..n_final)|held: data[n_final..n)|
 */
#ifndef INGOT_INFER_ANSWER_H
#define INGOT_INFER_ANSWER_H

#include "base/buffer.h"
#include "ingot/tokenizer.h"

/* Is the text whole, valid UTF-8? */
bool ig__is_utf8(const char *text, size_t n);

typedef struct ig__stop {
    const char *text; /* [n] the caller's */
    int32_t *back;    /* [n] back[i]: longest proper prefix of text that ends text[0..i] */
    int32_t n;
    int32_t matched; /* text[0..matched) ends what was read; < n until stopped */
} ig__stop;

typedef struct ig__answer {
    const ig_allocator *a;
    ig__stop *stops; /* [n_stops] */
    int64_t n_stops;
    int32_t *backs; /* all of their back tables */
    ig_utf8_stream stream;
    ig__buffer text;
    size_t n_final; /* <= text.n; valid until the next push */
    bool stopped;
} ig__answer;

/* The stop strings (not copied) are non-empty UTF-8. On failure the answer is empty and
 * needs no fini. */
ig_status ig__answer_init(ig__answer *answer, const ig_allocator *a,
                          const char *const *stop, int64_t n_stop, ig_error *err);
void ig__answer_fini(ig__answer *answer);

/* Add a token's bytes. Then text.data[0..n_final) is the newly final text. Once stopped,
 * nothing more becomes final. */
ig_status ig__answer_push(ig__answer *answer, const char *bytes, size_t n, ig_error *err);
/* No token follows: all that was held back becomes final, unless stopped. */
ig_status ig__answer_flush(ig__answer *answer, ig_error *err);

#endif
