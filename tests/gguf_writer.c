/* A growing byte string and the layout of GGUF files. */
#include "gguf_writer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A test without memory or disk has nothing to say. */
static void need(bool good, const char *what)
{
    if (good)
        return;
    perror(what);
    exit(2);
}

size_t gguf_bytes(gguf_writer *w, const void *bytes, size_t n)
{
    const size_t at = w->n;
    if (w->n + n > w->cap) {
        w->cap = 2 * w->cap + n + 256;
        w->bytes = realloc(w->bytes, w->cap);
        need(w->bytes != NULL, "gguf_writer");
    }
    if (n)
        memcpy(w->bytes + at, bytes, n);
    w->n += n;
    return at;
}

void gguf_patch(gguf_writer *w, size_t at, const void *bytes, size_t n)
{
    need(at + n <= w->n, "gguf_patch: outside the file");
    memcpy(w->bytes + at, bytes, n);
}

void gguf_patch_u32(gguf_writer *w, size_t at, uint32_t value)
{
    gguf_patch(w, at, &value, sizeof value);
}

void gguf_patch_u64(gguf_writer *w, size_t at, uint64_t value)
{
    gguf_patch(w, at, &value, sizeof value);
}

size_t gguf_u8(gguf_writer *w, uint8_t value)
{
    return gguf_bytes(w, &value, sizeof value);
}

size_t gguf_u32(gguf_writer *w, uint32_t value)
{
    return gguf_bytes(w, &value, sizeof value);
}

size_t gguf_u64(gguf_writer *w, uint64_t value)
{
    return gguf_bytes(w, &value, sizeof value);
}

size_t gguf_f32(gguf_writer *w, float value)
{
    return gguf_bytes(w, &value, sizeof value);
}

size_t gguf_string(gguf_writer *w, const char *text)
{
    const size_t at = gguf_u64(w, strlen(text));
    gguf_bytes(w, text, strlen(text));
    return at;
}

void gguf_writer_init(gguf_writer *w)
{
    *w = (gguf_writer){0};
    gguf_bytes(w, "GGUF", 4);
    gguf_u32(w, 3);
    gguf_u64(w, 0);
    gguf_u64(w, 0);
}

void gguf_writer_fini(gguf_writer *w)
{
    if (w->path[0])
        unlink(w->path);
    free(w->bytes);
    *w = (gguf_writer){0};
}

/* One more in the header's count at `at`. */
static void count(gguf_writer *w, size_t at)
{
    uint64_t n;
    memcpy(&n, w->bytes + at, sizeof n);
    gguf_patch_u64(w, at, n + 1);
}

size_t gguf_key(gguf_writer *w, const char *key, uint32_t type)
{
    count(w, 16);
    gguf_string(w, key);
    return gguf_u32(w, type) + 4;
}

size_t gguf_key_u32(gguf_writer *w, const char *key, uint32_t value)
{
    gguf_key(w, key, IG__GGUF_U32);
    return gguf_u32(w, value);
}

size_t gguf_key_f32(gguf_writer *w, const char *key, float value)
{
    gguf_key(w, key, IG__GGUF_F32);
    return gguf_f32(w, value);
}

size_t gguf_key_bool(gguf_writer *w, const char *key, bool value)
{
    gguf_key(w, key, IG__GGUF_BOOL);
    return gguf_u8(w, value);
}

size_t gguf_key_string(gguf_writer *w, const char *key, const char *text)
{
    gguf_key(w, key, IG__GGUF_STRING);
    return gguf_string(w, text);
}

size_t gguf_key_array(gguf_writer *w, const char *key, uint32_t element, uint64_t n)
{
    gguf_key(w, key, IG__GGUF_ARRAY);
    const size_t at = gguf_u32(w, element);
    gguf_u64(w, n);
    return at;
}

size_t gguf_tensor(gguf_writer *w, const char *name, int n_dims, const uint64_t *dims,
                   uint32_t type, uint64_t offset)
{
    count(w, 8);
    const size_t at = gguf_string(w, name);
    gguf_u32(w, (uint32_t)n_dims);
    for (int i = 0; i < n_dims; i++)
        gguf_u64(w, dims[i]);
    gguf_u32(w, type);
    gguf_u64(w, offset);
    return at;
}

size_t gguf_data(gguf_writer *w, size_t alignment)
{
    while (w->n % alignment)
        gguf_u8(w, 0);
    return w->data = w->n;
}

void gguf_zeros(gguf_writer *w, size_t n)
{
    while (w->n - w->data < n)
        gguf_u8(w, 0);
}

const char *gguf_save(gguf_writer *w)
{
    FILE *f;
    if (w->path[0]) {
        f = fopen(w->path, "wb");
    } else {
        const char *folder = getenv("TMPDIR");
        snprintf(w->path, sizeof w->path, "%s/ingot-XXXXXX", folder ? folder : "/tmp");
        const int fd = mkstemp(w->path);
        f = fd < 0 ? NULL : fdopen(fd, "wb");
    }
    need(f != NULL, w->path);
    need(fwrite(w->bytes, 1, w->n, f) == w->n, w->path);
    need(fclose(f) == 0, w->path);
    return w->path;
}
