/* ingot tokenize and detokenize. */
#include "program.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

static void tokens_and_back(void **state)
{
    (void)state;
    REQUIRE_MODEL();
    outcome o = program_on_model("tokenize", "-p|you're YOU'RE I'll I'LL", NULL);
    assert_string_equal(o.out, "8320 2316 12246 23 3256 339 3060 339 23 16421\n");
    outcome back = program_on_model("detokenize", "", o.out);
    assert_string_equal(back.out, "you're YOU'RE I'll I'LL");
    program_free(&o);
    program_free(&back);
    o = program_on_model("tokenize", "", "<|im_start|>user\nHi<|im_end|>\n");
    assert_string_equal(o.out, "1 4093 198 26843 2 198\n");
    program_free(&o);
    json_t *j = program_json_of("tokenize", "--plain|--json", "<|im_end|>");
    assert_json_ids(j, "tokens", "44 108 306 79 486 108 46");
    json_decref(j);
    o = program_on_model("tokenize", "-f|/dev/null", NULL);
    assert_int_equal(o.code, 0);
    assert_string_equal(o.out, "\n");
    program_free(&o);
    o = program_on_model("detokenize", "1|4093|198", NULL);
    assert_string_equal(o.out, "<|im_start|>user\n");
    program_free(&o);
    o = program_on_model("detokenize", "1|4093|198|--plain", NULL);
    assert_string_equal(o.out, "user\n");
    program_free(&o);
    j = program_json_of("detokenize", "10813|--json", NULL);
    assert_json_ids(j, "bytes", "240 159");
    json_decref(j);
    o = program_on_model("detokenize", "49152", NULL);
    assert_int_equal(o.code, 2);
    program_free(&o);
    /* bytes that are no text, zero among them, come back (this vocabulary knows these) */
    char all[512];
    for (int i = 0; i < 512; i++)
        all[i] = (char)(i % 8 ? 0x20 + i * 7 % 0xa0 : i / 8 % 4);
    const char *argv[] = {"tokenize", program_model(), NULL};
    o = program_run(argv, all, sizeof all, TO_PIPE);
    back = program_on_model("detokenize", "", o.out);
    assert_int_equal(back.n_out, sizeof all);
    assert_memory_equal(back.out, all, sizeof all);
    program_free(&o);
    program_free(&back);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_and_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
