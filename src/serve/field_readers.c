/* Readers of fields: numbers and switches, and those with a shape of their own; the messages
 * and the prompt are read in messages.c. */
#include "serve/fields_int.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static bool no_memory(ig__bad *bad)
{
    bad->no_memory = true;
    return ig__refuse(bad, "", "out of memory");
}

const char *ig__kind_name(const ig__json *v)
{
    static const char *const names[] = {"null",     "a boolean", "a whole number",
                                        "a number", "a string",  "a list",
                                        "an object"};
    return names[ig__json_kind_of(v)];
}

/* ---- numbers and booleans ---- */

/* "2.5", or the kind of what is no number. */
static const char *shown(char *text, size_t cap, const ig__json *v)
{
    const ig__json_kind kind = ig__json_kind_of(v);
    if (kind == IG_JSON_INT)
        (void)snprintf(text, cap, "%lld", (long long)ig__json_int(v));
    else if (kind == IG_JSON_REAL)
        (void)snprintf(text, cap, "%.10g", ig__json_real(v));
    else
        return ig__kind_name(v);
    return text;
}

static bool refuse_number(ig__reading *r, const char *field, const ig__json *v,
                          const char *kind, double min, double max)
{
    char found[40];
    return ig__refuse(r->bad, field, "%s is %s, wanted is a %s from %.10g to %.10g", field,
                      shown(found, sizeof found, v), kind, min, max);
}

bool ig__read_int(ig__reading *r, const char *field, const ig__json *v, double min,
                  double max, int64_t *out)
{
    const ig__json_kind kind = ig__json_kind_of(v);
    const double x = ig__json_real(v);
    if ((kind != IG_JSON_INT && kind != IG_JSON_REAL) || !(x >= min && x <= max) ||
        x != floor(x))
        return refuse_number(r, field, v, "whole number", min, max);
    *out = (int64_t)x;
    return true;
}

bool ig__read_real(ig__reading *r, const ig__field *f, const ig__json *v, double *out)
{
    const ig__json_kind kind = ig__json_kind_of(v);
    const double x = ig__json_real(v);
    if ((kind != IG_JSON_INT && kind != IG_JSON_REAL) || !(x >= f->min && x <= f->max))
        return refuse_number(r, f->name, v, "number", f->min, f->max);
    *out = x;
    return true;
}

bool ig__read_bool(ig__reading *r, const ig__field *f, const ig__json *v, bool *out)
{
    if (ig__json_kind_of(v) != IG_JSON_BOOL)
        return ig__refuse(r->bad, f->name, "%s is %s, wanted is true or false", f->name,
                          ig__kind_name(v));
    *out = ig__json_bool(v);
    return true;
}

/* ---- fields with a shape of their own ---- */

const char *ig__copy_text(ig__reading *r, const char *field, const ig__json *v)
{
    if (ig__json_kind_of(v) != IG_JSON_STRING) {
        ig__refuse(r->bad, field, "%s is %s, wanted is a string", field, ig__kind_name(v));
        return NULL;
    }
    size_t n;
    const char *text = ig__json_string(v, &n);
    if (strlen(text) != n) {
        ig__refuse(r->bad, field, "%s holds a zero byte", field);
        return NULL;
    }
    const char *copy = ig__arena_copy(&r->p->arena, text, n + 1);
    if (!copy)
        no_memory(r->bad);
    return copy;
}

bool ig__read_model(ig__reading *r, const ig__field *f, const ig__json *v)
{
    r->p->model = ig__copy_text(r, f->name, v);
    return r->p->model != NULL;
}

bool ig__read_seed(ig__reading *r, const ig__field *f, const ig__json *v)
{
    r->p->has_seed = true;
    if (ig__json_kind_of(v) == IG_JSON_INT) {
        r->p->seed = ig__json_int(v);
        return true;
    }
    const double x = ig__json_kind_of(v) == IG_JSON_REAL ? ig__json_real(v) : 0.5;
    if (x != floor(x) || !(x >= f->min && x < -f->min)) {
        char found[40];
        return ig__refuse(r->bad, f->name,
                          "seed is %s, wanted is a whole number of 64 bits",
                          shown(found, sizeof found, v));
    }
    r->p->seed = (int64_t)x;
    return true;
}

static bool add_stop(ig__reading *r, const char *field, const ig__json *v)
{
    const char *text = ig__copy_text(r, field, v);
    if (!text)
        return false;
    const size_t n = strlen(text);
    if (n < 1 || n > IG_STOP_BYTES)
        return ig__refuse(r->bad, field, "%s has %zu bytes, wanted are 1 to %d", field, n,
                          IG_STOP_BYTES);
    r->p->stop[r->p->n_stop++] = text;
    return true;
}

bool ig__read_stop(ig__reading *r, const ig__field *f, const ig__json *v)
{
    r->p->n_stop = 0;
    r->p->stop = ig__arena_alloc(&r->p->arena, IG_STOP_MAX * sizeof *r->p->stop);
    if (!r->p->stop)
        return no_memory(r->bad);
    if (ig__json_kind_of(v) == IG_JSON_STRING)
        return add_stop(r, f->name, v);
    if (ig__json_kind_of(v) != IG_JSON_ARRAY)
        return ig__refuse(r->bad, f->name,
                          "stop is %s, wanted is a string or a list of strings",
                          ig__kind_name(v));
    const size_t n = ig__json_length(v);
    if (n > IG_STOP_MAX)
        return ig__refuse(r->bad, f->name, "stop has %zu strings, wanted are 0 to %d", n,
                          IG_STOP_MAX);
    for (size_t i = 0; i < n; i++) {
        char field[32];
        (void)snprintf(field, sizeof field, "stop[%zu]", i);
        if (!add_stop(r, field, ig__json_at(v, i)))
            return false;
    }
    return true;
}

/* The token that a key of logit_bias names; -1: none. */
static int64_t bias_token(const char *key, size_t n, int64_t vocab)
{
    int64_t id = 0;
    for (size_t i = 0; i < n; i++) {
        if (key[i] < '0' || key[i] > '9' || id >= vocab)
            return -1;
        id = id * 10 + (key[i] - '0');
    }
    return n > 0 && id < vocab ? id : -1;
}

bool ig__read_bias(ig__reading *r, const ig__field *f, const ig__json *v)
{
    if (ig__json_kind_of(v) != IG_JSON_OBJECT)
        return ig__refuse(r->bad, f->name,
                          "logit_bias is %s, wanted is an object of token ids and biases",
                          ig__kind_name(v));
    const size_t n = ig__json_length(v);
    if (n > IG_BIAS_MAX)
        return ig__refuse(r->bad, f->name, "logit_bias has %zu tokens, wanted are 0 to %d",
                          n, IG_BIAS_MAX);
    r->p->n_bias = 0;
    r->p->bias = ig__arena_alloc(&r->p->arena, (n + 1) * sizeof *r->p->bias);
    if (!r->p->bias)
        return no_memory(r->bad);
    for (void *it = ig__json_first(v); it; it = ig__json_next(v, it)) {
        size_t n_key;
        const char *key = ig__json_key(it, &n_key);
        const int64_t id = bias_token(key, n_key, r->vocab);
        if (id < 0)
            return ig__refuse(
                r->bad, f->name,
                "logit_bias names token '%.*s', wanted is an id from 0 to %lld",
                (int)(n_key < 20 ? n_key : 20), key, (long long)r->vocab - 1);
        double bias;
        char field[40];
        (void)snprintf(field, sizeof field, "logit_bias.%lld", (long long)id);
        const ig__field one = {.name = field, .min = -100, .max = 100};
        if (!ig__read_real(r, &one, ig__json_value(it), &bias))
            return false;
        r->p->bias[r->p->n_bias++] = (ig_logit_bias){(int32_t)id, (float)bias};
    }
    return true;
}

/* Of a chat a switch, of a completion a count. */
bool ig__read_logprobs(ig__reading *r, const ig__field *f, const ig__json *v)
{
    if (r->endpoint == IG_CHAT)
        return ig__read_bool(r, f, v, &r->p->want_logprobs);
    return ig__read_int(r, f->name, v, 0, IG_LOGPROBS_MAX, &r->p->n_logprobs);
}

bool ig__read_stream_options(ig__reading *r, const ig__field *f, const ig__json *v)
{
    if (ig__json_kind_of(v) != IG_JSON_OBJECT)
        return ig__refuse(r->bad, f->name, "stream_options is %s, wanted is an object",
                          ig__kind_name(v));
    r->p->has_stream_options = true;
    const ig__json *usage = ig__json_get(v, "include_usage");
    const ig__field one = {.name = "stream_options.include_usage"};
    return !usage || ig__json_kind_of(usage) == IG_JSON_NULL ||
           ig__read_bool(r, &one, usage, &r->p->include_usage);
}

/* ---- fields that are not done: their default is let through ---- */

static bool refuse_undone(ig__reading *r, const ig__field *f)
{
    return ig__refuse(r->bad, f->name, "%s: %s is not supported", f->name, f->help);
}

static bool is_text(const ig__json *v, const char *text)
{
    size_t n;
    return v && ig__json_kind_of(v) == IG_JSON_STRING &&
           strcmp(ig__json_string(v, &n), text) == 0;
}

/* An empty list, object or string, false, 0, and what `standard` says are no request. */
static bool is_nothing(const ig__field *f, const ig__json *v)
{
    size_t n;
    switch (ig__json_kind_of(v)) {
    case IG_JSON_BOOL:
        return !ig__json_bool(v);
    case IG_JSON_INT:
    case IG_JSON_REAL:
        return !(ig__json_real(v) < f->min) && !(ig__json_real(v) > f->max);
    case IG_JSON_STRING:
        (void)ig__json_string(v, &n);
        return n == 0 ||
               (f->standard && f->standard[0] == '"' && n + 2 == strlen(f->standard) &&
                memcmp(f->standard + 1, ig__json_string(v, &n), n) == 0);
    case IG_JSON_ARRAY:
    case IG_JSON_OBJECT:
        return ig__json_length(v) == 0;
    case IG_JSON_NULL:
        break;
    }
    return true;
}

bool ig__read_undone(ig__reading *r, const ig__field *f, const ig__json *v)
{
    return is_nothing(f, v) || refuse_undone(r, f);
}

bool ig__read_response_format(ig__reading *r, const ig__field *f, const ig__json *v)
{
    if (ig__json_kind_of(v) == IG_JSON_OBJECT && is_text(ig__json_get(v, "type"), "text"))
        return true;
    return refuse_undone(r, f);
}

bool ig__read_modalities(ig__reading *r, const ig__field *f, const ig__json *v)
{
    if (ig__json_kind_of(v) == IG_JSON_ARRAY && ig__json_length(v) == 1 &&
        is_text(ig__json_at(v, 0), "text"))
        return true;
    return refuse_undone(r, f);
}

bool ig__read_tool_choice(ig__reading *r, const ig__field *f, const ig__json *v)
{
    return is_text(v, "none") || is_text(v, "auto") || refuse_undone(r, f);
}
