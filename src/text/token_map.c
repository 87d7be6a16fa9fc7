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

static uint64_t load_8(const char *p)
{
    uint64_t word;
    memcpy(&word, p, sizeof word);
    return word;
}

static uint64_t load_4(const char *p)
{
    uint32_t word;
    memcpy(&word, p, sizeof word);
    return word;
}

/* Eight bytes a step; most tokens need one or two. The last step reads all that is left as
 * two loads that overlap. */
static uint64_t hash_bytes(const char *p, size_t n, uint64_t seed)
{
    uint64_t h = seed ^ n * 0x9e3779b97f4a7c15u;
    for (; n > 8; p += 8, n -= 8) {
        h = (h ^ load_8(p)) * 0x94d049bb133111ebu;
        h ^= h >> 29;
    }
    if (n >= 4)
        h ^= load_4(p) << 32 | load_4(p + n - 4);
    else if (n > 0)
        h ^= (uint64_t)(uint8_t)p[0] << 16 | (uint64_t)(uint8_t)p[n / 2] << 8 |
             (uint8_t)p[n - 1];
    return spread(h);
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
    *map =
        (ig__token_map){.slots = ig__alloc_huge(a, bytes), .mask = slots - 1, .seed = seed};
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

/* The slot of these bytes, whose hash is h, or the free one where they belong; NULL:
 * neither is near. */
static ig__token_slot *find_token(const ig__token_map *map, const ig_tokenizer *tk,
                                  uint64_t h, const char *bytes, size_t n)
{
    const uint32_t tag = (uint32_t)(h >> 32);
    for (size_t i = 0; i < PROBES_MAX; i++) {
        ig__token_slot *slot = &map->slots[(h + i) & map->mask];
        if (slot->id < 0 || (slot->tag == tag && same_bytes(tk, slot->id, bytes, n)))
            return slot;
    }
    return NULL;
}

/* The hash of these bytes; their slot is on its way into the cache. */
static uint64_t expect_token(const ig__token_map *map, const char *bytes, size_t n)
{
    const uint64_t h = hash_bytes(bytes, n, map->seed);
    ig__prefetch(&map->slots[h & map->mask]);
    return h;
}

int32_t ig__token_map_get(const ig__token_map *map, const ig_tokenizer *tk,
                          const char *bytes, size_t n)
{
    int32_t id;
    const ig__token_text key = {bytes, n};
    ig__token_map_get_all(&id, map, tk, &key, 1);
    return id;
}

void ig__token_map_get_all(int32_t *ids_out, const ig__token_map *map,
                           const ig_tokenizer *tk, const ig__token_text *keys, int n)
{
    uint64_t hashes[IG__MAP_BATCH];
    for (int i = 0; i < n && map->slots; i++)
        hashes[i] = expect_token(map, keys[i].bytes, keys[i].n);
    for (int i = 0; i < n; i++) {
        const ig__token_slot *slot =
            map->slots ? find_token(map, tk, hashes[i], keys[i].bytes, keys[i].n) : NULL;
        ids_out[i] = slot ? slot->id : -1;
    }
}

ig_status ig__token_map_add_all(ig__token_map *map, const ig_tokenizer *tk,
                                const int32_t *ids, int n, ig_error *err)
{
    uint64_t hashes[IG__MAP_BATCH];
    for (int i = 0; i < n; i++) {
        size_t n_bytes;
        const char *bytes = ig__token_at(tk, ids[i], &n_bytes);
        hashes[i] = expect_token(map, bytes, n_bytes);
    }
    for (int i = 0; i < n; i++) {
        size_t n_bytes;
        const char *bytes = ig__token_at(tk, ids[i], &n_bytes);
        ig__token_slot *slot = find_token(map, tk, hashes[i], bytes, n_bytes);
        if (!slot)
            return degraded(err, "tokens");
        *slot = (ig__token_slot){.tag = (uint32_t)(hashes[i] >> 32), .id = ids[i]};
    }
    return IG_OK;
}

ig_status ig__pair_map_init(ig__pair_map *map, const ig_allocator *a, int64_t n,
                            uint64_t seed, ig_error *err)
{
    const size_t slots = slots_for(n);
    const size_t bytes = slots * sizeof *map->slots;
    *map =
        (ig__pair_map){.slots = ig__alloc_huge(a, bytes), .mask = slots - 1, .seed = seed};
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

const ig__pair_slot *ig__pair_map_get(const ig__pair_map *map, int32_t left, int32_t right)
{
    if (!map->slots || left < 0 || right < 0)
        return NULL;
    const ig__pair_slot *slot = find_pair(map, left, right);
    return slot && slot->left >= 0 ? slot : NULL;
}

ig_status ig__pair_map_add_all(ig__pair_map *map, const ig__pair_slot *pairs, int n,
                               ig_error *err)
{
    for (int i = 0; i < n; i++)
        ig__prefetch(
            &map->slots[hash_pair(pairs[i].left, pairs[i].right, map->seed) & map->mask]);
    for (int i = 0; i < n; i++) {
        ig__pair_slot *slot = find_pair(map, pairs[i].left, pairs[i].right);
        if (!slot)
            return degraded(err, "merges");
        if (slot->left < 0)
            *slot = pairs[i];
    }
    return IG_OK;
}
