/* Elements of any plain type to and from the types that loops compute in.
 *
 * Floats become integers by cutting towards zero; what is out of range saturates and NaN is 0, so
 * that no cast is undefined. A float becomes bool as "not zero".
 */
#include "tensor/type.h"

static int64_t whole_of(double v, double low, double high)
{
    if (!(v == v))
        return 0;
    if (v <= low)
        return (int64_t)low;
    /* 2^63 itself is no int64_t */
    if (v >= high)
        return high >= 0x1p63 ? INT64_MAX : (int64_t)high;
    return (int64_t)v;
}

#define NAME        f32
#define TYPE        float
#define TO_REAL(x)  (x)
#define TO_WHOLE(x) whole_of((double)(x), -0x1p63, 0x1p63)
#define OF_REAL(v)  (float)(v)
#define OF_WHOLE(v) (float)(v)
#include "tensor/convert_body.inc"

#define NAME        f64
#define TYPE        double
#define TO_REAL(x)  (x)
#define TO_WHOLE(x) whole_of(x, -0x1p63, 0x1p63)
#define OF_REAL(v)  (double)(v)
#define OF_WHOLE(v) (double)(v)
#include "tensor/convert_body.inc"

#define NAME        f16
#define TYPE        uint16_t
#define TO_REAL(x)  ig__f16_to_f32(x)
#define TO_WHOLE(x) whole_of((double)ig__f16_to_f32(x), -0x1p63, 0x1p63)
#define OF_REAL(v)  ig__f32_to_f16((float)(v))
#define OF_WHOLE(v) ig__f32_to_f16((float)(v))
#include "tensor/convert_body.inc"

#define NAME        bf16
#define TYPE        uint16_t
#define TO_REAL(x)  ig__bf16_to_f32(x)
#define TO_WHOLE(x) whole_of((double)ig__bf16_to_f32(x), -0x1p63, 0x1p63)
#define OF_REAL(v)  ig__f32_to_bf16((float)(v))
#define OF_WHOLE(v) ig__f32_to_bf16((float)(v))
#include "tensor/convert_body.inc"

#define NAME        i8
#define TYPE        int8_t
#define TO_REAL(x)  (x)
#define TO_WHOLE(x) (x)
#define OF_REAL(v)  (int8_t) whole_of((double)(v), -128, 127)
#define OF_WHOLE(v) (int8_t)(v)
#include "tensor/convert_body.inc"

#define NAME        u8
#define TYPE        uint8_t
#define TO_REAL(x)  (x)
#define TO_WHOLE(x) (x)
#define OF_REAL(v)  (uint8_t) whole_of((double)(v), 0, 255)
#define OF_WHOLE(v) (uint8_t)(v)
#include "tensor/convert_body.inc"

#define NAME        i32
#define TYPE        int32_t
#define TO_REAL(x)  (x)
#define TO_WHOLE(x) (x)
#define OF_REAL(v)  (int32_t) whole_of((double)(v), -0x1p31, 2147483647.0)
#define OF_WHOLE(v) (int32_t)(v)
#include "tensor/convert_body.inc"

#define NAME        i64
#define TYPE        int64_t
#define TO_REAL(x)  (x)
#define TO_WHOLE(x) (x)
#define OF_REAL(v)  whole_of((double)(v), -0x1p63, 0x1p63)
#define OF_WHOLE(v) (v)
#include "tensor/convert_body.inc"

#define NAME        truth
#define TYPE        uint8_t
#define TO_REAL(x)  (x)
#define TO_WHOLE(x) (x)
#define OF_REAL(v)  ((v) != 0)
#define OF_WHOLE(v) ((v) != 0)
#include "tensor/convert_body.inc"

typedef void load_fn(void *dst, const void *src, int64_t stride, int64_t n);
typedef void store_fn(void *dst, int64_t stride, const void *src, int64_t n);

/* clang-format off */
#define ROW_OF(way, type) {way##_f32_##type, way##_f64_##type, way##_i64_##type}

static load_fn *const loads[IG_DTYPE_COUNT][IG_COMPUTE_COUNT] = {
    [IG_DTYPE_F32] = ROW_OF(load, f32),
    [IG_DTYPE_F64] = ROW_OF(load, f64),
    [IG_DTYPE_F16] = ROW_OF(load, f16),
    [IG_DTYPE_BF16] = ROW_OF(load, bf16),
    [IG_DTYPE_I8] = ROW_OF(load, i8),
    [IG_DTYPE_U8] = ROW_OF(load, u8),
    [IG_DTYPE_I32] = ROW_OF(load, i32),
    [IG_DTYPE_I64] = ROW_OF(load, i64),
    [IG_DTYPE_BOOL] = ROW_OF(load, truth),
};
static store_fn *const stores[IG_DTYPE_COUNT][IG_COMPUTE_COUNT] = {
    [IG_DTYPE_F32] = ROW_OF(store, f32),
    [IG_DTYPE_F64] = ROW_OF(store, f64),
    [IG_DTYPE_F16] = ROW_OF(store, f16),
    [IG_DTYPE_BF16] = ROW_OF(store, bf16),
    [IG_DTYPE_I8] = ROW_OF(store, i8),
    [IG_DTYPE_U8] = ROW_OF(store, u8),
    [IG_DTYPE_I32] = ROW_OF(store, i32),
    [IG_DTYPE_I64] = ROW_OF(store, i64),
    [IG_DTYPE_BOOL] = ROW_OF(store, truth),
};
/* clang-format on */

void ig__load(void *dst, ig__compute to, const void *src, ig_dtype from, int64_t stride,
              int64_t n)
{
    loads[from][to](dst, src, stride, n);
}

void ig__store(void *dst, ig_dtype to, int64_t stride, const void *src, ig__compute from,
               int64_t n)
{
    stores[to][from](dst, stride, src, n);
}
