/* Text that comes in: files, standard input, and lines of it. */
#ifndef INGOT_CLI_INPUT_H
#define INGOT_CLI_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef struct input {
    char *text; /* [n] and a 0 behind; NULL: nothing was read; free with input_free */
    size_t n;
} input;

/* The most bytes of a text (what ig_tokenize takes), and of a chat template. */
enum { INPUT_TEXT_MOST = INT32_MAX - 1, INPUT_TEMPLATE_MOST = 1 << 24 };

/* Append what `path` holds ("-": standard input), to its end; `in` holds `most` bytes then
 * at most. The exit code; a failure has been said, for `verb`. */
int input_read(input *in, const char *verb, const char *path, size_t most);
/* Append n bytes; false: no memory. */
bool input_append(input *in, const char *bytes, size_t n);
/* The text that a verb works on: `text`, or the file, or standard input. Both is a usage
 * error. */
int input_choose(input *in, const char *verb, const char *text, const char *file);
/* Drop one newline at the end: an editor's or echo's, not the author's. */
void input_drop_newline(input *in);
void input_free(input *in);

typedef enum input_got {
    INPUT_LINE,
    INPUT_END,
    INPUT_INTERRUPTED,
    INPUT_FAILED,
    INPUT_ZERO
} input_got;
/* The next line without its newline; *line_out is the caller's to free. After INPUT_FAILED
 * errno says why; INPUT_ZERO: the line holds a zero byte, and no string can say it. */
input_got input_line(char **line_out, FILE *file);

#endif
