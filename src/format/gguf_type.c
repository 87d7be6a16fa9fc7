/* The tensor types of GGUF files: number, name, elements and bytes of a block.
 *
 * A type that is listed without a dtype is sized and checked like any other, but no tensor
 * of ours can hold it. Numbers that the table lacks were withdrawn by the format (4, 5, 31
 * to 33, 36 to 38) or are younger than this table.
 */
#include "format/gguf_int.h"

#define NONE IG_DTYPE_COUNT

/* clang-format off */
static const ig__gguf_layout layouts[] = {
    [0]  = {"f32",       1,   4, IG_DTYPE_F32},
    [1]  = {"f16",       1,   2, IG_DTYPE_F16},
    [2]  = {"q4_0",     32,  18, IG_DTYPE_Q4_0},
    [3]  = {"q4_1",     32,  20, IG_DTYPE_Q4_1},
    [6]  = {"q5_0",     32,  22, IG_DTYPE_Q5_0},
    [7]  = {"q5_1",     32,  24, NONE},
    [8]  = {"q8_0",     32,  34, IG_DTYPE_Q8_0},
    [9]  = {"q8_1",     32,  36, NONE},
    [10] = {"q2_K",    256,  84, NONE},
    [11] = {"q3_K",    256, 110, NONE},
    [12] = {"q4_K",    256, 144, IG_DTYPE_Q4_K},
    [13] = {"q5_K",    256, 176, NONE},
    [14] = {"q6_K",    256, 210, IG_DTYPE_Q6_K},
    [15] = {"q8_K",    256, 292, NONE},
    [16] = {"iq2_xxs", 256,  66, NONE},
    [17] = {"iq2_xs",  256,  74, NONE},
    [18] = {"iq3_xxs", 256,  98, NONE},
    [19] = {"iq1_s",   256,  50, NONE},
    [20] = {"iq4_nl",   32,  18, NONE},
    [21] = {"iq3_s",   256, 110, NONE},
    [22] = {"iq2_s",   256,  82, NONE},
    [23] = {"iq4_xs",  256, 136, NONE},
    [24] = {"i8",        1,   1, NONE},
    [25] = {"i16",       1,   2, NONE},
    [26] = {"i32",       1,   4, IG_DTYPE_I32},
    [27] = {"i64",       1,   8, NONE},
    [28] = {"f64",       1,   8, NONE},
    [29] = {"iq1_m",   256,  56, NONE},
    [30] = {"bf16",      1,   2, IG_DTYPE_BF16},
    [34] = {"tq1_0",   256,  54, NONE},
    [35] = {"tq2_0",   256,  66, NONE},
    [39] = {"mxfp4",    32,  17, NONE},
};
/* clang-format on */

bool ig__gguf_layout_of(ig__gguf_layout *layout_out, uint32_t file_type)
{
    if (file_type >= sizeof layouts / sizeof layouts[0] || !layouts[file_type].name)
        return false;
    *layout_out = layouts[file_type];
    return true;
}

const char *ig__gguf_type_name(uint32_t file_type)
{
    ig__gguf_layout layout;
    return ig__gguf_layout_of(&layout, file_type) ? layout.name : "?";
}
