/* The team: every member once, barriers that publish, shares that hand out each item once,
 * more members than cores, an idle team that sleeps. Worth most under the thread sanitizer:
 * data that barriers guard is plain here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "infer/fault_allocator.h"

#include "base/team.h"

#include <string.h>
#include <time.h>

enum { MOST = 16, ROUNDS = 100 };

typedef struct meeting {
    ig__team *team;
    int64_t at[MOST][8]; /* [member][0]: the round it is in; a line each */
    int64_t n_wrong[MOST][8];
} meeting;

static void meet(void *arg, int i_thread, int n_threads)
{
    meeting *m = arg;
    for (int64_t round = 1; round <= ROUNDS; round++) {
        m->at[i_thread][0] = round;
        ig__team_barrier(m->team);
        for (int i = 0; i < n_threads; i++)
            m->n_wrong[i_thread][0] += m->at[i][0] != round;
        ig__team_barrier(m->team);
    }
}

static void barriers_publish(void **state)
{
    (void)state;
    const ig_allocator a = ig__allocator_default();
    for (int n = 1; n <= MOST; n = n < 4 ? n + 1 : 2 * n) {
        meeting m = {.team = ig__team_create(&a, n)};
        assert_non_null(m.team);
        assert_int_equal(ig__team_size(m.team), n);
        for (int again = 0; again < 3; again++) {
            memset(m.at, 0, sizeof m.at);
            ig__team_run(m.team, meet, &m);
            for (int i = 0; i < MOST; i++) {
                assert_int_equal(m.at[i][0], i < n ? ROUNDS : 0);
                assert_int_equal(m.n_wrong[i][0], 0);
            }
        }
        ig__team_destroy(m.team);
    }
}

static void count_me(void *arg, int i_thread, int n_threads)
{
    int64_t(*counts)[8] = arg;
    counts[i_thread][0] += n_threads;
}

static void pause_ms(long ms)
{
    nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL);
}

/* Many short runs, some of them after a pause in which the members fell asleep. */
static void runs_reach_every_member(void **state)
{
    (void)state;
    const ig_allocator a = ig__allocator_default();
    for (int n = 1; n <= 5; n += 2) {
        int64_t counts[MOST][8] = {{0}};
        ig__team *team = ig__team_create(&a, n);
        assert_non_null(team);
        for (int i = 0; i < 1000; i++) {
            ig__team_run(team, count_me, counts);
            if (i % 250 == 0)
                pause_ms(2);
        }
        for (int i = 0; i < n; i++)
            assert_int_equal(counts[i][0], 1000 * n);
        ig__team_destroy(team);
    }
}

typedef struct handing_out {
    ig__share share;
    unsigned char done[1000]; /* by whoever got the item; plain: nobody else may touch it */
} handing_out;

static void take(void *arg, int i_thread, int n_threads)
{
    handing_out *h = arg;
    int cursor = i_thread;
    for (int64_t i; (i = ig__share_next(&h->share, &cursor, i_thread, n_threads)) >= 0;)
        h->done[i]++;
}

static void shares_hand_out_each_item_once(void **state)
{
    (void)state;
    static const int64_t counts[] = {0, 1, 2, 3, 7, 16, 100, 1000};
    const ig_allocator a = ig__allocator_default();
    handing_out *h = ig__alloc(&a, sizeof *h);
    assert_non_null(h);
    for (int n = 1; n <= 5; n++) {
        ig__team *team = ig__team_create(&a, n);
        assert_non_null(team);
        for (size_t k = 0; k < 20 * sizeof counts / sizeof *counts; k++) {
            const int64_t n_items = counts[k % (sizeof counts / sizeof *counts)];
            memset(h->done, 0, sizeof h->done);
            ig__share_reset(&h->share, n_items, n);
            ig__team_run(team, take, h);
            for (int64_t i = 0; i < (int64_t)sizeof h->done; i++)
                assert_int_equal(h->done[i], i < n_items);
        }
        ig__team_destroy(team);
    }
    ig__free(&a, h);
}

/* A member alone does everybody's items, its own first. */
static void a_member_takes_over(void **state)
{
    (void)state;
    static const int64_t wanted[] = {3, 4, 5, 6, 7, 8, 9, 0, 1, 2, -1, -1};
    ig__share share;
    int cursor = 1;
    ig__share_reset(&share, 10, 3); /* 0..2, 3..5, 6..9 */
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        assert_int_equal(ig__share_next(&share, &cursor, 1, 3), wanted[i]);
}

static void an_idle_team_sleeps(void **state)
{
    (void)state;
    const ig_allocator a = ig__allocator_default();
    int64_t counts[MOST][8] = {{0}};
    ig__team *team = ig__team_create(&a, 4);
    assert_non_null(team);
    ig__team_run(team, count_me, counts);
    pause_ms(50);
    const clock_t before = clock(); /* of all threads */
    pause_ms(300);
    assert_true((double)(clock() - before) / CLOCKS_PER_SEC < 0.05);
    ig__team_destroy(team);
}

static void teams_that_cannot_be(void **state)
{
    (void)state;
    for (int64_t nth = 1;; nth++) {
        fault_allocator f = {.fail_nth = nth};
        const ig_allocator a = fault_allocator_of(&f);
        ig__team *team = ig__team_create(&a, 3);
        const bool failed = f.n_calls >= nth;
        assert_int_equal(team == NULL, failed);
        ig__team_destroy(team);
        assert_int_equal(f.n_alive, 0);
        if (!failed)
            break;
    }
    const ig_allocator a = ig__allocator_default();
    assert_null(ig__team_create(&a, 0));
    assert_null(ig__team_create(&a, -1));
    assert_null(ig__team_create(&a, IG_SHARE_MAX_THREADS + 1));
    ig__team_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(barriers_publish),
        cmocka_unit_test(runs_reach_every_member),
        cmocka_unit_test(shares_hand_out_each_item_once),
        cmocka_unit_test(a_member_takes_over),
        cmocka_unit_test(an_idle_team_sleeps),
        cmocka_unit_test(teams_that_cannot_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
