/* 02: the same network, with gradients from the record of its calls.
 *
 * The forward pass is all there is to write. Each call leaves a note of what it was given; ig_backward reads the
 * notes from the loss back, and does what `learn` of 01 did by hand.
 *
 *     gzip -dc digits.csv.gz | ./02_autograd [SEEDS]
 */
#include "learn.h"

enum { K = 64, H = 32, C = 10, B = 32, N_TRAIN = 1437, N_TEST = 360, STEPS = 1320 };

static float pixels[(N_TRAIN + N_TEST) * K];
static int32_t labels[N_TRAIN + N_TEST];

/* Lines of 64 pixels and a label. */
static bool read_digits(FILE *f)
{
    for (int i = 0; i < N_TRAIN + N_TEST; i++) {
        for (int k = 0; k < K; k++) {
            if (fscanf(f, "%f,", &pixels[i * K + k]) != 1)
                return false;
            pixels[i * K + k] /= 16;
        }
        if (fscanf(f, "%d", &labels[i]) != 1)
            return false;
    }
    return true;
}

/* x [B,64] -> [B,10]. The first call makes "hidden" and "out", later ones find them. */
static ig_tensor *network(ig_params *p, ig_tensor *x)
{
    ig_tensor *h = ig_relu(ig_nn_linear(p, "hidden", x, H, true));
    return ig_nn_linear(p, "out", h, C, true);
}

/* The share of the test images that the largest output names. */
static double share_right(ig_context *ig, ig_params *p)
{
    ig_scope *scope = ig_scope_begin(ig);
    const bool was = ig_grad_enable(ig, false); /* no notes: there will be no backward */
    ig_tensor *x =
        ig_tensor_from(ig, IG_DTYPE_F32, IG_SHAPE(N_TEST, K), &pixels[N_TRAIN * K]);
    ig_tensor *y = ig_tensor_from(ig, IG_DTYPE_I32, IG_SHAPE(N_TEST), &labels[N_TRAIN]);
    ig_tensor *right = ig_equal(ig_argmax(network(p, x), 1, false), y);
    const double share =
        ig_tensor_item(ig_mean(ig_cast(right, IG_DTYPE_F32), 0, NULL, false));
    ig_grad_enable(ig, was);
    ig_scope_end(scope);
    return share;
}

/* One step on B random images; the loss. */
static double step(ig_context *ig, ig_params *p, ig_optimizer *opt, ig_tensor *x,
                   ig_tensor *y)
{
    ig_scope *scope = ig_scope_begin(ig); /* owns all that the step makes */
    ig_tensor *which = learn_choose(ig, B, N_TRAIN);
    ig_tensor *z = network(p, ig_index_select(x, 0, which));
    ig_tensor *loss = ig_cross_entropy(z, ig_index_select(y, 0, which), NULL);
    ig_optimizer_clear_grads(opt);
    ig_backward(loss);
    ig_optimizer_step(opt);
    const double value = ig_tensor_item(loss);
    ig_scope_end(scope);
    return value;
}

/* A network from start values of its own; the share of the test images that it gets right. */
static double train(ig_context *ig, uint64_t seed)
{
    ig_error err;
    ig_params *p;
    ig_optimizer *opt;
    ig_optimizer_opts opts = ig_optimizer_defaults(IG_RULE_SGD);
    opts.lr = 0.3;
    ig_seed(ig, seed);
    learn_must(ig_params_create(&p, ig, &err), &err);
    learn_must(ig_optimizer_create(&opt, ig, &opts, &err), &err);
    ig_scope *scope = ig_scope_begin(ig);
    ig_tensor *x = ig_tensor_from(ig, IG_DTYPE_F32, IG_SHAPE(N_TRAIN, K), pixels);
    ig_tensor *y = ig_tensor_from(ig, IG_DTYPE_I32, IG_SHAPE(N_TRAIN), labels);
    network(p, ig_slice(x, 0, 0, 1, 1)); /* makes the parameters */
    learn_must(ig_optimizer_add_params(opt, p, &err), &err);
    double loss = 0, first = 0;
    for (int i = 1; i <= STEPS; i++) {
        loss += step(ig, p, opt, x, y) / 132;
        if (i % 132 == 0) {
            first = first > 0 ? first : loss;
            if (seed == 1)
                learn_curve(i, loss, first);
            loss = 0;
        }
    }
    ig_scope_end(scope);
    const double right = share_right(ig, p);
    learn_check(ig); /* the first failure of any call above */
    ig_optimizer_destroy(opt);
    ig_params_destroy(p);
    return right;
}

int main(int argc, char **argv)
{
    const int n_seeds = learn_argument(argc, argv, 1, 5);
    ig_context *ig;
    ig_error err;
    double sum = 0;
    if (!read_digits(stdin)) {
        fprintf(stderr,
                "wants digits.csv on standard input: 64 pixels and a label a line\n");
        return 2;
    }
    learn_must(ig_context_create(&ig, NULL, &err), &err);
    const double begin = learn_seconds();
    for (int seed = 1; seed <= n_seeds; seed++) {
        const double right = train(ig, (uint64_t)seed);
        printf("seed %d: %.3f of the %d test images\n", seed, right, N_TEST);
        sum += right;
    }
    const double seconds = (learn_seconds() - begin) / (n_seeds * STEPS);
    printf("mean %.3f\n", sum / n_seeds);
    learn_speed(ig, B, "images", seconds, B * 6.0 * (K * H + H * C),
                16.0 * (K * H + H + H * C + C));
    ig_context_destroy(ig);
    return sum / n_seeds >= 0.90 ? 0 : 1;
}
