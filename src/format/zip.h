/* Zip archives, as far as .npz files need them: members stored or deflated, with 64-bit sizes.
 *
 * Reading takes every byte for a stranger's. The directory is checked whole when the archive is opened: sizes
 * and places lie inside the file, members do not share bytes, names are unique text, and what a
 * member claims to hold is no more than deflate can make of its bytes (1,032 for one). A stream
 * gives at most what was claimed, and its end checks size and sum.
 */
#ifndef INGOT_FORMAT_ZIP_H
#define INGOT_FORMAT_ZIP_H

#include "base/alloc.h"

typedef struct ig__zip ig__zip;

/* path is borrowed for the archive's life. */
ig_status ig__zip_open(ig__zip **zip_out, const ig_allocator *a, const char *path,
                       ig_error *err);
void ig__zip_close(ig__zip *zip); /* may be NULL */
int64_t ig__zip_count(const ig__zip *zip);
/* In the order of their names; lives as long as the archive. */
const char *ig__zip_name(const ig__zip *zip, int64_t i);
int64_t ig__zip_find(const ig__zip *zip, const char *name); /* -1: not there */
uint64_t ig__zip_bytes(const ig__zip *zip, int64_t i);      /* unpacked */

/* ---- the bytes of a member ------------------------------------------------------------------------- */

typedef struct ig__zip_stream ig__zip_stream;
ig_status ig__zip_stream_open(ig__zip_stream **stream_out, const ig__zip *zip, int64_t i,
                              ig_error *err);
/* Exactly n bytes more; n no more than are left. */
ig_status ig__zip_stream_read(ig__zip_stream *s, void *out, size_t n, ig_error *err);
/* Behind the last byte: is the packed form at its end, and does the sum fit? */
ig_status ig__zip_stream_check(ig__zip_stream *s, ig_error *err);
void ig__zip_stream_close(ig__zip_stream *s); /* may be NULL */

/* ---- writing --------------------------------------------------------------------------------------- */

typedef struct ig__zip_writer ig__zip_writer;
ig_status ig__zip_writer_begin(ig__zip_writer **writer_out, const ig_allocator *a,
                               const char *path, ig_error *err);
/* A member of n bytes of which `parts` are the pieces, one behind the other. */
typedef struct ig__zip_part {
    const void *bytes;
    size_t n;
} ig__zip_part;
ig_status ig__zip_writer_add(ig__zip_writer *w, const char *name, const ig__zip_part *parts,
                             int n_parts, bool deflated, ig_error *err);
/* With the status of the writing: the archive is whole, or not there. Ends w (may be NULL). */
ig_status ig__zip_writer_end(ig__zip_writer *w, ig_status status, ig_error *err);

#endif
