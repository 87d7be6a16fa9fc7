/* Models from GGUF files for training: their logits are serving's, for every type of weights; what does not fit
 * is refused, a file cut short and a failing allocator are survived. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "infer/fault_allocator.h"
#include "infer/tiny_run.h"
#include "ingot/ingot.h"
#include "tiny_model.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

enum { T = 21 };

static ig_error error;

static void assert_same_logits(ig_dtype dtype, bool head)
{
    int32_t ids[T];
    running r;
    ig_module *m;
    tiny_ids(ids, T, 7);
    run_open(&r, &(running_opts){.tiny = {.dtype = dtype, .head = head},
                                 .n_threads = 1,
                                 .exact = true,
                                 .kv = IG_KV_F32});
    float *wanted = logits_of(&r, ids, T, T);
    assert_int_equal(ig_module_open(&m, r.ctx, r.tiny.file.path, &error), IG_OK);
    ig_params *p = ig_module_params(m);
    assert_int_equal(ig_params_find(p, "lm_head.weight") != NULL, head);
    ig_scope *scope = ig_scope_begin(r.ctx);
    ig_tensor *ids_in = ig_tensor_from(r.ctx, IG_DTYPE_I32, IG_SHAPE(1, T), ids);
    const float *got = ig_tensor_data(ig_module_logits(m, ids_in));
    assert_non_null(got);
    float worst = 0, largest = 0;
    for (int64_t i = 0; i < T * TINY_VOCAB; i++) {
        worst = fmaxf(worst, fabsf(got[i] - wanted[i]));
        largest = fmaxf(largest, fabsf(wanted[i]));
    }
    if (!(worst < 1e-4f * largest))
        fail_msg("%s: logits differ by %g of %g", ig_dtype_name(dtype), (double)worst,
                 (double)largest);
    ig_scope_end(scope);
    ig_module_destroy(m);
    free(wanted);
    run_close(&r);
}

static void logits_are_those_of_serving(void **state)
{
    (void)state;
    for (int i = 0; i < TINY_TYPES; i++)
        assert_same_logits(tiny_types[i], i % 2);
}

/* Products in 16 bits: near the logits in 32, and not the same; gradients come to f32 parameters. */
static void mixed_precision_is_near(void **state)
{
    (void)state;
    int32_t ids[T];
    ig_context *ctx;
    ig_module *m;
    tiny_model t = {.dtype = IG_DTYPE_Q8_0};
    const ig_context_opts opts = {.n_threads = 2};
    tiny_ids(ids, T, 3);
    assert_int_equal(ig_context_create(&ctx, &opts, &error), IG_OK);
    assert_int_equal(ig_module_open(&m, ctx, tiny_model_save(&t), &error), IG_OK);
    ig_tensor *in = ig_tensor_from(ctx, IG_DTYPE_I32, IG_SHAPE(1, T), ids);
    ig_tensor *plain = ig_module_logits(m, in);
    const ig_dtype was = ig_autocast(ctx, IG_DTYPE_BF16);
    ig_tensor *mixed = ig_module_logits(m, in);
    ig_autocast(ctx, was);
    const double size = ig_tensor_item(ig_norm(plain, 0, NULL, false));
    const double differs = ig_tensor_item(
        ig_norm(ig_sub(ig_cast(mixed, IG_DTYPE_F32), plain), 0, NULL, false));
    assert_true(differs > 0 && differs < 0.03 * size);
    assert_int_equal(ig_backward(ig_mean(ig_square(mixed), 0, NULL, false)), IG_OK);
    for (int64_t i = 0; i < ig_params_count(ig_module_params(m)); i++)
        assert_int_equal(
            ig_tensor_dtype(ig_tensor_grad(ig_params_tensor(ig_module_params(m), i))),
            IG_DTYPE_F32);
    ig_module_destroy(m);
    ig_context_destroy(ctx);
    tiny_model_fini(&t);
}

static ig_status try_file(const char *path)
{
    ig_context *ctx;
    ig_module *m = (void *)&ctx;
    const ig_context_opts opts = {.n_threads = 1};
    assert_int_equal(ig_context_create(&ctx, &opts, &error), IG_OK);
    const ig_status status = ig_module_open(&m, ctx, path, &error);
    assert_int_equal(m != NULL, status == IG_OK);
    ig_module_destroy(m);
    ig_context_destroy(ctx);
    return status;
}

static void refusals_name_the_file(void **state)
{
    (void)state;
    tiny_model t = {.dtype = IG_DTYPE_F16, .gemma = true};
    assert_int_equal(try_file(tiny_model_save(&t)), IG_ERR_UNSUPPORTED);
    assert_non_null(strstr(error.message, "gemma3"));
    tiny_model_fini(&t);
    assert_int_equal(try_file("/nowhere.gguf"), IG_ERR_IO);
    t = (tiny_model){.dtype = IG_DTYPE_Q8_0};
    const char *path = tiny_model_save(&t);
    assert_int_equal(try_file(path), IG_OK);
    assert_int_equal(truncate(path, (off_t)t.file.n - 1), 0);
    assert_int_not_equal(try_file(path), IG_OK);
    assert_non_null(strstr(error.message, path));
    tiny_model_fini(&t);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    tiny_model t = {.dtype = IG_DTYPE_Q4_0};
    const char *path = tiny_model_save(&t);
    int64_t n_failed = 0;
    for (int64_t nth = 1;; nth++) {
        fault_allocator fault = {.fail_nth = nth};
        const ig_allocator a = fault_allocator_of(&fault);
        const ig_context_opts opts = {.n_threads = 1, .allocator = &a};
        ig_context *ctx;
        ig_module *m = NULL;
        ig_status status = ig_context_create(&ctx, &opts, &error);
        if (status == IG_OK)
            status = ig_module_open(&m, ctx, path, &error);
        ig_module_destroy(m);
        ig_context_destroy(ctx);
        assert_int_equal(fault.n_alive, 0);
        if (fault.n_calls < nth) {
            assert_int_equal(status, IG_OK);
            break;
        }
        /* memory of tensors tries again with less: that one is no failure */
        assert_true(status == IG_ERR_MEMORY || status == IG_OK);
        n_failed += status != IG_OK;
    }
    assert_true(n_failed > 30);
    tiny_model_fini(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logits_are_those_of_serving),
        cmocka_unit_test(mixed_precision_is_near),
        cmocka_unit_test(refusals_name_the_file),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
