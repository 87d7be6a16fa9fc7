/* Train a network, save it, load it again:
 *     cc train.c -o train $(pkg-config --cflags --libs ingot) -lm
 *     ./train spirals.safetensors
 * Two spirals of points, told apart by two layers. No data is needed. */
#include <ingot/ingot.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { N = 512, STEPS = 600 };

static void must(ig_status status, const ig_error *err)
{
    if (status != IG_OK) {
        fprintf(stderr, "%s\n", err->message);
        exit(1);
    }
}

/* x [N,2] -> [N,2]. The first call makes the parameters, later ones find them. */
static ig_tensor *network(ig_params *p, ig_tensor *x)
{
    x = ig_relu(ig_nn_linear(p, "first", x, 64, true));
    x = ig_relu(ig_nn_linear(p, "second", x, 64, true));
    return ig_nn_linear(p, "out", x, 2, true);
}

/* The share of points that the larger output names. */
static double share_right(ig_params *p, ig_tensor *x, ig_tensor *y)
{
    ig_tensor *right = ig_equal(ig_argmax(network(p, x), 1, false), y);
    return ig_tensor_item(ig_mean(ig_cast(right, IG_DTYPE_F32), 0, NULL, false));
}

int main(int argc, char **argv)
{
    static float points[N * 2];
    static int32_t arms[N];
    ig_error err;
    ig_context *ig;
    ig_params *p, *again;
    ig_optimizer *opt;
    if (argc != 2)
        return fprintf(stderr, "usage: train FILE.safetensors\n"), 2;
    for (int i = 0; i < N; i++) {
        const double along = 0.2 + 0.8 * i / N, angle = 9 * along + 3.14159265 * (i % 2);
        points[2 * i] = (float)(along * cos(angle));
        points[2 * i + 1] = (float)(along * sin(angle));
        arms[i] = i % 2;
    }
    ig_optimizer_opts opts = ig_optimizer_defaults(IG_RULE_ADAMW);
    opts.lr = 1e-2;
    must(ig_context_create(&ig, NULL, &err), &err);
    ig_seed(ig, 1);
    must(ig_params_create(&p, ig, &err), &err);
    must(ig_optimizer_create(&opt, ig, &opts, &err), &err);
    ig_tensor *x = ig_tensor_from(ig, IG_DTYPE_F32, IG_SHAPE(N, 2), points);
    ig_tensor *y = ig_tensor_from(ig, IG_DTYPE_I32, IG_SHAPE(N), arms);
    network(p, x);
    must(ig_optimizer_add_params(opt, p, &err), &err);

    for (int i = 1; i <= STEPS; i++) {
        ig_scope *scope = ig_scope_begin(ig); /* owns what the step makes */
        ig_tensor *loss = ig_cross_entropy(network(p, x), y, NULL);
        ig_optimizer_clear_grads(opt);
        ig_backward(loss);
        ig_optimizer_step(opt);
        if (i % 100 == 0)
            printf("step %d  loss %.4f\n", i, ig_tensor_item(loss));
        ig_scope_end(scope);
    }
    const double trained = share_right(p, x, y);
    must(ig_params_save(p, argv[1], &err), &err);

    /* another network of the same form: made by a run, then filled from the file */
    must(ig_params_create(&again, ig, &err), &err);
    network(again, x);
    must(ig_params_load(again, argv[1], &err), &err);
    printf("right: %.3f, from the file: %.3f\n", trained, share_right(again, x, y));
    if (ig_context_status(ig)) /* the first failure of any call above */
        return fprintf(stderr, "%s\n", ig_context_message(ig)), 1;
    ig_optimizer_destroy(opt);
    ig_params_destroy(again);
    ig_params_destroy(p);
    ig_context_destroy(ig);
    return 0;
}
