/* Which text of an answer is final, and when stop strings end it: however the text is cut
 * into tokens, what is shown is the text up to the first stop string, as whole characters,
 * and never a byte that would have to be taken back. Then the loop itself, with a real
 * model where there is one.
 */
#include "infer/fault_allocator.h"

#include "base/alloc.h"
#include "base/buffer.h"
#include "base/rng.h"
#include "infer/answer.h"
#include "ingot/generate.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

static ig_allocator memory;

static void init(ig__answer *a, const char *const *stop, int64_t n_stop)
{
    ig_error err = {0};
    if (ig__answer_init(a, &memory, stop, n_stop, &err) != IG_OK)
        fail_msg("%s", err.message);
}

/* Push a token, and compare the text that is now final. */
static void push(ig__answer *a, const char *bytes, const char *final)
{
    assert_int_equal(ig__answer_push(a, bytes, strlen(bytes), NULL), IG_OK);
    assert_int_equal(a->n_final, strlen(final));
    assert_memory_equal(a->n_final ? a->text.data : "", final, a->n_final);
}

static void flush(ig__answer *a, const char *final)
{
    assert_int_equal(ig__answer_flush(a, NULL), IG_OK);
    assert_int_equal(a->n_final, strlen(final));
    assert_memory_equal(a->n_final ? a->text.data : "", final, a->n_final);
}

/* ---- single facts */

static void plain_text_is_final_at_once(void **state)
{
    (void)state;
    ig__answer a;
    init(&a, NULL, 0);
    push(&a, "Hello", "Hello");
    push(&a, "", "");
    push(&a, ", world", ", world");
    assert_false(a.stopped);
    flush(&a, "");
    ig__answer_fini(&a);
}

static void characters_come_whole(void **state)
{
    (void)state;
    ig__answer a;
    init(&a, NULL, 0);
    push(&a, "This is", "This is");
    push(&a, " \xF0\x9F", " "); /* the space may leave, the rest waits */
    push(&a, "\xA6", "");
    push(&a, "\x99", "\xF0\x9F\xA6\x99");
    push(&a, ".cpp", ".cpp");
    push(&a, "\xF0\x9F", "");
    flush(&a, "\xEF\xBF\xBD"); /* U+FFFD */
    ig__answer_fini(&a);
    init(&a, NULL, 0);
    push(&a, "\xF0\x9F", "");
    push(&a, "\xF0\x9F", "\xEF\xBF\xBD");
    push(&a, "\xF0\x9F", "\xEF\xBF\xBD");
    flush(&a, "\xEF\xBF\xBD");
    ig__answer_fini(&a);
}

static void possible_stops_are_held(void **state)
{
    (void)state;
    static const char *const stop[] = {"\n\nUser:", "END"};
    ig__answer a;
    init(&a, stop, 2);
    push(&a, "text\n", "text");
    push(&a, "\n", "");
    push(&a, "\nUs", "\n"); /* the first newline cannot begin it any more */
    push(&a, "ual", "\n\nUsual");
    push(&a, " E", " ");
    push(&a, "N", "");
    push(&a, "E", "EN");
    push(&a, "ND of it", "");
    assert_true(a.stopped);
    push(&a, "more", "");
    flush(&a, "");
    ig__answer_fini(&a);
}

static void stop_inside_a_token(void **state)
{
    (void)state;
    static const char *const stop[] = {"###"};
    ig__answer a;
    init(&a, stop, 1);
    push(&a, "one ## two ### three", "one ## two ");
    assert_true(a.stopped);
    flush(&a, "");
    ig__answer_fini(&a);
    init(&a, stop, 1);
    push(&a, "#", "");
    push(&a, "#", "");
    flush(&a, "##"); /* it never came */
    assert_false(a.stopped);
    ig__answer_fini(&a);
}

static void first_complete_stop_wins(void **state)
{
    (void)state;
    static const char *const stop[] = {"abcd", "bc", "c"};
    ig__answer a;
    init(&a, stop, 3);
    push(&a, "xab", "x");
    push(&a, "cd", "a"); /* "bc" and "c" are complete before "abcd"; "bc" is longer */
    assert_true(a.stopped);
    ig__answer_fini(&a);
}

static void stop_of_many_bytes(void **state)
{
    (void)state;
    static const char *const stop[] = {"\xF0\x9F\xA6\x99!"};
    ig__answer a;
    init(&a, stop, 1);
    push(&a, "a\xF0\x9F", "a");
    push(&a, "\xA6\x99", "");
    push(&a, "?", "\xF0\x9F\xA6\x99?");
    push(&a, "\xF0\x9F\xA6", "");
    push(&a, "\x99!", "");
    assert_true(a.stopped);
    ig__answer_fini(&a);
}

static void bad_stops_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"", "\xFF", "a\xC3", "\xA6", "\xED\xA0\x80"};
    for (int i = 0; i < 5; i++) {
        const char *const stop[] = {"fine", bad[i]};
        ig__answer a;
        ig_error err;
        assert_int_equal(ig__answer_init(&a, &memory, stop, 2, &err), IG_ERR_ARGUMENT);
        assert_string_equal(err.message, i ? "generate: stop string 1 is not UTF-8"
                                           : "generate: stop string 1 is empty");
    }
    ig__answer a;
    assert_int_equal(ig__answer_init(&a, &memory, NULL, 1, NULL), IG_ERR_ARGUMENT);
    assert_true(ig__is_utf8("a\xC3\xA4\xE4\xBD\xA0\xF0\x9F\xA6\x99\xEF\xBF\xBD", 13));
}

/* ---- any text, cut anywhere */

/* The text up to the stop string that is complete first; of those the longest. */
static size_t define_end(const char *text, size_t n, const char *const *stop, int n_stop)
{
    for (size_t end = 1; end <= n; end++) {
        size_t longest = 0;
        for (int s = 0; s < n_stop; s++) {
            const size_t m = strlen(stop[s]);
            if (m <= end && m > longest && memcmp(text + end - m, stop[s], m) == 0)
                longest = m;
        }
        if (longest)
            return end - longest;
    }
    return n;
}

static uint64_t random_state;
static int random_below(int n)
{
    return (int)(ig__uniform(3, 2, random_state++) * n);
}

/* Words over a small alphabet, so that stops nearly happen all the time. */
static void random_text(char *text, int n_letters)
{
    static const char *const letters[] = {"a", "b", "ab", "\xC3\xA4", "\xF0\x9F\xA6\x99"};
    text[0] = 0;
    for (int i = 0; i < n_letters; i++)
        strcat(text, letters[random_below(5)]);
}

static void shown_is_text_up_to_stop(void **state)
{
    (void)state;
    for (int trial = 0; trial < 20000; trial++) {
        char text[256], stops[3][32], shown[256];
        const char *const stop[] = {stops[0], stops[1], stops[2]};
        const int n_stop = random_below(4);
        random_text(text, 30);
        for (int s = 0; s < 3; s++)
            random_text(stops[s], 1 + random_below(6));
        const size_t n = strlen(text), end = define_end(text, n, stop, n_stop);
        ig__answer a;
        init(&a, stop, n_stop);
        size_t n_shown = 0;
        for (size_t i = 0; i < n;) {
            size_t piece = (size_t)random_below(7);
            piece = piece < n - i ? piece : n - i;
            assert_int_equal(ig__answer_push(&a, text + i, piece, NULL), IG_OK);
            i += piece;
            memcpy(shown + n_shown, a.text.data, a.n_final);
            n_shown += a.n_final;
            assert_true(n_shown <= end); /* nothing of a stop string leaks */
            assert_true(ig__is_utf8(shown, n_shown));
            /* and what need not wait does not: at most a stop string and a character */
            assert_true(a.stopped || i - n_shown <= 6 * 4 + 3);
        }
        assert_int_equal(ig__answer_flush(&a, NULL), IG_OK);
        memcpy(shown + n_shown, a.text.data, a.n_final);
        n_shown += a.n_final;
        assert_int_equal(n_shown, end);
        assert_memory_equal(shown, text, end);
        assert_int_equal(a.stopped, end < n);
        ig__answer_fini(&a);
    }
}

static void long_stop_is_fast(void **state)
{
    (void)state;
    enum { N = 200000 };
    char *stop = malloc(N + 1);
    memset(stop, 'a', N);
    stop[N - 1] = 'b';
    stop[N] = 0;
    const char *const stops[] = {stop};
    ig__answer a;
    init(&a, stops, 1);
    size_t n_shown = 0;
    for (int i = 0; i < 2 * N; i += 100) { /* quadratic would be 8e10 steps */
        char piece[100];
        memset(piece, 'a', 100);
        assert_int_equal(ig__answer_push(&a, piece, 100, NULL), IG_OK);
        n_shown += a.n_final;
    }
    assert_int_equal(n_shown, 2 * N - (N - 1));
    push(&a, "b", "");
    assert_true(a.stopped);
    ig__answer_fini(&a);
    free(stop);
}

static void answer_faults(void **state)
{
    (void)state;
    static const char *const stop[] = {"stop", "halt"};
    for (int64_t nth = 1;; nth++) {
        fault_allocator f = {.fail_nth = nth};
        const ig_allocator m = fault_allocator_of(&f);
        ig__answer a;
        ig_error err = {0};
        ig_status status = ig__answer_init(&a, &m, stop, 2, &err);
        if (status == IG_OK) {
            char text[500];
            memset(text, 'x', sizeof text);
            status = ig__answer_push(&a, text, sizeof text, &err);
            if (status != IG_OK) { /* nothing was taken: it may be tried again */
                assert_int_equal(ig__answer_push(&a, text, sizeof text, NULL), IG_OK);
                assert_int_equal(a.n_final, sizeof text);
            }
            ig__answer_fini(&a);
        }
        assert_int_equal(f.n_alive, 0);
        if (f.n_calls < nth) {
            assert_int_equal(status, IG_OK);
            assert_true(nth > 3);
            break;
        }
        assert_int_equal(status, IG_ERR_MEMORY);
    }
}

/* ---- the loop, with SmolLM2-135M-Instruct in $INGOT_TEST_MODEL_DIR ---- */

static fault_allocator faults; /* the context's memory */
static ig_context *context;
static ig_model *model; /* NULL: the tests below skip */

static int open_model(void **state)
{
    (void)state;
    const char *dir = getenv("INGOT_TEST_MODEL_DIR");
    if (!dir) {
        print_message("INGOT_TEST_MODEL_DIR is not set: tests with a model skip\n");
        return 0;
    }
    char path[1024];
    snprintf(path, sizeof path, "%s/SmolLM2-135M-Instruct.Q4_1.gguf", dir);
    ig_error err = {0};
    const ig_model_opts opts = {.exact = true};
    const ig_allocator a = fault_allocator_of(&faults);
    const ig_context_opts context_opts = {.allocator = &a};
    if (ig_context_create(&context, &context_opts, &err) != IG_OK ||
        ig_model_open(&model, context, path, &opts, &err) != IG_OK)
        print_message("%s: tests with a model skip\n", err.message);
    return 0;
}

static int close_model(void **state)
{
    (void)state;
    ig_model_close(model);
    ig_context_destroy(context);
    return faults.n_alive != 0;
}

static void need_model(void)
{
    if (!model)
        skip();
}

/* What a call of ig_generate showed and returned. */
typedef struct heard {
    char text[512];
    size_t n;
    int32_t ids[64];
    float logprobs[64];
    ig_logprob top[5]; /* of the first token */
    int n_ids, n_rest, cancel_after;
    volatile int cancelled;
    ig_generate_result result;
    ig_status status;
    ig_error err;
    int64_t length;                  /* of the sequence afterwards */
    int64_t fail_nth, n_allocations; /* during the call */
} heard;

static bool hear(void *user, const ig_generated *token)
{
    heard *h = user;
    memcpy(h->text + h->n, token->text, token->n_text);
    h->n += token->n_text;
    h->text[h->n] = 0;
    assert_true(ig__is_utf8(token->text, token->n_text));
    if (token->id < 0) {
        h->n_rest++;
        return true;
    }
    if (h->n_ids == 0 && token->n_top > 0)
        memcpy(h->top, token->top, (size_t)token->n_top * sizeof *token->top);
    h->logprobs[h->n_ids] = token->logprob;
    h->ids[h->n_ids++] = token->id;
    return h->n_ids != h->cancel_after;
}

/* Generate on a fresh runner: greedy, `forced` (>= 0) at every step. */
static void generate(heard *h, const ig_runner_opts *runner_opts, const int32_t *prompt,
                     int64_t n_prompt, int32_t forced, ig_generate_opts opts)
{
    ig_runner *runner;
    ig_sequence *seq;
    ig_sampler *sampler;
    const ig_logit_bias bias = {.id = forced, .bias = 100};
    ig_sampler_opts greedy = ig_sampler_defaults();
    greedy.temperature = 0;
    greedy.bias = &bias;
    greedy.n_bias = forced >= 0;
    assert_int_equal(ig_runner_create(&runner, model, runner_opts, NULL), IG_OK);
    assert_int_equal(ig_sequence_create(&seq, runner, NULL), IG_OK);
    assert_int_equal(ig_sampler_create(&sampler, context, 49152, &greedy, NULL), IG_OK);
    opts.on_token = hear;
    opts.user = h;
    opts.cancelled = &h->cancelled;
    faults.n_calls = 0;
    faults.fail_nth = h->fail_nth;
    h->status =
        ig_generate(&h->result, runner, seq, sampler, prompt, n_prompt, &opts, &h->err);
    h->n_allocations = faults.n_calls;
    faults.fail_nth = 0;
    h->length = ig_sequence_length(seq);
    ig_sampler_destroy(sampler);
    ig_sequence_destroy(seq);
    ig_runner_destroy(runner);
}

static const int32_t france[] = {504, 3575, 282, 4649, 314}; /* The capital of France is */

static void greedy_answer(void **state)
{
    (void)state;
    need_model();
    static const int32_t ids[] = {7042, 30, 198, 198, 504};
    static const ig_logprob top[] = {
        {7042, -0.258f}, {260, -2.741f}, {4528, -4.384f}, {2250, -4.620f}, {1315, -4.678f}};
    for (int64_t rows = 1; rows <= 5; rows++) { /* however the prompt is cut */
        heard h = {0};
        const ig_runner_opts runner = {.context = 64, .max_tokens = rows, .kv = IG_KV_F32};
        generate(&h, &runner, france, 5, -1,
                 (ig_generate_opts){.max_tokens = 5, .n_logprobs = 5});
        assert_int_equal(h.status, IG_OK);
        assert_int_equal(h.result.finish, IG_FINISH_LENGTH);
        assert_int_equal(h.result.n_prompt, 5);
        assert_int_equal(h.result.n_generated, 5);
        assert_true(h.result.prompt_ns > 0 && h.result.decode_ns > 0);
        assert_int_equal(h.n_ids, 5);
        assert_memory_equal(h.ids, ids, sizeof ids);
        assert_string_equal(h.text, " Paris.\n\nThe");
        assert_int_equal(h.length, 9);
        assert_true(h.logprobs[0] == h.top[0].logprob);
        for (int i = 0; i < 5; i++) {
            assert_int_equal(h.top[i].id, top[i].id);
            assert_true(fabsf(h.top[i].logprob - top[i].logprob) < 5e-3f);
        }
    }
}

static void forced_text(const char *text, int32_t id, int64_t max_tokens, const char *stop,
                        ig_finish finish, int64_t n_generated)
{
    heard h = {0};
    const ig_runner_opts runner = {.context = 64};
    generate(&h, &runner, france, 5, id,
             (ig_generate_opts){.max_tokens = max_tokens,
                                .n_logprobs = -1,
                                .stop = &stop,
                                .n_stop = stop != NULL});
    assert_int_equal(h.status, IG_OK);
    assert_string_equal(h.text, text);
    assert_int_equal(h.result.finish, finish);
    assert_int_equal(h.result.n_generated, n_generated);
    assert_int_equal(h.n_ids, n_generated);
    assert_int_equal(h.length, 5 + (n_generated > 0 ? n_generated - 1 : 0));
}

static void finishes(void **state)
{
    (void)state;
    need_model();
    enum { THE = 260, HALF_LLAMA = 10813, END = 2 }; /* " the", F0 9F, <|im_end|> */
    forced_text(" the the the", THE, 3, NULL, IG_FINISH_LENGTH, 3);
    forced_text(" ", THE, 9, "the the", IG_FINISH_STOP, 2);
    forced_text(" the the the", THE, 3, " the the the the", IG_FINISH_LENGTH, 3);
    forced_text("", THE, 0, NULL, IG_FINISH_LENGTH, 0);
    forced_text("", END, 9, NULL, IG_FINISH_STOP, 1);
    forced_text("\xEF\xBF\xBD", HALF_LLAMA, 1, NULL, IG_FINISH_LENGTH, 1);
    forced_text("\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD", HALF_LLAMA, 3, NULL,
                IG_FINISH_LENGTH, 3);
    heard h = {0};
    generate(&h, NULL, france, 5, END,
             (ig_generate_opts){.max_tokens = 3, .ignore_end = true, .n_logprobs = -1});
    assert_int_equal(h.result.finish, IG_FINISH_LENGTH);
    assert_int_equal(h.n_ids, 3);
    assert_string_equal(h.text, "");
}

static void full_context(void **state)
{
    (void)state;
    need_model();
    int32_t prompt[101];
    for (int i = 0; i < 101; i++)
        prompt[i] = 33662;
    const ig_runner_opts runner = {.context = 64};
    const ig_generate_opts opts = {.max_tokens = -1, .n_logprobs = -1};
    static const struct {
        int64_t n_prompt, n_generated;
    } cases[] = {{59, 5}, {62, 2}, {63, 1}};
    for (int i = 0; i < 3; i++) {
        heard h = {0};
        generate(&h, &runner, prompt, cases[i].n_prompt, 260, opts);
        assert_int_equal(h.status, IG_OK);
        assert_int_equal(h.result.finish, IG_FINISH_LENGTH);
        assert_int_equal(h.result.n_generated, cases[i].n_generated);
        assert_true(h.length <= 64);
    }
    heard h = {0};
    generate(&h, &runner, prompt, 64, 260, opts);
    assert_int_equal(h.status, IG_ERR_LIMIT);
    assert_non_null(strstr(h.err.message, "the prompt fills the context of 64 tokens"));
    generate(&h, &runner, prompt, 101, 260, opts);
    assert_int_equal(h.status, IG_ERR_LIMIT);
    assert_string_equal(h.err.message,
                        "generate: the prompt has 101 tokens, the context holds 64");
    assert_int_equal(h.length, 0);
    generate(&h, &runner, prompt, 0, 260, opts);
    assert_int_equal(h.status, IG_ERR_ARGUMENT);
    assert_string_equal(h.err.message, "generate: the prompt is empty");
    prompt[3] = 49152;
    generate(&h, &runner, prompt, 10, 260, opts);
    assert_int_equal(h.status, IG_ERR_ARGUMENT);
    assert_int_equal(h.length, 0);
}

static void cancelling(void **state)
{
    (void)state;
    need_model();
    const ig_generate_opts opts = {.max_tokens = -1, .n_logprobs = -1};
    heard h = {.cancelled = 1};
    generate(&h, NULL, france, 5, 260, opts);
    assert_int_equal(h.status, IG_OK);
    assert_int_equal(h.result.finish, IG_FINISH_CANCELLED);
    assert_int_equal(h.result.n_prompt, 0);
    assert_int_equal(h.length, 0);
    h = (heard){.cancel_after = 2};
    generate(&h, NULL, france, 5, 260, opts);
    assert_int_equal(h.status, IG_OK);
    assert_int_equal(h.result.finish, IG_FINISH_CANCELLED);
    assert_int_equal(h.result.n_generated, 2);
    assert_int_equal(h.n_rest, 0);
    assert_int_equal(h.length, 6);
}

static void loop_faults(void **state)
{
    (void)state;
    need_model();
    const char *const stop = "never";
    const ig_runner_opts runner = {.context = 64};
    const ig_generate_opts opts = {
        .max_tokens = 3, .n_logprobs = 3, .stop = &stop, .n_stop = 1};
    for (int64_t nth = 1;; nth++) {
        heard h = {.fail_nth = nth};
        const int64_t n_alive = faults.n_alive;
        generate(&h, &runner, france, 5, 260, opts);
        assert_int_equal(faults.n_alive, n_alive);
        if (h.n_allocations < nth) {
            assert_int_equal(h.status, IG_OK);
            assert_string_equal(h.text, " the the the");
            assert_true(nth > 5); /* stops, their tables, two buffers, the best tokens */
            break;
        }
        assert_int_equal(h.status, IG_ERR_MEMORY);
        assert_int_equal(h.length, 0);
    }
}

static void long_answers_allocate_nothing(void **state)
{
    (void)state;
    need_model();
    const ig_runner_opts runner = {.context = 64};
    const ig_generate_opts opts = {.max_tokens = 3, .n_logprobs = 3};
    heard brief = {0}, longer = {0};
    generate(&brief, &runner, france, 5, 260, opts);
    generate(&longer, &runner, france, 5, 260,
             (ig_generate_opts){.max_tokens = 40, .n_logprobs = 3});
    assert_int_equal(longer.n_ids, 40);
    assert_int_equal(longer.n_allocations, brief.n_allocations);
}

/* The quick brown fox jumps over the lazy dog. It was the best of times, it was the worst
 * of times. */
static const int32_t fox[] = {504,  2365, 6354, 16438, 27003, 690,  260,  23790,
                              2767, 30,   657,  436,   260,   1450, 282,  1711,
                              28,   357,  436,  260,   9250,  282,  1711, 30};
enum { N_FOX = sizeof fox / sizeof *fox };

static double score(const ig_runner_opts *opts, int64_t n, int64_t window, bool bos,
                    int64_t n_wanted)
{
    ig_runner *runner;
    double nll;
    int64_t n_scored;
    ig_error err = {0};
    assert_int_equal(ig_runner_create(&runner, model, opts, NULL), IG_OK);
    if (ig_score(&nll, &n_scored, runner, fox, n, window, bos, &err) != IG_OK)
        fail_msg("%s", err.message);
    assert_int_equal(n_scored, n_wanted);
    ig_runner_destroy(runner);
    return nll;
}

static void scoring(void **state)
{
    (void)state;
    need_model();
    const ig_runner_opts wide = {.context = 64, .max_logits = 64, .kv = IG_KV_F32};
    const ig_runner_opts narrow = {.context = 64, .max_logits = 3, .kv = IG_KV_F32};
    const double whole = score(&wide, N_FOX, 64, false, 23);
    assert_true(fabs(whole / 23 - 2.5013) < 1e-3);
    assert_true(score(&narrow, N_FOX, 64, false, 23) == whole); /* however it is cut */
    assert_true(score(&wide, 1, 64, false, 0) == 0);
    assert_true(score(&wide, 0, 64, false, 0) == 0);
    /* windows of 10: 10 + 10 + 4 tokens; the first is that of a text of 10 */
    const double windows = score(&wide, N_FOX, 10, false, 9 + 9 + 3);
    assert_true(windows > score(&wide, 10, 10, false, 9));
    assert_true(score(&wide, N_FOX, 10, true, N_FOX) ==
                score(&narrow, N_FOX, 10, true, N_FOX));
    ig_runner *runner;
    double nll;
    int64_t n;
    ig_error err;
    assert_int_equal(ig_runner_create(&runner, model, &wide, NULL), IG_OK);
    assert_int_equal(ig_score(&nll, &n, runner, fox, N_FOX, 1, false, &err),
                     IG_ERR_ARGUMENT);
    assert_int_equal(ig_score(&nll, &n, runner, fox, N_FOX, 65, false, &err), IG_ERR_LIMIT);
    assert_string_equal(err.message, "score: context is 65 tokens, the runner's holds 64");
    ig_runner_destroy(runner);
}

static void finish_names(void **state)
{
    (void)state;
    assert_string_equal(ig_finish_name(IG_FINISH_STOP), "stop");
    assert_string_equal(ig_finish_name(IG_FINISH_LENGTH), "length");
    assert_string_equal(ig_finish_name(IG_FINISH_CANCELLED), "cancelled");
    assert_string_equal(ig_finish_name(IG_FINISH_DEADLINE), "deadline");
    assert_string_equal(ig_finish_name(IG_FINISH_ERROR), "error");
}

int main(void)
{
    memory = ig__allocator_default();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_text_is_final_at_once),
        cmocka_unit_test(characters_come_whole),
        cmocka_unit_test(possible_stops_are_held),
        cmocka_unit_test(stop_inside_a_token),
        cmocka_unit_test(first_complete_stop_wins),
        cmocka_unit_test(stop_of_many_bytes),
        cmocka_unit_test(bad_stops_are_refused),
        cmocka_unit_test(shown_is_text_up_to_stop),
        cmocka_unit_test(long_stop_is_fast),
        cmocka_unit_test(answer_faults),
        cmocka_unit_test(finish_names),
        cmocka_unit_test(greedy_answer),
        cmocka_unit_test(finishes),
        cmocka_unit_test(full_context),
        cmocka_unit_test(cancelling),
        cmocka_unit_test(loop_faults),
        cmocka_unit_test(long_answers_allocate_nothing),
        cmocka_unit_test(scoring),
    };
    return cmocka_run_group_tests(tests, open_model, close_model);
}
