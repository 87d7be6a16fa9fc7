/* Reading zip archives.
 *
 *   | member: local record, name, extra, bytes | .. | directory: an entry a member | end |
 *
 * The end is searched from the file's last byte, as far back as a comment can be long. Sizes come from the
 * directory alone; a local record must name the same member. Between the places of two members
 * in a row lies the first of them, so none can share bytes with another.
 */
#include "format/zip_int.h"

#include "base/error.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    TAIL_MAX = ZIP_END_BYTES + 65535 + ZIP_LOCATOR64_BYTES,
    MOST_RATIO = 1032, /* of deflate: 258 bytes from 2 bits */
    CHUNK = 1 << 16
};

typedef struct member {
    const char *name;
    uint64_t bytes, packed, place, end; /* end: where the next begins */
    uint32_t sum;
    int method;
} member;

struct ig__zip {
    const ig_allocator *a;
    const char *path;
    int fd;
    uint64_t file_bytes, directory, directory_bytes;
    char *names;
    member *members; /* [n], by name */
    int64_t n;
};

static ig_status bad(const ig__zip *z, uint64_t at, const char *what, ig_error *err)
{
    return ig__fail(err, IG_ERR_FORMAT, "%s: zip archive: byte %llu: %s", z->path,
                    (unsigned long long)at, what);
}

static ig_status read_at(const ig__zip *z, void *out, size_t n, uint64_t at, ig_error *err)
{
    for (size_t done = 0; done < n;) {
        const ssize_t k = pread(z->fd, (char *)out + done, n - done, (off_t)(at + done));
        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0)
            return ig__fail(err, IG_ERR_IO, "%s: cannot read: %m", z->path);
        if (k == 0)
            return bad(z, at + done, "the file has become shorter", err);
        done += (size_t)k;
    }
    return IG_OK;
}

/* ---- the end -------------------------------------------------------------------------------------- */

/* The directory's place, bytes and entries from the record of 64-bit sizes that `locator` names. */
static ig_status read_end64(ig__zip *z, const unsigned char *locator, uint64_t *n_entries,
                            uint64_t *end, ig_error *err)
{
    unsigned char record[ZIP_END64_BYTES];
    const uint64_t at = zip_get(locator + 8, 8);
    if (zip_get(locator + 4, 4) || zip_get(locator + 16, 4) > 1)
        return bad(z, *end, "an archive in several files", err);
    if (*end < sizeof record || at > *end - sizeof record)
        return bad(z, *end, "the 64-bit end is not in the file", err);
    IG_TRY(read_at(z, record, sizeof record, at, err));
    if (zip_get(record, 4) != ZIP_END64 || zip_get(record + 16, 4) ||
        zip_get(record + 20, 4))
        return bad(z, at, "is no 64-bit end", err);
    *n_entries = zip_get(record + 32, 8);
    z->directory_bytes = zip_get(record + 40, 8);
    z->directory = zip_get(record + 48, 8);
    *end = at;
    return IG_OK;
}

/* From the tail's n bytes; the end record is at tail + i. */
static ig_status read_end(ig__zip *z, const unsigned char *tail, size_t n, size_t i,
                          uint64_t *n_entries, ig_error *err)
{
    const unsigned char *p = tail + i;
    uint64_t end = z->file_bytes - n + i; /* of the directory, at the latest */
    *n_entries = zip_get(p + 10, 2);
    z->directory_bytes = zip_get(p + 12, 4);
    z->directory = zip_get(p + 16, 4);
    const bool wide = *n_entries == 0xffff || z->directory_bytes == UINT32_MAX ||
                      z->directory == UINT32_MAX;
    const uint64_t at = end;
    if (zip_get(p + 4, 2) || zip_get(p + 6, 2) || zip_get(p + 8, 2) != zip_get(p + 10, 2))
        return bad(z, at, "an archive in several files", err);
    if (wide && i >= ZIP_LOCATOR64_BYTES &&
        zip_get(p - ZIP_LOCATOR64_BYTES, 4) == ZIP_LOCATOR64) {
        end -= ZIP_LOCATOR64_BYTES;
        IG_TRY(read_end64(z, p - ZIP_LOCATOR64_BYTES, n_entries, &end, err));
    }
    if (z->directory_bytes > end || z->directory > end - z->directory_bytes)
        return bad(z, at, "the directory is not in the file", err);
    if (*n_entries > z->directory_bytes / ZIP_ENTRY_BYTES)
        return bad(z, at, "more entries than the directory has room for", err);
    return IG_OK;
}

static ig_status find_end(ig__zip *z, uint64_t *n_entries, ig_error *err)
{
    const size_t n = z->file_bytes < TAIL_MAX ? (size_t)z->file_bytes : TAIL_MAX;
    unsigned char *tail = ig__alloc(z->a, n);
    if (!tail)
        return ig__fail_memory(err, z->path, n);
    ig_status status = read_at(z, tail, n, z->file_bytes - n, err);
    bool found = false;
    for (size_t back = ZIP_END_BYTES; status == IG_OK && back <= n && !found; back++) {
        const size_t i = n - back;
        found = zip_get(tail + i, 4) == ZIP_END &&
                zip_get(tail + i + 20, 2) == back - ZIP_END_BYTES;
        if (found)
            status = read_end(z, tail, n, i, n_entries, err);
    }
    ig__free(z->a, tail);
    return status != IG_OK || found ? status : bad(z, 0, "is no zip archive", err);
}

/* ---- the directory -------------------------------------------------------------------------------- */

/* Sizes of 64 bits, of which the 32-bit fields that are all ones stand in an extra field, in order. */
static bool read_wide(member *m, const unsigned char *extra, size_t n)
{
    uint64_t *const fields[3] = {&m->bytes, &m->packed, &m->place};
    for (; n >= 4; n -= 4) {
        const uint64_t kind = zip_get(extra, 2);
        size_t bytes = (size_t)zip_get(extra + 2, 2);
        extra += 4;
        if (bytes > n - 4)
            return false;
        const size_t whole = bytes;
        if (kind == ZIP_EXTRA64) {
            const unsigned char *at = extra;
            for (int i = 0; i < 3; i++)
                if (*fields[i] == UINT32_MAX) {
                    if (bytes < 8)
                        return false;
                    *fields[i] = zip_get(at, 8);
                    at += 8;
                    bytes -= 8;
                }
            return true;
        }
        extra += whole;
        n -= whole;
    }
    return true;
}

static bool is_text(const unsigned char *name, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (name[i] < 0x20 || name[i] == 0x7f)
            return false;
    return n > 0;
}

/* One entry of at most n bytes; its length, and the name's place in names. NULL or what is wrong. */
static const char *read_entry(ig__zip *z, member *m, const unsigned char *p, size_t n,
                              char *name, size_t *bytes_out)
{
    if (n < ZIP_ENTRY_BYTES || zip_get(p, 4) != ZIP_ENTRY)
        return "is no entry of the directory";
    const size_t n_name = (size_t)zip_get(p + 28, 2), n_extra = (size_t)zip_get(p + 30, 2);
    *bytes_out = ZIP_ENTRY_BYTES + n_name + n_extra + (size_t)zip_get(p + 32, 2);
    if (*bytes_out > n)
        return "an entry is cut off";
    *m = (member){.name = name,
                  .method = (int)zip_get(p + 10, 2),
                  .sum = (uint32_t)zip_get(p + 16, 4),
                  .packed = zip_get(p + 20, 4),
                  .bytes = zip_get(p + 24, 4),
                  .place = zip_get(p + 42, 4)};
    if (!is_text(p + ZIP_ENTRY_BYTES, n_name))
        return "a name is no text";
    memcpy(name, p + ZIP_ENTRY_BYTES, n_name);
    name[n_name] = 0;
    if (zip_get(p + 8, 2) & ZIP_FLAG_SECRET)
        return "a member is encrypted";
    if (zip_get(p + 34, 2))
        return "an archive in several files";
    if (!read_wide(m, p + ZIP_ENTRY_BYTES + n_name, n_extra))
        return "an extra field is cut off";
    if (m->method != ZIP_STORED && m->method != ZIP_DEFLATED)
        return "a member is neither stored nor deflated";
    const uint64_t least = ZIP_LOCAL_BYTES + n_name;
    if (m->place > z->directory || least > z->directory - m->place ||
        m->packed > z->directory - m->place - least)
        return "a member is not in the file";
    if (m->method == ZIP_STORED && m->packed != m->bytes)
        return "a stored member has two sizes";
    if (m->bytes / MOST_RATIO > m->packed)
        return "a member claims more than its bytes can hold";
    return NULL;
}

static int by_place(const void *a, const void *b)
{
    const member *x = a, *y = b;
    return x->place < y->place ? -1 : x->place > y->place;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const member *)a)->name, ((const member *)b)->name);
}

static ig_status check_members(ig__zip *z, ig_error *err)
{
    const size_t n = (size_t)z->n;
    qsort(z->members, n, sizeof *z->members, by_place);
    for (size_t i = 0; i < n; i++) {
        member *m = &z->members[i];
        m->end = i + 1 < n ? m[1].place : z->directory;
        const uint64_t least = ZIP_LOCAL_BYTES + strlen(m->name) + m->packed;
        if (m->end - m->place < least)
            return bad(z, m->end, "two members share bytes", err);
    }
    qsort(z->members, n, sizeof *z->members, by_name);
    for (size_t i = 1; i < n; i++)
        if (!strcmp(z->members[i].name, z->members[i - 1].name))
            return ig__fail(err, IG_ERR_FORMAT, "%s: zip archive: '%.80s' stands twice",
                            z->path, z->members[i].name);
    return IG_OK;
}

static ig_status read_entries(ig__zip *z, const unsigned char *directory,
                              uint64_t n_entries, ig_error *err)
{
    size_t at = 0, bytes;
    char *name = z->names;
    for (uint64_t i = 0; i < n_entries; i++) {
        const char *what = read_entry(z, &z->members[i], directory + at,
                                      (size_t)z->directory_bytes - at, name, &bytes);
        if (what)
            return bad(z, z->directory + at, what, err);
        name += strlen(name) + 1;
        at += bytes;
        z->n++;
    }
    return check_members(z, err);
}

static ig_status read_directory(ig__zip *z, ig_error *err)
{
    uint64_t n_entries = 0;
    IG_TRY(find_end(z, &n_entries, err));
    /* all are bounded by the file's size; a name and its 0 take less than its entry */
    const size_t bytes = (size_t)z->directory_bytes;
    unsigned char *directory = ig__alloc(z->a, bytes);
    z->names = ig__alloc(z->a, bytes);
    z->members = ig__alloc(z->a, (size_t)n_entries * sizeof *z->members);
    ig_status status = IG_OK;
    if (!directory || !z->names || !z->members)
        status = ig__fail_memory(err, z->path, bytes);
    if (status == IG_OK)
        status = read_at(z, directory, bytes, z->directory, err);
    if (status == IG_OK)
        status = read_entries(z, directory, n_entries, err);
    ig__free(z->a, directory);
    return status;
}

/* ---- public ---------------------------------------------------------------------------------------- */

static ig_status open_file(ig__zip *z, ig_error *err)
{
    struct stat st;
    z->fd = open(z->path, O_RDONLY | O_CLOEXEC);
    if (z->fd < 0)
        return ig__fail(err, IG_ERR_IO, "%s: cannot open: %m", z->path);
    if (fstat(z->fd, &st) != 0)
        return ig__fail(err, IG_ERR_IO, "%s: cannot inspect: %m", z->path);
    if (!S_ISREG(st.st_mode))
        return ig__fail(err, IG_ERR_IO, "%s: is no regular file", z->path);
    z->file_bytes = (uint64_t)st.st_size;
    return IG_OK;
}

ig_status ig__zip_open(ig__zip **zip_out, const ig_allocator *a, const char *path,
                       ig_error *err)
{
    *zip_out = NULL;
    ig__zip *z = ig__alloc_zero(a, sizeof *z);
    if (!z)
        return ig__fail_memory(err, path, sizeof *z);
    z->a = a;
    z->path = path;
    ig_status status = open_file(z, err);
    if (status == IG_OK)
        status = read_directory(z, err);
    if (status == IG_OK)
        *zip_out = z;
    else
        ig__zip_close(z);
    return status;
}

void ig__zip_close(ig__zip *z)
{
    if (!z)
        return;
    if (z->fd >= 0)
        close(z->fd);
    ig__free(z->a, z->members);
    ig__free(z->a, z->names);
    ig__free(z->a, z);
}

int64_t ig__zip_count(const ig__zip *z)
{
    return z->n;
}

const char *ig__zip_name(const ig__zip *z, int64_t i)
{
    return z->members[i].name;
}

uint64_t ig__zip_bytes(const ig__zip *z, int64_t i)
{
    return z->members[i].bytes;
}

int64_t ig__zip_find(const ig__zip *z, const char *name)
{
    const member key = {.name = name};
    const member *m =
        z->n ? bsearch(&key, z->members, (size_t)z->n, sizeof key, by_name) : NULL;
    return m ? m - z->members : -1;
}

/* ---- streams --------------------------------------------------------------------------------------- */

struct ig__zip_stream {
    const ig__zip *zip;
    const member *m;
    uint64_t at, end, left; /* packed bytes in the file; unpacked ones to come */
    uLong sum;
    z_stream z;
    bool inflating, ended;
    unsigned char chunk[CHUNK];
};

/* Where the member's bytes begin, from its local record. */
static ig_status find_bytes(ig__zip_stream *s, ig_error *err)
{
    const ig__zip *z = s->zip;
    const member *m = s->m;
    const size_t n_name = strlen(m->name);
    unsigned char local[ZIP_LOCAL_BYTES];
    IG_TRY(read_at(z, local, sizeof local, m->place, err));
    const uint64_t start =
        m->place + ZIP_LOCAL_BYTES + zip_get(local + 26, 2) + zip_get(local + 28, 2);
    if (zip_get(local, 4) != ZIP_LOCAL || zip_get(local + 26, 2) != n_name ||
        (int)zip_get(local + 8, 2) != m->method)
        return bad(z, m->place, "is not the member that the directory names", err);
    if (start > m->end || m->packed > m->end - start)
        return bad(z, m->place, "a member reaches into the next", err);
    /* the name, a chunk at a time; it fits, as the directory's check says */
    for (size_t i = 0; i < n_name; i += CHUNK) {
        const size_t n = n_name - i < CHUNK ? n_name - i : CHUNK;
        IG_TRY(read_at(z, s->chunk, n, m->place + ZIP_LOCAL_BYTES + i, err));
        if (memcmp(s->chunk, m->name + i, n) != 0)
            return bad(z, m->place, "a member has two names", err);
    }
    s->at = start;
    s->end = start + m->packed;
    return IG_OK;
}

ig_status ig__zip_stream_open(ig__zip_stream **stream_out, const ig__zip *zip, int64_t i,
                              ig_error *err)
{
    *stream_out = NULL;
    ig__zip_stream *s = ig__alloc(zip->a, sizeof *s);
    if (!s)
        return ig__fail_memory(err, zip->path, sizeof *s);
    s->zip = zip;
    s->m = &zip->members[i];
    s->left = s->m->bytes;
    s->sum = crc32(0, NULL, 0);
    s->z = zip_stream_of(zip->a);
    s->inflating = s->ended = false;
    ig_status status = find_bytes(s, err);
    if (status == IG_OK && s->m->method == ZIP_DEFLATED) {
        s->inflating = inflateInit2(&s->z, -MAX_WBITS) == Z_OK;
        if (!s->inflating)
            status = ig__fail_memory(err, zip->path, 0);
    }
    if (status == IG_OK)
        *stream_out = s;
    else
        ig__zip_stream_close(s);
    return status;
}

void ig__zip_stream_close(ig__zip_stream *s)
{
    if (!s)
        return;
    if (s->inflating)
        inflateEnd(&s->z);
    ig__free(s->zip->a, s);
}

/* The next packed bytes, if there are any. */
static ig_status fill(ig__zip_stream *s, ig_error *err)
{
    if (s->z.avail_in || s->at == s->end)
        return IG_OK;
    const size_t n = s->end - s->at < CHUNK ? (size_t)(s->end - s->at) : CHUNK;
    IG_TRY(read_at(s->zip, s->chunk, n, s->at, err));
    s->at += n;
    s->z.next_in = s->chunk;
    s->z.avail_in = (uInt)n;
    return IG_OK;
}

/* Up to n unpacked bytes; *made 0: the packed form ends here. */
static ig_status unpack(ig__zip_stream *s, void *out, size_t n, size_t *made, ig_error *err)
{
    *made = 0;
    s->z.next_out = out;
    s->z.avail_out = (uInt)n;
    while (s->z.avail_out == n && !s->ended) {
        IG_TRY(fill(s, err));
        const uInt had = s->z.avail_in;
        const int code = inflate(&s->z, Z_NO_FLUSH);
        s->ended = code == Z_STREAM_END;
        if (code == Z_MEM_ERROR)
            return ig__fail_memory(err, s->zip->path, 0);
        if (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR)
            return bad(s->zip, s->m->place, "the deflated bytes are damaged", err);
        if (!had && s->z.avail_out == n && !s->ended)
            return bad(s->zip, s->end, "the deflated bytes are cut off", err);
    }
    *made = n - s->z.avail_out;
    return IG_OK;
}

ig_status ig__zip_stream_read(ig__zip_stream *s, void *out, size_t n, ig_error *err)
{
    enum { MOST = 1 << 30 }; /* a step of what zlib counts in 32 bits */
    unsigned char *to = out;
    if (n > s->left)
        return bad(s->zip, s->m->place, "a member holds less than is asked for", err);
    while (n) {
        size_t step = n < MOST ? n : MOST;
        if (!s->inflating) {
            IG_TRY(read_at(s->zip, to, step, s->at, err));
            s->at += step;
        } else {
            IG_TRY(unpack(s, to, step, &step, err));
            if (!step)
                return bad(s->zip, s->m->place, "a member holds less than it claims", err);
        }
        s->sum = crc32(s->sum, to, (uInt)step);
        s->left -= step;
        to += step;
        n -= step;
    }
    return IG_OK;
}

ig_status ig__zip_stream_check(ig__zip_stream *s, ig_error *err)
{
    unsigned char more;
    size_t n = 0;
    if (s->inflating)
        IG_TRY(unpack(s, &more, 1, &n, err));
    if (s->left || n)
        return bad(s->zip, s->m->place, "a member holds more than it claims", err);
    if (s->at != s->end || s->z.avail_in)
        return bad(s->zip, s->m->place, "bytes behind a member's end", err);
    if (s->sum != s->m->sum)
        return bad(s->zip, s->m->place, "the sum of a member's bytes is another", err);
    return IG_OK;
}
