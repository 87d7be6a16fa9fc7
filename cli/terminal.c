/* Lines with libedit: editing and history on a terminal, plain lines elsewhere.
 *
 * The mode of the terminal is ours from open to close: no line mode and no echo, between
 * prompts too. libedit alone would go back to line mode after each line; a key that came in
 * the instant of a change was then taken by the wrong mode, and a Ctrl-D became a zero byte.
 * So whatever is typed, and whenever, waits for the next prompt as it was typed. What was
 * typed before the terminal was opened went through line mode: its Ctrl-D's are given back.
 * A signal that ends or stops the program gives the terminal back first.
 *
 * libedit reads through read_char below, because a Ctrl-C while it waits must end the line:
 * its own reader goes on waiting after a signal.
 */
#include "terminal.h"

#include "interrupt.h"

#include <errno.h>
#include <histedit.h>
#include <locale.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>
#include <wchar.h>

enum { HISTORY_LINES = 500, CTRL_D = 4 };

struct terminal {
    EditLine *edit; /* NULL: plain lines */
    History *history;
    const char *prompt;
    int n_early; /* bytes to come that were typed in line mode */
};

/* The terminal as it was found. A signal handler can reach nothing but globals. */
static struct termios found;

/* ---- signals --------------------------------------------------------------------------- */

static void on_end(int number)
{
    tcsetattr(STDIN_FILENO, TCSANOW, &found);
    signal(number, SIG_DFL);
    raise(number);
}

/* Stop as without a handler: not at all where no shell could make us go on. */
static void on_stop(int number)
{
    const int kept = errno;
    struct termios ours;
    struct sigaction action, stop = {.sa_handler = SIG_DFL};
    sigset_t only, before;
    sigemptyset(&stop.sa_mask);
    sigemptyset(&only);
    sigaddset(&only, number);
    tcgetattr(STDIN_FILENO, &ours);
    tcsetattr(STDIN_FILENO, TCSADRAIN, &found);
    sigaction(number, &stop, &action);
    raise(number);
    pthread_sigmask(SIG_UNBLOCK, &only, &before); /* here it stops */
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    sigaction(number, &action, NULL);
    tcsetattr(STDIN_FILENO, TCSADRAIN, &ours); /* in the foreground again */
    errno = kept;
}

static const struct caught {
    int number;
    void (*handler)(int);
} caught[] = {{SIGTERM, on_end}, {SIGHUP, on_end}, {SIGQUIT, on_end}, {SIGTSTP, on_stop}};
enum { N_CAUGHT = sizeof caught / sizeof *caught };

static void catch_signals(void)
{
    for (int i = 0; i < N_CAUGHT; i++) {
        struct sigaction action = {.sa_handler = caught[i].handler, .sa_flags = SA_RESTART};
        struct sigaction before;
        sigemptyset(&action.sa_mask);
        /* what was ignored (nohup, a shell without job control) stays so */
        if (!sigaction(caught[i].number, NULL, &before) && before.sa_handler != SIG_IGN)
            sigaction(caught[i].number, &action, NULL);
    }
}

static void release_signals(void)
{
    for (int i = 0; i < N_CAUGHT; i++) {
        struct sigaction now;
        if (!sigaction(caught[i].number, NULL, &now) && now.sa_handler == caught[i].handler)
            signal(caught[i].number, SIG_DFL);
    }
}

/* ---- libedit --------------------------------------------------------------------------- */

static char *prompt_of(EditLine *edit)
{
    terminal *t;
    el_get(edit, EL_CLIENTDATA, &t);
    return (char *)(uintptr_t)t->prompt;
}

/* One byte of the terminal: 1; 0 at the end; -1 after a Ctrl-C or a failure. */
static int read_byte(terminal *t, char *byte)
{
    while (!*interrupt_flag()) {
        struct pollfd p[2] = {{STDIN_FILENO, POLLIN, 0}, {interrupt_fd(), POLLIN, 0}};
        const int n_ready = poll(p, 2, -1);
        if (n_ready < 0 && errno != EINTR)
            return -1;
        if (n_ready > 0 && p[1].revents && !*interrupt_flag())
            interrupt_clear(); /* of a Ctrl-C that was cleared while it came */
        if (n_ready <= 0 || !p[0].revents || *interrupt_flag())
            continue;
        const ssize_t n = read(STDIN_FILENO, byte, 1);
        if (n < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (n == 1 && t->n_early) {
            t->n_early--;
            if (!*byte) /* what line mode makes of it */
                *byte = CTRL_D;
        }
        return (int)n;
    }
    return -1;
}

/* One character, from as many bytes as it takes. 1, 0 at the end, -1. */
static int read_char(EditLine *edit, wchar_t *c)
{
    terminal *t;
    el_get(edit, EL_CLIENTDATA, &t);
    mbstate_t state = {0};
    for (;;) {
        char byte;
        const int n = read_byte(t, &byte);
        if (n <= 0)
            return n;
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
    if (tcgetattr(STDIN_FILENO, &found))
        return false;
    t->edit = el_init("ingot", stdin, stdout, stderr);
    t->history = history_init();
    if (!t->edit || !t->history)
        return false;
    catch_signals();
    HistEvent event;
    history(t->history, &event, H_SETSIZE, HISTORY_LINES);
    history(t->history, &event, H_SETUNIQUE, 1);
    el_set(t->edit, EL_CLIENTDATA, t);
    el_set(t->edit, EL_PROMPT, prompt_of);
    el_set(t->edit, EL_EDITOR, "emacs");
    el_set(t->edit, EL_HIST, history, t->history);
    el_set(t->edit, EL_GETCFN, read_char);
    /* the mode between lines; set at once, since that is the mode now */
    el_set(t->edit, EL_SETTY, "-x", "-icanon", "-echo", "-iexten", NULL);
    if (ioctl(STDIN_FILENO, FIONREAD, &t->n_early))
        t->n_early = 0;
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
        t->n_early = 0; /* Ctrl-C throws away what was not read */
        return INPUT_INTERRUPTED;
    }
    size_t length = (size_t)n;
    HistEvent event;
    if (length > 1)
        history(t->history, &event, H_ENTER, line);
    if (length && line[length - 1] == '\n')
        length--;
    *line_out = strndup(line, length);
    return *line_out ? INPUT_LINE : INPUT_FAILED;
}

void terminal_close(terminal *t)
{
    if (!t)
        return;
    if (t->history)
        history_end(t->history);
    if (t->edit) {
        el_set(t->edit, EL_EDITMODE, 0); /* else el_end throws away what was typed ahead */
        el_end(t->edit);
        tcsetattr(STDIN_FILENO, TCSADRAIN, &found);
        release_signals();
    }
    free(t);
}
