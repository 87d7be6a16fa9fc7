/* Encoding and decoding on small vocabularies whose right answers can be seen: words,
 * special tokens, markup, blanks, bytes; and the merge engine against a plain twin.
 */
#include "small_vocab.h"

#include "base/error.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static counting memory; /* of the test, not of the library */

static ig_tokenizer *make(const small_vocab *s)
{
    const ig_allocator a = counting_allocator(&memory);
    ig_tokenizer *tk;
    ig_error err;
    if (ig__tokenizer_create(&tk, &a, &s->v, &err) != IG_OK)
        fail_msg("%s", err.message);
    return tk;
}

static void assert_ids(const ig_tokenizer *tk, const char *text, size_t n,
                       const ig_tokenize_opts *opts, const int32_t *want, int64_t n_want)
{
    ig_ids ids = {0};
    assert_int_equal(ig_tokenize(&ids, tk, text, n, opts, NULL), IG_OK);
    assert_int_equal(ids.n, n_want);
    for (int64_t i = 0; i < n_want; i++)
        assert_int_equal(ids.ids[i], want[i]);
    ig_ids_free(tk, &ids);
}

#define IDS(tk, text, opts, ...)                                                           \
    do {                                                                                   \
        const int32_t want_[] = {__VA_ARGS__};                                             \
        assert_ids(tk, text, strlen(text), opts, want_, sizeof want_ / sizeof *want_);     \
    } while (0)

static const ig_tokenize_opts plain = {.plain = true};
static const ig_tokenize_opts around = {.add_special = true};

static small_vocab vocab; /* large for a stack */

static void test_bpe_words(void **state)
{
    (void)state;
    small_bpe(&vocab);
    ig_tokenizer *tk = make(&vocab);
    assert_ids(tk, "", 0, NULL, NULL, 0);
    IDS(tk, "hello", NULL, 259);
    IDS(tk, "hello hello", NULL, 259, 260);
    IDS(tk, "hel", NULL, 256, 'l');
    IDS(tk, "hhello", NULL, 'h', 259);
    IDS(tk, "aaaaaaa", NULL, 267, 266, 'a'); /* equal ranks merge from the left */
    IDS(tk, "hello  hello", NULL, 259, ' ', 260);
    IDS(tk, "hello's", NULL, 259, '\'', 's');
    ig_tokenizer_close(tk);
    assert_int_equal(memory.n_live, 0);
}

static void test_special_tokens(void **state)
{
    (void)state;
    small_bpe(&vocab);
    ig_tokenizer *tk = make(&vocab);
    IDS(tk, "<s>hello<|im_end|>", NULL, 261, 259, 262);
    IDS(tk, "<|im_end|>x<|im_end|>y", NULL, 263, 262, 'y'); /* the longest at a place */
    IDS(tk, "<s>", &plain, '<', 's', '>');
    IDS(tk, "<<s>", NULL, '<', 261);
    IDS(tk, "<s", NULL, '<', 's');
    /* user-defined tokens are found in plain text too */
    IDS(tk, "[tool][to", &plain, 264, 265, 'o');
    IDS(tk, "[tool][to", NULL, 264, 265, 'o');
    /* of doubles the last is found, of each kind */
    const int32_t double_control = small_add(&vocab, "<s>", 3, 0);
    ig_tokenizer *doubles = make(&vocab);
    IDS(doubles, "<s>", NULL, double_control);
    ig_tokenizer_close(doubles);
    small_add(&vocab, "<s>", 4, 0);
    const int32_t double_user = small_add(&vocab, "<s>", 4, 0);
    doubles = make(&vocab);
    IDS(doubles, "<s>", &plain, double_user);
    ig_tokenizer_close(doubles);
    /* BOS goes in front once */
    small_bpe(&vocab);
    vocab.v.add_bos = vocab.v.add_eos = true;
    ig_tokenizer *adds = make(&vocab);
    IDS(adds, "hello", &around, 261, 259, 262);
    IDS(adds, "<s>hello", &around, 261, 259, 262);
    IDS(adds, "", &around, 261, 262);
    IDS(adds, "hello", NULL, 259);
    IDS(tk, "hello", &around, 259);
    assert_true(ig_tokenizer_adds_bos(adds));
    assert_false(ig_tokenizer_adds_bos(tk));
    ig_tokenizer_close(adds);
    ig_tokenizer_close(tk);
}

static void test_markup_is_all_or_nothing(void **state)
{
    (void)state;
    small_bpe(&vocab);
    ig_tokenizer *tk = make(&vocab);
    const char *text = "<|im_end|>[t<|im_end|>x";
    const size_t n = strlen(text);
    uint8_t markup[32] = {0};
    ig_ids ids = {0};
    memset(markup, 1, n);
    assert_int_equal(ig__tokenize_marked(&ids, tk, text, markup, n, NULL), IG_OK);
    const int32_t all[] = {262, 265, 263};
    assert_int_equal(ids.n, 3);
    assert_memory_equal(ids.ids, all, sizeof all);
    ids.n = 0;
    markup[n - 1] = 0; /* the longer token has a byte that is no markup: the shorter */
    assert_int_equal(ig__tokenize_marked(&ids, tk, text, markup, n, NULL), IG_OK);
    const int32_t shorter[] = {262, 265, 262, 'x'};
    assert_int_equal(ids.n, 4);
    assert_memory_equal(ids.ids, shorter, sizeof shorter);
    for (size_t i = 0; i < 10; i++) { /* any one byte of ten that is no markup */
        memset(markup, 1, n);
        markup[i] = 0;
        ids.n = 0;
        assert_int_equal(ig__tokenize_marked(&ids, tk, text, markup, n, NULL), IG_OK);
        assert_int_equal(ids.n, 12);
        assert_int_equal(ids.ids[0], '<');
        assert_int_equal(ids.ids[11], 263);
    }
    ids.n = 0;
    assert_int_equal(ig__tokenize_marked(&ids, tk, text, NULL, n, NULL), IG_OK);
    assert_int_equal(ids.n, 22); /* one user-defined token, else bytes */
    ig_ids_free(tk, &ids);
    ig_tokenizer_close(tk);
}

static void assert_round_trip(const ig_tokenizer *tk, const char *text, size_t n)
{
    ig_ids ids = {0};
    char *back;
    size_t n_back;
    assert_int_equal(ig_tokenize(&ids, tk, text, n, &plain, NULL), IG_OK);
    assert_int_equal(ig_detokenize(&back, &n_back, tk, ids.ids, ids.n, false, NULL), IG_OK);
    assert_int_equal(n_back, n);
    assert_memory_equal(back, text, n);
    assert_int_equal(back[n], 0);
    ig_text_free(tk, back);
    ig_ids_free(tk, &ids);
}

static const char *const pres[] = {NULL,     "default",   "gpt-2",
                                   "smollm", "llama-bpe", "qwen2"};

static void test_any_bytes_survive(void **state)
{
    (void)state;
    char text[600];
    for (size_t p = 0; p < sizeof pres / sizeof *pres; p++) {
        small_bpe(&vocab);
        vocab.v.pre = pres[p];
        ig_tokenizer *tk = make(&vocab);
        uint32_t random = 1;
        for (size_t n = 0; n < sizeof text; n += 1 + n / 3) {
            for (size_t i = 0; i < n; i++) {
                random = random * 1664525u + 1013904223u;
                text[i] = (char)(random >> 24);
            }
            assert_round_trip(tk, text, n);
        }
        assert_round_trip(tk, "\0\0a\0", 4);
        assert_round_trip(tk,
                          "\xff\xc3 \xe4"
                          "ab\xf0\x9f",
                          8);
        ig_tokenizer_close(tk);
    }
}

/* Bytes that are not valid do not change how the rest is cut. */
static void test_bad_bytes_are_signs(void **state)
{
    (void)state;
    small_bpe(&vocab);
    ig_tokenizer *tk = make(&vocab);
    IDS(tk, "\xffhello\xc3 hello", NULL, 0xff, 259, 0xc3, 260);
    ig_tokenizer_close(tk);
    small_add(&vocab, "lÿ", 1, 0); /* byte ff is "ÿ": merges in a word, but there is none */
    small_merge(&vocab, "l ÿ");
    tk = make(&vocab);
    IDS(tk, "l\xff", NULL, 'l', 0xff);
    ig_tokenizer_close(tk);
}

static void test_whole_words(void **state)
{
    (void)state;
    small_bpe(&vocab);
    const int32_t odd = small_add(&vocab, "xyz", 1, 0); /* no merge makes it */
    const int32_t control = small_add(&vocab, "qq", 3, 0);
    ig_tokenizer *tk = make(&vocab);
    IDS(tk, "xyz", NULL, 'x', 'y', 'z');
    ig_tokenizer_close(tk);
    vocab.v.pre = "llama-bpe";
    tk = make(&vocab);
    IDS(tk, "xyz", NULL, odd);
    IDS(tk, "xyzz", NULL, 'x', 'y', 'z', 'z');
    IDS(tk, "qq", NULL, control);
    IDS(tk, "qq", &plain, 'q', 'q'); /* never by way of a word */
    ig_tokenizer_close(tk);
}

static void test_split_rules(void **state)
{
    (void)state;
    /* with the merge "1 1", "Ġ 1" and "1 Ġ" one sees where words end */
    small_bpe(&vocab);
    const int32_t ones = small_add(&vocab, "11", 1, 0);
    const int32_t blank_one = small_add(&vocab, "Ġ1", 1, 0);
    const int32_t lines = small_add(&vocab, "!Ċ", 1, 0);
    small_merge(&vocab, "1 1");
    small_merge(&vocab, "Ġ 1");
    small_merge(&vocab, "! Ċ");
    const struct {
        const char *pre, *text;
        int32_t want[6];
        int n;
    } cases[] = {
        {"gpt-2", "1111", {ones, ones}, 2},
        {"smollm", "11", {'1', '1'}, 2},
        {"smollm", " 1", {' ', '1'}, 2},
        {"gpt-2", " 1", {blank_one}, 1},
        {"qwen2", "11", {'1', '1'}, 2},
        {"llama-bpe", "1111", {ones, '1', '1'}, 3}, /* three digits, then one */
        {"gpt-2", "!\n", {'!', '\n'}, 2},
        {"llama-bpe", "!\n", {lines}, 1},
        {"qwen2", "!\n", {lines}, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        vocab.v.pre = cases[i].pre;
        ig_tokenizer *tk = make(&vocab);
        assert_ids(tk, cases[i].text, strlen(cases[i].text), NULL, cases[i].want,
                   cases[i].n);
        ig_tokenizer_close(tk);
    }
}

static void test_spm_words(void **state)
{
    (void)state;
    small_spm(&vocab);
    ig_tokenizer *tk = make(&vocab);
    assert_ids(tk, "", 0, NULL, NULL, 0);
    IDS(tk, "ab", NULL, 264);
    IDS(tk, " ab", NULL, 259, 264);
    IDS(tk, "a", NULL, 263);
    IDS(tk, "é", NULL, 259, 265);
    IDS(tk, "\xff", NULL, 259, 3 + 0xff);
    IDS(tk, "€", NULL, 259, 3 + 0xe2, 3 + 0x82, 3 + 0xac);
    IDS(tk, "▁ab", NULL, 259, 264); /* a written U+2581 is a blank */
    IDS(tk, "<s>ab</s>", NULL, 1, 264, 2);
    IDS(tk, "<unk>", NULL, 0);
    IDS(tk, "b[u]b", &plain, 259, 261, 266, 259, 261);
    IDS(tk, "ab", &around, 1, 264);
    IDS(tk, "<0x41>", &plain, 259, 3 + '<', 3 + '0', 3 + 'x', 3 + '4', 3 + '1', 3 + '>');
    ig_tokenizer_close(tk);
    vocab.v.add_space_prefix = false;
    tk = make(&vocab);
    IDS(tk, "ab ab", NULL, 262, 264);
    assert_round_trip(tk, " ab", 3);
    ig_tokenizer_close(tk);
    assert_int_equal(memory.n_live, 0);
}

static void test_spm_round_trip(void **state)
{
    (void)state;
    small_spm(&vocab);
    ig_tokenizer *tk = make(&vocab);
    const char *const texts[] = {"", " ", "  ", "ab", " ab", "  ab  ", "a\377b", "é [u] x"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts - 1; i++)
        assert_round_trip(tk, texts[i], strlen(texts[i]));
    char *text;
    size_t n;
    const int32_t ids[] = {1, 264, 264, 2}; /* control tokens are silent, or shown */
    assert_int_equal(ig_detokenize(&text, &n, tk, ids, 4, false, NULL), IG_OK);
    assert_string_equal(text, "ab ab");
    ig_text_free(tk, text);
    assert_int_equal(ig_detokenize(&text, &n, tk, ids, 4, true, NULL), IG_OK);
    assert_string_equal(text, "<s> ab ab</s>");
    ig_text_free(tk, text);
    ig_tokenizer_close(tk);
}

static void test_token_bytes(void **state)
{
    (void)state;
    small_bpe(&vocab);
    ig_tokenizer *tk = make(&vocab);
    char bytes[16] = "................";
    assert_int_equal(ig_token_bytes(tk, 260, false, bytes, sizeof bytes), 6);
    assert_memory_equal(bytes, " hello.", 7);
    assert_int_equal(ig_token_bytes(tk, 259, false, bytes, 2), 5); /* cut, not overrun */
    assert_memory_equal(bytes, "heello.", 7);
    assert_int_equal(ig_token_bytes(tk, 259, false, NULL, 0), 5);
    assert_int_equal(ig_token_bytes(tk, 262, false, bytes, sizeof bytes), 0);
    assert_int_equal(ig_token_bytes(tk, 262, true, bytes, sizeof bytes), 10);
    assert_memory_equal(bytes, "<|im_end|>", 10);
    assert_int_equal(ig_token_bytes(tk, 264, false, bytes, sizeof bytes), 6);
    assert_int_equal(ig_token_bytes(tk, -1, true, bytes, sizeof bytes), 0);
    assert_int_equal(ig_token_bytes(tk, 268, true, bytes, sizeof bytes), 0);
    assert_int_equal(ig_token_bytes(tk, 0xf0, false, bytes, sizeof bytes), 1);
    assert_int_equal((uint8_t)bytes[0], 0xf0);
    assert_int_equal(ig_tokenizer_vocab(tk), 268);
    assert_int_equal(ig_tokenizer_bos(tk), 261);
    assert_int_equal(ig_tokenizer_eos(tk), 262);
    ig_tokenizer_close(tk);
}

/* Merging as it is defined: of all neighbours that a rule joins take that of the lowest
 * rank, the leftmost of equals, until there is none. */
static int64_t plain_merge(int32_t *ids, int64_t n, const int32_t (*pairs)[3], int n_pairs)
{
    for (;;) {
        int64_t at = -1;
        int best = n_pairs;
        for (int64_t i = 0; i + 1 < n; i++)
            for (int k = 0; k < best; k++)
                if (pairs[k][0] == ids[i] && pairs[k][1] == ids[i + 1]) {
                    best = k;
                    at = i;
                }
        if (at < 0)
            return n;
        ids[at] = pairs[best][2];
        memmove(ids + at + 1, ids + at + 2, (size_t)(n - at - 2) * sizeof *ids);
        n--;
    }
}

static uint32_t next_random(uint32_t *random)
{
    *random = *random * 1664525u + 1013904223u;
    return *random >> 8;
}

static void test_bpe_merges_as_defined(void **state)
{
    (void)state;
    uint32_t random = 7;
    for (int round = 0; round < 40; round++) {
        small_bpe(&vocab);
        vocab.v.n_tokens = 256;
        vocab.v.n_merges = 0;
        vocab.v.bos = vocab.v.eos = -1;
        int32_t pairs[40][3], made[64] = {'a', 'b', 'c'};
        int n_pairs = 0, n_made = 3;
        while (n_pairs < 40) {
            const int32_t left = made[next_random(&random) % (unsigned)n_made];
            const int32_t right = made[next_random(&random) % (unsigned)n_made];
            const ig__token_text l = vocab.tokens[left], r = vocab.tokens[right];
            char name[128], line[128];
            if (l.n + r.n > 24)
                continue;
            snprintf(name, sizeof name, "%.*s%.*s", (int)l.n, l.bytes, (int)r.n, r.bytes);
            snprintf(line, sizeof line, "%.*s %.*s", (int)l.n, l.bytes, (int)r.n, r.bytes);
            int32_t id = -1;
            for (int64_t i = 256; i < vocab.v.n_tokens; i++)
                if (vocab.tokens[i].n == strlen(name) &&
                    memcmp(vocab.tokens[i].bytes, name, strlen(name)) == 0)
                    id = (int32_t)i;
            if (id < 0) {
                id = small_add(&vocab, name, 1, 0);
                made[n_made++] = id;
            }
            small_merge(&vocab, line);
            memcpy(pairs[n_pairs++], (int32_t[3]){left, right, id}, sizeof pairs[0]);
        }
        ig_tokenizer *tk = make(&vocab);
        for (size_t n = 1; n < 120; n += 7) {
            char text[128];
            int32_t want[128];
            for (size_t i = 0; i < n; i++)
                want[i] = text[i] = (char)('a' + next_random(&random) % 3);
            const int64_t n_want = plain_merge(want, (int64_t)n, pairs, n_pairs);
            assert_ids(tk, text, n, NULL, want, n_want);
        }
        ig_tokenizer_close(tk);
    }
}

/* -3 to 3, among them 0 and -0, which are equal. */
static float score_of(uint32_t random)
{
    const float size = (float)(random % 4);
    return random & 64 ? size : -size;
}

/* The same for SentencePiece over whole texts, blanks and characters of two bytes included:
 * cutting texts where no token reaches across must not show. */
static void test_spm_merges_as_defined(void **state)
{
    (void)state;
    static const char *const letters[] = {"a", "b", "▁", "é"};
    uint32_t random = 11;
    for (int round = 0; round < 40; round++) {
        small_init(&vocab, "llama");
        for (int i = 0; i < 4; i++)
            small_add(&vocab, letters[i], 1, -1000);
        while (vocab.v.n_tokens < 30) { /* strings of 2 to 5 letters */
            char name[32] = "";
            for (unsigned k = 2 + next_random(&random) % 4; k > 0; k--)
                strcat(name, letters[next_random(&random) % (round % 2 ? 4 : 3)]);
            bool known = false;
            for (int64_t i = 0; i < vocab.v.n_tokens; i++)
                known = known || (vocab.tokens[i].n == strlen(name) &&
                                  memcmp(vocab.tokens[i].bytes, name, strlen(name)) == 0);
            if (!known)
                small_add(&vocab, name, 1, score_of(next_random(&random)));
        }
        ig_tokenizer *tk = make(&vocab);
        for (int n = 1; n < 60; n += 3) {
            char text[256] = "";
            int32_t ids[64], n_ids = n;
            for (int i = 0; i < n; i++) {
                ids[i] = (int32_t)(next_random(&random) % 4);
                strcat(text, ids[i] == 2 ? " " : letters[ids[i]]);
            }
            for (;;) { /* join the neighbours with the highest score, the leftmost first */
                int at = -1;
                int32_t best = -1;
                for (int i = 0; i + 1 < n_ids; i++) {
                    char both[64];
                    const ig__token_text l = vocab.tokens[ids[i]];
                    const ig__token_text r = vocab.tokens[ids[i + 1]];
                    const int n_both = snprintf(both, sizeof both, "%.*s%.*s", (int)l.n,
                                                l.bytes, (int)r.n, r.bytes);
                    for (int32_t id = 0; id < vocab.v.n_tokens; id++)
                        if (vocab.tokens[id].n == (size_t)n_both &&
                            memcmp(vocab.tokens[id].bytes, both, (size_t)n_both) == 0 &&
                            (at < 0 || vocab.scores[id] > vocab.scores[best])) {
                            at = i;
                            best = id;
                        }
                }
                if (at < 0)
                    break;
                ids[at] = best;
                for (int i = at + 1; i + 1 < n_ids; i++)
                    ids[i] = ids[i + 1];
                n_ids--;
            }
            assert_ids(tk, text, strlen(text), NULL, ids, n_ids);
        }
        ig_tokenizer_close(tk);
    }
}

static void test_appends(void **state)
{
    (void)state;
    small_bpe(&vocab);
    ig_tokenizer *tk = make(&vocab);
    ig_ids ids = {0};
    for (int i = 0; i < 100; i++)
        assert_int_equal(ig_tokenize(&ids, tk, "hello hel", 9, NULL, NULL), IG_OK);
    assert_int_equal(ids.n, 400);
    for (int64_t i = 0; i < 400; i += 4)
        assert_int_equal(ids.ids[i], 259);
    ig_ids_free(tk, &ids);
    assert_null(ids.ids);
    ig_ids_free(tk, &ids);
    ig_tokenizer_close(tk);
    ig_tokenizer_close(NULL);
    assert_int_equal(memory.n_live, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bpe_words),
        cmocka_unit_test(test_special_tokens),
        cmocka_unit_test(test_markup_is_all_or_nothing),
        cmocka_unit_test(test_any_bytes_survive),
        cmocka_unit_test(test_bad_bytes_are_signs),
        cmocka_unit_test(test_whole_words),
        cmocka_unit_test(test_split_rules),
        cmocka_unit_test(test_spm_words),
        cmocka_unit_test(test_spm_round_trip),
        cmocka_unit_test(test_token_bytes),
        cmocka_unit_test(test_bpe_merges_as_defined),
        cmocka_unit_test(test_spm_merges_as_defined),
        cmocka_unit_test(test_appends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
