/* What the programs of this course share, so that each of them shows its own idea only.
 *
 *   learn_must, learn_check    end the program with the message of what failed
 *   learn_choose               random places: which examples a step learns from
 *   learn_text_read            a text as numbers, one a character
 *   learn_windows, _at         pieces of a text: from random places, or one behind the other
 *   learn_held_out             the mean loss over the text's last tenth
 *   learn_draw                 draws one of the classes that logits weigh
 *   learn_run, learn_curve     a recorded step, again and again, and the curve of its loss
 *   learn_speed                what a second did, beside what this machine could have done
 */
#ifndef EXAMPLES_LEARN_LEARN_H
#define EXAMPLES_LEARN_LEARN_H

#include "ingot/ingot.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* Of a call that returns its status; learn_check: of all expressions so far, whose first failure stays on the
 * context. */
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
    const long n = i < argc ? strtol(argv[i], NULL, 10) : 0;
    return n > 0 && n < 1000000 ? (int)n : otherwise;
}

/* n numbers from 0 .. end - 1, drawn anew when a recorded step runs again. */
static inline ig_tensor *learn_choose(ig_context *ig, int64_t n, int64_t end)
{
    return ig_cast(ig_uniform(ig, IG_DTYPE_F64, IG_SHAPE(n), 0, (double)end), IG_DTYPE_I64);
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
        if (number[c])
            text.chars[number[c] = text.n_chars++] = (unsigned char)c;
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

/* n windows of the text, [n,width], from random places; the same seed gives the same ones. */
static inline ig_tensor *learn_windows(ig_tensor *text, int64_t n, int64_t width)
{
    ig_context *ig = ig_tensor_context(text);
    ig_tensor *first = learn_choose(ig, n, ig_tensor_count(text) - width + 1);
    ig_tensor *behind = ig_arange(ig, IG_DTYPE_I64, 0, 1, width);
    return ig_index_select(text, 0, ig_add(ig_unsqueeze(first, 1), behind));
}

/* At most n windows of the text from window i on, [..,width], where windows begin `step` apart. */
static inline ig_tensor *learn_windows_at(ig_tensor *text, int64_t i, int64_t n,
                                          int64_t width, int64_t step)
{
    ig_context *ig = ig_tensor_context(text);
    const int64_t all = (ig_tensor_count(text) - width) / step + 1;
    n = all - i < n ? all - i : n;
    ig_tensor *first = ig_arange(ig, IG_DTYPE_I64, (double)(i * step), (double)step, n);
    ig_tensor *behind = ig_arange(ig, IG_DTYPE_I64, 0, 1, width);
    return ig_index_select(text, 0, ig_add(ig_unsqueeze(first, 1), behind));
}

/* A network's mean loss on windows [..,T+1]: T characters that are read, and each one's successor. */
typedef ig_tensor *learn_loss(ig_params *p, ig_tensor *windows, int64_t n_chars);

/* Over all windows of T characters of the last tenth that do not overlap. */
static inline double learn_held_out(learn_loss *loss_of, ig_params *p,
                                    const learn_text *text, int64_t t)
{
    enum { A_TIME = 64 };
    ig_context *ig = ig_tensor_context(text->test);
    const int64_t n = (ig_tensor_count(text->test) - 1) / t;
    const bool was = ig_grad_enable(ig, false);
    double sum = 0;
    for (int64_t i = 0; i < n; i += A_TIME) {
        ig_scope *scope = ig_scope_begin(ig);
        ig_tensor *windows = learn_windows_at(text->test, i, A_TIME, t + 1, t);
        sum += (double)ig_tensor_dim(windows, 0) *
               ig_tensor_item(loss_of(p, windows, text->n_chars));
        ig_scope_end(scope);
    }
    ig_grad_enable(ig, was);
    return sum / (double)n;
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

/* The bar is 60 characters for `full`. */
static inline void learn_curve(int step, double loss, double full)
{
    const int length = loss < full ? (int)(60 * loss / full) : 60;
    printf("step %5d  loss %.4f  %.*s\n", step, loss, length,
           "############################################################");
    fflush(stdout);
}

/* Run a recorded step until n_steps are done: the recording was the first. Returns the seconds of a step. */
static inline double learn_run(ig_program *step, const ig_tensor *loss, int n_steps)
{
    ig_error err;
    const int a_line = n_steps < 16 ? 1 : n_steps / 16;
    const double begin = learn_seconds();
    double sum = ig_tensor_item(loss), first = 0;
    for (int i = 1; i <= n_steps; i++) {
        if (i > 1) {
            learn_must(ig_program_run(step, &err), &err);
            sum += ig_tensor_item(loss);
        }
        if (i % a_line == 0) {
            first = first > 0 ? first : sum / a_line;
            learn_curve(i, sum / a_line, first);
            sum = 0;
        }
    }
    const double seconds = learn_seconds() - begin;
    const ig_program_stats s = ig_program_get_stats(step);
    printf("program: %" PRId64 " calls a step, %.1f MB of temporaries in %.1f MB\n",
           s.n_steps, (double)s.storage_bytes / 1e6, (double)s.planned_bytes / 1e6);
    return seconds / (n_steps > 1 ? n_steps - 1 : 1);
}

/* A step took `seconds` for n things. It has to multiply (`ops` operations) and to move (`bytes`): the time
 * that this machine's own peaks, measured now, need for that is the limit. */
static inline void learn_speed(ig_context *ig, double n, const char *things, double seconds,
                               double ops, double bytes)
{
    ig_error err;
    ig_machine m;
    learn_must(ig_machine_measure(&m, ig, 0.5, NULL, &err), &err);
    const double multiply = ops / m.f32_ops_s, move = bytes / m.read_bytes_s;
    const double a_second = seconds < 1e-3 ? 1e6 : 1e3;
    const char *unit = seconds < 1e-3 ? "us" : "ms";
    printf("speed: %.2f %s a step, %.0f %s a second, %.1f GFLOP/s of %.0f\n"
           "limit: %.2f %s to multiply and %.2f to move, on %d threads: %.0f %% reached\n",
           a_second * seconds, unit, n / seconds, things, ops / seconds / 1e9,
           m.f32_ops_s / 1e9, a_second * multiply, unit, a_second * move,
           ig_context_threads(ig), 100 * (multiply + move) / seconds);
}

#endif
