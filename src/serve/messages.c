/* The fields with the text: messages of a conversation, a prompt. */
#include "serve/fields_int.h"

#include "serve/json_write.h"

#include <stdio.h>
#include <string.h>

static const char *const roles[] = {"system", "developer", "user", "assistant"};
enum { N_ROLES = sizeof roles / sizeof *roles };

static bool no_memory(ig__reading *r)
{
    r->bad->no_memory = true;
    return ig__refuse(r->bad, "", "out of memory");
}

static const char *read_role(ig__reading *r, const char *field, const ig__json *v)
{
    if (!v) {
        ig__refuse(r->bad, field, "%s is missing", field);
        return NULL;
    }
    const char *role = ig__copy_text(r, field, v);
    if (!role)
        return NULL;
    for (int i = 0; i < N_ROLES; i++)
        if (strcmp(role, roles[i]) == 0)
            return role;
    if (strcmp(role, "tool") == 0 || strcmp(role, "function") == 0)
        ig__refuse(r->bad, field, "%s is '%s': calling tools is not supported", field,
                   role);
    else
        ig__refuse(r->bad, field,
                   "%s is '%.40s', wanted is system, developer, user or assistant", field,
                   role);
    return NULL;
}

/* The text of one part {"type": "text", "text": ...}. */
static bool add_part(ig__reading *r, const char *field, const ig__json *v, ig__buffer *text)
{
    char inner[112];
    if (ig__json_kind_of(v) != IG_JSON_OBJECT)
        return ig__refuse(r->bad, field, "%s is %s, wanted is an object", field,
                          ig__kind_name(v));
    const ig__json *type = ig__json_get(v, "type"), *part = ig__json_get(v, "text");
    size_t n;
    const char *name =
        type && ig__json_kind_of(type) == IG_JSON_STRING ? ig__json_string(type, &n) : "";
    if (strcmp(name, "text") != 0)
        return ig__refuse(r->bad, field, "%s is of type '%.40s', supported is text", field,
                          name);
    (void)snprintf(inner, sizeof inner, "%s.text", field);
    if (!part)
        return ig__refuse(r->bad, inner, "%s is missing", inner);
    const char *copy = ig__copy_text(r, inner, part);
    if (copy)
        ig__buffer_append_text(text, copy);
    return copy != NULL;
}

static const char *read_parts(ig__reading *r, const char *field, const ig__json *v)
{
    ig__buffer text = ig__buffer_init(r->p->arena.a);
    const char *copy = NULL;
    const size_t n = ig__json_length(v);
    for (size_t i = 0; i < n; i++) {
        char part[96];
        (void)snprintf(part, sizeof part, "%s[%zu]", field, i);
        if (!add_part(r, part, ig__json_at(v, i), &text))
            goto done;
    }
    if (!text.failed)
        copy = ig__arena_copy(&r->p->arena, text.data ? text.data : "", text.n + 1);
    if (!copy)
        no_memory(r);
done:
    ig__buffer_fini(&text);
    return copy;
}

/* NULL: refused. Only an assistant's message may have none: one that called tools. */
static const char *read_content(ig__reading *r, const char *field, const ig__json *v,
                                bool may_be_null)
{
    if (!v || ig__json_kind_of(v) == IG_JSON_NULL) {
        if (may_be_null)
            return "";
        ig__refuse(r->bad, field, "%s is %s, wanted is a string or a list of text parts",
                   field, v ? "null" : "missing");
        return NULL;
    }
    if (ig__json_kind_of(v) == IG_JSON_ARRAY)
        return read_parts(r, field, v);
    if (ig__json_kind_of(v) == IG_JSON_STRING)
        return ig__copy_text(r, field, v);
    ig__refuse(r->bad, field, "%s is %s, wanted is a string or a list of text parts", field,
               ig__kind_name(v));
    return NULL;
}

static bool read_message(ig__reading *r, size_t i, const ig__json *v)
{
    char field[64];
    (void)snprintf(field, sizeof field, "messages[%zu]", i);
    if (ig__json_kind_of(v) != IG_JSON_OBJECT)
        return ig__refuse(r->bad, field, "%s is %s, wanted is an object", field,
                          ig__kind_name(v));
    (void)snprintf(field, sizeof field, "messages[%zu].role", i);
    ig_message *m = &r->p->messages[i];
    m->role = read_role(r, field, ig__json_get(v, "role"));
    if (!m->role)
        return false;
    (void)snprintf(field, sizeof field, "messages[%zu].content", i);
    const ig__json *calls = ig__json_get(v, "tool_calls");
    const bool called = strcmp(m->role, "assistant") == 0 && calls &&
                        ig__json_kind_of(calls) == IG_JSON_ARRAY;
    m->content = read_content(r, field, ig__json_get(v, "content"), called);
    return m->content != NULL;
}

bool ig__read_messages(ig__reading *r, const ig__field *f, const ig__json *v)
{
    if (ig__json_kind_of(v) != IG_JSON_ARRAY)
        return ig__refuse(r->bad, f->name, "messages is %s, wanted is a list",
                          ig__kind_name(v));
    const size_t n = ig__json_length(v);
    if (n < 1 || n > IG_MESSAGES_MAX)
        return ig__refuse(r->bad, f->name, "messages has %zu items, wanted are 1 to %d", n,
                          IG_MESSAGES_MAX);
    r->p->messages = ig__arena_alloc(&r->p->arena, n * sizeof *r->p->messages);
    if (!r->p->messages)
        return no_memory(r);
    r->p->n_messages = (int64_t)n;
    for (size_t i = 0; i < n; i++)
        if (!read_message(r, i, ig__json_at(v, i)))
            return false;
    return true;
}

static bool read_ids(ig__reading *r, const ig__json *v)
{
    const size_t n = ig__json_length(v);
    r->p->ids = ig__arena_alloc(&r->p->arena, (n + 1) * sizeof *r->p->ids);
    if (!r->p->ids)
        return no_memory(r);
    r->p->n_ids = (int64_t)n;
    for (size_t i = 0; i < n; i++) {
        char field[40];
        int64_t id;
        (void)snprintf(field, sizeof field, "prompt[%zu]", i);
        if (!ig__read_int(r, field, ig__json_at(v, i), 0, (double)r->vocab - 1, &id))
            return false;
        r->p->ids[i] = (int32_t)id;
    }
    return true;
}

bool ig__read_prompt(ig__reading *r, const ig__field *f, const ig__json *v)
{
    if (ig__json_kind_of(v) == IG_JSON_ARRAY && ig__json_length(v) > 0) {
        const ig__json *first = ig__json_at(v, 0);
        if (ig__json_kind_of(first) == IG_JSON_INT ||
            ig__json_kind_of(first) == IG_JSON_REAL)
            return read_ids(r, v);
        if (ig__json_length(v) > 1)
            return ig__refuse(
                r->bad, f->name,
                "prompt has %zu items: several prompts in one request are not "
                "supported",
                ig__json_length(v));
        if (ig__json_kind_of(first) == IG_JSON_ARRAY)
            return read_ids(r, first);
        v = first;
    }
    if (ig__json_kind_of(v) == IG_JSON_ARRAY)
        return ig__refuse(r->bad, f->name, "prompt is empty");
    if (ig__json_kind_of(v) != IG_JSON_STRING)
        return ig__refuse(r->bad, f->name,
                          "prompt is %s, wanted is a string or a list of token ids",
                          ig__kind_name(v));
    r->p->prompt = ig__json_string(v, &r->p->n_prompt);
    return true;
}
