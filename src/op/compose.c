/* Operators that are a few others: losses, gates, norms of vectors, masks, ranges, einsum, interpolation.
 */
#include "ingot/op.h"
#include "op/autocast.h"
#include "op/op_int.h"
#include "op/reduce.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static ig_tensor *like(ig_tensor *x, double value)
{
    return x ? ig_tensor_scalar(x->ctx, x->type.dtype, value) : NULL;
}

/* What needs digits is computed in f32 under mixed precision, be it made of rows that follow. */
static ig_tensor *high(ig_tensor *x)
{
    if (!x || ig__context_failed(x->ctx))
        return NULL;
    return x->ctx->autocast == IG_DTYPE_F32 ? x : ig__autocast(x, IG_PRECISION_HIGH);
}

/* ---- losses ------------------------------------------------------------------------------------------------ */

ig_tensor *ig_mse(ig_tensor *x, ig_tensor *y)
{
    return ig_mean(ig_square(ig_sub(high(x), high(y))), 0, NULL, false);
}

ig_tensor *ig_l1(ig_tensor *x, ig_tensor *y)
{
    return ig_mean(ig_abs(ig_sub(high(x), high(y))), 0, NULL, false);
}

/* d^2 / 2 within delta, delta (|d| - delta / 2) outside */
ig_tensor *ig_huber(ig_tensor *x, ig_tensor *y, double delta)
{
    ig_tensor *d = ig_sub(high(x), high(y)), *far = ig_abs(d);
    ig_tensor *line = ig_scale(ig_add_scalar(far, -delta / 2), delta);
    ig_tensor *curve = ig_scale(ig_square(d), 0.5);
    return ig_mean(ig_where(ig_less_equal(far, like(far, delta)), curve, line), 0, NULL,
                   false);
}

/* max(x,0) - x y + log(1 + exp(-|x|)), written with softplus: softplus(x) - x y */
ig_tensor *ig_bce_with_logits(ig_tensor *x, ig_tensor *y)
{
    x = high(x);
    return ig_mean(ig_sub(ig_softplus(x), ig_mul(x, high(y))), 0, NULL, false);
}

ig_tensor *ig_nll(ig_tensor *log_p, ig_tensor *targets)
{
    ig_tensor *picked = ig_gather(high(log_p), -1, ig_unsqueeze(targets, -1));
    return ig_neg(ig_mean(picked, 0, NULL, false));
}

/* ---- gates, norms -------------------------------------------------------------------------------------------- */

/* The root of the sum of squares. At zero its gradient is 0: the root is taken of 1 there, and not used. */
ig_tensor *ig_norm(ig_tensor *x, int n, const int *dims, bool keep)
{
    ig_tensor *squares = ig_sum(ig_square(high(x)), n, dims, keep);
    ig_tensor *zero = like(squares, 0), *none = ig_equal(squares, zero);
    return ig_where(none, zero, ig_sqrt(ig_where(none, like(squares, 1), squares)));
}

/* ---- ranges, masks --------------------------------------------------------------------------------------------- */

ig_tensor *ig_arange(ig_context *ctx, ig_dtype dtype, double start, double step, int64_t n)
{
    if (!ctx || ig__context_failed(ctx))
        return NULL;
    ig_tensor *ones = ig_ones(ctx, IG_DTYPE_F64, 1, &n);
    ig_tensor *x =
        ig_add_scalar(ig_scale(ig_add_scalar(ig_cumsum(ones, 0), -1), step), start);
    return ig_cast(x, dtype);
}

/* bool [m,n]: column - row <= diagonal */
static ig_tensor *below(ig_context *ctx, int64_t m, int64_t n, int64_t diagonal)
{
    ig_tensor *row = ig_arange(ctx, IG_DTYPE_I64, (double)diagonal, 1, m);
    ig_tensor *column = ig_arange(ctx, IG_DTYPE_I64, 0, 1, n);
    return ig_less_equal(column, ig_unsqueeze(row, 1));
}

static ig_tensor *triangle(ig_tensor *x, const char *op, int64_t diagonal, bool lower)
{
    if (!x)
        return NULL;
    if (x->type.n_dims < 2)
        return ig__fail_on(x->ctx, IG_ERR_SHAPE, "%s: wants matrices", op);
    ig_tensor *mask = below(x->ctx, ig_tensor_dim(x, -2), ig_tensor_dim(x, -1),
                            lower ? diagonal : diagonal - 1);
    ig_tensor *zero = like(x, 0);
    return lower ? ig_where(mask, x, zero) : ig_where(mask, zero, x);
}
ig_tensor *ig_tril(ig_tensor *x, int64_t diagonal)
{
    return triangle(x, "tril", diagonal, true);
}
ig_tensor *ig_triu(ig_tensor *x, int64_t diagonal)
{
    return triangle(x, "triu", diagonal, false);
}

ig_tensor *ig_one_hot(ig_tensor *ids, int64_t n, ig_dtype dtype)
{
    if (!ids)
        return NULL;
    ig_tensor *places = ig_arange(ids->ctx, IG_DTYPE_I64, 0, 1, n);
    return ig_cast(ig_equal(ig_unsqueeze(ids, -1), places), dtype);
}

/* ---- einsum ---------------------------------------------------------------------------------------------------- */

enum { LETTERS = 26 };

typedef struct term {
    int n;
    int letter[IG_MAX_DIMS];
} term;

static bool read_term(term *t, const char **s)
{
    t->n = 0;
    for (; **s >= 'a' && **s <= 'z'; ++*s) {
        if (t->n == IG_MAX_DIMS)
            return false;
        t->letter[t->n++] = **s - 'a';
    }
    return true;
}

static uint32_t letters_of(const term *t)
{
    uint32_t bits = 0;
    for (int i = 0; i < t->n; i++)
        bits |= 1u << t->letter[i];
    return bits;
}

/* x with its dimensions in the order of the letters in `order`; those that it lacks are 1. Letters of x
 * that are not in `order` were summed before. */
static ig_tensor *arranged(ig_tensor *x, const term *t, const term *order)
{
    int from[IG_MAX_DIMS], n = 0;
    int64_t dims[IG_MAX_DIMS];
    if (!x)
        return NULL;
    for (int i = 0; i < order->n; i++) {
        dims[i] = 1;
        for (int k = 0; k < t->n; k++)
            if (t->letter[k] == order->letter[i]) {
                dims[i] = ig_tensor_dim(x, k);
                from[n++] = k;
            }
    }
    return ig_reshape(ig_permute(x, n, from), order->n, dims);
}

static ig_tensor *sum_letters(ig_tensor *x, term *t, uint32_t gone)
{
    int dims[IG_MAX_DIMS], n = 0;
    term left = {0};
    for (int i = 0; i < t->n; i++)
        if (gone >> t->letter[i] & 1)
            dims[n++] = i;
        else
            left.letter[left.n++] = t->letter[i];
    if (n)
        x = ig_sum(x, n, dims, false);
    *t = left;
    return x;
}

static void push(term *t, const term *from, uint32_t which)
{
    for (int i = 0; i < from->n; i++)
        if (which >> from->letter[i] & 1)
            t->letter[t->n++] = from->letter[i];
}

static int64_t size_of(ig_tensor *x, const term *t, uint32_t which)
{
    int64_t n = 1;
    for (int i = 0; i < t->n; i++)
        if (which >> t->letter[i] & 1)
            n *= ig_tensor_dim(x, i);
    return n;
}

/* Two operands by one product: [batch.., M, K] times [batch.., K, N]; *t becomes batch, M, N. */
static ig_tensor *contract(ig_tensor *x, term *t, ig_tensor *y, term *u, uint32_t wanted)
{
    const uint32_t a = letters_of(t), b = letters_of(u);
    x = sum_letters(x, t, a & ~b & ~wanted);
    y = sum_letters(y, u, b & ~a & ~wanted);
    const uint32_t both = a & b & wanted, inner = a & b & ~wanted;
    term left = {0}, right = {0}, out = {0};
    push(&left, t, both);
    const int n_batch = left.n;
    push(&left, t, letters_of(t) & ~both & ~inner);
    push(&left, t, inner);
    push(&right, &left, both);
    push(&right, &left, inner);
    push(&right, u, letters_of(u) & ~both & ~inner);
    if (left.n > IG_MAX_DIMS || right.n > IG_MAX_DIMS || !x || !y)
        return NULL;
    push(&out, &left, ~inner);
    push(&out, u, letters_of(u) & ~both & ~inner);
    int64_t dims[IG_MAX_DIMS + 2], result[IG_MAX_DIMS];
    const int64_t m = size_of(x, t, letters_of(t) & ~both & ~inner),
                  k = size_of(x, t, inner);
    const int64_t n = size_of(y, u, letters_of(u) & ~both & ~inner);
    ig_tensor *p = arranged(x, t, &left), *q = arranged(y, u, &right);
    for (int i = 0; i < n_batch; i++)
        dims[i] = result[i] = ig_tensor_dim(p, i);
    int at = n_batch;
    for (int i = n_batch; i < left.n; i++)
        if (!(inner >> left.letter[i] & 1))
            result[at++] = ig_tensor_dim(p, i);
    for (int i = n_batch; i < right.n; i++)
        if (!(inner >> right.letter[i] & 1))
            result[at++] = ig_tensor_dim(q, i);
    if (n_batch + 2 > IG_MAX_DIMS)
        return NULL;
    dims[n_batch] = m;
    dims[n_batch + 1] = k;
    p = ig_reshape(p, n_batch + 2, dims);
    dims[n_batch] = k;
    dims[n_batch + 1] = n;
    q = ig_reshape(q, n_batch + 2, dims);
    *t = out;
    return ig_reshape(ig_matmul(p, q), out.n, result);
}

/* A letter has one size in all operands; a failure is on the context. */
static bool sizes_agree(const char *equation, const term *terms, ig_tensor *const *x, int n)
{
    int64_t size[LETTERS];
    memset(size, -1, sizeof size);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < terms[i].n; k++) {
            const int64_t here = ig_tensor_dim(x[i], k);
            int64_t *first = &size[terms[i].letter[k]];
            if (*first >= 0 && *first != here) {
                ig__fail_on(x[0]->ctx, IG_ERR_SHAPE,
                            "einsum: '%s': %c is %lld in one operand and %lld in another",
                            equation, 'a' + terms[i].letter[k], (long long)*first,
                            (long long)here);
                return false;
            }
            *first = here;
        }
    return true;
}

ig_tensor *ig_einsum(const char *equation, ig_tensor *const *x, int n)
{
    enum { MOST = 8 };
    term terms[MOST], out;
    const char *s = equation;
    for (int i = 0; i < n; i++)
        if (!x[i])
            return NULL;
    if (n < 1)
        return NULL;
    ig_context *ctx = x[0]->ctx;
    bool fits = n <= MOST;
    for (int i = 0; i < n && fits; i++) {
        fits = read_term(&terms[i], &s) && terms[i].n == x[i]->type.n_dims &&
               __builtin_popcount(letters_of(&terms[i])) == terms[i].n;
        if (i + 1 < n)
            fits = fits && *s++ == ',';
    }
    fits = fits && s[0] == '-' && s[1] == '>';
    s += fits ? 2 : 0;
    fits =
        fits && read_term(&out, &s) && !*s && __builtin_popcount(letters_of(&out)) == out.n;
    if (!fits)
        return ig__fail_on(
            ctx, IG_ERR_ARGUMENT,
            "einsum: '%s' does not describe %d operands (letters a to z once in "
            "a term, 'ab,bc->ac')",
            equation, n);
    if (!sizes_agree(equation, terms, x, n))
        return NULL;
    ig_tensor *y = x[0];
    term t = terms[0];
    for (int i = 1; i < n; i++) {
        uint32_t wanted = letters_of(&out);
        for (int k = i + 1; k < n; k++)
            wanted |= letters_of(&terms[k]);
        term u = terms[i];
        y = contract(y, &t, x[i], &u, wanted);
    }
    y = sum_letters(y, &t, ~letters_of(&out));
    if (letters_of(&t) != letters_of(&out))
        return ig__fail_on(ctx, IG_ERR_ARGUMENT,
                           "einsum: '%s': a letter of the result is in no "
                           "operand",
                           equation);
    return arranged(y, &t, &out);
}

/* ---- interpolation ------------------------------------------------------------------------------------------------ */

/* Along one dimension: y[i] = x[low] + (x[high] - x[low]) w, by places that are computed once. */
static ig_tensor *interpolate_dim(ig_tensor *x, int dim, int64_t n, bool linear)
{
    if (!x)
        return NULL;
    ig_context *ctx = x->ctx;
    const int64_t m = ig_tensor_dim(x, dim);
    if (n < 1 || m < 1)
        return ig__fail_on(ctx, IG_ERR_SHAPE, "interpolate: from %lld to %lld elements",
                           (long long)m, (long long)n);
    /* centre of element i of n in the operand's elements: (i + 1/2) m / n - 1/2 */
    const double step = (double)m / (double)n;
    ig_tensor *at = ig_arange(ctx, IG_DTYPE_F64, linear ? step / 2 - 0.5 : 0, step, n);
    if (linear)
        at = ig_clamp(at, 0, (double)(m - 1));
    ig_tensor *floor = ig_clamp(ig_floor(at), 0, (double)(m - 1));
    ig_tensor *low = ig_cast(floor, IG_DTYPE_I64);
    ig_tensor *first = ig_index_select(x, dim, low);
    if (!linear)
        return first;
    ig_tensor *high = ig_clamp(ig_add_scalar(low, 1), 0, (double)(m - 1));
    ig_tensor *second = ig_index_select(x, dim, high);
    int64_t dims[IG_MAX_DIMS];
    for (int d = 0; d < x->type.n_dims; d++)
        dims[d] = 1;
    dims[dim < 0 ? dim + x->type.n_dims : dim] = n;
    ig_tensor *w =
        ig_reshape(ig_cast(ig_sub(at, floor), x->type.dtype), x->type.n_dims, dims);
    return ig_add(first, ig_mul(ig_sub(second, first), w));
}

ig_tensor *ig_interpolate(ig_tensor *x, int n, const int64_t *sizes, bool linear)
{
    for (int i = 0; i < n && x; i++)
        x = interpolate_dim(x, i - n, sizes[i], linear);
    return x;
}
