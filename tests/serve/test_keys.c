#include "serve/keys.h"

#include "infer/fault_allocator.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static char path[] = "/tmp/ingot-keys-XXXXXX";

static void write_file(const char *text, size_t n)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static bool holds(const ig__keys *keys, const char *given)
{
    return ig__keys_hold(keys, given, strlen(given));
}

static void lines(void **state)
{
    (void)state;
    ig_allocator a = ig__allocator_default();
    ig__keys keys;
    ig_error err;
    static const char text[] = "# comment\n\nalpha\r\nbeta \t\n\ngamma";
    write_file(text, sizeof text - 1);
    assert_int_equal(ig__keys_read(&keys, &a, path, false, &err), IG_OK);
    assert_int_equal(keys.n, 3);
    assert_true(holds(&keys, "alpha") && holds(&keys, "beta") && holds(&keys, "gamma"));
    const char *others[] = {"",     "alph",  "alphaa",  "alphaalpha", "beta ",
                            "gamm", "Alpha", "alpha\r", "# comment",  "alphabeta"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_false(holds(&keys, others[i]));
    ig__keys_fini(&keys);
    assert_false(holds(&keys, "alpha"));
}

static void refused(const char *text, size_t n, ig_status status)
{
    ig_allocator a = ig__allocator_default();
    ig__keys keys;
    ig_error err;
    write_file(text, n);
    assert_int_equal(ig__keys_read(&keys, &a, path, false, &err), status);
    assert_non_null(strstr(err.message, path));
    assert_int_equal(keys.n, 0);
    ig__keys_fini(&keys); /* harmless */
}

static void wrong_files(void **state)
{
    (void)state;
    refused("", 0, IG_ERR_FORMAT);
    refused("# only\n\n", 8, IG_ERR_FORMAT);
    refused("a b\n", 4, IG_ERR_FORMAT);
    refused("a\0b\n", 4, IG_ERR_FORMAT);
    char large[400];
    memset(large, 'k', sizeof large);
    refused(large, IG_KEY_MAX_BYTES + 1, IG_ERR_LIMIT);
    char many[2 * (IG_KEYS_MAX + 1)];
    for (int i = 0; i <= IG_KEYS_MAX; i++)
        memcpy(many + 2 * i, "k\n", 2);
    refused(many, sizeof many, IG_ERR_LIMIT);
    ig_allocator a = ig__allocator_default();
    ig__keys keys;
    ig_error err;
    assert_int_equal(ig__keys_read(&keys, &a, "/no/such/file", true, &err), IG_ERR_IO);
}

static void faults(void **state)
{
    (void)state;
    write_file("alpha\n", 6);
    for (int64_t nth = 1;; nth++) {
        fault_allocator f = {.fail_nth = nth};
        const ig_allocator a = fault_allocator_of(&f);
        ig__keys keys;
        ig_error err;
        const ig_status status = ig__keys_read(&keys, &a, path, false, &err);
        assert_int_equal(status, f.n_calls < nth ? IG_OK : IG_ERR_MEMORY);
        ig__keys_fini(&keys);
        assert_int_equal(f.n_alive, 0);
        if (f.n_calls < nth)
            break;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines), cmocka_unit_test(wrong_files), cmocka_unit_test(faults)};
    const int fd = mkstemp(path);
    if (fd < 0)
        return 1;
    close(fd);
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    return failed;
}
