/* An arena: many small blocks of one lifetime, freed as a whole. Blocks are aligned to 16 bytes.
 */
#ifndef INGOT_BASE_ARENA_H
#define INGOT_BASE_ARENA_H

#include "base/alloc.h"

typedef struct ig__arena {
    const ig_allocator *a;
    struct ig__arena_chunk *head; /* newest first; NULL: nothing allocated yet */
    size_t used, cap;             /* of the newest chunk */
} ig__arena;

static inline ig__arena ig__arena_init(const ig_allocator *a)
{
    return (ig__arena){.a = a};
}
void *ig__arena_alloc(ig__arena *arena, size_t bytes); /* zeroed; NULL: out of memory */
void *ig__arena_copy(ig__arena *arena, const void *p, size_t bytes);
void ig__arena_fini(ig__arena *arena);

#endif
