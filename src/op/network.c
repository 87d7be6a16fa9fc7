/* What the rows of networks share: operands as their kernels want them. */
#include "op/network.h"

#include "ingot/op.h"
#include "op/autocast.h"
#include "op/op_int.h"

ig_tensor *ig__contiguous(ig_tensor *x)
{
    return x ? ig_contiguous(x) : NULL;
}

bool ig__alike(const char *op, ig_tensor **x, int n, ig_dtype *result)
{
    if (!x[0] || ig__context_failed(x[0]->ctx))
        return false;
    ig_dtype dtype = IG_DTYPE_F32;
    *result = x[0]->type.dtype;
    for (int i = 0; i < n; i++) {
        if (!x[i])
            continue;
        if (!ig__is_float(x[i]->type.dtype))
            return ig__fail_shapes(&x[i]->ctx->error, op, "wants floats", &x[i]->type,
                                   NULL),
                   false;
        if (x[i]->type.dtype == IG_DTYPE_F64)
            dtype = IG_DTYPE_F64;
    }
    if (*result == IG_DTYPE_F32 && dtype == IG_DTYPE_F64)
        *result = IG_DTYPE_F64;
    for (int i = 0; i < n; i++)
        if (x[i] && !(x[i] = ig__cast_past(x[i], dtype)))
            return false;
    return true;
}

bool ig__dense(const char *op, ig_tensor **x, int n, ig_dtype *result)
{
    if (!ig__alike(op, x, n, result))
        return false;
    for (int i = 0; i < n; i++)
        if (x[i] && !(x[i] = ig_contiguous(x[i])))
            return false;
    return true;
}
