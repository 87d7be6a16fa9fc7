/* Filling an ig_error, and passing it up.
 *
 * ig__fail is the only writer of an error. It returns the status, so that a failing
 * function says `return ig__fail(err, IG_ERR_FORMAT, "...")`. IG_TRY passes a failure up
 * unchanged.
 */
#ifndef INGOT_BASE_ERROR_H
#define INGOT_BASE_ERROR_H

#include "ingot/status.h"

#include <assert.h>

#define ig__fail(err, status, ...) ig__fail_at(err, status, __FILE__, __LINE__, __VA_ARGS__)

/* Control characters in the message become '?': it stays one line whatever a file holds. */
IG_PRINTF(5, 6)
ig_status ig__fail_at(ig_error *err, ig_status status, const char *file, int line,
                      const char *fmt, ...);

/* "name: out of memory (bytes)" */
ig_status ig__fail_memory(ig_error *err, const char *what, size_t bytes);

#define IG_TRY(call)                                                                       \
    do {                                                                                   \
        const ig_status ig_try_ = (call);                                                  \
        if (ig_try_ != IG_OK)                                                              \
            return ig_try_;                                                                \
    } while (0)

/* Our own invariants only; compiled out of release. */
#define IG_ASSERT(x) assert(x)

#endif
