/* NumPy's .npz files: a zip archive of .npy files, whose names are the tensors' with ".npy" behind. */
#include "format/npy_int.h"
#include "format/zip.h"

#include "base/error.h"
#include "tensor/tensor.h"

#include <stdlib.h>
#include <string.h>

static const char ending[] = ".npy";
enum { ENDING = sizeof ending - 1 };

struct ig_npz {
    ig_context *ctx;
    char *path;
    ig__zip *zip;
    int64_t *members; /* [n] of the archive that are .npy files */
    char **names;     /* [n], without the ending */
    int64_t n;
};

static bool is_npy(const char *name)
{
    const size_t n = strlen(name);
    return n > ENDING && !strcmp(name + n - ENDING, ending);
}

static ig_status list(ig_npz *z, ig_error *err)
{
    const ig_allocator *a = &z->ctx->allocator;
    const int64_t n = ig__zip_count(z->zip);
    z->members = ig__alloc(a, (size_t)n * sizeof *z->members);
    z->names = ig__alloc_zero(a, (size_t)n * sizeof *z->names);
    if (!z->members || !z->names)
        return ig__fail_memory(err, z->path, (size_t)n * sizeof *z->names);
    for (int64_t i = 0; i < n; i++) {
        const char *name = ig__zip_name(z->zip, i);
        if (!is_npy(name))
            continue;
        z->members[z->n] = i;
        z->names[z->n] = ig__strdup(a, name, strlen(name) - ENDING);
        if (!z->names[z->n++])
            return ig__fail_memory(err, z->path, strlen(name));
    }
    return IG_OK;
}

ig_status ig_npz_open(ig_npz **npz_out, ig_context *ctx, const char *path, ig_error *err)
{
    const ig_allocator *a = &ctx->allocator;
    *npz_out = NULL;
    ig_npz *z = ig__alloc_zero(a, sizeof *z);
    if (!z)
        return ig__fail_memory(err, path, sizeof *z);
    z->ctx = ctx;
    z->path = ig__strdup(a, path, strlen(path));
    ig_status status = z->path ? ig__zip_open(&z->zip, a, z->path, err)
                               : ig__fail_memory(err, path, strlen(path));
    if (status == IG_OK)
        status = list(z, err);
    if (status == IG_OK)
        *npz_out = z;
    else
        ig_npz_close(z);
    return status;
}

void ig_npz_close(ig_npz *z)
{
    if (!z)
        return;
    const ig_allocator *a = &z->ctx->allocator;
    ig__zip_close(z->zip);
    for (int64_t i = 0; i < z->n; i++)
        ig__free(a, z->names[i]);
    ig__free(a, z->names);
    ig__free(a, z->members);
    ig__free(a, z->path);
    ig__free(a, z);
}

int64_t ig_npz_count(const ig_npz *z)
{
    return z->n;
}

const char *ig_npz_name(const ig_npz *z, int64_t i)
{
    return i >= 0 && i < z->n ? z->names[i] : NULL;
}

static ig_status read_member(void *user, void *out, size_t n, ig_error *err)
{
    return ig__zip_stream_read(user, out, n, err);
}

static ig_tensor *read_at(const ig_npz *z, int64_t i, ig_error *err)
{
    ig__zip_stream *stream;
    const int64_t member = z->members[i];
    if (ig__zip_stream_open(&stream, z->zip, member, err) != IG_OK)
        return NULL;
    ig__npy_source source = {read_member, stream, ig__zip_bytes(z->zip, member)};
    ig_tensor *x = ig__npy_read(z->ctx, z->path, &source, err);
    if (x && ig__zip_stream_check(stream, err) != IG_OK) {
        ig_tensor_release(x);
        x = NULL;
    }
    ig__zip_stream_close(stream);
    return x;
}

ig_tensor *ig_npz_read(const ig_npz *z, const char *name, ig_error *err)
{
    for (int64_t i = 0; i < z->n; i++)
        if (!strcmp(z->names[i], name))
            return read_at(z, i, err);
    ig__fail(err, IG_ERR_ARGUMENT, "%s: there is no tensor %.80s", z->path, name);
    return NULL;
}

/* ---- save ------------------------------------------------------------------------------------------ */

static ig_status add(ig__zip_writer *w, const ig_named_tensor *item, const char *path,
                     bool deflated, ig_error *err)
{
    const ig_allocator *a = &item->tensor->ctx->allocator;
    const size_t n = strlen(item->name);
    ig__npy_bytes bytes;
    IG_TRY(ig__npy_pack(&bytes, item->tensor, path, err));
    char *name = ig__alloc(a, n + sizeof ending);
    ig_status status = name ? IG_OK : ig__fail_memory(err, path, n);
    if (status == IG_OK) {
        memcpy(name, item->name, n);
        memcpy(name + n, ending, sizeof ending);
        const ig__zip_part parts[2] = {{bytes.header.data, bytes.header.n},
                                       {bytes.elements, bytes.n}};
        status = ig__zip_writer_add(w, name, parts, 2, deflated, err);
    }
    ig__free(a, name);
    ig__npy_bytes_fini(&bytes, a);
    return status;
}

/* Names that reading would refuse. */
static ig_status check_item(const ig_named_tensor *all, int64_t i, const char *path,
                            ig_error *err)
{
    const char *name = all[i].name;
    if (!all[i].tensor || !name)
        return ig__fail(err, IG_ERR_ARGUMENT, "%s: tensor %lld is NULL", path,
                        (long long)i);
    for (const char *p = name; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            return ig__fail(err, IG_ERR_ARGUMENT, "%s: the name of tensor %lld is no text",
                            path, (long long)i);
    if (!*name)
        return ig__fail(err, IG_ERR_ARGUMENT, "%s: tensor %lld has no name", path,
                        (long long)i);
    return IG_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static ig_status check_items(const ig_allocator *a, const ig_named_tensor *all, int64_t n,
                             const char *path, ig_error *err)
{
    const char **names = ig__alloc(a, (size_t)n * sizeof *names);
    if (!names)
        return ig__fail_memory(err, path, (size_t)n * sizeof *names);
    for (int64_t i = 0; i < n; i++)
        names[i] = all[i].name;
    qsort(names, (size_t)n, sizeof *names, by_name);
    ig_status status = IG_OK;
    for (int64_t i = 1; i < n && status == IG_OK; i++)
        if (!strcmp(names[i], names[i - 1]))
            status = ig__fail(err, IG_ERR_ARGUMENT, "%s: the name '%.80s' is taken", path,
                              names[i]);
    ig__free(a, names);
    return status;
}

ig_status ig_npz_save(const char *path, const ig_named_tensor *tensors, int64_t n,
                      bool compressed, ig_error *err)
{
    const ig_allocator system = ig__allocator_default();
    ig__zip_writer *w;
    for (int64_t i = 0; i < n; i++)
        IG_TRY(check_item(tensors, i, path, err));
    const ig_allocator *a = n ? &tensors[0].tensor->ctx->allocator : &system;
    IG_TRY(check_items(a, tensors, n, path, err));
    IG_TRY(ig__zip_writer_begin(&w, a, path, err));
    ig_status status = IG_OK;
    for (int64_t i = 0; i < n && status == IG_OK; i++)
        status = add(w, &tensors[i], path, compressed, err);
    return ig__zip_writer_end(w, status, err);
}
