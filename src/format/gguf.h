/* Reading GGUF files, as if a stranger had made each of them on purpose.
 *
 * Opening parses header, metadata and tensor table, each length, count, offset and product
 * checked against the bytes left before use; nothing is allocated by a number that the file
 * has not paid for in bytes. The file stays open for ig__gguf_read and is never mapped.
 * Errors are one line: file, byte offset, field, value, limit. An opened file is immutable;
 * reads from several threads are fine.
 */
#ifndef INGOT_FORMAT_GGUF_H
#define INGOT_FORMAT_GGUF_H

#include "base/alloc.h"
#include "ingot/dtype.h"

typedef struct ig__gguf ig__gguf;

/* The types of metadata values, with the file's own numbers. */
typedef enum ig__gguf_type {
    IG__GGUF_U8,
    IG__GGUF_I8,
    IG__GGUF_U16,
    IG__GGUF_I16,
    IG__GGUF_U32,
    IG__GGUF_I32,
    IG__GGUF_F32,
    IG__GGUF_BOOL,
    IG__GGUF_STRING,
    IG__GGUF_ARRAY,
    IG__GGUF_U64,
    IG__GGUF_I64,
    IG__GGUF_F64,
    IG__GGUF_TYPE_COUNT
} ig__gguf_type;

typedef struct ig__gguf_tensor {
    const char *name;   /* 0-terminated, lives as long as the file */
    uint32_t file_type; /* the file's number for the type */
    ig_dtype dtype;     /* IG_DTYPE_COUNT: listed, but no tensor of this version holds it */
    int n_dims;         /* 1..4 */
    int64_t dims[4];    /* dims[0] runs fastest; 1 past n_dims; product checked */
    uint64_t entry; /* where its row of the tensor table stands in the file, for messages */
    uint64_t offset; /* of its data, from the start of the file */
    uint64_t bytes;  /* offset + bytes lies inside the file; 0 for a number that is not
                           known at all, of which only the offset is checked */
} ig__gguf_tensor;

ig_status ig__gguf_open(ig__gguf **gguf_out, const ig_allocator *a, const char *path,
                        ig_error *err);
void ig__gguf_close(ig__gguf *gguf);             /* may be NULL */
const char *ig__gguf_path(const ig__gguf *gguf); /* for messages: the end of a long one */
uint64_t ig__gguf_file_bytes(const ig__gguf *gguf);

/* Metadata. The typed getters fail (IG_ERR_FORMAT, naming key, offset, value and range)
 * when the key is there with another type or outside [least, most]; when it is absent they
 * fail if `required`, else leave *out as it was. Integers of any width convert where the
 * value fits. */
bool ig__gguf_has(const ig__gguf *gguf, const char *key);
ig_status ig__gguf_get_i64(int64_t *out, const ig__gguf *gguf, const char *key,
                           bool required, int64_t least, int64_t most, ig_error *err);
ig_status ig__gguf_get_f64(double *out, const ig__gguf *gguf, const char *key,
                           bool required, double least, double most,
                           ig_error *err); /* finite; f32 or f64 */
ig_status ig__gguf_get_bool(bool *out, const ig__gguf *gguf, const char *key, bool required,
                            ig_error *err);
/* The bytes live as long as the file; a 0 stands behind them, more may stand among them. */
ig_status ig__gguf_get_string(const char **out, size_t *n_out, const ig__gguf *gguf,
                              const char *key, bool required, ig_error *err);
/* Arrays. n_out is the element count; elements of an integer or float array are contiguous,
 * little endian and aligned for their type, and live as long as the file. `type` must match
 * exactly. */
ig_status ig__gguf_get_array(const void **out, int64_t *n_out, const ig__gguf *gguf,
                             const char *key, ig__gguf_type type, bool required,
                             ig_error *err);
typedef struct ig__gguf_string {
    const char *bytes; /* [n], a 0 behind is NOT promised */
    size_t n;
} ig__gguf_string;
ig_status ig__gguf_get_strings(const ig__gguf_string **out, int64_t *n_out,
                               const ig__gguf *gguf, const char *key, bool required,
                               ig_error *err);
/* The byte offset in the file of a key's value (of an array: its element type), for error
 * messages; 0 if absent. */
uint64_t ig__gguf_value_offset(const ig__gguf *gguf, const char *key);

/* For listings. Keys are printable ASCII; the text is one line that a terminal may be
 * shown: what else stands in strings is escaped. NULL and "" for an i outside the list. */
int64_t ig__gguf_n_keys(const ig__gguf *gguf);
const char *ig__gguf_key(const ig__gguf *gguf, int64_t i);
/* Writes at most cap bytes with the final 0; returns the length it wanted. */
size_t ig__gguf_value_text(const ig__gguf *gguf, int64_t i, char *text, size_t cap);

/* Tensors, in the file's order; no two share a name or a byte, and between their data lies
 * nothing but padding. */
int64_t ig__gguf_n_tensors(const ig__gguf *gguf);
/* Where the tensor table stands in the file, for messages about what is not in it. */
uint64_t ig__gguf_table(const ig__gguf *gguf);
const ig__gguf_tensor *ig__gguf_tensor_at(const ig__gguf *gguf, int64_t i);
const ig__gguf_tensor *ig__gguf_find_tensor(const ig__gguf *gguf,
                                            const char *name); /* NULL: absent */
const char *
ig__gguf_type_name(uint32_t file_type); /* "q4_1", "iq2_xs"; "?" for none known */

/* Read `bytes` at `offset` into dst; a file that has shrunk is IG_ERR_IO. Thread-safe. */
ig_status ig__gguf_read(const ig__gguf *gguf, uint64_t offset, void *dst, size_t bytes,
                        ig_error *err);

#endif
