/* Blocks of one lifetime: aligned, zeroed, apart from one another, freed as a whole. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "infer/fault_allocator.h"

#include "base/arena.h"

#include <string.h>

/* Sizes around the alignment, the first chunk and the largest. */
static const size_t sizes[] = {0,    1,    15,   16,      17,          4000,    4032,
                               4096, 4097, 9000, 1 << 20, 1 << 20 | 1, 3 << 20, 5};
enum { N = sizeof sizes / sizeof *sizes };

/* Every size twice; what could be had is written full and must stay so. */
static void fill_and_check(ig__arena *arena, bool all)
{
    unsigned char *blocks[2 * N];
    for (int i = 0; i < 2 * N; i++) {
        blocks[i] = ig__arena_alloc(arena, sizes[i % N]);
        assert_true(blocks[i] || !all);
        assert_int_equal((uintptr_t)blocks[i] % 16, 0);
        for (size_t k = 0; blocks[i] && k < sizes[i % N]; k++)
            assert_int_equal(blocks[i][k], 0);
        if (blocks[i])
            memset(blocks[i], i + 1, sizes[i % N]);
    }
    for (int i = 0; i < 2 * N; i++)
        for (size_t k = 0; blocks[i] && k < sizes[i % N]; k++)
            assert_int_equal(blocks[i][k], i + 1);
}

static void blocks_are_apart(void **state)
{
    (void)state;
    const ig_allocator a = ig__allocator_default();
    ig__arena arena = ig__arena_init(&a);
    fill_and_check(&arena, true);
    ig__arena_fini(&arena);
    fill_and_check(&arena, true); /* empty, and good again */
    ig__arena_fini(&arena);
    ig__arena_fini(&arena);
}

static void small_blocks_share_chunks(void **state)
{
    (void)state;
    fault_allocator f = {0};
    const ig_allocator a = fault_allocator_of(&f);
    ig__arena arena = ig__arena_init(&a);
    for (int i = 0; i < 100000; i++) {
        const int *copy = ig__arena_copy(&arena, &i, sizeof i);
        assert_true(copy && *copy == i);
    }
    assert_non_null(ig__arena_copy(&arena, NULL, 0));
    assert_in_range(f.n_calls, 2, 16); /* 1.6 MB, doubling from 4 KiB to 1 MiB */
    ig__arena_fini(&arena);
    assert_int_equal(f.n_alive, 0);
}

static void failures_leave_the_rest(void **state)
{
    (void)state;
    for (int64_t nth = 1;; nth++) {
        fault_allocator f = {.fail_nth = nth};
        const ig_allocator a = fault_allocator_of(&f);
        ig__arena arena = ig__arena_init(&a);
        fill_and_check(&arena, false);
        ig__arena_fini(&arena);
        assert_int_equal(f.n_alive, 0);
        if (f.n_calls < nth)
            break;
    }
    const ig_allocator a = ig__allocator_default();
    ig__arena arena = ig__arena_init(&a);
    volatile size_t most = SIZE_MAX; /* hidden from the compiler's warnings */
    assert_null(ig__arena_alloc(&arena, most));
    assert_null(ig__arena_alloc(&arena, most - 20));
    assert_non_null(ig__arena_alloc(&arena, 1));
    ig__arena_fini(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_apart),
        cmocka_unit_test(small_blocks_share_chunks),
        cmocka_unit_test(failures_leave_the_rest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
