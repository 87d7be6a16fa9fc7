/* Available memory on Linux: MemAvailable of /proc/meminfo, and memory.max less memory.current
 * of each control group (version 2) from this process's up to the root.
 */
#include "base/available.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* MemAvailable counts what can be had without swapping, caches included. */
static size_t system_available(void)
{
    size_t found = SIZE_MAX;
    FILE *f = fopen("/proc/meminfo", "r");
    if (!f)
        return found;
    char line[256];
    unsigned long long kib;
    while (fgets(line, sizeof line, f))
        if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1 && kib <= SIZE_MAX / 1024)
            found = (size_t)kib * 1024;
    fclose(f);
    return found;
}

/* The number in a file of a control group; SIZE_MAX: "max", or no such file. */
static size_t number_in(const char *folder, const char *name)
{
    char path[600];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "r");
    if (!f)
        return SIZE_MAX;
    unsigned long long value;
    const int n = fscanf(f, "%llu", &value);
    fclose(f);
    return n == 1 && value < SIZE_MAX ? (size_t)value : SIZE_MAX;
}

/* The value of a key of memory.stat; 0: not there. */
static size_t stat_in(const char *folder, const char *key)
{
    char path[600], line[128];
    snprintf(path, sizeof path, "%s/memory.stat", folder);
    FILE *f = fopen(path, "r");
    if (!f)
        return 0;
    const size_t n_key = strlen(key);
    unsigned long long value = 0;
    while (fgets(line, sizeof line, f))
        if (!strncmp(line, key, n_key) && line[n_key] == ' ')
            sscanf(line + n_key, "%llu", &value);
    fclose(f);
    return (size_t)value;
}

/* What the group leaves of its limit; the pages of files that nobody used lately count as
 * left, as in MemAvailable. */
static size_t group_available(const char *folder)
{
    const size_t limit = number_in(folder, "memory.max");
    const size_t current = number_in(folder, "memory.current");
    if (limit == SIZE_MAX || current == SIZE_MAX)
        return SIZE_MAX;
    const size_t idle = stat_in(folder, "inactive_file");
    const size_t taken = current > idle ? current - idle : 0;
    return limit > taken ? limit - taken : 0;
}

size_t ig__memory_available(void)
{
    size_t least = system_available();
    char line[512], folder[540] = "";
    FILE *f = fopen("/proc/self/cgroup", "r");
    if (!f)
        return least;
    while (fgets(line, sizeof line, f))
        if (!strncmp(line, "0::", 3))
            snprintf(folder, sizeof folder, "/sys/fs/cgroup%.*s",
                     (int)strcspn(line + 3, "\n"), line + 3);
    fclose(f);
    while (strlen(folder) >= strlen("/sys/fs/cgroup")) {
        const size_t left = group_available(folder);
        if (left < least)
            least = left;
        *strrchr(folder, '/') = 0;
    }
    return least;
}
