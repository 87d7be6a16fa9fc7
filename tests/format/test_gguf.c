/* Reading good files: every type of value, every getter, ranges, tensors, listings. */
#include "format_fixture.h"

#include "base/error.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

static counting_allocator counted;
static gguf_writer w;
static small_marks m;
static int descriptor;

static ig__gguf *open_saved(void)
{
    ig__gguf *gguf;
    ig_error err = {0};
    if (ig__gguf_open(&gguf, &counted.allocator, gguf_save(&w), &err) != IG_OK)
        fail_msg("%s", err.message);
    return gguf;
}

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
    assert_int_equal(counted.n_live, 0);
    return 0;
}

static void integers_of_every_width(void **state)
{
    (void)state;
    static const struct {
        const char *key;
        int64_t value;
    } rows[] = {
        {"t.u8", 200},           {"t.i8", -2},      {"t.u16", 60000},     {"t.i16", -300},
        {"t.u32", 4000000000ll}, {"t.i32", -70000}, {"t.i64", INT64_MIN},
    };
    ig__gguf *g = open_saved();
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int64_t v = 1;
        assert_int_equal(
            ig__gguf_get_i64(&v, g, rows[i].key, true, INT64_MIN, INT64_MAX, NULL), IG_OK);
        assert_true(v == rows[i].value);
        /* one less than it is allowed at most, one more at least */
        v = 1;
        if (rows[i].value > INT64_MIN)
            assert_int_equal(ig__gguf_get_i64(&v, g, rows[i].key, true, INT64_MIN,
                                              rows[i].value - 1, NULL),
                             IG_ERR_FORMAT);
        assert_int_equal(
            ig__gguf_get_i64(&v, g, rows[i].key, true, rows[i].value + 1, INT64_MAX, NULL),
            IG_ERR_FORMAT);
        assert_int_equal(v, 1);
    }
    ig__gguf_close(g);
}

/* Runs a getter that must fail with exactly these words behind the path. */
#define assert_says(call, words)                                                           \
    do {                                                                                   \
        ig_error err = {0};                                                                \
        assert_int_equal((call), IG_ERR_FORMAT);                                           \
        assert_true(is_one_line(&err, w.path));                                            \
        assert_string_equal(err.message + strlen(w.path) + 2, words);                      \
    } while (0)

static void getters_say_what_is_wrong(void **state)
{
    (void)state;
    ig__gguf *g = open_saved();
    int64_t i = 5;
    double d = 5;
    bool b = true;
    const char *s = "x";
    size_t n = 5;
    const void *data = &i;
    const ig__gguf_string *strings = NULL;
    char words[200];
    snprintf(words, sizeof words,
             "byte %zu: key 't.u32': value is 4000000000, allowed is 1 to 9", m.u32);
    assert_says(ig__gguf_get_i64(&i, g, "t.u32", true, 1, 9, &err), words);
    snprintf(words, sizeof words,
             "byte %zu: key 't.u64': value is 18446744073709551615, allowed is 0 to 9",
             m.u64);
    assert_says(ig__gguf_get_i64(&i, g, "t.u64", true, 0, 9, &err), words);
    snprintf(words, sizeof words, "byte %zu: key 't.f32': type is f32, wanted an integer",
             m.f32);
    assert_says(ig__gguf_get_i64(&i, g, "t.f32", true, 0, 9, &err), words);
    snprintf(words, sizeof words, "byte %zu: key 't.flag': type is bool, wanted an integer",
             m.flag);
    assert_says(ig__gguf_get_i64(&i, g, "t.flag", false, 0, 9, &err), words);
    snprintf(words, sizeof words,
             "byte %zu: key 't.f64': value is 1e+300, allowed is 0 to 1", m.f64);
    assert_says(ig__gguf_get_f64(&d, g, "t.f64", true, 0, 1, &err), words);
    snprintf(words, sizeof words, "byte %zu: key 't.u32': type is u32, wanted f32 or f64",
             m.u32);
    assert_says(ig__gguf_get_f64(&d, g, "t.u32", true, 0, 1, &err), words);
    snprintf(words, sizeof words, "byte %zu: key 't.u8': type is u8, wanted bool", m.u8);
    assert_says(ig__gguf_get_bool(&b, g, "t.u8", true, &err), words);
    snprintf(words, sizeof words,
             "byte %zu: key 't.words': type is array of string, wanted string", m.words);
    assert_says(ig__gguf_get_string(&s, &n, g, "t.words", true, &err), words);
    snprintf(words, sizeof words,
             "byte %zu: key 't.ids': type is array of i32, wanted array of u32", m.ids);
    assert_says(ig__gguf_get_array(&data, &i, g, "t.ids", IG__GGUF_U32, true, &err), words);
    snprintf(words, sizeof words,
             "byte %zu: key 't.ids': type is array of i32, wanted array of string", m.ids);
    assert_says(ig__gguf_get_strings(&strings, &i, g, "t.ids", true, &err), words);
    snprintf(words, sizeof words, "byte %zu: key 't.u3' is missing", m.first);
    assert_says(ig__gguf_get_i64(&i, g, "t.u3", true, 1, 9, &err), words);
    /* nothing was touched, and what is absent and not wanted is no failure */
    assert_int_equal(ig__gguf_get_i64(&i, g, "absent", false, 1, 9, NULL), IG_OK);
    assert_int_equal(ig__gguf_get_strings(&strings, &i, g, "absent", false, NULL), IG_OK);
    assert_true(i == 5 && d > 4 && b && *s == 'x' && n == 5 && data == &i && !strings);
    ig__gguf_close(g);
}

static void floats_and_bools(void **state)
{
    (void)state;
    ig__gguf *g = open_saved();
    double d = 0;
    bool b = false;
    assert_int_equal(ig__gguf_get_f64(&d, g, "t.f32", true, 0.25, 0.25, NULL), IG_OK);
    assert_true(d == 0.25);
    assert_int_equal(ig__gguf_get_f64(&d, g, "t.f64", true, 0, HUGE_VAL, NULL), IG_OK);
    assert_true(d == 1e300);
    assert_int_equal(ig__gguf_get_bool(&b, g, "t.flag", true, NULL), IG_OK);
    assert_true(b);
    ig__gguf_close(g);
    for (int i = 0; i < 2; i++) {
        const float odd = i ? NAN : HUGE_VALF;
        gguf_patch(&w, m.f32, &odd, 4);
        g = open_saved();
        assert_int_equal(ig__gguf_get_f64(&d, g, "t.f32", true, -HUGE_VAL, HUGE_VAL, NULL),
                         IG_ERR_FORMAT);
        ig__gguf_close(g);
    }
}

static void strings_and_arrays(void **state)
{
    (void)state;
    ig__gguf *g = open_saved();
    const char *s;
    size_t n_bytes;
    assert_int_equal(ig__gguf_get_string(&s, &n_bytes, g, "t.text", true, NULL), IG_OK);
    assert_int_equal(n_bytes, 9);
    assert_string_equal(s, "two\nlines");
    const void *data;
    int64_t n;
    assert_int_equal(ig__gguf_get_array(&data, &n, g, "t.bytes", IG__GGUF_U8, true, NULL),
                     0);
    assert_int_equal(n, 3);
    assert_memory_equal(data, "\1\2\3", 3);
    assert_int_equal(ig__gguf_get_array(&data, &n, g, "t.ids", IG__GGUF_I32, true, NULL),
                     0);
    assert_int_equal(n, 3);
    assert_int_equal((uintptr_t)data % 4, 0);
    assert_memory_equal(data, ((const int32_t[]){-1, 0, 7}), 12);
    assert_int_equal(ig__gguf_get_array(&data, &n, g, "t.wides", IG__GGUF_F64, true, NULL),
                     0);
    assert_int_equal(n, 2);
    assert_int_equal((uintptr_t)data % 8, 0);
    assert_memory_equal(data, ((const double[]){0.5, -2}), 16);
    assert_int_equal(ig__gguf_get_array(&data, &n, g, "t.flags", IG__GGUF_BOOL, true, NULL),
                     0);
    assert_int_equal(n, 2);
    assert_memory_equal(data, "\1\0", 2);
    assert_int_equal(ig__gguf_get_array(&data, &n, g, "t.none", IG__GGUF_U32, true, NULL),
                     0);
    assert_int_equal(n, 0);
    const ig__gguf_string *words;
    assert_int_equal(ig__gguf_get_strings(&words, &n, g, "t.words", true, NULL), IG_OK);
    assert_int_equal(n, 3);
    assert_int_equal(words[0].n, 1);
    assert_memory_equal(words[0].bytes, "a", 1);
    assert_int_equal(words[1].n, 0);
    assert_int_equal(words[2].n, 3);
    assert_memory_equal(words[2].bytes, "ccc", 3);
    ig__gguf_close(g);
}

/* However the bytes before it fall, an array is aligned and whole. */
static void arrays_at_every_alignment(void **state)
{
    (void)state;
    for (size_t shift = 0; shift < 9; shift++) {
        gguf_writer_fini(&w);
        gguf_writer_init(&w);
        gguf_key_string(&w, "pad", &"12345678"[8 - shift]);
        gguf_key_array(&w, "a", IG__GGUF_U64, 2);
        gguf_u64(&w, 0x0102030405060708);
        gguf_u64(&w, UINT64_MAX);
        gguf_key_array(&w, "b", IG__GGUF_I16, 1);
        gguf_bytes(&w, &(int16_t){-5}, 2);
        gguf_key_u32(&w, "c", 9);
        ig__gguf *g = open_saved();
        const void *data;
        int64_t n = 0;
        assert_int_equal(ig__gguf_get_array(&data, &n, g, "a", IG__GGUF_U64, true, NULL),
                         0);
        assert_int_equal((uintptr_t)data % 8, 0);
        assert_memory_equal(data, ((const uint64_t[]){0x0102030405060708, UINT64_MAX}), 16);
        assert_int_equal(ig__gguf_get_array(&data, &n, g, "b", IG__GGUF_I16, true, NULL),
                         0);
        assert_int_equal((uintptr_t)data % 2, 0);
        assert_memory_equal(data, &(int16_t){-5}, 2);
        assert_int_equal(ig__gguf_get_i64(&n, g, "c", true, 9, 9, NULL), IG_OK);
        const char *s;
        size_t n_bytes;
        assert_int_equal(ig__gguf_get_string(&s, &n_bytes, g, "pad", true, NULL), IG_OK);
        assert_string_equal(s, &"12345678"[8 - shift]);
        ig__gguf_close(g);
    }
}

static void tensors(void **state)
{
    (void)state;
    ig__gguf *g = open_saved();
    assert_int_equal(ig__gguf_n_tensors(g), 3);
    const ig__gguf_tensor *t = ig__gguf_find_tensor(g, "block");
    assert_ptr_equal(t, ig__gguf_tensor_at(g, 1));
    assert_string_equal(t->name, "block");
    assert_int_equal(t->dtype, IG_DTYPE_Q4_1);
    assert_int_equal(t->n_dims, 2);
    assert_int_equal(t->dims[0], 64);
    assert_int_equal(t->dims[1], 2);
    assert_int_equal(t->dims[2], 1);
    assert_int_equal(t->dims[3], 1);
    assert_int_equal(t->bytes, 80);
    assert_int_equal(t->offset, m.data + 64);
    unsigned char bytes[80];
    assert_int_equal(ig__gguf_read(g, t->offset, bytes, 80, NULL), IG_OK);
    for (int i = 0; i < 80; i++)
        assert_int_equal(bytes[i], 64 + i);
    const ig__gguf_tensor *first = ig__gguf_find_tensor(g, "first");
    assert_int_equal(first->dtype, IG_DTYPE_F32);
    assert_int_equal(first->bytes, 12);
    const ig__gguf_tensor *later = ig__gguf_find_tensor(g, "later");
    assert_int_equal(later->file_type, 250);
    assert_int_equal(later->dtype, IG_DTYPE_COUNT);
    assert_int_equal(later->bytes, 0);
    assert_int_equal(later->offset, m.data + 192);
    assert_null(ig__gguf_find_tensor(g, "bloc"));
    assert_null(ig__gguf_find_tensor(g, ""));
    assert_null(ig__gguf_tensor_at(g, 3));
    assert_null(ig__gguf_tensor_at(g, -1));
    ig_error err;
    assert_int_equal(ig__gguf_read(g, m.data + 190, bytes, 4, &err), IG_ERR_ARGUMENT);
    assert_int_equal(ig__gguf_read(g, UINT64_MAX, bytes, 2, &err), IG_ERR_ARGUMENT);
    assert_int_equal(ig__gguf_read(g, m.data + 193, bytes, 0, &err), IG_OK);
    ig__gguf_close(g);
}

/* Look-up finds each of many names, whatever their order in the file. */
static void look_up_among_many(void **state)
{
    (void)state;
    enum { MANY = 331 };
    gguf_writer_fini(&w);
    gguf_writer_init(&w);
    char name[16];
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "k%d", i * 7 % MANY);
        gguf_key_u32(&w, name, (uint32_t)(i * 7 % MANY));
    }
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "t%d", i * 5 % MANY);
        gguf_tensor(&w, name, 1, (const uint64_t[]){1}, 24, 32u * (uint64_t)(MANY - 1 - i));
    }
    gguf_data(&w, 32);
    gguf_zeros(&w, 32 * MANY);
    ig__gguf *g = open_saved();
    for (int i = 0; i < MANY; i++) {
        int64_t v = -1;
        snprintf(name, sizeof name, "k%d", i);
        assert_int_equal(ig__gguf_get_i64(&v, g, name, true, i, i, NULL), IG_OK);
        snprintf(name, sizeof name, "t%d", i * 5 % MANY);
        assert_ptr_equal(ig__gguf_find_tensor(g, name), ig__gguf_tensor_at(g, i));
        assert_true(ig__gguf_has(g, "k0"));
        assert_false(ig__gguf_has(g, name));
    }
    ig__gguf_close(g);
}

static void assert_text(const ig__gguf *g, const char *key, const char *wanted)
{
    char text[400];
    for (int64_t i = 0; i < ig__gguf_n_keys(g); i++) {
        if (strcmp(ig__gguf_key(g, i), key) != 0)
            continue;
        assert_int_equal(ig__gguf_value_text(g, i, text, sizeof text), strlen(wanted));
        assert_string_equal(text, wanted);
        /* cut at every length, and never past it */
        for (size_t cap = 0; cap <= strlen(wanted) + 1; cap++) {
            memset(text, '#', sizeof text);
            assert_int_equal(ig__gguf_value_text(g, i, text, cap), strlen(wanted));
            if (cap)
                assert_memory_equal(text, wanted, cap - 1);
            assert_int_equal(text[cap], '#');
            assert_true(cap == 0 || text[cap - 1] == 0);
        }
        return;
    }
    fail_msg("no key %s", key);
}

static void listings(void **state)
{
    (void)state;
    ig__gguf *g = open_saved();
    assert_string_equal(ig__gguf_path(g), w.path);
    assert_int_equal(ig__gguf_file_bytes(g), w.n);
    assert_int_equal(ig__gguf_n_keys(g), 19);
    assert_string_equal(ig__gguf_key(g, 0), "general.alignment");
    assert_null(ig__gguf_key(g, 19));
    assert_null(ig__gguf_key(g, -1));
    assert_text(g, "t.u8", "200");
    assert_text(g, "t.i8", "-2");
    assert_text(g, "t.u64", "18446744073709551615");
    assert_text(g, "t.i64", "-9223372036854775808");
    assert_text(g, "t.f32", "0.25");
    assert_text(g, "t.f64", "1.0000000000000001e+300");
    assert_text(g, "t.flag", "true");
    assert_text(g, "t.text", "\"two\\nlines\"");
    assert_text(g, "t.bytes", "u8[3] 1, 2, 3");
    assert_text(g, "t.ids", "i32[3] -1, 0, 7");
    assert_text(g, "t.wides", "f64[2] 0.5, -2");
    assert_text(g, "t.flags", "bool[2] true, false");
    assert_text(g, "t.words", "string[3] \"a\", \"\", \"ccc\"");
    assert_text(g, "t.none", "u32[0]");
    assert_int_equal(ig__gguf_value_offset(g, "t.u32"), m.u32);
    assert_int_equal(ig__gguf_value_offset(g, "t.words"), m.words);
    assert_int_equal(ig__gguf_value_offset(g, "absent"), 0);
    ig__gguf_close(g);
    assert_string_equal(ig__gguf_type_name(3), "q4_1");
    assert_string_equal(ig__gguf_type_name(17), "iq2_xs");
    assert_string_equal(ig__gguf_type_name(4), "?");
    assert_string_equal(ig__gguf_type_name(UINT32_MAX), "?");
}

/* What a terminal would obey is escaped; whole characters of UTF-8 are kept. */
static void listings_are_safe_to_print(void **state)
{
    (void)state;
    static const struct {
        const char *text, *shown;
    } rows[] = {
        {"\x1b[2J\r\a\x7f", "\"\\x1b[2J\\x0d\\x07\\x7f\""},
        {"\"\\\t", "\"\\\"\\\\\\t\""},
        {"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80",
         "\"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80\""},
        {"\xc2\x9b", "\"\\xc2\\x9b\""},                   /* U+009B, a control character */
        {"\xc0\xaf", "\"\\xc0\\xaf\""},                   /* too long a form */
        {"\xe0\x9f\xbf", "\"\\xe0\\x9f\\xbf\""},          /* the same, three bytes */
        {"\xed\xa0\x80", "\"\\xed\\xa0\\x80\""},          /* a surrogate */
        {"\xf4\x90\x80\x80", "\"\\xf4\\x90\\x80\\x80\""}, /* past U+10FFFF */
        {"\xf8z", "\"\\xf8z\""},
        {"\xe2\x82", "\"\\xe2\\x82\""}, /* cut short */
        {"\xe2\x82z", "\"\\xe2\\x82z\""},
        {"\xf0\x8f\xbf\xbf", "\"\\xf0\\x8f\\xbf\\xbf\""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        gguf_writer_fini(&w);
        gguf_writer_init(&w);
        gguf_key_string(&w, "s", rows[i].text);
        ig__gguf *g = open_saved();
        assert_text(g, "s", rows[i].shown);
        ig__gguf_close(g);
    }
    gguf_writer_fini(&w);
    gguf_writer_init(&w);
    gguf_key_array(&w, "long", IG__GGUF_STRING, 9);
    for (int i = 0; i < 9; i++)
        gguf_string(&w, i ? "" : "0123456789012345678901234567890123456789012345678");
    gguf_key_array(&w, "cut", IG__GGUF_STRING, 1); /* in the middle of a character */
    gguf_string(&w, "01234567890123456789012345678901234567890123456\xc3\xa9");
    ig__gguf *g = open_saved();
    assert_text(g, "long",
                "string[9] \"012345678901234567890123456789012345678901234567\"..., "
                "\"\", \"\", \"\", \"\", \"\", \"\", \"\", ...");
    assert_text(g, "cut",
                "string[1] \"01234567890123456789012345678901234567890123456\\xc3\"...");
    ig__gguf_close(g);
}

/* Version 2 has the same layout; the least file has neither key nor tensor. */
static void versions_and_least_files(void **state)
{
    (void)state;
    gguf_patch_u32(&w, 4, 2);
    ig__gguf *g = open_saved();
    assert_int_equal(ig__gguf_n_tensors(g), 3);
    ig__gguf_close(g);
    gguf_writer_fini(&w);
    gguf_writer_init(&w);
    g = open_saved();
    assert_int_equal(ig__gguf_n_tensors(g), 0);
    assert_int_equal(ig__gguf_n_keys(g), 0);
    assert_false(ig__gguf_has(g, "general.alignment"));
    assert_null(ig__gguf_find_tensor(g, "x"));
    ig__gguf_close(g);
    ig__gguf_close(NULL);
}

/* A key that is as long as one may be spans the reader's window. */
static void longest_key(void **state)
{
    (void)state;
    char *key = malloc(65536);
    assert_non_null(key);
    memset(key, 'k', 65535);
    key[65535] = 0;
    gguf_writer_fini(&w);
    gguf_writer_init(&w);
    for (int i = 0; i < 5; i++) {
        key[0] = (char)('a' + i);
        gguf_key_u32(&w, key, (uint32_t)i);
    }
    ig__gguf *g = open_saved();
    for (int i = 0; i < 5; i++) {
        int64_t v = -1;
        key[0] = (char)('a' + i);
        assert_int_equal(ig__gguf_get_i64(&v, g, key, true, i, i, NULL), IG_OK);
    }
    ig__gguf_close(g);
    free(key);
}

/* Arrays larger than the window, of strings, numbers and bools, and what follows them. */
static void values_across_the_window(void **state)
{
    (void)state;
    enum { N = 40000 };
    gguf_writer_fini(&w);
    gguf_writer_init(&w);
    gguf_key_array(&w, "strings", IG__GGUF_STRING, N);
    char text[16];
    for (int i = 0; i < N; i++) {
        snprintf(text, sizeof text, "%d", i);
        gguf_string(&w, text);
    }
    gguf_key_array(&w, "numbers", IG__GGUF_I32, N);
    for (int i = 0; i < N; i++)
        gguf_u32(&w, (uint32_t)i);
    gguf_key_array(&w, "bools", IG__GGUF_BOOL, 5 * N);
    for (int i = 0; i < 5 * N; i++)
        gguf_u8(&w, (uint8_t)(i & 1));
    gguf_key_u32(&w, "end", 77);
    ig__gguf *g = open_saved();
    const ig__gguf_string *strings;
    const void *numbers, *bools;
    int64_t n = 0;
    assert_int_equal(ig__gguf_get_strings(&strings, &n, g, "strings", true, NULL), IG_OK);
    assert_int_equal(n, N);
    assert_int_equal(
        ig__gguf_get_array(&numbers, &n, g, "numbers", IG__GGUF_I32, true, NULL), IG_OK);
    assert_int_equal(ig__gguf_get_array(&bools, &n, g, "bools", IG__GGUF_BOOL, true, NULL),
                     IG_OK);
    assert_int_equal(n, 5 * N);
    for (int i = 0; i < N; i++) {
        snprintf(text, sizeof text, "%d", i);
        assert_int_equal(strings[i].n, strlen(text));
        assert_memory_equal(strings[i].bytes, text, strlen(text));
        assert_int_equal(((const int32_t *)numbers)[i], i);
        assert_int_equal(((const uint8_t *)bools)[i], i & 1);
    }
    assert_int_equal(ig__gguf_get_i64(&n, g, "end", true, 77, 77, NULL), IG_OK);
    ig__gguf_close(g);
}

/* Every type of the table: four blocks have the bytes that the format gives them. */
static void every_tensor_type(void **state)
{
    (void)state;
    static const struct {
        uint32_t type;
        unsigned block, bytes;
        ig_dtype dtype;
    } rows[] = {
        {0, 1, 4, IG_DTYPE_F32},       {1, 1, 2, IG_DTYPE_F16},
        {2, 32, 18, IG_DTYPE_Q4_0},    {3, 32, 20, IG_DTYPE_Q4_1},
        {6, 32, 22, IG_DTYPE_Q5_0},    {7, 32, 24, IG_DTYPE_COUNT},
        {8, 32, 34, IG_DTYPE_Q8_0},    {9, 32, 36, IG_DTYPE_COUNT},
        {10, 256, 84, IG_DTYPE_COUNT}, {11, 256, 110, IG_DTYPE_COUNT},
        {12, 256, 144, IG_DTYPE_Q4_K}, {13, 256, 176, IG_DTYPE_COUNT},
        {14, 256, 210, IG_DTYPE_Q6_K}, {15, 256, 292, IG_DTYPE_COUNT},
        {16, 256, 66, IG_DTYPE_COUNT}, {17, 256, 74, IG_DTYPE_COUNT},
        {18, 256, 98, IG_DTYPE_COUNT}, {19, 256, 50, IG_DTYPE_COUNT},
        {20, 32, 18, IG_DTYPE_COUNT},  {21, 256, 110, IG_DTYPE_COUNT},
        {22, 256, 82, IG_DTYPE_COUNT}, {23, 256, 136, IG_DTYPE_COUNT},
        {24, 1, 1, IG_DTYPE_COUNT},    {25, 1, 2, IG_DTYPE_COUNT},
        {26, 1, 4, IG_DTYPE_I32},      {27, 1, 8, IG_DTYPE_COUNT},
        {28, 1, 8, IG_DTYPE_COUNT},    {29, 256, 56, IG_DTYPE_COUNT},
        {30, 1, 2, IG_DTYPE_BF16},     {34, 256, 54, IG_DTYPE_COUNT},
        {35, 256, 66, IG_DTYPE_COUNT}, {39, 32, 17, IG_DTYPE_COUNT},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        gguf_writer_fini(&w);
        gguf_writer_init(&w);
        gguf_tensor(&w, "t", 2, (const uint64_t[]){2 * rows[i].block, 2}, rows[i].type, 0);
        gguf_data(&w, 32);
        gguf_zeros(&w, 4 * rows[i].bytes);
        ig__gguf *g = open_saved();
        const ig__gguf_tensor *t = ig__gguf_tensor_at(g, 0);
        assert_int_equal(t->bytes, 4 * rows[i].bytes);
        assert_int_equal(t->dtype, rows[i].dtype);
        if (t->dtype != IG_DTYPE_COUNT) { /* the two tables agree */
            assert_int_equal(ig_dtype_block(t->dtype), rows[i].block);
            assert_int_equal(ig_dtype_block_bytes(t->dtype), rows[i].bytes);
            assert_string_equal(ig_dtype_name(t->dtype), ig__gguf_type_name(t->file_type));
        }
        ig__gguf_close(g);
        w.n--; /* one byte fewer does not do */
        assert_int_equal(ig__gguf_open(&g, &counted.allocator, gguf_save(&w), NULL),
                         IG_ERR_FORMAT);
        assert_null(g);
    }
}

/* Files of vocabularies that other programs wrote. */
static void files_of_others(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int64_t n_tokens;
    } rows[] = {{"bert-bge", 30522},
                {"gpt-2", 50257},
                {"llama-bpe", 128256},
                {"llama-spm", 32000},
                {"qwen2", 151936}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char path[400];
        snprintf(path, sizeof path, "%s/tokenizers/ggml-vocab-%s.gguf", IG_SHARED_DATA,
                 rows[i].name);
        if (access(path, R_OK) != 0) {
            print_message("skipped: no %s\n", path);
            continue;
        }
        ig__gguf *g;
        ig_error err = {0};
        if (ig__gguf_open(&g, &counted.allocator, path, &err) != IG_OK)
            fail_msg("%s", err.message);
        const ig__gguf_string *tokens;
        int64_t n;
        assert_int_equal(
            ig__gguf_get_strings(&tokens, &n, g, "tokenizer.ggml.tokens", true, &err),
            IG_OK);
        assert_int_equal(n, rows[i].n_tokens);
        use_everything(g);
        ig__gguf_close(g);
    }
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(integers_of_every_width),
        TEST(getters_say_what_is_wrong),
        TEST(floats_and_bools),
        TEST(strings_and_arrays),
        TEST(arrays_at_every_alignment),
        TEST(tensors),
        TEST(look_up_among_many),
        TEST(listings),
        TEST(listings_are_safe_to_print),
        TEST(versions_and_least_files),
        TEST(longest_key),
        TEST(values_across_the_window),
        TEST(every_tensor_type),
        TEST(files_of_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
