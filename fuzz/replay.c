/* Runs a fuzz target over files and folders of files, with any compiler.
 *
 *     replay_gguf fuzz/seeds/gguf some/crash-file
 *
 * It stops where the target stops; the last name printed is the file. No file at all is a
 * failure: a folder that went missing must not pass for a run.
 */
#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The file's bytes in a block of exactly their size, so that a sanitizer sees a read past
 * them; NULL on failure. */
static uint8_t *read_file(const char *path, size_t *size_out)
{
    FILE *f = fopen(path, "rb");
    struct stat st;
    if (!f || fstat(fileno(f), &st) != 0) {
        if (f)
            fclose(f);
        return NULL;
    }
    *size_out = (size_t)st.st_size;
    uint8_t *data = malloc(*size_out ? *size_out : 1);
    if (data && fread(data, 1, *size_out, f) != *size_out) {
        free(data);
        data = NULL;
    }
    fclose(f);
    return data;
}

/* The number of files that were run; -1 if one could not be read. */
static int replay_file(const char *path)
{
    size_t size;
    printf("%s\n", path);
    fflush(stdout);
    uint8_t *data = read_file(path, &size);
    if (!data) {
        perror(path);
        return -1;
    }
    LLVMFuzzerTestOneInput(data, size);
    free(data);
    return 1;
}

static int replay_folder(const char *path)
{
    struct dirent **entries;
    const int n = scandir(path, &entries, NULL, alphasort);
    if (n < 0)
        return replay_file(path);
    int n_run = 0;
    for (int i = 0; i < n; i++) {
        char file[4096];
        const int length = snprintf(file, sizeof file, "%s/%s", path, entries[i]->d_name);
        const bool hidden = entries[i]->d_name[0] == '.';
        free(entries[i]);
        if (hidden || n_run < 0)
            continue;
        const int more = length < (int)sizeof file ? replay_file(file) : -1;
        n_run = more < 0 ? -1 : n_run + more;
    }
    free(entries);
    return n_run;
}

int main(int argc, char **argv)
{
    int n_run = 0;
    for (int i = 1; i < argc; i++) {
        const int more = replay_folder(argv[i]);
        if (more < 0)
            return 1;
        n_run += more;
    }
    printf("%d files\n", n_run);
    return n_run ? 0 : 1;
}
