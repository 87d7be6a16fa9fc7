/* Files by way of a new one beside them. */
#include "format/new_file.h"

#include "base/error.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

ig_status ig__new_file_begin(ig__new_file *f, const ig_allocator *a, const char *path,
                             ig_error *err)
{
    const size_t cap = strlen(path) + 12;
    struct stat st;
    *f = (ig__new_file){.a = a, .path = path, .fd = -1};
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
        return ig__fail(err, IG_ERR_IO, "%s: is there, and is no regular file", path);
    f->made = ig__alloc(a, cap);
    if (!f->made)
        return ig__fail_memory(err, path, cap);
    snprintf(f->made, cap, "%s.new.XXXXXX", path);
    f->fd = mkostemp(f->made, O_CLOEXEC);
    if (f->fd >= 0)
        return IG_OK;
    ig__free(a, f->made);
    f->made = NULL;
    return ig__fail(err, IG_ERR_IO, "%s: cannot create a file beside it: %m", path);
}

ig_status ig__new_file_write(ig__new_file *f, const void *bytes, size_t n, ig_error *err)
{
    for (size_t done = 0; done < n;) {
        const ssize_t k = write(f->fd, (const char *)bytes + done, n - done);
        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0)
            return ig__fail(err, IG_ERR_IO, "%s: cannot write: %m", f->path);
        done += (size_t)k;
    }
    f->n += n;
    return IG_OK;
}

ig_status ig__new_file_patch(ig__new_file *f, uint64_t at, const void *bytes, size_t n,
                             ig_error *err)
{
    for (size_t done = 0; done < n;) {
        const ssize_t k =
            pwrite(f->fd, (const char *)bytes + done, n - done, (off_t)(at + done));
        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0)
            return ig__fail(err, IG_ERR_IO, "%s: cannot write: %m", f->path);
        done += (size_t)k;
    }
    return IG_OK;
}

static void sync_folder(char *made)
{
    char *slash = strrchr(made, '/');
    if (slash)
        *slash = 0;
    const int folder =
        open(slash ? (*made ? made : "/") : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder >= 0) {
        fsync(folder);
        close(folder);
    }
}

ig_status ig__new_file_end(ig__new_file *f, ig_status status, ig_error *err)
{
    if (!f->made)
        return status;
    if (status == IG_OK && fsync(f->fd) != 0)
        status = ig__fail(err, IG_ERR_IO, "%s: cannot write: %m", f->path);
    if (status == IG_OK && fchmod(f->fd, 0644) != 0)
        status = ig__fail(err, IG_ERR_IO, "%s: cannot set the mode: %m", f->path);
    if (close(f->fd) != 0 && status == IG_OK)
        status = ig__fail(err, IG_ERR_IO, "%s: cannot write: %m", f->path);
    if (status == IG_OK && rename(f->made, f->path) != 0)
        status = ig__fail(err, IG_ERR_IO, "%s: cannot replace: %m", f->path);
    if (status != IG_OK)
        unlink(f->made);
    else
        sync_folder(f->made);
    ig__free(f->a, f->made);
    f->made = NULL;
    return status;
}
