/* Opening, closing and reading a GGUF file.
 *
 * Opening makes two passes of the one parser (gguf_parse.c): over the file through a small
 * window, then over the metadata in memory, whose exact size and counts are known by then.
 * So a malformed file costs the window alone, however large it says it is, and a good one
 * costs each table once, at its right size.
 */
#include "format/gguf_int.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SHOWN_MAX = 200 }; /* bytes of a path in a message */

/* The end of a long path, cut before a whole character. */
static const char *end_of_path(const char *path)
{
    const size_t n = strlen(path);
    if (n <= SHOWN_MAX)
        return path;
    path += n - SHOWN_MAX;
    while (((unsigned char)*path & 0xc0) == 0x80)
        path++;
    return path;
}

static const char *kind_of(mode_t mode)
{
    switch (mode & S_IFMT) {
    case S_IFDIR:
        return "a directory";
    case S_IFIFO:
        return "a pipe";
    case S_IFSOCK:
        return "a socket";
    default:
        return "a device";
    }
}

/* A pipe without a writer must not block us: O_NONBLOCK, which regular files ignore. */
static ig_status open_file(ig__gguf *gguf, ig_error *err)
{
    do
        gguf->fd = open(gguf->path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    while (gguf->fd < 0 && errno == EINTR);
    if (gguf->fd < 0)
        return ig__fail(err, IG_ERR_IO, "%s: cannot open: %m", gguf->shown);
    struct stat st;
    if (fstat(gguf->fd, &st) != 0)
        return ig__fail(err, IG_ERR_IO, "%s: cannot inspect: %m", gguf->shown);
    if (!S_ISREG(st.st_mode))
        return ig__fail(err, IG_ERR_IO, "%s: is %s, wanted a regular file", gguf->shown,
                        kind_of(st.st_mode));
    if (st.st_size <= 0)
        return ig__gguf_fail(gguf, err, IG_ERR_FORMAT, (uint64_t)0,
                             "the file is empty, wanted '%s'", "GGUF");
    gguf->file_bytes = (uint64_t)st.st_size;
    return IG_OK;
}

static ig_status first_pass(ig__gguf *gguf, ig_error *err)
{
    ig__gguf_cursor c = {.gguf = gguf, .err = err, .cap = IG_GGUF_WINDOW};
    c.end = gguf->file_bytes < IG_GGUF_META_MAX ? gguf->file_bytes : IG_GGUF_META_MAX;
    c.window = ig__alloc(gguf->a, c.cap);
    if (!c.window)
        return ig__fail_memory(err, gguf->shown, c.cap);
    const ig_status status = ig__gguf_parse(&c);
    ig__free(gguf->a, c.window);
    return status;
}

/* A table of n entries; the counts are bounded, so the products fit. */
static ig_status make_table(void *table_out, const ig__gguf *gguf, int64_t n, size_t bytes,
                            ig_error *err)
{
    void *table = ig__alloc_zero(gguf->a, (size_t)n * bytes);
    if (!table)
        return ig__fail_memory(err, gguf->shown, (size_t)n * bytes);
    memcpy(table_out, &table, sizeof table);
    return IG_OK;
}

static ig_status make_tables(ig__gguf *g, ig_error *err)
{
    g->cap_strings = g->n_strings;
    IG_TRY(make_table(&g->keys, g, g->n_keys, sizeof *g->keys, err));
    IG_TRY(make_table(&g->key_order, g, g->n_keys, sizeof *g->key_order, err));
    IG_TRY(make_table(&g->tensors, g, g->n_tensors, sizeof *g->tensors, err));
    IG_TRY(make_table(&g->tensor_order, g, g->n_tensors, sizeof *g->tensor_order, err));
    IG_TRY(make_table(&g->strings, g, g->n_strings, sizeof *g->strings, err));
    g->meta = ig__alloc(g->a, (size_t)g->meta_bytes);
    return g->meta ? IG_OK : ig__fail_memory(err, g->shown, (size_t)g->meta_bytes);
}

static ig_status second_pass(ig__gguf *gguf, ig_error *err)
{
    const size_t n = (size_t)gguf->meta_bytes;
    IG_TRY(make_tables(gguf, err));
    IG_TRY(ig__gguf_read(gguf, 0, gguf->meta, n, err));
    ig__gguf_cursor c = {
        .gguf = gguf,
        .err = err,
        .window = gguf->meta,
        .cap = n,
        .n = n,
        .end = n,
        .keeps = true,
    };
    return ig__gguf_parse(&c);
}

static ig_status open_and_parse(ig__gguf *gguf, const char *path, ig_error *err)
{
    gguf->path = ig__strdup(gguf->a, path, strlen(path));
    if (!gguf->path)
        return ig__fail_memory(err, end_of_path(path), strlen(path) + 1);
    gguf->shown = end_of_path(gguf->path);
    IG_TRY(open_file(gguf, err));
    IG_TRY(first_pass(gguf, err));
    IG_TRY(second_pass(gguf, err));
    return ig__gguf_index(gguf, err);
}

ig_status ig__gguf_open(ig__gguf **gguf_out, const ig_allocator *a, const char *path,
                        ig_error *err)
{
    *gguf_out = NULL;
    ig__gguf *gguf = ig__alloc_zero(a, sizeof *gguf);
    if (!gguf)
        return ig__fail_memory(err, end_of_path(path), sizeof *gguf);
    gguf->allocator = *a;
    gguf->a = &gguf->allocator;
    gguf->fd = -1;
    const ig_status status = open_and_parse(gguf, path, err);
    if (status == IG_OK)
        *gguf_out = gguf;
    else
        ig__gguf_close(gguf);
    return status;
}

void ig__gguf_close(ig__gguf *gguf)
{
    if (!gguf)
        return;
    if (gguf->fd >= 0)
        close(gguf->fd);
    const ig_allocator a = gguf->allocator;
    ig__free(&a, gguf->meta);
    ig__free(&a, gguf->strings);
    ig__free(&a, gguf->tensor_order);
    ig__free(&a, gguf->tensors);
    ig__free(&a, gguf->key_order);
    ig__free(&a, gguf->keys);
    ig__free(&a, gguf->path);
    ig__free(&a, gguf);
}

const char *ig__gguf_path(const ig__gguf *gguf)
{
    return gguf->shown;
}

uint64_t ig__gguf_file_bytes(const ig__gguf *gguf)
{
    return gguf->file_bytes;
}

uint64_t ig__gguf_table(const ig__gguf *gguf)
{
    return gguf->n_tensors ? gguf->tensors[0].entry : gguf->meta_bytes;
}

int64_t ig__gguf_n_tensors(const ig__gguf *gguf)
{
    return gguf->n_tensors;
}

const ig__gguf_tensor *ig__gguf_tensor_at(const ig__gguf *gguf, int64_t i)
{
    return i >= 0 && i < gguf->n_tensors ? &gguf->tensors[i] : NULL;
}

ig_status ig__gguf_read(const ig__gguf *gguf, uint64_t offset, void *dst, size_t bytes,
                        ig_error *err)
{
    if (offset > gguf->file_bytes || bytes > gguf->file_bytes - offset)
        return ig__gguf_fail(gguf, err, IG_ERR_ARGUMENT, offset,
                             "wanted are %zu bytes, the file has %" PRIu64, bytes,
                             gguf->file_bytes);
    for (size_t done = 0; done < bytes;) {
        const ssize_t n =
            pread(gguf->fd, (char *)dst + done, bytes - done, (off_t)(offset + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return ig__gguf_fail(gguf, err, IG_ERR_IO, offset + done,
                                 "cannot read %zu bytes: %m", bytes - done);
        if (n == 0)
            return ig__gguf_fail(gguf, err, IG_ERR_IO, offset,
                                 "wanted are %zu bytes, found %zu: the file has shrunk",
                                 bytes, done);
        done += (size_t)n;
    }
    return IG_OK;
}
