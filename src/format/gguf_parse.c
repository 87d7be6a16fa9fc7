/* The one parser of GGUF metadata, run twice over a file.
 *
 *     "GGUF" | version u32 | n_tensors u64 | n_keys u64
 *     n_keys times     name: length u64, bytes | type u32 | value
 *     n_tensors times  name: length u64, bytes | n_dims u32 | dims u64 [n_dims]
 *                      | type u32 | offset u64 from the start of the data
 *     padding to the alignment | data
 *
 * A string is a length u64 and its bytes; an array is an element type u32, a count u64 and
 * the elements. All little endian, nothing aligned.
 *
 * The first pass walks the file through a small window and keeps nothing: it finds what is
 * malformed at the cost of that window, and counts what the second pass will keep. The
 * second walks the same bytes in memory and checks them all again, so that a file that
 * changes in between can only fail. It settles values in place, over the length fields that
 * stand in front of them and are no longer needed: a string moves down by its 8 bytes of
 * length, which leaves room for a 0 behind it; the elements of an array move down by at
 * most 7 of their 12 bytes of header, to be aligned for their type.
 *
 * Every length and count is compared with the bytes left before it is used.
 */
#include "format/gguf_int.h"

#include <stdio.h>
#include <string.h>

_Static_assert(sizeof(size_t) == sizeof(uint64_t), "bytes of a file fit a size_t");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "arrays of the file are used in place");

enum {
    LEAST_KEY = 8 + 1 + 4 + 1,            /* name of one byte, type, value of one byte */
    LEAST_TENSOR = 8 + 1 + 4 + 8 + 4 + 8, /* name of one byte, one dimension */
    STRING_HEADER = 8,
    ARRAY_ALIGN_MAX = 8 /* <= the 12 bytes of an array's header */
};

/* ---- the cursor ------------------------------------------------------------------- */

static uint64_t tell(const ig__gguf_cursor *c)
{
    return c->base + c->at;
}

static uint64_t left(const ig__gguf_cursor *c)
{
    return c->end - tell(c);
}

static ig_status fail_changed(const ig__gguf_cursor *c)
{
    return ig__gguf_fail(c->gguf, c->err, IG_ERR_IO, tell(c),
                         "%s: the file changed while it was read", c->label);
}

/* n bytes are wanted, which are not there or which metadata may not take. */
static ig_status fail_left(const ig__gguf_cursor *c, const char *field, uint64_t n)
{
    if (c->keeps)
        return fail_changed(c);
    const uint64_t in_file = c->gguf->file_bytes - tell(c);
    if (n > in_file)
        return ig__gguf_fail(c->gguf, c->err, IG_ERR_FORMAT, tell(c),
                             "%s: %s takes %" PRIu64 " bytes, %" PRIu64
                             " are left in the file",
                             c->label, field, n, in_file);
    return ig__gguf_fail(c->gguf, c->err, IG_ERR_LIMIT, tell(c),
                         "%s: %s takes %" PRIu64 " bytes: metadata may end at byte %" PRIu64
                         " at most",
                         c->label, field, n, c->end);
}

/* Read the window again, from the cursor's place on. */
static ig_status refill(ig__gguf_cursor *c, const char *field, size_t n)
{
    if (n > left(c) || c->keeps)
        return fail_left(c, field, n);
    IG_ASSERT(n <= c->cap);
    c->base = tell(c);
    c->at = c->n = 0;
    const size_t want = left(c) < c->cap ? (size_t)left(c) : c->cap;
    IG_TRY(ig__gguf_read(c->gguf, c->base, c->window, want, c->err));
    c->n = want;
    return IG_OK;
}

/* The next n <= IG_GGUF_WINDOW bytes; they stay where they are until the next take. */
static inline ig_status take(char **bytes_out, ig__gguf_cursor *c, const char *field,
                             size_t n)
{
    if (n > c->n - c->at)
        IG_TRY(refill(c, field, n));
    *bytes_out = c->window + c->at;
    c->at += n;
    return IG_OK;
}

static inline ig_status skip(ig__gguf_cursor *c, const char *field, uint64_t n)
{
    if (n <= c->n - c->at) {
        c->at += (size_t)n;
        return IG_OK;
    }
    if (n > left(c) || c->keeps)
        return fail_left(c, field, n);
    c->base = tell(c) + n;
    c->at = c->n = 0;
    return IG_OK;
}

static inline ig_status take_u32(uint32_t *out, ig__gguf_cursor *c, const char *field)
{
    char *bytes;
    IG_TRY(take(&bytes, c, field, sizeof *out));
    memcpy(out, bytes, sizeof *out);
    return IG_OK;
}

static inline ig_status take_u64(uint64_t *out, ig__gguf_cursor *c, const char *field)
{
    char *bytes;
    IG_TRY(take(&bytes, c, field, sizeof *out));
    memcpy(out, bytes, sizeof *out);
    return IG_OK;
}

/* A count of things of at least `bytes` each, of which `most` are allowed. It stands in the
 * 8 bytes before the cursor. */
static ig_status check_count(const ig__gguf_cursor *c, const char *field, uint64_t count,
                             size_t bytes, uint64_t most)
{
    if (count <= most && count <= left(c) / bytes)
        return IG_OK;
    if (c->keeps)
        return fail_changed(c);
    const uint64_t offset = tell(c) - 8;
    const uint64_t in_file = c->gguf->file_bytes - tell(c);
    if (count > in_file / bytes)
        return ig__gguf_fail(c->gguf, c->err, IG_ERR_FORMAT, offset,
                             "%s: %s is %" PRIu64 ", the %" PRIu64
                             " bytes left in the file hold at most %" PRIu64,
                             c->label, field, count, in_file, in_file / bytes);
    if (count > most)
        return ig__gguf_fail(c->gguf, c->err, IG_ERR_LIMIT, offset,
                             "%s: %s is %" PRIu64 ", limit is %" PRIu64, c->label, field,
                             count, most);
    return fail_left(c, field, count * bytes); /* <= in_file: no overflow */
}

/* ---- names ------------------------------------------------------------------------ */

/* Move a string down over its length field and close it with a 0. */
static char *settle_string(char *bytes, size_t n)
{
    char *moved = memmove(bytes - STRING_HEADER, bytes, n);
    moved[n] = 0;
    return moved;
}

/* The name becomes the label of what follows: "'llama.block_count'". */
static void label_name(ig__gguf_cursor *c, const char *kind, const char *name, size_t n)
{
    const int shown = n > 64 ? 64 : (int)n;
    snprintf(c->label, sizeof c->label, "%s '%.*s%s'", kind, shown, name,
             n > 64 ? "..." : "");
}

/* The place of the first byte that is not printable ASCII; n: there is none. The first loop
 * has no way out, so that it runs over long names many bytes at a time. */
static size_t printable(const char *bytes, size_t n)
{
    unsigned odd = 0;
    for (size_t i = 0; i < n; i++)
        odd |= (unsigned char)(bytes[i] - 32) > 126 - 32;
    if (!odd)
        return n;
    size_t i = 0;
    while ((unsigned char)(bytes[i] - 32) <= 126 - 32)
        i++;
    return i;
}

/* A key or tensor's name: 1 to `most` bytes of printable ASCII. In the first pass it stays
 * where it is until the next take. */
static ig_status take_name(char **name_out, size_t *n_out, ig__gguf_cursor *c,
                           const char *kind, uint64_t most)
{
    const uint64_t offset = tell(c);
    uint64_t n;
    IG_TRY(take_u64(&n, c, "name length"));
    if (n == 0 || n > most)
        return ig__gguf_fail(c->gguf, c->err, IG_ERR_FORMAT, offset,
                             "%s: name length is %" PRIu64 ", allowed is 1 to %" PRIu64,
                             c->label, n, most);
    char *name;
    IG_TRY(take(&name, c, "name", (size_t)n));
    const size_t good = printable(name, (size_t)n);
    if (good < n)
        return ig__gguf_fail(c->gguf, c->err, IG_ERR_FORMAT, offset + 8 + good,
                             "%s: byte %zu of the name is 0x%02x, allowed is 0x20 to 0x7e",
                             c->label, good, (unsigned char)name[good]);
    label_name(c, kind, name, (size_t)n);
    *name_out = name;
    *n_out = (size_t)n;
    return IG_OK;
}

/* ---- values ----------------------------------------------------------------------- */

size_t ig__gguf_type_bytes(ig__gguf_type type)
{
    static const uint8_t bytes[IG__GGUF_TYPE_COUNT] = {
        [IG__GGUF_U8] = 1,  [IG__GGUF_I8] = 1,  [IG__GGUF_U16] = 2, [IG__GGUF_I16] = 2,
        [IG__GGUF_U32] = 4, [IG__GGUF_I32] = 4, [IG__GGUF_F32] = 4, [IG__GGUF_BOOL] = 1,
        [IG__GGUF_U64] = 8, [IG__GGUF_I64] = 8, [IG__GGUF_F64] = 8,
    };
    return (unsigned)type < IG__GGUF_TYPE_COUNT ? bytes[type] : 0;
}

static ig_status take_type(ig__gguf_type *type_out, ig__gguf_cursor *c, const char *field)
{
    const uint64_t offset = tell(c);
    uint32_t type;
    IG_TRY(take_u32(&type, c, field));
    if (type >= IG__GGUF_TYPE_COUNT)
        return ig__gguf_fail(c->gguf, c->err, IG_ERR_FORMAT, offset,
                             "%s: %s is %" PRIu32 ", allowed is 0 to %d", c->label, field,
                             type, IG__GGUF_TYPE_COUNT - 1);
    *type_out = (ig__gguf_type)type;
    return IG_OK;
}

static ig_status check_bool(const ig__gguf_cursor *c, uint64_t offset, unsigned char value)
{
    if (value <= 1)
        return IG_OK;
    return ig__gguf_fail(c->gguf, c->err, IG_ERR_FORMAT, offset,
                         "%s: bool is %u, allowed is 0 or 1", c->label, value);
}

static ig_status take_scalar(ig__gguf_entry *key, ig__gguf_cursor *c)
{
    char *bytes;
    const size_t n = ig__gguf_type_bytes(key->type);
    IG_TRY(take(&bytes, c, "value", n));
    key->bits = 0;
    memcpy(&key->bits, bytes, n);
    key->n = 1;
    if (key->type == IG__GGUF_BOOL)
        IG_TRY(check_bool(c, key->offset, (unsigned char)key->bits));
    return IG_OK;
}

static ig_status take_string(ig__gguf_entry *key, ig__gguf_cursor *c)
{
    uint64_t n;
    IG_TRY(take_u64(&n, c, "string length"));
    char *bytes = c->window + c->at;
    IG_TRY(skip(c, "string", n));
    key->n = (int64_t)n;
    if (c->keeps)
        key->data = settle_string(bytes, (size_t)n);
    return IG_OK;
}

static ig_status take_string_elements(ig__gguf_entry *key, ig__gguf_cursor *c)
{
    ig__gguf *gguf = c->gguf;
    ig__gguf_string *strings = c->keeps ? gguf->strings + gguf->n_strings : NULL;
    for (int64_t i = 0; i < key->n; i++) {
        uint64_t n;
        IG_TRY(take_u64(&n, c, "string length"));
        char *bytes = c->window + c->at;
        IG_TRY(skip(c, "string", n));
        if (strings)
            strings[i] = (ig__gguf_string){.bytes = bytes, .n = (size_t)n};
    }
    gguf->n_strings += key->n;
    key->data = strings;
    return IG_OK;
}

static ig_status check_bools(ig__gguf_cursor *c, int64_t count)
{
    const uint64_t offset = tell(c);
    for (int64_t i = 0; i < count; i++) {
        char *value;
        IG_TRY(take(&value, c, "bool", 1));
        IG_TRY(check_bool(c, offset + (uint64_t)i, (unsigned char)*value));
    }
    return IG_OK;
}

static ig_status take_scalar_elements(ig__gguf_entry *key, ig__gguf_cursor *c)
{
    const size_t size = ig__gguf_type_bytes(key->element);
    const size_t n_bytes = (size_t)key->n * size; /* <= bytes left: check_count */
    char *data = c->window + c->at;
    if (key->element == IG__GGUF_BOOL)
        IG_TRY(check_bools(c, key->n));
    else
        IG_TRY(skip(c, "array", n_bytes));
    _Static_assert(ARRAY_ALIGN_MAX <= 12, "an array moves down over its own header only");
    if (c->keeps)
        key->data = memmove(data - (uintptr_t)data % size, data, n_bytes);
    return IG_OK;
}

static ig_status take_array(ig__gguf_entry *key, ig__gguf_cursor *c)
{
    IG_TRY(take_type(&key->element, c, "element type"));
    if (key->element == IG__GGUF_ARRAY)
        return ig__gguf_fail(
            c->gguf, c->err, IG_ERR_UNSUPPORTED, tell(c) - 4,
            "%s: element type is %d (array), arrays of arrays are not read", c->label,
            IG__GGUF_ARRAY);
    uint64_t count;
    IG_TRY(take_u64(&count, c, "array count"));
    key->n = 0;
    const ig__gguf *gguf = c->gguf;
    if (key->element == IG__GGUF_STRING) {
        /* in the second pass, what the first has counted: the table has room for no more */
        const int64_t cap = c->keeps ? gguf->cap_strings : (int64_t)IG_GGUF_STRINGS_MAX;
        const uint64_t room = (uint64_t)(cap - gguf->n_strings);
        IG_TRY(check_count(c, "array count", count, STRING_HEADER, room));
        key->n = (int64_t)count;
        return take_string_elements(key, c);
    }
    const size_t size = ig__gguf_type_bytes(key->element);
    IG_TRY(check_count(c, "array count", count, size, IG_GGUF_META_MAX));
    key->n = (int64_t)count;
    return take_scalar_elements(key, c);
}

/* ---- keys ------------------------------------------------------------------------- */

static ig_status keep_alignment(const ig__gguf_entry *key, ig__gguf_cursor *c)
{
    if (key->type != IG__GGUF_U32)
        return ig__gguf_fail(c->gguf, c->err, IG_ERR_FORMAT, key->offset - 4,
                             "%s: value type is %d, wanted %d (u32)", c->label, key->type,
                             IG__GGUF_U32);
    const uint64_t n = key->bits;
    if (n < 8 || n > 65536 || (n & (n - 1)))
        return ig__gguf_fail(c->gguf, c->err, IG_ERR_FORMAT, key->offset,
                             "%s: value is %" PRIu64
                             ", allowed is a power of two from 8 to 65536",
                             c->label, n);
    c->gguf->alignment = (uint32_t)n;
    return IG_OK;
}

static ig_status take_key(ig__gguf_entry *key, ig__gguf_cursor *c, int64_t i)
{
    static const char alignment[] = "general.alignment";
    snprintf(c->label, sizeof c->label, "key %" PRId64, i);
    char *name;
    IG_TRY(take_name(&name, &key->n_name, c, "key", IG_GGUF_KEY_MAX));
    const bool is_alignment = key->n_name == sizeof alignment - 1 &&
                              memcmp(name, alignment, sizeof alignment - 1) == 0;
    if (c->keeps)
        key->name = settle_string(name, key->n_name);
    IG_TRY(take_type(&key->type, c, "value type"));
    key->element = key->type;
    key->offset = tell(c);
    switch (key->type) {
    case IG__GGUF_STRING:
        IG_TRY(take_string(key, c));
        break;
    case IG__GGUF_ARRAY:
        IG_TRY(take_array(key, c));
        break;
    default:
        IG_TRY(take_scalar(key, c));
    }
    return is_alignment ? keep_alignment(key, c) : IG_OK;
}

/* ---- tensors ---------------------------------------------------------------------- */

static ig_status take_dims(ig__gguf_tensor *t, ig__gguf_cursor *c, int64_t *elements_out)
{
    const uint64_t offset = tell(c);
    uint32_t n_dims;
    IG_TRY(take_u32(&n_dims, c, "dimension count"));
    if (n_dims < 1 || n_dims > 4)
        return ig__gguf_fail(c->gguf, c->err, IG_ERR_FORMAT, offset,
                             "%s: dimension count is %" PRIu32 ", allowed is 1 to 4",
                             c->label, n_dims);
    t->n_dims = (int)n_dims;
    int64_t elements = 1;
    for (int i = 0; i < 4; i++) {
        const int64_t before = elements;
        uint64_t dim = 1;
        if (i < t->n_dims)
            IG_TRY(take_u64(&dim, c, "dimension"));
        if (dim < 1 || dim > INT64_MAX || !ig__mul_i64(&elements, elements, (int64_t)dim))
            return ig__gguf_fail(
                c->gguf, c->err, IG_ERR_FORMAT, tell(c) - 8,
                "%s: dimension %d is %" PRIu64 ", allowed is 1 to %" PRId64 "%s", c->label,
                i, dim, INT64_MAX / before, i > 0 ? " behind those before it" : "");
        t->dims[i] = (int64_t)dim;
    }
    *elements_out = elements;
    return IG_OK;
}

/* dtype and bytes of a tensor whose dims are known; its type is at `offset`. */
static ig_status size_tensor(ig__gguf_tensor *t, const ig__gguf_cursor *c, uint64_t offset,
                             int64_t elements)
{
    ig__gguf_layout layout;
    t->dtype = IG_DTYPE_COUNT;
    t->bytes = 0;
    if (!ig__gguf_layout_of(&layout, t->file_type))
        return IG_OK;
    if (t->dims[0] % layout.block)
        return ig__gguf_fail(c->gguf, c->err, IG_ERR_FORMAT, offset,
                             "%s: type is %s, whose rows are multiples of %" PRId64
                             "; dimension 0 is %" PRId64,
                             c->label, layout.name, layout.block, t->dims[0]);
    size_t bytes;
    if (!ig__mul(&bytes, (size_t)(elements / layout.block), layout.block_bytes))
        return ig__gguf_fail(c->gguf, c->err, IG_ERR_FORMAT, offset,
                             "%s: %" PRId64 " elements of type %s pass %zu bytes", c->label,
                             elements, layout.name, SIZE_MAX);
    t->dtype = layout.dtype;
    t->bytes = bytes;
    return IG_OK;
}

/* Where the data begins is known only behind the last tensor, so the one that reaches
 * furthest is remembered and checked then. One of unknown size has at least a byte. */
static ig_status place_tensor(ig__gguf_tensor *t, ig__gguf_cursor *c, uint64_t value)
{
    const ig__gguf *gguf = c->gguf;
    const uint64_t offset = tell(c) - 8;
    if (value % gguf->alignment)
        return ig__gguf_fail(gguf, c->err, IG_ERR_FORMAT, offset,
                             "%s: offset is %" PRIu64 ", wanted is a multiple of %" PRIu32,
                             c->label, value, gguf->alignment);
    size_t end;
    if (!ig__add(&end, value, t->bytes ? t->bytes : 1))
        end = SIZE_MAX;
    if (end > c->furthest.end) {
        c->furthest.end = end;
        c->furthest.value = value;
        c->furthest.offset = offset;
        memcpy(c->furthest.label, c->label, sizeof c->label);
    }
    t->offset = gguf->data_offset + value; /* final in the second pass */
    return IG_OK;
}

static ig_status check_furthest(const ig__gguf_cursor *c, uint64_t data_offset)
{
    const ig__gguf *gguf = c->gguf;
    const uint64_t data_bytes =
        gguf->file_bytes > data_offset ? gguf->file_bytes - data_offset : 0;
    if (c->furthest.end <= data_bytes)
        return IG_OK;
    return ig__gguf_fail(gguf, c->err, IG_ERR_FORMAT, c->furthest.offset,
                         "%s: offset is %" PRIu64 " and its end %" PRIu64
                         ", the data in the file have %" PRIu64 " bytes",
                         c->furthest.label, c->furthest.value, c->furthest.end, data_bytes);
}

static ig_status take_tensor(ig__gguf_tensor *t, ig__gguf_cursor *c, int64_t i)
{
    snprintf(c->label, sizeof c->label, "tensor %" PRId64, i);
    t->entry = tell(c);
    char *name;
    size_t n_name;
    IG_TRY(take_name(&name, &n_name, c, "tensor", IG_GGUF_NAME_MAX));
    if (c->keeps)
        t->name = settle_string(name, n_name);
    int64_t elements = 0;
    IG_TRY(take_dims(t, c, &elements));
    const uint64_t type_offset = tell(c);
    IG_TRY(take_u32(&t->file_type, c, "type"));
    IG_TRY(size_tensor(t, c, type_offset, elements));
    uint64_t value;
    IG_TRY(take_u64(&value, c, "offset"));
    return place_tensor(t, c, value);
}

/* ---- the file --------------------------------------------------------------------- */

static ig_status take_magic(ig__gguf_cursor *c)
{
    char *m;
    IG_TRY(take(&m, c, "magic", 4));
    if (memcmp(m, "GGUF", 4) == 0)
        return IG_OK;
    char text[5] = {0};
    for (int i = 0; i < 4; i++)
        text[i] = (char)(m[i] > 32 && m[i] < 127 ? m[i] : '?');
    return ig__gguf_fail(c->gguf, c->err, IG_ERR_FORMAT, (uint64_t)0,
                         "magic is '%s' (%02x %02x %02x %02x), wanted 'GGUF'", text,
                         (unsigned char)m[0], (unsigned char)m[1], (unsigned char)m[2],
                         (unsigned char)m[3]);
}

static ig_status take_version(ig__gguf_cursor *c)
{
    uint32_t version;
    IG_TRY(take_u32(&version, c, "version"));
    if (version == 2 || version == 3)
        return IG_OK;
    const uint32_t swapped = __builtin_bswap32(version);
    return ig__gguf_fail(c->gguf, c->err, IG_ERR_UNSUPPORTED, (uint64_t)4,
                         "version is %" PRIu32 "%s, read are 2 and 3 (little endian)",
                         version,
                         swapped >= 1 && swapped <= 3 ? " (a big-endian file)" : "");
}

static ig_status take_count(int64_t *out, ig__gguf_cursor *c, const char *field,
                            size_t least_bytes, uint64_t most)
{
    uint64_t count;
    IG_TRY(take_u64(&count, c, field));
    IG_TRY(check_count(c, field, count, least_bytes, most));
    /* the tables of the second pass have the size that the first found */
    if (c->keeps && (int64_t)count != *out)
        return fail_changed(c);
    *out = (int64_t)count;
    return IG_OK;
}

ig_status ig__gguf_parse(ig__gguf_cursor *c)
{
    ig__gguf *gguf = c->gguf;
    gguf->alignment = 32;
    gguf->n_strings = 0;
    snprintf(c->label, sizeof c->label, "header");
    IG_TRY(take_magic(c));
    IG_TRY(take_version(c));
    IG_TRY(
        take_count(&gguf->n_tensors, c, "tensor count", LEAST_TENSOR, IG_GGUF_TENSORS_MAX));
    IG_TRY(take_count(&gguf->n_keys, c, "key count", LEAST_KEY, IG_GGUF_KEYS_MAX));
    for (int64_t i = 0; i < gguf->n_keys; i++) {
        ig__gguf_entry passing = {0};
        IG_TRY(take_key(c->keeps ? &gguf->keys[i] : &passing, c, i));
    }
    for (int64_t i = 0; i < gguf->n_tensors; i++) {
        ig__gguf_tensor passing = {0};
        IG_TRY(take_tensor(c->keeps ? &gguf->tensors[i] : &passing, c, i));
    }
    const uint64_t mask = gguf->alignment - 1;
    const uint64_t data_offset = (tell(c) + mask) & ~mask;
    if (c->keeps && (left(c) || data_offset != gguf->data_offset))
        return fail_changed(c);
    IG_TRY(check_furthest(c, data_offset));
    gguf->meta_bytes = tell(c);
    gguf->data_offset = data_offset;
    return IG_OK;
}
