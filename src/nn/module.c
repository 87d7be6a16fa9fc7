/* Models from folders: config.json to a family and its sizes, and the parameters by one run.
 *
 * A family's function is the only place that knows names and shapes: it is run once on one token, which makes
 * the parameters; then the set is sealed, so a file either fits or is refused.
 */
#include "nn/module_int.h"

#include "base/error.h"
#include "ingot/grad.h"
#include "tensor/tensor.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { SIZE_MAX_OF_CONFIG = 1 << 24, CONFIG_BYTES = 1 << 20 };

static const ig__module_family *const families[] = {&ig__module_gpt2, &ig__module_llama,
                                                    NULL};

/* ---- config.json ------------------------------------------------------------------------------------ */

static const ig__json *field(const ig__json *config, const char *key)
{
    const ig__json *v = ig__json_get(config, key);
    return v && ig__json_kind_of(v) == IG_JSON_NULL ? NULL : v;
}

ig_status ig__module_get(int64_t *out, const ig__json *config, const char *key,
                         bool optional, ig_error *err)
{
    const ig__json *v = field(config, key);
    if (!v && optional)
        return IG_OK;
    if (!v || ig__json_kind_of(v) != IG_JSON_INT)
        return ig__fail(err, IG_ERR_FORMAT, "config: %s %s", key,
                        v ? "is not an integer" : "is missing");
    const int64_t n = ig__json_int(v);
    if (n < 1 || n > SIZE_MAX_OF_CONFIG)
        return ig__fail(err, IG_ERR_FORMAT, "config: %s is %lld, allowed is 1 to %d", key,
                        (long long)n, SIZE_MAX_OF_CONFIG);
    *out = n;
    return IG_OK;
}

ig_status ig__module_get_real(double *out, const ig__json *config, const char *key,
                              bool optional, ig_error *err)
{
    const ig__json *v = field(config, key);
    if (!v && optional)
        return IG_OK;
    const ig__json_kind kind = v ? ig__json_kind_of(v) : IG_JSON_NULL;
    if (kind != IG_JSON_INT && kind != IG_JSON_REAL)
        return ig__fail(err, IG_ERR_FORMAT, "config: %s %s", key,
                        v ? "is not a number" : "is missing");
    const double x = ig__json_real(v);
    if (!(x >= 0) || isinf(x))
        return ig__fail(err, IG_ERR_FORMAT, "config: %s is %g, wanted 0 or more", key, x);
    *out = x;
    return IG_OK;
}

const char *ig__module_text(const ig__json *config, const char *key)
{
    const ig__json *v = field(config, key);
    size_t n;
    return v && ig__json_kind_of(v) == IG_JSON_STRING ? ig__json_string(v, &n) : NULL;
}

bool ig__module_flag(const ig__json *config, const char *key, bool otherwise)
{
    const ig__json *v = field(config, key);
    return v && ig__json_kind_of(v) == IG_JSON_BOOL ? ig__json_bool(v) : otherwise;
}

static ig_status choose_family(ig_module *m, const ig__json *config, ig_error *err)
{
    const char *type = ig__module_text(config, "model_type");
    char known[128] = "";
    if (!type)
        return ig__fail(err, IG_ERR_FORMAT, "config: model_type is missing");
    for (int i = 0; families[i]; i++) {
        if (!strcmp(families[i]->type, type)) {
            m->family = families[i];
            return IG_OK;
        }
        const size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "",
                 families[i]->type);
    }
    return ig__fail(err, IG_ERR_UNSUPPORTED, "config: model_type is '%.64s', supported: %s",
                    type, known);
}

const ig__module_family *ig__module_family_serving(const ig__family *serving)
{
    int i = 0;
    while (families[i] && families[i]->serving != serving)
        i++;
    return families[i];
}

/* ---- make -------------------------------------------------------------------------------------------- */

ig_status ig__module_make(ig_module *m, ig_error *err)
{
    ig_context *ctx = m->ctx;
    ig_params_set_training(m->params, false);
    ig_scope *scope = ig_scope_begin(ctx);
    const bool was = ig_grad_enable(ctx, false);
    const bool made =
        m->family->logits(m, ig_zeros(ctx, IG_DTYPE_I64, IG_SHAPE(1, 1))) != NULL;
    ig_grad_enable(ctx, was);
    ig_scope_end(scope);
    if (!made)
        return ig__fail(err, ig_context_status(ctx), "%s", ig_context_message(ctx));
    ig_params_seal(m->params);
    return IG_OK;
}

static ig_status build(ig_module *m, const char *text, ig_error *err)
{
    ig__json *config;
    if (ig__context_failed(m->ctx))
        return ig__fail(err, ig_context_status(m->ctx), "%s", ig_context_message(m->ctx));
    IG_TRY(ig_params_create(&m->params, m->ctx, err));
    IG_TRY(ig__json_parse(&config, text, strlen(text), err));
    ig_status status = ig__json_kind_of(config) == IG_JSON_OBJECT
                           ? choose_family(m, config, err)
                           : ig__fail(err, IG_ERR_FORMAT, "config: not an object");
    m->deviation = 0.02;
    if (status == IG_OK)
        status = ig__module_get_real(&m->deviation, config, "initializer_range", true, err);
    if (status == IG_OK)
        status = m->family->read(m, config, err);
    ig__json_destroy(config);
    if (status != IG_OK)
        return status;
    ig_params_set_deviation(m->params, m->deviation);
    return ig__module_make(m, err);
}

ig_status ig_module_create(ig_module **module_out, ig_context *ctx, const char *config,
                           ig_error *err)
{
    *module_out = NULL;
    ig_module *m = ig__alloc_zero(&ctx->allocator, sizeof *m);
    if (!m)
        return ig__fail_memory(err, "module", sizeof *m);
    m->ctx = ctx;
    const ig_status status = build(m, config, err);
    if (status == IG_OK)
        *module_out = m;
    else
        ig_module_destroy(m);
    return status;
}

/* A text file of at most CONFIG_BYTES - 1, with a 0 behind. */
static ig_status read_text(char *text, const char *path, ig_error *err)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        return ig__fail(err, IG_ERR_IO, "%s: %s", path, strerror(errno));
    const size_t n = fread(text, 1, CONFIG_BYTES, f);
    const bool failed = ferror(f);
    fclose(f);
    if (failed)
        return ig__fail(err, IG_ERR_IO, "%s: cannot be read", path);
    if (n == CONFIG_BYTES)
        return ig__fail(err, IG_ERR_LIMIT, "%s: more than %d bytes", path,
                        CONFIG_BYTES - 1);
    text[n] = 0;
    return IG_OK;
}

static ig_status path_in(char *path, size_t cap, const char *folder, const char *name,
                         ig_error *err)
{
    const int n = snprintf(path, cap, "%s/%s", folder, name);
    return n >= 0 && (size_t)n < cap
               ? IG_OK
               : ig__fail(err, IG_ERR_LIMIT, "module: the path %.64s.. is too long",
                          folder);
}

/* By its first bytes or, when it cannot be read, by its name: so the message is about the file. */
static bool is_gguf(const char *path)
{
    char magic[4] = "";
    const size_t n = strlen(path);
    FILE *f = fopen(path, "rb");
    if (f) {
        if (fread(magic, 1, sizeof magic, f) != sizeof magic)
            magic[0] = 0;
        fclose(f);
    }
    return !memcmp(magic, "GGUF", 4) || (n > 5 && !strcmp(path + n - 5, ".gguf"));
}

ig_status ig_module_open(ig_module **module_out, ig_context *ctx, const char *folder,
                         ig_error *err)
{
    char path[1024];
    *module_out = NULL;
    if (is_gguf(folder))
        return ig__module_open_gguf(module_out, ctx, folder, err);
    IG_TRY(path_in(path, sizeof path, folder, "config.json", err));
    char *text = ig__alloc(&ctx->allocator, CONFIG_BYTES);
    if (!text)
        return ig__fail_memory(err, "module", CONFIG_BYTES);
    ig_status status = read_text(text, path, err);
    if (status == IG_OK)
        status = ig_module_create(module_out, ctx, text, err);
    ig__free(&ctx->allocator, text);
    if (status == IG_OK)
        status = path_in(path, sizeof path, folder, "model.safetensors", err);
    if (status == IG_OK)
        status = ig_params_load((*module_out)->params, path, err);
    if (status != IG_OK) {
        ig_module_destroy(*module_out);
        *module_out = NULL;
    }
    return status;
}

void ig_module_destroy(ig_module *m)
{
    if (!m)
        return;
    if (m->has_graph)
        ig__graph_fini(&m->graph);
    ig_params_destroy(m->params);
    ig__free(&m->ctx->allocator, m);
}

/* ---- use --------------------------------------------------------------------------------------------- */

ig_tensor *ig_module_logits(ig_module *m, ig_tensor *tokens)
{
    char found[IG_TYPE_TEXT];
    if (!tokens)
        return NULL;
    if (ig_tensor_n_dims(tokens) != 2 || ig_tensor_dim(tokens, 1) > m->config.context)
        return ig__fail_on(m->ctx, IG_ERR_SHAPE,
                           "%s: wants tokens [B,T], T up to %lld, got %s", m->family->type,
                           (long long)m->config.context,
                           ig__type_text(&tokens->type, found, sizeof found));
    ig_scope *scope = ig_scope_begin(m->ctx);
    ig_tensor *y = m->family->logits(m, tokens);
    if (y)
        ig_tensor_keep(y);
    ig_scope_end(scope);
    return y;
}

ig_params *ig_module_params(ig_module *m)
{
    return m->params;
}
