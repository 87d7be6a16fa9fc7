/* ingot chat through a pipe: what a turn costs, commands, files. */
#include "program.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static json_t *turn(json_t *object, size_t i)
{
    return json_array_get(json_object_get(object, "turns"), i);
}

static int64_t number(json_t *object, const char *name)
{
    return json_integer_value(json_object_get(object, name));
}

/* What the second turn evaluates: the end of the first answer, its own text, the markup. */
static void chat_evaluates_only_what_is_new(void **state)
{
    (void)state;
    REQUIRE_MODEL();
    json_t *j = program_json_of("chat", "--temp|0|-n|8|--logit-bias|260=100|--json",
                                "Hello\nAnd now?\n/regenerate\n/clear\nHello\n");
    assert_int_equal(json_length(j, "turns"), 4);
    const int64_t first = number(turn(j, 0), "evaluated_tokens");
    assert_int_equal(number(turn(j, 0), "cached_tokens"), 0);
    assert_int_equal(first, 31);
    /* 8 drawn, the last one never fed */
    assert_int_equal(number(turn(j, 1), "cached_tokens"), 31 + 7);
    assert_in_range(number(turn(j, 1), "evaluated_tokens"), 5, 16);
    /* the same prompt again: one token must be evaluated */
    assert_int_equal(number(turn(j, 2), "evaluated_tokens"), 1);
    assert_int_equal(number(turn(j, 3), "evaluated_tokens"), 1);
    assert_int_equal(number(turn(j, 3), "cached_tokens"), 30);
    assert_int_equal(json_length(j, "messages"), 2);
    json_decref(j);
}

static void chat_is_scriptable(void **state)
{
    (void)state;
    REQUIRE_MODEL();
    outcome o =
        program_on_model("chat", "--temp|0|-n|2|--logit-bias|905=100",
                         "one \\\nline\n\"\"\"a\nblock\"\"\"\n\n/usr/bin is a folder\n");
    assert_int_equal(o.code, 0);
    assert_string_equal(o.out, " world world\n world world\n world world\n");
    assert_null(strchr(o.err, '\033'));
    program_free(&o);
    o = program_on_model("chat", "-n|1", "/frob\n");
    assert_non_null(strstr(o.err, "no command '/frob'"));
    assert_int_equal(o.code, 2);
    program_free(&o);
    o = program_on_model("chat", "-n|1", NULL);
    assert_int_equal(o.code, 0);
    assert_int_equal(o.n_out, 0);
    program_free(&o);
}

/* A zero byte would cut the message short unseen, and what follows was part of it. */
static void a_zero_byte_ends_it(void **state)
{
    (void)state;
    REQUIRE_MODEL();
    static const char alone[] = "one\ntwo\0three\nfour\n";
    static const char in_block[] = "one\n\"\"\"two\nthree\0\nfour\"\"\"\nfive\n";
    const char *const argv[] = {"chat", program_model(), "--json", "-n", "1", NULL};
    for (int i = 0; i < 2; i++) {
        outcome o = program_run(argv, i ? in_block : alone,
                                i ? sizeof in_block - 1 : sizeof alone - 1, TO_PIPE);
        assert_int_equal(o.code, 1);
        assert_non_null(strstr(o.err, "ingot: chat: standard input holds a zero byte\n"));
        json_t *j = program_json(&o);
        assert_int_equal(json_length(j, "messages"), 2);
        assert_int_equal(json_length(j, "turns"), 1);
        json_decref(j);
        program_free(&o);
    }
}

static void chat_saves_and_loads(void **state)
{
    (void)state;
    REQUIRE_MODEL();
    char path[] = "/tmp/ingot-chat-XXXXXX", in[512];
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    snprintf(in, sizeof in, "/system Be brief.\nHello\n/save %s\n/clear\n/load %s\n", path,
             path);
    json_t *j = program_json_of("chat", "--temp|0|-n|2|--logit-bias|905=100|--json", in);
    assert_int_equal(number(turn(j, 0), "evaluated_tokens"), 18);
    assert_int_equal(json_length(j, "messages"), 3);
    json_t *messages = json_object_get(j, "messages");
    assert_json_text(json_array_get(messages, 0), "role", "system");
    assert_json_text(json_array_get(messages, 0), "content", "Be brief.");
    assert_json_text(json_array_get(messages, 2), "content", " world world");
    json_decref(j);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs("{\"messages\": [{\"role\": \"robber\", \"content\": \"x\"}]}", f);
    fclose(f);
    snprintf(in, sizeof in, "/load %s\n", path);
    outcome o = program_on_model("chat", "", in);
    assert_int_equal(o.code, 1);
    assert_non_null(strstr(o.err, path));
    program_free(&o);
    /* an answer to nobody cannot be drawn anew */
    f = fopen(path, "w");
    assert_non_null(f);
    fputs("{\"messages\": [{\"role\": \"assistant\", \"content\": \"x\"}]}", f);
    fclose(f);
    snprintf(in, sizeof in, "/load %s\n/regenerate\n", path);
    o = program_on_model("chat", "", in);
    assert_int_equal(o.code, 0);
    assert_non_null(strstr(o.err, "no answer to regenerate"));
    program_free(&o);
    unlink(path);
    /* a pipe is not waited for */
    assert_int_equal(mkfifo(path, 0600), 0);
    snprintf(in, sizeof in, "/load %s\n/load /tmp\n/clear now\n", path);
    o = program_on_model("chat", "", in);
    assert_int_equal(o.code, 2);
    assert_non_null(strstr(o.err, "/tmp: is no regular file"));
    assert_non_null(strstr(strstr(o.err, path), "is no regular file"));
    assert_non_null(strstr(o.err, "/clear takes no argument"));
    program_free(&o);
    unlink(path);
}

static void chat_says_a_full_context(void **state)
{
    (void)state;
    REQUIRE_MODEL();
    outcome o = program_on_model("chat", "--ctx|48|--temp|0|--logit-bias|260=100|--ignore",
                                 "Hello\n");
    assert_int_equal(o.code, 2); /* chat has no --ignore-eos */
    program_free(&o);
    o = program_on_model("chat", "--ctx|48|--temp|0|--logit-bias|260=100",
                         "Hello\nAgain\n");
    assert_int_equal(o.code, 1);
    assert_non_null(strstr(o.err, "the context is full: 48 of 48"));
    assert_non_null(strstr(o.err, "the context holds 48"));
    program_free(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chat_evaluates_only_what_is_new),
        cmocka_unit_test(chat_is_scriptable),
        cmocka_unit_test(a_zero_byte_ends_it),
        cmocka_unit_test(chat_saves_and_loads),
        cmocka_unit_test(chat_says_a_full_context),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
