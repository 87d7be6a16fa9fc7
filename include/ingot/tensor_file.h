/* Tensors in files: safetensors, the format of weights by name.
 *
 * A file is 8 bytes of length, a JSON header, and the bytes of all tensors, one behind the other. A
 * stranger's file is checked whole before anything is read from it: lengths, types, shapes, and that
 * the tensors cover the data without holes or overlaps. Errors are one line: file, tensor, value.
 */
#ifndef INGOT_TENSOR_FILE_H
#define INGOT_TENSOR_FILE_H

#include "ingot/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ig_tensor_file ig_tensor_file;

/* On failure *file_out is NULL. */
IG_API IG_WARN_UNUSED ig_status ig_tensor_file_open(ig_tensor_file **file_out,
                                                    ig_context *ctx, const char *path,
                                                    ig_error *err);
IG_API void ig_tensor_file_close(ig_tensor_file *file); /* may be NULL */

typedef struct ig_tensor_info {
    const char *name; /* lives as long as the file */
    ig_dtype dtype; /* IG_DTYPE_COUNT: a type that tensors do not have; it cannot be read */
    int n_dims;
    int64_t dims[8];
    size_t bytes;
} ig_tensor_info;

IG_API int64_t ig_tensor_file_count(const ig_tensor_file *file);
/* In the order of their bytes; zeros outside 0 .. count - 1. */
IG_API ig_tensor_info ig_tensor_file_info(const ig_tensor_file *file, int64_t i);
/* Its number; -1: there is no tensor of that name. */
IG_API int64_t ig_tensor_file_find(const ig_tensor_file *file, const char *name);
/* A string of the header's __metadata__; NULL: there is none. Lives as long as the file. */
IG_API const char *ig_tensor_file_metadata(const ig_tensor_file *file, const char *key);

/* Tensor `name`, new, in the current scope; NULL: the failure is in *err (and not on the context). */
IG_API ig_tensor *ig_tensor_file_read(const ig_tensor_file *file, const char *name,
                                      ig_error *err);
/* The same into x, which has that shape: a write in place, cast where the types differ. */
IG_API IG_WARN_UNUSED ig_status ig_tensor_file_read_into(const ig_tensor_file *file,
                                                         const char *name, ig_tensor *x,
                                                         ig_error *err);

typedef struct ig_named_tensor {
    const char *name;
    ig_tensor *tensor;
} ig_named_tensor;
typedef struct ig_metadata {
    const char *key, *value; /* UTF-8 */
} ig_metadata;

/* Write a whole file: under a new name beside `path` first, which it then replaces, so that a reader sees the
 * old file or the new one. Names must differ. */
IG_API IG_WARN_UNUSED ig_status ig_tensors_save(const char *path,
                                                const ig_named_tensor *tensors, int64_t n,
                                                const ig_metadata *metadata,
                                                int64_t n_metadata, ig_error *err);

#ifdef __cplusplus
}
#endif
#endif
