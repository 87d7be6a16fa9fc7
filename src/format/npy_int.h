/* The bytes of a .npy file, wherever they stand: in a file of their own or in an archive. */
#ifndef INGOT_FORMAT_NPY_INT_H
#define INGOT_FORMAT_NPY_INT_H

#include "base/buffer.h"
#include "ingot/npy.h"

typedef struct ig__npy_source {
    /* exactly n bytes more */
    ig_status (*read)(void *user, void *out, size_t n, ig_error *err);
    void *user;
    uint64_t left; /* bytes to come */
} ig__npy_source;

/* A new tensor in the current scope of all that the source has; NULL: the failure is in *err. `path` is for
 * messages. */
ig_tensor *ig__npy_read(ig_context *ctx, const char *path, ig__npy_source *source,
                        ig_error *err);

typedef struct ig__npy_bytes {
    ig__buffer header;
    char *elements; /* [n] */
    size_t n;
} ig__npy_bytes;
/* What a file of x holds; to be ended with x's allocator. */
ig_status ig__npy_pack(ig__npy_bytes *out, const ig_tensor *x, const char *path,
                       ig_error *err);
void ig__npy_bytes_fini(ig__npy_bytes *bytes, const ig_allocator *a);

#endif
