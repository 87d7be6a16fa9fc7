/* JSON written straight into a buffer: no tree, one pass.
 *
 * A failure is the buffer's: sticky, and looked at once by its owner.
 */
#ifndef INGOT_SERVE_JSON_WRITE_H
#define INGOT_SERVE_JSON_WRITE_H

#include "base/buffer.h"

/* A string with its quotes; any bytes: what is not UTF-8 becomes U+FFFD. */
void ig__json_write_string(ig__buffer *b, const char *bytes, size_t n);
void ig__json_write_text(ig__buffer *b, const char *text); /* up to its 0; NULL: null */
void ig__json_write_int(ig__buffer *b, int64_t x);
void ig__json_write_real(ig__buffer *b, double x); /* what JSON cannot say is null */
/* [72,105]: the bytes as numbers. */
void ig__json_write_bytes(ig__buffer *b, const char *bytes, size_t n);
void ig__json_write_ids(ig__buffer *b, const int32_t *ids, int64_t n);

#endif
