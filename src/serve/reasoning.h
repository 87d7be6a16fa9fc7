/* Telling a model's thinking from its answer: text between <think> and </think> at the start
 * of an answer goes to `reasoning_content`.
 *
 * At most a few bytes are held back: what may still become one of the two marks.
 */
#ifndef INGOT_SERVE_REASONING_H
#define INGOT_SERVE_REASONING_H

#include <stdbool.h>
#include <stddef.h>

typedef enum ig__reasoning_state {
    IG_REASONING_START, /* only white space and a part of <think> so far */
    IG_REASONING_INSIDE,
    IG_REASONING_AFTER, /* behind </think>: white space is skipped */
    IG_REASONING_OFF
} ig__reasoning_state;

typedef struct ig__reasoning {
    ig__reasoning_state state;
    char held[32]; /* [n_held] */
    size_t n_held;
} ig__reasoning;

/* One byte: what is final of it is given to `take`, maybe with what was held. */
typedef void ig__reasoning_take(void *user, bool reasoning, const char *bytes, size_t n);

void ig__reasoning_push(ig__reasoning *r, const char *bytes, size_t n,
                        ig__reasoning_take *take, void *user);
/* No more follows: what is held is text. */
void ig__reasoning_flush(ig__reasoning *r, ig__reasoning_take *take, void *user);

#endif
