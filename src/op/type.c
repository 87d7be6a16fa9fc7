/* Types of values: widths, bytes, text; checks that shape rules share. */
#include "op/op_int.h"

#include <stdio.h>
#include <string.h>

int64_t ig__type_width(const ig__type *type)
{
    int64_t width = 1;
    for (int i = 1; i < type->n_dims; i++)
        width *= type->dims[i].plus;
    return width;
}

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

bool ig__type_same(const ig__type *a, const ig__type *b)
{
    if (a->dtype != b->dtype || a->layout != b->layout || a->n_dims != b->n_dims)
        return false;
    for (int i = 0; i < a->n_dims; i++)
        if (!ig__dim_same(a->dims[i], b->dims[i]))
            return false;
    return a->layout != IG_LAYOUT_ACTS || a->acts == b->acts;
}

bool ig__is_vector(const ig__type *t, int64_t n)
{
    return ig__is_rows_f32(t) && t->n_dims == 1 && ig__is_constant(t->dims[0]) &&
           t->dims[0].plus == n;
}

ig_status ig__fail_shapes(ig_error *err, const char *op, const char *what,
                          const ig__type *a, const ig__type *b)
{
    char text_a[96], text_b[96];
    return ig__fail(err, IG_ERR_SHAPE, "%s: %s: %s%s%s", op, what,
                    ig__type_text(a, text_a, sizeof text_a), b ? ", " : "",
                    b ? ig__type_text(b, text_b, sizeof text_b) : "");
}
