/* The table of families, hyper-parameters, and capture. */
#include "nn/nn.h"

#include "base/error.h"

#include <stdio.h>
#include <string.h>

static const ig__family *const families[] = {&ig__family_llama, &ig__family_gemma3, NULL};

ig_status ig__family_of(const ig__family **family_out, const ig__gguf *file, ig_error *err)
{
    const char *name = NULL;
    size_t n = 0;
    *family_out = NULL;
    IG_TRY(ig__gguf_get_string(&name, &n, file, "general.architecture", true, err));
    char known[256] = "";
    for (int i = 0; families[i]; i++) {
        if (strlen(families[i]->architecture) == n &&
            !memcmp(name, families[i]->architecture, n)) {
            *family_out = families[i];
            return IG_OK;
        }
        const size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "",
                 families[i]->architecture);
    }
    return ig__fail(err, IG_ERR_UNSUPPORTED,
                    "%s: byte %llu: key 'general.architecture': value is '%.*s', "
                    "supported: %s",
                    ig__gguf_path(file),
                    (unsigned long long)ig__gguf_value_offset(file, "general.architecture"),
                    (int)(n > 64 ? 64 : n), name, known);
}

/* The integer `<architecture>.<field>`. */
static ig_status get(int64_t *out, const ig__family *family, const ig__gguf *file,
                     const char *field, bool required, int64_t least, int64_t most,
                     ig_error *err)
{
    char key[96];
    snprintf(key, sizeof key, "%s.%s", family->architecture, field);
    return ig__gguf_get_i64(out, file, key, required, least, most, err);
}

static ig_status get_real(double *out, const ig__family *family, const ig__gguf *file,
                          const char *field, bool required, double least, double most,
                          ig_error *err)
{
    char key[96];
    snprintf(key, sizeof key, "%s.%s", family->architecture, field);
    return ig__gguf_get_f64(out, file, key, required, least, most, err);
}

/* Where a key of the architecture stands in the file, for messages; 0: it does not. */
static unsigned long long offset_of(const ig__family *family, const ig__gguf *file,
                                    const char *field)
{
    char key[96];
    snprintf(key, sizeof key, "%s.%s", family->architecture, field);
    return (unsigned long long)ig__gguf_value_offset(file, key);
}

static ig_status check_heads(const ig__config *c, const ig__family *family,
                             const ig__gguf *file, ig_error *err)
{
    const char *path = ig__gguf_path(file);
    if (c->n_heads % c->n_kv_heads)
        return ig__fail(err, IG_ERR_FORMAT,
                        "%s: byte %llu: key '%s.attention.head_count': value is %lld, no "
                        "multiple of the %lld KV heads",
                        path, offset_of(family, file, "attention.head_count"),
                        family->architecture, (long long)c->n_heads,
                        (long long)c->n_kv_heads);
    if (c->head_width < 16 || c->head_width > IG_MAX_HEAD || c->head_width % 16)
        return ig__fail(
            err, IG_ERR_UNSUPPORTED,
            "%s: byte %llu: key '%s.attention.head_count': heads are %lld wide, "
            "supported are multiples of 16 up to %d",
            path, offset_of(family, file, "attention.head_count"), family->architecture,
            (long long)c->head_width, IG_MAX_HEAD);
    if (c->n_rotated > c->head_width || c->n_rotated % 2)
        return ig__fail(
            err, IG_ERR_FORMAT,
            "%s: byte %llu: key '%s.rope.dimension_count': value is %lld, allowed "
            "are even numbers up to %lld",
            path, offset_of(family, file, "rope.dimension_count"), family->architecture,
            (long long)c->n_rotated, (long long)c->head_width);
    return IG_OK;
}

/* Linear scaling of positions; other kinds are refused. */
static ig_status read_rope_scaling(ig__config *c, const ig__family *family,
                                   const ig__gguf *file, ig_error *err)
{
    char key[96];
    const char *kind = "none";
    size_t n = 4;
    double factor = 1;
    snprintf(key, sizeof key, "%s.rope.scaling.type", family->architecture);
    IG_TRY(ig__gguf_get_string(&kind, &n, file, key, false, err));
    IG_TRY(get_real(&factor, family, file, "rope.scaling.factor", false, 1e-3, 1e6, err));
    const bool none = n == 4 && !memcmp(kind, "none", 4);
    const bool linear = n == 6 && !memcmp(kind, "linear", 6);
    if (!none && !linear)
        return ig__fail(err, IG_ERR_UNSUPPORTED,
                        "%s: byte %llu: key '%s': value is '%.*s', supported: none, linear",
                        ig__gguf_path(file),
                        (unsigned long long)ig__gguf_value_offset(file, key), key,
                        (int)(n > 32 ? 32 : n), kind);
    c->rope_scale = linear ? 1.0 / factor : 1.0;
    return IG_OK;
}

ig_status ig__config_read(ig__config *c, const ig__family *family, const ig__gguf *file,
                          ig_error *err)
{
    *c = (ig__config){.rope_base = 10000};
    IG_TRY(get(&c->n_layers, family, file, "block_count", true, 1, 1024, err));
    IG_TRY(get(&c->width, family, file, "embedding_length", true, 32, 65536, err));
    IG_TRY(
        get(&c->feed_forward, family, file, "feed_forward_length", true, 32, 1 << 20, err));
    IG_TRY(get(&c->n_heads, family, file, "attention.head_count", true, 1, 1024, err));
    c->n_kv_heads = c->n_heads;
    IG_TRY(get(&c->n_kv_heads, family, file, "attention.head_count_kv", false, 1,
               c->n_heads, err));
    IG_TRY(
        get(&c->context, family, file, "context_length", true, 1, (int64_t)1 << 30, err));
    c->head_width = c->width / c->n_heads;
    int64_t value_width = c->head_width;
    IG_TRY(get(&c->head_width, family, file, "attention.key_length", false, 1, 65536, err));
    value_width = c->head_width;
    IG_TRY(get(&value_width, family, file, "attention.value_length", false, c->head_width,
               c->head_width, err));
    c->n_rotated = c->head_width;
    IG_TRY(get(&c->n_rotated, family, file, "rope.dimension_count", false, 2, 65536, err));
    IG_TRY(get_real(&c->rope_base, family, file, "rope.freq_base", false, 1, 1e12, err));
    IG_TRY(get_real(&c->norm_eps, family, file, "attention.layer_norm_rms_epsilon", true, 0,
                    1, err));
    IG_TRY(check_heads(c, family, file, err));
    IG_TRY(read_rope_scaling(c, family, file, err));
    const ig__gguf_tensor *embedding = ig__gguf_find_tensor(file, "token_embd.weight");
    if (!embedding)
        return ig__fail(err, IG_ERR_FORMAT,
                        "%s: byte %llu: tensor token_embd.weight is missing (a "
                        "vocabulary-only file?)",
                        ig__gguf_path(file), (unsigned long long)ig__gguf_table(file));
    c->vocab = embedding->dims[1];
    if (c->vocab > INT32_MAX / 2)
        return ig__fail(err, IG_ERR_FORMAT,
                        "%s: byte %llu: tensor token_embd.weight has %lld rows, the limit "
                        "is %d",
                        ig__gguf_path(file), (unsigned long long)embedding->entry,
                        (long long)c->vocab, INT32_MAX / 2);
    return family->read ? family->read(c, file, err) : IG_OK;
}

static ig__type integers(ig__symbol symbol)
{
    ig__type type = {.dtype = IG_DTYPE_I32, .n_dims = 1};
    type.dims[0] = ig__dim_symbol(symbol);
    return type;
}

/* A tensor that the graph does not use would change the answers silently. */
static ig_status check_all_used(const ig__graph *g, const ig__gguf *file,
                                const ig__family *family, ig_error *err)
{
    const int64_t n = ig__gguf_n_tensors(file);
    if (n == g->n_params)
        return IG_OK;
    for (int64_t i = 0; i < n; i++) {
        const ig__gguf_tensor *t = ig__gguf_tensor_at(file, i);
        bool used = false;
        for (int32_t p = 0; p < g->n_params && !used; p++)
            used = !strcmp(g->params[p].name, t->name);
        if (!used)
            return ig__fail(err, IG_ERR_UNSUPPORTED,
                            "%s: byte %llu: tensor %.64s is not part of a %s model",
                            ig__gguf_path(file), (unsigned long long)t->entry, t->name,
                            family->architecture);
    }
    return IG_OK;
}

ig_status ig__model_capture(ig__graph *g, const ig__family *family,
                            const ig__config *config, const ig__gguf *file,
                            const ig_allocator *a, ig_error *err)
{
    ig__graph_init(g, a);
    ig__builder b = {.g = g, .file = file, .config = config};
    b.tokens = ig__graph_input(g, IG_INPUT_TOKENS, integers(IG_SYMBOL_TOKENS));
    b.positions = ig__graph_input(g, IG_INPUT_POSITIONS, integers(IG_SYMBOL_TOKENS));
    b.logit_rows = ig__graph_input(g, IG_INPUT_LOGIT_ROWS, integers(IG_SYMBOL_LOGITS));
    ig_status status = ig__graph_status(g, err);
    if (status == IG_OK) {
        family->build(&b);
        status = ig__graph_status(g, err);
    }
    if (status == IG_OK)
        status = check_all_used(g, file, family, err);
    if (status != IG_OK)
        ig__graph_fini(g);
    return status;
}
