/* Products with weights: the plain row, packing of activations, and the fused rows that read packed
 * activations.
 *
 * The fast rows cut the result into pieces of a few groups (of 16 weight rows) by up to
 * IG_TOKEN_BLOCK columns (tokens); a kernel computes one group for all columns of the piece into
 * scratch, [column][16], and the row's epilogue puts it where it belongs. Sums never cross pieces, so how the
 * result is cut, and who computes a piece, cannot change a bit.
 */
#include "op/op_int.h"
#include "op/product.h"

#include <string.h>

enum { ITEMS_A_THREAD = 12 };

ig__cut ig__cut_of(int64_t n_rows_w, int64_t n_columns, int n_threads)
{
    ig__cut cut = {.n_groups = (n_rows_w + IG_GROUP - 1) / IG_GROUP,
                   .n_blocks = (n_columns + IG_TOKEN_BLOCK - 1) / IG_TOKEN_BLOCK};
    const int64_t want = (int64_t)n_threads * ITEMS_A_THREAD;
    cut.groups_an_item = cut.n_groups * cut.n_blocks / want;
    if (cut.groups_an_item < 1)
        cut.groups_an_item = 1;
    cut.chunks = (cut.n_groups + cut.groups_an_item - 1) / cut.groups_an_item;
    return cut;
}

ig__piece ig__piece_of(const ig__cut *cut, int64_t item, int64_t n_columns)
{
    ig__piece p = {.group = item % cut->chunks * cut->groups_an_item,
                   .column = item / cut->chunks * IG_TOKEN_BLOCK};
    p.group_end = p.group + cut->groups_an_item;
    if (p.group_end > cut->n_groups)
        p.group_end = cut->n_groups;
    p.n_columns = n_columns - p.column;
    if (p.n_columns > IG_TOKEN_BLOCK)
        p.n_columns = IG_TOKEN_BLOCK;
    return p;
}

ig_status ig__check_product(const char *op, const ig__type *acts, const ig__type *w,
                            ig_error *err)
{
    if (w->layout != IG_LAYOUT_GROUPS || w->n_dims != 2 || acts->layout != IG_LAYOUT_ACTS)
        return ig__fail_shapes(err, op, "wants packed activations and a packed matrix",
                               acts, w);
    if (ig__type_width(acts) != w->dims[1].plus)
        return ig__fail_shapes(err, op, "inner sizes differ", acts, w);
    return IG_OK;
}

void ig__product(const ig__step_args *s, float *block, const ig__operand *w, int64_t group,
                 int64_t column, int64_t n, void *scratch)
{
    const ig__operand *acts = &s->in[0];
    const ig__acts format = acts->type->acts;
    const char *x = (const char *)acts->data +
                    (size_t)(column / IG_TILE) * ig__tile_bytes(format, w->width, IG_TILE);
    s->k->gemm[format][w->type->dtype](block, ig__group_at(w, group), x, n, w->width,
                                       scratch);
}

static void product_cost(ig__cost *cost, const ig__type *acts, const ig__type *w,
                         const ig__bind *bind)
{
    const double rows = (double)ig__dim_value(acts->dims[0], bind);
    cost->ops += 2.0 * rows * (double)w->dims[0].plus * (double)w->dims[1].plus;
    cost->weight_bytes += (double)ig__type_bytes(w, bind, 1);
}

/* ---- linear: the plain row --------------------------------------------------------------------- */

static ig_status linear_shape(ig__type *out, const ig__type *const *in, int n_in,
                              const void *attrs, ig_error *err)
{
    (void)attrs;
    if (in[1]->layout == IG_LAYOUT_ROWS)
        return ig__linear_plain_shape(out, in, n_in, err);
    if (!ig__is_rows_f32(in[0]) || in[0]->n_dims != 2 ||
        in[1]->layout != IG_LAYOUT_GROUPS || n_in != 2)
        return ig__fail_shapes(err, "linear", "wants float32 rows and a packed matrix",
                               in[0], in[1]);
    if (in[0]->dims[1].plus != in[1]->dims[1].plus)
        return ig__fail_shapes(err, "linear", "inner sizes differ", in[0], in[1]);
    *out = *in[0];
    out->dims[1] = in[1]->dims[0];
    return IG_OK;
}

static int64_t linear_items(const ig__step_args *s)
{
    return s->out.width;
}

static void linear_run(const ig__step_args *s, int64_t begin, int64_t end)
{
    const ig__operand *w = &s->in[1];
    float *row = s->scratch;
    for (int64_t n = begin; n < end; n++) {
        s->k->unpack_row[w->type->dtype](row, ig__group_at(w, n / IG_GROUP), n % IG_GROUP,
                                         w->width);
        for (int64_t t = 0; t < s->out.rows; t++) {
            const float *x = ig__row_f32(&s->in[0], t);
            double sum = 0;
            for (int64_t k = 0; k < w->width; k++)
                sum += (double)(x[k] * row[k]);
            ig__row_f32(&s->out, t)[n] = (float)sum;
        }
    }
}

static size_t linear_scratch(const ig__type *const *in, int n_in, const ig__type *out,
                             const void *attrs)
{
    (void)n_in, (void)out, (void)attrs;
    return (size_t)in[1]->dims[1].plus * 4;
}

static void linear_cost(ig__cost *cost, const ig__type *const *in, int n_in,
                        const ig__type *out, const void *attrs, const ig__bind *bind)
{
    (void)n_in, (void)out, (void)attrs;
    product_cost(cost, in[0], in[1], bind);
}

const ig__op ig__op_linear = {.name = "linear",
                              .n_in_least = 2,
                              .n_in_most = 3,
                              .walk = IG_WALK_ITEMS,
                              .shape = linear_shape,
                              .n_items = linear_items,
                              .run = linear_run,
                              .scratch = linear_scratch,
                              .cost = linear_cost,
                              .n_units = ig__linear_units,
                              .eval = ig__linear_eval,
                              .room = ig__linear_room,
                              .work = ig__linear_work,
                              .keeps_units = true,
                              .gradient = ig__linear_gradient,
                              .needs = {IG_IN(1), IG_IN(0)},
                              .precision = IG_PRECISION_LOW,
                              .keeps = 1 << 2};

/* ---- pack, norm_pack ----------------------------------------------------------------------- */

static ig_status pack_shape(ig__type *out, const ig__type *const *in, int n_in,
                            const void *attrs, ig_error *err)
{
    const ig__pack_attrs *a = attrs;
    const int64_t k = ig__type_width(in[0]);
    if (!ig__is_rows_f32(in[0]) || in[0]->n_dims < 2 || k % IG_QBLOCK)
        return ig__fail_shapes(err, "pack", "wants float32 rows of a multiple of 32", in[0],
                               NULL);
    if (n_in > 1 && !ig__is_vector(in[1], k))
        return ig__fail_shapes(err, "norm_pack", "the gain does not fit", in[0], in[1]);
    *out = (ig__type){
        .dtype = IG_DTYPE_F32, .layout = IG_LAYOUT_ACTS, .acts = a->format, .n_dims = 2};
    out->dims[0] = in[0]->dims[0];
    out->dims[1] = ig__dim_of(k);
    return IG_OK;
}

void ig__pack_row(const ig__step_args *s, int64_t t, const float *x)
{
    const int64_t k = s->out.width, n = s->out.rows, tile = t / IG_TILE;
    const int64_t left = n - tile * IG_TILE;
    const ig__acts format = s->out.type->acts;
    char *at = (char *)s->out.data + (size_t)tile * ig__tile_bytes(format, k, IG_TILE);
    s->k->pack_acts[format](at, x, t % IG_TILE, left < IG_TILE ? left : IG_TILE, k);
}

static void pack_run(const ig__step_args *s, int64_t begin, int64_t end)
{
    const int64_t last = ig__tile_row(end, s->out.rows);
    for (int64_t t = ig__tile_row(begin, s->out.rows); t < last; t++)
        ig__pack_row(s, t, ig__row_f32(&s->in[0], t));
}

static void norm_pack_run(const ig__step_args *s, int64_t begin, int64_t end)
{
    const ig__pack_attrs *a = s->attrs;
    const int64_t last = ig__tile_row(end, s->out.rows);
    for (int64_t t = ig__tile_row(begin, s->out.rows); t < last; t++) {
        float *x = s->scratch;
        s->k->rms_norm(x, ig__row_f32(&s->in[0], t), s->in[1].data, s->out.width, a->eps);
        ig__pack_row(s, t, x);
    }
}

/* A row, normalised. */
static size_t pack_scratch(const ig__type *const *in, int n_in, const ig__type *out,
                           const void *attrs)
{
    (void)n_in, (void)out, (void)attrs;
    return (size_t)ig__type_width(in[0]) * 4;
}

const ig__op ig__op_pack = {.name = "pack",
                            .n_in_least = 1,
                            .n_in_most = 1,
                            .attrs_bytes = sizeof(ig__pack_attrs),
                            .fused = true,
                            .walk = IG_WALK_ROWS,
                            .shape = pack_shape,
                            .run = pack_run,
                            .scratch = pack_scratch};
const ig__op ig__op_norm_pack = {.name = "norm_pack",
                                 .n_in_least = 2,
                                 .n_in_most = 2,
                                 .attrs_bytes = sizeof(ig__pack_attrs),
                                 .fused = true,
                                 .walk = IG_WALK_ROWS,
                                 .shape = pack_shape,
                                 .run = norm_pack_run,
                                 .scratch = pack_scratch};

/* ---- linear_packed ----------------------------------------------------------------------------- */

static ig_status linear_packed_shape(ig__type *out, const ig__type *const *in, int n_in,
                                     const void *attrs, ig_error *err)
{
    (void)attrs;
    IG_TRY(ig__check_product("linear", in[0], in[1], err));
    *out = (ig__type){.dtype = IG_DTYPE_F32, .n_dims = 2};
    out->dims[0] = in[0]->dims[0];
    out->dims[1] = in[1]->dims[0];
    if (n_in > 2 && !ig__type_same(out, in[2]))
        return ig__fail_shapes(err, "linear", "the residual does not fit", out, in[2]);
    return IG_OK;
}

static int64_t product_items(const ig__step_args *s)
{
    const ig__cut cut = ig__cut_of(s->in[1].rows, s->out.rows, s->n_threads);
    return cut.chunks * cut.n_blocks;
}

/* Columns of scratch [n][16] to rows of y (+ the residual's), `valid` of the 16 of them inside the
 * matrix. */
static void store_group(const ig__step_args *s, const float *block, int64_t column,
                        int64_t n, int64_t group, const ig__operand *residual)
{
    const int64_t at = group * IG_GROUP, left = s->out.width - at;
    const int64_t valid = left < IG_GROUP ? left : IG_GROUP;
    for (int64_t c = 0; c < n; c++) {
        float *restrict y = ig__row_f32(&s->out, column + c) + at;
        const float *restrict sum = block + c * IG_GROUP;
        const float *restrict x = residual ? ig__row_f32(residual, column + c) + at : NULL;
        if (valid < IG_GROUP)
            for (int64_t i = 0; i < valid; i++)
                y[i] = x ? x[i] + sum[i] : sum[i];
        else if (!x)
            memcpy(y, sum, IG_GROUP * 4);
        else
            for (int i = 0; i < IG_GROUP;
                 i++) /* a constant count: the compiler's vectors */
                y[i] = x[i] + sum[i];
    }
}

static void linear_packed_run(const ig__step_args *s, int64_t begin, int64_t end)
{
    const ig__operand *w = &s->in[1];
    const ig__operand *residual = s->n_in > 2 ? &s->in[2] : NULL;
    const ig__cut cut = ig__cut_of(w->rows, s->out.rows, s->n_threads);
    float *block = s->scratch;
    void *scratch = block + IG_TOKEN_BLOCK * IG_GROUP;
    for (int64_t i = begin; i < end; i++) {
        const ig__piece p = ig__piece_of(&cut, i, s->out.rows);
        for (int64_t g = p.group; g < p.group_end; g++) {
            ig__product(s, block, w, g, p.column, p.n_columns, scratch);
            store_group(s, block, p.column, p.n_columns, g, residual);
        }
    }
}

static size_t product_scratch(const ig__type *const *in, int n_in, const ig__type *out,
                              const void *attrs)
{
    (void)n_in, (void)out, (void)attrs;
    return (size_t)IG_TOKEN_BLOCK * IG_GROUP * 4 + IG_GEMM_SCRATCH(in[1]->dims[1].plus);
}

static void linear_packed_cost(ig__cost *cost, const ig__type *const *in, int n_in,
                               const ig__type *out, const void *attrs, const ig__bind *bind)
{
    (void)n_in, (void)out, (void)attrs;
    product_cost(cost, in[0], in[1], bind);
}

const ig__op ig__op_linear_packed = {.name = "linear_packed",
                                     .n_in_least = 2,
                                     .n_in_most = 3,
                                     .fused = true,
                                     .walk = IG_WALK_ITEMS,
                                     .shape = linear_packed_shape,
                                     .n_items = product_items,
                                     .run = linear_packed_run,
                                     .scratch = product_scratch,
                                     .cost = linear_packed_cost};

/* ---- gated_packed: gate(x Wg) * (x Wu) ---------------------------------------------------------- */

static ig_status gated_shape(ig__type *out, const ig__type *const *in, int n_in,
                             const void *attrs, ig_error *err)
{
    (void)n_in, (void)attrs;
    IG_TRY(ig__check_product("gated", in[0], in[1], err));
    IG_TRY(ig__check_product("gated", in[0], in[2], err));
    if (in[1]->dims[0].plus != in[2]->dims[0].plus)
        return ig__fail_shapes(err, "gated", "gate and up differ", in[1], in[2]);
    *out = (ig__type){.dtype = IG_DTYPE_F32, .n_dims = 2};
    out->dims[0] = in[0]->dims[0];
    out->dims[1] = in[1]->dims[0];
    return IG_OK;
}

static void gated_run(const ig__step_args *s, int64_t begin, int64_t end)
{
    const ig__gated_attrs *a = s->attrs;
    const ig__operand *wg = &s->in[1], *wu = &s->in[2];
    const ig__cut cut = ig__cut_of(wg->rows, s->out.rows, s->n_threads);
    float *gate = s->scratch, *up = gate + IG_TOKEN_BLOCK * IG_GROUP;
    void *scratch = up + IG_TOKEN_BLOCK * IG_GROUP;
    for (int64_t i = begin; i < end; i++) {
        const ig__piece p = ig__piece_of(&cut, i, s->out.rows);
        for (int64_t g = p.group; g < p.group_end; g++) {
            ig__product(s, gate, wg, g, p.column, p.n_columns, scratch);
            ig__product(s, up, wu, g, p.column, p.n_columns, scratch);
            const int64_t n = p.n_columns * IG_GROUP;
            if (a->gate == IG_GATE_SILU)
                s->k->silu_mul(gate, gate, up, n);
            else
                s->k->gelu_mul(gate, gate, up, n);
            store_group(s, gate, p.column, p.n_columns, g, NULL);
        }
    }
}

static size_t gated_scratch(const ig__type *const *in, int n_in, const ig__type *out,
                            const void *attrs)
{
    return product_scratch(in, n_in, out, attrs) + (size_t)IG_TOKEN_BLOCK * IG_GROUP * 4;
}

static void gated_cost(ig__cost *cost, const ig__type *const *in, int n_in,
                       const ig__type *out, const void *attrs, const ig__bind *bind)
{
    (void)n_in, (void)out, (void)attrs;
    product_cost(cost, in[0], in[1], bind);
    product_cost(cost, in[0], in[2], bind);
}

const ig__op ig__op_gated_packed = {.name = "gated_packed",
                                    .n_in_least = 3,
                                    .n_in_most = 3,
                                    .attrs_bytes = sizeof(ig__gated_attrs),
                                    .fused = true,
                                    .walk = IG_WALK_ITEMS,
                                    .shape = gated_shape,
                                    .n_items = product_items,
                                    .run = gated_run,
                                    .scratch = gated_scratch,
                                    .cost = gated_cost};
