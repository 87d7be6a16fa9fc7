/* Alignment, growing, checked products, and a caller's allocator that refuses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "infer/fault_allocator.h"

#include "base/alloc.h"

#include <string.h>

static void blocks_are_aligned(void **state)
{
    (void)state;
    const ig_allocator a = ig__allocator_default();
    static const size_t sizes[] = {0, 1, 63, 64, 65, 4095, 4096, 1 << 20};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        unsigned char *p = ig__alloc(&a, sizes[i]);
        unsigned char *z = ig__alloc_zero(&a, sizes[i]);
        unsigned char *h = ig__alloc_huge(&a, sizes[i]);
        const size_t huge = sizes[i] >= IG_HUGE_PAGE / 2 ? IG_HUGE_PAGE : 4096;
        assert_true(p && z && h);
        assert_int_equal((uintptr_t)p % 64, 0);
        assert_int_equal((uintptr_t)z % 64, 0);
        assert_int_equal((uintptr_t)h % huge, 0);
        for (size_t k = 0; k < sizes[i]; k++)
            assert_int_equal(z[k], 0);
        memset(p, 1, sizes[i]); /* all of it is ours */
        memset(h, 1, sizes[i]);
        ig__free(&a, p);
        ig__free(&a, z);
        ig__free(&a, h);
    }
    ig__free(&a, NULL);
}

/* A block that goes into huge pages stays the same block, whole and writable. */
static void blocks_become_huge(void **state)
{
    (void)state;
    const ig_allocator a = ig__allocator_default();
    static const size_t sizes[] = {1, 4096, IG_HUGE_PAGE, 3 * IG_HUGE_PAGE + 100};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        unsigned char *p = ig__alloc(&a, sizes[i] + 8);
        unsigned char *behind = p + sizes[i];
        assert_non_null(p);
        memset(p, 1, sizes[i] + 8);
        ig__make_huge(p, sizes[i]);
        for (int k = 0; k < 8; k++) /* nothing behind it is touched */
            assert_int_equal(behind[k], 1);
        memset(p, 2, sizes[i]);
        for (size_t k = 0; k < sizes[i]; k += 4096)
            assert_int_equal(p[k], 2);
        ig__free(&a, p);
    }
}

static void resizing_keeps_what_fits(void **state)
{
    (void)state;
    fault_allocator f = {0};
    const ig_allocator a = fault_allocator_of(&f);
    char *p = ig__resize(&a, NULL, 0, 10);
    assert_non_null(p);
    memcpy(p, "0123456789", 10);
    p = ig__resize(&a, p, 10, 1000);
    assert_memory_equal(p, "0123456789", 10);
    p = ig__resize(&a, p, 1000, 4);
    assert_memory_equal(p, "0123", 4);
    f.fail_nth = f.n_calls + 1;
    assert_null(ig__resize(&a, p, 4, 8));
    assert_memory_equal(p, "0123", 4); /* stays */
    assert_int_equal(f.n_alive, 1);
    ig__free(&a, p);
    assert_int_equal(f.n_alive, 0);
}

static void strings_are_copied_whole(void **state)
{
    (void)state;
    fault_allocator f = {0};
    const ig_allocator a = fault_allocator_of(&f);
    char *copy = ig__strdup(&a, "ab\0cd", 5);
    assert_memory_equal(copy, "ab\0cd", 6);
    ig__free(&a, copy);
    copy = ig__strdup(&a, NULL, 0);
    assert_string_equal(copy, "");
    ig__free(&a, copy);
    f.fail_nth = f.n_calls + 1;
    assert_null(ig__strdup(&a, "x", 1));
    f.fail_nth = f.n_calls + 1;
    assert_null(ig__alloc_zero(&a, 8));
    assert_int_equal(f.n_alive, 0);
}

static void products_and_sums_are_checked(void **state)
{
    (void)state;
    size_t n = 0;
    int64_t k = 0;
    assert_true(ig__mul(&n, (size_t)1 << 32, ((size_t)1 << 32) - 1));
    assert_true(n == ((size_t)1 << 32) * (((size_t)1 << 32) - 1));
    assert_false(ig__mul(&n, (size_t)1 << 32, (size_t)1 << 32));
    assert_true(ig__mul(&n, 0, SIZE_MAX));
    assert_int_equal(n, 0);
    assert_true(ig__add(&n, SIZE_MAX - 1, 1));
    assert_false(ig__add(&n, SIZE_MAX, 1));
    assert_true(ig__mul_i64(&k, INT64_MAX, -1));
    assert_false(ig__mul_i64(&k, INT64_MIN, -1));
    assert_false(ig__mul_i64(&k, (int64_t)1 << 32, (int64_t)1 << 31));
    assert_true(ig__mul_i64(&k, -((int64_t)1 << 32), (int64_t)1 << 31));
    assert_true(k == INT64_MIN);
    /* rounding up to the alignment must not wrap */
    const ig_allocator a = ig__allocator_default();
    volatile size_t most = SIZE_MAX;
    assert_null(ig__alloc(&a, most));
    assert_null(ig__alloc_huge(&a, most - 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_aligned),
        cmocka_unit_test(blocks_become_huge),
        cmocka_unit_test(resizing_keeps_what_fits),
        cmocka_unit_test(strings_are_copied_whole),
        cmocka_unit_test(products_and_sums_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
