/* The prefix cache over a pool of small pages: what is found, what goes first, and that nothing
 * is decided by the hash.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/rng.h"
#include "fault_allocator.h"
#include "infer/prefix.h"

#include <string.h>

typedef struct fixture {
    ig_allocator a;
    ig__pages pages;
    ig__prefix *prefix;
} fixture;

static void open_with(fixture *f, const ig_allocator *a, int64_t n_pages, int64_t n_buckets,
                      int32_t max_idle)
{
    const ig__config config = {
        .n_layers = 1, .n_heads = 1, .n_kv_heads = 1, .head_width = 16};
    f->a = *a;
    assert_int_equal(ig__pages_init(&f->pages, &f->a, &config, IG__KV_F16, IG_PAGE,
                                    n_pages * IG_PAGE, NULL),
                     IG_OK);
    assert_int_equal(ig__prefix_create(&f->prefix, &f->pages, n_buckets, max_idle, NULL),
                     IG_OK);
}

static void open_pool(fixture *f, int64_t n_pages, int64_t n_buckets, int32_t max_idle)
{
    const ig_allocator a = ig__allocator_default();
    open_with(f, &a, n_pages, n_buckets, max_idle);
}

/* All pages are free again. */
static void close_pool(fixture *f)
{
    ig__prefix_destroy(f->prefix);
    assert_int_equal(f->pages.n_free, f->pages.n_pages);
    ig__pages_fini(&f->pages);
}

/* Sixteen tokens named by one number. */
static const int32_t *block(int32_t name)
{
    static int32_t tokens[IG_PAGE];
    for (int32_t i = 0; i < IG_PAGE; i++)
        tokens[i] = name * (i + 1);
    return tokens;
}

/* A new page that is known as `name` behind `parent`. */
static int32_t add(fixture *f, int32_t parent, int32_t name)
{
    const int32_t page = ig__pages_take(&f->pages);
    assert_true(page >= 0);
    assert_int_equal(ig__prefix_add(f->prefix, parent, block(name), page), page);
    return page;
}

static int32_t find(const fixture *f, int32_t parent, int32_t name)
{
    return ig__prefix_find(f->prefix, parent, block(name));
}

static void parent_and_tokens_are_compared(void **state)
{
    (void)state;
    fixture f;
    open_pool(&f, 8, 1, 8); /* everything in one bucket */
    const int32_t a = add(&f, IG_NO_PAGE, 1), b = add(&f, IG_NO_PAGE, 2);
    const int32_t ac = add(&f, a, 3), bc = add(&f, b, 3);
    assert_int_equal(find(&f, IG_NO_PAGE, 1), a);
    assert_int_equal(find(&f, IG_NO_PAGE, 2), b);
    assert_int_equal(find(&f, a, 3), ac);
    assert_int_equal(find(&f, b, 3), bc);
    assert_int_equal(find(&f, IG_NO_PAGE, 3), IG_NO_PAGE);
    assert_int_equal(find(&f, a, 1), IG_NO_PAGE);
    int32_t other[IG_PAGE];
    memcpy(other, block(1), sizeof other);
    other[IG_PAGE - 1]++; /* one token differs */
    assert_int_equal(ig__prefix_find(f.prefix, IG_NO_PAGE, other), IG_NO_PAGE);
    const int32_t again = ig__pages_take(&f.pages); /* computed a second time */
    assert_int_equal(ig__prefix_add(f.prefix, a, block(3), again), ac);
    ig__pages_drop(&f.pages, again);
    assert_int_equal(f.prefix->n_idle, 0);
    const int32_t order[] = {ac, bc, a, b};
    for (int i = 0; i < 4; i++)
        ig__pages_drop(&f.pages, order[i]);
    assert_int_equal(f.prefix->n_idle, 4);
    assert_int_equal(ig__pages_available(&f.pages), 8);
    close_pool(&f);
}

static void the_oldest_goes_first(void **state)
{
    (void)state;
    fixture f;
    open_pool(&f, 4, 0, 4);
    const int32_t a = add(&f, IG_NO_PAGE, 1), b = add(&f, a, 2), c = add(&f, b, 3);
    const int32_t d = add(&f, a, 4);
    ig__pages_drop(&f.pages, c); /* the users of a..c leave, last page first */
    ig__pages_drop(&f.pages, b);
    ig__pages_drop(&f.pages, d);
    ig__pages_drop(&f.pages, a);
    ig__pages_retain(&f.pages, a); /* a and b are used again */
    ig__pages_retain(&f.pages, b);
    ig__pages_drop(&f.pages, b);
    ig__pages_drop(&f.pages, a);
    const int32_t order[] = {c, d, b, a};
    for (int i = 0; i < 4; i++)
        assert_int_equal(ig__pages_take(&f.pages), order[i]);
    assert_int_equal(ig__pages_take(&f.pages), IG_NO_PAGE);
    assert_int_equal(f.prefix->n_evicted, 4);
    assert_int_equal(find(&f, IG_NO_PAGE, 1), IG_NO_PAGE);
    for (int i = 0; i < 4; i++)
        ig__pages_drop(&f.pages, order[i]); /* not known any more: free */
    assert_int_equal(f.pages.n_free, 4);
    close_pool(&f);
}

static void the_limit_holds(void **state)
{
    (void)state;
    for (int32_t limit = 0; limit < 4; limit++) {
        fixture f;
        open_pool(&f, 8, 0, limit);
        int32_t chain[6], parent = IG_NO_PAGE;
        for (int32_t i = 0; i < 6; i++)
            parent = chain[i] = add(&f, parent, i + 1);
        for (int32_t i = 5; i >= 0; i--) {
            ig__pages_drop(&f.pages, chain[i]);
            assert_true(f.prefix->n_idle <= limit);
        }
        assert_int_equal(f.prefix->n_idle, limit); /* the first ones of the chain */
        parent = IG_NO_PAGE;
        for (int32_t i = 0; i < 6; i++) {
            parent = find(&f, parent, i + 1);
            assert_int_equal(parent, i < limit ? chain[i] : IG_NO_PAGE);
        }
        close_pool(&f);
    }
}

static void a_known_page_is_nobodys_own(void **state)
{
    (void)state;
    fixture f;
    open_pool(&f, 4, 0, 4);
    const int32_t page = ig__pages_take(&f.pages);
    assert_true(ig__pages_is_own(&f.pages, page));
    ig__pages_retain(&f.pages, page);
    assert_false(ig__pages_is_own(&f.pages, page));
    ig__pages_drop(&f.pages, page);
    ig__prefix_add(f.prefix, IG_NO_PAGE, block(1), page);
    assert_false(ig__pages_is_own(&f.pages, page)); /* though only one has it */
    const int32_t copy = ig__pages_copy(&f.pages, page);
    assert_int_not_equal(copy, page);
    assert_true(ig__pages_is_own(&f.pages, copy));
    assert_int_equal(find(&f, IG_NO_PAGE, 1), page); /* idle, and still the same */
    ig__pages_drop(&f.pages, copy);
    close_pool(&f);
}

/* Chains of random blocks are taken and left in random order, in a pool that is too small.
 * Beside it a plain record of which page holds which chain. */
enum { N_PAGES = 40, N_CHAINS = 12, MAX_CHAIN = 6, N_ROUNDS = 20000 };

typedef struct chain {
    int32_t pages[MAX_CHAIN], names[MAX_CHAIN];
    int64_t n;
} chain;

static int32_t random_below(uint64_t *state, int32_t n)
{
    uint32_t w[4];
    ig__philox(w, 11, 0, (*state)++);
    return (int32_t)(w[0] % (uint32_t)n);
}

static void random_chains(void **state)
{
    (void)state;
    static const int64_t buckets[] = {0, 1, 4};
    for (int i = 0; i < 3; i++) {
        fixture f;
        open_pool(&f, N_PAGES, buckets[i], 25);
        int32_t contents[N_PAGES][MAX_CHAIN] = {{0}}; /* of each page: the names up to it */
        chain chains[N_CHAINS] = {{{0}, {0}, 0}};
        uint64_t counter = 0;
        int64_t n_found = 0;
        for (int round = 0; round < N_ROUNDS; round++) {
            chain *c = &chains[random_below(&counter, N_CHAINS)];
            if (c->n == MAX_CHAIN || random_below(&counter, 4) == 0) {
                while (c->n)
                    ig__pages_drop(&f.pages, c->pages[--c->n]);
                continue;
            }
            const int32_t parent = c->n ? c->pages[c->n - 1] : IG_NO_PAGE;
            const int32_t name = 1 + random_below(&counter, 3);
            c->names[c->n] = name;
            int32_t page = find(&f, parent, name);
            if (page != IG_NO_PAGE) {
                ig__pages_retain(&f.pages, page);
                assert_memory_equal(contents[page], c->names, (size_t)(c->n + 1) * 4);
                n_found++;
            } else {
                page = ig__pages_take(&f.pages);
                if (page == IG_NO_PAGE)
                    continue;
                assert_int_equal(ig__prefix_add(f.prefix, parent, block(name), page), page);
                memcpy(contents[page], c->names, (size_t)(c->n + 1) * 4);
            }
            c->pages[c->n++] = page;
            assert_in_range(f.prefix->n_idle, 0, 25);
        }
        assert_true(n_found > N_ROUNDS / 10);
        assert_true(f.prefix->n_evicted > N_ROUNDS / 100);
        for (int k = 0; k < N_CHAINS; k++)
            while (chains[k].n)
                ig__pages_drop(&f.pages, chains[k].pages[--chains[k].n]);
        assert_int_equal(ig__pages_available(&f.pages), N_PAGES);
        close_pool(&f);
    }
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    for (int64_t nth = 1; nth < 10; nth++) {
        fault_allocator faults = {0};
        fixture f;
        const ig_allocator a = fault_allocator_of(&faults);
        open_with(&f, &a, 4, 0, 4);
        ig__prefix_destroy(f.prefix);
        faults.n_calls = 0;
        faults.fail_nth = nth;
        const ig_status status = ig__prefix_create(&f.prefix, &f.pages, 0, 4, NULL);
        assert_int_equal(status, nth <= 4 ? IG_ERR_MEMORY : IG_OK);
        close_pool(&f);
        assert_int_equal(faults.n_alive, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parent_and_tokens_are_compared),
        cmocka_unit_test(the_oldest_goes_first),
        cmocka_unit_test(the_limit_holds),
        cmocka_unit_test(a_known_page_is_nobodys_own),
        cmocka_unit_test(random_chains),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
