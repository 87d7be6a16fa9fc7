/* Public vocabularies: the ids of the reference, text by text. The files lie beside the
 * checkout or where INGOT_TEST_MODEL_DIR says; a test without its file is skipped.
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "format/gguf.h"
#include "infer/vocab_load.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static ig_tokenizer *open_vocab(const char *path)
{
    const ig_allocator a = ig__allocator_default();
    ig__gguf *gguf;
    ig_tokenizer *tk;
    ig_error err;
    if (ig__gguf_open(&gguf, &a, path, &err) != IG_OK)
        fail_msg("%s", err.message);
    if (ig__tokenizer_from_gguf(&tk, gguf, &a, &err) != IG_OK)
        fail_msg("%s", err.message);
    ig__gguf_close(gguf);
    return tk;
}

/* A whole file and a 0 behind it; NULL: absent. */
static char *read_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        return NULL;
    fseek(f, 0, SEEK_END);
    const long n = ftell(f);
    rewind(f);
    char *text = malloc((size_t)n + 1);
    assert_int_equal(fread(text, 1, (size_t)n, f), n);
    text[n] = 0;
    fclose(f);
    return text;
}

static void assert_round_trip(const ig_tokenizer *tk, const ig_ids *ids, const char *text,
                              size_t n)
{
    char *back;
    size_t n_back;
    assert_int_equal(ig_detokenize(&back, &n_back, tk, ids->ids, ids->n, true, NULL),
                     IG_OK);
    assert_int_equal(n_back, n);
    assert_memory_equal(back, text, n);
    ig_text_free(tk, back);
}

/* The ids of text[0..n) are those in the line, and they lead back. */
static void assert_line(const ig_tokenizer *tk, const char *text, size_t n,
                        const char *line, bool plain)
{
    ig_ids ids = {0};
    const ig_tokenize_opts opts = {.plain = plain};
    assert_int_equal(ig_tokenize(&ids, tk, text, n, &opts, NULL), IG_OK);
    for (int64_t i = 0; i < ids.n; i++) {
        char *end;
        const long want = strtol(line, &end, 10);
        if (end == line || want != ids.ids[i])
            fail_msg("'%.*s': id %lld is %d, wanted %ld", (int)n, text, (long long)i,
                     ids.ids[i], want);
        line = end;
    }
    while (*line == ' ')
        line++;
    if (*line != '\n' && *line != 0)
        fail_msg("'%.*s': ids missing: %.40s", (int)n, text, line);
    assert_round_trip(tk, &ids, text, n);
    ig_ids_free(tk, &ids);
}

static void check_golden(const char *name)
{
    static const char mark[] = "\n__ggml_vocab_test__\n";
    char path[512];
    snprintf(path, sizeof path, "%s/tokenizers/ggml-vocab-%s.gguf.inp", IG_SHARED_DATA,
             name);
    char *texts = read_file(path);
    snprintf(path, sizeof path, "%s/tokenizers/ggml-vocab-%s.gguf.out", IG_SHARED_DATA,
             name);
    char *lines = read_file(path);
    if (!texts || !lines) {
        print_message("skipped: no %s\n", path);
        free(texts);
        free(lines);
        skip();
    }
    path[strlen(path) - strlen(".out")] = 0;
    ig_tokenizer *tk = open_vocab(path);
    const char *line = lines;
    int n_texts = 0;
    for (const char *text = texts, *end; (end = strstr(text, mark)); n_texts++) {
        assert_line(tk, text, (size_t)(end - text), line, false);
        text = end + strlen(mark);
        const char *newline = strchr(line, '\n');
        line = newline ? newline + 1 : line + strlen(line);
    }
    assert_int_equal(n_texts, 46);
    ig_tokenizer_close(tk);
    free(texts);
    free(lines);
}

static void test_gpt_2(void **state)
{
    (void)state;
    check_golden("gpt-2");
}

static void test_llama_bpe(void **state)
{
    (void)state;
    check_golden("llama-bpe");
}

static void test_llama_spm(void **state)
{
    (void)state;
    check_golden("llama-spm");
}

static void test_qwen2(void **state)
{
    (void)state;
    check_golden("qwen2");
}

/* SmolLM2 is only in its model's file. */
static ig_tokenizer *open_smollm2(void)
{
    const char *dir = getenv("INGOT_TEST_MODEL_DIR");
    char path[1024];
    snprintf(path, sizeof path, "%s/SmolLM2-135M-Instruct.Q4_1.gguf", dir ? dir : "");
    FILE *f = dir ? fopen(path, "rb") : NULL;
    if (!f) {
        print_message("skipped: no %s in INGOT_TEST_MODEL_DIR\n", path);
        skip();
    }
    fclose(f);
    return open_vocab(path);
}

static void test_smollm2(void **state)
{
    (void)state;
    ig_tokenizer *tk = open_smollm2();
    const struct {
        const char *text, *ids;
        bool plain;
    } cases[] = {
        {"", "", false},
        {"Hello world", "19556 905", false},
        {"In 2024, 1000000 users paid $3.50",
         "788 216 34 32 34 36 28 216 33 32 32 32 32 32 32 3629 5940 1885 35 30 37 32",
         false},
        {" Việt", "10506 25275 225 100", false},
        {"Hello world! Café déjà vu — 123 😊",
         "19556 905 17 48031 2756 32564 90 16739 386 101 1841 216 33 34 35 40303 228",
         false},
        {"This is 🦙.cpp", "1348 314 15107 116 243 30 35392", false},
        {"you're YOU'RE I'll I'LL", "8320 2316 12246 23 3256 339 3060 339 23 16421", false},
        {"a  b   c\n\n  d\t\te ", "81 216 278 256 265 8866 287 197 197 85 216", false},
        {"tabs\tand\r\nCRLF", "100 7366 197 397 201 198 9088 60 54", false},
        {"    def f(x):\n        return x\n", "333 753 275 24 104 727 448 1003 1792 198",
         false},
        {"x²½٣", "104 19133 16738 164 113", false},
        {"你好，世界", "18645 250 48392 138 12831 7906 240 178 239 230", false},
        {"<|im_start|>user\nHi<|im_end|>\n", "1 4093 198 26843 2 198", false},
        {"<|im_start|>user\nHi<|im_end|>\n",
         "44 108 306 79 3738 108 46 4093 198 26843 44 108 306 79 486 108 46 198", true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_line(tk, cases[i].text, strlen(cases[i].text), cases[i].ids, cases[i].plain);
    assert_true(ig_token_is_end(tk, 0));
    assert_false(ig_token_is_end(tk, 1));
    assert_true(ig_token_is_end(tk, 2));
    ig_tokenizer_close(tk);
}

static void test_smollm2_runs(void **state)
{
    (void)state;
    ig_tokenizer *tk = open_smollm2();
    const size_t n = 100000;
    char *text = malloc(n);
    memset(text, 'a', n);
    ig_ids ids = {0};
    assert_int_equal(ig_tokenize(&ids, tk, text, 1000, NULL, NULL), IG_OK);
    assert_int_equal(ids.n, 250);
    for (int i = 0; i < 250; i++)
        assert_int_equal(ids.ids[i], 46880);
    ids.n = 0;
    const int64_t begin = ig__now_ns();
    assert_int_equal(ig_tokenize(&ids, tk, text, n, NULL, NULL), IG_OK);
    assert_true(ig__now_ns() - begin < 5000000000); /* 0.5 s wanted; sanitizers */
    assert_int_equal(ids.n, 25000);
    ids.n = 0;
    for (int i = 0; i < 100; i++)
        memcpy(text + (ptrdiff_t)6 * i, "hello ", 6);
    assert_int_equal(ig_tokenize(&ids, tk, text, 600, NULL, NULL), IG_OK);
    assert_int_equal(ids.n, 101);
    assert_int_equal(ids.ids[0], 28120);
    for (int i = 1; i < 100; i++)
        assert_int_equal(ids.ids[i], 33662);
    assert_int_equal(ids.ids[100], 216);
    ig_ids_free(tk, &ids);
    free(text);
    ig_tokenizer_close(tk);
}

/* Tokens that end inside a character, shown as they come. */
static void test_smollm2_stream(void **state)
{
    (void)state;
    ig_tokenizer *tk = open_smollm2();
    const int32_t ids[] = {1348, 314, 15107, 116, 243, 30, 35392};
    ig_utf8_stream stream = {0}, again;
    char all[128];
    size_t n_all = 0;
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        char bytes[32], piece[160], whole[160];
        const size_t n = ig_token_bytes(tk, ids[i], false, bytes, sizeof bytes);
        const size_t n_piece = ig_utf8_stream_push(&stream, bytes, n, piece);
        again = (ig_utf8_stream){0}; /* valid on its own: nothing waits, nothing changes */
        assert_int_equal(ig_utf8_stream_push(&again, piece, n_piece, whole), n_piece);
        assert_int_equal(again.n_held, 0);
        assert_memory_equal(whole, piece, n_piece);
        memcpy(all + n_all, piece, n_piece);
        n_all += n_piece;
    }
    assert_int_equal(stream.n_held, 0);
    all[n_all] = 0;
    assert_string_equal(all, "This is 🦙.cpp");
    ig_tokenizer_close(tk);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gpt_2),          cmocka_unit_test(test_llama_bpe),
        cmocka_unit_test(test_llama_spm),      cmocka_unit_test(test_qwen2),
        cmocka_unit_test(test_smollm2),        cmocka_unit_test(test_smollm2_runs),
        cmocka_unit_test(test_smollm2_stream),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
