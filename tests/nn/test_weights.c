/* Reading weights: what is in memory is what the file holds, for any number of threads; files
 * that shrink, lack a tensor or have one too many. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "infer/model_int.h"
#include "tiny_model.h"

#include <string.h>
#include <unistd.h>

static ig_error error;

typedef struct opened {
    ig_context *ctx;
    ig__gguf *file;
    ig__config config;
    const ig__family *family;
    ig__graph graph;
    void *block;
    size_t bytes;
} opened;

static ig_status open_and_capture(opened *o, const char *path, int n_threads)
{
    *o = (opened){0};
    const ig_context_opts opts = {.n_threads = n_threads};
    assert_int_equal(ig_context_create(&o->ctx, &opts, &error), IG_OK);
    const ig_allocator *a = &o->ctx->allocator;
    assert_int_equal(ig__gguf_open(&o->file, a, path, &error), IG_OK);
    ig_status status = ig__family_of(&o->family, o->file, &error);
    if (status == IG_OK)
        status = ig__config_read(&o->config, o->family, o->file, &error);
    if (status == IG_OK)
        status = ig__model_capture(&o->graph, o->family, &o->config, o->file, a, &error);
    return status;
}

static void finish(opened *o)
{
    ig__free(&o->ctx->allocator, o->block);
    ig__graph_fini(&o->graph);
    ig__gguf_close(o->file);
    ig_context_destroy(o->ctx);
}

/* Every group packed here by itself, against what was loaded. */
static void assert_param(const tiny_model *t, const opened *o, const ig__param *param)
{
    const ig__gguf_tensor *tensor = ig__gguf_find_tensor(o->file, param->name);
    assert_non_null(tensor);
    const unsigned char *from = t->file.bytes + tensor->offset;
    if (tensor->n_dims == 1) {
        assert_memory_equal(param->data, from, (size_t)tensor->bytes);
        return;
    }
    const int64_t k = tensor->dims[0], n = tensor->dims[1];
    const size_t row_bytes = (size_t)tensor->bytes / (size_t)n;
    const size_t group_bytes = ig__packed_group_bytes(tensor->dtype, k);
    unsigned char *group = ig__alloc(&o->ctx->allocator, group_bytes);
    assert_non_null(group);
    for (int64_t row = 0; row < n; row += IG_GROUP) {
        const int64_t rows = n - row < IG_GROUP ? n - row : IG_GROUP;
        ig__pack_group(group, tensor->dtype, from + (size_t)row * row_bytes, row_bytes,
                       rows, k);
        assert_memory_equal((char *)param->data + (size_t)(row / IG_GROUP) * group_bytes,
                            group, group_bytes);
    }
    ig__free(&o->ctx->allocator, group);
}

static void weights_are_the_files(void **state)
{
    (void)state;
    for (int i = 0; i < TINY_TYPES; i++)
        for (int n_threads = 1; n_threads <= 3; n_threads += 2) {
            tiny_model t = {.dtype = tiny_types[i], .gemma = i % 2, .head = true};
            opened o;
            assert_int_equal(open_and_capture(&o, tiny_model_save(&t), n_threads), IG_OK);
            assert_int_equal(
                ig__weights_load(&o.block, &o.bytes, &o.graph, o.file, o.ctx, &error),
                IG_OK);
            for (int32_t p = 0; p < o.graph.n_params; p++)
                assert_param(&t, &o, &o.graph.params[p]);
            finish(&o);
            tiny_model_fini(&t);
        }
}

/* The file loses its end while it is open: some tensor's bytes are gone. */
static void a_file_that_shrinks_is_an_error(void **state)
{
    (void)state;
    for (int cut = 0; cut < 3; cut++) {
        tiny_model t = {.dtype = IG_DTYPE_Q8_0};
        opened o;
        const char *path = tiny_model_save(&t);
        assert_int_equal(open_and_capture(&o, path, 2), IG_OK);
        const size_t left[] = {t.file.n - 1, t.file.data + 4000, 0};
        assert_int_equal(truncate(path, (off_t)left[cut]), 0);
        assert_int_equal(
            ig__weights_load(&o.block, &o.bytes, &o.graph, o.file, o.ctx, &error),
            IG_ERR_IO);
        assert_non_null(strstr(error.message, path));
        assert_null(o.block);
        finish(&o);
        tiny_model_fini(&t);
    }
}

/* The name of a tensor in the file's table, its first letter changed. */
static void rename_tensor(tiny_model *t, const char *name)
{
    unsigned char *at = t->file.bytes;
    do { /* not the end of a longer name: its length stands in front */
        const size_t left = t->file.data - (size_t)(at + 1 - t->file.bytes);
        at = memmem(at + 1, left, name, strlen(name));
        assert_non_null(at);
    } while (at[-8] != strlen(name));
    at[0] = 'X';
    gguf_save(&t->file);
}

static void tensors_are_checked(void **state)
{
    (void)state;
    static const struct {
        const char *name, *words;
        ig_status status;
    } cases[] = {
        {"token_embd.weight", "token_embd.weight is missing", IG_ERR_FORMAT},
        {"blk.1.attn_k.weight", "blk.1.attn_k.weight is missing", IG_ERR_FORMAT},
        {"blk.0.ffn_norm.weight", "blk.0.ffn_norm.weight is missing", IG_ERR_FORMAT},
        /* without it the head is the embedding, and this tensor is nobody's */
        {"output.weight", "Xutput.weight is not part of a llama model", IG_ERR_UNSUPPORTED},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tiny_model t = {.dtype = IG_DTYPE_Q4_0, .head = true};
        const char *path = tiny_model_save(&t);
        rename_tensor(&t, cases[i].name);
        opened o;
        assert_int_equal(open_and_capture(&o, path, 1), cases[i].status);
        if (!strstr(error.message, cases[i].words) || !strstr(error.message, ": byte "))
            fail_msg("wanted \"%s\" and the byte in: %s", cases[i].words, error.message);
        finish(&o);
        tiny_model_fini(&t);
    }
}

/* What each key of the file is checked for. */
static void hyper_parameters_are_checked(void **state)
{
    (void)state;
    static const struct {
        const char *key;
        uint32_t value;
        const char *words;
    } cases[] = {
        {"llama.block_count", 0, "block_count"},
        {"llama.block_count", 3, "blk.2.attn_norm.weight is missing"},
        {"llama.embedding_length", 96, "token_embd.weight is [64,100]"},
        {"llama.attention.head_count", 0, "head_count"},
        {"llama.attention.head_count_kv", 3, "no multiple of the 3 KV heads"},
        {"llama.attention.head_count_kv", 5, "head_count_kv"},
        {"llama.attention.key_length", 24, "value_length"},
        {"llama.attention.head_count", 8, "blk.0.attn_q.weight is [64,64]"},
        {"llama.attention.value_length", 32, "value_length"},
        {"llama.feed_forward_length", 64, "blk.0.ffn_gate.weight is [64,96]"},
        {"llama.context_length", 0, "context_length"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tiny_model t = {.dtype = IG_DTYPE_F16};
        tiny_model_save(&t);
        const size_t n = strlen(cases[i].key);
        unsigned char *at = t.file.bytes;
        do { /* the key that is not the beginning of a longer one */
            at = memmem(at + 1, t.file.data - (size_t)(at + 1 - t.file.bytes), cases[i].key,
                        n);
            assert_non_null(at);
        } while (at[n] != 4 || at[n + 1]); /* 4: the value's type follows, u32 */
        gguf_patch_u32(&t.file, (size_t)(at - t.file.bytes) + n + 4, cases[i].value);
        opened o;
        assert_int_not_equal(open_and_capture(&o, gguf_save(&t.file), 1), IG_OK);
        if (!strstr(error.message, cases[i].words) || !strstr(error.message, ": byte "))
            fail_msg("wanted \"%s\" and the byte in: %s", cases[i].words, error.message);
        finish(&o);
        tiny_model_fini(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_are_the_files),
        cmocka_unit_test(a_file_that_shrinks_is_an_error),
        cmocka_unit_test(tensors_are_checked),
        cmocka_unit_test(hyper_parameters_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
