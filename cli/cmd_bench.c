/* ingot bench: tokens a second beside what this machine allows.
 *
 * Every run of a test stands beside a measurement of the machine, because the machine
 * moves; the best measurement is the limit. The limits:
 *
 *   decode   a step reads all weights once and, of each of B sequences, its keys and
 *            values: (step_bytes + B * S * kv_bytes) / read_bytes_s seconds; and it cannot
 *            take less than its operations at their peaks. The larger of both counts.
 *   prompt   operations of the weights / their peak + operations of attention / theirs.
 *
 * The peak of the weights' products is int8 for quantised weights, bf16 for F16 and BF16,
 * FMA for F32 and --exact; of attention bf16, FMA with --exact. Where the machine has no
 * such unit, FMA. With a sliding window the window stands for every layer, so that the
 * limit is never too low.
 */
#include "verbs.h"

#include "bench_serve.h"
#include "load_client.h"
#include "load_plan.h"
#include "session.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct bench_opts {
    args_ints prompt, decode, depth, batch, threads;
    int64_t repeat;
    const char *isa;
    int kv;
    bool exact, csv, json;
    bench_serve_opts serve;
} bench_opts;

#define AT(field) offsetof(bench_opts, field)
static const args_option options[] = {
    {"--prompt", 0, ARGS_INTS, AT(prompt), "N,...", "tokens", 0, 1 << 20, NULL},
    {"--decode", 0, ARGS_INTS, AT(decode), "N,...", "steps", 0, 1 << 20, NULL},
    {"--depth", 0, ARGS_INTS, AT(depth), "N,...", "before", 0, 1 << 20, NULL},
    {"--batch", 0, ARGS_INTS, AT(batch), "N,...", "at once", 1, 256, NULL},
    {"--threads", 't', ARGS_INTS, AT(threads), "N,...", "0: all", 0, 64, NULL},
    {"--repeat", 0, ARGS_INT, AT(repeat), "N", "runs", 1, 1000, NULL},
    {"--kv-type", 0, ARGS_CHOICE, AT(kv), "f16|f32|q8_0", "", 0, 0, NULL},
    {"--exact", 0, ARGS_FLAG, AT(exact), NULL, "float32 inside", 0, 0, ""},
    {"--isa", 0, ARGS_TEXT, AT(isa), "NAME", "", 0, 0, "the best"},
    {"--csv", 0, ARGS_FLAG, AT(csv), NULL, "lines", 0, 0, ""},
    {"--json", 0, ARGS_FLAG, AT(json), NULL, "one object", 0, 0, ""},
    {"--serve", 0, ARGS_TEXT, AT(serve.url), "URL", "load there", 0, 0, ""},
    {"--users", 0, ARGS_INT, AT(serve.users), "N", "at once", 0, LOAD_MOST_OPEN, "8"},
    {"--rate", 0, ARGS_REAL, AT(serve.rate), "X", "a second", 0, 1e6, ""},
    {"--requests", 0, ARGS_INT, AT(serve.n_requests), "N", "", 0, 1e9, "100"},
    {"--seconds", 0, ARGS_REAL, AT(serve.seconds), "X", "begin so long", 0, 1e6, ""},
    {"--input", 0, ARGS_TEXT, AT(serve.input), "N[-M]", "words", 0, 0, "128"},
    {"--output", 0, ARGS_TEXT, AT(serve.output), "N[-M]", "tokens", 0, 0, "128"},
    {"--shared", 0, ARGS_INT, AT(serve.shared), "N", "in common", 0, LOAD_LONGEST, NULL},
    {"--completions", 0, ARGS_FLAG, AT(serve.completions), NULL, "no chats", 0, 0, ""},
    {"--ignore-eos", 0, ARGS_FLAG, AT(serve.ignore_eos), NULL, "whole --output", 0, 0, ""},
    {"--temp", 0, ARGS_REAL, AT(serve.temp), "X", "", 0, 100, NULL},
    {"--seed", 0, ARGS_INT, AT(serve.seed), "N", "", 0, 1e15, NULL},
    {"--model", 0, ARGS_TEXT, AT(serve.model), "NAME", "to ask for", 0, 0, "any"},
    {"--api-key-file", 0, ARGS_TEXT, AT(serve.key_file), "FILE", "", 0, 0, "no key"},
    {"--timeout", 0, ARGS_REAL, AT(serve.timeout_s), "S", "a request", 0.001, 1e6, NULL},
};

static void defaults(void *at)
{
    bench_opts *o = at;
    o->prompt = (args_ints){{512}, 1};
    o->decode = (args_ints){{128}, 1};
    o->depth = (args_ints){{0}, 1};
    o->batch = (args_ints){{1}, 1};
    o->threads = (args_ints){{0}, 1};
    o->repeat = 5;
    bench_serve_defaults(&o->serve);
}

enum { MAX_BATCH = 256, MAX_FEED = 512 };

static const double machine_seconds = 0.15; /* of one measurement; there are many */

typedef struct result {
    bool decode;
    int64_t n, depth, batch;
    int threads;
    double tps, tps_stddev;
    double limit_tps;
    const char *limit_by; /* "memory", "int8", "bf16", "f32" */
} result;

typedef struct bench {
    const bench_opts *o;
    ig_context *ctx;
    ig_model *model;
    ig_machine machine; /* the best seen of this team */
    int64_t looked_ns;  /* when it was last looked at; 0: not yet */
    uint64_t random;
    result *results; /* [n_results] */
    int64_t n_results, cap_results;
    json_t *model_json;
    /* of the test that runs */
    ig_sequence *seqs[MAX_BATCH];
    ig_step_part parts[MAX_BATCH];
    int32_t tokens[MAX_FEED];
} bench;

/* ---- limits ----------------------------------------------------------------------------
 */

typedef struct peaks {
    double weights, attention;
    const char *weights_by, *attention_by;
} peaks;

static peaks peaks_of(const ig_machine *m, const ig_model_info *info)
{
    const bool wide = info->weight_dtype == IG_DTYPE_F32 || info->exact;
    const bool half =
        info->weight_dtype == IG_DTYPE_F16 || info->weight_dtype == IG_DTYPE_BF16;
    peaks p = {m->f32_ops_s, m->f32_ops_s, "f32", "f32"};
    if (!wide && half && m->bf16_ops_s > 0) {
        p.weights = m->bf16_ops_s;
        p.weights_by = "bf16";
    } else if (!wide && !half && m->int8_ops_s > 0) {
        p.weights = m->int8_ops_s;
        p.weights_by = "int8";
    }
    if (!info->exact && m->bf16_ops_s > 0) {
        p.attention = m->bf16_ops_s;
        p.attention_by = "bf16";
    }
    return p;
}

/* Positions that n tokens behind `depth` others look at, together. */
static double positions(const ig_model_info *info, int64_t depth, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        const int64_t seen = depth + i + 1;
        sum += (double)(info->window && seen > info->window ? info->window : seen);
    }
    return sum;
}

/* Scores and sums: 2 * 2 operations a position, head and element of a head. */
static double attention_ops(const ig_model_info *info, double n_positions)
{
    return 4.0 * (double)info->n_layers * (double)info->n_heads * (double)info->head_width *
           n_positions;
}

static void set_limit(result *r, const bench *b, double kv_bytes)
{
    const ig_model_info info = ig_model_get_info(b->model);
    const peaks p = peaks_of(&b->machine, &info);
    const double n_tokens = (double)(r->n * r->batch);
    const double seen = positions(&info, r->depth, r->n) * (double)r->batch;
    const double n_heads = r->decode ? n_tokens : 1;
    const double compute_s =
        (n_tokens * info.token_ops + n_heads * info.head_ops) / p.weights +
        attention_ops(&info, seen) / p.attention;
    const double memory_s =
        r->decode ? ((double)r->n * (double)info.step_bytes + seen * kv_bytes) /
                        b->machine.read_bytes_s
                  : 0;
    r->limit_by = memory_s > compute_s ? "memory" : p.weights_by;
    r->limit_tps = n_tokens / fmax(memory_s, compute_s);
}

/* ---- runs ------------------------------------------------------------------------------
 */

static double least_above_0(double a, double b)
{
    return a > 0 && (a < b || b <= 0) ? a : b;
}

/* A look costs as much as a run: one stands for all runs of the next second. */
static int look_at_machine(bench *b)
{
    if (b->looked_ns && report_now_ns() - b->looked_ns < 1000000000)
        return EXIT_OK;
    ig_error err;
    ig_machine m;
    if (ig_machine_measure(&m, b->ctx, machine_seconds, NULL, &err) != IG_OK)
        return report_error("bench", &err);
    b->looked_ns = report_now_ns();
    b->machine.read_bytes_s = fmax(b->machine.read_bytes_s, m.read_bytes_s);
    b->machine.int8_ops_s = fmax(b->machine.int8_ops_s, m.int8_ops_s);
    b->machine.bf16_ops_s = fmax(b->machine.bf16_ops_s, m.bf16_ops_s);
    b->machine.f32_ops_s = fmax(b->machine.f32_ops_s, m.f32_ops_s);
    b->machine.barrier_ns = least_above_0(b->machine.barrier_ns, m.barrier_ns);
    return EXIT_OK;
}

/* A token that is no control token. xorshift64: any tokens do. */
static int32_t some_token(bench *b)
{
    const ig_tokenizer *tokenizer = ig_model_tokenizer(b->model);
    const uint64_t vocab = (uint64_t)ig_tokenizer_vocab(tokenizer);
    for (int tries = 0;; tries++) {
        b->random ^= b->random << 13;
        b->random ^= b->random >> 7;
        b->random ^= b->random << 17;
        const int32_t id = (int32_t)(b->random % vocab);
        if (tries == 100 || !ig_token_is_control(tokenizer, id))
            return id;
    }
}

/* Feed n tokens to one sequence in the largest steps that the runner takes. */
static ig_status feed(bench *b, ig_runner *runner, ig_sequence *seq, int64_t n,
                      ig_error *err)
{
    const int64_t most = ig_runner_max_tokens(runner);
    for (int64_t done = 0; done < n;) {
        int64_t now = n - done;
        now = now < most ? now : most;
        now = now < MAX_FEED ? now : MAX_FEED;
        for (int64_t i = 0; i < now; i++)
            b->tokens[i] = some_token(b);
        done += now;
        const ig_step_part part = {seq, b->tokens, now, done == n};
        const ig_status status = ig_runner_step(runner, &part, 1, NULL, err);
        if (status != IG_OK)
            return status;
    }
    return IG_OK;
}

/* n steps of one token for each of `batch` sequences. */
static ig_status decode(bench *b, ig_runner *runner, const result *r, ig_error *err)
{
    for (int64_t i = 0; i < r->n; i++) {
        for (int64_t j = 0; j < r->batch; j++) {
            b->tokens[j] = some_token(b);
            b->parts[j] = (ig_step_part){b->seqs[j], &b->tokens[j], 1, 1};
        }
        const ig_status status = ig_runner_step(runner, b->parts, r->batch, NULL, err);
        if (status != IG_OK)
            return status;
    }
    return IG_OK;
}

static void statistics(result *r, const double *tps, int64_t n)
{
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < n; i++)
        sum += tps[i];
    r->tps = sum / (double)n;
    for (int64_t i = 0; i < n; i++)
        squares += (tps[i] - r->tps) * (tps[i] - r->tps);
    r->tps_stddev = n > 1 ? sqrt(squares / (double)(n - 1)) : 0;
}

/* The repetitions of one test, the first of all a warm-up that is not counted. */
static int repeat_test(bench *b, result *r, ig_runner *runner)
{
    ig_error err;
    double *tps = calloc((size_t)b->o->repeat, sizeof *tps);
    if (!tps)
        return report_fail("bench: out of memory");
    int code = EXIT_OK;
    for (int64_t i = -1; i < b->o->repeat && code == EXIT_OK; i++) {
        for (int64_t j = 0; j < r->batch; j++)
            ig_sequence_cut(b->seqs[j], r->depth);
        if (i >= 0)
            code = look_at_machine(b);
        if (code != EXIT_OK)
            break;
        const int64_t start = report_now_ns();
        const ig_status status = r->decode ? decode(b, runner, r, &err)
                                           : feed(b, runner, b->seqs[0], r->n, &err);
        const double seconds = (double)(report_now_ns() - start) / 1e9;
        if (status != IG_OK)
            code = report_error("bench", &err);
        if (i >= 0)
            tps[i] = (double)(r->n * r->batch) / seconds;
    }
    statistics(r, tps, b->o->repeat);
    free(tps);
    return code;
}

static int keep_result(bench *b, const result *r)
{
    if (b->n_results == b->cap_results) {
        const int64_t cap = b->cap_results * 2 + 16;
        result *results = realloc(b->results, (size_t)cap * sizeof *results);
        if (!results)
            return report_fail("bench: out of memory");
        b->results = results;
        b->cap_results = cap;
    }
    b->results[b->n_results++] = *r;
    return EXIT_OK;
}

static int run_test(bench *b, result r)
{
    ig_error err;
    ig_runner *runner = NULL;
    const int64_t tokens = (r.depth + r.n + 15) / 16 * 16;
    const ig_runner_opts opts = {.context = tokens,
                                 .pool_tokens = tokens * r.batch,
                                 .max_sequences = r.batch,
                                 .max_logits = r.batch,
                                 .kv = b->o->exact ? IG_KV_F32 : (ig_kv_type)b->o->kv};
    ig_status status = ig_runner_create(&runner, b->model, &opts, &err);
    for (int64_t j = 0; status == IG_OK && j < r.batch; j++) {
        status = ig_sequence_create(&b->seqs[j], runner, &err);
        /* each sequence has tokens of its own: shared pages would be read once for all */
        if (status == IG_OK)
            status = feed(b, runner, b->seqs[j], r.depth, &err);
    }
    int code = status == IG_OK ? EXIT_OK : report_error("bench", &err);
    r.threads = ig_context_threads(b->ctx);
    if (code == EXIT_OK)
        code = repeat_test(b, &r, runner);
    if (code == EXIT_OK)
        set_limit(&r, b, (double)ig_runner_kv_bytes_a_token(runner));
    if (code == EXIT_OK)
        code = keep_result(b, &r);
    for (int64_t j = 0; j < r.batch; j++) {
        ig_sequence_destroy(b->seqs[j]);
        b->seqs[j] = NULL;
    }
    ig_runner_destroy(runner);
    return code;
}

static int run_depth(bench *b, int64_t depth)
{
    const bench_opts *o = b->o;
    int code = EXIT_OK;
    for (int64_t i = 0; i < o->prompt.n && code == EXIT_OK; i++)
        if (o->prompt.at[i])
            code = run_test(b, (result){.n = o->prompt.at[i], .depth = depth, .batch = 1});
    for (int64_t i = 0; i < o->decode.n && code == EXIT_OK; i++)
        for (int64_t j = 0; j < o->batch.n && code == EXIT_OK; j++)
            if (o->decode.at[i])
                code = run_test(b, (result){.decode = true,
                                            .n = o->decode.at[i],
                                            .depth = depth,
                                            .batch = o->batch.at[j]});
    return code;
}

/* ---- tables ----------------------------------------------------------------------------
 */

static json_t *machine_json(const bench *b)
{
    const ig_machine *m = &b->machine;
    const ig_model_info info = ig_model_get_info(b->model);
    const peaks p = peaks_of(m, &info);
    return json_pack(
        "{s:i, s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:s, s:s}", "threads",
        ig_context_threads(b->ctx), "threads_reason", ig_context_threads_reason(b->ctx),
        "isa", ig_context_isa(b->ctx), "read_bytes_s", report_json_real(m->read_bytes_s),
        "int8_ops_s", report_json_real(m->int8_ops_s), "bf16_ops_s",
        report_json_real(m->bf16_ops_s), "f32_ops_s", report_json_real(m->f32_ops_s),
        "barrier_ns", report_json_real(m->barrier_ns), "weights_peak", p.weights_by,
        "attention_peak", p.attention_by);
}

static json_t *model_json(const bench *b, const char *path)
{
    const ig_model_info i = ig_model_get_info(b->model);
    return json_pack("{s:o, s:o, s:s, s:b, s:I, s:I, s:I, s:f, s:f}", "file",
                     report_json_text(path, strlen(path)), "name",
                     report_json_text(i.name, strlen(i.name)), "weight_type",
                     ig_dtype_name(i.weight_dtype), "exact", i.exact, "n_parameters",
                     (json_int_t)i.n_parameters, "packed_bytes", (json_int_t)i.packed_bytes,
                     "step_bytes", (json_int_t)i.step_bytes, "token_ops", i.token_ops,
                     "head_ops", i.head_ops);
}

static json_t *result_json(const result *r)
{
    return json_pack("{s:s, s:I, s:I, s:I, s:i, s:o, s:o, s:o, s:s, s:o}", "test",
                     r->decode ? "decode" : "prompt", "n", (json_int_t)r->n, "depth",
                     (json_int_t)r->depth, "batch", (json_int_t)r->batch, "threads",
                     r->threads, "tps", report_json_real(r->tps), "tps_stddev",
                     report_json_real(r->tps_stddev), "limit_tps",
                     report_json_real(r->limit_tps), "limit_by", r->limit_by, "share",
                     report_json_real(r->tps / r->limit_tps));
}

/* What a team's table begins with. */
static void tell_machine(report *out, const bench *b, const char *path)
{
    const ig_machine *m = &b->machine;
    const ig_model_info i = ig_model_get_info(b->model);
    const peaks p = peaks_of(m, &i);
    char name[256];
    report_print(out,
                 "model    %s, %s, %.1f M parameters, %.1f MB and %.3f Gop a token%s\n",
                 report_clean(name, sizeof name, *i.name ? i.name : path),
                 ig_dtype_name(i.weight_dtype), (double)i.n_parameters / 1e6,
                 (double)i.step_bytes / 1e6, (i.token_ops + i.head_ops) / 1e9,
                 i.exact ? ", exact" : "");
    report_print(out, "machine  %d threads (%s), %s, barrier %.0f ns\n",
                 ig_context_threads(b->ctx), ig_context_threads_reason(b->ctx),
                 ig_context_isa(b->ctx), m->barrier_ns);
    report_print(out,
                 "limits   read %.1f GB/s, int8 %.0f, bf16 %.0f, f32 %.0f Gop/s; weights "
                 "%s, attention %s\n\n",
                 m->read_bytes_s / 1e9, m->int8_ops_s / 1e9, m->bf16_ops_s / 1e9,
                 m->f32_ops_s / 1e9, p.weights_by, p.attention_by);
    report_print(out, "%-7s %6s %6s %5s %7s %10s %8s %10s %-6s %6s\n", "test", "n", "depth",
                 "batch", "threads", "tokens/s", "+-", "limit", "by", "share");
}

static void tell_result(report *out, const result *r, bool csv)
{
    report_print(out,
                 csv ? "%s,%lld,%lld,%lld,%d,%.3f,%.3f,%.3f,%s,%.4f\n"
                     : "%-7s %6lld %6lld %5lld %7d %10.1f %8.1f %10.1f %-6s %6.3f\n",
                 r->decode ? "decode" : "prompt", (long long)r->n, (long long)r->depth,
                 (long long)r->batch, r->threads, r->tps, r->tps_stddev, r->limit_tps,
                 r->limit_by, r->tps / r->limit_tps);
}

/* One team: its own context and copy of the model. */
static int run_team(report *out, bench *b, const char *path, int64_t threads,
                    json_t **machine)
{
    ig_error err;
    const ig_model_opts opts = {.exact = b->o->exact};
    const int64_t n_before = b->n_results;
    b->machine = (ig_machine){0};
    b->looked_ns = 0;
    int code = session_context(&b->ctx, "bench", threads, b->o->isa);
    if (code == EXIT_OK && ig_model_open(&b->model, b->ctx, path, &opts, &err) != IG_OK)
        code = report_error("bench", &err);
    for (int64_t i = 0; i < b->o->depth.n && code == EXIT_OK; i++)
        code = run_depth(b, b->o->depth.at[i]);
    if (code == EXIT_OK && b->o->json) {
        json_decref(*machine);
        json_decref(b->model_json);
        *machine = machine_json(b);
        b->model_json = model_json(b, path);
    } else if (code == EXIT_OK && !b->o->csv) {
        tell_machine(out, b, path);
    }
    for (int64_t i = n_before; i < b->n_results && code == EXIT_OK && !b->o->json; i++)
        tell_result(out, &b->results[i], b->o->csv);
    report_flush(out);
    ig_model_close(b->model);
    ig_context_destroy(b->ctx);
    b->model = NULL;
    b->ctx = NULL;
    return code;
}

/* A share above 1 is no speed, but a limit that was measured while others used the machine. */
static void warn_of_shares(const bench *b)
{
    int64_t n_above = 0;
    for (int64_t i = 0; i < b->n_results; i++)
        n_above += b->results[i].tps > b->results[i].limit_tps;
    if (n_above)
        report_note("bench: %lld share%s above 1: the limits were measured too low, on a "
                    "machine with other work; measure again",
                    (long long)n_above, n_above == 1 ? "" : "s");
}

static json_t *results_json(const bench *b)
{
    json_t *list = json_array();
    for (int64_t i = 0; list && i < b->n_results; i++) {
        if (json_array_append_new(list, result_json(&b->results[i]))) {
            json_decref(list);
            list = NULL;
        }
    }
    return list;
}

static bool any(const args_ints *list)
{
    for (int64_t i = 0; i < list->n; i++)
        if (list->at[i])
            return true;
    return false;
}

static int run(report *out, const void *opts, const char *const *operands, int n_operands)
{
    const bench_opts *o = opts;
    if (o->csv && o->json)
        return report_usage("bench: --csv and --json exclude each other");
    bench_opts plain = {0};
    defaults(&plain);
    if (!o->serve.url && memcmp(&plain.serve, &o->serve, sizeof plain.serve) != 0)
        return report_usage("bench: %s",
                            o->serve.model && !n_operands
                                ? "the model stands alone, ingot bench MODEL; --model goes "
                                  "with --serve URL"
                                : "options of a load go with --serve URL");
    if (!n_operands && !o->serve.url)
        return report_usage("bench: MODEL is missing: ingot bench MODEL");
    if (n_operands && o->serve.url)
        return report_usage("bench: --serve measures a server, not '%s'", operands[0]);
    if (!o->serve.url && !any(&o->prompt) && !any(&o->decode))
        return report_usage("bench: --prompt and --decode are all 0: nothing to measure");
    if (o->serve.url)
        return bench_serve_run(out, &o->serve, o->csv, o->json);
    bench *b = calloc(1, sizeof *b);
    if (!b)
        return report_fail("bench: out of memory");
    b->o = o;
    b->random = 88172645463325252u;
    json_t *machine = NULL;
    int code = EXIT_OK;
    if (o->csv)
        report_print(out, "test,n,depth,batch,threads,tps,tps_stddev,limit_tps,limit_by,"
                          "share\n");
    for (int64_t i = 0; i < o->threads.n && code == EXIT_OK; i++)
        code = run_team(out, b, operands[0], o->threads.at[i], &machine);
    if (code == EXIT_OK && o->json)
        code = report_json(out, json_pack("{s:o, s:O, s:O}", "results", results_json(b),
                                          "machine", machine, "model", b->model_json));
    if (code == EXIT_OK && report_flush(out)) /* else the failure is the one line */
        warn_of_shares(b);
    json_decref(machine);
    json_decref(b->model_json);
    free(b->results);
    free(b);
    return code;
}

const args_verb verb_bench = {
    "bench",
    "MODEL",
    "Measure tokens a second beside what this machine allows.\n"
    "The limits are set by memory bandwidth and dot-product peaks, measured in the\n"
    "same run. Lists: every combination runs.\n"
    "With --serve URL in place of MODEL: load on a server, and what its users felt.",
    0,
    1,
    options,
    sizeof options / sizeof *options,
    sizeof(bench_opts),
    defaults,
    run};
