/* Vocabularies made by the tests themselves, and an allocator that counts and fails.
 *
 * A small_vocab grows by one token or merge a call; names are copied into it. It starts
 * with the 256 bytes, written as its model writes them.
 */
#ifndef INGOT_TESTS_TEXT_SMALL_VOCAB_H
#define INGOT_TESTS_TEXT_SMALL_VOCAB_H

#include "text/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SMALL_TOKENS = 1024, SMALL_MERGES = 512, SMALL_NAMES = 1 << 16 };

typedef struct small_vocab {
    ig__vocab v; /* points into the arrays below: the struct must not move */
    ig__token_text tokens[SMALL_TOKENS];
    int32_t types[SMALL_TOKENS];
    float scores[SMALL_TOKENS];
    ig__token_text merges[SMALL_MERGES];
    char names[SMALL_NAMES];
    size_t n_names;
} small_vocab;

/* ---- memory that counts its blocks, and fails at the nth request ---- */

typedef struct counting {
    int64_t n_live, n_calls, fail_at; /* fail_at: from 1; 0 never */
} counting;

static inline void *counting_alloc(void *user, size_t bytes, size_t align)
{
    counting *c = user;
    if (++c->n_calls == c->fail_at)
        return NULL;
    void *p = aligned_alloc(align, (bytes + align - 1) / align * align);
    c->n_live += p != NULL;
    return p;
}

static inline void counting_free(void *user, void *p)
{
    counting *c = user;
    c->n_live -= p != NULL;
    free(p);
}

static inline ig_allocator counting_allocator(counting *c)
{
    return (ig_allocator){.alloc = counting_alloc, .free = counting_free, .user = c};
}

/* ---- vocabularies ---- */

static inline ig__token_text small_name(small_vocab *s, const char *bytes, size_t n)
{
    if (s->n_names + n > sizeof s->names)
        abort();
    char *name = s->names + s->n_names;
    memcpy(name, bytes, n);
    s->n_names += n;
    return (ig__token_text){name, n};
}

static inline int32_t small_add(small_vocab *s, const char *name, int32_t type, float score)
{
    const int64_t id = s->v.n_tokens++;
    s->tokens[id] = small_name(s, name, strlen(name));
    s->types[id] = type;
    s->scores[id] = score;
    return (int32_t)id;
}

static inline void small_merge(small_vocab *s, const char *line)
{
    s->merges[s->v.n_merges++] = small_name(s, line, strlen(line));
}

/* The character that GPT-2 writes for a byte. */
static inline void gpt2_character(char name[3], int byte)
{
    static const int ranges[3][2] = {{0x21, 0x7e}, {0xa1, 0xac}, {0xae, 0xff}};
    int c = 0x100;
    for (int b = 0; b <= byte; b++) {
        bool stands = false;
        for (int r = 0; r < 3; r++)
            stands = stands || (b >= ranges[r][0] && b <= ranges[r][1]);
        if (b == byte)
            c = stands ? b : c;
        else
            c += !stands;
    }
    memset(name, 0, 3);
    if (c < 0x80) {
        name[0] = (char)c;
        return;
    }
    name[0] = (char)(0xc0 | c >> 6);
    name[1] = (char)(0x80 | (c & 0x3f));
}

static inline void small_init(small_vocab *s, const char *model)
{
    *s = (small_vocab){0};
    s->v = (ig__vocab){
        .model = model,
        .tokens = s->tokens,
        .types = s->types,
        .scores = s->scores,
        .merges = s->merges,
        .bos = -1,
        .eos = -1,
        .unk = -1,
        .pad = -1,
        .eot = -1,
    };
}

/* 256 bytes (their ids are the bytes), then a few words:
 *     256 he 257 ll 258 hell 259 hello 260 Ġhello
 *     261 <s> 262 <|im_end|> 263 <|im_end|>x 264 [tool] (user-defined) 265 [t
 * (user-defined) 266 aa 267 aaaa */
static inline void small_bpe(small_vocab *s)
{
    small_init(s, "gpt2");
    for (int b = 0; b < 256; b++) {
        char name[3];
        gpt2_character(name, b);
        small_add(s, name, 1, 0);
    }
    const char *const words[] = {"he", "ll", "hell", "hello", "Ġhello"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        small_add(s, words[i], 1, 0);
    small_add(s, "<s>", 3, 0);
    small_add(s, "<|im_end|>", 3, 0);
    small_add(s, "<|im_end|>x", 3, 0);
    small_add(s, "[tool]", 4, 0);
    small_add(s, "[t", 4, 0);
    small_add(s, "aa", 1, 0);
    small_add(s, "aaaa", 1, 0);
    const char *const merges[] = {"h e",     "l l", "he ll", "hell o",
                                  "Ġ hello", "a a", "aa aa"};
    for (size_t i = 0; i < sizeof merges / sizeof *merges; i++)
        small_merge(s, merges[i]);
    s->v.bos = 261;
    s->v.eos = 262;
}

/* 0 <unk> 1 <s> 2 </s>, 3 + b the byte b, then
 *     259 ▁ 260 a 261 b 262 ab 263 ▁a 264 ▁ab 265 é 266 [u] (user-defined) */
static inline void small_spm(small_vocab *s)
{
    small_init(s, "llama");
    small_add(s, "<unk>", 2, 0);
    small_add(s, "<s>", 3, 0);
    small_add(s, "</s>", 3, 0);
    for (unsigned b = 0; b < 256; b++) {
        char name[8];
        snprintf(name, sizeof name, "<0x%02X>", b);
        small_add(s, name, 6, 0);
    }
    small_add(s, "▁", 1, -7);
    small_add(s, "a", 1, -6);
    small_add(s, "b", 1, -5);
    small_add(s, "ab", 1, -1);
    small_add(s, "▁a", 1, -2);
    small_add(s, "▁ab", 1, -3);
    small_add(s, "é", 1, -4);
    small_add(s, "[u]", 4, 0);
    s->v.unk = 0;
    s->v.bos = 1;
    s->v.eos = 2;
    s->v.add_bos = true;
    s->v.add_space_prefix = true;
}

#endif
