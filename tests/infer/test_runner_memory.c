/* Memory of the runner: nothing allocated after warm-up, few barriers, and every allocation
 * of opening and running a model failing once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "fault_allocator.h"
#include "tiny_run.h"

static int32_t ids[128];

/* Prompts, decoding, forks, cuts and a failing step: after the first of each, no call of the
 * allocator but for the sequences themselves. */
static void steps_allocate_nothing(void **state)
{
    (void)state;
    for (int gemma = 0; gemma < 2; gemma++) {
        fault_allocator counter = {0};
        const ig_allocator a = fault_allocator_of(&counter);
        const running_opts o = {.tiny = {.dtype = IG_DTYPE_Q8_0, .gemma = gemma},
                                .n_threads = 2,
                                .allocator = &a};
        running r;
        run_open(&r, &o);
        ig_sequence *seq = new_sequence(&r);
        float *got = malloc((size_t)(128 * r.vocab) * sizeof *got);
        feed(got, &r, seq, ids, 20, 20);
        const int64_t before = counter.n_calls;
        feed(got, &r, seq, ids, 50, 1);
        feed(got, &r, seq, ids, 128, 100);
        ig_sequence_cut(seq, 3);
        const ig_step_part wrong = {seq, ids, 0, 0};
        assert_int_not_equal(ig_runner_step(r.runner, &wrong, 1, NULL, &running_error),
                             IG_OK);
        feed(got, &r, seq, ids, 30, 7);
        assert_int_equal(counter.n_calls, before);
        ig_sequence_destroy(seq);
        free(got);
        run_close(&r);
        assert_int_equal(counter.n_alive, 0);
    }
}

/* A layer of a decode step needs five barriers; what stands around the layers two or three. */
static void decoding_needs_few_barriers(void **state)
{
    (void)state;
    for (int gemma = 0; gemma < 2; gemma++) {
        const running_opts o = {.tiny = {.dtype = IG_DTYPE_Q4_0, .gemma = gemma},
                                .n_threads = 2};
        running r;
        run_open(&r, &o);
        const ig_runner_stats stats = ig_runner_get_stats(r.runner);
        const int64_t n_layers = ig_model_get_info(r.model).n_layers;
        assert_in_range(stats.n_barriers_small, n_layers, 5 * n_layers + 2);
        assert_true(stats.n_barriers_large >= stats.n_barriers_small);
        assert_true(stats.n_steps < 12 * n_layers + 8);
        assert_true(stats.activation_bytes > 0);
        run_close(&r);
    }
}

/* The Nth allocation fails, for every N until all goes through. */
static void every_allocation_may_fail(void **state)
{
    (void)state;
    for (int gemma = 0; gemma < 2; gemma++) {
        tiny_model tiny = {.dtype = IG_DTYPE_Q4_1, .gemma = gemma, .head = true};
        const char *path = tiny_model_save(&tiny);
        int64_t nth = 1, n_done_without = 0;
        for (bool through = false; !through; nth++) {
            fault_allocator f = {.fail_nth = nth};
            const ig_allocator a = fault_allocator_of(&f);
            const running_opts o = {.n_threads = 2, .allocator = &a, .max_tokens = 32};
            running r = {0};
            ig_sequence *seq = NULL, *fork = NULL;
            running_error = (ig_error){0};
            ig_status status = try_open(&r, &o, path);
            if (status == IG_OK)
                status = ig_sequence_create(&seq, r.runner, &running_error);
            const ig_step_part part = {seq, ids, 20, 1};
            if (status == IG_OK)
                status = ig_runner_step(r.runner, &part, 1, NULL, &running_error);
            if (status == IG_OK)
                status = ig_sequence_fork(&fork, seq, &running_error);
            through = f.n_calls < nth;
            if (through) {
                assert_int_equal(status, IG_OK);
            } else if (status == IG_OK) {
                n_done_without++;
            } else {
                assert_int_equal(status, IG_ERR_MEMORY);
                assert_int_equal(running_error.status, IG_ERR_MEMORY);
                assert_true(running_error.message[0] != 0);
            }
            ig_sequence_destroy(fork);
            ig_sequence_destroy(seq);
            run_close(&r);
            if (f.n_alive != 0)
                fail_msg("allocation %lld: %lld blocks are left", (long long)nth,
                         (long long)f.n_alive);
        }
        assert_true(nth > 50);
        assert_in_range(n_done_without, 0,
                        8); /* the text splitter: machine code of its patterns */
        tiny_model_fini(&tiny);
    }
}

/* A runner or a sequence that could not be had leaves what there is as it was. */
static void what_failed_can_be_tried_again(void **state)
{
    (void)state;
    fault_allocator f = {0};
    const ig_allocator a = fault_allocator_of(&f);
    const running_opts o = {
        .tiny = {.dtype = IG_DTYPE_BF16}, .n_threads = 1, .allocator = &a};
    running r;
    run_open(&r, &o);
    float *wanted = logits_of(&r, ids, 20, 20);
    for (bool through = false; !through;) {
        const int64_t before = f.n_alive;
        static int64_t nth = 1;
        f.n_calls = 0;
        f.fail_nth = nth++;
        ig_runner *second = NULL;
        const ig_status status = ig_runner_create(&second, r.model, NULL, &running_error);
        through = status == IG_OK;
        assert_int_equal(status, through ? IG_OK : IG_ERR_MEMORY);
        assert_int_equal(second != NULL, through);
        ig_runner_destroy(second);
        f.fail_nth = 0;
        assert_int_equal(f.n_alive, before);
    }
    float *got = logits_of(&r, ids, 20, 3);
    assert_same_rows(got, wanted, 20, r.vocab, "after failures");
    free(got);
    free(wanted);
    run_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_allocate_nothing),
        cmocka_unit_test(decoding_needs_few_barriers),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(what_failed_can_be_tried_again),
    };
    tiny_ids(ids, 128, 5);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
