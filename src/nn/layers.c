/* Layers, by calls of plain operators. */
#include "nn/layers.h"

#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const ig__gguf_tensor *find(const ig__builder *b, char *full, size_t cap,
                                   const char *name, va_list args)
{
    vsnprintf(full, cap, name, args);
    return b->file ? ig__gguf_find_tensor(b->file, full) : NULL;
}

/* t: NULL if it is missing. */
static ig__value fail_tensor(ig__builder *b, const ig__gguf_tensor *t, const char *name,
                             const char *what)
{
    const uint64_t at = t ? t->entry : ig__gguf_table(b->file);
    if (b->g->status == IG_OK)
        b->g->status = ig__fail(&b->g->error, IG_ERR_FORMAT, "%s: byte %llu: tensor %s %s",
                                ig__gguf_path(b->file), (unsigned long long)at, name, what);
    return IG_NO_VALUE;
}

static ig__type matrix_type(ig_dtype dtype, int64_t n, int64_t k)
{
    ig__type type = {.dtype = dtype, .layout = IG_LAYOUT_GROUPS, .n_dims = 2};
    type.dims[0] = ig__dim_of(n);
    type.dims[1] = ig__dim_of(k);
    return type;
}

ig__value ig__nn_matrix(ig__builder *b, int64_t n, int64_t k, const char *name, ...)
{
    char full[96], what[160];
    va_list args;
    va_start(args, name);
    const ig__gguf_tensor *t = find(b, full, sizeof full, name, args);
    va_end(args);
    if (!b->file)
        return ig__graph_param(b->g, full, matrix_type(IG_DTYPE_F32, n, k));
    if (!t)
        return fail_tensor(b, NULL, full, "is missing");
    if (t->n_dims > 2 || t->dims[0] != k || t->dims[1] != n) {
        snprintf(what, sizeof what, "is [%lld,%lld], wanted [%lld,%lld]",
                 (long long)t->dims[0], (long long)t->dims[1], (long long)k, (long long)n);
        return fail_tensor(b, t, full, what);
    }
    const ig__packing packing = ig__packing_of(t->dtype);
    if (!packing.block || k % packing.block) {
        snprintf(what, sizeof what, "has type %u, %s, not supported for rows of %lld",
                 t->file_type, ig__gguf_type_name(t->file_type), (long long)k);
        return fail_tensor(b, t, full, what);
    }
    return ig__graph_param(b->g, full, matrix_type(t->dtype, n, k));
}

ig__value ig__nn_vector(ig__builder *b, int64_t n, const char *name, ...)
{
    char full[96], what[160];
    va_list args;
    va_start(args, name);
    const ig__gguf_tensor *t = find(b, full, sizeof full, name, args);
    va_end(args);
    if (b->file && !t)
        return fail_tensor(b, NULL, full, "is missing");
    if (b->file && (t->n_dims != 1 || t->dims[0] != n)) {
        snprintf(what, sizeof what, "has %lld values, wanted %lld", (long long)t->dims[0],
                 (long long)n);
        return fail_tensor(b, t, full, what);
    }
    if (b->file && t->dtype != IG_DTYPE_F32 && t->dtype != IG_DTYPE_F16 &&
        t->dtype != IG_DTYPE_BF16) {
        snprintf(what, sizeof what, "has type %u, %s, a vector is f32, f16 or bf16",
                 t->file_type, ig__gguf_type_name(t->file_type));
        return fail_tensor(b, t, full, what);
    }
    ig__type type = {.dtype = IG_DTYPE_F32, .n_dims = 1};
    type.dims[0] = ig__dim_of(n);
    return ig__graph_param(b->g, full, type);
}

bool ig__nn_has(const ig__builder *b, const char *name, ...)
{
    char full[96];
    va_list args;
    va_start(args, name);
    const bool has = find(b, full, sizeof full, name, args) != NULL;
    va_end(args);
    if (!b->file)
        return b->untied && !strcmp(full, "output.weight");
    return has;
}

static ig__value apply(ig__builder *b, const ig__op *op, const void *attrs, ig__value x,
                       ig__value y)
{
    const ig__value in[] = {x, y};
    return ig__graph_apply(b->g, op, attrs, in, y == IG_NO_VALUE ? 1 : 2);
}

ig__value ig__nn_rms_norm(ig__builder *b, ig__value x, ig__value gain)
{
    const ig__norm_attrs attrs = {.eps = (float)b->config->norm_eps};
    return apply(b, &ig__op_rms_norm, &attrs, x, gain);
}

ig__value ig__nn_linear(ig__builder *b, ig__value x, ig__value w)
{
    return apply(b, &ig__op_linear, NULL, x, w);
}

ig__value ig__nn_add(ig__builder *b, ig__value x, ig__value y)
{
    return apply(b, &ig__op_add, NULL, x, y);
}

ig__value ig__nn_rope_table(ig__builder *b, double base, double scale, ig__value factors)
{
    ig__rope_table_attrs attrs;
    memset(&attrs, 0, sizeof attrs);
    attrs.n_rotated = b->config->n_rotated;
    attrs.base = base;
    attrs.scale = scale;
    return apply(b, &ig__op_rope_table, &attrs, b->positions, factors);
}

ig__value ig__nn_wanted(ig__builder *b, ig__value x)
{
    return apply(b, &ig__op_gather_rows, NULL, x, b->logit_rows);
}

static ig__value reshape(ig__builder *b, ig__value x, int64_t h, int64_t w)
{
    if (x == IG_NO_VALUE)
        return x;
    ig__reshape_attrs attrs;
    memset(&attrs, 0, sizeof attrs);
    attrs.n_dims = h ? 3 : 2;
    attrs.dims[0] = ig__graph_type(b->g, x)->dims[0];
    attrs.dims[1] = ig__dim_of(h ? h : w);
    if (h)
        attrs.dims[2] = ig__dim_of(w);
    return apply(b, &ig__op_reshape, &attrs, x, IG_NO_VALUE);
}

/* One of q, k, v as heads. */
static ig__value heads(ig__builder *b, ig__value h, int64_t layer, const char *which,
                       int64_t n_heads)
{
    const ig__config *c = b->config;
    const ig__value w = ig__nn_matrix(b, n_heads * c->head_width, c->width,
                                      "blk.%lld.attn_%s.weight", (long long)layer, which);
    return reshape(b, ig__nn_linear(b, h, w), n_heads, c->head_width);
}

static ig__value rotated(ig__builder *b, ig__value x, const char *which,
                         const ig__nn_attention_opts *opts)
{
    if (opts->norms)
        x = ig__nn_rms_norm(b, x,
                            ig__nn_vector(b, b->config->head_width,
                                          "blk.%lld.attn_%s_norm.weight",
                                          (long long)opts->layer, which));
    const ig__rope_attrs attrs = {.halves = opts->halves};
    return apply(b, &ig__op_rope, &attrs, x, opts->table);
}

ig__value ig__nn_attention(ig__builder *b, ig__value h, const ig__nn_attention_opts *opts)
{
    const ig__config *c = b->config;
    ig__attention_attrs attrs;
    memset(&attrs, 0, sizeof attrs);
    attrs.layer = opts->layer;
    attrs.window = opts->window;
    attrs.scale = opts->scale;
    const ig__value in[] = {
        rotated(b, heads(b, h, opts->layer, "q", c->n_heads), "q", opts),
        rotated(b, heads(b, h, opts->layer, "k", c->n_kv_heads), "k", opts),
        heads(b, h, opts->layer, "v", c->n_kv_heads),
    };
    const ig__value a = ig__graph_apply(b->g, &ig__op_attention, &attrs, in, 3);
    return reshape(b, a, 0, c->n_heads * c->head_width);
}

ig__value ig__nn_gated(ig__builder *b, ig__value h, int64_t layer, const ig__op *curve)
{
    const ig__config *c = b->config;
    const long long i = (long long)layer;
    const ig__value gate = ig__nn_linear(
        b, h, ig__nn_matrix(b, c->feed_forward, c->width, "blk.%lld.ffn_gate.weight", i));
    const ig__value up = ig__nn_linear(
        b, h, ig__nn_matrix(b, c->feed_forward, c->width, "blk.%lld.ffn_up.weight", i));
    const ig__value both =
        apply(b, &ig__op_mul, NULL, apply(b, curve, NULL, gate, IG_NO_VALUE), up);
    return ig__nn_linear(
        b, both,
        ig__nn_matrix(b, c->width, c->feed_forward, "blk.%lld.ffn_down.weight", i));
}
