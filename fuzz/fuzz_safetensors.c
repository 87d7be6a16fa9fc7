/* Fuzz target: a safetensors file. Opening and reading all of it must end in success or one clean error. */

#include "ingot/tensor_file.h"

#include <sys/mman.h>
#include <unistd.h>

#include <stdio.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    char path[64];
    const int fd = memfd_create("safetensors", MFD_CLOEXEC);
    if (fd < 0 || write(fd, data, n) != (ssize_t)n)
        return 0;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    ig_context *ctx;
    ig_tensor_file *file;
    const ig_context_opts opts = {.n_threads = 1};
    if (ig_context_create(&ctx, &opts, NULL) == IG_OK) {
        if (ig_tensor_file_open(&file, ctx, path, NULL) == IG_OK)
            for (int64_t i = 0; i < ig_tensor_file_count(file); i++)
                ig_tensor_file_read(file, ig_tensor_file_info(file, i).name, NULL);
        ig_tensor_file_close(file);
        ig_context_destroy(ctx);
    }
    close(fd);
    return 0;
}
