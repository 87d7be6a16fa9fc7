/* Text to ids and back: the calls of the public header, over whichever model the vocabulary
 * has.
 */
#include "text/text_int.h"

#include "base/error.h"

#include <string.h>

/* Append the ids of text[0..n): the special tokens found in it, and between them what the
 * model makes of the runs. */
static ig_status encode_runs(ig__text_work *work, const char *text, size_t n,
                             ig__markup markup, ig_error *err)
{
    const ig_tokenizer *tk = work->tk;
    bool after_special = true;
    size_t begin = 0, at = 0;
    while (at < n) {
        size_t n_special;
        const int32_t id = ig__special_match(&n_special, tk, text, at, n, markup);
        if (id < 0) {
            at++;
            continue;
        }
        IG_TRY(tk->model->encode(work, text + begin, at - begin, after_special, err));
        IG_TRY(ig__ids_push(work->ids, &tk->a, id, err));
        after_special = true;
        at += n_special;
        begin = at;
    }
    return tk->model->encode(work, text + begin, n - begin, after_special, err);
}

/* Append; on failure `ids` has as many as before. */
static ig_status append(ig_ids *ids, const ig_tokenizer *tk, const char *text, size_t n,
                        ig__markup markup, ig_error *err)
{
    if (n > INT32_MAX - 1) /* offsets in a word are 32 bits, and a space may go before it */
        return ig__fail(err, IG_ERR_LIMIT, "tokenize: a text of %zu bytes, the limit is %d",
                        n, INT32_MAX - 1);
    const int64_t n_before = ids->n;
    ig__text_work work = {.tk = tk, .ids = ids, .copy = ig__buffer_init(&tk->a)};
    const ig_status status = encode_runs(&work, text, n, markup, err);
    ig__work_fini(&work);
    if (status != IG_OK)
        ids->n = n_before;
    return status;
}

ig_status ig_tokenize(ig_ids *ids, const ig_tokenizer *tokenizer, const char *text,
                      size_t n_bytes, const ig_tokenize_opts *opts, ig_error *err)
{
    const ig_tokenize_opts none = {0};
    if (!opts)
        opts = &none;
    const int64_t n_before = ids->n;
    const bool bos = opts->add_special && tokenizer->add_bos && tokenizer->bos >= 0;
    const bool eos = opts->add_special && tokenizer->add_eos && tokenizer->eos >= 0;
    const ig__markup markup = {.all = !opts->plain};
    size_t n_first;
    ig_status status = IG_OK;
    /* a text that begins with BOS has it already: two of them make answers worse */
    if (bos && (n_bytes == 0 || ig__special_match(&n_first, tokenizer, text, 0, n_bytes,
                                                  markup) != tokenizer->bos))
        status = ig__ids_push(ids, &tokenizer->a, tokenizer->bos, err);
    if (status == IG_OK)
        status = append(ids, tokenizer, text, n_bytes, markup, err);
    if (status == IG_OK && eos)
        status = ig__ids_push(ids, &tokenizer->a, tokenizer->eos, err);
    if (status != IG_OK)
        ids->n = n_before;
    return status;
}

ig_status ig__tokenize_marked(ig_ids *ids, const ig_tokenizer *tokenizer, const char *text,
                              const uint8_t *markup, size_t n_bytes, ig_error *err)
{
    return append(ids, tokenizer, text, n_bytes, (ig__markup){.at = markup}, err);
}

void ig_ids_free(const ig_tokenizer *tokenizer, ig_ids *ids)
{
    ig__free(&tokenizer->a, ids->ids);
    *ids = (ig_ids){0};
}

/* The bytes of a token in running text. */
static const char *shown_bytes(size_t *n_out, const ig_tokenizer *tk, int32_t id,
                               bool special)
{
    *n_out = 0;
    if (id < 0 || id >= tk->n_tokens || (!special && ig__token_is_markup(tk, id)))
        return "";
    return ig__token_at(tk, id, n_out);
}

size_t ig_token_bytes(const ig_tokenizer *tokenizer, int32_t id, bool special, char *bytes,
                      size_t cap)
{
    size_t n;
    const char *shown = shown_bytes(&n, tokenizer, id, special);
    const size_t n_copied = n < cap ? n : cap;
    if (n_copied)
        memcpy(bytes, shown, n_copied);
    return n;
}

ig_status ig_detokenize(char **text_out, size_t *n_bytes_out, const ig_tokenizer *tokenizer,
                        const int32_t *ids, int64_t n, bool special, ig_error *err)
{
    *text_out = NULL;
    *n_bytes_out = 0;
    ig__buffer text = ig__buffer_init(&tokenizer->a);
    bool first = tokenizer->space_prefix; /* the space that encoding puts before a text */
    for (int64_t i = 0; i < n; i++) {
        size_t n_token;
        const char *token = shown_bytes(&n_token, tokenizer, ids[i], special);
        const size_t extra = first && n_token > 0 && token[0] == ' ';
        first = first && n_token == 0;
        ig__buffer_append(&text, token + extra, n_token - extra);
    }
    size_t n_bytes;
    char *bytes = ig__buffer_take(&text, &n_bytes);
    if (!bytes)
        return ig__fail_memory(err, "detokenize", 0);
    *text_out = bytes;
    *n_bytes_out = n_bytes;
    return IG_OK;
}

void ig_text_free(const ig_tokenizer *tokenizer, char *text)
{
    ig__free(&tokenizer->a, text);
}
