/* The table: every operator that there is, by name. */
#include "op/op.h"

#include <string.h>

const ig__op *const ig__op_table[] = {
    &ig__op_embedding,     &ig__op_gather_rows,  &ig__op_rms_norm,   &ig__op_scale,
    &ig__op_add,           &ig__op_mul,          &ig__op_silu,       &ig__op_gelu,
    &ig__op_reshape,       &ig__op_linear,       &ig__op_rope_table, &ig__op_rope,
    &ig__op_attention,     &ig__op_cache_write,  &ig__op_attend,     &ig__op_attend_join,
    &ig__op_pack,          &ig__op_norm_pack,    &ig__op_join_pack,  &ig__op_norm_add,
    &ig__op_linear_packed, &ig__op_gated_packed, &ig__op_qkv_packed, NULL,
};

const ig__op *ig__op_find(const char *name)
{
    for (const ig__op *const *op = ig__op_table; *op; op++)
        if (!strcmp((*op)->name, name))
            return *op;
    return NULL;
}
