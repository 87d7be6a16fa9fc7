/* The verbs with a real model: what comes out, where, and in which form.
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
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static const char *model;

#define REQUIRE_MODEL()                                                                    \
    if (!model)                                                                            \
    skip()

/* "run" and `words` on the model. */
static outcome on_model(const char *verb, const char *words, const char *in)
{
    char line[4096];
    snprintf(line, sizeof line, *words ? "%s|%s|%s" : "%s|%s", verb, model, words);
    return program_words(line, in);
}

static json_t *json_of(const char *verb, const char *words, const char *in)
{
    outcome o = on_model(verb, words, in);
    if (o.code)
        fail_msg("%s %s: exit code %d: %s", verb, words, o.code, o.err);
    json_t *object = program_json(&o);
    program_free(&o);
    return object;
}

/* Takes the reference. */
static void assert_ids(json_t *object, const char *name, const char *wanted)
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

static void assert_text(json_t *object, const char *name, const char *wanted)
{
    const char *text = json_string_value(json_object_get(object, name));
    assert_non_null(text);
    assert_string_equal(text, wanted);
}

static size_t n_of(json_t *object, const char *name)
{
    json_t *list = json_object_get(object, name);
    assert_true(json_is_array(list));
    return json_array_size(list);
}

static void completion_goes_to_standard_output(void **state)
{
    (void)state;
    REQUIRE_MODEL();
    outcome o = on_model("run", "-p|The capital of France is|--raw|--temp|0|-n|5", "");
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
    json_t *j =
        json_of("run",
                "-p|The capital of France is|--raw|--temp|0|-n|5|--json|--logprobs|2"
                "|--exact",
                NULL);
    assert_text(j, "text", " Paris.\n\nThe");
    assert_text(j, "finish_reason", "length");
    assert_ids(j, "tokens", "7042 30 198 198 504");
    assert_ids(j, "prompt_tokens", "504 3575 282 4649 314");
    assert_int_equal(n_of(j, "logprobs"), 5);
    json_t *first = json_array_get(json_object_get(j, "logprobs"), 0);
    assert_int_equal(json_integer_value(json_object_get(first, "id")), 7042);
    assert_true(fabs(json_number_value(json_object_get(first, "logprob")) + 0.258) < 0.005);
    assert_ids(first, "bytes", "32 80 97 114 105 115");
    assert_int_equal(n_of(first, "top"), 2);
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
    json_t *j = json_of(
        "run", "-p|What is the capital of France?|--temp|0|-n|20|--json|--exact", NULL);
    assert_text(j, "text", "The capital of France is Paris.");
    assert_ids(j, "tokens", "504 3575 282 4649 314 7042 30 2");
    assert_int_equal(n_of(j, "prompt_tokens"), 37);
    assert_text(j, "finish_reason", "stop");
    assert_true(json_is_null(json_object_get(j, "logprobs")));
    json_decref(j);
    j = json_of("run", "-p|Hello|-n|1|--json", NULL);
    assert_int_equal(n_of(j, "prompt_tokens"), 31);
    json_decref(j);
    j = json_of("run", "-p|Hello|--system|Be brief.|-n|0|--json", NULL);
    assert_int_equal(n_of(j, "prompt_tokens"), 18);
    assert_text(j, "finish_reason", "length");
    assert_text(j, "text", "");
    json_decref(j);
    j = json_of("run", "-p|Hello|--raw|-n|1|--json", NULL);
    assert_ids(j, "prompt_tokens", "19556");
    json_decref(j);
}

static void input_follows_the_prompt(void **state)
{
    (void)state;
    REQUIRE_MODEL();
    json_t *j = json_of("run", "-p|The capital of|--raw|-n|0|--json", " France is\n");
    assert_ids(j, "prompt_tokens", "504 3575 282 4649 314");
    json_decref(j);
    j = json_of("run", "--raw|-n|0|--json", "The capital of France is\n");
    assert_ids(j, "prompt_tokens", "504 3575 282 4649 314");
    json_decref(j);
    outcome o = on_model("run", "-n|4|--temp|0", "hi\n");
    assert_int_equal(o.code, 0);
    assert_true(o.n_out > 0);
    assert_null(strchr(o.out, '\033'));
    program_free(&o);
    o = on_model("run", "", NULL);
    assert_int_equal(o.code, 0);
    assert_int_equal(o.n_out, 0);
    program_free(&o);
}

static void stops_and_bias(void **state)
{
    (void)state;
    REQUIRE_MODEL();
    json_t *j =
        json_of("run", "-p|a|--raw|--temp|0|-n|3|--logit-bias|905=100|--json", NULL);
    assert_ids(j, "tokens", "905 905 905");
    assert_text(j, "text", " world world world");
    json_decref(j);
    j = json_of("run",
                "-p|a|--raw|--temp|0|-n|9|--logit-bias| world=100|--stop|never"
                "|--stop|d wo|--json",
                NULL);
    assert_text(j, "text", " worl");
    assert_ids(j, "tokens", "905 905");
    assert_text(j, "finish_reason", "stop");
    json_decref(j);
    j = json_of("run", "-p|a|--raw|--temp|0|-n|3|--logit-bias|2=100|--json", NULL);
    assert_ids(j, "tokens", "2");
    assert_text(j, "text", "");
    assert_text(j, "finish_reason", "stop");
    json_decref(j);
    j = json_of("run", "-p|a|--raw|--temp|0|-n|3|--logit-bias|2=100|--ignore-eos|--json",
                NULL);
    assert_ids(j, "tokens", "2 2 2");
    json_decref(j);
    static const char *const wrong[] = {
        "-p|a|--raw|--logit-bias|905", "-p|a|--raw|--logit-bias|=1",
        "-p|a|--raw|--logit-bias|5=x", "-p|a|--raw|--logit-bias|99999999=1",
        "-p|a|--raw|--logit-bias|hello world=1"};
    for (int i = 0; i < 5; i++) {
        outcome o = on_model("run", wrong[i], NULL);
        assert_int_equal(o.code, 2);
        assert_non_null(strstr(o.err, "ingot: run: --logit-bias"));
        program_free(&o);
    }
}

static void characters_are_whole(void **state)
{
    (void)state;
    REQUIRE_MODEL();
    json_t *j = json_of("run",
                        "-p|Hi|--raw|--temp|0|-n|1|--logit-bias|10813=100|--json"
                        "|--logprobs|0",
                        NULL);
    assert_text(j, "text", "\xEF\xBF\xBD");
    assert_text(j, "finish_reason", "length");
    assert_ids(json_array_get(json_object_get(j, "logprobs"), 0), "bytes", "240 159");
    json_decref(j);
    outcome o = on_model("run", "-p|Hi|--raw|--temp|0|-n|3|--logit-bias|10813=100", "");
    assert_string_equal(o.out, "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
    program_free(&o);
    /* bytes that are not UTF-8 come in, and leave as valid JSON */
    j = json_of("run", "--raw|-n|0|--json", "a\xFF\xFE");
    assert_true(n_of(j, "prompt_tokens") > 0);
    json_decref(j);
}

static void a_full_context_is_said(void **state)
{
    (void)state;
    REQUIRE_MODEL();
    char text[1024] = "";
    for (int i = 0; i < 100; i++)
        strcat(text, "hello ");
    outcome o = on_model("run", "--raw|--ctx|64", text);
    assert_int_equal(o.code, 1);
    assert_int_equal(o.n_out, 0);
    assert_non_null(strstr(o.err, "101"));
    assert_non_null(strstr(o.err, "64"));
    assert_ptr_equal(strchr(o.err, '\n'), o.err + o.n_err - 1);
    program_free(&o);
    text[58 * 6] = 0;
    json_t *j = json_of("run", "--raw|--ctx|64|--logit-bias|260=100|-n|100|--json", text);
    assert_int_equal(n_of(j, "prompt_tokens"), 59);
    assert_in_range(n_of(j, "tokens"), 1, 5);
    assert_text(j, "finish_reason", "length");
    json_decref(j);
    o = on_model("run", "--raw|--ctx|20000|-p|a|-n|1", "");
    assert_int_equal(o.code, 0);
    assert_non_null(strstr(o.err, "8192"));
    program_free(&o);
}

static void output_may_end_early(void **state)
{
    (void)state;
    REQUIRE_MODEL();
    const char *argv[] = {"run",          model,     "-p",           "a", "--raw",
                          "--logit-bias", "905=100", "--ignore-eos", NULL};
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
        execl(IG_PROGRAM, IG_PROGRAM, "run", model, "-p", "a", "--raw", "--ignore-eos",
              "--logit-bias", "905=100", (char *)NULL);
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

static void tokens_and_back(void **state)
{
    (void)state;
    REQUIRE_MODEL();
    outcome o = on_model("tokenize", "-p|you're YOU'RE I'll I'LL", NULL);
    assert_string_equal(o.out, "8320 2316 12246 23 3256 339 3060 339 23 16421\n");
    outcome back = on_model("detokenize", "", o.out);
    assert_string_equal(back.out, "you're YOU'RE I'll I'LL");
    program_free(&o);
    program_free(&back);
    o = on_model("tokenize", "", "<|im_start|>user\nHi<|im_end|>\n");
    assert_string_equal(o.out, "1 4093 198 26843 2 198\n");
    program_free(&o);
    json_t *j = json_of("tokenize", "--plain|--json", "<|im_end|>");
    assert_ids(j, "tokens", "44 108 306 79 486 108 46");
    json_decref(j);
    o = on_model("tokenize", "-f|/dev/null", NULL);
    assert_int_equal(o.code, 0);
    assert_string_equal(o.out, "\n");
    program_free(&o);
    o = on_model("detokenize", "1|4093|198", NULL);
    assert_string_equal(o.out, "<|im_start|>user\n");
    program_free(&o);
    o = on_model("detokenize", "1|4093|198|--plain", NULL);
    assert_string_equal(o.out, "user\n");
    program_free(&o);
    j = json_of("detokenize", "10813|--json", NULL);
    assert_ids(j, "bytes", "240 159");
    json_decref(j);
    o = on_model("detokenize", "49152", NULL);
    assert_int_equal(o.code, 2);
    program_free(&o);
    /* bytes that are no text, zero among them, come back (this vocabulary knows these) */
    char all[512];
    for (int i = 0; i < 512; i++)
        all[i] = (char)(i % 8 ? 0x20 + i * 7 % 0xa0 : i / 8 % 4);
    const char *argv[] = {"tokenize", model, NULL};
    o = program_run(argv, all, sizeof all, TO_PIPE);
    back = on_model("detokenize", "", o.out);
    assert_int_equal(back.n_out, sizeof all);
    assert_memory_equal(back.out, all, sizeof all);
    program_free(&o);
    program_free(&back);
}

static void perplexity_of_a_text(void **state)
{
    (void)state;
    REQUIRE_MODEL();
    static const char text[] = "The quick brown fox jumps over the lazy dog. It was the "
                               "best of times, it was the worst of times.";
    json_t *j = json_of("perplexity", "--ctx|64|--exact|--json", text);
    assert_int_equal(json_integer_value(json_object_get(j, "tokens")), 24);
    assert_int_equal(json_integer_value(json_object_get(j, "scored")), 23);
    const double nll = json_number_value(json_object_get(j, "mean_nll"));
    assert_true(fabs(nll - 2.5013) < 0.001);
    assert_true(fabs(json_number_value(json_object_get(j, "perplexity")) - exp(nll)) <
                1e-4);
    json_decref(j);
    j = json_of("perplexity", "--ctx|64|--tokens|10|--bos|--json", text);
    assert_int_equal(json_integer_value(json_object_get(j, "tokens")), 10);
    assert_int_equal(json_integer_value(json_object_get(j, "scored")), 10);
    json_decref(j);
    outcome o = on_model("perplexity", "", "");
    assert_int_equal(o.code, 1);
    program_free(&o);
}

static void info_reads_the_file(void **state)
{
    (void)state;
    REQUIRE_MODEL();
    json_t *j = json_of("info", "--json|--tensors", NULL);
    assert_int_equal(json_integer_value(json_object_get(j, "n_tensors")), 272);
    assert_int_equal(n_of(j, "tensors"), 272);
    assert_text(json_object_get(j, "metadata"), "general.architecture", "llama");
    json_t *layers = json_object_get(json_object_get(j, "metadata"), "llama.block_count");
    assert_int_equal(json_integer_value(layers), 30);
    assert_int_equal(json_integer_value(json_object_get(j, "n_parameters")), 134515008);
    json_decref(j);
    outcome o = on_model("info", "", NULL);
    assert_int_equal(o.code, 0);
    assert_non_null(strstr(o.out, "llama.attention.head_count"));
    assert_null(strstr(o.out, "blk.0.attn_q.weight"));
    program_free(&o);
}

static void bench_names_its_figures(void **state)
{
    (void)state;
    REQUIRE_MODEL();
    json_t *j = json_of("bench",
                        "--prompt|16|--decode|2|--batch|1,2|--depth|0,17|--repeat|2|-t|2"
                        "|--json",
                        NULL);
    assert_int_equal(n_of(j, "results"), 6);
    size_t i;
    json_t *r;
    json_array_foreach(json_object_get(j, "results"), i, r)
    {
        const double tps = json_number_value(json_object_get(r, "tps"));
        const double limit = json_number_value(json_object_get(r, "limit_tps"));
        assert_true(tps > 0 && limit > 0);
        assert_true(json_number_value(json_object_get(r, "tps_stddev")) >= 0);
        assert_true(fabs(json_number_value(json_object_get(r, "share")) - tps / limit) <
                    1e-6);
        assert_int_equal(json_integer_value(json_object_get(r, "threads")), 2);
        assert_text(r, "test", i % 3 ? "decode" : "prompt");
        assert_int_equal(json_integer_value(json_object_get(r, "n")), i % 3 ? 2 : 16);
        assert_int_equal(json_integer_value(json_object_get(r, "batch")),
                         i % 3 == 2 ? 2 : 1);
        assert_int_equal(json_integer_value(json_object_get(r, "depth")), i < 3 ? 0 : 17);
    }
    json_t *machine = json_object_get(j, "machine");
    assert_true(json_number_value(json_object_get(machine, "read_bytes_s")) > 1e9);
    assert_true(json_number_value(json_object_get(machine, "f32_ops_s")) > 1e8);
    assert_true(json_number_value(json_object_get(machine, "barrier_ns")) > 0);
    assert_text(json_object_get(j, "model"), "weight_type", "q4_1");
    json_decref(j);
    outcome o = on_model("bench", "--prompt|0|--decode|1|--repeat|1|--csv", NULL);
    assert_int_equal(o.code, 0);
    assert_int_equal(strncmp(o.out, "test,n,depth,batch,threads,tps,", 31), 0);
    assert_non_null(strstr(o.out, "\ndecode,1,0,1,"));
    program_free(&o);
}

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
    json_t *j = json_of("chat", "--temp|0|-n|8|--logit-bias|260=100|--json",
                        "Hello\nAnd now?\n/regenerate\n/clear\nHello\n");
    assert_int_equal(n_of(j, "turns"), 4);
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
    assert_int_equal(n_of(j, "messages"), 2);
    json_decref(j);
}

static void chat_is_scriptable(void **state)
{
    (void)state;
    REQUIRE_MODEL();
    outcome o = on_model("chat", "--temp|0|-n|2|--logit-bias|905=100",
                         "one \\\nline\n\"\"\"a\nblock\"\"\"\n\n/usr/bin is a folder\n");
    assert_int_equal(o.code, 0);
    assert_string_equal(o.out, " world world\n world world\n world world\n");
    assert_null(strchr(o.err, '\033'));
    program_free(&o);
    o = on_model("chat", "-n|1", "/frob\n");
    assert_non_null(strstr(o.err, "no command '/frob'"));
    assert_int_equal(o.code, 2);
    program_free(&o);
    o = on_model("chat", "-n|1", NULL);
    assert_int_equal(o.code, 0);
    assert_int_equal(o.n_out, 0);
    program_free(&o);
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
    json_t *j = json_of("chat", "--temp|0|-n|2|--logit-bias|905=100|--json", in);
    assert_int_equal(number(turn(j, 0), "evaluated_tokens"), 18);
    assert_int_equal(n_of(j, "messages"), 3);
    json_t *messages = json_object_get(j, "messages");
    assert_text(json_array_get(messages, 0), "role", "system");
    assert_text(json_array_get(messages, 0), "content", "Be brief.");
    assert_text(json_array_get(messages, 2), "content", " world world");
    json_decref(j);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs("{\"messages\": [{\"role\": \"robber\", \"content\": \"x\"}]}", f);
    fclose(f);
    snprintf(in, sizeof in, "/load %s\n", path);
    outcome o = on_model("chat", "", in);
    assert_int_equal(o.code, 1);
    assert_non_null(strstr(o.err, path));
    program_free(&o);
    unlink(path);
}

static void chat_says_a_full_context(void **state)
{
    (void)state;
    REQUIRE_MODEL();
    outcome o =
        on_model("chat", "--ctx|48|--temp|0|--logit-bias|260=100|--ignore", "Hello\n");
    assert_int_equal(o.code, 2); /* chat has no --ignore-eos */
    program_free(&o);
    o = on_model("chat", "--ctx|48|--temp|0|--logit-bias|260=100", "Hello\nAgain\n");
    assert_int_equal(o.code, 1);
    assert_non_null(strstr(o.err, "the context is full: 47 of 48"));
    assert_non_null(strstr(o.err, "the context holds 48"));
    program_free(&o);
}

int main(void)
{
    model = program_model();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(completion_goes_to_standard_output),
        cmocka_unit_test(json_says_everything),
        cmocka_unit_test(a_turn_ends_at_its_end_token),
        cmocka_unit_test(input_follows_the_prompt),
        cmocka_unit_test(stops_and_bias),
        cmocka_unit_test(characters_are_whole),
        cmocka_unit_test(a_full_context_is_said),
        cmocka_unit_test(output_may_end_early),
        cmocka_unit_test(interrupt_ends_an_answer),
        cmocka_unit_test(tokens_and_back),
        cmocka_unit_test(perplexity_of_a_text),
        cmocka_unit_test(info_reads_the_file),
        cmocka_unit_test(bench_names_its_figures),
        cmocka_unit_test(chat_evaluates_only_what_is_new),
        cmocka_unit_test(chat_is_scriptable),
        cmocka_unit_test(chat_saves_and_loads),
        cmocka_unit_test(chat_says_a_full_context),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
