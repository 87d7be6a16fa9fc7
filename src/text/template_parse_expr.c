/* The expressions of templates: recursive descent, loosest binding first:
 *
 *   a if b else c   or   and   not   == != < <= > >= in   + -   ~   * / // %   **
 *   unary - +       .name [item] (call)       |filter  is test
 *
 * Operators of one level become one chain and suffixes one list, so that the depth of the
 * tree is that of the brackets.
 */
#include "text/template_int.h"

#include <string.h>

static ig__tnode *parse_primary(ig__tparser *p);

/* Append to a chain whose last link is *tail. */
static void append(ig__tnode ***tail, ig__tnode *node)
{
    **tail = node;
    *tail = &node->next;
}

static ig__tnode *list_of(ig__tparser *p, ig__tnode_kind kind, ig__tnode *first)
{
    ig__tnode *n = ig__tparser_node(p, kind);
    if (n)
        n->list = first;
    return n;
}

ig__tnode *ig__tparse_tuple(ig__tparser *p)
{
    ig__tnode *first = ig__tparse_expr(p);
    if (!first || !ig__tparser_is_op(p, ','))
        return first;
    ig__tnode *tuple = list_of(p, IG_TN_TUPLE, first), **tail = &first->next;
    while (tuple && ig__tparser_take_op(p, ',')) {
        const ig__ttoken *t = p->at;
        if (t->kind == IG_TT_OUT_END || t->kind == IG_TT_TAG_END ||
            ig__tparser_is_op(p, ')') || ig__tparser_is_op(p, '='))
            break;
        ig__tnode *item = ig__tparse_expr(p);
        if (!item)
            return NULL;
        append(&tail, item);
    }
    return tuple;
}

/* Items up to `close`, commas between. */
static bool parse_items(ig__tparser *p, ig__tnode **list_out, int close)
{
    ig__tnode **tail = list_out;
    while (!ig__tparser_take_op(p, close)) {
        ig__tnode *item = ig__tparse_expr(p);
        if (!item)
            return false;
        append(&tail, item);
        if (!ig__tparser_take_op(p, ',') && !ig__tparser_is_op(p, close))
            return ig__tparser_expect_op(p, close);
    }
    return true;
}

static ig__tnode *parse_dict(ig__tparser *p)
{
    ig__tnode *dict = ig__tparser_node(p, IG_TN_DICT);
    if (!dict)
        return NULL;
    ig__tnode **tail = &dict->list;
    while (!ig__tparser_take_op(p, '}')) {
        ig__tnode *pair = ig__tparser_node(p, IG_TN_PAIR);
        if (!pair || !(pair->a = ig__tparse_expr(p)) || !ig__tparser_expect_op(p, ':') ||
            !(pair->b = ig__tparse_expr(p)))
            return NULL;
        append(&tail, pair);
        if (!ig__tparser_take_op(p, ',') && !ig__tparser_is_op(p, '}'))
            return ig__tparser_wanted(p, "',' or '}'");
    }
    return dict;
}

static ig__tnode *parse_paren(ig__tparser *p)
{
    if (ig__tparser_take_op(p, ')'))
        return ig__tparser_node(p, IG_TN_TUPLE);
    ig__tnode *n = ig__tparse_tuple(p);
    return n && ig__tparser_expect_op(p, ')') ? n : NULL;
}

static ig__tnode *constant(ig__tparser *p, ig__tvalue v)
{
    ig__tnode *n = ig__tparser_node(p, IG_TN_CONST);
    if (n)
        n->value = v;
    return n;
}

/* Neighbouring strings are one. */
static ig__tnode *parse_string(ig__tparser *p)
{
    size_t n = 0;
    const ig__ttoken *end = p->at;
    for (; end->kind == IG_TT_STRING; end++)
        n += end->n;
    ig__tstr *s = ig__tparser_alloc(p, sizeof *s);
    if (!s)
        return NULL;
    *s = (ig__tstr){.bytes = p->at->text, .n = n, .markup = true};
    ig__tnode *node = constant(p, ig__tstring(s));
    if (end - p->at > 1) {
        char *text = ig__tparser_alloc(p, n);
        if (!text)
            return NULL;
        s->bytes = text;
        for (const ig__ttoken *t = p->at; t < end; text += t++->n)
            memcpy(text, t->text, t->n);
    }
    p->at = end;
    return node;
}

static ig__tnode *parse_name(ig__tparser *p)
{
    static const struct {
        const char *name;
        ig__tvalue value;
    } words[] = {
        {"true", {.kind = IG_T_BOOL, .markup = true, .b = true}},
        {"True", {.kind = IG_T_BOOL, .markup = true, .b = true}},
        {"false", {.kind = IG_T_BOOL, .markup = true}},
        {"False", {.kind = IG_T_BOOL, .markup = true}},
        {"none", {.kind = IG_T_NONE, .markup = true}},
        {"None", {.kind = IG_T_NONE, .markup = true}},
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (ig__tparser_is_name(p, words[i].name)) {
            ig__tnode *n = constant(p, words[i].value);
            p->at++;
            return n;
        }
    }
    ig__tnode *n = ig__tparser_node(p, IG_TN_NAME);
    if (!n || (n->sym = ig__tparser_symbol(p, p->at->text, p->at->n)) < 0)
        return NULL;
    p->at++;
    return n;
}

static ig__tnode *parse_primary(ig__tparser *p)
{
    const ig__ttoken *t = p->at;
    ig__tnode *n;
    switch (t->kind) {
    case IG_TT_NAME:
        return parse_name(p);
    case IG_TT_STRING:
        return parse_string(p);
    case IG_TT_INT:
    case IG_TT_FLOAT:
        n = constant(p,
                     t->kind == IG_TT_INT ? ig__tint(t->i, true) : ig__tfloat(t->f, true));
        p->at++;
        return n;
    default:
        break;
    }
    if (ig__tparser_take_op(p, '('))
        return parse_paren(p);
    if (ig__tparser_take_op(p, '{'))
        return parse_dict(p);
    if (ig__tparser_take_op(p, '[')) {
        n = ig__tparser_node(p, IG_TN_LIST);
        return n && parse_items(p, &n->list, ']') ? n : NULL;
    }
    return ig__tparser_wanted(p, "an expression");
}

/* ---- suffixes ---- */

/* Behind the "(" of a call. */
static bool parse_args(ig__tparser *p, ig__tnode **list_out)
{
    ig__tnode **tail = list_out;
    int n = 0;
    while (!ig__tparser_take_op(p, ')')) {
        ig__tnode *arg;
        if (n++ == IG_TMAX_ARGS)
            return ig__tparser_fail(p, "a call with more than %d arguments", IG_TMAX_ARGS),
                   false;
        if (p->at->kind == IG_TT_NAME && p->at[1].kind == IG_TT_OP && p->at[1].op == '=') {
            arg = ig__tparser_node(p, IG_TN_KWARG);
            if (!arg || !(arg->text = ig__tparser_text(p, p->at)))
                return false;
            p->at += 2;
            arg->a = ig__tparse_expr(p);
            if (!arg->a)
                return false;
        } else if (!(arg = ig__tparse_expr(p))) {
            return false;
        }
        append(&tail, arg);
        if (!ig__tparser_take_op(p, ',') && !ig__tparser_is_op(p, ')'))
            return ig__tparser_expect_op(p, ')');
    }
    return true;
}

/* Behind a dot: a name, or a number as in a.0 */
static ig__tnode *parse_attr(ig__tparser *p)
{
    ig__tnode *n = NULL;
    if (p->at->kind == IG_TT_INT) {
        n = ig__tparser_node(p, IG_TN_ITEM);
        if (n)
            n->a = parse_primary(p);
        return n && n->a ? n : NULL;
    }
    if (p->at->kind != IG_TT_NAME)
        return ig__tparser_wanted(p, "a name behind '.'");
    n = ig__tparser_node(p, IG_TN_ATTR);
    if (!n || !(n->text = ig__tparser_text(p, p->at)))
        return NULL;
    p->at++;
    return n;
}

static bool at_slice_end(const ig__tparser *p)
{
    return ig__tparser_is_op(p, ':') || ig__tparser_is_op(p, ']');
}

/* Behind "[": an index, or a slice with any of its three parts left out. */
static ig__tnode *parse_subscript(ig__tparser *p)
{
    ig__tnode *n = ig__tparser_node(p, IG_TN_ITEM);
    if (!n)
        return NULL;
    ig__tnode **parts[] = {&n->a, &n->b, &n->c};
    for (int i = 0; i < 3; i++) {
        if (!at_slice_end(p) && !(*parts[i] = ig__tparse_tuple(p)))
            return NULL;
        if (i == 2 || !ig__tparser_take_op(p, ':'))
            break;
        n->kind = IG_TN_SLICE;
    }
    if (n->kind == IG_TN_ITEM && !n->a)
        return ig__tparser_wanted(p, "an index");
    return ig__tparser_expect_op(p, ']') ? n : NULL;
}

static ig__tnode *parse_call(ig__tparser *p)
{
    ig__tnode *n = ig__tparser_node(p, IG_TN_CALL);
    return n && parse_args(p, &n->list) ? n : NULL;
}

/* .name, [item] and (call) behind a base; adds to the list. */
static bool parse_postfix(ig__tparser *p, ig__tnode ***tail)
{
    for (;;) {
        ig__tnode *n;
        if (ig__tparser_take_op(p, '.'))
            n = parse_attr(p);
        else if (ig__tparser_take_op(p, '['))
            n = parse_subscript(p);
        else if (ig__tparser_take_op(p, '('))
            n = parse_call(p);
        else
            return true;
        if (!n)
            return false;
        append(tail, n);
    }
}

/* Behind "|": name and arguments. */
static ig__tnode *parse_filter(ig__tparser *p)
{
    if (p->at->kind != IG_TT_NAME)
        return ig__tparser_wanted(p, "the name of a filter");
    ig__tnode *n = ig__tparser_node(p, IG_TN_FILTER);
    if (!n || !(n->text = ig__tparser_text(p, p->at)))
        return NULL;
    p->at++;
    n->builtin = ig__tfilter_find(n->text);
    if (ig__tparser_take_op(p, '(') && !parse_args(p, &n->list))
        return NULL;
    return n;
}

/* Does an argument without brackets follow, as in "is divisibleby 3"? */
static bool at_test_arg(const ig__tparser *p)
{
    static const char *const words[] = {"else", "or", "and", "is", "if", "in", "not"};
    switch (p->at->kind) {
    case IG_TT_STRING:
    case IG_TT_INT:
    case IG_TT_FLOAT:
        return true;
    case IG_TT_NAME:
        for (size_t i = 0; i < sizeof words / sizeof *words; i++)
            if (ig__tparser_is_name(p, words[i]))
                return false;
        return true;
    default:
        return ig__tparser_is_op(p, '[') || ig__tparser_is_op(p, '{');
    }
}

/* Behind "is". */
static ig__tnode *parse_test(ig__tparser *p)
{
    ig__tnode *n = ig__tparser_node(p, IG_TN_TEST);
    if (!n)
        return NULL;
    n->op = ig__tparser_take_name(p, "not");
    if (p->at->kind != IG_TT_NAME)
        return ig__tparser_wanted(p, "the name of a test");
    n->text = ig__tparser_text(p, p->at);
    if (!n->text)
        return NULL;
    p->at++;
    n->builtin = ig__ttest_find(n->text);
    if (ig__tparser_take_op(p, '('))
        return parse_args(p, &n->list) ? n : NULL;
    if (!at_test_arg(p))
        return n;
    ig__tnode *arg = ig__tparser_node(p, IG_TN_POSTFIX);
    if (!arg || !(arg->a = parse_primary(p)))
        return NULL;
    ig__tnode **tail = &arg->list;
    n->list = arg;
    return parse_postfix(p, &tail) ? n : NULL;
}

/* |filter, is test and (call), in any order. */
static bool parse_filters(ig__tparser *p, ig__tnode ***tail)
{
    for (;;) {
        ig__tnode *n;
        if (ig__tparser_take_op(p, '|'))
            n = parse_filter(p);
        else if (ig__tparser_take_name(p, "is"))
            n = parse_test(p);
        else if (ig__tparser_take_op(p, '('))
            n = parse_call(p);
        else
            return true;
        if (!n)
            return false;
        append(tail, n);
    }
}

ig__tnode *ig__tparse_filters(ig__tparser *p, ig__tnode *base)
{
    ig__tnode *n = ig__tparser_node(p, IG_TN_POSTFIX), *first = parse_filter(p);
    if (!n || !first)
        return NULL;
    n->a = base;
    n->list = first;
    ig__tnode **tail = &first->next;
    return parse_filters(p, &tail) ? n : NULL;
}

ig__tnode *ig__tparse_unary(ig__tparser *p, bool with_filters)
{
    ig__tnode *n = ig__tparser_node(p, IG_TN_POSTFIX);
    if (!n)
        return NULL;
    if (ig__tparser_is_op(p, '-') || ig__tparser_is_op(p, '+')) {
        n->a = ig__tparser_node(p, p->at->op == '-' ? IG_TN_NEG : IG_TN_POS);
        p->at++;
        if (!n->a || !ig__tparser_enter(p) || !(n->a->a = ig__tparse_unary(p, false)))
            return NULL;
        p->depth--;
    } else if (!(n->a = parse_primary(p))) {
        return NULL;
    }
    ig__tnode **tail = &n->list;
    if (!parse_postfix(p, &tail) || (with_filters && !parse_filters(p, &tail)))
        return NULL;
    return n->list ? n : n->a;
}

/* ---- operators ---- */

static const struct {
    int ops[5];
} levels[] = {{{'+', '-'}}, {{'~'}}, {{'*', '/', IG_TOP_FLOOR, '%'}}, {{IG_TOP_POWER}}};
#define N_LEVELS (int)(sizeof levels / sizeof *levels)

static ig__tnode *parse_level(ig__tparser *p, int level);

static bool at_level(const ig__tparser *p, int level)
{
    for (int i = 0; levels[level].ops[i]; i++)
        if (ig__tparser_is_op(p, levels[level].ops[i]))
            return true;
    return false;
}

static ig__tnode *parse_operand(ig__tparser *p, int level)
{
    return level + 1 < N_LEVELS ? parse_level(p, level + 1) : ig__tparse_unary(p, true);
}

static ig__tnode *parse_level(ig__tparser *p, int level)
{
    ig__tnode *first = parse_operand(p, level);
    if (!first || !at_level(p, level))
        return first;
    ig__tnode *chain = ig__tparser_node(p, IG_TN_CHAIN);
    if (!chain)
        return NULL;
    chain->a = first;
    ig__tnode **tail = &chain->list;
    while (at_level(p, level)) {
        ig__tnode *op = ig__tparser_node(p, IG_TN_OP);
        if (!op)
            return NULL;
        op->op = p->at++->op;
        if (!(op->a = parse_operand(p, level)))
            return NULL;
        append(&tail, op);
    }
    return chain;
}

/* The comparison that stands here, skipped; 0: none. */
static int take_comparison(ig__tparser *p)
{
    static const int ops[] = {IG_TOP_EQ, IG_TOP_NE, IG_TOP_LE, IG_TOP_GE, '<', '>'};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (ig__tparser_take_op(p, ops[i]))
            return ops[i];
    if (ig__tparser_take_name(p, "in"))
        return IG_TOP_IN;
    if (!ig__tparser_is_name(p, "not") || p->at[1].kind != IG_TT_NAME || p->at[1].n != 2 ||
        memcmp(p->at[1].text, "in", 2) != 0)
        return 0;
    p->at += 2;
    return IG_TOP_NOT_IN;
}

static ig__tnode *parse_compare(ig__tparser *p)
{
    ig__tnode *first = parse_level(p, 0), *chain = NULL, **tail = NULL;
    int op;
    while (first && (op = take_comparison(p)) != 0) {
        if (!chain) {
            chain = ig__tparser_node(p, IG_TN_COMPARE);
            if (!chain)
                return NULL;
            chain->a = first;
            tail = &chain->list;
        }
        ig__tnode *n = ig__tparser_node(p, IG_TN_OP);
        if (!n || !(n->a = parse_level(p, 0)))
            return NULL;
        n->op = (uint16_t)op;
        append(&tail, n);
    }
    return chain ? chain : first;
}

static ig__tnode *parse_not(ig__tparser *p)
{
    if (!ig__tparser_take_name(p, "not"))
        return parse_compare(p);
    ig__tnode *n = ig__tparser_node(p, IG_TN_NOT);
    if (!n || !ig__tparser_enter(p) || !(n->a = parse_not(p)))
        return NULL;
    p->depth--;
    return n;
}

static ig__tnode *parse_and(ig__tparser *p)
{
    ig__tnode *first = parse_not(p);
    if (!first || !ig__tparser_is_name(p, "and"))
        return first;
    ig__tnode *n = list_of(p, IG_TN_AND, first), **tail = &first->next;
    while (n && ig__tparser_take_name(p, "and")) {
        ig__tnode *item = parse_not(p);
        if (!item)
            return NULL;
        append(&tail, item);
    }
    return n;
}

ig__tnode *ig__tparse_or(ig__tparser *p)
{
    ig__tnode *first = parse_and(p);
    if (!first || !ig__tparser_is_name(p, "or"))
        return first;
    ig__tnode *n = list_of(p, IG_TN_OR, first), **tail = &first->next;
    while (n && ig__tparser_take_name(p, "or")) {
        ig__tnode *item = parse_and(p);
        if (!item)
            return NULL;
        append(&tail, item);
    }
    return n;
}

ig__tnode *ig__tparse_expr(ig__tparser *p)
{
    if (!ig__tparser_enter(p))
        return NULL;
    ig__tnode *n = ig__tparse_or(p);
    while (n && ig__tparser_take_name(p, "if")) {
        ig__tnode *ternary = ig__tparser_node(p, IG_TN_TERNARY);
        if (!ternary || !(ternary->a = ig__tparse_or(p)))
            return NULL;
        ternary->b = n;
        if (ig__tparser_take_name(p, "else") && !(ternary->c = ig__tparse_expr(p)))
            return NULL;
        n = ternary;
    }
    p->depth--;
    return n;
}
