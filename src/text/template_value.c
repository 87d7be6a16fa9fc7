/* Lists, dicts, comparison, order and iteration of template values, as Python has them. */
#include "text/template_int.h"

#include <math.h>
#include <string.h>

const char *ig__tkind_name(ig__tvalue v)
{
    static const char *const names[] = {
        "undefined", "none", "boolean",   "integer", "float", "string",   "list",
        "tuple",     "dict", "namespace", "loop",    "macro", "function", "method"};
    return names[v.kind];
}

bool ig__ttruth(ig__tvalue v)
{
    switch ((ig__tkind)v.kind) {
    case IG_T_UNDEFINED:
    case IG_T_NONE:
        return false;
    case IG_T_BOOL:
        return v.b;
    case IG_T_INT:
        return v.i != 0;
    case IG_T_FLOAT:
        return v.f != 0;
    case IG_T_STRING:
        return v.s->n != 0;
    case IG_T_LIST:
    case IG_T_TUPLE:
        return v.list->n != 0;
    case IG_T_DICT:
        return v.dict->n != 0;
    default:
        return true;
    }
}

/* ---- lists ---- */

static bool list_reserve(ig__trun *r, ig__tlist *list, size_t extra)
{
    ig__tlist_back *back = list->back;
    if (back && list->items + list->n == back->items + back->used &&
        back->cap - back->used >= extra)
        return true;
    if (extra > IG_TMAX_ITEMS || list->n > IG_TMAX_ITEMS - extra) {
        (void)ig__trun_fail(r, IG_ERR_LIMIT, "a list would pass %zu items", IG_TMAX_ITEMS);
        return false;
    }
    size_t cap = list->n + extra;
    if (list->n)
        cap = cap * 2;
    back = ig__trun_alloc(r, sizeof *back);
    ig__tvalue *items = ig__trun_alloc(r, cap * sizeof *items);
    if (!back || !items)
        return false;
    if (list->n)
        memcpy(items, list->items, list->n * sizeof *items);
    *back = (ig__tlist_back){items, list->n, cap};
    *list = (ig__tlist){items, list->n, back};
    return ig__trun_step(r, list->n * sizeof *items) == IG_OK;
}

ig_status ig__tlist_make(ig__trun *r, ig__tvalue *out, ig__tkind kind, size_t cap,
                         bool markup)
{
    ig__tlist *list = ig__trun_alloc(r, sizeof *list);
    if (!list)
        return r->status;
    *list = (ig__tlist){0};
    *out = (ig__tvalue){.kind = (uint8_t)kind, .markup = markup, .list = list};
    return cap == 0 || list_reserve(r, list, cap) ? IG_OK : r->status;
}

ig_status ig__tlist_push(ig__trun *r, ig__tlist *list, ig__tvalue v)
{
    if (!list_reserve(r, list, 1))
        return r->status;
    list->items[list->n++] = v;
    list->back->used++;
    return IG_OK;
}

ig_status ig__tlist_concat(ig__trun *r, ig__tvalue *out, ig__tvalue a, ig__tvalue b)
{
    IG_TRY(ig__tlist_make(r, out, (ig__tkind)a.kind, 0, a.markup && b.markup));
    *out->list = *a.list;
    const ig__tlist from = *b.list; /* may be a's own */
    if (from.n == 0)
        return IG_OK;
    if (!list_reserve(r, out->list, from.n))
        return r->status;
    memcpy(out->list->items + out->list->n, from.items, from.n * sizeof *from.items);
    out->list->n += from.n;
    out->list->back->used += from.n;
    return ig__trun_step(r, from.n * sizeof *from.items);
}

/* ---- dicts ---- */

static bool is_key(ig__tvalue v)
{
    return v.kind == IG_T_STRING || v.kind == IG_T_NONE || ig__tis_number(v);
}

static int compare_bytes(const char *a, size_t n_a, const char *b, size_t n_b)
{
    const size_t n = n_a < n_b ? n_a : n_b;
    const int c = n ? memcmp(a, b, n) : 0;
    return c ? c : (n_a > n_b) - (n_a < n_b);
}

static int compare_numbers(ig__tvalue a, ig__tvalue b)
{
    if (a.kind != IG_T_FLOAT && b.kind != IG_T_FLOAT)
        return (ig__twhole(a) > ig__twhole(b)) - (ig__twhole(a) < ig__twhole(b));
    const double x = ig__tnumber(a), y = ig__tnumber(b);
    return (x > y) - (x < y);
}

/* A total order of keys: none, numbers, strings. */
static int compare_keys(ig__tvalue a, ig__tvalue b)
{
    const int rank_a = a.kind == IG_T_NONE ? 0 : a.kind == IG_T_STRING ? 2 : 1;
    const int rank_b = b.kind == IG_T_NONE ? 0 : b.kind == IG_T_STRING ? 2 : 1;
    if (rank_a != rank_b || rank_a == 0)
        return rank_a - rank_b;
    if (rank_a == 1)
        return compare_numbers(a, b);
    return compare_bytes(a.s->bytes, a.s->n, b.s->bytes, b.s->n);
}

/* Index into `order` of the key, or where it would stand. */
static size_t dict_place(const ig__tdict *d, ig__tvalue key, bool *found)
{
    size_t low = 0, high = d->n;
    *found = false;
    while (low < high) {
        const size_t mid = low + (high - low) / 2;
        const int c = compare_keys(d->entries[d->order[mid]].key, key);
        if (c == 0) {
            *found = true;
            return mid;
        }
        if (c < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static ig_status dict_reserve(ig__trun *r, ig__tdict *d)
{
    if (d->n < d->cap)
        return IG_OK;
    const size_t cap = d->cap ? d->cap * 2 : 4;
    struct ig__tentry *entries = ig__trun_alloc(r, cap * sizeof *entries);
    uint32_t *order = ig__trun_alloc(r, cap * sizeof *order);
    if (!entries || !order)
        return r->status;
    if (d->n) {
        memcpy(entries, d->entries, d->n * sizeof *entries);
        memcpy(order, d->order, d->n * sizeof *order);
    }
    d->entries = entries;
    d->order = order;
    d->cap = cap;
    return ig__trun_step(r, d->n * sizeof *entries);
}

ig_status ig__tdict_make(ig__trun *r, ig__tvalue *out, ig__tkind kind, size_t cap,
                         bool markup)
{
    ig__tdict *d = ig__trun_alloc(r, sizeof *d);
    if (!d)
        return r->status;
    *d = (ig__tdict){.cap = cap};
    *out = (ig__tvalue){.kind = (uint8_t)kind, .markup = markup, .dict = d};
    if (cap == 0)
        return IG_OK;
    d->entries = ig__trun_alloc(r, cap * sizeof *d->entries);
    d->order = ig__trun_alloc(r, cap * sizeof *d->order);
    return d->entries && d->order ? IG_OK : r->status;
}

ig_status ig__tdict_set(ig__trun *r, ig__tdict *d, ig__tvalue key, ig__tvalue value)
{
    if (!is_key(key))
        return ig__trun_fail(r, IG_ERR_FORMAT, "a dict has no room for a key of type %s",
                             ig__tkind_name(key));
    bool found;
    const size_t at = dict_place(d, key, &found);
    if (found) {
        d->entries[d->order[at]].value = value;
        return IG_OK;
    }
    if (d->n >= IG_TMAX_ITEMS)
        return ig__trun_fail(r, IG_ERR_LIMIT, "a dict would pass %zu keys", IG_TMAX_ITEMS);
    IG_TRY(dict_reserve(r, d));
    const size_t behind = (d->n - at) * sizeof *d->order;
    memmove(d->order + at + 1, d->order + at, behind);
    d->order[at] = (uint32_t)d->n;
    d->entries[d->n++] = (struct ig__tentry){key, value};
    return ig__trun_step(r, behind);
}

ig_status ig__tdict_add(ig__trun *r, ig__tdict *d, ig__tvalue key, ig__tvalue value)
{
    IG_TRY(dict_reserve(r, d));
    d->order[d->n] = (uint32_t)d->n;
    d->entries[d->n++] = (struct ig__tentry){key, value};
    return IG_OK;
}

const ig__tvalue *ig__tdict_find(const ig__tdict *d, ig__tvalue key)
{
    bool found;
    if (!is_key(key))
        return NULL;
    const size_t at = dict_place(d, key, &found);
    return found ? &d->entries[d->order[at]].value : NULL;
}

const ig__tvalue *ig__tdict_find_text(const ig__tdict *d, const char *key, size_t n)
{
    const ig__tstr s = {.bytes = key, .n = n};
    return ig__tdict_find(d, ig__tstring(&s));
}

/* ---- comparison ---- */

static ig_status equal_at(ig__trun *r, bool *out, ig__tvalue a, ig__tvalue b, int depth);

static ig_status equal_lists(ig__trun *r, bool *out, const ig__tlist *a, const ig__tlist *b,
                             int depth)
{
    *out = a->n == b->n;
    for (size_t i = 0; *out && i < a->n; i++)
        IG_TRY(equal_at(r, out, a->items[i], b->items[i], depth + 1));
    return IG_OK;
}

static ig_status equal_dicts(ig__trun *r, bool *out, const ig__tdict *a, const ig__tdict *b,
                             int depth)
{
    *out = a->n == b->n;
    for (size_t i = 0; *out && i < a->n; i++) {
        const ig__tvalue *other = ig__tdict_find(b, a->entries[i].key);
        *out = other != NULL;
        if (other)
            IG_TRY(equal_at(r, out, a->entries[i].value, *other, depth + 1));
    }
    return IG_OK;
}

static ig_status equal_at(ig__trun *r, bool *out, ig__tvalue a, ig__tvalue b, int depth)
{
    IG_TRY(ig__trun_step(r, 0));
    *out = false;
    if (depth > IG_TMAX_NEST)
        return ig__trun_fail(r, IG_ERR_LIMIT, "==: values nest deeper than %d",
                             IG_TMAX_NEST);
    if (ig__tis_number(a) && ig__tis_number(b)) {
        const bool nan = isnan(ig__tnumber(a)) || isnan(ig__tnumber(b));
        *out = !nan && compare_numbers(a, b) == 0;
        return IG_OK;
    }
    if (a.kind != b.kind)
        return IG_OK;
    switch ((ig__tkind)a.kind) {
    case IG_T_UNDEFINED:
    case IG_T_NONE:
        *out = true;
        return IG_OK;
    case IG_T_STRING:
        *out = a.s->n == b.s->n && memcmp(a.s->bytes, b.s->bytes, a.s->n) == 0;
        return *out ? ig__trun_step(r, a.s->n) : IG_OK;
    case IG_T_LIST:
    case IG_T_TUPLE:
        return equal_lists(r, out, a.list, b.list, depth);
    case IG_T_DICT:
        return equal_dicts(r, out, a.dict, b.dict, depth);
    default:
        *out = a.list == b.list; /* the same object */
        return IG_OK;
    }
}

ig_status ig__tequal(ig__trun *r, bool *out, ig__tvalue a, ig__tvalue b)
{
    return equal_at(r, out, a, b, 0);
}

static ig_status order_at(ig__trun *r, int *out, ig__tvalue a, ig__tvalue b, int depth)
{
    IG_TRY(ig__trun_step(r, 0));
    if (depth > IG_TMAX_NEST)
        return ig__trun_fail(r, IG_ERR_LIMIT, "<: values nest deeper than %d",
                             IG_TMAX_NEST);
    if (ig__tis_number(a) && ig__tis_number(b)) {
        *out = compare_numbers(a, b);
        return IG_OK;
    }
    if (a.kind == IG_T_STRING && b.kind == IG_T_STRING) {
        *out = compare_bytes(a.s->bytes, a.s->n, b.s->bytes, b.s->n);
        return ig__trun_step(r, a.s->n < b.s->n ? a.s->n : b.s->n);
    }
    if (a.kind == IG_T_UNDEFINED || b.kind == IG_T_UNDEFINED)
        return ig__trun_undefined(r, a.kind == IG_T_UNDEFINED ? a : b);
    if (!ig__tis_list(a) || a.kind != b.kind)
        return ig__trun_fail(r, IG_ERR_FORMAT, "cannot order %s and %s", ig__tkind_name(a),
                             ig__tkind_name(b));
    const size_t n = a.list->n < b.list->n ? a.list->n : b.list->n;
    for (size_t i = 0; i < n; i++) {
        bool same;
        IG_TRY(equal_at(r, &same, a.list->items[i], b.list->items[i], depth + 1));
        if (!same)
            return order_at(r, out, a.list->items[i], b.list->items[i], depth + 1);
    }
    *out = (a.list->n > b.list->n) - (a.list->n < b.list->n);
    return IG_OK;
}

ig_status ig__torder(ig__trun *r, int *out, ig__tvalue a, ig__tvalue b)
{
    return order_at(r, out, a, b, 0);
}

ig_status ig__tcontains(ig__trun *r, bool *out, ig__tvalue in, ig__tvalue what)
{
    *out = false;
    switch ((ig__tkind)in.kind) {
    case IG_T_UNDEFINED:
        return IG_OK;
    case IG_T_STRING:
        if (what.kind != IG_T_STRING)
            return ig__trun_fail(r, IG_ERR_FORMAT, "'in <string>' wants a string, found %s",
                                 ig__tkind_name(what));
        *out = ig__tstr_find(in.s, what.s, 0) != SIZE_MAX;
        return ig__trun_step(r, in.s->n);
    case IG_T_LIST:
    case IG_T_TUPLE:
        for (size_t i = 0; !*out && i < in.list->n; i++)
            IG_TRY(ig__tequal(r, out, in.list->items[i], what));
        return IG_OK;
    case IG_T_DICT:
        *out = ig__tdict_find(in.dict, what) != NULL;
        return IG_OK;
    default:
        return ig__trun_fail(r, IG_ERR_FORMAT, "'in' wants something to search, found %s",
                             ig__tkind_name(in));
    }
}

/* ---- iteration ---- */

static ig_status characters(ig__trun *r, ig__tvalue *out, const ig__tstr *s)
{
    IG_TRY(ig__tlist_make(r, out, IG_T_LIST, ig__tstr_length(s), false));
    for (size_t i = 0; i < s->n;) {
        uint32_t code;
        ig__tvalue c;
        const size_t len = ig__tutf8(s->bytes + i, s->n - i, &code);
        IG_TRY(ig__tstr_cut(r, &c, s, i, i + len));
        IG_TRY(ig__tlist_push(r, out->list, c));
        i += len;
    }
    return ig__trun_step(r, s->n);
}

ig_status ig__titerate(ig__trun *r, const ig__tlist **out, ig__tvalue v)
{
    ig__tvalue list = ig__tnone();
    switch ((ig__tkind)v.kind) {
    case IG_T_LIST:
    case IG_T_TUPLE:
        *out = v.list;
        return IG_OK;
    case IG_T_STRING:
        IG_TRY(characters(r, &list, v.s));
        break;
    case IG_T_DICT:
        IG_TRY(ig__tlist_make(r, &list, IG_T_LIST, v.dict->n, v.markup));
        for (size_t i = 0; i < v.dict->n; i++)
            IG_TRY(ig__tlist_push(r, list.list, v.dict->entries[i].key));
        IG_TRY(ig__trun_step(r, v.dict->n * sizeof v));
        break;
    case IG_T_UNDEFINED:
        IG_TRY(ig__tlist_make(r, &list, IG_T_LIST, 0, true));
        break;
    default:
        return ig__trun_fail(r, IG_ERR_FORMAT, "a value of type %s is not iterable",
                             ig__tkind_name(v));
    }
    *out = list.list;
    return IG_OK;
}

/* ---- order ---- */

/* Merge order[low..mid) and order[mid..high) through `spare`; `keys` NULL: dict keys. */
typedef struct sorter {
    ig__trun *r;
    const ig__tvalue *keys;
    const ig__tdict *dict; /* keys of a dict instead */
    uint32_t *spare;
    bool reverse;
} sorter;

static ig_status before(const sorter *s, bool *out, uint32_t a, uint32_t b)
{
    int c = 0;
    if (s->dict)
        c = compare_keys(s->dict->entries[a].key, s->dict->entries[b].key);
    else
        IG_TRY(ig__torder(s->r, &c, s->keys[a], s->keys[b]));
    *out = s->reverse ? c >= 0 : c <= 0;
    return IG_OK;
}

static ig_status merge(const sorter *s, uint32_t *order, size_t low, size_t mid,
                       size_t high)
{
    size_t i = low, j = mid, k = low;
    while (i < mid && j < high) {
        bool left;
        IG_TRY(before(s, &left, order[i], order[j]));
        s->spare[k++] = left ? order[i++] : order[j++];
    }
    while (i < mid)
        s->spare[k++] = order[i++];
    while (j < high)
        s->spare[k++] = order[j++];
    memcpy(order + low, s->spare + low, (high - low) * sizeof *order);
    return IG_OK;
}

static ig_status merge_sort(sorter *s, uint32_t *order, size_t n)
{
    s->spare = ig__trun_alloc(s->r, n * sizeof *s->spare);
    if (!s->spare)
        return s->r->status;
    for (size_t width = 1; width < n; width *= 2)
        for (size_t low = 0; low + width < n; low += 2 * width) {
            const size_t high = n - low < 2 * width ? n : low + 2 * width;
            IG_TRY(merge(s, order, low, low + width, high));
        }
    return IG_OK;
}

ig_status ig__tsort(ig__trun *r, uint32_t *order, const ig__tvalue *keys, size_t n,
                    bool reverse)
{
    sorter s = {.r = r, .keys = keys, .reverse = reverse};
    return merge_sort(&s, order, n);
}

ig_status ig__tdict_index(ig__trun *r, ig__tdict *d)
{
    sorter s = {.r = r, .dict = d};
    return merge_sort(&s, d->order, d->n);
}
