/* Mixed precision by rule: what rows take and give, gradients that pass casts by, copies of parameters kept
 * beside them, captures, recompute, second order, faults. */
#include "ingot/ingot.h"
#include "infer/fault_allocator.h"
#include "kernel/kernel.h"
#include "op/autocast.h"
#include "op/network.h"
#include "op/product.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static ig_context *ctx[2]; /* of one thread and of two */

static int begin(void **state)
{
    (void)state;
    for (int t = 0; t < 2; t++)
        if (ig_context_create(&ctx[t],
                              &(ig_context_opts){.n_threads = t + 1, .poison = true},
                              NULL) != IG_OK)
            return 1;
    return 0;
}
static int end(void **state)
{
    (void)state;
    ig_context_destroy(ctx[0]);
    ig_context_destroy(ctx[1]);
    return 0;
}

static double draw(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(*state >> 11) / 9007199254740992.0 * 2 - 1;
}

static ig_tensor *values(ig_context *c, int n_dims, const int64_t *dims, uint64_t seed)
{
    int64_t n = 1;
    for (int i = 0; i < n_dims; i++)
        n *= dims[i];
    float *data = malloc((size_t)n * sizeof *data + 1);
    for (int64_t i = 0; i < n; i++)
        data[i] = (float)draw(&seed);
    ig_tensor *x = ig_tensor_from(c, IG_DTYPE_F32, n_dims, dims, data);
    free(data);
    return x;
}

static ig_tensor *leaf(ig_context *c, int n_dims, const int64_t *dims, uint64_t seed)
{
    return ig_tensor_require_grad(values(c, n_dims, dims, seed), true);
}

static float *read_f32(ig_tensor *x)
{
    const size_t bytes = (size_t)ig_tensor_count(x) * sizeof(float);
    float *data = malloc(bytes + 1);
    assert_int_equal(ig_tensor_read(ig_cast(x, IG_DTYPE_F32), data, bytes, NULL), IG_OK);
    return data;
}

/* max|a - b| / max|b| */
static double apart(ig_tensor *a, ig_tensor *b)
{
    assert_true(a && b && ig_tensor_count(a) == ig_tensor_count(b));
    float *x = read_f32(a), *y = read_f32(b);
    double most = 0, scale = 1e-30;
    for (int64_t i = 0; i < ig_tensor_count(a); i++) {
        const double d = fabs((double)x[i] - (double)y[i]);
        most = d <= most ? most : d;
        scale = fmax(scale, fabs((double)y[i]));
    }
    free(x);
    free(y);
    return most / scale;
}

static double bf16_of(double x)
{
    return (double)ig__bf16_to_f32(ig__f32_to_bf16((float)x));
}

/* ---- the rule ------------------------------------------------------------------------------------------ */

static void test_rule(void **state)
{
    (void)state;
    ig_context *c = ctx[1];
    ig_scope *scope = ig_scope_begin(c);
    ig_tensor *x = values(c, 2, (const int64_t[]){5, 7}, 1);
    ig_tensor *w = leaf(c, 2, (const int64_t[]){3, 7}, 2);
    ig_tensor *b = leaf(c, 1, (const int64_t[]){3}, 3);
    ig_tensor *half = ig_cast(x, IG_DTYPE_BF16), *wide = ig_cast(x, IG_DTYPE_F64);
    ig_tensor *ids =
        ig_tensor_from(c, IG_DTYPE_I64, 1, (const int64_t[]){2}, (const int64_t[]){1, 0});
    const ig_dtype kinds[2] = {IG_DTYPE_BF16, IG_DTYPE_F16};
    for (int i = 0; i < 2; i++) {
        const ig_dtype low = kinds[i];
        assert_int_equal(ig_autocast(c, low), IG_DTYPE_F32);
        /* products */
        ig_tensor *y = ig_linear(x, w, b);
        assert_int_equal(ig_tensor_dtype(y), low);
        assert_int_equal(ig_tensor_dtype(ig_linear(half, w, NULL)), low);
        assert_int_equal(ig_tensor_dtype(ig__matmul_bias(x, ig_transpose(w, 0, 1), b)),
                         low);
        assert_int_equal(ig_tensor_dtype(ig_matmul(x, ig_transpose(w, 0, 1))), low);
        assert_int_equal(ig_tensor_dtype(ig_matmul(ig_select(x, 0, 0), ig_select(x, 0, 1))),
                         low);
        ig_tensor *q = ig_reshape(ig_slice(x, 1, 0, 4, 1), IG_SHAPE(1, 1, 5, 4));
        assert_int_equal(ig_tensor_dtype(ig_attention(q, q, q, NULL)), low);
        ig_tensor *joined = ig_reshape(ig_slice(x, 1, 0, 6, 1), IG_SHAPE(1, 5, 3, 1, 2));
        assert_int_equal(ig_tensor_dtype(ig__attention_joined(joined, true)), low);
        assert_int_equal(ig_tensor_dtype(ig_conv2d(q, ig_slice(q, 2, 0, 2, 1), NULL, NULL)),
                         low);
        assert_int_equal(ig_tensor_dtype(ig_einsum("ab,cb->ac", (ig_tensor *[]){x, w}, 2)),
                         low);
        /* what needs digits */
        assert_int_equal(ig_tensor_dtype(ig_softmax(y, -1)), IG_DTYPE_F32);
        assert_int_equal(ig_tensor_dtype(ig_sum(y, 0, NULL, false)), IG_DTYPE_F32);
        assert_int_equal(ig_tensor_dtype(ig_mean(y, 0, NULL, false)), IG_DTYPE_F32);
        assert_int_equal(ig_tensor_dtype(ig_cumsum(y, 0)), IG_DTYPE_F32);
        assert_int_equal(ig_tensor_dtype(ig_exp(y)), IG_DTYPE_F32);
        assert_int_equal(ig_tensor_dtype(ig_log(ig_abs(y))), IG_DTYPE_F32);
        assert_int_equal(ig_tensor_dtype(ig_pow(ig_abs(y), y)), IG_DTYPE_F32);
        assert_int_equal(ig_tensor_dtype(ig_layer_norm(y, NULL, NULL, 1e-5)), IG_DTYPE_F32);
        assert_int_equal(ig_tensor_dtype(ig_rms_norm(y, NULL, 1e-5)), IG_DTYPE_F32);
        assert_int_equal(ig_tensor_dtype(ig_norm(y, 0, NULL, false)), IG_DTYPE_F32);
        assert_int_equal(ig_tensor_dtype(ig_mse(y, y)), IG_DTYPE_F32);
        assert_int_equal(ig_tensor_dtype(ig_huber(y, y, 1)), IG_DTYPE_F32);
        assert_int_equal(ig_tensor_dtype(ig_bce_with_logits(y, y)), IG_DTYPE_F32);
        assert_int_equal(
            ig_tensor_dtype(ig_cross_entropy(ig_slice(y, 0, 0, 2, 1), ids, NULL)),
            IG_DTYPE_F32);
        assert_int_equal(ig_tensor_dtype(ig_linear_cross_entropy(ig_slice(x, 0, 0, 2, 1), w,
                                                                 NULL, ids, NULL)),
                         IG_DTYPE_F32);
        /* the others, and what the rule leaves alone */
        assert_int_equal(ig_tensor_dtype(ig_gelu(y)), low);
        assert_int_equal(ig_tensor_dtype(ig_add(y, y)), low);
        assert_int_equal(ig_tensor_dtype(ig_relu(x)), IG_DTYPE_F32);
        assert_int_equal(ig_tensor_dtype(ig_matmul(wide, ig_transpose(wide, 0, 1))),
                         IG_DTYPE_F64);
        assert_int_equal(ig_tensor_dtype(ig_sum(wide, 0, NULL, false)), IG_DTYPE_F64);
        assert_int_equal(ig_tensor_dtype(ig_sum(ids, 0, NULL, false)), IG_DTYPE_I64);
        assert_int_equal(ig_autocast(c, IG_DTYPE_F32), low);
        assert_int_equal(ig_tensor_dtype(ig_linear(x, w, b)), IG_DTYPE_F32);
    }
    assert_int_equal(ig_context_status(c), IG_OK);
    assert_int_equal(ig_autocast(c, IG_DTYPE_I32), IG_DTYPE_F32);
    assert_int_equal(ig_context_status(c), IG_ERR_ARGUMENT);
    assert_non_null(strstr(ig_context_message(c), "i32"));
    ig_context_clear(c);
    assert_int_equal(ig_autocast(c, IG_DTYPE_F32), IG_DTYPE_F32);
    ig_scope_end(scope);
}

/* The table of docs/tensors.md names exactly the rows that are not of the third kind. */
static void test_documented(void **state)
{
    (void)state;
    FILE *f = fopen(IG_SOURCE_DIR "/docs/tensors.md", "r");
    assert_non_null(f);
    char line[4096], low[4096] = "", high[4096] = "";
    while (fgets(line, sizeof line, f)) {
        if (!strncmp(line, "| 16 bits |", 11))
            strcpy(low, line);
        if (!strncmp(line, "| f32 |", 7) && strstr(line, "`exp`"))
            strcpy(high, line);
    }
    fclose(f);
    assert_true(*low && *high);
    int n_low = 0, n_high = 0, n_named = 0;
    for (const ig__op *const *at = ig__op_table; *at; at++) {
        char name[80];
        snprintf(name, sizeof name, "`%s`", (*at)->name);
        const bool is_low = (*at)->precision == IG_PRECISION_LOW;
        const bool is_high = (*at)->precision == IG_PRECISION_HIGH;
        if (!strstr(low, name) != !is_low || !strstr(high, name) != !is_high)
            fail_msg("docs/tensors.md and the row of %s differ", (*at)->name);
        n_low += is_low;
        n_high += is_high;
    }
    for (const char *p = low; (p = strchr(p, '`')); p++)
        n_named++;
    for (const char *p = high; (p = strchr(p, '`')); p++)
        n_named++;
    assert_int_equal(n_named, 2 * (n_low + n_high)); /* no name that is no row */
}

/* ---- gradients --------------------------------------------------------------------------------------- */

/* loss = sum(linear(x, w, b) * d), x made by a row: with the operands of products rounded, every gradient is a
 * sum that is not rounded again. */
static void test_gradients_are_wide(void **state)
{
    (void)state;
    enum { M = 33, N = 5, K = 19 };
    for (int t = 0; t < 2; t++) {
        ig_context *c = ctx[t];
        ig_scope *scope = ig_scope_begin(c);
        ig_tensor *x = leaf(c, 2, (const int64_t[]){M, K}, 1);
        ig_tensor *w = leaf(c, 2, (const int64_t[]){N, K}, 2);
        ig_tensor *b = leaf(c, 1, (const int64_t[]){N}, 3);
        ig_tensor *d = values(c, 2, (const int64_t[]){M, N}, 4);
        ig_autocast(c, IG_DTYPE_BF16);
        ig_tensor *y = ig_linear(ig_scale(x, 2), w, b);
        ig_autocast(c, IG_DTYPE_F32);
        assert_int_equal(ig_backward(ig_sum(ig_mul(y, d), 0, NULL, false)), IG_OK);
        float *xs = read_f32(x), *ws = read_f32(w), *ds = read_f32(d), *bs = read_f32(b);
        float *ys = read_f32(y), *gx = read_f32(ig_tensor_grad(x));
        float *gw = read_f32(ig_tensor_grad(w)), *gb = read_f32(ig_tensor_grad(b));
        assert_int_equal(ig_tensor_dtype(ig_tensor_grad(w)), IG_DTYPE_F32);
        bool wide = false;
        for (int i = 0; i < M; i++)
            for (int n = 0; n < N; n++) {
                double sum = (double)bs[n];
                for (int k = 0; k < K; k++)
                    sum +=
                        bf16_of(2 * (double)xs[i * K + k]) * bf16_of((double)ws[n * K + k]);
                assert_true(fabs((double)ys[i * N + n] - sum) <= fabs(sum) / 256 + 1e-6);
            }
        for (int n = 0; n < N; n++) {
            double bias = 0;
            for (int k = 0; k < K; k++) {
                double sum = 0;
                for (int i = 0; i < M; i++)
                    sum +=
                        bf16_of((double)ds[i * N + n]) * bf16_of(2 * (double)xs[i * K + k]);
                assert_true(fabs((double)gw[n * K + k] - sum) < 2e-6 * M);
                wide |= (double)gw[n * K + k] != bf16_of((double)gw[n * K + k]);
            }
            for (int i = 0; i < M; i++)
                bias += bf16_of((double)ds[i * N + n]);
            assert_true(fabs((double)gb[n] - bias) < 1e-6 * M);
        }
        for (int i = 0; i < M; i++)
            for (int k = 0; k < K; k++) {
                double sum = 0;
                for (int n = 0; n < N; n++)
                    sum += bf16_of((double)ds[i * N + n]) * bf16_of((double)ws[n * K + k]);
                assert_true(fabs((double)gx[i * K + k] - 2 * sum) < 1e-5);
            }
        assert_true(wide);
        free(xs), free(ws), free(ds), free(bs), free(ys), free(gx), free(gw), free(gb);
        ig_scope_end(scope);
        assert_int_equal(ig_context_status(c), IG_OK);
    }
}

/* ---- a network with a row of each kind ---------------------------------------------------------------- */

enum { B = 2, T = 6, D = 8, V = 11, N_WEIGHTS = 6 };

typedef struct net {
    ig_tensor *w
        [N_WEIGHTS]; /* table [V,D], qkv [3D,D], out [D,D], conv [D,D,3], gain [D], bias [D] */
    ig_tensor *ids, *targets;
} net;

static net make_net(ig_context *c)
{
    static const int64_t shapes[N_WEIGHTS][3] = {{V, D},    {3 * D, D}, {D, D},
                                                 {D, D, 3}, {D},        {D}};
    static const int n_dims[N_WEIGHTS] = {2, 2, 2, 3, 1, 1};
    int64_t ids[B * T], next[B * T];
    net n;
    for (int i = 0; i < N_WEIGHTS; i++)
        n.w[i] = leaf(c, n_dims[i], shapes[i], (uint64_t)i + 10);
    for (int i = 0; i < B * T; i++) {
        ids[i] = i * 7 % V;
        next[i] = (i * 5 + 3) % V;
    }
    n.ids = ig_tensor_from(c, IG_DTYPE_I64, IG_SHAPE(B, T), ids);
    n.targets = ig_tensor_from(c, IG_DTYPE_I64, IG_SHAPE(B * T), next);
    return n;
}

/* x [B*T,D] -> the same, by attention and a convolution along the tokens */
static ig_tensor *middle(void *user, ig_tensor *const *x, int n_in)
{
    (void)n_in;
    const net *n = user;
    ig_tensor *h = ig_layer_norm(x[0], n->w[4], n->w[5], 1e-5);
    h = ig_reshape(ig_linear(h, n->w[1], NULL), IG_SHAPE(B, T, 3, 2, D / 2));
    h = ig_permute(h, 5, (const int[]){2, 0, 3, 1, 4});
    ig_tensor *y = ig_attention(ig_select(h, 0, 0), ig_select(h, 0, 1), ig_select(h, 0, 2),
                                &(ig_attention_opts){.causal = true});
    y = ig_reshape(ig_transpose(y, 1, 2), IG_SHAPE(B, T, D));
    y = ig_transpose(
        ig_conv1d(ig_transpose(y, 1, 2), n->w[3], n->w[5], &(ig_conv_opts){.pad = {1}}), 1,
        2);
    y = ig_gelu(ig_matmul(ig_reshape(y, IG_SHAPE(B * T, D)), n->w[2]));
    return ig_add(x[0], y);
}

typedef enum kind { PLAIN, RECOMPUTE, FUSED } kind;

static ig_tensor *loss_of(net *n, kind how)
{
    ig_tensor *x = ig_reshape(ig_embedding(n->ids, n->w[0]), IG_SHAPE(B * T, D));
    x = how == RECOMPUTE ? ig_recompute(middle, n, &x, 1) : middle(n, &x, 1);
    if (how == FUSED)
        return ig_linear_cross_entropy(x, n->w[0], NULL, n->targets, NULL);
    return ig_cross_entropy(ig_linear(x, n->w[0], NULL), n->targets, NULL);
}

static ig_tensor *loss_in(net *n, ig_dtype dtype, kind how)
{
    ig_context *c = ig_tensor_context(n->ids);
    const ig_dtype was = ig_autocast(c, dtype);
    ig_tensor *loss = loss_of(n, how);
    ig_autocast(c, was);
    return loss;
}

/* Loss, then all gradients. */
static void gradients_of(ig_tensor **out, net *n, ig_dtype dtype, kind how)
{
    out[0] = loss_in(n, dtype, how);
    assert_int_equal(ig_backward(out[0]), IG_OK);
    for (int i = 0; i < N_WEIGHTS; i++) {
        assert_int_equal(ig_tensor_dtype(ig_tensor_grad(n->w[i])), IG_DTYPE_F32);
        out[1 + i] = ig_copy(ig_tensor_grad(n->w[i]));
        ig_tensor_clear_grad(n->w[i]);
    }
}

static void same_bits(ig_tensor *a, ig_tensor *b)
{
    float *x = read_f32(a), *y = read_f32(b);
    assert_memory_equal(x, y, (size_t)ig_tensor_count(a) * sizeof *x);
    free(x);
    free(y);
}

/* 16 bits are near f32; recompute gives the same bits; one thread gives those of two. */
static void test_network(void **state)
{
    (void)state;
    ig_tensor *seen[2][2][N_WEIGHTS + 1];
    ig_scope *scopes[2];
    for (int t = 0; t < 2; t++) {
        scopes[t] = ig_scope_begin(ctx[t]);
        net n = make_net(ctx[t]);
        for (kind how = PLAIN; how <= FUSED; how++) {
            ig_tensor *f32[N_WEIGHTS + 1], *low[N_WEIGHTS + 1];
            gradients_of(f32, &n, IG_DTYPE_F32, how);
            for (int half = 0; half < 2; half++) {
                gradients_of(low, &n, half ? IG_DTYPE_F16 : IG_DTYPE_BF16, how);
                for (int i = 0; i < N_WEIGHTS + 1; i++) {
                    const double error = apart(low[i], f32[i]);
                    if (!(error < (half ? 0.01 : 0.05)) || error == 0)
                        fail_msg("%s, kind %d, tensor %d: %g", half ? "f16" : "bf16", how,
                                 i, error);
                    if (how == PLAIN)
                        seen[t][half][i] = low[i];
                    if (how == RECOMPUTE)
                        same_bits(low[i], seen[t][half][i]);
                }
            }
        }
        assert_int_equal(ig_context_status(ctx[t]), IG_OK);
    }
    for (int half = 0; half < 2; half++)
        for (int i = 0; i < N_WEIGHTS + 1; i++)
            same_bits(seen[0][half][i], seen[1][half][i]);
    ig_scope_end(scopes[0]);
    ig_scope_end(scopes[1]);
}

/* d/dw of sum((d loss / dw)^2), near that of f32 */
static void test_second_order(void **state)
{
    (void)state;
    ig_context *c = ctx[0];
    ig_scope *scope = ig_scope_begin(c);
    ig_tensor *w = leaf(c, 2, (const int64_t[]){4, 6}, 3), *x, *got[2], *first, *loss;
    x = values(c, 2, (const int64_t[]){9, 6}, 4);
    for (int low = 0; low < 2; low++) {
        ig_autocast(c, low ? IG_DTYPE_BF16 : IG_DTYPE_F32);
        ig_tensor *y = ig_tanh(ig_linear(x, w, NULL));
        loss = ig_sum(ig_square(ig_matmul(y, w)), 0, NULL, false);
        ig_autocast(c, IG_DTYPE_F32);
        assert_int_equal(ig_gradients(&first, &w, 1, &loss, NULL, 1,
                                      &(ig_backward_opts){.record = true}),
                         IG_OK);
        loss = ig_sum(ig_square(first), 0, NULL, false);
        assert_int_equal(ig_gradients(&got[low], &w, 1, &loss, NULL, 1, NULL), IG_OK);
        assert_int_equal(ig_tensor_dtype(got[low]), IG_DTYPE_F32);
    }
    assert_true(apart(got[1], got[0]) < 0.05);
    ig_scope_end(scope);
}

/* ---- copies of parameters ----------------------------------------------------------------------------- */

static double product_of(ig_context *c, ig_tensor *x, ig_tensor *w)
{
    ig_autocast(c, IG_DTYPE_BF16);
    const double y = ig_tensor_item(ig_linear(x, w, NULL));
    ig_autocast(c, IG_DTYPE_F32);
    return y;
}

static void test_copies(void **state)
{
    (void)state;
    ig_context *c = ctx[0];
    ig_scope *scope = ig_scope_begin(c);
    const float one = 1, two = 2, three = 3;
    ig_tensor *x = ig_tensor_from(c, IG_DTYPE_F32, IG_SHAPE(1, 1), &one);
    ig_tensor *w =
        ig_tensor_require_grad(ig_tensor_from(c, IG_DTYPE_F32, IG_SHAPE(1, 1), &two), true);
    assert_true(product_of(c, x, w) == 2);
    const ig_tensor *low = w->low;
    assert_non_null(low);
    assert_true(product_of(c, x, w) == 2 && w->low == low && ig__low_is_fresh(w));
    assert_null(x->low); /* belongs to a scope: no parameter */
    /* every way to write it */
    assert_int_equal(ig_tensor_write(w, &three, sizeof three, NULL), IG_OK);
    assert_true(product_of(c, x, w) == 3);
    *(float *)ig_tensor_data(w) = 4;
    assert_true(product_of(c, x, w) == 4);
    ig_grad_enable(c, false);
    ig_add_into(w, x);
    assert_true(product_of(c, x, w) == 5);
    ig_fill(ig_select(w, 0, 0), 6);
    assert_true(product_of(c, x, w) == 6);
    ig_grad_enable(c, true);
    assert_true(product_of(c, x, ig_transpose(w, 0, 1)) == 6 && w->low == low);
    /* an optimiser writes both, and a skipped step neither */
    ig_optimizer *opt;
    ig_optimizer_opts o = ig_optimizer_defaults(IG_RULE_ADAMW);
    o.lr = 1;
    o.weight_decay = 0;
    o.check_finite = true;
    assert_int_equal(ig_optimizer_create(&opt, c, &o, NULL), IG_OK);
    assert_int_equal(ig_optimizer_add(opt, &w, NULL, 1, NULL, NULL), IG_OK);
    ig_backward(ig_sum(w, 0, NULL, false));
    assert_int_equal(ig_optimizer_step(opt), IG_OK);
    assert_true(ig__low_is_fresh(w) && ig_tensor_item(w->low) == 5);
    assert_true(product_of(c, x, w) == 5);
    ig_optimizer_clear_grads(opt);
    ig_backward(ig_scale(ig_sum(w, 0, NULL, false), HUGE_VAL));
    assert_int_equal(ig_optimizer_step(opt), IG_OK);
    assert_true(ig_optimizer_get_stats(opt).last_skipped && product_of(c, x, w) == 5);
    ig_optimizer_destroy(opt);
    assert_int_equal(ig_context_status(c), IG_OK);
    ig_scope_end(scope);
}

/* ---- captures ------------------------------------------------------------------------------------------- */

static ig_tensor *train_step(net *n, ig_optimizer *opt, ig_dtype dtype)
{
    ig_optimizer_clear_grads(opt);
    ig_tensor *loss = loss_in(n, dtype, PLAIN);
    ig_backward(ig_optimizer_scale_loss(opt, loss));
    ig_optimizer_step(opt);
    return loss;
}

/* Steps of a captured program against calls; in the middle a weight is written. `rule`: one that writes the
 * copies, and one that does not. Without passes the bits are the same; fused chains skip roundings to 16
 * bits. */
static void run_capture(ig_rule rule, ig_dtype dtype, bool warm, bool passes)
{
    enum { STEPS = 6 };
    double losses[2][STEPS];
    float *weights[2];
    for (int captured = 0; captured < 2; captured++) {
        ig_context *c = ctx[captured];
        ig_scope *scope = ig_scope_begin(c);
        net n = make_net(c);
        ig_optimizer *opt;
        ig_optimizer_opts o = ig_optimizer_defaults(rule);
        o.lr = 0.01;
        o.loss_scale = 1024;
        assert_int_equal(ig_optimizer_create(&opt, c, &o, NULL), IG_OK);
        assert_int_equal(ig_optimizer_add(opt, n.w, NULL, N_WEIGHTS, NULL, NULL), IG_OK);
        if (warm)
            loss_in(&n, dtype, PLAIN);
        ig_program *program = NULL;
        ig_tensor *loss = NULL;
        for (int i = 0; i < STEPS; i++) {
            if (!captured || i == 0) {
                if (captured)
                    assert_int_equal(ig_capture_begin(c, NULL), IG_OK);
                loss = train_step(&n, opt, dtype);
                if (captured)
                    assert_int_equal(
                        ig_capture_end_with(
                            &program, c,
                            &(ig_capture_opts){.without = passes ? 0 : 0xffffffffu}, NULL),
                        IG_OK);
            } else {
                assert_int_equal(ig_program_run(program, NULL), IG_OK);
            }
            losses[captured][i] = ig_tensor_item(loss);
            if (i == 2) {
                ig_tensor *w = ig_scale(ig_detach(n.w[1]), 0.5);
                ig_grad_enable(c, false);
                ig_assign(n.w[1], w);
                ig_grad_enable(c, true);
            }
            if (i == 3 &&
                dtype != IG_DTYPE_F32) /* the copies are of another type meanwhile */
                loss_in(&n, dtype == IG_DTYPE_F16 ? IG_DTYPE_BF16 : IG_DTYPE_F16, PLAIN);
        }
        weights[captured] = read_f32(n.w[2]);
        ig_program_destroy(program);
        ig_optimizer_destroy(opt);
        assert_int_equal(ig_context_status(c), IG_OK);
        ig_scope_end(scope);
    }
    for (int i = 0; i < STEPS; i++) {
        const double bound = passes ? 0.005 * losses[0][i] : 0;
        if (!(fabs(losses[0][i] - losses[1][i]) <= bound))
            fail_msg("rule %d, step %d: %.9g and %.9g", rule, i, losses[0][i],
                     losses[1][i]);
    }
    assert_true(losses[0][STEPS - 1] < losses[0][0]);
    if (!passes)
        assert_memory_equal(weights[0], weights[1], D * D * sizeof(float));
    free(weights[0]);
    free(weights[1]);
}

static void test_captures(void **state)
{
    (void)state;
    for (int warm = 0; warm < 2; warm++) {
        for (int passes = 0; passes < 2; passes++) {
            run_capture(IG_RULE_ADAMW, IG_DTYPE_BF16, warm, passes);
            run_capture(IG_RULE_ADAMW, IG_DTYPE_F16, warm, passes);
            run_capture(IG_RULE_ADAFACTOR, IG_DTYPE_BF16, warm, passes);
        }
    }
}

/* A program that changes a weight itself casts it itself. */
static void test_capture_writes(void **state)
{
    (void)state;
    ig_context *c = ctx[1];
    ig_scope *scope = ig_scope_begin(c);
    const float one = 1;
    ig_tensor *x = ig_tensor_from(c, IG_DTYPE_F32, IG_SHAPE(1, 1), &one), *y, *z;
    ig_tensor *w =
        ig_tensor_require_grad(ig_tensor_from(c, IG_DTYPE_F32, IG_SHAPE(1, 1), &one), true);
    ig_program *program;
    assert_int_equal(ig_capture_begin(c, NULL), IG_OK);
    ig_grad_enable(c, false);
    ig_autocast(c, IG_DTYPE_BF16);
    y = ig_linear(x, w, NULL);
    ig_scale_into(w, 2);
    z = ig_linear(x, w, NULL);
    ig_autocast(c, IG_DTYPE_F32);
    ig_grad_enable(c, true);
    assert_int_equal(ig_capture_end(&program, c, NULL), IG_OK);
    for (double at = 1; at < 64; at *= 2) {
        assert_true(ig_tensor_item(y) == at && ig_tensor_item(z) == 2 * at);
        assert_int_equal(ig_program_run(program, NULL), IG_OK);
    }
    const float seven = 7;
    assert_int_equal(ig_tensor_write(w, &seven, sizeof seven, NULL), IG_OK);
    assert_int_equal(ig_program_run(program, NULL), IG_OK);
    assert_true(ig_tensor_item(y) == 7 && ig_tensor_item(z) == 14);
    ig_program_destroy(program);
    ig_scope_end(scope);
}

/* ---- faults --------------------------------------------------------------------------------------------- */

static ig_status train_with(const ig_allocator *a)
{
    ig_context *c;
    ig_optimizer *opt = NULL;
    ig_program *program = NULL;
    ig_optimizer_opts o = ig_optimizer_defaults(IG_RULE_ADAMW);
    ig_status status =
        ig_context_create(&c, &(ig_context_opts){.n_threads = 1, .allocator = a}, NULL);
    if (status != IG_OK)
        return status;
    net n = make_net(c);
    status = ig_optimizer_create(&opt, c, &o, NULL);
    if (status == IG_OK)
        status = ig_optimizer_add(opt, n.w, NULL, N_WEIGHTS, NULL, NULL);
    if (status == IG_OK)
        status = ig_capture_begin(c, NULL);
    if (status == IG_OK) {
        train_step(&n, opt, IG_DTYPE_BF16);
        status = ig_capture_end(&program, c, NULL);
    }
    if (status == IG_OK)
        status = ig_program_run(program, NULL);
    ig_program_destroy(program);
    ig_optimizer_destroy(opt);
    ig_context_destroy(c);
    return status;
}

static void test_faults(void **state)
{
    (void)state;
    for (int64_t nth = 1;; nth++) {
        fault_allocator f = {.fail_nth = nth};
        const ig_allocator a = fault_allocator_of(&f);
        const ig_status status = train_with(&a);
        assert_int_equal(f.n_alive, 0);
        if (f.n_calls < nth) {
            assert_int_equal(status, IG_OK);
            assert_true(nth > 20);
            return;
        }
        assert_int_equal(status, IG_ERR_MEMORY);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rule),
        cmocka_unit_test(test_documented),
        cmocka_unit_test(test_gradients_are_wide),
        cmocka_unit_test(test_network),
        cmocka_unit_test(test_second_order),
        cmocka_unit_test(test_copies),
        cmocka_unit_test(test_captures),
        cmocka_unit_test(test_capture_writes),
        cmocka_unit_test(test_faults),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
