/* Template values as text: str(), repr() and JSON as Python writes them, byte by byte, each
 * piece with the mark of the value that it comes from.
 */
#include "text/template_int.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static ig_status out_reserve(ig__tout *o, size_t n)
{
    if (n > IG_TMAX_TEXT - o->n)
        return ig__trun_fail(o->r, IG_ERR_LIMIT, "a text would pass %zu bytes",
                             IG_TMAX_TEXT);
    if (o->n + n <= o->cap)
        return IG_OK;
    size_t cap = o->cap ? o->cap * 2 : 128;
    if (cap < o->n + n)
        cap = o->n + n;
    char *bytes = ig__trun_alloc(o->r, cap);
    uint8_t *marks = ig__trun_alloc(o->r, cap);
    if (!bytes || !marks)
        return o->r->status;
    if (o->n) {
        memcpy(bytes, o->bytes, o->n);
        memcpy(marks, o->marks, o->n);
    }
    o->bytes = bytes;
    o->marks = marks;
    o->cap = cap;
    return IG_OK;
}

ig_status ig__tout_bytes(ig__tout *o, const char *bytes, size_t n, bool markup)
{
    if (n == 0)
        return IG_OK;
    IG_TRY(out_reserve(o, n));
    memcpy(o->bytes + o->n, bytes, n);
    memset(o->marks + o->n, markup, n);
    o->n += n;
    o->has_markup |= markup;
    o->has_data |= !markup;
    return ig__trun_step(o->r, n);
}

ig_status ig__tout_part(ig__tout *o, const ig__tstr *s, size_t from, size_t to)
{
    if (!s->marks || from == to)
        return ig__tout_bytes(o, s->bytes + from, to - from, s->markup);
    const size_t at = o->n;
    IG_TRY(ig__tout_bytes(o, s->bytes + from, to - from, true));
    memcpy(o->marks + at, s->marks + from, to - from);
    o->has_data = true; /* maybe: then the marks are kept for nothing */
    return IG_OK;
}

ig_status ig__tout_str(ig__tout *o, const ig__tstr *s)
{
    return ig__tout_part(o, s, 0, s->n);
}

ig_status ig__tout_finish(ig__tout *o, ig__tvalue *out)
{
    IG_TRY(ig__tstr_make(o->r, out, o->n ? o->bytes : "", o->n, !o->has_data));
    if (o->has_data && o->has_markup)
        ((ig__tstr *)(uintptr_t)out->s)->marks = o->marks; /* just made, not yet shared */
    out->markup = !o->has_data;
    return IG_OK;
}

static ig_status out_text(ig__tout *o, const char *text, bool markup)
{
    return ig__tout_bytes(o, text, strlen(text), markup);
}

/* ---- numbers ---- */

/* The shortest digits that read back as f: sign, digits (no point), and the power of ten
 * of the first. Only characters that no locale changes are used. */
static int shortest(double f, char digits[24])
{
    char text[40];
    for (int precision = 0; precision < 17; precision++) {
        snprintf(text, sizeof text, "%.*e", precision, f);
        if (strtod(text, NULL) == f)
            break;
    }
    const char *e = strchr(text, 'e');
    size_t n = 0;
    for (const char *c = text; c < e; c++)
        if (*c >= '0' && *c <= '9')
            digits[n++] = *c;
    while (n > 1 && digits[n - 1] == '0')
        n--;
    digits[n] = 0;
    return e ? (int)strtol(e + 1, NULL, 10) : 0;
}

/* As Python's repr: 0.1, 1e+16, 1.5e-05, nan. */
static ig_status out_float(ig__tout *o, double f, bool markup, bool json)
{
    if (isnan(f))
        return out_text(o, json ? "NaN" : "nan", markup);
    if (isinf(f))
        return out_text(o,
                        json    ? (f < 0 ? "-Infinity" : "Infinity")
                        : f < 0 ? "-inf"
                                : "inf",
                        markup);
    char digits[24], text[64];
    const int power = shortest(fabs(f), digits);
    const int n = (int)strlen(digits);
    const char *sign = signbit(f) ? "-" : "";
    if (power < -4 || power >= 16)
        snprintf(text, sizeof text, "%s%c%s%s%se%c%02d", sign, digits[0], n > 1 ? "." : "",
                 digits + 1, "", power < 0 ? '-' : '+', abs(power));
    else if (power < 0)
        snprintf(text, sizeof text, "%s0.%.*s%s", sign, -power - 1, "0000", digits);
    else if (n <= power + 1)
        snprintf(text, sizeof text, "%s%s%.*s.0", sign, digits, power + 1 - n,
                 "0000000000000000");
    else
        snprintf(text, sizeof text, "%s%.*s.%s", sign, power + 1, digits,
                 digits + power + 1);
    return out_text(o, text, markup);
}

static ig_status out_scalar(ig__tout *o, ig__tvalue v)
{
    char text[32];
    switch ((ig__tkind)v.kind) {
    case IG_T_UNDEFINED:
        return IG_OK;
    case IG_T_NONE:
        return out_text(o, "None", v.markup);
    case IG_T_BOOL:
        return out_text(o, v.b ? "True" : "False", v.markup);
    case IG_T_INT:
        snprintf(text, sizeof text, "%lld", (long long)v.i);
        return out_text(o, text, v.markup);
    case IG_T_FLOAT:
        return out_float(o, v.f, v.markup, false);
    default:
        return ig__trun_fail(o->r, IG_ERR_FORMAT, "a value of type %s has no text",
                             ig__tkind_name(v));
    }
}

/* ---- str and repr ---- */

static ig_status out_repr_string(ig__tout *o, const ig__tstr *s)
{
    const bool has_single = s->n && memchr(s->bytes, '\'', s->n);
    const bool has_double = s->n && memchr(s->bytes, '"', s->n);
    const char quote = has_single && !has_double ? '"' : '\'';
    const bool markup = s->markup && !s->marks;
    IG_TRY(ig__tout_bytes(o, &quote, 1, markup));
    size_t from = 0;
    for (size_t i = 0; i <= s->n; i++) {
        const unsigned char c = i < s->n ? (unsigned char)s->bytes[i] : 0;
        if (i < s->n && c >= 32 && c != 127 && c != '\\' && c != (unsigned char)quote)
            continue;
        IG_TRY(ig__tout_part(o, s, from, i));
        from = i + 1;
        if (i == s->n)
            break;
        char text[8];
        const char *letter = strchr("\nn\rr\tt", c);
        if (letter && c)
            snprintf(text, sizeof text, "\\%c", letter[1]);
        else if (c == '\\' || c == (unsigned char)quote)
            snprintf(text, sizeof text, "\\%c", c);
        else
            snprintf(text, sizeof text, "\\x%02x", c);
        IG_TRY(out_text(o, text, s->marks ? s->marks[i] != 0 : s->markup));
    }
    return ig__tout_bytes(o, &quote, 1, markup);
}

static ig_status out_repr(ig__tout *o, ig__tvalue v, int depth);

static ig_status out_repr_list(ig__tout *o, ig__tvalue v, int depth)
{
    const bool tuple = v.kind == IG_T_TUPLE;
    IG_TRY(out_text(o, tuple ? "(" : "[", v.markup));
    for (size_t i = 0; i < v.list->n; i++) {
        if (i)
            IG_TRY(out_text(o, ", ", v.markup));
        IG_TRY(out_repr(o, v.list->items[i], depth + 1));
    }
    return out_text(o, tuple ? (v.list->n == 1 ? ",)" : ")") : "]", v.markup);
}

static ig_status out_repr_dict(ig__tout *o, ig__tvalue v, int depth)
{
    IG_TRY(out_text(o, "{", v.markup));
    for (size_t i = 0; i < v.dict->n; i++) {
        if (i)
            IG_TRY(out_text(o, ", ", v.markup));
        IG_TRY(out_repr(o, v.dict->entries[i].key, depth + 1));
        IG_TRY(out_text(o, ": ", v.markup));
        IG_TRY(out_repr(o, v.dict->entries[i].value, depth + 1));
    }
    return out_text(o, "}", v.markup);
}

static ig_status out_repr(ig__tout *o, ig__tvalue v, int depth)
{
    IG_TRY(ig__trun_step(o->r, 0));
    if (depth > IG_TMAX_NEST)
        return ig__trun_fail(o->r, IG_ERR_LIMIT, "text of values that nest deeper than %d",
                             IG_TMAX_NEST);
    switch ((ig__tkind)v.kind) {
    case IG_T_STRING:
        return out_repr_string(o, v.s);
    case IG_T_LIST:
    case IG_T_TUPLE:
        return out_repr_list(o, v, depth);
    case IG_T_DICT:
        return out_repr_dict(o, v, depth);
    case IG_T_UNDEFINED:
        return out_text(o, "Undefined", true);
    default:
        return out_scalar(o, v);
    }
}

ig_status ig__tout_value(ig__tout *o, ig__tvalue v)
{
    if (v.kind == IG_T_STRING)
        return ig__tout_str(o, v.s);
    if (ig__tis_list(v) || v.kind == IG_T_DICT)
        return out_repr(o, v, 0);
    return out_scalar(o, v);
}

ig_status ig__tto_string(ig__trun *r, const ig__tstr **out, ig__tvalue v)
{
    if (v.kind != IG_T_STRING) {
        ig__tout o = {.r = r};
        IG_TRY(ig__tout_value(&o, v));
        IG_TRY(ig__tout_finish(&o, &v));
    }
    *out = v.s;
    return IG_OK;
}

/* ---- JSON ---- */

typedef struct json_writer {
    ig__tout *o;
    const ig__tjson_opts *opts;
} json_writer;

/* The escape of a character, or an empty text where it stands for itself. */
static void json_escape(char text[16], uint32_t code, bool ascii)
{
    static const char codes[] = "\"\\\n\r\t\b\f", letters[] = "\"\\nrtbf";
    const char *at = code && code < 128 ? strchr(codes, (int)code) : NULL;
    text[0] = 0;
    if (at)
        snprintf(text, 16, "\\%c", letters[at - codes]);
    else if (code < 32 || (ascii && code >= 127 && code < 0x10000))
        snprintf(text, 16, "\\u%04x", code);
    else if (ascii && code >= 0x10000)
        snprintf(text, 16, "\\u%04x\\u%04x", 0xD800 + ((code - 0x10000) >> 10),
                 0xDC00 + ((code - 0x10000) & 0x3FF));
}

static ig_status json_string(const json_writer *w, const ig__tstr *s)
{
    const bool markup = s->markup && !s->marks;
    IG_TRY(out_text(w->o, "\"", markup));
    size_t from = 0, i = 0;
    while (i < s->n) {
        uint32_t code;
        char text[16];
        const size_t len = ig__tutf8(s->bytes + i, s->n - i, &code);
        json_escape(text, code, w->opts->ascii);
        if (text[0]) {
            IG_TRY(ig__tout_part(w->o, s, from, i));
            IG_TRY(out_text(w->o, text, s->marks ? s->marks[i] != 0 : s->markup));
            from = i + len;
        }
        i += len;
    }
    IG_TRY(ig__tout_part(w->o, s, from, s->n));
    return out_text(w->o, "\"", markup);
}

static ig_status json_break(const json_writer *w, int depth, bool markup)
{
    if (!w->opts->indent)
        return IG_OK;
    IG_TRY(out_text(w->o, "\n", markup));
    for (int i = 0; i < depth; i++)
        IG_TRY(ig__tout_str(w->o, w->opts->indent));
    return IG_OK;
}

static ig_status json_separator(const json_writer *w, const ig__tstr *s, const char *text,
                                bool markup)
{
    return s ? ig__tout_str(w->o, s) : out_text(w->o, text, markup);
}

static ig_status json_value(const json_writer *w, ig__tvalue v, int depth);

static ig_status json_list(const json_writer *w, ig__tvalue v, int depth)
{
    if (v.list->n == 0)
        return out_text(w->o, "[]", v.markup);
    IG_TRY(out_text(w->o, "[", v.markup));
    for (size_t i = 0; i < v.list->n; i++) {
        if (i)
            IG_TRY(
                json_separator(w, w->opts->item, w->opts->indent ? "," : ", ", v.markup));
        IG_TRY(json_break(w, depth + 1, v.markup));
        IG_TRY(json_value(w, v.list->items[i], depth + 1));
    }
    IG_TRY(json_break(w, depth, v.markup));
    return out_text(w->o, "]", v.markup);
}

static ig_status json_key(const json_writer *w, ig__tvalue key)
{
    if (key.kind == IG_T_STRING)
        return json_string(w, key.s);
    IG_TRY(out_text(w->o, "\"", key.markup));
    IG_TRY(json_value(w, key, 0));
    return out_text(w->o, "\"", key.markup);
}

static ig_status json_dict(const json_writer *w, ig__tvalue v, int depth)
{
    if (v.dict->n == 0)
        return out_text(w->o, "{}", v.markup);
    IG_TRY(out_text(w->o, "{", v.markup));
    for (size_t i = 0; i < v.dict->n; i++) {
        const size_t at = w->opts->sort_keys ? v.dict->order[i] : i;
        if (i)
            IG_TRY(
                json_separator(w, w->opts->item, w->opts->indent ? "," : ", ", v.markup));
        IG_TRY(json_break(w, depth + 1, v.markup));
        IG_TRY(json_key(w, v.dict->entries[at].key));
        IG_TRY(json_separator(w, w->opts->key, ": ", v.markup));
        IG_TRY(json_value(w, v.dict->entries[at].value, depth + 1));
    }
    IG_TRY(json_break(w, depth, v.markup));
    return out_text(w->o, "}", v.markup);
}

static ig_status json_value(const json_writer *w, ig__tvalue v, int depth)
{
    IG_TRY(ig__trun_step(w->o->r, 0));
    if (depth > IG_TMAX_NEST)
        return ig__trun_fail(w->o->r, IG_ERR_LIMIT, "tojson: values nest deeper than %d",
                             IG_TMAX_NEST);
    switch ((ig__tkind)v.kind) {
    case IG_T_NONE:
        return out_text(w->o, "null", v.markup);
    case IG_T_BOOL:
        return out_text(w->o, v.b ? "true" : "false", v.markup);
    case IG_T_INT:
        return out_scalar(w->o, v);
    case IG_T_FLOAT:
        return out_float(w->o, v.f, v.markup, true);
    case IG_T_STRING:
        return json_string(w, v.s);
    case IG_T_LIST:
    case IG_T_TUPLE:
        return json_list(w, v, depth);
    case IG_T_DICT:
        return json_dict(w, v, depth);
    default:
        return ig__trun_fail(w->o->r, IG_ERR_FORMAT,
                             "tojson: a value of type %s has no JSON", ig__tkind_name(v));
    }
}

ig_status ig__tout_json(ig__tout *o, ig__tvalue v, const ig__tjson_opts *opts)
{
    const json_writer w = {o, opts};
    return json_value(&w, v, 0);
}
