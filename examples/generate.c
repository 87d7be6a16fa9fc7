/* Generate text with the installed library:
 *
 *     cc generate.c -o generate $(pkg-config --cflags --libs ingot)
 *     ./generate model.gguf "The capital of France is"
 */
#include <ingot/ingot.h>

#include <stdio.h>
#include <string.h>

static bool print_token(void *user, const ig_generated *token)
{
    return fwrite(token->text, 1, token->n_text, user) == token->n_text && !fflush(user);
}

int main(int argc, char **argv)
{
    ig_error err;
    ig_context *ctx = NULL;
    ig_model *model = NULL;
    ig_runner *runner = NULL;
    ig_sequence *seq = NULL;
    ig_sampler *sampler = NULL;
    ig_ids ids = {0};
    ig_generate_result result;
    const ig_sampler_opts draw = ig_sampler_defaults();
    const ig_tokenize_opts text = {.add_special = true};
    const ig_generate_opts how = {
        .max_tokens = 64, .n_logprobs = -1, .on_token = print_token, .user = stdout};
    if (argc != 3)
        return fprintf(stderr, "usage: generate MODEL PROMPT\n"), 2;
    const bool good =
        !ig_context_create(&ctx, NULL, &err) &&
        !ig_model_open(&model, ctx, argv[1], NULL, &err) &&
        !ig_runner_create(&runner, model, NULL, &err) &&
        !ig_sequence_create(&seq, runner, &err) &&
        !ig_sampler_create(&sampler, ctx, ig_model_get_info(model).vocab, &draw, &err) &&
        !ig_tokenize(&ids, ig_model_tokenizer(model), argv[2], strlen(argv[2]), &text,
                     &err) &&
        !ig_generate(&result, runner, seq, sampler, ids.ids, ids.n, &how, &err);
    if (!good)
        fprintf(stderr, "generate: %s\n", err.message);
    if (model)
        ig_ids_free(ig_model_tokenizer(model), &ids);
    ig_sampler_destroy(sampler);
    ig_sequence_destroy(seq);
    ig_runner_destroy(runner);
    ig_model_close(model);
    ig_context_destroy(ctx);
    return good ? 0 : 1;
}
