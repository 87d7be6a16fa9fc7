/* Cores that this process may use. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/cores.h"

#include <sched.h>
#include <string.h>

static void cores_follow_the_mask(void **state)
{
    (void)state;
    char reason[96] = "", little[8];
    cpu_set_t all, one;
    const int n = ig__cores_allowed(reason, sizeof reason);
    assert_in_range(n, 1, CPU_SETSIZE);
    assert_non_null(strstr(reason, "core"));
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    assert_true(n <= CPU_COUNT(&all));
    CPU_ZERO(&one);
    for (size_t i = 0; i < CPU_SETSIZE && !CPU_COUNT(&one); i++)
        if (CPU_ISSET(i, &all))
            CPU_SET(i, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    assert_int_equal(ig__cores_allowed(reason, sizeof reason), 1);
    assert_string_equal(reason, "1 core in the affinity mask");
    assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
    assert_int_equal(ig__cores_allowed(little, sizeof little), n);
    assert_int_equal(strlen(little), 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cores_follow_the_mask),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
