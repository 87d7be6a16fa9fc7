/* The command without a model: help, options, messages, exit codes, output that fails. */
#include "program.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static const char *const verbs[] = {"run",        "chat",       "bench", "tokenize",
                                    "detokenize", "perplexity", "info"};
enum { N_VERBS = sizeof verbs / sizeof *verbs };

/* One line "ingot: ..." that holds `words`. */
static void assert_line(const char *err, const char *words)
{
    if (strncmp(err, "ingot: ", 7) != 0 || !strstr(err, words) ||
        strchr(err, '\n') != err + strlen(err) - 1)
        fail_msg("wanted one line with \"%s\", got: %s", words, err);
}

static void assert_fails(const char *words_in, int code, const char *words)
{
    outcome o = program_words(words_in, NULL);
    if (o.code != code)
        fail_msg("%s: exit code %d, wanted %d: %s", words_in, o.code, code, o.err);
    assert_int_equal(o.n_out, 0);
    assert_line(o.err, words);
    program_free(&o);
}

static void assert_screen(const outcome *o)
{
    int lines = 0;
    for (const char *p = o->out; *p; lines++) {
        const size_t n = strcspn(p, "\n");
        if (n > 80)
            fail_msg("a line of %zu columns: %.*s", n, (int)n, p);
        p += n + (p[n] == '\n');
    }
    assert_in_range(lines, 3, 24);
}

static void help_fits_a_screen(void **state)
{
    (void)state;
    char words[64];
    for (int i = 0; i < N_VERBS; i++) {
        snprintf(words, sizeof words, "help|%s", verbs[i]);
        outcome a = program_words(words, NULL);
        snprintf(words, sizeof words, "%s|--help", verbs[i]);
        outcome b = program_words(words, NULL);
        assert_int_equal(a.code, 0);
        assert_int_equal(b.code, 0);
        assert_string_equal(a.out, b.out);
        assert_int_equal(a.n_err, 0);
        assert_non_null(strstr(a.out, "--json"));
        assert_screen(&a);
        program_free(&a);
        program_free(&b);
    }
    outcome all = program_words("--help", NULL);
    assert_int_equal(all.code, 0);
    for (int i = 0; i < N_VERBS; i++)
        assert_non_null(strstr(all.out, verbs[i]));
    assert_screen(&all);
    program_free(&all);
}

static void help_shows_defaults(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "--temp X               0: greedy [0.8]", "--top-k N              0: off [40]",
        "--top-p X              1: off [0.95]",   "--min-p X              0: off [0.05]",
        "--repeat-last-n N      -1: all [64]",    "--kv-type f16|f32|q8_0 [f16]",
        "-n, --tokens N         -1: no end [-1]", "--seed N               [0]"};
    outcome o = program_words("run|-h", NULL);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!strstr(o.out, rows[i]))
            fail_msg("no row \"%s\" in\n%s", rows[i], o.out);
    program_free(&o);
}

static void version_is_one_line(void **state)
{
    (void)state;
    outcome o = program_words("--version", NULL);
    assert_int_equal(o.code, 0);
    assert_int_equal(strncmp(o.out, "ingot ", 6), 0);
    assert_ptr_equal(strchr(o.out, '\n'), o.out + o.n_out - 1);
    program_free(&o);
}

static void wrong_lines_name_the_nearest(void **state)
{
    (void)state;
    assert_fails("", 2, "a verb is missing");
    assert_fails("rnu", 2, "no verb 'rnu', the nearest is 'run'");
    assert_fails("frobnicate", 2, "no verb 'frobnicate'; see");
    assert_fails("run|M|--tmep|1", 2, "no option '--tmep', the nearest is '--temp'");
    assert_fails("run|M|--top_k=4", 2, "no option '--top_k', the nearest is '--top-k'");
    assert_fails("run|M|--kvtype|f16", 2, "the nearest is '--kv-type'");
    /* a word cut short, or with one more before or behind it, whatever else looks alike */
    assert_fails("run|M|--temperature|0", 2, "the nearest is '--temp'");
    assert_fails("run|M|--max-tokens|4", 2, "the nearest is '--tokens'");
    assert_fails("run|M|--ctx-size|4", 2, "the nearest is '--ctx'");
    assert_fails("serve|M|--api-key|x", 2, "the nearest is '--api-key-file'");
    assert_fails("run|-m|M", 2, "no option '-m': the model stands alone, ingot run MODEL");
    /* as other programs have it */
    assert_fails("run|M|--n-predict|4", 2, "the nearest is '--tokens'");
    assert_fails("run|M|--max_tokens|4", 2, "the nearest is '--tokens'");
    assert_fails("run|M|--system-prompt|x", 2, "the nearest is '--system'");
    assert_fails("run|M|-c|5", 2, "the nearest is '--ctx'");
    assert_fails("serve|M|--ssl-keyfile|x", 2, "the nearest is '--tls-key'");
    assert_fails("serve|M|--parallel|4", 2, "the nearest is '--max-running'");
    assert_fails("bench|M|-p|4", 2, "the nearest is '--prompt'");
    assert_fails("bench|M|-n|4", 2, "the nearest is '--decode'");
    assert_fails("run|M|-ngl|99", 2, "no option '-ngl'");
    assert_fails("run|M|-top_k|5", 2, "no option '-top_k', the nearest is '--top-k'");
    assert_fails("run|M|hello", 2, "'hello' is one operand too many; a text is -p TEXT");
    assert_fails("run", 2, "MODEL is missing: ingot run MODEL");
    assert_fails("x/y.gguf", 2, "no verb 'x/y.gguf': ingot run FILE");
    assert_fails("-m|x.gguf", 2, "a verb is missing: ingot run MODEL");
    assert_fails("info|--model=M", 2, "the model stands alone, ingot info MODEL");
    assert_fails("run|M|--xyzzyxyzzy", 2, "no option '--xyzzyxyzzy'; see 'ingot help run'");
    assert_fails("run|M|-q", 2, "no option '-q'");
    assert_fails("run", 2, "run: MODEL is missing");
    assert_fails("run|M|N", 2, "'N' is one operand too many");
    assert_fails("run|M|-n", 2, "-n needs a value (N)");
    assert_fails("run|M|--raw=yes", 2, "--raw takes no value");
    assert_fails("run|M|-p|a|-f|b", 2, "--prompt and --file exclude each other");
    assert_fails("bench|M|--csv|--json", 2, "--csv and --json exclude each other");
    /* a message stays one line whatever was typed */
    assert_fails("run|M|--a\nb\033", 2, "no option '--a?b?'");
}

static void numbers_are_strict(void **state)
{
    (void)state;
    assert_fails("run|M|-n|12x", 2, "--tokens is '12x', wanted is a whole number");
    assert_fails("run|M|-n|", 2, "--tokens is ''");
    assert_fails("run|M|-n| 1", 2, "--tokens is ' 1'");
    assert_fails("run|M|-n|1.5", 2, "--tokens is '1.5'");
    assert_fails("run|M|-n|-2", 2, "of at least -1");
    assert_fails("run|M|-n|99999999999999999999", 2, "--tokens is '99999999999999999999'");
    assert_fails("run|M|-n|0x10", 2, "--tokens is '0x10'");
    assert_fails("run|M|--top-k|-1", 2, "wanted is a whole number of at least 0");
    assert_fails("run|M|--top-k|99999999999", 2, "a whole number from 0 to 1073741824");
    assert_fails("run|M|--top-p|1.01", 2, "wanted is a number from 1e-06 to 1");
    assert_fails("run|M|--top-p|nan", 2, "--top-p is 'nan'");
    assert_fails("run|M|--temp|inf", 2, "--temp is 'inf'");
    assert_fails("run|M|--temp|1e", 2, "--temp is '1e'");
    assert_fails("run|M|--temp|-0.1", 2, "--temp is '-0.1'");
    assert_fails("run|M|-t|0", 2, "from 1 to 64");
    assert_fails("run|M|-t65", 2, "--threads is '65'");
    assert_fails("run|M|--kv-type|f8", 2, "wanted is one of f16|f32|q8_0");
    assert_fails("run|M|--kv-type|f16|f32", 2, "one operand too many");
    assert_fails("bench|M|--batch|1,2,|--decode|1", 2, "--batch is '1,2,'");
    assert_fails("bench|M|--batch|1,,2", 2, "--batch is '1,,2'");
    assert_fails("bench|M|--batch|0", 2, "from 1 to 256");
    assert_fails("perplexity|M|--ctx|1", 2, "--ctx is '1'");
}

static void missing_files_fail(void **state)
{
    (void)state;
    assert_fails("run|/nowhere/m.gguf|-p|x", 1, "/nowhere/m.gguf");
    assert_fails("run|/nowhere/m.gguf", 1, "/nowhere/m.gguf");
    assert_fails("chat|/nowhere/m.gguf", 1, "/nowhere/m.gguf");
    assert_fails("bench|/nowhere/m.gguf", 1, "/nowhere/m.gguf");
    assert_fails("tokenize|/nowhere/m.gguf|-p|x", 1, "/nowhere/m.gguf");
    assert_fails("detokenize|/nowhere/m.gguf|1", 1, "/nowhere/m.gguf");
    assert_fails("perplexity|/nowhere/m.gguf|-p|x", 1, "/nowhere/m.gguf");
    assert_fails("info|/nowhere/m.gguf", 1, "/nowhere/m.gguf");
    assert_fails("run|/dev/null|-f|/nowhere/text", 1, "/nowhere/text");
    assert_fails("run|/dev/null|-f|/", 1, "directory");
}

static void empty_input_is_no_failure(void **state)
{
    (void)state;
    outcome o = program_words("run|/dev/null", NULL);
    assert_int_equal(o.code, 0);
    assert_int_equal(o.n_out, 0);
    assert_line(o.err, "nothing to evaluate");
    program_free(&o);
    o = program_words("run|/dev/null|--json", NULL);
    assert_int_equal(o.code, 0);
    assert_line(o.err, "nothing to evaluate");
    assert_non_null(
        strstr(o.out, "{\"text\": \"\", \"prompt_tokens\": [], \"tokens\": []"));
    program_free(&o);
    o = program_words("run|/dev/null|-p||--raw", "\n");
    assert_int_equal(o.code, 0);
    assert_line(o.err, "nothing to evaluate");
    program_free(&o);
}

static void output_may_fail(void **state)
{
    (void)state;
    static const char *const lines[][3] = {{"--help"}, {"--version"}, {"help", "run"}};
    for (int i = 0; i < 3; i++) {
        outcome o = program_run(lines[i], NULL, 0, TO_FULL_DISK);
        assert_int_equal(o.code, 1);
        assert_line(o.err, "standard output: No space left");
        program_free(&o);
        o = program_run(lines[i], NULL, 0, TO_CLOSED_PIPE);
        assert_int_equal(o.code, 0);
        assert_int_equal(o.n_err, 0);
        program_free(&o);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(help_fits_a_screen),
        cmocka_unit_test(help_shows_defaults),
        cmocka_unit_test(version_is_one_line),
        cmocka_unit_test(wrong_lines_name_the_nearest),
        cmocka_unit_test(numbers_are_strict),
        cmocka_unit_test(missing_files_fail),
        cmocka_unit_test(empty_input_is_no_failure),
        cmocka_unit_test(output_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
