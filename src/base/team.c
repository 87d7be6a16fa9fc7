/* The team: persistent threads, a generation-counting barrier, spin-then-futex waits.
 *
 * A wait spins for SPIN_NS looking at one word, then sleeps on that word with a futex. The
 * waker pays a system call only when somebody sleeps (`n_sleepers`). When there are more
 * threads in the team than idle cores, spinning steals time from the very thread that is
 * waited for: the spin is therefore short (about what a futex wake costs), and yields
 * nothing.
 *
 *   run:     caller writes job, arg; bumps `epoch` (release); members see it (acquire),
 * run, and meet in the final barrier, which is also what the caller waits for. barrier: the
 * last of n arrivals resets `arrived` and bumps `phase`; others wait on `phase`.
 */
#include "base/team.h"

#include "base/clock.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { SPIN_NS = 60000, SPINS_A_LOOK = 64 };

struct ig__team {
    _Alignas(64) uint32_t phase; /* bumped by the last arrival of a barrier */
    _Alignas(64) uint32_t arrived;
    _Alignas(64) uint32_t epoch; /* bumped by each run */
    _Alignas(64) uint32_t n_sleepers;
    int n_threads;
    bool quit;
    ig__job *job;
    void *arg;
    const ig_allocator *a;
    struct member {
        ig__team *team;
        pthread_t thread;
        int index;
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

/* Wait until *word differs from `seen`. */
static void wait_change(ig__team *team, uint32_t *word, uint32_t seen)
{
    const int64_t start = ig__now_ns();
    do {
        for (int i = 0; i < SPINS_A_LOOK; i++) {
            if (__atomic_load_n(word, __ATOMIC_ACQUIRE) != seen)
                return;
            pause_cpu();
        }
    } while (ig__now_ns() - start < SPIN_NS);
    /* seq_cst: the increment must be seen by a waker that changes the word after our last
     * look; the futex re-checks the word, so the other order is harmless */
    __atomic_add_fetch(&team->n_sleepers, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(word, __ATOMIC_SEQ_CST) == seen)
        syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
    __atomic_sub_fetch(&team->n_sleepers, 1, __ATOMIC_SEQ_CST);
}

static void bump(ig__team *team, uint32_t *word)
{
    /* seq_cst pairs with n_sleepers above: either we see the sleeper or it sees the new
     * word */
    __atomic_add_fetch(word, 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&team->n_sleepers, __ATOMIC_SEQ_CST))
        syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

void ig__team_barrier(ig__team *team)
{
    if (team->n_threads == 1)
        return;
    const uint32_t phase = __atomic_load_n(&team->phase, __ATOMIC_RELAXED);
    /* acq_rel: the last arrival collects what all wrote and publishes it with the phase */
    if (__atomic_add_fetch(&team->arrived, 1, __ATOMIC_ACQ_REL) ==
        (uint32_t)team->n_threads) {
        __atomic_store_n(&team->arrived, 0, __ATOMIC_RELAXED);
        bump(team, &team->phase);
    } else {
        wait_change(team, &team->phase, phase);
    }
}

static void *member_main(void *arg)
{
    struct member *me = arg;
    ig__team *team = me->team;
    for (uint32_t seen = 0;; seen++) {
        wait_change(team, &team->epoch, seen);
        if (team->quit)
            return NULL;
        team->job(team->arg, me->index, team->n_threads);
        ig__team_barrier(team);
    }
}

void ig__team_run(ig__team *team, ig__job *job, void *arg)
{
    if (team->n_threads == 1) {
        job(arg, 0, 1);
        return;
    }
    team->job = job;
    team->arg = arg;
    bump(team, &team->epoch);
    job(arg, 0, team->n_threads);
    ig__team_barrier(team);
}

static void stop_members(ig__team *team, int n_started)
{
    team->quit = true;
    bump(team, &team->epoch);
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
    team->members = ig__alloc_zero(a, (size_t)n_threads * sizeof *team->members);
    if (!team->members) {
        ig__free(a, team);
        return NULL;
    }
    for (int i = 1; i < n_threads; i++) {
        team->members[i] = (struct member){.team = team, .index = i};
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

/* The quota of a cgroup-v2 cpu.max file in whole cores, rounded up; 0: none, or no such
 * file. */
static int quota_of(const char *path)
{
    FILE *f = fopen(path, "r");
    if (!f)
        return 0;
    long long quota = 0, period = 0;
    const int n = fscanf(f, "%lld %lld", &quota, &period);
    fclose(f);
    if (n != 2 || quota <= 0 || period <= 0)
        return 0;
    const long long cores = (quota + period - 1) / period;
    return cores > INT_MAX ? INT_MAX : (int)cores;
}

/* The smallest quota on the way from this process's cgroup to the root; 0: none. */
static int cgroup_quota(void)
{
    char line[512], group[400] = "", path[1024];
    FILE *f = fopen("/proc/self/cgroup", "r");
    if (!f)
        return 0;
    while (fgets(line, sizeof line, f))
        if (!strncmp(line, "0::", 3))
            snprintf(group, sizeof group, "%.*s", (int)strcspn(line + 3, "\n"), line + 3);
    fclose(f);
    int least = 0;
    for (;;) {
        snprintf(path, sizeof path, "/sys/fs/cgroup%s/cpu.max", group);
        const int q = quota_of(path);
        if (q && (!least || q < least))
            least = q;
        char *slash = strrchr(group, '/');
        if (!slash)
            return least;
        *slash = 0;
    }
}

int ig__cores_allowed(char *reason, size_t cap)
{
    cpu_set_t set;
    int cores = 1;
    if (!sched_getaffinity(0, sizeof set, &set))
        cores = CPU_COUNT(&set);
    const int quota = cgroup_quota();
    if (quota && quota < cores) {
        snprintf(reason, cap, "the cgroup's quota is %d of %d cores", quota, cores);
        cores = quota;
    } else {
        snprintf(reason, cap, "%d core%s in the affinity mask", cores,
                 cores == 1 ? "" : "s");
    }
    return cores < IG_SHARE_MAX_THREADS ? cores : IG_SHARE_MAX_THREADS;
}
