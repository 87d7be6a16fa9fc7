/* Tensors, storages and scopes: making, counting, freeing; bytes in and out. */
#include "tensor/tensor.h"

#include "base/error.h"
#include "tensor/capture.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- storage ----------------------------------------------------------------------------------- */

static ig__storage *make_storage(ig_context *ctx, size_t bytes, const char *op)
{
    ig__storage *s = ig__small_take(&ctx->memory, sizeof *s);
    if (!s)
        return NULL;
    s->bytes = bytes;
    s->refs = 1;
    s->version = 0;
    s->captured = 0;
    s->made_by = op;
    s->in_line = bytes <= IG_INLINE_BYTES;
    if (s->in_line) {
        s->data = s->own;
        return s;
    }
    s->data = ig__memory_take(&ctx->memory, bytes);
    if (!s->data) {
        ig__small_give(&ctx->memory, s, sizeof *s);
        return NULL;
    }
    s->before = NULL;
    s->next = ctx->storages;
    if (s->next)
        s->next->before = s;
    ctx->storages = s;
    return s;
}

void ig__storage_release(ig_context *ctx, ig__storage *s)
{
    if (--s->refs)
        return;
    if (s->captured && ctx->capture->drop(ctx->capture, s)) {
        s->refs = 1;
        return;
    }
    if (!s->in_line) {
        ig__memory_give(&ctx->memory, s->data, s->bytes);
        if (s->next)
            s->next->before = s->before;
        if (s->before)
            s->before->next = s->next;
        else
            ctx->storages = s->next;
    }
    ig__small_give(&ctx->memory, s, sizeof *s);
}

void *ig__fail_tensor_memory(ig_context *ctx, const char *op, size_t bytes)
{
    /* the operators whose results hold most */
    enum { TOP = 3 };
    struct {
        const char *op;
        size_t bytes;
        int64_t n;
    } by_op[32], top[TOP] = {{0}};
    int n_ops = 0;
    for (const ig__storage *s = ctx->storages; s; s = s->next) {
        int i = 0;
        while (i < n_ops && strcmp(by_op[i].op, s->made_by))
            i++;
        if (i == 32)
            continue;
        if (i == n_ops)
            by_op[n_ops++].op = s->made_by, by_op[i].bytes = 0, by_op[i].n = 0;
        by_op[i].bytes += s->bytes;
        by_op[i].n++;
    }
    for (int k = 0; k < TOP; k++)
        for (int i = 0; i < n_ops; i++)
            if (by_op[i].bytes > top[k].bytes && (!k || by_op[i].bytes < top[k - 1].bytes))
                top[k].op = by_op[i].op, top[k].bytes = by_op[i].bytes,
                top[k].n = by_op[i].n;
    char where[160] = "";
    size_t at = 0;
    for (int k = 0; k < TOP && top[k].op && at < sizeof where; k++)
        at += (size_t)snprintf(where + at, sizeof where - at, "%s%s %.1f MB in %lld",
                               k ? ", " : "; most by ", top[k].op,
                               (double)top[k].bytes / 1e6, (long long)top[k].n);
    const ig__memory *m = &ctx->memory;
    return ig__fail_on(
        ctx, IG_ERR_MEMORY,
        "%s: out of memory: wants %.3f MB; live %.1f MB, reserved %.1f MB%s%.0f%s%s", op,
        (double)bytes / 1e6, (double)m->live / 1e6, (double)m->reserved / 1e6,
        m->budget ? " of a budget of " : " (",
        m->budget ? (double)m->budget / 1e6 : (double)m->n_reserves,
        m->budget ? " MB" : " blocks)", where);
}

/* ---- tensors ----------------------------------------------------------------------------------- */

static void enter_scope(ig_tensor *x, ig_scope *scope)
{
    x->scope = scope;
    x->before = NULL;
    x->next = scope->first;
    if (x->next)
        x->next->before = x;
    scope->first = x;
}

static void leave_scope(ig_tensor *x)
{
    if (x->next)
        x->next->before = x->before;
    if (x->before)
        x->before->next = x->next;
    else
        x->scope->first = x->next;
    x->scope = NULL;
}

/* A struct with everything but type, strides, data and storage set. */
static ig_tensor *make_struct(ig_context *ctx)
{
    ig_tensor *x = ig__small_take(&ctx->memory, sizeof *x);
    if (!x)
        return NULL;
    x->ctx = ctx;
    x->scope = NULL;
    x->refs = 1;
    x->wants_grad = false;
    x->i_out = 0;
    x->epoch = 0;
    x->node = NULL;
    x->grad = NULL;
    x->base = NULL;
    x->hooks = NULL;
    x->low = NULL;
    return x;
}

static void copy_type(ig__type *to, const ig__type *from)
{
    to->dtype = from->dtype;
    to->layout = from->layout;
    to->acts = from->acts;
    to->n_dims = from->n_dims;
    for (int i = 0; i < from->n_dims; i++)
        to->dims[i] = from->dims[i];
}

ig_tensor *ig__tensor_make(ig_context *ctx, const ig__type *type, const char *op)
{
    int64_t n = 1;
    for (int i = 0; i < type->n_dims; i++)
        if (!ig__mul_i64(&n, n, type->dims[i].plus))
            return ig__fail_tensor_memory(ctx, op, SIZE_MAX);
    size_t bytes;
    if (!ig__mul(&bytes, (size_t)n, ig_dtype_block_bytes(type->dtype)))
        return ig__fail_tensor_memory(ctx, op, SIZE_MAX);
    ig_tensor *x = make_struct(ctx);
    if (!x)
        return ig__fail_tensor_memory(ctx, op, bytes);
    x->storage = make_storage(ctx, bytes, op);
    if (!x->storage) {
        ig__small_give(&ctx->memory, x, sizeof *x);
        return ig__fail_tensor_memory(ctx, op, bytes);
    }
    x->data = x->storage->data;
    x->n = n;
    x->contiguous = true;
    copy_type(&x->type, type);
    ig__contiguous_strides(type, x->strides);
    enter_scope(x, ctx->scope);
    return x;
}

static ig_tensor *share(ig_tensor *x, const ig__type *type, const int64_t *strides,
                        char *data)
{
    ig_context *ctx = x->ctx;
    ig_tensor *y = make_struct(ctx);
    if (!y)
        return ig__fail_tensor_memory(ctx, "view", sizeof *y);
    copy_type(&y->type, type);
    memcpy(y->strides, strides, (size_t)type->n_dims * sizeof *strides);
    y->storage = x->storage;
    y->storage->refs++;
    y->data = data;
    y->n = ig__type_count(type);
    y->contiguous = ig__is_contiguous(&y->type, y->strides);
    return y;
}

ig_tensor *ig__tensor_view(ig_tensor *x, const ig__type *type, const int64_t *strides,
                           char *data)
{
    ig_tensor *y = share(x, type, strides, data);
    if (!y)
        return NULL;
    y->base = ig__retain(x->base ? x->base : x);
    y->epoch = y->base->epoch;
    enter_scope(y, x->ctx->scope);
    return y;
}

ig_tensor *ig__tensor_alias(ig_tensor *x)
{
    return share(x, &x->type, x->strides, x->data);
}

void ig__release(ig_tensor *x)
{
    while (x && --x->refs == 0) {
        ig_context *ctx = x->ctx;
        ig_tensor *base = x->base;
        if (x->scope)
            leave_scope(x);
        if (x->node)
            ig__history_release(ctx, x->node);
        if (x->grad)
            ig__release(x->grad);
        while (x->hooks) {
            ig__hook *next = x->hooks->next;
            ig__small_give(&ctx->memory, x->hooks, sizeof *x->hooks);
            x->hooks = next;
        }
        ig__release(x->low);
        ig__storage_release(ctx, x->storage);
        ig__small_give(&ctx->memory, x, sizeof *x);
        x = base;
    }
}

void ig__history_release(ig_context *ctx, ig__history *node)
{
    if (--node->refs)
        return;
    node->next_dead = ctx->dead;
    ctx->dead = node;
    if (ctx->is_draining)
        return;
    ctx->is_draining = true;
    while (ctx->dead) {
        ig__history *dead = ctx->dead;
        ctx->dead = dead->next_dead;
        dead->destroy(ctx, dead);
    }
    ctx->is_draining = false;
}

ig_tensor *ig__unscope(ig_tensor *x)
{
    if (x && x->scope)
        leave_scope(x);
    else if (x)
        ig__retain(x);
    return x;
}

ig_tensor *ig__scope_take(ig_tensor *x)
{
    if (x->scope)
        ig__release(x); /* it belongs to a scope already */
    else
        enter_scope(x, x->ctx->scope);
    return x;
}

bool ig__is_contiguous(const ig__type *type, const int64_t *strides)
{
    int64_t next = 1;
    bool fits = true;
    for (int i = type->n_dims; i-- > 0;) {
        const int64_t d = type->dims[i].plus;
        if (d == 0)
            return true;
        if (d != 1 && strides[i] != next)
            fits = false;
        next *= d;
    }
    return fits;
}

void ig__contiguous_strides(const ig__type *type, int64_t *strides)
{
    int64_t next = 1;
    for (int i = type->n_dims; i-- > 0;) {
        strides[i] = next;
        if (type->dims[i].plus)
            next *= type->dims[i].plus;
    }
}

bool ig__type_of(ig__type *out, ig_context *ctx, const char *op, ig_dtype dtype, int n_dims,
                 const int64_t *dims)
{
    if (!ctx || ig__context_failed(ctx))
        return false;
    if (!ig__is_plain(dtype)) {
        ig__fail_on(ctx, IG_ERR_ARGUMENT, "%s: no tensors of type %s", op,
                    ig_dtype_name(dtype));
        return false;
    }
    if (n_dims < 0 || n_dims > IG_MAX_DIMS || (n_dims && !dims)) {
        ig__fail_on(ctx, IG_ERR_ARGUMENT, "%s: %d dimensions, allowed are 0 to %d", op,
                    n_dims, IG_MAX_DIMS);
        return false;
    }
    *out = (ig__type){.dtype = dtype, .n_dims = n_dims};
    int64_t n = 1;
    for (int i = 0; i < n_dims; i++) {
        if (dims[i] < 0 || !ig__mul_i64(&n, n, dims[i] ? dims[i] : 1)) {
            ig__fail_on(ctx, IG_ERR_SHAPE, "%s: dimension %d is %lld", op, i,
                        (long long)dims[i]);
            return false;
        }
        out->dims[i] = ig__dim_of(dims[i]);
    }
    return true;
}

/* ---- scopes ------------------------------------------------------------------------------------ */

ig_scope *ig_scope_begin(ig_context *ctx)
{
    if (!ctx)
        return NULL;
    ig_scope *scope = ig__small_take(&ctx->memory, sizeof *scope);
    if (!scope)
        return ig__fail_tensor_memory(ctx, "scope", sizeof *scope);
    *scope = (ig_scope){.ctx = ctx, .outer = ctx->scope};
    ctx->scope = scope;
    return scope;
}

void ig_scope_end(ig_scope *scope)
{
    if (!scope)
        return;
    ig_context *ctx = scope->ctx;
    for (ig_scope *inner = NULL; inner != scope;) {
        inner = ctx->scope;
        while (inner->first)
            ig__release(ig__unscope(inner->first));
        ctx->scope = inner->outer;
        ig__small_give(&ctx->memory, inner, sizeof *inner);
    }
}

ig_tensor *ig_tensor_keep(ig_tensor *x)
{
    if (!x || !x->scope || !x->scope->outer)
        return x;
    ig_scope *outer = x->scope->outer;
    leave_scope(x);
    enter_scope(x, outer);
    return x;
}

ig_tensor *ig_tensor_retain(ig_tensor *x)
{
    return x ? ig__retain(x) : NULL;
}

void ig_tensor_release(ig_tensor *x)
{
    ig__release(x);
}

/* ---- make -------------------------------------------------------------------------------------- */

/* Bytes of the host become part of a recording in progress. */
static ig_tensor *tell(ig_tensor *x)
{
    if (!x || !x->ctx->capture || x->ctx->capture->constant(x->ctx->capture, x))
        return x;
    ig__release(x);
    return NULL;
}

ig_tensor *ig_tensor_from(ig_context *ctx, ig_dtype dtype, int n_dims, const int64_t *dims,
                          const void *data)
{
    ig__type type;
    if (!ig__type_of(&type, ctx, "tensor_from", dtype, n_dims, dims))
        return NULL;
    ig_tensor *x = ig__tensor_make(ctx, &type, "tensor_from");
    if (x && x->n) {
        if (!data) {
            ig__release(x);
            return ig__fail_on(ctx, IG_ERR_ARGUMENT, "tensor_from: data is NULL");
        }
        memcpy(x->data, data, ig_tensor_bytes(x));
    }
    return tell(x);
}

ig_tensor *ig_tensor_scalar(ig_context *ctx, ig_dtype dtype, double value)
{
    ig__type type;
    if (!ig__type_of(&type, ctx, "tensor_scalar", dtype, 0, NULL))
        return NULL;
    ig_tensor *x = ig__tensor_make(ctx, &type, "tensor_scalar");
    if (x)
        ig__store(x->data, dtype, 1, &value, IG_COMPUTE_F64, 1);
    return tell(x);
}

/* ---- inspect ----------------------------------------------------------------------------------- */

ig_context *ig_tensor_context(const ig_tensor *x)
{
    return x ? x->ctx : NULL;
}
ig_dtype ig_tensor_dtype(const ig_tensor *x)
{
    return x ? x->type.dtype : IG_DTYPE_COUNT;
}
int ig_tensor_n_dims(const ig_tensor *x)
{
    return x ? x->type.n_dims : 0;
}
int64_t ig_tensor_dim(const ig_tensor *x, int i)
{
    if (!x)
        return 0;
    i = i < 0 ? i + x->type.n_dims : i;
    return i >= 0 && i < x->type.n_dims ? x->type.dims[i].plus : 0;
}
int64_t ig_tensor_stride(const ig_tensor *x, int i)
{
    if (!x)
        return 0;
    i = i < 0 ? i + x->type.n_dims : i;
    return i >= 0 && i < x->type.n_dims ? x->strides[i] : 0;
}
int64_t ig_tensor_count(const ig_tensor *x)
{
    return x ? x->n : 0;
}
size_t ig_tensor_bytes(const ig_tensor *x)
{
    return x ? (size_t)x->n * ig_dtype_block_bytes(x->type.dtype) : 0;
}
bool ig_tensor_is_contiguous(const ig_tensor *x)
{
    return x && x->contiguous;
}
uint32_t ig_tensor_version(const ig_tensor *x)
{
    return x ? x->storage->version : 0;
}

/* ---- bytes in and out -------------------------------------------------------------------------- */

/* Elements to or from packed bytes, a run of the last dimension at a time. */
static void copy_runs(const ig_tensor *x, char *packed, bool read)
{
    const size_t size = ig_dtype_block_bytes(x->type.dtype);
    const int last = x->type.n_dims - 1;
    const int64_t run = last < 0 ? 1 : x->type.dims[last].plus;
    const int64_t step = last < 0 ? 1 : x->strides[last];
    int64_t at[IG_MAX_DIMS] = {0};
    for (int64_t done = 0; done < x->n; done += run) {
        char *p = x->data;
        for (int i = 0; i < last; i++)
            p += at[i] * x->strides[i] * (int64_t)size;
        for (int64_t k = 0; k < run; k++, packed += size)
            memcpy(read ? packed : p + k * step * (int64_t)size,
                   read ? p + k * step * (int64_t)size : packed, size);
        for (int i = last; i-- > 0 && ++at[i] == x->type.dims[i].plus;)
            at[i] = 0;
    }
}

static ig_status check_bytes(const ig_tensor *x, const char *call, size_t n_bytes,
                             ig_error *err)
{
    char text[IG_TYPE_TEXT];
    if (n_bytes != ig_tensor_bytes(x))
        return ig__fail(err, IG_ERR_ARGUMENT, "%s: %s has %zu bytes, not %zu", call,
                        ig__type_text(&x->type, text, sizeof text), ig_tensor_bytes(x),
                        n_bytes);
    return IG_OK;
}

/* A value seen by the host would be that of the recorded step for ever. */
static bool may_look(const ig_tensor *x, const char *call)
{
    if (!x || !x->ctx->capture)
        return true;
    ig__fail_on(x->ctx, IG_ERR_ARGUMENT,
                "%s: a capture records operators: a value cannot be read on the host "
                "before it ends",
                call);
    return false;
}

ig_status ig_tensor_read(const ig_tensor *x, void *data, size_t n_bytes, ig_error *err)
{
    if (!x)
        return ig__fail(err, IG_ERR_ARGUMENT, "tensor_read: the tensor is NULL");
    IG_TRY(check_bytes(x, "tensor_read", n_bytes, err));
    if (!may_look(x, "tensor_read")) {
        if (err)
            *err = x->ctx->error;
        return x->ctx->error.status;
    }
    if (x->contiguous) {
        if (n_bytes)
            memcpy(data, x->data, n_bytes);
    } else {
        copy_runs(x, data, true);
    }
    return IG_OK;
}

ig_status ig_tensor_write(ig_tensor *x, const void *data, size_t n_bytes, ig_error *err)
{
    if (!x)
        return ig__fail(err, IG_ERR_ARGUMENT, "tensor_write: the tensor is NULL");
    IG_TRY(check_bytes(x, "tensor_write", n_bytes, err));
    if (x->ctx->capture)
        return ig__fail(
            err, IG_ERR_ARGUMENT,
            "tensor_write: a capture records operators, not bytes of the caller");
    if (x->contiguous) {
        if (n_bytes)
            memcpy(x->data, data, n_bytes);
    } else {
        copy_runs(x, (char *)(uintptr_t)data, false);
    }
    x->storage->version++;
    return IG_OK;
}

double ig_tensor_item(const ig_tensor *x)
{
    double value = (double)NAN;
    if (x && x->n == 1 && may_look(x, "tensor_item"))
        ig__load(&value, IG_COMPUTE_F64, x->data, x->type.dtype, 1, 1);
    return value;
}

void *ig_tensor_data(ig_tensor *x)
{
    if (!x || !x->contiguous || !may_look(x, "tensor_data"))
        return NULL;
    ig_tensor *leaf = x->base ? x->base : x;
    if (leaf->low) /* what is written through the pointer is not in the copy */
        leaf->low_skew = leaf->storage->version - leaf->low->storage->version - 1;
    return x->data;
}
