/* Opening a model for the verbs that run one, and reading the options of drawing. */
#include "session.h"

#include "input.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void draw_defaults(draw_opts *draw)
{
    const ig_sampler_opts o = ig_sampler_defaults();
    /* through the shortest decimal: 0.95f is 0.95 to the user */
    draw->temperature = round((double)o.temperature * 1e6) / 1e6;
    draw->top_p = round((double)o.top_p * 1e6) / 1e6;
    draw->min_p = round((double)o.min_p * 1e6) / 1e6;
    draw->typical = round((double)o.typical_p * 1e6) / 1e6;
    draw->repeat_penalty = round((double)o.repeat_penalty * 1e6) / 1e6;
    draw->presence_penalty = (double)o.presence_penalty;
    draw->frequency_penalty = (double)o.frequency_penalty;
    draw->top_k = o.top_k;
    draw->repeat_last_n = o.repeat_last_n;
    draw->seed = (int64_t)o.seed;
}

static void on_log(void *user, ig_log_level level, const char *line)
{
    (void)user;
    if (level == IG_LOG_WARN)
        report_note("%s", line);
}

static bool is_isa(const char *name)
{
    static const char *const names[] = {"ref", "avx2", "avx512", "amx"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(name, names[i]))
            return true;
    return false;
}

int session_context(ig_context **ctx_out, const char *verb, int64_t threads,
                    const char *isa)
{
    ig_error err;
    const ig_context_opts opts = {.n_threads = (int)threads, .isa = isa, .log = on_log};
    if (isa && !is_isa(isa))
        return report_usage("%s: --isa is '%s', wanted is one of ref|avx2|avx512|amx", verb,
                            isa);
    return ig_context_create(ctx_out, &opts, &err) == IG_OK ? EXIT_OK
                                                            : report_error(verb, &err);
}

int session_open(session *s, const char *verb, const char *path, const session_opts *opts)
{
    const int64_t start = report_now_ns();
    ig_error err;
    *s = (session){.verb = verb};
    const int code = session_context(&s->ctx, verb, opts->threads, opts->isa);
    if (code != EXIT_OK)
        return code;
    const ig_model_opts model_opts = {.exact = opts->exact};
    if (ig_model_open(&s->model, s->ctx, path, &model_opts, &err) != IG_OK)
        return report_error(verb, &err);
    const int64_t trained = ig_model_get_info(s->model).context;
    if (trained > 0 && opts->context > trained)
        report_note("%s: a context of %lld tokens; the model was trained for %lld", verb,
                    (long long)opts->context, (long long)trained);
    /* exact asks for float32 everywhere, and so for the cache */
    const ig_runner_opts runner_opts = {
        .context = opts->context, .kv = opts->exact ? IG_KV_F32 : (ig_kv_type)opts->kv};
    if (ig_runner_create(&s->runner, s->model, &runner_opts, &err) != IG_OK ||
        ig_sequence_create(&s->seq, s->runner, &err) != IG_OK)
        return report_error(verb, &err);
    s->load_ns = report_now_ns() - start;
    return EXIT_OK;
}

int session_template(session *s, const char *path)
{
    input file = {0};
    if (path) {
        const int code = input_read(&file, s->verb, path, INPUT_TEMPLATE_MOST);
        if (code != EXIT_OK) {
            input_free(&file);
            return code;
        }
    }
    const char *source = path ? file.text : ig_model_chat_template(s->model);
    const size_t n = path ? file.n : source ? strlen(source) : 0;
    int code = EXIT_OK;
    ig_error err;
    if (source && ig_template_create(&s->tmpl, s->ctx, source, n, &err) != IG_OK)
        code = report_error(s->verb, &err);
    input_free(&file);
    return code;
}

/* The token of "ID=BIAS" or "TOKEN=BIAS"; n bytes stand before the '='. */
static int bias_token(int32_t *id_out, const session *s, const char *text, size_t n)
{
    int64_t id;
    if (args_read_int(&id, text, n)) {
        if (id < 0 || id >= ig_tokenizer_vocab(ig_model_tokenizer(s->model)))
            return report_usage(
                "%s: --logit-bias names token %lld, the model has 0 to %lld", s->verb,
                (long long)id,
                (long long)ig_tokenizer_vocab(ig_model_tokenizer(s->model)) - 1);
        *id_out = (int32_t)id;
        return EXIT_OK;
    }
    ig_error err;
    ig_ids ids = {0};
    const ig_tokenizer *tokenizer = ig_model_tokenizer(s->model);
    if (ig_tokenize(&ids, tokenizer, text, n, NULL, &err) != IG_OK)
        return report_error(s->verb, &err);
    const int64_t n_ids = ids.n;
    if (n_ids == 1)
        *id_out = ids.ids[0];
    ig_ids_free(tokenizer, &ids);
    return n_ids == 1 ? EXIT_OK
                      : report_usage("%s: --logit-bias names '%.*s', which is %lld tokens",
                                     s->verb, (int)n, text, (long long)n_ids);
}

static int read_bias(ig_logit_bias *bias, const session *s, const char *text)
{
    const char *equals = strrchr(text, '=');
    double x = -HUGE_VAL;
    if (!equals || equals == text ||
        (strcmp(equals + 1, "-inf") != 0 && !args_read_real(&x, equals + 1)))
        return report_usage("%s: --logit-bias is '%s', wanted is ID=BIAS", s->verb, text);
    bias->bias = (float)x;
    return bias_token(&bias->id, s, text, (size_t)(equals - text));
}

int session_sampler(ig_sampler **sampler_out, const session *s, const draw_opts *draw,
                    int64_t i_draw)
{
    *sampler_out = NULL;
    ig_logit_bias *bias = calloc((size_t)draw->bias.n + 1, sizeof *bias);
    if (!bias)
        return report_fail("%s: out of memory", s->verb);
    int code = EXIT_OK;
    for (int64_t i = 0; i < draw->bias.n && code == EXIT_OK; i++)
        code = read_bias(&bias[i], s, draw->bias.at[i]);
    ig_sampler_opts o = ig_sampler_defaults();
    o.temperature = (float)draw->temperature;
    o.top_k = (int32_t)draw->top_k;
    o.top_p = (float)draw->top_p;
    o.min_p = (float)draw->min_p;
    o.typical_p = (float)draw->typical;
    o.repeat_penalty = (float)draw->repeat_penalty;
    o.repeat_last_n = (int32_t)draw->repeat_last_n;
    o.presence_penalty = (float)draw->presence_penalty;
    o.frequency_penalty = (float)draw->frequency_penalty;
    o.seed = (uint64_t)(draw->seed + i_draw);
    o.bias = bias;
    o.n_bias = draw->bias.n;
    ig_error err;
    if (code == EXIT_OK &&
        ig_sampler_create(sampler_out, s->ctx,
                          ig_tokenizer_vocab(ig_model_tokenizer(s->model)), &o,
                          &err) != IG_OK)
        code = report_error(s->verb, &err);
    free(bias);
    return code;
}

void session_close(session *s)
{
    ig_template_destroy(s->tmpl);
    ig_sequence_destroy(s->seq);
    ig_runner_destroy(s->runner);
    ig_model_close(s->model);
    ig_context_destroy(s->ctx);
    *s = (session){0};
}
