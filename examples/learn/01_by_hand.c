/* 01: a network by hand.
 *
 * Two layers learn to read digits: images of 8 x 8 pixels, 0 to 16 each, ten classes.
 *
 *     h = relu(x W1 + b1)      x [B,64], W1 [64,32]
 *     z = h W2 + b2            z [B,10]
 *     loss = mean of -log softmax(z)[label]
 *
 * Everything is written out, backwards too; the library only says, at the end, what the machine could do. The rule that makes each line of
 * `learn`: the gradient of a product x W with respect to W is x^T dz, with respect to x it is dz W^T; of
 * cross entropy behind softmax it is p - onehot(label).
 *
 *     gzip -dc digits.csv.gz | ./01_by_hand [SEEDS]
 */
#include "learn.h"

#include <math.h>
#include <string.h>

enum { K = 64, H = 32, C = 10, B = 32, N_TRAIN = 1437, N_TEST = 360, EPOCHS = 30 };

static float pixels[N_TRAIN + N_TEST][K];
static int labels[N_TRAIN + N_TEST];

/* The weights; the same struct holds their gradients. */
typedef struct network {
    float w1[K][H], b1[H], w2[H][C], b2[C];
} network;

/* Lines of 64 pixels and a label. */
static int read_digits(FILE *f)
{
    for (int i = 0; i < N_TRAIN + N_TEST; i++) {
        for (int k = 0; k < K; k++) {
            if (fscanf(f, "%f,", &pixels[i][k]) != 1)
                return 0;
            pixels[i][k] /= 16;
        }
        if (fscanf(f, "%d", &labels[i]) != 1 || labels[i] < 0 || labels[i] >= C)
            return 0;
    }
    return 1;
}

/* Uniform in -1 .. 1, by a generator of one line (Knuth's MMIX numbers). */
static float draw(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (float)(*state >> 40) / 8388608.0f - 1;
}

/* Small and different, so that units do not all learn the same: within 1 / sqrt(inputs). */
static void start(network *n, uint64_t *state)
{
    memset(n, 0, sizeof *n);
    for (int k = 0; k < K; k++)
        for (int j = 0; j < H; j++)
            n->w1[k][j] = draw(state) / sqrtf(K);
    for (int j = 0; j < H; j++)
        for (int c = 0; c < C; c++)
            n->w2[j][c] = draw(state) / sqrtf(H);
}

/* One image: h [H] and the probabilities p [C]. */
static void forward(const network *n, const float *x, float *h, float *p)
{
    for (int j = 0; j < H; j++) {
        float sum = n->b1[j];
        for (int k = 0; k < K; k++)
            sum += x[k] * n->w1[k][j];
        h[j] = sum > 0 ? sum : 0;
    }
    float most = -INFINITY, total = 0;
    for (int c = 0; c < C; c++) {
        p[c] = n->b2[c];
        for (int j = 0; j < H; j++)
            p[c] += h[j] * n->w2[j][c];
        most = fmaxf(most, p[c]);
    }
    for (int c = 0; c < C; c++)
        total += p[c] = expf(p[c] - most); /* without `most`, exp overflows */
    for (int c = 0; c < C; c++)
        p[c] /= total;
}

/* Add the gradients of one image's loss to d; returns the loss. */
static float learn(const network *n, network *d, const float *x, int label)
{
    float h[H], p[C], dz[C], dh[H];
    forward(n, x, h, p);
    for (int c = 0; c < C; c++) {
        dz[c] = p[c] - (c == label ? 1.0f : 0.0f);
        d->b2[c] += dz[c];
    }
    for (int j = 0; j < H; j++) {
        dh[j] = 0;
        for (int c = 0; c < C; c++) {
            d->w2[j][c] += h[j] * dz[c];
            dh[j] += n->w2[j][c] * dz[c];
        }
        dh[j] = h[j] > 0 ? dh[j] : 0; /* where relu was flat, nothing flows */
        d->b1[j] += dh[j];
    }
    for (int k = 0; k < K; k++)
        for (int j = 0; j < H; j++)
            d->w1[k][j] += x[k] * dh[j];
    return -logf(p[label]);
}

/* w = w - rate / B * gradient: both structs are rows of floats. */
static void descend(network *n, const network *d, float rate)
{
    float *w = &n->w1[0][0];
    const float *g = &d->w1[0][0];
    for (size_t i = 0; i < sizeof *n / sizeof *w; i++)
        w[i] -= rate / B * g[i];
}

static float share_right(const network *n)
{
    float h[H], p[C];
    int right = 0;
    for (int i = N_TRAIN; i < N_TRAIN + N_TEST; i++) {
        forward(n, pixels[i], h, p);
        int best = 0;
        for (int c = 1; c < C; c++)
            best = p[c] > p[best] ? c : best;
        right += best == labels[i];
    }
    return (float)right / N_TEST;
}

static float train(uint64_t seed)
{
    static network n, d;
    uint64_t state = seed;
    float first = 0;
    start(&n, &state);
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        float loss = 0;
        for (int step = 0; step < N_TRAIN / B; step++) {
            memset(&d, 0, sizeof d);
            for (int b = 0; b < B; b++) {
                const int i = (int)((draw(&state) + 1) / 2 * N_TRAIN) % N_TRAIN;
                loss += learn(&n, &d, pixels[i], labels[i]);
            }
            descend(&n, &d, 0.3f);
        }
        loss /= (float)(N_TRAIN / B * B);
        first = epoch ? first : loss;
        if (seed == 1 && epoch % 3 == 2)
            learn_curve((epoch + 1) * (N_TRAIN / B), (double)loss, (double)first);
    }
    return share_right(&n);
}

int main(int argc, char **argv)
{
    const int n_seeds = learn_argument(argc, argv, 1, 5);
    float sum = 0;
    ig_context *ig;
    ig_error err;
    if (!read_digits(stdin)) {
        fprintf(stderr,
                "wants digits.csv on standard input: 64 pixels and a label a line\n");
        return 2;
    }
    const double begin = learn_seconds();
    for (int seed = 1; seed <= n_seeds; seed++) {
        const float right = train((uint64_t)seed);
        printf("seed %d: %.3f of the %d test images\n", seed, (double)right, N_TEST);
        sum += right;
    }
    const double seconds =
        (learn_seconds() - begin) / ((double)n_seeds * EPOCHS * (N_TRAIN / B));
    printf("mean %.3f\n", (double)(sum / (float)n_seeds));
    const ig_context_opts one = {.n_threads = 1};
    learn_must(ig_context_create(&ig, &one, &err), &err);
    learn_speed(ig, B, "images", seconds, B * 6.0 * (K * H + H * C), 2.0 * sizeof(network));
    ig_context_destroy(ig);
    return sum / (float)n_seeds >= 0.90f ? 0 : 1;
}
