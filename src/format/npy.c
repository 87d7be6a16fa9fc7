/* NumPy's .npy files.
 *
 *   | \x93NUMPY | major, minor: u8 | n: u16 (major 1) or u32 | header: n bytes | elements |
 *   {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
 *
 * The header is a Python literal of that one form: keys in any order, each once. It is parsed as exactly
 * that. Format: NumPy Enhancement Proposal 1.
 */
#include "format/npy_int.h"

#include "base/error.h"
#include "format/new_file.h"
#include "tensor/tensor.h"

#include <stdio.h>
#include <string.h>

enum { HEADER_MAX = 1 << 16 };

static const struct {
    const char *descr; /* without the byte order */
    ig_dtype dtype;
} kinds[] = {{"b1", IG_DTYPE_BOOL}, {"i1", IG_DTYPE_I8},  {"u1", IG_DTYPE_U8},
             {"i4", IG_DTYPE_I32},  {"i8", IG_DTYPE_I64}, {"f2", IG_DTYPE_F16},
             {"f4", IG_DTYPE_F32},  {"f8", IG_DTYPE_F64}};
enum { N_KINDS = sizeof kinds / sizeof *kinds };

typedef struct reader {
    ig__npy_source *source;
    const char *path;
    char *header; /* [n] and a 0 */
    const char *at;
    ig_error *err;
    ig__type type;
    bool fortran;
} reader;

/* ---- the header ---------------------------------------------------------------------------------- */

static ig_status bad(const reader *r, const char *what)
{
    return ig__fail(r->err, IG_ERR_FORMAT, "%s: header: %s at '%.24s'", r->path, what,
                    r->at);
}

static bool take(reader *r, const char *word)
{
    while (*r->at == ' ' || *r->at == '\n')
        r->at++;
    const size_t n = strlen(word);
    if (strncmp(r->at, word, n) != 0)
        return false;
    r->at += n;
    return true;
}

static ig_status read_descr(reader *r)
{
    take(r, "'");
    const char order = *r->at;
    if (order == '>')
        return ig__fail(r->err, IG_ERR_UNSUPPORTED, "%s: elements are big endian", r->path);
    if (order != '<' && order != '|' && order != '=')
        return bad(r, "descr is not a type");
    r->at++;
    for (int i = 0; i < N_KINDS; i++)
        if (!strncmp(r->at, kinds[i].descr, 2) && r->at[2] == '\'') {
            r->type.dtype = kinds[i].dtype;
            r->at += 3;
            return IG_OK;
        }
    return ig__fail(r->err, IG_ERR_UNSUPPORTED, "%s: elements of type '%.12s", r->path,
                    r->at);
}

static ig_status read_shape(reader *r)
{
    if (!take(r, "("))
        return bad(r, "shape is not a tuple");
    while (!take(r, ")")) {
        int64_t size = 0;
        bool digits = false;
        take(r, "");
        for (; *r->at >= '0' && *r->at <= '9'; r->at++, digits = true)
            if (!ig__mul_i64(&size, size, 10) ||
                __builtin_add_overflow(size, *r->at - '0', &size))
                return bad(r, "a size is too large");
        if (!digits || r->type.n_dims == IG_MAX_DIMS)
            return bad(r, digits ? "more than 8 dimensions" : "a size was wanted");
        r->type.dims[r->type.n_dims++] = ig__dim_of(size);
        if (!take(r, ",") && *r->at != ')')
            return bad(r, "a comma was wanted");
    }
    return IG_OK;
}

static ig_status read_dict(reader *r)
{
    enum { DESCR = 1, ORDER = 2, SHAPE = 4 };
    int seen = 0;
    if (!take(r, "{"))
        return bad(r, "a dictionary was wanted");
    while (!take(r, "}")) {
        int key = 0;
        if (take(r, "'descr':")) {
            key = DESCR;
            IG_TRY(read_descr(r));
        } else if (take(r, "'fortran_order':")) {
            key = ORDER;
            r->fortran = take(r, "True");
            if (!r->fortran && !take(r, "False"))
                return bad(r, "True or False was wanted");
        } else if (take(r, "'shape':")) {
            key = SHAPE;
            if (seen & SHAPE)
                return bad(r, "shape stands twice");
            IG_TRY(read_shape(r));
        }
        if (!key || seen & key)
            return bad(r, "an unknown or repeated key");
        seen |= key;
        if (!take(r, ",") && *r->at != '}')
            return bad(r, "a comma was wanted");
    }
    take(r, "");
    if (*r->at || seen != (DESCR | ORDER | SHAPE))
        return bad(r, *r->at ? "more than a dictionary" : "a key is missing");
    return IG_OK;
}

/* n bytes; `missing` says what is not there if the source ends before. */
static ig_status pull(reader *r, void *out, size_t n, const char *missing)
{
    if (n > r->source->left)
        return ig__fail(r->err, IG_ERR_FORMAT, "%s: %s", r->path, missing);
    r->source->left -= n;
    return r->source->read(r->source->user, out, n, r->err);
}

static ig_status read_header(reader *r, const ig_allocator *a)
{
    unsigned char start[12];
    IG_TRY(pull(r, start, 10, "is no .npy file"));
    if (memcmp(start, "\x93NUMPY", 6) != 0)
        return ig__fail(r->err, IG_ERR_FORMAT, "%s: is no .npy file", r->path);
    size_t n = (size_t)start[8] | (size_t)start[9] << 8;
    if (start[6] < 1 || start[6] > 3)
        return ig__fail(r->err, IG_ERR_UNSUPPORTED, "%s: version %d, known are 1 to 3",
                        r->path, start[6]);
    if (start[6] > 1) {
        IG_TRY(pull(r, start + 10, 2, "the header is cut off"));
        n |= (size_t)start[10] << 16 | (size_t)start[11] << 24;
    }
    if (n > HEADER_MAX)
        return ig__fail(r->err, IG_ERR_FORMAT,
                        "%s: the header has %zu bytes, allowed are %d", r->path, n,
                        HEADER_MAX);
    r->header = ig__alloc_zero(a, n + 1);
    if (!r->header)
        return ig__fail_memory(r->err, r->path, n + 1);
    IG_TRY(pull(r, r->header, n, "the header is cut off"));
    r->at = r->header;
    return read_dict(r);
}

/* The source must hold exactly the elements; checked before they get memory. */
static ig_status check_size(const reader *r)
{
    uint64_t bytes = ig_dtype_block_bytes(r->type.dtype);
    for (int i = 0; i < r->type.n_dims; i++)
        if (__builtin_mul_overflow(bytes, (uint64_t)r->type.dims[i].plus, &bytes))
            return ig__fail(r->err, IG_ERR_FORMAT, "%s: shape: more bytes than can be",
                            r->path);
    if (r->source->left == bytes)
        return IG_OK;
    return ig__fail(r->err, IG_ERR_FORMAT, "%s: the shape wants %llu bytes, there are %llu",
                    r->path, (unsigned long long)bytes,
                    (unsigned long long)r->source->left);
}

/* ---- load ------------------------------------------------------------------------------------------ */

/* Fortran order: the file's dimensions run the other way; a view turns them round. */
static ig_tensor *turned(ig_tensor *x, const ig__type *type)
{
    int64_t strides[IG_MAX_DIMS] = {0}, next = 1;
    for (int i = 0; i < type->n_dims; i++) {
        strides[i] = next;
        next *= type->dims[i].plus ? type->dims[i].plus : 1;
    }
    ig_tensor *y = ig__tensor_view(x, type, strides, x->data);
    if (y)
        ig__release(ig__unscope(x)); /* the view counts it */
    return y;
}

static ig_tensor *read_tensor(reader *r, ig_context *ctx)
{
    ig_tensor *x = ig__tensor_make(ctx, &r->type, "npy_load");
    if (x && pull(r, x->data, ig_tensor_bytes(x), "") != IG_OK) {
        ig__release(ig__unscope(x));
        return NULL;
    }
    if (x && r->fortran)
        x = turned(x, &r->type);
    if (!x) {
        if (r->err)
            *r->err = ctx->error;
        ig_context_clear(ctx);
    }
    return x;
}

ig_tensor *ig__npy_read(ig_context *ctx, const char *path, ig__npy_source *source,
                        ig_error *err)
{
    reader r = {.source = source, .path = path, .err = err};
    ig_tensor *x = NULL;
    if (ig__context_failed(ctx)) {
        ig__fail(err, ig_context_status(ctx), "%s", ig_context_message(ctx));
        return NULL;
    }
    if (read_header(&r, &ctx->allocator) == IG_OK && check_size(&r) == IG_OK)
        x = read_tensor(&r, ctx);
    ig__free(&ctx->allocator, r.header);
    return x;
}

typedef struct plain_file {
    FILE *f;
    const char *path;
} plain_file;

static ig_status read_plain(void *user, void *out, size_t n, ig_error *err)
{
    const plain_file *p = user;
    if (n && fread(out, 1, n, p->f) != n)
        return ig__fail(err, IG_ERR_IO, "%s: cannot read", p->path);
    return IG_OK;
}

ig_tensor *ig_npy_load(ig_context *ctx, const char *path, ig_error *err)
{
    ig_tensor *x = NULL;
    plain_file p = {fopen(path, "rbe"), path};
    if (!p.f) {
        ig__fail(err, IG_ERR_IO, "%s: cannot open: %m", path);
        return NULL;
    }
    const long n = fseek(p.f, 0, SEEK_END) == 0 ? ftell(p.f) : -1;
    ig__npy_source source = {read_plain, &p, (uint64_t)n};
    if (n < 0 || fseek(p.f, 0, SEEK_SET) != 0)
        ig__fail(err, IG_ERR_IO, "%s: cannot seek: %m", path);
    else
        x = ig__npy_read(ctx, path, &source, err);
    fclose(p.f);
    return x;
}

/* ---- save ------------------------------------------------------------------------------------------ */

static void append_header(ig__buffer *b, const ig_tensor *x, const char *descr)
{
    ig__buffer_append(b, "\x93NUMPY\1\0\0\0", 10);
    ig__buffer_printf(b, "{'descr': '%c%s', 'fortran_order': False, 'shape': (",
                      descr[1] == '1' ? '|' : '<', descr);
    for (int i = 0; i < x->type.n_dims; i++)
        ig__buffer_printf(b, "%s%lld", i ? ", " : "", (long long)x->type.dims[i].plus);
    ig__buffer_append_text(b, x->type.n_dims == 1 ? ",), }" : "), }");
    while ((b->n + 1) % 64 && !b->failed)
        ig__buffer_append_char(b, ' ');
    ig__buffer_append_char(b, '\n');
    if (b->failed)
        return;
    b->data[8] = (char)((b->n - 10) & 255);
    b->data[9] = (char)((b->n - 10) >> 8);
}

ig_status ig__npy_pack(ig__npy_bytes *out, const ig_tensor *x, const char *path,
                       ig_error *err)
{
    *out = (ig__npy_bytes){0};
    if (!x)
        return ig__fail(err, IG_ERR_ARGUMENT, "%s: the tensor is NULL", path);
    const ig_allocator *a = &x->ctx->allocator;
    const bool widen = x->type.dtype == IG_DTYPE_BF16;
    const ig_dtype dtype = widen ? IG_DTYPE_F32 : x->type.dtype;
    const char *descr = "";
    for (int i = 0; i < N_KINDS; i++)
        if (kinds[i].dtype == dtype)
            descr = kinds[i].descr;
    const size_t bytes = ig_tensor_bytes(x);
    out->header = ig__buffer_init(a);
    append_header(&out->header, x, descr);
    char *packed = ig__alloc(a, bytes), *wide = widen ? ig__alloc(a, bytes * 2) : packed;
    ig_status status = IG_OK;
    if (out->header.failed || !packed || !wide)
        status = ig__fail_memory(err, path, bytes);
    if (status == IG_OK)
        status = ig_tensor_read(x, packed, bytes, err);
    if (status == IG_OK && widen)
        ig__load(wide, IG_COMPUTE_F32, packed, IG_DTYPE_BF16, 1, x->n);
    if (wide != packed)
        ig__free(a, packed);
    out->elements = wide;
    out->n = widen ? bytes * 2 : bytes;
    if (status != IG_OK)
        ig__npy_bytes_fini(out, a);
    return status;
}

void ig__npy_bytes_fini(ig__npy_bytes *bytes, const ig_allocator *a)
{
    ig__buffer_fini(&bytes->header);
    ig__free(a, bytes->elements);
    *bytes = (ig__npy_bytes){0};
}

ig_status ig_npy_save(const char *path, const ig_tensor *x, ig_error *err)
{
    ig__npy_bytes bytes;
    ig__new_file f;
    IG_TRY(ig__npy_pack(&bytes, x, path, err));
    const ig_allocator *a = &x->ctx->allocator;
    ig_status status = ig__new_file_begin(&f, a, path, err);
    if (status == IG_OK)
        status = ig__new_file_write(&f, bytes.header.data, bytes.header.n, err);
    if (status == IG_OK)
        status = ig__new_file_write(&f, bytes.elements, bytes.n, err);
    status = ig__new_file_end(&f, status, err);
    ig__npy_bytes_fini(&bytes, a);
    return status;
}
