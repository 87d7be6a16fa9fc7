/* API keys. */
#include "serve/keys.h"

#include "base/error.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

ig_status ig__read_small_file(char **text_out, size_t *n_out, const ig_allocator *a,
                              const char *path, size_t max, bool waits, ig_error *err)
{
    *text_out = NULL;
    *n_out = 0;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | (waits ? 0 : O_NONBLOCK));
    struct stat file;
    if (fd < 0)
        return ig__fail(err, IG_ERR_IO, "%s: %s", path, strerror(errno));
    if (!waits && (fstat(fd, &file) || !S_ISREG(file.st_mode))) {
        close(fd);
        return ig__fail(err, IG_ERR_IO, "%s: no regular file, and not read again", path);
    }
    char *text = ig__alloc(a, max + 2);
    size_t n = 0;
    ssize_t got = 0;
    while (text && n <= max && (got = read(fd, text + n, max + 1 - n)) > 0)
        n += (size_t)got;
    const int why = errno;
    close(fd);
    if (!text)
        return ig__fail_memory(err, path, max);
    if (got < 0 || n > max) {
        ig__free(a, text);
        return got < 0 ? ig__fail(err, IG_ERR_IO, "%s: %s", path, strerror(why))
                       : ig__fail(err, IG_ERR_LIMIT, "%s: more than %zu bytes", path, max);
    }
    text[n] = 0;
    *text_out = text;
    *n_out = n;
    return IG_OK;
}

static ig_status add_line(ig__keys *keys, const char *path, int64_t i_line, char *line,
                          size_t n, ig_error *err)
{
    while (n > 0 && (line[n - 1] == ' ' || line[n - 1] == '\t' || line[n - 1] == '\r'))
        n--;
    if (n == 0 || line[0] == '#')
        return IG_OK;
    if (n > IG_KEY_MAX_BYTES)
        return ig__fail(err, IG_ERR_LIMIT,
                        "%s: the key in line %lld has more than %d bytes", path,
                        (long long)i_line, IG_KEY_MAX_BYTES);
    for (size_t i = 0; i < n; i++)
        if (line[i] <= ' ' || line[i] == 0x7f)
            return ig__fail(
                err, IG_ERR_FORMAT,
                "%s: the key in line %lld holds a byte that no header can carry", path,
                (long long)i_line);
    if (keys->n == IG_KEYS_MAX)
        return ig__fail(err, IG_ERR_LIMIT, "%s: more than %d keys", path, IG_KEYS_MAX);
    keys->keys[keys->n] = line;
    keys->lengths[keys->n++] = n;
    return IG_OK;
}

static ig_status add_lines(ig__keys *keys, const char *path, size_t n, ig_error *err)
{
    int64_t i_line = 1;
    for (size_t begin = 0; begin < n; i_line++) {
        const char *newline = memchr(keys->text + begin, '\n', n - begin);
        const size_t end = newline ? (size_t)(newline - keys->text) : n;
        IG_TRY(add_line(keys, path, i_line, keys->text + begin, end - begin, err));
        begin = end + 1;
    }
    return keys->n > 0 ? IG_OK : ig__fail(err, IG_ERR_FORMAT, "%s: no key in it", path);
}

ig_status ig__keys_read(ig__keys *keys, const ig_allocator *a, const char *path, bool waits,
                        ig_error *err)
{
    *keys = (ig__keys){.a = a};
    size_t n;
    IG_TRY(ig__read_small_file(&keys->text, &n, a, path,
                               (size_t)IG_KEYS_MAX * (IG_KEY_MAX_BYTES + 2), waits, err));
    keys->keys = ig__alloc(a, IG_KEYS_MAX * sizeof *keys->keys);
    keys->lengths = ig__alloc(a, IG_KEYS_MAX * sizeof *keys->lengths);
    const ig_status status = keys->keys && keys->lengths
                                 ? add_lines(keys, path, n, err)
                                 : ig__fail_memory(err, "keys", IG_KEYS_MAX * 8);
    if (status != IG_OK)
        ig__keys_fini(keys);
    return status;
}

void ig__keys_fini(ig__keys *keys)
{
    if (!keys->a)
        return;
    ig__free(keys->a, keys->text);
    ig__free(keys->a, keys->keys);
    ig__free(keys->a, keys->lengths);
    *keys = (ig__keys){0};
}

bool ig__keys_hold(const ig__keys *keys, const char *given, size_t n)
{
    unsigned found = 0;
    for (int64_t k = 0; k < keys->n; k++) {
        const char *key = keys->keys[k];
        const size_t n_key = keys->lengths[k];
        size_t differ = n ^ n_key;
        for (size_t i = 0; i < n; i++)
            differ |= (size_t)(unsigned char)(given[i] ^ key[i % n_key]);
        /* volatile: no early way out for the compiler to find */
        const volatile size_t kept = differ;
        found |= (unsigned)(kept == 0);
    }
    return found != 0;
}
