/* See pace.h. */
#include "base/pace.h"

enum { WINDOW_NS = 20000000, HOLD_LEAST_NS = 50000000, HOLD_MOST_NS = 1600000000 };

static void begin_window(ig__pace *p)
{
    p->ns = p->cpu_ns = p->off_ns = p->crowded_ns = 0;
}

void ig__pace_init(ig__pace *p, int n_most, int n_cores)
{
    *p = (ig__pace){
        .n = n_most, .n_most = n_most, .n_cores = n_cores, .hold_ns = HOLD_LEAST_NS};
}

int ig__pace_begin(ig__pace *p, int64_t now)
{
    if (p->n < p->n_most && now >= p->try_at) {
        p->n++;
        p->trying = true;
        begin_window(p);
    }
    return p->n;
}

static bool is_starved(const ig__pace *p)
{
    return p->off_ns > p->ns / p->n;
}

static bool is_crowded(const ig__pace *p)
{
    /* cpu < (n - 4/5) of the window: in use are n - 1 cores and no good part of another */
    return p->crowded_ns > p->ns / 2 && p->cpu_ns < p->ns * p->n - p->ns / 5 * 4;
}

void ig__pace_end(ig__pace *p, const ig__pace_run *run)
{
    if (p->n == 1)
        return;
    const int64_t ns = run->ended - run->begun;
    p->ns += ns;
    p->cpu_ns += run->cpu_ns;
    p->off_ns += run->off_ns;
    p->crowded_ns += run->crowded ? ns : 0;
    if (p->ns < WINDOW_NS)
        return;
    if (p->n > p->n_cores) {
        p->n = p->n_most = p->n_cores;
    } else if (is_starved(p) || is_crowded(p)) {
        if (!p->trying)
            p->hold_ns = HOLD_LEAST_NS;
        else if (p->hold_ns < HOLD_MOST_NS)
            p->hold_ns *= 2;
        p->try_at = run->ended + p->hold_ns;
        p->n--;
    }
    p->trying = false;
    begin_window(p);
}
