/* ingot bench --serve: load on a server, and what its users felt.
 *
 *   first token      from the moment a request is due to its first text
 *   between tokens   each gap between two events with text, of one answer
 *   whole answer     to the end of the answer
 *
 * Only requests that ended well count, but in the counts of errors. A percentile is the
 * least time that so many in a hundred do not pass.
 */
#include "bench_serve.h"

#include "args.h"
#include "load_client.h"
#include "load_plan.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_USERS = 8, LONGEST_KEY = 512 };

typedef struct spread {
    double mean, p50, p90, p99, longest; /* ms; all NAN of nothing */
} spread;

void bench_serve_defaults(bench_serve_opts *o)
{
    o->model = "any";
    o->input = "128";
    o->output = "128";
    o->timeout_s = 600;
}

static int by_time(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static double at_share(const load_times *list, double share)
{
    const int64_t i = (int64_t)ceil(share * (double)list->n) - 1;
    return (double)list->at[i < 0 ? 0 : i] / 1e6;
}

static spread spread_of(load_times *list)
{
    const double none = (double)NAN;
    if (!list->n)
        return (spread){none, none, none, none, none};
    qsort(list->at, (size_t)list->n, sizeof *list->at, by_time);
    double sum = 0;
    for (int64_t i = 0; i < list->n; i++)
        sum += (double)list->at[i];
    return (spread){sum / (double)list->n / 1e6, at_share(list, 0.5), at_share(list, 0.9),
                    at_share(list, 0.99), at_share(list, 1)};
}

typedef struct outcome {
    const bench_serve_opts *o;
    const load_totals *t;
    spread ttft, gaps, whole;
    int64_t n_requests, n_failed;
    double wall_s, request_s, tps, prompt_tps;
} outcome;

static outcome outcome_of(const bench_serve_opts *o, load_totals *t)
{
    outcome r = {.o = o, .t = t};
    for (int i = 0; i < LOAD_N_OUTCOMES; i++)
        r.n_requests += t->n[i];
    r.n_failed = r.n_requests - t->n[LOAD_OK];
    r.ttft = spread_of(&t->ttft);
    r.gaps = spread_of(&t->gaps);
    r.whole = spread_of(&t->whole);
    r.wall_s = (double)t->wall_ns / 1e9;
    r.request_s = (double)t->n[LOAD_OK] / r.wall_s;
    r.tps = (double)t->tokens / r.wall_s;
    r.prompt_tps = (double)t->prompt_tokens / r.wall_s;
    return r;
}

/* ---- the three forms -------------------------------------------------------------------
 */

static void tell_spread(report *out, const char *name, const spread *s)
{
    report_print(out, "%-16s %10.2f %10.2f %10.2f %10.2f %10.2f\n", name, s->mean, s->p50,
                 s->p90, s->p99, s->longest);
}

static void tell(report *out, const outcome *r)
{
    const load_totals *t = r->t;
    char url[256];
    report_print(out, "server    %s, %s, ", report_clean(url, sizeof url, r->o->url),
                 r->o->completions ? "completions" : "chats");
    if (r->o->rate > 0)
        report_print(out, "%g arrivals a second", r->o->rate);
    else
        report_print(out, "%lld users", (long long)r->o->users);
    report_print(out, "; words %lld shared + %s, answers %s\n", (long long)r->o->shared,
                 r->o->input, r->o->output);
    report_print(out,
                 "requests  %lld well, %lld not, in %.2f s: %.2f a second, at most %lld at "
                 "once\n",
                 (long long)t->n[LOAD_OK], (long long)r->n_failed, r->wall_s, r->request_s,
                 (long long)t->most_open);
    report_print(
        out, "tokens/s  %.1f of answers (%lld%s), %.1f of prompts (%lld, %lld cached)\n\n",
        r->tps, (long long)t->tokens, t->counts_by_event ? " events" : "", r->prompt_tps,
        (long long)t->prompt_tokens, (long long)t->cached_tokens);
    report_print(out, "%-16s %10s %10s %10s %10s %10s\n", "ms", "mean", "p50", "p90", "p99",
                 "longest");
    if (t->ttft.n)
        tell_spread(out, "first token", &r->ttft);
    if (t->gaps.n)
        tell_spread(out, "between tokens", &r->gaps);
    if (t->whole.n)
        tell_spread(out, "whole answer", &r->whole);
    for (int i = LOAD_OK + 1; i < LOAD_N_OUTCOMES; i++)
        if (t->n[i])
            report_print(out, "%-9s %lld, the first: %s\n", load_outcome_names[i],
                         (long long)t->n[i], t->first[i]);
}

/* Nothing where there is no figure. */
static void csv_spread(report *out, const spread *s)
{
    const double ms[] = {s->mean, s->p50, s->p90, s->p99, s->longest};
    for (int i = 0; i < 5; i++)
        report_print(out, isfinite(ms[i]) ? ",%.3f" : ",", ms[i]);
}

static void tell_csv(report *out, const outcome *r)
{
    static const char *const names[] = {"ttft", "itl", "e2e"};
    const load_totals *t = r->t;
    report_print(out, "requests");
    for (int i = 0; i < LOAD_N_OUTCOMES; i++)
        report_print(out, ",%s", load_outcome_names[i]);
    report_print(out, ",wall_s,most_open,request_s,tokens,prompt_tokens,cached_tokens,tps,"
                      "prompt_tps");
    for (int i = 0; i < 3; i++)
        report_print(out, ",%s_mean_ms,%s_p50_ms,%s_p90_ms,%s_p99_ms,%s_longest_ms",
                     names[i], names[i], names[i], names[i], names[i]);
    report_print(out, "\n%lld", (long long)r->n_requests);
    for (int i = 0; i < LOAD_N_OUTCOMES; i++)
        report_print(out, ",%lld", (long long)t->n[i]);
    report_print(out, ",%.4f,%lld,%.3f,%lld,%lld,%lld,%.3f,%.3f", r->wall_s,
                 (long long)t->most_open, r->request_s, (long long)t->tokens,
                 (long long)t->prompt_tokens, (long long)t->cached_tokens, r->tps,
                 r->prompt_tps);
    csv_spread(out, &r->ttft);
    csv_spread(out, &r->gaps);
    csv_spread(out, &r->whole);
    report_print(out, "\n");
}

static json_t *spread_json(const spread *s)
{
    return json_pack("{s:o, s:o, s:o, s:o, s:o}", "mean", report_json_real(s->mean), "p50",
                     report_json_real(s->p50), "p90", report_json_real(s->p90), "p99",
                     report_json_real(s->p99), "longest", report_json_real(s->longest));
}

static json_t *errors_json(const load_totals *t)
{
    json_t *o = json_object();
    for (int i = LOAD_OK + 1; o && i < LOAD_N_OUTCOMES; i++) {
        if (!t->n[i])
            continue;
        json_t *kind =
            json_pack("{s:I, s:s}", "n", (json_int_t)t->n[i], "first", t->first[i]);
        if (json_object_set_new(o, load_outcome_names[i], kind)) {
            json_decref(o);
            o = NULL;
        }
    }
    return o;
}

static json_t *load_json(const bench_serve_opts *o)
{
    return json_pack("{s:s, s:o, s:I, s:f, s:I, s:f, s:s, s:s, s:I, s:I, s:f, s:b}", "api",
                     o->completions ? "completions" : "chat", "url",
                     report_json_text(o->url, strlen(o->url)), "users",
                     (json_int_t)o->users, "rate", o->rate, "requests",
                     (json_int_t)o->n_requests, "seconds", o->seconds, "input", o->input,
                     "output", o->output, "shared", (json_int_t)o->shared, "seed",
                     (json_int_t)o->seed, "temp", o->temp, "ignore_eos", o->ignore_eos);
}

static json_t *outcome_json(const outcome *r)
{
    const load_totals *t = r->t;
    return json_pack(
        "{s:o, s:I, s:I, s:o, s:f, s:I, s:f, s:I, s:b, s:I, s:I, s:f, s:f, s:o, s:o, s:o}",
        "load", load_json(r->o), "requests", (json_int_t)r->n_requests, "ok",
        (json_int_t)t->n[LOAD_OK], "errors", errors_json(t), "wall_s", r->wall_s,
        "most_open", (json_int_t)t->most_open, "request_s", r->request_s, "tokens",
        (json_int_t)t->tokens, "tokens_are_events", t->counts_by_event, "prompt_tokens",
        (json_int_t)t->prompt_tokens, "cached_tokens", (json_int_t)t->cached_tokens, "tps",
        r->tps, "prompt_tps", r->prompt_tps, "ttft_ms", spread_json(&r->ttft), "itl_ms",
        spread_json(&r->gaps), "e2e_ms", spread_json(&r->whole));
}

/* ---- the run ---------------------------------------------------------------------------
 */

/* The first line of the file that is no comment. */
static int read_key(char *key, const char *path)
{
    FILE *file = fopen(path, "r");
    if (!file)
        return report_fail("bench: cannot open %s", path);
    *key = 0;
    while (!*key && fgets(key, LONGEST_KEY, file)) {
        key[strcspn(key, "\r\n")] = 0;
        if (*key == '#')
            *key = 0;
    }
    fclose(file);
    for (const char *p = key; *p; p++)
        if (*p <= 32 || *p > 126)
            return report_fail("bench: %s: the key has a byte that no key has", path);
    return *key ? EXIT_OK : report_fail("bench: %s: no key", path);
}

static int make_plan(load_plan *p, const bench_serve_opts *o)
{
    *p = (load_plan){.completions = o->completions,
                     .model = o->model,
                     .shared = o->shared,
                     .rate = o->rate,
                     .temp = o->temp,
                     .ignore_eos = o->ignore_eos,
                     .seed = (uint64_t)o->seed};
    if (!load_length_read(&p->input, o->input))
        return report_usage("bench: --input is '%s', wanted is N or N-M, of 1 to %d",
                            o->input, LOAD_LONGEST);
    if (!load_length_read(&p->output, o->output))
        return report_usage("bench: --output is '%s', wanted is N or N-M, of 1 to %d",
                            o->output, LOAD_LONGEST);
    return EXIT_OK;
}

static int tell_outcome(report *out, const bench_serve_opts *o, load_totals *t, bool csv,
                        bool json)
{
    const outcome r = outcome_of(o, t);
    int code = EXIT_OK;
    if (json)
        code = report_json(out, outcome_json(&r));
    else if (csv)
        tell_csv(out, &r);
    else
        tell(out, &r);
    for (int i = LOAD_OK + 1; i < LOAD_N_OUTCOMES && code == EXIT_OK; i++)
        if (t->n[i] && !t->n[LOAD_OK])
            code = report_fail("bench: no request ended well (%s: %s)",
                               load_outcome_names[i], t->first[i]);
    return code;
}

int bench_serve_run(report *out, const bench_serve_opts *asked, bool csv, bool json)
{
    bench_serve_opts o = *asked;
    if (!o.users)
        o.users = o.rate > 0 ? LOAD_MOST_OPEN : DEFAULT_USERS;
    if (!o.n_requests && o.seconds <= 0)
        o.n_requests = 100;
    load_plan plan;
    load_server server;
    load_totals totals;
    char key[LONGEST_KEY] = "", message[256];
    int code = make_plan(&plan, &o);
    if (code == EXIT_OK && o.key_file)
        code = read_key(key, o.key_file);
    if (code != EXIT_OK)
        return code;
    code = load_server_find(&server, o.url,
                            o.completions ? "/v1/completions" : "/v1/chat/completions",
                            message, sizeof message);
    if (code != EXIT_OK)
        return code == EXIT_USAGE ? report_usage("bench: %s", message)
                                  : report_fail("bench: %s", message);
    const load_opts opts = {.server = &server,
                            .key = *key ? key : NULL,
                            .users = o.users,
                            .n_requests = o.n_requests,
                            .seconds = o.seconds,
                            .timeout_s = o.timeout_s,
                            .arrivals = o.rate > 0,
                            .plan = &plan,
                            .gap_s = load_plan_gap_s,
                            .body = load_plan_body};
    code = load_run(&totals, &opts)
               ? tell_outcome(out, &o, &totals, csv, json)
               : report_fail("bench: out of memory or of file descriptors");
    load_totals_fini(&totals);
    return code;
}
