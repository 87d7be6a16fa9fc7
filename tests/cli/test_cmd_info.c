/* ingot info. */
#include "program.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void info_reads_the_file(void **state)
{
    (void)state;
    REQUIRE_MODEL();
    json_t *j = program_json_of("info", "--json|--tensors", NULL);
    assert_int_equal(json_integer_value(json_object_get(j, "n_tensors")), 272);
    assert_int_equal(json_length(j, "tensors"), 272);
    assert_json_text(json_object_get(j, "metadata"), "general.architecture", "llama");
    json_t *layers = json_object_get(json_object_get(j, "metadata"), "llama.block_count");
    assert_int_equal(json_integer_value(layers), 30);
    assert_int_equal(json_integer_value(json_object_get(j, "n_parameters")), 134515008);
    json_decref(j);
    outcome o = program_on_model("info", "", NULL);
    assert_int_equal(o.code, 0);
    assert_non_null(strstr(o.out, "llama.attention.head_count"));
    assert_null(strstr(o.out, "blk.0.attn_q.weight"));
    program_free(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(info_reads_the_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
