/* SPDX-License-Identifier: Apache-2.0 */
/* The cores that utofurun finds, in folders laid out like /sys/devices/system/cpu, and reserves. */
#include "run/cores.h"

#include <criterion/criterion.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char sysfs[64];

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st;
    (void)flag;
    (void)ftw;
    return remove(path);
}

static void make_sysfs(void)
{
    strcpy(sysfs, "/tmp/utofu-cores.XXXXXX");
    cr_assert(mkdtemp(sysfs));
}

static void remove_sysfs(void)
{
    nftw(sysfs, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static void write_text(const char *folder, const char *file, const char *text)
{
    char path[256];

    snprintf(path, sizeof(path), "%s/%s", folder, file);
    FILE *f = fopen(path, "w");
    cr_assert(f);
    fprintf(f, "%s\n", text);
    fclose(f);
}

static void add_cpu(unsigned int cpu, const char *list_file, const char *siblings,
                    const char *package)
{
    char folder[128];

    snprintf(folder, sizeof(folder), "%s/cpu%u", sysfs, cpu);
    mkdir(folder, 0700);
    strcat(folder, "/topology");
    mkdir(folder, 0700);
    write_text(folder, list_file, siblings);
    write_text(folder, "physical_package_id", package);
}

static void allow(union run_cpus *cpus, uint32_t from, uint32_t to)
{
    for (uint32_t cpu = from; cpu <= to; cpu++)
        CPU_SET_S(cpu, sizeof(*cpus), &cpus->set);
}

static bool has(const struct run_core *core, uint32_t a, uint32_t b)
{
    return CPU_ISSET_S(a, sizeof(core->cpus), &core->cpus.set) &&
           CPU_ISSET_S(b, sizeof(core->cpus), &core->cpus.set) &&
           CPU_COUNT_S(sizeof(core->cpus), &core->cpus.set) == (a == b ? 1 : 2);
}

TestSuite(cores, .init = make_sysfs, .fini = remove_sysfs);

/* Four cores of two hyperthreads: CPU n and n + 4 are one core. */
Test(cores, hyperthreads_are_one_core)
{
    static const char *const siblings[] = {"0,4", "1,5", "2,6", "3,7"};
    union run_cpus allowed = {.bytes = {0}};
    struct run_core *cores;

    for (unsigned int cpu = 0; cpu < 8; cpu++)
        add_cpu(cpu, "core_cpus_list", siblings[cpu % 4], "0");
    allow(&allowed, 0, 7);
    cr_assert_eq(run_cores_find(sysfs, &allowed, &cores), 4);
    for (uint32_t c = 0; c < 4; c++)
        cr_assert(has(&cores[c], c, c + 4), "core %u", c);
    free(cores);
}

/* Older kernels; and sockets whose CPU numbers alternate come one after the other. */
Test(cores, one_package_comes_after_the_other)
{
    union run_cpus allowed = {.bytes = {0}};
    struct run_core *cores;

    add_cpu(0, "thread_siblings_list", "0-1", "0");
    add_cpu(1, "thread_siblings_list", "0-1", "0");
    add_cpu(2, "thread_siblings_list", "2-3", "1");
    add_cpu(3, "thread_siblings_list", "2-3", "1");
    add_cpu(4, "thread_siblings_list", "4-5", "0");
    add_cpu(5, "thread_siblings_list", "4-5", "0");
    allow(&allowed, 0, 5);
    cr_assert_eq(run_cores_find(sysfs, &allowed, &cores), 3);
    cr_assert(has(&cores[0], 0, 1) && has(&cores[1], 4, 5) && has(&cores[2], 2, 3));
    free(cores);
}

/* A cpuset may have one hyperthread of a core, or the second one alone. */
Test(cores, only_cpus_that_may_be_used_count)
{
    union run_cpus allowed = {.bytes = {0}};
    struct run_core *cores;

    for (unsigned int cpu = 0; cpu < 4; cpu++)
        add_cpu(cpu, "core_cpus_list", cpu < 2 ? "0-1" : "2-3", "0");
    allow(&allowed, 1, 2);
    cr_assert_eq(run_cores_find(sysfs, &allowed, &cores), 2);
    cr_assert(has(&cores[0], 1, 1) && has(&cores[1], 2, 2));
    cr_assert_eq(cores[0].first, 0, "another job may have the other hyperthread");
    free(cores);
}

Test(cores, a_cpu_without_description_is_a_core)
{
    union run_cpus allowed = {.bytes = {0}};
    struct run_core *cores;

    allow(&allowed, 3, 4);
    allow(&allowed, 5000, 5000);
    cr_assert_eq(run_cores_find(sysfs, &allowed, &cores), 3);
    cr_assert(has(&cores[0], 3, 3) && has(&cores[1], 4, 4) && has(&cores[2], 5000, 5000));
    free(cores);
}

/* Core numbers that no machine has, so that no job of this machine reserves them. */
static void make_cores(struct run_core *cores, uint32_t n)
{
    memset(cores, 0, n * sizeof(*cores));
    for (uint32_t c = 0; c < n; c++)
        cores[c].first = 1000000u + (uint32_t)getpid() * 16 + c;
}

Test(cores, a_core_is_reserved_once)
{
    struct run_core *mine = calloc(4, sizeof(*mine)), *yours = calloc(4, sizeof(*yours));

    make_cores(mine, 4);
    make_cores(yours, 4);
    cr_assert(run_cores_reserve(mine, 4, 2));
    cr_assert(!run_cores_reserve(yours, 4, 3), "two of the four are reserved");
    cr_assert(run_cores_reserve(yours, 4, 2), "the attempt above kept none");
    cr_assert_eq(yours[0].first, mine[2].first);
    cr_assert_eq(yours[1].first, mine[3].first);
    cr_assert(!run_cores_reserve(mine, 4, 1));
    free(mine);
    free(yours);
}
