/* f16 and bf16: every one of the 65 536 bit patterns, and the rounding of float32 around
 * every boundary between two neighbours, against definitions in double.
 */
#include "kernel/kernel.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

static uint32_t bits_of(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, 4);
    return bits;
}

static float float_of(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, 4);
    return f;
}

/* The value of a finite pattern below infinity, from the definition. */
static double f16_value(uint16_t h)
{
    const int exponent = h >> 10 & 31;
    const int mantissa = h & 1023;
    const double magnitude =
        exponent ? ldexp(1024 + mantissa, exponent - 25) : ldexp(mantissa, -24);
    return h & 0x8000 ? -magnitude : magnitude;
}

static bool f16_is_nan(uint16_t h)
{
    return (h & 0x7fff) > 0x7c00;
}

static bool bf16_is_nan(uint16_t h)
{
    return (h & 0x7fff) > 0x7f80;
}

static void test_f16_widens_exactly(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        const float f = ig__f16_to_f32((uint16_t)h);
        if (f16_is_nan((uint16_t)h)) {
            assert_true(isnan(f));
        } else if ((h & 0x7fff) == 0x7c00) {
            assert_true(isinf(f));
        } else {
            assert_true((double)f == f16_value((uint16_t)h));
        }
        assert_int_equal(signbit(f) != 0, h >> 15);
    }
}

static void test_f16_round_trip(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        const uint16_t back = ig__f32_to_f16(ig__f16_to_f32((uint16_t)h));
        if (f16_is_nan((uint16_t)h)) {
            assert_true(f16_is_nan(back));
            assert_int_equal(back >> 15, h >> 15);
        } else {
            assert_int_equal(back, h);
        }
    }
}

/* Between neighbours low and high = low + 1: the middle goes to the even one, the floats
 * beside it to the nearer one. */
static void test_f16_rounds_to_nearest_even(void **state)
{
    (void)state;
    for (uint32_t low = 0; low < 0x7c00; low++) {
        const double above = low + 1 == 0x7c00 ? 65536.0 : f16_value((uint16_t)(low + 1));
        const float middle = (float)((f16_value((uint16_t)low) + above) / 2);
        const uint32_t even = low & 1 ? low + 1 : low;
        const uint32_t bits = bits_of(middle);
        for (uint32_t sign = 0; sign < 2; sign++) {
            const uint32_t s16 = sign << 15, s32 = sign << 31;
            assert_int_equal(ig__f32_to_f16(float_of(bits | s32)), even | s16);
            assert_int_equal(ig__f32_to_f16(float_of((bits - 1) | s32)), low | s16);
            assert_int_equal(ig__f32_to_f16(float_of((bits + 1) | s32)), (low + 1) | s16);
        }
    }
}

static void test_f16_out_of_range(void **state)
{
    (void)state;
    assert_int_equal(ig__f32_to_f16(65519.996f), 0x7bff);
    assert_int_equal(ig__f32_to_f16(65520.0f), 0x7c00);
    assert_int_equal(ig__f32_to_f16(3e38f), 0x7c00);
    assert_int_equal(ig__f32_to_f16(-INFINITY), 0xfc00);
    assert_int_equal(ig__f32_to_f16(1e-40f), 0);
    assert_int_equal(ig__f32_to_f16(-1e-40f), 0x8000);
    /* NaNs whose payload lies only in the bits that are cut off */
    assert_true(f16_is_nan(ig__f32_to_f16(float_of(0x7f800001))));
    assert_true(f16_is_nan(ig__f32_to_f16(float_of(0xff801fff))));
    assert_true(f16_is_nan(ig__f32_to_f16(float_of(0x7fffffff))));
}

static void test_bf16_round_trip(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        const float f = ig__bf16_to_f32((uint16_t)h);
        assert_int_equal(bits_of(f), h << 16);
        const uint16_t back = ig__f32_to_bf16(f);
        if (bf16_is_nan((uint16_t)h)) {
            assert_true(bf16_is_nan(back));
            assert_int_equal(back >> 15, h >> 15);
        } else {
            assert_int_equal(back, h);
        }
    }
}

static void test_bf16_rounds_to_nearest_even(void **state)
{
    (void)state;
    for (uint32_t low = 0; low < 0x7f80; low++) {
        const uint32_t middle = low << 16 | 0x8000;
        const uint32_t even = low & 1 ? low + 1 : low;
        for (uint32_t sign = 0; sign < 2; sign++) {
            const uint32_t s16 = sign << 15, s32 = sign << 31;
            assert_int_equal(ig__f32_to_bf16(float_of(middle | s32)), even | s16);
            assert_int_equal(ig__f32_to_bf16(float_of((middle - 1) | s32)), low | s16);
            assert_int_equal(ig__f32_to_bf16(float_of((middle + 1) | s32)),
                             (low + 1) | s16);
        }
    }
    assert_true(bf16_is_nan(ig__f32_to_bf16(float_of(0x7f800001))));
    assert_true(bf16_is_nan(ig__f32_to_bf16(float_of(0x7fffffff))));
    assert_true(bf16_is_nan(ig__f32_to_bf16(float_of(0xffffffff))));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f16_widens_exactly),
        cmocka_unit_test(test_f16_round_trip),
        cmocka_unit_test(test_f16_rounds_to_nearest_even),
        cmocka_unit_test(test_f16_out_of_range),
        cmocka_unit_test(test_bf16_round_trip),
        cmocka_unit_test(test_bf16_rounds_to_nearest_even),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
