/* The arena of a template and of a run: blocks that double from 4 KiB to 1 MiB, bump
 * allocation inside, freed as a whole.
 */
#include "text/template_int.h"

#define FIRST_BLOCK ((size_t)4 << 10)
#define LAST_BLOCK  ((size_t)1 << 20)

typedef struct ig__tblock {
    struct ig__tblock *next;
    size_t bytes;
} ig__tblock;

#define HEADER ((sizeof(ig__tblock) + 15) & ~(size_t)15)

static bool add_block(ig__tarena *arena, size_t bytes)
{
    const size_t last = arena->blocks ? arena->blocks->bytes : FIRST_BLOCK / 2;
    size_t want = last >= LAST_BLOCK ? LAST_BLOCK : last * 2;
    if (want < bytes + HEADER)
        want = bytes + HEADER;
    if (want > arena->max - arena->n) {
        arena->over = true;
        return false;
    }
    ig__tblock *block = ig__alloc(arena->a, want);
    if (!block)
        return false;
    *block = (ig__tblock){arena->blocks, want};
    arena->blocks = block;
    arena->n += want;
    arena->at = (char *)block + HEADER;
    arena->end = (char *)block + want;
    return true;
}

void *ig__tarena_alloc(ig__tarena *arena, size_t bytes)
{
    if (bytes > arena->max) {
        arena->over = true;
        return NULL;
    }
    bytes = (bytes + 15) & ~(size_t)15;
    if ((size_t)(arena->end - arena->at) < bytes && !add_block(arena, bytes))
        return NULL;
    char *p = arena->at;
    arena->at += bytes;
    return p;
}

void ig__tarena_fini(ig__tarena *arena)
{
    while (arena->blocks) {
        ig__tblock *next = arena->blocks->next;
        ig__free(arena->a, arena->blocks);
        arena->blocks = next;
    }
    *arena = (ig__tarena){.a = arena->a, .max = arena->max};
}
