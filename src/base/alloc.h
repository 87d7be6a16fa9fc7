/* Memory: everything of ours comes from an ig_allocator, through these.
 *
 * Blocks are aligned to 64 bytes (a cache line and a zmm register). ig__alloc_huge aligns
 * to 2 MiB and asks the system for huge pages; use it for weights, caches and activations.
 * All are freed with ig__free. Products of counts go through ig__mul / ig__add, which say
 * when they overflow.
 */
#ifndef INGOT_BASE_ALLOC_H
#define INGOT_BASE_ALLOC_H

#include "ingot/context.h"

#define IG_HUGE_PAGE ((size_t)2 << 20)

/* The C library's. */
ig_allocator ig__allocator_default(void);

void *ig__alloc(const ig_allocator *a,
                size_t bytes); /* NULL: out of memory; bytes 0 gives 1 */
void *ig__alloc_zero(const ig_allocator *a, size_t bytes); /* zeroed */
void *ig__alloc_huge(const ig_allocator *a, size_t bytes); /* not zeroed */
/* Have a block of ig__alloc in huge pages from now on, as far as whole ones lie in it. What it
 * holds is lost. */
void ig__make_huge(void *block, size_t bytes);
/* A block of new_bytes with the first min(old, new) bytes of p; frees p. On failure NULL,
 * and p stays. */
void *ig__resize(const ig_allocator *a, void *p, size_t old_bytes, size_t new_bytes);
void ig__free(const ig_allocator *a, void *p);
char *ig__strdup(const ig_allocator *a, const char *s, size_t n); /* n bytes and a 0 */

/* That of a context, for the folders that know contexts by their public header only; lives as
 * long as the context. Defined where contexts are made. */
const ig_allocator *ig__context_allocator(const ig_context *ctx);

/* False on overflow; *out is then unspecified. */
static inline bool ig__mul(size_t *out, size_t a, size_t b)
{
    return !__builtin_mul_overflow(a, b, out);
}
static inline bool ig__add(size_t *out, size_t a, size_t b)
{
    return !__builtin_add_overflow(a, b, out);
}
static inline bool ig__mul_i64(int64_t *out, int64_t a, int64_t b)
{
    return !__builtin_mul_overflow(a, b, out);
}

/* Ask for the cache line at p, ahead of its use. */
static inline void ig__prefetch(const void *p)
{
    __builtin_prefetch(p);
}

#endif
