/* The caching allocator of a context: memory of tensors, and the small structs around them.
 *
 * Small blocks (at most IG_SMALL_BYTES) come from lists by size class, a few instructions a call.
 * Larger ones are cut from segments that the context's ig_allocator gives: best fit, split, and joined
 * again with their free neighbours. What is given back stays reserved for the next call; about 1/8 more is
 * reserved than the largest need so far. One thread at a time; never moves a block.
 */
#ifndef INGOT_TENSOR_MEMORY_H
#define INGOT_TENSOR_MEMORY_H

#include "base/alloc.h"

enum { IG_SMALL_STEP = 64, IG_SMALL_BYTES = 2048, IG_BINS = 4 * 48 };

typedef struct ig__memory {
    const ig_allocator *a;
    struct ig__free_item {
        struct ig__free_item *next;
    } * small[IG_SMALL_BYTES / IG_SMALL_STEP + 1]; /* by size / 64 */
    struct ig__slab *slabs;                        /* that small blocks were cut from */
    struct ig__segment *segments;
    struct ig__block *bins[IG_BINS]; /* free blocks by size, four bins a power of two */
    uint64_t filled[IG_BINS / 64];   /* bit i: bins[i] is not empty */
    size_t budget;                   /* 0: none */
    bool poison;
    size_t live, peak_live, reserved, peak_reserved;
    size_t owed; /* bytes of free segments that went, to come back as one */
    int64_t n_reserves;
} ig__memory;

void ig__memory_init(ig__memory *m, const ig_allocator *a, size_t budget, bool poison);
void ig__memory_fini(ig__memory *m);

/* Aligned to 64 bytes; NULL: no memory, or the budget is spent. `bytes` again when it is given. */
void *ig__memory_take(ig__memory *m, size_t bytes);
void ig__memory_give(ig__memory *m, void *p, size_t bytes); /* p may be NULL */

ig_memory_stats ig__memory_stats(const ig__memory *m);

bool ig__memory_refill(ig__memory *m, size_t size_class);

/* The same for sizes that are known to be at most IG_SMALL_BYTES: structs. */
static inline void *ig__small_take(ig__memory *m, size_t bytes)
{
    const size_t size_class = (bytes + IG_SMALL_STEP - 1) / IG_SMALL_STEP;
    if (!m->small[size_class] && !ig__memory_refill(m, size_class))
        return NULL;
    struct ig__free_item *item = m->small[size_class];
    m->small[size_class] = item->next;
    m->live += size_class * IG_SMALL_STEP;
    if (m->live > m->peak_live)
        m->peak_live = m->live;
    return item;
}
static inline void ig__small_give(ig__memory *m, void *p, size_t bytes)
{
    const size_t size_class = (bytes + IG_SMALL_STEP - 1) / IG_SMALL_STEP;
    struct ig__free_item *item = p;
    item->next = m->small[size_class];
    m->small[size_class] = item;
    m->live -= size_class * IG_SMALL_STEP;
}

#endif
