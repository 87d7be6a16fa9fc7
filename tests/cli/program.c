/* fork, exec, poll: both outputs are read while input is written. */
#include "program.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static void child(const char *const *argv, const int in[2], const int out[2],
                  const int err[2], int out_to)
{
    dup2(in[0], 0);
    if (out_to == TO_FULL_DISK)
        dup2(open("/dev/full", O_WRONLY), 1);
    else
        dup2(out[1], 1);
    dup2(err[1], 2);
    for (int i = 3; i < 64; i++)
        close(i);
    char *args[64] = {(char *)(uintptr_t)IG_PROGRAM};
    for (int i = 0; argv[i] && i < 62; i++)
        args[i + 1] = (char *)(uintptr_t)argv[i];
    execv(IG_PROGRAM, args);
    _exit(127);
}

static void take(char **text, size_t *n, struct pollfd *p)
{
    if (!p->revents)
        return;
    *text = realloc(*text, *n + 65536 + 1);
    assert_non_null(*text);
    const ssize_t got = read(p->fd, *text + *n, 65536);
    if (got <= 0) {
        close(p->fd);
        p->fd = -1;
    } else {
        *n += (size_t)got;
    }
    (*text)[*n] = 0;
}

static void give(const char **in, size_t *n_in, struct pollfd *p)
{
    if (p->revents) {
        const ssize_t got = write(p->fd, *in, *n_in);
        if (got < 0) {
            *n_in = 0;
        } else {
            *in += got;
            *n_in -= (size_t)got;
        }
    }
    if (!*n_in && p->fd >= 0) {
        close(p->fd);
        p->fd = -1;
    }
}

outcome program_run(const char *const *argv, const char *in_text, size_t n_in, int out_to)
{
    int in[2], out[2], err[2], status;
    outcome o = {.out = calloc(1, 1), .err = calloc(1, 1)};
    assert_false(pipe(in) || pipe(out) || pipe(err));
    signal(SIGPIPE, SIG_IGN);
    if (out_to == TO_CLOSED_PIPE)
        close(out[0]);
    const pid_t pid = fork();
    if (pid == 0)
        child(argv, in, out, err, out_to);
    assert_true(pid > 0);
    close(in[0]);
    close(out[1]);
    close(err[1]);
    struct pollfd p[3] = {{in[1], POLLOUT, 0},
                          {out_to == TO_CLOSED_PIPE ? -1 : out[0], POLLIN, 0},
                          {err[0], POLLIN, 0}};
    give(&in_text, &n_in, &p[0]);
    while (p[1].fd >= 0 || p[2].fd >= 0) {
        if (poll(p, 3, -1) < 0 && errno != EINTR)
            break;
        give(&in_text, &n_in, &p[0]);
        take(&o.out, &o.n_out, &p[1]);
        take(&o.err, &o.n_err, &p[2]);
    }
    if (p[0].fd >= 0)
        close(p[0].fd);
    struct rusage used;
    wait4(pid, &status, 0, &used);
    o.peak_kib = used.ru_maxrss;
    o.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return o;
}

void program_free(outcome *o)
{
    free(o->out);
    free(o->err);
    *o = (outcome){0};
}

outcome program_words(const char *words, const char *in)
{
    const char *argv[64];
    int n = 0;
    char *copy = strdup(words);
    assert_non_null(copy);
    char *rest = copy;
    for (char *word; n < 63 && *words && (word = strsep(&rest, "|"));)
        argv[n++] = word;
    argv[n] = NULL;
    outcome o = program_run(argv, in, in ? strlen(in) : 0, TO_PIPE);
    free(copy);
    return o;
}

json_t *program_json(const outcome *o)
{
    json_error_t error;
    json_t *object =
        json_loadb(o->out, o->n_out, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
    if (!json_is_object(object))
        fail_msg("not one JSON object (%s): %s\n%s", error.text, o->out, o->err);
    return object;
}

const char *program_model(void)
{
    static char path[1024];
    const char *dir = getenv("INGOT_TEST_MODEL_DIR");
    if (dir)
        snprintf(path, sizeof path, "%s/SmolLM2-135M-Instruct.Q4_1.gguf", dir);
    if (dir && !access(path, R_OK))
        return path;
    print_message("skipped: INGOT_TEST_MODEL_DIR has no SmolLM2-135M-Instruct.Q4_1.gguf\n");
    return NULL;
}

outcome program_on_model(const char *verb, const char *words, const char *in)
{
    char line[4096];
    snprintf(line, sizeof line, *words ? "%s|%s|%s" : "%s|%s", verb, program_model(),
             words);
    return program_words(line, in);
}

json_t *program_json_of(const char *verb, const char *words, const char *in)
{
    outcome o = program_on_model(verb, words, in);
    if (o.code)
        fail_msg("%s %s: exit code %d: %s", verb, words, o.code, o.err);
    json_t *object = program_json(&o);
    program_free(&o);
    return object;
}

void assert_json_ids(json_t *object, const char *name, const char *wanted)
{
    char text[4096] = "";
    size_t i, n = 0;
    json_t *id;
    json_array_foreach(json_object_get(object, name), i, id)
    {
        assert_true(json_is_integer(id));
        n += (size_t)snprintf(text + n, sizeof text - n, i ? " %d" : "%d",
                              (int)json_integer_value(id));
    }
    assert_string_equal(text, wanted);
}

void assert_json_text(json_t *object, const char *name, const char *wanted)
{
    const char *text = json_string_value(json_object_get(object, name));
    assert_non_null(text);
    assert_string_equal(text, wanted);
}

size_t json_length(json_t *object, const char *name)
{
    json_t *list = json_object_get(object, name);
    assert_true(json_is_array(list));
    return json_array_size(list);
}
