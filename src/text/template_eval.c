/* Evaluating expressions: Python's rules over the values of template_int.h. Each result is
 * markup only if all that it was computed from is.
 */
#include "text/template_int.h"

#include <math.h>
#include <string.h>

/* ---- names, attributes, items ---- */

static ig_status eval_name(ig__trun *r, ig__tvalue *out, int sym)
{
    for (const ig__tframe *f = r->frame; f; f = f->parent) {
        IG_TRY(ig__trun_step(r, f->n * sizeof *f->vars));
        for (size_t i = 0; i < f->n; i++) {
            if (f->vars[i].sym == sym) {
                *out = f->vars[i].value;
                return IG_OK;
            }
        }
    }
    const ig__tsymbol *s = &r->tmpl->symbols[sym];
    *out = r->root[sym];
    if (out->kind == IG_T_UNDEFINED && s->global)
        *out = (ig__tvalue){.kind = IG_T_FUNCTION, .markup = true, .function = s->global};
    else if (out->kind == IG_T_UNDEFINED)
        *out = ig__tundefined(s->name);
    return IG_OK;
}

static ig_status loop_attr(ig__tvalue *out, const ig__tloop *loop, const char *name)
{
    const int64_t i = (int64_t)loop->i, n = (int64_t)loop->items->n;
    const struct {
        const char *name;
        ig__tvalue value;
    } rows[] = {
        {"index", ig__tint(i + 1, true)},    {"index0", ig__tint(i, true)},
        {"revindex", ig__tint(n - i, true)}, {"revindex0", ig__tint(n - i - 1, true)},
        {"first", ig__tbool(i == 0, true)},  {"last", ig__tbool(i == n - 1, true)},
        {"length", ig__tint(n, true)},       {"depth", ig__tint(1, true)},
        {"depth0", ig__tint(0, true)},
    };
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        if (strcmp(name, rows[k].name) == 0) {
            *out = rows[k].value;
            return IG_OK;
        }
    }
    if (strcmp(name, "previtem") == 0 && i > 0)
        *out = loop->items->items[i - 1];
    else if (strcmp(name, "nextitem") == 0 && i + 1 < n)
        *out = loop->items->items[i + 1];
    return IG_OK;
}

static ig_status bind_method(ig__trun *r, ig__tvalue *out, ig__tvalue self,
                             const char *name)
{
    const ig__tbuiltin *b = ig__tmethod_find((ig__tkind)self.kind, name);
    if (!b)
        return IG_OK;
    ig__tmethod *method = ig__trun_alloc(r, sizeof *method);
    if (!method)
        return r->status;
    *method = (ig__tmethod){self, b};
    *out = (ig__tvalue){.kind = IG_T_METHOD, .markup = true, .method = method};
    return IG_OK;
}

ig_status ig__tget_attr(ig__trun *r, ig__tvalue *out, ig__tvalue of, const char *name)
{
    *out = ig__tundefined(name);
    if (of.kind == IG_T_UNDEFINED)
        return ig__trun_undefined(r, of);
    if (of.kind == IG_T_LOOP)
        IG_TRY(loop_attr(out, of.loop, name));
    if (out->kind == IG_T_UNDEFINED)
        IG_TRY(bind_method(r, out, of, name));
    if (out->kind == IG_T_UNDEFINED &&
        (of.kind == IG_T_DICT || of.kind == IG_T_NAMESPACE)) {
        const ig__tvalue *v = ig__tdict_find_text(of.dict, name, strlen(name));
        if (v)
            *out = *v;
    }
    return IG_OK;
}

/* Index of Python's kind: from the end when negative. False: outside. */
static bool resolve_index(size_t *out, int64_t i, size_t n)
{
    if (i < 0)
        i += (int64_t)n;
    *out = (size_t)i;
    return i >= 0 && (uint64_t)i < n;
}

static ig_status string_item(ig__trun *r, ig__tvalue *out, const ig__tstr *s, int64_t i)
{
    size_t at;
    IG_TRY(ig__trun_step(r, s->n));
    if (!resolve_index(&at, i, ig__tstr_length(s)))
        return IG_OK;
    const size_t from = ig__tstr_offset(s, at);
    uint32_t code;
    return ig__tstr_cut(r, out, s, from,
                        from + ig__tutf8(s->bytes + from, s->n - from, &code));
}

ig_status ig__tget_item(ig__trun *r, ig__tvalue *out, ig__tvalue of, ig__tvalue key)
{
    size_t at;
    *out = ig__tundefined("the item");
    if (of.kind == IG_T_UNDEFINED)
        return ig__trun_undefined(r, of);
    if (of.kind == IG_T_DICT) {
        const ig__tvalue *v = ig__tdict_find(of.dict, key);
        if (v) {
            *out = *v;
            return IG_OK;
        }
    }
    const bool whole = key.kind == IG_T_INT || key.kind == IG_T_BOOL;
    if (of.kind == IG_T_STRING && whole)
        return string_item(r, out, of.s, ig__twhole(key));
    if (ig__tis_list(of) && whole && resolve_index(&at, ig__twhole(key), of.list->n))
        *out = of.list->items[at];
    char name[128];
    if (key.kind != IG_T_STRING || key.s->n >= sizeof name)
        return IG_OK;
    memcpy(name, key.s->bytes, key.s->n);
    name[key.s->n] = 0;
    if (of.kind != IG_T_NAMESPACE)
        IG_TRY(ig__tget_attr(r, out, of, name));
    if (out->kind == IG_T_UNDEFINED)
        out->name = "the item";
    return IG_OK;
}

/* ---- slices ---- */

static ig_status eval_whole(ig__trun *r, int64_t *out, const ig__tnode *node,
                            int64_t absent)
{
    ig__tvalue v = ig__tnone();
    if (node)
        IG_TRY(ig__teval(r, &v, node));
    if (v.kind == IG_T_NONE)
        v = ig__tint(absent, true);
    if (v.kind != IG_T_INT && v.kind != IG_T_BOOL)
        return ig__trun_fail(r, IG_ERR_FORMAT, "a slice wants whole numbers, found %s",
                             ig__tkind_name(v));
    *out = ig__twhole(v);
    return IG_OK;
}

static int64_t clamp_bound(int64_t i, int64_t low, int64_t high, int64_t n)
{
    if (i < 0)
        i = i < -n ? -1 : i + n; /* -1: in front of all */
    return i < low ? low : i > high ? high : i;
}

/* v[from:to:step] as a list or string; `n` items or code points. */
static ig_status slice_items(ig__trun *r, ig__tvalue *out, ig__tvalue v, int64_t from,
                             int64_t to, int64_t step)
{
    const bool is_string = v.kind == IG_T_STRING;
    ig__tout text = {.r = r};
    const ig__tlist *items;
    if (is_string && step == 1) {
        const size_t first = ig__tstr_offset(v.s, (size_t)from);
        const size_t last = to > from ? ig__tstr_offset(v.s, (size_t)to) : first;
        return ig__tstr_cut(r, out, v.s, first, last);
    }
    IG_TRY(ig__titerate(r, &items, v));
    if (!is_string)
        IG_TRY(ig__tlist_make(r, out, (ig__tkind)v.kind, 0, v.markup));
    for (int64_t i = from; step > 0 ? i < to : i > to;) {
        if (is_string)
            IG_TRY(ig__tout_str(&text, items->items[i].s));
        else
            IG_TRY(ig__tlist_push(r, out->list, items->items[i]));
        if (step > 0 ? step >= to - i : step <= to - i)
            break;
        i += step;
    }
    IG_TRY(ig__trun_step(r, items->n * sizeof v));
    return is_string ? ig__tout_finish(&text, out) : IG_OK;
}

static ig_status eval_slice(ig__trun *r, ig__tvalue *out, ig__tvalue v,
                            const ig__tnode *node)
{
    int64_t from, to, step;
    if (v.kind == IG_T_UNDEFINED)
        return ig__trun_undefined(r, v);
    if (v.kind != IG_T_STRING && !ig__tis_list(v))
        return ig__trun_fail(r, IG_ERR_FORMAT, "a value of type %s cannot be sliced",
                             ig__tkind_name(v));
    const int64_t n = (int64_t)(v.kind == IG_T_STRING ? ig__tstr_length(v.s) : v.list->n);
    IG_TRY(eval_whole(r, &step, node->c, 1));
    if (step == 0)
        return ig__trun_fail(r, IG_ERR_FORMAT, "the step of a slice is 0");
    IG_TRY(eval_whole(r, &from, node->a, step > 0 ? 0 : INT64_MAX));
    IG_TRY(eval_whole(r, &to, node->b, step > 0 ? INT64_MAX : INT64_MIN));
    const int64_t low = step > 0 ? 0 : -1, high = step > 0 ? n : n - 1;
    from = clamp_bound(from, low, high, n);
    to = clamp_bound(to, low, high, n);
    if (v.kind == IG_T_STRING)
        IG_TRY(ig__trun_step(r, v.s->n));
    return slice_items(r, out, v, from, to, step);
}

/* ---- arithmetic ---- */

static ig_status overflow(ig__trun *r)
{
    return ig__trun_fail(r, IG_ERR_LIMIT, "a whole number passes 64 bits");
}

ig_status ig__tadd(ig__trun *r, ig__tvalue *out, ig__tvalue a, ig__tvalue b)
{
    const bool markup = a.markup && b.markup;
    if (a.kind == IG_T_STRING && b.kind == IG_T_STRING)
        return ig__tstr_concat(r, out, a.s, b.s);
    if (ig__tis_list(a) && a.kind == b.kind)
        return ig__tlist_concat(r, out, a, b);
    if (a.kind == IG_T_UNDEFINED || b.kind == IG_T_UNDEFINED)
        return ig__trun_undefined(r, a.kind == IG_T_UNDEFINED ? a : b);
    if (!ig__tis_number(a) || !ig__tis_number(b))
        return ig__trun_fail(r, IG_ERR_FORMAT, "'+' of %s and %s", ig__tkind_name(a),
                             ig__tkind_name(b));
    if (a.kind == IG_T_FLOAT || b.kind == IG_T_FLOAT) {
        *out = ig__tfloat(ig__tnumber(a) + ig__tnumber(b), markup);
        return IG_OK;
    }
    int64_t sum;
    if (__builtin_add_overflow(ig__twhole(a), ig__twhole(b), &sum))
        return overflow(r);
    *out = ig__tint(sum, markup);
    return IG_OK;
}

/* A string or list n times. */
static ig_status repeat(ig__trun *r, ig__tvalue *out, ig__tvalue v, int64_t n)
{
    ig__tout text = {.r = r};
    const bool is_string = v.kind == IG_T_STRING;
    const size_t size = is_string ? v.s->n : v.list->n;
    const size_t max = is_string ? IG_TMAX_TEXT : IG_TMAX_ITEMS;
    if (size && n > 0 && (uint64_t)n > max / size)
        return ig__trun_fail(r, IG_ERR_LIMIT, "'*' would make more than %zu %s", max,
                             is_string ? "bytes" : "items");
    if (!is_string)
        IG_TRY(ig__tlist_make(r, out, (ig__tkind)v.kind, 0, v.markup));
    for (int64_t k = 0; size && k < n; k++) {
        if (is_string)
            IG_TRY(ig__tout_str(&text, v.s));
        for (size_t i = 0; !is_string && i < size; i++)
            IG_TRY(ig__tlist_push(r, out->list, v.list->items[i]));
        IG_TRY(ig__trun_step(r, size));
    }
    return is_string ? ig__tout_finish(&text, out) : IG_OK;
}

static ig_status power_whole(ig__trun *r, ig__tvalue *out, int64_t a, int64_t b,
                             bool markup)
{
    int64_t result = 1;
    while (b > 0) {
        if ((b & 1) && __builtin_mul_overflow(result, a, &result))
            return overflow(r);
        b >>= 1;
        if (b && __builtin_mul_overflow(a, a, &a))
            return overflow(r);
    }
    *out = ig__tint(result, markup);
    return IG_OK;
}

/* - * // % ** of whole numbers; division rounds down, as in Python. */
static ig_status whole_op(ig__trun *r, ig__tvalue *out, int op, int64_t a, int64_t b,
                          bool markup)
{
    int64_t v = 0;
    switch (op) {
    case '-':
        if (__builtin_sub_overflow(a, b, &v))
            return overflow(r);
        break;
    case '*':
        if (__builtin_mul_overflow(a, b, &v))
            return overflow(r);
        break;
    case IG_TOP_POWER:
        return power_whole(r, out, a, b, markup);
    default:
        if (a == INT64_MIN && b == -1) {
            if (op == IG_TOP_FLOOR)
                return overflow(r);
            break; /* the rest is 0 */
        }
        v = a % b;
        const bool down = v != 0 && (v < 0) != (b < 0);
        v = op == '%' ? v + (down ? b : 0) : a / b - down;
    }
    *out = ig__tint(v, markup);
    return IG_OK;
}

static double float_op(int op, double a, double b)
{
    double m;
    switch (op) {
    case '-':
        return a - b;
    case '*':
        return a * b;
    case '/':
        return a / b;
    case IG_TOP_FLOOR:
        return floor(a / b);
    case IG_TOP_POWER:
        return pow(a, b);
    default:
        m = fmod(a, b);
        return m != 0 && (m < 0) != (b < 0) ? m + b : m;
    }
}

static ig_status tilde(ig__trun *r, ig__tvalue *out, ig__tvalue a, ig__tvalue b)
{
    const ig__tstr *x, *y;
    IG_TRY(ig__tto_string(r, &x, a));
    IG_TRY(ig__tto_string(r, &y, b));
    return ig__tstr_concat(r, out, x, y);
}

static ig_status arithmetic(ig__trun *r, ig__tvalue *out, int op, ig__tvalue a,
                            ig__tvalue b)
{
    if (op == '+')
        return ig__tadd(r, out, a, b);
    if (op == '~')
        return tilde(r, out, a, b);
    if (a.kind == IG_T_UNDEFINED || b.kind == IG_T_UNDEFINED)
        return ig__trun_undefined(r, a.kind == IG_T_UNDEFINED ? a : b);
    const bool whole_b = b.kind == IG_T_INT || b.kind == IG_T_BOOL;
    const bool whole_a = a.kind == IG_T_INT || a.kind == IG_T_BOOL;
    if (op == '*' && (a.kind == IG_T_STRING || ig__tis_list(a)) && whole_b)
        return repeat(r, out, a, ig__twhole(b));
    if (op == '*' && (b.kind == IG_T_STRING || ig__tis_list(b)) && whole_a)
        return repeat(r, out, b, ig__twhole(a));
    if (!ig__tis_number(a) || !ig__tis_number(b)) {
        const char *text = op == IG_TOP_FLOOR ? "//" : op == IG_TOP_POWER ? "**" : "";
        return ig__trun_fail(r, IG_ERR_FORMAT, "'%s%.1s' of %s and %s", text,
                             op < 128 ? (const char[2]){(char)op, 0} : "",
                             ig__tkind_name(a), ig__tkind_name(b));
    }
    if ((op == '/' || op == '%' || op == IG_TOP_FLOOR) && ig__tnumber(b) == 0)
        return ig__trun_fail(r, IG_ERR_FORMAT, "division by zero");
    const bool markup = a.markup && b.markup;
    const bool whole =
        whole_a && whole_b && op != '/' && !(op == IG_TOP_POWER && ig__twhole(b) < 0);
    if (whole)
        return whole_op(r, out, op, ig__twhole(a), ig__twhole(b), markup);
    *out = ig__tfloat(float_op(op, ig__tnumber(a), ig__tnumber(b)), markup);
    return IG_OK;
}

static ig_status eval_chain(ig__trun *r, ig__tvalue *out, const ig__tnode *node)
{
    ig__tvalue right;
    IG_TRY(ig__teval(r, out, node->a));
    for (const ig__tnode *op = node->list; op; op = op->next) {
        IG_TRY(ig__teval(r, &right, op->a));
        r->line = op->line;
        IG_TRY(arithmetic(r, out, op->op, *out, right));
    }
    return IG_OK;
}

static ig_status eval_sign(ig__trun *r, ig__tvalue *out, const ig__tnode *node)
{
    IG_TRY(ig__teval(r, out, node->a));
    if (!ig__tis_number(*out))
        return out->kind == IG_T_UNDEFINED
                   ? ig__trun_undefined(r, *out)
                   : ig__trun_fail(r, IG_ERR_FORMAT, "the sign of a %s",
                                   ig__tkind_name(*out));
    if (out->kind == IG_T_FLOAT)
        out->f = node->kind == IG_TN_NEG ? -out->f : out->f;
    else if (node->kind == IG_TN_NEG)
        return whole_op(r, out, '-', 0, ig__twhole(*out), out->markup);
    return IG_OK;
}

/* ---- comparison and logic ---- */

static ig_status compare(ig__trun *r, bool *out, int op, ig__tvalue a, ig__tvalue b)
{
    int c;
    switch (op) {
    case IG_TOP_EQ:
        return ig__tequal(r, out, a, b);
    case IG_TOP_NE:
        IG_TRY(ig__tequal(r, out, a, b));
        *out = !*out;
        return IG_OK;
    case IG_TOP_IN:
        return ig__tcontains(r, out, b, a);
    case IG_TOP_NOT_IN:
        IG_TRY(ig__tcontains(r, out, b, a));
        *out = !*out;
        return IG_OK;
    default:
        IG_TRY(ig__torder(r, &c, a, b));
        *out = op == '<' ? c < 0 : op == '>' ? c > 0 : op == IG_TOP_LE ? c <= 0 : c >= 0;
        return IG_OK;
    }
}

static ig_status eval_compare(ig__trun *r, ig__tvalue *out, const ig__tnode *node)
{
    ig__tvalue left, right;
    bool ok = true, markup = true;
    IG_TRY(ig__teval(r, &left, node->a));
    for (const ig__tnode *op = node->list; ok && op; op = op->next) {
        IG_TRY(ig__teval(r, &right, op->a));
        r->line = op->line;
        IG_TRY(compare(r, &ok, op->op, left, right));
        markup = markup && left.markup && right.markup;
        left = right;
    }
    *out = ig__tbool(ok, markup);
    return IG_OK;
}

/* The value that decides, as in Python. */
static ig_status eval_logic(ig__trun *r, ig__tvalue *out, const ig__tnode *node)
{
    const bool stop = node->kind == IG_TN_OR;
    for (const ig__tnode *n = node->list; n; n = n->next) {
        IG_TRY(ig__teval(r, out, n));
        if (ig__ttruth(*out) == stop)
            break;
    }
    return IG_OK;
}

static ig_status eval_ternary(ig__trun *r, ig__tvalue *out, const ig__tnode *node)
{
    IG_TRY(ig__teval(r, out, node->a));
    const ig__tnode *chosen = ig__ttruth(*out) ? node->b : node->c;
    *out = ig__tundefined("the value of an if without else");
    return chosen ? ig__teval(r, out, chosen) : IG_OK;
}

static ig_status eval_list(ig__trun *r, ig__tvalue *out, const ig__tnode *node)
{
    const ig__tkind kind = node->kind == IG_TN_LIST ? IG_T_LIST : IG_T_TUPLE;
    IG_TRY(ig__tlist_make(r, out, kind, 0, true));
    for (const ig__tnode *n = node->list; n; n = n->next) {
        ig__tvalue item;
        IG_TRY(ig__teval(r, &item, n));
        IG_TRY(ig__tlist_push(r, out->list, item));
    }
    return IG_OK;
}

static ig_status eval_dict(ig__trun *r, ig__tvalue *out, const ig__tnode *node)
{
    IG_TRY(ig__tdict_make(r, out, IG_T_DICT, 0, true));
    for (const ig__tnode *n = node->list; n; n = n->next) {
        ig__tvalue key, value;
        IG_TRY(ig__teval(r, &key, n->a));
        IG_TRY(ig__teval(r, &value, n->b));
        IG_TRY(ig__tdict_set(r, out->dict, key, value));
    }
    return IG_OK;
}

/* ---- calls ---- */

static ig_status eval_args(ig__trun *r, ig__targs *args, const ig__tnode *list)
{
    size_t n = 0, i_pos = 0, i_named = 0;
    *args = (ig__targs){0};
    for (const ig__tnode *a = list; a; a = a->next)
        n++;
    if (n == 0)
        return IG_OK;
    ig__tvalue *values = ig__trun_alloc(r, n * sizeof *values);
    const char **names = ig__trun_alloc(r, n * sizeof *names);
    if (!values || !names)
        return r->status;
    for (const ig__tnode *a = list; a; a = a->next) {
        if (a->kind != IG_TN_KWARG) {
            if (i_named)
                return ig__trun_fail(r, IG_ERR_FORMAT,
                                     "a positional argument behind a named one");
            IG_TRY(ig__teval(r, &values[i_pos++], a));
            continue;
        }
        names[i_named] = a->text;
        IG_TRY(ig__teval(r, &values[i_pos + i_named++], a->a));
    }
    args->pos = values;
    args->n_pos = i_pos;
    args->names = names;
    args->named = values + i_pos;
    args->n_named = i_named;
    return IG_OK;
}

static ig_status call_value(ig__trun *r, ig__tvalue *v, const ig__tnode *node)
{
    ig__targs args;
    const ig__tvalue f = *v;
    IG_TRY(eval_args(r, &args, node->list));
    r->line = node->line;
    switch ((ig__tkind)f.kind) {
    case IG_T_FUNCTION:
        return ig__tbuiltin_call(r, v, f.function, ig__tnone(), &args);
    case IG_T_METHOD:
        return ig__tbuiltin_call(r, v, f.method->builtin, f.method->self, &args);
    case IG_T_MACRO:
        return ig__tmacro_call(r, v, f.macro, &args);
    case IG_T_UNDEFINED:
        return ig__trun_undefined(r, f);
    default:
        return ig__trun_fail(r, IG_ERR_FORMAT, "a value of type %s cannot be called",
                             ig__tkind_name(f));
    }
}

static ig_status apply_builtin(ig__trun *r, ig__tvalue *v, const ig__tnode *node)
{
    ig__targs args;
    const ig__tvalue self = *v;
    if (!node->builtin)
        return ig__trun_fail(r, IG_ERR_UNSUPPORTED, "there is no %s '%s'",
                             node->kind == IG_TN_TEST ? "test" : "filter", node->text);
    IG_TRY(eval_args(r, &args, node->list));
    r->line = node->line;
    IG_TRY(ig__tbuiltin_call(r, v, node->builtin, self, &args));
    if (node->kind != IG_TN_TEST)
        return IG_OK;
    v->b = v->b != (node->op != 0);
    for (size_t i = 0; i < args.n_pos; i++)
        v->markup = v->markup && args.pos[i].markup;
    return IG_OK;
}

static ig_status apply_suffix(ig__trun *r, ig__tvalue *v, const ig__tnode *node)
{
    ig__tvalue key;
    const ig__tvalue of = *v;
    r->line = node->line;
    switch ((ig__tnode_kind)node->kind) {
    case IG_TN_ATTR:
        return ig__tget_attr(r, v, of, node->text);
    case IG_TN_ITEM:
        IG_TRY(ig__teval(r, &key, node->a));
        return ig__tget_item(r, v, of, key);
    case IG_TN_SLICE:
        return eval_slice(r, v, of, node);
    case IG_TN_CALL:
        return call_value(r, v, node);
    default:
        return apply_builtin(r, v, node);
    }
}

ig_status ig__teval_suffixes(ig__trun *r, ig__tvalue *v, const ig__tnode *first)
{
    for (const ig__tnode *n = first; n; n = n->next) {
        IG_TRY(ig__trun_step(r, 0));
        IG_TRY(apply_suffix(r, v, n));
    }
    return IG_OK;
}

static ig_status eval_kind(ig__trun *r, ig__tvalue *out, const ig__tnode *node)
{
    switch ((ig__tnode_kind)node->kind) {
    case IG_TN_CONST:
        *out = node->value;
        return IG_OK;
    case IG_TN_NAME:
        return eval_name(r, out, node->sym);
    case IG_TN_LIST:
    case IG_TN_TUPLE:
        return eval_list(r, out, node);
    case IG_TN_DICT:
        return eval_dict(r, out, node);
    case IG_TN_CHAIN:
        return eval_chain(r, out, node);
    case IG_TN_COMPARE:
        return eval_compare(r, out, node);
    case IG_TN_AND:
    case IG_TN_OR:
        return eval_logic(r, out, node);
    case IG_TN_NOT:
        IG_TRY(ig__teval(r, out, node->a));
        *out = ig__tbool(!ig__ttruth(*out), out->markup);
        return IG_OK;
    case IG_TN_NEG:
    case IG_TN_POS:
        return eval_sign(r, out, node);
    case IG_TN_TERNARY:
        return eval_ternary(r, out, node);
    case IG_TN_POSTFIX:
        IG_TRY(ig__teval(r, out, node->a));
        return ig__teval_suffixes(r, out, node->list);
    default:
        return ig__trun_fail(r, IG_ERR_INTERNAL, "node %d is no expression", node->kind);
    }
}

ig_status ig__teval(ig__trun *r, ig__tvalue *out, const ig__tnode *node)
{
    *out = ig__tundefined(NULL);
    r->line = node->line;
    IG_TRY(ig__trun_step(r, 0));
    if (++r->depth > IG_TMAX_DEPTH)
        return ig__trun_fail(r, IG_ERR_LIMIT, "evaluation nests deeper than %d",
                             IG_TMAX_DEPTH);
    IG_TRY(eval_kind(r, out, node));
    r->depth--;
    return IG_OK;
}
