/* jansson behind base/json.h. An ig__json is a json_t under another name. */
#include "base/json.h"

#include "base/error.h"

#include <jansson.h>

/* jansson counts references in the object, so its readers take a pointer to non-const;
 * none that is called here changes the tree. */
static json_t *raw(const ig__json *v)
{
    return (json_t *)(uintptr_t)v;
}

static json_t *load(const char *text, size_t n_bytes, size_t flags, json_error_t *why)
{
    return json_loadb(text, n_bytes, flags | JSON_DECODE_ANY | JSON_ALLOW_NUL, why);
}

static ig_status outcome(const ig__json *root, size_t n_bytes, const json_error_t *why,
                         ig_error *err)
{
    if (root)
        return IG_OK;
    if (json_error_code(why) == json_error_out_of_memory)
        return ig__fail_memory(err, "json", n_bytes);
    return ig__fail(err, IG_ERR_FORMAT, "json: line %d, column %d: %s", why->line,
                    why->column, why->text);
}

ig_status ig__json_parse(ig__json **root_out, const char *text, size_t n_bytes,
                         ig_error *err)
{
    json_error_t why;
    json_t *root = load(text, n_bytes, 0, &why);
    if (!root && json_error_code(&why) == json_error_numeric_overflow)
        root = load(text, n_bytes, JSON_DECODE_INT_AS_REAL, &why);
    *root_out = (ig__json *)root;
    return outcome(*root_out, n_bytes, &why, err);
}

ig_status ig__json_parse_unique(ig__json **root_out, const char *text, size_t n_bytes,
                                ig_error *err)
{
    json_error_t why;
    *root_out = (ig__json *)load(text, n_bytes, JSON_REJECT_DUPLICATES, &why);
    return outcome(*root_out, n_bytes, &why, err);
}

void ig__json_destroy(ig__json *root)
{
    json_decref(raw(root));
}

ig__json_kind ig__json_kind_of(const ig__json *v)
{
    switch (json_typeof(raw(v))) {
    case JSON_OBJECT:
        return IG_JSON_OBJECT;
    case JSON_ARRAY:
        return IG_JSON_ARRAY;
    case JSON_STRING:
        return IG_JSON_STRING;
    case JSON_INTEGER:
        return IG_JSON_INT;
    case JSON_REAL:
        return IG_JSON_REAL;
    case JSON_TRUE:
    case JSON_FALSE:
        return IG_JSON_BOOL;
    case JSON_NULL:
        break;
    }
    return IG_JSON_NULL;
}

bool ig__json_bool(const ig__json *v)
{
    return json_is_true(raw(v));
}

int64_t ig__json_int(const ig__json *v)
{
    return json_integer_value(raw(v));
}

double ig__json_real(const ig__json *v)
{
    return json_number_value(raw(v));
}

const char *ig__json_string(const ig__json *v, size_t *n_out)
{
    *n_out = json_string_length(raw(v));
    return json_string_value(raw(v));
}

size_t ig__json_length(const ig__json *v)
{
    return json_is_object(raw(v)) ? json_object_size(raw(v)) : json_array_size(raw(v));
}

const ig__json *ig__json_at(const ig__json *array, size_t i)
{
    return (const ig__json *)json_array_get(raw(array), i);
}

const ig__json *ig__json_get(const ig__json *object, const char *key)
{
    return (const ig__json *)json_object_get(raw(object), key);
}

void *ig__json_first(const ig__json *object)
{
    return json_object_iter(raw(object));
}

void *ig__json_next(const ig__json *object, void *it)
{
    return json_object_iter_next(raw(object), it);
}

const char *ig__json_key(void *it, size_t *n_out)
{
    *n_out = json_object_iter_key_len(it);
    return json_object_iter_key(it);
}

const ig__json *ig__json_value(void *it)
{
    return (const ig__json *)json_object_iter_value(it);
}
