/* 03: a convolutional network reads handwriting.
 *
 * A linear layer must learn each stroke anew for every place where it can stand. A convolution slides
 * the same few weights over the whole picture (LeCun et al., 1998, section II.A); pooling keeps the largest of
 * four neighbours, so that a stroke may stand a little off.
 *
 *     1 x 28 x 28 -> 32 x 28 x 28 -> 32 x 14 x 14 -> 64 x 14 x 14 -> 64 x 7 x 7 -> 128 -> 10
 *           conv, relu        pool          conv, relu        pool         linear   linear
 *
 * New beside 02: the whole step is recorded once and replayed from then on (ig_capture_begin).
 *
 *     gzip -dc mnist_5k.csv.gz | ./03_cnn [STEPS]
 */
#include "learn.h"

enum { SIDE = 28, PIXELS = SIDE * SIDE, C = 10, N = 5000, N_TEST = N / 5, B = 64 };
enum { N_TRAIN = N - N_TEST, EVAL = 250 };

static float train_x[N_TRAIN * PIXELS], test_x[N_TEST * PIXELS];
static int32_t train_y[N_TRAIN], test_y[N_TEST];

/* Lines of 784 pixels, 0 to 255, and a label; every fifth is held out. */
static bool read_digits(FILE *f)
{
    for (int i = 0; i < N; i++) {
        const bool held = i % 5 == 4;
        float *x = held ? &test_x[i / 5 * PIXELS] : &train_x[(i - i / 5) * PIXELS];
        int32_t *y = held ? &test_y[i / 5] : &train_y[i - i / 5];
        for (int k = 0; k < PIXELS; k++) {
            if (fscanf(f, "%f,", &x[k]) != 1)
                return false;
            x[k] /= 255;
        }
        if (fscanf(f, "%d", y) != 1)
            return false;
    }
    return true;
}

static ig_tensor *conv_relu_pool(ig_params *p, const char *name, ig_tensor *x, int64_t n)
{
    const ig_nn_conv_opts conv = {.n_out = n, .kernel = {3, 3}, .conv.pad = {1, 1}};
    const ig_pool_opts pool = {.kernel = {2, 2}};
    return ig_max_pool2d(ig_relu(ig_nn_conv2d(p, name, x, &conv)), &pool);
}

/* x [B,1,28,28] -> [B,10] */
static ig_tensor *network(ig_params *p, ig_tensor *x)
{
    x = conv_relu_pool(p, "conv1", x, 32);
    x = conv_relu_pool(p, "conv2", x, 64);
    x = ig_reshape(x, IG_SHAPE(ig_tensor_dim(x, 0), -1));
    x = ig_relu(ig_nn_linear(p, "hidden", x, 128, true));
    return ig_nn_linear(p, "out", x, C, true);
}

/* Read the images held out; says to each what it was taken for; the share that is right. */
static double read_test(ig_context *ig, ig_params *p, int32_t *taken_for)
{
    int right = 0;
    const bool was = ig_grad_enable(ig, false);
    for (int i = 0; i < N_TEST; i += EVAL) {
        ig_error err;
        ig_scope *scope = ig_scope_begin(ig);
        ig_tensor *x = ig_tensor_from(ig, IG_DTYPE_F32, IG_SHAPE(EVAL, 1, SIDE, SIDE),
                                      &test_x[i * PIXELS]);
        ig_tensor *best = ig_cast(ig_argmax(network(p, x), 1, false), IG_DTYPE_I32);
        learn_must(ig_tensor_read(best, taken_for + i, EVAL * sizeof *taken_for, &err),
                   &err);
        ig_scope_end(scope);
        for (int k = i; k < i + EVAL; k++)
            right += taken_for[k] == test_y[k];
    }
    ig_grad_enable(ig, was);
    return (double)right / N_TEST;
}

/* The first three that were misread, side by side; a character is two pixels high. */
static void show_mistakes(const int32_t *taken_for)
{
    int which[3], n = 0;
    for (int i = 0; i < N_TEST && n < 3; i++)
        if (taken_for[i] != test_y[i])
            which[n++] = i;
    for (int i = 0; i < n; i++)
        printf("a %d taken for a %d        ", (int)test_y[which[i]],
               (int)taken_for[which[i]]);
    for (int row = 4; row < SIDE - 4; row += 2) {
        printf("\n");
        for (int i = 0; i < n; i++)
            for (int k = 0; k < SIDE; k++) {
                const float *x = &test_x[which[i] * PIXELS + row * SIDE + k];
                putchar(" .:-=+*#%@"[(int)(4.99f * (x[0] + x[SIDE]))]);
            }
    }
    printf("\n");
}

int main(int argc, char **argv)
{
    const int n_steps = learn_argument(argc, argv, 1, 800);
    static int32_t taken_for[N_TEST];
    ig_context *ig;
    ig_params *p;
    ig_optimizer *opt;
    ig_program *program;
    ig_error err;
    if (!read_digits(stdin)) {
        fprintf(stderr,
                "wants mnist_5k.csv on standard input: 784 pixels and a label a line\n");
        return 2;
    }
    ig_optimizer_opts opts = ig_optimizer_defaults(IG_RULE_ADAMW);
    opts.lr = 2e-3;
    opts.schedule = (ig_schedule){IG_SCHEDULE_COSINE, .total = n_steps, .floor = 0.02};
    learn_must(ig_context_create(&ig, NULL, &err), &err);
    learn_must(ig_params_create(&p, ig, &err), &err);
    learn_must(ig_optimizer_create(&opt, ig, &opts, &err), &err);

    ig_tensor *x =
        ig_tensor_from(ig, IG_DTYPE_F32, IG_SHAPE(N_TRAIN, 1, SIDE, SIDE), train_x);
    ig_tensor *y = ig_tensor_from(ig, IG_DTYPE_I32, IG_SHAPE(N_TRAIN), train_y);
    network(p, ig_slice(x, 0, 0, 1, 1)); /* makes the parameters */
    learn_must(ig_optimizer_add_params(opt, p, &err), &err);

    /* One step, done and recorded. What is drawn in it is drawn anew at each replay. */
    learn_must(ig_capture_begin(ig, &err), &err);
    ig_tensor *which = learn_choose(ig, B, N_TRAIN);
    ig_tensor *z = network(p, ig_index_select(x, 0, which));
    ig_tensor *loss = ig_cross_entropy(z, ig_index_select(y, 0, which), NULL);
    ig_optimizer_clear_grads(opt);
    ig_backward(loss);
    ig_optimizer_step(opt);
    learn_must(ig_capture_end(&program, ig, &err), &err);

    const double seconds = learn_run(program, loss, n_steps);
    const double right = read_test(ig, p, taken_for);
    learn_check(ig);
    show_mistakes(taken_for);
    printf("%.3f of the %d images held out are read right\n", right, N_TEST);

    const double an_image = 2.0 * (784 * 9 * 32 + 196 * 288 * 64 + 3136 * 128 + 128 * 10);
    learn_speed(ig, B, "images", seconds, 3 * B * an_image,
                32.0 * (double)ig_params_elements(p));
    ig_program_destroy(program);
    ig_optimizer_destroy(opt);
    ig_params_destroy(p);
    ig_context_destroy(ig);
    return n_steps < 800 || right >= 0.97 ? 0 : 1;
}
