/* ingot: the command. Finds the verb, reads its options, runs it, turns what happened into
 * an exit code: 0, 1 a failure, 2 a wrong command line.
 */
#include "verbs.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const args_verb *const verbs[] = {&verb_run,        &verb_chat,     &verb_serve,
                                         &verb_bench,      &verb_tokenize, &verb_detokenize,
                                         &verb_perplexity, &verb_info};
enum { N_VERBS = sizeof verbs / sizeof *verbs };

static void help_all(report *out)
{
    report_print(out, "usage: ingot VERB ... (ingot help VERB says more)\n\n");
    for (int i = 0; i < N_VERBS; i++) {
        const char *summary = verbs[i]->summary;
        report_print(out, "  %-12s %.*s\n", verbs[i]->name, (int)strcspn(summary, "\n"),
                     summary);
    }
    report_print(out, "\n  ingot --version, ingot --help\n"
                      "\nEvery verb takes --json: one JSON object on standard output.\n"
                      "Exit codes: 0, 1 a failure, 2 a wrong command line.\n");
}

static const args_verb *find_verb(const char *name)
{
    for (int i = 0; i < N_VERBS; i++)
        if (!strcmp(verbs[i]->name, name))
            return verbs[i];
    return NULL;
}

static int no_such_verb(const char *name)
{
    const size_t n = strlen(name);
    if (name[0] == '-' && (!strcmp(name, "-m") || !strcmp(name, "--model")))
        return report_usage("a verb is missing: ingot run MODEL, ingot chat MODEL ..");
    if (n > 5 && !strcmp(name + n - 5, ".gguf"))
        return report_usage("no verb '%s': ingot run FILE, ingot chat FILE ..", name);
    const char *nearest = NULL;
    int best = 1000;
    for (int i = 0; i < N_VERBS; i++) {
        const int d = args_distance(name, verbs[i]->name);
        if (d < best) {
            best = d;
            nearest = verbs[i]->name;
        }
    }
    if (nearest && best <= 1 + (int)strlen(nearest) / 3)
        return report_usage("no verb '%s', the nearest is '%s'", name, nearest);
    return report_usage("no verb '%s'; see 'ingot --help'", name);
}

/* Run the verb, or with `help` say what it takes. */
static int run_verb(report *out, const args_verb *verb, bool help, int argc,
                    char *const *argv)
{
    int code = EXIT_FAILED, n_operands = 0;
    void *options = calloc(1, verb->options_bytes);
    void *defaults = calloc(1, verb->options_bytes);
    const char **operands = calloc((size_t)argc + 1, sizeof *operands);
    if (!options || !defaults || !operands) {
        report_fail("out of memory");
        goto done;
    }
    if (verb->defaults) {
        verb->defaults(options);
        verb->defaults(defaults);
    }
    code = help ? ARGS_HELP : args_parse(verb, options, operands, &n_operands, argc, argv);
    if (code == ARGS_OK) {
        code = verb->run(out, options, operands, n_operands);
    } else if (code == ARGS_HELP) {
        args_help(out, verb, defaults);
        code = EXIT_OK;
    }
done:
    free(operands);
    free(defaults);
    free(options);
    return code;
}

static int run(report *out, int argc, char *const *argv)
{
    if (argc < 2)
        return report_usage("a verb is missing; see 'ingot --help'");
    const char *word = argv[1];
    if (!strcmp(word, "--version") || !strcmp(word, "version")) {
        report_print(out, "ingot %s\n", ig_version());
        return EXIT_OK;
    }
    const bool help = !strcmp(word, "help");
    if ((help && argc == 2) || !strcmp(word, "--help") || !strcmp(word, "-h")) {
        help_all(out);
        return EXIT_OK;
    }
    if (help)
        word = argv[2];
    const args_verb *verb = find_verb(word);
    if (!verb)
        return no_such_verb(word);
    return run_verb(out, verb, help, argc - 2, argv + 2);
}

/* A standard stream that was closed would be the number of the next file that is opened, and
 * what is written to it would go there. So each gets a file that holds nothing and cannot be
 * written to. */
static void fill_closed_streams(void)
{
    int fd;
    do
        fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0)
        close(fd);
}

int main(int argc, char **argv)
{
    fill_closed_streams();
    /* a closed pipe is then a failed write, which report_end understands */
    signal(SIGPIPE, SIG_IGN);
    report out = {.n_held = 0};
    return report_end(&out, run(&out, argc, argv));
}
