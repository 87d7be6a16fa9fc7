/* /tokenize, /detokenize, /apply-template: text and ids without an answer. */
#include "serve/server.h"

#include "serve/fields.h"
#include "serve/json_write.h"

#include <math.h>
#include <string.h>

/* Bytes of a text to tokenize: what streams is not sent meanwhile, and a mebibyte of the worst
 * takes 0.3 s. A chat's is bounded by what the context holds. */
enum { TEXT_MAX = 1 << 20 };

/* The object that a request's body is; NULL: refused, and answered. */
static ig__json *read_object(ig__exchange *x)
{
    ig__json *root;
    ig__bad bad;
    if (!ig__request_parse(&root, x->body.a, x->body.data ? x->body.data : "", x->body.n,
                           &bad)) {
        ig__reply_bad(x, &bad);
        return NULL;
    }
    if (ig__json_kind_of(root) == IG_JSON_OBJECT)
        return root;
    ig__json_destroy(root);
    ig__reply_error(x, 400, "invalid_request_error", NULL, NULL,
                    "the body is no object, wanted is one");
    return NULL;
}

/* A switch of an object; false: refused, and answered. */
static bool read_switch(ig__exchange *x, const ig__json *root, const char *name,
                        bool *value)
{
    const ig__json *v = ig__json_get(root, name);
    if (!v || ig__json_kind_of(v) == IG_JSON_NULL)
        return true;
    if (ig__json_kind_of(v) != IG_JSON_BOOL) {
        ig__reply_error(x, 400, "invalid_request_error", NULL, name,
                        "%s is no boolean, wanted is true or false", name);
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

void ig__serve_tokenize(ig_server *s, ig__exchange *x)
{
    ig__json *root = read_object(x);
    if (!root)
        return;
    bool add_special = false, parse_special = true, with_pieces = false;
    const ig__json *content = ig__json_get(root, "content");
    if (!content)
        content = ig__json_get(root, "prompt"); /* vLLM's name */
    ig_ids ids = {0};
    if (!content || ig__json_kind_of(content) != IG_JSON_STRING) {
        ig__reply_error(x, 400, "invalid_request_error", NULL, "content",
                        "content is %s, wanted is a string",
                        content ? "no string" : "missing");
        goto done;
    }
    if (!read_switch(x, root, "add_special", &add_special) ||
        !read_switch(x, root, "parse_special", &parse_special) ||
        !read_switch(x, root, "with_pieces", &with_pieces))
        goto done;
    size_t n;
    const char *text = ig__json_string(content, &n);
    if (n > TEXT_MAX) {
        ig__reply_error(x, 400, "invalid_request_error", NULL, "content",
                        "content has %zu bytes, wanted are at most %d", n, TEXT_MAX);
        goto done;
    }
    const ig_tokenize_opts how = {.plain = !parse_special, .add_special = add_special};
    ig_error err;
    const ig_status status = ig_tokenize(&ids, s->tokenizer, text, n, &how, &err);
    if (status != IG_OK) {
        ig__reply_status(x, status, &err, "content");
        goto done;
    }
    ig__buffer b = ig__buffer_init(s->a);
    ig__buffer_append_text(&b, "{\"tokens\":");
    write_tokens(s, &b, &ids, with_pieces);
    ig__buffer_printf(&b, ",\"count\":%lld,\"max_model_len\":%lld}\n", (long long)ids.n,
                      (long long)s->context);
    ig__reply_json(x, 200, &b);
done:
    ig_ids_free(s->tokenizer, &ids);
    ig__json_destroy(root);
}

static bool is_number(const ig__json *v)
{
    return ig__json_kind_of(v) == IG_JSON_INT || ig__json_kind_of(v) == IG_JSON_REAL;
}

/* The ids of a list; NULL: refused, and answered. */
static int32_t *read_ids(const ig_server *s, ig__exchange *x, const ig__json *list,
                         int64_t *n_out)
{
    if (!list || ig__json_kind_of(list) != IG_JSON_ARRAY) {
        ig__reply_error(x, 400, "invalid_request_error", NULL, "tokens",
                        "tokens is %s, wanted is a list of ids",
                        list ? "no list" : "missing");
        return NULL;
    }
    const size_t n = ig__json_length(list);
    int32_t *ids = ig__alloc(s->a, n * sizeof *ids);
    if (!ids) {
        ig__reply_error(x, 500, "server_error", NULL, NULL, "out of memory");
        return NULL;
    }
    for (size_t i = 0; i < n; i++) {
        const ig__json *v = ig__json_at(list, i);
        const double id = ig__json_real(v); /* 0 of what is no number */
        if (!is_number(v) || !(id >= 0 && id < (double)s->vocab) || id != floor(id)) {
            ig__reply_error(x, 400, "invalid_request_error", NULL, "tokens",
                            "tokens[%zu] is no id, wanted is a whole number from 0 to %lld",
                            i, (long long)s->vocab - 1);
            ig__free(s->a, ids);
            return NULL;
        }
        ids[i] = (int32_t)id;
    }
    *n_out = (int64_t)n;
    return ids;
}

void ig__serve_detokenize(ig_server *s, ig__exchange *x)
{
    ig__json *root = read_object(x);
    if (!root)
        return;
    int64_t n_ids = 0;
    int32_t *ids = read_ids(s, x, ig__json_get(root, "tokens"), &n_ids);
    if (ids) {
        char *text = NULL;
        size_t n;
        ig_error err;
        const ig_status status =
            ig_detokenize(&text, &n, s->tokenizer, ids, n_ids, true, &err);
        if (status == IG_OK) {
            ig__buffer b = ig__buffer_init(s->a);
            ig__buffer_append_text(&b, "{\"content\":");
            ig__json_write_string(&b, text, n);
            ig__buffer_append_text(&b, ",\"bytes\":");
            ig__json_write_bytes(&b, text, n);
            ig__buffer_append_text(&b, "}\n");
            ig__reply_json(x, 200, &b);
            ig_text_free(s->tokenizer, text);
        } else {
            ig__reply_status(x, status, &err, "tokens");
        }
    }
    ig__free(s->a, ids);
    ig__json_destroy(root);
}

void ig__serve_apply_template(ig_server *s, ig__exchange *x)
{
    ig__json *root = read_object(x);
    if (!root)
        return;
    ig__params p;
    ig__bad bad;
    ig_ids ids = {0};
    ig_error err;
    char *text = NULL;
    size_t n = 0;
    if (!ig__params_read(&p, s->a, root, IG_CHAT, s->vocab, &bad)) {
        ig__reply_bad(x, &bad);
        goto done;
    }
    if (!ig__encode_chat(&ids, s, x, &p))
        goto done;
    const ig_status status =
        ig_detokenize(&text, &n, s->tokenizer, ids.ids, ids.n, true, &err);
    if (status != IG_OK) {
        ig__reply_status(x, status, &err, "messages");
        goto done;
    }
    ig__buffer b = ig__buffer_init(s->a);
    ig__buffer_append_text(&b, "{\"prompt\":");
    ig__json_write_string(&b, text, n);
    ig__buffer_append_text(&b, ",\"tokens\":");
    ig__json_write_ids(&b, ids.ids, ids.n);
    ig__buffer_append_text(&b, "}\n");
    ig__reply_json(x, 200, &b);
    ig_text_free(s->tokenizer, text);
done:
    ig_ids_free(s->tokenizer, &ids);
    ig__params_fini(&p);
    ig__json_destroy(root);
}
