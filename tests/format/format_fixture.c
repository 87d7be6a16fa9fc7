/* The small file, the counting allocator, and the walk over all that a file offers. */
#include "format_fixture.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A block's size stands in the 64 bytes before it: the allocator must know it to count. */
enum { HEAD = 64 };

static void *count_alloc(void *user, size_t bytes, size_t align)
{
    counting_allocator *c = user;
    c->n_allocs++;
    if (c->fail_at && --c->fail_at == 0)
        return NULL;
    if (align > HEAD || bytes > SIZE_MAX / 2)
        return NULL;
    void *block; /* of exactly this size, so that a sanitizer sees each byte past it */
    if (posix_memalign(&block, HEAD, HEAD + bytes) != 0)
        return NULL;
    char *p = block;
    memcpy(p, &bytes, sizeof bytes);
    c->n_live++;
    c->live_bytes += bytes;
    if (c->live_bytes > c->peak_bytes)
        c->peak_bytes = c->live_bytes;
    return p + HEAD;
}

static void count_free(void *user, void *p)
{
    counting_allocator *c = user;
    if (!p)
        return;
    size_t bytes;
    memcpy(&bytes, (char *)p - HEAD, sizeof bytes);
    c->n_live--;
    c->live_bytes -= bytes;
    free((char *)p - HEAD);
}

void counting_allocator_init(counting_allocator *c)
{
    *c = (counting_allocator){
        .allocator = {.alloc = count_alloc, .free = count_free, .user = c}};
}

int next_descriptor(void)
{
    const int fd = dup(0);
    close(fd);
    return fd;
}

bool is_one_line(const ig_error *err, const char *path)
{
    if (!err->message[0] || !strstr(err->message, path))
        return false;
    for (const char *s = err->message; *s; s++)
        if (*s < 32 || *s > 126)
            return false;
    return true;
}

static void small_scalars(gguf_writer *w, small_marks *m)
{
    m->u8 = gguf_key(w, "t.u8", IG__GGUF_U8);
    gguf_u8(w, 200);
    m->i8 = gguf_key(w, "t.i8", IG__GGUF_I8);
    gguf_u8(w, (uint8_t)-2);
    m->u16 = gguf_key(w, "t.u16", IG__GGUF_U16);
    gguf_bytes(w, &(uint16_t){60000}, 2);
    m->i16 = gguf_key(w, "t.i16", IG__GGUF_I16);
    gguf_bytes(w, &(int16_t){-300}, 2);
    m->u32 = gguf_key_u32(w, "t.u32", 4000000000u);
    m->i32 = gguf_key(w, "t.i32", IG__GGUF_I32);
    gguf_u32(w, (uint32_t)-70000);
    m->f32 = gguf_key_f32(w, "t.f32", 0.25f);
    m->flag = gguf_key_bool(w, "t.flag", true);
    m->u64 = gguf_key(w, "t.u64", IG__GGUF_U64);
    gguf_u64(w, UINT64_MAX);
    m->i64 = gguf_key(w, "t.i64", IG__GGUF_I64);
    gguf_u64(w, (uint64_t)INT64_MIN);
    m->f64 = gguf_key(w, "t.f64", IG__GGUF_F64);
    gguf_bytes(w, &(double){1e300}, 8);
}

static void small_arrays(gguf_writer *w, small_marks *m)
{
    m->bytes = gguf_key_array(w, "t.bytes", IG__GGUF_U8, 3);
    gguf_bytes(w, "\1\2\3", 3);
    m->ids = gguf_key_array(w, "t.ids", IG__GGUF_I32, 3);
    gguf_bytes(w, (const int32_t[]){-1, 0, 7}, 12);
    m->wides = gguf_key_array(w, "t.wides", IG__GGUF_F64, 2);
    gguf_bytes(w, (const double[]){0.5, -2}, 16);
    m->flags = gguf_key_array(w, "t.flags", IG__GGUF_BOOL, 2);
    gguf_bytes(w, "\1\0", 2);
    m->words = gguf_key_array(w, "t.words", IG__GGUF_STRING, 3);
    gguf_string(w, "a");
    gguf_string(w, "");
    gguf_string(w, "ccc");
    m->none = gguf_key_array(w, "t.none", IG__GGUF_U32, 0);
}

void small_file(gguf_writer *w, small_marks *m)
{
    gguf_writer_init(w);
    m->alignment_name = w->n;
    m->alignment = gguf_key_u32(w, "general.alignment", 64);
    small_scalars(w, m);
    m->text = gguf_key_string(w, "t.text", "two\nlines");
    small_arrays(w, m);
    m->first = gguf_tensor(w, "first", 1, (const uint64_t[]){3}, 0, 0);
    m->block = gguf_tensor(w, "block", 2, (const uint64_t[]){64, 2}, 3, 64);
    m->later = gguf_tensor(w, "later", 1, (const uint64_t[]){5}, 250, 192);
    m->data = gguf_data(w, 64);
    for (int i = 0; i < 193; i++)
        gguf_u8(w, (uint8_t)i);
}

static uint64_t sum(const void *bytes, size_t n)
{
    uint64_t s = 0;
    for (size_t i = 0; i < n; i++)
        s = s * 31 + ((const unsigned char *)bytes)[i];
    return s;
}

static uint64_t use_key(const ig__gguf *gguf, const char *key)
{
    static const size_t sizes[IG__GGUF_TYPE_COUNT] = {1, 1, 2, 2, 4, 4, 4,
                                                      1, 0, 0, 8, 8, 8};
    int64_t i = 0, n = 0;
    double d = 0;
    bool flag = false;
    size_t n_bytes = 0;
    const char *text = NULL;
    const ig__gguf_string *strings = NULL;
    uint64_t seen = ig__gguf_value_offset(gguf, key);
    ig_error err;
    if (ig__gguf_get_i64(&i, gguf, key, true, INT64_MIN, INT64_MAX, &err) == IG_OK)
        seen += (uint64_t)i;
    if (ig__gguf_get_f64(&d, gguf, key, true, -1e9, 1e9, &err) == IG_OK)
        seen += (uint64_t)(int64_t)d;
    if (ig__gguf_get_bool(&flag, gguf, key, true, &err) == IG_OK)
        seen += flag;
    if (ig__gguf_get_string(&text, &n_bytes, gguf, key, true, &err) == IG_OK)
        seen += sum(text, n_bytes + 1);
    if (ig__gguf_get_strings(&strings, &n, gguf, key, true, &err) == IG_OK)
        for (i = 0; i < n; i++)
            seen += sum(strings[i].bytes, strings[i].n);
    for (int type = 0; type < IG__GGUF_TYPE_COUNT; type++) {
        const void *data = NULL;
        if (sizes[type] && ig__gguf_get_array(&data, &n, gguf, key, (ig__gguf_type)type,
                                              true, &err) == IG_OK)
            seen += sum(data, (size_t)n * sizes[type]);
    }
    return seen;
}

uint64_t use_everything(const ig__gguf *gguf)
{
    uint64_t seen = 0;
    char text[100];
    for (int64_t i = 0; i < ig__gguf_n_keys(gguf); i++) {
        const size_t n = ig__gguf_value_text(gguf, i, text, sizeof text);
        seen += n + sum(text, strlen(text));
        seen += use_key(gguf, ig__gguf_key(gguf, i));
    }
    for (int64_t i = 0; i < ig__gguf_n_tensors(gguf); i++) {
        const ig__gguf_tensor *t = ig__gguf_tensor_at(gguf, i);
        seen += sum(t->name, strlen(t->name)) + t->bytes;
        seen += ig__gguf_find_tensor(gguf, t->name) == t;
        unsigned char last;
        if (t->bytes && ig__gguf_read(gguf, t->offset + t->bytes - 1, &last, 1, NULL) == 0)
            seen += last;
    }
    return seen;
}
