/* Running statements: output, control flow, variables and macros.
 *
 * Scopes are Jinja's: a loop's round, a macro, a with and a block set have variables of
 * their own that end with them; an if has none. Failure ends the run, so nothing is put
 * back on the way out of an error.
 */
#include "text/template_int.h"

#include <string.h>

/* ---- variables ---- */

static ig_status frame_set(ig__trun *r, ig__tframe *f, int sym, ig__tvalue value)
{
    for (size_t i = 0; i < f->n; i++) {
        if (f->vars[i].sym == sym) {
            f->vars[i].value = value;
            return IG_OK;
        }
    }
    if (f->n == f->cap) {
        const size_t cap = f->cap ? f->cap * 2 : 8;
        ig__tvar *vars = ig__trun_alloc(r, cap * sizeof *vars);
        if (!vars)
            return r->status;
        if (f->n)
            memcpy(vars, f->vars, f->n * sizeof *vars);
        f->vars = vars;
        f->cap = cap;
    }
    f->vars[f->n++] = (ig__tvar){sym, value};
    return ig__trun_step(r, f->n * sizeof *f->vars);
}

ig_status ig__tvar_set(ig__trun *r, int sym, ig__tvalue value)
{
    if (r->frame)
        return frame_set(r, r->frame, sym, value);
    r->root[sym] = value;
    return IG_OK;
}

static ig_status frame_push(ig__trun *r, ig__tframe *parent)
{
    ig__tframe *f = ig__trun_alloc(r, sizeof *f);
    if (!f)
        return r->status;
    *f = (ig__tframe){.parent = parent};
    r->frame = f;
    return IG_OK;
}

static ig_status namespace_set(ig__trun *r, const ig__tnode *target, ig__tvalue value)
{
    ig__tvalue ns;
    const ig__tnode name = {.kind = IG_TN_NAME, .line = target->line, .sym = target->sym};
    IG_TRY(ig__teval(r, &ns, &name));
    if (ns.kind != IG_T_NAMESPACE)
        return ig__trun_fail(r, IG_ERR_FORMAT, "'%s.%s' can be set on a namespace only",
                             r->tmpl->symbols[target->sym].name, target->text);
    ig__tvalue key;
    IG_TRY(ig__tstr_make(r, &key, target->text, strlen(target->text), true));
    return ig__tdict_set(r, ns.dict, key, value);
}

/* Set a name, ns.name, or each of a tuple. The parser bounds the nesting. */
static ig_status assign(ig__trun *r, const ig__tnode *target, ig__tvalue value)
{
    if (target->kind == IG_TN_NAME)
        return ig__tvar_set(r, target->sym, value);
    if (target->kind == IG_TN_NSATTR)
        return namespace_set(r, target, value);
    const ig__tlist *items;
    size_t n = 0;
    IG_TRY(ig__titerate(r, &items, value));
    for (const ig__tnode *t = target->list; t; t = t->next)
        n++;
    if (items->n != n)
        return ig__trun_fail(r, IG_ERR_FORMAT, "%zu names to set from %zu values", n,
                             items->n);
    n = 0;
    for (const ig__tnode *t = target->list; t; t = t->next)
        IG_TRY(assign(r, t, items->items[n++]));
    return IG_OK;
}

/* ---- captures and macros ---- */

/* Run a body and catch what it writes. */
static ig_status capture(ig__trun *r, ig__tvalue *out, const ig__tnode *body)
{
    ig__tout text = {.r = r};
    ig__tout *outer = r->out;
    r->out = &text;
    IG_TRY(ig__texec(r, body));
    r->out = outer;
    return ig__tout_finish(&text, out);
}

static const ig__tvalue *named_arg(const ig__targs *args, const char *name)
{
    for (size_t i = 0; i < args->n_named; i++)
        if (strcmp(args->names[i], name) == 0)
            return &args->named[i];
    return NULL;
}

/* Parameters as variables of the macro's frame, which is current: defaults may use earlier
 * ones. */
static ig_status bind_params(ig__trun *r, const ig__tmacro *macro, const ig__targs *args)
{
    size_t i = 0, n_used = 0;
    for (const ig__tnode *p = macro->node->list; p; p = p->next, i++) {
        const ig__tvalue *named = named_arg(args, p->text);
        ig__tvalue v = ig__tundefined(p->text);
        if (named && i < args->n_pos)
            return ig__trun_fail(r, IG_ERR_FORMAT, "macro '%s' is given '%s' twice",
                                 macro->name, p->text);
        if (i < args->n_pos)
            v = args->pos[i];
        else if (named)
            v = *named;
        else if (p->a)
            IG_TRY(ig__teval(r, &v, p->a));
        n_used += named != NULL;
        IG_TRY(ig__tvar_set(r, p->sym, v));
    }
    const ig__tvalue *caller = named_arg(args, "caller");
    if (caller) {
        IG_TRY(ig__tvar_set(r, r->tmpl->sym_caller, *caller));
        n_used++;
    }
    if (args->n_pos > i)
        return ig__trun_fail(r, IG_ERR_FORMAT, "macro '%s' takes %zu arguments, found %zu",
                             macro->name, i, args->n_pos);
    if (n_used < args->n_named)
        return ig__trun_fail(r, IG_ERR_FORMAT, "macro '%s' has no such named argument",
                             macro->name);
    return IG_OK;
}

ig_status ig__tmacro_call(ig__trun *r, ig__tvalue *out, const ig__tmacro *macro,
                          const ig__targs *args)
{
    ig__tframe *outer = r->frame;
    if (++r->n_macros > IG_TMAX_NEST)
        return ig__trun_fail(r, IG_ERR_LIMIT, "macro '%s': calls nest deeper than %d",
                             macro->name, IG_TMAX_NEST);
    IG_TRY(frame_push(r, macro->frame));
    IG_TRY(bind_params(r, macro, args));
    IG_TRY(capture(r, out, macro->node->body));
    r->frame = outer;
    r->n_macros--;
    return IG_OK;
}

static ig_status make_macro(ig__trun *r, ig__tvalue *out, const ig__tnode *node)
{
    ig__tmacro *macro = ig__trun_alloc(r, sizeof *macro);
    if (!macro)
        return r->status;
    *macro = (ig__tmacro){node, r->frame, node->text};
    *out = (ig__tvalue){.kind = IG_T_MACRO, .markup = true, .macro = macro};
    return IG_OK;
}

/* {% call f(x) %}body{% endcall %}: f with the body as its `caller`. */
static ig_status exec_caller(ig__trun *r, const ig__tnode *node)
{
    ig__tnode call = *node->a, name = {.kind = IG_TN_KWARG, .line = node->line};
    ig__tnode value = {.kind = IG_TN_CONST, .line = node->line};
    ig__tvalue v;
    IG_TRY(make_macro(r, &value.value, node));
    name.text = "caller";
    name.a = &value;
    IG_TRY(ig__teval(r, &v, call.a));
    /* all suffixes but the last as they are; the last is the call */
    const ig__tnode *last = call.list;
    for (; last->next; last = last->next) {
        ig__tnode one = *last;
        one.next = NULL;
        IG_TRY(ig__teval_suffixes(r, &v, &one));
    }
    ig__tnode with = *last;
    ig__tnode **tail = &with.list;
    while (*tail) { /* the arguments are copied: the template is shared */
        ig__tnode *copy = ig__trun_alloc(r, sizeof *copy);
        if (!copy)
            return r->status;
        *copy = **tail;
        *tail = copy;
        tail = &copy->next;
    }
    *tail = &name;
    IG_TRY(ig__teval_suffixes(r, &v, &with));
    return ig__tout_value(r->out, v);
}

/* ---- statements ---- */

static ig_status exec_if(ig__trun *r, const ig__tnode *node)
{
    for (const ig__tnode *branch = node->list; branch; branch = branch->next) {
        ig__tvalue v;
        if (!branch->a)
            return ig__texec(r, branch->body);
        IG_TRY(ig__teval(r, &v, branch->a));
        if (ig__ttruth(v))
            return ig__texec(r, branch->body);
    }
    return IG_OK;
}

/* The items that the loop's condition lets through. */
static ig_status filter_items(ig__trun *r, const ig__tlist **items, const ig__tnode *node)
{
    ig__tvalue kept, v;
    IG_TRY(ig__tlist_make(r, &kept, IG_T_LIST, 0, false));
    for (size_t i = 0; i < (*items)->n; i++) {
        r->frame->n = 0;
        IG_TRY(assign(r, node->a, (*items)->items[i]));
        IG_TRY(ig__teval(r, &v, node->c));
        if (ig__ttruth(v))
            IG_TRY(ig__tlist_push(r, kept.list, (*items)->items[i]));
    }
    *items = kept.list;
    return IG_OK;
}

static ig_status run_rounds(ig__trun *r, const ig__tnode *node, ig__tloop *loop)
{
    const ig__tvalue self = {.kind = IG_T_LOOP, .markup = true, .loop = loop};
    for (loop->i = 0; loop->i < loop->items->n; loop->i++) {
        r->frame->n = 0;
        IG_TRY(ig__tvar_set(r, r->tmpl->sym_loop, self));
        IG_TRY(assign(r, node->a, loop->items->items[loop->i]));
        IG_TRY(ig__texec(r, node->body));
        const bool stop = r->flow == IG_TFLOW_BREAK;
        r->flow = IG_TFLOW_ON;
        if (stop)
            break;
    }
    return IG_OK;
}

static ig_status exec_for(ig__trun *r, const ig__tnode *node)
{
    ig__tvalue v;
    const ig__tlist *items;
    ig__tframe *outer = r->frame;
    IG_TRY(ig__teval(r, &v, node->b));
    IG_TRY(ig__titerate(r, &items, v));
    IG_TRY(frame_push(r, outer));
    if (node->c)
        IG_TRY(filter_items(r, &items, node));
    ig__tloop *loop = ig__trun_alloc(r, sizeof *loop);
    ig__tlist *fixed = ig__trun_alloc(r, sizeof *fixed);
    if (!loop || !fixed)
        return r->status;
    *fixed = *items; /* what the body appends is not walked */
    *loop = (ig__tloop){.items = fixed};
    IG_TRY(run_rounds(r, node, loop));
    r->frame = outer;
    return fixed->n == 0 && node->d ? ig__texec(r, node->d->body) : IG_OK;
}

/* A block's text through filters, in a scope of its own. */
static ig_status captured_block(ig__trun *r, ig__tvalue *out, const ig__tnode *node)
{
    ig__tframe *outer = r->frame;
    IG_TRY(frame_push(r, outer));
    IG_TRY(capture(r, out, node->body));
    r->frame = outer;
    return node->d ? ig__teval_suffixes(r, out, node->d->list) : IG_OK;
}

static ig_status exec_set(ig__trun *r, const ig__tnode *node)
{
    ig__tvalue v;
    if (node->b)
        IG_TRY(ig__teval(r, &v, node->b));
    else
        IG_TRY(captured_block(r, &v, node));
    return assign(r, node->a, v);
}

static ig_status exec_with(ig__trun *r, const ig__tnode *node)
{
    ig__tframe *outer = r->frame;
    IG_TRY(frame_push(r, outer));
    for (const ig__tnode *pair = node->list; pair; pair = pair->next) {
        ig__tvalue v;
        IG_TRY(ig__teval(r, &v, pair->b));
        IG_TRY(assign(r, pair->a, v));
    }
    IG_TRY(ig__texec(r, node->body));
    r->frame = outer;
    return IG_OK;
}

static ig_status exec_one(ig__trun *r, const ig__tnode *node)
{
    ig__tvalue v;
    switch ((ig__tnode_kind)node->kind) {
    case IG_TN_TEXT:
        return ig__tout_str(r->out, node->value.s);
    case IG_TN_OUTPUT:
        IG_TRY(ig__teval(r, &v, node->a));
        return ig__tout_value(r->out, v);
    case IG_TN_DO:
        return ig__teval(r, &v, node->a);
    case IG_TN_IF:
        return exec_if(r, node);
    case IG_TN_FOR:
        return exec_for(r, node);
    case IG_TN_SET:
        return exec_set(r, node);
    case IG_TN_MACRO:
        IG_TRY(make_macro(r, &v, node));
        return ig__tvar_set(r, node->sym, v);
    case IG_TN_CALLER:
        return exec_caller(r, node);
    case IG_TN_FILTERED:
        IG_TRY(captured_block(r, &v, node));
        return ig__tout_value(r->out, v);
    case IG_TN_WITH:
        return exec_with(r, node);
    case IG_TN_GROUP:
        return ig__texec(r, node->body);
    case IG_TN_BREAK:
        r->flow = IG_TFLOW_BREAK;
        return IG_OK;
    case IG_TN_CONTINUE:
        r->flow = IG_TFLOW_CONTINUE;
        return IG_OK;
    default:
        return ig__trun_fail(r, IG_ERR_INTERNAL, "node %d is no statement", node->kind);
    }
}

ig_status ig__texec(ig__trun *r, const ig__tnode *body)
{
    if (++r->depth > IG_TMAX_DEPTH)
        return ig__trun_fail(r, IG_ERR_LIMIT, "evaluation nests deeper than %d",
                             IG_TMAX_DEPTH);
    for (const ig__tnode *n = body; n && r->flow == IG_TFLOW_ON; n = n->next) {
        r->line = n->line;
        IG_TRY(ig__trun_step(r, 0));
        IG_TRY(exec_one(r, n));
    }
    r->depth--;
    return IG_OK;
}
