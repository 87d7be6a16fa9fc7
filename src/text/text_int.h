/* What the files of text/ share about tokenizers: the tokenizer itself, the scratch of one
 * call, and the parts that they are built of.
 *
 *     text --special.c--> runs between special tokens
 *          --bpe.c, spm.c--> words (pretokenize.c cuts those of bpe.c)
 *          --merge.c--> ids
 *
 * A tokenizer is immutable once made; everything that a call changes lies in ig__text_work.
 */
#ifndef INGOT_TEXT_TEXT_INT_H
#define INGOT_TEXT_TEXT_INT_H

#include "text/tokenizer.h"
#include "base/buffer.h"

/* Tokens longer than this never come out of merging, and are not found in running text:
 * with it, the time spent on one byte of text is bounded whatever the vocabulary holds. The
 * longest token of the public vocabularies is 256 bytes long (a run of blanks). */
#define IG__TOKEN_BYTES_MAX 512

/* 16 M tokens; the largest public vocabulary has 262,400. */
#define IG__TOKENS_MAX ((int64_t)1 << 24)

/* The file's own numbers. Any other number counts as normal. */
typedef enum ig__token_type {
    IG__TOKEN_NORMAL = 1,
    IG__TOKEN_UNKNOWN = 2,
    IG__TOKEN_CONTROL = 3,
    IG__TOKEN_USER = 4,
    IG__TOKEN_UNUSED = 5,
    IG__TOKEN_BYTE = 6,
} ig__token_type;

/* ---- token_map.c: two hash tables, open addressing, linear probing ---- */

/* Tokens by their bytes, which lie in the tokenizer's arena. */
typedef struct ig__token_slot {
    uint32_t tag; /* the upper half of the hash */
    int32_t id;   /* -1: free */
} ig__token_slot;

typedef struct ig__token_map {
    ig__token_slot *slots; /* [mask + 1]; NULL: the map is empty */
    size_t mask;           /* a power of two less 1; at most half of the slots are in use */
    uint64_t seed;
} ig__token_map;

/* What two neighbours become. */
typedef struct ig__pair_slot {
    int32_t left, right; /* left is -1: free */
    int32_t merged;
    uint32_t rank; /* lower goes first */
} ig__pair_slot;

typedef struct ig__pair_map {
    ig__pair_slot *slots; /* [mask + 1]; NULL: the map is empty */
    size_t mask;
    uint64_t seed;
} ig__pair_map;

ig_status ig__token_map_init(ig__token_map *map, const ig_allocator *a, int64_t n,
                             uint64_t seed, ig_error *err);
int32_t ig__token_map_get(const ig__token_map *map, const ig_tokenizer *tk,
                          const char *bytes, size_t n); /* -1: none */

ig_status ig__pair_map_init(ig__pair_map *map, const ig_allocator *a, int64_t n,
                            uint64_t seed, ig_error *err);
const ig__pair_slot *ig__pair_map_get(const ig__pair_map *map, int32_t left,
                                      int32_t right); /* NULL: none */

/* The same for many, n at most IG__MAP_BATCH: the tables are larger than the caches, and
 * many misses at once cost little more than one. Of two tokens with the same bytes the
 * later one stays, of two rules for the same pair the earlier one, as in the reference. */
#define IG__MAP_BATCH 48
ig_status ig__token_map_add_all(ig__token_map *map, const ig_tokenizer *tk,
                                const int32_t *ids, int n, ig_error *err);
void ig__token_map_get_all(int32_t *ids_out, const ig__token_map *map,
                           const ig_tokenizer *tk, const ig__token_text *keys, int n);
ig_status ig__pair_map_add_all(ig__pair_map *map, const ig__pair_slot *pairs, int n,
                               ig_error *err);

/* ---- the tokenizer ---- */

typedef struct ig__splitter ig__splitter;
typedef struct ig__text_work ig__text_work;

/* What differs between the kinds of vocabulary; one row each, in vocab.c. */
typedef struct ig__text_model {
    const char *name; /* as the file has it */
    /* Write the bytes that a token stands for to out[0..n), at most as many as its name
     * has; returns how many. *merges_out: may merging make it? */
    size_t (*unescape)(char *out, const char *name, size_t n, ig__token_type type,
                       bool *merges_out);
    /* Build what encoding needs, once the tokens are in place. */
    ig_status (*prepare)(ig_tokenizer *tk, const ig__vocab *vocab, ig_error *err);
    /* Append the ids of a text without special tokens; `after_special`: nothing, or a
     * special token, stands before it. */
    ig_status (*encode)(ig__text_work *work, const char *text, size_t n, bool after_special,
                        ig_error *err);
} ig__text_model;

struct ig_tokenizer {
    ig_allocator a;
    const ig__text_model *model;
    int64_t n_tokens; /* V, 1 to IG__TOKENS_MAX */

    char *arena;      /* the bytes of all tokens, one behind the other */
    uint32_t *starts; /* [V + 1] offsets into the arena; starts[0] is 0, never decreasing */
    uint8_t *types;   /* [V] ig__token_type */
    float *scores;    /* [V]; NULL: all are equal */

    ig__token_map by_bytes; /* the tokens that merging may make */
    ig__pair_map pairs;     /* bpe */
    uint64_t *joins;        /* [1024] spm: bit (a << 8 | b): byte b follows byte a in some
                               token */
    ig__splitter *splitter; /* bpe */
    int32_t byte_ids[256];  /* -1: no token for this byte alone */
    bool whole_words;       /* bpe: a word that is a token is not merged */
    bool space_prefix;      /* spm: a space goes before the text */

    int32_t *specials; /* [n_specials] sorted by bytes; no two alike in bytes and kind */
    int64_t n_specials;
    uint32_t
        special_first[257]; /* specials that begin with byte b: [first[b], first[b+1]) */

    int32_t bos, eos, unk; /* -1: none */
    bool add_bos, add_eos;
    int32_t ends[24]; /* [n_ends] the tokens that end an answer */
    int n_ends;
};

static inline const char *ig__token_at(const ig_tokenizer *tk, int32_t id, size_t *n_out)
{
    *n_out = tk->starts[id + 1] - tk->starts[id];
    return tk->arena + tk->starts[id];
}

/* Found in text only where the text is markup. */
static inline bool ig__token_is_markup(const ig_tokenizer *tk, int32_t id)
{
    return tk->types[id] == IG__TOKEN_CONTROL || tk->types[id] == IG__TOKEN_UNKNOWN;
}

/* ---- special.c ---- */

ig_status ig__specials_init(ig_tokenizer *tk, ig_error *err);
int32_t ig__special_named(const ig_tokenizer *tk, const char *name); /* control; -1: none */
/* Which bytes of a text may be read as control tokens. */
typedef struct ig__markup {
    bool all;
    const uint8_t *at; /* [n], or NULL: none; not read if all */
} ig__markup;
/* The longest special token that begins at text[at], or -1. */
int32_t ig__special_match(size_t *n_out, const ig_tokenizer *tk, const char *text,
                          size_t at, size_t n, ig__markup markup);

/* ---- merge.c: the state of one word while its neighbours merge ---- */

/* Symbols lie at the offset of their first byte, so the next one is at i + n. */
typedef struct ig__text_symbol {
    uint32_t n;   /* bytes; 0: swallowed by a symbol to its left */
    int32_t prev; /* offset of the symbol to the left; -1: none */
    int32_t id;   /* -1: no token */
} ig__text_symbol;

typedef struct ig__candidate {
    uint64_t order; /* rank, then offset of the left symbol: the smallest merges first */
    uint32_t n;     /* bytes of both; out of date when the symbols have grown past it */
    int32_t merged;
} ig__candidate;

struct ig__text_work {
    const ig_tokenizer *tk;
    ig_ids *ids;
    ig__buffer copy;          /* spm: the text with its spaces in place */
    ig__text_symbol *symbols; /* [symbol_cap] */
    size_t symbol_cap;
    ig__candidate *heap; /* [heap_cap], the first n_heap in use */
    size_t n_heap, heap_cap;
};

/* What do the symbols at offsets i and j (its right neighbour) become? False: they do not
 * merge. */
typedef bool ig__pair_rule(uint32_t *rank_out, int32_t *merged_out,
                           const ig__text_work *work, const char *word, uint32_t i,
                           uint32_t j);

/* Room for n symbols; the first `used` stay. */
ig_status ig__work_reserve(ig__text_work *work, size_t used, size_t n, ig_error *err);
/* Merge the symbols that cover word[0..n) until no rule applies, lowest rank first. */
ig_status ig__merge(ig__text_work *work, const char *word, uint32_t n, ig__pair_rule *rule,
                    ig_error *err);
/* Append the ids of what is left; a symbol without a token gives its bytes' tokens. */
ig_status ig__merge_emit(ig__text_work *work, const char *word, uint32_t n, ig_error *err);
void ig__work_fini(ig__text_work *work);
ig_status ig__ids_push(ig_ids *ids, const ig_allocator *a, int32_t id, ig_error *err);

/* ---- pretokenize.c: cutting a text into words by the rules of a `pre` ---- */

/* NULL or "default" is "gpt-2". */
ig_status ig__splitter_create(ig__splitter **splitter_out, const ig_allocator *a,
                              const char *pre, ig_error *err);
void ig__splitter_destroy(ig__splitter *splitter); /* may be NULL */
bool ig__splitter_whole_words(const ig__splitter *splitter);
/* Calls word(arg, at, n) for each word in turn; the words cover the text. */
typedef ig_status ig__word_call(void *arg, size_t at, size_t n, ig_error *err);
ig_status ig__split(const ig__splitter *splitter, const char *text, size_t n,
                    ig__word_call *word, void *arg, ig_error *err);

/* ---- utf8.c ---- */

typedef enum ig__utf8_kind {
    IG__UTF8_WHOLE, /* a valid character */
    IG__UTF8_CUT,   /* the text ends inside what may still become one */
    IG__UTF8_BAD,   /* bytes that no text can make valid */
} ig__utf8_kind;
/* Length and kind of what begins at s; n >= 1. Bad bytes come in maximal subparts (Unicode
 * 15, section 3.9), each to be shown as one U+FFFD. */
size_t ig__utf8_unit(ig__utf8_kind *kind_out, const char *s, size_t n);
bool ig__utf8_is_valid(const char *s, size_t n);

/* ---- the rows' functions ---- */

size_t ig__bpe_unescape(char *out, const char *name, size_t n, ig__token_type type,
                        bool *merges_out);
ig_status ig__bpe_prepare(ig_tokenizer *tk, const ig__vocab *vocab, ig_error *err);
ig_status ig__bpe_encode(ig__text_work *work, const char *text, size_t n,
                         bool after_special, ig_error *err);
size_t ig__spm_unescape(char *out, const char *name, size_t n, ig__token_type type,
                        bool *merges_out);
ig_status ig__spm_prepare(ig_tokenizer *tk, const ig__vocab *vocab, ig_error *err);
ig_status ig__spm_encode(ig__text_work *work, const char *text, size_t n,
                         bool after_special, ig_error *err);

#endif
