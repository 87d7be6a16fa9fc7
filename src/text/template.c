/* Chat templates: making them, and rendering the variables of a JSON text.
 *
 * A run converts those variables that the template names; their strings stay in the JSON
 * tree, which lives as long as the run. What comes from JSON is data, but for the top-level
 * names that end in _token: those are the model's, and their text is meant to be read as
 * control tokens.
 */
#include "text/template_int.h"

#include "base/json.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- making ---- */

/* The source with line ends of all kinds as \n, and without the last one: as Jinja reads
 * it. */
static const char *normalise(ig__arena *arena, const char *source, size_t *n)
{
    char *text = ig__arena_alloc(arena, *n + 1);
    size_t k = 0;
    if (!text)
        return NULL;
    for (size_t i = 0; i < *n; i++) {
        if (source[i] == '\r' && i + 1 < *n && source[i + 1] == '\n')
            continue;
        text[k++] = source[i] == '\r' ? '\n' : source[i];
    }
    k -= k && text[k - 1] == '\n';
    text[k] = 0;
    *n = k;
    return text;
}

static ig_status compile(ig_template *tmpl, const char *source, size_t n_bytes,
                         ig_error *err)
{
    ig__ttokens tokens = {.a = &tmpl->a};
    const char *text = normalise(&tmpl->arena, source, &n_bytes);
    if (!text)
        return ig__fail_memory(err, "template", n_bytes);
    ig_status status = ig__tlex(&tokens, &tmpl->arena, text, n_bytes, err);
    if (status == IG_OK)
        status = ig__tparse(tmpl, &tokens, err);
    ig__free(&tmpl->a, tokens.items);
    return status;
}

ig_status ig_template_create(ig_template **template_out, ig_context *ctx,
                             const char *source, size_t n_bytes, ig_error *err)
{
    *template_out = NULL;
    if (n_bytes > IG_TMAX_SOURCE)
        return ig__fail(err, IG_ERR_LIMIT, "template: %zu bytes, at most %zu", n_bytes,
                        IG_TMAX_SOURCE);
    const ig_allocator a = *ig__context_allocator(ctx);
    ig_template *tmpl = ig__alloc_zero(&a, sizeof *tmpl);
    if (!tmpl)
        return ig__fail_memory(err, "template", sizeof *tmpl);
    tmpl->a = a;
    tmpl->arena = ig__arena_init(&tmpl->a);
    const ig_status status = compile(tmpl, source, n_bytes, err);
    if (status != IG_OK) {
        ig_template_destroy(tmpl);
        return status;
    }
    *template_out = tmpl;
    return IG_OK;
}

void ig_template_destroy(ig_template *tmpl)
{
    if (!tmpl)
        return;
    const ig_allocator a = tmpl->a;
    ig__arena_fini(&tmpl->arena);
    ig__free(&a, tmpl);
}

/* ---- what a run needs ---- */

ig_status ig__trun_fail(ig__trun *r, ig_status status, const char *fmt, ...)
{
    char text[440];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    ig__tutf8_clean(text);
    r->status = ig__fail(r->err, status, "template line %d: %s", r->line, text);
    return r->status;
}

ig_status ig__trun_undefined(ig__trun *r, ig__tvalue v)
{
    return ig__trun_fail(r, IG_ERR_FORMAT, "'%.80s' is undefined", v.name ? v.name : "it");
}

void *ig__trun_alloc(ig__trun *r, size_t bytes)
{
    if (bytes > IG_TMAX_MEMORY - r->n_bytes) {
        (void)ig__trun_fail(r, IG_ERR_LIMIT, "more than %zu bytes of memory",
                            IG_TMAX_MEMORY);
        return NULL;
    }
    void *p = ig__arena_alloc(&r->arena, bytes);
    r->n_bytes += bytes;
    if (!p)
        r->status = ig__fail_memory(r->err, "template", bytes);
    return p;
}

ig_status ig__trun_step(ig__trun *r, size_t work_bytes)
{
    r->steps += 1 + (int64_t)(work_bytes / 64);
    if (r->steps <= IG_TMAX_STEPS)
        return IG_OK;
    return ig__trun_fail(r, IG_ERR_LIMIT, "more than %d steps", IG_TMAX_STEPS);
}

/* ---- variables ---- */

static ig_status from_json(ig__trun *r, ig__tvalue *out, const ig__json *v, int depth);

static ig_status string_from_json(ig__trun *r, ig__tvalue *out, const ig__json *v,
                                  bool markup)
{
    size_t n;
    const char *bytes = ig__json_string(v, &n);
    return ig__tstr_make(r, out, bytes, n, markup);
}

/* Built without the bounds that hold for what a template makes: a long conversation is
 * bounded by the bytes of its text. */
static ig_status list_from_json(ig__trun *r, ig__tvalue *out, const ig__json *v, int depth)
{
    const size_t n = ig__json_length(v);
    IG_TRY(ig__tlist_make(r, out, IG_T_LIST, 0, false));
    out->list->items = ig__trun_alloc(r, n * sizeof *out->list->items);
    if (!out->list->items)
        return r->status;
    for (size_t i = 0; i < n; i++)
        IG_TRY(from_json(r, &out->list->items[i], ig__json_at(v, i), depth + 1));
    out->list->n = n;
    return IG_OK;
}

static ig_status dict_from_json(ig__trun *r, ig__tvalue *out, const ig__json *v, int depth)
{
    IG_TRY(ig__tdict_make(r, out, IG_T_DICT, ig__json_length(v), false));
    for (void *it = ig__json_first(v); it; it = ig__json_next(v, it)) {
        size_t n;
        const char *bytes = ig__json_key(it, &n);
        ig__tvalue key, value;
        IG_TRY(ig__tstr_make(r, &key, bytes, n, false));
        IG_TRY(from_json(r, &value, ig__json_value(it), depth + 1));
        IG_TRY(ig__tdict_add(r, out->dict, key, value));
    }
    return ig__tdict_index(r, out->dict);
}

static ig_status from_json(ig__trun *r, ig__tvalue *out, const ig__json *v, int depth)
{
    *out = ig__tundefined(NULL);
    if (depth > IG_TMAX_NEST)
        return ig__trun_fail(r, IG_ERR_LIMIT, "variables nest deeper than %d",
                             IG_TMAX_NEST);
    switch (ig__json_kind_of(v)) {
    case IG_JSON_NULL:
        out->kind = IG_T_NONE;
        return IG_OK;
    case IG_JSON_BOOL:
        *out = ig__tbool(ig__json_bool(v), false);
        return IG_OK;
    case IG_JSON_INT:
        *out = ig__tint(ig__json_int(v), false);
        return IG_OK;
    case IG_JSON_REAL:
        *out = ig__tfloat(ig__json_real(v), false);
        return IG_OK;
    case IG_JSON_STRING:
        return string_from_json(r, out, v, false);
    case IG_JSON_ARRAY:
        return list_from_json(r, out, v, depth);
    case IG_JSON_OBJECT:
        break;
    }
    return dict_from_json(r, out, v, depth);
}

static bool is_token_name(const char *name)
{
    const size_t n = strlen(name), n_suffix = strlen("_token");
    return n > n_suffix && strcmp(name + n - n_suffix, "_token") == 0;
}

static ig_status set_variables(ig__trun *r, const ig__json *json)
{
    const int n = r->tmpl->n_symbols;
    r->root = ig__trun_alloc(r, (size_t)n * sizeof *r->root);
    if (!r->root)
        return r->status;
    for (int i = 0; i < n; i++) {
        const char *name = r->tmpl->symbols[i].name;
        const ig__json *v = ig__json_get(json, name);
        ig__tvalue *out = &r->root[i];
        *out = ig__tundefined(name);
        if (v && ig__json_kind_of(v) == IG_JSON_STRING && is_token_name(name))
            IG_TRY(string_from_json(r, out, v, true));
        else if (v)
            IG_TRY(from_json(r, out, v, 1));
        if (out->kind == IG_T_STRING && strcmp(name, "strftime_now") == 0) {
            r->now = out->s;
            *out = ig__tundefined(name);
        }
    }
    return IG_OK;
}

/* ---- rendering ---- */

/* Text, a 0 and the marks in one block. */
static ig_status hand_out(ig_rendered *rendered, const ig__trun *r, const ig__tout *text)
{
    char *memory = ig__alloc(&r->tmpl->a, text->n * 2 + 1);
    if (!memory)
        return ig__fail_memory(r->err, "template", text->n * 2 + 1);
    *rendered = (ig_rendered){.text = memory,
                              .n_bytes = text->n,
                              .markup = (uint8_t *)memory + text->n + 1,
                              .memory = memory};
    if (text->n) {
        memcpy(rendered->text, text->bytes, text->n);
        memcpy(rendered->markup, text->marks, text->n);
    }
    rendered->text[text->n] = 0;
    return IG_OK;
}

static ig_status run(ig_rendered *rendered, ig__trun *r, const ig__json *json)
{
    ig__tout text = {.r = r};
    r->out = &text;
    IG_TRY(set_variables(r, json));
    IG_TRY(ig__texec(r, r->tmpl->body));
    return hand_out(rendered, r, &text);
}

ig_status ig_template_render(ig_rendered *rendered_out, const ig_template *tmpl,
                             const char *json, size_t n_bytes, ig_error *err)
{
    ig__json *root;
    *rendered_out = (ig_rendered){0};
    if (n_bytes > IG_TMAX_JSON)
        return ig__fail(err, IG_ERR_LIMIT, "template: variables of %zu bytes, at most %zu",
                        n_bytes, IG_TMAX_JSON);
    IG_TRY(ig__json_parse(&root, json, n_bytes, err));
    ig__trun r = {.tmpl = tmpl, .err = err};
    r.arena = ig__arena_init(&tmpl->a);
    ig_status status;
    if (ig__json_kind_of(root) == IG_JSON_OBJECT)
        status = run(rendered_out, &r, root);
    else
        status = ig__fail(err, IG_ERR_FORMAT, "template: the variables are no JSON object");
    ig__arena_fini(&r.arena);
    ig__json_destroy(root);
    return status;
}

void ig_rendered_free(const ig_template *tmpl, ig_rendered *rendered)
{
    ig__free(&tmpl->a, rendered->memory);
    *rendered = (ig_rendered){0};
}
