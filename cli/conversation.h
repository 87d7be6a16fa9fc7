/* A conversation: messages, and the cache that stays in step with them.
 *
 * The messages are the truth; the cache is what the sequence holds of their encoding. Each
 * answer encodes all messages anew, keeps the longest common prefix of cache and encoding,
 * and evaluates the rest: a turn costs its own tokens, a regeneration or a new system
 * message whatever really changed.
 */
#ifndef INGOT_CLI_CONVERSATION_H
#define INGOT_CLI_CONVERSATION_H

#include "answer.h"

typedef struct conversation {
    session *s;
    const draw_opts *draw;
    json_t *messages; /* a list of {"role", "content"}; a system message stands first */
    int32_t *cached;  /* [n_cached]: what s->seq holds */
    int64_t n_cached, cap_cached;
    int64_t n_draws; /* answers drawn, so that a second one differs from the first */
} conversation;

/* Starts empty; `system` may be NULL. False: no memory. */
bool conversation_init(conversation *c, session *s, const draw_opts *draw,
                       const char *system);
void conversation_fini(conversation *c);

/* All return false only when there is no memory. Text that is not UTF-8 is mended. */
bool conversation_add(conversation *c, const char *role, const char *text, size_t n);
bool conversation_set_system(conversation *c, const char *text); /* "": none */
void conversation_clear(conversation *c); /* keeps the system message */

const char *conversation_system(const conversation *c); /* NULL: none */
/* Is the last message an answer to a user's? */
bool conversation_has_answer(const conversation *c);
/* Take the last message away if it has this role. */
bool conversation_drop(conversation *c, const char *role);

/* Answer the messages as they stand; a good answer is added to them. An exit code; a
 * failure has been said. *n_kept_out: tokens that the cache already held. */
int conversation_answer(conversation *c, answer *a, int64_t *n_kept_out);

/* As JSON: {"messages": [...]}. An exit code; a failed load changes nothing. */
int conversation_save(const conversation *c, const char *path);
int conversation_load(conversation *c, const char *path);

#endif
