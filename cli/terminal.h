/* Lines from the keyboard, or from a pipe.
 *
 * On a terminal (both ways) with editing and history where the build has libedit; anywhere
 * else plain lines, without a prompt. Two files offer this: terminal.c with libedit,
 * terminal_plain.c without.
 */
#ifndef INGOT_CLI_TERMINAL_H
#define INGOT_CLI_TERMINAL_H

#include "input.h"

typedef struct terminal terminal;

/* With interrupt_catch before and interrupt_release behind terminal_close: in between the
 * terminal is in no state to be left. What was typed before is kept. NULL: no memory. */
terminal *terminal_open(void);
/* Is a person typing? */
bool terminal_is_interactive(const terminal *t);
/* The next line without its newline, the caller's to free. Ctrl-C while typing is
 * INPUT_INTERRUPTED (interrupt_catch must have been called); Ctrl-D INPUT_END. */
input_got terminal_line(char **line_out, terminal *t, const char *prompt);
void terminal_close(terminal *t); /* may be NULL */

#endif
