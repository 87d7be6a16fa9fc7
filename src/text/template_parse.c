/* The statements of templates, and the parser's common ground: symbols, errors, tokens.
 *
 * A body is a chain of nodes up to a tag that ends it. Names become numbers here, so that a
 * run never compares them.
 */
#include "text/template_int.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- common ground ---- */

ig__tnode *ig__tparser_fail(ig__tparser *p, const char *fmt, ...)
{
    char text[400];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    ig__tutf8_clean(text);
    if (p->status == IG_OK)
        p->status =
            ig__fail(p->err, IG_ERR_FORMAT, "template line %d: %s", p->at->line, text);
    return NULL;
}

ig__tnode *ig__tparser_wanted(ig__tparser *p, const char *what)
{
    static const char *const kinds[] = {"the end",        "text",     "'{{'",    "'}}'",
                                        "'{%'",           "'%}'",     "a name",  "a string",
                                        "a whole number", "a number", "operator"};
    const ig__ttoken *t = p->at;
    const int n = t->n < 40 ? (int)t->n : 40;
    if (t->kind == IG_TT_NAME || t->kind == IG_TT_STRING)
        return ig__tparser_fail(p, "wanted %s, found %s '%.*s'", what, kinds[t->kind], n,
                                t->text);
    if (t->kind == IG_TT_OP && t->op < 128)
        return ig__tparser_fail(p, "wanted %s, found '%c'", what, t->op);
    return ig__tparser_fail(p, "wanted %s, found %s", what, kinds[t->kind]);
}

void *ig__tparser_alloc(ig__tparser *p, size_t bytes)
{
    void *memory = ig__arena_alloc(&p->tmpl->arena, bytes);
    if (!memory && p->status == IG_OK)
        p->status = ig__fail_memory(p->err, "template", bytes);
    return memory;
}

ig__tnode *ig__tparser_node(ig__tparser *p, ig__tnode_kind kind)
{
    ig__tnode *n = ig__tparser_alloc(p, sizeof *n);
    if (n)
        *n = (ig__tnode){.kind = (uint8_t)kind, .line = p->at->line};
    return n;
}

const char *ig__tparser_text(ig__tparser *p, const ig__ttoken *token)
{
    char *text = ig__tparser_alloc(p, token->n + 1);
    if (!text)
        return NULL;
    memcpy(text, token->text, token->n);
    text[token->n] = 0;
    return text;
}

static bool grow_symbols(ig__tparser *p)
{
    ig_template *t = p->tmpl;
    if (t->n_symbols < p->cap_symbols)
        return true;
    const int cap = p->cap_symbols ? p->cap_symbols * 2 : 32;
    ig__tsymbol *symbols = ig__tparser_alloc(p, (size_t)cap * sizeof *symbols);
    if (!symbols)
        return false;
    if (t->n_symbols)
        memcpy(symbols, t->symbols, (size_t)t->n_symbols * sizeof *symbols);
    t->symbols = symbols;
    p->cap_symbols = cap;
    return true;
}

int ig__tparser_symbol(ig__tparser *p, const char *text, size_t n)
{
    ig_template *t = p->tmpl;
    uint32_t hash = 2166136261u; /* FNV-1a; the table is never more than a third full */
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ (unsigned char)text[i]) * 16777619u;
    uint32_t at = hash % IG_TPARSER_TABLE;
    for (; p->table[at]; at = (at + 1) % IG_TPARSER_TABLE) {
        const char *name = t->symbols[p->table[at] - 1].name;
        if (strncmp(name, text, n) == 0 && name[n] == 0)
            return p->table[at] - 1;
    }
    if (t->n_symbols == IG_TMAX_NAMES)
        return ig__tparser_fail(p, "more than %d different names", IG_TMAX_NAMES), -1;
    const ig__ttoken token = {.text = text, .n = n};
    const char *name = ig__tparser_text(p, &token);
    if (!name || !grow_symbols(p))
        return -1;
    t->symbols[t->n_symbols++] = (ig__tsymbol){name, ig__tglobal_find(name)};
    p->table[at] = (uint16_t)t->n_symbols;
    return t->n_symbols - 1;
}

bool ig__tparser_enter(ig__tparser *p)
{
    if (p->depth++ < IG_TMAX_NEST)
        return true;
    if (p->status == IG_OK)
        p->status =
            ig__fail(p->err, IG_ERR_LIMIT, "template line %d: nested deeper than %d",
                     p->at->line, IG_TMAX_NEST);
    return false;
}

bool ig__tparser_is_op(const ig__tparser *p, int op)
{
    return p->at->kind == IG_TT_OP && p->at->op == op;
}

bool ig__tparser_is_name(const ig__tparser *p, const char *name)
{
    return p->at->kind == IG_TT_NAME && p->at->n == strlen(name) &&
           memcmp(p->at->text, name, p->at->n) == 0;
}

bool ig__tparser_take_op(ig__tparser *p, int op)
{
    const bool here = ig__tparser_is_op(p, op);
    p->at += here;
    return here;
}

bool ig__tparser_take_name(ig__tparser *p, const char *name)
{
    const bool here = ig__tparser_is_name(p, name);
    p->at += here;
    return here;
}

bool ig__tparser_expect_op(ig__tparser *p, int op)
{
    const char what[] = {'\'', (char)op, '\'', 0};
    return ig__tparser_take_op(p, op) || (ig__tparser_wanted(p, what), false);
}

static bool expect_tag_end(ig__tparser *p)
{
    if (p->at->kind != IG_TT_TAG_END)
        return ig__tparser_wanted(p, "'%}'"), false;
    p->at++;
    return true;
}

/* ---- statements ---- */

/* Statements up to {% with one of the names behind it, which is left to the caller; without
 * names, up to the end. */
static bool parse_body(ig__tparser *p, ig__tnode **body_out, const char *const *names);

/* The body of a statement whose tag ends here, and the tag {% end %}. */
static bool parse_block(ig__tparser *p, ig__tnode **body_out, const char *end)
{
    const char *const names[] = {end, NULL};
    if (!expect_tag_end(p) || !parse_body(p, body_out, names))
        return false;
    p->at++;
    return true;
}

static ig__tnode *parse_target_name(ig__tparser *p)
{
    if (p->at->kind != IG_TT_NAME)
        return ig__tparser_wanted(p, "a name to set");
    ig__tnode *n = ig__tparser_node(p, IG_TN_NAME);
    if (!n || (n->sym = ig__tparser_symbol(p, p->at->text, p->at->n)) < 0)
        return NULL;
    p->at++;
    if (!ig__tparser_take_op(p, '.'))
        return n;
    if (p->at->kind != IG_TT_NAME)
        return ig__tparser_wanted(p, "a name behind '.'");
    n->kind = IG_TN_NSATTR;
    n->text = ig__tparser_text(p, p->at++);
    return n->text ? n : NULL;
}

static ig__tnode *parse_target(ig__tparser *p);

static ig__tnode *parse_target_item(ig__tparser *p)
{
    if (!ig__tparser_take_op(p, '('))
        return parse_target_name(p);
    if (!ig__tparser_enter(p))
        return NULL;
    ig__tnode *n = parse_target(p);
    p->depth--;
    return n && ig__tparser_expect_op(p, ')') ? n : NULL;
}

/* name, ns.name, or several with commas between. */
static ig__tnode *parse_target(ig__tparser *p)
{
    ig__tnode *first = parse_target_item(p);
    if (!first || !ig__tparser_is_op(p, ','))
        return first;
    ig__tnode *tuple = ig__tparser_node(p, IG_TN_TUPLE), **tail = &first->next;
    if (!tuple)
        return NULL;
    tuple->list = first;
    while (ig__tparser_take_op(p, ',')) {
        if (p->at->kind != IG_TT_NAME && !ig__tparser_is_op(p, '('))
            break;
        if (!(*tail = parse_target_item(p)))
            return NULL;
        tail = &(*tail)->next;
    }
    return tuple;
}

static ig__tnode *parse_if(ig__tparser *p)
{
    static const char *const middle[] = {"elif", "else", "endif", NULL};
    ig__tnode *n = ig__tparser_node(p, IG_TN_IF);
    if (!n)
        return NULL;
    ig__tnode **tail = &n->list;
    bool more = true, has_else = false;
    while (more) {
        ig__tnode *branch = ig__tparser_node(p, IG_TN_BRANCH);
        if (!branch || (!has_else && !(branch->a = ig__tparse_tuple(p))))
            return NULL;
        if (!expect_tag_end(p) || !parse_body(p, &branch->body, middle))
            return NULL;
        *tail = branch;
        tail = &branch->next;
        more = !ig__tparser_is_name(p, "endif");
        if (more && has_else)
            return ig__tparser_wanted(p, "'endif'");
        has_else = ig__tparser_is_name(p, "else");
        p->at++;
    }
    return n;
}

static ig__tnode *parse_for(ig__tparser *p)
{
    static const char *const middle[] = {"else", "endfor", NULL};
    ig__tnode *n = ig__tparser_node(p, IG_TN_FOR);
    if (!n || !(n->a = parse_target(p)))
        return NULL;
    if (!ig__tparser_take_name(p, "in"))
        return ig__tparser_wanted(p, "'in'");
    n->b = ig__tparse_or(p);
    if (n->b && ig__tparser_is_op(p, ',')) { /* for x in a, b */
        ig__tnode *tuple = ig__tparser_node(p, IG_TN_TUPLE), **tail = &n->b->next;
        if (!tuple)
            return NULL;
        tuple->list = n->b;
        n->b = tuple;
        while (ig__tparser_take_op(p, ',')) {
            if (!(*tail = ig__tparse_or(p)))
                return NULL;
            tail = &(*tail)->next;
        }
    }
    if (!n->b || (ig__tparser_take_name(p, "if") && !(n->c = ig__tparse_expr(p))))
        return NULL;
    if (ig__tparser_is_name(p, "recursive"))
        return ig__tparser_fail(p, "recursive loops are not supported");
    p->loops++;
    if (!expect_tag_end(p) || !parse_body(p, &n->body, middle))
        return NULL;
    p->loops--;
    if (ig__tparser_take_name(p, "endfor"))
        return n;
    p->at++;
    n->d = ig__tparser_node(p, IG_TN_BRANCH);
    return n->d && parse_block(p, &n->d->body, "endfor") ? n : NULL;
}

static ig__tnode *parse_set(ig__tparser *p)
{
    ig__tnode *n = ig__tparser_node(p, IG_TN_SET);
    if (!n || !(n->a = parse_target(p)))
        return NULL;
    if (ig__tparser_take_op(p, '='))
        return (n->b = ig__tparse_tuple(p)) ? n : NULL;
    if (ig__tparser_take_op(p, '|') && !(n->d = ig__tparse_filters(p, NULL)))
        return NULL;
    return parse_block(p, &n->body, "endset") ? n : NULL;
}

bool ig__tparse_params(ig__tparser *p, ig__tnode **list_out)
{
    ig__tnode **tail = list_out;
    if (!ig__tparser_expect_op(p, '('))
        return false;
    while (!ig__tparser_take_op(p, ')')) {
        if (p->at->kind != IG_TT_NAME)
            return ig__tparser_wanted(p, "a parameter's name"), false;
        ig__tnode *n = ig__tparser_node(p, IG_TN_PARAM);
        if (!n || (n->sym = ig__tparser_symbol(p, p->at->text, p->at->n)) < 0 ||
            !(n->text = ig__tparser_text(p, p->at)))
            return false;
        p->at++;
        if (ig__tparser_take_op(p, '=') && !(n->a = ig__tparse_expr(p)))
            return false;
        *tail = n;
        tail = &n->next;
        if (!ig__tparser_take_op(p, ',') && !ig__tparser_is_op(p, ')'))
            return ig__tparser_expect_op(p, ')');
    }
    return true;
}

/* A body that runs apart from the loops around it. */
static bool parse_apart(ig__tparser *p, ig__tnode **body_out, const char *end)
{
    const int loops = p->loops;
    p->loops = 0;
    const bool ok = parse_block(p, body_out, end);
    p->loops = loops;
    return ok;
}

static ig__tnode *parse_macro(ig__tparser *p)
{
    ig__tnode *n = ig__tparser_node(p, IG_TN_MACRO);
    if (!n)
        return NULL;
    if (p->at->kind != IG_TT_NAME)
        return ig__tparser_wanted(p, "a macro's name");
    n->sym = ig__tparser_symbol(p, p->at->text, p->at->n);
    n->text = n->sym < 0 ? NULL : ig__tparser_text(p, p->at);
    if (!n->text)
        return NULL;
    p->at++;
    return ig__tparse_params(p, &n->list) && parse_apart(p, &n->body, "endmacro") ? n
                                                                                  : NULL;
}

static ig__tnode *parse_call_block(ig__tparser *p)
{
    ig__tnode *n = ig__tparser_node(p, IG_TN_CALLER), *last = NULL;
    if (!n || (ig__tparser_is_op(p, '(') && !ig__tparse_params(p, &n->list)))
        return NULL;
    n->text = "caller";
    n->a = ig__tparse_unary(p, true);
    if (n->a && n->a->kind == IG_TN_POSTFIX)
        for (last = n->a->list; last && last->next;)
            last = last->next;
    if (n->a && (!last || last->kind != IG_TN_CALL))
        return ig__tparser_wanted(p, "a call");
    return n->a && parse_apart(p, &n->body, "endcall") ? n : NULL;
}

static ig__tnode *parse_filter_block(ig__tparser *p)
{
    ig__tnode *n = ig__tparser_node(p, IG_TN_FILTERED);
    if (!n || !(n->d = ig__tparse_filters(p, NULL)))
        return NULL;
    return parse_block(p, &n->body, "endfilter") ? n : NULL;
}

static ig__tnode *parse_with(ig__tparser *p)
{
    ig__tnode *n = ig__tparser_node(p, IG_TN_WITH);
    if (!n)
        return NULL;
    ig__tnode **tail = &n->list;
    while (p->at->kind != IG_TT_TAG_END) {
        ig__tnode *pair = ig__tparser_node(p, IG_TN_PAIR);
        if (!pair || !(pair->a = parse_target_item(p)) || !ig__tparser_expect_op(p, '=') ||
            !(pair->b = ig__tparse_expr(p)))
            return NULL;
        *tail = pair;
        tail = &pair->next;
        if (!ig__tparser_take_op(p, ','))
            break;
    }
    return parse_block(p, &n->body, "endwith") ? n : NULL;
}

static ig__tnode *parse_do(ig__tparser *p)
{
    ig__tnode *n = ig__tparser_node(p, IG_TN_DO);
    return n && (n->a = ig__tparse_tuple(p)) ? n : NULL;
}

/* {% generation %} marks the assistant's text for training; it changes no output. */
static ig__tnode *parse_generation(ig__tparser *p)
{
    ig__tnode *n = ig__tparser_node(p, IG_TN_GROUP);
    return n && parse_block(p, &n->body, "endgeneration") ? n : NULL;
}

static ig__tnode *parse_jump(ig__tparser *p, ig__tnode_kind kind)
{
    if (p->loops == 0)
        return ig__tparser_fail(p, "'%s' outside a loop",
                                kind == IG_TN_BREAK ? "break" : "continue");
    return ig__tparser_node(p, kind);
}

static ig__tnode *parse_break(ig__tparser *p)
{
    return parse_jump(p, IG_TN_BREAK);
}

static ig__tnode *parse_continue(ig__tparser *p)
{
    return parse_jump(p, IG_TN_CONTINUE);
}

/* Behind {%, at the statement's name. */
static ig__tnode *parse_statement(ig__tparser *p)
{
    static const struct {
        const char *name;
        ig__tnode *(*parse)(ig__tparser *p);
    } rows[] = {
        {"if", parse_if},
        {"for", parse_for},
        {"set", parse_set},
        {"macro", parse_macro},
        {"with", parse_with},
        {"call", parse_call_block},
        {"do", parse_do},
        {"filter", parse_filter_block},
        {"break", parse_break},
        {"generation", parse_generation},
        {"continue", parse_continue},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (!ig__tparser_is_name(p, rows[i].name))
            continue;
        if (!ig__tparser_enter(p))
            return NULL;
        p->at++;
        ig__tnode *n = rows[i].parse(p);
        p->depth--;
        return n && expect_tag_end(p) ? n : NULL;
    }
    return ig__tparser_wanted(p, "a statement");
}

static ig__tnode *parse_output(ig__tparser *p)
{
    ig__tnode *n = ig__tparser_node(p, IG_TN_OUTPUT);
    if (!n || !(n->a = ig__tparse_tuple(p)))
        return NULL;
    if (p->at->kind != IG_TT_OUT_END)
        return ig__tparser_wanted(p, "'}}'");
    p->at++;
    return n;
}

static ig__tnode *parse_text(ig__tparser *p)
{
    ig__tnode *n = ig__tparser_node(p, IG_TN_TEXT);
    ig__tstr *s = ig__tparser_alloc(p, sizeof *s);
    if (!n || !s)
        return NULL;
    *s = (ig__tstr){.bytes = p->at->text, .n = p->at->n, .markup = true};
    n->value = ig__tstring(s);
    p->at++;
    return n;
}

static bool ends_body(ig__tparser *p, const char *const *names)
{
    for (; names && *names; names++)
        if (ig__tparser_is_name(p, *names))
            return true;
    return false;
}

static bool parse_body(ig__tparser *p, ig__tnode **body_out, const char *const *names)
{
    ig__tnode **tail = body_out;
    const int line = p->at->line;
    for (;;) {
        ig__tnode *n;
        switch (p->at->kind) {
        case IG_TT_END:
            if (names)
                ig__tparser_fail(p, "wanted '%s' for the block of line %d, found the end",
                                 names[0], line);
            return !names;
        case IG_TT_TEXT:
            n = parse_text(p);
            break;
        case IG_TT_OUT_BEGIN:
            p->at++;
            n = parse_output(p);
            break;
        default: /* between tags there is nothing else than TAG_BEGIN */
            p->at++;
            if (ends_body(p, names))
                return true;
            n = parse_statement(p);
        }
        if (!n)
            return false;
        *tail = n;
        tail = &n->next;
    }
}

ig_status ig__tparse(ig_template *tmpl, const ig__ttokens *tokens, ig_error *err)
{
    ig__tparser p = {.tmpl = tmpl, .at = tokens->items, .err = err};
    p.table = ig__alloc_zero(&tmpl->a, IG_TPARSER_TABLE * sizeof *p.table);
    if (!p.table)
        return ig__fail_memory(err, "template", IG_TPARSER_TABLE * sizeof *p.table);
    tmpl->sym_loop = ig__tparser_symbol(&p, "loop", 4);
    tmpl->sym_caller = ig__tparser_symbol(&p, "caller", 6);
    if (tmpl->sym_caller >= 0)
        (void)parse_body(&p, &tmpl->body, NULL);
    ig__free(&tmpl->a, p.table);
    return p.status;
}
