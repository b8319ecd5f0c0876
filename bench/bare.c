/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bare shm|cma CPU0 CPU1 ITERATIONS SIZE...
 *
 * What the machine itself takes, without any library: a ping-pong between two processes whose
 * receiver watches the last byte. shm: by memcpy into memory that both have mapped. cma: by
 * process_vm_writev into memory of the other, which is how malloc'ed memory can be reached at all.
 * To be compared with put-mem-lat of utofu-perf. The two processes run on these CPUs.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "measure.h"

/* Mapped by both. */
struct common {
    volatile int ready[2];
    pid_t pid[2];
    void *arriving[2]; /* address in its own process */
};

static struct common *common;
static pid_t parent;
static int cpus[2];

/* In each of the two, first of all. */
static void settle(int me)
{
    cpu_set_t set;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
    if (getppid() != parent)
        _exit(1);
    CPU_ZERO(&set);
    CPU_SET((size_t)cpus[me], &set);
    if (sched_setaffinity(0, sizeof(set), &set) != 0) {
        fprintf(stderr, "bare: CPU %d: %s\n", cpus[me], strerror(errno));
        exit(1);
    }
}

static void await(const volatile uint8_t *at, uint8_t value)
{
    for (unsigned int spins = 1; *at != value; spins++)
        if (spins % 4096 == 0)
            sched_yield();
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
}

static void put(bool cma, int to, const uint8_t *from, uint8_t *shared, size_t size)
{
    struct iovec lcl = {(void *)(uintptr_t)from, size};
    struct iovec rmt = {common->arriving[to], size};

    if (!cma) {
        memcpy(shared, from, size - 1);
        __atomic_store_n(shared + size - 1, from[size - 1], __ATOMIC_RELEASE);
    } else if (process_vm_writev(common->pid[to], &lcl, 1, &rmt, 1, 0) != (ssize_t)size) {
        fprintf(stderr, "bare: process_vm_writev: %s\n", strerror(errno));
        exit(1);
    }
}

/* me 0 measures. `shared` is what both map: the arriving areas of 0 and 1. */
static void run(int me, bool cma, uint8_t *shared, size_t size, long iterations)
{
    long warmup = iterations / 10 + 1;
    uint8_t *from = malloc(size), *own = malloc(size);
    float *samples = malloc((size_t)iterations * sizeof(*samples));

    if (!from || !own || !samples)
        exit(1);
    memset(from, 0, size);
    memset(own, 0, size);
    uint8_t *arriving = cma ? own : shared + (size_t)me * size;
    uint8_t *remote = shared + (size_t)(1 - me) * size;
    common->pid[me] = getpid();
    common->arriving[me] = arriving;
    __atomic_store_n(&common->ready[me], 1, __ATOMIC_RELEASE);
    while (!__atomic_load_n(&common->ready[1 - me], __ATOMIC_ACQUIRE))
        sched_yield();

    double begin = bench_now(), first = begin;
    for (long i = 0; i < warmup + iterations; i++) {
        uint8_t value = (uint8_t)(i % 255 + 1);
        if (i == warmup)
            first = begin;
        if (me == 1)
            await(arriving + size - 1, value);
        from[size - 1] = value;
        put(cma, 1 - me, from, remote, size);
        if (me == 0)
            await(arriving + size - 1, value);
        double end = bench_now();
        if (i >= warmup)
            samples[i - warmup] = (float)((end - begin) / 2);
        begin = end;
    }
    if (me == 0)
        bench_print(cma ? "bare-cma" : "bare-shm", size, samples, (size_t)iterations,
                    2.0 * (double)iterations, begin - first);
    free(from);
    free(own);
    free(samples);
}

static int pair(bool cma, size_t size, long iterations)
{
    int status, other;
    uint8_t *shared =
        mmap(NULL, 2 * size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    common = mmap(NULL, sizeof(*common), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED || common == MAP_FAILED)
        return 1;
    pid_t child = fork();
    if (child == 0) {
        settle(1);
        run(1, cma, shared, size, iterations);
        while (1)
            pause(); /* the parent may still write here; it ends this process */
    }
    pid_t measuring = fork();
    if (measuring == 0) {
        settle(0);
        run(0, cma, shared, size, iterations);
        exit(0);
    }
    waitpid(measuring, &status, 0);
    kill(child, SIGKILL);
    waitpid(child, &other, 0);
    munmap(shared, 2 * size);
    munmap(common, sizeof(*common));
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

int main(int argc, char **argv)
{
    int rc = 0;

    if (argc < 6 || (strcmp(argv[1], "shm") != 0 && strcmp(argv[1], "cma") != 0)) {
        fprintf(stderr, "usage: bare shm|cma CPU0 CPU1 ITERATIONS SIZE...\n");
        return 2;
    }
    parent = getpid();
    long iterations = bench_number("bare", argv[4], 1, 100000000);
    for (int i = 0; i < 2; i++)
        cpus[i] = (int)bench_number("bare", argv[2 + i], 0, CPU_SETSIZE - 1);
    for (int a = 5; a < argc && rc == 0; a++)
        rc = pair(strcmp(argv[1], "cma") == 0, (size_t)bench_number("bare", argv[a], 1, 1 << 30),
                  iterations);
    return rc;
}
