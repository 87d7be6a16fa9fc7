/* A team beside other programs: it must slow down in proportion, not collapse.
 *
 * The work is like a step of a model: many short pieces shared out, a barrier, and again. Rates
 * are compared with those of one member under the same neighbours, the two in turns, and the best
 * of several attempts counts: the machine may have neighbours of its own. A team that does not
 * give way has 0.2 to 0.5 of one member's rate here.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/clock.h"
#include "base/team.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N_STEPS = 150, N_ITEMS = 24, ROUNDS = 400, ATTEMPTS = 6 };
static const int64_t stretch_ns = 300000000;

typedef struct load {
    ig_allocator a; /* the team keeps a pointer to it */
    ig__team *team;
    ig__share shares[2];
    int size;
    int least, most;      /* members that a run had */
    uint64_t sums[64][8]; /* [member][0] */
} load;

static load *load_of(int n)
{
    const ig_allocator a = ig__allocator_default();
    load *l = ig__alloc_zero(&a, sizeof *l);
    assert_non_null(l);
    l->a = a;
    l->team = ig__team_create(&l->a, n);
    assert_non_null(l->team);
    l->size = l->least = n;
    return l;
}

static void load_free(load *l)
{
    const ig_allocator a = l->a;
    ig__team_destroy(l->team);
    ig__free(&a, l);
}

static uint64_t piece(uint64_t x)
{
    for (int i = 0; i < ROUNDS; i++)
        x = x * 6364136223846793005u + 1442695040888963407u;
    return x;
}

static void walk(void *arg, int i_thread, int n_threads)
{
    load *l = arg;
    for (int step = 0; step < N_STEPS; step++) {
        ig__team_barrier(l->team);
        ig__share *share = &l->shares[step & 1];
        if (i_thread == 0) {
            l->least = n_threads < l->least ? n_threads : l->least;
            l->most = n_threads > l->most ? n_threads : l->most;
            ig__share_reset(&l->shares[!(step & 1)], N_ITEMS, l->size);
        }
        int cursor = i_thread;
        for (int64_t i; (i = ig__share_next(share, &cursor, i_thread, l->size)) >= 0;)
            l->sums[i_thread][0] += piece((uint64_t)i);
    }
}

/* Runs a second. */
static double rate(load *l)
{
    const int64_t start = ig__now_ns();
    int64_t n = 0, now;
    do {
        ig__share_reset(&l->shares[0], N_ITEMS, l->size);
        ig__team_share(l->team, walk, l);
        n++;
        now = ig__now_ns();
    } while (now - start < stretch_ns);
    return (double)n * 1e9 / (double)(now - start);
}

/* The best of several attempts at (a team's rate / one member's rate), till it is enough. */
static double proportion(load *team, load *one, double enough)
{
    double best = 0;
    for (int i = 0; i < ATTEMPTS && best < enough; i++) {
        const double r = rate(team) / rate(one);
        best = r > best ? r : best;
    }
    return best;
}

static int n_cores(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) ? 1 : CPU_COUNT(&set);
}

static pid_t busy_loop(void)
{
    const pid_t pid = fork();
    if (pid == 0) {
        setsid(); /* a program of somebody else's */
        alarm(60);
        for (volatile int i = 0;;)
            i = i + 1;
    }
    assert_true(pid > 0);
    return pid;
}

static void end(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

static void a_pair_beside_a_busy_loop(void **state)
{
    (void)state;
    if (n_cores() < 2)
        skip();
    load *team = load_of(2), *one = load_of(1);
    const pid_t pid = busy_loop();
    const double r = proportion(team, one, 0.7);
    end(pid);
    if (r < 0.7)
        fail_msg("a team of 2 has %.2f of one member's rate", r);
    load_free(team);
    load_free(one);
}

/* Another process with a team that works all the time. */
static void two_programs_at_once(void **state)
{
    (void)state;
    if (n_cores() < 2)
        skip();
    const pid_t pid = fork();
    if (pid == 0) {
        setsid();
        alarm(60);
        for (load *other = load_of(2);;)
            rate(other);
    }
    assert_true(pid > 0);
    load *team = load_of(2), *one = load_of(1);
    const double r = proportion(team, one, 0.7);
    end(pid);
    if (r < 0.7)
        fail_msg("a team of 2 has %.2f of one member's rate", r);
    load_free(team);
    load_free(one);
}

static void a_pair_on_one_core(void **state)
{
    (void)state;
    cpu_set_t all, first;
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    CPU_ZERO(&first);
    for (size_t i = 0; i < CPU_SETSIZE && !CPU_COUNT(&first); i++)
        if (CPU_ISSET(i, &all))
            CPU_SET(i, &first);
    assert_int_equal(sched_setaffinity(0, sizeof first, &first), 0);
    load *team = load_of(2), *one = load_of(1);
    const double r = proportion(team, one, 0.7);
    assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
    assert_int_equal(team->least, 1);
    if (r < 0.7)
        fail_msg("a team of 2 has %.2f of one member's rate", r);
    load_free(team);
    load_free(one);
}

/* One more is tried again. (That all stay once they have cores: test_pace.) */
static void a_neighbour_that_goes(void **state)
{
    (void)state;
    if (n_cores() < 2)
        skip();
    load *team = load_of(2);
    const pid_t pid = busy_loop();
    for (int i = 0; i < 20 && team->least == 2; i++)
        rate(team);
    end(pid);
    assert_int_equal(team->least, 1);
    team->most = 0;
    for (int i = 0; i < 20 && team->most < 2; i++)
        rate(team);
    assert_int_equal(team->most, 2);
    load_free(team);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pair_beside_a_busy_loop),
        cmocka_unit_test(two_programs_at_once),
        cmocka_unit_test(a_pair_on_one_core),
        cmocka_unit_test(a_neighbour_that_goes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
