/* The table of element types. */
#include "ingot/dtype.h"

static const struct {
    const char *name;
    int64_t block;
    size_t bytes;
} types[IG_DTYPE_COUNT] = {
#define ROW(name, text, elements, bytes) [IG_DTYPE_##name] = {text, elements, bytes},
    IG_DTYPE_MAP(ROW)
#undef ROW
};

static bool known(ig_dtype dtype)
{
    return (unsigned)dtype < IG_DTYPE_COUNT;
}

const char *ig_dtype_name(ig_dtype dtype)
{
    return known(dtype) ? types[dtype].name : "?";
}

int64_t ig_dtype_block(ig_dtype dtype)
{
    return known(dtype) ? types[dtype].block : 0;
}

size_t ig_dtype_block_bytes(ig_dtype dtype)
{
    return known(dtype) ? types[dtype].bytes : 0;
}
