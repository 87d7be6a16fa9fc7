/* The pool of KV pages. */
#include "infer/prefix.h"

#include "base/error.h"

#include <string.h>

size_t ig__pages_bytes(const ig__config *config, ig__kv kv, int64_t page_tokens)
{
    return ig__page_bytes(kv, config->head_width) * (size_t)config->n_kv_heads *
           (size_t)config->n_layers * (size_t)(page_tokens / IG_PAGE);
}

ig_status ig__pages_tokens(int64_t *page_tokens, int64_t wanted, const char *who,
                           ig_error *err)
{
    const int64_t n = wanted ? wanted : IG_PAGE;
    if (n < IG_PAGE || n > IG_MAX_PAGE || (n & (n - 1)))
        return ig__fail(err, IG_ERR_ARGUMENT,
                        "%s: page_tokens is %lld, allowed is 16, 32, 64, 128 or 256", who,
                        (long long)wanted);
    *page_tokens = n;
    return IG_OK;
}

ig_status ig__pages_init(ig__pages *p, const ig_allocator *a, const ig__config *config,
                         ig__kv kv, int64_t page_tokens, int64_t n_tokens, ig_error *err)
{
    *p = (ig__pages){.a = a,
                     .page_tokens = (int32_t)page_tokens,
                     .n_parts = (int32_t)(page_tokens / IG_PAGE),
                     .page_bytes = ig__pages_bytes(config, kv, page_tokens)};
    const int64_t n_pages = ig__pages_for(p, n_tokens);
    if (kv == IG__KV_Q8_0 && config->head_width % 32)
        return ig__fail(
            err, IG_ERR_UNSUPPORTED,
            "cache: q8_0 wants heads of a multiple of 32, this model's are %lld",
            (long long)config->head_width);
    p->cache = (ig__cache){.kv = kv,
                           .n_layers = config->n_layers,
                           .n_heads = config->n_kv_heads,
                           .width = config->head_width,
                           .page_bytes = ig__page_bytes(kv, config->head_width)};
    const size_t layer_bytes = p->cache.page_bytes * (size_t)config->n_kv_heads;
    p->cache.page_stride = layer_bytes * (size_t)config->n_layers;
    if (n_pages > INT32_MAX / p->n_parts ||
        !ig__mul(&p->bytes, p->page_bytes, (size_t)n_pages))
        return ig__fail(err, IG_ERR_LIMIT, "cache: %lld tokens are too many",
                        (long long)n_tokens);
    p->n_pages = (int32_t)n_pages;
    p->layers = ig__alloc(a, (size_t)config->n_layers * sizeof *p->layers);
    p->n_refs = ig__alloc_zero(a, (size_t)n_pages * sizeof *p->n_refs);
    p->free = ig__alloc(a, (size_t)n_pages * sizeof *p->free);
    p->memory = ig__alloc_huge(a, p->bytes);
    if (!p->layers || !p->n_refs || !p->free || !p->memory) {
        ig__pages_fini(p);
        return ig__fail_memory(err, "cache", p->bytes);
    }
    for (int64_t i = 0; i < config->n_layers; i++)
        p->layers[i] = p->memory + (size_t)i * layer_bytes;
    p->cache.layers = p->layers;
    for (int32_t i = 0; i < p->n_pages; i++) /* page 0 on top of the stack */
        p->free[p->n_free++] = p->n_pages - 1 - i;
    return IG_OK;
}

void ig__pages_fini(ig__pages *p)
{
    if (!p->a)
        return;
    ig__free(p->a, p->layers);
    ig__free(p->a, p->n_refs);
    ig__free(p->a, p->free);
    ig__free(p->a, p->memory);
    p->layers = NULL;
    p->n_refs = p->free = NULL;
    p->memory = NULL;
}

static char *page_at(const ig__pages *p, int32_t page)
{
    return p->memory + (size_t)page * p->page_bytes;
}

int32_t ig__pages_take(ig__pages *p)
{
    if (!p->n_free && !(p->prefix && ig__prefix_evict(p->prefix)))
        return -1;
    const int32_t page = p->free[--p->n_free];
    p->n_refs[page] = 1;
    /* positions not yet written are masked, but must be finite */
    memset(page_at(p, page), 0, p->page_bytes);
    return page;
}

void ig__pages_drop(ig__pages *p, int32_t page)
{
    if (--p->n_refs[page] == 0 && !(p->prefix && ig__prefix_keep(p->prefix, page)))
        p->free[p->n_free++] = page;
}

void ig__pages_retain(ig__pages *p, int32_t page)
{
    if (p->n_refs[page]++ == 0) /* only the prefix cache has pages that nobody uses */
        ig__prefix_use(p->prefix, page);
}

int64_t ig__pages_available(const ig__pages *p)
{
    return (int64_t)p->n_free + (p->prefix ? p->prefix->n_idle : 0);
}

bool ig__pages_is_own(const ig__pages *p, int32_t page)
{
    return p->n_refs[page] == 1 && !(p->prefix && p->prefix->nodes[page].known);
}

int32_t ig__pages_copy(ig__pages *p, int32_t page)
{
    const int32_t copy = ig__pages_take(p);
    if (copy < 0)
        return -1;
    memcpy(page_at(p, copy), page_at(p, page), p->page_bytes);
    ig__pages_drop(p, page);
    return copy;
}
