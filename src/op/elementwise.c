/* Rows of tokens without products: embedding, gather_rows, rms_norm; and the fused norm_add. All walk
 * by rows of the output.
 */
#include "op/index.h"
#include "op/network.h"
#include "op/op_int.h"

#include <string.h>

/* ---- embedding --------------------------------------------------------------------------- */

static ig_status embedding_shape(ig__type *out, const ig__type *const *in, int n_in,
                                 const void *attrs, ig_error *err)
{
    (void)n_in, (void)attrs;
    if (in[1]->layout == IG_LAYOUT_ROWS)
        return ig__pick_shape(out, in[1], in[0], "embedding", err);
    if (in[0]->dtype != IG_DTYPE_I32 || in[0]->n_dims != 1 ||
        in[1]->layout != IG_LAYOUT_GROUPS)
        return ig__fail_shapes(err, "embedding", "wants tokens [T] i32 and a packed table",
                               in[0], in[1]);
    *out = (ig__type){.dtype = IG_DTYPE_F32, .n_dims = 2};
    out->dims[0] = in[0]->dims[0];
    out->dims[1] = in[1]->dims[1];
    return IG_OK;
}

static void embedding_run(const ig__step_args *s, int64_t begin, int64_t end)
{
    const int32_t *tokens = s->in[0].data;
    const ig__operand *table = &s->in[1];
    const size_t group_bytes = ig__packed_group_bytes(table->type->dtype, table->width);
    const int64_t last = ig__tile_row(end, s->out.rows);
    for (int64_t t = ig__tile_row(begin, s->out.rows); t < last; t++) {
        const char *group =
            (const char *)table->data + (size_t)(tokens[t] / IG_GROUP) * group_bytes;
        s->k->unpack_row[table->type->dtype](ig__row_f32(&s->out, t), group,
                                             tokens[t] % IG_GROUP, table->width);
    }
}

const ig__op ig__op_embedding = {.name = "embedding",
                                 .n_in_least = 2,
                                 .n_in_most = 2,
                                 .walk = IG_WALK_ROWS,
                                 .shape = embedding_shape,
                                 .run = embedding_run,
                                 .n_units = ig__embedding_units,
                                 .eval = ig__embedding_eval,
                                 .explain = ig__embedding_explain,
                                 .gradient = ig__embedding_gradient,
                                 .needs = {0, IG_IN(0)}};

/* ---- gather_rows -------------------------------------------------------------------------- */

static ig_status gather_shape(ig__type *out, const ig__type *const *in, int n_in,
                              const void *attrs, ig_error *err)
{
    (void)n_in, (void)attrs;
    if (in[0]->layout != IG_LAYOUT_ROWS)
        return ig__fail_shapes(err, "gather_rows", "wants rows", in[0], in[1]);
    return ig__pick_shape(out, in[0], in[1], "gather_rows", err);
}

static void gather_run(const ig__step_args *s, int64_t begin, int64_t end)
{
    const int32_t *rows = s->in[1].data;
    const int64_t last = ig__tile_row(end, s->out.rows);
    for (int64_t r = ig__tile_row(begin, s->out.rows); r < last; r++)
        memcpy(ig__row_f32(&s->out, r), ig__row_f32(&s->in[0], rows[r]),
               (size_t)s->out.width * 4);
}

const ig__op ig__op_gather_rows = {.name = "gather_rows",
                                   .n_in_least = 2,
                                   .n_in_most = 2,
                                   .walk = IG_WALK_ROWS,
                                   .shape = gather_shape,
                                   .run = gather_run,
                                   .n_units = ig__gather_rows_units,
                                   .eval = ig__gather_rows_eval,
                                   .explain = ig__gather_rows_explain,
                                   .gradient = ig__gather_rows_gradient,
                                   .needs = {IG_IN(1)}};

/* ---- rms_norm ---------------------------------------------------------------------------- */

static ig_status norm_shape(ig__type *out, const ig__type *const *in, int n_in,
                            const void *attrs, ig_error *err)
{
    (void)attrs;
    const ig__type *x = in[0], *gain = n_in > 1 ? in[1] : NULL;
    const bool serves = x->n_dims && !ig__is_constant(x->dims[0]);
    if (!(serves ? ig__is_rows_f32(x) && x->n_dims > 1 && gain
                 : ig__is_float(x->dtype) && x->n_dims))
        return ig__fail_shapes(err, "rms_norm", "wants floats [..,D]", x, NULL);
    const int64_t d = x->dims[x->n_dims - 1].plus;
    if (gain && (serves ? !ig__is_vector(gain, d)
                        : !ig__is_float(gain->dtype) || gain->n_dims != 1 ||
                              gain->dims[0].plus != d))
        return ig__fail_shapes(err, "rms_norm", "the gain does not fit the last dimension",
                               x, gain);
    *out = *x;
    return IG_OK;
}

static void norm_run(const ig__step_args *s, int64_t begin, int64_t end)
{
    const ig__norm_attrs *attrs = s->attrs;
    const int64_t d = s->in[1].rows, parts = s->out.width / d;
    const int64_t first = ig__tile_row(begin, s->out.rows) * parts;
    const int64_t last = ig__tile_row(end, s->out.rows) * parts;
    for (int64_t i = first; i < last; i++)
        s->k->rms_norm((float *)s->out.data + i * d, (const float *)s->in[0].data + i * d,
                       s->in[1].data, d, attrs->eps);
}

const ig__op ig__op_rms_norm = {.name = "rms_norm",
                                .n_in_least = 1,
                                .n_in_most = 2,
                                .attrs_bytes = sizeof(ig__norm_attrs),
                                .walk = IG_WALK_ROWS,
                                .shape = norm_shape,
                                .run = norm_run,
                                .n_units = ig__norm_units,
                                .eval = ig__rms_norm_eval,
                                .room = ig__norm_room,
                                .work = ig__norm_work,
                                .done = ig__norm_done,
                                .gradient = ig__rms_norm_gradient,
                                .needs = {IG_IN(0) | IG_IN(1), IG_IN(0)},
                                .precision = IG_PRECISION_HIGH};

/* ---- norm_add: x + rms_norm(y, g) ----------------------------------------------------------- */

static ig_status norm_add_shape(ig__type *out, const ig__type *const *in, int n_in,
                                const void *attrs, ig_error *err)
{
    IG_TRY(norm_shape(out, in, 2, attrs, err));
    (void)n_in;
    if (!ig__type_same(in[0], in[2]) || in[0]->n_dims != 2)
        return ig__fail_shapes(err, "norm_add", "shapes differ", in[0], in[2]);
    return IG_OK;
}

static void norm_add_run(const ig__step_args *s, int64_t begin, int64_t end)
{
    const ig__norm_attrs *attrs = s->attrs;
    const int64_t d = s->out.width, last = ig__tile_row(end, s->out.rows);
    for (int64_t t = ig__tile_row(begin, s->out.rows); t < last; t++) {
        float *y = s->scratch;
        s->k->rms_norm(y, ig__row_f32(&s->in[0], t), s->in[1].data, d, attrs->eps);
        s->k->add(ig__row_f32(&s->out, t), ig__row_f32(&s->in[2], t), y, d);
    }
}

static size_t row_scratch(const ig__type *const *in, int n_in, const ig__type *out,
                          const void *attrs)
{
    (void)n_in, (void)out, (void)attrs;
    return (size_t)ig__type_width(in[0]) * 4;
}

const ig__op ig__op_norm_add = {.name = "norm_add",
                                .n_in_least = 3,
                                .n_in_most = 3,
                                .attrs_bytes = sizeof(ig__norm_attrs),
                                .fused = true,
                                .walk = IG_WALK_ROWS,
                                .shape = norm_add_shape,
                                .run = norm_add_run,
                                .scratch = row_scratch};
