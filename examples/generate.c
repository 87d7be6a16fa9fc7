/* Generate text with the installed library (docs/install.md):
 *     cc generate.c -o generate $(pkg-config --cflags --libs ingot)
 *     ./generate model.gguf "The capital of France is" */
#include <ingot/ingot.h>
#include <stdio.h>
#include <string.h>

static bool print_token(void *user, const ig_generated *token)
{
    return fwrite(token->text, 1, token->n_text, user) == token->n_text && !fflush(user);
}

int main(int argc, char **argv)
{
    ig_error err = {.message = "usage: generate MODEL PROMPT"};
    ig_context *ctx;
    ig_model *model;
    ig_runner *runner;
    ig_sequence *seq;
    ig_sampler *sampler;
    ig_ids ids = {0};
    ig_generate_result result;
    const ig_sampler_opts draw = ig_sampler_defaults();
    const ig_tokenize_opts read = {.add_special = true};
    const ig_generate_opts how = {64, .n_logprobs = -1, .on_token = print_token,
                                  .user = stdout};
    if (argc != 3 || ig_context_create(&ctx, NULL, &err) ||
        ig_model_open(&model, ctx, argv[1], NULL, &err) ||
        ig_runner_create(&runner, model, NULL, &err) ||
        ig_sequence_create(&seq, runner, &err) ||
        ig_sampler_create(&sampler, ctx, ig_model_get_info(model).vocab, &draw, &err) ||
        ig_tokenize(&ids, ig_model_tokenizer(model), argv[2], strlen(argv[2]), &read,
                    &err) ||
        ig_generate(&result, runner, seq, sampler, ids.ids, ids.n, &how, &err))
        return fprintf(stderr, "%s\n", err.message), argc != 3 ? 2 : 1;
    return 0; /* the end of the program frees all */
}
