/* Writing zip archives: a member's local record first, with its sizes and sum put in when they are known;
 * the directory and the end behind all. Records of 64-bit sizes stand where they are needed, and
 * in every local record, whose sizes are not known when it is written. The time of all members is
 * the first that a zip archive can name, so the same tensors give the same bytes.
 */
#include "format/zip_int.h"

#include "base/buffer.h"
#include "base/error.h"
#include "format/new_file.h"

#include <string.h>

enum {
    NAME_MAX_BYTES = 65535 - 64,
    CHUNK = 1 << 16,
    VERSION = 45,      /* the first with 64-bit sizes */
    DATE = 1 << 5 | 1, /* 1 January 1980 */
    LOCAL_EXTRA = 20
};

struct ig__zip_writer {
    const ig_allocator *a;
    ig__new_file file;
    ig__buffer directory;
    uint64_t n;
    unsigned char chunk[CHUNK];
};

ig_status ig__zip_writer_begin(ig__zip_writer **writer_out, const ig_allocator *a,
                               const char *path, ig_error *err)
{
    *writer_out = NULL;
    ig__zip_writer *w = ig__alloc(a, sizeof *w);
    if (!w)
        return ig__fail_memory(err, path, sizeof *w);
    w->a = a;
    w->directory = ig__buffer_init(a);
    w->n = 0;
    const ig_status status = ig__new_file_begin(&w->file, a, path, err);
    if (status == IG_OK)
        *writer_out = w;
    else
        ig__free(a, w);
    return status;
}

static int flags_of(const char *name)
{
    for (; *name; name++)
        if (*name & 0x80)
            return ZIP_FLAG_UTF8;
    return 0;
}

static uint64_t narrow(uint64_t x)
{
    return x < UINT32_MAX ? x : UINT32_MAX;
}

/* What local record and entry share: version to method, then date and sum. */
static void put_common(unsigned char *p, const char *name, bool deflated, uint32_t sum)
{
    zip_put(p, VERSION, 2);
    zip_put(p + 2, (uint64_t)flags_of(name), 2);
    zip_put(p + 4, deflated ? ZIP_DEFLATED : ZIP_STORED, 2);
    zip_put(p + 8, DATE, 2);
    zip_put(p + 10, sum, 4);
}

static void append_entry(ig__zip_writer *w, const char *name, bool deflated, uint32_t sum,
                         uint64_t bytes, uint64_t packed, uint64_t place)
{
    unsigned char p[ZIP_ENTRY_BYTES] = {0}, extra[28] = {0};
    const uint64_t fields[3] = {bytes, packed, place};
    int n_extra = 4;
    for (int i = 0; i < 3; i++)
        if (fields[i] >= UINT32_MAX) {
            zip_put(extra + n_extra, fields[i], 8);
            n_extra += 8;
        }
    zip_put(extra, ZIP_EXTRA64, 2);
    zip_put(extra + 2, (uint64_t)(n_extra - 4), 2);
    n_extra = n_extra > 4 ? n_extra : 0;
    zip_put(p, ZIP_ENTRY, 4);
    zip_put(p + 4, VERSION, 2);
    put_common(p + 6, name, deflated, sum);
    zip_put(p + 20, narrow(packed), 4);
    zip_put(p + 24, narrow(bytes), 4);
    zip_put(p + 28, strlen(name), 2);
    zip_put(p + 30, (uint64_t)n_extra, 2);
    zip_put(p + 42, narrow(place), 4);
    ig__buffer_append(&w->directory, (char *)p, sizeof p);
    ig__buffer_append_text(&w->directory, name);
    ig__buffer_append(&w->directory, (char *)extra, (size_t)n_extra);
    w->n++;
}

/* n bytes through deflate to the file; `last` ends it. */
static ig_status squeeze(ig__zip_writer *w, z_stream *z, const unsigned char *bytes,
                         size_t n, bool last, ig_error *err)
{
    enum { MOST = 1 << 30 };
    do {
        const size_t step = n < MOST ? n : MOST;
        const int flush = last && step == n ? Z_FINISH : Z_NO_FLUSH;
        z->next_in = (unsigned char *)(uintptr_t)bytes;
        z->avail_in = (uInt)step;
        do {
            z->next_out = w->chunk;
            z->avail_out = CHUNK;
            if (deflate(z, flush) == Z_STREAM_ERROR)
                return ig__fail(err, IG_ERR_IO, "%s: cannot deflate", w->file.path);
            IG_TRY(ig__new_file_write(&w->file, w->chunk, CHUNK - z->avail_out, err));
        } while (z->avail_out == 0);
        bytes += step;
        n -= step;
    } while (n);
    return IG_OK;
}

static ig_status write_parts(ig__zip_writer *w, const ig__zip_part *parts, int n_parts,
                             bool deflated, ig_error *err)
{
    z_stream z = zip_stream_of(w->a);
    ig_status status = IG_OK;
    if (deflated && deflateInit2(&z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, -MAX_WBITS, 8,
                                 Z_DEFAULT_STRATEGY) != Z_OK)
        return ig__fail_memory(err, w->file.path, 0);
    for (int i = 0; i < n_parts && status == IG_OK; i++)
        status = deflated
                     ? squeeze(w, &z, parts[i].bytes, parts[i].n, i + 1 == n_parts, err)
                     : ig__new_file_write(&w->file, parts[i].bytes, parts[i].n, err);
    if (deflated)
        deflateEnd(&z);
    return status;
}

ig_status ig__zip_writer_add(ig__zip_writer *w, const char *name, const ig__zip_part *parts,
                             int n_parts, bool deflated, ig_error *err)
{
    const size_t n_name = strlen(name);
    const uint64_t place = w->file.n;
    unsigned char local[ZIP_LOCAL_BYTES] = {0}, extra[LOCAL_EXTRA] = {0};
    uint64_t bytes = 0;
    uLong sum = crc32(0, NULL, 0);
    if (n_name > NAME_MAX_BYTES)
        return ig__fail(err, IG_ERR_LIMIT, "%s: a name of more than %d bytes", w->file.path,
                        NAME_MAX_BYTES);
    for (int i = 0; i < n_parts; i++) {
        bytes += parts[i].n;
        sum = crc32_z(sum, parts[i].bytes, parts[i].n);
    }
    zip_put(local, ZIP_LOCAL, 4);
    put_common(local + 4, name, deflated, (uint32_t)sum);
    zip_put(local + 18, UINT32_MAX, 4);
    zip_put(local + 22, UINT32_MAX, 4);
    zip_put(local + 26, n_name, 2);
    zip_put(local + 28, LOCAL_EXTRA, 2);
    zip_put(extra, ZIP_EXTRA64, 2);
    zip_put(extra + 2, 16, 2);
    zip_put(extra + 4, bytes, 8);
    IG_TRY(ig__new_file_write(&w->file, local, sizeof local, err));
    IG_TRY(ig__new_file_write(&w->file, name, n_name, err));
    IG_TRY(ig__new_file_write(&w->file, extra, sizeof extra, err));
    const uint64_t start = w->file.n;
    IG_TRY(write_parts(w, parts, n_parts, deflated, err));
    zip_put(extra + 12, w->file.n - start, 8);
    IG_TRY(ig__new_file_patch(&w->file, start - LOCAL_EXTRA, extra, sizeof extra, err));
    append_entry(w, name, deflated, (uint32_t)sum, bytes, w->file.n - start, place);
    return IG_OK;
}

/* The directory and what ends the archive. */
static ig_status write_end(ig__zip_writer *w, ig_error *err)
{
    const uint64_t place = w->file.n, bytes = w->directory.n;
    if (w->directory.failed)
        return ig__fail_memory(err, w->file.path, w->directory.n);
    if (place >= UINT32_MAX || bytes >= UINT32_MAX || w->n >= 0xffff) {
        unsigned char p[ZIP_END64_BYTES + ZIP_LOCATOR64_BYTES] = {0};
        unsigned char *locator = p + ZIP_END64_BYTES;
        zip_put(p, ZIP_END64, 4);
        zip_put(p + 4, ZIP_END64_BYTES - 12, 8);
        zip_put(p + 12, VERSION, 2);
        zip_put(p + 14, VERSION, 2);
        zip_put(p + 24, w->n, 8);
        zip_put(p + 32, w->n, 8);
        zip_put(p + 40, bytes, 8);
        zip_put(p + 48, place, 8);
        zip_put(locator, ZIP_LOCATOR64, 4);
        zip_put(locator + 8, place + bytes, 8);
        zip_put(locator + 16, 1, 4);
        ig__buffer_append(&w->directory, (char *)p, sizeof p);
    }
    unsigned char end[ZIP_END_BYTES] = {0};
    const uint64_t few = w->n < 0xffff ? w->n : 0xffff;
    zip_put(end, ZIP_END, 4);
    zip_put(end + 8, few, 2);
    zip_put(end + 10, few, 2);
    zip_put(end + 12, narrow(bytes), 4);
    zip_put(end + 16, narrow(place), 4);
    ig__buffer_append(&w->directory, (char *)end, sizeof end);
    if (w->directory.failed)
        return ig__fail_memory(err, w->file.path, w->directory.n);
    return ig__new_file_write(&w->file, w->directory.data, w->directory.n, err);
}

ig_status ig__zip_writer_end(ig__zip_writer *w, ig_status status, ig_error *err)
{
    if (!w)
        return status;
    if (status == IG_OK)
        status = write_end(w, err);
    status = ig__new_file_end(&w->file, status, err);
    ig__buffer_fini(&w->directory);
    ig__free(w->a, w);
    return status;
}
