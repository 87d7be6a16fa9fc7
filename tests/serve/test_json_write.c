#include "serve/json_write.h"

#include "base/json.h"

#include <math.h>
#include <stdarg.h>
#include <setjmp.h>
#include <string.h>
#include <cmocka.h>

static ig_allocator a;
static ig__buffer b;

static int setup(void **state)
{
    (void)state;
    a = ig__allocator_default();
    b = ig__buffer_init(&a);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    ig__buffer_fini(&b);
    return 0;
}

static void wrote(const char *wanted)
{
    assert_false(b.failed);
    assert_string_equal(b.data ? b.data : "", wanted);
    b.n = 0;
}

static void strings(void **state)
{
    (void)state;
    ig__json_write_string(&b, "", 0);
    wrote("\"\"");
    ig__json_write_string(&b, "a\"\\/\b\t\n\v\f\r\x7f\0z", 13);
    wrote("\"a\\\"\\\\/\\b\\t\\n\\u000b\\f\\r\\u007f\\u0000z\"");
    ig__json_write_string(&b, "\xf0\x9f\xa6\x99\xff\xf0\x9f", 7);
    wrote("\"\xf0\x9f\xa6\x99\xef\xbf\xbd\xef\xbf\xbd\"");
    ig__json_write_text(&b, NULL);
    wrote("null");
    ig__json_write_text(&b, "x");
    wrote("\"x\"");
}

/* Any bytes, of any length around the piece that is written at once: what a reader of JSON
 * gets back is the text with U+FFFD for what is no text. */
static void lengths(void **state)
{
    (void)state;
    char bytes[300];
    for (size_t n = 0; n < sizeof bytes; n++) {
        for (size_t i = 0; i < n; i++)
            bytes[i] = (char)(i % 3 == 2 ? 0xc3 : i % 5 ? 'a' + (int)(i % 26) : '"');
        ig__json_write_string(&b, bytes, n);
        ig__json *v;
        ig_error err;
        assert_int_equal(ig__json_parse(&v, b.data, b.n, &err), IG_OK);
        ig__json_destroy(v);
        b.n = 0;
    }
    memset(bytes, 0, sizeof bytes);
    for (size_t i = 0; i + 4 <= sizeof bytes; i += 4)
        memcpy(bytes + i, "\xf0\x9f\xa6\x99", 4); /* characters across the pieces */
    ig__json_write_string(&b, bytes, 300);
    assert_int_equal(b.n, 302);
    assert_memory_equal(b.data + 1, bytes, 300);
    b.n = 0;
}

static void numbers(void **state)
{
    (void)state;
    ig__json_write_int(&b, INT64_MIN);
    wrote("-9223372036854775808");
    ig__json_write_int(&b, INT64_MAX);
    wrote("9223372036854775807");
    ig__json_write_int(&b, 0);
    wrote("0");
    ig__json_write_real(&b, -0.25);
    wrote("-0.25");
    ig__json_write_real(&b, (double)INFINITY);
    wrote("null");
    ig__json_write_real(&b, (double)NAN);
    wrote("null");
    ig__json_write_bytes(&b, "\xff\0A", 3);
    wrote("[255,0,65]");
    const int32_t ids[] = {7, -1};
    ig__json_write_ids(&b, ids, 2);
    wrote("[7,-1]");
    ig__json_write_ids(&b, NULL, 0);
    wrote("[]");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(strings, setup, teardown),
        cmocka_unit_test_setup_teardown(lengths, setup, teardown),
        cmocka_unit_test_setup_teardown(numbers, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
