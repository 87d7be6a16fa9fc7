/* Bytes of values by layout; checks that shape rules share. */
#include "op/op_int.h"

size_t ig__type_bytes(const ig__type *type, const ig__bind *bind, int64_t n_spans)
{
    const int64_t rows = ig__dim_value(type->dims[0], bind);
    const int64_t width = ig__type_width(type);
    switch (type->layout) {
    case IG_LAYOUT_ROWS:
        return (size_t)(rows * width / ig_dtype_block(type->dtype)) *
               ig_dtype_block_bytes(type->dtype);
    case IG_LAYOUT_ACTS:
        return ig__acts_bytes(type->acts, width, rows);
    case IG_LAYOUT_GROUPS:
        return (size_t)((rows + IG_GROUP - 1) / IG_GROUP) *
               ig__packed_group_bytes(type->dtype, width);
    case IG_LAYOUT_PARTIALS: {
        const int64_t h = type->dims[1].plus, w = type->dims[2].plus;
        const int64_t cut = rows < IG_SPLIT_ROWS ? rows : IG_SPLIT_ROWS;
        const int64_t whole = rows * ig__partials_row(h, w, 1, false);
        const int64_t spans = cut * ig__partials_row(h, w, n_spans, true);
        return (size_t)(whole > spans ? whole : spans) * 4;
    }
    case IG_LAYOUT_STATE:
        break;
    }
    return 0;
}

bool ig__is_vector(const ig__type *t, int64_t n)
{
    return ig__is_rows_f32(t) && t->n_dims == 1 && ig__is_constant(t->dims[0]) &&
           t->dims[0].plus == n;
}

ig_status ig__fail_shapes(ig_error *err, const char *op, const char *what,
                          const ig__type *a, const ig__type *b)
{
    char text_a[IG_TYPE_TEXT], text_b[IG_TYPE_TEXT];
    return ig__fail(err, IG_ERR_SHAPE, "%s: %s: %s%s%s", op, what,
                    ig__type_text(a, text_a, sizeof text_a), b ? ", " : "",
                    b ? ig__type_text(b, text_b, sizeof text_b) : "");
}
