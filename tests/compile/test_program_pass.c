/* Passes over captured programs: each off against all on, bit for bit; what each does to a list of steps; and
 * chains over odd shapes, strides, broadcasting and types. */
#include "ingot/ingot.h"
#include "infer/fault_allocator.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { DEAD, ONCE, SAME, FUSE, TAIL, REUSE, N_PASSES };

static ig_error error;

static void must(ig_status status)
{
    if (status != IG_OK)
        fail_msg("%s", error.message);
}

static ig_context *context(int n_threads)
{
    ig_context *ctx;
    const ig_context_opts opts = {.n_threads = n_threads};
    must(ig_context_create(&ctx, &opts, &error));
    return ctx;
}

static void same_bytes(ig_tensor *a, ig_tensor *b, const char *what)
{
    static char x[1 << 20], y[1 << 20];
    assert_non_null(a);
    assert_non_null(b);
    const size_t n = ig_tensor_bytes(a);
    assert_int_equal(n, ig_tensor_bytes(b));
    assert_true(n <= sizeof x);
    must(ig_tensor_read(a, x, n, &error));
    must(ig_tensor_read(b, y, n, &error));
    if (memcmp(x, y, n))
        fail_msg("%s: bits differ", what);
}

static ig_program *end_without(ig_context *ctx, uint32_t without)
{
    ig_program *p;
    const ig_capture_opts opts = {.without = without};
    must(ig_capture_end_with(&p, ctx, &opts, &error));
    return p;
}

/* ---- a training step with each pass left out ----------------------------------------------------- */

typedef struct net {
    ig_context *ctx;
    ig_optimizer *opt;
    ig_tensor *p[6], *x, *y, *loss;
} net;

enum { ROWS = 63, IN = 20, HIDDEN = 70, OUT = 9 };

static void make_net(net *n, int n_threads)
{
    *n = (net){.ctx = context(n_threads)};
    ig_context *ctx = n->ctx;
    ig_seed(ctx, 4);
    n->x = ig_normal(ctx, IG_DTYPE_F32, IG_SHAPE(ROWS, IN), 0, 1);
    n->y =
        ig_cast(ig_uniform(ctx, IG_DTYPE_F32, IG_SHAPE(ROWS), 0, OUT - 0.01), IG_DTYPE_I64);
    n->p[0] = ig_normal(ctx, IG_DTYPE_F32, IG_SHAPE(HIDDEN, IN), 0, 0.3);
    n->p[1] = ig_normal(ctx, IG_DTYPE_F32, IG_SHAPE(HIDDEN), 0, 0.3);
    n->p[2] = ig_normal(ctx, IG_DTYPE_F32, IG_SHAPE(HIDDEN, HIDDEN), 0, 0.2);
    n->p[3] = ig_normal(ctx, IG_DTYPE_F32, IG_SHAPE(HIDDEN), 1, 0.1);
    n->p[4] = ig_normal(ctx, IG_DTYPE_F32, IG_SHAPE(OUT, HIDDEN), 0, 0.2);
    n->p[5] = ig_normal(ctx, IG_DTYPE_F32, IG_SHAPE(OUT), 0, 0.1);
    for (int i = 0; i < 6; i++)
        ig_tensor_require_grad(n->p[i], true);
    ig_optimizer_opts o = ig_optimizer_defaults(IG_RULE_MUON);
    o.clip_norm = 1;
    must(ig_optimizer_create(&n->opt, ctx, &o, &error));
    must(ig_optimizer_add(n->opt, n->p, NULL, 6, NULL, &error));
}

/* Broadcast biases, a gate, a norm and its branch, dropout; and what nobody reads. */
static void step(net *n)
{
    ig_scope *scope = ig_scope_begin(n->ctx);
    ig_optimizer_clear_grads(n->opt);
    ig_tensor *h = ig_add(ig_matmul(n->x, ig_transpose(n->p[0], 0, 1)), n->p[1]);
    ig_tensor *g = ig_mul(ig_tanh(h), ig_sigmoid(ig_scale(h, 2)));
    ig_softmax(ig_neg(h), -1);
    g = ig_add(g, ig_gelu(ig_mul(ig_rms_norm(ig_linear(g, n->p[2], NULL), n->p[3], 1e-5),
                                 ig_full(n->ctx, IG_DTYPE_F32, IG_SHAPE(HIDDEN), 0.5))));
    g = ig_dropout(g, 0.1);
    ig_tensor *loss = ig_cross_entropy(ig_linear(g, n->p[4], n->p[5]), n->y, NULL);
    ig_backward(loss);
    ig_optimizer_step(n->opt);
    ig_tensor_release(n->loss);
    n->loss = ig_tensor_retain(ig_detach(loss));
    ig_scope_end(scope);
    if (ig_context_status(n->ctx) != IG_OK)
        fail_msg("%s", ig_context_message(n->ctx));
}

static void fini_net(net *n)
{
    ig_tensor_release(n->loss);
    ig_optimizer_destroy(n->opt);
    ig_context_destroy(n->ctx);
}

static void compare_nets(net *a, net *b, const char *what)
{
    same_bytes(a->loss, b->loss, what);
    for (int i = 0; i < 6; i++) {
        same_bytes(a->p[i], b->p[i], what);
        same_bytes(ig_tensor_grad(a->p[i]), ig_tensor_grad(b->p[i]), what);
    }
}

static ig_program_stats train(uint32_t without, int n_threads, const char *what)
{
    net eager, captured;
    make_net(&eager, 1), make_net(&captured, n_threads);
    ig_program *p = NULL;
    for (int k = 0; k < 5; k++) {
        step(&eager);
        if (k == 0) {
            step(&captured);
        } else if (k == 1) {
            must(ig_capture_begin(captured.ctx, &error));
            step(&captured);
            p = end_without(captured.ctx, without);
        } else {
            must(ig_program_run(p, &error));
        }
        compare_nets(&eager, &captured, what);
    }
    const ig_program_stats stats = ig_program_get_stats(p);
    ig_program_destroy(p);
    fini_net(&eager), fini_net(&captured);
    return stats;
}

static void test_each_pass_off(void **state)
{
    (void)state;
    const ig_program_stats all = train(0, 1, "all passes");
    const ig_program_stats none = train(UINT32_MAX, 1, "no pass");
    assert_true(all.n_steps < none.n_steps * 3 / 4);
    assert_true(all.storage_bytes < none.storage_bytes);
    int n = 0;
    for (const char *name; (name = ig_program_pass(n, NULL)); n++) {
        const ig_program_stats s = train(1u << n, 1 + n % 2, name);
        /* it does something here */
        if (s.n_steps <= all.n_steps && s.storage_bytes <= all.storage_bytes)
            fail_msg("%s: %d steps, %zu bytes", name, (int)s.n_steps, s.storage_bytes);
    }
    assert_int_equal(n, N_PASSES);
    train(0, 2, "two threads");
    const char *what = "";
    assert_null(ig_program_pass(n, &what));
    assert_null(what);
    assert_null(ig_program_pass(-1, NULL));
    assert_string_equal(ig_program_pass(FUSE, &what), "fuse");
    assert_non_null(what);
}

/* ---- what a pass does ------------------------------------------------------------------------------ */

typedef struct dumps {
    char names[200], last[4000];
    int64_t steps[8];
    int n;
} dumps;

static void dump(void *user, const char *pass, const ig_program *p)
{
    dumps *d = user;
    const size_t at = strlen(d->names);
    snprintf(d->names + at, sizeof d->names - at, "%s ", pass);
    const size_t n = ig_program_text(p, d->last, sizeof d->last);
    assert_int_equal(n, strlen(d->last));
    d->steps[d->n] = 0;
    for (const char *c = d->last; *c; c++)
        d->steps[d->n] += *c == '\n';
    d->n++;
}

static void test_lists(void **state)
{
    (void)state;
    ig_context *ctx = context(1);
    ig_program *p;
    dumps d = {0};
    const ig_capture_opts opts = {.dump = dump, .dump_user = &d};
    ig_tensor *x = ig_normal(ctx, IG_DTYPE_F32, IG_SHAPE(5, 7), 0, 1);
    must(ig_capture_begin(ctx, &error));
    ig_scope *scope = ig_scope_begin(ctx);
    ig_tensor *two = ig_full(ctx, IG_DTYPE_F32, IG_SHAPE(1), 2); /* once, and its square */
    ig_exp(x);                                                   /* dead */
    ig_tensor *a = ig_sum(x, 0, NULL, false), *b = ig_sum(x, 0, NULL, false); /* same */
    ig_tensor *y = ig_mul(ig_tanh(ig_mul(x, ig_square(two))), ig_add(a, b));
    y = ig_tensor_keep(ig_where(ig_less(y, x), y, x));
    ig_scope_end(scope);
    must(ig_capture_end_with(&p, ctx, &opts, &error));
    assert_string_equal(d.names, "recorded dead once same fuse tail reuse ");
    assert_int_equal(d.steps[0], 11);
    assert_int_equal(d.steps[1 + DEAD], 10);
    assert_int_equal(d.steps[1 + ONCE], 10);
    assert_int_equal(d.steps[1 + SAME], 9);
    assert_int_equal(d.steps[1 + FUSE], 5);
    assert_int_equal(ig_program_get_stats(p).n_steps, 3); /* sum, add, chain */
    if (!strstr(d.last, "chain(mul, tanh, mul, less, where)") ||
        !strstr(d.last, "[5,7] f32 kept") || !strstr(d.last, "once"))
        fail_msg("%s", d.last);
    char cut[20];
    assert_int_equal(ig_program_text(p, cut, sizeof cut), strlen(d.last));
    assert_int_equal(strlen(cut), sizeof cut - 1);
    assert_memory_equal(cut, d.last, sizeof cut - 1);
    assert_int_equal(ig_program_text(p, NULL, 0), strlen(d.last));
    ig_program_destroy(p);
    ig_context_destroy(ctx);
}

/* What recomputes on purpose, and what is large, stays; what fails, fails although nobody reads it. */
static void test_what_stays(void **state)
{
    (void)state;
    ig_context *ctx = context(1);
    int64_t ids[2] = {0, 1};
    ig_tensor *x = ig_normal(ctx, IG_DTYPE_F32, IG_SHAPE(200, 100), 0, 1);
    ig_tensor *i = ig_tensor_from(ctx, IG_DTYPE_I64, IG_SHAPE(2), ids);
    must(ig_capture_begin(ctx, &error));
    ig_scope *scope = ig_scope_begin(ctx);
    ig_tensor *a = ig_softmax(x, -1), *b = ig_softmax(x, -1);
    ig_tensor_keep(ig_sum(ig_mul(a, b), 0, NULL, false));
    ig_embedding(i, x);
    ig_scope_end(scope);
    ig_program *p = end_without(ctx, 0);
    assert_int_equal(ig_program_get_stats(p).n_steps, 4); /* one softmax has a tail */
    ids[1] = 200;
    must(ig_tensor_write(i, ids, sizeof ids, &error));
    assert_int_not_equal(ig_program_run(p, &error), IG_OK);
    assert_non_null(strstr(error.message, "200"));
    ig_program_destroy(p);
    ig_context_destroy(ctx);
}

/* A constant that its maker still holds may be written between runs. */
static void test_constants_that_are_held(void **state)
{
    (void)state;
    ig_context *ctx = context(1);
    ig_tensor *y = NULL, *z = NULL, *c = NULL;
    must(ig_capture_begin(ctx, &error));
    ig_scope *scope = ig_scope_begin(ctx);
    c = ig_tensor_keep(ig_tensor_from(ctx, IG_DTYPE_F32, IG_SHAPE(1), (const float[]){3}));
    ig_tensor *gone = ig_tensor_from(ctx, IG_DTYPE_F32, IG_SHAPE(1), (const float[]){5});
    y = ig_tensor_keep(ig_neg(ig_square(c)));
    z = ig_tensor_keep(ig_neg(ig_square(gone)));
    ig_scope_end(scope);
    ig_program *p = end_without(ctx, 0);
    must(ig_tensor_write(c, (const float[]){4}, 4, &error));
    must(ig_program_run(p, &error));
    assert_true(ig_tensor_item(y) == -16 && ig_tensor_item(z) == -25);
    assert_int_equal(ig_program_get_stats(p).n_steps, 2);
    ig_program_destroy(p);
    ig_context_destroy(ctx);
}

/* ---- chains over odd shapes ------------------------------------------------------------------------ */

typedef ig_tensor *formula(ig_tensor *x, ig_tensor *y, ig_tensor *z);

static ig_tensor *f_plain(ig_tensor *x, ig_tensor *y, ig_tensor *z)
{
    return ig_add(ig_mul(ig_tanh(x), y), ig_maximum(z, ig_neg(x)));
}
static ig_tensor *f_truths(ig_tensor *x, ig_tensor *y, ig_tensor *z)
{
    ig_tensor *between = ig_logical_and(ig_less(x, y), ig_logical_not(ig_less(z, x)));
    return ig_where(between, ig_square(x), ig_where(ig_equal(y, z), y, ig_abs(z)));
}
static ig_tensor *f_casts(ig_tensor *x, ig_tensor *y, ig_tensor *z)
{
    const ig_dtype dtype = ig_tensor_dtype(x);
    ig_tensor *whole = ig_cast(ig_scale(x, 300), IG_DTYPE_I8);
    ig_tensor *wide = ig_cast(ig_add(whole, whole), IG_DTYPE_I64);
    ig_tensor *low = ig_cast(ig_cast(ig_mul(y, z), IG_DTYPE_BF16), dtype);
    return ig_add(ig_cast(ig_square(wide), dtype), low);
}
static ig_tensor *f_in_place(ig_tensor *x, ig_tensor *y, ig_tensor *z)
{
    ig_tensor *t = ig_copy(x), *before = ig_copy(t);
    ig_add_into(t, ig_square(y));
    ig_mul_into(t, z);
    ig_scale_into(t, 0.5);
    return ig_sub(ig_mul(t, before), ig_add(x, y));
}
/* A value of another shape in between, and more results than one chain takes. */
static ig_tensor *f_shapes(ig_tensor *x, ig_tensor *y, ig_tensor *z)
{
    ig_tensor *t = ig_mul(x, y);
    t = ig_reshape(ig_square(t), 1, (const int64_t[]){ig_tensor_count(t)});
    t = ig_reshape(ig_add_scalar(t, 1), 2,
                   (const int64_t[]){ig_tensor_dim(x, 0), ig_tensor_dim(x, 1)});
    ig_tensor *s = ig_copy(ig_transpose(ig_mul(t, z), 0, 1));
    return ig_add(ig_transpose(ig_neg(s), 0, 1), t);
}
static ig_tensor *f_long(ig_tensor *x, ig_tensor *y, ig_tensor *z)
{
    ig_tensor *t = x, *sum = y;
    for (int i = 0; i < 25; i++) {
        t = ig_mul(ig_sin(t), i % 3 ? z : y);
        sum = ig_add(sum, t);
    }
    return sum;
}
/* Parts of one tensor: a half is written after the other is read. */
static ig_tensor *f_halves(ig_tensor *x, ig_tensor *y, ig_tensor *z)
{
    const int64_t half = ig_tensor_dim(x, 0) / 2;
    ig_tensor *t = ig_mul(x, z);
    ig_tensor *low = ig_slice(t, 0, 0, half, 1), *high = ig_slice(t, 0, half, 2 * half, 1);
    ig_add_into(high, ig_square(low));
    ig_mul_into(low, ig_tanh(high));
    return ig_add(t, y);
}

static formula *const formulas[] = {f_plain,  f_truths, f_casts, f_in_place,
                                    f_shapes, f_long,   f_halves};
enum { N_FORMULAS = sizeof formulas / sizeof *formulas };

/* y and z as views of every kind under [rows,columns]. */
static ig_tensor *operand(ig_context *ctx, ig_dtype dtype, int64_t rows, int64_t columns,
                          int kind)
{
    switch (kind) {
    case 0:
        return ig_normal(ctx, dtype, IG_SHAPE(rows, columns), 0, 1);
    case 1:
        return ig_normal(ctx, dtype, IG_SHAPE(columns), 0, 1);
    case 2:
        return ig_normal(ctx, dtype, IG_SHAPE(rows, 1), 0, 1);
    case 3:
        return ig_normal(ctx, dtype, IG_SHAPE(1), 0, 1);
    case 4:
        return ig_transpose(ig_normal(ctx, dtype, IG_SHAPE(columns, rows), 0, 1), 0, 1);
    case 5:
        return ig_slice(ig_normal(ctx, dtype, IG_SHAPE(rows, 2 * columns), 0, 1), 1, 0,
                        2 * columns, 2);
    default:
        return ig_flip(ig_normal(ctx, dtype, IG_SHAPE(1, columns), 0, 1), 1);
    }
}
enum { N_KINDS = 7 };

static void try_formula(int f, ig_dtype dtype, int64_t rows, int64_t columns, int kind)
{
    ig_context *ctx = context(1 + kind % 2);
    ig_seed(ctx, (uint64_t)(7 * f + kind));
    ig_tensor *x = ig_normal(ctx, dtype, IG_SHAPE(rows, columns), 0, 1);
    ig_tensor *y = operand(ctx, dtype, rows, columns, kind);
    ig_tensor *z = operand(ctx, dtype, rows, columns, (kind + 1 + f) % N_KINDS);
    must(ig_capture_begin(ctx, &error));
    ig_scope *scope = ig_scope_begin(ctx);
    ig_tensor *captured = ig_tensor_keep(formulas[f](x, y, z));
    ig_scope_end(scope);
    ig_program *p = end_without(ctx, 0);
    must(ig_tensor_write(
        x, ig_tensor_data(ig_normal(ctx, dtype, IG_SHAPE(rows, columns), 0, 1)),
        ig_tensor_bytes(x), &error));
    must(ig_program_run(p, &error));
    char what[100];
    snprintf(what, sizeof what, "formula %d, %s [%d,%d], kind %d", f, ig_dtype_name(dtype),
             (int)rows, (int)columns, kind);
    same_bytes(formulas[f](x, y, z), captured, what);
    ig_program_destroy(p);
    ig_context_destroy(ctx);
}

static void test_chains(void **state)
{
    (void)state;
    static const ig_dtype dtypes[] = {IG_DTYPE_F32,  IG_DTYPE_F32, IG_DTYPE_F64,
                                      IG_DTYPE_BF16, IG_DTYPE_F32, IG_DTYPE_F16};
    static const int64_t shapes[][2] = {{1, 1},    {3, 5},     {2, 1023}, {4, 1024},
                                        {2, 1025}, {33, 1025}, {700, 31}, {8, 0}};
    for (int f = 0; f < N_FORMULAS; f++)
        for (int i = 0; i < 8; i++)
            for (int kind = 0; kind < N_KINDS; kind++)
                try_formula(f, dtypes[(kind + i) % 6], shapes[i][0], shapes[i][1], kind);
}

/* Values of 16 bits are rounded between the calls of a chain as in memory; in a wide one they are not, and it is
 * nearer to the truth. */
static void test_sixteen_bits(void **state)
{
    (void)state;
    enum { N = 3000 };
    static const ig_dtype dtypes[] = {IG_DTYPE_BF16, IG_DTYPE_F16, IG_DTYPE_BF16,
                                      IG_DTYPE_F16};
    static double got[N], eager[N], exact[N];
    for (int d = 0; d < 4; d++) {
        ig_context *ctx = context(1);
        ig_seed(ctx, 3);
        ig_tensor *x = ig_normal(ctx, dtypes[d], IG_SHAPE(N), 0, 1);
        ig_tensor *y = ig_normal(ctx, dtypes[d], IG_SHAPE(N), 0, 1);
        must(ig_capture_begin(ctx, &error));
        ig_scope *scope = ig_scope_begin(ctx);
        ig_tensor *t = ig_tensor_keep(ig_add(ig_mul(ig_square(x), y), ig_scale(x, 0.3)));
        ig_tensor *z = ig_tensor_keep(ig_mul(t, y));
        ig_scope_end(scope);
        ig_program *p;
        const ig_capture_opts opts = {.wide = d > 1};
        must(ig_capture_end_with(&p, ctx, &opts, &error));
        assert_int_equal(ig_program_get_stats(p).n_steps, 1);
        must(ig_tensor_read(ig_cast(z, IG_DTYPE_F64), eager, sizeof eager, &error));
        must(ig_program_run(p, &error));
        must(ig_tensor_read(ig_cast(z, IG_DTYPE_F64), got, sizeof got, &error));
        if (d < 2)
            assert_memory_equal(got, eager, sizeof got);
        ig_tensor *u = ig_cast(x, IG_DTYPE_F64), *v = ig_cast(y, IG_DTYPE_F64);
        u = ig_mul(ig_add(ig_mul(ig_square(u), v), ig_scale(u, 0.3)), v);
        must(ig_tensor_read(u, exact, sizeof exact, &error));
        const double unit = dtypes[d] == IG_DTYPE_BF16 ? 0x1p-8 : 0x1p-11;
        double sum = 0, sum_eager = 0;
        for (int i = 0; i < N; i++) {
            sum += fabs(got[i] - exact[i]);
            sum_eager += fabs(eager[i] - exact[i]);
            assert_true(d < 2 ||
                        fabs(got[i] - exact[i]) <= 1.01 * unit * fabs(exact[i]) + 0x1p-24);
        }
        assert_true(d < 2 || sum < 0.7 * sum_eager);
        ig_program_destroy(p);
        ig_context_destroy(ctx);
    }
}

/* Programs write what the calls wrote, at its place, when results lie in parts of one tensor. */
static void test_writes_to_parts(void **state)
{
    (void)state;
    ig_context *ctx = context(1);
    ig_tensor *x = ig_normal(ctx, IG_DTYPE_F32, IG_SHAPE(6, 40), 0, 1);
    ig_tensor *all = ig_zeros(ctx, IG_DTYPE_F32, IG_SHAPE(3, 6, 40));
    must(ig_capture_begin(ctx, &error));
    ig_scope *scope = ig_scope_begin(ctx);
    ig_tensor *y = ig_tanh(x);
    ig_assign(ig_select(all, 0, 0), ig_square(y));
    ig_assign(ig_select(all, 0, 1), ig_neg(y));
    ig_assign(ig_slice(ig_select(all, 0, 2), 1, 0, IG_END, 2),
              ig_scale(ig_slice(y, 1, 0, IG_END, 2), 3));
    ig_scope_end(scope);
    ig_program *p = end_without(ctx, 0);
    ig_tensor *first = ig_copy(all);
    ig_fill(all, 0);
    must(ig_program_run(p, &error));
    same_bytes(all, first, "parts");
    assert_true(((const float *)ig_tensor_data(all))[2 * 240 + 1] == 0);
    ig_program_destroy(p);
    ig_context_destroy(ctx);
}

/* Rows with a tail, with several threads: what stays of the norm, and what the tail reads beside it. */
static ig_tensor *t_gelu(ig_tensor *x, ig_tensor *g, ig_tensor **also)
{
    *also = NULL;
    return ig_gelu(ig_layer_norm(x, g, g, 1e-5));
}
static ig_tensor *t_wanted(ig_tensor *x, ig_tensor *g, ig_tensor **also)
{
    ig_tensor *y = *also = ig_rms_norm(x, g, 1e-5);
    return ig_add(ig_mul(ig_silu(y), g), x);
}
static ig_tensor *t_softmax(ig_tensor *x, ig_tensor *g, ig_tensor **also)
{
    ig_tensor *y = ig_softmax(ig_mul(x, g), -1);
    *also = ig_square(y);
    return ig_log(y);
}
static ig_tensor *t_columns(ig_tensor *x, ig_tensor *g, ig_tensor **also)
{
    *also = NULL;
    return ig_mul(ig_log_softmax(x, 0), g);
}
/* The head must move: its result is read behind a product. */
static ig_tensor *t_apart(ig_tensor *x, ig_tensor *g, ig_tensor **also)
{
    (void)g;
    ig_tensor *y = ig_layer_norm(x, NULL, NULL, 1e-5);
    *also = ig_matmul(x, ig_transpose(x, 0, 1));
    return ig_mul(y, ig_slice(ig_mean(*also, 0, NULL, true), 1, 0, 1, 1));
}
/* The tail writes what the head reads: they stay apart. */
static ig_tensor *t_over(ig_tensor *x, ig_tensor *g, ig_tensor **also)
{
    ig_tensor *t = ig_copy(x);
    *also = ig_layer_norm(t, g, NULL, 1e-5);
    return ig_add_into(t, *also);
}

static void test_tails(void **state)
{
    (void)state;
    static ig_tensor *(*const tails[])(ig_tensor * x, ig_tensor * g, ig_tensor * *also) = {
        t_gelu, t_wanted, t_softmax, t_columns, t_apart, t_over};
    static const int n_tails[] = {1, 1, 1, 0, 1, 0};
    static const int64_t shapes[][2] = {{101, 47}, {5, 4099}, {200, 1000}};
    static const ig_dtype dtypes[] = {IG_DTYPE_F32, IG_DTYPE_F64};
    for (int i = 0; i < 6 * 3 * 2; i++) {
        const int f = i / 6;
        const int64_t rows = shapes[i % 3][0], columns = shapes[i % 3][1];
        const ig_dtype dtype = dtypes[i / 3 % 2];
        if (dtype == IG_DTYPE_F64 && rows * columns > 100000)
            continue;
        ig_context *ctx = context(1 + i % 2);
        static char text[4000];
        ig_tensor *x = ig_normal(ctx, dtype, IG_SHAPE(rows, columns), 0, 1), *also, *other;
        ig_tensor *g = ig_normal(ctx, dtype, IG_SHAPE(columns), 1, 1);
        must(ig_capture_begin(ctx, &error));
        ig_scope *scope = ig_scope_begin(ctx);
        ig_tensor *y = ig_tensor_keep(tails[f](x, g, &also));
        if (also)
            ig_tensor_keep(also);
        ig_scope_end(scope);
        ig_program *p = end_without(ctx, 0);
        assert_true(ig_program_text(p, text, sizeof text) < sizeof text);
        if (!strstr(text, "tail(") != !n_tails[f])
            fail_msg("tail %d: %s", f, text);
        if (f == 0) /* one value: the norm lies where the result does */
            assert_int_equal(ig_program_get_stats(p).n_storages, 0);
        must(ig_tensor_write(
            x, ig_tensor_data(ig_normal(ctx, dtype, IG_SHAPE(rows, columns), 0, 1)),
            ig_tensor_bytes(x), &error));
        must(ig_program_run(p, &error));
        same_bytes(tails[f](x, g, &other), y, "tail");
        if (also)
            same_bytes(other, also, "beside a tail");
        ig_program_destroy(p);
        ig_context_destroy(ctx);
    }
}

/* Passes fail as a whole: no program, and nothing is left behind. */
static void test_every_failed_allocation(void **state)
{
    (void)state;
    int n_failed = 0;
    for (int64_t nth = 1;; nth++) {
        fault_allocator f = {.fail_nth = nth};
        const ig_allocator a = fault_allocator_of(&f);
        const ig_context_opts opts = {.n_threads = 1, .allocator = &a};
        ig_context *ctx = NULL;
        ig_program *p = NULL;
        if (ig_context_create(&ctx, &opts, &error) == IG_OK) {
            ig_tensor *x = ig_ones(ctx, IG_DTYPE_F32, IG_SHAPE(60, 100));
            if (ig_capture_begin(ctx, &error) == IG_OK) {
                ig_tensor *y = ig_gelu(ig_softmax(ig_mul(ig_neg(x), ig_exp(x)), -1));
                ig_add_into(x, ig_tanh(ig_add(y, ig_full(ctx, IG_DTYPE_F32, 0, NULL, 3))));
                const ig_status status = ig_capture_end(&p, ctx, &error);
                assert_true(status == IG_OK || status == IG_ERR_MEMORY);
                assert_int_equal(p != NULL, status == IG_OK);
                n_failed += status != IG_OK && ig_context_status(ctx) == IG_OK;
            }
            if (p)
                must(ig_program_run(p, &error));
        }
        ig_program_destroy(p);
        ig_context_destroy(ctx);
        assert_int_equal(f.n_alive, 0);
        if (f.n_calls < nth)
            break;
    }
    assert_true(n_failed > 8); /* in the passes and the binding */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_pass_off),
        cmocka_unit_test(test_lists),
        cmocka_unit_test(test_what_stays),
        cmocka_unit_test(test_constants_that_are_held),
        cmocka_unit_test(test_chains),
        cmocka_unit_test(test_tails),
        cmocka_unit_test(test_sixteen_bits),
        cmocka_unit_test(test_writes_to_parts),
        cmocka_unit_test(test_every_failed_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
