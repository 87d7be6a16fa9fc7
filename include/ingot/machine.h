/* What this machine can do, measured: the limits that figures are set against.
 */
#ifndef INGOT_MACHINE_H
#define INGOT_MACHINE_H

#include "ingot/context.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ig_machine {
    double read_bytes_s; /* streaming read, all threads, 1 GiB on huge pages */
    double int8_ops_s;   /* int8 dot products, multiply and add counted apart */
    double bf16_ops_s;
    double f32_ops_s;  /* FMA */
    double barrier_ns; /* the team's barrier */
} ig_machine;

/* Measure with the context's team; about `seconds` long. Call again and keep the best: the
 * machine moves. `cancelled` may be NULL; once another thread has set it, the call fails
 * with IG_ERR_CANCELLED, within a few milliseconds and the time that the system takes to
 * give up 1 GiB. */
IG_API IG_WARN_UNUSED ig_status ig_machine_measure(ig_machine *machine_out, ig_context *ctx,
                                                   double seconds,
                                                   const volatile int *cancelled,
                                                   ig_error *err);

#ifdef __cplusplus
}
#endif
#endif
