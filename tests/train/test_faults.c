/* A whole training of two models, an eager step and captured ones, with each allocation failing
 * in turn: the failure is said where it happens, nothing leaks, and nothing aborts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "../infer/fault_allocator.h"
#include "ingot/ingot.h"

static const char gpt2[] =
    "{\"model_type\":\"gpt2\",\"vocab_size\":11,\"n_positions\":7,\"n_embd\":6,"
    "\"n_head\":3,\"n_layer\":1}";
static const char llama[] =
    "{\"model_type\":\"llama\",\"vocab_size\":11,\"max_position_embeddings\":7,"
    "\"hidden_size\":12,\"intermediate_size\":10,\"num_hidden_layers\":1,"
    "\"num_attention_heads\":3,\"num_key_value_heads\":1,\"head_dim\":4}";

static ig_tensor *step(ig_module *m, ig_optimizer *opt, ig_tensor *ids, ig_tensor *targets)
{
    ig_tensor *y = ig_module_logits(m, ids);
    ig_tensor *loss = ig_cross_entropy(ig_reshape(y, IG_SHAPE(6, 11)), targets, NULL);
    ig_optimizer_clear_grads(opt);
    ig_backward(loss);
    ig_optimizer_step(opt);
    return loss;
}

static ig_status capture(ig_program **program, ig_context *ctx, ig_module *m,
                         ig_optimizer *opt, ig_tensor *ids, ig_tensor *targets,
                         ig_error *err)
{
    const ig_status begun = ig_capture_begin(ctx, err);
    if (begun != IG_OK)
        return begun;
    ig_scope *scope = ig_scope_begin(ctx);
    step(m, opt, ids, targets);
    ig_scope_end(scope);
    return ig_capture_end(program, ctx, err);
}

/* The first failure of all that a training calls. */
static ig_status train(const ig_allocator *a, const char *config)
{
    static const int64_t words[] = {1, 10, 4, 4, 0, 7}, next[] = {10, 4, 4, 0, 7, 2};
    const ig_context_opts one = {.n_threads = 1, .allocator = a};
    ig_optimizer_opts adamw = ig_optimizer_defaults(IG_RULE_ADAMW);
    adamw.clip_norm = 0.5;
    ig_context *ctx;
    ig_module *m = NULL;
    ig_optimizer *opt = NULL;
    ig_program *program = NULL;
    ig_error err;
    ig_status status = ig_context_create(&ctx, &one, &err);
    if (status != IG_OK)
        return status;
    status = ig_module_create(&m, ctx, config, &err);
    if (status == IG_OK)
        status = ig_optimizer_create(&opt, ctx, &adamw, &err);
    if (status == IG_OK)
        status = ig_optimizer_add_params(opt, ig_module_params(m), &err);
    if (status == IG_OK) {
        ig_tensor *ids = ig_tensor_from(ctx, IG_DTYPE_I64, IG_SHAPE(2, 3), words);
        ig_tensor *targets = ig_tensor_from(ctx, IG_DTYPE_I64, IG_SHAPE(6), next);
        ig_scope *scope = ig_scope_begin(ctx);
        step(m, opt, ids, targets);
        ig_scope_end(scope);
        status = ig_context_status(ctx);
        if (status == IG_OK)
            status = capture(&program, ctx, m, opt, ids, targets, &err);
    }
    for (int i = 0; i < 2 && status == IG_OK; i++)
        status = ig_program_run(program, &err);
    ig_program_destroy(program);
    ig_optimizer_destroy(opt);
    ig_module_destroy(m);
    ig_context_destroy(ctx);
    return status;
}

static void check(const char *config)
{
    for (int64_t nth = 1;; nth++) {
        fault_allocator fault = {.fail_nth = nth};
        const ig_allocator a = fault_allocator_of(&fault);
        const ig_status status = train(&a, config);
        assert_int_equal(fault.n_alive, 0);
        if (fault.n_calls < nth) {
            assert_int_equal(status, IG_OK);
            assert_true(nth > 100);
            return;
        }
        assert_int_equal(status, IG_ERR_MEMORY);
    }
}

static void test_gpt2(void **state)
{
    (void)state;
    check(gpt2);
}

static void test_llama(void **state)
{
    (void)state;
    check(llama);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gpt2),
        cmocka_unit_test(test_llama),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
