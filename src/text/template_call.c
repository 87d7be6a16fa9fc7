/* Calling a built-in: its arguments by the names of its row, and what is checked for all.
 */
#include "text/template_int.h"

#include <string.h>

/* Index of the first n bytes of `name` among blank-separated `params`; -1: none. */
static int param_index(const char *params, const char *name)
{
    const size_t n = strlen(name);
    for (int i = 0; *params; i++) {
        const size_t len = strcspn(params, " ");
        if (len == n && memcmp(params, name, n) == 0)
            return i;
        params += len + (params[len] == ' ');
    }
    return -1;
}

static size_t count_params(const char *params)
{
    size_t n = *params != 0;
    for (; *params; params++)
        n += *params == ' ';
    return n;
}

static ig_status bind(ig__trun *r, const ig__tbuiltin *b, ig__targs *args)
{
    const size_t n = count_params(b->params);
    if (args->n_pos > n)
        return ig__trun_fail(r, IG_ERR_FORMAT, "%s takes at most %zu arguments, found %zu",
                             b->name, n, args->n_pos);
    for (size_t i = 0; i < args->n_pos; i++) {
        args->arg[i] = args->pos[i];
        args->given[i] = true;
    }
    for (size_t i = 0; i < args->n_named; i++) {
        const int at = param_index(b->params, args->names[i]);
        if (at < 0 || args->given[at])
            return ig__trun_fail(r, IG_ERR_FORMAT, "%s: argument '%s' is %s", b->name,
                                 args->names[i], at < 0 ? "unknown" : "given twice");
        args->arg[at] = args->named[i];
        args->given[at] = true;
    }
    return IG_OK;
}

ig_status ig__tbuiltin_call(ig__trun *r, ig__tvalue *out, const ig__tbuiltin *b,
                            ig__tvalue self, ig__targs *args)
{
    *out = ig__tundefined(b->name);
    if (b->params)
        IG_TRY(bind(r, b, args));
    return b->call(r, out, self, args);
}

ig_status ig__targ_string(ig__trun *r, const ig__tstr **out, const char *call, ig__tvalue v)
{
    if (v.kind == IG_T_UNDEFINED && v.name)
        return ig__trun_undefined(r, v);
    if (v.kind != IG_T_STRING)
        return ig__trun_fail(r, IG_ERR_FORMAT, "%s wants a string, found %s", call,
                             ig__tkind_name(v));
    *out = v.s;
    return IG_OK;
}

ig_status ig__targ_int(ig__trun *r, int64_t *out, const char *call, ig__tvalue v)
{
    if (v.kind != IG_T_INT && v.kind != IG_T_BOOL)
        return ig__trun_fail(r, IG_ERR_FORMAT, "%s wants a whole number, found %s", call,
                             ig__tkind_name(v));
    *out = ig__twhole(v);
    return IG_OK;
}
