/* A team of threads that walks one job together, and its barrier.
 *
 * The caller's thread is member 0. Members spin briefly, then sleep: an idle team uses no
 * CPU, and a team that shares its cores with another program gives them up instead of
 * spinning against it. A team serves one caller at a time.
 */
#ifndef INGOT_BASE_TEAM_H
#define INGOT_BASE_TEAM_H

#include "base/alloc.h"

typedef struct ig__team ig__team;

/* n_threads >= 1. NULL: no memory, or no thread could be started. */
ig__team *ig__team_create(const ig_allocator *a, int n_threads);
void ig__team_destroy(ig__team *team); /* may be NULL */
int ig__team_size(const ig__team *team);

/* Run job(arg, i_thread, n_threads) on every member; returns when all have returned. */
typedef void ig__job(void *arg, int i_thread, int n_threads);
void ig__team_run(ig__team *team, ig__job *job, void *arg);

/* The same on as many members as have a core to themselves: fewer while other programs take
 * some (never none). For jobs that any number of members can do: i_thread < n_threads <= the
 * team's size, and n_threads differs from run to run. */
void ig__team_share(ig__team *team, ig__job *job, void *arg);

/* All members of a running job meet here; what one wrote before is seen by all after. */
void ig__team_barrier(ig__team *team);

/* Work that members share out among themselves: each member has its own contiguous part of
 * [0, n_items) and, done with it, takes over what others have left. Which member runs an
 * item never changes a result. One share serves one walk; ig__share_reset prepares it (by
 * one member, before a barrier or before ig__team_run). */
#define IG_SHARE_MAX_THREADS 64
typedef struct ig__share {
    struct {
        _Alignas(64)
            int64_t next; /* atomic, relaxed: it hands out indices, it publishes nothing */
        int64_t end;
    } part[IG_SHARE_MAX_THREADS];
} ig__share;
void ig__share_reset(ig__share *share, int64_t n_items, int n_threads);
/* The next item for this member, or -1. *cursor starts as i_thread and belongs to the
 * member. */
static inline int64_t ig__share_next(ig__share *share, int *cursor, int i_thread,
                                     int n_threads)
{
    for (;;) {
        int64_t *next = &share->part[*cursor].next;
        if (__atomic_load_n(next, __ATOMIC_RELAXED) < share->part[*cursor].end) {
            const int64_t i = __atomic_fetch_add(next, 1, __ATOMIC_RELAXED);
            if (i < share->part[*cursor].end)
                return i;
        }
        *cursor = *cursor + 1 == n_threads ? 0 : *cursor + 1;
        if (*cursor == i_thread)
            return -1;
    }
}

#endif
