/* Making a tokenizer from the arrays of a vocabulary, and what can be asked of it.
 *
 * The arrays are a stranger's: every id is checked against the count of tokens, every
 * length added with a check, and what makes no sense but harms nobody (empty tokens,
 * doubles, merges that name no token, missing bytes) is accepted and never matches. All
 * tokens share one arena and one array of offsets, so making one costs a handful of
 * allocations.
 */
#include "text/text_int.h"

#include "base/clock.h"
#include "base/error.h"

#include <string.h>

static const ig__text_model models[] = {
    {"gpt2", ig__bpe_unescape, ig__bpe_prepare, ig__bpe_encode},
    {"llama", ig__spm_unescape, ig__spm_prepare, ig__spm_encode},
};

/* What the model families call the end of a turn or of a text. Only a control token of this
 * name counts. */
static const char *const end_names[] = {
    "</s>",          "<|endoftext|>", "<|im_end|>",      "<|end|>",
    "<|eot_id|>",    "<|eom_id|>",    "<|end_of_text|>", "<end_of_turn>",
    "<eos>",         "<|eot|>",       "<EOT>",           "<|end_of_turn|>",
    "<|endofturn|>", "<|return|>",    "<turn|>",         "<｜end▁of▁sentence｜>",
};

static const ig__text_model *find_model(const char *name)
{
    for (size_t i = 0; name && i < sizeof models / sizeof *models; i++)
        if (strcmp(models[i].name, name) == 0)
            return &models[i];
    return NULL;
}

static ig_status check_id(const char *what, int64_t id, int64_t n_tokens, ig_error *err)
{
    if (id < -1 || id >= n_tokens)
        return ig__fail(err, IG_ERR_FORMAT,
                        "tokenizer: the %s token is %lld, allowed is 0 to %lld", what,
                        (long long)id, (long long)n_tokens - 1);
    return IG_OK;
}

static ig_status check_vocab(size_t *text_bytes_out, const ig__vocab *vocab, ig_error *err)
{
    const int64_t n = vocab->n_tokens;
    if (n < 1 || !vocab->tokens)
        return ig__fail(err, IG_ERR_FORMAT, "tokenizer: the vocabulary has no tokens");
    if (n > IG__TOKENS_MAX)
        return ig__fail(err, IG_ERR_LIMIT, "tokenizer: %lld tokens, the limit is %lld",
                        (long long)n, (long long)IG__TOKENS_MAX);
    if (vocab->n_merges < 0 || vocab->n_merges > 8 * IG__TOKENS_MAX ||
        (vocab->n_merges > 0 && !vocab->merges))
        return ig__fail(err, IG_ERR_LIMIT, "tokenizer: %lld merges, the limit is %lld",
                        (long long)vocab->n_merges, (long long)(8 * IG__TOKENS_MAX));
    IG_TRY(check_id("BOS", vocab->bos, n, err));
    IG_TRY(check_id("EOS", vocab->eos, n, err));
    IG_TRY(check_id("unknown", vocab->unk, n, err));
    IG_TRY(check_id("padding", vocab->pad, n, err));
    IG_TRY(check_id("end-of-turn", vocab->eot, n, err));
    size_t bytes = 0;
    for (int64_t i = 0; i < n; i++)
        if (!ig__add(&bytes, bytes, vocab->tokens[i].n) || bytes > UINT32_MAX)
            return ig__fail(err, IG_ERR_LIMIT,
                            "tokenizer: the tokens have more than %u bytes together",
                            UINT32_MAX);
    *text_bytes_out = bytes;
    return IG_OK;
}

static void *alloc_array(const ig_tokenizer *tk, int64_t n, size_t size, ig_status *status,
                         ig_error *err)
{
    const size_t bytes = (size_t)n * size; /* n is at most 4 G, size at most 16 */
    void *p = ig__alloc(&tk->a, bytes);
    if (!p && *status == IG_OK)
        *status = ig__fail_memory(err, "tokenizer", bytes);
    return p;
}

static ig__token_type type_of(const ig__vocab *vocab, int64_t id)
{
    const int32_t type = vocab->types ? vocab->types[id] : IG__TOKEN_NORMAL;
    return type >= IG__TOKEN_NORMAL && type <= IG__TOKEN_BYTE ? (ig__token_type)type
                                                              : IG__TOKEN_NORMAL;
}

/* Fill the arena, and the map of the tokens that merging may make. */
static ig_status add_tokens(ig_tokenizer *tk, const ig__vocab *vocab, ig_error *err)
{
    int32_t batch[IG__MAP_BATCH];
    int n_batch = 0;
    size_t at = 0;
    tk->starts[0] = 0;
    for (int64_t i = 0; i < tk->n_tokens; i++) {
        const ig__token_text name = vocab->tokens[i];
        const ig__token_type type = type_of(vocab, i);
        bool merges;
        const size_t n =
            tk->model->unescape(tk->arena + at, name.bytes, name.n, type, &merges);
        at += n;
        tk->starts[i + 1] = (uint32_t)at;
        tk->types[i] = (uint8_t)type;
        if (merges && n > 0 && n <= IG__TOKEN_BYTES_MAX)
            batch[n_batch++] = (int32_t)i;
        if (n_batch == IG__MAP_BATCH) {
            IG_TRY(ig__token_map_add_all(&tk->by_bytes, tk, batch, n_batch, err));
            n_batch = 0;
        }
    }
    return ig__token_map_add_all(&tk->by_bytes, tk, batch, n_batch, err);
}

static void add_end(ig_tokenizer *tk, int64_t id)
{
    if (id < 0)
        return;
    for (int i = 0; i < tk->n_ends; i++)
        if (tk->ends[i] == id)
            return;
    tk->ends[tk->n_ends++] = (int32_t)id;
}

static void find_ends(ig_tokenizer *tk, const ig__vocab *vocab)
{
    _Static_assert(sizeof end_names / sizeof *end_names + 2 <=
                       sizeof tk->ends / sizeof *tk->ends,
                   "room for every name, EOS and end-of-turn");
    add_end(tk, vocab->eos);
    add_end(tk, vocab->eot);
    for (size_t i = 0; i < sizeof end_names / sizeof *end_names; i++)
        add_end(tk, ig__special_named(tk, end_names[i]));
}

static ig_status build(ig_tokenizer *tk, const ig__vocab *vocab, size_t text_bytes,
                       ig_error *err)
{
    ig_status status = IG_OK;
    tk->arena = alloc_array(tk, (int64_t)text_bytes, 1, &status, err);
    tk->starts = alloc_array(tk, tk->n_tokens + 1, sizeof *tk->starts, &status, err);
    tk->types = alloc_array(tk, tk->n_tokens, sizeof *tk->types, &status, err);
    if (vocab->scores) {
        tk->scores = alloc_array(tk, tk->n_tokens, sizeof *tk->scores, &status, err);
        if (tk->scores)
            memcpy(tk->scores, vocab->scores, (size_t)tk->n_tokens * sizeof *tk->scores);
    }
    IG_TRY(status);
    /* a seed that a file's author cannot know */
    const uint64_t seed = (uint64_t)ig__now_ns() * 0x9e3779b97f4a7c15u ^ (uintptr_t)tk;
    IG_TRY(ig__token_map_init(&tk->by_bytes, &tk->a, tk->n_tokens, seed, err));
    IG_TRY(add_tokens(tk, vocab, err));
    IG_TRY(ig__specials_init(tk, err));
    find_ends(tk, vocab);
    return tk->model->prepare(tk, vocab, err);
}

ig_status ig__tokenizer_create(ig_tokenizer **tokenizer_out, const ig_allocator *a,
                               const ig__vocab *vocab, ig_error *err)
{
    *tokenizer_out = NULL;
    const ig__text_model *model = find_model(vocab->model);
    if (!model)
        return ig__fail(err, IG_ERR_UNSUPPORTED,
                        "tokenizer: model '%.64s' is not known (gpt2, llama)",
                        vocab->model ? vocab->model : "");
    size_t text_bytes = 0;
    IG_TRY(check_vocab(&text_bytes, vocab, err));
    ig_tokenizer *tk = ig__alloc_zero(a, sizeof *tk);
    if (!tk)
        return ig__fail_memory(err, "tokenizer", sizeof *tk);
    tk->a = *a;
    tk->model = model;
    tk->n_tokens = vocab->n_tokens;
    tk->bos = (int32_t)vocab->bos;
    tk->eos = (int32_t)vocab->eos;
    tk->unk = (int32_t)vocab->unk;
    tk->add_bos = vocab->add_bos;
    tk->add_eos = vocab->add_eos;
    const ig_status status = build(tk, vocab, text_bytes, err);
    if (status != IG_OK) {
        ig_tokenizer_close(tk);
        return status;
    }
    *tokenizer_out = tk;
    return IG_OK;
}

void ig_tokenizer_close(ig_tokenizer *tokenizer)
{
    if (!tokenizer)
        return;
    const ig_allocator a = tokenizer->a;
    ig__splitter_destroy(tokenizer->splitter);
    ig__free(&a, tokenizer->specials);
    ig__free(&a, tokenizer->joins);
    ig__free(&a, tokenizer->pairs.slots);
    ig__free(&a, tokenizer->by_bytes.slots);
    ig__free(&a, tokenizer->scores);
    ig__free(&a, tokenizer->types);
    ig__free(&a, tokenizer->starts);
    ig__free(&a, tokenizer->arena);
    ig__free(&a, tokenizer);
}

int64_t ig_tokenizer_vocab(const ig_tokenizer *tokenizer)
{
    return tokenizer->n_tokens;
}

int32_t ig_tokenizer_bos(const ig_tokenizer *tokenizer)
{
    return tokenizer->bos;
}

int32_t ig_tokenizer_eos(const ig_tokenizer *tokenizer)
{
    return tokenizer->eos;
}

bool ig_tokenizer_adds_bos(const ig_tokenizer *tokenizer)
{
    return tokenizer->add_bos;
}

bool ig_token_is_end(const ig_tokenizer *tokenizer, int32_t id)
{
    for (int i = 0; i < tokenizer->n_ends; i++)
        if (tokenizer->ends[i] == id)
            return true;
    return false;
}

bool ig_token_is_control(const ig_tokenizer *tokenizer, int32_t id)
{
    return id >= 0 && id < tokenizer->n_tokens && tokenizer->types[id] == IG__TOKEN_CONTROL;
}

const ig_allocator *ig__tokenizer_allocator(const ig_tokenizer *tokenizer)
{
    return &tokenizer->a;
}
