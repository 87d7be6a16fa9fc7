/* Random weights whose products keep the size of what goes in: standard deviation near
 * 1 / sqrt(K). */
#include "tiny_model.h"

#include "kernel/kernel.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

const ig_dtype tiny_types[TINY_TYPES] = {
    IG_DTYPE_Q4_0, IG_DTYPE_Q4_1, IG_DTYPE_Q5_0, IG_DTYPE_Q8_0, IG_DTYPE_Q4_K,
    IG_DTYPE_Q6_K, IG_DTYPE_F16,  IG_DTYPE_BF16, IG_DTYPE_F32,
};

enum { MAX_TENSORS = 96, ALIGN = 32 };

typedef struct entry {
    char name[64];
    int64_t k, n; /* n 0: a vector of k */
    uint64_t offset, bytes;
} entry;

typedef struct shape {
    int64_t n_layers, width, head, ff, n_heads, n_kv_heads;
    entry entries[MAX_TENSORS];
    int n_entries;
    uint64_t n_bytes;
} shape;

static uint32_t next(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 32);
}

static float uniform(uint64_t *seed) /* [-1, 1) */
{
    return (float)(int32_t)next(seed) * 0x1p-31f;
}

void tiny_ids(int32_t *ids, int64_t n, uint64_t seed)
{
    for (int64_t i = 0; i < n; i++)
        ids[i] = (int32_t)(next(&seed) % (TINY_VOCAB - 1));
}

/* ---- bytes of tensors ---- */

static void put_half(unsigned char *at, float value)
{
    const uint16_t h = ig__f32_to_f16(value);
    memcpy(at, &h, sizeof h);
}

/* The scales of a block of random bytes, such that its values have mean 0 and deviation s. */
static void set_scales(unsigned char *block, ig_dtype dtype, float s)
{
    switch (dtype) {
    case IG_DTYPE_Q4_0: /* q - 8 */
        put_half(block, s / 4.6f);
        break;
    case IG_DTYPE_Q4_1:
        put_half(block, s / 4.6f);
        put_half(block + 2, -7.5f * s / 4.6f);
        break;
    case IG_DTYPE_Q5_0: /* q - 16 */
        put_half(block, s / 9.2f);
        break;
    case IG_DTYPE_Q8_0:
        put_half(block, s / 74.0f);
        break;
    case IG_DTYPE_Q4_K: /* d * sc * q - dmin * mn, sc and mn below 64 */
        put_half(block, s / 300.0f);
        put_half(block + 2, 7.5f * s / 300.0f);
        break;
    case IG_DTYPE_Q6_K: /* d * sc * (q - 32), sc in -128..127 */
        put_half(block + 208, s / (74.0f * 18.5f));
        break;
    default:
        break;
    }
}

static void random_matrix(unsigned char *to, ig_dtype dtype, int64_t n_values, float s,
                          uint64_t *seed)
{
    const int64_t block = ig_dtype_block(dtype);
    const size_t bytes = ig_dtype_block_bytes(dtype);
    for (int64_t i = 0; i < n_values / block; i++, to += bytes) {
        const float value = uniform(seed) * s * 1.7320508f;
        const uint16_t half =
            dtype == IG_DTYPE_F16 ? ig__f32_to_f16(value) : ig__f32_to_bf16(value);
        if (block == 1) {
            memcpy(to, bytes == 2 ? (const void *)&half : (const void *)&value, bytes);
            continue;
        }
        for (size_t j = 0; j < bytes; j++)
            to[j] = (unsigned char)(next(seed) >> 24);
        set_scales(to, dtype, s * (1.0f + 0.3f * uniform(seed)));
    }
}

static void put_nan(unsigned char *at, ig_dtype dtype)
{
    const uint16_t f16 = 0x7e00, bf16 = 0x7fc0;
    const float f32 = NAN;
    if (dtype == IG_DTYPE_F32)
        memcpy(at, &f32, sizeof f32);
    else
        memcpy(at + (dtype == IG_DTYPE_Q6_K ? 208 : 0),
               dtype == IG_DTYPE_BF16 ? &bf16 : &f16, sizeof f16);
}

/* ---- the file ---- */

static void add(shape *s, ig_dtype dtype, int64_t k, int64_t n, int64_t layer,
                const char *name)
{
    assert_in_range(s->n_entries, 0, MAX_TENSORS - 1);
    entry *e = &s->entries[s->n_entries];
    if (layer < 0)
        snprintf(e->name, sizeof e->name, "%s.weight", name);
    else
        snprintf(e->name, sizeof e->name, "blk.%lld.%s.weight", (long long)layer, name);
    e->k = k;
    e->n = n;
    e->bytes = n ? (uint64_t)(k * n / ig_dtype_block(dtype)) * ig_dtype_block_bytes(dtype)
                 : (uint64_t)k * 4;
    e->offset = s->n_bytes;
    s->n_bytes = (e->offset + e->bytes + ALIGN - 1) / ALIGN * ALIGN;
    s->n_entries++;
}

static void add_layer(shape *s, const tiny_model *t, int64_t i)
{
    const int64_t q = s->n_heads * s->head, kv = s->n_kv_heads * s->head;
    add(s, t->dtype, s->width, 0, i, "attn_norm");
    add(s, t->dtype, s->width, q, i, "attn_q");
    add(s, t->dtype, s->width, kv, i, "attn_k");
    add(s, t->dtype, s->width, kv, i, "attn_v");
    add(s, t->dtype, q, s->width, i, "attn_output");
    add(s, t->dtype, s->width, 0, i, "ffn_norm");
    add(s, t->dtype, s->width, s->ff, i, "ffn_gate");
    add(s, t->dtype, s->width, s->ff, i, "ffn_up");
    add(s, t->dtype, s->ff, s->width, i, "ffn_down");
    if (!t->gemma)
        return;
    add(s, t->dtype, s->head, 0, i, "attn_q_norm");
    add(s, t->dtype, s->head, 0, i, "attn_k_norm");
    add(s, t->dtype, s->width, 0, i, "post_attention_norm");
    add(s, t->dtype, s->width, 0, i, "post_ffw_norm");
}

static void make_shape(shape *s, const tiny_model *t)
{
    const bool large = ig_dtype_block(t->dtype) == 256;
    *s = (shape){.n_layers = t->gemma ? 6 : 2, .n_heads = 4, .n_kv_heads = 2};
    s->width = large ? 256 : 64;
    s->head = large ? 64 : t->gemma ? 32 : 16;
    s->ff = large ? 512 : 96;
    add(s, t->dtype, s->width, TINY_VOCAB, -1, "token_embd");
    for (int64_t i = 0; i < s->n_layers; i++)
        add_layer(s, t, i);
    add(s, t->dtype, s->width, 0, -1, "output_norm");
    if (t->head)
        add(s, t->dtype, s->width, TINY_VOCAB, -1, "output");
}

static void write_keys(gguf_writer *w, const tiny_model *t, const shape *s)
{
    const char *arch = t->gemma ? "gemma3" : "llama";
    const struct {
        const char *name;
        int64_t value;
    } numbers[] = {
        {"block_count", s->n_layers},
        {"context_length", TINY_CONTEXT},
        {"embedding_length", s->width},
        {"feed_forward_length", s->ff},
        {"attention.head_count", s->n_heads},
        {"attention.head_count_kv", s->n_kv_heads},
        {"attention.key_length", s->head},
        {"attention.value_length", s->head},
        {"attention.sliding_window", TINY_WINDOW},
    };
    char key[96];
    gguf_key_string(w, "general.architecture", arch);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers - !t->gemma; i++) {
        snprintf(key, sizeof key, "%s.%s", arch, numbers[i].name);
        gguf_key_u32(w, key, (uint32_t)numbers[i].value);
    }
    snprintf(key, sizeof key, "%s.attention.layer_norm_rms_epsilon", arch);
    gguf_key_f32(w, key, 1e-5f);
    gguf_key_string(w, "tokenizer.ggml.model", "gpt2");
    gguf_key_u32(w, "tokenizer.ggml.eos_token_id", TINY_VOCAB - 1);
    gguf_key_array(w, "tokenizer.ggml.tokens", IG__GGUF_STRING, TINY_VOCAB);
    for (int i = 0; i < TINY_VOCAB; i++) {
        snprintf(key, sizeof key, "t%d", i);
        gguf_string(w, key);
    }
}

/* The file's number for a type. */
static uint32_t file_type(ig_dtype dtype)
{
    static const uint32_t numbers[IG_DTYPE_COUNT] = {
        [IG_DTYPE_F32] = 0,   [IG_DTYPE_F16] = 1,   [IG_DTYPE_Q4_0] = 2,
        [IG_DTYPE_Q4_1] = 3,  [IG_DTYPE_Q5_0] = 6,  [IG_DTYPE_Q8_0] = 8,
        [IG_DTYPE_Q4_K] = 12, [IG_DTYPE_Q6_K] = 14, [IG_DTYPE_BF16] = 30};
    return numbers[dtype];
}

static void write_tensor(tiny_model *t, const entry *e, uint64_t *seed)
{
    gguf_zeros(&t->file, (size_t)(e->offset + e->bytes));
    unsigned char *to = t->file.bytes + t->file.data + e->offset;
    if (e->n) {
        random_matrix(to, t->dtype, e->k * e->n, 1.0f / sqrtf((float)e->k), seed);
    } else {
        for (int64_t i = 0; i < e->k; i++) {
            const float gain = 1.0f + 0.3f * uniform(seed);
            memcpy(to + 4 * i, &gain, 4);
        }
    }
    if (t->nan_in && !strcmp(t->nan_in, e->name))
        put_nan(to + (e->n ? e->bytes / (uint64_t)e->n * (uint64_t)t->nan_row : 0),
                e->n ? t->dtype : IG_DTYPE_F32);
}

const char *tiny_model_save(tiny_model *t)
{
    shape *s = malloc(sizeof *s);
    if (!s)
        abort();
    make_shape(s, t);
    gguf_writer_init(&t->file);
    write_keys(&t->file, t, s);
    for (int i = 0; i < s->n_entries; i++) {
        const entry *e = &s->entries[i];
        const uint64_t dims[] = {(uint64_t)e->k, (uint64_t)e->n};
        gguf_tensor(&t->file, e->name, e->n ? 2 : 1, dims, e->n ? file_type(t->dtype) : 0,
                    e->offset);
    }
    gguf_data(&t->file, ALIGN);
    uint64_t seed = 20;
    for (int i = 0; i < s->n_entries; i++)
        write_tensor(t, &s->entries[i], &seed);
    free(s);
    return gguf_save(&t->file);
}

void tiny_model_fini(tiny_model *t)
{
    gguf_writer_fini(&t->file);
}
