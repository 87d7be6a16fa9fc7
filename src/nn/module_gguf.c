/* Models from GGUF files, for training: weights of any type that serving reads, as float32.
 *
 * Serving's capture checks the file first: sizes, every tensor's shape and type, and that none is left over.
 * A matrix then comes row by row through serving's packed form, whose unpacking is the reference of its type:
 *
 *   file -> 16 rows in the file's blocks -> a packed group -> rows of float32
 *
 * GGUF keeps rows 2i and 2i + 1 of a head of q and k for the pair that turns together; training files, and so
 * the parameters here, have them W/2 apart: those rows are put in their places.
 */
#include "nn/module_int.h"

#include "base/error.h"
#include "tensor/tensor.h"

#include <stdio.h>
#include <string.h>

typedef struct reader {
    ig_module *m;
    const ig__gguf *file;
    unsigned char *rows;  /* IG_GROUP rows as they are in the file */
    unsigned char *group; /* the same, packed */
    size_t rows_bytes, group_bytes;
} reader;

/* Where row r of the file belongs, in a matrix of q or k. */
static int64_t turned(const ig__config *c, int64_t r)
{
    const int64_t head = r / c->head_width, i = r % c->head_width, n = c->n_rotated;
    return i < n ? head * c->head_width + i % 2 * (n / 2) + i / 2 : r;
}

static bool is_turned(const char *name)
{
    long long layer;
    int at = 0;
    return sscanf(name, "blk.%lld.attn_%n", &layer, &at) == 1 && at &&
           (!strcmp(name + at, "q.weight") || !strcmp(name + at, "k.weight"));
}

static ig_status read_vector(const reader *r, const ig__gguf_tensor *t, float *to,
                             ig_error *err)
{
    IG_TRY(ig__gguf_read(r->file, t->offset, r->rows, (size_t)t->bytes, err));
    for (int64_t i = 0; i < t->dims[0]; i++) {
        uint16_t half;
        if (t->dtype == IG_DTYPE_F32)
            memcpy(to + i, r->rows + i * 4, 4);
        else {
            memcpy(&half, r->rows + i * 2, 2);
            to[i] = t->dtype == IG_DTYPE_F16 ? ig__f16_to_f32(half) : ig__bf16_to_f32(half);
        }
    }
    return IG_OK;
}

static ig_status read_matrix(const reader *r, const ig__gguf_tensor *t, float *to,
                             ig_error *err)
{
    const int64_t k = t->dims[0], n = t->dims[1];
    const size_t row_bytes = (size_t)t->bytes / (size_t)n;
    const bool turn = is_turned(t->name);
    for (int64_t first = 0; first < n; first += IG_GROUP) {
        const int64_t rows = n - first < IG_GROUP ? n - first : IG_GROUP;
        IG_TRY(ig__gguf_read(r->file, t->offset + (uint64_t)first * row_bytes, r->rows,
                             (size_t)rows * row_bytes, err));
        ig__pack_group(r->group, t->dtype, r->rows, row_bytes, rows, k);
        for (int64_t i = 0; i < rows; i++) {
            const int64_t row = turn ? turned(&r->m->config, first + i) : first + i;
            r->m->ctx->kernels->unpack_row[t->dtype](to + row * k, r->group, i, k);
        }
    }
    return IG_OK;
}

static ig_status read_parameters(reader *r, const ig__graph *g, ig_error *err)
{
    for (int32_t i = 0; i < g->n_params; i++) {
        char full[160];
        const char *name = g->params[i].name;
        const ig__gguf_tensor *t = ig__gguf_find_tensor(r->file, name);
        ig_tensor *x =
            ig_params_find(r->m->params, r->m->family->rename(full, sizeof full, name));
        if (!t || !x)
            return ig__fail(err, IG_ERR_UNSUPPORTED,
                            "%s: tensor %s: models in training have none",
                            ig__gguf_path(r->file), name);
        float *to = ig_tensor_data(x);
        IG_TRY(t->n_dims == 1 ? read_vector(r, t, to, err) : read_matrix(r, t, to, err));
    }
    return IG_OK;
}

/* The largest that read_* of these parameters asks for. */
static void measure(reader *r, const ig__graph *g)
{
    for (int32_t i = 0; i < g->n_params; i++) {
        const ig__gguf_tensor *t = ig__gguf_find_tensor(r->file, g->params[i].name);
        size_t bytes = (size_t)t->bytes, group = 0;
        if (t->n_dims > 1) {
            bytes = bytes / (size_t)t->dims[1] * IG_GROUP;
            group = ig__packed_group_bytes(t->dtype, t->dims[0]);
        }
        r->rows_bytes = bytes > r->rows_bytes ? bytes : r->rows_bytes;
        r->group_bytes = group > r->group_bytes ? group : r->group_bytes;
    }
}

static ig_status read_all(ig_module *m, const ig__gguf *file, const ig__graph *g,
                          ig_error *err)
{
    const ig_allocator *a = &m->ctx->allocator;
    reader r = {.m = m, .file = file};
    measure(&r, g);
    r.rows = ig__alloc(a, r.rows_bytes);
    r.group = ig__alloc(a, r.group_bytes);
    const ig_status status =
        r.rows && r.group ? read_parameters(&r, g, err)
                          : ig__fail_memory(err, "module", r.rows_bytes + r.group_bytes);
    ig__free(a, r.rows);
    ig__free(a, r.group);
    return status;
}

static ig_status build(ig_module *m, const ig__gguf *file, ig_error *err)
{
    const ig__family *serving;
    ig__graph g;
    IG_TRY(ig__family_of(&serving, file, err));
    m->family = ig__module_family_serving(serving);
    if (!m->family)
        return ig__fail(err, IG_ERR_UNSUPPORTED,
                        "%s: models of the family %s cannot be trained yet",
                        ig__gguf_path(file), serving->architecture);
    IG_TRY(ig__config_read(&m->config, serving, file, err));
    m->tied = !ig__gguf_find_tensor(file, "output.weight");
    IG_TRY(ig__model_capture(&g, serving, &m->config, file, &m->ctx->allocator, err));
    ig_status status = ig__module_make(m, err);
    if (status == IG_OK)
        status = read_all(m, file, &g, err);
    ig__graph_fini(&g);
    return status;
}

ig_status ig__module_open_gguf(ig_module **module_out, ig_context *ctx, const char *path,
                               ig_error *err)
{
    ig__gguf *file = NULL;
    *module_out = NULL;
    ig_module *m = ig__alloc_zero(&ctx->allocator, sizeof *m);
    if (!m)
        return ig__fail_memory(err, "module", sizeof *m);
    m->ctx = ctx;
    m->deviation = 0.02;
    ig_status status = ig__gguf_open(&file, &ctx->allocator, path, err);
    if (status == IG_OK)
        status = ig_params_create(&m->params, ctx, err);
    if (status == IG_OK)
        status = build(m, file, err);
    ig__gguf_close(file);
    if (status == IG_OK)
        *module_out = m;
    else
        ig_module_destroy(m);
    return status;
}
