/* 07: a grown language model learns on.
 *
 * SmolLM2 is a llama: the GPT of 06, grown up (Touvron et al., 2023, section 2.2). What is different in each layer:
 *
 *     x = x + Wo attention(rope(Wq norm(x)), rope(Wk norm(x)), Wv norm(x))     3 heads share keys and values
 *     x = x + Wdown(silu(Wgate norm(x)) * Wup norm(x))
 *
 *     norm(x) = g x / sqrt(mean(x^2)), without mean and bias; rope turns pairs of a query and a key by an angle
 *     that grows with their place, so their product knows how far apart they are.
 *
 * The file's weights, whatever their type, become float32 parameters; the training step is that of 06. The text
 * comes as tokens of the model's own vocabulary. It knows English: it has to learn this text's manner.
 *
 *     ./07_llama SmolLM2-135M-Instruct.Q4_1.gguf [STEPS] < tinyshakespeare.txt
 */
#include "learn.h"

#include <string.h>

enum { T = 64, B = 4 };

/* All of a file as tokens, cut as in the programs before. */
static learn_text read_tokens(ig_context *ig, const ig_tokenizer *tokenizer, FILE *f)
{
    enum { MOST = 1 << 22 };
    ig_error err;
    ig_ids ids = {0};
    char *bytes = malloc(MOST);
    const size_t n_bytes = bytes ? fread(bytes, 1, MOST, f) : 0;
    learn_must(ig_tokenize(&ids, tokenizer, bytes, n_bytes, NULL, &err), &err);
    const int64_t n_train = ids.n * 9 / 10;
    if (ids.n - n_train <= T) {
        fprintf(stderr, "wants a text on standard input, 4,000 bytes or more\n");
        exit(2);
    }
    printf("%zu bytes are %lld tokens\n", n_bytes, (long long)ids.n);
    const learn_text text = {
        .train = ig_tensor_from(ig, IG_DTYPE_I32, IG_SHAPE(n_train), ids.ids),
        .test =
            ig_tensor_from(ig, IG_DTYPE_I32, IG_SHAPE(ids.n - n_train), ids.ids + n_train)};
    ig_ids_free(tokenizer, &ids);
    free(bytes);
    return text;
}

/* windows [B,T+1] -> the mean loss */
static ig_tensor *loss_of(ig_module *m, ig_tensor *windows)
{
    ig_tensor *z = ig_module_logits(m, ig_slice(windows, 1, 0, -1, 1)); /* [B,T,V] */
    ig_tensor *next = ig_reshape(ig_slice(windows, 1, 1, IG_END, 1), IG_SHAPE(-1));
    return ig_cross_entropy(ig_reshape(z, IG_SHAPE(-1, ig_tensor_dim(z, 2))), next, NULL);
}

/* The loss on 16 windows of the part held out, spread over it. */
static double held_out(ig_context *ig, ig_module *m, const learn_text *text)
{
    ig_scope *scope = ig_scope_begin(ig);
    const bool was = ig_grad_enable(ig, false);
    const int64_t step = (ig_tensor_count(text->test) - T - 1) / 15;
    const double loss = ig_tensor_item(
        loss_of(m, learn_windows_at(text->test, 0, 16, T + 1, step > 0 ? step : 1)));
    ig_grad_enable(ig, was);
    ig_scope_end(scope);
    return loss;
}

/* Goes on after `prompt`. Every token reads all before it anew: a cache of keys and values, as `ingot run` has it,
 * would save that. */
static void sample(ig_context *ig, ig_module *m, const ig_tokenizer *tokenizer,
                   const char *prompt, int n)
{
    ig_error err;
    ig_ids ids = {0};
    char bytes[64];
    ig_scope *scope = ig_scope_begin(ig);
    const bool was = ig_grad_enable(ig, false);
    learn_must(ig_tokenize(&ids, tokenizer, prompt, strlen(prompt), NULL, &err), &err);
    ig_tensor *seen = ig_cast(ig_tensor_from(ig, IG_DTYPE_I32, IG_SHAPE(1, ids.n), ids.ids),
                              IG_DTYPE_I64);
    printf("---\n%s", prompt);
    for (int i = 0; i < n; i++) {
        ig_tensor *z = ig_select(ig_select(ig_module_logits(m, seen), 0, 0), 0, -1);
        ig_tensor *next = learn_draw(z, 0.6);
        seen = ig_cat((ig_tensor *[]){seen, ig_reshape(next, IG_SHAPE(1, 1))}, 2, 1);
        const size_t n_bytes = ig_token_bytes(tokenizer, (int32_t)ig_tensor_item(next),
                                              false, bytes, sizeof bytes);
        printf("%.*s", (int)n_bytes, bytes);
    }
    printf("\n---\n");
    ig_ids_free(tokenizer, &ids);
    ig_grad_enable(ig, was);
    ig_scope_end(scope);
}

int main(int argc, char **argv)
{
    const int n_steps = learn_argument(argc, argv, 2, 40);
    const int n_sample = n_steps < 10 ? 4 : 60;
    const char *prompt = "ROMEO:\n";
    ig_context *ig;
    ig_tokenizer *tokenizer;
    ig_module *m;
    ig_optimizer *opt;
    ig_program *program;
    ig_error err;
    if (argc < 2) {
        fprintf(stderr, "usage: 07_llama MODEL.gguf [STEPS] < TEXT\n");
        return 2;
    }
    ig_optimizer_opts opts = ig_optimizer_defaults(IG_RULE_ADAMW);
    opts.lr =
        1e-4; /* a tenth of what a fresh model gets: what it knows is worth more than this text */
    opts.clip_norm = 1;
    opts.schedule = (ig_schedule){IG_SCHEDULE_COSINE, .warmup = n_steps / 10,
                                  .total = n_steps, .floor = 0.1};
    learn_must(ig_context_create(&ig, NULL, &err), &err);
    learn_must(ig_tokenizer_open(&tokenizer, ig, argv[1], &err), &err);
    learn_must(ig_module_open(&m, ig, argv[1], &err), &err);
    learn_must(ig_optimizer_create(&opt, ig, &opts, &err), &err);
    learn_must(ig_optimizer_add_params(opt, ig_module_params(m), &err), &err);
    const learn_text text = read_tokens(ig, tokenizer, stdin);
    const double n_params = (double)ig_params_elements(ig_module_params(m));
    printf("%.1f million parameters\n", n_params / 1e6);

    const double before = held_out(ig, m, &text);
    sample(ig, m, tokenizer, prompt, n_sample);

    learn_must(ig_capture_begin(ig, &err), &err);
    ig_optimizer_clear_grads(opt);
    ig_tensor *loss = loss_of(m, learn_windows(text.train, B, T + 1));
    ig_backward(loss);
    ig_optimizer_step(opt);
    learn_must(ig_capture_end(&program, ig, &err), &err);

    const double seconds = learn_run(program, loss, n_steps);
    const double after = held_out(ig, m, &text);
    sample(ig, m, tokenizer, prompt, n_sample);
    learn_check(ig);
    printf("loss on the last tenth: %.4f before, %.4f after\n", before, after);
    learn_speed(ig, B * T, "tokens", seconds, 6 * n_params * B * T, 32 * n_params);
    ig_program_destroy(program);
    ig_optimizer_destroy(opt);
    ig_module_destroy(m);
    ig_tokenizer_close(tokenizer);
    ig_context_destroy(ig);
    return after < before ? 0 : 1;
}
