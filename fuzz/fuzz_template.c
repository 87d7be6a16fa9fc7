/* Chat templates from strangers: the source up to the first zero byte (or all), then the
 * JSON variables, or a small conversation where there are none.
 *
 * Checked beside memory: nothing stays allocated, a refusal is one line of text, marks are 0
 * or 1, and what only the conversation holds (the character U+E000, in each of its strings)
 * is never marked as the template's own.
 */
#include "ingot/template.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

#define OURS "\xEE\x80\x80"

static const char conversation[] =
    "{\"messages\": [{\"role\": \"sys" OURS "\", \"content\": \"Be " OURS "brief.\"},"
    " {\"role\": \"user\", \"content\": \" a,b" OURS "\\n\"}, {\"role\": \"assistant\","
    " \"content\": null, \"tool_calls\": [{\"id\": 1, \"function\": {\"name\": \"f" OURS
    "\","
    " \"arguments\": {\"x" OURS "\": [1.5, true]}}}]}], \"bos_token\": \"<s>\","
    " \"add_generation_prompt\": true, \"s\": \"h\\u00e9llo" OURS "\", \"n\": 3}";

static void *counted_alloc(void *user, size_t bytes, size_t align)
{
    size_t *n_live = user;
    void *p = aligned_alloc(align, (bytes + align - 1) / align * align);
    *n_live += p != NULL;
    return p;
}

static void counted_free(void *user, void *p)
{
    size_t *n_live = user;
    *n_live -= p != NULL;
    free(p);
}

static ig_context *make_context(size_t *n_live)
{
    const ig_allocator a = {counted_alloc, counted_free, n_live};
    const ig_context_opts opts = {.n_threads = 1, .isa = "ref", .allocator = &a};
    ig_context *ctx;
    if (ig_context_create(&ctx, &opts, NULL) != IG_OK)
        abort();
    return ctx;
}

static void check_error(const ig_error *err)
{
    const size_t n = strlen(err->message);
    if (n == 0 || n >= sizeof err->message - 1 || strchr(err->message, '\n'))
        abort();
}

static void check_marks(const ig_rendered *rendered, bool ours_is_data)
{
    for (size_t i = 0; i < rendered->n_bytes; i++) {
        if (rendered->markup[i] > 1)
            abort();
        if (ours_is_data && rendered->n_bytes - i >= 3 && rendered->markup[i] &&
            memcmp(rendered->text + i, OURS, 3) == 0)
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static size_t n_live;
    static ig_context *ctx;
    if (!ctx)
        ctx = make_context(&n_live);
    const size_t n_before = n_live;
    const char *source = n ? (const char *)data : "";
    const char *zero = n ? memchr(source, 0, n) : NULL;
    const size_t n_source = zero ? (size_t)(zero - source) : n;
    const char *json = zero ? zero + 1 : conversation;
    const size_t n_json = zero ? n - n_source - 1 : sizeof conversation - 1;
    /* a source without the character, and without escapes that could spell it */
    const bool ours_is_data =
        !zero && n && !memchr(source, 0xEE, n) && !memchr(source, '\\', n);
    ig_template *tmpl;
    ig_rendered rendered;
    ig_error err;
    if (ig_template_create(&tmpl, ctx, source, n_source, &err) != IG_OK) {
        check_error(&err);
    } else {
        if (ig_template_render(&rendered, tmpl, json, n_json, &err) == IG_OK)
            check_marks(&rendered, ours_is_data);
        else
            check_error(&err);
        ig_rendered_free(tmpl, &rendered);
    }
    ig_template_destroy(tmpl);
    if (n_live != n_before)
        abort();
    return 0;
}
