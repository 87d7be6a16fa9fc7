/* Generate text with the installed library:
 *     cc generate.c -o generate $(pkg-config --cflags --libs ingot)
 *     ./generate model.gguf "The capital of France is"
 * What a failing call leaves behind, the end of the program frees. */
#include <ingot/ingot.h>
#include <stdio.h>
#include <string.h>

#define TRY(call)                                                                          \
    if (call)                                                                              \
    return fprintf(stderr, "generate: %s\n", err.message), 1

static bool print_token(void *user, const ig_generated *token)
{
    return fwrite(token->text, 1, token->n_text, user) == token->n_text && !fflush(user);
}

int main(int argc, char **argv)
{
    ig_error err;
    ig_context *ctx;
    ig_model *model;
    ig_runner *runner;
    ig_sequence *seq;
    ig_sampler *sampler;
    ig_ids ids = {0};
    ig_generate_result result;
    const ig_sampler_opts draw = ig_sampler_defaults();
    const ig_generate_opts how = {
        .max_tokens = 64, .n_logprobs = -1, .on_token = print_token, .user = stdout};
    if (argc != 3)
        return fprintf(stderr, "usage: generate MODEL PROMPT\n"), 2;
    TRY(ig_context_create(&ctx, NULL, &err));
    TRY(ig_model_open(&model, ctx, argv[1], NULL, &err));
    TRY(ig_runner_create(&runner, model, NULL, &err));
    TRY(ig_sequence_create(&seq, runner, &err));
    TRY(ig_sampler_create(&sampler, ctx, ig_model_get_info(model).vocab, &draw, &err));
    TRY(ig_tokenize(&ids, ig_model_tokenizer(model), argv[2], strlen(argv[2]),
                    &(ig_tokenize_opts){.add_special = true}, &err));
    TRY(ig_generate(&result, runner, seq, sampler, ids.ids, ids.n, &how, &err));
    ig_ids_free(ig_model_tokenizer(model), &ids);
    ig_sampler_destroy(sampler);
    ig_sequence_destroy(seq);
    ig_runner_destroy(runner);
    ig_model_close(model);
    ig_context_destroy(ctx);
    return 0;
}
