/* SPDX-License-Identifier: Apache-2.0 */
#include "run/cores.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { PATH_BYTES = 4096, LIST_BYTES = 4096 };

int run_cpus_allowed(union run_cpus *allowed)
{
    memset(allowed, 0, sizeof(*allowed));
    return sched_getaffinity(0, sizeof(*allowed), &allowed->set) == 0 ? 0 : -errno;
}

/* Reads the first line of a CPU's file; false: no such file. */
static bool read_topology(const char *sysfs, uint32_t cpu, const char *file, char text[LIST_BYTES])
{
    char path[PATH_BYTES];

    snprintf(path, sizeof(path), "%s/cpu%u/topology/%s", sysfs, cpu, file);
    FILE *f = fopen(path, "re");
    if (!f)
        return false;
    bool good = fgets(text, LIST_BYTES, f) != NULL;
    fclose(f);
    return good && *text >= '0' && *text <= '9';
}

/* The core's identifier. The lists are in ascending order; core_cpus_list is the newer name. */
static uint32_t first_of_core(const char *sysfs, uint32_t cpu)
{
    char text[LIST_BYTES];

    if (!read_topology(sysfs, cpu, "core_cpus_list", text) &&
        !read_topology(sysfs, cpu, "thread_siblings_list", text))
        return cpu;
    return (uint32_t)strtoul(text, NULL, 10);
}

static uint32_t package_of(const char *sysfs, uint32_t cpu)
{
    char text[LIST_BYTES];

    return read_topology(sysfs, cpu, "physical_package_id", text)
               ? (uint32_t)strtoul(text, NULL, 10)
               : 0;
}

static int compare(const void *a, const void *b)
{
    const struct run_core *x = a, *y = b;

    if (x->package != y->package)
        return x->package < y->package ? -1 : 1;
    return (x->first > y->first) - (x->first < y->first);
}

int run_cores_find(const char *sysfs, const union run_cpus *allowed, struct run_core **cores)
{
    int n = 0;

    *cores = calloc((size_t)CPU_COUNT_S(sizeof(*allowed), &allowed->set) + 1, sizeof(**cores));
    if (!*cores)
        return -ENOMEM;
    for (uint32_t cpu = 0; cpu < RUN_MAX_CPUS; cpu++) {
        if (!CPU_ISSET_S(cpu, sizeof(*allowed), &allowed->set))
            continue;
        uint32_t first = first_of_core(sysfs, cpu);
        int c = 0;
        while (c < n && (*cores)[c].first != first)
            c++;
        if (c == n)
            (*cores)[n++] = (struct run_core){package_of(sysfs, cpu), first, {.bytes = {0}}};
        CPU_SET_S(cpu, sizeof((*cores)[c].cpus), &(*cores)[c].cpus.set);
    }
    qsort(*cores, (size_t)n, sizeof(**cores), compare);
    return n;
}

/* A reservation is an abstract unix socket with the core's name, which disappears with its owner,
 * however the owner ends. Returns the descriptor, or -1 if another job has the core. */
static int reserve(uint32_t first)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    int n = snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1, "utofurun.core.%u", first);

    if (fd < 0)
        return -1;
    if (bind(fd, (struct sockaddr *)&name,
             (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n)) == 0)
        return fd;
    close(fd);
    return -1;
}

bool run_cores_reserve(struct run_core *cores, uint32_t num_cores, uint32_t wanted)
{
    uint32_t got = 0;
    int *fds = calloc(wanted, sizeof(*fds));

    for (uint32_t c = 0; fds && c < num_cores && got < wanted; c++) {
        int fd = reserve(cores[c].first);
        if (fd < 0)
            continue;
        struct run_core core = cores[c];
        memmove(&cores[got + 1], &cores[got], (c - got) * sizeof(core));
        cores[got] = core;
        fds[got++] = fd;
    }
    for (uint32_t i = 0; got < wanted && i < got; i++)
        close(fds[i]);
    free(fds);
    return got == wanted;
}
