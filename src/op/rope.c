/* Rotary position embedding (Su et al., "RoFormer", 2021, section 3.2.2): the table of angles,
 * computed once a step and shared by all layers, and the rotation.
 */
#include "ingot/op.h"
#include "op/apply.h"
#include "op/network.h"
#include "op/op_int.h"
#include "op/rows.h"

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

/* cos_sin [W/2][2] of a position; factors [W/2] or NULL */
static void table_row(const ig__rope_table_attrs *a, float *cos_sin, int64_t position,
                      const float *factors)
{
    const double step = pow(a->base, -2.0 / (double)a->n_rotated);
    double frequency = a->scale;
    for (int64_t i = 0; i < a->n_rotated / 2; i++, frequency *= step) {
        const double angle =
            (double)position * frequency / (factors ? (double)factors[i] : 1.0);
        cos_sin[2 * i] = (float)cos(angle);
        cos_sin[2 * i + 1] = (float)sin(angle);
    }
}

static void table_run(const ig__step_args *s, int64_t begin, int64_t end)
{
    const int32_t *positions = s->in[0].data;
    const float *factors = s->n_in > 1 ? s->in[1].data : NULL;
    const int64_t last = ig__tile_row(end, s->out.rows);
    for (int64_t t = ig__tile_row(begin, s->out.rows); t < last; t++)
        table_row(s->attrs, ig__row_f32(&s->out, t), positions[t], factors);
}

enum { TABLE_ROWS = 16, ROTATED_ROWS = 32 }; /* of a unit */

static int64_t table_units(const ig__eval *e)
{
    return (e->in[0].n + TABLE_ROWS - 1) / TABLE_ROWS;
}

static double table_work(const ig__eval *e)
{
    return (double)e->out[0].n * 20;
}

/* Factors are contiguous. */
static void table_eval(const ig__eval *e, int64_t begin, int64_t end)
{
    const ig__rope_table_attrs *a = e->attrs;
    const float *factors = e->n_in > 1 ? (const void *)e->in[1].data : NULL;
    ig__walk_over positions;
    ig__walk_make(&positions, &e->in[0], e->in[0].type);
    for (int64_t t = begin * TABLE_ROWS; t < end * TABLE_ROWS && t < e->in[0].n; t++) {
        int64_t at;
        ig__walk_load(&positions, t, 1, &at, IG_COMPUTE_I64);
        table_row(a, (float *)(void *)e->out[0].data + t * a->n_rotated, at, factors);
    }
}

const ig__op ig__op_rope_table = {.name = "rope_table",
                                  .n_in_least = 1,
                                  .n_in_most = 2,
                                  .attrs_bytes = sizeof(ig__rope_table_attrs),
                                  .walk = IG_WALK_ROWS,
                                  .shape = table_shape,
                                  .run = table_run,
                                  .n_units = table_units,
                                  .eval = table_eval,
                                  .work = table_work};

/* x [..,T,W], table [T,W/2,2] f32; pairs that the table lacks stay. */
static ig_status rope_shape_arrays(ig__type *out, const ig__type *const *in, ig_error *err)
{
    const ig__type *x = in[0], *table = in[1];
    if (!ig__is_float(x->dtype) || x->n_dims < 2 || table->dtype != IG_DTYPE_F32 ||
        table->n_dims != 3 || !ig__dim_same(x->dims[x->n_dims - 2], table->dims[0]) ||
        2 * table->dims[1].plus > x->dims[x->n_dims - 1].plus || table->dims[2].plus != 2)
        return ig__fail_shapes(err, "rope", "wants x [..,T,W] and a table [T,W/2,2]", x,
                               table);
    *out = *x;
    return IG_OK;
}

static ig_status rope_shape(ig__type *out, const ig__type *const *in, int n_in,
                            const void *attrs, ig_error *err)
{
    (void)n_in;
    const ig__rope_attrs *a = attrs;
    if (a->over_arrays)
        return rope_shape_arrays(out, in, err);
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

/* ---- over arrays ------------------------------------------------------------------------------------- */

static int64_t rotated_units(const ig__eval *e)
{
    const int64_t w = e->in[0].type->dims[e->in[0].type->n_dims - 1].plus;
    return e->in[0].n ? (e->in[0].n / w + ROTATED_ROWS - 1) / ROTATED_ROWS : 0;
}

static ig__room rotated_room(const ig__eval *e)
{
    const int64_t w = e->in[0].type->dims[e->in[0].type->n_dims - 1].plus;
    return (ig__room){.each = (size_t)w * 8 * 3};
}

static double rotated_work(const ig__eval *e)
{
    return (double)e->in[0].n;
}

/* Pairs of y [n] by angles cos_sin [n/2][2]. */
static void rotate_f64(double *y, const float *cos_sin, int64_t n, bool halves)
{
    for (int64_t i = 0; i < n / 2; i++) {
        double *a = y + (halves ? i : 2 * i), *b = halves ? a + n / 2 : a + 1;
        const double c = (double)cos_sin[2 * i], s = (double)cos_sin[2 * i + 1], was = *a;
        *a = was * c - *b * s;
        *b = was * s + *b * c;
    }
}

static void rope_eval(const ig__eval *e, int64_t begin, int64_t end)
{
    const ig__rope_attrs *a = e->attrs;
    const ig__compute compute = ig__compute_of(e->in[0].type->dtype);
    const int last = e->in[0].type->n_dims - 1;
    const int64_t n_rows = e->in[1].type->dims[0].plus;
    ig__reduction in, out;
    ig__walk_over table;
    ig__reduction_make(&in, &e->in[0], 1u << last);
    ig__reduction_make(&out, &e->out[0], 1u << last);
    ig__walk_make(&table, &e->in[1], e->in[1].type);
    const int64_t w = in.n, n = 2 * e->in[1].type->dims[1].plus;
    char *buffer = e->scratch;
    float *cos_sin = (float *)(void *)(buffer + 16 * w);
    for (int64_t o = begin * ROTATED_ROWS; o < end * ROTATED_ROWS && o < in.n_out; o++) {
        const void *x = ig__row_load(&in, o, compute, buffer);
        void *y = ig__row_place(&out, o, compute, buffer + 8 * w);
        ig__walk_load(&table, o % n_rows * n, n, cos_sin, IG_COMPUTE_F32);
        for (int64_t i = 1; i < n && a->back; i += 2)
            cos_sin[i] = -cos_sin[i];
        if (y != x)
            memcpy(y, x, (size_t)w * (compute == IG_COMPUTE_F64 ? 8 : 4));
        if (compute == IG_COMPUTE_F64)
            rotate_f64(y, cos_sin, n, a->halves);
        else
            e->k->rope(y, cos_sin, n, a->halves);
        ig__row_store(&out, o, y, compute);
    }
}

static void rope_gradient(ig__gradient *g)
{
    ig__rope_attrs attrs = *(const ig__rope_attrs *)g->attrs;
    attrs.back = !attrs.back;
    g->d_in[0] = ig__apply2(&ig__op_rope, &attrs, g->d_out[0], g->in[1]);
}

const ig__op ig__op_rope = {.name = "rope",
                            .n_in_least = 2,
                            .n_in_most = 2,
                            .attrs_bytes = sizeof(ig__rope_attrs),
                            .walk = IG_WALK_ROWS,
                            .shape = rope_shape,
                            .run = rope_run,
                            .n_units = rotated_units,
                            .eval = rope_eval,
                            .room = rotated_room,
                            .work = rotated_work,
                            .gradient = rope_gradient,
                            .needs = {IG_IN(1)}};

/* ---- public ------------------------------------------------------------------------------------------ */

ig_tensor *ig_rope_table(ig_tensor *positions, int64_t n_rotated, const ig_rope_opts *opts)
{
    static const ig_rope_opts defaults = {0};
    const ig_rope_opts *o = opts ? opts : &defaults;
    ig__rope_table_attrs attrs;
    memset(&attrs, 0, sizeof attrs);
    attrs.n_rotated = n_rotated;
    attrs.base = o->base != 0 ? o->base : 10000;
    attrs.scale = o->scale != 0 ? o->scale : 1;
    if (!positions)
        return NULL;
    if (!ig__is_int(positions->type.dtype))
        return ig__fail_shapes(&positions->ctx->error, "rope_table",
                               "wants positions [T] of an integer type", &positions->type,
                               NULL),
               NULL;
    ig_tensor *const in[2] = {ig__cast(positions, IG_DTYPE_I32),
                              ig__contiguous(o->factors)};
    return ig__apply(NULL, &ig__op_rope_table, &attrs, in, o->factors ? 2 : 1);
}

ig_tensor *ig_rope(ig_tensor *x, ig_tensor *table, bool halves)
{
    ig__rope_attrs attrs;
    memset(&attrs, 0, sizeof attrs);
    attrs.halves = halves;
    attrs.over_arrays = true;
    return ig__apply2(&ig__op_rope, &attrs, x, table);
}
