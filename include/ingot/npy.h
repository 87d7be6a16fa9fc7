/* NumPy's .npy files: one tensor each.
 *
 * Read are versions 1 to 3, little endian, C or Fortran order, of bool, i8, u8, i32, i64, f16, f32 and f64;
 * written is version 1 in C order (bf16, which NumPy lacks, as f32). A stranger's file is checked before
 * anything is allocated: errors are one line.
 */
#ifndef INGOT_NPY_H
#define INGOT_NPY_H

#include "ingot/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A new tensor in the current scope; NULL: the failure is in *err (and not on the context). */
IG_API ig_tensor *ig_npy_load(ig_context *ctx, const char *path, ig_error *err);
IG_API IG_WARN_UNUSED ig_status ig_npy_save(const char *path, const ig_tensor *x,
                                            ig_error *err);

#ifdef __cplusplus
}
#endif
#endif
