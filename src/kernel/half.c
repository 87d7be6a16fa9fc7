/* f16 and bf16 as bits, in integer arithmetic: the same on every machine and under every
 * rounding mode.
 *
 *   f32   s eeeeeeee mmmmmmmmmmmmmmmmmmmmmmm   bias 127
 *   f16   s eeeee mmmmmmmmmm                   bias 15, subnormals in steps of 2^-24
 *   bf16  s eeeeeeee mmmmmmm                   the upper half of f32
 *
 * Narrowing rounds to nearest, ties to even; a value past the largest finite one becomes an
 * infinity. A NaN keeps its sign and upper bits and is made quiet, so it stays one.
 */
#include "kernel/kernel.h"

#include <string.h>

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

/* x / 2^shift, to nearest even. shift 1..31 */
static uint32_t shift_round(uint32_t x, int shift)
{
    const uint32_t kept = x >> shift;
    const uint32_t lost = x & ((1u << shift) - 1);
    const uint32_t half = 1u << (shift - 1);
    return kept + (lost > half || (lost == half && (kept & 1)));
}

float ig__f16_to_f32(uint16_t h)
{
    const uint32_t sign = (uint32_t)(h & 0x8000) << 16;
    const uint32_t exponent = (h >> 10) & 0x1f;
    const uint32_t mantissa = h & 0x3ff;
    if (exponent == 0x1f) /* quiet a NaN, as the hardware's conversion does */
        return float_of(sign | 0x7f800000 | mantissa << 13 | (mantissa ? 0x400000 : 0));
    if (exponent == 0) { /* mantissa * 2^-24, exact in f32 */
        const float magnitude = (float)mantissa * 0x1p-24f;
        return float_of(sign | bits_of(magnitude));
    }
    return float_of(sign | (exponent + 127 - 15) << 23 | mantissa << 13);
}

uint16_t ig__f32_to_f16(float f)
{
    const uint32_t bits = bits_of(f);
    const uint32_t sign = bits >> 16 & 0x8000;
    const uint32_t magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000)
        return (uint16_t)(sign | 0x7e00 | (magnitude >> 13 & 0x3ff));
    const int exponent = (int)(magnitude >> 23) - 127;
    if (exponent > 15)
        return (uint16_t)(sign | 0x7c00);
    if (exponent < -25) /* below half of the smallest subnormal */
        return (uint16_t)sign;
    const uint32_t mantissa = (magnitude & 0x7fffff) | 0x800000;
    if (exponent < -14) /* a subnormal: count steps of 2^-24 */
        return (uint16_t)(sign | shift_round(mantissa, -1 - exponent));
    /* The carry of rounding up runs into the exponent, and from 65520 on into infinity. */
    const uint32_t rebiased = magnitude - ((uint32_t)(127 - 15) << 23);
    return (uint16_t)(sign | shift_round(rebiased, 13));
}

uint16_t ig__f32_to_bf16(float f)
{
    const uint32_t bits = bits_of(f);
    if ((bits & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)(shift_round(bits & 0x7fffffff, 16) | (bits >> 16 & 0x8000));
}
