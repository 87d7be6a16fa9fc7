/* What a load asks: request i is the same bytes whenever it is sent.
 *
 * Lengths are counted in words that are one token each in most vocabularies; the server's
 * own counts say what came of it.
 */
#ifndef INGOT_CLI_LOAD_PLAN_H
#define INGOT_CLI_LOAD_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LOAD_LONGEST = 1 << 20 }; /* words or tokens */

typedef struct load_length {
    int64_t least, most; /* drawn evenly from both and all between */
} load_length;

typedef struct load_plan {
    bool completions;  /* else chats */
    const char *model; /* UTF-8 */
    load_length input, output;
    int64_t shared; /* words of the system prompt that all have; 0: none */
    double rate;    /* arrivals a second */
    double temp;
    bool ignore_eos;
    uint64_t seed;
} load_plan;

/* "N" or "N-M". */
bool load_length_read(load_length *length, const char *text);
int64_t load_plan_input(const load_plan *p, int64_t i);
int64_t load_plan_output(const load_plan *p, int64_t i);
/* Seconds between arrival i - 1 and i: exponential, of mean 1 / rate. */
double load_plan_gap_s(const void *plan, int64_t i);
/* The JSON of request i; freed by the caller. NULL: no memory. */
char *load_plan_body(const void *plan, int64_t i, size_t *n_out);

#endif
