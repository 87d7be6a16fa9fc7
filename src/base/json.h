/* JSON read into a tree: the one place that knows which library does it.
 *
 * Objects keep the order of their text; a repeated key keeps its first place and its last
 * value (ig__json_parse_unique refuses it). Strings are valid UTF-8 and may hold a zero byte. The tree is immutable and
 * borrowed pointers live as long as its root. Memory is the bought library's own.
 */
#ifndef INGOT_BASE_JSON_H
#define INGOT_BASE_JSON_H

#include "ingot/status.h"

typedef struct ig__json ig__json;

typedef enum ig__json_kind {
    IG_JSON_NULL,
    IG_JSON_BOOL,
    IG_JSON_INT,
    IG_JSON_REAL,
    IG_JSON_STRING,
    IG_JSON_ARRAY,
    IG_JSON_OBJECT
} ig__json_kind;

/* Parse one value of any kind. IG_ERR_FORMAT says line, column and what was found. On
 * failure *root_out is NULL. Where a whole number passes 64 bits all numbers of the text are
 * reals, so that whoever reads them can say which is out of its range. */
IG_WARN_UNUSED ig_status ig__json_parse(ig__json **root_out, const char *text,
                                        size_t n_bytes, ig_error *err);
/* The same, but a repeated key is a failure, and a whole number past 64 bits. */
IG_WARN_UNUSED ig_status ig__json_parse_unique(ig__json **root_out, const char *text,
                                               size_t n_bytes, ig_error *err);
void ig__json_destroy(ig__json *root); /* the root only; may be NULL */

ig__json_kind ig__json_kind_of(const ig__json *v);
bool ig__json_bool(const ig__json *v);
int64_t ig__json_int(const ig__json *v);
double ig__json_real(const ig__json *v); /* of an integer too */
/* The bytes of a string, a 0 behind them. */
const char *ig__json_string(const ig__json *v, size_t *n_out);
size_t ig__json_length(const ig__json *v); /* of an array or object, else 0 */
const ig__json *ig__json_at(const ig__json *array, size_t i);
const ig__json *ig__json_get(const ig__json *object, const char *key); /* NULL: absent */

/* Walk an object in order:
 *   for (void *it = ig__json_first(v); it; it = ig__json_next(v, it)) */
void *ig__json_first(const ig__json *object);
void *ig__json_next(const ig__json *object, void *it);
const char *ig__json_key(void *it, size_t *n_out);
const ig__json *ig__json_value(void *it);

#endif
