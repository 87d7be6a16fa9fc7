/* Philox4x32-10 against the known answers that its authors publish with it (Random123,
 * kat_vectors), and the uniform numbers made of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/rng.h"

#include <math.h>

static void known_answers(void **state)
{
    (void)state;
    static const struct {
        uint64_t seed, stream, index; /* key; counter words 2 and 3; words 0 and 1 */
        uint32_t out[4];
    } cases[] = {
        {0, 0, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {UINT64_MAX,
         UINT64_MAX,
         UINT64_MAX,
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {0x299f31d0a4093822,
         0x0370734413198a2e,
         0x85a308d3243f6a88,
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint32_t out[4];
        ig__philox(out, cases[i].seed, cases[i].stream, cases[i].index);
        assert_memory_equal(out, cases[i].out, sizeof out);
    }
}

/* The first word's 32 bits on top, 21 of the second's below. */
static void uniform_is_made_of_53_bits(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 1000; i++) {
        uint32_t w[4];
        ig__philox(w, 1, 2, i);
        const double wanted = (double)w[0] * 0x1p-32 + (double)(w[1] >> 11) * 0x1p-53;
        assert_true(ig__uniform(1, 2, i) == wanted);
    }
}

/* Counts in 16 bins of 2^16 draws: chi-square with 15 degrees of freedom is below 50 but once
 * in 10^5 (the draws are fixed: it holds or not). So for each of the three numbers. */
static void uniform_is_even(void **state)
{
    (void)state;
    enum { N = 1 << 16, BINS = 16 };
    for (int which = 0; which < 3; which++) {
        int64_t bins[BINS] = {0};
        double sum = 0, chi = 0;
        for (uint64_t i = 0; i < N; i++) {
            const double u =
                ig__uniform(which == 0 ? i : 7, which == 1 ? i : 8, which == 2 ? i : 9);
            assert_true(u >= 0 && u < 1);
            bins[(int)(u * BINS)]++;
            sum += u;
        }
        for (int k = 0; k < BINS; k++)
            chi += pow((double)bins[k] - N / BINS, 2) / (N / BINS);
        assert_true(chi < 50);
        assert_true(fabs(sum / N - 0.5) < 5 * sqrt(1.0 / 12 / N));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_answers),
        cmocka_unit_test(uniform_is_made_of_53_bits),
        cmocka_unit_test(uniform_is_even),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
