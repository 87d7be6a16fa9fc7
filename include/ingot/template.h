/* Chat templates: the Jinja that model files carry, rendered from messages.
 *
 * A rendered text remembers which of its bytes come from the template itself ("markup") and
 * which from the messages: only markup may be read as control tokens, so that no message
 * can close its turn. Where a byte comes from both it counts as the message's.
 *
 * Source and variables may be anyone's: nesting, steps, memory and output are bounded
 * (IG_ERR_LIMIT), and every failure names the template's line. A template is constant and
 * may be rendered by several threads at once, as far as the context's allocator serves them.
 */
#ifndef INGOT_TEMPLATE_H
#define INGOT_TEMPLATE_H

#include "ingot/context.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ig_template ig_template;

IG_API IG_WARN_UNUSED ig_status ig_template_create(ig_template **template_out,
                                                   ig_context *ctx, const char *source,
                                                   size_t n_bytes, ig_error *err);
IG_API void ig_template_destroy(ig_template *tmpl); /* may be NULL */

typedef struct ig_rendered {
    char *text; /* [n_bytes] and a final 0 */
    size_t n_bytes;
    uint8_t *markup; /* [n_bytes]: 1 where the byte is the template's own */
    void *memory;    /* private */
} ig_rendered;

/* Render with the variables of a JSON object: "messages", "add_generation_prompt",
 * "bos_token", "tools", ... Top-level strings whose name ends in "_token" are markup. A
 * string "strftime_now" is what strftime_now() gives instead of the time (UTC). On failure
 * *rendered_out is zero. A template's raise_exception is IG_ERR_FORMAT with its words. */
IG_API IG_WARN_UNUSED ig_status ig_template_render(ig_rendered *rendered_out,
                                                   const ig_template *tmpl,
                                                   const char *json, size_t n_bytes,
                                                   ig_error *err);
IG_API void ig_rendered_free(const ig_template *tmpl, ig_rendered *rendered);

#ifdef __cplusplus
}
#endif
#endif
