/* The prefix cache: which full pages of the pool hold which tokens behind which other page, so
 * that a sequence with the same beginning takes them instead of computing them.
 *
 * A known page is a node of a tree: its parent is the page of the tokens before (-1: none),
 * and it is found by parent and tokens. The hash only chooses where to look: parent and all
 * tokens are compared, and by induction over parents the whole prefix is.
 *
 *     root -- [The quick ..] -- [jumps over ..]     page 7 is used by 2 sequences
 *                   7        \- [sits under ..]     pages 3, 9 by none: idle
 *
 * Pages that no sequence uses stay as long as they are neither wanted for other tokens nor
 * beyond the limit. The list of idle pages runs from the least to the most recently used.
 * Invariant: whoever holds a page holds its parent, and gives the page back before the parent;
 * so the oldest idle page is never the parent of a known one, and evicting it leaves no orphan.
 * A known page is never written again (ig__pages_is_own).
 */
#ifndef INGOT_INFER_PREFIX_H
#define INGOT_INFER_PREFIX_H

#include "infer/model_int.h"

enum { IG_NO_PAGE = -1 };

/* What is known of one page. */
typedef struct ig__prefix_node {
    int32_t parent;       /* page; IG_NO_PAGE: none */
    int32_t next;         /* page, in the same bucket; IG_NO_PAGE: the last */
    int32_t older, newer; /* pages, if idle; IG_NO_PAGE: an end of the list */
    int32_t n_children;
    bool known;
} ig__prefix_node;

typedef struct ig__prefix {
    const ig_allocator *a;
    ig__pages *pages;
    ig__prefix_node *nodes; /* [pages->n_pages] by page */
    int32_t *tokens;        /* [pages->n_pages][page_tokens] of the known ones */
    int32_t *buckets;       /* [mask + 1] first page; IG_NO_PAGE: none */
    uint32_t mask;
    uint64_t seed; /* of the hash: where tokens collide cannot be foreseen */
    int32_t oldest, newest;
    int32_t n_idle, max_idle;
    int64_t n_evicted;
} ig__prefix;

/* n_buckets: a power of two; 0: as many as pages. The pages ask the cache from here on until
 * it is destroyed, which makes all idle pages free. */
ig_status ig__prefix_create(ig__prefix **prefix_out, ig__pages *pages, int64_t n_buckets,
                            int32_t max_idle, ig_error *err);
void ig__prefix_destroy(ig__prefix *prefix); /* may be NULL */

/* The page of tokens[0 .. page_tokens) behind parent; IG_NO_PAGE: not known. Not counted for the caller
 * yet. */
int32_t ig__prefix_find(const ig__prefix *prefix, int32_t parent, const int32_t *tokens);
/* Make a full page known that a sequence holds. The result stands for these tokens from here
 * on: `page`, or the page that was known before, with the same bits. */
int32_t ig__prefix_add(ig__prefix *prefix, int32_t parent, const int32_t *tokens,
                       int32_t page);
void ig__prefix_clear(ig__prefix *prefix); /* all idle pages are free */

/* For pages.c. A page is used by nobody any more: is it kept? It is used again. The oldest
 * idle page becomes free; false: there is none. */
bool ig__prefix_keep(ig__prefix *prefix, int32_t page);
void ig__prefix_use(ig__prefix *prefix, int32_t page);
bool ig__prefix_evict(ig__prefix *prefix);

#endif
