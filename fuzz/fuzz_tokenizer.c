/* Vocabularies and texts made of arbitrary bytes.
 *
 *     byte 0   bit 0: model; bits 1..3: pre-tokeniser; bit 4: space prefix; bit 5: all
 * bytes byte 1   n tokens, each: type and length in one byte, score in one, name byte     n
 * merges, each: length, "left right" the rest is the text
 *
 * Checked beside memory: ids lie in the vocabulary, plain text gives no control token, and
 * with a token for every byte of a byte-level vocabulary, text survives.
 */
#include "base/alloc.h"
#include "text/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

typedef struct input {
    const uint8_t *data;
    size_t n;
} input;

typedef struct made_vocab {
    ig__vocab v;
    ig__token_text tokens[512], merges[256];
    int32_t types[512];
    float scores[512];
    char bytes[256][8];
} made_vocab;

static void require(bool holds)
{
    if (!holds)
        abort();
}

static uint8_t take_byte(input *in)
{
    if (in->n == 0)
        return 0;
    in->n--;
    return *in->data++;
}

static ig__token_text take_text(input *in, size_t n)
{
    if (n > in->n)
        n = in->n;
    const ig__token_text text = {(const char *)in->data, n};
    in->data += n;
    in->n -= n;
    return text;
}

/* The names of the 256 bytes, as the model writes them. */
static void add_bytes(made_vocab *m, bool spm)
{
    int next = 0x100;
    for (int b = 0; b < 256; b++) {
        const int64_t id = m->v.n_tokens++;
        char *name = m->bytes[b];
        if (spm) {
            snprintf(name, sizeof m->bytes[b], "<0x%02X>", (unsigned)b);
        } else {
            const bool stands = (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b != 0xad);
            const int c = stands ? b : next++;
            memset(name, 0, sizeof m->bytes[b]);
            name[0] = (char)(c < 0x80 ? c : 0xc0 | c >> 6);
            name[1] = (char)(c < 0x80 ? 0 : 0x80 | (c & 0x3f));
        }
        m->tokens[id] = (ig__token_text){name, strlen(name)};
        m->types[id] = spm ? 6 : 1;
        m->scores[id] = 0;
    }
}

static void make_vocab(made_vocab *m, input *in, uint8_t flags)
{
    static const char *const pres[] = {NULL,    "gpt-2",   "smollm",    "llama-bpe",
                                       "qwen2", "default", "llama-bpe", "smollm"};
    m->v = (ig__vocab){
        .model = flags & 1 ? "llama" : "gpt2",
        .pre = pres[flags >> 1 & 7],
        .tokens = m->tokens,
        .types = m->types,
        .scores = m->scores,
        .merges = m->merges,
        .add_space_prefix = flags >> 4 & 1,
        .bos = -1,
        .eos = -1,
        .unk = (int64_t)(flags >> 6) - 1,
        .pad = -1,
        .eot = -1,
    };
    if (flags & 0x20)
        add_bytes(m, flags & 1);
    for (int n = take_byte(in); n > 0 && in->n > 0; n--) {
        const int64_t id = m->v.n_tokens++;
        const uint8_t head = take_byte(in);
        m->types[id] = head & 7;
        m->scores[id] = (float)(int8_t)take_byte(in);
        m->tokens[id] = take_text(in, head >> 3);
    }
    for (int n = take_byte(in); n > 0 && in->n > 0; n--)
        m->merges[m->v.n_merges++] = take_text(in, take_byte(in) & 31);
}

static void check_text(const ig_tokenizer *tk, const char *text, size_t n, bool exact)
{
    ig_ids ids = {0};
    const ig_tokenize_opts plain = {.plain = true};
    require(ig_tokenize(&ids, tk, text, n, &plain, NULL) == IG_OK);
    for (int64_t i = 0; i < ids.n; i++) {
        require(ids.ids[i] >= 0 && ids.ids[i] < ig_tokenizer_vocab(tk));
        require(!ig_token_is_control(tk, ids.ids[i]));
    }
    char *back;
    size_t n_back;
    require(ig_detokenize(&back, &n_back, tk, ids.ids, ids.n, true, NULL) == IG_OK);
    if (exact)
        require(n_back == n && (n == 0 || memcmp(back, text, n) == 0));
    ig_text_free(tk, back);
    ids.n = 0;
    require(ig_tokenize(&ids, tk, text, n, NULL, NULL) == IG_OK);
    ids.n = 0; /* any bytes do for the marks: the text's own */
    require(ig__tokenize_marked(&ids, tk, text, (const uint8_t *)text, n, NULL) == IG_OK);
    for (int64_t i = 0; i < ids.n; i++)
        require(ids.ids[i] >= 0 && ids.ids[i] < ig_tokenizer_vocab(tk));
    ig_ids_free(tk, &ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static made_vocab made; /* large for a stack; filled anew each time */
    input in = {data, n};
    const uint8_t flags = take_byte(&in);
    make_vocab(&made, &in, flags);
    const ig_allocator a = ig__allocator_default();
    ig_tokenizer *tk;
    if (ig__tokenizer_create(&tk, &a, &made.v, NULL) != IG_OK)
        return 0;
    check_text(tk, in.n ? (const char *)in.data : "", in.n, (flags & 0x21) == 0x20);
    ig_tokenizer_close(tk);
    return 0;
}
