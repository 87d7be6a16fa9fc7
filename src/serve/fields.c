/* The table of fields: reading a request by it, and writing the schema from it. */
#include "serve/fields_int.h"

#include "base/alloc.h"
#include "base/error.h"
#include "serve/json_write.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool ig__refuse(ig__bad *bad, const char *field, const char *fmt, ...)
{
    const size_t n = strlen(field);
    const size_t kept = n < sizeof bad->field ? n : sizeof bad->field - 1;
    memcpy(bad->field, field, kept);
    bad->field[kept] = 0;
    va_list arguments;
    va_start(arguments, fmt);
    (void)vsnprintf(bad->message, sizeof bad->message, fmt, arguments);
    va_end(arguments);
    return false;
}

/* ---- the table ---- */

#define BOTH        (IG_CHAT | IG_COMPLETION)
#define AT(field)   offsetof(ig__params, field)
#define STRING_LIST "\"oneOf\":[{\"type\":\"string\"},{\"type\":\"array\",\"items\":"
#define TOKEN_COUNT 2147483647.0
#define UNDONE(name, endpoints, standard, help)                                            \
    {                                                                                      \
        name, endpoints, IG_FIELD_OWN, 0, 0, 0, ig__read_undone, NULL, standard, help      \
    }

/* clang-format off */
static const ig__field table[] = {
    {"model", BOTH, IG_FIELD_OWN, 0, 0, 0, ig__read_model, "\"type\":\"string\"", NULL,
     "any name: the server has one model"},
    {"messages", IG_CHAT, IG_FIELD_OWN, 1, IG_MESSAGES_MAX, 0, ig__read_messages,
     "\"type\":\"array\",\"minItems\":1,\"maxItems\":4096,\"items\":{\"$ref\":\"#/components/schemas/Message\"}",
     NULL, "the conversation; a last message of the assistant's is continued"},
    {"prompt", IG_COMPLETION, IG_FIELD_OWN, 0, 0, 0, ig__read_prompt,
     "\"oneOf\":[{\"type\":\"string\",\"minLength\":1},"
     "{\"type\":\"array\",\"minItems\":1,\"maxItems\":1,\"items\":{\"type\":\"string\",\"minLength\":1}},"
     "{\"type\":\"array\",\"minItems\":1,\"items\":{\"type\":\"integer\",\"minimum\":0}}]", NULL,
     "text, a list of one text, or a list of token ids"},
    {"max_tokens", BOTH, IG_FIELD_INT, -1, TOKEN_COUNT, AT(max_tokens), NULL, NULL, NULL,
     "draws, the end token included; -1: until the context is full (chat's default; a completion's is 16)"},
    {"max_completion_tokens", IG_CHAT, IG_FIELD_INT, -1, TOKEN_COUNT, AT(max_completion_tokens), NULL,
     NULL, NULL, "the newer name of max_tokens; given both, this one counts"},
    {"temperature", BOTH, IG_FIELD_REAL, 0, 100, AT(temperature), NULL, NULL, "0.8", "0: the most probable token"},
    {"top_k", BOTH, IG_FIELD_INT, 0, TOKEN_COUNT, AT(top_k), NULL, NULL, "40", "0: off"},
    {"top_p", BOTH, IG_FIELD_REAL, 0, 1, AT(top_p), NULL, NULL, "0.95", "1: off"},
    {"min_p", BOTH, IG_FIELD_REAL, 0, 1, AT(min_p), NULL, NULL, "0.05", "0: off"},
    {"typical_p", BOTH, IG_FIELD_REAL, 1e-6, 1, AT(typical_p), NULL, NULL, "1", "1: off"},
    {"repeat_penalty", BOTH, IG_FIELD_REAL, 1e-6, 100, AT(repeat_penalty), NULL, NULL, "1", "1: off"},
    {"repetition_penalty", BOTH, IG_FIELD_REAL, 1e-6, 100, AT(repeat_penalty), NULL, NULL, "1",
     "another name of repeat_penalty"},
    {"repeat_last_n", BOTH, IG_FIELD_INT, -1, TOKEN_COUNT, AT(repeat_last_n), NULL, NULL, "64",
     "tokens that penalties look back at; -1: all"},
    {"presence_penalty", BOTH, IG_FIELD_REAL, -2, 2, AT(presence_penalty), NULL, NULL, "0", ""},
    {"frequency_penalty", BOTH, IG_FIELD_REAL, -2, 2, AT(frequency_penalty), NULL, NULL, "0", ""},
    {"seed", BOTH, IG_FIELD_OWN, -0x1p63, 0x1p63, 0, ig__read_seed,
     "\"type\":\"integer\",\"minimum\":-9223372036854775808,\"maximum\":9223372036854775807",
     NULL,
     "the same seed gives the same answer, whatever else runs; absent: another one each time"},
    {"logit_bias", BOTH, IG_FIELD_OWN, 0, 0, 0, ig__read_bias,
     "\"type\":\"object\",\"maxProperties\":1024,\"propertyNames\":{\"pattern\":\"^[0-9]+$\"},"
     "\"additionalProperties\":{\"type\":\"number\",\"minimum\":-100,\"maximum\":100}", NULL,
     "token ids and what is added to their logits"},
    {"stop", BOTH, IG_FIELD_OWN, 0, IG_STOP_MAX, 0, ig__read_stop,
     STRING_LIST "{\"type\":\"string\",\"minLength\":1},\"maxItems\":16}]", NULL,
     "texts that end the answer; never shown"},
    {"n", BOTH, IG_FIELD_INT, 1, IG_SAMPLES_MAX, AT(n), NULL, NULL, "1", "answers"},
    {"stream", BOTH, IG_FIELD_BOOL, 0, 0, AT(stream), NULL, NULL, "false", "server-sent events"},
    {"stream_options", BOTH, IG_FIELD_OWN, 0, 0, 0, ig__read_stream_options,
     "\"type\":\"object\",\"properties\":{\"include_usage\":{\"type\":\"boolean\"}}", NULL,
     "with stream: include_usage asks for a last chunk with the counts"},
    {"logprobs", IG_CHAT, IG_FIELD_OWN, 0, 0, 0, ig__read_logprobs, "\"type\":\"boolean\"", "false",
     "log-probabilities of the model's own distribution"},
    {"top_logprobs", IG_CHAT, IG_FIELD_INT, 0, IG_LOGPROBS_MAX, AT(n_top), NULL, NULL, NULL,
     "with logprobs: and of so many of the most probable tokens"},
    {"logprobs", IG_COMPLETION, IG_FIELD_OWN, 0, 0, 0, ig__read_logprobs,
     "\"type\":\"integer\",\"minimum\":0,\"maximum\":20", NULL,
     "log-probabilities of the tokens and of so many of the most probable ones"},
    {"ignore_eos", BOTH, IG_FIELD_BOOL, 0, 0, AT(ignore_eos), NULL, NULL, "false", "go on past the end token"},
    {"return_token_ids", BOTH, IG_FIELD_BOOL, 0, 0, AT(return_ids), NULL, NULL, "false",
     "prompt_token_ids and each choice's token_ids in an answer that is not streamed"},

    {"user", BOTH, IG_FIELD_TAKEN, 0, 0, 0, NULL, NULL, NULL, "no effect"},
    {"metadata", IG_CHAT, IG_FIELD_TAKEN, 0, 0, 0, NULL, NULL, NULL, "no effect"},
    {"safety_identifier", IG_CHAT, IG_FIELD_TAKEN, 0, 0, 0, NULL, NULL, NULL, "no effect"},
    {"prompt_cache_key", IG_CHAT, IG_FIELD_TAKEN, 0, 0, 0, NULL, NULL, NULL, "no effect: the cache is always on"},
    {"service_tier", IG_CHAT, IG_FIELD_TAKEN, 0, 0, 0, NULL, NULL, NULL, "no effect"},
    {"parallel_tool_calls", IG_CHAT, IG_FIELD_TAKEN, 0, 0, 0, NULL, NULL, NULL, "no effect without tools"},

    {"response_format", IG_CHAT, IG_FIELD_OWN, 0, 0, 0, ig__read_response_format, NULL, NULL, "another format than text"},
    {"modalities", IG_CHAT, IG_FIELD_OWN, 0, 0, 0, ig__read_modalities, NULL, NULL, "another modality than text"},
    {"tool_choice", IG_CHAT, IG_FIELD_OWN, 0, 0, 0, ig__read_tool_choice, NULL, NULL, "calling tools"},
    {"function_call", IG_CHAT, IG_FIELD_OWN, 0, 0, 0, ig__read_tool_choice, NULL, NULL, "calling functions"},
    UNDONE("tools", IG_CHAT, NULL, "calling tools"),
    UNDONE("functions", IG_CHAT, NULL, "calling functions"),
    UNDONE("audio", IG_CHAT, NULL, "audio"),
    UNDONE("prediction", IG_CHAT, NULL, "a predicted output"),
    UNDONE("store", IG_CHAT, NULL, "storing answers"),
    UNDONE("web_search_options", IG_CHAT, NULL, "searching the web"),
    UNDONE("reasoning_effort", IG_CHAT, "\"medium\"", "choosing the effort"),
    UNDONE("verbosity", IG_CHAT, "\"medium\"", "choosing the verbosity"),
    UNDONE("echo", IG_COMPLETION, NULL, "the prompt in the answer"),
    UNDONE("suffix", IG_COMPLETION, NULL, "filling in before a suffix"),
    {"best_of", IG_COMPLETION, IG_FIELD_OWN, 0, 1, 0, ig__read_undone, NULL, "1", "choosing the best of several"},
    UNDONE("grammar", BOTH, NULL, "constraining the answer"),
    UNDONE("json_schema", BOTH, NULL, "constraining the answer"),
    UNDONE("structured_outputs", BOTH, NULL, "constraining the answer"),
    UNDONE("guided_json", BOTH, NULL, "constraining the answer"),
    UNDONE("guided_regex", BOTH, NULL, "constraining the answer"),
    UNDONE("guided_choice", BOTH, NULL, "constraining the answer"),
    UNDONE("guided_grammar", BOTH, NULL, "constraining the answer"),
};
/* clang-format on */
enum { N_FIELDS = sizeof table / sizeof *table };

static const ig__field *find(const char *name, ig__endpoint endpoint)
{
    for (int i = 0; i < N_FIELDS; i++)
        if ((table[i].endpoints & (int)endpoint) && strcmp(table[i].name, name) == 0)
            return &table[i];
    return NULL;
}

static bool read_field(ig__reading *r, const ig__field *f, const ig__json *v)
{
    void *at = (char *)r->p + f->offset;
    if (ig__json_kind_of(v) == IG_JSON_NULL)
        return true; /* null asks for the default */
    switch (f->kind) {
    case IG_FIELD_INT:
        return ig__read_int(r, f->name, v, f->min, f->max, at);
    case IG_FIELD_REAL:
        return ig__read_real(r, f, v, at);
    case IG_FIELD_BOOL:
        return ig__read_bool(r, f, v, at);
    case IG_FIELD_OWN:
        return f->read(r, f, v);
    case IG_FIELD_TAKEN:
        break;
    }
    return true;
}

static void set_defaults(ig__params *p)
{
    const ig_sampler_opts o = ig_sampler_defaults();
    p->temperature = (double)o.temperature;
    p->top_p = (double)o.top_p;
    p->min_p = (double)o.min_p;
    p->typical_p = (double)o.typical_p;
    p->repeat_penalty = (double)o.repeat_penalty;
    p->presence_penalty = (double)o.presence_penalty;
    p->frequency_penalty = (double)o.frequency_penalty;
    p->top_k = o.top_k;
    p->repeat_last_n = o.repeat_last_n;
    p->max_tokens = p->max_completion_tokens = -2;
    p->n = 1;
    p->n_logprobs = p->n_top = -1;
}

/* What fields say together. */
static bool check_together(ig__reading *r)
{
    ig__params *p = r->p;
    if (r->endpoint == IG_CHAT && !p->messages)
        return ig__refuse(r->bad, "messages", "messages is missing");
    if (r->endpoint == IG_COMPLETION && !p->prompt && !p->ids)
        return ig__refuse(r->bad, "prompt", "prompt is missing");
    if (p->has_stream_options && !p->stream)
        return ig__refuse(r->bad, "stream_options",
                          "stream_options is given, but stream is not true");
    if (r->endpoint != IG_CHAT)
        return true;
    if (p->n_top > 0 && !p->want_logprobs)
        return ig__refuse(r->bad, "top_logprobs",
                          "top_logprobs is given, but logprobs is not true");
    if (p->want_logprobs)
        p->n_logprobs = p->n_top > 0 ? p->n_top : 0;
    return true;
}

bool ig__params_read(ig__params *p, const ig_allocator *a, const ig__json *root,
                     ig__endpoint endpoint, int64_t vocab, ig__bad *bad)
{
    *p = (ig__params){.arena = ig__arena_init(a)};
    *bad = (ig__bad){.no_memory = false};
    set_defaults(p);
    ig__reading r = {.p = p, .bad = bad, .endpoint = endpoint, .vocab = vocab};
    if (ig__json_kind_of(root) != IG_JSON_OBJECT)
        return ig__refuse(bad, "", "the body is %s, wanted is an object",
                          ig__kind_name(root));
    for (void *it = ig__json_first(root); it; it = ig__json_next(root, it)) {
        size_t n;
        const ig__field *f = find(ig__json_key(it, &n), endpoint);
        if (f && !read_field(&r, f, ig__json_value(it)))
            return false;
    }
    return check_together(&r);
}

void ig__params_fini(ig__params *p)
{
    ig__arena_fini(&p->arena);
}

int64_t ig__params_max_tokens(const ig__params *p, ig__endpoint endpoint)
{
    if (p->max_completion_tokens > -2)
        return p->max_completion_tokens;
    if (p->max_tokens > -2)
        return p->max_tokens;
    return endpoint == IG_CHAT ? -1 : 16; /* as OpenAI has it */
}

/* ---- the text ---- */

/* What a text would be as a tree, at most, without reading it: a tree takes some hundred bytes an
 * object, which a body needs three for. */
typedef struct extent {
    int depth;
    size_t n_objects, n_values;
} extent;

static extent extent_of(const char *text, size_t n)
{
    extent e = {0, 0, 1};
    int depth = 0;
    bool in_string = false;
    for (size_t i = 0; i < n; i++) {
        const char c = text[i];
        if (in_string) {
            if (c == '\\')
                i++;
            else if (c == '"')
                in_string = false;
        } else if (c == '"') {
            in_string = true;
        } else if (c == '[' || c == '{') {
            e.depth = ++depth > e.depth ? depth : e.depth;
            e.n_objects += c == '{';
            e.n_values++;
        } else if (c == ']' || c == '}') {
            depth--;
        } else if (c == ',') {
            e.n_values++;
        }
    }
    return e;
}

static bool check_extent(const char *text, size_t n, ig__bad *bad)
{
    const extent e = extent_of(text, n);
    if (e.depth > IG_DEPTH_MAX)
        return ig__refuse(bad, "",
                          "the body's JSON is nested too deep: more than %d levels",
                          IG_DEPTH_MAX);
    if (e.n_objects > IG_OBJECTS_MAX)
        return ig__refuse(bad, "", "the body's JSON has %zu objects, wanted are at most %d",
                          e.n_objects, IG_OBJECTS_MAX);
    if (e.n_values > IG_VALUES_MAX)
        return ig__refuse(bad, "", "the body's JSON has %zu values, wanted are at most %d",
                          e.n_values, IG_VALUES_MAX);
    return true;
}

static const char digits[] = "0123456789";

/* Behind the number at text[i]; i: none as JSON has them begins there. */
static size_t number_end(const char *text, size_t i)
{
    size_t end = i + strspn(text + i, digits);
    if (end == i || (text[i] == '0' && end > i + 1))
        return i;
    if (text[end] == '.') {
        const size_t n = strspn(text + end + 1, digits);
        end += n > 0 ? n + 1 : 0;
    }
    if (text[end] == 'e' || text[end] == 'E') {
        const size_t sign = text[end + 1] == '-' || text[end + 1] == '+';
        const size_t n = strspn(text + end + 1 + sign, digits);
        end += n > 0 ? 1 + sign + n : 0;
    }
    return end;
}

/* JSON's numbers have no bound, a double has: one beyond it (1e400, at least five letters) is made
 * 1e308, which is beyond every field's range too, so that the field is named. */
static bool shorten_numbers(char *text, size_t n)
{
    bool in_string = false, changed = false;
    for (size_t i = 0; i < n; i++) {
        if (in_string && text[i] == '\\') {
            i++;
        } else if (text[i] == '"') {
            in_string = !in_string;
        } else if (!in_string) {
            const size_t end = number_end(text, i);
            char *stop;
            if (end > i && isinf(strtod(text + i, &stop)) && stop == text + end) {
                memcpy(text + i, "1e308", 5);
                memset(text + i + 5, ' ', end - i - 5);
                changed = true;
            }
            /* digits that are no number are passed over at once: looked at from each of them
             * they would take the square of their count */
            const size_t n_digits = end > i ? 0 : strspn(text + i, digits);
            i = end > i ? end - 1 : n_digits > 0 ? i + n_digits - 1 : i;
        }
    }
    return changed;
}

static ig_status parse_shortened(ig__json **root_out, const ig_allocator *a,
                                 const char *text, size_t n, ig_error *err)
{
    char *copy = ig__alloc(a, n + 1);
    if (!copy)
        return ig__fail_memory(err, "json", n + 1);
    memcpy(copy, text, n);
    copy[n] = 0;
    const ig_status status =
        shorten_numbers(copy, n) ? ig__json_parse(root_out, copy, n, err) : IG_ERR_FORMAT;
    ig__free(a, copy);
    return status;
}

bool ig__request_parse(ig__json **root_out, const ig_allocator *a, const char *text,
                       size_t n, ig__bad *bad)
{
    *root_out = NULL;
    *bad = (ig__bad){.no_memory = false};
    if (n == 0)
        return ig__refuse(bad, "", "the body is empty, wanted is JSON");
    if (!check_extent(text, n, bad))
        return false;
    ig_error err;
    ig_status status = ig__json_parse(root_out, text, n, &err);
    if (status == IG_ERR_FORMAT)
        status = parse_shortened(root_out, a, text, n, &err);
    if (status == IG_OK)
        return true;
    bad->no_memory = status == IG_ERR_MEMORY;
    return ig__refuse(bad, "", "the body is not JSON: %s", err.message);
}

/* ---- the schema ---- */

static void write_bound(ig__buffer *b, const char *name, double x)
{
    ig__buffer_printf(b, ",\"%s\":%.17g", name, x);
}

/* Fields that are not done have no place in the schema. Null asks for the default, so that
 * only what is required cannot be null. */
static void write_property(ig__buffer *b, const ig__field *f, bool required)
{
    ig__json_write_text(b, f->name);
    ig__buffer_append_text(b, ":{");
    if (f->kind == IG_FIELD_INT || f->kind == IG_FIELD_REAL) {
        ig__buffer_printf(b, "\"type\":[\"%s\",\"null\"]",
                          f->kind == IG_FIELD_INT ? "integer" : "number");
        write_bound(b, "minimum", f->min);
        write_bound(b, "maximum", f->max);
        ig__buffer_append_char(b, ',');
    } else if (f->kind == IG_FIELD_BOOL) {
        ig__buffer_append_text(b, "\"type\":[\"boolean\",\"null\"],");
    } else if (f->schema) {
        ig__buffer_printf(b, required ? "%s," : "\"anyOf\":[{%s},{\"type\":\"null\"}],",
                          f->schema);
    }
    ig__buffer_append_text(b, "\"description\":\"");
    ig__buffer_append_text(b, f->help);
    ig__buffer_append_char(b, '"');
    if (f->standard)
        ig__buffer_printf(b, ",\"default\":%s", f->standard);
    ig__buffer_append_char(b, '}');
}

void ig__fields_write_schema(ig__buffer *b, ig__endpoint endpoint)
{
    const char *required = endpoint == IG_CHAT ? "messages" : "prompt";
    ig__buffer_printf(b, "{\"type\":\"object\",\"required\":[\"%s\"],\"properties\":{",
                      required);
    bool first = true;
    for (int i = 0; i < N_FIELDS; i++) {
        const bool undone = table[i].kind == IG_FIELD_OWN && !table[i].schema;
        if (undone || !(table[i].endpoints & (int)endpoint))
            continue;
        if (!first)
            ig__buffer_append_char(b, ',');
        first = false;
        write_property(b, &table[i], strcmp(table[i].name, required) == 0);
    }
    ig__buffer_append_text(b, "}}");
}
