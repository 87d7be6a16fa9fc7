/* Models of bench_step. Their sizes stand once, in the enums; bench/compare_train.py has the same ones. */
#include "step_models.h"

#include <stdio.h>
#include <string.h>

static ig_tensor *integers(ig_context *ctx, int n_dims, const int64_t *dims, int64_t below)
{
    ig_tensor *u = ig_uniform(ctx, IG_DTYPE_F32, n_dims, dims, 0, (double)below - 0.01);
    return ig_cast(ig_floor(u), IG_DTYPE_I64);
}

/* ---- GPT-2 and a small GPT ---------------------------------------------------------------------- */

typedef struct gpt_size {
    int64_t batch, t, layers, width, heads, vocab, context;
} gpt_size;

static const gpt_size gpt2_124m = {4, 64, 12, 768, 12, 50257, 1024};
static const gpt_size gpt_small = {12, 64, 4, 128, 4, 65, 64};

static ig_status make_gpt(step_model *m, const gpt_size *s, ig_error *err)
{
    char config[512];
    snprintf(config, sizeof config,
             "{\"model_type\":\"gpt2\",\"vocab_size\":%lld,\"n_positions\":%lld,"
             "\"n_embd\":%lld,\"n_head\":%lld,\"n_layer\":%lld}",
             (long long)s->vocab, (long long)s->context, (long long)s->width,
             (long long)s->heads, (long long)s->layers);
    const ig_status status = ig_module_create(&m->module, m->ctx, config, err);
    if (status != IG_OK)
        return status;
    m->params = ig_module_params(m->module);
    m->x = integers(m->ctx, IG_SHAPE(s->batch, s->t), s->vocab);
    m->y = integers(m->ctx, IG_SHAPE(s->batch * s->t), s->vocab);
    return IG_OK;
}

static ig_status make_gpt2(step_model *m, ig_error *err)
{
    return make_gpt(m, &gpt2_124m, err);
}

static ig_status make_small(step_model *m, ig_error *err)
{
    return make_gpt(m, &gpt_small, err);
}

static ig_tensor *loss_gpt(step_model *m)
{
    ig_tensor *logits = ig_module_logits(m->module, m->x);
    if (!logits)
        return NULL;
    const int64_t v = ig_tensor_dim(logits, 2);
    return ig_cross_entropy(ig_reshape(logits, IG_SHAPE(-1, v)), m->y, NULL);
}

/* A token passes 12 D^2 weights a layer and the head; its query meets (T + 1) / 2 keys twice, over all
 * heads D wide. Backward has two products for each. */
static double flops_of_gpt(const gpt_size *s)
{
    const double d = (double)s->width;
    const double layer = 12 * d * d + (double)(s->t + 1) * d;
    const double token = (double)s->layers * layer + d * (double)s->vocab;
    return 3 * 2 * token * (double)(s->batch * s->t);
}

static double flops_gpt2(void)
{
    return flops_of_gpt(&gpt2_124m);
}

static double flops_small(void)
{
    return flops_of_gpt(&gpt_small);
}

/* ---- LSTM ------------------------------------------------------------------------------------------ */

enum { LSTM_B = 32, LSTM_T = 64, LSTM_D = 256, LSTM_L = 2, LSTM_V = 65 };

static ig_status make_lstm(step_model *m, ig_error *err)
{
    (void)err;
    m->x = integers(m->ctx, IG_SHAPE(LSTM_B, LSTM_T), LSTM_V);
    m->y = integers(m->ctx, IG_SHAPE(LSTM_B * LSTM_T), LSTM_V);
    return IG_OK;
}

static ig_tensor *loss_lstm(step_model *m)
{
    static const char *const names[] = {"w_in", "w", "b_in", "b"};
    ig_tensor *weights[4 * LSTM_L];
    const ig_init uniform = {.kind = IG_INIT_UNIFORM, .value = 1.0 / 16};
    ig_tensor *x =
        ig_nn_embedding(m->params, "embed", m->x, (const int64_t[]){LSTM_V, LSTM_D});
    for (int i = 0; i < 4 * LSTM_L; i++) {
        const int64_t dims[] = {4 * LSTM_D, LSTM_D};
        ig_params_begin(m->params, "lstm.%d", i / 4);
        weights[i] = ig_param(m->params, names[i % 4], uniform, i % 4 < 2 ? 2 : 1, dims);
        ig_params_end(m->params);
    }
    const ig_recurrent_opts opts = {.layers = LSTM_L};
    ig_tensor *h = ig_recurrent(IG_CELL_LSTM, x, weights, 4 * LSTM_L, &opts);
    h = ig_reshape(h, IG_SHAPE(LSTM_B * LSTM_T, LSTM_D));
    return ig_cross_entropy(ig_nn_linear(m->params, "out", h, LSTM_V, true), m->y, NULL);
}

static double flops_lstm(void)
{
    const double step = LSTM_L * 4.0 * LSTM_D * (2.0 * LSTM_D) + (double)LSTM_D * LSTM_V;
    return 3 * 2 * step * LSTM_B * LSTM_T;
}

/* ---- CNN --------------------------------------------------------------------------------------------- */

enum { CNN_B = 64, CNN_SIDE = 28, CNN_C1 = 32, CNN_C2 = 64, CNN_F = 128, CNN_N = 10 };

static ig_status make_cnn(step_model *m, ig_error *err)
{
    (void)err;
    m->x = ig_normal(m->ctx, IG_DTYPE_F32, IG_SHAPE(CNN_B, 1, CNN_SIDE, CNN_SIDE), 0, 1);
    m->y = integers(m->ctx, IG_SHAPE(CNN_B), CNN_N);
    return IG_OK;
}

static ig_tensor *loss_cnn(step_model *m)
{
    ig_params *p = m->params;
    const ig_nn_conv_opts first = {CNN_C1, {3, 3}, {.pad = {1, 1}}, false};
    const ig_nn_conv_opts second = {CNN_C2, {3, 3}, {.pad = {1, 1}}, false};
    const ig_pool_opts halves = {.kernel = {2, 2}};
    ig_tensor *h = ig_max_pool2d(ig_relu(ig_nn_conv2d(p, "conv1", m->x, &first)), &halves);
    h = ig_max_pool2d(ig_relu(ig_nn_conv2d(p, "conv2", h, &second)), &halves);
    h = ig_reshape(h, IG_SHAPE(CNN_B, -1));
    h = ig_relu(ig_nn_linear(p, "hidden", h, CNN_F, true));
    return ig_cross_entropy(ig_nn_linear(p, "out", h, CNN_N, true), m->y, NULL);
}

/* The images want no gradient: two products of the first convolution, three of the rest. */
static double flops_cnn(void)
{
    const double area = CNN_SIDE * CNN_SIDE, c1 = CNN_C1, c2 = CNN_C2;
    const double first = area * c1 * 9, second = area / 4 * c2 * c1 * 9;
    const double rest = area / 16 * c2 * CNN_F + CNN_F * CNN_N;
    return 2 * CNN_B * (2 * first + 3 * (second + rest));
}

/* ---- MLP ---------------------------------------------------------------------------------------------- */

enum { MLP_B = 32, MLP_D = 64, MLP_N = 10 };

static ig_status make_mlp(step_model *m, ig_error *err)
{
    (void)err;
    m->x = ig_normal(m->ctx, IG_DTYPE_F32, IG_SHAPE(MLP_B, MLP_D), 0, 1);
    m->y = integers(m->ctx, IG_SHAPE(MLP_B), MLP_N);
    return IG_OK;
}

static ig_tensor *loss_mlp(step_model *m)
{
    ig_tensor *h = ig_relu(ig_nn_linear(m->params, "hidden", m->x, MLP_D, true));
    return ig_cross_entropy(ig_nn_linear(m->params, "out", h, MLP_N, true), m->y, NULL);
}

static double flops_mlp(void)
{
    return 2.0 * MLP_B * (2 * MLP_D * MLP_D + 3 * MLP_D * MLP_N);
}

/* ---- attention alone ------------------------------------------------------------------------------- */

enum { ATT_H = 12, ATT_T = 1024, ATT_W = 64 };

static ig_status make_attention(step_model *m, ig_error *err)
{
    (void)err;
    m->dy = ig_normal(m->ctx, IG_DTYPE_F32, IG_SHAPE(1, ATT_H, ATT_T, ATT_W), 0, 1);
    return IG_OK;
}

static ig_tensor *loss_attention(step_model *m)
{
    static const char *const names[] = {"q", "k", "v"};
    const ig_init normal = {.kind = IG_INIT_NORMAL, .value = 1};
    const ig_attention_opts opts = {.causal = true};
    ig_tensor *in[3];
    for (int i = 0; i < 3; i++)
        in[i] = ig_param(m->params, names[i], normal, IG_SHAPE(1, ATT_H, ATT_T, ATT_W));
    return ig_attention(in[0], in[1], in[2], &opts);
}

/* Seven products of half a square: scores are made again, not kept. */
static double flops_attention(void)
{
    return 7.0 * ATT_H * ATT_W * ATT_T * (ATT_T + 1);
}

/* ---- the table ----------------------------------------------------------------------------------------- */

const step_row step_rows[] = {
    {"gpt2", "GPT-2 124M, 4 x 64", "tokens", 4 * 64, make_gpt2, loss_gpt, flops_gpt2},
    {"gpt", "GPT 4 x 128, 12 x 64", "tokens", 12 * 64, make_small, loss_gpt, flops_small},
    {"lstm", "LSTM 2 x 256, 32 x 64", "tokens", LSTM_B *LSTM_T, make_lstm, loss_lstm,
     flops_lstm},
    {"cnn", "CNN, 64 of 28 x 28", "images", CNN_B, make_cnn, loss_cnn, flops_cnn},
    {"mlp", "MLP 64-64-10, 32", "rows", MLP_B, make_mlp, loss_mlp, flops_mlp},
    {"attention", "attention 1 x 12 x 1024 x 64, causal, forward and backward", "tokens",
     ATT_T, make_attention, loss_attention, flops_attention},
    {NULL, NULL, NULL, 0, NULL, NULL, NULL},
};

const step_row *step_find(const char *name)
{
    for (const step_row *r = step_rows; r->name; r++)
        if (!strcmp(r->name, name))
            return r;
    return NULL;
}

ig_status step_model_init(step_model *m, const step_row *row, ig_context *ctx,
                          ig_error *err)
{
    *m = (step_model){.row = row, .ctx = ctx};
    ig_seed(ctx, 1);
    ig_status status = row->make(m, err);
    if (status == IG_OK && !m->params)
        status = ig_params_create(&m->params, ctx, err);
    if (status != IG_OK)
        return status;
    ig_tensor_retain(m->x);
    ig_tensor_retain(m->y);
    ig_tensor_retain(m->dy);
    ig_scope *scope = ig_scope_begin(ctx); /* one run makes the parameters */
    const bool was = ig_grad_enable(ctx, false);
    row->loss(m);
    ig_grad_enable(ctx, was);
    ig_scope_end(scope);
    ig_params_seal(m->params);
    return ig_context_status(ctx);
}

void step_model_fini(step_model *m)
{
    ig_tensor_release(m->x);
    ig_tensor_release(m->y);
    ig_tensor_release(m->dy);
    if (m->module)
        ig_module_destroy(m->module);
    else
        ig_params_destroy(m->params);
}
