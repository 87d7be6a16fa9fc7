/* Layers against PyTorch's modules: names and shapes of their parameters, values, gradients
 * (layers.safetensors, made by scripts/golden_layers.py); what has no module there against plain
 * formulas; training and evaluation. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "infer/fault_allocator.h"
#include "ingot/ingot.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static ig_error error;

/* What a case has of its own: inputs, and what it is run on. */
typedef struct input {
    ig_params *p;
    ig_tensor *x, *x2;
} input;

static ig_tensor *linear(const input *in)
{
    return ig_nn_linear(in->p, "m", in->x, 3, true);
}
static ig_tensor *embedding(const input *in)
{
    return ig_nn_embedding(in->p, "m", in->x, (const int64_t[]){7, 4});
}
static ig_tensor *layer_norm(const input *in)
{
    return ig_nn_layer_norm(in->p, "m", in->x, 1e-5);
}
static ig_tensor *rms_norm(const input *in)
{
    return ig_nn_rms_norm(in->p, "m", in->x, 1e-5);
}
static ig_tensor *group_norm(const input *in)
{
    return ig_nn_group_norm(in->p, "m", in->x, 2, 1e-5);
}
static ig_tensor *batch_norm_train(const input *in)
{
    ig_params_set_training(in->p, true);
    return ig_nn_batch_norm(in->p, "m", in->x);
}
static ig_tensor *batch_norm_eval(const input *in)
{
    ig_params_set_training(in->p, false);
    return ig_nn_batch_norm(in->p, "m", in->x);
}
static ig_tensor *conv1d(const input *in)
{
    const ig_nn_conv_opts o = {
        .n_out = 6, .kernel = {3}, .conv = {.stride = {2}, .pad = {1}, .groups = 2}};
    return ig_nn_conv1d(in->p, "m", in->x, &o);
}
static ig_tensor *conv2d(const input *in)
{
    const ig_nn_conv_opts o = {
        .n_out = 4, .kernel = {3, 2}, .conv = {.pad = {1, 0}, .dilation = {1, 2}}};
    return ig_nn_conv2d(in->p, "m", in->x, &o);
}
static ig_tensor *conv_transpose1d(const input *in)
{
    const ig_nn_conv_opts o = {
        .n_out = 6,
        .kernel = {3},
        .conv = {.stride = {2}, .pad = {1}, .out_pad = {1}, .groups = 2}};
    return ig_nn_conv_transpose1d(in->p, "m", in->x, &o);
}
static ig_tensor *conv_transpose2d(const input *in)
{
    const ig_nn_conv_opts o = {
        .n_out = 2, .kernel = {3, 2}, .conv = {.stride = {2, 1}}, .no_bias = true};
    return ig_nn_conv_transpose2d(in->p, "m", in->x, &o);
}
static ig_tensor *rnn(const input *in)
{
    const ig_nn_recurrent_opts o = {.n_out = 4};
    return ig_nn_recurrent(in->p, "m", IG_CELL_RNN, in->x, &o);
}
static ig_tensor *lstm(const input *in)
{
    const ig_nn_recurrent_opts o = {.n_out = 4,
                                    .run = {.layers = 2, .both = true, .lengths = in->x2}};
    return ig_nn_recurrent(in->p, "m", IG_CELL_LSTM, in->x, &o);
}
static ig_tensor *gru(const input *in)
{
    const ig_nn_recurrent_opts o = {
        .n_out = 4, .no_bias = true, .run = {.layers = 2, .lengths = in->x2}};
    return ig_nn_recurrent(in->p, "m", IG_CELL_GRU, in->x, &o);
}
static ig_tensor *attention(const input *in)
{
    const ig_nn_attention_opts o = {.n_heads = 3, .causal = true};
    return ig_nn_attention(in->p, "m", in->x, &o);
}
static ig_tensor *padded(const input *in, bool no_bias)
{
    static const int64_t lengths[2] = {3, 4};
    ig_context *ctx = ig_tensor_context(in->x);
    const ig_nn_attention_opts o = {
        .n_heads = 2,
        .no_bias = no_bias,
        .memory = in->x2,
        .lengths = ig_tensor_from(ctx, IG_DTYPE_I64, IG_SHAPE(2), lengths)};
    return ig_nn_attention(in->p, "m", in->x, &o);
}
static ig_tensor *attention_cross(const input *in)
{
    return padded(in, false);
}
static ig_tensor *attention_memory(const input *in)
{
    return padded(in, true);
}

#define CASE(name)                                                                         \
    {                                                                                      \
#        name, name                                                                        \
    }
static const struct golden {
    const char *name;
    ig_tensor *(*f)(const input *in);
} goldens[] = {
    CASE(linear),
    CASE(embedding),
    CASE(layer_norm),
    CASE(rms_norm),
    CASE(group_norm),
    CASE(batch_norm_train),
    CASE(batch_norm_eval),
    CASE(conv1d),
    CASE(conv2d),
    CASE(conv_transpose1d),
    CASE(conv_transpose2d),
    CASE(rnn),
    CASE(lstm),
    CASE(gru),
    CASE(attention),
    CASE(attention_cross),
    CASE(attention_memory),
};
enum { N_GOLDENS = (int)(sizeof goldens / sizeof *goldens) };

static void must(ig_context *ctx, const char *name)
{
    if (ig_context_status(ctx) != IG_OK)
        fail_msg("%s: %s", name, ig_context_message(ctx));
}

static ig_tensor *read(const ig_tensor_file *file, const char *name, const char *what,
                       bool optional)
{
    char full[256];
    snprintf(full, sizeof full, "%s.%s", name, what);
    if (optional && ig_tensor_file_find(file, full) < 0)
        return NULL;
    ig_tensor *x = ig_tensor_file_read(file, full, &error);
    if (!x)
        fail_msg("%s", error.message);
    return x;
}

/* Largest difference against the largest value. */
static void close_to(const char *name, const char *what, ig_tensor *x, ig_tensor *want)
{
    if (!x || ig_tensor_count(x) != ig_tensor_count(want))
        fail_msg("%s: %s has %d elements, not %d", name, what, (int)ig_tensor_count(x),
                 (int)ig_tensor_count(want));
    ig_tensor *far = ig_max(ig_abs(ig_sub(x, want)), 0, NULL, false);
    const double off = ig_tensor_item(far);
    const double top = ig_tensor_item(ig_max(ig_abs(want), 0, NULL, false));
    if (!(off <= 1e-5 * fmax(top, 1e-6)))
        fail_msg("%s: %s is off by %g of %g", name, what, off, top);
}

/* The case's parameters under their names in a state dict: as many as the file has. */
static void load(const struct golden *g, const input *in, const ig_tensor_file *file)
{
    char prefix[64], full[256];
    int64_t n = 0;
    snprintf(prefix, sizeof prefix, "%s.w.", g->name);
    for (int64_t i = 0; i < ig_tensor_file_count(file); i++)
        n += !strncmp(ig_tensor_file_info(file, i).name, prefix, strlen(prefix));
    assert_int_equal(ig_params_count(in->p), n);
    const bool was = ig_grad_enable(ig_tensor_context(in->x), false);
    for (int64_t i = 0; i < n; i++) {
        snprintf(full, sizeof full, "%s%s", prefix, ig_params_name(in->p, i) + 2);
        if (ig_tensor_file_read_into(file, full, ig_params_tensor(in->p, i), &error) !=
            IG_OK)
            fail_msg("%s", error.message);
    }
    ig_grad_enable(ig_tensor_context(in->x), was);
}

static void check_golden(ig_context *ctx, const struct golden *g,
                         const ig_tensor_file *file)
{
    char what[128];
    input in = {0};
    ig_scope *scope = ig_scope_begin(ctx);
    assert_int_equal(ig_params_create(&in.p, ctx, &error), IG_OK);
    in.x = read(file, g->name, "x", false);
    in.x2 = read(file, g->name, "x2", true);
    if (ig_tensor_dtype(in.x) == IG_DTYPE_F32)
        ig_tensor_require_grad(in.x, true);
    assert_non_null(g->f(&in));
    load(g, &in, file);
    ig_tensor *y = g->f(&in), *dy = read(file, g->name, "dy", false);
    must(ctx, g->name);
    close_to(g->name, "y", y, read(file, g->name, "y", false));
    assert_int_equal(ig_backward_all(&y, &dy, 1, NULL), IG_OK);
    if (ig_tensor_dtype(in.x) == IG_DTYPE_F32)
        close_to(g->name, "dx", ig_tensor_grad(in.x), read(file, g->name, "dx", false));
    for (int64_t i = 0; i < ig_params_count(in.p); i++) {
        snprintf(what, sizeof what, "d.%s", ig_params_name(in.p, i) + 2);
        ig_tensor *want = read(file, g->name, what, true);
        if (want)
            close_to(g->name, what, ig_tensor_grad(ig_params_tensor(in.p, i)), want);
        else
            assert_non_null(strstr(what, "running_"));
    }
    must(ctx, g->name);
    ig_scope_end(scope);
    ig_params_destroy(in.p);
}

static void test_against_modules(void **state)
{
    (void)state;
    ig_context *ctx;
    ig_tensor_file *file;
    assert_int_equal(ig_context_create(&ctx, &(ig_context_opts){.n_threads = 2}, &error),
                     IG_OK);
    if (ig_tensor_file_open(&file, ctx, IG_TEST_DATA "/nn/layers.safetensors", &error) !=
        IG_OK)
        fail_msg("%s", error.message);
    for (int i = 0; i < N_GOLDENS; i++)
        check_golden(ctx, &goldens[i], file);
    ig_tensor_file_close(file);
    ig_context_destroy(ctx);
}

/* ---- blocks -------------------------------------------------------------------------------------------- */

typedef struct fixture {
    ig_context *ctx;
    ig_params *p;
} fixture;

static fixture begin(int n_threads)
{
    fixture f;
    const ig_context_opts opts = {.n_threads = n_threads, .poison = true};
    assert_int_equal(ig_context_create(&f.ctx, &opts, &error), IG_OK);
    assert_int_equal(ig_params_create(&f.p, f.ctx, &error), IG_OK);
    return f;
}

static void end(fixture *f)
{
    ig_params_destroy(f->p);
    ig_context_destroy(f->ctx);
}

static void fails(ig_context *ctx, ig_tensor *x, const char *words)
{
    assert_null(x);
    if (!strstr(ig_context_message(ctx), words))
        fail_msg("'%s' does not say '%s'", ig_context_message(ctx), words);
    ig_context_clear(ctx);
}

/* p's parameters under `prefix` from those of a model that has the same names. */
static void copy_parameters(fixture *f, ig_params *from, const char *prefix)
{
    char full[256];
    const bool was = ig_grad_enable(f->ctx, false);
    for (int64_t i = 0; i < ig_params_count(f->p); i++) {
        snprintf(full, sizeof full, "%s%s", prefix, ig_params_name(f->p, i));
        ig_tensor *x = ig_params_find(from, full);
        if (!x)
            fail_msg("the model has no %s", full);
        assert_non_null(ig_assign(ig_params_tensor(f->p, i), x));
    }
    ig_grad_enable(f->ctx, was);
}

static const int64_t tokens[2][5] = {{1, 10, 4, 4, 0}, {7, 2, 4, 9, 0}};

/* The model of a folder is its embedding, its block and its head. */
static ig_tensor *by_blocks(fixture *f, ig_tensor *ids, const ig_nn_llama_opts *o)
{
    ig_params_begin(f->p, "model");
    ig_tensor *x = ig_nn_embedding(f->p, "embed_tokens", ids, (const int64_t[]){11, 12});
    ig_params_begin(f->p, "layers.0");
    x = ig_nn_llama_block(f->p, x, o);
    ig_params_end(f->p);
    x = ig_nn_rms_norm(f->p, "norm", x, 1e-6);
    ig_params_end(f->p);
    return ig_nn_linear(f->p, "lm_head", x, 11, false);
}

static void test_llama_block(void **state)
{
    (void)state;
    static const char config[] =
        "{\"model_type\":\"llama\",\"vocab_size\":11,\"max_position_embeddings\":7,"
        "\"hidden_size\":12,\"intermediate_size\":10,\"num_hidden_layers\":1,"
        "\"num_attention_heads\":3,\"num_key_value_heads\":1,\"head_dim\":6,"
        "\"rms_norm_eps\":1e-6,\"initializer_range\":0.5}";
    fixture f = begin(2);
    ig_module *m;
    assert_int_equal(ig_module_create(&m, f.ctx, config, &error), IG_OK);
    ig_tensor *ids = ig_tensor_from(f.ctx, IG_DTYPE_I64, IG_SHAPE(2, 5), tokens);
    ig_tensor *want = ig_module_logits(m, ids);
    ig_tensor *places = ig_arange(f.ctx, IG_DTYPE_I64, 0, 1, 5);
    const ig_nn_llama_opts o = {.n_heads = 3,
                                .n_kv_heads = 1,
                                .head_width = 6,
                                .n_inner = 10,
                                .eps = 1e-6,
                                .rope = ig_rope_table(places, 6, NULL)};
    assert_non_null(by_blocks(&f, ids, &o));
    assert_int_equal(ig_params_count(f.p), ig_params_count(ig_module_params(m)));
    copy_parameters(&f, ig_module_params(m), "");
    ig_tensor *y = by_blocks(&f, ids, &o);
    must(f.ctx, "llama block");
    close_to("llama block", "logits", y, want);
    ig_backward(ig_mean(ig_square(y), 0, NULL, false));
    ig_backward(ig_mean(ig_square(want), 0, NULL, false));
    must(f.ctx, "llama block");
    for (int64_t i = 0; i < ig_params_count(f.p); i++) {
        ig_tensor *other = ig_params_find(ig_module_params(m), ig_params_name(f.p, i));
        close_to("llama block", ig_params_name(f.p, i),
                 ig_tensor_grad(ig_params_tensor(f.p, i)), ig_tensor_grad(other));
    }
    fails(f.ctx, ig_nn_llama_block(f.p, ids, &o),
          "llama block: wants x [B,T,D], got [2,5]");
    fails(f.ctx, ig_nn_llama_block(f.p, y, &(ig_nn_llama_opts){.n_inner = 3}), "0 heads");
    ig_module_destroy(m);
    end(&f);
}

/* The block is the model's; dropout in training alone, and none of it with rates of 0. */
static void test_gpt2_block(void **state)
{
    (void)state;
    fixture f = begin(1);
    ig_tensor *x = ig_normal(f.ctx, IG_DTYPE_F32, IG_SHAPE(2, 5, 6), 0, 1);
    const ig_nn_gpt2_opts o = {.n_heads = 3, .curve = IG_NN_RELU};
    const ig_nn_gpt2_opts dropping = {
        .n_heads = 3, .curve = IG_NN_RELU, .dropout = 0.5, .attention_dropout = 0.5};
    ig_params_set_deviation(f.p, 0.4);
    ig_tensor *y = ig_nn_gpt2_block(f.p, x, &o);
    must(f.ctx, "gpt2 block");
    assert_int_equal(ig_params_count(f.p), 12);
    assert_int_equal(ig_tensor_dim(ig_params_find(f.p, "mlp.c_fc.weight"), 1), 24);
    ig_params_set_training(f.p, false);
    close_to("gpt2 block", "in evaluation", ig_nn_gpt2_block(f.p, x, &dropping), y);
    ig_params_set_training(f.p, true);
    ig_tensor *moved = ig_not_equal(ig_nn_gpt2_block(f.p, x, &dropping), y);
    assert_true(ig_tensor_item(ig_sum(moved, 0, NULL, false)) > 30);
    /* by hand */
    ig_tensor *h = ig_layer_norm(x, NULL, NULL, 1e-5);
#define P(name) ig_params_find(f.p, name)
    ig_tensor *qkv = ig_add(ig_matmul(h, P("attn.c_attn.weight")), P("attn.c_attn.bias"));
    ig_tensor *heads[3];
    for (int i = 0; i < 3; i++)
        heads[i] = ig_transpose(
            ig_reshape(ig_slice(qkv, 2, 6 * i, 6 * i + 6, 1), IG_SHAPE(2, 5, 3, 2)), 1, 2);
    ig_tensor *scores =
        ig_scale(ig_matmul(heads[0], ig_transpose(heads[1], -1, -2)), sqrt(0.5));
    ig_tensor *seen = ig_tril(ig_ones(f.ctx, IG_DTYPE_F32, IG_SHAPE(5, 5)), 0);
    scores = ig_where(ig_cast(seen, IG_DTYPE_BOOL), scores,
                      ig_tensor_scalar(f.ctx, IG_DTYPE_F32, -(double)INFINITY));
    h = ig_matmul(ig_softmax(scores, -1), heads[2]);
    h = ig_reshape(ig_transpose(h, 1, 2), IG_SHAPE(2, 5, 6));
    ig_tensor *z = ig_add(x, ig_matmul(h, P("attn.c_proj.weight")));
    h = ig_relu(ig_matmul(ig_layer_norm(z, NULL, NULL, 1e-5), P("mlp.c_fc.weight")));
    z = ig_add(z, ig_matmul(h, P("mlp.c_proj.weight")));
    close_to("gpt2 block", "by hand", y, z);
    fails(f.ctx, ig_nn_gpt2_block(f.p, ig_select(x, 0, 0), &o), "gpt2 block: wants");
    fails(f.ctx, ig_nn_gpt2_block(f.p, x, &(ig_nn_gpt2_opts){.n_heads = 4}), "4 heads");
    end(&f);
}

/* ---- attention beyond what PyTorch's layer has ----------------------------------------------------------- */

/* Grouped heads of an own width, a window, a rotation and a float mask, by plain operators. */
static void test_attention_options(void **state)
{
    (void)state;
    enum { B = 2, T = 7, D = 5, H = 4, G = 2, W = 4 };
    fixture f = begin(2);
    ig_tensor *x = ig_normal(f.ctx, IG_DTYPE_F32, IG_SHAPE(B, T, D), 0, 1);
    ig_tensor *bias = ig_normal(f.ctx, IG_DTYPE_F32, IG_SHAPE(T, T), 0, 1);
    const int64_t lengths[B] = {7, 5};
    const ig_nn_attention_opts o = {
        .n_heads = H,
        .n_kv_heads = G,
        .head_width = 1, /* too narrow for the table below: refused */
        .rope = ig_rope_table(ig_arange(f.ctx, IG_DTYPE_I64, 0, 1, T), W, NULL)};
    fails(f.ctx, ig_nn_attention(f.p, "refused", x, &o), "rope");
    ig_nn_attention_opts good = o;
    good.head_width = W;
    good.n_kv_heads = 3;
    fails(f.ctx, ig_nn_attention(f.p, "m", x, &good), "do not fit a width of 5");
    x = ig_normal(f.ctx, IG_DTYPE_F32, IG_SHAPE(B, T, 4 * D), 0, 1);
    good.n_kv_heads = G;
    good.causal = true;
    good.window = 3;
    good.mask = bias;
    good.lengths = ig_tensor_from(f.ctx, IG_DTYPE_I64, IG_SHAPE(B), lengths);
    ig_tensor *y = ig_nn_attention(f.p, "m", x, &good);
    must(f.ctx, "attention");
    static const char *const names[3] = {"m.q_proj_weight", "m.k_proj_weight",
                                         "m.v_proj_weight"};
    ig_tensor *rows[3];
    for (int i = 0; i < 3; i++) {
        const int64_t heads = i ? G : H;
        rows[i] = ig_matmul(x, ig_transpose(ig_params_find(f.p, names[i]), 0, 1));
        rows[i] = ig_transpose(ig_reshape(rows[i], IG_SHAPE(B, T, heads, W)), 1, 2);
        if (i < 2)
            rows[i] = ig_rope(rows[i], o.rope, false);
        if (i) { /* each key head twice */
            ig_tensor *twice = ig_expand(ig_unsqueeze(rows[i], 2), IG_SHAPE(B, G, 2, T, W));
            rows[i] = ig_reshape(twice, IG_SHAPE(B, H, T, W));
        }
    }
    float hidden[B][T][T];
    for (int b = 0; b < B; b++)
        for (int i = 0; i < T; i++)
            for (int j = 0; j < T; j++)
                hidden[b][i][j] = j <= i && j > i - 3 && j < lengths[b] ? 0.0f : -INFINITY;
    ig_tensor *scores = ig_scale(ig_matmul(rows[0], ig_transpose(rows[1], -1, -2)), 0.5);
    scores = ig_add(ig_add(scores, bias),
                    ig_tensor_from(f.ctx, IG_DTYPE_F32, IG_SHAPE(B, 1, T, T), hidden));
    ig_tensor *z = ig_matmul(ig_softmax(scores, -1), rows[2]);
    z = ig_reshape(ig_transpose(z, 1, 2), IG_SHAPE(B, T, H * W));
    z = ig_linear(z, ig_params_find(f.p, "m.out_proj.weight"),
                  ig_params_find(f.p, "m.out_proj.bias"));
    close_to("attention", "by plain operators", y, z);
    ig_nn_attention_opts boolean = {.n_heads = H, .lengths = good.lengths};
    boolean.mask = ig_full(f.ctx, IG_DTYPE_BOOL, IG_SHAPE(T, T), 1);
    ig_tensor *u = ig_nn_attention(f.p, "b", x, &boolean);
    boolean.mask = NULL;
    close_to("attention", "lengths beside a mask", ig_nn_attention(f.p, "b", x, &boolean),
             u);
    fails(f.ctx, ig_nn_attention(f.p, "m", ig_select(x, 0, 0), &good), "attention layer");
    end(&f);
}

/* ---- documents in one row -------------------------------------------------------------------------------- */

/* Two blocks over embeddings, a loss over what counts: of tokens [T] at their places, with a mask or none. */
static ig_tensor *loss_of_row(fixture *f, int64_t t, const int64_t *ids,
                              const int64_t *places, const int64_t *targets,
                              ig_tensor *mask)
{
    ig_tensor *in = ig_tensor_from(f->ctx, IG_DTYPE_I64, IG_SHAPE(1, t), ids);
    ig_tensor *at = ig_tensor_from(f->ctx, IG_DTYPE_I64, IG_SHAPE(t), places);
    ig_tensor *x = ig_nn_embedding(f->p, "tokens", in, (const int64_t[]){11, 8});
    x = ig_add(x, ig_nn_embedding(f->p, "places", at, (const int64_t[]){7, 8}));
    const ig_nn_gpt2_opts g = {.n_heads = 2, .mask = mask};
    const ig_nn_llama_opts l = {
        .n_heads = 2, .n_inner = 6, .mask = mask, .rope = ig_rope_table(at, 4, NULL)};
    x = ig_nn_llama_block(f->p, ig_nn_gpt2_block(f->p, x, &g), &l);
    x = ig_nn_linear(f->p, "head", ig_reshape(x, IG_SHAPE(t, 8)), 11, false);
    return ig_cross_entropy(
        x, ig_tensor_from(f->ctx, IG_DTYPE_I64, IG_SHAPE(t), targets),
        &(ig_cross_entropy_opts){.ignore = -1, .use_ignore = true, .sum = true});
}

/* Documents of 2 and 4 tokens in a row of 6 do not see each other: the row's loss is theirs. */
static void test_packed_row(void **state)
{
    (void)state;
    static const int64_t ids[6] = {3, 1, 9, 9, 4, 0}, places[6] = {0, 1, 0, 1, 2, 3};
    static const int64_t targets[6] = {1, -1, 9, 4, 0, -1};
    static const uint8_t same[6][6] = {{1, 1},
                                       {1, 1},
                                       {0, 0, 1, 1, 1, 1},
                                       {0, 0, 1, 1, 1, 1},
                                       {0, 0, 1, 1, 1, 1},
                                       {0, 0, 1, 1, 1, 1}};
    fixture f = begin(2);
    ig_params_set_deviation(f.p, 0.5);
    ig_tensor *mask = ig_tensor_from(f.ctx, IG_DTYPE_BOOL, IG_SHAPE(6, 6), same);
    const double packed =
        ig_tensor_item(loss_of_row(&f, 6, ids, places, targets, mask)) / 4;
    const double first = ig_tensor_item(loss_of_row(&f, 2, ids, places, targets, NULL));
    const double second =
        ig_tensor_item(loss_of_row(&f, 4, ids + 2, places + 2, targets + 2, NULL));
    must(f.ctx, "a packed row");
    assert_true(fabs(packed - (first + second) / 4) <= 1e-6 * packed);
    const double seen = ig_tensor_item(loss_of_row(&f, 6, ids, places, targets, NULL)) / 4;
    assert_true(fabs(seen - packed) > 1e-4);
    end(&f);
}

/* ---- training and evaluation ------------------------------------------------------------------------------ */

static void test_modes(void **state)
{
    (void)state;
    fixture f = begin(2);
    ig_tensor *x = ig_ones(f.ctx, IG_DTYPE_F32, IG_SHAPE(3, 20, 8));
    assert_true(ig_params_is_training(f.p));
    ig_tensor *y = ig_nn_dropout(f.p, x, 0.25);
    const double kept = ig_tensor_item(ig_mean(y, 0, NULL, false));
    assert_true(y != x && fabs(kept - 1) < 0.15);
    ig_params_set_training(f.p, false);
    assert_ptr_equal(ig_nn_dropout(f.p, x, 0.25), x);
    /* between recurrent layers, and on weights of attention */
    const ig_nn_recurrent_opts r = {.n_out = 5, .run = {.layers = 2, .dropout = 0.5}};
    const ig_nn_recurrent_opts plain = {.n_out = 5, .run = {.layers = 2}};
    const ig_nn_attention_opts a = {.n_heads = 2, .dropout = 0.5};
    x = ig_normal(f.ctx, IG_DTYPE_F32, IG_SHAPE(3, 20, 8), 0, 1);
    for (int layer = 0; layer < 2; layer++) {
        ig_tensor *z[3];
        for (int i = 0; i < 3; i++) { /* evaluation, training twice with one seed */
            ig_params_set_training(f.p, i > 0);
            ig_seed(f.ctx, 3);
            z[i] = layer ? ig_nn_attention(f.p, "a", x, &a)
                         : ig_nn_recurrent(f.p, "r", IG_CELL_GRU, x, &r);
        }
        must(f.ctx, layer ? "attention" : "recurrent");
        assert_true(ig_tensor_item(ig_sum(ig_not_equal(z[1], z[2]), 0, NULL, false)) == 0);
        assert_true(ig_tensor_item(ig_sum(ig_not_equal(z[0], z[1]), 0, NULL, false)) > 100);
        if (!layer)
            close_to("recurrent", "in evaluation",
                     ig_nn_recurrent(f.p, "r", IG_CELL_GRU, x, &plain), z[0]);
    }
    fails(f.ctx,
          ig_nn_attention(f.p, "a", x, &(ig_nn_attention_opts){.n_heads = 2, .dropout = 2}),
          "dropout is 2");
    end(&f);
}

/* Attention with dropout: on average what it is without, and the same bits on one thread and on two. */
static void test_dropped_weights(void **state)
{
    (void)state;
    ig_tensor *sums[2];
    fixture f[2] = {begin(1), begin(2)};
    for (int k = 0; k < 2; k++) {
        ig_seed(f[k].ctx, 9);
        ig_tensor *q = ig_normal(f[k].ctx, IG_DTYPE_F32, IG_SHAPE(2, 3, 70, 8), 0, 1);
        ig_tensor *whole = ig_attention(q, q, q, NULL);
        sums[k] = ig_zeros(f[k].ctx, IG_DTYPE_F32, IG_SHAPE(2, 3, 70, 8));
        for (int i = 0; i < 200; i++)
            ig_add_into(sums[k],
                        ig_attention(q, q, q, &(ig_attention_opts){.dropout = 0.2}));
        must(f[k].ctx, "attention");
        ig_tensor *off = ig_sub(ig_scale(sums[k], 1.0 / 200), whole);
        const double square = ig_tensor_item(ig_mean(ig_square(off), 0, NULL, false));
        assert_true(square > 0 && square < 1e-3);
    }
    assert_memory_equal(ig_tensor_data(sums[0]), ig_tensor_data(sums[1]),
                        ig_tensor_bytes(sums[0]));
    end(&f[0]);
    end(&f[1]);
}

/* ---- failing memory --------------------------------------------------------------------------------------- */

/* Fail each allocation in turn: no leak, and memory's status. */
static void test_faults(void **state)
{
    (void)state;
    for (int64_t nth = 1;; nth++) {
        fault_allocator fault = {.fail_nth = nth};
        const ig_allocator a = fault_allocator_of(&fault);
        const ig_context_opts opts = {.n_threads = 1, .allocator = &a};
        fixture f = {0};
        ig_status status = ig_context_create(&f.ctx, &opts, &error);
        if (status == IG_OK)
            status = ig_params_create(&f.p, f.ctx, &error);
        if (status == IG_OK) {
            ig_tensor *x = ig_normal(f.ctx, IG_DTYPE_F32, IG_SHAPE(2, 3, 4), 0, 1);
            const ig_nn_recurrent_opts r = {.n_out = 4, .run = {.both = true}};
            const ig_nn_attention_opts at = {
                .n_heads = 2,
                .memory = ig_nn_recurrent(f.p, "r", IG_CELL_LSTM, x, &r),
                .dropout = 0.5,
                .lengths = ig_full(f.ctx, IG_DTYPE_I64, IG_SHAPE(2), 2)};
            if (at.memory && at.lengths)
                x = ig_nn_attention(f.p, "a", x, &at);
            x = ig_nn_gpt2_block(f.p, x, &(ig_nn_gpt2_opts){.n_heads = 2, .dropout = 0.1});
            x = ig_nn_llama_block(f.p, x, &(ig_nn_llama_opts){.n_heads = 1, .n_inner = 3});
            ig_backward(ig_sum(x, 0, NULL, false));
            status = ig_context_status(f.ctx);
        }
        ig_params_destroy(f.p);
        ig_context_destroy(f.ctx);
        assert_int_equal(fault.n_alive, 0);
        if (fault.n_calls < nth) {
            assert_int_equal(status, IG_OK);
            assert_true(nth > 10);
            break;
        }
        assert_int_equal(status, IG_ERR_MEMORY);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_modules), cmocka_unit_test(test_llama_block),
        cmocka_unit_test(test_gpt2_block),      cmocka_unit_test(test_attention_options),
        cmocka_unit_test(test_packed_row),      cmocka_unit_test(test_modes),
        cmocka_unit_test(test_dropped_weights), cmocka_unit_test(test_faults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
