/* The messages as a jansson list, which is also the file format; the cache beside it. */
#include "conversation.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *role_of(const json_t *message)
{
    return json_string_value(json_object_get(message, "role"));
}

static const char *content_of(const json_t *message)
{
    return json_string_value(json_object_get(message, "content"));
}

static json_t *new_message(const char *role, const char *text, size_t n)
{
    return json_pack("{s:s, s:o}", "role", role, "content", report_json_text(text, n));
}

bool conversation_add(conversation *c, const char *role, const char *text, size_t n)
{
    return !json_array_append_new(c->messages, new_message(role, text, n));
}

const char *conversation_system(const conversation *c)
{
    const json_t *first = json_array_get(c->messages, 0);
    const char *role = first ? role_of(first) : NULL;
    return role && !strcmp(role, "system") ? content_of(first) : NULL;
}

bool conversation_set_system(conversation *c, const char *text)
{
    if (conversation_system(c))
        json_array_remove(c->messages, 0);
    return !*text || !json_array_insert_new(c->messages, 0,
                                            new_message("system", text, strlen(text)));
}

void conversation_clear(conversation *c)
{
    while (json_array_size(c->messages) > (conversation_system(c) ? 1u : 0u))
        json_array_remove(c->messages, json_array_size(c->messages) - 1);
}

bool conversation_drop(conversation *c, const char *role)
{
    const size_t n = json_array_size(c->messages);
    if (!n || strcmp(role_of(json_array_get(c->messages, n - 1)), role) != 0)
        return false;
    return !json_array_remove(c->messages, n - 1);
}

bool conversation_has_answer(const conversation *c)
{
    const size_t n = json_array_size(c->messages);
    return n > 1 && !strcmp(role_of(json_array_get(c->messages, n - 1)), "assistant") &&
           !strcmp(role_of(json_array_get(c->messages, n - 2)), "user");
}

bool conversation_init(conversation *c, session *s, const draw_opts *draw,
                       const char *system)
{
    *c = (conversation){.s = s, .draw = draw, .messages = json_array()};
    return c->messages && (!system || conversation_set_system(c, system));
}

void conversation_fini(conversation *c)
{
    json_decref(c->messages);
    free(c->cached);
    *c = (conversation){0};
}

static int encode(const conversation *c, ig_ids *ids)
{
    const size_t n = json_array_size(c->messages);
    ig_message *messages = calloc(n + 1, sizeof *messages);
    if (!messages)
        return report_fail("chat: out of memory");
    for (size_t i = 0; i < n; i++) {
        const json_t *m = json_array_get(c->messages, i);
        messages[i] = (ig_message){role_of(m), content_of(m)};
    }
    ig_error err;
    const ig_status status = ig_chat_encode(ids, ig_model_tokenizer(c->s->model),
                                            c->s->tmpl, messages, (int64_t)n, &err);
    free(messages);
    return status == IG_OK ? EXIT_OK : report_error("chat", &err);
}

/* At least one token of the prompt must be evaluated, for its logits. */
static int64_t common_prefix(const conversation *c, const ig_ids *ids)
{
    int64_t n = 0;
    while (n < c->n_cached && n < ids->n - 1 && c->cached[n] == ids->ids[n])
        n++;
    return n;
}

static bool reserve_cached(conversation *c, int64_t n)
{
    if (n <= c->cap_cached)
        return true;
    int32_t *cached = realloc(c->cached, (size_t)n * sizeof *cached);
    if (!cached)
        return false;
    c->cached = cached;
    c->cap_cached = n;
    return true;
}

/* The sequence holds a prefix of prompt and answer, as long as its length says. */
static void note_cached(conversation *c, const answer *a)
{
    const int64_t n = ig_sequence_length(c->s->seq);
    c->n_cached = 0;
    for (int64_t i = 0; i < n && i < a->prompt.n + a->n_ids; i++)
        c->cached[c->n_cached++] =
            i < a->prompt.n ? a->prompt.ids[i] : a->ids[i - a->prompt.n];
}

static int generate(conversation *c, answer *a, int64_t n_kept)
{
    ig_error err;
    ig_sampler *sampler;
    int code = session_sampler(&sampler, c->s, c->draw, c->n_draws);
    if (code == EXIT_OK && ig_sampler_accept(sampler, a->prompt.ids, n_kept, &err) != IG_OK)
        code = report_error("chat", &err);
    if (code == EXIT_OK) {
        ig_sequence_cut(c->s->seq, n_kept);
        code = answer_generate(a, c->s, sampler, n_kept);
        note_cached(c, a);
        c->n_draws++;
    }
    ig_sampler_destroy(sampler);
    return code;
}

int conversation_answer(conversation *c, answer *a, int64_t *n_kept_out)
{
    const int64_t context = ig_runner_context(c->s->runner);
    a->tokenizer = ig_model_tokenizer(c->s->model);
    *n_kept_out = 0;
    int code = encode(c, &a->prompt);
    if (code != EXIT_OK)
        return code;
    if (a->prompt.n > context)
        return report_fail("chat: the context is full: the conversation has %lld tokens, "
                           "the context holds %lld; /clear begins anew",
                           (long long)a->prompt.n, (long long)context);
    if (!reserve_cached(c, context))
        return report_fail("chat: out of memory");
    *n_kept_out = common_prefix(c, &a->prompt);
    code = generate(c, a, *n_kept_out);
    if (code == EXIT_OK &&
        !conversation_add(c, "assistant", a->text ? a->text : "", a->n_text))
        code = report_fail("chat: out of memory");
    return code;
}

int conversation_save(const conversation *c, const char *path)
{
    json_t *object = json_pack("{s:O}", "messages", c->messages);
    char *text = object ? json_dumps(object, JSON_INDENT(1)) : NULL;
    json_decref(object);
    if (!text)
        return report_fail("chat: out of memory");
    FILE *file = fopen(path, "we");
    bool good = file && fprintf(file, "%s\n", text) > 0;
    int failed = errno;
    if (file && fclose(file)) {
        if (good)
            failed = errno;
        good = false;
    }
    free(text);
    return good ? EXIT_OK : report_fail("chat: %s: %s", path, strerror(failed));
}

static bool is_message_list(const json_t *list)
{
    if (!json_is_array(list))
        return false;
    size_t i;
    const json_t *m;
    json_array_foreach(list, i, m)
    {
        const char *role = role_of(m);
        if (!role || !content_of(m) ||
            (strcmp(role, "user") != 0 && strcmp(role, "assistant") != 0 &&
             (i || strcmp(role, "system") != 0)))
            return false;
    }
    return true;
}

int conversation_load(conversation *c, const char *path)
{
    json_error_t error;
    struct stat about;
    const int fd =
        open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe is not waited for */
    if (fd < 0 || fstat(fd, &about)) {
        const int why = errno;
        if (fd >= 0)
            close(fd);
        return report_fail("chat: %s: %s", path, strerror(why));
    }
    if (!S_ISREG(about.st_mode)) {
        close(fd);
        return report_fail("chat: %s: is no regular file", path);
    }
    json_t *root = json_loadfd(fd, JSON_REJECT_DUPLICATES, &error);
    close(fd);
    if (!root)
        return report_fail("chat: %s: line %d: %s", path, error.line, error.text);
    json_t *list = json_object_get(root, "messages");
    int code = EXIT_OK;
    if (is_message_list(list)) {
        json_decref(c->messages);
        c->messages = json_incref(list);
    } else {
        code = report_fail("chat: %s: no list \"messages\" of {\"role\": \"user\", "
                           "\"content\": text}",
                           path);
    }
    json_decref(root);
    return code;
}
