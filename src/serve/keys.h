/* API keys: a file with one a line, compared in constant time.
 *
 * Empty lines and lines that begin with '#' are none. A list is the server thread's own:
 * reloading builds a new one and replaces the old only when it is whole.
 */
#ifndef INGOT_SERVE_KEYS_H
#define INGOT_SERVE_KEYS_H

#include "base/alloc.h"

#include <stdbool.h>

enum { IG_KEYS_MAX = 1024, IG_KEY_MAX_BYTES = 256 };

typedef struct ig__keys {
    const ig_allocator *a;
    char *text;        /* the file; keys point into it */
    const char **keys; /* [n] */
    size_t *lengths;   /* [n] */
    int64_t n;
} ig__keys;

/* A file without any key is IG_ERR_FORMAT: it would shut everybody out. `waits`: a pipe will do;
 * else it must be a regular file, which nobody has to wait for. On failure *keys is empty and
 * needs no fini. */
ig_status ig__keys_read(ig__keys *keys, const ig_allocator *a, const char *path, bool waits,
                        ig_error *err);
void ig__keys_fini(ig__keys *keys);

/* Is this one of the keys? Time depends on the given length and the list, not on what is
 * equal. */
bool ig__keys_hold(const ig__keys *keys, const char *given, size_t n);

/* A small file as one block with a 0 behind; at most `max` bytes; `waits` as above. */
ig_status ig__read_small_file(char **text_out, size_t *n_out, const ig_allocator *a,
                              const char *path, size_t max, bool waits, ig_error *err);

#endif
