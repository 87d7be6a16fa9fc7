/* What stands behind an ig_context, for the folders above tensor.
 */
#ifndef INGOT_TENSOR_CONTEXT_H
#define INGOT_TENSOR_CONTEXT_H

#include "base/alloc.h"
#include "base/team.h"
#include "kernel/kernel.h"

struct ig_context {
    ig_allocator allocator;
    ig__team *team;
    const ig__kernels *kernels;
    void (*log)(void *user, ig_log_level level, const char *line); /* may be NULL */
    void *log_user;
    char threads_reason[96];
};

/* One line to the context's log. */
IG_PRINTF(3, 4)
void ig__log(const ig_context *ctx, ig_log_level level, const char *fmt, ...);

#endif
