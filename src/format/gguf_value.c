/* Metadata values: typed getters for the loaders, and one line of text for listings. */
#include "format/gguf_int.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    SHOWN_ELEMENTS = 8,      /* of an array in a listing */
    SHOWN_ELEMENT_BYTES = 48 /* of a string in an array */
};

static const char *const type_names[IG__GGUF_TYPE_COUNT] = {
    [IG__GGUF_U8] = "u8",          [IG__GGUF_I8] = "i8",     [IG__GGUF_U16] = "u16",
    [IG__GGUF_I16] = "i16",        [IG__GGUF_U32] = "u32",   [IG__GGUF_I32] = "i32",
    [IG__GGUF_F32] = "f32",        [IG__GGUF_BOOL] = "bool", [IG__GGUF_STRING] = "string",
    [IG__GGUF_ARRAY] = "array of", [IG__GGUF_U64] = "u64",   [IG__GGUF_I64] = "i64",
    [IG__GGUF_F64] = "f64",
};

/* ---- scalars ---------------------------------------------------------------------- */

/* A value as the widest of its kind: exactly one member tells. */
typedef struct scalar {
    enum { SIGNED, UNSIGNED, REAL } kind;
    int64_t i;
    uint64_t u;
    double d;
} scalar;

static scalar scalar_of(ig__gguf_type type, uint64_t bits)
{
    float f;
    double d;
    const uint32_t low = (uint32_t)bits;
    memcpy(&f, &low, sizeof f);
    memcpy(&d, &bits, sizeof d);
    switch (type) {
    case IG__GGUF_I8:
        return (scalar){.kind = SIGNED, .i = (int8_t)bits};
    case IG__GGUF_I16:
        return (scalar){.kind = SIGNED, .i = (int16_t)bits};
    case IG__GGUF_I32:
        return (scalar){.kind = SIGNED, .i = (int32_t)bits};
    case IG__GGUF_I64:
        return (scalar){.kind = SIGNED, .i = (int64_t)bits};
    case IG__GGUF_F32:
        return (scalar){.kind = REAL, .d = (double)f};
    case IG__GGUF_F64:
        return (scalar){.kind = REAL, .d = d};
    default: /* U8 to U64 and BOOL: the bits are zero-extended */
        return (scalar){.kind = UNSIGNED, .u = bits};
    }
}

static bool is_integer(ig__gguf_type type)
{
    return ig__gguf_type_bytes(type) && type != IG__GGUF_BOOL && type != IG__GGUF_F32 &&
           type != IG__GGUF_F64;
}

/* ---- getters ---------------------------------------------------------------------- */

/* The key; *key_out is NULL, without failure, if it is absent and not required. */
static ig_status find(const ig__gguf_entry **key_out, const ig__gguf *gguf,
                      const char *name, bool required, ig_error *err)
{
    *key_out = ig__gguf_find_key(gguf, name);
    if (!*key_out && required)
        return ig__gguf_fail(gguf, err, IG_ERR_FORMAT, ig__gguf_table(gguf),
                             "key '%s' is missing", name);
    return IG_OK;
}

static ig_status fail_type(const ig__gguf *gguf, const ig__gguf_entry *key,
                           const char *wanted, ig_error *err)
{
    const bool array = key->type == IG__GGUF_ARRAY;
    return ig__gguf_fail(gguf, err, IG_ERR_FORMAT, key->offset,
                         "key '%.64s': type is %s%s%s, wanted %s", key->name,
                         type_names[key->type], array ? " " : "",
                         array ? type_names[key->element] : "", wanted);
}

bool ig__gguf_has(const ig__gguf *gguf, const char *key)
{
    return ig__gguf_find_key(gguf, key) != NULL;
}

ig_status ig__gguf_get_i64(int64_t *out, const ig__gguf *gguf, const char *key,
                           bool required, int64_t least, int64_t most, ig_error *err)
{
    const ig__gguf_entry *k;
    IG_TRY(find(&k, gguf, key, required, err));
    if (!k)
        return IG_OK;
    if (!is_integer(k->type))
        return fail_type(gguf, k, "an integer", err);
    const scalar v = scalar_of(k->type, k->bits);
    if (v.kind == UNSIGNED && v.u > INT64_MAX)
        return ig__gguf_fail(gguf, err, IG_ERR_FORMAT, k->offset,
                             "key '%.64s': value is %" PRIu64 ", allowed is %" PRId64
                             " to %" PRId64,
                             k->name, v.u, least, most);
    const int64_t value = v.kind == UNSIGNED ? (int64_t)v.u : v.i;
    if (value < least || value > most)
        return ig__gguf_fail(gguf, err, IG_ERR_FORMAT, k->offset,
                             "key '%.64s': value is %" PRId64 ", allowed is %" PRId64
                             " to %" PRId64,
                             k->name, value, least, most);
    *out = value;
    return IG_OK;
}

ig_status ig__gguf_get_f64(double *out, const ig__gguf *gguf, const char *key,
                           bool required, double least, double most, ig_error *err)
{
    const ig__gguf_entry *k;
    IG_TRY(find(&k, gguf, key, required, err));
    if (!k)
        return IG_OK;
    if (k->type != IG__GGUF_F32 && k->type != IG__GGUF_F64)
        return fail_type(gguf, k, "f32 or f64", err);
    const double value = scalar_of(k->type, k->bits).d;
    if (!isfinite(value) || value < least || value > most)
        return ig__gguf_fail(gguf, err, IG_ERR_FORMAT, k->offset,
                             "key '%.64s': value is %g, allowed is %g to %g", k->name,
                             value, least, most);
    *out = value;
    return IG_OK;
}

ig_status ig__gguf_get_bool(bool *out, const ig__gguf *gguf, const char *key, bool required,
                            ig_error *err)
{
    const ig__gguf_entry *k;
    IG_TRY(find(&k, gguf, key, required, err));
    if (!k)
        return IG_OK;
    if (k->type != IG__GGUF_BOOL)
        return fail_type(gguf, k, "bool", err);
    *out = k->bits != 0;
    return IG_OK;
}

ig_status ig__gguf_get_string(const char **out, size_t *n_out, const ig__gguf *gguf,
                              const char *key, bool required, ig_error *err)
{
    const ig__gguf_entry *k;
    IG_TRY(find(&k, gguf, key, required, err));
    if (!k)
        return IG_OK;
    if (k->type != IG__GGUF_STRING)
        return fail_type(gguf, k, "string", err);
    *out = k->data;
    *n_out = (size_t)k->n;
    return IG_OK;
}

ig_status ig__gguf_get_array(const void **out, int64_t *n_out, const ig__gguf *gguf,
                             const char *key, ig__gguf_type type, bool required,
                             ig_error *err)
{
    const ig__gguf_entry *k;
    IG_TRY(find(&k, gguf, key, required, err));
    if (!k)
        return IG_OK;
    if (k->type != IG__GGUF_ARRAY || k->element != type) {
        char wanted[24];
        snprintf(wanted, sizeof wanted, "array of %s",
                 (unsigned)type < IG__GGUF_TYPE_COUNT ? type_names[type] : "?");
        return fail_type(gguf, k, wanted, err);
    }
    *out = k->data;
    *n_out = k->n;
    return IG_OK;
}

ig_status ig__gguf_get_strings(const ig__gguf_string **out, int64_t *n_out,
                               const ig__gguf *gguf, const char *key, bool required,
                               ig_error *err)
{
    const void *strings = *out;
    IG_TRY(ig__gguf_get_array(&strings, n_out, gguf, key, IG__GGUF_STRING, required, err));
    *out = strings;
    return IG_OK;
}

uint64_t ig__gguf_value_offset(const ig__gguf *gguf, const char *key)
{
    const ig__gguf_entry *k = ig__gguf_find_key(gguf, key);
    return k ? k->offset : 0;
}

/* ---- listings --------------------------------------------------------------------- */

/* Text of which at most cap - 1 bytes are kept, and all are counted. */
typedef struct line {
    char *text; /* [cap] */
    size_t cap, n;
} line;

static void put(line *l, const char *bytes, size_t n)
{
    if (l->n + 1 < l->cap) {
        const size_t room = l->cap - 1 - l->n;
        memcpy(l->text + l->n, bytes, n < room ? n : room);
    }
    l->n += n;
}

static void put_text(line *l, const char *text)
{
    put(l, text, strlen(text));
}

/* Length of the valid UTF-8 character at s[0..n) that a terminal may be shown; 0: none.
 * The control characters U+0080 to U+009F are not shown. */
static size_t character(const unsigned char *s, size_t n)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    if (s[0] >= 0x20 && s[0] < 0x7f)
        return 1;
    const size_t length = s[0] < 0xc2 ? 0 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;
    if (length == 0 || length > n || s[0] > 0xf4)
        return 0;
    uint32_t code = s[0] & (0xffu >> (length + 1));
    for (size_t i = 1; i < length; i++) {
        if ((s[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (s[i] & 0x3f);
    }
    const bool good = code >= least[length] && code >= 0xa0 && code <= 0x10ffff &&
                      (code < 0xd800 || code > 0xdfff);
    return good ? length : 0;
}

/* "text", with what would end the line or reach the terminal's controls escaped. */
static void put_quoted(line *l, const char *bytes, size_t n)
{
    const unsigned char *s = (const unsigned char *)bytes;
    put(l, "\"", 1);
    for (size_t i = 0; i < n;) {
        const size_t whole = character(s + i, n - i);
        char hex[8];
        if (s[i] == '\n')
            put(l, "\\n", 2);
        else if (s[i] == '\t')
            put(l, "\\t", 2);
        else if (s[i] == '"' || s[i] == '\\')
            put(l, (const char[]){'\\', (char)s[i]}, 2);
        else if (whole)
            put(l, bytes + i, whole);
        else
            put(l, hex, (size_t)snprintf(hex, sizeof hex, "\\x%02x", s[i]));
        i += whole ? whole : 1;
    }
    put(l, "\"", 1);
}

static void put_scalar(line *l, ig__gguf_type type, uint64_t bits)
{
    char text[40];
    const scalar v = scalar_of(type, bits);
    if (type == IG__GGUF_BOOL)
        snprintf(text, sizeof text, "%s", bits ? "true" : "false");
    else if (v.kind == REAL)
        snprintf(text, sizeof text, "%.*g", type == IG__GGUF_F32 ? 9 : 17, v.d);
    else if (v.kind == SIGNED)
        snprintf(text, sizeof text, "%" PRId64, v.i);
    else
        snprintf(text, sizeof text, "%" PRIu64, v.u);
    put_text(l, text);
}

static void put_element(line *l, const ig__gguf_entry *key, int64_t i)
{
    if (key->element == IG__GGUF_STRING) {
        const ig__gguf_string *s = (const ig__gguf_string *)key->data + i;
        const bool all = s->n <= SHOWN_ELEMENT_BYTES;
        put_quoted(l, s->bytes, all ? s->n : SHOWN_ELEMENT_BYTES);
        if (!all)
            put_text(l, "...");
        return;
    }
    const size_t size = ig__gguf_type_bytes(key->element);
    uint64_t bits = 0;
    memcpy(&bits, (const char *)key->data + (size_t)i * size, size);
    put_scalar(l, key->element, bits);
}

/* u32[5] 1, 2, 3, 4, 5 */
static void put_array(line *l, const ig__gguf_entry *key)
{
    char head[40];
    snprintf(head, sizeof head, "%s[%" PRId64 "]", type_names[key->element], key->n);
    put_text(l, head);
    for (int64_t i = 0; i < key->n && i < SHOWN_ELEMENTS; i++) {
        put_text(l, i ? ", " : " ");
        put_element(l, key, i);
    }
    if (key->n > SHOWN_ELEMENTS)
        put_text(l, ", ...");
}

int64_t ig__gguf_n_keys(const ig__gguf *gguf)
{
    return gguf->n_keys;
}

const char *ig__gguf_key(const ig__gguf *gguf, int64_t i)
{
    return i >= 0 && i < gguf->n_keys ? gguf->keys[i].name : NULL;
}

size_t ig__gguf_value_text(const ig__gguf *gguf, int64_t i, char *text, size_t cap)
{
    line l = {.text = text, .cap = cap};
    if (i >= 0 && i < gguf->n_keys) {
        const ig__gguf_entry *key = &gguf->keys[i];
        if (key->type == IG__GGUF_STRING)
            put_quoted(&l, key->data, (size_t)key->n);
        else if (key->type == IG__GGUF_ARRAY)
            put_array(&l, key);
        else
            put_scalar(&l, key->type, key->bits);
    }
    if (cap)
        text[l.n < cap ? l.n : cap - 1] = 0;
    return l.n;
}
