/* Making tokenizers: hostile arrays, failing memory, which tokens end an answer, and that
 * neither long words nor large vocabularies take long.
 */
#include "small_vocab.h"

#include "base/clock.h"
#include "base/error.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static small_vocab vocab; /* large for a stack */
static counting memory;

static ig_status create(ig_tokenizer **tk, const small_vocab *s, ig_error *err)
{
    const ig_allocator a = counting_allocator(&memory);
    return ig__tokenizer_create(tk, &a, &s->v, err);
}

static void assert_refused(ig_status want, const char *words)
{
    ig_tokenizer *tk = (ig_tokenizer *)&vocab;
    ig_error err = {0};
    assert_int_equal(create(&tk, &vocab, &err), want);
    assert_null(tk);
    if (!strstr(err.message, words))
        fail_msg("'%s' not in '%s'", words, err.message);
    assert_int_equal(memory.n_live, 0);
}

static void test_bad_arrays_are_refused(void **state)
{
    (void)state;
    small_bpe(&vocab);
    vocab.v.model = "bert";
    assert_refused(IG_ERR_UNSUPPORTED, "'bert'");
    vocab.v.model = NULL;
    assert_refused(IG_ERR_UNSUPPORTED, "model");
    small_bpe(&vocab);
    vocab.v.pre = "made-up";
    assert_refused(IG_ERR_UNSUPPORTED, "'made-up'");
    small_bpe(&vocab);
    vocab.v.n_tokens = 0;
    assert_refused(IG_ERR_FORMAT, "no tokens");
    vocab.v.n_tokens = -5;
    assert_refused(IG_ERR_FORMAT, "no tokens");
    vocab.v.n_tokens = INT64_MAX;
    assert_refused(IG_ERR_LIMIT, "limit");
    small_bpe(&vocab);
    vocab.v.n_merges = -1;
    assert_refused(IG_ERR_LIMIT, "merges");
    vocab.v.n_merges = INT64_MAX;
    assert_refused(IG_ERR_LIMIT, "merges");
    int64_t *const ids[] = {&vocab.v.bos, &vocab.v.eos, &vocab.v.unk, &vocab.v.pad,
                            &vocab.v.eot};
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        const int64_t bad[] = {268, INT64_MAX, -2, INT64_MIN};
        for (size_t k = 0; k < 4; k++) {
            small_bpe(&vocab);
            *ids[i] = bad[k];
            assert_refused(IG_ERR_FORMAT, "token is");
        }
    }
    small_bpe(&vocab);
    vocab.tokens[3].n = SIZE_MAX; /* lengths that overflow, before any byte is read */
    assert_refused(IG_ERR_LIMIT, "bytes together");
}

static int64_t count_ids(const ig_tokenizer *tk, const char *text, bool is_plain)
{
    ig_ids ids = {0};
    const ig_tokenize_opts opts = {.plain = is_plain, .add_special = true};
    assert_int_equal(ig_tokenize(&ids, tk, text, strlen(text), &opts, NULL), IG_OK);
    for (int64_t i = 0; i < ids.n; i++)
        assert_in_range(ids.ids[i], 0, ig_tokenizer_vocab(tk) - 1);
    const int64_t n = ids.n;
    ig_ids_free(tk, &ids);
    return n;
}

static void test_odd_arrays_are_harmless(void **state)
{
    (void)state;
    const char *const merges[] = {"",       " ",      "  ",      "h",         "h ",
                                  " e",     "he llo", "nope he", "h e extra", "\xff \xfe",
                                  "<s> he", "Ā Ā",    "€ €"};
    small_bpe(&vocab);
    vocab.v.n_merges = 0;
    for (size_t i = 0; i < sizeof merges / sizeof *merges; i++)
        small_merge(&vocab, merges[i]);
    small_add(&vocab, "", 1, 0);
    small_add(&vocab, "", 3, 0);
    small_add(&vocab, "", 4, 0);
    small_add(&vocab, "€uro", 1, 0); /* outside the alphabet of bytes */
    small_add(&vocab, "\xc4", 1, 0); /* a cut character */
    small_add(&vocab, "<s>", 3, 0);  /* a double */
    small_add(&vocab, "<s>", 4, 0);  /* and one of another kind */
    const int32_t strange = small_add(&vocab, "strange", 77, 0);
    ig_tokenizer *tk;
    assert_int_equal(create(&tk, &vocab, NULL), IG_OK);
    assert_int_equal(count_ids(tk, "hello <s> €uro", false), 14);
    assert_false(ig_token_is_control(tk, strange));
    assert_int_equal(ig_token_bytes(tk, strange, false, NULL, 0), 7);
    ig_tokenizer_close(tk);

    small_init(&vocab, "gpt2"); /* one token, no bytes: all text is lost, nothing else */
    small_add(&vocab, "x", 1, 0);
    assert_int_equal(create(&tk, &vocab, NULL), IG_OK);
    assert_int_equal(count_ids(tk, "axbx", false), 2);
    ig_tokenizer_close(tk);
    vocab.v.unk = small_add(&vocab, "?", 2, 0);
    assert_int_equal(create(&tk, &vocab, NULL), IG_OK);
    assert_int_equal(count_ids(tk, "axbx", false), 4);
    ig_tokenizer_close(tk);
    vocab.types[1] = 3; /* text never makes a control token */
    assert_int_equal(create(&tk, &vocab, NULL), IG_OK);
    assert_int_equal(count_ids(tk, "axbx", true), 2);
    ig_tokenizer_close(tk);

    small_spm(&vocab);
    vocab.scores[262] = -__builtin_nanf("");
    vocab.scores[263] = __builtin_inff();
    vocab.scores[264] = -__builtin_inff();
    small_add(&vocab, "<0xZZ>", 6, 0);
    small_add(&vocab, "", 6, 0);
    assert_int_equal(create(&tk, &vocab, NULL), IG_OK);
    assert_int_equal(count_ids(tk, "ab abab", false), 4); /* BOS, ▁ab, ▁ab, ab */
    ig_tokenizer_close(tk);
    vocab.v.types = NULL; /* bytes are then found by their names */
    vocab.v.scores = NULL;
    assert_int_equal(create(&tk, &vocab, NULL), IG_OK);
    assert_int_equal(count_ids(tk, "\xff", false), 3);
    ig_tokenizer_close(tk);
    assert_int_equal(memory.n_live, 0);
}

static void test_ends(void **state)
{
    (void)state;
    small_bpe(&vocab);
    const int32_t normal = small_add(&vocab, "<|eot_id|>", 1, 0);
    const int32_t turn = small_add(&vocab, "<end_of_turn>", 3, 0);
    const int32_t text = small_add(&vocab, "<|endoftext|>", 3, 0);
    const int32_t other = small_add(&vocab, "<|im_start|>", 3, 0);
    vocab.v.eos = 'e'; /* whatever the file says */
    vocab.v.eot = 't';
    ig_tokenizer *tk;
    assert_int_equal(create(&tk, &vocab, NULL), IG_OK);
    assert_true(ig_token_is_end(tk, turn));
    assert_true(ig_token_is_end(tk, text));
    assert_true(ig_token_is_end(tk, 262)); /* <|im_end|> */
    assert_true(ig_token_is_end(tk, 'e'));
    assert_true(ig_token_is_end(tk, 't'));
    assert_false(ig_token_is_end(tk, normal)); /* named so, but no control token */
    assert_false(ig_token_is_end(tk, other));
    assert_false(ig_token_is_end(tk, -1));
    assert_false(ig_token_is_end(tk, 1 << 20));
    assert_true(ig_token_is_control(tk, other));
    assert_false(ig_token_is_control(tk, 'e'));
    assert_false(ig_token_is_control(tk, -1));
    assert_false(ig_token_is_control(tk, 1 << 20));
    ig_tokenizer_close(tk);
}

/* Every allocation fails once, in making, encoding and decoding. */
static void test_memory_faults(void **state)
{
    (void)state;
    const char *text = "hello \xff<s> hello[tool] aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa "
                       "abababab <|im_end|> the rest of it is long enough to grow the ids";
    for (int model = 0; model < 2; model++) {
        bool failed = true;
        int64_t n_failed = 0;
        for (int64_t at = 1; failed; at++) {
            model ? small_spm(&vocab) : small_bpe(&vocab);
            vocab.v.pre = "smollm";
            memory = (counting){.fail_at = at};
            ig_tokenizer *tk;
            ig_ids ids = {0};
            char *back = NULL;
            size_t n_back;
            ig_status status = create(&tk, &vocab, NULL);
            if (status == IG_OK) {
                status = ig_tokenize(&ids, tk, "hello", 5, NULL, NULL);
                const int64_t n_before = ids.n;
                if (status == IG_OK) {
                    status = ig_tokenize(&ids, tk, text, strlen(text), NULL, NULL);
                    if (status != IG_OK)
                        assert_int_equal(ids.n, n_before);
                }
                if (status == IG_OK) { /* into a list of its own, which must grow */
                    ig_ids marked = {0};
                    status =
                        ig__tokenize_marked(&marked, tk, text, NULL, strlen(text), NULL);
                    assert_true(status == IG_OK || marked.n == 0);
                    ig_ids_free(tk, &marked);
                }
                if (status == IG_OK)
                    status = ig_detokenize(&back, &n_back, tk, ids.ids, ids.n, true, NULL);
                if (status == IG_OK && model == 0) /* the other adds blanks */
                    assert_int_equal(n_back, strlen(text) + 5);
                ig_text_free(tk, back);
                ig_ids_free(tk, &ids);
            }
            ig_tokenizer_close(tk);
            assert_int_equal(memory.n_live, 0);
            failed = memory.n_calls >= at;
            n_failed += status != IG_OK;
            /* the one failure that is borne: no machine code for a split rule */
            assert_true(status == IG_ERR_MEMORY || status == IG_OK);
        }
        assert_in_range(n_failed, 12, 200);
    }
    memory = (counting){0};
}

static double seconds_for(const ig_tokenizer *tk, const char *text, size_t n,
                          int64_t *n_ids_out)
{
    ig_ids ids = {0};
    const int64_t begin = ig__now_ns();
    assert_int_equal(ig_tokenize(&ids, tk, text, n, NULL, NULL), IG_OK);
    const double seconds = (double)(ig__now_ns() - begin) * 1e-9;
    *n_ids_out = ids.n;
    ig_ids_free(tk, &ids);
    return seconds;
}

/* Ten times what is wanted: a scan per byte would take minutes. */
static void test_long_texts_are_fast(void **state)
{
    (void)state;
    const size_t n = 100000;
    char *text = malloc(n);
    int64_t n_ids;
    for (int model = 0; model < 2; model++) {
        model ? small_spm(&vocab) : small_bpe(&vocab);
        char many[256];
        memset(many, 'a', 255);
        many[255] = 0;
        for (int i = 3; i < 250; i += 31) /* specials that are almost found everywhere */
            small_add(&vocab, many + i, 3, 0);
        many[254] = 'b';
        small_add(&vocab, many, 3, 0);
        if (model)
            small_add(&vocab, "aa", 1, -1);
        ig_tokenizer *tk;
        assert_int_equal(create(&tk, &vocab, NULL), IG_OK);
        const char *const fills[] = {"a", " ", "\n", "ab", " \n", "\xff", "é"};
        for (size_t f = 0; f < sizeof fills / sizeof *fills; f++) {
            const size_t n_fill = strlen(fills[f]);
            for (size_t i = 0; i < n; i++)
                text[i] = fills[f][i % n_fill];
            assert_true(seconds_for(tk, text, n, &n_ids) < 5.0);
            assert_in_range(n_ids, n / 300, n + 1);
        }
        ig_tokenizer_close(tk);
    }
    free(text);
}

static void test_large_vocabularies_are_fast(void **state)
{
    (void)state;
    const int64_t n = 262144;
    ig__token_text *tokens = malloc((size_t)n * sizeof *tokens);
    char *names = malloc((size_t)n * 8);
    int32_t *types = malloc((size_t)n * sizeof *types);
    for (int64_t i = 0; i < n; i++) {
        const int n_name = snprintf(names + i * 8, 8, "%llx", (unsigned long long)i);
        tokens[i] = (ig__token_text){names + i * 8, (size_t)n_name};
        types[i] = i % 40 ? 1 : 3;
    }
    ig__vocab v = {.model = "llama",
                   .tokens = tokens,
                   .types = types,
                   .n_tokens = n,
                   .bos = -1,
                   .eos = -1,
                   .unk = -1,
                   .pad = -1,
                   .eot = -1};
    const ig_allocator a = counting_allocator(&memory);
    for (int round = 0; round < 3; round++) {
        const int64_t begin = ig__now_ns();
        ig_tokenizer *tk;
        assert_int_equal(ig__tokenizer_create(&tk, &a, &v, NULL), IG_OK);
        assert_true(ig__now_ns() - begin < 4000000000); /* 40 ms wanted; sanitizers */
        ig_tokenizer_close(tk);
        for (int64_t i = 0; round == 0 && i < n; i++) /* all the same; then all special */
            tokens[i] = tokens[7];
        for (int64_t i = 0; round == 1 && i < n; i++)
            types[i] = 3;
    }
    assert_int_equal(memory.n_live, 0);
    free(types);
    free(names);
    free(tokens);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bad_arrays_are_refused),
        cmocka_unit_test(test_odd_arrays_are_harmless),
        cmocka_unit_test(test_ends),
        cmocka_unit_test(test_memory_faults),
        cmocka_unit_test(test_long_texts_are_fast),
        cmocka_unit_test(test_large_vocabularies_are_fast),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
