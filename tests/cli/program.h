/* Running the command as a user does: arguments, standard input, what comes out. */
#ifndef INGOT_TESTS_CLI_PROGRAM_H
#define INGOT_TESTS_CLI_PROGRAM_H

#include <stddef.h>

#include <jansson.h>

typedef struct outcome {
    int code;        /* exit code; 128 + n: ended by signal n */
    char *out, *err; /* with a 0 behind */
    size_t n_out, n_err;
    long peak_kib; /* most resident memory it had */
} outcome;

enum { TO_PIPE, TO_CLOSED_PIPE, TO_FULL_DISK };

/* argv without the program's name, NULL at its end; `in` is standard input (NULL: empty).
 */
outcome program_run(const char *const *argv, const char *in, size_t n_in, int out_to);
void program_free(outcome *o);

/* Arguments as words of one string, apart by '|' (which no test needs otherwise). */
outcome program_words(const char *words, const char *in);

/* Standard output as exactly one JSON object; fails the test if it is anything else. */
json_t *program_json(const outcome *o);

/* The model that tests use; NULL (and a line that says so): there is none. */
const char *program_model(void);

/* `verb` on that model, with more words (may be ""). */
outcome program_on_model(const char *verb, const char *words, const char *in);
/* The same, which must succeed and print one object; the caller's. */
json_t *program_json_of(const char *verb, const char *words, const char *in);

/* object[name] is this list of numbers, apart by spaces; this text; a list so long. */
void assert_json_ids(json_t *object, const char *name, const char *wanted);
void assert_json_text(json_t *object, const char *name, const char *wanted);
size_t json_length(json_t *object, const char *name);

#define REQUIRE_MODEL()                                                                    \
    if (!program_model())                                                                  \
    skip()

#endif
