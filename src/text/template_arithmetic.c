/* + - * / // % ** ~ and signs, as Python has them, but for whole numbers: they have 64 bits,
 * and passing those is an error.
 */
#include "text/template_int.h"

#include <math.h>

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

ig_status ig__tarithmetic(ig__trun *r, ig__tvalue *out, int op, ig__tvalue a, ig__tvalue b)
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

ig_status ig__tsign(ig__trun *r, ig__tvalue *v, bool minus)
{
    if (v->kind == IG_T_UNDEFINED)
        return ig__trun_undefined(r, *v);
    if (!ig__tis_number(*v))
        return ig__trun_fail(r, IG_ERR_FORMAT, "the sign of a %s", ig__tkind_name(*v));
    if (v->kind == IG_T_FLOAT)
        v->f = minus ? -v->f : v->f;
    else
        return whole_op(r, v, minus ? '-' : '*', minus ? 0 : 1, ig__twhole(*v), v->markup);
    return IG_OK;
}
