/* Fuzz target: an .npz archive. Opening it and reading all of it must end in success or one clean error, and
 * what is taken stays in proportion: at most what deflate can make of the input. */

#include "ingot/npy.h"

#include <sys/mman.h>
#include <unistd.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

enum { BUDGET = 8 << 20 };

static void read_all(ig_context *ctx, const char *path, size_t n)
{
    ig_npz *npz;
    ig_error error = {0};
    if (ig_npz_open(&npz, ctx, path, &error) != IG_OK) {
        if (npz || !error.message[0] || strchr(error.message, '\n'))
            abort();
        return;
    }
    for (int64_t i = 0; i < ig_npz_count(npz); i++) {
        ig_scope *scope = ig_scope_begin(ctx);
        ig_tensor *x = ig_npz_read(npz, ig_npz_name(npz, i), &error);
        if (x ? ig_tensor_bytes(x) / 1100 > n : !error.message[0])
            abort();
        if (ig_context_status(ctx) != IG_OK)
            abort();
        ig_scope_end(scope);
    }
    ig_npz_close(npz);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    char path[64];
    const int fd = memfd_create("npz", MFD_CLOEXEC);
    if (fd < 0 || write(fd, data, n) != (ssize_t)n)
        return 0;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    ig_context *ctx;
    const ig_context_opts opts = {.n_threads = 1, .tensor_budget = BUDGET};
    if (ig_context_create(&ctx, &opts, NULL) == IG_OK) {
        read_all(ctx, path, n);
        ig_context_destroy(ctx);
    }
    close(fd);
    return 0;
}
