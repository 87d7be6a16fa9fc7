/* The public listing of a file. */
#include "ingot/model.h"

#include "format_fixture.h"
#include "tensor/context.h"

#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

static void lists_keys_and_tensors(void **state)
{
    (void)state;
    gguf_writer w;
    small_marks m;
    counting_allocator counted;
    counting_allocator_init(&counted);
    ig_context ctx = {.allocator = counted.allocator}; /* all that listing needs of one */
    small_file(&w, &m);
    ig_file *file;
    assert_int_equal(ig_file_open(&file, &ctx, gguf_save(&w), NULL), IG_OK);
    assert_int_equal(ig_file_n_keys(file), 19);
    assert_string_equal(ig_file_key(file, 5), "t.u32");
    char text[40];
    assert_int_equal(ig_file_value_text(file, 5, text, sizeof text), 10);
    assert_string_equal(text, "4000000000");
    assert_int_equal(ig_file_n_tensors(file), 3);
    const ig_file_tensor block = ig_file_get_tensor(file, 1);
    assert_string_equal(block.name, "block");
    assert_string_equal(block.dtype, "q4_1");
    assert_int_equal(block.n_dims, 2);
    assert_int_equal(block.dims[0], 64);
    assert_int_equal(block.dims[1], 2);
    assert_int_equal(block.offset, m.data + 64);
    assert_int_equal(block.bytes, 80);
    const ig_file_tensor later = ig_file_get_tensor(file, 2);
    assert_string_equal(later.dtype, "250");
    assert_int_equal(later.bytes, 0);
    assert_null(ig_file_get_tensor(file, 3).name);
    ig_file_close(file);
    ig_file_close(NULL);
    assert_int_equal(counted.n_live, 0);
    gguf_writer_fini(&w);
}

static void every_allocation_fails(void **state)
{
    (void)state;
    gguf_writer w;
    small_marks m;
    counting_allocator counted;
    counting_allocator_init(&counted);
    ig_context ctx = {.allocator = counted.allocator};
    small_file(&w, &m);
    gguf_save(&w);
    for (int64_t nth = 1;; nth++) {
        ig_file *file = (ig_file *)&w;
        ig_error err = {0};
        counted.fail_at = nth;
        const ig_status status = ig_file_open(&file, &ctx, w.path, &err);
        if (status == IG_OK) {
            assert_true(nth > 8);
            ig_file_close(file);
            break;
        }
        assert_int_equal(status, IG_ERR_MEMORY);
        assert_null(file);
        assert_int_equal(counted.n_live, 0);
    }
    assert_int_equal(counted.n_live, 0);
    gguf_writer_fini(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_keys_and_tensors),
        cmocka_unit_test(every_allocation_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
