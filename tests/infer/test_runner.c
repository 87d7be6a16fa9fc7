/* The runner's promises: the same bits however a sequence is cut into steps, whatever stands
 * beside it and whoever computes it; forks, cuts and failures that leave the rest alone.
 *
 * Tiny models of every weight type, on every instruction set of this CPU; and the real ones,
 * when INGOT_TEST_MODEL_DIR has them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "kernel/kernel.h"
#include "tiny_run.h"

#include <math.h>

enum { N_IDS = 600 };

static int32_t ids[N_IDS];

/* Is the cell of the matrix (kv, model) one that exists? q8_0 wants heads of 32. */
static bool kv_fits(const tiny_model *t, ig_kv_type kv)
{
    return kv != IG_KV_Q8_0 || t->gemma || ig_dtype_block(t->dtype) == 256;
}

static const char *label(const running_opts *o, const char *what)
{
    static char text[128];
    snprintf(text, sizeof text, "%s %s, %s, kv %d, %d threads: %s",
             o->tiny.gemma ? "gemma" : "llama", ig_dtype_name(o->tiny.dtype),
             o->isa ? o->isa : "best", (int)o->kv, o->n_threads, what);
    return text;
}

/* Call `check` for every instruction set, weight type and family; but for the plain loops with
 * the larger models of types in blocks of 256, which would take most of the time. */
static void for_all_models(void (*check)(const running_opts *opts))
{
    const ig__kernels *tables[4];
    const int n_tables = ig__kernels_available(tables);
    for (int i = 0; i < n_tables; i++)
        for (int k = 0; k < TINY_TYPES; k++)
            for (int gemma = 0; gemma < 2; gemma++) {
                const running_opts opts = {
                    .tiny = {.dtype = tiny_types[k], .gemma = gemma, .head = k % 2},
                    .isa = tables[i]->isa,
                    .n_threads = 1};
                if (i > 0 || !gemma || ig_dtype_block(tiny_types[k]) < 256)
                    check(&opts);
            }
}

/* ---- the same bits ---- */

static void check_threads(const running_opts *opts)
{
    enum { N = 45, SINGLE = 6 };
    running_opts o = *opts;
    running r;
    run_open(&r, &o);
    float *wanted = logits_of(&r, ids, N, N);
    for (int64_t i = 0; i < N * r.vocab; i++)
        assert_true(isfinite(wanted[i]));
    assert_memory_not_equal(wanted, wanted + (N - 1) * r.vocab, (size_t)r.vocab * 4);
    run_close(&r);
    for (o.n_threads = 2; o.n_threads <= 3; o.n_threads++) {
        run_open(&r, &o);
        float *got = logits_of(&r, ids, N, N);
        assert_same_rows(got, wanted, N, r.vocab, label(&o, "a prompt"));
        free(got);
        got = logits_of(&r, ids, SINGLE, 1);
        assert_same_rows(got, wanted, SINGLE, r.vocab, label(&o, "decoding"));
        free(got);
        run_close(&r);
    }
    free(wanted);
}

static void same_bits_for_any_threads(void **state)
{
    (void)state;
    for_all_models(check_threads);
}

/* Small pieces where something begins: at the start, and around the ends of the spans of 256
 * keys, where decoding attends cut into spans and prompts whole. */
static float *in_pieces(const running *r, int64_t piece)
{
    static const int64_t ends[] = {40, 240, 280, 500, 530, N_IDS};
    float *out = malloc((size_t)(N_IDS * r->vocab) * sizeof *out);
    assert_non_null(out);
    ig_sequence *seq = new_sequence(r);
    for (int64_t i = 0, at = 0; i < 6; at = ends[i++])
        feed(out + at * r->vocab, r, seq, ids + at, ends[i] - at,
             piece >= 16 || i % 2 == 0 ? piece : 100);
    ig_sequence_destroy(seq);
    return out;
}

static void check_pieces(const running_opts *opts)
{
    static const int64_t pieces[] = {1, 3, 16, 17, 100};
    const bool small = opts->tiny.dtype == IG_DTYPE_Q4_0;
    const bool large = opts->tiny.dtype == IG_DTYPE_Q4_K && !opts->tiny.gemma;
    if (!small && !(large && strcmp(opts->isa, "ref") != 0))
        return;
    running_opts o = *opts;
    for (int kv = 0; kv < 3; kv++) {
        o.kv = (ig_kv_type)kv;
        o.n_threads = 1 + kv;
        if (!kv_fits(&o.tiny, o.kv))
            continue;
        running r;
        run_open(&r, &o);
        float *wanted = logits_of(&r, ids, N_IDS, N_IDS);
        for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
            char what[32];
            snprintf(what, sizeof what, "pieces of %lld", (long long)pieces[i]);
            float *got = in_pieces(&r, pieces[i]);
            assert_same_rows(got, wanted, N_IDS, r.vocab, label(&o, what));
            free(got);
        }
        free(wanted);
        run_close(&r);
    }
}

static void same_bits_for_any_pieces(void **state)
{
    (void)state;
    for_all_models(check_pieces);
}

/* Three sequences in one step, of which one decodes, one goes on and one begins. */
static void check_company(const running_opts *opts)
{
    enum { A = 1, B = 19, C = 40, BEFORE_A = 30, BEFORE_B = 5 };
    running r;
    running_opts o = *opts;
    o.n_threads = 2;
    run_open(&r, &o);
    const size_t row = (size_t)r.vocab;
    float *before = malloc(BEFORE_A * row * sizeof *before);
    float *wanted = malloc((A + B + C) * row * sizeof *wanted);
    float *got = malloc((A + B + C) * row * sizeof *got);
    for (int together = 0; together < 2; together++) {
        ig_sequence *a = new_sequence(&r), *b = new_sequence(&r), *c = new_sequence(&r);
        feed(before, &r, a, ids, BEFORE_A, BEFORE_A);
        feed(before, &r, b, ids + 100, BEFORE_B, BEFORE_B);
        if (together) {
            const ig_step_part parts[] = {{b, ids + 100 + BEFORE_B, B, B},
                                          {a, ids + BEFORE_A, A, A},
                                          {c, ids + 200, C, C}};
            must(ig_runner_step(r.runner, parts, 3, NULL, &running_error));
            memcpy(got, ig_runner_logits(r.runner, 0), (A + B + C) * row * sizeof *got);
            assert_null(ig_runner_logits(r.runner, A + B + C));
        } else {
            feed(wanted, &r, b, ids + 100 + BEFORE_B, B, B);
            feed(wanted + B * row, &r, a, ids + BEFORE_A, A, A);
            feed(wanted + (A + B) * row, &r, c, ids + 200, C, C);
        }
        assert_int_equal(ig_sequence_length(a), BEFORE_A + A);
        ig_sequence_destroy(a);
        ig_sequence_destroy(b);
        ig_sequence_destroy(c);
    }
    assert_same_rows(got, wanted, A + B + C, r.vocab, label(&o, "in company"));
    free(before);
    free(wanted);
    free(got);
    run_close(&r);
}

static void same_bits_in_company(void **state)
{
    (void)state;
    for_all_models(check_company);
}

/* Four sequences that decode together, past a span: few rows, cut attention. */
static void check_decoding_together(const running_opts *opts)
{
    enum { N = 290, N_SEQ = 4, LAST = 8 };
    if (opts->tiny.dtype != IG_DTYPE_Q8_0)
        return;
    running r;
    running_opts o = *opts;
    o.n_threads = 3;
    run_open(&r, &o);
    ig_sequence *seqs[N_SEQ];
    float *wanted[N_SEQ], *got = malloc((size_t)(N * r.vocab) * sizeof *got);
    ig_step_part parts[N_SEQ];
    for (int s = 0; s < N_SEQ; s++) {
        wanted[s] = logits_of(&r, ids + 10 * s, N, N);
        seqs[s] = new_sequence(&r);
        feed(got, &r, seqs[s], ids + 10 * s, N - LAST - 60 * s, N);
    }
    for (int i = 0; i < LAST; i++) {
        for (int s = 0; s < N_SEQ; s++)
            parts[s] =
                (ig_step_part){seqs[s], ids + 10 * s + ig_sequence_length(seqs[s]), 1, 1};
        must(ig_runner_step(r.runner, parts, N_SEQ, NULL, &running_error));
        for (int s = 0; s < N_SEQ; s++)
            assert_same_rows(ig_runner_logits(r.runner, s),
                             wanted[s] + (ig_sequence_length(seqs[s]) - 1) * r.vocab, 1,
                             r.vocab, label(&o, "decoding together"));
    }
    for (int s = 0; s < N_SEQ; s++) {
        ig_sequence_destroy(seqs[s]);
        free(wanted[s]);
    }
    free(got);
    run_close(&r);
}

static void same_bits_decoding_together(void **state)
{
    (void)state;
    for_all_models(check_decoding_together);
}

static void check_real(const char *file)
{
    enum { N = 262, LAST = 3 };
    const char *folder = getenv("INGOT_TEST_MODEL_DIR");
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", folder ? folder : "", file);
    FILE *f = folder ? fopen(path, "rb") : NULL;
    if (!f) {
        print_message("skipped: no %s in INGOT_TEST_MODEL_DIR\n", file);
        skip();
    }
    fclose(f);
    float *wanted = NULL;
    for (int n_threads = 1; n_threads <= 3; n_threads++) {
        const running_opts o = {.path = path, .n_threads = n_threads, .max_tokens = N};
        running r;
        run_open(&r, &o);
        float *got = malloc((size_t)(N * r.vocab) * sizeof *got);
        ig_sequence *seq = new_sequence(&r);
        /* 1 thread: in one step; then pieces of 100, and single tokens at the end */
        feed(got, &r, seq, ids, N - LAST, n_threads == 1 ? N : 100);
        feed(got + (N - LAST) * r.vocab, &r, seq, ids + N - LAST, LAST,
             n_threads == 1 ? LAST : 1);
        ig_sequence_destroy(seq);
        if (wanted)
            assert_same_rows(got, wanted, N, r.vocab, file);
        else
            wanted = got;
        if (got != wanted)
            free(got);
        run_close(&r);
    }
    free(wanted);
}

static void same_bits_smollm2(void **state)
{
    (void)state;
    check_real("SmolLM2-135M-Instruct.Q4_1.gguf");
}

static void same_bits_gemma3(void **state)
{
    (void)state;
    check_real("gemma-3-270m-q4_k_m.gguf");
}

/* ---- forks and cuts ---- */

static void forks_and_cuts_keep_bits(void **state)
{
    (void)state;
    enum { N = 60, FORK = 37, CUT = 21 };
    for (int gemma = 0; gemma < 2; gemma++) {
        const running_opts o = {.tiny = {.dtype = IG_DTYPE_Q5_0, .gemma = gemma},
                                .n_threads = 2};
        running r;
        run_open(&r, &o);
        const int64_t all = ig_runner_free_tokens(r.runner);
        const int64_t v = r.vocab;
        int32_t other[N]; /* the same up to FORK, then different */
        memcpy(other, ids, sizeof other);
        tiny_ids(other + FORK, N - FORK, 99);
        float *wanted = logits_of(&r, ids, N, N),
              *wanted_other = logits_of(&r, other, N, N);
        float *got = malloc((size_t)(N * v) * sizeof *got);
        ig_sequence *seq = new_sequence(&r), *fork, *second;
        feed(got, &r, seq, ids, FORK, FORK);
        must(ig_sequence_fork(&fork, seq, &running_error));
        assert_int_equal(all - ig_runner_free_tokens(r.runner),
                         48); /* whole pages shared */
        feed(got + FORK * v, &r, fork, other + FORK, N - FORK, 7);
        assert_same_rows(got + FORK * v, wanted_other + FORK * v, N - FORK, v, "fork");
        feed(got + FORK * v, &r, seq, ids + FORK, N - FORK, 5);
        assert_same_rows(got, wanted, N, v, "forked from");

        must(ig_sequence_fork(&second, fork, &running_error));
        ig_sequence_destroy(fork);
        ig_sequence_cut(second, CUT);
        assert_int_equal(ig_sequence_length(second), CUT);
        ig_sequence_cut(second, CUT + 1); /* not a cut */
        assert_int_equal(ig_sequence_length(second), CUT);
        feed(got + CUT * v, &r, second, ids + CUT, N - CUT, N);
        assert_same_rows(got + CUT * v, wanted + CUT * v, N - CUT, v, "cut");
        ig_sequence_cut(second, 0);
        feed(got, &r, second, other, N, 16);
        assert_same_rows(got, wanted_other, N, v, "cut to nothing");
        ig_sequence_destroy(second);
        ig_sequence_destroy(seq);
        assert_int_equal(ig_runner_free_tokens(r.runner), all);
        free(wanted);
        free(wanted_other);
        free(got);
        run_close(&r);
    }
}

/* ---- failures ---- */

static void assert_step_fails(const running *r, const ig_step_part *parts, int64_t n,
                              const volatile int *cancelled, ig_status status,
                              const char *words)
{
    const int64_t free_before = ig_runner_free_tokens(r->runner);
    int64_t lengths[8];
    for (int64_t i = 0; i < n && i < 8; i++)
        lengths[i] = ig_sequence_length(parts[i].seq);
    assert_int_equal(ig_runner_step(r->runner, parts, n, cancelled, &running_error),
                     status);
    if (!strstr(running_error.message, words))
        fail_msg("wanted \"%s\" in: %s", words, running_error.message);
    assert_int_equal(ig_runner_free_tokens(r->runner), free_before);
    for (int64_t i = 0; i < n && i < 8; i++)
        assert_int_equal(ig_sequence_length(parts[i].seq), lengths[i]);
    assert_null(ig_runner_logits(r->runner, 0));
}

static void a_cancelled_step_changes_nothing(void **state)
{
    (void)state;
    enum { N = 40, BEFORE = 18 };
    const volatile int set = 1;
    for (int n_threads = 1; n_threads <= 2; n_threads++) {
        const running_opts o = {.tiny = {.dtype = IG_DTYPE_Q8_0}, .n_threads = n_threads};
        running r;
        run_open(&r, &o);
        float *wanted = logits_of(&r, ids, N, N), *got = malloc((size_t)(N * r.vocab) * 4);
        ig_sequence *seq = new_sequence(&r);
        feed(got, &r, seq, ids, BEFORE, BEFORE);
        const int32_t others[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
        for (int64_t n = 1; n <= 10; n += 9) { /* a small step and a large one */
            const ig_step_part part = {seq, others, n, 1};
            assert_step_fails(&r, &part, 1, &set, IG_ERR_CANCELLED, "cancelled");
        }
        feed(got + BEFORE * r.vocab, &r, seq, ids + BEFORE, N - BEFORE, 4);
        assert_same_rows(got, wanted, N, r.vocab, "after a cancelled step");
        ig_sequence_destroy(seq);
        free(wanted);
        free(got);
        run_close(&r);
    }
}

static void a_full_pool_loses_nothing(void **state)
{
    (void)state;
    const running_opts o = {.tiny = {.dtype = IG_DTYPE_Q4_1},
                            .n_threads = 1,
                            .max_tokens = 64,
                            .pool_tokens = 64};
    running r;
    run_open(&r, &o);
    assert_int_equal(ig_runner_free_tokens(r.runner), 64);
    float *wanted = logits_of(&r, ids, 64, 64), *got = malloc((size_t)(64 * r.vocab) * 4);
    ig_sequence *a = new_sequence(&r), *b = new_sequence(&r), *fork;
    feed(got, &r, a, ids, 20, 20);
    feed(got, &r, b, ids, 16, 16);
    const ig_step_part both[] = {{b, ids + 16, 16, 1}, {a, ids + 20, 13, 1}};
    assert_step_fails(&r, both, 2, NULL, IG_ERR_LIMIT,
                      "no KV page is free, all 4 are taken");
    must(ig_sequence_fork(&fork, a, &running_error));
    const ig_step_part more = {b, ids + 16, 16, 1};
    must(ig_runner_step(r.runner, &more, 1, NULL, &running_error));
    assert_int_equal(ig_runner_free_tokens(r.runner), 0);
    const ig_step_part copy = {fork, ids + 20, 1, 1};
    assert_step_fails(&r, &copy, 1, NULL, IG_ERR_LIMIT, "no KV page is free to copy");
    ig_sequence_destroy(fork);
    ig_sequence_destroy(a);
    feed(got, &r, b, ids + 32, 32, 3);
    assert_same_rows(got, wanted + 32 * r.vocab, 32, r.vocab, "after a full pool");
    ig_sequence_destroy(b);
    assert_int_equal(ig_runner_free_tokens(r.runner), 64);
    free(wanted);
    free(got);
    run_close(&r);
}

static void wrong_steps_are_refused(void **state)
{
    (void)state;
    const running_opts o = {
        .tiny = {.dtype = IG_DTYPE_F16}, .n_threads = 1, .max_tokens = 32};
    running r;
    run_open(&r, &o);
    ig_sequence *seq = new_sequence(&r), *other = new_sequence(&r);
    static const int32_t above[] = {0, TINY_VOCAB}, below[] = {-1};
    ig_step_part part = {seq, ids, 0, 0};
    assert_step_fails(&r, &part, 1, NULL, IG_ERR_ARGUMENT, "0 tokens");
    part = (ig_step_part){seq, ids, 2, 3};
    assert_step_fails(&r, &part, 1, NULL, IG_ERR_ARGUMENT, "3 logits");
    part = (ig_step_part){seq, ids, 33, 1};
    assert_step_fails(&r, &part, 1, NULL, IG_ERR_LIMIT, "more than 32 tokens");
    part = (ig_step_part){seq, above, 2, 1};
    assert_step_fails(&r, &part, 1, NULL, IG_ERR_ARGUMENT,
                      "token 100, the vocabulary has 100");
    part = (ig_step_part){seq, below, 1, 1};
    assert_step_fails(&r, &part, 1, NULL, IG_ERR_ARGUMENT, "token -1");
    const ig_step_part twice[] = {{seq, ids, 1, 1}, {other, ids, 1, 1}, {seq, ids, 1, 1}};
    assert_step_fails(&r, twice, 3, NULL, IG_ERR_ARGUMENT,
                      "parts 0 and 2 are one sequence");
    assert_int_equal(ig_runner_step(r.runner, twice, 0, NULL, &running_error),
                     IG_ERR_ARGUMENT);
    float *got = malloc((size_t)(1024 * r.vocab) * 4);
    feed(got, &r, seq, ids, 600, 32);
    feed(got, &r, seq, ids, 424, 32);
    part = (ig_step_part){seq, ids, 1, 1};
    assert_step_fails(&r, &part, 1, NULL, IG_ERR_LIMIT, "do not fit the context of 1024");
    free(got);
    ig_sequence_destroy(seq);
    ig_sequence_destroy(other);
    run_close(&r);
}

static void a_nan_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *tensor, *words[2];
    } cases[] = {
        {"blk.1.attn_norm.weight", {"blk.1", "NaN"}},
        {"blk.0.attn_v.weight", {"blk.0", "NaN"}},
        {"blk.1.ffn_down.weight", {"blk.1", "NaN"}},
        {"output_norm.weight", {"head", "NaN"}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int64_t n = 1; n <= 20; n += 19) {
            const running_opts o = {
                .tiny = {.dtype = IG_DTYPE_Q8_0, .nan_in = cases[i].tensor},
                .n_threads = 2};
            running r;
            run_open(&r, &o);
            ig_sequence *seq = new_sequence(&r);
            const ig_step_part part = {seq, ids, n, 1};
            assert_step_fails(&r, &part, 1, NULL, IG_ERR_NUMERIC, cases[i].words[0]);
            assert_non_null(strstr(running_error.message, cases[i].words[1]));
            ig_sequence_destroy(seq);
            run_close(&r);
        }
    }
}

/* One token's embedding is a NaN. A step that held it fails; the next one, without it, knows
 * nothing of it, though it writes to the same page. */
static void a_nan_does_not_stay(void **state)
{
    (void)state;
    enum { N = 30, BEFORE = 9, BAD = 50 };
    int32_t good[N];
    tiny_ids(good, N, 3);
    for (int i = 0; i < N; i++)
        good[i] = good[i] == BAD ? BAD + 1 : good[i];
    const ig__kernels *tables[4];
    const int n_tables = ig__kernels_available(tables);
    for (int i = 0; i < n_tables; i++)
        for (int kv = 0; kv < 3; kv++) {
            const running_opts o = {.tiny = {.dtype = IG_DTYPE_Q4_0,
                                             .gemma = true,
                                             .head = true,
                                             .nan_in = "token_embd.weight",
                                             .nan_row = BAD},
                                    .n_threads = 1,
                                    .isa = tables[i]->isa,
                                    .kv = (ig_kv_type)kv};
            running r;
            run_open(&r, &o);
            float *wanted = logits_of(&r, good, N, N),
                  *got = malloc((size_t)(N * r.vocab) * 4);
            ig_sequence *seq = new_sequence(&r);
            feed(got, &r, seq, good, BEFORE, BEFORE);
            static const int32_t bad[] = {1, BAD, 2, 3, BAD, 4, 5, 6, 7, 8, 9, BAD};
            const ig_step_part part = {seq, bad, sizeof bad / sizeof *bad, 1};
            assert_step_fails(&r, &part, 1, NULL, IG_ERR_NUMERIC, "NaN");
            feed(got + BEFORE * r.vocab, &r, seq, good + BEFORE, N - BEFORE, 1);
            assert_same_rows(got, wanted, N, r.vocab, label(&o, "after a NaN"));
            ig_sequence_destroy(seq);
            free(wanted);
            free(got);
            run_close(&r);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_bits_for_any_threads),
        cmocka_unit_test(same_bits_for_any_pieces),
        cmocka_unit_test(same_bits_in_company),
        cmocka_unit_test(same_bits_decoding_together),
        cmocka_unit_test(same_bits_smollm2),
        cmocka_unit_test(same_bits_gemma3),
        cmocka_unit_test(forks_and_cuts_keep_bits),
        cmocka_unit_test(a_cancelled_step_changes_nothing),
        cmocka_unit_test(a_full_pool_loses_nothing),
        cmocka_unit_test(wrong_steps_are_refused),
        cmocka_unit_test(a_nan_is_named),
        cmocka_unit_test(a_nan_does_not_stay),
    };
    tiny_ids(ids, N_IDS, 7);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
