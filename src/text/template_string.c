/* The strings of chat templates: immutable, each byte marked as the template's own or as
 * data. Cutting shares bytes; concatenation appends in place where it can.
 */
#include "text/template_int.h"

#include <string.h>

size_t ig__tutf8(const char *p, size_t n, uint32_t *code_out)
{
    const unsigned char c = (unsigned char)p[0];
    *code_out = c;
    const size_t len = c >= 0xF0 && c < 0xF8 ? 4 : c >= 0xE0 ? 3 : c >= 0xC0 ? 2 : 1;
    if (len == 1 || len > n || c >= 0xF8)
        return 1;
    uint32_t code = c & (0x7Fu >> len);
    for (size_t i = 1; i < len; i++) {
        if (((unsigned char)p[i] & 0xC0) != 0x80)
            return 1;
        code = code << 6 | ((unsigned char)p[i] & 0x3F);
    }
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    if (code < least[len] || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000))
        return 1;
    *code_out = code;
    return len;
}

size_t ig__tutf8_write(char out[4], uint32_t code)
{
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    const size_t len = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = len - 1; i > 0; i--, code >>= 6)
        out[i] = (char)(0x80 | (code & 0x3F));
    out[0] = (char)((0xF00u >> len & 0xFF) | code);
    return len;
}

void ig__tutf8_clean(char *text)
{
    size_t n = strlen(text);
    while (n) {
        uint32_t code;
        const size_t len = ig__tutf8(text, n, &code);
        if (len == 1 && code >= 0x80)
            *text = '?';
        text += len;
        n -= len;
    }
}

bool ig__tis_space(uint32_t c)
{
    return (c >= 9 && c <= 13) || (c >= 28 && c <= 32) || c == 0x85 || c == 0xA0 ||
           c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 ||
           c == 0x202F || c == 0x205F || c == 0x3000;
}

size_t ig__tspace_start(const char *p, size_t n)
{
    size_t i = 0;
    while (i < n) {
        uint32_t code;
        const size_t len = ig__tutf8(p + i, n - i, &code);
        if (!ig__tis_space(code))
            break;
        i += len;
    }
    return i;
}

/* Where the character that ends at p[n), n >= 1, begins. */
static size_t last_char(const char *p, size_t n, uint32_t *code_out)
{
    for (size_t len = 1; len <= 4 && len <= n; len++)
        if (((unsigned char)p[n - len] & 0xC0) != 0x80 &&
            ig__tutf8(p + n - len, len, code_out) == len)
            return n - len;
    *code_out = (unsigned char)p[n - 1];
    return n - 1;
}

size_t ig__tspace_end(const char *p, size_t n)
{
    while (n) {
        uint32_t code;
        const size_t at = last_char(p, n, &code);
        if (!ig__tis_space(code))
            break;
        n = at;
    }
    return n;
}

ig_status ig__tstr_make(ig__trun *r, ig__tvalue *out, const char *bytes, size_t n,
                        bool markup)
{
    ig__tstr *s = ig__trun_alloc(r, sizeof *s);
    if (!s)
        return r->status;
    *s = (ig__tstr){.bytes = bytes, .n = n, .markup = markup};
    *out = ig__tstring(s);
    return IG_OK;
}

ig_status ig__tstr_cut(ig__trun *r, ig__tvalue *out, const ig__tstr *s, size_t from,
                       size_t to)
{
    if (from == 0 && to == s->n) {
        *out = ig__tstring(s);
        return IG_OK;
    }
    ig__tstr *cut = ig__trun_alloc(r, sizeof *cut);
    if (!cut)
        return r->status;
    *cut = *s;
    cut->bytes += from;
    cut->n = to - from;
    if (cut->marks)
        cut->marks += from;
    *out = ig__tstring(cut);
    return IG_OK;
}

static bool is_uniform(const ig__tstr *s, bool markup)
{
    return s->n == 0 || (!s->marks && s->markup == markup);
}

static void copy_marks(uint8_t *to, const ig__tstr *s)
{
    if (s->marks)
        memcpy(to, s->marks, s->n);
    else
        memset(to, s->markup, s->n);
}

/* A backing that holds `s` and has room for as much again. */
static ig__tstr_back *make_back(ig__trun *r, const ig__tstr *s, size_t n, bool uniform,
                                bool markup)
{
    ig__tstr_back *back = ig__trun_alloc(r, sizeof *back);
    if (!back)
        return NULL;
    const size_t cap = n * 2 > 64 ? n * 2 : 64;
    *back = (ig__tstr_back){.cap = cap, .used = s->n, .markup = markup};
    back->bytes = ig__trun_alloc(r, cap);
    if (!uniform)
        back->marks = ig__trun_alloc(r, cap);
    if (!back->bytes || (!uniform && !back->marks))
        return NULL;
    memcpy(back->bytes, s->bytes, s->n);
    if (back->marks)
        copy_marks(back->marks, s);
    return back;
}

static bool can_append(const ig__tstr *a, const ig__tstr *b)
{
    const ig__tstr_back *back = a->back;
    return back && a->bytes + a->n == back->bytes + back->used &&
           back->cap - back->used >= b->n && (back->marks || is_uniform(b, back->markup));
}

ig_status ig__tstr_concat(ig__trun *r, ig__tvalue *out, const ig__tstr *a,
                          const ig__tstr *b)
{
    if (a->n == 0 || b->n == 0) {
        *out = ig__tstring(a->n ? a : b);
        return IG_OK;
    }
    if (b->n > IG_TMAX_TEXT - a->n)
        return ig__trun_fail(r, IG_ERR_LIMIT, "a string would pass %zu bytes",
                             IG_TMAX_TEXT);
    ig__tstr *s = ig__trun_alloc(r, sizeof *s);
    if (!s)
        return r->status;
    *s = *a;
    if (!can_append(a, b)) {
        const bool markup = a->markup && !a->marks;
        s->back =
            make_back(r, a, a->n + b->n, !a->marks && is_uniform(b, a->markup), markup);
        if (!s->back)
            return r->status;
        s->bytes = s->back->bytes;
        s->markup = markup;
        IG_TRY(ig__trun_step(r, a->n));
    }
    ig__tstr_back *back = s->back;
    memcpy(back->bytes + back->used, b->bytes, b->n);
    if (back->marks)
        copy_marks(back->marks + back->used, b);
    s->marks = back->marks ? back->marks + (s->bytes - back->bytes) : NULL;
    back->used += b->n;
    s->n += b->n;
    *out = ig__tstring(s);
    return ig__trun_step(r, b->n);
}

size_t ig__tstr_length(const ig__tstr *s)
{
    size_t n = 0;
    for (size_t i = 0; i < s->n; i++)
        n += ((unsigned char)s->bytes[i] & 0xC0) != 0x80;
    return n;
}

size_t ig__tstr_offset(const ig__tstr *s, size_t i)
{
    size_t at = 0;
    while (at < s->n) {
        if (((unsigned char)s->bytes[at] & 0xC0) != 0x80 && i-- == 0)
            return at;
        at++;
    }
    return s->n;
}

bool ig__tstr_is(const ig__tstr *s, const char *text)
{
    return s->n == strlen(text) && memcmp(s->bytes, text, s->n) == 0;
}

size_t ig__tstr_find(const ig__tstr *s, const ig__tstr *what, size_t from)
{
    if (from > s->n || what->n > s->n - from)
        return SIZE_MAX;
    if (what->n == 0)
        return from;
    const char *p = memmem(s->bytes + from, s->n - from, what->bytes, what->n);
    return p ? (size_t)(p - s->bytes) : SIZE_MAX;
}

ig_status ig__tstr_strip(ig__trun *r, ig__tvalue *out, const ig__tstr *s,
                         const ig__tstr *chars, int sides)
{
    size_t from = 0, to = s->n;
    IG_TRY(ig__trun_step(r, s->n * (chars ? chars->n : 1)));
    while ((sides & 1) && from < to) {
        uint32_t code;
        const size_t len = ig__tutf8(s->bytes + from, to - from, &code);
        if (chars ? !memmem(chars->bytes, chars->n, s->bytes + from, len)
                  : !ig__tis_space(code))
            break;
        from += len;
    }
    while ((sides & 2) && from < to) {
        uint32_t code;
        const size_t at = from + last_char(s->bytes + from, to - from, &code);
        if (chars ? !memmem(chars->bytes, chars->n, s->bytes + at, to - at)
                  : !ig__tis_space(code))
            break;
        to = at;
    }
    return ig__tstr_cut(r, out, s, from, to);
}

ig_status ig__tstr_replace(ig__trun *r, ig__tvalue *out, const ig__tstr *s,
                           const ig__tstr *from, const ig__tstr *to, int64_t max)
{
    ig__tout o = {.r = r};
    size_t at = 0;
    IG_TRY(ig__trun_step(r, s->n));
    while (max != 0) {
        size_t hit = ig__tstr_find(s, from, at);
        if (hit == SIZE_MAX)
            break;
        IG_TRY(ig__trun_step(r, to->n));
        if (from->n == 0) { /* between all characters, as Python does */
            IG_TRY(ig__tout_str(&o, to));
            if (at == s->n)
                return ig__tout_finish(&o, out);
            uint32_t code;
            hit = at + ig__tutf8(s->bytes + at, s->n - at, &code);
            IG_TRY(ig__tout_part(&o, s, at, hit));
        } else {
            IG_TRY(ig__tout_part(&o, s, at, hit));
            IG_TRY(ig__tout_str(&o, to));
        }
        at = hit + from->n;
        max -= max > 0;
    }
    if (at == 0) {
        *out = ig__tstring(s);
        return IG_OK;
    }
    IG_TRY(ig__tout_part(&o, s, at, s->n));
    return ig__tout_finish(&o, out);
}

/* Letters of which both cases are two bytes (or one): Latin-1, Latin Extended-A, Greek and
 * Cyrillic. All other characters stay. */
static uint32_t to_upper(uint32_t c)
{
    if ((c >= 'a' && c <= 'z') || (c >= 0xE0 && c <= 0xFE && c != 0xF7))
        return c - 32;
    if ((c >= 0x100 && c < 0x130) || (c >= 0x132 && c < 0x138) || (c >= 0x14A && c < 0x178))
        return c & ~1u;
    if ((c >= 0x139 && c < 0x149) || (c >= 0x179 && c < 0x17F))
        return c & 1 ? c : c - 1;
    if ((c >= 0x3B1 && c <= 0x3CB && c != 0x3C2) || (c >= 0x430 && c <= 0x44F))
        return c - 32;
    return c >= 0x450 && c <= 0x45F ? c - 80 : c;
}

static uint32_t to_lower(uint32_t c)
{
    if ((c >= 'A' && c <= 'Z') || (c >= 0xC0 && c <= 0xDE && c != 0xD7))
        return c + 32;
    if ((c >= 0x100 && c < 0x130) || (c >= 0x132 && c < 0x138) || (c >= 0x14A && c < 0x178))
        return c | 1;
    if ((c >= 0x139 && c < 0x149) || (c >= 0x179 && c < 0x17F))
        return c & 1 ? c + 1 : c;
    if ((c >= 0x391 && c <= 0x3AB && c != 0x3A2) || (c >= 0x410 && c <= 0x42F))
        return c + 32;
    return c >= 0x400 && c <= 0x40F ? c + 80 : c;
}

static bool is_letter(uint32_t c)
{
    return to_upper(c) != to_lower(c) || (c >= 0x80 && !ig__tis_space(c));
}

/* Does the next letter begin a word, when `c` stood before? */
static bool ends_word(uint32_t c, ig__tcase how)
{
    if (how == IG_TCASE_TITLE)
        return !is_letter(c);
    return ig__tis_space(c) || c == '-' || c == '(' || c == '[' || c == '{' || c == '<';
}

ig_status ig__tstr_recase(ig__trun *r, ig__tvalue *out, const ig__tstr *s, ig__tcase how)
{
    char *bytes = ig__trun_alloc(r, s->n);
    ig__tstr *cased = ig__trun_alloc(r, sizeof *cased);
    if (!bytes || !cased)
        return r->status;
    bool first = true; /* of a word, or of the text */
    for (size_t i = 0; i < s->n;) {
        uint32_t code;
        char to[4];
        const size_t len = ig__tutf8(s->bytes + i, s->n - i, &code);
        const bool up = how == IG_TCASE_UPPER || (how != IG_TCASE_LOWER && first);
        const uint32_t mapped = up ? to_upper(code) : to_lower(code);
        if (mapped != code && ig__tutf8_write(to, mapped) == len)
            memcpy(bytes + i, to, len);
        else
            memcpy(bytes + i, s->bytes + i, len);
        first = how >= IG_TCASE_TITLE && ends_word(code, how);
        i += len;
    }
    *cased = *s;
    cased->bytes = bytes;
    cased->back = NULL;
    *out = ig__tstring(cased);
    return ig__trun_step(r, s->n);
}
