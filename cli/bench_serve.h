/* `ingot bench --serve URL`: its options, and the run. */
#ifndef INGOT_CLI_BENCH_SERVE_H
#define INGOT_CLI_BENCH_SERVE_H

#include "report.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct bench_serve_opts {
    const char *url; /* NULL: measure a model instead */
    const char *model, *key_file;
    const char *input, *output; /* "N" or "N-M" */
    int64_t users;              /* 0: 8; with a rate, all that are open */
    int64_t n_requests, shared, seed;
    double rate, seconds, timeout_s, temp;
    bool completions, ignore_eos;
} bench_serve_opts;

void bench_serve_defaults(bench_serve_opts *o);
/* The exit code. */
int bench_serve_run(report *out, const bench_serve_opts *o, bool csv, bool json);

#endif
