/* Options of the command line, as tables.
 *
 * A verb has one table of rows; a row names an option, its kind, its range, and where in
 * the verb's options struct its value goes. Parsing, messages, help and the defaults that
 * help shows all come from the same row. Pointers in the options point into argv.
 */
#ifndef INGOT_CLI_ARGS_H
#define INGOT_CLI_ARGS_H

#include "report.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum args_kind {
    ARGS_FLAG,  /* bool; takes no value */
    ARGS_TEXT,  /* const char * */
    ARGS_TEXTS, /* args_texts; may be given again and again */
    ARGS_INT,   /* int64_t */
    ARGS_INTS,  /* args_ints; a list with commas */
    ARGS_REAL,  /* double */
    ARGS_CHOICE /* int: which of the words of `value` */
} args_kind;

enum { ARGS_MAX_LIST = 256 };

typedef struct args_texts {
    const char *at[ARGS_MAX_LIST]; /* [n] */
    int64_t n;
} args_texts;

typedef struct args_ints {
    int64_t at[ARGS_MAX_LIST]; /* [n] */
    int64_t n;
} args_ints;

typedef struct args_option {
    const char *name; /* "--temp" */
    char letter;      /* 'p' for "-p"; 0: none */
    args_kind kind;
    size_t offset;     /* of the value in the verb's options */
    const char *value; /* the value's name in help; of a choice the words: "f16|f32" */
    const char *help;  /* short: it shares a line with the name */
    double min, max;   /* of numbers, both allowed */
    const char *shown; /* the default in help; NULL: the value itself */
} args_option;

typedef struct args_verb {
    const char *name;     /* "run" */
    const char *operands; /* "MODEL" */
    const char *summary;  /* lines of help, without a newline at the end */
    int min_operands, max_operands;
    const args_option *options; /* [n_options] */
    int n_options;
    size_t options_bytes;
    void (*defaults)(void *options); /* fills zeroed options; may be NULL */
    int (*run)(report *out, const void *options, const char *const *operands,
               int n_operands); /* returns the exit code */
} args_verb;

enum { ARGS_OK = 0, ARGS_HELP = -1 }; /* else an exit code */

/* Parse argv[0..argc) into options (zeroed and filled with the defaults) and operands
 * [argc]. Returns ARGS_OK, ARGS_HELP when help was asked for, or, after one line on
 * standard error, EXIT_USAGE. */
int args_parse(const args_verb *verb, void *options, const char **operands,
               int *n_operands_out, int argc, char *const *argv);

/* Write the verb's help; defaults are those that stand in `options`. */
void args_help(report *out, const args_verb *verb, const void *options);

/* Strict numbers: the whole text, decimal, no white space. */
bool args_read_int(int64_t *out, const char *text, size_t n);
bool args_read_real(double *out, const char *text);

/* Edit distance (insert, delete, replace, swap neighbours), at most 1000. */
int args_distance(const char *a, const char *b);

#endif
