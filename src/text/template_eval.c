/* Evaluating expressions: Python's rules over the values of template_int.h. Each result is
 * markup only if all that it was computed from is.
 */
#include "text/template_int.h"

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
    if (key.kind != IG_T_STRING || key.s->n >= sizeof name ||
        memchr(key.s->bytes, 0, key.s->n))
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

/* ---- operators ---- */

static ig_status eval_chain(ig__trun *r, ig__tvalue *out, const ig__tnode *node)
{
    ig__tvalue right;
    IG_TRY(ig__teval(r, out, node->a));
    for (const ig__tnode *op = node->list; op; op = op->next) {
        IG_TRY(ig__teval(r, &right, op->a));
        r->line = op->line;
        IG_TRY(ig__tarithmetic(r, out, op->op, *out, right));
    }
    return IG_OK;
}

static ig_status eval_sign(ig__trun *r, ig__tvalue *out, const ig__tnode *node)
{
    IG_TRY(ig__teval(r, out, node->a));
    return ig__tsign(r, out, node->kind == IG_TN_NEG);
}

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
