/* The learning rate's share by step. */
#include "ingot/optim.h"

#include <math.h>

double ig_schedule_factor(const ig_schedule *s, int64_t step)
{
    if (step < s->warmup)
        return (double)(step + 1) / (double)s->warmup;
    const double floor = s->floor;
    double done = 0; /* share of the fall */
    switch (s->kind) {
    case IG_SCHEDULE_CONSTANT:
        return 1;
    case IG_SCHEDULE_INVERSE_SQRT:
        return sqrt((double)(s->warmup > 0 ? s->warmup : 1) / (double)(step + 1));
    case IG_SCHEDULE_LINEAR:
    case IG_SCHEDULE_COSINE:
        done = (double)(step - s->warmup) / (double)(s->total - s->warmup);
        break;
    case IG_SCHEDULE_STABLE:
        done = (double)(step - (s->total - s->decay)) / (double)s->decay;
        break;
    }
    done = done < 0 ? 0 : done > 1 ? 1 : done;
    const double left = s->kind == IG_SCHEDULE_COSINE
                            ? 0.5 * (1 + cos(3.14159265358979323846 * done))
                            : 1 - done;
    return floor + (1 - floor) * left;
}
