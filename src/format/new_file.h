/* A file that is whole or not there: made under a new name in the same folder, forced to the disk, and
 * renamed. Whoever reads `path` finds the old file whole or the new one whole, whatever happens in between.
 */
#ifndef INGOT_FORMAT_NEW_FILE_H
#define INGOT_FORMAT_NEW_FILE_H

#include "base/alloc.h"

typedef struct ig__new_file {
    const ig_allocator *a;
    const char *path; /* the caller's */
    char *made;       /* the new name */
    int fd;           /* at the place where ig__new_file_write goes on */
    uint64_t n;       /* bytes written by it */
} ig__new_file;

ig_status ig__new_file_begin(ig__new_file *f, const ig_allocator *a, const char *path,
                             ig_error *err);
ig_status ig__new_file_write(ig__new_file *f, const void *bytes, size_t n, ig_error *err);
/* Over bytes that were written. */
ig_status ig__new_file_patch(ig__new_file *f, uint64_t at, const void *bytes, size_t n,
                             ig_error *err);
/* With the status of the writing: in place of `path` if that is IG_OK, else gone. Returns it, or what
 * failed now. */
ig_status ig__new_file_end(ig__new_file *f, ig_status status, ig_error *err);

#endif
