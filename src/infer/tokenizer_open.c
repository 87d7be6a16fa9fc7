/* The keys "tokenizer.ggml.*" of a GGUF file, and what holds where a file is silent.
 *
 * Silence is common in older files, and means what their first reader, llama.cpp, takes it
 * for: a SentencePiece vocabulary ("llama") has BOS 1, EOS 2, unknown 0, adds BOS and puts
 * a space in front of the text; a byte-level one ("gpt2") does none of that, but with the
 * pre-tokeniser of Llama 3 it adds BOS. One deviation: a byte-level vocabulary without BOS
 * and EOS has none here, not token 11.
 */
#include "infer/vocab_load.h"

#include "base/error.h"
#include "tensor/context.h"
#include "text/tokenizer.h"

#include <string.h>

#define KEY(name) "tokenizer.ggml." name

static ig_status fail_key(const ig__gguf *gguf, const char *key, int64_t found,
                          const char *wanted, int64_t n, ig_error *err)
{
    return ig__fail(err, IG_ERR_FORMAT, "%s: byte %llu: key '%s': %lld, %s %lld",
                    ig__gguf_path(gguf),
                    (unsigned long long)ig__gguf_value_offset(gguf, key), key,
                    (long long)found, wanted, (long long)n);
}

/* An array of one value a token, NULL if the file has none. */
static ig_status read_per_token(const void **out, const ig__gguf *gguf, const char *key,
                                ig__gguf_type type, int64_t n_tokens, ig_error *err)
{
    *out = NULL;
    int64_t n = n_tokens;
    IG_TRY(ig__gguf_get_array(out, &n, gguf, key, type, false, err));
    if (n != n_tokens)
        return fail_key(gguf, key, n, "the tokens are", n_tokens, err);
    return IG_OK;
}

static ig_status read_strings(const ig__token_text **out, int64_t *n_out,
                              const ig__gguf *gguf, const char *key, bool required,
                              ig_error *err)
{
    const ig__gguf_string *strings = NULL;
    *n_out = 0;
    IG_TRY(ig__gguf_get_strings(&strings, n_out, gguf, key, required, err));
    _Static_assert(sizeof *strings == sizeof **out, "one is passed as the other");
    *out = (const ig__token_text *)(const void *)strings;
    return IG_OK;
}

static ig_status read_text(const char **out, const ig__gguf *gguf, const char *key,
                           bool required, ig_error *err)
{
    size_t n = 0;
    IG_TRY(ig__gguf_get_string(out, &n, gguf, key, required, err));
    return IG_OK;
}

/* A special token's id: -1 (in 32 bits of any sign) is none. */
static ig_status read_id(int64_t *id, const ig__gguf *gguf, const char *key,
                         int64_t n_tokens, ig_error *err)
{
    IG_TRY(ig__gguf_get_i64(id, gguf, key, false, -1, UINT32_MAX, err));
    if (*id == UINT32_MAX)
        *id = -1;
    if (ig__gguf_has(gguf, key) && *id >= n_tokens)
        return fail_key(gguf, key, *id, "must be below the token count,", n_tokens, err);
    return IG_OK;
}

static ig_status read_arrays(ig__vocab *v, const ig__gguf *gguf, ig_error *err)
{
    const void *scores, *types;
    IG_TRY(read_text(&v->model, gguf, KEY("model"), true, err));
    IG_TRY(read_text(&v->pre, gguf, KEY("pre"), false, err));
    IG_TRY(read_strings(&v->tokens, &v->n_tokens, gguf, KEY("tokens"), true, err));
    IG_TRY(read_per_token(&scores, gguf, KEY("scores"), IG__GGUF_F32, v->n_tokens, err));
    IG_TRY(read_per_token(&types, gguf, KEY("token_type"), IG__GGUF_I32, v->n_tokens, err));
    v->scores = scores;
    v->types = types;
    return read_strings(&v->merges, &v->n_merges, gguf, KEY("merges"), false, err);
}

/* What a file that does not say means. */
static void set_defaults(ig__vocab *v)
{
    const bool spm = strcmp(v->model, "llama") == 0;
    const bool named = spm && v->n_tokens > 2;
    v->unk = named ? 0 : -1;
    v->bos = named ? 1 : -1;
    v->eos = named ? 2 : -1;
    v->pad = v->eot = -1;
    v->add_bos = spm || (v->pre && strcmp(v->pre, "llama-bpe") == 0);
    v->add_space_prefix = spm;
}

static ig_status read_specials(ig__vocab *v, const ig__gguf *gguf, ig_error *err)
{
    const int64_t n = v->n_tokens;
    IG_TRY(read_id(&v->bos, gguf, KEY("bos_token_id"), n, err));
    IG_TRY(read_id(&v->eos, gguf, KEY("eos_token_id"), n, err));
    IG_TRY(read_id(&v->unk, gguf, KEY("unknown_token_id"), n, err));
    IG_TRY(read_id(&v->pad, gguf, KEY("padding_token_id"), n, err));
    IG_TRY(read_id(&v->eot, gguf, KEY("eot_token_id"), n, err));
    IG_TRY(ig__gguf_get_bool(&v->add_bos, gguf, KEY("add_bos_token"), false, err));
    IG_TRY(ig__gguf_get_bool(&v->add_eos, gguf, KEY("add_eos_token"), false, err));
    IG_TRY(
        ig__gguf_get_bool(&v->add_space_prefix, gguf, KEY("add_space_prefix"), false, err));
    v->add_bos = v->add_bos && v->bos >= 0;
    v->add_eos = v->add_eos && v->eos >= 0;
    return IG_OK;
}

/* The key that a vocabulary was refused for. What can be unsupported is the model, or the
 * pre-tokeniser of a byte-level one. */
static const char *refused_key(const ig__vocab *v, ig_status status)
{
    if (status == IG_ERR_UNSUPPORTED)
        return strcmp(v->model, "gpt2") == 0 ? KEY("pre") : KEY("model");
    return v->n_merges > v->n_tokens && status == IG_ERR_LIMIT ? KEY("merges")
                                                               : KEY("tokens");
}

/* The tokenizer knows of no file: say where in it the fault is. */
static ig_status fail_in_file(const ig__gguf *gguf, const ig__vocab *v, ig_status status,
                              const ig_error *why, ig_error *err)
{
    const char *key = refused_key(v, status);
    return ig__fail(err, status, "%s: byte %llu: key '%s': %s", ig__gguf_path(gguf),
                    (unsigned long long)ig__gguf_value_offset(gguf, key), key,
                    why->message);
}

ig_status ig__tokenizer_from_gguf(ig_tokenizer **tokenizer_out, const ig__gguf *gguf,
                                  const ig_allocator *a, ig_error *err)
{
    *tokenizer_out = NULL;
    ig__vocab vocab = {0};
    IG_TRY(read_arrays(&vocab, gguf, err));
    set_defaults(&vocab);
    IG_TRY(read_specials(&vocab, gguf, err));
    ig_error why;
    const ig_status status = ig__tokenizer_create(tokenizer_out, a, &vocab, &why);
    if (status == IG_ERR_FORMAT || status == IG_ERR_UNSUPPORTED || status == IG_ERR_LIMIT)
        return fail_in_file(gguf, &vocab, status, &why, err);
    if (status != IG_OK && err)
        *err = why;
    return status;
}

ig_status ig_tokenizer_open(ig_tokenizer **tokenizer_out, ig_context *ctx, const char *path,
                            ig_error *err)
{
    *tokenizer_out = NULL;
    ig__gguf *gguf;
    IG_TRY(ig__gguf_open(&gguf, &ctx->allocator, path, err));
    const ig_status status =
        ig__tokenizer_from_gguf(tokenizer_out, gguf, &ctx->allocator, err);
    ig__gguf_close(gguf);
    return status;
}
