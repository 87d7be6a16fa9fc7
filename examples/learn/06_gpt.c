/* 06: attention, and a small GPT.
 *
 * A recurrent network squeezes all that it has read into one state. Attention keeps every position, and lets
 * each of them look at all before it (Vaswani et al., 2017, section 3.2):
 *
 *     attention(q, k, v) = softmax(q k^T / sqrt(W), hidden where the key is later) v
 *
 * A transformer is a stack of that and of small networks that work at each position alone, added
 * to a stream that runs through. Four layers of width 128 learn to write like a text, character by character.
 *
 *     ./06_gpt [STEPS [SEEDS]] < tinyshakespeare.txt
 */
#include "learn.h"

#include <math.h>

enum { L = 4, H = 4, D = 128, W = D / H, T = 64, B = 12 };

/* As the formula says: for learning, and to check the library's, which never stores the scores. */
static ig_tensor *attention_by_hand(ig_tensor *q, ig_tensor *k, ig_tensor *v)
{
    ig_context *ig = ig_tensor_context(q);
    const int64_t n = ig_tensor_dim(q, 2);
    ig_tensor *scores =
        ig_scale(ig_matmul(q, ig_transpose(k, 2, 3)), 1 / sqrt(W)); /* [B,H,T,T] */
    ig_tensor *sees = ig_tril(ig_ones(ig, IG_DTYPE_BOOL, IG_SHAPE(n, n)), 0);
    ig_tensor *never = ig_tensor_scalar(ig, IG_DTYPE_F32, -HUGE_VAL);
    return ig_matmul(ig_softmax(ig_where(sees, scores, never), -1), v);
}

/* Weights start normal and keep the size of what goes in: 1 / sqrt(D). What is added to the stream starts
 * smaller, the more there are to add (Radford et al., 2019, section 2.3). */
static ig_tensor *add_to(ig_params *p, ig_tensor *stream, const char *name, ig_tensor *x)
{
    ig_params_set_deviation(p, 1 / sqrt(D) / sqrt(2 * L));
    ig_tensor *y = ig_nn_linear(p, name, x, D, false);
    ig_params_set_deviation(p, 1 / sqrt(D));
    return ig_add(stream, y);
}

static ig_tensor *norm(ig_params *p, const char *name, ig_tensor *x)
{
    return ig_nn_layer_norm(p, name, x, 1e-5);
}

/* x [B*T,D], one row a position. A query, a key and a value for each head of each position; then each
 * head looks back. */
static ig_tensor *attend(ig_params *p, ig_tensor *x, int64_t n)
{
    ig_tensor *qkv = ig_nn_linear(p, "qkv", x, 3 * D, false), *part[3];
    qkv = ig_reshape(qkv, IG_SHAPE(-1, n, 3, H, W));
    for (int i = 0; i < 3; i++)
        part[i] = ig_transpose(ig_select(qkv, 2, i), 1, 2); /* [B,H,T,W] */
    const ig_attention_opts causal = {.causal = true};
    ig_tensor *y = ig_attention(part[0], part[1], part[2], &causal);
    return ig_reshape(ig_transpose(y, 1, 2), IG_SHAPE(-1, D));
}

/* tokens [B,T] -> logits [B*T,V] */
static ig_tensor *gpt(ig_params *p, ig_tensor *tokens, int64_t v)
{
    const int64_t n = ig_tensor_dim(tokens, 1);
    ig_tensor *places = ig_arange(ig_tensor_context(tokens), IG_DTYPE_I32, 0, 1, n);
    ig_tensor *x = ig_add(ig_nn_embedding(p, "tokens", tokens, (int64_t[]){v, D}),
                          ig_nn_embedding(p, "places", places, (int64_t[]){T, D}));
    x = ig_reshape(x, IG_SHAPE(-1, D));
    for (int i = 0; i < L; i++) {
        ig_params_begin(p, "layer%d", i);
        x = add_to(p, x, "mix", attend(p, norm(p, "norm1", x), n));
        ig_tensor *h = ig_nn_linear(p, "up", norm(p, "norm2", x), 4 * D, false);
        x = add_to(p, x, "down", ig_gelu(h));
        ig_params_end(p);
    }
    /* the head is the embedding: what reads a character also writes it */
    return ig_linear(norm(p, "last", x), ig_params_find(p, "tokens.weight"), NULL);
}

static ig_tensor *loss_of(ig_params *p, ig_tensor *windows, int64_t v) /* [B,T+1] */
{
    ig_tensor *next = ig_reshape(ig_slice(windows, 1, 1, IG_END, 1), IG_SHAPE(-1));
    return ig_cross_entropy(gpt(p, ig_slice(windows, 1, 0, -1, 1), v), next, NULL);
}

/* Write on, from a line break: read what is there, draw the next, put it behind. */
static void sample(ig_context *ig, ig_params *p, const learn_text *text, int n)
{
    ig_scope *scope = ig_scope_begin(ig);
    const bool was = ig_grad_enable(ig, false);
    ig_tensor *seen =
        ig_zeros(ig, IG_DTYPE_I64, IG_SHAPE(1, 1)); /* 0 is '\n' in most texts */
    for (int i = 0; i < n; i++) {
        ig_tensor *z =
            ig_select(gpt(p, ig_slice(seen, 1, -T, IG_END, 1), text->n_chars), 0, -1);
        ig_tensor *next = learn_draw(z, 0.8);
        seen = ig_cat((ig_tensor *[]){seen, ig_reshape(next, IG_SHAPE(1, 1))}, 2, 1);
        putchar(text->chars[(int)ig_tensor_item(next)]);
    }
    putchar('\n');
    ig_grad_enable(ig, was);
    ig_scope_end(scope);
}

static double train(ig_context *ig, const learn_text *text, int n_steps, int seed)
{
    ig_error err;
    ig_params *p;
    ig_optimizer *opt;
    ig_program *program;
    ig_optimizer_opts opts = ig_optimizer_defaults(IG_RULE_ADAMW);
    opts.lr = 1e-3;
    opts.beta2 = 0.99;
    opts.weight_decay = 0.1;
    opts.clip_norm = 1;
    opts.schedule = (ig_schedule){IG_SCHEDULE_COSINE, .warmup = n_steps / 20,
                                  .total = n_steps, .floor = 0.1};
    const int64_t v = text->n_chars;
    ig_scope *scope = ig_scope_begin(ig);
    ig_seed(ig, (uint64_t)seed);
    learn_must(ig_params_create(&p, ig, &err), &err);
    learn_must(ig_optimizer_create(&opt, ig, &opts, &err), &err);
    ig_params_set_deviation(p, 1 / sqrt(D));
    loss_of(p, learn_windows(text->train, B, T + 1), v); /* makes the parameters */
    learn_must(ig_optimizer_add_params(opt, p, &err), &err);

    learn_must(ig_capture_begin(ig, &err), &err); /* one step, recorded */
    ig_optimizer_clear_grads(opt);
    ig_tensor *loss = loss_of(p, learn_windows(text->train, B, T + 1), v);
    ig_backward(loss);
    ig_optimizer_step(opt);
    learn_must(ig_capture_end(&program, ig, &err), &err);

    const double seconds = learn_run(program, loss, n_steps);
    const double test = learn_held_out(loss_of, p, text, T);
    learn_check(ig);
    printf("seed %d: loss on the last tenth %.4f\n", seed, test);
    if (seed == 1) {
        const double matrices = L * 12.0 * D * D + (double)v * D,
                     n = (double)ig_params_elements(p);
        learn_speed(ig, B * T, "characters", seconds, B * T * 6 * (matrices + L * T * D),
                    32 * n);
        sample(ig, p, text, n_steps < 100 ? 20 : 500);
    }
    ig_program_destroy(program);
    ig_optimizer_destroy(opt);
    ig_params_destroy(p);
    ig_scope_end(scope);
    return test;
}

int main(int argc, char **argv)
{
    const int n_steps = learn_argument(argc, argv, 1, 2000),
              n_seeds = learn_argument(argc, argv, 2, 1);
    ig_context *ig;
    ig_error err;
    learn_must(ig_context_create(&ig, NULL, &err), &err);
    const learn_text text = learn_text_read(ig, stdin);

    ig_tensor *q[3];
    for (int i = 0; i < 3; i++)
        q[i] = ig_normal(ig, IG_DTYPE_F32, IG_SHAPE(2, H, T, W), 0, 1);
    ig_tensor *differs =
        ig_sub(attention_by_hand(q[0], q[1], q[2]),
               ig_attention(q[0], q[1], q[2], &(ig_attention_opts){.causal = true}));
    printf("attention by hand and the library's differ by at most %.1e\n",
           ig_tensor_item(ig_max(ig_abs(differs), 0, NULL, false)));

    double sum = 0;
    for (int seed = 1; seed <= n_seeds; seed++)
        sum += train(ig, &text, n_steps, seed);
    printf("mean of %d: %.4f\n", n_seeds, sum / n_seeds);
    ig_context_destroy(ig);
    return 0;
}
