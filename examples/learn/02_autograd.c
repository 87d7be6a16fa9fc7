/* 02: the same network, with gradients from the record of its calls.
 *
 * The forward pass is all there is to write. Each call leaves a note of what it was given; ig_backward reads the
 * notes from the loss back, and does what `learn` of 01 did by hand.
 *
 *     gzip -dc digits.csv.gz | ./02_autograd
 */
#include "ingot/ingot.h"

#include <stdio.h>

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
    ig_tensor *which =
        ig_slice(ig_permutation(ig, N_TRAIN), 0, 0, B, 1); /* B different ones */
    ig_tensor *z = network(p, ig_index_select(x, 0, which));
    ig_tensor *loss = ig_cross_entropy(z, ig_index_select(y, 0, which), NULL);
    ig_optimizer_clear_grads(opt);
    ig_backward(loss);
    ig_optimizer_step(opt);
    const double value = ig_tensor_item(loss);
    ig_scope_end(scope);
    return value;
}

static ig_status train(double *share_out, ig_context *ig, uint64_t seed, ig_error *err)
{
    ig_params *p = NULL;
    ig_optimizer *opt = NULL;
    ig_optimizer_opts opts = ig_optimizer_defaults(IG_RULE_SGD);
    opts.lr = 0.3;
    ig_seed(ig, seed);
    ig_status status = ig_params_create(&p, ig, err);
    if (status == IG_OK)
        status = ig_optimizer_create(&opt, ig, &opts, err);
    if (status != IG_OK)
        goto done;
    ig_scope *scope = ig_scope_begin(ig);
    ig_tensor *x = ig_tensor_from(ig, IG_DTYPE_F32, IG_SHAPE(N_TRAIN, K), pixels);
    ig_tensor *y = ig_tensor_from(ig, IG_DTYPE_I32, IG_SHAPE(N_TRAIN), labels);
    network(p, ig_slice(x, 0, 0, 1, 1)); /* makes the parameters */
    for (int64_t i = 0; status == IG_OK && i < ig_params_count(p); i++) {
        ig_tensor *w = ig_params_tensor(p, i);
        status = ig_optimizer_add(opt, &w, NULL, 1, NULL, err);
    }
    double loss = 0;
    for (int i = 0; status == IG_OK && i < STEPS; i++) {
        loss += step(ig, p, opt, x, y) / 132;
        if (i % 132 == 131) { /* the curve, a bar a line */
            if (seed == 1)
                printf("step %4d  loss %.4f  %.*s\n", i + 1, loss,
                       loss > 2.4 ? 48 : (int)(20 * loss),
                       "################################################");
            loss = 0;
        }
    }
    ig_scope_end(scope);
    *share_out = share_right(ig, p);
    if (status == IG_OK)
        status = ig_context_status(ig); /* the first failure of any call above */
done:
    ig_optimizer_destroy(opt);
    ig_params_destroy(p);
    return status;
}

int main(void)
{
    ig_context *ig;
    ig_error err;
    double sum = 0, share;
    if (!read_digits(stdin)) {
        fprintf(stderr,
                "wants digits.csv on standard input: 64 pixels and a label a line\n");
        return 2;
    }
    ig_status status = ig_context_create(&ig, NULL, &err);
    for (uint64_t seed = 1; status == IG_OK && seed <= 5; seed++) {
        status = train(&share, ig, seed, &err);
        if (status != IG_OK)
            break;
        printf("seed %d: %.3f of the %d test images\n", (int)seed, share, N_TEST);
        sum += share;
    }
    if (status != IG_OK)
        fprintf(stderr, "%s\n",
                ig && ig_context_status(ig) ? ig_context_message(ig) : err.message);
    else
        printf("mean %.3f\n", sum / 5);
    ig_context_destroy(ig);
    return status == IG_OK && sum / 5 >= 0.90 ? 0 : 1;
}
