/* Two real models against float32 references: ids, log-probabilities, greedy continuations, perplexity.
 *
 * Needs the model files in INGOT_TEST_MODEL_DIR and the references in ../shared/golden; skips without.
 * Bounds: with exact activations 0.005 in log-probability, 0.001 in mean loss, continuations equal up to
 * the first step whose two best logits are closer than 0.01; by default 0.05, 0.02 and 0.2.
 */
#include "ingot/ingot.h"

#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <setjmp.h>
#include <cmocka.h>

typedef struct bounds {
    double logprob, loss, gap;
} bounds;

typedef struct fixture {
    json_t *golden;
    ig_context *ctx;
    ig_model *model;
    ig_runner *runner;
    ig_sequence *seq;
    bounds bound;
    double worst;
} fixture;

/* Thousands of tokens: minutes with sanitizers, which find nothing there that other steps
 * would not show. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static const bool with_perplexity = false;
#else
static const bool with_perplexity = true;
#endif

static ig_error error;

#define ok(call)                                                                           \
    do {                                                                                   \
        if ((call) != IG_OK)                                                               \
            fail_msg("%s", error.message);                                                 \
    } while (0)

static bool open_fixture(fixture *f, const char *file, const char *golden, bool exact,
                         const char *isa)
{
    const char *dir = getenv("INGOT_TEST_MODEL_DIR");
    char path[1024];
    *f = (fixture){0};
    snprintf(path, sizeof path, "%s/golden/%s", IG_SHARED_DATA, golden);
    f->golden = json_load_file(path, 0, NULL);
    snprintf(path, sizeof path, "%s/%s", dir ? dir : "", file);
    FILE *probe = dir ? fopen(path, "rb") : NULL;
    if (!f->golden || !probe) {
        print_message("skipped: no %s or no %s in INGOT_TEST_MODEL_DIR\n", golden, file);
        json_decref(f->golden);
        if (probe)
            fclose(probe);
        return false;
    }
    fclose(probe);
    const ig_context_opts opts = {.n_threads = 2, .isa = isa};
    const ig_model_opts model = {.exact = exact};
    const ig_runner_opts runner = {
        .context = 2048, .max_logits = 64, .kv = exact ? IG_KV_F32 : IG_KV_F16};
    f->bound = exact ? (bounds){0.005, 0.001, 0.01} : (bounds){0.05, 0.02, 0.2};
    ok(ig_context_create(&f->ctx, &opts, &error));
    ok(ig_model_open(&f->model, f->ctx, path, &model, &error));
    ok(ig_runner_create(&f->runner, f->model, &runner, &error));
    ok(ig_sequence_create(&f->seq, f->runner, &error));
    return true;
}

static void close_fixture(fixture *f)
{
    print_message("%s%s: largest difference of a log-probability %.4f\n",
                  ig_context_isa(f->ctx), ig_model_get_info(f->model).exact ? " exact" : "",
                  f->worst);
    ig_sequence_destroy(f->seq);
    ig_runner_destroy(f->runner);
    ig_model_close(f->model);
    ig_context_destroy(f->ctx);
    json_decref(f->golden);
}

static int32_t id_at(const json_t *list, size_t i)
{
    return (int32_t)json_integer_value(json_array_get(list, i));
}

static const float *step(fixture *f, const int32_t *ids, int64_t n)
{
    const ig_step_part part = {f->seq, ids, n, 1};
    ok(ig_runner_step(f->runner, &part, 1, NULL, &error));
    return ig_runner_logits(f->runner, 0);
}

/* Continue greedily as far as the reference is not nearly tied. */
static void check_greedy(fixture *f, const json_t *c, const float *logits)
{
    const json_t *tokens = json_object_get(c, "greedy_tokens");
    const json_t *gaps = json_object_get(c, "greedy_gaps");
    const int64_t vocab = ig_model_get_info(f->model).vocab;
    for (size_t i = 0; i < json_array_size(tokens); i++) {
        if (json_real_value(json_array_get(gaps, i)) < f->bound.gap)
            return;
        ig_logprob best;
        ig_logprobs_top(&best, 1, logits, vocab);
        assert_int_equal(best.id, id_at(tokens, i));
        logits = step(f, &best.id, 1);
    }
}

static void check_completion(fixture *f, const json_t *c)
{
    const char *prompt = json_string_value(json_object_get(c, "prompt"));
    const json_t *tokens = json_object_get(c, "tokens");
    const json_t *top = json_object_get(c, "top_logprobs");
    const int64_t vocab = ig_model_get_info(f->model).vocab;
    const ig_tokenizer *tokenizer = ig_model_tokenizer(f->model);
    const ig_tokenize_opts opts = {.add_special = true};
    ig_ids ids = {0};
    ok(ig_tokenize(&ids, tokenizer, prompt, strlen(prompt), &opts, &error));
    assert_int_equal(ids.n, json_array_size(tokens));
    for (int64_t i = 0; i < ids.n; i++)
        assert_int_equal(ids.ids[i], id_at(tokens, (size_t)i));
    ig_sequence_cut(f->seq, 0);
    const float *logits = step(f, ids.ids, ids.n);
    for (size_t i = 0; i < json_array_size(top); i++) {
        const json_t *row = json_array_get(top, i);
        const double wanted = json_number_value(json_array_get(row, 2));
        const double found = (double)ig_logprob_of(logits, vocab, id_at(row, 0));
        if (fabs(found - wanted) > f->worst)
            f->worst = fabs(found - wanted);
        if (fabs(found - wanted) > f->bound.logprob)
            fail_msg("'%s', token %d: %.5f, wanted %.5f", prompt, id_at(row, 0), found,
                     wanted);
    }
    check_greedy(f, c, logits);
    ig_ids_free(tokenizer, &ids);
}

static void check_chat(fixture *f, const json_t *c)
{
    const json_t *list = json_object_get(c, "messages"),
                 *tokens = json_object_get(c, "tokens");
    const char *source = ig_model_chat_template(f->model);
    ig_message messages[8];
    const size_t n = json_array_size(list);
    assert_non_null(source);
    assert_true(n <= 8);
    for (size_t i = 0; i < n; i++) {
        const json_t *m = json_array_get(list, i);
        messages[i].role = json_string_value(json_object_get(m, "role"));
        messages[i].content = json_string_value(json_object_get(m, "content"));
    }
    ig_template *tmpl;
    ig_ids ids = {0};
    const ig_tokenizer *tokenizer = ig_model_tokenizer(f->model);
    ok(ig_template_create(&tmpl, f->ctx, source, strlen(source), &error));
    ok(ig_chat_encode(&ids, tokenizer, tmpl, messages, (int64_t)n, &error));
    assert_int_equal(ids.n, json_array_size(tokens));
    for (int64_t i = 0; i < ids.n; i++)
        assert_int_equal(ids.ids[i], id_at(tokens, (size_t)i));
    ig_sequence_cut(f->seq, 0);
    check_greedy(f, c, step(f, ids.ids, ids.n));
    ig_ids_free(tokenizer, &ids);
    ig_template_destroy(tmpl);
}

static void check_perplexity(fixture *f, const char *key)
{
    const json_t *p = json_object_get(f->golden, key);
    const int64_t n = json_integer_value(json_object_get(p, "tokens"));
    const int64_t context = json_integer_value(json_object_get(p, "context"));
    FILE *file = fopen(IG_SHARED_DATA "/data/tinyshakespeare.txt", "rb");
    if (!p || !file) {
        print_message("skipped: no text for %s\n", key);
        return;
    }
    char *text = malloc(65536);
    const size_t n_bytes = fread(text, 1, 65536, file);
    fclose(file);
    const ig_tokenizer *tokenizer = ig_model_tokenizer(f->model);
    ig_ids ids = {0};
    ok(ig_tokenize(&ids, tokenizer, text, n_bytes, NULL, &error));
    assert_true(ids.n > n);
    double sum;
    int64_t n_scored;
    ig_sequence_cut(f->seq, 0);
    ok(ig_score(&sum, &n_scored, f->runner, ids.ids, n, context, false, &error));
    assert_int_equal(n_scored, json_integer_value(json_object_get(p, "scored_tokens")));
    const double wanted = json_real_value(json_object_get(p, "mean_nll"));
    print_message("%s: mean loss %.5f, reference %.5f\n", key, sum / (double)n_scored,
                  wanted);
    if (!(fabs(sum / (double)n_scored - wanted) <= f->bound.loss))
        fail_msg("%s: mean loss %.6f, wanted %.6f", key, sum / (double)n_scored, wanted);
    ig_ids_free(tokenizer, &ids);
    free(text);
}

static void check_model(const char *file, const char *golden, bool exact, const char *isa)
{
    fixture f;
    if (!open_fixture(&f, file, golden, exact, isa))
        return;
    const json_t *list = json_object_get(f.golden, "completions");
    for (size_t i = 0; i < json_array_size(list); i++)
        check_completion(&f, json_array_get(list, i));
    list = json_object_get(f.golden, "chat");
    for (size_t i = 0; i < json_array_size(list); i++)
        check_chat(&f, json_array_get(list, i));
    if (with_perplexity) {
        check_perplexity(&f, "perplexity");
        check_perplexity(&f, "perplexity_2048");
    }
    close_fixture(&f);
}

#define SMOLLM2 "SmolLM2-135M-Instruct.Q4_1.gguf", "smollm2-135m-instruct-q4_1.json"
#define GEMMA3  "gemma-3-270m-q4_k_m.gguf", "gemma3-270m-q4_k_m.json"

static void test_smollm2_exact(void **state)
{
    (void)state;
    check_model(SMOLLM2, true, NULL);
}
static void test_smollm2(void **state)
{
    (void)state;
    check_model(SMOLLM2, false, NULL);
}
/* With the activations of an instruction set that is not the best here. */
static void check_isa(const char *isa)
{
    ig_context *ctx;
    const ig_context_opts opts = {.n_threads = 1, .isa = isa};
    if (ig_context_create(&ctx, &opts, &error) != IG_OK)
        skip();
    ig_context_destroy(ctx);
    check_model(SMOLLM2, false, isa);
}
static void test_smollm2_avx2(void **state)
{
    (void)state;
    check_isa("avx2");
}
static void test_smollm2_avx512(void **state)
{
    (void)state;
    check_isa("avx512");
}
static void test_gemma3_exact(void **state)
{
    (void)state;
    check_model(GEMMA3, true, NULL);
}
static void test_gemma3(void **state)
{
    (void)state;
    check_model(GEMMA3, false, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_smollm2_exact), cmocka_unit_test(test_smollm2),
        cmocka_unit_test(test_smollm2_avx2),  cmocka_unit_test(test_smollm2_avx512),
        cmocka_unit_test(test_gemma3_exact),  cmocka_unit_test(test_gemma3),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
