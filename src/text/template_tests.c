/* The tests of templates: what stands behind "is". One row each. */
#include "text/template_int.h"

#include <string.h>

#define TEST(name)                                                                         \
    static ig_status test_##name(ig__trun *r, ig__tvalue *out, ig__tvalue v,               \
                                 ig__targs *args)

static ig_status answer(ig__tvalue *out, bool yes, ig__tvalue v)
{
    *out = ig__tbool(yes, v.markup);
    return IG_OK;
}

/* Tests that look at the kind alone: bit k of the mask is kind k. */
static ig_status kind_in(ig__tvalue *out, ig__tvalue v, unsigned mask)
{
    return answer(out, mask >> v.kind & 1, v);
}

#define BIT(kind) (1u << IG_T_##kind)
#define KIND_TEST(name, mask)                                                              \
    TEST(name)                                                                             \
    {                                                                                      \
        (void)r, (void)args;                                                               \
        return kind_in(out, v, mask);                                                      \
    }

KIND_TEST(defined, ~BIT(UNDEFINED))
KIND_TEST(undefined, BIT(UNDEFINED))
KIND_TEST(none, BIT(NONE))
KIND_TEST(boolean, BIT(BOOL))
KIND_TEST(integer, BIT(INT))
KIND_TEST(float, BIT(FLOAT))
KIND_TEST(number, BIT(BOOL) | BIT(INT) | BIT(FLOAT))
KIND_TEST(string, BIT(STRING))
KIND_TEST(mapping, BIT(DICT))
KIND_TEST(iterable, BIT(UNDEFINED) | BIT(STRING) | BIT(LIST) | BIT(TUPLE) | BIT(DICT))
KIND_TEST(callable, BIT(MACRO) | BIT(FUNCTION) | BIT(METHOD))
KIND_TEST(escaped, 0)

TEST(true)
{
    (void)r, (void)args;
    return answer(out, v.kind == IG_T_BOOL && v.b, v);
}

TEST(false)
{
    (void)r, (void)args;
    return answer(out, v.kind == IG_T_BOOL && !v.b, v);
}

static ig_status remainder_is(ig__trun *r, ig__tvalue *out, ig__tvalue v, ig__tvalue by,
                              int64_t wanted)
{
    int64_t a, b;
    IG_TRY(ig__targ_int(r, &a, "the test", v));
    IG_TRY(ig__targ_int(r, &b, "the test", by));
    if (b == 0)
        return ig__trun_fail(r, IG_ERR_FORMAT, "division by zero");
    const int64_t rest = b == -1 ? 0 : a % b;
    return answer(out, (rest < 0 ? -rest : rest) == wanted, v);
}

TEST(odd)
{
    (void)args;
    return remainder_is(r, out, v, ig__tint(2, true), 1);
}

TEST(even)
{
    (void)args;
    return remainder_is(r, out, v, ig__tint(2, true), 0);
}

TEST(divisibleby)
{
    return remainder_is(r, out, v, args->arg[0], 0);
}

TEST(eq)
{
    bool same;
    IG_TRY(ig__tequal(r, &same, v, args->arg[0]));
    return answer(out, same, v);
}

TEST(ne)
{
    bool same;
    IG_TRY(ig__tequal(r, &same, v, args->arg[0]));
    return answer(out, !same, v);
}

#define ORDER_TEST(name, condition)                                                        \
    TEST(name)                                                                             \
    {                                                                                      \
        int c;                                                                             \
        IG_TRY(ig__torder(r, &c, v, args->arg[0]));                                        \
        return answer(out, condition, v);                                                  \
    }

ORDER_TEST(lt, c < 0)
ORDER_TEST(le, c <= 0)
ORDER_TEST(gt, c > 0)
ORDER_TEST(ge, c >= 0)

TEST(in)
{
    bool yes;
    IG_TRY(ig__tcontains(r, &yes, args->arg[0], v));
    return answer(out, yes, v);
}

/* The same object; numbers and strings have no identity here, so equal ones are the same.
 */
TEST(sameas)
{
    const ig__tvalue other = args->arg[0];
    bool same = false;
    if (v.kind == other.kind && (ig__tis_list(v) || v.kind >= IG_T_DICT))
        same = v.list == other.list;
    else if (v.kind == other.kind)
        IG_TRY(ig__tequal(r, &same, v, other));
    return answer(out, same, v);
}

static ig_status is_cased(ig__trun *r, ig__tvalue *out, ig__tvalue v, ig__tcase how)
{
    const ig__tstr *s;
    ig__tvalue cased;
    IG_TRY(ig__tto_string(r, &s, v));
    IG_TRY(ig__tstr_recase(r, &cased, s, how));
    bool same = memcmp(cased.s->bytes, s->bytes, s->n) == 0;
    if (same) { /* and there is a letter: the other case differs */
        IG_TRY(ig__tstr_recase(r, &cased, s,
                               how == IG_TCASE_UPPER ? IG_TCASE_LOWER : IG_TCASE_UPPER));
        same = memcmp(cased.s->bytes, s->bytes, s->n) != 0;
    }
    return answer(out, same, v);
}

TEST(lower)
{
    (void)args;
    return is_cased(r, out, v, IG_TCASE_LOWER);
}

TEST(upper)
{
    (void)args;
    return is_cased(r, out, v, IG_TCASE_UPPER);
}

static ig_status named(ig__tvalue *out, ig__tvalue v,
                       const ig__tbuiltin *(*find)(const char *name))
{
    char name[64];
    bool known = v.kind == IG_T_STRING && v.s->n < sizeof name;
    if (known) {
        memcpy(name, v.s->bytes, v.s->n);
        name[v.s->n] = 0;
        known = find(name) != NULL;
    }
    return answer(out, known, v);
}

TEST(filter)
{
    (void)r, (void)args;
    return named(out, v, ig__tfilter_find);
}

TEST(test)
{
    (void)r, (void)args;
    return named(out, v, ig__ttest_find);
}

const ig__tbuiltin *ig__ttest_find(const char *name)
{
    static const ig__tbuiltin rows[] = {
        {"defined", "", test_defined},    {"undefined", "", test_undefined},
        {"none", "", test_none},          {"boolean", "", test_boolean},
        {"true", "", test_true},          {"false", "", test_false},
        {"integer", "", test_integer},    {"float", "", test_float},
        {"number", "", test_number},      {"string", "", test_string},
        {"mapping", "", test_mapping},    {"iterable", "", test_iterable},
        {"sequence", "", test_iterable},  {"callable", "", test_callable},
        {"escaped", "", test_escaped},    {"odd", "", test_odd},
        {"even", "", test_even},          {"divisibleby", "num", test_divisibleby},
        {"eq", "other", test_eq},         {"equalto", "other", test_eq},
        {"==", "other", test_eq},         {"ne", "other", test_ne},
        {"!=", "other", test_ne},         {"lt", "other", test_lt},
        {"lessthan", "other", test_lt},   {"<", "other", test_lt},
        {"le", "other", test_le},         {"<=", "other", test_le},
        {"gt", "other", test_gt},         {"greaterthan", "other", test_gt},
        {">", "other", test_gt},          {"ge", "other", test_ge},
        {">=", "other", test_ge},         {"in", "seq", test_in},
        {"sameas", "other", test_sameas}, {"lower", "", test_lower},
        {"upper", "", test_upper},        {"filter", "", test_filter},
        {"test", "", test_test},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rows[i].name, name) == 0)
            return &rows[i];
    return NULL;
}
