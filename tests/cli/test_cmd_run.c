/* ingot run with a real model: what comes out, where, and in which form.
 *
 * Greedy answers are checked where the model is sure; elsewhere the bias forces a token, so
 * that streaming, stops and UTF-8 do not depend on what the model thinks.
 */
#include "program.h"

#include <fcntl.h>
#include <math.h>
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

static void completion_goes_to_standard_output(void **state)
{
    (void)state;
    REQUIRE_MODEL();
    outcome o =
        program_on_model("run", "-p|The capital of France is|--raw|--temp|0|-n|5", "");
    assert_int_equal(o.code, 0);
    assert_string_equal(o.out, " Paris.\n\nThe");
    assert_non_null(strstr(o.err, "thread"));
    assert_non_null(strstr(o.err, "first token"));
    assert_null(strchr(o.err, '\033'));
    program_free(&o);
}

static void json_says_everything(void **state)
{
    (void)state;
    REQUIRE_MODEL();
    json_t *j = program_json_of(
        "run",
        "-p|The capital of France is|--raw|--temp|0|-n|5|--json|--logprobs|2"
        "|--exact",
        NULL);
    assert_json_text(j, "text", " Paris.\n\nThe");
    assert_json_text(j, "finish_reason", "length");
    assert_json_ids(j, "tokens", "7042 30 198 198 504");
    assert_json_ids(j, "prompt_tokens", "504 3575 282 4649 314");
    assert_int_equal(json_length(j, "logprobs"), 5);
    json_t *first = json_array_get(json_object_get(j, "logprobs"), 0);
    assert_int_equal(json_integer_value(json_object_get(first, "id")), 7042);
    assert_true(fabs(json_number_value(json_object_get(first, "logprob")) + 0.258) < 0.005);
    assert_json_ids(first, "bytes", "32 80 97 114 105 115");
    assert_int_equal(json_length(first, "top"), 2);
    json_t *second = json_array_get(json_object_get(first, "top"), 1);
    assert_int_equal(json_integer_value(json_object_get(second, "id")), 260);
    assert_true(fabs(json_number_value(json_object_get(second, "logprob")) + 2.741) <
                0.005);
    static const char *const timings[] = {"load_ms", "ttft_ms", "prompt_tps", "decode_tps"};
    for (int i = 0; i < 4; i++)
        assert_true(json_number_value(
                        json_object_get(json_object_get(j, "timings"), timings[i])) > 0);
    json_decref(j);
}

static void a_turn_ends_at_its_end_token(void **state)
{
    (void)state;
    REQUIRE_MODEL();
    json_t *j = program_json_of(
        "run", "-p|What is the capital of France?|--temp|0|-n|20|--json|--exact", NULL);
    assert_json_text(j, "text", "The capital of France is Paris.");
    assert_json_ids(j, "tokens", "504 3575 282 4649 314 7042 30 2");
    assert_int_equal(json_length(j, "prompt_tokens"), 37);
    assert_json_text(j, "finish_reason", "stop");
    assert_true(json_is_null(json_object_get(j, "logprobs")));
    json_decref(j);
    j = program_json_of("run", "-p|Hello|-n|1|--json", NULL);
    assert_int_equal(json_length(j, "prompt_tokens"), 31);
    json_decref(j);
    j = program_json_of("run", "-p|Hello|--system|Be brief.|-n|0|--json", NULL);
    assert_int_equal(json_length(j, "prompt_tokens"), 18);
    assert_json_text(j, "finish_reason", "length");
    assert_json_text(j, "text", "");
    json_decref(j);
    j = program_json_of("run", "-p|Hello|--raw|-n|1|--json", NULL);
    assert_json_ids(j, "prompt_tokens", "19556");
    json_decref(j);
}

static void input_follows_the_prompt(void **state)
{
    (void)state;
    REQUIRE_MODEL();
    json_t *j =
        program_json_of("run", "-p|The capital of|--raw|-n|0|--json", " France is\n");
    assert_json_ids(j, "prompt_tokens", "504 3575 282 4649 314");
    json_decref(j);
    j = program_json_of("run", "--raw|-n|0|--json", "The capital of France is\n");
    assert_json_ids(j, "prompt_tokens", "504 3575 282 4649 314");
    json_decref(j);
    outcome o = program_on_model("run", "-n|4|--temp|0", "hi\n");
    assert_int_equal(o.code, 0);
    assert_true(o.n_out > 0);
    assert_null(strchr(o.out, '\033'));
    program_free(&o);
    o = program_on_model("run", "", NULL);
    assert_int_equal(o.code, 0);
    assert_int_equal(o.n_out, 0);
    program_free(&o);
}

static void input_has_an_end(void **state)
{
    (void)state;
    REQUIRE_MODEL();
    outcome o = program_on_model("run", "-p|hi|-n|1|--template|/dev/zero", NULL);
    assert_int_equal(o.code, 1);
    assert_string_equal(o.err, "ingot: run: /dev/zero: more than 16777216 bytes\n");
    program_free(&o);
    char path[] = "/tmp/ingot-test-XXXXXX", words[64];
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)3 << 30), 0); /* holes: no bytes on the disk */
    close(fd);
    snprintf(words, sizeof words, "--raw|-n|0|-f|%s", path);
    o = program_on_model("run", words, NULL);
    unlink(path);
    assert_int_equal(o.code, 1);
    assert_non_null(strstr(o.err, ": more than 2147483646 bytes\n"));
    assert_true(o.peak_kib < 1 << 20); /* refused before it is read */
    program_free(&o);
}

static void stops_and_bias(void **state)
{
    (void)state;
    REQUIRE_MODEL();
    json_t *j = program_json_of(
        "run", "-p|a|--raw|--temp|0|-n|3|--logit-bias|905=100|--json", NULL);
    assert_json_ids(j, "tokens", "905 905 905");
    assert_json_text(j, "text", " world world world");
    json_decref(j);
    j = program_json_of("run",
                        "-p|a|--raw|--temp|0|-n|9|--logit-bias| world=100|--stop|never"
                        "|--stop|d wo|--json",
                        NULL);
    assert_json_text(j, "text", " worl");
    assert_json_ids(j, "tokens", "905 905");
    assert_json_text(j, "finish_reason", "stop");
    json_decref(j);
    j = program_json_of("run", "-p|a|--raw|--temp|0|-n|3|--logit-bias|2=100|--json", NULL);
    assert_json_ids(j, "tokens", "2");
    assert_json_text(j, "text", "");
    assert_json_text(j, "finish_reason", "stop");
    json_decref(j);
    j = program_json_of(
        "run", "-p|a|--raw|--temp|0|-n|3|--logit-bias|2=100|--ignore-eos|--json", NULL);
    assert_json_ids(j, "tokens", "2 2 2");
    json_decref(j);
    static const char *const wrong[] = {
        "-p|a|--raw|--logit-bias|905", "-p|a|--raw|--logit-bias|=1",
        "-p|a|--raw|--logit-bias|5=x", "-p|a|--raw|--logit-bias|99999999=1",
        "-p|a|--raw|--logit-bias|hello world=1"};
    for (int i = 0; i < 5; i++) {
        outcome o = program_on_model("run", wrong[i], NULL);
        assert_int_equal(o.code, 2);
        assert_non_null(strstr(o.err, "ingot: run: --logit-bias"));
        program_free(&o);
    }
}

static void characters_are_whole(void **state)
{
    (void)state;
    REQUIRE_MODEL();
    json_t *j = program_json_of("run",
                                "-p|Hi|--raw|--temp|0|-n|1|--logit-bias|10813=100|--json"
                                "|--logprobs|0",
                                NULL);
    assert_json_text(j, "text", "\xEF\xBF\xBD");
    assert_json_text(j, "finish_reason", "length");
    assert_json_ids(json_array_get(json_object_get(j, "logprobs"), 0), "bytes", "240 159");
    json_decref(j);
    outcome o =
        program_on_model("run", "-p|Hi|--raw|--temp|0|-n|3|--logit-bias|10813=100", "");
    assert_string_equal(o.out, "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
    program_free(&o);
    /* bytes that are not UTF-8 come in, and leave as valid JSON */
    j = program_json_of("run", "--raw|-n|0|--json", "a\xFF\xFE");
    assert_true(json_length(j, "prompt_tokens") > 0);
    json_decref(j);
}

static void a_full_context_is_said(void **state)
{
    (void)state;
    REQUIRE_MODEL();
    char text[1024] = "";
    for (int i = 0; i < 100; i++)
        strcat(text, "hello ");
    outcome o = program_on_model("run", "--raw|--ctx|64", text);
    assert_int_equal(o.code, 1);
    assert_int_equal(o.n_out, 0);
    assert_non_null(strstr(o.err, "101"));
    assert_non_null(strstr(o.err, "64"));
    assert_ptr_equal(strchr(o.err, '\n'), o.err + o.n_err - 1);
    program_free(&o);
    text[58 * 6] = 0;
    json_t *j =
        program_json_of("run", "--raw|--ctx|64|--logit-bias|260=100|-n|100|--json", text);
    assert_int_equal(json_length(j, "prompt_tokens"), 59);
    assert_in_range(json_length(j, "tokens"), 1, 5);
    assert_json_text(j, "finish_reason", "length");
    json_decref(j);
    o = program_on_model("run", "--raw|--ctx|20000|-p|a|-n|1", "");
    assert_int_equal(o.code, 0);
    assert_non_null(strstr(o.err, "8192"));
    program_free(&o);
}

static void output_may_end_early(void **state)
{
    (void)state;
    REQUIRE_MODEL();
    const char *argv[] = {"run",          program_model(), "-p",           "a", "--raw",
                          "--logit-bias", "905=100",       "--ignore-eos", NULL};
    outcome o = program_run(argv, NULL, 0, TO_CLOSED_PIPE);
    assert_int_equal(o.code, 0);
    assert_int_equal(o.n_err, 0);
    program_free(&o);
    o = program_run(argv, NULL, 0, TO_FULL_DISK);
    assert_int_equal(o.code, 1);
    assert_non_null(strstr(o.err, "ingot: standard output: No space left"));
    program_free(&o);
}

/* Send the signal once the answer has begun. */
static void interrupt_ends_an_answer(void **state)
{
    (void)state;
    REQUIRE_MODEL();
    int out[2];
    assert_int_equal(pipe(out), 0);
    const pid_t pid = fork();
    if (pid == 0) {
        dup2(open("/dev/null", O_RDONLY), 0);
        dup2(out[1], 1);
        close(out[0]);
        execl(IG_PROGRAM, IG_PROGRAM, "run", program_model(), "-p", "a", "--raw",
              "--ignore-eos", "--logit-bias", "905=100", (char *)NULL);
        _exit(127);
    }
    close(out[1]);
    char text[65536];
    assert_true(read(out[0], text, sizeof text) > 0);
    kill(pid, SIGINT);
    while (read(out[0], text, sizeof text) > 0)
        ;
    close(out[0]);
    int status;
    waitpid(pid, &status, 0);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* One copy of the weights: beside it and the touched page of the cache, 15 % of the file. */
static void memory_is_little_more_than_the_file(void **state)
{
    (void)state;
    REQUIRE_MODEL();
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip(); /* the sanitizers' own memory is beside it */
#endif
    struct stat file;
    assert_int_equal(stat(program_model(), &file), 0);
    outcome o =
        program_on_model("run", "-p|The capital of France is|--raw|--ctx|2048|-n|1", "");
    assert_int_equal(o.code, 0);
    const long cache_kib = 2048; /* a page of the cache lies in a huge page of the system */
    const long most_kib = (long)(file.st_size / 1024 * 115 / 100) + cache_kib;
    if (o.peak_kib > most_kib)
        fail_msg("%ld KiB resident at most, wanted at most %ld", o.peak_kib, most_kib);
    program_free(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(completion_goes_to_standard_output),
        cmocka_unit_test(json_says_everything),
        cmocka_unit_test(a_turn_ends_at_its_end_token),
        cmocka_unit_test(input_follows_the_prompt),
        cmocka_unit_test(input_has_an_end),
        cmocka_unit_test(stops_and_bias),
        cmocka_unit_test(characters_are_whole),
        cmocka_unit_test(a_full_context_is_said),
        cmocka_unit_test(output_may_end_early),
        cmocka_unit_test(interrupt_ends_an_answer),
        cmocka_unit_test(memory_is_little_more_than_the_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
