/* Parameters by name, layers over them, models: names, start values, files, freezing, refusals, faults. */
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
#include <unistd.h>

static ig_error error;

static const char gpt2_config[] =
    "{\"model_type\":\"gpt2\",\"vocab_size\":11,\"n_positions\":7,\"n_embd\":6,"
    "\"n_head\":3,\"n_layer\":2,\"initializer_range\":0.5}";
static const char llama_config[] =
    "{\"model_type\":\"llama\",\"vocab_size\":11,\"max_position_embeddings\":7,"
    "\"hidden_size\":12,\"intermediate_size\":10,\"num_hidden_layers\":2,"
    "\"num_attention_heads\":3,\"num_key_value_heads\":1,\"head_dim\":4,"
    "\"initializer_range\":0.5}";
static const char tied_config[] =
    "{\"model_type\":\"llama\",\"vocab_size\":11,\"max_position_embeddings\":7,"
    "\"hidden_size\":12,\"intermediate_size\":10,\"num_hidden_layers\":1,"
    "\"num_attention_heads\":3,\"tie_word_embeddings\":true,\"initializer_range\":0.5}";

typedef struct fixture {
    ig_context *ctx;
    ig_params *p;
} fixture;

static fixture begin(int n_threads)
{
    fixture f;
    const ig_context_opts opts = {.n_threads = n_threads};
    assert_int_equal(ig_context_create(&f.ctx, &opts, &error), IG_OK);
    assert_int_equal(ig_params_create(&f.p, f.ctx, &error), IG_OK);
    return f;
}

static void end(fixture *f)
{
    ig_params_destroy(f->p);
    ig_context_destroy(f->ctx);
}

static void assert_failed(ig_context *ctx, ig_status status, const char *words)
{
    assert_int_equal(ig_context_status(ctx), status);
    if (!strstr(ig_context_message(ctx), words))
        fail_msg("'%s' does not say '%s'", ig_context_message(ctx), words);
    ig_context_clear(ctx);
}

static const float *data(ig_tensor *x)
{
    const float *at = ig_tensor_data(x);
    assert_non_null(at);
    return at;
}

/* ---- parameters --------------------------------------------------------------------------------------- */

static void test_names(void **state)
{
    (void)state;
    fixture f = begin(1);
    const ig_init ones = {.kind = IG_INIT_ONES};
    ig_params_begin(f.p, "h.%d", 3);
    ig_params_begin(f.p, "attn");
    ig_tensor *x = ig_param(f.p, "w", ones, IG_SHAPE(2, 3));
    ig_params_end(f.p);
    ig_tensor *y = ig_param(f.p, "w", ones, IG_SHAPE(4));
    ig_params_end(f.p);
    ig_tensor *z = ig_param(f.p, "w", ones, 0, NULL);
    assert_true(x && y && z);
    assert_ptr_equal(ig_params_find(f.p, "h.3.attn.w"), x);
    assert_ptr_equal(ig_params_find(f.p, "h.3.w"), y);
    assert_ptr_equal(ig_params_find(f.p, "w"), z);
    assert_null(ig_params_find(f.p, "h.3"));
    assert_ptr_equal(ig_param(f.p, "h.3.attn.w", ones, IG_SHAPE(2, 3)), x);
    assert_int_equal(ig_params_count(f.p), 3);
    assert_int_equal(ig_params_elements(f.p), 6 + 4 + 1);
    assert_string_equal(ig_params_name(f.p, 1), "h.3.w");
    assert_null(ig_params_name(f.p, 3));
    assert_null(ig_params_tensor(f.p, -1));
    assert_null(ig_param(f.p, "h.3.w", ones, IG_SHAPE(5)));
    assert_failed(f.ctx, IG_ERR_SHAPE, "h.3.w is [4] f32, wanted [5] f32");
    ig_params_seal(f.p);
    assert_ptr_equal(ig_param(f.p, "w", ones, 0, NULL), z);
    assert_null(ig_param(f.p, "v", ones, 0, NULL));
    assert_failed(f.ctx, IG_ERR_ARGUMENT, "there is no v");
    end(&f);
}

/* Layers without what they are made of. */
static void test_missing_options(void **state)
{
    (void)state;
    fixture f = begin(1);
    ig_tensor *x = ig_ones(f.ctx, IG_DTYPE_F32, IG_SHAPE(2, 4, 8, 8));
    ig_tensor *t = ig_ones(f.ctx, IG_DTYPE_F32, IG_SHAPE(2, 3, 8));
    const ig_nn_conv_opts none = {.kernel = {3, 3}}, square = {.n_out = 5, .kernel = {3}};
    const ig_pool_opts two = {.kernel = {2}};
#define REFUSED(call, text)                                                                \
    assert_null(call);                                                                     \
    assert_failed(f.ctx, IG_ERR_ARGUMENT, text)
    REFUSED(ig_nn_conv1d(f.p, "c", t, NULL), "conv: its options are NULL");
    REFUSED(ig_nn_conv2d(f.p, "c", x, NULL), "conv: its options are NULL");
    REFUSED(ig_nn_conv_transpose2d(f.p, "c", x, NULL), "options are NULL");
    REFUSED(ig_nn_recurrent(f.p, "r", IG_CELL_GRU, t, NULL), "options are NULL");
    REFUSED(ig_nn_attention(f.p, "a", t, NULL), "attention: its options are NULL");
    REFUSED(ig_nn_experts(f.p, "e", t, NULL), "experts: its options are NULL");
    REFUSED(ig_nn_gpt2_block(f.p, t, NULL), "options are NULL");
    REFUSED(ig_nn_llama_block(f.p, t, NULL), "options are NULL");
    REFUSED(ig_max_pool2d(x, NULL), "max_pool2d: its options are NULL");
    REFUSED(ig_nn_conv2d(f.p, "c", x, &none), "conv c: n_out is 0");
    REFUSED(ig_nn_linear(f.p, "l", t, 0, true), "linear l: n_out is 0");
    REFUSED(ig_nn_linear(NULL, "l", t, 4, true), "linear: its parameters are NULL");
#undef REFUSED
    assert_int_equal(ig_params_count(f.p), 0);
    assert_int_equal(ig_tensor_dim(ig_nn_conv2d(f.p, "c", x, &square), 3), 6);
    assert_int_equal(ig_tensor_dim(ig_max_pool2d(x, &two), 3), 4);
    end(&f);
}

/* Past the bounds: a failure, and begins and ends still pair up. */
static void test_long_names(void **state)
{
    (void)state;
    fixture f = begin(1);
    char word[300];
    memset(word, 'x', sizeof word);
    word[299] = 0;
    ig_params_begin(f.p, "%s", word);
    assert_failed(f.ctx, IG_ERR_LIMIT, "255 bytes");
    ig_params_end(f.p);
    assert_null(ig_param(f.p, word, (ig_init){0}, IG_SHAPE(1)));
    assert_failed(f.ctx, IG_ERR_LIMIT, "255 bytes");
    for (int i = 0; i < 17; i++)
        ig_params_begin(f.p, "d");
    assert_failed(f.ctx, IG_ERR_LIMIT, "16 levels");
    for (int i = 0; i < 17; i++)
        ig_params_end(f.p);
    ig_params_end(f.p);
    assert_failed(f.ctx, IG_ERR_ARGUMENT, "an end without a begin");
    assert_non_null(ig_param(f.p, "w", (ig_init){0}, IG_SHAPE(1)));
    assert_string_equal(ig_params_name(f.p, 0), "w");
    end(&f);
}

/* Enough names that the table grows several times. */
static void test_many(void **state)
{
    (void)state;
    fixture f = begin(1);
    char name[32];
    for (int i = 0; i < 500; i++) {
        snprintf(name, sizeof name, "p%d", i);
        assert_non_null(ig_param(f.p, name, (ig_init){0}, IG_SHAPE(1)));
    }
    for (int i = 0; i < 500; i++) {
        snprintf(name, sizeof name, "p%d", i);
        assert_ptr_equal(ig_params_find(f.p, name), ig_params_tensor(f.p, i));
    }
    assert_int_equal(ig_params_count(f.p), 500);
    end(&f);
}

static double spread(ig_tensor *x, double *most)
{
    const float *at = data(x);
    const int64_t n = ig_tensor_count(x);
    double sum = 0;
    *most = 0;
    for (int64_t i = 0; i < n; i++) {
        sum += (double)at[i] * (double)at[i];
        *most = fmax(*most, fabs((double)at[i]));
    }
    return sqrt(sum / (double)n);
}

static void test_start_values(void **state)
{
    (void)state;
    double most;
    for (int normal = 0; normal < 2; normal++) {
        fixture f = begin(1);
        ig_params_set_deviation(f.p, normal ? 0.02 : 0);
        ig_tensor *x = ig_zeros(f.ctx, IG_DTYPE_F32, IG_SHAPE(2, 64));
        ig_tensor *y = ig_nn_linear(f.p, "fc", x, 100, true);
        assert_int_equal(ig_tensor_dim(y, 1), 100);
        const double wide = spread(ig_params_find(f.p, "fc.weight"), &most);
        if (normal) {
            assert_true(fabs(wide - 0.02) < 1e-3);
            assert_true(most > 0.05);
            spread(ig_params_find(f.p, "fc.bias"), &most);
            assert_true(most == 0);
        } else { /* uniform within 1/8 */
            assert_true(fabs(wide - 0.125 / sqrt(3.0)) < 2e-3);
            assert_true(most <= 0.125 && most > 0.12);
            spread(ig_params_find(f.p, "fc.bias"), &most);
            assert_true(most <= 0.125 && most > 0.1);
        }
        end(&f);
    }
}

static void test_seeds(void **state)
{
    (void)state;
    float seen[3][20];
    for (int i = 0; i < 3; i++) {
        fixture f = begin(i + 1);
        ig_seed(f.ctx, i < 2 ? 5 : 6);
        ig_tensor *x =
            ig_param(f.p, "w", (ig_init){IG_INIT_NORMAL, 1, false}, IG_SHAPE(20));
        memcpy(seen[i], data(x), sizeof seen[i]);
        end(&f);
    }
    assert_memory_equal(seen[0], seen[1], sizeof seen[0]);
    assert_memory_not_equal(seen[0], seen[2], sizeof seen[0]);
}

static void test_freeze(void **state)
{
    (void)state;
    fixture f = begin(1);
    ig_tensor *x = ig_ones(f.ctx, IG_DTYPE_F32, IG_SHAPE(2, 3));
    ig_tensor *norm = ig_nn_batch_norm(f.p, "a.norm", x);
    ig_tensor *y = ig_nn_linear(f.p, "b", norm, 2, true);
    assert_non_null(y);
    assert_int_equal(ig_params_freeze(f.p, "a.", true), 2); /* not the running ones */
    y = ig_nn_linear(f.p, "b", ig_nn_batch_norm(f.p, "a.norm", x), 2, true);
    assert_int_equal(ig_backward(ig_sum(y, 0, NULL, false)), IG_OK);
    assert_null(ig_tensor_grad(ig_params_find(f.p, "a.norm.weight")));
    assert_non_null(ig_tensor_grad(ig_params_find(f.p, "b.weight")));
    assert_int_equal(ig_params_freeze(f.p, "", false), 4);
    assert_true(ig_tensor_wants_grad(ig_params_find(f.p, "a.norm.weight")));
    assert_false(ig_tensor_wants_grad(ig_params_find(f.p, "a.norm.running_mean")));
    end(&f);
}

/* ---- layers -------------------------------------------------------------------------------------------- */

static void test_layers(void **state)
{
    (void)state;
    fixture f = begin(2);
    ig_tensor *x = ig_normal(f.ctx, IG_DTYPE_F32, IG_SHAPE(2, 4, 5, 6), 0, 1);
    const ig_nn_conv_opts two = {.n_out = 6, .kernel = {3, 2}, .conv = {.groups = 2}};
    ig_tensor *y = ig_nn_conv2d(f.p, "conv", x, &two);
    assert_int_equal(ig_tensor_dim(y, 1), 6);
    assert_int_equal(ig_tensor_dim(y, 2), 3);
    assert_int_equal(ig_tensor_dim(y, 3), 5);
    assert_int_equal(ig_tensor_dim(ig_params_find(f.p, "conv.weight"), 1), 2);
    const ig_nn_conv_opts one = {.n_out = 3, .kernel = {2}, .no_bias = true};
    y = ig_nn_conv1d(f.p, "line", ig_select(x, 3, 0), &one);
    assert_int_equal(ig_tensor_dim(y, 2), 4);
    assert_null(ig_params_find(f.p, "line.bias"));
    ig_tensor *ids = ig_arange(f.ctx, IG_DTYPE_I64, 0, 1, 3);
    y = ig_nn_embedding(f.p, "table", ids, (const int64_t[]){7, 5});
    assert_memory_equal(data(y), data(ig_params_find(f.p, "table.weight")),
                        15 * sizeof(float));
    y = ig_nn_layer_norm(f.p, "ln", ig_nn_rms_norm(f.p, "rms", x, 1e-5), 1e-5);
    assert_int_equal(ig_tensor_count(y), 240);
    /* NULL goes through, and nothing stays begun */
    assert_null(ig_nn_linear(f.p, "none", NULL, 3, true));
    assert_null(ig_nn_layer_norm(f.p, "none", NULL, 1e-5));
    assert_null(ig_nn_conv2d(f.p, "none", NULL, &two));
    assert_int_equal(ig_context_status(f.ctx), IG_OK);
    assert_non_null(ig_param(f.p, "last", (ig_init){0}, IG_SHAPE(1)));
    assert_non_null(ig_params_find(f.p, "last"));
    end(&f);
}

static void test_running_statistics(void **state)
{
    (void)state;
    fixture f = begin(1);
    ig_tensor *x = ig_full(f.ctx, IG_DTYPE_F32, IG_SHAPE(4, 2), 3);
    ig_params_set_training(f.p, false);
    ig_nn_batch_norm(f.p, "n", x);
    assert_true(data(ig_params_find(f.p, "n.running_mean"))[1] == 0);
    ig_params_set_training(f.p, true);
    assert_non_null(ig_nn_batch_norm(f.p, "n", x));
    assert_true(fabs((double)data(ig_params_find(f.p, "n.running_mean"))[1] - 0.3) < 1e-6);
    assert_int_equal(ig_params_elements(f.p), 4);
    end(&f);
}

/* ---- files ---------------------------------------------------------------------------------------------- */

static void two_layers(fixture *f, int64_t n_hidden)
{
    ig_tensor *x = ig_zeros(f->ctx, IG_DTYPE_F32, IG_SHAPE(1, 3));
    x = ig_nn_linear(f->p, "a", x, n_hidden, true);
    assert_non_null(ig_nn_linear(f->p, "b", x, 2, true));
}

static void test_files(void **state)
{
    (void)state;
    char path[] = "/tmp/ingot_module_XXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    fixture f = begin(1), g = begin(1);
    two_layers(&f, 4);
    assert_int_equal(ig_params_save(f.p, path, &error), IG_OK);
    ig_seed(g.ctx, 9);
    two_layers(&g, 4);
    assert_memory_not_equal(data(ig_params_find(g.p, "a.weight")),
                            data(ig_params_find(f.p, "a.weight")), 12 * sizeof(float));
    assert_int_equal(ig_params_load(g.p, path, &error), IG_OK);
    for (int64_t i = 0; i < ig_params_count(f.p); i++) {
        ig_tensor *x = ig_params_tensor(f.p, i);
        ig_tensor *y = ig_params_find(g.p, ig_params_name(f.p, i));
        assert_memory_equal(data(x), data(y), ig_tensor_bytes(x));
        assert_true(ig_tensor_wants_grad(y));
    }
    /* a count beside running statistics is passed over */
    ig_named_tensor more[8];
    int64_t n = 0;
    for (; n < ig_params_count(f.p); n++)
        more[n] = (ig_named_tensor){ig_params_name(f.p, n), ig_params_tensor(f.p, n)};
    more[n++] = (ig_named_tensor){"norm.num_batches_tracked",
                                  ig_tensor_scalar(f.ctx, IG_DTYPE_I64, 3)};
    assert_int_equal(ig_tensors_save(path, more, n, NULL, 0, &error), IG_OK);
    assert_int_equal(ig_params_load(g.p, path, &error), IG_OK);
    /* one more in the network, then another shape, then one more in the file */
    const float first = data(ig_params_find(g.p, "a.weight"))[0];
    ig_fill(ig_detach(ig_params_find(g.p, "a.weight")), (double)first + 1);
    assert_non_null(ig_param(g.p, "c", (ig_init){0}, IG_SHAPE(1)));
    assert_int_equal(ig_params_load(g.p, path, &error), IG_ERR_FORMAT);
    assert_non_null(strstr(error.message, "no tensor c"));
    assert_true(data(ig_params_find(g.p, "a.weight"))[0] == first + 1);
    end(&g);
    g = begin(1);
    assert_int_equal(ig_params_load(g.p, path, &error), IG_ERR_ARGUMENT);
    assert_non_null(strstr(error.message, "no parameters yet"));
    two_layers(&g, 5);
    assert_int_equal(ig_params_load(g.p, path, &error), IG_ERR_SHAPE);
    assert_non_null(strstr(error.message, "a.weight"));
    end(&g);
    g = begin(1);
    assert_non_null(ig_param(g.p, "a.weight", (ig_init){0}, IG_SHAPE(4, 3)));
    assert_int_equal(ig_params_load(g.p, path, &error), IG_ERR_UNSUPPORTED);
    assert_int_equal(ig_params_load(g.p, "/nowhere/x", &error), IG_ERR_IO);
    end(&g);
    end(&f);
    unlink(path);
}

/* ---- models ---------------------------------------------------------------------------------------------- */

static void test_refusals(void **state)
{
    (void)state;
    static const struct {
        const char *config, *words;
        ig_status status;
    } cases[] = {
        {"[]", "not an object", IG_ERR_FORMAT},
        {"{", "", IG_ERR_FORMAT},
        {"{}", "model_type is missing", IG_ERR_FORMAT},
        {"{\"model_type\":\"mamba\"}", "'mamba', supported: gpt2, llama",
         IG_ERR_UNSUPPORTED},
        {"{\"model_type\":\"gpt2\"}", "vocab_size is missing", IG_ERR_FORMAT},
        {"{\"model_type\":\"gpt2\",\"vocab_size\":0}", "vocab_size is 0", IG_ERR_FORMAT},
        {"{\"model_type\":\"gpt2\",\"vocab_size\":\"a\"}", "not an integer", IG_ERR_FORMAT},
        {"{\"model_type\":\"gpt2\",\"vocab_size\":5,\"n_positions\":4,\"n_embd\":5,"
         "\"n_head\":2,\"n_layer\":1}",
         "n_embd 5 is no multiple of n_head 2", IG_ERR_FORMAT},
        {"{\"model_type\":\"gpt2\",\"vocab_size\":5,\"n_positions\":4,\"n_embd\":4,"
         "\"n_head\":2,\"n_layer\":1,\"activation_function\":\"mish\"}",
         "mish", IG_ERR_UNSUPPORTED},
        {"{\"model_type\":\"llama\",\"vocab_size\":5,\"max_position_embeddings\":4,"
         "\"hidden_size\":6,\"intermediate_size\":4,\"num_hidden_layers\":1,"
         "\"num_attention_heads\":2}",
         "3 wide", IG_ERR_FORMAT},
        {"{\"model_type\":\"llama\",\"vocab_size\":5,\"max_position_embeddings\":4,"
         "\"hidden_size\":8,\"intermediate_size\":4,\"num_hidden_layers\":1,"
         "\"num_attention_heads\":2,\"rope_parameters\":{\"rope_type\":\"yarn\"}}",
         "yarn", IG_ERR_UNSUPPORTED},
    };
    fixture f = begin(1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ig_module *m = (void *)&f;
        assert_int_equal(ig_module_create(&m, f.ctx, cases[i].config, &error),
                         cases[i].status);
        assert_null(m);
        if (!strstr(error.message, cases[i].words))
            fail_msg("'%s' does not say '%s'", error.message, cases[i].words);
        assert_int_equal(ig_context_status(f.ctx), IG_OK);
    }
    ig_module *m;
    assert_int_equal(ig_module_open(&m, f.ctx, "/nowhere", &error), IG_ERR_IO);
    assert_null(m);
    end(&f);
}

static const float *logits_of(ig_module *m, ig_context *ctx, int64_t b, int64_t t,
                              const int64_t *ids)
{
    ig_tensor *y =
        ig_module_logits(m, ig_tensor_from(ctx, IG_DTYPE_I64, IG_SHAPE(b, t), ids));
    assert_non_null(y);
    assert_int_equal(ig_tensor_dim(y, 0), b);
    assert_int_equal(ig_tensor_dim(y, 1), t);
    assert_int_equal(ig_tensor_dim(y, 2), 11);
    return data(y);
}

/* Later tokens change nothing before them; a row of a batch is as it is alone. */
static void check_causal(const char *config)
{
    enum { T = 5, V = 11 };
    const int64_t ids[2][T] = {{1, 10, 4, 4, 0}, {1, 10, 4, 9, 0}};
    fixture f = begin(2);
    ig_module *m;
    assert_int_equal(ig_module_create(&m, f.ctx, config, &error), IG_OK);
    const float *both = logits_of(m, f.ctx, 2, T, ids[0]);
    const float *alone = logits_of(m, f.ctx, 1, T, ids[1]);
    const float *less = logits_of(m, f.ctx, 1, 2, ids[0]);
    assert_memory_equal(both, both + T * V, 3 * V * sizeof(float));
    assert_memory_not_equal(both + 3 * V, both + T * V + 3 * V, V * sizeof(float));
    assert_memory_not_equal(both + 4 * V, both + T * V + 4 * V, V * sizeof(float));
    assert_memory_equal(both + T * V, alone, T * V * sizeof(float));
    assert_memory_equal(both, less, 2 * V * sizeof(float));
    ig_tensor *long_ones = ig_zeros(f.ctx, IG_DTYPE_I64, IG_SHAPE(1, 8));
    assert_null(ig_module_logits(m, long_ones));
    assert_failed(f.ctx, IG_ERR_SHAPE, "T up to 7");
    ig_module_destroy(m);
    end(&f);
}

static void test_causal(void **state)
{
    (void)state;
    check_causal(gpt2_config);
    check_causal(llama_config);
    check_causal(tied_config);
}

static void test_tied(void **state)
{
    (void)state;
    fixture f = begin(1);
    ig_module *m;
    assert_int_equal(ig_module_create(&m, f.ctx, tied_config, &error), IG_OK);
    assert_null(ig_params_find(ig_module_params(m), "lm_head.weight"));
    ig_module_destroy(m);
    assert_int_equal(ig_module_create(&m, f.ctx, llama_config, &error), IG_OK);
    assert_non_null(ig_params_find(ig_module_params(m), "lm_head.weight"));
    assert_int_equal(ig_params_count(ig_module_params(m)), 2 * 9 + 3);
    ig_module_destroy(m);
    end(&f);
}

/* The gradient of the loss along a direction against a difference of losses. */
static double loss_of(ig_module *m, ig_context *ctx, bool backward)
{
    const int64_t ids[] = {1, 10, 4, 4, 0, 7}, targets[] = {10, 4, 4, 0, 7, 2};
    ig_scope *scope = ig_scope_begin(ctx);
    ig_tensor *y =
        ig_module_logits(m, ig_tensor_from(ctx, IG_DTYPE_I64, IG_SHAPE(2, 3), ids));
    ig_tensor *loss =
        ig_cross_entropy(ig_reshape(y, IG_SHAPE(6, 11)),
                         ig_tensor_from(ctx, IG_DTYPE_I64, IG_SHAPE(6), targets), NULL);
    if (backward)
        ig_backward(loss);
    const double value = ig_tensor_item(loss);
    ig_scope_end(scope);
    return value;
}

static void check_descent(const char *config)
{
    const double step = 1e-3;
    fixture f = begin(1);
    ig_module *m;
    assert_int_equal(ig_module_create(&m, f.ctx, config, &error), IG_OK);
    ig_params *p = ig_module_params(m);
    const double before = loss_of(m, f.ctx, true);
    double squares = 0;
    ig_grad_enable(f.ctx, false);
    for (int64_t i = 0; i < ig_params_count(p); i++) {
        ig_tensor *x = ig_params_tensor(p, i), *d = ig_tensor_grad(x);
        assert_non_null(d);
        squares += ig_tensor_item(ig_sum(ig_square(d), 0, NULL, false));
        ig_sub_into(x, ig_scale(d, step));
    }
    const double fall = before - loss_of(m, f.ctx, false);
    assert_true(squares > 1e-3);
    assert_true(fabs(fall / (step * squares) - 1) < 0.1);
    ig_module_destroy(m);
    end(&f);
}

static void test_descent(void **state)
{
    (void)state;
    check_descent(gpt2_config);
    check_descent(llama_config);
    check_descent(tied_config);
}

static ig_module *gpt2_with(ig_context *ctx, const char *rates)
{
    char config[512];
    ig_module *m;
    snprintf(config, sizeof config, "{%s,%s", rates, gpt2_config + 1);
    ig_seed(ctx, 3);
    if (ig_module_create(&m, ctx, config, &error) != IG_OK)
        fail_msg("%s", error.message);
    return m;
}

/* GPT-2's three rates of dropout: each has its effect, in training alone. */
static void test_dropout(void **state)
{
    (void)state;
    static const char *const rates[4] = {"\"embd_pdrop\":0", "\"embd_pdrop\":0.5",
                                         "\"attn_pdrop\":0.5", "\"resid_pdrop\":0.5"};
    fixture f = begin(1);
    double plain = 0;
    for (int i = 0; i < 4; i++) {
        ig_module *m = gpt2_with(f.ctx, rates[i]);
        ig_params *p = ig_module_params(m);
        assert_false(ig_params_is_training(p));
        const double now = loss_of(m, f.ctx, false);
        plain = i ? plain : now;
        assert_true(now == plain);
        ig_params_set_training(p, true);
        ig_seed(f.ctx, 4);
        const double dropped = loss_of(m, f.ctx, true);
        assert_true(i ? dropped != plain : dropped == plain);
        assert_true(loss_of(m, f.ctx, false) != dropped || i == 0); /* draws go on */
        ig_seed(f.ctx, 4);
        assert_true(loss_of(m, f.ctx, false) == dropped);
        /* the head is the embedding: there is one table, and it has the gradient of both */
        assert_null(ig_params_find(p, "lm_head.weight"));
        assert_non_null(ig_tensor_grad(ig_params_find(p, "transformer.wte.weight")));
        ig_module_destroy(m);
    }
    ig_module *m;
    assert_int_equal(ig_module_create(&m, f.ctx,
                                      "{\"model_type\":\"gpt2\",\"vocab_size\":5,"
                                      "\"n_positions\":4,\"n_embd\":4,\"n_head\":2,"
                                      "\"n_layer\":1,\"attn_pdrop\":1.5}",
                                      &error),
                     IG_ERR_FORMAT);
    assert_non_null(strstr(error.message, "attn_pdrop is 1.5"));
    end(&f);
}

/* Fail each allocation in turn: nothing leaks, and the status is memory's. */
static void check_faults(const char *config)
{
    for (int64_t nth = 1;; nth++) {
        fault_allocator fault = {.fail_nth = nth};
        const ig_allocator a = fault_allocator_of(&fault);
        const ig_context_opts opts = {.n_threads = 1, .allocator = &a};
        ig_context *ctx;
        ig_module *m = NULL;
        ig_status status = ig_context_create(&ctx, &opts, &error);
        if (status == IG_OK)
            status = ig_module_create(&m, ctx, config, &error);
        if (status == IG_OK) {
            loss_of(m, ctx, true);
            status = ig_context_status(ctx);
        }
        ig_module_destroy(m);
        ig_context_destroy(ctx);
        assert_int_equal(fault.n_alive, 0);
        if (fault.n_calls < nth) {
            assert_int_equal(status, IG_OK);
            assert_true(nth > 10);
            break;
        }
        assert_int_equal(status, IG_ERR_MEMORY);
    }
}

static void test_faults(void **state)
{
    (void)state;
    check_faults(gpt2_config);
    check_faults(llama_config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_long_names),
        cmocka_unit_test(test_missing_options),
        cmocka_unit_test(test_many),
        cmocka_unit_test(test_start_values),
        cmocka_unit_test(test_seeds),
        cmocka_unit_test(test_freeze),
        cmocka_unit_test(test_layers),
        cmocka_unit_test(test_running_statistics),
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_causal),
        cmocka_unit_test(test_tied),
        cmocka_unit_test(test_descent),
        cmocka_unit_test(test_dropout),
        cmocka_unit_test(test_faults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
