/* NumPy's archives: round trips stored and deflated, NumPy's own files, archives that are not what they say
 * (the seeds of fuzz_npz, made by scripts/make_npz_seeds.py, and bytes changed in place), faults. */
#include "infer/fault_allocator.h"
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

#define SEEDS IG_TEST_DATA "/../fuzz/seeds/npz/"

static ig_context *ctx;
static ig_error error;
static char path[64];

static int set_up(void **state)
{
    (void)state;
    /* many files are written through to where they lie: memory, where there is such a folder */
    const bool shm = access("/dev/shm", W_OK) == 0;
    snprintf(path, sizeof path, "%s/ig_npz_%ld", shm ? "/dev/shm" : "/tmp", (long)getpid());
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

static ig_npz *open_npz(const char *from)
{
    ig_npz *npz;
    if (ig_npz_open(&npz, ctx, from, &error) != IG_OK)
        fail_msg("%s: %s", from, error.message);
    return npz;
}

static ig_tensor *tensor_of(const ig_npz *npz, const char *name)
{
    ig_tensor *x = ig_npz_read(npz, name, &error);
    if (!x)
        fail_msg("%s: %s", name, error.message);
    return x;
}

static void same(ig_tensor *x, ig_tensor *y)
{
    assert_int_equal(ig_tensor_dtype(x), ig_tensor_dtype(y));
    assert_int_equal(ig_tensor_n_dims(x), ig_tensor_n_dims(y));
    for (int d = 0; d < ig_tensor_n_dims(x); d++)
        assert_int_equal(ig_tensor_dim(x, d), ig_tensor_dim(y, d));
    assert_true(ig_tensor_item(ig_sum(ig_not_equal(x, y), 0, NULL, false)) == 0);
}

/* Sizes around the chunks that are read and written, of one value and of random ones. */
static void test_round_trip(void **state)
{
    (void)state;
    static const int64_t sizes[] = {0, 1, 16371, 16384, 70001};
    for (int compressed = 0; compressed < 2; compressed++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            ig_scope *scope = ig_scope_begin(ctx);
            const int64_t n = sizes[i];
            const ig_named_tensor all[] = {
                {"h.0/weight", ig_normal(ctx, IG_DTYPE_F32, IG_SHAPE(n, 3), 0, 1)},
                {"h\xc3\xa9", ig_full(ctx, IG_DTYPE_I64, IG_SHAPE(n), -3)},
                {"scalar", ig_tensor_scalar(ctx, IG_DTYPE_F16, 0.5)},
                {"turned",
                 ig_transpose(ig_uniform(ctx, IG_DTYPE_F64, IG_SHAPE(2, n), 0, 1), 0, 1)}};
            if (ig_npz_save(path, all, 4, compressed, &error) != IG_OK)
                fail_msg("%s", error.message);
            ig_npz *npz = open_npz(path);
            assert_int_equal(ig_npz_count(npz), 4);
            assert_string_equal(ig_npz_name(npz, 0), "h.0/weight");
            assert_null(ig_npz_name(npz, 4));
            assert_null(ig_npz_name(npz, -1));
            for (int k = 0; k < 4; k++)
                same(tensor_of(npz, all[k].name), all[k].tensor);
            assert_null(ig_npz_read(npz, "other", &error));
            assert_non_null(strstr(error.message, "there is no tensor other"));
            ig_npz_close(npz);
            ig_scope_end(scope);
        }
    assert_int_equal(ig_npz_save(path, NULL, 0, false, &error), IG_OK);
    ig_npz *npz = open_npz(path);
    assert_int_equal(ig_npz_count(npz), 0);
    ig_npz_close(npz);
}

/* More members than 16 bits count: records of 64-bit sizes. */
static void test_many(void **state)
{
    (void)state;
    enum { N = 65540 };
    ig_named_tensor *all = calloc(N, sizeof *all);
    char *names = calloc(N, 16);
    ig_scope *scope = ig_scope_begin(ctx);
    ig_tensor *x = ig_tensor_scalar(ctx, IG_DTYPE_U8, 9);
    for (int i = 0; i < N; i++) {
        snprintf(names + 16 * i, 16, "%05d", i);
        all[i] = (ig_named_tensor){names + 16 * i, x};
    }
    assert_int_equal(ig_npz_save(path, all, N, false, &error), IG_OK);
    ig_npz *npz = open_npz(path);
    assert_int_equal(ig_npz_count(npz), N);
    same(tensor_of(npz, "65539"), x);
    ig_npz_close(npz);
    ig_scope_end(scope);
    free(names);
    free(all);
}

/* What NumPy wrote. */
static void test_seeds(void **state)
{
    (void)state;
    ig_scope *scope = ig_scope_begin(ctx);
    ig_tensor *ramp = ig_reshape(ig_arange(ctx, IG_DTYPE_F32, 0, 1, 6), IG_SHAPE(2, 3));
    ig_npz *npz = open_npz(SEEDS "stored");
    assert_int_equal(ig_npz_count(npz), 3);
    same(tensor_of(npz, "ramp"), ramp);
    same(tensor_of(npz, "turned"), ramp);
    assert_true(ig_tensor_item(tensor_of(npz, "flag")) == 1);
    ig_npz_close(npz);
    npz = open_npz(SEEDS "compressed");
    same(tensor_of(npz, "ramp"), ramp);
    same(tensor_of(npz, "zeros"), ig_zeros(ctx, IG_DTYPE_F64, IG_SHAPE(40, 30)));
    assert_true(ig_tensor_item(tensor_of(npz, "scalar")) == -7);
    ig_npz_close(npz);
    npz = open_npz(SEEDS "comment");
    same(tensor_of(npz, "a"), ramp);
    ig_npz_close(npz);
    npz = open_npz(SEEDS "other_members");
    assert_int_equal(ig_npz_count(npz), 1);
    ig_npz_close(npz);
    npz = open_npz(SEEDS "empty");
    assert_int_equal(ig_npz_count(npz), 0);
    ig_npz_close(npz);
    ig_scope_end(scope);
}

static void test_refused(void **state)
{
    (void)state;
    static const struct {
        const char *seed, *words;
    } cases[] = {{"shared_bytes", "two members share bytes"},
                 {"same_name", "'a.npy' stands twice"},
                 {"claims_more", "claims more than its bytes can hold"},
                 {"encrypted", "encrypted"},
                 {"cut", "is no zip archive"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char from[512];
        ig_npz *npz = (void *)&error;
        snprintf(from, sizeof from, SEEDS "%s", cases[i].seed);
        assert_int_equal(ig_npz_open(&npz, ctx, from, &error), IG_ERR_FORMAT);
        assert_null(npz);
        if (!strstr(error.message, cases[i].words))
            fail_msg("%s: %s", from, error.message);
    }
    ig_npz *npz = open_npz(SEEDS "wrong_sum");
    assert_null(ig_npz_read(npz, "a", &error));
    assert_non_null(strstr(error.message, "the sum of a member's bytes is another"));
    assert_non_null(ig_npz_read(npz, "b", &error));
    ig_npz_close(npz);
    /* the directory says 140 bytes, the header says that the tensor has more */
    npz = open_npz(SEEDS "holds_more");
    assert_null(ig_npz_read(npz, "a", &error));
    assert_non_null(strstr(error.message, "the shape wants 24 bytes, there are 12"));
    ig_npz_close(npz);
    assert_int_equal(ig_npz_open(&npz, ctx, "/nowhere/x", &error), IG_ERR_IO);
    assert_int_equal(ig_npz_open(&npz, ctx, "/tmp", &error), IG_ERR_IO);
    ig_tensor *x = ig_tensor_scalar(ctx, IG_DTYPE_F32, 1);
    const ig_named_tensor twice[2] = {{"a", x}, {"a", x}}, bad[] = {{"a\n", x}},
                          nothing[] = {{"", x}};
    assert_int_equal(ig_npz_save(path, twice, 2, false, &error), IG_ERR_ARGUMENT);
    assert_int_equal(ig_npz_save(path, bad, 1, false, &error), IG_ERR_ARGUMENT);
    assert_int_equal(ig_npz_save(path, nothing, 1, false, &error), IG_ERR_ARGUMENT);
    assert_int_equal(ig_npz_save("/nowhere/x", twice, 1, false, &error), IG_ERR_IO);
    assert_int_equal(ig_npz_save("/dev/null", twice, 1, false, &error), IG_ERR_IO);
}

/* A budget bounds what a small file may unpack to. */
static void test_bomb(void **state)
{
    (void)state;
    ig_context *small;
    const ig_context_opts opts = {.n_threads = 1, .tensor_budget = 1 << 19};
    assert_int_equal(ig_context_create(&small, &opts, &error), IG_OK);
    ig_npz *npz;
    assert_int_equal(ig_npz_open(&npz, small, SEEDS "bomb", &error), IG_OK);
    assert_null(ig_npz_read(npz, "a", &error));
    assert_int_equal(error.status, IG_ERR_MEMORY);
    assert_int_equal(ig_context_status(small), IG_OK);
    ig_npz_close(npz);
    ig_context_destroy(small);
    npz = open_npz(SEEDS "bomb");
    assert_int_equal(ig_tensor_count(tensor_of(npz, "a")), 1 << 20);
    ig_npz_close(npz);
}

/* Every byte of an archive changed, and every truncation: success or a clean failure, never other values. */
static void damage(const char *seed)
{
    char from[512], *bytes = NULL;
    snprintf(from, sizeof from, SEEDS "%s", seed);
    FILE *f = fopen(from, "rb");
    assert_non_null(f);
    fseek(f, 0, SEEK_END);
    const long n = ftell(f);
    rewind(f);
    bytes = malloc((size_t)n);
    assert_true(fread(bytes, 1, (size_t)n, f) == (size_t)n);
    fclose(f);
    int64_t n_read = 0;
    for (long at = 0; at < 2 * n; at++) {
        ig_scope *scope = ig_scope_begin(ctx);
        f = fopen(path, "wb");
        assert_non_null(f);
        if (at < n)
            bytes[at] ^= 0x41;
        fwrite(bytes, 1, (size_t)(at < n ? n : at - n), f);
        if (at < n)
            bytes[at] ^= 0x41;
        fclose(f);
        ig_npz *npz;
        if (ig_npz_open(&npz, ctx, path, &error) == IG_OK)
            for (int64_t i = 0; i < ig_npz_count(npz); i++) {
                ig_tensor *x = ig_npz_read(npz, ig_npz_name(npz, i), &error);
                /* 0 .. 5 in the one order or the other, if at all */
                if (x && ig_tensor_dtype(x) == IG_DTYPE_F32 && ig_tensor_n_dims(x) == 2)
                    assert_true(ig_tensor_item(ig_sum(x, 0, NULL, false)) == 15);
                n_read += x != NULL;
            }
        ig_npz_close(npz);
        assert_int_equal(ig_context_status(ctx), IG_OK);
        ig_scope_end(scope);
    }
    assert_true(n_read > 10); /* names, times and versions do not matter */
    free(bytes);
}

static void test_damage(void **state)
{
    (void)state;
    damage("two");
    damage("comment");
}

/* Fail each allocation in turn, zlib's among them. */
static void test_faults(void **state)
{
    (void)state;
    for (int64_t nth = 1;; nth++) {
        fault_allocator fault = {.fail_nth = nth};
        const ig_allocator a = fault_allocator_of(&fault);
        const ig_context_opts opts = {.n_threads = 1, .allocator = &a};
        ig_context *c;
        ig_npz *npz = NULL;
        ig_status status = ig_context_create(&c, &opts, &error);
        if (status == IG_OK) {
            ig_tensor *x =
                ig_tensor_from(c, IG_DTYPE_F32, IG_SHAPE(2), (const float[]){1, 2});
            const ig_named_tensor all[2] = {{"a", x}, {"b", x}};
            status = x ? ig_npz_save(path, all, 2, true, &error) : ig_context_status(c);
        }
        if (status == IG_OK)
            status = ig_npz_open(&npz, c, path, &error);
        if (status == IG_OK && !ig_npz_read(npz, "b", &error))
            status = error.status;
        ig_npz_close(npz);
        ig_context_destroy(c);
        assert_int_equal(fault.n_alive, 0);
        if (fault.n_calls < nth) {
            assert_int_equal(status, IG_OK);
            assert_true(nth > 20);
            break;
        }
        assert_int_equal(status, IG_ERR_MEMORY);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip), cmocka_unit_test(test_many),
        cmocka_unit_test(test_seeds),      cmocka_unit_test(test_refused),
        cmocka_unit_test(test_bomb),       cmocka_unit_test(test_damage),
        cmocka_unit_test(test_faults),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
