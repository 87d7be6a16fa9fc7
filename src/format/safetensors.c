/* Reading safetensors files, as if a stranger had made each of them on purpose.
 *
 *   | n: u64 | header: n bytes of JSON | data                                          |
 *   {"__metadata__": {"k": "v"}, "w": {"dtype": "F32", "shape": [2,3], "data_offsets": [0,24]}, ..}
 *
 * Nothing is allocated by a number that the file has not paid for in bytes. Tensors are kept in the order
 * of their bytes; then "no hole, no overlap, all covered" is that each begins where the last has ended.
 */
#include "ingot/tensor_file.h"

#include "base/error.h"
#include "base/json.h"
#include "tensor/tensor.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEADER_MAX ((uint64_t)100000000) /* bytes; the format's own limit */

typedef struct entry {
    ig_tensor_info info;
    uint64_t begin; /* in the data */
} entry;

struct ig_tensor_file {
    ig_context *ctx;
    const ig_allocator *a;
    int fd;
    char *path;
    uint64_t data_at, data_bytes;
    ig__json *header;
    const ig__json *metadata; /* NULL: none */
    entry *entries;           /* [n] by begin, then by name */
    uint32_t *by_name;        /* [n] */
    int64_t n;
};

/* X(name in the file, dtype, bytes) */
#define TYPE_MAP(X)                                                                        \
    X("F32", IG_DTYPE_F32, 4)                                                              \
    X("F64", IG_DTYPE_F64, 8)                                                              \
    X("F16", IG_DTYPE_F16, 2)                                                              \
    X("BF16", IG_DTYPE_BF16, 2)                                                            \
    X("I8", IG_DTYPE_I8, 1)                                                                \
    X("U8", IG_DTYPE_U8, 1)                                                                \
    X("I32", IG_DTYPE_I32, 4)                                                              \
    X("I64", IG_DTYPE_I64, 8)                                                              \
    X("BOOL", IG_DTYPE_BOOL, 1)                                                            \
    X("I16", IG_DTYPE_COUNT, 2)                                                            \
    X("U16", IG_DTYPE_COUNT, 2)                                                            \
    X("U32", IG_DTYPE_COUNT, 4)                                                            \
    X("U64", IG_DTYPE_COUNT, 8)                                                            \
    X("F8_E4M3", IG_DTYPE_COUNT, 1)                                                        \
    X("F8_E5M2", IG_DTYPE_COUNT, 1)

static const struct type {
    const char *name;
    ig_dtype dtype;
    uint64_t bytes;
} types[] = {
#define ROW(name, dtype, bytes) {name, dtype, bytes},
    TYPE_MAP(ROW)
#undef ROW
};

static const struct type *type_of(const char *name)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (!strcmp(types[i].name, name))
            return &types[i];
    return NULL;
}

/* ---- bytes --------------------------------------------------------------------------------------- */

static ig_status read_at(const ig_tensor_file *f, uint64_t offset, void *dst, size_t bytes,
                         ig_error *err)
{
    for (size_t done = 0; done < bytes;) {
        const ssize_t n =
            pread(f->fd, (char *)dst + done, bytes - done, (off_t)(offset + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return ig__fail(err, IG_ERR_IO, "%s: byte %" PRIu64 ": cannot read: %m",
                            f->path, offset + done);
        if (n == 0)
            return ig__fail(err, IG_ERR_IO,
                            "%s: byte %" PRIu64
                            ": wanted are %zu bytes, found %zu: the file "
                            "has shrunk",
                            f->path, offset, bytes, done);
        done += (size_t)n;
    }
    return IG_OK;
}

static ig_status open_file(ig_tensor_file *f, uint64_t *bytes_out, ig_error *err)
{
    do
        f->fd = open(f->path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    while (f->fd < 0 && errno == EINTR);
    struct stat st;
    if (f->fd < 0 || fstat(f->fd, &st) != 0)
        return ig__fail(err, IG_ERR_IO, "%s: cannot open: %m", f->path);
    if (!S_ISREG(st.st_mode))
        return ig__fail(err, IG_ERR_IO, "%s: wanted a regular file", f->path);
    *bytes_out = (uint64_t)st.st_size;
    return IG_OK;
}

static ig_status read_header(ig_tensor_file *f, ig_error *err)
{
    uint64_t file_bytes = 0, n = 0;
    unsigned char length[8];
    IG_TRY(open_file(f, &file_bytes, err));
    if (file_bytes < sizeof length)
        return ig__fail(err, IG_ERR_FORMAT,
                        "%s: the file has %" PRIu64 " bytes, a length of 8 was wanted",
                        f->path, file_bytes);
    IG_TRY(read_at(f, 0, length, sizeof length, err));
    for (int i = 8; i-- > 0;)
        n = n << 8 | length[i];
    const uint64_t left = file_bytes - sizeof length;
    if (n > left || n > HEADER_MAX)
        return ig__fail(
            err, IG_ERR_FORMAT,
            "%s: is no safetensors file: byte 0: the header's length is %" PRIu64
            ", %" PRIu64 " bytes are left, allowed are %" PRIu64,
            f->path, n, left, HEADER_MAX);
    f->data_at = sizeof length + n;
    f->data_bytes = left - n;
    char *text = ig__alloc(f->a, (size_t)n);
    if (!text)
        return ig__fail_memory(err, f->path, (size_t)n);
    ig_error why;
    ig_status status = read_at(f, sizeof length, text, (size_t)n, err);
    if (status == IG_OK) {
        status = ig__json_parse_unique(&f->header, text, (size_t)n, &why);
        if (status != IG_OK)
            ig__fail(err, status, "%s: header: %s", f->path, why.message);
    }
    ig__free(f->a, text);
    return status;
}

/* ---- the header ------------------------------------------------------------------------------------ */

/* "file: tensor 'w': .." with the name cut where it is long. */
#define fail_tensor(f, err, name, fmt, ...)                                                \
    ig__fail(err, IG_ERR_FORMAT, "%s: tensor '%.80s': " fmt, (f)->path, name, __VA_ARGS__)

static bool is_count(const ig__json *v)
{
    return v && ig__json_kind_of(v) == IG_JSON_INT && ig__json_int(v) >= 0;
}

static ig_status read_shape(const ig_tensor_file *f, entry *e, const ig__json *shape,
                            const struct type *type, ig_error *err)
{
    const char *name = e->info.name;
    if (!shape || ig__json_kind_of(shape) != IG_JSON_ARRAY ||
        ig__json_length(shape) > IG_MAX_DIMS)
        return fail_tensor(f, err, name, "shape is not a list of at most %d sizes",
                           IG_MAX_DIMS);
    uint64_t bytes = type->bytes;
    e->info.n_dims = (int)ig__json_length(shape);
    for (int i = 0; i < e->info.n_dims; i++) {
        const ig__json *d = ig__json_at(shape, (size_t)i);
        if (!is_count(d))
            return fail_tensor(f, err, name, "shape[%d] is not a size", i);
        e->info.dims[i] = ig__json_int(d);
        if (__builtin_mul_overflow(bytes, (uint64_t)e->info.dims[i], &bytes))
            return fail_tensor(f, err, name, "shape[%d] is %lld: more bytes than can be", i,
                               (long long)e->info.dims[i]);
    }
    if (bytes > f->data_bytes)
        return fail_tensor(f, err, name,
                           "its shape wants %" PRIu64 " bytes, the data has %" PRIu64,
                           bytes, f->data_bytes);
    e->info.bytes = (size_t)bytes;
    return IG_OK;
}

static ig_status read_offsets(const ig_tensor_file *f, entry *e, const ig__json *offsets,
                              ig_error *err)
{
    const char *name = e->info.name;
    if (!offsets || ig__json_kind_of(offsets) != IG_JSON_ARRAY ||
        ig__json_length(offsets) != 2 || !is_count(ig__json_at(offsets, 0)) ||
        !is_count(ig__json_at(offsets, 1)))
        return fail_tensor(f, err, name, "data_offsets is not [begin, end]%s", "");
    const uint64_t begin = (uint64_t)ig__json_int(ig__json_at(offsets, 0));
    const uint64_t end = (uint64_t)ig__json_int(ig__json_at(offsets, 1));
    if (end < begin || end > f->data_bytes || end - begin != e->info.bytes)
        return fail_tensor(f, err, name,
                           "data_offsets are [%" PRIu64 ",%" PRIu64
                           "], wanted are %zu bytes inside %" PRIu64,
                           begin, end, e->info.bytes, f->data_bytes);
    e->begin = begin;
    return IG_OK;
}

static ig_status read_entry(const ig_tensor_file *f, entry *e, void *it, ig_error *err)
{
    size_t n_name, n_type = 0;
    *e = (entry){.info.name = ig__json_key(it, &n_name)};
    const char *name = e->info.name;
    if (strlen(name) != n_name)
        return fail_tensor(f, err, name, "the name holds a zero byte%s", "");
    const ig__json *v = ig__json_value(it);
    if (ig__json_kind_of(v) != IG_JSON_OBJECT)
        return fail_tensor(f, err, name, "is not an object%s", "");
    const ig__json *dtype = ig__json_get(v, "dtype");
    const char *type_name = dtype && ig__json_kind_of(dtype) == IG_JSON_STRING
                                ? ig__json_string(dtype, &n_type)
                                : "";
    const struct type *type = type_of(type_name);
    if (!type)
        return fail_tensor(f, err, name, "dtype '%.20s' is not known", type_name);
    e->info.dtype = type->dtype;
    IG_TRY(read_shape(f, e, ig__json_get(v, "shape"), type, err));
    return read_offsets(f, e, ig__json_get(v, "data_offsets"), err);
}

static int by_begin(const void *a_, const void *b_)
{
    const entry *a = a_, *b = b_;
    const uint64_t a_end = a->begin + a->info.bytes, b_end = b->begin + b->info.bytes;
    if (a->begin != b->begin)
        return a->begin < b->begin ? -1 : 1;
    if (a_end != b_end)
        return a_end < b_end ? -1 : 1;
    return strcmp(a->info.name, b->info.name);
}

static int by_entry_name(const void *a, const void *b, void *entries_)
{
    const entry *entries = entries_;
    return strcmp(entries[*(const uint32_t *)a].info.name,
                  entries[*(const uint32_t *)b].info.name);
}

static ig_status check_cover(const ig_tensor_file *f, ig_error *err)
{
    uint64_t end = 0;
    for (int64_t i = 0; i < f->n; i++) {
        const entry *e = &f->entries[i];
        if (e->begin != end)
            return fail_tensor(f, err, e->info.name,
                               "begins at byte %" PRIu64
                               " of the data, the one before ends "
                               "at %" PRIu64,
                               e->begin, end);
        end += e->info.bytes;
    }
    if (end != f->data_bytes)
        return ig__fail(err, IG_ERR_FORMAT,
                        "%s: the tensors end at byte %" PRIu64
                        " of the data, which has %" PRIu64,
                        f->path, end, f->data_bytes);
    return IG_OK;
}

static ig_status check_metadata(const ig_tensor_file *f, ig_error *err)
{
    const ig__json *m = f->metadata;
    bool good = ig__json_kind_of(m) == IG_JSON_OBJECT;
    for (void *it = good ? ig__json_first(m) : NULL; it; it = ig__json_next(m, it))
        good &= ig__json_kind_of(ig__json_value(it)) == IG_JSON_STRING;
    return good ? IG_OK
                : ig__fail(err, IG_ERR_FORMAT, "%s: __metadata__ holds more than strings",
                           f->path);
}

static ig_status read_entries(ig_tensor_file *f, ig_error *err)
{
    if (ig__json_kind_of(f->header) != IG_JSON_OBJECT)
        return ig__fail(err, IG_ERR_FORMAT, "%s: the header is not an object", f->path);
    f->metadata = ig__json_get(f->header, "__metadata__");
    if (f->metadata)
        IG_TRY(check_metadata(f, err));
    const size_t n = ig__json_length(f->header);
    f->entries = ig__alloc(f->a, n * sizeof *f->entries);
    f->by_name = ig__alloc(f->a, n * sizeof *f->by_name);
    if (!f->entries || !f->by_name)
        return ig__fail_memory(err, f->path, n * sizeof *f->entries);
    for (void *it = ig__json_first(f->header); it; it = ig__json_next(f->header, it)) {
        size_t n_key;
        if (!strcmp(ig__json_key(it, &n_key), "__metadata__"))
            continue;
        IG_TRY(read_entry(f, &f->entries[f->n], it, err));
        f->n++;
    }
    qsort(f->entries, (size_t)f->n, sizeof *f->entries, by_begin);
    for (int64_t i = 0; i < f->n; i++)
        f->by_name[i] = (uint32_t)i;
    qsort_r(f->by_name, (size_t)f->n, sizeof *f->by_name, by_entry_name, f->entries);
    return check_cover(f, err);
}

/* ---- public --------------------------------------------------------------------------------------- */

ig_status ig_tensor_file_open(ig_tensor_file **file_out, ig_context *ctx, const char *path,
                              ig_error *err)
{
    *file_out = NULL;
    ig_tensor_file *f = ig__alloc_zero(&ctx->allocator, sizeof *f);
    if (!f)
        return ig__fail_memory(err, path, sizeof *f);
    f->ctx = ctx;
    f->a = &ctx->allocator;
    f->fd = -1;
    f->path = ig__strdup(f->a, path, strlen(path));
    ig_status status =
        f->path ? read_header(f, err) : ig__fail_memory(err, path, strlen(path));
    if (status == IG_OK)
        status = read_entries(f, err);
    if (status == IG_OK)
        *file_out = f;
    else
        ig_tensor_file_close(f);
    return status;
}

void ig_tensor_file_close(ig_tensor_file *f)
{
    if (!f)
        return;
    if (f->fd >= 0)
        close(f->fd);
    if (f->header)
        ig__json_destroy(f->header);
    ig__free(f->a, f->entries);
    ig__free(f->a, f->by_name);
    ig__free(f->a, f->path);
    ig__free(f->a, f);
}

int64_t ig_tensor_file_count(const ig_tensor_file *f)
{
    return f->n;
}

ig_tensor_info ig_tensor_file_info(const ig_tensor_file *f, int64_t i)
{
    return i >= 0 && i < f->n ? f->entries[i].info : (ig_tensor_info){0};
}

int64_t ig_tensor_file_find(const ig_tensor_file *f, const char *name)
{
    int64_t low = 0, high = f->n;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        const int order = strcmp(f->entries[f->by_name[middle]].info.name, name);
        if (!order)
            return f->by_name[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return -1;
}

const char *ig_tensor_file_metadata(const ig_tensor_file *f, const char *key)
{
    size_t n;
    const ig__json *v = f->metadata ? ig__json_get(f->metadata, key) : NULL;
    return v ? ig__json_string(v, &n) : NULL;
}

static const entry *find(const ig_tensor_file *f, const char *name, ig_error *err)
{
    const int64_t i = ig_tensor_file_find(f, name);
    if (i < 0) {
        ig__fail(err, IG_ERR_ARGUMENT, "%s: has no tensor '%.80s'", f->path, name);
        return NULL;
    }
    if (f->entries[i].info.dtype == IG_DTYPE_COUNT) {
        ig__fail(err, IG_ERR_UNSUPPORTED,
                 "%s: tensor '%.80s' has a type that tensors have not", f->path, name);
        return NULL;
    }
    return &f->entries[i];
}

ig_tensor *ig_tensor_file_read(const ig_tensor_file *f, const char *name, ig_error *err)
{
    const entry *e = find(f, name, err);
    if (!e)
        return NULL;
    ig__type type = {.dtype = e->info.dtype, .n_dims = e->info.n_dims};
    for (int i = 0; i < type.n_dims; i++)
        type.dims[i] = ig__dim_of(e->info.dims[i]);
    ig_tensor *x = ig__tensor_make(f->ctx, &type, "tensor_file_read");
    if (!x) {
        if (err)
            *err = f->ctx->error;
        ig_context_clear(f->ctx);
        return NULL;
    }
    if (read_at(f, f->data_at + e->begin, x->data, e->info.bytes, err) == IG_OK)
        return x;
    ig__release(ig__unscope(x));
    return NULL;
}

ig_status ig_tensor_file_read_into(const ig_tensor_file *f, const char *name, ig_tensor *x,
                                   ig_error *err)
{
    enum { CHUNK = 512 };
    char text[IG_TYPE_TEXT];
    double values[CHUNK];
    char bytes[CHUNK * 8];
    const entry *e = find(f, name, err);
    if (!e)
        return err ? err->status : IG_ERR_ARGUMENT;
    bool same = e->info.n_dims == x->type.n_dims;
    for (int i = 0; same && i < e->info.n_dims; i++)
        same = e->info.dims[i] == x->type.dims[i].plus;
    if (!same || !x->contiguous)
        return ig__fail(err, IG_ERR_SHAPE, "%s: tensor '%.80s' does not fit %s%s", f->path,
                        name, x->contiguous ? "" : "a view, ",
                        ig__type_text(&x->type, text, sizeof text));
    x->storage->version++;
    if (e->info.dtype == x->type.dtype)
        return read_at(f, f->data_at + e->begin, x->data, e->info.bytes, err);
    const size_t from = ig_dtype_block_bytes(e->info.dtype);
    const size_t to = ig_dtype_block_bytes(x->type.dtype);
    for (int64_t i = 0; i < x->n; i += CHUNK) {
        const int64_t n = x->n - i < CHUNK ? x->n - i : CHUNK;
        IG_TRY(read_at(f, f->data_at + e->begin + (size_t)i * from, bytes, (size_t)n * from,
                       err));
        ig__load(values, IG_COMPUTE_F64, bytes, e->info.dtype, 1, n);
        ig__store(x->data + (size_t)i * to, x->type.dtype, 1, values, IG_COMPUTE_F64, n);
    }
    return IG_OK;
}
