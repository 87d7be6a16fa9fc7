/* The functions that every template sees: range, namespace, dict, raise_exception and
 * strftime_now. One row each.
 */
#include "text/template_int.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define FUNCTION(name)                                                                     \
    static ig_status call_##name(ig__trun *r, ig__tvalue *out, ig__tvalue self,            \
                                 ig__targs *args)

FUNCTION(range)
{
    int64_t from = 0, to, step = 1;
    (void)self;
    if (!args->given[0])
        return ig__trun_fail(r, IG_ERR_FORMAT, "range wants a number");
    IG_TRY(ig__targ_int(r, &to, "range", args->arg[0]));
    if (args->given[1]) {
        from = to;
        IG_TRY(ig__targ_int(r, &to, "range", args->arg[1]));
    }
    if (args->given[2])
        IG_TRY(ig__targ_int(r, &step, "range", args->arg[2]));
    if (step == 0)
        return ig__trun_fail(r, IG_ERR_FORMAT, "range: the step is 0");
    /* differences of int64 fit uint64 */
    const uint64_t span = step > 0 ? (to > from ? (uint64_t)to - (uint64_t)from : 0)
                                   : (from > to ? (uint64_t)from - (uint64_t)to : 0);
    const uint64_t stride = step > 0 ? (uint64_t)step : 0 - (uint64_t)step;
    const uint64_t n = span / stride + (span % stride != 0);
    if (n > IG_TMAX_ITEMS)
        return ig__trun_fail(r, IG_ERR_LIMIT, "range of %llu items, at most %zu",
                             (unsigned long long)n, IG_TMAX_ITEMS);
    bool markup = true;
    for (size_t i = 0; i < 3; i++)
        markup = markup && (!args->given[i] || args->arg[i].markup);
    IG_TRY(ig__tlist_make(r, out, IG_T_LIST, (size_t)n, markup));
    for (uint64_t i = 0; i < n; i++)
        IG_TRY(ig__tlist_push(
            r, out->list,
            ig__tint((int64_t)((uint64_t)from + i * (uint64_t)step), markup)));
    return ig__trun_step(r, (size_t)n * sizeof *out);
}

/* namespace(...) and dict(...): the keys of a dict, then the named arguments. */
static ig_status collect(ig__trun *r, ig__tvalue *out, ig__targs *args, ig__tkind kind)
{
    IG_TRY(ig__tdict_make(r, out, kind, 0, true));
    for (size_t i = 0; i < args->n_pos; i++) {
        if (args->pos[i].kind != IG_T_DICT)
            return ig__trun_fail(r, IG_ERR_FORMAT,
                                 "namespace or dict of a value of type %s",
                                 ig__tkind_name(args->pos[i]));
        const ig__tdict *from = args->pos[i].dict;
        for (size_t k = 0; k < from->n; k++)
            IG_TRY(
                ig__tdict_set(r, out->dict, from->entries[k].key, from->entries[k].value));
        out->markup = out->markup && args->pos[i].markup;
    }
    for (size_t i = 0; i < args->n_named; i++) {
        ig__tvalue key;
        IG_TRY(ig__tstr_make(r, &key, args->names[i], strlen(args->names[i]), true));
        IG_TRY(ig__tdict_set(r, out->dict, key, args->named[i]));
    }
    return IG_OK;
}

FUNCTION(namespace)
{
    (void)self;
    return collect(r, out, args, IG_T_NAMESPACE);
}

FUNCTION(dict)
{
    (void)self;
    return collect(r, out, args, IG_T_DICT);
}

FUNCTION(raise_exception)
{
    const ig__tstr *words;
    (void)out, (void)self;
    IG_TRY(ig__tto_string(r, &words, args->arg[0]));
    size_t n = words->n < 400 ? words->n : 400; /* fits an ig_error */
    while (n < words->n && n && ((unsigned char)words->bytes[n] & 0xC0) == 0x80)
        n--;
    return ig__trun_fail(r, IG_ERR_FORMAT, "%.*s", (int)n, words->n ? words->bytes : "");
}

/* One conversion of strftime, in English whatever the locale; returns its length. */
static int format_time(char text[16], char c, const struct tm *t)
{
    static const char *const days[] = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                       "Thursday", "Friday", "Saturday"};
    static const char *const months[] = {"January",   "February", "March",    "April",
                                         "May",       "June",     "July",     "August",
                                         "September", "October",  "November", "December"};
    const int hour = t->tm_hour % 12 ? t->tm_hour % 12 : 12;
    switch (c) {
    case 'Y':
        return snprintf(text, 16, "%d", t->tm_year + 1900);
    case 'y':
        return snprintf(text, 16, "%02d", t->tm_year % 100);
    case 'm':
        return snprintf(text, 16, "%02d", t->tm_mon + 1);
    case 'd':
        return snprintf(text, 16, "%02d", t->tm_mday);
    case 'H':
        return snprintf(text, 16, "%02d", t->tm_hour);
    case 'I':
        return snprintf(text, 16, "%02d", hour);
    case 'M':
        return snprintf(text, 16, "%02d", t->tm_min);
    case 'S':
        return snprintf(text, 16, "%02d", t->tm_sec);
    case 'j':
        return snprintf(text, 16, "%03d", t->tm_yday + 1);
    case 'p':
        return snprintf(text, 16, "%s", t->tm_hour < 12 ? "AM" : "PM");
    case 'B':
        return snprintf(text, 16, "%s", months[t->tm_mon]);
    case 'b':
        return snprintf(text, 16, "%.3s", months[t->tm_mon]);
    case 'A':
        return snprintf(text, 16, "%s", days[t->tm_wday]);
    case 'a':
        return snprintf(text, 16, "%.3s", days[t->tm_wday]);
    case 'F':
        return snprintf(text, 16, "%d-%02d-%02d", t->tm_year + 1900, t->tm_mon + 1,
                        t->tm_mday);
    case 'T':
        return snprintf(text, 16, "%02d:%02d:%02d", t->tm_hour, t->tm_min, t->tm_sec);
    case 'Z':
        return snprintf(text, 16, "UTC");
    case '%':
        return snprintf(text, 16, "%%");
    default:
        return -1;
    }
}

/* UTC: the zone would have to be read from the environment. */
FUNCTION(strftime_now)
{
    const ig__tstr *format;
    struct tm t;
    const time_t now = time(NULL);
    ig__tout text = {.r = r};
    (void)self;
    IG_TRY(ig__targ_string(r, &format, "strftime_now", args->arg[0]));
    if (r->now) {
        *out = ig__tstring(r->now);
        return IG_OK;
    }
    if (!gmtime_r(&now, &t))
        return ig__trun_fail(r, IG_ERR_INTERNAL, "the clock is outside the calendar");
    for (size_t i = 0; i < format->n; i++) {
        char piece[16] = {format->bytes[i]};
        int n = 1;
        const bool bare = i + 2 < format->n && format->bytes[i + 1] == '-'; /* %-d */
        if (format->bytes[i] == '%' && i + 1 < format->n) {
            i += 1 + bare;
            n = format_time(piece, format->bytes[i], &t);
        }
        if (n < 0)
            return ig__trun_fail(r, IG_ERR_UNSUPPORTED,
                                 "strftime_now: no conversion '%%%c'", format->bytes[i]);
        const int from = bare && n == 2 && piece[0] == '0';
        IG_TRY(ig__tout_bytes(&text, piece + from, (size_t)(n - from), false));
    }
    return ig__tout_finish(&text, out);
}

const ig__tbuiltin *ig__tglobal_find(const char *name)
{
    static const ig__tbuiltin rows[] = {
        {"range", "start stop step", call_range},
        {"namespace", NULL, call_namespace},
        {"dict", NULL, call_dict},
        {"raise_exception", "message", call_raise_exception},
        {"strftime_now", "format", call_strftime_now},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rows[i].name, name) == 0)
            return &rows[i];
    return NULL;
}
