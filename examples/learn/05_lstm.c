/* 05: an LSTM keeps what matters.
 *
 * In 04 every step squeezes the whole state through tanh and a matrix. An LSTM (Hochreiter and Schmidhuber, 1997,
 * section 4; the gate f: Gers et al., 2000) has a second state c that is only scaled and added to:
 *
 *     i, f, o = sigmoid(..)   g = tanh(..)         of linear layers of x(t) and h(t-1)
 *     c(t) = f c(t-1) + i g                        keep some, write some
 *     h(t) = o tanh(c(t))                          show some
 *
 * Where f is near 1 the gradient goes back through c as it is. Compare its reach with that of 04.
 * The loop over time is one operator here, ig_recurrent: two layers of it.
 *
 *     ./05_lstm [STEPS] < tinyshakespeare.txt
 */
#include "learn.h"

enum { D = 256, LAYERS = 2, T = 64, B = 32 };

typedef struct states {
    ig_tensor *h, *c; /* [LAYERS,B,D]; NULL: zeros */
} states;

static ig_tensor *embed(ig_params *p, ig_tensor *ids, int64_t v)
{
    return ig_nn_embedding(p, "embed", ids, (int64_t[]){v, D});
}

/* One matrix makes all four gates, in the order i, f, g, o: [4D,D] from below and [4D,D] from before. */
static ig_tensor *lstm(ig_params *p, ig_tensor *x, states *s)
{
    const ig_nn_recurrent_opts opts = {
        .n_out = D,
        .run = {.layers = LAYERS, .h0 = s->h, .c0 = s->c, .h_out = &s->h, .c_out = &s->c}};
    return ig_nn_recurrent(p, "lstm", IG_CELL_LSTM, x, &opts);
}

/* x [B,T,D] -> logits [B,T,V] */
static ig_tensor *network(ig_params *p, ig_tensor *x, states *s, int64_t v)
{
    return ig_nn_linear(p, "out", lstm(p, x, s), v, true);
}

static ig_tensor *loss_of(ig_params *p, ig_tensor *windows, int64_t v)
{
    states s = {0};
    ig_tensor *next = ig_reshape(ig_slice(windows, 1, 1, IG_END, 1), IG_SHAPE(-1));
    ig_tensor *x = embed(p, ig_slice(windows, 1, 0, -1, 1), v);
    return ig_cross_entropy(ig_reshape(network(p, x, &s, v), IG_SHAPE(-1, v)), next, NULL);
}

/* How much of the gradient of the last character's loss comes to the input k steps before it. */
static void show_reach(ig_context *ig, ig_params *p, const learn_text *text)
{
    ig_scope *scope = ig_scope_begin(ig);
    states s = {0};
    ig_tensor *windows = learn_windows_at(text->test, 0, B, T + 1, T), *d;
    ig_tensor *x = embed(p, ig_slice(windows, 1, 0, -1, 1), text->n_chars);
    ig_tensor *z = ig_select(network(p, x, &s, text->n_chars), 1, -1);
    ig_tensor *loss = ig_cross_entropy(z, ig_select(windows, 1, -1), NULL);
    double first = 0;
    ig_gradients(&d, &x, 1, &loss, NULL, 1, NULL);
    learn_check(ig);
    printf("gradient k steps back:");
    for (int k = 0; k < T; k = k ? 2 * k : 1) {
        const double size =
            ig_tensor_item(ig_norm(ig_select(d, 1, T - 1 - k), 0, NULL, false));
        first = k ? first : size;
        printf("  %d: %.4f", k, size / first);
    }
    printf("\n");
    ig_scope_end(scope);
}

/* Read a line break, draw a character, read it, draw the next; the states carry all that was read. */
static void sample(ig_context *ig, ig_params *p, const learn_text *text, int n)
{
    ig_scope *scope = ig_scope_begin(ig);
    const bool was = ig_grad_enable(ig, false);
    states s = {0};
    ig_tensor *last = ig_zeros(ig, IG_DTYPE_I64, IG_SHAPE(1, 1));
    for (int i = 0; i < n; i++) {
        last =
            learn_draw(network(p, embed(p, last, text->n_chars), &s, text->n_chars), 0.7);
        putchar(text->chars[(int)ig_tensor_item(last)]);
    }
    putchar('\n');
    ig_grad_enable(ig, was);
    ig_scope_end(scope);
}

int main(int argc, char **argv)
{
    const int n_steps = learn_argument(argc, argv, 1, 1000);
    ig_context *ig;
    ig_params *p;
    ig_optimizer *opt;
    ig_program *program;
    ig_error err;
    ig_optimizer_opts opts = ig_optimizer_defaults(IG_RULE_ADAMW);
    opts.lr = 3e-3;
    opts.clip_norm = 1;
    opts.schedule = (ig_schedule){IG_SCHEDULE_COSINE, .warmup = n_steps / 20,
                                  .total = n_steps, .floor = 0.05};
    learn_must(ig_context_create(&ig, NULL, &err), &err);
    learn_must(ig_params_create(&p, ig, &err), &err);
    learn_must(ig_optimizer_create(&opt, ig, &opts, &err), &err);
    const learn_text text = learn_text_read(ig, stdin);
    loss_of(p, learn_windows(text.train, 1, T + 1),
            text.n_chars);             /* makes the parameters */
    for (int i = 0; i < LAYERS; i++) { /* at first, keep: f's bias is 1 (Gers et al.) */
        char name[32];
        snprintf(name, sizeof name, "lstm.bias_ih_l%d", i);
        const bool was = ig_grad_enable(ig, false);
        ig_fill(ig_slice(ig_params_find(p, name), 0, D, 2 * D, 1), 1);
        ig_grad_enable(ig, was);
    }
    learn_must(ig_optimizer_add_params(opt, p, &err), &err);

    learn_must(ig_capture_begin(ig, &err), &err);
    ig_optimizer_clear_grads(opt);
    ig_tensor *loss = loss_of(p, learn_windows(text.train, B, T + 1), text.n_chars);
    ig_backward(loss);
    ig_optimizer_step(opt);
    learn_must(ig_capture_end(&program, ig, &err), &err);

    const double seconds = learn_run(program, loss, n_steps);
    printf("loss on the last tenth %.4f\n", learn_held_out(loss_of, p, &text, T));
    show_reach(ig, p, &text);
    sample(ig, p, &text, n_steps < 100 ? 20 : 400);
    learn_check(ig);
    const double a_char = 2.0 * (LAYERS * 8 * D * D + D * (double)text.n_chars);
    learn_speed(ig, B * T, "characters", seconds, 3 * B * T * a_char,
                32.0 * (double)ig_params_elements(p));
    ig_program_destroy(program);
    ig_optimizer_destroy(opt);
    ig_params_destroy(p);
    ig_context_destroy(ig);
    return 0;
}
