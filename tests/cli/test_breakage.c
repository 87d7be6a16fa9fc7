/* What a shell, a disk or a user can do to the command: each failure is one line and the right
 * exit code, whatever the verb. With a model of a few kilobytes. */
#include "program.h"

#include "tiny_model.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { N_VERBS = 7, N_WORDS = 12 };

typedef struct place {
    tiny_model model;
    const char *path;
    char folder[64], text[128], empty[128], folder_in[128], fifo[128], cut[128];
} place;

static void write_file(const char *path, const void *bytes, size_t n)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static int make_place(void **state)
{
    place *p = calloc(1, sizeof *p);
    assert_non_null(p);
    p->model.dtype = IG_DTYPE_F32;
    p->path = tiny_model_save(&p->model);
    strcpy(p->folder, "/tmp/ingot_breakage_XXXXXX");
    assert_non_null(mkdtemp(p->folder));
    snprintf(p->text, sizeof p->text, "%s/text", p->folder);
    snprintf(p->empty, sizeof p->empty, "%s/empty", p->folder);
    snprintf(p->folder_in, sizeof p->folder_in, "%s/folder", p->folder);
    snprintf(p->fifo, sizeof p->fifo, "%s/fifo", p->folder);
    snprintf(p->cut, sizeof p->cut, "%s/cut", p->folder);
    write_file(p->text, "{{ messages }}", 14);
    write_file(p->empty, "", 0);
    write_file(p->cut, p->model.file.bytes, p->model.file.n - 1);
    assert_int_equal(mkdir(p->folder_in, 0700), 0);
    assert_int_equal(mkfifo(p->fifo, 0600), 0);
    *state = p;
    return 0;
}

static int remove_place(void **state)
{
    place *p = *state;
    unlink(p->text);
    unlink(p->empty);
    unlink(p->cut);
    unlink(p->fifo);
    rmdir(p->folder_in);
    rmdir(p->folder);
    tiny_model_fini(&p->model);
    free(p);
    return 0;
}

/* Verb i over a model; with this model (and texts of which it knows no byte) each but
 * perplexity succeeds. */
static const char *verb_line(const char *words[N_WORDS], int i, const place *p,
                             const char *model)
{
    static const char *const rest[N_VERBS][N_WORDS] = {
        {"info"},
        {"tokenize", "-p", "x"},
        {"detokenize", "5"},
        {"chat", "--json"},
        {"run", "-p", "x", "--raw"},
        {"perplexity", "-p", "x"},
        {"bench", "--prompt", "4", "--decode", "2", "--repeat", "1"}};
    int n = 0;
    words[n++] = rest[i][0];
    words[n++] = model;
    for (int j = 1; rest[i][j]; j++)
        words[n++] = rest[i][j];
    if (!strcmp(rest[i][0], "chat")) {
        words[n++] = "--template";
        words[n++] = p->text;
    }
    words[n] = NULL;
    return rest[i][0];
}

static void assert_one_line(const outcome *o, const char *verb, const char *words)
{
    if (strncmp(o->err, "ingot: ", 7) != 0 || !strstr(o->err, words) ||
        strchr(o->err, '\n') != o->err + o->n_err - 1)
        fail_msg("%s: wanted one line with \"%s\", got: %s", verb, words, o->err);
}

static void files_that_are_no_model(void **state)
{
    const place *p = *state;
    const struct {
        const char *path, *words;
    } files[] = {{p->empty, "the file is empty"}, {p->folder_in, "is a directory"},
                 {p->fifo, "is a pipe"},          {"/dev/null", "is a device"},
                 {p->text, "wanted 'GGUF'"},      {p->cut, "the data in the file have"},
                 {"/nowhere/x", "No such file"},  {"", "No such file"}};
    for (int i = 0; i < N_VERBS; i++) {
        for (size_t j = 0; j < sizeof files / sizeof *files; j++) {
            const char *words[N_WORDS];
            const char *verb = verb_line(words, i, p, files[j].path);
            outcome o = program_run(words, "x", 1, TO_PIPE);
            if (o.code != 1 || o.n_out)
                fail_msg("%s %s: exit code %d: %s", verb, files[j].path, o.code, o.err);
            assert_one_line(&o, verb, files[j].words);
            program_free(&o);
        }
    }
}

static void outputs_that_fail(void **state)
{
    const place *p = *state;
    for (int i = 0; i < N_VERBS; i++) {
        const char *words[N_WORDS];
        const char *verb = verb_line(words, i, p, p->path);
        outcome good = program_run(words, "", 0, TO_PIPE);
        outcome full = program_run(words, "", 0, TO_FULL_DISK);
        outcome closed = program_run(words, "", 0, TO_CLOSED_PIPE);
        if (good.code != (strcmp(verb, "perplexity") ? 0 : 1))
            fail_msg("%s: exit code %d: %s", verb, good.code, good.err);
        if (good.n_out) {
            assert_int_equal(full.code, 1);
            assert_one_line(&full, verb, "standard output: No space left");
            assert_int_equal(closed.code, 0);
            assert_int_equal(closed.n_err, 0);
        } else {
            assert_int_equal(full.code, good.code);
            assert_int_equal(closed.code, good.code);
        }
        program_free(&good);
        program_free(&full);
        program_free(&closed);
    }
}

/* The exit code with streams closed: a bit each; the model must stay as it was. */
static int run_closed(const char *const *words, int closed)
{
    const pid_t pid = fork();
    if (pid == 0) {
        const char *argv[N_WORDS + 1] = {IG_PROGRAM};
        for (int i = 0; words[i]; i++)
            argv[i + 1] = words[i];
        const int null = open("/dev/null", O_RDWR);
        for (int i = 0; i < 3; i++)
            dup2(null, i);
        for (int i = 0; i < 64; i++)
            if (i >= 3 || closed >> i & 1)
                close(i);
        execv(IG_PROGRAM, (char **)(uintptr_t)argv);
        _exit(127);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void streams_that_are_closed(void **state)
{
    const place *p = *state;
    for (int i = 0; i < N_VERBS; i++) {
        const char *words[N_WORDS];
        const char *verb = verb_line(words, i, p, p->path);
        const bool writes = strcmp(verb, "run") != 0; /* here it has nothing to say */
        /* bench measures the machine: a second each */
        for (int closed = 0; closed < 8; closed += strcmp(verb, "bench") ? 1 : 7) {
            const int code = run_closed(words, closed);
            const bool fails = !strcmp(verb, "perplexity") || (closed & 2 && writes);
            if (code != fails)
                fail_msg("%s, closed %d: exit code %d", verb, closed, code);
        }
    }
}

/* Lines that cannot be read: not the same as their end. */
static void chat_on_a_folder(void **state)
{
    const place *p = *state;
    int err[2];
    assert_int_equal(pipe(err), 0);
    const pid_t pid = fork();
    if (pid == 0) {
        dup2(open(p->folder_in, O_RDONLY), 0);
        dup2(open("/dev/null", O_WRONLY), 1);
        dup2(err[1], 2);
        execl(IG_PROGRAM, IG_PROGRAM, "chat", p->path, "--template", p->text, (char *)NULL);
        _exit(127);
    }
    close(err[1]);
    char line[256] = "";
    assert_true(read(err[0], line, sizeof line - 1) > 0);
    close(err[0]);
    int status;
    waitpid(pid, &status, 0);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 1);
    assert_string_equal(line, "ingot: chat: standard input: Is a directory\n");
}

/* Ctrl-C, a kill or a hang-up before there is an answer end the command at once, silently. */
static void signals_while_it_starts(void **state)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    const place *p = *state;
    for (int i = 0; i < 3; i++) {
        int err[2];
        assert_int_equal(pipe(err), 0);
        const pid_t pid = fork();
        if (pid == 0) {
            signal(numbers[i], SIG_DFL);
            dup2(err[1], 2);
            close(err[0]);
            close(err[1]);
            /* nobody writes to the fifo: it waits while it reads its prompt */
            execl(IG_PROGRAM, IG_PROGRAM, "run", p->path, "-f", p->fifo, (char *)NULL);
            _exit(127);
        }
        close(err[1]);
        usleep(20000);
        kill(pid, numbers[i]);
        char line[256];
        assert_int_equal(read(err[0], line, sizeof line), 0);
        close(err[0]);
        int status;
        waitpid(pid, &status, 0);
        assert_true(WIFSIGNALED(status));
        assert_int_equal(WTERMSIG(status), numbers[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_that_are_no_model), cmocka_unit_test(outputs_that_fail),
        cmocka_unit_test(streams_that_are_closed), cmocka_unit_test(chat_on_a_folder),
        cmocka_unit_test(signals_while_it_starts),
    };
    return cmocka_run_group_tests(tests, make_place, remove_place);
}
