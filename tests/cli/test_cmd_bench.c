/* ingot bench: names, order and consistency of its figures. */
#include "program.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void bench_names_its_figures(void **state)
{
    (void)state;
    REQUIRE_MODEL();
    json_t *j =
        program_json_of("bench",
                        "--prompt|16|--decode|2|--batch|1,2|--depth|0,17|--repeat|2|-t|2"
                        "|--json",
                        NULL);
    assert_int_equal(json_length(j, "results"), 6);
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
        assert_json_text(r, "test", i % 3 ? "decode" : "prompt");
        assert_int_equal(json_integer_value(json_object_get(r, "n")), i % 3 ? 2 : 16);
        assert_int_equal(json_integer_value(json_object_get(r, "batch")),
                         i % 3 == 2 ? 2 : 1);
        assert_int_equal(json_integer_value(json_object_get(r, "depth")), i < 3 ? 0 : 17);
    }
    json_t *machine = json_object_get(j, "machine");
    assert_true(json_number_value(json_object_get(machine, "read_bytes_s")) > 1e9);
    assert_true(json_number_value(json_object_get(machine, "f32_ops_s")) > 1e8);
    assert_true(json_number_value(json_object_get(machine, "barrier_ns")) > 0);
    assert_json_text(json_object_get(j, "model"), "weight_type", "q4_1");
    json_decref(j);
    outcome o = program_on_model("bench", "--prompt|0|--decode|1|--repeat|1|--csv", NULL);
    assert_int_equal(o.code, 0);
    assert_int_equal(strncmp(o.out, "test,n,depth,batch,threads,tps,", 31), 0);
    assert_non_null(strstr(o.out, "\ndecode,1,0,1,"));
    program_free(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bench_names_its_figures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
