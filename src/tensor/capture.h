/* What a recording in progress is told by the folders below it (made in src/exec/record.c).
 *
 * While ctx->capture is set, every evaluated call, every tensor made from bytes of the host and every
 * storage that dies is reported. A storage that the recording has met carries its number.
 */
#ifndef INGOT_TENSOR_CAPTURE_H
#define INGOT_TENSOR_CAPTURE_H

#include "tensor/tensor.h"

struct ig__op;
struct ig__eval;

typedef struct ig__capture {
    /* A call was evaluated; `into`: out[0] was there before and is written. false: the failure is on
     * the context. */
    bool (*call)(struct ig__capture *c, const struct ig__op *op, const struct ig__eval *e,
                 ig_tensor *const *in, ig_tensor *const *out, bool into);
    /* x was just made from bytes of the host. false: as above. */
    bool (*constant)(struct ig__capture *c, const ig_tensor *x);
    /* The last count of a storage with a number is gone; true: the recording keeps it. */
    bool (*drop)(struct ig__capture *c, ig__storage *s);
    /* Is x from before the recording, and not written by it? Then its 16-bit copy is state. */
    bool (*is_state)(struct ig__capture *c, const ig_tensor *x);
    /* The copy of such an x is used: each run makes it fresh before it begins. false: as above. */
    bool (*use_copy)(struct ig__capture *c, ig_tensor *x);
    void (*cancel)(struct ig__capture *c);
} ig__capture;

#endif
