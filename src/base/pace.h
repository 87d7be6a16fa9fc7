/* How many members of a team are worth having while other programs take cores from it.
 *
 * A job with barriers goes at the pace of its slowest member: with one that has a third of a
 * core, all have a third. Two signs that a member is better left out, taken over WINDOW_NS:
 *
 *   starved   a member wanted to run and had no core for more than 1/n of the time: by so much
 *             all n are held up, which is more than the whole of one member
 *   crowded   members were seen on one core, and all together used hardly more than n - 1
 *
 * One member fewer takes part then, and after a while (`hold_ns`, doubled each time that it
 * was in vain) one more is tried. Neither sign is raised by a quota that stops all members at
 * once, nor by a job that is shared out badly: their members stand still together, or sleep.
 *
 * More members than cores never pay, and their waiting for each other hides both signs: behind
 * the first window they are as many as the cores, for good.
 */
#ifndef INGOT_BASE_PACE_H
#define INGOT_BASE_PACE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct ig__pace {
    int n, n_most; /* 1 <= n <= n_most: members of the next run */
    int n_cores;   /* that this process may use */
    bool trying;   /* n was just raised */
    int64_t hold_ns, try_at;
    int64_t ns, cpu_ns, off_ns, crowded_ns; /* sums over the runs of this window */
} ig__pace;

/* What a run of n members was like. */
typedef struct ig__pace_run {
    int64_t begun, ended; /* of ig__now_ns */
    int64_t cpu_ns;       /* CPU time of all members */
    int64_t off_ns;       /* the most that a member had neither a core nor slept */
    bool crowded;         /* two members ended on one core */
} ig__pace_run;

void ig__pace_init(ig__pace *p, int n_most, int n_cores);
int ig__pace_begin(ig__pace *p, int64_t now); /* members of the run that begins: p->n */
void ig__pace_end(ig__pace *p, const ig__pace_run *run);

#endif
