/* Attention whose queries, keys and values come out of one product, side by side:
 *
 *   x [B,T,3,H,W] -> y [B,T,H,W], lse [B,H,T]
 *
 * so that neither they nor their gradients are taken apart or put together: the kernels read and write
 * through strides, where three tensors would be slices of x and their gradients would be summed into one.
 * The evaluation is that of attend.c, over views of the operands.
 */
#include "op/attend.h"

#include "op/apply.h"
#include "op/autocast.h"
#include "op/op_int.h"

#include <math.h>
#include <string.h>

/* ---- shapes ---------------------------------------------------------------------------------------- */

static int64_t dim(const ig__type *t, int d)
{
    return t->dims[d].plus;
}

static ig_status check_joined(const ig__type *x, ig_error *err)
{
    if (x->n_dims != 5 || dim(x, 2) != 3 ||
        (x->dtype != IG_DTYPE_F32 && x->dtype != IG_DTYPE_F64))
        return ig__fail_shapes(err, "attention", "wants floats [B,T,3,H,W]", x, NULL);
    if (dim(x, 3) < 1 || dim(x, 4) < 1 || dim(x, 4) > IG__MAX_ATTEND)
        return ig__fail_shapes(err, "attention", "takes heads of 1 to 256", x, NULL);
    return IG_OK;
}

static ig_status joined_shape(ig__type *out, const ig__type *const *in, int n_in,
                              const void *attrs, ig_error *err)
{
    (void)n_in, (void)attrs;
    IG_TRY(check_joined(in[0], err));
    out[0] = out[1] = *in[0];
    out[0].n_dims = 4;
    out[0].dims[2] = in[0]->dims[3];
    out[0].dims[3] = in[0]->dims[4];
    out[1].n_dims = 3;
    out[1].dims[1] = in[0]->dims[3];
    out[1].dims[2] = in[0]->dims[1];
    return IG_OK;
}

/* x, y, lse, dy -> dx */
static ig_status joined_grad_shape(ig__type *out, const ig__type *const *in, int n_in,
                                   const void *attrs, ig_error *err)
{
    (void)n_in, (void)attrs;
    IG_TRY(check_joined(in[0], err));
    if (!ig__type_same(in[1], in[3]))
        return ig__fail_shapes(err, "attention", "the gradient does not fit", in[1], in[3]);
    *out = *in[0];
    return IG_OK;
}

/* ---- evaluation: the operands as attend.c has them ---------------------------------------------------- */

/* An array under other dimensions. */
typedef struct seen_as {
    ig__type type;
    int64_t strides[IG_MAX_DIMS];
} seen_as;

/* Part i of x [B,T,3,H,W] as [B,H,T,W]; x [B,T,H,W] so too (i is 0). */
static void see(ig__array *a, seen_as *s, const ig__array *x, int i)
{
    const int heads = x->type->n_dims - 2;
    const int order[4] = {0, heads, 1, heads + 1};
    s->type = *x->type;
    s->type.n_dims = 4;
    for (int d = 0; d < 4; d++) {
        s->type.dims[d] = x->type->dims[order[d]];
        s->strides[d] = x->strides[order[d]];
    }
    const int64_t size = (int64_t)ig_dtype_block_bytes(x->type->dtype);
    *a = (ig__array){.data = x->data + (heads == 3 ? i * x->strides[2] * size : 0),
                     .type = &s->type,
                     .strides = s->strides,
                     .n = heads == 3 ? x->n / 3 : x->n};
}

enum { PARTS = 3, SEEN = 8 };

static void forward_of(ig__eval *f, seen_as s[SEEN], const ig__eval *e)
{
    *f = *e;
    f->n_in = PARTS;
    for (int i = 0; i < PARTS; i++)
        see(&f->in[i], &s[i], &e->in[0], i);
    see(&f->out[0], &s[PARTS], &e->out[0], 0);
}

static void backward_of(ig__eval *f, seen_as s[SEEN], const ig__eval *e)
{
    *f = *e;
    f->n_in = 6;
    f->n_out = PARTS;
    for (int i = 0; i < PARTS; i++) {
        see(&f->in[i], &s[i], &e->in[0], i);
        see(&f->out[i], &s[PARTS + i], &e->out[0], i);
    }
    see(&f->in[3], &s[6], &e->in[1], 0);
    f->in[4] = e->in[2];
    see(&f->in[5], &s[7], &e->in[3], 0);
}

static int64_t joined_units(const ig__eval *e)
{
    ig__eval f;
    seen_as s[SEEN];
    forward_of(&f, s, e);
    return ig__attend_units(&f);
}

static ig__room joined_room(const ig__eval *e)
{
    ig__eval f;
    seen_as s[SEEN];
    forward_of(&f, s, e);
    return ig__attend_room(&f);
}

static double joined_work(const ig__eval *e)
{
    ig__eval f;
    seen_as s[SEEN];
    forward_of(&f, s, e);
    return ig__attend_work(&f);
}

static void joined_eval(const ig__eval *e, int64_t begin, int64_t end)
{
    ig__eval f;
    seen_as s[SEEN];
    forward_of(&f, s, e);
    ig__attend_eval(&f, begin, end);
}

static int64_t joined_grad_units(const ig__eval *e)
{
    ig__eval f;
    seen_as s[SEEN];
    backward_of(&f, s, e);
    return ig__attend_grad_units(&f);
}

static ig__room joined_grad_room(const ig__eval *e)
{
    ig__eval f;
    seen_as s[SEEN];
    backward_of(&f, s, e);
    return ig__attend_grad_room(&f);
}

static double joined_grad_work(const ig__eval *e)
{
    ig__eval f;
    seen_as s[SEEN];
    backward_of(&f, s, e);
    return ig__attend_work(&f) * 2.5;
}

static void joined_grad_eval(const ig__eval *e, int64_t begin, int64_t end)
{
    ig__eval f;
    seen_as s[SEEN];
    backward_of(&f, s, e);
    ig__attend_grad_eval(&f, begin, end);
}

/* ---- the gradient --------------------------------------------------------------------------------------- */

/* Recorded: of the parts, put together again. */
static void joined_by_parts(ig__gradient *g)
{
    ig__gradient parts = *g;
    parts.n_in = PARTS;
    parts.wanted = 7;
    ig_tensor *x = ig_permute(g->in[0], 5, (const int[]){2, 0, 3, 1, 4});
    for (int i = 0; i < PARTS; i++) {
        parts.in[i] = ig_select(x, 0, i);
        parts.d_in[i] = NULL;
        if (!parts.in[i])
            return;
        parts.type[i] = &parts.in[i]->type;
    }
    parts.d_out[0] = ig_transpose(g->d_out[0], 1, 2);
    ig__attend_by_parts(&parts);
    g->d_in[0] =
        ig_permute(ig_stack(parts.d_in, PARTS, 0), 5, (const int[]){1, 3, 0, 2, 4});
}

/* Rows contiguous, as the kernels want them. */
static ig_tensor *with_rows(ig_tensor *x)
{
    const int last = x ? x->type.n_dims - 1 : 0;
    return x && x->strides[last] != 1 && dim(&x->type, last) > 1 ? ig_contiguous(x) : x;
}

static void joined_gradient(ig__gradient *g)
{
    if (!g->d_out[0])
        return;
    if (!g->ctx->no_grad) {
        joined_by_parts(g);
        return;
    }
    ig_tensor *const in[4] = {g->in[0], g->out[0], g->out[1], with_rows(g->d_out[0])};
    g->d_in[0] = ig__apply(g->ctx, &ig__op_attention_joined_grad, g->attrs, in, 4);
}

const ig__op ig__op_attention_joined = {.name = "attention_joined",
                                        .n_in_least = 1,
                                        .n_in_most = 1,
                                        .attrs_bytes = sizeof(ig__attend_attrs),
                                        .shape = joined_shape,
                                        .n_out = 2,
                                        .n_units = joined_units,
                                        .eval = joined_eval,
                                        .room = joined_room,
                                        .work = joined_work,
                                        .gradient = joined_gradient,
                                        .needs = {IG_IN(0) | IG_OUT(0) | IG_OUT(1)},
                                        .precision = IG_PRECISION_LOW,
                                        .keeps = 1};

const ig__op ig__op_attention_joined_grad = {.name = "attention_joined_grad",
                                             .n_in_least = 4,
                                             .n_in_most = 4,
                                             .attrs_bytes = sizeof(ig__attend_attrs),
                                             .shape = joined_grad_shape,
                                             .n_units = joined_grad_units,
                                             .eval = joined_grad_eval,
                                             .room = joined_grad_room,
                                             .work = joined_grad_work,
                                             .gradient = ig__gradient_missing,
                                             .precision = IG_PRECISION_LOW,
                                             .keeps = 15};

ig_tensor *ig__attention_joined(ig_tensor *x, bool causal)
{
    ig_tensor *out[2];
    ig_dtype result;
    ig__attend_attrs attrs;
    if (!ig__autocast_low(&x, 1) || !ig__alike("attention", &x, 1, &result) ||
        !(x = with_rows(x)))
        return NULL;
    if (x->type.n_dims != 5)
        return ig__fail_shapes(&x->ctx->error, "attention", "wants floats [B,T,3,H,W]",
                               &x->type, NULL),
               NULL;
    memset(&attrs, 0, sizeof attrs);
    attrs.causal = causal;
    attrs.scale = 1 / sqrt((double)dim(&x->type, 4));
    ig__apply_all(NULL, &ig__op_attention_joined, &attrs, &x, 1, out);
    return out[0] ? ig__cast(out[0], result) : NULL;
}
