/* Two hash tables with open addressing: tokens by their bytes, pairs of ids by what they
 * merge to.
 *
 * A vocabulary is a stranger's. The hash is seeded per tokenizer, and no key may lie more
 * than PROBES_MAX slots past its home: adding fails there and looking up stops there, so
 * neither degrades to a scan. At most half of the slots are in use; at that load honest
 * keys stay below about 50 slots for millions of keys.
 */
#include "text/text_int.h"

#include "base/error.h"

#include <string.h>

#define PROBES_MAX 256

/* A bijection of 64 bits that spreads every bit over all others (Stafford's variant 13 of
 * the finaliser of MurmurHash3). */
static uint64_t spread(uint64_t x)
{
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9u;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebu;
    x ^= x >> 31;
    return x;
}

static uint64_t word_at(const char *p, size_t n)
{
    uint64_t word = 0;
    memcpy(&word, p, n);
    return word;
}

/* Eight bytes a step; most tokens need one or two. */
static uint64_t hash_bytes(const char *p, size_t n, uint64_t seed)
{
    uint64_t h = seed ^ n * 0x9e3779b97f4a7c15u;
    for (; n > 8; p += 8, n -= 8) {
        h = (h ^ word_at(p, 8)) * 0x94d049bb133111ebu;
        h ^= h >> 29;
    }
    switch (n) { /* a constant count lets the copy become loads */
    case 8:
        return spread(h ^ word_at(p, 8));
    case 4:
        return spread(h ^ word_at(p, 4));
    default:
        for (uint64_t shift = 0; n; n--, p++, shift += 8)
            h ^= (uint64_t)(uint8_t)*p << shift;
        return spread(h);
    }
}

static uint64_t hash_pair(int32_t left, int32_t right, uint64_t seed)
{
    return spread(seed ^ ((uint64_t)(uint32_t)left << 32 | (uint32_t)right));
}

/* The slots for n keys: a power of two, at least twice n. n is at most 2^40. */
static size_t slots_for(int64_t n)
{
    size_t slots = 16;
    while (slots < 2 * (size_t)n)
        slots *= 2;
    return slots;
}

static ig_status degraded(ig_error *err, const char *what)
{
    return ig__fail(err, IG_ERR_LIMIT,
                    "tokenizer: the hash of %s degrades: a key is more than %d slots from "
                    "its place",
                    what, PROBES_MAX);
}

ig_status ig__token_map_init(ig__token_map *map, const ig_allocator *a, int64_t n,
                             uint64_t seed, ig_error *err)
{
    const size_t slots = slots_for(n);
    const size_t bytes = slots * sizeof *map->slots;
    *map = (ig__token_map){.slots = ig__alloc(a, bytes), .mask = slots - 1, .seed = seed};
    if (!map->slots)
        return ig__fail_memory(err, "tokenizer: tokens by bytes", bytes);
    memset(map->slots, 0xff, bytes); /* id -1: free */
    return IG_OK;
}

static bool same_bytes(const ig_tokenizer *tk, int32_t id, const char *bytes, size_t n)
{
    size_t n_token;
    const char *token = ig__token_at(tk, id, &n_token);
    return n_token == n && memcmp(token, bytes, n) == 0;
}

/* The slot of these bytes, or the free one where they belong; NULL: neither is near. */
static ig__token_slot *find_token(const ig__token_map *map, const ig_tokenizer *tk,
                                  const char *bytes, size_t n, uint32_t *tag_out)
{
    const uint64_t h = hash_bytes(bytes, n, map->seed);
    const uint32_t tag = (uint32_t)(h >> 32);
    *tag_out = tag;
    for (size_t i = 0; i < PROBES_MAX; i++) {
        ig__token_slot *slot = &map->slots[(h + i) & map->mask];
        if (slot->id < 0 || (slot->tag == tag && same_bytes(tk, slot->id, bytes, n)))
            return slot;
    }
    return NULL;
}

ig_status ig__token_map_add(ig__token_map *map, const ig_tokenizer *tk, int32_t id,
                            ig_error *err)
{
    size_t n;
    const char *bytes = ig__token_at(tk, id, &n);
    uint32_t tag;
    ig__token_slot *slot = find_token(map, tk, bytes, n, &tag);
    if (!slot)
        return degraded(err, "tokens");
    *slot = (ig__token_slot){.tag = tag, .id = id};
    return IG_OK;
}

int32_t ig__token_map_get(const ig__token_map *map, const ig_tokenizer *tk,
                          const char *bytes, size_t n)
{
    if (!map->slots)
        return -1;
    uint32_t tag;
    const ig__token_slot *slot = find_token(map, tk, bytes, n, &tag);
    return slot ? slot->id : -1;
}

ig_status ig__pair_map_init(ig__pair_map *map, const ig_allocator *a, int64_t n,
                            uint64_t seed, ig_error *err)
{
    const size_t slots = slots_for(n);
    const size_t bytes = slots * sizeof *map->slots;
    *map = (ig__pair_map){.slots = ig__alloc(a, bytes), .mask = slots - 1, .seed = seed};
    if (!map->slots)
        return ig__fail_memory(err, "tokenizer: merges", bytes);
    memset(map->slots, 0xff, bytes); /* left -1: free */
    return IG_OK;
}

static ig__pair_slot *find_pair(const ig__pair_map *map, int32_t left, int32_t right)
{
    const uint64_t h = hash_pair(left, right, map->seed);
    for (size_t i = 0; i < PROBES_MAX; i++) {
        ig__pair_slot *slot = &map->slots[(h + i) & map->mask];
        if (slot->left < 0 || (slot->left == left && slot->right == right))
            return slot;
    }
    return NULL;
}

ig_status ig__pair_map_add(ig__pair_map *map, ig__pair_slot pair, ig_error *err)
{
    ig__pair_slot *slot = find_pair(map, pair.left, pair.right);
    if (!slot)
        return degraded(err, "merges");
    if (slot->left < 0)
        *slot = pair;
    return IG_OK;
}

const ig__pair_slot *ig__pair_map_get(const ig__pair_map *map, int32_t left, int32_t right)
{
    if (!map->slots || left < 0 || right < 0)
        return NULL;
    const ig__pair_slot *slot = find_pair(map, left, right);
    return slot && slot->left >= 0 ? slot : NULL;
}
