/* Types of values: widths, text, promotion. */
#include "tensor/type.h"

#include <stdio.h>

int64_t ig__type_width(const ig__type *type)
{
    int64_t width = 1;
    for (int i = 1; i < type->n_dims; i++)
        width *= type->dims[i].plus;
    return width;
}

int64_t ig__type_count(const ig__type *type)
{
    int64_t n = 1;
    for (int i = 0; i < type->n_dims; i++)
        n *= type->dims[i].plus;
    return n;
}

const char *ig__type_text(const ig__type *type, char *text, size_t cap)
{
    static const char *const symbols[IG_SYMBOL_COUNT] = {"", "T", "R"};
    size_t n = (size_t)snprintf(text, cap, "[");
    for (int i = 0; i < type->n_dims && n < cap; i++) {
        const ig__dim d = type->dims[i];
        if (d.symbol == IG_SYMBOL_NONE)
            n += (size_t)snprintf(text + n, cap - n, "%s%lld", i ? "," : "",
                                  (long long)d.plus);
        else
            n += (size_t)snprintf(text + n, cap - n, "%s%s", i ? "," : "",
                                  symbols[d.symbol]);
    }
    if (n < cap)
        snprintf(text + n, cap - n, "] %s", ig_dtype_name(type->dtype));
    return text;
}

bool ig__dims_same(const ig__type *a, const ig__type *b)
{
    if (a->n_dims != b->n_dims)
        return false;
    for (int i = 0; i < a->n_dims; i++)
        if (!ig__dim_same(a->dims[i], b->dims[i]))
            return false;
    return true;
}

bool ig__type_same(const ig__type *a, const ig__type *b)
{
    if (a->dtype != b->dtype || a->layout != b->layout || !ig__dims_same(a, b))
        return false;
    return a->layout != IG_LAYOUT_ACTS || a->acts == b->acts;
}

/* Bits of integers that the type holds exactly, sign apart. */
static int exact_bits(ig_dtype t)
{
    switch (t) {
    case IG_DTYPE_BOOL:
        return 1;
    case IG_DTYPE_I8:
        return 7;
    case IG_DTYPE_U8:
    case IG_DTYPE_BF16:
        return 8;
    case IG_DTYPE_F16:
        return 11;
    case IG_DTYPE_F32:
        return 24;
    case IG_DTYPE_I32:
        return 31;
    case IG_DTYPE_F64:
        return 53;
    default:
        return 63;
    }
}

ig_dtype ig__promote(ig_dtype a, ig_dtype b)
{
    if (a == b)
        return a;
    if (!ig__is_plain(a) || !ig__is_plain(b))
        return IG_DTYPE_COUNT;
    if (ig__is_float(a) && ig__is_float(b)) {
        if (a == IG_DTYPE_F64 || b == IG_DTYPE_F64)
            return IG_DTYPE_F64;
        return IG_DTYPE_F32; /* f16 with bf16 too: neither holds the other */
    }
    if (ig__is_float(a) || ig__is_float(b)) {
        const ig_dtype real = ig__is_float(a) ? a : b, whole = ig__is_float(a) ? b : a;
        /* a 16-bit float beside an integer that it cannot hold loses; f32 and f64 take all,
         * as users of NumPy and PyTorch expect */
        if (real != IG_DTYPE_F32 && real != IG_DTYPE_F64 &&
            exact_bits(whole) > exact_bits(real))
            return IG_DTYPE_COUNT;
        return real;
    }
    if (a == IG_DTYPE_BOOL || b == IG_DTYPE_BOOL)
        return a == IG_DTYPE_BOOL ? b : a;
    if (a == IG_DTYPE_I64 || b == IG_DTYPE_I64)
        return IG_DTYPE_I64;
    return IG_DTYPE_I32; /* i8 with u8, and either with i32 */
}
