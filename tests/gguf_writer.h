/* Making small GGUF files for tests, field by field, so that each field can be wrong.
 *
 * Each call appends; the counts in the header follow the keys and tensors added, and
 * gguf_patch writes over anything. Memory that cannot be had fails the test. A file that is
 * saved lives under TMPDIR (or /tmp) until gguf_writer_fini.
 */
#ifndef INGOT_TESTS_GGUF_WRITER_H
#define INGOT_TESTS_GGUF_WRITER_H

#include "format/gguf.h"

typedef struct gguf_writer {
    unsigned char *bytes; /* [n] */
    size_t n, cap;
    size_t data;    /* where the tensors' data begins, 0 before gguf_data */
    char path[256]; /* "" before gguf_save */
} gguf_writer;

void gguf_writer_init(gguf_writer *w); /* magic, version 3, no tensors, no keys */
void gguf_writer_fini(gguf_writer *w); /* removes the saved file */

/* Bare fields; each returns the offset of what it wrote. */
size_t gguf_bytes(gguf_writer *w, const void *bytes, size_t n);
size_t gguf_u8(gguf_writer *w, uint8_t value);
size_t gguf_u32(gguf_writer *w, uint32_t value);
size_t gguf_u64(gguf_writer *w, uint64_t value);
size_t gguf_f32(gguf_writer *w, float value);
size_t gguf_string(gguf_writer *w, const char *text);

/* A key and its value's type; the value is to follow. Counts one key. Returns the offset of
 * the value. */
size_t gguf_key(gguf_writer *w, const char *key, uint32_t type);
/* Whole entries; each returns the offset of the value. */
size_t gguf_key_u32(gguf_writer *w, const char *key, uint32_t value);
size_t gguf_key_f32(gguf_writer *w, const char *key, float value);
size_t gguf_key_bool(gguf_writer *w, const char *key, bool value);
size_t gguf_key_string(gguf_writer *w, const char *key, const char *text);
/* An array's key and header; its elements are to follow. */
size_t gguf_key_array(gguf_writer *w, const char *key, uint32_t element, uint64_t count);

/* A tensor's entry; `offset` counts from the start of the data. Returns the offset of the
 * entry's name; fields follow it as in the file: name, n_dims, dims, type, offset. */
size_t gguf_tensor(gguf_writer *w, const char *name, int n_dims, const uint64_t *dims,
                   uint32_t type, uint64_t offset);
/* Pad with zeros to the alignment: the data begins here. Returns its offset. */
size_t gguf_data(gguf_writer *w, size_t alignment);
/* Append zeros until `n` bytes of data stand. */
void gguf_zeros(gguf_writer *w, size_t n);

void gguf_patch(gguf_writer *w, size_t at, const void *bytes, size_t n);
void gguf_patch_u32(gguf_writer *w, size_t at, uint32_t value);
void gguf_patch_u64(gguf_writer *w, size_t at, uint64_t value);

/* Write the bytes to the temporary file (made at the first call); returns its path. */
const char *gguf_save(gguf_writer *w);

#endif
