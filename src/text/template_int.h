/* Chat templates inside: what the template_*.c files share.
 *
 *   source --lex--> tokens --parse--> nodes (once, in the template's arena)
 *   JSON + nodes --exec, eval--> bytes with a mark each (a run; its arena dies with it)
 *
 * The `t` of ig__tvalue, ig__tstr ... stands for template. A template and its nodes are
 * constant after parsing, so any number of runs may share them.
 *
 * Failure inside a run: the function that finds it calls ig__trun_fail, which writes
 * the caller's ig_error with the line of the template, and all above pass the status up.
 */
#ifndef INGOT_TEXT_TEMPLATE_INT_H
#define INGOT_TEXT_TEMPLATE_INT_H

#include "base/arena.h"
#include "base/error.h"
#include "ingot/template.h"

/* Strangers write templates and JSON: every quantity they choose has a bound. */
#define IG_TMAX_SOURCE ((size_t)1 << 20)   /* bytes of a template */
#define IG_TMAX_JSON   ((size_t)64 << 20)  /* bytes of the variables' text */
#define IG_TMAX_NEST   64                  /* of source, of values, of macro calls */
#define IG_TMAX_DEPTH  600                 /* nested evaluations: bounds the C stack */
#define IG_TMAX_NAMES  10000               /* different names in a template */
#define IG_TMAX_STEPS  10000000            /* evaluations and 64-byte pieces of work */
#define IG_TMAX_TEXT   ((size_t)64 << 20)  /* bytes of any string, the output too */
#define IG_TMAX_ITEMS  ((size_t)1 << 20)   /* of a list made by the template */
#define IG_TMAX_MEMORY ((size_t)512 << 20) /* bytes of a run's arena */

typedef struct ig__tnode ig__tnode;
typedef struct ig__trun ig__trun;
typedef struct ig__tvalue ig__tvalue;

/* ---- values ---- */

typedef enum ig__tkind {
    IG_T_UNDEFINED,
    IG_T_NONE,
    IG_T_BOOL,
    IG_T_INT,
    IG_T_FLOAT,
    IG_T_STRING,
    IG_T_LIST,
    IG_T_TUPLE,
    IG_T_DICT,
    IG_T_NAMESPACE,
    IG_T_LOOP,
    IG_T_MACRO,
    IG_T_FUNCTION,
    IG_T_METHOD
} ig__tkind;

/* Storage that a string (or list) may grow into: concatenation appends in place when the
 * left side ends where the used part ends, so that building a text piece by piece is
 * linear. What is used is never written again. */
typedef struct ig__tstr_back {
    char *bytes;    /* [cap], `used` of them taken */
    uint8_t *marks; /* [cap], or NULL while all are `markup` */
    size_t used, cap;
    bool markup;
} ig__tstr_back;

typedef struct ig__tstr {
    const char *bytes;    /* [n], UTF-8, no 0 behind */
    const uint8_t *marks; /* [n]: 1 the template's, 0 data; NULL: all are `markup` */
    size_t n;
    ig__tstr_back *back; /* may be NULL */
    bool markup;
} ig__tstr;

/* `markup`: a literal, or computed from literals alone. Strings carry their own marks. */
struct ig__tvalue {
    uint8_t kind;
    bool markup;
    union {
        bool b;
        int64_t i;
        double f;
        const ig__tstr *s;
        struct ig__tlist *list;         /* list, tuple */
        struct ig__tdict *dict;         /* dict, namespace */
        struct ig__tloop *loop;         /* the variable `loop` */
        const struct ig__tmacro *macro; /* macro, caller */
        const struct ig__tbuiltin *function;
        const struct ig__tmethod *method; /* a built-in bound to its object */
        const char *name;                 /* what is undefined; may be NULL */
    };
};

typedef struct ig__tlist_back {
    ig__tvalue *items; /* [cap] */
    size_t used, cap;
} ig__tlist_back;

typedef struct ig__tlist {
    ig__tvalue *items; /* [n] */
    size_t n;
    ig__tlist_back *back; /* may be NULL */
} ig__tlist;

/* Entries in order of insertion, and their indices in order of the keys. */
typedef struct ig__tdict {
    struct ig__tentry {
        ig__tvalue key, value;
    } * entries;     /* [n] of cap */
    uint32_t *order; /* [n] of cap */
    size_t n, cap;
} ig__tdict;

typedef struct ig__tloop {
    const ig__tlist *items;
    size_t i;
    bool has_last;      /* loop.changed was called */
    ig__tvalue changed; /* what it was called with */
} ig__tloop;

typedef struct ig__tmacro {
    const ig__tnode *node;
    struct ig__tframe *frame; /* where it was defined */
    const char *name;
} ig__tmacro;

typedef struct ig__tmethod {
    ig__tvalue self;
    const struct ig__tbuiltin *builtin;
} ig__tmethod;

static inline ig__tvalue ig__tbool(bool b, bool markup)
{
    return (ig__tvalue){.kind = IG_T_BOOL, .markup = markup, .b = b};
}
static inline ig__tvalue ig__tint(int64_t i, bool markup)
{
    return (ig__tvalue){.kind = IG_T_INT, .markup = markup, .i = i};
}
static inline ig__tvalue ig__tfloat(double f, bool markup)
{
    return (ig__tvalue){.kind = IG_T_FLOAT, .markup = markup, .f = f};
}
static inline ig__tvalue ig__tnone(void)
{
    return (ig__tvalue){.kind = IG_T_NONE, .markup = true};
}
static inline ig__tvalue ig__tundefined(const char *name)
{
    return (ig__tvalue){.kind = IG_T_UNDEFINED, .name = name};
}
static inline ig__tvalue ig__tstring(const ig__tstr *s)
{
    return (ig__tvalue){.kind = IG_T_STRING, .markup = s->markup && !s->marks, .s = s};
}
static inline bool ig__tis_list(ig__tvalue v)
{
    return v.kind == IG_T_LIST || v.kind == IG_T_TUPLE;
}
static inline bool ig__tis_number(ig__tvalue v)
{
    return v.kind == IG_T_BOOL || v.kind == IG_T_INT || v.kind == IG_T_FLOAT;
}
/* Of a bool, int or float. */
static inline double ig__tnumber(ig__tvalue v)
{
    return v.kind == IG_T_FLOAT ? v.f : v.kind == IG_T_INT ? (double)v.i : v.b ? 1.0 : 0.0;
}
static inline int64_t ig__twhole(ig__tvalue v) /* of a bool or int */
{
    return v.kind == IG_T_INT ? v.i : v.b;
}
const char *ig__tkind_name(ig__tvalue v); /* "string", for messages */
bool ig__ttruth(ig__tvalue v);

/* ---- nodes ---- */

/* What the fields of a node mean, by kind ("list" and "body" are chains through next):
 *
 *   CONST     value                      NAME      sym
 *   LIST, TUPLE, AND, OR  list           DICT      list of PAIR (a key, b value)
 *   CHAIN     a, list of OP (op, a): left-associative arithmetic
 *   COMPARE   a, list of OP: a < b <= c
 *   NOT NEG POS  a                       TERNARY   a condition, b then, c else or NULL
 *   POSTFIX   a, list of:
 *     ATTR text   ITEM a   SLICE a b c (NULL: left out)   CALL list
 *     FILTER text builtin list           TEST text builtin list, op 1: negated
 *   KWARG     text, a (in the list of a call)
 *
 *   TEXT      value                      OUTPUT, DO  a
 *   IF        list of BRANCH (a condition or NULL, body)
 *   FOR       a target, b what, c condition or NULL, body, d: BRANCH of the else or NULL
 *   SET       a target, b value; or body, and d: POSTFIX of filters or NULL
 *   NSATTR    a target: sym.text
 *   MACRO     sym text, list of PARAM (sym text, a default or NULL), body
 *   CALLER    a POSTFIX that ends in CALL, list of PARAM, body
 *   FILTERED  d POSTFIX of filters, body
 *   WITH      list of PAIR (a target, b value), body
 *   GROUP     body: a tag that changes nothing
 *   BREAK, CONTINUE */
typedef enum ig__tnode_kind {
    IG_TN_CONST,
    IG_TN_NAME,
    IG_TN_LIST,
    IG_TN_TUPLE,
    IG_TN_DICT,
    IG_TN_PAIR,
    IG_TN_CHAIN,
    IG_TN_COMPARE,
    IG_TN_OP,
    IG_TN_AND,
    IG_TN_OR,
    IG_TN_NOT,
    IG_TN_NEG,
    IG_TN_POS,
    IG_TN_TERNARY,
    IG_TN_POSTFIX,
    IG_TN_ATTR,
    IG_TN_ITEM,
    IG_TN_SLICE,
    IG_TN_CALL,
    IG_TN_FILTER,
    IG_TN_TEST,
    IG_TN_KWARG,
    IG_TN_TEXT,
    IG_TN_OUTPUT,
    IG_TN_DO,
    IG_TN_IF,
    IG_TN_BRANCH,
    IG_TN_FOR,
    IG_TN_SET,
    IG_TN_NSATTR,
    IG_TN_MACRO,
    IG_TN_PARAM,
    IG_TN_CALLER,
    IG_TN_FILTERED,
    IG_TN_WITH,
    IG_TN_GROUP,
    IG_TN_BREAK,
    IG_TN_CONTINUE
} ig__tnode_kind;

struct ig__tnode {
    uint8_t kind;
    uint16_t op; /* ig__top */
    int line, sym;
    const char *text;                   /* ends in 0 */
    const struct ig__tbuiltin *builtin; /* NULL: no filter or test of that name */
    ig__tvalue value;
    ig__tnode *a, *b, *c, *d, *list, *body, *next;
};

/* Operators: one character stands for itself. */
typedef enum ig__top {
    IG_TOP_EQ = 256, /* == */
    IG_TOP_NE,       /* != */
    IG_TOP_LE,       /* <= */
    IG_TOP_GE,       /* >= */
    IG_TOP_FLOOR,    /* // */
    IG_TOP_POWER,    /* ** */
    IG_TOP_IN,
    IG_TOP_NOT_IN
} ig__top;

/* ---- tokens ---- */

typedef enum ig__ttoken_kind {
    IG_TT_END,
    IG_TT_TEXT,
    IG_TT_OUT_BEGIN, /* {{ */
    IG_TT_OUT_END,
    IG_TT_TAG_BEGIN, /* {% */
    IG_TT_TAG_END,
    IG_TT_NAME,
    IG_TT_STRING,
    IG_TT_INT,
    IG_TT_FLOAT,
    IG_TT_OP
} ig__ttoken_kind;

typedef struct ig__ttoken {
    uint8_t kind;
    uint16_t op;
    int line;
    const char *text; /* [n]: of TEXT, NAME and STRING (decoded) */
    size_t n;
    union {
        int64_t i;
        double f;
    };
} ig__ttoken;

typedef struct ig__ttokens {
    const ig_allocator *a;
    ig__ttoken *items; /* [n] of cap, the last is END */
    size_t n, cap;
} ig__ttokens;

/* Cut source[0..n) (line ends are \n) into tokens; strings that need decoding go to the
 * arena. `tokens` is to be freed whatever the outcome. */
ig_status ig__tlex(ig__ttokens *tokens, ig__arena *arena, const char *source, size_t n,
                   ig_error *err);

/* ---- template ---- */

typedef struct ig__tsymbol {
    const char *name;
    const struct ig__tbuiltin *global; /* what it means when no variable has the name */
} ig__tsymbol;

struct ig_template {
    ig_allocator a;
    ig__arena arena; /* of all below */
    ig__tnode *body;
    ig__tsymbol *symbols; /* [n_symbols] */
    int n_symbols;
    int sym_loop, sym_caller;
};

/* Fill body and symbols of a template from its tokens. */
ig_status ig__tparse(ig_template *tmpl, const ig__ttokens *tokens, ig_error *err);

/* The parser's state, for its two files. NULL from a function that returns a node means
 * that `status` and the caller's ig_error are set. */
typedef struct ig__tparser {
    ig_template *tmpl;
    const ig__ttoken *at;
    ig_error *err;
    ig_status status;
    int depth, loops;
    int cap_symbols;
    uint16_t *table; /* [IG_TPARSER_TABLE]: symbol + 1 by hash, 0 empty */
} ig__tparser;
#define IG_TPARSER_TABLE 32768

/* printf-like; "template line 7: ..." Returns NULL. */
IG_PRINTF(2, 3) ig__tnode *ig__tparser_fail(ig__tparser *p, const char *fmt, ...);
/* "wanted ..., found ..." */
ig__tnode *ig__tparser_wanted(ig__tparser *p, const char *what);
void *ig__tparser_alloc(ig__tparser *p, size_t bytes);
ig__tnode *ig__tparser_node(ig__tparser *p, ig__tnode_kind kind);
int ig__tparser_symbol(ig__tparser *p, const char *text, size_t n);    /* -1: failed */
const char *ig__tparser_text(ig__tparser *p, const ig__ttoken *token); /* a copy and a 0 */
bool ig__tparser_enter(ig__tparser *p); /* one nesting deeper, or fails */
bool ig__tparser_is_op(const ig__tparser *p, int op);
bool ig__tparser_is_name(const ig__tparser *p, const char *name);
bool ig__tparser_take_op(ig__tparser *p, int op); /* skip it if it is there */
bool ig__tparser_take_name(ig__tparser *p, const char *name);
bool ig__tparser_expect_op(ig__tparser *p, int op); /* skip it, or fail */

ig__tnode *ig__tparse_expr(ig__tparser *p);  /* with a ternary at its end */
ig__tnode *ig__tparse_or(ig__tparser *p);    /* without one: what a `for` runs over */
ig__tnode *ig__tparse_tuple(ig__tparser *p); /* an expression, or a, b, c */
ig__tnode *ig__tparse_unary(ig__tparser *p, bool with_filters); /* of `call` too */
/* Filters behind `base`, the first without its bar: of {% filter %} and block set. */
ig__tnode *ig__tparse_filters(ig__tparser *p, ig__tnode *base);
/* (a, b=1) behind a macro's name; the list may be empty. */
bool ig__tparse_params(ig__tparser *p, ig__tnode **list_out);

/* ---- runs ---- */

/* Text under construction: bytes and marks, in the run's arena. */
typedef struct ig__tout {
    ig__trun *r;
    char *bytes;    /* [n] of cap */
    uint8_t *marks; /* [n] of cap */
    size_t n, cap;
    bool has_data, has_markup;
} ig__tout;

typedef struct ig__tvar {
    int sym;
    ig__tvalue value;
} ig__tvar;

/* Variables of a loop, macro or with; those of the template itself are ig__trun.root. */
typedef struct ig__tframe {
    struct ig__tframe *parent; /* NULL: the template's */
    ig__tvar *vars;            /* [n] of cap */
    size_t n, cap;
} ig__tframe;

typedef enum ig__tflow { IG_TFLOW_ON, IG_TFLOW_BREAK, IG_TFLOW_CONTINUE } ig__tflow;

struct ig__trun {
    const ig_template *tmpl;
    ig_error *err;
    ig_status status; /* the first failure */
    ig__arena arena;
    ig__tvalue *root; /* [n_symbols] */
    ig__tframe *frame;
    ig__tout *out;
    ig__tflow flow;
    const ig__tstr *now; /* what strftime_now gives; NULL: the clock's */
    int64_t steps;
    size_t n_bytes; /* taken from the arena */
    int line, depth, n_macros;
};

IG_PRINTF(3, 4)
ig_status ig__trun_fail(ig__trun *r, ig_status status, const char *fmt, ...);
void *ig__trun_alloc(ig__trun *r, size_t bytes); /* zeroed; NULL: r->status says why */
ig_status ig__trun_step(ig__trun *r, size_t work_bytes);
ig_status ig__trun_undefined(ig__trun *r, ig__tvalue v); /* "'x' is undefined" */

/* strings */
ig_status ig__tstr_make(ig__trun *r, ig__tvalue *out, const char *bytes, size_t n,
                        bool markup);
/* Bytes [from, to) of s, shared with it. */
ig_status ig__tstr_cut(ig__trun *r, ig__tvalue *out, const ig__tstr *s, size_t from,
                       size_t to);
ig_status ig__tstr_concat(ig__trun *r, ig__tvalue *out, const ig__tstr *a,
                          const ig__tstr *b);
size_t ig__tstr_length(const ig__tstr *s); /* code points */
/* Byte offset of code point i >= 0, n if there are fewer. */
size_t ig__tstr_offset(const ig__tstr *s, size_t i);
bool ig__tstr_is(const ig__tstr *s, const char *text);
/* Offset of the first `what` at or behind `from`; SIZE_MAX: none. */
size_t ig__tstr_find(const ig__tstr *s, const ig__tstr *what, size_t from);

/* UTF-8: bytes of the character at p[0..n), n >= 1, and its code point. Malformed bytes
 * count one each. */
size_t ig__tutf8(const char *p, size_t n, uint32_t *code_out);
size_t ig__tutf8_write(char out[4], uint32_t code);
void ig__tutf8_clean(char *text);  /* malformed bytes of a message become '?' */
bool ig__tis_space(uint32_t code); /* as Python's str.isspace */
/* Length of the white space at the start, and where that at the end begins. */
size_t ig__tspace_start(const char *p, size_t n);
size_t ig__tspace_end(const char *p, size_t n);

/* lists and dicts */
ig_status ig__tlist_make(ig__trun *r, ig__tvalue *out, ig__tkind kind, size_t cap,
                         bool markup);
ig_status ig__tlist_push(ig__trun *r, ig__tlist *list, ig__tvalue v);
ig_status ig__tlist_concat(ig__trun *r, ig__tvalue *out, ig__tvalue a, ig__tvalue b);
ig_status ig__tdict_make(ig__trun *r, ig__tvalue *out, ig__tkind kind, size_t cap,
                         bool markup);
ig_status ig__tdict_set(ig__trun *r, ig__tdict *d, ig__tvalue key, ig__tvalue value);
/* Append an entry whose key is a string that is not there yet; ig__tdict_index after the
 * last. */
ig_status ig__tdict_add(ig__trun *r, ig__tdict *d, ig__tvalue key, ig__tvalue value);
ig_status ig__tdict_index(ig__trun *r, ig__tdict *d);
/* NULL: absent, or a key that no dict can hold. */
const ig__tvalue *ig__tdict_find(const ig__tdict *d, ig__tvalue key);
const ig__tvalue *ig__tdict_find_text(const ig__tdict *d, const char *key, size_t n);

/* comparison and iteration */
ig_status ig__tequal(ig__trun *r, bool *out, ig__tvalue a, ig__tvalue b);
ig_status ig__torder(ig__trun *r, int *out, ig__tvalue a, ig__tvalue b);
ig_status ig__tcontains(ig__trun *r, bool *out, ig__tvalue in, ig__tvalue what);
/* The items of a list, keys of a dict, characters of a string, nothing of undefined. */
ig_status ig__titerate(ig__trun *r, const ig__tlist **out, ig__tvalue v);
/* Sort order[0..n) stably by keys[order[i]]. */
ig_status ig__tsort(ig__trun *r, uint32_t *order, const ig__tvalue *keys, size_t n,
                    bool reverse);

/* text */
ig_status ig__tout_bytes(ig__tout *o, const char *bytes, size_t n, bool markup);
ig_status ig__tout_part(ig__tout *o, const ig__tstr *s, size_t from, size_t to);
ig_status ig__tout_str(ig__tout *o, const ig__tstr *s);
ig_status ig__tout_value(ig__tout *o, ig__tvalue v); /* as Python's str() */
ig_status ig__tout_finish(ig__tout *o, ig__tvalue *out);
ig_status ig__tto_string(ig__trun *r, const ig__tstr **out, ig__tvalue v);
typedef struct ig__tjson_opts {
    const ig__tstr *indent;     /* one level; NULL: all in one line */
    const ig__tstr *item, *key; /* separators; NULL: ", " and ": " */
    bool sort_keys, ascii;
} ig__tjson_opts;
ig_status ig__tout_json(ig__tout *o, ig__tvalue v, const ig__tjson_opts *opts);

/* evaluation */
ig_status ig__teval(ig__trun *r, ig__tvalue *out, const ig__tnode *node);
/* Apply the suffixes of a POSTFIX to a value. */
ig_status ig__teval_suffixes(ig__trun *r, ig__tvalue *v, const ig__tnode *first);
ig_status ig__tget_attr(ig__trun *r, ig__tvalue *out, ig__tvalue of, const char *name);
ig_status ig__tget_item(ig__trun *r, ig__tvalue *out, ig__tvalue of, ig__tvalue key);
ig_status ig__tadd(ig__trun *r, ig__tvalue *out, ig__tvalue a, ig__tvalue b);
ig_status ig__tarithmetic(ig__trun *r, ig__tvalue *out, int op, ig__tvalue a, ig__tvalue b);
ig_status ig__tsign(ig__trun *r, ig__tvalue *v, bool minus);
ig_status ig__tvar_set(ig__trun *r, int sym, ig__tvalue value);
ig_status ig__texec(ig__trun *r, const ig__tnode *body);

/* ---- built-ins: filters, tests, methods and functions are rows of tables ---- */

#define IG_TMAX_ARGS 64 /* of a call */

typedef struct ig__targs {
    const ig__tvalue *pos; /* [n_pos] */
    size_t n_pos;
    const char *const *names; /* [n_named] */
    const ig__tvalue *named;  /* [n_named] */
    size_t n_named;
    ig__tvalue arg[4]; /* by the row's `params`; undefined where left out */
    bool given[4];
} ig__targs;

/* `params`: names, one blank between, at most 4; NULL: the function reads pos and named
 * itself. */
typedef struct ig__tbuiltin {
    const char *name, *params;
    ig_status (*call)(ig__trun *r, ig__tvalue *out, ig__tvalue self, ig__targs *args);
} ig__tbuiltin;

const ig__tbuiltin *ig__tfilter_find(const char *name); /* NULL: none */
const ig__tbuiltin *ig__ttest_find(const char *name);
const ig__tbuiltin *ig__tglobal_find(const char *name);
const ig__tbuiltin *ig__tmethod_find(ig__tkind kind, const char *name);
ig_status ig__tbuiltin_call(ig__trun *r, ig__tvalue *out, const ig__tbuiltin *b,
                            ig__tvalue self, ig__targs *args);
ig_status ig__tmacro_call(ig__trun *r, ig__tvalue *out, const ig__tmacro *macro,
                          const ig__targs *args);

/* Shared by filters and methods of one name. */
typedef enum ig__tcase {
    IG_TCASE_UPPER,
    IG_TCASE_LOWER,
    IG_TCASE_CAPITAL,
    IG_TCASE_TITLE,
    IG_TCASE_WORDS
} ig__tcase;
ig_status ig__tstr_recase(ig__trun *r, ig__tvalue *out, const ig__tstr *s, ig__tcase how);
/* Strip `chars` (NULL: white space) from the left (1), right (2) or both (3). */
ig_status ig__tstr_strip(ig__trun *r, ig__tvalue *out, const ig__tstr *s,
                         const ig__tstr *chars, int sides);
/* max < 0: all. */
ig_status ig__tstr_replace(ig__trun *r, ig__tvalue *out, const ig__tstr *s,
                           const ig__tstr *from, const ig__tstr *to, int64_t max);
ig_status ig__tdict_items(ig__trun *r, ig__tvalue *out, ig__tvalue dict);
/* An argument that must be a string or a whole number: fails with the call's name. */
ig_status ig__targ_string(ig__trun *r, const ig__tstr **out, const char *call,
                          ig__tvalue v);
ig_status ig__targ_int(ig__trun *r, int64_t *out, const char *call, ig__tvalue v);

#endif
