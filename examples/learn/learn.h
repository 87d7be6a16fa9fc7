/* What the programs of this course share, so that each of them shows its own idea only:
 *
 *   learn_must(status, &err)   ends the program with the message of a step that failed
 *   learn_check(ig)            the same for the expressions so far: the first failure stays on the context
 *   learn_text_read(ig, f)     a text as numbers, one a character
 *   learn_draw(z, heat)        draws one of the classes that logits weigh
 *   learn_curve(..)            a line of the curve: a bar as long as the loss
 *   learn_speed(..)            what a second did, beside what this machine could have done
 */
#ifndef EXAMPLES_LEARN_LEARN_H
#define EXAMPLES_LEARN_LEARN_H

#include "ingot/ingot.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static inline void learn_must(ig_status status, const ig_error *err)
{
    if (status != IG_OK) {
        fprintf(stderr, "%s\n", err->message);
        exit(2);
    }
}

static inline void learn_check(const ig_context *ig)
{
    if (ig_context_status(ig) != IG_OK) {
        fprintf(stderr, "%s\n", ig_context_message(ig));
        exit(2);
    }
}

static inline double learn_seconds(void)
{
    struct timespec t;
    timespec_get(&t, TIME_UTC);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The number that an argument gives; `otherwise` without it. */
static inline int learn_argument(int argc, char **argv, int i, int otherwise)
{
    const long n = i < argc ? strtol(argv[i], NULL, 10) : otherwise;
    return n > 0 && n < 1000000 ? (int)n : otherwise;
}

/* ---- texts --------------------------------------------------------------------------------------- */

typedef struct learn_text {
    int n_chars;              /* different ones: V */
    unsigned char chars[256]; /* [V]: the character of each number */
    ig_tensor *train, *test;  /* the first nine tenths and the last, as numbers, [n] i32 */
} learn_text;

/* All of a file. Characters get numbers in the order of their bytes. */
static inline learn_text learn_text_read(ig_context *ig, FILE *f)
{
    enum { MOST = 1 << 24 };
    learn_text text = {0};
    unsigned char *bytes = malloc(MOST);
    int32_t *ids = malloc(MOST * sizeof *ids), number[256] = {0};
    const int64_t n = bytes ? (int64_t)fread(bytes, 1, MOST, f) : 0;
    if (!bytes || !ids || n < 4000) {
        fprintf(stderr, "wants a text on standard input, 4,000 bytes or more\n");
        exit(2);
    }
    for (int64_t i = 0; i < n; i++)
        number[bytes[i]] = 1;
    for (int c = 0; c < 256; c++)
        if (number[c]) {
            text.chars[text.n_chars] = (unsigned char)c;
            number[c] = text.n_chars++;
        }
    for (int64_t i = 0; i < n; i++)
        ids[i] = number[bytes[i]];
    const int64_t n_train = n * 9 / 10;
    text.train = ig_tensor_from(ig, IG_DTYPE_I32, IG_SHAPE(n_train), ids);
    text.test = ig_tensor_from(ig, IG_DTYPE_I32, IG_SHAPE(n - n_train), ids + n_train);
    printf("%" PRId64 " characters, %d different\n", n, text.n_chars);
    free(bytes);
    free(ids);
    return text;
}

/* One class for each row of logits z [..,V]. Gumbel's trick: add to each the double logarithm of
 * a random number, and the largest is a draw from softmax. `heat` below 1 prefers the likely ones. */
static inline ig_tensor *learn_draw(ig_tensor *z, double heat)
{
    int64_t dims[8];
    for (int i = 0; i < ig_tensor_n_dims(z); i++)
        dims[i] = ig_tensor_dim(z, i);
    ig_tensor *u =
        ig_uniform(ig_tensor_context(z), IG_DTYPE_F32, ig_tensor_n_dims(z), dims, 1e-6, 1);
    ig_tensor *noise = ig_neg(ig_log(ig_neg(ig_log(u))));
    return ig_argmax(ig_add(ig_scale(z, 1 / heat), noise), -1, false);
}

/* ---- what a learner wants to see ------------------------------------------------------------------- */

static inline void learn_curve(const char *what, int step, double loss)
{
    const int length = loss < 4 ? (int)(14 * loss) : 56;
    printf("%s %5d  loss %.4f  %.*s\n", what, step, loss, length,
           "########################################################");
    fflush(stdout);
}

/* n_steps steps took `seconds`. Each has to multiply (`ops` operations) and to move (`bytes`): the time
 * that this machine's own measured peaks need for that is the limit. */
static inline void learn_speed(ig_context *ig, const char *what, double n_units, double ops,
                               double bytes, int n_steps, double seconds)
{
    ig_error err;
    ig_machine m;
    learn_must(ig_machine_measure(&m, ig, 0.5, &err), &err);
    const double step = seconds / n_steps;
    const double limit = ops / m.f32_ops_s + bytes / m.read_bytes_s;
    printf("speed: %.0f %s a second, %.2f ms a step; %.1f of the %.0f GFLOP/s that %d "
           "threads can\n"
           "limit: products %.2f ms + bytes %.2f ms a step: %.0f %% of it reached\n",
           n_units * n_steps / seconds, what, 1e3 * step, ops / step / 1e9,
           m.f32_ops_s / 1e9, ig_context_threads(ig), 1e3 * ops / m.f32_ops_s,
           1e3 * bytes / m.read_bytes_s, 100 * limit / step);
}

#endif
