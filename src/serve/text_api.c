/* /tokenize, /detokenize, /apply-template: text and ids without an answer. */
#include "serve/ask.h"
#include "serve/json_write.h"

#include <math.h>
#include <string.h>

/* Bytes of a text that is taken apart or put together: its answer has up to forty for each. A
 * chat's text is bounded by what the context holds. */
enum { TEXT_MAX = 1 << 20 };

/* The body as an object; false: refused. */
static bool parse_object(ig__ask *ask)
{
    if (!ig__ask_parse(ask))
        return false;
    if (ig__json_kind_of(ask->root) == IG_JSON_OBJECT)
        return true;
    ig__ask_refuse(ask, 400, NULL, NULL, "the body is no object, wanted is one");
    return false;
}

/* A switch of the object; false: refused. */
static bool read_switch(ig__ask *ask, const char *name, bool *value)
{
    const ig__json *v = ig__json_get(ask->root, name);
    if (!v || ig__json_kind_of(v) == IG_JSON_NULL)
        return true;
    if (ig__json_kind_of(v) != IG_JSON_BOOL) {
        ig__ask_refuse(ask, 400, NULL, name, "%s is no boolean, wanted is true or false",
                       name);
        return false;
    }
    *value = ig__json_bool(v);
    return true;
}

/* {"tokens": [...], "count": N}; with_pieces: [{"id": 1, "piece": "..."}] */
static void write_tokens(const ig_server *s, ig__buffer *b, const ig_ids *ids,
                         bool with_pieces)
{
    if (!with_pieces) {
        ig__json_write_ids(b, ids->ids, ids->n);
        return;
    }
    ig__buffer_append_char(b, '[');
    for (int64_t i = 0; i < ids->n; i++) {
        char bytes[256];
        const size_t n =
            ig_token_bytes(s->tokenizer, ids->ids[i], true, bytes, sizeof bytes);
        const size_t kept = n < sizeof bytes ? n : sizeof bytes;
        ig__buffer_printf(b, "%s{\"id\":%d,\"piece\":", i > 0 ? "," : "", ids->ids[i]);
        ig__json_write_string(b, bytes, kept);
        ig__buffer_append_text(b, ",\"bytes\":");
        ig__json_write_bytes(b, bytes, kept);
        ig__buffer_append_char(b, '}');
    }
    ig__buffer_append_char(b, ']');
}

static void tokenize(ig__ask *ask)
{
    const ig_server *s = ask->server;
    bool add_special = false, parse_special = true, with_pieces = false;
    if (!parse_object(ask))
        return;
    const ig__json *content = ig__json_get(ask->root, "content");
    if (!content)
        content = ig__json_get(ask->root, "prompt"); /* vLLM's name */
    if (!content || ig__json_kind_of(content) != IG_JSON_STRING) {
        ig__ask_refuse(ask, 400, NULL, "content", "content is %s, wanted is a string",
                       content ? "no string" : "missing");
        return;
    }
    if (!read_switch(ask, "add_special", &add_special) ||
        !read_switch(ask, "parse_special", &parse_special) ||
        !read_switch(ask, "with_pieces", &with_pieces))
        return;
    size_t n;
    const char *text = ig__json_string(content, &n);
    if (n > TEXT_MAX) {
        ig__ask_refuse(ask, 400, NULL, "content",
                       "content has %zu bytes, wanted are at most %d", n, TEXT_MAX);
        return;
    }
    const ig_tokenize_opts how = {.plain = !parse_special, .add_special = add_special};
    ig_error err;
    const ig_status status = ig_tokenize(&ask->ids, s->tokenizer, text, n, &how, &err);
    if (status != IG_OK) {
        ig__ask_refuse_status(ask, status, &err, "content");
        return;
    }
    ask->status = 200;
    ig__buffer_append_text(&ask->answer, "{\"tokens\":");
    write_tokens(s, &ask->answer, &ask->ids, with_pieces);
    ig__buffer_printf(&ask->answer, ",\"count\":%lld,\"max_model_len\":%lld}\n",
                      (long long)ask->ids.n, (long long)s->context);
}

static bool is_number(const ig__json *v)
{
    return ig__json_kind_of(v) == IG_JSON_INT || ig__json_kind_of(v) == IG_JSON_REAL;
}

/* The ids of a list, into ask->ids; false: refused. */
static bool read_ids(ig__ask *ask, const ig__json *list)
{
    const int64_t vocab = ask->server->vocab;
    if (!list || ig__json_kind_of(list) != IG_JSON_ARRAY) {
        ig__ask_refuse(ask, 400, NULL, "tokens", "tokens is %s, wanted is a list of ids",
                       list ? "no list" : "missing");
        return false;
    }
    const size_t n = ig__json_length(list);
    ask->ids.ids = ig__alloc(ask->server->a, n * sizeof *ask->ids.ids);
    if (!ask->ids.ids) {
        ig__ask_refuse(ask, 500, NULL, NULL, "out of memory");
        return false;
    }
    size_t n_bytes = 0;
    for (size_t i = 0; i < n; i++) {
        const ig__json *v = ig__json_at(list, i);
        const double id = ig__json_real(v); /* 0 of what is no number */
        if (!is_number(v) || !(id >= 0 && id < (double)vocab) || id != floor(id)) {
            ig__ask_refuse(ask, 400, NULL, "tokens",
                           "tokens[%zu] is no id, wanted is a whole number from 0 to %lld",
                           i, (long long)vocab - 1);
            return false;
        }
        ask->ids.ids[i] = (int32_t)id;
        n_bytes += ig_token_bytes(ask->server->tokenizer, (int32_t)id, true, NULL, 0);
    }
    ask->ids.n = ask->ids.cap = (int64_t)n;
    if (n_bytes > TEXT_MAX)
        ig__ask_refuse(ask, 400, NULL, "tokens",
                       "tokens are a text of %zu bytes, wanted are at most %d", n_bytes,
                       TEXT_MAX);
    return n_bytes <= TEXT_MAX;
}

/* The text of ask->ids; false: refused. */
static bool make_text(ig__ask *ask, char **text, size_t *n, const char *field)
{
    ig_error err;
    const ig_status status = ig_detokenize(text, n, ask->server->tokenizer, ask->ids.ids,
                                           ask->ids.n, true, &err);
    if (status != IG_OK)
        ig__ask_refuse_status(ask, status, &err, field);
    return status == IG_OK;
}

static void detokenize(ig__ask *ask)
{
    char *text;
    size_t n;
    if (!parse_object(ask) || !read_ids(ask, ig__json_get(ask->root, "tokens")) ||
        !make_text(ask, &text, &n, "tokens"))
        return;
    ask->status = 200;
    ig__buffer_append_text(&ask->answer, "{\"content\":");
    ig__json_write_string(&ask->answer, text, n);
    ig__buffer_append_text(&ask->answer, ",\"bytes\":");
    ig__json_write_bytes(&ask->answer, text, n);
    ig__buffer_append_text(&ask->answer, "}\n");
    ig_text_free(ask->server->tokenizer, text);
}

static void apply_template(ig__ask *ask)
{
    const ig_server *s = ask->server;
    ig__bad bad;
    char *text;
    size_t n;
    if (!parse_object(ask))
        return;
    if (!ig__params_read(&ask->params, s->a, ask->root, IG_CHAT, s->vocab, &bad)) {
        ig__ask_refuse_bad(ask, &bad);
        return;
    }
    if (!ig__ask_encode_chat(ask) || !make_text(ask, &text, &n, "messages"))
        return;
    ask->status = 200;
    ig__buffer_append_text(&ask->answer, "{\"prompt\":");
    ig__json_write_string(&ask->answer, text, n);
    ig__buffer_append_text(&ask->answer, ",\"tokens\":");
    ig__json_write_ids(&ask->answer, ask->ids.ids, ask->ids.n);
    ig__buffer_append_text(&ask->answer, "}\n");
    ig_text_free(s->tokenizer, text);
}

void ig__serve_tokenize(ig_server *s, ig__exchange *x)
{
    ig__ask_begin(s, x, 0, tokenize);
}

void ig__serve_detokenize(ig_server *s, ig__exchange *x)
{
    ig__ask_begin(s, x, 0, detokenize);
}

void ig__serve_apply_template(ig_server *s, ig__exchange *x)
{
    ig__ask_begin(s, x, IG_CHAT, apply_template);
}
