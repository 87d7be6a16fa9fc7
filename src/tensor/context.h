/* What stands behind an ig_context, for the folders above tensor.
 */
#ifndef INGOT_TENSOR_CONTEXT_H
#define INGOT_TENSOR_CONTEXT_H

#include "base/alloc.h"
#include "base/team.h"
#include "kernel/kernel.h"
#include "kernel/train.h"
#include "tensor/memory.h"

struct ig_context {
    ig_allocator allocator;
    ig__team *team;
    const ig__kernels *kernels;
    const ig__train_kernels *train;
    void (*log)(void *user, ig_log_level level, const char *line); /* may be NULL */
    void *log_user;
    char threads_reason[96];

    ig__memory memory;      /* of tensors and what stands around them */
    ig_error error;         /* the first failure of an expression; status IG_OK: none */
    struct ig_scope *scope; /* the innermost; `root` is never ended */
    struct ig_scope *root;
    struct ig__storage *storages; /* those with a block of their own */

    /* of the tape (src/op/tape.h) */
    bool no_grad; /* calls are not recorded */
    bool is_draining;
    bool
        missed_grad; /* a call that was not recorded had an operand that wants its gradient */
    bool check_nan;    /* anomaly mode: look at every result */
    ig_dtype autocast; /* what products take (ingot/autocast.h); F32: as they are */
    uint64_t sequence;
    struct ig__history *dead;    /* to be destroyed */
    struct ig__capture *capture; /* the recording in progress; NULL: none */
    uint64_t seed, n_draws;      /* of the random stream: draw i of tensor n_draws */
    char
        *scratch; /* [n_threads][scratch_bytes], then shared_bytes and pool_bytes for all */
    size_t scratch_bytes, shared_bytes, pool_bytes;
    ig__share share; /* of the operator that the team runs now */
};

/* One line to the context's log. */
IG_PRINTF(3, 4)
void ig__log(const ig_context *ctx, ig_log_level level, const char *fmt, ...);

#endif
