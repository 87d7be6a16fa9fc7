/* A walk over the table: every elementwise row, f32 and the other types against the loops over f64, over odd
 * sizes, strides, broadcasting, in place, and on two threads; and what a row must say of itself. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "ingot/ingot.h"
#include "op/apply.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static ig_context *ctx[2]; /* of one thread and of two */

static int begin(void **state)
{
    (void)state;
    for (int t = 0; t < 2; t++)
        if (ig_context_create(&ctx[t],
                              &(ig_context_opts){.n_threads = t + 1, .poison = true},
                              NULL) != IG_OK)
            return 1;
    return 0;
}
static int end(void **state)
{
    (void)state;
    ig_context_destroy(ctx[0]);
    ig_context_destroy(ctx[1]);
    return 0;
}

/* ---- what a row says ---------------------------------------------------------------------------- */

static void test_rows_are_whole(void **state)
{
    (void)state;
    int n = 0;
    for (const ig__op *const *at = ig__op_table; *at; at++, n++) {
        const ig__op *op = *at;
        bool spans = false;
        for (int c = 0; c < IG_COMPUTE_COUNT; c++)
            spans |= op->span[c] != NULL;
        if (ig__op_find(op->name) != op)
            fail_msg("two rows are called %s", op->name);
        assert_non_null(op->shape);
        assert_true(op->n_in_least <= op->n_in_most && op->n_in_most <= IG_MAX_INPUTS);
        assert_true(op->n_out <= IG_MAX_OUTPUTS && op->n_phases >= 0);
        if (!op->run && !op->eval && !spans && !op->view)
            fail_msg("%s cannot be run", op->name);
        if (spans && op->eval)
            fail_msg("%s has spans and eval", op->name);
        if (op->view && op->walk != IG_WALK_VIEW)
            fail_msg("%s is a view and does not say so", op->name);
        for (int i = 0; i < IG_MAX_INPUTS; i++) {
            const uint32_t in = op->needs[i] & 0xffff, out = op->needs[i] >> 16;
            if (op->needs[i] && (!op->gradient || i >= op->n_in_most ||
                                 in >> op->n_in_most || out >> (op->n_out ? op->n_out : 1)))
                fail_msg("%s: needs[%d] names what is not there", op->name, i);
        }
    }
    assert_true(n > 80);
}

/* ---- elementwise rows ----------------------------------------------------------------------------- */

static const void *attrs_of(const ig__op *op)
{
    static const ig__scale_attrs scale = {.factor = 1.5};
    static const ig__clamp_attrs clamp = {.low = 0.5, .high = 1.25};
    if (!op->attrs_bytes)
        return NULL;
    return op->attrs_bytes == sizeof clamp ? (const void *)&clamp : &scale;
}

static bool is_walked(const ig__op *op)
{
    return op->span[IG_COMPUTE_F64] && op->n_in_least == op->n_in_most &&
           op->n_in_most > 0 && op->n_in_most <= 3;
}

/* Operand i of n elements, in [0.25, 2], all of which every row takes; f64. */
static void fill(double *x, int64_t n, int i)
{
    uint64_t s = (uint64_t)(i * 77 + 5);
    for (int64_t k = 0; k < n; k++) {
        s = s * 6364136223846793005u + 1442695040888963407u;
        x[k] = 0.25 + 1.75 * (double)(s >> 52) / 4096; /* exact in f32; equal ones occur */
    }
}

typedef enum layout { PLAIN, TURNED, STEPPED, LAYOUTS } layout;

/* [rows, columns] of a dtype from f64, stored in different ways. */
static ig_tensor *operand(ig_context *c, const double *x, int64_t rows, int64_t columns,
                          ig_dtype dtype, layout how)
{
    ig_tensor *t =
        ig_cast(ig_tensor_from(c, IG_DTYPE_F64, IG_SHAPE(rows, columns), x), dtype);
    if (how == TURNED)
        return ig_transpose(ig_copy(ig_transpose(t, 0, 1)), 0, 1);
    if (how == STEPPED) {
        ig_tensor *wide = ig_zeros(c, dtype, IG_SHAPE(rows, 2 * columns + 1));
        return ig_assign(ig_slice(wide, 1, 1, 2 * columns + 1, 2), t);
    }
    return t;
}

static ig_tensor *call(ig_context *c, const ig__op *op, double *const *x, int64_t rows,
                       int64_t columns, ig_dtype dtype, layout how)
{
    ig_tensor *in[3];
    for (int i = 0; i < op->n_in_most; i++) {
        /* the second operand is a row that stretches, where there is one */
        const int64_t height = i == 1 ? (rows ? 1 : 0) : rows;
        in[i] = operand(c, x[i], height, columns, dtype, how);
        if (!strcmp(op->name, "where") && i == 0)
            in[0] = ig_less(ig_tensor_scalar(c, dtype, 1), in[0]);
    }
    return ig__apply(c, op, attrs_of(op), in, op->n_in_most);
}

static void read(ig_tensor *x, void *out)
{
    ig_error error;
    if (ig_tensor_read(x, out, ig_tensor_bytes(x), &error) != IG_OK)
        fail_msg("%s; %s", error.message, ig_context_message(ctx[0]));
}

/* 4 units in the last place of f32, of which the argument's own rounding is none: operands are exact. The tanh
 * form of gelu and pow carry their argument's size (train.h). */
static double bound_of(ig_dtype dtype)
{
    return dtype == IG_DTYPE_F16 ? 0x1p-10 : dtype == IG_DTYPE_BF16 ? 0x1p-7 : 8 * 0x1p-24;
}

static void compare(const ig__op *op, int64_t rows, int64_t columns, double *const *x,
                    ig_dtype dtype)
{
    const int64_t n = rows * columns;
    double *exact = calloc((size_t)n + 1, 8), *have = calloc((size_t)n + 1, 8);
    double *rounded[3];
    ig_scope *scope = ig_scope_begin(ctx[0]);
    /* the definition: over f64, of the operands as the dtype holds them */
    for (int i = 0; i < op->n_in_most; i++) {
        rounded[i] = calloc((size_t)n + 1, 8);
        read(ig_cast(operand(ctx[0], x[i], rows, columns, dtype, PLAIN), IG_DTYPE_F64),
             rounded[i]);
    }
    read(ig_cast(call(ctx[0], op, rounded, rows, columns, IG_DTYPE_F64, PLAIN),
                 IG_DTYPE_F64),
         exact);
    ig_tensor *y = call(ctx[0], op, x, rows, columns, dtype, PLAIN);
    const size_t bytes = ig_tensor_bytes(y);
    char *bits = calloc(1, bytes + 1), *other = calloc(1, bytes + 1);
    read(ig_cast(y, IG_DTYPE_F64), have);
    read(y, bits);
    for (int64_t i = 0; i < n; i++)
        if (!(fabs(have[i] - exact[i]) <= bound_of(dtype) * (1 + fabs(exact[i]))))
            fail_msg("%s %s [%d,%d]: element %d is %.9g, by the definition %.9g", op->name,
                     ig_dtype_name(dtype), (int)rows, (int)columns, (int)i, have[i],
                     exact[i]);
    for (int run = 1; run < 2 * LAYOUTS; run++) {
        ig_context *c = ctx[run % 2];
        ig_scope *inner = ig_scope_begin(c);
        read(call(c, op, x, rows, columns, dtype, (layout)(run / 2)), other);
        if (memcmp(bits, other, bytes))
            fail_msg("%s %s [%d,%d]: other bits in run %d", op->name, ig_dtype_name(dtype),
                     (int)rows, (int)columns, run);
        ig_scope_end(inner);
    }
    /* over its first operand */
    if (ig_tensor_dtype(y) == dtype && strcmp(op->name, "where")) {
        for (int l = 0; l < LAYOUTS; l++) {
            ig_tensor *in[3];
            for (int i = 0; i < op->n_in_most; i++)
                in[i] = operand(ctx[0], x[i], i == 1 && rows ? 1 : rows, columns, dtype,
                                (layout)l);
            read(ig__apply_into(op, attrs_of(op), in, op->n_in_most, in[0]), other);
            if (memcmp(bits, other, bytes))
                fail_msg("%s %s: other bits in place", op->name, ig_dtype_name(dtype));
        }
    }
    ig_scope_end(scope);
    for (int i = 0; i < op->n_in_most; i++)
        free(rounded[i]);
    free(exact);
    free(have);
    free(bits);
    free(other);
}

static void test_elementwise(void **state)
{
    (void)state;
    static const int64_t shapes[][2] = {{0, 3},    {3, 0},   {1, 1},    {1, 2},   {3, 5},
                                        {7, 16},   {2, 31},  {5, 33},   {1, 257}, {3, 341},
                                        {1, 1025}, {17, 61}, {130, 507}};
    enum { SHAPES = (int)(sizeof shapes / sizeof *shapes), MOST = 130 * 507 };
    double *x[3];
    for (int i = 0; i < 3; i++) {
        x[i] = calloc(MOST, 8);
        fill(x[i], MOST, i);
    }
    int n = 0;
    for (const ig__op *const *at = ig__op_table; *at; at++) {
        if (!is_walked(*at))
            continue;
        n++;
        for (int s = 0; s < SHAPES; s++)
            compare(*at, shapes[s][0], shapes[s][1], x, IG_DTYPE_F32);
        compare(*at, 3, 341, x, IG_DTYPE_F16);
        compare(*at, 3, 341, x, IG_DTYPE_BF16);
    }
    assert_true(n >= 40);
    for (int i = 0; i < 3; i++)
        free(x[i]);
}

/* Every row with spans takes each dtype that it has a loop for, and refuses the others by name. */
static void test_support(void **state)
{
    (void)state;
    double x[6] = {1, 1, 2, 1, 2, 2}, *const xs[3] = {x, x, x};
    for (const ig__op *const *at = ig__op_table; *at; at++) {
        const ig__op *op = *at;
        if (!is_walked(op))
            continue;
        for (int d = 0; d < IG_DTYPE_COUNT; d++) {
            const ig_dtype dtype = (ig_dtype)d;
            if (!ig__is_plain(dtype) || dtype == IG_DTYPE_BOOL)
                continue;
            ig_tensor *y = call(ctx[0], op, xs, 2, 3, dtype, PLAIN);
            const bool has_loop = op->span[ig__compute_of(dtype)] != NULL;
            if (has_loop != (y != NULL))
                fail_msg("%s of %s: %s", op->name, ig_dtype_name(dtype),
                         ig_context_message(ctx[0]));
            if (!y) {
                assert_non_null(strstr(ig_context_message(ctx[0]), op->name));
                ig_context_clear(ctx[0]);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_are_whole),
        cmocka_unit_test(test_elementwise),
        cmocka_unit_test(test_support),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
