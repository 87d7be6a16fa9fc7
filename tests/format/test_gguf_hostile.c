/* Files that were made wrong: each field at its limits, each byte, each length.
 *
 * Every refusal must be one line that names the file, must leave nothing allocated, and may
 * not have cost more memory than the reader's window.
 */
#include "format_fixture.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

enum { MOST_BYTES = 512 << 10 }; /* of memory for a file that is refused early */

static counting_allocator counted;
static gguf_writer w;
static small_marks m;
static int descriptor;

static int set_up(void **state)
{
    (void)state;
    counting_allocator_init(&counted);
    small_file(&w, &m);
    descriptor = next_descriptor();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    gguf_writer_fini(&w);
    assert_int_equal(next_descriptor(), descriptor);
    return 0;
}

/* The file must be refused, cheaply, with `words` behind its path. */
static void assert_path_refused(const char *path, ig_status status, const char *words)
{
    ig__gguf *gguf = (ig__gguf *)&w;
    ig_error err = {0};
    const clock_t begin = clock();
    const ig_status found = ig__gguf_open(&gguf, &counted.allocator, path, &err);
    const double seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;
    assert_null(gguf);
    assert_true(is_one_line(&err, path));
    assert_string_equal(err.message + strlen(path) + 2, words);
    assert_int_equal(found, status);
    assert_int_equal(err.status, status);
    assert_int_equal(counted.n_live, 0);
    assert_true(counted.peak_bytes <= MOST_BYTES);
    assert_true(seconds < 0.2);
}

static void assert_refused(ig_status status, const char *words)
{
    assert_path_refused(gguf_save(&w), status, words);
}

/* A new file of a bare header with these counts. */
static void header(uint64_t n_tensors, uint64_t n_keys)
{
    gguf_writer_fini(&w);
    gguf_writer_init(&w);
    gguf_patch_u64(&w, 8, n_tensors);
    gguf_patch_u64(&w, 16, n_keys);
}

static void headers(void **state)
{
    (void)state;
    w.n = 0;
    assert_refused(IG_ERR_FORMAT, "byte 0: the file is empty, wanted 'GGUF'");
    gguf_bytes(&w, "GGU", 3);
    assert_refused(IG_ERR_FORMAT,
                   "byte 0: header: magic takes 4 bytes, 3 are left in the file");
    gguf_bytes(&w, "F", 1);
    assert_refused(IG_ERR_FORMAT,
                   "byte 4: header: version takes 4 bytes, 0 are left in the file");
    header(0, 0);
    gguf_patch(&w, 0, "GGJT", 4);
    assert_refused(IG_ERR_FORMAT, "byte 0: magic is 'GGJT' (47 47 4a 54), wanted 'GGUF'");
    gguf_patch(&w, 0, "\n\x1b\xff\0", 4);
    assert_refused(IG_ERR_FORMAT,
                   "byte 0: magic is '\?\?\?\?' (0a 1b ff 00), wanted 'GGUF'");
    header(0, 0);
    static const struct {
        uint32_t version;
        const char *words;
    } rows[] = {
        {0, "byte 4: version is 0, read are 2 and 3 (little endian)"},
        {1, "byte 4: version is 1, read are 2 and 3 (little endian)"},
        {4, "byte 4: version is 4, read are 2 and 3 (little endian)"},
        {UINT32_MAX, "byte 4: version is 4294967295, read are 2 and 3 (little endian)"},
        {0x03000000, "byte 4: version is 50331648 (a big-endian file), read are 2 and 3 "
                     "(little endian)"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        gguf_patch_u32(&w, 4, rows[i].version);
        assert_refused(IG_ERR_UNSUPPORTED, rows[i].words);
    }
    header((uint64_t)1 << 63, 0);
    assert_refused(IG_ERR_FORMAT, "byte 8: header: tensor count is 9223372036854775808, "
                                  "the 8 bytes left in the file hold at most 0");
    header(0, UINT64_MAX);
    assert_refused(IG_ERR_FORMAT, "byte 16: header: key count is 18446744073709551615, "
                                  "the 0 bytes left in the file hold at most 0");
    header(0, 1);
    assert_refused(IG_ERR_FORMAT, "byte 16: header: key count is 1, the 0 bytes left in "
                                  "the file hold at most 0");
}

static void names(void **state)
{
    (void)state;
    header(0, 1);
    gguf_u64(&w, (uint64_t)1 << 63);
    gguf_zeros(&w, 40);
    assert_refused(IG_ERR_FORMAT, "byte 24: key 0: name length is 9223372036854775808, "
                                  "allowed is 1 to 65535");
    gguf_patch_u64(&w, 24, 0);
    assert_refused(IG_ERR_FORMAT,
                   "byte 24: key 0: name length is 0, allowed is 1 to 65535");
    gguf_patch_u64(&w, 24, 65535);
    assert_refused(IG_ERR_FORMAT, "byte 32: key 0: name takes 65535 bytes, 8 are left in "
                                  "the file");
    gguf_patch_u64(&w, 24, 65536);
    assert_refused(IG_ERR_FORMAT,
                   "byte 24: key 0: name length is 65536, allowed is 1 to 65535");
    header(0, 0);
    gguf_key_u32(&w, "a\nb", 0);
    assert_refused(IG_ERR_FORMAT, "byte 33: key 0: byte 1 of the name is 0x0a, allowed is "
                                  "0x20 to 0x7e");
    gguf_patch(&w, 33, "\xff", 1);
    assert_refused(IG_ERR_FORMAT, "byte 33: key 0: byte 1 of the name is 0xff, allowed is "
                                  "0x20 to 0x7e");
    gguf_patch(&w, 33, "\x7f", 1);
    assert_refused(IG_ERR_FORMAT, "byte 33: key 0: byte 1 of the name is 0x7f, allowed is "
                                  "0x20 to 0x7e");
    gguf_patch(&w, 33, "\0", 1);
    assert_refused(IG_ERR_FORMAT, "byte 33: key 0: byte 1 of the name is 0x00, allowed is "
                                  "0x20 to 0x7e");
    header(0, 0);
    gguf_key_u32(&w, "same", 1);
    gguf_key_u32(&w, "other", 1);
    gguf_key_u32(&w, "same", 1);
    assert_refused(IG_ERR_FORMAT,
                   "byte 65: key name 'same' stands twice, first at byte 24");
    header(0, 0);
    char name[257];
    memset(name, 'n', 256);
    name[256] = 0;
    gguf_tensor(&w, name, 1, (const uint64_t[]){1}, 0, 0);
    assert_refused(IG_ERR_FORMAT,
                   "byte 24: tensor 0: name length is 256, allowed is 1 to 255");
}

static void values(void **state)
{
    (void)state;
    header(0, 1);
    gguf_string(&w, "k");
    gguf_u32(&w, 13);
    gguf_u8(&w, 0);
    assert_refused(IG_ERR_FORMAT, "byte 33: key 'k': value type is 13, allowed is 0 to 12");
    gguf_patch_u32(&w, 33, UINT32_MAX);
    assert_refused(IG_ERR_FORMAT,
                   "byte 33: key 'k': value type is 4294967295, allowed is 0 to 12");
    gguf_patch_u32(&w, 33, IG__GGUF_BOOL);
    gguf_patch(&w, 37, "\2", 1);
    assert_refused(IG_ERR_FORMAT, "byte 37: key 'k': bool is 2, allowed is 0 or 1");
    gguf_patch_u32(&w, 33, IG__GGUF_U32);
    assert_refused(IG_ERR_FORMAT,
                   "byte 37: key 'k': value takes 4 bytes, 1 are left in the file");
    /* a string that says it has 2^64 - 1 bytes */
    header(0, 0);
    gguf_key(&w, "k", IG__GGUF_STRING);
    gguf_u64(&w, UINT64_MAX);
    assert_refused(IG_ERR_FORMAT, "byte 45: key 'k': string takes 18446744073709551615 "
                                  "bytes, 0 are left in the file");
    gguf_patch_u64(&w, 37, 1);
    assert_refused(IG_ERR_FORMAT,
                   "byte 45: key 'k': string takes 1 bytes, 0 are left in the file");
}

static void arrays(void **state)
{
    (void)state;
    header(0, 0);
    gguf_key_array(&w, "k", IG__GGUF_U8, (uint64_t)1 << 63);
    assert_refused(IG_ERR_FORMAT, "byte 41: key 'k': array count is 9223372036854775808, "
                                  "the 0 bytes left in the file hold at most 0");
    /* counts whose product with the element's size wraps around to something small */
    gguf_patch_u32(&w, 37, IG__GGUF_U64);
    gguf_patch_u64(&w, 41, ((uint64_t)1 << 61) + 1);
    gguf_u64(&w, 0);
    assert_refused(IG_ERR_FORMAT, "byte 41: key 'k': array count is 2305843009213693953, "
                                  "the 8 bytes left in the file hold at most 1");
    gguf_patch_u32(&w, 37, IG__GGUF_STRING);
    assert_refused(IG_ERR_FORMAT, "byte 41: key 'k': array count is 2305843009213693953, "
                                  "the 8 bytes left in the file hold at most 1");
    gguf_patch_u64(&w, 41, 1);
    gguf_patch_u64(&w, 49, UINT64_MAX);
    assert_refused(IG_ERR_FORMAT, "byte 57: key 'k': string takes 18446744073709551615 "
                                  "bytes, 0 are left in the file");
    gguf_patch_u32(&w, 37, 13);
    assert_refused(IG_ERR_FORMAT,
                   "byte 37: key 'k': element type is 13, allowed is 0 to 12");
    gguf_patch_u32(&w, 37, IG__GGUF_BOOL);
    gguf_patch_u64(&w, 41, 8);
    gguf_patch(&w, 49, "\1\0\1\0\1\0\3\0", 8);
    assert_refused(IG_ERR_FORMAT, "byte 55: key 'k': bool is 3, allowed is 0 or 1");
    /* an array of arrays of arrays ... */
    header(0, 0);
    gguf_key_array(&w, "k", IG__GGUF_ARRAY, 1);
    for (int i = 0; i < 1000; i++) {
        gguf_u32(&w, IG__GGUF_ARRAY);
        gguf_u64(&w, 1);
    }
    assert_refused(IG_ERR_UNSUPPORTED,
                   "byte 37: key 'k': element type is 9 (array), arrays "
                   "of arrays are not read");
}

static void alignments(void **state)
{
    (void)state;
    static const uint32_t bad[] = {0, 1, 3, 4, 33, 131072, UINT32_MAX};
    char words[200];
    header(0, 0);
    const size_t at = gguf_key_u32(&w, "general.alignment", 0);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        gguf_patch_u32(&w, at, bad[i]);
        snprintf(words, sizeof words,
                 "byte 53: key 'general.alignment': value is %u, allowed is a power of two "
                 "from 8 to 65536",
                 bad[i]);
        assert_refused(IG_ERR_FORMAT, words);
    }
    header(0, 0);
    gguf_key_string(&w, "general.alignment", "32");
    assert_refused(IG_ERR_FORMAT, "byte 49: key 'general.alignment': value type is 8, "
                                  "wanted 4 (u32)");
    header(0, 0);
    gguf_key(&w, "general.alignment", IG__GGUF_U64);
    gguf_u64(&w, 32);
    assert_refused(IG_ERR_FORMAT, "byte 49: key 'general.alignment': value type is 10, "
                                  "wanted 4 (u32)");
    /* a name that only begins like it is another key */
    header(0, 0);
    gguf_key_u32(&w, "general.alignments", 3);
    ig__gguf *g;
    assert_int_equal(ig__gguf_open(&g, &counted.allocator, gguf_save(&w), NULL), IG_OK);
    ig__gguf_close(g);
}

/* Patches one field of tensor "block" and expects these words behind its byte. */
static void refuse_block(size_t field, size_t n, uint64_t value, const char *words)
{
    char whole[400];
    /* name "block" is 8 + 5 bytes; n_dims 13, dims 17 and 25, type 33, offset 37 */
    const size_t at = m.block + field;
    uint64_t old = 0;
    memcpy(&old, w.bytes + at, n);
    gguf_patch(&w, at, &value, n);
    snprintf(whole, sizeof whole, "byte %zu: tensor 'block': %s", at, words);
    assert_refused(IG_ERR_FORMAT, whole);
    gguf_patch(&w, at, &old, n);
}

static void tensors(void **state)
{
    (void)state;
    enum { N_DIMS = 13, DIM_0 = 17, DIM_1 = 25, TYPE = 33, OFFSET = 37 };
    refuse_block(N_DIMS, 4, 0, "dimension count is 0, allowed is 1 to 4");
    refuse_block(N_DIMS, 4, 5, "dimension count is 5, allowed is 1 to 4");
    refuse_block(N_DIMS, 4, UINT32_MAX, "dimension count is 4294967295, allowed is 1 to 4");
    refuse_block(DIM_0, 8, 0, "dimension 0 is 0, allowed is 1 to 9223372036854775807");
    refuse_block(DIM_1, 8, UINT64_MAX,
                 "dimension 1 is 18446744073709551615, allowed is 1 to 144115188075855871 "
                 "behind those before it");
    refuse_block(DIM_1, 8, (uint64_t)1 << 57, /* 64 * 2^57 = 2^63 */
                 "dimension 1 is 144115188075855872, allowed is 1 to 144115188075855871 "
                 "behind those before it");
    refuse_block(OFFSET, 8, 65, "offset is 65, wanted is a multiple of 64");
    refuse_block(OFFSET, 8, 128,
                 "offset is 128 and its end 208, the data in the file have 193 bytes");
    refuse_block(
        OFFSET, 8, UINT64_MAX - 63,
        "offset is 18446744073709551552 and its end 18446744073709551615, the data "
        "in the file have 193 bytes");
    gguf_patch_u64(&w, m.block + DIM_0, 33);
    char words[300];
    snprintf(words, sizeof words,
             "byte %zu: tensor 'block': type is q4_1, whose rows are multiples of 32; "
             "dimension 0 is 33",
             m.block + TYPE);
    assert_refused(IG_ERR_FORMAT, words);
    gguf_patch_u64(&w, m.block + DIM_0, (uint64_t)1 << 61); /* 2^62 elements of 4 bytes */
    gguf_patch_u32(&w, m.block + TYPE, 0);
    snprintf(words, sizeof words,
             "byte %zu: tensor 'block': 4611686018427387904 elements of type f32 pass "
             "18446744073709551615 bytes",
             m.block + TYPE);
    assert_refused(IG_ERR_FORMAT, words);
}

static void tensors_against_each_other(void **state)
{
    (void)state;
    char words[300];
    enum {
        NAME = 8,
        DIM_1_OF_BLOCK = 25,
        OFFSET_OF_BLOCK = 37,
        OFFSET_OF_LATER = 29,
        OFFSET_OF_FIRST = 29
    };
    gguf_patch_u64(&w, m.block + DIM_1_OF_BLOCK, 1); /* half of its bytes are nobody's */
    snprintf(words, sizeof words,
             "byte %zu: tensor 'block': 40 bytes up to offset 104, but the next tensor, "
             "'later', begins at 192",
             m.block);
    assert_refused(IG_ERR_FORMAT, words);
    gguf_patch_u64(&w, m.block + DIM_1_OF_BLOCK, 2);
    gguf_patch_u64(&w, m.block + OFFSET_OF_BLOCK, 128); /* a hole behind `first` */
    gguf_patch_u64(&w, m.later + OFFSET_OF_LATER, 256);
    gguf_zeros(&w, 268);
    snprintf(words, sizeof words,
             "byte %zu: tensor 'first': 12 bytes up to offset 12, but the next tensor, "
             "'block', begins at 128",
             m.first);
    assert_refused(IG_ERR_FORMAT, words);
    gguf_patch_u64(&w, m.later + OFFSET_OF_LATER, 192);
    gguf_patch_u64(&w, m.block + OFFSET_OF_BLOCK, 64);
    gguf_patch_u64(&w, m.first + OFFSET_OF_FIRST, 256); /* nothing at the start */
    snprintf(words, sizeof words,
             "byte %zu: tensor 'block': offset is 64, the first of the data is wanted at 0",
             m.block);
    assert_refused(IG_ERR_FORMAT, words);
    gguf_patch_u64(&w, m.first + OFFSET_OF_FIRST, 0);
    w.n = m.data + 193;
    gguf_patch_u64(&w, m.block + OFFSET_OF_BLOCK, 0);
    snprintf(
        words, sizeof words,
        "byte %zu: tensor 'block' begins here, inside tensor 'first' of bytes %zu to %zu",
        m.data, m.data, m.data + 12);
    assert_refused(IG_ERR_FORMAT, words);
    gguf_patch_u64(&w, m.block + OFFSET_OF_BLOCK, 64);
    gguf_patch_u64(&w, m.later + OFFSET_OF_LATER, 128); /* block ends at 144 */
    snprintf(
        words, sizeof words,
        "byte %zu: tensor 'later' begins here, inside tensor 'block' of bytes %zu to %zu",
        m.data + 128, m.data + 64, m.data + 144);
    assert_refused(IG_ERR_FORMAT, words);
    gguf_patch_u64(&w, m.later + OFFSET_OF_LATER, 64); /* of unknown size, at its start */
    snprintf(
        words, sizeof words,
        "byte %zu: tensor 'block' begins here, inside tensor 'later' of bytes %zu to %zu",
        m.data + 64, m.data + 64, m.data + 64);
    assert_refused(IG_ERR_FORMAT, words);
    gguf_patch_u64(&w, m.later + OFFSET_OF_LATER, 256); /* of unknown size, past the end */
    snprintf(
        words, sizeof words,
        "byte %zu: tensor 'later': offset is 256 and its end 257, the data in the file "
        "have 193 bytes",
        m.later + OFFSET_OF_LATER);
    assert_refused(IG_ERR_FORMAT, words);
    gguf_patch_u64(&w, m.later + OFFSET_OF_LATER, 192);
    gguf_patch(&w, m.later + NAME, "first", 5);
    snprintf(words, sizeof words,
             "byte %zu: tensor name 'first' stands twice, first at byte %zu", m.later,
             m.first);
    assert_refused(IG_ERR_FORMAT, words);
    /* tensors, and no data at all */
    w.n = m.data;
    snprintf(
        words, sizeof words,
        "byte %zu: tensor 'first': offset is 192 and its end 193, the data in the file "
        "have 0 bytes",
        m.later + OFFSET_OF_LATER);
    assert_refused(IG_ERR_FORMAT, words);
}

/* ---- counts that the file can pay for, with holes --------------------------------- */

/* Lengthen the saved file by a hole. */
static void stretch(uint64_t n_bytes)
{
    assert_int_equal(truncate(gguf_save(&w), (off_t)n_bytes), 0);
}

static void sparse_files(void **state)
{
    (void)state;
    const uint64_t tera = (uint64_t)1 << 40;
    header(0, (uint64_t)1 << 30);
    stretch(tera);
    assert_path_refused(w.path, IG_ERR_LIMIT,
                        "byte 16: header: key count is 1073741824, limit is 65536");
    header((uint64_t)1 << 30, 0);
    stretch(tera);
    assert_path_refused(w.path, IG_ERR_LIMIT,
                        "byte 8: header: tensor count is 1073741824, limit is 131072");
    header(0, 0);
    gguf_key_array(&w, "k", IG__GGUF_U8, tera / 2);
    stretch(tera);
    assert_path_refused(w.path, IG_ERR_LIMIT,
                        "byte 41: key 'k': array count is 549755813888, limit is 67108864");
    header(0, 0);
    gguf_key_array(&w, "k", IG__GGUF_F64, 8388608); /* 64 MiB: the header is too much */
    stretch(tera);
    assert_path_refused(w.path, IG_ERR_LIMIT,
                        "byte 49: key 'k': array count takes 67108864 bytes: metadata may "
                        "end at byte 67108864 at most");
    header(0, 0);
    gguf_key(&w, "k", IG__GGUF_STRING);
    gguf_u64(&w, tera / 2);
    stretch(tera);
    assert_path_refused(w.path, IG_ERR_LIMIT,
                        "byte 45: key 'k': string takes 549755813888 bytes: metadata may "
                        "end at byte 67108864 at most");
    header(0, 0);
    gguf_key_array(&w, "k", IG__GGUF_STRING, (uint64_t)1 << 22);
    stretch(tera);
    assert_path_refused(w.path, IG_ERR_LIMIT,
                        "byte 41: key 'k': array count is 4194304, limit is 2097152");
    /* the ceiling is for all arrays together */
    header(0, 0);
    gguf_key_array(&w, "a", IG__GGUF_STRING, 1);
    gguf_string(&w, "");
    gguf_key_array(&w, "b", IG__GGUF_STRING, (uint64_t)1 << 21);
    stretch(tera);
    assert_path_refused(w.path, IG_ERR_LIMIT,
                        "byte 74: key 'b': array count is 2097152, limit is 2097151");
}

/* Two million empty strings, and then something wrong: read in the window, never kept. */
static void late_mistake(void **state)
{
    (void)state;
    header(0, 0);
    gguf_key_array(&w, "k", IG__GGUF_STRING, 2000000);
    gguf_patch_u64(&w, 16, 2);
    stretch((uint64_t)1 << 30);
    assert_path_refused(w.path, IG_ERR_FORMAT,
                        "byte 16000049: key 1: name length is 0, allowed is 1 to 65535");
}

/* ---- every byte, every length ----------------------------------------------------- */

static void write_at(int fd, size_t at, unsigned char byte)
{
    assert_int_equal(pwrite(fd, &byte, 1, (off_t)at), 1);
}

/* Opened or refused in one line; what opens can be used in full. */
static bool survives(const char *path)
{
    ig__gguf *gguf;
    ig_error err = {0};
    const ig_status status = ig__gguf_open(&gguf, &counted.allocator, path, &err);
    if (status == IG_OK) {
        use_everything(gguf);
        ig__gguf_close(gguf);
    } else {
        assert_null(gguf);
        assert_true(is_one_line(&err, path));
        assert_true(strstr(err.message, ": byte ") != NULL);
    }
    assert_int_equal(counted.n_live, 0);
    assert_true(counted.peak_bytes <= MOST_BYTES);
    return status == IG_OK;
}

static void every_byte(void **state)
{
    (void)state;
    const char *path = gguf_save(&w);
    const int fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    int64_t n_refused = 0;
    for (size_t at = 0; at < m.data; at++) {
        for (int bit = 0; bit < 8; bit++) {
            write_at(fd, at, (unsigned char)(w.bytes[at] ^ (1u << bit)));
            n_refused += !survives(path);
        }
        write_at(fd, at, 0);
        n_refused += !survives(path);
        write_at(fd, at, 0xff);
        n_refused += !survives(path);
        write_at(fd, at, w.bytes[at]);
    }
    assert_true(survives(path));
    assert_true(n_refused > (int64_t)m.data); /* the walk met the checks */
    close(fd);
}

static void every_length(void **state)
{
    (void)state;
    for (size_t n = w.n; n-- > 0;) {
        assert_int_equal(truncate(gguf_save(&w), (off_t)n), 0);
        assert_false(survives(w.path));
    }
}

/* ---- what is no file at all ------------------------------------------------------- */

static void not_a_regular_file(void **state)
{
    (void)state;
    assert_path_refused("/tmp", IG_ERR_IO, "is a directory, wanted a regular file");
    assert_path_refused("/dev/null", IG_ERR_IO, "is a device, wanted a regular file");
    assert_path_refused("/nowhere/at/all", IG_ERR_IO,
                        "cannot open: No such file or directory");
    char pipe_path[300];
    snprintf(pipe_path, sizeof pipe_path, "%s.pipe", gguf_save(&w));
    assert_int_equal(mkfifo(pipe_path, 0600), 0);
    assert_path_refused(pipe_path, IG_ERR_IO, "is a pipe, wanted a regular file");
    unlink(pipe_path);
}

/* A long path is cut from the left, before a whole character. */
static void long_paths(void **state)
{
    (void)state;
    char path[602];
    ig__gguf *gguf;
    ig_error err;
    memset(path, 'd', sizeof path);
    path[sizeof path - 1] = 0;
    memcpy(path + 400, "\xe2\x82\xac", 3); /* the cut falls inside it */
    assert_int_equal(ig__gguf_open(&gguf, &counted.allocator, path, &err), IG_ERR_IO);
    assert_int_equal(err.message[0], 'd');
    assert_int_equal(strspn(err.message, "d"), 198);
    assert_true(strstr(err.message, ": cannot open: File name too long") != NULL);
    assert_int_equal(counted.n_live, 0);
}

/* ---- a real model, patched -------------------------------------------------------- */

enum { REAL_META = 1785664 }; /* where the data of SmolLM2 135M, Q4_1, begins */

/* The metadata of the real model and a hole for its weights; false: there is no model. */
static bool real_model(void)
{
    const char *folder = getenv("INGOT_TEST_MODEL_DIR");
    char path[400];
    snprintf(path, sizeof path, "%s/SmolLM2-135M-Instruct.Q4_1.gguf",
             folder ? folder : IG_SHARED_DATA);
    FILE *f = fopen(path, "rb");
    if (!f) {
        print_message("skipped: no %s\n", path);
        return false;
    }
    gguf_writer_fini(&w);
    gguf_writer_init(&w);
    w.n = 0;
    while (w.n < REAL_META)
        gguf_u8(&w, (uint8_t)fgetc(f));
    fclose(f);
    return true;
}

static void refuse_real(size_t at, size_t n, uint64_t value, ig_status status,
                        const char *words)
{
    uint64_t old = 0;
    memcpy(&old, w.bytes + at, n);
    gguf_patch(&w, at, &value, n);
    stretch(98362432);
    gguf_patch(&w, at, &old, n);
    ig__gguf *gguf;
    ig_error err = {0};
    assert_int_equal(ig__gguf_open(&gguf, &counted.allocator, w.path, &err), status);
    if (status == IG_OK) {
        use_everything(gguf);
        ig__gguf_close(gguf);
    } else {
        assert_string_equal(err.message + strlen(w.path) + 2, words);
    }
    assert_int_equal(counted.n_live, 0);
    assert_true(counted.peak_bytes <= 16u << 20);
}

static void patched_real_model(void **state)
{
    (void)state;
    if (!real_model())
        skip();
    refuse_real(4, 4, 3, IG_OK, "");
    refuse_real(763530, 4, IG__GGUF_U8, IG_ERR_FORMAT,
                "byte 812694: key 26: name length is 4294967297, allowed is 1 to 65535");
    refuse_real(1099, 8, (uint64_t)1 << 40, IG_ERR_FORMAT,
                "byte 1099: key 'tokenizer.ggml.tokens': array count is 1099511627776, the "
                "98361325 bytes left in the file hold at most 12295165");
    refuse_real(1769536, 8, 577, IG_ERR_FORMAT,
                "byte 1769552: tensor 'token_embd.weight': type is q8_0, whose rows are "
                "multiples of 32; dimension 0 is 577");
    refuse_real(1769556, 8, 98362432 - REAL_META, IG_ERR_FORMAT,
                "byte 1769556: tensor 'token_embd.weight': offset is 96576768 and its end "
                "126657792, the data in the file have 96576768 bytes");
    refuse_real(1769610, 8, 0, IG_ERR_FORMAT,
                "byte 1785664: tensor 'token_embd.weight' begins here, inside tensor "
                "'blk.0.attn_norm.weight' of bytes 1785664 to 1787968");
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(headers),
        TEST(names),
        TEST(values),
        TEST(arrays),
        TEST(alignments),
        TEST(tensors),
        TEST(tensors_against_each_other),
        TEST(sparse_files),
        TEST(late_mistake),
        TEST(every_byte),
        TEST(every_length),
        TEST(not_a_regular_file),
        TEST(long_paths),
        TEST(patched_real_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
