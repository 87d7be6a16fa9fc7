/* The caching allocator: size classes for small blocks, segments with joined neighbours for large.
 *
 *   segment   | header | block header, bytes ... | block header, bytes ... | ... |
 *                        in use                    free: in the bin of its size
 *
 * A block knows its neighbour before it (`before`) and, by its size, the one behind it, so giving a
 * block joins it with free neighbours in constant time. Bins are by size, four a power of two; a
 * request looks for the best fit in its own bin and takes the first block of a larger one
 * otherwise (Masmano et al., "TLSF", 2004, section 3, without its second bitmap).
 *
 * Reserving. When no free block fits, all segments without a block in use are given back, and one is
 * reserved that brings the reserved bytes to 9/8 of the largest need so far (or holds the request, if
 * that is more). When a second segment has become free, both are given back, and the next one is reserved as
 * large as they were together. So free segments grow together: after a few steps of changing sizes
 * nearly all lies in one, and since their bytes stay as many, they do so once.
 */
#include "tensor/memory.h"

#include <string.h>

enum { HEADER = 64, SLAB_BYTES = 32768, SEGMENT_LEAST = 1 << 20, LOOKS = 32 };

typedef struct ig__slab {
    struct ig__slab *next;
    _Alignas(64) char bytes[];
} slab;

typedef struct ig__segment {
    struct ig__segment *next;
    size_t bytes; /* all of it, header included */
    int64_t n_used;
} segment;

typedef struct ig__block {
    struct ig__block *before; /* in memory; NULL: the first of its segment */
    segment *of;
    size_t bytes; /* behind the header; a multiple of 64 */
    bool free, last;
    struct ig__block *next, **link; /* in its bin, when free */
} block;

_Static_assert(sizeof(block) <= HEADER && sizeof(segment) <= HEADER, "headers fit");

static void *payload(block *b)
{
    return (char *)b + HEADER;
}
static block *block_of(void *p)
{
    return (block *)(void *)((char *)p - HEADER);
}
static block *behind(block *b)
{
    return b->last ? NULL : (block *)(void *)((char *)payload(b) + b->bytes);
}

static size_t round_up(size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}

/* ---- bins ------------------------------------------------------------------------------------ */

static int bin_of(size_t bytes)
{
    const int top = 63 - __builtin_clzll(bytes | 64);
    return (top - 6) * 4 + (int)(bytes >> (top - 2) & 3);
}

static void bin_put(ig__memory *m, block *b)
{
    const int i = bin_of(b->bytes);
    b->free = true;
    b->next = m->bins[i];
    b->link = &m->bins[i];
    if (b->next)
        b->next->link = &b->next;
    m->bins[i] = b;
    m->filled[i / 64] |= (uint64_t)1 << (i % 64);
}

static void bin_take(ig__memory *m, block *b)
{
    *b->link = b->next;
    if (b->next)
        b->next->link = b->link;
    const int i = bin_of(b->bytes);
    if (!m->bins[i])
        m->filled[i / 64] &= ~((uint64_t)1 << (i % 64));
    b->free = false;
}

/* The smallest block of bin i that holds `bytes`, among the first LOOKS. */
static block *best_in_bin(const ig__memory *m, int i, size_t bytes)
{
    block *best = NULL;
    int looks = 0;
    for (block *b = m->bins[i]; b && looks < LOOKS; b = b->next, looks++)
        if (b->bytes >= bytes && (!best || b->bytes < best->bytes))
            best = b;
    return best;
}

static block *find_fit(const ig__memory *m, size_t bytes)
{
    const int first = bin_of(bytes);
    block *b = best_in_bin(m, first, bytes);
    for (int word = (first + 1) / 64; !b && word < IG_BINS / 64; word++) {
        uint64_t bits = m->filled[word];
        if (word == (first + 1) / 64)
            bits &= ~(uint64_t)0 << ((first + 1) % 64);
        if (bits)
            b = best_in_bin(m, word * 64 + __builtin_ctzll(bits), bytes);
    }
    return b;
}

/* ---- segments -------------------------------------------------------------------------------- */

static void release_segment(ig__memory *m, segment **link)
{
    segment *s = *link;
    *link = s->next;
    bin_take(m, (block *)(void *)((char *)s + HEADER));
    m->reserved -= s->bytes;
    ig__free(m->a, s);
}

static segment **smallest_free(ig__memory *m)
{
    segment **best = NULL;
    for (segment **link = &m->segments; *link; link = &(*link)->next)
        if (!(*link)->n_used && (!best || (*link)->bytes < (*best)->bytes))
            best = link;
    return best;
}

/* Give free segments back until `more` bytes fit under `bound`. */
static void shrink(ig__memory *m, size_t more, size_t bound)
{
    for (segment **link; m->reserved + more > bound && (link = smallest_free(m));)
        release_segment(m, link);
}

static void *reserve(ig__memory *m, size_t bytes)
{
    if (m->budget && m->reserved + bytes > m->budget) {
        shrink(m, bytes, m->budget);
        if (m->reserved + bytes > m->budget)
            return NULL;
    }
    void *p = ig__alloc_huge(m->a, bytes);
    if (!p) {
        shrink(m, bytes, 0);
        p = ig__alloc_huge(m->a, bytes);
    }
    if (!p)
        return NULL;
    m->n_reserves++;
    m->reserved += bytes;
    if (m->reserved > m->peak_reserved)
        m->peak_reserved = m->reserved;
    return p;
}

static block *grow(ig__memory *m, size_t bytes)
{
    const size_t least = bytes + 2 * HEADER;
    const size_t need = m->live + bytes > m->peak_live ? m->live + bytes : m->peak_live;
    const size_t bound = need + need / 8;
    shrink(m, bound, 0);
    size_t wanted = bound > m->reserved ? bound - m->reserved : 0;
    if (wanted < m->owed)
        wanted = m->owed;
    m->owed = 0;
    if (wanted < SEGMENT_LEAST)
        wanted = need < 16 * (size_t)SEGMENT_LEAST ? SEGMENT_LEAST : least;
    if (wanted < least)
        wanted = least;
    wanted = round_up(wanted, wanted >= IG_HUGE_PAGE * 8 ? IG_HUGE_PAGE : 65536);
    segment *s = reserve(m, wanted);
    if (!s && wanted > least) {
        wanted = round_up(least, 4096);
        s = reserve(m, wanted);
    }
    if (!s)
        return NULL;
    *s = (segment){.next = m->segments, .bytes = wanted};
    m->segments = s;
    block *b = (block *)(void *)((char *)s + HEADER);
    *b = (block){.of = s, .bytes = (wanted - 2 * HEADER) / 64 * 64, .last = true};
    bin_put(m, b);
    return b;
}

/* Cut the tail off when it is worth a block of its own. */
static void split(ig__memory *m, block *b, size_t bytes)
{
    if (b->bytes < bytes + HEADER + IG_SMALL_BYTES)
        return;
    block *rest = (block *)(void *)((char *)payload(b) + bytes);
    *rest = (block){
        .before = b, .of = b->of, .bytes = b->bytes - bytes - HEADER, .last = b->last};
    block *next = behind(b);
    if (next)
        next->before = rest;
    b->bytes = bytes;
    b->last = false;
    bin_put(m, rest);
}

/* b takes in the block behind it; both are out of the bins. */
static void join(block *b, block *next)
{
    b->bytes += HEADER + next->bytes;
    b->last = next->last;
    block *after = behind(b);
    if (after)
        after->before = b;
}

/* ---- small blocks ------------------------------------------------------------------------------ */

bool ig__memory_refill(ig__memory *m, size_t size_class)
{
    if (m->budget && m->reserved + SLAB_BYTES > m->budget)
        return false;
    slab *s = ig__alloc(m->a, SLAB_BYTES);
    if (!s)
        return false;
    s->next = m->slabs;
    m->slabs = s;
    m->n_reserves++;
    m->reserved += SLAB_BYTES;
    if (m->reserved > m->peak_reserved)
        m->peak_reserved = m->reserved;
    const size_t bytes = (size_class ? size_class : 1) * IG_SMALL_STEP;
    for (size_t at = (SLAB_BYTES - sizeof *s) / bytes; at > 0; at--) {
        struct ig__free_item *item = (void *)(s->bytes + (at - 1) * bytes);
        item->next = m->small[size_class];
        m->small[size_class] = item;
    }
    return true;
}

/* ---- public ------------------------------------------------------------------------------------ */

void ig__memory_init(ig__memory *m, const ig_allocator *a, size_t budget, bool poison)
{
    *m = (ig__memory){.a = a, .budget = budget, .poison = poison};
}

void ig__memory_fini(ig__memory *m)
{
    while (m->slabs) {
        slab *next = m->slabs->next;
        ig__free(m->a, m->slabs);
        m->slabs = next;
    }
    while (m->segments) {
        segment *next = m->segments->next;
        ig__free(m->a, m->segments);
        m->segments = next;
    }
    const ig_allocator *a = m->a;
    *m = (ig__memory){.a = a};
}

static void *take_large(ig__memory *m, size_t bytes)
{
    if (bytes > SIZE_MAX / 4)
        return NULL;
    bytes = round_up(bytes, 64);
    block *b = find_fit(m, bytes);
    if (!b)
        b = grow(m, bytes);
    if (!b)
        return NULL;
    bin_take(m, b);
    split(m, b, bytes);
    b->of->n_used++;
    m->live += b->bytes;
    if (m->live > m->peak_live)
        m->peak_live = m->live;
    return payload(b);
}

/* Segments that are free beside one another go, to come back as one. */
static void unite_free(ig__memory *m)
{
    int n = 0;
    for (const segment *s = m->segments; s; s = s->next)
        n += s->n_used == 0;
    if (n < 2)
        return;
    for (segment **link = &m->segments; *link;)
        if ((*link)->n_used) {
            link = &(*link)->next;
        } else {
            m->owed += (*link)->bytes;
            release_segment(m, link);
        }
}

static void give_large(ig__memory *m, void *p)
{
    block *b = block_of(p);
    m->live -= b->bytes;
    b->of->n_used--;
    block *next = behind(b);
    if (next && next->free) {
        bin_take(m, next);
        join(b, next);
    }
    if (b->before && b->before->free) {
        block *before = b->before;
        bin_take(m, before);
        join(before, b);
        b = before;
    }
    bin_put(m, b);
    if (!b->of->n_used)
        unite_free(m);
}

void *ig__memory_take(ig__memory *m, size_t bytes)
{
    void *p = bytes <= IG_SMALL_BYTES ? ig__small_take(m, bytes ? bytes : 1)
                                      : take_large(m, bytes);
    if (p && m->poison)
        memset(p, 0xff, bytes); /* NaN in every float type */
    return p;
}

void ig__memory_give(ig__memory *m, void *p, size_t bytes)
{
    if (!p)
        return;
    if (m->poison)
        memset(p, 0xff, bytes);
    if (bytes <= IG_SMALL_BYTES)
        ig__small_give(m, p, bytes ? bytes : 1);
    else
        give_large(m, p);
}

ig_memory_stats ig__memory_stats(const ig__memory *m)
{
    size_t free_bytes = 0, largest = 0;
    for (int i = 0; i < IG_BINS; i++)
        for (const block *b = m->bins[i]; b; b = b->next) {
            free_bytes += b->bytes;
            if (b->bytes > largest)
                largest = b->bytes;
        }
    return (ig_memory_stats){
        .live_bytes = m->live,
        .peak_live_bytes = m->peak_live,
        .reserved_bytes = m->reserved,
        .peak_reserved_bytes = m->peak_reserved,
        .largest_free_bytes = largest,
        .n_reserves = m->n_reserves,
        .fragmentation = free_bytes ? 1.0 - (double)largest / (double)free_bytes : 0.0,
    };
}
