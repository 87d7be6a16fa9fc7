/* The default allocator, and the thin calls that all memory of the library goes through. */
#include "base/alloc.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static void *default_alloc(void *user, size_t bytes, size_t align)
{
    (void)user;
    size_t rounded;
    if (!ig__add(&rounded, bytes, align - 1))
        return NULL;
    rounded &= ~(align - 1);
    void *p = aligned_alloc(align, rounded);
    if (p && align >= IG_HUGE_PAGE)
        madvise(p, rounded, MADV_HUGEPAGE); /* advice: that it may fail changes nothing */
    return p;
}

static void default_free(void *user, void *p)
{
    (void)user;
    free(p);
}

ig_allocator ig__allocator_default(void)
{
    return (ig_allocator){.alloc = default_alloc, .free = default_free};
}

void *ig__alloc(const ig_allocator *a, size_t bytes)
{
    return a->alloc(a->user, bytes ? bytes : 1, 64);
}

void *ig__alloc_zero(const ig_allocator *a, size_t bytes)
{
    void *p = ig__alloc(a, bytes);
    if (p)
        memset(p, 0, bytes);
    return p;
}

void *ig__alloc_huge(const ig_allocator *a, size_t bytes)
{
    /* a small block would waste most of a huge page */
    const size_t align = bytes >= IG_HUGE_PAGE / 2 ? IG_HUGE_PAGE : 4096;
    return a->alloc(a->user, bytes ? bytes : 1, align);
}

void ig__make_huge(void *block, size_t bytes)
{
    char *const p = block;
    const size_t before = -(uintptr_t)p & (IG_HUGE_PAGE - 1);
    if (bytes < before + IG_HUGE_PAGE)
        return;
    const size_t whole = (bytes - before) & ~(IG_HUGE_PAGE - 1);
    /* advice that may fail; pages touched already are given back, to come again as huge ones */
    if (!madvise(p + before, whole, MADV_HUGEPAGE))
        madvise(p + before, whole, MADV_DONTNEED);
}

void *ig__resize(const ig_allocator *a, void *p, size_t old_bytes, size_t new_bytes)
{
    void *q = ig__alloc(a, new_bytes);
    if (!q)
        return NULL;
    if (p)
        memcpy(q, p, old_bytes < new_bytes ? old_bytes : new_bytes);
    ig__free(a, p);
    return q;
}

void ig__free(const ig_allocator *a, void *p)
{
    a->free(a->user, p);
}

char *ig__strdup(const ig_allocator *a, const char *s, size_t n)
{
    char *copy = ig__alloc(a, n + 1);
    if (!copy)
        return NULL;
    if (n)
        memcpy(copy, s, n);
    copy[n] = 0;
    return copy;
}
