#include "serve/fields.h"

#include "infer/fault_allocator.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

enum { VOCAB = 100 };

/* Read a request; the caller ends the params and the tree. */
static bool read_with(ig__params *p, ig__json **root, const char *text,
                      ig__endpoint endpoint, const ig_allocator *a, ig__bad *bad)
{
    *p = (ig__params){.arena = ig__arena_init(a)};
    return ig__request_parse(root, a, text, strlen(text), bad) &&
           ig__params_read(p, a, *root, endpoint, VOCAB, bad);
}

static ig_allocator plain;
static ig__params params;
static ig__json *tree;
static ig__bad bad;

static bool reads(const char *text, ig__endpoint endpoint)
{
    ig__params_fini(&params);
    ig__json_destroy(tree);
    return read_with(&params, &tree, text, endpoint, &plain, &bad);
}

static int setup(void **state)
{
    (void)state;
    plain = ig__allocator_default();
    params = (ig__params){.arena = ig__arena_init(&plain)};
    tree = NULL;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    ig__params_fini(&params);
    ig__json_destroy(tree);
    return 0;
}

static void defaults(void **state)
{
    (void)state;
    const ig_sampler_opts o = ig_sampler_defaults();
    assert_true(reads("{\"prompt\":\"x\"}", IG_COMPLETION));
    assert_true((float)params.temperature == o.temperature);
    assert_true((float)params.top_p == o.top_p && (float)params.min_p == o.min_p);
    assert_int_equal(params.top_k, o.top_k);
    assert_int_equal(params.repeat_last_n, o.repeat_last_n);
    assert_int_equal(params.n, 1);
    assert_int_equal(params.n_logprobs, -1);
    assert_false(params.stream || params.has_seed || params.ignore_eos);
    assert_int_equal(ig__params_max_tokens(&params, IG_COMPLETION), 16);
    assert_true(reads("{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]}", IG_CHAT));
    assert_int_equal(ig__params_max_tokens(&params, IG_CHAT), -1);
}

static void values(void **state)
{
    (void)state;
    assert_true(
        reads("{\"messages\":[{\"role\":\"system\",\"content\":[{\"type\":\"text\","
              "\"text\":\"a\"},{\"type\":\"text\",\"text\":\"b\"}]},"
              "{\"role\":\"user\",\"content\":\"\"}],\"temperature\":0,\"top_k\":3,"
              "\"top_p\":0.5,\"seed\":-9223372036854775808,\"n\":2.0,\"max_tokens\":9,"
              "\"max_completion_tokens\":4,\"stop\":[\"x\",\"yz\"],"
              "\"logit_bias\":{\"99\":-100,\"0\":1.5},\"logprobs\":true,"
              "\"top_logprobs\":20,\"stream\":true,"
              "\"stream_options\":{\"include_usage\":true},\"repetition_penalty\":1.5}",
              IG_CHAT));
    assert_string_equal(params.messages[0].content, "ab");
    assert_string_equal(params.messages[1].content, "");
    assert_true(params.temperature == 0 && params.top_p == 0.5 &&
                params.repeat_penalty == 1.5);
    assert_int_equal(params.top_k, 3);
    assert_true(params.has_seed && params.seed == INT64_MIN);
    assert_int_equal(params.n, 2);
    assert_int_equal(ig__params_max_tokens(&params, IG_CHAT), 4);
    assert_int_equal(params.n_stop, 2);
    assert_string_equal(params.stop[1], "yz");
    assert_int_equal(params.n_bias, 2);
    assert_int_equal(params.bias[0].id, 99);
    assert_true(params.bias[1].bias == 1.5f);
    assert_int_equal(params.n_logprobs, 20);
    assert_true(params.stream && params.include_usage);
    assert_true(
        reads("{\"prompt\":[0,99,5],\"logprobs\":0,\"stop\":\"a\"}", IG_COMPLETION));
    assert_int_equal(params.n_ids, 3);
    assert_int_equal(params.ids[1], 99);
    assert_int_equal(params.n_logprobs, 0);
    assert_int_equal(params.n_stop, 1);
    assert_true(reads("{\"prompt\":[\"one\"]}", IG_COMPLETION));
    assert_string_equal(params.prompt, "one");
    assert_true(reads("{\"prompt\":\"a\\u0000b\"}", IG_COMPLETION));
    assert_int_equal(params.n_prompt, 3);
}

static void refused(const char *text, ig__endpoint endpoint, const char *field,
                    const char *words)
{
    assert_false(reads(text, endpoint));
    assert_string_equal(bad.field, field);
    if (!strstr(bad.message, words))
        fail_msg("'%s' does not hold '%s'", bad.message, words);
    assert_false(bad.no_memory);
}

/* A message with one field beside what is needed. */
static void refused_field(const char *field, const char *value, const char *words)
{
    char text[256];
    snprintf(text, sizeof text,
             "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"%s\":%s}", field,
             value);
    refused(text, IG_CHAT, field, words);
}

static void refusals(void **state)
{
    (void)state;
    refused_field("temperature", "-0.1", "from 0 to 100");
    refused_field("temperature", "\"hot\"", "a string");
    refused_field("temperature", "1e300", "1e+300");
    refused_field("top_k", "1.5", "whole number");
    refused_field("top_p", "1.0001", "from 0 to 1");
    refused_field("n", "17", "from 1 to 16");
    refused_field("max_tokens", "-2", "from -1");
    refused_field("logit_bias", "{\"100\":1}", "0 to 99");
    refused_field("logit_bias", "{\"-1\":1}", "'-1'");
    refused_field("logit_bias", "{\"\":1}", "''");
    refused_field("logit_bias", "{\"99999999999999999999\":1}", "0 to 99");
    refused("{\"prompt\":\"a\",\"logit_bias\":{\"1\":101}}", IG_COMPLETION, "logit_bias.1",
            "-100 to 100");
    refused_field("stream", "1", "true or false");
    refused_field("tools", "[{}]", "not supported");
    refused_field("response_format", "{\"type\":\"json_object\"}", "not supported");
    refused_field("grammar", "\"root ::= x\"", "not supported");
    refused_field("top_logprobs", "1", "logprobs is not true");
    refused_field("stream_options", "{}", "stream is not true");
    refused("{}", IG_CHAT, "messages", "missing");
    refused("{}", IG_COMPLETION, "prompt", "missing");
    refused("[]", IG_CHAT, "", "wanted is an object");
    refused("{\"messages\":[]}", IG_CHAT, "messages", "0 items");
    refused("{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\"}]}]}",
            IG_CHAT, "messages[0].content[0].text", "missing");
    refused("{\"messages\":[{\"role\":\"x\",\"content\":\"\"}]}", IG_CHAT,
            "messages[0].role", "'x'");
    refused("{\"prompt\":[1,100]}", IG_COMPLETION, "prompt[1]", "0 to 99");
    refused("{\"prompt\":[1.5]}", IG_COMPLETION, "prompt[0]", "0 to 99");
    refused("{\"prompt\":[\"a\",\"b\"]}", IG_COMPLETION, "prompt", "several");
    refused("{\"prompt\":\"a\",\"best_of\":2}", IG_COMPLETION, "best_of", "not supported");
    refused("{\"prompt\":\"a\",\"stop\":[\"a\\u0000\"]}", IG_COMPLETION, "stop[0]",
            "zero byte");
}

/* Nulls, defaults spelled out, names that nobody documents; a field of the other endpoint. */
static void let_through(void **state)
{
    (void)state;
    assert_true(
        reads("{\"prompt\":\"a\",\"temperature\":null,\"suffix\":\"\",\"echo\":false,"
              "\"best_of\":1,\"tools\":[{}],\"nobody\":{\"knows\":[1]},\"user\":5}",
              IG_COMPLETION));
    assert_true(reads("{\"prompt\":[1.0,2],\"logit_bias\":{\"1\":1}}", IG_COMPLETION));
    assert_int_equal(params.ids[0], 1);
    assert_true(reads("{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],"
                      "\"logprobs\":false,\"top_logprobs\":0}",
                      IG_CHAT));
    assert_true(reads("{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"tools\":[],"
                      "\"verbosity\":\"medium\",\"echo\":true,\"tool_choice\":\"none\"}",
                      IG_CHAT));
}

/* JSON's numbers have no bound: one beyond a double is a wrong value, not wrong JSON, and no
 * matter where nobody reads it; what is no number stays none. */
static void huge(void **state)
{
    (void)state;
    refused_field("temperature", "1e400", "1e+308, wanted is a number from 0 to 100");
    refused_field("temperature", "-2.5E+9999", "-1e+308");
    refused_field("temperature", "0.1e400", "from 0 to 100");
    refused_field("max_tokens", "1e999", "from -1");
    refused_field("seed", "1e309", "64 bits");
    char text[512] = "{\"prompt\":\"\\\"1e400\",\"nobody\":[1e400, -1e400],\"seed\":";
    const size_t n = strlen(text);
    memset(text + n, '9', 400);
    memcpy(text + n + 400, "}", 2);
    refused(text, IG_COMPLETION, "seed", "64 bits");
    memcpy(text + n, "7}", 3);
    assert_true(reads(text, IG_COMPLETION));
    assert_string_equal(params.prompt, "\"1e400");
    static const char *const none[] = {"0x1p9999", "01e400", "1e400-5",  "1.e400", ".1e400",
                                       "1e400x",   "2e",     "1e400 2 ", "--1e400"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        snprintf(text, sizeof text, "{\"prompt\":\"a\",\"nobody\":%s}", none[i]);
        refused(text, IG_COMPLETION, "", "not JSON");
    }
}

static void depth(void **state)
{
    (void)state;
    char text[2 * IG_DEPTH_MAX + 8];
    for (size_t n = IG_DEPTH_MAX; n <= IG_DEPTH_MAX + 1; n++) {
        memset(text, '[', n);
        memset(text + n, ']', n);
        ig__json *root;
        const bool parsed = ig__request_parse(&root, &plain, text, 2 * n, &bad);
        assert_int_equal(parsed, n == IG_DEPTH_MAX);
        ig__json_destroy(root);
    }
    ig__json *root; /* brackets in a string are no nesting, nor behind an escaped quote */
    const char quoted[] = "\"[[[[\\\"[[[[\"";
    assert_true(ig__request_parse(&root, &plain, quoted, sizeof quoted - 1, &bad));
    ig__json_destroy(root);
}

static void faults(void **state)
{
    (void)state;
    static const char text[] =
        "{\"nobody\":1e400,\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":"
        "\"text\",\"text\":"
        "\"abc\"}]}],"
        "\"stop\":[\"a\",\"b\"],\"logit_bias\":{\"1\":1},\"model\":\"m\"}";
    for (int64_t nth = 1;; nth++) {
        fault_allocator f = {.fail_nth = nth};
        const ig_allocator a = fault_allocator_of(&f);
        ig__params p;
        ig__json *root = NULL;
        ig__bad why;
        const bool read = read_with(&p, &root, text, IG_CHAT, &a, &why);
        assert_int_equal(read, f.n_calls < nth);
        assert_int_equal(read || why.no_memory, true);
        ig__params_fini(&p);
        ig__json_destroy(root);
        assert_int_equal(f.n_alive, 0);
        if (f.n_calls < nth)
            break;
    }
}

/* The schema is JSON, and has the table's names and ranges. */
static void schema(void **state)
{
    (void)state;
    for (int endpoint = IG_CHAT; endpoint <= IG_COMPLETION; endpoint++) {
        ig__buffer b = ig__buffer_init(&plain);
        ig_error err;
        ig__json *root;
        ig__fields_write_schema(&b, (ig__endpoint)endpoint);
        assert_int_equal(ig__json_parse(&root, b.data, b.n, &err), IG_OK);
        const ig__json *fields = ig__json_get(root, "properties");
        const ig__json *top_p = ig__json_get(fields, "top_p");
        assert_true(ig__json_real(ig__json_get(top_p, "maximum")) == 1);
        assert_int_equal(ig__json_get(fields, "prompt") != NULL, endpoint == IG_COMPLETION);
        assert_null(ig__json_get(fields, "tools")); /* not done: not offered */
        ig__json_destroy(root);
        ig__buffer_fini(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(defaults, setup, teardown),
        cmocka_unit_test_setup_teardown(values, setup, teardown),
        cmocka_unit_test_setup_teardown(refusals, setup, teardown),
        cmocka_unit_test_setup_teardown(let_through, setup, teardown),
        cmocka_unit_test_setup_teardown(huge, setup, teardown),
        cmocka_unit_test_setup_teardown(depth, setup, teardown),
        cmocka_unit_test_setup_teardown(faults, setup, teardown),
        cmocka_unit_test_setup_teardown(schema, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
