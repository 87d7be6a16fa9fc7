/* The methods of strings, lists, dicts and loops, one row each. */
#include "text/template_int.h"

#include <string.h>

#define METHOD(name)                                                                       \
    static ig_status method_##name(ig__trun *r, ig__tvalue *out, ig__tvalue self,          \
                                   ig__targs *args)

/* ---- strings ---- */

static ig_status strip(ig__trun *r, ig__tvalue *out, ig__tvalue self, ig__targs *args,
                       int sides)
{
    const ig__tstr *chars = NULL;
    if (args->given[0] && args->arg[0].kind != IG_T_NONE)
        IG_TRY(ig__targ_string(r, &chars, "strip", args->arg[0]));
    return ig__tstr_strip(r, out, self.s, chars, sides);
}

METHOD(strip)
{
    return strip(r, out, self, args, 3);
}

METHOD(lstrip)
{
    return strip(r, out, self, args, 1);
}

METHOD(rstrip)
{
    return strip(r, out, self, args, 2);
}

#define CASE_METHOD(name, how)                                                             \
    METHOD(name)                                                                           \
    {                                                                                      \
        (void)args;                                                                        \
        return ig__tstr_recase(r, out, self.s, how);                                       \
    }

CASE_METHOD(upper, IG_TCASE_UPPER)
CASE_METHOD(lower, IG_TCASE_LOWER)
CASE_METHOD(capitalize, IG_TCASE_CAPITAL)
CASE_METHOD(title, IG_TCASE_TITLE)

static bool begins(const ig__tstr *s, const ig__tstr *with)
{
    return with->n <= s->n && memcmp(s->bytes, with->bytes, with->n) == 0;
}

static bool ends(const ig__tstr *s, const ig__tstr *with)
{
    return with->n <= s->n && memcmp(s->bytes + s->n - with->n, with->bytes, with->n) == 0;
}

/* startswith and endswith take a string or a tuple of them. */
static ig_status any_affix(ig__trun *r, ig__tvalue *out, ig__tvalue self, ig__tvalue arg,
                           bool (*matches)(const ig__tstr *, const ig__tstr *))
{
    const ig__tvalue *items = &arg;
    size_t n = 1;
    bool yes = false;
    if (arg.kind == IG_T_TUPLE) {
        items = arg.list->items;
        n = arg.list->n;
    }
    for (size_t i = 0; i < n && !yes; i++) {
        const ig__tstr *with;
        IG_TRY(ig__targ_string(r, &with, "startswith or endswith", items[i]));
        IG_TRY(ig__trun_step(r, with->n));
        yes = matches(self.s, with);
    }
    *out = ig__tbool(yes, self.markup && arg.markup);
    return IG_OK;
}

METHOD(startswith)
{
    return any_affix(r, out, self, args->arg[0], begins);
}

METHOD(endswith)
{
    return any_affix(r, out, self, args->arg[0], ends);
}

METHOD(removeprefix)
{
    const ig__tstr *what;
    IG_TRY(ig__targ_string(r, &what, "removeprefix", args->arg[0]));
    return ig__tstr_cut(r, out, self.s, begins(self.s, what) ? what->n : 0, self.s->n);
}

METHOD(removesuffix)
{
    const ig__tstr *what;
    IG_TRY(ig__targ_string(r, &what, "removesuffix", args->arg[0]));
    return ig__tstr_cut(r, out, self.s, 0, self.s->n - (ends(self.s, what) ? what->n : 0));
}

METHOD(replace)
{
    const ig__tstr *from, *to;
    int64_t max = -1;
    IG_TRY(ig__targ_string(r, &from, "replace", args->arg[0]));
    IG_TRY(ig__targ_string(r, &to, "replace", args->arg[1]));
    if (args->given[2])
        IG_TRY(ig__targ_int(r, &max, "replace", args->arg[2]));
    return ig__tstr_replace(r, out, self.s, from, to, max);
}

static ig_status push_cut(ig__trun *r, ig__tlist *list, const ig__tstr *s, size_t from,
                          size_t to)
{
    ig__tvalue piece;
    IG_TRY(ig__tstr_cut(r, &piece, s, from, to));
    return ig__tlist_push(r, list, piece);
}

/* Words between white space. */
static ig_status split_words(ig__trun *r, ig__tlist *list, const ig__tstr *s, int64_t max)
{
    size_t at = ig__tspace_start(s->bytes, s->n);
    while (at < s->n) {
        size_t end = at;
        uint32_t code;
        while (max != 0 && end < s->n) {
            const size_t len = ig__tutf8(s->bytes + end, s->n - end, &code);
            if (ig__tis_space(code))
                break;
            end += len;
        }
        if (max == 0)
            end = at + ig__tspace_end(s->bytes + at, s->n - at);
        max -= max > 0;
        IG_TRY(push_cut(r, list, s, at, end));
        at = end + ig__tspace_start(s->bytes + end, s->n - end);
    }
    return IG_OK;
}

static ig_status split_at(ig__trun *r, ig__tlist *list, const ig__tstr *s,
                          const ig__tstr *separator, int64_t max)
{
    size_t at = 0;
    if (separator->n == 0)
        return ig__trun_fail(r, IG_ERR_FORMAT, "split: the separator is empty");
    for (; max != 0; max -= max > 0) {
        const size_t hit = ig__tstr_find(s, separator, at);
        if (hit == SIZE_MAX)
            break;
        IG_TRY(push_cut(r, list, s, at, hit));
        at = hit + separator->n;
    }
    return push_cut(r, list, s, at, s->n);
}

METHOD(split)
{
    const ig__tstr *separator = NULL;
    int64_t max = -1;
    if (args->given[0] && args->arg[0].kind != IG_T_NONE)
        IG_TRY(ig__targ_string(r, &separator, "split", args->arg[0]));
    if (args->given[1])
        IG_TRY(ig__targ_int(r, &max, "split", args->arg[1]));
    IG_TRY(ig__tlist_make(r, out, IG_T_LIST, 0, self.markup));
    IG_TRY(ig__trun_step(r, self.s->n));
    return separator ? split_at(r, out->list, self.s, separator, max)
                     : split_words(r, out->list, self.s, max);
}

/* From the right: the pieces that a split without a bound gives, the first ones joined
 * again. */
METHOD(rsplit)
{
    int64_t max = -1;
    if (args->given[1])
        IG_TRY(ig__targ_int(r, &max, "rsplit", args->arg[1]));
    args->given[1] = false;
    IG_TRY(method_split(r, out, self, args));
    ig__tlist *list = out->list;
    if (max < 0 || list->n <= (uint64_t)max + 1)
        return IG_OK;
    const size_t n_joined = list->n - (size_t)max;
    const ig__tstr *first = list->items[0].s, *last = list->items[n_joined - 1].s;
    const size_t from = (size_t)(first->bytes - self.s->bytes);
    const size_t to = (size_t)(last->bytes + last->n - self.s->bytes);
    ig__tvalue pieces;
    IG_TRY(ig__tlist_make(r, &pieces, IG_T_LIST, (size_t)max + 1, self.markup));
    IG_TRY(push_cut(r, pieces.list, self.s, from, to));
    for (size_t i = n_joined; i < list->n; i++)
        IG_TRY(ig__tlist_push(r, pieces.list, list->items[i]));
    *out = pieces;
    return IG_OK;
}

METHOD(splitlines)
{
    const ig__tstr *s = self.s;
    (void)args;
    IG_TRY(ig__tlist_make(r, out, IG_T_LIST, 0, self.markup));
    IG_TRY(ig__trun_step(r, s->n));
    for (size_t at = 0; at < s->n;) {
        size_t end = at;
        while (end < s->n && s->bytes[end] != '\n' && s->bytes[end] != '\r')
            end++;
        IG_TRY(push_cut(r, out->list, s, at, end));
        const bool pair =
            end + 1 < s->n && s->bytes[end] == '\r' && s->bytes[end + 1] == '\n';
        at = end + 1 + pair;
    }
    return IG_OK;
}

METHOD(join)
{
    const ig__tlist *items;
    ig__tout text = {.r = r};
    IG_TRY(ig__titerate(r, &items, args->arg[0]));
    for (size_t i = 0; i < items->n; i++) {
        const ig__tstr *s;
        IG_TRY(ig__targ_string(r, &s, "join", items->items[i]));
        if (i)
            IG_TRY(ig__tout_str(&text, self.s));
        IG_TRY(ig__tout_str(&text, s));
    }
    return ig__tout_finish(&text, out);
}

METHOD(find)
{
    const ig__tstr *what;
    IG_TRY(ig__targ_string(r, &what, "find", args->arg[0]));
    IG_TRY(ig__trun_step(r, self.s->n));
    const size_t at = ig__tstr_find(self.s, what, 0);
    const ig__tstr before = {.bytes = self.s->bytes, .n = at == SIZE_MAX ? 0 : at};
    *out = ig__tint(at == SIZE_MAX ? -1 : (int64_t)ig__tstr_length(&before), self.markup);
    return IG_OK;
}

METHOD(count)
{
    const ig__tstr *what;
    int64_t n = 0;
    IG_TRY(ig__targ_string(r, &what, "count", args->arg[0]));
    IG_TRY(ig__trun_step(r, self.s->n));
    if (what->n == 0)
        n = (int64_t)ig__tstr_length(self.s) + 1;
    else
        for (size_t at = 0; (at = ig__tstr_find(self.s, what, at)) != SIZE_MAX;
             at += what->n)
            n++;
    *out = ig__tint(n, self.markup);
    return IG_OK;
}

/* All characters in classes, and there is one. ASCII digits and letters; what lies beyond
 * ASCII counts as a letter unless it is white space. */
enum { CLASS_DIGIT = 1, CLASS_ALPHA = 2, CLASS_SPACE = 4 };

static ig_status all_in(ig__trun *r, ig__tvalue *out, ig__tvalue self, int classes)
{
    bool yes = self.s->n > 0;
    for (size_t i = 0; yes && i < self.s->n;) {
        uint32_t code;
        i += ig__tutf8(self.s->bytes + i, self.s->n - i, &code);
        int is = code >= '0' && code <= '9' ? CLASS_DIGIT : 0;
        if (ig__tis_space(code))
            is = CLASS_SPACE;
        else if ((code | 32) >= 'a' && ((code | 32) <= 'z' || code >= 128))
            is = CLASS_ALPHA;
        yes = (is & classes) != 0;
    }
    *out = ig__tbool(yes, self.markup);
    return ig__trun_step(r, self.s->n);
}

#define CLASS_METHOD(name, classes)                                                        \
    METHOD(name)                                                                           \
    {                                                                                      \
        (void)args;                                                                        \
        return all_in(r, out, self, classes);                                              \
    }

CLASS_METHOD(isdigit, CLASS_DIGIT)
CLASS_METHOD(isalpha, CLASS_ALPHA)
CLASS_METHOD(isalnum, CLASS_ALPHA | CLASS_DIGIT)
CLASS_METHOD(isspace, CLASS_SPACE)

/* ---- dicts ---- */

ig_status ig__tdict_items(ig__trun *r, ig__tvalue *out, ig__tvalue dict)
{
    const ig__tdict *d = dict.dict;
    IG_TRY(ig__tlist_make(r, out, IG_T_LIST, d->n, dict.markup));
    for (size_t i = 0; i < d->n; i++) {
        ig__tvalue pair;
        IG_TRY(ig__tlist_make(r, &pair, IG_T_TUPLE, 2, dict.markup));
        IG_TRY(ig__tlist_push(r, pair.list, d->entries[i].key));
        IG_TRY(ig__tlist_push(r, pair.list, d->entries[i].value));
        IG_TRY(ig__tlist_push(r, out->list, pair));
    }
    return ig__trun_step(r, d->n * sizeof dict);
}

METHOD(items)
{
    (void)args;
    return ig__tdict_items(r, out, self);
}

METHOD(keys)
{
    (void)args;
    const ig__tlist *keys;
    IG_TRY(ig__titerate(r, &keys, self));
    IG_TRY(ig__tlist_make(r, out, IG_T_LIST, 0, self.markup));
    *out->list = *keys;
    return IG_OK;
}

METHOD(values)
{
    (void)args;
    IG_TRY(ig__tlist_make(r, out, IG_T_LIST, self.dict->n, self.markup));
    for (size_t i = 0; i < self.dict->n; i++)
        IG_TRY(ig__tlist_push(r, out->list, self.dict->entries[i].value));
    return ig__trun_step(r, self.dict->n * sizeof self);
}

METHOD(get)
{
    (void)r;
    const ig__tvalue *v = ig__tdict_find(self.dict, args->arg[0]);
    *out = v ? *v : args->given[1] ? args->arg[1] : ig__tnone();
    return IG_OK;
}

/* ---- lists ---- */

/* The one method that changes its object: Python's sandbox refuses it, laxer engines do
 * not, and templates exist that use it. */
METHOD(append)
{
    IG_TRY(ig__tlist_push(r, self.list, args->arg[0]));
    *out = ig__tnone();
    return IG_OK;
}

METHOD(index)
{
    for (size_t i = 0; i < self.list->n; i++) {
        bool same;
        IG_TRY(ig__tequal(r, &same, self.list->items[i], args->arg[0]));
        if (same) {
            *out = ig__tint((int64_t)i, self.markup);
            return IG_OK;
        }
    }
    return ig__trun_fail(r, IG_ERR_FORMAT, "index: the value is not in the list");
}

METHOD(count_items)
{
    int64_t n = 0;
    for (size_t i = 0; i < self.list->n; i++) {
        bool same;
        IG_TRY(ig__tequal(r, &same, self.list->items[i], args->arg[0]));
        n += same;
    }
    *out = ig__tint(n, self.markup);
    return IG_OK;
}

/* ---- loops ---- */

METHOD(cycle)
{
    if (args->n_pos == 0)
        return ig__trun_fail(r, IG_ERR_FORMAT, "loop.cycle wants something to choose from");
    *out = args->pos[self.loop->i % args->n_pos];
    return IG_OK;
}

METHOD(changed)
{
    ig__tvalue now;
    bool same = false;
    IG_TRY(ig__tlist_make(r, &now, IG_T_TUPLE, 0, false));
    for (size_t i = 0; i < args->n_pos; i++)
        IG_TRY(ig__tlist_push(r, now.list, args->pos[i]));
    if (self.loop->has_last)
        IG_TRY(ig__tequal(r, &same, now, self.loop->changed));
    self.loop->changed = now;
    self.loop->has_last = true;
    *out = ig__tbool(!same, false);
    return IG_OK;
}

static const ig__tbuiltin string_rows[] = {
    {"strip", "chars", method_strip},
    {"lstrip", "chars", method_lstrip},
    {"rstrip", "chars", method_rstrip},
    {"upper", "", method_upper},
    {"lower", "", method_lower},
    {"capitalize", "", method_capitalize},
    {"title", "", method_title},
    {"startswith", "prefix", method_startswith},
    {"endswith", "suffix", method_endswith},
    {"removeprefix", "prefix", method_removeprefix},
    {"removesuffix", "suffix", method_removesuffix},
    {"replace", "old new count", method_replace},
    {"split", "sep maxsplit", method_split},
    {"rsplit", "sep maxsplit", method_rsplit},
    {"splitlines", "", method_splitlines},
    {"join", "iterable", method_join},
    {"find", "sub", method_find},
    {"count", "sub", method_count},
    {"isdigit", "", method_isdigit},
    {"isalpha", "", method_isalpha},
    {"isalnum", "", method_isalnum},
    {"isspace", "", method_isspace},
    {NULL, NULL, NULL},
};

static const ig__tbuiltin dict_rows[] = {
    {"items", "", method_items},
    {"keys", "", method_keys},
    {"values", "", method_values},
    {"get", "key default", method_get},
    {NULL, NULL, NULL},
};

static const ig__tbuiltin list_rows[] = {
    {"append", "object", method_append},
    {"index", "value", method_index},
    {"count", "value", method_count_items},
    {NULL, NULL, NULL},
};

static const ig__tbuiltin loop_rows[] = {
    {"cycle", NULL, method_cycle},
    {"changed", NULL, method_changed},
    {NULL, NULL, NULL},
};

const ig__tbuiltin *ig__tmethod_find(ig__tkind kind, const char *name)
{
    const ig__tbuiltin *rows = kind == IG_T_STRING ? string_rows
                               : kind == IG_T_DICT ? dict_rows
                               : kind == IG_T_LIST ? list_rows
                               : kind == IG_T_LOOP ? loop_rows
                                                   : NULL;
    for (; rows && rows->name; rows++)
        if (strcmp(rows->name, name) == 0)
            return rows;
    return NULL;
}
