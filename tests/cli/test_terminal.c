/* The conversation on a terminal: keys, Ctrl-C, Ctrl-D, through a pseudo-terminal. */
#include "program.h"

#include "tiny_model.h"

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
#include <termios.h>
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

static void type(const talk *t, const char *keys)
{
    assert_int_equal(write(t->fd, keys, strlen(keys)), strlen(keys));
}

/* A terminal with `early` (may be "") typed, and the program on it. */
static void start(talk *t, const char *path, const char *early, const char *const *more)
{
    *t = (talk){.fd = posix_openpt(O_RDWR | O_NOCTTY)};
    assert_true(t->fd >= 0 && !grantpt(t->fd) && !unlockpt(t->fd));
    fcntl(t->fd, F_SETFD, FD_CLOEXEC);
    const char *name = ptsname(t->fd);
    type(t, early);
    const char *argv[32] = {IG_PROGRAM, "chat", path};
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

/* The program ends by itself within a minute; returns the status of waitpid. */
static int end_status(talk *t)
{
    int status;
    bool ended = false;
    for (int i = 0; i < PATIENCE_MS / 5 && !ended; i++) {
        struct pollfd p = {t->fd, POLLIN, 0};
        char rest[256];
        if (poll(&p, 1, 5) > 0 && read(t->fd, rest, sizeof rest) <= 0)
            usleep(5000); /* closed: the end is near */
        ended = waitpid(t->pid, &status, WNOHANG) == t->pid;
    }
    if (!ended) {
        kill(t->pid, SIGKILL);
        waitpid(t->pid, &status, 0);
        fail_msg("did not end: %s", t->text);
    }
    return status;
}

static void expect_end(talk *t)
{
    const int status = end_status(t);
    close(t->fd);
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
    start(t, model, "", more);
    expect(t, "/help");
    expect(t, "> ");
    type(t, "Hallo\177\177\177\177ello\r");
    expect(t, " world world");
    expect(t, "[31 new and 0 kept tokens");
    expect(t, "> ");
    type(t, "half a line\003"); /* Ctrl-C drops it */
    expect(t, "> ");
    type(t, "/quit\r");
    expect_end(t);
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
    start(t, model, "", more);
    expect(t, "> ");
    type(t, "Hello\r");
    expect(t, " world world world");
    type(t, "\003");
    expect(t, "cancelled]");
    expect(t, "> ");
    type(t, "/system\r");
    expect(t, "no system message");
    expect(t, "> ");
    type(t, "\004"); /* Ctrl-D */
    expect_end(t);
    free(t);
}

/* ---- no key is lost, whenever it is typed: with a model of a few kilobytes -------------- */

typedef struct little {
    tiny_model file;
    char template_path[64];
    const char *path;
    const char *more[4];
} little;

static int make_little(void **state)
{
    little *l = calloc(1, sizeof *l);
    assert_non_null(l);
    l->file.dtype = IG_DTYPE_F32;
    l->path = tiny_model_save(&l->file);
    snprintf(l->template_path, sizeof l->template_path, "/tmp/ingot_template_XXXXXX");
    const int fd = mkstemp(l->template_path);
    assert_true(fd >= 0 && write(fd, "{{ messages }}", 14) == 14);
    close(fd);
    l->more[0] = "--template";
    l->more[1] = l->template_path;
    *state = l;
    return 0;
}

static int remove_little(void **state)
{
    little *l = *state;
    unlink(l->template_path);
    tiny_model_fini(&l->file);
    free(l);
    return 0;
}

/* Nothing, or a moment that differs from try to try: below 3 ms. */
static void moment(int i)
{
    if (i % 3)
        usleep((unsigned)(i * 7919 % 3000));
}

static void lines_typed_at_once_arrive(void **state)
{
    enum { TRIES = 300 };
    const little *l = *state;
    talk *t = malloc(sizeof *t);
    assert_non_null(t);
    start(t, l->path, "", l->more);
    for (int i = 0; i < TRIES; i++) {
        char line[64], wanted[64];
        snprintf(line, sizeof line, "/system say %d\r/system\r", i);
        snprintf(wanted, sizeof wanted, "\nsay %d\033", i);
        if (i % 2) /* else right behind the answer, before the prompt */
            expect(t, "> ");
        moment(i);
        type(t, line);
        snprintf(wanted, sizeof wanted, "say %d", i);
        expect(t, wanted); /* the line's echo by the editor */
        snprintf(wanted, sizeof wanted, "\033[2msay %d\033", i);
        expect(t, wanted);
    }
    expect(t, "> ");
    type(t, "\004");
    expect_end(t);
    free(t);
}

/* From before the start to behind the first prompt. */
static void ctrl_d_ends_whenever_it_is_typed(void **state)
{
    enum { TRIES = 150 };
    const little *l = *state;
    talk *t = malloc(sizeof *t);
    assert_non_null(t);
    for (int i = 0; i < TRIES; i++) {
        const bool early = i % 10 == 0;
        start(t, l->path, early ? "/system early\r/system\r\004" : "", l->more);
        if (early) {
            expect(t, "\033[2mearly\033");
        } else {
            if (i % 2)
                expect(t, "> ");
            usleep(i % 2 ? (unsigned)i : (unsigned)(i * 7919 % 20000));
            type(t, "\004");
        }
        expect_end(t);
    }
    free(t);
}

static void assert_given_back(const talk *t, const struct termios *before)
{
    struct termios now;
    assert_int_equal(tcgetattr(t->fd, &now), 0);
    assert_int_equal(now.c_lflag, before->c_lflag);
    assert_int_equal(now.c_iflag, before->c_iflag);
    assert_int_equal(now.c_oflag, before->c_oflag);
    assert_memory_equal(now.c_cc, before->c_cc, sizeof now.c_cc);
}

static void the_terminal_is_given_back(void **state)
{
    static const int signals[] = {0, SIGTERM, SIGQUIT, SIGHUP};
    const little *l = *state;
    talk *t = malloc(sizeof *t);
    assert_non_null(t);
    for (int i = 0; i < 4; i++) {
        start(t, l->path, "", l->more);
        struct termios before, during;
        assert_int_equal(tcgetattr(t->fd, &before), 0);
        assert_true(before.c_lflag & ICANON);
        expect(t, "> ");
        assert_int_equal(tcgetattr(t->fd, &during), 0);
        assert_false(during.c_lflag & (ICANON | ECHO));
        const int slave =
            open(ptsname(t->fd), O_RDWR | O_NOCTTY); /* its state outlives it */
        if (signals[i])
            kill(t->pid, signals[i]);
        else
            type(t, "/quit\r");
        const int status = end_status(t);
        if (signals[i])
            assert_true(WIFSIGNALED(status) && WTERMSIG(status) == signals[i]);
        else
            assert_true(WIFEXITED(status) && !WEXITSTATUS(status));
        assert_given_back(t, &before);
        close(slave);
        close(t->fd);
    }
    free(t);
}

int main(void)
{
    const int fd = posix_openpt(O_RDWR | O_NOCTTY);
    if (fd < 0) { /* a container without /dev/pts */
        print_message("skipped: no pseudo-terminals here\n");
        return 0;
    }
    close(fd);
    model = program_model();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_and_edits),
        cmocka_unit_test(ctrl_c_ends_the_answer_only),
    };
    const struct CMUnitTest of_little[] = {
        cmocka_unit_test(lines_typed_at_once_arrive),
        cmocka_unit_test(ctrl_d_ends_whenever_it_is_typed),
        cmocka_unit_test(the_terminal_is_given_back),
    };
    const int n_failed = cmocka_run_group_tests(tests, NULL, NULL);
    return n_failed + cmocka_run_group_tests(of_little, make_little, remove_little);
}
