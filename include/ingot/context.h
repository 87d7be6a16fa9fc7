/* A context: threads, memory, kernels and the log of one user of the library.
 *
 * Two contexts in one process do not know of each other. A context, and all that was made
 * from it, serves one thread at a time. It must outlive what was made from it.
 */
#ifndef INGOT_CONTEXT_H
#define INGOT_CONTEXT_H

#include "ingot/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ig_context ig_context;

/* Where memory comes from. `alloc` returns NULL when there is none; `align` is a power of
 * two. */
typedef struct ig_allocator {
    void *(*alloc)(void *user, size_t bytes, size_t align);
    void (*free)(void *user, void *p); /* p may be NULL */
    void *user;
} ig_allocator;

typedef enum ig_log_level { IG_LOG_DEBUG, IG_LOG_INFO, IG_LOG_WARN } ig_log_level;

typedef struct ig_context_opts {
    int n_threads;   /* 0: the cores that this process may use (affinity mask and cgroup
                        quota) */
    const char *isa; /* NULL: the best of this CPU; else "ref", "avx2", "avx512" or "amx" */
    const ig_allocator *allocator; /* NULL: the C library's; copied */
    void (*log)(void *user, ig_log_level level, const char *line); /* NULL: silent */
    void *log_user;
    size_t tensor_budget; /* bytes that tensors may reserve; 0: no bound */
    bool poison; /* fill memory of tensors with a pattern (NaN as floats) when it is taken
                    and given back */
} ig_context_opts;

/* Make a context. `opts` may be NULL. On failure *ctx_out is NULL. */
IG_API IG_WARN_UNUSED ig_status ig_context_create(ig_context **ctx_out,
                                                  const ig_context_opts *opts,
                                                  ig_error *err);

IG_API int ig_context_threads(const ig_context *ctx);
/* Why that many: "2 cores in the affinity mask"; lives as long as the context. */
IG_API const char *ig_context_threads_reason(const ig_context *ctx);
/* The instruction set of the kernels in use: "avx512"; static storage. */
IG_API const char *ig_context_isa(const ig_context *ctx);

/* ---- the first failure of an expression ------------------------------------------------ *
 *
 * A call of an operator that fails returns NULL and leaves its failure here. From then on all
 * calls of operators on this context return NULL, until the failure is cleared: so a program
 * checks once, where it matters. */
IG_API ig_status ig_context_status(const ig_context *ctx);
/* "matmul: inner sizes differ: [4,8] f32, [9,2] f32"; "" while all is well. Lives as long as the
 * context; changed by the next failure. */
IG_API const char *ig_context_message(const ig_context *ctx);
IG_API void ig_context_clear(ig_context *ctx);

/* ---- memory of tensors ------------------------------------------------------------------ */

typedef struct ig_memory_stats {
    size_t live_bytes;      /* that tensors and saved values hold now */
    size_t peak_live_bytes; /* since the context was made, or ig_context_reset_peak */
    size_t reserved_bytes;  /* taken from the allocator */
    size_t peak_reserved_bytes;
    size_t largest_free_bytes; /* the largest tensor that fits without reserving more */
    int64_t n_reserves;        /* calls of the allocator so far: does not grow once warm */
    double
        fragmentation; /* share of the free reserved bytes outside the largest free block */
} ig_memory_stats;
IG_API ig_memory_stats ig_context_memory(const ig_context *ctx);
IG_API void ig_context_reset_peak(ig_context *ctx);

/* May be NULL. Tensors made from the context end with it; all else must have been destroyed
 * before. */
IG_API void ig_context_destroy(ig_context *ctx);

#ifdef __cplusplus
}
#endif
#endif
