/* NumPy's files: .npy, one tensor, and .npz, many by name in a zip archive.
 *
 * Read are .npy of versions 1 to 3, little endian, C or Fortran order, of bool, i8, u8, i32, i64, f16, f32
 * and f64; written is version 1 in C order (bf16, which NumPy lacks, as f32). Of archives, members that are
 * stored or deflated, of any size.
 *
 * A stranger's file is checked before anything is allocated: errors are one line. An archive's directory is
 * checked whole when it is opened; what a member claims to hold is bounded by what deflate can make
 * of its bytes, 1,032 for one, and by the context's tensor_budget.
 */
#ifndef INGOT_NPY_H
#define INGOT_NPY_H

#include "ingot/tensor.h"
#include "ingot/tensor_file.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A new tensor in the current scope; NULL: the failure is in *err (and not on the context). */
IG_API ig_tensor *ig_npy_load(ig_context *ctx, const char *path, ig_error *err);
/* Saving, here and below: under a new name first, which then replaces `path`. */
IG_API IG_WARN_UNUSED ig_status ig_npy_save(const char *path, const ig_tensor *x,
                                            ig_error *err);

/* ---- archives ---------------------------------------------------------------------------------- */

typedef struct ig_npz ig_npz;

/* On failure *npz_out is NULL. Belongs to the context, and must be closed before it. */
IG_API IG_WARN_UNUSED ig_status ig_npz_open(ig_npz **npz_out, ig_context *ctx,
                                            const char *path, ig_error *err);
IG_API void ig_npz_close(ig_npz *npz); /* may be NULL */

/* Members whose names end in ".npy"; others are passed over. */
IG_API int64_t ig_npz_count(const ig_npz *npz);
/* Without the ending, in their order as text; NULL outside 0 .. count - 1. Lives as long as the archive. */
IG_API const char *ig_npz_name(const ig_npz *npz, int64_t i);
/* A new tensor in the current scope; NULL: the failure is in *err (and not on the context). */
IG_API ig_tensor *ig_npz_read(const ig_npz *npz, const char *name, ig_error *err);

/* Stored, or deflated if `compressed`. Names must differ. */
IG_API IG_WARN_UNUSED ig_status ig_npz_save(const char *path,
                                            const ig_named_tensor *tensors, int64_t n,
                                            bool compressed, ig_error *err);

#ifdef __cplusplus
}
#endif
#endif
