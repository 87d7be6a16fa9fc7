/* Operators against a set of golden cases.
 *
 *     test_ops [PREFIX]      PREFIX.json and PREFIX.safetensors
 *
 * A case names an operator, attributes, operands, results, cotangents and gradients: those of
 * the sum over the results of sum(result * cotangent). Each case is run with one and with two threads,
 * which must agree to the bit. A line a case: its error, max|a-b| / max(max|b|, 1e-6), at most
 * 1e-5 over all results and gradients. The last line: N passed, N failed.
 */
#include "ingot/ingot.h"
#include "op/safetensors.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const double BOUND = 1e-5;
enum { MOST = 16 };

typedef struct call {
    json_t *attrs;
    ig_tensor *in[MOST];
    int n_in;
} call;

static int64_t whole(const call *c, const char *name, int64_t otherwise)
{
    json_t *v = json_object_get(c->attrs, name);
    return json_is_integer(v) ? json_integer_value(v) : otherwise;
}
static double real(const call *c, const char *name, double otherwise)
{
    json_t *v = json_object_get(c->attrs, name);
    return json_is_number(v) ? json_number_value(v) : otherwise;
}
static bool truth(const call *c, const char *name)
{
    return json_is_true(json_object_get(c->attrs, name));
}
static int list(const call *c, const char *name, int64_t *out)
{
    json_t *v = json_object_get(c->attrs, name);
    int n = 0;
    for (; n < (int)json_array_size(v) && n < 8; n++)
        out[n] = json_integer_value(json_array_get(v, (size_t)n));
    return n;
}

/* ---- how each operator of a case is called -------------------------------------------------- */

typedef ig_tensor *unary_fn(ig_tensor *x);
typedef ig_tensor *binary_fn(ig_tensor *x, ig_tensor *y);
typedef ig_tensor *reduce_fn(ig_tensor *x, int n, const int *dims, bool keep);
typedef ig_tensor *call_fn(const call *c);

static const struct {
    const char *name;
    unary_fn *f;
} unary[] = {
    {"neg", ig_neg},
    {"exp", ig_exp},
    {"sin", ig_sin},
    {"cos", ig_cos},
    {"tanh", ig_tanh},
    {"sigmoid", ig_sigmoid},
    {"relu", ig_relu},
    {"silu", ig_silu},
    {"abs", ig_abs},
    {"square", ig_square},
    {"erf", ig_erf},
    {"softplus", ig_softplus},
    {"log", ig_log},
    {"sqrt", ig_sqrt},
    {"rsqrt", ig_rsqrt},
    {"expm1", ig_expm1},
    {"log1p", ig_log1p},
    {"sign", ig_sign},
    {"floor", ig_floor},
    {"ceil", ig_ceil},
    {"round", ig_round},
    {"trunc", ig_trunc},
    {"reciprocal", ig_reciprocal},
};
static const struct {
    const char *name;
    binary_fn *f;
} binary[] = {
    {"add", ig_add},       {"sub", ig_sub},         {"mul", ig_mul},
    {"div", ig_div},       {"maximum", ig_maximum}, {"minimum", ig_minimum},
    {"pow", ig_pow},       {"mse", ig_mse},         {"bce_with_logits", ig_bce_with_logits},
    {"swiglu", ig_swiglu},
};
static const struct {
    const char *name;
    reduce_fn *f;
} reductions[] = {
    {"sum", ig_sum},        {"mean", ig_mean},      {"prod", ig_prod},
    {"reduce_max", ig_max}, {"reduce_min", ig_min},
};

static ig_tensor *call_gelu(const call *c)
{
    const char *form = json_string_value(json_object_get(c->attrs, "approximate"));
    return form && !strcmp(form, "tanh") ? ig_gelu(c->in[0]) : ig_gelu_erf(c->in[0]);
}
static ig_tensor *call_where(const call *c)
{
    return ig_where(c->in[0], c->in[1], c->in[2]);
}
static ig_tensor *call_clamp(const call *c)
{
    return ig_clamp(c->in[0], real(c, "min", -(double)INFINITY),
                    real(c, "max", (double)INFINITY));
}
static ig_tensor *call_var(const call *c)
{
    const int dim = (int)whole(c, "dim", 0);
    return ig_var(c->in[0], json_object_get(c->attrs, "dim") ? 1 : 0, &dim,
                  truth(c, "keepdim"), (int)whole(c, "correction", 1));
}
static ig_tensor *call_logsumexp(const call *c)
{
    return ig_logsumexp(c->in[0], (int)whole(c, "dim", -1), truth(c, "keepdim"));
}
static ig_tensor *call_softmax(const call *c)
{
    return ig_softmax(c->in[0], (int)whole(c, "dim", -1));
}
static ig_tensor *call_log_softmax(const call *c)
{
    return ig_log_softmax(c->in[0], (int)whole(c, "dim", -1));
}
static ig_tensor *call_matmul(const call *c)
{
    ig_tensor *x = truth(c, "transpose_a") ? ig_transpose(c->in[0], -1, -2) : c->in[0];
    ig_tensor *y = truth(c, "transpose_b") ? ig_transpose(c->in[1], -1, -2) : c->in[1];
    return ig_matmul(x, y);
}
static ig_tensor *call_linear(const call *c)
{
    return ig_linear(c->in[0], c->in[1], c->n_in > 2 ? c->in[2] : NULL);
}
static ig_tensor *call_reshape_permute(const call *c)
{
    int64_t dims[8], order[8];
    int at[8];
    const int n = list(c, "reshape", dims), m = list(c, "permute", order);
    for (int i = 0; i < m; i++)
        at[i] = (int)order[i];
    return ig_permute(ig_reshape(c->in[0], n, dims), m, at);
}
static ig_tensor *call_slice(const call *c)
{
    return ig_slice(c->in[0], (int)whole(c, "dim", 0), whole(c, "start", 0),
                    whole(c, "end", IG_END), whole(c, "step", 1));
}
static ig_tensor *call_flip(const call *c)
{
    return ig_flip(c->in[0], (int)whole(c, "dim", 0));
}
static ig_tensor *call_expand(const call *c)
{
    int64_t dims[8];
    const int n = list(c, "shape", dims);
    return ig_expand(c->in[0], n, dims);
}
static ig_tensor *call_cross_entropy(const call *c)
{
    const ig_cross_entropy_opts opts = {
        .label_smoothing = real(c, "label_smoothing", 0),
        .ignore = whole(c, "ignore_index", 0),
        .use_ignore = json_object_get(c->attrs, "ignore_index") != NULL};
    return ig_cross_entropy(c->in[0], c->in[1], &opts);
}

static ig_tensor *call_nll(const call *c)
{
    return ig_nll(ig_log_softmax(c->in[0], -1), c->in[1]); /* of logits */
}
static ig_tensor *call_cumsum(const call *c)
{
    return ig_cumsum(c->in[0], (int)whole(c, "dim", 0));
}
static ig_tensor *call_cumprod(const call *c)
{
    return ig_cumprod(c->in[0], (int)whole(c, "dim", 0));
}
static ig_tensor *call_cat(const call *c)
{
    return ig_cat(c->in, c->n_in, (int)whole(c, "dim", 0));
}
static ig_tensor *call_stack(const call *c)
{
    return ig_stack(c->in, c->n_in, (int)whole(c, "dim", 0));
}
static ig_tensor *call_pad(const call *c)
{
    return ig_pad(c->in[0], (int)whole(c, "dim", -1), whole(c, "before", 0),
                  whole(c, "after", 0), real(c, "value", 0));
}
static ig_tensor *call_roll(const call *c)
{
    return ig_roll(c->in[0], (int)whole(c, "dim", 0), whole(c, "shift", 0));
}
static ig_tensor *call_embedding(const call *c)
{
    return ig_embedding(c->in[0], c->in[1]);
}
static ig_tensor *call_gather(const call *c)
{
    return ig_gather(c->in[0], (int)whole(c, "dim", 0), c->in[1]);
}
static ig_tensor *call_index_select(const call *c)
{
    return ig_index_select(c->in[0], (int)whole(c, "dim", 0), c->in[1]);
}
static ig_tensor *call_scatter_add(const call *c)
{
    return ig_scatter_add(c->in[0], (int)whole(c, "dim", 0), c->in[1], c->in[2]);
}

static ig_tensor *call_layer_norm(const call *c)
{
    return ig_layer_norm(c->in[0], c->n_in > 1 ? c->in[1] : NULL,
                         c->n_in > 2 ? c->in[2] : NULL, real(c, "eps", 1e-5));
}
static ig_tensor *call_rms_norm(const call *c)
{
    return ig_rms_norm(c->in[0], c->n_in > 1 ? c->in[1] : NULL, real(c, "eps", 1e-5));
}
static ig_tensor *call_group_norm(const call *c)
{
    return ig_group_norm(c->in[0], whole(c, "groups", 1), c->n_in > 1 ? c->in[1] : NULL,
                         c->n_in > 2 ? c->in[2] : NULL, real(c, "eps", 1e-5));
}
static ig_tensor *call_batch_norm(const call *c)
{
    return ig_batch_norm(c->in[0], c->n_in > 1 ? c->in[1] : NULL,
                         c->n_in > 2 ? c->in[2] : NULL,
                         &(ig_batch_norm_opts){.train = true, .eps = real(c, "eps", 1e-5)});
}

/* One number for all dimensions, or a list. */
static void sizes(const call *c, const char *name, int64_t *out, int64_t otherwise)
{
    if (!list(c, name, out))
        out[0] = out[1] = whole(c, name, otherwise);
}
static ig_conv_opts conv_opts(const call *c)
{
    ig_conv_opts o = {.groups = whole(c, "groups", 1)};
    sizes(c, "stride", o.stride, 1);
    sizes(c, "padding", o.pad, 0);
    sizes(c, "dilation", o.dilation, 1);
    sizes(c, "output_padding", o.out_pad, 0);
    return o;
}
static ig_tensor *call_conv1d(const call *c)
{
    const ig_conv_opts o = conv_opts(c);
    return ig_conv1d(c->in[0], c->in[1], c->n_in > 2 ? c->in[2] : NULL, &o);
}
static ig_tensor *call_conv2d(const call *c)
{
    const ig_conv_opts o = conv_opts(c);
    return ig_conv2d(c->in[0], c->in[1], c->n_in > 2 ? c->in[2] : NULL, &o);
}
static ig_tensor *call_conv_transpose1d(const call *c)
{
    const ig_conv_opts o = conv_opts(c);
    return ig_conv_transpose1d(c->in[0], c->in[1], c->n_in > 2 ? c->in[2] : NULL, &o);
}
static ig_tensor *call_conv_transpose2d(const call *c)
{
    const ig_conv_opts o = conv_opts(c);
    return ig_conv_transpose2d(c->in[0], c->in[1], c->n_in > 2 ? c->in[2] : NULL, &o);
}
static ig_pool_opts pool_opts(const call *c)
{
    ig_pool_opts o = {.count_pads = json_object_get(c->attrs, "count_include_pad")
                                        ? truth(c, "count_include_pad")
                                        : true};
    sizes(c, "kernel", o.kernel, 2);
    sizes(c, "stride", o.stride, 0);
    sizes(c, "padding", o.pad, 0);
    return o;
}
static ig_tensor *call_max_pool2d(const call *c)
{
    const ig_pool_opts o = pool_opts(c);
    return ig_max_pool2d(c->in[0], &o);
}
static ig_tensor *call_avg_pool2d(const call *c)
{
    const ig_pool_opts o = pool_opts(c);
    return ig_avg_pool2d(c->in[0], &o);
}

/* `causal` is a truth, or says in words what it is */
static ig_tensor *call_attention(const call *c)
{
    json_t *causal = json_object_get(c->attrs, "causal");
    const ig_attention_opts o = {.causal = json_is_true(causal) || json_is_string(causal),
                                 .window = whole(c, "window", 0),
                                 .scale = real(c, "scale", 0),
                                 .mask = c->n_in > 3 ? c->in[3] : NULL};
    return ig_attention(c->in[0], c->in[1], c->in[2], &o);
}
static ig_tensor *call_rope(const call *c)
{
    const char *pairs = json_string_value(json_object_get(c->attrs, "pairs"));
    ig_tensor *x = c->in[0];
    ig_tensor *positions =
        ig_arange(ig_tensor_context(x), IG_DTYPE_I64, (double)whole(c, "first_position", 0),
                  1, ig_tensor_dim(x, -2));
    ig_tensor *table = ig_rope_table(positions, ig_tensor_dim(x, -1),
                                     &(ig_rope_opts){.base = real(c, "base", 10000)});
    return ig_rope(x, table, pairs && !strncmp(pairs, "halves", 6));
}

static ig_tensor *recurrent(const call *c, ig_cell cell)
{
    return ig_recurrent(cell, c->in[0], c->in + 1, c->n_in - 1,
                        &(ig_recurrent_opts){.layers = (c->n_in - 1) / 4});
}
static ig_tensor *call_rnn(const call *c)
{
    return recurrent(c, IG_CELL_RNN);
}
static ig_tensor *call_lstm(const call *c)
{
    return recurrent(c, IG_CELL_LSTM);
}
static ig_tensor *call_gru(const call *c)
{
    return recurrent(c, IG_CELL_GRU);
}

static const struct {
    const char *name;
    call_fn *f;
} others[] = {
    {"rnn_tanh", call_rnn},
    {"rnn", call_rnn},
    {"lstm", call_lstm},
    {"gru", call_gru},
    {"attention", call_attention},
    {"rope", call_rope},
    {"conv1d", call_conv1d},
    {"conv2d", call_conv2d},
    {"conv_transpose1d", call_conv_transpose1d},
    {"conv_transpose2d", call_conv_transpose2d},
    {"max_pool2d", call_max_pool2d},
    {"avg_pool2d", call_avg_pool2d},
    {"layer_norm", call_layer_norm},
    {"rms_norm", call_rms_norm},
    {"group_norm", call_group_norm},
    {"batch_norm", call_batch_norm},
    {"nll", call_nll},
    {"cumsum", call_cumsum},
    {"cumprod", call_cumprod},
    {"cat", call_cat},
    {"stack", call_stack},
    {"pad", call_pad},
    {"roll", call_roll},
    {"embedding", call_embedding},
    {"gather", call_gather},
    {"index_select", call_index_select},
    {"scatter_add", call_scatter_add},
    {"gelu", call_gelu},
    {"where", call_where},
    {"clamp", call_clamp},
    {"var", call_var},
    {"logsumexp", call_logsumexp},
    {"softmax", call_softmax},
    {"log_softmax", call_log_softmax},
    {"matmul", call_matmul},
    {"linear", call_linear},
    {"reshape, permute", call_reshape_permute},
    {"slice", call_slice},
    {"flip", call_flip},
    {"expand", call_expand},
    {"cross_entropy", call_cross_entropy},
};

#define LENGTH(array) (sizeof(array) / sizeof *(array))

/* False: no such operator here. */
static bool call_operator(ig_tensor **out, const char *name, const call *c)
{
    for (size_t i = 0; i < LENGTH(unary); i++)
        if (!strcmp(unary[i].name, name))
            return *out = unary[i].f(c->in[0]), true;
    for (size_t i = 0; i < LENGTH(binary); i++)
        if (!strcmp(binary[i].name, name))
            return *out = binary[i].f(c->in[0], c->in[1]), true;
    const int dim = (int)whole(c, "dim", 0);
    const int n = json_object_get(c->attrs, "dim") ? 1 : 0;
    for (size_t i = 0; i < LENGTH(reductions); i++)
        if (!strcmp(reductions[i].name, name))
            return *out = reductions[i].f(c->in[0], n, &dim, truth(c, "keepdim")), true;
    for (size_t i = 0; i < LENGTH(others); i++)
        if (!strcmp(others[i].name, name))
            return *out = others[i].f(c), true;
    return false;
}

/* ---- one case --------------------------------------------------------------------------------- */

typedef struct values {
    float *at;
    int64_t n;
} values;

static values read_values(ig_tensor *x)
{
    values v = {.n = ig_tensor_count(x)};
    v.at = calloc((size_t)(v.n ? v.n : 1), sizeof *v.at);
    ig_tensor *f = ig_cast(x, IG_DTYPE_F32);
    if (!f || ig_tensor_read(f, v.at, ig_tensor_bytes(f), NULL) != IG_OK)
        v.n = -1;
    return v;
}

/* Of one tensor against what it should be. */
static double error_of(values a, ig_tensor *wanted)
{
    const values b = read_values(wanted);
    double worst = 0, largest = 0;
    if (a.n != b.n)
        worst = (double)INFINITY;
    for (int64_t i = 0; i < b.n && a.n == b.n; i++) {
        const double d = fabs((double)a.at[i] - (double)b.at[i]);
        worst = d > worst || d != d ? d : worst;
        largest = fmax(largest, fabs((double)b.at[i]));
    }
    free(b.at);
    return worst / fmax(largest, 1e-6);
}

typedef struct result {
    values of[2 * MOST]; /* results, then gradients */
    int n;
    double error;
    bool known;
} result;

static const char *name_at(json_t *array, size_t i)
{
    return json_string_value(json_array_get(array, i));
}

static void run_case(result *r, ig_context *ctx, const golden *g, json_t *entry)
{
    json_t *inputs = json_object_get(entry, "inputs");
    json_t *grads = json_object_get(entry, "grads");
    call c = {.attrs = json_object_get(entry, "attrs"),
              .n_in = (int)json_array_size(inputs)};
    for (int i = 0; i < c.n_in; i++) {
        c.in[i] = golden_tensor(g, ctx, name_at(inputs, (size_t)i));
        if (name_at(grads, (size_t)i))
            ig_tensor_require_grad(c.in[i], true);
    }
    ig_tensor *y = NULL;
    r->known = call_operator(&y, json_string_value(json_object_get(entry, "op")), &c);
    if (!r->known)
        return;
    ig_tensor *wanted =
        golden_tensor(g, ctx, name_at(json_object_get(entry, "outputs"), 0));
    ig_tensor *cotangent =
        golden_tensor(g, ctx, name_at(json_object_get(entry, "cotangents"), 0));
    r->of[r->n++] = read_values(y);
    r->error = error_of(r->of[0], wanted);
    ig_backward_all(&y, &cotangent, 1, NULL);
    for (int i = 0; i < c.n_in; i++) {
        const char *name = name_at(grads, (size_t)i);
        if (!name)
            continue;
        r->of[r->n] = read_values(ig_tensor_grad(c.in[i]));
        const double error = error_of(r->of[r->n++], golden_tensor(g, ctx, name));
        r->error = error > r->error || error != error ? error : r->error;
    }
    if (ig_context_status(ctx) != IG_OK) {
        printf("%s\n", ig_context_message(ctx));
        r->error = (double)INFINITY;
        ig_context_clear(ctx);
    }
}

static bool same_bits(const result *a, const result *b)
{
    if (a->n != b->n)
        return false;
    for (int i = 0; i < a->n; i++)
        if (a->of[i].n != b->of[i].n ||
            (a->of[i].n > 0 &&
             memcmp(a->of[i].at, b->of[i].at, (size_t)a->of[i].n * sizeof(float))))
            return false;
    return true;
}

static void free_result(result *r)
{
    for (int i = 0; i < r->n; i++)
        free(r->of[i].at);
}

int main(int argc, char **argv)
{
    const char *prefix = argc > 1 ? argv[1] : IG_SHARED_DATA "/golden/ops";
    char why[600];
    golden g;
    if (!golden_open(&g, prefix, why, sizeof why)) {
        printf("skipped: %s\n", why);
        return argc > 1;
    }
    ig_context *ctx[2] = {NULL};
    for (int t = 0; t < 2; t++)
        if (ig_context_create(&ctx[t], &(ig_context_opts){.n_threads = t + 1}, NULL) !=
            IG_OK)
            return 1;
    int n_passed = 0, n_failed = 0;
    double worst = 0;
    size_t i;
    json_t *entry;
    json_array_foreach(json_object_get(g.cases, "cases"), i, entry)
    {
        const char *name = json_string_value(json_object_get(entry, "name"));
        result r[2] = {{.error = 0}};
        for (int t = 0; t < 2; t++) {
            ig_scope *scope = ig_scope_begin(ctx[t]);
            run_case(&r[t], ctx[t], &g, entry);
            ig_scope_end(scope);
        }
        const bool same = same_bits(&r[0], &r[1]);
        const bool good = r[0].known && same && r[0].error <= BOUND;
        printf("%-6s %-34s %.2e%s\n", good ? "ok" : "FAILED", name, r[0].error,
               !r[0].known ? "  no such operator"
               : !same     ? "  one thread and two differ"
                           : "");
        n_passed += good;
        n_failed += !good;
        worst = fmax(worst, r[0].error);
        free_result(&r[0]);
        free_result(&r[1]);
    }
    printf("worst error %.2e\n", worst);
    printf("%d passed, %d failed\n", n_passed, n_failed);
    for (int t = 0; t < 2; t++)
        ig_context_destroy(ctx[t]);
    golden_close(&g);
    return n_failed != 0;
}
