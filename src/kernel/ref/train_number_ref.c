/* The reference of conversions between numbers, and of the random fills.
 */
#include "base/rng.h"
#include "kernel/train_int.h"

#include <math.h>
#include <string.h>

/* ---- conversion: one element at a time, by way of double or of int64 ---- */

static bool is_float(ig__number t)
{
    return t <= IG__NUMBER_BF16;
}

static double read_float(ig__number from, const void *x, int64_t i)
{
    switch (from) {
    case IG__NUMBER_F32:
        return (double)((const float *)x)[i];
    case IG__NUMBER_F64:
        return ((const double *)x)[i];
    case IG__NUMBER_F16:
        return (double)ig__f16_to_f32(((const uint16_t *)x)[i]);
    default:
        return (double)ig__bf16_to_f32(((const uint16_t *)x)[i]);
    }
}

static int64_t read_integer(ig__number from, const void *x, int64_t i)
{
    switch (from) {
    case IG__NUMBER_I8:
        return ((const int8_t *)x)[i];
    case IG__NUMBER_I32:
        return ((const int32_t *)x)[i];
    case IG__NUMBER_I64:
        return ((const int64_t *)x)[i];
    case IG__NUMBER_BOOL:
        return ((const uint8_t *)x)[i] != 0;
    default:
        return ((const uint8_t *)x)[i];
    }
}

/* double to float with what is lost marked in the last bit (round to odd), so that rounding
 * once more to 16 bits gives what rounding once would. */
static float odd_float(double v)
{
    float f = (float)v;
    if ((double)f == v || isnan(v) || isinf(f))
        return f;
    uint32_t bits;
    if (fabs((double)f) > fabs(v))
        f = nextafterf(f, 0.0f);
    memcpy(&bits, &f, 4);
    bits |= 1;
    memcpy(&f, &bits, 4);
    return f;
}

static void write_float(ig__number to, void *y, int64_t i, double v)
{
    switch (to) {
    case IG__NUMBER_F32:
        ((float *)y)[i] = (float)v;
        break;
    case IG__NUMBER_F64:
        ((double *)y)[i] = v;
        break;
    case IG__NUMBER_F16:
        ((uint16_t *)y)[i] = ig__f32_to_f16(odd_float(v));
        break;
    default:
        ((uint16_t *)y)[i] = ig__f32_to_bf16(odd_float(v));
        break;
    }
}

static void write_integer(ig__number to, void *y, int64_t i, int64_t v)
{
    switch (to) {
    case IG__NUMBER_I8:
        ((int8_t *)y)[i] = (int8_t)v;
        break;
    case IG__NUMBER_U8:
        ((uint8_t *)y)[i] = (uint8_t)v;
        break;
    case IG__NUMBER_I32:
        ((int32_t *)y)[i] = (int32_t)v;
        break;
    case IG__NUMBER_I64:
        ((int64_t *)y)[i] = v;
        break;
    default:
        ((uint8_t *)y)[i] = v != 0;
        break;
    }
}

/* Toward zero, NaN as 0, cut to the type's range. */
static int64_t whole(ig__number to, double v)
{
    static const double least[IG__NUMBER_COUNT] = {
        [IG__NUMBER_I8] = -128, [IG__NUMBER_I32] = -0x1p31, [IG__NUMBER_I64] = -0x1p63};
    static const double most[IG__NUMBER_COUNT] = {[IG__NUMBER_I8] = 127,
                                                  [IG__NUMBER_U8] = 255,
                                                  [IG__NUMBER_I32] = 0x1p31 - 1,
                                                  [IG__NUMBER_I64] = 0x1p63};
    if (isnan(v))
        return 0;
    if (v <= least[to])
        return (int64_t)least[to];
    if (v >= most[to])
        return to == IG__NUMBER_I64 ? INT64_MAX : (int64_t)most[to];
    return (int64_t)v;
}

void ig__convert_ref(ig__number to, ig__number from, void *y, const void *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        if (!is_float(from)) {
            const int64_t v = read_integer(from, x, i);
            if (!is_float(to))
                write_integer(to, y, i, v);
            else if (to == IG__NUMBER_F32)
                ((float *)y)[i] = (float)v; /* by way of double it would round twice */
            else
                write_float(to, y, i, (double)v);
            continue;
        }
        const double v = read_float(from, x, i);
        if (is_float(to))
            write_float(to, y, i, v);
        else
            write_integer(to, y, i, to == IG__NUMBER_BOOL ? v != 0 : whole(to, v));
    }
}

/* ---- random fills ---- */

static uint32_t word_at(uint64_t seed, uint64_t stream, uint64_t i)
{
    uint32_t words[4];
    ig__philox(words, seed, stream, i / 4);
    return words[i % 4];
}

static void random_bits(uint32_t *y, uint64_t seed, uint64_t stream, uint64_t first,
                        int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = word_at(seed, stream, first + (uint64_t)i);
}

static void random_uniform(float *y, uint64_t seed, uint64_t stream, uint64_t first,
                           int64_t n, float lo, float hi)
{
    for (int64_t i = 0; i < n; i++) {
        const uint32_t word = word_at(seed, stream, first + (uint64_t)i);
        y[i] = fmaf(hi - lo, (float)(word >> 8) * 0x1p-24f, lo);
    }
}

static void random_normal(float *y, uint64_t seed, uint64_t stream, uint64_t first,
                          int64_t n, float mean, float deviation)
{
    for (int64_t i = 0; i < n; i++) {
        const uint64_t at = first + (uint64_t)i, even = at & ~(uint64_t)1;
        const double u1 = ((double)(word_at(seed, stream, even) >> 8) + 1) * 0x1p-24;
        const double u2 = (double)(word_at(seed, stream, even + 1) >> 8) * 0x1p-24;
        const double radius = sqrt(-2 * log(u1)), turn = 6.28318530717958647693 * u2;
        y[i] = (float)((double)mean +
                       (double)deviation * radius * (at % 2 ? sin(turn) : cos(turn)));
    }
}

static void dropout(float *y, const float *x, uint64_t seed, uint64_t stream,
                    uint64_t first, int64_t n, double p)
{
    const float scale = p < 1 ? (float)(1 / (1 - p)) : 0.0f;
    const uint64_t bound = (uint64_t)(p * 0x1p32);
    for (int64_t i = 0; i < n; i++)
        y[i] = word_at(seed, stream, first + (uint64_t)i) >= bound ? x[i] * scale : 0.0f;
}

void ig__train_number_ref(ig__train_kernels *table)
{
    table->convert = ig__convert_ref;
    table->random_bits = random_bits;
    table->random_uniform = random_uniform;
    table->random_normal = random_normal;
    table->dropout = dropout;
}
