/* Metrics as text. Names and labels are vLLM's where it has them, so that its boards work with
 * another prefix.
 *
 * Bandwidth and operations are the engine's: bytes of weights read and operations of weight
 * products over the time of the steps, by phase. The share is of the limit that bounds the
 * phase: reading for decode, arithmetic for prompts.
 */
#include "serve/metrics.h"

#include "serve/json_write.h"

#include <string.h>

typedef enum scale { SECONDS, TOKEN_SECONDS, TOKENS, SAMPLES } scale;

static const double seconds[] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
                                 0.25,  0.5,    0.75,  1,    2.5,   5,    7.5,
                                 10,    20,     40,    80,   160};
static const double token_seconds[] = {0.001, 0.0025, 0.005, 0.0075, 0.01, 0.025, 0.05,
                                       0.075, 0.1,    0.15,  0.2,    0.3,  0.4,   0.5,
                                       0.75,  1,      2.5,   5,      10};
static const double tokens[] = {1,   2,    5,    10,   20,    50,    100,   200,
                                500, 1000, 2000, 5000, 10000, 20000, 50000, 100000};
static const double samples[] = {1, 2, 5, 10, 20};

static const struct {
    const double *bounds; /* [n] */
    int n;
} scales[] = {
    [SECONDS] = {seconds, sizeof seconds / sizeof *seconds},
    [TOKEN_SECONDS] = {token_seconds, sizeof token_seconds / sizeof *token_seconds},
    [TOKENS] = {tokens, sizeof tokens / sizeof *tokens},
    [SAMPLES] = {samples, sizeof samples / sizeof *samples},
};

static const struct {
    const char *name, *help;
    scale scale;
} histograms[IG_HISTOGRAM_COUNT] = {
#define IG_HISTOGRAM_ROW(field, name, scale, help) {name, help, scale},
    IG_HISTOGRAM_MAP(IG_HISTOGRAM_ROW)
#undef IG_HISTOGRAM_ROW
};

void ig__metrics_observe(ig__metrics *m, ig__histogram_name name, double x)
{
    ig__histogram *h = &m->histograms[name];
    const scale s = histograms[name].scale;
    int i = 0;
    while (i < scales[s].n && x > scales[s].bounds[i])
        i++;
    h->counts[i]++;
    h->sum += x;
    h->n++;
}

/* ---- writing ---- */

typedef struct writing {
    ig__buffer *b;
    const char *model;
} writing;

static void head(const writing *w, const char *name, const char *type, const char *help)
{
    ig__buffer_printf(w->b, "# HELP ingot:%s %s\n# TYPE ingot:%s %s\n", name, help, name,
                      type);
}

/* A label's value: backslash, quote and newline are escaped. */
static void label_value(ig__buffer *b, const char *text)
{
    for (; *text; text++) {
        if (*text == '\n') {
            ig__buffer_append_text(b, "\\n");
            continue;
        }
        if (*text == '\\' || *text == '"')
            ig__buffer_append_char(b, '\\');
        ig__buffer_append_char(b, *text);
    }
}

/* ingot:name{model_name="...",label} x */
static void line(const writing *w, const char *name, const char *label, const char *value,
                 double x)
{
    ig__buffer_printf(w->b, "ingot:%s{model_name=\"", name);
    label_value(w->b, w->model);
    ig__buffer_append_char(w->b, '"');
    if (label)
        ig__buffer_printf(w->b, ",%s=\"%s\"", label, value);
    ig__buffer_printf(w->b, "} %.12g\n", x);
}

static void single(const writing *w, const char *name, const char *type, const char *help,
                   double x)
{
    head(w, name, type, help);
    line(w, name, NULL, NULL, x);
}

static void gauge(const writing *w, const char *name, const char *help, double x)
{
    single(w, name, "gauge", help, x);
}

static void counter(const writing *w, const char *name, const char *help, double x)
{
    single(w, name, "counter", help, x);
}

static void write_histogram(const writing *w, int i, const ig__histogram *h)
{
    const scale s = histograms[i].scale;
    ig__buffer name = ig__buffer_init(w->b->a), bound = ig__buffer_init(w->b->a);
    head(w, histograms[i].name, "histogram", histograms[i].help);
    ig__buffer_printf(&name, "%s_bucket", histograms[i].name);
    int64_t n = 0;
    for (int j = 0; j <= scales[s].n && !name.failed; j++) {
        n += h->counts[j];
        bound.n = 0;
        if (j < scales[s].n)
            ig__buffer_printf(&bound, "%g", scales[s].bounds[j]);
        else
            ig__buffer_append_text(&bound, "+Inf");
        if (!bound.failed)
            line(w, name.data, "le", bound.data, (double)n);
    }
    if (name.failed || bound.failed) {
        w->b->failed = true;
    } else {
        name.n = 0;
        ig__buffer_printf(&name, "%s_sum", histograms[i].name);
        line(w, name.data, NULL, NULL, h->sum);
        name.n = 0;
        ig__buffer_printf(&name, "%s_count", histograms[i].name);
        line(w, name.data, NULL, NULL, (double)h->n);
    }
    ig__buffer_fini(&name);
    ig__buffer_fini(&bound);
}

static double ratio(double a, double b)
{
    return b > 0 ? a / b : 0;
}

static void write_state(const writing *w, const ig__metrics_view *v)
{
    const ig_engine_stats *s = &v->stats;
    gauge(w, "num_requests_running", "Answers that are being written.",
          (double)s->n_running);
    gauge(w, "num_requests_waiting", "Answers that wait for their start.",
          (double)s->n_waiting);
    gauge(w, "kv_cache_usage_perc", "Pages in use, 1 is all.",
          ratio((double)s->n_pages_used, (double)s->n_pages));
    gauge(w, "kv_pages", "Pages of the KV cache.", (double)s->n_pages);
    gauge(w, "kv_pages_used", "Pages that running answers use.", (double)s->n_pages_used);
    gauge(w, "kv_pages_cached", "Pages kept for later requests, used by none.",
          (double)s->n_pages_cached);
    gauge(w, "kv_page_bytes", "Bytes of a page.", (double)s->page_bytes);
    gauge(w, "kv_page_tokens", "Tokens that a page holds.", (double)s->page_tokens);
    gauge(w, "connections", "Open connections.", (double)v->n_connections);
    gauge(w, "step_rows", "Rows of the last step.", (double)s->last_step_rows);
    gauge(w, "step_seconds", "Time of the last step.", (double)s->last_step_ns / 1e9);
    gauge(w, "step_budget_rows", "Rows that the next step may have.", (double)s->budget);
}

static void write_engine(const writing *w, const ig__metrics *m, const ig__metrics_view *v)
{
    const ig_engine_stats *s = &v->stats;
    counter(w, "prefix_cache_queries_total", "Prompt tokens looked up.",
            (double)s->prefix_queries);
    counter(w, "prefix_cache_hits_total", "Prompt tokens found.", (double)s->prefix_hits);
    counter(w, "prefix_cache_evicted_total", "Pages that gave way.",
            (double)s->n_prefix_evicted);
    counter(w, "num_preemptions_total", "Answers whose pages were taken away.",
            (double)s->n_preempted);
    counter(w, "requests_cancelled_total", "Requests whose client left.",
            (double)m->n_cancelled);
    counter(w, "requests_rejected_total", "Requests that the full queue refused.",
            (double)m->n_rejected);
    counter(w, "requests_refused_total", "Requests with something wrong.",
            (double)m->n_refused);
    counter(w, "http_requests_total", "HTTP requests of all kinds.", (double)m->n_requests);
    counter(w, "prompt_tokens_total", "Tokens of prompts.", (double)m->n_prompt_tokens);
    counter(w, "prompt_tokens_cached_total", "Of these, not computed.",
            (double)m->n_cached_tokens);
    counter(w, "generation_tokens_total", "Tokens generated.",
            (double)m->n_generated_tokens);
    counter(w, "steps_total", "Steps of the engine.", (double)s->n_steps);
    counter(w, "steps_abandoned_total", "Steps given up for a client that left.",
            (double)s->n_abandoned);
}

static double weights_peak(const ig__metrics_view *v)
{
    switch (v->info.weight_dtype) {
    case IG_DTYPE_F32:
        return v->limits->f32_ops_s;
    case IG_DTYPE_F16:
    case IG_DTYPE_BF16:
        return v->limits->bf16_ops_s > 0 ? v->limits->bf16_ops_s : v->limits->f32_ops_s;
    default:
        return v->info.exact ? v->limits->f32_ops_s : v->limits->int8_ops_s;
    }
}

static void phases(const writing *w, const char *name, const char *type, const char *help,
                   double prompt, double decode)
{
    head(w, name, type, help);
    line(w, name, "phase", "prompt", prompt);
    line(w, name, "phase", "decode", decode);
}

static void write_speed(const writing *w, const ig__metrics_view *v)
{
    const ig_engine_stats *s = &v->stats;
    const double prompt_s = (double)s->prompt_ns / 1e9,
                 decode_s = (double)s->decode_ns / 1e9;
    const double read = ratio(s->decode_bytes, decode_s),
                 ops = ratio(s->prompt_ops, prompt_s);
    phases(w, "phase_seconds_total", "counter", "Time in steps of each phase.", prompt_s,
           decode_s);
    phases(w, "phase_rows_total", "counter", "Rows computed in each phase.",
           (double)s->prompt_tokens, (double)s->decode_tokens);
    phases(w, "phase_weight_bytes_total", "counter", "Bytes of weights read.",
           s->prompt_bytes, s->decode_bytes);
    phases(w, "phase_operations_total", "counter", "Operations of weight products.",
           s->prompt_ops, s->decode_ops);
    phases(w, "achieved_gigabytes_per_second", "gauge",
           "Weights read, over the time of the phase's steps.",
           ratio(s->prompt_bytes, prompt_s) / 1e9, read / 1e9);
    phases(w, "achieved_gigaops_per_second", "gauge",
           "Weight products, over the time of the phase's steps.", ops / 1e9,
           ratio(s->decode_ops, decode_s) / 1e9);
    if (!v->limits)
        return;
    gauge(w, "limit_gigabytes_per_second", "This machine's reading, measured.",
          v->limits->read_bytes_s / 1e9);
    gauge(w, "limit_gigaops_per_second", "This machine's arithmetic for these weights.",
          weights_peak(v) / 1e9);
    phases(w, "limit_share", "gauge",
           "What of the limit that bounds the phase was reached.",
           ratio(ops, weights_peak(v)), ratio(read, v->limits->read_bytes_s));
}

void ig__metrics_write(ig__buffer *b, const ig__metrics *m, const ig__metrics_view *view)
{
    static const char *const outcomes[] = {"stop", "length", "abort", "error"};
    const writing w = {.b = b, .model = view->model};
    write_state(&w, view);
    write_engine(&w, m, view);
    head(&w, "request_success_total", "counter", "Answers by how they ended.");
    for (int i = 0; i < IG_OUTCOME_COUNT; i++)
        line(&w, "request_success_total", "finished_reason", outcomes[i],
             (double)m->n_outcomes[i]);
    write_speed(&w, view);
    for (int i = 0; i < IG_HISTOGRAM_COUNT; i++)
        write_histogram(&w, i, &m->histograms[i]);
}
