/* Opening a model: file, hyper-parameters, tokeniser, captured and compiled graph, packed weights. */
#include "infer/model_int.h"

#include "base/error.h"
#include "compile/pass.h"
#include "infer/vocab_load.h"

#include <string.h>

static ig_status copy_text(char **out, const ig__gguf *file, const char *key,
                           const ig_allocator *a, ig_error *err)
{
    const char *text = NULL;
    size_t n = 0;
    *out = NULL;
    IG_TRY(ig__gguf_get_string(&text, &n, file, key, false, err));
    if (!text)
        return IG_OK;
    *out = ig__strdup(a, text, n);
    return *out ? IG_OK : ig__fail_memory(err, key, n);
}

static ig_status capture(ig_model *m, const ig__gguf *file, ig_error *err)
{
    ig__graph plain;
    IG_TRY(ig__family_of(&m->family, file, err));
    IG_TRY(ig__config_read(&m->config, m->family, file, err));
    IG_TRY(ig__model_capture(&plain, m->family, &m->config, file, &m->ctx->allocator, err));
    const ig__compile_opts opts = {.kernels = m->ctx->kernels, .exact = m->exact};
    const ig_status status = ig__compile(&m->graph, &plain, &opts, NULL, NULL, err);
    ig__graph_fini(&plain);
    return status;
}

/* The type that most weight bytes have. */
static ig_dtype main_dtype(const ig__gguf *file)
{
    uint64_t bytes[IG_DTYPE_COUNT] = {0};
    for (int64_t i = 0; i < ig__gguf_n_tensors(file); i++) {
        const ig__gguf_tensor *t = ig__gguf_tensor_at(file, i);
        if (t->dtype < IG_DTYPE_COUNT && strcmp(t->name, "token_embd.weight") != 0)
            bytes[t->dtype] += t->bytes;
    }
    ig_dtype most = IG_DTYPE_F32;
    for (int i = 0; i < IG_DTYPE_COUNT; i++)
        if (bytes[i] > bytes[most])
            most = (ig_dtype)i;
    return most;
}

static int64_t count_parameters(const ig__gguf *file)
{
    int64_t n = 0;
    for (int64_t i = 0; i < ig__gguf_n_tensors(file); i++) {
        const ig__gguf_tensor *t = ig__gguf_tensor_at(file, i);
        n += t->dims[0] * t->dims[1] * t->dims[2] * t->dims[3];
    }
    return n;
}

static void fill_info(ig_model *m, const ig__gguf *file)
{
    const ig__config *c = &m->config;
    const ig__bind token = {{0, 1, 0}}, both = {{0, 1, 1}};
    const ig__cost a_token = ig__graph_cost(&m->graph, &token);
    const ig__cost all = ig__graph_cost(&m->graph, &both);
    m->info = (ig_model_info){
        .architecture = m->family->architecture,
        .name = m->name ? m->name : "",
        .n_layers = c->n_layers,
        .width = c->width,
        .n_heads = c->n_heads,
        .n_kv_heads = c->n_kv_heads,
        .head_width = c->head_width,
        .feed_forward = c->feed_forward,
        .vocab = c->vocab,
        .context = c->context,
        .window = c->window,
        .n_parameters = count_parameters(file),
        .file_bytes = m->file_bytes,
        .packed_bytes = m->block_bytes,
        .step_bytes = (size_t)all.weight_bytes,
        .token_ops = a_token.ops,
        .head_ops = all.ops - a_token.ops,
        .weight_dtype = main_dtype(file),
        .exact = m->exact,
    };
}

static ig_status open_parts(ig_model *m, const ig__gguf *file, ig_error *err)
{
    const ig_allocator *a = &m->ctx->allocator;
    m->file_bytes = (size_t)ig__gguf_file_bytes(file);
    IG_TRY(capture(m, file, err));
    IG_TRY(ig__tokenizer_from_gguf(&m->tokenizer, file, a, err));
    if (ig_tokenizer_vocab(m->tokenizer) > m->config.vocab)
        return ig__fail(
            err, IG_ERR_FORMAT,
            "%s: byte %llu: key 'tokenizer.ggml.tokens': %lld tokens, but "
            "token_embd.weight has %lld rows",
            ig__gguf_path(file),
            (unsigned long long)ig__gguf_value_offset(file, "tokenizer.ggml.tokens"),
            (long long)ig_tokenizer_vocab(m->tokenizer), (long long)m->config.vocab);
    IG_TRY(copy_text(&m->name, file, "general.name", a, err));
    IG_TRY(copy_text(&m->chat_template, file, "tokenizer.chat_template", a, err));
    IG_TRY(ig__weights_load(&m->block, &m->block_bytes, &m->graph, file, m->ctx, err));
    fill_info(m, file);
    return IG_OK;
}

ig_status ig_model_open(ig_model **model_out, ig_context *ctx, const char *path,
                        const ig_model_opts *opts, ig_error *err)
{
    *model_out = NULL;
    ig__gguf *file;
    IG_TRY(ig__gguf_open(&file, &ctx->allocator, path, err));
    ig_model *m = ig__alloc_zero(&ctx->allocator, sizeof *m);
    if (!m) {
        ig__gguf_close(file);
        return ig__fail_memory(err, "model", sizeof *m);
    }
    m->ctx = ctx;
    m->exact = opts && opts->exact;
    const ig_status status = open_parts(m, file, err);
    ig__gguf_close(file);
    if (status != IG_OK) {
        ig_model_close(m);
        return status;
    }
    *model_out = m;
    return IG_OK;
}

void ig_model_close(ig_model *m)
{
    if (!m)
        return;
    const ig_allocator *a = &m->ctx->allocator;
    ig_tokenizer_close(m->tokenizer);
    ig__graph_fini(&m->graph);
    ig__free(a, m->block);
    ig__free(a, m->name);
    ig__free(a, m->chat_template);
    ig__free(a, m);
}

ig_model_info ig_model_get_info(const ig_model *m)
{
    return m->info;
}

const ig_tokenizer *ig_model_tokenizer(const ig_model *m)
{
    return m->tokenizer;
}

const char *ig_model_chat_template(const ig_model *m)
{
    return m->chat_template;
}
