/* ingot tokenize: text to ids, from the vocabulary alone. */
#include "verbs.h"

#include "input.h"
#include "session.h"

typedef struct tokenize_opts {
    const char *text, *file;
    bool plain, add_special, json;
} tokenize_opts;

#define AT(field) offsetof(tokenize_opts, field)
static const args_option options[] = {
    {"--prompt", 'p', ARGS_TEXT, AT(text), "TEXT", "the text", 0, 0, "standard input"},
    {"--file", 'f', ARGS_TEXT, AT(file), "FILE", "the text, every byte of the file", 0, 0,
     ""},
    {"--plain", 0, ARGS_FLAG, AT(plain), NULL,
     "control tokens written in the text are plain text", 0, 0, ""},
    {"--add-special", 0, ARGS_FLAG, AT(add_special), NULL,
     "add the BOS and EOS that the file asks for", 0, 0, ""},
    {"--json", 0, ARGS_FLAG, AT(json), NULL, "one object: tokens", 0, 0, ""},
};

static int tell(report *out, const ig_ids *ids, bool json)
{
    if (json)
        return report_json(out,
                           json_pack("{s:o}", "tokens", report_json_ids(ids->ids, ids->n)));
    for (int64_t i = 0; i < ids->n; i++)
        report_print(out, i ? " %d" : "%d", ids->ids[i]);
    report_write(out, "\n", 1);
    return EXIT_OK;
}

static int run(report *out, const void *opts, const char *const *operands, int n_operands)
{
    (void)n_operands;
    const tokenize_opts *o = opts;
    ig_error err;
    ig_context *ctx = NULL;
    ig_tokenizer *tokenizer = NULL;
    ig_ids ids = {0};
    input in = {0};
    int code = input_choose(&in, "tokenize", o->text, o->file);
    if (code == EXIT_OK)
        code = session_context(&ctx, "tokenize", 1, NULL);
    if (code != EXIT_OK)
        goto done;
    const ig_tokenize_opts how = {.plain = o->plain, .add_special = o->add_special};
    if (ig_tokenizer_open(&tokenizer, ctx, operands[0], &err) != IG_OK ||
        ig_tokenize(&ids, tokenizer, in.text ? in.text : "", in.n, &how, &err) != IG_OK)
        code = report_error("tokenize", &err);
    else
        code = tell(out, &ids, o->json);
    if (tokenizer)
        ig_ids_free(tokenizer, &ids);
done:
    ig_tokenizer_close(tokenizer);
    ig_context_destroy(ctx);
    input_free(&in);
    return code;
}

const args_verb verb_tokenize = {"tokenize",
                                 "MODEL",

                                 "Turn text into token ids, on one line.\n"
                                 "Only the vocabulary of the file is read.",
                                 1,
                                 1,
                                 options,
                                 sizeof options / sizeof *options,
                                 sizeof(tokenize_opts),
                                 NULL,
                                 run};
