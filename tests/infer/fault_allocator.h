/* An allocator that fails on demand and counts what is alive.
 *
 *     for (int64_t nth = 1;; nth++) {
 *         fault_allocator f = {.fail_nth = nth};
 *         const ig_allocator a = fault_allocator_of(&f);
 *         ... run with `a` ...
 *         assert_int_equal(f.n_alive, 0);
 *         if (f.n_calls < nth) break;   nothing failed: it went through
 *     }
 */
#ifndef INGOT_TESTS_INFER_FAULT_ALLOCATOR_H
#define INGOT_TESTS_INFER_FAULT_ALLOCATOR_H

#include "ingot/context.h"

#include <stdlib.h>

typedef struct fault_allocator {
    int64_t fail_nth; /* from 1; 0: never */
    int64_t n_calls, n_alive;
} fault_allocator;

static inline void *fault_alloc(void *user, size_t bytes, size_t align)
{
    fault_allocator *f = user;
    if (++f->n_calls == f->fail_nth)
        return NULL;
    f->n_alive++;
    return aligned_alloc(align, (bytes + align - 1) / align * align);
}

static inline void fault_free(void *user, void *p)
{
    fault_allocator *f = user;
    f->n_alive -= p != NULL;
    free(p);
}

static inline ig_allocator fault_allocator_of(fault_allocator *f)
{
    return (ig_allocator){.alloc = fault_alloc, .free = fault_free, .user = f};
}

#endif
