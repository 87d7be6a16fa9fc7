/* The filters of templates that work on one value: text, numbers, JSON. One row each; the
 * table and those that work on sequences are in template_sequences.c.
 */
#include "text/template_filters.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- text ---- */

IG_TFILTER(string)
{
    const ig__tstr *s;
    (void)args;
    IG_TRY(ig__tto_string(r, &s, self));
    *out = ig__tstring(s);
    return IG_OK;
}

static ig_status recase(ig__trun *r, ig__tvalue *out, ig__tvalue self, ig__tcase how)
{
    const ig__tstr *s;
    IG_TRY(ig__tto_string(r, &s, self));
    return ig__tstr_recase(r, out, s, how);
}

IG_TFILTER(upper)
{
    (void)args;
    return recase(r, out, self, IG_TCASE_UPPER);
}

IG_TFILTER(lower)
{
    (void)args;
    return recase(r, out, self, IG_TCASE_LOWER);
}

IG_TFILTER(capitalize)
{
    (void)args;
    return recase(r, out, self, IG_TCASE_CAPITAL);
}

IG_TFILTER(title)
{
    (void)args;
    return recase(r, out, self, IG_TCASE_WORDS);
}

IG_TFILTER(trim)
{
    const ig__tstr *s, *chars = NULL;
    IG_TRY(ig__tto_string(r, &s, self));
    if (args->given[0] && args->arg[0].kind != IG_T_NONE)
        IG_TRY(ig__targ_string(r, &chars, "trim", args->arg[0]));
    return ig__tstr_strip(r, out, s, chars, 3);
}

IG_TFILTER(replace)
{
    const ig__tstr *s, *from, *to;
    int64_t max = -1;
    IG_TRY(ig__tto_string(r, &s, self));
    IG_TRY(ig__tto_string(r, &from, args->arg[0]));
    IG_TRY(ig__tto_string(r, &to, args->arg[1]));
    if (args->given[2] && args->arg[2].kind != IG_T_NONE)
        IG_TRY(ig__targ_int(r, &max, "replace", args->arg[2]));
    return ig__tstr_replace(r, out, s, from, to, max);
}

IG_TFILTER(escape)
{
    static const char codes[] = "&<>\"'";
    static const char *const names[] = {"&amp;", "&lt;", "&gt;", "&#34;", "&#39;"};
    const ig__tstr *s;
    ig__tout text = {.r = r};
    size_t from = 0;
    (void)args;
    IG_TRY(ig__tto_string(r, &s, self));
    for (size_t i = 0; i < s->n; i++) {
        const char *at = s->bytes[i] ? strchr(codes, s->bytes[i]) : NULL;
        if (!at)
            continue;
        const char *name = names[at - codes];
        IG_TRY(ig__tout_part(&text, s, from, i));
        IG_TRY(ig__tout_bytes(&text, name, strlen(name),
                              s->marks ? s->marks[i] != 0 : s->markup));
        from = i + 1;
    }
    IG_TRY(ig__tout_part(&text, s, from, s->n));
    return ig__tout_finish(&text, out);
}

/* One level of indentation: a number of blanks, or a string. */
static ig_status indentation(ig__trun *r, const ig__tstr **out, const char *call,
                             ig__tvalue v)
{
    int64_t n;
    ig__tvalue text;
    if (v.kind == IG_T_STRING) {
        *out = v.s;
        return IG_OK;
    }
    IG_TRY(ig__targ_int(r, &n, call, v));
    if (n > 1000)
        return ig__trun_fail(r, IG_ERR_LIMIT, "%s: %lld blanks, at most 1000", call,
                             (long long)n);
    const size_t width = n > 0 ? (size_t)n : 0;
    char *blanks = ig__trun_alloc(r, width);
    if (!blanks)
        return r->status;
    memset(blanks, ' ', width);
    IG_TRY(ig__tstr_make(r, &text, blanks, width, v.markup));
    *out = text.s;
    return IG_OK;
}

/* All lines but the first (and empty ones, unless `blank`) move to the right. */
IG_TFILTER(indent)
{
    const ig__tstr *s, *by;
    ig__tout text = {.r = r};
    IG_TRY(ig__tto_string(r, &s, self));
    IG_TRY(
        indentation(r, &by, "indent", args->given[0] ? args->arg[0] : ig__tint(4, true)));
    const bool first = ig__ttruth(args->arg[1]), blank = ig__ttruth(args->arg[2]);
    for (size_t at = 0, i_line = 0; at <= s->n; i_line++) {
        size_t end = at;
        while (end < s->n && s->bytes[end] != '\n')
            end++;
        if (i_line == 0 ? first : blank || end > at)
            IG_TRY(ig__tout_str(&text, by));
        IG_TRY(ig__tout_part(&text, s, at, end < s->n ? end + 1 : end));
        at = end + 1;
    }
    return ig__tout_finish(&text, out);
}

IG_TFILTER(wordcount)
{
    const ig__tstr *s;
    int64_t n = 0;
    (void)args;
    IG_TRY(ig__tto_string(r, &s, self));
    IG_TRY(ig__trun_step(r, s->n));
    for (size_t i = ig__tspace_start(s->bytes, s->n); i < s->n; n++) {
        uint32_t code;
        while (i < s->n && (i += ig__tutf8(s->bytes + i, s->n - i, &code),
                            i < s->n && !ig__tspace_start(s->bytes + i, s->n - i)))
            ;
        i += ig__tspace_start(s->bytes + i, s->n - i);
    }
    *out = ig__tint(n, self.markup);
    return IG_OK;
}

IG_TFILTER(tojson)
{
    ig__tjson_opts opts = {0};
    ig__tout text = {.r = r};
    if (args->given[0] && args->arg[0].kind != IG_T_NONE)
        IG_TRY(indentation(r, &opts.indent, "tojson", args->arg[0]));
    opts.ascii = ig__ttruth(args->arg[1]);
    opts.sort_keys = ig__ttruth(args->arg[2]);
    const ig__tvalue separators = args->arg[3];
    if (args->given[3] && separators.kind != IG_T_NONE) {
        if (!ig__tis_list(separators) || separators.list->n != 2)
            return ig__trun_fail(r, IG_ERR_FORMAT, "tojson: separators are two strings");
        IG_TRY(ig__targ_string(r, &opts.item, "tojson", separators.list->items[0]));
        IG_TRY(ig__targ_string(r, &opts.key, "tojson", separators.list->items[1]));
    }
    IG_TRY(ig__tout_json(&text, self, &opts));
    return ig__tout_finish(&text, out);
}

/* ---- numbers ---- */

/* A number out of text, in any locale: blanks, sign, digits with a point and an exponent.
 * False: something else stands there. */
static bool read_number(const ig__tstr *s, char digits[64], int *exponent, bool *is_whole)
{
    const size_t from = ig__tspace_start(s->bytes, s->n);
    const size_t to = from + ig__tspace_end(s->bytes + from, s->n - from);
    size_t i = from, n = 0, n_digits = 0;
    *exponent = 0;
    *is_whole = true;
    if (i < to && (s->bytes[i] == '-' || s->bytes[i] == '+'))
        digits[n++] = s->bytes[i++];
    for (bool point = false; i < to && n < 40; i++) {
        const char c = s->bytes[i];
        if (c == '.' && !point) {
            point = true;
            *is_whole = false;
        } else if (c >= '0' && c <= '9') {
            digits[n++] = c;
            n_digits++;
            *exponent -= point;
        } else {
            break;
        }
    }
    digits[n] = 0;
    if (i < to && (s->bytes[i] | 32) == 'e' && n_digits) {
        char power[8] = {0};
        const size_t len = to - i - 1;
        if (len == 0 || len >= sizeof power)
            return false;
        memcpy(power, s->bytes + i + 1, len);
        char *end;
        *exponent += (int)strtol(power, &end, 10);
        *is_whole = false;
        i = end == power + len ? to : i;
    }
    return n_digits && i == to;
}

static bool text_to_float(const ig__tstr *s, double *out)
{
    char text[80];
    int exponent;
    bool whole;
    if (!read_number(s, text, &exponent, &whole))
        return false;
    size_t n = strlen(text);
    text[n++] = 'e';
    int e = exponent;
    if (e < 0)
        text[n++] = '-', e = -e;
    for (int place = 100000; place; place /= 10)
        text[n++] = (char)('0' + e / place % 10);
    text[n] = 0;
    *out = strtod(text, NULL);
    return true;
}

IG_TFILTER(int)
{
    char digits[64];
    int exponent;
    bool whole = false;
    double f = 0;
    const ig__tvalue absent = args->given[0] ? args->arg[0] : ig__tint(0, true);
    (void)r;
    if (self.kind == IG_T_STRING && read_number(self.s, digits, &exponent, &whole) &&
        whole) {
        char *end;
        *out = ig__tint(strtoll(digits, &end, 10), self.markup);
        if (out->i != INT64_MAX && out->i != INT64_MIN)
            return IG_OK;
    }
    if (self.kind == IG_T_INT || self.kind == IG_T_BOOL) {
        *out = ig__tint(ig__twhole(self), self.markup);
        return IG_OK;
    }
    bool ok = self.kind == IG_T_FLOAT;
    if (ok)
        f = self.f;
    else if (self.kind == IG_T_STRING)
        ok = text_to_float(self.s, &f);
    *out = absent;
    if (ok && f > -9e18 && f < 9e18)
        *out = ig__tint((int64_t)f, self.markup);
    return IG_OK;
}

IG_TFILTER(float)
{
    double f = 0;
    (void)r;
    bool ok = ig__tis_number(self);
    if (ok)
        f = ig__tnumber(self);
    else if (self.kind == IG_T_STRING)
        ok = text_to_float(self.s, &f);
    *out = ok               ? ig__tfloat(f, self.markup)
           : args->given[0] ? args->arg[0]
                            : ig__tfloat(0, true);
    return IG_OK;
}

static ig_status want_number(ig__trun *r, const char *call, ig__tvalue v)
{
    if (ig__tis_number(v))
        return IG_OK;
    if (v.kind == IG_T_UNDEFINED)
        return ig__trun_undefined(r, v);
    return ig__trun_fail(r, IG_ERR_FORMAT, "%s wants a number, found %s", call,
                         ig__tkind_name(v));
}

IG_TFILTER(abs)
{
    (void)args;
    IG_TRY(want_number(r, "abs", self));
    if (self.kind == IG_T_FLOAT) {
        *out = ig__tfloat(fabs(self.f), self.markup);
        return IG_OK;
    }
    const int64_t i = ig__twhole(self);
    if (i == INT64_MIN)
        return ig__trun_fail(r, IG_ERR_LIMIT, "a whole number passes 64 bits");
    *out = ig__tint(i < 0 ? -i : i, self.markup);
    return IG_OK;
}

/* To even at a tie for "common", as Python rounds; a float in every case, as Jinja's. */
IG_TFILTER(round)
{
    int64_t places = 0;
    IG_TRY(want_number(r, "round", self));
    if (args->given[0])
        IG_TRY(ig__targ_int(r, &places, "round", args->arg[0]));
    if (places < -300 || places > 300)
        return ig__trun_fail(r, IG_ERR_LIMIT, "round: %lld places", (long long)places);
    const double scale = pow(10, (double)places), x = ig__tnumber(self) * scale;
    double y = nearbyint(x);
    if (args->given[1]) {
        const ig__tstr *how;
        IG_TRY(ig__targ_string(r, &how, "round", args->arg[1]));
        if (ig__tstr_is(how, "ceil"))
            y = ceil(x);
        else if (ig__tstr_is(how, "floor"))
            y = floor(x);
        else if (!ig__tstr_is(how, "common"))
            return ig__trun_fail(r, IG_ERR_FORMAT,
                                 "round: the method is common, ceil or floor");
    }
    *out = ig__tfloat(isfinite(x) ? y / scale : ig__tnumber(self), self.markup);
    return IG_OK;
}

/* ---- any value ---- */

IG_TFILTER(default)
{
    (void)r;
    const bool missing =
        self.kind == IG_T_UNDEFINED || (ig__ttruth(args->arg[1]) && !ig__ttruth(self));
    *out = self;
    if (missing && args->given[0])
        *out = args->arg[0];
    else if (missing)
        return ig__tstr_make(r, out, "", 0, true);
    return IG_OK;
}

IG_TFILTER(safe)
{
    (void)r, (void)args;
    *out = self;
    return IG_OK;
}

IG_TFILTER(length)
{
    size_t n;
    (void)args;
    if (self.kind == IG_T_STRING)
        n = ig__tstr_length(self.s);
    else if (ig__tis_list(self))
        n = self.list->n;
    else if (self.kind == IG_T_DICT)
        n = self.dict->n;
    else if (self.kind == IG_T_UNDEFINED)
        n = 0;
    else
        return ig__trun_fail(r, IG_ERR_FORMAT, "a value of type %s has no length",
                             ig__tkind_name(self));
    *out = ig__tint((int64_t)n, self.markup);
    return self.kind == IG_T_STRING ? ig__trun_step(r, self.s->n) : IG_OK;
}

IG_TFILTER(attr)
{
    char name[128];
    const ig__tstr *s;
    IG_TRY(ig__targ_string(r, &s, "attr", args->arg[0]));
    if (s->n >= sizeof name)
        return IG_OK;
    memcpy(name, s->bytes, s->n);
    name[s->n] = 0;
    return ig__tget_attr(r, out, self, name);
}
