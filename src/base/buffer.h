/* A growing byte string. Failure is sticky: after the first failed growth `failed` is set,
 * later appends do nothing, and the owner checks once.
 */
#ifndef INGOT_BASE_BUFFER_H
#define INGOT_BASE_BUFFER_H

#include "base/alloc.h"

typedef struct ig__buffer {
    const ig_allocator *a;
    char *data; /* [n] and a 0 behind; NULL only if cap is 0 */
    size_t n, cap;
    bool failed;
} ig__buffer;

static inline ig__buffer ig__buffer_init(const ig_allocator *a)
{
    return (ig__buffer){.a = a};
}
void ig__buffer_fini(ig__buffer *b);
void ig__buffer_append(ig__buffer *b, const char *bytes, size_t n);
void ig__buffer_append_text(ig__buffer *b, const char *text); /* up to its 0 */
void ig__buffer_append_char(ig__buffer *b, char c);
IG_PRINTF(2, 3) void ig__buffer_printf(ig__buffer *b, const char *fmt, ...);
/* Room for n more bytes without growing; false if there is no memory. */
bool ig__buffer_reserve(ig__buffer *b, size_t n);
/* The data, now the caller's (ig__free); NULL if failed. The buffer is empty afterwards. */
char *ig__buffer_take(ig__buffer *b, size_t *n_out);

#endif
