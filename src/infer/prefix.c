/* The tree of known pages: a hash table over (parent, tokens), and the list of idle ones.
 *
 * Source: Kwon et al., "Efficient memory management for large language model serving with
 * PagedAttention" (SOSP 2023), section 4.4 (shared prefix). We deviate: full pages become known
 * as they fill, of answers too, and two sequences that computed the same page side by side end
 * up with one.
 */
#include "infer/prefix.h"

#include "base/clock.h"
#include "base/error.h"

#include <string.h>

static int32_t *tokens_of(const ig__prefix *p, int32_t page)
{
    return p->tokens + (size_t)page * (size_t)p->pages->page_tokens;
}

static uint32_t bucket_of(const ig__prefix *p, int32_t parent, const int32_t *tokens)
{
    uint64_t h = p->seed ^ (uint32_t)parent;
    for (int i = 0; i < p->pages->page_tokens; i += 2) {
        h ^= (uint64_t)(uint32_t)tokens[i] << 32 | (uint32_t)tokens[i + 1];
        h *= 0x9E3779B97F4A7C15u;
        h ^= h >> 29;
    }
    h *= 0xBF58476D1CE4E5B9u;
    return (uint32_t)(h >> 32) & p->mask;
}

/* ---- the list of idle pages ---- */

static void idle_push(ig__prefix *p, int32_t page)
{
    ig__prefix_node *node = &p->nodes[page];
    node->older = p->newest;
    node->newer = IG_NO_PAGE;
    if (p->newest != IG_NO_PAGE)
        p->nodes[p->newest].newer = page;
    else
        p->oldest = page;
    p->newest = page;
    p->n_idle++;
}

static void idle_remove(ig__prefix *p, int32_t page)
{
    const ig__prefix_node *node = &p->nodes[page];
    if (node->older != IG_NO_PAGE)
        p->nodes[node->older].newer = node->newer;
    else
        p->oldest = node->newer;
    if (node->newer != IG_NO_PAGE)
        p->nodes[node->newer].older = node->older;
    else
        p->newest = node->older;
    p->n_idle--;
}

/* ---- the table ---- */

static void forget(ig__prefix *p, int32_t page)
{
    ig__prefix_node *node = &p->nodes[page];
    IG_ASSERT(node->known && node->n_children == 0);
    int32_t *link = &p->buckets[bucket_of(p, node->parent, tokens_of(p, page))];
    while (*link != page)
        link = &p->nodes[*link].next;
    *link = node->next;
    if (node->parent != IG_NO_PAGE)
        p->nodes[node->parent].n_children--;
    node->known = false;
}

int32_t ig__prefix_find(const ig__prefix *p, int32_t parent, const int32_t *tokens)
{
    const size_t bytes = (size_t)p->pages->page_tokens * sizeof *tokens;
    int32_t page = p->buckets[bucket_of(p, parent, tokens)];
    while (page != IG_NO_PAGE) {
        const ig__prefix_node *node = &p->nodes[page];
        if (node->parent == parent && memcmp(tokens_of(p, page), tokens, bytes) == 0)
            break;
        page = node->next;
    }
    return page;
}

int32_t ig__prefix_add(ig__prefix *p, int32_t parent, const int32_t *tokens, int32_t page)
{
    const int32_t known = ig__prefix_find(p, parent, tokens);
    if (known != IG_NO_PAGE)
        return known;
    ig__prefix_node *node = &p->nodes[page];
    IG_ASSERT(!node->known && p->pages->n_refs[page] > 0);
    int32_t *bucket = &p->buckets[bucket_of(p, parent, tokens)];
    *node = (ig__prefix_node){.parent = parent, .next = *bucket, .known = true};
    memcpy(tokens_of(p, page), tokens, (size_t)p->pages->page_tokens * sizeof *tokens);
    *bucket = page;
    if (parent != IG_NO_PAGE)
        p->nodes[parent].n_children++;
    return page;
}

bool ig__prefix_keep(ig__prefix *p, int32_t page)
{
    if (!p->nodes[page].known)
        return false;
    idle_push(p, page);
    if (p->n_idle > p->max_idle)
        ig__prefix_evict(p);
    return true;
}

void ig__prefix_use(ig__prefix *p, int32_t page)
{
    idle_remove(p, page);
}

bool ig__prefix_evict(ig__prefix *p)
{
    const int32_t page = p->oldest;
    if (page == IG_NO_PAGE)
        return false;
    idle_remove(p, page);
    forget(p, page);
    p->pages->free[p->pages->n_free++] = page;
    p->n_evicted++;
    return true;
}

/* ---- its life ---- */

void ig__prefix_clear(ig__prefix *p)
{
    while (ig__prefix_evict(p))
        ;
}

static uint32_t buckets_for(int32_t n_pages)
{
    uint32_t n = 1;
    while (n < (uint32_t)n_pages && n < (uint32_t)1 << 31)
        n *= 2;
    return n;
}

ig_status ig__prefix_create(ig__prefix **prefix_out, ig__pages *pages, int64_t n_buckets,
                            int32_t max_idle, ig_error *err)
{
    *prefix_out = NULL;
    ig__prefix *p = ig__alloc_zero(pages->a, sizeof *p);
    if (!p)
        return ig__fail_memory(err, "prefix cache", sizeof *p);
    const uint32_t n = n_buckets ? (uint32_t)n_buckets : buckets_for(pages->n_pages);
    *p = (ig__prefix){.a = pages->a,
                      .pages = pages,
                      .mask = n - 1,
                      .seed = (uint64_t)ig__now_ns() * 0x9E3779B97F4A7C15u,
                      .oldest = IG_NO_PAGE,
                      .newest = IG_NO_PAGE,
                      .max_idle = max_idle};
    const size_t node_bytes = (size_t)pages->n_pages * sizeof *p->nodes;
    const size_t token_bytes =
        (size_t)pages->n_pages * (size_t)pages->page_tokens * sizeof *p->tokens;
    p->nodes = ig__alloc_zero(p->a, node_bytes);
    p->tokens = ig__alloc(p->a, token_bytes);
    p->buckets = ig__alloc(p->a, n * sizeof *p->buckets);
    if (!p->nodes || !p->tokens || !p->buckets) {
        ig__free(p->a, p->nodes);
        ig__free(p->a, p->tokens);
        ig__free(p->a, p->buckets);
        ig__free(p->a, p);
        return ig__fail_memory(err, "prefix cache",
                               node_bytes + token_bytes + n * sizeof *p->buckets);
    }
    for (uint32_t i = 0; i < n; i++)
        p->buckets[i] = IG_NO_PAGE;
    pages->prefix = p;
    *prefix_out = p;
    return IG_OK;
}

void ig__prefix_destroy(ig__prefix *p)
{
    if (!p)
        return;
    const ig_allocator *a = p->a;
    ig__prefix_clear(p);
    p->pages->prefix = NULL;
    ig__free(a, p->nodes);
    ig__free(a, p->tokens);
    ig__free(a, p->buckets);
    ig__free(a, p);
}
