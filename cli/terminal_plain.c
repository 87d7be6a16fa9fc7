/* Lines without libedit: the terminal's own editing. */
#include "terminal.h"

#include <stdlib.h>
#include <unistd.h>

struct terminal {
    bool interactive;
};

terminal *terminal_open(void)
{
    terminal *t = calloc(1, sizeof *t);
    if (t)
        t->interactive = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
    return t;
}

bool terminal_is_interactive(const terminal *t)
{
    return t->interactive;
}

input_got terminal_line(char **line_out, terminal *t, const char *prompt)
{
    if (t->interactive) {
        fputs(prompt, stdout);
        fflush(stdout);
    }
    return input_line(line_out, stdin);
}

void terminal_close(terminal *t)
{
    free(t);
}
