/* Writing safetensors files.
 *
 * The file is whole or not there (new_file.h). Tensors of wider elements come first, so that all are aligned.
 */
#include "ingot/tensor_file.h"

#include "base/buffer.h"
#include "base/error.h"
#include "format/new_file.h"
#include "tensor/tensor.h"

#include <stdlib.h>
#include <string.h>

static const char *const type_names[IG_DTYPE_COUNT] = {
    [IG_DTYPE_F32] = "F32",   [IG_DTYPE_F64] = "F64", [IG_DTYPE_F16] = "F16",
    [IG_DTYPE_BF16] = "BF16", [IG_DTYPE_I8] = "I8",   [IG_DTYPE_U8] = "U8",
    [IG_DTYPE_I32] = "I32",   [IG_DTYPE_I64] = "I64", [IG_DTYPE_BOOL] = "BOOL",
};

typedef struct place {
    const ig_named_tensor *item;
    size_t begin;
} place;

static void append_json(ig__buffer *b, const char *text)
{
    ig__buffer_append_char(b, '"');
    for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
        if (*p == '"' || *p == '\\')
            ig__buffer_printf(b, "\\%c", *p);
        else if (*p < 0x20)
            ig__buffer_printf(b, "\\u%04x", *p);
        else
            ig__buffer_append_char(b, (char)*p);
    }
    ig__buffer_append_char(b, '"');
}

static void append_entry(ig__buffer *b, const place *p)
{
    const ig_tensor *x = p->item->tensor;
    append_json(b, p->item->name);
    ig__buffer_printf(b, ":{\"dtype\":\"%s\",\"shape\":[", type_names[x->type.dtype]);
    for (int i = 0; i < x->type.n_dims; i++)
        ig__buffer_printf(b, "%s%lld", i ? "," : "", (long long)x->type.dims[i].plus);
    ig__buffer_printf(b, "],\"data_offsets\":[%zu,%zu]}", p->begin,
                      p->begin + ig_tensor_bytes(x));
}

static void append_header(ig__buffer *b, const place *places, int64_t n,
                          const ig_metadata *metadata, int64_t n_metadata)
{
    const char zeros[8] = {0};
    ig__buffer_append(b, zeros, 8);
    ig__buffer_append_char(b, '{');
    if (n_metadata)
        ig__buffer_append_text(b, "\"__metadata__\":{");
    for (int64_t i = 0; i < n_metadata; i++) {
        ig__buffer_append_text(b, i ? "," : "");
        append_json(b, metadata[i].key);
        ig__buffer_append_char(b, ':');
        append_json(b, metadata[i].value);
    }
    ig__buffer_append_text(b, !n_metadata ? "" : n ? "}," : "}");
    for (int64_t i = 0; i < n; i++) {
        ig__buffer_append_text(b, i ? "," : "");
        append_entry(b, &places[i]);
    }
    ig__buffer_append_char(b, '}');
    while (b->n % 8 && !b->failed)
        ig__buffer_append_char(b, ' ');
    for (int i = 0; i < 8 && !b->failed; i++)
        b->data[i] = (char)(uint64_t)((b->n - 8) >> (8 * i));
}

/* Wider elements first; else as given. */
static int by_width(const void *a_, const void *b_)
{
    const place *a = a_, *b = b_;
    const size_t wa = ig_dtype_block_bytes(a->item->tensor->type.dtype);
    const size_t wb = ig_dtype_block_bytes(b->item->tensor->type.dtype);
    if (wa != wb)
        return wa > wb ? -1 : 1;
    return a->item < b->item ? -1 : a->item > b->item;
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(const place *const *)a)->item->name,
                  (*(const place *const *)b)->item->name);
}

static ig_status check_names(const ig_allocator *a, const place *places, int64_t n,
                             const char *path, ig_error *err)
{
    const place **sorted = ig__alloc(a, (size_t)n * sizeof *sorted);
    if (!sorted)
        return ig__fail_memory(err, path, (size_t)n * sizeof *sorted);
    for (int64_t i = 0; i < n; i++)
        sorted[i] = &places[i];
    qsort(sorted, (size_t)n, sizeof *sorted, by_name);
    ig_status status = IG_OK;
    for (int64_t i = 0; i < n && status == IG_OK; i++)
        if (!strcmp(sorted[i]->item->name, "__metadata__") ||
            (i && !strcmp(sorted[i]->item->name, sorted[i - 1]->item->name)))
            status = ig__fail(err, IG_ERR_ARGUMENT, "%s: the name '%.80s' is taken", path,
                              sorted[i]->item->name);
    ig__free(a, sorted);
    return status;
}

/* The elements in order; a view's through a buffer of its own. */
static ig_status write_tensor(ig__new_file *f, const ig_tensor *x, ig_error *err)
{
    const size_t bytes = ig_tensor_bytes(x);
    if (x->contiguous)
        return ig__new_file_write(f, x->data, bytes, err);
    const ig_allocator *a = &x->ctx->allocator;
    char *packed = ig__alloc(a, bytes);
    if (!packed)
        return ig__fail_memory(err, f->path, bytes);
    ig_status status = ig_tensor_read(x, packed, bytes, err);
    if (status == IG_OK)
        status = ig__new_file_write(f, packed, bytes, err);
    ig__free(a, packed);
    return status;
}

static ig_status write_file(const ig_allocator *a, const char *path,
                            const ig__buffer *header, const place *places, int64_t n,
                            ig_error *err)
{
    ig__new_file f;
    IG_TRY(ig__new_file_begin(&f, a, path, err));
    ig_status status = ig__new_file_write(&f, header->data, header->n, err);
    for (int64_t i = 0; i < n && status == IG_OK; i++)
        status = write_tensor(&f, places[i].item->tensor, err);
    return ig__new_file_end(&f, status, err);
}

ig_status ig_tensors_save(const char *path, const ig_named_tensor *tensors, int64_t n,
                          const ig_metadata *metadata, int64_t n_metadata, ig_error *err)
{
    for (int64_t i = 0; i < n; i++)
        if (!tensors[i].tensor || !tensors[i].name)
            return ig__fail(err, IG_ERR_ARGUMENT, "%s: tensor %lld is NULL", path,
                            (long long)i);
    const ig_allocator system = ig__allocator_default();
    const ig_allocator *a = n ? &tensors[0].tensor->ctx->allocator : &system;
    place *places = ig__alloc(a, (size_t)n * sizeof *places);
    if (!places)
        return ig__fail_memory(err, path, (size_t)n * sizeof *places);
    for (int64_t i = 0; i < n; i++)
        places[i].item = &tensors[i];
    qsort(places, (size_t)n, sizeof *places, by_width);
    size_t at = 0;
    for (int64_t i = 0; i < n; i++) {
        places[i].begin = at;
        at += ig_tensor_bytes(places[i].item->tensor);
    }
    ig__buffer header = ig__buffer_init(a);
    ig_status status = check_names(a, places, n, path, err);
    if (status == IG_OK) {
        append_header(&header, places, n, metadata, n_metadata);
        status = header.failed ? ig__fail_memory(err, path, header.n)
                               : write_file(a, path, &header, places, n, err);
    }
    ig__buffer_fini(&header);
    ig__free(a, places);
    return status;
}
