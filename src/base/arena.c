/* An arena of chunks that double up to 1 MiB; a larger block gets a chunk of its own. */
#include "base/arena.h"

#include <string.h>

enum { FIRST_CHUNK = 4096, LAST_CHUNK = 1 << 20, HEADER = 64 };

struct ig__arena_chunk {
    struct ig__arena_chunk *older;
};

static bool grow(ig__arena *arena, size_t bytes)
{
    size_t cap = arena->cap < FIRST_CHUNK ? FIRST_CHUNK : arena->cap * 2;
    if (cap > LAST_CHUNK)
        cap = LAST_CHUNK;
    if (cap < bytes)
        cap = bytes;
    size_t total;
    if (!ig__add(&total, cap, HEADER))
        return false;
    struct ig__arena_chunk *chunk = ig__alloc(arena->a, total);
    if (!chunk)
        return false;
    chunk->older = arena->head;
    arena->head = chunk;
    arena->used = 0;
    arena->cap = cap;
    return true;
}

void *ig__arena_alloc(ig__arena *arena, size_t bytes)
{
    size_t rounded;
    if (!ig__add(&rounded, bytes ? bytes : 1, 15))
        return NULL;
    rounded &= ~(size_t)15;
    if ((!arena->head || arena->cap - arena->used < rounded) && !grow(arena, rounded))
        return NULL;
    void *p = (char *)arena->head + HEADER + arena->used;
    arena->used += rounded;
    memset(p, 0, bytes);
    return p;
}

void *ig__arena_copy(ig__arena *arena, const void *p, size_t bytes)
{
    void *copy = ig__arena_alloc(arena, bytes);
    if (copy && bytes)
        memcpy(copy, p, bytes);
    return copy;
}

void ig__arena_fini(ig__arena *arena)
{
    while (arena->head) {
        struct ig__arena_chunk *older = arena->head->older;
        ig__free(arena->a, arena->head);
        arena->head = older;
    }
    arena->used = arena->cap = 0;
}
