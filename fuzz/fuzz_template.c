/* Chat templates from strangers: the source up to the first zero byte (or all), then the
 * JSON variables, or a small conversation where there are none.
 */
#include "ingot/template.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char conversation[] =
    "{\"messages\": [{\"role\": \"system\", \"content\": \"Be brief.\"}, {\"role\": "
    "\"user\","
    " \"content\": \" a,b\\n\"}, {\"role\": \"assistant\", \"content\": null, "
    "\"tool_calls\":"
    " [{\"id\": 1, \"function\": {\"name\": \"f\", \"arguments\": {\"x\": [1.5, "
    "true]}}}]}],"
    " \"bos_token\": \"<s>\", \"add_generation_prompt\": true, \"s\": \"h\\u00e9llo\"}";

static ig_context *make_context(void)
{
    const ig_context_opts opts = {.n_threads = 1, .isa = "ref"};
    ig_context *ctx;
    if (ig_context_create(&ctx, &opts, NULL) != IG_OK)
        abort();
    return ctx;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static ig_context *ctx;
    if (!ctx)
        ctx = make_context();
    const uint8_t *zero = size ? memchr(data, 0, size) : NULL;
    const size_t n_source = zero ? (size_t)(zero - data) : size;
    const char *json = zero ? (const char *)zero + 1 : conversation;
    const size_t n_json = zero ? size - n_source - 1 : sizeof conversation - 1;
    ig_template *tmpl;
    ig_rendered rendered;
    ig_error err;
    if (ig_template_create(&tmpl, ctx, size ? (const char *)data : "", n_source, &err) !=
        IG_OK)
        return 0;
    if (ig_template_render(&rendered, tmpl, json, n_json, &err) == IG_OK) {
        for (size_t i = 0; i < rendered.n_bytes; i++)
            if (rendered.markup[i] > 1)
                abort();
        ig_rendered_free(tmpl, &rendered);
    }
    ig_template_destroy(tmpl);
    return 0;
}
