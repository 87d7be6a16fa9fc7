/* The number of members follows the cores that are there: with made-up runs on a made-up
 * clock. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/pace.h"

#define MS INT64_C(1000000)

typedef struct world {
    ig__pace pace;
    int64_t now;
} world;

static world world_of(int n_most)
{
    world w = {.now = 5 * MS};
    ig__pace_init(&w.pace, n_most, n_most);
    return w;
}

/* A run of 5 ms in which all used cpu/100 cores, one lacked a core for off/100 of the time. */
static int run(world *w, int cpu, int off, bool crowded)
{
    const int n = ig__pace_begin(&w->pace, w->now);
    const ig__pace_run r = {.begun = w->now,
                            .ended = w->now + 5 * MS,
                            .cpu_ns = cpu * MS / 20,
                            .off_ns = off * MS / 20,
                            .crowded = crowded};
    w->now = r.ended;
    ig__pace_end(&w->pace, &r);
    return n;
}

/* Runs until `ms` have passed; the members of the last one. */
static int runs(world *w, int ms, int cpu, int off, bool crowded)
{
    int n = 0;
    for (const int64_t until = w->now + ms * MS; w->now < until;)
        n = run(w, cpu, off, crowded);
    return n;
}

static void alone_all_take_part(void **state)
{
    (void)state;
    for (int n = 1; n <= 64; n++) {
        world w = world_of(n);
        assert_int_equal(runs(&w, 1000, 100 * n, 1, false), n);
        /* badly shared out: most of them sleep, each on a core of its own */
        assert_int_equal(runs(&w, 1000, 100, 1, false), n);
        /* one hiccup of the machine */
        run(&w, 100 * n, 90 / n, true);
        assert_int_equal(runs(&w, 1000, 100 * n, 1, false), n);
    }
}

static void a_quota_stops_all_at_once(void **state)
{
    (void)state;
    /* of 2 cores, 3 / 2 allowed: both lack a core for a quarter of the time */
    world w = world_of(2);
    assert_int_equal(runs(&w, 1000, 150, 25, false), 2);
}

static void the_starved_are_left_out(void **state)
{
    (void)state;
    world w = world_of(2);
    assert_int_equal(run(&w, 100, 60, false), 2);
    assert_int_equal(runs(&w, 15, 100, 60, false), 2); /* a window is 20 ms */
    assert_int_equal(runs(&w, 5, 100, 60, false), 1);
    w = world_of(16); /* a tenth of one holds up 16 for more than one is worth */
    assert_int_equal(runs(&w, 20, 1500, 10, false), 16);
    assert_int_equal(runs(&w, 5, 1500, 10, false), 15);
    w = world_of(16);
    assert_int_equal(runs(&w, 500, 1500, 5, false), 16);
}

static void the_crowded_are_left_out(void **state)
{
    (void)state;
    world w = world_of(2);
    runs(&w, 20, 100, 10, true);
    assert_int_equal(run(&w, 100, 0, false), 1);
    w = world_of(2); /* they met there by chance: both have their core */
    runs(&w, 20, 190, 10, true);
    assert_int_equal(run(&w, 190, 0, false), 2);
    w = world_of(8); /* on 2 cores */
    int n = 8;
    for (int i = 0; i < 400 && n > 2; i++)
        n = run(&w, 200, 0, w.pace.n > 2);
    assert_int_equal(n, 2);
}

/* A neighbour that stays costs few attempts; one that goes is noticed. */
static void one_more_is_tried(void **state)
{
    (void)state;
    world w = world_of(2);
    int n_two = 0;
    for (int i = 0; i < 2000; i++) /* 10 s */
        n_two += run(&w, 100, w.pace.n == 2 ? 90 : 0, false) == 2;
    assert_in_range(n_two, 4 * 6, 4 * 12);
    assert_int_equal(runs(&w, 1700, 200, 0, false), 2);
    /* and if it comes back, the first attempt is soon again */
    runs(&w, 35, 100, 90, false); /* two windows, the first has begun */
    assert_int_equal(run(&w, 100, 0, false), 1);
    assert_int_equal(runs(&w, 60, 200, 0, false), 2);
}

static void no_more_than_cores(void **state)
{
    (void)state;
    for (int n = 3; n <= 64; n++) {
        world w = {.now = 5 * MS};
        ig__pace_init(&w.pace, n, 2);
        assert_int_equal(run(&w, 200, 0, false), n);
        runs(&w, 20, 200, 0, false);
        assert_int_equal(runs(&w, 5000, 200, 0, false), 2);
    }
}

static void never_none(void **state)
{
    (void)state;
    world w = world_of(3);
    for (int i = 0; i < 1000; i++)
        assert_in_range(run(&w, 1, 99, true), 1, 3);
    assert_int_equal(w.pace.n, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(alone_all_take_part),
        cmocka_unit_test(a_quota_stops_all_at_once),
        cmocka_unit_test(the_starved_are_left_out),
        cmocka_unit_test(the_crowded_are_left_out),
        cmocka_unit_test(one_more_is_tried),
        cmocka_unit_test(no_more_than_cores),
        cmocka_unit_test(never_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
