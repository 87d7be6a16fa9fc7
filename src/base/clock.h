/* The monotonic clock, in nanoseconds. */
#ifndef INGOT_BASE_CLOCK_H
#define INGOT_BASE_CLOCK_H

#include <stdint.h>

int64_t ig__now_ns(void);

#endif
