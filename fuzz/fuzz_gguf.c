/* Fuzz target: the bytes are a GGUF file.
 *
 * Beyond crashes it checks what the reader promises of any bytes: a refusal is one line,
 * names the file and leaves nothing behind; memory stays in proportion to the bytes given;
 * tensors of an opened file lie inside it, apart from one another.
 */
#include "format/format_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void need(bool holds)
{
    if (!holds)
        abort();
}

static void check_tensors(const ig__gguf *gguf, size_t size)
{
    const int64_t n = ig__gguf_n_tensors(gguf);
    for (int64_t i = 0; i < n; i++) {
        const ig__gguf_tensor *a = ig__gguf_tensor_at(gguf, i);
        need(a->offset < size && a->bytes <= size - a->offset);
        for (int64_t j = 0; j < i && i < 64; j++) {
            const ig__gguf_tensor *b = ig__gguf_tensor_at(gguf, j);
            need(a->offset != b->offset);
            need(a->offset < b->offset ? a->offset + a->bytes <= b->offset
                                       : b->offset + b->bytes <= a->offset);
        }
    }
}

/* A file that lives in memory, and the name that it can be opened by. */
static int make_file(char path[64], const uint8_t *data, size_t size)
{
    const int fd = memfd_create("gguf", MFD_CLOEXEC);
    need(fd >= 0);
    for (size_t done = 0; done < size;) {
        const ssize_t n = write(fd, data + done, size - done);
        need(n > 0);
        done += (size_t)n;
    }
    snprintf(path, 64, "/proc/self/fd/%d", fd);
    return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64];
    const int fd = make_file(path, data, size);
    counting_allocator counted;
    counting_allocator_init(&counted);
    ig__gguf *gguf;
    ig_error err = {0};
    if (ig__gguf_open(&gguf, &counted.allocator, path, &err) == IG_OK) {
        check_tensors(gguf, size);
        use_everything(gguf);
        ig__gguf_close(gguf);
    } else {
        need(gguf == NULL && is_one_line(&err, path));
    }
    need(counted.n_live == 0);
    /* the window, and what least entries cost: 72 bytes for a key of 14 in the file */
    need(counted.peak_bytes <= (192u << 10) + 10 * size);
    close(fd);
    return 0;
}
