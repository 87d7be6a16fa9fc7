/* The table of fields and its readers. */
#include "serve/fields_int.h"

#include "base/error.h"
#include "serve/json_write.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
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
    if (max >= 9e15)
        return ig__refuse(r->bad, field, "%s is %s, wanted is a %s of at least %.10g",
                          field, shown(found, sizeof found, v), kind, min);
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
    /* a whole number of seed's range is exact only as it stands in the text */
    *out = kind == IG_JSON_INT ? ig__json_int(v) : (int64_t)x;
    return true;
}

static bool read_real(ig__reading *r, const ig__field *f, const ig__json *v, double *out)
{
    const ig__json_kind kind = ig__json_kind_of(v);
    const double x = ig__json_real(v);
    if ((kind != IG_JSON_INT && kind != IG_JSON_REAL) || !(x >= f->min && x <= f->max))
        return refuse_number(r, f->name, v, "number", f->min, f->max);
    *out = x;
    return true;
}

static bool read_bool(ig__reading *r, const ig__field *f, const ig__json *v, bool *out)
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

static bool read_model(ig__reading *r, const ig__field *f, const ig__json *v)
{
    r->p->model = ig__copy_text(r, f->name, v);
    return r->p->model != NULL;
}

static bool read_seed(ig__reading *r, const ig__field *f, const ig__json *v)
{
    r->p->has_seed = true;
    return ig__read_int(r, f->name, v, f->min, f->max, &r->p->seed);
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

static bool read_stop(ig__reading *r, const ig__field *f, const ig__json *v)
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

static bool read_bias(ig__reading *r, const ig__field *f, const ig__json *v)
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
        const ig__field one = {.name = "logit_bias", .min = -100, .max = 100};
        if (!read_real(r, &one, ig__json_value(it), &bias))
            return false;
        r->p->bias[r->p->n_bias++] = (ig_logit_bias){(int32_t)id, (float)bias};
    }
    return true;
}

/* Of a chat a switch, of a completion a count. */
static bool read_logprobs(ig__reading *r, const ig__field *f, const ig__json *v)
{
    if (r->endpoint == IG_CHAT)
        return read_bool(r, f, v, &r->p->want_logprobs);
    return ig__read_int(r, f->name, v, 0, IG_LOGPROBS_MAX, &r->p->n_logprobs);
}

static bool read_stream_options(ig__reading *r, const ig__field *f, const ig__json *v)
{
    if (ig__json_kind_of(v) != IG_JSON_OBJECT)
        return ig__refuse(r->bad, f->name, "stream_options is %s, wanted is an object",
                          ig__kind_name(v));
    r->p->has_stream_options = true;
    const ig__json *usage = ig__json_get(v, "include_usage");
    const ig__field one = {.name = "stream_options.include_usage"};
    return !usage || ig__json_kind_of(usage) == IG_JSON_NULL ||
           read_bool(r, &one, usage, &r->p->include_usage);
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

static bool read_undone(ig__reading *r, const ig__field *f, const ig__json *v)
{
    return is_nothing(f, v) || refuse_undone(r, f);
}

static bool read_response_format(ig__reading *r, const ig__field *f, const ig__json *v)
{
    if (ig__json_kind_of(v) == IG_JSON_OBJECT && is_text(ig__json_get(v, "type"), "text"))
        return true;
    return refuse_undone(r, f);
}

static bool read_modalities(ig__reading *r, const ig__field *f, const ig__json *v)
{
    if (ig__json_kind_of(v) == IG_JSON_ARRAY && ig__json_length(v) == 1 &&
        is_text(ig__json_at(v, 0), "text"))
        return true;
    return refuse_undone(r, f);
}

static bool read_tool_choice(ig__reading *r, const ig__field *f, const ig__json *v)
{
    return is_text(v, "none") || is_text(v, "auto") || refuse_undone(r, f);
}

/* ---- the table ---- */

#define BOTH        (IG_CHAT | IG_COMPLETION)
#define AT(field)   offsetof(ig__params, field)
#define STRING_LIST "\"oneOf\":[{\"type\":\"string\"},{\"type\":\"array\",\"items\":"
#define TOKEN_COUNT 2147483647.0
#define EXACT_WHOLE 9007199254740992.0
#define UNDONE(name, endpoints, standard, help)                                            \
    {                                                                                      \
        name, endpoints, IG_FIELD_OWN, 0, 0, 0, read_undone, NULL, standard, help          \
    }

/* clang-format off */
static const ig__field table[] = {
    {"model", BOTH, IG_FIELD_OWN, 0, 0, 0, read_model, "\"type\":\"string\"", NULL,
     "any name: the server has one model"},
    {"messages", IG_CHAT, IG_FIELD_OWN, 1, IG_MESSAGES_MAX, 0, ig__read_messages,
     "\"type\":\"array\",\"minItems\":1,\"maxItems\":4096,\"items\":{\"$ref\":\"#/components/schemas/Message\"}",
     NULL, "the conversation; a last message of the assistant's is continued"},
    {"prompt", IG_COMPLETION, IG_FIELD_OWN, 0, 0, 0, ig__read_prompt,
     STRING_LIST "{\"oneOf\":[{\"type\":\"string\"},{\"type\":\"integer\",\"minimum\":0}]}}]", NULL,
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
    {"seed", BOTH, IG_FIELD_OWN, -EXACT_WHOLE, EXACT_WHOLE, 0, read_seed,
     "\"type\":\"integer\",\"minimum\":-9007199254740992,\"maximum\":9007199254740992", NULL,
     "the same seed gives the same answer, whatever else runs; absent: another one each time"},
    {"logit_bias", BOTH, IG_FIELD_OWN, 0, 0, 0, read_bias,
     "\"type\":\"object\",\"maxProperties\":1024,\"propertyNames\":{\"pattern\":\"^[0-9]+$\"},"
     "\"additionalProperties\":{\"type\":\"number\",\"minimum\":-100,\"maximum\":100}", NULL,
     "token ids and what is added to their logits"},
    {"stop", BOTH, IG_FIELD_OWN, 0, IG_STOP_MAX, 0, read_stop,
     STRING_LIST "{\"type\":\"string\",\"minLength\":1},\"maxItems\":16}]", NULL,
     "texts that end the answer; never shown"},
    {"n", BOTH, IG_FIELD_INT, 1, IG_SAMPLES_MAX, AT(n), NULL, NULL, "1", "answers"},
    {"stream", BOTH, IG_FIELD_BOOL, 0, 0, AT(stream), NULL, NULL, "false", "server-sent events"},
    {"stream_options", BOTH, IG_FIELD_OWN, 0, 0, 0, read_stream_options,
     "\"type\":\"object\",\"properties\":{\"include_usage\":{\"type\":\"boolean\"}}", NULL,
     "with stream: include_usage asks for a last chunk with the counts"},
    {"logprobs", IG_CHAT, IG_FIELD_OWN, 0, 0, 0, read_logprobs, "\"type\":\"boolean\"", "false",
     "log-probabilities of the model's own distribution"},
    {"top_logprobs", IG_CHAT, IG_FIELD_INT, 0, IG_LOGPROBS_MAX, AT(n_top), NULL, NULL, NULL,
     "with logprobs: and of so many of the most probable tokens"},
    {"logprobs", IG_COMPLETION, IG_FIELD_OWN, 0, 0, 0, read_logprobs,
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

    {"response_format", IG_CHAT, IG_FIELD_OWN, 0, 0, 0, read_response_format, NULL, NULL, "another format than text"},
    {"modalities", IG_CHAT, IG_FIELD_OWN, 0, 0, 0, read_modalities, NULL, NULL, "another modality than text"},
    {"tool_choice", IG_CHAT, IG_FIELD_OWN, 0, 0, 0, read_tool_choice, NULL, NULL, "calling tools"},
    {"function_call", IG_CHAT, IG_FIELD_OWN, 0, 0, 0, read_tool_choice, NULL, NULL, "calling functions"},
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
    {"best_of", IG_COMPLETION, IG_FIELD_OWN, 0, 1, 0, read_undone, NULL, "1", "choosing the best of several"},
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
        return read_real(r, f, v, at);
    case IG_FIELD_BOOL:
        return read_bool(r, f, v, at);
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
    if (p->n_top >= 0 && !p->want_logprobs)
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

/* The deepest nesting of lists and objects, without reading them. */
static int depth_of(const char *text, size_t n)
{
    int depth = 0, deepest = 0;
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
            if (++depth > deepest)
                deepest = depth;
        } else if (c == ']' || c == '}') {
            depth--;
        }
    }
    return deepest;
}

bool ig__request_parse(ig__json **root_out, const char *text, size_t n, ig__bad *bad)
{
    *root_out = NULL;
    *bad = (ig__bad){.no_memory = false};
    if (n == 0)
        return ig__refuse(bad, "", "the body is empty, wanted is JSON");
    if (depth_of(text, n) > IG_DEPTH_MAX)
        return ig__refuse(bad, "",
                          "the body's JSON is nested too deep: more than %d levels",
                          IG_DEPTH_MAX);
    ig_error err;
    const ig_status status = ig__json_parse(root_out, text, n, &err);
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

static void write_property(ig__buffer *b, const ig__field *f)
{
    ig__json_write_text(b, f->name);
    ig__buffer_append_text(b, ":{");
    if (f->kind == IG_FIELD_INT || f->kind == IG_FIELD_REAL) {
        ig__buffer_printf(b, "\"type\":\"%s\"",
                          f->kind == IG_FIELD_INT ? "integer" : "number");
        write_bound(b, "minimum", f->min);
        write_bound(b, "maximum", f->max);
    } else if (f->kind == IG_FIELD_BOOL) {
        ig__buffer_append_text(b, "\"type\":\"boolean\"");
    } else if (f->schema) {
        ig__buffer_append_text(b, f->schema);
    }
    const bool undone = f->kind == IG_FIELD_OWN && !f->schema;
    if (b->data && b->data[b->n - 1] != '{')
        ig__buffer_append_char(b, ',');
    ig__buffer_append_text(b, "\"description\":\"");
    ig__buffer_append_text(b,
                           undone ? "not supported, refused unless at its default: " : "");
    ig__buffer_append_text(b, f->help);
    ig__buffer_append_char(b, '"');
    if (!undone)
        ig__buffer_append_text(b, ",\"nullable\":true");
    if (f->standard)
        ig__buffer_printf(b, ",\"default\":%s", f->standard);
    ig__buffer_append_char(b, '}');
}

void ig__fields_write_schema(ig__buffer *b, ig__endpoint endpoint)
{
    ig__buffer_printf(b, "{\"type\":\"object\",\"required\":[\"%s\"],\"properties\":{",
                      endpoint == IG_CHAT ? "messages" : "prompt");
    bool first = true;
    for (int i = 0; i < N_FIELDS; i++) {
        if (!(table[i].endpoints & (int)endpoint))
            continue;
        if (!first)
            ig__buffer_append_char(b, ',');
        first = false;
        write_property(b, &table[i]);
    }
    ig__buffer_append_text(b, "}}");
}
