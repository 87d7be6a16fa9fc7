/* Several answers at once over one model, a callback a token (docs/serving-engine.md):
 *     cc engine.c -o engine $(pkg-config --cflags --libs ingot)
 *     ./engine model.gguf "The capital of France is" "One, two, three,"
 * One thread steps the engine; requests may come from any. */
#include <ingot/ingot.h>
#include <stdio.h>
#include <string.h>

enum { MOST = 16 };
static const char *prompts[MOST];

/* The text that became final with a token, of whatever request: they take turns. */
static void on_event(const ig_request_event *e)
{
    const long i = (const char **)e->user - prompts;
    if (e->n_text)
        printf("%ld: %.*s\n", i, (int)e->n_text, e->text);
    if (e->finished)
        printf("%ld: [%s, %lld tokens]\n", i, ig_finish_name(e->finish),
               (long long)e->n_generated);
}

static ig_status ask(ig_engine *engine, const ig_tokenizer *tokenizer, const char **prompt,
                     ig_error *err)
{
    ig_ids ids = {0};
    const ig_tokenize_opts in = {.add_special = true};
    ig_status status = ig_tokenize(&ids, tokenizer, *prompt, strlen(*prompt), &in, err);
    ig_request_opts o = ig_request_defaults();
    o.prompt = ids.ids; /* copied by the engine */
    o.n_prompt = ids.n;
    o.max_tokens = 12;
    o.on_event = on_event;
    o.user = prompt;
    if (status == IG_OK)
        status = ig_engine_submit(NULL, engine, &o, err);
    ig_ids_free(tokenizer, &ids);
    return status;
}

int main(int argc, char **argv)
{
    ig_error err = {.message = "usage: engine MODEL PROMPT .."};
    ig_context *ctx;
    ig_model *model;
    ig_engine *engine;
    if (argc < 3 || argc - 2 > MOST || ig_context_create(&ctx, NULL, &err) ||
        ig_model_open(&model, ctx, argv[1], NULL, &err) ||
        ig_engine_create(&engine, model, NULL, &err))
        return fprintf(stderr, "%s\n", err.message), argc < 3 ? 2 : 1;
    for (int i = 0; i < argc - 2; i++) {
        prompts[i] = argv[i + 2];
        if (ask(engine, ig_model_tokenizer(model), &prompts[i], &err))
            return fprintf(stderr, "%s\n", err.message), 1;
    }
    while (ig_engine_step(engine))
        ;
    ig_engine_destroy(engine);
    ig_model_close(model);
    ig_context_destroy(ctx);
    return 0;
}
