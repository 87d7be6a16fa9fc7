/* When memory or the file fails under the reader: each allocation, each read, and a file
 * that changes between the two passes. The test stands in for pread.
 */
#include "format_fixture.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

static counting_allocator counted;
static gguf_writer w;
static small_marks m;
static int descriptor;

static struct {
    int64_t n_reads; /* so far */
    int64_t fail_at; /* this read (from 1) fails with fail_errno; 0: none */
    int fail_errno;  /* 0: the read finds the end of the file */
    size_t most;     /* bytes a read gives at most; 0: any */
    size_t change;   /* byte of the file that reads from the second on see ... */
    int change_to;   /* ... as this; -1: none */
} plan;

ssize_t __wrap_pread(int fd, void *dst, size_t bytes, off_t offset);
ssize_t __real_pread(int fd, void *dst, size_t bytes, off_t offset);

ssize_t __wrap_pread(int fd, void *dst, size_t bytes, off_t offset)
{
    if (++plan.n_reads == plan.fail_at) {
        errno = plan.fail_errno;
        return plan.fail_errno ? -1 : 0;
    }
    if (plan.most && bytes > plan.most)
        bytes = plan.most;
    const ssize_t n = __real_pread(fd, dst, bytes, offset);
    const int64_t at = (int64_t)plan.change - offset;
    if (plan.change_to >= 0 && plan.n_reads >= 2 && at >= 0 && at < n)
        ((unsigned char *)dst)[at] = (unsigned char)plan.change_to;
    return n;
}

static int set_up(void **state)
{
    (void)state;
    counting_allocator_init(&counted);
    memset(&plan, 0, sizeof plan);
    plan.change_to = -1;
    small_file(&w, &m);
    descriptor = next_descriptor();
    gguf_save(&w);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    gguf_writer_fini(&w);
    assert_int_equal(next_descriptor(), descriptor);
    assert_int_equal(counted.n_live, 0);
    return 0;
}

static ig_status try_open(ig__gguf **gguf_out, ig_error *err)
{
    plan.n_reads = 0;
    return ig__gguf_open(gguf_out, &counted.allocator, w.path, err);
}

static void every_allocation_fails(void **state)
{
    (void)state;
    for (int64_t nth = 1;; nth++) {
        ig__gguf *gguf = (ig__gguf *)&w;
        ig_error err = {0};
        counted.fail_at = nth;
        const ig_status status = try_open(&gguf, &err);
        if (status == IG_OK) {
            assert_true(nth > 7); /* file, path, window and tables */
            use_everything(gguf);
            ig__gguf_close(gguf);
            return;
        }
        assert_int_equal(status, IG_ERR_MEMORY);
        assert_null(gguf);
        assert_true(is_one_line(&err, w.path));
        assert_int_equal(counted.n_live, 0);
    }
}

static void every_read_fails(void **state)
{
    (void)state;
    static const struct {
        int code;
        const char *words;
    } rows[] = {{EIO, "Input/output error"}, {0, "found 0: the file has shrunk"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        plan.fail_errno = rows[i].code;
        for (plan.fail_at = 1;; plan.fail_at++) {
            ig__gguf *gguf;
            ig_error err = {0};
            const ig_status status = try_open(&gguf, &err);
            if (status == IG_OK) {
                assert_int_equal(plan.fail_at, 3);
                ig__gguf_close(gguf);
                break;
            }
            assert_int_equal(status, IG_ERR_IO);
            assert_null(gguf);
            assert_true(is_one_line(&err, w.path));
            assert_non_null(strstr(err.message, ": byte 0: "));
            assert_non_null(strstr(err.message, rows[i].words));
        }
    }
}

static void interrupted_and_short_reads(void **state)
{
    (void)state;
    ig__gguf *gguf;
    plan.fail_errno = EINTR;
    for (plan.fail_at = 1; plan.fail_at <= 4; plan.fail_at++) {
        assert_int_equal(try_open(&gguf, NULL), IG_OK);
        ig__gguf_close(gguf);
    }
    plan.most = 1;
    assert_int_equal(try_open(&gguf, NULL), IG_OK);
    unsigned char bytes[80];
    assert_int_equal(ig__gguf_read(gguf, m.data + 64, bytes, 80, NULL), IG_OK);
    assert_memory_equal(bytes, w.bytes + m.data + 64, 80);
    /* the end of the file in the middle of a read */
    ig_error err = {0};
    plan.n_reads = 0;
    plan.fail_errno = 0;
    plan.fail_at = 6;
    assert_int_equal(ig__gguf_read(gguf, m.data + 64, bytes, 80, &err), IG_ERR_IO);
    assert_non_null(
        strstr(err.message, "wanted are 80 bytes, found 5: the file has shrunk"));
    assert_non_null(strstr(err.message, w.path));
    plan.n_reads = 0;
    plan.fail_errno = EIO;
    assert_int_equal(ig__gguf_read(gguf, m.data + 64, bytes, 80, &err), IG_ERR_IO);
    assert_non_null(strstr(err.message, "cannot read 75 bytes: Input/output error"));
    ig__gguf_close(gguf);
}

/* A file that another program shortens or removes after it was opened. */
static void file_that_shrinks(void **state)
{
    (void)state;
    ig__gguf *gguf;
    ig_error err = {0};
    unsigned char bytes[80];
    assert_int_equal(try_open(&gguf, NULL), IG_OK);
    assert_int_equal(truncate(w.path, (off_t)m.data + 100), 0);
    assert_int_equal(ig__gguf_read(gguf, m.data + 64, bytes, 80, &err), IG_ERR_IO);
    assert_non_null(
        strstr(err.message, "wanted are 80 bytes, found 36: the file has shrunk"));
    ig__gguf_close(gguf);
}

/* The second pass trusts nothing that the first has seen. */
static void file_that_changes_between_passes(void **state)
{
    (void)state;
    int64_t n_changed = 0;
    for (plan.change = 0; plan.change < m.data; plan.change++) {
        const int old = w.bytes[plan.change];
        const int values[] = {0,
                              1,
                              255,
                              old ^ 1,
                              old ^ 2,
                              old ^ 4,
                              old ^ 8,
                              old ^ 16,
                              old ^ 32,
                              old ^ 64,
                              old ^ 128,
                              (old + 1) & 255,
                              (old - 1) & 255};
        for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
            ig__gguf *gguf;
            ig_error err = {0};
            plan.change_to = values[i];
            if (try_open(&gguf, &err) == IG_OK) {
                use_everything(gguf);
                ig__gguf_close(gguf);
            } else {
                assert_true(is_one_line(&err, w.path));
                n_changed += strstr(err.message, "changed while it was read") != NULL;
            }
            assert_int_equal(counted.n_live, 0);
        }
    }
    assert_true(n_changed > 100);
}

static void assert_changed(size_t at, int value)
{
    ig__gguf *gguf;
    ig_error err = {0};
    plan.change = at;
    plan.change_to = value;
    assert_int_equal(try_open(&gguf, &err), IG_ERR_IO);
    assert_non_null(strstr(err.message, "the file changed while it was read"));
}

/* Changes that are well-formed in themselves, and would move the data or leave a rest. */
static void well_formed_changes(void **state)
{
    (void)state;
    assert_true(w.bytes[m.data - 9] == 0 && m.data % 64 == 0);
    assert_changed(m.alignment, 8); /* the data would begin earlier */
    gguf_writer_fini(&w);
    gguf_writer_init(&w);
    const size_t at = gguf_key_string(&w, "last", "nine more");
    gguf_save(&w);
    assert_changed(at, 5);  /* 4 bytes of the metadata would be left */
    assert_changed(at, 10); /* one byte is wanted more than the first pass has read */
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(every_allocation_fails),           TEST(every_read_fails),
        TEST(interrupted_and_short_reads),      TEST(file_that_shrinks),
        TEST(file_that_changes_between_passes), TEST(well_formed_changes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
