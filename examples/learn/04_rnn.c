/* 04: a recurrent network writes, letter by letter.
 *
 * It reads one character at a time and keeps what it has read in a state of D numbers (Elman, 1990):
 *
 *     h(t) = tanh(E[character(t)] + W h(t-1))        logits for the next character = V h(t) + b
 *
 * Unrolled over T characters that is a network of T layers that all share one W; the gradient walks back through
 * all of them, and each step multiplies it by W^T and by tanh' <= 1. What is left after k steps is
 * printed at the end: that is how far this network can learn to look back.
 *
 *     ./04_rnn [STEPS] < tinyshakespeare.txt
 */
#include "learn.h"

#include <math.h>

enum { D = 256, T = 64, B = 32 };

/* ids [B,T] from state *h [B,D], which becomes the last state -> logits [B*T,V]. What each character
 * added to the state goes to inputs [T], if that is asked for. */
static ig_tensor *rnn(ig_params *p, ig_tensor *ids, ig_tensor **h, int64_t v,
                      ig_tensor **inputs)
{
    const int64_t n = ig_tensor_dim(ids, 1);
    ig_tensor *states[T];
    for (int64_t t = 0; t < n; t++) {
        ig_tensor *x = ig_nn_embedding(p, "read", ig_select(ids, 1, t), (int64_t[]){v, D});
        *h = ig_tanh(ig_add(x, ig_nn_linear(p, "keep", *h, D, false)));
        states[t] = *h;
        if (inputs)
            inputs[t] = x;
    }
    ig_tensor *all = ig_reshape(ig_stack(states, (int)n, 1), IG_SHAPE(-1, D));
    return ig_nn_linear(p, "out", all, v, true);
}

static ig_tensor *no_state(ig_context *ig, int64_t n)
{
    return ig_zeros(ig, IG_DTYPE_F32, IG_SHAPE(n, D));
}

/* windows [B,T+1]: each character but the last is read, each but the first is to be foretold */
static ig_tensor *loss_of(ig_params *p, ig_tensor *windows, int64_t v)
{
    ig_tensor *h = no_state(ig_tensor_context(windows), ig_tensor_dim(windows, 0));
    ig_tensor *next = ig_reshape(ig_slice(windows, 1, 1, IG_END, 1), IG_SHAPE(-1));
    return ig_cross_entropy(rnn(p, ig_slice(windows, 1, 0, -1, 1), &h, v, NULL), next,
                            NULL);
}

/* How much of the gradient of the last character's loss comes to the input k steps before it. */
static void show_reach(ig_context *ig, ig_params *p, const learn_text *text)
{
    ig_scope *scope = ig_scope_begin(ig);
    ig_tensor *windows = learn_windows_at(text->test, 0, B, T + 1, T);
    const int64_t n = ig_tensor_dim(windows, 0);
    ig_tensor *ids = ig_slice(windows, 1, 0, -1, 1), *h = no_state(ig, n), *x[T], *d[T];
    ig_tensor *z = ig_reshape(rnn(p, ids, &h, text->n_chars, x), IG_SHAPE(n, T, -1));
    ig_tensor *loss =
        ig_cross_entropy(ig_select(z, 1, -1), ig_select(windows, 1, -1), NULL);
    double first = 0;
    ig_gradients(d, x, T, &loss, NULL, 1, NULL);
    learn_check(ig);
    printf("gradient k steps back:");
    for (int k = 0; k < T; k = k ? 2 * k : 1) {
        const double size = ig_tensor_item(ig_norm(d[T - 1 - k], 0, NULL, false));
        first = k ? first : size;
        printf("  %d: %.4f", k, size / first);
    }
    printf("\n");
    ig_scope_end(scope);
}

/* Read a line break, draw a character, read it, draw the next. */
static void sample(ig_context *ig, ig_params *p, const learn_text *text, int n)
{
    ig_scope *scope = ig_scope_begin(ig);
    const bool was = ig_grad_enable(ig, false);
    ig_tensor *h = no_state(ig, 1), *last = ig_zeros(ig, IG_DTYPE_I64, IG_SHAPE(1));
    for (int i = 0; i < n; i++) {
        ig_tensor *ids = ig_reshape(last, IG_SHAPE(1, 1));
        last = learn_draw(rnn(p, ids, &h, text->n_chars, NULL), 0.7);
        putchar(text->chars[(int)ig_tensor_item(last)]);
    }
    putchar('\n');
    ig_grad_enable(ig, was);
    ig_scope_end(scope);
}

int main(int argc, char **argv)
{
    const int n_steps = learn_argument(argc, argv, 1, 1500);
    ig_context *ig;
    ig_params *p;
    ig_optimizer *opt;
    ig_program *program;
    ig_error err;
    ig_optimizer_opts opts = ig_optimizer_defaults(IG_RULE_ADAMW);
    opts.lr = 2e-3;
    opts.clip_norm = 1; /* now and then a gradient explodes instead: Pascanu et al., 2013 */
    opts.schedule = (ig_schedule){IG_SCHEDULE_COSINE, .total = n_steps, .floor = 0.05};
    learn_must(ig_context_create(&ig, NULL, &err), &err);
    learn_must(ig_params_create(&p, ig, &err), &err);
    learn_must(ig_optimizer_create(&opt, ig, &opts, &err), &err);
    const learn_text text = learn_text_read(ig, stdin);
    loss_of(p, learn_windows(text.train, 1, T + 1),
            text.n_chars); /* makes the parameters */
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
    const double a_char = 2.0 * (D * D + D * (double)text.n_chars);
    learn_speed(ig, B * T, "characters", seconds, 3 * B * T * a_char,
                32.0 * (double)ig_params_elements(p));
    ig_program_destroy(program);
    ig_optimizer_destroy(opt);
    ig_params_destroy(p);
    ig_context_destroy(ig);
    return 0;
}
