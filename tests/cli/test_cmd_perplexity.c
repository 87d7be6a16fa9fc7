/* ingot perplexity against the float32 evaluation of the same file. */
#include "program.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

static void perplexity_of_a_text(void **state)
{
    (void)state;
    REQUIRE_MODEL();
    static const char text[] = "The quick brown fox jumps over the lazy dog. It was the "
                               "best of times, it was the worst of times.";
    json_t *j = program_json_of("perplexity", "--ctx|64|--exact|--json", text);
    assert_int_equal(json_integer_value(json_object_get(j, "tokens")), 24);
    assert_int_equal(json_integer_value(json_object_get(j, "scored")), 23);
    const double nll = json_number_value(json_object_get(j, "mean_nll"));
    assert_true(fabs(nll - 2.5013) < 0.001);
    assert_true(fabs(json_number_value(json_object_get(j, "perplexity")) - exp(nll)) <
                1e-4);
    json_decref(j);
    j = program_json_of("perplexity", "--ctx|64|--tokens|10|--bos|--json", text);
    assert_int_equal(json_integer_value(json_object_get(j, "tokens")), 10);
    assert_int_equal(json_integer_value(json_object_get(j, "scored")), 10);
    json_decref(j);
    outcome o = program_on_model("perplexity", "", "");
    assert_int_equal(o.code, 1);
    program_free(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(perplexity_of_a_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
