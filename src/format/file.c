/* The public view of a GGUF file, for listings: ig_file_*. */
#include "ingot/model.h"

#include "format/gguf_int.h"
#include "tensor/context.h"

#include <stdio.h>

enum { NUMBER_BYTES = 12 }; /* a type's number as text */

struct ig_file {
    const ig_allocator *a; /* the context's */
    ig__gguf *gguf;
    char (*numbers)[NUMBER_BYTES]; /* [n_tensors] of their types */
};

ig_status ig_file_open(ig_file **file_out, ig_context *ctx, const char *path, ig_error *err)
{
    *file_out = NULL;
    const ig_allocator *a = &ctx->allocator;
    ig_file *file = ig__alloc_zero(a, sizeof *file);
    if (!file)
        return ig__fail_memory(err, path, sizeof *file);
    file->a = a;
    ig_status status = ig__gguf_open(&file->gguf, a, path, err);
    if (status != IG_OK)
        goto done;
    const int64_t n = ig__gguf_n_tensors(file->gguf);
    file->numbers = ig__alloc(a, (size_t)n * NUMBER_BYTES);
    if (!file->numbers) {
        status = ig__fail_memory(err, path, (size_t)n * NUMBER_BYTES);
        goto done;
    }
    for (int64_t i = 0; i < n; i++)
        snprintf(file->numbers[i], NUMBER_BYTES, "%" PRIu32,
                 ig__gguf_tensor_at(file->gguf, i)->file_type);
    *file_out = file;
    file = NULL;
done:
    ig_file_close(file);
    return status;
}

void ig_file_close(ig_file *file)
{
    if (!file)
        return;
    ig__gguf_close(file->gguf);
    const ig_allocator *a = file->a;
    ig__free(a, file->numbers);
    ig__free(a, file);
}

int64_t ig_file_n_keys(const ig_file *file)
{
    return ig__gguf_n_keys(file->gguf);
}

const char *ig_file_key(const ig_file *file, int64_t i)
{
    return ig__gguf_key(file->gguf, i);
}

size_t ig_file_value_text(const ig_file *file, int64_t i, char *text, size_t cap)
{
    return ig__gguf_value_text(file->gguf, i, text, cap);
}

int64_t ig_file_n_tensors(const ig_file *file)
{
    return ig__gguf_n_tensors(file->gguf);
}

ig_file_tensor ig_file_get_tensor(const ig_file *file, int64_t i)
{
    const ig__gguf_tensor *t = ig__gguf_tensor_at(file->gguf, i);
    if (!t)
        return (ig_file_tensor){0};
    ig__gguf_layout layout;
    const bool known = ig__gguf_layout_of(&layout, t->file_type);
    return (ig_file_tensor){
        .name = t->name,
        .dtype = known ? layout.name : file->numbers[i],
        .n_dims = t->n_dims,
        .dims = {t->dims[0], t->dims[1], t->dims[2], t->dims[3]},
        .offset = t->offset,
        .bytes = t->bytes,
    };
}
