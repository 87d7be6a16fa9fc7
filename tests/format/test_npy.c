/* NumPy's files: round trips, NumPy's own bytes, and files that are not what they say. */
#include "ingot/ingot.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static ig_context *ctx;
static char path[64];

static int set_up(void **state)
{
    (void)state;
    snprintf(path, sizeof path, "/tmp/ig_npy_%ld", (long)getpid());
    const ig_context_opts opts = {.n_threads = 1};
    return ig_context_create(&ctx, &opts, NULL) != IG_OK;
}

static int tear_down(void **state)
{
    (void)state;
    ig_context_destroy(ctx);
    unlink(path);
    return 0;
}

/* A file of version 1 (or `major`) with this header and n bytes 0, 1, 2, .. of elements. */
static void put(int major, const char *header, size_t n)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    const size_t n_header = strlen(header);
    fprintf(f, "\x93NUMPY%c%c", major, 0);
    for (int i = 0; i < (major == 1 ? 2 : 4); i++)
        fputc((int)(n_header >> (8 * i) & 255), f);
    fputs(header, f);
    for (size_t i = 0; i < n; i++)
        fputc((int)i, f);
    fclose(f);
}

static void test_round_trip(void **state)
{
    (void)state;
    static const ig_dtype dtypes[] = {IG_DTYPE_BOOL, IG_DTYPE_F32, IG_DTYPE_F64,
                                      IG_DTYPE_F16,  IG_DTYPE_I8,  IG_DTYPE_U8,
                                      IG_DTYPE_I32,  IG_DTYPE_I64};
    static const int64_t dims[3] = {2, 3, 5};
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        for (int n_dims = 0; n_dims <= 3; n_dims++) {
            ig_scope *scope = ig_scope_begin(ctx);
            ig_tensor *x =
                ig_cast(ig_normal(ctx, IG_DTYPE_F32, n_dims, dims, 0, 30), dtypes[i]);
            if (n_dims == 3)
                x = ig_transpose(x, 0, 2);
            ig_error err;
            assert_int_equal(ig_npy_save(path, x, &err), IG_OK);
            ig_tensor *y = ig_npy_load(ctx, path, &err);
            assert_non_null(y);
            assert_int_equal(ig_tensor_dtype(y), dtypes[i]);
            assert_int_equal(ig_tensor_n_dims(y), n_dims);
            for (int d = 0; d < n_dims; d++)
                assert_int_equal(ig_tensor_dim(y, d), ig_tensor_dim(x, d));
            char a[256], b[256];
            assert_int_equal(ig_tensor_read(x, a, ig_tensor_bytes(x), NULL), IG_OK);
            assert_int_equal(ig_tensor_read(y, b, ig_tensor_bytes(y), NULL), IG_OK);
            assert_memory_equal(a, b, ig_tensor_bytes(x));
            ig_scope_end(scope);
        }
    /* bf16 becomes f32 */
    assert_int_equal(ig_npy_save(path, ig_tensor_scalar(ctx, IG_DTYPE_BF16, 1.5), NULL),
                     IG_OK);
    ig_tensor *y = ig_npy_load(ctx, path, NULL);
    assert_int_equal(ig_tensor_dtype(y), IG_DTYPE_F32);
    assert_true(ig_tensor_item(y) == 1.5);
}

static void test_orders_and_versions(void **state)
{
    (void)state;
    put(1, "{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3), }   \n", 6);
    ig_tensor *x = ig_npy_load(ctx, path, NULL);
    assert_non_null(x);
    unsigned char bytes[6];
    assert_int_equal(ig_tensor_read(x, bytes, 6, NULL), IG_OK);
    assert_memory_equal(bytes, "\0\2\4\1\3\5", 6);
    for (int major = 2; major <= 3; major++) {
        put(major, "{'shape':(3,),'fortran_order':False,'descr':'<i4'}", 12);
        x = ig_npy_load(ctx, path, NULL);
        assert_non_null(x);
        assert_int_equal(((int32_t *)ig_tensor_data(x))[1], 0x07060504);
    }
    put(1, "{'descr': '<f8', 'fortran_order': False, 'shape': (0, 7), }\n", 0);
    assert_int_equal(ig_tensor_dim(ig_npy_load(ctx, path, NULL), 1), 7);
}

static void test_refused(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        size_t n;
        const char *words;
    } cases[] = {
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", 9, "wants 8 bytes"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", 7, "wants 8 bytes"},
        {"{'descr': '>f4', 'fortran_order': False, 'shape': (2,), }", 8, "big endian"},
        {"{'descr': '<c8', 'fortran_order': False, 'shape': (1,), }", 8,
         "elements of type"},
        {"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", 8, "elements of type"},
        {"{'descr': '<f4', 'fortran_order': maybe, 'shape': (2,), }", 8, "True or False"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2 2), }", 8, "comma"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (-2,), }", 8,
         "size was wanted"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': [2], }", 8, "tuple"},
        {"{'descr': '<f4', 'fortran_order': False, }", 8, "missing"},
        {"{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", 8,
         "repeated"},
        {"{'shape': (2,), 'shape': (2,), 'descr': '<f4', 'fortran_order': False}", 8,
         "twice"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'x': 1}", 8, "unknown"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), } x", 8, "more than"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': "
         "(4611686018427387904, 4611686018427387904), }",
         8, "more bytes"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }", 8,
         "too large"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,2), }", 8,
         "more than 8"},
        {"", 0, "dictionary"},
    };
    ig_error err;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put(1, cases[i].header, cases[i].n);
        if (ig_npy_load(ctx, path, &err) || !strstr(err.message, cases[i].words))
            fail_msg("case %zu: %s", i, err.message);
        assert_int_equal(ig_context_status(ctx), IG_OK);
    }
    put(9, "{}", 0);
    assert_null(ig_npy_load(ctx, path, &err));
    assert_null(ig_npy_load(ctx, "/nowhere/x", &err));
    assert_null(ig_npy_load(ctx, "/tmp", &err));
    assert_int_equal(
        ig_npy_save("/nowhere/x", ig_tensor_scalar(ctx, IG_DTYPE_F32, 1), &err), IG_ERR_IO);
    /* every truncation of a good file */
    put(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", 8);
    for (int n = 10 + 57 + 8; n-- > 0;) {
        assert_int_equal(truncate(path, n), 0);
        assert_null(ig_npy_load(ctx, path, &err));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_orders_and_versions),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
