/* Each pass left out by itself, and all of them: the same logits. The graph that no pass has
 * touched runs the plain rows, which are the definition. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "compile/pass.h"
#include "infer/model_int.h"

#include "infer/tiny_run.h"
#include "tolerance.h"

#include <math.h>
#include <string.h>

enum { N = 23 };

static int32_t ids[N];

static int n_passes(void)
{
    int n = 0;
    while (ig__passes[n].name)
        n++;
    return n;
}

static int pass_named(const char *name)
{
    for (int i = 0; ig__passes[i].name; i++)
        if (!strcmp(ig__passes[i].name, name))
            return i;
    fail_msg("no pass is named %s", name);
    return -1;
}

/* Logits of the ids with some passes left out: the model's graph is replaced by one that was
 * compiled so. In one step from position 0, since the plain `attention` knows no cache. */
static float *logits_without(const running_opts *opts, uint32_t without, int64_t piece,
                             int *n_nodes_out)
{
    running r;
    run_open(&r, opts);
    const ig_allocator *a = &r.ctx->allocator;
    ig__gguf *file;
    ig__graph plain, compiled;
    void *block;
    size_t bytes;
    must(ig__gguf_open(&file, a, r.tiny.file.path, &running_error));
    must(ig__model_capture(&plain, r.model->family, &r.model->config, file, a,
                           &running_error));
    must(ig__weights_load(&block, &bytes, &plain, file, r.ctx, &running_error));
    ig__gguf_close(file);
    const ig__compile_opts compile = {
        .kernels = r.ctx->kernels, .exact = opts->exact, .without = without};
    must(ig__compile(&compiled, &plain, &compile, NULL, NULL, &running_error));
    ig__graph_fini(&plain);
    *n_nodes_out = compiled.n_nodes;

    const ig_runner_opts runner = r.runner->opts;
    ig_runner_destroy(r.runner);
    ig__graph_fini(&r.model->graph);
    r.model->graph = compiled;
    must(ig_runner_create(&r.runner, r.model, &runner, &running_error));
    float *out = logits_of(&r, ids, N, piece);
    ig_runner_destroy(r.runner);
    r.runner = NULL;
    ig__free(a, block);
    run_close(&r);
    return out;
}

static void assert_close(const float *got, const float *wanted, double tolerance,
                         const char *what)
{
    double largest = 0, worst = 0;
    for (int i = 0; i < N * TINY_VOCAB; i++) {
        largest = fmax(largest, fabs((double)wanted[i]));
        worst = fmax(worst, fabs((double)got[i] - (double)wanted[i]));
    }
    assert_true(largest > 0.1);
    if (!(worst <= tolerance * largest))
        fail_msg("without %s: off by %g of %g", what, worst, largest);
}

static void check_passes(ig_dtype dtype, bool gemma, bool exact)
{
    const running_opts o = {.tiny = {.dtype = dtype, .gemma = gemma},
                            .n_threads = 2,
                            .exact = exact,
                            .kv = IG_KV_F32};
    const double tolerance = exact ? IG_TOL_PASS_EXACT : IG_TOL_PASS;
    const int all = n_passes();
    int n_full, n_plain, n;
    float *full = logits_without(&o, 0, N, &n_full);
    float *plain = logits_without(&o, (1u << all) - 1, N, &n_plain);
    assert_true(n_plain > n_full);
    assert_close(full, plain, tolerance, "every pass");
    for (int i = 0; i < all; i++) {
        float *got = logits_without(&o, 1u << i, N, &n);
        assert_true(n >= n_full);
        assert_close(got, plain, tolerance, ig__passes[i].name);
        free(got);
    }
    /* with the cache, decoding too */
    const uint32_t but_cache = ((1u << all) - 1) & ~(1u << pass_named("cache"));
    float *got = logits_without(&o, but_cache, 1, &n);
    assert_close(got, plain, tolerance, "all but the cache, a token at a time");
    free(got);
    free(full);
    free(plain);
}

static void passes_change_nothing_exact(void **state)
{
    (void)state;
    check_passes(IG_DTYPE_Q8_0, false, true);
    check_passes(IG_DTYPE_Q4_K, true, true);
    check_passes(IG_DTYPE_F32, true, true);
}

static void passes_change_little_by_default(void **state)
{
    (void)state;
    check_passes(IG_DTYPE_Q4_0, false, false);
    check_passes(IG_DTYPE_Q6_K, true, false);
}

/* Of the bits of the default graph: leaving out a pass that fuses keeps each product as it
 * was, so decoding and prompts still agree bit for bit. */
static void same_bits_without_a_pass(void **state)
{
    (void)state;
    const running_opts o = {.tiny = {.dtype = IG_DTYPE_Q4_1, .gemma = true},
                            .n_threads = 3};
    for (int i = 0; i < n_passes(); i++) {
        int n;
        if (i == pass_named("cache"))
            continue;
        float *wanted = logits_without(&o, 1u << i, N, &n);
        for (int again = 0; again < 3; again++) {
            float *got = logits_without(&o, 1u << i, 1 + 3 * again, &n);
            assert_same_rows(got, wanted, N, TINY_VOCAB, ig__passes[i].name);
            free(got);
        }
        free(wanted);
    }
}

static void count_dump(void *user, const char *pass, const ig__graph *g)
{
    int *n = user;
    assert_string_equal(pass, ig__passes[*n].name);
    assert_true(g->n_nodes > 0);
    ++*n;
}

/* Compiling again the same graph gives the same, and the graph after each pass is shown. */
static void passes_are_dumped_in_order(void **state)
{
    (void)state;
    const running_opts o = {.tiny = {.dtype = IG_DTYPE_Q4_0}, .n_threads = 1};
    running r;
    run_open(&r, &o);
    const ig__compile_opts compile = {.kernels = r.ctx->kernels};
    ig__graph again;
    int n = 0;
    must(ig__compile(&again, &r.model->graph, &compile, count_dump, &n, &running_error));
    assert_int_equal(n, n_passes());
    ig__buffer one = ig__buffer_init(&r.ctx->allocator);
    ig__buffer two = ig__buffer_init(&r.ctx->allocator);
    ig__graph_print(&one, &r.model->graph);
    ig__graph_print(&two, &again);
    assert_true(one.n > 100);
    assert_string_equal(one.data, two.data);
    ig__buffer_fini(&one);
    ig__buffer_fini(&two);
    ig__graph_fini(&again);
    run_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(passes_change_nothing_exact),
        cmocka_unit_test(passes_change_little_by_default),
        cmocka_unit_test(same_bits_without_a_pass),
        cmocka_unit_test(passes_are_dumped_in_order),
    };
    tiny_ids(ids, N, 11);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
