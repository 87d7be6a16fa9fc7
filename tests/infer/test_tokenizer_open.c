/* Vocabularies in GGUF files written here: which keys are read, what a silent file means,
 * and what is refused. What tokenizers do with them is tests/text's.
 */
#include "infer/fault_allocator.h"

#include "base/buffer.h"
#include "infer/vocab_load.h"
#include "tensor/context.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- writing a file */

typedef struct writer {
    ig__buffer keys;
    uint64_t n_keys;
} writer;

static void put(writer *w, const void *bytes, size_t n)
{
    ig__buffer_append(&w->keys, bytes, n);
}

static void put_u32(writer *w, uint32_t v)
{
    put(w, &v, 4);
}

static void put_string(writer *w, const char *text)
{
    const uint64_t n = strlen(text);
    put(w, &n, 8);
    put(w, text, n);
}

static void key(writer *w, const char *name, ig__gguf_type type)
{
    char full[64];
    snprintf(full, sizeof full, "tokenizer.ggml.%s", name);
    put_string(w, full);
    put_u32(w, (uint32_t)type);
    w->n_keys++;
}

static void array(writer *w, const char *name, ig__gguf_type type, uint64_t n)
{
    key(w, name, IG__GGUF_ARRAY);
    put_u32(w, (uint32_t)type);
    put(w, &n, 8);
}

static void text_key(writer *w, const char *name, const char *text)
{
    key(w, name, IG__GGUF_STRING);
    put_string(w, text);
}

static void u32_key(writer *w, const char *name, uint32_t v)
{
    key(w, name, IG__GGUF_U32);
    put_u32(w, v);
}

static void bool_key(writer *w, const char *name, bool v)
{
    key(w, name, IG__GGUF_BOOL);
    put(w, &v, 1);
}

enum { N = 5 };

static void tokens(writer *w)
{
    static const char *const names[N] = {"<unk>", "<s>", "</s>", "a", "b"};
    array(w, "tokens", IG__GGUF_STRING, N);
    for (int i = 0; i < N; i++)
        put_string(w, names[i]);
}

static void types(writer *w)
{
    static const int32_t values[N] = {2, 3, 3, 1, 1};
    array(w, "token_type", IG__GGUF_I32, N);
    put(w, values, sizeof values);
}

static void scores(writer *w, uint64_t n)
{
    array(w, "scores", IG__GGUF_F32, n);
    for (uint64_t i = 0; i < n; i++) {
        const float score = -(float)i;
        put(w, &score, 4);
    }
}

static writer begin(const char *model)
{
    static ig_allocator a;
    a = ig__allocator_default();
    writer w = {.keys = ig__buffer_init(&a)};
    text_key(&w, "model", model);
    return w;
}

/* A whole small vocabulary. */
static writer begin_whole(const char *model)
{
    writer w = begin(model);
    tokens(&w);
    types(&w);
    if (strcmp(model, "llama") == 0)
        scores(&w, N);
    else
        array(&w, "merges", IG__GGUF_STRING, 0);
    return w;
}

/* Write what was put, open it, and forget it. */
static ig_tokenizer *end(writer *w, const ig_allocator *a, ig_status *status, ig_error *err)
{
    char path[] = "/tmp/ingot-vocab-XXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    FILE *f = fdopen(fd, "wb");
    const uint32_t version = 3;
    const uint64_t n_tensors = 0;
    fwrite("GGUF", 1, 4, f);
    fwrite(&version, 4, 1, f);
    fwrite(&n_tensors, 8, 1, f);
    fwrite(&w->n_keys, 8, 1, f);
    fwrite(w->keys.data, 1, w->keys.n, f);
    assert_int_equal(fclose(f), 0);
    ig__buffer_fini(&w->keys);
    ig_context ctx = {.allocator = *a};
    ig_tokenizer *t;
    *status = ig_tokenizer_open(&t, &ctx, path, err);
    unlink(path);
    return t;
}

static ig_tokenizer *end_well(writer *w)
{
    const ig_allocator a = ig__allocator_default();
    ig_status status;
    ig_error err = {0};
    ig_tokenizer *t = end(w, &a, &status, &err);
    if (status != IG_OK)
        fail_msg("%s", err.message);
    return t;
}

static void end_refused_as(writer *w, ig_status wanted, const char *words)
{
    const ig_allocator a = ig__allocator_default();
    ig_status status;
    ig_error err = {0};
    assert_null(end(w, &a, &status, &err));
    assert_int_equal(status, wanted);
    if (!strstr(err.message, words) || !strstr(err.message, ": byte "))
        fail_msg("'%s' lacks '%s' or the byte", err.message, words);
}

static void end_refused(writer *w, const char *words)
{
    end_refused_as(w, IG_ERR_FORMAT, words);
}

/* ---- tests */

static void is_like(ig_tokenizer *t, int32_t bos, int32_t eos, bool adds_bos)
{
    assert_int_equal(ig_tokenizer_vocab(t), N);
    assert_int_equal(ig_tokenizer_bos(t), bos);
    assert_int_equal(ig_tokenizer_eos(t), eos);
    assert_int_equal(ig_tokenizer_adds_bos(t), adds_bos);
    ig_tokenizer_close(t);
}

static void silence_has_a_meaning(void **state)
{
    (void)state;
    writer w = begin_whole("llama");
    is_like(end_well(&w), 1, 2, true);
    w = begin_whole("gpt2");
    is_like(end_well(&w), -1, -1, false);
    w = begin_whole("gpt2");
    u32_key(&w, "bos_token_id", 1);
    is_like(end_well(&w), 1, -1, false);
    w = begin_whole("gpt2");
    text_key(&w, "pre", "llama-bpe");
    u32_key(&w, "bos_token_id", 1);
    is_like(end_well(&w), 1, -1, true);
}

static void keys_are_read(void **state)
{
    (void)state;
    writer w = begin_whole("llama");
    u32_key(&w, "bos_token_id", 2);
    u32_key(&w, "eos_token_id", 1);
    bool_key(&w, "add_bos_token", false);
    is_like(end_well(&w), 2, 1, false);
    w = begin_whole("llama");
    u32_key(&w, "bos_token_id", UINT32_MAX); /* none */
    u32_key(&w, "padding_token_id", UINT32_MAX);
    is_like(end_well(&w), -1, 2, false);
    w = begin_whole("gpt2");
    u32_key(&w, "eot_token_id", 2);
    ig_tokenizer *t = end_well(&w);
    assert_true(ig_token_is_end(t, 2));
    ig_tokenizer_close(t);
}

static void bad_keys_are_refused(void **state)
{
    (void)state;
    writer w = begin("llama");
    end_refused(&w, "tokenizer.ggml.tokens");
    w = (writer){.keys = ig__buffer_init(w.keys.a)};
    tokens(&w);
    end_refused(&w, "tokenizer.ggml.model");
    w = begin("gpt2");
    tokens(&w);
    array(&w, "token_type", IG__GGUF_U8, N);
    put(&w, "\1\3\3\1\1", N);
    end_refused(&w, "tokenizer.ggml.token_type");
    w = begin("llama");
    tokens(&w);
    scores(&w, N - 1);
    end_refused(&w, ": key 'tokenizer.ggml.scores': 4, the tokens are 5");
    w = begin("llama");
    tokens(&w);
    scores(&w, N + 1);
    end_refused(&w, ": 6, the tokens are 5");
    static const char *const ids[] = {"bos_token_id", "eos_token_id", "unknown_token_id",
                                      "padding_token_id", "eot_token_id"};
    for (int i = 0; i < 5; i++) {
        w = begin_whole("llama");
        u32_key(&w, ids[i], N);
        end_refused(&w, ids[i]);
        w = begin_whole("llama");
        text_key(&w, ids[i], "1");
        end_refused(&w, ids[i]);
    }
    w = begin_whole("gpt2");
    u32_key(&w, "add_bos_token", 1);
    end_refused(&w, "tokenizer.ggml.add_bos_token");
}

/* What the tokenizer itself refuses is said with its place in the file, too. */
static void unknown_kinds_are_refused(void **state)
{
    (void)state;
    writer w = begin_whole("gpt3");
    end_refused_as(&w, IG_ERR_UNSUPPORTED,
                   ": key 'tokenizer.ggml.model': tokenizer: model 'gpt3' is not known");
    w = begin_whole("gpt2");
    text_key(&w, "pre", "larger");
    end_refused_as(&w, IG_ERR_UNSUPPORTED,
                   ": key 'tokenizer.ggml.pre': tokenizer: pre-tokeniser 'larger' is not");
    w = begin("gpt2");
    array(&w, "tokens", IG__GGUF_STRING, 0);
    end_refused(&w,
                ": key 'tokenizer.ggml.tokens': tokenizer: the vocabulary has no tokens");
}

static void allocation_faults(void **state)
{
    (void)state;
    for (int64_t nth = 1;; nth++) {
        fault_allocator f = {.fail_nth = nth};
        const ig_allocator a = fault_allocator_of(&f);
        writer w = begin_whole("llama");
        ig_status status;
        ig_error err = {0};
        ig_tokenizer *t = end(&w, &a, &status, &err);
        const bool through = f.n_calls < nth;
        if (status != (through ? IG_OK : IG_ERR_MEMORY))
            fail_msg("allocation %d: status %d, %s", (int)nth, status, err.message);
        ig_tokenizer_close(t);
        assert_int_equal(f.n_alive, 0);
        if (through)
            break;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(silence_has_a_meaning),
        cmocka_unit_test(keys_are_read),
        cmocka_unit_test(bad_keys_are_refused),
        cmocka_unit_test(unknown_kinds_are_refused),
        cmocka_unit_test(allocation_faults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
