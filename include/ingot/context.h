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

/* May be NULL. Everything made from the context must have been destroyed before. */
IG_API void ig_context_destroy(ig_context *ctx);

#ifdef __cplusplus
}
#endif
#endif
