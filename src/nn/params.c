/* Parameters by name: a list in the order of making, and a table of names beside it.
 *
 *   list   entries[n]: name, tensor (one count is ours), fixed
 *   table  slots[n_slots]: index into the list + 1, 0 is empty; a power of two, at most half full
 *
 * The current prefix stands in `path`; ends[d] is how long it was before level d was begun.
 */
#include "nn/module_int.h"

#include "base/error.h"
#include "ingot/grad.h"
#include "ingot/tensor_file.h"
#include "tensor/tensor.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { MAX_DEPTH = 16, MAX_NAME = 256 };

typedef struct entry {
    char *name;
    ig_tensor *tensor;
    bool fixed;
} entry;

struct ig_params {
    ig_context *ctx;
    entry *entries; /* [cap] */
    uint32_t *slots;
    int64_t n, cap;
    uint32_t n_slots;
    bool sealed, evaluating;
    double deviation;
    int depth; /* may pass MAX_DEPTH, so that begins and ends pair up */
    size_t n_path, ends[MAX_DEPTH];
    char path[MAX_NAME];
};

/* ---- names ---------------------------------------------------------------------------------------- */

static uint32_t hash(const char *name) /* FNV-1a */
{
    uint32_t h = 2166136261u;
    for (; *name; name++)
        h = (h ^ (unsigned char)*name) * 16777619u;
    return h;
}

/* The slot of a name, or the empty one where it would be. */
static uint32_t *slot_of(const ig_params *p, const char *name)
{
    uint32_t i = hash(name) & (p->n_slots - 1);
    while (p->slots[i] && strcmp(p->entries[p->slots[i] - 1].name, name))
        i = (i + 1) & (p->n_slots - 1);
    return &p->slots[i];
}

static entry *find(const ig_params *p, const char *name)
{
    if (!p->n)
        return NULL;
    const uint32_t at = *slot_of(p, name);
    return at ? &p->entries[at - 1] : NULL;
}

/* Room for one more; false: no memory, and p is as before. */
static bool grow(ig_params *p)
{
    if (p->n < p->cap)
        return true;
    const ig_allocator *a = &p->ctx->allocator;
    const int64_t cap = p->cap ? 2 * p->cap : 32;
    entry *entries = ig__alloc(a, (size_t)cap * sizeof *entries);
    uint32_t *slots = ig__alloc_zero(a, 2 * (size_t)cap * sizeof *slots);
    if (!entries || !slots) {
        ig__free(a, entries);
        ig__free(a, slots);
        return false;
    }
    if (p->n)
        memcpy(entries, p->entries, (size_t)p->n * sizeof *entries);
    ig__free(a, p->entries);
    ig__free(a, p->slots);
    p->entries = entries;
    p->slots = slots;
    p->cap = cap;
    p->n_slots = (uint32_t)(2 * cap);
    for (int64_t i = 0; i < p->n; i++)
        *slot_of(p, entries[i].name) = (uint32_t)(i + 1);
    return true;
}

void ig_params_begin(ig_params *p, const char *fmt, ...)
{
    if (p->depth++ >= MAX_DEPTH) {
        (void)ig__fail_on(p->ctx, IG_ERR_LIMIT,
                          "params: names of more than %d levels at %s", MAX_DEPTH, p->path);
        return;
    }
    p->ends[p->depth - 1] = p->n_path;
    const size_t room = MAX_NAME - p->n_path;
    va_list args;
    va_start(args, fmt);
    const int n = vsnprintf(p->path + p->n_path, room, fmt, args);
    va_end(args);
    if (n < 0 || (size_t)n + 2 > room) {
        p->path[p->n_path] = 0;
        (void)ig__fail_on(p->ctx, IG_ERR_LIMIT,
                          "params: a name of more than %d bytes in %s", MAX_NAME - 1,
                          p->path);
        return;
    }
    p->n_path += (size_t)n + 1;
    p->path[p->n_path - 1] = '.';
    p->path[p->n_path] = 0;
}

void ig_params_end(ig_params *p)
{
    if (p->depth == 0) {
        (void)ig__fail_on(p->ctx, IG_ERR_ARGUMENT, "params: an end without a begin");
        return;
    }
    if (--p->depth < MAX_DEPTH) {
        p->n_path = p->ends[p->depth];
        p->path[p->n_path] = 0;
    }
}

/* ---- parameters ------------------------------------------------------------------------------------- */

static ig_tensor *start(ig_context *ctx, ig_init init, int n_dims, const int64_t *dims)
{
    switch (init.kind) {
    case IG_INIT_UNIFORM:
        return ig_uniform(ctx, IG_DTYPE_F32, n_dims, dims, -init.value, init.value);
    case IG_INIT_NORMAL:
        return ig_normal(ctx, IG_DTYPE_F32, n_dims, dims, 0, init.value);
    case IG_INIT_ONES:
        return ig_ones(ctx, IG_DTYPE_F32, n_dims, dims);
    case IG_INIT_ZEROS:
        break;
    }
    return ig_zeros(ctx, IG_DTYPE_F32, n_dims, dims);
}

/* Takes over a count of x. */
static ig_tensor *enter(ig_params *p, const char *name, ig_tensor *x, bool fixed)
{
    char *copy = ig__strdup(&p->ctx->allocator, name, strlen(name));
    if (!copy || !grow(p)) {
        ig__free(&p->ctx->allocator, copy);
        ig__release(x);
        return ig__fail_on(p->ctx, IG_ERR_MEMORY, "param: no memory for %s", name);
    }
    p->entries[p->n++] = (entry){.name = copy, .tensor = x, .fixed = fixed};
    *slot_of(p, name) = (uint32_t)p->n;
    return fixed ? x : ig_tensor_require_grad(x, true);
}

static ig_tensor *make(ig_params *p, const char *name, ig_init init, int n_dims,
                       const int64_t *dims)
{
    ig_scope *scope = ig_scope_begin(p->ctx);
    if (!scope)
        return NULL;
    ig_tensor *x = start(p->ctx, init, n_dims, dims);
    if (x)
        ig__retain(x);
    ig_scope_end(scope);
    return x ? enter(p, name, x, init.fixed) : NULL;
}

ig_tensor *ig_param(ig_params *p, const char *name, ig_init init, int n_dims,
                    const int64_t *dims)
{
    char full[MAX_NAME], found[IG_TYPE_TEXT], wanted[IG_TYPE_TEXT];
    ig__type type;
    if (ig__context_failed(p->ctx))
        return NULL;
    const int n = snprintf(full, sizeof full, "%s%s", p->path, name);
    if (n < 0 || (size_t)n >= sizeof full)
        return ig__fail_on(p->ctx, IG_ERR_LIMIT,
                           "params: a name of more than %d bytes in %s", MAX_NAME - 1,
                           p->path);
    const entry *e = find(p, full);
    if (!e && p->sealed)
        return ig__fail_on(p->ctx, IG_ERR_ARGUMENT, "param: there is no %s", full);
    if (!e)
        return make(p, full, init, n_dims, dims);
    if (!ig__type_of(&type, p->ctx, "param", IG_DTYPE_F32, n_dims, dims))
        return NULL;
    if (!ig__type_same(&e->tensor->type, &type))
        return ig__fail_on(p->ctx, IG_ERR_SHAPE, "param: %s is %s, wanted %s", full,
                           ig__type_text(&e->tensor->type, found, sizeof found),
                           ig__type_text(&type, wanted, sizeof wanted));
    return e->tensor;
}

ig_status ig_params_create(ig_params **params_out, ig_context *ctx, ig_error *err)
{
    *params_out = ig__alloc_zero(&ctx->allocator, sizeof **params_out);
    if (!*params_out)
        return ig__fail_memory(err, "params", sizeof **params_out);
    (*params_out)->ctx = ctx;
    return IG_OK;
}

void ig_params_destroy(ig_params *p)
{
    if (!p)
        return;
    const ig_allocator *a = &p->ctx->allocator;
    for (int64_t i = 0; i < p->n; i++) {
        ig__release(p->entries[i].tensor);
        ig__free(a, p->entries[i].name);
    }
    ig__free(a, p->entries);
    ig__free(a, p->slots);
    ig__free(a, p);
}

void ig_params_set_deviation(ig_params *p, double deviation)
{
    p->deviation = deviation;
}

double ig__params_deviation(const ig_params *p)
{
    return p->deviation;
}

void ig_params_seal(ig_params *p)
{
    p->sealed = true;
}

void ig_params_set_training(ig_params *p, bool training)
{
    p->evaluating = !training;
}

bool ig_params_is_training(const ig_params *p)
{
    return !p->evaluating;
}

int64_t ig_params_freeze(ig_params *p, const char *prefix, bool frozen)
{
    int64_t n = 0;
    for (int64_t i = 0; i < p->n; i++) {
        const entry *e = &p->entries[i];
        if (e->fixed || strncmp(e->name, prefix, strlen(prefix)))
            continue;
        ig_tensor_require_grad(e->tensor, !frozen);
        n++;
    }
    return n;
}

/* ---- inspect ---------------------------------------------------------------------------------------- */

int64_t ig_params_count(const ig_params *p)
{
    return p->n;
}

const char *ig_params_name(const ig_params *p, int64_t i)
{
    return i >= 0 && i < p->n ? p->entries[i].name : NULL;
}

ig_tensor *ig_params_tensor(const ig_params *p, int64_t i)
{
    return i >= 0 && i < p->n ? p->entries[i].tensor : NULL;
}

ig_tensor *ig_params_find(const ig_params *p, const char *name)
{
    const entry *e = find(p, name);
    return e ? e->tensor : NULL;
}

int64_t ig_params_elements(const ig_params *p)
{
    int64_t n = 0;
    for (int64_t i = 0; i < p->n; i++)
        n += p->entries[i].fixed ? 0 : p->entries[i].tensor->n;
    return n;
}

/* ---- files ------------------------------------------------------------------------------------------- */

static ig_status check_entry(const entry *e, const ig_tensor_file *file, const char *path,
                             ig_error *err)
{
    char wanted[IG_TYPE_TEXT];
    const int64_t at = ig_tensor_file_find(file, e->name);
    if (at < 0)
        return ig__fail(err, IG_ERR_FORMAT, "%s: there is no tensor %s", path, e->name);
    const ig_tensor_info info = ig_tensor_file_info(file, at);
    bool same = info.n_dims == e->tensor->type.n_dims;
    for (int i = 0; same && i < info.n_dims; i++)
        same = info.dims[i] == e->tensor->type.dims[i].plus;
    if (same)
        return IG_OK;
    return ig__fail(err, IG_ERR_SHAPE, "%s: tensor %s has another shape than %s", path,
                    e->name, ig__type_text(&e->tensor->type, wanted, sizeof wanted));
}

/* A count that PyTorch keeps beside running statistics. */
static bool is_count(const char *name)
{
    static const char word[] = "num_batches_tracked";
    const size_t n = strlen(name), m = sizeof word - 1;
    return n >= m && !strcmp(name + n - m, word);
}

static ig_status check_file(const ig_params *p, const ig_tensor_file *file,
                            const char *path, ig_error *err)
{
    if (p->n == 0 && ig_tensor_file_count(file) > 0)
        return ig__fail(err, IG_ERR_ARGUMENT,
                        "%s: the network has no parameters yet: run it once, then load",
                        path);
    for (int64_t i = 0; i < p->n; i++)
        IG_TRY(check_entry(&p->entries[i], file, path, err));
    for (int64_t i = 0; i < ig_tensor_file_count(file); i++) {
        const char *name = ig_tensor_file_info(file, i).name;
        if (!find(p, name) && !is_count(name))
            return ig__fail(err, IG_ERR_UNSUPPORTED, "%s: the network has no parameter %s",
                            path, name);
    }
    return IG_OK;
}

ig_status ig_params_load(ig_params *p, const char *path, ig_error *err)
{
    ig_tensor_file *file;
    IG_TRY(ig_tensor_file_open(&file, p->ctx, path, err));
    const bool was = ig_grad_enable(p->ctx, false); /* leaves are written */
    ig_status status = check_file(p, file, path, err);
    for (int64_t i = 0; status == IG_OK && i < p->n; i++)
        status =
            ig_tensor_file_read_into(file, p->entries[i].name, p->entries[i].tensor, err);
    ig_grad_enable(p->ctx, was);
    ig_tensor_file_close(file);
    return status;
}

ig_status ig_params_save(const ig_params *p, const char *path, ig_error *err)
{
    const ig_allocator *a = &p->ctx->allocator;
    const size_t bytes = (size_t)p->n * sizeof(ig_named_tensor);
    ig_named_tensor *all = ig__alloc(a, bytes);
    if (!all)
        return ig__fail_memory(err, "params", bytes);
    for (int64_t i = 0; i < p->n; i++)
        all[i] = (ig_named_tensor){p->entries[i].name, p->entries[i].tensor};
    const ig_metadata format = {"format", "pt"};
    const ig_status status = ig_tensors_save(path, all, p->n, &format, 1, err);
    ig__free(a, all);
    return status;
}
