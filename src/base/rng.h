/* Counter-based random numbers: Philox4x32-10 (Salmon et al., "Parallel random numbers: as
 * easy as 1, 2, 3", SC 2011, section 4.1).
 *
 * A draw is a pure function of (seed, stream, index): thread count, sharding and recompute
 * cannot change it.
 */
#ifndef INGOT_BASE_RNG_H
#define INGOT_BASE_RNG_H

#include <stdint.h>

/* Four words of 32 random bits for counter (index, stream) under the key `seed`. */
void ig__philox(uint32_t out[4], uint64_t seed, uint64_t stream, uint64_t index);

/* Uniform in [0, 1) with 53 bits. */
double ig__uniform(uint64_t seed, uint64_t stream, uint64_t index);

#endif
