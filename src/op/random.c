/* Random numbers, counted by logical element.
 *
 * A context has a seed and a count of draws. A row that draws takes the next count as its stream; element i
 * of the stream has word i mod 4 of Philox(seed, stream, i / 4). So a value depends on the seed, on
 * how many rows drew before, and on its place: never on threads. A second output keeps the
 * stream's number where a gradient must draw the same again (dropout).
 */
#include "op/random.h"

#include "ingot/op.h"
#include "op/apply.h"
#include "op/op_int.h"
#include "op/reduce.h"

#include <math.h>
#include <string.h>

/* ---- random: uniform, normal, bernoulli -------------------------------------------------------------------- */

typedef enum law { LAW_UNIFORM, LAW_NORMAL, LAW_BERNOULLI, LAW_PERMUTATION } law;

typedef struct random_attrs {
    law law;
    ig_dtype dtype;
    double a, b; /* low, high; mean, deviation; probability */
    int n_dims;
    int64_t dims[IG_MAX_DIMS];
} random_attrs;

static ig_status random_shape(ig__type *out, const ig__type *const *in, int n_in,
                              const void *attrs, ig_error *err)
{
    (void)in, (void)n_in, (void)err;
    const random_attrs *a = attrs;
    *out = (ig__type){.dtype = a->dtype, .n_dims = a->n_dims};
    for (int d = 0; d < a->n_dims; d++)
        out->dims[d] = ig__dim_of(a->dims[d]);
    return IG_OK;
}

static int64_t random_units(const ig__eval *e)
{
    const random_attrs *a = e->attrs;
    return a->law == LAW_PERMUTATION ? 1 : (e->out[0].n + IG_SPAN - 1) / IG_SPAN;
}

/* Fisher and Yates from the end: element i changes places with one of 0 .. i, drawn as draw i. */
static void permute(const ig__eval *e)
{
    int64_t *y = (int64_t *)(void *)e->out[0].data;
    for (int64_t i = 0; i < e->out[0].n; i++)
        y[i] = i;
    for (int64_t i = e->out[0].n - 1; i > 0; i--) {
        uint32_t words[4];
        e->t->random_bits(words, e->seed, e->draw, (uint64_t)i * 4, 2);
        const uint64_t word = (uint64_t)words[0] << 32 | words[1];
        const int64_t j = (int64_t)(((unsigned __int128)word * (uint64_t)(i + 1)) >> 64);
        const int64_t swap = y[i];
        y[i] = y[j];
        y[j] = swap;
    }
}

static void random_eval(const ig__eval *e, int64_t begin, int64_t end)
{
    const random_attrs *a = e->attrs;
    if (a->law == LAW_PERMUTATION) {
        permute(e);
        return;
    }
    float *chunk = e->scratch;
    ig__walk_over out;
    ig__walk_make(&out, &e->out[0], e->out[0].type);
    const int64_t last = end * IG_SPAN < e->out[0].n ? end * IG_SPAN : e->out[0].n;
    for (int64_t at = begin * IG_SPAN; at < last; at += IG_CHUNK) {
        const int64_t n = last - at < IG_CHUNK ? last - at : IG_CHUNK;
        if (a->law == LAW_NORMAL)
            e->t->random_normal(chunk, e->seed, e->draw, (uint64_t)at, n, (float)a->a,
                                (float)a->b);
        else if (a->law == LAW_UNIFORM)
            e->t->random_uniform(chunk, e->seed, e->draw, (uint64_t)at, n, (float)a->a,
                                 (float)a->b);
        else
            e->t->random_uniform(chunk, e->seed, e->draw, (uint64_t)at, n, 0, 1);
        for (int64_t i = 0; i < n && a->law == LAW_BERNOULLI; i++)
            chunk[i] = (double)chunk[i] < a->a;
        ig__walk_store(&out, at, n, chunk, IG_COMPUTE_F32);
    }
}

const ig__op ig__op_random = {.name = "random",
                              .attrs_bytes = sizeof(random_attrs),
                              .effect = true,
                              .shape = random_shape,
                              .n_units = random_units,
                              .eval = random_eval,
                              .room = ig__pointwise_room,
                              .random = true};

/* ---- dropout -------------------------------------------------------------------------------------------------- */

typedef struct dropout_attrs {
    double p;
} dropout_attrs;

static ig_status dropout_shape(ig__type *out, const ig__type *const *in, int n_in,
                               const void *attrs, ig_error *err)
{
    (void)n_in, (void)attrs;
    if (!ig__is_float(in[0]->dtype))
        return ig__fail_shapes(err, "dropout", "wants floats", in[0], NULL);
    out[0] = *in[0];
    out[1] = (ig__type){.dtype = IG_DTYPE_I64, .n_dims = 1};
    out[1].dims[0] = ig__dim_of(2); /* seed, stream */
    return IG_OK;
}

static ig_status dropout_grad_shape(ig__type *out, const ig__type *const *in, int n_in,
                                    const void *attrs, ig_error *err)
{
    (void)n_in, (void)attrs, (void)err;
    *out = *in[0];
    return IG_OK;
}

static void drop(const ig__eval *e, uint64_t seed, uint64_t stream, int64_t begin,
                 int64_t end)
{
    const dropout_attrs *a = e->attrs;
    const bool wide = e->in[0].type->dtype == IG_DTYPE_F64;
    float *chunk = e->scratch, *kept = chunk + IG_CHUNK;
    ig__walk_over in, out;
    ig__walk_make(&in, &e->in[0], e->in[0].type);
    ig__walk_make(&out, &e->out[0], e->out[0].type);
    const int64_t last = end * IG_SPAN < e->out[0].n ? end * IG_SPAN : e->out[0].n;
    for (int64_t at = begin * IG_SPAN; at < last; at += IG_CHUNK) {
        const int64_t n = last - at < IG_CHUNK ? last - at : IG_CHUNK;
        if (!wide) {
            ig__walk_load(&in, at, n, chunk, IG_COMPUTE_F32);
            e->t->dropout(kept, chunk, seed, stream, (uint64_t)at, n, a->p);
            ig__walk_store(&out, at, n, kept, IG_COMPUTE_F32);
            continue;
        }
        double *x = (double *)(void *)(kept + IG_CHUNK);
        for (int64_t i = 0; i < n; i++)
            chunk[i] = 1;
        e->t->dropout(kept, chunk, seed, stream, (uint64_t)at, n, a->p);
        ig__walk_load(&in, at, n, x, IG_COMPUTE_F64);
        for (int64_t i = 0; i < n; i++)
            x[i] = kept[i] != 0 ? x[i] / (1 - a->p) : 0;
        ig__walk_store(&out, at, n, x, IG_COMPUTE_F64);
    }
}

static ig__room dropout_room(const ig__eval *e)
{
    (void)e;
    return (ig__room){.each = IG_CHUNK * 16};
}

static void dropout_eval(const ig__eval *e, int64_t begin, int64_t end)
{
    if (begin == 0) {
        int64_t *kept = (int64_t *)(void *)e->out[1].data;
        kept[0] = (int64_t)e->seed;
        kept[1] = (int64_t)e->draw;
    }
    drop(e, e->seed, e->draw, begin, end);
}

static void dropout_grad_eval(const ig__eval *e, int64_t begin, int64_t end)
{
    const int64_t *kept = (const int64_t *)(const void *)e->in[1].data;
    drop(e, (uint64_t)kept[0], (uint64_t)kept[1], begin, end);
}

static int64_t dropout_units(const ig__eval *e)
{
    const int64_t n = (e->out[0].n + IG_SPAN - 1) / IG_SPAN;
    return n > 1 ? n : 1;
}

/* dropout_grad is linear in dy: its gradient is itself. */
static void dropout_gradient(ig__gradient *g)
{
    g->d_in[0] = ig__apply2(&ig__op_dropout_grad, g->attrs, g->d_out[0], g->out[1]);
}
static void dropout_grad_gradient(ig__gradient *g)
{
    g->d_in[0] = ig__apply2(&ig__op_dropout_grad, g->attrs, g->d_out[0], g->in[1]);
}

const ig__op ig__op_dropout = {.name = "dropout",
                               .n_in_least = 1,
                               .n_in_most = 1,
                               .attrs_bytes = sizeof(dropout_attrs),
                               .effect = true,
                               .shape = dropout_shape,
                               .n_out = 2,
                               .n_units = dropout_units,
                               .eval = dropout_eval,
                               .room = dropout_room,
                               .gradient = dropout_gradient,
                               .needs = {IG_OUT(1)},
                               .random = true};
const ig__op ig__op_dropout_grad = {.name = "dropout_grad",
                                    .n_in_least = 2,
                                    .n_in_most = 2,
                                    .attrs_bytes = sizeof(dropout_attrs),
                                    .shape = dropout_grad_shape,
                                    .n_units = dropout_units,
                                    .eval = dropout_grad_eval,
                                    .room = dropout_room,
                                    .gradient = dropout_grad_gradient,
                                    .needs = {IG_IN(1)}};

/* ---- a key: what another row draws by ------------------------------------------------------------------------- */

static ig_status key_shape(ig__type *out, const ig__type *const *in, int n_in,
                           const void *attrs, ig_error *err)
{
    (void)in, (void)n_in, (void)attrs, (void)err;
    *out = (ig__type){.dtype = IG_DTYPE_I64, .n_dims = 1};
    out->dims[0] = ig__dim_of(2);
    return IG_OK;
}

static void key_eval(const ig__eval *e, int64_t begin, int64_t end)
{
    (void)begin, (void)end;
    int64_t *key = (int64_t *)(void *)e->out[0].data;
    key[0] = (int64_t)e->seed;
    key[1] = (int64_t)e->draw;
}

const ig__op ig__op_random_key = {.name = "random_key",
                                  .effect = true,
                                  .shape = key_shape,
                                  .eval = key_eval,
                                  .random = true};

ig_tensor *ig__random_key(ig_context *ctx)
{
    return ig__apply(ctx, &ig__op_random_key, NULL, NULL, 0);
}

ig_tensor *ig__dropout_again(ig_tensor *x, ig_tensor *key, double p)
{
    const dropout_attrs attrs = {.p = p};
    return ig__apply2(&ig__op_dropout_grad, &attrs, x, key);
}

/* ---- public --------------------------------------------------------------------------------------------------- */

void ig_seed(ig_context *ctx, uint64_t seed)
{
    if (ctx->capture) {
        ig__fail_on(ctx, IG_ERR_ARGUMENT,
                    "seed: a capture records operators: seed before it, or before a run");
        return;
    }
    ctx->seed = seed;
    ctx->n_draws = 0;
}

static ig_tensor *draw(ig_context *ctx, const char *op, law kind, ig_dtype dtype,
                       int n_dims, const int64_t *dims, double a, double b)
{
    ig__type type;
    random_attrs attrs;
    if (!ig__type_of(&type, ctx, op, dtype, n_dims, dims))
        return NULL;
    if (kind != LAW_PERMUTATION && kind != LAW_BERNOULLI && !ig__is_float(dtype))
        return ig__fail_on(ctx, IG_ERR_ARGUMENT, "%s: makes floats, not %s", op,
                           ig_dtype_name(dtype));
    memset(&attrs, 0, sizeof attrs);
    attrs.law = kind;
    attrs.dtype = dtype;
    attrs.a = a;
    attrs.b = b;
    attrs.n_dims = n_dims;
    for (int d = 0; d < n_dims; d++)
        attrs.dims[d] = dims[d];
    return ig__apply(ctx, &ig__op_random, &attrs, NULL, 0);
}

ig_tensor *ig_uniform(ig_context *ctx, ig_dtype dtype, int n_dims, const int64_t *dims,
                      double low, double high)
{
    return draw(ctx, "uniform", LAW_UNIFORM, dtype, n_dims, dims, low, high);
}
ig_tensor *ig_normal(ig_context *ctx, ig_dtype dtype, int n_dims, const int64_t *dims,
                     double mean, double deviation)
{
    return draw(ctx, "normal", LAW_NORMAL, dtype, n_dims, dims, mean, deviation);
}
ig_tensor *ig_bernoulli(ig_context *ctx, ig_dtype dtype, int n_dims, const int64_t *dims,
                        double p)
{
    return draw(ctx, "bernoulli", LAW_BERNOULLI, dtype, n_dims, dims, p, 0);
}
ig_tensor *ig_permutation(ig_context *ctx, int64_t n)
{
    return draw(ctx, "permutation", LAW_PERMUTATION, IG_DTYPE_I64, 1, &n, 0, 0);
}

ig_tensor *ig_dropout(ig_tensor *x, double p)
{
    dropout_attrs attrs = {.p = p};
    ig_tensor *out[2];
    if (!x)
        return NULL;
    if (!(p >= 0 && p <= 1))
        return ig__fail_on(x->ctx, IG_ERR_ARGUMENT, "dropout: p is %g, allowed is 0 to 1",
                           p);
    if (p == 0)
        return x;
    ig__apply_all(NULL, &ig__op_dropout, &attrs, &x, 1, out);
    return out[0];
}
