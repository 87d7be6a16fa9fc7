/* ingot perplexity: how well the model foresees a text. */
#include "verbs.h"

#include "input.h"
#include "session.h"

#include <math.h>

typedef struct perplexity_opts {
    const char *text, *file, *isa;
    int64_t context, tokens, threads;
    bool bos, exact, json;
    int kv;
} perplexity_opts;

#define AT(field) offsetof(perplexity_opts, field)
static const args_option options[] = {
    {"--file", 'f', ARGS_TEXT, AT(file), "FILE", "the text", 0, 0, "standard input"},
    {"--prompt", 'p', ARGS_TEXT, AT(text), "TEXT", "the text itself", 0, 0, ""},
    {"--ctx", 0, ARGS_INT, AT(context), "N", "tokens of a window", 2, 1 << 24, NULL},
    {"--tokens", 0, ARGS_INT, AT(tokens), "N", "only the first N; 0: all", 0, 1 << 30,
     NULL},
    {"--bos", 0, ARGS_FLAG, AT(bos), NULL, "each window begins with BOS", 0, 0, ""},
    {"--exact", 0, ARGS_FLAG, AT(exact), NULL, "activations and KV in float32", 0, 0, ""},
    {"--kv-type", 0, ARGS_CHOICE, AT(kv), "f16|f32|q8_0", "", 0, 0, NULL},
    {"--threads", 't', ARGS_INT, AT(threads), "N", "", 1, 64, "all cores"},
    {"--isa", 0, ARGS_TEXT, AT(isa), "NAME", "ref, avx2, avx512 or amx", 0, 0, "the best"},
    {"--json", 0, ARGS_FLAG, AT(json), NULL, "one object: tokens, mean_nll, perplexity", 0,
     0, ""},
};

static void defaults(void *at)
{
    ((perplexity_opts *)at)->context = 512;
}

static int score(report *out, const perplexity_opts *o, session *s, const input *in)
{
    ig_error err;
    ig_ids ids = {0};
    const ig_tokenizer *tokenizer = ig_model_tokenizer(s->model);
    const ig_tokenize_opts plain = {.plain = true};
    if (ig_tokenize(&ids, tokenizer, in->text ? in->text : "", in->n, &plain, &err) !=
        IG_OK)
        return report_error("perplexity", &err);
    const int64_t n = o->tokens && o->tokens < ids.n ? o->tokens : ids.n;
    double sum = 0;
    int64_t n_scored = 0;
    int code = EXIT_OK;
    const int64_t start = report_now_ns();
    if (n < 1)
        code = report_fail("perplexity: the text is empty");
    else if (ig_score(&sum, &n_scored, s->runner, ids.ids, n, o->context, o->bos, &err) !=
             IG_OK)
        code = report_error("perplexity", &err);
    else if (n_scored < 1)
        code = report_fail("perplexity: nothing to score in %lld token%s", (long long)n,
                           n == 1 ? "" : "s");
    ig_ids_free(tokenizer, &ids);
    if (code != EXIT_OK)
        return code;
    const double mean = sum / (double)n_scored;
    if (o->json)
        return report_json(out, json_pack("{s:I, s:I, s:o, s:o}", "tokens", (json_int_t)n,
                                          "scored", (json_int_t)n_scored, "mean_nll",
                                          report_json_real(mean), "perplexity",
                                          report_json_real(exp(mean))));
    report_print(out, "tokens %lld\nscored %lld\nmean nll %.6f\nperplexity %.4f\n",
                 (long long)n, (long long)n_scored, mean, exp(mean));
    report_note("perplexity: %.1f tokens/s, %d threads (%s)",
                (double)n * 1e9 / (double)(report_now_ns() - start),
                ig_context_threads(s->ctx), ig_context_threads_reason(s->ctx));
    return EXIT_OK;
}

static int run(report *out, const void *opts, const char *const *operands, int n_operands)
{
    (void)n_operands;
    const perplexity_opts *o = opts;
    const session_opts how = {.context = o->context,
                              .threads = o->threads,
                              .isa = o->isa,
                              .kv = o->kv,
                              .exact = o->exact};
    session s = {0};
    input in = {0};
    int code = input_choose(&in, "perplexity", o->text, o->file);
    if (code == EXIT_OK)
        code = session_open(&s, "perplexity", operands[0], &how);
    if (code == EXIT_OK)
        code = score(out, o, &s, &in);
    session_close(&s);
    input_free(&in);
    return code;
}

const args_verb verb_perplexity = {
    "perplexity",
    "MODEL",

    "Score a text: how well the model foresees it.\n"
    "The mean negative log-likelihood of each token given those before it in its\n"
    "window, and its exponential. Windows do not overlap; the first token of one is\n"
    "not scored unless --bos stands before it.",
    1,
    1,
    options,
    sizeof options / sizeof *options,
    sizeof(perplexity_opts),
    defaults,
    run};
