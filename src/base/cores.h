/* How many cores this process may use. */
#ifndef INGOT_BASE_CORES_H
#define INGOT_BASE_CORES_H

#include <stddef.h>

/* By affinity mask and cgroup quota (rounded up), at least 1; `reason` (cap bytes) says why. */
int ig__cores_allowed(char *reason, size_t cap);

#endif
