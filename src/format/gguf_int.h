/* What the files of the GGUF reader share: the opened file and the parser's cursor.
 *
 * LIMITS. A file pays for what it makes us allocate with bytes that are really there, and
 * holes of a sparse file are cheap; so each count has a ceiling of its own as well, far
 * above what real models have (a vocabulary of 262,144 with merges: 15 MB, 0.8 million
 * strings).
 */
#ifndef INGOT_FORMAT_GGUF_INT_H
#define INGOT_FORMAT_GGUF_INT_H

#include "base/error.h"
#include "format/gguf.h"

#include <inttypes.h>

#define IG_GGUF_META_MAX    ((uint64_t)64 << 20) /* bytes before the tensors' data */
#define IG_GGUF_KEYS_MAX    ((uint64_t)65536)
#define IG_GGUF_TENSORS_MAX ((uint64_t)131072)
#define IG_GGUF_STRINGS_MAX ((uint64_t)1 << 21) /* elements of all string arrays */
#define IG_GGUF_KEY_MAX     ((uint64_t)65535)   /* bytes of a key; the format's own limit */
#define IG_GGUF_NAME_MAX    ((uint64_t)255)     /* bytes of a tensor's name */
#define IG_GGUF_WINDOW      ((size_t)128 << 10) /* of the first pass; holds any key */

typedef struct ig__gguf_entry {
    const char *name; /* [n_name] printable ASCII and a 0, in meta */
    size_t n_name;
    ig__gguf_type type, element; /* element: of an array, else as type */
    int64_t n;                   /* elements of an array, bytes of a string, else 1 */
    uint64_t bits;               /* a scalar's bytes, zero-extended */
    const void *data; /* string: its bytes and a 0; array: elements, aligned for their
                         type; strings: ig__gguf_string [n]; scalar: NULL */
    uint64_t offset;  /* of the value in the file, behind its type */
} ig__gguf_entry;

/* After the first pass the counts are known and the tables are NULL; after the second the
 * tables hold exactly those counts. key_order and tensor_order sort by name. */
struct ig__gguf {
    const ig_allocator *a;
    ig_allocator allocator; /* what a points to */
    int fd;                 /* -1 until open */
    char *path;
    const char *shown; /* the end of path, short enough for a message */
    uint64_t file_bytes;

    uint32_t alignment;   /* a power of two */
    uint64_t meta_bytes;  /* header, keys and tensor table; <= IG_GGUF_META_MAX */
    uint64_t data_offset; /* meta_bytes rounded up to alignment; 0 in the first pass */
    char *meta;           /* [meta_bytes] the file's, changed in place by the parser */

    int64_t n_keys, n_tensors, n_strings;
    int64_t cap_strings;      /* second pass: what the first has counted */
    ig__gguf_entry *keys;     /* [n_keys] in the file's order */
    ig__gguf_tensor *tensors; /* [n_tensors] in the file's order */
    ig__gguf_string *strings; /* [n_strings] elements of all string arrays */
    uint32_t *key_order;      /* [n_keys] */
    uint32_t *tensor_order;   /* [n_tensors] */
};

/* "file: byte offset: ..." */
#define ig__gguf_fail(gguf, err, status, offset, fmt, ...)                                 \
    ig__fail(err, status, "%s: byte %" PRIu64 ": " fmt, (gguf)->shown, offset, __VA_ARGS__)

/* The parser's place in the file.
 *
 * Invariants: at <= n <= cap; base + n <= end <= file_bytes; window[0..n) are the file's
 * bytes from base on. In the second pass the window is all of meta and is never refilled.
 */
typedef struct ig__gguf_cursor {
    ig__gguf *gguf;
    ig_error *err;
    char *window; /* [cap] */
    size_t cap, n, at;
    uint64_t base;  /* file offset of window[0] */
    uint64_t end;   /* no byte from here on belongs to the metadata */
    bool keeps;     /* second pass: fill the tables, settle bytes in place */
    char label[96]; /* the key or tensor that is being read, for messages */
    struct {
        uint64_t end;    /* largest end of a tensor, from the start of the data; 0: none */
        uint64_t value;  /* its offset field */
        uint64_t offset; /* where that field stands in the file */
        char label[96];
    } furthest;
} ig__gguf_cursor;

/* Parse header, keys and tensor table from the cursor's place (byte 0) on. */
ig_status ig__gguf_parse(ig__gguf_cursor *c);

/* Sort keys and tensors by name; refuse names that stand twice, and overlapping tensors. */
ig_status ig__gguf_index(ig__gguf *gguf, ig_error *err);
const ig__gguf_entry *ig__gguf_find_key(const ig__gguf *gguf, const char *name);

/* Bytes of a scalar type; 0 for strings and arrays. */
size_t ig__gguf_type_bytes(ig__gguf_type type);

/* A tensor type by the file's number: false for an unknown one. */
typedef struct ig__gguf_layout {
    const char *name;
    int64_t block; /* elements a block */
    size_t block_bytes;
    ig_dtype dtype; /* IG_DTYPE_COUNT: known, but not read by this version */
} ig__gguf_layout;
bool ig__gguf_layout_of(ig__gguf_layout *layout_out, uint32_t file_type);

#endif
