/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scale PROCESSES [NEIGHBOURS]
 *
 * The cost of first contact in jobs of different sizes on one host: every process creates a VCQ and
 * puts eight bytes to every other one, or to the next NEIGHBOURS. Prints the maximum time of a
 * process for each part, and the CPU time of all processes; both also divided by the number of
 * puts; and the median of a connected process's memory and file descriptors. Processes that share a
 * CPU yield it after an empty poll.
 */
#include <dirent.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "measure.h" /* before forked.h, which has a variable named size */

#include "forked.h"
#include "utofu.h"

enum { MAX_PROCESSES = 4096, STAG = 7, LOOK_US = 20000 };

static struct world {
    uint32_t here, done, seen;
    utofu_vcq_id_t ids[MAX_PROCESSES];
    double create[MAX_PROCESSES], puts[MAX_PROCESSES];
    /* with all connections: KiB of private memory, KiB of page tables, file descriptors */
    double anonymous[MAX_PROCESSES], tables[MAX_PROCESSES], descriptors[MAX_PROCESSES];
} * world;

static int neighbours;

static void put_to_neighbours(utofu_vcq_hdl_t vcq)
{
    void *cbdata;
    int rc;

    for (int i = 1; i <= neighbours; i++) {
        int to = (rank + i) % size;
        utofu_stadd_t stadd;
        CHECK(utofu_query_stadd(world->ids[to], STAG, &stadd) == UTOFU_SUCCESS);
        while ((rc = utofu_put_piggyback8(vcq, world->ids[to], (uint64_t)rank,
                                          stadd + 8 * (uint64_t)rank, 8, 0,
                                          UTOFU_ONESIDED_FLAG_TCQ_NOTICE, NULL)) == UTOFU_ERR_BUSY)
            sched_yield();
        CHECK(rc == UTOFU_SUCCESS);
    }
    for (int i = 0; i < neighbours; i++) {
        while ((rc = utofu_poll_tcq(vcq, 0, &cbdata)) == UTOFU_ERR_NOT_FOUND)
            sched_yield();
        CHECK(rc == UTOFU_SUCCESS);
    }
}

static void look_at_memory(void)
{
    char line[256];
    FILE *file = fopen("/proc/self/status", "r");

    CHECK(file);
    while (fgets(line, sizeof(line), file)) {
        sscanf(line, "RssAnon: %lf kB", &world->anonymous[rank]);
        sscanf(line, "VmPTE: %lf kB", &world->tables[rank]);
    }
    fclose(file);
    DIR *folder = opendir("/proc/self/fd");
    CHECK(folder);
    while (readdir(folder))
        world->descriptors[rank]++;
    closedir(folder);
    world->descriptors[rank] -= 3; /* "." and "..", and the folder's descriptor */
}

static int be_process(void)
{
    static uint64_t words[MAX_PROCESSES] __attribute__((aligned(4096)));
    utofu_vcq_hdl_t vcq;
    utofu_stadd_t stadd;
    int failed = 0;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    memset(words, 0xff, sizeof(words));
    double start = bench_now();
    CHECK(utofu_create_vcq(0, 0, &vcq) == UTOFU_SUCCESS);
    CHECK(utofu_reg_mem_with_stag(vcq, words, sizeof(words), STAG, 0, &stadd) == UTOFU_SUCCESS);
    CHECK(utofu_query_vcq_id(vcq, &world->ids[rank]) == UTOFU_SUCCESS);
    world->create[rank] = (bench_now() - start) * 1e-6;
    await_all(&world->here, LOOK_US);
    start = bench_now();
    put_to_neighbours(vcq);
    world->puts[rank] = (bench_now() - start) * 1e-6;
    await_all(&world->done, LOOK_US);
    look_at_memory();
    await_all(&world->seen, LOOK_US);
    for (int i = 1; i <= neighbours; i++) {
        int from = (rank - i + size) % size;
        failed += __atomic_load_n(&words[from], __ATOMIC_RELAXED) != (uint64_t)from;
    }
    return failed != 0;
}

static double maximum_of(const double *of)
{
    double max = 0;

    for (int i = 0; i < size; i++)
        max = of[i] > max ? of[i] : max;
    return max;
}

int main(int argc, char **argv)
{
    struct rusage use;

    size = argc > 1 ? atoi(argv[1]) : 0;
    neighbours = argc > 2 ? atoi(argv[2]) : size - 1;
    if (size < 2 || size > MAX_PROCESSES || neighbours < 1 || neighbours >= size) {
        fprintf(stderr, "usage: %s PROCESSES [NEIGHBOURS]; 2 to %d processes\n", argv[0],
                MAX_PROCESSES);
        return 2;
    }
    bench_find_counter(); /* before there are processes */
    world = shared_memory(sizeof(*world));
    if (run_processes("utofu-scale", be_process))
        return 1;
    getrusage(RUSAGE_CHILDREN, &use);
    double cpu = (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
                 (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec) * 1e-6;
    double us = 1e6 / size / neighbours;
    printf("processes %d neighbours %d: create a VCQ %.3f s, all puts reported %.3f s, CPU %.3f s; "
           "for each put %.0f us, CPU %.0f us; a process has %.0f KiB of its own, %.0f KiB of page "
           "tables, %.0f descriptors\n",
           size, neighbours, maximum_of(world->create), maximum_of(world->puts), cpu,
           maximum_of(world->puts) * us, cpu * us, bench_quantile(world->anonymous, size, 0.5),
           bench_quantile(world->tables, size, 0.5), bench_quantile(world->descriptors, size, 0.5));
    return 0;
}
