/* A conversation as token ids: messages -> JSON -> rendered text with marks -> ids.
 *
 *     {"messages": [{"role": .., "content": ..}, ..], "add_generation_prompt": true,
 *      "bos_token": "<s>", "eos_token": "</s>", "tools": null, "documents": null}
 *
 * The variables are those that templates are written against; the last two are null, and
 * not absent, because that is what templates see where most of them are tried. A token that
 * the vocabulary lacks is "".
 *
 * An answer that is continued never goes through the template: the messages before it are
 * rendered with the generation prompt and its content is put behind, as data. So there is
 * no closing marker to take off again, whatever a template's looks like, and the content is
 * not trimmed.
 */
#include "ingot/generate.h"

#include "base/buffer.h"
#include "base/error.h"
#include "infer/answer.h"
#include "text/tokenizer.h"

#include <string.h>

static ig_status check_text(const char *text, const char *what, int64_t i, ig_error *err)
{
    if (!ig__is_utf8(text, strlen(text)))
        return ig__fail(err, IG_ERR_ARGUMENT, "chat: the %s of message %lld is not UTF-8",
                        what, (long long)i);
    return IG_OK;
}

static ig_status check(const ig_message *messages, int64_t n, ig_error *err)
{
    if (n < 1)
        return ig__fail(err, IG_ERR_ARGUMENT, "chat: there are no messages");
    for (int64_t i = 0; i < n; i++) {
        if (!messages[i].role || !messages[i].role[0])
            return ig__fail(err, IG_ERR_ARGUMENT, "chat: message %lld has no role",
                            (long long)i);
        IG_TRY(check_text(messages[i].role, "role", i, err));
        if (messages[i].content)
            IG_TRY(check_text(messages[i].content, "content", i, err));
    }
    return IG_OK;
}

static const char *content_of(const ig_message *message)
{
    return message->content ? message->content : "";
}

static const char *role_of(const ig_message *message)
{
    return strcmp(message->role, "developer") == 0 ? "system" : message->role;
}

/* A JSON string; the bytes are valid UTF-8. */
static void write_string(ig__buffer *json, const char *bytes, size_t n)
{
    ig__buffer_append_char(json, '"');
    size_t begin = 0; /* bytes[begin..i) need no escape */
    for (size_t i = 0; i < n; i++) {
        const unsigned char c = (unsigned char)bytes[i];
        if (c >= 0x20 && c != '"' && c != '\\')
            continue;
        ig__buffer_append(json, bytes + begin, i - begin);
        if (c < 0x20)
            ig__buffer_printf(json, "\\u%04x", (unsigned)c);
        else
            ig__buffer_printf(json, "\\%c", c);
        begin = i + 1;
    }
    ig__buffer_append(json, bytes + begin, n - begin);
    ig__buffer_append_char(json, '"');
}

/* A token's name; "" if there is none, or if its bytes are not text. */
static ig_status write_token(ig__buffer *json, const ig_tokenizer *tokenizer, int32_t id,
                             ig_error *err)
{
    const size_t n = id < 0 ? 0 : ig_token_bytes(tokenizer, id, true, NULL, 0);
    char *bytes = ig__alloc(json->a, n);
    if (!bytes)
        return ig__fail_memory(err, "chat", n);
    if (n > 0)
        ig_token_bytes(tokenizer, id, true, bytes, n);
    write_string(json, bytes, ig__is_utf8(bytes, n) ? n : 0);
    ig__free(json->a, bytes);
    return IG_OK;
}

static ig_status write_variables(ig__buffer *json, const ig_tokenizer *tokenizer,
                                 const ig_message *messages, int64_t n, ig_error *err)
{
    ig__buffer_append_text(json, "{\"messages\":[");
    for (int64_t i = 0; i < n; i++) {
        const char *role = role_of(&messages[i]), *content = content_of(&messages[i]);
        ig__buffer_append_text(json, i > 0 ? ",{\"role\":" : "{\"role\":");
        write_string(json, role, strlen(role));
        ig__buffer_append_text(json, ",\"content\":");
        write_string(json, content, strlen(content));
        ig__buffer_append_char(json, '}');
    }
    ig__buffer_append_text(json, "],\"add_generation_prompt\":true,\"tools\":null,"
                                 "\"documents\":null,\"bos_token\":");
    IG_TRY(write_token(json, tokenizer, ig_tokenizer_bos(tokenizer), err));
    ig__buffer_append_text(json, ",\"eos_token\":");
    IG_TRY(write_token(json, tokenizer, ig_tokenizer_eos(tokenizer), err));
    ig__buffer_append_char(json, '}');
    return json->failed ? ig__fail_memory(err, "chat", json->n) : IG_OK;
}

/* Tokenise the rendered text with `tail` behind it, which is data. */
static ig_status encode(ig_ids *ids, const ig_tokenizer *tokenizer, const ig_rendered *r,
                        const char *tail, ig_error *err)
{
    const ig_allocator *a = ig__tokenizer_allocator(tokenizer);
    const size_t n_tail = strlen(tail);
    if (n_tail == 0)
        return ig__tokenize_marked(ids, tokenizer, r->text, r->markup, r->n_bytes, err);
    size_t n, bytes;
    if (!ig__add(&n, r->n_bytes, n_tail) || !ig__mul(&bytes, n, 2))
        return ig__fail_memory(err, "chat", SIZE_MAX);
    char *text = ig__alloc(a, bytes); /* [n] text, [n] marks */
    if (!text)
        return ig__fail_memory(err, "chat", bytes);
    uint8_t *markup = (uint8_t *)text + n;
    if (r->n_bytes > 0) {
        memcpy(text, r->text, r->n_bytes);
        memcpy(markup, r->markup, r->n_bytes);
    }
    memcpy(text + r->n_bytes, tail, n_tail);
    memset(markup + r->n_bytes, 0, n_tail);
    const ig_status status = ig__tokenize_marked(ids, tokenizer, text, markup, n, err);
    ig__free(a, text);
    return status;
}

/* Put BOS in front of the ids from `begin` on, if the file asks for one and none is there.
 */
static ig_status complete_bos(ig_ids *ids, int64_t begin, const ig_tokenizer *tokenizer,
                              ig_error *err)
{
    const int32_t bos = ig_tokenizer_bos(tokenizer);
    if (!ig_tokenizer_adds_bos(tokenizer) || bos < 0 ||
        (ids->n > begin && ids->ids[begin] == bos))
        return IG_OK;
    if (ids->n == ids->cap) {
        const size_t old = (size_t)ids->cap * sizeof *ids->ids;
        const size_t wanted = old + 16 * sizeof *ids->ids;
        int32_t *grown =
            ig__resize(ig__tokenizer_allocator(tokenizer), ids->ids, old, wanted);
        if (!grown)
            return ig__fail_memory(err, "chat", wanted);
        ids->ids = grown;
        ids->cap += 16;
    }
    memmove(ids->ids + begin + 1, ids->ids + begin,
            (size_t)(ids->n - begin) * sizeof *ids->ids);
    ids->ids[begin] = bos;
    ids->n++;
    return IG_OK;
}

ig_status ig_chat_encode(ig_ids *ids, const ig_tokenizer *tokenizer,
                         const ig_template *tmpl, const ig_message *messages,
                         int64_t n_messages, ig_error *err)
{
    IG_TRY(check(messages, n_messages, err));
    const ig_message *last = &messages[n_messages - 1];
    const bool continued = strcmp(last->role, "assistant") == 0;
    const int64_t begin = ids->n;
    ig__buffer json = ig__buffer_init(ig__tokenizer_allocator(tokenizer));
    ig_rendered rendered = {0};
    ig_status status =
        write_variables(&json, tokenizer, messages, n_messages - continued, err);
    if (status == IG_OK)
        status = ig_template_render(&rendered, tmpl, json.data, json.n, err);
    ig__buffer_fini(&json);
    if (status != IG_OK)
        return status;
    status = encode(ids, tokenizer, &rendered, continued ? content_of(last) : "", err);
    ig_rendered_free(tmpl, &rendered);
    if (status == IG_OK)
        status = complete_bos(ids, begin, tokenizer, err);
    if (status != IG_OK)
        ids->n = begin;
    return status;
}
