/* Safetensors: round trips, and headers that are odd or made on purpose. */
#include "ingot/ingot.h"

#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

static ig_context *ctx;
static char path[64];

static int set_up(void **state)
{
    (void)state;
    snprintf(path, sizeof path, "/tmp/ig_safetensors_%ld", (long)getpid());
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

static void put(const void *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    fclose(f);
}

/* A file of a stated length, a header, and n_data bytes. */
static void put_file(uint64_t length, const char *header, size_t n_header, size_t n_data)
{
    char *all = calloc(8 + n_header + n_data, 1);
    for (int i = 0; i < 8; i++)
        all[i] = (char)(length >> (8 * i));
    memcpy(all + 8, header, n_header);
    put(all, 8 + n_header + n_data);
    free(all);
}

static ig_status open_it(ig_error *err)
{
    ig_tensor_file *file;
    const ig_status status = ig_tensor_file_open(&file, ctx, path, err);
    assert_true((file != NULL) == (status == IG_OK));
    ig_tensor_file_close(file);
    return status;
}

typedef struct verdict {
    const char *header;
    size_t n_data;
    const char *words; /* NULL: accepted */
} verdict;

static void test_verdicts(void **state)
{
    (void)state;
    static const verdict cases[] = {
        {"{\"t\":{\"dtype\":\"F32\",\"shape\":[32,8],\"data_offsets\":[0,65536]}}", 1024,
         "data_offsets"},
        {"{\"t\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[16,0]}}", 16,
         "data_offsets are [16,0]"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
         "\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[4,12]}}",
         12, "begins at byte 4"},
        {"{\"t\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904,4],"
         "\"data_offsets\":[0,0]}}",
         0, "more bytes than can be"},
        {"{\"t\":{\"dtype\":\"F32\",\"shape\":[0,9223372036854775807,9],"
         "\"data_offsets\":[0,0]}}",
         0, NULL},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
         "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[8,12]}}",
         12, "begins at byte 8"},
        {"{\"t\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 8,
         "end at byte 4"},
        {"{\"t\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]}}", 8,
         "wants 16 bytes"},
        {"{\"t\":{\"dtype\":\"F99\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4,
         "dtype 'F99'"},
        {"{\"t\":{\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "dtype ''"},
        {"{\"t\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", 4,
         "shape[0]"},
        {"{\"t\":{\"dtype\":\"F32\",\"shape\":[1.0],\"data_offsets\":[0,4]}}", 4,
         "shape[0]"},
        {"{\"t\":{\"dtype\":\"F32\",\"shape\":4,\"data_offsets\":[0,4]}}", 4,
         "shape is not"},
        {"{\"t\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1],"
         "\"data_offsets\":[0,4]}}",
         4, "shape is not a list of at most 8"},
        {"{\"t\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]}}", 4,
         "[begin, end]"},
        {"{\"t\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "[begin, end]"},
        {"{\"t\":[]}", 0, "is not an object"},
        {"[]", 0, "not an object"},
        {"{\"t\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
         "\"t\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}",
         4, "duplicate"},
        {"{\"__metadata__\":{\"k\":1}}", 0, "__metadata__"},
        {"{\"__metadata__\":7}", 0, "__metadata__"},
        {"\xff\xfe", 0, "header: json"},
        {"{\"t\":", 0, "header: json"},
        {"{\"a\\u0000b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4,
         "NUL byte"},
        {"   {\"t\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}   ", 4, NULL},
        {"{\"t\":{\"dtype\":\"F32\",\"shape\":[0,4],\"data_offsets\":[0,0]}}", 0, NULL},
        {"{\"t\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}}", 4, NULL},
        {"{\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[4,5]},"
         "\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}}",
         5, NULL},
        {"{}", 0, NULL},
        {"{\"__metadata__\":{\"k\":\"v\"},"
         "\"t\":{\"dtype\":\"BF16\",\"shape\":[1],\"data_offsets\":[0,2]}}",
         2, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const verdict *v = &cases[i];
        ig_error err = {0};
        put_file(strlen(v->header), v->header, strlen(v->header), v->n_data);
        const ig_status status = open_it(&err);
        if (!v->words && status != IG_OK)
            fail_msg("case %zu: %s", i, err.message);
        if (v->words && (status != IG_ERR_FORMAT || !strstr(err.message, v->words)))
            fail_msg("case %zu: %s", i, err.message);
    }
}

static void test_lengths(void **state)
{
    (void)state;
    ig_error err;
    put_file(UINT64_MAX, "{}", 2, 0);
    assert_int_equal(open_it(&err), IG_ERR_FORMAT);
    put_file(3, "{}", 2, 0);
    assert_int_equal(open_it(&err), IG_ERR_FORMAT);
    assert_non_null(strstr(err.message, "length is 3, 2 bytes are left"));
    put("\2\0\0", 3);
    assert_int_equal(open_it(&err), IG_ERR_FORMAT);
    put("", 0);
    assert_int_equal(open_it(&err), IG_ERR_FORMAT);
    put_file(0, "", 0, 0);
    assert_int_equal(open_it(&err), IG_ERR_FORMAT);
    /* padded with spaces to exactly 100,000 bytes */
    char *wide = malloc(100000);
    memset(wide, ' ', 100000);
    memcpy(wide, "{}", 2);
    put_file(100000, wide, 100000, 0);
    assert_int_equal(open_it(&err), IG_OK);
    /* nesting is bounded */
    memset(wide, '[', 100000);
    put_file(100000, wide, 100000, 0);
    assert_int_equal(open_it(&err), IG_ERR_FORMAT);
    free(wide);
    ig_tensor_file *file;
    assert_int_equal(ig_tensor_file_open(&file, ctx, "/tmp", &err), IG_ERR_IO);
    assert_int_equal(ig_tensor_file_open(&file, ctx, "/nowhere/x", &err), IG_ERR_IO);
}

/* Each truncation of a good file is refused, each changed byte is refused or read. */
static void test_every_byte(void **state)
{
    (void)state;
    const char *header = "{\"t\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}";
    const size_t n = strlen(header), whole = 8 + n + 8;
    char bytes[128] = {(char)n};
    memcpy(bytes + 8, header, n);
    for (size_t cut = 0; cut < whole; cut++) {
        put(bytes, cut);
        assert_int_equal(open_it(NULL), IG_ERR_FORMAT);
    }
    for (size_t i = 0; i < whole; i++)
        for (int bit = 0; bit < 8; bit++) {
            bytes[i] ^= (char)(1 << bit);
            put(bytes, whole);
            const ig_status status = open_it(NULL);
            assert_true(status == IG_OK || status == IG_ERR_FORMAT);
            bytes[i] ^= (char)(1 << bit);
        }
}

static void test_round_trip(void **state)
{
    (void)state;
    static const ig_dtype dtypes[] = {IG_DTYPE_BOOL, IG_DTYPE_F32,  IG_DTYPE_F64,
                                      IG_DTYPE_F16,  IG_DTYPE_BF16, IG_DTYPE_I8,
                                      IG_DTYPE_U8,   IG_DTYPE_I32,  IG_DTYPE_I64};
    enum { N = sizeof dtypes / sizeof *dtypes };
    ig_scope *scope = ig_scope_begin(ctx);
    ig_named_tensor items[N + 3];
    const int64_t dims[2] = {3, 5}, none[2] = {0, 4};
    for (int i = 0; i < N; i++) {
        ig_tensor *x = ig_normal(ctx, IG_DTYPE_F32, 2, dims, 0, 50);
        items[i] = (ig_named_tensor){ig_dtype_name(dtypes[i]), ig_cast(x, dtypes[i])};
    }
    ig_tensor *base = ig_normal(ctx, IG_DTYPE_F32, 2, dims, 0, 1);
    items[N] = (ig_named_tensor){"a \"view\"\n\\\x01", ig_transpose(base, 0, 1)};
    items[N + 1] = (ig_named_tensor){"scalar", ig_tensor_scalar(ctx, IG_DTYPE_F64, 1.5)};
    items[N + 2] = (ig_named_tensor){"empty", ig_zeros(ctx, IG_DTYPE_F32, 2, none)};
    const ig_metadata metadata[2] = {{"format", "ingot"}, {"\"", "\xc3\xa4"}};
    ig_error err = {0};
    if (ig_tensors_save(path, items, N + 3, metadata, 2, &err) != IG_OK)
        fail_msg("%s", err.message);
    ig_tensor_file *file;
    assert_int_equal(ig_tensor_file_open(&file, ctx, path, &err), IG_OK);
    assert_int_equal(ig_tensor_file_count(file), N + 3);
    assert_string_equal(ig_tensor_file_metadata(file, "\""), "\xc3\xa4");
    assert_null(ig_tensor_file_metadata(file, "absent"));
    for (int i = 0; i < N + 3; i++) {
        ig_tensor *x = items[i].tensor;
        ig_tensor *y = ig_tensor_file_read(file, items[i].name, &err);
        assert_non_null(y);
        assert_int_equal(ig_tensor_dtype(y), ig_tensor_dtype(x));
        assert_int_equal(ig_tensor_n_dims(y), ig_tensor_n_dims(x));
        const size_t n = ig_tensor_bytes(x);
        char a[256], b[256];
        assert_int_equal(ig_tensor_bytes(y), n);
        assert_int_equal(ig_tensor_read(x, a, n, NULL), IG_OK);
        assert_int_equal(ig_tensor_read(y, b, n, NULL), IG_OK);
        assert_memory_equal(a, b, n);
    }
    /* cast on the way in */
    ig_tensor *f64 = ig_zeros(ctx, IG_DTYPE_F64, 2, dims);
    assert_int_equal(ig_tensor_file_read_into(file, "f32", f64, &err), IG_OK);
    const double *d = ig_tensor_data(f64);
    const float *f = ig_tensor_data(items[1].tensor);
    for (int i = 0; i < 15; i++)
        assert_true(d[i] == (double)f[i]);
    assert_int_equal(ig_tensor_file_read_into(file, "scalar", f64, &err), IG_ERR_SHAPE);
    assert_int_equal(ig_tensor_file_read_into(file, "absent", f64, &err), IG_ERR_ARGUMENT);
    assert_null(ig_tensor_file_read(file, "absent", &err));
    assert_int_equal(ig_context_status(ctx), IG_OK);
    ig_tensor_file_close(file);
    ig_scope_end(scope);
}

/* What cannot be written leaves the old file, and no other. */
static void test_failed_write(void **state)
{
    (void)state;
    ig_scope *scope = ig_scope_begin(ctx);
    const int64_t n = 1 << 16;
    ig_named_tensor items[2] = {{"w", ig_zeros(ctx, IG_DTYPE_F32, 1, &n)}, {"w", NULL}};
    assert_int_equal(ig_tensors_save(path, items, 1, NULL, 0, NULL), IG_OK);
    ig_error err;
    struct rlimit before, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = 1000;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    const ig_status status = ig_tensors_save(path, items, 1, NULL, 0, &err);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(status, IG_ERR_IO);
    assert_int_equal(open_it(&err), IG_OK);
    char command[160];
    snprintf(command, sizeof command, "test \"$(ls %s* | wc -l)\" = 1", path);
    assert_int_equal(system(command), 0);
    items[1].tensor = items[0].tensor;
    assert_int_equal(ig_tensors_save(path, items, 2, NULL, 0, &err), IG_ERR_ARGUMENT);
    assert_int_equal(ig_tensors_save("/nowhere/x", items, 1, NULL, 0, &err), IG_ERR_IO);
    ig_scope_end(scope);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_verdicts),     cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_every_byte),   cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_failed_write),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
