/* The affinity mask, and the quotas of control groups, version 2 (cpu.max) and 1
 * (cpu.cfs_quota_us). A quota holds for all groups below it: the smallest on the way from this
 * process's group to the root counts. In a container the way may lead through folders that are
 * not there; its root then has the container's own. */
#include "base/cores.h"

#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* The first numbers of a file: how many of n there are. "max", and -1 for none, are no
 * numbers above 0. */
static int read_numbers(long long *numbers, int n, const char *folder, const char *name)
{
    char path[1024];
    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path)
        return 0;
    FILE *f = fopen(path, "r");
    if (!f)
        return 0;
    int got = 0;
    while (got < n && fscanf(f, "%lld", &numbers[got]) == 1)
        got++;
    fclose(f);
    return got;
}

/* The quota of one group's folder in whole cores, rounded up; 0: none. */
static int quota_of(const char *folder, bool v2)
{
    long long n[2] = {0, 0};
    const bool there = v2 ? read_numbers(n, 2, folder, "cpu.max") == 2
                          : read_numbers(n, 1, folder, "cpu.cfs_quota_us") &&
                                read_numbers(n + 1, 1, folder, "cpu.cfs_period_us");
    if (!there || n[0] <= 0 || n[1] <= 0)
        return 0;
    const long long cores = n[0] / n[1] + (n[0] % n[1] != 0);
    return cores > INT_MAX ? INT_MAX : (int)cores;
}

static int smaller(int a, int b) /* 0: none */
{
    return a && (!b || a < b) ? a : b;
}

/* The smallest quota from root/group up to root. */
static int quota_on_way(const char *root, const char *group, bool v2)
{
    char folder[1024];
    const size_t n_root = strlen(root);
    if (snprintf(folder, sizeof folder, "%s%s", root, group) >= (int)sizeof folder)
        return 0;
    for (int least = 0;;) {
        least = smaller(quota_of(folder, v2), least);
        char *slash = strrchr(folder + n_root, '/');
        if (!slash)
            return least;
        *slash = 0;
    }
}

/* Does the list "a,b,c" of a line of /proc/self/cgroup name the controller cpu? */
static bool has_cpu(const char *list, size_t n)
{
    for (const char *end = list + n; list < end;) {
        const size_t word = strcspn(list, ",:");
        if (word == 3 && !strncmp(list, "cpu", 3))
            return true;
        list += word + 1;
    }
    return false;
}

static int cgroup_quota(void)
{
    FILE *f = fopen("/proc/self/cgroup", "r");
    if (!f)
        return 0;
    char line[1024];
    int least = 0;
    while (fgets(line, sizeof line, f)) { /* "0::GROUP" or "3:cpu,cpuacct:GROUP" */
        line[strcspn(line, "\n")] = 0;
        char *list = strchr(line, ':'), *group = list ? strchr(list + 1, ':') : NULL;
        if (!group)
            continue;
        list++;
        if (list == group)
            least = smaller(quota_on_way("/sys/fs/cgroup", group + 1, true), least);
        else if (has_cpu(list, (size_t)(group - list)))
            least = smaller(quota_on_way("/sys/fs/cgroup/cpu", group + 1, false), least);
    }
    fclose(f);
    return least;
}

int ig__cores_allowed(char *reason, size_t cap)
{
    cpu_set_t set;
    int cores = 1;
    if (!sched_getaffinity(0, sizeof set, &set))
        cores = CPU_COUNT(&set);
    const int quota = cgroup_quota();
    if (quota && quota < cores) {
        snprintf(reason, cap, "the cgroup's quota is %d of %d cores", quota, cores);
        return quota;
    }
    snprintf(reason, cap, "%d core%s in the affinity mask", cores, cores == 1 ? "" : "s");
    return cores;
}
