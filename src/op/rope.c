/* Rotary position embedding (Su et al., "RoFormer", 2021, section 3.2.2): the table of angles,
 * computed once a step and shared by all layers, and the rotation.
 */
#include "op/op_int.h"

#include <math.h>
#include <string.h>

static ig_status table_shape(ig__type *out, const ig__type *const *in, int n_in,
                             const void *attrs, ig_error *err)
{
    const ig__rope_table_attrs *a = attrs;
    if (in[0]->dtype != IG_DTYPE_I32 || in[0]->n_dims != 1 || a->n_rotated < 2 ||
        a->n_rotated % 2)
        return ig__fail_shapes(err, "rope_table", "wants positions [T] i32", in[0], NULL);
    if (n_in > 1 && !ig__is_vector(in[1], a->n_rotated / 2))
        return ig__fail_shapes(err, "rope_table", "factors do not fit the pairs", in[1],
                               NULL);
    *out = (ig__type){.dtype = IG_DTYPE_F32, .n_dims = 3};
    out->dims[0] = in[0]->dims[0];
    out->dims[1] = ig__dim_of(a->n_rotated / 2);
    out->dims[2] = ig__dim_of(2);
    return IG_OK;
}

static void table_run(const ig__step_args *s, int64_t begin, int64_t end)
{
    const ig__rope_table_attrs *a = s->attrs;
    const int32_t *positions = s->in[0].data;
    const float *factors = s->n_in > 1 ? s->in[1].data : NULL;
    const int64_t n_pairs = a->n_rotated / 2, last = ig__tile_row(end, s->out.rows);
    const double step = pow(a->base, -2.0 / (double)a->n_rotated);
    for (int64_t t = ig__tile_row(begin, s->out.rows); t < last; t++) {
        float *cos_sin = ig__row_f32(&s->out, t);
        double frequency = a->scale;
        for (int64_t i = 0; i < n_pairs; i++, frequency *= step) {
            const double angle =
                positions[t] * frequency / (factors ? (double)factors[i] : 1.0);
            cos_sin[2 * i] = (float)cos(angle);
            cos_sin[2 * i + 1] = (float)sin(angle);
        }
    }
}

const ig__op ig__op_rope_table = {.name = "rope_table",
                                  .n_in_least = 1,
                                  .n_in_most = 2,
                                  .attrs_bytes = sizeof(ig__rope_table_attrs),
                                  .walk = IG_WALK_ROWS,
                                  .shape = table_shape,
                                  .run = table_run};

static ig_status rope_shape(ig__type *out, const ig__type *const *in, int n_in,
                            const void *attrs, ig_error *err)
{
    (void)n_in, (void)attrs;
    if (!ig__is_rows_f32(in[0]) || in[0]->n_dims != 3 || in[1]->n_dims != 3 ||
        !ig__dim_same(in[0]->dims[0], in[1]->dims[0]) ||
        2 * in[1]->dims[1].plus > in[0]->dims[2].plus)
        return ig__fail_shapes(err, "rope", "the table does not fit", in[0], in[1]);
    *out = *in[0];
    return IG_OK;
}

static void rope_run(const ig__step_args *s, int64_t begin, int64_t end)
{
    const ig__rope_attrs *a = s->attrs;
    const int64_t h = s->out.type->dims[1].plus, w = s->out.type->dims[2].plus;
    const int64_t last = ig__tile_row(end, s->out.rows);
    for (int64_t t = ig__tile_row(begin, s->out.rows); t < last; t++) {
        float *y = ig__row_f32(&s->out, t);
        memcpy(y, ig__row_f32(&s->in[0], t), (size_t)s->out.width * 4);
        for (int64_t i = 0; i < h; i++)
            s->k->rope(y + i * w, ig__row_f32(&s->in[1], t), s->in[1].width, a->halves);
    }
}

const ig__op ig__op_rope = {.name = "rope",
                            .n_in_least = 2,
                            .n_in_most = 2,
                            .attrs_bytes = sizeof(ig__rope_attrs),
                            .walk = IG_WALK_ROWS,
                            .shape = rope_shape,
                            .run = rope_run};
