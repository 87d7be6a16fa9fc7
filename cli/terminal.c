/* Lines with libedit: editing and history on a terminal, plain lines elsewhere.
 *
 * libedit reads through read_char below, because a Ctrl-C while it waits must end the line:
 * its own reader goes on waiting after a signal.
 */
#include "terminal.h"

#include "interrupt.h"

#include <errno.h>
#include <histedit.h>
#include <locale.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

enum { HISTORY_LINES = 500 };

struct terminal {
    EditLine *edit; /* NULL: plain lines */
    History *history;
    const char *prompt;
};

static char *prompt_of(EditLine *edit)
{
    terminal *t;
    el_get(edit, EL_CLIENTDATA, &t);
    return (char *)(uintptr_t)t->prompt;
}

/* One character of the terminal, from as many bytes as it takes. 1, 0 at the end, -1. */
static int read_char(EditLine *edit, wchar_t *c)
{
    (void)edit;
    mbstate_t state = {0};
    for (;;) {
        char byte;
        const ssize_t n = read(STDIN_FILENO, &byte, 1);
        if (n < 0 && errno == EINTR && !*interrupt_flag())
            continue;
        if (n <= 0)
            return (int)n;
        const size_t got = mbrtowc(c, &byte, 1, &state);
        if (got != (size_t)-2 && got != (size_t)-1)
            return 1;
        if (got == (size_t)-1)
            memset(&state, 0, sizeof state);
    }
}

static bool start_editing(terminal *t)
{
    setlocale(LC_CTYPE, "");
    t->edit = el_init("ingot", stdin, stdout, stderr);
    t->history = history_init();
    if (!t->edit || !t->history)
        return false;
    HistEvent event;
    history(t->history, &event, H_SETSIZE, HISTORY_LINES);
    history(t->history, &event, H_SETUNIQUE, 1);
    el_set(t->edit, EL_CLIENTDATA, t);
    el_set(t->edit, EL_PROMPT, prompt_of);
    el_set(t->edit, EL_EDITOR, "emacs");
    el_set(t->edit, EL_HIST, history, t->history);
    el_set(t->edit, EL_GETCFN, read_char);
    return true;
}

terminal *terminal_open(void)
{
    terminal *t = calloc(1, sizeof *t);
    if (!t)
        return NULL;
    if (isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && !start_editing(t)) {
        terminal_close(t);
        return NULL;
    }
    return t;
}

bool terminal_is_interactive(const terminal *t)
{
    return t->edit;
}

input_got terminal_line(char **line_out, terminal *t, const char *prompt)
{
    if (!t->edit)
        return input_line(line_out, stdin);
    *line_out = NULL;
    t->prompt = prompt;
    int n = 0;
    const char *line = el_gets(t->edit, &n);
    if (!line || n < 0) {
        if (!*interrupt_flag())
            return INPUT_END;
        el_reset(t->edit);
        return INPUT_INTERRUPTED;
    }
    size_t length = (size_t)n;
    HistEvent event;
    if (length > 1)
        history(t->history, &event, H_ENTER, line);
    if (length && line[length - 1] == '\n')
        length--;
    *line_out = strndup(line, length);
    return *line_out ? INPUT_LINE : INPUT_END;
}

void terminal_close(terminal *t)
{
    if (!t)
        return;
    if (t->history)
        history_end(t->history);
    if (t->edit)
        el_end(t->edit);
    free(t);
}
