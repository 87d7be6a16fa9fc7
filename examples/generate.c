/* Generate text: cc generate.c -o generate $(pkg-config --cflags --libs ingot) */
#include <ingot/ingot.h>
#include <stdio.h>
#include <string.h>

static bool print(void *out, const ig_generated *token)
{
    return fwrite(token->text, 1, token->n_text, out) == token->n_text && !fflush(out);
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
    const ig_tokenize_opts in = {.add_special = true};
    const ig_generate_opts how = {64, .n_logprobs = -1, .on_token = print, .user = stdout};
    if (argc != 3 || ig_context_create(&ctx, NULL, &err) ||
        ig_model_open(&model, ctx, argv[1], NULL, &err) ||
        ig_runner_create(&runner, model, NULL, &err) ||
        ig_sequence_create(&seq, runner, &err) ||
        ig_sampler_create(&sampler, ctx, ig_model_get_info(model).vocab, NULL, &err) ||
        ig_tokenize(&ids, ig_model_tokenizer(model), argv[2], strlen(argv[2]), &in, &err) ||
        ig_generate(NULL, runner, seq, sampler, ids.ids, ids.n, &how, &err))
        return fprintf(stderr, "%s\n", err.message), argc != 3 ? 2 : 1;
}
