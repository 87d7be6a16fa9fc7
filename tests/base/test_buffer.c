/* A growing byte string: contents, the 0 behind them, failures that stick. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "infer/fault_allocator.h"

#include "base/buffer.h"

#include <string.h>

static void bytes_are_kept(void **state)
{
    (void)state;
    const ig_allocator a = ig__allocator_default();
    ig__buffer b = ig__buffer_init(&a);
    char wanted[4100];
    size_t n = 0;
    for (size_t piece = 0; n < 4000; piece = (piece + 1) % 41) { /* zeros among the bytes */
        for (size_t k = 0; k < piece; k++)
            wanted[n + k] = (char)(n * 7 + k);
        ig__buffer_append(&b, wanted + n, piece);
        n += piece;
        assert_int_equal(b.n, n);
        assert_int_equal(b.data[n], 0);
        assert_true(b.cap > b.n);
    }
    assert_memory_equal(b.data, wanted, n);
    assert_false(b.failed);
    ig__buffer_fini(&b);
    assert_null(b.data);
    ig__buffer_append_text(&b, "again");
    assert_string_equal(b.data, "again");
    ig__buffer_fini(&b);
}

static void printing_grows(void **state)
{
    (void)state;
    const ig_allocator a = ig__allocator_default();
    ig__buffer b = ig__buffer_init(&a);
    char text[300];
    memset(text, 'y', sizeof text - 1);
    text[sizeof text - 1] = 0;
    ig__buffer_printf(&b, "%d-%s-", 42, text);
    ig__buffer_append_char(&b, 'z');
    ig__buffer_append_text(&b, "!");
    ig__buffer_printf(&b, "%s", "");
    assert_int_equal(b.n, 3 + 299 + 1 + 2);
    assert_memory_equal(b.data, "42-yyy", 6);
    assert_string_equal(b.data + b.n - 3, "-z!");
    ig__buffer_fini(&b);
}

static void taking_leaves_an_empty_one(void **state)
{
    (void)state;
    fault_allocator f = {0};
    const ig_allocator a = fault_allocator_of(&f);
    ig__buffer b = ig__buffer_init(&a);
    size_t n = 9;
    char *data = ig__buffer_take(&b, &n); /* of an empty one: "" */
    assert_int_equal(n, 0);
    assert_string_equal(data, "");
    ig__free(&a, data);
    ig__buffer_append_text(&b, "abc");
    data = ig__buffer_take(&b, &n);
    assert_int_equal(n, 3);
    assert_string_equal(data, "abc");
    assert_int_equal(b.n, 0);
    assert_null(b.data);
    ig__free(&a, data);
    ig__buffer_fini(&b);
    assert_int_equal(f.n_alive, 0);
}

static void failures_stick(void **state)
{
    (void)state;
    bool failed = true;
    for (int64_t nth = 1; failed; nth++) {
        fault_allocator f = {.fail_nth = nth};
        const ig_allocator a = fault_allocator_of(&f);
        ig__buffer b = ig__buffer_init(&a);
        for (int i = 0; i < 200; i++) {
            ig__buffer_append_text(&b, "0123456789");
            ig__buffer_printf(&b, "%d", i % 10);
        }
        failed = b.failed;
        assert_int_equal(failed, f.n_calls >= nth);
        if (failed) { /* nothing more is appended, also where there would be room */
            const size_t n = b.n;
            ig__buffer_append_char(&b, 'x');
            assert_false(ig__buffer_reserve(&b, 0));
            assert_int_equal(b.n, n);
            assert_null(ig__buffer_take(&b, NULL));
        } else {
            assert_int_equal(b.n, 200 * 11);
        }
        ig__buffer_fini(&b);
        assert_int_equal(f.n_alive, 0);
    }
}

static void impossible_lengths_fail(void **state)
{
    (void)state;
    const ig_allocator a = ig__allocator_default();
    for (size_t less = 0; less < 3; less++) {
        ig__buffer b = ig__buffer_init(&a);
        ig__buffer_append_text(&b, "ab");
        assert_true(ig__buffer_reserve(&b, 100));
        assert_false(ig__buffer_reserve(&b, SIZE_MAX - less));
        assert_true(b.failed);
        ig__buffer_fini(&b);
        assert_false(b.failed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_are_kept),
        cmocka_unit_test(printing_grows),
        cmocka_unit_test(taking_leaves_an_empty_one),
        cmocka_unit_test(failures_stick),
        cmocka_unit_test(impossible_lengths_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
