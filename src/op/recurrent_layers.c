/* Recurrent networks out of recurrent layers: the input's product as one large product over all steps, the
 * layer's row, several layers, both directions side by side.
 */
#include "op/recurrent.h"

#include "ingot/op.h"
#include "op/apply.h"
#include "op/op_int.h"

#include <string.h>

static int64_t dim(const ig__type *t, int d)
{
    return t->dims[d].plus;
}

typedef struct direction {
    ig_tensor *x, *w_in, *w, *b_in, *b, *h0, *c0; /* then one dtype */
} direction;

static ig_tensor *zeros(ig_tensor *like, int n_dims, int64_t a, int64_t b)
{
    return ig_zeros(like->ctx, like->type.dtype, n_dims, (const int64_t[]){a, b});
}

/* One layer in one direction: its outputs, last state and last cell. */
static bool run_direction(ig_tensor *out[3], const ig__recurrent_attrs *attrs,
                          const direction *by, ig_tensor *lengths)
{
    ig_tensor *in[7] = {by->x, by->w_in, by->w, by->b_in, by->b, by->h0, by->c0};
    ig_tensor *operands[6], *results[4];
    ig_dtype result;
    int n = 0;
    if (!ig__dense("recurrent", in, 7, &result))
        return false;
    if (in[2]->type.n_dims != 2)
        return ig__fail_shapes(&in[0]->ctx->error, "recurrent", "wants w [G*D,D]",
                               &in[2]->type, NULL),
               false;
    const int64_t batch = dim(&in[0]->type, 0), d = dim(&in[2]->type, 1);
    operands[n++] = ig__contiguous(ig_linear(in[0], in[1], in[3]));
    operands[n++] = in[2];
    operands[n++] = in[4] ? in[4] : zeros(in[0], 1, dim(&in[2]->type, 0), 0);
    operands[n++] = in[5] ? in[5] : zeros(in[0], 2, batch, d);
    if (attrs->cell == IG_CELL_LSTM)
        operands[n++] = in[6] ? in[6] : zeros(in[0], 2, batch, d);
    if (lengths)
        operands[n++] = lengths;
    if (!ig__apply_all(NULL, &ig__op_recurrent, attrs, operands, n, results))
        return false;
    out[0] = ig__cast(results[OUT_Y], result);
    out[1] = ig__cast(results[OUT_LAST], result);
    out[2] = NULL;
    const int64_t steps = dim(&in[0]->type, 1);
    if (attrs->cell == IG_CELL_LSTM) /* kept through steps that are not there */
        out[2] = steps ? ig__cast(ig_select(results[OUT_EXTRA], 1,
                                            attrs->backwards ? 0 : steps - 1),
                                  result)
                       : operands[IN_C0];
    return out[0] && out[1];
}

/* Row `at` of [L,B,D], or NULL. */
static ig_tensor *state_of(ig_tensor *states, int at)
{
    return states ? ig_select(states, 0, at) : NULL;
}

static bool check_call(ig_cell cell, ig_tensor *x, ig_tensor *const *w, int n, int ways,
                       int layers)
{
    if (!x || ig__context_failed(x->ctx))
        return false;
    if (x->type.n_dims != 3 || (unsigned)cell > IG_CELL_GRU)
        return ig__fail_shapes(&x->ctx->error, "recurrent", "wants x [B,T,D]", &x->type,
                               NULL),
               false;
    if (layers < 1 || layers > 32 || n != 4 * layers * ways)
        return ig__fail_on(x->ctx, IG_ERR_ARGUMENT,
                           "recurrent: %d layers in %d directions want four weights each, "
                           "not %d in all; at most 32 layers",
                           layers, ways, n),
               false;
    for (int i = 0; i < n; i += 4)
        if (!w[i] || !w[i + 1])
            return false;
    return true;
}

ig_tensor *ig_recurrent(ig_cell cell, ig_tensor *x, ig_tensor *const *weights,
                        int n_weights, const ig_recurrent_opts *opts)
{
    static const ig_recurrent_opts defaults = {0};
    const ig_recurrent_opts *o = opts ? opts : &defaults;
    const int layers = o->layers ? o->layers : 1, ways = o->both ? 2 : 1;
    ig_tensor *last[64], *cells[64];
    if (o->h_out)
        *o->h_out = NULL;
    if (o->c_out)
        *o->c_out = NULL;
    if (!check_call(cell, x, weights, n_weights, ways, layers))
        return NULL;
    for (int layer = 0; layer < layers; layer++) {
        ig_tensor *sides[2];
        if (layer && o->dropout > 0)
            x = ig_dropout(x, o->dropout);
        for (int way = 0; way < ways; way++) {
            const int at = layer * ways + way;
            ig_tensor *const *w = weights + 4 * at, *out[3];
            const direction by = {x,
                                  w[0],
                                  w[1],
                                  w[2],
                                  w[3],
                                  state_of(o->h0, at),
                                  cell == IG_CELL_LSTM ? state_of(o->c0, at) : NULL};
            ig__recurrent_attrs attrs;
            memset(&attrs, 0, sizeof attrs);
            attrs.cell = cell;
            attrs.backwards = way == 1;
            attrs.lengths = o->lengths != NULL;
            if (!run_direction(out, &attrs, &by, o->lengths))
                return NULL;
            sides[way] = out[0];
            last[at] = out[1];
            cells[at] = out[2];
        }
        x = ways == 2 ? ig_cat(sides, 2, -1) : sides[0];
    }
    if (o->h_out)
        *o->h_out = ig_stack(last, layers * ways, 0);
    if (o->c_out && cell == IG_CELL_LSTM)
        *o->c_out = ig_stack(cells, layers * ways, 0);
    return x;
}
