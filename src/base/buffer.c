/* A growing byte string with sticky failure. */
#include "base/buffer.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void ig__buffer_fini(ig__buffer *b)
{
    if (b->data)
        ig__free(b->a, b->data);
    *b = (ig__buffer){.a = b->a};
}

bool ig__buffer_reserve(ig__buffer *b, size_t n)
{
    size_t want;
    if (b->failed || !ig__add(&want, b->n, n) || !ig__add(&want, want, 1))
        return b->failed = true, false;
    if (want <= b->cap)
        return true;
    size_t cap = b->cap ? b->cap : 64;
    while (cap < want)
        cap = cap > SIZE_MAX / 2 ? want : cap * 2;
    char *data = ig__resize(b->a, b->data, b->n, cap);
    if (!data)
        return b->failed = true, false;
    b->data = data;
    b->cap = cap;
    b->data[b->n] = 0;
    return true;
}

void ig__buffer_append(ig__buffer *b, const char *bytes, size_t n)
{
    if (!ig__buffer_reserve(b, n))
        return;
    if (n)
        memcpy(b->data + b->n, bytes, n);
    b->n += n;
    b->data[b->n] = 0;
}

void ig__buffer_append_text(ig__buffer *b, const char *text)
{
    ig__buffer_append(b, text, strlen(text));
}

void ig__buffer_append_char(ig__buffer *b, char c)
{
    ig__buffer_append(b, &c, 1);
}

void ig__buffer_printf(ig__buffer *b, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    va_list again;
    va_copy(again, args);
    const int n = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    if (n < 0)
        b->failed = true;
    else if (ig__buffer_reserve(b, (size_t)n))
        b->n += (size_t)vsnprintf(b->data + b->n, (size_t)n + 1, fmt, again);
    va_end(again);
}

char *ig__buffer_take(ig__buffer *b, size_t *n_out)
{
    if (b->failed || !ig__buffer_reserve(b, 0)) {
        ig__buffer_fini(b);
        return NULL;
    }
    char *data = b->data;
    if (n_out)
        *n_out = b->n;
    *b = (ig__buffer){.a = b->a};
    return data;
}
