/* Reading whole files and single lines. */
#include "input.h"

#include "report.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool input_append(input *in, const char *bytes, size_t n)
{
    char *text = realloc(in->text, in->n + n + 1);
    if (!text)
        return false;
    if (n)
        memcpy(text + in->n, bytes, n);
    in->text = text;
    in->n += n;
    text[in->n] = 0;
    return true;
}

/* 0, or an errno; EFBIG: there are more than `most` bytes. A source without an end is read
 * no further than one byte past them. */
static int read_all(input *in, int fd, size_t most)
{
    struct stat file;
    if (!fstat(fd, &file) && S_ISREG(file.st_mode) && (uintmax_t)file.st_size > most)
        return EFBIG;
    size_t cap = in->n;
    for (;;) {
        if (in->n > most)
            return EFBIG;
        if (cap - in->n < 65536 && cap <= most) {
            cap = cap * 2 + 65536 * 2;
            if (cap > most)
                cap = most + 1;
            char *text = realloc(in->text, cap + 1);
            if (!text)
                return ENOMEM;
            in->text = text;
        }
        const ssize_t n = read(fd, in->text + in->n, cap - in->n);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno;
        in->n += (size_t)n;
        in->text[in->n] = 0;
        if (n == 0)
            return 0;
    }
}

int input_read(input *in, const char *verb, const char *path, size_t most)
{
    const bool is_stdin = !strcmp(path, "-");
    const int fd = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    const int failed = fd < 0 ? errno : read_all(in, fd, most);
    if (!is_stdin && fd >= 0)
        close(fd);
    const char *name = is_stdin ? "standard input" : path;
    if (failed == EFBIG)
        return report_fail("%s: %s: more than %zu bytes", verb, name, most);
    if (failed)
        return report_fail("%s: %s: %s", verb, name, strerror(failed));
    return EXIT_OK;
}

int input_choose(input *in, const char *verb, const char *text, const char *file)
{
    if (text && file)
        return report_usage("%s: --prompt and --file exclude each other", verb);
    if (!text)
        return input_read(in, verb, file ? file : "-", INPUT_TEXT_MOST);
    return input_append(in, text, strlen(text)) ? EXIT_OK
                                                : report_fail("%s: out of memory", verb);
}

void input_drop_newline(input *in)
{
    if (in->n && in->text[in->n - 1] == '\n') {
        in->n--;
        if (in->n && in->text[in->n - 1] == '\r')
            in->n--;
        in->text[in->n] = 0;
    }
}

void input_free(input *in)
{
    free(in->text);
    *in = (input){0};
}

input_got input_line(char **line_out, FILE *file)
{
    *line_out = NULL;
    size_t cap = 0;
    errno = 0;
    const ssize_t n = getline(line_out, &cap, file);
    if (n < 0) {
        const int failed = errno;
        free(*line_out);
        *line_out = NULL;
        clearerr(file);
        errno = failed;
        return !failed ? INPUT_END : failed == EINTR ? INPUT_INTERRUPTED : INPUT_FAILED;
    }
    if (memchr(*line_out, 0, (size_t)n)) {
        free(*line_out);
        *line_out = NULL;
        return INPUT_ZERO;
    }
    if (n && (*line_out)[n - 1] == '\n')
        (*line_out)[n - 1] = 0;
    return INPUT_LINE;
}
