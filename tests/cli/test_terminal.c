/* The conversation on a terminal: keys, Ctrl-C, Ctrl-D, through a pseudo-terminal. */
#include "program.h"

#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static const char *model;
enum { PATIENCE_MS = 60000 };

typedef struct talk {
    pid_t pid;
    int fd;
    char text[1 << 18]; /* all that was shown: [n] */
    size_t n, seen;     /* wait_for has looked at text[0..seen) */
} talk;

static void start(talk *t, const char *const *more)
{
    *t = (talk){.fd = posix_openpt(O_RDWR | O_NOCTTY)};
    assert_true(t->fd >= 0 && !grantpt(t->fd) && !unlockpt(t->fd));
    const char *name = ptsname(t->fd);
    const char *argv[32] = {IG_PROGRAM, "chat", model};
    for (int i = 0; more[i]; i++)
        argv[3 + i] = more[i];
    t->pid = fork();
    if (t->pid == 0) {
        setsid();
        const int fd = open(name, O_RDWR); /* becomes the controlling terminal */
        for (int i = 0; i < 3; i++)
            dup2(fd, i);
        setenv("TERM", "xterm", 1);
        execv(IG_PROGRAM, (char **)(uintptr_t)argv);
        _exit(127);
    }
    assert_true(t->pid > 0);
}

static void type(const talk *t, const char *keys)
{
    assert_int_equal(write(t->fd, keys, strlen(keys)), strlen(keys));
}

/* Read until `words` stand in what is new; false at the end or after a minute. */
static bool wait_for(talk *t, const char *words)
{
    for (;;) {
        const char *at = strstr(t->text + t->seen, words);
        if (at) {
            t->seen = (size_t)(at - t->text) + strlen(words);
            return true;
        }
        struct pollfd p = {t->fd, POLLIN, 0};
        if (t->n + 1 >= sizeof t->text || poll(&p, 1, PATIENCE_MS) <= 0)
            return false;
        const ssize_t got = read(t->fd, t->text + t->n, sizeof t->text - 1 - t->n);
        if (got <= 0)
            return false;
        const size_t end = t->n + (size_t)got;
        for (size_t i = t->n; i < end;
             i++) /* without the zeros of an old terminal's padding */
            if (t->text[i])
                t->text[t->n++] = t->text[i];
        t->text[t->n] = 0;
    }
}

static void expect(talk *t, const char *words)
{
    if (!wait_for(t, words)) {
        kill(t->pid, SIGKILL);
        fail_msg("never saw \"%s\" in: %s", words, t->text);
    }
}

/* The prompt, and then a person's pause: a key within an instant of it can be lost (docs/status.md). */
static void expect_prompt(talk *t)
{
    expect(t, "> ");
    usleep(400000);
}

/* The program ends by itself within a minute. Keys that come before it reads may be lost on a terminal:
 * `again` (NULL: nothing) is typed anew until it has ended. */
static void expect_end(talk *t, const char *again)
{
    int status;
    bool ended = false;
    for (int i = 0; i < PATIENCE_MS / 200 && !ended; i++) {
        if (again && write(t->fd, again, strlen(again)) < 0)
            again = NULL; /* the other side is closed */
        struct pollfd p = {t->fd, POLLIN, 0};
        char rest[256];
        if (poll(&p, 1, 200) > 0 && read(t->fd, rest, sizeof rest) <= 0)
            usleep(200000); /* closed: the end is near */
        ended = waitpid(t->pid, &status, WNOHANG) == t->pid;
    }
    close(t->fd);
    if (!ended) {
        kill(t->pid, SIGKILL);
        waitpid(t->pid, &status, 0);
        fail_msg("did not end: %s", t->text);
    }
    if (!WIFEXITED(status) || WEXITSTATUS(status))
        fail_msg("ended with %x: %s", status, t->text);
}

static void answers_and_edits(void **state)
{
    (void)state;
    if (!model)
        skip();
    talk *t = malloc(sizeof *t);
    assert_non_null(t);
    const char *const more[] = {"--temp", "0", "-n", "2", "--logit-bias", "905=100", NULL};
    start(t, more);
    expect(t, "/help");
    expect_prompt(t);
    type(t, "Hallo\177\177\177\177ello\r");
    expect(t, " world world");
    expect(t, "[31 new and 0 kept tokens");
    expect_prompt(t);
    type(t, "half a line\003"); /* Ctrl-C drops it */
    expect_prompt(t);
    type(t, "/quit\r");
    expect_end(t, NULL);
    free(t);
}

static void ctrl_c_ends_the_answer_only(void **state)
{
    (void)state;
    if (!model)
        skip();
    talk *t = malloc(sizeof *t);
    assert_non_null(t);
    const char *const more[] = {"--temp", "0", "--logit-bias", "905=100", NULL};
    start(t, more);
    expect_prompt(t);
    type(t, "Hello\r");
    expect(t, " world world world");
    type(t, "\003");
    expect(t, "cancelled]");
    expect_prompt(t);
    type(t, "/system\r");
    expect(t, "no system message");
    expect_prompt(t);
    expect_end(t, "\004"); /* Ctrl-D */
    free(t);
}

int main(void)
{
    model = program_model();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_and_edits),
        cmocka_unit_test(ctrl_c_ends_the_answer_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
