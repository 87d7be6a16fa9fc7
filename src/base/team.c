/* The team: persistent threads, a generation-counting barrier, spin-then-futex waits.
 *
 * A wait spins for SPIN_NS looking at one word, then sleeps on that word with a futex; with
 * more members than cores it sleeps at once, since who spins has the core of one who works.
 * The waker pays a system call only when somebody sleeps.
 *
 *   run:     the caller writes job, arg and n_active; bumps `go` of each member that takes
 *            part (release); they see it (acquire), run, and meet in the final barrier, which
 *            is also what the caller waits for
 *   barrier: the last of n_active arrivals resets `arrived` and bumps `phase`; others wait
 *            on `phase`
 *
 *   share:   a run of as many members as are worth having (pace.h): what each member spent,
 *            slept at barriers and went without a core is added up behind the run
 */
#include "base/team.h"

#include "base/clock.h"
#include "base/cores.h"
#include "base/pace.h"

#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { SPIN_NS = 60000, SPINS_A_LOOK = 64 };

/* A word that threads wait for. */
typedef struct word {
    _Alignas(64) uint32_t value;
    uint32_t n_sleepers;
} word;

struct ig__team {
    word phase; /* bumped by the last arrival of a barrier */
    _Alignas(64) uint32_t arrived;
    _Alignas(64) int n_threads;
    int n_cores;  /* that this process may use */
    int n_active; /* members 0 to n_active - 1 take part in the current run */
    bool quit;
    ig__job *job;
    void *arg;
    const ig_allocator *a;
    ig__pace pace;
    struct member {
        word go; /* bumped by each run that it takes part in */
        ig__team *team;
        pthread_t thread; /* of member 0: the caller's of the current run */
        int index;
        /* of the last run; each written by its member, read by the caller behind the run */
        int core;
        int64_t slept_ns; /* at barriers */
        int64_t cpu_ns, wall_ns;
    } * members; /* [n_threads]; member 0 is the caller */
};

static inline void pause_cpu(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Wait until the word differs from `seen`, spinning for spin_ns; returns the time slept. */
static int64_t wait_change(word *w, uint32_t seen, int64_t spin_ns)
{
    const int64_t start = ig__now_ns();
    int64_t now;
    do {
        for (int i = 0; i < SPINS_A_LOOK; i++) {
            if (__atomic_load_n(&w->value, __ATOMIC_ACQUIRE) != seen)
                return 0;
            pause_cpu();
        }
        now = ig__now_ns();
    } while (now - start < spin_ns);
    /* seq_cst: the increment must be seen by a waker that changes the word after our last
     * look; the futex re-checks the word, so the other order is harmless */
    __atomic_add_fetch(&w->n_sleepers, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&w->value, __ATOMIC_SEQ_CST) == seen)
        syscall(SYS_futex, &w->value, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
    __atomic_sub_fetch(&w->n_sleepers, 1, __ATOMIC_SEQ_CST);
    return ig__now_ns() - now;
}

static void bump(word *w)
{
    /* seq_cst pairs with n_sleepers above: either we see the sleeper or it sees the new
     * word */
    __atomic_add_fetch(&w->value, 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&w->n_sleepers, __ATOMIC_SEQ_CST))
        syscall(SYS_futex, &w->value, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* The barrier; returns the time slept. */
static int64_t meet(ig__team *team)
{
    /* read before the arrival: behind the last one the caller may begin another run */
    const uint32_t n = (uint32_t)team->n_active;
    if (n == 1)
        return 0;
    const uint32_t phase = __atomic_load_n(&team->phase.value, __ATOMIC_RELAXED);
    /* acq_rel: the last arrival collects what all wrote and publishes it with the phase */
    if (__atomic_add_fetch(&team->arrived, 1, __ATOMIC_ACQ_REL) == n) {
        __atomic_store_n(&team->arrived, 0, __ATOMIC_RELAXED);
        bump(&team->phase);
        return 0;
    }
    return wait_change(&team->phase, phase, (int)n <= team->n_cores ? SPIN_NS : 0);
}

void ig__team_barrier(ig__team *team)
{
    const int64_t slept = meet(team);
    if (!slept)
        return;
    for (int i = 0; i < team->n_active; i++) /* a long wait: there is time to look */
        if (pthread_equal(team->members[i].thread, pthread_self()))
            team->members[i].slept_ns += slept;
}

static int64_t cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* The member's part of a run, up to the final barrier. */
static void take_part(struct member *me)
{
    ig__team *team = me->team;
    me->slept_ns = 0;
    const int64_t wall = ig__now_ns(), cpu = cpu_ns();
    team->job(team->arg, me->index, team->n_active);
    me->wall_ns = ig__now_ns() - wall;
    me->cpu_ns = cpu_ns() - cpu;
    me->core = sched_getcpu();
}

static void *member_main(void *arg)
{
    struct member *me = arg;
    for (uint32_t seen = 0;; seen++) {
        wait_change(&me->go, seen, SPIN_NS);
        if (me->team->quit)
            return NULL;
        take_part(me);
        meet(me->team);
    }
}

static void run(ig__team *team, int n_active, ig__job *job, void *arg)
{
    team->n_active = n_active;
    team->job = job;
    team->arg = arg;
    team->members[0].thread = pthread_self();
    for (int i = 1; i < n_active; i++)
        bump(&team->members[i].go);
    if (n_active == 1)
        job(arg, 0, 1);
    else
        take_part(&team->members[0]);
    meet(team);
}

void ig__team_run(ig__team *team, ig__job *job, void *arg)
{
    run(team, team->n_threads, job, arg);
}

/* Add up what the members say of a run. */
static void look_back(ig__pace_run *r, const ig__team *team)
{
    const struct member *m = team->members;
    for (int i = 0; i < team->n_active; i++) {
        const int64_t off = m[i].wall_ns - m[i].cpu_ns - m[i].slept_ns;
        r->cpu_ns += m[i].cpu_ns;
        r->off_ns = off > r->off_ns ? off : r->off_ns;
        for (int j = 0; j < i; j++)
            r->crowded |= m[i].core == m[j].core;
    }
}

void ig__team_share(ig__team *team, ig__job *job, void *arg)
{
    ig__pace_run r = {.begun = ig__now_ns()};
    run(team, ig__pace_begin(&team->pace, r.begun), job, arg);
    if (team->n_active == 1)
        return;
    r.ended = ig__now_ns();
    look_back(&r, team);
    ig__pace_end(&team->pace, &r);
}

static void stop_members(ig__team *team, int n_started)
{
    team->quit = true;
    for (int i = 1; i < n_started; i++)
        bump(&team->members[i].go);
    for (int i = 1; i < n_started; i++)
        pthread_join(team->members[i].thread, NULL);
}

ig__team *ig__team_create(const ig_allocator *a, int n_threads)
{
    if (n_threads < 1 || n_threads > IG_SHARE_MAX_THREADS)
        return NULL;
    ig__team *team = ig__alloc_zero(a, sizeof *team);
    if (!team)
        return NULL;
    team->a = a;
    team->n_threads = n_threads;
    char reason[128];
    team->n_cores = ig__cores_allowed(reason, sizeof reason);
    ig__pace_init(&team->pace, n_threads, team->n_cores);
    team->members = ig__alloc_zero(a, (size_t)n_threads * sizeof *team->members);
    if (!team->members) {
        ig__free(a, team);
        return NULL;
    }
    for (int i = 0; i < n_threads; i++)
        team->members[i] = (struct member){.team = team, .index = i};
    for (int i = 1; i < n_threads; i++) {
        if (pthread_create(&team->members[i].thread, NULL, member_main,
                           &team->members[i])) {
            stop_members(team, i);
            ig__free(a, team->members);
            ig__free(a, team);
            return NULL;
        }
    }
    return team;
}

void ig__team_destroy(ig__team *team)
{
    if (!team)
        return;
    stop_members(team, team->n_threads);
    ig__free(team->a, team->members);
    ig__free(team->a, team);
}

int ig__team_size(const ig__team *team)
{
    return team->n_threads;
}

void ig__share_reset(ig__share *share, int64_t n_items, int n_threads)
{
    for (int i = 0; i < n_threads; i++) {
        share->part[i].next = n_items * i / n_threads;
        share->part[i].end = n_items * (i + 1) / n_threads;
    }
}
