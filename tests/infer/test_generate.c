/* Which text of an answer is final, and when stop strings end it: however the text is cut
 * into tokens, what is shown is the text up to the first stop string, as whole characters,
 * and never a byte that would have to be taken back. Then the loop itself, with a real
 * model where there is one.
 */
#include "infer/fault_allocator.h"

#include "base/alloc.h"
#include "base/buffer.h"
#include "base/rng.h"
#include "infer/answer.h"
#include "ingot/generate.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

static ig_allocator memory;

static void init(ig__answer *a, const char *const *stop, int64_t n_stop)
{
    ig_error err = {0};
    if (ig__answer_init(a, &memory, stop, n_stop, &err) != IG_OK)
        fail_msg("%s", err.message);
}

/* Push a token, and compare the text that is now final. */
static void push(ig__answer *a, const char *bytes, const char *final)
{
    assert_int_equal(ig__answer_push(a, bytes, strlen(bytes), NULL), IG_OK);
    assert_int_equal(a->n_final, strlen(final));
    assert_memory_equal(a->n_final ? a->text.data : "", final, a->n_final);
}

static void flush(ig__answer *a, const char *final)
{
    assert_int_equal(ig__answer_flush(a, NULL), IG_OK);
    assert_int_equal(a->n_final, strlen(final));
    assert_memory_equal(a->n_final ? a->text.data : "", final, a->n_final);
}

/* ---- single facts */

static void plain_text_is_final_at_once(void **state)
{
    (void)state;
    ig__answer a;
    init(&a, NULL, 0);
    push(&a, "Hello", "Hello");
    push(&a, "", "");
    push(&a, ", world", ", world");
    assert_false(a.stopped);
    flush(&a, "");
    ig__answer_fini(&a);
}

static void characters_come_whole(void **state)
{
    (void)state;
    ig__answer a;
    init(&a, NULL, 0);
    push(&a, "This is", "This is");
    push(&a, " \xF0\x9F", " "); /* the space may leave, the rest waits */
    push(&a, "\xA6", "");
    push(&a, "\x99", "\xF0\x9F\xA6\x99");
    push(&a, ".cpp", ".cpp");
    push(&a, "\xF0\x9F", "");
    flush(&a, "\xEF\xBF\xBD"); /* U+FFFD */
    ig__answer_fini(&a);
    init(&a, NULL, 0);
    push(&a, "\xF0\x9F", "");
    push(&a, "\xF0\x9F", "\xEF\xBF\xBD");
    push(&a, "\xF0\x9F", "\xEF\xBF\xBD");
    flush(&a, "\xEF\xBF\xBD");
    ig__answer_fini(&a);
}

static void possible_stops_are_held(void **state)
{
    (void)state;
    static const char *const stop[] = {"\n\nUser:", "END"};
    ig__answer a;
    init(&a, stop, 2);
    push(&a, "text\n", "text");
    push(&a, "\n", "");
    push(&a, "\nUs", "\n"); /* the first newline cannot begin it any more */
    push(&a, "ual", "\n\nUsual");
    push(&a, " E", " ");
    push(&a, "N", "");
    push(&a, "E", "EN");
    push(&a, "ND of it", "");
    assert_true(a.stopped);
    push(&a, "more", "");
    flush(&a, "");
    ig__answer_fini(&a);
}

static void stop_inside_a_token(void **state)
{
    (void)state;
    static const char *const stop[] = {"###"};
    ig__answer a;
    init(&a, stop, 1);
    push(&a, "one ## two ### three", "one ## two ");
    assert_true(a.stopped);
    flush(&a, "");
    ig__answer_fini(&a);
    init(&a, stop, 1);
    push(&a, "#", "");
    push(&a, "#", "");
    flush(&a, "##"); /* it never came */
    assert_false(a.stopped);
    ig__answer_fini(&a);
}

static void first_complete_stop_wins(void **state)
{
    (void)state;
    static const char *const stop[] = {"abcd", "bc", "c"};
    ig__answer a;
    init(&a, stop, 3);
    push(&a, "xab", "x");
    push(&a, "cd", "a"); /* "bc" and "c" are complete before "abcd"; "bc" is longer */
    assert_true(a.stopped);
    ig__answer_fini(&a);
}

static void stop_of_many_bytes(void **state)
{
    (void)state;
    static const char *const stop[] = {"\xF0\x9F\xA6\x99!"};
    ig__answer a;
    init(&a, stop, 1);
    push(&a, "a\xF0\x9F", "a");
    push(&a, "\xA6\x99", "");
    push(&a, "?", "\xF0\x9F\xA6\x99?");
    push(&a, "\xF0\x9F\xA6", "");
    push(&a, "\x99!", "");
    assert_true(a.stopped);
    ig__answer_fini(&a);
}

static void bad_stops_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"", "\xFF", "a\xC3", "\xA6", "\xED\xA0\x80"};
    for (int i = 0; i < 5; i++) {
        const char *const stop[] = {"fine", bad[i]};
        ig__answer a;
        ig_error err;
        assert_int_equal(ig__answer_init(&a, &memory, stop, 2, &err), IG_ERR_ARGUMENT);
        assert_string_equal(err.message, i ? "generate: stop string 1 is not UTF-8"
                                           : "generate: stop string 1 is empty");
    }
    ig__answer a;
    assert_int_equal(ig__answer_init(&a, &memory, NULL, 1, NULL), IG_ERR_ARGUMENT);
    assert_true(ig__is_utf8("a\xC3\xA4\xE4\xBD\xA0\xF0\x9F\xA6\x99\xEF\xBF\xBD", 13));
}

/* ---- any text, cut anywhere */

/* The text up to the stop string that is complete first; of those the longest. */
static size_t define_end(const char *text, size_t n, const char *const *stop, int n_stop)
{
    for (size_t end = 1; end <= n; end++) {
        size_t longest = 0;
        for (int s = 0; s < n_stop; s++) {
            const size_t m = strlen(stop[s]);
            if (m <= end && m > longest && memcmp(text + end - m, stop[s], m) == 0)
                longest = m;
        }
        if (longest)
            return end - longest;
    }
    return n;
}

static uint64_t random_state;
static int random_below(int n)
{
    return (int)(ig__uniform(3, 2, random_state++) * n);
}

/* Words over a small alphabet, so that stops nearly happen all the time. */
static void random_text(char *text, int n_letters)
{
    static const char *const letters[] = {"a", "b", "ab", "\xC3\xA4", "\xF0\x9F\xA6\x99"};
    text[0] = 0;
    for (int i = 0; i < n_letters; i++)
        strcat(text, letters[random_below(5)]);
}

static void shown_is_text_up_to_stop(void **state)
{
    (void)state;
    for (int trial = 0; trial < 20000; trial++) {
        char text[256], stops[3][32], shown[256];
        const char *const stop[] = {stops[0], stops[1], stops[2]};
        const int n_stop = random_below(4);
        random_text(text, 30);
        for (int s = 0; s < 3; s++)
            random_text(stops[s], 1 + random_below(6));
        const size_t n = strlen(text), end = define_end(text, n, stop, n_stop);
        ig__answer a;
        init(&a, stop, n_stop);
        size_t n_shown = 0;
        for (size_t i = 0; i < n;) {
            size_t piece = (size_t)random_below(7);
            piece = piece < n - i ? piece : n - i;
            assert_int_equal(ig__answer_push(&a, text + i, piece, NULL), IG_OK);
            i += piece;
            memcpy(shown + n_shown, a.text.data, a.n_final);
            n_shown += a.n_final;
            assert_true(n_shown <= end); /* nothing of a stop string leaks */
            assert_true(ig__is_utf8(shown, n_shown));
            /* and what need not wait does not: at most a stop string and a character */
            assert_true(a.stopped || i - n_shown <= 6 * 4 + 3);
        }
        assert_int_equal(ig__answer_flush(&a, NULL), IG_OK);
        memcpy(shown + n_shown, a.text.data, a.n_final);
        n_shown += a.n_final;
        assert_int_equal(n_shown, end);
        assert_memory_equal(shown, text, end);
        assert_int_equal(a.stopped,
                         end < n || (n_stop && define_end(text, n, stop, n_stop) < n));
        ig__answer_fini(&a);
    }
}

static void long_stop_is_fast(void **state)
{
    (void)state;
    enum { N = 200000 };
    char *stop = malloc(N + 1);
    memset(stop, 'a', N);
    stop[N - 1] = 'b';
    stop[N] = 0;
    const char *const stops[] = {stop};
    ig__answer a;
    init(&a, stops, 1);
    size_t n_shown = 0;
    for (int i = 0; i < 2 * N; i += 100) { /* quadratic would be 8e10 steps */
        char piece[100];
        memset(piece, 'a', 100);
        assert_int_equal(ig__answer_push(&a, piece, 100, NULL), IG_OK);
        n_shown += a.n_final;
    }
    assert_int_equal(n_shown, 2 * N - (N - 1));
    push(&a, "b", "");
    assert_true(a.stopped);
    ig__answer_fini(&a);
    free(stop);
}

static void answer_faults(void **state)
{
    (void)state;
    static const char *const stop[] = {"stop", "halt"};
    for (int64_t nth = 1;; nth++) {
        fault_allocator f = {.fail_nth = nth};
        const ig_allocator m = fault_allocator_of(&f);
        ig__answer a;
        ig_error err = {0};
        ig_status status = ig__answer_init(&a, &m, stop, 2, &err);
        if (status == IG_OK) {
            char text[500];
            memset(text, 'x', sizeof text);
            status = ig__answer_push(&a, text, sizeof text, &err);
            if (status != IG_OK) { /* nothing was taken: it may be tried again */
                assert_int_equal(ig__answer_push(&a, text, sizeof text, NULL), IG_OK);
                assert_int_equal(a.n_final, sizeof text);
            }
            ig__answer_fini(&a);
        }
        assert_int_equal(f.n_alive, 0);
        if (f.n_calls < nth) {
            assert_int_equal(status, IG_OK);
            assert_true(nth > 3);
            break;
        }
        assert_int_equal(status, IG_ERR_MEMORY);
    }
}

static void finish_names(void **state)
{
    (void)state;
    assert_string_equal(ig_finish_name(IG_FINISH_STOP), "stop");
    assert_string_equal(ig_finish_name(IG_FINISH_LENGTH), "length");
    assert_string_equal(ig_finish_name(IG_FINISH_CANCELLED), "cancelled");
}

int main(void)
{
    memory = ig__allocator_default();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_text_is_final_at_once),
        cmocka_unit_test(characters_come_whole),
        cmocka_unit_test(possible_stops_are_held),
        cmocka_unit_test(stop_inside_a_token),
        cmocka_unit_test(first_complete_stop_wins),
        cmocka_unit_test(stop_of_many_bytes),
        cmocka_unit_test(bad_stops_are_refused),
        cmocka_unit_test(shown_is_text_up_to_stop),
        cmocka_unit_test(long_stop_is_fast),
        cmocka_unit_test(answer_faults),
        cmocka_unit_test(finish_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
