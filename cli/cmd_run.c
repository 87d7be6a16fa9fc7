/* ingot run: a completion, or one turn of the model's chat template. */
#include "verbs.h"

#include "answer.h"
#include "input.h"
#include "interrupt.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef struct run_opts {
    const char *prompt, *file, *system, *template_file;
    bool raw, ignore_eos, json;
    int64_t max_tokens, n_logprobs;
    args_texts stop;
    draw_opts draw;
    session_opts session;
} run_opts;

#define AT(field) offsetof(run_opts, field)
static const args_option options[] = {
    {"--prompt", 'p', ARGS_TEXT, AT(prompt), "TEXT", "", 0, 0, "stdin"},
    {"--file", 'f', ARGS_TEXT, AT(file), "FILE", "the prompt", 0, 0, ""},
    {"--raw", 0, ARGS_FLAG, AT(raw), NULL, "completion", 0, 0, ""},
    {"--system", 0, ARGS_TEXT, AT(system), "TEXT", "", 0, 0, "template's"},
    {"--template", 0, ARGS_TEXT, AT(template_file), "FILE", "", 0, 0, "the model's"},
    {"--tokens", 'n', ARGS_INT, AT(max_tokens), "N", "-1: no end", -1, 1 << 30, NULL},
    {"--stop", 0, ARGS_TEXTS, AT(stop), "TEXT", "repeatable", 0, 0, ""},
    {"--ignore-eos", 0, ARGS_FLAG, AT(ignore_eos), NULL, "go on past it", 0, 0, ""},
    DRAW_ROWS(run_opts, draw),
    SESSION_ROWS(run_opts, session),
    {"--logprobs", 0, ARGS_INT, AT(n_logprobs), "N", "top N", 0, 1000, "none"},
    {"--json", 0, ARGS_FLAG, AT(json), NULL, "one object", 0, 0, ""},
};

static void defaults(void *at)
{
    run_opts *o = at;
    o->max_tokens = -1;
    o->n_logprobs = -1;
    draw_defaults(&o->draw);
}

/* What comes through a pipe follows the prompt. A turn gets a line break between the two,
 * a completion exactly their bytes. */
static int read_prompt(input *in, const run_opts *o)
{
    if (o->prompt && !o->file && !isatty(STDIN_FILENO)) {
        input piped = {0};
        int code = input_read(&piped, "run", "-", INPUT_TEXT_MOST);
        input_drop_newline(&piped);
        const size_t n = strlen(o->prompt);
        const bool apart = !o->raw && n && piped.n &&
                           !isspace((unsigned char)o->prompt[n - 1]) &&
                           !isspace((unsigned char)piped.text[0]);
        if (code == EXIT_OK &&
            !(input_append(in, o->prompt, n) && (!apart || input_append(in, "\n", 1)) &&
              (!piped.n || input_append(in, piped.text, piped.n))))
            code = report_fail("run: out of memory");
        input_free(&piped);
        return code;
    }
    if (!o->prompt && !o->file && isatty(STDIN_FILENO))
        report_note("run: type the prompt, end it with Ctrl-D");
    const int code = input_choose(in, "run", o->prompt, o->file);
    if (code == EXIT_OK && !o->prompt)
        input_drop_newline(in);
    return code;
}

static int encode(answer *a, session *s, const run_opts *o, const input *in)
{
    int code = o->raw ? EXIT_OK : session_template(s, o->template_file);
    if (code != EXIT_OK)
        return code;
    const bool raw = o->raw || !s->tmpl;
    if (!o->raw && !s->tmpl)
        report_note("run: the model has no chat template: completing the raw text");
    ig_error err;
    ig_status status;
    a->tokenizer = ig_model_tokenizer(s->model);
    if (raw) {
        const ig_tokenize_opts opts = {.add_special = true};
        status = ig_tokenize(&a->prompt, a->tokenizer, in->text, in->n, &opts, &err);
    } else {
        if (strlen(in->text) != in->n)
            return report_fail("run: the prompt holds a zero byte (--raw takes it)");
        ig_message messages[2];
        int64_t n = 0;
        if (o->system)
            messages[n++] = (ig_message){"system", o->system};
        messages[n++] = (ig_message){"user", in->text};
        status = ig_chat_encode(&a->prompt, a->tokenizer, s->tmpl, messages, n, &err);
    }
    return status == IG_OK ? EXIT_OK : report_error("run", &err);
}

static void tell_logprobs(const answer *a)
{
    size_t i, j;
    json_t *token, *top;
    json_array_foreach(a->logprobs, i, token)
    {
        fprintf(stderr,
                "%lld %.4f:", (long long)json_integer_value(json_object_get(token, "id")),
                json_number_value(json_object_get(token, "logprob")));
        json_array_foreach(json_object_get(token, "top"), j, top) fprintf(
            stderr, " %lld %.4f", (long long)json_integer_value(json_object_get(top, "id")),
            json_number_value(json_object_get(top, "logprob")));
        fputc('\n', stderr);
    }
}

static void tell_timings(const answer *a, const session *s)
{
    fprintf(stderr,
            "ingot: load %.0f ms, first token %.1f ms, prompt %lld tokens at %.1f/s, "
            "answer %lld at %.1f/s, %s; %d thread%s (%s), %s\n",
            (double)s->load_ns / 1e6, (double)a->result.prompt_ns / 1e6,
            (long long)a->result.n_prompt, answer_prompt_tps(a),
            (long long)a->result.n_generated, answer_decode_tps(a),
            ig_finish_name(a->result.finish), ig_context_threads(s->ctx),
            ig_context_threads(s->ctx) == 1 ? "" : "s", ig_context_threads_reason(s->ctx),
            ig_context_isa(s->ctx));
}

static int tell_json(report *out, answer *a, const session *s)
{
    if (a->n_logprobs >= 0 && !a->logprobs)
        a->logprobs = json_array(); /* asked for, and there was no token */
    json_t *object = json_pack("{s:o, s:o, s:o, s:s, s:O?, s:{s:f, s:f, s:f, s:f}}", "text",
                               report_json_text(a->text, a->n_text), "prompt_tokens",
                               report_json_ids(a->prompt.ids, a->prompt.n), "tokens",
                               report_json_ids(a->ids, a->n_ids), "finish_reason",
                               ig_finish_name(a->result.finish), "logprobs", a->logprobs,
                               "timings", "load_ms", (double)s->load_ns / 1e6, "ttft_ms",
                               (double)a->result.prompt_ns / 1e6, "prompt_tps",
                               answer_prompt_tps(a), "decode_tps", answer_decode_tps(a));
    return report_json(out, object);
}

/* The answer to no token: none. */
static int tell_nothing(report *out, const run_opts *o, const session *s)
{
    answer none = {.out = out, .n_logprobs = o->n_logprobs};
    const int code = o->json ? tell_json(out, &none, s) : EXIT_OK;
    json_decref(none.logprobs);
    if (code == EXIT_OK && report_flush(out))
        report_note("run: nothing to evaluate");
    return code;
}

static int answer_prompt(report *out, const run_opts *o, const char *path, const input *in)
{
    session s;
    ig_sampler *sampler = NULL;
    answer a = {.out = out,
                .shown = !o->json,
                .n_logprobs = o->n_logprobs,
                .max_tokens = o->max_tokens,
                .stop = o->stop.at,
                .n_stop = o->stop.n,
                .ignore_end = o->ignore_eos};
    int code = session_open(&s, "run", path, &o->session);
    if (code == EXIT_OK)
        code = encode(&a, &s, o, in);
    if (code == EXIT_OK && a.prompt.n == 0) { /* bytes that the vocabulary does not know */
        code = tell_nothing(out, o, &s);
        goto done;
    }
    if (code == EXIT_OK)
        code = session_sampler(&sampler, &s, &o->draw, 0);
    if (code == EXIT_OK) {
        interrupt_catch(true);
        code = answer_generate(&a, &s, sampler, 0);
        interrupt_release();
    }
    if (code == EXIT_OK && o->json)
        code = tell_json(out, &a, &s);
    else if (a.n_text && isatty(STDOUT_FILENO))
        report_write(out, "\n", 1);
    if (code == EXIT_OK && report_flush(out)) {
        if (!o->json)
            tell_logprobs(&a);
        tell_timings(&a, &s);
    }
done:
    answer_free(&a);
    ig_sampler_destroy(sampler);
    session_close(&s);
    return code;
}

static int run(report *out, const void *opts, const char *const *operands, int n_operands)
{
    (void)n_operands;
    const run_opts *o = opts;
    input in = {0};
    int code = read_prompt(&in, o);
    if (code == EXIT_OK && in.n == 0) {
        if (access(operands[0], R_OK))
            code = report_fail("run: cannot read %s", operands[0]);
        else
            code = tell_nothing(out, o, &(session){0});
    } else if (code == EXIT_OK) {
        code = answer_prompt(out, o, operands[0], &in);
    }
    input_free(&in);
    return code;
}

const args_verb verb_run = {
    "run",
    "MODEL",

    "Answer a prompt: one chat turn, or with --raw a completion.\n"
    "Piped input follows the prompt; Ctrl-C ends the answer. Defaults in brackets.",
    1,
    1,
    options,
    sizeof options / sizeof *options,
    sizeof(run_opts),
    defaults,
    run};
