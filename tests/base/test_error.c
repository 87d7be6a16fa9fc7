/* Filling errors, passing them up, and the sentences of all statuses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/error.h"

#include <string.h>

static ig_status refuse(ig_error *err)
{
    return ig__fail(err, IG_ERR_SHAPE, "matmul: inner sizes differ: %d and %s", 8, "9");
}

static ig_status pass_up(int *after, ig_error *err)
{
    IG_TRY(refuse(err));
    *after = 1;
    return IG_OK;
}

static ig_status go_on(int *after)
{
    IG_TRY(IG_OK);
    *after = 1;
    return IG_OK;
}

static void a_failure_says_what_and_where(void **state)
{
    (void)state;
    ig_error err = {0};
    assert_int_equal(refuse(&err), IG_ERR_SHAPE);
    assert_int_equal(err.status, IG_ERR_SHAPE);
    assert_string_equal(err.message, "matmul: inner sizes differ: 8 and 9");
    assert_non_null(strstr(err.file, "test_error.c"));
    assert_true(err.line > 10 && err.line < 30);
    assert_int_equal(refuse(NULL), IG_ERR_SHAPE);
}

static void try_passes_failures_up(void **state)
{
    (void)state;
    ig_error err = {0};
    int after = 0;
    assert_int_equal(pass_up(&after, &err), IG_ERR_SHAPE);
    assert_int_equal(after, 0);
    assert_int_equal(go_on(&after), IG_OK);
    assert_int_equal(after, 1);
}

static void messages_are_one_clean_line(void **state)
{
    (void)state;
    ig_error err;
    (void)ig__fail(&err, IG_ERR_FORMAT, "key '%s'", "a\nb\x1b[2J\x7f\t\xc3\xa4");
    assert_string_equal(err.message, "key 'a?b?[2J??\xc3\xa4'");
}

static void long_messages_are_cut(void **state)
{
    (void)state;
    ig_error err;
    char text[4 * sizeof err.message];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = 0;
    (void)ig__fail(&err, IG_ERR_IO, "%s", text);
    assert_int_equal(strlen(err.message), sizeof err.message - 1);
    (void)ig__fail_memory(&err, "cache", 123);
    assert_int_equal(err.status, IG_ERR_MEMORY);
    assert_string_equal(err.message, "cache: out of memory (123 bytes)");
}

static void every_status_has_a_sentence(void **state)
{
    (void)state;
    static const ig_status all[] = {
#define VALUE(name, value, text) IG_##name,
        IG_STATUS_MAP(VALUE)
#undef VALUE
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const char *text = ig_status_text(all[i]);
        assert_string_not_equal(ig_status_name(all[i]), "UNKNOWN");
        assert_string_not_equal(text, "unknown status");
        assert_true(strlen(text) > 4 && text[strlen(text) - 1] != '.');
        for (const char *c = text; *c; c++)
            assert_true(*c >= ' ' && *c <= '~');
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(text, ig_status_text(all[k]));
        assert_true(i == 0 ? all[i] == 0 : all[i] < 0);
    }
    assert_string_equal(ig_status_name((ig_status)-999), "UNKNOWN");
    assert_string_equal(ig_status_text((ig_status)-999), "unknown status");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_failure_says_what_and_where),
        cmocka_unit_test(try_passes_failures_up),
        cmocka_unit_test(messages_are_one_clean_line),
        cmocka_unit_test(long_messages_are_cut),
        cmocka_unit_test(every_status_has_a_sentence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
