/* Records of a zip archive, little endian (PKWARE, APPNOTE.TXT, sections 4.3 and 4.5). */
#ifndef INGOT_FORMAT_ZIP_INT_H
#define INGOT_FORMAT_ZIP_INT_H

#include "format/zip.h"

#include <zlib.h>

enum {
    ZIP_LOCAL = 0x04034b50,
    ZIP_ENTRY = 0x02014b50,
    ZIP_END = 0x06054b50,
    ZIP_END64 = 0x06064b50,
    ZIP_LOCATOR64 = 0x07064b50,
    ZIP_LOCAL_BYTES = 30,
    ZIP_ENTRY_BYTES = 46,
    ZIP_END_BYTES = 22,
    ZIP_END64_BYTES = 56,
    ZIP_LOCATOR64_BYTES = 20,
    ZIP_STORED = 0,
    ZIP_DEFLATED = 8,
    ZIP_EXTRA64 = 1, /* the extra field of 64-bit sizes */
    ZIP_FLAG_SECRET = 1,
    ZIP_FLAG_UTF8 = 1 << 11
};

static inline uint64_t zip_get(const unsigned char *p, int bytes)
{
    uint64_t x = 0;
    for (int i = 0; i < bytes; i++)
        x |= (uint64_t)p[i] << (8 * i);
    return x;
}

static inline void zip_put(unsigned char *p, uint64_t x, int bytes)
{
    for (int i = 0; i < bytes; i++)
        p[i] = (unsigned char)(x >> (8 * i));
}

/* zlib's memory comes from `user`, an ig_allocator. */
static inline void *zip_alloc(void *user, uInt n, uInt bytes)
{
    size_t all;
    return ig__mul(&all, n, bytes) ? ig__alloc(user, all) : Z_NULL;
}

static inline void zip_free(void *user, void *p)
{
    ig__free(user, p);
}

static inline z_stream zip_stream_of(const ig_allocator *a)
{
    return (z_stream){
        .zalloc = zip_alloc, .zfree = zip_free, .opaque = (void *)(uintptr_t)a};
}

#endif
