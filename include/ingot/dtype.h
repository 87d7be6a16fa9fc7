/* Element types. A type is a row of one table: elements and bytes of a block. Quantised
 * types are read-only and addressed by whole blocks.
 */
#ifndef INGOT_DTYPE_H
#define INGOT_DTYPE_H

#include "ingot/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* X(name, text, elements a block, bytes a block) */
#define IG_DTYPE_MAP(X)                                                                    \
    X(F32, "f32", 1, 4)                                                                    \
    X(F16, "f16", 1, 2)                                                                    \
    X(BF16, "bf16", 1, 2)                                                                  \
    X(I32, "i32", 1, 4)                                                                    \
    X(F64, "f64", 1, 8)                                                                    \
    X(I8, "i8", 1, 1)                                                                      \
    X(U8, "u8", 1, 1)                                                                      \
    X(I64, "i64", 1, 8)                                                                    \
    X(BOOL, "bool", 1, 1)                                                                  \
    X(Q4_0, "q4_0", 32, 18)                                                                \
    X(Q4_1, "q4_1", 32, 20)                                                                \
    X(Q5_0, "q5_0", 32, 22)                                                                \
    X(Q8_0, "q8_0", 32, 34)                                                                \
    X(Q4_K, "q4_K", 256, 144)                                                              \
    X(Q6_K, "q6_K", 256, 210)

typedef enum ig_dtype {
#define IG_DTYPE_ENUM(name, text, elements, bytes) IG_DTYPE_##name,
    IG_DTYPE_MAP(IG_DTYPE_ENUM)
#undef IG_DTYPE_ENUM
        IG_DTYPE_COUNT
} ig_dtype;

IG_API const char *ig_dtype_name(ig_dtype dtype); /* "q4_1"; "?" outside the list */
IG_API int64_t ig_dtype_block(ig_dtype dtype);    /* elements a block; 0 outside the list */
IG_API size_t ig_dtype_block_bytes(ig_dtype dtype);

#ifdef __cplusplus
}
#endif
#endif
