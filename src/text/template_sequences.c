/* The filters of templates that work on sequences, and the table of all filters. */
#include "text/template_filters.h"

#include <string.h>

#define SEQUENCE(name)                                                                     \
    static ig_status sequence_##name(ig__trun *r, ig__tvalue *out, ig__tvalue self,        \
                                     ig__targs *args)

/* ---- attributes and folding of case ---- */

/* v.a.0.b: each part a name or an index. */
static ig_status get_path(ig__trun *r, ig__tvalue *out, ig__tvalue v, ig__tvalue path)
{
    if (path.kind == IG_T_INT)
        return ig__tget_item(r, out, v, path);
    const ig__tstr *s;
    IG_TRY(ig__targ_string(r, &s, "attribute", path));
    *out = v;
    for (size_t from = 0; from <= s->n;) {
        const ig__tstr dot = {.bytes = ".", .n = 1};
        size_t to = ig__tstr_find(s, &dot, from);
        to = to == SIZE_MAX ? s->n : to;
        ig__tvalue key;
        int64_t i = 0;
        size_t k = from;
        for (; k < to && k - from < 9 && s->bytes[k] >= '0' && s->bytes[k] <= '9'; k++)
            i = i * 10 + (s->bytes[k] - '0');
        if (k == to && to > from)
            key = ig__tint(i, true);
        else
            IG_TRY(ig__tstr_cut(r, &key, s, from, to));
        const ig__tvalue of = *out;
        IG_TRY(ig__tget_item(r, out, of, key));
        from = to + 1;
    }
    return IG_OK;
}

static ig_status fold_case(ig__trun *r, ig__tvalue *v)
{
    if (v->kind != IG_T_STRING)
        return IG_OK;
    const ig__tstr *s = v->s;
    return ig__tstr_recase(r, v, s, IG_TCASE_LOWER);
}

/* ---- sorting ---- */

/* items sorted by an attribute (undefined: themselves), strings by lower case unless
 * `exact`. */
static ig_status sort_items(ig__trun *r, ig__tvalue *out, const ig__tlist *items,
                            ig__tvalue attribute, bool exact, bool reverse, bool markup)
{
    const size_t n = items->n;
    ig__tvalue *keys = ig__trun_alloc(r, n * sizeof *keys);
    uint32_t *order = ig__trun_alloc(r, n * sizeof *order);
    if (!keys || !order)
        return r->status;
    for (size_t i = 0; i < n; i++) {
        order[i] = (uint32_t)i;
        keys[i] = items->items[i];
        if (attribute.kind != IG_T_UNDEFINED && attribute.kind != IG_T_NONE)
            IG_TRY(get_path(r, &keys[i], items->items[i], attribute));
        if (!exact)
            IG_TRY(fold_case(r, &keys[i]));
    }
    IG_TRY(ig__tsort(r, order, keys, n, reverse));
    IG_TRY(ig__tlist_make(r, out, IG_T_LIST, n, markup));
    for (size_t i = 0; i < n; i++)
        IG_TRY(ig__tlist_push(r, out->list, items->items[order[i]]));
    return ig__trun_step(r, n * sizeof *keys);
}

SEQUENCE(sort)
{
    const ig__tlist *items;
    IG_TRY(ig__titerate(r, &items, self));
    return sort_items(r, out, items, args->arg[2], ig__ttruth(args->arg[1]),
                      ig__ttruth(args->arg[0]), self.markup);
}

static ig_status want_dict(ig__trun *r, const char *call, ig__tvalue v)
{
    if (v.kind == IG_T_DICT)
        return IG_OK;
    return ig__trun_fail(r, IG_ERR_FORMAT, "%s wants a dict, found %s", call,
                         ig__tkind_name(v));
}

SEQUENCE(dictsort)
{
    ig__tvalue pairs;
    bool by_value = false;
    IG_TRY(want_dict(r, "dictsort", self));
    if (args->given[1]) {
        const ig__tstr *by;
        IG_TRY(ig__targ_string(r, &by, "dictsort", args->arg[1]));
        by_value = ig__tstr_is(by, "value");
        if (!by_value && !ig__tstr_is(by, "key"))
            return ig__trun_fail(r, IG_ERR_FORMAT, "dictsort is by key or value");
    }
    IG_TRY(ig__tdict_items(r, &pairs, self));
    return sort_items(r, out, pairs.list, ig__tint(by_value, true),
                      ig__ttruth(args->arg[0]), ig__ttruth(args->arg[2]), self.markup);
}

static ig_status extreme(ig__trun *r, ig__tvalue *out, ig__tvalue self, ig__targs *args,
                         int sign)
{
    const ig__tlist *items;
    ig__tvalue best = ig__tundefined(NULL);
    *out = ig__tundefined("an item of an empty sequence");
    IG_TRY(ig__titerate(r, &items, self));
    for (size_t i = 0; i < items->n; i++) {
        ig__tvalue key = items->items[i];
        int c = -1;
        if (args->given[1])
            IG_TRY(get_path(r, &key, items->items[i], args->arg[1]));
        if (!ig__ttruth(args->arg[0]))
            IG_TRY(fold_case(r, &key));
        if (i > 0)
            IG_TRY(ig__torder(r, &c, key, best));
        if (i > 0 && c * sign >= 0)
            continue;
        best = key;
        *out = items->items[i];
    }
    return IG_OK;
}

SEQUENCE(min)
{
    return extreme(r, out, self, args, 1);
}

SEQUENCE(max)
{
    return extreme(r, out, self, args, -1);
}

/* Equal neighbours of the sorted items give away repetitions; the first one stays. */
SEQUENCE(unique)
{
    const ig__tlist *items;
    IG_TRY(ig__titerate(r, &items, self));
    const size_t n = items->n;
    ig__tvalue seen, key;
    IG_TRY(ig__tdict_make(r, &seen, IG_T_DICT, 0, true));
    IG_TRY(ig__tlist_make(r, out, IG_T_LIST, 0, self.markup));
    for (size_t i = 0; i < n; i++) {
        key = items->items[i];
        if (args->given[1])
            IG_TRY(get_path(r, &key, items->items[i], args->arg[1]));
        if (!ig__ttruth(args->arg[0]))
            IG_TRY(fold_case(r, &key));
        if (ig__tdict_find(seen.dict, key))
            continue;
        IG_TRY(ig__tdict_set(r, seen.dict, key, ig__tnone()));
        IG_TRY(ig__tlist_push(r, out->list, items->items[i]));
    }
    return IG_OK;
}

/* ---- choosing and mapping ---- */

/* The rest of the arguments from `from` on: those of the filter or test that is named. */
static ig__targs rest_of(const ig__targs *args, size_t from)
{
    ig__targs rest = {.names = args->names, .named = args->named, .n_named = args->n_named};
    if (args->n_pos > from) {
        rest.pos = args->pos + from;
        rest.n_pos = args->n_pos - from;
    }
    return rest;
}

static ig_status find_named(ig__trun *r, const ig__tbuiltin **out, const char *what,
                            ig__tvalue v, const ig__tbuiltin *(*find)(const char *name))
{
    char name[64] = {0};
    const ig__tstr *s;
    IG_TRY(ig__targ_string(r, &s, what, v));
    if (s->n < sizeof name)
        memcpy(name, s->bytes, s->n);
    *out = find(name);
    if (!*out)
        return ig__trun_fail(r, IG_ERR_UNSUPPORTED, "there is no %s '%s'", what, name);
    return IG_OK;
}

/* select, reject and their attr forms: keep the items for which the test says `wanted`. */
static ig_status choose(ig__trun *r, ig__tvalue *out, ig__tvalue self, ig__targs *args,
                        bool by_attribute, bool wanted)
{
    const ig__tlist *items;
    const ig__tbuiltin *test = NULL;
    const size_t i_test = by_attribute;
    if (by_attribute && args->n_pos == 0)
        return ig__trun_fail(r, IG_ERR_FORMAT, "selectattr wants an attribute");
    if (args->n_pos > i_test)
        IG_TRY(find_named(r, &test, "test", args->pos[i_test], ig__ttest_find));
    IG_TRY(ig__titerate(r, &items, self));
    IG_TRY(ig__tlist_make(r, out, IG_T_LIST, 0, self.markup));
    for (size_t i = 0; i < items->n; i++) {
        ig__tvalue v = items->items[i], verdict;
        if (by_attribute)
            IG_TRY(get_path(r, &v, items->items[i], args->pos[0]));
        verdict = v;
        ig__targs rest = rest_of(args, i_test + 1);
        if (test)
            IG_TRY(ig__tbuiltin_call(r, &verdict, test, v, &rest));
        if (ig__ttruth(verdict) == wanted)
            IG_TRY(ig__tlist_push(r, out->list, items->items[i]));
    }
    return IG_OK;
}

SEQUENCE(select)
{
    return choose(r, out, self, args, false, true);
}

SEQUENCE(reject)
{
    return choose(r, out, self, args, false, false);
}

SEQUENCE(selectattr)
{
    return choose(r, out, self, args, true, true);
}

SEQUENCE(rejectattr)
{
    return choose(r, out, self, args, true, false);
}

static ig_status map_attribute(ig__trun *r, ig__tvalue *out, const ig__tlist *items,
                               const ig__targs *args)
{
    const ig__tvalue *path = NULL, *absent = NULL;
    for (size_t i = 0; i < args->n_named; i++) {
        if (strcmp(args->names[i], "attribute") == 0)
            path = &args->named[i];
        else if (strcmp(args->names[i], "default") == 0)
            absent = &args->named[i];
    }
    if (!path)
        return ig__trun_fail(r, IG_ERR_FORMAT, "map wants a filter or an attribute");
    for (size_t i = 0; i < items->n; i++) {
        ig__tvalue v;
        IG_TRY(get_path(r, &v, items->items[i], *path));
        if (v.kind == IG_T_UNDEFINED && absent)
            v = *absent;
        IG_TRY(ig__tlist_push(r, out->list, v));
    }
    return IG_OK;
}

/* A filter may be applied by map inside map: the run's depth bounds that. */
SEQUENCE(map)
{
    const ig__tlist *items;
    const ig__tbuiltin *filter;
    IG_TRY(ig__titerate(r, &items, self));
    IG_TRY(ig__tlist_make(r, out, IG_T_LIST, 0, self.markup));
    if (args->n_pos == 0)
        return map_attribute(r, out, items, args);
    IG_TRY(find_named(r, &filter, "filter", args->pos[0], ig__tfilter_find));
    if (++r->depth > IG_TMAX_DEPTH)
        return ig__trun_fail(r, IG_ERR_LIMIT, "evaluation nests deeper than %d",
                             IG_TMAX_DEPTH);
    for (size_t i = 0; i < items->n; i++) {
        ig__tvalue v;
        ig__targs rest = rest_of(args, 1);
        IG_TRY(ig__trun_step(r, 0));
        IG_TRY(ig__tbuiltin_call(r, &v, filter, items->items[i], &rest));
        IG_TRY(ig__tlist_push(r, out->list, v));
    }
    r->depth--;
    return IG_OK;
}

/* ---- the rest ---- */

SEQUENCE(join)
{
    const ig__tlist *items;
    const ig__tstr *between = NULL;
    ig__tout text = {.r = r};
    IG_TRY(ig__titerate(r, &items, self));
    if (args->given[0])
        IG_TRY(ig__tto_string(r, &between, args->arg[0]));
    for (size_t i = 0; i < items->n; i++) {
        ig__tvalue v = items->items[i];
        if (args->given[1])
            IG_TRY(get_path(r, &v, items->items[i], args->arg[1]));
        if (i && between)
            IG_TRY(ig__tout_str(&text, between));
        IG_TRY(ig__tout_value(&text, v));
    }
    return ig__tout_finish(&text, out);
}

SEQUENCE(list)
{
    const ig__tlist *items;
    (void)args;
    IG_TRY(ig__titerate(r, &items, self));
    IG_TRY(ig__tlist_make(r, out, IG_T_LIST, 0, self.markup));
    *out->list = *items; /* shares the items: an append to either leaves the other */
    return IG_OK;
}

static ig_status end_item(ig__trun *r, ig__tvalue *out, ig__tvalue self, bool last)
{
    const ig__tlist *items;
    IG_TRY(ig__titerate(r, &items, self));
    *out = ig__tundefined("an item of an empty sequence");
    if (items->n)
        *out = items->items[last ? items->n - 1 : 0];
    return IG_OK;
}

SEQUENCE(first)
{
    (void)args;
    return end_item(r, out, self, false);
}

SEQUENCE(last)
{
    (void)args;
    return end_item(r, out, self, true);
}

SEQUENCE(reverse)
{
    const ig__tlist *items;
    ig__tout text = {.r = r};
    const bool is_string = self.kind == IG_T_STRING;
    (void)args;
    IG_TRY(ig__titerate(r, &items, self));
    IG_TRY(ig__tlist_make(r, out, IG_T_LIST, items->n, self.markup));
    for (size_t i = items->n; i-- > 0;) {
        if (is_string)
            IG_TRY(ig__tout_str(&text, items->items[i].s));
        else
            IG_TRY(ig__tlist_push(r, out->list, items->items[i]));
    }
    IG_TRY(ig__trun_step(r, items->n * sizeof self));
    return is_string ? ig__tout_finish(&text, out) : IG_OK;
}

SEQUENCE(items)
{
    (void)args;
    if (self.kind == IG_T_UNDEFINED)
        return ig__tlist_make(r, out, IG_T_LIST, 0, true);
    IG_TRY(want_dict(r, "items", self));
    return ig__tdict_items(r, out, self);
}

SEQUENCE(sum)
{
    const ig__tlist *items;
    IG_TRY(ig__titerate(r, &items, self));
    *out = args->given[1] ? args->arg[1] : ig__tint(0, true);
    for (size_t i = 0; i < items->n; i++) {
        ig__tvalue v = items->items[i];
        const ig__tvalue so_far = *out;
        IG_TRY(ig__trun_step(r, 0));
        if (args->given[0] && args->arg[0].kind != IG_T_NONE)
            IG_TRY(get_path(r, &v, items->items[i], args->arg[0]));
        IG_TRY(ig__tadd(r, out, so_far, v));
    }
    return IG_OK;
}

/* Lists of n items each; the last is filled up when a filler is given. */
SEQUENCE(batch)
{
    const ig__tlist *items;
    int64_t n;
    ig__tvalue row = ig__tnone();
    IG_TRY(ig__titerate(r, &items, self));
    IG_TRY(ig__targ_int(r, &n, "batch", args->arg[0]));
    if (n < 1 || n > (int64_t)IG_TMAX_ITEMS)
        return ig__trun_fail(r, IG_ERR_LIMIT, "batch of %lld items", (long long)n);
    IG_TRY(ig__tlist_make(r, out, IG_T_LIST, 0, self.markup));
    for (size_t i = 0; i < items->n; i++) {
        if (i % (size_t)n == 0) {
            IG_TRY(ig__tlist_make(r, &row, IG_T_LIST, 0, self.markup));
            IG_TRY(ig__tlist_push(r, out->list, row));
        }
        IG_TRY(ig__tlist_push(r, row.list, items->items[i]));
    }
    while (items->n && args->given[1] && row.list->n < (uint64_t)n)
        IG_TRY(ig__tlist_push(r, row.list, args->arg[1]));
    return IG_OK;
}

/* Pairs of a value of the attribute and the items that have it, in order of the values. */
SEQUENCE(groupby)
{
    const ig__tlist *items;
    ig__tvalue sorted, last = ig__tundefined(NULL), group = ig__tnone();
    IG_TRY(ig__titerate(r, &items, self));
    IG_TRY(sort_items(r, &sorted, items, args->arg[0], false, false, self.markup));
    IG_TRY(ig__tlist_make(r, out, IG_T_LIST, 0, self.markup));
    for (size_t i = 0; i < sorted.list->n; i++) {
        ig__tvalue key, folded;
        bool same = false;
        IG_TRY(get_path(r, &key, sorted.list->items[i], args->arg[0]));
        folded = key;
        IG_TRY(fold_case(r, &folded));
        if (i > 0)
            IG_TRY(ig__tequal(r, &same, folded, last));
        if (!same) {
            ig__tvalue pair;
            IG_TRY(ig__tlist_make(r, &group, IG_T_LIST, 0, self.markup));
            IG_TRY(ig__tlist_make(r, &pair, IG_T_TUPLE, 2, self.markup));
            IG_TRY(ig__tlist_push(r, pair.list, key));
            IG_TRY(ig__tlist_push(r, pair.list, group));
            IG_TRY(ig__tlist_push(r, out->list, pair));
        }
        IG_TRY(ig__tlist_push(r, group.list, sorted.list->items[i]));
        last = folded;
    }
    return IG_OK;
}

const ig__tbuiltin *ig__tfilter_find(const char *name)
{
    static const ig__tbuiltin rows[] = {
        {"abs", "", ig__tfilter_abs},
        {"attr", "name", ig__tfilter_attr},
        {"batch", "linecount fill_with", sequence_batch},
        {"capitalize", "", ig__tfilter_capitalize},
        {"count", "", ig__tfilter_length},
        {"d", "default_value boolean", ig__tfilter_default},
        {"default", "default_value boolean", ig__tfilter_default},
        {"dictsort", "case_sensitive by reverse", sequence_dictsort},
        {"e", "", ig__tfilter_escape},
        {"escape", "", ig__tfilter_escape},
        {"first", "", sequence_first},
        {"float", "default", ig__tfilter_float},
        {"groupby", "attribute", sequence_groupby},
        {"indent", "width first blank", ig__tfilter_indent},
        {"int", "default", ig__tfilter_int},
        {"items", "", sequence_items},
        {"join", "d attribute", sequence_join},
        {"last", "", sequence_last},
        {"length", "", ig__tfilter_length},
        {"list", "", sequence_list},
        {"lower", "", ig__tfilter_lower},
        {"map", NULL, sequence_map},
        {"max", "case_sensitive attribute", sequence_max},
        {"min", "case_sensitive attribute", sequence_min},
        {"reject", NULL, sequence_reject},
        {"rejectattr", NULL, sequence_rejectattr},
        {"replace", "old new count", ig__tfilter_replace},
        {"reverse", "", sequence_reverse},
        {"round", "precision method", ig__tfilter_round},
        {"safe", "", ig__tfilter_safe},
        {"select", NULL, sequence_select},
        {"selectattr", NULL, sequence_selectattr},
        {"sort", "reverse case_sensitive attribute", sequence_sort},
        {"string", "", ig__tfilter_string},
        {"sum", "attribute start", sequence_sum},
        {"title", "", ig__tfilter_title},
        {"tojson", "indent ensure_ascii sort_keys separators", ig__tfilter_tojson},
        {"trim", "chars", ig__tfilter_trim},
        {"unique", "case_sensitive attribute", sequence_unique},
        {"upper", "", ig__tfilter_upper},
        {"wordcount", "", ig__tfilter_wordcount},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rows[i].name, name) == 0)
            return &rows[i];
    return NULL;
}
