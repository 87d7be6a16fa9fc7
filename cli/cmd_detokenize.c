/* ingot detokenize: ids to the exact bytes that they stand for. */
#include "verbs.h"

#include "input.h"
#include "session.h"

#include <stdlib.h>
#include <string.h>

typedef struct detokenize_opts {
    bool plain, json;
} detokenize_opts;

#define AT(field) offsetof(detokenize_opts, field)
static const args_option options[] = {
    {"--plain", 0, ARGS_FLAG, AT(plain), NULL, "control tokens give nothing", 0, 0, ""},
    {"--json", 0, ARGS_FLAG, AT(json), NULL, "one object: text, bytes", 0, 0, ""},
};

typedef struct id_list {
    int32_t *at; /* [n] */
    int64_t n, cap;
} id_list;

static int add_id(id_list *list, const char *word, size_t n, int64_t vocab)
{
    int64_t id;
    if (!args_read_int(&id, word, n) || id < 0 || id >= vocab)
        return report_usage("detokenize: '%.*s' is no token, they go from 0 to %lld",
                            (int)n, word, (long long)vocab - 1);
    if (list->n == list->cap) {
        const int64_t cap = list->cap * 2 + 256;
        int32_t *at = realloc(list->at, (size_t)cap * sizeof *at);
        if (!at)
            return report_fail("detokenize: out of memory");
        list->at = at;
        list->cap = cap;
    }
    list->at[list->n++] = (int32_t)id;
    return EXIT_OK;
}

/* Ids apart by white space, commas or the brackets of a JSON list. */
static int add_text(id_list *list, const char *text, int64_t vocab)
{
    static const char apart[] = " \t\r\n,[]";
    for (const char *p = text + strspn(text, apart); *p; p += strspn(p, apart)) {
        const size_t n = strcspn(p, apart);
        const int code = add_id(list, p, n, vocab);
        if (code != EXIT_OK)
            return code;
        p += n;
    }
    return EXIT_OK;
}

static int read_ids(id_list *list, const char *const *operands, int n_operands,
                    int64_t vocab)
{
    int code = EXIT_OK;
    for (int i = 1; i < n_operands && code == EXIT_OK; i++)
        code = add_text(list, operands[i], vocab);
    if (n_operands > 1)
        return code;
    input in = {0};
    code = input_read(&in, "detokenize", "-", INPUT_TEXT_MOST);
    if (code == EXIT_OK && in.n && strlen(in.text) != in.n)
        code = report_fail("detokenize: standard input holds a zero byte");
    else if (code == EXIT_OK && in.n)
        code = add_text(list, in.text, vocab);
    input_free(&in);
    return code;
}

static int tell(report *out, const ig_tokenizer *tokenizer, const id_list *list,
                const detokenize_opts *o)
{
    ig_error err;
    char *text;
    size_t n;
    if (ig_detokenize(&text, &n, tokenizer, list->at, list->n, !o->plain, &err) != IG_OK)
        return report_error("detokenize", &err);
    int code = EXIT_OK;
    if (o->json)
        code = report_json(out, json_pack("{s:o, s:o}", "text", report_json_text(text, n),
                                          "bytes", report_json_bytes(text, n)));
    else
        report_write(out, text, n);
    ig_text_free(tokenizer, text);
    return code;
}

static int run(report *out, const void *opts, const char *const *operands, int n_operands)
{
    ig_error err;
    ig_context *ctx = NULL;
    ig_tokenizer *tokenizer = NULL;
    id_list list = {0};
    int code = session_context(&ctx, "detokenize", 1, NULL);
    if (code == EXIT_OK && ig_tokenizer_open(&tokenizer, ctx, operands[0], &err) != IG_OK)
        code = report_error("detokenize", &err);
    if (code == EXIT_OK)
        code = read_ids(&list, operands, n_operands, ig_tokenizer_vocab(tokenizer));
    if (code == EXIT_OK)
        code = tell(out, tokenizer, &list, opts);
    free(list.at);
    ig_tokenizer_close(tokenizer);
    ig_context_destroy(ctx);
    return code;
}

const args_verb verb_detokenize = {
    "detokenize",
    "MODEL [ID...]",

    "Turn token ids into exactly the bytes that they stand for.\n"
    "Without ids: from standard input, apart by white space or commas.",
    1,
    1 << 30,
    options,
    sizeof options / sizeof *options,
    sizeof(detokenize_opts),
    NULL,
    run};
