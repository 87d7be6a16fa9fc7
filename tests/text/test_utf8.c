/* Streams of bytes to whole characters: what may leave, what must wait, what is replaced.
 */
#include "ingot/tokenizer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#define FFFD "\xef\xbf\xbd"

/* Push `text` in pieces of `step` bytes, flush, and give all that left. */
static size_t stream_all(char *out, const char *text, size_t n, size_t step)
{
    ig_utf8_stream stream = {0};
    size_t n_out = 0;
    for (size_t at = 0; at < n; at += step) {
        const size_t n_piece = n - at < step ? n - at : step;
        n_out += ig_utf8_stream_push(&stream, text + at, n_piece, out + n_out);
        assert_in_range(stream.n_held, 0, 3);
    }
    n_out += ig_utf8_stream_push(&stream, NULL, 0, out + n_out);
    assert_int_equal(stream.n_held, 0);
    return n_out;
}

static void assert_streams(const char *text, size_t n, const char *want)
{
    for (size_t step = 1; step <= n + 1; step++) {
        char out[256];
        const size_t n_out = stream_all(out, text, n, step);
        assert_int_equal(n_out, strlen(want));
        assert_memory_equal(out, want, n_out);
    }
}

static void test_valid_text_passes(void **state)
{
    (void)state;
    assert_streams("", 0, "");
    assert_streams("plain", 5, "plain");
    const char *all = "\x01 \x7f \xc2\x80 \xdf\xbf \xe0\xa0\x80 \xed\x9f\xbf \xee\x80\x80 "
                      "\xef\xbf\xbf \xf0\x90\x80\x80 \xf4\x8f\xbf\xbf 🦙";
    assert_streams(all, strlen(all), all);
}

/* The table is Unicode 15, section 3.9: one mark for each maximal subpart. */
static void test_bad_bytes_are_replaced(void **state)
{
    (void)state;
    const struct {
        const char *bytes, *want;
    } cases[] = {
        {"\xff", FFFD},
        {"\x80"
         "a",
         FFFD "a"},
        {"\xc0\x80", FFFD FFFD},
        {"\xc1\xbf", FFFD FFFD},
        {"\xf5\x80\x80\x80", FFFD FFFD FFFD FFFD},
        {"\xed\xa0\x80", FFFD FFFD FFFD}, /* a surrogate */
        {"\xe0\x80\x80", FFFD FFFD FFFD}, /* too long a form */
        {"\xf0\x8f\xbf\xbf", FFFD FFFD FFFD FFFD},
        {"\xf4\x90\x80\x80", FFFD FFFD FFFD FFFD}, /* past U+10FFFF */
        {"\xf0\x9f\xf0\x9f\xf0\x9f", FFFD FFFD FFFD},
        {"\xe4"
         "ab",
         FFFD "ab"},
        {"\xf0\x9f\xa6"
         "z",
         FFFD "z"},
        {"\xe2\x82\xe2\x82\xac", FFFD "€"},
        {"\xe2\x82\xff"
         "q",
         FFFD FFFD "q"},
        {"\xc3\xc3\xa9", FFFD "é"},
        {"\xf0\x9f\xa6", FFFD}, /* cut by the end */
        {"ok\xc3", "ok" FFFD},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_streams(cases[i].bytes, strlen(cases[i].bytes), cases[i].want);
}

static void test_unfinished_bytes_wait(void **state)
{
    (void)state;
    ig_utf8_stream stream = {0};
    char out[64];
    assert_int_equal(ig_utf8_stream_push(&stream, " \xf0\x9f", 3, out), 1);
    assert_int_equal(out[0], ' ');
    assert_int_equal(ig_utf8_stream_push(&stream, "", 0, out), 0);
    assert_int_equal(ig_utf8_stream_push(&stream, "\xa6", 1, out), 0);
    assert_int_equal(ig_utf8_stream_push(&stream, "\x99.", 2, out), 5);
    assert_memory_equal(out, "🦙.", 5);
    assert_int_equal(ig_utf8_stream_push(&stream, NULL, 0, out), 0);
}

static void test_zero_bytes_pass(void **state)
{
    (void)state;
    char out[16];
    assert_int_equal(stream_all(out, "a\0b", 3, 2), 3);
    assert_memory_equal(out, "a\0b", 3);
}

/* Every sequence of three bytes drawn from the borders of the table gives valid text, no
 * longer than the header allows. */
static void test_output_is_always_valid(void **state)
{
    (void)state;
    static const char edges[] = "a\x7f\x80\x8f\x90\x9f\xa0\xbf\xc0\xc1\xc2\xdf\xe0\xec\xed"
                                "\xef\xf0\xf3\xf4\xf5\xff";
    const size_t n_edges = sizeof edges - 1;
    for (size_t i = 0; i < n_edges * n_edges * n_edges; i++) {
        const char text[3] = {edges[i % n_edges], edges[i / n_edges % n_edges],
                              edges[i / n_edges / n_edges]};
        char once[32], twice[64];
        const size_t n = stream_all(once, text, 3, 1);
        assert_in_range(n, 1, 9);
        assert_int_equal(stream_all(twice, once, n, 1), n); /* valid text is left alone */
        assert_memory_equal(once, twice, n);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_valid_text_passes),
        cmocka_unit_test(test_bad_bytes_are_replaced),
        cmocka_unit_test(test_unfinished_bytes_wait),
        cmocka_unit_test(test_zero_bytes_pass),
        cmocka_unit_test(test_output_is_always_valid),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
