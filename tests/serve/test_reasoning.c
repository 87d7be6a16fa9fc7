#include "serve/reasoning.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

typedef struct both {
    char content[256], reasoning[256];
    size_t n_content, n_reasoning;
} both;

static void take(void *user, bool reasoning, const char *bytes, size_t n)
{
    both *to = user;
    char *at = reasoning ? to->reasoning + to->n_reasoning : to->content + to->n_content;
    memcpy(at, bytes, n);
    at[n] = 0;
    *(reasoning ? &to->n_reasoning : &to->n_content) += n;
}

/* In pieces of every size, the same comes out. */
static void splits(const char *text, const char *reasoning, const char *content)
{
    const size_t n = strlen(text);
    for (size_t piece = 1; piece <= n; piece++) {
        ig__reasoning r = {.state = IG_REASONING_START};
        both to = {.n_content = 0};
        for (size_t i = 0; i < n; i += piece)
            ig__reasoning_push(&r, text + i, n - i < piece ? n - i : piece, take, &to);
        ig__reasoning_flush(&r, take, &to);
        assert_string_equal(to.reasoning, reasoning);
        assert_string_equal(to.content, content);
    }
}

static void cases(void **state)
{
    (void)state;
    splits("Hello", "", "Hello");
    splits("<think>why</think>\n\nbecause", "why", "because");
    splits(" \n<think>\nwhy\n</think>a", "\nwhy\n", "a");
    splits("<think></think>", "", "");
    splits("<think>never ends", "never ends", "");
    splits("<think>a<</think>b", "a<", "b");
    splits("<think>a</thin</think>b", "a</thin", "b");
    splits("<think>a</thi", "a</thi", "");
    splits("<thin", "", "<thin");
    splits("<thinking>x", "", "<thinking>x");
    splits("  a", "", "  a");
    splits("a<think>b</think>", "", "a<think>b</think>");
    splits("<think>a</think>b<think>c</think>", "a", "b<think>c</think>");
    splits("                        <think>", "", "                        <think>");
    splits("<think>\xc3\xa9</think>\xc3\xa9", "\xc3\xa9", "\xc3\xa9");
}

/* What cannot become a mark any more leaves at once. */
static void nothing_waits(void **state)
{
    (void)state;
    ig__reasoning r = {.state = IG_REASONING_START};
    both to = {.n_content = 0};
    ig__reasoning_push(&r, "H", 1, take, &to);
    assert_string_equal(to.content, "H");
    ig__reasoning_push(&r, "<", 1, take, &to);
    assert_string_equal(to.content, "H<");
    r = (ig__reasoning){.state = IG_REASONING_START};
    ig__reasoning_push(&r, "<think>ab<c", 11, take, &to);
    assert_string_equal(to.reasoning, "ab<c");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(cases),
                                       cmocka_unit_test(nothing_waits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
